// SPDX-License-Identifier: Apache-2.0
//
// The parts of the plugin doctor: examinations of all tasks, and two watches. One of these asks for examinations by
// itself; the other measures how fast the hosts and tasks get on.
#pragma once

#include "bulk/port.hpp"
#include "doctor/answers.hpp"
#include "doctor/pace.hpp"
#include "job/options.hpp"
#include "plugin/host.hpp"
#include "plugin/questions.hpp"
#include "plugins/doctor/looks.hpp"
#include "plugins/doctor/nccl.hpp"
#include "plugins/doctor/stack_taker.hpp"

namespace nacre::plugins {

// Examinations of all tasks of a job: the leader asks the shells by an announcement. Each shell says at once that
// it has begun, looks twice at its tasks, and sends their facts, folded, to the leader alone. A shell that has not
// answered in time is absent; a shell that has not even said that it has begun is reported earlier, and not waited
// for as long.
class Examinations {
 public:
  static constexpr std::size_t kMostOpen = 4;  // examinations

  explicit Examinations(plugin::Host& host) : host_(host) {}

  // On every shell, in shell.init: from here on it answers.
  void serve();

  // On the leader; see Examiner::examine().
  using Silent = std::function<void(std::vector<doctor::Absent>)>;
  Result<void> examine(const ExaminationOrder& order, std::function<void(Examined)> done, Silent silent = nullptr);
  void lost(std::uint32_t shell) { open_.gone(shell); }               // it answers no more
  [[nodiscard]] const Json& last_look() const { return last_look_; }  // as Examiner::last_look()
  // `silence` returns for how many seconds the tasks of this shell have done nothing that can be seen.
  void when_silent(std::function<double()> silence) { silence_ = std::move(silence); }
  // `traced` is called when tasks of this shell have been traced, or asked for a dump, which wakes their threads.
  void when_traced(std::function<void()> traced) { traced_ = std::move(traced); }

 private:
  // What one shell has found.
  struct Answer {
    std::vector<doctor::TaskGroup> groups;
    std::vector<doctor::CollectiveLog> collectives;
    std::vector<doctor::RasFinding> ras;
    std::set<std::string> notes;
  };
  // What this shell finds out for one examination.
  struct Own {
    ExaminationOrder order;
    std::optional<TaskLooks> looks;
    std::optional<StackTaker> stacks;
    std::optional<FlightDumps> dumps;
    std::optional<NcclRasClient> ras;
    std::vector<TaskLooks::Examined> examined;
    std::optional<event::Timer> timer;
    bool is_examined = false;  // `answer` has all except what the dumps and NCCL's RAS say
    Answer answer;
    std::function<void(Answer)> done;
  };
  // What all shells have found.
  struct Found {
    ExaminationOrder order;
    doctor::Gathered from_all;
  };
  // Which shells are silent, while the others are at work.
  struct Attendance {
    ExaminationOrder order;
    Silent tell;
    std::set<std::uint32_t> at_it;  // shells that have said that they have begun
    bool is_told = false;
    bool is_over = false;  // nobody waits for the silent shells any more
    std::optional<event::Timer> timer;
  };

  static constexpr const char* kTopic = "doctor.ask";  // announcement: {"number", "order"}

  void asked(std::string_view bytes);
  Result<void> begin(std::uint64_t number, const ExaminationOrder& order);
  Result<void> look(std::uint64_t number, const ExaminationOrder& order, decltype(Own::done) done);
  void look_again(std::uint64_t number);
  void take_stacks(std::uint64_t number, Own& own);
  void complete(std::uint64_t number, const StackTaker::Stacks& stacks, const std::set<std::string>& notes);
  void answer_if_ready(std::uint64_t number);
  void take(std::uint32_t shell, std::string_view bytes);
  Result<void> watch_silent(std::uint64_t number, const ExaminationOrder& order, Silent silent);
  void silence_is_over(std::uint64_t number);
  void leave_silent(std::uint64_t number);
  [[nodiscard]] value::Idset silent_shells(std::uint64_t number) const;
  [[nodiscard]] Examined examined(Found found, const value::Idset& late);
  [[nodiscard]] std::vector<doctor::Absent> absent(const value::Idset& late) const;

  plugin::Host& host_;
  plugin::Registration asked_;
  std::map<std::uint64_t, Own> own_;
  bulk::RecordQueue records_{bulk::up::kDoctor};
  plugin::OpenQuestions<Found> open_{host_, kTopic, kMostOpen, "the job is examined for"};
  std::map<std::uint64_t, Attendance> attendance_;  // by examination
  doctor::AnswerReader reader_;
  std::function<double()> silence_;
  std::function<void()> traced_;
  Json last_look_ = nullptr;
};

// hang-watch=DURATION[,restart|,kill]: when no task of the job has written, read, been woken by others, ended or
// called PMI for that time, the job is examined, and what was found is printed and kept in the report. With `kill`
// the job is ended then; with `restart` the tasks that are blamed are killed, or all if none is, so that the option
// restart starts them again. Without these it is examined again after twice and four times that time.
struct HangWatchOption {
  static constexpr double kLeast = 1;  // seconds
  enum class Then : std::uint8_t { nothing, restart, kill };

