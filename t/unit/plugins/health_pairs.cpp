// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"

#include "plugins/health/pairs.hpp"

using namespace nacre;           // NOLINT
using namespace nacre::plugins;  // NOLINT

namespace {

using Shells = std::set<std::uint32_t>;

// Hosts of which pairs fail, or are slow, that have a bad one.
struct Trial {
  explicit Trial(std::uint32_t hosts) : hosts_(hosts) {}

  Shells fails = {}, slow = {}, lost = {};
  double time = 1;

  // The bad ones.
  Shells run() {
    PairTrial trial(value::Idset::range(0, hosts_ - 1));
    std::set<std::pair<std::uint32_t, std::uint32_t>> tried;
    rounds = 0;
    while (auto round = trial.next()) {
      CHECK(round->number == ++rounds);
      Shells in_round;
      std::map<std::uint32_t, PairResult> results;
      for (std::uint32_t each = 0; each < hosts_; ++each) results[each] = {};
      for (const auto& [one, other] : round->pairs) {
        CHECK(one < other);
        CHECK(tried.emplace(one, other).second);  // never twice
        CHECK(in_round.insert(one).second);
        CHECK(in_round.insert(other).second);
        const PairResult result{has(fails, one, other) ? "broken" : "", has(slow, one, other) ? 4 * time : time};
        results[one] = results[other] = result;
      }
      for (std::uint32_t each : lost) results.erase(each);
      trial.take(results);
    }
    CHECK(rounds <= PairTrial::kMostRounds);
    Shells out;
    reasons.clear();
    for (const BadHost& each : trial.bad([](std::uint32_t shell) { return "n" + std::to_string(shell); })) {
      CHECK(each.fault.check == "pair");
      out.insert(each.shell);
      reasons.push_back(each.fault.reason);
    }
    doubtful = trial.doubtful().str();
    return out;
  }

  std::uint32_t rounds = 0;
  std::vector<std::string> reasons;
  std::string doubtful;

 private:
  static bool has(const Shells& shells, std::uint32_t one, std::uint32_t other) {
    return shells.contains(one) || shells.contains(other);
  }
  std::uint32_t hosts_;
};

// Small jobs, and some larger ones up to 64 hosts.
std::vector<std::uint32_t> sizes_from(std::uint32_t least) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t hosts = least; hosts <= 12; ++hosts) out.push_back(hosts);
  out.insert(out.end(), {31, 32, 63, 64});
  return out;
}

}  // namespace

TEST_CASE("healthy hosts are good after a round, an odd one after two") {
  for (std::uint32_t hosts = 1; hosts <= 64; ++hosts) {
    CAPTURE(hosts);
    Trial trial(hosts);
    CHECK(trial.run().empty());
    CHECK(trial.doubtful.empty());
    CHECK(trial.rounds == (hosts == 1 ? 0 : 1 + hosts % 2));
  }
}

TEST_CASE("one bad host is found among 3 to 64, and its partners are not blamed") {
  for (std::uint32_t hosts : sizes_from(3)) {
    for (std::uint32_t bad = 0; bad < hosts; ++bad) {
      CAPTURE(hosts, bad);
      Trial failing(hosts);
      failing.fails = {bad};
      CHECK(failing.run() == Shells{bad});
      CHECK(failing.doubtful.empty());
      CHECK(failing.rounds <= 2 + hosts % 2);
    }
  }
}

TEST_CASE("one slow host is found among 4 to 64") {
  for (std::uint32_t hosts : sizes_from(4)) {
    for (std::uint32_t bad = 0; bad < hosts; ++bad) {
      CAPTURE(hosts, bad);
      Trial trial(hosts);
      trial.slow = {bad};
      CHECK(trial.run() == Shells{bad});
      CHECK(trial.doubtful.empty());
    }
  }
}

TEST_CASE("two bad hosts are found among 5 to 64, whether they are in one pair or not") {
  for (std::uint32_t hosts : sizes_from(5)) {
    for (std::uint32_t one = 0; one < hosts; one += 1 + hosts / 16) {
      for (std::uint32_t other = one + 1; other < hosts; other += 1 + hosts / 16) {
        CAPTURE(hosts, one, other);
        Trial trial(hosts);
        trial.fails = {one, other};
        CHECK(trial.run() == trial.fails);
        CHECK(trial.doubtful.empty());
      }
    }
  }
}

TEST_CASE("what cannot be told is in doubt, and nobody is blamed") {
  Trial two(2);
  two.fails = {1};
  CHECK(two.run().empty());
  CHECK(two.doubtful == "0-1");
  CHECK(two.rounds == 1);
  Trial all(4);
  all.fails = {0, 1, 2, 3};
  CHECK(all.run().empty());
  CHECK(all.doubtful == "0-3");
  CHECK(all.rounds == 3);
}

TEST_CASE("why a host is bad names those with whom it has failed") {
  Trial trial(4);
  trial.fails = {1};
  CHECK(trial.run() == Shells{1});
  CHECK(trial.reasons == std::vector<std::string>{"with n0: broken, with n3: broken"});
  trial.fails = {};
  trial.slow = {1};
  CHECK(trial.run() == Shells{1});
  CHECK(trial.reasons ==
        std::vector<std::string>{
            "with n0: took 4.0 s, where 1.0 s are usual, with n3: took 4.0 s, where 1.0 s are usual"});
}

TEST_CASE("short commands that differ by a moment are not slow") {
  Trial trial(4);
  trial.slow = {1};
  trial.time = 0.05;
  CHECK(trial.run().empty());
  CHECK(trial.rounds == 1);
}

TEST_CASE("a host that is lost meanwhile is left out, and the other is tried again") {
  Trial trial(4);
  trial.lost = {1};
  CHECK(trial.run().empty());
  CHECK(trial.doubtful.empty());
  CHECK(trial.rounds == 2);
}

TEST_CASE("a round of pairs is read as it was written") {
  const PairRound round{2, {{0, 3}, {1, 2}}};
  const std::string text = wire::to_text(round);
  CHECK(text == R"({"pairs":[[0,3],[1,2]],"round":2})");
  auto read = wire::from_text<PairRound>(text);
  REQUIRE(read);
  CHECK(read->pairs == round.pairs);
  CHECK(read->peer_of(3)->shell == 0);
  CHECK_FALSE(read->peer_of(3)->is_first);
  CHECK(read->peer_of(1)->is_first);
  CHECK_FALSE(read->peer_of(4));
  CHECK(wire::to_text(PairResult{}) == "{}");
  CHECK(wire::from_text<PairResult>(wire::to_text(PairResult{"x", 1.5}))->took == 1.5);
}
