// SPDX-License-Identifier: Apache-2.0
//
// Takes the stacks of processes by programs that trace them: at most 4 at a time, 10 s each; the stacks of Python
// programs by reading their memory, if possible, without another program. One stack does not tell whether a task
// waits or gets on, so a second one is taken of some of the tasks whose first ones are equal. No process is left
// stopped: the kernel lets a traced process go when its tracer ends; a SIGSTOP of the tracer's that was on its way
// then is undone here.
#pragma once

#include <sys/types.h>

#include "doctor/findings.hpp"
#include "doctor/python_stacks.hpp"
#include "doctor/stacks.hpp"
#include "plugin/host.hpp"
#include "task/subprocess.hpp"

namespace nacre::plugins {

// How stacks are to be taken; `automatic`: by what is installed.
enum class StackWay : std::uint8_t { none, automatic, eu_stack, gdb, py_spy };

class StackTaker {
 public:
  static constexpr std::size_t kMostAtOnce = 4;
  static constexpr event::Seconds kMostTime{10};   // for one stack
  static constexpr event::Seconds kMostInAll{30};  // for all: stacks not begun by then are left out
  static constexpr event::Seconds kBetween{0.3};   // between the two stacks of a process, at least
  static constexpr std::size_t kMostAlike = 4;     // how many of equal first stacks have a second one
  static constexpr std::size_t kMostText = std::size_t{1} << 20;  // bytes that a program may print

  StackTaker(plugin::Host& host, StackWay way) : host_(host), way_(way) {}
  ~StackTaker();  // ends running programs

  struct Target {
    std::uint32_t rank = 0;
    pid_t pid = 0;
    pid_t tid = 0;            // the thread that stands for the task
    std::set<pid_t> waiting;  // its other threads that wait
    bool was_stopped = false;
    bool is_busy = false;
  };
  struct Taken {
    std::vector<std::string> stack;  // as in doctor::Fact, like the next two
    std::vector<std::vector<std::string>> others;
    doctor::Steps steps = doctor::Steps::unknown;
    bool holds_lock = false;  // as doctor::Fact has it
    std::string place;        // where a busy task is in a script; "": it is not busy, or not in a script
  };
  // By rank; also what went wrong, for people.
  using Stacks = std::map<std::uint32_t, Taken>;
  using Done = std::function<void(const Stacks& stacks, const std::set<std::string>& notes)>;
  // `done` is called once, from the loop; it may destroy this object.
  void start(std::vector<Target> targets, Done done);

 private:
  struct Run {
    Target target;
    doctor::StackTool tool{};
    std::string program;  // that the target executes
    std::unique_ptr<task::Subprocess> process;
    std::optional<event::Timer> limit;
    std::string out, err;
    bool is_late = false;
  };

  struct First {  // the first of two stacks
    Target target;
    std::optional<doctor::StackTool> tool;  // none: its memory was read
    std::vector<doctor::StackFrame> frames;
  };

  void begin_more();
  void begin_again();
  void share_steps();
  [[nodiscard]] bool read_python(const Target& target, const std::string& program);
  void take(const First& from, const std::string& program, const std::vector<doctor::ThreadStack>& threads);
  void begin(const Target& target, doctor::StackTool tool);
  [[nodiscard]] std::optional<doctor::StackTool> tool_for(const std::string& program) const;
  [[nodiscard]] static bool is_there(doctor::StackTool tool);
  [[nodiscard]] std::string why_no_tool() const;
  static void read(Run& run);
  void complete(std::uint32_t rank);
  void note_failure(const Run& run);
  void let_go_on();
  void finish();

  plugin::Host& host_;
  StackWay way_;
  std::deque<Target> waiting_;
  std::map<std::uint32_t, std::unique_ptr<Run>> running_;  // by rank
  std::map<std::uint32_t, First> firsts_;                  // by rank: those that are to have a second one
  std::map<std::vector<std::string>, std::vector<std::uint32_t>> alike_;  // the ranks in firsts_, by their stacks
  bool is_again_ = false;                                                 // the second ones are taken
  std::vector<Target> suspects_;                                          // targets whose tracer has failed
  Stacks stacks_;
  std::set<std::string> notes_;
  event::Seconds until_{};
  std::optional<event::Timer> timer_;  // until the second stacks, or the last look at the suspects
  Done done_;
};

// Which setting of the kernel forbids this process to trace tasks.

// "kernel.yama.ptrace_scope is 1 there; -o doctor.trace=on allows it for a job"; "": Yama is not there, or
// forbids nothing.
[[nodiscard]] std::string trace_setting(const std::string& scope_file = "/proc/sys/kernel/yama/ptrace_scope");

// What the plugin `doctor` offers to other plugins.
struct ExaminationOrder {
  static constexpr double kLeastInterval = 0.05;  // seconds
  static constexpr double kMostInterval = 60;
  static constexpr double kMostAnswerTime = 2;  // seconds beyond what the examination takes

  double interval = 1;   // seconds between the two looks at each process
  bool by_rank = false;  // the answer has rows
  StackWay stacks = StackWay::none;
  bool only_silence = false;  // nothing but Examined::silent is wanted

  [[nodiscard]] Json json() const;
  // An error names the wrong member.
  static Result<ExaminationOrder> parse(const Json& json);
  // Seconds until a shell that has not answered is absent.
  [[nodiscard]] double most_time() const;
  // The same for a shell that has not even said that it has begun; it is named 2 s after it was asked.
  [[nodiscard]] double most_silent_time() const { return interval + kMostAnswerTime; }
};

struct Examined {
  doctor::Examination examination;
  std::vector<doctor::Verdict> verdicts;
  std::vector<doctor::TaskGroup> rows;  // by_rank: a group for each rank
  // only_silence: seconds since a task has done anything that can be seen, of the shells that have answered
  double silent = std::numeric_limits<double>::infinity();
};

class Examiner {
 public:
  virtual ~Examiner() = default;
  // On the leader: `done` is called once, from the loop. EBUSY: too many are under way. `silent`, if set, is called
  // before `done`, at most once: with the shells that have said nothing after kMostAnswerTime.
  virtual Result<void> examine(const ExaminationOrder& order, std::function<void(Examined)> done,
                               std::function<void(std::vector<doctor::Absent>)> silent) = 0;
  // On the leader: the last findings, json_of() with the member `time`; null: nobody has asked.
  [[nodiscard]] virtual Json last_look() const = 0;
};

// The answer of doc/control.md, "doctor": with as many groups as fit into so many bytes.
[[nodiscard]] Json json_of(const Examined& examined, std::size_t most);

// The plugin `doctor`; null: another plugin has replaced it.
[[nodiscard]] Examiner* examiner_of(plugin::Host& host);

// The functions of a process that runs Python, read from its memory. The process is not stopped.

// `program`: the file that the process executes. None: it has no interpreter. An error says why it cannot be read,
// in the same words for all processes.
[[nodiscard]] Result<std::optional<doctor::PythonStacks>> python_stacks_of(pid_t pid, const std::string& program);

}  // namespace nacre::plugins
