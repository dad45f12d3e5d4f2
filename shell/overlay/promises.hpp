// SPDX-License-Identifier: Apache-2.0
//
// Values that come beside the log: the promises of entries, and the values that have arrived, in either order.
#pragma once

#include <map>

#include "overlay/effect.hpp"

namespace nacre::overlay {

class Promises {
 public:
  void promised(Seq entry, Promise promise) { promises_.emplace(entry, std::move(promise)); }
  void arrived(Seq entry, Bytes value) { values_[entry] = std::move(value); }
  // Releases the values of which both are here. Drops values that no entry up to `applied` has promised to this
  // member.
  void settle(Seq applied, const OverlayOptions& options, Outbox& out);
  [[nodiscard]] bool empty() const { return promises_.empty() && values_.empty(); }

 private:
  std::map<Seq, Promise> promises_;
  std::map<Seq, Bytes> values_;
};

}  // namespace nacre::overlay
