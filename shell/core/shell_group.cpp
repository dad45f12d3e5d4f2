// SPDX-License-Identifier: Apache-2.0
#include "core/shell_group.hpp"

#include "base/text.hpp"
#include "job/job.hpp"
#include "job/options.hpp"
#include "job/resources.hpp"
#include "join/leaving.hpp"
#include "wire/json.hpp"

namespace nacre::core {
namespace {

job::OnLost on_lost_of(plugin::Host& host) { return job::OnLost::read(host.options()).value_or(job::OnLost{}); }

// A spare has no tasks that could be lost with it; nor has a shell whose tasks have gone to a spare.
bool is_fatal(group::Rank rank, plugin::Host& host) {
  const job::Job& job = host.job();
  bool is_left = rank != job.leader && job.taskmap.tasks_on(rank) == 0 &&
                 (job.tasks_have_left(rank) || job.unfit.contains(rank));
  return !on_lost_of(host).goes_on && !job.is_spare(rank) && !is_left;
}

// If the shell's tasks may be started again, the leader decides later whether the job ends.
bool ends_at_once(group::Rank rank, plugin::Host& host) {
  return is_fatal(rank, host) && !on_lost_of(host).replaces;
}

// Until all tasks have ended, tasks may come to any shell, or with where=spare leave it for another one. A shell
// that tasks have left may still have something to report.
bool any_may_get_tasks(plugin::Host& host) {
  using Where = job::RestartOption::Where;
  auto restart = job::RestartOption::read(host.options());
  return restart && (restart->where == Where::spare || (restart->where == Where::any && on_lost_of(host).replaces));
}

// When all tasks start again together all shells take part, even those to which the taskmap gives no task.
bool idle_may_be_needed(plugin::Host& host) {
  auto restart = job::RestartOption::read(host.options());
  return restart && restart->is_on();
}

// Whichever shell leads once a lost pod comes again, which gets its tasks back: none has come to its end by then.
bool may_wait_for_pods(const join::ShellProcess& process, plugin::Host& host) {
  return process.pods && process.hands_over && on_lost_of(host).replaces;
}

bool has_idle_shell(const job::Job& job) {
  for (std::uint32_t shell = 0; shell < job.nodes(); ++shell) {
    if (job.taskmap.tasks_on(shell) == 0) return true;
  }
  return false;
}

constexpr std::string_view kNotReplacedTopic = "shell.not-replaced";
// With a TasksOver.
constexpr std::string_view kTasksOverTopic = "shell.tasks-over";

struct OwnEnd {
  value::Idset ranks;
  exits::Record record = exits::Record::lost();
};

// All tasks have ended: how the leader's own have, which no other shell could tell the next leader.
struct TasksOver {
  std::vector<OwnEnd> ends;
};

constexpr wire::Object kTasksOver{[](auto& io, auto& m) {
  io.has("ends", m.ends, wire::Each{wire::Array{[](auto& end, auto& of) {
           end.are("[RANKS, RECORD]");
           end.has(of.ranks);
           end.has(of.record);
         }}});
}};

}  // namespace

void ShellGroup::serve(group::Group::Callbacks callbacks) {
  callbacks.on_lost = [this, first = std::move(callbacks.on_lost)](group::Rank rank) {
    if (first) first(rank);
    on_lost(rank);
  };
  callbacks.on_tasks = [this](const value::Idset& /*started*/, const std::vector<group::Ended>& ended) {
    for (const group::Ended& each : ended) all_tasks_.reported(each);
    end_others_wait();
  };
  callbacks_ = std::move(callbacks);
  if (!process_.joins_late) begin();
  if (may_have_others()) {
    tasks_over_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
      if (topic == kTasksOverTopic) note_over(bytes);
      if (auto shell = parse_u64(bytes); topic == kNotReplacedTopic && shell && *shell < host_.job().shells()) {
        given_up_.insert(static_cast<group::Rank>(*shell));
        notices_.not_replaced(static_cast<group::Rank>(*shell));
      }
    });
  }
  process_.launcher_events.on_signal = [this](int signum) { launcher_signal(signum); };
  process_.launcher_events.on_gone = [this] {
    host_.raise(launchers_end());
    if (leads()) process_.group->give_up_silent();
  };
}

