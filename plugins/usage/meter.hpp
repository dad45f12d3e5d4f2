// SPDX-License-Identifier: Apache-2.0
//
// What this shell's tasks use: cpus and memory, by their ends and by their cgroups if they have some; GPUs, by a
// look every 2 s while tasks run.
#pragma once

#include <sys/types.h>

#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/exit_report/task_facts.hpp"
#include "plugins/sysmon/sysmon.hpp"
#include "task/subprocess.hpp"
#include "usage/gpu.hpp"
#include "usage/measure.hpp"

namespace nacre::plugins {

// A cgroup of version 2 for each task, below the shell's own (cgroups(7)): all processes in it are the task's,
// whatever they do, even those that it leaves behind. The shell's cgroup has to be delegated to the shell's user.
//
//   CGROUP/nacre-NAME/task-RANK.TRY    each task's
//   CGROUP/nacre-NAME/shell            the shell, where the kernel demands that CGROUP itself has no process
//
// The memory of a task is counted if CGROUP has that controller. The destructor removes all, moves the shell back,
// and kills what still runs in a task's cgroup.
class TaskCgroups : Noncopyable {
 public:
  struct Used {
    double user = 0, system = 0;               // seconds of cpu time
    std::optional<std::uint64_t> memory_peak;  // bytes, of all its processes together; none: it is not counted
    std::optional<std::uint64_t> oom_kills;    // processes; none: as above
  };

  // Makes the cgroup for the tasks of the process `shell`, which is this process unless in a test. `name`: a file
  // name that only this shell of this job uses. `controller`: the one that is wanted for tasks. `root` is put
  // before the names of all files. An error says what is missing, and how to get it.
  static Result<std::unique_ptr<TaskCgroups>> make(pid_t shell, const std::string& name,
                                                   const std::string& controller = "memory",
                                                   const std::string& root = "");
  ~TaskCgroups();

  // Why tasks do not have the controller; "": they have it.
  [[nodiscard]] const std::string& without() const { return without_; }
  // In the child, before it executes: makes its cgroup, and puts the child there.
  [[nodiscard]] Result<void> enter(std::uint32_t rank, std::uint32_t attempt) const;
  // Once the task's first process has ended: what was used. None: the task has no cgroup. An empty cgroup is
  // removed.
  [[nodiscard]] std::optional<Used> take(std::uint32_t rank, std::uint32_t attempt);

 private:
  TaskCgroups(pid_t shell, std::string parent, std::string own, std::string controller)
      : shell_(shell), parent_(std::move(parent)), own_(std::move(own)), controller_(std::move(controller)) {}
  Result<void> enable();
  Result<void> make_room(const std::string& in_use);
  [[nodiscard]] std::string directory_of(std::uint32_t rank, std::uint32_t attempt) const;

  pid_t shell_;
  std::string parent_;  // the shell's cgroup
  std::string own_;     // below it, for all tasks
  std::string controller_;
  std::string without_;
  bool has_enabled_ = false;       // set if it has enabled controllers in parent_
  bool has_moved_ = false;         // set if it has moved the shell
  std::vector<std::string> left_;  // cgroups that could not be removed yet
};

// Asks the tools of this node's GPUs, nvidia-smi and rocm-smi, who uses them: the tools that are in the PATH, one
// command after the other, each with a limit of time and output, and only when somebody wants a look.
class GpuWatch {
 public:
  static constexpr event::Seconds kMostTime{5};       // of a command
  static constexpr event::Seconds kMostAfterKill{1};  // that a killed command may take to end: some do not end
  static constexpr std::uint32_t kMostFailures = 3;   // of a tool in a row; after that it is not asked any more
  using Done = std::function<void(const usage::GpuLook& look)>;
  using Complain = std::function<void(const std::string& why)>;

  // `complain` is called for the first failure of each tool, and at once if there is no tool. It may be empty.
  GpuWatch(plugin::Host& host, Complain complain, event::Seconds most_time = kMostTime);

  // Begins a look, or joins the one that is under way. `done` is called once, from the loop; at once if there is
  // nobody to ask. The destructor ends what runs, and nothing is called after it.
  void look(Done done);
  // What is wrong now, for people.
  [[nodiscard]] std::set<std::string> notes() const;
  [[nodiscard]] bool has_tools() const { return !tools_.empty(); }

