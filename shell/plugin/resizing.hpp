// SPDX-License-Identifier: Apache-2.0
//
// What plugins may do with the number of the job's shells, while its tasks run; a part of Host.
#pragma once

#include <functional>

#include "base/json_fwd.hpp"
#include "base/result.hpp"
#include "plugin/node_release.hpp"
#include "plugin/registration.hpp"
#include "value/grown.hpp"
#include "value/shrunk.hpp"

namespace nacre::plugin {

class Resizing {
 public:
  virtual ~Resizing() = default;

  // Takes shells out of the job; at last, perhaps at once, comes the answer of doc/control.md.
  using WhenShrunk = std::function<void(const Result<Json>& news, bool is_last)>;
  [[nodiscard]] virtual Registration shrink(const value::ShrinkOrder& order, WhenShrunk news) = 0;
  virtual void offer_release(NodeRelease* release) = 0;  // the leader's; null: none

  // On the leader: starts more shells, which are spares then. News, and at last the answer, as for shrink().
  using WhenGrown = std::function<void(const Result<Json>& news, bool is_last)>;
  virtual void grow(const value::GrowOrder& order, const WhenGrown& news) = 0;
  virtual bool joined_late() const = 0;  // this shell has joined a job that ran
};

}  // namespace nacre::plugin
