// SPDX-License-Identifier: Apache-2.0
#include "core/shell_restart.hpp"

#include <sys/stat.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "core/shell.hpp"
#include "elastic/recovery.hpp"
#include "event/clock.hpp"
#include "job/job.hpp"
#include "job/options.hpp"
#include "plugin/questions.hpp"

namespace nacre::core {

Result<std::string> look_at_file(const std::string& path) {
  struct stat info {};
  std::array<char, PATH_MAX> name{};
  bool is_link = ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
  if (::stat(path.c_str(), &info) < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return "not there";
    return system_error(errno, path);
  }
  const std::string to =
      is_link && ::realpath(path.c_str(), name.data()) != nullptr ? fmt::format("a link to {}, ", name.data()) : "";
  std::tm utc{};
  std::array<char, 32> time{};
  ::gmtime_r(&info.st_mtim.tv_sec, &utc);
  std::strftime(time.data(), time.size(), "%FT%T", &utc);
  return fmt::format("{}{} bytes of {}.{:09}Z", to, info.st_size, time.data(), info.st_mtim.tv_nsec);
}

std::string short_print(std::string_view printed) {
  constexpr std::size_t kMost = 200;
  const std::string_view text = trim(printed);
  if (text.empty()) return "nothing";
  if (text.size() <= kMost && text.find('\n') == text.npos) return std::string(text);
  Fingerprint all;
  all.add(text);
  return fmt::format("{} ..., {} bytes, {}", text.substr(0, std::min(text.find('\n'), kMost)), text.size(),
                     all.str());
}

void ShellProgress::look(WhenSeen seen) {
  using Look = job::RestartOption::NoProgress::Look;
  waiting_.push_back(std::move(seen));
  switch (option().look) {
    case Look::output: return tell("");
    case Look::file: return tell(look_at_file(option().what));
    case Look::command: break;
  }
  if (!command_.runs()) run();
}

void ShellProgress::run() {
  task::CommandRun::What what{in_quotes(option().what), {"/bin/sh", "-c", option().what}};
  what.variables = {{"FLUX_JOB_ID", host_.job().f58()}};
  what.most = kMostTime;
  what.ends_with_shell = true;
  Result<void> started = command_.start(std::move(what), [this](const Result<std::string>& printed) {
    tell(printed ? Result<std::string>(short_print(*printed)) : printed);
  });
  if (!started) tell(std::move(started).error());
}

void ShellProgress::tell(const Result<std::string>& what) {
  if (!what && !host_.ending())
    host_.log().log(Level::warn, "", "restart: no-progress: {}: this restart does not count", what.error().message);
  const std::optional<std::string> seen = what ? std::optional(*what) : std::nullopt;
  for (const WhenSeen& each : std::exchange(waiting_, {})) each(seen);
}

std::string ShellProgress::number_of(const value::Idset& ranks) const {
  plugin::TaskOutput* output = host_.task_output();
  std::optional<double> most;
  for (const auto& task : host_.tasks()) {
    if (output == nullptr || !ranks.contains(static_cast<value::Idset::Id>(task->rank()))) continue;
    if (task->state() == task::State::exited) output->read_now(task->rank());
    const auto number = output->largest_number(task->rank(), option().what);
    if (number) most = std::max(most.value_or(number->value), number->value);
  }
  return most ? fmt::format("{}", *most) : "";
}

namespace {

// " of 3"; "" where there is no limit of its own.
std::string of_most(std::uint64_t restarts) {
  return restarts == job::RestartOption::kMost ? "" : fmt::format(" of {}", restarts);
}

}  // namespace

Result<void> ShellRestart::serve() {
  option_ = TRY(job::RestartOption::read(host_.options()));
  if (option_.is_on() && option_.scope != job::RestartOption::Scope::task &&
      host_.options().find("at-most") != nullptr)
    return host_.options().at("restart")->error(
        "with scope=job and scope=node tasks start together, and at-most lets some wait for others: leave out one "
        "of "
        "them");
  if (!option_.is_on()) return {};
  if (host_.options().is_switched_on("pty"))
    return host_.options().at("restart")->error(
        "a task with a terminal (pty) cannot be started again: leave out one of them");
  grace_ = event::Seconds(TRY(job::kill_timeout(host_.options())).seconds());
  elastic::Restarts::Limits limits;
  limits.job = option_.max;
  reports_.set_most(option_.max);
  if (option_.scope == job::RestartOption::Scope::node) requests_.take_node();
  limits.per_task = option_.per_task.value_or(limits.per_task);
  limits.first = option_.first.seconds();
  limits.longest = option_.longest.seconds();
  restarts_.emplace(limits);
  recovery_.emplace(job_, *restarts_,
                    [this](std::uint32_t shell) { return !end_.is_decided() && shells_.roster().stays(shell); });
  if (option_.where == job::RestartOption::Where::spare) recovery_->use_spares(shares_cores(host_.options()));
  if (option_.no_progress) recovery_->watch(progress_.emplace(host_, option_).noted());
  turn_ = TRY(event::Timer::create(host_.loop(), [this] {
    if (auto why = std::exchange(no_progress_, std::nullopt); why && together_)
      return raise_no_progress(together_->plan().failed, *why);
    look_and_ask();
    ask_for_spares();
  }));
  announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == RestartOrders::kOrdered) return ordered(bytes);
    if (topic == kToSpare) return asked_for_spare(bytes);
    if (topic != Message::kAsked && topic != Message::kAnswered) return;
    auto message = Message::parse(bytes, job_.shells());
    if (!message)
      return host_.log().log(Level::warn, "", "restart: an announcement that this version does not understand");
    if (topic == Message::kAsked) return announced(*message);
    message->ends.empty() ? answered_order(*message) : decide_together(*message);
  });
  ShellTasks::Restarting restarting;
  restarting.started = [this](const task::Task& task) { started(task); };
  restarting.keeps = [this](task::Task& task) { return keep(task); };
  restarting.signalled = [this](int signum, const group::Targets& which) { signalled(signum, which); };
  restarting.end = [this] { drop_all(); };
  tasks_.set_restarting(std::move(restarting));
  serve_orders();
  answers_.serve([this] { return together_.has_value(); });
  return {};
}

// ---- an end of a task of this shell ------------------------------------------------------------

bool ShellRestart::keep(task::Task& task) {
  const Rank rank = task.rank();
  bool is_ordered = orders_.has(rank);
  orders_.drop(rank);
  // The job has begun to end while this restart was ending the task.
  if (host_.ending() && (is_ordered || (together_ && together_->ends_tasks()))) tasks_.note_victim(rank);
  if (together_ && !host_.ending()) {
    keep_together(task);
    return true;
  }
  if (asks_for_node() && !host_.ending()) {  // the decision is for this one as well
    keep_asking(task, tasks_.record_of(task), false, is_ordered);
    if (requests_.has_unsent()) requests_.add(rank);
    return true;
  }
  if (host_.ending() || shrink_.leaves() || !rules_.wants(task, is_ordered)) return false;
  auto takes_all = rules_.takes_all(task);
  if (!takes_all)
    reports_.refused(value::Idset::range(rank, rank), job_.shell_rank, tasks_.record_of(task),
                     takes_all.error().message);
  if (!takes_all || host_.ending()) return false;
  exits::Record record = is_ordered ? exits::Record::victim(task.status()) : tasks_.record_of(task);
  // Ends without a delay are announced at once. A task that has only lost another one waits for that one's end.
  bool is_first = !requests_.has_unsent();
  keep_asking(task, record, *takes_all, is_ordered);
  requests_.add(rank);
  bool is_together = *takes_all || option_.scope == job::RestartOption::Scope::node;
  bool waits = is_together && !is_ordered && kept_.at(rank).failure.origin == exits::Origin::peer;
  if (!waits || is_first) turn_->start(waits ? kSettle : event::Seconds::zero());
  return true;
}

