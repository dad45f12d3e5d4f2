// SPDX-License-Identifier: Apache-2.0
//
// output: what the tasks write to stdout and stderr goes from pipes to the places that the options name. A task
// that writes to a file of its own gets the file itself, so nothing passes through here.
//
// A task's pipes are emptied before its exit is reported, even if others still hold them open. A place that is slow
// stops the tasks that write to it, if its policy is to block: their pipes are not read until it has room.

#include "plugins/output/routing.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/print.hpp"
#include "bulk/port.hpp"
#include "event/clock.hpp"
#include "event/loop.hpp"
#include "event/timers.hpp"
#include "io/format.hpp"
#include "job/job.hpp"
#include "job/options.hpp"
#include "plugin/events.hpp"
#include "plugins/builtins.hpp"
#include "plugins/output/options.hpp"

namespace nacre::plugins {

// ---- collector --------------------------------------------------------------------------
//
// Collects the output of the other shells on the leader, for the plugin `output`: what their OutputUplinks write
// comes out at the leader's places, and is held back while one of these is full.

class OutputCollector : Noncopyable {
 public:
  struct Callbacks {
    std::function<void()> on_put;
    std::function<void(const value::Idset& ranks)> on_complete;  // nothing more comes from these tasks
    std::function<void()> on_ended;  // called once for each other shell: nothing more from it is waited for
    // A shell has sent invalid records; nothing more from it comes out.
    std::function<void(bulk::Id shell, const Error&)> on_error;
  };

  // `port`, `job` and `places` have to outlive it. It receives nothing before serve(), which passes on at once what
  // has come already. `others`: the shells that are waited for.
  OutputCollector(bulk::Port& port, const job::Job& job, OutputRouting& places, const value::Idset& others,
                  Callbacks callbacks)
      : port_(port),
        job_(job),
        places_(places),
        callbacks_(std::move(callbacks)),
        waits_for_(static_cast<std::uint32_t>(others.size())),
        keeps_until_out_(places.keeps_until_out()) {
    for (std::uint32_t shell = 0; shell < job.shells(); ++shell) {
      if (!others.contains(shell)) origin(shell).over = true;
    }
  }

  void serve() {
    bulk::Port::Upward upward;
    upward.on_record = [this](bulk::Id shell, bulk::Numbered number, std::string_view bytes) {
      take(shell, number, bytes);
    };
    bulk::Port::Downward downward;
    downward.on_record = [this](bulk::Numbered number, std::string_view) { port_.consumed(number); };
    downward.on_room = [this] { send_closed(); };
    port_.serve(bulk::up::kOutput, std::move(upward));
    port_.serve(bulk::down::kOutputClosed, std::move(downward));
  }

  // The same on a shell that has come to lead.
  Result<void> serve_in_place() {
    auto take_it = [this](bulk::Id shell, bulk::Numbered number, std::string_view bytes) {
      take(shell, number, bytes);
    };
    return places_.lead(take_it, [this] { send_closed(); });
  }

  // The places have room again, or all has come out.
  void go_on() {
    while (!untaken_.empty() && !full() && OutputRouting::has_passed(untaken_.front().marks)) {
      const Untaken each = std::move(untaken_.front());
      untaken_.pop_front();
      port_.taken(each.shell, each.number);
    }
  }

  void expect_one_more() { ++waits_for_; }  // a shell has joined the job

  void lost(bulk::Id shell) {
    if (shell < job_.shells()) over(shell);
  }

  [[nodiscard]] bool has_all_of(bulk::Id shell) { return origin(shell).over; }

  // A place has failed. If it was the last one of a stream, all shells are told that nobody takes the stream any
  // more.
  void look_for_closed() {
    for (io::Stream stream : io::kStreams) {
      const auto& places = places_.collected(stream);
      bool closed =
          !places.empty() && std::all_of(places.begin(), places.end(), [](auto* place) { return place->failed(); });
      if (!closed || std::find(closed_.begin(), closed_.end(), stream) != closed_.end()) continue;
      closed_.push_back(stream);
      unsent_.push_back(stream);
    }
    send_closed();
  }

 private:
  struct Origin {
    std::unique_ptr<io::BatchReader> reader;  // none: it has sent invalid records
    bool over = false;                        // is not waited for
  };
  struct Untaken {
    bulk::Id shell;
    bulk::Numbered number;
    OutputRouting::Marks marks;  // set if it is waited for: the positions of places at which all of it has come out
  };

