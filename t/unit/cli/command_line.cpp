// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include "catch.hpp"

#include "cli/command_line.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::cli;  // NOLINT

namespace {

using Words = std::vector<std::string>;

// A verb with one option of each kind.
struct Line {
  explicit Line(bool is_prefix = false) : line("nacre try", "Tries.") {
    line.add_help();
    line.add_flag("-q,--quiet", quiet, "Print less")->excludes({"--verbose"});
    line.add_counter("-v,--verbose", verbose, "Print more");
    line.add_number("-n,--count", count, "How many", {1, 16777216})->option_text("N");
    line.add_number("--any", any, "Any number");
    line.begin_group("Places", "where it is tried");
    line.add_option("--name", name, "Its name")->option_text("NAME")->needs({"--count"});
    line.add_option("-o,--set", set, "Set it; may be repeated")->option_text("OPT[=VAL]");
    line.add_flag("--file", file, "Write it; or to FILE", "none")->option_text("[=FILE]")->check(not_empty("x"));
    line.add_option("--way", way, "How")->option_text("fast|slow")->check(one_of({"fast", "slow"}));
    line.at_most_one({"--way", "--file"});
    line.begin_group("");
    if (is_prefix)
      line.prefix_command();
    else
      line.add_option("JOB", job, "The job");
  }
  std::string read(const Words& words) {
    if (auto read = line.read(words); !read) return read.error().message;
    return fmt::format("{} {} {} {} {} {} {} {} {} {}", quiet, verbose, count.value_or(0), any, name.value_or("-"),
                       set, file, way, job, line.rest());
  }

  CommandLine line;
  bool quiet = false;
  int verbose = 0;
  std::optional<unsigned> count;
  double any = 0;
  std::optional<std::string> name;
  Words set;
  std::string file = "-", way = "-", job = "-";
};

std::string read(const Words& words) { return Line().read(words); }
std::string read_prefix(const Words& words) { return Line(true).read(words); }

}  // namespace

TEST_CASE("a command line: values are where they belong, in each form") {
  CHECK(read({}) == R"(false 0 0 0 - [] - - - [])");
  CHECK(read({"-q"}) == R"(true 0 0 0 - [] - - - [])");
  CHECK(read({"-v", "j", "-v"}) == R"(false 2 0 0 - [] - - j ["j"])");
  CHECK(read({"-vvn4", "--name=a"}) == R"(false 2 4 0 a [] - - - [])");
  CHECK(read({"-n", "010", "--name", "--quiet"}) == R"(false 0 10 0 --quiet [] - - - [])");
  CHECK(read({"--any=-1e3", "--file"}) == R"(false 0 0 -1000 - [] none - - [])");
  CHECK(read({"--file={}", "--any", "2"}) == R"(false 0 0 2 - [] {} - - [])");
  CHECK(read({"--file=a", "--file=b"}) == R"(false 0 0 0 - [] b - - [])");
  CHECK(read({"-o", "[a,b]", "-o[a,b]", "--set=[[aa]]", "--set", "--x=y", "-o", "--", "-ox"}) ==
        R"(false 0 0 0 - ["[a,b]", "[a,b]", "[[aa]]", "--x=y", "--", "x"] - - - [])");
  CHECK(read({"-o", "", "--", "-n"}) == R"(false 0 0 0 - [""] - - -n ["-n"])");
  Line marked;
  CHECK(marked.line.read({"-o", "\x1f", "--set=\x1f", "--", "\x1f"}));
  CHECK(marked.set == Words{"\x1f", "\x1f"});
  CHECK(marked.job == "\x1f");
  CHECK(read({"-"}) == R"(false 0 0 0 - [] - - - ["-"])");
}

TEST_CASE("a command line: a value of any one or two characters is a value") {
  const std::string characters = "\x1f\x7f !\"#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~\xc3";
  for (char first : characters) {
    for (std::string value :
         {std::string(1, first), std::string(2, first), first + std::string("."), '.' + std::string(1, first)}) {
      CAPTURE(value);
      Line by_equals, of_its_own;
      REQUIRE(by_equals.line.read({"--set=" + value, "--file=" + value, "--", value}));
      CHECK(by_equals.set == Words{value});
      CHECK(by_equals.file == value);
      CHECK(by_equals.job == value);
      REQUIRE(of_its_own.line.read({"--set", value}));
      CHECK(of_its_own.set == Words{value});
    }
  }
}

