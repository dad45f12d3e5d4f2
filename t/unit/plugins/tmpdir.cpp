// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/owned_directory.hpp"
#include "fake_host.hpp"
#include "folder.hpp"
#include "plugins/builtins.hpp"
#include "variable.hpp"

using namespace nacre;
namespace fs = std::filesystem;

namespace {

// A directory that TMPDIR names, the plugin, and the result of shell.init.
struct Tmpdir {
  explicit Tmpdir(const std::function<std::string(const fs::path& base)>& variable = [](const fs::path& own) {
    return own.native();
  }) {
    ::setenv("TMPDIR", variable(base).c_str(), 1);
    host = std::make_unique<kit::FakeHost>(1);
    host->stack().push(plugins::make_tmpdir(*host));
    if (Result<int> called = host->call("shell.init"); !called) error = called.error().message;
    if (auto set = host->environment().get("FLUX_JOB_TMPDIR")) path = *set;
  }
  [[nodiscard]] bool empty() const { return fs::is_empty(base); }

  kit::Variable before{"TMPDIR", ""};  // which it is again at the end
  kit::TemporaryFolder folder;
  fs::path base = folder.path();
  std::unique_ptr<kit::FakeHost> host;
  std::string error;
  fs::path path;  // "" if there is none
};

}  // namespace

TEST_CASE("a job's directory is below TMPDIR, private, and bears the job's id and the shell's rank") {
  Tmpdir tmpdir;
  REQUIRE(tmpdir.error.empty());
  CHECK(tmpdir.path.parent_path() == tmpdir.base);
  CHECK(tmpdir.path.filename().native().starts_with("nacre-" + host_digits() + "-f2-0-"));
  struct stat info {};
  REQUIRE(::stat(tmpdir.path.c_str(), &info) == 0);
  CHECK(info.st_mode == (S_IFDIR | 0700));
}

TEST_CASE("all tasks learn of the directory, by both names") {
  Tmpdir tmpdir;
  tmpdir.host->make_tasks();
  const job::Environment& env = tmpdir.host->tasks()[0]->command().env;
  CHECK(env.get("FLUX_JOB_TMPDIR") == tmpdir.path.native());
  CHECK(env.get("NACRE_JOB_TMPDIR") == tmpdir.path.native());
}

TEST_CASE("shell.exit removes the directory and all that is in it") {
  Tmpdir tmpdir;
  fs::create_directories(tmpdir.path / "a/b");
  std::ofstream(tmpdir.path / "a/b/file") << "text";
  REQUIRE(tmpdir.host->call("shell.exit"));
  CHECK(tmpdir.empty());
  CHECK(tmpdir.host->logged.empty());
}

TEST_CASE("a directory that a task made unwritable goes too, also for a user whom modes bind") {
  uid_t user = ::geteuid();
  if (user == 0) REQUIRE(::seteuid(65534) == 0);
  {
    Tmpdir tmpdir;
    fs::create_directories(tmpdir.path / "a/b");
    std::ofstream(tmpdir.path / "a/b/file") << "text";
    fs::permissions(tmpdir.path / "a/b", fs::perms::owner_read);
    fs::permissions(tmpdir.path / "a", fs::perms::none);
    CHECK(tmpdir.host->call("shell.exit"));
    CHECK(tmpdir.empty());
    CHECK(tmpdir.host->logged.empty());
  }
  REQUIRE(::seteuid(user) == 0);
}

TEST_CASE("what a link in the directory points to is left alone") {
  Tmpdir tmpdir;
  fs::create_directory(tmpdir.base / "kept");
  std::ofstream(tmpdir.base / "kept/file") << "text";
  fs::create_directory_symlink(tmpdir.base / "kept", tmpdir.path / "link");
  REQUIRE(tmpdir.host->call("shell.exit"));
  CHECK_FALSE(fs::exists(tmpdir.path));
  CHECK(fs::exists(tmpdir.base / "kept/file"));
}

TEST_CASE("the directory goes with the plugin too, if the job never came to shell.exit") {
  Tmpdir tmpdir;
  REQUIRE(fs::exists(tmpdir.path));
  tmpdir.host.reset();
  CHECK(tmpdir.empty());
}

