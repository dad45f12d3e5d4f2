// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/questions.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"

namespace nacre::plugins {
namespace {

constexpr const char* kAskTopic = "control.ask";  // announcement: the question's number
constexpr std::size_t kTasksInRecord = 256;       // well below a record's limit
constexpr std::size_t kMostUnsent = 4096;         // records

}  // namespace

void Questions::serve() {
  bulk::Port* port = host_.bulk();
  if (port == nullptr) return;
  bulk::Port::Upward upward;
  upward.on_record = [this, port](bulk::Id origin, bulk::Numbered number, std::string_view bytes) {
    take(origin, bytes);
    port->taken(origin, number);
  };
  upward.on_room = [this] { send(); };
  upward.on_end = [this](const Error&) { unsent_.clear(); };
  port->serve(bulk::up::kControl, std::move(upward));
  if (host_.job().shell_rank == 0) return;
  asked_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kAskTopic) answer(bytes);
  });
}

// ---- a shell that is asked -----------------------------------------------------------------

// What is not sent, as the leader asks more than it takes, counts as late there.
void Questions::answer(std::string_view number) {
  auto question = parse_u64(number);
  if (!question || unsent_.size() > kMostUnsent) return;
  std::vector<TaskProcess> processes = task_processes(host_);
  std::size_t next = 0;
  do {
    Json tasks = Json::array();
    for (; next < processes.size() && tasks.size() < kTasksInRecord; ++next)
      tasks.push_back(processes[next].json());
    bool is_last = next == processes.size();
    unsent_.push_back(dump_json({{"question", *question}, {"last", is_last}, {"tasks", std::move(tasks)}}));
  } while (next < processes.size());
  send();
}

void Questions::send() {
  while (!unsent_.empty()) {
    Result<bool> sent = host_.bulk()->put(bulk::up::kControl, unsent_.front());
    if (!sent) return unsent_.clear();  // the job is over, or this shell is cut off
    if (!*sent) return;
    unsent_.pop_front();
  }
}

// ---- the leader ----------------------------------------------------------------------------

Result<void> Questions::ask(Done done) {
  std::vector<TaskProcess> own = task_processes(host_);
  if (host_.bulk() == nullptr) {
    done(std::move(own), {});
    return {};
  }
  if (open_.size() >= kMostOpen)
    return Error{EBUSY, fmt::format("the shells are asked by {} others at the moment: try again", kMostOpen)};
  std::uint64_t number = ++last_;
  Question& question = open_[number];
  question.processes = std::move(own);
  question.done = std::move(done);
  for (std::uint32_t shell = 1; shell < host_.job().shells(); ++shell) {
    if (!lost_.contains(shell)) question.waiting.insert(shell);
  }
  auto timer = event::Timer::create(host_.loop(), [this, number] { finish(number); });
  Result<void> asked = timer ? host_.announce(kAskTopic, fmt::format("{}", number)) : Result<void>(timer.error());
  if (!asked) {
    open_.erase(number);
    return asked;
  }
  question.timer = *std::move(timer);
  question.timer->unref();
  question.timer->start(kMostAnswerTime);
  if (question.waiting.empty()) finish(number);
  return {};
}

void Questions::take(std::uint32_t shell, std::string_view bytes) {
  auto json = parse_json(bytes);
  if (!json || !json->is_object()) return;
  JsonAt at = JsonAt::root(*json);
  auto number = at.at("question");
  auto tasks = at.at("tasks");
  if (!number || !tasks || !number->json().is_number_unsigned() || !tasks->json().is_array()) return;
  auto found = open_.find(number->json().get<std::uint64_t>());
  if (found == open_.end()) return;  // it came too late
  for (const Json& each : tasks->json()) {
    if (auto process = TaskProcess::parse(each)) found->second.processes.push_back(*std::move(process));
  }
  auto last = at.at("last");
  if (!last || last->json() != true) return;
  found->second.waiting.erase(shell);
  if (found->second.waiting.empty()) finish(found->first);
}

void Questions::lost(std::uint32_t shell) {
  lost_.insert(shell);
  std::vector<std::uint64_t> complete;
  for (auto& [number, question] : open_) {
    if (question.waiting.erase(shell) > 0 && question.waiting.empty()) complete.push_back(number);
  }
  for (std::uint64_t each : complete) finish(each);
}

void Questions::finish(std::uint64_t number) {
  auto taken = open_.extract(number);
  if (!taken) return;
  Question& question = taken.mapped();
  std::sort(question.processes.begin(), question.processes.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  question.done(std::move(question.processes), std::move(question.waiting));
}

}  // namespace nacre::plugins
