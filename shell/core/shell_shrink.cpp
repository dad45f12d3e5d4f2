// SPDX-License-Identifier: Apache-2.0
#include "core/shell_shrink.hpp"

#include "core/shutdown.hpp"
#include "job/job.hpp"
#include "join/leaving.hpp"
#include "plugin/questions.hpp"
#include "wire/json.hpp"

namespace nacre::core {
namespace {

// Time after the tasks of a leaving shell have been killed, for its epilogs and its output.
constexpr event::Seconds kMostAfterKill{10};

// The leader's order to all: these shells leave, or those that were asked to leave stay.
struct LeaveOrder {
  value::Idset shells;
  bool stay = false;
  int signum = SIGTERM;
  double grace = 0;
};

void fields(auto& io, wire::Of<LeaveOrder> auto& m) {
  io.has("shells", m.shells);
  io.may_have("stay", m.stay);
  io.has_if(!m.stay, "signal", m.signum);
  io.has_if(!m.stay, "grace", m.grace);
  io.expect(!m.shells.empty(), "a shell");
}

// What a plugin of another shell asks the leader for, and its answer: `ok` or an error.
struct ShrinkAsk {
  group::Rank shell = 0;
  std::uint64_t number = 0;
  Json order;
};

void fields(auto& io, wire::Of<ShrinkAsk> auto& m) {
  io.has("shell", m.shell);
  io.has("number", m.number);
  io.has("order", m.order);
}

struct ShrinkAnswer {
  group::Rank shell = 0;
  std::uint64_t number = 0;
  std::optional<Error> error;
  Json ok = Json::object();
};

void fields(auto& io, wire::Of<ShrinkAnswer> auto& m) {
  io.has("shell", m.shell);
  io.has("number", m.number);
  io.may_have("error", m.error, wire::kAnError);
  io.has_if(!m.error, "ok", m.ok);
}

// The leader's question which tasks are connected, and a shell's answer.
struct ConnectedQuestion {
  std::uint64_t number = 0;
  value::Idset shells;
  bool leave = false;  // perhaps they are about to leave
};

void fields(auto& io, wire::Of<ConnectedQuestion> auto& m) {
  io.has("number", m.number);
  io.has("shells", m.shells);
  io.has("leave", m.leave);
}

struct ConnectedAnswer {
  std::uint64_t number = 0;
  value::Idset connected;  // ranks
  bool spawned = false;
};

void fields(auto& io, wire::Of<ConnectedAnswer> auto& m) {
  io.has("number", m.number);
  io.has("connected", m.connected);
  io.has("spawned", m.spawned);
}

}  // namespace

void ShellShrink::serve(group::Group::Callbacks& callbacks, event::Seconds grace) {
  grace_ = grace;
  asks_.serve([this](const value::ShrinkOrder& what, const WhenShrunk& news) { order(what, news); });
  callbacks.on_shrunk = [this](const value::Shrunk& shrunk) { shells_.left(shrunk); };
  // A shell that has not ended in time, or that a plugin holds up, is given up.
  callbacks.on_leave = [this] {
    end_.left();
    host_.kill_tasks(SIGKILL);
    asks_.end(Error{ECANCELED, "this shell has left the job itself"});
  };
  bulk::Port* port = group_->bulk();
  if (port == nullptr) return;
  announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kTopic) announced(bytes);
    if (topic != kShrinkQuestionTopic) return;
    shells_.asked_to_leave(ShrinkQuestion::leaving_in(bytes));
    if (std::string answer = question_.answer(bytes); !answer.empty()) records_.put(std::move(answer));
  });
  records_.serve(*port, [this](bulk::Id origin, std::string_view bytes) {
    bool is_ready = bytes == kReady;
    if (is_ready) shrinks_.ready(origin);
    if (!is_ready) question_.take(origin, bytes);
    settle();
  });
  callbacks.on_lost = [this, before = std::move(callbacks.on_lost)](group::Rank rank) {
    if (before) before(rank);
    if (!question_.asked_to_leave().contains(rank)) question_.gone(rank);  // otherwise lost_leaving() does it
  };
  shells_.when_lost_leaving([this](group::Rank rank) { lost_leaving(rank); });
}