void ShellRestart::look_and_ask() {
  if (!progress_ || !requests_.has_unsent()) return ask();
  progress_->look([this](const std::optional<std::string>& what) {
    seen_ = what;
    ask();
  });
}

void ShellRestart::ask() {
  auto look = [this](Message& message) { look_at_ends(message); };
  requests_.send(kept_, look, [this](Rank rank) { refused(rank); });
}

void ShellRestart::keep_asking(task::Task& task, const exits::Record& record, bool whole, bool is_ordered) {
  kept_.emplace(task.rank(), KeptEnd{&task, record, plugin::failure_of(host_, task, record), whole, is_ordered});
  task.set_starts_again(true);
}

// An end by a signal that a user has sent is no failure; nor is any end once all tasks are to end.
void ShellRestart::signalled(int signum, const group::Targets& which) {
  if (signals_itself_) return;
  const bool ends = RestartRules::is_to_end(signum);
  const bool is_node = together_ && together_->plan().is_node;
  if (together_ && !is_node && !which && ends && !host_.ending()) {
    auto status = value::WaitStatus::killed(signum);
    return host_.raise({"exec", 0, fmt::format("{}, while the job was to start again", status.str()), status});
  }
  for (auto& [rank, signals] : moving_.coming) {
    if (ends && (!which || which->contains(rank))) signals.insert(signum);
  }
  bool ends_node = false;
  for (const auto& task : tasks_.all()) {
    Rank rank = task->rank();
    if (which && !which->contains(rank)) continue;
    if (task->state() == task::State::running) rules_.note_signal(rank, signum);
    auto kept = kept_.find(rank);
    bool is_kept = kept != kept_.end();
    if (ends && is_kept && (kept->second.state == State::moving || (is_node && together_->is_moving()))) {
      moving_.late[rank].insert(signum);
      continue;
    }
    bool waits = is_kept && kept->second.state < State::starting;
    ends_node =
        ends_node ||
        (ends && ((is_node && !(is_kept && kept->second.state == State::starting)) || (waits && asks_for_node())));
    if (waits && ends && !ends_node) drop(rank);
  }
  if (ends_node) drop_node();
}

// ---- in the order of the log -------------------------------------------------------------------

void ShellRestart::announced(const Message& message) {
  if (message.ends.empty()) return shells_.leads() ? answers_.answer_order() : void();
  if (!message.whole && option_.scope == job::RestartOption::Scope::node) return decide_together(message);
  bool is_mine = message.shell == job_.shell_rank;
  elastic::Recovery::Alone decided = recovery_->decide(message);
  for (const Decision& each : decided.decisions) {
    if (each.is_granted()) shells_.all_tasks().expect(each.ranks, each.attempt);
  }
  for (Rank rank : decided.fallen.ids()) {
    if (is_mine) refused(rank);
  }
  if (message.whole && decided.fallen.empty()) answers_.note_asked(message);
  for (const Decision& each : decided.decisions) {
    reports_.decided(message.shell, each);
    if (each.ends_job && is_mine) raise_no_progress({*each.ranks.first(), each.record}, each.why_not);
    for (Rank rank : each.ranks.ids()) {
      if (is_mine) each.why_not.empty() ? granted(rank, each) : refused(rank);
    }
  }
}

void ShellRestart::refused(Rank rank) {
  auto kept = kept_.find(rank);
  if (kept == kept_.end() || kept->second.state != State::asked) return;
  task::Task* task = kept->second.task;
  kept_.erase(kept);
  task->set_starts_again(false);
  tasks_.end_for_good(*task);
}

void ShellRestart::granted(Rank rank, const Decision& decision) {
  auto kept = kept_.find(rank);
  if (kept == kept_.end()) {  // this shell has given it up meanwhile
    if (auto before = before_answer_.extract(rank)) tasks_.record_end(rank, before.mapped());
    return;
  }
  KeptEnd& of = kept->second;
  of.attempt = decision.attempt;
  of.restarts = job_.restarts;
  of.state = State::waiting;
  auto timer = event::Timer::create(host_.loop(), [this, rank] { wait_is_over(rank); });
  if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
  of.timer = *std::move(timer);
  of.timer->start(event::Seconds(decision.delay));
  of.task->kill_left();
  tasks_.call_exit(*of.task);
}

void ShellRestart::started(const task::Task& task) {
  const auto rank = static_cast<Rank>(task.rank());
  requests_.started(rank);
  rules_.forget_signals(rank);
  kept_.erase(rank);
  auto late = moving_.coming.extract(rank);
  if (late.empty()) return;
  for (int signum : late.mapped()) tasks_.kill(signum, value::Idset::range(rank, rank));
}

// ---- the start, or none --------------------------------------------------------------------------

bool ShellRestart::is_due() const {
  if (together_) return together_->is_due();
  return std::any_of(kept_.begin(), kept_.end(), [](const auto& each) { return each.second.state == State::due; });
}

Result<void> ShellRestart::start_due(const std::function<void()>& wait_for_holds) {
  wait_for_holds();  // for what plugins do after the end of a task, such as its epilog
  if (host_.ending()) return {};
  // A restart of all that has begun meanwhile still waits for the ends of tasks.
  if (together_) return together_->is_due() ? start_together(wait_for_holds) : Result<void>();
  value::Idset ranks;
  for (auto& [rank, each] : kept_) {
    if (each.state != State::due) continue;
    ranks.insert(rank);
    each.state = State::starting;
    tasks_.renew(each.task->local_id(), each.attempt, each.restarts);
  }
  if (ranks.empty()) return {};
  plugin::Call call("shell.restart");
  call.in = {{"ranks", ranks.str()}, {"all", false}};
  TRY(host_.stack().call(call));
  wait_for_holds();
  if (host_.ending() || together_ || shrink_.leaves()) return {};
  return start_tasks();
}

Result<void> ShellRestart::start_tasks() {
  is_starting_ = true;
  Result<void> started = tasks_.start();
  is_starting_ = false;
  std::erase_if(kept_, [](const auto& each) { return each.second.state == State::starting; });  // could not start
  // In a shell that has just joined, and has no tasks, this restart may have begun before.
  if (together_ && !together_->ends_tasks()) together_->end_tasks(grace_);
  return started;
}

// The task is not started again, and its last end counts.
void ShellRestart::drop(Rank rank) {
  auto node = kept_.extract(rank);
  KeptEnd& kept = node.mapped();
  if (is_starting_ && kept.state == State::starting) return;  // the end of its new start counts
  kept.task->set_starts_again(false);
  if (kept.state == State::asked) {
    before_answer_.emplace(rank, kept.record);
    return tasks_.end_for_good(*kept.task);
  }
  tasks_.record_end(rank, kept.record);
}

