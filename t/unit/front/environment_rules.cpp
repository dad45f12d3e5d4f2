// SPDX-License-Identifier: Apache-2.0
#include "front/job_request.hpp"

#include "catch.hpp"

using namespace nacre;
using namespace nacre::front;

namespace {

const Variables kCaller{{"HOME", "/home/u"},     {"PATH", "/bin"},          {"LANG", "C"},
                        {"LC_ALL", "C"},         {"PMI_RANK", "3"},         {"PMIX_RANK", "3"},
                        {"SLURM_PROCID", "1"},   {"SLURM_STEP_ID", "0"},    {"SLURM_JOB_ID", "7"},
                        {"FLUX_TASK_RANK", "0"}, {"FLUX_URI", "local://x"}, {"OMPI_COMM_WORLD_RANK", "0"}};

Variables after(std::initializer_list<const char*> rules) {
  EnvironmentRules out(kCaller);
  for (const char* each : rules) {
    auto applied = out.apply(each);
    INFO(each);
    REQUIRE(applied);
  }
  return out.job();
}

std::string error_after(const char* rule) {
  EnvironmentRules out(kCaller);
  auto applied = out.apply(rule);
  REQUIRE_FALSE(applied);
  return applied.error().message;
}

}  // namespace

TEST_CASE("the job's environment is the caller's without what an outer launcher has left") {
  CHECK(after({}) == Variables{{"FLUX_URI", "local://x"},
                               {"HOME", "/home/u"},
                               {"LANG", "C"},
                               {"LC_ALL", "C"},
                               {"PATH", "/bin"},
                               {"SLURM_JOB_ID", "7"}});
}

TEST_CASE("what a launcher sets for its tasks is known by its names") {
  for (const char* each :
       {"PMI_FD", "PMIX_NAMESPACE", "SLURM_STEPID", "SLURM_LOCALID", "NACRE_JOB_ID", "NACRE_SHELL_ID",
        "MPI_LOCALRANKID", "FLUX_JOB_SIZE", "OMPI_UNIVERSE_SIZE", "PALS_RANKID"})
    CHECK(is_of_outer_launcher(each));
  for (const char* each :
       {"PMI", "SLURM_JOB_NODELIST", "SLURM_NTASKS", "FLUX_URI", "PATH", "NACRE_JOBS_DIR", "PMIFOO"})
    CHECK_FALSE(is_of_outer_launcher(each));
}

TEST_CASE("rules are applied in their order") {
  CHECK(after({"-*", "PATH"}) == Variables{{"PATH", "/bin"}});
  CHECK(after({"-*", "L*"}) == Variables{{"LANG", "C"}, {"LC_ALL", "C"}});
  CHECK(after({"-*", "/L[AC].*/"}) == Variables{{"LANG", "C"}, {"LC_ALL", "C"}});
  CHECK(after({"-*", "/L/"}).empty());  // the whole name
  CHECK(after({"-*", "NO_SUCH"}).empty());
  CHECK(after({"-*", "A=1", "A=2"}) == Variables{{"A", "2"}});
  CHECK(after({"-*", "A=", "B=x=y"}) == Variables{{"A", ""}, {"B", "x=y"}});
  CHECK(after({"A=1", "-A"}).count("A") == 0);
}

TEST_CASE("what was dropped comes back if it is asked for") {
  CHECK(after({"-*", "PMI_RANK"}) == Variables{{"PMI_RANK", "3"}});
}

TEST_CASE("a value may have variables of the job, else of the caller") {
  CHECK(after({"-*", "P=$PATH:/x"}) == Variables{{"P", "/bin:/x"}});
  CHECK(after({"-*", "A=1", "B=${A}2$A"}) == Variables{{"A", "1"}, {"B", "121"}});
  CHECK(after({"-*", "A=$$x", "B=$", "C=$1", "D=${", "E=${A"}) ==
        Variables{{"A", "$x"}, {"B", "$"}, {"C", "$1"}, {"D", "${"}, {"E", "${A"}});
  CHECK(error_after("A=$NO_SUCH") == "'A=$NO_SUCH': NO_SUCH is not set; write $$ for a dollar sign");
}

TEST_CASE("rules that are none are refused") {
  CHECK(error_after("").starts_with("expected -PATTERN"));
  CHECK(error_after("-") == "expected a name or a pattern, got nothing");
  CHECK(error_after("=x").starts_with("'=x': "));
  CHECK(error_after("-/(/").starts_with("'(' is no regular expression: "));
  CHECK(error_after("^/no/such/file").starts_with("/no/such/file: "));
}

TEST_CASE("a file has a rule a line") {
  EnvironmentRules out(kCaller);
  REQUIRE(out.apply_text("# only these\n-*\n\n  A=1 \r\nPATH\n", "rules"));
  CHECK(out.job() == Variables{{"A", "1"}, {"PATH", "/bin"}});
  auto wrong = out.apply_text("A=1\n^other\n", "rules");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().message == "rules: line 2: a file of rules cannot name another: put its rules here");
}

TEST_CASE("a block's variables; what is none is left out") {
  const char* block[] = {"A=1", "=x", "B", "C=a=b", nullptr};
  CHECK(variables_of(block) == Variables{{"A", "1"}, {"C", "a=b"}});
}

TEST_CASE("variables that are no UTF-8 are left out and named") {
  Variables variables{{"A", "\xc3\xa9"}, {"B", "\xff"}, {"C", "\xed\xa0\x80"}, {"D\x80", ""}, {"E", "\xc0\x80"}};
  CHECK(drop_no_utf8(variables) == std::vector<std::string>{"B", "C", "D\x80", "E"});
  CHECK(variables == Variables{{"A", "\xc3\xa9"}});
}
