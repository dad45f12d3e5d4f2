// SPDX-License-Identifier: Apache-2.0
#include "core/shutdown.hpp"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "event/children.hpp"
#include "job/options.hpp"

namespace nacre::core {
namespace {

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

std::string name_of(pid_t pid) {
  Result<std::string> comm = read_file(fmt::format("/proc/{}/comm", pid));
  return comm ? std::string(trim(*comm)) : "?";
}

}  // namespace

Result<Shutdown> Shutdown::create(event::Loop& loop, event::Seconds grace, std::function<void(int)> kill_tasks) {
  auto kill = [kill_tasks] { kill_tasks(SIGKILL); };
  return Shutdown(TRY(event::Timer::create(loop, kill)), grace, kill_tasks);
}

bool Shutdown::begin(int signum, std::optional<event::Seconds> grace) {
  if (std::exchange(begun_, true)) return false;
  kill_tasks_(signum);
  kill_tasks_(SIGCONT);  // a stopped task receives the signal only when it runs
  timer_.start_grace(grace.value_or(grace_), event::Seconds(1));
  return true;
}

Stragglers::Stragglers() {
  if (!has_children()) return;
  for (pid_t pid : event::Children::descendants()) before_.insert(pid);
}

// In /proc, a shell that knows its job's secret has files that only root can read (transport/secret.hpp), except
// its name.
bool Stragglers::is_other_shell(pid_t pid) const {
  std::error_code failed;
  auto program = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), failed);
  if (failed == std::errc::permission_denied) return name_of(pid) == name_of(::getpid());
  if (failed || program != std::filesystem::read_symlink("/proc/self/exe", failed)) return false;
  auto environment = read_file(fmt::format("/proc/{}/environ", pid));
  if (!environment) return false;
  auto variables = split(*environment, '\0');
  return std::find(variables.begin(), variables.end(), mark_) == variables.end();
}

std::vector<pid_t> Stragglers::left(Which which, const event::Children& children) const {
  if (!has_children()) return {};
  std::set<pid_t> without = children.left_alone();
  without.insert(before_.begin(), before_.end());
  std::vector<pid_t> pids =
      which == Which::all ? event::Children::descendants(without) : children.unwatched_descendants(without);
  std::set<pid_t> spared;
  for (pid_t pid : pids) {
    if (mark_.empty() || !is_other_shell(pid)) continue;
    spared.insert(pid);
    for (pid_t below : event::descendants_of(pid, event::best_lookup())) spared.insert(below);
  }
  std::erase_if(pids, [&](pid_t pid) { return spared.contains(pid); });
  return pids;
}

// Whether all have ended, and this process has reaped its children among them.
bool Stragglers::all_gone(const std::vector<pid_t>& pids, Which which, const event::Children& children) const {
  if (!pids.empty()) return false;
  bool others =
      !before_.empty() || !children.left_alone().empty() || (which == Which::of_tasks && children.watched() > 0);
  return others || !has_children();
}

Json Stragglers::facts_of(const std::vector<pid_t>& pids, const std::set<pid_t>& but) {
  constexpr std::string_view kRank = "FLUX_TASK_RANK=";
  Json out = Json::array();
  for (pid_t pid : pids) {
    auto environment = read_file(fmt::format("/proc/{}/environ", pid));
    if (!environment || environment->empty() || but.contains(::getpgid(pid)))
      continue;  // empty: it has ended by now
    Json each{{"pid", pid}, {"name", name_of(pid)}};
    for (std::string_view variable : split(*environment, '\0')) {
      if (!variable.starts_with(kRank)) continue;
      if (auto rank = parse_u64(variable.substr(kRank.size()))) each["rank"] = *rank;
    }
    out.push_back(std::move(each));
  }
  return out;
}

