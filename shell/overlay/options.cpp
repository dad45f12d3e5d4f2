// SPDX-License-Identifier: Apache-2.0
#include "overlay/options.hpp"

namespace nacre::overlay {

void OverlayOptions::wait_for_silent(milliseconds bound) {
  const OverlayOptions usual;
  double factor = static_cast<double>(bound.count()) / static_cast<double>(usual.silent_bound.count());
  for (auto each : {&OverlayOptions::silent_bound, &OverlayOptions::beat_bound,
                    &OverlayOptions::beat_bound_per_level, &OverlayOptions::fence, &OverlayOptions::hello_bound,
                    &OverlayOptions::relink_bound, &OverlayOptions::welcome_bound}) {
    this->*each = milliseconds(static_cast<std::int64_t>(static_cast<double>((usual.*each).count()) * factor));
  }
}

}  // namespace nacre::overlay
