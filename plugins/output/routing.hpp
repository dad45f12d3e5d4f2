// SPDX-License-Identifier: Apache-2.0
//
// All places on this node at which a job's output comes out, for the plugin `output`: it makes them by the options
// and templates, and finds those to which a task's stream goes.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugin/host.hpp"
#include "plugins/output/channel.hpp"
#include "plugins/output/files.hpp"
#include "plugins/output/options.hpp"
#include "plugins/output/target.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class OutputRouting {
 public:
  OutputRouting(plugin::Host& host, const OutputOptions& options, OutputTarget::Callbacks callbacks)
      : host_(host), options_(options), callbacks_(std::move(callbacks)), files_(options.append) {}

  // Opens all places that the options name, so that errors are found before any task runs. `ranks`: the tasks whose
  // output is wanted.
  Result<void> open(const value::Idset& ranks);

  // After open(): this one receives what comes out at the terminals too; null: none does.
  void follow(plugin::OutputFollower* follower);
  // Likewise: as plugin::TaskOutput::redirect().
  void redirect_terminals(plugin::OutputFile* to);

  // Whether each task writes to a file of its own by itself, as nothing is added to its lines. The file of the job
  // is not given to a task even if there is only one: it is faster if task and shell both work.
  [[nodiscard]] bool direct(io::Stream stream) const;
  // Opens that file, for the task, unless open() has done so.
  Result<UniqueFd> open_for(const task::Task& task, io::Stream stream);
  // The last bytes that a task has written: of that file, or as they were read.
  [[nodiscard]] std::string last_of(const task::Task& task, io::Stream stream, TaskStreams& read) const;
  // Leader: the places to which this stream of the tasks of all shells goes.
  [[nodiscard]] const std::vector<OutputTarget*>& collected(io::Stream stream) const {
    return shared(stream).places;
  }
  // Writes a line to the job's eventlog, if there is one; on any shell. A message of a shell goes to the file of
  // the tasks' standard error too, if they share one.
  void post_line(std::string_view line);
  // Likewise a message of this shell.
  void post_message(const LogEntry& entry);
  // The places to which a task's stream goes. They live as long as this object.
  Result<std::vector<OutputTarget*>> of(const task::Task& task, io::Stream stream);

  // As an ErrTaker: takes a text if output of tasks is on its way to standard error.
  [[nodiscard]] bool take_err(std::string_view text);
  // On the leader: a line of JSON behind what has been put at standard output so far, with `output.events`. Whether
  // all has come out.
  [[nodiscard]] bool put_event(std::string_view line);
  // Called for another shell's task: the task has failed, and its streams have ended.
  void post_complete(std::uint32_t rank);
  [[nodiscard]] bool flushed() const;
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
  [[nodiscard]] std::string tail_of_file(const task::Task& task, io::Stream stream, std::size_t most) const;
  struct Shared {  // of a stream: the places that all shells share, at the leader
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
  [[nodiscard]] io::FdSink::Options sink_options() const;
  void post(std::string_view event, const Json& context);
  void write_message(std::string_view line);
  void redirect(io::Stream stream, const value::Idset& ranks, const std::string& path);
  [[nodiscard]] std::vector<OutputTarget*> all() const;

  plugin::Host& host_;
  const OutputOptions& options_;
  OutputTarget::Callbacks callbacks_;
  OutputFiles files_;
  value::Idset ranks_;
  std::optional<OutputUplink> uplink_;  // on a shell that is not the leader
  std::array<Shared, io::kStreams.size()> shared_;
  OutputTarget* messages_ = nullptr;  // leader: the file of the tasks' standard error, if they share one
  // stderr's may be the same as stdout's
  std::array<std::unique_ptr<OutputTarget>, io::kStreams.size()> terminals_;
  std::map<std::string, std::unique_ptr<OutputTarget>> file_places_;  // by path
  std::map<std::pair<std::uint32_t, io::Stream>, UniqueFd> own_;      // by rank: of tasks, until they have them
  std::set<std::pair<std::string, io::Stream>> redirected_;           // by path: what the eventlog knows of
  std::unique_ptr<OutputTarget> eventlog_;
};

}  // namespace nacre::plugins
