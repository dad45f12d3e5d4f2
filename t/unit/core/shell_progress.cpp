// SPDX-License-Identifier: Apache-2.0
#include "core/shell_restart.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake_host.hpp"
#include "folder.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::core;  // NOLINT
using NoProgress = job::RestartOption::NoProgress;

namespace {

// An output in which tasks have written these numbers, by rank.
struct Numbers : plugin::TaskOutput {
  value::Idset come_out() override { return {}; }
  std::optional<Tail> tail(std::uint32_t /*rank*/) override { return std::nullopt; }
  void follow(plugin::OutputFollower* /*follower*/) override {}
  void redirect(plugin::OutputFile* /*to*/) override {}
  std::optional<Number> largest_number(std::uint32_t rank, std::string_view word) override {
    auto found = numbers.find(rank);
    return found != numbers.end() && word == "step" ? std::optional(Number{found->second, 0, 0}) : std::nullopt;
  }

  std::map<std::uint32_t, double> numbers;
};

job::RestartOption looking_at(NoProgress::Look look, std::string what) {
  job::RestartOption out;
  out.no_progress = NoProgress{3, look, std::move(what)};
  return out;
}

// What a command shows at each look; "none" if the look fails.
std::vector<std::string> shown_by(kit::FakeHost& host, const std::string& command, int looks) {
  ShellProgress progress(host, looking_at(NoProgress::Look::command, command));
  std::vector<std::string> out;
  for (int look = 0; look < looks; ++look)
    progress.look([&](const std::optional<std::string>& seen) { out.push_back(seen.value_or("none")); });
  CHECK(host.serve([&] { return out.size() == static_cast<std::size_t>(looks); }));
  return out;
}

}  // namespace

TEST_CASE("a file changes with its size, its time and what a link leads to") {
  kit::TemporaryFolder folder;
  const std::string link = folder.path("latest");
  CHECK(look_at_file(link) == "not there");
  const std::string one = folder.file("one", "abc");
  REQUIRE(::symlink("one", link.c_str()) == 0);
  const timespec times[] = {{1, 0}, {1700000000, 5}};
  REQUIRE(::utimensat(AT_FDCWD, one.c_str(), times, 0) == 0);
  CHECK(look_at_file(one) == "3 bytes of 2023-11-14T22:13:20.000000005Z");
  CHECK(look_at_file(link) == "a link to " + one + ", 3 bytes of 2023-11-14T22:13:20.000000005Z");
  CHECK(look_at_file(one + "/below") == "not there");
  REQUIRE(::unlink(one.c_str()) == 0);
  CHECK(look_at_file(link) == "not there");
  CHECK_FALSE(look_at_file(std::string(300, 'x')));
}

TEST_CASE("what a command prints is short, and differs where the command does") {
  CHECK(short_print("") == "nothing");
  CHECK(short_print(" 40\n") == "40");
  const std::string two = short_print("40\n41\n");
  CHECK(two.starts_with("40 ..., 5 bytes, "));
  CHECK(two != short_print("40\n42\n"));
  const std::string long_one(1000, 'x');
  CHECK(short_print(long_one).size() < 300);
  CHECK(short_print(long_one) != short_print(long_one.substr(1) + "y"));
}

TEST_CASE("a command is run once for all that look while it runs, and has failed for all of them") {
  kit::FakeHost host;
  CHECK(shown_by(host, "echo $FLUX_JOB_ID; echo err >&2", 1) == std::vector{host.job().f58()});
  kit::TemporaryFolder folder;
  const std::string runs = folder.path("runs");
  CHECK(shown_by(host, "echo >>" + runs + "; wc -l <" + runs, 2) == std::vector<std::string>{"1", "1"});
  CHECK(host.logged.empty());
  CHECK(shown_by(host, "echo 40; echo lost >&2; exit 7", 2) == std::vector<std::string>{"none", "none"});
  REQUIRE(host.logged.size() == 1);
  CHECK(
      host.logged[0].find("restart: no-progress: 'echo 40; echo lost >&2; exit 7': exited with code 7: lost: this "
                          "restart does not count") != std::string::npos);
}

TEST_CASE("the largest number of some tasks of this shell") {
  kit::FakeHost host(3);
  host.make_tasks();
  ShellProgress progress(host, looking_at(NoProgress::Look::output, "step"));
  CHECK(progress.number_of(value::Idset::range(0, 2)).empty());  // nothing reads the tasks' output
  Numbers numbers;
  numbers.numbers = {{0, 7}, {1, 12.5}};
  host.offer_output(&numbers);
  CHECK(progress.number_of(value::Idset::range(0, 9)) == "12.5");
  CHECK(progress.number_of(value::Idset::range(0, 0)) == "7");
  CHECK(progress.number_of(value::Idset::range(2, 2)).empty());
  std::optional<std::string> seen;
  progress.look([&](const std::optional<std::string>& what) { seen = what; });
  CHECK(seen == "");
}