Result<void> Stragglers::end(Which which, plugin::Host& host, event::Seconds grace,
                             const std::function<void(const std::vector<pid_t>&)>& found) {
  event::Loop& loop = host.loop();
  event::Children& children = host.children();
  Log& log = host.log();
  children.reap();
  std::vector<pid_t> pids = left(which, children);
  if (pids.empty()) return {};
  if (found) found(pids);
  bool late = false;
  auto timer = TRY(event::Timer::create(loop, [&late] { late = true; }));
  // A process may fork while it is being ended, and a descendant of a straggler is found only while its parent is
  // alive: so look again each time something ends, and from time to time.
  auto poll = TRY(event::Timer::create(loop, [] {}));
  for (auto [signum, timeout] : {std::pair{SIGTERM, grace}, std::pair{SIGKILL, kKillTime}}) {
    std::set<pid_t> signalled;
    late = false;
    timer.start_grace(timeout);
    poll.start(event::Seconds(0.05), event::Seconds(0.05));
    loop.run_until([&, signum = signum] {
      pids = left(which, children);
      for (pid_t pid : pids) {
        if (!signalled.insert(pid).second) continue;
        log.log(Level::debug, "", "{} to {} ({}), which outlived its task",
                signum == SIGTERM ? "SIGTERM" : "SIGKILL", pid, name_of(pid));
        ::kill(pid, signum);
        if (signum == SIGTERM) ::kill(pid, SIGCONT);
      }
      return late || all_gone(pids, which, children);
    });
    if (all_gone(pids, which, children)) return {};
  }
  for (pid_t pid : pids)
    log.log(Level::warn, "", "process {} ({}) survives SIGKILL: {}", pid, name_of(pid), KernelWait::of(pid).str());
  Unkillable::announce(host, pids);
  before_.insert(pids.begin(), pids.end());
  return {};
}

// ---- unkillable -------------------------------------------------------------------------

