// SPDX-License-Identifier: Apache-2.0
#include "join/join.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/variable.hpp"
#include "boot/make_resources.hpp"
#include "event/clock.hpp"
#include "group/overlay_driver.hpp"
#include "join/extension.hpp"
#include "join/follow_launcher.hpp"
#include "join/leaving.hpp"
#include "join/newcomer.hpp"
#include "join/progress.hpp"
#include "join/start_others.hpp"
#include "transport/socket_directory.hpp"

namespace nacre::join {
namespace {

constexpr const char* kJoin = "join";    // the collective
constexpr event::Seconds kOthersToo{1};  // for more shells that fail in the same way, so that all are named

Json json_of(const LeaderGiven::Text& text) { return {{"name", text.name}, {"text", text.text}}; }

Result<std::optional<LeaderGiven::Text>> text_of(const JsonAt& given, std::string_view key) {
  auto at = TRY(given.find(key));
  if (!at) return std::optional<LeaderGiven::Text>();
  LeaderGiven::Text out;  // complete before the next TRY(): see group/statements.cpp
  out.name = TRY(TRY(at->at("name")).string());
  out.text = TRY(TRY(at->at("text")).string());
  return std::optional(std::move(out));
}

// What one shell sends: {"address"}; "offer" if R may have to be made; from the leader also "job" {"jobspec",
// "resources", "options", "input"}.
struct Introduction {
  std::string address;
  std::optional<boot::NodeOffer> offer;
  std::optional<LeaderGiven> job;

  [[nodiscard]] std::string text() const {
    Json out{{"address", address}};
    if (offer) out["offer"] = offer->text();
    if (job) {
      Json given{{"options", job->options}, {"input", job->has_input}};
      if (job->jobspec) given["jobspec"] = json_of(*job->jobspec);
      if (job->resources) given["resources"] = json_of(*job->resources);
      out["job"] = std::move(given);
    }
    return dump_json(out);
  }

  static Result<Introduction> parse(std::string_view text) {
    Json json = TRY(parse_json(text));
    JsonAt at = JsonAt::root(json);
    Introduction out;
    out.address = TRY(TRY(at.at("address")).string());
    if (auto offer = TRY(at.find("offer"))) out.offer = TRY(boot::NodeOffer::parse(TRY(offer->string())));
    if (auto job = TRY(at.find("job"))) {
      LeaderGiven given;
      given.jobspec = TRY(text_of(*job, "jobspec"));
      given.resources = TRY(text_of(*job, "resources"));
      given.options = TRY(TRY(job->at("options")).strings());
      given.has_input = TRY(TRY(job->at("input")).boolean());
      out.job = std::move(given);
    }
    return out;
  }
};

// By rank.
using Offers = std::vector<std::optional<boot::NodeOffer>>;

Result<job::Resources> resources_of(const Offers& offers) {
  std::vector<boot::NodeOffer> known;
  for (std::size_t rank = 0; rank < offers.size(); ++rank) {
    if (!offers[rank])
      return invalid(fmt::format("shell {} has sent no offer, and the leader was given no R", rank));
    known.push_back(*offers[rank]);
  }
  job::Resources out = TRY(job::Resources::from_json(TRY(boot::make_resources(known))));
  out.is_made = true;
  return out;
}

Result<boot::Identity> identity_of(const LeaderGiven& given, const Offers& offers) {
  boot::Identity me;
  if (!given.jobspec) return Error{ENOENT, "the leader was given no jobspec: give shell 0 --jobspec=FILE"};
  me.spec = TRY(in(given.jobspec->name, job::Jobspec::parse(given.jobspec->text)));
  if (given.resources) {
    me.resources = TRY(in(given.resources->name, job::Resources::parse(given.resources->text)));
  } else {
    me.resources = TRY(in("R made of what the nodes offer", resources_of(offers)));
  }
  if (me.resources.nodes.size() == offers.size()) return me;
  return invalid(fmt::format("{}: R has {} nodes, and the job has {} shells: start one shell on each node of R",
                             given.resources ? given.resources->name : "R", me.resources.nodes.size(),
                             offers.size()));
}

Result<Assembled> alone(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log) {
  CHECK_OK(follow_launcher(process, boot, 0));
  process.timeline.early.joining = process.timeline.early.joined = timeline::now();
  process.joined = true;
  const value::JobId id = boot.id;
  make_lone_group(process, std::move(boot), log);
  Offers offers(1);
  if (!given.resources) offers[0] = TRY(boot::own_offer(own_variable));
  Assembled out{TRY(identity_of(given, offers)), given.options, given.has_input};
  out.identity.id = id;
  if (process.later) process.later->keep(std::move(given));
  return out;
}

// One shell among several.
class Assembly {
 public:
  Assembly(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log)
      : process_(process), boot_(std::move(boot)), given_(std::move(given)), log_(log) {}
  ~Assembly() {
    process_.signals->serve(nullptr);
    process_.launched_by.on_gone = nullptr;
    if (process_.group && member_ != nullptr) member_->hooks().on_ended = nullptr;
  }
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  Result<Assembled> run() {
    CHECK_OK(make_member());
    CHECK_OK(follow_launcher(process_, boot_, rank_));
    watch_for_the_end();
    start_children();
    group::Group::Gathered all = TRY(exchange());
    auto learnt = learn(all);
    // All shells have found the same error: the leader logs it.
    if (!learnt && rank_ != 0) learnt.error().is_logged = true;
    return learnt;
  }

