/* SPDX-License-Identifier: Apache-2.0
 *
 * spawns WHO HOSTS COUNT WHAT [FILE]: the task WHO spawns COUNT of this program, on HOSTS ("": wherever), and they and the tasks
 * do WHAT. FILE: what some wait for.
 * spawns WHO HOSTS COUNT storm FILE: all tasks do, five times, once there is FILE.go.
 * spawns WHO HOSTS COUNT run PROGRAM... [: PROGRAM...]: it spawns the programs, and says what came of it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

static pmix_proc_t parent;
static pmix_nspace_t child;
static pmix_rank_t spawner;
static const char* file;
static bool is_child;

/* `count` processes of each of the programs, which ":" separates. */
static pmix_status_t start(char** argv, int count, const char* hosts) {
  pmix_app_t apps[4];
  size_t napps = 0;
  while (*argv != NULL && napps < sizeof apps / sizeof *apps) {
    pmix_app_t* app = &apps[napps++];
    PMIX_APP_CONSTRUCT(app);
    app->cmd = strdup(argv[0]);
    app->argv = argv;
    app->maxprocs = count;
    if (*hosts != '\0') {
      PMIX_INFO_CREATE(app->info, 1);
      app->ninfo = 1;
      PMIX_INFO_LOAD(&app->info[0], PMIX_HOST, hosts, PMIX_STRING);
    }
    while (*argv != NULL && strcmp(*argv, ":") != 0) ++argv;
    if (*argv != NULL) *argv++ = NULL;
  }
  return PMIx_Spawn(NULL, 0, apps, napps, child);
}

static char* text(const char* nspace, pmix_rank_t of, const char* key) {
  pmix_value_t* value = NULL;
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, nspace, of);
  must(PMIx_Get(&proc, key, NULL, 0, &value), key);
  return value->data.string;
}

static void await_file(const char* name) {
  while (access(name, F_OK) != 0) usleep(20000);
}

static void touch(const char* name, pmix_rank_t rank) {
  char path[400];
  snprintf(path, sizeof path, "%s.%u", name, rank);
  close(open(path, O_CREAT | O_WRONLY, 0600));
}

/* Where the children are, as all of them see it. */
static void places(void) {
  char line[400] = "";
  if (!is_child) return;
  must(fence(false), "fence");
  for (pmix_rank_t rank = 0; rank < size; ++rank) {
    size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, " %u@%s/%u", rank, text(me.nspace, rank, PMIX_HOSTNAME),
             get(rank, PMIX_LOCAL_RANK));
  }
  say("child %u of %u of rank %u:%s; peers %s, %u nodes, app %u, universe %u", me.rank, size, parent.rank, line,
      text(me.nspace, PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS), job_number(PMIX_NUM_NODES), get(me.rank, PMIX_APPNUM),
      job_number(PMIX_UNIV_SIZE));
}

/* Without a fence, and by one. libpmix 4.2.2 may not find at once what a process of the same node has just committed. */
static void exchange(void) {
  uint32_t sum = 0;
  pmix_rank_t next = (me.rank + 1) % size;
  if (!is_child) return;
  bool is_near = strcmp(text(me.nspace, next, PMIX_HOSTNAME), text(me.nspace, me.rank, PMIX_HOSTNAME)) == 0;
  put("late", 100 + me.rank);
  if (!is_near) sum = get(next, "late");
  must(fence(false), "fence");
  if (is_near) sum = get(next, "late");
  put("number", me.rank + 1);
  must(fence(true), "fence with data");
  for (pmix_rank_t rank = 0; rank < size; ++rank) sum += 1000 * get(rank, "number");
  for (int i = 0; i < 20; ++i) must(fence(false), "one of many fences");
  say("child %u: %u", me.rank, sum);
}

/* All tasks and all children. */
static void meet(const char* tasks, const char* children) {
  pmix_proc_t all[2];
  PMIX_LOAD_PROCID(&all[0], tasks, PMIX_RANK_WILDCARD);
  PMIX_LOAD_PROCID(&all[1], children, PMIX_RANK_WILDCARD);
  must(PMIx_Connect(all, 2, NULL, 0), "PMIx_Connect");
  const char* others = is_child ? tasks : children;
  uint32_t there = get_from(others, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE);
  say("%s %u: %u of %u others", is_child ? "child" : "task", me.rank, get_from(others, me.rank % there, "number"),
      there);
  must(PMIx_Fence(all, 2, NULL, 0), "fence of both");
  must(PMIx_Disconnect(all, 2, NULL, 0), "PMIx_Disconnect");
}

static void connect_all(void) {
  pmix_value_t value = {.type = PMIX_STRING};
  put("number", (is_child ? 200 : 100) + me.rank);
  if (is_child) {
    must(fence(false), "fence");
    return meet(parent.nspace, me.nspace);
  }
  if (me.rank == spawner) {
    value.data.string = child;
    must(PMIx_Put(PMIX_GLOBAL, "child", &value), "PMIx_Put");
    must(PMIx_Commit(), "PMIx_Commit");
  }
  must(fence(true), "fence with data");
  meet(me.nspace, text(me.nspace, spawner, "child"));
}

