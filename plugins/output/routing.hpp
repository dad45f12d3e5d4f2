// SPDX-License-Identifier: Apache-2.0
//
// All places on this node at which a job's output comes out, for the plugin `output`: it makes them by the options
// and templates, and finds those to which a task's stream goes.
#pragma once

#include <unistd.h>

#include "broker/kvs.hpp"
#include "bulk/port.hpp"
#include "event/loop.hpp"
#include "io/batch.hpp"
#include "io/folder.hpp"
#include "io/largest_number.hpp"
#include "io/sink.hpp"
#include "plugin/host.hpp"
#include "plugins/output/options.hpp"
#include "task/pty.hpp"
#include "task/task.hpp"
#include "timeline/recorder.hpp"

namespace nacre::plugins {

// Output that nobody takes any more. The leader sends all shells one byte for the stream, see doc/protocol.md,
// "Channels".

[[nodiscard]] inline std::string closing(io::Stream stream) { return {static_cast<char>(stream)}; }

// None: this is no such record.
[[nodiscard]] inline std::optional<io::Stream> closed_stream(std::string_view record) {
  for (io::Stream stream : io::kStreams) {
    if (record == closing(stream)) return stream;
  }
  return std::nullopt;
}

// SIGHUP if the shell's own output is a terminal that has hung up: the error may be seen before the signal comes.
// (ioctl_tty(2) on such a terminal fails with EIO, and not with ENOTTY.)
[[nodiscard]] inline std::optional<value::WaitStatus> hangup_behind(const Error& error) {
  auto has_hung_up = [](int fd) { return ::isatty(fd) == 0 && errno == EIO; };
  bool hung_up = error.code == EIO && (has_hung_up(STDOUT_FILENO) || has_hung_up(STDERR_FILENO));
  return hung_up ? std::optional(value::WaitStatus::killed(SIGHUP)) : std::nullopt;
}

// The last bytes that a task has written, for the report of its failure.
class OutputTail {
 public:
  // `time`: when they were read, seconds since the Epoch.
  void add(std::string_view bytes, std::size_t most, double time) {
    all_ += bytes.size();
    last_time_ = time;
    if (bytes.size() >= most) return void(kept_ = bytes.substr(bytes.size() - most));
    kept_ += bytes;
    if (kept_.size() > 2 * most) kept_.erase(0, kept_.size() - most);
  }
  // Returns at most `most` bytes.
  [[nodiscard]] std::string_view last(std::size_t most) const {
    std::string_view kept = kept_;
    return kept.substr(kept.size() - std::min(kept.size(), most));
  }
  [[nodiscard]] std::uint64_t size() const { return all_; }      // all bytes that the task has written
  [[nodiscard]] double last_time() const { return last_time_; }  // of the last of them; 0: there are none

 private:
  std::string kept_;
  std::uint64_t all_ = 0;
  double last_time_ = 0;
};

// How many bytes are kept of a stream, if the shell has `tasks` tasks.
[[nodiscard]] constexpr std::size_t tail_size(io::Stream stream, std::size_t tasks) {
  constexpr std::size_t kManyTasks = 256;
  return stream == io::Stream::err && tasks <= kManyTasks ? 4096 : 1024;
}

// The way of this shell's output to the leader's shell, for the plugin `output`: it is sent in pieces of at most a
// bulk record, which wait here while there is no room.
class OutputUplink : Noncopyable {
 public:
  static constexpr std::size_t kQueue = std::size_t{1} << 20;  // it is full when so many bytes wait

  struct Callbacks {
    std::function<void()> on_room;                                // it is no longer full, or all has been sent
    std::function<void(io::Stream, const Error& why)> on_closed;  // what is written to that stream is not taken any
                                                                  // more
  };

  // It serves `port`, which has to outlive it.
  OutputUplink(bulk::Port& port, Callbacks callbacks);

  // Each write to one of these sinks has to be one record of io::WireFormat. The sinks must not outlive this
  // object.
  std::unique_ptr<io::Sink> sink(io::Stream stream);

