// SPDX-License-Identifier: Apache-2.0
#include "boot/hydra.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/process_stat.hpp"
#include "base/text.hpp"
#include "value/idset.hpp"

namespace nacre::boot {
namespace {

constexpr std::string_view kProxy = "hydra_pmi_proxy";
constexpr std::uint32_t kMost = 1U << 20;  // proxies

Words words_of(pid_t pid) {
  Words out;
  Result<std::string> text = read_file(fmt::format("/proc/{}/cmdline", pid));
  if (!text) return out;
  for (std::size_t at = 0; at < text->size();) {
    std::size_t end = std::min(text->find('\0', at), text->size());
    out.push_back(text->substr(at, end - at));
    at = end + 1;
  }
  return out;
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
  for (std::size_t at = 0; at < text->size();) {
    std::size_t end = std::min(text->find(' ', at), text->size());
    if (auto child = parse_u64(std::string_view(*text).substr(at, end - at)))
      out.push_back(words_of(static_cast<pid_t>(*child)));
    at = end + 1;
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
