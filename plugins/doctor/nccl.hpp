// SPDX-License-Identifier: Apache-2.0
//
// What NCCL, and torch above it, tell about the collectives of this shell's tasks: dumps of torch's Flight
// Recorder, and answers of NCCL's RAS.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "doctor/collectives.hpp"
#include "doctor/nccl_ras.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

// Dumps of torch's Flight Recorder, which records the collectives that a process has called. Each process of the
// tasks that was started with TORCH_NCCL_DEBUG_INFO_PIPE_FILE is asked for a dump, by a byte to its FIFO, and the
// file that it then writes is read. Other processes are not asked, and nothing is waited for longer than kMostTime.
class FlightDumps {
 public:
  static constexpr event::Seconds kMostTime{5};
  static constexpr event::Seconds kPeriod{0.1};        // from one look at the files to the next
  static constexpr std::size_t kMostProcesses = 1024;  // of this shell that are asked

  explicit FlightDumps(plugin::Host& host) : host_(host) {}

  // Asks. `done` is called once, from the loop, unless there is nobody to ask.
  void start(std::function<void()> done);
  [[nodiscard]] bool has_asked() const { return !pipes_.empty(); }
  [[nodiscard]] bool is_done() const { return open_.empty(); }
  [[nodiscard]] std::vector<doctor::CollectiveLog> logs() { return std::move(logs_); }
  [[nodiscard]] const std::set<std::string>& notes() const { return notes_; }

 private:
  // Tells whether a file has changed.
  struct Stamp {
    std::int64_t seconds = 0, nanoseconds = 0;
    std::uint64_t inode = 0;
    std::int64_t size = -1;  // -1: there is no file
    bool operator==(const Stamp&) const = default;
  };
  struct Asked {
    std::uint32_t rank = 0;
    std::uint32_t torch_rank = 0;
    std::string file;  // the path by which this process reaches it
    Stamp before;
    Stamp seen;         // at the last look
    std::string error;  // in what was read so far
  };

  void ask(std::uint32_t rank, pid_t pid);
  [[nodiscard]] static Stamp stamp_of(const std::string& file);
  void look();
  [[nodiscard]] bool take(Asked& asked);
  void give_up();

  plugin::Host& host_;
  std::function<void()> done_;
  std::vector<Asked> open_;
  std::set<std::string> pipes_;  // pipes that were written to
  std::vector<doctor::CollectiveLog> logs_;
  std::set<std::string> notes_;
  event::Seconds until_{};
  std::optional<event::Timer> timer_;
};

// The value of a variable in the text of /proc/PID/environ; none: it is not set.
[[nodiscard]] std::optional<std::string> variable_in(std::string_view environment, std::string_view name);

// Asks the RAS of NCCL, which runs in the processes of the tasks, for the state of its communicators, on the node
// of this shell. It asks twice, as only a state that stays shows that something hangs. It asks only if the
// environment of a task, or what the task has loaded, shows NCCL.

// "HOST:PORT" of NCCL_RAS_ADDR: numbers, "[::1]:28028", or localhost.
struct RasAddress {
  sockaddr_storage address{};
  socklen_t size = 0;

  // None: the text has a name, or no address.
  static std::optional<RasAddress> parse(const std::string& text);
};

class NcclRasClient {
 public:
  static constexpr event::Seconds kMostTime{8};  // for all
  static constexpr event::Seconds kBetween{3};   // between the two times that they are asked
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
