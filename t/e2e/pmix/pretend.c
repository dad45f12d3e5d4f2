/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded: the process takes itself for one of the user $PRETENDED_UID. */
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static unsigned pretended(void) { return (unsigned)atoi(getenv("PRETENDED_UID")); }

uid_t getuid(void) { return pretended(); }
uid_t geteuid(void) { return pretended(); }
gid_t getgid(void) { return pretended(); }
gid_t getegid(void) { return pretended(); }
