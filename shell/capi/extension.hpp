// SPDX-License-Identifier: Apache-2.0
//
// The part of libflux that a shell's plugins use. The folder flux makes it, which is above this one, and the
// shell's handle owns it.
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
