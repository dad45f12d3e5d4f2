// SPDX-License-Identifier: Apache-2.0
#include "plugins/doctor/nccl.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "event/children.hpp"
#include "event/clock.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kMostEnvironment = std::size_t{4} << 20;  // bytes

// The path as the process itself would find it.
std::string reached(pid_t pid, const std::string& path) {
  return fmt::format("/proc/{}/{}/{}", pid, path.starts_with('/') ? "root" : "cwd", path);
}

// 0, or an errno; ENXIO: nobody reads the pipe.
int write_to_pipe(const std::string& path) {
  UniqueFd pipe(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!pipe) return errno;
  struct stat about {};
  if (::fstat(pipe.get(), &about) != 0) return errno;
  if (!S_ISFIFO(about.st_mode)) return ENXIO;
  return ::write(pipe.get(), "1", 1) == 1 || errno == EAGAIN ? 0 : errno;  // EAGAIN: others have asked already, and
                                                                           // the pipe is full
}

}  // namespace

std::optional<std::string> variable_in(std::string_view environment, std::string_view name) {
  for (std::string_view each : split(environment, '\0')) {
    if (each.size() > name.size() && each.starts_with(name) && each[name.size()] == '=')
      return std::string(each.substr(name.size() + 1));
  }
  return std::nullopt;
}

void FlightDumps::start(std::function<void()> done) {
  done_ = std::move(done);
  for (const auto& task : host_.tasks()) {
    if (task->state() != task::State::running) continue;
    ask(task->rank(), task->pid());
    for (pid_t pid : event::descendants_of(task->pid(), event::best_lookup())) ask(task->rank(), pid);
  }
  if (open_.empty()) return;
  until_ = event::clock_now() + kMostTime;
  auto timer = event::Timer::create(host_.loop(), [this] { look(); });
  if (!timer) {
    notes_.insert(timer.error().message);
    open_.clear();
    return;
  }
  timer_ = *std::move(timer);
  timer_->unref();
  timer_->start(kPeriod, kPeriod);
}

