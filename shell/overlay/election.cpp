// SPDX-License-Identifier: Apache-2.0
//
// Rule 17: what members do when their leader is lost.
#include "overlay/election.hpp"

#include "overlay/node.hpp"

namespace nacre::overlay {

void Quorums::complete(Seq upto) {
  while (views_.size() > 1 && views_[1].view <= upto) views_.pop_front();
}

bool Quorums::may_choose(const Idset& present, const Idset& over, std::size_t others) const {
  return std::all_of(views_.begin(), views_.end(), [&](const auto& each) {
    return 2 * (each.members & present).size() + others > (each.members - over).size();
  });
}

bool Quorums::may_lead(const Idset& present, const Idset& over) const {
  const Idset& members = views_.front().members;
  return 2 * (members & present).size() >= (members - over).size();
}

bool Quorums::is_half(const Idset& present, const Idset& over) const {
  const Idset& members = views_.front().members;
  return 2 * (members & present).size() == (members - over).size();
}

void Election::close() {
  since = claim_at = Outbox::kNever;
  is_sure = false;
  claim.reset();
  votes = unsent = {};
}

void Withheld::release(Seq complete, Outbox& out) {
  for (; !effects_.empty() && effects_.front().first <= complete; effects_.pop_front())
    out.effects.push_back(std::move(effects_.front().second));
}

// ---- who misses the leader -------------------------------------------------------------------

void Node::watch_leader() {
  if (!options_.hands_over || leads() || stage_ != Stage::member) return;
  if (!election_.is_sure && out_.now < lost_at()) {
    if (election_.is_open()) found_leader();
    return out_.wake(lost_at());
  }
  if (!election_.is_open()) begin_election();
  const Time silent_at = std::max(election_.since, election_.heard_at) + Time(options_.welcome_bound);
  if (uplink_.current() && out_.now >= silent_at) uplink_.leave(*uplink_.current());  // the feeder is lost as well
  if (uplink_.current()) out_.wake(silent_at);
  const bool has_claimed = election_.claim && election_.claim->candidate == options_.self;
  const bool is_due = out_.now >= election_.claim_at || (!has_claimed && uplink_.tried_all());
  if (uplink_.current() || !is_due) {
    if (!uplink_.current()) out_.wake(election_.claim_at);
    return;
  }
  if (end_ == 0 && has_claimed && count_votes(true)) return;
  if (end_ == 0) return claim(true, std::max(out_.term, election_.latest) + 1);
  const Time lingers_until = election_.since + 2 * Time(options_.welcome_bound);  // for members that lack the end
  if (out_.now < lingers_until) return out_.wake(lingers_until);
  stage_ = Stage::over;
  out_.put(Finished{});
}

void Node::found_leader() {
  election_.close();
  uplink_.route(tree_.ancestors(options_.self));
}

// The members that may feed it now. The lowest living slot is to lead, so all ask upward in the order of the slots.
// The leader itself comes last: it may only have stood still.
std::vector<Id> Node::above_without_leader() const {
  constexpr Slot kMost = 64;
  std::vector<Id> out = tree_.ancestors(options_.self);
  if (!out.empty()) out.pop_back();
  const Slot mine = tree_.slot_of(options_.self).value_or(1);
  for (Slot slot = 1; slot < std::min(mine, kMost); ++slot) {
    const Id id = tree_.at(slot);
    if (std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
  }
  if (!election_.is_sure) out.push_back(tree_.leader());
  return out;
}

void Node::begin_election() {
  election_.since = out_.now;
  const Slot mine = tree_.slot_of(options_.self).value_or(1);
  election_.claim_at = out_.now + (mine - 1) * Time(options_.welcome_bound);
  out_.wake(election_.claim_at);
  out_.put(
      Note{fmt::format("member {}, which leads, is {}", tree_.leader(), election_.is_sure ? "over" : "silent")});
  uplink_.starve(false);
  uplink_.route(above_without_leader());
  if (uplink_.current() == tree_.leader()) uplink_.drop(tree_.leader(), true);
  consider_vote();
}

// ---- claims and votes ------------------------------------------------------------------------

void Node::claim(bool trial, std::uint64_t ballot) {
  election_.claim = Claim{ballot, options_.self, applied(), log_.last_term(), trial, election_.is_sure};
  election_.votes = Idset::range(options_.self, options_.self);
  election_.latest = std::max(election_.latest, ballot);
  election_.claim_at = out_.now + options_.vote_bound;
  out_.wake(election_.claim_at);
  if (!trial) promise(ballot, options_.self);
  spread(*election_.claim);
  count_votes(false);
}

void Node::promise(std::uint64_t term, std::optional<Id> to) {
  if (term > out_.term || to) election_.follows = to;
  out_.term = std::max(out_.term, term);
}

void Node::spread(const Claim& claim) {
  for (const DownLink& each : child_table_.down_links()) {
    if (each.welcomed && !each.closed) out_.send({each.peer, Side::down}, claim);
  }
}

void Node::ask_arbiter(const Idset& others) {
  if (asked_ == others) return;
  asked_ = others;
  out_.put(AskArbiter{others});
}

void Node::arbiter_agrees(const Idset& others) {
  if (stage_ != Stage::member) return;
  agreed_ = agreed_ | others;
  if (election_.is_open() && election_.claim && election_.claim->candidate == options_.self)
    election_.claim_at = out_.now;
  settle();
}

// On trial all have a moment to answer: one of them may have an entry that the others lack.
bool Node::count_votes(bool is_due) {
  const Idset silent = tree_.members() - election_.votes;
  const bool is_half = !quorums_.may_choose(election_.votes, reports_.gone());
  if (is_half && !(has_arbiter() && quorums_.may_choose(election_.votes, reports_.gone(), 1))) return false;
  const bool needs_arbiter = is_half && !(silent - agreed_).empty();
  if (!election_.claim->trial && !needs_arbiter) return take_over(), true;
  const bool is_all = silent.empty() || silent == Idset::range(tree_.leader(), tree_.leader());
  if (!is_due && !is_all) return false;
  if (needs_arbiter) return ask_arbiter(silent), false;
  return claim(false, std::max(out_.term, election_.latest) + 1), true;
}

void Node::take(LinkName from, const Claim& claim) {
  if (!options_.hands_over || from.side == Side::down)
    return refuse(from, Farewell::refused, "a claim comes from above, in a job that may change its leader");
  if (leads() || stage_ != Stage::member || uplink_.current() != from.peer) return;
  // Members that differ in their views may feed each other in a circle.
  if (claim.candidate == options_.self) return uplink_.leave(from.peer);
  if (claim.ballot < election_.latest || claim.ballot <= log_.last_term()) return;
  election_.latest = claim.ballot;
  election_.heard_at = out_.now;
  if (election_.claim == claim) {  // it has come by another way
    if (!election_.votes.contains(options_.self)) return consider_vote();
    election_.unsent = election_.votes;
    return send_votes();
  }
  election_.claim = claim;
  election_.votes = election_.unsent = {};
  if (claim.trial) spread(claim);
  consider_vote();
}

// Called whenever something has changed by which this member may vote.
void Node::consider_vote() {
  const std::optional<Claim>& claim = election_.claim;
  const auto feeder = uplink_.current();
  if (!claim || claim->candidate == options_.self || !feeder || election_.votes.contains(options_.self)) return;
  if (log_.parts_from(claim->log_term, claim->applied)) return uplink_.drop(*feeder);
  const std::pair mine(log_.last_term(), applied());
  if (mine > std::pair(claim->log_term, claim->applied)) return feed_up({*feeder, Side::up}, claim->applied);
  if (claim->sure) election_.is_sure = true;
  if (!election_.is_sure && out_.now < lost_at()) return out_.wake(lost_at());
  if (!election_.is_open()) return begin_election();
  if (!claim->trial) {
    const bool is_late = claim->ballot < out_.term ||
                         (claim->ballot == out_.term && election_.follows && election_.follows != claim->candidate);
    if (is_late) return out_.send({*feeder, Side::up}, Vote{claim->ballot, claim->candidate, false, {}});
    promise(claim->ballot, claim->candidate);
    spread(*claim);
  }
  election_.votes.insert(options_.self);
  election_.unsent.insert(options_.self);
  send_votes();
}

void Node::send_votes() {
  auto feeder = uplink_.current();
  if (!feeder || election_.unsent.empty()) return;
  const Claim& claim = *election_.claim;
  out_.send({*feeder, Side::up},
            Vote{claim.ballot, claim.candidate, claim.trial, std::exchange(election_.unsent, {})});
}

void Node::take(LinkName from, const Vote& vote) {
  if (!options_.hands_over || from.side == Side::up) return refuse(from, Farewell::refused, "votes go up");
  const std::optional<Claim>& claim = election_.claim;
  const bool fits = claim && claim->ballot == vote.ballot && claim->candidate == vote.candidate &&
                    claim->trial == vote.trial && !leads();
  if (!fits) return;
  election_.unsent = election_.unsent | (vote.voters - election_.votes);
  election_.votes = election_.votes | vote.voters;
  if (claim->candidate == options_.self) return static_cast<void>(count_votes(false));
  if (election_.votes.contains(options_.self)) send_votes();
}

// The candidate lacks these entries: it may have been cut off from the last leader a little earlier.
void Node::feed_up(LinkName feeder, Seq behind) {
  for (Seq seq = behind + 1; seq <= applied(); ++seq) {
    if (log_.find(seq) != nullptr) out_.put(SendEntry{feeder, seq});
  }
}

void Node::take_from_below(const Entry& entry, std::uint64_t term) {
  const bool fits = options_.hands_over && election_.is_open() && !leads() && stage_ == Stage::member &&
                    entry.seq == applied() + 1 && term >= log_.last_term();
  if (!fits) return;
  accept(entry, term);
  if (stage_ != Stage::member || !election_.is_open()) return;
  election_.votes = {};
  const bool is_candidate = election_.claim && election_.claim->candidate == options_.self;
  is_candidate ? election_.claim_at = out_.now, out_.wake(out_.now) : consider_vote();
}

// ---- the new leader --------------------------------------------------------------------------

// All that it has to know is in its log, or the others offer it again when they have the view.
void Node::take_over() {
  const Id before = tree_.leader();
  View change;
  change.dead.insert(before);
  if (election_.is_sure) ended_.insert(before);
  election_.close();
  uplink_.route({});
  pulse_.begin(out_.now);
  fed_at_ = out_.now + options_.hello_bound;
  stood_still_at_ = kLongAgo;
  for (RequestId each : requests_.all_answered()) static_cast<void>(campaigns_.take(each));
  campaigns_.wait_until(out_.now + options_.campaign_bound);
  reports_.offer_again();
  takes_over_ = true;
  append({}, std::move(change));
  takes_over_ = false;
  for (const Request& each : requests_.pending()) accept_request(each);
}

}  // namespace nacre::overlay
