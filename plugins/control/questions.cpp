// SPDX-License-Identifier: Apache-2.0
#include "plugins/control/questions.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "plugin/shell_questions.hpp"

namespace nacre::plugins {
namespace {

constexpr std::size_t kMostInRecord = std::size_t{32} << 10;  // bytes of rows, but for the last: below its limit
constexpr std::size_t kMostUnsentAnswers = 4096;              // records
constexpr std::string_view kProcesses = "processes";
constexpr std::string_view kProcessesWithGpus = "processes-gpu";
constexpr std::string_view kPlaces = "places";
constexpr std::size_t kMostNotes = 8;  // of all shells

template <typename Row>
std::vector<Json> rows_of(const std::vector<Row>& from) {
  std::vector<Json> out;
  out.reserve(from.size());
  for (const Row& each : from) out.push_back(each.json());
  return out;
}

}  // namespace

void Questions::serve() {
  asked_ = plugin::serve_questions(
      host_, records_, kTopic, [this](bulk::Id origin, std::string_view bytes) { take(origin, bytes); },
      [this](std::string_view question) { answer(question); });
}

// ---- a shell that is asked -----------------------------------------------------------------

// What is not sent, as the leader asks more than it takes, counts as late there.
void Questions::answer(std::string_view question) {
  auto words = split(question, ' ');
  auto number = words.size() == 2 ? parse_u64(words[1]) : std::nullopt;
  if (!number || records_.waiting() > kMostUnsentAnswers) return;
  if (words[0] == kProcesses) return send(*number, rows_of(task_processes(host_)), {});
  if (words[0] == kPlaces) return send(*number, rows_of(task_places(host_)), {});
  if (words[0] != kProcessesWithGpus) return;
  gpus_.ask([this, number = *number](const auto& gpus, const Notes& notes) {
    send(number, rows_of(task_processes(host_, gpus)), notes);
  });
}

void Questions::send(std::uint64_t number, std::vector<Json> rows, const Notes& notes) {
  std::size_t next = 0;
  do {
    Json some = Json::array();
    for (std::size_t bytes = 0; next < rows.size() && bytes < kMostInRecord; ++next) {
      bytes += dump_json(rows[next]).size();
      some.push_back(std::move(rows[next]));
    }
    bool is_last = next == rows.size();
    Json record{{"question", number}, {"last", is_last}, {"tasks", std::move(some)}};
    if (is_last && !notes.empty()) record["notes"] = notes;
    records_.put(dump_json(record));
  } while (next < rows.size());
}

// ---- the leader ----------------------------------------------------------------------------

template <typename Row>
Result<void> Questions::ask(std::string_view word, const std::vector<Row>& own, const Notes& notes,
                            Done<Row> done) {
  using Asked = plugin::OpenQuestions<ShellAnswers>;
  auto finish = [done = std::move(done)](const Asked::Answered& all) {
    std::vector<Row> rows;
    for (const Json& each : all.answer.rows) {
      if (auto row = Row::parse(each)) rows.push_back(*std::move(row));
    }
    std::sort(rows.begin(), rows.end());
    done(std::move(rows), all.late, all.answer.notes);
  };
  auto text = [word](std::uint64_t number) { return fmt::format("{} {}", word, number); };
  CHECK_OK(open_.ask({open_.others(), kMostAnswerTime, {rows_of(own), notes}, text, std::move(finish)}));
  return {};
}

Result<void> Questions::ask_processes(Done<TaskProcess> done) {
  return ask<TaskProcess>(kProcesses, task_processes(host_), {}, std::move(done));
}

// First its own: the others are asked once these are known, and their time begins then.
void Questions::ask_processes_with_gpus(Done<TaskProcess> done, std::function<void(const Error&)> refused) {
  gpus_.ask([this, done = std::move(done), refused = std::move(refused)](const auto& gpus, const Notes& notes) {
    auto asked = ask<TaskProcess>(kProcessesWithGpus, task_processes(host_, gpus), notes, done);
    if (!asked) refused(asked.error());
  });
}

Result<void> Questions::ask_places(Done<TaskPlace> done) {
  return ask<TaskPlace>(kPlaces, task_places(host_), {}, std::move(done));
}

void Questions::take(std::uint32_t shell, std::string_view bytes) {
  auto json = parse_json(bytes);
  if (!json || !json->is_object()) return;
  JsonAt at = JsonAt::root(*json);
  auto number = at.at("question");
  auto tasks = at.at("tasks");
  if (!number || !tasks || !number->json().is_number_unsigned() || !tasks->json().is_array()) return;
  auto question = number->json().get<std::uint64_t>();
  ShellAnswers* answers = open_.find(question, shell);
  if (answers == nullptr) return;
  for (const Json& each : tasks->json()) answers->rows.push_back(each);
  if (auto notes = at.find("notes"); notes && *notes && (*notes)->json().is_array()) {
    for (const Json& each : (*notes)->json()) {
      if (each.is_string() && answers->notes.size() < kMostNotes) answers->notes.insert(each.get<std::string>());
    }
  }
  if (auto last = at.at("last"); last && last->json() == true) open_.complete(question, shell);
}

}  // namespace nacre::plugins
