// SPDX-License-Identifier: Apache-2.0
//
// nacre attach; see nacre-attach(1).
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/print.hpp"
#include "base/text.hpp"
#include "event/clock.hpp"
#include "front/attach_file.hpp"
#include "front/attach_view.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"
#include "value/duration.hpp"
#include "value/idset.hpp"

namespace nacre::front {
namespace {

class Attach final : public JobVerb {
 public:
  void add_to(CLI::App& nacre) override {
    CLI::App* verb =
        add_verb(nacre, "attach", "Show the output of a job that runs, and exit with its exit code", Jobs::one);
    verb->add_option("--tail", tail_,
                     "Of the output so far the last N lines, all that is kept, or none (default: all)")
        ->option_text("N|all|none")
        ->check([](const std::string& text) {
          bool good = text == "all" || text == "none" || parse_u64(text);
          return good ? "" : fmt::format("{}: expected a number of lines, all or none", in_quotes(text));
        });
    verb->add_option("--since", since_, "Of the output so far what is not older than this, such as 10m")
        ->option_text("TIME");
    verb->add_option("--ranks", ranks_, "Only what these tasks write")->option_text("RANKS");
    verb->add_flag("-l,--label-io", label_, "Put the task's rank before each line");
    verb->add_option("--format", format_, "How the output is printed: text (the default) or json")
        ->option_text("FORM")
        ->check(CLI::IsMember({"text", "json"}));
    add_reach();
  }

 private:
  Result<int> run_verb() override {
    AttachView::Options options;
    options.request = TRY(request());
    options.json = json_ || format_ == "json";
    options.label = label_;
    options.quiet = quiet_;
    options.tells_before = tail_.empty() && since_.empty();
    record::Listed job = TRY(this->job());
    bool is_shown = false;  // a part of its output at least
    while (!job.entry.ended()) {
      auto client = reach_job(job);
      if (!client && !may_have_ended(client.error())) return std::move(client).error();
      if (client) {
        is_shown = true;
        AttachView::End end = TRY(view(*std::move(client), options));
        if (end.how == AttachView::How::left) return left(job, options.json);
        if (end.how == AttachView::How::ended) return ended(job, end.code, options.json);
        if (!end.has_all) lost(job);
        job = TRY(end_in_list(job, Error{ECONNRESET, fmt::format("job {}: the link to its leader has ended: `nacre "
                                                                 "attach` joins it again, if it runs",
                                                                 job.entry.id.f58_plain())}));
        continue;
      }
      Error why = client.error();
      job = TRY(end_in_list(job, why));
    }
    if (!is_shown) CHECK_OK(show_kept(job, options.json));
    if (!job.entry.end->cause.empty() && !quiet_) print_err("nacre attach: {}\n", job.entry.end->cause);
    return ended(job, job.entry.end->code, options.json);
  }

  static Result<AttachView::End> view(control::Client client, const AttachView::Options& options) {
    auto view = TRY(AttachView::create(std::move(client), options));
    return view->run();
  }

  Result<void> show_kept(const record::Listed& job, bool json) {
    KeptOutput how;
    how.json = json;
    how.lines = tail_ == "none" ? std::optional<std::uint64_t>(0) : parse_u64(tail_);
    bool is_there = TRY(show_kept_output(list(), job, how));
    if (quiet_ || !is_there) return {};
    if (!ranks_.empty() || !since_.empty() || label_)
      print_err(
          "nacre attach: of a job that has ended the output is kept as it came out: --ranks, --since and -l change "
          "nothing of it\n");
    if (job.entry.end->lost_output > 0)
      print_err("nacre attach: {} bytes are missing: they could not be written to the file of the job's output\n",
                job.entry.end->lost_output);
    return {};
  }

  [[nodiscard]] Result<Json> request() const {
    Json out = Json::object();
    if (!ranks_.empty()) out["ranks"] = TRY(in("--ranks", value::Idset::parse(ranks_))).str();
    if (auto lines = parse_u64(tail_))
      out["tail"] = *lines;
    else if (!tail_.empty())
      out["tail"] = tail_;
    if (since_.empty()) return out;
    auto since = TRY(in("--since", value::Duration::parse(since_)));
    if (!since.is_infinite()) out["since"] = event::wall_clock() - since.seconds();
    return out;
  }

  void lost(const record::Listed& job) const {
    if (!quiet_)
      print_err("nacre attach: job {}: the link to its leader has ended; some of its output may be missing here\n",
                job.entry.id.f58_plain());
  }

  [[nodiscard]] int left(const record::Listed& job, bool json) const {
    std::string id = job.entry.id.f58_plain();
    if (!quiet_ && !json) print_err("nacre attach: left job {}, which goes on\n", id);
    return 0;
  }

  static int ended(const record::Listed& job, int code, bool json) {
    if (json)
      print_out("{}\n", dump_json({{"timestamp", event::wall_clock()},
                                   {"name", "end"},
                                   {"context", {{"id", job.entry.id.f58_plain()}, {"code", code}}}}));
    return code;
  }

  std::string tail_, since_, ranks_, format_;
  bool label_ = false;
};

}  // namespace

VerbPtr make_attach() { return std::make_unique<Attach>(); }

}  // namespace nacre::front
