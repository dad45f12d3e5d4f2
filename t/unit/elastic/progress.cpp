// SPDX-License-Identifier: Apache-2.0
#include "elastic/progress.hpp"

#include "catch.hpp"

using namespace nacre;  // NOLINT
using elastic::IdleRestarts;
using elastic::ProgressLook;
using elastic::ProgressPart;
using elastic::RestartProgress;
using NoProgress = job::RestartOption::NoProgress;

namespace {

exits::Record exited(int code) { return exits::Record::of(value::WaitStatus::exited(code)); }

ProgressLook look(std::string seen, std::uint32_t shell = 0, int code = 3, double at = 0) {
  return {std::move(seen), at, shell, exited(code)};
}

job::RestartOption option_of(NoProgress::Look what, std::uint64_t restarts, std::string of = "step") {
  job::RestartOption out;
  out.no_progress = NoProgress{restarts, what, std::move(of)};
  return out;
}
RestartProgress of(NoProgress::Look what, std::uint64_t restarts) {
  return RestartProgress(option_of(what, restarts));
}

job::Job job_of(std::uint32_t shells) {
  job::Job out;
  for (std::uint32_t shell = 0; shell < shells; ++shell)
    out.resources.nodes.push_back({shell, fmt::format("n{}", shell), value::Idset::range(0, 1), {}, {}});
  return out;
}

std::map<std::string, value::Idset> parts(std::initializer_list<ProgressPart> all) {
  std::map<std::string, value::Idset> out;
  std::uint32_t shell = 0;
  for (const ProgressPart& each : all) out[each.text()].insert(shell++);
  return out;
}

}  // namespace

TEST_CASE("so many restarts in a row after which the same is seen are a standstill") {
  RestartProgress it = of(NoProgress::Look::file, 2);
  CHECK_FALSE(it.note(0, look("a", 0, 3, 10)));
  CHECK_FALSE(it.note(0, look("a", 0, 3, 20)));
  CHECK_FALSE(it.note(0, look("b", 0, 3, 30)));
  CHECK_FALSE(it.note(0, look("b", 0, 3, 40)));
  auto still = it.note(0, look("b", 0, 3, 50));
  REQUIRE(still);
  CHECK(still->restarts == 2);
  CHECK(still->since == 30);
  CHECK(still->seen == "b");
  CHECK_FALSE(it.note(1, look("b")));  // another task has its own count
  CHECK_FALSE(it.note(0, look("a")));  // a change back also counts
}

TEST_CASE("numbers have moved when they are larger, not when they are smaller or gone") {
  RestartProgress it = of(NoProgress::Look::output, 2);
  CHECK_FALSE(it.note(0, look("")));
  CHECK_FALSE(it.note(0, look("9")));
  CHECK_FALSE(it.note(0, look("10")));
  CHECK_FALSE(it.note(0, look("9")));
  CHECK(it.note(0, look(""))->seen == "10");
  CHECK(it.note(0, look("10"))->restarts == 3);
  CHECK_FALSE(it.note(0, look("10.5")));
  CHECK(RestartProgress::larger("", "") == "");
  CHECK(RestartProgress::larger("", "2") == "2");
  CHECK(RestartProgress::larger("10", "9") == "10");
}

TEST_CASE("what the failures have in common is forgotten with what was seen") {
  RestartProgress it = of(NoProgress::Look::file, 1);
  CHECK_FALSE(it.note(0, look("a", 1, 4)));
  auto still = it.note(0, look("a", 2, 3));
  CHECK(still->shells.str() == "1-2");
  CHECK_FALSE(still->record);
  CHECK_FALSE(it.note(0, look("b", 2, 3)));
  still = it.note(0, look("b", 2, 3));
  CHECK(still->shells.str() == "2");
  CHECK(still->record == exited(3));
}

