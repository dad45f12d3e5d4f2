// SPDX-License-Identifier: Apache-2.0
//
// Whatever comes over the bulk streams of a link: it is refused, or it is the one encoding of a record or note; a
// node that hears it goes on, holds no more than its bounds, and what it writes can be read.
//
// The input is a byte that says who listens, then bytes as they come: each piece after a byte that says over which
// link and stream, and one that says how long it is.

#include "bulk/node.hpp"
#include "require.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::bulk;  // NOLINT
using nacre::fuzz::require;

namespace {

constexpr Id kChildren = 3;  // 1, 2, 3
constexpr Id kAbove = 9;

Limits tiny() {
  Limits out;
  out.record = 20;
  out.window = out.broadcast = out.link = 200;
  out.write = 60;
  out.origins = 50;
  return out;
}

Direction way_of(Side side) { return side == Side::up ? Direction::up : Direction::down; }

// One encoding, and pieces make no difference.
void check_readers(Direction way, std::string_view input) {
  BulkRecordReader records(way, 20);
  records.add(input);
  for (auto next = records.next(); next && *next; next = records.next()) {
    std::string again;
    append_record(again, (*next)->head, (*next)->bytes);
    require(again == (*next)->whole, "one encoding of a record");
  }
  NoteReader notes(way);
  notes.add(input);
  std::string again;
  for (auto next = notes.next(); next && *next; next = notes.next()) append_note(again, **next);
  require(input.substr(0, again.size()) == again, "one encoding of a note");
}

class Listener {
 public:
  explicit Listener(unsigned char what) : node_({what % 2 == 0 ? 0U : 5U, (what & 2U) != 0, tiny(), {1, 2}}) {
    node_.view(1, {1, 2});
    node_.up(kAbove);
    for (Id id = 1; id <= kChildren; ++id) node_.child_up(id);
    settle();
  }

  void receive(unsigned char where, std::string_view bytes) {
    Id id = where % 4;
    LinkName from = id == 0 ? LinkName{kAbove, Side::up} : LinkName{id, Side::down};
    deeds(where);
    auto done = node_.received(from, (where & 64U) != 0 ? kNotes : kRecords, bytes);
    settle();
    if (done) return;
    require(done.error().message.find("bulk: shell ") == 0, "an error that names the shell");
    require(id == 0 || node_.received(from, kNotes, "x").has_value(), "a link that broke the rules is gone");
    id == 0 ? node_.up(kAbove) : node_.child_up(id);
    settle();
  }

 private:
  void deeds(unsigned char where) {
    if ((where & 16U) != 0) (void)node_.put(where, "something");
    if ((where & 32U) != 0 && node_.leads()) (void)node_.broadcast(where, "something");
    if ((where & 48U) == 48U) {
      (void)node_.end(where % 8);
      (void)node_.end_broadcast(where % 8);
    }
    if ((where & 128U) != 0) node_.view(++view_, {1, 2, 3});
    if ((where & 80U) == 80U) node_.waited();
    if ((where & 12U) != 12U) return;
    for (const auto& [origin, number] : delivered_) node_.taken(origin, number);
    node_.consumed(announced_);
  }

  void settle() {
    for (bool more = true; more;) {
      auto effects = node_.take_effects();
      more = !effects.empty();
      for (const BulkEffect& each : effects) perform(each);
    }
    Limits limits = tiny();
    require(node_.own_bytes() <= limits.window + 8 * kHead, "own records below their bound");
    require(node_.broadcast_bytes() <= limits.broadcast + kMaxBroadcastChannels * kHead, "a bounded broadcast");
    for (Id id = 1; id <= kChildren; ++id) require(node_.child_bytes(id) <= limits.link, "a bounded child");
  }

  void perform(const BulkEffect& effect) {
    if (const auto* write = std::get_if<Write>(&effect)) {
      require(!write->bytes.empty(), "a Write has bytes");
      check_readers(way_of(write->to.side), write->bytes);
      node_.written(write->to, write->stream);
    } else if (const auto* deliver = std::get_if<DeliverRecord>(&effect)) {
      require(node_.leads() && deliver->number == ++delivered_[deliver->origin], "each record once, in order");
    } else if (const auto* announce = std::get_if<Announce>(&effect)) {
      require(announce->number >= announced_, "the broadcast in order");
      announced_ = announce->number;
    }
  }

  BulkNode node_;
  std::map<Id, Numbered> delivered_;
  Numbered announced_ = 0;
  ViewNumber view_ = 1;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  for (Direction way : {Direction::up, Direction::down}) check_readers(way, input);
  Listener listener(data[0]);
  while (input.size() >= 2) {
    auto where = static_cast<unsigned char>(input[0]);
    std::size_t length = static_cast<unsigned char>(input[1]);
    input.remove_prefix(2);
    std::string_view piece = input.substr(0, length);
    listener.receive(where, piece);
    input.remove_prefix(piece.size());
  }
  return 0;
}
