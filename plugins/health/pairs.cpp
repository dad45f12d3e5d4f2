// SPDX-License-Identifier: Apache-2.0
#include "plugins/health/pairs.hpp"

namespace nacre::plugins {

std::optional<PairRound::Peer> PairRound::peer_of(std::uint32_t shell) const {
  for (const auto& [first, second] : pairs) {
    if (first == shell) return Peer{second, true};
    if (second == shell) return Peer{first, false};
  }
  return std::nullopt;
}

PairTrial::PairTrial(const value::Idset& shells) {
  for (std::uint32_t each : shells.ids()) hosts_[each];
}

bool PairTrial::is_bad(const Tried& host) const {
  const auto& failures = host.failures;
  const bool is_slow =
      std::any_of(failures.begin(), failures.end(), [](const Failure& each) { return each.is_slow; });
  if (host.is_good || host.is_lost || failures.size() < (is_slow ? 3U : 2U)) return false;
  return std::any_of(failures.begin(), failures.end(),
                     [this](const Failure& each) { return hosts_.at(each.with).is_good; });
}

// The hosts of which it is not known yet whether they are good.
std::vector<std::uint32_t> PairTrial::open() const {
  std::vector<std::uint32_t> out;
  for (const auto& [shell, host] : hosts_) {
    if (!host.is_good && !host.is_lost && !is_bad(host)) out.push_back(shell);
  }
  return out;
}

// Pairs each free host of `these` with a free one of `others` that it has not been with.
void PairTrial::pair_up(const std::vector<std::uint32_t>& these, const std::vector<std::uint32_t>& others,
                        std::set<std::uint32_t>& taken) {
  for (std::uint32_t one : these) {
    if (taken.contains(one)) continue;
    auto other = std::find_if(others.begin(), others.end(), [&](std::uint32_t each) {
      return each != one && !taken.contains(each) && !hosts_[one].with.contains(each);
    });
    if (other == others.end()) continue;
    taken.insert({one, *other});
    round_.pairs.emplace_back(std::min(one, *other), std::max(one, *other));
  }
}

std::optional<PairRound> PairTrial::next() {
  const std::vector<std::uint32_t> open = this->open();
  round_.pairs.clear();
  if (open.empty() || round_.number == kMostRounds) return std::nullopt;
  std::vector<std::uint32_t> good;
  for (const auto& [shell, host] : hosts_) {
    if (host.is_good && !host.is_lost) good.push_back(shell);
  }
  std::set<std::uint32_t> taken;
  pair_up(open, good, taken);
  pair_up(open, open, taken);
  if (round_.pairs.empty()) return std::nullopt;
  ++round_.number;
  return round_;
}

namespace {

double median_of(std::vector<double> times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>((times.size() - 1) / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

void PairTrial::take(const std::map<std::uint32_t, PairResult>& results) {
  auto of = [&results](std::uint32_t shell) {
    auto found = results.find(shell);
    return found != results.end() ? &found->second : nullptr;
  };
  struct Both {
    double took = 0;
    std::string why;
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Both> ended;
  std::vector<double> times = times_;
  for (const auto& pair : round_.pairs) {
    const PairResult *first = of(pair.first), *second = of(pair.second);
    hosts_[pair.first].is_lost = first == nullptr;
    hosts_[pair.second].is_lost = second == nullptr;
    if (first == nullptr || second == nullptr) continue;
    Both& both = ended[pair];
    both.took = std::max(first->took, second->took);
    both.why = !first->why.empty() ? first->why : second->why;
    if (both.why.empty()) times.push_back(both.took);
  }
  const double usual = median_of(std::move(times));
  for (auto& [pair, both] : ended) {
    const bool is_slow = both.why.empty() && both.took > kSlow * usual + kSlowSeconds;
    if (is_slow) both.why = fmt::format("took {:.1f} s, where {:.1f} s are usual", both.took, usual);
    if (both.why.empty()) times_.push_back(both.took);
    for (auto [one, other] : {pair, std::pair{pair.second, pair.first}}) {
      Tried& host = hosts_[one];
      host.with.insert(other);
      if (both.why.empty())
        host.is_good = true;
      else
        host.failures.push_back({other, both.why, is_slow});
    }
  }
}

std::vector<BadHost> PairTrial::bad(const Name& name) const {
  std::vector<BadHost> out;
  for (const auto& [shell, host] : hosts_) {
    if (!is_bad(host)) continue;
    std::string reason;
    for (const Failure& each : host.failures)
      reason += fmt::format("{}with {}: {}", reason.empty() ? "" : ", ", name(each.with), each.why);
    out.push_back({shell, {"pair", std::move(reason)}});
  }
  return out;
}

value::Idset PairTrial::doubtful() const {
  value::Idset out;
  for (std::uint32_t shell : open()) {
    if (!hosts_.at(shell).failures.empty()) out.insert(shell);
  }
  return out;
}

}  // namespace nacre::plugins
