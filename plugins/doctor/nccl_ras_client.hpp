// SPDX-License-Identifier: Apache-2.0
//
// Asks the RAS of NCCL, which runs in the processes of the tasks, how its communicators are: on the node of this
// shell, twice, as only what stays the same shows that something hangs. Only where the environment of a task, or
// what it has loaded, shows NCCL.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "doctor/nccl_ras.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

// "HOST:PORT" of NCCL_RAS_ADDR: numbers, "[::1]:28028", or localhost.
struct RasAddress {
  sockaddr_storage address{};
  socklen_t size = 0;

  // None: it is a name, or none at all.
  static std::optional<RasAddress> parse(const std::string& text);
};

class NcclRasClient {
 public:
  static constexpr event::Seconds kMostTime{8};  // of all
  static constexpr event::Seconds kBetween{3};   // from one time that they are asked to the next
  static constexpr std::size_t kMostAddresses = 4;

  explicit NcclRasClient(plugin::Host& host) : host_(host) {}

  // Asks. `done` is called once, from the loop, unless there is nobody to ask.
  void start(std::function<void()> done);
  [[nodiscard]] bool has_asked() const { return !addresses_.empty(); }
  [[nodiscard]] bool is_done() const { return is_done_; }
  [[nodiscard]] std::vector<doctor::RasFinding> findings() const;
  [[nodiscard]] const std::set<std::string>& notes() const { return notes_; }

 private:
  struct Question {
    UniqueFd socket;
    std::optional<event::Poll> poll;
    std::string unsent, received;
    bool is_over = false;
  };

  void look_at(std::uint32_t rank, pid_t pid, const std::vector<std::string>& own_hosts);
  void begin();
  void ask(const RasAddress& address);
  void go_on(Question& question, int events);
  [[nodiscard]] static bool send_rest(Question& question);
  [[nodiscard]] static bool receive(Question& question);
  void take(const Question& question);
  void next();
  void finish();

  plugin::Host& host_;
  std::function<void()> done_;
  std::set<std::string> addresses_;
  doctor::RankOf rank_of_;
  std::vector<std::unique_ptr<Question>> questions_;
  std::vector<doctor::RasCommunicator> first_, second_;
  bool is_second_ = false, is_done_ = true;
  std::set<std::string> notes_;
  event::Seconds until_{};
  std::optional<event::Timer> timer_;
};

}  // namespace nacre::plugins
