// SPDX-License-Identifier: Apache-2.0
#include "join/newcomer.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/variable.hpp"
#include "boot/make_resources.hpp"
#include "event/loop.hpp"
#include "group/overlay_driver.hpp"
#include "join/follow_launcher.hpp"

namespace nacre::join {
namespace {

constexpr event::Seconds kForAnswers{60};  // of the leader, beyond the time that it waits for this shell

class Newcomer {
 public:
  Newcomer(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log)
      : process_(process), boot_(std::move(boot)), given_(std::move(given)), log_(log) {}
  ~Newcomer() {
    process_.signals->serve(nullptr);
    process_.launched_by.on_gone = nullptr;
    if (!process_.group) return;
    group::DriverHooks& hooks = member_->hooks();
    hooks.on_ended = nullptr;
    hooks.on_announced = nullptr;
    hooks.on_member = nullptr;
  }
  Newcomer(const Newcomer&) = delete;
  Newcomer& operator=(const Newcomer&) = delete;

  Result<Assembled> run() {
    auto joined = join();
    if (!joined) process_.group.reset();
    return joined;
  }

 private:
  Result<Assembled> join() {
    process_.joins_late = true;
    elastic::Growth before = TRY(growth_of(*boot_.record->growth));
    offer_ = TRY(boot::own_offer(own_variable)).text();
    CHECK_OK(make_member());
    CHECK_OK(follow_launcher(process_, boot_, rank_));
    process_.signals->serve([this](int signum, Signals::From) { over_ = Error{ECANCELED, ended_by(signum)}; });
    process_.launched_by.on_gone = [this] { over_ = process_.launched_by.gone; };
    CHECK_OK(wait());
    process_.joined = true;
    process_.timeline.early.joined = timeline::now();
    process_.launch_stream.reset();
    return assembled(std::move(before));
  }

  Result<void> make_member() {
    rank_ = boot_.membership->rank;
    auto member = TRY(group::OverlayDriver::create(*process_.loop, *std::move(boot_.membership), log_));
    member_ = member.get();
    process_.group = std::move(member);
    CHECK_OK(member_->keep_alive());
    process_.timeline.early.joining = timeline::now();
    group::DriverHooks& hooks = member_->hooks();
    hooks.on_member = [this] { send_offer(); };
    hooks.on_announced = [this](std::string_view topic, std::string_view bytes) { return take(topic, bytes); };
    hooks.on_ended = [this](const group::JobException& raised) { note_ended(raised.message); };
    return {};
  }

  void note_ended(const std::string& why) {
    over_ = Error{ECANCELED, fmt::format("the job has ended meanwhile: {}", why)};
  }

  static std::string ended_by(int signum) { return exits::ended_by_signal(signum, 0).message; }

  static Result<elastic::Growth> growth_of(const std::string& text) {
    Json json = TRY(in("the launch record: growth", parse_json(text)));
    return in("the launch record", elastic::Growth::parse(JsonAt::root(json)));
  }

  void send_offer() {
    Result<void> sent = member_->announce(elastic::kOfferTopic, dump_json({{"shell", rank_}, {"offer", offer_}}));
    if (!sent) over_ = sent.error();
  }

  // True: this shell counts from here on.
  bool take(std::string_view topic, std::string_view bytes) {
    bool is_grown = topic == elastic::kGrownTopic;
    bool is_state = topic == elastic::kStateTopic && mine_;
    if (!is_grown && !is_state) return false;
    auto json = parse_json(bytes);
    if (!json) return false;
    auto ended = json->find("ended");
    if (is_state && ended != json->end() && ended->is_string()) note_ended(ended->get<std::string>());
    if (is_state && !state_) state_ = *std::move(json);
    if (is_state) return false;
    auto growth = elastic::Growth::parse(JsonAt::root(*json));
    if (!growth || !growth->has(rank_)) return false;
    mine_ = *std::move(growth);
    return true;
  }

  Result<void> wait() {
    auto late = TRY(event::Timer::create(*process_.loop, [this] {
      over_ = Error{ETIMEDOUT, "the job has not taken this shell in time"};
    }));
    late.start_grace(event::Seconds(boot_.record->timeout) + kForAnswers);
    process_.loop->run_until([this] { return over_ || (mine_ && state_); });
    if (!over_) return {};
    return *over_;
  }

  Result<Assembled> assembled(elastic::Growth growth) {
    Assembled out;
    boot::Identity& me = out.identity;
    if (!given_.jobspec || !given_.resources)
      return invalid("the launch record: a shell that joins a job that runs has to be given jobspec and R");
    me.id = member_->membership().job;
    me.shell_rank = rank_;
    me.spec = TRY(in(given_.jobspec->name, job::Jobspec::parse(given_.jobspec->text)));
    me.resources = TRY(in(given_.resources->name, job::Resources::parse(given_.resources->text)));
    me.resources.is_made = boot_.record->makes_resources;
    for (elastic::Growth::Shell& each : mine_->shells) growth.shells.push_back(std::move(each));
    process_.late = LateShell{std::move(growth), *std::move(state_)};
    out.options = std::move(given_.options);
    out.has_input = false;
    return out;
  }

  ShellProcess& process_;
  boot::Boot boot_;
  LeaderGiven given_;
  Log& log_;
  group::Rank rank_ = 0;
  std::string offer_;
  group::OverlayDriver* member_ = nullptr;
  std::optional<elastic::Growth> mine_;  // the one that has brought this shell
  std::optional<Json> state_;
  std::optional<Error> over_;
};

}  // namespace

Result<Assembled> join_running(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log) {
  return Newcomer(process, std::move(boot), std::move(given), log).run();
}

}  // namespace nacre::join
