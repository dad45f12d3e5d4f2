// SPDX-License-Identifier: Apache-2.0
//
// The shell options that nacre-shell, its builtin plugins and the installed initrc know: for --list-options, for
// completion, and to suggest an option for a misspelt one. nacre-shell-options(7) is checked against it.
#pragma once

#include "base/usual.hpp"

namespace nacre::job {

struct OptionEntry {
  const char* name;  // with dots; "<NAME>" in it stands for any name
  const char*
      type;  // switch, integer, text, file, directory, duration, size, idset, codes, list, command, object, or as VALUES
  const char* default_value;  // as it is written; "" if there is none
  const char* owner;          // the plugin that reads it, "shell", or the file of lua.d
  const char* values = "";    // with blanks between: words that it may be, or begin with
  const char* help = "";
};

// In the order of the man page.
[[nodiscard]] std::span<const OptionEntry> option_table();

// The names without dots, each once: "output" for "output.fold".
[[nodiscard]] std::vector<std::string> known_options();

// Whether an option of this name, with dots, is in the table, or one that has it as a member of any name.
[[nodiscard]] bool is_known_option(std::string_view name);

// The file of Lua that alone reads the option of this name, without dots, if an initrc loads the file:
// "scratch.lua"; "": there is no such file.
[[nodiscard]] std::string_view file_that_reads(std::string_view name);

// What `-o NAME` without a value lacks: "expected a time, such as 30s or 1.5h: -o time-limit=TIME". Empty: the
// option then has the value 1, as a switch has, or is not in the table.
[[nodiscard]] std::string missing_value(std::string_view name);

// The topics that shells call, as nacre-shell-plugins(7) lists them, and what a plugin that subscribes to others
// may have meant.
struct TopicJudgement {
  enum class Kind {
    called,
    never_called,  // a topic of Flux that this version does not call
    misspelt,      // no shell calls it; it is near a topic that is called, or begins as only topics of the shell do
    matches_none,  // another glob that matches no topic of the shell
    unknown,       // another name, which a plugin may call
  };
  Kind kind = Kind::called;
  std::string nearest = {};                  // of a misspelt one, what may be meant; empty: none is near
  [[nodiscard]] std::string advice() const;  // of a misspelt one: what to do, for a message
};

// Judges a topic, or a glob of topics, that a plugin subscribes to.
[[nodiscard]] TopicJudgement judge_topic(const std::string& topic);

}  // namespace nacre::job