  void put(std::span<const std::string_view> record);
  // Another shell may come to lead, and may begin with any record: so each message is within one record.
  void keep_whole() { keeps_whole_ = true; }
  [[nodiscard]] bool keeps_whole() const { return keeps_whole_; }
  using Take = std::function<void(bulk::Id shell, bulk::Numbered number, std::string_view bytes)>;
  // This shell, `self`, has come to lead: `take` gets what all shells put, this one included; `on_room` as for a
  // broadcast.
  void lead(bulk::Id self, Take take, std::function<void()> on_room);
  [[nodiscard]] bool full() const { return queued_ >= kQueue; }
  // Its own records have also come back to a new leader: they may wait behind an entry of the log.
  [[nodiscard]] bool flushed() const { return queue_.empty() && (!way_back_ || way_back_->is_over()); }
  [[nodiscard]] const std::optional<Error>& failure(io::Stream stream) const {
    return failures_.at(static_cast<std::size_t>(stream));
  }

 private:
  // For a shell that has come to lead: its own records that `take` does not have yet. The former leader may have
  // what it put before, so records are counted from a marked record on.
  struct WayBack {
    static constexpr std::string_view kBegins = "leads";
    std::size_t before = 0;  // records of the queue that are put before they count, the marked one among them
    std::size_t count = 0;
    bool has_begun = false;  // the marked record is back
    [[nodiscard]] bool is_over() const { return has_begun && count == 0; }
  };

  void append(std::string_view bytes);
  void send();
  void came_back(bulk::Numbered number, std::string_view bytes, const Take& take, bulk::Id self);
  void fail(io::Stream stream, const Error& why);
  [[nodiscard]] bulk::Port::Upward upward();
  [[nodiscard]] bulk::Port::Downward downward();

  bulk::Port& port_;
  Callbacks callbacks_;
  bool keeps_whole_ = false;
  std::deque<std::string> queue_;  // each at most a bulk record
  std::size_t queued_ = 0;         // bytes in it
  std::optional<WayBack> way_back_;
  std::array<std::optional<Error>, io::kStreams.size()> failures_;
};

// One place where output comes out, for the plugin `output`: a terminal or pipe of the shell, a file, or an
// eventlog; or the way to the leader's shell, which has these.
class OutputTarget : Noncopyable {
 public:
  struct Options {
    std::string name;  // for messages: "stdout", a path
    io::FormatOptions format;
    io::FdSink::Options sink;
    std::optional<std::uint64_t> limit;  // bytes of each stream
    Fold fold = Fold::off;
    io::Folder::Names names = {};  // of those that wrote a folded line
    std::size_t most = SIZE_MAX;   // bytes of a batch; a longer one is cut
  };
  struct Callbacks {
    std::function<void()> on_room;                              // it is no longer full, or all has come out
    std::function<void(OutputTarget&, const Error&)> on_error;  // called once; all later output is dropped
    std::function<void(const Error&)> on_spill;                 // it cannot spill
  };

  // `own` may be `fd`; otherwise the caller keeps `fd`. The callbacks may be called until this is destroyed, and
  // must not destroy it.
  static Result<std::unique_ptr<OutputTarget>> create(event::Loop& loop, int fd, UniqueFd own, Options options,
                                                      Callbacks callbacks);
  // An eventlog in the store of the instance.
  static std::unique_ptr<OutputTarget> create(broker::EventlogWriter& store, Options options, Callbacks callbacks);
  // The way to the leader's shell. `uplink` has to outlive it; the uplink's owner reports room to it, and calls
  // fail().
  static std::unique_ptr<OutputTarget> create(OutputUplink& uplink, io::Stream stream, Callbacks callbacks);

  // Sets how many sources each stream will have. Has to come before the first put().
  void expect(std::size_t sources);
  void put(const io::Batch& batch);
  // Receives what is put here from now on, before it is folded and cut; null: nobody does.
  void follow(plugin::OutputFollower* follower) { follower_ = follower; }
  // See plugin::TaskOutput::redirect(); for a terminal or pipe of the shell.
  void redirect(plugin::OutputFile* to);
  void end(const io::Source& source, double time);
  // Writes text in the place's own form.
  void write(std::string_view text);
  // Lets out folded lines that have waited long enough; returns when to call it next (none: no line waits).
  std::optional<double> expire(double time);

  void fail(const Error& why) { note(why); }

