// SPDX-License-Identifier: Apache-2.0
#include "io/sink.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>

#include "catch.hpp"

#include "base/file.hpp"

using namespace nacre;      // NOLINT
using namespace nacre::io;  // NOLINT

namespace {

struct World {
  World() : loop(event::Loop::create().value()) {
    std::signal(SIGPIPE, SIG_IGN);
    std::string name = "/tmp/nacre-message-XXXXXX";
    directory = ::mkdtemp(name.data());
  }
  ~World() { std::filesystem::remove_all(directory); }

  MessageFile::Callbacks callbacks() {
    return {[this] { ++idles; }, [this](const Error& error) { errors.push_back(error.message); }};
  }
  [[nodiscard]] std::string path(const char* name) const { return directory + "/" + name; }
  std::string fifo() const {
    REQUIRE(::mkfifo(path("fifo").c_str(), 0600) == 0);
    return path("fifo");
  }
  void serve(const std::function<bool()>& done) {
    bool late = false;
    auto guard = event::Timer::create(*loop, [&] { late = true; }).value();
    guard.start(event::Seconds(30));
    loop->run_until([&] { return late || done(); });
    REQUIRE_FALSE(late);
  }

  std::unique_ptr<event::Loop> loop;
  std::string directory;
  int idles = 0;
  std::vector<std::string> errors;
};

std::string read_all(int fd, std::size_t most = SIZE_MAX) {
  std::string out;
  std::array<char, 65536> buffer;
  for (ssize_t got = 1; got > 0 && out.size() < most;) {
    got = ::read(fd, buffer.data(), std::min(buffer.size(), most - out.size()));
    if (got > 0) out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return out;
}

}  // namespace

TEST_CASE("a file is made or emptied, and has what was written at once") {
  World world;
  REQUIRE(write_all(UniqueFd(::creat(world.path("file").c_str(), 0600)).get(), "old old old") == 0);
  auto file = MessageFile::open(*world.loop, world.path("file"), world.callbacks()).value();
  file->write("one\n");
  CHECK(file->idle());
  file->write("two\n");
  CHECK(read_file(world.path("file")).value() == "one\ntwo\n");
  CHECK(world.errors.empty());
}

TEST_CASE("a file that cannot be opened is an error that names it") {
  World world;
  auto file = MessageFile::open(*world.loop, world.path("none/file"), world.callbacks());
  REQUIRE_FALSE(file);
  CHECK(file.error().message == world.path("none/file") + ": No such file or directory");
}

TEST_CASE("a file that cannot be written is reported once") {
  World world;
  auto file = MessageFile::open(*world.loop, "/dev/full", world.callbacks()).value();
  file->write("one\n");
  file->write("two\n");
  CHECK(file->idle());
  CHECK(file->failed());
  REQUIRE(world.errors.size() == 1);
  CHECK(world.errors[0].find("/dev/full") != std::string::npos);
}

TEST_CASE("a FIFO is opened once it has a reader, which gets all") {
  World world;
  std::string path = world.fifo();
  auto file = MessageFile::open(*world.loop, path, world.callbacks()).value();
  CHECK(file->idle());
  CHECK(file->lacks_reader());
  file->write("one\n");
  CHECK_FALSE(file->idle());
  UniqueFd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  world.serve([&] { return world.idles > 0; });
  CHECK_FALSE(file->lacks_reader());
  file->write("two\n");
  CHECK(read_all(reader.get()) == "one\ntwo\n");
}

TEST_CASE("a reader that stops is not waited for, and gets the rest once it reads on") {
  World world;
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  auto file = MessageFile::of(*world.loop, std::move(pipe.write), "pipe", world.callbacks()).value();
  const std::string message(std::size_t{1} << 18, 'm');
  file->write(message);
  CHECK_FALSE(file->idle());
  std::string got = read_all(pipe.read.get(), 1000);
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  world.serve([&] {
    got += read_all(pipe.read.get());
    return world.idles > 0;
  });
  got += read_all(pipe.read.get());
  CHECK(got == message);
}

TEST_CASE("a reader that has gone is one error") {
  World world;
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  auto file = MessageFile::of(*world.loop, std::move(pipe.write), "pipe", world.callbacks()).value();
  file->write(std::string(std::size_t{1} << 18, 'm'));
  pipe.read.reset();
  world.serve([&] { return file->failed(); });
  file->write("more");
  CHECK(world.errors == std::vector<std::string>{"cannot write pipe: Broken pipe"});
  CHECK(file->idle());
}
