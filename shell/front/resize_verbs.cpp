// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"
#include "value/duration.hpp"
#include "value/resizing.hpp"

namespace nacre::front {

// ---- grow verb --------------------------------------------------------------------------
//
// nacre grow; see nacre-grow(1).

namespace {

constexpr event::Seconds kMostGrowTime{2.0 * value::GrowOrder::kMostWait};  // the leader has a bound of its own

class GrowVerb final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::one);
    verb_->add_option("--hosts", hosts_, "These hosts, a hostlist: n[4-5]")->option_text("HOSTS");
    verb_->add_number("--count", count_, "So many more: on this host, of a job of --local, or on nodes from Slurm")
        ->option_text("N");
    verb_->add_option("--wait", wait_, "How long they have to join, once Slurm has given nodes (default: 30s)")
        ->option_text("DURATION");
    verb_->add_flag("--all", all_, "If one does not join, those that have joined leave again");
    add_reach();
  }

  Result<void> check_usage() override {
    asked_ = TRY(arguments());
    return {};
  }

 private:
  Result<Json> arguments() const {
    if (verb_->count("--hosts") + verb_->count("--count") != 1)
      return invalid("expected one of --hosts and --count");
    Json out = Json::object();
    if (verb_->count("--hosts") > 0) {
      out["hosts"] = TRY(hosts_of("--hosts", hosts_));
    } else if (count_ == 0 || count_ > value::GrowOrder::kMostShells) {
      return invalid(fmt::format("--count: expected 1 to {}", value::GrowOrder::kMostShells));
    } else {
      out["count"] = count_;
    }
    if (verb_->count("--wait") > 0) {
      auto wait = TRY(in("--wait", value::Duration::parse(wait_)));
      if (wait.is_infinite() || wait.seconds() <= 0 || wait.seconds() > value::GrowOrder::kMostWait)
        return invalid("--wait: expected a time that ends, up to 1d");
      out["wait"] = wait.seconds();
    }
    if (all_) out["all"] = true;
    return out;
  }

  Result<int> run_verb() override {
    record::Listed job = TRY(running_job());
    control::Client client = TRY(reach_job(job));
    client.allow(kMostGrowTime);
    auto asked = client.ask("grow", asked_, [this](const Json& part) { report_begin(part); });
    if (!asked) return order_lost(job, asked.error(), "hosts that had not joined by then do not join any more");
    const Json answer = *std::move(asked);
    print_changed(job, answer, "joined");
    const Json missing = answer.value("missing", Json::array());
    for (const Json& each : missing)
      print_err("nacre grow: shell {} on {} has not joined: {}\n", each.value("shell", 0U), each.value("host", ""),
                each.value("error", ""));
    return missing.empty() ? 0 : 1;
  }

  // The grow may take as long as the hosts need to answer.
  void report_begin(const Json& part) const {
    if (quiet_ || json_ || ::isatty(STDERR_FILENO) == 0) return;
    if (part.contains("nodes"))
      print_err("nacre grow: waits for {} to give nodes: {}\n", part.value("manager", ""), part.value("nodes", 0U));
    if (!part.contains("shells")) return;
    print_err("nacre grow: shell {} starts on {}\n", part.value("shells", ""), part.value("hosts", ""));
  }

  std::string hosts_, wait_;
  std::uint64_t count_ = 0;
  bool all_ = false;
  Json asked_;  // what the leader is asked
};

}  // namespace

VerbPtr make_grow() { return std::make_unique<GrowVerb>(); }

// ---- shrink verb ------------------------------------------------------------------------
//
// nacre shrink; see nacre-shrink(1).

