// SPDX-License-Identifier: Apache-2.0
#include "front/bundle.hpp"

#include <signal.h>
#include <sys/stat.h>

#include <filesystem>

#include "archive/extract.hpp"
#include "folder.hpp"

using nacre::Json;
using nacre::front::Bundle;
using nacre::kit::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

std::map<std::string, std::string> files_of(const std::string& path) {
  auto library = nacre::archive::Library::load().value();
  auto reader = nacre::archive::Reader::open(library, path).value();
  std::map<std::string, std::string> out;
  while (auto entry = reader.next().value()) {
    CHECK(entry->mode == 0600);
    std::string& text = out[entry->path];
    while (auto block = reader.next_block().value()) text += block->bytes;
  }
  return out;
}

}  // namespace

TEST_CASE("a bundle has its files below its folder, and a manifest that names them and what is missing",
          "[bundle]") {
  TemporaryFolder folder;
  std::string path = folder.path("b.tar.zst");
  std::string tail = folder.file("tail", std::string(Bundle::kMostTail, 'a') + "the end\n");
  Bundle bundle("nacre-x");
  bundle.add("a.txt", "hello\n");
  bundle.add("empty.txt", "");
  bundle.add_json("b.json", {{"n", 1}});
  bundle.add_tail("t", tail);
  bundle.add_tail("none", folder.path("none"));
  bundle.lacks("usage", "was not measured");
  auto written = bundle.write(path, false, {{"job", "x"}});
  REQUIRE(written);
  CHECK(written->files == 3);
  auto files = files_of(path);
  REQUIRE(files.size() == 4);
  CHECK(files["nacre-x/a.txt"] == "hello\n");
  CHECK(Json::parse(files["nacre-x/b.json"]) == Json{{"n", 1}});
  CHECK(files["nacre-x/t"].size() == Bundle::kMostTail);
  CHECK(files["nacre-x/t"].ends_with("the end\n"));
  Json manifest = Json::parse(files["nacre-x/MANIFEST.json"]);
  CHECK(manifest["job"] == "x");
  CHECK(manifest["files"][0] == Json{{"path", "a.txt"}, {"bytes", 6}});
  CHECK(manifest["files"][2]["of"] == Json{{"path", tail}, {"bytes", Bundle::kMostTail + 8}});
  CHECK(manifest["missing"].size() == 2);
  CHECK(written->bytes == files["nacre-x/a.txt"].size() + files["nacre-x/b.json"].size() + Bundle::kMostTail);
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("a file that is there stays, unless it is to be replaced", "[bundle]") {
  TemporaryFolder folder;
  std::string there = folder.file("b", "mine");
  Bundle bundle("x");
  bundle.add("a", "text");
  auto refused = bundle.write(there, false, Json::object());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == EEXIST);
  CHECK(fs::file_size(folder.path("b")) == 4);
  REQUIRE(bundle.write(folder.path("b"), true, Json::object()));
  CHECK(files_of(folder.path("b")).size() == 2);
  CHECK_FALSE(bundle.write(folder.path("."), true, Json::object()));
  CHECK_FALSE(bundle.write(folder.path("none/b"), true, Json::object()));
  CHECK_FALSE(fs::exists(folder.path("none")));
}

TEST_CASE("a signal that ends the process while a bundle is written leaves no file", "[bundle]") {
  sigset_t term{}, before{};
  ::sigemptyset(&term);
  ::sigaddset(&term, SIGTERM);
  REQUIRE(::pthread_sigmask(SIG_BLOCK, &term, &before) == 0);
  REQUIRE(::raise(SIGTERM) == 0);
  TemporaryFolder folder;
  Bundle bundle("x");
  bundle.add("a", "text");
  auto refused = bundle.write(folder.path("b"), false, Json::object());
  int signum = 0;
  ::sigwait(&term, &signum);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "interrupted");
  CHECK(fs::is_empty(folder.path(".")));
}
