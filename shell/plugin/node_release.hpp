// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "base/json.hpp"
#include "value/hostlist.hpp"

namespace nacre::plugin {

// Gives hosts on which no shell of the job is left back to its manager. A plugin has it: see Host::offer_release().
class NodeRelease {
 public:
  virtual ~NodeRelease() = default;
  // Each host comes once, and at least one. `done` is called once, perhaps before this returns, with members for
  // the answer to who has asked for the shrink; an empty object: there is nothing to report. What fails is reported
  // there, as the shells have left.
  virtual void release(const value::Hostlist& hosts, std::function<void(const Json& outcome)> done) = 0;
};

}  // namespace nacre::plugin
