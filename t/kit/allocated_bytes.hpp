// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <malloc.h>

#include <cstddef>

// The bytes of the sanitizers' own heap, if there is one, which keeps freed memory for a while. The compiler may
// lack the header.
extern "C" __attribute__((weak)) std::size_t __sanitizer_get_current_allocated_bytes();

namespace nacre::kit {

// The bytes that this process's heap has in use.
inline std::size_t allocated_bytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) return __sanitizer_get_current_allocated_bytes();
  return ::mallinfo2().uordblks;
}

}  // namespace nacre::kit
