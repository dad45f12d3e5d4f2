// SPDX-License-Identifier: Apache-2.0
//
// Dumps of torch's Flight Recorder, which are pickles, and what follows from those of several tasks.
#include "doctor/collectives.hpp"

#include "catch.hpp"

#include "base/json.hpp"
#include "doctor/findings.hpp"

using namespace nacre;
using doctor::CollectiveLog;
using doctor::Pickle;

namespace {

using Values = std::vector<std::string>;

// ---- pickles, as Python's pickle and torch write them ----------------------------------------

std::string bytes_of(std::uint64_t number, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < size; ++i) out += static_cast<char>(number >> (8 * i));
  return out;
}
std::string text(std::string_view of) { return "X" + bytes_of(of.size(), 4) + std::string(of) + "q\x01"; }
std::string number(std::uint64_t of) { return of < 256 ? "K" + bytes_of(of, 1) : "\x8a\x08" + bytes_of(of, 8); }
std::string list(const Values& of) {
  std::string out = "](";
  for (const std::string& each : of) out += each;
  return out + "e";
}
std::string dict(const Values& of) {
  std::string out = "}(";
  for (const std::string& each : of) out += each;
  return out + "u";
}
std::string whole(const std::string& value) { return "\x80\x02" + value + "."; }

constexpr std::uint64_t kNow = 1'700'000'000;  // seconds since 1970

struct Call {
  std::uint64_t number;
  const char* name;
  const char* state = "completed";
  std::uint64_t ago = 60;  // seconds
  std::uint64_t size = 64;
};

std::string entry(const Call& call, const char* group) {
  return dict({text("collective_seq_id"),
               number(call.number),
               text("profiling_name"),
               text(fmt::format("nccl:{}", call.name)),
               text("state"),
               text(call.state),
               text("process_group"),
               text(group) + text("default_pg") + "\x86",
               text("input_sizes"),
               list({list({number(call.size)})}),
               text("is_p2p"),
               "\x89",
               text("time_created_ns"),
               number((kNow - call.ago) * 1'000'000'000),
               text("duration_ms"),
               "G\x3f\xe0" + std::string(6, '\0'),
               text("time_discovered_started_ns"),
               "N",
               text("frames"),
               list({dict({text("name"), text("step"), text("line"), number(300)})})});
}

std::string dump(const std::vector<Call>& calls, const char* group = "0") {
  Values entries;
  for (const Call& each : calls) entries.push_back(entry(each, group));
  return whole(dict({text("version"), text("2.10"), text("pg_config"),
                     dict({text(group), dict({text("name"), text(group), text("desc"), text("default_pg"),
                                              text("ranks"), text("[0, 1, 2, 3]")})}),
                     text("entries"), list(entries)}));
}

CollectiveLog log_of(std::uint32_t rank, const std::vector<Call>& calls, const char* group = "0") {
  CollectiveLog out = doctor::collectives_in(dump(calls, group), kNow).value();
  out.ranks.insert(rank);
  out.torch_ranks.insert(rank);
  return out;
}

// "RANKS TEXT: EVIDENCE"
Values found_in(std::vector<CollectiveLog> logs) {
  Values out;
  for (const auto& each : doctor::collective_findings(doctor::folded(std::move(logs))))
    out.push_back(fmt::format("{} {}: {}", each.ranks.str(), each.text, each.evidence));
  return out;
}

std::string why_not(std::string_view bytes) {
  auto read = Pickle::read(bytes);
  return read ? "read" : read.error().message;
}

}  // namespace

