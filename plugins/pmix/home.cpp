// SPDX-License-Identifier: Apache-2.0
#include "home.hpp"

#include <pwd.h>
#include <unistd.h>

namespace nacre::pmix {

int give_home(flux_shell_t* shell) {
  if (flux_shell_getenv(shell, "HOME") != nullptr) return 0;
  const passwd* user = ::getpwuid(::getuid());
  const bool has_home = user != nullptr && user->pw_dir != nullptr && user->pw_dir[0] != '\0';
  if (flux_shell_setenvf(shell, 0, "HOME", "%s", has_home ? user->pw_dir : "/") < 0) return shell_log_errno("HOME");
  return 0;
}

}  // namespace nacre::pmix
