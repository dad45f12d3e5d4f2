// SPDX-License-Identifier: Apache-2.0
//
// Whatever comes over a link: it is refused, or it is the one encoding of a message; and a node that hears it goes
// on.
//
// The input is a byte of options, then frames as they come over links of one node. The first byte of each frame
// that is not a message says which link it came on next; the node's time goes on with each.
#include "overlay/node.hpp"

#include "base/bytes.hpp"
#include "overlay/wire.hpp"
#include "require.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT
using nacre::fuzz::require;

namespace {

constexpr std::uint32_t kMembers = 7;

class Listener {
 public:
  explicit Listener(unsigned char what) : node_(options(what)), job_(node_.options().job) {
    node_.tick(now_);
    for (Id id = 0; id < kMembers; ++id) {
      node_.linked({id, Side::up});
      node_.linked({id, Side::down});
    }
    settle();
  }

  void receive(const Message& message, unsigned char where) {
    now_ += milliseconds(where);
    node_.tick(now_);
    settle();
    LinkName link{where % kMembers, where & 128U ? Side::up : Side::down};
    if ((where & 64U) != 0) node_.linked(link);
    Message ours = message;
    ours.job = job_;
    ours.term = node_.options().term;
    if (is_too_big(ours)) return;
    Seq before = node_.applied();
    node_.step(link, ours);
    settle();
    require(node_.applied() >= before, "the log does not shrink");
  }

 private:
  static OverlayOptions options(unsigned char what) {
    OverlayOptions out;
    out.job = 1;
    out.self = what % 3;
    out.members = kMembers;
    out.arity = 2;
    out.newcomer = (what & 128U) != 0 && out.self != 0;
    return out;
  }

  // What a member that is trusted may ask for, and what would only cost time here.
  static bool is_too_big(const Message& message) {
    constexpr std::uint64_t kMost = 1000;
    auto many = [](const Idset& ids) { return ids.size() > kMost; };
    if (const auto* request = std::get_if<Request>(&message.body)) {
      if (const auto* shrink = std::get_if<Shrink>(&request->body)) return many(shrink->leave);
      if (const auto* grow = std::get_if<Grow>(&request->body)) return many(grow->add);
      if (const auto* exec = std::get_if<Exec>(&request->body)) {
        for (const RankShare& each : exec->map) {
          if (many(each.ranks)) return true;
        }
      }
    }
    if (const auto* hello = std::get_if<Hello>(&message.body)) return many(hello->suspects);
    if (const auto* up = std::get_if<Up>(&message.body)) return many(up->suspects) || many(up->gone);
    if (const auto* welcome = std::get_if<Welcome>(&message.body)) {
      return welcome->snapshot && welcome->snapshot->size > kMost;
    }
    const auto* entry = std::get_if<Entry>(&message.body);
    if (entry == nullptr) return false;
    if (const auto* view = std::get_if<View>(&entry->body)) return many(view->leave) || many(view->dead);
    return false;
  }

  // What is sent can be read.
  void settle() {
    for (const Effect& each : node_.take_effects()) {
      if (const auto* said = std::get_if<Send>(&each)) {
        auto bytes = encode(said->message);
        require(bytes && decode(*bytes) && decode(*bytes).value() == said->message, "a message that can be read");
      } else if (const auto* entry = std::get_if<SendEntry>(&each)) {
        require(node_.entry(entry->seq) != nullptr, "an entry that is there");
      }
    }
  }

  Time now_ = seconds(1);
  Node node_;
  std::uint64_t job_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size == 0) return 0;
  std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  Listener listener(data[0]);
  (void)decode(input);
  unsigned char where = data[0];
  for (std::string_view rest = input; rest.size() > sizeof(std::uint32_t);) {
    auto length = take_number<std::uint32_t>(rest);
    std::string_view frame = rest.substr(0, length);
    rest.remove_prefix(frame.size());
    auto message = decode(frame);
    if (message) {
      require(encode(*message).value() == frame, "one encoding of a message");
      listener.receive(*message, where);
      where = static_cast<unsigned char>(where * 5 + 77);
    } else {
      where = frame.empty() ? 0 : static_cast<unsigned char>(frame[0]);
    }
  }
  for (Merge merge : {Merge::gather, Merge::max, Merge::sum, Merge::set}) {
    auto value = decode_value(merge, input);
    require(!value || encode_value(*value) == input, "one encoding of a value");
  }
  return 0;
}
