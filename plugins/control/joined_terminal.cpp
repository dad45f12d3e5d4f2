// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/joined_terminal.hpp"

#include <fcntl.h>

#include <cerrno>

#include <fmt/format.h>

namespace nacre::plugins {

Result<std::unique_ptr<JoinedTerminal>> JoinedTerminal::join(event::Loop& loop, const task::Task& task,
                                                             const winsize& size, std::size_t typed_ahead,
                                                             Callbacks callbacks) {
  if (task.pty() == nullptr)
    return Error{ENOTTY, fmt::format("task {} has no terminal: run the job with --pty", task.rank())};
  std::unique_ptr<JoinedTerminal> out(new JoinedTerminal(task, std::move(callbacks)));
  if (task.state() != task::State::running || out->pty_.master() < 0)
    return Error{ESRCH, fmt::format("task {} has ended", task.rank())};
  // A descriptor of its own, as the loop watches each for one reader or writer only.
  UniqueFd typed(::fcntl(out->pty_.master(), F_DUPFD_CLOEXEC, 3));
  if (!typed) return system_error(errno, "cannot share a terminal");
  task::BufferedStream::Options options;
  options.readable = false;
  options.writable = true;
  options.buffer_size = typed_ahead;
  task::BufferedStream::Callbacks of_keys;
  of_keys.on_room = [raw = out.get()](std::size_t) { raw->callbacks_.on_taken(); };
  out->keys_ = TRY(task::BufferedStream::create(loop, std::move(typed), options, std::move(of_keys)));
  std::string_view kept = out->unread();
  out->position_ = out->pty_.written() - kept.size();
  out->viewer_ = out->pty_.add_viewer(size, [raw = out.get()] { raw->change(); });
  return out;
}

JoinedTerminal::~JoinedTerminal() {
  if (viewer_ != 0) pty_.remove_viewer(viewer_);
}

// While it had the terminal open, the task would not be hung up.
void JoinedTerminal::change() {
  if (pty_.master() < 0) keys_->hang_up();
  auto on_change = callbacks_.on_change;
  on_change();
}

std::string_view JoinedTerminal::read(std::size_t most) {
  std::string_view bytes = unread().substr(0, most);
  position_ += bytes.size();
  return bytes;
}

std::uint64_t JoinedTerminal::missed() {
  std::uint64_t at = pty_.written() - unread().size();
  return at - std::exchange(position_, at);
}

bool JoinedTerminal::ended() const {
  return pty_.ended() && unread().empty() && task_.state() == task::State::exited;
}

void JoinedTerminal::resize(const winsize& size) { pty_.resize_viewer(viewer_, size); }

}  // namespace nacre::plugins
