// SPDX-License-Identifier: Apache-2.0
//
// <flux/future.h>: one future.
#include "flux/future.hpp"

#include <cstring>

#include "flux/handle.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT
using nacre::flux::Outcome;

namespace nacre::flux {

Outcome::Outcome(Outcome&& other) noexcept
    : result(std::exchange(other.result, nullptr)),
      free_fn(std::exchange(other.free_fn, nullptr)),
      with(std::exchange(other.with, nullptr)),
      errnum(other.errnum),
      message(std::move(other.message)),
      has_text(other.has_text) {}

Outcome::~Outcome() {
  if (free_fn != nullptr) free_fn(result);
  flux_future_decref(with);
}

}  // namespace nacre::flux

// ---- the object ----------------------------------------------------------------

flux_future::flux_future(flux_future_init_f init_function, void* argument)
    : init(init_function), init_arg(argument), owner("future callback") {}

flux_future::~flux_future() {
  aux.clear();
  if (next != nullptr && next->previous == this) next->previous = nullptr;
  if (previous != nullptr) {
    previous->next = nullptr;
    flux_future_decref(std::exchange(previous, nullptr));
  }
  for (auto& [name, child] : children) flux_future_decref(child);
  flux_future_decref(source);
  for (Context* each : {&then, &now}) use(*each, nullptr);
}

void flux_future::use(Context& context, flux_reactor* reactor) {
  if (context.reactor == reactor) return;
  flux_reactor_incref(reactor);
  context.soon.reset();
  context.timeout.reset();
  flux_reactor* old = std::exchange(context.reactor, reactor);
  if (old != nullptr && then.reactor != old && now.reactor != old) old->futures.erase(this);
  flux_reactor_decref(old);
}

void flux_future::disarm(flux_reactor* reactor) {
  for (Context* each : {&then, &now}) {
    if (each->reactor != reactor) continue;
    each->soon.reset();
    each->timeout.reset();
  }
}

flux_reactor* flux_future::current_reactor() const {
  if (setting_up != nullptr) return setting_up->reactor;
  if (waiting) return now.reactor;
  if (then.reactor != nullptr) return then.reactor;
  if (handle != nullptr) return handle->reactor;
  flux_shell* shell = current_shell();
  return shell != nullptr ? nacre::flux::handle_of(*shell)->reactor : nullptr;
}

void flux_future::fulfil(Outcome outcome) {
  outcomes.push_back(std::move(outcome));
  schedule(then);
  schedule(now);
}

// The continuation is called from the loop, never from within the call that fulfils.
void flux_future::schedule(Context& context) {
  if (context.armed && ready() && context.soon) context.soon->start(event::Seconds(0));
}

Result<void> flux_future::set_soon(Context& context) {
  auto run = [this, &context] {
    context.armed = false;
    if (context.timeout) context.timeout->stop();
    // the continuation may drop the last reference
    ++references;
    std::function<void()> continuation = context.continuation;
    if (continuation) continuation();
    flux_future_decref(this);
  };
  context.soon.emplace(TRY(event::Timer::create(*context.reactor->loop, run)));
  context.reactor->futures.insert(this);
  return {};
}

Result<void> flux_future::arm(When when, flux_reactor* reactor, std::function<void()> continuation) {
  Context& own = context(when);
  use(own, reactor);
  if (!own.soon) CHECK_OK(set_soon(own));
  own.continuation = std::move(continuation);
  own.armed = true;
  if (!std::exchange(own.begun, true)) {
    const Context* outer = std::exchange(setting_up, &own);
    if (begin) begin(*this, when, reactor);
    if (init != nullptr) owner.run([this] { init(this, init_arg); });
    setting_up = outer;
  }
  schedule(own);
  return {};
}

Result<void> flux_future::start_timeout() {
  if (then.timeout) then.timeout->stop();
  if (then.seconds < 0 || ready()) return {};
  if (!then.timeout) {
    auto late = [this] {
      if (!ready()) flux_future_fulfill_error(this, ETIMEDOUT, nullptr);
    };
    then.timeout.emplace(TRY(event::Timer::create(*then.reactor->loop, late)));
  }
  then.timeout->start(event::Seconds(nacre::flux::never_early(then.seconds)));
  return {};
}

// ---- creation and end ----------------------------------------------------------

flux_future_t* flux_future_create(flux_future_init_f cb, void* arg) noexcept { return new flux_future(cb, arg); }

void flux_future_incref(flux_future_t* f) noexcept {
  if (f != nullptr) ++f->references;
}

void flux_future_decref(flux_future_t* f) noexcept {
  if (f == nullptr || --f->references > 0) return;
  int saved = errno;
  delete f;
  errno = saved;
}

void flux_future_destroy(flux_future_t* f) noexcept { flux_future_decref(f); }

// ---- results -------------------------------------------------------------------

void flux_future_fulfill(flux_future_t* f, void* result, flux_free_f free_fn) noexcept {
  if (f != nullptr) f->fulfil({result, free_fn});
}