namespace {

constexpr const char* kUnkillableTopic = "shell.unkillable";
constexpr double kDefaultTimeout = 60;    // seconds
constexpr std::size_t kMostThreads = 64;  // that are looked at
constexpr std::size_t kMostPids = 4;      // that a line names

// System calls whose first argument is the descriptor of a file, and that may wait for whoever serves the file.
constexpr long kOfDescriptor[] = {
    SYS_read,  SYS_write, SYS_pread64, SYS_pwrite64,   SYS_readv,     SYS_writev,    SYS_fsync, SYS_fdatasync,
    SYS_flock, SYS_fcntl, SYS_ioctl,   SYS_getdents64, SYS_ftruncate, SYS_fallocate, SYS_lseek, SYS_sendfile};

// The folders of the process's threads, "/proc/1/task/1"; none: it has gone.
std::vector<std::string> threads_of(pid_t pid, const std::string& root) {
  std::vector<std::string> out;
  std::error_code failed;
  for (const auto& each : std::filesystem::directory_iterator(fmt::format("{}/proc/{}/task", root, pid), failed)) {
    if (out.size() == kMostThreads) break;
    out.push_back(each.path().native());
  }
  std::sort(out.begin(), out.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  return out;
}

char state_of(const std::string& thread) {
  auto text = read_file(thread + "/stat");
  auto stat = text ? ProcessStat::parse(*text) : std::nullopt;
  return stat ? stat->state : '?';
}

// The link is only read: to follow it might block as the process does.
std::string path_of_call(const std::string& thread) {
  auto text = read_file(thread + "/syscall");  // "NUMBER ARG0 ...", the arguments in hex; "running"
  if (!text) return "";
  std::vector<std::string_view> fields = split(trim(*text), ' ');
  auto number = parse_i64(fields[0]);
  bool has_fd =
      number && std::find(std::begin(kOfDescriptor), std::end(kOfDescriptor), *number) != std::end(kOfDescriptor);
  if (!has_fd || fields.size() < 2) return "";
  unsigned long fd = std::strtoul(std::string(fields[1]).c_str(), nullptr, 16);
  std::error_code failed;
  auto path = std::filesystem::read_symlink(fmt::format("{}/fd/{}", thread, fd), failed);
  return failed ? "" : path.native();
}

// "ShdPnd:\t0000000000000100".
bool has_pending_kill(std::string_view status) {
  for (std::string_view line : split(status, '\n')) {
    if (!line.starts_with("SigPnd:") && !line.starts_with("ShdPnd:")) continue;
    std::string digits(trim(line.substr(sizeof "SigPnd:" - 1)));
    if ((std::strtoull(digits.c_str(), nullptr, 16) >> (SIGKILL - 1) & 1) != 0) return true;
  }
  return false;
}

const task::Task* task_of(plugin::Host& host, pid_t pid) {
  for (const auto& task : host.tasks()) {
    if (task->pid() == pid && task->state() == task::State::running) return task.get();
  }
  return nullptr;
}

std::string program_of(pid_t pid) {
  auto stat = ProcessStat::of(pid);
  return stat ? escape_controls(stat->name) : "?";
}

std::string pids_text(const std::vector<pid_t>& pids) {
  std::size_t shown = pids.size() > kMostPids + 1 ? kMostPids : pids.size();
  std::string out =
      fmt::format("{}", fmt::join(pids.begin(), pids.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return shown == pids.size() ? out : fmt::format("{} and {} others", out, pids.size() - shown);
}

// Tasks that wait at the same place, or one other process.
struct Stuck {
  std::vector<pid_t> pids;
  value::Idset ranks;  // none: it is no task
  std::string wait;    // as KernelWait::str()

  // "rank 2 on n2 (pid 4711)", "process 4711 (dd) on n2".
  [[nodiscard]] std::string who(plugin::Host& host) const {
    std::string on = host.job().resources.nodes[host.job().shell_rank].on();
    if (ranks.empty()) return fmt::format("process {} ({}){}", pids.front(), program_of(pids.front()), on);
    return fmt::format("rank {}{} (pid {})", ranks.short_str(), on, pids_text(pids));
  }
};

std::vector<Stuck> stuck_of(plugin::Host& host, const std::vector<pid_t>& pids) {
  std::vector<Stuck> out;
  for (pid_t pid : pids) {
    const task::Task* task = task_of(host, pid);
    std::string wait = KernelWait::of(pid).str();
    auto same = std::find_if(out.begin(), out.end(), [&](const Stuck& each) {
      return task != nullptr && !each.ranks.empty() && each.wait == wait;
    });
    if (same == out.end()) same = out.insert(out.end(), Stuck{{}, {}, wait});
    same->pids.push_back(pid);
    if (task != nullptr) same->ranks.insert(task->rank());
  }
  return out;
}

}  // namespace

KernelWait KernelWait::of(pid_t pid, const std::string& root) {
  std::vector<std::string> threads = threads_of(pid, root);
  if (threads.empty()) return {};
  auto stuck = std::find_if(threads.begin(), threads.end(), [](const auto& each) { return state_of(each) == 'D'; });
  const std::string& thread = stuck == threads.end() ? threads.front() : *stuck;
  KernelWait out;
  out.state = state_of(thread);
  if (auto where = read_file(thread + "/wchan"); where && *where != "0") out.where = trim(*where);
  out.path = path_of_call(thread);
  return out;
}

std::string KernelWait::str() const {
  std::string out = fmt::format("state {}", state);
  if (!where.empty()) out += fmt::format(" in {}", where);
  if (!path.empty()) out += fmt::format(", {}", escape_controls(path));
  return out;
}

bool is_killed(pid_t pid, const std::string& root) {
  std::vector<std::string> threads = threads_of(pid, root);
  return std::any_of(threads.begin(), threads.end(), [](const std::string& thread) {
    auto status = read_file(thread + "/status");
    return status && has_pending_kill(*status);
  });
}

Result<value::Duration> unkillable_timeout(const job::Options& options) {
  auto option = options.at("unkillable-timeout");
  if (!option) return value::Duration::of_seconds(kDefaultTimeout);
  return option->json() == "none" ? value::Duration::infinite() : job::seconds_option(*option);
}

// ---- looks -----------------------------------------------------------------------------------

// The next look may be soon.
void Unkillable::killed(pid_t pid) {
  bool runs = is_started_;
  start();
  add(pid, runs ? -each_ : event::Seconds::zero());
}

void Unkillable::look_at_all() {
  looks_at_all_ = true;
  start();
}

void Unkillable::add(pid_t pid, event::Seconds age) {
  auto is_it = [pid](const Waiting& each) { return each.pid == pid; };
  if (std::none_of(waiting_.begin(), waiting_.end(), is_it)) waiting_.push_back({pid, age, false});
}

// Between looks the loop may sleep: only tasks and holds keep it running.
void Unkillable::start() {
  if (std::exchange(is_started_, true)) return;
  timeout_ = unkillable_timeout(host_.options()).value_or(value::Duration::of_seconds(kDefaultTimeout));
  each_ = kKillTime;
  if (!timeout_.is_infinite())
    each_ = std::clamp(event::Seconds(timeout_.seconds()), event::Seconds(0.01), kKillTime);
  auto timer = event::Timer::create(host_.loop(), [this] { look(); });
  if (!timer) return host_.log().log(Level::error, "", "unkillable-timeout: {}", timer.error().message);
  timer_ = *std::move(timer);
  timer_->unref();
  timer_->start_grace(each_, each_);
}

void Unkillable::look() {
  std::erase_if(waiting_, [this](const Waiting& each) { return !host_.children().watches(each.pid); });
  std::vector<pid_t> late;
  std::vector<pid_t> over;
  for (Waiting& each : waiting_) {
    each.age += each_;
    if (!timeout_.is_infinite() && each.age.count() >= timeout_.seconds()) {
      over.push_back(each.pid);
    } else if (!each.is_told && each.age >= kKillTime) {
      each.is_told = true;
      late.push_back(each.pid);
    }
  }
  std::erase_if(waiting_,
                [&](const Waiting& each) { return std::find(over.begin(), over.end(), each.pid) != over.end(); });
  for (pid_t pid : looks_at_all_ ? host_.children().watched_pids() : std::vector<pid_t>()) {
    if (is_killed(pid)) add(pid, event::Seconds::zero());
  }
  for (const Stuck& each : stuck_of(host_, late)) {
    host_.log().log(Level::warn, "", "{} does not end: {}; waiting (unkillable-timeout={})", each.who(host_),
                    each.wait, timeout_.str());
  }
  if (!over.empty()) give_up(over);
  if (!waiting_.empty() || looks_at_all_) return;
  timer_->stop();
  is_started_ = false;
}

void Unkillable::give_up(const std::vector<pid_t>& pids) {
  announce(host_, pids);
  bool goes_on = job::OnLost::read(host_.options()).value_or(job::OnLost{}).goes_on;
  for (const Stuck& each : stuck_of(host_, pids)) {
    std::string what = fmt::format("{} has not ended {} after SIGKILL: {}; it is not waited for any more",
                                   each.who(host_), timeout_.str(), each.wait);
    if (each.ranks.empty()) {
      host_.log().log(Level::error, "", "{}", what);
      continue;
    }
    exits::TaskEnd end{*each.ranks.first(), exits::Record::lost()};
    host_.raise({"node-failure", goes_on || host_.ending() ? 2 : 0, what, std::nullopt, end});
  }
  for (pid_t pid : pids) {
    if (on_given_up_) on_given_up_(pid);
    host_.children().give_up(pid);
  }
}

void Unkillable::announce(plugin::Host& host, const std::vector<pid_t>& pids) {
  if (!host.stack().listens(kUnkillableTopic)) return;
  plugin::Call call{std::string(kUnkillableTopic)};
  call.in["host"] = host.job().resources.nodes[host.job().shell_rank].hostname;
  call.in["processes"] = Json::array();
  for (pid_t pid : pids) {
    KernelWait wait = KernelWait::of(pid);
    Json each{{"pid", pid}, {"name", program_of(pid)}, {"state", std::string(1, wait.state)}};
    if (const task::Task* task = task_of(host, pid)) each["rank"] = task->rank();
    if (!wait.where.empty()) each["where"] = wait.where;
    if (!wait.path.empty()) each["path"] = wait.path;
    call.in["processes"].push_back(std::move(each));
  }
  if (Result<int> called = host.stack().call(call); !called)
    host.log().log(Level::error, "", "{}", called.error().message);
}

}  // namespace nacre::core
