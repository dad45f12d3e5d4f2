// SPDX-License-Identifier: Apache-2.0
#include "join/carried_channels.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "catch.hpp"

#include "base/file.hpp"
#include "base/text.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::join;  // NOLINT

namespace {

struct Channels {
  Channels() : loop(event::Loop::create().value()), out(make_pipe(O_CLOEXEC).value()) {
    std::signal(SIGPIPE, SIG_IGN);
    ticking = event::Timer::create(*loop, [] {}).value();  // a loop with nothing else to do does not poll
    ticking->start(event::Seconds(0.001), event::Seconds(0.001));
    ::fcntl(out.read.get(), F_SETFL, O_NONBLOCK);
    launch::Carriage carriage = launch::Carriage::with_new_token().value();
    carriage.channels = {"exit-notify", "other"};
    channels = CarriedChannels::create(*loop, carriage, out.write.get()).value();
    for (const std::string& option : channels->options()) {
      std::size_t equals = option.find('=');
      names.push_back(option.substr(0, equals));
      writers.emplace_back(static_cast<int>(*parse_u64(option.substr(equals + 1))));
    }
    launch::CarriageReader::Callbacks callbacks;
    callbacks.on_other = [this](std::string_view bytes) { other += bytes; };
    callbacks.on_message = [this](std::string_view channel, std::string_view message) {
      messages[std::string(channel)] += message;
    };
    callbacks.on_loss = [this] { ++losses; };
    reader.emplace(carriage.token, std::move(callbacks));
  }

  void read() {
    std::array<char, 4096> buffer;
    for (ssize_t got = 1; got > 0;) {
      got = ::read(out.read.get(), buffer.data(), buffer.size());
      if (got > 0) reader->take({buffer.data(), static_cast<std::size_t>(got)});
    }
  }

  std::unique_ptr<event::Loop> loop;
  std::optional<event::Timer> ticking;
  Pipe out;
  std::unique_ptr<CarriedChannels> channels;
  std::vector<std::string> names;
  std::vector<UniqueFd> writers;
  std::optional<launch::CarriageReader> reader;
  std::map<std::string, std::string> messages;
  std::string other;
  int losses = 0;
};

}  // namespace

TEST_CASE("what is written to a channel comes to the launcher, within what others write to standard error") {
  Channels job;
  CHECK(job.names == std::vector<std::string>{"exit-notify", "other"});
  CHECK(::fcntl(job.writers[0].get(), F_GETFD) == 0);
  REQUIRE(write_all(job.out.write.get(), "no end of line") == 0);
  REQUIRE(write_all(job.writers[0].get(), "one\n") == 0);
  job.loop->poll();
  REQUIRE(write_all(job.out.write.get(), ", now one\n") == 0);
  REQUIRE(write_all(job.writers[1].get(), "two") == 0);
  job.channels->finish();
  job.read();
  CHECK(job.messages == std::map<std::string, std::string>{{"exit-notify", "one\n"}, {"other", "two"}});
  CHECK(job.other == "no end of line, now one\n");
}

TEST_CASE("a launcher that reads slowly holds up the writers, and gets all") {
  Channels job;
  const std::string message(std::size_t{1} << 20, 'm');
  ::fcntl(job.writers[0].get(), F_SETFL, O_NONBLOCK);
  std::size_t written = 0;
  for (int i = 0; i < 20; ++i) {
    ssize_t some = ::write(job.writers[0].get(), message.data(), message.size());
    if (some > 0) written += static_cast<std::size_t>(some);
    job.loop->poll();
  }
  CHECK(written < message.size());
  CHECK(written > 0);
  for (int i = 0; i < 10000 && job.messages["exit-notify"].size() < message.size(); ++i) {
    ssize_t some = ::write(job.writers[0].get(), message.data() + written, message.size() - written);
    if (some > 0) written += static_cast<std::size_t>(some);
    job.loop->poll();
    job.read();
  }
  CHECK(job.losses == 0);
  CHECK(job.other.empty());
  CHECK(written == message.size());
  CHECK((job.messages["exit-notify"] == message));
}

TEST_CASE("a standard error that nobody reads holds up nobody") {
  Channels job;
  job.out.read.reset();
  for (int i = 0; i < 50; ++i) {
    REQUIRE(write_all(job.writers[0].get(), std::string(10000, 'm')) == 0);
    job.loop->poll();
  }
  job.channels->finish();
}
