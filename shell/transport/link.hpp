// SPDX-License-Identifier: Apache-2.0
//
// A connection to another shell that has proved to be of this job. It carries control frames, which never wait for
// bulk, and bulk in streams, each of which may send as much as its reader has granted credit for. A Listener or a
// Dialer makes it.
//
// Control frames arrive whole, in order, and never behind bulk that was written after them; of the bulk that was
// written before, only what the sockets already hold (some 200 KB) goes first.
#pragma once

#include <mutex>

#include "base/unique_fd.hpp"
#include "event/loop.hpp"
#include "transport/wire.hpp"

namespace nacre::transport {

// One end of a link without its socket: what is to be sent, in which order, and what has come. Control frames go
// before all bulk that waits. Bulk goes in chunks, as far as the other end has granted credit for its stream; what
// is queued here is bounded too. Each end closes with finish(): after it that end sends nothing of its owner's, but
// still grants credit, so that the other end can send the rest.

using StreamId = std::uint32_t;

struct SessionLimits {
  std::size_t max_frame = kMaxFrame;  // bytes
  // Bytes of frames that wait; two more frames may be added
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
  void finish() { finishing_ = true; }

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

class Tls;

struct LinkLimits {
  SessionLimits session;
  event::Seconds linger{5};  // how long the other end may take to close, once both have sent all
};

class Link : Noncopyable {
 public:
  // Called from the loop, never from within a call of a member. Each may call members, and destroy the link.
  struct Callbacks {
    std::function<void(std::string_view frame)> on_frame;
    std::function<void(StreamId, std::string_view bytes)> on_bulk;  // "": the stream's end, once
    // A stream whose last write() was not taken as a whole has room for this many bytes.
    std::function<void(StreamId, std::size_t room)> on_credit;
    // has_room() was false, and is true now.
    std::function<void()> on_room;
    // The other end will send nothing more; what this end sends still reaches it. If this is unset, this end
    // finishes too.
    std::function<void()> on_finished;
    // The last callback, called once. None: both ends have finished. Otherwise one line that starts with the peer's
    // address.
    std::function<void(const std::optional<Error>& why)> on_closed;
  };

  // What a handshake hands over.
  struct Start {
    UniqueFd socket;           // connected, non-blocking
    std::string peer;          // its address, for messages
    std::unique_ptr<Tls> tls;  // none: plain, on a Unix socket
    std::string received;      // plain bytes that came with the handshake
    std::string unsent;        // output of the handshake that is still to be sent
  };
  // Destroys a link, like abort(). If one of its callbacks runs, the link is freed after that.
  struct Leave {
    void operator()(Link* link) const;
  };
  static Result<std::unique_ptr<Link, Leave>> create(event::Loop& loop, Start start, LinkLimits limits);

  // Starts reading. Has to be called once.
  void serve(Callbacks callbacks);

  Result<void> send(std::string_view frame);  // EMSGSIZE, ENOBUFS, EPIPE: see LinkSession
  // True while few frames wait here, so that one more does not delay others.
  [[nodiscard]] bool has_room() const { return session_.has_room(); }
  // Returns how many bytes were taken: as many as credit and room allow. If not all, on_credit is called when there
  // is more.
  std::size_t write(StreamId stream, std::string_view bytes);
  Result<void> end(StreamId stream);
  Result<void> grant(StreamId stream, std::size_t bytes);  // how many more bytes of a stream the other end may send
  void finish();                     // closes after all that was taken, when the other end has finished too
  void abort();                      // closes at once; on_closed is not called
  [[nodiscard]] UniqueFd release();  // as abort(), but the socket stays open: the other end notices nothing
  // Sends a frame from another thread, while the loop's thread stands still in a callback. If earlier bytes still
  // wait, it sends those instead. The caller sees to it that the link lives meanwhile.
  void send_beside(std::string_view frame);
  // While held nothing is sent and nothing is read, as if the network between the ends was cut; what is sent
  // meanwhile waits. For rehearsals.
  void hold(bool is_held);

  [[nodiscard]] const std::string& peer() const { return start_.peer; }
  [[nodiscard]] bool is_closed() const { return closed_; }
  [[nodiscard]] std::size_t queued() const;  // frames and bulk that wait here, in bytes

 private:
  class Busy;  // while callbacks may run
  Link(Start start, LinkLimits limits);
  ~Link();
  void set_socket_options() const;

  void on_events(int events);
  void on_timer();
  void turn(bool may_read);
  void read_some();
  void receive(std::string_view bytes);
  void decrypt();
  void dispatch();
  void deliver(const Arrival& arrival);
  template <typename F>
  void call_in_turns(F call_one);
  void report_room();
  void report_credit();
  void at_end(int code);

  template <typename F>
  Result<void> pass_to_session(F call);
  void changed();  // the session has more to send
  void pump();
  bool flush();
  bool refill();
  void watch(int events);
  [[nodiscard]] bool is_over() const;  // both ends have finished, and all is in the socket
  void settle();
  void soon();
  void fail(Error error) { end_with(in(start_.peer, std::move(error))); }
  void end_with(const std::optional<Error>& why);

  // Held while the session, TLS or the socket is used to send, but never while a callback runs.
  std::recursive_mutex sending_;
  LinkSession session_;
  Start start_;
  LinkLimits limits_;
  Callbacks callbacks_;
  std::optional<event::Poll> poll_;
  std::optional<event::Timer> timer_;
  std::string plain_;  // still to be encrypted
  std::string out_;    // still to go to the socket
  std::size_t sent_ = 0;
  int watched_ = 0;               // event::Poll::Events
  int depth_ = 0;                 // callbacks that may be running
  int broken_ = 0;                // the errno with which writing ended
  std::optional<Error> failure_;  // to be reported from the loop
  bool serving_ = false;
  bool held_ = false;
  bool served_start_ = false;  // the bytes that came with the handshake have been read
  bool closed_ = false;
  bool left_ = false;
  bool shut_ = false;  // both ends have finished, and the socket's sending side is shut down
};

using OwnedLink = std::unique_ptr<Link, Link::Leave>;

}  // namespace nacre::transport
