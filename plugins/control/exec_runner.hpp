// SPDX-License-Identifier: Apache-2.0
//
// The commands beside the tasks that this shell runs (`nacre exec`): it starts what an order names, passes what it
// writes on to the leader, and ends it when the leader orders that.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/pump.hpp"
#include "event/loop.hpp"
#include "plugin/host.hpp"
#include "plugins/control/exec_wire.hpp"
#include "task/stream.hpp"
#include "task/subprocess.hpp"
#include "task/task.hpp"

namespace nacre::plugins {

// A viewer of a task's terminal: it reads what the task has written, from the last 64 KiB on, types, and has a
// size. The task never waits for it: what it has not read in time it misses.
class JoinedTerminal {
 public:
  struct Callbacks {
    std::function<void()> on_change;  // there is more to read, or the end. It may destroy this object
    std::function<void()> on_taken;   // of what was typed
  };

  // ENOTTY: the task has no terminal. ESRCH: it does not run. The task has to outlive this object.
  static Result<std::unique_ptr<JoinedTerminal>> join(event::Loop& loop, const task::Task& task,
                                                      const winsize& size, std::size_t typed_ahead,
                                                      Callbacks callbacks);
  ~JoinedTerminal();
  JoinedTerminal(const JoinedTerminal&) = delete;
  JoinedTerminal& operator=(const JoinedTerminal&) = delete;

  // Bytes that it has missed since the last call, before those that read() returns next.
  std::uint64_t missed();
  // The next bytes, after missed(); they are valid until the task writes more. Empty: there are none now.
  std::string_view read(std::size_t most);
  // The task has ended, and all that it wrote was read.
  [[nodiscard]] bool ended() const;
  [[nodiscard]] const value::WaitStatus& status() const { return task_.status(); }  // once ended

  [[nodiscard]] task::BufferedStream& keys() { return *keys_; }
  void resize(const winsize& size);

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

class ExecRunner {
 public:
  explicit ExecRunner(plugin::Host& host) : host_(host) {}
  ExecRunner(const ExecRunner&) = delete;
  ExecRunner& operator=(const ExecRunner&) = delete;

  // Takes orders from here on. `put` sends a record to the leader: false if there is no room, on_room() is called
  // then; an error: this shell is cut off.
  using Put = std::function<Result<bool>(std::string_view record)>;
  Result<void> serve(Put put);
  void on_room() { pump(); }
  void task_ended() { pump(); }  // viewers of its terminal may be over
  // Input for the targets of an order: its number (8 bytes), then bytes; none: the end. Nothing happens if it is
  // not here.
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
    bool given_up = false;                    // what it has left open is not waited for

    // Of its input, whatever that is; null: it has none.
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
  // True: some of it has a terminal, which is taken away.
  static bool hang_up(const Order& order);
  using Signals = std::vector<std::pair<pid_t, int>>;  // to which process which
  static Signals signals_of_marked(std::uint64_t number, const Order& order, int signum);
  static void send_all(const Signals& signals);
  [[nodiscard]] task::Task* task_of(std::uint32_t rank);

  void pump();
  void pump_in_stream();
  bool step();
  // They queue at most one record of each process; false: there was none.
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

}  // namespace nacre::plugins
