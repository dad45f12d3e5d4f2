// SPDX-License-Identifier: Apache-2.0
//
// What `nacre initrc check` finds in the text of Lua files: pure functions.
#pragma once

#include "base/usual.hpp"

namespace nacre::cli {

// A shell option that a Lua file names, by shell.options.NAME or shell.options["NAME"], or declares, by
// nacre.option { name = "NAME" }.
struct NamedOption {
  std::string name;
  int line = 0;
  bool is_declared = false;
};
// The options in a file, in order. Comments are ignored.
[[nodiscard]] std::vector<NamedOption> named_options(std::string_view text);

struct UnknownOption {
  std::string name;
  int line = 0;
  std::string
      nearest;  // the known name that is nearly the same; "": there is none, so the option is the file's own
};
// The options that neither nacre-shell knows nor the file declares, each name once.
[[nodiscard]] std::vector<UnknownOption> unknown_options(std::string_view text);

}  // namespace nacre::cli
