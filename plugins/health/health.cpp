// SPDX-License-Identifier: Apache-2.0
//
// health=off|quick|pairs: each host is looked at before its tasks start. A bad host is left out: its tasks start on
// a spare. If no spare takes them the job ends, or with health.on-bad=warn they start anyway.
//
//   shell.pre-init  all shells look, at the same time; with pairs the leader has pairs of the good ones run a
//                   command, in rounds; it announces which hosts are bad; all move the tasks
//   shell.restart, shell.take-over  the same where tasks start again; a shell on a bad host becomes lost
//   job.health      what was found, for the report
//
// Before tasks exist plugins have prepared nothing for them, so they can still go to any shell. Later what becomes
// of the tasks of a lost shell (on-lost) becomes of those of one on a bad host, too.

#include "base/program.hpp"
#include "base/text.hpp"
#include "broker/instance.hpp"
#include "event/clock.hpp"
#include "plugin/host.hpp"
#include "plugins/builtins.hpp"
#include "plugins/health/checks.hpp"
#include "plugins/health/pairs.hpp"
#include "record/bad_hosts.hpp"

namespace nacre::plugins {
namespace {

constexpr std::string_view kHealthTopic = "shell.health";      // of other plugins' checks
constexpr std::string_view kBecameBad = "health.bad";          // of other plugins' checks, when tasks start again
constexpr std::string_view kHealthVerdict = "health.verdict";  // doc/protocol.md
constexpr std::string_view kHealthPairs = "health.pairs";      // doc/protocol.md
constexpr const char* kPairsEnded = "health.pairs.";           // a collective; the round follows
constexpr const char* kHostsLooked = "health.looked";          // a collective, before the clocks are read
constexpr const char* kHostsAgain = "health.restart.";         // the restarts of the job follow
constexpr const char* kHostsFound = "health.found";            // a collective, with what the hosts have found
constexpr std::string_view kHealthType = "health";             // of exceptions

constexpr std::size_t kMostWereBad = 4;  // hosts in the line on earlier jobs

// Lua puts "FILE.lua:LINE: " before what a handler says.
std::string without_place(const std::string& message) {
  constexpr std::string_view kLua = ".lua:";
  const std::size_t line = message.find(kLua);
  if (line == std::string::npos) return message;
  const std::size_t end = message.find_first_not_of("0123456789", line + kLua.size());
  const bool is_place = end != std::string::npos && end > line + kLua.size() && message.compare(end, 2, ": ") == 0;
  return is_place ? message.substr(end + 2) : message;
}

// The check of "plugin 'NAME': TOPIC: why", for a plugin that is no builtin, has this name.
HostFault fault_of(const std::string& message) {
  const std::string front = "plugin '", behind = fmt::format("': {}: ", kHealthTopic);
  const std::size_t end = message.find(behind);
  if (!message.starts_with(front) || end == std::string::npos) return {"plugin", message};
  return {message.substr(front.size(), end - front.size()), without_place(message.substr(end + behind.size()))};
}

class Health final : public plugin::Plugin {
 public:
  explicit Health(plugin::Host& host) : Plugin("health"), host_(host), checks_(host, option_) {
    on("shell.pre-init", [this] { return begin(); });
    on("job.health", [this](plugin::Call& call) { call.out["hosts"] = told_; });
    on("shell.init", [this] { return serve(); });
    on("shell.take-over", [this] { look_again(false); });
    on("shell.restart", [this](plugin::Call& call) { look_again(call.in.value("all", false)); });
    on("job.tasks-restart", [this](plugin::Call& call) { restarted(call.in); });
    for (const char* topic : {"job.tasks-moved", "job.resized", "shell.not-replaced"})
      on(topic, [this] { go_on_without_lost(); });
  }

 private:
  [[nodiscard]] const job::Job& job() const { return host_.job(); }
  [[nodiscard]] bool leads() const { return job().leads() || host_.standalone(); }

  [[nodiscard]] bool is_on() const { return option_.depth != HealthOption::Depth::off; }

