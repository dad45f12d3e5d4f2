// SPDX-License-Identifier: Apache-2.0
#include "plugins/exit_report/digests.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/text.hpp"
#include "event/clock.hpp"
#include "exits/record.hpp"

namespace nacre::plugins {
namespace {

constexpr std::string_view kDigests =
    "exit-report.digests";               // an announcement of the leader: records; and a collective
constexpr event::Seconds kWritten{0.5};  // for the output of tasks to end
constexpr event::Seconds kLookWritten{0.02};
constexpr std::size_t kMostCores = 4;  // that are looked at, of tasks that have failed alike but for that

std::string module_of(const TaskFacts& facts, const task::Task& task) {
  Json core = facts.core(task);
  return core.is_object() ? core.value("module", "") : "";
}

}  // namespace

void FailureDigests::serve() {
  announcements_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
    if (topic == kDigests) asked(bytes);
  });
}

void FailureDigests::ask(const std::vector<std::string>& records, std::function<void()> done) {
  done_ = std::move(done);
  if (!host_.announce(kDigests, fmt::format("{}", fmt::join(records, " ")))) std::exchange(done_, {})();
}

// By each shell, once.
void FailureDigests::asked(std::string_view records) {
  if (!records_.empty()) return;
  for (std::string_view each : split(records, ' ')) records_.emplace(each);
  until_ = event::clock_now() + kWritten;
  answer_if_written();
}

void FailureDigests::answer_if_written() {
  timer_.reset();
  auto is_written = [this](const auto& task) {
    return task->starts_again() || !records_.contains(exits::Record::of(task->status()).str()) ||
           facts_.is_complete(*task);
  };
  auto tasks = host_.tasks();
  if (event::clock_now() >= until_ || std::all_of(tasks.begin(), tasks.end(), is_written)) return answer();
  auto timer = event::Timer::create(host_.loop(), [this] { answer_if_written(); });
  if (!timer) return answer();
  timer_ = *std::move(timer);
  timer_->unref();
  timer_->start(kLookWritten);
}

void FailureDigests::answer() {
  gathered_ = host_.gather(kDigests, own(), [this](const Result<plugin::Gathered>& all) {
    if (all && host_.job().shell_rank == 0) take(*all);
    if (done_) std::exchange(done_, {})();
  });
}

// [[RECORD, LAST LINE, MODULE, RANKS], ...], "" if there is none.
std::string FailureDigests::own() const {
  std::map<std::pair<std::string, std::string>, std::vector<const task::Task*>> alike;
  for (const auto& task : host_.tasks()) {
    if (task->starts_again()) continue;  // elsewhere
    std::string record = exits::Record::of(task->status()).str();
    if (records_.contains(record)) alike[{std::move(record), facts_.last_line(*task)}].push_back(task.get());
  }
  std::map<std::string, std::size_t> counts;  // of classes, by record
  Json out = Json::array();
  for (const auto& [what, tasks] : alike) {
    std::map<std::string, value::Idset> by_module;
    std::string module;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (i < kMostCores) module = module_of(facts_, *tasks[i]);
      by_module[module].insert(static_cast<value::Idset::Id>(tasks[i]->rank()));
    }
    for (const auto& [name, ranks] : by_module) {
      if (counts[what.first]++ < kMostHere) out.push_back({what.first, what.second, name, ranks.str()});
    }
  }
  return out.empty() ? "" : dump_json(out);
}

// What another shell has sent is looked at member by member.
void FailureDigests::take(const plugin::Gathered& all) {
  std::map<std::tuple<std::string, std::string, std::string>, value::Idset> united;
  for (const auto& [bytes, shells] : all) {
    auto list = parse_json(bytes);
    if (!list || !list->is_array()) continue;
    for (const Json& each : *list) {
      bool is_whole = each.is_array() && each.size() == 4 &&
                      std::all_of(each.begin(), each.end(), [](const Json& text) { return text.is_string(); });
      auto ranks = is_whole ? value::Idset::parse(each[3].get<std::string>()) : value::Idset();
      if (!ranks || ranks->empty()) continue;
      united[{each[0].get<std::string>(), each[1].get<std::string>(), each[2].get<std::string>()}].insert(*ranks);
    }
  }
  for (const auto& [what, ranks] : united) {
    const auto& [record, last, module] = what;
    classes_[record].push_back({last, module, ranks});
  }
  for (auto& [record, classes] : classes_) {
    std::stable_sort(classes.begin(), classes.end(),
                     [](const Class& a, const Class& b) { return a.ranks.size() > b.ranks.size(); });
    if (classes.size() > kMostAll) classes.resize(kMostAll);
  }
}

}  // namespace nacre::plugins
