// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/json.hpp"
#include "value/idset.hpp"

namespace nacre::plugin {

// Gives the nodes of shells that have left the job back to its manager. A plugin has it: see Host::offer_release().
class NodeRelease {
 public:
  virtual ~NodeRelease() = default;
  // `done` is called once, perhaps before this returns, with members for the answer of who has asked for the
  // shrink; an empty object: there is nothing to report. What fails is reported there, as the shells have left.
  virtual void release(const value::Idset& shells, std::function<void(const Json& outcome)> done) = 0;
};

}  // namespace nacre::plugin
