// SPDX-License-Identifier: Apache-2.0
//
// Code that is called back: by the event loop, for a topic, for a message, for an answer. nacre throws no
// exceptions, but libraries do (std::bad_alloc, those of JSON). report_thrown() reports an exception that leaves a
// callback, and the caller goes on: C code in between, such as libuv's, could not be unwound safely.
#pragma once

#include <exception>

#include "base/result.hpp"

namespace nacre {

// A part of the program: a builtin plugin. If it is not vital the job can go on without it.
struct Component {
  std::string name;
  bool is_vital = true;
};

// While one lives, code of this component runs; null: of no component. Things registered meanwhile, such as timers,
// remember it.
class InComponent : Noncopyable {
 public:
  explicit InComponent(const Component* component);
  ~InComponent();
  [[nodiscard]] static const Component* current();

 private:
  const Component* outer_;
};

// Sets who takes what was thrown in a callback of a component, or of none (null), in the words of thrown_text().
// Without a taker, report_thrown() writes a line and ends the process with exit code 1. There is one taker for the
// process; an empty function removes it. If memory runs out, the process ends with a line and exit code 1: 3 s
// after the first callback of a vital component that was lost, and at once if the taker has no memory either.
void when_thrown(std::function<void(const Component* component, std::string_view what)> take);
void report_thrown(const Component* component, const std::exception& thrown);
// "internal error: ...", or "out of memory".
[[nodiscard]] std::string thrown_text(const std::exception& thrown);
// An error with that text, of the component that runs.
[[nodiscard]] Error thrown_error(const std::exception& thrown);

// From now on, if memory runs out and nobody catches the exception, this process, `program`, ends with one line and
// exit code 1; other exceptions end it as usual. `program` is kept.
void end_in_order_without_memory(const char* program);

template <typename Code>
void guarded(const Component* component, const Code& code) {
  const InComponent in_component(component);
  try {
    code();
  } catch (const std::exception& thrown) {
    report_thrown(component, thrown);
  }
}

// Returns what `code` returns, a Result; what `code` throws becomes the error.
template <typename Code>
auto caught(const Code& code) -> decltype(code()) {
  try {
    return code();
  } catch (const std::exception& thrown) {
    return thrown_error(thrown);
  }
}

}  // namespace nacre
