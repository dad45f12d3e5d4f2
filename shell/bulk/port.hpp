// SPDX-License-Identifier: Apache-2.0
//
// Bulk data between the shells of a job, as its users see it: records of up to kMaxRecord bytes, in channels, up to
// the leader and down from it to all. doc/protocol.md, "Bulk", defines which records reach which shells.
#pragma once

#include "base/invariant.hpp"
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

// How long answers wait at a hop for other answers, at most; an answer from deep in the tree waits several times.
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

  // The user also gets what has come before this call. Records of a channel that is not served when serve_no_more()
  // is called are taken and dropped.
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

// A channel of records to the leader, whose user does not wait for room: records without room are kept, in order.
class RecordQueue : Noncopyable {
 public:
  explicit RecordQueue(Channel channel) : channel_(channel) {}

  // Serves the channel. Leader: each record is passed to `take`, and has been taken when that returns; no bytes:
  // the origin has ended the channel. The port has to outlive this object's use.
  void serve(Port& port, std::function<void(Id origin, std::string_view bytes)> take);
  // Sends 1 to kMaxRecord bytes now, or once there is room. Dropped, with all that waits, if the channel is not
  // served, the job is over, or this shell is cut off.
  void put(std::string record);
  [[nodiscard]] std::size_t waiting() const { return unsent_.size(); }  // records
  // `act` is called each time that no record waits any more after some did.
  void when_empty(std::function<void()> act) { on_empty_ = std::move(act); }

 private:
  void send();

  Channel channel_;
  Port* port_ = nullptr;
  std::deque<std::string> unsent_;
  std::function<void()> on_empty_;
};

// Numbered things that are done in any order: gives the number up to which all are done.
class InOrder {
 public:
  // The numbers ascend.
  void add(Numbered number) {
    INVARIANT(waiting_.empty() || number > waiting_.back().number);
    waiting_.push_back({number, false});
  }
  // Marks a number that was added. Returns the last number up to which all are done, if it is a new one.
  std::optional<Numbered> done(Numbered number) {
    auto found =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const One& one) { return one.number == number; });
    if (found != waiting_.end()) found->done = true;
    std::optional<Numbered> out;
    for (; !waiting_.empty() && waiting_.front().done; waiting_.pop_front()) out = waiting_.front().number;
    return out;
  }

 private:
  struct One {
    Numbered number;
    bool done;
  };
  std::deque<One> waiting_;
};

}  // namespace nacre::bulk
