// SPDX-License-Identifier: Apache-2.0
//
// How a job has to end, by its plan and its faults: which record each task has, which code follows from these,
// which output has come out, and how long all of it may take.
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "exits/notice.hpp"
#include "launch/record.hpp"
#include "notice_reader.hpp"
#include "shells/seen.hpp"

namespace nacre::shells {
namespace {

constexpr int kSignalBase = 128;
constexpr Nanoseconds kMargin = 15 * kSecond;    // for things under way, in addition to an allowed time
constexpr Nanoseconds kMostAfter = 6 * kMinute;  // a shell is cut off by 6 times lost-after, which is 30 s at most

std::string joined(const std::vector<std::string>& all) { return fmt::format("{}", fmt::join(all, "; ")); }

// The status as in records.
std::string text_of(int status) {
  return WIFEXITED(status) ? fmt::format("x{}", WEXITSTATUS(status)) : fmt::format("s{}", WTERMSIG(status));
}

// The code of a record, by the table of nacre-exits(7).
int code_of(const std::string& record) {
  constexpr int kOverTime = 124;
  switch (record.at(0)) {
    case 'x':
    case 'f': return std::atoi(record.c_str() + 1);
    case 's': return kSignalBase + std::atoi(record.c_str() + 1);
    case 't': return kOverTime;
    case 'l': return 1;
    default: return 0;
  }
}

class Check {
 public:
  explicit Check(const Seen& seen) : seen_(seen), plan_(seen.plan) {
    for (const auto& [pid, each] : seen.kernel.processes()) {
      if (each->kind == ProcessKind::shell) shells_.push_back(each.get());
      if (each->task && each->task->rank) tries_[*each->task->rank].push_back(each.get());
    }
    if (WIFEXITED(seen.status)) code_ = WEXITSTATUS(seen.status);
    read_report();
    for (const auto& each : seen.front_ends) {
      for (const Json& said : each->said()) read_leaving(said);
    }
  }

  // The first rule that is broken.
  [[nodiscard]] std::string all() const {
    if (!defect_.empty()) return defect_;
    for (auto each : {&Check::hand_over, &Check::processes, &Check::losses, &Check::orders, &Check::records,
                      &Check::causes, &Check::notices, &Check::code, &Check::codes_of_shells, &Check::restarts,
                      &Check::output, &Check::kills, &Check::times, &Check::prologs, &Check::phases, &Check::forks,
                      &Check::ends_seen, &Check::agreement, &Check::files}) {
      if (std::string wrong = (this->*each)(); !wrong.empty()) return wrong;
    }
    return "";
  }

 private:
  // ---- what is known ------------------------------------------------------------

  void read_report() {
    if (!seen_.report.is_object()) return;
    const Json& report = seen_.report;
    for (const Json& each : report.at("classes")) {
      auto ranks = value::Idset::parse(each.at("ranks").get<std::string>());
      for (std::uint32_t rank : ranks->ids()) {
        if (!records_.emplace(rank, each.at("record")).second)
          defect_ = fmt::format("in the report task {} has two records", rank);
      }
    }
    if (report.at("cause").contains("message")) cause_ = report.at("cause").at("message").get<std::string>();
    for (const Json& each : report.at("timeline")) {
      if (each.value("event", "") == "lost") lost_.insert(each.at("shell").get<std::uint32_t>());
    }
  }

  void read_leaving(const Json& said) {
    for (const char* each : {"gone", "shells"}) {
      if (!said.is_object() || !said.contains(each) || !said.at(each).is_string()) continue;
      if (auto ids = value::Idset::parse(said.at(each).get<std::string>())) leaving_.insert(*ids);
    }
  }

  [[nodiscard]] const Process* last(std::uint32_t rank) const {
    auto found = tries_.find(rank);
    return found == tries_.end() ? nullptr : found->second.back();
  }

  [[nodiscard]] const Process* shell_of(const Process& task) const {
    auto found = seen_.kernel.processes().find(task.started_by);
    return found == seen_.kernel.processes().end() ? nullptr : found->second.get();
  }

  // The leader may be lost after it has told a shell to leave, and before it answers.
  [[nodiscard]] bool may_leave_unanswered() const {
    return plan_.has_order(Order::Kind::shrink) && !are_shells_calm();
  }

  // A front end has asked the shell to leave.
  [[nodiscard]] bool has_left(const Process& shell) const {
    return plan_.has_order(Order::Kind::shrink) && WIFEXITED(shell.status) && WEXITSTATUS(shell.status) == 0 &&
           leaving_.contains(number_of(shell));
  }

  // The shell was part of the job until it, or the job, ended in order.
  [[nodiscard]] bool is_healthy(const Process& shell) const {
    if (!code_ || !WIFEXITED(shell.status) || lost_.contains(number_of(shell))) return false;
    // A lost shell exits with 1, and without a report nothing says that it was lost.
    if (!are_shells_calm() && (records_.empty() || *code_ == 1)) return false;
    return WEXITSTATUS(shell.status) == *code_ || (has_left(shell) && are_shells_calm());
  }