TEST_CASE("the line: since when, what was looked at, and what is suspect") {
  auto line = [](const IdleRestarts& still, const job::RestartOption& option, std::uint32_t shells, bool whole) {
    std::string out = still.text(option, job_of(shells), whole);
    REQUIRE(out.find(" since ") != out.npos);
    return out.erase(out.find(" since ") + 7, sizeof "2026-01-01 00:00:00" - 1);  // the local time
  };
  job::RestartOption numbers = option_of(NoProgress::Look::output, 3);
  const IdleRestarts here{"40", 1e9, 3, value::Idset::range(0, 0), exited(3)};
  CHECK(line(here, numbers, 1, true) ==
        "restart: 3 restarts have brought no progress since : the largest number behind 'step' in the output is "
        "still 40");
  CHECK(line(here, numbers, 2, true)
            .ends_with("still 40; all 4 failures were on n0 (shell 0), so that host is suspect"));
  CHECK(line(here, numbers, 2, false)
            .ends_with("were on n0 (shell 0), so that host or what it runs is suspect: where=spare shows which"));
  numbers.where = job::RestartOption::Where::spare;
  CHECK(line(here, numbers, 2, false).ends_with("were on n0 (shell 0), so that host is suspect"));
  IdleRestarts several{"", 1e9, 1, value::Idset::range(1, 2), exited(3)};
  CHECK(line(several, numbers, 3, true) ==
        "restart: 1 restart has brought no progress since : no line of the output has a number behind 'step'; on "
        "n[1-2] (shell 1-2) it exited with code 3 each time, so the program is suspect, and no host");
  several.record.reset();
  several.seen = "not there";
  CHECK(line(several, option_of(NoProgress::Look::file, 1, "ckpt"), 3, true) ==
        "restart: 1 restart has brought no progress since : ckpt is as it was (not there); the failures were on "
        "n[1-2] (shell 1-2)");
  several.seen = "7";
  CHECK(line(several, option_of(NoProgress::Look::command, 1, "cat at"), 1, true) ==
        "restart: 1 restart has brought no progress since : 'cat at' prints the same (7)");
}

TEST_CASE("before all start together each shell decides alike, whatever it has noted itself") {
  RestartProgress leader = of(NoProgress::Look::output, 2);
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    RestartProgress newcomer = of(NoProgress::Look::output, 2);
    // Shell 1 has seen more than the leader.
    auto given = parts({leader.leaders_part("7", round), {"40"}, {""}});
    auto still = leader.note_all(given, 1, exited(3));
    auto same = newcomer.note_all(given, 1, exited(3));
    CHECK(still.has_value() == (round == 2));
    CHECK(same.has_value() == still.has_value());
    if (still) CHECK(still->seen == "40");
    if (same) CHECK(same->since == still->since);
  }
  CHECK_FALSE(leader.note_all(parts({{"99"}, {"40"}}), 1, exited(3)));  // the leader has no look
  RestartProgress files = of(NoProgress::Look::file, 1);
  CHECK_FALSE(files.note_all(parts({files.leaders_part("a", 0), {"x"}}), 1, exited(3)));
  CHECK(files.note_all(parts({files.leaders_part("a", 1), {"y"}}), 1, exits::Record::lost())->seen == "a");
}

TEST_CASE("a shell that joins goes on with what was noted") {
  RestartProgress first = of(NoProgress::Look::file, 2);
  CHECK_FALSE(first.note(4, look("a", 1, 3, 10)));
  CHECK_FALSE(first.note(4, look("a", 2, 4, 20)));
  CHECK_FALSE(first.note_all(parts({first.leaders_part("a", 0)}), 1, exits::Record::lost()));
  RestartProgress second = of(NoProgress::Look::file, 2);
  REQUIRE(second.take(JsonAt::root(first.json())));
  CHECK(second.json() == first.json());
  auto still = second.note(4, look("a", 1, 3, 30));
  REQUIRE(still);
  CHECK(still->since == 10);
  CHECK(still->shells.str() == "1-2");
  CHECK_FALSE(still->record);
  for (const char* text : {"[]", "{}", R"({"tasks": [[1]]})", R"({"tasks": [[1, {"seen": 1}]]})"}) {
    CAPTURE(text);
    Json json = Json::parse(text);
    CHECK_FALSE(second.take(JsonAt::root(json)));
  }
}
