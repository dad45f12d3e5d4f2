// SPDX-License-Identifier: Apache-2.0
//
// The keys of shells that know of each other only what boot/pod.hpp says: shell 0 listens on the port that all
// know, and keeps them. The others dial it until it answers, prove that they know the secret, say who they are,
// and wait until all have come; then they ask for what they need.
//
//   a shell to shell 0    {"version", "protocol", "index", "size", "values": {KEY: VALUE, ...}}
//   shell 0               {} once all have come, or {"error"}: it is turned away, or the job does not begin
//   a shell               {"owner", "key"}, any number of times
//   shell 0               {"value"} or {"error"}
//
// To one that comes while the job runs the leader says instead
//
//   {"value"}             it joins: launch::launch_lines(), as those of nacre grow get them
//   {"error", "again"}    this is not known yet: the shell has to come again
//   {"error"}             it is turned away
//
// In a job that may change its leader all shells listen on that port. The others say
//
//   {"leader", "again"}   where the leader listens, addresses joined by blanks: it is to come there
//
// Who comes again asks the first pod, and the others by their names, as shell 0 does that waits for others.
//
// Each is a frame of a link (transport/link.hpp).
#pragma once

#include "boot/boot.hpp"
#include "boot/pod.hpp"
#include "event/loop.hpp"
#include "transport/secret.hpp"

namespace nacre::boot {

struct IndexGroup {
  Pod pod;  // of a group of more than one
  transport::Secret secret;
  std::string secret_file;  // for messages
  std::string version;      // of this program

  [[nodiscard]] IndexGroup copy() const { return {pod, secret.copy(), secret_file, version}; }
};

class IndexKeys : public Keys {
 public:
  // Which of SIGINT, SIGTERM, SIGHUP and SIGQUIT has made a call fail that waited for other shells.
  [[nodiscard]] virtual std::optional<int> ended_by() const = 0;
  // The launch lines, if this shell has come while the job runs, and joins it: barrier() has failed. Otherwise "".
  [[nodiscard]] virtual std::string take_late() { return ""; }
};

// Shell 0 listens from now on. EADDRINUSE: the port is taken.
Result<std::unique_ptr<IndexKeys>> open_index_keys(IndexGroup group);

// Shells that come to this one while the job runs.
class Latecomers {
 public:
  // An error turns it away; with EAGAIN it comes again in a moment. "": it waits for give(). Else the addresses of
  // who leads, to whom it is to come.
  using OnCome = std::function<Result<std::string>(std::uint32_t index)>;

  virtual ~Latecomers() = default;
  // Until serve() is called shells are told to come again.
  static Result<std::unique_ptr<Latecomers>> answer(event::Loop& loop, IndexGroup group);
  virtual void serve(OnCome on_come) = 0;
  // Gives a shell its launch lines, or the reason why it is turned away. ENOENT: it has gone meanwhile.
  virtual Result<void> give(std::uint32_t index, const Result<std::string>& lines) = 0;
};

}  // namespace nacre::boot
