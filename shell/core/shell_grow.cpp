// SPDX-License-Identifier: Apache-2.0
#include "core/shell_grow.hpp"

#include "base/program.hpp"
#include "core/shell.hpp"
#include "elastic/recovery.hpp"
#include "elastic/roster.hpp"
#include "group/directory.hpp"
#include "job/batch_system.hpp"
#include "job/job.hpp"
#include "job/options.hpp"
#include "join/leaving.hpp"
#include "launch/launcher.hpp"
#include "launch/record.hpp"
#include "plugin/questions.hpp"
#include "task/subprocess.hpp"
#include "transport/address.hpp"

namespace nacre::core {
namespace {

// These options name single ranks, or a number of tasks that does not change.
constexpr std::array kOfRanks{"taskmap",      "per-resource", "multi-prog",  "arguments",    "at-most",
                              "ended-before", "exit-main",    "input.ranks", "output.ranks", "exit-on-error.ranks"};

// Whether one of the programs that wrap tasks is for some tasks only.
bool has_ranks(const Json* wrap) {
  if (wrap == nullptr) return false;
  auto names_some = [](const Json& each) { return each.is_object() && each.value("ranks", Json("all")) != "all"; };
  return wrap->is_array() ? std::any_of(wrap->begin(), wrap->end(), names_some) : names_some(*wrap);
}

}  // namespace

Result<void> ShellResize::check_options() const {
  using Restart = job::RestartOption;
  const JsonAt at = *host_.options().at("resize");
  const Restart restart = TRY(Restart::read(host_.options()));
  if (!restart.is_on() || restart.when == Restart::When::on_request || restart.scope != Restart::Scope::job)
    return at.error("all tasks start again when the job's size changes: give restart=on-failure,scope=job, too");
  if (restart.where != Restart::Where::same)
    return at.error("restart=...,where= names other places for tasks: leave out one of them");
  if (!TRY(job::OnLost::read(host_.options())).replaces)
    return at.error("it is for jobs that go on without a lost host: give on-lost=replace, too");
  for (const char* name : kOfRanks) {
    if (host_.options().at(name))
      return at.error(fmt::format("{} is for tasks whose ranks stay: leave out one of them", name));
  }
  if (has_ranks(host_.options().find("wrap")))
    return at.error("wrap names tasks, whose ranks change: leave out one of them");
  if (host_.exit_policy().main() != 0)
    return at.error("the exit policy's main rank is one of a host, and ranks change: leave it out");
  if (host_.instance() != nullptr)
    return at.error("a Flux instance has started the shells, and their number does not change there");
  return {};
}

Result<void> ShellResize::serve() {
  if (!is_on()) return {};
  CHECK_OK(check_options());
  if (!shells_.may_have_others()) return {};
  restart_.when_started([this] { look_for_more(); });
  announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == elastic::JobResize::kTopic) announced(bytes);
  });
  return {};
}

// ---- the leader's ------------------------------------------------------------------------------

// The shells that have tasks, and others that have room for as many tasks.
value::Idset ShellResize::able() const {
  const value::Idset now = job_.shells_in_use();
  const std::uint64_t slots = job_.spec.slots_per_node.value_or(1);
  const std::uint64_t cores = shares_cores(host_.options()) ? 1 : slots * job_.spec.cores_per_slot;
  value::Idset out;
  for (std::uint32_t shell = 0; shell < job_.shells(); ++shell) {
    const job::NodeResources& node = job_.resources.nodes[shell];
    const bool has_room = node.all_cores().size() >= cores && node.gpus.size() >= slots * job_.spec.gpus_per_slot;
    if (shells_.roster().stays(shell) && job_.has_come(shell) && !job_.unfit.contains(shell) &&
        (now.contains(shell) || has_room))
      out.insert(shell);
  }
  return out;
}

Result<void> ShellResize::go_on_without(group::Rank shell) {
  return send({TRY(job_.shells_for(able())), shell, restart_.all_with_lost()});
}

void ShellResize::look_for_more() {
  if (!is_on() || !shells_.leads() || host_.ending() || !restart_.answers().is_quiet()) return;
  auto shells = job_.shells_for(able());
  if (!shells || shells->size() <= job_.nodes_in_use()) return;
  std::string why = restart_.answers().why_not();
  if (why.empty()) {
    auto sent = send({*shells, std::nullopt, {job_.restarts}});
    if (!sent) why = sent.error().message;
  }
  if (!why.empty() && why != said_)
    host_.log().log(Level::warn, "", "there are more nodes, and the job gets no more tasks: {}", why);
  said_ = why;
}

Result<void> ShellResize::send(const elastic::JobResize& what) {
  const auto most = elastic::Starts(job_.most_tasks()).most();
  for (value::Idset::Id rank : job_.all_ranks().ids()) {
    if (job_.attempt_of(rank) >= most)
      return Error{ERANGE, fmt::format("rank {} has started {} times, and no more is possible", rank, most)};
  }
  return host_.announce(elastic::JobResize::kTopic, what.text());
}

// ---- every shell's -----------------------------------------------------------------------------

void ShellResize::announced(std::string_view bytes) {
  auto what = elastic::JobResize::parse(bytes, job_.shells());
  if (!what)
    return host_.log().log(Level::warn, "", "resize: an announcement that this version does not understand");
  auto decision = restart_.start_resized(*what);
  if (on_decided_) on_decided_(*what, decision);
}

