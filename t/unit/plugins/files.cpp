// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <filesystem>

#include "base/file.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;
namespace fs = std::filesystem;

namespace {

constexpr const char* kR =
    R"({"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0-1"}}]}})";

std::string jobspec_with(const Json& system) {
  Json document = Json::parse(kit::jobspec_of(2));
  document["attributes"]["system"].update(system);
  return document.dump();
}

// A job with these members of attributes.system, and its directory.
struct Extracted {
  explicit Extracted(const Json& system) : host(jobspec_with(system), kR) {
    host.environment().set("FLUX_JOB_TMPDIR", folder.path(""));
    host.stack().push(plugins::make_files(host));
    host.stack().push(plugins::make_batch(host));
    host.make_tasks();
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  [[nodiscard]] std::string text(const std::string& name) const { return read_file(folder.path(name)).value(); }
  [[nodiscard]] mode_t mode(const std::string& name) const {
    struct stat info {};
    REQUIRE(::lstat(folder.path(name).c_str(), &info) == 0);
    return info.st_mode;
  }
  std::vector<std::string> command(std::size_t task) {
    REQUIRE(host.call_task("task.init", task));
    return host.tasks()[task]->command().argv;
  }

  kit::TemporaryFolder folder;
  kit::FakeHost host;
  std::string error;
};

std::string error_of(const Json& files) {
  constexpr std::string_view kStart = "plugin 'files': shell.init: attributes.system.files";
  std::string error = Extracted(Json{{"files", files}}).error;
  REQUIRE(error.starts_with(kStart));
  return error.substr(kStart.size());
}

Json file(const char* data, int mode = 0100644) { return {{"mode", mode}, {"encoding", "utf-8"}, {"data", data}}; }

}  // namespace

TEST_CASE("without attributes.system.files nothing is extracted") {
  Extracted job(Json::object());
  CHECK(job.error.empty());
  CHECK(fs::is_empty(job.folder.path("")));
}

TEST_CASE("the kinds of files that RFC 37 has") {
  Extracted job(Json{{"files",
                      {{"script", {{"mode", 0100700}, {"size", 3}, {"encoding", "utf-8"}, {"data", "a\nb"}}},
                       {"conf.json", {{"mode", 0100600}, {"data", {{"x", Json::array({1, 2})}}}}},
                       {"bytes", {{"mode", 0100640}, {"size", 3}, {"encoding", "base64"}, {"data", "AAH/"}}},
                       {"empty", {{"mode", 0100644}, {"size", 0}}},
                       {"hole", {{"mode", 0100644}, {"size", 5}}},
                       {"d/e", {{"mode", 0040750}, {"mtime", 1677604007}}},
                       {"d/e/f", file("deep")},
                       {"link", {{"mode", 0120777}, {"data", "/no/such/place"}}}}}});
  REQUIRE(job.error.empty());
  CHECK(job.text("script") == "a\nb");
  CHECK(job.mode("script") == 0100700);
  CHECK(job.text("conf.json") == R"({"x":[1,2]})");
  CHECK(job.text("bytes") == std::string("\0\1\xff", 3));
  CHECK(job.mode("bytes") == 0100640);
  CHECK(job.text("empty").empty());
  CHECK(job.text("hole") == std::string(5, '\0'));
  CHECK(job.mode("d/e") == 0040750);
  CHECK(job.text("d/e/f") == "deep");
  CHECK(fs::read_symlink(job.folder.path("link")) == "/no/such/place");
}

TEST_CASE("an archive may be an array, with the paths in it") {
  Json one = file("1");
  one["path"] = "a/b";
  Extracted job(Json{{"files", Json::array({one})}});
  REQUIRE(job.error.empty());
  CHECK(job.text("a/b") == "1");
  CHECK(error_of(Json::array({file("1")})) == "[0]: missing key 'path'");
}

TEST_CASE("nothing is made outside of the job's directory") {
  CHECK(error_of({{"../x", file("1")}}) == ".../x: a path with a '..' part");
  CHECK(error_of({{"/x", file("1")}}) == "./x: an absolute path");
  Json link{{"mode", 0120777}, {"data", "/tmp"}, {"path", "a"}};
  Json through = file("1");
  through["path"] = "a/left-by-a-test-of-nacre";
  CHECK_THAT(error_of(Json::array({link, through})), Catch::Matchers::StartsWith("[1]: "));
  CHECK_FALSE(fs::exists("/tmp/left-by-a-test-of-nacre"));
}

TEST_CASE("files that cannot be") {
  CHECK(error_of(5) == ": expected an object, got 5");
  CHECK(error_of({{"a", 5}}) == ".a: expected an object, got 5");
  CHECK(error_of({{"a", Json::object()}}) == ".a: missing key 'mode'");
  CHECK(error_of({{"a", file("", 0010644)}}) ==
        ".a.mode: 010644 is the mode of no file, directory or symbolic link");
  CHECK(error_of({{"a", file("", 0104755)}}) == ".a.mode: 0104755: refused: a set-user-ID or set-group-ID bit");
  CHECK(error_of({{"a", {{"mode", 0100600}, {"encoding", "blobvec"}, {"data", Json::array()}}}}) ==
        ".a.encoding: expected utf-8 or base64, as there is no content store of Flux here, got \"blobvec\"");
  CHECK(error_of({{"a", {{"mode", 0100600}, {"encoding", "base64"}, {"data", "%"}}}}) == ".a.data: no base64");
  CHECK(error_of({{"a", {{"mode", 0100600}, {"size", 2}, {"encoding", "utf-8"}, {"data", "abc"}}}}) ==
        ".a: size 2, but data of 3 bytes");
  CHECK(error_of({{"a", {{"mode", 0120777}}}}) == ".a: missing key 'data'");
  CHECK(error_of({{"", file("1")}}) == ".: missing key 'path'");
  CHECK(error_of({{"a", file("1")}, {"a/b", file("1")}}) == ".a/b: 'a': Not a directory");
}

TEST_CASE("a batch script: each task is a broker, and that of task 0 runs the script") {
  Extracted job(Json{{"batch", {{"script", "#!/bin/sh\ntrue\n"}, {"broker-opts", {"-S", "a=b"}}}}});
  REQUIRE(job.error.empty());
  CHECK(job.text("script") == "#!/bin/sh\ntrue\n");
  CHECK(job.mode("script") == 0100700);
  CHECK(job.command(0) == std::vector<std::string>{"flux", "broker", "-S", "a=b", job.folder.path("") + "/script"});
  CHECK(job.command(1) == std::vector<std::string>{"flux", "broker", "-S", "a=b"});
}

TEST_CASE("a batch script without text is an error") {
  CHECK(Extracted(Json{{"batch", Json::object()}}).error ==
        "plugin 'batch': shell.init: attributes.system.batch: missing key 'script'");
  CHECK(Extracted(Json{{"batch", {{"script", "x"}, {"broker-opts", "x"}}}}).error ==
        "plugin 'batch': shell.init: attributes.system.batch.broker-opts: expected an array, got \"x\"");
}