TEST_CASE("a directory that has gone already is no error") {
  Tmpdir tmpdir;
  fs::remove(tmpdir.path);
  REQUIRE(tmpdir.host->call("shell.exit"));
  CHECK(tmpdir.host->logged.empty());
}

TEST_CASE("without TMPDIR, or if it is empty, the directory is below /tmp") {
  Tmpdir tmpdir([](const fs::path&) { return ""; });
  CHECK(tmpdir.path.parent_path() == "/tmp");
  CHECK(fs::exists(tmpdir.path));
  REQUIRE(tmpdir.host->call("shell.exit"));
  CHECK_FALSE(fs::exists(tmpdir.path));
}

TEST_CASE("a relative TMPDIR makes an absolute path: the working directory changes after shell.init") {
  Tmpdir tmpdir([](const fs::path& base) { return fs::relative(base).native(); });
  REQUIRE(tmpdir.path.is_absolute());
  CHECK(fs::equivalent(tmpdir.path.parent_path(), tmpdir.base));
  fs::path before = fs::current_path();
  fs::current_path("/");
  REQUIRE(tmpdir.host->call("shell.exit"));
  fs::current_path(before);
  CHECK(tmpdir.empty());
}

TEST_CASE("a TMPDIR that is not there is made") {
  Tmpdir tmpdir([](const fs::path& base) { return base.native() + "/none"; });
  CHECK(tmpdir.path.parent_path() == tmpdir.base / "none");
  struct stat info {};
  REQUIRE(::stat((tmpdir.base / "none").c_str(), &info) == 0);
  CHECK(info.st_mode == (S_IFDIR | 0700));
  CHECK(tmpdir.host->logged.empty());
}

TEST_CASE("/tmp takes the place of a TMPDIR that cannot be made, with a line") {
  Tmpdir tmpdir([](const fs::path& base) { return base.native() + "/no/such"; });
  CHECK(tmpdir.error.empty());
  CHECK(tmpdir.path.parent_path() == "/tmp");
  CHECK(
      tmpdir.host->logged ==
      std::vector{fmt::format("warn tmpdir: TMPDIR: cannot make {}/no/such: No such file or directory; /tmp takes "
                              "its place",
                              tmpdir.base.native())});
  REQUIRE(tmpdir.host->call("shell.exit"));
}

TEST_CASE("a TMPDIR that is no directory is an error, and sets no variable") {
  Tmpdir tmpdir([](const fs::path& base) {
    std::ofstream(base / "file") << "text";
    return base.native() + "/file";
  });
  CHECK(tmpdir.error ==
        fmt::format("plugin 'tmpdir': shell.init: tmpdir: cannot make a directory in {}/file (set TMPDIR to a "
                    "directory with room): Not a directory",
                    tmpdir.base.native()));
  CHECK_FALSE(tmpdir.host->environment().get("FLUX_JOB_TMPDIR"));
}

TEST_CASE("the tasks' TMPDIR is made too, or else /tmp takes its place") {
  Tmpdir tmpdir;
  std::string own = tmpdir.base / "own";
  for (const auto& [given, want] :
       {std::pair(own, own), std::pair(tmpdir.base.native() + "/no/such", std::string("/tmp"))}) {
    kit::FakeHost host(1);
    host.environment().set("TMPDIR", given);
    host.stack().push(plugins::make_tmpdir(host));
    REQUIRE(host.call("shell.init"));
    CHECK(host.environment().get("TMPDIR") == want);
    CHECK(fs::is_directory(want));
    CHECK(host.logged.size() == (given == want ? 0 : 1));
    REQUIRE(host.call("shell.exit"));
  }
}

TEST_CASE("a directory that cannot be removed is a warning") {
  Tmpdir tmpdir;
  fs::remove_all(tmpdir.base);
  fs::create_symlink(tmpdir.base, tmpdir.base);  // a loop: nothing below it can be looked at
  REQUIRE(tmpdir.host->call("shell.exit"));
  CHECK(tmpdir.host->logged ==
        std::vector{
            fmt::format("warn tmpdir: cannot remove {}: Too many levels of symbolic links", tmpdir.path.native())});
}