void ShellRestart::drop_all() {
  orders_.drop_all();
  while (!kept_.empty()) drop(kept_.begin()->first);
  together_.reset();
  reports_.drop();
}

// ---- lost restart -----------------------------------------------------------------------
//
// ShellRestart where all tasks start again with those of a lost shell, which start elsewhere: PMI knows no second
// start of a single rank. If they wait to start again already it uses no other restart.

Result<bool> ShellRestart::takes_all_with_lost(const value::Idset& connected) const {
  using When = job::RestartOption::When;
  const bool by_itself = option_.is_on() && option_.when != When::on_request;
  if (!by_itself && !waits_together()) {
    if (host_.stack().find("pmix") != nullptr && TRY(rules_.pmi_takes_all(value::Idset::kMaxId, "pmix")))
      return Error{ENOTSUP,
                   "the tasks' PMIx server (pmi=pmix) does not take a rank that starts again elsewhere, but all of "
                   "them (restart=on-failure)"};
    if (connected.empty()) return false;
    return Error{ENOTSUP,
                 fmt::format("rank {} {} called PMI init and not finalize, and PMI does not take a rank that "
                             "starts again, but all of them (restart=on-failure)",
                             connected.str(), connected.size() == 1 ? "has" : "have")};
  }
  bool takes_all = TRY(rules_.pmi_takes_all(value::Idset::kMaxId)) || !connected.empty() ||
                   (by_itself && option_.scope == job::RestartOption::Scope::job);
  std::string why = takes_all ? answers_.why_not() : "";
  if (!why.empty()) return Error{ECANCELED, std::move(why)};
  return takes_all;
}

elastic::Replacement::All ShellRestart::all_with_lost() const {
  elastic::Replacement::All out{job_.restarts, answers_.ran()};
  if (waits_together()) out.delay = together_->plan().delay;
  return out;
}

std::optional<elastic::RestartDecision> ShellRestart::start_with_lost(const elastic::Replacement& what) {
  const value::Idset spares = job_.spare_shells();
  auto decision = recovery_ ? recovery_->decide_replacement(what) : std::nullopt;
  if (!decision || !decision->is_granted()) return decision;
  std::string number =
      decision->last > 0 ? fmt::format(" (restart {}{})", decision->last, of_most(option_.max)) : "";
  shells_.moved(what.moves, spares,
                fmt::format(", and with it all tasks of the job {}{}", when_of(*decision), number));
  reports_.decided(what.from(), *decision);
  for (Rank rank : decision->together.ids())
    shells_.all_tasks().expect(value::Idset::range(rank, rank), job_.attempt_of(rank));
  begin_together(*decision, what.from());
  return decision;
}

// ---- resize -----------------------------------------------------------------------------
//
// ShellRestart where all tasks start again as another number of them. Until they start this shell's have the ranks
// from before, and the job has the next ones.

std::optional<elastic::RestartDecision> ShellRestart::start_resized(const elastic::JobResize& what) {
  if (!recovery_) return std::nullopt;
  const ChangeNotices::Size before{job_.tasks(), job_.nodes_in_use()};
  moving_.last = host_.last_with_tasks();
  auto decision = recovery_->decide_resize(what);
  if (!decision || !decision->is_granted()) return decision;
  job::set_size_variables(host_.environment(), job_);
  tasks_.expect_ranks(job_.taskmap.ranks_on(job_.shell_rank));
  moving_.coming.clear();
  moving_.late.clear();
  shells_.all_tasks().expect(value::Idset::range(0, static_cast<Rank>(job_.most_tasks() - 1)), job_.attempt_of(0));
  std::string number =
      decision->last > 0 ? fmt::format(" (restart {}{})", decision->last, of_most(option_.max)) : "";
  shells_.resized(what, before, fmt::format("all start again {}{}", when_of(*decision), number));
  const group::Rank shell = what.lost.value_or(job_.leader);
  reports_.decided(shell, *decision);
  begin_together(*decision, shell);
  return decision;
}

// The places of this shell's tasks stay, and their ranks change.
value::Idset ShellRestart::renumber() {
  const value::Idset ranks = job_.taskmap.ranks_on(job_.shell_rank);
  std::map<Rank, KeptEnd> before = std::exchange(kept_, {});
  std::size_t place = 0;
  for (Rank rank : ranks.ids()) {
    if (place == tasks_.all().size()) break;
    auto kept = before.extract(static_cast<Rank>(tasks_.all()[place++]->rank()));
    if (kept) kept_.emplace(rank, std::move(kept.mapped()));
  }
  const std::uint32_t attempt = job_.attempt_of(ranks.first().value_or(0));
  tasks_.renumber(ranks, attempt, together_->plan().restarts);
  return ranks;
}

// ---- spare restart ----------------------------------------------------------------------
//
// ShellRestart with where=spare: tasks that start again do so on a spare, if one can take them. Once their wait is
// over their shell asks for one, and in the order of the log all shells ask elastic::Recovery alike which it is. So
// it is for single tasks and for those of a shell (scope=node), which have ended by then. Where all tasks of the
// job start again it is decided with that: they start once all have ended.
//
// A signal to end them that comes while they have asked is sent on to where they start.

namespace {

void report_places(plugin::Host& host, group::Rank shell, const elastic::SparePlaces& places) {
  const auto& nodes = host.job().resources.nodes;
  auto raise = [&](const value::Idset& ranks, const std::string& where) {
    host.raise({"restart", 2,
                fmt::format("rank {}{} {} again {}", ranks.short_str(), nodes[shell].on(),
                            ranks.size() == 1 ? "starts" : "start", where),
                std::nullopt});
  };
  for (const job::Move& each : places.moves)
    raise(each.ranks, fmt::format("on the spare shell {}{}", each.to, nodes[each.to].on()));
  if (!places.stay.empty()) raise(places.stay, "where it was: " + places.why);
}

}  // namespace

bool ShellRestart::may_take(group::Rank shell) const {
  return recovery_ ? recovery_->may_take(shell) : shells_.roster().stays(shell);
}

bool ShellRestart::asks_for_spares() const {
  return option_.where == job::RestartOption::Where::spare && shells_.has_others();
}

void ShellRestart::come(const value::Idset& ranks) {
  if (!recovery_) return;
  for (Rank rank : ranks.ids()) moving_.coming[rank];
}

// ---- of tasks of this shell --------------------------------------------------------------------

void ShellRestart::wait_is_over(Rank rank) {
  KeptEnd& kept = kept_.at(rank);
  kept.state = asks_for_spares() && !kept.ordered ? State::moving : State::due;
  if (kept.state != State::moving) return;
  moving_.unsent.push_back(rank);
  turn_->start(event::Seconds::zero());  // those that are due at once are asked for at once
}

void ShellRestart::ask_for_spares() {
  ask_for_spare_together();
  elastic::SpareRequest asked{job_.shell_rank, false, {}};
  for (Rank rank : std::exchange(moving_.unsent, {})) {
    auto kept = kept_.find(rank);
    if (kept != kept_.end() && kept->second.state == State::moving)
      asked.starts.emplace_back(rank, kept->second.attempt);
  }
  if (asked.starts.empty()) return;
  Result<void> sent = host_.announce(kToSpare, asked.text());
  if (sent) return;
  host_.log().log(Level::error, "", "restart: {}", sent.error().message);
  for (const auto& [rank, attempt] : asked.starts) placed(rank, {{}, value::Idset::range(rank, rank), ""});
}

