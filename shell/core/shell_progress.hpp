// SPDX-License-Identifier: Apache-2.0
//
// What no-progress of the option restart looks at, on one shell: numbers that its tasks have written, a file, or
// what a command prints. Relative names start at the job's working directory, which is the shell's.
#pragma once

#include "elastic/progress.hpp"
#include "event/loop.hpp"
#include "job/options.hpp"
#include "plugin/host.hpp"
#include "task/subprocess.hpp"

namespace nacre::core {

// The name that a link leads to, size and time of a file or directory, as text; "not there". An error: it cannot be
// looked at.
[[nodiscard]] Result<std::string> look_at_file(const std::string& path);
// What a command has printed, as far as messages have room for it; the rest as its length and a fingerprint.
[[nodiscard]] std::string short_print(std::string_view printed);

class ShellProgress {
 public:
  static constexpr event::Seconds kMostTime{10};  // of the command

  // `host` has to outlive it; `option` has no_progress.
  ShellProgress(plugin::Host& host, job::RestartOption option)
      : host_(host), noted_(std::move(option)), command_(host.loop(), host.children()) {}

  [[nodiscard]] elastic::RestartProgress& noted() { return noted_; }
  [[nodiscard]] bool is_of_output() const { return option().look == job::RestartOption::NoProgress::Look::output; }

  // Looks now. `seen` is called once, perhaps before this returns: with what there is, "" for numbers; none: it
  // cannot be looked at, which is logged. Calls that come while a command runs get what that command prints.
  using WhenSeen = std::function<void(const std::optional<std::string>& what)>;
  void look(WhenSeen seen);
  // The largest number that these have written, of those that are tasks of this shell; "": none.
  [[nodiscard]] std::string number_of(const value::Idset& ranks) const;

 private:
  [[nodiscard]] const job::RestartOption::NoProgress& option() const { return *noted_.option().no_progress; }
  void run();
  void tell(const Result<std::string>& what);

  plugin::Host& host_;
  elastic::RestartProgress noted_;
  std::vector<WhenSeen> waiting_;
  task::CommandRun command_;
};

}  // namespace nacre::core
