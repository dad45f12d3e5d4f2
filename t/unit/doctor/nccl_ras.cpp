// SPDX-License-Identifier: Apache-2.0
//
// What NCCL's RAS answers, as JSON and as text, and what follows from two answers.
#include "doctor/nccl_ras.hpp"

#include "catch.hpp"

#include "base/json.hpp"

using namespace nacre;
using doctor::RankOf;
using doctor::RasCommunicator;
using Communicators = std::vector<RasCommunicator>;

namespace {

std::string rank(int number, int reduced) {
  return fmt::format(
      R"({{"rank": {0}, "host": "10.0.0.1", "pid": {1}, "cuda_dev": {0}, "nvml_dev": {0}, "status": {{"init_state": 0,
      "async_error": 0, "finalize_called": false}}, "collective_counts": {{"Broadcast": 3, "AllReduce": {2}}}}})",
      number, 100 + number, reduced);
}

std::string silent(int number, bool dead) {
  return fmt::format(R"({{"rank": {}, "host": "10.0.0.2", "pid": 9, "status": {{"unresponsive": true,
                         "considered_dead": {}}}}})",
                     number, dead);
}

std::string answer(const std::string& ranks, const std::string& missing = "") {
  return fmt::format(
      R"({{"nccl_version": "2.29.1", "communicators": [{{"hash": "0xae94", "secondary_hash": "0x1:0x2",
                         "size": 4, "ranks": [{}], "missing_ranks": [{}]}}], "ras": {{"timeouts_count": 0}}}})",
      ranks, missing);
}

std::vector<std::string> found_in(const std::string& first, const std::string& second, const RankOf& rank_of = {}) {
  std::vector<std::string> out;
  for (const auto& each : doctor::ras_findings(doctor::ras_communicators(first).value(),
                                               doctor::ras_communicators(second).value(), rank_of))
    out.push_back(fmt::format("{} [{}] {}: {}", each.process, each.ranks.str(), each.text, each.evidence));
  return out;
}

constexpr const char* kText =
    "NCCL version 2.26.2 compiled with CUDA 12.8\n\nJob summary\n===========\n\nCommunicators... (0.00s)\n"
    "=============\n\nGroup     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
    "    0         1         4         8        32        32   RUNNING  MISMATCH\n\nErrors\n======\n\n"
    "INCOMPLETE\n  Missing communicator data from 1 job process\n  Process 3487984 on node 172.16.64.213 managing "
    "GPU 5\n\n"
    "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 21\n\n"
    "Warnings\n========\n\n#0-1 (27a079b828ff1a75) MISMATCH\n"
    "  Communicator ranks have different AllReduce operation counts\n  26 ranks have launched up to operation "
    "6650\n"
    "  2 ranks have launched up to operation 6649\n"
    "  Rank 0 -- GPU 0 managed by process 483072 on node 172.16.64.210\n"
    "  Rank 2 -- GPU 2 managed by process 483074 on node 172.16.64.210\n"
    "  Rank 5 has not launched any operations -- GPU 5 managed by process 483077 on node 172.16.64.210\n"
    "  Communicator ranks have different status\n  3 ranks have status RUNNING\n";

}  // namespace

TEST_CASE("a rank that has launched fewer operations at both answers is found") {
  std::string stuck = answer(rank(0, 42) + "," + rank(1, 41) + "," + rank(2, 42) + "," + rank(3, 42));
  std::string on = answer(rank(0, 43) + "," + rank(1, 42) + "," + rank(2, 43) + "," + rank(3, 43));
  CHECK(found_in(stuck, stuck) ==
        std::vector<std::string>{
            "process 101 on 10.0.0.1 [] rank 1 of NCCL's communicator 0xae94 of 4 ranks: by NCCL's RAS, "
            "twice, 41 AllReduce have been launched there, and 42 by 3 others"});
  CHECK(found_in(stuck, stuck, {{{"10.0.0.1", 101}, 7}, {{"10.0.0.9", 101}, 8}})[0].starts_with(
      "process 101 on 10.0.0.1 [7] "));
  CHECK(found_in(stuck, on).empty());  // the tasks get on
  CHECK(found_in(on, answer(rank(0, 43) + "," + rank(1, 43))).empty());
  CHECK(found_in(answer(""), stuck).empty());
}

TEST_CASE("a rank that does not answer at both is found") {
  std::string one = answer(rank(0, 1) + "," + rank(1, 1), silent(2, false) + "," + silent(3, true));
  CHECK(found_in(one, one) ==
        std::vector<std::string>{
            "process 9 on 10.0.0.2 and 1 more [] ranks 2-3 of NCCL's communicator 0xae94 of 4 ranks: "
            "NCCL's RAS has twice had no answer from there, and takes 1 for dead"});
  CHECK(found_in(answer(rank(0, 1)), one).empty());
  // The process is reachable, but is not a member (any more).
  std::string gone =
      answer(rank(0, 1), R"({"rank": 2, "host": "10.0.0.2", "pid": 9, "status": {"unresponsive": false}})");
  CHECK(found_in(gone, gone).empty());
}

TEST_CASE("the text of versions that have no JSON") {
  CHECK(found_in(kText, kText) ==
        std::vector<std::string>{"process 483077 on 172.16.64.210 [] rank 5 of NCCL's communicator "
                                 "0x27a079b828ff1a75: by NCCL's RAS, twice, 0 "
                                 "AllReduce have been launched there, and 6650 by 26 others",
                                 "process 483072 on 172.16.64.210 and 1 more [] ranks 0,2 of NCCL's communicator "
                                 "0x27a079b828ff1a75: by NCCL's "
                                 "RAS, twice, 6649 AllReduce have been launched there, and 6650 by 26 others",
                                 "a process [] rank 21 of NCCL's communicator 0xcf264af53edbe986: NCCL's RAS has "
                                 "twice had no answer from there"});
  CHECK(found_in("Communicators... (0.00s)\n", kText).empty());
  CHECK(doctor::ras_communicators("Communicators...\n#\n#(\n#)(\nRank 1\n  Rank 2").value().empty());
}

TEST_CASE("what is no answer of RAS") {
  auto why = [](std::string_view text) {
    auto read = doctor::ras_communicators(text);
    return read ? "read" : read.error().message;
  };
  CHECK(why("") == "it is no status of NCCL's RAS");
  CHECK(why("{}") == "missing key 'communicators'");
  CHECK(why(R"({"communicators": [{"hash": 1, "ranks": []}]})").starts_with("communicators[0].hash: expected"));
  CHECK(why(answer(R"({"rank": -1})")).starts_with("communicators[0].ranks[0].rank: expected"));
}

TEST_CASE("what several shells have found is told once") {
  doctor::RasFinding one{value::Idset::range(1, 1), "process 1 on h", "rank 1 of c", "why"};
  doctor::RasFinding same = one;
  same.ranks = value::Idset::range(5, 5);
  doctor::RasFinding other{{}, "process 2 on h", "rank 2 of c", "why"};
  auto all = doctor::folded({one, other, same});
  REQUIRE(all.size() == 2);
  CHECK(all[0].ranks.str() == "1,5");
  CHECK(doctor::RasFinding::parse(all[0].json()).value().json() == all[0].json());
  CHECK(doctor::RasFinding::parse(other.json()).value().ranks.empty());
}
