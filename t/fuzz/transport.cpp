// SPDX-License-Identifier: Apache-2.0
//
// Links behind their handshake. The first byte chooses. Even: the rest is what a peer of this job sends, in
// whatever pieces: no frame above its limit, no bulk beyond its credit, nothing after the last record, and pieces
// make no difference. Odd: the rest are pairs of bytes, each an action of one of two ends of a link: all bytes that
// were taken arrive, in order, and no frame comes behind bulk that was written after it.
#include "transport/link.hpp"

#include "require.hpp"

using namespace nacre;
using namespace nacre::transport;
using nacre::fuzz::require;

namespace {

constexpr std::size_t kMostBytewise = 2048;  // bytes of an input that is fed byte by byte too
constexpr std::size_t kFrameLimit = 2000;
constexpr StreamId kGranted = 4;  // streams
constexpr std::size_t kGrant = 20000;

SessionLimits small_limits() { return {kFrameLimit, 20000, 30000, 8}; }

// ---- what one peer sends ---------------------------------------------------------

class Heard {
 public:
  Heard() {
    for (StreamId stream = 0; stream < kGranted; ++stream) {
      require(exchange_.grant(stream, kGrant).has_value(), "credit within the limits");
      require(exchange_.write(stream, "unasked") == 0, "nothing is taken without credit");
    }
  }

  void receive(std::string_view bytes) {
    if (over_) return;
    exchange_.receive(bytes);
    for (;;) {
      auto arrival = exchange_.next();
      if (!arrival) return fail(arrival.error());
      if (!*arrival) return;
      require(!finished_, "nothing comes after the last record");
      take(**arrival);
    }
  }

  // The answers are whole records, and all are taken for which there is room.
  void answer() {
    while (auto ready = exchange_.next_ready()) {
      require(ready->second > 0, "room is not nothing");
      require(exchange_.write(ready->first, "x") == 1, "who is told of room may write");
    }
    exchange_.finish();
    std::string said;
    exchange_.fill(said, SIZE_MAX);
    LinkRecordReader reader(kFrameLimit);
    reader.add(said);
    bool finished = false;
    for (;;) {
      auto record = reader.next();
      require(record.has_value(), "what is said keeps to the rules");
      if (!*record) break;
      finished = (*record)->kind == LinkRecordKind::finish;
    }
    require(reader.unread() == 0 && finished, "what is said is whole");
  }

  std::string log;

 private:
  void take(const Arrival& arrival) {
    log += fmt::format("{} {} ", static_cast<int>(arrival.kind), arrival.stream);
    log += arrival.bytes;
    if (arrival.kind == Arrival::Kind::frame)
      require(arrival.bytes.size() <= kFrameLimit, "no frame above its limit");
    if (arrival.kind == Arrival::Kind::end) seen_[arrival.stream] = kGrant;  // what was left of its credit is void
    if (arrival.kind == Arrival::Kind::bulk) {
      require(arrival.stream < kGranted && !arrival.bytes.empty(), "no bulk without credit");
      seen_[arrival.stream] += arrival.bytes.size();
      require(seen_[arrival.stream] <= kGrant, "no bulk beyond its credit");
    }
    finished_ = arrival.kind == Arrival::Kind::finish;
  }
  void fail(const Error& error) {
    require(!error.message.empty() && error.message.find('\n') == std::string::npos, "why, in one line");
    log += error.message;
    over_ = true;
  }

  LinkSession exchange_ = LinkSession(small_limits());
  std::map<StreamId, std::size_t> seen_;
  bool finished_ = false;
  bool over_ = false;
};

void hear_all(std::string_view input) {
  Heard whole;
  whole.receive(input);
  whole.answer();
  if (input.size() > kMostBytewise) return;
  Heard bytewise;
  for (std::size_t at = 0; at < input.size(); ++at) bytewise.receive(input.substr(at, 1));
  bytewise.answer();
  require(whole.log == bytewise.log, "pieces make no difference");
}

// ---- two who talk ------------------------------------------------------------------

constexpr std::size_t kMostWritten = 40000;  // bytes at once
constexpr char kEnd = 'Z';                   // of a stream, in the texts below

struct Side {
  LinkSession exchange = LinkSession(small_limits());
  std::deque<std::pair<std::string, std::size_t>> frames;  // sent, not yet arrived; bulk written before
  std::map<StreamId, std::string> written;                 // the bytes of each stream
  std::map<StreamId, std::string> heard;                   // the bytes that have come from the other side
  std::size_t bulk_written = 0;
  std::size_t bulk_heard = 0;
  bool finished = false;
};

class Talk {
 public:
  void deed(unsigned char what, unsigned char how) {
    Side& side = sides_[what >> 7];
    Side& other = sides_[1 - (what >> 7)];
    StreamId stream = (what >> 3) & 3;
    switch (what & 7) {
      case 0: send(side, std::string(how * std::size_t{8}, static_cast<char>('a' + how % 20))); break;
      case 1: write(side, stream, how * std::size_t{97}); break;
      case 2: static_cast<void>(side.exchange.grant(stream, how * std::size_t{150})); break;
      case 3: carry(side, other, how * std::size_t{40} + 1); break;
      case 4: carry(other, side, SIZE_MAX); break;
      case 5:
        if (side.exchange.end(stream)) side.written[stream] += kEnd;
        break;
      case 6: tell_ready(side); break;
      case 7:
        if (how == 7) finish(side);
        break;
    }
    require(side.exchange.queued_bulk() <= small_limits().max_bulk, "the queue of bulk is bounded");
    require(side.exchange.queued_control() <= small_limits().max_control + 2 * kFrameLimit,
            "the queue of frames is bounded");
  }

