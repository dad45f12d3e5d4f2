// SPDX-License-Identifier: Apache-2.0
//
// <flux/future.h>: one future.

#include "flux/flux.hpp"

#include <unistd.h>

#include "job/options.hpp"

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

// ---- future several ---------------------------------------------------------------------
//
// <flux/future.h>: composite futures, and futures that follow each other.

namespace {

enum class WaitFor { all, any };

// Fulfils with the error of the first child, by name, that has one.
void judge_children(flux_future& self, WaitFor which) {
  if (self.ready()) return;
  auto is_ready = [](const auto& each) { return each.second->ready(); };
  bool done = which == WaitFor::all ? std::all_of(self.children.begin(), self.children.end(), is_ready)
                                    : std::any_of(self.children.begin(), self.children.end(), is_ready);
  if (!done) return;
  for (const auto& [name, child] : self.children) {
    if (!flux_future_has_error(child)) continue;
    return flux_future_fulfill_error(&self, child->front().errnum, flux_future_error_string(child));
  }
  flux_future_fulfill(&self, nullptr, nullptr);
}

flux_future_t* composite(WaitFor which) {
  auto* f = new flux_future(nullptr, nullptr);
  f->begin = [which](flux_future& self, flux_future::When when, flux_reactor* reactor) {
    for (const auto& [name, child] : self.children) {
      Result<void> armed = child->arm(when, reactor, [&self, which] { judge_children(self, which); });
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

flux_future_t* flux_future_wait_all_create() noexcept { return composite(WaitFor::all); }
flux_future_t* flux_future_wait_any_create() noexcept { return composite(WaitFor::any); }

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

// ---- future wait ------------------------------------------------------------------------
//
// <flux/future.h>: waiting for a future within a call.

namespace {

constexpr double kAnswerTimeout = 60;  // seconds; the default of the option rpc-timeout
constexpr event::Seconds kLook{0.01};  // how often a loop beside the shell's is run

// One call of flux_future_wait_for(3). The future's own loop runs, and the messages of its handle are dispatched.
// While a call to another shell is open, the shell's loop runs, too.
class Wait {
 public:
  Wait(flux_future& f, event::Loop& own) : future_(f), own_(own), shell_(current_shell()) {}

  // 0, or -1 with errno. A negative `timeout`: none but that of answers of other shells.
  int run(double timeout) {
    if (Result<void> prepared = prepare(timeout); !prepared) return fail(prepared.error().code);
    while (!future_.ready()) {
      if (handle_ != nullptr && handle_->dispatch()) continue;
      if (late_) return give_up();
      nacre::flux::BrokerCalls* broker =
          handle_ != nullptr && handle_->link == nullptr ? &handle_->runtime.broker() : nullptr;
      if (broker != nullptr && broker->needs_serving()) {
        round_with_broker(*broker);
      } else if (handle_ != nullptr && (handle_->waits_for_others() || (broker != nullptr && broker->any()))) {
        if (round_with_shell() < 0) return -1;
      } else if (!own_.alive()) {
        return fail(EDEADLOCK);
      } else {
        own_.run_once();
      }
    }
    return 0;
  }

 private:
  Result<void> prepare(double timeout);

  Result<void> prepare_shell() {
    event::Loop& loop = shell_->host.loop();
    shells_timer_.emplace(TRY(event::Timer::create(loop, [this] { late_ = true; })));
    look_.emplace(TRY(event::Timer::create(loop, [] {})));
    was_ending_ = shell_->host.ending();
    double rest = deadline_ - own_.now();
    if (deadline_ < 0) {
      rest = TRY(answer_timeout());
      is_unanswered_ = true;
    }
    if (std::isfinite(rest)) shells_timer_->start(event::Seconds(std::max(rest, 0.0)));
    return {};
  }

  int round_with_shell() {
    Host& host = shell_->host;
    if (!shells_timer_) {
      if (host.loop().running()) {
        host.log().log(Level::warn, running_plugin_name(),
                       "in a callback no answer of another shell can be waited for: use flux_future_then");
        return fail(EDEADLOCK);
      }
      if (Result<void> prepared = prepare_shell(); !prepared) {
        host.log().log(Level::error, "", "{}", prepared.error().message);
        return fail(prepared.error().code);
      }
    }
    if (!was_ending_ && host.ending()) return fail(ECANCELED);
    timer_->keeps_running(false);
    own_.poll();
    if (own_.alive()) look_->start(kLook);
    timer_->keeps_running(true);
    if (!future_.ready() && !late_) host.loop().run_once();
    look_->stop();
    return 0;
  }

  void round_with_broker(nacre::flux::BrokerCalls& broker) {
    awaited_ = "an answer of the broker";
    if (deadline_ < 0 && !std::exchange(is_unanswered_, true)) {
      const double most = answer_timeout().value_or(kAnswerTimeout);
      if (std::isfinite(most)) timer_->start(event::Seconds(most));
    }
    own_.poll();
    if (!future_.ready() && !late_) broker.serve(kLook.count());
  }

  [[nodiscard]] Result<double> answer_timeout() const {
    auto option = shell_->host.options().at("rpc-timeout");
    if (!option) return kAnswerTimeout;
    if (option->json() == "none") return value::Duration::infinite().seconds();
    return TRY(job::seconds_option(*option)).seconds();
  }

  int give_up() {
    if (is_unanswered_) {
      shell_->host.log().log(Level::warn, running_plugin_name(), "{} has not come in time (rpc-timeout)", awaited_);
    }
    return fail(ETIMEDOUT);
  }

  flux_future& future_;
  event::Loop& own_;
  flux_shell* shell_;
  flux_t* handle_ = nullptr;  // whose messages are dispatched
  double deadline_ = -1;      // as own_.now(); negative: none
  bool was_ending_ = false;
  bool late_ = false;
  const char* awaited_ = "another shell's answer";
  bool is_unanswered_ = false;                // late by the time that other shells are given
  std::optional<event::Timer> timer_;         // on own_
  UniqueFd messages_;                         // a copy, of an interthread handle
  std::optional<event::Poll> waking_;         // on own_
  std::optional<event::Timer> shells_timer_;  // on the shell's loop
  std::optional<event::Timer> look_;          // the same: the own loop has to run again
};

Result<void> Wait::prepare(double timeout) {
  timer_.emplace(TRY(event::Timer::create(own_, [this] { late_ = true; })));
  if (timeout > 0) {
    timer_->start(event::Seconds(nacre::flux::never_early(timeout)));
    deadline_ = own_.now() + timeout;
  }
  bool is_link = future_.handle != nullptr && future_.handle->link != nullptr;
  if (is_link) {
    handle_ = &future_.handle->root();
  } else if (shell_ != nullptr) {
    handle_ = nacre::flux::handle_of(*shell_);
  }
  if (!is_link) return {};
  messages_ = UniqueFd(::dup(handle_->incoming.fd()));
  if (!messages_) return system_error(errno, "dup");
  waking_.emplace(TRY(event::Poll::create(own_, messages_.get(), [](int) {})));
  return waking_->start(event::Poll::kReadable);
}

}  // namespace

int flux_future_wait_for(flux_future_t* f, double timeout) {
  if (f == nullptr || f->waiting) return fail(EINVAL);
  if (f->ready()) return 0;
  if (timeout == 0) return fail(ETIMEDOUT);
  flux_reactor* reactor = f->now.reactor;
  if (reactor == nullptr && (reactor = flux_reactor_create(0)) == nullptr) return -1;
  flux_reactor_incref(reactor);
  if (f->now.reactor == nullptr) flux_reactor_decref(reactor);  // arm() takes a reference of its own
  flux_future_incref(f);
  f->waiting = true;
  Result<void> armed = f->arm(flux_future::When::now, reactor, {});
  int done = armed ? Wait(*f, *reactor->loop).run(timeout) : fail(armed.error().code);
  int saved = errno;
  f->waiting = false;
  flux_reactor_decref(reactor);
  flux_future_decref(f);
  errno = saved;
  return done;
}
