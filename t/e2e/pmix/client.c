/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pmix_proc_t me;
uint32_t size;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool listens, happened;
static pmix_proc_t about;

#define NAMED(code) \
  { PMIX_##code, #code }

const char* name_of(pmix_status_t status) {
  static const struct {
    pmix_status_t status;
    const char* name;
  } kNames[] = {
      NAMED(SUCCESS),
      NAMED(ERR_TIMEOUT),
      NAMED(ERR_NOT_FOUND),
      NAMED(ERR_NOT_SUPPORTED),
      NAMED(ERR_BAD_PARAM),
      NAMED(ERR_DUPLICATE_KEY),
      NAMED(ERR_PARTIAL_SUCCESS),
      NAMED(ERR_JOB_EXE_NOT_FOUND),
      NAMED(ERR_JOB_FAILED_TO_LAUNCH),
      NAMED(GROUP_CONSTRUCT_ABORT),
  };
  for (size_t i = 0; i < sizeof kNames / sizeof *kNames; ++i) {
    if (kNames[i].status == status) return kNames[i].name;
  }
  return PMIx_Error_string(status);
}

void must(pmix_status_t status, const char* what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  _exit(9);
}

void begin(void) {
  must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
  size = job_number(PMIX_JOB_SIZE);
}

void finish(void) { must(PMIx_Finalize(NULL, 0), "PMIx_Finalize"); }

static uint32_t number(const pmix_proc_t* of, const char* key) {
  pmix_value_t* value = NULL;
  uint32_t found = 0;
  pmix_status_t status = PMIX_SUCCESS;
  must(PMIx_Get(of, key, NULL, 0, &value), key);
  PMIX_VALUE_GET_NUMBER(status, value, found, uint32_t);
  if (status != PMIX_SUCCESS && value->type == PMIX_PROC_RANK) found = value->data.rank, status = PMIX_SUCCESS;
  must(status, key);
  PMIX_VALUE_RELEASE(value);
  return found;
}

uint32_t get_from(const char* nspace, pmix_rank_t of, const char* key) {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, nspace, of);
  return number(&proc, key);
}

uint32_t job_number(const char* key) { return get_from(me.nspace, PMIX_RANK_WILDCARD, key); }

uint32_t get(pmix_rank_t of, const char* key) { return get_from(me.nspace, of, key); }

void put(const char* key, uint32_t value) {
  pmix_value_t boxed = {.type = PMIX_UINT32, .data.uint32 = value};
  must(PMIx_Put(PMIX_GLOBAL, key, &boxed), "PMIx_Put");
  must(PMIx_Commit(), "PMIx_Commit");
}

pmix_status_t fence(bool collect) {
  pmix_info_t info;
  pmix_proc_t all;
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
  return PMIx_Fence(&all, 1, &info, 1);
}

pmix_status_t fence_without(pmix_rank_t absent) {
  pmix_proc_t* procs = calloc(size, sizeof *procs);
  size_t count = 0;
  pmix_status_t status;
  for (pmix_rank_t rank = 0; rank < size; ++rank) {
    if (rank == absent) continue;
    PMIX_LOAD_PROCID(&procs[count], me.nspace, rank);
    ++count;
  }
  status = PMIx_Fence(procs, count, NULL, 0);
  free(procs);
  return status;
}

void say(const char* format, ...) {
  char line[512];
  va_list args;
  int length;
  va_start(args, format);
  length = vsnprintf(line, sizeof line - 1, format, args);
  va_end(args);
  line[length++] = '\n';
  if (write(1, line, (size_t)length) != length) _exit(8);
}

void say_what(const char* what, pmix_status_t status) { say("rank %u: %s: %s", me.rank, what, name_of(status)); }

size_t group_id_in(const pmix_info_t* infos, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (PMIX_CHECK_KEY(&infos[i], PMIX_GROUP_CONTEXT_ID)) return infos[i].value.data.size;
  }
  return 0;
}

static void heard(size_t handler, pmix_status_t status, const pmix_proc_t* source, pmix_info_t info[], size_t ninfo,
                  pmix_info_t results[], size_t nresults, pmix_event_notification_cbfunc_fn_t done, void* data) {
  (void)handler, (void)status, (void)results, (void)nresults;
  pthread_mutex_lock(&mutex);
  about = *source;
  for (size_t i = 0; i < ninfo; ++i) {
    if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC)) about = *info[i].value.data.proc;
  }
  happened = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  if (done != NULL) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void registered(pmix_status_t status, size_t handler, void* data) {
  (void)handler, (void)data;
  must(status, "PMIx_Register_event_handler");
  pthread_mutex_lock(&mutex);
  listens = true;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

void listen_for(pmix_status_t code) {
  PMIx_Register_event_handler(&code, 1, NULL, 0, heard, registered, NULL);
  pthread_mutex_lock(&mutex);
  while (!listens) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

void await_event(pmix_proc_t* affected) {
  pthread_mutex_lock(&mutex);
  while (!happened) pthread_cond_wait(&changed, &mutex);
  *affected = about;
  pthread_mutex_unlock(&mutex);
}
