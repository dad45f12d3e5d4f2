// SPDX-License-Identifier: Apache-2.0
#include "plugin/shell_messages.hpp"

#include "base/bytes.hpp"

namespace nacre::plugin {
namespace {

constexpr std::string_view kMessage = "shell.message";
constexpr std::string_view kRefused = "shell.refused";
constexpr std::size_t kHead = 2 * sizeof(std::uint32_t);  // ranks of sender and receiver

}  // namespace

Result<void> ShellMessages::send(std::uint32_t to, std::string_view bytes) {
  if (to == own_ || to >= size_)
    return invalid(fmt::format("expected another shell of the job, of which there are {}, got {}", size_, to));
  if (cut_off_ || lost_.contains(to)) return Error{EHOSTUNREACH, fmt::format("shell {} is lost", to)};
  if (bytes.size() > kMaxMessage) {
    return Error{EMSGSIZE,
                 fmt::format("a message of {} bytes to shell {}; at most {}", bytes.size(), to, kMaxMessage)};
  }
  return post(kMessage, to, bytes);
}

Result<void> ShellMessages::post(std::string_view topic, std::uint32_t to, std::string_view bytes) {
  std::string all;
  all.reserve(kHead + bytes.size());
  append_number(all, own_);
  append_number(all, to);
  all += bytes;
  return announce_(topic, all);
}

bool ShellMessages::take(std::string_view topic, std::string_view bytes) {
  ++announcements_;
  if (topic != kMessage && topic != kRefused) return false;
  if (bytes.size() < kHead) return true;
  auto from = take_number<std::uint32_t>(bytes);
  auto to = take_number<std::uint32_t>(bytes);
  if (to != own_) return true;
  if (topic == kRefused) {
    if (bytes.size() == sizeof(std::uint32_t))
      unreachable_.call(from, static_cast<int>(take_number<std::uint32_t>(bytes)));
  } else if (!offer_one(from, bytes)) {
    if (initialized_) {
      refuse(from, ENOSYS);
    } else if (kept_.size() == kMaxKept) {
      refuse(from, ENOBUFS);
    } else {
      kept_.push_back({from, std::string(bytes)});
    }
  }
  return true;
}

bool ShellMessages::offer_one(std::uint32_t from, std::string_view bytes) {
  Message message{from, bytes, initialized_};
  messages_.call(message);
  return message.is_taken;
}

// If the other shell cannot be reached it learns that by itself.
void ShellMessages::refuse(std::uint32_t from, int code) {
  std::string bytes;
  append_number(bytes, static_cast<std::uint32_t>(code));
  static_cast<void>(post(kRefused, from, bytes));
}

void ShellMessages::offer() {
  for (Kept& each : std::exchange(kept_, {})) {
    if (offer_one(each.from, each.bytes)) continue;
    if (initialized_) {
      refuse(each.from, ENOSYS);
    } else {
      kept_.push_back(std::move(each));
    }
  }
}

void ShellMessages::initialized() {
  initialized_ = true;
  offer();
}

void ShellMessages::lost(std::uint32_t shell) {
  lost_.insert(shell);
  unreachable_.call(shell, EHOSTUNREACH);
}

void ShellMessages::cut_off() {
  if (std::exchange(cut_off_, true)) return;
  for (std::uint32_t shell = 0; shell < size_; ++shell) {
    if (shell != own_ && !lost_.contains(shell)) unreachable_.call(shell, EHOSTUNREACH);
  }
}

}  // namespace nacre::plugin
