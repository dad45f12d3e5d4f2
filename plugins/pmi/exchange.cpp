// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/exchange.hpp"

#include <iterator>

#include <fmt/format.h>

namespace nacre::plugins {
namespace {

constexpr const char* kNothing = "-";  // no keys are as short as this

}  // namespace

Result<pmi::Entries> PmiExchange::others_in(const plugin::Gathered& gathered) const {
  pmi::Entries out;
  for (const auto& [bytes, shells] : gathered) {
    if (shells.contains(host_.job().shell_rank) || bytes == kNothing) continue;
    auto entries = TRY(in(fmt::format("shells {}", shells.str()), pmi::decode_entries(bytes, most_)));
    out.insert(out.end(), std::make_move_iterator(entries.begin()), std::make_move_iterator(entries.end()));
  }
  return out;
}

void PmiExchange::fence(const pmi::EntryRefs& mine, Done done) { give(pmi::encode_refs(mine), std::move(done)); }

void PmiExchange::abstain() {
  if (std::exchange(abstains_, true) || waiting_) return;
  give_nothing();
}

// A node that abstains does not know when the others enter, so it is always one barrier ahead, until all nodes
// abstain.
void PmiExchange::give_nothing() {
  give(kNothing, [](const Result<pmi::Entries>&) {});
}

void PmiExchange::give(std::string mine, Done done) {
  waiting_ = true;
  bool is_nothing = mine == kNothing;
  auto all = [this, is_nothing, done = std::move(done)](Result<plugin::Gathered> gathered) {
    waiting_ = false;
    if (!gathered) return done(std::move(gathered).error());
    done(others_in(*gathered));
    bool goes_on = gathered->size() > 1 || gathered->count(kNothing) == 0;
    if (!abstains_ || !goes_on) return;
    if (is_nothing) missed_();  // what it sends the others comes before their next barrier
    if (!waiting_) give_nothing();
  };
  std::uint64_t number = ++count_;
  auto answer = host_.gather(fmt::format("pmi.{}", number), std::move(mine), std::move(all));
  // Otherwise it has come already, and the next barrier has begun
  if (number == count_) answer_ = std::move(answer);
}

}  // namespace nacre::plugins
