// SPDX-License-Identifier: Apache-2.0
//
// nacre restart; see nacre-restart(1).

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"

namespace nacre::front {
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
