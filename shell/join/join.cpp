// SPDX-License-Identifier: Apache-2.0
#include "join/join.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/print.hpp"
#include "base/program.hpp"
#include "boot/boot.hpp"
#include "boot/make_resources.hpp"
#include "elastic/roster.hpp"
#include "event/clock.hpp"
#include "event/loop.hpp"
#include "group/alone.hpp"
#include "group/extendable.hpp"
#include "group/overlay_driver.hpp"
#include "join/leaving.hpp"
#include "join/shell_process.hpp"
#include "launch/own_sockets.hpp"
#include "launch/record.hpp"
#include "transport/address.hpp"
#include "version.hpp"
#include "wire/json.hpp"

namespace nacre::join {

// ---- newcomer ---------------------------------------------------------------------------
//
// How a shell joins a job that runs (nacre grow): it dials the leader, which adds it to the job, and sends it what
// the job has come to by then. No other shell waits for it.

// As assemble(). After an error the process has no group: the job goes on.
Result<Assembled> join_running(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log);

// ---- follow launcher --------------------------------------------------------------------

// Until it has joined, a shell does not outlive the process that started it; the leader never does. Makes the
// process's launch stream.
Result<void> follow_launcher(ShellProcess& process, boot::Boot& boot, group::Rank rank);

// ---- extension --------------------------------------------------------------------------
//
// A job of one shell that nacre has started can get others while it runs (nacre grow). Nothing is prepared for that
// at its start: secret, sockets, links and the launcher are made when it grows for the first time.

// Makes the group of a shell that is alone, and, where others can join it, `process.later`, with what is left to
// prepare.
void make_lone_group(ShellProcess& process, boot::Boot boot, Log& log);

// ---- start others -----------------------------------------------------------------------

// Makes the launcher by which this shell, `member`, starts others in the way of its own launch record. Both
// `member` and `log` have to outlive it. `on_killed`: as in Launcher; may be unset.
void make_launcher(ShellProcess& process, const launch::LaunchRecord& record, group::OverlayDriver& member,
                   Log& log, std::function<void(group::Rank, int signum)> on_killed);

// ---- join -------------------------------------------------------------------------------

namespace {

constexpr const char* kJoin = "join";    // the collective
constexpr event::Seconds kOthersToo{1};  // for more shells that fail in the same way, so that all are named

// What one shell sends: {"address"}; "offer" if R may have to be made; from the leader also "job" {"jobspec",
// "resources", "options", "input"}.
struct Introduction {
  std::string address;
  std::optional<boot::NodeOffer> offer;
  std::optional<LeaderGiven> job;
};

struct OfferText {
  static Json write(const boot::NodeOffer& offer) { return offer.text(); }
  static Result<void> read(const JsonAt& at, boot::NodeOffer& offer) {
    offer = TRY(boot::NodeOffer::parse(TRY(at.string())));
    return {};
  }
};

constexpr wire::Object kFile{[](auto& io, auto& m) {
  io.has("name", m.name);
  io.has("text", m.text);
}};

constexpr wire::Object kGiven{[](auto& io, auto& m) {
  io.may_have("jobspec", m.jobspec, kFile);
  io.may_have("resources", m.resources, kFile);
  io.has("options", m.options);
  io.has("input", m.has_input);
}};

void fields(auto& io, wire::Of<Introduction> auto& m) {
  io.has("address", m.address);
  io.may_have("offer", m.offer, OfferText());
  io.may_have("job", m.job, kGiven);
}

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
class Assembly : Noncopyable {
 public:
  Assembly(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log)
      : process_(process), boot_(std::move(boot)), given_(std::move(given)), log_(log) {}
  ~Assembly() {
    process_.signals->serve(nullptr);
    process_.launcher_events.on_gone = nullptr;
    if (process_.group && member_ != nullptr) member_->hooks().on_ended = nullptr;
  }

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
    process_.launcher_events.on_gone = [this] {
      if (rank_ == 0) end_job(process_.launcher_events.end_cause(rank_));
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

  // Under Slurm, and where only Kubernetes starts pods, nobody is started here, but others may join later.
  void start_children() {
    const bool is_managed = boot_.way == boot::Way::slurm || boot_.way == boot::Way::index;
    if (!boot_.record) return;
    // The signal came before that shell had a loop to receive it. This object is there until all have joined.
    auto on_killed = [this, &process = process_](group::Rank rank, int signum) {
      if (!process.joined && Signals::is_ending(signum)) end_job(exits::ended_by_signal(signum, rank));
    };
    make_launcher(process_, *boot_.record, *member_, log_, std::move(on_killed));
    if (is_managed) return;
    std::vector<launch::Launcher::Shell> shells;
    const std::vector<group::Rank> children = boot_.record->children();
    const std::vector<std::string> records = boot_.record->lines_of_children(address_);
    for (std::size_t i = 0; i < children.size(); ++i)
      shells.push_back({children[i], host_of(children[i]), launch::launch_lines(*secret_, records[i])});
    process_.launcher->start(std::move(shells));
  }

  Result<group::Group::Gathered> exchange() {
    Introduction mine{address_, std::nullopt, std::nullopt};
    if (!boot_.record || boot_.record->makes_resources) mine.offer = TRY(boot::own_offer(own_variable));
    if (rank_ == 0) mine.job = std::move(given_);
    std::optional<Result<group::Group::Gathered>>& all = process_.introductions;
    process_.timeline.early.joining = timeline::now();
    member_->gather(kJoin, wire::to_text(mine), [&process = process_](Result<group::Group::Gathered> result) {
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
        return all.has_value() || process_.launcher_events.gone || process_.end.is_ending();
      });
    }
    if (process_.end.is_ending()) return Error{ECANCELED, process_.end.cause()->message, true};
    if (!all || !*all) process_.group.reset();
    if (!all) return *process_.launcher_events.gone;
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
      Introduction sent = TRY(in(fmt::format("shell {}", ranks.short_str()), wire::from_text<Introduction>(text)));
      for (group::Rank rank : ranks.ids()) {
        if (rank < size_) shells[rank] = sent;
      }
    }
    CHECK_OK(check_complete(shells));
    Offers offers;
    std::map<group::Rank, std::string> addresses;
    std::string mark = transport::host_mark();
    for (group::Rank rank = 0; rank < size_; ++rank) {
      CHECK_OK(member_->membership().directory.set(rank, transport::usable_on(mark, shells[rank]->address)));
      if (process_.launcher) addresses.emplace(rank, std::move(shells[rank]->address));
      offers.push_back(std::move(shells[rank]->offer));
    }
    if (!shells[0]->job) return invalid("the leader has sent no job");
    Assembled out{TRY(identity_of(*shells[0]->job, offers)), shells[0]->job->options, shells[0]->job->has_input};
    out.identity.id = member_->membership().job;
    out.identity.shell_rank = rank_;
    if (rank_ != 0) process_.launch_stream.reset();
    if (process_.launcher) {
      if (boot_.record->hosts.empty()) {  // pods know no others
        for (const job::NodeResources& each : out.identity.resources.nodes)
          boot_.record->hosts.append(each.hostname);
      }
      keep_for_later(std::move(addresses), *std::move(shells[0]->job));
    }
    return out;
  }

