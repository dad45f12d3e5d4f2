// SPDX-License-Identifier: Apache-2.0
#include "fake_job.hpp"

#include "quiet_port.hpp"

namespace nacre::kit {
namespace {

// A plugin that gets this port knows that there are other shells; nothing goes through it.
class NoPort final : public QuietPort {
 public:
  Result<bool> put(bulk::Channel, std::string_view) override { return Error{ENOTSUP, "no bulk data in a FakeJob"}; }
  Result<bool> broadcast(bulk::Channel, std::string_view) override {
    return Error{ENOTSUP, "no bulk data in a FakeJob"};
  }
  Result<void> end_broadcast(bulk::Channel) override { return Error{ENOTSUP, "no bulk data in a FakeJob"}; }
};

}  // namespace

class FakeJob::Shell final : public FakeHost {
 public:
  Shell(FakeJob& job, std::uint32_t nodes, std::uint32_t tasks_per_node, std::uint32_t rank)
      : FakeHost(jobspec_of(nodes * tasks_per_node), fake_nodes(nodes, tasks_per_node), rank),
        job_(job),
        rank_(rank) {
    port = &no_port_;
  }

  bool standalone() const override { return false; }
  bool has_input() const override { return rank_ == 0; }
  Result<void> announce(std::string_view topic, std::string_view bytes) override {
    job_.announced_.push_back({std::string(topic), std::string(bytes), {}});
    return {};
  }
  plugin::Registration exec(value::ExecOrder order, WhenOrdered done) override {
    auto pending = orders_.add(std::move(done));
    job_.order(std::move(order), std::move(pending.receive));
    return std::move(pending.registration);
  }
  plugin::Registration gather(std::string_view name, std::string mine, WhenGathered done) override {
    auto pending = gathers_.add(std::move(done));
    job_.gather(rank_, std::string(name), std::move(mine), std::move(pending.receive));
    return std::move(pending.registration);
  }

  bool is_cut_off = false;

 private:
  FakeJob& job_;
  std::uint32_t rank_;
  plugin::PendingAnswers<Result<plugin::Gathered>> gathers_;
  plugin::PendingAnswers<Result<value::ExecAnswer>> orders_;
  NoPort no_port_;
};

FakeJob::FakeJob(std::uint32_t nodes, std::uint32_t tasks_per_node) {
  for (std::uint32_t rank = 0; rank < nodes; ++rank) {
    shells_.push_back(std::make_unique<Shell>(*this, nodes, tasks_per_node, rank));
  }
}

FakeJob::~FakeJob() = default;

FakeHost& FakeJob::operator[](std::uint32_t shell) { return *shells_[shell]; }

void FakeJob::deliver() {
  while (!announced_.empty()) {
    Announcement next = std::move(announced_.front());
    announced_.pop_front();
    if (next.order) {
      next.order();
      continue;
    }
    for (std::uint32_t rank = 0; rank < shells_.size(); ++rank) {
      if (lost_.count(rank) + stopped_.count(rank) == 0) shells_[rank]->announced(next.topic, next.bytes);
    }
  }
}

void FakeJob::order(value::ExecOrder order, std::function<void(Result<value::ExecAnswer>)> done) {
  announced_.push_back({"", "", [this, order = std::move(order), done = std::move(done)] {
                          value::ExecAnswer answer;
                          for (const auto& [shell, ranks] : order.shares) {
                            if (order.strict && lost_.count(shell) > 0) answer.lost.insert(shell);
                          }
                          if (answer.lost.empty()) answer.number = ++orders_;
                          done(answer);
                          if (answer.number == 0) return;
                          for (const auto& [shell, ranks] : order.shares) {
                            if (lost_.count(shell) + stopped_.count(shell) == 0)
                              shells_[shell]->ordered({answer.number, ranks, order.command, order.kind});
                          }
                        }});
}

void FakeJob::lose(std::uint32_t shell) {
  lost_.insert(shell);
  for (std::uint32_t rank = 0; rank < shells_.size(); ++rank) {
    if (rank != shell) shells_[rank]->messages().lost(shell);
  }
  for (auto& [name, collective] : collectives_) collective.waiting.erase(shell);
  complete_what_can_be();
}

void FakeJob::cut_off(std::uint32_t shell) {
  shells_[shell]->is_cut_off = true;
  std::vector<std::function<void(Result<plugin::Gathered>)>> waiting;
  for (auto& [name, collective] : collectives_) {
    if (auto mine = collective.waiting.extract(shell)) waiting.push_back(std::move(mine.mapped()));
  }
  for (const auto& done : waiting) done(Error{ECONNRESET, "cut off from the job"});
  shells_[shell]->messages().cut_off();
  lose(shell);
}

std::vector<std::string> FakeJob::unfinished() const {
  std::vector<std::string> out;
  for (const auto& [name, collective] : collectives_) {
    if (!collective.waiting.empty()) out.push_back(name);
  }
  return out;
}

void FakeJob::gather(std::uint32_t shell, const std::string& name, std::string mine,
                     std::function<void(Result<plugin::Gathered>)> done) {
  if (shells_[shell]->is_cut_off) return done(Error{ECONNRESET, "cut off from the job"});
  Collective& collective = collectives_[name];
  collective.given.emplace(shell, std::move(mine));
  collective.waiting.emplace(shell, std::move(done));
  complete_what_can_be();
}

// A completed gather may give to the next one, or announce.
void FakeJob::complete_what_can_be() {
  for (bool again = true; std::exchange(again, false);) {
    for (auto& [name, collective] : collectives_) {
      bool complete = !collective.waiting.empty();
      for (std::uint32_t rank = 0; rank < shells_.size(); ++rank) {
        complete = complete && (lost_.count(rank) > 0 || collective.given.count(rank) > 0);
      }
      if (!complete) continue;
      plugin::Gathered all;
      for (const auto& [rank, bytes] : collective.given) {
        if (lost_.count(rank) == 0) all[bytes].insert(rank);
      }
      auto waiting = std::exchange(collective.waiting, {});
      for (const auto& [rank, done] : waiting) done(all);
      again = true;
      break;
    }
  }
}

}  // namespace nacre::kit
