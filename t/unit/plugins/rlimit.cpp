// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include "catch.hpp"

#include "fake_host.hpp"
#include "plugins/builtins.hpp"

using namespace nacre;

namespace {

rlimit own(__rlimit_resource resource) {
  rlimit limit{};
  REQUIRE(::getrlimit(resource, &limit) == 0);
  return limit;
}

struct Limits {
  explicit Limits(const Json& option = nullptr) : host(2) {
    host.stack().push(plugins::make_rlimit(host));
    host.make_tasks();
    if (!option.is_null()) host.options().set("rlimit", option);
    if (Result<int> called = host.call("shell.init"); !called) error = called.error().message;
  }

  std::vector<task::ChildSetup::Limit> of_task(std::size_t task) {
    REQUIRE(error.empty());
    REQUIRE(host.call_task("task.init", task));
    return host.tasks()[task]->command().setup.limits;
  }

  // The error for an option that was given with -o.
  static std::string error_of_argument(const std::string& argument) {
    Limits limits;
    REQUIRE(limits.host.options().set_from_argument(argument));
    Result<int> called = limits.host.call("shell.init");
    return called ? "" : after_prefix(called.error().message);
  }

  static std::string after_prefix(std::string_view error) {
    constexpr std::string_view kStart = "plugin 'rlimit': shell.init: ";
    REQUIRE(error.starts_with(kStart));
    return std::string(error.substr(kStart.size()));
  }

  kit::FakeHost host;
  std::string error;
};

std::string error_of(const Json& option) { return Limits::after_prefix(Limits(option).error); }

}  // namespace

TEST_CASE("without rlimit the tasks' limits are not touched") { CHECK(Limits().of_task(0).empty()); }

TEST_CASE("rlimit sets the soft limit of every task, and leaves the hard one") {
  Limits limits(Json{{"nofile", 5}});
  for (std::size_t task : {0U, 1U}) {
    auto set = limits.of_task(task);
    REQUIRE(set.size() == 1);
    CHECK(set[0].resource == RLIMIT_NOFILE);
    CHECK(set[0].value.rlim_cur == 5);
    CHECK(set[0].value.rlim_max == own(RLIMIT_NOFILE).rlim_max);
  }
}

TEST_CASE("the shell's own limits stay as they are") {
  rlimit before = own(RLIMIT_NOFILE);
  (void)Limits(Json{{"nofile", 5}}).of_task(0);
  CHECK(own(RLIMIT_NOFILE).rlim_cur == before.rlim_cur);
  CHECK(own(RLIMIT_NOFILE).rlim_max == before.rlim_max);
}

TEST_CASE("limits have the names of getrlimit(2)") {
  const std::vector<std::pair<std::string, int>> kNames = {
      {"as", RLIMIT_AS},           {"core", RLIMIT_CORE},         {"cpu", RLIMIT_CPU},
      {"data", RLIMIT_DATA},       {"fsize", RLIMIT_FSIZE},       {"locks", RLIMIT_LOCKS},
      {"memlock", RLIMIT_MEMLOCK}, {"msgqueue", RLIMIT_MSGQUEUE}, {"nice", RLIMIT_NICE},
      {"nofile", RLIMIT_NOFILE},   {"nproc", RLIMIT_NPROC},       {"rss", RLIMIT_RSS},
      {"rtprio", RLIMIT_RTPRIO},   {"rttime", RLIMIT_RTTIME},     {"sigpending", RLIMIT_SIGPENDING},
      {"stack", RLIMIT_STACK}};
  CHECK(kNames.size() == RLIM_NLIMITS);
  for (const auto& [name, resource] : kNames) {
    INFO(name);
    auto set = Limits(Json{{name, 0}}).of_task(0);
    REQUIRE(set.size() == 1);
    CHECK(set[0].resource == resource);
    CHECK(set[0].value.rlim_cur == 0);
  }
}

