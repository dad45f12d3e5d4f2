// SPDX-License-Identifier: Apache-2.0
//
// pmi2: a program of libpmi2, as Slurm's clients are. Each rank puts a key and gets all, waits for an attribute of
// its node that the first one there sets, and looks up a name; rank 0 prints "pmi2 ok, 4 ranks". With an argument:
// `spawn` spawns two programs, of which the first prints "children ok"; the number of a rank makes that abort.
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank;

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
  exit(3);
}

static void value_of(int of, char* out, size_t size) { snprintf(out, size, "value; of=%d;;", of); }

static void exchange(const char* job, int size) {
  char key[PMI2_MAX_KEYLEN], value[PMI2_MAX_VALLEN], wanted[PMI2_MAX_VALLEN];
  int length;
  snprintf(key, sizeof key, "key-%d", rank);
  value_of(rank, value, sizeof value);
  check(PMI2_KVS_Put(key, value) == PMI2_SUCCESS, "put");
  check(PMI2_KVS_Fence() == PMI2_SUCCESS, "fence");
  for (int of = 0; of < size; ++of) {
    snprintf(key, sizeof key, "key-%d", of);
    value_of(of, wanted, sizeof wanted);
    check(PMI2_KVS_Get(job, PMI2_ID_NULL, key, value, sizeof value, &length) == PMI2_SUCCESS, "get");
    check(strcmp(value, wanted) == 0, "the value of another rank");
  }
}

static void attributes(void) {
  char value[PMI2_MAX_VALLEN];
  int found = 0;
  check(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof value, &found) == PMI2_SUCCESS && found, "map");
  check(strncmp(value, "(vector,", 8) == 0, "the process mapping");
  const char* local = getenv("MPI_LOCALRANKID");
  if (local != NULL && strcmp(local, "0") == 0)
    check(PMI2_Info_PutNodeAttr("ready", "yes") == PMI2_SUCCESS, "put of an attribute");
  check(PMI2_Info_GetNodeAttr("ready", value, sizeof value, &found, 1) == PMI2_SUCCESS && found, "attribute");
  check(strcmp(value, "yes") == 0, "the attribute's value");
}

static void names(void) {
  char port[PMI2_MAX_VALLEN];
  if (rank == 0) check(PMI2_Nameserv_publish("ocean", NULL, "port 7") == PMI2_SUCCESS, "publish");
  check(PMI2_KVS_Fence() == PMI2_SUCCESS, "second fence");
  check(PMI2_Nameserv_lookup("ocean", NULL, port, sizeof port) == PMI2_SUCCESS, "lookup");
  check(strcmp(port, "port 7") == 0, "the port");
  check(PMI2_KVS_Fence() == PMI2_SUCCESS, "third fence");
  if (rank == 0) check(PMI2_Nameserv_unpublish("ocean", NULL) == PMI2_SUCCESS, "unpublish");
}

// Two programs of one group; each gets a key that is there before it runs.
static void spawn(const char* self, char* child, size_t room) {
  char two[] = "two", word[] = "a word; with blanks";
  const char *programs[] = {self, self}, *first[] = {"child", word}, *second[] = {"child", two};
  const char** arguments[] = {first, second};
  int counts[] = {2, 2}, processes[] = {2, 1}, infos[] = {1, 0}, errors[] = {-1, -1, -1};
  struct MPID_Info wdir = {.key = (char*)"wdir", .value = (char*)"/"};
  struct MPID_Info from = {.key = (char*)"from", .value = (char*)"the; parent"};
  const struct MPID_Info *preputs[] = {&from}, *info[] = {&wdir, NULL};
  check(PMI2_Job_Spawn(2, programs, counts, arguments, processes, infos, info, 1, preputs, child, (int)room,
                       errors) == PMI2_SUCCESS,
        "spawn");
  check(errors[0] == 0 && errors[1] == 0 && errors[2] == 0, "an error code of spawn");
}

static int be_child(const char* job, int size, int appnum, const char* word) {
  char value[PMI2_MAX_VALLEN], directory[64];
  int length;
  check(size == 3 && appnum == (rank == 2), "what init tells the child");
  check(strcmp(word, appnum == 0 ? "a word; with blanks" : "two") == 0, "the child's argument");
  check(PMI2_KVS_Get(job, PMI2_ID_NULL, "from", value, sizeof value, &length) == PMI2_SUCCESS, "get of a preput");
  check(strcmp(value, "the; parent") == 0, "the value of a preput");
  check(appnum == 1 || (getcwd(directory, sizeof directory) && strcmp(directory, "/") == 0),
        "the child's directory");
  exchange(job, size);
  check(PMI2_Finalize() == PMI2_SUCCESS, "finalize of a child");
  if (rank == 0) printf("children ok\n");
  return 0;
}

int main(int argc, char** argv) {
  int spawned, size, appnum;
  char job[PMI2_MAX_VALLEN];
  check(PMI2_Init(&spawned, &size, &rank, &appnum) == PMI2_SUCCESS, "init");
  check(PMI2_Job_GetId(job, sizeof job) == PMI2_SUCCESS, "job id");
  if (spawned) return be_child(job, size, appnum, argv[2]);
  check(appnum == 0, "what init tells");
  if (argc > 1 && strcmp(argv[1], "spawn") == 0) {
    char child[PMI2_MAX_VALLEN] = "";
    if (rank == 0) spawn(argv[0], child, sizeof child);
    check(rank != 0 || (child[0] && strcmp(child, job) != 0), "the job id of the children");
    check(PMI2_Finalize() == PMI2_SUCCESS, "finalize");
    return 0;
  }
  if (argc > 1 && rank == atoi(argv[1])) PMI2_Abort(1, "as it was asked to");
  exchange(job, size);
  attributes();
  names();
  check(PMI2_Finalize() == PMI2_SUCCESS, "finalize");
  if (rank == 0) printf("pmi2 ok, %d ranks\n", size);
  return 0;
}
