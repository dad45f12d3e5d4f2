// SPDX-License-Identifier: Apache-2.0
//
// What of libflux a shell's plugins have taken into use: made by the folder flux, which is above this one, and
// owned by the shell's handle.
#pragma once

namespace nacre::capi {

class Extension {
 public:
  Extension() = default;
  virtual ~Extension() = default;
  Extension(const Extension&) = delete;
  Extension& operator=(const Extension&) = delete;
};

}  // namespace nacre::capi
