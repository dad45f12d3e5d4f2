// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "catch.hpp"

using nacre::remove_tree;
namespace fs = std::filesystem;

namespace {

struct Folder {
  Folder() {
    std::string made = "/tmp/remove-tree-XXXXXX";
    REQUIRE(::mkdtemp(made.data()) != nullptr);
    path = made;
    fs::create_directory(doomed());
  }
  ~Folder() { fs::remove_all(path); }
  [[nodiscard]] fs::path doomed() const { return path / "doomed"; }
  fs::path path;
};

void write(const fs::path& path) { std::ofstream(path) << "text"; }

}  // namespace

TEST_CASE("all that is in a directory is removed, and it too") {
  Folder folder;
  fs::create_directories(folder.doomed() / "a/b/c");
  fs::create_directories(folder.doomed() / "a/d");
  write(folder.doomed() / "a/b/file");
  write(folder.doomed() / "a/b/c/file");
  write(folder.doomed() / "file");
  REQUIRE(::mkfifo((folder.doomed() / "a/fifo").c_str(), 0600) == 0);
  CHECK(remove_tree(folder.doomed()));
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("what a link points to stays") {
  Folder folder;
  fs::create_directory(folder.path / "kept");
  write(folder.path / "kept/file");
  fs::create_directory_symlink(folder.path / "kept", folder.doomed() / "link");
  CHECK(remove_tree(folder.doomed()));
  CHECK_FALSE(fs::exists(folder.doomed()));
  CHECK(fs::exists(folder.path / "kept/file"));
  fs::create_directory_symlink(folder.path / "kept", folder.doomed());
  CHECK_FALSE(remove_tree(folder.doomed()));
  CHECK(fs::exists(folder.path / "kept/file"));
}

TEST_CASE("directories that their owner may not write to are opened up, for a user whom modes bind") {
  uid_t user = ::geteuid();
  Folder folder;
  fs::permissions(folder.path, fs::perms::all);
  fs::remove(folder.doomed());
  if (user == 0) REQUIRE(::seteuid(65534) == 0);
  fs::create_directories(folder.doomed() / "a/b");
  write(folder.doomed() / "a/b/file");
  fs::permissions(folder.doomed() / "a/b", fs::perms::owner_read);
  fs::permissions(folder.doomed() / "a", fs::perms::none);
  CHECK(remove_tree(folder.doomed()));
  REQUIRE(::seteuid(user) == 0);
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("what belongs to another user stays, and is told; the rest goes") {
  if (::geteuid() != 0) return;  // nobody else can make it
  Folder folder;
  fs::create_directories(folder.doomed() / "theirs");
  write(folder.doomed() / "theirs/file");
  write(folder.doomed() / "ours");
  REQUIRE(::chown((folder.doomed() / "theirs").c_str(), 65534, 65534) == 0);
  auto removed = remove_tree(folder.doomed());
  REQUIRE_FALSE(removed);
  CHECK(removed.error().code == EPERM);
  CHECK(fs::exists(folder.doomed() / "theirs/file"));
  CHECK_FALSE(fs::exists(folder.doomed() / "ours"));
}

TEST_CASE("a tree that is deeper than there are descriptors is removed") {
  Folder folder;
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  int at = ::open(folder.doomed().c_str(), O_RDONLY | O_DIRECTORY);
  for (int i = 0; i < 3000; ++i) {
    REQUIRE(::mkdirat(at, "deeper", 0700) == 0);
    int below = ::openat(at, "deeper", O_RDONLY | O_DIRECTORY);
    REQUIRE(below >= 0);
    ::close(at);
    at = below;
  }
  ::close(at);
  rlimit few{64, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  CHECK(remove_tree(folder.doomed()));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a directory that is not there is an error") { CHECK(remove_tree("/no/such").error().code == ENOENT); }
