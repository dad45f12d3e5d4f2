/* SPDX-License-Identifier: Apache-2.0
 *
 * calls WHAT: one of the services of a PMIx server, used by all ranks. Says what came of it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

static void facts(void) {
  pmix_value_t* host = NULL;
  char* peers = NULL;
  pmix_proc_t* procs = NULL;
  size_t count = 0;
  must(PMIx_Get(&me, PMIX_HOSTNAME, NULL, 0, &host), PMIX_HOSTNAME);
  must(PMIx_Resolve_peers(host->data.string, me.nspace, &procs, &count), "PMIx_Resolve_peers");
  must(PMIx_Resolve_nodes(me.nspace, &peers), "PMIx_Resolve_nodes");
  say("rank %u of %u: local %u, node %u, app %u, universe %u, on %s of %s with %zu", me.rank, size,
      get(me.rank, PMIX_LOCAL_RANK), get(me.rank, PMIX_NODE_RANK), get(me.rank, PMIX_APPNUM),
      job_number(PMIX_UNIV_SIZE), host->data.string, peers, count);
}

static void exchange(void) {
  uint32_t sum = 0;
  put("square", me.rank * me.rank);
  must(fence(true), "fence");
  for (pmix_rank_t rank = 0; rank < size; ++rank) sum += get(rank, "square");
  say("rank %u: sum %u", me.rank, sum);
}

static void barriers(void) {
  for (int i = 0; i < 100; ++i) must(fence(false), "fence");
  say("rank %u: 100 fences", me.rank);
}

static pmix_status_t publish(const char* key, const char* value, pmix_data_range_t range,
                             pmix_persistence_t persistence) {
  pmix_info_t info[3];
  PMIX_INFO_LOAD(&info[0], key, value, PMIX_STRING);
  PMIX_INFO_LOAD(&info[1], PMIX_RANGE, &range, PMIX_DATA_RANGE);
  PMIX_INFO_LOAD(&info[2], PMIX_PERSISTENCE, &persistence, PMIX_PERSIST);
  return PMIx_Publish(info, 3);
}

/* "" if it is not there. */
static const char* look_up(const char* key, bool wait, int timeout) {
  static char text[64];
  pmix_pdata_t data;
  pmix_info_t info[3];
  pmix_data_range_t other = PMIX_RANGE_GLOBAL; /* that nothing is published for */
  int all = 0;
  pmix_status_t status;
  PMIX_PDATA_CONSTRUCT(&data);
  PMIX_LOAD_KEY(data.key, key);
  PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &all, PMIX_INT);
  PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &timeout, PMIX_INT);
  PMIX_INFO_LOAD(&info[2], PMIX_RANGE, &other, PMIX_DATA_RANGE);
  status = PMIx_Lookup(&data, 1, wait ? info : NULL, wait ? 3 : 0);
  if (status != PMIX_SUCCESS) {
    snprintf(text, sizeof text, "%s", name_of(status));
  } else {
    snprintf(text, sizeof text, "%s from %u", data.value.data.string, data.proc.rank);
  }
  return text;
}

static void names(void) {
  char* keys[] = {(char*)"port", NULL};
  if (me.rank > 0) say("rank %u: waited: %s", me.rank, look_up("port", true, 0));
  if (me.rank == 0) {
    must(publish("port", "tcp:1", PMIX_RANGE_SESSION, PMIX_PERSIST_SESSION), "PMIx_Publish");
    say("again: %s", name_of(publish("port", "tcp:2", PMIX_RANGE_SESSION, PMIX_PERSIST_SESSION)));
    must(publish("mine", "secret", PMIX_RANGE_PROC_LOCAL, PMIX_PERSIST_PROC), "PMIx_Publish");
    must(publish("once", "cake", PMIX_RANGE_SESSION, PMIX_PERSIST_FIRST_READ), "PMIx_Publish");
  }
  must(fence(false), "fence");
  if (me.rank == 1) {
    say("mine, by another: %s", look_up("mine", false, 0));
    say("once: %s", look_up("once", false, 0));
    say("twice: %s", look_up("once", false, 0));
    say("never: %s", look_up("never", true, 1));
  } else if (me.rank == 0) {
    say("mine: %s", look_up("mine", false, 0));
  }
  must(fence(false), "fence");
  if (me.rank == 0) must(PMIx_Unpublish(keys, NULL, 0), "PMIx_Unpublish");
  must(fence(false), "fence");
  if (me.rank == 1) say("taken back: %s", look_up("port", false, 0));
}

static void event(void) {
  pmix_proc_t source;
  listen_for(PMIX_EXTERNAL_ERR_BASE - 5);
  must(fence(false), "fence");
  if (me.rank == 0) {
    must(PMIx_Notify_event(PMIX_EXTERNAL_ERR_BASE - 5, &me, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL), "notify");
  }
  await_event(&source);
  say("rank %u: event from %u", me.rank, source.rank);
}

