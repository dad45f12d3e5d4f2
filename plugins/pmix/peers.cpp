// SPDX-License-Identifier: Apache-2.0
#include "peers.hpp"

#include <algorithm>
#include <utility>

#include "layout.hpp"

namespace nacre::pmix {
namespace {

std::vector<std::vector<Rank>> ranks_by_node(const JobFacts& facts) {
  std::vector<std::vector<Rank>> nodes;
  for (const JobFacts::Node& node : facts.nodes) nodes.emplace_back(node.ranks.begin(), node.ranks.end());
  return nodes;
}

}  // namespace

void ModexReply::operator()(pmix_status_t status, const std::string& bytes) const {
  if (function == nullptr) return;
  auto* kept = new std::string(bytes);
  auto release = [](void* text) { delete static_cast<std::string*>(text); };
  function(status, kept->empty() ? nullptr : kept->data(), kept->size(), data, release, kept);
}

void Peers::Request::answer(pmix_status_t status, const std::string& bytes) const {
  modex(status, bytes);
  reply(status);
}

Peers::Peers(PeerLink& link, ServerApi& server, const JobFacts& home, Duties duties)
    : link_(link),
      server_(server),
      home_(home),
      duties_(std::move(duties)),
      collectives_(ranks_by_node(home), home.this_node) {
  for (std::uint32_t node = 0; node < home.nodes.size(); ++node) {
    for (Rank rank : home.nodes[node].ranks) shell_of_[rank] = node;
  }
}

void Peers::give_up() {
  std::vector<std::uint64_t> unanswered;
  for (const auto& [number, request] : requests_) unanswered.push_back(number);
  for (std::uint64_t number : unanswered) {
    Request request = take(number);
    if (request.look_up != nullptr) request.look_up(PMIX_ERR_LOST_CONNECTION, nullptr, 0, request.data);
    request.answer(PMIX_ERR_LOST_CONNECTION);
  }
}

// What libpmix has of a process of a former start may be read only now.
bool Peers::is_of_this_start(const pmix_proc_t& proc) const {
  std::string_view name = proc.nspace;
  return name.starts_with(home_.nspace) &&
         (name.size() == home_.nspace.size() || name[home_.nspace.size()] == '-');  // as those of spawned processes
}

bool Peers::reaches_out(const std::vector<pmix_proc_t>& procs) const {
  return several() && std::any_of(procs.begin(), procs.end(), [this](const pmix_proc_t& proc) {
           auto shell = shell_of_.find(proc.rank);
           return proc.rank == PMIX_RANK_WILDCARD || (shell != shell_of_.end() && shell->second != home_.this_node);
         });
}

void Peers::send(PeerMessage message) {
  message.shell = home_.this_node;
  link_.send(std::move(message));
}

std::uint64_t Peers::expect(const Request& request, double timeout) {
  std::uint64_t number = ++last_request_;
  requests_[number] = request;
  if (timeout > 0) duties_.after(timeout, [this, number] { take(number).answer(PMIX_ERR_TIMEOUT); });
  return number;
}

Peers::Request Peers::take(std::uint64_t number) {
  auto found = requests_.find(number);
  if (found == requests_.end()) return {};
  Request request = found->second;
  requests_.erase(found);
  return request;
}

// ---- requests of clients -----------------------------------------------------------------

// If all participants are of one shell they have come by now: libpmix has checked that.
void Peers::come(char kind, const std::vector<pmix_proc_t>& procs, pmix_status_t local, std::string bytes,
                 double timeout, const Request& request) {
  if (!std::all_of(procs.begin(), procs.end(), [this](const auto& each) { return is_of_this_start(each); }))
    return request.answer(PMIX_ERR_LOST_CONNECTION);
  if (duties_.misses_client(local)) return static_cast<void>(expect(request, timeout));
  if (!several()) return request.answer(local, bytes);
  std::vector<Rank> ranks;
  bool all = false;
  for (const pmix_proc_t& proc : procs) {
    if (proc.nspace != home_.nspace || (proc.rank != PMIX_RANK_WILDCARD && shell_of_.count(proc.rank) == 0)) {
      shell_log_error("rank %u of %s cannot take part in what processes of several nodes do together", proc.rank,
                      proc.nspace);
      return request.answer(PMIX_ERR_NOT_SUPPORTED);
    }
    all = all || proc.rank == PMIX_RANK_WILDCARD;
    ranks.push_back(proc.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (all) ranks.clear();
  std::string name = Collectives::name_of(kind, ranks);
  std::uint64_t number = expect(request, timeout);
  collectives_.enter(name, [this, number](int status, const std::string& parts) {
    take(number).answer(static_cast<pmix_status_t>(status), parts);
  });
  PeerMessage message{.kind = PeerMessage::Kind::part, .status = local, .texts = {}};
  message.texts.push_back(std::move(name));
  message.texts.push_back(std::move(bytes));
  send(std::move(message));
}

void Peers::fence(const std::vector<pmix_proc_t>& procs, pmix_status_t local, std::string bytes, double timeout,
                  ModexReply reply) {
  Request request;
  request.modex = reply;
  come('f', procs, local, std::move(bytes), timeout, request);
}

void Peers::connect(char kind, const std::vector<pmix_proc_t>& procs, double timeout, OperationReply reply) {
  Request request;
  request.reply = reply;
  come(kind, procs, PMIX_SUCCESS, {}, timeout, request);
}

void Peers::direct_modex(const pmix_proc_t& proc, double timeout, ModexReply reply) {
  auto shell = shell_of_.find(proc.rank);
  bool there = shell != shell_of_.end() && proc.nspace == home_.nspace && shell->second != home_.this_node &&
               over_.count(shell->second) == 0;
  if (!there) return reply(PMIX_ERR_NOT_FOUND);
  Request request;
  request.modex = reply;
  request.asked = shell->second;
  std::uint64_t number = expect(request, timeout);
  send({.kind = PeerMessage::Kind::ask, .to = shell->second, .number = number, .rank = proc.rank, .texts = {}});
}

void Peers::publish(const pmix_proc_t& id, const InfoList& info, OperationReply reply) {
  if (!is_of_this_start(id)) return reply(PMIX_ERR_LOST_CONNECTION);
  in_store_.emplace(id.nspace, id.rank);
  Request request;
  request.reply = reply;
  send({.kind = PeerMessage::Kind::publish,
        .number = expect(request),
        .rank = id.rank,
        .texts = {id.nspace, info.packed()}});
}

void Peers::look_up(const pmix_proc_t& id, const std::vector<std::string>& keys, const InfoList& directives,
                    pmix_lookup_cbfunc_t function, void* data) {
  if (!is_of_this_start(id)) return function(PMIX_ERR_LOST_CONNECTION, nullptr, 0, data);
  in_store_.emplace(id.nspace, id.rank);
  Request request;
  request.look_up = function;
  request.data = data;
  std::uint64_t number = expect(request);
  PeerMessage message{.kind = PeerMessage::Kind::look_up,
                      .number = number,
                      .rank = id.rank,
                      .texts = {id.nspace, directives.packed()}};
  message.texts.insert(message.texts.end(), keys.begin(), keys.end());
  send(std::move(message));
  if (double timeout = timeout_in(directives); timeout > 0)
    duties_.after(timeout, [this, number] {
      if (requests_.count(number) > 0) send({.kind = PeerMessage::Kind::give_up, .number = number, .texts = {}});
    });
}

void Peers::unpublish(const pmix_proc_t& id, const std::vector<std::string>& keys, const InfoList& directives,
                      OperationReply reply) {
  if (!is_of_this_start(id)) return reply(PMIX_ERR_LOST_CONNECTION);
  Request request;
  request.reply = reply;
  PeerMessage message{.kind = PeerMessage::Kind::unpublish,
                      .number = expect(request),
                      .rank = id.rank,
                      .texts = {id.nspace, directives.packed()}};
  message.texts.insert(message.texts.end(), keys.begin(), keys.end());
  send(std::move(message));
}

void Peers::notify(pmix_status_t code, const pmix_proc_t& source, pmix_data_range_t range, const InfoList& info) {
  if (!several() || !is_of_this_start(source) || range == PMIX_RANGE_LOCAL || range == PMIX_RANGE_PROC_LOCAL ||
      range == PMIX_RANGE_RM)
    return;
  send({.kind = PeerMessage::Kind::event,
        .number = range,
        .rank = source.rank,
        .status = code,
        .texts = {source.nspace, info.packed()}});
}

void Peers::signal(const std::vector<Rank>& ranks, int signum) {
  send(
      {.kind = PeerMessage::Kind::signal, .number = static_cast<std::uint64_t>(signum), .texts = {text_of(ranks)}});
}

void Peers::found(std::uintptr_t question, pmix_status_t status, std::string bytes) {
  auto asked = questions_.find(question);
  if (asked == questions_.end()) return;
  PeerMessage message{.kind = PeerMessage::Kind::answer,
                      .to = asked->second.shell,
                      .number = asked->second.number,
                      .status = status,
                      .texts = {}};
  questions_.erase(asked);
  message.texts.push_back(std::move(bytes));
  send(std::move(message));
}

// ---- ends --------------------------------------------------------------------------------

// What it has not committed by now will never come.
void Peers::ended(const pmix_proc_t& id, bool others_care) {
  std::vector<std::uintptr_t> about_it;
  for (const auto& [number, question] : questions_) {
    if (id.nspace == home_.nspace && question.rank == id.rank) about_it.push_back(number);
  }
  for (std::uintptr_t number : about_it) found(number, PMIX_ERR_NOT_FOUND, {});
  if (id.nspace == home_.nspace) ended_.insert(id.rank);
  bool was_in_store = in_store_.erase({id.nspace, id.rank}) > 0;
  if (!was_in_store && !(others_care && several())) return;
  send({.kind = PeerMessage::Kind::ended, .rank = id.rank, .texts = {id.nspace}});
}

void Peers::namespace_ended(const std::string& nspace) {
  send({.kind = PeerMessage::Kind::ended, .rank = PMIX_RANK_WILDCARD, .texts = {nspace}});
}

void Peers::over() {
  if (several()) send({.kind = PeerMessage::Kind::over, .texts = {}});
}

void Peers::lost(std::uint32_t shell) {
  if (!over_.insert(shell).second) return;
  for (const auto& [rank, each] : shell_of_) {
    if (each == shell) ended_.insert(rank);
  }
  std::vector<std::uint64_t> unanswered;
  for (const auto& [number, request] : requests_) {
    if (request.asked == shell) unanswered.push_back(number);
  }
  for (std::uint64_t number : unanswered) take(number).answer(PMIX_ERR_NOT_FOUND);
  collectives_.over(shell);
}

}  // namespace nacre::pmix
