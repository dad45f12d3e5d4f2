// SPDX-License-Identifier: Apache-2.0
//
// The line that a process leaves on stderr before it ends at once. It is made without the heap: for signal
// handlers, and in case the heap is broken.
//
//   nacre-shell[RANK]: TEXT (on HOST)    [RANK] only after set_rank_of_last_lines(), (on HOST) after
//                                        CallPage::set_host()
#pragma once

#include <cstdint>
#include <string_view>

namespace nacre {

class LastLine {
 public:
  LastLine();
  // Text that does not fit is left out.
  LastLine& operator<<(std::string_view text);
  LastLine& operator<<(int number);
  // Writes it with one write(2).
  void write();

 private:
  static constexpr std::size_t kSize = 512;  // bytes, with the newline
  char text_[kSize];
  std::size_t size_ = 0;
};

// For the lines of this process, and of those that it forks from now on.
void set_rank_of_last_lines(std::uint32_t shell_rank);

}  // namespace nacre
