// SPDX-License-Identifier: Apache-2.0
//
// The shell: makes everything, runs the phases of a job in order, and is the Host of its plugins.
//
//   shell.cpp        the phases
//   running.cpp      while tasks run, and start again
//   shell_ending.hpp its parts, and how they end: failures, signals, the exit code
//   shell_host.hpp   what plugins see of it
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "boot/identity.hpp"
#include "core/shell_ending.hpp"
#include "core/shutdown.hpp"

namespace nacre::core {

class Shell final : public ShellEnding {
 public:
  // Reads options, distributes the tasks, and takes over this process's signals. The process and `log` must outlive
  // it. After an error the other shells still wait for this one: see give_up().
  static Result<std::unique_ptr<Shell>> create(join::ShellProcess& process, boot::Identity identity,
                                               ShellConfig config, Log& log);
  ~Shell() override;
  // Runs the job, and returns the exit code. An error is returned only by a job's only shell; the caller logs it,
  // and the exit code is 1. One of several shells has sent its failure to the others, and the leader has logged it.
  Result<int> run();

 private:
  using ShellEnding::ShellEnding;
  Result<void> prepare_process();  // signals, children, the group
  void begin_timeline();
  void serve_group();

  // The phases, in order (shell.cpp). If one fails, or calls raise() or die(), the job ends.
  void prepare();
  Result<void> load_plugins();
  Result<void> run_initrc();
  Result<void> pass_init_barrier(std::string initrcs);
  Result<void> make_tasks();
  Result<void> initialize();
  void execute();
  Result<void> post_init();
  Result<void> announce_start();
  void run_tasks();
  [[nodiscard]] bool is_due() const;
  void start_due();
  void stand_by();
  Result<void> take_over();
  void finish();
  void report_left(const std::vector<pid_t>& pids);
  Result<void> print_plan();
  Result<int> print_plugins();

  void attempt(Result<void> phase);
  [[nodiscard]] bool stops_here();  // whether the job is being ended, after a look for new events
  Result<void> call(std::string_view topic);
  Result<void> call_in_phase(std::string_view topic);

  Stragglers stragglers_;
};

}  // namespace nacre::core
