// SPDX-License-Identifier: Apache-2.0
#include "job_elastic.hpp"

#include <cstdint>
#include <string_view>

#include "job_leader.hpp"
#include "job_shell.hpp"
#include "value/resizing.hpp"

namespace nacre::sim {
namespace {

constexpr std::string_view kOrdered = "shell.restart-order";
constexpr std::string_view kSignalled = "signal";  // in place of the entry for it
constexpr std::string_view kRefused = "shell.restart-refused";

}  // namespace

JobElastic::JobElastic(JobShell& shell, const elastic::Growth* before)
    : shell_(shell),
      replica_(shell.process().plan(), shell.process().id(), shell.ending().state()),
      removal_(shell),
      newcomer_(shell, replica_, before),
      restart_(shell, replica_, removal_),
      leader_(shell.process().leads() ? std::make_unique<JobLeader>(shell, *this) : nullptr) {}
JobElastic::~JobElastic() = default;

// ---- the log -----------------------------------------------------------------------------------

void JobElastic::deliver(const Entry& entry) {
  JobProcess& process = shell_.process();
  if (const auto* end = std::get_if<Campaign>(&entry.body); end != nullptr && !end->grow) {
    value::Shrunk shrunk{end->done, end->unconfirmed};
    process.post_of_job(
        [this, all = shrunk.gone | shrunk.unconfirmed] { note_left(all - replica_.roster().left()); });
  }
  bool is_answer = entry.request.origin == 0 && !std::holds_alternative<View>(entry.body);
  if (leader_ && is_answer && entry.request.number != 0)
    process.post_of_job([this, entry] { leader_->answered(entry); });
  if (const auto* event = std::get_if<Event>(&entry.body)) {
    if (newcomer_.early(*event)) return;
    process.post_of_job([this, each = *event] { announced(each.name, each.data); });
  }
}

void JobElastic::lost(Id shell) {
  if (leader_) leader_->grows().lost(shell);
  if (replica_.roster().is_to_leave(shell)) {
    note_left(Idset::range(shell, shell));
    if (leader_) leader_->shrinks().lost(shell);
    return;
  }
  replica_.roster().note_lost(Idset::range(shell, shell));
  if (shell < replica_.job().shells() && leader_) leader_->losses().lost(shell);
}

void JobElastic::note_left(const Idset& shells) {
  if (shells.empty()) return;
  replica_.roster().note_left(shells);
  for (Id shell : shells.ids()) {
    if (leader_) leader_->note_ended(unfinished_on(shell), exits::Record::gone({}));
  }
}

void JobElastic::agree(Seq seq) {
  bool knows_it = !newcomer_.is_joining() || newcomer_.has_state();
  if (!knows_it || shell_.has_given_up()) return;
  shell_.process().witness().agreed(shell_.process().id(), seq, replica_.text());
}

void JobElastic::announced(const std::string& topic, const std::string& bytes) {
  if (topic == "shell.replace") return moved(bytes);
  if (topic == "shell.restart-to-spare") return asked_for_spare(bytes);
  if (topic == kSignalled) return restart_.arrivals().signalled_late(static_cast<Id>(std::stoul(bytes)));
  if (topic == "shell.tasks-over") replica_.note_tasks_over();
  if (topic == elastic::kReadyTopic || topic == elastic::kGrownTopic || topic == "shell.shrink" ||
      topic == kOrdered || topic == kRefused || topic == elastic::kOfferTopic) {
    auto what = parse_json(bytes);
    require(what.has_value(), "an announcement is JSON");
    if (topic == kOrdered) return ordered(bytes);
    if (topic == "shell.shrink")
      return leaving(Idset::parse((*what)["shells"].get<std::string>()).value(),
                     Time(static_cast<std::int64_t>((*what)["grace"].get<double>() * 1e6)));
    if (topic == elastic::kGrownTopic) {
      Idset come = replica_.grow(elastic::Growth::parse(JsonAt::root(*what)).value());
      if (leader_) leader_->grows().grown(come);
    }
    if (topic == elastic::kReadyTopic && !what->contains("error"))
      replica_.roster().note_ready((*what)["shell"].get<Id>());
    if (leader_) leader_->announced(topic, *what);
  }
  if (topic != Message::kAsked && topic != Message::kAnswered) return;
  auto message = Message::parse(bytes, replica_.job().shells());
  require(message.has_value(), message ? "" : "an announcement cannot be read: " + message.error().message);
  topic == Message::kAsked ? asked(*message) : answered(*message);
}

// ---- tasks that start again ----------------------------------------------------------------------

void JobElastic::asked(const Message& message) {
  if (message.ends.empty()) return leader_ ? leader_->answers().answer_order() : void();
  if (!message.whole && replica_.changes().scope == job::RestartOption::Scope::node)
    return decided_together(message);
  bool is_mine = message.shell == shell_.process().id();
  elastic::Recovery::Alone decided = replica_.recovery().decide(message);
  for (const auto& each : decided.decisions) {
    if (leader_ && each.is_granted()) leader_->expect(each.ranks);
  }
  for (Id rank : decided.fallen.ids()) {
    if (is_mine) restart_.kept().refuse(rank);
  }
  if (message.whole && decided.fallen.empty() && leader_) leader_->answers().answer(message);
  for (const auto& each : decided.decisions) {
    if (leader_ && each.is_granted()) leader_->restarts().done_with(each.ranks);
    for (Id rank : each.ranks.ids()) {
      if (is_mine) each.is_granted() ? restart_.granted(rank, each) : restart_.kept().refuse(rank);
    }
  }
}

void JobElastic::answered(const Message& message) {
  if (!message.ends.empty()) return decided_together(message);
  if (leader_) leader_->answers().order_came_back();
  if (shell_.ending().state().is_decided()) return;
  auto decision = replica_.recovery().decide_order(message);
  if (!decision) return leader_ ? leader_->answers().answer_order() : void();
  if (leader_) leader_->restarts().done_with(decision->together);
  if (leader_) leader_->expect(decision->together);
  restart_.begin_together(*decision);
}

void JobElastic::decided_together(const Message& message) {
  auto decision = replica_.recovery().decide_together(message);
  const bool is_mine = message.shell == shell_.process().id();
  restart_.arrivals().take(decision.places.moves);
  if (decision.is_granted()) {
    if (leader_) leader_->restarts().done_with(decision.together);
    if (leader_) leader_->expect(decision.together);
    if (message.whole || is_mine) restart_.begin_together(decision);
  } else if (is_mine) {
    Idset ranks;
    for (const auto& each : message.ends) ranks.insert(each.rank);
    if (!message.whole) ranks.insert(restart_.kept().asked_alone());
    for (Id rank : ranks.ids()) restart_.kept().refuse(rank);
  }
}

void JobElastic::asked_for_spare(const std::string& bytes) {
  auto asked = elastic::SpareRequest::parse(bytes, replica_.job().shells(), replica_.job().tasks());
  require(asked.has_value(), asked ? "" : "who asks for a spare cannot be read: " + asked.error().message);
  elastic::SparePlaces places = replica_.recovery().place(*asked);
  restart_.arrivals().take(places.moves);
  for (const job::Move& each : places.moves) note_moved(each);
  if (asked->shell == shell_.process().id()) restart_.spares().placed(*asked, places);
}

void JobElastic::ordered(const std::string& bytes) {
  if (shell_.ending().state().is_decided()) return;
  Json what = parse_json(bytes).value();
  bool is_whole = !what.contains("ranks") || replica_.changes().scope == job::RestartOption::Scope::job;
  if (is_whole) return leader_ ? leader_->answers().answer_order() : void();
  restart_.order(Idset::parse(what["ranks"].get<std::string>()).value());
}

// ---- tasks of lost shells ------------------------------------------------------------------------

void JobElastic::note_moved(const job::Move& move) {
  if (!leader_) return;
  for (Id rank : move.ranks.ids()) shell_.process().witness().moved(rank, move.to);
}

void JobElastic::moved(const std::string& bytes) {
  auto what = elastic::Replacement::parse(bytes, replica_.job().shells(), replica_.job().tasks());
  require(what.has_value(), what ? "" : "where tasks go cannot be read: " + what.error().message);
  if (leader_) leader_->losses().replaced(what->moves);
  if (what->all) return moved_with_all(*what);
  auto stand = replica_.move(what->moves);
  restart_.arrivals().take(stand);
  if (!leader_) return;
  for (const job::Move& each : stand) {
    note_moved(each);
    leader_->restarts().done_with(each.ranks);
  }
  JobLosses& losses = leader_->losses();
  stand.size() < what->moves.size() ? losses.replace(what->from()) : losses.close(what->from());
}

void JobElastic::moved_with_all(const elastic::Replacement& what) {
  auto decision = replica_.recovery().decide_replacement(what);
  bool is_granted = decision && decision->is_granted();
  if (is_granted) restart_.arrivals().take(what.moves);
  for (const job::Move& each : what.moves) {
    if (is_granted) note_moved(each);
  }
  if (is_granted && leader_) {
    leader_->restarts().done_with(decision->together);
    leader_->expect(decision->together);
  }
  if (is_granted) restart_.begin_together(*decision);
  if (!leader_) return;
  if (!decision) return leader_->losses().decide(what.from());
  is_granted ? leader_->losses().close(what.from()) : leader_->losses().give_up(what.from());
}

// ---- shells --------------------------------------------------------------------------------------

void JobElastic::leaving(const Idset& shells, Time grace) {
  replica_.roster().note_leaving(shells);
  if (shells.contains(shell_.process().id())) removal_.begin(grace);
}

Idset JobElastic::unfinished_on(Id shell) const {
  return replica_.job().taskmap.ranks_on(shell) - shell_.records().all().ranks();
}

std::string JobElastic::open() const {
  std::string open = restart_.open();
  return open.empty() && leader_ ? leader_->open() : open;
}

}  // namespace nacre::sim
