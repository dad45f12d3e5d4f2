// SPDX-License-Identifier: Apache-2.0
#include "io/fanout.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

#include "catch.hpp"

#include "base/file.hpp"
#include "event/clock.hpp"

using namespace nacre;      // NOLINT
using namespace nacre::io;  // NOLINT

namespace {

constexpr int kReaderPipe = 4096;
constexpr std::size_t kWindow = std::size_t{64} << 10;
constexpr std::size_t kMegabyte = std::size_t{1} << 20;

std::string bytes_of(std::size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, 'x');
  for (std::size_t at = 0; at + 8 <= size; at += 8) {
    std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, 8);
  }
  return bytes;
}

struct Reader {
  UniqueFd end;
  std::string got = {};
  bool ended = false;
};

struct FanoutFixture {
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  UniqueFd source;
  UniqueFd writer;
  std::unique_ptr<Fanout> fanout;
  std::vector<Reader> readers;
  std::string given;
  std::size_t fed = 0;  // bytes of `given`
  std::vector<Error> errors;
  std::vector<std::vector<std::size_t>> waits;
  std::vector<std::optional<Error>> wait_errors;
  int limits = 0;

  FanoutFixture() { std::signal(SIGPIPE, SIG_IGN); }

  static Fanout::Options small() {
    Fanout::Options options;
    options.window = kWindow;
    options.stall_time = event::Seconds(0.01);
    return options;
  }

  Result<void> attach(int fd, Fanout::Options options) {
    Fanout::Callbacks callbacks;
    callbacks.on_error = [this](const Error& error) { errors.push_back(error); };
    callbacks.on_limit = [this] { ++limits; };
    callbacks.on_wait = [this](const auto& slow, const auto& error) {
      waits.push_back(slow);
      wait_errors.push_back(error);
    };
    fanout = TRY(Fanout::create(*loop, fd, std::move(options), std::move(callbacks)));
    return {};
  }
  void open(Fanout::Options options, std::size_t size, std::size_t count) {
    Pipe pipe = make_pipe(O_CLOEXEC).value();
    source = std::move(pipe.read);
    writer = std::move(pipe.write);
    REQUIRE(::fcntl(writer.get(), F_SETFL, O_NONBLOCK) == 0);
    given = bytes_of(size);
    REQUIRE(attach(source.get(), std::move(options)));
    add(count);
  }
  void add(std::size_t count) {
    for (; count > 0; --count) {
      Pipe pipe = make_pipe(O_CLOEXEC).value();
      for (int fd : {pipe.read.get(), pipe.write.get()}) REQUIRE(::fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
      REQUIRE(::fcntl(pipe.write.get(), F_SETPIPE_SZ, kReaderPipe) == kReaderPipe);
      REQUIRE(fanout->add(std::move(pipe.write)));
      readers.push_back({std::move(pipe.read)});
    }
  }
  void feed() {
    while (writer) {
      ssize_t done = fed < given.size() ? ::write(writer.get(), given.data() + fed, given.size() - fed) : 0;
      if (done < 0) return;
      fed += static_cast<std::size_t>(done);
      if (fed == given.size()) writer.reset();
    }
  }
  void read(Reader& reader, std::size_t most = kMegabyte) {
    std::array<char, 1 << 16> part;  // NOLINT: left as it is, for speed
    ssize_t size = reader.end ? ::read(reader.end.get(), part.data(), std::min(most, part.size())) : -1;
    if (size > 0) reader.got.append(part.data(), static_cast<std::size_t>(size));
    if (size == 0 && most > 0) reader.ended = true;
  }
  // Runs the loop until `done`, while these readers read.
  template <typename Done>
  void run(const std::vector<std::size_t>& active, const Done& done) {
    auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) FAIL("it does not come to its end");
      feed();
      loop->poll();
      for (std::size_t each : active) read(readers.at(each));
    }
  }
  void run_to_end(const std::vector<std::size_t>& active) {
    run(active,
        [&] { return std::all_of(active.begin(), active.end(), [&](auto i) { return readers[i].ended; }); });
  }
  void check_all(std::size_t reader) {
    CAPTURE(reader);
    CHECK(readers.at(reader).got.size() == given.size());
    CHECK((readers.at(reader).got == given));
  }
  // Waits for several stall_times, in which the reader gets all that it can.
  void settle(std::size_t reader) {
    double until = loop->now() + 0.05;
    int rounds = 0;
    run({reader}, [&] { return ++rounds > 100 && loop->now() > until; });
  }
  // The reader gets nothing more, and nothing more is taken.
  void check_stuck(std::size_t reader) {
    settle(reader);
    std::size_t fed_before = fed;
    std::size_t got_before = readers.at(reader).got.size();
    settle(reader);
    CHECK(fed == fed_before);
    CHECK(readers.at(reader).got.size() == got_before);
  }
  [[nodiscard]] bool is_idle() const {
    loop->poll();  // closed handles go
    return !loop->alive();
  }
  [[nodiscard]] int flags() const { return ::fcntl(source.get(), F_GETFL) & O_NONBLOCK; }
};

