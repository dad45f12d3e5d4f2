// SPDX-License-Identifier: Apache-2.0
#include "io/sink.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "base/file.hpp"
#include "folder.hpp"

// An FdSink on a pipe with little room, and its reader.

using namespace nacre;      // NOLINT
using namespace nacre::io;  // NOLINT

inline constexpr std::size_t kPipe = 4096;

inline std::string pattern(std::size_t size, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, 'x');
  for (std::size_t at = 0; at + 8 <= size; at += 8) {
    std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, 8);
  }
  return bytes;
}

struct SinkFixture {
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  UniqueFd read_end;
  UniqueFd write_end;
  std::unique_ptr<FdSink> sink;
  std::string given;
  std::string got;
  int rooms = 0;
  std::vector<Error> errors;
  std::vector<Error> spills;

  SinkFixture() { std::signal(SIGPIPE, SIG_IGN); }

  Result<void> attach(int fd, FdSink::Options options) {
    FdSink::Callbacks callbacks;
    callbacks.on_room = [this] {
      ++rooms;
      CHECK_FALSE(sink->full());
    };
    callbacks.on_error = [this](const Error& error) { errors.push_back(error); };
    callbacks.on_spill = [this](const Error& error) { spills.push_back(error); };
    sink = TRY(FdSink::create(*loop, fd, "the reader", std::move(options), std::move(callbacks)));
    return {};
  }
  void use_pipe(FdSink::Options options) {
    Pipe pipe = make_pipe(O_CLOEXEC).value();
    read_end = std::move(pipe.read);
    write_end = std::move(pipe.write);
    REQUIRE(::fcntl(read_end.get(), F_SETFL, O_NONBLOCK) == 0);
    REQUIRE(::fcntl(write_end.get(), F_SETPIPE_SZ, kPipe) == kPipe);
    REQUIRE(attach(write_end.get(), std::move(options)));
  }
  void use_socket(int flags) {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0, ends.data()) == 0);
    write_end = UniqueFd(ends[0]);
    read_end = UniqueFd(ends[1]);
    REQUIRE(::fcntl(read_end.get(), F_SETFL, O_NONBLOCK) == 0);
    REQUIRE(attach(write_end.get(), {}));
  }
  void write(std::string_view bytes) {
    given += bytes;
    std::array<std::string_view, 3> pieces{bytes.substr(0, bytes.size() / 3), {}, bytes.substr(bytes.size() / 3)};
    REQUIRE(sink->write(pieces));
  }
  void write(std::size_t size) { write(pattern(size, static_cast<unsigned>(given.size()))); }
  Error write_error() {
    std::array<std::string_view, 1> pieces{"x"};
    auto result = sink->write(pieces);
    REQUIRE_FALSE(result);
    return result.error();
  }
  // The reader reads; then the sink may write.
  void read(std::size_t most = kPipe) {
    std::array<char, 1 << 16> part;  // NOLINT: left as it is, for speed
    ssize_t size = ::read(read_end.get(), part.data(), std::min(most, part.size()));
    if (size > 0) got.append(part.data(), static_cast<std::size_t>(size));
    loop->poll();
  }
  void read_all() {
    for (int round = 0; got.size() < given.size() && round < 10'000; ++round) read(1 << 16);
    CHECK(got.size() == given.size());
    CHECK((got == given));
    CHECK(sink->flushed());
    CHECK(sink->written() == given.size());
    CHECK_FALSE(loop->alive());
  }
  [[nodiscard]] std::size_t kept() const { return given.size() - sink->written(); }
  [[nodiscard]] int flags() const { return ::fcntl(write_end.get(), F_GETFL) & O_NONBLOCK; }
};

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

namespace {

// Limits the size of this process's files while it lives.
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
  kit::TemporaryFolder folder;
  use_pipe({.overflow = Overflow::spill, .spill_directory = folder.path()});
  write(kPipe);
  write(FdSink::kQueue);
  write(3 * FdSink::kQueue);
  CHECK_FALSE(sink->full());
  off_t size = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    struct stat info {};
    bool inside = std::filesystem::read_symlink(each, none).string().starts_with(folder.path() + "/");
    if (inside && ::stat(each.path().c_str(), &info) == 0) size += info.st_size;
  }
  CHECK(size == 3 * FdSink::kQueue);
  CHECK(std::filesystem::is_empty(folder.path()));
  read_all();
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

