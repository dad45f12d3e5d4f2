// SPDX-License-Identifier: Apache-2.0
#include "peer_groups.hpp"

#include <algorithm>
#include <utility>

#include "group_data.hpp"
#include "layout.hpp"

namespace nacre::pmix {
namespace {

// A time-out of libpmix's own for a group may end the shell, where timers.cpp does not prevent it: members are
// answered before that. All shells are notified first, for their members, too.
constexpr double kGroupHaste = 0.5;     // second
constexpr double kGroupPatience = 0.2;  // second, for the way to all shells and back

pmix_status_t status_of(Groups::Kind kind, Groups::End end) {
  switch (end) {
    case Groups::End::whole: return PMIX_SUCCESS;
    case Groups::End::partial: return kind == Groups::Kind::construct ? PMIX_SUCCESS : PMIX_ERR_PARTIAL_SUCCESS;
    case Groups::End::lost: return PMIX_GROUP_CONSTRUCT_ABORT;
    case Groups::End::timed_out: break;
  }
  return PMIX_ERR_TIMEOUT;
}

std::vector<pmix_proc_t> procs_of(const ProcessMap& processes, const std::vector<Rank>& numbers) {
  std::vector<pmix_proc_t> out;
  for (Rank number : numbers) {
    const ProcessMap::Place& place = *processes.find(number);
    out.push_back(proc_of(*place.nspace, place.rank));
  }
  return out;
}

}  // namespace

double PeerGroups::due_at(double timeout) { return std::max(timeout - kGroupHaste, timeout / 4); }

// ---- requests of clients -----------------------------------------------------------------

bool PeerGroups::reaches_out(const std::vector<Rank>& members) const {
  return std::any_of(members.begin(), members.end(),
                     [this](Rank number) { return processes_.find(number)->node != own_; });
}

// All members are of this shell.
Groups::Outcome PeerGroups::outcome_here(const GroupCall& call, const std::vector<Rank>& members) const {
  bool is_lost = !call.part.is_whole && !call.part.is_optional && call.kind == Groups::Kind::construct;
  Groups::Outcome outcome{.end = is_lost              ? Groups::End::lost
                                 : call.part.is_whole ? Groups::End::whole
                                                      : Groups::End::partial,
                          .id = call.part.wants_id ? context_id(call.part.number, own_) : 0,
                          .all = call.part.bytes,
                          .members = members};
  std::erase_if(outcome.members, calls_.has_ended);
  return outcome;
}

void PeerGroups::enter(const GroupCall& call, const std::vector<Rank>& members, InfoReply reply) {
  if (!reaches_out(members)) return answer({call, reply}, outcome_here(call, members));
  const std::string name = Groups::name_of(call.kind, members, call.name);
  const std::uint64_t number = ++last_;
  waiting_[number] = {call, reply};
  groups_.enter(call.part.number, [this, number](const Groups::Outcome& outcome) {
    if (auto waiting = waiting_.extract(number)) answer(waiting.mapped(), outcome);
  });
  calls_.send(Groups::message_of(name, call.part));
  if (call.timeout <= 0) return;
  calls_.after(due_at(call.timeout),
               [this, number, name, part = call.part.number] { give_up_late(number, name, part); });
}

void PeerGroups::give_up_late(std::uint64_t number, const std::string& name, std::uint64_t part) {
  if (!waiting_.contains(number)) return;
  calls_.send({.kind = PeerMessage::Kind::leave, .number = part, .texts = {name}});
  calls_.after(kGroupPatience, [this, number, part] {
    groups_.leave(part);
    if (auto waiting = waiting_.extract(number)) pmix::answer(waiting.mapped().reply, PMIX_ERR_TIMEOUT, {});
  });
}

void PeerGroups::answer(const Waiting& waiting, const Groups::Outcome& outcome) {
  const GroupCall& call = waiting.call;
  const pmix_status_t status = status_of(call.kind, outcome.end);
  InfoList results;
  if (call.kind == Groups::Kind::destruct) {
    watched_.erase(call.name);
  } else if (status == PMIX_SUCCESS) {
    const GroupData data = group_data_in(outcome.all);
    auto id = static_cast<std::size_t>(outcome.id);
    if (id != 0) results.add(PMIX_GROUP_CONTEXT_ID, &id, PMIX_SIZE);
    if (!data.bytes.empty()) results.bytes(PMIX_GROUP_ENDPT_DATA, data.bytes);
    results.procs(PMIX_GROUP_MEMBERSHIP, procs_of(processes_, outcome.members));
    if (call.notifies) watched_[call.name] = outcome.members;
    if (InfoList resources = resources_of(data.infos, outcome.id); !resources.empty())
      return server_.add_resources(std::move(resources), waiting.reply, std::move(results));
  }
  pmix::answer(waiting.reply, status, std::move(results));
}

void PeerGroups::give_up() {
  for (const auto& [number, waiting] : std::exchange(waiting_, {}))
    pmix::answer(waiting.reply, PMIX_ERR_LOST_CONNECTION, {});
}

// ---- what all shells receive ---------------------------------------------------------------

void PeerGroups::receive(const PeerMessage& message) {
  switch (message.kind) {
    case PeerMessage::Kind::group: groups_.part(message.shell, message.texts[0], Groups::part_of(message)); break;
    case PeerMessage::Kind::leave: groups_.give_up(message.shell, message.texts[0], message.number); break;
    default: groups_.over(message.to);
  }
  report();
}

void PeerGroups::ended(Rank number) {
  notify_watchers(number);
  groups_.ended(number);
  report();
}

void PeerGroups::over(std::uint32_t shell) { groups_.over(shell); }

void PeerGroups::lost(std::uint32_t shell) {
  for (Rank number : processes_.numbers_on(shell)) notify_watchers(number);
  groups_.lost(shell);
  report();
}

// Others wait for processes of this shell that have ended, or for a shell that is lost.
void PeerGroups::report() {
  Groups::Notices notices = groups_.take_notices();
  for (Rank number : notices.ended) {
    const ProcessMap::Place& place = *processes_.find(number);
    calls_.send({.kind = PeerMessage::Kind::ended, .rank = place.rank, .texts = {*place.nspace}});
  }
  for (std::uint32_t shell : notices.lost) calls_.send({.kind = PeerMessage::Kind::gone, .to = shell, .texts = {}});
}

bool PeerGroups::is_watched(Rank number) const {
  return std::any_of(watched_.begin(), watched_.end(), [&](const auto& each) {
    return std::binary_search(each.second.begin(), each.second.end(), number);
  });
}

// Each shell notifies its own processes.
void PeerGroups::notify_watchers(Rank number) {
  const ProcessMap::Place* place = processes_.find(number);
  for (auto& [name, members] : watched_) {
    auto member = std::lower_bound(members.begin(), members.end(), number);
    if (member == members.end() || *member != number) continue;
    members.erase(member);
    pmix_proc_t id = proc_of(*place->nspace, place->rank);
    InfoList about;
    about.procs(PMIX_EVENT_CUSTOM_RANGE, procs_of(processes_, members)).proc(PMIX_EVENT_AFFECTED_PROC, id);
    about.string(PMIX_GROUP_ID, name).flag(PMIX_EVENT_NON_DEFAULT, true);
    server_.notify(PMIX_GROUP_MEMBER_FAILED, id, PMIX_RANGE_CUSTOM, std::move(about));
  }
}

}  // namespace nacre::pmix
