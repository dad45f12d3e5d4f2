// SPDX-License-Identifier: Apache-2.0
#include "launch/stream.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "folder.hpp"

using namespace nacre;          // NOLINT
using namespace nacre::kit;     // NOLINT
using namespace nacre::launch;  // NOLINT

namespace {

// A launcher's end and the leader's, with a pipe between them.
struct StreamFixture {
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  std::unique_ptr<task::BufferedStream> to;
  std::unique_ptr<LaunchFeed> feed;
  std::unique_ptr<LaunchStream> stream;
  UniqueFd raw;  // the launcher's end, if a test itself writes to it
  std::vector<int> signals, ended_by;
  std::string input;
  int ends = 0;
  int wishes = 0;  // to leave
  std::vector<std::string> gone, agreed;

  StreamFixture() { std::signal(SIGPIPE, SIG_IGN); }

  LaunchStream::Callbacks callbacks() {
    return {[this](int signum) { signals.push_back(signum); },
            [this](int signum) { ended_by.push_back(signum); },
            [this](std::string_view bytes) { input += bytes; },
            [this] { ++ends; },
            [this](const Error& why) { gone.push_back(why.message); },
            [this] { ++wishes; },
            [this](const value::Idset& shells) { agreed.push_back(shells.str()); }};
  }
  void receive(std::string behind = "") {
    Pipe pipe = make_pipe(O_CLOEXEC).value();
    raw = std::move(pipe.write);
    stream = LaunchStream::create(*loop, std::move(pipe.read), std::move(behind), callbacks()).value();
  }
  void connect(int from) {
    receive();
    task::BufferedStream::Callbacks to_callbacks;
    to_callbacks.on_room = [this](std::size_t) {
      if (feed) feed->on_room();
    };
    to = task::BufferedStream::create(*loop, std::move(raw), {.readable = false, .writable = true}, to_callbacks)
             .value();
    feed = LaunchFeed::create(*loop, *to, from).value();
  }
  void until(const std::function<bool()>& done) {
    loop->run_until(done);
    REQUIRE(done());
  }
  void turn(int rounds) {
    for (int i = 0; i < rounds; ++i) loop->poll();
  }
};

std::string signal_record(const std::string& body) {
  std::string out;
  transport::append_frame_head(out, body.size());
  return out + body;
}

std::string bulk_record(std::string_view bytes, std::uint32_t number = kInputStream) {
  std::string out;
  transport::append_bulk_head(out, number, bytes.size());
  return out += bytes;
}

std::string end_record() {
  std::string out;
  transport::append_stream_record(out, transport::LinkRecordKind::end, kInputStream);
  return out;
}

std::string varied(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>(i * 7 + i / 251);
  return out;
}

}  // namespace

TEST_CASE_METHOD(StreamFixture, "the launcher's signals and input reach the leader, from a file") {
  TemporaryFolder folder;
  std::string bytes = varied(1 << 20);
  UniqueFd file(::open(folder.file("input", bytes).c_str(), O_RDONLY | O_CLOEXEC));
  connect(file.get());
  feed->signal(SIGUSR1);
  until([&] { return ends == 1 && !signals.empty(); });
  CHECK(input == bytes);
  feed->signal(SIGINT);
  until([&] { return signals.size() == 2; });
  CHECK(signals == std::vector<int>{SIGUSR1, SIGINT});
  CHECK(ended_by.empty());
  feed->agree(value::Idset::parse("1,4-6").value());
  until([&] { return !agreed.empty(); });
  CHECK(agreed == std::vector<std::string>{"1,4-6"});
  feed->end(SIGTERM);
  until([&] { return !ended_by.empty(); });
  CHECK(ended_by == std::vector<int>{SIGTERM});
  CHECK(signals.size() == 2);
  CHECK(gone.empty());
  CHECK(ends == 1);
}