namespace {

constexpr event::Seconds kMostOfferTime{10};  // for newcomers to send what their nodes have, once they are members
constexpr double kForPod = 60;                // seconds, for a pod that has come again to join

}  // namespace

void ShellGrow::serve() {
  if (process_.late) {
    joining_.begin(process_.late->growth, std::move(process_.late->state));
    growth_ = std::move(process_.late->growth);
    process_.late.reset();
  }
  if (!shells_.may_have_others()) return;
  serve_latecomers();
  announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (!topic.starts_with(elastic::kGrownTopic)) return;
    Json what = Json::parse(bytes, nullptr, false);
    if (!what.is_discarded()) announced(topic, what);
  });
}

void ShellGrow::serve_latecomers() {
  if (process_.latecomers) process_.latecomers->serve([this](std::uint32_t index) { return come_again(index); });
}

void ShellGrow::listen() {
  if (!process_.pods || process_.latecomers) return;
  auto answering = boot::Latecomers::answer(host_.loop(), process_.pods->copy());
  if (!answering)  // the port may be another pod's, on the same host, or a task's
    return host_.log().log(Level::debug, "", "no pod is taken back here: {}", answering.error().message);
  process_.latecomers = *std::move(answering);
  serve_latecomers();
}

// ---- the leader's: an order --------------------------------------------------------------------

Result<void> ShellGrow::check_phase() const {
  if (stopped_ || host_.ending()) return Error{ECANCELED, "the job is ending"};
  if (!shells_.barriers().has_passed(join::kStartBarrier)) return Error{EAGAIN, "the job is still being started"};
  return {};
}

Result<void> ShellGrow::check(const value::GrowOrder& order) const {
  CHECK_OK(check_phase());
  if (!process_.later || process_.later->only_pods)
    return Error{ENOTSUP,
                 "nacre has not started the shells of this job, so it cannot start more: only jobs of nacre run or "
                 "nacre launch can grow"};
  std::uint64_t more = order.count + order.hosts.size();
  if (job_.shells() + more <= group::Membership::kMaxShells) return {};
  return invalid(fmt::format("a job has at most {} shells", group::Membership::kMaxShells));
}

Result<std::vector<std::string>> ShellGrow::hosts_of(const value::GrowOrder& order) const {
  bool is_local = process_.later->record.agent.empty();
  if (order.count > 0) return std::vector<std::string>(order.count, job_.resources.nodes[0].hostname);
  std::vector<std::string> names = order.hosts.names();
  auto other =
      std::find_if(names.begin(), names.end(), [](const auto& each) { return !launch::is_this_host(each); });
  if (!is_local || other == names.end()) return names;
  return invalid(fmt::format(
      "{} is another host, and all shells of this job are on this one: give --count, or start it with --hosts",
      *other));
}

void ShellGrow::grow(const value::GrowOrder& order, const WhenGrown& news) {
  if (auto can = check(order); !can) return news(can.error(), true);
  if (needs_manager(order)) {
    Result<void> asked = ask_manager(order, news);
    return asked ? void() : news(asked.error(), true);
  }
  auto hosts = hosts_of(order);
  if (!hosts) return news(hosts.error(), true);
  enqueue({order, news, *std::move(hosts)});
}

void ShellGrow::enqueue(Open order) {
  queue_.push_back(std::move(order));
  begin_next();
}

// ---- the leader's: an order begins -------------------------------------------------------------

void ShellGrow::begin_next() {
  while (!open_ && !queue_.empty()) {
    open_ = std::move(queue_.front());
    queue_.pop_front();
    if (Result<void> begun = begin(); !begun) end_order(begun.error());
  }
}

// A shell that cannot be started is known at once: the order may have ended before this returns.
Result<void> ShellGrow::begin() {
  // Some may have joined under a leader that was lost before it could announce them.
  const Rank first = open_->first = std::max(job_.shells(), process_.group->first_unused());
  const std::vector<std::string> hosts = open_->hosts, agent = open_->agent;
  const std::optional<std::uint32_t> pod = open_->pod;
  const value::Idset ranks = asked();
  join::LaterShells& later = *process_.later;
  CHECK_OK(later.prepare());
  if (!resources_) resources_ = dump_json(job_.resources.document);
  later.on_failed = [this](Rank rank, const std::string& why) {
    if (open_ && asked().contains(rank)) open_->failures.emplace(rank, why);
  };
  event::Seconds wait = wait_of(open_->order, hosts.size());
  value::Hostlist names;
  for (const std::string& host : hosts) names.append(host);
  if (open_->news) open_->news(Json{{"shells", ranks.str()}, {"hosts", names.str()}}, false);
  process_.group->grow(ranks, std::chrono::duration_cast<std::chrono::milliseconds>(wait),
                       [this, first](const Result<value::Grown>& grown) {
                         if (is_open(first)) note_joined(grown);
                       });
  std::string growth = dump_json(growth_.json());
  for (std::size_t i = 0; i < hosts.size() && is_open(first); ++i) {
    Rank rank = first + static_cast<Rank>(i);
    std::string lines = later.lines_of(rank, *resources_, job_.resources.is_made, growth, process_.hands_over);
    pod ? invite(*pod, rank, lines) : process_.launcher->start(rank, hosts[i], std::move(lines), agent);
  }
  return {};
}

// ---- the leader's: a pod that comes again ------------------------------------------------------

