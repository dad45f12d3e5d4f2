// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <filesystem>

#include "folder.hpp"
#include "variable.hpp"

using namespace nacre;  // NOLINT

TEST_CASE("a program is in the PATH if it can be executed there") {
  kit::TemporaryFolder folder;
  kit::Variable path("PATH", "/no/such/folder:" + folder.path(""));
  CHECK_FALSE(is_in_path("tool"));
  std::string file = folder.file("tool", "");
  CHECK_FALSE(is_in_path("tool"));
  REQUIRE(::chmod(file.c_str(), 0755) == 0);
  CHECK(is_in_path("tool"));
  kit::Variable usual("PATH", "/usr/bin:/bin");
  CHECK(is_in_path("sh"));
  CHECK_FALSE(is_in_path("tool"));
}

using nacre::InstalledTree;

namespace {

const std::filesystem::path kProgram = std::filesystem::read_symlink("/proc/self/exe");

}  // namespace

TEST_CASE("what is beside the program is found there, and the first of several") {
  const InstalledTree tree("/meant/to/be");
  std::string name = kProgram.filename();
  CHECK(tree.path({name.c_str()}, "/else") == kProgram);
  CHECK(tree.path({"no such file", name.c_str()}, "/else") == kProgram);
  std::string above = "../" + kProgram.parent_path().filename().string();
  CHECK(tree.path({above.c_str()}, "/else") == kProgram.parent_path());
}

TEST_CASE("what is not there is where the build has meant it to be") {
  const InstalledTree tree("/meant/to/be");
  CHECK(tree.path({"no such file"}, "/else") == "/else");
  std::string below = kProgram.filename().string() + "/initrc.lua";
  CHECK(tree.path({below.c_str()}, "/else") == "/else");
}

TEST_CASE("nothing is looked for if the program is where it was meant to be") {
  const InstalledTree tree(kProgram.parent_path().c_str());
  std::string name = kProgram.filename();
  CHECK(tree.path({name.c_str()}, "/else") == "/else");
}

using nacre::ProcessTitle;

namespace {

// The arguments as the kernel lays them out, with what is behind them.
struct Arguments {
  explicit Arguments(const std::vector<std::string>& words) {
    for (const std::string& each : words) bytes += each + '\0';
    size = bytes.size();
    bytes += "PATH=/bin";
    std::size_t at = 0;
    for (const std::string& each : words) {
      argv.push_back(bytes.data() + at);
      at += each.size() + 1;
    }
  }
  [[nodiscard]] std::string all() const { return bytes.substr(0, size); }

  std::string bytes;
  std::size_t size = 0;
  std::vector<char*> argv;
};

}  // namespace

TEST_CASE("a title takes the place of all arguments, and of nothing else", "[process_title]") {
  Arguments arguments({"nacre-shell", "--boot=hosts"});
  ProcessTitle title(2, arguments.argv.data());
  title.set({"nacre-shell: f1 rank 0/4"});
  CHECK(arguments.all() == "nacre-shell: f1 rank 0/4" + std::string(1, '\0'));
  CHECK(arguments.bytes.ends_with("PATH=/bin"));
  title.set({"short"});
  CHECK(arguments.all() == "short" + std::string(20, '\0'));
}

TEST_CASE("of several titles the first that has room is taken, and the last is cut off", "[process_title]") {
  Arguments arguments({"0123456789"});
  ProcessTitle title(1, arguments.argv.data());
  title.set({"01234567890", "ten bytes."});
  CHECK(arguments.all() == "ten bytes." + std::string(1, '\0'));
  title.set({"01234567890", "more than ten bytes"});
  CHECK(arguments.all() == "more than " + std::string(1, '\0'));
}

TEST_CASE("arguments that do not lie behind each other are left alone but for the first", "[process_title]") {
  Arguments arguments({"one", "two"});
  std::string elsewhere = "three";
  std::vector<char*> argv{arguments.argv[0], elsewhere.data()};
  ProcessTitle(2, argv.data()).set({"x"});
  CHECK(elsewhere == "three");
  CHECK(arguments.all() == std::string("x\0\0\0two\0", 8));
  ProcessTitle(0, nullptr).set({"x"});
}
