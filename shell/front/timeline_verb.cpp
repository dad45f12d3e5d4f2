// SPDX-License-Identifier: Apache-2.0
//
// nacre timeline; see nacre-timeline(1).

#include "base/file.hpp"
#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "cli/verbs.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"
#include "launch/launcher.hpp"
#include "timeline/summary.hpp"
#include "timeline/trace.hpp"

namespace nacre::front {
namespace {

constexpr double kForTimeline = 10;  // seconds that the leader may take beyond its usual time

class TimelineVerb final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::one);
    verb_->get_option("--json")->description("Print the trace, as Chrome trace events");
    verb_->add_option("-o,--output", file_, "Write the trace to FILE")->option_text("FILE")->excludes({"--json"});
    add_reach();
  }

 private:
  [[nodiscard]] bool wants_trace() const { return json_ || !file_.empty(); }

  Result<int> run_verb() override {
    record::Listed job = TRY(led_job());
    if (!file_.empty()) CHECK_OK(check_replaceable(file_));
    return job.entry.ended() ? ended(job.entry) : running(job);
  }

  Result<int> running(const record::Listed& job) {
    control::Client client = TRY(reach_job(job));
    client.allow(client.answer_time() + event::Seconds(kForTimeline));
    timeline::Trace trace;
    Json answer = TRY(client.ask("timeline", {{"trace", wants_trace()}}, [&](const Json& part) {
      for (const Json& each : part.value("events", Json::array())) trace.events.push_back(dump_json(each));
    }));
    if (!wants_trace()) return print_summary(answer.value("summary", Json()));
    trace.about = answer.value("about", Json::object());
    return put(trace.text());
  }

  Result<int> ended(const record::JobEntry& entry) {
    const Json& kept = entry.end->timeline;
    std::string id = entry.id.f58_plain();
    if (!kept.is_object())
      return invalid(fmt::format("job {}: it has kept no timeline: start it with --timeline, or -o timeline", id));
    if (!wants_trace()) return print_summary(kept);
    std::string file = kept.value("file", "");
    if (file.empty())
      return invalid(
          fmt::format("job {} has ended, and only its summary was kept: with --timeline=FILE its trace is "
                      "written to a file",
                      id));
    if (!launch::is_this_host(entry.place.host))
      return invalid(fmt::format("job {} has ended: its trace is in {} on {}", id, file, entry.place.host));
    return put(TRY(read_file(file)));
  }

  static Result<int> print_summary(const Json& json) {
    auto summary = TRY(in("what the job tells of its timeline", timeline::Summary::parse(json)));
    print_out("{}", timeline::text_of(summary, ""));
    return 0;
  }

  Result<int> put(const std::string& text) const {
    if (file_.empty()) {
      print_out("{}", text);
      return 0;
    }
    CHECK_OK(write_whole_file(file_, text));
    return 0;
  }

  std::string file_;
};

}  // namespace

VerbPtr make_timeline() { return std::make_unique<TimelineVerb>(); }

}  // namespace nacre::front
