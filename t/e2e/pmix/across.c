/* SPDX-License-Identifier: Apache-2.0
 *
 * across WHAT...: what a PMIx server of one node has to ask another node for, one thing after the other. Says what came
 * of it. There are two ranks a node.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

static char* text(pmix_rank_t of, const char* key) {
  pmix_value_t* value = NULL;
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, me.nspace, of);
  must(PMIx_Get(&proc, key, NULL, 0, &value), key);
  return value->data.string;
}

/* Everybody knows where everybody is. */
static void places(void) {
  char line[400] = "";
  char* nodes;
  pmix_proc_t* procs = NULL;
  size_t count = 0;
  for (pmix_rank_t rank = 0; rank < size; ++rank) {
    size_t used = strlen(line);
    snprintf(line + used, sizeof line - used, " %u@%s/%u", rank, text(rank, PMIX_HOSTNAME),
             get(rank, PMIX_LOCAL_RANK));
  }
  must(PMIx_Resolve_peers(text(size - 1, PMIX_HOSTNAME), me.nspace, &procs, &count), "PMIx_Resolve_peers");
  must(PMIx_Resolve_nodes(me.nspace, &nodes), "PMIx_Resolve_nodes");
  say("rank %u on %u:%s; peers %s, the last one's %u,%u of %zu, nodes %s, %u of them, universe %u", me.rank,
      get(me.rank, PMIX_NODEID), line, text(PMIX_RANK_WILDCARD, PMIX_LOCAL_PEERS), procs[0].rank, procs[1].rank,
      count, nodes, job_number(PMIX_NUM_NODES), job_number(PMIX_UNIV_SIZE));
}

/* Without a fence: the other node is asked, and answers when the process has committed. */
static void modex(void) {
  pmix_rank_t other = (me.rank + 2) % size;
  if (me.rank < 2) {
    say("rank %u: %u", me.rank, get(other, "late"));
    put("late", 100 + me.rank);
  } else {
    put("late", 100 + me.rank);
    say("rank %u: %u", me.rank, get(other, "late"));
  }
  must(fence(false), "fence");
}

/* Of one that never says anything: with a timeout while it runs, and when it has gone. */
static void never(void) {
  pmix_value_t* value = NULL;
  pmix_proc_t last;
  pmix_info_t info;
  int timeout = 1;
  PMIX_LOAD_PROCID(&last, me.nspace, size - 1);
  PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &timeout, PMIX_INT);
  if (me.rank == 0) say("rank 0: %s", name_of(PMIx_Get(&last, "never", &info, 1, &value)));
  must(fence(false), "fence");
  if (me.rank == 0) say("rank 0: %s", name_of(PMIx_Get(&last, "never", NULL, 0, &value)));
}

static pmix_status_t get_within(int seconds, pmix_rank_t of, const char* key) {
  pmix_value_t* value = NULL;
  pmix_proc_t proc;
  pmix_info_t info;
  PMIX_LOAD_PROCID(&proc, me.nspace, of);
  PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
  return PMIx_Get(&proc, key, &info, 1, &value);
}

/* The last rank commits a key while the first waits for it, and the second wants one that is there. */
static void later(void) {
  if (me.rank == size - 1) put("early", 1);
  must(fence(false), "fence");
  if (me.rank == 0) {
    say("rank 0: later %u", get(size - 1, "later"));
  } else if (me.rank == size - 1) {
    usleep(500000);
    put("later", 2);
  } else if (me.rank == 1) {
    usleep(200000);
    say("rank 1: early %u", get(size - 1, "early"));
  }
  must(fence(false), "fence");
}

/* As before, but the last rank first commits something else, and takes longer than libpmix waits by itself. */
static void much_later(void) {
  pmix_rank_t last = size - 1;
  if (me.rank == last) put("begun", 1);
  must(fence(false), "fence");
  if (me.rank == last) {
    usleep(300000);
    put("between", 2);
    sleep(3);
    put("much-later", 3);
  } else if (me.rank == 0) {
    say("rank 0: much-later %s", name_of(get_within(60, last, "much-later")));
  }
  must(fence(false), "fence");
}

/* Of one that has committed other keys, and goes on: with a timeout and without. */
static void absent(void) {
  pmix_value_t* value = NULL;
  pmix_proc_t last;
  PMIX_LOAD_PROCID(&last, me.nspace, size - 1);
  if (me.rank == size - 1) put("other", 1);
  must(fence(false), "fence");
  if (me.rank == 0) {
    say("rank 0: absent %s", name_of(get_within(1, size - 1, "absent")));
    if (PMIx_Get(&last, "absent", NULL, 0, &value) != PMIX_SUCCESS) say("rank 0: not without a timeout");
  }
  must(fence(false), "fence");
}

/* Of one that has committed other keys, and leaves while others wait. */
static void left(void) {
  if (me.rank == size - 1) put("left", 1);
  must(fence(false), "fence");
  if (me.rank == 0) say("rank 0: not-left %s", name_of(get_within(60, size - 1, "not-left")));
  if (me.rank == size - 1) usleep(300000);
}

/* A fence with one on another node that never comes to it. */
static void alone(void) {
  pmix_proc_t procs[2];
  pmix_info_t info;
  int timeout = 1;
  PMIX_LOAD_PROCID(&procs[0], me.nspace, 0);
  PMIX_LOAD_PROCID(&procs[1], me.nspace, size - 1);
  PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &timeout, PMIX_INT);
  if (me.rank == 0) say("rank 0 alone: %s", name_of(PMIx_Fence(procs, 2, &info, 1)));
  must(fence(false), "fence");
}

enum { kLong = 300 << 10 };

