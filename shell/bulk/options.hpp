// SPDX-License-Identifier: Apache-2.0
//
// What a node of bulk is given when it is made, and how much it holds. A record counts with its head, kHead bytes.
#pragma once

#include "value/idset.hpp"

namespace nacre::bulk {

using Id = value::Idset::Id;       // of a shell: 0 is the first leader; never used twice
using Channel = std::uint16_t;     // what a record is about, as the owners agree; each direction has its own
using StreamId = std::uint32_t;    // of a stream of a link, in each direction
using Numbered = std::uint64_t;    // of a record, from 1: among its origin's records, or in the broadcast
using ViewNumber = std::uint64_t;  // of the tree that the overlay has made

inline constexpr std::size_t kHead = 23;                          // bytes of a record's head
inline constexpr std::size_t kMaxRecord = std::size_t{64} << 10;  // bytes of a record
inline constexpr std::size_t kMaxBroadcastChannels = 1024;        // in the whole time of a job
inline constexpr std::size_t kMaxEndedUp = 8;  // channels of an origin, in the whole time of a job
inline constexpr std::size_t kMaxWindow = std::size_t{256} << 20;  // bytes; the most for each limit below
// bytes of notes that one end may have sent before the other has read them
inline constexpr std::size_t kNotesCredit = std::size_t{16} << 10;

// `record`, `window` and `broadcast` are the same in all shells of a job.
struct Limits {
  std::size_t record = kMaxRecord;               // bytes of a record
  std::size_t window = std::size_t{4} << 20;     // of an origin's records that the leader has not taken
  std::size_t broadcast = std::size_t{1} << 20;  // of broadcast records that not all shells have taken
  std::size_t link = std::size_t{256} << 10;   // of a child's records that wait here; on the leader, of those that
                                               // are not taken
  std::size_t write = std::size_t{32} << 10;   // of one Write; the last record in it may go beyond
  std::size_t origins = std::size_t{1} << 18;  // how many origins' records may pass through here
};

struct BulkOptions {
  Id self = 0;
  bool newcomer = false;  // was no member when the job began: it does not get what was broadcast before it came
  Limits limits;
  // Channels up on which all shells answer at about the same time: at each hop such a record waits for those of the
  // shells below, so that they go up together.
  std::set<Channel> answers;

  bool has_taken_over = false;  // leads in place of another shell, by BulkNode::lead()

  [[nodiscard]] bool leads() const { return self == 0 || has_taken_over; }
};

}  // namespace nacre::bulk
