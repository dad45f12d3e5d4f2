// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <regex>

#include "catch.hpp"

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/initrc_verb.hpp"
#include "cli/plugin_verb.hpp"
#include "job/option_table.hpp"

using namespace nacre;       // NOLINT
using namespace nacre::cli;  // NOLINT
using nacre::cli::named_options;
using nacre::cli::unknown_options;

namespace {

bool is_problem(const std::string& topic) {
  auto finding = judge_topic(topic);
  return finding && finding->is_problem;
}

// The start of an ELF file: class, byte order, type and machine (both in that order).
std::string elf(char bits, char order, std::string_view type_and_machine) {
  std::string header("\177ELF");
  header += bits;
  header += order;
  header.resize(16, '\0');
  return header + std::string(type_and_machine) + std::string(40, '\0');
}

const std::string kX86 = elf(2, 1, std::string_view("\3\0\76\0", 4));

}  // namespace

TEST_CASE("topics that shells call, and globs that match one, are good") {
  for (const char* topic : {"shell.init", "shell.tasks-complete", "task.exec", "hwloc.xml", "taskmap.mine",
                            "mustache.render.x", "*", "task.*", "shell.[ip]*", "taskmap.*", "?ask.exit"}) {
    INFO(topic);
    CHECK_FALSE(judge_topic(topic));
  }
}

TEST_CASE("no topic is taken for misspelt that the sources call") {
  const std::regex calls(R"re((?:\bcall|\bcall_for|\bchange|\bnotify|\bCall \w+)\((?:\*?\w+, )?"([a-z.-]+)")re");
  std::set<std::string> topics;
  for (const char* folder : {"shell", "plugins"}) {
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(std::string(NACRE_SOURCE_DIR "/") + folder)) {
      if (file.path().extension() != ".cpp") continue;
      std::string text = read_file(file.path()).value();
      for (std::string_view line : split(text, '\n')) {
        // Only the few lines that may match, as a regular expression is slow.
        auto has = [line](std::string_view part) { return line.find(part) != line.npos; };
        if (!has("(") || !(has("all") || has("change(\"") || has("notify(\""))) continue;
        for (std::cregex_iterator each(line.data(), line.data() + line.size(), calls), end; each != end; ++each)
          topics.insert((*each)[1]);
      }
    }
  }
  CHECK(topics.size() > 37);
  CHECK(topics.contains("job.tasks-moved"));
  for (const std::string& topic : topics) {
    INFO(topic);
    CHECK_FALSE(judge_topic(topic + (topic.ends_with('.') ? "x" : "")));
  }
}

TEST_CASE("a misspelt topic is a problem, with the nearest one") {
  CHECK(judge_topic("shell.int")->remedy == "did you mean 'shell.init'?");
  CHECK(judge_topic("taks.exit")->remedy == "did you mean 'task.exit'?");
  CHECK(judge_topic("taskmp.cyclic")->remedy == "did you mean 'taskmap.cyclic'?");
  CHECK(judge_topic("tsk.*")->remedy == "did you mean 'task.*'?");
  CHECK(judge_topic("shel.*")->remedy == "did you mean 'shell.*'?");
  CHECK(judge_topic("shell.task-complete")->remedy == "did you mean 'shell.tasks-complete'?");
}

TEST_CASE("a topic of the shell that is near none is a problem, without a guess") {
  for (const char* topic : {"shell.whatever", "task.[x]*", "task.", "shell.completed", "task.finished"}) {
    INFO(topic);
    CHECK(is_problem(topic));
    CHECK(judge_topic(topic)->remedy == "nacre-shell-plugins(7) has all topics");
  }
}

TEST_CASE("a topic that only plugins can call is noted") {
  for (const char* topic : {"mine.reload", "hook", "mine.*", "shell.reconnect"}) {
    INFO(topic);
    REQUIRE(judge_topic(topic));
    CHECK_FALSE(is_problem(topic));
  }
}

TEST_CASE("objects are judged by their headers") {
  CHECK_FALSE(judge_object(kX86, kX86));
  CHECK(judge_object("", kX86)->what == "is no plugin: neither an ELF object nor named *.lua");
  CHECK(judge_object(kX86.substr(0, 19), kX86)->what == "is no plugin: neither an ELF object nor named *.lua");
  CHECK(judge_object(elf(2, 1, std::string_view("\1\0\76\0", 4)), kX86)->what ==
        "is no plugin: an object file, not a shared object");
  CHECK(judge_object(elf(2, 1, std::string_view("\2\0\76\0", 4)), kX86)->what ==
        "is no plugin: not a shared object");
  CHECK(judge_object(elf(2, 1, std::string_view("\3\0\267\0", 4)), kX86)->what ==
        "is built for AArch64, 64 bits, this shell for x86-64, 64 bits");
  CHECK(judge_object(elf(1, 1, std::string_view("\3\0\3\0", 4)), kX86)->what ==
        "is built for i386, 32 bits, this shell for x86-64, 64 bits");
  CHECK(judge_object(elf(2, 2, std::string_view("\0\3\0\25", 4)), kX86)->what ==
        "is built for PowerPC 64, 64 bits, other byte order, this shell for x86-64, 64 bits");
}