/* What a task publishes, a child looks up. */
static void names(void) {
  pmix_info_t info;
  pmix_pdata_t data;
  uint32_t port = 7;
  int wait = 0;
  if (!is_child && me.rank == spawner) {
    PMIX_INFO_LOAD(&info, "port", &port, PMIX_UINT32);
    must(PMIx_Publish(&info, 1), "PMIx_Publish");
  }
  if (!is_child) return;
  PMIX_PDATA_CONSTRUCT(&data);
  PMIX_LOAD_KEY(data.key, "port");
  PMIX_INFO_LOAD(&info, PMIX_WAIT, &wait, PMIX_INT);
  must(PMIx_Lookup(&data, 1, &info, 1), "PMIx_Lookup");
  say("child %u: port %u of rank %u", me.rank, data.value.data.uint32, data.proc.rank);
}

/* A task sends the last child, once that is ready, a signal by job control. */
static void control(void) {
  pmix_info_t info;
  pmix_proc_t target;
  sigset_t set;
  int signum = SIGUSR1, got = 0;
  if (is_child) {
    if (me.rank + 1 < size) return;
    put("ready", 1);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &got);
    return say("child %u got signal %d", me.rank, got);
  }
  if (me.rank != spawner) return;
  PMIX_LOAD_PROCID(&target, child, get_from(child, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE) - 1);
  get_from(child, target.rank, "ready");
  PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_SIGNAL, &signum, PMIX_INT);
  must(PMIx_Job_control(&target, 1, &info, 1, NULL, NULL), "PMIx_Job_control");
}

static const char* what_follows(pmix_status_t status) {
  bool go_on = status == PMIX_SUCCESS || status == PMIX_ERR_PARTIAL_SUCCESS;
  return go_on ? "and the others go on" : name_of(status);
}

/* The last child dies once all have come to a fence; the others are told, and go on. */
static void die(void) {
  pmix_proc_t gone;
  if (!is_child) return;
  listen_for(PMIX_ERR_PROC_TERM_WO_SYNC);
  must(fence(false), "fence");
  if (me.rank + 1 == size) raise(SIGKILL);
  await_event(&gone);
  say("child %u: child %u has gone, %s", me.rank, gone.rank, what_follows(fence(false)));
}

/* Children and tasks that wait: for a file, or, of the children, for one that is lost with its shell. */
static void wait_on(void) {
  char name[400];
  pmix_proc_t gone;
  snprintf(name, sizeof name, "%s.go", file);
  if (!is_child) return await_file(name);
  listen_for(PMIX_ERR_PROC_TERM_WO_SYNC);
  must(fence(false), "fence");
  touch(file, me.rank);
  await_event(&gone);
  say("child %u: one has gone, %s", me.rank, what_follows(fence(false)));
}

/* All tasks spawn, again and again, whatever becomes of it; FILE.go begins it, and with FILE.stop it ends after a few. */
static void storm(char** argv) {
  char name[400];
  if (is_child) return exchange();
  snprintf(name, sizeof name, "%s.go", file);
  touch(file, me.rank);
  await_file(name);
  snprintf(name, sizeof name, "%s.stop", file);
  for (int i = 0; i < 5 || access(name, F_OK) != 0; ++i) start(argv, atoi(argv[3]), argv[2]);
}

static void code(void) {
  if (!is_child) return;
  must(fence(false), "fence");
  finish();
  exit(me.rank == 1 ? 5 : 0);
}

static const struct {
  const char* name;
  void (*run)(void);
} kWays[] = {
    {"places", places},   {"exchange", exchange}, {"connect", connect_all}, {"names", names},
    {"control", control}, {"die", die},           {"wait", wait_on},        {"code", code},
};

static void find_parent(void) {
  pmix_value_t* value = NULL;
  pmix_proc_t all;
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  is_child = PMIx_Get(&all, PMIX_PARENT_ID, NULL, 0, &value) == PMIX_SUCCESS;
  if (is_child) parent = *value->data.proc;
}

int main(int argc, char** argv) {
  sigset_t set;
  if (argc < 5) return 2;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL); /* before there are threads */
  spawner = (pmix_rank_t)atoi(argv[1]);
  file = argc > 5 ? argv[5] : "";
  begin();
  find_parent();
  if (strcmp(argv[4], "storm") == 0) {
    storm(argv);
  } else if (strcmp(argv[4], "run") == 0) {
    if (me.rank == spawner) say("spawn: %s", name_of(start(&argv[5], atoi(argv[3]), argv[2])));
  } else {
    if (!is_child && me.rank == spawner) must(start(argv, atoi(argv[3]), argv[2]), "PMIx_Spawn");
    for (size_t way = 0; way < sizeof kWays / sizeof *kWays; ++way) {
      if (strcmp(argv[4], kWays[way].name) == 0) kWays[way].run();
    }
  }
  if (!is_child) must(fence(false), "fence of the tasks");
  finish();
  return 0;
}