  [[nodiscard]] const std::string& name() const { return options_.name; }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool full() const {
    return !failed_ && (destination_->sink().full() || (follower_ != nullptr && follower_->full()));
  }
  [[nodiscard]] bool flushed() const { return failed_ || destination_->sink().flushed(); }
  [[nodiscard]] const io::Destination& destination() const { return *destination_; }

 private:
  OutputTarget(UniqueFd own, Options options, Callbacks callbacks)
      : own_(std::move(own)), options_(std::move(options)), callbacks_(std::move(callbacks)) {}

  void put_in_parts(const io::Batch& batch);
  void note(Result<void> result);
  io::FdSink::AfterError after_error(const Error& why, std::size_t bytes);

  UniqueFd own_;
  Options options_;
  Callbacks callbacks_;
  std::unique_ptr<io::Destination> destination_;
  std::optional<io::Folder> folder_;
  broker::EventlogWriter::Listener listener_;
  io::FdSink* sink_ = nullptr;  // the destination's, if it is one
  plugin::OutputFile* file_ = nullptr;
  bool is_redirected_ = false;
  plugin::OutputFollower* follower_ = nullptr;
  bool failed_ = false;
};

// What the plugin `output` keeps of each stream that it reads.

// One stream of one task, or of a process that writes as the task does.
struct OutputChannel {
  io::Source source;
  std::vector<OutputTarget*> places;
  std::optional<io::Assembler> assembler;
  UniqueFd task_end;         // until the task has it
  UniqueFd pipe;             // our end; none for a pty
  task::Pty* pty = nullptr;  // instead of a pipe
  int watched = -1;          // the descriptor that is read, as long as it is open
  std::optional<event::Poll> poll;
  // The task has a file of its own, and writes there from this offset on; nothing is read.
  std::optional<off_t> own_from = std::nullopt;
  bool paused = false;
  bool may_rest = false;          // its pipe holds all that comes within a rest
  int quick_reads = 0;            // in succession
  OutputChannel* main = nullptr;  // for a process that writes as a task does: the task's own channel
  int others = 0;                 // for a task: open channels of such processes
  bool ended = false;             // for a task: nothing more comes
  bool is_told = false;           // to the places, that it has ended
  OutputTail tail;                // for a task: with the output of such processes

  [[nodiscard]] bool open() const { return watched >= 0; }
  // When something was last read of it, seconds since the Epoch; 0: never.
  [[nodiscard]] double last_read() const { return (main != nullptr ? main->tail : tail).last_time(); }
  // For a shell with `tasks` tasks; `time`: when it was read, seconds since the Epoch.
  void note(std::string_view bytes, std::size_t tasks, double time) {
    if (pty != nullptr) pty->note(bytes);
    (main != nullptr ? main->tail : tail).add(bytes, tail_size(source.stream, tasks), time);
  }
};

// The streams of one task.
struct TaskStreams {
  std::array<OutputChannel, io::kStreams.size()> channels;
  bool failed = false;       // the task has ended with a failure
  bool has_written = false;  // the timeline has noted that
  bool is_last = true;       // the task has ended for good, or nobody would start it again

  [[nodiscard]] OutputChannel& of(io::Stream stream) { return channels.at(static_cast<std::size_t>(stream)); }
  [[nodiscard]] bool is_complete() const {
    return failed && std::none_of(channels.begin(), channels.end(),
                                  [](const OutputChannel& each) { return each.open() || each.others > 0; });
  }
};

// The largest number that each task has written behind a word, in all its starts.
class TaskNumbers {
 public:
  explicit TaskNumbers(std::string word) : word_(std::move(word)) {}

  // `now`: seconds since the Epoch.
  void add(std::uint32_t rank, io::Stream stream, std::string_view bytes, double now) {
    of_.try_emplace({rank, stream}, word_).first->second.add(bytes);
    note(rank, now);
  }
  void end_lines(std::uint32_t rank, double now) {
    for (io::Stream stream : io::kStreams) {
      if (auto found = of_.find({rank, stream}); found != of_.end()) found->second.end_line();
    }
    note(rank, now);
  }
  [[nodiscard]] std::optional<plugin::TaskOutput::Number> largest(std::uint32_t rank) const {
    auto found = largest_.find(rank);
    return found != largest_.end() ? std::optional(found->second) : std::nullopt;
  }

