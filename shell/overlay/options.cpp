// SPDX-License-Identifier: Apache-2.0
#include "overlay/options.hpp"

namespace nacre::overlay {

void Options::wait_for_silent(milliseconds bound) {
  const Options usual;
  double factor = static_cast<double>(bound.count()) / static_cast<double>(usual.silent_bound.count());
  for (auto each : {&Options::silent_bound, &Options::beat_bound, &Options::beat_bound_per_level, &Options::fence,
                    &Options::hello_bound, &Options::relink_bound, &Options::welcome_bound}) {
    this->*each = milliseconds(static_cast<std::int64_t>(static_cast<double>((usual.*each).count()) * factor));
  }
}

}  // namespace nacre::overlay
