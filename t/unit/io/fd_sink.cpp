// SPDX-License-Identifier: Apache-2.0
#include "io/sink.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <termios.h>

#include <cstdlib>

#include "catch.hpp"

#include "fd_sink_fixture.hpp"

TEST_CASE_METHOD(SinkFixture, "a pipe with room takes all at once") {
  use_pipe({});
  write("some bytes, ");
  write("");
  write("some more");
  CHECK(sink->flushed());
  CHECK(sink->written() == 21);
  CHECK_FALSE(sink->full());
  CHECK(sink->takes());
  CHECK_FALSE(loop->alive());
  read();
  CHECK(got == "some bytes, some more");
  CHECK(rooms == 0);
}

TEST_CASE_METHOD(SinkFixture, "a pipe's own O_NONBLOCK flag is not changed") {
  use_pipe({});
  CHECK(flags() == 0);
  write(3 * kPipe);
  CHECK_FALSE(sink->flushed());
  CHECK(flags() == 0);
  read_all();
  CHECK(flags() == 0);
  sink.reset();
  CHECK(flags() == 0);
}

TEST_CASE_METHOD(SinkFixture, "a reader that goes away while something is kept is an error, told once") {
  auto overflow = GENERATE(Overflow::block, Overflow::spill, Overflow::drop);
  use_pipe({.overflow = overflow, .spill_limit = 1000});
  write(2 * FdSink::kQueue);
  write(2000);
  CHECK(sink->full() == (overflow != Overflow::drop));
  CHECK(sink->takes() == (overflow != Overflow::drop));
  read_end.reset();
  loop->run();
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == EPIPE);
  CHECK(errors[0].message == "cannot write the reader: Broken pipe");
  CHECK(rooms == 1);
  CHECK_FALSE(sink->full());
  CHECK(sink->flushed());
  CHECK(sink->takes());
  CHECK(sink->written() == kPipe);
  CHECK(write_error().message == errors[0].message);
  CHECK(write_error().code == EPIPE);
  loop->run();
  CHECK(errors.size() == 1);
  CHECK(rooms == 1);
}

TEST_CASE_METHOD(SinkFixture, "a reader that has gone is the writer's error, and nobody else is told") {
  use_pipe({});
  write("x");
  read_end.reset();
  CHECK(write_error().message == "cannot write the reader: Broken pipe");
  CHECK(write_error().code == EPIPE);
  loop->run();
  CHECK(errors.empty());
  CHECK(sink->flushed());
  CHECK(sink->written() == 1);
}

TEST_CASE_METHOD(SinkFixture, "a file takes all at once, where its descriptor stands") {
  std::string path = "/tmp/nacre-sink-test-XXXXXX";
  write_end = UniqueFd(::mkostemp(path.data(), O_CLOEXEC));
  REQUIRE(::unlink(path.c_str()) == 0);
  REQUIRE(::write(write_end.get(), "before ", 7) == 7);
  REQUIRE(attach(write_end.get(), {}));
  write(3 * FdSink::kQueue);
  CHECK(sink->flushed());
  CHECK_FALSE(sink->full());
  CHECK(sink->written() == given.size());
  sink.reset();
  REQUIRE(::write(write_end.get(), " after", 6) == 6);
  std::string text(given.size() + 100, '\0');
  ssize_t size = ::pread(write_end.get(), text.data(), text.size(), 0);
  REQUIRE(size > 0);
  text.resize(static_cast<std::size_t>(size));
  CHECK((text == "before " + given + " after"));
}

