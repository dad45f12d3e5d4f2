// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "pmi/key_exchange.hpp"
#include "pmi/kvs.hpp"

using namespace nacre;
using namespace nacre::pmi;  // NOLINT

namespace {

// Two nodes that hear of each change in one order, when the test wants it.
struct Nodes {
  struct Change {
    std::string name;
    std::optional<std::string> port;
  };

  Nodes() {
    for (pmi::Names* each : {&a, &b}) {
      each->when_changed([this](std::string_view name, const std::optional<std::string_view>& port) {
        told.push_back({std::string(name), port ? std::optional(std::string(*port)) : std::nullopt});
      });
    }
  }
  void hear_all() {
    for (; !told.empty(); told.pop_front()) {
      const Change& change = told.front();
      for (pmi::Names* each : {&a, &b}) each->changed(change.name, change.port);
    }
  }
  std::string ports_of(std::string_view name) const {
    auto port = [&](const pmi::Names& names) { return std::string(names.look_up(name).value_or("none")); };
    return port(a) + " " + port(b);
  }

  pmi::Names a, b;
  std::deque<Change> told;
};

}  // namespace

TEST_CASE("a name is there at once on its own node, and on the others when they have heard of it") {
  Nodes nodes;
  CHECK(nodes.a.publish("s", "1"));
  CHECK_FALSE(nodes.a.publish("s", "2"));
  CHECK(nodes.ports_of("s") == "1 none");
  nodes.hear_all();
  CHECK(nodes.ports_of("s") == "1 1");
  CHECK_FALSE(nodes.b.publish("s", "2"));
  CHECK(nodes.b.unpublish("s"));
  CHECK(nodes.ports_of("s") == "1 none");
  nodes.hear_all();
  CHECK(nodes.ports_of("s") == "none none");
  CHECK_FALSE(nodes.a.unpublish("s"));
  CHECK(nodes.a.publish("s", "3"));
  nodes.hear_all();
  CHECK(nodes.ports_of("s") == "3 3");
}

TEST_CASE("of two nodes that publish a name at once the first that is heard has it, on both") {
  Nodes nodes;
  CHECK(nodes.b.publish("s", "b"));
  CHECK(nodes.a.publish("s", "a"));
  CHECK(nodes.ports_of("s") == "a b");
  nodes.hear_all();
  CHECK(nodes.ports_of("s") == "b b");
}

TEST_CASE("names that are forgotten at one place in the order are free on both nodes") {
  Nodes nodes;
  CHECK(nodes.a.publish("s", "1"));
  nodes.hear_all();
  nodes.a.forget();
  nodes.b.forget();
  CHECK(nodes.ports_of("s") == "none none");
  CHECK(nodes.a.bytes() + nodes.b.bytes() == 0);
  CHECK(nodes.b.publish("s", "2"));
  nodes.hear_all();
  CHECK(nodes.ports_of("s") == "2 2");
}

TEST_CASE("a name that is taken back and published again is there in the end") {
  Nodes nodes;
  CHECK(nodes.a.publish("s", "1"));
  CHECK(nodes.a.unpublish("s"));
  CHECK(nodes.a.publish("s", "2"));
  nodes.hear_all();
  CHECK(nodes.ports_of("s") == "2 2");
}

TEST_CASE("keys and values come back from bytes as they were") {
  Entries entries{
      {"key", "value"}, {"", ""}, {"k=1", std::string("a\0\n\xff", 4)}, {"long", std::string(70'000, 'x')}};
  CHECK(decode_entries(encode_entries(entries)).value() == entries);
  CHECK(decode_entries("").value().empty());
  CHECK(encode_entries({{"ab", "c"}}) == std::string("\0\0\0\2ab\0\0\0\1c", 11));
}

TEST_CASE("bytes that are no keys are refused") {
  std::string whole = encode_entries({{"ab", "c"}});
  for (std::size_t size = 1; size < whole.size(); ++size) {
    auto cut = decode_entries(std::string_view(whole).substr(0, size));
    REQUIRE_FALSE(cut);
    CHECK(cut.error().message == "the keys of a node are cut short");
  }
  CHECK_FALSE(decode_entries("\xff\xff\xff\xff"));
  CHECK(decode_entries(std::string(kMaxEntries + 1, '\0')).error().code == EMSGSIZE);
}