  // A shell that joins later has no shell.pre-init.
  Result<void> serve() {
    if (is_on() || host_.options().find(name()) == nullptr) return {};
    option_ = TRY(HealthOption::read(host_.options()));
    if (!is_on()) return {};
    replaces_ = TRY(job::OnLost::read(host_.options())).replaces;
    announced_ = host_.on_announcement([this](std::string_view topic, std::string_view bytes) {
      if (topic == kHealthVerdict) judged(bytes);
      if (topic == kHealthPairs) try_pair(bytes);
      if (topic == kBecameBad) became_bad(bytes);
    });
    return {};
  }

  Result<void> begin() {
    CHECK_OK(serve());
    if (!is_on()) return {};
    CHECK_OK(refuse_initrc());
    if (leads()) say_who_was_bad();
    host_.hold_start(name());
    checks_.start(places("start"), check_by_plugins("start"), [this](const HostCheck& found) {
      window_.from = event::wall_clock();
      looked_ = host_.gather(kHostsLooked, "", [this, found](const Result<plugin::Gathered>& all) {
        if (all) give(found);
      });
    });
    return {};
  }

  // A host whose initrc does not set the option would take no part, and the others would wait for it for ever.
  [[nodiscard]] Result<void> refuse_initrc() const {
    if (job().shells() == 1 || host_.standalone()) return {};
    for (const auto& [path, setter] : host_.options().setters()) {
      if (path == name() || path.starts_with(name() + "."))
        return invalid(
            fmt::format("{}: {} has set it, which may differ from host to host: give --{} or -o {} when "
                        "the job is started",
                        path, setter, name(), path));
    }
    return {};
  }

  [[nodiscard]] std::optional<HostFault> check_by_plugins(const char* when) {
    if (!host_.stack().listens(std::string(kHealthTopic))) return std::nullopt;
    plugin::Call call(kHealthTopic);
    call.in["when"] = when;
    const event::Seconds began = event::clock_now();
    Result<int> called = host_.stack().call(call);
    if (!called) return fault_of(called.error().message);
    if (event::clock_now() - began <= option_.timeout) return std::nullopt;
    return HostFault{"plugin", "took longer than " + value::Duration::of_seconds(option_.timeout.count()).str()};
  }

  [[nodiscard]] HostChecks::Places places(const char* when) const {
    HostChecks::Places out;
    const Result<bool> falls_back = host_.options().flag("cwd-fallback");
    if (job().spec.cwd && falls_back && !*falls_back) out.work = *job().spec.cwd;
    const char* own = std::getenv("TMPDIR");
    std::string temporary = own != nullptr ? own : "";
    if (host_.instance() != nullptr) temporary = host_.environment().get("TMPDIR").value_or("");
    out.temporary = temporary.empty() ? kUsualTemporary : temporary;
    out.variables = {fmt::format("NACRE_HEALTH_WHEN={}", when),
                     fmt::format("NACRE_HEALTH_SHELL={}", job().shell_rank),
                     fmt::format("NACRE_HEALTH_HOST={}", job().node().hostname)};
    return out;
  }

  void give(HostCheck found) {
    found.clock = event::wall_clock();
    given_ = host_.gather(kHostsFound, wire::to_text(found), [this](const Result<plugin::Gathered>& all) {
      if (all && leads()) announce(*all);
    });
  }

  // ---- pairs -----------------------------------------------------------------------

  void try_pair(std::string_view bytes) {
    auto round = wire::from_text<PairRound>(std::string(bytes));
    if (!round)
      return raise(0, "a round of pairs that this version does not understand: use one version on all hosts");
    auto peer = round->peer_of(job().shell_rank);
    if (!peer || peer->shell >= job().shells()) return give_pair(round->number, {});
    HostChecks::Places places = this->places("start");
    const std::string& host = job().resources.nodes[peer->shell].hostname;
    places.variables.insert(places.variables.end(), {"NACRE_HEALTH_PEER=" + host,
                                                     fmt::format("NACRE_HEALTH_ROLE={}", peer->is_first ? 0 : 1),
                                                     fmt::format("NACRE_HEALTH_ROUND={}", round->number)});
    // The next round may come while this round's process reports its end.
    CheckProcess& process = *pairs_.emplace_back(std::make_unique<CheckProcess>(host_));
    auto done = [this, number = round->number](const CheckProcess::Outcome& outcome) {
      give_pair(number, {outcome.is_good() ? "" : outcome.why(option_.timeout), outcome.took.count()});
    };
    Result<void> started =
        process.start(HostChecks::command(host_, option_.pair_command, places), option_.timeout, std::move(done));
    if (!started) give_pair(round->number, {started.error().message, 0});
  }