  [[nodiscard]] bool full() const {
    return std::any_of(io::kStreams.begin(), io::kStreams.end(), [this](io::Stream stream) {
      const auto& places = places_.collected(stream);
      return std::any_of(places.begin(), places.end(), [](auto* place) { return place->full(); });
    });
  }

  Origin& origin(bulk::Id shell) {
    auto [place, is_new] = origins_.try_emplace(shell);
    if (!is_new) return place->second;
    io::BatchReader::Take take;
    take.source = [this, shell](const io::Source& source) { return check(shell, source); };
    take.batch = [this](const io::Batch& batch) {
      for (OutputTarget* each : places_.collected(batch.source->stream)) each->put(batch);
      callbacks_.on_put();
    };
    take.end = [this](const io::Source& source, double time) {
      for (OutputTarget* each : places_.collected(source.stream)) each->end(source, time);
    };
    take.complete = [this, shell](std::uint32_t rank) -> Result<void> {
      CHECK_OK(check(shell, {rank}));
      callbacks_.on_complete(value::Idset::range(rank, rank));
      return {};
    };
    take.event = [this](std::string_view line) { places_.post_line(line); };
    place->second.reader = std::make_unique<io::BatchReader>(std::move(take));
    return place->second;
  }

  // Output of processes that tasks have spawned on other shells counts as the tasks' output.
  Result<void> check(bulk::Id shell, const io::Source& source) const {
    bool is_part = source.is_part && source.rank < job_.tasks();
    if (shell < job_.shells() && (is_part || job_.has_had(shell, source.rank))) return {};
    return Error{EPROTO, fmt::format("output: task {} is none of its own", source.rank)};
  }

  void take(bulk::Id shell, bulk::Numbered number, std::string_view bytes) {
    Origin& from = origin(shell);
    if (bytes.empty()) {
      over(shell);
    } else if (from.reader) {
      if (Result<void> read = from.reader->add(bytes); !read) {
        from.reader.reset();
        callbacks_.on_error(shell, read.error());
      }
    }
    if (!full() && untaken_.empty() && (!keeps_until_out_ || places_.flushed())) return port_.taken(shell, number);
    untaken_.push_back({shell, number, keeps_until_out_ ? places_.marks() : OutputRouting::Marks()});
  }

  // Data of a lost shell may still come while other shells are waited for.
  void over(bulk::Id shell) {
    if (shell == job_.shell_rank || std::exchange(origin(shell).over, true)) return;
    if (--waits_for_ == 0) {
      for (auto& [id, each] : origins_) {
        if (each.reader) each.reader->end_all(event::wall_clock());
      }
    }
    callbacks_.on_complete(job_.taskmap.ranks_on(shell));
    callbacks_.on_ended();
  }

  void send_closed() {
    while (!unsent_.empty()) {
      Result<bool> sent = port_.broadcast(bulk::down::kOutputClosed, closing(unsent_.back()));
      if (sent && !*sent) return;
      unsent_.pop_back();
    }
  }

  bulk::Port& port_;
  const job::Job& job_;
  OutputRouting& places_;
  Callbacks callbacks_;
  std::map<bulk::Id, Origin> origins_;
  std::uint32_t waits_for_;  // shells
  bool keeps_until_out_;     // another shell may come to lead, which then gets what has not come out here
  std::deque<Untaken> untaken_;
  std::vector<io::Stream> closed_, unsent_;
};

// ---- come out ---------------------------------------------------------------------------
//
// On the leader: the tasks of which all output has come out, so that a failure is reported after the task's last
// byte. Only tasks that have failed are followed.

class OutputComeOut {
 public:
  // `places` has to outlive it.
  explicit OutputComeOut(const OutputRouting& places) : places_(places) {}

  // The streams of these tasks have ended, and all that they have written was put into its places.
  void complete(const value::Idset& ranks) {
    if (places_.flushed())
      ranks_ = ranks_ | ranks;
    else
      waiting_.push_back({ranks, places_.marks()});
  }

  // These tasks, an idset, start again, so more comes.
  Result<void> reopen(std::string_view ranks) {
    value::Idset again = TRY(value::Idset::parse(ranks));
    ranks_ = ranks_ - again;
    for (Waiting& each : waiting_) each.ranks = each.ranks - again;
    return {};
  }

