// SPDX-License-Identifier: Apache-2.0
#include "shells/run.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

#include "group/first_words.hpp"
#include "launch/record.hpp"

namespace nacre::shells {
namespace {

constexpr Nanoseconds kMostTime = 3600 * kSecond;
constexpr std::uint64_t kMostSteps = 300'000;
constexpr const char* kTask = "/bin/true";  // it is looked for, and never run

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
  return R"({"version":1,"resources":[{"type":"slot","count":)" + std::to_string(plan.ranks()) +
         R"(,"label":"task","with":[{"type":"core","count":1}]}],"tasks":[{"command":[")" + kTask +
         R"("],"slot":"task","count":{"per_slot":1}}],"attributes":{"system":{"duration":0,"cwd":")" +
         job_folder() + R"(","environment":{"PATH":"/bin"}}}})";
}

std::string hosts_of(const Plan& plan) { return "node[0-" + std::to_string(plan.shells - 1) + "]"; }

std::string resources_of(const Plan& plan) {
  return R"({"version":1,"execution":{"R_lite":[{"rank":"0-)" + std::to_string(plan.shells - 1) +
         R"(","children":{"core":"0-)" + std::to_string(plan.tasks_per_shell - 1) + R"("}}],"nodelist":[")" +
         hosts_of(plan) + R"("],"starttime":0,"expiration":0}})";
}

// What `nacre launch` writes to the leader.
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

std::string joined(const std::vector<std::string>& all) {
  std::string out;
  for (const std::string& each : all) out += (out.empty() ? "" : "; ") + each;
  return out;
}

class Run {
 public:
  Run(const Plan& plan, bool traces) : plan_(plan), kernel_(options_of(plan, traces)) {
    kernel_.script_of = [this](std::uint32_t rank) { return start_task(rank); };
    std::filesystem::remove_all(job_folder());
    std::filesystem::create_directory(job_folder());
    ::chmod(job_folder().c_str(), 0700);
  }
  ~Run() { std::filesystem::remove_all(job_folder()); }

  Outcome perform() {
    kernel_.note("PLAN", plan_.text());
    start();
    kernel_.on_step = [this] { read_output(false); };
    while (!is_over()) {
      if (kernel_.steps() > kMostSteps) return end("is not over after " + std::to_string(kMostSteps) + " steps");
      if (!kernel_.step(kMostTime)) return end(waiting());
      inject();
    }
    code_ = shell(0)->status;
    read_output(true);
    return end(check());
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
    return out;
  }

  void start() {
    std::string text = launch_text(plan_, NACRE_SHELL_PROGRAM);
    ::fcntl(in_.write, F_SETPIPE_SZ, 1 << 20);
    if (::write(in_.write, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw Defect{"the launch record does not fit into a pipe"};
    leader_ = kernel_.start_shell({NACRE_SHELL_PROGRAM, "--boot=hosts"}, environment_of(),
                                  {in_.read, out_.write, err_.write});
    ::fcntl(in_.read, F_SETFL, 0);  // the leader's own
    out_.close_write();
    err_.close_write();
  }

  // What else shells start, such as hooks, ends at once.
  TaskScript start_task(std::uint32_t rank) {
    if (rank >= plan_.ranks()) return TaskScript{0, 0, {{TaskAct::Kind::exit}}};
    const Process* before = task(rank);
    if (before != nullptr && !before->is_over)
      defect_ = "task " + std::to_string(rank) + " runs twice at the same time";
    TaskScript out = plan_.script(rank, starts_[rank]++);
    if (out.exec_error != 0) is_faulted_ = true;
    return out;
  }

  // All shells, and all that they have started.
  [[nodiscard]] bool is_over() const {
    return std::all_of(kernel_.processes().begin(), kernel_.processes().end(),
                       [](const auto& each) { return each.second->is_over; });
  }

  [[nodiscard]] const Process* shell(std::uint32_t rank) const {
    for (const auto& [pid, each] : kernel_.processes()) {
      if (each->kind == ProcessKind::shell && each->name == "shell " + std::to_string(rank)) return each.get();
    }
    return nullptr;
  }

  // Its last start.
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
    for (auto [fd, to] : {std::pair{out_.read, &output_[1]}, std::pair{err_.read, &output_[2]}}) {
      for (ssize_t got; (got = ::read(fd, bytes, sizeof bytes)) > 0;)
        to->append(bytes, static_cast<std::size_t>(got));
    }
  }

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
    is_faulted_ = true;
    switch (fault.kind) {
      case Fault::Kind::kill: killed_ = true; [[fallthrough]];
      case Fault::Kind::end_task: return kernel_.kill_from_outside(*process, SIGKILL);
      case Fault::Kind::terminate: return kernel_.kill_from_outside(*process, SIGTERM);
      case Fault::Kind::stop: return kernel_.stop(*process, fault.length);
      case Fault::Kind::cut: kernel_.cut_link(*process); return;
      case Fault::Kind::hang_up: break;
    }
    kernel_.note("FAULT", "the launcher goes");
    in_.close_write();
  }