// Processes that it has started have the same environment, but no pipe of their own.
void FlightDumps::ask(std::uint32_t rank, pid_t pid) {
  auto environment = read_file(fmt::format("/proc/{}/environ", pid), kMostEnvironment);
  if (!environment || open_.size() >= kMostProcesses) return;
  auto pipe = variable_in(*environment, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE");
  auto torch_rank = parse_u64(variable_in(*environment, "RANK").value_or(fmt::format("{}", rank)));
  constexpr std::uint64_t kMostRank = 1'000'000'000;
  if (!pipe || pipe->empty() || !torch_rank || *torch_rank > kMostRank) return;
  auto file = variable_in(*environment, "TORCH_FR_DUMP_TEMP_FILE");
  if (!file) file = variable_in(*environment, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE");
  Asked asked{rank, static_cast<std::uint32_t>(*torch_rank), {}, {}, {}, {}};
  asked.file = reached(pid, fmt::format("{}{}", file.value_or("/tmp/nccl_trace_rank_"), *torch_rank));
  asked.before = asked.seen = stamp_of(asked.file);
  std::string path = fmt::format("{}{}.pipe", *pipe, *torch_rank);
  if (pipes_.contains(path)) return;
  int code = write_to_pipe(reached(pid, path));
  if (code == 0) {
    pipes_.insert(path);
    open_.push_back(std::move(asked));
  } else if (code != ENOENT && code != ENXIO) {  // otherwise torch has not begun in it, or it does not use torch
    notes_.insert(fmt::format("no dump of torch's Flight Recorder: its pipe: {}", std::strerror(code)));
  }
}

FlightDumps::Stamp FlightDumps::stamp_of(const std::string& file) {
  struct stat about {};
  if (::lstat(file.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return {};
  return {about.st_mtim.tv_sec, about.st_mtim.tv_nsec, about.st_ino, about.st_size};
}

void FlightDumps::look() {
  std::erase_if(open_, [this](Asked& each) { return take(each); });
  if (!open_.empty() && event::clock_now() >= until_) give_up();
  if (!open_.empty()) return;
  timer_->stop();
  if (auto done = std::exchange(done_, nullptr)) done();  // the callback may destroy this object
}

// The process may be in the middle of writing, so its file is read when two looks have found it the same.
bool FlightDumps::take(Asked& asked) {
  Stamp now = stamp_of(asked.file);
  bool is_new = now.size > 0 && now != asked.before;
  bool is_still = now == std::exchange(asked.seen, now);
  if (!is_new || !is_still) return false;
  UniqueFd file(::open(asked.file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!file) return false;
  auto dump = read_file(file.get(), "it", doctor::Pickle::kMostBytes);
  constexpr double kNanoseconds = 1e9;  // of a second
  double written = static_cast<double>(now.seconds) + static_cast<double>(now.nanoseconds) / kNanoseconds;
  auto log = dump ? doctor::collectives_in(*dump, written) : Result<doctor::CollectiveLog>(dump.error());
  asked.before = now;  // the file is read again if it grows
  if (!log) {
    asked.error = log.error().message;
    return false;
  }
  log->ranks.insert(asked.rank);
  log->torch_ranks.insert(asked.torch_rank);
  logs_.push_back(*std::move(log));
  return true;
}

void FlightDumps::give_up() {
  for (const Asked& each : open_) {
    notes_.insert(each.error.empty()
                      ? fmt::format("torch's Flight Recorder has written no dump within {:g} s", kMostTime.count())
                      : "the dump of torch's Flight Recorder is not read: " + each.error);
  }
  open_.clear();
}

namespace {

constexpr const char* kUsualAddress = "localhost:28028";
// The protocol consists of lines. A server that does not know JSON says so, and answers in text. The server closes
// the connection at the end.
constexpr std::string_view kRequest = "CLIENT PROTOCOL 2\nTIMEOUT 2\nSET FORMAT json\nVERBOSE STATUS\n";
constexpr int kLinesBefore = 3;  // the answers to all but the last

template <typename In>
std::string address_text(int family, const In* address) {
  char text[INET6_ADDRSTRLEN] = "";
  return ::inet_ntop(family, address, text, sizeof text) == nullptr ? "" : text;
}

// The addresses of this host.
std::vector<std::string> own_addresses() {
  std::vector<std::string> out;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return out;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    const sockaddr* address = each->ifa_addr;
    if (address == nullptr) continue;
    if (address->sa_family == AF_INET)
      out.push_back(address_text(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr));
    if (address->sa_family == AF_INET6)
      out.push_back(address_text(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr));
  }
  ::freeifaddrs(all);
  return out;
}

bool shows_nccl(std::string_view environment, pid_t pid) {
  if (variable_in(environment, "NCCL_RAS_ENABLE") == "0") return false;
  if (variable_in(environment, "NCCL_RAS_ADDR")) return true;
  auto maps = read_file(fmt::format("/proc/{}/maps", pid));
  return maps && maps->find("/libnccl.so") != std::string::npos;
}

}  // namespace

std::optional<RasAddress> RasAddress::parse(const std::string& text) {
  std::size_t colon = text.rfind(':');
  auto port = colon == std::string::npos ? std::nullopt : parse_u64(std::string_view(text).substr(colon + 1));
  if (!port || *port == 0 || *port > UINT16_MAX) return std::nullopt;
  std::string host = text.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  RasAddress out;
  auto* four = reinterpret_cast<sockaddr_in*>(&out.address);
  auto* six = reinterpret_cast<sockaddr_in6*>(&out.address);
  if (::inet_pton(AF_INET, host.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<std::uint16_t>(*port));
    out.size = sizeof *four;
    return out;
  }
  if (::inet_pton(AF_INET6, host.c_str(), &six->sin6_addr) != 1) return std::nullopt;
  six->sin6_family = AF_INET6;
  six->sin6_port = htons(static_cast<std::uint16_t>(*port));
  out.size = sizeof *six;
  return out;
}

void NcclRasClient::start(std::function<void()> done) {
  done_ = std::move(done);
  std::vector<std::string> own_hosts = own_addresses();
  for (const auto& task : host_.tasks()) {
    if (task->state() != task::State::running) continue;
    std::vector<pid_t> pids = event::descendants_of(task->pid(), event::best_lookup());
    pids.push_back(task->pid());
    for (pid_t pid : pids) look_at(task->rank(), pid, own_hosts);
  }
  if (addresses_.empty()) return;
  auto timer = event::Timer::create(host_.loop(), [this] { next(); });
  if (!timer) {
    notes_.insert(timer.error().message);
    return;
  }
  is_done_ = false;
  until_ = event::clock_now() + kMostTime;
  timer_ = *std::move(timer);
  timer_->unref();
  begin();
}

// The process is identified by its id and each address of this host.
void NcclRasClient::look_at(std::uint32_t rank, pid_t pid, const std::vector<std::string>& own_hosts) {
  constexpr std::size_t kMostEnvironment = std::size_t{4} << 20;  // bytes
  auto environment = read_file(fmt::format("/proc/{}/environ", pid), kMostEnvironment);
  if (!environment || !shows_nccl(*environment, pid)) return;
  std::string address = variable_in(*environment, "NCCL_RAS_ADDR").value_or(kUsualAddress);
  if (!RasAddress::parse(address)) {
    notes_.insert("NCCL's RAS is not asked: NCCL_RAS_ADDR is not an address and a port in numbers");
    return;
  }
  if (addresses_.size() < kMostAddresses) addresses_.insert(address);
  for (const std::string& each : own_hosts) rank_of_[{each, pid}] = rank;
}

void NcclRasClient::begin() {
  questions_.clear();
  for (const std::string& each : addresses_) ask(*RasAddress::parse(each));
  timer_->start(questions_.empty() ? event::Seconds::zero() : kBetween);
}

void NcclRasClient::ask(const RasAddress& to) {
  auto question = std::make_unique<Question>();
  question->unsent = kRequest;
  question->socket = UniqueFd(::socket(to.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int connected = question->socket
                      ? ::connect(question->socket.get(), reinterpret_cast<const sockaddr*>(&to.address), to.size)
                      : -1;
  // Nobody listens: NCCL is older than 2.24, or has not begun.
  if (connected != 0 && errno != EINPROGRESS) return;
  auto poll = event::Poll::create(host_.loop(), question->socket.get(),
                                  [this, of = question.get()](int events) { go_on(*of, events); });
  if (!poll) return;
  question->poll = *std::move(poll);
  question->poll->keeps_running(false);
  if (!question->poll->start(event::Poll::kReadable | event::Poll::kWritable)) return;
  questions_.push_back(std::move(question));
}

void NcclRasClient::go_on(Question& question, int events) {
  bool goes_on = events != 0 && send_rest(question) && receive(question);
  if (goes_on && question.unsent.empty() && (events & event::Poll::kWritable) != 0)
    goes_on = question.poll->start(event::Poll::kReadable).has_value();
  if (goes_on) return;
  question.poll->stop();
  question.is_over = true;
  take(question);
}

// Returns false if nothing more can come.
bool NcclRasClient::send_rest(Question& question) {
  if (question.unsent.empty()) return true;
  ssize_t sent = ::send(question.socket.get(), question.unsent.data(), question.unsent.size(), MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
  question.unsent.erase(0, static_cast<std::size_t>(sent));
  return true;
}

bool NcclRasClient::receive(Question& question) {
  char bytes[16384];
  for (;;) {
    ssize_t size = ::recv(question.socket.get(), bytes, sizeof bytes, 0);
    if (size < 0) return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
    if (size == 0) return false;
    question.received.append(bytes, static_cast<std::size_t>(size));
    if (question.received.size() > doctor::kMostRasAnswer) return false;
  }
}

void NcclRasClient::take(const Question& question) {
  std::string_view rest = question.received;
  if (rest.empty()) return;  // nobody listens
  if (rest.size() > doctor::kMostRasAnswer) {
    notes_.insert(
        fmt::format("the answer of NCCL's RAS is not read: it has more than {} bytes", doctor::kMostRasAnswer));
    return;
  }
  bool is_it = rest.starts_with("SERVER PROTOCOL ");
  for (int i = 0; i < kLinesBefore; ++i) rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));
  auto found = is_it ? doctor::ras_communicators(rest)
                     : Result<std::vector<doctor::RasCommunicator>>(invalid("it does not begin with its protocol"));
  if (!found) {
    notes_.insert("the answer of NCCL's RAS is not read: " + found.error().message);
    return;
  }
  auto& all = is_second_ ? second_ : first_;
  all.insert(all.end(), found->begin(), found->end());
}

// The time between two questions is over, or the time for all.
void NcclRasClient::next() {
  bool all_over = std::all_of(questions_.begin(), questions_.end(), [](const auto& each) { return each->is_over; });
  if (event::clock_now() >= until_) {
    if (!all_over) notes_.insert(fmt::format("NCCL's RAS has not answered within {:g} s", kMostTime.count()));
    return finish();
  }
  constexpr event::Seconds kLook{0.1};
  if (!all_over) return timer_->start(kLook);
  if (is_second_ || first_.empty()) return finish();
  is_second_ = true;
  begin();
  timer_->start(kLook);  // nothing else wakes the loop for them
}

void NcclRasClient::finish() {
  questions_.clear();
  is_done_ = true;
  if (auto done = std::exchange(done_, nullptr)) done();  // the callback may destroy this object
}

std::vector<doctor::RasFinding> NcclRasClient::findings() const {
  return doctor::ras_findings(first_, second_, rank_of_);
}

}  // namespace nacre::plugins