  // Tasks of which all output has left its places, or never will.
  [[nodiscard]] const value::Idset& ranks() {
    std::erase_if(waiting_, [this](const Waiting& each) {
      bool has_passed = OutputRouting::has_passed(each.marks);
      if (has_passed) ranks_ = ranks_ | each.ranks;
      return has_passed;
    });
    return ranks_;
  }

 private:
  struct Waiting {
    value::Idset ranks;
    OutputRouting::Marks marks;
  };

  const OutputRouting& places_;
  value::Idset ranks_;
  std::vector<Waiting> waiting_;
};

// ---- early events -----------------------------------------------------------------------
//
// The lines of a job's events that come before standard output is opened. It is never opened if the job fails
// earlier.

class EarlyEvents {
 public:
  void add(std::string_view line) {
    lines_ += line;
    if (is_over_) print();
  }
  // The kept lines: standard output is open now.
  [[nodiscard]] std::string take() { return std::exchange(lines_, {}); }
  // Standard output will not be opened: kept events are printed, and so are later ones.
  void end() {
    is_over_ = true;
    print();
  }

 private:
  void print() {
    if (lines_.empty()) return;
    print_out("{}", take());
    // A reader that has gone needs no event.
    static_cast<void>(flush_out());
  }

  std::string lines_;
  bool is_over_ = false;
};

// ---- fold timer -------------------------------------------------------------------------
//
// Decides when waiting folded lines are let out, for the plugin `output`.

class FoldTimer {
 public:
  // Lets out the lines that have waited until `time`; returns the earliest time for the next call.
  using Expire = std::function<std::optional<double>(double time)>;

  Result<void> start(event::Loop& loop, Expire expire) {
    expire_ = std::move(expire);
    timer_ = TRY(event::Timer::create(loop, [this] { look(); }));
    return {};
  }

  // There may be waiting lines now.
  void look_if_idle() {
    if (timer_ && !waits_) look();
  }

 private:
  void look() {
    double now = event::wall_clock();
    std::optional<double> next = expire_(now);
    waits_ = next.has_value();
    if (next) timer_->start(event::Seconds(std::max(*next - now, 0.0)));
  }

  Expire expire_;
  std::optional<event::Timer> timer_;  // none: no lines are folded
  bool waits_ = false;                 // it was started
};

// ---- output -----------------------------------------------------------------------------

namespace {

constexpr const char* kOutputHold = "output";
constexpr std::size_t kMostEarly = 1000;               // messages
constexpr double kForever = 1e9;                       // seconds
constexpr std::size_t kLittle = std::size_t{8} << 10;  // bytes

class Output final : public plugin::Plugin, public plugin::TaskOutput {
 public:
  explicit Output(plugin::Host& host) : Plugin("output"), host_(host) {
    host_.log().add_sink(name(), [this](const LogEntry& entry) { keep(entry); });
    if (host_.instance() != nullptr) host_.log().set_sink_level(kStandardErrorSink, Level::quiet);
    on("shell.init", [this] { return read_options(); });
    on("shell.post-init", [this] { return open_places(); });
    on("task.init", [this] {
      task::Task& task = *host_.current_task();
      return channels_.prepare(task, outputs_.begin(task, may_start_again_));
    });
    on("task.fork", [this] { return watch(*host_.current_task()); });
    on("output.open", [this](plugin::Call& call) { return open_for_another(call); });
    on("task.exit", [this] { return task_exited(*host_.current_task()); });
    on("shell.finish", [this] { return await_ends(); });
    on<plugin::ShellLost>([this](const plugin::ShellLost& change) {
      gone_.insert(change.shell);
      if (collector_) collector_->lost(change.shell);
    });
    on("job.leader", [this] { return host_.job().leads() && places_ ? lead() : Result<void>(); });
    on<plugin::ShellLeft>([this](const plugin::ShellLeft& change) { left(change); });
    on("shell.joined", [this] {
      if (collector_) collector_->expect_one_more();
      if (collector_) hold();
    });
    on("job.tasks-moved", [this](plugin::Call& call) {
      return come_out_ ? come_out_->reopen(call.in.value("ranks", "")) : Result<void>();
    });
    on("job.resized", [this] {
      return come_out_ ? come_out_->reopen(fmt::format("0-{}", host_.job().most_tasks() - 1)) : Result<void>();
    });
    on("shell.restart", [this] {
      if (!host_.job().resizes.empty()) outputs_.end_former(host_.tasks(), event::wall_clock());
    });
    on("shell.exit", [this] {
      if (!places_) return early_events_.end();
      places_->leader_has_all();
      places_->log_losses();
    });
  }
  ~Output() override {
    host_.log().remove_sink(name());
    host_.offer_output(nullptr);
    if (host_.instance() == nullptr) return;
    host_.log().set_sink_level(kStandardErrorSink, Level::trace);
    if (keep_early()) return;
    for (LogEntry& each : early_) host_.log().post(std::move(each));  // there was no other place for them
  }