std::optional<event::Seconds> ShellGrow::time_of_pods() const {
  if (!process_.latecomers || !process_.later) return std::nullopt;
  auto lost = job::OnLost::read(host_.options());
  auto restart = job::RestartOption::read(host_.options());
  const bool to_spares = restart && restart->where == job::RestartOption::Where::spare;
  if (!to_spares && !(lost && lost->replaces)) return std::nullopt;
  return event::Seconds(process_.later->record.timeout);
}

// The shell that this pod was last.
group::Rank ShellGrow::last_of_pod(std::uint32_t index) const {
  Rank out = index;
  for (const elastic::Growth::Shell& each : growth_.shells) {
    if (each.has_come && each.pod == index) out = each.rank;
  }
  return out;
}

// Where it is to ask the shell `leader`, which listens on the port that all pods know.
std::string ShellGrow::port_of_pods(Rank leader) const {
  std::vector<std::string> out;
  for (transport::Address& each : process_.group->addresses_of(leader)) {
    each.port = process_.pods->pod.leader.port;
    if (!each.is_unix()) out.push_back(each.text());
  }
  return fmt::format("{}", fmt::join(out, " "));
}

Result<std::string> ShellGrow::come_again(std::uint32_t index) {
  CHECK_OK(check_phase());
  if (!time_of_pods()) {
    host_.log().log(Level::warn, "", "the pod with index {} has come again, and is turned away: the job has begun",
                    index);
    return Error{
        EBUSY, fmt::format("the job has begun, and goes on or ends without a shell that comes again: index {} was "
                           "there before; a new job takes all pods anew, and --on-lost=replace lets a job take "
                           "a lost one back",
                           index)};
  }
  auto is_same = [index](const Open& each) { return each.pod == index; };
  const Rank last = last_of_pod(index);
  if ((open_ && is_same(*open_)) || std::any_of(queue_.begin(), queue_.end(), is_same) ||
      !shells_.roster().gone().contains(last))
    return Error{EAGAIN, fmt::format("index {} is shell {} of the job, which is not lost so far", index, last)};
  if (!shells_.leads()) return port_of_pods(job_.leader);
  auto news = [this, index](const Result<Json>& answer, bool is_last) {
    if (!is_last || answer) return;
    host_.log().log(Level::warn, "", "the pod with index {} has come again, and has not joined the job: {}", index,
                    answer.error().message);
    static_cast<void>(process_.latecomers->give(index, answer.error()));  // it may have gone
  };
  Open order{{}, news, {job_.resources.nodes[last].hostname}};
  order.order.wait = kForPod;
  order.pod = index;
  enqueue(std::move(order));
  return "";
}

void ShellGrow::invite(std::uint32_t pod, Rank rank, const std::string& lines) {
  Result<void> given = process_.latecomers->give(pod, lines);
  if (given) return;
  open_->failures.emplace(rank, given.error().message);
  process_.group->suspect(rank);
}

value::Idset ShellGrow::asked() const {
  return value::Idset::range(open_->first, open_->first + static_cast<Rank>(open_->hosts.size()) - 1);
}

value::Idset ShellGrow::failed() const {
  value::Idset out;
  for (const auto& [rank, why] : open_->failures) out.insert(rank);
  return out;
}

// ---- the leader's: those that come -------------------------------------------------------------

void ShellGrow::note_joined(const Result<value::Grown>& grown) {
  value::Idset missing = grown ? grown->missing : asked();
  give_up(missing, "it has not joined the job in time");
  open_->come = grown ? grown->joined : value::Idset();
  auto timer = event::Timer::create(host_.loop(), [this] {
    value::Idset silent;
    for (Rank rank : open_->come->ids()) {
      if (!open_->offers.contains(rank)) silent.insert(rank);
    }
    give_up(silent, "it has not sent what its node has");
    send_growth();
  });
  if (!timer) return send_growth();
  open_->timer = *std::move(timer);
  open_->timer->start_grace(kMostOfferTime);
  look_for_offers();
}

void ShellGrow::give_up(const value::Idset& ranks, const std::string& why) {
  for (Rank rank : ranks.ids()) {
    open_->failures.emplace(rank, why);
    process_.launcher->dismiss(rank);
  }
}

void ShellGrow::look_for_offers() {
  if (!open_ || !open_->come || open_->is_sent) return;
  const std::vector<Rank> come = (*open_->come - failed()).ids();
  bool are_there =
      std::all_of(come.begin(), come.end(), [this](Rank rank) { return open_->offers.contains(rank); });
  if (are_there) send_growth();
}

// The shells that have not come are named as well, as ranks have no gaps.
void ShellGrow::send_growth() {
  open_->is_sent = true;
  open_->timer.reset();
  Result<void> sent = host_.announce(elastic::kGrownTopic, dump_json(growth().json()));
  if (!sent) end_order(sent.error());
}

