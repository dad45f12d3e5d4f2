// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "catch.hpp"

#include "event/loop.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::event;  // NOLINT

TEST_CASE("phases run in each round: before and after the wait, and an idle one instead of it") {
  auto loop = Loop::create().value();
  std::string order;
  auto prepare = Phase::create(*loop, Phase::When::prepare, [&] { order += 'p'; }).value();
  auto check = Phase::create(*loop, Phase::When::check, [&] { order += 'c'; }).value();
  auto idle = Phase::create(*loop, Phase::When::idle, [&] { order += 'i'; }).value();
  prepare.start();
  check.start();
  idle.start();
  loop->run_once();
  CHECK(order == "ipc");
  idle.stop();
  prepare.stop();
  loop->poll();
  CHECK(order == "ipcc");
}

TEST_CASE("a watcher that must not keep the loop running does not") {
  auto loop = Loop::create().value();
  auto timer = Timer::create(*loop, [] {}).value();
  auto idle = Phase::create(*loop, Phase::When::idle, [] {}).value();
  CHECK_FALSE(loop->alive());
  timer.start(Seconds(600));
  idle.start();
  CHECK(loop->alive());
  timer.keeps_running(false);
  CHECK(loop->alive());
  idle.keeps_running(false);
  CHECK_FALSE(loop->alive());
  loop->run();  // returns
  idle.keeps_running(true);
  CHECK(loop->alive());
}

TEST_CASE("a loop knows that it runs") {
  auto loop = Loop::create().value();
  bool inside = false;
  auto timer = Timer::create(*loop, [&] { inside = loop->running(); }).value();
  timer.start(Seconds(0));
  CHECK_FALSE(loop->running());
  loop->run();
  CHECK(inside);
  CHECK_FALSE(loop->running());
}
