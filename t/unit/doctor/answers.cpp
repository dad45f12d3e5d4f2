// SPDX-License-Identifier: Apache-2.0
#include "doctor/answers.hpp"

#include "catch.hpp"

using namespace nacre;
using doctor::AnswerPart;
using doctor::AnswerReader;
using doctor::Doing;
using doctor::Gathered;
using doctor::TaskGroup;

namespace {

TaskGroup group(value::Idset::Id first, value::Idset::Id last, Doing doing, const std::string& program = "a") {
  TaskGroup out;
  out.ranks = value::Idset::range(first, last);
  out.fact.doing = doing;
  out.fact.program = program;
  for (value::Idset::Id rank : out.ranks.ids()) out.cpu.add(rank * 0.125);
  return out;
}

AnswerPart part(std::vector<TaskGroup> groups, std::set<std::string> notes = {}) {
  return {1, true, std::move(groups), std::move(notes), std::nullopt};
}

std::string host_of(std::uint32_t shell) { return shell == 9 ? "" : "n" + std::to_string(shell / 2); }

doctor::Examination put_together(Gathered from_all) {
  doctor::Examination out;
  std::move(from_all).put_into(out, host_of);
  return out;
}

}  // namespace

TEST_CASE("an answer comes back from its text, and one that is none is an error") {
  auto texts = doctor::answer_of(7, {group(0, 2, Doing::sleeps), group(3, 3, Doing::busy)}, {"no rights"});
  REQUIRE(texts.size() == 1);
  auto back = AnswerReader().read(texts[0]);
  REQUIRE(back);
  CHECK(back->number == 7);
  CHECK(back->is_last);
  CHECK(back->notes == std::set<std::string>{"no rights"});
  CHECK_FALSE(back->silent);
  REQUIRE(back->groups.size() == 2);
  CHECK(back->groups[0].ranks.str() == "0-2");
  CHECK(back->groups[1].fact.doing == Doing::busy);
  CHECK(back->text() == texts[0]);

  AnswerPart silent{3, true, {}, {}, 2.5};
  CHECK(AnswerReader().read(silent.text())->silent == 2.5);
  silent.silent = std::numeric_limits<double>::infinity();  // JSON has no such number
  CHECK_FALSE(AnswerReader().read(silent.text())->silent);

  for (const char* wrong :
       {"", "[]", "{}", R"({"number": 1})", R"({"groups": []})", R"({"number": -1, "groups": []})",
        R"({"number": 1, "groups": 2})", R"({"number": 1, "groups": [], "last": 1})",
        R"({"number": 1, "groups": [], "notes": 1})"})
    CHECK_FALSE(AnswerReader().read(wrong));
  CHECK_FALSE(AnswerReader().read(R"({"number": 1, "groups": []})")->is_last);
}

TEST_CASE("a group comes back as it was, and one that cannot be read is an error") {
  TaskGroup full = group(3, 4, Doing::stuck);
  full.fact.stack = {"main", "read_mesh"};
  full.path = "/scratch/mesh";
  full.ready.add(0.1);
  full.silent.add(1e6 / 3);
  full.bytes.add(123456789);
  AnswerReader reader;
  auto back = reader.read(doctor::answer_of(1, {full, full, group(5, 5, Doing::over)}, {})[0]);
  REQUIRE(back);
  REQUIRE(back->groups.size() == 3);
  for (std::size_t i = 0; i < 2; ++i) {
    const TaskGroup& each = back->groups[i];
    CHECK(each.fact == full.fact);
    CHECK(each.path == full.path);
    CHECK(each.json() == full.json());
  }
  CHECK(back->groups[2].silent.count == 0);

  const char* numbers = "[0,0,0,1, 0,0,0,0, 0,0,0,0, 0,0,0,0]";
  const char* fact = R"("{\"doing\":\"busy\"}")";
  auto count = [&](const std::string& text) {
    auto part = reader.read(fmt::format(R"({{"number": 1, "groups": [{}]}})", text));
    return part ? part->groups.size() : 0;
  };
  CHECK(count(fmt::format(R"([{}, "1", {}, ""])", fact, numbers)) == 1);
  CHECK(count(fmt::format(R"([{0}, "1", {1}, ""], [{0}, "2", {1}, "a"])", fact, numbers)) == 2);
  CHECK(count(fmt::format(R"([{0}, "1", {1}, ""], 3, [{0}, "2", {1}, "a"])", fact, numbers)) == 0);
  for (const char* wrong :
       {R"(["{}", "1", NUMBERS, ""])", R"(["no", "1", NUMBERS, ""])", R"([FACT, "", NUMBERS, ""])",
        R"([FACT, "b", NUMBERS, ""])", R"([FACT, 1, NUMBERS, ""])", R"([FACT, "1", NUMBERS])",
        R"([FACT, "1", [0,0,0,1], ""])", R"([FACT, "1", NUMBERS, 2])", R"([1, "1", NUMBERS, ""])",
        R"([FACT, "1", [0,0,0,-1, 0,0,0,0, 0,0,0,0, 0,0,0,0], ""])",
        R"([FACT, "1", [0,"",0,1, 0,0,0,0, 0,0,0,0, 0,0,0,0], ""])"}) {
    std::string text = wrong;
    if (auto at = text.find("NUMBERS"); at != std::string::npos) text.replace(at, 7, numbers);
    if (auto at = text.find("FACT"); at != std::string::npos) text.replace(at, 4, fact);
    CAPTURE(text);
    CHECK(count(text) == 0);
  }
}

