/* SPDX-License-Identifier: Apache-2.0
 *
 * ways RULE VICTIM [N]: what holds for a job of MPI whichever way its processes come to their ranks. WAY is that way: 1 for
 * PMI-1, 2 for PMI-2, 3 for PMIx. Task VICTIM does what RULE is, the others call init, wait for all in a barrier, and
 * say "N went on", with N their rank.
 *
 *   kill-before-init, exit-before-init   ends by SIGKILL, or with code N
 *   kill-after-init, exit-after-init     the same, without finalize
 *   kill-after-finalize                  the same
 *   abort                                with code N, where the library has one
 *   stay                                 ends by SIGKILL after init; the others take N seconds more before they go on
 *   no-init                              ends by SIGKILL, and no task calls init
 *   go                                   none ends: all touch in.RANK.TRY, and wait for a file go and in a second barrier
 *   size                                 as go, and they say the number of ranks as well: "N of M"
 *   universe                             all say the universe's size, "open" if there is none
 *   spawn                                spawns N more, which say theirs: "child: universe M"
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void must(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
  _exit(9);
}

#if WAY == 1
/* Flux RFC 13; there is no header of it. */
int PMI_Init(int* spawned);
int PMI_Get_rank(int* rank);
int PMI_Get_size(int* size);
int PMI_Barrier(void);
int PMI_Finalize(void);
int PMI_Abort(int code, const char text[]);
int PMI_Get_universe_size(int* size);
int PMI_Spawn_multiple(int count, const char* commands[], const char** argvs[], const int most[],
                       const int info_sizes[], const void* infos[], int preput_size, const void* preput,
                       int errors[]);

static void begin(void) {
  int spawned;
  must(PMI_Init(&spawned) == 0 && PMI_Get_rank(&rank) == 0 && PMI_Get_size(&size) == 0, "init");
}
static void barrier(void) { must(PMI_Barrier() == 0, "barrier"); }
static void finish(void) { must(PMI_Finalize() == 0, "finalize"); }
static void give_up(int code) { PMI_Abort(code, "cannot go on"); }
static int universe(void) {
  int out = -1;
  must(PMI_Get_universe_size(&out) == 0, "universe");
  return out;
}
static void spawn(const char* program, int count) {
  const char* arguments[] = {"child", "0", NULL};
  const char** all[] = {arguments};
  int none = 0, errors[16];
  must(PMI_Spawn_multiple(1, &program, all, &count, &none, NULL, 0, NULL, errors) == 0, "spawn");
}
#elif WAY == 2
#include <slurm/pmi2.h>

static void begin(void) {
  int spawned, appnum;
  must(PMI2_Init(&spawned, &size, &rank, &appnum) == PMI2_SUCCESS, "init");
}
static void barrier(void) { must(PMI2_KVS_Fence() == PMI2_SUCCESS, "barrier"); }
static void finish(void) { must(PMI2_Finalize() == PMI2_SUCCESS, "finalize"); }
static void give_up(int code) {
  (void)code;
  PMI2_Abort(1, "cannot go on");
}
static int universe(void) {
  char value[64];
  int found = 0;
  must(PMI2_Info_GetJobAttr("universeSize", value, sizeof value, &found) == PMI2_SUCCESS, "universe");
  return found ? atoi(value) : -1;
}
static void spawn(const char* program, int count) {
  const char* arguments[] = {"child", "0", NULL};
  const char** all[] = {arguments};
  int argument_count = 2, none = 0, errors[16];
  char job[64];
  must(PMI2_Job_Spawn(1, &program, &argument_count, all, &count, &none, NULL, 0, NULL, job, sizeof job, errors) ==
           PMI2_SUCCESS,
       "spawn");
}
#else
#include <pmix.h>

static pmix_proc_t me;

