// SPDX-License-Identifier: Apache-2.0
//
// What a shell needs before there is a Shell, as the shells of a job first have to find each other.
#pragma once

#include "boot/boot.hpp"
#include "boot/index_keys.hpp"
#include "broker/instance.hpp"
#include "elastic/roster.hpp"
#include "event/children.hpp"
#include "event/loop.hpp"
#include "exits/job_end.hpp"
#include "group/directory.hpp"
#include "group/group.hpp"
#include "io/sink.hpp"
#include "join/guard.hpp"
#include "launch/launcher.hpp"
#include "launch/record.hpp"
#include "launch/stream.hpp"
#include "record/places.hpp"
#include "timeline/recorder.hpp"
#include "transport/secret.hpp"

namespace nacre::join {

// How a leader parts from the process that has started it, its launcher or an agent such as sshd: what it wrote to
// its standard output and error goes to a file beside the job's entry in the list of jobs from then on, and nothing
// that it holds keeps the other process waiting.
//
//   attached --take_streams--> its streams are the file --let_go--> detached
class Detachment : Noncopyable {
 public:
  explicit Detachment(value::JobId id) : id_(id) {}
  ~Detachment() { give_back(); }

  // Returns in a new process, which leads a session of its own and is the leader from now on. The old process waits
  // for the new one: it exits with its code, or with 0 after let_go(). Has to be called before there are loops and
  // threads.
  Result<void> fork_leader();

  // Makes the file, in the first place for entries that takes it. Does nothing if it has been done.
  Result<void> open();
  // As open(); the file also replaces standard output and error.
  Result<void> take_streams();
  [[nodiscard]] std::optional<int> file() const { return file_ ? std::optional(file_.get()) : std::nullopt; }
  [[nodiscard]] const std::string& directory() const { return directory_; }  // of the file
  [[nodiscard]] std::string path() const { return directory_ + "/" + id_.f58_plain() + ".out"; }

  // The other process does not wait any more.
  void let_go();
  [[nodiscard]] bool is_detached() const { return detached_; }
  // The job has ended, its streams were the file, and it has not detached: what is in the file comes out where
  // standard error was before, and the file is removed.
  void give_back();

 private:
  value::JobId id_;
  std::optional<record::EntryDirectory> place_;
  UniqueFd file_;
  std::string directory_;
  UniqueFd before_;   // the standard error that was replaced
  UniqueFd waiting_;  // the other process reads from this pipe
  bool detached_ = false;
};

// Signals for the tasks that come from the launcher before there are tasks: they take effect once all tasks have
// started. As in the kernel, each is kept once, and SIGCONT and the signals that stop cancel each other.
class KeptSignals {
 public:
  void keep(int signum);
  // Takes all of them out, in the order in which they came.
  [[nodiscard]] std::vector<int> take() { return std::exchange(signals_, {}); }

