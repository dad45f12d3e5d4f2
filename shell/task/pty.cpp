// SPDX-License-Identifier: Apache-2.0
#include "task/pty.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"

namespace nacre::task {
namespace {

constexpr const char* kMaximum = "/proc/sys/kernel/pty/max";
constexpr int kFlags = O_RDWR | O_NOCTTY | O_CLOEXEC;

Error open_error(int code) {
  std::string hint;
  if (code == ENOSPC) {
    Result<std::string> maximum = read_file(kMaximum);
    hint =
        fmt::format(" (all {} are in use: raise the sysctl kernel.pty.max)", maximum ? trim(*maximum) : "of them");
  }
  if (code == EMFILE) hint = " (raise the limit with ulimit -n)";
  if (code == ENFILE) hint = " (raise fs.file-max)";
  if (code == ENOENT || code == ENXIO) hint = " (is devpts mounted on /dev/pts?)";
  return system_error(code, "cannot open a pseudo-terminal" + hint);
}

Result<UniqueFd> open_slave(int master) {
#ifdef TIOCGPTPEER
  // Opens it by the master itself: its name may mean another terminal if /dev/pts is another mount.
  if (UniqueFd peer(::ioctl(master, TIOCGPTPEER, kFlags)); peer) return peer;
  if (errno != EINVAL && errno != ENOTTY) return open_error(errno);
#endif
  char name[64];
  if (int code = ::ptsname_r(master, name, sizeof name); code != 0) return open_error(code);
  UniqueFd slave(::open(name, kFlags));
  if (!slave) return open_error(errno);
  return slave;
}

}  // namespace

Result<std::unique_ptr<Pty>> Pty::open(const std::optional<winsize>& size) {
  UniqueFd master(::posix_openpt(kFlags));
  if (!master) return open_error(errno);
  if (::grantpt(master.get()) < 0 || ::unlockpt(master.get()) < 0) return open_error(errno);
  UniqueFd slave = TRY(open_slave(master.get()));
  std::unique_ptr<Pty> pty(new Pty(std::move(master), std::move(slave)));
  if (size) CHECK_OK(pty->set_size(*size));
  return pty;
}

std::unique_ptr<Pty> Pty::split(UniqueFd reader) {
  return std::unique_ptr<Pty>(new Pty(std::exchange(master_, std::move(reader)), UniqueFd()));
}

Result<void> Pty::set_size(const winsize& size) {
  if (::ioctl(master_.get(), TIOCSWINSZ, &size) < 0) return system_error(errno, "cannot set a terminal's size");
  return {};
}

Result<void> Pty::set_modes(const termios& modes) {
  if (::tcsetattr(slave_.get(), TCSANOW, &modes) < 0) return system_error(errno, "cannot set up a terminal");
  return {};
}

}  // namespace nacre::task
