// SPDX-License-Identifier: Apache-2.0
#include "task/stream.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include "catch.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::task;  // NOLINT

namespace {

struct StreamFixture {
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  UniqueFd other;
  std::unique_ptr<BufferedStream> stream;
  int ready = 0;
  int ends = 0;
  std::size_t room = 0;
  std::function<void()> on_ready;

  StreamFixture() { std::signal(SIGPIPE, SIG_IGN); }

  void open(BufferedStream::Options options = {}) {
    int pair[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    other = UniqueFd(pair[1]);
    BufferedStream::Callbacks callbacks;
    callbacks.on_ready = [this] {
      ++ready;
      if (on_ready) on_ready();
    };
    callbacks.on_end = [this] { ++ends; };
    callbacks.on_room = [this](std::size_t bytes) { room += bytes; };
    stream = BufferedStream::create(*loop, UniqueFd(pair[0]), options, callbacks).value();
  }
  void say(std::string_view text) const {
    REQUIRE(::write(other.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  }
  std::string hear() const {
    std::string text(1 << 20, '\0');
    ssize_t got = ::recv(other.get(), text.data(), text.size(), MSG_DONTWAIT);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return text;
  }
};

}  // namespace

TEST_CASE_METHOD(StreamFixture, "what the other side writes is ready by the line, and stays until it is read") {
  open();
  say("one\ntwo");
  loop->poll();
  CHECK(ready == 1);
  CHECK(stream->unread() == 7);
  CHECK(stream->read_line() == "one\n");
  CHECK(stream->read_line().empty());
  CHECK(stream->get_line().empty());
  say("!");
  loop->poll();
  CHECK(ready == 1);
  CHECK(stream->unread() == 4);
  other.reset();
  loop->poll();
  CHECK(stream->at_end());
  CHECK(ends == 1);
  CHECK(stream->read_line().empty());
  CHECK(stream->get_line() == "two!");
}

TEST_CASE_METHOD(StreamFixture, "not by the line, each byte is ready at once") {
  open({.by_line = false});
  say("ab");
  loop->poll();
  CHECK(ready == 1);
  CHECK(stream->read(1) == "a");
  CHECK(stream->read() == "b");
  CHECK(stream->read().empty());
}

TEST_CASE_METHOD(StreamFixture, "a reader that takes one line at a time is called for each, and once for the end") {
  open();
  std::vector<std::string> lines;
  on_ready = [&] { lines.emplace_back(stream->get_line()); };
  say("1\n2\n3");
  other.reset();
  REQUIRE(loop->now() >= 0);
  loop->run();
  CHECK(lines == std::vector<std::string>{"1\n", "2\n", "3", ""});
  CHECK(ends == 1);
}

TEST_CASE_METHOD(StreamFixture, "a paused stream is not read; resumed, it is") {
  open();
  stream->pause();
  say("x\n");
  loop->poll();
  CHECK(stream->unread() == 0);
  REQUIRE(stream->resume());
  loop->poll();
  CHECK(stream->read() == "x\n");
}

TEST_CASE_METHOD(StreamFixture, "a full buffer is ready without a newline, and stops the other side") {
  open({.buffer_size = 4});
  say("abcdefgh");
  loop->poll();
  CHECK(ready == 1);
  CHECK(stream->unread() == 4);
  loop->poll();
  CHECK(stream->unread() == 4);
  CHECK(stream->get_line() == "abcd");
  loop->poll();
  CHECK(stream->get_line() == "efgh");
}

TEST_CASE_METHOD(StreamFixture, "what is written reaches the other side in order, and on_room tells") {
  open({.writable = true});
  REQUIRE(stream->write("hello "));
  REQUIRE(stream->write("world"));
  CHECK(hear().empty());
  loop->poll();
  CHECK(hear() == "hello world");
  CHECK(room == 11);
}

TEST_CASE_METHOD(StreamFixture, "a write beyond the buffer is refused as a whole") {
  open({.writable = true, .buffer_size = 4});
  REQUIRE(stream->write("abc"));
  CHECK(stream->write("de").error().code == ENOSPC);
  REQUIRE(stream->write("d"));
  loop->poll();
  CHECK(hear() == "abcd");
}

TEST_CASE_METHOD(StreamFixture, "close comes after what was written; the socket is still read") {
  open({.writable = true});
  REQUIRE(stream->write("last"));
  stream->close();
  CHECK(stream->write("more").error().code == EPIPE);
  loop->poll();
  CHECK(hear() == "last");
  char byte = 0;
  CHECK(::recv(other.get(), &byte, 1, MSG_DONTWAIT) == 0);
  say("answer\n");
  loop->poll();
  CHECK(stream->read() == "answer\n");
}

TEST_CASE_METHOD(StreamFixture, "a stream that is only read is not written to") {
  open();
  CHECK(stream->write("x").error().code == EBADF);
}

TEST_CASE_METHOD(StreamFixture, "writing to who has gone ends the stream without a signal") {
  open({.writable = true});
  REQUIRE(stream->write("x"));
  other.reset();
  loop->run();
  CHECK(ends == 1);
  CHECK(stream->write("y").error().code == EPIPE);
}

TEST_CASE("a pipe that is only written closes with the last byte") {
  std::signal(SIGPIPE, SIG_IGN);
  auto loop = event::Loop::create().value();
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  auto stream =
      BufferedStream::create(*loop, std::move(pipe.write), {.readable = false, .writable = true}, {}).value();
  std::string big(std::size_t{200} << 10, 'x');
  REQUIRE(stream->write(big));
  stream->close();
  std::string got(big.size() + 1, '\0');
  std::size_t total = 0;
  for (;;) {
    loop->poll();
    ssize_t more = ::read(pipe.read.get(), got.data() + total, got.size() - total);
    REQUIRE(more >= 0);
    if (more == 0) break;
    total += static_cast<std::size_t>(more);
  }
  CHECK(total == big.size());
}

TEST_CASE("a pipe tells how much of it the other side has read, and can be given up at once") {
  auto loop = event::Loop::create().value();
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  UniqueFd reader(ends[0]);
  BufferedStream::Options options;
  options.readable = false;
  options.writable = true;
  auto stream = BufferedStream::create(*loop, UniqueFd(ends[1]), options, {}).value();
  REQUIRE(stream->write(std::string(300'000, 'x')));
  loop->poll();  // more than a pipe takes
  CHECK(stream->written() == 300'000);
  CHECK(stream->taken() == 0);
  std::string some(1000, '\0');
  REQUIRE(::read(reader.get(), some.data(), some.size()) == 1000);
  CHECK(stream->taken() == 1000);
  stream->abandon();
  CHECK(stream->closed());
  std::size_t rest = 0;
  for (ssize_t got = 1; got > 0;) {
    some.resize(1 << 20);
    got = ::read(reader.get(), some.data(), some.size());
    rest += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  CHECK(rest < 299'000);  // the end came, and the kept bytes did not
}
