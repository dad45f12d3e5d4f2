// SPDX-License-Identifier: Apache-2.0
//
// input: the tasks' stdin, from the shell's own or from files. A file is opened anew for each task, so that each
// reads it at its own pace. A pipe or terminal cannot be opened anew: if one task reads it, the task gets it; if
// several do, the shell reads it for them. The shell also reads a terminal for a single task, since a task in a
// process group of its own would be stopped when it reads.
//
// In a job of several shells the stdin is the leader's, and each shell gets it as a pipe (JobInput). A new leader
// asks all shells how far they have read. Once the launcher has connected to it, it goes on at the earliest of
// these positions.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "base/text.hpp"
#include "bulk/port.hpp"
#include "event/loop.hpp"
#include "io/fanout.hpp"
#include "io/sink.hpp"
#include "job/options.hpp"
#include "plugin/events.hpp"
#include "plugin/questions.hpp"
#include "plugin/tags.hpp"
#include "plugins/builtins.hpp"
#include "plugins/output/options.hpp"
#include "plugins/output/routing.hpp"
#include "plugins/pty/pty.hpp"
#include "wire/json.hpp"

namespace nacre::plugins {

// ---- job input --------------------------------------------------------------------------
//
// The standard input of a job of several shells, for the plugin `input`: the leader reads it and broadcasts it, and
// each shell has it as a pipe. Input that the tasks of one shell do not take is kept there in a file, so that other
// shells can go on. A record of the broadcast says which bytes of the input it has (doc/protocol.md): a shell
// ignores what it has had of the former leader.

namespace {

constexpr std::size_t kPiece = std::size_t{60} << 10;  // bytes of input in one record
constexpr std::size_t kPieceHead = 9;  // bytes before them: which tasks' input it is, and where it begins

}  // namespace

class JobInput : Noncopyable {
 public:
  struct Options {
    bool wanted = true;  // a task of this shell reads it
    std::string spill_directory = "/tmp";
    std::uint64_t spill_limit = io::FdSink::kSpillLimit;  // bytes
  };
  struct Callbacks {
    std::function<void(const Error&)> on_error;
    std::function<void()> on_wait;    // called once: the other shells have to wait for the tasks of this one
    std::function<bool()> was_taken;  // leader: another owner than the launcher has had the input
  };
  // How far this shell has got.
  struct Position {
    std::uint64_t behind = 0;  // bytes
    bool reads = false;        // tasks of this shell still read
    bool was_taken = false;    // as the leader has announced
  };

  // Serves the port's channel. `port` and `loop` have to outlive it; no callback may destroy it.
  static Result<std::unique_ptr<JobInput>> create(event::Loop& loop, bulk::Port& port, Options options,
                                                  Callbacks callbacks) {
    std::unique_ptr<JobInput> out(new JobInput(loop, port, std::move(options), std::move(callbacks)));
    if (out->options_.wanted) CHECK_OK(out->open());
    out->position_.reads = out->options_.wanted;
    out->serve();
    return out;
  }

  ~JobInput() {
    port_.serve(bulk::down::kInput, bulk::Port::Downward());
    let_go();
  }

  // The end of the pipe that tasks read; none if it is not wanted. The caller closes it here once the tasks have
  // it.
  [[nodiscard]] UniqueFd& pipe() { return pipe_; }

  // The tasks of this shell read no more input.
  void let_go() {
    failed_ = true;
    position_.reads = false;
    go_on();
  }

  // The tasks get no more than what has come so far.
  void end() {
    ended_ = true;
    position_.reads = false;
    end_soon();
  }

  [[nodiscard]] const Position& position() const { return position_; }

  // Leader: broadcasts all that comes out of `source`, which begins at byte `from` of the input. To be called once.
  Result<void> broadcast(UniqueFd source, std::uint64_t from) {
    next_ = from;
    source_ = std::move(source);
    poll_ = TRY(event::Poll::create(loop_, source_.get(), [this](int) { read_some(); }));
    return poll_->start(event::Poll::kReadable);
  }

  // Leader: announces that the input ends at this byte.
  void broadcast_end(std::uint64_t from) {
    next_ = from;
    is_over_ = true;
    queue({});
    send();
  }

