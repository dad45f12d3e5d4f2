// SPDX-License-Identifier: Apache-2.0
//
// Values that are too large for the log.
#include "overlay/node.hpp"

#include "catch.hpp"

#include "bench.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::overlay;  // NOLINT

namespace {

constexpr std::size_t kLogged = 8;

Result<Bytes> first_bytes(std::string_view bytes) {
  Bytes out(bytes.substr(0, kDigest));
  out.resize(kDigest);
  return out;
}

OverlayOptions options(Id self, std::uint32_t members) {
  OverlayOptions out = Bench::options(self, members, false);
  out.max_logged = kLogged;
  out.digest = first_bytes;
  return out;
}

// A member that is fed by its leader.
struct Fed {
  Fed() {
    node.tick(seconds(1000));
    node.linked({0, Side::up});
    say(Welcome{0, 0, {}, 3});
    static_cast<void>(node.take_effects());
  }
  void say(Body body) { node.step({0, Side::up}, {77, 3, std::move(body)}); }
  void promise(Seq seq, const char* name, Scope scope = {}) {
    say(Entry{seq, {}, Promise{name, scope, Merge::set, value.size(), first_bytes(value).value()}});
  }
  // The effects that are about values.
  std::string told() {
    std::string out;
    for (const Effect& each : node.take_effects()) {
      if (const auto* released = std::get_if<Released>(&each)) {
        bool fits = released->value == Value(Unique{Bytes(20, 'x')});
        out += released->name + (fits ? " " : " with another value ");
      }
      if (const auto* unfit = std::get_if<Unfit>(&each)) out += unfit->name + ": " + unfit->why + " ";
    }
    return out;
  }

  Bytes value = encode_value(Unique{Bytes(20, 'x')});
  Node node{options(1, 2)};
};

// A leader and the members below it, until all have entered; returns what it has asked for.
std::string asked(Id newcomer, Merge merge, const Own& part) {
  Node node(options(0, 1));
  node.tick(seconds(1000));
  if (newcomer != 0) {
    node.linked({newcomer, Side::down});
    node.step({newcomer, Side::down}, {77, 3, Hello{newcomer, Standing::joining, 0, 0, "h", {}}});
    node.request(Grow{Idset::range(newcomer, newcomer), 1000}).value();
    Bytes bytes = encode_value(value_of(merge, newcomer, part).value());
    node.step({newcomer, Side::down},
              {77, 3, Up{1, 1, {}, {}, {}, {}, {{"c", {}, merge, 0, bytes.size(), bytes}}}});
  }
  REQUIRE(node.enter("c", merge, part));
  std::string out;
  for (const Effect& each : node.take_effects()) {
    if (const auto* deliver = std::get_if<Deliver>(&each)) {
      const EntryBody& body = node.entry(deliver->seq)->body;
      if (std::holds_alternative<Promise>(body)) out += "promise ";
      if (std::holds_alternative<Release>(body)) out += "release ";
    }
    if (const auto* publish = std::get_if<Publish>(&each)) {
      out += fmt::format("publish {} of {} ", publish->value.size(), publish->entry);
    }
    if (std::holds_alternative<Released>(each)) out += "released ";
  }
  return out;
}

}  // namespace

TEST_CASE("a large value is promised by the log and published beside it, a small one is of the log") {
  CHECK(asked(0, Merge::set, Bytes(20, 'x')) == "promise publish 22 of 1 released ");
  CHECK(asked(0, Merge::set, Bytes(2, 'x')) == "release released ");
}

TEST_CASE("what a newcomer takes part in is of the log, however large") {
  CHECK(asked(5, Merge::set, Bytes(20, 'x')).find("promise") == std::string::npos);
  CHECK(asked(5, Merge::set, Bytes(20, 'x')).find("release ") != std::string::npos);
}

TEST_CASE("a member has a value once it is promised and has arrived, whichever comes first") {
  Fed fed;
  REQUIRE(fed.node.enter("a", Merge::set, Bytes(20, 'x')));
  fed.promise(1, "a");
  CHECK(fed.node.collectives().empty());
  CHECK(fed.told().empty());
  fed.node.arrived(1, fed.value);
  CHECK(fed.told() == "a ");
  fed.node.arrived(2, fed.value);
  fed.node.arrived(3, fed.value);
  CHECK(fed.told().empty());
  fed.promise(2, "b");
  CHECK(fed.told() == "b ");
  fed.promise(3, "c");
  CHECK(fed.told() == "c ");
  fed.node.arrived(3, fed.value);  // once
  CHECK(fed.told().empty());
}

TEST_CASE("values may arrive in another order than they were promised") {
  Fed fed;
  fed.promise(1, "a");
  fed.promise(2, "b");
  fed.node.arrived(2, fed.value);
  CHECK(fed.told() == "b ");
  fed.node.arrived(1, fed.value);
  CHECK(fed.told() == "a ");
}

TEST_CASE("a value that is not for this member is let go") {
  Fed fed;
  fed.promise(1, "a", {1, 1});
  fed.node.arrived(1, fed.value);
  fed.node.arrived(2, fed.value);
  fed.promise(2, "b", {1, 1});
  CHECK(fed.told().empty());
}

TEST_CASE("a value that is not what was promised is an error that names the collective") {
  Fed fed;
  fed.promise(1, "a");
  Bytes other = fed.value;
  other[3] = 'y';
  fed.node.arrived(1, other);
  CHECK(fed.told() == "a: it has another digest than was announced ");
  fed.promise(2, "b");
  fed.node.arrived(2, fed.value + "z");
  CHECK(fed.told() == "b: 23 bytes have come; 22 were announced ");
}

TEST_CASE("a leader that can make no digest sends the value in the log") {
  OverlayOptions mine = options(0, 1);
  mine.digest = [](std::string_view) -> Result<Bytes> { return invalid("no libcrypto"); };
  Node node(mine);
  node.tick(seconds(1000));
  REQUIRE(node.enter("c", Merge::set, Bytes(20, 'x')));
  REQUIRE(node.applied() == 1);
  CHECK(std::holds_alternative<Release>(node.entry(1)->body));
}
