// SPDX-License-Identifier: Apache-2.0
//
// nacre grow; see nacre-grow(1).
#include <unistd.h>

#include <fmt/format.h>

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"
#include "value/duration.hpp"
#include "value/grown.hpp"

namespace nacre::front {
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
    const Json answer = TRY(client.ask("grow", asked_, [this](const Json& part) { report_begin(part); }));
    print_changed(job, answer, "joined");
    const Json missing = answer.value("missing", Json::array());
    for (const Json& each : missing)
      print_err("nacre grow: shell {} on {} has not joined: {}\n", each.value("shell", 0U), each.value("host", ""),
                each.value("error", ""));
    return missing.empty() ? 0 : 1;
  }

  // It may take as long as the hosts need to answer.
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

}  // namespace nacre::front
