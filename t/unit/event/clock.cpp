// SPDX-License-Identifier: Apache-2.0
#include "event/clock.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "catch.hpp"

#include "base/unique_fd.hpp"

using namespace nacre;

TEST_CASE("clock_now goes on while the loop does not turn") {
  auto loop = event::Loop::create();
  REQUIRE(loop);
  double standing = (*loop)->now();
  event::Seconds start = event::clock_now();
  while (event::clock_now() - start < event::Seconds(0.002)) {
  }
  CHECK((*loop)->now() == standing);
  CHECK(event::clock_now() > start);
}

TEST_CASE("a descriptor is waited for until it is ready, or the time is over") {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  auto past = event::clock_now() - event::Seconds(1);
  auto future = event::clock_now() + event::Seconds(60);
  CHECK_FALSE(event::ready_by(pipe.read.get(), POLLIN, past).value());
  CHECK_FALSE(event::ready_by(pipe.read.get(), POLLIN, event::clock_now() + event::Seconds(0.01)).value());
  CHECK(event::ready_by(pipe.write.get(), POLLOUT, past).value());
  REQUIRE(::write(pipe.write.get(), "x", 1) == 1);
  CHECK(event::ready_by(pipe.read.get(), POLLIN, future).value());
  Pipe other = make_pipe(O_CLOEXEC).value();
  other.write.reset();
  CHECK(event::ready_by(other.read.get(), POLLIN, future).value());
}