TEST_CASE("a pickle is read as data, by each opcode of such dumps") {
  std::string bytes = std::string("\x80\x04\x95", 3) + std::string(8, 0x01) +
                      list({number(7),
                            "J\xff\xff\xff\xff",
                            "M" + bytes_of(700, 2),
                            "\x8a\x01\x80",
                            std::string("\x8a\0", 2),
                            "N",
                            "\x88",
                            "\x89",
                            std::string("\x8c\x02hi\x94", 5),
                            "\x8d" + bytes_of(3, 8) + "you",
                            std::string("h\0", 2),
                            ")",
                            "K\x01\x85",
                            "K\x01K\x02K\x03\x87",
                            "(K\x01K\x02t",
                            "]K\x05"
                            "a",
                            "}K\x06K\x07s",
                            "G\xbf\xf0" + std::string(6, '\0'),
                            "]r" + bytes_of(9, 4),
                            "j" + bytes_of(9, 4)}) +
                      ".";
  auto pickle = Pickle::read(bytes);
  REQUIRE(pickle);
  const auto& items = pickle->root().items;
  REQUIRE(items.size() == 20);
  auto at = [&](std::size_t i) -> const doctor::PickleValue& { return pickle->at(items[i]); };
  CHECK(at(0).integer == 7);
  CHECK(at(1).integer == -1);
  CHECK(at(2).integer == 700);
  CHECK(at(3).integer == -128);
  CHECK(at(4).integer == 0);
  CHECK(at(5).kind == doctor::PickleValue::Kind::none);
  CHECK(at(6).integer == 1);
  CHECK(at(7).kind == doctor::PickleValue::Kind::boolean);
  CHECK(at(8).text == "hi");
  CHECK(at(9).text == "you");
  CHECK(at(10).text == "hi");
  CHECK(at(11).items.empty());
  CHECK(at(12).items.size() == 1);
  CHECK(at(13).items.size() == 3);
  CHECK(at(14).items.size() == 2);
  CHECK(pickle->at(at(15).items[0]).integer == 5);
  CHECK(pickle->at(at(16).items[1]).integer == 7);
  CHECK(at(17).number == -1);
  CHECK(items[18] == items[19]);
  CHECK(pickle->member(pickle->root(), "hi") == nullptr);
}

TEST_CASE("a pickle that would run something is refused, and what is none") {
  CHECK(why_not(std::string_view("\x80\x02"
                                 "cos\nsystem\nX\x02\0\0\0ls\x85R.",
                                 24)) == "byte 2: it would run a function of Python, and is refused");
  for (const char* op : {"R", "b", "i", "o", "\x81", "\x92", "\x93", "\x82", "\x83", "\x84", "P", "Q"})
    CHECK(why_not(std::string("\x80\x02") + op) == "byte 2: it would run a function of Python, and is refused");
  CHECK(why_not("") == "it has no end");
  CHECK(why_not("N") == "it has no end");
  CHECK(why_not("X\x04") == "byte 0: it has no end");
  CHECK(why_not(std::string("X\xff\xff\xff\x7f", 5)) == "byte 0: it has no end");
  CHECK(why_not("\x80\x05N.") == "byte 0: it is of protocol 5, and those from 2 to 4 are known");
  CHECK(why_not("(dp0\n.") == "byte 1: the opcode 0x64 is not known here");
  CHECK(why_not("\x8a\x09") == "byte 0: it has an integer of more than 64 bits");
  for (const char* wrong : {".", "NN.", "(N.", "t.", "u", "e", "a", "NNa", "NNe", "](Nu", "}(Nu.", "}(NNe", "\x85",
                            "q\x01", "h\x01", "(\x85", "](a"})
    CHECK(why_not(wrong).ends_with("it is no pickle"));
  CHECK(why_not(std::string(100, '(')) == "byte 64: it is deeper than 64");
  CHECK(why_not(std::string(Pickle::kMostValues + 1, 'N')) == "byte 1000000: it has more than 1000000 values");
  CHECK(why_not(std::string(Pickle::kMostBytes + 1, ')')) == "it has more than 33554432 bytes");
}

TEST_CASE("what a dump has of collectives") {
  CollectiveLog log =
      log_of(3, {{40, "all_reduce"}, {41, "broadcast"}, {41, "coalesced"}, {42, "all_reduce", "started", 20}});
  REQUIRE(log.groups.size() == 1);
  CHECK(log.groups[0].name == "0 (default_pg)");
  CHECK(log.groups[0].members == "[0, 1, 2, 3]");
  CHECK(log.groups[0].last == std::vector<doctor::CollectiveCall>{{40, "all_reduce", "[[64]]", "completed"},
                                                                  {41, "coalesced", "[[64]]", "completed"},
                                                                  {42, "all_reduce", "[[64]]", "started"}});
  CHECK(log.since == 20);
  CHECK(CollectiveLog::parse(log.json()).value().json() == log.json());
  std::vector<Call> many;
  for (std::uint64_t i = 1; i <= 100; ++i) many.push_back({i, "all_reduce"});
  log = log_of(0, many);
  CHECK(log.groups[0].last.size() == CollectiveLog::kMostLast);
  CHECK(log.groups[0].last.back().number == 100);
  log = log_of(0, {});
  CHECK(log.groups[0].last.empty());  // the task is a member, and has called nothing
  CHECK_FALSE(log.since);
  CHECK(doctor::collectives_in(whole("}"), kNow).error().message == "it has no list of entries");
  CHECK(doctor::collectives_in(whole("N"), kNow).error().message == "it has no list of entries");
  auto old = doctor::collectives_in(
      whole(
          dict({text("entries"), list({"N", dict({text("collective_seq_id"), "N"}),
                                       dict({text("collective_seq_id"), number(1), text("pg_id"), number(4)})})})),
      kNow);
  REQUIRE(old);
  REQUIRE(old->groups.size() == 1);
  CHECK(old->groups[0].name == "4");
}

