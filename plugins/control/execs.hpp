// SPDX-License-Identifier: Apache-2.0
//
// The leader's side of commands beside the tasks: each request `exec` of a front end is an order to shells
// (Host::exec). What their processes write goes on to the front end as fast as it takes it; for each target, what
// it has not taken is limited.
#pragma once

#include "base/pump.hpp"
#include "control/server.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/control/exec_wire.hpp"
#include "task/stream.hpp"
#include "task/subprocess.hpp"
#include "task/task.hpp"

namespace nacre::plugins {

// The commands beside the tasks that this shell runs (`nacre exec`): it starts what an order names, passes the
// output on to the leader, and ends the processes when the leader orders that.

// A viewer of a task's terminal: it reads what the task has written, from the last 64 KiB on, types, and has a
// size. The task never waits for the viewer, which misses what it does not read in time.
class JoinedTerminal : Noncopyable {
 public:
  struct Callbacks {
    std::function<void()> on_change;  // there is more to read, or the end. It may destroy this object
    std::function<void()> on_taken;   // some of the typed bytes were taken
  };

  // ENOTTY: the task has no terminal. ESRCH: it does not run. The task has to outlive this object.
  static Result<std::unique_ptr<JoinedTerminal>> join(event::Loop& loop, const task::Task& task,
                                                      const winsize& size, std::size_t typed_ahead,
                                                      Callbacks callbacks);
  ~JoinedTerminal();

  // Bytes that it has missed since the last call, before those that read() returns next.
  std::uint64_t missed();
  // The next bytes, after missed(); they are valid until the task writes more. Empty: there are none now.
  std::string_view read(std::size_t most);
  // The task has ended, and all that it wrote was read.
  [[nodiscard]] bool ended() const;
  [[nodiscard]] const value::WaitStatus& status() const { return task_.status(); }  // once ended

  [[nodiscard]] task::BufferedStream& keys() { return *keys_; }
  void resize(const winsize& size) { pty_.resize_viewer(viewer_, size); }

 private:
  JoinedTerminal(const task::Task& task, Callbacks callbacks)
      : task_(task), pty_(task.pty()->viewed()), callbacks_(std::move(callbacks)) {}
  void change();
  [[nodiscard]] std::string_view unread() const { return pty_.kept_from(position_); }

  const task::Task& task_;
  task::Pty& pty_;
  Callbacks callbacks_;
  std::uint64_t viewer_ = 0;    // its number
  std::uint64_t position_ = 0;  // bytes of what the task has written
  std::unique_ptr<task::BufferedStream> keys_;
};

class ExecRunner : Noncopyable {
 public:
  explicit ExecRunner(plugin::Host& host) : host_(host) {}

  // Takes orders from here on. `put` sends a record to the leader: false if there is no room, on_room() is called
  // then; an error: this shell is cut off.
  using Put = std::function<Result<bool>(std::string_view record)>;
  Result<void> serve(Put put);
  void on_room() { pump(); }
  void task_ended() { pump(); }  // viewers of its terminal may be over
  // The front ends that asked for these are gone with the leader: running commands are ended, except those that go
  // on alone.
  void leader_lost();
  // Input for the targets of an order: its number (8 bytes), then bytes; none: the end. Nothing happens if the
  // order is not here.
  void feed(std::string_view bytes);
  [[nodiscard]] std::size_t running() const { return orders_.size(); }  // orders

 private:
  struct Process {
    std::uint32_t target = 0;
    std::unique_ptr<task::Subprocess> child;  // null: it could not be started, or ...
    std::unique_ptr<JoinedTerminal> joined;   // ... it is a viewer
    std::uint64_t written = 0;                // bytes of output that were sent up
    std::uint64_t may_write = 0;              // in all
    std::uint64_t input_reported = 0;         // bytes of input that the leader knows to be taken
    std::string failure;                      // the body of the record of its end
    bool given_up = false;                    // what it has left open is not waited for any more

    // The stream for its input, whatever it is; null: it has no input.
    [[nodiscard]] task::BufferedStream* input() const;
  };
  struct Order {
    std::list<Process> processes;
    bool drops = false;
    int stage = 0;  // of its end: 1 TERM, 2 KILL
    std::optional<event::Timer> timer;
  };

