// SPDX-License-Identifier: Apache-2.0
//
// nacre restart; see nacre-restart(1).
#include <CLI/CLI.hpp>

#include "base/print.hpp"
#include "cli/reply.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"

namespace nacre::front {
namespace {

constexpr event::Seconds kMostRestartTime{2.0 * 24 * 60 * 60};  // as long as the tasks take to end

class RestartVerb final : public JobVerb {
 public:
  void add_to(CLI::App& verb) override {
    add_usual(verb, Jobs::one);
    verb_->add_option("--ranks", ranks_, "Only these tasks: 0-3,7 (default: all, together)")->option_text("RANKS");
    add_reach();
  }

 private:
  Result<int> run_verb() override {
    Json arguments = Json::object();
    if (verb_->count("--ranks") > 0) {
      auto ranks = idset_of("--ranks", ranks_, "rank");
      if (!ranks) return cli::print(cli::usage_error("nacre restart", ranks.error().message));
      arguments["ranks"] = ranks->str();
    }
    record::Listed job = TRY(running_job());
    control::Client client = TRY(reach_job(job));
    client.allow(kMostRestartTime);
    Json answer = TRY(client.ask("restart", std::move(arguments)));
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
};

}  // namespace

VerbPtr make_restart() { return std::make_unique<RestartVerb>(); }

}  // namespace nacre::front
