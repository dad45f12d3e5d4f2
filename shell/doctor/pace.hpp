// SPDX-License-Identifier: Apache-2.0
//
// How tasks get on: which nodes are slow according to one look, and which hosts and tasks according to many. Pure.
#pragma once

#include "doctor/facts.hpp"

namespace nacre::doctor {

// How the tasks of each node get on, and which node is slow: its tasks get far less of the cpu time that they could
// use than those of the others, or have written far less. Pure.

// The pace of those tasks of one node that have not ended.
struct NodePace {
  std::uint32_t shell = 0;
  std::string host;
  value::Idset ranks;
  Range cpu;  // as in TaskGroup, like those below
  Range ready;
  Range bytes;

  void add(const TaskGroup& group);
};

struct SlowNode {
  const NodePace* node = nullptr;
  std::string evidence;
};

// Shared by slow_nodes() and those who judge by more than one look.
inline constexpr double kLeastWanted = 0.5;  // of a cpu, for each task: less is no hurry
inline constexpr double kServed = 0.9;       // of the cpu time that tasks could use, where a node is well
// Whether so few of the nodes are slow that it is they who are slow.
[[nodiscard]] bool is_few(std::size_t slow, std::size_t nodes);

// Empty unless it is clear: few nodes are slow, and all others get on well. Cpu time can be compared between two
// nodes, output only between three: the output of one of two nodes shows nothing.
[[nodiscard]] std::vector<SlowNode> slow_nodes(const std::vector<NodePace>& nodes);

// Finds which host, or which task, is slower than the others for long: what the shells measure of their tasks
// window by window, judged as in pace.hpp, but against the median of the others, and only where it is so in three
// windows one after the other. Pure.
//
// Which measure tells depends on the job. If tasks get on independently it is what they count or write. If all wait
// for the slowest the counts are equal: then the tasks of the slow host are kept from running, or compute while the
// others wait. If tasks wait without sleeping, as with MPI, the cpu time is also equal, and it can only be seen
// what keeps tasks from running.

// The pace of one task in one window; none: it is not known.
struct TaskPace {
  std::uint32_t rank = 0;
  std::optional<double> cpu, ready;  // of one cpu, as TaskGroup has them
  std::optional<double> gpu;         // use of the devices that it is on, 0 to 1
  std::optional<double> bytes;       // of output
  std::optional<double> rate;        // of the number that it counts in its output: by how much in a second
};

// The pace of the tasks of one shell that have run through the whole of a window: a record of doc/protocol.md,
// "Channels", up 8.
struct PaceWindow {
  double seconds = 0;
  std::vector<TaskPace> tasks;

  [[nodiscard]] std::string text() const;
  static Result<PaceWindow> parse(std::string_view text);
};

// The measure by which a host or a task is found to be slow; the first that tells counts.
enum class PaceMeasure : std::uint8_t {
  number,  // TaskPace::rate
  served,  // the share of the cpu time that it could use
  gpu,     // the use of its GPUs, where those of the others are in use all the time
  busy,    // it runs, or is ready to, while the others wait; only for hosts with several tasks
  bytes,   // of output; only for hosts, at least three
};
[[nodiscard]] std::string_view name_of(PaceMeasure measure);  // "number"

// A finding: a host, or some of its tasks, is slow from now on, or no more.
struct SlowFinding {
  std::uint32_t shell = 0;
  std::string host;
  value::Idset ranks;
  bool is_host = true;  // otherwise some of its tasks
  bool is_over = false;
  PaceMeasure measure = PaceMeasure::number;
  double own = 0, others = 0;  // the medians, of all windows
  double window = 0;           // seconds

  // "n3 is slow: its ranks 12-15 do 4.1 steps/min, the others 9.8 (3 windows of 30 s)"; `word`: what they count.
  [[nodiscard]] std::string text(std::string_view word) const;
  [[nodiscard]] Json json(std::string_view word) const;
};

class SlowFinder {
 public:
  static constexpr std::uint32_t kWindows = 3;   // one after the other
  static constexpr std::uint32_t kMostTold = 3;  // times, of one host or task
  static constexpr double kFactor = 1.5;         // slower than the others

  explicit SlowFinder(double factor = kFactor) : factor_(factor) {}

  struct Host {
    std::string name;
    PaceWindow window;
  };
  // Adds one window of all shells for which it is known. A host or a task that is missing begins anew.
  [[nodiscard]] std::vector<SlowFinding> add(const std::map<std::uint32_t, Host>& shells);
  void forget(std::uint32_t shell);  // it is not in the job any more

 private:
  // A shell, and one of its tasks, or all of them.
  using Subject = std::pair<std::uint32_t, std::optional<std::uint32_t>>;
  struct Streak {
    std::uint32_t slow = 0, well = 0;  // windows
    double own = 0, others = 0;        // sums over them
  };
  struct Told {
    std::uint32_t times = 0;
    std::optional<PaceMeasure> measure;  // by which it is slow now
    double own = 0;                      // the median then
  };
  struct Judged;
  struct Sense;

  [[nodiscard]] std::map<Subject, Judged> judge(const Sense& sense,
                                                const std::map<Subject, std::vector<double>>& of,
                                                std::size_t nodes) const;
  [[nodiscard]] bool is_better(const Sense& sense, double now, double before) const;
  void note(const Sense& sense, const std::map<Subject, Judged>& judged);
  [[nodiscard]] std::vector<SlowFinding> news(const std::map<std::uint32_t, Host>& shells);

  double factor_;
  std::map<std::pair<PaceMeasure, Subject>, Streak> streaks_;
  std::map<Subject, Told> told_;
};

}  // namespace nacre::doctor
