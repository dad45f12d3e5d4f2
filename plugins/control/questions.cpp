// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/questions.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plugin/shell_questions.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kTasksInRecord = 256;  // well below a record's limit
constexpr std::size_t kMostUnsent = 4096;    // records

}  // namespace

void Questions::serve() {
  asked_ = plugin::serve_questions(
      host_, records_, kTopic, [this](bulk::Id origin, std::string_view bytes) { take(origin, bytes); },
      [this](std::string_view question) { answer(question); });
}

// ---- a shell that is asked -----------------------------------------------------------------

// What is not sent, as the leader asks more than it takes, counts as late there.
void Questions::answer(std::string_view number) {
  auto question = parse_u64(number);
  if (!question || records_.waiting() > kMostUnsent) return;
  std::vector<TaskProcess> processes = task_processes(host_);
  std::size_t next = 0;
  do {
    Json tasks = Json::array();
    for (; next < processes.size() && tasks.size() < kTasksInRecord; ++next)
      tasks.push_back(processes[next].json());
    bool is_last = next == processes.size();
    records_.put(dump_json({{"question", *question}, {"last", is_last}, {"tasks", std::move(tasks)}}));
  } while (next < processes.size());
}

// ---- the leader ----------------------------------------------------------------------------

Result<void> Questions::ask(Done done) {
  using Asked = plugin::OpenQuestions<std::vector<TaskProcess>>;
  auto finish = [done = std::move(done)](Asked::Answered all) {
    std::sort(all.answer.begin(), all.answer.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
    done(std::move(all.answer), all.late);
  };
  auto text = [](std::uint64_t number) { return fmt::format("{}", number); };
  CHECK_OK(open_.ask({open_.others(), kMostAnswerTime, task_processes(host_), text, std::move(finish)}));
  return {};
}

void Questions::take(std::uint32_t shell, std::string_view bytes) {
  auto json = parse_json(bytes);
  if (!json || !json->is_object()) return;
  JsonAt at = JsonAt::root(*json);
  auto number = at.at("question");
  auto tasks = at.at("tasks");
  if (!number || !tasks || !number->json().is_number_unsigned() || !tasks->json().is_array()) return;
  auto question = number->json().get<std::uint64_t>();
  std::vector<TaskProcess>* processes = open_.find(question, shell);
  if (processes == nullptr) return;
  for (const Json& each : tasks->json()) {
    if (auto process = TaskProcess::parse(each)) processes->push_back(*std::move(process));
  }
  if (auto last = at.at("last"); last && last->json() == true) open_.complete(question, shell);
}

}  // namespace nacre::plugins