TEST_CASE("a command line: an empty value is an error") {
  CHECK(read({"--name=", "-n", "1"}) == "--name=: expected a value behind =");
  CHECK(read({"--name", "", "-n", "1"}) == "--name: expected a value, got an empty one");
  CHECK(read({""}) == "JOB: expected a value, got an empty one");
}

TEST_CASE("a command line: behind a prefix all is the command's") {
  CHECK(read_prefix({"-q", "a", "-q", "--", "-n", "--x=y"}) ==
        R"(true 0 0 0 - [] - - - ["a", "-q", "--", "-n", "--x=y"])");
  CHECK(read_prefix({"-n1", "--", "-q"}) == R"(false 0 1 0 - [] - - - ["--", "-q"])");
  CHECK(read_prefix({"-x", "-n"}) == "'-x' is not known here");
}

TEST_CASE("a command line: options of other programs are taken, or told what they are here") {
  static constexpr std::array<ForeignOption, 6> kForeign{
      {{"-np --np", "--count=%", "", ""},
       {"--still --silent", "--quiet", "1", "--quiet prints less"},
       {"--pace", "--way=%", "fast slow", "--way says how"},
       {"--gone", "", "", ""},
       {"--all", "%", "yes", "there is no other way"},
       {"-env --map", "", "", "--set sets it"}}};
  auto read_foreign = [](const Words& words) {
    Line tried(true);
    tried.line.take_foreign(kForeign);
    return tried.read(words);
  };
  CHECK(read_foreign({"-np", "4", "a", "-np", "5"}) == R"(false 0 4 0 - [] - - - ["a", "-np", "5"])");
  CHECK(read_foreign({"-q", "--np=4", "--gone", "-o", "x", "a"}) == R"(true 0 4 0 - ["x"] - - - ["a"])");
  CHECK(read_foreign({"-o", "-np", "a"}) == R"(false 0 0 0 - ["-np"] - - - ["a"])");
  CHECK(read_foreign({"a", "--gone", "-env"}) == R"(false 0 0 0 - [] - - - ["a", "--gone", "-env"])");
  CHECK(read_foreign({"--silent=1", "--pace", "slow", "--all=yes", "a"}) == R"(true 0 0 0 - [] - slow - ["a"])");
  CHECK(read_foreign({"--all", "yes", "a"}) == R"(false 0 0 0 - [] - - - ["a"])");
  CHECK(read_foreign({"-np"}) == "--count: expected a value");
  CHECK(read_foreign({"-np", "x"}) == "--count: expected a number from 1 to 16777216, got 'x'");
  CHECK(read_foreign({"--still=0"}) == "'--still=0' is not known here: --quiet prints less");
  CHECK(read_foreign({"--pace=mad"}) == "'--pace=mad' is not known here: --way says how");
  CHECK(read_foreign({"-env", "A", "b"}) == "'-env' is not known here: --set sets it");
  CHECK(read_foreign({"-q", "--map=x", "-np", "4"}) == "'--map=x' is not known here: --set sets it");
  CHECK(read_foreign({"--gone=1"}) == "'--gone=1' is not known here");
}

TEST_CASE("a command line: help is enough, whatever else there is") {
  for (const Words& words : {Words{"-h"}, {"-n", "0", "--help"}, {"--bogus", "-qh"}, {"-h", "-n"}}) {
    Line tried;
    CAPTURE(words);
    CHECK(tried.line.read(words));
    CHECK(tried.line.count("--help") == 1);
    CHECK(tried.line.count("-n") == 0);
  }
  CHECK(Line().line.help() == R"(Tries.
Usage: nacre try [OPTIONS] [JOB]

Positionals:
  JOB                         The job

Places: where it is tried
  --name NAME                 Its name
  -o,--set OPT[=VAL]          Set it; may be repeated
  --file [=FILE]              Write it; or to FILE
  --way fast|slow             How

Other options:
  -h,--help                   Print this help
  -q,--quiet                  Print less
  -v,--verbose                Print more
  -n,--count N                How many
  --any                       Any number
)");
  CommandLine ordered("nacre try", "Tries.");
  bool is_on = false;
  ordered.prefix_command("COMMAND [ARG...]");
  ordered.order_groups({"One", "Two"});
  ordered.add_example("nacre try -a x", "tries x");
  ordered.begin_group("Two");
  ordered.add_flag("-b", is_on, "B");
  ordered.begin_group("Three");
  ordered.add_flag("-c", is_on, "C");
  ordered.begin_group("One", "first");
  ordered.add_flag("-a", is_on, "A");
  CHECK(ordered.help() == R"(Tries.
Usage: nacre try [OPTIONS] COMMAND [ARG...]

Examples:
  nacre try -a x                                      tries x

One: first
  -a                          A

Two:
  -b                          B

Three:
  -c                          C
)");
}

