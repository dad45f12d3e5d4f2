// SPDX-License-Identifier: Apache-2.0
#include "group/alone.hpp"

#include <catch2/catch.hpp>

using namespace nacre;         // NOLINT
using namespace nacre::group;  // NOLINT

TEST_CASE("each collective of a shell alone is complete as soon as it is entered") {
  Alone alone(3);
  std::string order;
  alone.enter("init", [&](const Result<void>& result) { order += result ? "init;" : "?"; });
  alone.agree_on_largest("exit", -5, [&](const Result<std::int64_t>& value) { order += std::to_string(*value); });
  alone.gather("g", "part", [&](Result<Group::Gathered> all) {
    REQUIRE(all);
    CHECK(*all == Group::Gathered{{"part", value::Idset::range(3, 3)}});
    order += ";g";
  });
  alone.leave([&] { order += ";left"; });
  CHECK(order == "init;-5;g;left");
}

TEST_CASE("a shell alone hears at once what it says itself") {
  Alone alone(3);
  std::string heard;
  Group::Callbacks callbacks;
  callbacks.on_exception = [&](const Exception& e) { heard += e.message + std::to_string(e.origin); };
  callbacks.on_signal = [&](int signum, const value::Idset& tasks) {
    heard += std::to_string(signum) + tasks.str();
  };
  callbacks.on_tasks = [&](const value::Idset& started, const std::vector<Ended>& ended) {
    heard += "[" + started.str() + "|" + (ended.empty() ? "" : ended[0].tasks.str()) + "]";
  };
  alone.serve(std::move(callbacks));
  alone.raise({"exec", 0, "e", 2, 9});
  alone.signal(15, value::Idset::range(1, 2));
  alone.tasks_started(value::Idset::range(0, 4));
  alone.tasks_ended({value::Idset::range(4, 4), 0});
  CHECK(heard == "e3151-2[0-4|][|4]");
}
