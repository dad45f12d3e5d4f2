// SPDX-License-Identifier: Apache-2.0
#include "base/process_title.hpp"

#include <algorithm>
#include <cstring>

namespace nacre {

// Only as far as they lie behind each other. The environment behind them stays as it is: others read this
// process's.
ProcessTitle::ProcessTitle(int argc, char** argv) {
  if (argc < 1 || argv[0] == nullptr) return;
  begin_ = argv[0];
  char* end = begin_;
  for (int i = 0; i < argc && argv[i] == end; ++i) end += std::strlen(argv[i]) + 1;
  size_ = static_cast<std::size_t>(end - begin_);
}

void ProcessTitle::set(std::initializer_list<std::string> titles) {
  if (size_ == 0 || titles.size() == 0) return;
  const std::string* chosen =
      std::find_if(titles.begin(), titles.end(), [this](const std::string& each) { return each.size() < size_; });
  if (chosen == titles.end()) --chosen;
  std::size_t length = std::min(chosen->size(), size_ - 1);
  std::memcpy(begin_, chosen->data(), length);
  std::memset(begin_ + length, 0, size_ - length);
}

}  // namespace nacre
