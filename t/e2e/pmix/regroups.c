/* SPDX-License-Identifier: Apache-2.0
 *
 * regroups WHEN DIRECTORY: a process group of all tasks. In the first two starts the last rank is killed while the
 * others wait for it in the group's construction (amid) or destruction (destruct), or once there is the group
 * (after). In the third start a group of the same name is constructed, and destructed. Those who wait leave a file
 * each in DIRECTORY.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

enum { kMost = 64 };

static const char kName[] = "regroups";
static pmix_proc_t members[kMost];

static pmix_status_t construct(void) {
  pmix_info_t info, *results = NULL;
  size_t nresults = 0;
  PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
  return PMIx_Group_construct(kName, members, size, &info, 1, &results, &nresults);
}

static void constructed(pmix_status_t status, pmix_info_t* info, size_t ninfo, void* data,
                        pmix_release_cbfunc_t release, void* kept) {
  (void)info, (void)ninfo, (void)data;
  say_what("constructed", status);
  if (release != NULL) release(kept);
}

static void destructed(pmix_status_t status, void* data) {
  (void)data;
  say_what("destructed", status);
}

static void path_of(char* path, size_t most, const char* directory, int try, pmix_rank_t rank) {
  snprintf(path, most, "%s/waits.%u.%d", directory, rank, try);
}

/* Does not return. */
static void fail(const char* when, const char* directory, int try) {
  char path[400];
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
  if (strcmp(when, "amid") != 0) must(construct(), "construct");
  if (me.rank == size - 1) {
    for (pmix_rank_t rank = 0; rank < size - 1; ++rank) {
      path_of(path, sizeof path, directory, try, rank);
      while (access(path, F_OK) != 0) usleep(20000);
    }
    kill(getpid(), SIGKILL);
  } else if (strcmp(when, "amid") == 0) {
    must(PMIx_Group_construct_nb(kName, members, size, &info, 1, constructed, NULL), "PMIx_Group_construct_nb");
  } else if (strcmp(when, "destruct") == 0) {
    must(PMIx_Group_destruct_nb(kName, NULL, 0, destructed, NULL), "PMIx_Group_destruct_nb");
  }
  get(me.rank, PMIX_LOCAL_RANK); /* the server answers one client's requests in turn: it has seen the last */
  path_of(path, sizeof path, directory, try, me.rank);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  for (;;) pause();
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int try = atoi(getenv("NACRE_TASK_TRY"));
  begin();
  if (size > kMost) return 2;
  for (pmix_rank_t rank = 0; rank < size; ++rank) PMIX_LOAD_PROCID(&members[rank], me.nspace, rank);
  put("number", 10 * (uint32_t)try + me.rank);
  if (try < 3) fail(argv[1], argv[2], try);
  say_what("construct", construct());
  for (pmix_rank_t rank = 0; rank < size; ++rank) {
    if (get(rank, "number") != 30 + rank) say("rank %u: wrong number of %u", me.rank, rank);
  }
  say_what("destruct", PMIx_Group_destruct(kName, NULL, 0));
  finish();
  return 0;
}