void ShellRestart::wait_together_is_over() {
  if (!together_->plan().is_node || together_->plan().ordered || !asks_for_spares()) return together_->set_due();
  together_->set_moving();
  turn_->start(event::Seconds::zero());
}

void ShellRestart::ask_for_spare_together() {
  if (!together_ || !together_->begin_asking()) return;
  elastic::SpareRequest asked{job_.shell_rank, true, {}};
  const value::Idset ranks = job_.taskmap.ranks_on(job_.shell_rank);
  for (Rank rank : ranks.ids()) asked.starts.emplace_back(rank, job_.attempt_of(rank));
  Result<void> sent = host_.announce(kToSpare, asked.text());
  if (sent) return;
  host_.log().log(Level::error, "", "restart: {}", sent.error().message);
  placed_together({{}, ranks, ""});
}

// ---- in the order of the log -------------------------------------------------------------------

void ShellRestart::asked_for_spare(std::string_view bytes) {
  auto asked = elastic::SpareRequest::parse(bytes, job_.shells(), job_.tasks());
  if (!asked)
    return host_.log().log(Level::warn, "", "restart: an announcement that this version does not understand");
  elastic::SparePlaces places = recovery_->place(*asked);
  shells_.notices().moved(places.moves, false);
  if (shells_.leads()) report_places(host_, asked->shell, places);
  if (moving_.moved) moving_.moved(places.moves);
  if (asked->shell != job_.shell_rank) return;
  if (asked->together) return placed_together(places);
  for (const auto& [rank, attempt] : asked->starts) placed(rank, places);
  if (job_.taskmap.tasks_on(job_.shell_rank) == 0) tasks_.remove_moved();
}

void ShellRestart::placed(Rank rank, const elastic::SparePlaces& places) {
  auto kept = kept_.find(rank);
  if (kept == kept_.end() || kept->second.state != State::moving) return;
  const bool stays = places.stay.contains(rank);
  if (!stays && job_.taskmap.node_of(rank) == job_.shell_rank) return;  // something else has come before it
  const std::set<int> late = moving_.take_late(rank);
  if (stays && late.empty()) {
    kept->second.state = State::due;
    return;
  }
  if (stays) return drop(rank);
  kept_.erase(kept);
  tasks_.has_left(rank);
  for (int signum : late) host_.signal_tasks(signum, value::Idset::range(rank, rank));
}

void ShellRestart::placed_together(const elastic::SparePlaces& places) {
  if (!together_ || !together_->is_moving()) return;
  const bool is_moved = !places.moves.empty();
  if (!is_moved && places.stay.empty()) return;  // something else has come before it
  auto late = std::exchange(moving_.late, {});
  if (is_moved) {
    together_.reset();
    kept_.clear();
    tasks_.remove_moved();
    for (const auto& [rank, signals] : late) {
      for (int signum : signals) host_.signal_tasks(signum, value::Idset::range(rank, rank));
    }
  } else if (!late.empty()) {
    drop_node();
  } else {
    together_->set_due();
  }
}

// ---- whole restart ----------------------------------------------------------------------
//
// ShellRestart where tasks start again together, because one of them does or by `nacre restart`. All of the job:
// the leader grants it; each shell ends its tasks, waits for the others, and starts them anew. All of a shell
// (scope=node): that shell does so, and waits for no other.

namespace {

// With scope=node: a signal has ended it before the decision came.
bool is_given_up(const elastic::RestartDecision& decision, const std::map<value::Idset::Id, KeptEnd>& kept) {
  auto ranks = decision.ranks.ids();
  return !decision.whole &&
         std::any_of(ranks.begin(), ranks.end(), [&](value::Idset::Id rank) { return !kept.contains(rank); });
}

}  // namespace

// ---- every shell's -----------------------------------------------------------------------------

// With scope=node: an end has been kept back, and the decision is still to come.
bool ShellRestart::asks_for_node() const {
  return option_.scope == job::RestartOption::Scope::node &&
         std::any_of(kept_.begin(), kept_.end(),
                     [](const auto& each) { return each.second.state == State::asked && !each.second.whole; });
}

void ShellRestart::decide_together(const Message& message) {
  moving_.last = host_.last_with_tasks();
  Decision decision = recovery_->decide_together(message);
  const bool is_mine = message.shell == job_.shell_rank;
  shells_.notices().moved(decision.places.moves, true);
  if (decision.stands) reports_.decided(message.shell, decision, message.whole && progress_);
  if (decision.is_granted()) {
    for (Rank rank : decision.together.ids())
      shells_.all_tasks().expect(value::Idset::range(rank, rank), job_.attempt_of(rank));
    if (moving_.moved) moving_.moved(decision.places.moves);
    if (message.whole || is_mine) begin_together(decision, message.shell);
    return;
  }
  if (!is_mine) return;
  if (decision.ends_job) raise_no_progress({*decision.first_failed.first(), decision.record}, decision.why_not);
  value::Idset refused_ones = decision.ranks;
  // With scope=node the ends of this shell that were kept back with it are no others, either.
  for (const auto& [rank, kept] : kept_) {
    if (!message.whole && kept.state == State::asked && !kept.whole) refused_ones.insert(rank);
  }
  for (Rank rank : refused_ones.ids()) refused(rank);
}

// ---- by nacre restart --------------------------------------------------------------------------

void ShellRestart::serve_orders() {
  auto takes_all = [this](const task::Task& task) -> Result<bool> {
    if (shrink_.leaves()) return Error{ECANCELED, "its shell is about to leave the job"};
    if (together_) return Error{EALREADY, "it waits for its next start"};
    return rules_.takes_all(task);
  };
  orders_.serve({std::move(takes_all), [this] { requests_.order_all(); },
                 [this](int signum, const value::Idset& ranks) {
                   // Only what users send from now on prevents the next start.
                   if (signum == SIGTERM) {
                     for (Rank rank : ranks.ids()) rules_.forget_signals(rank);
                   }
                   signals_itself_ = true;
                   tasks_.kill(signum, ranks);
                   signals_itself_ = false;
                 }},
                grace_);
}

void ShellRestart::ordered(std::string_view bytes) {
  auto ranks = RestartOrders::parse(bytes);
  if (!ranks) return host_.log().log(Level::warn, "", "restart: an order that this version does not understand");
  if (end_.is_decided()) return;
  if (*ranks && option_.scope != job::RestartOption::Scope::job) return orders_.end(**ranks);
  if (shells_.leads()) answers_.answer_order();
}

void ShellRestart::answered_order(const Message& message) {
  answers_.order_answered();
  if (end_.is_decided()) return;
  auto decision = recovery_->decide_order(message);
  if (!decision) return shells_.leads() ? answers_.answer_order() : void();
  reports_.decided(message.shell, *decision);
  for (Rank rank : decision->together.ids())
    shells_.all_tasks().expect(value::Idset::range(rank, rank), job_.attempt_of(rank));
  begin_together(*decision, message.shell);
}

// ---- all tasks start again ---------------------------------------------------------------------

