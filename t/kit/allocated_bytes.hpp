// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <malloc.h>

#include <cstddef>

// Of the sanitizers' own heap, where there is one: what was freed is kept in it for a while. The compiler may lack
// the header.
extern "C" __attribute__((weak)) std::size_t __sanitizer_get_current_allocated_bytes();

namespace nacre::kit {

// Of this process's heap, in bytes.
inline std::size_t allocated_bytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) return __sanitizer_get_current_allocated_bytes();
  return ::mallinfo2().uordblks;
}

}  // namespace nacre::kit
