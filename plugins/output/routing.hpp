// SPDX-License-Identifier: Apache-2.0
//
// All places that a job's output comes out at on this node, for the plugin `output`: which there are, by the options
// and templates, and which of them a task's stream goes to.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugin/host.hpp"
#include "plugins/output/files.hpp"
#include "plugins/output/options.hpp"
#include "plugins/output/target.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class OutputRouting {
 public:
  OutputRouting(plugin::Host& host, const OutputOptions& options, OutputTarget::Callbacks callbacks)
      : host_(host), options_(options), callbacks_(std::move(callbacks)), files_(options.append) {}

  // Opens those that tasks share, so that what is wrong with them is known before any task runs. `ranks`: whose
  // output is wanted.
  Result<void> open(const value::Idset& ranks);

  // After open(): whether shells on one host share a file, which the first of them has to empty before the others open it: all shells of
  // the job find the same.
  [[nodiscard]] bool share_files() const;

  // Whether each task writes to a file of its own by itself: nothing is added to its lines. A file of the job is not
  // given away even if there is one task: with two of us at work it is faster.
  [[nodiscard]] bool direct(io::Stream stream) const;
  // That file, for the task to be given.
  Result<UniqueFd> open_for(const task::Task& task, io::Stream stream);
  // The last bytes of it.
  [[nodiscard]] std::string tail_of_file(const task::Task& task, io::Stream stream, std::size_t most) const;
  // Leader: where the stream of each shell's task goes to.
  [[nodiscard]] const std::vector<OutputTarget*>& collected(io::Stream stream) const {
    return shared(stream).places;
  }
  // A line of the job's eventlog, if there is one; from any shell.
  void post_line(std::string_view line);
  // Where a task's stream goes to. They live as long as this.
  Result<std::vector<OutputTarget*>> of(const task::Task& task, io::Stream stream);

  // From another shell: the task has failed, and its streams have ended.
  void post_complete(std::uint32_t rank);
  [[nodiscard]] bool flushed() const;
  // How far each place is to be for what it has taken so far to have come out.
  using Marks = std::vector<std::pair<const OutputTarget*, std::uint64_t>>;
  [[nodiscard]] Marks marks() const;
  [[nodiscard]] static bool has_passed(const Marks& marks);
  // Lets go of folded lines that have waited until `time`; the earliest time to call it again.
  std::optional<double> expire(double time);
  // Logs what was cut and dropped.
  void log_losses() const;

 private:
  struct Shared {  // of a stream: what all shells have in common, at the leader's
    bool file = false;
    std::vector<OutputTarget*> places;     // where it is
    std::unique_ptr<OutputTarget> remote;  // the way to it, from another shell
  };

  [[nodiscard]] Shared& shared(io::Stream stream) { return shared_.at(static_cast<std::size_t>(stream)); }
  [[nodiscard]] const Shared& shared(io::Stream stream) const {
    return shared_.at(static_cast<std::size_t>(stream));
  }
  [[nodiscard]] bool is_remote() const { return host_.bulk() != nullptr && host_.job().shell_rank != 0; }
  [[nodiscard]] value::Idset writers() const;
  Result<void> open_file(io::Stream stream);
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
  void redirect(io::Stream stream, const value::Idset& ranks, const std::string& path);
  [[nodiscard]] std::vector<OutputTarget*> all() const;

  plugin::Host& host_;
  const OutputOptions& options_;
  OutputTarget::Callbacks callbacks_;
  OutputFiles files_;
  value::Idset ranks_;
  std::optional<OutputUplink> uplink_;  // of another shell than the leader's
  std::array<Shared, io::kStreams.size()> shared_;
  std::array<std::unique_ptr<OutputTarget>, io::kStreams.size()> terminals_;  // stderr's may be stdout's
  std::map<std::string, std::unique_ptr<OutputTarget>> file_places_;          // by path
  std::unique_ptr<OutputTarget> eventlog_;
};

}  // namespace nacre::plugins
