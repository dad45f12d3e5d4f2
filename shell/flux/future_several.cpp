// SPDX-License-Identifier: Apache-2.0
//
// <flux/future.h>: composite futures, and futures that follow each other.
#include <algorithm>

#include "flux/future.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT

namespace {

enum class Wanted { all, any };

// Fulfils with the error of the first child, by name, that has one.
void judge_children(flux_future& self, Wanted wanted) {
  if (self.ready()) return;
  auto is_ready = [](const auto& each) { return each.second->ready(); };
  bool done = wanted == Wanted::all ? std::all_of(self.children.begin(), self.children.end(), is_ready)
                                    : std::any_of(self.children.begin(), self.children.end(), is_ready);
  if (!done) return;
  for (const auto& [name, child] : self.children) {
    if (!flux_future_has_error(child)) continue;
    return flux_future_fulfill_error(&self, child->front().errnum, flux_future_error_string(child));
  }
  flux_future_fulfill(&self, nullptr, nullptr);
}

flux_future_t* composite(Wanted wanted) {
  auto* f = new flux_future(nullptr, nullptr);
  f->begin = [wanted](flux_future& self, flux_future::When when, flux_reactor* reactor) {
    for (const auto& [name, child] : self.children) {
      Result<void> armed = child->arm(when, reactor, [&self, wanted] { judge_children(self, wanted); });
      if (!armed) flux_future_fatal_error(&self, armed.error().code, armed.error().message.c_str());
    }
  };
  return f;
}

enum class After { result, error };

// `prev` is ready: calls the continuation if it is for this result; a result that it does not continue is passed
// on.
void go_on(flux_future& self, After after, flux_continuation_f cb, void* arg, const Callback& owner) {
  flux_future* prev = self.previous;
  if (prev == nullptr || self.ready()) return;
  bool failed = flux_future_has_error(prev);
  self.continued = false;
  if (cb != nullptr && failed == (after == After::error)) {
    flux_future_incref(&self);
    owner.run([=] { cb(prev, arg); });
    bool done = self.continued || self.previous != prev;
    flux_future_decref(&self);
    if (done) return;
  }
  flux_future_fulfill_with(&self, prev);
}

flux_future_t* chain(flux_future_t* f, After after, flux_continuation_f cb, void* arg) {
  if (f == nullptr) return none(EINVAL);
  if (f->next != nullptr) return none(EEXIST);
  auto* next = new flux_future(nullptr, nullptr);
  next->previous = f;
  next->handle = f->handle;
  f->next = next;
  Callback owner("future continuation");
  next->begin = [=](flux_future& self, flux_future::When when, flux_reactor* reactor) {
    if (self.previous == nullptr) return;
    auto call = [=, &self] { go_on(self, after, cb, arg, owner); };
    Result<void> armed = self.previous->arm(when, reactor, call);
    if (!armed) flux_future_fatal_error(&self, armed.error().code, armed.error().message.c_str());
  };
  return next;
}

// The future that follows `prev`, if this is called within the continuation between them.
flux_future* next_of(flux_future_t* prev) {
  if (prev == nullptr) return none(EINVAL);
  if (prev->next == nullptr) return none(ENOENT);
  prev->next->continued = true;
  return prev->next;
}

}  // namespace

// ---- composite -------------------------------------------------------------------

flux_future_t* flux_future_wait_all_create() noexcept { return composite(Wanted::all); }
flux_future_t* flux_future_wait_any_create() noexcept { return composite(Wanted::any); }

int flux_future_push(flux_future_t* cf, const char* name, flux_future_t* f) noexcept {
  if (cf == nullptr || f == nullptr || !cf->begin) return fail(EINVAL);
  std::string key = name != nullptr ? name : std::to_string(cf->children.size());
  if (!cf->children.try_emplace(key, f).second) return fail(EEXIST);
  // it was pushed while the parent is waited for, so it is waited for too
  for (auto when : {flux_future::When::then, flux_future::When::now}) {
    flux_future::Context& context = cf->context(when);
    if (context.begun && context.reactor != nullptr) cf->begin(*cf, when, context.reactor);
  }
  return 0;
}

const char* flux_future_first_child(flux_future_t* cf) noexcept {
  if (cf == nullptr) return none(EINVAL);
  auto it = cf->children.begin();
  if (it == cf->children.end()) return nullptr;
  cf->listed = it->first;
  return cf->listed.c_str();
}

const char* flux_future_next_child(flux_future_t* cf) noexcept {
  if (cf == nullptr) return none(EINVAL);
  auto it = cf->children.upper_bound(cf->listed);
  if (it == cf->children.end()) return nullptr;
  cf->listed = it->first;
  return cf->listed.c_str();
}

flux_future_t* flux_future_get_child(flux_future_t* cf, const char* name) noexcept {
  if (cf == nullptr || name == nullptr) return none(EINVAL);
  auto it = cf->children.find(name);
  return it != cf->children.end() ? it->second : none(ENOENT);
}

// ---- following each other --------------------------------------------------------

flux_future_t* flux_future_and_then(flux_future_t* f, flux_continuation_f cb, void* arg) noexcept {
  return chain(f, After::result, cb, arg);
}

flux_future_t* flux_future_or_then(flux_future_t* f, flux_continuation_f cb, void* arg) noexcept {
  return chain(f, After::error, cb, arg);
}

int flux_future_continue(flux_future_t* prev, flux_future_t* f) noexcept {
  flux_future* next = next_of(prev);
  if (next == nullptr) return -1;
  if (f == nullptr) return 0;
  // `f` becomes a child of the next one, which is fulfilled by it
  flux_future_decref(std::exchange(next->children["continued"], f));
  bool waiting = next->now.reactor != nullptr;
  flux_future::When when = waiting ? flux_future::When::now : flux_future::When::then;
  flux_reactor* reactor = waiting ? next->now.reactor : next->current_reactor();
  Result<void> armed = f->arm(when, reactor, [next, f] { flux_future_fulfill_with(next, f); });
  return armed ? 0 : fail(armed.error().code);
}

void flux_future_continue_error(flux_future_t* prev, int errnum, const char* errstr) noexcept {
  if (flux_future* next = next_of(prev)) flux_future_fulfill_error(next, errnum, errstr);
}

int flux_future_fulfill_next(flux_future_t* prev, void* result, flux_free_f free_fn) noexcept {
  flux_future* next = next_of(prev);
  if (next == nullptr) return -1;
  flux_future_fulfill(next, result, free_fn);
  return 0;
}
