// SPDX-License-Identifier: Apache-2.0
//
// nacre attach; see nacre-attach(1).

#include <unistd.h>

#include "base/print.hpp"
#include "cli/command_line.hpp"
#include "control/client.hpp"
#include "event/clock.hpp"
#include "exits/record.hpp"
#include "front/attach_view.hpp"
#include "front/job_verb.hpp"
#include "front/launch_run.hpp"
#include "front/mpir.hpp"
#include "front/table.hpp"
#include "front/terminal_session.hpp"
#include "front/verbs.hpp"
#include "io/terminal.hpp"
#include "record/places.hpp"

namespace nacre::front {

// ---- attach file ------------------------------------------------------------------------
//
// What `nacre attach` shows of a job that went on without its launcher and has ended: the file beside its entry,
// with all that would have come out at its terminal.

struct KeptOutput {
  std::optional<std::uint64_t> lines;  // the last ones; none: all
  bool json = false;                   // each line as {"data": ...}
};

namespace {

constexpr std::size_t kFilePiece = std::size_t{64} << 10;

std::optional<UniqueFd> file_of(const record::JobList& list, const record::Listed& job) {
  for (const record::EntryDirectory& each : list.directories) {
    if (auto file = each.read_output(job.entry.id)) return std::move(*file);
  }
  return std::nullopt;
}

// Where the last `lines` lines of the file begin. The file has `size` bytes.
Result<std::int64_t> start_of_lines(int fd, std::int64_t size, std::uint64_t lines) {
  std::string buffer(kFilePiece, '\0');
  std::uint64_t found = 0;
  for (std::int64_t end = size; end > 0;) {
    std::int64_t begin = std::max<std::int64_t>(end - static_cast<std::int64_t>(kFilePiece), 0);
    ssize_t got = ::pread(fd, buffer.data(), static_cast<std::size_t>(end - begin), begin);
    if (got != end - begin) return got < 0 ? system_error(errno, "pread") : Error{EIO, "the file became shorter"};
    for (std::int64_t at = end - 1; at >= begin; --at) {
      bool is_end = buffer[static_cast<std::size_t>(at - begin)] == '\n' && at != size - 1;
      if (is_end && ++found == lines) return at + 1;
    }
    end = begin;
  }
  return 0;
}

class LinesOfJson {
 public:
  void add(std::string_view bytes) {
    line_ += bytes;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1)
      print(std::string_view(line_).substr(begin, end - begin));
    line_.erase(0, begin);
  }
  void end() {
    if (!line_.empty()) print(line_);
  }

 private:
  static void print(std::string_view line) {
    print_out("{}\n", dump_json({{"stream", "terminal"}, {"data", line}}));
  }

  std::string line_;
};

}  // namespace

// Writes it to standard output. False: the job has no such file.
Result<bool> show_kept_output(const record::JobList& list, const record::Listed& job, const KeptOutput& how) {
  auto file = file_of(list, job);
  if (!file) return false;
  std::int64_t size = ::lseek(file->get(), 0, SEEK_END);
  std::int64_t at = 0;
  if (how.lines && *how.lines == 0) return true;
  if (how.lines) at = TRY(start_of_lines(file->get(), size, *how.lines));
  std::string buffer(kFilePiece, '\0');
  LinesOfJson lines;
  for (;;) {
    ssize_t got = ::pread(file->get(), buffer.data(), buffer.size(), at);
    if (got < 0) return system_error(errno, "the job's file of output");
    if (got == 0) break;
    at += got;
    std::string_view piece = std::string_view(buffer).substr(0, static_cast<std::size_t>(got));
    if (how.json)
      lines.add(piece);
    else
      print_out(piece);
    CHECK_OK(flush_out());
  }
  lines.end();
  CHECK_OK(flush_out());
  return true;
}

// ---- attach terminal --------------------------------------------------------------------
//
// `nacre attach` to a task's terminal: this one is joined to it until the task ends or the user leaves.

struct TerminalView {
  enum class How { ended, left, link_lost };
  How how = How::ended;
  std::string task_end;      // how the task has ended, for the user
  std::uint64_t missed = 0;  // bytes of its output, as they were taken too slowly
};