// On a host that has shells of this job already, the newcomers get cores that those do not use, if there are any.
elastic::Growth ShellGrow::growth() const {
  elastic::Growth out;
  std::map<std::string, value::Idset> cores, gpus;  // in use, by host
  for (std::uint32_t shell = 0; shell < job_.shells(); ++shell) {
    const job::NodeResources& node = job_.resources.nodes[shell];
    if (shells_.roster().gone().contains(shell)) continue;
    cores[node.hostname] = cores[node.hostname] | node.all_cores();
    gpus[node.hostname] = gpus[node.hostname] | node.gpus;
  }
  for (Rank rank = job_.shells(); rank < open_->first; ++rank)
    out.shells.push_back({rank, "unknown", {}, {}, false});
  for (Rank rank : asked().ids()) {
    elastic::Growth::Shell shell{rank, open_->hosts[rank - open_->first], {}, {}, false, open_->pod};
    auto offer = open_->offers.find(rank);
    shell.has_come = open_->come->contains(rank) && !open_->failures.contains(rank) && offer != open_->offers.end();
    if (shell.has_come) {
      const std::string& host = shell.hostname = offer->second.hostname;
      value::Idset free = offer->second.cores - cores[host];
      shell.cores = free.empty() ? offer->second.cores : free;
      shell.gpus = offer->second.gpus - gpus[host];
      cores[host] = cores[host] | shell.cores;
      gpus[host] = gpus[host] | shell.gpus;
    }
    out.shells.push_back(std::move(shell));
  }
  return out;
}

void ShellGrow::lost(Rank rank) {
  if (nodes_ && !stopped_ && !shrink_.is_leaving(rank))
    nodes_->give_back(job::hosts_of(value::Idset::range(rank, rank), job_), nullptr);
  if (!open_ || !asked().contains(rank) || open_->ready.contains(rank)) return;
  open_->failures.emplace(rank, "it was lost while it joined the job");
  look_for_offers();
  look_if_over();
}

// ---- the leader's: the end of an order ---------------------------------------------------------

void ShellGrow::look_if_over() {
  bool waits = !open_ || !open_->is_announced || !(*open_->come - open_->ready - failed()).empty();
  if (waits || open_->is_undone) return;
  value::Idset back = open_->order.all && !open_->failures.empty() ? open_->ready : value::Idset();
  if (back.empty()) return answer_order();
  open_->is_undone = true;
  for (Rank rank : back.ids()) open_->failures.emplace(rank, "");
  take_out(back, [this, first = open_->first] {
    if (is_open(first)) answer_order();
  });
}

void ShellGrow::answer_order() {
  value::Idset here = open_->ready - failed();
  if (here.empty()) return end_order(error_of_all());
  Json out{{"joined", here.str()}, {"hosts", job::hosts_of(here, job_).str()}, {"missing", Json::array()}};
  for (const auto& [rank, why] : open_->failures)
    out["missing"].push_back({{"shell", rank}, {"host", open_->hosts[rank - open_->first]}, {"error", why}});
  end_order(std::move(out));
}

Error ShellGrow::error_of_all() const {
  std::string text;
  for (const auto& [rank, why] : open_->failures) {
    if (why.empty()) continue;
    text +=
        fmt::format("{}shell {} on {}: {}", text.empty() ? "" : "; ", rank, open_->hosts[rank - open_->first], why);
  }
  std::string_view left = open_->ready.empty() ? "" : ", and those that had joined have left again (--all)";
  return {ENODEV, fmt::format("{}{}", text, left)};
}

void ShellGrow::end_order(const Result<Json>& answer) {
  Open over = *std::exchange(open_, std::nullopt);
  give_back_unused(over);
  if (over.news) over.news(answer, true);
  begin_next();
  if (answer && on_grown_ && !open_) on_grown_();
}

void ShellGrow::take_out(const value::Idset& shells, std::function<void()> done) {
  std::erase_if(leaving_, [](const plugin::Registration& each) { return !each.active(); });
  value::ShrinkOrder order;
  order.shells = shells;
  leaving_.push_back(host_.shrink(order, [done = std::move(done)](const Result<Json>&, bool is_last) {
    if (is_last && done) done();
  }));
}

void ShellGrow::stop() {
  if (std::exchange(stopped_, true)) return;
  const Error why{ECANCELED, "the job is ending"};
  for (Open& each : std::exchange(queue_, {})) each.news(why, true);
  for (auto& [number, news] : std::exchange(asking_, {})) news(why, true);
  if (nodes_) nodes_->stop();
  if (!open_) return;
  if (auto news = std::exchange(open_->news, nullptr)) news(why, true);
  if (!open_->come) {
    for (Rank rank : asked().ids()) {
      process_.launcher->dismiss(rank);
      process_.group->suspect(rank);
    }
  } else if (open_->is_announced) {
    take_out(*open_->come - open_->ready - failed(), nullptr);
  }
}

// ---- every shell's -----------------------------------------------------------------------------

void ShellGrow::announced(std::string_view topic, const Json& what) {
  if (topic == elastic::kGrownTopic) return apply_growth(what);
  if (topic == elastic::kLeadsTopic) return tell_of_leader(what);
  if (topic != elastic::kOfferTopic && topic != elastic::kReadyTopic) return;
  if (!member_of(what, "shell").is_number_unsigned()) return;
  if (topic == elastic::kReadyTopic) return note_ready(what);
  auto rank = what.at("shell").get<Rank>();
  auto offer = boot::NodeOffer::parse(what.value("offer", ""));
  if (!shells_.leads() || !open_ || !asked().contains(rank)) return;
  if (offer) open_->offers.emplace(rank, *std::move(offer));
  look_for_offers();
}