static void put_long(const char* key) {
  pmix_value_t value = {.type = PMIX_BYTE_OBJECT};
  value.data.bo.bytes = malloc(kLong);
  value.data.bo.size = kLong;
  /* Not to be compressed away. */
  srandom(me.rank);
  for (size_t i = 0; i < kLong; ++i) value.data.bo.bytes[i] = (char)random();
  must(PMIx_Put(PMIX_GLOBAL, key, &value), "PMIx_Put");
  must(PMIx_Commit(), "PMIx_Commit");
  free(value.data.bo.bytes);
}

static int wrong_bytes(pmix_rank_t of, const char* key) {
  pmix_value_t* value = NULL;
  pmix_proc_t proc;
  int wrong = 0;
  PMIX_LOAD_PROCID(&proc, me.nspace, of);
  must(PMIx_Get(&proc, key, NULL, 0, &value), key);
  if (value->data.bo.size != kLong) return 1;
  srandom(of);
  for (size_t i = 0; i < kLong; ++i) wrong += value->data.bo.bytes[i] != (char)random();
  return wrong;
}

/* Of the first and the last. */
static void long_values(const char* key, bool collect) {
  int wrong = 0;
  if (me.rank % (size - 1) == 0) put_long(key);
  must(fence(collect), "fence");
  for (pmix_rank_t rank = 0; rank < size; rank += size - 1) wrong += wrong_bytes(rank, key);
  must(fence(false), "fence");
  say("rank %u: %d wrong of %s", me.rank, wrong, key);
}

static void long_fence(void) { long_values("long", true); }
static void long_modex(void) { long_values("long-modex", false); }

static void fence_of(bool (*takes_part)(pmix_rank_t)) {
  pmix_proc_t* procs = calloc(size, sizeof *procs);
  pmix_info_t info;
  bool collect = true;
  size_t count = 0;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  for (pmix_rank_t rank = 0; rank < size; ++rank) {
    if (!takes_part(rank)) continue;
    PMIX_LOAD_PROCID(&procs[count], me.nspace, rank);
    ++count;
  }
  must(PMIx_Fence(procs, count, &info, 1), "fence of some");
  free(procs);
}

static bool is_even(pmix_rank_t rank) { return rank % 2 == 0; }
static bool is_odd(pmix_rank_t rank) { return rank % 2 == 1; }
static bool is_high(pmix_rank_t rank) { return rank > 0; }

/* Overlapping groups, which come in orders of their own. */
static void some(void) {
  bool (*parity)(pmix_rank_t) = is_even(me.rank) ? is_even : is_odd;
  uint32_t sum = 0;
  for (uint32_t round = 0; round < 20; ++round) {
    char key[20];
    snprintf(key, sizeof key, "round%u", round);
    put(key, me.rank * round);
    fence_of(parity);
    for (pmix_rank_t rank = me.rank % 2; rank < size; rank += 2) sum += get(rank, key);
    if (is_high(me.rank)) fence_of(is_high);
  }
  say("rank %u: %u", me.rank, sum);
}

static void connect_all(void) {
  pmix_proc_t all;
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Connect(&all, 1, NULL, 0), "PMIx_Connect");
  must(PMIx_Disconnect(&all, 1, NULL, 0), "PMIx_Disconnect");
  say("rank %u: connected, disconnected", me.rank);
}

/* A name that the last rank publishes, for the first, over and over. */
static void names(void) {
  pmix_pdata_t data;
  pmix_info_t info;
  char* keys[] = {(char*)"port", NULL};
  for (uint32_t round = 0; round < 10; ++round) {
    if (me.rank == size - 1) {
      PMIX_INFO_LOAD(&info, "port", &round, PMIX_UINT32);
      must(PMIx_Publish(&info, 1), "PMIx_Publish");
    }
    must(fence(false), "fence");
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, "port");
    must(PMIx_Lookup(&data, 1, NULL, 0), "PMIx_Lookup");
    if (data.value.data.uint32 != round || data.proc.rank != size - 1) say("rank %u: wrong port", me.rank);
    must(fence(false), "fence");
    if (me.rank == size - 1) must(PMIx_Unpublish(keys, NULL, 0), "PMIx_Unpublish");
    must(fence(false), "fence");
    pmix_status_t status = PMIx_Lookup(&data, 1, NULL, 0);
    if (status != PMIX_ERR_NOT_FOUND) say("rank %u: %s", me.rank, name_of(status));
    must(fence(false), "fence");
  }
  say("rank %u: 10 names", me.rank);
}

static void control(void) {
  sigset_t set;
  pmix_info_t info;
  pmix_proc_t target;
  int signum = SIGUSR1, got = 0;
  must(fence(false), "fence");
  if (me.rank == 0) {
    PMIX_LOAD_PROCID(&target, me.nspace, size - 1);
    PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_SIGNAL, &signum, PMIX_INT);
    must(PMIx_Job_control(&target, 1, &info, 1, NULL, NULL), "PMIx_Job_control");
  } else if (me.rank == size - 1) {
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &got);
    say("rank %u got signal %d", me.rank, got);
  }
}

static const struct {
  const char* name;
  void (*run)(void);
} kWays[] = {
    {"places", places},         {"modex", modex},           {"never", never}, {"later", later},
    {"much-later", much_later}, {"absent", absent},         {"left", left},   {"alone", alone},
    {"long", long_fence},       {"long-modex", long_modex}, {"some", some},   {"names", names},
    {"control", control},       {"connect", connect_all},
};

int main(int argc, char** argv) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL); /* before there are threads */
  begin();
  for (int i = 1; i < argc; ++i) {
    for (size_t way = 0; way < sizeof kWays / sizeof *kWays; ++way) {
      if (strcmp(argv[i], kWays[way].name) == 0) kWays[way].run();
    }
  }
  finish();
  return 0;
}
