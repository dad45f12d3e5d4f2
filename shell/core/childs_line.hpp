// SPDX-License-Identifier: Apache-2.0
//
// What a forked child, which has no log of its own, leaves to its parent: the one line why it failed.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <string>
#include <string_view>
#include <utility>

namespace nacre::core {

class ChildsLine {
 public:
  ChildsLine()
      : page_(::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
        shared_(page_ != MAP_FAILED ? new (page_) Page : &own_) {}
  ~ChildsLine() {
    if (shared_ != &own_) ::munmap(page_, sizeof(Page));
  }
  ChildsLine(const ChildsLine&) = delete;
  ChildsLine& operator=(const ChildsLine&) = delete;

  // In the child: it has failed. The first line stays.
  void write(std::string_view text) {
    if (!std::exchange(failed_, true)) text.copy(shared_->line, kSize - 1);
  }
  [[nodiscard]] bool failed() const { return failed_; }  // in the child
  // In the parent; empty if the child has not failed, or there was no memory for it.
  [[nodiscard]] std::string text() const { return shared_->line; }
  // In the child, around what may end it; and in the parent, whether that has.
  void set_busy(bool busy) { shared_->busy = busy; }
  [[nodiscard]] bool was_busy() const { return shared_->busy; }

 private:
  static constexpr std::size_t kSize = 4000;  // bytes, NUL included; what is longer is cut
  struct Page {
    bool busy = false;
    char line[kSize] = "";
  };
  Page own_;  // where there is no memory to share: the child's line is lost
  void* page_;
  Page* shared_;
  bool failed_ = false;
};

}  // namespace nacre::core
