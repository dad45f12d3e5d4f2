// SPDX-License-Identifier: Apache-2.0
//
// Bulk data between the shells of a job, as those see it who have something to carry: records of up to kMaxRecord bytes, in
// channels, up to the leader and down from it to all. doc/protocol.md, "Bulk", says what reaches whom.
#pragma once

#include <functional>
#include <string_view>

#include "base/result.hpp"
#include "bulk/options.hpp"

namespace nacre::bulk {

// Which channels there are; doc/protocol.md, "Channels", says what is in them.
namespace up {
inline constexpr Channel kOutput = 1;
}
namespace down {
inline constexpr Channel kInput = 1;
inline constexpr Channel kOutputClosed = 2;
}  // namespace down
namespace values {  // of the broadcast that carries values of collectives
inline constexpr Channel kValue = 1;
}  // namespace values

class Port {
 public:
  // All are called from the loop, never from within a call of a member, and may call members. No bytes: the channel has ended.
  struct Upward {
    // Leader: each origin's records in order. Each is to be answered by taken(), at any time.
    std::function<void(Id origin, Numbered number, std::string_view bytes)> on_record;
    std::function<void()> on_room;                 // what put() has refused would fit
    std::function<void(const Error& why)> on_end;  // the shell is cut off: nothing more comes or goes
  };
  struct Downward {
    // What the leader has broadcast, also to itself; the bytes hold until it is answered by heard().
    std::function<void(Numbered number, std::string_view bytes)> on_record;
    std::function<void()> on_room;  // leader: what broadcast() has refused would fit
    std::function<void(const Error& why)> on_end;
  };

  virtual ~Port() = default;

  // What has come before is told then. A channel that nobody serves when serve_no_more() is called is taken, and let go.
  virtual void serve(Channel channel, Upward owner) = 0;
  virtual void serve(Channel channel, Downward owner) = 0;
  virtual void serve_no_more() = 0;

  // 1 to kMaxRecord bytes to the leader. False: there is no room; on_room says when. An error: the channel has ended, or the
  // shell is cut off.
  virtual Result<bool> put(Channel channel, std::string_view bytes) = 0;
  // Leader: to all, itself included.
  virtual Result<bool> broadcast(Channel channel, std::string_view bytes) = 0;
  virtual Result<void> end_broadcast(Channel channel) = 0;

  virtual void taken(Id origin, Numbered number) = 0;
  virtual void heard(Numbered number) = 0;
};

}  // namespace nacre::bulk
