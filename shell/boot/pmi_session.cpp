// SPDX-License-Identifier: Apache-2.0
#include "boot/pmi_session.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "group/directory.hpp"

namespace nacre::boot {
namespace {

constexpr std::uint32_t kMaxShells = group::Membership::kMaxShells;
constexpr std::size_t kMaxParts = 4096;  // of a long value
// Slurm 22.05 reads lines of 1,024 bytes, but announces a length of values that does not fit into them.
constexpr std::size_t kMostOfLine = 512;  // bytes of a value

double now() { return event::clock_now().count(); }

Result<std::uint32_t> number_in(const Variables& variables, const char* name, std::uint64_t most) {
  auto text = variables(name);
  if (!text) return Error{ENOENT, fmt::format("{} is not set: is this a process of a PMI server?", name)};
  auto number = parse_u64(*text);
  if (number && *number <= most) return static_cast<std::uint32_t>(*number);
  return invalid(fmt::format("{}: expected a number up to {}, got {}", name, most, in_quotes(*text)));
}

std::string part_key(std::string_view key, std::size_t part) { return fmt::format("{}.{}", key, part); }

// Values are put in letters only: servers cut them at blanks, and some refuse other bytes.
std::string hex_of(std::string_view bytes) {
  std::string out;
  for (unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

Result<std::string> bytes_of(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    std::string pair(hex.substr(i, 2));
    bool digits = pair.size() == 2 && pair.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!digits) return invalid(fmt::format("expected hexadecimal digits, got {}", in_quotes(hex)));
    out += static_cast<char>(std::stoi(pair, nullptr, 16));
  }
  return out;
}

}  // namespace

Result<PmiSession> PmiSession::open(const Variables& variables, double timeout) {
  auto fd = static_cast<int>(TRY(number_in(variables, "PMI_FD", std::uint32_t{1} << 30)));
  std::uint32_t size = TRY(number_in(variables, "PMI_SIZE", kMaxShells));
  std::uint32_t rank = TRY(number_in(variables, "PMI_RANK", kMaxShells));
  if (rank >= size) return invalid(fmt::format("PMI_RANK: {} is not below PMI_SIZE, {}", rank, size));
  // no task may inherit it
  if (::fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) return system_error(errno, fmt::format("PMI_FD={}", fd));
  PmiSession out(UniqueFd(fd), rank, size, timeout);
  CHECK_OK(out.ask(out.session_.init()));
  CHECK_OK(out.ask(out.session_.get_maxes()));
  CHECK_OK(out.ask(out.session_.get_kvsname()));
  return out;
}

Result<void> PmiSession::put(std::string_view key, std::string_view value) {
  CHECK_OK(ask(session_.put(key, value)));
  return {};
}

std::optional<pid_t> PmiSession::server() const {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0) return std::nullopt;
  return peer.pid;
}

Result<void> PmiSession::barrier(const Doubt& doubt) {
  CHECK_OK(ask(session_.barrier(), doubt));
  return {};
}

Result<void> PmiSession::finalize() {
  CHECK_OK(ask(session_.finalize()));
  return {};
}

// The first part begins with the number of parts.
Result<void> PmiSession::put_long(std::string_view key, std::string_view value) {
  constexpr std::size_t kOverhead = 8;  // "PARTS:", and the NUL, which counts towards the limit
  std::size_t room = std::min(session_.maxes()->value, kMostOfLine);
  if (room < kOverhead + 2) return invalid(fmt::format("PMI: values of {} bytes are too short", room));
  std::size_t each = (room - kOverhead) / 2 * 2;
  std::string hex = hex_of(value);
  std::size_t parts = std::max<std::size_t>((hex.size() + each - 1) / each, 1);
  if (parts > kMaxParts) return invalid(fmt::format("PMI: {} bytes are too many for one key", value.size()));
  for (std::size_t part = 0; part < parts; ++part) {
    std::string text = part == 0 ? fmt::format("{}:", parts) : "";
    CHECK_OK(put(part_key(key, part), text + hex.substr(part * each, each)));
  }
  return {};
}

Result<std::string> PmiSession::get_long(std::string_view key) {
  std::string first = TRY(get(part_key(key, 0)));
  std::size_t colon = first.find(':');
  auto parts = parse_u64(std::string_view(first).substr(0, colon));
  if (colon == std::string::npos || !parts || *parts == 0 || *parts > kMaxParts) {
    return invalid(fmt::format("PMI: {} has no number of parts: {}", key, in_quotes(first)));
  }
  std::string hex = first.substr(colon + 1);
  for (std::size_t part = 1; part < *parts; ++part) hex += TRY(get(part_key(key, part)));
  return in(key, bytes_of(hex));
}

// ---- the connection ----------------------------------------------------------------------

Result<pmi::ClientSession::Reply> PmiSession::ask(const Result<std::string>& request, const Doubt& doubt) {
  if (!request) return in("PMI", Error(request.error()));
  double until = now() + timeout_;
  CHECK_OK(send(*request, until));
  std::array<char, 4096> buffer;
  for (;;) {
    CHECK_OK(wait_for_answer(until, doubt));
    ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return system_error(errno, "PMI: the connection to the manager broke");
    auto reply = TRY(in("PMI", session_.receive({buffer.data(), static_cast<std::size_t>(got)})));
    if (reply) return *std::move(reply);
  }
}

Result<void> PmiSession::send(std::string_view bytes, double until) const {
  while (!bytes.empty()) {
    ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EINTR && errno != EAGAIN) {
      return system_error(errno, "PMI: the connection to the manager broke");
    }
    if (sent < 0) CHECK_OK(wait_for(POLLOUT, until));
  }
  return {};
}

