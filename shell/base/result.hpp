// SPDX-License-Identifier: Apache-2.0
//
// Errors are values. A function that can fail returns Result<T>; "maybe there is none" is Result<std::optional<T>>.
// An Error has an errno-style code, for callers that have to distinguish cases, and one line of text. Each border
// that an error crosses adds its context with in():
//
//   jobspec.json: resources[0].count: expected a positive integer, got -1
#pragma once

#include <tl/expected.hpp>

#include "base/usual.hpp"

namespace nacre {

struct Error {
  int code = EINVAL;       // an errno value
  std::string message;     // one line, no newline at its end, no program name at its start
  bool is_logged = false;  // it has been logged, here or by another shell, and must not be logged again
};

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpect, std::move(error)) {}  // NOLINT: implicit by intent
};

// For malformed input: EINVAL with this message.
[[nodiscard]] inline Error invalid(std::string message) { return Error{EINVAL, std::move(message)}; }

// For a failed system call: `what: strerror(code)`; for EMFILE and ENFILE `what (remedy): strerror(code)`.
[[nodiscard]] Error system_error(int code, std::string_view what);

// The same error with context: `where: message`.
[[nodiscard]] Error in(std::string_view where, Error error);

template <typename T>
[[nodiscard]] Result<T> in(std::string_view where, Result<T> result) {
  if (!result) return in(where, std::move(result).error());
  return result;
}

}  // namespace nacre

// Evaluates to the value of a Result, or returns its error from the calling function.
//   Jobspec spec = TRY(parse_jobspec(text));
#define TRY(expr) NACRE_TRY_AS(expr, __COUNTER__)
#define NACRE_TRY_AS(expr, number) NACRE_TRY_NUMBERED(expr, number)
#define NACRE_TRY_NUMBERED(expr, number) NACRE_TRY_NAMED(expr, try_result_##number)
#define NACRE_TRY_NAMED(expr, name)                 \
  __extension__({                                   \
    auto name = (expr);                             \
    if (!name) [[unlikely]]                         \
      return nacre::Error(std::move(name).error()); \
    *std::move(name);                               \
  })

// The same for a Result<void>, or if the value is not used.
#define CHECK_OK(expr)                                   \
  do {                                                   \
    auto check_ok_ = (expr);                             \
    if (!check_ok_) [[unlikely]]                         \
      return nacre::Error(std::move(check_ok_).error()); \
  } while (false)