void ShellGroup::begin() {
  if (auto callbacks = std::exchange(callbacks_, std::nullopt)) process_.group->serve(*std::move(callbacks));
}

plugin::RaisedException ShellGroup::launchers_end() const {
  const join::LauncherEvents& launcher = process_.launcher_events;
  if (!launcher.ended_by)
    return {"exec", 0, fmt::format("{}: without its launcher the job ends", launcher.gone->message), std::nullopt};
  int signum = *launcher.ended_by;
  std::string what = signum == SIGINT ? "interrupt" : value::signal_name(signum);
  return {"exec", 0, fmt::format("second {}: ending the job", what), value::WaitStatus::killed(signum)};
}

// The signal is for the tasks of all shells. Before all of them run it would be lost, or reach only some of them.
void ShellGroup::launcher_signal(int signum) {
  if (signum == SIGUSR2) {  // it is for plugins, like one that is sent to this process
    ::raise(signum);
  } else if (!barriers_.has_passed(join::kStartBarrier)) {
    process_.launcher_events.kept.keep(signum);
  } else {
    process_.group->signal(signum, std::nullopt);
  }
}

void ShellGroup::send_kept_signals() {
  for (int signum : process_.launcher_events.kept.take()) launcher_signal(signum);
}

// ---- losses, and the ends of tasks -----------------------------------------------------------

void ShellGroup::on_lost(group::Rank rank) {
  if (process_.launcher) process_.launcher->lost(rank);
  const bool is_asked = asked_.contains(rank);
  if (!is_asked && !roster_.is_to_leave(rank)) return lose(rank);
  if (is_asked)
    lost_asked_.insert(rank);
  else
    note_left(value::Idset::range(rank, rank));
  if (on_lost_leaving_) on_lost_leaving_(rank);
}

void ShellGroup::lose(group::Rank rank) {
  roster_.note_lost(value::Idset::range(rank, rank));
  if (rank >= host_.job().shells()) return;
  if (reports_losses_) notices_.lost(rank, ends_at_once(rank, host_));
  if (!host_.job().leads()) return;
  if (!decides_losses_ && on_lost_of(host_).replaces) return undecided_.insert(rank);
  decide_loss(rank);
}

// Only the former leader knew which tasks of lost shells have a record. A task that has ended, but whose shell was
// lost since, counts as lost as well.
void ShellGroup::take_over() {
  for (const auto& [record, ranks] : leaders_ends_.classes()) all_tasks_.ended(ranks, record);
  for (group::Rank rank : roster_.left().ids())
    all_tasks_.ended(all_tasks_.unfinished_on(rank), exits::Record::gone({}));
  for (group::Rank rank : roster_.lost().ids()) {
    if (rank >= host_.job().shells() || host_.job().is_left_out(rank) || !host_.job().has_come(rank)) continue;
    const bool has_moved = moved_from_.contains(rank) && all_tasks_.unfinished_on(rank).empty();
    const bool is_told = given_up_.contains(rank) || has_moved || !on_lost_of(host_).replaces;
    if (is_told && !is_fatal(rank, host_))
      all_tasks_.ended(all_tasks_.unfinished_on(rank), exits::Record::lost());
    else if (!decides_losses_ && on_lost_of(host_).replaces)
      undecided_.insert(rank);
    else
      decide_loss(rank);
  }
  end_others_wait();
}

// For a shell that came to lead when its own tasks had ended, and that may wait for the others' output.
void ShellGroup::end_others_wait() {
  if (former_leader_ && leads() && is_past_tasks_ && all_tasks_.left() == 0) tell_over();
}

