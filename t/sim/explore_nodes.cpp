// SPDX-License-Identifier: Apache-2.0
#include "explore_nodes.hpp"

#include <stdexcept>

#include "broken.hpp"
#include "node_state.hpp"
#include "overlay/wire.hpp"

namespace nacre::sim {
namespace {

constexpr Time kBegin = 1000 * kSecond;  // so that times that were never set are long ago

std::int64_t whole_ms(Time time) { return time / kMs; }

Idset members_of(std::uint32_t bits) {
  Idset out;
  for (Id id = 0; bits != 0; ++id, bits >>= 1U) {
    if ((bits & 1U) != 0) out.insert(id);
  }
  return out;
}

std::uint32_t bits_of(const Idset& members) {
  std::uint32_t out = 0;
  for (Id id : members.ids()) out |= 1U << id;
  return out;
}

Facts facts_of(const Node& node, Time now) {
  Facts out;
  out.leads = node.leads();
  out.is_member = node.stage() == Stage::member;
  out.is_fed = node.settled();
  out.elects = NodeState::elects(node);
  out.waits = !node.pending().empty() || NodeState::withholds(node) || !node.campaigns().empty();
  out.term = node.term();
  out.applied = node.applied();
  out.complete = node.complete();
  out.members = bits_of(node.tree().members());
  out.leader = node.tree().leader();
  out.due = NodeState::due(node) - now;
  return out;
}

}  // namespace

Nodes::Nodes() : states_(1) {}

std::size_t Nodes::Hash::operator()(const Key& key) const {
  return (key.node_and_message * 0x9e3779b97f4a7c15U) ^ (key.rest * 0xc2b2ae3d27d4eb4fU);
}

std::string Nodes::text(std::uint32_t node) const {
  return node == kOver ? "over\n" : NodeState::text(*states_[node].node, states_[node].now);
}

std::uint32_t Nodes::start(OverlayOptions options) {
  return intern(std::make_shared<const Node>(std::move(options)), kBegin);
}

std::uint32_t Nodes::intern(std::shared_ptr<const Node> node, Time now) {
  if (node->stage() == Stage::over) return kOver;
  auto [at, is_new] = by_text_.emplace(NodeState::text(*node, now), static_cast<std::uint32_t>(states_.size()));
  if (!is_new) {
    const State& known = states_[at->second];
    const bool is_another = known.node != node && random_.one_in(4);
    if (is_another && compared < most_compared) compare(*known.node, known.now, *node, now);
    return at->second;
  }
  Facts facts = facts_of(*node, now);
  states_.push_back({std::move(node), now, kOver, facts});
  return at->second;
}

std::uint32_t Nodes::aged(std::uint32_t node) {
  if (node == kOver || states_[node].aged != kOver) return states_[node].aged;
  const std::uint32_t next = intern(states_[node].node, states_[node].now + kTick);
  return states_[node].aged = next;
}

const Called& Nodes::call(std::uint32_t node, const Input& input) {
  const std::uint64_t which =
      static_cast<std::uint64_t>(input.cause) << 40U | std::uint64_t{input.link.peer} << 33U |
      static_cast<std::uint64_t>(input.link.side) << 32U | static_cast<std::uint32_t>(input.age);
  std::unique_ptr<Called>& known = calls_[{std::uint64_t{node} << 32U | input.message, which}];
  if (known) return *known;
  ++calls;
  const Time now = states_[node].now;
  std::shared_ptr<Node> next = NodeState::copy(*states_[node].node);
  auto called = std::make_unique<Called>(perform(*next, now, input));
  called->next = intern(std::move(next), now);
  return *(calls_[{std::uint64_t{node} << 32U | input.message, which}] = std::move(called));
}

// As the driver does: first the time, then the event, then the node's answers to it.
Called Nodes::perform(Node& node, Time now, const Input& input) {
  Called out;
  const Seq before = node.applied();
  node.tick(now);
  const bool led = node.leads();
  const std::uint64_t term = node.term();
  report(node, now, input);
  if (led && !node.leads()) out.deeds.push_back({Act::lead, {}, 0, kNoAge, term});
  take(node, now, before, out.deeds);
  return out;
}

void Nodes::report(Node& node, Time now, const Input& input) {
  switch (input.cause) {
    case Cause::time: return;
    case Cause::message: {
      Message message = messages_[input.message];
      auto* beat = std::get_if<Beat>(&message.body);
      if (beat != nullptr && input.age != kNoAge)
        beat->number = static_cast<std::uint64_t>(whole_ms(now) - input.age);
      return node.step(input.link, message);
    }
    case Cause::linked: return node.linked(input.link);
    case Cause::unlinked: return node.unlinked(input.link);
    case Cause::refused:
      node.unlinked(input.link);
      return input.link.peer == node.tree().leader() ? node.leader_refuses() : void();
    case Cause::ask: return static_cast<void>(node.request(Event{"note", ""}));
    case Cause::agree: return node.arbiter_agrees(members_of(input.message));
  }
}

void Nodes::take(Node& node, Time now, Seq before, std::vector<Done>& deeds) {
  for (Seq seq = before + 1; seq <= node.applied(); ++seq) {
    require(node.entry(seq) != nullptr, fmt::format("entry {} is dropped in the call that brings it", seq));
    deeds.push_back({Act::append, {}, keep(node.entry_message(seq)), kNoAge, seq});
  }
  if (node.leads()) deeds.push_back({Act::lead, {}, 0, kNoAge, node.term()});
  for (const Effect& each : node.take_effects()) {
    if (std::holds_alternative<Arm>(each) || std::holds_alternative<Silent>(each)) continue;
    deeds.push_back(deed(node, now, each));
  }
}

Done Nodes::deed(const Node& node, Time now, const Effect& effect) {
  if (const auto* each = std::get_if<Send>(&effect)) return sent(each->to, each->message, now);
  if (const auto* each = std::get_if<SendEntry>(&effect)) {
    require(node.entry(each->seq) != nullptr, fmt::format("it sends entry {}, which it has dropped", each->seq));
    return sent(each->to, node.entry_message(each->seq), now);
  }
  if (const auto* each = std::get_if<Dial>(&effect)) return {Act::dial, {each->peer, Side::up}};
  if (const auto* each = std::get_if<HangUp>(&effect)) return {Act::hang_up, each->link};
  if (const auto* each = std::get_if<HalfClose>(&effect)) return {Act::half_close, each->link};
  if (const auto* each = std::get_if<Deliver>(&effect)) return shown(node, each->seq);
  if (const auto* each = std::get_if<Completed>(&effect)) return {Act::completed, {}, 0, kNoAge, each->seq};
  if (const auto* each = std::get_if<Die>(&effect)) return {Act::die, {}, keep(each->why)};
  if (const auto* each = std::get_if<AskArbiter>(&effect))
    return {Act::ask_arbiter, {}, 0, kNoAge, bits_of(each->others)};
  if (std::holds_alternative<Finished>(effect)) return {Act::finish, {}};
  const auto* note = std::get_if<Note>(&effect);
  require(note != nullptr, "a node does what this exploration does not have");
  return {Act::note, {}, keep(note->text)};
}

// A beat's number is the leader's clock: it is kept separately, as an age.
Done Nodes::sent(LinkName to, Message message, Time now) {
  Done out{Act::send, to};
  if (auto* beat = std::get_if<Beat>(&message.body)) {
    if (beat->number != 0)
      out.age = static_cast<std::int32_t>(whole_ms(now) - static_cast<std::int64_t>(beat->number));
    beat->number = 0;
  }
  out.text = keep(message);
  return out;
}

Done Nodes::shown(const Node& node, Seq seq) {
  const Entry* entry = node.entry(seq);
  require(entry != nullptr, fmt::format("entry {} is shown and not there", seq));
  const bool is_own = node.leads() && node.log().term_of(seq) == node.term();
  const bool is_seen = std::holds_alternative<View>(entry->body) || std::holds_alternative<Event>(entry->body);
  return {is_own && is_seen ? Act::show_own : Act::show, {}, keep(node.entry_message(seq)), kNoAge, seq};
}

std::uint32_t Nodes::keep(const Message& message) {
  auto frame = encode(message);
  require(frame.has_value(), frame ? "" : frame.error().message);
  auto [at, is_new] = by_frame_.emplace(*std::move(frame), static_cast<std::uint32_t>(messages_.size()));
  if (is_new) messages_.push_back(message);
  return at->second;
}

std::uint32_t Nodes::keep(const std::string& line) {
  auto [at, is_new] = by_line_.emplace(line, static_cast<std::uint32_t>(lines_.size()));
  if (is_new) lines_.push_back(line);
  return at->second;
}

// ---- equal states go on alike --------------------------------------------------------------

Input Nodes::any_input(std::uint32_t members) {
  static constexpr Cause kCauses[] = {Cause::time,    Cause::message,  Cause::message, Cause::message,
                                      Cause::message, Cause::message,  Cause::linked,  Cause::unlinked,
                                      Cause::refused, Cause::unlinked, Cause::ask};
  Input out;
  out.cause = kCauses[random_.in(0, std::size(kCauses) - 1)];
  out.link = {static_cast<Id>(random_.in(0, members - 1)), random_.one_in(2) ? Side::up : Side::down};
  out.message = static_cast<std::uint32_t>(random_.in(0, messages_.size() - 1));
  const bool is_beat = std::holds_alternative<Beat>(messages_[out.message].body);
  if (is_beat && !random_.one_in(4)) out.age = static_cast<std::int32_t>(random_.in(0, 3) * 1000);
  return out;
}

// Random inputs to both lead to the same acts, and to the same states.
void Nodes::compare(const Node& a, Time now_a, const Node& b, Time now_b) {
  constexpr int kSteps = 24;
  ++compared;
  auto one = NodeState::copy(a);
  auto other = NodeState::copy(b);
  for (int step = 0; step < kSteps && one->stage() != Stage::over; ++step) {
    const Time passes =
        random_.one_in(2) ? Time(0) : kTick * static_cast<int>(random_.in(1, random_.one_in(4) ? 12 : 2));
    now_a += passes;
    now_b += passes;
    const Input input = any_input(a.options().members);
    std::string broken;
    Called called[2];
    for (Called& each : called) {
      const bool is_one = &each == &called[0];
      try {
        each = perform(is_one ? *one : *other, is_one ? now_a : now_b, input);
      } catch (const std::logic_error& failure) {  // an invariant of the product, which forged messages may break
        broken += failure.what();
      }
      std::erase_if(each.deeds, [](const Done& done) { return done.act == Act::note; });
    }
    if (!broken.empty()) return;
    const bool is_alike =
        called[0].deeds == called[1].deeds && NodeState::text(*one, now_a) == NodeState::text(*other, now_b);
    require(is_alike, fmt::format("two nodes in one state go on in two ways, so NodeState::text() lacks something. "
                                  "The state:\n{}",
                                  NodeState::text(a, now_a - passes)));
  }
}

}  // namespace nacre::sim
