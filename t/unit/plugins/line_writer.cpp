// SPDX-License-Identifier: Apache-2.0
#include "line_writer.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch.hpp>

#include "base/unique_fd.hpp"
#include "redirection.hpp"

using namespace nacre;
using plugins::LineWriter;
using Source = LineWriter::Source;

namespace {

constexpr std::size_t kMaxLine = LineWriter::kMaxLine;

std::string read_all(int fd) {
  std::string text;
  char buffer[65536];
  for (ssize_t got = 0; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

// A writer into a pipe that is read as it fills.
struct Output {
  Output() : reader([this] { text = read_all(pipe.read.get()); }) {}
  ~Output() {
    if (reader.joinable()) done();
  }

  // All that has been written.
  std::string done() {
    pipe.write.reset();
    reader.join();
    return text;
  }

  Pipe pipe = make_pipe(O_CLOEXEC).value();
  LineWriter writer{pipe.write.get()};
  std::string text;
  std::thread reader;
};

// A pipe that takes no more, and the bytes in it.
struct FullPipe {
  FullPipe() {
    REQUIRE(::fcntl(pipe.write.get(), F_SETPIPE_SZ, 4096) > 0);
    int flags = ::fcntl(pipe.write.get(), F_GETFL);
    REQUIRE(::fcntl(pipe.write.get(), F_SETFL, flags | O_NONBLOCK) == 0);
    while (::write(pipe.write.get(), "#", 1) == 1) ++filled;
    REQUIRE(errno == EAGAIN);
  }

  void make_blocking() const {
    int flags = ::fcntl(pipe.write.get(), F_GETFL);
    REQUIRE(::fcntl(pipe.write.get(), F_SETFL, flags & ~O_NONBLOCK) == 0);
  }

  Pipe pipe = make_pipe(O_CLOEXEC).value();
  std::size_t filled = 0;
};

// Returns when the kernel has put the thread to sleep: it waits for something.
void wait_until_asleep(long thread) {
  for (std::string state; state != "S";) {
    std::string pid;
    std::string name;
    std::ifstream(fmt::format("/proc/self/task/{}/stat", thread)) >> pid >> name >> state;
  }
}

std::atomic<bool> interrupted = false;

std::string lines_of(char letter, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += fmt::format("{} {}\n", letter, i);
  return text;
}

}  // namespace

// ---- lines -----------------------------------------------------------------

TEST_CASE("lines come out once they are whole") {
  Pipe pipe = make_pipe(O_CLOEXEC | O_NONBLOCK).value();
  LineWriter writer(pipe.write.get());
  Source source;
  REQUIRE(writer.add(source, "one"));
  CHECK(read_all(pipe.read.get()).empty());
  REQUIRE(writer.add(source, " line\ntwo\nand"));
  CHECK(read_all(pipe.read.get()) == "one line\ntwo\n");
  REQUIRE(writer.add(source, ""));
  REQUIRE(writer.add(source, "\n"));
  CHECK(read_all(pipe.read.get()) == "and\n");
  REQUIRE(writer.add(source, "\n\n"));
  CHECK(read_all(pipe.read.get()) == "\n\n");
}

TEST_CASE("lines of two sources are never mixed, however their bytes arrive") {
  Output out;
  Source a;
  Source b;
  std::string of_a = lines_of('a', 100);
  std::string of_b = lines_of('b', 100);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    REQUIRE(out.writer.add(a, of_a.substr(i, 1)));
    REQUIRE(out.writer.add(b, of_b.substr(i, 1)));
  }
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += fmt::format("a {0}\nb {0}\n", i);
  CHECK(out.done() == expected);
}

TEST_CASE("what a source has left at its end comes out as it is") {
  Output out;
  Source source;
  REQUIRE(out.writer.add(source, "one\ntwo"));
  REQUIRE(out.writer.end(source));
  CHECK(out.done() == "one\ntwo");
}

TEST_CASE("a source that ends at the end of a line, or has written nothing, adds nothing") {
  Output out;
  Source some;
  Source none;
  some.label = none.label = "0: ";
  REQUIRE(out.writer.add(some, "one\n"));
  REQUIRE(out.writer.end(some));
  REQUIRE(out.writer.end(none));
  CHECK(out.done() == "0: one\n");
}

TEST_CASE("a last line without a newline is ended before another source's line, and only then") {
  Output out;
  Source a;
  Source b;
  Source c;
  REQUIRE(out.writer.add(a, "a"));
  REQUIRE(out.writer.end(a));
  REQUIRE(out.writer.add(b, "b\n"));
  REQUIRE(out.writer.add(b, "b again"));
  REQUIRE(out.writer.end(b));
  REQUIRE(out.writer.end(c));
  CHECK(out.done() == "a\nb\nb again");
}

TEST_CASE("a source at the address of one that has ended is another source") {
  Output out;
  Source source;
  REQUIRE(out.writer.add(source, "first"));
  REQUIRE(out.writer.end(source));
  source = {};
  REQUIRE(out.writer.add(source, "second\n"));
  CHECK(out.done() == "first\nsecond\n");
}

TEST_CASE("NUL, carriage returns and bytes that are no text go through unchanged") {
  Output out;
  Source source;
  std::string bytes("a\0b\r\n\0\n\xff\xfe\n\0", 11);
  REQUIRE(out.writer.add(source, bytes));
  REQUIRE(out.writer.end(source));
  CHECK(out.done() == bytes);
}

// ---- labels ----------------------------------------------------------------

TEST_CASE("a label stands before each line, once, empty lines too") {
  Output out;
  Source source{"12: ", {}};
  REQUIRE(out.writer.add(source, "a\n\nb"));
  REQUIRE(out.writer.add(source, "c\n"));
  REQUIRE(out.writer.add(source, "\n"));
  CHECK(out.done() == "12: a\n12: \n12: bc\n12: \n");
}

TEST_CASE("each source has its own label, or none") {
  Output out;
  Source a{"0: ", {}};
  Source b{"1: ", {}};
  Source c;
  REQUIRE(out.writer.add(a, "a\na"));
  REQUIRE(out.writer.add(c, "c\n"));
  REQUIRE(out.writer.add(b, "b\n"));
  REQUIRE(out.writer.add(a, "\n"));
  CHECK(out.done() == "0: a\nc\n1: b\n0: a\n");
}

TEST_CASE("a labelled last line gets its newline") {
  Output out;
  Source source{"3: ", {}};
  REQUIRE(out.writer.add(source, "one\ntwo"));
  REQUIRE(out.writer.end(source));
  CHECK(out.done() == "3: one\n3: two\n");
}

TEST_CASE("lines with a NUL are labelled as any other") {
  Output out;
  Source source{"0: ", {}};
  REQUIRE(out.writer.add(source, std::string("\0\n\0", 3)));
  REQUIRE(out.writer.end(source));
  CHECK(out.done() == std::string("0: \0\n0: \0\n", 10));
}

// ---- long lines ------------------------------------------------------------
//
// In CHECK((...)) Catch does not show the values: it would take minutes for lines of a megabyte.

TEST_CASE("a line of the limit is kept until it is whole, a longer one is not") {
  CHECK(kMaxLine == 1048576);
  Output out;
  Source a;
  Source b;
  std::string limit(kMaxLine, 'a');
  REQUIRE(out.writer.add(a, limit));
  CHECK(a.partial.size() == kMaxLine);
  REQUIRE(out.writer.add(b, "b\n"));
  REQUIRE(out.writer.add(a, "\n"));
  REQUIRE(out.writer.add(a, limit + "a"));
  CHECK(a.partial.empty());
  CHECK((out.done() == "b\n" + limit + "\n" + limit + "a"));
}

TEST_CASE("the parts of a long line come out as one where nothing comes between") {
  for (const char* label : {"", "7: "}) {
    Output out;
    Source source{label, {}};
    std::string line(3 * kMaxLine, 'x');
    for (std::size_t i = 0; i < line.size(); i += 65536) {
      REQUIRE(out.writer.add(source, line.substr(i, 65536)));
      CHECK(source.partial.size() <= kMaxLine);
    }
    REQUIRE(out.writer.add(source, "y\nz\n"));
    CHECK((out.done() == label + line + "y\n" + label + "z\n"));
  }
}

TEST_CASE("a long line that another source's has to part ends there, and goes on as a line of its own") {
  for (std::string label : {"", "0: "}) {
    Output out;
    Source a{label, {}};
    Source b;
    std::string part(kMaxLine + 1, 'a');
    REQUIRE(out.writer.add(a, part));
    REQUIRE(out.writer.add(b, "b\n"));
    REQUIRE(out.writer.add(a, "rest\n"));
    CHECK((out.done() == label + part + "\nb\n" + label + "rest\n"));
  }
}

TEST_CASE("two long lines at once: no line has bytes of both") {
  Output out;
  Source a;
  Source b;
  std::string of_a(kMaxLine + 1, 'a');
  std::string of_b(kMaxLine + 1, 'b');
  REQUIRE(out.writer.add(a, of_a));
  REQUIRE(out.writer.add(b, of_b));
  REQUIRE(out.writer.add(a, of_a));
  REQUIRE(out.writer.end(b));
  REQUIRE(out.writer.end(a));
  CHECK((out.done() == of_a + "\n" + of_b + "\n" + of_a));
}

TEST_CASE("a long line that its source leaves unfinished") {
  std::string part(kMaxLine + 1, 'a');
  Output plain;
  Source source;
  REQUIRE(plain.writer.add(source, part));
  REQUIRE(plain.writer.end(source));
  CHECK((plain.done() == part));
  Output labelled;
  source.label = "0: ";
  REQUIRE(labelled.writer.add(source, part));
  REQUIRE(labelled.writer.end(source));
  CHECK((labelled.done() == "0: " + part + "\n"));
  // Another's line has ended it already.
  Output parted;
  Source other;
  REQUIRE(parted.writer.add(source, part));
  REQUIRE(parted.writer.add(other, "b\n"));
  REQUIRE(parted.writer.end(source));
  CHECK((parted.done() == "0: " + part + "\nb\n"));
}

// ---- the descriptor --------------------------------------------------------

TEST_CASE("a full pipe is waited for, on a non-blocking descriptor too") {
  for (bool blocking : {false, true}) {
    FullPipe full;
    if (blocking) full.make_blocking();
    std::string text = lines_of('x', 10000);
    std::string received;
    std::thread reader([&, writer = ::gettid()] {
      wait_until_asleep(writer);
      received = read_all(full.pipe.read.get());
    });
    Source source;
    Result<void> written = LineWriter(full.pipe.write.get()).add(source, text);
    full.pipe.write.reset();
    reader.join();
    CHECK(written);
    CHECK((received == std::string(full.filled, '#') + text));
  }
}

TEST_CASE("a write that a signal interrupts goes on") {
  for (bool blocking : {false, true}) {
    FullPipe full;
    if (blocking) full.make_blocking();
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) { interrupted = true; };  // without SA_RESTART
    ::sigaction(SIGUSR1, &action, &before);
    interrupted = false;
    std::string received;
    std::thread reader([&, thread = ::pthread_self(), writer = ::gettid()] {
      wait_until_asleep(writer);
      ::pthread_kill(thread, SIGUSR1);
      while (!interrupted) std::this_thread::yield();
      wait_until_asleep(writer);
      received = read_all(full.pipe.read.get());
    });
    Source source;
    Result<void> written = LineWriter(full.pipe.write.get()).add(source, "after the signal\n");
    full.pipe.write.reset();
    reader.join();
    ::sigaction(SIGUSR1, &before, nullptr);
    CHECK(written);
    CHECK(received == std::string(full.filled, '#') + "after the signal\n");
  }
}