 private:
  void note(std::uint32_t rank, double now) {
    std::optional<double> value;
    for (io::Stream stream : io::kStreams) {
      auto found = of_.find({rank, stream});
      if (found != of_.end()) value = std::max(value, found->second.value());
    }
    if (!value) return;
    auto [number, is_new] = largest_.try_emplace(rank, plugin::TaskOutput::Number{*value, now, 0});
    if (!is_new && number->second.value < *value) number->second = {*value, now, now - number->second.grown};
  }

  std::string word_;
  std::map<std::pair<std::uint32_t, io::Stream>, io::LargestNumber> of_;
  std::map<std::uint32_t, plugin::TaskOutput::Number> largest_;  // by rank
};

// All that this shell reads.
struct OutputChannels {
  std::map<std::uint32_t, TaskStreams> tasks;  // by rank
  std::list<OutputChannel> others;             // of processes that write as a task does
  // For tasks that were started again: processes that they have left behind may still write.
  std::vector<std::map<std::uint32_t, TaskStreams>::node_type> earlier;
  std::map<std::string, TaskNumbers, std::less<>> numbers;  // by the words that the options name

  // The streams of a task that is about to start, perhaps again.
  TaskStreams& begin(const task::Task& task, bool may_start_again);
  // Nothing more comes from a channel. A task's stream is over when no process writes as the task any more, and it
  // does not start again.
  void end_source(OutputChannel& channel, double now);
  // The task does not start again. Returns whether it has failed and its streams are over.
  bool end_for_good(const task::Task& task, double now);
  // Tasks with other ranks than these do not start again here, as the job has other ranks now.
  void end_former(std::span<const std::unique_ptr<task::Task>> all, double now);
  // The same for all that were to start again; returns the ranks of tasks that have failed and whose streams are
  // over.
  std::vector<std::uint32_t> end_all_for_good(std::span<const std::unique_ptr<task::Task>> all, double now);

  // There is something to read from it.
  void note_first(const OutputChannel& channel, timeline::Recorder& recorder) {
    if (!recorder.is_on() || std::exchange(tasks.at(channel.source.rank).has_written, true)) return;
    recorder.add(timeline::Kind::first_output, channel.source.rank);
  }

  // On a terminal all output counts as standard output.
  [[nodiscard]] plugin::TaskOutput::Written written(std::uint32_t rank) const {
    auto found = tasks.find(rank);
    if (found == tasks.end()) return {};
    const auto& [out, err] = found->second.channels;
    auto bytes = [](const OutputChannel& each) {
      return each.assembler ? std::optional(each.tail.size()) : std::nullopt;
    };
    return {bytes(out), out.pty != nullptr ? std::optional<std::uint64_t>(0) : bytes(err),
            std::max(out.tail.last_time(), err.tail.last_time())};
  }

  // `what` may close channels.
  template <typename Do>
  void for_each_open(Do what) {
    for_each_of_tasks(what);
    for (OutputChannel& channel : others) {
      if (channel.open()) what(channel);
    }
  }
  // As for_each(), without channels that other processes got from plugins.
  template <typename Do>
  void for_each_of_tasks(Do what) {
    auto look = [&what](TaskStreams& output) {
      for (OutputChannel& channel : output.channels) {
        if (channel.open()) what(channel);
      }
    };
    for (auto& [rank, output] : tasks) look(output);
    for (auto& each : earlier) look(each.mapped());
  }

 private:
  TaskStreams& renew(std::uint32_t rank);
  void end_if_over(OutputChannel& main, double now);
  static void tell_end(OutputChannel& channel, double now);
};

class OutputRouting {
 public:
  OutputRouting(plugin::Host& host, const OutputOptions& options, OutputTarget::Callbacks callbacks)
      : host_(host),
        options_(options),
        callbacks_(std::move(callbacks)),
        files_(options.append, options.makes_directories) {}

  // Leader, before others may watch for it: writes the beginning of guest.output.
  void begin_guest_output(broker::Instance& instance) const;
  void add_to_guest_output(broker::Instance& instance, const LogEntry& entry) const;
  // Opens all places that the options name, so that errors are found before any task runs. `ranks`: the tasks whose
  // output is wanted.
  Result<void> open(const value::Idset& ranks);

