// SPDX-License-Identifier: Apache-2.0
#include "shells/run.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "group/first_words.hpp"
#include "launch/record.hpp"
#include "shells/seen.hpp"

namespace nacre::shells {
namespace {

constexpr Nanoseconds kMostTime = 30 * 24 * 3600 * kSecond;
constexpr std::uint64_t kMostSteps = 300'000;
constexpr const char* kTask = "/bin/true";  // it has to exist, and is never run

int out_of_the_way(int fd) {
  int out = ::fcntl(fd, F_DUPFD_CLOEXEC, kOwnDescriptors);
  ::close(fd);
  return out;
}

struct OwnPipe {
  int read = -1, write = -1;
  OwnPipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) throw Defect{"no pipe"};
    read = out_of_the_way(ends[0]);
    write = out_of_the_way(ends[1]);
    ::fcntl(read, F_SETFL, O_NONBLOCK);
  }
  ~OwnPipe() {
    ::close(read);
    close_write();
  }
  OwnPipe(const OwnPipe&) = delete;
  OwnPipe& operator=(const OwnPipe&) = delete;
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
};

std::string jobspec_of(const Plan& plan) {
  const std::uint32_t slots = plan.resizes() ? plan.tasks_per_shell : plan.ranks();
  std::string vertex = R"({"type":"slot","count":)" + std::to_string(slots) +
                       R"(,"label":"task","with":[{"type":"core","count":1}]})";
  if (plan.resizes())
    vertex = R"({"type":"node","count":")" + std::to_string(plan.least) + "-" + std::to_string(plan.most) +
             R"(","with":[)" + vertex + "]}";
  return R"({"version":1,"resources":[)" + vertex + R"(],"tasks":[{"command":[")" + kTask +
         R"("],"slot":"task","count":{"per_slot":1}}],"attributes":{"system":{"duration":0,"cwd":")" +
         job_folder() + R"(","environment":{"PATH":"/bin"}}}})";
}

std::string hosts_of(const Plan& plan) { return "node[0-" + std::to_string(plan.shells - 1) + "]"; }

std::string resources_of(const Plan& plan) {
  return R"({"version":1,"execution":{"R_lite":[{"rank":"0-)" + std::to_string(plan.shells - 1) +
         R"(","children":{"core":"0-)" + std::to_string(plan.tasks_per_shell - 1) + R"("}}],"nodelist":[")" +
         hosts_of(plan) + R"("],"starttime":0,"expiration":0}})";
}

// The text that `nacre launch` writes to the leader.
std::string launch_text(const Plan& plan, const std::string& program) {
  launch::LaunchRecord record;
  record.version = "simulated";
  record.protocol = group::kProtocol;
  record.job = *value::JobId::parse("1234");
  record.rank = 0;
  record.size = plan.shells;
  record.arity = plan.arity;
  record.hosts = *value::Hostlist::parse(hosts_of(plan));
  record.shell = {program};
  record.makes_resources = false;
  record.jobspec = jobspec_of(plan);
  record.resources = resources_of(plan);
  record.options = plan.options;
  return std::string(64, 'a') + "\n" + record.line();
}

std::map<std::string, std::string> environment_of() {
  return {{"PATH", "/bin"},         {"HOME", job_folder()},
          {"TMPDIR", job_folder()}, {"XDG_RUNTIME_DIR", job_folder()},
          {"USER", "somebody"},     {"NACRE_JOBS_DIR", job_folder() + "/jobs"}};
}

class Run {
 public:
  Run(const Plan& plan, bool traces) : plan_(plan), kernel_(options_of(plan, traces)) {
    kernel_.script_of = [this](std::uint32_t rank) { return start_task(rank); };
    kernel_.on_end = [this](const Process& process) { look_at_end(process); };
    kernel_.on_barrier = [this](const Process& task, bool left) { look_at_barrier(task, left); };
    for (const Order& each : plan.orders)
      seen_.front_ends.push_back(std::make_unique<FrontEnd>(each, kernel_, plan.hands_over));
    std::filesystem::remove_all(job_folder());
    std::filesystem::create_directory(job_folder());
    ::chmod(job_folder().c_str(), 0700);
  }
  ~Run() { std::filesystem::remove_all(job_folder()); }

  Outcome perform() {
    kernel_.note("the plan", plan_.text());
    start();
    kernel_.on_step = [this] { read_output(false); };
    while (!is_over()) {
      if (kernel_.steps() > kMostSteps)
        return end(fmt::format("is not over after {} steps, {:.1f} s", kMostSteps,
                               static_cast<double>(kernel_.now()) / kSecond));
      const Nanoseconds until = next_order();
      if (!kernel_.step(until) && until == kMostTime) return end(waiting());
      inject();
      if (plan_.has_order(Order::Kind::grow)) meet_newcomers();
      front_ends();
      if (is_stuck()) return end(waiting());
    }
    seen_.status = shell(0)->status;
    read_output(true);
    front_ends();
    std::ifstream report(job_folder() + "/report");
    if (report) seen_.report = Json::parse(report, nullptr, false);
    std::ifstream witness(witness_file());
    for (std::string line; std::getline(witness, line); seen_.witness += line + "\n")
      kernel_.note("the witness", line);
    return end(check(seen_));
  }

