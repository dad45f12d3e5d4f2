// SPDX-License-Identifier: Apache-2.0
#include "base/signals.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"

#include "folder.hpp"

using namespace nacre;  // NOLINT

namespace {

// The wait status of a child that calls `what`.
int status_of_child(const std::function<void()>& what) {
  pid_t child = ::fork();
  if (child == 0) {
    what();
    ::_exit(7);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("a signal that ends a process early removes its file and directory first, and ends it as ever") {
  for (int signum : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    kit::TemporaryFolder folder;
    std::string directory = folder.path("made");
    std::filesystem::create_directory(directory);
    std::ofstream(directory + "/s").put('\n');
    int status = status_of_child([&] {
      std::signal(signum, SIG_DFL);
      remove_when_ended_early(directory + "/s", directory);
      ::raise(signum);
    });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == signum);
    CHECK_FALSE(std::filesystem::exists(directory));
  }
}

TEST_CASE("a signal that is ignored or watched by then stays so") {
  kit::TemporaryFolder folder;
  std::string file = folder.file("s", "");
  int status = status_of_child([&] {
    std::signal(SIGHUP, SIG_IGN);
    remove_when_ended_early(file, folder.path("none"));
    std::signal(SIGTERM, [](int) {});
    ::raise(SIGHUP);
    ::raise(SIGTERM);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(std::filesystem::exists(file));
}

TEST_CASE("signals that end a process wait while they are held") {
  int status = status_of_child([] {
    std::signal(SIGTERM, SIG_DFL);
    {
      EndingSignalsHeld held;
      ::raise(SIGTERM);
      std::signal(SIGTERM, [](int) { ::_exit(9); });
    }
    ::_exit(8);
  });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 9);
}