  [[nodiscard]] bool is_on_healthy_shell(const Process& task) const {
    const Process* shell = shell_of(task);
    return shell != nullptr && is_healthy(*shell);
  }

  // No fault has ended shells, or cut them off from one another.
  [[nodiscard]] bool are_shells_calm() const {
    return !plan_.has_fault(Fault::Kind::kill) && !plan_.has_fault(Fault::Kind::stop) && !seen_.are_links_cut &&
           !seen_.are_newcomers_harmed;
  }

  [[nodiscard]] bool is_ended_by(const char* order) const {
    return std::any_of(plan_.orders.begin(), plan_.orders.end(),
                       [&](const Order& each) { return each.kind == Order::Kind::look && each.what == order; });
  }

  // Signals that tasks have got from outside.
  [[nodiscard]] std::set<int> sent_signals() const {
    std::set<int> out;
    if (plan_.has_fault(Fault::Kind::terminate)) out.insert(SIGTERM);
    for (const Fault& each : plan_.faults) {
      if (each.kind == Fault::Kind::signal) out.insert(each.signum);
    }
    for (const Order& each : plan_.orders) {
      if (each.kind == Order::Kind::kill) out.insert(each.signum);
    }
    return out;
  }

  // The time of the last end of a task.
  [[nodiscard]] Nanoseconds last_end() const {
    Nanoseconds out = 0;
    for (const auto& [rank, tries] : tries_) out = std::max(out, tries.back()->ended_at);
    return out;
  }

  // ---- processes -------------------------------------------------------------------

  [[nodiscard]] std::string processes() const {
    for (const auto& [pid, each] : seen_.kernel.processes()) {
      if (!each->error.empty()) return each->name + ": " + each->error;
      // A shell that leaves before the others keeps a link, whose end says that it has gone.
      const bool is_last_link = !plan_.orders.empty() && each->left_open.size() == 1 &&
                                each->left_open[0].find(" of socket,") != std::string::npos;
      if (each->kind == ProcessKind::shell && !each->left_open.empty() && !is_last_link)
        return each->name + " has left open: " + joined(each->left_open);
    }
    return seen_.defect;
  }

  // ---- records ---------------------------------------------------------------------

  [[nodiscard]] std::string records() const {
    if (!seen_.report.is_object()) {
      bool is_wanted =
          code_ && !plan_.value_of("report").empty() && !seen_.is_faulted && cause_.empty() && *code_ == 0;
      return is_wanted ? "there is no report" : "";
    }
    for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
      auto found = records_.find(rank);
      if (found == records_.end()) return fmt::format("in the report task {} has no record", rank);
      if (std::string why = wrong_record(rank, found->second); !why.empty())
        return fmt::format("the record of task {} is {}, and {}", rank, found->second, why);
    }
    if (ranks() % plan_.tasks_per_shell != 0 ||
        ranks() > std::max(plan_.ranks(), plan_.most * plan_.tasks_per_shell))
      return fmt::format("the job has {} tasks at its end", ranks());
    return records_.size() == ranks() ? "" : "there are records of tasks that the job has not";
  }

  // The number of ranks at the job's end.
  [[nodiscard]] std::uint32_t ranks() const {
    return plan_.resizes() ? seen_.report.at("job").at("tasks").get<std::uint32_t>() : plan_.ranks();
  }

  [[nodiscard]] std::string wrong_record(std::uint32_t rank, const std::string& record) const {
    const Process* task = last(rank);
    if (auto found = seen_.exec_errors.find(rank); found != seen_.exec_errors.end())
      return wrong_unstarted(record, found->second == ENOENT ? "f127" : "f126");
    // While all tasks are about to start again a record is that of the task whose place the new one takes.
    if (plan_.resizes() && ((record[0] == 'c' && !cause_.empty()) || (record[0] == 'l' && !are_shells_calm())))
      return "";
    if (task == nullptr) return wrong_unstarted(record, "");
    const std::string truth = text_of(task->status);
    const bool healthy = is_on_healthy_shell(*task);
    const bool is_asked = task->asked_at != kNever && sent_signals().empty() && leaving_.empty();
    if (is_asked && record[0] == 's') return "a shell has ended it";
    const std::size_t slash = record.find('/');
    const std::string raw = slash == std::string::npos ? "" : record.substr(slash + 1);
    if (!raw.empty() && raw != truth) return "it has ended as " + truth;
    // The task was to start again with one that could not.
    if (record[0] == 'f' && !plan_.value_of("restart").empty() && !cause_.empty()) return "";
    switch (record[0]) {
      case 'c': return may_be_victim(*task) || !healthy ? "" : "nothing has ended it";
      case 'l': return healthy ? "its shell was not lost" : "";
      case 'g': return leaving_.empty() && !may_leave_unanswered() ? "no shell was to leave" : "";
      case 't': return plan_.value_of("time-limit").empty() ? "there is no time-limit" : "";
      default: return record == truth ? "" : "it has ended as " + truth;
    }
  }