  // Leader: a shell that has joined since may have missed the end.
  void repeat_end() {
    if (is_over_) broadcast_end(next_);
  }

 private:
  JobInput(event::Loop& loop, bulk::Port& port, Options options, Callbacks callbacks)
      : loop_(loop), port_(port), options_(std::move(options)), callbacks_(std::move(callbacks)) {}

  Result<void> open() {
    Pipe pipe = TRY(make_pipe(O_CLOEXEC));
    pipe_ = std::move(pipe.read);
    to_pipe_ = std::move(pipe.write);
    io::FdSink::Options options{io::Overflow::spill, options_.spill_directory, options_.spill_limit};
    io::FdSink::Callbacks callbacks;
    callbacks.on_room = [this] { go_on(); };
    callbacks.on_error = [this](const Error&) { let_go(); };
    callbacks.on_spill = callbacks_.on_error;
    sink_ = TRY(io::FdSink::create(loop_, to_pipe_.get(), "stdin of tasks", options, std::move(callbacks)));
    end_timer_ = TRY(event::Timer::create(loop_, [this] {
      sink_.reset();
      to_pipe_.reset();
    }));
    return {};
  }

  void serve() {
    bulk::Port::Downward owner;
    owner.on_record = [this](bulk::Numbered number, std::string_view bytes) { take(number, bytes); };
    owner.on_room = [this] { read_some(); };
    port_.serve(bulk::down::kInput, std::move(owner));
  }

  // ---- on the leader -------------------------------------------------------------------

  void read_some() {
    if (!send() || !poll_) return;
    HeapBuffer<kPiece> buffer;
    ssize_t got = ::read(source_.get(), buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      poll_.reset();
      source_.reset();
      return broadcast_end(next_);
    }
    queue({buffer.data(), static_cast<std::size_t>(got)});
    send();
  }

  // A record without bytes is the end.
  void queue(std::string_view bytes) {
    unsent_ = callbacks_.was_taken() ? '\1' : '\0';
    append_number(unsent_, next_);
    unsent_ += bytes;
    next_ += bytes.size();
  }

  // Returns whether nothing is left to send.
  bool send() {
    if (unsent_.empty()) return true;
    Result<bool> sent = port_.broadcast(bulk::down::kInput, unsent_);
    if (!sent) {  // cut off: no other shell will read it
      poll_.reset();
      return false;
    }
    if (*sent) unsent_.clear();
    if (!poll_) return *sent;
    Result<void> set = *sent ? poll_->start(event::Poll::kReadable) : Result<void>();
    if (!*sent) poll_->stop();
    if (!set) callbacks_.on_error(set.error());
    return *sent;
  }

  // ---- on every shell ------------------------------------------------------------------

  void take(bulk::Numbered number, std::string_view bytes) {
    if (sink_ && !failed_ && !ended_ && bytes.size() >= kPieceHead) {
      position_.was_taken = bytes[0] != '\0';
      bytes.remove_prefix(1);
      const auto at = take_number<std::uint64_t>(bytes);
      take_piece(at, bytes);
    }
    if (!sink_ || failed_ || ended_ || !sink_->full()) return port_.consumed(number);
    if (!std::exchange(waited_, true)) callbacks_.on_wait();
    unconsumed_.push_back(number);
  }

  // A shell that has joined later begins where the broadcast is.
  void take_piece(std::uint64_t at, std::string_view bytes) {
    if (!std::exchange(has_begun_, true)) position_.behind = at;
    if (at > position_.behind) {
      callbacks_.on_error(
          Error{EPIPE, fmt::format("the job's standard input ends here for the tasks of this shell: {} "
                                   "bytes are lost with a shell that led the job",
                                   at - position_.behind)});
      return end();
    }
    if (bytes.empty()) return end();
    bytes.remove_prefix(std::min<std::uint64_t>(position_.behind - at, bytes.size()));
    if (bytes.empty()) return;
    position_.behind += bytes.size();
    std::array pieces{bytes};
    if (!sink_->write(pieces)) failed_ = true;
    position_.reads = !failed_;
  }

  void go_on() {
    if (failed_ || !sink_ || !sink_->full()) {
      for (bulk::Numbered number : std::exchange(unconsumed_, {})) port_.consumed(number);
    }
    end_soon();
  }

