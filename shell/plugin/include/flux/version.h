/* SPDX-License-Identifier: Apache-2.0
 *
 * The version of Flux whose API these headers follow; nacre's own is that of `nacre --version`.
 */
#ifndef FLUX_VERSION_H
#define FLUX_VERSION_H

#include <flux/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define FLUX_CORE_VERSION_STRING "0.88.0"
#define FLUX_CORE_VERSION_MAJOR 0
#define FLUX_CORE_VERSION_MINOR 88
#define FLUX_CORE_VERSION_PATCH 0
/* A byte each, for comparisons. */
#define FLUX_CORE_VERSION_HEX \
  ((FLUX_CORE_VERSION_MAJOR << 16) | (FLUX_CORE_VERSION_MINOR << 8) | FLUX_CORE_VERSION_PATCH)

/* The version that the shell follows which has loaded the plugin; the macros are the one that it was compiled
 * with. */
const char* flux_core_version_string(void) FLUX_NOTHROW;
int flux_core_version(int* major, int* minor, int* patch) FLUX_NOTHROW; /* FLUX_CORE_VERSION_HEX; any may be NULL */

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif /* FLUX_VERSION_H */
