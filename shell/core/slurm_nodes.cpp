// SPDX-License-Identifier: Apache-2.0
#include "core/slurm_nodes.hpp"

#include <memory>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/batch_system.hpp"

namespace nacre::core {
namespace {

constexpr event::Seconds kToWithdraw{20};    // for salloc to end, once its request was withdrawn
constexpr event::Seconds kWithdrawAgain{1};  // it may not have been there yet
constexpr event::Seconds kToEnd{20};         // for all of them, with the job
constexpr const char* kManager = "Slurm";

value::Hostlist common(const value::Hostlist& one, const value::Hostlist& other) {
  value::Hostlist out;
  for (const std::string& each : one.names()) {
    if (other.find(each)) out.append(each);
  }
  return out;
}

}  // namespace

SlurmNodes::SlurmNodes(plugin::Host& host, std::string job, WhenKilled when_killed)
    : host_(host),
      job_(std::move(job)),
      name_("nacre-" + host.job().id.f58_plain()),
      when_killed_(std::move(when_killed)),
      asking_(host.loop(), host.children()),
      telling_(host.loop(), host.children()) {}

// ---- to get some -------------------------------------------------------------------------------

void SlurmNodes::ask(Wanted wanted, std::function<void(Result<Nodes>)> done) {
  if (stopped_) return done(Error{ECANCELED, "the job is ending"});
  requests_.push_back({std::move(wanted), std::move(done)});
  if (requests_.size() == 1) begin();
}

void SlurmNodes::begin() {
  if (requests_.empty()) return watch();
  Wanted& wanted = requests_.front().wanted;
  for (const auto& [id, hosts] : allocations_) wanted.without.append(hosts);
  wanted.without.uniq();
  is_withdrawn_ = false;
  reason_.clear();
  watch();
  SlurmCommand command = slurm_request({job_, name_, wanted.count, wanted.hosts, wanted.without});
  command.most = wanted.wait + kToWithdraw;
  auto timer = event::Timer::create(host_.loop(), [this] { withdraw(); });
  Result<void> started = timer ? asking_.start(std::move(command),
                                               [this](Result<std::string> answer) {
                                                 answer_ = std::move(answer);
                                                 settle();
                                               })
                               : Result<void>(timer.error());
  if (!started) {
    answer_ = started.error();
    return settle();
  }
  time_ = *std::move(timer);
  time_->start_grace(wanted.wait);
}

void SlurmNodes::withdraw() {
  is_withdrawn_ = true;
  ++withdrawing_;
  tell(slurm_withdraw(name_), [this](const Result<std::string>& reason) {
    --withdrawing_;
    if (reason && reason_.empty()) reason_ = trim(*reason);
    if (!reason) reason_ = reason.error().message;
    if (answer_) return settle();
    if (asking_.runs() && time_) time_->start(kWithdrawAgain);
  });
}

void SlurmNodes::settle() {
  if (withdrawing_ > 0) return;
  time_.reset();
  Request over = std::move(requests_.front());
  requests_.pop_front();
  Result<std::string> answer = *std::exchange(answer_, std::nullopt);
  Result<Nodes> nodes = answer ? granted(*answer) : Result<Nodes>(answer.error());
  if (is_withdrawn_ && nodes) {
    value::Hostlist late;
    for (const std::string& each : nodes->hosts) late.append(each);
    give_back(late, nullptr);
  }
  if (is_withdrawn_) nodes = not_granted(over.wanted);
  begin();
  over.done(std::move(nodes));
}

Result<SlurmNodes::Nodes> SlurmNodes::granted(const std::string& text) {
  std::string_view words = trim(text);
  std::string id(words.substr(0, words.find(' ')));
  auto hosts = value::Hostlist::parse(trim(words.substr(id.size())));
  if (!hosts || hosts->empty()) {
    tell(slurm_end(id), [](const Result<std::string>&) {});
    return Error{EPROTO, fmt::format("Slurm has given allocation {}, whose nodes cannot be read: {}; it is ended",
                                     id, in_quotes(words))};
  }
  allocations_[id] = *hosts;
  return Nodes{hosts->names(), slurm_agent(id)};
}

Error SlurmNodes::not_granted(const Wanted& wanted) const {
  if (stopped_) return {ECANCELED, "the job is ending"};
  std::string reason = reason_.empty() ? "" : fmt::format(" (pending: {})", reason_);
  return {ETIMEDOUT, fmt::format("Slurm has not given {} node{} within {:g} s{}: the request is withdrawn; give a "
                                 "longer --wait, or fewer nodes",
                                 wanted.count, wanted.count == 1 ? "" : "s", wanted.wait.count(), reason)};
}

// ---- to give them back -------------------------------------------------------------------------

value::Hostlist SlurmNodes::held(const value::Hostlist& hosts) const {
  value::Hostlist out;
  for (const auto& [id, there] : allocations_) out.append(common(hosts, there));
  return out;
}

void SlurmNodes::give_back(const value::Hostlist& hosts, std::function<void(const Json& outcome)> done) {
  struct Open {
    std::function<void(const Json& outcome)> done;
    ~Open() {
      if (done) done(nullptr);
    }
  };
  auto open = std::make_shared<Open>();
  open->done = std::move(done);
  for (auto& [allocation, there] : allocations_) {
    value::Hostlist leaving = common(hosts, there);
    if (leaving.empty()) continue;
    there.remove(leaving);
    SlurmCommand command = slurm_end(allocation);
    if (!there.empty()) {
      job::BatchSystem slurm;
      slurm.kind = job::BatchSystem::Kind::slurm;
      slurm.job = allocation;
      auto smaller = slurm.release(leaving);
      command = {smaller.name, smaller.argv};
    }
    // What Slurm does not take now ends with the job.
    bool is_all = there.empty();
    tell(std::move(command), [this, open, leaving, is_all, id = allocation](const Result<std::string>& told) {
      if (is_all && told) allocations_.erase(id);
      watch();
      if (open->done) open->done(job::release_outcome(kManager, leaving, told));
    });
  }
}

void SlurmNodes::stop() {
  if (std::exchange(stopped_, true)) return;
  while (requests_.size() > 1) {
    auto done = std::move(requests_.back().done);
    requests_.pop_back();
    done(Error{ECANCELED, "the job is ending"});
  }
  if (!requests_.empty()) withdraw();
}

Result<void> SlurmNodes::end() {
  stop();
  if (allocations_.empty() && requests_.empty()) return {};
  tell(slurm_end_all(name_), [this](const Result<std::string>& told) {
    if (!told) ended_ = told.error();
  });
  bool late = false;
  auto timer = TRY(event::Timer::create(host_.loop(), [&late] { late = true; }));
  timer.start_grace(kToEnd);
  host_.loop().run_until([&] { return late || (told_.empty() && requests_.empty()); });
  if (late) return Error{ETIMEDOUT, fmt::format("Slurm has not answered within {:g} s", kToEnd.count())};
  allocations_.clear();
  if (ended_) watch();
  return ended_;
}

// ---- the commands ------------------------------------------------------------------------------

void SlurmNodes::tell(SlurmCommand command, task::CommandRun::WhenDone done) {
  told_.push_back({std::move(command), std::move(done)});
  if (told_.size() == 1) tell_next();
}

void SlurmNodes::tell_next() {
  while (!told_.empty() && !telling_.runs()) {
    Result<void> started = telling_.start(std::move(told_.front().command), [this](Result<std::string> answer) {
      auto done = std::move(told_.front().done);
      told_.pop_front();
      done(std::move(answer));
      tell_next();
    });
    if (started) return;
    auto done = std::move(told_.front().done);
    told_.pop_front();
    done(started.error());
  }
}

// From before the first request on, as salloc may be killed with this shell.
void SlurmNodes::watch() const {
  bool has_any = !allocations_.empty() || !requests_.empty();
  when_killed_(has_any ? slurm_end_all(name_).argv : std::vector<std::string>());
}

}  // namespace nacre::core