TEST_CASE("several limits are all set") {
  auto set = Limits(Json{{"core", 0}, {"nofile", 6}}).of_task(0);
  REQUIRE(set.size() == 2);
  CHECK(set[0].resource == RLIMIT_CORE);
  CHECK(set[1].resource == RLIMIT_NOFILE);
  CHECK(set[1].value.rlim_cur == 6);
}

TEST_CASE("-1 is unlimited") {
  if (own(RLIMIT_CPU).rlim_max != RLIM_INFINITY) return;
  auto set = Limits(Json{{"cpu", -1}}).of_task(0);
  REQUIRE(set.size() == 1);
  CHECK(set[0].value.rlim_cur == RLIM_INFINITY);
}

namespace {

// Linux has not enforced this limit since 2.4, so that it may be lowered for good.
rlim_t lowered_hard_limit() {
  rlim_t hard = std::min<rlim_t>(own(RLIMIT_LOCKS).rlim_max, 1000);
  rlimit low{hard, hard};
  REQUIRE(::setrlimit(RLIMIT_LOCKS, &low) == 0);
  return hard;
}

}  // namespace

TEST_CASE("a soft limit may be as high as the hard one; one of the command line no higher") {
  rlim_t hard = lowered_hard_limit();
  CHECK(Limits(Json{{"locks", hard}}).of_task(0)[0].value.rlim_cur == hard);
  CHECK(Limits::error_of_argument(fmt::format("rlimit.locks={}", hard)).empty());
  CHECK(Limits::error_of_argument(fmt::format("rlimit.locks={}", hard + 1)) ==
        fmt::format("rlimit.locks: {} is above the hard limit of this node; ask for at most {}", hard + 1, hard));
  CHECK(Limits::error_of_argument(R"(rlimit={"locks": -1})") ==
        fmt::format("rlimit.locks: unlimited is above the hard limit of this node; ask for at most {}", hard));
}

TEST_CASE("a limit of a jobspec that is above the hard one is lowered to it, with a warning") {
  rlim_t hard = lowered_hard_limit();
  Limits limits(Json{{"locks", -1}, {"nofile", 7}});
  auto set = limits.of_task(0);
  REQUIRE(set.size() == 2);
  CHECK(set[0].value.rlim_cur == hard);
  CHECK(set[1].value.rlim_cur == 7);
  CHECK(limits.host.logged ==
        std::vector{fmt::format(
            "warn rlimit: rlimit.locks: unlimited is above the hard limit of this node; tasks have {}", hard)});
}

TEST_CASE("ofile is nofile") {
  auto set = Limits(Json{{"ofile", 9}}).of_task(1);
  REQUIRE(set.size() == 1);
  CHECK(set[0].resource == RLIMIT_NOFILE);
  CHECK(set[0].value.rlim_cur == 9);
}

TEST_CASE("an unknown limit is an error that lists those there are") {
  for (const char* name : {"files", "NOFILE", "RLIMIT_NOFILE", ""}) {
    CHECK(error_of(Json{{name, 1}}) ==
          fmt::format("rlimit.{}: unknown limit; known: as, core, cpu, data, fsize, locks, memlock, msgqueue, "
                      "nice, nofile, nproc, rss, rtprio, rttime, sigpending, stack",
                      name));
  }
}

TEST_CASE("a limit that is no number, or below -1, is an error") {
  CHECK(error_of(Json{{"core", -2}}) == "rlimit.core: expected an integer of at least -1, got -2");
  CHECK(error_of(Json{{"core", 1.5}}) == "rlimit.core: expected an integer of at least -1, got 1.5");
  CHECK(error_of(Json{{"core", "unlimited"}}) ==
        "rlimit.core: expected an integer of at least -1, got \"unlimited\"");
  CHECK(error_of(Json{{"core", 18446744073709551615U}}) ==
        "rlimit.core: expected an integer of at least -1, got 18446744073709551615");
}

TEST_CASE("rlimit has to be an object") {
  CHECK(error_of(1) == "rlimit: expected an object, got 1");
  CHECK(error_of("core") == "rlimit: expected an object, got \"core\"");
}
