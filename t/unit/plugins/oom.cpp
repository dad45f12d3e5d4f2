// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"

#include "base/file.hpp"
#include "base/text.hpp"
#include "fake_host.hpp"
#include "plugins/builtins.hpp"
#include "task/settings.hpp"

using namespace nacre;

namespace {

using Adjust = std::optional<std::string>;

struct Oom {
  explicit Oom(const Json& option = nullptr) : host(2) {
    host.stack().push(plugins::make_oom(host));
    host.make_tasks();
    if (!option.is_null()) host.options().set("oom", option);
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  Adjust of_task(std::size_t task) {
    REQUIRE(error.empty());
    REQUIRE(host.call_task("task.init", task));
    return host.tasks()[task]->command().setup.settings.of<task::OomScore>();
  }

  kit::FakeHost host;
  std::string error;
};

constexpr const char* kOomError = "plugin 'oom': shell.init: ";

}  // namespace

TEST_CASE("without oom.adjust the tasks inherit the shell's score") {
  CHECK(Oom().of_task(0) == Adjust());
  CHECK(Oom(Json::object()).of_task(0) == Adjust());
}

TEST_CASE("oom.adjust is the score of every task") {
  Oom oom(Json{{"adjust", 321}});
  CHECK(oom.of_task(0) == Adjust("321"));
  CHECK(oom.of_task(1) == Adjust("321"));
  CHECK(Oom(Json{{"adjust", 0}}).of_task(0) == Adjust("0"));
}

TEST_CASE("oom.adjust is -1000 to 1000") {
  CHECK(Oom(Json{{"adjust", 1000}}).of_task(0) == Adjust("1000"));
  for (const char* value : {"-1001", "1001", "1.5", "\"high\"", "true"}) {
    CHECK(Oom(Json{{"adjust", Json::parse(value)}}).error ==
          std::string(kOomError) + "oom.adjust: expected an integer from -1000 to 1000, got " + value);
  }
}

// Whether this test may lower its score depends on its user.
TEST_CASE(
    "a score below the shell's own is the tasks', or a warning names what they have; the shell keeps its own") {
  std::string own(trim(read_file("/proc/self/oom_score_adj", 16).value()));
  std::string lower = std::to_string(parse_i64(own).value() - 1);
  if (lower == "-1001") return;
  bool may = task::OomScore::set(lower) == 0;
  REQUIRE(task::OomScore::set(own) == 0);
  Oom oom(Json{{"adjust", parse_i64(lower).value()}});
  CHECK(oom.of_task(0) == (may ? Adjust(lower) : Adjust()));
  CHECK(trim(read_file("/proc/self/oom_score_adj", 16).value()) == own);
  std::string warning = "warn oom: oom.adjust: " + lower + " is below this shell's own, " + own +
                        ", and needs privilege; tasks have " + own;
  CHECK(oom.host.logged == (may ? std::vector<std::string>() : std::vector{warning}));
}

TEST_CASE("oom has no other members, and is an object") {
  CHECK(Oom(Json{{"ajust", 5}}).error == std::string(kOomError) + "oom.ajust: unknown key; known: adjust");
  CHECK(Oom(5).error == std::string(kOomError) + "oom: expected an object, got 5");
}