  // Who does not lead drops it once it is known that it never will (Shell::hand_over).
  void keep_for_later(std::map<group::Rank, std::string> addresses, LeaderGiven given) {
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

// ---- newcomer ---------------------------------------------------------------------------

namespace {

constexpr event::Seconds kForAnswers{60};  // of the leader, beyond the time that it waits for this shell

class Newcomer : Noncopyable {
 public:
  Newcomer(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log)
      : process_(process), boot_(std::move(boot)), given_(std::move(given)), log_(log) {}
  ~Newcomer() {
    process_.signals->serve(nullptr);
    process_.launcher_events.on_gone = nullptr;
    if (!process_.group) return;
    group::DriverHooks& hooks = member_->hooks();
    hooks.on_ended = nullptr;
    hooks.on_announced = nullptr;
    hooks.on_member = nullptr;
    hooks.on_leader = nullptr;
  }

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
    process_.launcher_events.on_gone = [this] { note_gone(); };
    CHECK_OK(wait());
    process_.joined = true;
    process_.timeline.early.joined = timeline::now();
    process_.launch_stream.reset();
    return assembled(std::move(before));
  }

  Result<void> make_member() {
    rank_ = boot_.membership->rank;
    may_vote_ = boot_.membership->leader.has_value();
    address_ = boot_.membership->address;
    auto member = TRY(group::OverlayDriver::create(*process_.loop, *std::move(boot_.membership), log_));
    member_ = member.get();
    process_.group = std::move(member);
    CHECK_OK(member_->keep_alive());
    process_.timeline.early.joining = timeline::now();
    group::DriverHooks& hooks = member_->hooks();
    hooks.on_member = [this] {
      is_member_ = true;
      send_offer();
    };
    hooks.on_announced = [this](std::string_view topic, std::string_view bytes) { return take(topic, bytes); };
    hooks.on_ended = [this](const group::JobException& raised) { note_ended(raised.message); };
    hooks.on_leader = [this] { over_ = Error{ECANCELED, "the shell that led the job was lost meanwhile"}; };
    return {};
  }

  // The leader has started it, and may be lost. A member that can vote first helps to choose the next one: without
  // it too few may be left for that.
  void note_gone() {
    if (!is_member_ || !may_vote_) over_ = process_.launcher_events.gone;
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
    out.options = given_.options;
    out.has_input = false;
    keep_for_later();
    return out;
  }

  // Its launcher is made once it leads and starts others.
  void keep_for_later() {
    process_.later = std::make_unique<LaterShells>(*std::exchange(boot_.record, std::nullopt), boot_.way);
    LaterShells& later = *process_.later;
    later.keep(std::move(given_));
    later.addresses[rank_] = address_;
    later.extend = [&process = process_, member = member_, &log = log_]() -> Result<void> {
      process.later->secret = TRY(member->secret())->copy();
      make_launcher(process, process.later->record, *member, log, nullptr);
      return {};
    };
  }

  ShellProcess& process_;
  boot::Boot boot_;
  LeaderGiven given_;
  Log& log_;
  group::Rank rank_ = 0;
  std::string offer_, address_;
  bool may_vote_ = false;  // the job may change its leader
  bool is_member_ = false;
  group::OverlayDriver* member_ = nullptr;
  std::optional<elastic::Growth> mine_;  // the one that has brought this shell
  std::optional<Json> state_;
  std::optional<Error> over_;
};

}  // namespace

Result<Assembled> join_running(ShellProcess& process, boot::Boot boot, LeaderGiven given, Log& log) {
  return Newcomer(process, std::move(boot), std::move(given), log).run();
}

// ---- follow launcher --------------------------------------------------------------------

Result<void> follow_launcher(ShellProcess& process, boot::Boot& boot, group::Rank rank) {
  if (!boot.launcher) return {};
  LauncherEvents& events = process.launcher_events;
  auto on_gone = [&events](const Error& why) {
    events.gone = why;
    if (events.on_gone) events.on_gone();
  };
  if (rank != 0) {
    auto gone = [on_gone] { on_gone({EPIPE, "the process that started this shell has gone"}); };
    process.launch_stream = TRY(launch::LaunchStream::watch(*process.loop, std::move(boot.launcher), gone));
    return {};
  }
  launch::LaunchStream::Callbacks callbacks;
  callbacks.on_signal = [&events, signals = process.signals.get()](int signum) {
    if (events.on_read) events.on_read(signum);
    if (Signals::is_ending(signum)) return signals->received(signum, Signals::From::launcher);
    if (events.on_signal) return events.on_signal(signum);
    events.kept.keep(signum);
  };
  callbacks.on_detach = [&events] {
    if (events.on_detach) events.on_detach();
  };
  callbacks.on_agreed = [&events](const value::Idset& shells) {
    if (events.on_agreed) events.on_agreed(shells);
  };
  callbacks.on_end = [&events](int signum) { events.ended_by = signum; };
  LauncherInput* input = nullptr;
  if (boot.record && boot.record->input) {
    process.launch_input = TRY(LauncherInput::create(*process.loop));
    input = process.launch_input.get();
    callbacks.on_input = [input](std::string_view bytes) { input->take(bytes); };
    callbacks.on_input_end = [input] { input->end(); };
  }
  callbacks.on_gone = on_gone;
  process.launch_stream = TRY(launch::LaunchStream::create(*process.loop, std::move(boot.launcher),
                                                           std::move(boot.launcher_bytes), std::move(callbacks)));
  if (input != nullptr) input->hold_back(*process.launch_stream);
  return {};
}

// ---- extension --------------------------------------------------------------------------

namespace {

// After an error nothing has changed, and it can be tried again.
Result<void> extend(ShellProcess& process, group::Extendable& group, Log& log) {
  LaterShells& later = *process.later;
  const launch::LaunchRecord& record = later.record;
  transport::Secret secret = TRY(group.secret())->copy();  // plugins may have used it already
  std::string directory = boot::temporary_directory(own_variable);
  launch::OwnSockets own =
      TRY(record.agent.empty() ? launch::bind_local_sockets(directory) : launch::bind_own_sockets(directory));
  group::Membership membership{kVersion, record.job, 0, 1, record.arity, secret.copy(), {}, {}, {}, {}};
  own.move_to(membership);
  std::string address = membership.address;
  GuardedDirectory guarded;
  if (membership.socket_directory) guarded = {*process.children, membership.socket_directory->path()};
  group::OverlayDriver* member = TRY(group.extend(*process.loop, std::move(membership), log));
  make_launcher(process, record, *member, log, nullptr);
  later.secret = std::move(secret);
  later.addresses.emplace(0, std::move(address));
  later.directory = std::move(guarded);
  return {};
}

}  // namespace

void make_lone_group(ShellProcess& process, boot::Boot boot, Log& log) {
  // Another manager starts its job's shells itself, and one that nacre started would not know the manager.
  if (boot.way != boot::Way::hosts && !(boot.way == boot::Way::slurm && boot.record)) {
    process.group = std::make_unique<group::Alone>(0);
    return;
  }
  auto group = std::make_unique<group::Extendable>();
  process.later = std::make_unique<LaterShells>(*std::move(boot.record), boot.way);
  process.later->extend = [&process, &group = *group, &log] { return extend(process, group, log); };
  process.group = std::move(group);
}

// ---- start others -----------------------------------------------------------------------

void make_launcher(ShellProcess& process, const launch::LaunchRecord& record, group::OverlayDriver& member,
                   Log& log, std::function<void(group::Rank, int signum)> on_killed) {
  launch::Launcher::Options options;
  options.agent = record.agent;
  options.shell = record.shell;
  options.shell.emplace_back("--boot=hosts");
  options.timeout = event::Seconds(record.timeout);
  options.joins_alike = record.rank == 0;
  // What holds this process's output keeps its own agent from ending, by which its launcher knows that it is lost.
  const bool is_followed = std::any_of(record.options.begin(), record.options.end(), [](const std::string& each) {
    return each.starts_with("on-leader-lost=take-over");
  });
  options.drops_output = record.detaching != launch::Detaching::never || is_followed;
  launch::Launcher::Callbacks callbacks;
  callbacks.on_failed = [&member, &log, &process, size = record.size](group::Rank rank, const std::string& host,
                                                                      const std::string& why) {
    if (rank >= size && process.later && process.later->on_failed)
      process.later->on_failed(rank, why);
    else
      log.log(Level::error, "", "shell {} on {} was not started: {}", rank, host, why);
    member.suspect(rank);
  };
  callbacks.on_killed = std::move(on_killed);
  // The shell's links may not have reported its end yet.
  callbacks.on_ended = [&member](group::Rank rank, const value::WaitStatus&) { member.suspect(rank); };
  process.launcher = std::make_unique<launch::Launcher>(*process.loop, *process.children, std::move(options),
                                                        std::move(callbacks));
  member.hooks().on_child = [&launcher = process.launcher](group::Rank child) {
    if (launcher) launcher->joined(child);
  };
  member.hooks().on_gone = [&launcher = process.launcher](group::Rank rank, std::function<void()> done) {
    launcher ? launcher->left(rank, std::move(done)) : done();
  };
  member.hooks().on_lost_at_end = [&launcher = process.launcher](group::Rank rank) {
    if (launcher) launcher->lost(rank);
  };
}

// ---- progress ---------------------------------------------------------------------------

namespace {

constexpr std::size_t kNamed = 3;
constexpr event::Seconds kEach{1.0};
constexpr const char* kClear = "\r\033[K";  // ECMA-48: moves the cursor to the line's start and erases the line

// "A, B and 3 more".
std::string text_of(const std::vector<std::string>& missing) {
  if (missing.empty()) return "others";
  std::size_t named = std::min(missing.size(), kNamed);
  std::string out = fmt::format("{}", fmt::join(missing.begin(), missing.begin() + named, ", "));
  if (missing.size() > named) out += fmt::format(" and {} more", missing.size() - named);
  return out;
}

// In one line of the terminal, as it could not be erased otherwise.
std::string fitting(std::string line) {
  constexpr std::string_view kCut = "...";
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col <= kCut.size() || line.size() < size.ws_col)
    return line;
  std::size_t end = size.ws_col - kCut.size() - 1;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0U) == 0x80U) --end;  // within a character
  return line.substr(0, end).append(kCut);
}

}  // namespace

Result<std::unique_ptr<JoinProgress>> JoinProgress::show(event::Loop& loop, const std::string& front,
                                                         Missing missing) {
  std::unique_ptr<JoinProgress> out(new JoinProgress(std::move(missing)));
  out->timer_ = TRY(event::Timer::create(loop, [self = out.get(), front] {
    std::string line = fmt::format("{}: {} s: waiting for {}", front, ++self->seconds_, text_of(self->missing_()));
    print_err(kClear + fitting(escape_controls(line)));
  }));
  out->timer_->start(kEach, kEach);
  out->timer_->unref();
  return out;
}

JoinProgress::~JoinProgress() {
  if (seconds_ > 0) print_err(kClear);
}

}  // namespace nacre::join
