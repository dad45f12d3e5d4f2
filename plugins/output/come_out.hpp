// SPDX-License-Identifier: Apache-2.0
//
// On the leader: the tasks of which all output has come out, so that a failure is reported after the task's last
// byte. Only tasks that have failed are followed.
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

  // Their streams have ended; all that they have written was put into its places.
  void complete(const value::Idset& ranks);
  // These tasks, an idset, start again, so more comes.
  Result<void> reopen(std::string_view ranks);
  // Tasks of which all output has left its places, or never will.
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