void flux_future_fulfill_error(flux_future_t* f, int errnum, const char* errstr) noexcept {
  if (f != nullptr) f->fulfil({errnum != 0 ? errnum : EINVAL, errstr});
}

void flux_future_fatal_error(flux_future_t* f, int errnum, const char* errstr) noexcept {
  if (f == nullptr || f->fatal) return;
  f->fatal.emplace(errnum != 0 ? errnum : EINVAL, errstr);
  f->fulfil({});
}

int flux_future_fulfill_with(flux_future_t* f, flux_future_t* p) noexcept {
  if (f == nullptr || p == nullptr || f == p) return fail(EINVAL);
  if (!p->ready()) return fail(EAGAIN);
  if (f->source != nullptr && f->source != p) return fail(EEXIST);
  if (f->source == nullptr) {
    f->source = p;
    flux_future_incref(p);
  }
  if (p->fatal) {
    flux_future_fatal_error(f, p->fatal->errnum, p->fatal->has_text ? p->fatal->message.c_str() : nullptr);
    return 0;
  }
  const Outcome& of = p->front();
  if (of.errnum != 0) {
    f->fulfil({of.errnum, of.has_text ? of.message.c_str() : nullptr});
    return 0;
  }
  Outcome same(of.result, nullptr);
  flux_future_incref(p);
  same.with = p;
  f->fulfil(std::move(same));
  return 0;
}

bool flux_future_is_ready(flux_future_t* f) noexcept { return f != nullptr && f->ready(); }

bool flux_future_has_error(flux_future_t* f) noexcept {
  return f != nullptr && f->ready() && f->front().errnum != 0;
}

const char* flux_future_error_string(flux_future_t* f) noexcept {
  if (!flux_future_has_error(f)) return nullptr;
  const Outcome& error = f->front();
  return error.has_text ? error.message.c_str() : std::strerror(error.errnum);
}

const char* flux_strerror(int errnum) noexcept { return std::strerror(errnum); }

int flux_future_get(flux_future_t* f, const void** result) {
  if (f == nullptr) return fail(EINVAL);
  if (flux_future_wait_for(f, -1) < 0) return -1;
  const Outcome& outcome = f->front();
  if (outcome.errnum != 0) return fail(outcome.errnum);
  if (result != nullptr) *result = outcome.result;
  return 0;
}

void flux_future_reset(flux_future_t* f) noexcept {
  if (f == nullptr) return;
  if (!f->outcomes.empty()) f->outcomes.pop_front();
  if (!f->then.continuation) return;
  Result<void> armed = f->arm(flux_future::When::then, f->then.reactor, f->then.continuation);
  if (armed) armed = f->start_timeout();
  if (!armed) f->fatal.emplace(armed.error().code, armed.error().message.c_str());
}

// ---- waiting -------------------------------------------------------------------

int flux_future_then(flux_future_t* f, double timeout, flux_continuation_f cb, void* arg) noexcept {
  if (f == nullptr || cb == nullptr) return fail(EINVAL);
  if (f->handle != nullptr) flux_get_reactor(f->handle);  // makes that of an interthread handle
  flux_reactor* reactor = f->then.reactor != nullptr ? f->then.reactor : f->current_reactor();
  if (reactor == nullptr) return fail(EINVAL);
  Callback owner("future continuation");
  auto call = [f, cb, arg, owner] { owner.run([=] { cb(f, arg); }); };
  if (Result<void> armed = f->arm(flux_future::When::then, reactor, call); !armed) {
    return fail(armed.error().code);
  }
  f->then.seconds = timeout;
  return fail_with(f->start_timeout());
}

// ---- aux items -----------------------------------------------------------------

int flux_future_aux_set(flux_future_t* f, const char* name, void* aux, flux_free_f destroy) noexcept {
  if (f == nullptr) return fail(EINVAL);
  Result<void> set = f->aux.set(name, aux, destroy);
  return set ? 0 : fail(set.error().code);
}

void* flux_future_aux_get(flux_future_t* f, const char* name) noexcept {
  if (f == nullptr || name == nullptr) return none(EINVAL);
  for (flux_future* each = f; each != nullptr; each = each->source) {
    if (void* found = each->aux.get(name)) return found;
  }
  return none(ENOENT);
}

void flux_future_set_reactor(flux_future_t* f, flux_reactor_t* r) noexcept {
  if (f == nullptr) return;
  f->use(f->then, r);
}

flux_reactor_t* flux_future_get_reactor(flux_future_t* f) noexcept {
  if (f == nullptr) return none(EINVAL);
  flux_reactor* reactor = f->current_reactor();
  return reactor != nullptr ? reactor : none(EINVAL);
}

void flux_future_set_flux(flux_future_t* f, flux_t* h) noexcept {
  if (f != nullptr) f->handle = h;
}

flux_t* flux_future_get_flux(flux_future_t* f) noexcept {
  if (f == nullptr || f->handle == nullptr) return none(EINVAL);
  return f->handle;
}
