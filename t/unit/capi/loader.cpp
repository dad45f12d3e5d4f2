// SPDX-License-Identifier: Apache-2.0
#include "capi/loader.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "fake_host.hpp"
#include "folder.hpp"

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
  narrow[4] = 1;  // 32 bits: all other fields are at other places
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
  // The cut is behind the headers and before the end of the code, with any linker.
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
    // Changes the file's header, those of the segments, or any byte.
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

using namespace nacre;          // NOLINT
using namespace nacre::capi;    // NOLINT
using namespace nacre::plugin;  // NOLINT
using Catch::Matchers::EndsWith;

namespace {

namespace fs = std::filesystem;
const std::string kDirectory = DSO_DIRECTORY;

std::string dso(std::string_view name) { return kDirectory + "/" + std::string(name) + ".so"; }

std::string error_of(kit::FakeHost& host, const std::string& pattern, const Json& conf = nullptr) {
  Result<int> result = load(host, pattern, conf);
  return result ? "loaded" : result.error().message;
}

struct Directory {
  void copy(std::string_view name, const std::string& to) const { fs::copy_file(dso(name), path / to); }

  kit::TemporaryFolder own;
  fs::path path = own.path();
};

}  // namespace

TEST_CASE("a plugin's name is what it says, else its file's") {
  kit::FakeHost host;
  CHECK(load(host, dso("probe_plugin"), nullptr) == 1);
  CHECK(load(host, dso("nameless"), nullptr) == 1);
  REQUIRE(host.stack().find("probe-plugin") != nullptr);
  REQUIRE(host.stack().find("nameless") != nullptr);
  CHECK(host.stack().find("nameless")->origin() == dso("nameless"));
}

TEST_CASE("a file that is no plugin is named, and what is wrong with it") {
  kit::FakeHost host;
  Directory directory;
  CHECK(error_of(host, dso("no_init")) == dso("no_init") + ": no symbol flux_plugin_init: is this a shell plugin?");
  CHECK(error_of(host, dso("unresolved")) ==
        dso("unresolved") + ": undefined symbol: function_that_nobody_defines");
  CHECK(error_of(host, "/nonexistent/x.so") == "/nonexistent/x.so: No such file or directory");
  std::string text = (directory.path / "text.so").string();
  std::ofstream(text) << "this is no ELF file, but long enough to hold the header of one, as anyone can see";
  CHECK(error_of(host, text) == text + ": invalid ELF header");
  CHECK_THAT(error_of(host, directory.path.string()), StartsWith(directory.path.string() + ": "));
  CHECK(error_of(host, "").find("no file given") != std::string::npos);
  CHECK(host.stack().plugins().empty());
}

TEST_CASE("a flux_plugin_init that fails is an error, with errno if it set one") {
  kit::FakeHost host;
  CHECK(error_of(host, dso("init_fails")) == dso("init_fails") + ": flux_plugin_init failed");
  CHECK(error_of(host, dso("init_fails"), {{"errno", EPERM}}) ==
        dso("init_fails") + ": flux_plugin_init failed (Operation not permitted)");
  CHECK(host.stack().plugins().empty());
}

TEST_CASE("a configuration must be an object") {
  kit::FakeHost host;
  CHECK(error_of(host, dso("nameless"), Json::array()) == dso("nameless") + ": configuration: expected an object");
}

TEST_CASE("relative names are looked up along the search path, the first file wins") {
  kit::FakeHost host;
  Directory first;
  Directory second;
  first.copy("nameless", "a.so");
  second.copy("nameless", "a.so");
  second.copy("nameless", "b.so");
  host.plugin_searchpath() = "/nonexistent::" + first.path.string() + ":" + second.path.string();
  CHECK(load(host, "a.so", nullptr) == 1);
  CHECK(host.stack().find("a")->origin() == (first.path / "a.so").string());
  CHECK(load(host, "b.so", nullptr) == 1);
  CHECK(error_of(host, "c.so") == "c.so: no such file in plugin.searchpath '" + host.plugin_searchpath() + "'");
}