  // Before any place is open nothing is on its way.
  value::Idset come_out() override {
    if (!places_) return value::Idset::range(0, static_cast<value::Idset::Id>(host_.job().tasks() - 1));
    return come_out_ ? come_out_->ranks() : value::Idset();
  }

  std::optional<Tail> tail(std::uint32_t rank) override {
    auto task = std::find_if(host_.tasks().begin(), host_.tasks().end(),
                             [&](const auto& each) { return each->rank() == rank; });
    auto output = outputs_.tasks.find(rank);
    if (task == host_.tasks().end() || output == outputs_.tasks.end()) return std::nullopt;
    io::Stream shown = (*task)->pty() != nullptr ? io::Stream::out : io::Stream::err;
    return Tail{places_->last_of(**task, io::Stream::out, output->second),
                places_->last_of(**task, io::Stream::err, output->second), output->second.is_complete(),
                output->second.of(shown).tail.last_time()};
  }

  void read_now(std::uint32_t rank) override {
    auto output = outputs_.tasks.find(rank);
    if (output != outputs_.tasks.end()) read_pipes(output->second);
  }

  Written written(std::uint32_t rank) override { return outputs_.written(rank); }
  std::optional<Number> largest_number(std::uint32_t rank, std::string_view word) override {
    auto found = outputs_.numbers.find(word);
    return found != outputs_.numbers.end() ? found->second.largest(rank) : std::nullopt;
  }

  void follow(plugin::OutputFollower* follower) override {
    follower_ = follower;
    if (places_) places_->follow(follower);
  }

  void follower_has_room() override { go_on(); }

  [[nodiscard]] bool takes_events() const override { return options_.events && host_.job().leads(); }
  void put_event(std::string_view name, const Json& context) override {
    if (!takes_events()) return;
    std::string line = dump_json({{"timestamp", event::wall_clock()}, {"name", name}, {"context", context}}) + '\n';
    if (!places_) return early_events_.add(line);
    if (places_->put_event(line)) return;
    hold();
    ++closed_;
  }
  void redirect(plugin::OutputFile* to) override {
    file_ = to;
    if (places_) places_->redirect_terminals(to);
  }

 private:
  // The shells' messages are part of what the job has written.
  void keep(const LogEntry& entry) {
    // In a forked process, before a task executes (task.exec), the files are closed: the message is on its standard
    // error.
    const bool is_kept = entry.level <= Level::notice || host_.instance() != nullptr;
    if (!is_kept || ::getpid() != shell_) return;
    if (places_) return places_->post_message(entry);
    if (early_.size() < kMostEarly) early_.push_back(entry);
  }

  // For a job that has ended before its places were open: puts the messages into its instance's store. False: that
  // is not possible.
  bool keep_early() {
    broker::Instance& instance = *host_.instance();
    if (!host_.job().leads() || instance.broker->is_lost() || instance.eventlogs->failure()) return false;
    const OutputRouting routing(host_, options_, {});
    if (!early_.empty() && !has_begun_) routing.begin_guest_output(instance);
    for (const LogEntry& each : early_) routing.add_to_guest_output(instance, each);
    return true;
  }

