// SPDX-License-Identifier: Apache-2.0
//
// pmi_library: loads the library of PMI-1 that FLUX_PMI_LIBRARY_PATH names, or that argv[1] names, and uses all
// that it has. Rank 0 prints "library ok, N ranks, M here". With argv[2]: `abort` aborts rank 1 with 7; `spawn`
// spawns two more.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* library;
static int rank = -1;

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "rank %d: wrong: %s\n", rank, what);
  exit(3);
}

static void* function(const char* name) {
  void* found = dlsym(library, name);
  check(found != NULL, name);
  return found;
}

static int one(const char* name, int* out) { return ((int (*)(int*))function(name))(out); }
static int none(const char* name) { return ((int (*)(void))function(name))(); }
static int text_of(const char* name, char* out, int size) {
  return ((int (*)(char*, int))function(name))(out, size);
}
static int put(const char* space, const char* key, const char* value) {
  return ((int (*)(const char*, const char*, const char*))function("PMI_KVS_Put"))(space, key, value);
}
static int get(const char* space, const char* key, char* value, int size) {
  return ((int (*)(const char*, const char*, char*, int))function("PMI_KVS_Get"))(space, key, value, size);
}

static void keys(const char* space, int size, int key_max, int value_max) {
  char key[64], value[2048], wanted[64], *large = malloc((size_t)value_max + 1);
  check(put("other", "a", "b") == -1, "a put into another space");
  check(put(space, "a b", "c") == 4 && put(space, "", "c") == 4, "a key that is no word");
  memset(large, 'x', (size_t)value_max);
  large[value_max] = '\0';
  check(put(space, large, "c") == 5 && key_max < value_max, "a key that is too long");
  check(put(space, "large", large) == 7, "a value that is too long");
  large[value_max - 1] = '\0';
  snprintf(key, sizeof key, "large-%d", rank);
  check(put(space, key, large) == 0, "the longest value");
  check(put(space, key, "again") == -1, "a key that is put twice");
  check(put(space, "lines", "a\nb") == 6, "a value of two lines");
  snprintf(key, sizeof key, "key-%d", rank);
  snprintf(value, sizeof value, "rank=%d with value=x ", rank);
  check(put(space, key, value) == 0, "put");
  check(((int (*)(const char*))function("PMI_KVS_Commit"))(space) == 0, "commit");
  check(none("PMI_Barrier") == 0, "barrier");
  for (int of = 0; of < size; ++of) {
    snprintf(key, sizeof key, "key-%d", of);
    snprintf(wanted, sizeof wanted, "rank=%d with value=x ", of);
    check(get(space, key, value, sizeof value) == 0 && strcmp(value, wanted) == 0, "the value of another rank");
    check(get(space, key, value, 4) == 7, "a value that does not fit");
    snprintf(key, sizeof key, "large-%d", of);
    check(get(space, key, value, sizeof value) == 0 && strcmp(value, large) == 0, "the longest value of another");
  }
  check(get(space, "nobody", value, sizeof value) == 4, "a key that is not there");
  free(large);
}

static void names(void) {
  char port[1024];
  int (*publish)(const char*, const char*) = (int (*)(const char*, const char*))function("PMI_Publish_name");
  int (*look_up)(const char*, char*) = (int (*)(const char*, char*))function("PMI_Lookup_name");
  if (rank == 0) check(publish("ocean", "tag#0$x") == 0, "publish");
  check(none("PMI_Barrier") == 0, "barrier after publish");
  check(look_up("ocean", port) == 0 && strcmp(port, "tag#0$x") == 0, "lookup");
  check(look_up("desert", port) != 0, "lookup of nothing");
  check(none("PMI_Barrier") == 0, "barrier after lookup");
  if (rank == 0) check(((int (*)(const char*))function("PMI_Unpublish_name"))("ocean") == 0, "unpublish");
}

