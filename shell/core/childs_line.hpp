// SPDX-License-Identifier: Apache-2.0
//
// A forked child has no log of its own: it leaves one line to its parent, which is why it failed.
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

  // In the child: it has failed. Only the first line is kept.
  void write(std::string_view text) {
    if (!std::exchange(failed_, true)) text.copy(shared_->line, kSize - 1);
  }
  [[nodiscard]] bool failed() const { return failed_; }  // in the child
  // In the parent; empty if the child has not failed, or if there was no memory for the page.
  [[nodiscard]] std::string text() const { return shared_->line; }
  // In the child: set around code that may end it. In the parent: whether that code has ended it.
  void set_busy(bool busy) { shared_->busy = busy; }
  [[nodiscard]] bool was_busy() const { return shared_->busy; }

 private:
  static constexpr std::size_t kSize = 4000;  // bytes with the NUL; a longer line is cut
  struct Page {
    bool busy = false;
    char line[kSize] = "";
  };
  Page own_;  // used if there is no memory to share: the child's line is then lost
  void* page_;
  Page* shared_;
  bool failed_ = false;
};

}  // namespace nacre::core