  // This shell has come to lead: opens the places that all shells share, whose files were begun already. What this
  // shell's own tasks write still goes by the uplink; `take` and `on_room` are for that, see OutputUplink::lead().
  Result<void> lead(std::function<void(bulk::Id, bulk::Numbered, std::string_view)> take,
                    std::function<void()> on_room);
  // After open(): `follower` also receives what comes out at the terminals; null: nobody does.
  void follow(plugin::OutputFollower* follower);
  // After open(): see plugin::TaskOutput::redirect().
  void redirect_terminals(plugin::OutputFile* to);

  // Whether a task gets a file of its own as its stream, and writes to it directly; never a FIFO or a device, as
  // its reader may be slow and it keeps nothing for the report. A task does not get the job's file, even if it is
  // the only task: it is faster if task and shell both work.
  Result<bool> gives_file(const task::Task& task, io::Stream stream) const;
  // Opens that file for the task, unless open() has done so. A process that `joins` a task does not begin a new
  // line.
  Result<UniqueFd> open_for(const task::Task& task, io::Stream stream, bool joins = false);
  // The last bytes that a task has written: read from that file, or kept when they were read.
  [[nodiscard]] std::string last_of(const task::Task& task, io::Stream stream, TaskStreams& read) const;
  // Leader: the places to which this stream of the tasks of all shells goes.
  [[nodiscard]] const std::vector<OutputTarget*>& collected(io::Stream stream) const {
    return shared(stream).places;
  }
  // Writes a line to the job's eventlog, if there is one; on any shell. A message of a shell also goes to the file
  // of the tasks' standard error, if they share one.
  void post_line(std::string_view line);
  // From now on, in an instance of Flux, shells other than the leader's write the eventlog themselves: the leader
  // has all that came by it.
  void leader_has_all() { is_late_ = true; }
  // The same for a message of this shell.
  void post_message(const LogEntry& entry);
  // The places to which a task's stream goes. They live as long as this object.
  Result<std::vector<OutputTarget*>> of(const task::Task& task, io::Stream stream);

  // As an ErrTaker: takes a text if output of tasks is on its way to standard error.
  [[nodiscard]] bool take_err(std::string_view text);
  // On the leader: writes a line of JSON behind what was put at standard output so far, with `output.events`.
  // Returns whether all has come out.
  [[nodiscard]] bool put_event(std::string_view line);
  // Called for another shell's task: the task has failed, and its streams have ended.
  void post_complete(std::uint32_t rank);
  [[nodiscard]] bool flushed() const;
  [[nodiscard]] bool may_have_another_leader() const {
    return job::OnLeaderLost::read(host_.options()).value_or(job::OnLeaderLost{}).takes_over;
  }
  // Leader: what other shells have put stays theirs until it has come out, so that another leader can get it.
  // Spilled or dropped output is not waited for.
  [[nodiscard]] bool keeps_until_out() const {
    return may_have_another_leader() && options_.overflow == io::Overflow::block;
  }
  // For each place, how much it has to have written until all that it has taken so far has come out.
  using Marks = std::vector<std::pair<const OutputTarget*, std::uint64_t>>;
  [[nodiscard]] Marks marks() const;
  [[nodiscard]] static bool has_passed(const Marks& marks);
  // Lets out folded lines that have waited until `time`; returns the earliest time for the next call.
  std::optional<double> expire(double time);
  // Logs how much was cut and dropped.
  void log_losses() const;

 private:
  void keep_earlier(const task::Task& task, const std::string& path);
  Result<void> choose_direct();
  Result<std::string> why_not_direct(io::Stream stream) const;
  struct Shared {  // for one stream: the places that all shells share, at the leader
    bool file = false;
    std::vector<OutputTarget*> places;     // on the leader: these places
    std::unique_ptr<OutputTarget> remote;  // on another shell: the way to them
  };