void ShellRestart::begin_together(const Decision& decision, group::Rank shell) {
  // Those that it has given up meanwhile end the job.
  for (auto& [rank, record] : std::exchange(before_answer_, {})) tasks_.record_end(rank, record);
  if (is_given_up(decision, kept_)) {  // the tasks go on; known ends also count under the new starts
    for (Rank rank : tasks_.outcomes().ranks().ids()) tasks_.record_end(rank, *tasks_.outcomes().of(rank));
    return;
  }
  if (host_.ending() || shrink_.leaves()) return;
  if (finished_) return raise_finished(decision);
  if (together_) together_->leave();
  const std::uint32_t before = decision.places.moves.empty() && !decision.resizes ? 0 : moving_.last;
  const std::uint32_t last = std::max(host_.last_with_tasks(), before);
  RestartTogether::Calls calls;
  calls.kill = [this](int signum) {
    signals_itself_ = true;
    host_.kill_tasks(signum);
    signals_itself_ = false;
  };
  calls.ended = [this] { ended_together(); };
  calls.may_start = [this](const plugin::Gathered& given) { return may_start_together(given); };
  calls.over = [this] { wait_together_is_over(); };
  RestartTogether::Plan plan{job_.restarts, decision.delay, !decision.whole, last, decision.ordered, shell};
  const value::Idset& which = decision.first_failed.empty() ? decision.ranks : decision.first_failed;
  plan.failed = {which.first().value_or(0), decision.record};
  together_.emplace(host_, tasks_, plan, std::move(calls));
  for (const auto& task : tasks_.all()) {
    // One that has gone to another shell before is no task of this one; one that goes now is, until it has ended.
    bool has_gone = !tasks_.expects_ranks() && job_.taskmap.node_of(task->rank()) != job_.shell_rank &&
                    !decision.moves(task->rank());
    if (task->state() == task::State::exited && !has_gone && !host_.ending()) keep_together(*task);
  }
  if (together_ && !is_starting_) together_->end_tasks(grace_);  // otherwise once those that are being started run
}

// The job ends as the task has that was to start again with them.
void ShellRestart::raise_finished(const Decision& decision) {
  std::string what = fmt::format("shell {}{}: its tasks had ended when all were to start again", job_.shell_rank,
                                 job_.node().on());
  const auto& status = decision.record.status();
  bool has_failed = host_.exit_policy().is_failure(decision.record) && status && !decision.ranks.empty();
  if (!has_failed) return host_.raise({"exec", 0, what, value::WaitStatus::exited(1)});
  Rank rank = *(decision.first_failed.empty() ? decision.ranks : decision.first_failed).first();
  host_.raise({"exec", 0, fmt::format("{}, as rank {} {}", what, rank, status->str()), status,
               exits::TaskEnd{rank, decision.record}});
}

// Its end counts only if nothing starts again, and then as one that this restart has brought about, unless it came
// before.
void ShellRestart::keep_together(task::Task& task) {
  Rank rank = task.rank();
  auto kept = kept_.find(rank);
  if (kept == kept_.end()) {
    auto known = tasks_.outcomes().of(rank);  // it had ended for good
    tasks_.forget_end(rank);
    exits::Record record = known ? *known : exits::Record::victim(task.status());
    kept = kept_
               .emplace(rank, KeptEnd{&task, record, exits::FailureFacts{rank, record}, true, false,
                                      known ? State::waiting : State::asked})
               .first;
  }
  bool is_new = std::exchange(kept->second.state, State::together) == State::asked;
  kept->second.timer.reset();
  task.set_starts_again(true);
  if (is_new) {
    auto takes_all = together_->plan().is_node ? rules_.pmi_takes_all(rank) : Result<bool>(false);
    task.kill_left();
    tasks_.call_exit(task);
    if (!takes_all || *takes_all)  // it has not been so when the tasks were to start again without the others
      return host_.raise({"exec", 0,
                          fmt::format("rank {}{} cannot start again with the tasks of its shell only: {}", rank,
                                      shells_.has_others() ? job_.node().on() : "",
                                      takes_all ? "tasks have called PMI init" : takes_all.error().message),
                          value::WaitStatus::exited(1)});
  }
  if (together_) together_->task_ended();
}

// A signal for tasks of this shell cancels it: those that have ended have their records, those that are being ended
// get them.
void ShellRestart::drop_node() {
  value::Idset ending;
  for (const auto& task : tasks_.all()) {
    if (!together_ || !together_->ends_tasks() || task->state() != task::State::running) continue;
    ending.insert(task->rank());
    rules_.note_signal(static_cast<Rank>(task->rank()), SIGTERM);
  }
  together_.reset();
  while (!kept_.empty()) drop(kept_.begin()->first);
  if (ending.empty()) return;
  auto timer = event::Timer::create(host_.loop(), [this, ending] { tasks_.kill(SIGKILL, ending); });
  if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
  last_kill_ = *std::move(timer);
  last_kill_->start_grace(grace_);
}

value::Idset ShellRestart::renew_together() {
  if (tasks_.expects_ranks()) return renumber();
  value::Idset ranks;
  if (!together_->plan().is_node) {
    tasks_.remove_moved();
    std::erase_if(kept_, [this](const auto& each) { return job_.taskmap.node_of(each.first) != job_.shell_rank; });
  }
  for (std::size_t id = 0; id < tasks_.all().size(); ++id) {
    const task::Task& task = *tasks_.all()[id];
    // Those that have come here meanwhile have not been started, or run.
    if (!kept_.contains(task.rank()) && task.state() != task::State::init) continue;
    ranks.insert(task.rank());
    tasks_.renew(id, job_.attempt_of(task.rank()), together_->plan().restarts);
  }
  return ranks;
}

Result<void> ShellRestart::start_together(const std::function<void()>& wait_for_holds) {
  const value::Idset ranks = renew_together();
  for (auto& [rank, each] : kept_) each.state = State::starting;
  plugin::Call call("shell.restart");
  call.in = {{"ranks", ranks.str()}, {"all", !together_->plan().is_node}};
  const std::uint64_t restarts = together_->plan().restarts;
  TRY(host_.stack().call(call));
  wait_for_holds();
  bool stands = together_ && together_->plan().restarts == restarts;  // all tasks of the job may start again by now
  if (host_.ending() || !stands) return {};
  together_.reset();
  has_looked_ = false;
  answers_.note_start();
  Result<void> started = start_tasks();
  if (on_started_ && !together_) on_started_();
  return started;
}

// ---- no progress ------------------------------------------------------------------------
//
// ShellRestart with no-progress: what is seen of tasks that have ended goes with what their shell asks, and all
// shells decide by it alike. Where all tasks of the job start again it is seen when they have ended: each shell
// gives the numbers of its own to the others, and the leader what else there is to see.

void ShellRestart::look_at_ends(Message& asked) {
  if (!progress_ || asked.whole || asked.ordered || !seen_) return;
  asked.at = event::wall_clock();
  asked.seen.clear();
  const bool is_node = option_.scope == job::RestartOption::Scope::node;
  if (!progress_->is_of_output()) {
    asked.seen.push_back(*seen_);
  } else if (is_node) {
    asked.seen.push_back(progress_->number_of(job_.taskmap.ranks_on(job_.shell_rank)));
  } else {
    for (const elastic::RestartEnd& each : asked.ends)
      asked.seen.push_back(progress_->number_of(value::Idset::range(each.rank, each.rank)));
  }
}

