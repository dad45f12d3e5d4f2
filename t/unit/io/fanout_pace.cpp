// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "catch.hpp"

#include "base/file.hpp"
#include "io/fanout.hpp"

using namespace nacre;

TEST_CASE("readers that keep up are not waited for") {
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  auto loop = event::Loop::create().value();
  Pipe source = make_pipe(O_CLOEXEC).value();
  io::Fanout::Options options;
  options.window = std::size_t{64} << 10;
  options.stall_time = event::Seconds(1000);
  auto fanout = io::Fanout::create(*loop, source.read.get(), options, {}).value();

  std::array<UniqueFd, 2> ends;
  std::array<std::size_t, 2> got{};
  std::vector<event::Poll> polls;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Pipe pipe = make_pipe(O_CLOEXEC).value();
    ends[i] = std::move(pipe.read);
    REQUIRE(fanout->add(std::move(pipe.write)));
    auto take = [&, i](int /*events*/) {
      std::array<char, 65536> buffer;
      ssize_t bytes = ::read(ends[i].get(), buffer.data(), buffer.size());
      if (bytes > 0) got[i] += static_cast<std::size_t>(bytes);
      if (bytes == 0) polls[i].stop();
    };
    polls.push_back(event::Poll::create(*loop, ends[i].get(), take).value());
    REQUIRE(polls[i].start(event::Poll::kReadable));
  }
  std::thread writer([&] {
    CHECK(write_all(source.write.get(), std::string(kBytes, 'x')) == 0);
    source.write.reset();
  });
  bool late = false;
  auto limit = event::Timer::create(*loop, [&] { late = true; }).value();
  limit.start(event::Seconds(60));
  REQUIRE(fanout->start());
  loop->run_until([&] { return late || (got[0] == kBytes && got[1] == kBytes); });
  CHECK_FALSE(late);
  source.read.reset();  // a writer that is stuck gets EPIPE
  fanout.reset();
  writer.join();
}
