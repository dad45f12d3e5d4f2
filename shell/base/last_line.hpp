// SPDX-License-Identifier: Apache-2.0
//
// The line that a process leaves on stderr before it ends at once, made without the heap: in a signal handler, and where the heap
// may be what broke.
//
//   nacre-shell[RANK]: TEXT (on HOST)    without [RANK] until set_rank_of_last_lines(), without a host until CallPage::set_host()
#pragma once

#include <cstdint>
#include <string_view>

namespace nacre {

class LastLine {
 public:
  LastLine();
  // What does not fit is left out.
  LastLine& operator<<(std::string_view text);
  LastLine& operator<<(int number);
  // In one write(2).
  void write();

 private:
  static constexpr std::size_t kSize = 512;  // bytes, with the newline
  char text_[kSize];
  std::size_t size_ = 0;
};

// For the lines of this process and of those it forks from now on.
void set_rank_of_last_lines(std::uint32_t shell_rank);

}  // namespace nacre
