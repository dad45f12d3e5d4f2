// SPDX-License-Identifier: Apache-2.0
#include "boot/identity.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.hpp"
#include "folder.hpp"

using namespace nacre;        // NOLINT
using namespace nacre::kit;   // NOLINT
using namespace nacre::boot;  // NOLINT

namespace {

constexpr const char* kJobspec = R"({"version": 1,
  "resources": [{"type": "slot", "count": 2, "label": "task", "with": [{"type": "core", "count": 1}]}],
  "tasks": [{"command": ["hostname", "-s"], "slot": "task", "count": {"per_slot": 1}}],
  "attributes": {"system": {"duration": 60}}})";

// Ranks with a hole, not in order.
constexpr const char* kResources = R"({"version": 1, "execution": {
  "R_lite": [{"rank": "9", "children": {"core": "0-1"}}, {"rank": "3-5", "children": {"core": "0-3"}}],
  "nodelist": ["a[3-5],z9"], "starttime": 0, "expiration": 0}})";

constexpr const char* kOneNode = R"({"version": 1, "execution": {
  "R_lite": [{"rank": "4", "children": {"core": "0"}}], "starttime": 0, "expiration": 0}})";

struct Files {
  explicit Files(std::string_view jobspec = kJobspec, std::string_view resources = kResources)
      : request{folder.file("jobspec.json", jobspec), folder.file("R.json", resources), {}, {}} {}

  std::string error() {
    auto identity = standalone(request);
    return identity ? "accepted" : identity.error().message;
  }

  TemporaryFolder folder;
  Standalone request;
};

// Standard input is this text as long as it lives.
class StandardInput {
 public:
  explicit StandardInput(const std::string& path) : saved_(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)) {
    UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    REQUIRE(file);
    REQUIRE(::dup2(file.get(), STDIN_FILENO) == STDIN_FILENO);
  }
  ~StandardInput() {
    if (saved_) {
      ::dup2(saved_.get(), STDIN_FILENO);
    } else {
      ::close(STDIN_FILENO);
    }
  }
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

 private:
  UniqueFd saved_;
};

std::uint64_t milliseconds_since_2020() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  return static_cast<std::uint64_t>(ms) - 1577836800000;
}

}  // namespace

// ---- from files ------------------------------------------------------------

TEST_CASE("a shell alone knows its job from two files") {
  Files files;
  files.request.id = value::JobId(1234);
  auto identity = standalone(files.request);
  REQUIRE(identity);
  CHECK(identity->standalone);
  CHECK(identity->id == value::JobId(1234));
  CHECK(identity->spec.command == std::vector<std::string>{"hostname", "-s"});
  CHECK(identity->spec.duration == 60);
  REQUIRE(identity->resources.nodes.size() == 4);
  CHECK(identity->resources.nodes[3].hostname == "z9");
}

TEST_CASE("without a rank it is the shell of the lowest in R, wherever R has it") {
  Files files;
  auto identity = standalone(files.request);
  REQUIRE(identity);
  CHECK(identity->shell_rank == 0);
  CHECK(identity->resources.nodes[identity->shell_rank].broker_rank == 3);
}

TEST_CASE("a rank is one of R, and counts from the lowest") {
  Files files;
  for (auto [broker_rank, shell_rank] : {std::pair(3U, 0U), {4U, 1U}, {5U, 2U}, {9U, 3U}}) {
    files.request.broker_rank = broker_rank;
    auto identity = standalone(files.request);
    REQUIRE(identity);
    CHECK(identity->shell_rank == shell_rank);
    CHECK(identity->resources.nodes[shell_rank].broker_rank == broker_rank);
  }
}

TEST_CASE("without an id it gets one") {
  Files files;
  auto identity = standalone(files.request);
  REQUIRE(identity);
  auto another = standalone(files.request);
  REQUIRE(another);
  CHECK(identity->id.value() != another->id.value());
}

TEST_CASE("either file may be standard input") {
  Files files;
  {
    StandardInput input(files.request.jobspec_path);
    auto identity = standalone({"-", files.request.resources_path, {}, {}});
    REQUIRE(identity);
    CHECK(identity->spec.command.front() == "hostname");
  }
  StandardInput input(files.request.resources_path);
  auto identity = standalone({files.request.jobspec_path, "-", {}, 9U});
  REQUIRE(identity);
  CHECK(identity->shell_rank == 3);
}

// ---- errors ----------------------------------------------------------------

TEST_CASE("a file that cannot be read is named") {
  Files files;
  std::string jobspec = files.request.jobspec_path;
  files.request.jobspec_path = files.folder.path("none");
  auto identity = standalone(files.request);
  REQUIRE_FALSE(identity);
  CHECK(identity.error().code == ENOENT);
  CHECK(identity.error().message == files.folder.path("none") + ": No such file or directory");
  files.request.jobspec_path = jobspec;
  files.request.resources_path = files.folder.path("");
  CHECK(files.error() == files.folder.path("") + ": Is a directory");
}

TEST_CASE("what is wrong in a file is told with its name and place") {
  Json jobspec = Json::parse(kJobspec);
  jobspec["resources"][0]["count"] = -1;
  Files spoiled(jobspec.dump());
  CHECK(spoiled.error() ==
        spoiled.request.jobspec_path + ": resources[0].count: expected a positive integer, got -1");
  Files empty(kJobspec, "");
  CHECK(empty.error().starts_with(empty.request.resources_path + ": not JSON: line 1, column 1: "));
  Files other(kJobspec, kJobspec);
  CHECK(other.error() == other.request.resources_path + ": missing key 'execution'");
}

TEST_CASE("what is wrong on standard input is told as such") {
  Files files;
  {
    StandardInput input(files.folder.file("empty", "{}"));
    files.request.jobspec_path = "-";
    CHECK(files.error() == "standard input: missing key 'version'");
  }
  StandardInput input(files.folder.file("one", kOneNode));
  files.request = {files.folder.path("jobspec.json"), "-", {}, 5U};
  CHECK(files.error() == "standard input: no rank 5: it has rank 4");
}

TEST_CASE("a rank that R does not have is told with those that it has") {
  Files files;
  for (unsigned rank : {0U, 2U, 6U, 8U, 10U, 4294967295U}) {
    files.request.broker_rank = rank;
    auto identity = standalone(files.request);
    REQUIRE_FALSE(identity);
    CHECK(identity.error().code == ENOENT);
    CHECK(identity.error().message ==
          files.request.resources_path + ": no rank " + std::to_string(rank) + ": it has ranks 3-5,9");
  }
  Files one(kJobspec, kOneNode);
  one.request.broker_rank = 0;
  CHECK(one.error() == one.request.resources_path + ": no rank 0: it has rank 4");
}

// ---- new job ids -----------------------------------------------------------

TEST_CASE("a new job id has the time in its upper 40 bits, in milliseconds since 2020") {
  std::uint64_t before = milliseconds_since_2020();
  std::uint64_t id = new_job_id().value();
  std::uint64_t after = milliseconds_since_2020();
  CHECK(id >> 24 >= before);
  CHECK(id >> 24 <= after);
}

TEST_CASE("the lower 24 bits of new job ids are random") {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 64; ++i) seen.insert(new_job_id().value() & 0xffffff);
  CHECK(seen.size() > 60);
}