TEST_CASE_METHOD(StreamFixture, "input from a pipe comes as it is written, and its end once it is closed") {
  Pipe source = make_pipe(O_CLOEXEC).value();
  connect(source.read.get());
  REQUIRE(write_all(source.write.get(), "one") == 0);
  until([&] { return input == "one"; });
  CHECK(ends == 0);
  REQUIRE(write_all(source.write.get(), " two") == 0);
  source.write.reset();
  until([&] { return ends == 1; });
  CHECK(input == "one two");
  // Other processes share the description.
  CHECK((::fcntl(source.read.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE_METHOD(StreamFixture, "without input it has ended; so it has with /dev/null") {
  connect(-1);
  until([&] { return ends == 1; });
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ends = 0;
  feed.reset();
  to.reset();
  connect(null.get());
  until([&] { return ends == 1; });
  CHECK(input.empty());
}

TEST_CASE_METHOD(StreamFixture,
                 "input that is not wanted is held, signals pass it, and it comes when it is wanted") {
  Pipe source = make_pipe(O_CLOEXEC).value();
  connect(source.read.get());
  stream->want_input(false);
  REQUIRE(write_all(source.write.get(), "held") == 0);
  source.write.reset();
  auto look = event::Timer::create(*loop, [&] { feed->signal(SIGTERM); }).value();
  look.start(event::Seconds(0.01));
  until([&] { return signals.size() == 1; });
  CHECK(input.empty());
  CHECK(ends == 0);
  stream->want_input(true);
  until([&] { return ends == 1; });
  CHECK(input == "held");
}

TEST_CASE_METHOD(StreamFixture, "only so much is held; that the launcher goes is noticed all the same") {
  receive();
  stream->want_input(false);
  int flags = ::fcntl(raw.get(), F_GETFL);
  REQUIRE(::fcntl(raw.get(), F_SETFL, flags | O_NONBLOCK) == 0);
  std::string record = bulk_record(std::string(transport::kMaxChunk, 'x'));
  std::size_t written = 0;
  // Runs the loop until nothing moves any more.
  for (int idle = 0; idle < 50;) {
    ssize_t put =
        ::write(raw.get(), record.data() + written % record.size(), record.size() - written % record.size());
    if (put > 0) written += static_cast<std::size_t>(put);
    idle = put > 0 ? 0 : idle + 1;
    turn(1);
    REQUIRE(written < 2 * LaunchStream::kMaxHeld);
  }
  CHECK(written >= LaunchStream::kMaxHeld);
  CHECK(gone.empty());
  raw.reset();
  until([&] { return !gone.empty(); });
  CHECK(gone[0] == "the launcher has gone");
}

TEST_CASE_METHOD(StreamFixture, "what was read with the record is the stream's beginning, told from the loop") {
  receive(signal_record("{\"signal\":15}") + bulk_record("first ") + bulk_record("half").substr(0, 6));
  CHECK(signals.empty());
  REQUIRE(write_all(raw.get(), bulk_record("half").substr(6) + end_record()) == 0);
  until([&] { return ends == 1; });
  CHECK(signals == std::vector<int>{15});
  CHECK(input == "first half");
}

TEST_CASE_METHOD(StreamFixture, "the launcher's end is told once") {
  receive();
  raw.reset();
  until([&] { return !gone.empty(); });
  turn(5);
  CHECK(gone == std::vector<std::string>{"the launcher has gone"});
}

TEST_CASE_METHOD(StreamFixture, "what a launcher cannot say ends its stream") {
  std::string bytes =
      GENERATE(signal_record("{}"), signal_record("{\"signal\":0}"), signal_record("{\"signal\":999}"),
               signal_record("{\"signal\":15,\"x\":1}"), signal_record("nonsense"), signal_record("{\"end\":0}"),
               signal_record("{\"detach\":false}"), signal_record("{\"detach\":true,\"end\":15}"),
               signal_record("{\"end\":15,\"signal\":15}"),
               signal_record(std::string(LaunchStream::kMaxFrame + 1, ' ')), bulk_record("x", 1),
               end_record() + bulk_record("x"), end_record() + end_record(), std::string("GET / HTTP/1.0\r\n"));
  receive();
  REQUIRE(write_all(raw.get(), bytes) == 0);
  until([&] { return !gone.empty(); });
  CHECK_THAT(gone[0], Catch::Matchers::StartsWith("the launcher's stream: "));
  CHECK(signals.empty());
  CHECK(ended_by.empty());
  CHECK(input.empty());
}

TEST_CASE_METHOD(StreamFixture, "a shell that is not the leader lets all go, and notices the end") {
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  bool over = false;
  stream = LaunchStream::watch(*loop, std::move(pipe.read), [&] { over = true; }).value();
  REQUIRE(write_all(pipe.write.get(), "anything" + bulk_record("x")) == 0);
  turn(5);
  CHECK_FALSE(over);
  pipe.write.reset();
  until([&] { return over; });
}

// Another process group is in the terminal's foreground: reading it would stop the reader.
TEST_CASE_METHOD(StreamFixture, "a terminal that others have is left alone") {
  UniqueFd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(master);
  REQUIRE(::grantpt(master.get()) == 0);
  REQUIRE(::unlockpt(master.get()) == 0);
  Pipe report = make_pipe(O_CLOEXEC).value();
  pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::setsid();
    int terminal = ::open(::ptsname(master.get()), O_RDWR);
    ::ioctl(terminal, TIOCSCTTY, 0);
    pid_t other = ::fork();
    if (other == 0) {
      ::setpgid(0, 0);
      for (;;) ::pause();
    }
    ::setpgid(other, other);
    std::signal(SIGTTOU, SIG_IGN);
    ::tcsetpgrp(terminal, other);
    auto own_loop = event::Loop::create().value();
    Pipe pipe = make_pipe(O_CLOEXEC).value();
    auto own_to =
        task::BufferedStream::create(*own_loop, std::move(pipe.write), {.readable = false, .writable = true}, {})
            .value();
    std::string outcome;
    {
      auto own_feed = LaunchFeed::create(*own_loop, *own_to, terminal).value();
      for (int i = 0; i < 50; ++i) own_loop->poll();
      outcome = "left alone";
      // Now this process's group has the terminal.
      ::tcsetpgrp(terminal, ::getpgrp());
      std::string got;
      auto poll = event::Poll::create(*own_loop, pipe.read.get(), [&](int) {
                    char bytes[256];
                    ssize_t size = ::read(pipe.read.get(), bytes, sizeof bytes);
                    if (size > 0) got.append(bytes, static_cast<std::size_t>(size));
                  }).value();
      static_cast<void>(poll.start(event::Poll::kReadable));
      own_loop->run_until([&] { return got.find("typed") != std::string::npos; });
      outcome += ", then read";
    }
    ::kill(other, SIGKILL);
    static_cast<void>(write_all(report.write.get(), outcome));
    ::_exit(0);
  }
  report.write.reset();
  REQUIRE(write_all(master.get(), "typed\n") == 0);
  char bytes[64];
  ssize_t size = ::read(report.read.get(), bytes, sizeof bytes);
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(std::string(bytes, size > 0 ? static_cast<std::size_t>(size) : 0) == "left alone, then read");
}

TEST_CASE_METHOD(StreamFixture, "a launcher that wants to leave asks until the leader lets it go, and sees that") {
  connect(-1);
  feed->detach();
  until([&] { return wishes == 1; });
  feed->detach();
  until([&] { return wishes == 2; });
  CHECK_FALSE(stream->has_hung_up());
  CHECK_FALSE(to->closed());
  stream->let_go();
  CHECK(stream->has_hung_up());
  until([&] {
    feed->detach();
    return to->closed();
  });
  CHECK(gone.empty());
  CHECK(wishes == 2);
}

TEST_CASE_METHOD(StreamFixture, "a leader may let its launcher go within the callback") {
  receive();
  LaunchStream::Callbacks own = callbacks();
  own.on_detach = [this] {
    ++wishes;
    stream->let_go();
  };
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  stream = LaunchStream::create(*loop, std::move(pipe.read), "", std::move(own)).value();
  std::string wish = signal_record(R"({"detach":true})");
  REQUIRE(write_all(pipe.write.get(), wish + wish + bulk_record("late")) == 0);
  until([&] { return wishes == 1; });
  turn(3);
  CHECK(wishes == 1);
  CHECK(input.empty());
  CHECK(gone.empty());
}

TEST_CASE_METHOD(StreamFixture, "a launcher that has gone is seen before its end is read") {
  receive();
  CHECK_FALSE(stream->has_hung_up());
  REQUIRE(write_all(raw.get(), bulk_record("unread")) == 0);
  raw.reset();
  CHECK(stream->has_hung_up());
}