TEST_CASE("a glob loads all matches in all directories, in order of their names") {
  kit::FakeHost host;
  Directory first;
  Directory second;
  first.copy("nameless", "z.so");
  first.copy("nameless", "B.so");
  first.copy("nameless", "a.so");
  second.copy("nameless", "c.so");
  second.copy("nameless", "a.so");
  fs::create_directory(first.path / "d.so");
  host.plugin_searchpath() = first.path.string() + ":" + second.path.string();
  CHECK(load(host, "*.so", nullptr) == 5);
  std::vector<std::string> names;
  for (const auto& each : host.stack().plugins()) names.push_back(each->name());
  CHECK(names == std::vector<std::string>{"B", "z", "a", "c"});
  CHECK(host.stack().find("a")->origin() == (second.path / "a.so").string());
  CHECK(load(host, "none-*.so", nullptr) == 0);
}

TEST_CASE("a directory of the search path is a name, not a glob") {
  kit::FakeHost host;
  Directory directory;
  fs::create_directory(directory.path / "v[1]");
  fs::create_directory(directory.path / "v1");
  directory.copy("nameless", "v[1]/a.so");
  directory.copy("nameless", "v1/b.so");
  host.plugin_searchpath() = (directory.path / "v[1]").string();
  CHECK(load(host, "*.so", nullptr) == 1);
  CHECK(host.stack().find("a") != nullptr);
}

TEST_CASE("glob_files sorts by bytes, and takes a plain name as it is") {
  Directory directory;
  for (const char* name : {"b", "A", "a"}) std::ofstream(directory.path / name) << "";
  std::string at = directory.path.string() + "/";
  CHECK(glob_files(at + "*") == std::vector<std::string>{at + "A", at + "a", at + "b"});
  CHECK(glob_files(at + "[ab]") == std::vector<std::string>{at + "a", at + "b"});
  CHECK(glob_files(at + "a") == std::vector<std::string>{at + "a"});
  CHECK(glob_files(at + "none") == std::vector<std::string>{});
  CHECK(glob_files(at + "none*") == std::vector<std::string>{});
}

TEST_CASE("data attached by a plugin is freed by its own code, before that is unmapped") {
  std::vector<std::string> logged;
  {
    kit::FakeHost host;
    host.log().add_sink("copy", [&](const LogEntry& entry) { logged.push_back(entry.message); });
    CHECK(load(host, dso("nameless"), nullptr) == 1);
    CHECK(load(host, dso("nameless"), nullptr) == 1);  // replaces the first
    CHECK(logged == std::vector<std::string>{"freed plugin data"});
  }
  CHECK(logged ==
        std::vector<std::string>{"freed plugin data", "freed plugin data", "freed shell data", "freed shell data"});
}

TEST_CASE("one shell at a time has loaded objects, and the next one may follow") {
  kit::FakeHost other;
  {
    kit::FakeHost host;
    CHECK(load(host, dso("nameless"), nullptr) == 1);
    Result<int> refused = load(other, dso("nameless"), nullptr);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == EBUSY);
  }
  CHECK(load(other, dso("nameless"), nullptr) == 1);
}

TEST_CASE("an exception that leaves a plugin is an error of its handler") {
  kit::FakeHost host;
  CHECK(load(host, dso("throws"), nullptr) == 1);
  CHECK(host.call("shell.init").error().message ==
        "plugin 'throws': shell.init: the plugin threw an exception: no luck");
  CHECK(host.call("odd").error().message == "plugin 'throws': odd: the plugin threw what is no std::exception");
}

TEST_CASE("a handler that returns a negative value fails the call") {
  kit::FakeHost host;
  CHECK(load(host, dso("nameless"), nullptr) == 1);
  CHECK(host.call("nameless.fail").error().message ==
        "plugin 'nameless': nameless.fail: the plugin's handler failed");
}
