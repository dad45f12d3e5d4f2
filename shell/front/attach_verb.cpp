// SPDX-License-Identifier: Apache-2.0
//
// nacre attach; see nacre-attach(1).

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/print.hpp"
#include "base/process_stat.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "cli/command_line.hpp"
#include "control/client.hpp"
#include "event/clock.hpp"
#include "event/loop.hpp"
#include "exits/job_end.hpp"
#include "exits/record.hpp"
#include "front/job_verb.hpp"
#include "front/launch_run.hpp"
#include "front/mpir.hpp"
#include "front/table.hpp"
#include "front/terminal_session.hpp"
#include "front/verbs.hpp"
#include "io/destination.hpp"
#include "io/fd_sink.hpp"
#include "io/terminal.hpp"
#include "launch/own_sockets.hpp"
#include "launch/stream.hpp"
#include "record/places.hpp"
#include "value/duration.hpp"
#include "value/idset.hpp"

namespace nacre::front {

// ---- attach file ------------------------------------------------------------------------
//
// What `nacre attach` shows of a job that went on without its launcher and has ended: the file beside its entry,
// which has all that would have come out at its terminal.

struct KeptOutput {
  std::optional<std::uint64_t> lines;  // the last ones; none: all
  bool json = false;                   // each line as {"data": ...}
};

// To standard output. False: the job has no such file.
Result<bool> show_kept_output(const record::JobList& list, const record::Listed& job, const KeptOutput& how);

// ---- attach input -----------------------------------------------------------------------
//
// What `nacre attach --input` does besides showing output: it owns the job's standard input and sends its own
// there, and its keys do what those of `nacre run` do.

class AttachInput {
 public:
  struct Callbacks {
    std::function<void()> on_own;   // the leader has accepted: this is the owner
    std::function<void()> on_sent;  // there may be something to send
    std::function<void(const Error&)> on_error;
    // A line of this program's own; `context`: of the event `input`.
    std::function<void(const std::string& text, const Json& context)> on_notice;
  };

  // Asks for the input. `client` has to outlive this object. None of the callbacks may destroy it.
  AttachInput(event::Loop& loop, control::Client& client, bool takes, Callbacks callbacks);
  AttachInput(const AttachInput&) = delete;
  AttachInput& operator=(const AttachInput&) = delete;

  // Of any request of the link: what is not about this one is passed over.
  void take(const control::Answer& answer);
  // The leader may have given credit.
  void go_on();

  // Somebody else has taken it: from now on this only watches.
  [[nodiscard]] bool is_taken() const { return is_taken_; }

  // SIGINT: passed on to the tasks; a second one soon after it ends the job, a third one kills the tasks.
  void interrupt();
  // SIGTSTP. True: this process leaves the job.
  bool stop();

 private:
  void begin();
  void report_interrupt(const Json& status);
  void taken(const std::string& by);

  event::Loop& loop_;
  control::Client& client_;
  Callbacks callbacks_;
  std::unique_ptr<launch::InputReader> reader_;
  LaunchSignals signals_;
  std::uint64_t id_;
  std::optional<std::uint64_t> status_;  // a request whose answer is awaited
  bool is_taken_ = false;
};

// ---- attach view ------------------------------------------------------------------------
//
// What `nacre attach` does once it has a link to the leader: output comes out here, until the job's exit code has
// come, the link ends, or the user leaves. The leader gets credit only for what this process's own readers have
// taken.

class AttachView {
 public:
  struct Options {
    Json request;               // the arguments of `attach`
    bool json = false;          // lines of JSON, all to standard output
    bool label = false;         // the rank before each line
    bool tells_before = false;  // a line for what is not shown of the output before
    bool quiet = false;
    enum class Input { none, own, take } input = Input::none;  // of the job
  };
  enum class How { ended, left, link_lost };
  struct End {
    How how = How::link_lost;
    int code = 0;          // of the job, if it has ended
    bool has_all = false;  // all output of the job has come
  };

  static Result<std::unique_ptr<AttachView>> create(control::Client client, Options options);
  AttachView(const AttachView&) = delete;
  AttachView& operator=(const AttachView&) = delete;

  // An error: the leader has refused, or standard output cannot be written to.
  Result<End> run();
  // A line of this program's own; `event`: the same for --json.
  void notice(const std::string& text, std::string_view event, const Json& context);

 private:
  AttachView(control::Client client, Options options) : client_(std::move(client)), options_(std::move(options)) {}