  [[nodiscard]] std::string waiting() const {
    std::string out = "these wait for ever:";
    for (const auto& [pid, each] : kernel_.processes()) {
      if (!each->is_over) out += " " + each->name;
    }
    return out;
  }

  // ---- checks ----

  [[nodiscard]] std::string check() const {
    for (const auto& [pid, each] : kernel_.processes()) {
      if (!each->error.empty()) return each->name + ": " + each->error;
      if (each->kind == ProcessKind::shell && !each->left_open.empty())
        return each->name + " has left open: " + joined(each->left_open);
    }
    if (!defect_.empty()) return defect_;
    if (std::string wrong = check_code(); !wrong.empty()) return wrong;
    for (const auto& [rank, count] : starts_) {
      if (count > 1 + plan_.most_restarts()) return "task " + std::to_string(rank) + " has been started too often";
    }
    const std::string files = written_files();
    for (const auto& [pid, each] : kernel_.processes()) {
      if (std::string wrong = check_output(*each, files); !wrong.empty()) return wrong;
    }
    return check_files();
  }

  // None: the task was ended, or has never been started.
  [[nodiscard]] std::optional<int> own_code(std::uint32_t rank) const {
    const Process* process = task(rank);
    if (process == nullptr || !process->task->ended_itself) return std::nullopt;
    int status = process->status;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // What the option exit-policy makes of the codes; of those that depend on the order of the ends, any.
  [[nodiscard]] std::set<int> expected(const std::vector<int>& codes) const {
    int largest = *std::max_element(codes.begin(), codes.end());
    if (plan_.has_option("exit-policy=all")) return {largest != 0 ? 1 : 0};
    if (plan_.has_option("exit-policy=main")) return {codes[0]};
    if (plan_.has_option("exit-policy=main+all")) return {codes[0] != 0 ? codes[0] : largest != 0 ? 1 : 0};
    if (!plan_.has_option("exit-policy=first") || largest == 0) return {largest};
    std::set<int> out(codes.begin(), codes.end());
    out.erase(0);
    return out;
  }

  // After a fault: the code of a task that has ended by itself, or what the fault makes. That of a victim is none.
  [[nodiscard]] bool may_be_code(int code) const {
    constexpr int kTerminated = 128 + SIGTERM, kKilled = 128 + SIGKILL, kNoReader = 128 + SIGPIPE;
    std::set<int> all{0, 1, kTerminated, kKilled, kNoReader};
    for (const auto& [pid, each] : kernel_.processes()) {
      if (!each->task || !each->task->ended_itself) continue;
      all.insert(WIFEXITED(each->status) ? WEXITSTATUS(each->status) : 128 + WTERMSIG(each->status));
    }
    for (const auto& [rank, count] : starts_) {
      int failed = count > 0 ? plan_.script(rank, count - 1).exec_error : 0;
      if (failed != 0) all.insert(failed == ENOENT ? 127 : 126);
    }
    return all.contains(code);
  }

  [[nodiscard]] std::string check_code() const {
    std::vector<int> codes;
    for (std::uint32_t rank = 0; rank < plan_.ranks(); ++rank) {
      auto code = own_code(rank);
      if (code) codes.push_back(*code);
      if (!code && !is_faulted_) return "task " + std::to_string(rank) + " has not ended by itself";
    }
    if (!WIFEXITED(code_))
      return killed_ ? "" : "the leader was ended by signal " + std::to_string(WTERMSIG(code_));
    const int code = WEXITSTATUS(code_);
    if (is_faulted_ && !may_be_code(code))
      return "the job's code is " + std::to_string(code) + ", which nothing explains";
    bool tolerates = plan_.has_option("on-lost=go-on") || plan_.has_option("tolerate-loss=on") ||
                     plan_.has_option("fault-tolerance=on") || plan_.has_option("exit-policy=main");
    bool are_all = codes.size() == plan_.ranks();
    if (!are_all)
      return code != 0 || tolerates ? "" : "the job's code is 0, and not all tasks have ended by themselves";
    const std::set<int> all = expected(codes);
    if (all.contains(code) || (is_faulted_ && code != 0)) return "";
    return "the job's code is " + std::to_string(code) + ", and its tasks' codes make " +
           std::to_string(*all.begin());
  }

  // Of the files in which output is.
  [[nodiscard]] static std::string written_files() {
    std::string out;
    for (const auto& each : std::filesystem::directory_iterator(job_folder())) {
      std::string name = each.path().filename();
      if (name != "o" && name != "e" && !name.starts_with("o.") && !name.starts_with("e.")) continue;
      std::ifstream file(each.path());
      out.append(std::istreambuf_iterator<char>(file), {});
    }
    return out;
  }

  // Each line of a task, once, in order; after a fault as far as it goes.
  [[nodiscard]] std::string check_output(const Process& task, const std::string& files) const {
    if (!task.task || !task.task->rank) return "";
    for (int stream : {1, 2}) {
      std::string mark = task_mark(*task.task->rank, task.task->script.start) + (stream == 1 ? " out " : " err ");
      std::string got;
      std::istringstream all(output_[1] + "\n" + output_[2] + "\n" + files);
      for (std::string line; std::getline(all, line);) {
        bool is_report = line.starts_with("nacre");  // nacre's own, which may quote what tasks have written
        if (std::size_t at = line.find(mark); !is_report && at != std::string::npos) got += line.substr(at) + "\n";
      }
      const std::string& wrote = task.task->wrote[static_cast<std::size_t>(stream)];
      if (got == wrote) continue;
      // It was ended within a line, and what came next is on the same one.
      bool is_cut = !wrote.empty() && wrote.back() != '\n';
      if (is_cut && got.starts_with(wrote) && got.find('\n', wrote.size()) + 1 == got.size()) continue;
      if (is_faulted_ && !got.empty()) got.pop_back();
      if (is_faulted_ && wrote.starts_with(got)) continue;
      return "of what " + task.name + " has written to " + std::to_string(stream) + ", " +
             std::to_string(wrote.size()) + " bytes, " + std::to_string(got.size()) + " have come out, or others";
    }
    return "";
  }

  // A killed shell's guard removes what it leaves, and is not simulated.
  [[nodiscard]] std::string check_files() const {
    bool are_killed = std::any_of(kernel_.processes().begin(), kernel_.processes().end(), [](const auto& each) {
      return each.second->kind == ProcessKind::shell && WIFSIGNALED(each.second->status);
    });
    if (are_killed) return "";
    for (const auto& each : std::filesystem::directory_iterator(job_folder())) {
      std::string name = each.path().filename();
      bool is_ours = name == "jobs" || name == "report" || name == "usage" || name == "joblog" ||
                     name == "notices" || name.starts_with("o") || name.starts_with("e") ||
                     name.starts_with("timeline");
      if (!is_ours) return "left behind: " + name;
    }
    return "";
  }

  Outcome end(std::string broken) {
    kernel_.on_step = nullptr;
    Outcome out;
    out.broken = std::move(broken);
    out.trace = kernel_.trace();
    out.digest = kernel_.digest();
    out.steps = kernel_.steps();
    out.took = kernel_.now();
    out.code = WIFEXITED(code_) ? WEXITSTATUS(code_) : -1;
    if (!out.broken.empty() && !out.trace.empty())
      out.trace +=
          "---- standard output of the job\n" + output_[1] + "---- standard error of the job\n" + output_[2];
    return out;
  }

  const Plan& plan_;
  OwnPipe in_, out_, err_;
  Kernel kernel_;
  pid_t leader_ = 0;
  int code_ = -1;
  std::string defect_;                             // seen while it ran
  std::map<std::uint32_t, std::uint32_t> starts_;  // by rank
  bool is_faulted_ = false, killed_ = false;       // a fault was injected, a shell was killed
  std::string output_[3];
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
  for (std::size_t i = plan.options.size(); i > 0; --i) {
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
    if (plan.*each > 1) take_if_broken(plan, std::move(fewer));
  }
  return plan;
}

}  // namespace nacre::shells
