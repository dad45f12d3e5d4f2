// SPDX-License-Identifier: Apache-2.0
#include "archive/entry.hpp"

#include "catch.hpp"

using namespace nacre;
using nacre::archive::check_symlink;
using nacre::archive::clean_path;
using nacre::archive::kMaxPath;

namespace {

std::string error_of(const std::string& path) {
  auto clean = clean_path(path);
  return clean ? "none" : clean.error().message;
}

std::string link_error(const std::string& path, const std::string& target) {
  auto checked = check_symlink(path, target);
  return checked ? "none" : checked.error().message;
}

}  // namespace

TEST_CASE("a path is cleaned of empty and '.' parts") {
  CHECK(*clean_path("a") == "a");
  CHECK(*clean_path("./a//b/./c/") == "a/b/c");
  CHECK(*clean_path(".") == "");
  CHECK(*clean_path("./") == "");
  CHECK(*clean_path("") == "");
  CHECK(*clean_path("...") == "...");
  CHECK(*clean_path("..a/b..") == "..a/b..");
}

TEST_CASE("a path that is absolute or leads up is refused, wherever it does") {
  CHECK(error_of("/a") == "an absolute path");
  CHECK(error_of("//a") == "an absolute path");
  CHECK(error_of("..") == "a path with a '..' part");
  CHECK(error_of("../a") == "a path with a '..' part");
  CHECK(error_of("a/../b") == "a path with a '..' part");
  CHECK(error_of("a/..") == "a path with a '..' part");
  CHECK(error_of("./../a") == "a path with a '..' part");
}

TEST_CASE("a path of the most bytes is allowed, and not one of one more") {
  REQUIRE(kMaxPath == 4095);
  CHECK(clean_path(std::string(4095, 'a')));
  CHECK(error_of(std::string(4096, 'a')) == "a path of 4096 bytes; at most 4095 are allowed");
}

TEST_CASE("a symbolic link within the directory is allowed") {
  CHECK(link_error("l", "a") == "none");
  CHECK(link_error("l", "a/b/c") == "none");
  CHECK(link_error("l", ".") == "none");
  CHECK(link_error("d/l", "..") == "none");
  CHECK(link_error("d/l", "../a") == "none");
  CHECK(link_error("d/e/l", "./..//../a") == "none");
  CHECK(link_error("l", "..a") == "none");
}

TEST_CASE("a symbolic link that leads outside is refused") {
  CHECK(link_error("l", "/etc/passwd") == "a symbolic link to '/etc/passwd', which is absolute");
  CHECK(link_error("l", "..") == "a symbolic link to '..', which leads outside");
  CHECK(link_error("d/l", "../../a") == "a symbolic link to '../../a', which leads outside");
  CHECK(link_error("d/l", ".././/../a") == "a symbolic link to '.././/../a', which leads outside");
  CHECK(link_error("l", "") == "a symbolic link to '', which is empty");
}

TEST_CASE("a symbolic link may not lead up from another name, which may be a link to a higher place") {
  CHECK(link_error("a/b/l", "c/../d") ==
        "a symbolic link to 'c/../d', which has a '..' after a name, and so might lead outside");
  CHECK(link_error("a/b/l", "../c/..") ==
        "a symbolic link to '../c/..', which has a '..' after a name, and so might lead outside");
}

TEST_CASE("a link's target has a limit too") {
  CHECK(link_error("l", std::string(4095, 'a')) == "none");
  CHECK_FALSE(check_symlink("l", std::string(4096, 'a')));
}

TEST_CASE("control bytes and backslashes of names are shown, not sent") {
  CHECK(nacre::archive::shown("a b\xc3\xa4") == "a b\xc3\xa4");
  CHECK(nacre::archive::shown("a\nb\x1b[0m\x7f\\") == "a\\x0ab\\x1b[0m\\x7f\\\\");
}
