// SPDX-License-Identifier: Apache-2.0
//
// Process groups, and what clients ask about the processes of all shells.
#include <algorithm>
#include <utility>

#include "peers.hpp"

namespace nacre::pmix {
namespace {

// A time-out of libpmix's own for a group may end the shell, where timers.cpp does not prevent it: members are
// answered before that. All shells are notified first, for their members, too.
constexpr double kGroupHaste = 0.5;     // second
constexpr double kGroupPatience = 0.2;  // second, for the way to all shells and back

double due_at(double timeout) { return std::max(timeout - kGroupHaste, timeout / 4); }

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

// ---- groups --------------------------------------------------------------------------------

void Peers::group(const GroupCall& call, InfoReply reply) {
  Request request;
  request.info = reply;
  pmix_status_t local = call.part.is_whole ? PMIX_SUCCESS : PMIX_ERR_PARTIAL_SUCCESS;
  if (is_held(call.members, local, due_at(call.timeout), request)) return;
  std::optional<std::vector<Rank>> members = may_come(call.members, request, [=, this] { group(call, reply); });
  if (!members) return;
  if (members->empty()) members = processes_.numbers_of(home_.nspace);
  enter_group(call, *members, request);
}

void Peers::enter_group(const GroupCall& call, const std::vector<Rank>& members, const Request& request) {
  bool reaches_out = std::any_of(members.begin(), members.end(),
                                 [this](Rank number) { return processes_.find(number)->node != shells_.own; });
  if (!reaches_out) {
    bool is_lost = !call.part.is_whole && !call.part.is_optional && call.kind == Groups::Kind::construct;
    Groups::Outcome outcome{.end = is_lost              ? Groups::End::lost
                                   : call.part.is_whole ? Groups::End::whole
                                                        : Groups::End::partial,
                            .id = call.part.wants_id ? context_id(call.part.number, shells_.own) : 0,
                            .all = call.part.bytes,
                            .members = members};
    std::erase_if(outcome.members, [this](Rank number) { return has_ended(number); });
    return answer_group(call, request, outcome);
  }
  const std::string name = Groups::name_of(call.kind, members, call.name);
  std::uint64_t number = expect(request);
  groups_.enter(call.part.number, [this, number, call](const Groups::Outcome& outcome) {
    if (auto waits = requests_.extract(number)) answer_group(call, waits.mapped(), outcome);
  });
  send(Groups::message_of(name, call.part));
  if (call.timeout <= 0) return;
  duties_.after(due_at(call.timeout), [this, number, name, part = call.part.number] {
    if (requests_.count(number) == 0) return;
    send({.kind = PeerMessage::Kind::leave, .number = part, .texts = {name}});
    duties_.after(kGroupPatience, [this, number, part] {
      groups_.leave(part);
      take(number).answer(PMIX_ERR_TIMEOUT);
    });
  });
}

void Peers::answer_group(const GroupCall& call, const Request& request, const Groups::Outcome& outcome) {
  const pmix_status_t status = status_of(call.kind, outcome.end);
  InfoList results;
  if (call.kind == Groups::Kind::destruct) {
    watched_.erase(call.name);
  } else if (status == PMIX_SUCCESS) {
    auto id = static_cast<std::size_t>(outcome.id);
    if (id != 0) results.add(PMIX_GROUP_CONTEXT_ID, &id, PMIX_SIZE);
    if (!outcome.all.empty()) results.bytes(PMIX_GROUP_ENDPT_DATA, outcome.all);
    results.procs(PMIX_GROUP_MEMBERSHIP, procs_of(processes_, outcome.members));
    if (call.notifies) watched_[call.name] = outcome.members;
  }
  answer(request.info, status, std::move(results));
}

void Peers::receive_group(const PeerMessage& message) {
  switch (message.kind) {
    case PeerMessage::Kind::group: groups_.part(message.shell, message.texts[0], Groups::part_of(message)); break;
    case PeerMessage::Kind::leave: groups_.give_up(message.shell, message.texts[0], message.number); break;
    case PeerMessage::Kind::gone: groups_.over(message.to); break;
    default: groups_.over(message.shell); return lost(message.shell);
  }
  look_at_groups();
}

// Others wait for processes of this shell that have ended, or for a shell that is lost.
void Peers::look_at_groups() {
  Groups::Notices notices = groups_.take_notices();
  for (Rank number : notices.ended) {
    const ProcessMap::Place& place = *processes_.find(number);
    send({.kind = PeerMessage::Kind::ended, .rank = place.rank, .texts = {*place.nspace}});
  }
  for (std::uint32_t shell : notices.lost) send({.kind = PeerMessage::Kind::gone, .to = shell, .texts = {}});
}

// Each shell notifies its own processes.
void Peers::member_ended(Rank rank) {
  const ProcessMap::Place* place = processes_.find(rank);
  for (auto& [name, members] : watched_) {
    auto member = std::lower_bound(members.begin(), members.end(), rank);
    if (member == members.end() || *member != rank) continue;
    members.erase(member);
    pmix_proc_t id = proc_of(*place->nspace, place->rank);
    InfoList about;
    about.procs(PMIX_EVENT_CUSTOM_RANGE, procs_of(processes_, members)).proc(PMIX_EVENT_AFFECTED_PROC, id);
    about.string(PMIX_GROUP_ID, name).flag(PMIX_EVENT_NON_DEFAULT, true);
    server_.notify(PMIX_GROUP_MEMBER_FAILED, id, PMIX_RANGE_CUSTOM, std::move(about));
  }
}

// ---- the processes of all shells -----------------------------------------------------------

void Peers::list(const std::string& nspace, double seconds, ProcessTables::Done done) {
  if (postponed(nspace, [=, this](bool) { list(nspace, seconds, done); })) return;
  std::set<std::uint32_t> shells = processes_.nodes_of(nspace);
  std::erase_if(shells, [this](std::uint32_t shell) { return over_.count(shell) > 0; });
  const bool reaches_out =
      std::any_of(shells.begin(), shells.end(), [this](auto each) { return each != shells_.own; });
  const std::uint64_t number = tables_.ask(std::move(shells), std::move(done));
  if (reaches_out) {
    send({.kind = PeerMessage::Kind::list, .number = number, .texts = {nspace}});
    duties_.after(seconds, [this, number] { tables_.give_up(number); });
    return;
  }
  std::vector<std::string> rows;
  for (const ProcessRow& row : duties_.rows(nspace)) rows.push_back(text_of(row));
  tables_.answered(shells_.own, number, rows);
  tables_.give_up(number);
}

void Peers::receive_list(const PeerMessage& message) {
  if (message.kind == PeerMessage::Kind::rows) {
    if (message.to == shells_.own) tables_.answered(message.shell, message.number, message.texts);
    return;
  }
  const std::string& nspace = message.texts[0];
  if (processes_.nodes_of(nspace).count(shells_.own) == 0) return;
  PeerMessage rows{.kind = PeerMessage::Kind::rows, .to = message.shell, .number = message.number, .texts = {}};
  for (const ProcessRow& row : duties_.rows(nspace)) rows.texts.push_back(text_of(row));
  if (message.shell == shells_.own) return tables_.answered(shells_.own, message.number, rows.texts);
  send(std::move(rows));
}

}  // namespace nacre::pmix