  // Whether the task may be a victim of the job's end, or of a restart with others that a signal from outside, or a
  // shrink, has called off.
  [[nodiscard]] bool may_be_victim(const Process& task) const {
    const bool is_off = !plan_.value_of("restart").empty() && task.asked_at != kNever &&
                        (!sent_signals().empty() || !leaving_.empty());
    return !cause_.empty() || is_off;
  }

  // The task's last try was not executed, or it has none.
  [[nodiscard]] std::string wrong_unstarted(const std::string& record, const std::string& error) const {
    bool is_error = record == error || (error.empty() && record[0] == 'f' && !cause_.empty());
    // A signal is also for tasks that wait.
    bool is_left_out = !plan_.value_of("at-most").empty() && !sent_signals().empty();
    bool is_victim = record == "c" && (!cause_.empty() || is_left_out);
    bool is_lost = record == "l" && !are_shells_calm();
    bool is_gone = record == "g" && !leaving_.empty();
    return is_error || is_victim || is_lost || is_gone ? "" : "it has not been executed";
  }

  // No shell is declared lost if neither it nor its links had a fault.
  [[nodiscard]] std::string losses() const {
    if (!are_shells_calm() || plan_.failure) return "";
    for (std::uint32_t each : lost_) {
      // A shell that comes while the job is being ended goes again.
      const bool has_come_late = each >= plan_.shells && !cause_.empty();
      if (!has_come_late) return fmt::format("shell {} is lost, and nothing was done to it", each);
    }
    return "";
  }

  // A task that has ended the job has failed, by its record.
  [[nodiscard]] std::string causes() const {
    if (!seen_.report.is_object() || !seen_.report.at("cause").contains("rank")) return "";
    const auto rank = seen_.report.at("cause").at("rank").get<std::uint32_t>();
    const auto found = records_.find(rank);
    if (found == records_.end()) return fmt::format("task {} is the cause, and the job has none", rank);
    const bool has_failed = found->second[0] == 'f' || found->second[0] == 't' || code_of(found->second) != 0;
    return has_failed || plan_.barriers > 0
               ? ""
               : fmt::format("task {} is the cause, and its record is {}", rank, found->second);
  }

  // The notices together are the map of the report.
  [[nodiscard]] std::string notices() const {
    std::ifstream file(job_folder() + "/notices");
    if (!file || !code_ || records_.empty()) return "";
    kit::NoticeMap map;
    for (std::string line; std::getline(file, line);) {
      auto notice = kit::decode_notice(line);
      if (!notice) return "a notice cannot be read: " + notice.error().message;
      if (auto taken = map.take(*notice); !taken)
        return "a notice does not follow the one before: " + taken.error().message;
    }
    if (!map.ended()) return "no notice is the last";
    for (const auto& [record, ranks] : map.records()) {
      for (std::uint32_t rank : ranks.ids()) {
        if (records_.at(rank) != record)
          return fmt::format("by the notices the record of task {} is {}, and {} by the report", rank, record,
                             records_.at(rank));
      }
    }
    return "";
  }

  // ---- the job's code ------------------------------------------------------------------

  // The possible codes of these records; by the policy `first` each failure may have been the first.
  [[nodiscard]] std::set<int> by_policy() const {
    const std::string policy = plan_.value_of("exit-policy");
    int largest = 0;
    bool all = true;
    std::set<int> failures;
    for (const auto& [rank, record] : records_) {
      int code = code_of(record);
      largest = std::max(largest, code);
      all = all && code == 0 && record[0] != 'c';
      if (code != 0) failures.insert(code);
    }
    const std::string& main = records_.at(0);
    const int mains = main[0] == 'c' ? 1 : code_of(main);
    if (policy == "main") return {mains};
    if (policy == "all") return {all ? 0 : 1};
    if (policy == "main+all") return {mains != 0 ? mains : all ? 0 : 1};
    if (policy == "first" && !failures.empty()) return failures;
    return {largest};
  }

  // A cause that is not a task's end counts as at least 1, or has its own code.
  [[nodiscard]] std::set<int> expected() const {
    std::set<int> out;
    const bool is_of_task = seen_.report.at("cause").contains("rank") || !plan_.value_of("time-limit").empty();
    for (int each : by_policy()) {
      // A fault may come when the code is already certain.
      const bool is_late = !sent_signals().empty() || (seen_.is_faulted && seen_.last_fault >= last_end());
      if (cause_.empty() || is_of_task || is_late) out.insert(each);
      if (!cause_.empty()) out.insert(std::max(each, 1));
    }
    // If tasks use PMI the job ends with the code of the task that has left the others.
    for (const auto& [rank, record] : records_) {
      if (plan_.barriers > 0 && !cause_.empty() && record[0] != 'c') out.insert(std::max(code_of(record), 1));
    }
    if (plan_.failure) out.insert(1);
    for (int each : sent_signals()) out.insert(kSignalBase + each);
    if (is_ended_by("cancel")) out.insert(kSignalBase + SIGTERM);
    return out;
  }