// ---- the leader's ------------------------------------------------------------------------------

Result<value::Idset> ShellShrink::shells_of(const value::ShrinkOrder& order) const {
  if (!shells_.has_others()) return invalid("this job has one shell only, which leads it");
  if (job_over_ || host_.ending()) return Error{ECANCELED, "the job is ending"};
  if (!shells_.barriers().has_passed(join::kStartBarrier)) return Error{EAGAIN, "the job is still being started"};
  return job::leavers(order, host_.job(), shells_.roster().gone(), shrinks_.left() | question_.asked_to_leave());
}

// The shells that may have something that is connected to PMI, if that counts: spawned processes may run on any
// shell.
value::Idset ShellShrink::maybe_connected(const value::Idset& shells) const {
  return host_.options().is_switched_on("fault-tolerance")
             ? value::Idset()
             : shells - shrinks_.left() - shells_.roster().gone() - lost_;
}

void ShellShrink::order(const value::ShrinkOrder& order, const WhenShrunk& news) {
  auto shells = shells_of(order);
  if (!shells) return news(shells.error(), true);
  question_.ask(order.force ? value::Idset() : maybe_connected(*shells), ShrinkQuestion::About::leaving,
                [this, order, shells = *shells, news](const ShrinkQuestion::Connected& connected) {
                  confirm(order, shells, connected, news);
                });
}

// Much may have happened since the shrink was asked for.
void ShellShrink::confirm(const value::ShrinkOrder& order, const value::Idset& shells,
                          const ShrinkQuestion::Connected& connected, const WhenShrunk& news) {
  value::ShrinkOrder same = order;
  const value::Idset lost = shells & lost_;
  same.shells = shells - shells_.roster().gone() - lost;
  same.hosts = {};
  same.count = 0;
  if (same.shells.empty() && lost.empty()) same.shells = shells;
  auto still = same.shells.empty() ? Result<value::Idset>(lost) : shells_of(same);
  if (still && connected.none()) return open(order, same.shells | lost, news);
  withdraw(shells);
  news(still ? refusal(shells, connected) : still.error(), true);
}

// Shells that another order asks, or takes out, are left to that order.
void ShellShrink::withdraw(const value::Idset& shells) {
  const value::Idset stay = shells - question_.asked_to_leave() - shrinks_.left();
  if (stay.empty()) return;
  Result<void> sent = group_->announce(kTopic, wire::to_text(LeaveOrder{stay, true}));
  if (!sent) host_.log().log(Level::debug, "", "shrink: {}", sent.error().message);
}

Error ShellShrink::refusal(const value::Idset& shells, const ShrinkQuestion::Connected& connected) const {
  value::Idset where = connected.spawning;
  std::string who = "what tasks have spawned", has = "has", whom = "it";
  if (!connected.tasks.empty()) {
    where = {};
    for (group::Rank shell : shells.ids()) {
      if (!(host_.job().taskmap.ranks_on(shell) & connected.tasks).empty()) where.insert(shell);
    }
    who = fmt::format("rank {}", connected.tasks.str());
    if (connected.tasks.size() > 1) has = "have", whom = "them";
  }
  std::string hosts = job::hosts_of(where, host_.job()).str();
  return Error{EBUSY,
               fmt::format("{} on {} {} called PMI init and not finalize, and the other ranks would wait for "
                           "{}: give --force, or start the job with -o fault-tolerance",
                           who, hosts.empty() ? "shell " + where.str() : hosts, has, whom)};
}

