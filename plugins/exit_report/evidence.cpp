// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/evidence.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "event/clock.hpp"
#include "plugin/failure_evidence.hpp"

namespace nacre::plugins {
namespace {

constexpr std::string_view kEvidence = "exit-report.evidence";  // an announcement of the leader, and a collective
constexpr event::Seconds kEvidenceWritten{0.5};                 // for the output of tasks to end
constexpr event::Seconds kLookForEvidence{0.02};
constexpr std::size_t kMostLookedAt = 256;  // tasks of a shell, the first that died
constexpr double kLate = 0.005;             // seconds by which a shell may see a death later than another one does

timeline::Time nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

Json json_of(const exits::FailureFacts& failure) {
  return {failure.rank, failure.record.str(), exits::name_of(failure.origin), failure.at, failure.order};
}

std::optional<exits::FailureFacts> failure_in(const Json& json, std::uint32_t shell) {
  bool is_whole = json.is_array() && json.size() == 5 && json[0].is_number_unsigned() && json[1].is_string() &&
                  json[2].is_string() && json[3].is_number() && json[4].is_number_unsigned();
  auto record = exits::Record::parse(is_whole ? json[1].get<std::string>() : "");
  auto origin = is_whole ? exits::origin_named(json[2].get<std::string>()) : std::nullopt;
  if (!record || !origin) return std::nullopt;
  exits::FailureFacts out{json[0].get<value::Idset::Id>(), *record, *origin};
  out.at = json[3].get<double>();
  out.order = json[4].get<std::uint64_t>();
  out.clock = shell;
  return out;
}

}  // namespace

void FailureEvidence::serve() {
  announcements_ = host_.on_announcement([this](std::string_view topic, std::string_view /*bytes*/) {
    if (topic == kEvidence) asked();
  });
}

void FailureEvidence::ask(std::function<void()> done) {
  done_ = std::move(done);
  sent_ = event::clock_now();
  if (!host_.announce(kEvidence, "{}")) std::exchange(done_, {})();
}

// By each shell, once.
void FailureEvidence::asked() {
  if (received_ > event::Seconds::zero()) return;
  received_ = event::clock_now();
  answer_if_written();
}

void FailureEvidence::answer_if_written() {
  timer_.reset();
  auto is_written = [this](const auto& task) {
    return task->starts_again() || !host_.exit_policy().is_failure(exits::Record::of(task->status())) ||
           facts_.is_complete(*task);
  };
  auto tasks = host_.tasks();
  if (event::clock_now() >= received_ + kEvidenceWritten || std::all_of(tasks.begin(), tasks.end(), is_written))
    return answer();
  auto timer = event::Timer::create(host_.loop(), [this] { answer_if_written(); });
  if (!timer) return answer();
  timer_ = *std::move(timer);
  timer_->unref();
  timer_->start(kLookForEvidence);
}

void FailureEvidence::answer() {
  Json mine{{"clock", event::clock_of_host()}, {"shell", host_.job().shell_rank}, {"failures", Json::array()}};
  for (const exits::FailureFacts& each : own()) mine["failures"].push_back(json_of(each));
  mine["received"] = received_.count();
  mine["answered"] = event::clock_now().count();
  // Shells that have nothing to say all say the same.
  std::string part = mine["failures"].empty() ? "" : dump_json(mine);
  gathered_ = host_.gather(kEvidence, std::move(part), [this](const Result<plugin::Gathered>& all) {
    if (all && host_.job().shell_rank == 0) take(*all);
    if (done_) std::exchange(done_, {})();
  });
}

// Those that may have been the first here, and the first of the rest. One that the end of the job has ended may
// have failed by itself before.
std::vector<exits::FailureFacts> FailureEvidence::own() const {
  std::vector<const task::Task*> failed;
  for (const auto& task : host_.tasks()) {
    bool has_ended = task->state() == task::State::exited && !task->starts_again() && task->pid() != 0;
    if (has_ended && facts_.has_failed(*task)) failed.push_back(task.get());
  }
  std::stable_sort(failed.begin(), failed.end(), [](const task::Task* a, const task::Task* b) {
    return std::pair(a->death().at, a->death().order) < std::pair(b->death().at, b->death().order);
  });
  if (failed.size() > kMostLookedAt) failed.resize(kMostLookedAt);
  std::vector<exits::FailureFacts> out;
  for (const task::Task* each : failed)
    out.push_back(plugin::failure_of(host_, *each, exits::Record::of(each->status()), facts_.error_text(*each)));
  std::stable_sort(out.begin(), out.end(), [](const exits::FailureFacts& a, const exits::FailureFacts& b) {
    bool a_peer = a.origin == exits::Origin::peer;
    bool b_peer = b.origin == exits::Origin::peer;
    return std::tuple(a_peer, a.at, a.order) < std::tuple(b_peer, b.at, b.order);
  });
  std::size_t others = 0;
  std::size_t peers = 0;
  std::erase_if(out, [&](const exits::FailureFacts& each) {
    return each.origin == exits::Origin::peer ? ++peers > kMostPeers : ++others > kMostOwn;
  });
  return out;
}

// What another shell has sent is looked at member by member.
void FailureEvidence::take(const plugin::Gathered& all) {
  const double taken = event::clock_now().count();
  for (const auto& [bytes, shells] : all) {
    if (shells.empty()) continue;
    if (bytes.empty()) {
      answered_.insert(shells);
      continue;
    }
    auto told = parse_json(bytes);
    if (!told || !told->is_object() || shells.size() != 1) continue;
    const std::uint32_t shell = *shells.first();
    const Json& failures = member_of(*told, "failures");
    if (!failures.is_array()) continue;
    answered_.insert(shell);
    for (const Json& each : failures) {
      if (auto failure = failure_in(each, shell)) failures_.push_back(*failure);
    }
    const std::string& clock = event::clock_of_host();
    if (member_of(*told, "clock") == clock && !clock.empty()) clocks_[shell].set_same();
    const Json& received = member_of(*told, "received");
    const Json& answered = member_of(*told, "answered");
    if (received.is_number() && answered.is_number())
      add_exchange(shell, {sent_.count(), received.get<double>(), answered.get<double>(), taken});
  }
}

void FailureEvidence::add_exchange(std::uint32_t shell, const Exchange& exchange) {
  clocks_[shell].add_exchange(nanoseconds(exchange.sent), nanoseconds(exchange.received),
                              nanoseconds(exchange.answered), nanoseconds(exchange.taken));
}

std::vector<exits::FailureFacts> FailureEvidence::failures() const {
  std::vector<exits::FailureFacts> out = failures_;
  for (exits::FailureFacts& each : out) {
    if (each.clock == host_.job().shell_rank) continue;
    auto clock = clocks_.find(each.clock);
    if (clock == clocks_.end()) {
      each.uncertainty = exits::kCascade;
      continue;
    }
    timeline::Time at = nanoseconds(each.at);
    timeline::Time wide = clock->second.uncertainty(at);
    each.at = static_cast<double>(clock->second.to_leader(at)) / 1e9;
    each.uncertainty =
        kLate + (wide == timeline::Clock::kUnknown ? exits::kCascade : static_cast<double>(wide) / 1e9);
  }
  return out;
}

}  // namespace nacre::plugins
