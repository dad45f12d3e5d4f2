// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include "catch.hpp"

#include "cli/shell_arguments.hpp"

using namespace nacre::cli;  // NOLINT

namespace {

std::string text_of(const RawArguments& raw) {
  const ShellArguments& values = raw.values;
  std::string out = fmt::format("{}|{}|{}|{}|{}|{}|{}|", raw.jobid, raw.rank, raw.way, raw.explain, raw.has_way,
                                raw.has_jobspec, raw.has_resources);
  out += fmt::format("{}|{}|{}|{}|{}|", values.standalone, values.boot.jobspec_path, values.boot.resources_path,
                     values.secret_file.value_or("none"), values.launch_record.value_or(-1));
  out += fmt::format("{}|{}|{}|{}|{}|{}|{}", values.arity, values.exit_local, values.options,
                     values.initrc.value_or("none"), values.verbose, values.quiet, values.explain);
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& each : words) out.push_back(each.data());
  return out;
}

std::optional<std::string> usual(std::vector<std::string> words) {
  RawArguments raw;
  if (!read_usual(pointers(words), raw)) {
    CHECK(text_of(raw) == text_of(RawArguments()));
    return std::nullopt;
  }
  return text_of(raw);
}

std::string all(std::vector<std::string> words) {
  words.insert(words.begin(), "nacre-shell");
  std::vector<char*> argv = pointers(words);
  RawArguments raw;
  auto reply = read_all(static_cast<int>(argv.size()), argv.data(), raw);
  return reply ? fmt::format("exit {}: {}", reply->exit_code, reply->text) : text_of(raw);
}

}  // namespace

TEST_CASE("usual arguments are read as the parser of all reads them") {
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"--boot=hosts"},
      {"--boot", "pmi"},
      {"--boot=no such way"},
      {"--launch-record=3"},
      {"--launch-record", "2147483647"},
      {"--standalone", "-j", "a.json", "-R", "b.json"},
      {"-s", "--jobspec=a=b.json", "--resources", "-"},
      {"-j", "-", "--initrc=x.lua", "-s"},
      {"-o", "verbose", "-o", "output.label=1", "--setopt=a=b,c", "--setopt", "d={\"e\": [1]}"},
      {"-o", "a b", "-o", "a b"},
      {"-j", "a", "--boot=hosts", "-o", "x=-1"},
      {"-o", "[a,b]", "-o", "-x", "--launch-record=010"},
  };
  for (const auto& words : cases) {
    CAPTURE(words);
    auto read = usual(words);
    REQUIRE(read);
    CHECK(*read == all(words));
  }
}

TEST_CASE("what is wrong is told in words of this program") {
  struct Case {
    std::vector<std::string> words;
    std::string error;
  };
  for (const auto& [words, error] : {
           Case{{"--bogus"}, "'--bogus' is not known here"},
           {{"--standalne"}, "'--standalne' is not known here; did you mean --standalone?"},
           {{"1", "2"}, "'2' is not known here"},
           {{"-j"}, "--jobspec: expected a value"},
           {{"--jobspec="}, "--jobspec=: expected a value behind ="},
           {{"-j", "a", "--jobspec", "b"}, "--jobspec: give it only once"},
           {{"--standalone=true"}, "--standalone: takes no value, got 'true'"},
           {{"--launch-record=2"}, "--launch-record: expected a number from 3 to 2147483647, got '2'"},
           {{"--arity", "x"}, "--arity: expected a number from 2 to 1024, got 'x'"},
           {{"--explain=x"}, "--explain: expected brief, env or plugins, got 'x'"},
           {{"--list-options=x"}, "--list-options: expected json, bash, zsh, fish, got 'x'"},
           {{"-q", "-vv"}, "--quiet and --verbose exclude each other: give one of them"},
       }) {
    CAPTURE(words);
    CHECK(all(words) == fmt::format("exit 2: nacre-shell: {}\nTry 'nacre-shell --help'.\n", error));
  }
}

TEST_CASE("-q and -v are given only if they are on the command line") {
  CHECK(all({"-q"}).ends_with("|none|0|true|false"));
  CHECK(all({"-vv"}).ends_with("|none|2|false|false"));
  CHECK(all({"--explain", "-v", "f1"}).ends_with("|none|1|false|true"));
}

TEST_CASE("what is not usual is left to the parser of all") {
  const std::vector<std::vector<std::string>> cases = {
      {"-h"},
      {"--version"},
      {"-sv"},
      {"-s", "-s"},
      {"f1"},
      {"--"},
      {""},
      {"-j"},
      {"-ja.json"},
      {"-j=a.json"},
      {"--jobspec="},
      {"-j", ""},
      {"-j", "-R", "b"},
      {"-j", "a", "--jobspec", "b"},
      {"--job", "a"},
      {"--standalone=true"},
      {"--launch-record=2"},
      {"--launch-record=3x"},
      {"--launch-record=2147483648"},
      {"-v", "--boot=hosts"},
  };
  for (const auto& words : cases) {
    CAPTURE(words);
    CHECK(!usual(words));
  }
}