void ShellGrow::apply_growth(const Json& what) {
  auto growth = elastic::Growth::parse(JsonAt::root(what));
  if (!growth || growth->shells.empty() || growth->shells[0].rank != job_.shells())
    return host_.log().log(Level::warn, "", "grow: an announcement that this version does not understand");
  value::Idset come, missing;
  std::vector<job::NodeResources> nodes;
  for (elastic::Growth::Shell& each : growth->shells) {
    (each.has_come ? come : missing).insert(each.rank);
    nodes.push_back({0, each.hostname, each.cores, each.gpus, {}});
    growth_.shells.push_back(std::move(each));
  }
  job_.grow(std::move(nodes));
  host_.messages().grow(job_.shells());
  shells_.grown(come, missing);
  if (!shells_.leads() || !open_) return;
  open_->is_announced = true;
  if (Result<void> sent = host_.announce(elastic::kStateTopic, dump_json(state())); !sent)
    host_.log().log(Level::error, "", "grow: {}", sent.error().message);
  // they belong to the job, but nobody knows what they have
  value::Idset unknown = *open_->come - come - shells_.roster().gone();
  if (!unknown.empty()) take_out(unknown, nullptr);
  if (stopped_) take_out(come - shells_.roster().gone(), nullptr);
  look_if_over();
}

// Whether the newcomer is ready. All shells know it alike, as all decide alike where tasks may go.
void ShellGrow::note_ready(const Json& what) {
  auto rank = what.at("shell").get<Rank>();
  std::string why = what.value("error", "");
  if (why.empty()) shells_.ready(rank);
  if (!shells_.leads()) return;
  bool is_open = open_ && asked().contains(rank);
  if (is_open && why.empty()) open_->ready.insert(rank);
  if (why.empty() && on_ready_) on_ready_();
  if (is_open && !why.empty()) open_->failures.emplace(rank, why);
  if (!why.empty()) take_out(value::Idset::range(rank, rank), nullptr);
  look_if_over();
}

Json ShellGrow::state() const {
  const auto& restarts = restart_.granted_so_far();
  const elastic::RestartProgress* progress = restart_.progress_so_far();
  Json out = elastic::job_state(job_);
  out["initrcs"] = initrcs_ ? initrcs_() : "";
  out["shells"] = shells_.state();
  out["restart"] = restarts ? restarts->json() : Json();
  if (progress != nullptr) out["progress"] = progress->json();
  if (const auto& cause = process_.end.cause()) out["ended"] = cause->message;
  return out;
}

// ---- shell grow nodes -------------------------------------------------------------------
//
// The part of a grow in which the leader gets nodes from the manager, and gives back those that nobody uses.

// Whether the manager has to give the nodes: always if only it gives nodes to this job, otherwise for a number of
// nodes, unless the job is of one host.
bool ShellGrow::needs_manager(const value::GrowOrder& order) const {
  const join::LaterShells& later = *process_.later;
  return later.is_managed || (order.count > 0 && !later.record.agent.empty());
}

event::Seconds ShellGrow::wait_of(const value::GrowOrder& order, std::size_t shells) const {
  double all_starts =
      process_.later->record.timeout * static_cast<double>(1 + shells / launch::Launcher::kMostAtOnce);
  return event::Seconds(order.wait.value_or(all_starts));
}

Result<void> ShellGrow::make_nodes() {
  if (nodes_) return {};
  auto manager = host_.options().at("elastic.manager");  // plugins/elastic reads it
  if (manager && manager->json() != "auto")
    return Error{
        ENOTSUP,
        "the job's option elastic.manager is not auto, so Slurm is asked for no nodes: start it without that"};
  auto allocation = job::BatchSystem::of_environment(own_variable);
  if (allocation.kind != job::BatchSystem::Kind::slurm)
    return invalid("--count names no hosts, and nobody else does: give --hosts");
  auto when_killed = [this](const std::vector<std::string>& command) {
    if (process_.guard) process_.guard->set_command(command);
  };
  nodes_ = std::make_unique<SlurmNodes>(host_, allocation.job, process_.hands_over, std::move(when_killed));
  shrink_.set_nodes(nodes_.get());
  return {};
}

// What the leader before had got of Slurm is this one's to give back. Who has started the job hears of a leader
// that is of no step of its own by one that is.
void ShellGrow::lead() {
  if (growth_.shells.empty()) return;
  if (process_.joins_late && process_.later && process_.later->is_managed) {
    Result<void> sent = host_.announce(elastic::kLeadsTopic, launch::NextLeader::own().message());
    if (!sent) host_.log().log(Level::error, "", "grow: {}", sent.error().message);
  }
  if (!make_nodes()) return;
  const value::Idset all = value::Idset::range(0, job_.shells() - 1);
  nodes_->adopt(job::hosts_of(all - shells_.roster().gone(), job_));
}

void ShellGrow::tell_of_leader(const Json& what) const {
  if (!process_.tell_launcher || !process_.later) return;
  const value::Idset first = value::Idset::range(0, process_.later->record.size - 1) - shells_.roster().gone();
  if (first.first() == job_.shell_rank) process_.tell_launcher(launch::Carriage::kLeads, dump_json(what));
}

