// SPDX-License-Identifier: Apache-2.0
//
// nacre kill, nacre cancel; see nacre-kill(1), nacre-cancel(1).

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"

namespace nacre::front {
namespace {

// The job's id and name, as the user may have named it by something else.
std::string words_for(const record::JobEntry& entry) {
  return entry.name.empty() ? entry.id.f58_plain() : fmt::format("{} ({})", entry.id.f58_plain(), entry.name);
}

class Kill final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::named);
    verb_->add_option("-s,--signal", signal_, "The signal, by name or number (default: TERM)")->option_text("SIG");
    verb_->add_option("--ranks", ranks_, "Only to these tasks: 0-3,7")->option_text("RANKS");
    add_reach();
  }

  Result<void> check_usage() override {
    asked_["signal"] = TRY(signal_of(signal_));
    if (verb_->count("--ranks") > 0) asked_["ranks"] = TRY(idset_of("--ranks", ranks_, "rank")).str();
    return check_named();
  }

 private:
  Result<int> run_verb() override {
    record::Listed job = TRY(running_job());
    control::Client client = TRY(reach_job(job));
    Json answer = TRY(client.ask("signal", asked_));
    if (json_) {
      answer["id"] = job.entry.id.f58_plain();
      answer["signal"] = asked_["signal"];
      print_out("{}\n", dump_json(answer));
    } else if (!quiet_) {
      print_out("job {}: {} to rank {}\n", words_for(job.entry), value::signal_name(asked_["signal"].get<int>()),
                answer.value("sent", ""));
    }
    return 0;
  }

  std::string signal_ = "TERM";
  std::string ranks_;
  Json asked_ = Json::object();  // what the leader is asked
};

class Cancel final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::named);
    add_reach();
  }

  Result<void> check_usage() override { return check_named(); }

 private:
  Result<int> run_verb() override {
    record::Listed job = TRY(running_job());
    control::Client client = TRY(reach_job(job));
    static_cast<void>(TRY(client.ask("cancel")));
    if (json_)
      print_out("{}\n", dump_json({{"id", job.entry.id.f58_plain()}}));
    else if (!quiet_)
      print_out("job {}: is being ended\n", words_for(job.entry));
    return 0;
  }
};

}  // namespace

VerbPtr make_kill() { return std::make_unique<Kill>(); }
VerbPtr make_cancel() { return std::make_unique<Cancel>(); }

}  // namespace nacre::front
