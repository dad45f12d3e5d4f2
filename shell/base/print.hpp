// SPDX-License-Identifier: Apache-2.0
//
// What a program itself prints for users. Nothing here throws if the reader has gone, so callbacks may call it as
// well. fmt::print would throw, so t/lint forbids it.
#pragma once

#include "base/text.hpp"

namespace nacre {

// To standard output, buffered. flush_out() returns whether it was written.
void print_out(std::string_view text);

template <typename... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  print_out(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

// An error if something that this process has printed to standard output since the last call could not be written:
// `standard output: No space left on device`. The bytes that are still buffered are then dropped. If the reader has
// gone the error counts as logged: nobody wants to know.
Result<void> flush_out();

// To standard error, at once, and by one write if possible. Ignores errors, as there is no place left to report
// them. A plain text is written unchanged. In formatted text nothing can control a terminal, as it may have words
// of others in it.
void print_err(std::string_view text);

template <typename... Args>
void print_err(fmt::format_string<Args...> format, Args&&... args) {
  print_err(std::string_view(escape_lines(fmt::format(format, std::forward<Args>(args)...))));
}

// A line as standard error shows it: in this colour if that is a terminal, neither NO_COLOR is set nor TERM is
// "dumb".
enum class Colour { red, yellow };
[[nodiscard]] std::string coloured(Colour colour, std::string_view line);

// While one lives, whoever writes other processes' text to standard error comes first: it takes a text and writes
// it behind its own pending text, so that it does not come between two halves of a line. False: it has not taken
// the text, as nothing is pending. There is one at a time, in the process that has made it.
class ErrTaker : Noncopyable {
 public:
  explicit ErrTaker(std::function<bool(std::string_view)> take);
  ~ErrTaker();
};

// Writes past an ErrTaker, for a process that ends at once.
void print_last_err(std::string_view text);

}  // namespace nacre