namespace {

Result<value::Idset> terminals(control::Client& client) {
  Json status = TRY(client.ask("status"));
  auto ranks = TRY(JsonAt::root(status).find("terminals"));
  return ranks ? value::Idset::parse(TRY(ranks->string())) : value::Idset();
}

struct Seen {
  TerminalView view;
  std::optional<Error> refused;
};

Result<void> take(const Json& part, Seen& seen) {
  JsonAt at = JsonAt::root(part);
  if (auto missed = TRY(at.find("missed")))
    seen.view.missed += static_cast<std::uint64_t>(TRY(TRY(missed->at("bytes")).integer(0, INT64_MAX)));
  auto exits = TRY(at.find("exits"));
  if (!exits) return {};
  for (const JsonAt& each : TRY(exits->elements())) {
    auto record = TRY(exits::Record::parse(TRY(TRY(each.at("record")).string())));
    seen.view.task_end = record.status() ? record.status()->str() : "its shell is lost";
    if (auto why = TRY(each.find("message"))) seen.refused = Error{ENOTTY, printable(TRY(why->string()), 1024)};
  }
  return {};
}

}  // namespace

// The task whose terminal is meant: the first task that has one. ENOTTY: none has.
Result<std::uint32_t> first_terminal(control::Client& client) {
  auto first = TRY(terminals(client)).first();
  if (!first) return Error{ENOTTY, "--pty: no task of the job has a terminal: it has to be run with --pty"};
  return *first;
}

// The same, if exactly one task has a terminal.
Result<std::optional<std::uint32_t>> only_terminal(control::Client& client) {
  value::Idset all = TRY(terminals(client));
  return all.size() == 1 ? all.first() : std::nullopt;
}

// An error: the leader refuses, or this terminal cannot be used.
Result<TerminalView> attach_terminal(control::Client& client, std::uint32_t rank) {
  Seen seen;
  TerminalSession session(
      client, {"attach", {{"pty", {{"rank", rank}}}}, [&](const Json& part) { return take(part, seen); }});
  TerminalSession::End end = TRY(session.run());
  using How = TerminalSession::How;
  if (end.how == How::link_lost)
    seen.view.how = TerminalView::How::link_lost;
  else if (end.how != How::answered)
    seen.view.how = TerminalView::How::left;
  if (seen.refused) return *std::move(seen.refused);
  return std::move(seen.view);
}

// ---- attach verb ------------------------------------------------------------------------

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
    verb.add_flag("--mpir", mpir_, "Have the job's tasks in MPIR_proctable, for debuggers; see nacre-run(1)");
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
    if (job.entry.may_go_on()) job = TRY(end_in_list(job, std::nullopt));
    while (!job.entry.ended()) {
      auto client = reach_job(job);
      if (!client && !may_have_ended(client.error())) return std::move(client).error();
      if (client) {
        is_shown = true;
        if (mpir_ || debugger_asks()) CHECK_OK(show_tasks(*client, job.entry.tasks));
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

  // Once, as a debugger that has attached to the tasks does not expect others.
  Result<void> show_tasks(control::Client& client, std::uint64_t tasks) {
    if (std::exchange(has_shown_, true)) return {};
    show_to_debugger(TRY(in("--mpir", mpir_processes(client, tasks))));
    return {};
  }

  // Once a task has ended whose terminal was joined, this waits for its job.
  Result<AttachView::End> join_or_view(control::Client client, AttachView::Options options) {
    if (!rank_) rank_ = TRY(terminal(client));
    if (!rank_ || has_joined_) return view(std::move(client), options);
    const std::uint32_t rank = *rank_;  // the same task, if another shell comes to lead
    TerminalView joined = TRY(attach_terminal(client, rank));
    if (joined.missed > 0 && !quiet_)
      print_err("nacre attach: {} bytes were missed, as they were taken too slowly\n", joined.missed);
    if (joined.how == TerminalView::How::link_lost) return AttachView::End{};
    if (joined.how == TerminalView::How::left) return AttachView::End{AttachView::How::left};
    has_joined_ = true;
    if (!quiet_) print_err("nacre attach: task {} has ended: {}\n", rank, joined.task_end);
    options.request = {{"ranks", fmt::format("{}", rank)}, {"tail", "none"}};
    options.tells_before = false;
    return view(std::move(client), options);
  }

  // Without --pty, a terminal is joined if it is the only one and nothing else is asked for.
  Result<std::optional<std::uint32_t>> terminal(control::Client& client) const {
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
  bool mpir_ = false;
  bool has_shown_ = false;
  std::optional<std::uint32_t> rank_;  // of the task whose terminal is joined
  bool has_joined_ = false;            // and it has ended
  bool label_ = false;
};

}  // namespace

VerbPtr make_attach() { return std::make_unique<Attach>(); }

}  // namespace nacre::front
