// SPDX-License-Identifier: Apache-2.0
//
// What ps(1) shows as this process's command line: its arguments are written over.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

namespace nacre {

class ProcessTitle {
 public:
  // Those of main(). From set() on nobody may read them.
  ProcessTitle(int argc, char** argv);

  // The first of these that has room in place of the arguments, else the last, cut off.
  void set(std::initializer_list<std::string> titles);

 private:
  char* begin_ = nullptr;
  std::size_t size_ = 0;  // bytes, with the NUL at the end
};

}  // namespace nacre
