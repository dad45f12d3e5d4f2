// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "peer_message.hpp"

using namespace nacre::pmix;  // NOLINT

namespace {

PeerMessage sample() {
  PeerMessage message;
  message.kind = PeerMessage::Kind::answer;
  message.start = 3;
  message.shell = 258;
  message.to = 3;
  message.number = std::uint64_t{1} << 40 | 5;
  message.rank = 0xfffffffe;
  message.status = -46;
  message.texts = {"", "hi", std::string("\0\xff", 2)};
  return message;
}

}  // namespace

TEST_CASE("a message's bytes, as other shells read them") {
  std::string expected(
      "\x02"
      "\x00\x00\x00\x00\x00\x00\x00\x03"
      "\x00\x00\x01\x02"
      "\x00\x00\x00\x03"
      "\x00\x00\x01\x00\x00\x00\x00\x05"
      "\xff\xff\xff\xfe"
      "\xff\xff\xff\xd2"
      "\x00\x00\x00\x00"
      "\x00\x00\x00\x02hi"
      "\x00\x00\x00\x02\x00\xff",
      49);
  CHECK(encode(sample()) == expected);
}

TEST_CASE("a message is the same after its way") {
  PeerMessage message = sample();
  for (int kind = 0; kind < PeerMessage::kKinds; ++kind) {
    message.kind = static_cast<PeerMessage::Kind>(kind);
    CHECK(decode(encode(message)) == message);
  }
  CHECK(decode(encode(PeerMessage())) == PeerMessage());
}

TEST_CASE("bytes that are no message") {
  std::string bytes = encode(sample());
  PeerMessage whole = sample();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    INFO(size);
    auto message = decode(bytes.substr(0, size));
    if (!message) continue;
    CHECK(message->texts.size() < whole.texts.size());  // cut where a text ends
    CHECK(encode(*message) == bytes.substr(0, size));
  }
  CHECK_FALSE(decode(bytes + '\0'));
  bytes[0] = static_cast<char>(PeerMessage::kKinds);
  CHECK_FALSE(decode(bytes));
  bytes = encode(sample());
  bytes[33] = '\x7f';  // the first text's length
  CHECK_FALSE(decode(bytes));
}

TEST_CASE("ranks as text, and back") {
  using Ranks = std::vector<Rank>;
  const std::pair<Ranks, std::string> samples[] = {
      {{}, ""}, {{0}, "0"}, {{0, 1, 2, 3}, "0-3"}, {{1, 3, 4, 9}, "1,3-4,9"}, {{0, 4294967294}, "0,4294967294"},
  };
  for (const auto& [ranks, text] : samples) {
    CHECK(text_of(ranks) == text);
    CHECK(ranks_in(text) == ranks);
  }
  for (const char* text : {",", "1,", ",1", "x", "1-", "-1", "3-1", "1,1", "2,1", "1-3,3", "1 2", "0-4294967294",
                           "4294967296", "1-2-3"}) {
    INFO(text);
    CHECK_FALSE(ranks_in(text));
  }
}

TEST_CASE("hosts of one name are told apart") {
  using Names = std::vector<std::string>;
  CHECK(distinct({"a", "b"}) == Names{"a", "b"});
  CHECK(distinct({"a", "a", "b", "a"}) == Names{"a", "a-1", "b", "a-3"});
  CHECK(distinct({"a", "a", "a-1", "a-2"}) == Names{"a", "a-1-", "a-1", "a-2"});
  CHECK(distinct({"a", "a-1", "a"}) == Names{"a", "a-1", "a-2"});
}