 private:
  static Kernel::Options options_of(const Plan& plan, bool traces) {
    Kernel::Options out;
    out.seed = plan.seed;
    out.traces = traces;
    out.program = NACRE_SHELL_PROGRAM;
    out.task = kTask;
    out.most_delay = plan.most_delay;
    out.most_pause = plan.most_pause;
    out.overlaps = plan.overlaps;
    out.host_of = [most = plan.shells](std::uint32_t rank) {
      return fmt::format("node{}", rank < most ? rank : 0);
    };
    return out;
  }

  void start() {
    if (plan_.failure || plan_.witness) std::ofstream(job_folder() + "/rc.lua") << plan_.initrc();
    std::string text = launch_text(plan_, NACRE_SHELL_PROGRAM);
    ::fcntl(in_.write, F_SETPIPE_SZ, 1 << 20);
    if (::write(in_.write, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw Defect{"the launch record does not fit into a pipe"};
    kernel_.start_shell({NACRE_SHELL_PROGRAM, "--boot=hosts"}, environment_of(),
                        {in_.read, out_.write, err_.write});
    ::fcntl(in_.read, F_SETFL, 0);  // the leader's own
    out_.close_write();
    err_.close_write();
  }

  TaskScript start_task(std::uint32_t rank) {
    if (rank >= plan_.ranks()) return plan_.hook(hooks_++);
    const Process* before = task(rank);
    if (before != nullptr && !before->is_over && !is_cut_off(*before))
      seen_.defect = "task " + std::to_string(rank) + " runs twice at the same time";
    TaskScript out = plan_.script(rank, seen_.starts[rank]++);
    seen_.first_start = std::min(seen_.first_start, kernel_.now());
    seen_.exec_errors.erase(rank);
    if (out.exec_error == 0) return out;
    seen_.exec_errors[rank] = out.exec_error;
    seen_.is_faulted = true;
    return out;
  }

  // The task's shell may not know yet that it was given up.
  [[nodiscard]] bool is_cut_off(const Process& task) const {
    return seen_.are_links_cut || !seen_.stopped.empty() || seen_.stopped.contains(task.started_by);
  }

  // Whether all shells, and all that they have started, have ended.
  [[nodiscard]] bool is_over() const {
    return std::all_of(kernel_.processes().begin(), kernel_.processes().end(), [](const auto& each) {
      return each.second->is_over || (each.second->task && each.second->task->is_left);
    });
  }

  [[nodiscard]] const Process* shell(std::uint32_t rank) const {
    for (const auto& [pid, each] : kernel_.processes()) {
      if (each->kind == ProcessKind::shell && each->name == "shell " + std::to_string(rank)) return each.get();
    }
    return nullptr;
  }

  // The task's last start.
  [[nodiscard]] const Process* task(std::uint32_t rank) const {
    const Process* out = nullptr;
    for (const auto& [pid, each] : kernel_.processes()) {
      if (each->task && each->task->rank == rank) out = each.get();
    }
    return out;
  }

  void read_output(bool all) {
    if (plan_.slow_reader && !all && !kernel_.random().one_in(16)) return;
    char bytes[16384];
    for (auto [fd, to] : {std::pair{out_.read, &seen_.output[1]}, std::pair{err_.read, &seen_.output[2]}}) {
      for (ssize_t got; (got = ::read(fd, bytes, sizeof bytes)) > 0;)
        to->append(bytes, static_cast<std::size_t>(got));
    }
  }

  // ---- what is asked of it ----

  [[nodiscard]] Nanoseconds next_order() const {
    Nanoseconds out = kMostTime;
    for (const auto& each : seen_.front_ends) {
      if (each->due() > kernel_.now()) out = std::min(out, each->due());
    }
    for (const auto& [pid, at] : doomed_) out = std::min(out, at);
    return out;
  }

  // The leader can be reached some time after all tasks have started.
  void front_ends() {
    if (seen_.front_ends.empty()) return;
    if (address_.empty()) {
      if (seen_.first_start == kNever || kernel_.now() < seen_.first_start + 10 * kMillisecond) return;
      address_ = leader_address(job_folder() + "/jobs");
      if (address_.empty()) return;
      for (const auto& each : seen_.front_ends) each->allow(kernel_.now());
    }
    for (const auto& each : seen_.front_ends) {
      if (plan_.hands_over && each->due() <= kernel_.now()) address_ = leader_address(job_folder() + "/jobs");
      each->go_on(address_);
    }
  }

  // ---- what is done to it ----

  void inject() {
    for (const Fault& each : plan_.faults) {
      if (each.step == kernel_.steps()) inject(each);
    }
  }

  void inject(const Fault& fault) {
    bool is_task = fault.kind == Fault::Kind::end_task;
    bool is_leaders = fault.kind == Fault::Kind::terminate || fault.kind == Fault::Kind::hang_up;
    auto* process = const_cast<Process*>(is_task ? task(fault.shell) : shell(is_leaders ? 0 : fault.shell));
    if (process == nullptr || process->is_over) return;
    if (fault.kind == Fault::Kind::divide) return divide(fault);
    seen_.is_faulted = true;
    seen_.last_fault = kernel_.now();
    switch (fault.kind) {
      case Fault::Kind::kill:
      case Fault::Kind::end_task: return kernel_.kill_from_outside(*process, SIGKILL);
      case Fault::Kind::terminate: return kernel_.kill_from_outside(*process, SIGTERM);
      case Fault::Kind::signal: return kernel_.kill_from_outside(*process, fault.signum);
      case Fault::Kind::stop: seen_.stopped.insert(process->pid); return kernel_.stop(*process, fault.length);
      case Fault::Kind::cut: seen_.are_links_cut = kernel_.cut_link(*process) || seen_.are_links_cut; return;
      case Fault::Kind::divide:
      case Fault::Kind::hang_up: break;
    }
    kernel_.note("FAULT", "the launcher goes");
    in_.close_write();
  }

  void divide(const Fault& fault) {
    std::set<pid_t> side;
    std::size_t shells = 0;
    for (const auto& [pid, each] : kernel_.processes()) {
      if (each->kind != ProcessKind::shell || each->is_over || !each->is_named) continue;
      ++shells;
      const std::uint32_t number = number_of(*each);
      if (number == fault.shell || (fault.with_later && number > fault.shell)) side.insert(pid);
    }
    if (side.empty() || side.size() == shells) return;
    seen_.is_faulted = seen_.are_links_cut = true;
    seen_.last_fault = kernel_.now() + fault.length;
    const bool is_leaders = side.contains(shell(0)->pid);
    for (const auto& [pid, each] : kernel_.processes()) {
      if (each->kind == ProcessKind::shell && side.contains(pid) != is_leaders) seen_.apart.insert(pid);
    }
    kernel_.divide(std::move(side), fault.length);
  }

  // Kills newcomers as the plan says, once their ranks are known.
  void meet_newcomers() {
    constexpr Nanoseconds kForEver = 7 * 24 * 3600 * kSecond;
    for (const auto& [pid, each] : kernel_.processes()) {
      if (each->kind != ProcessKind::shell || !each->is_named || number_of(*each) < plan_.shells) continue;
      if (!met_.insert(pid).second || each->is_over) continue;
      const Newcomer newcomer = plan_.newcomer(number_of(*each));
      if (newcomer.fate == Newcomer::Fate::joins) continue;
      seen_.are_newcomers_harmed = seen_.is_faulted = true;
      seen_.stopped.insert(pid);
      if (newcomer.fate == Newcomer::Fate::is_killed)
        doomed_[pid] = kernel_.now() + newcomer.after;
      else
        kernel_.stop(*each, kForEver);
    }
    std::erase_if(doomed_, [this](const auto& each) {
      if (each.second > kernel_.now()) return false;
      Process* newcomer = kernel_.find(each.first);
      if (newcomer != nullptr && !newcomer->is_over) kernel_.kill_from_outside(*newcomer, SIGKILL);
      seen_.last_fault = std::max(seen_.last_fault, kernel_.now());
      return true;
    });
  }

  // ---- what is seen at once ----

  // A shell that is not lost does not end before all tasks.
  void look_at_end(const Process& process) {
    const bool is_calm = !plan_.has_fault(Fault::Kind::kill) && !plan_.has_fault(Fault::Kind::stop) &&
                         !plan_.has_fault(Fault::Kind::cut) && !plan_.has_fault(Fault::Kind::divide) &&
                         plan_.orders.empty();
    if (process.kind != ProcessKind::shell || !WIFEXITED(process.status) || !is_calm) return;
    for (const auto& [pid, each] : kernel_.processes()) {
      if (each->task && each->task->rank && !each->is_over)
        seen_.defect = process.name + " has ended, and " + each->name + " runs";
    }
  }

  // A barrier opens once each task has entered it.
  void look_at_barrier(const Process& task, bool left) {
    if (!left) return;
    const std::uint32_t number = task.task->pmi.left;
    const bool does_without = plan_.has_option("fault-tolerance=on");
    const bool may_go = does_without || seen_.is_faulted || plan_.has_order(Order::Kind::shrink);
    std::map<std::uint32_t, bool> has_entered;
    for (const auto& [pid, each] : kernel_.processes()) {
      if (!each->task || !each->task->rank) continue;
      const bool is_gone = (each->is_over && may_go) || seen_.stopped.contains(each->started_by) ||
                           seen_.apart.contains(each->started_by);
      has_entered[*each->task->rank] |= each->task->pmi.entered >= number || is_gone;
    }
    for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
      // The task's shell may have been lost before the task was started.
      const bool is_missing = may_go && !has_entered.contains(rank);
      if (!is_missing && !has_entered[rank] && !seen_.exec_errors.contains(rank))
        seen_.defect = fmt::format("{} leaves barrier {}, and task {} has not entered it", task.name, number, rank);
    }
  }

  // Whether shells go on, but no task has gone on, or could have, for long.
  [[nodiscard]] bool is_stuck() {
    constexpr Nanoseconds kMost = 600 * kSecond;
    const bool goes_on = std::any_of(kernel_.processes().begin(), kernel_.processes().end(), [&](const auto& each) {
      const Process& one = *each.second;
      const bool is_blocked = !one.task || one.task->is_left || one.task->is_full || one.task->pmi.waits;
      return !one.is_over && (!is_blocked || one.stopped_until > kernel_.now() - kMost);
    });
    if (goes_on) last_ = kernel_.now();
    return kernel_.now() > last_ + kMost;
  }

  // ---- the end ----

  [[nodiscard]] std::string waiting() const {
    std::string out = "these wait for ever:";
    for (const auto& [pid, each] : kernel_.processes()) {
      if (!each->is_over && each->kind != ProcessKind::aide) out += " " + each->name + ",";
    }
    out.pop_back();
    return out;
  }

  Outcome end(std::string broken) {
    kernel_.on_step = nullptr;
    kernel_.on_end = nullptr;
    kernel_.on_barrier = nullptr;
    Outcome out;
    out.broken = std::move(broken);
    out.trace = kernel_.trace();
    out.digest = kernel_.digest();
    out.steps = kernel_.steps();
    out.took = kernel_.now();
    out.code = WIFEXITED(seen_.status) ? WEXITSTATUS(seen_.status) : -1;
    return out;
  }

  const Plan& plan_;
  OwnPipe in_, out_, err_;
  Kernel kernel_;
  Seen seen_{plan_, kernel_};
  std::string address_;  // of the leader; "": it has none yet
  std::uint64_t hooks_ = 0;
  Nanoseconds last_ = 0;                 // when a task could go on
  std::set<pid_t> met_;                  // newcomers
  std::map<pid_t, Nanoseconds> doomed_;  // when newcomers are killed
};

}  // namespace