Result<void> PmiSession::wait_for_answer(double until, const Doubt& doubt) {
  if (!doubt) return wait_for(POLLIN, until);
  for (double next = now() + kDoubtEach; next < until; next += kDoubtEach) {
    if (TRY(in("PMI", event::ready_by(fd_.get(), POLLIN, event::Seconds(next))))) return {};
    auto why = doubt();
    if (!why) continue;
    // If one process just exits, Hydra does not end the others.
    static_cast<void>(send(session_.abort(1, why->message), until));
    return *why;
  }
  return wait_for(POLLIN, until);
}

Result<void> PmiSession::wait_for(short events, double until) const {
  if (TRY(in("PMI", event::ready_by(fd_.get(), events, event::Seconds(until))))) return {};
  return Error{ETIMEDOUT,
               fmt::format("PMI: no answer within {} s; have all shells of the job been started?", timeout_)};
}

// ---- hydra ------------------------------------------------------------------------------

namespace {

constexpr std::string_view kProxy = "hydra_pmi_proxy";
constexpr std::uint32_t kMost = 1U << 20;  // proxies

Words words_of(pid_t pid) {
  Result<std::string> text = read_file(fmt::format("/proc/{}/cmdline", pid));
  if (!text || text->empty()) return {};
  if (text->back() == '\0') text->pop_back();
  std::vector<std::string_view> words = split(*text, '\0');
  return {words.begin(), words.end()};
}

// 0: it has none that this process can see.
pid_t parent_of(pid_t pid) {
  auto stat = ProcessStat::of(pid);
  return stat ? stat->parent : 0;
}

std::vector<Words> children_of(pid_t pid) {
  std::vector<Words> out;
  Result<std::string> text = read_file(fmt::format("/proc/{0}/task/{0}/children", pid));
  if (!text) return out;
  for (std::string_view each : split(*text, ' ')) {
    if (auto child = parse_u64(each)) out.push_back(words_of(static_cast<pid_t>(*child)));
  }
  return out;
}

// The word that is the program, whether ssh is in front of it or not, and whether it is quoted for a shell or not.
Words::const_iterator proxy_in(const Words& words) {
  return std::find_if(words.begin(), words.end(),
                      [](std::string_view word) { return word.find(kProxy) != std::string_view::npos; });
}

std::string value_of(const Words& words, std::string_view option) {
  auto at = std::find(words.begin(), words.end(), option);
  return at == words.end() || std::next(at) == words.end() ? "" : *std::next(at);
}

}  // namespace

bool is_hydra_proxy(pid_t pid) {
  Words words = words_of(pid);
  return !words.empty() && proxy_in(words) == words.begin();
}

std::optional<std::uint32_t> proxies_in_mapping(std::string_view mapping) {
  constexpr std::string_view kBegin = "(vector";
  if (mapping.substr(0, kBegin.size()) != kBegin) return std::nullopt;
  std::uint64_t most = 0;
  for (std::size_t open = mapping.find('(', 1); open != std::string_view::npos;
       open = mapping.find('(', open + 1)) {
    std::size_t comma = mapping.find(',', open);
    if (comma == std::string_view::npos) return std::nullopt;
    std::size_t next = mapping.find(',', comma + 1);
    if (next == std::string_view::npos) return std::nullopt;
    auto first = parse_u64(mapping.substr(open + 1, comma - open - 1));
    auto nodes = parse_u64(mapping.substr(comma + 1, next - comma - 1));
    if (!first || !nodes || *first > kMost || *nodes > kMost) return std::nullopt;
    most = std::max(most, *first + *nodes);
  }
  if (most == 0) return std::nullopt;
  return static_cast<std::uint32_t>(most);
}

HydraProxies::HydraProxies(std::uint32_t count, pid_t mpiexec, const Words& proxy)
    : count_(count), mpiexec_(mpiexec), group_(value_of(proxy, "--pgid")) {}

std::optional<HydraProxies> HydraProxies::find(pid_t server, std::uint32_t count) {
  Words proxy = words_of(server);
  if (!is_hydra_proxy(server)) return std::nullopt;
  pid_t parent = parent_of(server);  // sshd, if mpiexec is on another host
  Words above = words_of(parent);
  if (above.empty() || above[0].find("mpiexec") == std::string::npos) return std::nullopt;
  return HydraProxies(count, parent, proxy);
}

std::optional<std::string> HydraProxies::ended(const std::vector<Words>& children, double now) {
  value::Idset running;
  for (const Words& words : children) {
    auto proxy = proxy_in(words);
    if (proxy == words.end() || value_of(words, "--pgid") != group_) continue;
    auto id = parse_u64(value_of(words, "--proxy-id"));
    // This launcher starts several proxies, so nothing is known of one
    if (!id || *id >= count_) return std::nullopt;
    running.insert(static_cast<std::uint32_t>(*id));
    hosts_[static_cast<std::uint32_t>(*id)] = proxy == words.begin() ? "" : *std::prev(proxy);
  }
  if (!since_ || running != running_) {
    running_ = running;
    since_ = now;
  }
  if (running.empty() || running.size() >= count_ || now - *since_ < kSettled) return std::nullopt;
  value::Idset missing;
  std::string hosts;
  for (std::uint32_t id = 0; id < count_; ++id) {
    if (running.contains(id)) continue;
    missing.insert(id);
    auto host = hosts_.find(id);
    if (host != hosts_.end() && !host->second.empty()) hosts += (hosts.empty() ? " on " : ", ") + host->second;
  }
  return fmt::format(
      "mpiexec could not start nacre-shell, or it has ended: proxy {}{}; see Hydra's message about it",
      missing.str(), hosts);
}

std::optional<std::string> HydraProxies::look(double now) { return ended(children_of(mpiexec_), now); }

}  // namespace nacre::boot