  Result<void> read_options() {
    const bool in_store = host_.instance() != nullptr;
    options_ = TRY(OutputOptions::read(host_.options(), in_store ? OutputType::kvs : OutputType::term));
    CHECK_OK(read_numbers());
    CHECK_OK(job::check_ranks("output.ranks", options_.ranks, host_.job().tasks()));
    if (options_.has_files() || host_.record_directory()) host_.start_after_all();
    if (host_.job().leads()) CHECK_OK(options_.check_record(in_store || host_.record_directory().has_value()));
    host_.offer_output(this);
    has_begun_ = in_store && host_.job().leads();
    if (has_begun_) OutputRouting(host_, options_, {}).begin_guest_output(*host_.instance());
    return {};
  }

  Result<void> read_numbers() {
    using Look = job::RestartOption::NoProgress::Look;
    const auto restart = TRY(job::RestartOption::read(host_.options()));
    may_start_again_ = restart.is_on();
    if (restart.no_progress && restart.no_progress->look == Look::output) look_for(restart.no_progress->what);
    const auto slow = TRY(job::SlowWatchOption::read(host_.options()));
    if (slow && !slow->word.empty()) look_for(slow->word);
    return {};
  }

  void look_for(const std::string& word) {
    options_.is_looked_at = true;
    outputs_.numbers.try_emplace(word, word);
  }

  // Not called for a plan that is only printed: files are opened and emptied here, before any task of any shell
  // writes to them.
  Result<void> open_places() {
    std::vector<value::Idset::Id> ranks;
    for (const auto& task : host_.tasks()) {
      if (options_.prints(task->rank())) ranks.push_back(task->rank());
    }
    channels_.expect(ranks.size());
    OutputTarget::Callbacks callbacks;
    callbacks.on_room = [this] { go_on(); };
    callbacks.on_error = [this](OutputTarget& place, const Error& error) { report(place, error); };
    callbacks.on_spill = [this](const Error& error) {
      log(host_, *this, Level::warn, "{}: tasks wait for the reader instead", error.message);
    };
    places_.emplace(host_, options_, std::move(callbacks));
    if (options_.fold != Fold::off)
      CHECK_OK(fold_timer_.start(host_.loop(), [this](double time) { return places_->expire(time); }));
    CHECK_OK(places_->open(value::Idset::of(ranks)));
    err_taker_.emplace([this](std::string_view text) { return places_->take_err(text); });
    if (host_.bulk() == nullptr) come_out_.emplace(*places_);
    if (file_ != nullptr) places_->redirect_terminals(file_);
    for (const LogEntry& entry : std::exchange(early_, {})) places_->post_message(entry);
    static_cast<void>(places_->put_event(early_events_.take()));  // the job's end comes behind them
    places_->follow(follower_);  // before the other shells join: what they have sent already comes at once
    return host_.bulk() != nullptr ? join_others() : Result<void>();
  }

  Result<void> join_others() {
    if (host_.job().leads() && !host_.job().has_next_leader()) {
      come_out_.emplace(*places_);
      collect();
      collector_->look_for_closed();  // what this shell has written itself may have failed
      collector_->serve();            // what others have written meanwhile comes at once, and may fail
      return {};
    }
    read_size_ = kReadToSend;  // all of it goes to the leader's shell
    return host_.job().leads() ? lead() : Result<void>();
  }

  // The output of the other shells' tasks comes out here too.
  void collect() {
    OutputCollector::Callbacks callbacks;
    callbacks.on_put = [this] { fold_timer_.look_if_idle(); };
    callbacks.on_complete = [this](const value::Idset& ranks) { come_out_->complete(ranks); };
    callbacks.on_ended = [this] {
      ++closed_;
      release_flushed();
    };
    callbacks.on_error = [this](bulk::Id shell, const Error& error) {
      host_.raise({"exec", 0, fmt::format("shell {}: {}", shell, error.message), std::nullopt});
    };
    value::Idset others = host_.job().shells_that_came() - gone_;
    others.remove(host_.job().shell_rank);
    for (std::size_t i = 0; i < others.size(); ++i) hold();
    collector_.emplace(*host_.bulk(), host_.job(), *places_, others, std::move(callbacks));
  }

  // This shell has come to lead: output that has not come out at the former leader comes out here.
  Result<void> lead() {
    come_out_.emplace(*places_);
    collect();
    CHECK_OK(collector_->serve_in_place());
    if (file_ != nullptr) places_->redirect_terminals(file_);
    places_->follow(follower_);
    return {};
  }