// What the leader has looked at in vain counts once, though another restart comes before the tasks have started.
void ShellRestart::ended_together() {
  if (!progress_ || together_->plan().ordered || has_looked_) return together_->enter("");
  const value::Idset all = value::Idset::range(0, static_cast<Rank>(job_.most_tasks() - 1));  // those before, too
  const std::string number = progress_->is_of_output() ? progress_->number_of(all) : "";
  if (!shells_.leads()) return together_->enter(number.empty() ? "" : elastic::ProgressPart{number}.text());
  progress_->look([this, number, restarts = together_->plan().restarts](const std::optional<std::string>& what) {
    if (!together_ || together_->plan().restarts != restarts) return;  // another one has come before it
    const std::string& seen = progress_->is_of_output() ? number : what.value_or("");
    has_looked_ = what.has_value();
    together_->enter(what ? progress_->noted().leaders_part(seen, event::wall_clock()).text() : "");
  });
}

// The leader raises what ends the job; the others wait for that.
bool ShellRestart::may_start_together(const plugin::Gathered& given) {
  const RestartTogether::Plan& plan = together_->plan();
  auto still = progress_ && !plan.ordered ? progress_->noted().note_all(given, plan.failed_on, plan.failed.record)
                                          : std::nullopt;
  if (!still) {
    reports_.let_out();
    return true;
  }
  reports_.drop();
  if (shells_.leads()) {
    no_progress_ = still->text(option_, job_, true);
    turn_->start(event::Seconds::zero());  // as the end of the job destroys who calls this
  }
  return false;
}

// The exit code is that of the task, unless it is none.
void ShellRestart::raise_no_progress(const exits::TaskEnd& failed, const std::string& message) {
  plugin::RaisedException end{"no-progress", 0, message, std::nullopt};
  const bool is_own = failed.record.kind() == exits::Record::Kind::ended;
  if (is_own && host_.exit_policy().is_failure(failed.record)) end.task = failed;
  host_.raise(end);
}

// ---- restart answers --------------------------------------------------------------------

void RestartAnswers::all_started() {
  all_started_ = true;
  note_start();
  for (const Message& each : std::exchange(unanswered_, {})) answer(each);
}

void RestartAnswers::note_asked(const Message& message) {
  if (shells_.leads()) return answer(message);
  std::erase_if(asked_, [this](const Message& each) { return !is_open(each); });
  asked_.push_back(message);
}

bool RestartAnswers::is_open(const Message& message) const {
  const elastic::RestartEnd& end = message.ends.front();
  return host_.job().attempt_of(end.rank) == end.attempt;
}

void RestartAnswers::take_over() {
  for (const Message& each : std::exchange(asked_, {})) {
    if (is_open(each)) answer(each);
  }
}

// What was asked of a start that does not count any more has had its answer.
void RestartAnswers::loss_closes(group::Rank shell) {
  losses_.remove(shell);
  if (!losses_.empty()) return;
  for (const Message& each : std::exchange(unanswered_, {})) {
    if (is_open(each)) answer(each);
  }
  if (std::exchange(order_waits_, false)) answer_order();
}

void RestartAnswers::note_start() { began_ = event::clock_now(); }

double RestartAnswers::ran() const { return (event::clock_now() - began_).count(); }

void RestartAnswers::answer(const Message& message) {
  if (!all_started_ || !losses_.empty()) return unanswered_.push_back(message);
  if (!shells_.has_others() || !message.origin) return send_answer(message);
  held_.push_back({message, event::clock_now()});
  if (settle_timer_) return;
  auto timer = event::Timer::create(host_.loop(), [this] { settle(); });
  if (!timer) return settle();
  settle_timer_ = *std::move(timer);
  settle_timer_->start(kSettle);
}

// The first of them is granted, or none is.
void RestartAnswers::settle() {
  settle_timer_.reset();
  std::vector<Held> held = std::exchange(held_, {});
  std::erase_if(held, [this](const Held& each) { return !is_open(each.message); });
  if (held.empty()) return;
  if (!losses_.empty()) {
    for (Held& each : held) unanswered_.push_back(std::move(each.message));
    return;
  }
  std::vector<exits::FailureFacts> failures;
  for (const Held& each : held) {
    const elastic::RestartEnd& end = each.message.ends.front();
    exits::FailureFacts& failure =
        failures.emplace_back(exits::FailureFacts{end.rank, end.record, *each.message.origin});
    failure.at = each.at.count();
    failure.clock = each.message.shell;
    failure.uncertainty = kSettle.count() / 2;  // of when it came, to when it was
  }
  exits::Blame blame = exits::first_of(failures);
  std::rotate(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(blame.first),
              held.begin() + static_cast<std::ptrdiff_t>(blame.first) + 1);
  // Where all others have only lost it, what its own shell knows is enough.
  bool is_clear = failures[blame.first].origin == exits::Origin::own &&
                  std::count_if(failures.begin(), failures.end(), [](const exits::FailureFacts& each) {
                    return each.origin != exits::Origin::peer;
                  }) == 1;
  if (held.size() > 1 && !is_clear && held.front().message.doubt.empty())
    held.front().message.doubt = exits::doubt_of(blame.is_certain, failures[blame.first].origin, blame.others);
  for (const Held& each : held) send_answer(each.message);
}

void RestartAnswers::send_answer(const Message& message) {
  Message out = message;
  out.whole = true;
  out.why_not = why_not();
  send(out);
}

void RestartAnswers::answer_order() {
  if (order_is_answered_ || end_.is_decided()) return;
  if (order_waits_ = !losses_.empty(); order_waits_) return;
  std::string why = all_started_ ? why_not() : "the job is still being started";
  if (why.empty() && is_under_way_()) why = "it waits for its next start";
  if (why.empty() && !tasks_.all().empty()) {
    if (auto takes = rules_.pmi_takes_all(tasks_.all().front()->rank()); !takes) why = takes.error().message;
  }
  if (!why.empty()) return orders_.refuse(host_.job().all_ranks(), why);
  Message all;
  all.shell = host_.job().shell_rank;
  all.whole = all.ordered = true;
  all.restarts = host_.job().restarts;
  order_is_answered_ = true;
  send(all);
}

void RestartAnswers::send(const Message& answer) {
  Result<void> sent = host_.announce(Message::kAnswered, answer.answered());
  if (!sent) host_.raise({"exec", 0, "restart: " + sent.error().message, std::nullopt});
}

std::string RestartAnswers::why_not() const {
  constexpr std::string_view kAll = "all tasks would have to start again";
  if (host_.options().find("at-most") != nullptr)
    return fmt::format("{} together, and at-most lets some wait for others", kAll);
  const AllTasks& tasks = shells_.all_tasks();
  const value::Idset over = tasks.outcomes().ranks();
  if (!over.empty())
    return fmt::format("{}, and task {} {} ended for good", kAll, over.str(), over.size() == 1 ? "has" : "have");
  for (group::Rank shell = 0; shell < host_.job().shells(); ++shell) {
    if (!shells_.roster().leaves(shell) || tasks.unfinished_on(shell).empty()) continue;
    return fmt::format("{}, and shell {}{} is about to leave the job with task {}", kAll, shell,
                       host_.job().resources.nodes[shell].on(), tasks.unfinished_on(shell).str());
  }
  return "";
}

