// SPDX-License-Identifier: Apache-2.0
//
// What the leader of a job reports beside the job's output, as with --notify, and what is written to a file or
// descriptor of this host. A leader that is this process's child gets a descriptor. Any other leader sends its
// reports within its standard error (launch/carriage.hpp): this class reads that, takes the reports out, and passes
// the rest on.
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
  bool is_path = false;  // `to` is a file, and a leader on this host writes it itself
};

// `to` is a file, or a descriptor of this process that is open for writing.
[[nodiscard]] Result<void> check_report_place(const std::string& to);

class LaunchReports {
 public:
  static constexpr event::Seconds kLastWords{
      1};  // how long other processes may keep the agent's standard error open
  static constexpr event::Seconds kWaitAtEnd{3};  // how long to wait for readers of reports and of standard error

  // For whom a leader's standard error is read even if no report is wanted; of a leader that is no child.
  struct Watch {
    std::function<std::string(std::string_view)> filter;     // of standard error: returns what is passed on of it
    std::function<std::string()> at_end;                     // what is passed on last
    std::function<void()> on_joined;                         // the job's shells have come together
    std::function<void(std::string_view code)> on_ended;     // the leader leaves: Carriage::kEnded
    std::function<void(std::string_view number)> on_signal;  // the leader has read it: Carriage::kSignal
  };

  // A report that cannot be written is a warning, and the leader does not send it. `has_child`: the leader is this
  // process's child.
  // `front`: with what its messages begin.
  static Result<std::unique_ptr<LaunchReports>> create(event::Loop& loop, const std::string& front,
                                                       const std::vector<LaunchReport>& wanted, bool has_child,
                                                       Watch watch = {});
  LaunchReports(const LaunchReports&) = delete;
  LaunchReports& operator=(const LaunchReports&) = delete;

  // To be called before the start: adds descriptors to the command, and options or the carriage to the record.
  void add_to(task::Command& command, launch::LaunchRecord& record) const;
  // Whether the leader's agent needs a stream "stderr" without a line buffer.
  [[nodiscard]] bool is_carried() const { return reader_.has_value(); }
  // What the leader sends is not read, as nobody reads standard error.
  [[nodiscard]] bool is_held_up() const { return stderr_ && stderr_->full(); }
  // To be called when there is something to read in that stream.
  void on_ready(task::BufferedStream& from);
  // To be called when the agent has exited: runs the loop until all is written, but waits for readers no longer
  // than kWaitAtEnd.
  void finish(const std::function<bool()>& is_complete);

 private:
  struct File {
    std::string option;
    std::string channel;
    std::string name;
    UniqueFd given;                         // the descriptor that a child gets
    std::string path;                       // the path that a child gets: of a FIFO that has no reader yet
    std::unique_ptr<io::MessageFile> file;  // the file that this process writes
  };

  LaunchReports(event::Loop& loop, std::string front) : loop_(loop), front_(std::move(front)) {}
  Result<void> open(const LaunchReport& report, bool has_child);
  Result<void> carry();
  void pass_on(std::string_view bytes);
  void write(std::string_view bytes);  // to standard error
  void deliver(std::string_view channel, std::string_view message);
  void read();

  void warn(const std::string& option, std::string_view why) const;

  event::Loop& loop_;
  std::string front_;
  Watch watch_;
  std::vector<std::unique_ptr<File>> files_;
  launch::Carriage carriage_;
  std::optional<launch::CarriageReader> reader_;
  std::unique_ptr<io::FdSink> stderr_;
  task::BufferedStream* from_ = nullptr;
  bool lost_ = false;  // a loss has been reported
};

}  // namespace nacre::front