  // The leaving shell is waited for only as long as others need its host.
  void left(const plugin::ShellLeft& change) {
    gone_.insert(change.shell);
    if (!collector_) return;
    if (!host_.job().taskmap.ranks_on(change.shell).empty() && !collector_->has_all_of(change.shell)) {
      log(host_, *this, Level::warn,
          "shell {} on {} has left before all had come that its tasks have written: the end of it may be missing",
          change.shell, change.host);
    }
    collector_->lost(change.shell);
  }

  // ---- a task ----------------------------------------------------------------

  Result<void> watch(const task::Task& task) {
    auto found = outputs_.tasks.find(task.rank());
    if (found == outputs_.tasks.end()) return {};
    for (OutputChannel& channel : found->second.channels) {
      channel.task_end.reset();
      if (!channel.assembler) continue;
      CHECK_OK(read_from(channel, channel.pty != nullptr ? channel.pty->master() : channel.pipe.get()));
    }
    return {};
  }

  Result<void> read_from(OutputChannel& channel, int fd) {
    auto poll = TRY(event::Poll::create(host_.loop(), fd, [this, &channel](int) { read_ready(channel); }));
    CHECK_OK(poll.start(event::Poll::kReadable));
    channel.poll = std::move(poll);
    channel.watched = fd;
    hold();
    return {};
  }

  void hold() {
    host_.hold(kOutputHold);
    ++held_;
  }

  // ---- a process that writes as a task does --------------------------------------

  Result<void> open_for_another(plugin::Call& call) {
    outputs_.others.remove_if([](const OutputChannel& each) { return !each.open(); });
    auto rank = call.in.value("rank", std::int64_t{-1});
    auto open_as = [&](const task::Task& task) -> Result<void> {
      for (io::Stream stream : io::kStreams) call.out[io::name_of(stream)] = TRY(join(task, stream)).release();
      return {};
    };
    for (const auto& task : host_.tasks()) {
      if (task->rank() == rank) return open_as(*task);
    }
    const task::Task task = TRY(task_elsewhere(host_.job(), rank));
    outputs_.tasks[task.rank()].has_written = true;
    return open_as(task);
  }

  // None if the stream's output is not wanted.
  Result<UniqueFd> join(const task::Task& task, io::Stream stream) {
    if (!options_.prints(task.rank()) || !places_) return UniqueFd();
    if (task.pty() != nullptr) stream = io::Stream::out;  // a terminal shows both as one
    if (TRY(places_->gives_file(task, stream))) return places_->open_for(task, stream, true);
    OutputChannel& main = outputs_.tasks[task.rank()].of(stream);
    OutputChannel& other = outputs_.others.emplace_back();
    auto opened = open_other(task, stream, other, main);
    if (!opened) outputs_.others.pop_back();
    return opened;
  }

  Result<UniqueFd> open_other(const task::Task& task, io::Stream stream, OutputChannel& other,
                              OutputChannel& main) {
    CHECK_OK(channels_.add_pipe(task, stream, other));
    other.source.is_part = true;
    CHECK_OK(read_from(other, other.pipe.get()));
    other.main = &main;
    ++main.others;
    return std::move(other.task_end);
  }

  // ---- while they run --------------------------------------------------------

  // Reads at most about as much as one read may bring, so that a task that never stops writing cannot starve the
  // others.
  //
  // A task that often writes a little would cost a turn of the loop for each piece, and would itself be held up, as
  // each write wakes this process. So its output is left in its pipe for a moment.
  void read_ready(OutputChannel& channel) {
    constexpr double kQuick = 100e-6;  // seconds
    constexpr int kMost = 8;
    const double before = channel.last_read();
    std::size_t all = 0;
    std::size_t got = 0;
    do {
      got = read_some(channel);
      look_at_places(channel);
      all += got;
    } while (got >= kLittle && all < read_size_ && reads(channel));
    if (!reads(channel) || all == 0) return;
    const bool is_quick = all < kLittle && channel.last_read() - before < kQuick;
    channel.quick_reads = is_quick ? std::min(channel.quick_reads + 1, kMost) : 0;
    if (channel.quick_reads == kMost && channel.may_rest && rest(channel)) channel.poll->stop();
  }

  static bool reads(const OutputChannel& channel) { return channel.open() && !channel.paused; }