namespace {

constexpr event::Seconds kMostAnswerTime{2.0 * 24 * 60 * 60};  // the leader has a bound of its own

class ShrinkVerb final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::one);
    verb_->add_option("--hosts", hosts_, "These hosts, a hostlist: n[2-3]")->option_text("HOSTS");
    verb_->add_option("--shells", shells_, "These shells: 2-3")->option_text("SHELLS");
    verb_->add_number("--count", count_, "So many: those without tasks first, then the last ones")
        ->option_text("N");
    verb_->add_option("-s,--signal", signal_, "What their tasks get first (default: TERM)")->option_text("SIG");
    verb_->add_option("--grace", grace_, "How long they have until SIGKILL (default: the job's kill-timeout)")
        ->option_text("DURATION");
    verb_->add_option("--tasks", tasks_, "end: tasks there are ended (default); refuse: only shells without tasks")
        ->option_text("end|refuse");
    verb_->add_flag("--force", force_,
                    "Also if tasks there are connected to PMI, which the others may not survive");
    add_reach();
  }

  Result<void> check_usage() override {
    asked_ = TRY(arguments());
    return {};
  }

 private:
  Result<Json> arguments() const {
    if (verb_->count("--hosts") + verb_->count("--shells") + verb_->count("--count") != 1)
      return invalid("expected one of --hosts, --shells and --count");
    Json out = Json::object();
    if (verb_->count("--hosts") > 0) {
      out["hosts"] = TRY(hosts_of("--hosts", hosts_));
    } else if (verb_->count("--shells") > 0) {
      out["shells"] = TRY(idset_of("--shells", shells_, "shell")).str();
    } else {
      if (count_ < 1) return invalid("--count: expected at least 1");
      out["count"] = count_;
    }
    if (verb_->count("--signal") > 0) out["signal"] = TRY(signal_of(signal_));
    if (verb_->count("--grace") > 0) {
      auto grace = TRY(in("--grace", value::Duration::parse(grace_)));
      if (grace.is_infinite()) return invalid("--grace: expected a time that ends");
      out["grace"] = grace.seconds();
    }
    if (tasks_ != "end" && tasks_ != "refuse")
      return invalid(fmt::format("--tasks: {}: expected end or refuse", in_quotes(tasks_)));
    out["tasks"] = tasks_;
    if (force_) out["force"] = true;
    return out;
  }

  Result<int> run_verb() override {
    record::Listed job = TRY(running_job());
    control::Client client = TRY(reach_job(job));
    client.allow(kMostAnswerTime);
    auto asked = client.ask("shrink", asked_, [this](const Json& part) { report_begin(part); });
    if (!asked) return order_lost(job, asked.error(), "shells that had begun to leave go on with that");
    const Json answer = *std::move(asked);
    print_changed(job, answer, "gone");
    report_nodes(answer);
    std::string unknown = answer.value("unconfirmed", "");
    if (unknown.empty()) return 0;
    std::string on = answer.value("unconfirmed_hosts", "");
    return Error{ETIMEDOUT,
                 fmt::format("shell {}{} is out of the job, but has not confirmed it: look whether processes "
                             "are left there",
                             unknown, on.empty() ? "" : " on " + on)};
  }

  // Nodes that the manager has not taken back are no failure of the shrink.
  void report_nodes(const Json& answer) const {
    for (const Json& each : answer.value("manager", Json::array())) {
      if (!each.is_object() || each.value("released", true)) continue;
      print_err("nacre shrink: {} not given back to {}: {}\n", each.value("hosts", ""), each.value("name", ""),
                each.value("error", ""));
    }
  }

  // The shrink may take as long as the tasks do.
  void report_begin(const Json& part) const {
    if (quiet_ || json_ || ::isatty(STDERR_FILENO) == 0 || !part.contains("shells")) return;
    print_err("nacre shrink: shell {} leaves{}\n", part.value("shells", ""),
              part.value("hosts", "") != "" ? ": " + part.value("hosts", "") : "");
  }

  std::string hosts_, shells_, grace_;
  std::string signal_ = "TERM";
  std::string tasks_ = "end";
  std::int64_t count_ = 0;
  bool force_ = false;
  Json asked_;  // what the leader is asked
};

}  // namespace

VerbPtr make_shrink() { return std::make_unique<ShrinkVerb>(); }

// ---- restart verb -----------------------------------------------------------------------
//
// nacre restart; see nacre-restart(1).

namespace {

constexpr event::Seconds kMostRestartTime{2.0 * 24 * 60 * 60};  // as long as the tasks take to end

class RestartVerb final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::one);
    verb_->add_option("--ranks", ranks_, "Only these tasks: 0-3,7 (default: all, together)")->option_text("RANKS");
    add_reach();
  }

  Result<void> check_usage() override {
    if (verb_->count("--ranks") > 0) asked_["ranks"] = TRY(idset_of("--ranks", ranks_, "rank")).str();
    return {};
  }

 private:
  Result<int> run_verb() override {
    record::Listed job = TRY(running_job());
    control::Client client = TRY(reach_job(job));
    client.allow(kMostRestartTime);
    Json answer = TRY(client.ask("restart", asked_));
    std::string started = answer.value("ranks", "");
    if (json_) {
      answer["id"] = job.entry.id.f58_plain();
      print_out("{}\n", dump_json(answer));
    } else if (!quiet_ && !started.empty()) {
      print_out("{}\n", started);
    }
    return report_refused(answer.value("refused", Json::array()));
  }

  static int report_refused(const Json& refused) {
    for (const Json& each : refused)
      print_err("nacre restart: rank {} is not started again: {}\n", each.value("ranks", ""),
                each.value("why", ""));
    return refused.empty() ? 0 : 1;
  }

  std::string ranks_;
  Json asked_ = Json::object();  // what the leader is asked
};

}  // namespace

VerbPtr make_restart() { return std::make_unique<RestartVerb>(); }

}  // namespace nacre::front