TEST_CASE("missing symbols and libraries in the loader's trace") {
  auto symbols = missing_in(
      "\tlibc.so.6 => /lib/libc.so.6 (0x7)\nundefined symbol: one\t(/x.so)\nundefined symbol: two, version "
      "V\t(/x.so)\n");
  REQUIRE(symbols.size() == 2);
  CHECK(symbols[0].what == "undefined symbol one");
  CHECK(symbols[1].what == "undefined symbol two");
  auto libraries = missing_in("undefined symbol: one\t(/x.so)\n\tlibgone.so.1 => not found\n");
  REQUIRE(libraries.size() == 1);
  CHECK(libraries[0].what == "needs the library libgone.so.1, which is not found");
  CHECK(missing_in("").empty());
}

TEST_CASE("the call that has not come back is the innermost one") {
  CHECK_FALSE(open_call(""));
  CHECK_FALSE(open_call("> loading\n< loading\n> shell.init\n> shell.log\n< shell.log\n< shell.init\n"));
  CHECK(open_call("> shell.init\n> shell.log\n< shell.log\n") == "shell.init");
  CHECK(open_call("> shell.init\n> shell.log\n") == "shell.log");
  // The trace is of two processes.
  CHECK(open_call("> task.exec\n> task.fork\n< task.exec\n") == std::nullopt);
  CHECK(last_call("> a\n> b\n< b\n< a\n> c\n") == "a");
  CHECK(last_call("> a\n").empty());
}

TEST_CASE("crashes and reasons in what a shell said") {
  auto crash = crash_in("noise\nnacre-shell: plugin 'odd crashed in (x)' crashed in task.init (SIGBUS)\n");
  REQUIRE(crash);
  CHECK(crash->topic == "task.init");
  CHECK(crash->signal == "SIGBUS");
  CHECK(crash_in("nacre-shell[0]: plugin 'x' crashed in task.init (SIGBUS)\n"));
  CHECK_FALSE(crash_in("plugin 'x' crashed in y (SIGBUS)\nnacre-shell: plugin 'x' crashed in y\n"));

  CHECK(reason_in("") == "");
  CHECK(reason_in("nacre-shell[0]: x: a note\nnacre-shell: why\n") == "why");
  CHECK(reason_in("nacre-shell[0]: error: x: why\n") == "x: why");
  CHECK(reason_in("nacre-shell[0]: error: first\nnacre-shell[0]: fatal: second\nnacre-shell[0]: error: "
                  "third\nnacre-shell: end\n") == "first; third; end");
}

TEST_CASE("names of plugins") {
  CHECK(check_plugin_name("a"));
  CHECK(check_plugin_name("0_my-plugin"));
  CHECK(check_plugin_name(std::string(64, 'x')));
  CHECK_FALSE(check_plugin_name(std::string(65, 'x')));
  for (const char* name : {"", "-a", "_a", "A", "a.b", "a/b", ".", "a b", "a\n"}) {
    INFO(name);
    CHECK_FALSE(check_plugin_name(name));
  }
}

TEST_CASE("skeletons have no tag left and each a test") {
  for (Language language : {Language::c, Language::cpp, Language::lua}) {
    std::vector<SkeletonFile> files = skeleton(language, "hello");
    CHECK(files.size() == 8);
    for (const SkeletonFile& each : files) {
      INFO(each.path);
      CHECK_FALSE(each.text.empty());
      for (const char* tag : {"@API@", "@NAME@", "@SOURCE@", "@FILE@", "@COMPILER@", "@FLAGS@"}) {
        CHECK(each.text.find(tag) == std::string::npos);
      }
    }
  }
  CHECK(language_named("c++") == Language::cpp);
  CHECK_FALSE(language_named("C"));
}

TEST_CASE("options are found where a file reads, sets and declares them") {
  auto found = named_options(
      "if shell.options.torch then\n"
      "  shell.options[\"exit-timeout.after\"] = 'failure' -- shell.options.comment\n"
      "  x = shell.options [ 'pty' ]\n"
      "--[[ shell.options.block\n"
      "]] local w = nacre.option {\n  name = \"mine\", members = {} }\n");
  REQUIRE(found.size() == 4);
  CHECK(found[0].name == "torch");
  CHECK(found[0].line == 1);
  CHECK(found[1].name == "exit-timeout.after");
  CHECK(found[1].line == 2);
  CHECK(found[2].name == "pty");
  CHECK(found[3].name == "mine");
  CHECK(found[3].is_declared);
}

TEST_CASE("an option that nobody knows is named with the nearest, or is the file's own") {
  auto unknown = unknown_options(
      "x = shell.options['exit-timout']\ny = shell.options.greeting\nz = shell.options.greeting\n"
      "shell.options['output.stdout.lable'] = 1\n");
  REQUIRE(unknown.size() == 3);
  CHECK(unknown[0].nearest == "exit-timeout");
  CHECK(unknown[0].line == 1);
  CHECK(unknown[1].name == "greeting");
  CHECK(unknown[1].nearest.empty());
  CHECK(unknown[2].nearest == "output.stdout.label");
}

TEST_CASE("what is known, or declared by the file, is none") {
  CHECK(unknown_options("x = shell.options.torch; y = shell.options['output.stdout']; z = shell.options.standalone")
            .empty());
  CHECK(unknown_options("x = shell.options.coprocess.mem; y = shell.options['rlimit.nofile']").empty());
  CHECK(unknown_options("nacre.option { name = 'torc' }; x = shell.options.torc").empty());
}
