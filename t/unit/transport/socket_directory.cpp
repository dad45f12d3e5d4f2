// SPDX-License-Identifier: Apache-2.0
#include "transport/address.hpp"

#include <sys/stat.h>

#include <filesystem>

#include "world.hpp"

using namespace nacre;             // NOLINT
using namespace nacre::transport;  // NOLINT

TEST_CASE("a socket's directory is the user's alone, named for its host, and goes with its owner") {
  Folder folder;
  std::string path;
  {
    auto directory = SocketDirectory::create(folder.file(""));
    REQUIRE(directory);
    path = directory->path();
    CHECK(path.starts_with(folder.file("") + "/nacre-" + host_mark() + "-"));
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 07777) == 0700);
    SocketDirectory moved = std::move(*directory);
    auto socket = BoundSocket::local(moved.socket());
    REQUIRE(socket);
    CHECK(std::filesystem::exists(moved.socket()));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("where a socket's path would be too long or have a blank, or nothing can be made, it is in /tmp") {
  Folder folder;
  std::string deep = folder.file(std::string(100, 'd'));
  std::string blank = folder.file("a b");
  for (const std::string& each : {deep, blank}) std::filesystem::create_directory(each);
  for (const std::string& each : {deep, blank, folder.file("none"), std::string("relative"), std::string()}) {
    auto directory = SocketDirectory::create(each);
    REQUIRE(directory);
    CHECK(directory->path().starts_with("/tmp/nacre-"));
    CHECK(BoundSocket::local(directory->socket()));
  }
}

TEST_CASE("Unix sockets of other hosts are left out of addresses") {
  std::string mark = host_mark();
  CHECK(mark.size() == 16);
  std::string own = "unix:/tmp/nacre-" + mark + "-abcdef/s";
  std::string other = "unix:/tmp/nacre-0123456789abcdef-abcdef/s";
  CHECK(usable_on(mark, own + " node1:70 10.0.0.1:70") == own + " node1:70 10.0.0.1:70");
  CHECK(usable_on(mark, other + " node1:70 [2001:db8::1]:70") == "node1:70 [2001:db8::1]:70");
  CHECK(usable_on("0123456789abcdef", other + "  " + own + " n:1") == other + " n:1");
  CHECK(usable_on(mark, other).empty());
  CHECK(usable_on(mark, "").empty());
  // A socket that was named by somebody else is left to be tried.
  for (const char* each : {"unix:/run/s", "unix:/tmp/nacre-x/s", "unix:s", "unix:/tmp/nacre-0123456789abcdef/s"}) {
    CHECK(usable_on(mark, each) == each);
  }
}
