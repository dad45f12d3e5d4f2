// SPDX-License-Identifier: Apache-2.0
//
// One end of a link without its socket: what is to be sent, in which order, and what has come. Control frames go
// before all bulk that waits. Bulk goes in chunks, as far as the other end has granted credit for its stream; what is
// queued here is bounded too. Both ends end with finish(): after it an end says nothing of its owner's, but still
// grants credit, so that the other can end in peace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "transport/wire.hpp"

namespace nacre::transport {

using StreamId = std::uint32_t;

struct SessionLimits {
  std::size_t max_frame = kMaxFrame;                    // bytes
  std::size_t max_control = std::size_t{64} << 20;      // bytes of frames that wait; two frames may be more
  std::size_t enough_control = std::size_t{512} << 10;  // bytes of frames that wait: has_room() is false
  std::size_t max_bulk = std::size_t{256} << 10;        // bytes of bulk that wait, of all streams together
  std::size_t max_streams = 4096;                       // in each direction
};

struct Arrival {
  enum class Kind { frame, bulk, end, finish } kind = Kind::frame;
  StreamId stream = 0;     // of bulk and end
  std::string_view bytes;  // of frame and bulk; valid until the next call of receive() or next()
};

class LinkSession {
 public:
  explicit LinkSession(SessionLimits limits = {}) : limits_(limits), reader_(limits.max_frame) {}

  // ---- what this end says. EMSGSIZE: a frame above its limit; ENOBUFS: the other end takes too little; EPIPE: after
  // finish().
  Result<void> send(std::string_view frame);
  // How many of the bytes were taken. If fewer than all, next_ready() names the stream when there is room again.
  std::size_t write(StreamId stream, std::string_view bytes);
  Result<void> end(StreamId stream);  // after what was written to it
  // Lets the other end send this many bytes more of a stream. ERANGE: more than kMaxCredit; EMFILE: too many streams.
  Result<void> grant(StreamId stream, std::size_t bytes);
  void finish();

  // Appends what is to go next until `out` has about `target` bytes (a chunk more, at most). False: nothing to go.
  bool fill(std::string& out, std::size_t target);
  // Whether frames that can wait had better not be sent; after that, when there is room again: says so once.
  [[nodiscard]] bool has_room() const { return control_bytes_ < limits_.enough_control; }
  [[nodiscard]] bool owes_room() const { return was_full_ && has_room(); }
  bool take_room() { return owes_room() && std::exchange(was_full_, false); }
  [[nodiscard]] std::size_t queued_control() const { return control_bytes_; }  // bytes that wait
  [[nodiscard]] std::size_t queued_bulk() const { return bulk_bytes_; }
  [[nodiscard]] std::size_t credit(StreamId stream) const;  // of the other end's, not yet used
  // A stream whose last write() took less than it was given, and that now has this much room. Each is named once.
  std::optional<std::pair<StreamId, std::size_t>> next_ready();

  // ---- what the other end says. An error means that it breaks the rules: there is no way on.
  void receive(std::string_view bytes) { reader_.add(bytes); }
  Result<std::optional<Arrival>> next();  // none: more has to come

  [[nodiscard]] bool has_finished() const { return finish_filled_; }  // all of this end's has been filled out
  [[nodiscard]] bool peer_has_finished() const { return peer_finished_; }

 private:
  struct Out {
    std::size_t credit = 0;
    bool waits = false;     // its last write was not taken whole
    bool in_ready = false;  // it stands in ready_
    bool ended = false;
  };
  struct In {
    std::size_t granted = 0;   // bytes that may still come
    std::uint32_t unsent = 0;  // of it, what the other end has not been told of
  };
  struct Chunk {
    StreamId stream = 0;
    bool is_end = false;
    std::string bytes;
  };

  [[nodiscard]] std::size_t room() const;
  void enqueue(StreamId stream, std::string_view bytes);
  void make_ready(StreamId stream, Out& out);
  void fill_notices(std::string& out);
  void fill_control(std::string& out, std::size_t target);
  void fill_chunk(std::string& out);
  Result<std::optional<Arrival>> arrive(const Record& record);
  Result<void> take_credit(const Record& record);
  Result<void> take_bulk(const Record& record);
  Result<void> take_end(StreamId stream);

  SessionLimits limits_;
  RecordReader reader_;
  std::deque<std::string> control_;  // whole records
  std::size_t control_sent_ = 0;     // bytes of the first
  std::size_t control_bytes_ = 0;
  bool was_full_ = false;  // has_room() was false since take_room() was true
  std::deque<Chunk> bulk_;
  std::size_t bulk_bytes_ = 0;
  std::unordered_map<StreamId, Out> out_;
  std::unordered_map<StreamId, In> in_;
  std::deque<StreamId> ready_;      // who wrote too much, first come first served
  std::vector<StreamId> credited_;  // streams of in_ with unsent credit; some may have ended
  std::vector<StreamId> ended_;     // whose end the other end is to be told to have been seen
  bool finishing_ = false;
  bool finish_filled_ = false;
  bool peer_finished_ = false;
};

}  // namespace nacre::transport