Result<void> ShellGrow::ask_manager(const value::GrowOrder& order, const WhenGrown& news) {
  CHECK_OK(make_nodes());
  value::Hostlist hosts = order.hosts;
  hosts.uniq();
  if (hosts.size() < order.hosts.size()) return invalid("a host is named twice: Slurm gives each once");
  const value::Idset all = value::Idset::range(0, job_.shells() - 1);
  value::Hostlist here = job::hosts_of(all - shells_.roster().gone(), job_);
  for (const std::string& each : hosts.names()) {
    if (here.find(each)) return invalid(fmt::format("{} is of the job already, and Slurm gives it once", each));
  }
  const std::uint64_t count = order.count + hosts.size();
  const std::uint64_t number = ++last_asked_;
  asking_.emplace(number, news);
  news(Json{{"manager", "Slurm"}, {"nodes", count}}, false);
  nodes_->ask({count, hosts, here, wait_of(order, count)}, [this, order, number](Result<SlurmNodes::Nodes> nodes) {
    auto asked = asking_.extract(number);
    if (asked && !nodes) return asked.mapped()(nodes.error(), true);
    if (asked) enqueue({order, asked.mapped(), nodes->hosts, nodes->agent});
  });
  return {};
}

// Gives back nodes whose shells never joined the job; other shells give theirs back when they leave.
void ShellGrow::give_back_unused(const Open& over) {
  if (!nodes_ || over.agent.empty()) return;
  value::Hostlist hosts;
  for (std::size_t i = 0; i < over.hosts.size(); ++i) {
    bool has_come = over.come && over.come->contains(over.first + static_cast<Rank>(i));
    if (!has_come) hosts.append(over.hosts[i]);
  }
  nodes_->give_back(hosts, nullptr);
}

// Usually the leader or its guard does this. This host's first allocation has another name, so it is left alone.
void ShellGrow::end_left_allocation() {
  auto allocation = job::BatchSystem::of_environment(own_variable);
  auto step = own_variable("SLURM_STEP_ID");
  if (allocation.kind != job::BatchSystem::Kind::slurm || !step) return;
  bool is_over = false;
  task::CommandRun run(host_.loop(), host_.children());
  auto done = [&](const Result<std::string>& ended) {
    is_over = true;
    if (!ended)
      host_.log().log(Level::error, "", "grow: {}: the allocation may be there still", ended.error().message);
  };
  Result<void> started = run.start(slurm_end_left(allocation.job, "nacre-" + job_.id.f58_plain(), *step), done);
  if (!started) return done(tl::unexpected(started.error()));
  host_.loop().run_until([&] { return is_over; });
}

void ShellGrow::end_allocations() {
  if (process_.joins_late && process_.end.is_cut_off()) return end_left_allocation();
  const bool is_given_up = process_.hands_over && process_.end.is_cut_off();  // another shell has them by now
  if (!nodes_ || is_given_up) return;
  if (Result<void> ended = nodes_->end(); !ended)
    host_.log().log(Level::error, "",
                    "grow: {}: the job's allocations may be there still: end them by scancel --name=nacre-{}",
                    ended.error().message, job_.id.f58_plain());
}

// ---- joining shell ----------------------------------------------------------------------

void JoiningShell::begin(const elastic::Growth& before, Json state) {
  is_joining_ = true;
  state_ = std::move(state);
  for (const elastic::Growth::Shell& each : before.shells) {
    if (!each.has_come) missing_.insert(each.rank);
  }
}

Result<void> JoiningShell::take_state() {
  if (!is_joining_) return {};
  JsonAt at = JsonAt::root(state_);
  CHECK_OK(elastic::take_job_state(at, job_));
  initrcs_ = TRY(TRY(at.at("initrcs")).string());
  shells_.grown({}, missing_);
  return shells_.take_state(TRY(at.at("shells")));
}

Result<void> JoiningShell::take_restarts() {
  if (!is_joining_) return {};
  auto restarts = TRY(JsonAt::root(state_).find("restart"));  // null: the option is off
  auto& own = restart_.granted_so_far();
  if (restarts && own) CHECK_OK(own->take(*restarts));
  auto progress = TRY(JsonAt::root(state_).find("progress"));
  elastic::RestartProgress* noted = restart_.progress_so_far();
  return progress && noted != nullptr ? noted->take(*progress) : Result<void>();
}

Result<void> JoiningShell::check_initrcs(const std::function<std::string()>& mark) const {
  if (!is_joining_ || mark() == initrcs_) return {};
  return invalid(
      fmt::format("the initrc files of {} are not those of shell 0: install the same ones, or give "
                  "-o initrc-check=off",
                  job_.resources.nodes[job_.shell_rank].hostname));
}

void JoiningShell::ready() {
  if (!is_joining_ || has_failed_) return;
  is_joining_ = false;
  Result<void> sent = host_.announce(elastic::kReadyTopic, dump_json({{"shell", job_.shell_rank}}));
  if (!sent) host_.log().log(Level::error, "", "grow: {}", sent.error().message);
}

void JoiningShell::failed(const std::string& why) {
  if (std::exchange(has_failed_, true)) return;
  Result<void> sent = host_.announce(elastic::kReadyTopic, dump_json({{"shell", job_.shell_rank}, {"error", why}}));
  if (!sent) host_.log().log(Level::error, "", "grow: {}", why);
}

// ---- shell replace ----------------------------------------------------------------------

Result<void> ShellReplace::serve() {
  auto chosen = TRY(job::OnLost::read(host_.options()));
  takes_any_ = TRY(job::RestartOption::read(host_.options())).where == job::RestartOption::Where::any;
  if (takes_any_ && !chosen.replaces)
    return host_.options().at("restart")->error(
        "where=any is for the tasks of a lost shell, which start again with on-lost=replace only: give that, too");
  restart_.when_moved([this](const std::vector<job::Move>& moves) { note_due(moves); });
  if (!chosen.replaces || !shells_.may_have_others()) return {};
  resize_.when_decided([this](const auto& what, const auto& decision) { resized(what, decision); });
  grow_.when_grown([this] { resize_.look_for_more(); });
  announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kTopic) announced(bytes);
  });
  shells_.when_lost_with_tasks([this](group::Rank shell) { return lost(shell); });
  grow_.when_ready([this] {
    value::Idset shells;
    for (const auto& [shell, timer] : waiting_) shells.insert(shell);
    for (group::Rank shell : shells.ids()) lost(shell);
  });
  return {};
}