void ShellShrink::open(const value::ShrinkOrder& order, const value::Idset& shells, const WhenShrunk& news) {
  value::Idset fresh;
  auto number = shrinks_.open(shells, fresh);
  open_.emplace(number, Open{news, std::nullopt});
  news(Json{{"shells", shells.str()}, {"hosts", job::hosts_of(shells, host_.job()).str()}}, false);
  if (fresh.empty()) return settle();
  Result<void> begun = begin(number, fresh, order);
  for (group::Rank rank : (fresh & lost_).ids()) settle_lost(rank);  // all have been told that these have left
  if (begun) return;
  host_.log().log(Level::warn, "", "shrink: {}", begun.error().message);
  shrinks_.overdue(number);
  settle();
}

Result<void> ShellShrink::begin(elastic::Shrinks::Order number, const value::Idset& fresh,
                                const value::ShrinkOrder& order) {
  event::Seconds grace = order.grace ? event::Seconds(*order.grace) : grace_;
  auto timer = TRY(event::Timer::create(host_.loop(), [this, number] {
    shrinks_.overdue(number);
    settle();
  }));
  timer.start_grace(grace + kKillTime + kMostAfterKill);
  open_.at(number).timer = std::move(timer);
  return group_->announce(kTopic, wire::to_text(LeaveOrder{fresh, false, order.signum, grace.count()}));
}

void ShellShrink::settle() {
  while (auto shells = shrinks_.take_ready()) take_out(*shells);
  while (auto ended = shrinks_.take_ended()) {
    auto order = open_.extract(ended->first);
    if (order) order.mapped().news(answer_of(ended->second), true);
  }
}

void ShellShrink::take_out(const value::Idset& shells) {
  group_->shrink(shells, [this, shells](const Result<value::Shrunk>& shrunk) {
    // Otherwise none of them belongs to the job any more.
    value::Shrunk end = shrunk ? *shrunk : value::Shrunk{{}, shells};
    if (!shrunk) shells_.left(end);
    released(end.gone | end.unconfirmed, [this, end] {
      shrinks_.ended(end);
      settle();
    });
  });
}

void ShellShrink::lost_leaving(group::Rank rank) {
  lost_.insert(rank);
  if (shrinks_.is_leaving(rank)) settle_lost(rank);
  question_.gone(rank);
}

void ShellShrink::settle_lost(group::Rank rank) {
  released(value::Idset::range(rank, rank), [this, rank] {
    shrinks_.lost(rank, group_->has_ended(rank));
    settle();
  });
}

// Nobody answers what the former leader was asked. A shell that is about to leave reports once more.
void ShellShrink::follow() {
  asks_.fail_open(Error{ECANCELED, "the shell that led the job is lost"});
  if (is_ready_) records_.put(std::string(kReady));
}

// Shells that have been told to leave do so; the others stay.
void ShellShrink::take_over() {
  leaves_ = false;  // the shell that leads stays
  withdraw(shells_.asked_to_leave());
  value::Idset leaving = shells_.roster().leaving() - shells_.roster().gone();
  leaving.remove(host_.job().shell_rank);
  if (leaving.empty()) return;
  value::Idset fresh;
  auto number = shrinks_.open(leaving, fresh);
  auto timer = event::Timer::create(host_.loop(), [this, number] {
    shrinks_.overdue(number);
    settle();
  });
  if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
  timer->start_grace(grace_ + kKillTime + kMostAfterKill);
  open_.emplace(number, Open{[](const Result<Json>&, bool) {}, *std::move(timer)});
}