static uint32_t job_number(const char* key) {
  pmix_proc_t all;
  pmix_value_t* value = NULL;
  uint32_t out = 0;
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&all, key, NULL, 0, &value) == PMIX_SUCCESS, key);
  out = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  return out;
}
static void begin(void) {
  must(PMIx_Init(&me, NULL, 0) == PMIX_SUCCESS, "init");
  rank = (int)me.rank;
  size = (int)job_number(PMIX_JOB_SIZE);
}
static void barrier(void) {
  pmix_status_t status = PMIx_Fence(NULL, 0, NULL, 0);
  must(status == PMIX_SUCCESS || status == PMIX_ERR_PARTIAL_SUCCESS, "barrier");
}
static void finish(void) { must(PMIx_Finalize(NULL, 0) == PMIX_SUCCESS, "finalize"); }
static void give_up(int code) { PMIx_Abort(code, "cannot go on", NULL, 0); }
static int universe(void) { return (int)job_number(PMIX_UNIV_SIZE); }
static void spawn(const char* program, int count) {
  pmix_app_t app;
  pmix_nspace_t child;
  PMIX_APP_CONSTRUCT(&app);
  app.cmd = strdup(program);
  app.argv = calloc(4, sizeof(char*));
  app.argv[0] = strdup(program);
  app.argv[1] = strdup("child");
  app.argv[2] = strdup("0");
  app.maxprocs = count;
  must(PMIx_Spawn(NULL, 0, &app, 1, child) == PMIX_SUCCESS, "spawn");
}
#endif

static void say(const char* text) { must(write(1, text, strlen(text)) > 0, "write"); }

static void say_universe(const char* who) {
  char line[64];
  int found = universe();
  if (found < 0)
    snprintf(line, sizeof line, "%suniverse open\n", who);
  else
    snprintf(line, sizeof line, "%suniverse %d\n", who, found);
  say(line);
}

static int ends(const char* rule, const char* when) {
  const char* dash = strchr(rule, '-');
  return dash != NULL && strcmp(dash + 1, when) == 0;
}

static void end(const char* rule, int number) {
  if (strncmp(rule, "exit", 4) == 0) _exit(number);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static void wait_to_go(void) {
  const char* try = getenv("NACRE_TASK_TRY");
  char name[64];
  barrier();
  snprintf(name, sizeof name, "in.%d.%s", rank, try ? try : "1");
  FILE* file = fopen(name, "w");
  must(file != NULL, name);
  fclose(file);
  while (access("go", F_OK) != 0) usleep(50000);
}

static int be_victim(const char* rule, int number) {
  if (ends(rule, "before-init") || strcmp(rule, "no-init") == 0) end(rule, number);
  begin();
  if (strcmp(rule, "abort") == 0) give_up(number);
  if (strcmp(rule, "stay") == 0 || ends(rule, "after-init")) end(rule, number);
  barrier();
  finish();
  end(rule, number);
  return 9;
}

int main(int argc, char** argv) {
  const char* own = getenv("NACRE_TASK_RANK");
  char line[64];
  if (argc < 3) return 2;
  const char* rule = argv[1];
  int number = argc > 3 ? atoi(argv[3]) : 0;
  if (strcmp(rule, "child") == 0) {
    begin();
    if (rank == 0) say_universe("child: ");
    finish();
    return 0;
  }
  int is_shared = strcmp(rule, "universe") == 0 || strcmp(rule, "spawn") == 0, is_size = strcmp(rule, "size") == 0,
      is_go = is_size || strcmp(rule, "go") == 0;
  if (own == NULL) return 2;
  if (!is_shared && !is_go && atoi(own) == atoi(argv[2])) return be_victim(rule, number);
  if (strcmp(rule, "no-init") == 0) {
    usleep(300000);
    rank = atoi(own);
  } else {
    begin();
    if (strcmp(rule, "universe") == 0) say_universe("");
    if (strcmp(rule, "spawn") == 0 && rank == atoi(argv[2])) spawn(argv[0], number);
    if (strcmp(rule, "stay") == 0) sleep((unsigned)number);
    if (is_go) wait_to_go();
    barrier();
    /* A fence of libpmix ends without one that is lost: where that ends the job it has the time to. */
    if (ends(rule, "after-init")) sleep(1);
    finish();
  }
  if (is_size)
    snprintf(line, sizeof line, "%d of %d\n", rank, size);
  else
    snprintf(line, sizeof line, "%d went on\n", rank);
  if (!is_shared) say(line);
  return 0;
}
