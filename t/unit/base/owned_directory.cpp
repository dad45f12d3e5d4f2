// SPDX-License-Identifier: Apache-2.0
#include "base/owned_directory.hpp"
#include "folder.hpp"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

using namespace nacre;
namespace fs = std::filesystem;

namespace {

struct Parent {
  [[nodiscard]] std::size_t left() const {
    auto directories = LeftDirectories::in(path).value();
    while (directories.look()) {
    }
    return directories.found().size();
  }

  kit::TemporaryFolder own;
  fs::path path = own.path();
};

}  // namespace

TEST_CASE("an owned directory bears the host, and only its user may enter") {
  Parent parent;
  auto owned = OwnedDirectory::create(parent.path, "-x");
  REQUIRE(owned);
  CHECK(fs::path(owned->path()).filename().native().starts_with("nacre-" + host_digits() + "-x-"));
  struct stat info {};
  REQUIRE(::stat(owned->path().c_str(), &info) == 0);
  CHECK(info.st_mode == (S_IFDIR | 0700));
}

TEST_CASE("its name is announced before it is made, and withdrawn if it is not") {
  Parent parent;
  std::vector<std::string> seen;
  bool was_there = false;
  auto announce = [&](const std::string& path, bool there) {
    seen.push_back((there ? "+" : "-") + path);
    was_there = was_there || fs::exists(path);
  };
  {
    auto owned = OwnedDirectory::create(parent.path, "-x", announce);
    REQUIRE(owned);
    CHECK(seen == std::vector<std::string>{"+" + owned->path()});
    CHECK_FALSE(was_there);
    auto other = OwnedDirectory::create(parent.path, "-x");
    REQUIRE(other);
    CHECK(other->path() != owned->path());
  }
  seen.clear();
  REQUIRE_FALSE(OwnedDirectory::create(parent.path / "none", "-x", announce));
  REQUIRE(seen.size() == 2);
  CHECK(seen[1] == "-" + seen[0].substr(1));
}

TEST_CASE("one of a given name is made, or taken from nobody, and announced") {
  Parent parent;
  const fs::path path = parent.path / "jobtmp-0";
  std::vector<std::string> seen;
  auto announce = [&](const std::string& name, bool there) { seen.push_back((there ? "+" : "-") + name); };
  {
    auto owned = OwnedDirectory::create_at(path, announce);
    REQUIRE(owned);
    CHECK(owned->path() == path);
    auto other = OwnedDirectory::create_at(path, announce);
    REQUIRE_FALSE(other);
    CHECK(other.error().code == EWOULDBLOCK);
  }
  CHECK(seen == std::vector<std::string>{"+" + path.native(), "+" + path.native(), "-" + path.native()});
  CHECK(fs::exists(path));
  CHECK(OwnedDirectory::create_at(path));
  fs::permissions(path, fs::perms::all);
  CHECK_FALSE(OwnedDirectory::create_at(path));
  CHECK(OwnedDirectory::create_at(parent.path / "none" / "x").error().code == ENOENT);
}

TEST_CASE("it is left once its owner has gone, however that was, and only one finds it") {
  Parent parent;
  {
    auto owned = OwnedDirectory::create(parent.path, "-x");
    REQUIRE(owned);
    CHECK(parent.left() == 0);
  }
  CHECK(parent.left() == 1);
  auto first = LeftDirectories::in(parent.path).value();
  while (first.look()) {
  }
  CHECK(first.found().size() == 1);
  CHECK(parent.left() == 0);

  Parent other;
  Pipe pipe = make_pipe(0).value();
  pid_t pid = ::fork();
  if (pid == 0) {
    auto owned = OwnedDirectory::create(other.path, "");
    static_cast<void>(!::write(pipe.write.get(), "x", 1));
    for (;;) ::pause();
  }
  char byte = 0;
  REQUIRE(::read(pipe.read.get(), &byte, 1) == 1);
  CHECK(other.left() == 0);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  CHECK(other.left() == 1);
}

TEST_CASE("one that is newer than one's own belongs to a process that begins, and is not taken") {
  Parent parent;
  { auto older = OwnedDirectory::create(parent.path, "-x"); }
  for (const auto& each : fs::directory_iterator(parent.path))
    fs::last_write_time(each, fs::last_write_time(each) - std::chrono::seconds(1));
  auto own = OwnedDirectory::create(parent.path, "-x");
  REQUIRE(own);
  { auto newer = OwnedDirectory::create(parent.path, "-x"); }
  auto directories = LeftDirectories::in(parent.path, {}, &*own).value();
  while (directories.look()) {
  }
  CHECK(directories.found().size() == 1);
  CHECK(parent.left() == 1);
}

TEST_CASE("a folder of many names is looked through in pieces") {
  Parent parent;
  for (std::size_t i = 0; i <= LeftDirectories::kNamesAtOnce; ++i)
    fs::create_directory(parent.path / std::to_string(i));
  { auto owned = OwnedDirectory::create(parent.path, "-x"); }
  auto directories = LeftDirectories::in(parent.path).value();
  int pieces = 1;
  while (directories.look()) ++pieces;
  CHECK(pieces == 3);  // two steps look at names, one at locks
  CHECK(directories.found().size() == 1);
}

TEST_CASE("names that are no directories are not opened, however many there are") {
  Parent parent;
  { auto owned = OwnedDirectory::create(parent.path, "-x"); }
  const std::string front = "nacre-" + nacre::host_digits() + "-y-";
  for (int i = 0; i < 3000; ++i) std::ofstream(parent.path / (front + std::to_string(i)));
  fs::create_directory_symlink(parent.path, parent.path / (front + "link"));
  REQUIRE(::mkfifo((parent.path / (front + "fifo")).c_str(), 0600) == 0);
  auto directories = LeftDirectories::in(parent.path).value();
  while (directories.look()) {
  }
  CHECK(directories.found().size() == 1);
}

TEST_CASE("where a name says that another process looks, none is taken") {
  Parent parent;
  { auto owned = OwnedDirectory::create(parent.path, "-x"); }
  { auto owned = OwnedDirectory::create(parent.path, "-y-1"); }
  auto directories =
      LeftDirectories::in(parent.path, [](std::string_view name) { return name.starts_with("-y-"); }).value();
  while (directories.look()) {
  }
  CHECK(directories.found().empty());
  CHECK(parent.left() == 2);
}

TEST_CASE("where none can be made the error says why") {
  CHECK(OwnedDirectory::create("/no/such", "").error().code == ENOENT);
  CHECK(LeftDirectories::in("/no/such").error().code == ENOENT);
}
