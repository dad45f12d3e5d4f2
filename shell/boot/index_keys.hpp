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
// Each is a frame of a link (transport/link.hpp).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "boot/boot.hpp"
#include "boot/pod.hpp"
#include "event/loop.hpp"
#include "transport/secret.hpp"

namespace nacre::boot {

struct IndexGroup {
  Pod pod;  // of more than one
  transport::Secret secret;
  std::string secret_file;  // for messages
  std::string version;      // of this program
};

class IndexKeys : public Keys {
 public:
  // Of SIGINT, SIGTERM, SIGHUP and SIGQUIT the one that came while it waited for others, whose call has failed.
  [[nodiscard]] virtual std::optional<int> ended_by() const = 0;
};

// Shell 0 listens from now on. EADDRINUSE: the port is taken.
Result<std::unique_ptr<IndexKeys>> open_index_keys(IndexGroup group);

// Tells shells that come while the job runs, to shell 0, that it does not wait for them; `on_come` is told which
// index has come again.
class Latecomers {
 public:
  virtual ~Latecomers() = default;
  static Result<std::unique_ptr<Latecomers>> answer(event::Loop& loop, IndexGroup group,
                                                    std::function<void(std::uint32_t index)> on_come);
};

}  // namespace nacre::boot