  void give_pair(std::uint32_t round, const PairResult& result) {
    auto ended = [this](const Result<plugin::Gathered>& all) {
      if (!all || !leads()) return;
      std::map<std::uint32_t, PairResult> results;
      for (const auto& [text, shells] : *all) {
        auto each = wire::from_text<PairResult>(text);
        for (std::uint32_t shell : shells.ids())
          results[shell] = each ? *each : PairResult{each.error().message, 0};
      }
      trial_->take(results);
      next_round();
    };
    tried_.push_back(
        host_.gather(fmt::format("{}{}", kPairsEnded, round), wire::to_text(result), std::move(ended)));
  }

  // ---- the leader's ----------------------------------------------------------------

  void announce(const plugin::Gathered& all) {
    window_.to = event::wall_clock();
    const std::map<std::uint32_t, HostCheck> hosts = checks_of(all);
    Judged found = judge(hosts, window_);
    for (const auto& [shell, note] : found.notes) log(host_, *this, Level::warn, "{}: {}", name_of(shell), note);
    verdict_ = std::move(found.verdict);
    if (option_.depth != HealthOption::Depth::pairs) return send(kHealthVerdict, wire::to_text(verdict_));
    value::Idset good;
    for (const auto& [shell, host] : hosts) good.insert(shell);
    trial_.emplace(good - verdict_.shells());
    next_round();
  }

  void send(std::string_view topic, const std::string& text) {
    if (Result<void> sent = host_.announce(topic, text); !sent) raise(0, sent.error().message);
  }

  void next_round() {
    if (auto round = trial_->next()) return send(kHealthPairs, wire::to_text(*round));
    for (BadHost& each : trial_->bad([this](std::uint32_t shell) { return name_of(shell); }))
      verdict_.bad.push_back(std::move(each));
    std::sort(verdict_.bad.begin(), verdict_.bad.end(),
              [](const auto& a, const auto& b) { return a.shell < b.shell; });
    if (const value::Idset shells = trial_->doubtful(); !shells.empty())
      log(host_, *this, Level::warn,
          "shell {} ({}): health.pair-command has failed, and which of them is bad cannot be told", shells.str(),
          job::hosts_of(shells, job()).str());
    send(kHealthVerdict, wire::to_text(verdict_));
  }

  static std::map<std::uint32_t, HostCheck> checks_of(const plugin::Gathered& all) {
    std::map<std::uint32_t, HostCheck> hosts;
    for (const auto& [text, shells] : all) {
      auto host = HostCheck::parse(text);
      for (std::uint32_t shell : shells.ids())
        hosts[shell] = host ? *host : HostCheck{.bad = HostFault{"answer", host.error().message}};
    }
    return hosts;
  }

  void raise(int severity, const std::string& message) {
    host_.raise({std::string(kHealthType), severity, message, std::nullopt});
  }

  void tell(const BadHost& bad, const char* done, const std::string& by = "") {
    Json one{{"host", job().resources.nodes[bad.shell].hostname},
             {"shell", bad.shell},
             {"check", bad.fault.check},
             {"reason", bad.fault.reason},
             {"done", done},
             {"time", event::wall_clock()}};
    if (!by.empty()) one["by"] = by;
    told_.push_back(std::move(one));
    remember(bad);
  }

  // ---- bad hosts of earlier jobs -----------------------------------------------------

