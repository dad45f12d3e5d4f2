// SPDX-License-Identifier: Apache-2.0
#include "base/process_stat.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace nacre {
namespace {

// Fields, counted from behind the name.
enum Field : std::size_t {
  kState = 0,
  kParent = 1,
  kGroup = 2,
  kSession = 3,
  kUser = 11,
  kSystem = 12,
  kChildrenUser = 13,
  kChildrenSystem = 14,
  kThreads = 17,
  kStart = 19,
  kPages = 21,
  kFields
};

constexpr std::size_t kMostText = 4096;  // bytes of the file: the kernel writes less than 1 KiB

}  // namespace

// "PID (NAME) S ...", where NAME may have any bytes, parentheses too.
std::optional<ProcessStat> ProcessStat::parse(std::string_view text) {
  std::size_t open = text.find('(');
  std::size_t close = text.rfind(") ");
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) return std::nullopt;
  std::array<std::string_view, kFields> fields;
  std::string_view rest = trim(text.substr(close + 2));
  for (std::string_view& field : fields) {
    if (rest.empty()) return std::nullopt;
    field = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(field.size() + 1, rest.size()));
  }
  if (fields[kState].empty()) return std::nullopt;
  auto number = [&](Field field) { return parse_u64(fields[field]).value_or(0); };
  ProcessStat out;
  out.name = text.substr(open + 1, close - open - 1);
  out.state = fields[kState][0];
  out.parent = static_cast<pid_t>(number(kParent));
  out.group = static_cast<pid_t>(number(kGroup));
  out.session = static_cast<pid_t>(number(kSession));
  out.user = number(kUser);
  out.system = number(kSystem);
  out.children_user = number(kChildrenUser);
  out.children_system = number(kChildrenSystem);
  out.threads = number(kThreads);
  out.start = number(kStart);
  out.pages = number(kPages);
  return out;
}

// Uses one read(2), as those who look at all processes of a node call this often.
std::optional<ProcessStat> ProcessStat::of(pid_t pid, const std::string& root) {
  UniqueFd file(::open(fmt::format("{}/proc/{}/stat", root, pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, kMostText> text;  // NOLINT: what is read is written before
  ssize_t got = 0;
  do got = ::read(file.get(), text.data(), text.size());
  while (got < 0 && errno == EINTR);
  return got > 0 ? parse(std::string_view(text.data(), static_cast<std::size_t>(got))) : std::nullopt;
}

std::vector<int> numbers_in(const std::string& folder) {
  std::vector<int> out;
  DIR* entries = ::opendir(folder.c_str());
  if (entries == nullptr) return out;
  while (const dirent* each = ::readdir(entries)) {
    if (auto number = parse_u64(each->d_name)) out.push_back(static_cast<int>(*number));
  }
  ::closedir(entries);
  return out;
}

bool has_proc() { return ProcessStat::of(::getpid()).has_value(); }

double seconds_since_boot() {
  auto text = read_file("/proc/uptime");
  return text ? std::strtod(text->c_str(), nullptr) : 0;
}

// ---- process start ----------------------------------------------------------------------

namespace {

// SIGPIPE and SIGXFSZ are included, as libraries of other languages ignore them for themselves only.
constexpr int kByDefault[] = {SIGTERM, SIGCHLD, SIGUSR1, SIGUSR2, SIGALRM,  SIGCONT, SIGPIPE,
                              SIGXFSZ, SIGXCPU, SIGURG,  SIGABRT, SIGWINCH, SIGIO,   SIGVTALRM};
constexpr const char* kNames[] = {"input", "output", "error"};

}  // namespace

Result<void> open_closed_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    int opened = ::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);  // it gets the lowest free number
    if (opened == fd) continue;
    return system_error(errno, fmt::format("standard {} is closed, and for its place /dev/null", kNames[fd]));
  }
  return {};
}

bool is_writable(int fd) {
  int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int signum : kByDefault) ::sigaction(signum, &action, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

bool ignores_signal(int signum) {
  struct sigaction action {};
  return ::sigaction(signum, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool stands_still(std::optional<char> state) { return state == 'T' || state == 't' || state == 'D'; }

std::optional<char> process_state(pid_t pid) {
  auto stat = ProcessStat::of(pid);
  return stat ? std::optional(stat->state) : std::nullopt;
}

std::optional<std::string> Standstill::update(std::optional<char> state, double now) {
  if (!stands_still(state)) {
    auto since = std::exchange(since_, std::nullopt);
    if (!std::exchange(reported_, std::nullopt)) return std::nullopt;
    return fmt::format("{} {} s", kGoesOn, std::lround(now - since.value_or(now)));
  }
  if (!since_) since_ = now;
  double due = reported_ ? *reported_ + kNext : *since_ + kFirst;
  if (now < due) return std::nullopt;
  reported_ = now;
  return fmt::format(
      "{} for {} s",
      state == 'D' ? "has waited in the kernel, as for a file system that does not answer," : kStopped,
      std::lround(now - *since_));
}

}  // namespace nacre
