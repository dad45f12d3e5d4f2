// SPDX-License-Identifier: Apache-2.0
//
// Behind flux_future_t. A future has two contexts: `then`, in which a continuation waits on the future's reactor,
// and `now`, while flux_future_wait_for(3) runs a loop of its own. In each it is armed at most once at a time, and
// its init function, which sets up what will fulfil it, runs at most once.
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
      : errnum(code), words(text != nullptr ? text : ""), has_words(text != nullptr) {}
  Outcome(Outcome&& other) noexcept;
  Outcome& operator=(Outcome&&) = delete;
  ~Outcome();

  void* result = nullptr;
  flux_free_f free_fn = nullptr;
  flux_future* with = nullptr;  // a reference: the result is that one's
  int errnum = 0;               // 0: a result
  std::string words;
  bool has_words = false;
};

}  // namespace nacre::flux

struct flux_future {
  struct Context {
    flux_reactor* reactor = nullptr;
    bool begun = false;
    bool armed = false;
    std::function<void()> continuation;
    std::optional<nacre::event::Timer> soon;
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
  void use(Context& context, flux_reactor* reactor);  // from now on; nullptr: none
  void disarm(flux_reactor* reactor);                 // takes its timers off that loop
  [[nodiscard]] Context& context(When when) { return when == When::then ? then : now; }
  // That of the context in which it is being set up or waited for; else the one for continuations: as set, the
  // handle's, the shell's.
  [[nodiscard]] flux_reactor* current_reactor() const;

  int references = 1;
  flux_future_init_f init;
  void* init_arg;
  nacre::capi::Callback owner;
  flux_t* handle = nullptr;  // not a reference
  std::deque<nacre::flux::Outcome> outcomes;
  std::optional<nacre::flux::Outcome> fatal;
  flux_future* source = nullptr;  // a reference: the last that it was fulfilled with
  Context then;
  Context now;
  const Context* setting_up = nullptr;
  bool waiting = false;  // in flux_future_wait_for(3)
  nacre::capi::AuxItems aux;
  // Of several, and of one that comes after another: what it waits for. References.
  std::map<std::string, flux_future*, std::less<>> children;
  std::string listed;  // by flux_future_next_child()
  flux_future* previous = nullptr;
  // Sets up waiting for these, when this one is waited for.
  std::function<void(flux_future& self, When when, flux_reactor* reactor)> begin;
  flux_future* next = nullptr;  // comes after this one; not a reference: it has one to this
  bool continued = false;

 private:
  void schedule(Context& context);
  nacre::Result<void> set_soon(Context& context);
};
