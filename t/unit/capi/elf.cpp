// SPDX-License-Identifier: Apache-2.0
#include "capi/loader.hpp"

#include <unistd.h>

#include "catch.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

using Catch::Matchers::StartsWith;
using nacre::capi::check_object;
using nacre::capi::needed_libraries;

namespace {

namespace fs = std::filesystem;

std::string object() {
  std::ostringstream text;
  text << std::ifstream(DSO_DIRECTORY "/nameless.so", std::ios::binary).rdbuf();
  return text.str();
}

// What is wrong with a file of these bytes; "nothing" if it is for dlopen to judge.
std::string wrong_with(const std::string& bytes) {
  std::string name = (fs::temp_directory_path() / "nacre-elf.XXXXXX").string();
  int fd = ::mkstemp(name.data());
  REQUIRE(fd >= 0);
  ::close(fd);
  std::ofstream(name, std::ios::binary) << bytes;
  nacre::Result<void> checked = check_object(name);
  fs::remove(name);
  if (checked) return "nothing";
  REQUIRE_THAT(checked.error().message, StartsWith(name + ": "));
  return checked.error().message.substr(name.size() + 2);
}

}  // namespace

TEST_CASE("an object of this machine, and what is none at all, is for dlopen to judge") {
  std::string good = object();
  REQUIRE(good.size() > 4096);
  CHECK(wrong_with(good) == "nothing");
  for (const char* text : {"", "text",
                           "\x7f"
                           "ELF"})
    CHECK(wrong_with(text) == "nothing");
  CHECK(wrong_with(std::string(4096, 'x')) == "nothing");
  std::string narrow = good;
  narrow[4] = 1;  // 32 bits: all else is elsewhere
  narrow[18] = 20;
  CHECK(wrong_with(narrow) == "nothing");
  CHECK(check_object("/no/such/file"));
  CHECK(check_object("/"));
  CHECK(check_object("/dev/zero"));
}

TEST_CASE("an object of another machine is named") {
  std::string foreign = object();
  foreign[18] = 20;  // EM_PPC
  foreign[19] = 0;
  CHECK_THAT(wrong_with(foreign), StartsWith("is for another machine (ELF machine 20, this one is "));
}

TEST_CASE("an object that is cut off is named, however much is left of what is loaded") {
  std::string whole = object();
  // Behind the headers, before the end of the code, whichever linker made it.
  std::string start = wrong_with(whole.substr(0, 1000));
  REQUIRE_THAT(start, StartsWith("is cut off: it has 1000 bytes, of at least "));
  auto needed = static_cast<std::size_t>(std::stoul(start.substr(start.rfind(' ') + 1)));
  CHECK(wrong_with(whole.substr(0, needed)) == "nothing");
  CHECK_THAT(wrong_with(whole.substr(0, needed - 1)), StartsWith("is cut off: "));
  CHECK(wrong_with(whole.substr(0, 80)) == "nothing");  // the headers themselves: dlopen says so
}

TEST_CASE("what a file needs") {
  auto libraries = needed_libraries("/proc/self/exe");
  CHECK(std::count(libraries.begin(), libraries.end(), "libc.so.6") == 1);
  CHECK(std::none_of(libraries.begin(), libraries.end(), [](const auto& each) { return each.empty(); }));
  CHECK(needed_libraries("/no/such/file").empty());
  CHECK(needed_libraries("/dev/zero").empty());
  CHECK(needed_libraries("/").empty());
  CHECK(needed_libraries("/proc/self/environ").empty());
}

TEST_CASE("what a file needs is read from any bytes") {
  const std::string good = object();
  std::string name = (fs::temp_directory_path() / "nacre-elf.XXXXXX").string();
  int fd = ::mkstemp(name.data());
  REQUIRE(fd >= 0);
  ::close(fd);
  std::mt19937 random(1);
  auto below = [&](std::size_t end) { return random() % end; };
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = good;
    // The file's header, those of the segments, and anything.
    for (std::size_t changes = below(6); changes > 0; --changes) bytes[below(64)] = static_cast<char>(below(256));
    for (std::size_t changes = below(20); changes > 0; --changes)
      bytes[64 + below(600)] = static_cast<char>(below(256));
    for (std::size_t changes = below(20); changes > 0; --changes)
      bytes[below(bytes.size())] = static_cast<char>(below(256));
    bytes.replace(0, 6, good, 0, 6);
    if (below(4) == 0) bytes.resize(below(bytes.size()));
    std::ofstream(name, std::ios::binary | std::ios::trunc) << bytes;
    for (const std::string& library : needed_libraries(name)) CHECK(library.size() < 256);
    (void)check_object(name);
  }
  fs::remove(name);
}