  [[nodiscard]] std::string code() const {
    if (!code_) {
      bool is_killed = plan_.has_fault(Fault::Kind::kill);
      return is_killed ? "" : fmt::format("the leader is ended by signal {}", WTERMSIG(seen_.status));
    }
    const bool has_to_fail = plan_.failure && !seen_.is_faulted && plan_.orders.empty();
    if (has_to_fail && *code_ == 0) return "a handler has failed, and the job's code is 0";
    const bool is_undone = !seen_.is_faulted && !plan_.failure && plan_.orders.empty();
    if (is_undone && seen_.first_start == kNever)
      return fmt::format("nothing is done to the job, and it exits with {} before it has started a task", *code_);
    if (records_.empty()) return *code_ == 0 ? success_without_records() : "";
    const std::set<int> codes = expected();
    if (codes.contains(*code_)) return is_over_early();
    return fmt::format("the job's code is {}, and the records make {}", *code_, fmt::join(codes, " or "));
  }

  [[nodiscard]] bool tolerates_loss() const {
    return plan_.has_option("on-lost=go-on") || plan_.has_option("tolerate-loss=on") ||
           plan_.has_option("fault-tolerance=on") || plan_.value_of("on-lost").starts_with("replace");
  }

  [[nodiscard]] std::string success_without_records() const {
    if (plan_.value_of("exit-policy") == "main" || plan_.has_order(Order::Kind::shrink)) return "";
    for (const auto& [rank, tries] : tries_) {
      if (tries.back()->status != 0 && !plan_.resizes())
        return fmt::format("the job's code is 0, and task {} has ended as {}", rank, text_of(tries.back()->status));
    }
    return "";
  }

  [[nodiscard]] bool may_end_without_progress() const {
    return plan_.value_of("restart").find("no-progress=") != std::string::npos;
  }

  // A job without faults ends when its tasks have ended.
  [[nodiscard]] std::string is_over_early() const {
    constexpr Nanoseconds kUsualExitTimeout = 30 * kSecond;
    bool may = seen_.is_faulted || plan_.failure || !plan_.orders.empty() || plan_.barriers > 0 ||
               !plan_.value_of("exit-on-error").empty() || !plan_.value_of("time-limit").empty() ||
               may_end_without_progress();
    if (cause_.empty() || may) return "";
    Nanoseconds first = kNever, most = 0;
    for (const auto& [rank, tries] : tries_) {
      first = std::min(first, tries.back()->ended_at);
      most = std::max(most, tries.back()->ended_at);
    }
    bool is_late = most - first >= plan_.time_of("exit-timeout", kUsualExitTimeout) - kSecond;
    return is_late ? "" : "the job is ended though nothing has happened: " + cause_;
  }

  // ---- shells ---------------------------------------------------------------------------

  [[nodiscard]] std::string codes_of_shells() const {
    if (!code_) return "";
    for (const Process* each : shells_) {
      if (!WIFEXITED(each->status)) continue;
      const int own = WEXITSTATUS(each->status);
      if (number_of(*each) >= plan_.shells) continue;  // a shell that has come later, or was not let in
      const bool may_differ = !are_shells_calm() || seen_.first_start == kNever;  // the shell may not have joined
      if (own == *code_ || has_left(*each) || (own != 0 && may_differ)) continue;
      return fmt::format("{} exits with {}, and the job with {}", each->name, own, *code_);
    }
    return "";
  }

  // ---- another leader -------------------------------------------------------------------

  // All shells know by then that the job goes on without its leader, as they have started their tasks.
  [[nodiscard]] bool has_handed_over() const {
    if (!plan_.hands_over || code_) return false;
    for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
      const Process* first = tries_.contains(rank) ? tries_.at(rank).front() : nullptr;
      const bool is_started = first != nullptr && first->started_at < first_kill();
      if (!is_started && !seen_.exec_errors.contains(rank)) return false;
    }
    return true;
  }

  [[nodiscard]] Nanoseconds first_kill() const {
    Nanoseconds out = kNever;
    for (const Process* each : shells_) out = WIFSIGNALED(each->status) ? std::min(out, each->ended_at) : out;
    return out;
  }

  [[nodiscard]] Nanoseconds last_kill() const {
    Nanoseconds out = 0;
    for (const Process* each : shells_) out = WIFSIGNALED(each->status) ? std::max(out, each->ended_at) : out;
    return out;
  }