  // Must not happen within a call of the sink.
  void end_soon() {
    if (sink_ && ended_ && (failed_ || sink_->flushed())) end_timer_->start(event::Seconds::zero());
  }

  event::Loop& loop_;
  bulk::Port& port_;
  Options options_;
  Callbacks callbacks_;
  // The leader's way to all shells.
  UniqueFd source_;
  std::optional<event::Poll> poll_;
  std::string unsent_;      // a record
  std::uint64_t next_ = 0;  // the first byte that is not in a record yet
  bool is_over_ = false;    // the end is in a record
  // The way to this shell's tasks.
  UniqueFd pipe_;
  UniqueFd to_pipe_;
  std::unique_ptr<io::FdSink> sink_;
  std::optional<event::Timer> end_timer_;
  Position position_;
  bool has_begun_ = false;  // a record has come
  bool failed_ = false;     // the pipe has no reader any more
  bool ended_ = false;      // nothing more comes
  bool waited_ = false;
  std::vector<bulk::Numbered> unconsumed_;  // given to a full sink
};

// ---- another leader ---------------------------------------------------------------------
//
// The next leader's question to all shells, with a number; they answer with their position.

struct InputAnswer {
  std::uint64_t number = 0;
  JobInput::Position position;

  [[nodiscard]] std::string text() const { return wire::to_text(*this); }
};

void fields(auto& io, wire::Of<JobInput::Position> auto& m) {
  io.has("behind", m.behind);
  io.has("reads", m.reads);
  io.has("taken", m.was_taken);
}

void fields(auto& io, wire::Of<InputAnswer> auto& m) {
  io.has("number", m.number);
  io.has("position", m.position);
}

// The positions of all shells.
struct InputPositions {
  std::optional<std::uint64_t> least;  // the least position of shells whose tasks read; none: no task reads
  std::uint64_t most = 0;
  bool was_taken = false;

  void add(const JobInput::Position& each) {
    if (each.reads) least = std::min(least.value_or(each.behind), each.behind);
    most = std::max(most, each.behind);
    was_taken = was_taken || each.was_taken;
  }
};

// ---- input ------------------------------------------------------------------------------

namespace {

constexpr const char* kPositionTopic = "input.position";  // announcement: the question's number
constexpr event::Seconds kMostAnswerTime{10};

std::uint64_t number_of(std::string_view question) { return parse_u64(question).value_or(0); }

// Bytes that are read from a terminal before the tasks want them
constexpr std::size_t kTypedAhead = std::size_t{64} << 10;
constexpr const char* kPath = "input.stdin.path";

struct InputOptions {
  std::string path;                    // a template; "": the shell's own stdin
  std::optional<value::Idset> ranks;   // of the tasks that read it; none: all
  std::optional<std::uint64_t> limit;  // bytes of the shell's stdin
  bool ends_when_left = false;

  static Result<InputOptions> read(const job::Options& options) {
    InputOptions out;
    auto input = options.at("input");
    if (!input) return out;
    // `batch-timeout` only affects how Flux's shells write input to the KVS.
    CHECK_OK(input->only_keys({"stdin", "ranks", "limit", "batch-timeout", "when-left"}));
    if (auto timeout = TRY(input->find("batch-timeout"))) CHECK_OK(job::seconds_option(*timeout));
    if (auto standard = TRY(input->find("stdin"))) CHECK_OK(read_stdin(*standard, out));
    if (auto left = TRY(input->find("when-left"))) {
      if (left->json() != "open" && left->json() != "end") return left->expected("open or end");
      out.ends_when_left = left->json() == "end";
    }
    if (auto limit = TRY(input->find("limit"))) out.limit = TRY(job::size_option(*limit));
    if (auto ranks = TRY(input->find("ranks"))) out.ranks = TRY(job::ranks_option(*ranks));
    return out;
  }