// ---- restart orders ---------------------------------------------------------------------

void RestartOrders::serve(Calls calls, event::Seconds grace) {
  calls_ = std::move(calls);
  grace_ = grace;
}

Result<std::optional<value::Idset>> RestartOrders::parse(std::string_view bytes) {
  Json json = TRY(parse_json(bytes));
  auto ranks = TRY(JsonAt::root(json).find("ranks"));
  if (!ranks) return std::nullopt;
  return TRY(value::Idset::parse(TRY(ranks->string())));
}

std::string RestartOrders::why_not(const task::Task& task, bool& takes_all) const {
  if (task.starts_again()) return "it waits for its next start";
  if (task.state() != task::State::running)
    return task.state() == task::State::exited ? "it has ended" : "it has not been started yet";
  auto takes = calls_.takes_all(task);
  if (!takes) return takes.error().message;
  takes_all = *takes;
  return "";
}

Result<void> RestartOrders::begin(Rank rank) {
  const value::Idset one = value::Idset::range(rank, rank);
  auto timer = TRY(event::Timer::create(host_.loop(), [this, one] { calls_.kill(SIGKILL, one); }));
  timer.start_grace(grace_);
  ordered_.emplace(rank, std::move(timer));
  return {};
}

void RestartOrders::end(const value::Idset& ranks) {
  std::map<std::string, value::Idset> refused;
  value::Idset ended;
  value::Idset coming =
      ranks & host_.job().taskmap.ranks_on(host_.job().shell_rank);  // of a lost shell, to this one
  bool all_together = false;
  for (const auto& task : tasks_.all()) {
    Rank rank = task->rank();
    coming.remove(rank);
    if (!ranks.contains(rank) || has(rank)) continue;  // an order before is for both
    bool takes_all = false;
    std::string why = why_not(*task, takes_all);
    if (why.empty() && takes_all) {
      all_together = true;
    } else if (why.empty()) {
      Result<void> begun = begin(rank);
      if (begun)
        ended.insert(rank);
      else
        why = begun.error().message;
    }
    if (!why.empty()) refused[why].insert(rank);
  }
  if (!coming.empty()) refused["it has not been started yet"].insert(coming);
  for (const auto& [why, which] : refused) refuse(which, why);
  if (!ended.empty()) calls_.kill(SIGTERM, ended);
  if (all_together) calls_.order_all();
}

void RestartOrders::refuse(const value::Idset& ranks, const std::string& why) const {
  Result<void> sent = host_.announce(kRefused, dump_json({{"ranks", ranks.str()}, {"why", why}}));
  if (!sent) host_.log().log(Level::error, "", "restart: {}", sent.error().message);
}

// ---- restart reports --------------------------------------------------------------------

namespace {

// That start again together.
std::string all_of(group::Rank shell, const elastic::RestartDecision& decision) {
  return decision.whole ? "all tasks of the job"
                        : fmt::format("all tasks of shell {} (rank {})", shell, decision.together.str());
}

// For a message about all tasks of the job, with where=spare.
std::string places_of(const job::Job& job, group::Rank shell, const elastic::SparePlaces& places) {
  if (places.moves.empty()) return places.why.empty() ? "" : ", where they were: " + places.why;
  const std::uint32_t to = places.moves.front().to;
  return fmt::format(", those of shell {} on the spare shell {}{}", shell, to, job.resources.nodes[to].on());
}

}  // namespace

void RestartReports::decided(group::Rank shell, const elastic::RestartDecision& decision, bool later) {
  let_out();
  if (decision.ends_job) return;  // what ends the job has a line
  const value::Idset& which = decision.first_failed.empty() ? decision.ranks : decision.first_failed;
  if (!decision.why_not.empty())
    return shells_.leads() ? refused(which, shell, decision.record, decision.why_not) : void();
  notify(shell, decision);
  if (!shells_.leads() || decision.resizes) return;  // which has a line, as has a loss
  if (decision.record.kind() == exits::Record::Kind::lost) return;
  if (decision.ordered) return ordered(shell, decision);
  held_ = line_of(shell, decision);
  if (!later) let_out();
}

void RestartReports::let_out() {
  if (!held_.empty()) raise(std::exchange(held_, {}));
}

std::string RestartReports::line_of(group::Rank shell, const elastic::RestartDecision& decision) const {
  const bool is_alone = decision.together.empty();
  const value::Idset& which = decision.first_failed.empty() ? decision.ranks : decision.first_failed;
  bool is_one = decision.ranks.size() == 1;
  std::string when = when_of(decision);
  std::string numbers = decision.first == decision.last ? fmt::format(" {}", decision.last)
                                                        : fmt::format("s {}-{}", decision.first, decision.last);
  std::string what_starts =
      is_alone ? fmt::format("try {} of {} starts {}", decision.attempt, is_one ? "it" : "each", when)
               : fmt::format("{} start again {}{}", all_of(shell, decision), when,
                             places_of(host_.job(), shell, decision.places));
  return fmt::format("rank {}{} {}{}: {} (restart{}{})", which.short_str(),
                     shells_.has_others() ? host_.job().resources.nodes[shell].on() : "",
                     decision.record.status()->str(), decision.doubt, what_starts, numbers, of_most(most_));
}

void RestartReports::notify(group::Rank shell, const elastic::RestartDecision& decision) const {
  const bool is_alone = decision.together.empty();
  Json what{{"ranks", (is_alone ? decision.ranks : decision.together).str()},
            {"ended", decision.ranks.str()},
            {"scope", decision.whole ? "job"
                      : is_alone     ? "task"
                                     : "node"},
            {"shell", shell},
            {"host", host_.job().resources.nodes[shell].hostname},
            {"record", decision.record.str()},
            {"delay", decision.delay}};
  if (decision.resizes) what["resized"] = true;
  if (decision.ordered && !decision.resizes) {
    what["ordered"] = true;
  } else if (decision.last > 0) {  // none: it has come to one that was ordered
    what["restart"] = decision.last;
    what["max"] = most_;
  }
  if (is_alone) what["try"] = decision.attempt;
  if (decision.whole) what["restarts"] = host_.job().restarts;
  shells_.notices().restarted(what);
}

void RestartReports::ordered(group::Rank shell, const elastic::RestartDecision& decision) const {
  std::string on = shells_.has_others() && !decision.whole ? host_.job().resources.nodes[shell].on() : "";
  std::string what = decision.together.empty() ? fmt::format("rank {}{} is started again: try {} starts now",
                                                             decision.ranks.short_str(), on, decision.attempt)
                                               : fmt::format("{}{} start again", all_of(shell, decision), on);
  raise(what + ", as nacre restart has asked");
}

void RestartReports::refused(const value::Idset& ranks, group::Rank shell, const exits::Record& record,
                             std::string_view why) const {
  raise(fmt::format("rank {}{} {}, and {} not started again: {}", ranks.short_str(),
                    shells_.has_others() ? host_.job().resources.nodes[shell].on() : "", record.status()->str(),
                    ranks.size() == 1 ? "is" : "are", why));
}

// ---- restart requests -------------------------------------------------------------------

void RestartRequests::started(Rank rank) { started_[rank] = event::clock_now(); }