TEST_CASE("a task that lags behind is found, once it has been so for some time") {
  std::vector<Call> ahead{{41, "all_reduce", "completed", 70}, {42, "all_reduce", "started", 65}};
  std::vector<Call> behind{{41, "all_reduce"}};
  auto logs = [&] { return std::vector{log_of(0, ahead), log_of(1, ahead), log_of(2, ahead), log_of(3, behind)}; };
  CHECK(found_in(logs()) == Values{"3 at collective 41 in process group 0 (default_pg), and 3 others are at 42: "
                                   "41 is all_reduce, completed; these wait in all_reduce for 65 s at least"});
  ahead[1].ago = 9;  // the dumps are from different moments
  CHECK(found_in(logs()).empty());
  ahead[1].ago = 65;
  ahead[1].state = "completed";  // nobody waits
  CHECK(found_in(logs()).empty());
  CHECK(found_in({log_of(0, {{1, "all_reduce", "scheduled"}}), log_of(1, {})}) ==
        Values{"1 at collective 0 in process group 0 (default_pg), and 1 other is at 1: "
               "these wait in all_reduce for 60 s at least"});
  CHECK(found_in({log_of(0, {{2, "all_reduce", "started"}}), log_of(1, {{1, "all_reduce"}}, "7")}).empty());
}

TEST_CASE("a task that calls another collective, or gives another size, is found") {
  std::vector<Call> usual{{41, "all_reduce"}, {42, "all_reduce", "started"}};
  auto with = [&](std::vector<Call> other) {
    return found_in({log_of(0, usual), log_of(1, usual), log_of(2, std::move(other)), log_of(3, usual)});
  };
  CHECK(with({{41, "all_reduce"}, {42, "broadcast", "started"}}) ==
        Values{"2 at another collective than others in process group 0 (default_pg): "
               "number 42 is broadcast of [[64]] there, and all_reduce of [[64]] in 3 others"});
  CHECK(with({{41, "all_reduce"}, {42, "all_reduce", "started", 60, 32}}) ==
        Values{"2 at another collective than others in process group 0 (default_pg): "
               "number 42 is all_reduce of [[32]] there, and all_reduce of [[64]] in 3 others"});
  CHECK(with({{41, "broadcast"}, {42, "gather", "started"}, {43, "all_reduce", "scheduled"}}).size() == 1);
  CHECK(with(usual).empty());
  // If tasks may give different sizes these say nothing.
  usual = {{42, "all_to_all", "started"}};
  CHECK(with({{42, "all_to_all", "started", 60, 32}}).empty());
}

TEST_CASE("the finding is a verdict, and none is missing then") {
  doctor::Examination examination;
  examination.tasks = 2;
  examination.groups.resize(1);
  examination.groups[0].ranks = value::Idset::range(0, 1);
  examination.groups[0].fact.call = "futex";
  CHECK(doctor::verdicts(examination)[0].kind == doctor::Verdict::Kind::alike);
  CollectiveLog behind = log_of(1, {{1, "all_reduce"}});
  behind.torch_ranks = value::Idset::range(5, 5);
  examination.collectives = doctor::folded({log_of(0, {{2, "all_reduce", "started"}}), behind});
  auto verdicts = doctor::verdicts(examination);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].line() ==
        "=> rank 1, torch's 5 is at collective 1 in process group 0 (default_pg), and 1 other is at 2: "
        "1 is all_reduce, completed; these wait in all_reduce for 60 s at least");
  CHECK(verdicts[0].json()["kind"] == "collective");
}