UniqueFd file_of(const std::string& bytes) {
  std::string path = "/tmp/nacre-fanout-test-XXXXXX";
  UniqueFd fd(::mkostemp(path.data(), O_CLOEXEC));
  REQUIRE(::unlink(path.c_str()) == 0);
  REQUIRE(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(::lseek(fd.get(), 0, SEEK_SET) == 0);
  return fd;
}

std::size_t resident() {  // bytes
  std::size_t whole = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> whole >> pages;
  return pages * static_cast<std::size_t>(::getpagesize());
}

}  // namespace

TEST_CASE_METHOD(FanoutFixture, "all readers get all bytes in order, however they read") {
  open(small(), 2 * kMegabyte + 5, 5);
  REQUIRE(fanout->start());
  std::mt19937 random(5);
  run({}, [&] {
    for (std::size_t i = 0; i < readers.size(); ++i) {
      if (random() % (i + 1) == 0) read(readers[i], random() % (20'000 / (i + 1)));
    }
    return std::all_of(readers.begin(), readers.end(), [](const Reader& reader) { return reader.ended; });
  });
  for (std::size_t i = 0; i < readers.size(); ++i) check_all(i);
  CHECK(fanout->done());
  CHECK(waits.empty());
  CHECK(errors.empty());
  CHECK(is_idle());
}

TEST_CASE_METHOD(FanoutFixture, "a reader that does not move holds up nobody, and catches up") {
  open(small(), kMegabyte, 3);
  REQUIRE(fanout->start());
  run_to_end({1, 2});
  check_all(1);
  check_all(2);
  CHECK_FALSE(fanout->done());
  run_to_end({0});
  check_all(0);
  CHECK(fanout->done());
  CHECK(waits.empty());
}

TEST_CASE_METHOD(FanoutFixture, "at the limit of the file all wait, which is told once, until the slow one reads") {
  Fanout::Options options = small();
  options.spill_limit = 2 * kWindow;
  open(std::move(options), kMegabyte, 4);
  REQUIRE(fanout->start());
  run({1, 3}, [&] { return !waits.empty(); });
  CHECK(waits[0] == std::vector<std::size_t>{0, 2});
  CHECK_FALSE(wait_errors[0]);
  check_stuck(1);
  CHECK(readers[1].got.size() <= 3 * kWindow + kReaderPipe);
  run_to_end({0, 1, 2, 3});
  for (std::size_t i = 0; i < readers.size(); ++i) check_all(i);
  CHECK(waits.size() == 1);
}

TEST_CASE_METHOD(FanoutFixture, "where there can be no file all wait, and the reason is told") {
  Fanout::Options options = small();
  options.spill_directory = "/nonexistent/folder";
  open(std::move(options), kMegabyte, 2);
  REQUIRE(fanout->start());
  run({1}, [&] { return !waits.empty(); });
  CHECK(waits[0] == std::vector<std::size_t>{0});
  REQUIRE(wait_errors[0]);
  CHECK(wait_errors[0]->code == ENOENT);
  CHECK(wait_errors[0]->message == "cannot keep output in /nonexistent/folder: No such file or directory");
  check_stuck(1);
  CHECK(readers[1].got.size() <= kWindow + kReaderPipe);
  run_to_end({0, 1});
  check_all(0);
  check_all(1);
  CHECK(waits.size() == 1);
}

TEST_CASE_METHOD(FanoutFixture, "a limit is the end, and told only if there was more") {
  std::size_t limit = GENERATE(0, 1, 5000, 199'999, 200'000, 200'001);
  Fanout::Options options = small();
  options.limit = limit;
  open(std::move(options), 200'000, 2);
  REQUIRE(fanout->start());
  run_to_end({0, 1});
  CHECK(limits == (limit < given.size() ? 1 : 0));
  given.resize(std::min(limit, given.size()));
  check_all(0);
  check_all(1);
  CHECK(fanout->done());
}

TEST_CASE_METHOD(FanoutFixture, "a reader that goes away is forgotten") {
  open(small(), kMegabyte, 2);
  SECTION("before the start") {
    readers[0].end.reset();
    REQUIRE(fanout->start());
  }
  SECTION("while its pipe is full") {
    REQUIRE(fanout->start());
    run({}, [&] { return fed >= kReaderPipe; });
    loop->poll();
    readers[0].end.reset();
  }
  SECTION("while it lags far behind") {
    REQUIRE(fanout->start());
    run({1}, [&] { return readers[1].got.size() > 4 * kWindow; });
    readers[0].end.reset();
  }
  SECTION("while all wait for it") {
    Fanout::Options options = small();
    options.spill_limit = 0;
    readers.clear();
    open(std::move(options), kMegabyte, 2);
    REQUIRE(fanout->start());
    run({1}, [&] { return !waits.empty(); });
    readers[0].end.reset();
  }
  run_to_end({1});
  check_all(1);
  CHECK(fanout->done());
  CHECK(errors.empty());
  CHECK(is_idle());
}

TEST_CASE_METHOD(FanoutFixture, "when all have gone the source is read no more") {
  open(small(), 10 * kMegabyte, 2);
  REQUIRE(fanout->start());
  for (Reader& reader : readers) reader.end.reset();
  run({}, [&] { return fanout->done(); });
  CHECK(is_idle());
  CHECK(fed < kMegabyte);
}

TEST_CASE_METHOD(FanoutFixture, "a source that ends at once is an end for all") {
  open(small(), 0, 2);
  writer.reset();
  REQUIRE(fanout->start());
  run_to_end({0, 1});
  CHECK(readers[0].got.empty());
  CHECK(fanout->done());
  CHECK(is_idle());
}

TEST_CASE_METHOD(FanoutFixture, "a file is read from where it stands") {
  given = bytes_of(kMegabyte);
  source = file_of(given);
  REQUIRE(::lseek(source.get(), 1000, SEEK_SET) == 1000);
  given.erase(0, 1000);
  REQUIRE(attach(source.get(), small()));
  add(3);
  REQUIRE(fanout->start());
  run_to_end({0, 2});
  run_to_end({1});
  for (std::size_t i = 0; i < readers.size(); ++i) check_all(i);
  CHECK(is_idle());
}

TEST_CASE_METHOD(FanoutFixture, "a source that can't be read is told once, and is an end for all") {
  source = UniqueFd(::open("/tmp", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  REQUIRE(attach(source.get(), small()));
  add(2);
  REQUIRE(fanout->start());
  run_to_end({0, 1});
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].code == EBADF);
  CHECK(errors[0].message == "cannot read stdin: Bad file descriptor");
  CHECK(fanout->done());
}

TEST_CASE_METHOD(FanoutFixture, "after stop() readers come to an end, and nothing is left to do") {
  open(small(), kMegabyte, 2);
  REQUIRE(fanout->start());
  bool lagging = GENERATE(false, true);
  run({1}, [&] { return readers[1].got.size() > (lagging ? 4 * kWindow : 0); });
  fanout->stop();
  CHECK(fanout->done());
  CHECK(is_idle());
  run_to_end({0, 1});
  CHECK(readers[0].got == given.substr(0, kReaderPipe));
  CHECK((readers[1].got == given.substr(0, readers[1].got.size())));
}

TEST_CASE_METHOD(FanoutFixture, "it may be destroyed while readers lag, and leaves the source open") {
  open(small(), kMegabyte, 2);
  REQUIRE(fanout->start());
  run({1}, [&] { return readers[1].got.size() > 4 * kWindow; });
  fanout.reset();
  CHECK(is_idle());
  CHECK(::fcntl(source.get(), F_GETFD) >= 0);
}

TEST_CASE_METHOD(FanoutFixture, "the O_NONBLOCK flag of the source's pipe is not changed") {
  open(small(), kMegabyte, 1);
  CHECK(flags() == 0);
  REQUIRE(fanout->start());
  run({0}, [&] { return readers[0].got.size() > kWindow; });
  CHECK(flags() == 0);
  run_to_end({0});
  fanout.reset();
  CHECK(flags() == 0);
}

TEST_CASE_METHOD(FanoutFixture, "a socket has its flags back at the end") {
  int before = GENERATE(0, O_NONBLOCK);
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  source = UniqueFd(ends[0]);
  writer = UniqueFd(ends[1]);
  REQUIRE(::fcntl(writer.get(), F_SETFL, O_NONBLOCK) == 0);
  REQUIRE(::fcntl(source.get(), F_SETFL, before) == 0);
  given = bytes_of(kMegabyte);
  REQUIRE(attach(source.get(), small()));
  add(2);
  REQUIRE(fanout->start());
  run_to_end({0, 1});
  check_all(0);
  check_all(1);
  fanout.reset();
  CHECK(flags() == before);
}

TEST_CASE_METHOD(FanoutFixture, "memory does not grow with the input, nor with how far a reader is behind") {
  constexpr std::size_t kWhole = 24 * kMegabyte;
  open(small(), kMegabyte, 2);
  REQUIRE(fanout->start());
  std::size_t before = resident();
  std::size_t got = 0;
  for (std::size_t at = 0; got < kWhole;) {
    ssize_t done = ::write(writer.get(), given.data() + at, given.size() - at);
    at = (at + static_cast<std::size_t>(std::max<ssize_t>(done, 0))) % given.size();
    loop->poll();
    read(readers[1]);
    got += readers[1].got.size();
    readers[1].got.clear();
  }
  CHECK(resident() < before + 4 * kMegabyte);
}

TEST_CASE("a source that is no descriptor is an error") {
  auto loop = event::Loop::create().value();
  auto fanout = Fanout::create(*loop, -1, {}, {});
  REQUIRE_FALSE(fanout);
  CHECK(fanout.error().code == EBADF);
  CHECK(fanout.error().message == "stdin: Bad file descriptor");
}

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

namespace {

// The bytes that are in the pipe now.
std::string taken_from(const UniqueFd& pipe) {
  std::array<char, 64> bytes{};
  ssize_t got = ::read(pipe.get(), bytes.data(), bytes.size());
  return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

// As leader of a session, whose terminal another process group has at first: whether input comes only once the
// terminal is this process's again.
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