namespace {

using nacre::io::ByteQueue;

std::string all_of(const ByteQueue& queue) {
  std::array<std::string_view, 64> blocks;
  std::string out;
  for (std::string_view each : queue.first(blocks)) out += each;
  return out;
}

}  // namespace

TEST_CASE("a queue of bytes gives them in their order, block by block") {
  ByteQueue queue;
  CHECK(queue.empty());
  std::array<std::string_view, 2> two;
  CHECK(queue.first(two).empty());
  queue.add("");
  CHECK(queue.empty());
  queue.add("one ");
  queue.add("two");
  CHECK(queue.size() == 7);
  REQUIRE(queue.first(two).size() == 1);
  CHECK(two[0] == "one two");
  queue.drop(4);
  CHECK(all_of(queue) == "two");
  queue.drop(100);
  CHECK(queue.empty());
  CHECK(queue.size() == 0);
  CHECK(queue.first(two).empty());

  std::string text(ByteQueue::kBlock * 2 + 5, 'x');
  text.back() = 'y';
  queue.add(text);
  CHECK(queue.first(two).size() == 2);
  CHECK(two[0].size() == ByteQueue::kBlock);
  CHECK((all_of(queue) == text));
  queue.drop(ByteQueue::kBlock);
  queue.add("z");
  CHECK((all_of(queue) == text.substr(ByteQueue::kBlock) + "z"));
  queue.clear();
  CHECK(queue.empty());
  queue.add("again");
  CHECK(all_of(queue) == "again");
}

TEST_CASE("what is added to a queue of bytes and dropped in any sizes is as in a text") {
  std::mt19937 random(7);  // NOLINT: the same each time
  ByteQueue queue;
  std::string text;
  for (int round = 0; round < 300; ++round) {
    std::string part(random() % (ByteQueue::kBlock / 2), static_cast<char>('a' + round % 26));
    queue.add(part);
    text += part;
    std::size_t goes = random() % (round % 10 == 9 ? text.size() + 1 : ByteQueue::kBlock / 2);
    queue.drop(goes);
    text.erase(0, std::min(goes, text.size()));
    CHECK(queue.size() == text.size());
    CHECK((all_of(queue) == text));
  }
}

namespace {

constexpr std::size_t kSpillMegabyte = std::size_t{1} << 20;

// The only open file that was in this folder.
struct stat file_in(const kit::TemporaryFolder& folder) {
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    std::string target = std::filesystem::read_symlink(each, none).string();
    struct stat info {};
    if (target.starts_with(folder.path() + "/") && ::stat(each.path().c_str(), &info) == 0) return info;
  }
  FAIL("no file in " << folder.path() << " is open");
  return {};
}

std::string taken(SpillFile& file, std::size_t most) {
  std::string out;
  REQUIRE(file.take(out, most));
  return out;
}

}  // namespace

TEST_CASE("what is spilled comes back first in, first out") {
  kit::TemporaryFolder folder;
  SpillFile file = SpillFile::create(folder.path()).value();
  CHECK(file.size() == 0);
  CHECK(taken(file, 100).empty());
  REQUIRE(file.add("first "));
  REQUIRE(file.add(""));
  REQUIRE(file.add("second"));
  CHECK(file.size() == 12);
  std::string out = "kept: ";
  REQUIRE(file.take(out, 8));
  CHECK(out == "kept: first se");
  CHECK(file.size() == 4);
  REQUIRE(file.add(std::string_view(" \0third", 7)));
  CHECK(file.size() == 11);
  CHECK(taken(file, 0).empty());
  CHECK(taken(file, 100) == std::string("cond \0third", 11));
  CHECK(file.size() == 0);
  REQUIRE(file.add("again"));
  CHECK(taken(file, 5) == "again");
  CHECK(file.size() == 0);
}

TEST_CASE("a spill file has no name and is nobody else's to read") {
  kit::TemporaryFolder folder;
  SpillFile file = SpillFile::create(folder.path()).value();
  REQUIRE(file.add("x"));
  CHECK(std::filesystem::is_empty(folder.path()));
  struct stat info = file_in(folder);
  CHECK((info.st_mode & 0777U) == 0600);
  CHECK(info.st_nlink == 0);
}

