// SPDX-License-Identifier: Apache-2.0
#include "job_grows.hpp"

#include <utility>

#include <fmt/format.h>

#include "elastic/roster.hpp"
#include "job_elastic.hpp"
#include "job_leader.hpp"
#include "job_shell.hpp"

namespace nacre::sim {
namespace {

constexpr Time kMostOfferTime = 10 * kSecond;
constexpr std::uint64_t kGrowWait = 3000;  // milliseconds

}  // namespace

// ---- an order --------------------------------------------------------------------------------------

void JobGrows::order(std::size_t number, const Order& order) {
  if (stopped_ || shell_.ending().is_ending() || !shell_.group().has_started())
    return shell_.process().witness().answered(number, true);
  Growing grow;
  grow.number = number;
  grow.all = order.all;
  grow.count = order.count;
  queue_.push_back(grow);
  begin_next();
}

void JobGrows::begin_next() {
  while (!open_ && !queue_.empty()) {
    open_ = queue_.front();
    queue_.pop_front();
    begin();
  }
}

void JobGrows::begin() {
  const Id first = open_->first = elastic_.replica().job().shells();
  const Idset ranks = asked();
  leader_.request(overlay::Grow{ranks, kGrowWait}, [this, first](const Entry* entry) {
    if (is_open(first)) came(entry);
  });
  for (Id rank : ranks.ids()) {
    if (is_open(first)) shell_.process().witness().grows(rank, elastic_.replica().growth());
  }
}

void JobGrows::start_failed(Id shell) {
  if (open_ && asked().contains(shell)) open_->failed.insert(shell);
  shell_.process().on_node([shell](Node& node) { node.suspect(shell); });
}

// ---- those that come -------------------------------------------------------------------------------

void JobGrows::came(const Entry* entry) {
  const auto* end = entry == nullptr ? nullptr : std::get_if<Campaign>(&entry->body);
  open_->come = end != nullptr ? end->done : Idset();
  fail(asked() - *open_->come);
  shell_.process().later(kMostOfferTime, [this, first = open_->first] {
    if (!is_open(first) || open_->is_sent) return;
    fail(*open_->come - open_->offers);
    send_growth();
  });
  look_for_offers();
}

void JobGrows::fail(const Idset& shells) {
  open_->failed = open_->failed | shells;
  for (Id shell : shells.ids()) shell_.process().witness().dismisses(shell);
}

void JobGrows::look_for_offers() {
  if (!open_ || !open_->come || open_->is_sent) return;
  if ((*open_->come - open_->failed - open_->offers).empty()) send_growth();
}

// Those that have not come are named, too: ranks have no gaps.
void JobGrows::send_growth() {
  open_->is_sent = true;
  elastic::Growth growth;
  for (Id rank : asked().ids()) {
    bool has_come = (*open_->come & open_->offers).contains(rank) && !open_->failed.contains(rank);
    Idset cores = has_come ? Idset::range(0, 3) : Idset();
    growth.shells.push_back({rank, fmt::format("n{}", rank), cores, {}, has_come});
  }
  shell_.group().announce(elastic::kGrownTopic, dump_json(growth.json()));
}

void JobGrows::lost(Id shell) {
  if (!open_ || !asked().contains(shell) || open_->ready.contains(shell)) return;
  open_->failed.insert(shell);
  look_for_offers();
  settle();
}

void JobGrows::announced(const std::string& topic, const Json& what) {
  if (topic != elastic::kOfferTopic && topic != elastic::kReadyTopic) return;
  auto rank = what.at("shell").get<Id>();
  bool is_open = open_ && asked().contains(rank);
  if (topic == elastic::kOfferTopic) {
    if (is_open) open_->offers.insert(rank);
    return look_for_offers();
  }
  bool has_failed = what.contains("error");
  if (is_open) (has_failed ? open_->failed : open_->ready).insert(rank);
  if (has_failed) leader_.shrinks().take_out(Idset::range(rank, rank), nullptr);
  settle();
}

void JobGrows::grown(const Idset& come) {
  if (!open_) return;
  open_->is_announced = true;
  shell_.group().announce(elastic::kStateTopic, dump_json(state()));
  // They are of the job, and nobody knows what they have.
  if (Idset unknown = *open_->come - come - elastic_.replica().roster().gone(); !unknown.empty())
    leader_.shrinks().take_out(unknown, nullptr);
  if (stopped_) leader_.shrinks().take_out(come - elastic_.replica().roster().gone(), nullptr);
  settle();
}

Json JobGrows::state() const {
  Json out = elastic_.replica().state();
  if (shell_.ending().is_ending()) out["ended"] = "";
  return out;
}

// ---- the end of an order ---------------------------------------------------------------------------

void JobGrows::settle() {
  bool waits = !open_ || !open_->is_announced || !(*open_->come - open_->ready - open_->failed).empty();
  if (waits || open_->is_undone) return;
  Idset back = open_->all && !open_->failed.empty() ? open_->ready : Idset();
  if (back.empty()) return end((open_->ready - open_->failed).empty());
  open_->is_undone = true;
  open_->failed = open_->failed | back;
  leader_.shrinks().take_out(back, [this, first = open_->first](bool /*is_error*/) {
    if (is_open(first)) end(true);
  });
}

void JobGrows::end(bool is_error) {
  Growing over = *std::exchange(open_, std::nullopt);
  if (!over.is_answered) shell_.process().witness().answered(over.number, is_error);
  begin_next();
}

void JobGrows::stop() {
  if (std::exchange(stopped_, true)) return;
  for (const Growing& each : std::exchange(queue_, {})) shell_.process().witness().answered(each.number, true);
  if (!open_) return;
  if (!std::exchange(open_->is_answered, true)) shell_.process().witness().answered(open_->number, true);
  if (!open_->come) {
    for (Id rank : asked().ids()) {
      shell_.process().witness().dismisses(rank);
      shell_.process().on_node([rank](Node& node) { node.suspect(rank); });
      if (!open_) return;
    }
  } else if (open_->is_announced) {
    leader_.shrinks().take_out(*open_->come - open_->ready - open_->failed, nullptr);
  }
}

}  // namespace nacre::sim