void RestartRequests::send(const KeptEnds& kept, const Look& look, const Refuse& refuse) {
  std::map<std::pair<bool, bool>, std::vector<Rank>> ranks;  // by whether they are whole, and ordered
  for (Rank rank : std::exchange(unsent_, {})) {
    auto found = kept.find(rank);
    if (found != kept.end() && found->second.state == KeptEnd::State::asked)
      ranks[{found->second.whole, found->second.ordered}].push_back(rank);
  }
  std::vector<elastic::RestartMessage> messages;  // what is decided about one may end the job
  for (const auto& [how, which] : ranks)
    look(messages.emplace_back(message_of(kept, how.first, how.second, which)));
  for (const elastic::RestartMessage& message : messages) {
    Result<void> sent = host_.announce(elastic::RestartMessage::kAsked, message.asked());
    if (sent) continue;
    host_.log().log(Level::error, "", "restart: {}", sent.error().message);
    for (const elastic::RestartEnd& each : message.ends) refuse(each.rank);
  }
}

elastic::RestartMessage RestartRequests::message_of(const KeptEnds& kept, bool whole, bool ordered,
                                                    std::vector<Rank> ranks) const {
  elastic::RestartMessage message;
  message.shell = host_.job().shell_rank;
  message.whole = whole;
  message.ordered = ordered;
  if (!ordered && (whole || takes_node_)) {
    std::vector<exits::FailureFacts> failures;
    for (Rank rank : ranks) failures.push_back(kept.at(rank).failure);
    exits::Blame blame = exits::first_of(failures);
    std::rotate(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(blame.first),
                ranks.begin() + static_cast<std::ptrdiff_t>(blame.first) + 1);
    message.origin = failures[blame.first].origin;
    message.doubt = exits::doubt_of(blame.is_certain, *message.origin, blame.others);
  }
  for (Rank rank : ranks) {
    const KeptEnd& end = kept.at(rank);
    double ran = (event::clock_now() - started_.at(rank)).count();
    message.ends.push_back({rank, end.task->attempt(), end.record, ran});
  }
  return message;
}

void RestartRequests::order_all() {
  elastic::RestartMessage all;
  all.shell = host_.job().shell_rank;
  all.whole = all.ordered = true;
  Result<void> sent = host_.announce(elastic::RestartMessage::kAsked, all.asked());
  if (!sent) host_.log().log(Level::error, "", "restart: {}", sent.error().message);
}

// ---- restart rules ----------------------------------------------------------------------

namespace {

constexpr std::array kEndingSignals{SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM};

}  // namespace

bool RestartRules::is_to_end(int signum) {
  return std::find(kEndingSignals.begin(), kEndingSignals.end(), signum) != kEndingSignals.end();
}

bool RestartRules::is_chosen(const exits::Record& record) const {
  using When = job::RestartOption::When;
  if (option_.when == When::on_request) return false;
  if (option_.when == When::on_failure && !host_.exit_policy().is_failure(record)) return false;
  return option_.codes.empty() || option_.codes.contains(static_cast<Rank>(record.code()));
}

bool RestartRules::wants(const task::Task& task, bool is_ordered) const {
  exits::Record record = tasks_.record_of(task);
  if (record.kind() != exits::Record::Kind::ended) return false;
  if (!is_ordered && !is_chosen(record)) return false;
  auto sent = signals_.find(task.rank());
  if (sent != signals_.end() && std::any_of(sent->second.begin(), sent->second.end(), [&](int signum) {
        return is_to_end(signum) || task.status().signal() == signum;
      }))
    return false;
  return task.attempt() < elastic::Starts(host_.job().most_tasks()).most();
}

Result<bool> RestartRules::takes_all(const task::Task& task) const {
  using Scope = job::RestartOption::Scope;
  bool takes_all = TRY(pmi_takes_all(task.rank())) || option_.scope == Scope::job;
  std::string why = !takes_all && option_.scope == Scope::node ? why_not_node() : "";
  if (!why.empty()) return Error{ENOTSUP, why};
  return takes_all;
}

// With scope=node: why the tasks of this shell cannot start again.
std::string RestartRules::why_not_node() const {
  const value::Idset& over = tasks_.outcomes().ranks();
  if (over.empty()) return "";
  return fmt::format("all tasks of its shell would have to start again, and task {} {} ended for good", over.str(),
                     over.size() == 1 ? "has" : "have");
}

Result<bool> RestartRules::pmi_takes_all(Rank rank, std::string_view by) const {
  std::string why;
  bool takes_all = false;
  plugin::Call call("pmi.restart");
  call.in["rank"] = rank;
  if (Result<int> called = host_.stack().call(call); !called) why = called.error().message;
  for (const auto& [plugin, answer] : call.out.items()) {
    if (answer == "together")
      takes_all = takes_all || by.empty() || by == plugin;
    else if (answer != "alone")
      why = answer.is_string() ? answer.get<std::string>() : dump_json(answer);
  }
  if (host_.stack().find("pmix") != nullptr && !call.out.contains("pmix"))
    why = "the job's PMIx server (pmi=pmix) is of a plugin that does not say how a rank starts again";
  if (!why.empty()) return Error{ENOTSUP, why};
  return takes_all;
}

// ---- restart together -------------------------------------------------------------------

namespace {

std::string barrier_name(const RestartTogether::Plan& plan) { return fmt::format("restart.{}", plan.restarts); }

}  // namespace

RestartTogether::RestartTogether(plugin::Host& host, const ShellTasks& tasks, Plan plan, Calls calls)
    : host_(host), tasks_(tasks), plan_(std::move(plan)), calls_(std::move(calls)) {}

void RestartTogether::leave() {
  others_ended_ = {};
  if (plan_.is_node || is_due() || has_entered_ || host_.job().shell_rank > plan_.last) return;
  static_cast<void>(
      host_.gather_up_to(plan_.last, barrier_name(plan_), "", [](const Result<plugin::Gathered>& /*others*/) {}));
}

void RestartTogether::end_tasks(event::Seconds grace) {
  if (host_.ending()) return;
  calls_.kill(SIGTERM);
  auto timer = event::Timer::create(host_.loop(), [this] { calls_.kill(SIGKILL); });
  if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
  timer_ = *std::move(timer);
  if (tasks_.running() > 0) timer_->start_grace(grace);
  wait_for_others();
}

void RestartTogether::task_ended() {
  if (timer_) wait_for_others();
}

void RestartTogether::wait_for_others() {
  if (tasks_.running() > 0 || std::exchange(waits_, true)) return;
  timer_->stop();
  if (plan_.is_node || host_.job().shell_rank > plan_.last) return wait_for_delay();
  calls_.ended();
}

void RestartTogether::enter(std::string mine) {
  has_entered_ = true;
  others_ended_ = host_.gather_up_to(plan_.last, barrier_name(plan_), std::move(mine),
                                     [this](const Result<plugin::Gathered>& gathered) {
                                       // Without the answers this shell is cut off, or the job ends.
                                       if (gathered && calls_.may_start(*gathered)) wait_for_delay();
                                     });
}

void RestartTogether::wait_for_delay() {
  auto timer = event::Timer::create(host_.loop(), [this] { calls_.over(); });
  if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
  timer_ = *std::move(timer);
  timer_->start(event::Seconds(plan_.delay));
}

bool RestartTogether::begin_asking() {
  if (state_ != State::moving) return false;
  state_ = State::asked;
  return true;
}

}  // namespace nacre::core