  static Result<void> read_stdin(const JsonAt& option, InputOptions& out) {
    CHECK_OK(option.only_keys({"type", "path"}));
    auto path = TRY(option.find("path"));
    if (path) out.path = TRY(path->string());
    if (path && out.path.empty()) return path->expected("a file's name");
    auto type = TRY(option.find("type"));
    if (!type) return {};
    if (type->json() != "service" && type->json() != "file") return type->expected("service or file");
    bool file = type->json() == "file";
    if (file && !path) return option.error("the type is file, so `path` has to be given");
    if (!file && path) return option.error("the type is service, the shell's own stdin, which has no `path`");
    return {};
  }
};

class Input final : public plugin::Plugin {
 public:
  explicit Input(plugin::Host& host) : Plugin("input"), host_(host) {
    on("shell.init", [this] { return prepare(); });
    on("shell.post-init", [this] { return open_files(); });
    on("task.init", [this] { return give(*host_.current_task()); });
    on("task.fork", [this] { return connect(*host_.current_task()); });
    on("shell.start", [this] { return start(); });
    on("shell.finish", [this] { return stop(false); });
    on("shell.tasks-complete", [this] { return stop(true); });
  }

 private:
  // How a task gets its stdin.
  enum class Way {
    none,     // /dev/null
    inherit,  // the shell's descriptor
    reopen,   // the same file, opened anew
    relay,    // a pipe that this shell fills
    carried,  // the pipe with what comes from the leader
  };

  Result<void> prepare() {
    options_ = TRY(InputOptions::read(host_.options()));
    CHECK_OK(job::check_ranks("input.ranks", options_.ranks, host_.job().tasks()));
    if (auto* input = plugin::launchers_input(host_)) input->ends_with_owner(options_.ends_when_left);
    // Tasks that start later would miss what others have read.
    only_files_ = TRY(job::AtMost::read(host_.options())).is_on() && !options_.ranks;
    for (const auto& task : host_.tasks()) readers_ += reads(*task) ? 1 : 0;
    ends_ = host_.on_announcement([this](std::string_view topic, std::string_view ranks) {
      if (topic == kInputEnd) end(ranks);
    });
    if (!options_.path.empty()) {
      host_.start_after_all();
      return {};
    }
    if (host_.bulk() == nullptr || host_.job().shells() == 1) {
      way_ = host_.job().leads() ? own_stdin() : Way::none;
      return {};
    }
    if (TRY(job::OnLeaderLost::read(host_.options())).takes_over) serve_positions();
    return prepare_carried();
  }

  // ---- another leader

  void serve_positions() {
    hands_over_ = true;
    asked_ = plugin::serve_questions(
        host_, records_, kPositionTopic,
        [this](bulk::Id shell, std::string_view bytes) { take_position(shell, bytes); },
        [this](std::string_view question) {
          records_.put(InputAnswer{number_of(question), position()}.text());
        });
    on<plugin::ShellLost>([this](const plugin::ShellLost& lost) { positions_.gone(lost.shell); });
    on<plugin::ShellLeft>([this](const plugin::ShellLeft& left) { positions_.gone(left.shell); });
    on("job.leader", [this] { return host_.job().leads() ? ask_positions() : Result<void>(); });
    on("shell.joined", [this] {
      if (host_.job().leads() && input_) input_->repeat_end();
    });
  }

  [[nodiscard]] JobInput::Position position() const { return input_ ? input_->position() : JobInput::Position(); }

  // The input came to the former leader, and nobody reads it: the launcher is told that it has ended.
  Result<void> ask_positions() {
    if (!input_) return go_on(InputPositions());
    InputPositions all;
    all.add(position());
    auto text = [](std::uint64_t number) { return fmt::format("{}", number); };
    auto done = [this](const plugin::OpenQuestions<InputPositions>::Answered& asked) {
      if (Result<void> goes_on = go_on(asked.answer); !goes_on)
        log(host_, *this, Level::error, "the job's standard input ends here: {}", goes_on.error().message);
    };
    CHECK_OK(positions_.ask({positions_.others(), kMostAnswerTime, all, text, done}));
    return {};
  }

  void take_position(std::uint32_t shell, std::string_view bytes) {
    auto answer = wire::from_text<InputAnswer>(bytes);
    InputPositions* all = answer ? positions_.find(answer->number, shell) : nullptr;
    if (all == nullptr) return;
    all->add(answer->position);
    positions_.complete(answer->number, shell);
  }

