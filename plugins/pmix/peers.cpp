// SPDX-License-Identifier: Apache-2.0
#include "peers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "layout.hpp"

namespace nacre::pmix {
namespace {

// If no timeout is given, as libpmix waits for a key of a process of the same node. Programs also ask for keys that
// nobody commits.
constexpr double kKeyTime = 2;       // seconds
constexpr double kLookAgain = 0.02;  // seconds
constexpr double kLongest = 1e9;     // seconds

std::vector<std::vector<Rank>> ranks_by_node(const JobFacts& facts, std::uint32_t shells) {
  std::vector<std::vector<Rank>> nodes(shells);
  for (const JobFacts::Node& node : facts.nodes) nodes.at(node.shell) = {node.ranks.begin(), node.ranks.end()};
  return nodes;
}

ProcessMap::RanksByNode ranks_by_shell(const JobFacts& facts) {
  ProcessMap::RanksByNode shells;
  for (const JobFacts::Node& node : facts.nodes) shells[node.shell] = {node.ranks.begin(), node.ranks.end()};
  return shells;
}

}  // namespace

void Peers::Request::answer(pmix_status_t status, const std::string& bytes) const {
  modex(status, bytes);
  reply(status);
  if (info.function != nullptr) nacre::pmix::answer(info, status, {});
}

Peers::Peers(PeerLink& link, ServerApi& server, const JobFacts& home, Shells shells, Duties duties)
    : link_(link),
      server_(server),
      home_(home),
      shells_(shells),
      duties_(std::move(duties)),
      collectives_(ranks_by_node(home, shells.count), shells.own),
      groups_(processes_, server, shells.own,
              {[this](PeerMessage message) { send(std::move(message)); }, duties_.after,
               [this](Rank number) { return has_ended(number); }}),
      tables_(processes_, shells.own,
              {[this](PeerMessage message) { send(std::move(message)); }, duties_.after, duties_.rows}) {
  processes_.add(home.nspace, 0, ranks_by_shell(home));
}

void Peers::give_up() {
  while (!unsettled_.empty()) settled(std::string(unsettled_.begin()->first), false);
  std::vector<std::uint64_t> unanswered;
  for (const auto& [number, request] : requests_) unanswered.push_back(number);
  for (std::uint64_t number : unanswered) {
    Request request = take(number);
    if (request.look_up != nullptr) request.look_up(PMIX_ERR_LOST_CONNECTION, nullptr, 0, request.data);
    request.answer(PMIX_ERR_LOST_CONNECTION);
  }
  groups_.give_up();
  tables_.give_up();
}

// What libpmix has of a process of a former start may be read only now.
bool Peers::is_of_this_start(const pmix_proc_t& proc) const {
  std::string_view name = proc.nspace;
  return name.starts_with(home_.nspace) &&
         (name.size() == home_.nspace.size() || name[home_.nspace.size()] == '-');  // as those of spawned processes
}

void Peers::send(PeerMessage message) {
  message.shell = shells_.own;
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

// None: one is not known. Empty: all tasks of the job.
std::optional<std::vector<Rank>> Peers::numbers_of(const std::vector<pmix_proc_t>& procs) const {
  std::vector<Rank> out;
  bool is_home = procs.size() == 1 && procs[0].rank == PMIX_RANK_WILDCARD && procs[0].nspace == home_.nspace;
  if (is_home) return out;
  for (const pmix_proc_t& proc : procs) {
    if (proc.rank == PMIX_RANK_WILDCARD) {
      std::vector<Rank> all = processes_.numbers_of(proc.nspace);
      if (all.empty()) return std::nullopt;
      out.insert(out.end(), all.begin(), all.end());
    } else if (auto number = processes_.number_of(proc.nspace, proc.rank)) {
      out.push_back(*number);
    } else {
      return std::nullopt;
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

bool Peers::postponed(const std::string& nspace, std::function<void(bool is_there)> work) {
  auto unsettled = unsettled_.find(nspace);
  if (unsettled == unsettled_.end()) return false;
  unsettled->second.push_back(std::move(work));
  return true;
}

// Whether nothing more can be done, as processes have gone: the request is answered with an error, or waits for its
// time-out.
bool Peers::is_held(const std::vector<pmix_proc_t>& procs, pmix_status_t local, double timeout,
                    const Request& request) {
  if (!std::all_of(procs.begin(), procs.end(), [this](const auto& each) { return is_of_this_start(each); })) {
    request.answer(PMIX_ERR_LOST_CONNECTION);
    return true;
  }
  if (!duties_.misses_client(local)) return false;
  expect(request, timeout);
  return true;
}

// The numbers of those that take part; none if the request has been answered, or waits until a namespace is
// settled: then `again` is called.
std::optional<std::vector<Rank>> Peers::may_come(const std::vector<pmix_proc_t>& procs, const Request& request,
                                                 std::function<void()> again) {
  auto unsettled = std::find_if(procs.begin(), procs.end(),
                                [this](const pmix_proc_t& proc) { return unsettled_.count(proc.nspace) > 0; });
  if (unsettled != procs.end()) {
    postponed(unsettled->nspace, [request, again = std::move(again)](bool is_there) {
      if (!is_there) return request.answer(PMIX_ERR_JOB_CANCELED);
      again();
    });
    return std::nullopt;
  }
  std::optional<std::vector<Rank>> numbers = numbers_of(procs);
  if (numbers) return numbers;
  shell_log_error(
      "processes that this job does not know cannot take part in what processes of several nodes do "
      "together");
  request.answer(PMIX_ERR_NOT_SUPPORTED);
  return std::nullopt;
}

// If all participants are of one shell they have come by now: libpmix has checked that.
void Peers::come(char kind, const std::vector<pmix_proc_t>& procs, pmix_status_t local, std::string bytes,
                 double timeout, const Request& request) {
  if (is_held(procs, local, timeout, request)) return;
  if (!several()) return request.answer(local, bytes);
  auto again = [=, this] { come(kind, procs, local, bytes, timeout, request); };
  std::optional<std::vector<Rank>> numbers = may_come(procs, request, again);
  if (!numbers) return;
  std::string name = Collectives::name_of(kind, *numbers);
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

void Peers::group(const GroupCall& call, InfoReply reply) {
  Request request;
  request.info = reply;
  pmix_status_t local = call.part.is_whole ? PMIX_SUCCESS : PMIX_ERR_PARTIAL_SUCCESS;
  if (is_held(call.members, local, PeerGroups::due_at(call.timeout), request)) return;
  std::optional<std::vector<Rank>> members = may_come(call.members, request, [=, this] { group(call, reply); });
  if (!members) return;
  if (members->empty()) members = processes_.numbers_of(home_.nspace);
  groups_.enter(call, *members, reply);
}

void Peers::list(const std::string& nspace, double seconds, ProcessTables::Done done) {
  if (postponed(nspace, [=, this](bool) { list(nspace, seconds, done); })) return;
  std::set<std::uint32_t> shells = processes_.nodes_of(nspace);
  std::erase_if(shells, [this](std::uint32_t shell) { return over_.count(shell) > 0; });
  tables_.list(nspace, std::move(shells), seconds, std::move(done));
}

void Peers::direct_modex(const pmix_proc_t& proc, const std::string& key, double timeout, ModexReply reply) {
  auto later = [=, this](bool is_there) {
    if (!is_there) return reply(PMIX_ERR_NOT_FOUND);
    direct_modex(proc, key, timeout, reply);
  };
  if (postponed(proc.nspace, later)) return;
  auto process = processes_.number_of(proc.nspace, proc.rank);
  const std::uint32_t shell = process ? processes_.find(*process)->node : shells_.own;
  if (shell == shells_.own || over_.count(shell) > 0) return reply(PMIX_ERR_NOT_FOUND);
  Request request;
  request.modex = reply;
  request.asked = shell;
  std::uint64_t number = expect(request, timeout);
  send({.kind = PeerMessage::Kind::ask,
        .to = shell,
        .number = number,
        .rank = *process,
        .status = static_cast<std::int32_t>(std::min(std::ceil(timeout), kLongest)),
        .texts = {key}});
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

void Peers::signal(const std::vector<Rank>& numbers, int signum) {
  send({.kind = PeerMessage::Kind::signal,
        .number = static_cast<std::uint64_t>(signum),
        .texts = {text_of(numbers)}});
}

// libpmix has no callback for commits, and answers with what a process has committed so far.
void Peers::look_up(std::uintptr_t question) {
  auto asked = questions_.find(question);
  if (asked == questions_.end() || asked->second.takes_all) return;
  const ProcessMap::Place& place = *processes_.find(asked->second.process);
  server_.look_up_key(proc_of(*place.nspace, place.rank), asked->second.key, question);
}

void Peers::key_looked_up(std::uintptr_t question, bool is_there) {
  auto asked = questions_.find(question);
  if (asked == questions_.end() || asked->second.takes_all) return;
  if (is_there) return find_all(question);
  if (asked->second.has_committed) return duties_.after(kLookAgain, [this, question] { look_up(question); });
  const ProcessMap::Place& place = *processes_.find(asked->second.process);
  server_.find_modex(proc_of(*place.nspace, place.rank), question);
}

void Peers::find_all(std::uintptr_t question) {
  auto asked = questions_.find(question);
  if (asked == questions_.end() || std::exchange(asked->second.takes_all, true)) return;
  const ProcessMap::Place& place = *processes_.find(asked->second.process);
  server_.find_modex(proc_of(*place.nspace, place.rank), question);
}

void Peers::give_up_after(double seconds, std::uintptr_t question, pmix_status_t status) {
  duties_.after(seconds, [this, question, status] { found(question, status, {}); });
}

void Peers::found(std::uintptr_t question, pmix_status_t status, std::string bytes) {
  auto asked = questions_.find(question);
  if (asked == questions_.end()) return;
  if (status == PMIX_SUCCESS && !asked->second.takes_all) {
    asked->second.has_committed = true;
    if (!asked->second.has_timeout) duties_.after(kKeyTime, [this, question] { find_all(question); });
    return look_up(question);
  }
  PeerMessage message{.kind = PeerMessage::Kind::answer,
                      .to = asked->second.shell,
                      .number = asked->second.number,
                      .status = status,
                      .texts = {}};
  questions_.erase(asked);
  message.texts.push_back(std::move(bytes));
  send(std::move(message));
}

// ---- namespaces that are spawned ---------------------------------------------------------

void Peers::add(const JobFacts& facts) {
  processes_.add(facts.nspace, facts.global_offset, ranks_by_shell(facts));
  for (const JobFacts::Node& node : facts.nodes) {
    std::vector<Rank> numbers;
    for (Rank rank : node.ranks) numbers.push_back(facts.global_offset + rank);
    collectives_.add(node.shell, numbers);
    if (over_.count(node.shell) > 0) ended_.insert(numbers.begin(), numbers.end());
  }
  left_[facts.nspace] = processes_.nodes_of(facts.nspace);
  if (several()) unsettled_[facts.nspace];
}

void Peers::settled(const std::string& nspace, bool is_there) {
  auto unsettled = unsettled_.extract(nspace);
  if (!is_there) {
    for (Rank number : processes_.numbers_of(nspace)) ended_.insert(number);
    left_.erase(nspace);
  }
  if (!unsettled) return;
  for (const auto& work : unsettled.mapped()) work(is_there);
}

// ---- ends --------------------------------------------------------------------------------

// What it has not committed by now will never come: those that wait for a key get what there is.
void Peers::ended(const pmix_proc_t& id, bool others_care) {
  if (postponed(id.nspace, [=, this](bool is_there) {
        if (is_there) ended(id, others_care);
      }))
    return;
  std::optional<Rank> process = processes_.number_of(id.nspace, id.rank);
  std::vector<std::uintptr_t> about_it;
  for (const auto& [number, question] : questions_) {
    if (question.process == process) about_it.push_back(number);
  }
  for (std::uintptr_t number : about_it) {
    if (!questions_.at(number).has_committed) {
      found(number, PMIX_ERR_NOT_FOUND, {});
      continue;
    }
    find_all(number);
    give_up_after(kAnswerTime, number, PMIX_ERR_NOT_FOUND);
  }
  if (process) ended_.insert(*process);
  bool was_in_store = in_store_.erase({id.nspace, id.rank}) > 0;
  if (process) groups_.ended_here(*process);
  bool is_watched = process && groups_.is_watched(*process);
  if (!was_in_store && !is_watched && !(others_care && several())) return groups_.report();
  send({.kind = PeerMessage::Kind::ended, .rank = id.rank, .texts = {id.nspace}});
}

void Peers::namespace_ended(const std::string& nspace) {
  if (postponed(nspace, [=, this](bool is_there) {
        if (is_there) namespace_ended(nspace);
      }))
    return;
  send({.kind = PeerMessage::Kind::ended, .rank = PMIX_RANK_WILDCARD, .texts = {nspace}});
}

void Peers::over() {
  if (several()) send({.kind = PeerMessage::Kind::over, .texts = {}});
}

void Peers::lost(std::uint32_t shell) {
  if (!over_.insert(shell).second) return;
  for (Rank number : processes_.numbers_on(shell)) ended_.insert(number);
  std::vector<std::uint64_t> unanswered;
  for (const auto& [number, request] : requests_) {
    if (request.asked == shell) unanswered.push_back(number);
  }
  for (std::uint64_t number : unanswered) take(number).answer(PMIX_ERR_NOT_FOUND);
  collectives_.over(shell);
  groups_.lost(shell);
  tables_.lost(shell);
  std::vector<std::string> spawned;
  for (const auto& [nspace, shells] : left_) spawned.push_back(nspace);
  for (const std::string& nspace : spawned) left_by(shell, nspace);
}

// No process of the namespace runs on the shell any more.
void Peers::left_by(std::uint32_t shell, const std::string& nspace) {
  auto left = left_.find(nspace);
  if (left == left_.end() || left->second.erase(shell) == 0 || !left->second.empty()) return;
  left_.erase(left);
  store_.namespace_ended(nspace);
}

std::vector<pmix_proc_t> Peers::left_on(std::uint32_t shell) const {
  std::vector<pmix_proc_t> out;
  for (Rank number : processes_.numbers_on(shell)) {
    const ProcessMap::Place& place = *processes_.find(number);
    if (!has_ended(number)) out.push_back(proc_of(*place.nspace, place.rank));
  }
  return out;
}

}  // namespace nacre::pmix
