// SPDX-License-Identifier: Apache-2.0
#include "transport/link.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/bytes.hpp"
#include "base/invariant.hpp"
#include "transport/tls.hpp"

namespace nacre::transport {
namespace {

constexpr std::size_t kLinkRead = std::size_t{64} << 10;  // bytes of one recv(2)
constexpr int kReadsInARow = 4;                           // then other descriptors have their turn
// Calls of on_credit, and of on_room; then other descriptors have their turn
constexpr int kCallsInARow = 16;
constexpr std::size_t kBatch = std::size_t{64} << 10;  // bytes that are made ready for one send(2)
// Bytes that may be in the socket before a control frame
constexpr int kUnsentInSocket = 128 << 10;
constexpr std::size_t kKeptBuffer = std::size_t{16} << 10;  // bytes that an empty buffer keeps

using Sending = std::lock_guard<std::recursive_mutex>;

void empty_buffer(std::string& buffer) {
  buffer.clear();
  if (buffer.capacity() > kKeptBuffer) buffer.shrink_to_fit();
}

}  // namespace

class Link::Busy : Noncopyable {
 public:
  explicit Busy(Link& link) : link_(link) { ++link_.depth_; }
  ~Busy() {
    if (--link_.depth_ == 0 && link_.left_) delete &link_;
  }