  // job.input tells the next owner of the input from which byte on it has to send.
  Result<void> go_on(const InputPositions& all) {
    plugin::Call call("job.input");
    const bool is_followed = TRY(job::OnLeaderLost::read(host_.options())).is_followed;
    plugin::LauncherTie* tie = host_.launcher_tie();
    if (all.least && is_followed && tie != nullptr && !all.was_taken) {
      CHECK_OK(tie->take_over_input());
      tie->input()->ends_with_owner(options_.ends_when_left);
      CHECK_OK(make_source(*all.least));
      if (has_started_) CHECK_OK(source_->start());
      call.in["at"] = *all.least;
    } else if (all.least) {
      input_->broadcast_end(all.most);
      log(host_, *this, Level::notice, "the job's standard input ends here: it came by the shell that is lost");
    }
    auto called = host_.stack().call(call);
    return called ? Result<void>() : std::move(called).error();
  }

  // The job's input has to come from the leader, unless all tasks that read it are on that shell.
  Result<void> prepare_carried() {
    const job::Job& job = host_.job();
    bool leads = job.leads();
    if (!leads) CHECK_OK(drop_own());
    if (!host_.has_input() || only_files_) {
      way_ = Way::none;
      return {};
    }
    if (options_.ranks && (*options_.ranks - job.taskmap.ranks_on(0)).empty()) {
      way_ = leads ? own_stdin() : Way::none;
      return {};
    }
    way_ = readers_ == 0 ? Way::none : readers_ == 1 ? Way::carried : Way::relay;
    JobInput::Options options;
    options.wanted = readers_ > 0;
    options.spill_directory = spill_directory(host_);
    JobInput::Callbacks handlers;
    handlers.on_error = [this](const Error& error) { log(host_, *this, Level::warn, "{}", error.message); };
    handlers.on_wait = [this] {
      log(host_, *this, Level::warn,
          "the tasks of shell {} do not read their stdin, and others have to wait for them; input.ranks chooses "
          "the "
          "tasks that get it",
          host_.job().shell_rank);
    };
    handlers.was_taken = [this] {
      const auto* input = plugin::launchers_input(host_);
      return input != nullptr && input->was_taken();
    };
    input_ = TRY(JobInput::create(host_.loop(), *host_.bulk(), std::move(options), std::move(handlers)));
    return leads ? make_source(0) : Result<void>();
  }

  // Sets the leader's stdin as the source, which begins at byte `from` of the input; it is read at the pace of the
  // broadcast.
  Result<void> make_source(std::uint64_t from) {
    io::Fanout::Options options = fanout_options();
    if (options.limit) *options.limit -= std::min(*options.limit, from);
    source_ = TRY(io::Fanout::create(host_.loop(), STDIN_FILENO, std::move(options), callbacks()));
    Pipe pipe = TRY(make_pipe(O_CLOEXEC));
    CHECK_OK(input_->broadcast(std::move(pipe.read), from));
    return source_->add(std::move(pipe.write));
  }

  // A manager may copy the input to each shell, and waits if a shell does not read it: so it is read and dropped.
  Result<void> drop_own() {
    struct stat info {};
    if (::fstat(STDIN_FILENO, &info) < 0 || !(S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode))) return {};
    own_ = TRY(io::OwnDescription::of(STDIN_FILENO, O_RDONLY, "stdin"));
    unread_ = TRY(event::Poll::create(host_.loop(), own_->get(), [this](int) {
      HeapBuffer<kTypedAhead> buffer;
      ssize_t got = ::read(own_->get(), buffer.data(), buffer.size());
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) unread_->stop();
    }));
    return unread_->start(event::Poll::kReadable);
  }

  Result<void> start() {
    has_started_ = true;
    if (fanout_) CHECK_OK(fanout_->start());
    return source_ ? source_->start() : Result<void>();
  }

  // For other shells, the leader goes on while any task of the job runs.
  Result<void> stop(bool all) {
    fanout_.reset();
    if (!all && (source_ || (hands_over_ && input_))) {
      input_->let_go();
      return {};
    }
    source_.reset();
    input_.reset();
    unread_.reset();
    return {};
  }

