// SPDX-License-Identifier: Apache-2.0
#include "io/sink.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "catch.hpp"

#include "fd_sink_fixture.hpp"

namespace {

// As many bytes as a file of this process may have, for as long as it lives.
struct FileLimit {
  explicit FileLimit(rlim_t bytes) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
    rlimit limit{bytes, old.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
  }
  void (*handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
};

}  // namespace

TEST_CASE_METHOD(SinkFixture, "block: it is full once the queue is, until there is room") {
  use_pipe({});
  write(kPipe);
  CHECK(sink->flushed());
  write(FdSink::kQueue - 1);
  CHECK_FALSE(sink->flushed());
  CHECK_FALSE(sink->full());
  write(1);
  CHECK(sink->full());
  CHECK(sink->takes());
  CHECK(sink->written() == kPipe);
  loop->poll();
  CHECK(rooms == 0);
  read();
  CHECK(rooms == 1);
  CHECK_FALSE(sink->full());
  CHECK(sink->written() == 2 * kPipe);
  read();
  CHECK(rooms == 1);
  write(2 * kPipe + 1);
  CHECK(sink->full());
  read_all();
  CHECK(rooms == 3);
  write("after all");
  read_all();
  CHECK(rooms == 3);
}

TEST_CASE_METHOD(SinkFixture, "spill: beyond the queue it is kept on disk, up to a limit; then it is full") {
  use_pipe({.overflow = Overflow::spill, .spill_limit = 100'000});
  write(kPipe);
  write(FdSink::kQueue);
  CHECK_FALSE(sink->full());
  write(60'000);
  write(40'000);
  CHECK_FALSE(sink->full());
  write(1);
  CHECK(sink->full());
  write(5 * kPipe);
  read();
  CHECK(sink->full());
  CHECK(rooms == 0);
  while (sink->full() && got.size() < given.size()) read();
  CHECK(rooms == 1);
  CHECK(got.size() >= FdSink::kQueue + 100'000);
  read_all();
  CHECK(rooms == 2);
  CHECK(spills.empty());
}

TEST_CASE_METHOD(SinkFixture, "spill: it is full too where one write is more than the disk may have") {
  auto limit = GENERATE(std::uint64_t{0}, std::uint64_t{5000});
  use_pipe({.overflow = Overflow::spill, .spill_limit = limit});
  write(kPipe);
  write(FdSink::kQueue);
  CHECK_FALSE(sink->full());
  write(5001);
  CHECK(sink->full());
  write(10);
  CHECK(sink->full());
  read_all();
  CHECK(rooms >= 1);
  CHECK(spills.empty());
}

TEST_CASE_METHOD(SinkFixture, "what is kept comes before what is written while there is room") {
  use_pipe({});
  write(2 * kPipe);
  std::string part(kPipe, '\0');
  REQUIRE(::read(read_end.get(), part.data(), kPipe) == kPipe);
  got += part;
  write("after");
  read_all();
}

TEST_CASE_METHOD(SinkFixture, "spill: while something is on disk more goes there") {
  use_pipe({.overflow = Overflow::spill});
  write(kPipe);
  write(FdSink::kQueue);
  write(FdSink::kQueue / 2);
  while (kept() >= FdSink::kQueue / 4 * 3) read();
  write(1000);
  CHECK_FALSE(sink->full());
  read_all();
}

TEST_CASE_METHOD(SinkFixture, "a sink that has failed stays so") {
  std::string path = "/tmp/nacre-sink-test-XXXXXX";
  write_end = UniqueFd(::mkostemp(path.data(), O_CLOEXEC));
  REQUIRE(::unlink(path.c_str()) == 0);
  REQUIRE(attach(write_end.get(), {}));
  {
    FileLimit limit(0);
    CHECK(write_error().message == "cannot write the reader: File too large");
  }
  CHECK(write_error().code == EFBIG);
  CHECK(sink->written() == 0);
}

TEST_CASE_METHOD(SinkFixture, "spill: what is kept is on disk, not in memory") {
  std::string folder = "/tmp/nacre-sink-test-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  use_pipe({.overflow = Overflow::spill, .spill_directory = folder});
  write(kPipe);
  write(FdSink::kQueue);
  write(3 * FdSink::kQueue);
  CHECK_FALSE(sink->full());
  off_t size = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    struct stat info {};
    bool inside = std::filesystem::read_symlink(each, none).string().rfind(folder + "/", 0) == 0;
    if (inside && ::stat(each.path().c_str(), &info) == 0) size += info.st_size;
  }
  CHECK(size == 3 * FdSink::kQueue);
  CHECK(std::filesystem::is_empty(folder));
  read_all();
  std::filesystem::remove_all(folder);
}

TEST_CASE_METHOD(SinkFixture, "spill: where it can't it says so once and blocks, and nothing is lost") {
  use_pipe({.overflow = Overflow::spill, .spill_directory = "/nonexistent/folder"});
  write(kPipe);
  write(FdSink::kQueue);
  CHECK_FALSE(sink->full());
  CHECK(spills.empty());
  write(70'000);
  CHECK(sink->full());
  write(70'000);
  REQUIRE(spills.size() == 1);
  CHECK(spills[0].message == "cannot keep output in /nonexistent/folder: No such file or directory");
  while (kept() >= FdSink::kQueue) {
    CHECK(rooms == 0);
    read();
  }
  CHECK(rooms == 1);
  CHECK_FALSE(sink->full());
  write(70'000);
  CHECK(sink->full());
  read_all();
  CHECK(spills.size() == 1);
  CHECK(errors.empty());
}

TEST_CASE_METHOD(SinkFixture, "spill: a disk that is full later loses nothing either") {
  use_pipe({.overflow = Overflow::spill});
  write(kPipe);
  write(FdSink::kQueue);
  write(3000);
  {
    FileLimit limit(4096);
    write(3000);
  }
  CHECK(spills.size() == 1);
  CHECK(sink->full());
  write(3000);
  while (sink->full() && got.size() < given.size()) read();
  CHECK(rooms == 1);
  write(FdSink::kQueue);
  CHECK(sink->full());
  read_all();
  CHECK(spills.size() == 1);
}

TEST_CASE_METHOD(SinkFixture, "drop: it takes no more once the queue is full, until half of it is out") {
  use_pipe({.overflow = Overflow::drop});
  write(kPipe);
  write(FdSink::kQueue - 1);
  CHECK(sink->takes());
  write(1);
  CHECK_FALSE(sink->takes());
  CHECK_FALSE(sink->full());
  write("kept nevertheless");
  while (kept() > FdSink::kQueue / 2) {
    if (sink->takes()) FAIL("takes with " << kept() << " bytes kept");
    read();
  }
  CHECK(sink->takes());
  write(FdSink::kQueue - kept() - 1);
  CHECK(sink->takes());
  read_all();
  CHECK(sink->takes());
  CHECK(spills.empty());
}

TEST_CASE_METHOD(SinkFixture, "all bytes arrive in order, however they are written and read") {
  auto overflow = GENERATE(Overflow::block, Overflow::spill, Overflow::drop);
  auto seed = GENERATE(range(0U, 3U));
  std::mt19937 random(seed);
  use_pipe({.overflow = overflow, .spill_limit = seed * 200'000});
  bool waiting = false;
  int seen = 0;
  int fulls = 0;
  std::size_t next = 0;
  const std::string bytes = pattern(5 * FdSink::kQueue, seed);
  while (next < bytes.size()) {
    if ((!sink->full() && sink->takes()) || random() % 50 == 0) {
      std::size_t size = random() % (random() % 3 == 0 ? 500'000 : 5000);
      write(std::string_view(bytes).substr(next, size));
      next += size;
    }
    fulls += !waiting && sink->full() ? 1 : 0;
    waiting = sink->full();
    for (auto reads = random() % 40; reads > 0; --reads) read(1 + random() % (2 * kPipe));
    if (waiting && !sink->full() && rooms == seen) FAIL("nobody was told that there is room");
    waiting = sink->full();
    seen = rooms;
  }
  CHECK((overflow == Overflow::drop) == (fulls == 0));
  read_all();
  CHECK(errors.empty());
  CHECK(spills.empty());
}
