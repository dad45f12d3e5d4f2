// SPDX-License-Identifier: Apache-2.0
//
// One end of a link without its socket: what is to be sent, in which order, and what has come. Control frames go
// before all bulk that waits. Bulk goes in chunks, as far as the other end has granted credit for its stream; what
// is queued here is bounded too. Each end closes with finish(): after it that end sends nothing of its owner's, but
// still grants credit, so that the other end can send the rest.
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
  std::size_t max_frame = kMaxFrame;  // bytes
  // Bytes of frames that wait; two more frames may come on top
  std::size_t max_control = std::size_t{64} << 20;
  std::size_t enough_control = std::size_t{512} << 10;  // bytes of frames that wait: then has_room() is false
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

  // ---- what this end sends. EMSGSIZE: a frame above its limit; ENOBUFS: the other end takes too little; EPIPE:
  // after finish().
  Result<void> send(std::string_view frame);
  // Returns how many bytes were taken. If not all, next_ready() names the stream when there is room again.
  std::size_t write(StreamId stream, std::string_view bytes);
  Result<void> end(StreamId stream);  // after all that was written to it
  // Lets the other end send this many more bytes of a stream. ERANGE: more than kMaxCredit; EMFILE: too many
  // streams.
  Result<void> grant(StreamId stream, std::size_t bytes);
  void finish();

  // Appends what goes next until `out` has about `target` bytes (at most a chunk more). False: there is nothing to
  // send.
  bool fill(std::string& out, std::size_t target);
  // has_room(): false while so many frames wait that others had better be kept back. take_room(): true once, when
  // there is room again.
  [[nodiscard]] bool has_room() const { return control_bytes_ < limits_.enough_control; }
  [[nodiscard]] bool owes_room() const { return was_full_ && has_room(); }
  bool take_room() { return owes_room() && std::exchange(was_full_, false); }
  [[nodiscard]] std::size_t queued_control() const { return control_bytes_; }  // bytes that wait
  [[nodiscard]] std::size_t queued_bulk() const { return bulk_bytes_; }
  [[nodiscard]] std::size_t credit(StreamId stream) const;  // granted by the other end and not yet used
  // A stream whose last write() was not taken as a whole and that now has this much room. Each is returned once.
  std::optional<std::pair<StreamId, std::size_t>> next_ready();

  // ---- what the other end sends. An error means that it breaks the rules, and that the link has to close.
  void receive(std::string_view bytes) { reader_.add(bytes); }
  Result<std::optional<Arrival>> next();  // none: more bytes have to come

  // fill() was given all that this end has to send
  [[nodiscard]] bool has_finished() const { return finish_filled_; }
  [[nodiscard]] bool peer_has_finished() const { return peer_finished_; }

 private:
  struct Out {
    std::size_t credit = 0;
    bool waits = false;     // its last write was not taken as a whole
    bool in_ready = false;  // it is in ready_
    bool ended = false;
  };
  struct In {
    std::size_t granted = 0;   // bytes that may still come
    std::uint32_t unsent = 0;  // of it, what has not been sent to the other end yet
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
  Result<std::optional<Arrival>> arrive(const LinkRecord& record);
  Result<void> take_credit(const LinkRecord& record);
  Result<void> take_bulk(const LinkRecord& record);
  Result<void> take_end(StreamId stream);

  SessionLimits limits_;
  LinkRecordReader reader_;
  std::deque<std::string> control_;  // whole records
  std::size_t control_sent_ = 0;     // bytes of the first record that were sent
  std::size_t control_bytes_ = 0;
  bool was_full_ = false;  // has_room() was false since take_room() was true
  std::deque<Chunk> bulk_;
  std::size_t bulk_bytes_ = 0;
  std::unordered_map<StreamId, Out> out_;
  std::unordered_map<StreamId, In> in_;
  std::deque<StreamId> ready_;      // streams whose write was too large, in the order of their writes
  std::vector<StreamId> credited_;  // streams of in_ with unsent credit; some may have ended
  std::vector<StreamId> ended_;     // streams whose end is yet to be confirmed to the other end
  bool finishing_ = false;
  bool finish_filled_ = false;
  bool peer_finished_ = false;
};

}  // namespace nacre::transport