void ShellGroup::decide_losses() {
  decides_losses_ = true;
  for (group::Rank rank : std::exchange(undecided_, {}).ids()) decide_loss(rank);
}

// Once all tasks are over none starts again, even if the next leader does not know how one has ended.
void ShellGroup::decide_loss(group::Rank rank) {
  const bool may_start = !tasks_are_over_ && !all_tasks_.unfinished_on(rank).empty();
  if (may_start && on_lost_with_tasks_ && on_lost_with_tasks_(rank)) return;
  give_up(rank, "");
}

// Where tasks may be started again, a shell whose tasks have all ended is no loss.
void ShellGroup::give_up(group::Rank rank, const std::string& why) {
  value::Idset tasks = all_tasks_.unfinished_on(rank);
  bool ends = is_fatal(rank, host_) && !(tasks.empty() && on_lost_of(host_).replaces);
  all_tasks_.ended(tasks, exits::Record::lost());
  end_others_wait();
  if (!ends && on_lost_of(host_).replaces && has_others()) {  // those who wait to know it go on
    Result<void> sent = host_.announce(kNotReplacedTopic, fmt::format_int(rank).str());
    if (!sent) host_.log().log(Level::debug, "", "{}: {}", kNotReplacedTopic, sent.error().message);
  }
  std::string with = barriers_.has_passed(join::kStartBarrier) && !tasks.empty()
                         ? fmt::format("; with it task {}", tasks.str())
                         : "";
  if (!why.empty()) with += fmt::format(", which {} not started again: {}", tasks.size() == 1 ? "is" : "are", why);
  with += silence_text(rank);
  const bool is_spare = host_.job().is_spare(rank) && !host_.job().is_left_out(rank);
  host_.raise({"node-failure", ends ? 0 : 2,
               fmt::format("shell {}{}{} is lost: it has ended, or cannot be reached{}", rank,
                           host_.job().resources.nodes[rank].on(), is_spare ? ", a spare," : "", with),
               std::nullopt});
}

// This explains a loss that nobody has caused.
std::string ShellGroup::silence_text(group::Rank rank) const {
  std::string silence = process_.group->silence_of(rank);
  return silence.empty() ? "" : "; " + silence;
}

void ShellGroup::moved(std::span<const job::Move> moves, const value::Idset& spares, const std::string& with_all) {
  const auto& nodes = host_.job().resources.nodes;
  const group::Rank from = moves.front().from;
  moved_from_.insert(from);
  notices_.moved(moves, !with_all.empty(), std::to_string(from));
  if (!host_.job().leads()) return;
  std::map<group::Rank, value::Idset> to;
  for (const job::Move& each : moves) to[each.to].insert(each.ranks);
  std::string where;
  for (const auto& [shell, ranks] : to)
    where += fmt::format("{}task {} starts again on {} {}{}", where.empty() ? "its " : ", ", ranks.short_str(),
                         spares.contains(shell) ? "the spare shell" : "shell", shell, nodes[shell].on());
  host_.raise({"node-failure", 2,
               fmt::format("shell {}{} is lost: it has ended, or cannot be reached; {}{}{}", from, nodes[from].on(),
                           where, with_all, silence_text(from)),
               std::nullopt});
}

void ShellGroup::resized(const elastic::JobResize& what, ChangeNotices::Size before, const std::string& when) {
  notices_.resized(what, before);
  const job::Job& job = host_.job();
  if (!job.leads()) return;
  const std::uint32_t nodes = job.nodes_in_use();
  const std::string size =
      fmt::format("the job goes on with {} task{} on {} node{} (-N {}), in place of {} on {}: {}", job.tasks(),
                  job.tasks() == 1 ? "" : "s", nodes, nodes == 1 ? "" : "s", job.spec.node_counts->str(),
                  before.tasks, before.nodes, when);
  if (what.lost)
    return host_.raise({"node-failure", 2,
                        fmt::format("shell {}{} is lost: it has ended, or cannot be reached; {}{}", *what.lost,
                                    job.resources.nodes[*what.lost].on(), size, silence_text(*what.lost)),
                        std::nullopt});
  host_.raise({"restart", 2, "there are more nodes, and " + size, std::nullopt});
}

