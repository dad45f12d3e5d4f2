// SPDX-License-Identifier: Apache-2.0
//
// The leader's: of which tasks all output has come out, so that what is reported of a task's failure comes after its last byte.
// Only those that have failed are followed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plugins/output/routing.hpp"
#include "value/idset.hpp"

namespace nacre::plugins {

class OutputComeOut {
 public:
  // `places` has to outlive it.
  explicit OutputComeOut(const OutputRouting& places) : places_(places) {}

  // Their streams have ended; what they have written has been put into its places.
  void complete(const value::Idset& ranks);
  // All that they have written has left its places, or never will.
  [[nodiscard]] const value::Idset& ranks();

 private:
  struct Waiting {
    value::Idset ranks;
    OutputRouting::Marks marks;
  };

  const OutputRouting& places_;
  value::Idset ranks_;
  std::vector<Waiting> waiting_;
};

}  // namespace nacre::plugins
