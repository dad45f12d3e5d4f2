// SPDX-License-Identifier: Apache-2.0
//
// One place where output comes out, for the plugin `output`: a terminal or pipe of the shell's, a file, an eventlog; or the
// way to the leader's shell, which has these.
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
    std::function<void()> on_room;                              // it is full no longer, or all has come out
    std::function<void(OutputTarget&, const Error&)> on_error;  // once; all that comes later is dropped
    std::function<void(const Error&)> on_spill;                 // it can't spill
  };

  // `fd` is borrowed unless `own` is it. The callbacks may be called until this is destroyed, and must not do that.
  static Result<std::unique_ptr<OutputTarget>> create(event::Loop& loop, int fd, UniqueFd own, Options options,
                                                      Callbacks callbacks);
  // To the leader's. It must not outlive `uplink`, whose owner tells it of room and calls fail().
  static std::unique_ptr<OutputTarget> create(OutputUplink& uplink, io::Stream stream, Callbacks callbacks);
  OutputTarget(const OutputTarget&) = delete;
  OutputTarget& operator=(const OutputTarget&) = delete;

  // Before the first put(): how many sources each stream will have.
  void expect(std::size_t sources);
  void put(const io::Batch& batch);
  void end(const io::Source& source, double time);
  // Text in the place's own form.
  void write(std::string_view text);
  // Lets go of folded lines that have waited long enough; when to call it next (none: nothing waits).
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

  UniqueFd own_;
  Options options_;
  Callbacks callbacks_;
  std::unique_ptr<io::Destination> destination_;
  std::optional<io::Folder> folder_;
  bool failed_ = false;
};

}  // namespace nacre::plugins
