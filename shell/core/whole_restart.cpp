// SPDX-License-Identifier: Apache-2.0
//
// ShellRestart where all tasks of the job start again together, because one of them does or by `nacre restart`: the
// leader grants it; each shell ends its tasks, waits for the others, and starts them anew.
#include <csignal>
#include <utility>

#include <fmt/format.h>

#include "base/json.hpp"
#include "core/shell_restart.hpp"
#include "elastic/starts.hpp"

namespace nacre::core {

// ---- the leader's ------------------------------------------------------------------------------

void ShellRestart::all_started() {
  all_started_ = true;
  for (const Message& each : std::exchange(unanswered_, {})) answer(each);
}

void ShellRestart::answer(const Message& message) {
  if (!all_started_) return unanswered_.push_back(message);
  Json ends = Json::array();
  for (const End& each : message.ends) ends.push_back({each.rank, each.attempt, each.record.str(), each.ran});
  Json what{{"shell", message.shell}, {"whole", true}, {"ends", std::move(ends)}, {"why", why_not_whole()}};
  if (message.ordered) what["ordered"] = true;
  Result<void> sent = host_.announce(kAnswered, dump_json(what));
  if (!sent) host_.raise({"exec", 0, "restart: " + sent.error().message, std::nullopt});
}

std::string ShellRestart::why_not_whole() const {
  value::Idset over = shells_.outcomes().ranks();
  if (over.empty()) return "";
  return fmt::format("all tasks would have to start again, and task {} {} ended for good", over.str(),
                     over.size() == 1 ? "has" : "have");
}

// ---- every shell's -----------------------------------------------------------------------------

void ShellRestart::answered(const Message& message) {
  if (message.ends.empty()) return answered_order(message);
  bool is_mine = message.shell == job_.shell_rank;
  const End& first = message.ends.front();
  Decision decision{{}, first.record};
  decision.why_not = message.why_not;
  decision.whole = true;
  decision.ordered = message.ordered;
  bool stand = true;
  for (const End& each : message.ends) {
    decision.ranks.insert(each.rank);
    stand = stand && stands(message.shell, each);
  }
  if (stand && decision.why_not.empty() && !message.ordered) {
    auto granted = restarts_->take_job(first.ran);
    decision.why_not = granted ? "" : granted.error().message;
    decision.delay = granted ? granted->delay : 0;
    decision.first = decision.last = granted ? granted->number : 0;
  }
  bool begins = stand && decision.why_not.empty();
  if (begins) job_.start_again(value::Idset::range(0, static_cast<Rank>(job_.tasks() - 1)));
  if (stand) report(message.shell, decision);
  if (begins) return begin_whole(decision);
  for (Rank rank : decision.ranks.ids()) {
    if (is_mine) refused(rank);
  }
}

// ---- by nacre restart --------------------------------------------------------------------------

void ShellRestart::serve_orders() {
  orders_.serve({[this](const task::Task& task) { return takes_all(task); }, [this] { order_all(); },
                 [this](int signum, const value::Idset& ranks) {
                   // Only what users send from now on prevents the next start.
                   if (signum == SIGTERM)
                     std::erase_if(signals_, [&](const auto& each) { return ranks.contains(each.first); });
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
  if (shells_.leads()) answer_order();
}

void ShellRestart::order_all() {
  Json what{{"shell", job_.shell_rank}, {"whole", true}, {"ordered", true}, {"ends", Json::array()}};
  Result<void> sent = host_.announce(kAsked, dump_json(what));
  if (!sent) host_.log().log(Level::error, "", "restart: {}", sent.error().message);
}

// The leader's. A restart of all that is under way does for the order, too.
void ShellRestart::answer_order() {
  if (whole_ || order_is_answered_ || end_.is_decided()) return;
  std::string why = all_started_ ? why_not_whole() : "the job is still being started";
  if (why.empty() && !tasks_.all().empty()) {
    if (auto takes = takes_all(*tasks_.all().front()); !takes) why = takes.error().message;
  }
  if (!why.empty()) return orders_.refuse(value::Idset::range(0, static_cast<Rank>(job_.tasks() - 1)), why);
  Json what{{"shell", job_.shell_rank}, {"whole", true}, {"ordered", true}, {"ends", Json::array()}};
  what["restarts"] = job_.restarts;
  order_is_answered_ = true;
  Result<void> sent = host_.announce(kAnswered, dump_json(what));
  if (!sent) host_.raise({"exec", 0, "restart: " + sent.error().message, std::nullopt});
}

void ShellRestart::answered_order(const Message& message) {
  order_is_answered_ = false;
  if (end_.is_decided()) return;
  // Some have started again since it was sent: what the leader knew then may not be so any more.
  if (message.restarts != job_.restarts) return shells_.leads() ? answer_order() : void();
  value::Idset all = value::Idset::range(0, static_cast<Rank>(job_.tasks() - 1));
  Decision decision{all, exits::Record::victim(std::nullopt)};
  decision.whole = decision.ordered = true;
  job_.start_again(all);
  report(message.shell, decision);
  begin_whole(decision);
}

// ---- all tasks start again ---------------------------------------------------------------------

void ShellRestart::begin_whole(const Decision& decision) {
  value::Idset all = value::Idset::range(0, static_cast<Rank>(job_.tasks() - 1));
  for (Rank rank : all.ids()) shells_.expect(value::Idset::range(rank, rank), job_.attempt_of(rank));
  // Those that it has given up meanwhile end the job.
  for (auto& [rank, record] : std::exchange(before_answer_, {})) tasks_.record_end(rank, record);
  if (host_.ending()) return;
  if (finished_)
    return host_.raise({"exec", 0,
                        fmt::format("shell {}{}: its tasks had ended when all were to start again", job_.shell_rank,
                                    job_.node().on()),
                        value::WaitStatus::exited(1)});
  whole_.emplace(Whole{job_.restarts, decision.delay});
  for (const auto& task : tasks_.all()) {
    if (task->state() == task::State::exited && !host_.ending()) keep_for_whole(*task);
  }
  if (!is_starting_) end_for_whole();  // else once those that are being started run
}

void ShellRestart::end_for_whole() {
  if (!whole_ || host_.ending()) return;
  auto kill = [this](int signum) {
    signals_itself_ = true;
    host_.kill_tasks(signum);
    signals_itself_ = false;
  };
  kill(SIGTERM);
  auto timer = event::Timer::create(host_.loop(), [kill] { kill(SIGKILL); });
  if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
  whole_->timer = *std::move(timer);
  if (tasks_.running() > 0) whole_->timer->start_grace(grace_);
  wait_for_others();
}

// Its end counts only if nothing starts again, and then as one that this restart has brought about, unless it came
// before.
void ShellRestart::keep_for_whole(task::Task& task) {
  Rank rank = task.rank();
  auto kept = kept_.find(rank);
  if (kept == kept_.end()) {
    auto known = tasks_.outcomes().of(rank);  // it had ended for good
    tasks_.forget_end(rank);
    exits::Record record = known ? *known : exits::Record::victim(task.status());
    kept = kept_.emplace(rank, Kept{&task, record, true, false, known ? State::waiting : State::asked}).first;
  }
  bool is_new = std::exchange(kept->second.state, State::together) == State::asked;
  kept->second.timer.reset();
  task.set_starts_again(true);
  if (is_new) {
    task.kill_left();
    tasks_.call_exit(task);
  }
  if (whole_ && whole_->timer) wait_for_others();
}

void ShellRestart::wait_for_others() {
  if (tasks_.running() > 0 || std::exchange(whole_->waits, true)) return;
  whole_->timer->stop();
  auto begin = [this](const Result<plugin::Gathered>& gathered) {
    if (!gathered || !whole_) return;  // cut off, or the job ends
    auto timer = event::Timer::create(host_.loop(), [this] { whole_->is_due = true; });
    if (!timer) return host_.raise({"exec", 0, timer.error().message, std::nullopt});
    whole_->timer = *std::move(timer);
    whole_->timer->start(event::Seconds(whole_->delay));
  };
  others_ended_ = host_.gather(fmt::format("restart.{}", whole_->restarts), "", begin);
}

Result<void> ShellRestart::start_whole(const std::function<void()>& wait_for_holds) {
  value::Idset ranks;
  for (std::size_t id = 0; id < tasks_.all().size(); ++id) {
    const task::Task& task = *tasks_.all()[id];
    if (task.state() == task::State::running) continue;  // a spare's, which has taken it over meanwhile
    ranks.insert(task.rank());
    tasks_.renew(task, job_.attempt_of(task.rank()), whole_->restarts);
  }
  for (auto& [rank, each] : kept_) each.state = State::starting;
  plugin::Call call("shell.restart");
  call.in = {{"ranks", ranks.str()}, {"all", true}};
  TRY(host_.stack().call(call));
  wait_for_holds();
  if (host_.ending()) return {};
  whole_.reset();
  return start_tasks();
}

}  // namespace nacre::core
