// SPDX-License-Identifier: Apache-2.0
#include "base/signals.hpp"

#include <limits.h>
#include <unistd.h>

namespace nacre {
namespace {

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

std::array<char, PATH_MAX> file_to_remove{};
std::array<char, PATH_MAX> directory_to_remove{};

void copy(const std::string& path, std::array<char, PATH_MAX>& to) {
  to.fill('\0');
  if (path.size() < to.size()) std::memcpy(to.data(), path.data(), path.size());
}

// When this runs the action is already the default again (SA_RESETHAND).
void remove_and_end(int signum) {
  ::unlink(file_to_remove.data());
  ::rmdir(directory_to_remove.data());
  ::raise(signum);
}

}  // namespace

EndingSignalsHeld::EndingSignalsHeld() {
  sigset_t ending;
  ::sigemptyset(&ending);
  for (int signum : kEnding) ::sigaddset(&ending, signum);
  ::sigprocmask(SIG_BLOCK, &ending, &before_);
}

void remove_when_ended_early(const std::string& file, const std::string& directory) {
  EndingSignalsHeld held;
  copy(file, file_to_remove);
  copy(directory, directory_to_remove);
  struct sigaction action {};
  action.sa_handler = remove_and_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int signum : kEnding) ::sigaddset(&action.sa_mask, signum);
  for (int signum : kEnding) {
    struct sigaction now {};
    if (::sigaction(signum, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) ::sigaction(signum, &action, nullptr);
  }
}

}  // namespace nacre