static void query(void) {
  pmix_query_t query;
  pmix_info_t* results = NULL;
  size_t count = 0;
  const char* keys[] = {PMIX_QUERY_NAMESPACES, PMIX_QUERY_PROC_TABLE};
  must(fence(false), "fence");
  if (me.rank != 0) return;
  for (size_t i = 0; i < 2; ++i) {
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(count, query.keys, keys[i]);
    must(PMIx_Query_info(&query, 1, &results, &count), keys[i]);
    if (i == 0) {
      say("namespaces: %s", strcmp(results[0].value.data.string, me.nspace) == 0 ? "mine" : "others");
      continue;
    }
    pmix_data_array_t* table = results[0].value.data.darray;
    pmix_proc_info_t* row = table->array;
    say("%zu processes; I am %s, state %d, on %s", table->size, row[0].pid == getpid() ? "there" : "not there",
        row[0].state, row[0].hostname);
  }
  PMIX_QUERY_CONSTRUCT(&query);
  PMIX_ARGV_APPEND(count, query.keys, PMIX_QUERY_QUEUE_LIST);
  say("queues: %s", name_of(PMIx_Query_info(&query, 1, &results, &count)));
}

static void log_lines(void) {
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, "all is well", PMIX_STRING);
  if (me.rank == 1) must(PMIx_Log(&info, 1, NULL, 0), "PMIx_Log");
}

static void control(void) {
  static sigset_t set;
  pmix_info_t info;
  pmix_proc_t target;
  int signum = SIGUSR1, got = 0;
  must(fence(false), "fence");
  if (me.rank == 0) {
    PMIX_LOAD_PROCID(&target, me.nspace, 1);
    PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_SIGNAL, &signum, PMIX_INT);
    must(PMIx_Job_control(&target, 1, &info, 1, NULL, NULL), "PMIx_Job_control");
  } else if (me.rank == 1) {
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &got);
    say("rank 1 got signal %d", got);
  }
}

/* The last rank gives itself and rank 0 a name; all hear of that, and ask for it. */
static void sets(void) {
  const char* key = "pmix.jctrl.defpset"; /* PMIX_JOB_CTRL_DEFINE_PSET, from version 5 on */
  pmix_proc_t members[2], source;
  pmix_info_t info, *results = NULL;
  pmix_query_t queries[3];
  size_t count = 0;
  int number = 7;
  listen_for(PMIX_PROCESS_SET_DEFINE);
  must(fence(false), "fence");
  if (me.rank == size - 1) {
    PMIX_LOAD_PROCID(&members[0], me.nspace, me.rank);
    PMIX_LOAD_PROCID(&members[1], me.nspace, 0);
    PMIX_INFO_LOAD(&info, key, &number, PMIX_INT);
    say_what("7", PMIx_Job_control(members, 2, &info, 1, NULL, NULL));
    PMIX_INFO_LOAD(&info, key, "ends", PMIX_STRING);
    say_what("ends", PMIx_Job_control(members, 2, &info, 1, NULL, NULL));
  }
  await_event(&source);
  const char* keys[] = {PMIX_QUERY_NUM_PSETS, PMIX_QUERY_PSET_NAMES, PMIX_QUERY_PSET_MEMBERSHIP};
  for (size_t i = 0; i < 3; ++i) {
    PMIX_QUERY_CONSTRUCT(&queries[i]);
    PMIX_ARGV_APPEND(count, queries[i].keys, keys[i]);
  }
  PMIX_QUERY_QUALIFIERS_CREATE(&queries[2], 1);
  PMIX_INFO_LOAD(&queries[2].qualifiers[0], PMIX_PSET_NAME, "ends", PMIX_STRING);
  for (size_t i = 0; i < 3; ++i) {
    must(PMIx_Query_info(&queries[i], 1, &results, &count), keys[i]);
    if (i == 0) number = (int)results[0].value.data.size;
    if (i == 1) say("rank %u: %d set: %s", me.rank, number, results[0].value.data.string);
  }
  const pmix_proc_t* procs = results[0].value.data.darray->array;
  say("rank %u: %zu members: %u %u", me.rank, results[0].value.data.darray->size, procs[0].rank, procs[1].rank);
}

static void spawn(char* program) {
  pmix_value_t* value = NULL;
  pmix_app_t app;
  pmix_nspace_t child;
  PMIX_APP_CONSTRUCT(&app);
  pmix_proc_t all;
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  if (PMIx_Get(&all, PMIX_PARENT_ID, NULL, 0, &value) == PMIX_SUCCESS) {
    must(fence(false), "fence");
    say("child %u of %u of %s", me.rank, size,
        strncmp(value->data.proc->nspace, me.nspace, 6) == 0 ? "my parent" : "?");
    return;
  }
  if (me.rank != 0) return;
  app.cmd = strdup(program);
  app.argv = calloc(3, sizeof *app.argv);
  app.argv[0] = strdup(program);
  app.argv[1] = strdup("spawn");
  app.maxprocs = 3;
  must(PMIx_Spawn(NULL, 0, &app, 1, child), "PMIx_Spawn");
  say("spawned %s", strcmp(child, me.nspace) != 0 ? "others" : "myself?");
  app.cmd = strdup("/no/such/program");
  app.argv[0] = strdup(app.cmd);
  say("no program: %s", name_of(PMIx_Spawn(NULL, 0, &app, 1, child)));
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL); /* before there are threads */
  begin();
  if (strcmp(what, "facts") == 0) facts();
  if (strcmp(what, "exchange") == 0) exchange();
  if (strcmp(what, "barriers") == 0) barriers();
  if (strcmp(what, "names") == 0) names();
  if (strcmp(what, "event") == 0) event();
  if (strcmp(what, "query") == 0) query();
  if (strcmp(what, "log") == 0) log_lines();
  if (strcmp(what, "control") == 0) control();
  if (strcmp(what, "sets") == 0) sets();
  if (strcmp(what, "spawn") == 0) spawn(argv[0]);
  finish();
  return 0;
}
