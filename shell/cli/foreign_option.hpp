// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace nacre::cli {

// An option of other programs that users know by heart. It is taken as an option of this one where its meaning is
// the same.
struct ForeignOption {
  std::string_view names;  // between blanks: "-np --np"
  // "--ntasks=%", where % stands for its value; without % it has none. "": it changes nothing; "%": nor does its
  // value.
  std::string_view to;
  std::string_view values;  // between blanks: those that are taken; empty: any
  // What a message says where it is not taken; with this and without `values` it never is.
  std::string_view instead;
};

}  // namespace nacre::cli