TEST_CASE("each process of all namespaces has a number, and a node") {
  ProcessMap map;
  map.add("job", 0, {{0, {0, 2}}, {1, {1}}});
  map.add("job-spawn-1", 3, {{1, {0}}, {2, {1}}});
  CHECK(map.number_of("job", 2) == Rank{2});
  CHECK(map.number_of("job-spawn-1", 0) == Rank{3});
  CHECK_FALSE(map.number_of("job", 3));
  CHECK_FALSE(map.number_of("job-spawn-2", 0));
  CHECK(map.knows("job-spawn-1"));
  CHECK_FALSE(map.knows("job-spawn-2"));
  CHECK(map.numbers_of("job") == std::vector<Rank>{0, 1, 2});
  CHECK(map.numbers_of("job-spawn-1") == std::vector<Rank>{3, 4});
  CHECK(map.numbers_of("job-spawn-2").empty());
  CHECK(map.numbers_on(1) == std::vector<Rank>{1, 3});
  CHECK(map.nodes_of("job-spawn-1") == std::set<std::uint32_t>{1, 2});
  REQUIRE(map.find(4) != nullptr);
  CHECK(*map.find(4)->nspace == "job-spawn-1");
  CHECK(map.find(4)->rank == 1);
  CHECK(map.find(4)->node == 2);
  CHECK(map.find(5) == nullptr);
}

namespace {

struct Asked {
  std::uint64_t ask(std::set<std::uint32_t> shells) {
    return tables.ask(std::move(shells), [this](const ProcessTables::Rows& rows) {
      ++answers;
      ranks.clear();
      for (const auto& [rank, row] : rows) ranks.push_back(rank);
    });
  }
  ProcessTables tables;
  int answers = 0;
  std::vector<Rank> ranks;
};

}  // namespace

TEST_CASE("a row as text, and back") {
  ProcessRow row{3, 4711, 20, 143, "./a b"};
  CHECK(text_of(row) == "3 4711 20 143 ./a b");
  for (const ProcessRow& each : {row, ProcessRow(), ProcessRow{UINT32_MAX, -1, 255, -1, " \n"}}) {
    CHECK(row_in(text_of(each)) == each);
  }
  for (const char* text :
       {"", "3", "3 4 5", "3 4 5 6", "x 4 5 6 a", "3 4 256 6 a", "4294967296 4 5 6 a", "3  4 5 6 a"}) {
    INFO(text);
    CHECK_FALSE(row_in(text));
  }
  CHECK(row_in("3 4 5 6 ")->command.empty());
}

TEST_CASE("a table is there once all that were asked have answered, in the order of ranks") {
  Asked asked;
  std::uint64_t number = asked.ask({0, 2});
  asked.tables.answered(2, number, {"5 1 2 0 a", "4 1 2 0 a", "no row"});
  asked.tables.answered(2, number, {"6 1 2 0 a"});
  asked.tables.answered(1, number, {"7 1 2 0 a"});
  CHECK(asked.answers == 0);
  asked.tables.answered(0, number, {"1 1 2 0 a"});
  CHECK(asked.answers == 1);
  CHECK(asked.ranks == std::vector<Rank>{1, 4, 5});
  asked.tables.give_up(number);
  CHECK(asked.answers == 1);
}

TEST_CASE("one that is lost, or late, is left out; nobody waits for ever") {
  Asked asked;
  std::uint64_t first = asked.ask({0, 1});
  asked.tables.answered(0, first, {"1 1 2 0 a"});
  asked.tables.lost(1);
  CHECK(asked.answers == 1);
  CHECK(asked.ranks == std::vector<Rank>{1});
  asked.tables.give_up(asked.ask({0, 1}));
  CHECK(asked.answers == 2);
  CHECK(asked.ranks.empty());
  asked.ask({0});
  asked.ask({1});
  asked.tables.give_up_all();
  CHECK(asked.answers == 4);
}