static void spawn(const char* self, const char* path) {
  struct pair {
    const char* key;
    char* value;
  };
  typedef int (*Spawn)(int, const char**, const char***, const int*, const int*, const struct pair**, int,
                       const struct pair*, int*);
  char from[] = "the parent", root[] = "/";
  const char *programs[] = {self}, *arguments[] = {path, "child", NULL}, **argvs[] = {arguments};
  int processes[] = {2}, infos[] = {1}, errors[] = {-1, -1};
  struct pair preput = {"from", from}, wdir = {"wdir", root};
  const struct pair* info[] = {&wdir};
  check(
      ((Spawn)function("PMI_Spawn_multiple"))(1, programs, argvs, processes, infos, info, 1, &preput, errors) == 0,
      "spawn");
  check(errors[0] == 0 && errors[1] == 0, "the codes of spawn");
}

static void child(const char* space) {
  char value[64], directory[64];
  check(get(space, "from", value, sizeof value) == 0 && strcmp(value, "the parent") == 0,
        "what the parent has put");
  check(getcwd(directory, sizeof directory) != NULL && strcmp(directory, "/") == 0, "the child's directory");
  check(none("PMI_Barrier") == 0 && none("PMI_Finalize") == 0, "the end of a child");
  if (rank == 0) printf("children ok\n");
}

int main(int argc, char** argv) {
  const char* path = argc > 1 && *argv[1] != '\0' ? argv[1] : getenv("FLUX_PMI_LIBRARY_PATH");
  const char* what = argc > 2 ? argv[2] : "";
  check(path != NULL, "FLUX_PMI_LIBRARY_PATH is not set");
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  check(library != NULL, "dlopen");
  int on = -1, spawned = -1, size = 0, local = 0, name_max = 0, key_max = 0, value_max = 0, number = -2;
  check(one("PMI_Initialized", &on) == 0 && on == 0, "initialized before init");
  check(one("PMI_Get_rank", &rank) == 1 && none("PMI_Barrier") == 1, "calls before init");
  check(one("PMI_Init", &spawned) == 0 && spawned == (strcmp(what, "child") == 0), "init");
  check(one("PMI_Initialized", &on) == 0 && on == 1, "initialized after init");
  check(one("PMI_Get_rank", &rank) == 0 && one("PMI_Get_size", &size) == 0, "rank and size");
  check(one("PMI_KVS_Get_name_length_max", &name_max) == 0 && one("PMI_KVS_Get_key_length_max", &key_max) == 0 &&
            one("PMI_KVS_Get_value_length_max", &value_max) == 0,
        "the limits");
  char* space = calloc(1, (size_t)name_max);
  check(text_of("PMI_KVS_Get_my_name", space, name_max) == 0 && *space != '\0', "the space");
  check(text_of("PMI_Get_id", space, 1) == 8, "a space that does not fit");
  if (spawned) return child(space), 0;
  if (strcmp(what, "abort") == 0 && rank == 1)
    ((int (*)(int, const char*))function("PMI_Abort"))(7, "in C:\\temp\nwith \x1b[2J");
  if (strcmp(what, "spawn") == 0 && rank == 0) spawn(argv[0], argv[1]);
  check(one("PMI_Get_appnum", &number) == 0 && number == 0, "appnum");
  check(one("PMI_Get_universe_size", &number) == 0 && number >= size, "universe size");
  check(one("PMI_Get_clique_size", &local) == 0 && local <= size, "clique size");
  int* ranks = calloc((size_t)local, sizeof *ranks);
  check(((int (*)(int*, int))function("PMI_Get_clique_ranks"))(ranks, local) == 0, "clique ranks");
  int own = 0;
  for (int i = 0; i < local; ++i) own += ranks[i] == rank;
  check(own == 1, "this rank among those of its node");
  keys(space, size, key_max, value_max);
  names();
  check(none("PMI_Barrier") == 0 && none("PMI_Finalize") == 0, "finalize");
  check(none("PMI_Finalize") == 1, "finalize twice");
  if (rank == 0) printf("library ok, %d ranks, %d here\n", size, local);
  free(ranks);
  free(space);
  return 0;
}