TEST_CASE_METHOD(SinkFixture, "a full device is an error with its reason") {
  write_end = UniqueFd(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  REQUIRE(attach(write_end.get(), {}));
  CHECK(write_error().message == "cannot write the reader: No space left on device");
  CHECK(write_error().code == ENOSPC);
  CHECK(sink->flushed());
  CHECK(sink->written() == 0);
  CHECK(errors.empty());
}

TEST_CASE_METHOD(SinkFixture, "a socket does not block either, and has its flags back at the end") {
  use_socket(0);
  CHECK(flags() == O_NONBLOCK);
  write(2 * FdSink::kQueue);
  CHECK(sink->full());
  read_all();
  CHECK(rooms >= 1);
  sink.reset();
  CHECK(flags() == 0);
  CHECK(::write(write_end.get(), "x", 1) == 1);
}

TEST_CASE_METHOD(SinkFixture, "a socket that did not block before stays so") {
  use_socket(SOCK_NONBLOCK);
  write("x");
  sink.reset();
  CHECK(flags() == O_NONBLOCK);
}

TEST_CASE_METHOD(SinkFixture, "a terminal is not waited for, and keeps its flags") {
  read_end = UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE((::grantpt(read_end.get()) == 0 && ::unlockpt(read_end.get()) == 0));
  write_end = UniqueFd(::open(::ptsname(read_end.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(write_end);
  termios modes{};
  REQUIRE(::tcgetattr(write_end.get(), &modes) == 0);
  ::cfmakeraw(&modes);
  REQUIRE(::tcsetattr(write_end.get(), TCSANOW, &modes) == 0);
  REQUIRE(attach(write_end.get(), {}));
  write(200'000);
  CHECK_FALSE(sink->flushed());
  CHECK(flags() == 0);
  read_all();
}

TEST_CASE_METHOD(SinkFixture, "a sink may be destroyed with something kept, and leaves the descriptor open") {
  use_pipe({.overflow = Overflow::spill});
  write(2 * FdSink::kQueue);
  sink.reset();
  loop->poll();
  CHECK_FALSE(loop->alive());
  CHECK(::fcntl(write_end.get(), F_GETFD) >= 0);
}

TEST_CASE_METHOD(SinkFixture, "what is no descriptor is an error") {
  Error error = attach(-1, {}).error();
  CHECK(error.code == EBADF);
  CHECK(error.message == "the reader: Bad file descriptor");
}

TEST_CASE_METHOD(SinkFixture, "room that a callback uses for more is told again") {
  use_pipe({});
  FdSink::Callbacks callbacks;
  int left = 3;
  callbacks.on_room = [&] {
    if (sink->flushed() && left-- > 0) write(3 * kPipe);
  };
  sink = FdSink::create(*loop, write_end.get(), "the reader", {}, std::move(callbacks)).value();
  write(2 * kPipe);
  read_all();
  CHECK(left == -1);
  CHECK(given.size() == 11 * kPipe);
}

namespace {

// The file to which a sink is redirected.
struct RefugeFixture : SinkFixture {
  UniqueFd file{::memfd_create("refuge", MFD_CLOEXEC)};
  FdSink::AfterError after = FdSink::AfterError::again;
  std::size_t at_stake = 0;

  void use_pipe_and_file() {
    use_pipe({});
    FdSink::Callbacks callbacks;
    callbacks.on_room = [this] { ++rooms; };
    callbacks.on_error = [this](const Error& error) { errors.push_back(error); };
    callbacks.after_error = [this](const Error& error, std::size_t bytes) {
      CHECK(error.message.starts_with("cannot write the reader: "));
      at_stake += bytes;
      if (after == FdSink::AfterError::again) sink->redirect(file.get());
      return after;
    };
    sink = FdSink::create(*loop, write_end.get(), "the reader", {}, std::move(callbacks)).value();
  }
  [[nodiscard]] std::string in_file() const {
    std::string out(8 * FdSink::kQueue, '\0');
    ssize_t size = ::pread(file.get(), out.data(), out.size(), 0);
    out.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    return out;
  }
};

}  // namespace

TEST_CASE_METHOD(RefugeFixture,
                 "what a sink has kept goes to the file to which it is redirected, then what comes") {
  use_pipe_and_file();
  write(3 * kPipe);
  REQUIRE_FALSE(sink->flushed());
  sink->redirect(file.get());
  CHECK(sink->flushed());
  CHECK(rooms == 1);
  write("more");
  CHECK(in_file() == given.substr(kPipe));
  loop->poll();
  CHECK_FALSE(loop->alive());
}

TEST_CASE_METHOD(RefugeFixture, "a reader that goes away: all that it has not read goes to the file, once") {
  use_pipe_and_file();
  bool kept = GENERATE(false, true);
  if (kept) write(3 * kPipe);
  std::size_t before = sink->written();
  read_end.reset();
  if (kept) loop->run();
  write("more");
  CHECK(errors.empty());
  CHECK(sink->flushed());
  CHECK((in_file() == given.substr(before)));
  loop->poll();
  CHECK_FALSE(loop->alive());
}

TEST_CASE_METHOD(RefugeFixture, "bytes that are dropped count as written, and later ones are tried again") {
  use_pipe_and_file();
  UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  sink->redirect(full.get());
  after = FdSink::AfterError::drop;
  write(kPipe);
  CHECK(at_stake == kPipe);
  CHECK(sink->flushed());
  CHECK(sink->written() == kPipe);
  sink->redirect(file.get());
  write("more");
  CHECK(in_file() == "more");
  CHECK(errors.empty());
}