  Result<void> open();
  Result<void> watch_signals();
  void open_input();
  void begin_view();
  Result<void> open_sink(int fd, const std::string& name, std::unique_ptr<io::Destination>& destination);
  void exchange();
  void await();
  void take(control::FromLeader frame);
  void show(const control::StreamData& data);
  void take_part(const Json& part);
  void take_answer(const control::Answer& answer);
  void give_credit();
  void fail(const Error& why);
  [[nodiscard]] io::Destination& destination(io::Stream stream);

  control::Client client_;
  Options options_;
  std::unique_ptr<event::Loop> loop_;
  std::vector<event::SignalWatcher> signals_;
  std::optional<event::Poll> receives_, sends_;
  std::unique_ptr<io::Destination> out_, err_;  // no err_: both streams go to out_
  std::map<std::pair<std::uint32_t, io::Stream>, io::Source> sources_;
  std::unique_ptr<AttachInput> input_;
  std::uint64_t id_ = 0;          // of the request; 0: it has not been sent
  std::uint64_t uncredited_ = 0;  // bytes
  std::size_t ended_streams_ = 0;
  std::optional<End> end_;
  std::optional<Error> failure_;
};

// ---- attach terminal --------------------------------------------------------------------
//
// `nacre attach` to a task's terminal: this one is joined to it until the task ends or the user leaves.

// The task whose terminal is meant, which is the first that has one. ENOTTY: none has.
Result<std::uint32_t> first_terminal(control::Client& client);
// The same, if exactly one task has a terminal.
Result<std::optional<std::uint32_t>> only_terminal(control::Client& client);

struct TerminalView {
  enum class How { ended, left, link_lost };
  How how = How::ended;
  std::string task_end;      // how the task has ended, for the user
  std::uint64_t missed = 0;  // bytes of its output, as they were taken too slowly
};
// An error: the leader refuses, or this terminal cannot be used.
Result<TerminalView> attach_terminal(control::Client& client, std::uint32_t rank);

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
  bool mpir_ = false;
  bool has_shown_ = false;
  bool has_joined_ = false;
  bool label_ = false;
};

}  // namespace

VerbPtr make_attach() { return std::make_unique<Attach>(); }

// ---- attach file ------------------------------------------------------------------------