// ---- the leader's ------------------------------------------------------------------------------

bool ShellReplace::lost(group::Rank shell) {
  if (host_.ending()) return false;
  restart_.answers().loss_opens(shell);
  value::Idset asked;
  for (std::uint32_t each = 0; each < job_.shells(); ++each) {
    if (each != job_.shell_rank && shells_.roster().stays(each) && !shells_.all_tasks().unfinished_on(each).empty())
      asked.insert(each);
  }
  shrink_.ask_connected(asked, [this, shell](const ShrinkQuestion::Connected& connected) {
    decide(shell, connected.tasks | plugin::pmi_connected(host_, ""));
  });
  return true;
}

// Much may have happened since the shell was lost.
void ShellReplace::decide(group::Rank shell, const value::Idset& connected) {
  value::Idset ranks = shells_.all_tasks().unfinished_on(shell);
  if (ranks.empty() || host_.ending()) return give_up(shell, "");
  auto takes_all = restart_.takes_all_with_lost(connected);
  if (!takes_all) return give_up(shell, takes_all.error().message);
  Result<void> replaced = replace(shell, ranks, *takes_all);
  if (!replaced && replaced.error().code == ENOENT && resize_.is_on()) {
    Result<void> sent = resize_.go_on_without(shell);
    if (sent) return;
    replaced.error().message += ", and " + sent.error().message;
  }
  if (replaced) {
    waiting_.erase(shell);
  } else if (replaced.error().code != ENOENT || !wait_for_pod(shell, ranks, replaced.error().message)) {
    give_up(shell, replaced.error().message);
  }
}

bool ShellReplace::wait_for_pod(group::Rank shell, const value::Idset& ranks, const std::string& why) {
  auto time = grow_.time_of_pods();
  if (!time || waiting_.contains(shell)) return time.has_value();
  std::string over = fmt::format("{}, and no pod has come again within {} s", why, time->count());
  auto timer = event::Timer::create(host_.loop(), [this, shell, over] { give_up(shell, std::string(over)); });
  if (!timer) return false;
  timer->start(*time);
  waiting_.emplace(shell, *std::move(timer));
  host_.log().log(Level::warn, "", "shell {}{} is lost: its task {} wait{} up to {} s for a pod to come again: {}",
                  shell, job_.resources.nodes[shell].on(), ranks.short_str(), ranks.size() == 1 ? "s" : "",
                  time->count(), why);
  return true;
}

void ShellReplace::give_up(group::Rank shell, const std::string& why) {
  waiting_.erase(shell);
  shells_.give_up(shell, why);
  restart_.answers().loss_closes(shell);
}

Result<void> ShellReplace::replace(group::Rank shell, const value::Idset& ranks, bool takes_all) {
  std::vector<std::uint32_t> shells = TRY(choose(shell, ranks));
  // By shell and start: tasks may have started again there, and not all equally often.
  std::map<std::pair<std::uint32_t, std::uint32_t>, value::Idset> moves;
  std::vector<Rank> each = ranks.ids();
  for (std::size_t i = 0; i < each.size(); ++i) moves[{shells[i], job_.attempt_of(each[i]) + 1}].insert(each[i]);
  elastic::Replacement what;
  for (const auto& [where, moved] : moves) {
    auto [to, attempt] = where;
    shells_.all_tasks().expect(moved, attempt);
    what.moves.push_back({moved, shell, to, attempt});
  }
  if (takes_all) what.all = restart_.all_with_lost();
  Result<void> sent = host_.announce(kTopic, what.text());
  if (sent) return {};
  for (const auto& [where, moved] : moves) replacements_.ordered(where.first, moved.size());
  return sent;
}

// Returns a shell for each of the ranks.
Result<std::vector<std::uint32_t>> ShellReplace::choose(group::Rank shell, const value::Idset& ranks) {
  auto most = elastic::Starts(job_.most_tasks()).most();
  for (Rank rank : ranks.ids()) {
    if (job_.attempt_of(rank) >= most)
      return Error{ERANGE, fmt::format("rank {} has started {} times, and no more is possible", rank, most)};
  }
  auto spare = replacements_.choose(
      spares(), elastic::Replacements::needed(job_, shell, ranks, shares_cores(host_.options())));
  if (spare) return std::vector<std::uint32_t>(ranks.size(), *spare);
  if (!takes_any_) return spare.error();
  if (job_.spec.gpus_per_slot > 0)
    return Error{ENOENT, spare.error().message + ", and tasks with gpus of their own go to spares only"};
  auto spread = replacements_.spread(others(), ranks.size());
  if (!spread) return Error{ENOENT, fmt::format("{}, and {}", spare.error().message, spread.error().message)};
  return spread;
}