  // The channel is not watched, but read after a moment. False: there is no timer.
  bool rest(OutputChannel& channel) {
    constexpr event::Seconds kRest(200e-6);
    if (!rest_timer_) {
      auto timer = event::FineTimer::create(host_.loop(), [this] { end_rests(); });
      if (!timer) return false;
      rest_timer_ = *std::move(timer);
    }
    if (resting_.empty()) rest_timer_->start(kRest);
    resting_.push_back(&channel);
    return true;
  }

  // If much has come this process does not rest: it has as much to do as the task.
  void end_rests() {
    constexpr std::size_t kMuch = std::size_t{64} << 10;  // bytes
    for (OutputChannel* each : std::exchange(resting_, {})) {
      if (!reads(*each)) continue;  // go_on() will watch it
      const std::size_t got = read_some(*each);
      look_at_places(*each);
      if (!reads(*each)) continue;
      if (got < kLittle || got > kMuch || !rest(*each)) watch_again(*each);
    }
  }

  void watch_again(OutputChannel& channel) {
    Result<void> started = channel.poll->start(event::Poll::kReadable);
    if (!started) log(host_, *this, Level::error, "{}", started.error().message);
  }

  // Returns how many bytes there were.
  std::size_t read_some(OutputChannel& channel) {
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(kReadSize);
    ssize_t got = ::read(channel.watched, buffer_.get(), read_size_);
    while (got < 0 && errno == EINTR) got = ::read(channel.watched, buffer_.get(), read_size_);
    if (got < 0 && errno == EAGAIN) return 0;
    if (got <= 0) {  // EIO: no process has the other end of the pty open
      close(channel);
      return 0;
    }
    std::string_view bytes(buffer_.get(), static_cast<std::size_t>(got));
    outputs_.note_first(channel, host_.timeline());
    double now = event::wall_clock();
    channel.note(bytes, host_.tasks().size(), now);
    if (channel.main == nullptr) {
      for (auto& [word, numbers] : outputs_.numbers)
        numbers.add(channel.source.rank, channel.source.stream, bytes, now);
    }
    channel.assembler->add(bytes, now, [&](const io::Batch& batch) { put(channel, batch); });
    return bytes.size();
  }

  void put(const OutputChannel& channel, const io::Batch& batch) {
    for (OutputTarget* place : channel.places) place->put(batch);
    fold_timer_.look_if_idle();
  }

  void look_at_places(OutputChannel& channel) {
    if (!channel.open()) return;
    const auto& places = channel.places;
    // If the reader has gone, tasks are treated as by the kernel: their next write gets EPIPE.
    if (std::all_of(places.begin(), places.end(), [](auto* place) { return place->failed(); }))
      return close(channel);
    channel.paused = std::any_of(places.begin(), places.end(), [](auto* place) { return place->full(); });
    if (channel.paused) channel.poll->stop();
  }

  void go_on() {  // a place has room again, or has failed
    outputs_.for_each_open([this](OutputChannel& channel) {
      if (!std::exchange(channel.paused, false)) return;
      if (std::find(resting_.begin(), resting_.end(), &channel) == resting_.end()) watch_again(channel);
      look_at_places(channel);
    });
    if (collector_) collector_->go_on();
    release_flushed();
  }

  // A task has ended: all that it wrote is in its pipes now. Its children may hold the pipes open, and write on.
  Result<void> task_exited(const task::Task& task) {
    TaskStreams& output = outputs_.tasks[task.rank()];
    read_pipes(output);
    for (OutputChannel& channel : output.channels) {
      if (!channel.open()) continue;
      channel.assembler->put_lines(event::wall_clock(), [&](const io::Batch& batch) { put(channel, batch); });
      if (task.is_given_up()) close(channel);
    }
    if (!task.starts_again() && outputs_.end_for_good(task, event::wall_clock())) complete(task.rank());
    return {};
  }

  void read_pipes(TaskStreams& output) {
    for (OutputChannel& channel : output.channels) {
      if (!channel.open()) continue;
      read_pipe(channel);
      look_at_places(channel);
    }
  }

  // Reads what is in the pipe now, even while its places are full.
  void read_pipe(OutputChannel& channel) {
    auto left = std::max<std::int64_t>(::fcntl(channel.watched, F_GETPIPE_SZ), kUsualPipe);
    for (; left >= 0 && channel.open() && read_some(channel) > 0;) left -= static_cast<std::int64_t>(read_size_);
  }