TEST_CASE("disk space is given back as bytes are taken, and all of it at the end") {
  kit::TemporaryFolder folder;
  SpillFile file = SpillFile::create(folder.path()).value();
  REQUIRE(file.add(std::string(4 * kSpillMegabyte, 'x')));
  auto full = file_in(folder).st_blocks;
  CHECK(full * 512 >= static_cast<blkcnt_t>(4 * kSpillMegabyte));
  CHECK(taken(file, 3 * kSpillMegabyte).size() == 3 * kSpillMegabyte);
  CHECK(file_in(folder).st_blocks * 512 < static_cast<blkcnt_t>(2 * kSpillMegabyte));
  CHECK((taken(file, 2 * kSpillMegabyte) == std::string(kSpillMegabyte, 'x')));
  CHECK(file_in(folder).st_size == 0);
  CHECK(file_in(folder).st_blocks == 0);
}

TEST_CASE("any adds and takes keep the order of the bytes") {
  kit::TemporaryFolder folder;
  SpillFile file = SpillFile::create(folder.path()).value();
  std::mt19937 random(11);
  std::string in;
  std::string out;
  for (int round = 0; round < 2000; ++round) {
    if (random() % 2 == 0) {
      std::string part(random() % 9000, '\0');
      for (char& byte : part) byte = static_cast<char>(random());
      REQUIRE(file.add(part));
      in += part;
    } else {
      REQUIRE(file.take(out, random() % 12'000));
    }
    if (file.size() != in.size() - out.size()) FAIL("size " << file.size() << " in round " << round);
  }
  REQUIRE(file.take(out, in.size()));
  CHECK((out == in));
  CHECK(file.size() == 0);
}

TEST_CASE("a folder that can't be written to is an error with its name") {
  auto file = SpillFile::create("/nonexistent/folder");
  REQUIRE_FALSE(file);
  CHECK(file.error().code == ENOENT);
  CHECK(file.error().message == "cannot keep output in /nonexistent/folder: No such file or directory");
}

TEST_CASE("an add that fails adds nothing") {
  kit::TemporaryFolder folder;
  SpillFile file = SpillFile::create(folder.path()).value();
  REQUIRE(file.add("before "));
  rlimit old{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &old) == 0);
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small{4096, old.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  auto added = file.add(std::string(10'000, 'x'));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &old) == 0);
  std::signal(SIGXFSZ, handler);
  REQUIRE_FALSE(added);
  CHECK(added.error().code == EFBIG);
  CHECK(file.size() == 7);
  REQUIRE(file.add("after"));
  CHECK(taken(file, 100) == "before after");
}

TEST_CASE("bytes can be read before they are forgotten") {
  kit::TemporaryFolder folder;
  SpillFile file = SpillFile::create(folder.path()).value();
  REQUIRE(file.add("0123456789"));
  REQUIRE(file.forget(2));
  std::string out = "out: ";
  REQUIRE(file.read(out, 3, 4));
  CHECK(out == "out: 5678");
  CHECK(file.size() == 8);
  REQUIRE(file.read(out, 7, 100));
  REQUIRE(file.read(out, 8, 100));
  REQUIRE(file.read(out, 100, 100));
  CHECK(out == "out: 56789");
  REQUIRE(file.forget(0));
  CHECK(taken(file, 100) == "23456789");
}

namespace {

struct World {
  World() : loop(event::Loop::create().value()) { std::signal(SIGPIPE, SIG_IGN); }

  MessageFile::Callbacks callbacks() {
    return {[this] { ++idles; }, [this](const Error& error) { errors.push_back(error.message); }};
  }
  [[nodiscard]] std::string path(const char* name) const { return folder.path(name); }
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
  kit::TemporaryFolder folder;
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

TEST_CASE("a file knows whether another has written behind it: a leader that stood still is not the only one") {
  World world;
  auto first = MessageFile::open(*world.loop, world.path("file"), world.callbacks()).value();
  CHECK_FALSE(first->has_others_text());
  first->write("one\n");
  CHECK_FALSE(first->has_others_text());
  auto next = MessageFile::open(*world.loop, world.path("file"), world.callbacks(), true).value();
  CHECK_FALSE(next->has_others_text());
  next->write("two\n");
  CHECK_FALSE(next->has_others_text());
  CHECK(first->has_others_text());
  CHECK_FALSE(MessageFile::open(*world.loop, "/dev/null", world.callbacks()).value()->has_others_text());
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

namespace {

struct FakeSink final : Sink {
  std::string text;
  bool taking = true;
  std::optional<Error> error;

  Result<void> write(std::span<const std::string_view> pieces) override {
    if (error) return *error;
    for (std::string_view piece : pieces) text += piece;
    return {};
  }
  bool takes() override { return taking; }
  [[nodiscard]] bool full() const override { return false; }
  [[nodiscard]] bool flushed() const override { return true; }
  [[nodiscard]] std::uint64_t written() const override { return text.size(); }
  [[nodiscard]] std::uint64_t taken() const override { return text.size(); }
};

struct DestinationFixture {
  Source out{0, Stream::out, "0: "};
  Source err{0, Stream::err, "0: "};
  FakeSink* sink = nullptr;
  std::unique_ptr<Destination> destination;

  void use(std::optional<std::uint64_t> limit, const FormatOptions& options = {}) {
    auto made = std::make_unique<FakeSink>();
    sink = made.get();
    destination = std::make_unique<Destination>(Format::create(options), std::move(made), limit);
  }
  void put(const Source& source, std::string_view body, std::string_view head = "", double time = 1) {
    REQUIRE(destination->put({&source, time, head, body, false, false}));
  }
  std::string written() { return std::exchange(sink->text, ""); }
  [[nodiscard]] const Destination::Lost& lost(Stream stream = Stream::out) const {
    return destination->lost(stream);
  }
};

const std::string kCutOut = "[stdout is cut here: output.limit is 10 bytes]\n";
const std::string kCutErr = "[stderr is cut here: output.limit is 10 bytes]\n";

}  // namespace

TEST_CASE_METHOD(DestinationFixture, "without a limit all goes to the sink in its format") {
  use(std::nullopt, {Form::text, true, Timestamps::none});
  put(out, "body\n", "head ");
  put(err, std::string(100'000, 'x') + "\n");
  CHECK((written() == "0: head body\n0: " + std::string(100'000, 'x') + "\n"));
  put(out, "open");
  REQUIRE(destination->end(out, 1));
  REQUIRE(destination->notice("said", 1));
  CHECK(written() == "0: open\nsaid\n");
  CHECK(&destination->sink() == sink);
  CHECK(lost().over_limit == 0);
  CHECK(lost().dropped == 0);
}

TEST_CASE_METHOD(DestinationFixture, "a limit cuts at its byte, says so once, and counts the rest") {
  use(10);
  put(out, "1234\n");
  put(out, "567\n89\n");
  CHECK(written() == "1234\n567\n8\n" + kCutOut);
  CHECK(lost().over_limit == 2);
  put(out, "more\n");
  put(out, "x", "yz");
  CHECK(written().empty());
  CHECK(lost().over_limit == 10);
  CHECK(lost(Stream::err).over_limit == 0);
  CHECK(lost().dropped == 0);
}

TEST_CASE_METHOD(DestinationFixture, "what fits the limit exactly is not cut") {
  use(10);
  put(out, "12345678\n");
  put(out, "\n");
  CHECK(written() == "12345678\n\n");
  CHECK(lost().over_limit == 0);
  REQUIRE(destination->end(out, 1));
  CHECK(written().empty());
  put(out, "\n");
  CHECK(written() == kCutOut);
  CHECK(lost().over_limit == 1);
}

TEST_CASE_METHOD(DestinationFixture, "a limit cuts within the head and between head and body") {
  use(10);
  put(out, "body\n", "a head over it ");
  CHECK(written() == "a head ove\n" + kCutOut);
  CHECK(lost().over_limit == 10);
  put(err, "body\n", "its head: ");
  CHECK(written() == "its head: \n" + kCutErr);
  CHECK(lost(Stream::err).over_limit == 5);
}

TEST_CASE_METHOD(DestinationFixture, "each stream has the limit for itself, all its tasks together") {
  use(10);
  Source other{1, Stream::out, "1: "};
  put(out, "1234\n");
  put(err, "123456789\n");
  put(other, "5678\n");
  CHECK(written() == "1234\n123456789\n5678\n");
  put(other, "x\n");
  CHECK(written() == kCutOut);
  put(out, "x\n");
  CHECK(written().empty());
  put(err, "xyz\n");
  CHECK(written() == kCutErr);
  CHECK(lost().over_limit == 4);
  CHECK(lost(Stream::err).over_limit == 4);
}

TEST_CASE_METHOD(DestinationFixture, "a limit of zero lets nothing through") {
  use(0);
  put(out, "a\n");
  CHECK(written() == "[stdout is cut here: output.limit is 0 bytes]\n");
  CHECK(lost().over_limit == 2);
}

TEST_CASE_METHOD(DestinationFixture, "a limit counts what tasks wrote, not what it became") {
  use(10, {Form::json});
  put(out, "12345678\n");
  put(out, "\nx", "", 2);
  CHECK(written() == R"({"time":1.000000,"rank":0,"stream":"stdout","data":"12345678"})"
                     "\n"
                     R"({"time":2.000000,"rank":0,"stream":"stdout","data":""})"
                     "\n"
                     R"({"time":2.000000,"notice":"[stdout is cut here: output.limit is 10 bytes]"})"
                     "\n");
}

TEST_CASE_METHOD(DestinationFixture, "what a sink does not take is counted, and said where it is missing") {
  use(std::nullopt);
  put(out, "taken\n");
  sink->taking = false;
  put(out, "two\nlines\n");
  put(out, "\nof both", "on\ne ");
  put(err, "x\n");
  CHECK(written() == "taken\n");
  CHECK(lost().dropped == 23);
  CHECK(lost().dropped_lines == 5);
  CHECK(lost(Stream::err).dropped == 2);
  CHECK(lost(Stream::err).dropped_lines == 1);
  sink->taking = true;
  put(out, "again\n");
  put(out, "and on\n");
  CHECK(written() == "[6 lines, 25 bytes dropped here: the reader is too slow]\nagain\nand on\n");
  sink->taking = false;
  put(err, "y\n");
  sink->taking = true;
  put(err, "z\n");
  CHECK(written() == "[1 lines, 2 bytes dropped here: the reader is too slow]\nz\n");
  CHECK(lost(Stream::err).dropped == 4);
  CHECK(lost(Stream::err).dropped_lines == 2);
  CHECK(lost().over_limit == 0);
}

TEST_CASE_METHOD(DestinationFixture, "what was dropped is said at a source's end too") {
  use(std::nullopt, {Form::eventlog});
  sink->taking = false;
  put(out, "x\n");
  REQUIRE(destination->end(out, 2));
  std::string log = written();
  CHECK(log.find("[1 lines, 2 bytes dropped here: the reader is too slow]") < log.find("\"eof\":true"));
  CHECK(log.find("\"eof\":true") != std::string::npos);
  REQUIRE(destination->end(err, 3));
  CHECK(written().find("dropped") == std::string::npos);
}

TEST_CASE_METHOD(DestinationFixture, "a line of which the end was dropped is ended before the notice") {
  use(std::nullopt, {Form::text, true, Timestamps::none});
  REQUIRE(destination->put({&out, 1, {}, "begun", false, true}));
  sink->taking = false;
  REQUIRE(destination->put({&out, 1, {}, " and dropped", true, true}));
  sink->taking = true;
  REQUIRE(destination->put({&out, 1, {}, "end\n", true, false}));
  CHECK(written() == "0: begun\n[1 lines, 12 bytes dropped here: the reader is too slow]\n0: end\n");
}

TEST_CASE_METHOD(DestinationFixture, "where output is cut, what was dropped before comes first") {
  use(10);
  sink->taking = false;
  put(out, "12\n");
  SECTION("the sink takes again") {
    sink->taking = true;
    put(out, "3456\n78\n");
    CHECK(written() == "[1 lines, 3 bytes dropped here: the reader is too slow]\n3456\n78" + ("\n" + kCutOut));
    CHECK(lost().dropped == 3);
    CHECK(lost().over_limit == 1);
  }
  SECTION("it does not") {
    put(out, "3456\n78\n");
    CHECK(written() == "[3 lines, 10 bytes dropped here: the reader is too slow]\n" + kCutOut);
    CHECK(lost().dropped == 10);
    CHECK(lost().over_limit == 1);
  }
  REQUIRE(destination->end(out, 1));
  CHECK(written().empty());
}

TEST_CASE_METHOD(DestinationFixture, "a sink's error is the destination's") {
  use(10);
  sink->error = Error{EPIPE, "gone"};
  CHECK(destination->put({&out, 1, {}, "x\n"}).error().code == EPIPE);
  CHECK(destination->put({&out, 1, {}, "0123456789\n"}).error().message == "gone");
  CHECK(destination->end(out, 1).error().code == EPIPE);
  CHECK(destination->notice("x", 1).error().code == EPIPE);
}