namespace {

PeerMessage about(std::uint64_t start, std::uint64_t number = 0) {
  return {.start = start, .number = number, .texts = {}};
}

std::vector<std::uint64_t> numbers(const std::vector<PeerMessage>& messages) {
  std::vector<std::uint64_t> out;
  for (const PeerMessage& each : messages) out.push_back(each.number);
  return out;
}

using Numbers = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a message is for the start that it is about: later ones are kept, former ones dropped") {
  StartFilter filter;
  CHECK_FALSE(filter.pass(about(1, 7)));  // a shell that has begun before this one
  CHECK(numbers(filter.begin(1)) == Numbers{7});
  CHECK(filter.pass(about(1)));
  CHECK_FALSE(filter.pass(about(4, 1)));
  CHECK_FALSE(filter.pass(about(5, 2)));
  CHECK_FALSE(filter.pass(about(4, 3)));
  CHECK(filter.pass(about(1)));  // the shell's tasks are still ending
  CHECK(numbers(filter.begin(4)) == Numbers{1, 3});
  CHECK(filter.current() == 4);
  CHECK_FALSE(filter.pass(about(1)));
  CHECK_FALSE(filter.pass(about(3)));
  CHECK(filter.pass(about(4)));
  CHECK(numbers(filter.begin(5)) == Numbers{2});
  CHECK(numbers(filter.begin(6)).empty());
}

TEST_CASE("a start that is given up for a later one, before it has begun here, leaves nothing behind") {
  StartFilter filter;
  filter.begin(1);
  filter.await(2);
  CHECK_FALSE(filter.pass(about(2, 1)));  // other shells have begun that start
  filter.await(3);
  CHECK_FALSE(filter.pass(about(2, 2)));
  CHECK_FALSE(filter.pass(about(3, 3)));
  CHECK(filter.pass(about(1)));
  filter.await(2);  // older news changes nothing
  CHECK(numbers(filter.begin(3)) == Numbers{3});
}

TEST_CASE("a shell that has had no tasks begins with the start that brings some") {
  StartFilter filter;
  filter.await(3);
  CHECK_FALSE(filter.pass(about(1, 1)));
  CHECK_FALSE(filter.pass(about(3, 2)));
  CHECK(numbers(filter.begin(3)) == Numbers{2});
}

namespace {

// The nodes of a job of six ranks on three nodes and a fourth without any, who all hear the same.
struct Nodes {
  Nodes() {
    std::vector<std::vector<Rank>> ranks = {{0, 1}, {2, 3}, {4, 5}, {}};
    for (std::size_t node = 0; node < ranks.size(); ++node) {
      nodes.push_back(std::make_unique<Collectives>(ranks, node));
    }
  }

  void enter(std::size_t node, const std::string& name) {
    nodes[node]->enter(name, [this, node](int status, const std::string& all) {
      said.push_back(std::to_string(node) + ": " + std::to_string(status) + " " + all);
    });
  }
  void part(std::size_t node, const std::string& name, const std::string& bytes, int status = 0) {
    for (auto& each : nodes) each->part(node, name, status, bytes);
  }
  void come(std::size_t node, const std::string& name, const std::string& bytes, int status = 0) {
    enter(node, name);
    part(node, name, bytes, status);
  }
  void ended(Rank rank) {
    for (auto& each : nodes) each->ended(rank);
  }
  void over(std::size_t node) {
    for (auto& each : nodes) each->over(node);
  }
  std::vector<std::string> take() { return std::exchange(said, {}); }

  std::vector<std::unique_ptr<Collectives>> nodes;
  std::vector<std::string> said;  // "NODE: STATUS BYTES"
};

using Said = std::vector<std::string>;
const std::string kAll = Collectives::name_of('f', {});

}  // namespace

TEST_CASE("nobody goes on before all have come, and all get everybody's parts, in one order") {
  Nodes nodes;
  nodes.come(2, kAll, "c");
  nodes.come(0, kAll, "a");
  CHECK(nodes.take().empty());
  nodes.come(1, kAll, "b");
  CHECK(nodes.take() == Said{"0: 0 abc", "1: 0 abc", "2: 0 abc"});
}

TEST_CASE("a part may come before this node's own processes have") {
  Nodes nodes;
  for (std::size_t node : {0, 1}) nodes.come(node, kAll, "x");
  nodes.enter(2, kAll);
  CHECK(nodes.take().empty());  // its part is not sent yet
  nodes.part(2, kAll, "y");
  CHECK(nodes.take().size() == 3);
}