// Gives back each shell's node once, but no host on which another shell stays.
void ShellShrink::released(const value::Idset& shells, const std::function<void()>& done) {
  value::Idset fresh = shells - given_back_;
  given_back_ = given_back_ | shells;
  if (fresh.empty() || (release_ == nullptr && nodes_ == nullptr) || job_over_) return done();
  const job::Job& job = host_.job();
  value::Hostlist hosts = job::hosts_of(fresh, job);
  hosts.uniq();
  hosts.remove(
      job::hosts_of(value::Idset::range(0, job.shells() - 1) - shells_.roster().gone() - given_back_, job));
  auto note = [this, fresh](const Json& outcome) {
    if (outcome.is_object() && !outcome.empty()) releases_.emplace_back(fresh, outcome);
  };
  value::Hostlist ours = nodes_ != nullptr ? nodes_->held(hosts) : value::Hostlist();
  hosts.remove(ours);
  auto release_rest = [this, hosts, note, done] {
    if (hosts.empty() || release_ == nullptr) return done();
    release_->release(hosts, [note, done](const Json& outcome) {
      note(outcome);
      done();
    });
  };
  if (ours.empty()) return release_rest();
  nodes_->give_back(
      ours, [note, release_rest](const Json& outcome) { outcome.is_null() ? release_rest() : note(outcome); });
}

Json ShellShrink::answer_of(const value::Shrunk& shrunk) const {
  value::Idset all = shrunk.gone | shrunk.unconfirmed;
  Json out{{"gone", shrunk.gone.str()},
           {"unconfirmed", shrunk.unconfirmed.str()},
           {"hosts", job::hosts_of(all, host_.job()).str()},
           {"unconfirmed_hosts", job::hosts_of(shrunk.unconfirmed, host_.job()).str()}};
  for (const auto& [shells, outcome] : releases_) {
    if (!(shells & all).empty()) out["manager"].push_back(outcome);
  }
  return out;
}

void ShellShrink::job_over() {
  job_over_ = true;
  question_.end();
  for (auto& [number, order] : std::exchange(open_, {}))
    order.news(Error{ECANCELED, "the job has ended meanwhile"}, true);
  asks_.end(Error{ECANCELED, "the job has ended"});
}

// ---- every shell's -----------------------------------------------------------------------------

void ShellShrink::announced(std::string_view bytes) {
  auto order = wire::from_text<LeaveOrder>(bytes);
  if (!order)
    return host_.log().log(Level::warn, "", "shrink: an announcement that this version does not understand");
  if (order->stay) {
    lost_ = lost_ - order->shells;
    return shells_.staying(order->shells);
  }
  shells_.leaving(order->shells, order->grace);
  if (!order->shells.contains(host_.job().shell_rank)) return;
  leaves_ = true;
  host_.log().log(Level::debug, "", "this shell leaves the job: {} to its tasks, then {:g} s",
                  value::signal_name(order->signum), order->grace);
  ShellTasks::Ending ending;
  ending.leaves = true;
  ending.others = true;  // processes that plugins have started for tasks
  ending.signum = order->signum;
  ending.grace = event::Seconds(order->grace);
  tasks_.end(ending);
  send_ready();
}

void ShellShrink::put_all() {
  all_put_ = true;
  send_ready();
}

void ShellShrink::send_ready() {
  if (!leaves_ || !all_put_ || is_ready_) return;
  is_ready_ = true;
  records_.put(std::string(kReady));
}

// ---- shrink asks ------------------------------------------------------------------------

void ShrinkAsks::serve(Serve order) {
  serve_ = std::move(order);
  if (!shells_.may_have_others()) return;
  announced_ =
      host_.on_announcement([this](std::string_view topic, std::string_view bytes) { announced(topic, bytes); });
}

plugin::Registration ShrinkAsks::ask(const value::ShrinkOrder& order, WhenShrunk news) {
  Number number = ++last_;
  plugin::Registration out = open_[number].add(std::move(news));
  Result<void> sent = over_ ? Result<void>(*over_) : send(number, order);
  if (!sent) pass_on(number, sent.error(), true);
  return out;
}

Result<void> ShrinkAsks::send(Number number, const value::ShrinkOrder& order) {
  if (!shells_.leads())
    return host_.announce(kAskTopic, wire::to_text(ShrinkAsk{host_.job().shell_rank, number, order.json()}));
  serve_(order, [this, number](const Result<Json>& news, bool is_last) { pass_on(number, news, is_last); });
  return {};
}

void ShrinkAsks::end(const Error& why) {
  over_ = why;
  fail_open(why);
}

