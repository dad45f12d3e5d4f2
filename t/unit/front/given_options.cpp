// SPDX-License-Identifier: Apache-2.0
#include "front/given_options.hpp"

#include <nlohmann/json.hpp>
#include "catch.hpp"

#include "cli/command_line.hpp"
#include "job/option_table.hpp"
#include "job/options.hpp"

using namespace nacre;         // NOLINT
using namespace nacre::front;  // NOLINT

namespace {

using Verb = GivenOptions::Verb;
using Texts = std::vector<std::string>;

struct Given {
  Given(Verb verb, Texts words) : options(verb) {
    for (const char* group : {"Tasks", "Input and output", "", "Exit code"}) options.add_to(line, group);
    read = line.read(std::move(words));
  }
  cli::CommandLine line{"nacre verb", ""};
  GivenOptions options;
  Result<void> read;
};

const Texts kAllOfRun = {"--spares=1",
                         "--on-lost=go-on",
                         "--oversubscribe",
                         "--cpu-bind=core",
                         "--mem-bind=bind",
                         "--taskmap=5",
                         "--output=5",
                         "--error=e",
                         "--input=i",
                         "--input-ranks=1",
                         "-l",
                         "--fold=hosts",
                         "-u",
                         "--torch",
                         "--rehearse=kill rank 1 at 1s",
                         "--format=json",
                         "--notify=n",
                         "--usage=u",
                         "--joblog=j",
                         "--usage-plot=p",
                         "--usage-gpu",
                         "--timeline",
                         "--exit-main=1",
                         "--exit-ok=77",
                         "--report=r",
                         "--rehearse-force",
                         "--any-failure",
                         "-K=25%",
                         "--restart=always",
                         "--hang-watch=60",
                         "--slow-watch=60",
                         "--at-most=5",
                         "--health=quick"};

}  // namespace

TEST_CASE("each option of a verb that stands for one of the shell's stands for one that is known", "[front]") {
  Given given(Verb::run, kAllOfRun);
  CHECK_FALSE(given.read);  // a short option has no =
  Texts words = kAllOfRun;
  words[27] = "--fail-fast=25%";
  Given all(Verb::run, words);
  REQUIRE(all.read);
  REQUIRE(all.options.given().size() == words.size());
  for (const GivenOption& each : all.options.given()) {
    INFO(each.word);
    CHECK(job::is_known_option(each.name));
    CHECK_FALSE(each.value.is_null());
  }
}

TEST_CASE("what options stand for is set, and comes out in the form of -o", "[front]") {
  Given given(Verb::run, {"--output=5", "--exit-ok=77", "-u", "--fail-fast", "--usage=u", "--report=r",
                          "--cpu-bind=none", "--format=text", "--exit-main=1", "-l"});
  REQUIRE(given.read);
  job::Options set;
  given.options.set(set);
  CHECK(set.json() ==
        Json{{"output", {{"stdout", {{"path", "5"}, {"buffer", {{"type", "none"}}}}}, {"events", false}}},
             {"exit-ok", 77},
             {"exit-on-error", true},
             {"usage", "on"},
             {"cpu-affinity", "off"},
             {"exit-main", 1},
             {"label-io", true}});
  CHECK(given.options.shell_options() ==
        Texts{"output.stdout.path=5", "exit-ok=77", "output.stdout.buffer.type=none", "exit-on-error=true",
              "usage=on", "cpu-affinity=off", "output.events=false", "exit-main=1", "label-io=true"});
  auto reports = given.options.reports();
  REQUIRE(reports);
  REQUIRE(reports->size() == 2);
  CHECK((*reports)[0].channel == "usage");
  CHECK((*reports)[0].to == "u");
  CHECK((*reports)[1].channel == "report");
  CHECK(given.options.text("--usage") == "u");
  CHECK(given.options.has("--label-io"));
  CHECK_FALSE(given.options.has("--error"));
}

TEST_CASE("launch has no options for what its jobspec says", "[front]") {
  CHECK_FALSE(Given(Verb::launch, {"--output=o"}).read);
  Given given(Verb::launch, {"--restart=on-failure,max=2", "--usage"});
  REQUIRE(given.read);
  CHECK(given.options.shell_options() == Texts{"restart=on-failure,max=2", "usage=on"});
  CHECK(given.options.reports()->empty());
}

TEST_CASE("options that set the same to different values contradict each other, by the words that were given",
          "[front]") {
  auto error_of = [](Texts words, const Texts& setopt) {
    Given given(Verb::run, std::move(words));
    REQUIRE(given.read);
    auto refused = refuse_contradictions(given.options.given(), setopt);
    return refused ? "" : refused.error().message;
  };
  CHECK(error_of({"-S", "--exit-policy=max"}, {"exit-policy=max"}).empty());
  CHECK(error_of({"-S", "--exit-policy=all"}, {}) ==
        "--any-failure and --exit-policy=all contradict each other: give one of them");
  CHECK(error_of({"--fail-fast"}, {"exit-on-error=2"}) ==
        "--fail-fast and -o exit-on-error=2 contradict each other: give one of them");
  CHECK(error_of({"--fail-fast=1"}, {"exit-on-error=on"}).empty());
  CHECK(error_of({"-l"}, {"label-io=on"}).empty());
}