  // A task has failed, and its streams have ended.
  void complete(std::uint32_t rank) {
    if (come_out_) return come_out_->complete(value::Idset::range(rank, rank));
    if (places_) places_->post_complete(rank);
  }

  // ---- at the end ------------------------------------------------------------

  void close(OutputChannel& channel) {
    std::erase(resting_, &channel);
    channel.poll.reset();
    channel.watched = -1;
    channel.pipe.reset();
    if (channel.pty != nullptr) channel.pty->hang_up();
    double now = event::wall_clock();
    channel.assembler->end(now, [&](const io::Batch& batch) { put(channel, batch); });
    outputs_.end_source(channel, now);
    if (outputs_.tasks.at(channel.source.rank).is_complete()) complete(channel.source.rank);
    ++closed_;
    release_flushed();
  }

  // Written output may still be on its way out.
  void release_flushed() {
    if (places_ && !places_->flushed()) return;
    for (; closed_ > 0; --closed_, --held_) {
      Result<void> released = host_.release(kOutputHold);
      if (!released) log(host_, *this, Level::error, "{}", released.error().message);
    }
    if (finishes_ && held_ == 0 && follower_ != nullptr) std::exchange(follower_, nullptr)->all_out();
  }

  // Processes that tasks have left behind are ended now.
  Result<void> await_ends() {
    finishes_ = true;
    for (std::uint32_t rank : outputs_.end_all_for_good(host_.tasks(), event::wall_clock())) complete(rank);
    release_flushed();
    if (options_.drain_timeout >= kForever) return {};
    drain_timer_ = TRY(event::Timer::create(host_.loop(), [this] { give_up(); }));
    drain_timer_->unref();
    drain_timer_->start_grace(event::Seconds(options_.drain_timeout));
    return {};
  }

  // Lets out what was written until now. A plugin that has made a pipe of its own waits for its process.
  void give_up() {
    outputs_.for_each_of_tasks([this](OutputChannel& channel) {
      read_pipe(channel);
      if (!channel.open()) return;  // nobody has it open any more
      log(host_, *this, Level::warn, "task {}: its {} is held open by a process that it left; it is not waited for",
          channel.source.rank, io::name_of(channel.source.stream));
      close(channel);
    });
  }

  void report(const OutputTarget& place, const Error& error) {
    if (collector_) collector_->look_for_closed();
    if (error.code == EPIPE) return log(host_, *this, Level::debug, "{}", error.message);
    std::uint64_t written = place.destination().sink().written();
    std::string message = fmt::format("output: {}; {} bytes had been written", error.message, written);
    host_.raise({"exec", 0, message, hangup_behind(error)});
  }

  plugin::Host& host_;
  const pid_t shell_ = ::getpid();
  OutputOptions options_;
  std::optional<OutputRouting> places_;
  ChannelMaker channels_{host_, options_, places_};
  value::Idset gone_;                         // shells
  std::optional<OutputCollector> collector_;  // on the leader of several shells
  std::optional<OutputComeOut> come_out_;     // on the leader
  std::size_t read_size_ = kReadSize;         // bytes
  OutputChannels outputs_;
  std::vector<OutputChannel*> resting_;         // are read when rest_timer_ is due, and not watched until then
  std::optional<event::FineTimer> rest_timer_;  // none: nothing has rested yet
  std::unique_ptr<char[]> buffer_;              // not cleared: a task that writes little costs few pages
  std::vector<LogEntry> early_;                 // messages until places are open
  bool has_begun_ = false;                      // whether the instance's store has the beginning of the output
  int closed_ = 0;                              // channels whose holds remain until all is flushed
  int held_ = 0;                                // holds
  bool may_start_again_ = false;  // tasks may; until they have ended for good their streams are not over
  bool finishes_ = false;         // the tasks of this shell have ended
  plugin::OutputFollower* follower_ = nullptr;  // until all is out
  plugin::OutputFile* file_ = nullptr;
  FoldTimer fold_timer_;
  EarlyEvents early_events_;
  std::optional<event::Timer> drain_timer_;
  std::optional<ErrTaker> err_taker_;
};

}  // namespace

PluginPtr make_output(plugin::Host& host) { return std::make_unique<Output>(host); }

}  // namespace nacre::plugins