 private:
  std::vector<int> signals_;
};

// What only the leader is given, and shells that join its job later. The texts have the names of their files, for
// errors.
struct LeaderGiven {
  struct Text {
    std::string name;
    std::string text;
  };
  std::optional<Text> jobspec;
  std::optional<Text> resources;  // none: R is made of the shells' offers
  std::vector<std::string> options;
  bool has_input = false;  // standard input is not /dev/null
};

// A directory that the shell's guard removes, should the shell be killed while this lives.
class GuardedDirectory {
 public:
  GuardedDirectory() = default;
  // `children` has to outlive it.
  GuardedDirectory(event::Children& children, std::string path) : children_(&children), path_(std::move(path)) {
    children_->guard_directory(path_, true);
  }
  GuardedDirectory(GuardedDirectory&& other) noexcept
      : children_(std::exchange(other.children_, nullptr)), path_(std::move(other.path_)) {}
  GuardedDirectory& operator=(GuardedDirectory&& other) noexcept {
    std::swap(children_, other.children_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~GuardedDirectory() {
    if (children_ != nullptr) children_->guard_directory(path_, false);
  }

 private:
  event::Children* children_ = nullptr;
  std::string path_;
};

// What a leader, or a shell that may become one, keeps to start more shells of its job later, on hosts that it
// reaches in the same way as the others.
struct LaterShells {
  LaterShells(launch::LaunchRecord own, boot::Way way);  // this shell's

  launch::LaunchRecord record;
  // The manager has started the others, and there are no hosts besides those.
  bool is_managed = false;
  bool only_pods = false;  // later shells are pods that come again (boot::Latecomers), as only Kubernetes starts
                           // them
  LeaderGiven given;
  std::optional<transport::Secret> secret;
  std::map<group::Rank, std::string> addresses;  // of the shells of the job's start, and of this one
  GuardedDirectory directory;                    // of a socket of which the guard was not told at the start
  // A shell that was to join later has not been started, or its agent has failed. The owner of the launcher sets
  // this.
  std::function<void(group::Rank, const std::string& why)> on_failed = nullptr;
  // Makes what later shells need and this shell lacks so far, such as `secret` and `addresses`. After an error
  // nothing has changed.
  std::function<Result<void>()> extend = nullptr;

  // Keeps what the leader was given, except R, which all shells have made alike.
  void keep(LeaderGiven leaders);
  // Has to succeed before later shells can be started or join.
  Result<void> prepare() { return secret ? Result<void>() : extend(); }
  // The lines that the launcher gives a later shell. `resources`: R, as at the job's start; `is_made`: from what
  // the nodes offer; `growth`: elastic::Growth, of the shells that have joined before; `hands_over`: the job may
  // change its leader.
  [[nodiscard]] std::string lines_of(group::Rank rank, std::string resources, bool is_made, std::string growth,
                                     bool hands_over) const;
};

// Makes the launcher's standard input this shell's: what its stream brings comes out of a pipe that replaces
// /dev/null. Another owner may take the launcher's place.
class LauncherInput : Noncopyable {
 public:
  static Result<std::unique_ptr<LauncherInput>> create(event::Loop& loop);

  // ---- of the launcher
  // `stream` calls take() and end(), and has to wait while the pipe is full.
  void hold_back(launch::LaunchStream& stream) { stream_ = &stream; }
  void take(std::string_view bytes);
  void end();
  // The stream is not used any more, but what it has not given yet still comes.
  void let_go();

  // ---- of any owner
  // Whether the input ends when its owner goes without having ended it. By default it waits for another owner.
  void ends_with_owner(bool ends) { ends_with_owner_ = ends; }
  [[nodiscard]] bool has_ended() const { return ended_; }
  [[nodiscard]] bool is_launchers() const { return stream_ != nullptr && !is_given_; }
  // The caller is the owner; what the launcher's stream brings from now on is dropped.
  void give(std::function<void()> on_room);
  // Takes the owner's bytes. False: the pipe is full, and on_room follows.
  bool put(std::string_view bytes);
  void end_given();
  void leave();

 private:
  LauncherInput() = default;
  void take_held();
  void finish();
  void go_on();

  launch::LaunchStream* stream_ = nullptr;
  UniqueFd pipe_;
  std::unique_ptr<io::FdSink> sink_;
  std::optional<event::Timer> end_timer_;
  std::function<void()> on_room_;  // of an owner that is not the launcher
  bool is_given_ = false;
  bool ends_with_owner_ = false;
  bool ended_ = false;
};

// The signals that end a shell or its job (SIGINT, SIGTERM, SIGHUP, SIGQUIT), once the process has a loop: they
// come from the system, or from the job's launcher. Before, each ends the process. A SIGHUP that was ignored stays
// so, as under nohup(1) and in mpiexec.hydra; SIGINT and SIGQUIT are always handled, as by mpiexec.hydra and srun.
class Signals {
 public:
  enum class From { process, launcher };
  using OnSignal = std::function<void(int signum, From from)>;

  static Result<std::unique_ptr<Signals>> watch(event::Loop& loop);
  [[nodiscard]] static bool is_ending(int signum);  // one of the four
  Signals(const Signals&) = delete;                 // the watchers refer to it
  Signals& operator=(const Signals&) = delete;

  // Sets the handler, and calls it for signals that no handler got; null: none.
  void serve(OnSignal on_signal);
  void received(int signum, From from);
  // A pod's first process gets a signal for its whole job: what the system sends counts as the launcher's.
  void stand_for_job() { from_system_ = From::launcher; }
  // Notes that a shell sends all tasks this signal: all pods may be told to end at one time, and the tasks need it
  // once.
  void note_sent(int signum);
  [[nodiscard]] bool is_repeated(int signum) const;

 private:
  Signals() = default;

  static constexpr event::Seconds kAtOneTime{5};

  From from_system_ = From::process;
  std::map<int, event::Seconds> sent_at_;

  std::vector<event::SignalWatcher> watchers_;
  std::vector<std::pair<int, From>> kept_;
  OnSignal on_signal_;
};

// What comes from the job's launcher, besides the signals that end the job (Signals).
struct LauncherEvents {
  std::function<void(int signum)> on_read;  // any signal, before anything is done about it
  std::function<void(int signum)> on_signal;
  std::function<void(const value::Idset& shells)> on_agreed;  // the job may go on without these
  std::function<void(const value::Idset& shells)> ask;        // for that; null: it is there as long as its stream
  std::function<void()> on_detach;                            // it wants to leave; before the tasks run it cannot
  std::function<void()> on_gone;                              // the job ends without its launcher
  std::optional<Error> gone;
  std::optional<int> ended_by;  // the launcher has ended the job because of this signal, before it went
  KeptSignals kept;

  // Why the job ends once the launcher has gone; `shell`: this shell's rank.
  [[nodiscard]] exits::Cause end_cause(std::uint32_t shell) const {
    return ended_by ? exits::ended_by_signal(*ended_by, shell) : exits::Cause{gone->message, std::nullopt, shell};
  }
};

// What a shell that joins a running job also has to know.
struct LateShell {
  elastic::Growth growth;  // all shells that have joined later, with this one
  Json state;              // what the job has come to (core/shell_grow.hpp)
};

struct ShellProcess {
  std::unique_ptr<event::Loop> loop;
  std::unique_ptr<event::Children> children;
  std::unique_ptr<Signals> signals;
  std::unique_ptr<Guard> guard;            // none if a manager ends what a killed shell leaves
  std::unique_ptr<Detachment> detachment;  // of a leader that a launcher has started
  LauncherEvents launcher_events;
  std::unique_ptr<LauncherInput> launch_input;          // takes the launcher's input
  std::unique_ptr<launch::LaunchStream> launch_stream;  // set if a launcher has started this shell
  std::unique_ptr<launch::Launcher> launcher;           // set if this shell starts others
  std::unique_ptr<LaterShells> later;                   // of who leads, or may, and can start others
  std::unique_ptr<boot::IndexGroup> pods;               // of a pod that others can find at a known port
  std::unique_ptr<boot::Latecomers> latecomers;         // those that come there
  std::unique_ptr<group::Group> group;
  std::unique_ptr<broker::Instance> instance;  // whose job shell this is
  exits::JobEnd end;
  timeline::Recorder timeline;
  std::optional<Result<group::Group::Gathered>> introductions;  // from all shells, until they are read
  bool by_launcher = false;  // a launcher, or a shell for it, has started this one
  // Where srun has started all shells: tells the launcher who leads now (launch::Carriage::kLeads), or would
  // (kWanted), by launch::NextLeader, while standard error is where it was.
  std::function<void(std::string_view channel, const std::string& leader)> tell_launcher;
  bool joined = false;            // all shells of the job have joined
  bool joins_late = false;        // this one joins a job that runs
  std::optional<LateShell> late;  // set when this shell has joined late, until it is read
  bool hands_over = false;        // if the leader is lost the others choose another one
  bool left = false;              // this shell has left the others in order
};

}  // namespace nacre::join
