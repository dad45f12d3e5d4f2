// SPDX-License-Identifier: Apache-2.0
//
// The file or descriptor that a report goes to at the job's end.
#pragma once

#include <sys/types.h>

#include "io/sink.hpp"
#include "plugin/host.hpp"

namespace nacre::plugins {

class ReportFile {
 public:
  static constexpr event::Seconds kMostWait{3};  // for the reader of a FIFO or a pipe

  // For messages.
  struct Names {
    std::string plugin, option;
    std::string what;  // "the report"
  };

  // The file that the host's option names; null if the option is not given, or only on or off. On a shell that has
  // come to lead, its launcher may write the report (job::OnLeaderLost); null as well if the report went to a
  // descriptor of another shell.
  static Result<std::unique_ptr<ReportFile>> of_option(plugin::Host& host, Names names);
  // The option: a path, relative to the working directory of this process as it is now, or the number of a
  // descriptor that was open when this process began, which this object takes over. It is also an error if the file
  // could not be written now: no job is started for a report that nobody gets.
  static Result<std::unique_ptr<ReportFile>> at(plugin::Host& host, const JsonAt& option, Names names);

  // Whether an option is on or off, and no file; a number above 1 is a descriptor, as `nacre launch` gives one.
  [[nodiscard]] static bool is_switch(const Json& option);
  // "": the report goes to a descriptor, or the launcher writes it.
  [[nodiscard]] std::string file() const { return fd_ || is_taken_ || is_launchers_ ? "" : path_; }

  // Adds the file's own name to the report, as "file", if it could be written; otherwise warns. An existing file is
  // replaced as a whole, or stays; the target of a link is written. The job is held until the reader has all. On a
  // shell that is cut off, a file that was made since then stays: it is the next leader's.
  void write(Json& report);
  // The same for a text. False: it has warned.
  bool write_text(std::string_view text);
  // Another way: the report is written bit by bit, from the file's beginning or, if `keeps`, behind its content. A
  // failure is a warning, and nothing more is written.
  void add(std::string_view text, bool keeps);
  // Nothing more is added. Waits for the reader.
  void end();

 private:
  ReportFile(plugin::Host& host, Names names) : host_(host), names_(std::move(names)) {}
  [[nodiscard]] Result<void> replace(std::string_view text) const;
  [[nodiscard]] bool is_another_leaders() const;
  Result<void> send(std::string_view text);
  Result<void> open(bool keeps);
  Result<void> wait();
  void let_go();
  void warn(std::string_view why);

  plugin::Host& host_;
  Names names_;
  std::string path_;                  // absolute; or of a descriptor
  std::pair<dev_t, ino_t> before_{};  // the file that was there when the job began
  UniqueFd fd_;
  bool is_taken_ = false;      // `fd_` was set
  bool takes_over_ = false;    // another shell may lead the job once it does not reach this one
  bool is_launchers_ = false;  // it goes to the launcher
  std::unique_ptr<io::MessageFile> to_;
  std::optional<event::Timer> timer_;
  bool holds_ = false, is_opened_ = false;
};

// On a shell that has come to lead: the job's starter appends this to what it has of the report.
void send_to_launcher(plugin::Host& host, std::string_view report, std::string_view text);
// Prints for the launcher's standard error: on a shell that has come to lead its own one leads nowhere.
void print_report(plugin::Host& host, const std::string& text);

}  // namespace nacre::plugins
