// SPDX-License-Identifier: Apache-2.0
//
// One place where output comes out, for the plugin `output`: a terminal or pipe of the shell, a file, or an
// eventlog; or the way to the leader's shell, which has these.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "io/destination.hpp"
#include "io/fd_sink.hpp"
#include "io/folder.hpp"
#include "plugin/task_output.hpp"
#include "plugins/output/uplink.hpp"

namespace nacre::plugins {

class OutputTarget {
 public:
  struct Options {
    std::string name;  // for messages: "stdout", a path
    io::FormatOptions format;
    io::FdSink::Options sink;
    std::optional<std::uint64_t> limit;  // bytes of each stream
    bool fold = false;
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
  // The way to the leader's shell. `uplink` has to outlive it; the uplink's owner reports room to it, and calls
  // fail().
  static std::unique_ptr<OutputTarget> create(OutputUplink& uplink, io::Stream stream, Callbacks callbacks);
  OutputTarget(const OutputTarget&) = delete;
  OutputTarget& operator=(const OutputTarget&) = delete;

  // Sets how many sources each stream will have. Has to come before the first put().
  void expect(std::size_t sources);
  void put(const io::Batch& batch);
  // Receives what is put here from now on, before it is folded and cut; null: nobody does.
  void follow(plugin::OutputFollower* follower) { follower_ = follower; }
  // As plugin::TaskOutput::redirect(): of a terminal or pipe of the shell.
  void redirect(plugin::OutputFile* to);
  void end(const io::Source& source, double time);
  // Writes text in the place's own form.
  void write(std::string_view text);
  // Lets out folded lines that have waited long enough; returns when to call it next (none: no line waits).
  std::optional<double> expire(double time);

  void fail(const Error& why) { note(why); }

  [[nodiscard]] const std::string& name() const { return options_.name; }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool full() const { return !failed_ && destination_->sink().full(); }
  [[nodiscard]] bool flushed() const { return failed_ || destination_->sink().flushed(); }
  [[nodiscard]] const io::Destination& destination() const { return *destination_; }

 private:
  OutputTarget(UniqueFd own, Options options, Callbacks callbacks)
      : own_(std::move(own)), options_(std::move(options)), callbacks_(std::move(callbacks)) {}

  void note(Result<void> result);
  io::FdSink::AfterError after_error(const Error& why, std::size_t bytes);

  UniqueFd own_;
  Options options_;
  Callbacks callbacks_;
  std::unique_ptr<io::Destination> destination_;
  std::optional<io::Folder> folder_;
  io::FdSink* sink_ = nullptr;  // the destination's, if it is one
  plugin::OutputFile* file_ = nullptr;
  bool is_redirected_ = false;
  plugin::OutputFollower* follower_ = nullptr;
  bool failed_ = false;
};

}  // namespace nacre::plugins