 private:
  struct Step {
    std::vector<std::string> argv;
    Result<void> (usage::GpuLook::*read)(std::string_view text);
  };
  struct Tool {
    std::string name;
    std::vector<Step> steps;
    std::uint32_t failures = 0;  // in a row
    bool has_complained = false;
    std::string why = {};  // why it has failed
    [[nodiscard]] bool is_given_up() const { return failures >= kMostFailures; }
  };

  void next();
  void take(const Result<std::string>& printed);
  void fail(Tool& tool, const std::string& why);
  void note(Tool& tool, const std::string& why);
  void await_end();
  void finish();

  plugin::Host& host_;
  Complain complain_;
  event::Seconds most_time_;
  std::vector<Tool> tools_;
  std::vector<Done> waiting_;
  usage::GpuLook look_;
  std::size_t tool_ = 0, step_ = 0;  // the command that runs
  std::optional<event::Timer> end_;  // by then the command has to have ended
  task::CommandRun run_;             // last: it ends before what its callback needs
};

// For this shell's tasks that run: by the processes that are a task, or below one.
[[nodiscard]] std::map<std::uint32_t, usage::TaskGpu> gpus_of_tasks(plugin::Host& host, const usage::GpuLook& look);

class GpuMeter {
 public:
  static constexpr event::Seconds kFirstLook{0.5};  // after the start of a task
  static constexpr event::Seconds kPeriod{2};       // from the end of a look to the next

  GpuMeter(plugin::Host& host, GpuWatch::Complain complain);

  Result<void> started(const task::Task& task);
  // None: there was no look while it ran.
  [[nodiscard]] std::optional<usage::TaskGpu> exited(const task::Task& task);
  [[nodiscard]] std::vector<usage::NodeGpu> devices() const { return devices_.taken(); }
  // The last look's result; nacre-shell-plugins(7) has the members under usage.gpus.
  [[nodiscard]] Json now() const;
  // No look begins any more, and none is waited for.
  void stop();

 private:
  void look();
  void take(const usage::GpuLook& look);

  plugin::Host& host_;
  std::optional<GpuWatch> watch_;
  std::optional<event::Timer> timer_;
  std::map<std::uint32_t, usage::TaskGpuTally> running_;  // by rank
  std::map<std::uint32_t, usage::TaskGpu> last_;          // by rank
  usage::NodeGpuTally devices_;
  bool is_due_ = false;  // a look is under way, or the timer runs
};

// [rank, memory, use of its devices] for each, null for what is not known; and back.
[[nodiscard]] Json wire_of_gpus(const std::map<std::uint32_t, usage::TaskGpu>& tasks);
[[nodiscard]] Result<std::map<std::uint32_t, usage::TaskGpu>> gpus_from(const Json& wire);

// The usage of this shell's tasks: from task.fork and task.exit it makes a row of each.
class TaskMeter : Noncopyable {
 public:
  // To be made before a task is started. `keeps_commands`: rows have commands that differ from the job's.
  TaskMeter(plugin::Host& host, bool keeps_commands);
  ~TaskMeter() { host_.children().look_before_reap(nullptr); }

  // Tasks have cgroups of their own, which have to outlive this object.
  void read_cgroups(TaskCgroups& cgroups) { cgroups_ = &cgroups; }
  void started(const task::Task& task);
  [[nodiscard]] usage::TaskRow exited(const task::Task& task);  // once for each
  // Tasks whose reads and writes only root may know, as their programs are set-user-ID.
  [[nodiscard]] std::size_t closed() const { return closed_; }
  // The usage of this node, once its tasks have ended.
  [[nodiscard]] usage::NodeRow node();

 private:
  struct Start {
    double time = 0;             // since the Epoch
    event::Seconds moment{};     // monotonic
    std::uint64_t own_peak = 0;  // bytes: the most memory of this process then
    int io_file = -1;            // /proc/PID/io, open until the task has been reaped
    std::optional<usage::TaskIo> io;
  };

  void look(pid_t pid);
  void add_cgroup(const task::Task& task, usage::TaskRow& row) const;
  std::uint64_t own_peak();

  plugin::Host& host_;
  bool keeps_commands_;
  std::map<pid_t, Start> running_;
  std::uint64_t peak_ = 0;  // of this process, as it was last read
  std::size_t closed_ = 0;
  JobUsage memory_;
  OomKills oom_;
  usage::NodeRow node_;
  TaskCgroups* cgroups_ = nullptr;
};

}  // namespace nacre::plugins
