// SPDX-License-Identifier: Apache-2.0
#include "node_state.hpp"

#include "broken.hpp"
#include "overlay/wire.hpp"

namespace nacre::overlay {

// ---- copies ------------------------------------------------------------------------------
//
// All but the options, and but the parts that refer to them.

auto NodeState::parts(auto& node) {
  auto& [options, out, pulse, tree, log, uplink, children, lateness, reports, requests, campaigns, collectives,
         released, incoming, promises, quorums, election, withheld, asked, agreed, takes_over, feeder_term,
         cut_off_since, cut_off_until, reached_since, stood_still_at, in_doubt, stage, view, complete, wants_ack,
         end, leaving, doomed, exited, ended, processes_over, next_request, sent_up_at, leave_deadline, fed_at,
         begun, tasks_done, sent_standing] = node;
  return std::tie(out, tree, log, lateness, reports, requests, campaigns, collectives, released, incoming, promises,
                  quorums, election, withheld, asked, agreed, takes_over, feeder_term, cut_off_since, cut_off_until,
                  reached_since, stood_still_at, in_doubt, stage, view, complete, wants_ack, end, leaving, doomed,
                  exited, ended, processes_over, next_request, sent_up_at, leave_deadline, fed_at, begun,
                  tasks_done, sent_standing);
}

auto NodeState::parts_of_pulse(auto& pulse) {
  auto& [options, number, made, least_delay, woke, lives] = pulse;
  return std::tie(number, made, least_delay, woke, lives);
}

auto NodeState::parts_of_uplink(auto& uplink) {
  auto& [options, out, above, current, attempts, lost, starving, others, tried_all, next, parent_at, pause,
         other_at] = uplink;
  return std::tie(above, current, attempts, lost, starving, others, tried_all, next, parent_at, pause, other_at);
}

auto NodeState::parts_of_children(auto& table) {
  auto& [options, out, down_links, children, silent, busy_until, busy_elsewhere, went, broken, absent_bound] =
      table;
  return std::tie(down_links, children, silent, busy_until, busy_elsewhere, went, broken, absent_bound);
}

std::unique_ptr<Node> NodeState::copy(const Node& from) {
  auto to = std::make_unique<Node>(from.options_);
  parts(*to) = parts(from);
  parts_of_pulse(to->pulse_) = parts_of_pulse(from.pulse_);
  parts_of_uplink(to->uplink_) = parts_of_uplink(from.uplink_);
  parts_of_children(to->child_table_) = parts_of_children(from.child_table_);
  return to;
}

// ---- texts -------------------------------------------------------------------------------

class NodeState::Writer {
 public:
  Writer(const OverlayOptions& options, Time now) : options_(options), now_(now) {}

  void put(const Node& node);
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  // A name for each part, so that a text can be read.
  template <typename... T>
  void put(std::string_view name, const T&... values) {
    text_ += name;
    (value(values), ...);
    text_ += '\n';
  }
  void value(bool each) { text_ += each ? '+' : '-'; }
  void value(std::uint32_t each) { number(each); }
  void value(std::uint64_t each) { number(each); }
  void value(const Idset& each) { value(each.str()); }
  void value(const std::string& each) { text_ += fmt::format(" '{}'", each); }
  // A bound that is to come, or how long ago it has passed.
  void value(Time each) { each == Outbox::kNever ? value("never") : number((each - now_).count()); }
  void value(const char* each) { value(std::string(each)); }
  void value(const auto& list) requires requires { list.begin(); }
  {
    text_ += '[';
    for (const auto& each : list) value(each);
    text_ += ']';
  }
  template <typename T>
  void value(const std::optional<T>& each) {
    each ? value(*each) : value("none");
  }
  template <typename A, typename B>
  void value(const std::pair<A, B>& each) {
    value(each.first);
    value(each.second);
  }
  template <typename T>
  void number(T each) {
    text_ += ' ';
    text_ += std::to_string(each);
  }
  // Whether the time has come, or how long ago if that is less than `matters`.
  void since(Time each, Time matters) { value(each == Outbox::kNever ? each : std::max(each, now_ - matters)); }
  void value(RequestId each) { value(std::pair(each.origin, each.number)); }
  void value(const Entry& each) { value(encode({0, 0, each}).value()); }
  void value(const Request& each) { value(encode({0, 0, each}).value()); }
  void value(const Claim& each) { value(encode({0, 0, each}).value()); }
  void value(const Up& each) { value(encode({0, 0, each}).value()); }
  void value(const Quorum& each) { value(std::pair(each.view, each.members)); }
  void value(const DownLink& link);
  void value(const Child& child);

