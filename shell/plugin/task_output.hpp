// SPDX-License-Identifier: Apache-2.0
//
// What is known of the tasks' output, for plugins that report how tasks have ended: output comes first. And the
// output itself, for those that show it elsewhere too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "io/batch.hpp"
#include "value/idset.hpp"

namespace nacre::plugin {

// Receives what comes out at the standard output and error of the leader.
class OutputFollower {
 public:
  virtual ~OutputFollower() = default;

  virtual void put(const io::Batch& batch) = 0;
  // Called once: no task writes any more, and all that they have written has come out.
  virtual void all_out() = 0;
  // The tasks have to wait, until TaskOutput::go_on() is called.
  [[nodiscard]] virtual bool full() const { return false; }
};

// Where the tasks' output goes that would come out at the standard output and error of the leader, once nobody is
// there any more: to a file.
class OutputFile {
 public:
  virtual ~OutputFile() = default;

  // Open until the end of the process. None: nothing is written there (yet, or at all).
  virtual std::optional<int> file() = 0;
  // Nobody reads the leader's standard output or error any more: whether there is a file from now on.
  virtual bool closed() = 0;
  // So many bytes could not be written to the file: the job goes on without.
  virtual void lost(const Error& why, std::uint64_t bytes) = 0;
};

class TaskOutput {
 public:
  struct Tail {
    std::string out, err;      // the last bytes of each stream
    bool is_complete = false;  // the task has failed, and its streams have ended
    // When the last of `err` was read (on a terminal: of `out`), seconds since the Epoch; 0: never.
    double last_read = 0;
  };

  // What a task has written to its standard output and error so far.
  struct Written {
    std::optional<std::uint64_t> out,
        err;          // bytes; none: it does not go through the shell, as to a file of the task's
    double last = 0;  // when any of it was last read, seconds since the Epoch; 0: never
  };

  virtual ~TaskOutput() = default;

  // On the leader: the tasks that have failed and whose output has come out. Their streams have ended, and none of
  // it waits in the shells. The tasks of a shell that is lost, or that has put out all, count too.
  virtual value::Idset come_out() = 0;
  // For a task of this shell; none: unknown.
  virtual std::optional<Tail> tail(std::uint32_t rank) = 0;
  // Of a task of this shell that has ended: reads what it has written, and is still in its pipes.
  virtual void read_now(std::uint32_t /*rank*/) {}
  // Of a task of this shell; complete once task.exit is called for the plugins after `output`.
  virtual Written written(std::uint32_t /*rank*/) { return {}; }
  // The largest number that a task of this shell has written behind a word, in all its starts (io::LargestNumber);
  // none: it has written none, or neither restart nor slow-watch looks at that word in the output.
  struct Number {
    double value = 0;
    double grown = 0;  // when it was last seen to grow, seconds since the Epoch
    double took = 0;   // seconds since it had grown before; 0: it had not
  };
  virtual std::optional<Number> largest_number(std::uint32_t /*rank*/, std::string_view /*word*/) {
    return std::nullopt;
  }
  // On the leader: from now on this one receives the output of all tasks; null: none does. It has to outlive this
  // object, or to be withdrawn.
  virtual void follow(OutputFollower* follower) = 0;
  virtual void follower_has_room() {}  // which was full

  // On the leader, where `output.events` is set: what happens to the job comes out as lines of JSON, behind the
  // output that came before it.
  [[nodiscard]] virtual bool takes_events() const { return false; }
  // One event, as in Flux RFC 18; `context`: an object. Does nothing unless takes_events().
  virtual void put_event(std::string_view /*name*/, const Json& /*context*/) {}
  // On the leader: what comes out at the shell's standard output and error goes to this file, from when there is
  // one: to be called again then. `to` has to outlive this object, or to be withdrawn (null).
  virtual void redirect(OutputFile* to) = 0;
};

}  // namespace nacre::plugin
