// SPDX-License-Identifier: Apache-2.0
#include "job_leader.hpp"

#include <utility>

#include "job_elastic.hpp"
#include "job_shell.hpp"

namespace nacre::sim {

JobLeader::JobLeader(JobShell& shell, JobElastic& elastic)
    : shell_(shell),
      elastic_(elastic),
      grows_(shell, elastic, *this),
      losses_(shell, elastic, *this),
      restarts_(shell, elastic, *this),
      shrinks_(shell, elastic, *this),
      answers_(shell, elastic) {}

void JobLeader::order(std::size_t number, const Order& order) {
  if (order.what == Order::What::restart) return restarts_.order(number, order.ids);
  if (order.what == Order::What::grow) return grows_.order(number, order);
  value::ShrinkOrder what;
  what.shells = order.ids;
  what.grace = static_cast<double>(order.grace.count()) / 1e6;
  shrinks_.order(what, [this, number](bool is_error) { shell_.process().witness().answered(number, is_error); });
}

void JobLeader::request(RequestBody body, const std::function<void(const Entry*)>& done) {
  if (auto number = shell_.group().request(std::move(body))) {
    requests_.emplace(*number, done);
  } else {
    done(nullptr);
  }
}

void JobLeader::answered(const Entry& entry) {
  auto found = requests_.extract(entry.request.number);
  if (found) found.mapped()(&entry);
}

void JobLeader::announced(const std::string& topic, const Json& what) {
  if (topic == "shell.restart-refused")
    return restarts_.done_with(Idset::parse(what.at("ranks").get<std::string>()).value());
  grows_.announced(topic, what);
}

// ---- the ends of tasks ---------------------------------------------------------------------

void JobLeader::expect(const Idset& ranks) {
  for (Id rank : ranks.ids()) expect(Idset::range(rank, rank), elastic_.replica().job().attempt_of(rank));
}

void JobLeader::reported(const group::Ended& ended) {
  for (const auto& [attempt, ranks] : elastic::Starts(elastic_.replica().job().tasks()).ranks(ended.tasks))
    note_ended(expected_.current(ranks, attempt), ended.record);
}

void JobLeader::note_ended(const Idset& ranks, const exits::Record& record) {
  Idset fresh = shell_.records().add(shell_.process().world().now, ranks, record);
  if (!fresh.empty()) restarts_.done_with(fresh);
}

// ---- the end of the job --------------------------------------------------------------------

void JobLeader::tasks_are_over() {
  const job::Job& job = elastic_.replica().job();
  const Changes& changes = elastic_.replica().changes();
  bool some_wait = job.spares > 0 || changes.takes_any || changes.to_spare;
  for (Id shell = 0; shell < job.nodes() && changes.restarts; ++shell)
    some_wait = some_wait || job.taskmap.tasks_on(shell) == 0;
  if (some_wait) shell_.group().announce("shell.tasks-over", "");
  grows_.stop();
}

void JobLeader::job_over() {
  job_over_ = true;
  shrinks_.end_all();
  restarts_.end_all();
}

std::string JobLeader::open() const {
  if (shrinks_.are_open()) return "a shrink";
  if (grows_.are_open()) return "a grow";
  if (restarts_.are_open()) return "an order to restart";
  return "";
}

}  // namespace nacre::sim
