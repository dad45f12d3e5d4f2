// SPDX-License-Identifier: Apache-2.0
//
// nacre doctor; see nacre-doctor(1).

#include "front/doctor_verb.hpp"

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"
#include "value/duration.hpp"

namespace nacre::front {
namespace {

constexpr double kLeastInterval = 0.05;  // seconds, as the leader takes it
constexpr double kMostInterval = 60;
constexpr double kForAnswers = 10;  // seconds that the leader may take beyond the interval
constexpr double kForStacks = 60;   // likewise

class DoctorVerb final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::one);
    verb_->add_option("--twice", twice_, "Time between the two looks at each process (default: 1s)")
        ->option_text("DURATION")
        ->check(interval_of);
    verb_->add_flag("--ranks", by_rank_, "Print a line for each rank");
    verb_
        ->add_flag("--stacks", stacks_,
                   "Take the stacks of the tasks too: of Python by itself, of others by eu-stack or gdb", "auto")
        ->option_text("[=auto|eu-stack|gdb|py-spy]")
        ->check([](const std::string& way) -> Result<void> {
          const std::vector<std::string> ways{"auto", "eu-stack", "gdb", "py-spy"};
          if (std::find(ways.begin(), ways.end(), way) != ways.end()) return {};
          return invalid(
              fmt::format("{}: expected {}{}", in_quotes(way), fmt::join(ways, ", "), did_you_mean(way, ways)));
        });
    add_reach();
  }

 private:
  static Result<double> interval_of(const std::string& text) {
    auto duration = value::Duration::parse(text);
    if (duration && duration->seconds() >= kLeastInterval && duration->seconds() <= kMostInterval)
      return duration->seconds();
    return invalid(fmt::format("{}: expected {} to {} seconds", in_quotes(text), kLeastInterval, kMostInterval));
  }

  Result<int> run_verb() override {
    double seconds = TRY(interval_of(twice_));
    record::Listed job = TRY(led_job());
    if (job.entry.ended()) return has_ended(job);
    control::Client client = TRY(reach_job(job));
    client.allow(client.answer_time() + event::Seconds(seconds + (stacks_.empty() ? kForAnswers : kForStacks)));
    Json groups = Json::array();
    auto take = [&](const Json& part) {
      for (const Json& each : part.value("groups", Json::array())) groups.push_back(each);
      for (const Json& each : part.value("silent", Json::array())) tell_silent(each);
    };
    Json asked{{"interval", seconds}, {"by-rank", by_rank_}};
    if (!stacks_.empty()) asked["stacks"] = stacks_;
    auto asked_for = client.ask("doctor", std::move(asked), take);
    if (!asked_for && may_have_ended(asked_for.error())) return has_ended(TRY(end_in_list(job, asked_for.error())));
    Json answer = TRY(std::move(asked_for));
    answer["groups"] = std::move(groups);
    if (json_) {
      answer["id"] = job.entry.id.f58_plain();
      print_out("{}\n", dump_json(answer));
    }
    auto all_answered = in("what the leader answers", print_text(answer));
    if (!all_answered) return all_answered.error();
    if (unprinted_) return *unprinted_;
    return *all_answered ? 0 : 1;
  }

  static Error has_ended(const record::Listed& job) {
    const std::string id = job.entry.id.f58_plain();
    return invalid(fmt::format("job {} has ended; `nacre report {}` prints how", id, id));
  }

  // Silent shells are printed before the others have found out what their tasks do.
  void tell_silent(const Json& verdict) {
    auto found = doctor::Verdict::parse(verdict);
    if (!found || json_ || !told_.insert(found->line()).second) return;
    print_out("{}\n", found->line());
    if (Result<void> flushed = flush_out(); !flushed) unprinted_ = flushed.error();
  }

  // Returns false if some of the shells have not answered.
  Result<bool> print_text(const Json& answer) const {
    DoctorAnswer found = TRY(DoctorAnswer::parse(answer));
    bool is_complete = found.examination.absent.empty();
    if (quiet_) found.examination.groups.clear();
    std::erase_if(found.verdicts, [&](const auto& each) { return told_.contains(each.line()); });
    if (is_complete && !told_.empty())
      found.examination.notes.emplace_back("shells that were silent at first have answered since");
    if (!json_) print_out(found.text({by_rank_}));
    return is_complete;
  }

  std::string twice_ = "1s";
  std::string stacks_;  // "": none
  bool by_rank_ = false;
  std::set<std::string> told_;  // lines of verdicts that have been printed
  std::optional<Error> unprinted_;
};

}  // namespace

VerbPtr make_doctor() { return std::make_unique<DoctorVerb>(); }

// ---- doctor answer ----------------------------------------------------------------------

Result<DoctorAnswer> DoctorAnswer::parse(const Json& answer) {
  DoctorAnswer out{TRY(doctor::Examination::parse(answer)), {}};
  std::map<std::uint32_t, std::string> hosts;  // by the first rank of a group that is on one host
  JsonAt at = JsonAt::root(answer);
  for (const JsonAt& each : TRY(TRY(at.at("groups")).elements())) {
    out.examination.groups.push_back(TRY(doctor::TaskGroup::parse(each.json())));
    auto names = TRY(TRY(each.at("hosts")).strings());
    if (names.size() == 1) hosts[*out.examination.groups.back().ranks.first()] = names[0];
  }
  out.examination.host_of = [hosts = std::move(hosts)](std::uint32_t rank) {
    auto found = hosts.find(rank);
    return found == hosts.end() ? std::string() : found->second;
  };
  for (const JsonAt& each : TRY(TRY(at.at("verdicts")).elements()))
    out.verdicts.push_back(TRY(doctor::Verdict::parse(each.json())));
  return out;
}

}  // namespace nacre::front