  // The job goes on as after any other loss: its code is that of the rest, and no output of the rest is missing.
  [[nodiscard]] std::string hand_over() const {
    if (!has_handed_over()) return "";
    std::set<int> codes{1}, owns;
    // Also of tasks of the lost shell: the job may have been over.
    for (const auto& [rank, tries] : tries_) codes.insert(code_of(text_of(tries.back()->status)));
    for (const auto& [rank, error] : seen_.exec_errors) codes.insert(error == EACCES ? 126 : 127);
    for (const Process* each : shells_) {
      // A shell that has left, which only the lost leader may have been told, that has come later and was not let
      // in, or that has resigned.
      const int own = WEXITSTATUS(each->status);
      const bool is_later = number_of(*each) >= plan_.shells && (own <= 1 || own == launch::kLeaderLost);
      const bool may_have_left = plan_.has_order(Order::Kind::shrink) && own == 0;
      if (!WIFEXITED(each->status) || may_have_left || is_later) continue;
      owns.insert(WEXITSTATUS(each->status));
      if (owns.size() > 1 || !codes.contains(*owns.begin()))
        return fmt::format("the leader is lost, {} exits with {}, and the job's code is one of {}", each->name,
                           WEXITSTATUS(each->status), fmt::join(codes, ", "));
    }
    const std::map<std::string, std::string> came = lines();
    for (const auto& [rank, tries] : tries_) {
      const Process* shell = shell_of(*tries.back());
      if (shell == nullptr || !WIFEXITED(shell->status)) continue;
      const bool may_be_asked =
          !seen_.exec_errors.empty() || !plan_.value_of("restart").empty() || plan_.has_order(Order::Kind::shrink);
      if (tries.back()->asked_at != kNever && !may_be_asked)
        return fmt::format("the leader is lost, and {} is ended for that", tries.back()->name);
      if (std::string wrong = missing_lines(*tries.back(), rank, came); !wrong.empty()) return wrong;
    }
    return "";
  }

  // Each line that the task has written, in its order; some lines may come twice.
  [[nodiscard]] static std::string missing_lines(const Process& task, std::uint32_t rank,
                                                 const std::map<std::string, std::string>& came) {
    for (int stream : {1, 2}) {
      const std::string mark = task_mark(rank, task.task->script.start) + (stream == 1 ? " out " : " err ");
      const auto found = came.find(mark);
      std::istringstream wrote(task.task->wrote[static_cast<std::size_t>(stream)]);
      std::string got = found == came.end() ? "" : found->second;
      std::size_t at = 0;
      for (std::string line; std::getline(wrote, line);) {
        if (wrote.eof()) break;  // the task was ended within this line
        at = got.find(line + "\n", at);
        if (at == std::string::npos)
          return fmt::format("{} has written '{}', which has not come out", task.name, line);
      }
    }
    return "";
  }

  // ---- tasks that start again -------------------------------------------------------------

  [[nodiscard]] std::string restarts() const {
    const std::string option = plan_.value_of("restart");
    const std::uint32_t most = plan_.most_restarts().value_or(0);
    const bool moves = plan_.value_of("on-lost").starts_with("replace");
    constexpr std::string_view kPerTask = "per-task=";
    const std::size_t at = option.find(kPerTask);
    const auto per_task = at == std::string::npos
                              ? UINT32_MAX
                              : static_cast<std::uint32_t>(std::atoi(option.c_str() + at + kPerTask.size()));
    const bool is_each_alone = option.find("scope=") == std::string::npos && plan_.barriers == 0 && !moves;
    std::uint32_t all = 0;
    for (const auto& [rank, count] : seen_.starts) {
      all += count - 1;
      // A task that starts again with another one uses none of its own.
      const std::uint32_t own = is_each_alone ? std::min(most, per_task) : most;
      if (!moves && !plan_.has_order(Order::Kind::restart) && count > own + 1)
        return fmt::format("task {} has been started {} times", rank, count);
    }
    const bool is_calm = !seen_.is_faulted && cause_.empty() && plan_.orders.empty() && code_.has_value();
    // If a handler fails the job is ended, and without a report nothing is known of that.
    const bool is_by_failure = option.starts_with("on-failure") && per_task == UINT32_MAX && is_calm &&
                               !plan_.failure && !may_end_without_progress();
    if (!is_each_alone || plan_.has_order(Order::Kind::restart)) return "";
    if (all > most) return fmt::format("there are {} restarts, and may be {}", all, most);
    if (!is_by_failure || all == most) return "";
    for (const auto& [rank, tries] : tries_) {
      if (tries.back()->status != 0) return fmt::format("task {} has failed, and is not started again", rank);
    }
    return "";
  }

  // ---- output --------------------------------------------------------------------------------

  // The names of files with output.
  [[nodiscard]] static std::string written_files() {
    std::string out;
    std::error_code none;
    for (const auto& each : std::filesystem::directory_iterator(job_folder())) {
      std::string name = each.path().filename();
      if (name != "o" && name != "e" && !name.starts_with("o.") && !name.starts_with("e.")) continue;
      std::ifstream file(each.path());
      out.append(std::istreambuf_iterator<char>(file), {});
    }
    // The file of a job that goes on without its launcher.
    for (const auto& each : std::filesystem::directory_iterator(job_folder() + "/jobs", none)) {
      if (each.path().extension() != ".out") continue;
      std::ifstream file(each.path());
      out.append(std::istreambuf_iterator<char>(file), {});
    }
    return out;
  }

