// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/exchange.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

namespace nacre::plugins {
namespace {

// Of a node that abstains: this, and the ranks that are missing. Keys begin with a length, whose first byte is 0.
constexpr char kNothing = '-';

bool is_nothing(std::string_view given) { return !given.empty() && given.front() == kNothing; }

}  // namespace

Result<value::Idset> PmiExchange::missing_in(const plugin::Gathered& gathered) {
  value::Idset out;
  for (const auto& [bytes, shells] : gathered) {
    if (!is_nothing(bytes)) continue;
    out.insert(TRY(in(fmt::format("shells {}", shells.str()), value::Idset::parse(bytes.substr(1)))));
  }
  return out;
}

Result<pmi::Entries> PmiExchange::others_in(const plugin::Gathered& gathered) const {
  pmi::Entries out;
  for (const auto& [bytes, shells] : gathered) {
    if (shells.contains(host_.job().shell_rank) || is_nothing(bytes)) continue;
    auto entries = TRY(in(fmt::format("shells {}", shells.str()), pmi::decode_entries(bytes, most_)));
    out.insert(out.end(), std::make_move_iterator(entries.begin()), std::make_move_iterator(entries.end()));
  }
  return out;
}

void PmiExchange::fence(const pmi::EntryRefs& mine, Done done) { give(pmi::encode_refs(mine), std::move(done)); }

void PmiExchange::abstain(const value::Idset& missing) {
  if (std::exchange(abstains_, true)) return;
  nothing_ = kNothing + missing.str();
  if (!waiting_) give_nothing();
}

// A node that abstains does not know when the others enter, so it is always one barrier ahead, until all nodes
// abstain.
void PmiExchange::give_nothing() {
  give(nothing_, [](const Result<pmi::Entries>&) {});
}

void PmiExchange::give(std::string mine, Done done) {
  waiting_ = true;
  bool abstained = is_nothing(mine);
  auto all = [this, abstained, done = std::move(done)](Result<plugin::Gathered> gathered) {
    auto answer = [this, abstained, done, gathered = std::move(gathered)] { answered(gathered, abstained, done); };
    held_for_.empty() || abstained ? answer() : void(held_ = std::move(answer));
  };
  std::uint64_t number = ++count_;
  std::string name = fmt::format("{}.{}", barriers_.name, number);
  auto answer = host_.gather_up_to(barriers_.last, name, std::move(mine), std::move(all));
  // Otherwise it has come already, and the next barrier has begun
  if (number == count_) answer_ = std::move(answer);
}

void PmiExchange::answered(const Result<plugin::Gathered>& gathered, bool abstained, const Done& done) {
  waiting_ = false;
  if (!gathered) return done(gathered.error());
  Result<value::Idset> missing = missing_in(*gathered);
  if (!missing) return done(std::move(missing).error());
  if (abstained || missing->empty() || may_open_(*missing)) done(others_in(*gathered));
  bool goes_on =
      std::any_of(gathered->begin(), gathered->end(), [](const auto& each) { return !is_nothing(each.first); });
  over_ = !goes_on;
  if (!abstains_ || over_) return;
  if (abstained) missed_();  // what it sends the others comes before their next barrier
  if (!waiting_) give_nothing();
}

void PmiExchange::release(std::uint32_t shell) {
  held_for_.remove(shell);
  if (!held_for_.empty()) return;
  if (auto answer = std::exchange(held_, nullptr)) answer();
}

}  // namespace nacre::plugins
