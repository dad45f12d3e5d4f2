// SPDX-License-Identifier: Apache-2.0
#include "elastic/shrinks.hpp"

namespace nacre::elastic {

Shrinks::Order Shrinks::open(const Idset& shells, Idset& fresh) {
  fresh = shells - leaving_ - over_;
  leaving_ = leaving_ | fresh;
  orders_.emplace(++last_, shells);
  if (!fresh.empty()) batches_.emplace(last_, Batch{fresh, fresh});
  return last_;
}

void Shrinks::ready(std::uint32_t shell) {
  for (auto& [number, batch] : batches_) batch.waiting.remove(shell, shell);
}

bool Shrinks::lost(std::uint32_t shell, bool has_ended) {
  if (!leaving_.contains(shell)) return false;
  for (auto& [number, batch] : batches_) {
    batch.shells.remove(shell, shell);
    batch.waiting.remove(shell, shell);
  }
  const Idset one = Idset::range(shell, shell);
  ended(has_ended ? value::Shrunk{one, {}} : value::Shrunk{{}, one});
  return true;
}

void Shrinks::overdue(Order batch) {
  if (auto found = batches_.find(batch); found != batches_.end()) found->second.waiting = {};
}

std::optional<value::Idset> Shrinks::take_ready() {
  std::erase_if(batches_, [](const auto& each) { return each.second.shells.empty(); });
  for (auto& [number, batch] : batches_) {
    if (!batch.waiting.empty()) continue;
    Idset out = std::move(batch.shells);
    batches_.erase(number);
    return out;
  }
  return std::nullopt;
}

void Shrinks::ended(const value::Shrunk& shrunk) {
  Idset all = shrunk.gone | shrunk.unconfirmed;
  leaving_ = leaving_ - all;
  unconfirmed_ = unconfirmed_ | (shrunk.unconfirmed - over_);
  over_ = over_ | all;
}

std::optional<std::pair<Shrinks::Order, value::Shrunk>> Shrinks::take_ended() {
  for (auto& [number, shells] : orders_) {
    if (!(shells - over_).empty()) continue;
    std::pair out(number, value::Shrunk{shells - unconfirmed_, shells & unconfirmed_});
    orders_.erase(number);
    return out;
  }
  return std::nullopt;
}

}  // namespace nacre::elastic