  // The input of these tasks ends, while that of others goes on: a Flux instance may say so.
  void end(std::string_view ranks) {
    auto parsed = value::Idset::parse(ranks);
    if (!parsed) return;
    ended_.insert(*parsed);
    for (std::size_t i = 0; fanout_ && i < order_.size(); ++i) {
      if (parsed->contains(order_[i])) fanout_->end(i);
    }
    auto is_over = [this](const auto& task) { return !reads(*task) || ended_.contains(task->rank()); };
    if (way_ == Way::carried && input_ && std::all_of(host_.tasks().begin(), host_.tasks().end(), is_over))
      input_->end();
  }

  [[nodiscard]] bool reads(const task::Task& task) const {
    return task.pty() == nullptr && (!options_.ranks || options_.ranks->contains(task.rank()));
  }

  [[nodiscard]] Way own_stdin() const {
    struct stat info {};
    const bool is_known = ::fstat(STDIN_FILENO, &info) == 0;
    if (only_files_)
      return is_known && S_ISREG(info.st_mode) && !options_.limit && reopen() ? Way::reopen : Way::none;
    if (::isatty(STDIN_FILENO) == 1) return Way::relay;
    if (!is_known || S_ISCHR(info.st_mode)) return Way::inherit;
    if (readers_ <= 1 && !options_.limit) return Way::inherit;
    return S_ISREG(info.st_mode) && !options_.limit && reopen() ? Way::reopen : Way::relay;
  }

  // The shell's stdin, opened anew, at its current position.
  static UniqueFd reopen() {
    UniqueFd fd = io::reopen(STDIN_FILENO, O_RDONLY);
    off_t at = ::lseek(STDIN_FILENO, 0, SEEK_CUR);
    return fd && at >= 0 && ::lseek(fd.get(), at, SEEK_SET) == at ? std::move(fd) : UniqueFd();
  }

  // Opens files early, so that it is known before any task starts if one cannot be read on this node.
  Result<void> open_files() {
    if (options_.path.empty()) return {};
    const auto pty = TRY(PtyOptions::read(host_.options(), host_.job().tasks()));
    const std::size_t most = TRY(job::tasks_at_once(host_.options(), host_.job(), host_.tasks().size()));
    for (const auto& task : host_.tasks()) {
      if (!reads(*task) || pty.ranks.contains(task->rank())) continue;
      if (task->local_id() >= most) break;
      task_ends_[task->local_id()] = TRY(in(kPath, open_file(*task)));
    }
    return {};
  }

  Result<void> give(task::Task& task) {
    if (task.pty() != nullptr) return {};
    UniqueFd& end = task_ends_[task.local_id()];
    // Input through a pipe of the task's own ends with its first start, as it is not sent again.
    bool has_had = task.attempt() > 1 && options_.path.empty() && (way_ == Way::carried || way_ == Way::relay);
    has_had = has_had || ended_.contains(task.rank());
    if (!reads(task) || (options_.path.empty() && way_ == Way::none) || has_had) {
      // Nothing: /dev/null.
    } else if (!options_.path.empty()) {
      if (!end) end = TRY(in(kPath, open_file(task)));
    } else if (way_ == Way::inherit) {
      task_ends_.erase(task.local_id());
      return {};
    } else if (way_ == Way::carried) {
      end = std::move(input_->pipe());
    } else if (way_ == Way::reopen) {
      end = reopen();
      if (!end) return system_error(errno, "cannot open stdin anew");
    } else {
      CHECK_OK(make_relay(task));
    }
    task.command().setup.fds.push_back({STDIN_FILENO, end.get()});
    return {};
  }

  // Of a FIFO: it is empty, and nobody has it open for writing.
  static bool is_at_end(int fifo) {
    Result<Pipe> other = make_pipe(O_CLOEXEC);
    return other && ::tee(fifo, other->write.get(), 1, SPLICE_F_NONBLOCK) == 0;
  }

  Result<UniqueFd> open_file(const task::Task& task) {
    CHECK_OK(plugin::check_tags(host_, options_.path));
    std::string path = TRY(output_path(host_, options_.path, &task));
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat info {};
    if (!fd || ::fstat(fd.get(), &info) < 0) return system_error(errno, path);
    if (S_ISDIR(info.st_mode)) return system_error(EISDIR, path);
    if (S_ISFIFO(info.st_mode) && readers_ > 1 && path == options_.path) {
      return invalid(
          fmt::format("{}: a FIFO, which each task would get a part of; give it as nacre-shell's own stdin", path));
    }
    // It would be at its end at once, also for what is written later.
    if (S_ISFIFO(info.st_mode) && task.attempt() == 1 && is_at_end(fd.get()))
      return invalid(fmt::format("{}: a FIFO that nobody writes to; start its writer first", path));
    CHECK_OK(make_blocking(fd.get(), path));
    return fd;
  }