void ShellGroup::leaving(const value::Idset& shells, double grace) {
  asked_ = asked_ - shells;
  const value::Idset here = shells - lost_asked_;
  note_left(shells - here);
  if (here.empty()) return;
  roster_.note_leaving(here);
  notices_.leaving(here, grace);
}

void ShellGroup::staying(const value::Idset& shells) {
  asked_ = asked_ - shells;
  const value::Idset losses = lost_asked_ & shells;
  lost_asked_ = lost_asked_ - losses;
  for (group::Rank rank : losses.ids()) lose(rank);
}

void ShellGroup::left(const value::Shrunk& shrunk) {
  if (process_.launcher) {
    for (group::Rank rank : shrunk.unconfirmed.ids()) process_.launcher->lost(rank);
  }
  note_left((shrunk.gone | shrunk.unconfirmed) - roster_.left());
}

void ShellGroup::note_left(const value::Idset& shells) {
  if (shells.empty()) return;
  lost_asked_ = lost_asked_ - shells;
  roster_.note_left(shells);
  for (group::Rank rank : shells.ids()) {
    if (host_.job().leads()) all_tasks_.ended(all_tasks_.unfinished_on(rank), exits::Record::gone({}));
    notices_.left(rank);
  }
  notices_.resources("", shells.str());
}

void ShellGroup::grown(const value::Idset& come, const value::Idset& missing) {
  const value::Idset here = roster_.note_joining(come, missing);
  if (here.empty()) return;
  for (group::Rank rank : here.ids()) notices_.joined(rank);
  notices_.resources(here.str(), "");
}

auto ShellGroup::state_beside_roster() {
  return wire::Object{[](auto& io, auto& m) {
    io.has("tasks_over", m.tasks_are_over_);
    io.has("asked_to_leave", m.asked_);
    io.has("lost_when_asked", m.lost_asked_);
    io.has("given_up", m.given_up_);
    io.has("moved_from", m.moved_from_);
  }};
}

Json ShellGroup::state() const {
  Json out = roster_.json();
  out.update(state_beside_roster().write(*this));
  return out;
}

Result<void> ShellGroup::take_state(const JsonAt& at) {
  CHECK_OK(roster_.add(at));
  return state_beside_roster().read(at, *this);
}

void ShellGroup::report_losses() {
  reports_losses_ = true;
  for (group::Rank rank : roster_.lost().ids()) notices_.lost(rank, ends_at_once(rank, host_));
  if (!process_.joins_late) return;  // these were reported when they left
  for (group::Rank rank : roster_.left().ids()) notices_.left(rank);
}

void ShellGroup::wait_for_all_tasks() {
  is_past_tasks_ = true;
  if (!host_.job().leads() || !has_others()) return;
  barriers_.wait([this] { return all_tasks_.left() == 0; });
  tell_over();
}

void ShellGroup::tell_over() {
  if (std::exchange(tasks_are_over_, true)) return;
  bool some_wait = host_.job().spares > 0 || any_may_get_tasks(host_) || may_wait_for_pods(process_, host_) ||
                   (idle_may_be_needed(host_) && has_idle_shell(host_.job())) || process_.hands_over;
  if (!some_wait) return;
  TasksOver over;
  for (const auto& [record, ranks] : all_tasks_.outcomes().classes()) {
    value::Idset own = ranks & host_.job().taskmap.ranks_on(host_.job().shell_rank);
    if (!own.empty()) over.ends.push_back({std::move(own), record});
  }
  // also if the job is being ended, as shells that have joined since then do not know it
  if (Result<void> sent = host_.announce(kTasksOverTopic, dump_json(kTasksOver.write(over))); !sent)
    host_.log().log(Level::debug, "", "those without tasks get no notice of the tasks' end: {}",
                    sent.error().message);
}