  // All that tasks have written and that has come out, by how each line begins.
  [[nodiscard]] std::map<std::string, std::string> lines() const {
    std::map<std::string, std::string> out;
    std::istringstream all(seen_.output[1] + "\n" + seen_.output[2] + "\n" + written_files());
    constexpr std::string_view kTask = "task ";
    for (std::string line; std::getline(all, line);) {
      if (line.starts_with("nacre")) continue;  // nacre's own, which may quote what tasks have written
      for (std::size_t at = line.find(kTask); at != std::string::npos; at = line.find(kTask, at + 1)) {
        std::size_t mark = line.find(' ', at + kTask.size());  // behind rank and start
        if (mark == std::string::npos) break;
        std::string_view stream = std::string_view(line).substr(mark, 5);
        if (stream != " out " && stream != " err ") continue;
        out[line.substr(at, mark + stream.size() - at)] += line.substr(at) + "\n";
      }
    }
    return out;
  }

  // A line that has a label has that of its task.
  [[nodiscard]] std::string labels() const {
    constexpr std::string_view kTask = ": task ";
    std::istringstream all(seen_.output[1] + "\n" + seen_.output[2] + "\n" + written_files());
    for (std::string line; std::getline(all, line);) {
      const std::size_t colon = line.find(kTask);
      const std::size_t dot = line.find('.', colon);
      if (colon == std::string::npos || dot == std::string::npos) continue;
      if (line.find_first_not_of("0123456789") != colon) continue;
      const std::string label = line.substr(0, colon);
      const std::string rank = line.substr(colon + kTask.size(), dot - colon - kTask.size());
      if (label != rank) return fmt::format("a line of task {} has the label {}", rank, label);
    }
    return "";
  }

  [[nodiscard]] std::string output() const {
    if (std::string wrong = labels(); !wrong.empty()) return wrong;
    if (plan_.hands_over && !code_) return "";  // some may come twice: see hand_over()
    const std::map<std::string, std::string> came = lines();
    for (const auto& [rank, tries] : tries_) {
      for (const Process* each : tries) {
        for (int stream : {1, 2}) {
          std::string mark = task_mark(rank, each->task->script.start) + (stream == 1 ? " out " : " err ");
          auto found = came.find(mark);
          std::string wrong = wrong_output(*each, stream, mark, found == came.end() ? "" : found->second);
          if (!wrong.empty()) return wrong;
        }
      }
    }
    return "";
  }

  // Each line comes once, in order, and none is missing, unless the shell or the leader was lost.
  [[nodiscard]] std::string wrong_output(const Process& task, int stream, const std::string& mark,
                                         std::string got) const {
    const std::string& wrote = task.task->wrote[static_cast<std::size_t>(stream)];
    if (got == wrote) return "";
    // The task was ended within a line, and later output is on the same line.
    bool is_cut = !wrote.empty() && wrote.back() != '\n';
    if (is_cut && got.starts_with(wrote) && got.find('\n', wrote.size()) + 1 == got.size()) return "";
    // The task was ended before the line shows whose it is.
    const std::size_t last = wrote.rfind('\n') + 1;  // 0: there is none
    if (is_cut && wrote.size() - last <= mark.size() && got == wrote.substr(0, last)) return "";
    // After a second SIGINT a shell waits for nothing.
    if (!is_on_healthy_shell(task) || sent_signals().contains(SIGINT) || was_given_up(*shell_of(task))) {
      if (!got.empty()) got.pop_back();
      if (wrote.starts_with(got)) return "";
    }
    return fmt::format("of what {} has written to {}, {} bytes, {} have come out, or others", task.name, stream,
                       wrote.size(), got.size());
  }

  // The shell had to leave in the end, as its output had not been read, and the job has reported that.
  [[nodiscard]] bool was_given_up(const Process& shell) const {
    constexpr Nanoseconds kMostAfterTasks = 10 * kSecond;
    if (!plan_.slow_reader || !has_left(shell)) return false;
    const std::string line =
        fmt::format("shell {} on {} has left before all had come", number_of(shell), shell.host);
    Nanoseconds last = 0;
    for (const auto& [rank, tries] : tries_) {
      for (const Process* each : tries) last = std::max(last, each->started_by == shell.pid ? each->ended_at : 0);
    }
    return shell.ended_at >= last + kMostAfterTasks && seen_.output[2].find(line) != std::string::npos;
  }

  // ---- time ------------------------------------------------------------------------------------

  [[nodiscard]] Nanoseconds all_stops() const {
    Nanoseconds out = 0;
    for (const Fault& each : plan_.faults) out += each.kind == Fault::Kind::stop ? each.length : 0;
    return out;
  }

