// SPDX-License-Identifier: Apache-2.0
//
// Messages from one shell of the job to another. They are announcements, and come in one order with these. Each
// costs a message to every shell: for rare things. A message that nobody takes waits until this shell has run
// shell.init, and is refused then. All calls are made on the loop's thread.
#pragma once

#include "plugin/registration.hpp"
#include "value/idset.hpp"

namespace nacre::plugin {

class ShellMessages {
 public:
  static constexpr std::size_t kMaxMessage = std::size_t{16} << 20;  // bytes
  static constexpr std::size_t kMaxKept = 65536;                     // messages that wait for shell.init

  // Shell `own` of a job of `size` shells, which are all that it can reach. `announce` is Host::announce.
  using Announce = std::function<Result<void>(std::string_view topic, std::string_view bytes)>;
  ShellMessages(std::uint32_t own, std::uint32_t size, Announce announce)
      : own_(own), size_(size), announce_(std::move(announce)) {}

  // EINVAL: `to` is this shell, or no shell. EHOSTUNREACH: it is lost, or this shell is cut off. EMSGSIZE:
  // kMaxMessage.
  Result<void> send(std::uint32_t to, std::string_view bytes);

  struct Message {
    std::uint32_t from;
    std::string_view bytes;
    bool is_last_offer;  // it is refused if nobody takes it now
    bool is_taken = false;
  };
  // Whoever a message is for sets `is_taken`.
  [[nodiscard]] Registration on_message(std::function<void(Message&)> receive) {
    return messages_.add(std::move(receive));
  }
  // Offers waiting messages again: a receiver has become ready.
  void offer();
  // Messages to that shell that have no answer yet get none. EHOSTUNREACH: it is lost, or this shell is cut off;
  // ENOSYS: nobody there takes messages; ENOBUFS: kMaxKept.
  [[nodiscard]] Registration on_unreachable(std::function<void(std::uint32_t shell, int code)> receive) {
    return unreachable_.add(std::move(receive));
  }

  // How many announcements of any kind this shell has received; at each the number is the same on all shells.
  [[nodiscard]] std::uint64_t announcements() const { return announcements_; }

  // The job has so many shells now.
  void grow(std::uint32_t size) { size_ = size; }

  // For the shell, at each announcement. True: it was one of these messages.
  bool take(std::string_view topic, std::string_view bytes);
  void initialized();  // shell.init has been run
  void lost(std::uint32_t shell);
  void cut_off();

 private:
  struct Kept {
    std::uint32_t from;
    std::string bytes;
  };

  bool offer_one(std::uint32_t from, std::string_view bytes);
  void refuse(std::uint32_t from, int code);
  Result<void> post(std::string_view topic, std::uint32_t to, std::string_view bytes);

  std::uint32_t own_;
  std::uint32_t size_;
  Announce announce_;
  std::uint64_t announcements_ = 0;
  bool initialized_ = false;
  bool cut_off_ = false;
  value::Idset lost_;
  std::deque<Kept> kept_;
  CallbackList<Message&> messages_;
  CallbackList<std::uint32_t, int> unreachable_;
};

}  // namespace nacre::plugin