  void say_who_was_bad() {
    const double now = event::wall_clock();
    const auto known = record::BadHosts::read(record::places(own_variable), now).by_host();
    std::vector<std::string> were;
    for (const auto& node : job().resources.nodes) {
      auto found = known.find(node.hostname);
      if (found == known.end()) continue;
      const auto& [last, times] = found->second;
      std::string text = fmt::format("{} {} ago ({}: {})", node.hostname, ago(now - last.time), last.check,
                                     escape_controls(last.reason));
      if (std::find(were.begin(), were.end(), text) == were.end()) were.push_back(std::move(text));
    }
    if (were.empty()) return;
    const std::size_t more = were.size() - std::min(were.size(), kMostWereBad);
    were.resize(were.size() - more);
    log(host_, *this, Level::notice, "found bad by earlier jobs: {}{}; see nacre report --hosts",
        fmt::join(were, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
  }

  static std::string ago(double seconds) {
    constexpr double kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
    if (seconds < kHour) return fmt::format("{:.0f} min", std::max(seconds, 0.0) / kMinute);
    return seconds < kDay ? fmt::format("{:.0f} h", seconds / kHour) : fmt::format("{:.0f} days", seconds / kDay);
  }

  void remember(const BadHost& bad) {
    const std::string& host = job().resources.nodes[bad.shell].hostname;
    if (host.empty()) return;
    const double now = event::wall_clock();
    auto place = record::EntryDirectory::choose(record::places(own_variable), nullptr);
    Result<void> noted = place
                             ? record::BadHosts::add(*place, {{now, host, bad.fault.check, bad.fault.reason}}, now)
                             : Result<void>(std::move(place).error());
    if (!noted) log(host_, *this, Level::warn, "later jobs will not know it: {}", noted.error().message);
  }

  // ---- every shell's ---------------------------------------------------------------

  void judged(std::string_view bytes) {
    auto verdict = wire::from_text<HealthVerdict>(std::string(bytes));
    if (!verdict || (!verdict->bad.empty() && *verdict->shells().last() >= job().shells()))
      return raise(0, "the leader's verdict is none that this version understands: use one version on all hosts");
    const auto replaced = host_.leave_out(verdict->shells());
    std::vector<std::string> ends;
    std::string why;
    for (const BadHost& each : verdict->bad) {
      auto found = replaced.find(each.shell);
      const bool ends_job = found != replaced.end() && !found->second && option_.ends;
      if (leads()) settle(each, found != replaced.end() ? &found->second : nullptr);
      if (!ends_job) continue;
      ends.push_back(text_of(each));
      why = found->second.error().message;
    }
    if (ends.empty()) return go_on();
    if (leads())
      raise(0, fmt::format("{}; {}, so no task is started (with health.on-bad=warn they are all the same)",
                           fmt::join(ends, "; "), why));
  }

  // `spare`: null if the host has no tasks.
  void settle(const BadHost& bad, const Result<std::uint32_t>* spare) {
    const auto& nodes = job().resources.nodes;
    if (spare == nullptr) {
      tell(bad, "left out");
      raise(2, text_of(bad) + "; it gets no tasks");
    } else if (*spare) {
      tell(bad, "replaced", nodes[**spare].hostname);
      raise(2,
            fmt::format("{}; its tasks start on the spare shell {}{}", text_of(bad), **spare, nodes[**spare].on()));
    } else if (option_.ends) {
      tell(bad, "ended");
    } else {
      tell(bad, "warned");
      raise(2, text_of(bad) + "; its tasks start all the same (health.on-bad=warn)");
    }
  }

  // ---- before tasks start again ----------------------------------------------------

  // From here on all shells know alike which ones take part in a start of all tasks. A start that has begun before
  // does not count any more.
  void restarted(const Json& what) {
    if (!is_on() || what.value("scope", "") != "job") return;
    number_ = what.value("restarts", std::uint64_t{0});
    last_ = host_.last_with_tasks();
    go_on_without_lost();
    if (!std::exchange(looks_with_all_, false)) return;
    given_ = {};
    go_on();
  }

  void look_again(bool all) {
    if (!is_on()) return;
    host_.hold_start(name());
    looks_with_all_ = all;
    auto done = [this, all, number = number_](const HostCheck& found) {
      if (all && (!looks_with_all_ || number != number_)) return;
      all ? give_again(found) : report_bad(found);
    };
    if (job().taskmap.tasks_on(job().shell_rank) == 0) return done({});
    checks_.start(places("restart"), check_by_plugins("restart"), done);
  }

  void go_on() { static_cast<void>(host_.release_start(name())); }

  void go_on_without_lost() {
    if (std::exchange(waits_for_loss_, false)) go_on();
  }

  void report_bad(const HostCheck& found) {
    auto fault = found.bad;
    if (!fault) return go_on();
    Result<void> sent = host_.announce(kBecameBad, wire::to_text(BadHost{job().shell_rank, *fault}));
    if (!sent) raise(0, sent.error().message);
  }

  void became_bad(std::string_view bytes) {
    auto bad = wire::from_text<BadHost>(std::string(bytes));
    if (!bad || bad->shell >= job().shells()) return;
    const Later then = settle_later(*bad);
    if (bad->shell != job().shell_rank) return;
    if (then == Later::starts) go_on();
    if (then == Later::is_lost) host_.be_lost();
  }

  void give_again(const HostCheck& found) {
    given_ = host_.gather_up_to(last_, fmt::format("{}{}", kHostsAgain, number_), wire::to_text(found),
                                [this](const Result<plugin::Gathered>& all) {
                                  looks_with_all_ = false;
                                  if (all) judge_again(*all);
                                });
  }

  void judge_again(const plugin::Gathered& all) {
    std::map<std::uint32_t, HostCheck> hosts = checks_of(all);
    for (auto& [shell, host] : hosts) host.clock = 0;
    Later then = Later::starts;
    for (const BadHost& each : judge(hosts, {}).verdict.bad) {
      const Later one = settle_later(each);
      then = std::max(then, one);
      if (one == Later::is_lost && each.shell == job().shell_rank) host_.be_lost();
    }
    if (then == Later::starts) return go_on();
    waits_for_loss_ = then == Later::is_lost;
  }

  // What becomes of a host that has become bad; the leader decides.
  enum class Later : std::uint8_t { starts, is_lost, ends };
  Later settle_later(const BadHost& bad) {
    Later then = !option_.ends                            ? Later::starts
                 : replaces_ && bad.shell != job().leader ? Later::is_lost
                                                          : Later::ends;
    if (!leads()) return then;
    if (then == Later::starts) {
      tell(bad, "warned");
      raise(2, text_of(bad) + "; its tasks start all the same (health.on-bad=warn)");
    } else if (then == Later::is_lost) {
      tell(bad, "lost");
      raise(2, text_of(bad) + "; its shell counts as lost, so that its tasks start elsewhere");
    } else {
      tell(bad, "ended");
      raise(0, fmt::format(
                   "{}; its tasks cannot start again elsewhere{} (with health.on-bad=warn they start there all "
                   "the same)",
                   text_of(bad), replaces_ ? "" : " without on-lost=replace"));
    }
    return then;
  }

  // "n3", or "n3 (shell 2)" if the host has several shells.
  [[nodiscard]] std::string name_of(std::uint32_t shell) const {
    const auto& nodes = job().resources.nodes;
    const std::string& host = nodes[shell].hostname;
    if (host.empty()) return fmt::format("shell {}", shell);
    const auto here =
        std::count_if(nodes.begin(), nodes.end(), [&](const auto& each) { return each.hostname == host; });
    return here > 1 ? fmt::format("{} (shell {})", host, shell) : host;
  }

  [[nodiscard]] std::string text_of(const BadHost& bad) const {
    return fmt::format("{}{} is bad: {}", name_of(bad.shell), bad.shell >= job().nodes() ? ", a spare," : "",
                       bad.fault.str());
  }

  plugin::Host& host_;
  HealthOption option_;
  HostChecks checks_;
  ClockWindow window_;              // the leader's
  Json told_ = Json::array();       // the leader's
  HealthVerdict verdict_;           // the leader's, so far
  std::optional<PairTrial> trial_;  // the leader's
  std::vector<std::unique_ptr<CheckProcess>> pairs_;
  bool replaces_ = false;  // a spare starts the tasks of a lost shell
  // For the last start of all tasks: the job's number of restarts, and the last shell that takes part.
  std::uint64_t number_ = 0;
  std::uint32_t last_ = 0;
  bool looks_with_all_ = false;              // for that start
  bool waits_for_loss_ = false;              // all have looked, and it waits until another shell is lost
  std::vector<plugin::Registration> tried_;  // a round may be over before the former one is noted
  plugin::Registration looked_, given_, announced_;
};

}  // namespace

PluginPtr make_health(plugin::Host& host) { return std::make_unique<Health>(host); }

}  // namespace nacre::plugins