 private:
  Result<void> make_member() {
    rank_ = boot_.membership->rank;
    size_ = boot_.membership->size;
    address_ = boot_.membership->address;
    secret_.emplace(boot_.membership->secret.copy());
    auto member = TRY(group::OverlayDriver::create(*process_.loop, *std::move(boot_.membership), log_));
    member_ = member.get();
    CHECK_OK(member_->keep_alive());
    process_.group = std::move(member);
    return {};
  }

  // The job may end before all have joined: by a signal, with its launcher, or because of another shell.
  void watch_for_the_end() {
    process_.signals->serve([this](int signum, Signals::From) {
      auto action = process_.end.signalled(signum, event::clock_now().count(), exits::Work::starting);
      if (action == exits::Action::end) end_job(exits::ended_by_signal(signum, rank_));
    });
    process_.launched_by.on_gone = [this] {
      if (rank_ == 0) end_job(process_.launched_by.end_cause(rank_));
    };
    member_->hooks().on_ended = [this](const group::JobException& raised) {
      if (process_.end.is_decided()) return;
      process_.end.ordered({raised.message, raised.exit_code, raised.origin});
      log_cause(log_, raised, rank_ == 0);
    };
  }

  void end_job(const exits::Cause& cause) {
    if (process_.end.raised(cause) != exits::Action::end) return;
    member_->raise({"exec", 0, cause.message, cause.code, rank_, true});
  }

  // Under Slurm nobody is started here, but the leader can start others later.
  void start_children() {
    bool is_managed = boot_.way == boot::Way::slurm;
    if (!boot_.record || (is_managed && rank_ != 0)) return;
    // The signal came before that shell had a loop to receive it. This object is there until all have joined.
    auto on_killed = [this, &process = process_](group::Rank rank, int signum) {
      if (!process.joined && Signals::is_ending(signum)) end_job(exits::ended_by_signal(signum, rank));
    };
    make_launcher(process_, *boot_.record, *member_, log_, std::move(on_killed));
    if (is_managed) return;
    for (group::Rank child : boot_.record->children()) {
      std::string lines = launch::launch_lines(*secret_, boot_.record->of_child(child, address_));
      process_.launcher->start(child, host_of(child), std::move(lines));
    }
  }

  Result<group::Group::Gathered> exchange() {
    Introduction mine{address_, std::nullopt, std::nullopt};
    if (!boot_.record || boot_.record->makes_resources) mine.offer = TRY(boot::own_offer(own_variable));
    if (rank_ == 0) mine.job = std::move(given_);
    std::optional<Result<group::Group::Gathered>>& all = process_.introductions;
    process_.timeline.early.joining = timeline::now();
    member_->gather(kJoin, mine.text(), [&process = process_](Result<group::Group::Gathered> result) {
      process.joined = result.has_value();
      process.timeline.early.joined = timeline::now();
      process.introductions = std::move(result);
    });
    auto to_end = TRY(event::Timer::create(*process_.loop, [this] { end_incomplete(); }));
    bool is_losing = false;
    {
      std::unique_ptr<JoinProgress> progress;
      if (rank_ == 0 && boot_.record && boot_.record->terminal)
        progress = TRY(JoinProgress::show(*process_.loop, boot_.record->front, [this] { return missing(); }));
      process_.loop->run_until([&] {
        bool has_lost = rank_ == 0 && member_->node().tree().size() < size_;
        if (has_lost && !std::exchange(is_losing, true)) to_end.start_grace(kOthersToo);
        return all.has_value() || process_.launched_by.gone || process_.end.is_ending();
      });
    }
    if (process_.end.is_ending()) return Error{ECANCELED, process_.end.cause()->message, true};
    if (!all || !*all) process_.group.reset();
    if (!all) return *process_.launched_by.gone;
    return *std::exchange(all, std::nullopt);
  }

