/* SPDX-License-Identifier: Apache-2.0
 *
 * ends HOW VICTIM [STATUS]: rank VICTIM ends before its time, the others see to what that does to them.
 *
 *   kill-before-init   SIGKILL
 *   kill-in-init       SIGKILL, as soon as it has a connection to the server
 *   kill-in-fence      SIGKILL, after it has entered a fence that the others have not
 *   kill-before-fence  SIGKILL, between put and fence; the others are in the fence
 *   kill-after-finalize
 *   exit-before-init   exits with STATUS
 *   exit-after-init    exits with STATUS, without PMIx_Finalize
 *   abort              PMIx_Abort with STATUS
 *   end-ACT            PMIx_Job_control with the directive ACT (kill, terminate, pause or restart) for rank STATUS, or
 *                      for all if that is -1, and says what came of it
 *
 * The others say what became of a fence with the victim, and then "rank R of N went on" after more fences without it.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

static pmix_rank_t victim;
static int status;

static void die(void) {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

/* Whether a descriptor above the standard ones is a socket that has a peer. */
static bool connected(void) {
  DIR* fds = opendir("/proc/self/fd");
  bool found = false;
  struct dirent* entry;
  char path[300], target[64];
  while (fds != NULL && !found && (entry = readdir(fds)) != NULL) {
    ssize_t length;
    snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
    length = readlink(path, target, sizeof target - 1);
    found = length > 7 && strncmp(target, "socket:", 7) == 0 && atoi(entry->d_name) > 2;
  }
  if (fds != NULL) closedir(fds);
  return found;
}

static void* die_when_connected(void* unused) {
  while (!connected()) usleep(100);
  die();
  return unused;
}

static void entered(pmix_status_t unused, void* data) { (void)unused, (void)data; }

static void die_in_fence(void) {
  pmix_proc_t all;
  pmix_info_t info;
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
  must(PMIx_Fence_nb(&all, 1, &info, 1, entered, NULL), "PMIx_Fence_nb");
  /* The server answers one client's requests in turn: after this one it has seen the fence. */
  put("entered", 1);
  get(me.rank, PMIX_LOCAL_RANK);
  die();
}

static void control(const char* act) {
  static const char* const kActs[][2] = {{"kill", PMIX_JOB_CTRL_KILL},
                                         {"terminate", PMIX_JOB_CTRL_TERMINATE},
                                         {"pause", PMIX_JOB_CTRL_PAUSE},
                                         {"resume", PMIX_JOB_CTRL_RESUME},
                                         {"restart", PMIX_JOB_CTRL_RESTART}};
  pmix_proc_t target;
  pmix_info_t info;
  bool yes = true;
  PMIX_LOAD_PROCID(&target, me.nspace, (pmix_rank_t)status);
  for (size_t i = 0; i < sizeof kActs / sizeof *kActs; ++i) {
    if (strcmp(act, kActs[i][0]) != 0) continue;
    PMIX_INFO_LOAD(&info, kActs[i][1], &yes, PMIX_BOOL);
    say_what(act, PMIx_Job_control(&target, status < 0 ? 0 : 1, &info, 1, NULL, NULL));
  }
}

/* Others wait for it in a fence; one that is terminated ends with 0. */
static int be_controller(const char* act) {
  begin();
  must(fence(false), "fence");
  control(act);
  if (strcmp(act, "pause") == 0) sleep(1), control("resume");
  if (status < 0) pause();
  fence(false);
  finish();
  return 0;
}

static void leave(int signum) { _exit(signum - SIGTERM); }

static int be_controlled(void) {
  signal(SIGTERM, leave);
  begin();
  must(fence(false), "fence");
  must(fence(false), "fence");
  finish();
  return 0;
}

static int be_victim(const char* how) {
  pthread_t thread;
  if (strcmp(how, "kill-before-init") == 0) die();
  if (strcmp(how, "exit-before-init") == 0) _exit(status);
  if (strcmp(how, "kill-in-init") == 0) pthread_create(&thread, NULL, die_when_connected, NULL);
  begin();
  if (strcmp(how, "kill-in-init") == 0) pause();
  put("victim", 1);
  if (strcmp(how, "abort") == 0) must(PMIx_Abort(status, "cannot go on", NULL, 0), "PMIx_Abort");
  if (strcmp(how, "exit-after-init") == 0) _exit(status);
  if (strcmp(how, "kill-in-fence") == 0) die_in_fence();
  if (strcmp(how, "kill-before-fence") == 0) die();
  if (strcmp(how, "kill-after-finalize") == 0) must(fence(true), "fence");
  finish();
  die();
  return 1;
}

static void survive(const char* how) {
  bool told = strcmp(how, "exit-before-init") != 0;
  pmix_proc_t dead;
  pmix_status_t result;
  begin();
  listen_for(PMIX_EVENT_PROC_TERMINATED);
  result = fence(true);
  if (result != PMIX_SUCCESS) say("rank %u: fence: %s", me.rank, name_of(result));
  if (told) {
    await_event(&dead);
    if (dead.rank != victim) say("rank %u: event about rank %u", me.rank, dead.rank);
  }
  if (strcmp(how, "kill-after-finalize") != 0) {
    put("survivor", me.rank + 1);
    must(fence(true), "fence of all that are left");
    for (pmix_rank_t rank = 0; rank < size; ++rank) {
      if (rank != victim && get(rank, "survivor") != rank + 1) say("rank %u: wrong value", me.rank);
    }
    must(fence_without(victim), "fence of those that are named");
  }
  say("rank %u of %u went on", me.rank, size);
  finish();
}

int main(int argc, char** argv) {
  const char* rank = getenv("PMIX_RANK");
  if (argc < 3 || rank == NULL) return 2;
  victim = (pmix_rank_t)atoi(argv[2]);
  if (argc > 3) status = atoi(argv[3]);
  if (strncmp(argv[1], "end-", 4) == 0)
    return (pmix_rank_t)atoi(rank) == victim ? be_controller(argv[1] + 4) : be_controlled();
  if ((pmix_rank_t)atoi(rank) == victim) return be_victim(argv[1]);
  survive(argv[1]);
  return 0;
}