void ShrinkAsks::fail_open(const Error& why) {
  while (!open_.empty()) pass_on(open_.begin()->first, why, true);
}

void ShrinkAsks::pass_on(Number number, const Result<Json>& news, bool is_last) {
  auto found = open_.find(number);
  if (found == open_.end()) return;
  if (!is_last) return found->second.call(news, false);
  auto taken = open_.extract(found);
  taken.mapped().call(news, true);
}

void ShrinkAsks::announced(std::string_view topic, std::string_view bytes) {
  if (topic == kAskTopic && shells_.leads()) asked(bytes);
  if (topic == kAnswerTopic && !shells_.leads()) answered(bytes);
}

void ShrinkAsks::asked(std::string_view bytes) {
  auto ask = wire::from_text<ShrinkAsk>(bytes);
  if (!ask) return;
  auto answer = [this, shell = ask->shell, number = ask->number](const Result<Json>& news, bool is_last) {
    if (!is_last) return;
    ShrinkAnswer out{shell, number, std::nullopt, {}};
    if (news)
      out.ok = *news;
    else
      out.error = news.error();
    if (Result<void> sent = host_.announce(kAnswerTopic, wire::to_text(out)); !sent)
      host_.log().log(Level::debug, "", "shrink: the answer to shell {}: {}", shell, sent.error().message);
  };
  auto order = value::ShrinkOrder::parse(JsonAt::root(ask->order), value::ShrinkOrder::Unknown::ignore);
  if (!order) return answer(order.error(), true);
  serve_(*order, answer);
}

void ShrinkAsks::answered(std::string_view bytes) {
  auto answer = wire::from_text<ShrinkAnswer>(bytes);
  if (!answer || answer->shell != host_.job().shell_rank) return;
  pass_on(answer->number, answer->error ? Result<Json>(*answer->error) : Result<Json>(answer->ok), true);
}

// ---- shrink question --------------------------------------------------------------------

void ShrinkQuestion::ask(const value::Idset& shells, About about, const Done& done) {
  auto text = [&shells, about](std::uint64_t number) {
    return wire::to_text(ConnectedQuestion{number, shells, about == About::leaving});
  };
  auto finish = [this, done](const plugin::OpenQuestions<Asked>::Answered& all) {
    if (!all.late.empty()) host_.log().log(Level::debug, "", "shrink: shell {} does not answer", all.late.str());
    done(all.answer.connected);
  };
  auto asked = open_.ask({shells, kMostAnswerTime, Asked{shells, about, {}}, text, finish});
  if (asked) return;
  host_.log().log(Level::warn, "", "shrink: {}", asked.error().message);
  done({});
}

void ShrinkQuestion::take(std::uint32_t shell, std::string_view answer) {
  auto what = wire::from_text<ConnectedAnswer>(answer);
  if (!what) return;
  Asked* asked = open_.find(what->number, shell);
  if (asked == nullptr) return;
  asked->connected.tasks.insert(what->connected);
  if (what->spawned) asked->connected.spawning.insert(shell);
  open_.complete(what->number, shell);
}

value::Idset ShrinkQuestion::asked_to_leave() const {
  value::Idset out;
  open_.each([&out](const Asked& asked) {
    if (asked.about == About::leaving) out.insert(asked.shells);
  });
  return out;
}

// ---- a shell that is asked -----------------------------------------------------------------------

value::Idset ShrinkQuestion::leaving_in(std::string_view announcement) {
  auto question = wire::from_text<ConnectedQuestion>(announcement);
  return question && question->leave ? question->shells : value::Idset();
}

std::string ShrinkQuestion::answer(std::string_view announcement) {
  auto question = wire::from_text<ConnectedQuestion>(announcement);
  if (!question || !question->shells.contains(host_.job().shell_rank)) return "";
  return wire::to_text(
      ConnectedAnswer{question->number, plugin::pmi_connected(host_, ""), plugin::spawned_connected(host_)});
}

}  // namespace nacre::core
