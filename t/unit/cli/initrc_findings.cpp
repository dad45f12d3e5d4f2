// SPDX-License-Identifier: Apache-2.0
#include "cli/initrc_verb.hpp"

#include "catch.hpp"

#include "job/option_table.hpp"

using nacre::cli::named_options;
using nacre::cli::unknown_options;

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