  Result<void> make_relay(const task::Task& task) {
    if (!fanout_) {
      io::Fanout::Options options = fanout_options();
      if (input_) options.limit.reset();  // the leader applies it
      int source = input_ ? input_->pipe().get() : STDIN_FILENO;
      io::Fanout::Callbacks handlers = callbacks();
      handlers.on_done = [this] {
        if (input_) input_->let_go();
      };
      fanout_ = TRY(io::Fanout::create(host_.loop(), source, std::move(options), std::move(handlers)));
    }
    Pipe pipe = TRY(make_pipe(O_CLOEXEC));
    widen_pipe(pipe.write.get(), readers_);
    task_ends_[task.local_id()] = std::move(pipe.read);
    relays_[task.local_id()] = std::move(pipe.write);
    return {};
  }

  io::Fanout::Options fanout_options() {
    io::Fanout::Options options;
    options.spill_directory = spill_directory(host_);
    options.limit = options_.limit;
    if (::isatty(STDIN_FILENO) == 1) options.window = kTypedAhead;
    return options;
  }

  io::Fanout::Callbacks callbacks() {
    io::Fanout::Callbacks callbacks;
    callbacks.on_error = [this](const Error& error) { log(host_, *this, Level::error, "{}", error.message); };
    callbacks.on_limit = [this] {
      log(host_, *this, Level::warn, "stdin is cut here: input.limit is {} bytes", *options_.limit);
    };
    callbacks.on_wait = [this](const std::vector<std::size_t>& slow, const std::optional<Error>& error) {
      std::vector<value::Idset::Id> ranks;
      for (std::size_t reader : slow) ranks.push_back(order_.at(reader));
      log(host_, *this, Level::warn,
          "task {}: does not read its stdin, and the others have to wait for it{}{}; input.ranks chooses the tasks "
          "that get it",
          value::Idset::of(ranks).str(), error ? ": " : "", error ? error->message : "");
    };
    return callbacks;
  }

  Result<void> connect(const task::Task& task) {
    task_ends_.erase(task.local_id());
    auto relay = relays_.find(task.local_id());
    if (relay == relays_.end()) return {};
    order_.push_back(task.rank());
    CHECK_OK(fanout_->add(std::move(relay->second)));
    if (ended_.contains(task.rank())) fanout_->end(order_.size() - 1);
    relays_.erase(relay);
    return {};
  }

  plugin::Host& host_;
  InputOptions options_;
  bool only_files_ = false;  // tasks get no pipe of the shell's stdin
  std::size_t readers_ = 0;
  Way way_ = Way::inherit;
  std::map<std::uint32_t, UniqueFd> task_ends_;  // by local id, until the task has it
  std::map<std::uint32_t, UniqueFd> relays_;     // by local id, until the task runs
  std::vector<value::Idset::Id> order_;          // ranks, by the numbers of the fanout's readers
  std::unique_ptr<io::Fanout> fanout_;
  value::Idset ended_;  // ranks whose input is over
  plugin::Registration ends_;
  // ---- only with several shells
  std::unique_ptr<JobInput> input_;
  std::unique_ptr<io::Fanout> source_;     // on the leader, with one reader: the broadcast
  std::optional<io::OwnDescription> own_;  // what another shell got as stdin, ...
  std::optional<event::Poll> unread_;      // ... which is read and dropped
  // ---- where another shell may come to lead
  bool hands_over_ = false;
  bool has_started_ = false;
  plugin::Registration asked_;
  bulk::RecordQueue records_{bulk::up::kInputPosition};
  plugin::OpenQuestions<InputPositions> positions_{host_, kPositionTopic};
};

}  // namespace

PluginPtr make_input(plugin::Host& host) { return std::make_unique<Input>(host); }

}  // namespace nacre::plugins
