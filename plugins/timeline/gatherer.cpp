// SPDX-License-Identifier: Apache-2.0
#include "plugins/timeline/gatherer.hpp"

#include <algorithm>
#include <utility>

#include "base/json.hpp"
#include "event/clock.hpp"
#include "plugin/shell_questions.hpp"
#include "timeline/batch.hpp"
#include "timeline/facts.hpp"
#include "version.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kMostUnsentEvents = 256;  // records

}  // namespace

void TimelineGatherer::serve() {
  clock_ = event::clock_of_host();
  if (host_.job().shell_rank == 0) note_shells();
  asked_ = plugin::serve_questions(
      host_, records_, kTopic, [this](bulk::Id origin, std::string_view bytes) { take(origin, bytes); },
      [this](std::string_view question) { asked(question); });
}

void TimelineGatherer::note_shells() {
  const auto& nodes = host_.job().resources.nodes;
  std::size_t known = host_.bulk() == nullptr ? 1 : nodes.size();
  for (std::size_t shell = shells_.size(); shell < known; ++shell) {
    timeline::ShellTimeline& out = shells_.emplace_back();
    out.shell = static_cast<std::uint32_t>(shell);
    out.host = nodes[shell].hostname;
    if (!host_.job().has_come(out.shell)) over_.insert(out.shell);
  }
  std::map<std::string, int> shells_on;
  for (const timeline::ShellTimeline& each : shells_) ++shells_on[each.host];
  for (timeline::ShellTimeline& each : shells_) each.shares_host = shells_on[each.host] > 1;
}

// ---- in each shell -----------------------------------------------------------

void TimelineGatherer::asked(std::string_view bytes) {
  timeline::Time received = timeline::now();
  auto json = parse_json(bytes);
  if (!json || !member_of(*json, "number").is_number_unsigned()) return;
  if (records_.waiting() > kMostUnsentEvents) return;  // the leader takes them as late
  send(json->at("number").get<std::uint64_t>(), received, json->value("events", Json()) == true, true);
  ++answers_;
  has_leaders_clock_ = !clock_.empty() && json->value("clock", Json()) == clock_;
  if (on_answered_) on_answered_();
}

void TimelineGatherer::send_rest(bool is_all) { send(0, timeline::now(), true, is_all); }

void TimelineGatherer::send(std::uint64_t number, timeline::Time received, bool has_events, bool is_last) {
  const timeline::Recorder& recorder = host_.timeline();
  const auto& events = recorder.events();
  for (bool is_end = false; !is_end;) {
    timeline::TimelineBatch batch;
    batch.number = number;
    batch.received = received;
    batch.clock = clock_;
    if (has_events) {
      std::size_t count = std::min(timeline::TimelineBatch::kMostEvents, events.size() - sent_);
      auto begin = events.begin() + static_cast<std::ptrdiff_t>(sent_);
      batch.events.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
      sent_ += count;
      batch.dropped = recorder.dropped();
      batch.names = recorder.names();
    }
    is_end = !has_events || sent_ == events.size();
    batch.is_last = is_end && is_last;
    batch.sent = timeline::now();
    records_.put(batch.text());
  }
}

// ---- the leader --------------------------------------------------------------

Result<void> TimelineGatherer::ask(Wanted wanted, std::function<void(const value::Idset& late)> done) {
  auto text = [this, wanted](std::uint64_t number) {
    return dump_json({{"number", number}, {"events", wanted == Wanted::events}, {"clock", clock_}});
  };
  auto finish = [done = std::move(done)](const plugin::OpenQuestions<timeline::Time>::Answered& all) {
    done(all.late);
  };
  CHECK_OK(open_.ask({open_.others() - over_, kMostAnswerTime, timeline::now(), text, std::move(finish)}));
  return {};
}

bool TimelineGatherer::is_one_clock() const {
  return std::all_of(shells_.begin(), shells_.end(), [this](const timeline::ShellTimeline& each) {
    return each.shell == 0 || each.clock.is_same() || over_.contains(each.shell) ||
           open_.gone().contains(each.shell);
  });
}

bool TimelineGatherer::is_of(std::uint32_t shell, const timeline::TimelineBatch& batch) const {
  return std::all_of(batch.events.begin(), batch.events.end(), [&](const timeline::TimelineEvent& each) {
    if (!timeline::is_of_rank(each.kind)) return true;
    bool is_of_shell = each.kind == timeline::Kind::mark && each.subject == timeline::kNoRank;
    return is_of_shell || host_.job().taskmap.node_of(each.subject) == shell;
  });
}

void TimelineGatherer::take(std::uint32_t shell, std::string_view bytes) {
  timeline::Time now = timeline::now();
  if (bytes.empty() || shell == 0 || shell >= shells_.size()) return;
  auto batch = timeline::TimelineBatch::parse(bytes);
  if (!batch || !is_of(shell, *batch))
    return host_.log().log(Level::warn, "timeline", "shell {}: {}: a part of its timeline is left out", shell,
                           batch ? "it has sent what is not of its tasks" : batch.error().message);
  timeline::ShellTimeline& mine = shells_[shell];
  std::size_t room = kMostInAll - std::min(kMostInAll, kept_);
  if (batch->events.size() > room) {
    mine.dropped_here += batch->events.size() - room;
    batch->events.resize(room);
  }
  std::size_t before = mine.events.size();
  mine.take(*batch);
  kept_ += mine.events.size() - before;
  if (!batch->clock.empty() && batch->clock == clock_) mine.clock.set_same();
  if (batch->number == 0) {
    if (batch->is_last) over(shell);
    return;
  }
  timeline::Time* sent = open_.find(batch->number, shell);
  if (sent == nullptr) return;  // it came too late
  mine.clock.add_exchange(*sent, batch->received, batch->sent, now);
  if (batch->is_last) open_.complete(batch->number, shell);
}

void TimelineGatherer::gone(std::uint32_t shell, bool as_planned) {
  if (over_.contains(shell)) return;
  if (as_planned) over(shell);
  open_.gone(shell);
}

void TimelineGatherer::over(std::uint32_t shell) {
  if (!open_.gone().contains(shell)) over_.insert(shell);
}

timeline::JobTimeline TimelineGatherer::timelines(bool is_over, const value::Idset& late) const {
  timeline::JobTimeline out;
  out.job = host_.job().id.f58_plain();
  out.version = kVersion;
  out.tasks = host_.job().tasks();
  out.shells = shells_;
  if (out.shells.empty()) out.shells.emplace_back();
  const timeline::Recorder& own = host_.timeline();
  timeline::ShellTimeline& leader = out.shells[0];
  leader.events = own.events();
  leader.names = own.names();
  leader.dropped = own.dropped();
  leader.clock.set_same();
  for (timeline::ShellTimeline& each : out.shells) {
    bool is_late = is_over ? each.shell != 0 && host_.bulk() != nullptr && !over_.contains(each.shell)
                           : late.contains(each.shell);
    if (open_.gone().contains(each.shell) && !over_.contains(each.shell))
      each.presence = timeline::Presence::lost;
    else if (is_late)
      each.presence = timeline::Presence::late;
  }
  out.anchor = timeline::now();
  out.wall = event::wall_clock();
  out.until = out.anchor;
  out.is_over = is_over;
  timeline::add_barriers_to_clocks(out);
  return out;
}

}  // namespace nacre::plugins
