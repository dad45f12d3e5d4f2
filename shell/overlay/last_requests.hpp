// SPDX-License-Identifier: Apache-2.0
//
// For each origin, the last of its requests that the leader has taken, or that the log has answered.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "overlay/entry.hpp"

namespace nacre::overlay {

class LastRequests {
 public:
  // False if this request is not later than its origin's last; else it becomes the last.
  bool advance(RequestId id) {
    if (id.number <= of(id.origin)) return false;
    auto at = last_.begin() + place(id.origin);
    if (at == last_.end() || at->origin != id.origin) at = last_.insert(at, id);
    at->number = id.number;
    return true;
  }
  // 0: none.
  [[nodiscard]] std::uint64_t of(Id origin) const {
    auto at = last_.begin() + place(origin);
    return at == last_.end() || at->origin != origin ? 0 : at->number;
  }
  [[nodiscard]] const std::vector<RequestId>& all() const { return last_; }  // by origin

 private:
  [[nodiscard]] std::ptrdiff_t place(Id origin) const {
    auto at =
        std::lower_bound(last_.begin(), last_.end(), origin, [](const RequestId& a, Id b) { return a.origin < b; });
    return at - last_.begin();
  }

  std::vector<RequestId> last_;
};

}  // namespace nacre::overlay