  void end() {
    for (Side& side : sides_) finish(side);
    for (int round = 0; round < 4; ++round) {
      carry(sides_[0], sides_[1], SIZE_MAX);
      carry(sides_[1], sides_[0], SIZE_MAX);
    }
    for (int i : {0, 1}) {
      require(sides_[i].frames.empty(), "every frame arrives");
      require(sides_[i].exchange.has_finished() && sides_[i].exchange.peer_has_finished(), "both end");
      for (const auto& [stream, text] : sides_[i].written) {
        require(sides_[1 - i].heard[stream] == text, "all that was taken arrives");
      }
    }
  }

 private:
  static void send(Side& side, const std::string& frame) {
    Result<void> sent = side.exchange.send(frame);
    bool may = !side.finished && frame.size() <= kFrameLimit;
    require(may || !sent, "no frame above the limit, none after the last");
    if (sent) side.frames.emplace_back(frame, side.bulk_written);
  }
  static void write(Side& side, StreamId stream, std::size_t size) {
    static const std::string letters = [] {
      std::string out;
      for (std::size_t i = 0; i < kMostWritten + 23; ++i) out += static_cast<char>('a' + i % 23);
      return out;
    }();
    std::string_view text = std::string_view(letters).substr(side.bulk_written % 23, size);
    std::size_t taken = side.exchange.write(stream, text);
    require(taken <= size, "no more is taken than there is");
    side.written[stream] += text.substr(0, taken);
    side.bulk_written += taken;
  }
  static void tell_ready(Side& side) {
    if (auto ready = side.exchange.next_ready()) {
      std::size_t before = side.bulk_written;
      write(side, ready->first, ready->second);
      require(side.bulk_written == before + ready->second, "there is as much room as is told");
    }
  }
  static void finish(Side& side) {
    side.exchange.finish();
    side.finished = true;
  }

  static void carry(Side& from, Side& to, std::size_t target) {
    std::string bytes;
    from.exchange.fill(bytes, target);
    to.exchange.receive(bytes);
    for (;;) {
      auto arrival = to.exchange.next();
      require(arrival.has_value(), "two that keep to the rules understand each other");
      if (!*arrival) return;
      take(from, to, **arrival);
    }
  }
  static void take(Side& from, Side& to, const Arrival& arrival) {
    if (arrival.kind == Arrival::Kind::frame) {
      require(!from.frames.empty() && from.frames.front().first == arrival.bytes, "frames arrive in order");
      require(to.bulk_heard <= from.frames.front().second, "no frame behind bulk that was written after it");
      from.frames.pop_front();
      return;
    }
    if (arrival.kind == Arrival::Kind::finish) return;
    std::string_view piece = arrival.kind == Arrival::Kind::end ? std::string_view(&kEnd, 1) : arrival.bytes;
    std::string& heard = to.heard[arrival.stream];
    const std::string& written = from.written[arrival.stream];
    require(heard.size() <= written.size() && written.compare(heard.size(), piece.size(), piece) == 0,
            "a stream arrives in order");
    heard += piece;
    to.bulk_heard += arrival.bytes.size();
  }

  std::array<Side, 2> sides_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  if (data[0] % 2 == 0) {
    hear_all({reinterpret_cast<const char*>(data) + 1, size - 1});
    return 0;
  }
  Talk talk;
  for (std::size_t at = 1; at + 1 < size; at += 2) talk.deed(data[at], data[at + 1]);
  talk.end();
  return 0;
}
