// SPDX-License-Identifier: Apache-2.0
//
// What a node keeps of one link: of one that another shell is fed over, and of its own way up.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "bulk/effect.hpp"
#include "bulk/wire.hpp"

namespace nacre::bulk {

// What came over a link and is not yet a whole record or note; and what both ends may still write.
struct Traffic {
  Traffic(Way way, std::size_t most, std::size_t credit) : records(way, most), notes(way), record_credit(credit) {}

  RecordReader records;
  NoteReader notes;
  std::size_t record_credit;  // bytes that the peer may still send
  std::size_t note_credit = kNotesCredit;
  bool writes_records = false;  // a Write that has not been taken whole
  bool writes_notes = false;
};

struct Child {
  Child(std::uint64_t number, const Limits& limits)
      : serial(number), traffic(Way::up, limits.record, limits.link) {}

  std::uint64_t serial;  // of the link: another one of the same peer is not this
  Traffic traffic;
  bool gone = false;              // what it has sent still goes on
  std::deque<std::string> queue;  // whole records that go up
  std::size_t queued = 0;         // bytes of the queue

  bool path = false;             // it is to be told
  std::map<Id, Numbered> taken;  // of origins below it: it is to be told
  Numbered stable_told = 0;

  bool greeted = false;
  bool unstarted = false;      // a newcomer that is to be told where to begin
  Numbered fed = 0;            // of the broadcast: has, or was sent
  std::optional<Heard> heard;  // the last it said
};

struct Uplink {
  Uplink(Id id, const Limits& limits, std::size_t credit) : peer(id), traffic(Way::down, limits.record, credit) {}

  Id peer;
  Traffic traffic;
  bool greeted = false;
  std::optional<Heard> told;
};

}  // namespace nacre::bulk