TEST_CASE("the first failure is everybody's") {
  Nodes nodes;
  nodes.come(0, kAll, "");
  nodes.come(2, kAll, "", -3);
  nodes.come(1, kAll, "", -2);
  CHECK(nodes.take() == Said{"0: -2 ", "1: -2 ", "2: -2 "});
}

TEST_CASE("the next round of the same is another one") {
  Nodes nodes;
  nodes.come(0, kAll, "1");
  nodes.come(1, kAll, "1");
  nodes.enter(2, kAll);
  nodes.come(0, kAll, "2");
  nodes.come(1, kAll, "2");
  nodes.part(2, kAll, "1");
  CHECK(nodes.take() == Said{"0: 0 111", "1: 0 111", "2: 0 111"});
  nodes.come(2, kAll, "2");
  CHECK(nodes.take() == Said{"0: 0 222", "1: 0 222", "2: 0 222"});
}

TEST_CASE("collectives of others, or of another kind, do not count") {
  Nodes nodes;
  std::string evens = Collectives::name_of('f', {0, 4});
  std::string odds = Collectives::name_of('f', {1, 3});
  CHECK(evens == "f0,4");
  nodes.come(0, evens, "e");
  nodes.come(0, odds, "o");
  nodes.come(0, Collectives::name_of('c', {0, 4}), "c");
  nodes.come(2, odds, "?");  // none of its ranks takes part
  CHECK(nodes.take().empty());
  nodes.come(1, odds, "O");
  CHECK(nodes.take() == Said{"0: 0 oO", "1: 0 oO"});
  nodes.come(2, evens, "E");
  CHECK(nodes.take() == Said{"0: 0 eE", "2: 0 eE"});
}

TEST_CASE("who has ended is not waited for") {
  Nodes nodes;
  nodes.come(0, kAll, "a");
  nodes.come(2, kAll, "c");
  nodes.ended(2);
  CHECK(nodes.take().empty());
  SECTION("one after the other") { nodes.ended(3); }
  SECTION("with all of its node") { nodes.over(1); }
  CHECK(nodes.take() == Said{"0: 0 ac", "2: 0 ac"});
  nodes.come(0, kAll, "A");
  nodes.come(2, kAll, "C");
  CHECK(nodes.take() == Said{"0: 0 AC", "2: 0 AC"});
}

TEST_CASE("what was given before the end counts") {
  Nodes nodes;
  nodes.come(1, kAll, "b");
  nodes.over(1);
  nodes.come(0, kAll, "a");
  nodes.come(2, kAll, "c");
  CHECK(nodes.take().front() == "0: 0 abc");
}

TEST_CASE("a node whose participants are gone, but not all of its processes, is not waited for") {
  Nodes nodes;
  std::string some = Collectives::name_of('f', {0, 2});
  nodes.ended(2);
  nodes.come(0, some, "a");
  CHECK(nodes.take() == Said{"0: 0 a"});
}

TEST_CASE("names that are none, nodes that are none") {
  Nodes nodes;
  for (const char* name : {"", "f", "fx", "f3-1", "f99"}) nodes.come(0, name, "x");
  nodes.part(7, kAll, "x");
  nodes.over(7);
  CHECK(nodes.take().empty());
}

TEST_CASE("ranks that are added take part in collectives that name them, and not in those of all at the start") {
  Nodes nodes;
  for (auto& each : nodes.nodes) {
    each->add(1, {6});
    each->add(3, {7});
  }
  const std::string spawned = Collectives::name_of('f', {6, 7});
  nodes.come(3, spawned, "b");
  CHECK(nodes.take().empty());
  nodes.come(1, spawned, "a");
  CHECK(nodes.take() == Said{"1: 0 ab", "3: 0 ab"});
  nodes.come(0, kAll, "a");
  nodes.come(1, kAll, "b");
  nodes.come(2, kAll, "c");
  CHECK(nodes.take() == Said{"0: 0 abc", "1: 0 abc", "2: 0 abc"});
  const std::string both = Collectives::name_of('c', {0, 7});
  nodes.come(0, both, "a");
  nodes.over(3);
  CHECK(nodes.take() == Said{"0: 0 a"});
}
