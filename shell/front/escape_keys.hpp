// SPDX-License-Identifier: Apache-2.0
//
// The keys by which the user of a terminal elsewhere leaves it, as those of ssh: at the beginning of a line "~."
// leaves and "~~" is one "~". All other keys, Ctrl-C among them, are passed on.
#pragma once

#include <string>
#include <string_view>

namespace nacre::front {

class EscapeKeys {
 public:
  struct Typed {
    std::string keys;     // to pass on; with `leaves`, what came before
    bool leaves = false;  // what is typed behind is lost
  };
  // A "~" that may begin an escape is passed on with the key behind it.
  Typed take(std::string_view bytes);

 private:
  bool at_line_ = true;     // nothing has been typed since the line began
  bool has_tilde_ = false;  // which has not been passed on
};

}  // namespace nacre::front