 private:
  Link& link_;
};

// ---- start and end -----------------------------------------------------------------

Link::Link(Start start, LinkLimits limits) : session_(limits.session), start_(std::move(start)), limits_(limits) {}

Link::~Link() = default;

Result<OwnedLink> Link::create(event::Loop& loop, Start start, LinkLimits limits) {
  OwnedLink link(new Link(std::move(start), limits));
  Link* raw = link.get();
  raw->set_socket_options();
  raw->poll_ =
      TRY(event::Poll::create(loop, raw->start_.socket.get(), [raw](int events) { raw->on_events(events); }));
  raw->timer_ = TRY(event::Timer::create(loop, [raw] { raw->on_timer(); }));
  raw->out_ = std::exchange(raw->start_.unsent, {});
  return link;
}

void Link::set_socket_options() const {
  // Failure only costs speed. A Unix socket refuses the first two.
  int on = 1;
  int bytes = kUnsentInSocket;
  int socket = start_.socket.get();
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
  if (!start_.tls) ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

void Link::Leave::operator()(Link* link) const {
  link->abort();
  if (link->depth_ > 0)
    link->left_ = true;  // see Busy
  else
    delete link;
}

void Link::abort() {
  Sending sending(sending_);
  closed_ = true;
  poll_.reset();
  timer_.reset();
  start_.socket.reset();
  start_.tls.reset();
}

UniqueFd Link::release() {
  Sending sending(sending_);
  UniqueFd socket = std::move(start_.socket);
  abort();
  return socket;
}

void Link::end_with(const std::optional<Error>& why) {
  if (closed_) return;
  abort();
  if (callbacks_.on_closed) callbacks_.on_closed(why);
}

// ---- reading -----------------------------------------------------------------------

void Link::serve(Callbacks callbacks) {
  callbacks_ = std::move(callbacks);
  serving_ = true;
  if (closed_) return;
  watch(watched_ | event::Poll::kReadable);
  soon();  // bytes may have come with the handshake
}

void Link::on_events(int events) {
  Busy busy(*this);
  if (events == 0) watched_ = 0;
  turn(events != event::Poll::kWritable);
}

void Link::hold(bool is_held) {
  Sending sending(sending_);
  held_ = is_held;
  if (closed_) return;
  watch(0);
  if (!held_) soon();
}

void Link::turn(bool may_read) {
  if (held_) return;
  if (serving_ && may_read) read_some();
  if (!closed_) pump();
  if (!closed_ && serving_) report_room();
  if (!closed_ && serving_) report_credit();
  if (!closed_) settle();
}

void Link::on_timer() {
  Busy busy(*this);
  if (failure_) return fail(*std::exchange(failure_, std::nullopt));
  if (shut_) return end_with(std::nullopt);  // the linger time is over
  turn(true);
}

void Link::read_some() {
  if (!served_start_) {
    served_start_ = true;
    receive(std::exchange(start_.received, {}));
  }
  HeapBuffer<kLinkRead> buffer;
  for (int i = 0; i < kReadsInARow && !closed_; ++i) {
    ssize_t size = ::recv(start_.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) {
      if (broken_ != 0) at_end(broken_);
      return;
    }
    if (size <= 0) return at_end(size < 0 ? errno : 0);
    receive({buffer.data(), static_cast<std::size_t>(size)});
    if (static_cast<std::size_t>(size) < buffer.size() && broken_ == 0) return;
  }
}

void Link::receive(std::string_view bytes) {
  if (start_.tls) {
    do {
      std::string_view piece = bytes.substr(0, Tls::kRecord);
      if (Sending sending(sending_); !piece.empty()) start_.tls->receive(piece);
      bytes.remove_prefix(piece.size());
      decrypt();
    } while (!closed_ && !bytes.empty());
    return;
  }
  session_.receive(bytes);
  dispatch();
}

void Link::decrypt() {
  HeapBuffer<Tls::kRecord> buffer;
  while (!closed_) {
    auto size = [&] {
      Sending sending(sending_);
      return start_.tls->read(buffer.data(), buffer.size());
    }();
    if (!size) return fail(Error(size.error()));
    if (*size == 0) break;
    session_.receive({buffer.data(), *size});
    dispatch();
  }
  if (!closed_ && start_.tls->at_end()) at_end(0);
}

void Link::dispatch() {
  while (!closed_) {
    auto arrival = [this] {
      Sending sending(sending_);
      return session_.next();
    }();
    if (!arrival) return fail(Error(arrival.error()));
    if (!*arrival) return;
    deliver(**arrival);
  }
}

void Link::deliver(const Arrival& arrival) {
  switch (arrival.kind) {
    case Arrival::Kind::frame:
      if (callbacks_.on_frame) callbacks_.on_frame(arrival.bytes);
      return;
    case Arrival::Kind::bulk:
    case Arrival::Kind::end:
      if (callbacks_.on_bulk) callbacks_.on_bulk(arrival.stream, arrival.bytes);
      return;
    case Arrival::Kind::finish:
      if (callbacks_.on_finished) return callbacks_.on_finished();
      finish();
  }
}

// The other end has closed its socket, or the connection broke.
void Link::at_end(int code) {
  if (is_over()) return end_with(std::nullopt);
  if (code != 0) return fail(system_error(code, "the connection broke"));
  fail(Error{ECONNRESET, "hung up before it had finished; did its shell end, or its node?"});
}

// A callback may make more of the same events, so after a few calls others have their turn. `call_one` returns
// false when there is nothing to report.
template <typename F>
void Link::call_in_turns(F call_one) {
  for (int i = 0; i < kCallsInARow && !closed_; ++i) {
    if (!call_one()) return;
    if (!closed_) pump();
  }
  if (!closed_) soon();
}

void Link::report_room() {
  call_in_turns([this] {
    if (Sending sending(sending_); !session_.take_room()) return false;
    if (callbacks_.on_room) callbacks_.on_room();
    return true;
  });
}

void Link::report_credit() {
  call_in_turns([this] {
    auto ready = [this] {
      Sending sending(sending_);
      return session_.next_ready();
    }();
    if (!ready) return false;
    if (callbacks_.on_credit) callbacks_.on_credit(ready->first, ready->second);
    return true;
  });
}

// ---- writing -----------------------------------------------------------------------

template <typename F>
Result<void> Link::pass_to_session(F call) {
  Sending sending(sending_);
  if (closed_) return Error{EPIPE, start_.peer + ": the link is closed"};
  CHECK_OK(in(start_.peer, call()));
  changed();
  return {};
}

Result<void> Link::send(std::string_view frame) {
  return pass_to_session([&] { return session_.send(frame); });
}

Result<void> Link::end(StreamId stream) {
  return pass_to_session([&] { return session_.end(stream); });
}

Result<void> Link::grant(StreamId stream, std::size_t bytes) {
  return pass_to_session([&] { return session_.grant(stream, bytes); });
}

void Link::finish() {
  Sending sending(sending_);
  session_.finish();
  changed();
}

std::size_t Link::queued() const {
  return session_.queued_control() + session_.queued_bulk() + out_.size() - sent_;
}

void Link::changed() {
  if (closed_ || depth_ > 0) return;  // flushed at the end of this round of events, together with what else is sent
  pump();
  settle();
  if (session_.owes_room()) soon();
}

std::size_t Link::write(StreamId stream, std::string_view bytes) {
  Sending sending(sending_);
  if (closed_) return 0;
  std::size_t taken = 0;
  do {
    std::size_t more = session_.write(stream, bytes.substr(taken));
    if (more == 0) break;
    taken += more;
    changed();
  } while (taken < bytes.size() && depth_ == 0);
  return taken;
}

void Link::pump() {
  Sending sending(sending_);
  if (held_) return;
  bool went_well = broken_ == 0 && !failure_;
  if (!flush()) return watch(watched_ | event::Poll::kWritable);
  if (went_well && (broken_ != 0 || failure_)) soon();
  if (broken_ != 0 || sent_ == out_.size()) {
    empty_buffer(out_);
    empty_buffer(plain_);
    sent_ = 0;
  }
  watch(watched_ & ~event::Poll::kWritable);
}

// False: the socket takes no more for now.
bool Link::flush() {
  while (broken_ == 0 && !failure_) {
    if (sent_ == out_.size() && !refill()) break;
    ssize_t size =
        ::send(start_.socket.get(), out_.data() + sent_, out_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size >= 0) {
      sent_ += static_cast<std::size_t>(size);
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return false;
    broken_ = errno;  // reported once all that has come is read
  }
  return true;
}

// Leaves the watchers alone, which are the loop's: it finds later what this has left or has found broken.
void Link::send_beside(std::string_view frame) {
  Sending sending(sending_);
  if (closed_ || held_ || broken_ != 0 || failure_) return;
  bool waits = sent_ < out_.size() || session_.queued_control() > 0;
  if (waits || session_.send(frame)) flush();
}

bool Link::refill() {
  out_.clear();
  sent_ = 0;
  if (!start_.tls) return session_.fill(out_, kBatch);
  plain_.clear();
  session_.fill(plain_, kBatch);
  if (auto done = start_.tls->write(plain_, out_); !done) {
    failure_ = done.error();
    return false;
  }
  start_.tls->take_output(out_);  // TLS may have bytes of its own to send
  return !out_.empty();
}

void Link::watch(int events) {
  if (held_)
    events = 0;
  else if (serving_)
    events |= event::Poll::kReadable;
  if (events == watched_) return;
  watched_ = events;
  if (events == 0) return poll_->stop();
  if (auto done = poll_->start(events); !done) {
    failure_ = done.error();
    soon();
  }
}

// Once both ends have finished, each shuts its side down and waits for the other to do so: closing while bytes are
// on their way here would discard the last ones that were sent.
void Link::settle() {
  Sending sending(sending_);
  if (held_ || shut_ || !is_over()) return;
  shut_ = true;
  ::shutdown(start_.socket.get(), SHUT_WR);
  timer_->start_grace(limits_.linger);
}

bool Link::is_over() const {
  return session_.has_finished() && session_.peer_has_finished() && sent_ == out_.size() && broken_ == 0;
}

void Link::soon() {
  if (!shut_) timer_->start(event::Seconds::zero());
}

// ---- what this end sends --------------------------------------------------------

Result<void> LinkSession::send(std::string_view frame) {
  if (finishing_) return Error{EPIPE, "a frame after the last one"};
  if (frame.size() > limits_.max_frame) {
    return Error{EMSGSIZE,
                 fmt::format("a frame of {} bytes; at most {} are allowed", frame.size(), limits_.max_frame)};
  }
  if (control_bytes_ + frame.size() > limits_.max_control) {
    return Error{ENOBUFS, fmt::format("the other end has not taken {} bytes of control frames; {} may wait",
                                      control_bytes_, limits_.max_control)};
  }
  std::string record;
  record.reserve(kRecordHead + frame.size());
  append_frame_head(record, frame.size());
  record += frame;
  control_bytes_ += record.size();
  control_.push_back(std::move(record));
  was_full_ = was_full_ || !has_room();
  return {};
}

std::size_t LinkSession::room() const { return limits_.max_bulk - std::min(limits_.max_bulk, bulk_bytes_); }

std::size_t LinkSession::write(StreamId stream, std::string_view bytes) {
  if (finishing_ || bytes.empty()) return 0;
  Out& out = out_[stream];
  if (out.ended) return 0;
  std::size_t taken = std::min({bytes.size(), out.credit, room()});
  enqueue(stream, bytes.substr(0, taken));
  out.credit -= taken;
  out.waits = taken < bytes.size();
  if (out.waits && out.credit > 0) make_ready(stream, out);
  return taken;
}

void LinkSession::enqueue(StreamId stream, std::string_view bytes) {
  bulk_bytes_ += bytes.size();
  while (!bytes.empty()) {
    bool joins = !bulk_.empty() && bulk_.back().stream == stream && !bulk_.back().is_end &&
                 bulk_.back().bytes.size() < kMaxChunk;
    if (!joins) bulk_.push_back({stream, false, {}});
    std::string& chunk = bulk_.back().bytes;
    std::size_t size = std::min(bytes.size(), kMaxChunk - chunk.size());
    chunk += bytes.substr(0, size);
    bytes.remove_prefix(size);
  }
}

Result<void> LinkSession::end(StreamId stream) {
  if (finishing_) return Error{EPIPE, "the end of a stream after the last frame"};
  Out& out = out_[stream];
  if (out.ended) return Error{EALREADY, fmt::format("stream {} has ended before", stream)};
  out.ended = true;
  bulk_.push_back({stream, true, {}});
  return {};
}

Result<void> LinkSession::grant(StreamId stream, std::size_t bytes) {
  if (bytes == 0) return {};
  auto found = in_.find(stream);
  if (found == in_.end()) {
    if (in_.size() >= limits_.max_streams) {
      return Error{EMFILE, fmt::format("credit for more than {} streams", limits_.max_streams)};
    }
    found = in_.emplace(stream, In{}).first;
  }
  In& in = found->second;
  if (bytes > kMaxCredit - in.granted) {
    return Error{ERANGE, fmt::format("credit of {} bytes for stream {}, which has {}; {} are allowed", bytes,
                                     stream, in.granted, kMaxCredit)};
  }
  if (in.unsent == 0) credited_.push_back(stream);
  in.granted += bytes;
  in.unsent += static_cast<std::uint32_t>(bytes);
  return {};
}

std::size_t LinkSession::credit(StreamId stream) const {
  auto found = out_.find(stream);
  return found == out_.end() ? 0 : found->second.credit;
}

// ---- the order of sending --------------------------------------------------------

bool LinkSession::fill(std::string& out, std::size_t target) {
  std::size_t before = out.size();
  while (out.size() < target) {
    std::size_t size = out.size();
    if (control_sent_ == 0) fill_notices(out);  // not into the middle of a frame
    if (!control_.empty()) {
      fill_control(out, target);
    } else if (!bulk_.empty()) {
      fill_chunk(out);
    }
    if (out.size() == size) break;
  }
  if (finishing_ && !finish_filled_ && control_.empty() && bulk_.empty()) {
    append_finish(out);
    finish_filled_ = true;
  }
  return out.size() > before;
}

void LinkSession::fill_notices(std::string& out) {
  for (StreamId stream : ended_) append_stream_record(out, LinkRecordKind::ended, stream);
  ended_.clear();
  for (StreamId stream : credited_) {
    auto found = in_.find(stream);
    if (found == in_.end() || found->second.unsent == 0) continue;
    append_credit(out, stream, std::exchange(found->second.unsent, 0));
  }
  credited_.clear();
}

void LinkSession::fill_control(std::string& out, std::size_t target) {
  const std::string& first = control_.front();
  std::size_t size = std::min(first.size() - control_sent_, target - std::min(target, out.size()));
  out.append(first, control_sent_, size);
  control_sent_ += size;
  INVARIANT(control_bytes_ >= size);
  control_bytes_ -= size;
  if (control_sent_ < first.size()) return;
  control_.pop_front();
  control_sent_ = 0;
}

void LinkSession::fill_chunk(std::string& out) {
  const Chunk& chunk = bulk_.front();
  if (chunk.is_end) {
    append_stream_record(out, LinkRecordKind::end, chunk.stream);
  } else {
    append_bulk_head(out, chunk.stream, chunk.bytes.size());
    out += chunk.bytes;
    INVARIANT(bulk_bytes_ >= chunk.bytes.size());
    bulk_bytes_ -= chunk.bytes.size();
  }
  bulk_.pop_front();
}

void LinkSession::make_ready(StreamId stream, Out& out) {
  if (!std::exchange(out.in_ready, true)) ready_.push_back(stream);
}

std::optional<std::pair<StreamId, std::size_t>> LinkSession::next_ready() {
  while (!ready_.empty() && room() > 0 && !finishing_) {
    StreamId stream = ready_.front();
    ready_.pop_front();
    auto found = out_.find(stream);
    if (found == out_.end()) continue;
    Out& out = found->second;
    out.in_ready = false;
    if (out.ended || out.credit == 0 || !std::exchange(out.waits, false)) continue;
    return std::pair(stream, std::min(out.credit, room()));
  }
  return std::nullopt;
}

// ---- what the other end sends ----------------------------------------------------

Result<std::optional<Arrival>> LinkSession::next() {
  for (;;) {
    std::optional<LinkRecord> record = TRY(reader_.next());
    if (!record) return std::optional<Arrival>();
    std::optional<Arrival> arrival = TRY(arrive(*record));
    if (arrival) return arrival;
  }
}

Result<std::optional<Arrival>> LinkSession::arrive(const LinkRecord& record) {
  bool is_notice = record.kind == LinkRecordKind::credit || record.kind == LinkRecordKind::ended;
  if (peer_finished_ && !is_notice) {
    return Error{EPROTO, fmt::format("a record of kind {} after the last one", static_cast<unsigned>(record.kind))};
  }
  switch (record.kind) {
    case LinkRecordKind::frame: return std::optional(Arrival{Arrival::Kind::frame, 0, record.body});
    case LinkRecordKind::bulk:
      CHECK_OK(take_bulk(record));
      return std::optional(Arrival{Arrival::Kind::bulk, record.stream, record.body});
    case LinkRecordKind::end:
      CHECK_OK(take_end(record.stream));
      return std::optional(Arrival{Arrival::Kind::end, record.stream, {}});
    case LinkRecordKind::credit: CHECK_OK(take_credit(record)); break;
    case LinkRecordKind::ended:
      if (auto found = out_.find(record.stream); found != out_.end() && found->second.ended) out_.erase(found);
      break;
    case LinkRecordKind::finish: peer_finished_ = true; return std::optional(Arrival{Arrival::Kind::finish, 0, {}});
  }
  return std::optional<Arrival>();
}

Result<void> LinkSession::take_credit(const LinkRecord& record) {
  auto found = out_.find(record.stream);
  if (found == out_.end()) {
    if (out_.size() >= limits_.max_streams) {
      return Error{EPROTO, fmt::format("credit for more than {} streams", limits_.max_streams)};
    }
    found = out_.emplace(record.stream, Out{}).first;
  }
  Out& out = found->second;
  if (record.credit > kMaxCredit - out.credit) {
    return Error{EPROTO, fmt::format("credit of {} bytes for stream {}, which has {}; {} are allowed",
                                     record.credit, record.stream, out.credit, kMaxCredit)};
  }
  out.credit += record.credit;
  if (out.waits) make_ready(record.stream, out);
  return {};
}

Result<void> LinkSession::take_bulk(const LinkRecord& record) {
  auto found = in_.find(record.stream);
  std::size_t granted = found == in_.end() ? 0 : found->second.granted;
  if (record.body.size() > granted) {
    return Error{EPROTO, fmt::format("{} bytes of stream {}, which has credit for {}", record.body.size(),
                                     record.stream, granted)};
  }
  found->second.granted -= record.body.size();
  return {};
}

Result<void> LinkSession::take_end(StreamId stream) {
  if (ended_.size() >= limits_.max_streams) {
    return Error{EPROTO, fmt::format("{} streams ended, and no notice of it is taken", ended_.size())};
  }
  in_.erase(stream);
  ended_.push_back(stream);
  return {};
}

}  // namespace nacre::transport
