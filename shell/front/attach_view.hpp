// SPDX-License-Identifier: Apache-2.0
//
// AttachView shows a job that runs, as `nacre attach` does, over a link to its leader; AttachInput owns the job's
// standard input meanwhile.
#pragma once

#include "control/client.hpp"
#include "event/loop.hpp"
#include "front/launch_run.hpp"
#include "io/batch.hpp"
#include "io/sink.hpp"
#include "launch/stream.hpp"

namespace nacre::front {

// ---- attach input -----------------------------------------------------------------------
//
// What `nacre attach --input` does besides showing output: it owns the job's standard input and sends its own
// there, and its keys do what those of `nacre run` do.

class AttachInput : Noncopyable {
 public:
  struct Callbacks {
    std::function<void()> on_own;   // the leader has accepted: this process is the owner
    std::function<void()> on_sent;  // there may be something to send
    std::function<void(const Error&)> on_error;
    // A line of this program's own; `context`: of the event `input`.
    std::function<void(const std::string& text, const Json& context)> on_notice;
  };

  // Asks for the input. `client` has to outlive this object. None of the callbacks may destroy it.
  AttachInput(event::Loop& loop, control::Client& client, bool takes, Callbacks callbacks);
  // For the process that has started the job: it goes on where the next leader says. `followed` has a tail.
  AttachInput(event::Loop& loop, control::Client& client, const FollowedInput& followed, Callbacks callbacks);

  // An answer to any request of the link; answers to other requests are ignored.
  void take(const control::Answer& answer);
  // The leader may have given credit.
  void go_on();

  // Another process has taken the input: from now on this one only watches.
  [[nodiscard]] bool is_taken() const { return is_taken_; }

  // SIGINT: passed on to the tasks; a second one soon after it ends the job, a third one kills the tasks.
  void interrupt();
  // SIGTSTP. True: this process leaves the job.
  bool stop();

 private:
  void begin(const Json& answer);
  void go_on_at(std::uint64_t at);
  void send_tail();
  void open_reader(int input);
  void report_interrupt(const Json& status);
  void taken(const std::string& by);

  event::Loop& loop_;
  control::Client& client_;
  Callbacks callbacks_;
  std::unique_ptr<launch::InputReader> reader_;
  FollowedInput followed_;
  std::optional<std::uint64_t> sent_;  // of the tail, while it is sent
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

class AttachView : Noncopyable {
 public:
  struct Options {
    Json request;                 // the arguments of `attach`
    event::Loop* loop = nullptr;  // to run on, of the caller; null: one of its own
    bool json = false;            // lines of JSON, all to standard output
    bool label = false;           // the rank before each line
    bool tells_before = false;    // a line about earlier output that is not shown
    bool quiet = false;
    enum class Input { none, own, take } input = Input::none;  // of the job
    // This process has started the job: signals are for its tasks, the shells' messages come out here, and no
    // output is missed. The leader takes the end of this process for that of the job's launcher.
    bool follows = false;
    FollowedInput followed = {};  // of this process's input then
    // Likewise: this process has let a shell lead, which goes on without these for good; more is added.
    value::Idset* without = nullptr;
    // Likewise: more of one of the leader's reports.
    std::function<void(std::string_view report, std::string_view text)> on_report = {};
  };
  enum class How { ended, left, link_lost };
  struct End {
    How how = How::link_lost;
    int code = 0;             // of the job, if it has ended
    bool has_all = false;     // all output of the job has come
    std::string report = {};  // with `follows`: what the shells would have printed at the end
  };

  static Result<std::unique_ptr<AttachView>> create(control::Client client, Options options);

  // An error: the leader has refused, or standard output cannot be written to.
  Result<End> run();
  // A line of this program's own; `event`: the same for --json.
  void notice(const std::string& text, std::string_view event, const Json& context);

 private:
  AttachView(control::Client client, Options options) : client_(std::move(client)), options_(std::move(options)) {}

  Result<void> open();
  Result<void> watch_signals();
  Result<void> pass_signals();
  void pass(int signum);
  void open_input();
  void begin_view();
  Result<void> open_sink(int fd, const std::string& name, std::unique_ptr<io::Destination>& destination);
  void exchange();
  void await();
  void take(control::FromLeader frame);
  void show(const control::StreamData& data);
  void take_part(const Json& part);
  void tell_files(const Json& files);
  void take_answer(const control::Answer& answer);
  void give_credit();
  void fail(const Error& why);
  [[nodiscard]] io::Destination& destination(io::Stream stream);

  control::Client client_;
  Options options_;
  std::unique_ptr<event::Loop> own_loop_;
  event::Loop* loop_ = nullptr;
  std::vector<event::SignalWatcher> signals_;
  std::optional<event::Poll> receives_, sends_;
  std::unique_ptr<io::Destination> out_, err_;  // no err_: both streams go to out_
  std::map<std::pair<std::uint32_t, io::Stream>, io::Source> sources_;
  std::unique_ptr<AttachInput> input_;
  LaunchSignals passed_;          // signals that are passed on to the tasks
  std::uint64_t id_ = 0;          // of the request; 0: it has not been sent
  std::uint64_t uncredited_ = 0;  // bytes
  std::size_t ended_streams_ = 0;
  std::optional<End> end_;
  std::optional<Error> failure_;
};

}  // namespace nacre::front
