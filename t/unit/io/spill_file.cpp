// SPDX-License-Identifier: Apache-2.0
#include "io/sink.hpp"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <random>

#include "catch.hpp"

using namespace nacre;      // NOLINT
using namespace nacre::io;  // NOLINT

namespace {

constexpr std::size_t kSpillMegabyte = std::size_t{1} << 20;

struct ScratchFolder {
  std::string path = "/tmp/nacre-spill-test-XXXXXX";
  ScratchFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
  [[nodiscard]] bool empty() const { return std::filesystem::is_empty(path); }
};

// The one open file that was in this folder.
struct stat file_in(const ScratchFolder& folder) {
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code none;
    std::string target = std::filesystem::read_symlink(each, none).string();
    struct stat info {};
    if (target.rfind(folder.path + "/", 0) == 0 && ::stat(each.path().c_str(), &info) == 0) return info;
  }
  FAIL("no file in " << folder.path << " is open");
  return {};
}

std::string taken(SpillFile& file, std::size_t most) {
  std::string out;
  REQUIRE(file.take(out, most));
  return out;
}

}  // namespace

TEST_CASE("what is spilled comes back first in, first out") {
  ScratchFolder folder;
  SpillFile file = SpillFile::create(folder.path).value();
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
  ScratchFolder folder;
  SpillFile file = SpillFile::create(folder.path).value();
  REQUIRE(file.add("x"));
  CHECK(folder.empty());
  struct stat info = file_in(folder);
  CHECK((info.st_mode & 0777U) == 0600);
  CHECK(info.st_nlink == 0);
}

TEST_CASE("disk space is given back as bytes are taken, and all of it at the end") {
  ScratchFolder folder;
  SpillFile file = SpillFile::create(folder.path).value();
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
  ScratchFolder folder;
  SpillFile file = SpillFile::create(folder.path).value();
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
  ScratchFolder folder;
  SpillFile file = SpillFile::create(folder.path).value();
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
  ScratchFolder folder;
  SpillFile file = SpillFile::create(folder.path).value();
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