// Among shells with equally many tasks the leader comes last: without it the job may end.
std::vector<elastic::Replacements::Other> ShellReplace::others() const {
  std::vector<elastic::Replacements::Other> out;
  for (std::uint32_t i = 1; i <= job_.shells(); ++i) {
    std::uint32_t shell = (job_.leader + i) % job_.shells();
    if (!shells_.roster().stays(shell) || job_.unfit.contains(shell)) continue;
    std::uint64_t tasks = shells_.all_tasks().unfinished_on(shell).size();
    std::uint64_t room = job_.resources.nodes[shell].all_cores().size() / job_.spec.cores_per_slot;
    out.push_back({shell, tasks, shares_cores(host_.options()) ? job_.tasks() : room - std::min(room, tasks)});
  }
  return out;
}

std::vector<elastic::Replacements::Spare> ShellReplace::spares() const {
  std::vector<elastic::Replacements::Spare> out;
  for (std::uint32_t shell : job_.spare_shells().ids()) {
    const job::NodeResources& node = job_.resources.nodes[shell];
    if (shells_.roster().stays(shell)) out.push_back({shell, {node.cores.size(), node.gpus.size()}});
  }
  return out;
}

// ---- every shell's -----------------------------------------------------------------------------

// This is no restart: the tasks have not been started, and no plugin has prepared anything for them yet.
plugin::Resizing::Replaced ShellReplace::leave_out(const value::Idset& shells) {
  job_.unfit.insert(shells);
  plugin::Resizing::Replaced out;
  elastic::Replacements places;
  for (std::uint32_t shell : shells.ids()) {
    const value::Idset ranks = job_.taskmap.ranks_on(shell);
    if (ranks.empty()) continue;
    auto spare =
        places.choose(spares(), elastic::Replacements::needed(job_, shell, ranks, shares_cores(host_.options())));
    out.emplace(shell, spare);
    const std::uint64_t restarts = job_.restarts;
    if (spare) job_.move({ranks, shell, *spare, 1});
    job_.restarts = restarts;
  }
  return out;
}

void ShellReplace::announced(std::string_view bytes) {
  auto what = elastic::Replacement::parse(bytes, job_.shells(), job_.tasks());
  if (!what)
    return host_.log().log(Level::warn, "", "on-lost: an announcement that this version does not understand");
  for (const job::Move& each : what->moves) {
    if (shells_.leads()) replacements_.ordered(each.to, each.ranks.size());
  }
  what->all ? moved_with_all(*what) : moved_alone(*what);
}

void ShellReplace::moved_alone(const elastic::Replacement& what) {
  const value::Idset spares = job_.spare_shells();
  auto moves =
      elastic::Recovery::move(job_, what.moves, [this](std::uint32_t shell) { return restart_.may_take(shell); });
  note_due(moves);
  for (const job::Move& each : moves) shells_.all_tasks().expect(each.ranks, each.attempt);
  if (!moves.empty()) shells_.moved(moves, spares);
  if (!shells_.leads()) return;
  moves.size() < what.moves.size() ? decide(what.from(), {}) : restart_.answers().loss_closes(what.from());
}

// This is one decision: either all of it has an effect, or nothing.
void ShellReplace::moved_with_all(const elastic::Replacement& what) {
  auto decision = restart_.start_with_lost(what);
  if (decision && decision->is_granted()) note_due(what.moves);
  if (!shells_.leads()) return;
  if (!decision) {
    if (!lost(what.from())) give_up(what.from(), "");
  } else if (decision->is_granted()) {
    restart_.answers().loss_closes(what.from());
  } else {
    give_up(what.from(), decision->why_not);
  }
}

void ShellReplace::note_due(const std::vector<job::Move>& moves) {
  for (const job::Move& each : moves) {
    if (each.to != job_.shell_rank) continue;
    due_.push_back(each);
    restart_.come(each.ranks);
  }
}

// Tasks that were to come to this shell have other ranks now.
void ShellReplace::resized(const elastic::JobResize& what,
                           const std::optional<elastic::RestartDecision>& decision) {
  const bool is_granted = decision && decision->is_granted();
  if (is_granted) due_.clear();
  if (is_granted && what.shells.contains(job_.shell_rank) && tasks_.all().empty()) {
    const value::Idset here = job_.taskmap.ranks_on(job_.shell_rank);
    note_due({{here, job_.shell_rank, job_.shell_rank, job_.attempt_of(*here.first())}});
  }
  if (!shells_.leads()) return;
  if (is_granted) {
    for (const auto& [shell, timer] : std::exchange(waiting_, {})) restart_.answers().loss_closes(shell);
    if (what.lost) restart_.answers().loss_closes(*what.lost);
  } else if (what.lost) {
    if (decision || !lost(*what.lost)) give_up(*what.lost, decision ? decision->why_not : "");
  } else {
    resize_.look_for_more();
  }
}

Result<void> ShellReplace::take_over() {
  job::Move move = std::move(due_.front());
  due_.pop_front();
  move.ranks = move.ranks & job_.taskmap.ranks_on(job_.shell_rank);  // they may have gone on to a spare
  if (move.ranks.empty()) return {};
  // All tasks may have been told to start again meanwhile.
  std::uint32_t attempt = job_.attempt_of(*move.ranks.first());
  CHECK_OK(tasks_.make(move.ranks, attempt, job_.restarts));
  plugin::Call call("shell.take-over");
  call.in = {{"ranks", move.ranks.str()}, {"try", attempt}};
  if (move.from != move.to) call.in["from"] = move.from;  // otherwise the job has got more tasks
  TRY(host_.stack().call(call));
  return {};
}

}  // namespace nacre::core
