// SPDX-License-Identifier: Apache-2.0
#include "peers.hpp"

#include <cmath>

namespace nacre::pmix {
namespace {

// Used if no timeout is given; libpmix waits as long for a key of a process of the same node. Programs also ask for
// keys that nobody commits.
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

// Requests of a process of a former start may be read only now.
bool Peers::is_of_this_start(const pmix_proc_t& proc) const {
  std::string_view name = proc.nspace;
  return name.starts_with(home_.nspace) &&
         // like the names of spawned namespaces
         (name.size() == home_.nspace.size() || name[home_.nspace.size()] == '-');
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

// None: a process is not known. Empty: all tasks of the job.
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

// Whether processes have gone, so that nothing more can be done: the request is answered with an error, or waits
// for its time-out.
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

// The numbers of the participants; none: the request was answered, or waits until a namespace is settled, when
// `again` is called.
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

// If all participants are on one shell they have come by now: libpmix has checked that.
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

void Peers::define_set(const std::string& name, const std::vector<pmix_proc_t>& procs, InfoReply reply) {
  Request request;
  request.info = reply;
  auto again = [=, this](bool is_there) {
    is_there ? define_set(name, procs, reply) : request.answer(PMIX_ERR_NOT_FOUND);
  };
  PeerMessage message{.kind = PeerMessage::Kind::set, .texts = {name}};
  for (const pmix_proc_t& proc : procs) {
    if (postponed(proc.nspace, again)) return;
    std::vector<Rank> numbers;
    if (proc.rank == PMIX_RANK_WILDCARD)
      numbers = processes_.numbers_of(proc.nspace);
    else if (auto number = processes_.number_of(proc.nspace, proc.rank))
      numbers = {*number};
    if (numbers.empty()) return request.answer(PMIX_ERR_NOT_FOUND);
    message.texts.push_back(text_of(numbers));
  }
  message.number = expect(request);
  send(std::move(message));
}

// libpmix has no callback for commits; it answers with what a process has committed so far.
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

// What the process has not committed by now will never come: requests that wait for a key get what there is.
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

// ---- peers receive ----------------------------------------------------------------------
//
// How a shell handles the messages of all shells.

namespace {

// The number is the same on all nodes.
std::uint64_t request_id(const PeerMessage& message) { return std::uint64_t{message.shell} << 40 | message.number; }

std::size_t texts_of(PeerMessage::Kind kind) {
  switch (kind) {
    case PeerMessage::Kind::group: return 3;
    case PeerMessage::Kind::part:
    case PeerMessage::Kind::publish:
    case PeerMessage::Kind::look_up:
    case PeerMessage::Kind::unpublish:
    case PeerMessage::Kind::event:
    case PeerMessage::Kind::set: return 2;
    case PeerMessage::Kind::ask:
    case PeerMessage::Kind::answer:
    case PeerMessage::Kind::signal:
    case PeerMessage::Kind::leave:
    case PeerMessage::Kind::list:
    case PeerMessage::Kind::ended: return 1;
    default: return 0;
  }
}

}  // namespace

void Peers::receive(const PeerMessage& message) {
  if (message.texts.size() < texts_of(message.kind)) return;
  switch (message.kind) {
    case PeerMessage::Kind::part:
      return collectives_.part(message.shell, message.texts[0], message.status, message.texts[1]);
    case PeerMessage::Kind::ask:
    case PeerMessage::Kind::answer: return receive_question(message);
    case PeerMessage::Kind::event: return receive_event(message);
    case PeerMessage::Kind::signal: return receive_signal(message);
    case PeerMessage::Kind::set: return receive_set(message);
    case PeerMessage::Kind::ended: return receive_end(message);
    case PeerMessage::Kind::over: groups_.over(message.shell); return lost(message.shell);
    case PeerMessage::Kind::group:
    case PeerMessage::Kind::leave:
    case PeerMessage::Kind::gone: return groups_.receive(message);
    case PeerMessage::Kind::list:
    case PeerMessage::Kind::rows: return tables_.receive(message);
    default: return receive_of_store(message);
  }
}

void Peers::receive_question(const PeerMessage& message) {
  if (message.to != shells_.own) return;
  if (message.kind == PeerMessage::Kind::answer)
    return take(message.number).answer(message.status, message.texts[0]);
  const ProcessMap::Place* place = processes_.find(message.rank);
  if (place == nullptr) return;
  static std::uintptr_t last_question = 0;  // libpmix may still answer questions of a former start
  std::uintptr_t question = ++last_question;
  questions_[question] = {message.rank, message.shell, message.number, message.texts[0], message.status > 0};
  const bool has_ended = ended_.count(message.rank) > 0;
  if (has_ended) give_up_after(kAnswerTime, question, PMIX_ERR_NOT_FOUND);
  if (message.status > 0) give_up_after(message.status, question, PMIX_ERR_TIMEOUT);
  if (has_ended || message.texts[0].empty()) return find_all(question);
  look_up(question);
}

void Peers::receive_signal(const PeerMessage& message) {
  std::vector<pmix_proc_t> targets;
  for (Rank number : ranks_in(message.texts[0]).value_or(std::vector<Rank>())) {
    const ProcessMap::Place* place = processes_.find(number);
    if (place != nullptr && place->node == shells_.own) targets.push_back(proc_of(*place->nspace, place->rank));
  }
  if (!targets.empty()) duties_.signal(targets, static_cast<int>(message.number));
}

void Peers::receive_set(const PeerMessage& message) {
  const std::string& name = message.texts[0];
  std::vector<pmix_proc_t> members;
  for (std::size_t i = 1; i < message.texts.size(); ++i) {
    for (Rank number : ranks_in(message.texts[i]).value_or(std::vector<Rank>())) {
      if (const ProcessMap::Place* place = processes_.find(number))
        members.push_back(proc_of(*place->nspace, place->rank));
    }
  }
  if (sets_.count(name) > 0) server_.delete_set(name);
  server_.define_set(name, sets_[name] = std::move(members));
  if (message.shell == shells_.own) take(message.number).answer(PMIX_SUCCESS);
}

void Peers::receive_event(const PeerMessage& message) {
  if (message.shell == shells_.own) return;
  pmix_proc_t source = proc_of(message.texts[0], message.rank);
  server_.notify(message.status, source, static_cast<pmix_data_range_t>(message.number),
                 InfoList::unpacked(message.texts[1]));
}

void Peers::receive_end(const PeerMessage& message) {
  if (message.rank == PMIX_RANK_WILDCARD) return left_by(message.shell, message.texts[0]);
  store_.process_ended(proc_of(message.texts[0], message.rank));
  std::optional<Rank> number = processes_.number_of(message.texts[0], message.rank);
  if (!number) return;
  ended_.insert(*number);
  collectives_.ended(*number);
  groups_.ended(*number);
}

void Peers::receive_of_store(const PeerMessage& message) {
  bool mine = message.shell == shells_.own;
  if (message.kind == PeerMessage::Kind::give_up) return store_.give_up(request_id(message), PMIX_ERR_TIMEOUT);
  pmix_proc_t id = proc_of(message.texts[0], message.rank);
  InfoList info = InfoList::unpacked(message.texts[1]);
  std::vector<std::string> keys(message.texts.begin() + 2, message.texts.end());
  if (message.kind == PeerMessage::Kind::look_up) {
    auto answer = [this, mine, number = message.number](pmix_status_t status, std::vector<pmix_pdata_t>& values) {
      if (!mine) return;
      Request request = take(number);
      if (request.look_up != nullptr) request.look_up(status, values.data(), values.size(), request.data);
    };
    return store_.look_up(request_id(message), id, std::move(keys), info, answer);
  }
  pmix_status_t status = PMIX_SUCCESS;
  if (message.kind == PeerMessage::Kind::publish) status = store_.publish(id, info);
  if (message.kind == PeerMessage::Kind::unpublish) store_.unpublish(id, keys, info);
  if (mine) take(message.number).answer(status);
}

// ---- peer groups ------------------------------------------------------------------------

namespace {

// libpmix's own time-out for a group may end the shell, unless service.cpp prevents it: members are answered
// before. All shells are notified first, for their own members.
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

// For a group whose members are all on this shell.
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

void PeerGroups::lost(std::uint32_t shell) {
  for (Rank number : processes_.numbers_on(shell)) notify_watchers(number);
  groups_.lost(shell);
  report();
}

// Reports that processes of this shell have ended, or that a shell is lost, if others wait for them.
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

// ---- peer link --------------------------------------------------------------------------

namespace {

constexpr const char* kTopic = "nacre-pmix";

}  // namespace

int PeerLink::listen() {
  auto on_event = [](flux_t*, flux_msg_handler_t*, const flux_msg_t* msg, void* arg) {
    const void* data = nullptr;
    std::size_t size = 0;
    if (flux_event_decode_raw(msg, nullptr, &data, &size) < 0) return;
    std::optional<PeerMessage> message = decode({static_cast<const char*>(data), size});
    auto* link = static_cast<PeerLink*>(arg);
    if (message) message = link->filter_.pass(*std::move(message));
    if (message) link->receive_(*message);
  };
  struct flux_match match = FLUX_MATCH_EVENT;
  match.topic_glob = kTopic;
  handler_ = flux_msg_handler_create(flux_shell_get_flux(shell_), match, on_event, this);
  if (handler_ == nullptr) return -1;
  flux_msg_handler_start(handler_);
  return 0;
}

void PeerLink::begin(std::uint64_t start, Receive receive) {
  receive_ = std::move(receive);
  for (const PeerMessage& each : filter_.begin(start)) receive_(each);
}

void PeerLink::send(PeerMessage message) const {
  message.start = filter_.current();
  std::string bytes = encode(message);
  flux_future_t* sent = flux_event_publish_raw(flux_shell_get_flux(shell_), kTopic, 0, bytes.data(), bytes.size());
  if (sent == nullptr) shell_die(1, "pmix: cannot notify the other nodes: %s", flux_strerror(errno));
  flux_future_destroy(sent);
}

// ---- peer tables ------------------------------------------------------------------------

std::vector<std::string> PeerTables::own_rows(const std::string& nspace) const {
  std::vector<std::string> out;
  for (const ProcessRow& row : calls_.rows(nspace)) out.push_back(text_of(row));
  return out;
}

void PeerTables::list(const std::string& nspace, std::set<std::uint32_t> shells, double seconds,
                      ProcessTables::Done done) {
  const bool reaches_out = std::any_of(shells.begin(), shells.end(), [this](auto each) { return each != own_; });
  const std::uint64_t number = tables_.ask(std::move(shells), std::move(done));
  if (reaches_out) {
    calls_.send({.kind = PeerMessage::Kind::list, .number = number, .texts = {nspace}});
    return calls_.after(seconds, [this, number] { tables_.give_up(number); });
  }
  tables_.answered(own_, number, own_rows(nspace));
  tables_.give_up(number);
}

void PeerTables::receive(const PeerMessage& message) {
  if (message.kind == PeerMessage::Kind::rows) {
    if (message.to == own_) tables_.answered(message.shell, message.number, message.texts);
    return;
  }
  const std::string& nspace = message.texts[0];
  if (processes_.nodes_of(nspace).count(own_) == 0) return;
  std::vector<std::string> rows = own_rows(nspace);
  if (message.shell == own_) return tables_.answered(own_, message.number, rows);
  calls_.send(
      {.kind = PeerMessage::Kind::rows, .to = message.shell, .number = message.number, .texts = std::move(rows)});
}

// ---- store ------------------------------------------------------------------------------

namespace {

bool same_namespace(const pmix_proc_t& a, const pmix_proc_t& b) {
  return std::strncmp(a.nspace, b.nspace, PMIX_MAX_NSLEN) == 0;
}

bool same(const pmix_proc_t& a, const pmix_proc_t& b) { return same_namespace(a, b) && a.rank == b.rank; }

template <typename Type>
Type directive(const InfoList& info, const char* key, Type otherwise) {
  const pmix_value_t* value = info.find(key);
  return value != nullptr ? static_cast<Type>(number_of(*value).value_or(otherwise)) : otherwise;
}

// False for what libpmix itself adds to a request, and for directives.
bool is_data(const pmix_info_t& info) {
  for (const char* key : {PMIX_RANGE, PMIX_PERSISTENCE, PMIX_USERID, PMIX_GRPID, PMIX_TIMEOUT, PMIX_WAIT,
                          PMIX_ACCESS_PERMISSIONS, PMIX_EMBED_BARRIER}) {
    if (is(info, key)) return false;
  }
  return true;
}

}  // namespace

bool PublishedData::visible(const Item& item, const pmix_proc_t& id) {
  switch (item.range) {
    case PMIX_RANGE_RM: return false;
    case PMIX_RANGE_NAMESPACE: return same_namespace(item.publisher, id);
    case PMIX_RANGE_PROC_LOCAL: return same(item.publisher, id);
    default: return true;
  }
}

pmix_status_t PublishedData::publish(const pmix_proc_t& publisher, const InfoList& info) {
  auto range = directive<pmix_data_range_t>(info, PMIX_RANGE, PMIX_RANGE_SESSION);
  auto persistence = directive<pmix_persistence_t>(info, PMIX_PERSISTENCE, PMIX_PERSIST_SESSION);
  std::list<Item> fresh;
  for (const pmix_info_t& each : info) {
    if (!is_data(each)) continue;
    Item item{each.key, InfoList(&each, 1), publisher, range, persistence};
    auto clashes = [&](const Item& other) {
      bool apart = (range == PMIX_RANGE_NAMESPACE && !same_namespace(publisher, other.publisher)) ||
                   (range == PMIX_RANGE_PROC_LOCAL && !same(publisher, other.publisher));
      return other.key == item.key && other.range == range && !apart;
    };
    if (std::any_of(items_.begin(), items_.end(), clashes)) return PMIX_ERR_DUPLICATE_KEY;
    fresh.push_back(std::move(item));
  }
  items_.splice(items_.end(), fresh);
  retry();
  return PMIX_SUCCESS;
}

void PublishedData::unpublish(const pmix_proc_t& publisher, const std::vector<std::string>& keys,
                              const InfoList& directives) {
  auto range = directive<pmix_data_range_t>(directives, PMIX_RANGE, PMIX_RANGE_UNDEF);
  items_.remove_if([&](const Item& item) {
    bool named = keys.empty() || std::find(keys.begin(), keys.end(), item.key) != keys.end();
    return named && same(item.publisher, publisher) && (range == PMIX_RANGE_UNDEF || range == item.range);
  });
}

std::vector<PublishedData::Item*> PublishedData::matches(const Request& request) {
  std::vector<Item*> found;
  for (const std::string& key : request.keys) {
    Item* match = nullptr;
    for (Item& item : items_) {
      if (item.key != key || !visible(item, request.id)) continue;
      if (match == nullptr || (match->range != request.range && item.range == request.range)) match = &item;
    }
    if (match != nullptr) found.push_back(match);
  }
  return found;
}

void PublishedData::answer(const Request& request, const std::vector<Item*>& items) {
  std::vector<pmix_pdata_t> data(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    data[i].proc = items[i]->publisher;
    items[i]->key.copy(data[i].key, PMIX_MAX_KEYLEN);
    data[i].value = items[i]->value.begin()->value;  // valid during the call
  }
  request.found(items.empty() ? PMIX_ERR_NOT_FOUND : PMIX_SUCCESS, data);
  items_.remove_if([&](const Item& item) {
    return item.persistence == PMIX_PERSIST_FIRST_READ &&
           std::find(items.begin(), items.end(), &item) != items.end();
  });
}

void PublishedData::look_up(std::uint64_t number, const pmix_proc_t& id, std::vector<std::string> keys,
                            const InfoList& directives, Found found) {
  Request request{number, id, std::move(keys), PMIX_RANGE_UNDEF, 0, std::move(found)};
  request.range = directive<pmix_data_range_t>(directives, PMIX_RANGE, PMIX_RANGE_UNDEF);
  if (const pmix_value_t* wait = directives.find(PMIX_WAIT)) {
    auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(0, number_of(*wait).value_or(0)));
    request.wanted = wanted == 0 ? request.keys.size() : std::min(wanted, request.keys.size());
  }
  std::vector<Item*> items = matches(request);
  if (items.size() >= request.wanted) {
    answer(request, items);
  } else {
    waiting_.push_back(std::move(request));
  }
}

void PublishedData::retry() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    std::vector<Item*> items = matches(*it);
    if (items.size() < it->wanted) {
      ++it;
      continue;
    }
    Request request = std::move(*it);
    it = waiting_.erase(it);
    answer(request, items);
  }
}

void PublishedData::give_up(std::uint64_t request, pmix_status_t status) {
  auto it = std::find_if(waiting_.begin(), waiting_.end(), [&](const Request& r) { return r.number == request; });
  if (it == waiting_.end()) return;
  Request given_up = std::move(*it);
  waiting_.erase(it);
  std::vector<pmix_pdata_t> none;
  given_up.found(status, none);
}

void PublishedData::process_ended(const pmix_proc_t& process) {
  items_.remove_if(
      [&](const Item& item) { return item.persistence == PMIX_PERSIST_PROC && same(item.publisher, process); });
  std::vector<std::uint64_t> pending;
  for (const Request& request : waiting_) {
    if (same(request.id, process)) pending.push_back(request.number);
  }
  for (std::uint64_t request : pending) give_up(request, PMIX_ERR_UNREACH);
}

void PublishedData::namespace_ended(const std::string& nspace) {
  items_.remove_if(
      [&](const Item& item) { return item.persistence == PMIX_PERSIST_APP && nspace == item.publisher.nspace; });
}

// ---- group data -------------------------------------------------------------------------

namespace {

// nullptr: the value is no array of infos that begins with a process and has at least `least` elements.
const pmix_info_t* infos_of_process(const pmix_value_t& value, std::size_t least) {
  if (value.type != PMIX_DATA_ARRAY || value.data.darray == nullptr) return nullptr;
  const pmix_data_array_t& array = *value.data.darray;
  if (array.type != PMIX_INFO || array.array == nullptr || array.size < least) return nullptr;
  const auto* infos = static_cast<const pmix_info_t*>(array.array);
  const bool begins_right = is(infos[0], PMIX_PROCID) && infos[0].value.type == PMIX_PROC;
  return begins_right && infos[0].value.data.proc != nullptr ? infos : nullptr;
}

// Whether the info has values that a member has put, behind the member's name and their scope.
bool is_put(const pmix_info_t& info) {
  if (!is(info, PMIX_PROC_DATA)) return false;
  const pmix_info_t* infos = infos_of_process(info.value, 2);
  return infos != nullptr && infos[1].value.type == PMIX_SCOPE;
}

// Whether the info has values that a member has given for this group, behind the member's name.
bool is_given(const pmix_info_t& info) {
  return is(info, PMIX_GROUP_INFO) && infos_of_process(info.value, 1) != nullptr;
}

}  // namespace

std::string group_data_of(const InfoList& directives) {
  if (const pmix_value_t* bytes = directives.find(PMIX_GROUP_ENDPT_DATA)) {
    std::string content = text_of(*bytes).value_or("");
    return content.empty() ? content : text_of(GroupPiece{GroupPiece::Kind::bytes, std::move(content)});
  }
  InfoList infos;
  for (const pmix_info_t& each : directives) {
    if (is_put(each) || is_given(each)) infos.value(each.key, each.value);
  }
  return infos.empty() ? "" : text_of(GroupPiece{GroupPiece::Kind::infos, infos.packed()});
}

GroupData group_data_in(const std::string& text) {
  GroupData out;
  for (const GroupPiece& piece : pieces_in(text)) {
    if (piece.kind == GroupPiece::Kind::bytes) {
      out.bytes += piece.content;
      continue;
    }
    for (const pmix_info_t& each : InfoList::unpacked(piece.content)) out.infos.value(each.key, each.value);
  }
  return out;
}

InfoList resources_of(const InfoList& infos, std::uint64_t id) {
  InfoList out;
  auto number = static_cast<std::size_t>(id);
  if (id != 0) out.add(PMIX_GROUP_CONTEXT_ID, &number, PMIX_SIZE);
  bool has_some = false;
  for (const pmix_info_t& each : infos) {
    if (!is_put(each) && (id == 0 || !is_given(each))) continue;
    out.value(is_put(each) ? PMIX_GROUP_ENDPT_DATA : PMIX_GROUP_INFO, each.value);
    has_some = true;
  }
  return has_some ? out : InfoList();
}

}  // namespace nacre::pmix
