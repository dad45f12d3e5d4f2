// SPDX-License-Identifier: Apache-2.0
//
// Bulk data between the shells of a job, as its users see it: records of up to kMaxRecord bytes, in channels, up to
// the leader and down from it to all. doc/protocol.md, "Bulk", defines which records reach which shells.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string_view>

#include "base/result.hpp"
#include "bulk/options.hpp"

namespace nacre::bulk {

// The channels; doc/protocol.md, "Channels", defines what is in them.
namespace up {
inline constexpr Channel kOutput = 1;
inline constexpr Channel kControl = 2;
inline constexpr Channel kExec = 3;
inline constexpr Channel kReadyToLeave = 4;
inline constexpr Channel kDoctor = 5;
inline constexpr Channel kUsage = 6;
inline constexpr Channel kTimeline = 7;
inline constexpr Channel kInputPosition = 8;
inline constexpr Channel kPace = 9;
}  // namespace up
// The channels of up on which all shells answer what the leader has announced, or send at the same times
// (BulkOptions::answers).
inline const std::set<Channel>& answer_channels() {
  static const std::set<Channel> channels{up::kControl, up::kDoctor, up::kInputPosition, up::kPace};
  return channels;
}
namespace down {
inline constexpr Channel kInput = 1;
inline constexpr Channel kOutputClosed = 2;
inline constexpr Channel kExecInput = 3;
}  // namespace down
namespace values {  // of the broadcast that carries values of collectives
inline constexpr Channel kValue = 1;
}  // namespace values

// For how long answers wait at a hop for others at most; one of a deep tree waits several times.
inline constexpr std::chrono::milliseconds kAnswerWait{20};

class Port {
 public:
  // All are called from the loop, never from within a call of a member, and may call members. No bytes: the channel
  // has ended.
  struct Upward {
    // Leader: each origin's records in order. The user answers each with taken(), at any time.
    std::function<void(Id origin, Numbered number, std::string_view bytes)> on_record;
    std::function<void()> on_room;                 // there is room for what put() has refused
    std::function<void(const Error& why)> on_end;  // the shell is cut off: nothing more comes or goes
  };
  struct Downward {
    // A record that the leader has broadcast, on the leader too; the bytes are valid until the user answers with
    // consumed().
    std::function<void(Numbered number, std::string_view bytes)> on_record;
    std::function<void()> on_room;  // leader: there is room for what broadcast() has refused
    std::function<void(const Error& why)> on_end;
  };

  virtual ~Port() = default;

  // The user gets what has come before too. Records of a channel that is not served when serve_no_more() is called
  // are taken and dropped.
  virtual void serve(Channel channel, Upward owner) = 0;
  virtual void serve(Channel channel, Downward owner) = 0;
  virtual void serve_no_more() = 0;

  // Sends 1 to kMaxRecord bytes to the leader. False: there is no room; on_room is called when there is. An error:
  // the channel has ended, or the shell is cut off.
  virtual Result<bool> put(Channel channel, std::string_view bytes) = 0;
  // Leader: sends to all, itself included.
  virtual Result<bool> broadcast(Channel channel, std::string_view bytes) = 0;
  virtual Result<void> end_broadcast(Channel channel) = 0;

  virtual void taken(Id origin, Numbered number) = 0;
  virtual void consumed(Numbered number) = 0;
};

}  // namespace nacre::bulk