TEST_CASE("a command line: what is wrong is told in words of this program") {
  struct Case {
    Words words;
    const char* error;
  };
  for (const auto& [words, error] : {
           Case{{"--bogus"}, "'--bogus' is not known here"},
           {{"--quiit"}, "'--quiit' is not known here; did you mean --quiet?"},
           {{"--verb", "-n"}, "'--verb' is not known here; did you mean --verbose?"},
           {{"-qx"}, "'-x' is not known here"},
           {{"-5"}, "'-5' is not known here"},
           {{"-q=3"}, "'=3' stands behind a short option that takes no value"},
           {{"a", "b"}, "'b' is not known here"},
           {{"-n"}, "--count: expected a value"},
           {{"-qn"}, "--count: expected a value"},
           {{"--count=", "4"}, "--count=: expected a value behind ="},
           {{"--file="}, "--file=: expected a value behind ="},
           {{"-n", ""}, "--count: expected a number from 1 to 16777216, got ''"},
           {{"-n", "0"}, "--count: expected a number from 1 to 16777216, got '0'"},
           {{"-n0x10"}, "--count: expected a number from 1 to 16777216, got '0x10'"},
           {{"-n=4"}, "--count: expected a number from 1 to 16777216, got '=4'"},
           {{"-n", "99999999999999"}, "--count: expected a number from 1 to 16777216, got '99999999999999'"},
           {{"--any=1x"}, "--any: expected a number, got '1x'"},
           {{"--any=1'000"}, "--any: expected a number, got '1'000'"},
           {{"-n1", "--count=2"}, "--count: give it only once"},
           {{"--quiet=3"}, "--quiet: takes no value, got '3'"},
           {{"--quiet=true"}, "--quiet: takes no value, got 'true'"},
           {{"--way=fats"}, "--way: expected fast or slow, got 'fats'"},
           {{"-q", "-v"}, "--quiet and --verbose exclude each other: give one of them"},
           {{"--name=a"}, "--name needs --count"},
           {{"--way=fast", "--file"}, "give only one of --way,--file"},
       }) {
    CAPTURE(words);
    CHECK(read(words) == error);
  }
}

TEST_CASE("a command line: a verb of it is one of those that it has, and names its own program") {
  auto read = [](const Words& words, bool is_required = false) {
    CommandLine line("nacre", "");
    line.add_help();
    bool flag = false;
    CommandLine* keep = line.add_subcommand("keep", "Keeps.");
    Words files;
    Option* file = keep->add_option("FILE", files, "A file");
    if (is_required) file->required();
    line.add_subcommand("list", "Lists.")->add_flag("-a", flag, "All");
    auto read = line.read(words);
    return fmt::format("{}: {}", line.last().program(), read ? fmt::format("{}", files) : read.error().message);
  };
  CHECK(read({}) == "nacre: expected keep or list");
  CHECK(read({"lisst"}) == "nacre: 'lisst' is not known here; did you mean list?");
  CHECK(read({"list.a"}) == "nacre: 'list.a' is not known here; did you mean list?");
  CHECK(read({"--list.a"}) == "nacre: '--list.a' is not known here");
  CHECK(read({"-a", "list"}) == "nacre: '-a' is not known here");
  CHECK(read({"list", "-b"}) == "nacre list: '-b' is not known here");
  CHECK(read({"list", "keep"}) == "nacre list: 'keep' is not known here");
  CHECK(read({"keep", "list", "[a,b]", "--", "-a"}) == R"(nacre keep: ["list", "[a,b]", "-a"])");
  CHECK(read({"keep"}, true) == "nacre keep: expected FILE");
}
