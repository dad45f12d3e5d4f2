// SPDX-License-Identifier: Apache-2.0
//
// nacre attach; see nacre-attach(1).
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "base/print.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "event/clock.hpp"
#include "front/attach_file.hpp"
#include "front/attach_terminal.hpp"
#include "front/attach_view.hpp"
#include "front/job_verb.hpp"
#include "front/verbs.hpp"
#include "io/terminal.hpp"
#include "value/duration.hpp"
#include "value/idset.hpp"

namespace nacre::front {
namespace {

constexpr const char* kFirst = "first";  // of --pty
constexpr const char* kOwn = "own";      // of --input

class Attach final : public JobVerb {
 public:
  void add_to(cli::CommandLine& verb) override {
    add_usual(verb, Jobs::one);
    verb.add_option("--tail", tail_,
                    "Of the output so far the last N lines, all that is kept, or none (default: all)")
        ->option_text("N|all|none")
        ->check([](const std::string& text) -> Result<void> {
          if (text == "all" || text == "none" || parse_u64(text)) return {};
          return invalid(fmt::format("{}: expected a number of lines, all or none", in_quotes(text)));
        });
    verb.add_option("--since", since_, "Of the output so far what is not older than this, such as 10m")
        ->option_text("TIME");
    verb.add_option("--ranks", ranks_, "Only what these tasks write")->option_text("RANKS");
    verb.add_flag("-l,--label-io", label_, "Put the task's rank before each line");
    verb.add_option("--format", format_, "How the output is printed: text (the default) or json")
        ->option_text("FORM")
        ->check(cli::one_of({"text", "json"}));
    verb.add_flag("--pty", pty_, "Join the terminal of task RANK, or of the first one that has one; ~. leaves",
                  kFirst)
        ->option_text("[=RANK]")
        ->excludes({"--tail", "--since", "--ranks", "-l", "--format", "--json", "--input"})
        ->check([](const std::string& text) -> Result<void> {
          if (parse_u64(text).value_or(UINT64_MAX) <= UINT32_MAX) return {};
          return invalid(fmt::format("{}: expected a rank", in_quotes(text)));
        });
    verb.add_flag("--input", input_,
                  "Own the job's standard input: what comes here goes there; take: from who has it", kOwn)
        ->option_text("[=take]")
        ->check([](const std::string& text) -> Result<void> {
          if (text == "take") return {};
          return invalid(fmt::format("{}: expected take, or nothing", in_quotes(text)));
        });
    add_reach();
  }

 private:
  Result<int> run_verb() override {
    AttachView::Options options;
    options.request = TRY(request());
    options.json = json_ || format_ == "json";
    options.label = label_;
    options.quiet = quiet_;
    if (!input_.empty())
      options.input = input_ == "take" ? AttachView::Options::Input::take : AttachView::Options::Input::own;
    options.tells_before = tail_.empty() && since_.empty();
    record::Listed job = TRY(this->job());
    bool is_shown = false;  // a part of its output at least
    if (verb_->count("--pty") > 0 && !io::at_terminal())
      return Error{ENOTTY, "--pty: standard input or output is not a terminal"};
    while (!job.entry.ended()) {
      auto client = reach_job(job);
      if (!client && !may_have_ended(client.error())) return std::move(client).error();
      if (client) {
        is_shown = true;
        AttachView::End end = TRY(join_or_view(*std::move(client), options));
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

  // Once a task has ended whose terminal was joined, its job is waited for.
  Result<AttachView::End> join_or_view(control::Client client, AttachView::Options options) {
    auto rank = TRY(terminal(client));
    if (!rank) return view(std::move(client), options);
    TerminalView joined = TRY(attach_terminal(client, *rank));
    if (joined.missed > 0 && !quiet_)
      print_err("nacre attach: {} bytes were missed, as they were taken too slowly\n", joined.missed);
    if (joined.how == TerminalView::How::link_lost) return AttachView::End{};
    if (joined.how == TerminalView::How::left) return AttachView::End{AttachView::How::left};
    has_joined_ = true;
    if (!quiet_) print_err("nacre attach: task {} has ended: {}\n", *rank, joined.task_end);
    options.request = {{"ranks", fmt::format("{}", *rank)}, {"tail", "none"}};
    options.tells_before = false;
    return view(std::move(client), options);
  }

  // Without --pty a terminal is joined where it is the only one, and nothing else is asked for.
  Result<std::optional<std::uint32_t>> terminal(control::Client& client) const {
    if (has_joined_) return std::nullopt;
    if (verb_->count("--pty") > 0)
      return pty_ == kFirst ? TRY(first_terminal(client)) : static_cast<std::uint32_t>(parse_u64(pty_).value_or(0));
    for (const char* option : {"--tail", "--since", "--ranks", "-l", "--format", "--json", "--input"}) {
      if (verb_->count(option) > 0) return std::nullopt;
    }
    return io::at_terminal() ? only_terminal(client) : std::nullopt;
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

  std::string tail_, since_, ranks_, format_, pty_, input_;
  bool has_joined_ = false;
  bool label_ = false;
};

}  // namespace

VerbPtr make_attach() { return std::make_unique<Attach>(); }

}  // namespace nacre::front