void ShellGroup::note_over(std::string_view bytes) {
  tasks_are_over_ = true;
  auto json = parse_json(bytes);
  TasksOver over;
  if (!json || !kTasksOver.read(JsonAt::root(*json), over)) return;
  for (const OwnEnd& each : over.ends) leaders_ends_.add(each.ranks & host_.job().all_ranks(), each.record);
}

void ShellGroup::stand_by(const std::function<bool()>& leaves) {
  const job::Job& job = host_.job();
  bool is_idle = idle_may_be_needed(host_) && job.taskmap.tasks_on(job.shell_rank) == 0;
  const bool waits = job.is_spare(job.shell_rank) || any_may_get_tasks(host_) || is_idle;
  if (!has_others() || !(waits || may_wait_for_pods(process_, host_))) return;
  barriers_.wait([&] { return tasks_are_over_ || (leads() && all_tasks_.left() == 0) || leaves(); });
}

// ---- all tasks --------------------------------------------------------------------------

void AllTasks::reported(const group::Ended& ended) {
  for (const auto& [attempt, ranks] : elastic::Starts(host_.job().most_tasks()).ranks(ended.tasks))
    this->ended(expected_.current(ranks, attempt), ended.record);
}

void AllTasks::ended(const value::Idset& ranks, const exits::Record& record) {
  value::Idset fresh = outcomes_.add(ranks, record);
  if (fresh.empty()) return;
  if (record.status() && on_first_ended_) std::exchange(on_first_ended_, nullptr)({*fresh.first(), record});
  notices_.ended(fresh, record);
}

const exits::Outcomes& AllTasks::final_outcomes() {
  outcomes_.add(host_.job().all_ranks(), exits::Record::victim({}));
  return outcomes_;
}

value::Idset AllTasks::unfinished_on(group::Rank shell) const {
  return host_.job().taskmap.ranks_on(shell) - outcomes_.ranks();
}

std::size_t AllTasks::left() const {
  const std::uint64_t all = host_.job().tasks();
  return all - std::min<std::uint64_t>(all, outcomes_.ranks().size());
}

// ---- barriers ---------------------------------------------------------------------------

void Barriers::wait(const std::function<bool()>& done) {
  host_.loop().run_until([&] { return done() || host_.ending(); });
}

void Barriers::pass(const std::string& name) {
  begin(name);
  process_.group->enter(name, [this, name](const Result<void>& passed) { note_passed(name, passed); });
  wait([&] { return has_passed(name); });
}

std::optional<plugin::Gathered> Barriers::gather(const std::string& name, std::string mine) {
  begin(name);
  // kept by both: it may be released when nobody waits here any more
  auto given = std::make_shared<std::optional<plugin::Gathered>>();
  process_.group->gather(name, std::move(mine), [this, name, given](Result<plugin::Gathered> all) {
    note_passed(name, all ? Result<void>() : Result<void>(all.error()));
    if (all) *given = *std::move(all);
  });
  wait([&] { return has_passed(name); });
  return *given;
}

std::optional<std::int64_t> Barriers::sum_last(const std::string& name, std::int64_t mine) {
  return pass_last(name, &group::Group::sum_with_all, mine);
}

std::optional<std::int64_t> Barriers::max_last(const std::string& name, std::int64_t mine) {
  return pass_last(name, &group::Group::max_with_all, mine);
}

std::optional<std::int64_t> Barriers::pass_last(const std::string& name, Count count, std::int64_t mine) {
  begin(name);
  std::optional<std::int64_t> out;
  ((*process_.group).*count)(name, mine, [&, name](const Result<std::int64_t>& all) {
    note_passed(name, all ? Result<void>() : Result<void>(all.error()));
    if (all) out = *all;
  });
  host_.loop().run_until([&] { return has_passed(name); });
  return out;
}

bool Barriers::has_passed(const std::string& name) const {
  auto entered = passed_.find(name);
  return entered != passed_.end() && entered->second;
}

