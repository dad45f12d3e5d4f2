// SPDX-License-Identifier: Apache-2.0
#include "plugins/pmi/group_fences.hpp"

#include "base/text.hpp"

namespace nacre::plugins {
namespace {

constexpr std::string_view kGroupPart = "pmi.group";
constexpr std::size_t kMaxEarly = 1024;  // parts
constexpr std::string_view kTooMany = "too many keys";

}  // namespace

// ---- parts -------------------------------------------------------------------------------

PmiGroupParts::PmiGroupParts(plugin::Host& host)
    : host_(host), announcements_(host.on_announcement([this](std::string_view topic, std::string_view bytes) {
        if (topic == kGroupPart) receive(bytes);
      })) {}

void PmiGroupParts::receive(std::string_view bytes) {
  auto entries = pmi::decode_entries(bytes, UINT64_MAX);
  if (!entries || entries->empty()) return;
  auto [exchange, head] = std::move(entries->front());
  entries->erase(entries->begin());
  const auto blank = head.find(' ');
  auto shell = parse_u64(std::string_view(head).substr(0, blank));
  if (!shell || blank == std::string::npos) return;
  Part part{std::move(exchange), head.substr(blank + 1), static_cast<std::uint32_t>(*shell), *std::move(entries)};
  const bool is_error = part.keys->size() == 1 && part.keys->front().first.empty();
  if (is_error) part.keys = Result<pmi::Entries>(Error{EMSGSIZE, std::string(kTooMany)});
  auto receiver = receivers_.find(part.exchange);
  if (receiver != receivers_.end()) return receiver->second(part.shell, part.group, std::move(part.keys));
  if (early_.size() == kMaxEarly) early_.pop_front();
  early_.push_back(std::move(part));
}

void PmiGroupParts::listen(const std::string& exchange, Receive receive) {
  receivers_[exchange] = receive;
  auto others = std::stable_partition(early_.begin(), early_.end(),
                                      [&](const Part& each) { return each.exchange != exchange; });
  std::vector<Part> come(std::make_move_iterator(others), std::make_move_iterator(early_.end()));
  early_.erase(others, early_.end());
  for (Part& each : come) receive(each.shell, each.group, std::move(each.keys));
}

Result<void> PmiGroupParts::announce(const std::string& exchange, const std::string& group,
                                     const pmi::EntryRefs& keys) {
  // The keys follow this entry, in their own form.
  pmi::Entries head{{exchange, fmt::format("{} {}", host_.job().shell_rank, group)}};
  std::string bytes = pmi::encode_entries(head) + pmi::encode_refs(keys);
  if (bytes.size() > pmi::kMaxEntries) {
    head.emplace_back("", kTooMany);
    bytes = pmi::encode_entries(head);
  }
  return host_.announce(kGroupPart, bytes);
}

// ---- fences ------------------------------------------------------------------------------

PmiGroupFences::Group* PmiGroupFences::find(const pmi::BarrierGroup& group) {
  auto [place, is_new] = groups_.try_emplace(group.name());
  Group& out = place->second;
  if (is_new) {
    out.group = group;
    const value::Idset members = value::Idset::of(group.ranks);
    for (std::uint32_t shell = 0; shell <= last_; ++shell) {
      const value::Idset ranks = group.is_node() && shell != own_ ? value::Idset() : calls_.ranks_on(shell);
      if (!(group.ranks.empty() ? ranks : ranks & members).empty()) out.shells.insert(shell);
    }
  }
  if (out.shells.contains(own_)) return &out;
  groups_.erase(place);
  return nullptr;
}

void PmiGroupFences::fence(const pmi::BarrierGroup& group, const pmi::EntryRefs& mine,
                           pmi::KeyExchange::Done done) {
  Group* found = find(group);
  if (found == nullptr || found->shells.size() == 1) {
    groups_.erase(group.name());
    return done(pmi::Entries());
  }
  found->done = done;
  // The announcement may come back, and open the barrier, before this returns.
  Result<void> sent = calls_.announce(group.name(), mine);
  if (sent) return;
  groups_.erase(group.name());
  done(std::move(sent).error());
}

void PmiGroupFences::when_awaited(pmi::KeyExchange::Awaited awaited) {
  awaited_ = std::move(awaited);
  for (auto& [name, group] : groups_) group.told = false;
  settle_all();
}

void PmiGroupFences::part(std::uint32_t shell, const std::string& name, Result<pmi::Entries> keys) {
  auto group = pmi::BarrierGroup::parse(name, UINT32_MAX);
  Group* found = group && shell <= last_ ? find(*group) : nullptr;
  if (found == nullptr) return;
  found->parts[shell].push_back(std::move(keys));
  settle(name);
}

bool PmiGroupFences::is_full(const Group& group) const {
  if (!group.done) return false;
  const auto shells = group.shells.ids();
  const bool all_are_there = std::all_of(shells.begin(), shells.end(), [&](std::uint32_t shell) {
    auto parts = group.parts.find(shell);
    return (parts != group.parts.end() && !parts->second.empty()) || (shell != own_ && gone_.contains(shell));
  });
  return all_are_there && calls_.may_open(group.group);
}

void PmiGroupFences::settle(const std::string& name) {
  auto place = groups_.find(name);
  if (place == groups_.end()) return;
  Group& group = place->second;
  if (!is_full(group)) {
    if (group.done || std::exchange(group.told, true)) return;
    const pmi::BarrierGroup awaited = group.group;
    if (awaited_) awaited_(awaited);
    return;
  }
  Result<pmi::Entries> all = pmi::Entries();
  for (auto each = group.parts.begin(); each != group.parts.end();) {
    Result<pmi::Entries> keys = std::move(each->second.front());
    each->second.pop_front();
    if (!keys) {
      all = Result<pmi::Entries>(std::move(keys).error());
    } else if (all && each->first != own_) {
      all->insert(all->end(), std::make_move_iterator(keys->begin()), std::make_move_iterator(keys->end()));
    }
    each = each->second.empty() ? group.parts.erase(each) : std::next(each);
  }
  auto done = std::exchange(group.done, nullptr);
  group.told = false;
  const bool goes_on = !group.parts.empty();
  if (!goes_on) groups_.erase(place);
  done(std::move(all));
  if (goes_on) settle(name);
}

void PmiGroupFences::settle_all() {
  std::vector<std::string> names;
  for (const auto& [name, group] : groups_) names.push_back(name);
  for (const std::string& name : names) settle(name);
}

void PmiGroupFences::gone(std::uint32_t shell) {
  gone_.insert(shell);
  settle_all();
}

}  // namespace nacre::plugins