namespace {

constexpr std::size_t kFilePiece = std::size_t{64} << 10;

std::optional<UniqueFd> file_of(const record::JobList& list, const record::Listed& job) {
  for (const record::EntryDirectory& each : list.directories) {
    if (auto file = each.read_output(job.entry.id)) return std::move(*file);
  }
  return std::nullopt;
}

// Where the last `lines` lines of the file begin, which has `size` bytes.
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

// ---- attach view ------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kCredit = std::uint64_t{256} << 10;  // bytes underway
constexpr std::array kLeaveView{SIGINT, SIGTERM, SIGHUP};

bool is_one_file(int first, int second) {
  struct stat a {};
  struct stat b {};
  return ::fstat(first, &a) == 0 && ::fstat(second, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

Result<std::unique_ptr<AttachView>> AttachView::create(control::Client client, Options options) {
  std::unique_ptr<AttachView> out(new AttachView(std::move(client), std::move(options)));
  CHECK_OK(out->open());
  return out;
}

Result<void> AttachView::open() {
  loop_ = TRY(event::Loop::create());
  CHECK_OK(watch_signals());
  CHECK_OK(open_sink(STDOUT_FILENO, "stdout", out_));
  if (!options_.json && !is_one_file(STDOUT_FILENO, STDERR_FILENO))
    CHECK_OK(open_sink(STDERR_FILENO, "stderr", err_));
  receives_ = TRY(event::Poll::create(*loop_, client_.receives_from(), [this](int) { exchange(); }));
  sends_ = TRY(event::Poll::create(*loop_, client_.sends_to(), [this](int) { exchange(); }));
  if (options_.input != Options::Input::none)
    open_input();
  else
    begin_view();
  await();
  return {};
}

Result<void> AttachView::watch_signals() {
  auto watch = [this](int signum, const std::function<void()>& act) -> Result<void> {
    signals_.push_back(TRY(event::SignalWatcher::create(*loop_, signum, [act](int) { act(); })));
    return {};
  };
  for (int signum : kLeaveView) {
    CHECK_OK(watch(signum, [this, signum] {
      if (signum == SIGINT && input_ && id_ != 0 && !input_->is_taken()) return input_->interrupt();
      end_ = End{How::left};
    }));
  }
  if (options_.input == Options::Input::none || ignores_signal(SIGTSTP)) return {};
  return watch(SIGTSTP, [this] {
    if (!input_ || !input_->stop()) return;
    static_cast<void>(client_.exchange());  // the SIGINT that was passed on just before
    end_ = End{How::left};
  });
}

// Output is shown once the input is this process's.
void AttachView::open_input() {
  AttachInput::Callbacks callbacks;
  callbacks.on_own = [this] { begin_view(); };
  callbacks.on_sent = [this] { await(); };
  callbacks.on_error = [this](const Error& why) { fail(why); };
  callbacks.on_notice = [this](const std::string& text, const Json& context) { notice(text, "input", context); };
  input_ =
      std::make_unique<AttachInput>(*loop_, client_, options_.input == Options::Input::take, std::move(callbacks));
}

void AttachView::begin_view() { id_ = client_.begin("attach", options_.request, kCredit); }

Result<void> AttachView::open_sink(int fd, const std::string& name, std::unique_ptr<io::Destination>& destination) {
  io::FdSink::Callbacks callbacks;
  callbacks.on_room = [this] { give_credit(); };
  callbacks.on_error = [this](const Error& why) { fail(why); };
  auto sink = TRY(io::FdSink::create(*loop_, fd, name, {}, std::move(callbacks)));
  io::FormatOptions format;
  format.form = options_.json ? io::Form::json : io::Form::text;
  format.label = options_.label;
  destination = std::make_unique<io::Destination>(io::Format::create(format), std::move(sink), std::nullopt);
  return {};
}

io::Destination& AttachView::destination(io::Stream stream) {
  return stream == io::Stream::err && err_ ? *err_ : *out_;
}

Result<AttachView::End> AttachView::run() {
  auto is_done = [this] {
    bool is_flushed = out_->sink().flushed() && (!err_ || err_->sink().flushed());
    return failure_ || (end_ && (end_->how == How::left || is_flushed));
  };
  loop_->run_until(is_done);
  if (failure_) return *failure_;
  return *end_;
}

void AttachView::await() {
  if (end_) {
    receives_->stop();
    sends_->stop();
    return;
  }
  Result<void> started = receives_->start(event::Poll::kReadable);
  if (started && client_.has_unsent()) started = sends_->start(event::Poll::kWritable);
  if (started && !client_.has_unsent()) sends_->stop();
  if (!started) fail(started.error());
}

void AttachView::exchange() {
  Result<void> exchanged = client_.exchange();
  while (!end_ && !failure_) {
    auto frame = client_.take();
    if (!frame) return fail(in("the leader", frame.error()));
    if (!*frame) break;
    take(**std::move(frame));
  }
  if (input_) input_->go_on();
  if (!exchanged && !end_) end_ = End{How::link_lost, 0, ended_streams_ == io::kStreams.size()};
  await();
}

void AttachView::take(control::FromLeader frame) {
  if (auto* data = std::get_if<control::StreamData>(&frame)) {
    show(*data);
  } else if (std::holds_alternative<control::StreamEnd>(frame)) {
    ++ended_streams_;
  } else if (auto* answer = std::get_if<control::Answer>(&frame)) {
    if (input_) input_->take(*answer);
    if (answer->id == id_) take_answer(*answer);
  }
}

void AttachView::take_answer(const control::Answer& answer) {
  if (answer.error) return fail(*answer.error);
  if (answer.more) return take_part(answer.value);
  end_ = End{How::ended, answer.value.value("code", 1), true};
}

void AttachView::show(const control::StreamData& data) {
  auto stream = data.stream == io::name_of(io::Stream::err) ? io::Stream::err : io::Stream::out;
  auto rank = data.members.value("rank", std::uint32_t{0});
  auto [found, is_new] = sources_.try_emplace({rank, stream});
  if (is_new) found->second = {rank, stream, fmt::format("{}: ", rank)};
  io::Batch batch;
  batch.source = &found->second;
  batch.time = data.members.value("time", 0.0);
  batch.body = data.data;
  batch.continues = data.members.value("continues", false);
  batch.open = data.members.value("open", false);
  if (Result<void> shown = destination(stream).put(batch); !shown) return fail(shown.error());
  uncredited_ += data.data.size();
  give_credit();
}

void AttachView::give_credit() {
  bool is_full = out_->sink().full() || (err_ && err_->sink().full());
  if (is_full || uncredited_ < kCredit / 4) return;
  client_.grant(id_, uncredited_);
  uncredited_ = 0;
  await();
}

void AttachView::take_part(const Json& part) {
  if (auto before = part.value("before", std::uint64_t{0}); before > 0 && options_.tells_before)
    notice(fmt::format("{} bytes of output came before", before), "before", {{"bytes", before}});
  auto missed = part.find("missed");
  if (missed == part.end() || !missed->is_object()) return;
  notice(fmt::format("{} lines, {} bytes are missing here, as they were taken too slowly",
                     missed->value("lines", std::uint64_t{0}), missed->value("bytes", std::uint64_t{0})),
         "missed", *missed);
}

void AttachView::notice(const std::string& text, std::string_view event, const Json& context) {
  double now = event::wall_clock();
  Result<void> written;
  if (options_.json) {
    std::string line = dump_json({{"timestamp", now}, {"name", event}, {"context", context}}) + '\n';
    std::array<std::string_view, 1> pieces{line};
    written = out_->sink().write(pieces);
  } else if (!options_.quiet) {
    written = destination(io::Stream::err).notice("nacre attach: " + text, now);
  }
  if (!written) fail(written.error());
}

void AttachView::fail(const Error& why) {
  if (!failure_) failure_ = why;
}

// ---- attach input -----------------------------------------------------------------------

namespace {

constexpr const char* kInputStream = "stdin";
constexpr std::size_t kMostName = 255;  // bytes of who has taken the input

}  // namespace

AttachInput::AttachInput(event::Loop& loop, control::Client& client, bool takes, Callbacks callbacks)
    : loop_(loop), client_(client), callbacks_(std::move(callbacks)) {
  std::string name = fmt::format("nacre attach (pid {} on {})", ::getpid(), launch::own_host_name());
  id_ = client_.begin("input", {{"take", takes}, {"name", name}});
}

void AttachInput::take(const control::Answer& answer) {
  if (answer.id == status_) {
    status_.reset();
    if (!answer.error) report_interrupt(answer.value);
  }
  if (answer.id != id_) return;
  if (answer.error) return callbacks_.on_error(*answer.error);
  if (answer.more) return begin();
  reader_.reset();
  auto by = answer.value.find("taken");
  if (by != answer.value.end() && by->is_string()) taken(printable(by->get<std::string>(), kMostName));
}

void AttachInput::begin() {
  launch::InputReader::Callbacks callbacks;
  callbacks.room = [this]() -> std::size_t {
    return std::min<std::uint64_t>(client_.may_send(id_), control::kMaxStreamData);
  };
  callbacks.on_bytes = [this](std::string_view bytes) {
    client_.put({id_, kInputStream, std::string(bytes), Json::object()});
    callbacks_.on_sent();
  };
  callbacks.on_end = [this] {
    client_.put_end({id_, kInputStream});
    callbacks_.on_sent();
  };
  auto reader = launch::InputReader::create(loop_, STDIN_FILENO, std::move(callbacks));
  if (!reader) return callbacks_.on_error(reader.error());
  reader_ = *std::move(reader);
  callbacks_.on_own();
}

void AttachInput::taken(const std::string& by) {
  is_taken_ = true;
  callbacks_.on_notice(fmt::format("the job's standard input is that of {} from now on; this only watches", by),
                       {{"taken", by}});
}

void AttachInput::go_on() {
  if (reader_ && client_.may_send(id_) > 0) reader_->go_on();
}

void AttachInput::interrupt() {
  switch (signals_.on_signal(SIGINT, event::clock_now().count(), true)) {
    case LaunchSignals::Act::pass:
      if (signals_.ended_by()) return;
      client_.begin("signal", {{"signal", SIGINT}});
      status_ = client_.begin("status");
      break;
    case LaunchSignals::Act::cancel:
    case LaunchSignals::Act::end:
      client_.begin("cancel");
      callbacks_.on_notice("interrupted twice: ending the job", {{"signal", SIGTERM}});
      break;
    case LaunchSignals::Act::kill: client_.begin("signal", {{"signal", SIGKILL}}); break;
  }
  callbacks_.on_sent();
}

void AttachInput::report_interrupt(const Json& status) {
  auto running = status.value("running", std::uint64_t{0});
  callbacks_.on_notice(exits::JobEnd::interrupt_text(running, true), {{"signal", SIGINT}, {"running", running}});
}

bool AttachInput::stop() {
  if (!is_taken_ && signals_.leaves(event::clock_now().count())) return true;
  std::raise(SIGSTOP);
  return false;
}

// ---- attach terminal --------------------------------------------------------------------

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

Result<std::uint32_t> first_terminal(control::Client& client) {
  auto first = TRY(terminals(client)).first();
  if (!first) return Error{ENOTTY, "--pty: no task of the job has a terminal: it has to be run with --pty"};
  return *first;
}

Result<std::optional<std::uint32_t>> only_terminal(control::Client& client) {
  value::Idset all = TRY(terminals(client));
  return all.size() == 1 ? all.first() : std::nullopt;
}

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

}  // namespace nacre::front