  void put(const Outbox& out);
  void put(const Pulse& pulse);
  void put(const Tree& tree);
  void put(const EntryLog& log);
  void put(const Uplink& uplink);
  void put(const ChildTable& table);
  void put(const Reports& reports);
  void put(const Requests& requests);
  void put(const Campaigns& campaigns);
  void put(const Promises& promises);
  void put(const Election& election);
  void put(const Withheld& withheld);

  const OverlayOptions& options_;
  Time now_;
  std::string text_;
};

std::string NodeState::text(const Node& node, Time now) {
  Writer writer(node.options_, now);
  writer.put(node);
  return writer.take();
}

// Not written: `options`, which stay as they are; `lateness`, of which only the log's lines speak; `takes_over`,
// which is set within a call; `fed_at`, which counts only if no other member may lead.
void NodeState::Writer::put(const Node& node) {
  const auto& [options, out, pulse, tree, log, uplink, children, lateness, reports, requests, campaigns,
               collectives, released, incoming, promises, quorums, election, withheld, asked, agreed, takes_over,
               feeder_term, cut_off_since, cut_off_until, reached_since, stood_still_at, in_doubt, stage, view,
               complete, wants_ack, end, leaving, doomed, exited, ended, processes_over, next_request, sent_up_at,
               leave_deadline, fed_at, begun, tasks_done, sent_standing] = node;
  sim::require(options.hands_over && !takes_over, "of a node that hands over, between two calls");
  sim::require(collectives.empty() && released.empty(), "a collective, which a node's text does not have");
  put("self", options.self, begun, tasks_done, static_cast<std::uint32_t>(stage));
  put(out);
  put(pulse);
  put(tree);
  put(log);
  put(uplink);
  put(children);
  put(reports);
  put(requests);
  put(campaigns);
  put(promises);
  const auto& [views] = quorums;
  put("quorums", views);
  put(election);
  put(withheld);
  put("arbiter", options.has_arbiter, asked, agreed);
  put("feeder's term", feeder_term);
  text_ += "cut off";
  since(cut_off_since, options_.silent_bound);
  since(cut_off_until, Time(0));
  since(reached_since, options_.silent_bound);
  since(stood_still_at, options_.hello_bound);
  value(in_doubt);
  text_ += '\n';
  put("entries", view, complete, wants_ack, end);
  put("members", leaving, doomed, exited, ended, processes_over);
  put("requests made", next_request);
  text_ += "said upward";
  since(sent_up_at, options_.beat_interval);
  value(sent_standing);
  put("leaves by", leave_deadline);
}

void NodeState::Writer::put(const Outbox& out) {
  const auto& [job, term, now, due, effects] = out;  // `job` stays; `now` is set anew by the next tick
  sim::require(effects.empty(), "effects that nobody has taken");
  put("term", term, due);
}

// Times before the last beat add to no bound.
void NodeState::Writer::put(const Pulse& pulse) {
  const auto& [options, number, made, least_delay, woke, lives] = pulse;
  text_ += "beat";
  number == 0 ? value("none") : value(Time(milliseconds(number)));
  value(made);
  least_delay == Time::max() ? value("never") : this->number(least_delay.count());
  woke <= made ? value("-") : value(woke);
  lives <= made ? value("-") : value(lives);
  text_ += '\n';
}

void NodeState::Writer::put(const Tree& tree) {
  const auto& [first, arity, size, latest, placed, moved] = tree;
  put("tree", first, arity, size, latest);
  for (const auto& each : placed) {
    const auto& [id, slot, joined, address] = each;
    put(" placed", id, slot, joined, address);
  }
  for (const auto& each : moved) {
    const auto& [slot, id] = each;
    put(" moved", slot, id);
  }
}

void NodeState::Writer::put(const EntryLog& log) {
  const auto& [first, entries, terms] = log;
  put("log", first, entries, terms);
}

void NodeState::Writer::put(const Uplink& uplink) {
  const auto& [options, out, above, current, attempts, lost, starving, others, tried_all, next, parent_at, pause,
               other_at] = uplink;
  put("uplink", above, current, lost, starving, others, tried_all, std::uint64_t{next});
  for (const auto& each : attempts) {
    const auto& [peer, deadline, is_linked] = each;
    put(" dials", peer, deadline, is_linked);
  }
  text_ += " again";
  since(parent_at, Time(0));
  since(other_at, Time(0));
  number(pause.count());
  text_ += '\n';
}

void NodeState::Writer::value(const DownLink& link) {
  const auto& [peer, welcomed, closed, ahead, parted, has_left, knocks, fed, fed_term, heard, address] = link;
  put(" link", peer, welcomed, closed, ahead, parted, has_left, knocks, fed, fed_term, address);
  since(heard, options_.silent_bound);
}

// Whether the child was heard, but not when; a bound counts until it is suspected.
void NodeState::Writer::value(const Child& child) {
  const auto& [id, linked, was_linked, reported, suspected, ended, finished, acked, suspects, ended_below, absent,
               named, is_first, deadline, heard] = child;
  const auto& [times, last] = heard;
  put(" child", id, linked, was_linked, reported, suspected, ended, finished, acked, suspects, ended_below, absent,
      is_first, !times.empty());
  since(named, options_.fence);
  if (!suspected) value(deadline);
}

void NodeState::Writer::put(const ChildTable& table) {
  const auto& [options, out, down_links, children, silent, busy_until, busy_elsewhere, went, broken, absent_bound] =
      table;
  put("below", down_links, children, silent, busy_until, busy_elsewhere, broken, absent_bound);
  for (const auto& [id, at] : went) {
    value(id);
    since(at, options_.fence);
  }
  text_ += '\n';
}

void NodeState::Writer::put(const Reports& reports) {
  const auto& [gone, gone_taken, started, started_unsent, outcomes] = reports;
  put("reports", gone, gone_taken, started, started_unsent);
  for (const auto& each : outcomes) {
    const auto& [what, tasks, unsent] = each;
    put(" outcome", what, tasks, unsent);
  }
}

void NodeState::Writer::put(const Requests& requests) {
  const auto& [pending, answered] = requests;
  const auto& [last] = answered;
  put("requests", pending, last);
}

void NodeState::Writer::put(const Campaigns& campaigns) {
  const auto& [open, taken] = campaigns;
  const auto& [last] = taken;
  put("campaigns", last);
  for (const OpenCampaign& each : open) {
    const auto& [request, grow, view, hold, targets, deadline, missing] = each;
    put(" campaign", request, grow, view, hold, targets, deadline, missing);
  }
}

void NodeState::Writer::put(const Promises& promises) {
  const auto& [promised, values] = promises;
  sim::require(promised.empty() && values.empty(), "a value beside the log, which a node's text does not have");
}

// Times before the election began add to no bound.
void NodeState::Writer::put(const Election& election) {
  const auto& [begun, is_sure, claim, votes, unsent, claim_at, heard_at, latest, follows] = election;
  put("election", begun, is_sure, claim, votes, unsent, latest, follows);
  since(claim_at, Time(0));
  const bool counts = begun != Outbox::kNever && heard_at > begun;
  counts ? value(heard_at) : value("-");
  text_ += '\n';
}

void NodeState::Writer::put(const Withheld& withheld) {
  const auto& [effects] = withheld;
  for (const auto& [until, effect] : effects) {
    const auto* shown = std::get_if<Deliver>(&effect);
    sim::require(shown != nullptr, "an effect that a node's text does not have is withheld");
    put("withheld", until, shown->seq);
  }
}

}  // namespace nacre::overlay