  value::Duration time;
  Then then = Then::nothing;

  // None: the option is not given, or off.
  static Result<std::optional<HangWatchOption>> read(const job::Options& options);
};

class HangWatch {
 public:
  static constexpr int kMostReports = 3;

  HangWatch(plugin::Host& host, Examinations& examinations, HangWatchOption option)
      : host_(host), examinations_(examinations), option_(std::move(option)) {}

  void serve();          // on every shell, in shell.init
  Result<void> start();  // the tasks run
  void stop();           // this shell's tasks have ended: they count as still
  void all_ended();      // on the leader: the tasks of all shells have ended

  // Seconds since a task of this shell has last done something that can be seen.
  [[nodiscard]] double silent();
  void traced() { looks_.clear(); }  // what the tracing has woken does not count

 private:
  // For a task: what changes when it does something.
  struct Mark {
    std::uint64_t written = 0;
    std::set<pid_t> processes;  // the task's process and all below it
    task::State state{};
    bool operator==(const Mark&) const = default;
  };

  [[nodiscard]] bool moved(const Mark& mark, double interval);
  void look();
  void ask();
  void examine();
  void report(const Examined& examined);
  [[nodiscard]] value::Idset to_kill(const doctor::Verdict* blamed) const;
  void end_tasks(const value::Idset& ranks, const std::string& why);
  void end_own(std::string_view order) const;

  static constexpr std::string_view kEndTopic = "doctor.end";  // announcement: {"restarts", "ranks"}

  plugin::Host& host_;
  Examinations& examinations_;
  HangWatchOption option_;
  plugin::Registration ordered_;
  std::map<std::uint32_t, Mark> marks_;  // by rank
  std::map<pid_t, ProcessLook> looks_;   // at their processes
  event::Seconds active_{}, looked_{};   // clock_now()
  std::optional<event::Timer> timer_;
  bool is_over_ = false, asks_ = false;
  int reports_ = 0;
};

// slow-watch=DURATION[,output[:WORD]][,factor=F]: each shell measures its tasks window by window, and sends what it
// has measured to the leader, which says when a host or a task has been slower than the others for long (SlowFinder
// of shell/doctor), and when it is so no more. Nothing else follows from it.

// Measures the tasks of this shell in windows.
class PaceMeter {
 public:
  static constexpr std::size_t kMostThreads = 64;  // of a process
  static constexpr double kMostCost = 0.005;  // share of a cpu that looking may take; above it fewer threads are
                                              // looked at

  // `word`: the one behind which tasks print their count; "": they do not.
  PaceMeter(plugin::Host& host, std::string word) : host_(host), word_(std::move(word)) {}

  // Measures from the last call to this one, for the tasks that ran at both.
  [[nodiscard]] doctor::PaceWindow measure();
  [[nodiscard]] std::size_t most_threads() const { return most_threads_; }

 private:
  struct Mark {
    pid_t pid = 0;
    std::optional<std::uint64_t> bytes;
    std::map<pid_t, CpuLook> processes;
    // The task's count. After a start it is not known before it has grown.
    std::optional<plugin::TaskOutput::Number> number;
    bool has_grown = false;
    std::optional<double> rate;
  };

  [[nodiscard]] Mark mark_of(const task::Task& task) const;
  [[nodiscard]] doctor::TaskPace pace_of(const Mark& before, Mark& now, double seconds) const;
  void count(const Mark& before, Mark& now) const;
  void add_gpus(doctor::PaceWindow& window);

  plugin::Host& host_;
  std::string word_;
  std::map<std::uint32_t, Mark> marks_;  // by rank
  event::Seconds measured_{};
  std::size_t most_threads_ = kMostThreads;
};

class SlowWatch {
 public:
  SlowWatch(plugin::Host& host, job::SlowWatchOption option)
      : host_(host), option_(std::move(option)), meter_(host, option_.word), finder_(option_.factor) {}

  void serve();          // on every shell, in shell.init
  Result<void> start();  // the tasks run
  void stop();           // this shell's tasks have ended
  void all_ended();      // on the leader: the tasks of all shells have ended
  void gone(std::uint32_t shell);

 private:
  void look();
  void take(std::uint32_t shell, std::string_view bytes);
  void keep(std::uint32_t shell, doctor::PaceWindow window);
  void judge();
  void tell(const doctor::SlowFinding& finding);

  plugin::Host& host_;
  job::SlowWatchOption option_;
  PaceMeter meter_;
  bulk::RecordQueue records_{bulk::up::kPace};
  std::optional<event::Timer> timer_;
  bool has_stopped_ = false;
  // On the leader only.
  doctor::SlowFinder finder_;
  std::map<std::uint32_t, doctor::SlowFinder::Host> come_;  // windows that are not judged yet, by shell
  std::optional<event::Timer> judging_;
};

}  // namespace nacre::plugins