TEST_CASE("what a shell that is gone has left is removed once the tasks run, with a line; nothing else is") {
  Tmpdir tmpdir;
  const std::string front = "nacre-" + host_digits();
  auto add = [&](const std::string& name, fs::perms mode = fs::perms::owner_all) {
    fs::create_directories(tmpdir.base / name / "a");
    std::ofstream(tmpdir.base / name / "a/file") << "text";
    fs::permissions(tmpdir.base / name, mode);
    fs::last_write_time(tmpdir.base / name, fs::last_write_time(tmpdir.path) - std::chrono::seconds(1));
    return tmpdir.base / name;
  };
  fs::path job = add(front + "-f4-0-abcdef");
  fs::path socket = add(front + "01234567-abcdef");
  fs::path of_another_host = add("nacre-" + digits_of("another") + "-f4-0-abcdef");
  fs::path open_to_others = add(front + "-f4-1-abcdef", fs::perms::all);
  fs::path plain = add("other");
  fs::create_directory_symlink(plain, tmpdir.base / (front + "-f4-2-abcdef"));
  auto in_use = OwnedDirectory::create(tmpdir.base, "-f4-3");
  REQUIRE(in_use);

  REQUIRE(tmpdir.host->call("shell.start"));
  auto look = event::Timer::create(tmpdir.host->loop(), [] {}).value();
  look.start(event::Seconds(0.01), event::Seconds(0.01));
  double end = tmpdir.host->loop().now() + kit::FakeHost::kTimeout.count();
  tmpdir.host->loop().run_until(
      [&] { return (!fs::exists(job) && !fs::exists(socket)) || tmpdir.host->loop().now() > end; });
  CHECK_FALSE(fs::exists(job));
  CHECK_FALSE(fs::exists(socket));
  for (const fs::path& kept : {of_another_host, open_to_others, plain}) CHECK(fs::exists(kept / "a/file"));
  CHECK(fs::exists(in_use->path()));
  CHECK(fs::exists(tmpdir.path));
  REQUIRE(tmpdir.host->logged.size() == 1);
  CHECK(tmpdir.host->logged[0].starts_with("notice tmpdir: removes what a shell that was killed has left: "));
}

TEST_CASE("of shells on one host only the first looks for what others have left") {
  for (const char* before : {"here", "elsewhere"}) {
    Tmpdir tmpdir;
    job::Job& job = tmpdir.host->mutable_job();
    job.resources.nodes.resize(1);
    job.resources.nodes.front().hostname = "here";
    job.resources.nodes.insert(job.resources.nodes.begin(), job.resources.nodes.front());
    job.resources.nodes.front().hostname = before;
    job.shell_rank = 1;
    job.id = value::JobId{4};  // of which no earlier shell looks
    fs::path left = tmpdir.base / ("nacre-" + host_digits() + "-f4-0-abcdef");
    fs::create_directory(left);
    fs::permissions(left, fs::perms::owner_all);
    fs::last_write_time(left, fs::last_write_time(tmpdir.path) - std::chrono::seconds(1));
    REQUIRE(tmpdir.host->call("shell.start"));
    auto look = event::Timer::create(tmpdir.host->loop(), [] {}).value();
    look.start(event::Seconds(0.01), event::Seconds(0.01));
    const double end = tmpdir.host->loop().now() + 0.2;
    tmpdir.host->loop().run_until([&] { return !tmpdir.host->logged.empty() || tmpdir.host->loop().now() > end; });
    CHECK(tmpdir.host->logged.empty() == (std::string_view(before) == "here"));
  }
}

TEST_CASE("where nothing is left nothing is said") {
  Tmpdir tmpdir;
  REQUIRE(tmpdir.host->call("shell.start"));
  auto look = event::Timer::create(tmpdir.host->loop(), [] {}).value();
  look.start(event::Seconds(0.05));
  tmpdir.host->loop().run_once();
  tmpdir.host->loop().run_once();
  CHECK(tmpdir.host->logged.empty());
}
