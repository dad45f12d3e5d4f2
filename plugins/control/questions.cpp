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
constexpr std::size_t kMostUnsent = 4096;                     // records
constexpr std::string_view kProcesses = "processes";
constexpr std::string_view kPlaces = "places";

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
  if (!number || records_.waiting() > kMostUnsent) return;
  std::vector<Json> rows;
  if (words[0] == kProcesses)
    rows = rows_of(task_processes(host_));
  else if (words[0] == kPlaces)
    rows = rows_of(task_places(host_));
  else
    return;
  std::size_t next = 0;
  do {
    Json some = Json::array();
    for (std::size_t bytes = 0; next < rows.size() && bytes < kMostInRecord; ++next) {
      bytes += dump_json(rows[next]).size();
      some.push_back(std::move(rows[next]));
    }
    bool is_last = next == rows.size();
    records_.put(dump_json({{"question", *number}, {"last", is_last}, {"tasks", std::move(some)}}));
  } while (next < rows.size());
}

// ---- the leader ----------------------------------------------------------------------------

template <typename Row>
Result<void> Questions::ask(std::string_view word, const std::vector<Row>& own, Done<Row> done) {
  using Asked = plugin::OpenQuestions<std::vector<Json>>;
  auto finish = [done = std::move(done)](const Asked::Answered& all) {
    std::vector<Row> rows;
    for (const Json& each : all.answer) {
      if (auto row = Row::parse(each)) rows.push_back(*std::move(row));
    }
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.rank < b.rank; });
    done(std::move(rows), all.late);
  };
  auto text = [word](std::uint64_t number) { return fmt::format("{} {}", word, number); };
  CHECK_OK(open_.ask({open_.others(), kMostAnswerTime, rows_of(own), text, std::move(finish)}));
  return {};
}

Result<void> Questions::ask_processes(Done<TaskProcess> done) {
  return ask<TaskProcess>(kProcesses, task_processes(host_), std::move(done));
}

Result<void> Questions::ask_places(Done<TaskPlace> done) {
  return ask<TaskPlace>(kPlaces, task_places(host_), std::move(done));
}

void Questions::take(std::uint32_t shell, std::string_view bytes) {
  auto json = parse_json(bytes);
  if (!json || !json->is_object()) return;
  JsonAt at = JsonAt::root(*json);
  auto number = at.at("question");
  auto tasks = at.at("tasks");
  if (!number || !tasks || !number->json().is_number_unsigned() || !tasks->json().is_array()) return;
  auto question = number->json().get<std::uint64_t>();
  std::vector<Json>* rows = open_.find(question, shell);
  if (rows == nullptr) return;
  for (const Json& each : tasks->json()) rows->push_back(each);
  if (auto last = at.at("last"); last && last->json() == true) open_.complete(question, shell);
}

}  // namespace nacre::plugins
