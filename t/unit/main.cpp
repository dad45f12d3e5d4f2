// SPDX-License-Identifier: Apache-2.0
//
// A test that hangs is named: Catch2 tells which one was running when the program aborts. Processes that a test has
// left are ended with it, so that the next one, in whatever order they run, finds none. Each test has the name of
// its folder as a tag: unit_facts "[job]".
#define CATCH_CONFIG_RUNNER
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "catch.hpp"

namespace {

constexpr unsigned kTimeout = 720;  // seconds; less than what CTest has

// Visits each child of this process, whichever thread has started it.
template <typename Visit>
void for_each_child(Visit visit) {
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream children(thread.path() / "children");
    for (pid_t pid = 0; children >> pid;) visit(pid);
  }
}

#ifdef CATCH_VERSION_HPP_INCLUDED  // version 3
using Catch::EventListenerBase;
#else
using EventListenerBase = Catch::TestEventListenerBase;
#endif

struct NothingIsLeft : EventListenerBase {
  using EventListenerBase::EventListenerBase;
  void testCaseEnded(const Catch::TestCaseStats& /*stats*/) override {
    // Their children may become this process's (PR_SET_CHILD_SUBREAPER).
    for (bool found = true; found;) {
      found = false;
      for_each_child([&found](pid_t pid) {
        ::kill(pid, SIGKILL);
        found = ::waitpid(pid, nullptr, 0) == pid || found;
      });
    }
  }
};
CATCH_REGISTER_LISTENER(NothingIsLeft)  // NOLINT

// The tags are added before any test is selected, as Catch2 does it for --filenames-as-tags.
std::string folder_of(const Catch::SourceLineInfo& place) {
  return std::filesystem::path(place.file).parent_path().filename();
}

#ifdef CATCH_VERSION_HPP_INCLUDED  // version 3, which refers to text that stays
void tag_by_folder() {
  static std::set<std::string> folders;
  for (Catch::TestCaseInfo* each : Catch::getRegistryHub().getTestCaseRegistry().getAllInfos()) {
    each->tags.emplace_back(Catch::StringRef(*folders.insert(folder_of(each->lineInfo)).first));
  }
}
#else
void tag_by_folder() {
  for (const Catch::TestCase& each : Catch::getRegistryHub().getTestCaseRegistry().getAllTests()) {
    auto& test = const_cast<Catch::TestCase&>(each);  // NOLINT
    std::vector<std::string> tags = test.tags;
    tags.push_back(folder_of(test.lineInfo));
    Catch::setTags(test, std::move(tags));
  }
}
#endif

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGALRM, [](int) { std::abort(); });
  ::alarm(kTimeout);
  tag_by_folder();
  return Catch::Session().run(argc, argv);
}