Outcome run(const Plan& plan, bool traces) { return Run(plan, traces).perform(); }

namespace {

void take_if_broken(Plan& plan, Plan smaller) {
  if (!run(smaller, false).broken.empty()) plan = std::move(smaller);
}

}  // namespace

Plan shrink(Plan plan) {
  for (std::size_t i = plan.faults.size(); i > 0; --i) {
    Plan smaller = plan;
    smaller.faults.erase(smaller.faults.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    take_if_broken(plan, std::move(smaller));
  }
  for (std::size_t i = plan.orders.size(); i > 0; --i) {
    Plan smaller = plan;
    smaller.orders.erase(smaller.orders.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    take_if_broken(plan, std::move(smaller));
  }
  for (std::size_t i = plan.options.size(); i > 0; --i) {
    const std::string& option = plan.options[i - 1];
    const bool is_meant = (plan.hands_over && option.starts_with("on-")) ||
                          (plan.resizes() && (option.starts_with("restart=") || option.starts_with("on-lost=")));
    if (is_meant || option.starts_with("initrc=") || option.starts_with("spares=") || option.starts_with("resize="))
      continue;
    Plan smaller = plan;
    smaller.options.erase(smaller.options.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    take_if_broken(plan, std::move(smaller));
  }
  Plan smaller = plan;
  smaller.most_delay = smaller.most_pause = 0;
  smaller.slow_reader = false;
  take_if_broken(plan, std::move(smaller));
  for (std::uint32_t Plan::*each : {&Plan::tasks_per_shell, &Plan::shells}) {
    Plan fewer = plan;
    fewer.*each = 1;
    if (each == &Plan::shells && (plan.spares > 0 || plan.resizes() || (plan.failure && plan.failure->shell > 0)))
      continue;
    if (plan.*each > 1) take_if_broken(plan, std::move(fewer));
  }
  return plan;
}

}  // namespace nacre::shells