  void receive(const value::ExecShare& share);
  void start(std::uint64_t number, Order& order, const ExecCommand& command, std::uint32_t target,
             task::Task* task);
  [[nodiscard]] task::Command command_of(std::uint64_t number, const ExecCommand& wanted, task::Task* task) const;
  void join(std::uint64_t number, const ExecCommand& command, const task::Task& task, Process& process);
  void take(const ExecNotice& notice);
  void end(std::uint64_t number, Order& order);
  void go_on_ending(std::uint64_t number);
  static void kill(const Order& order, int signum);
  static void resize(const Order& order, const winsize& size);
  // True: some process of the order has a terminal, which is taken away.
  static bool hang_up(const Order& order);
  using Signals = std::vector<std::pair<pid_t, int>>;  // which process gets which signal
  static Signals signals_of_marked(std::uint64_t number, const Order& order, int signum);
  static void send_all(const Signals& signals);
  [[nodiscard]] task::Task* task_of(std::uint32_t rank);

  void pump();
  void pump_in_stream();
  bool step();
  // Queues at most one record of each process; false: there was none.
  bool queue_some();
  bool queue_output(std::uint64_t number, const Order& order, Process& process);
  bool queue_joined(std::uint64_t number, const Order& order, Process& process);
  bool queue_input(std::uint64_t number, Process& process);
  bool queue_end(std::uint64_t number, const Order& order, const Process& process);
  void send(std::uint64_t number, std::uint32_t target, ExecRecord::What what, std::string_view body = {});

  plugin::Host& host_;
  Put put_;
  std::optional<event::Seconds> grace_;  // none: for ever
  plugin::Registration ordered_, noticed_;
  std::map<std::uint64_t, Order> orders_;  // by number
  std::deque<std::string> unsent_;
  bool cut_off_ = false;
  bool in_stream_ = false;  // a stream of some process calls: no process is destroyed meanwhile
  Pump pump_;
};

inline constexpr std::size_t kMaxExecs = 64;                          // of a job at a time
inline constexpr std::uint64_t kExecOutput = std::uint64_t{4} << 20;  // bytes that one command holds at the leader,
                                                                      // or ...
inline constexpr std::uint64_t kLeastExecWindow = std::uint64_t{4}
                                                  << 10;  // ... this much of each target, if that is more
inline constexpr std::uint64_t kMostExecWindow = std::uint64_t{256} << 10;  // of one target

inline constexpr const char* kTerminalStream = "pty";  // both ways

class Execs {
 public:
  // A link, and the number of a request on it.
  struct Key {
    std::uint64_t client = 0;
    std::uint64_t id = 0;
    auto operator<=>(const Key&) const = default;
  };
  // The streams of requests, as in control::ControlServer.
  struct Replies {
    std::function<void(Key, Json)> part;
    std::function<void(Key, const Result<Json>&)> answer;
    std::function<std::size_t(Key)> room;
    std::function<bool(Key, const char* stream, std::string_view data, const Json& members)> put;
    std::function<void(Key, std::size_t bytes)> grant;
  };
  // Sends input to the shells: false if there is no room.
  using Broadcast = std::function<bool(std::string_view record)>;

  Execs(plugin::Host& host, Replies replies, Broadcast broadcast)
      : host_(host), replies_(std::move(replies)), broadcast_(std::move(broadcast)) {}

  void begin(Key key, const Json& arguments);
  // A viewer of a task's terminal: its request is answered once the task has ended.
  void join(Key key, const Json& arguments);
  // The requests exec-signal and exec-end, about a request of the same link.
  Result<Json> control(std::uint64_t client, const std::string& action, const Json& arguments);
  // Input of the front end; none: its end. Bytes on another stream than that of the input are dropped.
  void input(Key key, std::string_view stream, std::string_view bytes);
  void on_room(Key key) { pump(key); }
  void on_broadcast_room();
  void gone(std::uint64_t client);

  void take(std::uint32_t shell, std::string_view record);
  void shell_gone(std::uint32_t shell, bool as_planned);  // a shell that was lost, or has left the job
  // The job's tasks have ended: all commands are ended, and none begins any more. `done` is called once they are
  // over.
  void end_all(std::function<void()> done);

 private:
  struct Target {
    std::uint32_t shell = 0;
    bool is_rank = false;
    bool is_started = false;
    std::uint64_t taken = 0;      // bytes of output that the front end has taken
    std::uint64_t announced = 0;  // of these: as many as the shell knows of
    std::uint64_t input = 0;      // bytes of input that it has taken
  };
  struct Piece {
    std::uint32_t target = 0;
    const char* stream = nullptr;  // null: its end
    std::string bytes;             // of its end: the record's body
    bool is_missed = false;        // bytes of output are missing here; how many, in decimal
  };
  struct Exec {
    ExecCommand command;
    ExecTargets wanted;
    std::uint64_t number = 0;                 // of the order; 0: not given yet
    std::map<std::uint32_t, Target> targets;  // those that have not ended, by shell or rank
    std::deque<Piece> pieces;
    std::set<std::uint32_t> lost;  // shells that take no part
    std::uint64_t granted = 0;     // bytes of input
    std::uint64_t received = 0;
    std::deque<std::string> input;  // that was not broadcast; "": the end
    std::optional<winsize> size;    // of its terminal: a size that the shell does not know yet
    bool ends = false;
    bool detaches = false;  // its front end has its answer once all have started
    bool is_gone = false;   // its front end
    bool is_slow = false;   // it has taken nothing since the last look
    Pump pump;
    plugin::Registration order;
  };