  // A task that its shell ends has the kill-timeout, or what a front end gives it.
  [[nodiscard]] std::string kills() const {
    constexpr Nanoseconds kUsualTimeout = 5 * kSecond;
    if (sent_signals().contains(SIGTERM)) return "";
    Nanoseconds most = plan_.time_of("kill-timeout", kUsualTimeout) + all_stops() + kMargin;
    for (const Order& each : plan_.orders) most += each.grace;
    for (const auto& [rank, tries] : tries_) {
      for (const Process* each : tries) {
        if (each->asked_at == kNever || each->ended_at <= each->asked_at + most) continue;
        return fmt::format("{} has got SIGTERM of its shell, and runs for {} s more", each->name,
                           (each->ended_at - each->asked_at) / kSecond);
      }
    }
    return "";
  }

  // A shell that stands still ends later, and so do its tasks.
  [[nodiscard]] bool has_stood_still(pid_t shell) const { return seen_.stopped.contains(shell); }

  [[nodiscard]] std::string times() const {
    Nanoseconds most = seen_.last_fault;
    for (const auto& [pid, each] : seen_.kernel.processes()) {
      bool counts = each->task && !each->task->is_left && !has_stood_still(each->started_by);
      if (counts) most = std::max(most, each->ended_at);
    }
    for (const Process* each : shells_) {
      if (has_stood_still(each->pid)) continue;
      if (each->ended_at > most + kMostAfter)
        return fmt::format("{} ends {} s after all tasks, and all that was done to it", each->name,
                           (each->ended_at - most) / kSecond);
    }
    return "";
  }

  // No task starts before the prolog is over on all hosts.
  [[nodiscard]] std::string prologs() const {
    if (plan_.value_of("prolog").empty() || seen_.first_start == kNever || !are_shells_calm()) return "";
    for (const Process* shell : shells_) {
      if (number_of(*shell) >= plan_.shells) continue;
      bool has_one =
          std::any_of(seen_.kernel.processes().begin(), seen_.kernel.processes().end(), [&](const auto& each) {
            const Process& hook = *each.second;
            return hook.task && !hook.task->rank && hook.started_by == shell->pid && hook.is_over &&
                   hook.ended_at <= seen_.first_start;
          });
      if (!has_one) return "a task has started before the prolog was over for " + shell->name;
    }
    return "";
  }

  // ---- what the witness has noted --------------------------------------------------------------

  struct Called {
    std::uint32_t shell = 0;
    std::string topic, rank, arguments;
  };

  [[nodiscard]] std::vector<Called> calls() const {
    std::vector<Called> out;
    std::istringstream all(seen_.witness);
    for (std::string line; std::getline(all, line);) {
      Called each;
      std::istringstream words(line);
      words >> each.shell >> each.topic >> each.rank;
      std::getline(words, each.arguments);
      out.push_back(std::move(each));
    }
    return out;
  }

  // A barrier comes before each of these topics: no shell calls it before all shells have called the former one.
  [[nodiscard]] std::string phases() const {
    const bool is_calm = seen_.report.is_object() && cause_.empty() && !seen_.is_faulted;
    if (!is_calm || !plan_.orders.empty() || plan_.failure) return "";
    std::map<std::string, std::set<std::uint32_t>> seen;
    for (const Called& each : calls()) {
      const std::size_t shells = plan_.shells;
      if (each.topic == "shell.post-init" && seen["shell.init"].size() < shells)
        return fmt::format("shell {} is past the barrier of shell.init, and not all have called that", each.shell);
      if (each.topic == "shell.exit" && seen["shell.finish"].size() < shells)
        return fmt::format("shell {} is past the barrier of shell.finish, and not all have called that",
                           each.shell);
      seen[each.topic].insert(each.shell);
    }
    return "";
  }

  // A task that was started has task.fork before task.exit.
  [[nodiscard]] std::string forks() const {
    std::map<std::string, int> begun;
    for (const Called& each : calls()) {
      if (each.topic == "task.fork") ++begun[each.rank];
      if (each.topic != "task.exit" || begun[each.rank]-- > 0) continue;
      const auto rank = static_cast<std::uint32_t>(std::atoi(each.rank.c_str()));
      if (!seen_.exec_errors.contains(rank) && plan_.value_of("restart").empty())
        return fmt::format("task {} has had task.exit, and no task.fork before", rank);
    }
    return "";
  }

  // A task's last output is read before task.exit: text that a handler of that writes to standard error comes
  // behind it. This is checked for the leader's tasks, whose output takes the same way as its messages.
  [[nodiscard]] std::string ends_seen() const {
    const bool is_elsewhere = !plan_.value_of("output.stderr.type").empty();
    if (!plan_.witness || is_elsewhere || !plan_.value_of("restart").empty()) return "";
    std::istringstream all(seen_.output[2]);
    std::set<std::string> ended;
    constexpr std::string_view kEnd = "witness: the end of task ", kTask = "task ";
    for (std::string line; std::getline(all, line);) {
      if (const std::size_t at = line.find(kEnd); line.starts_with("nacre-shell[0]") && at != std::string::npos) {
        const std::string_view rest = std::string_view(line).substr(at + kEnd.size());
        ended.emplace(rest.substr(0, rest.find(' ')));
      } else if (line.starts_with(kTask)) {
        const std::string rank = line.substr(kTask.size(), line.find('.') - kTask.size());
        if (ended.contains(rank))
          return fmt::format("what task {} has written comes out after its end is seen", rank);
      }
    }
    return "";
  }

