// SPDX-License-Identifier: Apache-2.0
//
// nacre wait; see nacre-wait(1).

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"

namespace nacre::front {
namespace {

class Wait final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::several);
    add_reach();
  }

 private:
  // Returns the largest of the jobs' codes.
  Result<int> run_verb() override {
    std::vector<record::Listed> jobs;
    if (names_.empty()) jobs.push_back(TRY(this->job()));
    for (const std::string& each : names_) jobs.push_back(TRY(job(each)));
    int code = 0;
    for (const record::Listed& each : jobs) {
      int its = TRY(wait_for(each));
      if (json_) print_out("{}\n", dump_json({{"id", each.entry.id.f58_plain()}, {"code", its}}));
      code = std::max(code, its);
    }
    return code;
  }

  Result<int> wait_for(record::Listed job) {
    for (;;) {
      if (job.entry.may_go_on()) job = TRY(end_in_list(job, std::nullopt));
      if (job.entry.ended()) return report(job.entry);
      auto client = reach_job(job);
      if (client) {
        for (;;) {
          auto event = TRY(client->next_event());
          if (!event) break;
          auto code = event->context.find("code");
          if (event->name == "end" && code != event->context.end() && code->is_number_integer())
            return code->get<int>();
        }
      } else if (!may_have_ended(client.error())) {
        return std::move(client).error();
      }
      record::Listed before = job;
      job = TRY(end_in_list(before, client ? std::nullopt : std::optional(client.error())));
    }
  }

  int report(const record::JobEntry& entry) const {
    if (entry.end->vanished && !quiet_)
      print_err("nacre wait: job {}: {}\n", entry.id.f58_plain(), entry.end->cause);
    return entry.end->code;
  }
};

}  // namespace

VerbPtr make_wait() { return std::make_unique<Wait>(); }

}  // namespace nacre::front