  // The children of the leader that have not joined, or that wait for others themselves.
  [[nodiscard]] std::vector<std::string> missing() const {
    std::vector<std::string> out;
    const overlay::Node& node = member_->node();
    for (const overlay::Collective& each : node.collectives()) {
      if (each.name != kJoin) continue;
      std::vector<overlay::Id> children = node.tree().children(0);
      for (std::size_t i = 0; i < each.below.size(); ++i) {
        if (each.below[i].value) continue;
        std::string host = host_of(children[i]);
        out.push_back(fmt::format("shell {}{}{}", children[i], host.empty() ? "" : " on ", host));
      }
    }
    return out;
  }

  Result<Assembled> learn(const group::Group::Gathered& all) {
    std::vector<std::optional<Introduction>> shells(size_);
    for (const auto& [text, ranks] : all) {
      Introduction sent = TRY(in(fmt::format("shell {}", ranks.short_str()), Introduction::parse(text)));
      for (group::Rank rank : ranks.ids()) {
        if (rank < size_) shells[rank] = sent;
      }
    }
    CHECK_OK(check_complete(shells));
    Offers offers;
    std::vector<std::string> addresses;
    std::string mark = transport::host_mark();
    for (group::Rank rank = 0; rank < size_; ++rank) {
      CHECK_OK(member_->membership().directory.set(rank, transport::usable_on(mark, shells[rank]->address)));
      if (rank_ == 0) addresses.push_back(std::move(shells[rank]->address));
      offers.push_back(std::move(shells[rank]->offer));
    }
    if (!shells[0]->job) return invalid("the leader has sent no job");
    Assembled out{TRY(identity_of(*shells[0]->job, offers)), shells[0]->job->options, shells[0]->job->has_input};
    out.identity.id = member_->membership().job;
    out.identity.shell_rank = rank_;
    if (rank_ != 0) process_.launch_stream.reset();
    if (rank_ == 0 && process_.launcher) keep_for_later(std::move(addresses), *std::move(shells[0]->job));
    return out;
  }

  void keep_for_later(std::vector<std::string> addresses, LeaderGiven given) {
    launch::LaunchRecord record = *std::exchange(boot_.record, std::nullopt);
    process_.later = std::make_unique<LaterShells>(std::move(record), boot_.way);
    process_.later->keep(std::move(given));
    process_.later->secret = std::move(secret_);
    process_.later->addresses = std::move(addresses);
  }

  // "": unknown.
  [[nodiscard]] std::string host_of(group::Rank rank) const {
    return boot_.record ? boot_.record->hosts.nth(rank).value_or("") : "";
  }

  Result<void> check_complete(const std::vector<std::optional<Introduction>>& shells) {
    value::Idset missing;
    for (group::Rank rank = 0; rank < size_; ++rank) {
      if (!shells[rank]) missing.insert(rank);
    }
    if (missing.empty()) return {};
    return Error{ETIMEDOUT, did_not_join(missing)};
  }

  [[nodiscard]] std::string did_not_join(const value::Idset& missing) const {
    std::string names;
    for (group::Rank rank : missing.ids()) {
      if (std::string host = host_of(rank); !host.empty()) names += (names.empty() ? " on " : ", ") + host;
    }
    return fmt::format("shell{} {}{} did not join the job", missing.size() == 1 ? "" : "s", missing.str(), names);
  }

  // A shell was lost before it joined. Shells that it should have started would be waited for in vain.
  void end_incomplete() {
    value::Idset missing;
    for (group::Rank rank = 0; rank < size_; ++rank) {
      if (!member_->node().tree().has(rank)) missing.insert(rank);
    }
    end_job({did_not_join(missing), std::nullopt, rank_});
  }

  ShellProcess& process_;
  boot::Boot boot_;
  LeaderGiven given_;
  Log& log_;
  group::Rank rank_ = 0;
  std::uint32_t size_ = 1;
  std::string address_;
  std::optional<transport::Secret> secret_;
  group::OverlayDriver* member_ = nullptr;
};

}  // namespace

Result<Assembled> assemble(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log) {
  if (!boot.membership) return alone(process, std::move(boot), std::move(given), log);
  if (boot.membership->is_newcomer) return join_running(process, std::move(boot), std::move(given), log);
  return Assembly(process, std::move(boot), std::move(given), log).run();
}

}  // namespace nacre::join
