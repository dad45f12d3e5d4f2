// SPDX-License-Identifier: Apache-2.0
#include "wire/json.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT

namespace nacre::wire_samples {

// Text that is only good with an "=".
struct Pair {
  std::string both;
  [[nodiscard]] std::string str() const { return both; }
  static Result<Pair> parse(std::string_view text) {
    if (text.find('=') == std::string_view::npos) return invalid("no =");
    return Pair{std::string(text)};
  }
  bool operator==(const Pair&) const = default;
};

struct Place {
  std::uint32_t shell = 0;
  std::string host;
  std::optional<double> since;
  bool operator==(const Place&) const = default;
};
void elements(auto& io, wire::Of<Place> auto& m) {
  io.are("[SHELL, HOST] or [SHELL, HOST, SINCE]");
  io.has(m.shell);
  io.has(m.host);
  if (io.has_more(m.since.has_value())) io.has(m.since);
  io.expect(!m.host.empty(), "a host");
}

enum class Kind : std::uint8_t { plain, odd };
constexpr std::array<std::string_view, 2> kKinds = {"plain", "odd"};

struct Sample {
  std::uint32_t shell = 1;
  std::int64_t number = 0;
  bool flag = false;
  double time = 0;
  std::string text;
  Kind kind = Kind::plain;
  Pair pair{"a=b"};
  std::optional<std::uint64_t> maybe;
  std::vector<Place> places;
  std::set<std::string> names;
  std::map<std::string, std::int64_t> by_name;
  std::vector<std::pair<std::uint8_t, bool>> pairs;
  Json any;
  bool operator==(const Sample&) const = default;
};
void fields(auto& io, wire::Of<Sample> auto& m, std::uint32_t shells = 64) {
  io.refuse_others(m);
  io.has("shell", m.shell, wire::Between{0, std::int64_t{shells} - 1});
  io.may_have("number", m.number);
  io.may_lack("flag", m.flag);
  io.may_have("time", m.time, [](const JsonAt& at, double time) -> Result<void> {
    return time < 0 ? at.expected("a time") : Result<void>();
  });
  io.may_have("text", m.text);
  io.may_have("kind", m.kind, wire::Words(kKinds));
  io.has("pair", m.pair);
  io.may_have("maybe", m.maybe, wire::Between{1, 9});
  io.may_have("places", m.places);
  io.may_have("names", m.names);
  io.may_have("by_name", m.by_name);
  io.may_have("pairs", m.pairs, wire::Each{[](const JsonAt& at, const auto& pair) -> Result<void> {
                return pair.first > 100 ? at.error("too much") : Result<void>();
              }});
  io.may_have("any", m.any, wire::kAnObject);
  io.expect(m.number != 13, "another number");
  io.check("text", m.text != "bad", [&] { return m.text + " is bad"; });
}

}  // namespace nacre::wire_samples

namespace {

using wire_samples::Sample;

Sample whole_sample() {
  Sample out;
  out.shell = 3;
  out.number = -5;
  out.flag = true;
  out.time = 1.5;
  out.text = "a \"b\"";
  out.kind = wire_samples::Kind::odd;
  out.pair = {"x=1"};
  out.maybe = 7;
  out.places = {{1, "n1", {}}, {2, "n2", 0.5}};
  out.names = {"a", "b"};
  out.by_name = {{"one", 1}};
  out.pairs = {{1, true}, {2, false}};
  out.any = {{"more", 1}};
  return out;
}

// The error for a message in which this member has this value.
std::string why(const char* key, Json value) {
  Json json = wire::to_json(whole_sample());
  if (value.is_null())
    json.erase(key);
  else
    json[key] = std::move(value);
  auto read = wire::from_json<Sample>(json);
  return read ? "fine" : read.error().message;
}

}  // namespace

TEST_CASE("a message is written and read by one description") {
  CHECK(wire::to_text(Sample()) == R"({"flag":false,"pair":"a=b","shell":1})");
  CHECK(wire::to_text(whole_sample()) ==
        R"({"any":{"more":1},"by_name":{"one":1},"flag":true,"kind":"odd","maybe":7,"names":["a","b"],"number":-5,)"
        R"("pair":"x=1","pairs":[[1,true],[2,false]],"places":[[1,"n1"],[2,"n2",0.5]],"shell":3,)"
        R"("text":"a \"b\"","time":1.5})");
  CHECK(wire::from_text<Sample>(wire::to_text(whole_sample())).value() == whole_sample());
  CHECK(wire::from_text<Sample>(R"({"shell":0,"pair":"="})").value().shell == 0);
  CHECK(wire::from_text<Sample>(R"({"shell":0,"pair":"=","maybe":null})").value().maybe == std::nullopt);
}

TEST_CASE("an error names the place, and the first in the order of the description counts") {
  CHECK(why("shell", nullptr) == "missing key 'shell'");
  CHECK(why("shell", 64) == "shell: expected an integer from 0 to 63, got 64");
  CHECK(why("shell", "1") == R"(shell: expected an integer from 0 to 63, got "1")");
  CHECK(why("number", 1.5) == "number: expected an integer, got 1.5");
  CHECK(why("flag", 1) == "flag: expected true or false, got 1");
  CHECK(why("time", -1) == "time: expected a time, got -1");
  CHECK(why("text", 1) == "text: expected a string, got 1");
  CHECK(why("text", "bad") == "text: bad is bad");
  CHECK(why("kind", "other") == R"(kind: expected one of plain, odd, got "other")");
  CHECK(why("pair", "x") == "pair: no =");
  CHECK(why("maybe", 10) == "maybe: expected an integer from 1 to 9, got 10");
  CHECK(why("places", {{1, "n1"}, {2}}) ==
        "places[1]: expected [SHELL, HOST] or [SHELL, HOST, SINCE], got an array");
  CHECK(why("places", {{1, "n1", 1, 2}}) ==
        "places[0]: expected [SHELL, HOST] or [SHELL, HOST, SINCE], got an array");
  CHECK(why("places", {{1, 2}}) == "places[0][1]: expected a string, got 2");
  CHECK(why("places", {{1, ""}}) == "places[0]: expected a host, got an array");
  CHECK(why("places", {1}) == "places[0]: expected an array, got 1");
  CHECK(why("names", {"a", 2}) == "names[1]: expected a string, got 2");
  CHECK(why("by_name", {{"one", "x"}}) == R"(by_name.one: expected an integer, got "x")");
  CHECK(why("pairs", {{1, true}, {101, true}}) == "pairs[1]: too much");
  CHECK(why("pairs", {{256, true}}) == "pairs[0][0]: expected an integer from 0 to 255, got 256");
  CHECK(why("pairs", {{1}}) == "pairs[0]: expected two elements, got an array");
  CHECK(why("any", 3) == "any: expected an object, got 3");
  CHECK(why("number", 13) == "expected another number, got an object");
  CHECK(why("later", 1) ==
        "later: unknown key; known: shell, number, flag, time, text, kind, pair, maybe, places, "
        "names, by_name, pairs, any");
  CHECK(wire::from_text<Sample>("[]").error().message == "expected an object, got an array");
  CHECK(wire::from_text<Sample>("{").error().message.starts_with("not JSON: line 1"));
  CHECK(wire::from_text<Sample>(R"({"shell":2,"pair":"="})", 2U).error().message ==
        "shell: expected an integer from 0 to 1, got 2");
}
