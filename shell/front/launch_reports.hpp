// SPDX-License-Identifier: Apache-2.0
//
// What the leader of a job reports to its launcher beside the job's output, as --notify asks for: to a file or descriptor of this
// host. A leader that is this process's child gets a descriptor. Any other one sends its reports among what it writes to
// standard error (launch/carriage.hpp): then this reads that, takes them out, and passes the rest on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "io/message_file.hpp"
#include "launch/carriage.hpp"
#include "launch/record.hpp"
#include "task/subprocess.hpp"

namespace nacre::front {

struct LaunchReport {
  std::string option;    // as it was given: "--notify"
  std::string channel;   // the option of the shell
  std::string to;        // a file, or the number of a descriptor
  bool is_path = false;  // it is a file, which a leader of this host writes itself
};

// Why `to` cannot be a descriptor of this process's that is open for writing; empty if it can, or is a file.
[[nodiscard]] std::string descriptor_error(const std::string& to);

class LaunchReports {
 public:
  static constexpr event::Seconds kLastWords{
      1};  // that other processes may keep the agent's standard error open for
  static constexpr event::Seconds kWaitAtEnd{3};  // for readers of reports and of standard error

  // What cannot be written is a warning, and not asked for. `has_child`: the leader is this process's child.
  static Result<std::unique_ptr<LaunchReports>> create(event::Loop& loop, const std::vector<LaunchReport>& wanted,
                                                       bool has_child);
  LaunchReports(const LaunchReports&) = delete;
  LaunchReports& operator=(const LaunchReports&) = delete;

  // Before the start: descriptors of the command, options or carriage of the record.
  void add_to(task::Command& command, launch::LaunchRecord& record) const;
  // Whether the leader's agent is to have a stream "stderr", without line buffer.
  [[nodiscard]] bool is_carried() const { return reader_.has_value(); }
  // There is something to read in that stream.
  void on_ready(task::BufferedStream& from);
  // Once the agent has exited: runs the loop until all is written, as far as somebody reads it.
  void finish(const std::function<bool()>& is_complete);

 private:
  struct File {
    std::string option;
    std::string channel;
    std::string name;
    UniqueFd given;                         // for a child
    std::string path;                       // for a child, of a FIFO that has no reader yet
    std::unique_ptr<io::MessageFile> file;  // here
  };

  explicit LaunchReports(event::Loop& loop) : loop_(loop) {}
  Result<void> open(const LaunchReport& report, bool has_child);
  Result<void> carry();
  void pass_on(std::string_view bytes);
  void deliver(std::string_view channel, std::string_view message);
  void read();

  event::Loop& loop_;
  std::vector<std::unique_ptr<File>> files_;
  launch::Carriage carriage_;
  std::optional<launch::CarriageReader> reader_;
  std::unique_ptr<io::FdSink> stderr_;
  task::BufferedStream* from_ = nullptr;
  bool lost_ = false;  // that some were lost has been said
};

}  // namespace nacre::front
