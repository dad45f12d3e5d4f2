// SPDX-License-Identifier: Apache-2.0
#include "join/join.hpp"

#include "redirected.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::join;  // NOLINT
using namespace nacre::kit;   // NOLINT

namespace {

// What is written to standard error until `missing` has been called `times` times.
std::string shown_for(int times, const JoinProgress::Missing& missing) {
  Pipe pipe = make_pipe(O_CLOEXEC | O_NONBLOCK).value();
  auto loop = event::Loop::create().value();
  {
    Redirected error(STDERR_FILENO, pipe.write.get());
    auto progress = JoinProgress::show(*loop, "nacre launch", [&] {
                      --times;
                      return missing();
                    }).value();
    // The line by itself does not keep the loop running.
    auto timer = event::Timer::create(*loop, [] {}).value();
    timer.start(event::Seconds(60));
    loop->poll();
    loop->run_until([&] { return times <= 0; });
  }
  std::array<char, 4096> bytes{};
  ssize_t count = ::read(pipe.read.get(), bytes.data(), bytes.size());
  return {bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

}  // namespace

TEST_CASE("nothing is shown of a join that takes less than a second") {
  CHECK(shown_for(0, [] { return std::vector<std::string>{"shell 1"}; }).empty());
}

TEST_CASE("the line says each second how long the shells have been joining, and goes") {
  std::vector<std::string> missing{"shell 1 on a", "shell 2 on b", "shell 3 on c", "shell 4 on d", "shell 5 on e"};
  std::string shown = shown_for(2, [&] {
    auto now = missing;
    missing.resize(missing.size() == 5 ? 1 : 0);
    return now;
  });
  CHECK_THAT(shown, Catch::Matchers::StartsWith(
                        "\r\033[Knacre launch: 1 s: waiting for shell 1 on a, shell 2 on b, shell 3 on c and 2 "
                        "more\r\033[Knacre launch: 2 s: waiting for shell 1 on a"));
  CHECK_THAT(shown, Catch::Matchers::EndsWith("shell 1 on a\r\033[K"));
}

TEST_CASE("where it is not known who is missing, the line says so") {
  std::string shown = shown_for(1, [] { return std::vector<std::string>(); });
  CHECK_THAT(shown, Catch::Matchers::StartsWith("\r\033[Knacre launch: 1 s: waiting for others"));
}