  // All shells that have begun with the job see the same changes of it, in the same order. A shell may end before
  // it has seen all of them.
  [[nodiscard]] std::string agreement() const {
    std::map<std::uint32_t, std::vector<std::string>> all;
    for (const Called& each : calls()) {
      const bool is_change = each.topic.starts_with("job.") || each.topic == "shell.lost" ||
                             each.topic == "shell.left" || each.topic == "shell.joined" ||
                             each.topic == "shell.not-replaced" || each.topic == "shell.resource-update";
      if (is_change && each.shell < plan_.shells) all[each.shell].push_back(each.topic + each.arguments);
    }
    const std::vector<std::string>* longest = nullptr;
    for (const auto& [shell, changes] : all) {
      if (longest == nullptr || changes.size() > longest->size()) longest = &changes;
    }
    for (const auto& [shell, changes] : all) {
      const auto differs = std::mismatch(changes.begin(), changes.end(), longest->begin());
      if (differs.first != changes.end())
        return fmt::format("shell {} has: {}; and another one: {}", shell, *differs.first, *differs.second);
    }
    return "";
  }

  // ---- front ends ------------------------------------------------------------------------------

  [[nodiscard]] std::string orders() const {
    for (const auto& each : seen_.front_ends) {
      const std::string what = shells::text_of(each->order());
      if (!each->broken().empty()) return what + ": " + each->broken();
      if (each->answers() > 1) return what + " is answered twice";
      // If a job's tasks have ended the link may just be closed, and also for front ends that only look.
      const bool is_cut = seen_.are_links_cut && each->is_hung_up();
      const bool has_to = each->order().kind != Order::Kind::look && each->asked_at() < last_end() && !is_cut;
      const bool is_leaders = code_ || (plan_.hands_over && each->asked_at() > last_kill());
      if (has_to && each->is_asked() && is_leaders && each->answers() == 0) return what + " is not answered";
      if (each->answers() == 0 || each->is_refused() || each->said().empty()) continue;
      if (std::string wrong = wrong_answer(each->order(), each->said().back()); !wrong.empty())
        return what + ": " + wrong;
    }
    return "";
  }

  [[nodiscard]] const Process* shell(std::uint32_t number) const {
    auto found = std::find_if(shells_.begin(), shells_.end(),
                              [&](const Process* each) { return number_of(*each) == number; });
    return found == shells_.end() ? nullptr : *found;
  }

  [[nodiscard]] std::string wrong_answer(const Order& order, const Json& answer) const {
    const char* member = order.kind == Order::Kind::shrink ? "gone"
                         : order.kind == Order::Kind::grow ? "joined"
                                                           : nullptr;
    if (member == nullptr) return "";
    auto ids = value::Idset::parse(answer.value(member, ""));
    if (!ids) return "the answer has no " + std::string(member);
    for (std::uint32_t each : ids->ids()) {
      const Process* found = shell(each);
      if (found == nullptr) return fmt::format("shell {} has never been started", each);
      bool is_wrong = order.kind == Order::Kind::shrink && are_shells_calm() && found->status != 0;
      if (is_wrong)
        return fmt::format("shell {} has left as planned, and ends as {}", each, text_of(found->status));
    }
    return "";
  }

  // ---- files ---------------------------------------------------------------------------------

  // A killed shell's leftovers are removed by its guard, which is not simulated.
  [[nodiscard]] std::string files() const {
    bool are_killed =
        std::any_of(shells_.begin(), shells_.end(), [](const Process* each) { return WIFSIGNALED(each->status); });
    if (are_killed) return "";
    for (const auto& each : std::filesystem::directory_iterator(job_folder())) {
      std::string name = each.path().filename();
      bool is_ours = name == "jobs" || name == "report" || name == "usage" || name == "joblog" ||
                     name == "notices" || name == "rc.lua" || name == "witness" || name.starts_with("o") ||
                     name.starts_with("e") || name.starts_with("timeline");
      if (!is_ours) return "left behind: " + name;
    }
    return "";
  }

  const Seen& seen_;
  const Plan& plan_;
  std::vector<const Process*> shells_;
  std::map<std::uint32_t, std::vector<const Process*>> tries_;  // of a rank, in their order
  std::optional<int> code_;                                     // none: a signal has ended the leader
  std::map<std::uint32_t, std::string> records_;                // of the report
  std::string cause_;                                           // of the job's end, before its time
  std::set<std::uint32_t> lost_;                                // shells, by the report
  value::Idset leaving_;                                        // shells that were to leave
  std::string defect_;
};

}  // namespace

std::uint32_t number_of(const Process& shell) {
  return static_cast<std::uint32_t>(std::atoi(shell.name.substr(shell.name.find(' ') + 1).c_str()));
}

std::string check(const Seen& seen) { return Check(seen).all(); }

}  // namespace nacre::shells
