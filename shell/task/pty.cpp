// SPDX-License-Identifier: Apache-2.0
#include "task/pty.hpp"

#include <fcntl.h>
#include <unistd.h>

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
  std::unique_ptr<Pty> out(new Pty(std::exchange(master_, std::move(reader)), UniqueFd()));
  out->size_ = size_;
  split_ = out.get();
  return out;
}

void Pty::hang_up() {
  master_.reset();
  note_end();
}

Result<void> Pty::set_size(const winsize& size, bool is_shown) {
  size_ = size;
  is_shown_ = is_shown;
  return apply_size();
}

// A size of 0 is unknown.
Result<void> Pty::apply_size() {
  winsize size = size_;
  auto smaller = [](unsigned short& least, unsigned short other) {
    if (other > 0 && (least == 0 || other < least)) least = other;
  };
  if (!viewers_.empty() && !is_shown_) size = winsize{};
  for (const auto& [number, viewer] : viewers_) {
    smaller(size.ws_row, viewer.size.ws_row);
    smaller(size.ws_col, viewer.size.ws_col);
  }
  if (::ioctl(master_.get(), TIOCSWINSZ, &size) < 0) return system_error(errno, "cannot set a terminal's size");
  return {};
}

Result<void> Pty::set_modes(const termios& modes) {
  if (::tcsetattr(slave_.get(), TCSANOW, &modes) < 0) return system_error(errno, "cannot set up a terminal");
  return {};
}

// ---- viewers ---------------------------------------------------------------------

void Pty::note(std::string_view bytes) {
  if (!keeps_) return;
  written_ += bytes.size();
  kept_ += bytes;
  if (kept_.size() > 2 * kKept) kept_.erase(0, kept_.size() - kKept);
  call_viewers();
}

void Pty::note_end() {
  if (std::exchange(ended_, true)) return;
  call_viewers();
}

std::string_view Pty::kept_from(std::uint64_t position) const {
  std::uint64_t unread = std::min<std::uint64_t>(written_ - std::min(position, written_), kKept);
  return std::string_view(kept_).substr(kept_.size() - std::min<std::uint64_t>(unread, kept_.size()));
}

std::uint64_t Pty::add_viewer(const winsize& size, std::function<void()> on_change) {
  viewers_[++last_viewer_] = {size, std::move(on_change)};
  static_cast<void>(apply_size());  // it may have been hung up
  return last_viewer_;
}

void Pty::resize_viewer(std::uint64_t viewer, const winsize& size) {
  viewers_.at(viewer).size = size;
  static_cast<void>(apply_size());
}

void Pty::remove_viewer(std::uint64_t viewer) {
  viewers_.erase(viewer);
  static_cast<void>(apply_size());
}

// Any of them may go meanwhile.
void Pty::call_viewers() {
  for (auto each = viewers_.begin(); each != viewers_.end();) {
    std::uint64_t number = each->first;
    auto on_change = each->second.on_change;
    on_change();
    each = viewers_.upper_bound(number);
  }
}

}  // namespace nacre::task
