// SPDX-License-Identifier: Apache-2.0
#include "groups.hpp"

namespace nacre::pmix {

std::uint64_t context_id(std::uint64_t number, std::uint32_t node) {
  const std::uint64_t sum = number + node;
  return sum * (sum + 1) / 2 + node + 1;
}

std::string Groups::name_of(Kind kind, const std::vector<Rank>& members, const std::string& group) {
  return static_cast<char>(kind) + text_of(members) + ':' + group;
}

// The wishes of a part are a letter each: it wants an id, or it is no error if members have ended.
PeerMessage Groups::message_of(const std::string& name, Part part) {
  std::string wishes = std::string(part.wants_id ? "i" : "") + (part.is_optional ? "o" : "");
  PeerMessage message{
      .kind = PeerMessage::Kind::group, .number = part.number, .status = part.is_whole ? 0 : 1, .texts = {}};
  message.texts = {name, std::move(part.bytes), std::move(wishes)};
  return message;
}

Groups::Part Groups::part_of(const PeerMessage& message) {
  const std::string& wishes = message.texts[2];
  return {.number = message.number,
          .is_whole = message.status == 0,
          .wants_id = wishes.find('i') != std::string::npos,
          .is_optional = wishes.find('o') != std::string::npos,
          .bytes = message.texts[1]};
}

Groups::Group* Groups::find(const std::string& name) {
  if (auto known = groups_.find(name); known != groups_.end()) return &known->second;
  const std::size_t colon = name.find(':');
  if (colon == std::string::npos) return nullptr;
  Group group;
  group.is_optional = name[0] == static_cast<char>(Kind::destruct);
  for (Rank rank : ranks_in(std::string_view(name).substr(1, colon - 1)).value_or(std::vector<Rank>())) {
    if (const ProcessMap::Place* place = processes_.find(rank)) group.members[place->node].push_back(rank);
  }
  if (group.members.count(here_) == 0) return nullptr;
  return &groups_.emplace(name, std::move(group)).first->second;
}

// ---- what all shells receive -----------------------------------------------------------------

void Groups::part(std::uint32_t node, const std::string& name, Part part) {
  Group* group = find(name);
  if (group == nullptr || group->members.count(node) == 0) return;
  if (!take_late(*group, node, part.number)) group->parts[node].push_back(std::move(part));
  settle(*group, name);
  answer_all();
}

// The node does not wait any longer. Nothing happens if the operation of its part was over before.
void Groups::give_up(std::uint32_t node, const std::string& name, std::uint64_t number) {
  auto known = groups_.find(name);
  if (known == groups_.end()) return;
  Group& group = known->second;
  std::deque<Part>& parts = group.parts[node];
  auto given =
      std::find_if(parts.begin(), parts.end(), [number](const Part& each) { return each.number == number; });
  if (given == parts.begin() && given != parts.end()) {
    finish(group, End::timed_out);
  } else if (given != parts.end()) {
    if (node == here_) answer(number, {.end = End::timed_out, .id = 0, .all = {}, .members = {}});
    parts.erase(given);
  }
  settle(group, name);
  answer_all();
}

void Groups::ended(Rank rank) {
  ended_.insert(rank);
  settle_all();
}

void Groups::over(std::uint32_t node) {
  over_.insert(node);
  settle_all();
}

void Groups::settle_all() {
  std::vector<std::string> names;
  for (const auto& [name, group] : groups_) names.push_back(name);
  for (const std::string& name : names) settle(groups_.at(name), name);
  answer_all();
}

// Whether the part is for an operation that has ended without it: it gets the others' result.
bool Groups::take_late(Group& group, std::uint32_t node, std::uint64_t number) {
  std::deque<End>& late = group.late[node];
  if (late.empty()) return false;
  if (node == here_) answer(number, {.end = late.front(), .id = 0, .all = {}, .members = {}});
  late.pop_front();
  return true;
}

// ---- results -----------------------------------------------------------------------------------

bool Groups::is_given(const Group& group, std::uint32_t node) {
  auto given = group.parts.find(node);
  return given != group.parts.end() && !given->second.empty();
}

bool Groups::has_living(const Group& group, std::uint32_t node) const {
  const std::vector<Rank>& members = group.members.at(node);
  return over_.count(node) == 0 &&
         std::any_of(members.begin(), members.end(), [this](Rank rank) { return ended_.count(rank) == 0; });
}

bool Groups::is_waited_for(const Group& group) {
  return std::any_of(group.parts.begin(), group.parts.end(), [](const auto& each) { return !each.second.empty(); });
}

// Whether members have ended without having come.
bool Groups::misses_some(const Group& group) const {
  return std::any_of(group.members.begin(), group.members.end(), [&](const auto& each) {
    const auto& [node, members] = each;
    if (is_given(group, node)) return !group.parts.at(node).front().is_whole;
    return over_.count(node) > 0 ||
           std::any_of(members.begin(), members.end(), [this](Rank rank) { return ended_.count(rank) > 0; });
  });
}

void Groups::settle(Group& group, const std::string& name) {
  while (is_waited_for(group)) {
    const bool misses = misses_some(group);
    const bool is_optional =
        group.is_optional || std::any_of(group.parts.begin(), group.parts.end(), [](const auto& each) {
          return !each.second.empty() && each.second.front().is_optional;
        });
    if (misses && !is_optional) {
      finish(group, End::lost);
      continue;
    }
    bool all_came = std::all_of(group.members.begin(), group.members.end(), [&](const auto& each) {
      return is_given(group, each.first) || !has_living(group, each.first);
    });
    if (!all_came) return;
    finish(group, misses ? End::partial : End::whole);
  }
  bool is_expected = std::any_of(group.late.begin(), group.late.end(), [&](const auto& each) {
    return !each.second.empty() && has_living(group, each.first);
  });
  if (!is_expected) groups_.erase(std::string(name));
}

// Ends the first operation that nodes have given parts for, and answers what waits for it here.
void Groups::finish(Group& group, End end) {
  const bool is_there = end == End::whole || end == End::partial;
  Outcome outcome;
  outcome.end = end;
  std::uint64_t mine = 0;
  bool wants_id = false, gives = false;
  for (const auto& [node, members] : group.members) {
    if (!is_given(group, node)) {
      if (!is_there && has_living(group, node)) group.late[node].push_back(end);
      continue;
    }
    Part part = std::move(group.parts[node].front());
    group.parts[node].pop_front();
    if (node == here_) mine = part.number, gives = true;
    if (!is_there) continue;
    wants_id = wants_id || part.wants_id;
    if (outcome.id == 0) outcome.id = context_id(part.number, node);
    outcome.all += part.bytes;
    for (Rank rank : members) {
      if (ended_.count(rank) == 0) outcome.members.push_back(rank);
    }
  }
  if (!wants_id) outcome.id = 0;
  std::sort(outcome.members.begin(), outcome.members.end());
  if (gives) answer(mine, std::move(outcome));
}

void Groups::answer(std::uint64_t number, Outcome outcome) {
  auto waiting = waiting_.extract(number);
  if (waiting) answers_.emplace_back(std::move(waiting.mapped()), std::move(outcome));
}

void Groups::answer_all() {
  for (const auto& [done, outcome] : std::exchange(answers_, {})) done(outcome);
}

// ---- what this node reports --------------------------------------------------------------------

// One of the waiting nodes reports to the others that a node is lost. If that one is lost, another does.
std::uint32_t Groups::reporter(const Group& group) const {
  for (const auto& [node, parts] : group.parts) {
    if (!parts.empty() && lost_.count(node) == 0 && over_.count(node) == 0) return node;
  }
  return UINT32_MAX;
}

Groups::Notices Groups::take_notices() {
  Notices notices;
  for (const auto& [name, group] : groups_) {
    if (!is_waited_for(group)) continue;
    if (!is_given(group, here_)) {
      for (Rank rank : group.members.at(here_)) {
        if (ended_here_.count(rank) > 0 && ended_.count(rank) == 0 && reported_ended_.insert(rank).second)
          notices.ended.push_back(rank);
      }
    }
    if (reporter(group) != here_) continue;
    for (const auto& [node, members] : group.members) {
      if (!is_given(group, node) && lost_.count(node) > 0 && over_.count(node) == 0 &&
          reported_lost_.insert(node).second)
        notices.lost.push_back(node);
    }
  }
  return notices;
}

// ---- group pieces -----------------------------------------------------------------------

std::string text_of(const GroupPiece& piece) {
  return static_cast<char>(piece.kind) + std::to_string(piece.content.size()) + ':' + piece.content;
}

std::vector<GroupPiece> pieces_in(std::string_view text) {
  std::vector<GroupPiece> out;
  while (!text.empty()) {
    const auto kind = static_cast<GroupPiece::Kind>(text.front());
    if (kind != GroupPiece::Kind::bytes && kind != GroupPiece::Kind::infos) break;
    std::size_t size = 0;
    const char* const end = text.data() + text.size();
    auto [after, error] = std::from_chars(text.data() + 1, end, size);
    if (error != std::errc() || after == end || *after != ':') break;
    text.remove_prefix(static_cast<std::size_t>(after + 1 - text.data()));
    if (size > text.size()) break;
    out.push_back({kind, std::string(text.substr(0, size))});
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace nacre::pmix