  // Refuses what a terminal cannot be combined with.
  static Result<void> check_pty(const Exec& exec, std::uint64_t targets);
  Result<Json> resize(std::uint64_t client, const JsonAt& arguments);
  Result<Exec*> find(std::uint64_t client, const JsonAt& id);
  Result<void> check_room() const;
  static Result<Exec> joining(const JsonAt& arguments, const job::Job& job);
  void order(Key key);
  void ordered(Key key, const Result<value::ExecAnswer>& answer);
  void describe(Key key, const Exec& exec);
  void end(Exec& exec, bool drops);
  void notify(const ExecNotice& notice);
  void pump(Key key);
  bool step(Key key, Exec& exec);
  bool put_piece(Key key, Exec& exec);
  void put_end(Key key, Exec& exec, const Piece& piece);
  void note_taken(Exec& exec, std::uint32_t target, std::size_t bytes);
  void grant_input(Key key, Exec& exec);
  void broadcast_input(Exec& exec);
  void detach(Key key, Exec& exec);
  void finish(Key key, const Result<Json>& answer);
  void leave_slow();
  // The front ends of these take nothing any more.
  void leave(const std::vector<Key>& keys);
  [[nodiscard]] std::string why_not_started(const value::Idset& shells) const;
  [[nodiscard]] Json members_of(std::uint32_t target, const Target& of) const;

  plugin::Host& host_;
  Replies replies_;
  Broadcast broadcast_;
  std::map<Key, Exec> execs_;
  std::map<std::uint64_t, Key> by_number_;
  std::set<std::uint32_t> lost_, left_;  // shells that are not of the job any more
  std::function<void()> when_over_;
  bool is_over_ = false;
  std::optional<event::Timer> looks_;  // due when it is time for the next look
};

// Commands beside the tasks (`nacre exec`), as one shell has them: it runs commands that it is ordered to run
// (ExecRunner); on the leader, front ends ask for commands (Execs). Both are connected here to the bulk data
// between shells and to the server of front ends.
class ExecService {
 public:
  using ClientId = control::ControlServer::ClientId;

  // `server`: of front ends; null while there is none.
  ExecService(plugin::Host& host, std::function<control::ControlServer*()> server)
      : host_(host), server_(std::move(server)), runner_(host) {}

  // In shell.init: from here on this shell runs commands that it is ordered to run.
  Result<void> serve();

  void task_ended() { runner_.task_ended(); }  // of this shell
  void shell_gone(std::uint32_t shell, bool as_planned);
  void lead();  // this shell has come to lead
  void leader_lost() { runner_.leader_lost(); }

  // ---- on the leader, after serve()
  // False: the request is about something else, and is not answered.
  bool take(ClientId client, const control::ControlRequest& request);
  void data(ClientId client, const control::StreamData& data) {
    execs_->input({client, data.id}, data.stream, data.data);
  }
  void end(ClientId client, const control::StreamEnd& end) { execs_->input({client, end.id}, end.stream, {}); }
  void room(ClientId client, std::uint64_t id) { execs_->on_room({client, id}); }
  // A viewer of a task's terminal: `attach` with `pty`.
  void join(ClientId client, const control::ControlRequest& request) {
    execs_->join({client, request.id}, request.arguments);
  }
  void gone(ClientId client) { execs_->gone(client); }
  // The tasks have ended. The job waits until the commands have ended, too, and have reported how.
  void end_all();

 private:
  [[nodiscard]] bool leads() const { return host_.job().leads(); }
  Execs::Replies replies();
  bool broadcast(std::string_view record);
  Result<bool> put_up(std::string_view record);
  void serve_bulk(bulk::Port& port);

  plugin::Host& host_;
  std::function<control::ControlServer*()> server_;
  ExecRunner runner_;
  std::optional<Execs> execs_;                        // of the leader
  std::vector<std::pair<std::uint32_t, bool>> gone_;  // shells, and whether as planned
};

}  // namespace nacre::plugins
