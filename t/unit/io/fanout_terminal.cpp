// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <string>

#include "catch.hpp"

#include "event/clock.hpp"
#include "io/fanout.hpp"

namespace {

using namespace nacre;  // NOLINT

// What has come out of a pipe that nobody waits for.
std::string taken_from(const UniqueFd& pipe) {
  std::array<char, 64> bytes{};
  ssize_t got = ::read(pipe.get(), bytes.data(), bytes.size());
  return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

// The leader of a session whose terminal another process group has at first: whether its input comes, but only once
// it is its own again.
bool reads_own_terminal(const std::string& path) {
  ::setsid();
  UniqueFd terminal(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  std::signal(SIGTTOU, SIG_IGN);
  pid_t other = ::fork();
  if (other == 0) {
    for (;;) ::pause();
  }
  bool is_given = ::setpgid(other, other) == 0 && ::tcsetpgrp(terminal.get(), other) == 0;
  auto loop = event::Loop::create().value();
  Pipe pipe = make_pipe(O_CLOEXEC | O_NONBLOCK).value();
  auto fanout = io::Fanout::create(*loop, terminal.get(), {}, {}).value();
  bool is_added = fanout->add(std::move(pipe.write)).has_value() && fanout->start().has_value();
  bool is_over = false;
  auto timer = event::Timer::create(*loop, [&] { is_over = true; }).value();
  timer.start(event::Seconds(0.7));
  loop->run_until([&] { return is_over; });
  bool was_left_alone = taken_from(pipe.read).empty() && !fanout->done();
  bool is_back = ::tcsetpgrp(terminal.get(), ::getpgrp()) == 0;
  std::string got;
  is_over = false;
  timer.start(event::Seconds(60));
  loop->run_until([&] { return is_over || !(got += taken_from(pipe.read)).empty(); });
  ::kill(other, SIGKILL);
  return is_given && is_added && was_left_alone && is_back && got == "typed\n";
}

}  // namespace

TEST_CASE("a terminal is read only while no other process group has it") {
  UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE((::grantpt(master.get()) == 0 && ::unlockpt(master.get()) == 0));
  std::string path = ::ptsname(master.get());
  REQUIRE(::write(master.get(), "typed\n", 6) == 6);
  pid_t child = ::fork();
  if (child == 0) ::_exit(reads_own_terminal(path) ? 0 : 1);
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  CHECK(status == 0);
}
