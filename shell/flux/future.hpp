// SPDX-License-Identifier: Apache-2.0
//
// The implementation of flux_future_t. A future has two contexts: `then`, in which a continuation waits on the
// future's reactor, and `now`, while flux_future_wait_for(3) runs a loop of its own. In each it is armed at most
// once at a time. Its init function, which arranges what will fulfil it, runs at most once.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "flux/reactor.hpp"

namespace nacre::flux {

// What a future is fulfilled with.
struct Outcome {
  Outcome() = default;
  Outcome(void* value, flux_free_f function) : result(value), free_fn(function) {}
  Outcome(int code, const char* text)
      : errnum(code), message(text != nullptr ? text : ""), has_text(text != nullptr) {}
  Outcome(Outcome&& other) noexcept;
  Outcome& operator=(Outcome&&) = delete;
  ~Outcome();

  void* result = nullptr;
  flux_free_f free_fn = nullptr;
  flux_future* with = nullptr;  // a reference: that future's result is the result
  int errnum = 0;               // 0: a result
  std::string message;
  bool has_text = false;
};

}  // namespace nacre::flux

struct flux_future {
  struct Context {
    flux_reactor* reactor = nullptr;
    bool begun = false;
    bool armed = false;
    std::function<void()> continuation;
    std::optional<nacre::event::Timer> soon;
    double seconds = -1;  // of `timeout`; negative: none
    std::optional<nacre::event::Timer> timeout;
  };
  enum class When { then, now };

  flux_future(flux_future_init_f init_function, void* argument);
  ~flux_future();
  flux_future(const flux_future&) = delete;
  flux_future& operator=(const flux_future&) = delete;

  [[nodiscard]] bool ready() const { return fatal.has_value() || !outcomes.empty(); }
  [[nodiscard]] const nacre::flux::Outcome& front() const { return fatal ? *fatal : outcomes.front(); }
  void fulfil(nacre::flux::Outcome outcome);
  nacre::Result<void> arm(When when, flux_reactor* reactor, std::function<void()> continuation);
  nacre::Result<void> start_timeout();                // of `then`, for its next fulfilment
  void use(Context& context, flux_reactor* reactor);  // from now on; nullptr: none
  void disarm(flux_reactor* reactor);                 // takes its timers off that reactor's loop
  [[nodiscard]] Context& context(When when) { return when == When::then ? then : now; }
  // The reactor of the context in which it is being initialised or waited for; else the one for continuations: the
  // one that was set, the handle's, or the shell's.
  [[nodiscard]] flux_reactor* current_reactor() const;

  int references = 1;
  flux_future_init_f init;
  void* init_arg;
  nacre::capi::Callback owner;
  flux_t* handle = nullptr;  // not a reference
  std::deque<nacre::flux::Outcome> outcomes;
  std::optional<nacre::flux::Outcome> fatal;
  flux_future* source = nullptr;  // a reference: the future that has fulfilled it last
  Context then;
  Context now;
  const Context* setting_up = nullptr;
  bool waiting = false;  // flux_future_wait_for(3) is running
  nacre::capi::AuxItems aux;
  // For a composite future, or one that follows another: the futures that it waits for. References.
  std::map<std::string, flux_future*, std::less<>> children;
  std::string listed;  // by flux_future_next_child()
  flux_future* previous = nullptr;
  // Called when this future is waited for: starts to wait for the children.
  std::function<void(flux_future& self, When when, flux_reactor* reactor)> begin;
  flux_future* next = nullptr;  // follows this one; not a reference: it has one to this
  bool continued = false;

 private:
  void schedule(Context& context);
  nacre::Result<void> set_soon(Context& context);
};