void Barriers::begin(const std::string& name) {
  passed_[name] = false;
  process_.timeline.add(timeline::Kind::enters, name);
  if (host_.job().shells() > 1) host_.log().log(Level::trace, "", "{} barrier: waits for the other shells", name);
}

void Barriers::note_passed(const std::string& name, const Result<void>& passed) {
  INVARIANT(passed_.contains(name));
  passed_[name] = true;
  if (passed) process_.timeline.add(timeline::Kind::passes, name);
  if (passed && host_.job().shells() > 1) host_.log().log(Level::trace, "", "{} barrier: all have come", name);
  // that this shell is cut off is reported by itself
  if (!passed && !process_.end.is_cut_off()) {
    host_.log().log(Level::debug, "", "{} barrier: {}", name, passed.error().message);
  }
}

// ---- change notices ---------------------------------------------------------------------

const std::string& ChangeNotices::host_of(group::Rank shell) const {
  return host_.job().resources.nodes[shell].hostname;
}

void ChangeNotices::lost(group::Rank shell, bool ends) { change(plugin::ShellLost(shell, host_of(shell), ends)); }

void ChangeNotices::not_replaced(group::Rank shell) { notify("shell.not-replaced", {{"shell_rank", shell}}); }

void ChangeNotices::leaving(const value::Idset& shells, double grace) {
  const value::Hostlist hosts = job::hosts_of(shells, host_.job());
  notify("job.shrinking", {{"shells", shells.str()}, {"hosts", hosts.str()}, {"grace", grace}});
}

void ChangeNotices::ended(const value::Idset& tasks, const exits::Record& record) {
  notify(plugin::TasksExited(tasks, record));
}

void ChangeNotices::moved(std::span<const job::Move> moves, bool with_all, const std::string& left) {
  if (moves.empty()) return;
  for (const job::Move& each : moves) {
    Json what{{"ranks", each.ranks.str()},
              {"from", each.from},
              {"to", each.to},
              {"host", host_.job().resources.nodes[each.to].hostname},
              {"try", each.attempt}};
    if (with_all) what["all"] = true;
    change("job.tasks-moved", what);
  }
  resources("", left);
}

void ChangeNotices::resized(const elastic::JobResize& what, Size before) {
  const job::Job& job = host_.job();
  Json out{{"tasks", job.tasks()},
           {"nodes", job.nodes_in_use()},
           {"tasks_before", before.tasks},
           {"nodes_before", before.nodes},
           {"cause", what.lost ? "lost" : "joined"},
           {"shells", what.shells.str()},
           {"restarts", job.restarts}};
  if (what.lost) {
    out["shell"] = *what.lost;
    out["host"] = host_of(*what.lost);
  }
  change("job.resized", out);
  resources("", what.lost ? std::to_string(*what.lost) : "");
}

void ChangeNotices::resources(const std::string& added, const std::string& left) {
  if (!host_.stack().listens("shell.resource-update")) return;  // R may be large
  notify("shell.resource-update", {{"R", job::without_nodes(host_.job().resources, roster_.gone())},
                                   {"taskmap", host_.job().taskmap.json()},
                                   {"added", added},
                                   {"left", left}});
}

void ChangeNotices::change(const std::string& name, const Json& what) {
  note(name, what);
  notify(name, what);
}

void ChangeNotices::note(const std::string& name, const Json& what) {
  if (!on_change_) return;
  if (Result<void> posted = on_change_(name, what); !posted)
    host_.log().log(Level::error, "", "{}", posted.error().message);
}

void ChangeNotices::notify(const std::string& topic, const Json& what) {
  if (!host_.stack().listens(topic)) return;
  plugin::Call call(topic);
  call.in.update(what);
  make(call);
}

void ChangeNotices::make(plugin::Call& call) {
  if (Result<int> called = host_.stack().call(call); !called)
    host_.raise({"exec", 0, called.error().message, std::nullopt});
}

}  // namespace nacre::core
