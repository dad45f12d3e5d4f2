// SPDX-License-Identifier: Apache-2.0
//
// nacre-shell as a library, loaded once for each shell that runs at the same time: each copy has variables of its
// own, as each process has. Its calls of libc that CMakeLists.txt names go to the simulator (calls.cpp).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nacre::shells {

class Image {
 public:
  // Throws Defect.
  explicit Image(const std::string& library);
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  // All variables are as they were after loading.
  void reset();
  int run_main(int argc, char** argv) const { return main_(argc, argv); }
  void set_environment(char** environment) const { set_environment_(environment); }

  bool is_taken = false;

 private:
  struct Part {
    char* from = nullptr;
    std::vector<char> first;
  };
  void find_parts();

  void* handle_ = nullptr;
  int (*main_)(int, char**) = nullptr;
  void (*set_environment_)(char**) = nullptr;
  std::vector<Part> parts_;  // of its memory that can be written to
};

// An image that is free, and reset.
Image& take_image();

}  // namespace nacre::shells
