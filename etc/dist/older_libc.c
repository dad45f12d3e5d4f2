/* SPDX-License-Identifier: Apache-2.0
 *
 * For a build for other systems (NACRE_PORTABLE): what the libraries that are linked in take from a C library that is
 * newer than those systems'.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* Since glibc 2.36. libstdc++'s std::random_device calls it. */
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t out = 0;
  while (getrandom(&out, sizeof out, 0) != sizeof out) {
    if (errno != EINTR) abort();
  }
  return out;
}