TEST_CASE("a pipe without a reader is an error, each time") {
  auto action = std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe = make_pipe(O_CLOEXEC).value();
  pipe.read.reset();
  LineWriter writer(pipe.write.get());
  Source a;
  Source b;
  auto written = writer.add(a, "a\n");
  REQUIRE_FALSE(written);
  CHECK(written.error().code == EPIPE);
  CHECK(written.error().message == "cannot write stdout: Broken pipe");
  CHECK_FALSE(writer.add(b, "b\n"));
  // Nothing is written, so nothing fails.
  CHECK(writer.add(b, "no line yet"));
  CHECK_FALSE(writer.end(b));
  CHECK(writer.end(a));
  std::signal(SIGPIPE, action);
}

TEST_CASE("a reader that goes away while a full pipe is waited for is an error") {
  auto action = std::signal(SIGPIPE, SIG_IGN);
  FullPipe full;
  std::thread reader([&, writer = ::gettid()] {
    wait_until_asleep(writer);
    full.pipe.read.reset();
  });
  Source source;
  auto written = LineWriter(full.pipe.write.get()).add(source, "a\n");
  reader.join();
  std::signal(SIGPIPE, action);
  REQUIRE_FALSE(written);
  CHECK(written.error().code == EPIPE);
}

TEST_CASE("an error names the stream") {
  UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Source source;
  auto to_stdout = LineWriter(full.get()).add(source, "a\n");
  auto to_stderr = [&] {
    kit::Redirection redirection(STDERR_FILENO, full.get());
    return LineWriter(STDERR_FILENO).add(source, "a\n");
  }();
  REQUIRE_FALSE(to_stdout);
  CHECK(to_stdout.error().code == ENOSPC);
  CHECK(to_stdout.error().message == "cannot write stdout: No space left on device");
  REQUIRE_FALSE(to_stderr);
  CHECK(to_stderr.error().message == "cannot write stderr: No space left on device");
}
