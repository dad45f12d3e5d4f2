// SPDX-License-Identifier: Apache-2.0
//
// What a program itself prints for people. Nothing here throws because of whoever reads, so callbacks may call it too: fmt::print
// throws where a terminal is gone, and t/lint forbids it.
#pragma once

#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"

namespace nacre {

// To standard output, buffered. Whether it was written is the answer of flush_out().
void print_out(std::string_view text);

template <typename... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  print_out(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

// An error if anything that this process has printed to standard output since the last call could not be written: `standard
// output: No space left on device`. What is still buffered then is dropped.
Result<void> flush_out();

// To standard error, at once and by one write where that takes it. If it fails, there is nobody to report it to.
void print_err(std::string_view text);

template <typename... Args>
void print_err(fmt::format_string<Args...> format, Args&&... args) {
  print_err(std::string_view(fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace nacre