  [[nodiscard]] Shared& shared(io::Stream stream) { return shared_.at(static_cast<std::size_t>(stream)); }
  [[nodiscard]] const Shared& shared(io::Stream stream) const {
    return shared_.at(static_cast<std::size_t>(stream));
  }
  [[nodiscard]] bool is_remote() const { return host_.bulk() != nullptr && host_.job().shell_rank != 0; }
  [[nodiscard]] value::Idset writers() const;
  Result<void> open_shared(io::Stream stream);
  Result<void> open_file(io::Stream stream);
  Result<void> open_of_tasks(io::Stream stream);
  void open_uplink();
  [[nodiscard]] const StreamOptions& of(io::Stream stream) const {
    return options_.streams.at(static_cast<std::size_t>(stream));
  }
  Result<void> open_terminal(io::Stream stream);
  [[nodiscard]] bool one_terminal() const;
  Result<void> open_eventlog();
  [[nodiscard]] OutputTarget* terminal(io::Stream stream) const;
  Result<OutputTarget*> file(io::Stream stream, const std::string& path, const value::Idset& writers);
  [[nodiscard]] OutputTarget::Options place_options(io::Stream stream, std::string name) const;
  // The hosts of these tasks, as "n[0-3]".
  [[nodiscard]] std::string hosts_of(const std::vector<std::uint32_t>& ranks) const;
  [[nodiscard]] io::FdSink::Options sink_options() const;
  [[nodiscard]] value::Idset wanted() const;  // the tasks of all shells whose output comes out somewhere
  void post(std::string_view event, const Json& context);
  void write_message(std::string_view line);
  void redirect(io::Stream stream, const value::Idset& ranks, const std::string& path);
  void post_redirect(io::Stream stream, const value::Idset& ranks, const std::string& path);
  [[nodiscard]] std::vector<OutputTarget*> all() const;

  plugin::Host& host_;
  const OutputOptions& options_;
  OutputTarget::Callbacks callbacks_;
  OutputFiles files_;
  value::Idset ranks_;
  std::optional<OutputUplink> uplink_;  // on a shell that is not the leader
  bool leads_ = false;                  // this one has come to lead
  bool is_late_ = false;                // the leader has all that came by this shell's way
  std::array<Shared, io::kStreams.size()> shared_;
  std::array<bool, io::kStreams.size()> direct_{};  // tasks get their own files, if these are regular
  OutputTarget* messages_ = nullptr;  // the file of standard error that tasks share: that of the job, or of this
                                      // shell
  // stderr's may be the same as stdout's
  std::array<std::unique_ptr<OutputTarget>, io::kStreams.size()> terminals_;
  std::map<std::string, std::unique_ptr<OutputTarget>> file_places_;  // by path
  std::map<std::pair<std::uint32_t, io::Stream>, UniqueFd> own_;      // by rank: of tasks, until they have them
  std::set<std::pair<std::string, io::Stream>> redirected_;  // by path: files that the eventlog has been told of
  std::unique_ptr<OutputTarget> eventlog_;
};

// Makes the channels to which tasks write, before the tasks start, for the plugin `output`.

// Stands for a task of another shell, if processes of this shell write as that task. Its own file was begun on that
// shell, so this one counts as a task that starts again.
Result<task::Task> task_elsewhere(const job::Job& job, std::int64_t rank);

class ChannelMaker {
 public:
  // All have to outlive it. `places` may be empty, if the plan is only printed.
  ChannelMaker(plugin::Host& host, const OutputOptions& options, std::optional<OutputRouting>& places)
      : host_(host), options_(options), places_(places) {}

  // Sets how many tasks of this shell have their output read: their pipes share what the system allows one user.
  void expect(std::size_t tasks) { printed_ = tasks; }
  // Makes what the task gets as stdout and stderr: pipes of `output`, files of its own, or /dev/null; or makes its
  // terminal's output be read.
  Result<void> prepare(task::Task& task, TaskStreams& output);
  // Makes a pipe for a process that writes as the task does.
  Result<void> add_pipe(const task::Task& task, io::Stream stream, OutputChannel& channel) const;

 private:
  Result<void> prepare_pty(const task::Task& task, TaskStreams& output) const;
  Result<void> make(const task::Task& task, io::Stream stream, OutputChannel& channel) const;
  [[nodiscard]] io::Buffering buffering(io::Stream stream) const;

  plugin::Host& host_;
  const OutputOptions& options_;
  std::optional<OutputRouting>& places_;
  std::size_t printed_ = 0;
};

// Where bytes that are not taken yet are kept on disk.

// The job's temporary directory, or /tmp if it has none.
inline std::string spill_directory(plugin::Host& host) {
  auto directory = host.environment().get("NACRE_JOB_TMPDIR");
  return directory && !directory->empty() ? std::string(*directory) : "/tmp";
}

}  // namespace nacre::plugins
