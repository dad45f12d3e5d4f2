/* SPDX-License-Identifier: Apache-2.0
 *
 * table WHAT DIRECTORY: rank 0 says what PMIx knows of the processes: "WHICH: RANK@HOST STATE". libpmix 4.2.2
 * sends no exit codes.
 *
 *   tasks    once the last has exited with 5
 *   spawned  of what it spawns
 *   lost     once the last is lost with its shell
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

static const char* directory;
static pmix_rank_t last;

static const char* word_of(const pmix_proc_info_t* row) {
  if (row->state == PMIX_PROC_STATE_CONNECTED) return row->pid > 0 ? "connected" : "connected, without pid";
  if (row->state == PMIX_PROC_STATE_RUNNING) return row->pid > 0 ? "running" : "running, without pid";
  if (row->state == PMIX_PROC_STATE_TERM_NON_ZERO) return "failed";
  if (row->state == PMIX_PROC_STATE_COMM_FAILED) return "lost";
  return PMIx_Proc_state_string(row->state);
}

/* The rows of the table; *count is their number. */
static pmix_proc_info_t* ask(const char* key, const char* nspace, size_t* count) {
  pmix_query_t query;
  pmix_info_t* results = NULL;
  size_t nresults = 0;
  char* keys[] = {(char*)key, NULL};
  PMIX_QUERY_CONSTRUCT(&query);
  query.keys = keys;
  PMIX_INFO_CREATE(query.qualifiers, 1);
  query.nqual = 1;
  PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
  must(PMIx_Query_info(&query, 1, &results, &nresults), key);
  if (nresults != 1 || results[0].value.type != PMIX_DATA_ARRAY) must(PMIX_ERR_NOT_FOUND, key);
  *count = results[0].value.data.darray->size;
  return results[0].value.data.darray->array;
}

static void say_table(const char* what, const char* key, const char* nspace) {
  size_t count = 0;
  pmix_proc_info_t* rows = ask(key, nspace, &count);
  for (size_t i = 0; i < count; ++i) {
    say("%s: %u@%s %s", what, rows[i].proc.rank, rows[i].hostname, word_of(&rows[i]));
  }
}

/* Until the last has ended as far as the shells know. */
static void await_last(void) {
  size_t count = 0;
  for (;;) {
    pmix_proc_info_t* rows = ask(PMIX_QUERY_PROC_TABLE, me.nspace, &count);
    if (rows[count - 1].state >= PMIX_PROC_STATE_TERMINATED) return;
    usleep(50000);
  }
}

static void touch(const char* what, unsigned number) {
  char path[400];
  snprintf(path, sizeof path, "%s/%s.%u", directory, what, number);
  close(open(path, O_CREAT | O_WRONLY, 0600));
}

static void say_child(void) {
  pmix_app_t app;
  pmix_nspace_t child;
  char script[500];
  char* argv[] = {(char*)"sh", (char*)"-c", script, NULL};
  snprintf(script, sizeof script, "while [ ! -e %s/go.0 ]; do sleep 0.05; done", directory);
  PMIX_APP_CONSTRUCT(&app);
  app.cmd = (char*)"sh";
  app.argv = argv;
  app.maxprocs = 3;
  must(PMIx_Spawn(NULL, 0, &app, 1, child), "PMIx_Spawn");
  say_table("child", PMIX_QUERY_PROC_TABLE, child);
  touch("asked", 0);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  directory = argv[2];
  begin();
  last = size - 1;
  must(fence(false), "fence");
  touch("waits", me.rank);
  if (strcmp(argv[1], "spawned") == 0) {
    if (me.rank == 0) say_child();
    must(fence(false), "fence");
  } else {
    if (me.rank == last && strcmp(argv[1], "tasks") == 0) return finish(), 5;
    if (me.rank == last) pause();
    if (me.rank == 0) {
      await_last();
      say_table("job", PMIX_QUERY_PROC_TABLE, me.nspace);
      if (strcmp(argv[1], "tasks") == 0) say_table("shell", PMIX_QUERY_LOCAL_PROC_TABLE, me.nspace);
    }
    must(fence_without(last), "fence of the others");
  }
  finish();
  return 0;
}