TEST_CASE("more different facts than are kept are read too") {
  AnswerReader reader;
  for (std::uint32_t rank = 0; rank < 3000; ++rank) {
    TaskGroup one = group(rank, rank, Doing::busy, std::to_string(rank));
    auto part = reader.read(doctor::answer_of(1, {one}, {})[0]);
    REQUIRE(part);
    REQUIRE(part->groups.size() == 1);
    REQUIRE(part->groups[0].fact == one.fact);
  }
}

TEST_CASE("a long answer has several parts, each small enough for a record, and notes only in the last") {
  constexpr std::uint32_t kTasks = 1000;
  std::vector<TaskGroup> groups;
  for (std::uint32_t rank = 0; rank < kTasks; ++rank)
    groups.push_back(group(rank, rank, Doing::sleeps, fmt::format("{}{:0100}", 'p', rank)));
  auto texts = doctor::answer_of(1, groups, {"a note"});
  REQUIRE(texts.size() > 2);
  Gathered from_all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CHECK(texts[i].size() < 40'000);
    auto each = AnswerReader().read(texts[i]);
    REQUIRE(each);
    bool is_last = i + 1 == texts.size();
    CHECK(each->is_last == is_last);
    CHECK(each->notes.empty() == !is_last);
    from_all.add(1, *std::move(each));
  }
  auto found = put_together(std::move(from_all));
  CHECK(found.groups.size() == kTasks);
  REQUIRE(found.nodes.size() == 1);
  CHECK(found.nodes[0].ranks.size() == kTasks);
  CHECK(doctor::answer_of(1, {}, {}).size() == 1);
}

TEST_CASE("what all shells have found is put together: groups, nodes, and notes with their hosts") {
  Gathered from_all;
  CHECK(from_all.silent() == std::numeric_limits<double>::infinity());
  from_all.add(2, part({group(4, 7, Doing::sleeps)}, {"no rights"}));
  from_all.add(0, part({group(0, 2, Doing::sleeps), group(3, 3, Doing::busy)}, {"no rights", "old kernel"}));
  from_all.add(9, part({}, {"nowhere"}));
  from_all.add(4, {1, true, {}, {}, 3.5});
  from_all.add(5, {1, true, {}, {}, 4.5});
  CHECK(from_all.silent() == 3.5);
  CHECK(from_all.groups().size() == 3);
  auto found = put_together(std::move(from_all));
  REQUIRE(found.groups.size() == 2);
  CHECK(found.groups[0].ranks.str() == "0-2,4-7");
  CHECK(found.groups[0].cpu.count == 7);
  CHECK(found.groups[1].ranks.str() == "3");
  REQUIRE(found.nodes.size() == 2);
  CHECK(found.nodes[0].host == "n0");
  CHECK(found.nodes[0].ranks.str() == "0-3");
  CHECK(found.nodes[1].shell == 2);
  CHECK(found.notes == std::vector<std::string>{"n0, n1: no rights", "nowhere", "n0: old kernel"});
}

TEST_CASE("a note that many hosts have names a few of them, each once") {
  Gathered from_all;
  for (std::uint32_t shell = 10; shell < 30; ++shell) from_all.add(shell, part({}, {"old"}));
  CHECK(put_together(std::move(from_all)).notes == std::vector<std::string>{"n5, n6, n7, n8 and others: old"});
}
