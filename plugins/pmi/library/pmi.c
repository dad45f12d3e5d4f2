// SPDX-License-Identifier: Apache-2.0
//
// libpmi.so: the interface PMI-1 of Flux RFC 13, over the socket in PMI_FD. It has a state, as the interface has no
// handle. Calls of several threads come one after the other.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "wire.h"

enum {
  PMI_SUCCESS = 0,
  PMI_FAIL = -1,
  PMI_ERR_INIT = 1,
  PMI_ERR_NOMEM = 2,
  PMI_ERR_INVALID_ARG = 3,
  PMI_ERR_INVALID_KEY = 4,
  PMI_ERR_INVALID_KEY_LENGTH = 5,
  PMI_ERR_INVALID_VAL = 6,
  PMI_ERR_INVALID_VAL_LENGTH = 7,
  PMI_ERR_INVALID_LENGTH = 8
};

struct keyval {  // PMI_keyval_t
  const char* key;
  char* value;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wire wire;
static bool is_open;
static int rank, size;
static int name_max, key_max, value_max;  // bytes, with the NUL
static char* space;                       // the name of the group's keys

// ---- messages --------------------------------------------------------------------------------

// A copy of a field of a line. `value`, always the last field, goes to the line's end, others to the next blank.
// NULL: there is no such field.
static char* field(const char* line, const char* key) {
  size_t length = strlen(key);
  for (const char* at = line; (at = strstr(at, key)) != NULL; at += length) {
    bool begins = at == line || at[-1] == ' ';
    if (!begins || at[length] != '=') continue;
    const char* value = at + length + 1;
    size_t end = strcmp(key, "value") == 0 ? strlen(value) : strcspn(value, " ");
    return strndup(value, end);
  }
  return NULL;
}

static int int_field(const char* line, const char* key, int otherwise) {
  char* text = field(line, key);
  int value = text != NULL ? atoi(text) : otherwise;
  free(text);
  return value;
}

// Sends the request and reads the answer, whose name is `answer`. Returns its code.
static int ask(struct text* request, const char* answer, char** line) {
  int code = request->failed ? PMI_ERR_INVALID_ARG : PMI_FAIL;
  char* read = !request->failed && wire_send(&wire, request->data, request->size) == 0 ? wire_line(&wire) : NULL;
  text_free(request);
  if (read == NULL) return code;
  char* name = field(read, "cmd");
  bool expected = name != NULL && strcmp(name, answer) == 0;
  free(name);
  if (!expected) return PMI_FAIL;
  if (line != NULL) *line = read;
  return int_field(read, "rc", 0);
}

static int ask_plainly(const char* request, const char* answer, char** line) {
  struct text text = {0};
  text_add(&text, "cmd=%s\n", request);
  return ask(&text, answer, line);
}

// Whether the text can be the value of a field that ends at a blank.
static bool is_word(const char* text) { return *text != '\0' && strpbrk(text, " =\n") == NULL; }

// ---- start and end ---------------------------------------------------------------------------

static int greet(void) {
  char* line = NULL;
  struct text text = {0};
  text_add(&text, "cmd=init pmi_version=1 pmi_subversion=1\n");
  int code = ask(&text, "response_to_init", &line);
  if (code == PMI_SUCCESS && int_field(line, "pmi_version", 0) != 1) code = PMI_FAIL;
  if (code == PMI_SUCCESS) code = ask_plainly("get_maxes", "maxes", &line);
  if (code != PMI_SUCCESS) return code;
  name_max = int_field(line, "kvsname_max", 0);
  key_max = int_field(line, "keylen_max", 0);
  value_max = int_field(line, "vallen_max", 0);
  code = ask_plainly("get_my_kvsname", "my_kvsname", &line);
  if (code != PMI_SUCCESS) return code;
  free(space);
  space = field(line, "kvsname");
  return space != NULL ? PMI_SUCCESS : PMI_FAIL;
}

API int PMI_Init(int* spawned) {
  if (spawned == NULL) return PMI_ERR_INVALID_ARG;
  pthread_mutex_lock(&lock);
  int code = PMI_SUCCESS;
  if (!is_open) {
    rank = number_of("PMI_RANK", -1);
    size = number_of("PMI_SIZE", -1);
    code = rank < 0 || size < 1 || wire_open(&wire) < 0 ? PMI_FAIL : greet();
    is_open = code == PMI_SUCCESS;
    if (!is_open) wire_close(&wire);
  }
  *spawned = number_of("PMI_SPAWNED", 0) != 0;
  pthread_mutex_unlock(&lock);
  return code;
}

API int PMI_Initialized(int* initialized) {
  if (initialized == NULL) return PMI_ERR_INVALID_ARG;
  *initialized = is_open;
  return PMI_SUCCESS;
}

API int PMI_Finalize(void) {
  if (!is_open) return PMI_ERR_INIT;
  pthread_mutex_lock(&lock);
  int code = ask_plainly("finalize", "finalize_ack", NULL);
  wire_close(&wire);
  is_open = false;
  pthread_mutex_unlock(&lock);
  return code;
}

// Does not return.
API int PMI_Abort(int exit_code, const char error_msg[]) {
  struct text text = {0};
  text_add(&text, "cmd=abort exitcode=%d message=", exit_code);
  for (const char* at = error_msg != NULL ? error_msg : ""; *at != '\0'; ++at) {
    if (*at == '\\') text_add(&text, "\\");
    text_add(&text, "%c", *at == '\n' ? ' ' : *at);
  }
  text_add(&text, "\n");
  if (error_msg != NULL) fprintf(stderr, "%s\n", error_msg);
  if (is_open && !text.failed) wire_send(&wire, text.data, text.size);
  exit(exit_code);
}

// ---- facts -----------------------------------------------------------------------------------

static int give(int* out, int value) {
  if (!is_open) return PMI_ERR_INIT;
  if (out == NULL) return PMI_ERR_INVALID_ARG;
  *out = value;
  return PMI_SUCCESS;
}

API int PMI_Get_size(int* out) { return give(out, size); }
API int PMI_Get_rank(int* out) { return give(out, rank); }
API int PMI_KVS_Get_name_length_max(int* length) { return give(length, name_max); }
API int PMI_KVS_Get_key_length_max(int* length) { return give(length, key_max); }
API int PMI_KVS_Get_value_length_max(int* length) { return give(length, value_max); }
API int PMI_Get_id_length_max(int* length) { return give(length, name_max); }

static int ask_number(int* out, const char* request, const char* answer, const char* key) {
  if (!is_open) return PMI_ERR_INIT;
  if (out == NULL) return PMI_ERR_INVALID_ARG;
  pthread_mutex_lock(&lock);
  char* line = NULL;
  int code = ask_plainly(request, answer, &line);
  if (code == PMI_SUCCESS) *out = int_field(line, key, -1);
  pthread_mutex_unlock(&lock);
  return code;
}

// MPICH's own server gives -1 for none, which Open MPI would take for the number.
API int PMI_Get_universe_size(int* out) {
  int code = ask_number(out, "get_universe_size", "universe_size", "size");
  if (code == PMI_SUCCESS && *out < 0) *out = size;
  return code;
}
API int PMI_Get_appnum(int* appnum) { return ask_number(appnum, "get_appnum", "appnum", "appnum"); }

API int PMI_KVS_Get_my_name(char name[], int length) {
  if (!is_open) return PMI_ERR_INIT;
  if (name == NULL) return PMI_ERR_INVALID_ARG;
  return length > 0 && copy_to(name, (size_t)length, space) ? PMI_SUCCESS : PMI_ERR_INVALID_LENGTH;
}

API int PMI_Get_kvs_domain_id(char name[], int length) { return PMI_KVS_Get_my_name(name, length); }
API int PMI_Get_id(char name[], int length) { return PMI_KVS_Get_my_name(name, length); }

// ---- keys ------------------------------------------------------------------------------------

static int check_key(const char* name, const char* key) {
  if (!is_open) return PMI_ERR_INIT;
  if (name == NULL || !is_word(name)) return PMI_ERR_INVALID_ARG;
  if (key == NULL || !is_word(key)) return PMI_ERR_INVALID_KEY;
  return strlen(key) < (size_t)key_max ? PMI_SUCCESS : PMI_ERR_INVALID_KEY_LENGTH;
}

API int PMI_KVS_Put(const char name[], const char key[], const char value[]) {
  int code = check_key(name, key);
  if (code != PMI_SUCCESS) return code;
  if (value == NULL || strchr(value, '\n') != NULL) return PMI_ERR_INVALID_VAL;
  if (strlen(value) >= (size_t)value_max) return PMI_ERR_INVALID_VAL_LENGTH;
  pthread_mutex_lock(&lock);
  struct text text = {0};
  text_add(&text, "cmd=put kvsname=%s key=%s value=%s\n", name, key, value);
  code = ask(&text, "put_result", NULL);
  pthread_mutex_unlock(&lock);
  return code;
}

// Each put is stored at once.
API int PMI_KVS_Commit(const char name[]) {
  if (!is_open) return PMI_ERR_INIT;
  return name != NULL ? PMI_SUCCESS : PMI_ERR_INVALID_ARG;
}

static int get(const char* name, const char* key, char** value) {
  char* line = NULL;
  pthread_mutex_lock(&lock);
  struct text text = {0};
  text_add(&text, "cmd=get kvsname=%s key=%s\n", name, key);
  int code = ask(&text, "get_result", &line);
  *value = code == PMI_SUCCESS ? field(line, "value") : NULL;
  pthread_mutex_unlock(&lock);
  return code == PMI_SUCCESS && *value == NULL ? PMI_FAIL : code;
}

API int PMI_KVS_Get(const char name[], const char key[], char out[], int length) {
  int code = check_key(name, key);
  if (code != PMI_SUCCESS) return code;
  if (out == NULL) return PMI_ERR_INVALID_VAL;
  char* value = NULL;
  code = get(name, key, &value);
  if (code == PMI_SUCCESS && (length <= 0 || !copy_to(out, (size_t)length, value)))
    code = PMI_ERR_INVALID_VAL_LENGTH;
  free(value);
  return code;
}

API int PMI_Barrier(void) {
  if (!is_open) return PMI_ERR_INIT;
  pthread_mutex_lock(&lock);
  int code = ask_plainly("barrier_in", "barrier_out", NULL);
  pthread_mutex_unlock(&lock);
  return code;
}

// The group does not offer these: RFC 13 leaves them open.
API int PMI_KVS_Create(char name[], int length) {
  (void)name, (void)length;
  return PMI_FAIL;
}
API int PMI_KVS_Destroy(const char name[]) {
  (void)name;
  return PMI_FAIL;
}
API int PMI_KVS_Iter_first(const char name[], char key[], int key_len, char val[], int val_len) {
  (void)name, (void)key, (void)key_len, (void)val, (void)val_len;
  return PMI_FAIL;
}
API int PMI_KVS_Iter_next(const char name[], char key[], int key_len, char val[], int val_len) {
  return PMI_KVS_Iter_first(name, key, key_len, val, val_len);
}

// ---- the ranks of this node ------------------------------------------------------------------

// The node of each rank, by the value of PMI_process_mapping: (vector,(first node,nodes,ranks on
// each),...), used again from its start until all ranks have a node. The caller frees it with free(3). NULL: the
// value is something else, or there is no memory.
static int* mapped_nodes(const char* map) {
  int* nodes = calloc((size_t)size, sizeof *nodes);
  const char* start = strchr(map, ',');
  int done = 0;
  for (int before = -1; nodes != NULL && start != NULL && done < size && done != before;) {
    before = done;
    int first, count, each, used;
    for (const char* at = start; sscanf(at, ",(%d,%d,%d)%n", &first, &count, &each, &used) == 3; at += used) {
      for (int node = 0; node < count; ++node) {
        for (int i = 0; i < each && done < size; ++i) nodes[done++] = first + node;
      }
    }
  }
  if (nodes != NULL && done == size) return nodes;
  free(nodes);
  return NULL;
}

static int* nodes_of_ranks(void) {
  char* map = NULL;
  if (get(space, "PMI_process_mapping", &map) != PMI_SUCCESS) return NULL;
  int* nodes = mapped_nodes(map);
  free(map);
  return nodes;
}

// Writes at most `room` ranks; returns how many there are, or -1.
static int clique(int* ranks, int room) {
  int* nodes = nodes_of_ranks();
  if (nodes == NULL) return -1;
  int count = 0;
  for (int i = 0; i < size; ++i) {
    if (nodes[i] != nodes[rank]) continue;
    if (count < room) ranks[count] = i;
    ++count;
  }
  free(nodes);
  return count;
}

API int PMI_Get_clique_size(int* out) {
  if (!is_open) return PMI_ERR_INIT;
  if (out == NULL) return PMI_ERR_INVALID_ARG;
  int count = clique(NULL, 0);
  if (count < 0) return PMI_FAIL;
  *out = count;
  return PMI_SUCCESS;
}

API int PMI_Get_clique_ranks(int ranks[], int length) {
  if (!is_open) return PMI_ERR_INIT;
  if (ranks == NULL) return PMI_ERR_INVALID_ARG;
  int count = clique(ranks, length);
  if (count < 0) return PMI_FAIL;
  return count <= length ? PMI_SUCCESS : PMI_ERR_INVALID_LENGTH;
}

// ---- names, and new processes ----------------------------------------------------------------

API int PMI_Publish_name(const char service_name[], const char port[]) {
  if (!is_open) return PMI_ERR_INIT;
  if (service_name == NULL || port == NULL || !is_word(service_name) || strpbrk(port, " \n") != NULL)
    return PMI_ERR_INVALID_ARG;
  pthread_mutex_lock(&lock);
  struct text text = {0};
  text_add(&text, "cmd=publish_name service=%s port=%s\n", service_name, port);
  int code = ask(&text, "publish_result", NULL);
  pthread_mutex_unlock(&lock);
  return code;
}

API int PMI_Unpublish_name(const char service_name[]) {
  if (!is_open) return PMI_ERR_INIT;
  if (service_name == NULL || !is_word(service_name)) return PMI_ERR_INVALID_ARG;
  pthread_mutex_lock(&lock);
  struct text text = {0};
  text_add(&text, "cmd=unpublish_name service=%s\n", service_name);
  int code = ask(&text, "unpublish_result", NULL);
  pthread_mutex_unlock(&lock);
  return code;
}

// The interface gives no size for the port; in MPICH it is that of a value.
API int PMI_Lookup_name(const char service_name[], char port[]) {
  if (!is_open) return PMI_ERR_INIT;
  if (service_name == NULL || port == NULL || !is_word(service_name)) return PMI_ERR_INVALID_ARG;
  pthread_mutex_lock(&lock);
  char* line = NULL;
  struct text text = {0};
  text_add(&text, "cmd=lookup_name service=%s\n", service_name);
  int code = ask(&text, "lookup_result", &line);
  char* found = code == PMI_SUCCESS ? field(line, "port") : NULL;
  if (code == PMI_SUCCESS && (found == NULL || !copy_to(port, (size_t)value_max, found))) code = PMI_FAIL;
  free(found);
  pthread_mutex_unlock(&lock);
  return code;
}

// Whether the text has no newline, which would end its field.
static bool is_line(const char* text) { return text != NULL && strchr(text, '\n') == NULL; }

static void add_pairs(struct text* text, const char* name, const struct keyval* pairs, int count) {
  text_add(text, "%s_num=%d\n", name, count);
  for (int i = 0; i < count; ++i) {
    text->failed = text->failed || !is_line(pairs[i].key) || !is_line(pairs[i].value);
    if (text->failed) return;
    text_add(text, "%s_key_%d=%s\n%s_val_%d=%s\n", name, i, pairs[i].key, name, i, pairs[i].value);
  }
}

static void add_program(struct text* text, const char* program, int processes, const char** argv) {
  text->failed = text->failed || !is_line(program);
  if (text->failed) return;
  text_add(text, "mcmd=spawn\nnprocs=%d\nexecname=%s\n", processes, program);
  int arguments = 0;
  for (; argv != NULL && argv[arguments] != NULL; ++arguments) {
    text->failed = text->failed || !is_line(argv[arguments]);
    if (!text->failed) text_add(text, "arg%d=%s\n", arguments + 1, argv[arguments]);
  }
  text_add(text, "argcnt=%d\n", arguments);
}

API int PMI_Spawn_multiple(int count, const char* cmds[], const char** argvs[], const int maxprocs[],
                           const int info_keyval_sizes[], const struct keyval* info_keyval_vectors[],
                           int preput_keyval_size, const struct keyval preput_keyval_vector[], int errors[]) {
  if (!is_open) return PMI_ERR_INIT;
  if (count < 1 || cmds == NULL || maxprocs == NULL) return PMI_ERR_INVALID_ARG;
  struct text text = {0};
  int total = 0;
  for (int i = 0; i < count; ++i) {
    add_program(&text, cmds[i], maxprocs[i], argvs != NULL ? argvs[i] : NULL);
    text_add(&text, "totspawns=%d\nspawnssofar=%d\n", count, i + 1);
    add_pairs(&text, "preput", preput_keyval_vector, preput_keyval_size);
    int infos = info_keyval_sizes != NULL && info_keyval_vectors != NULL ? info_keyval_sizes[i] : 0;
    add_pairs(&text, "info", infos > 0 ? info_keyval_vectors[i] : NULL, infos);
    text_add(&text, "endcmd\n");
    total += maxprocs[i];
  }
  pthread_mutex_lock(&lock);
  char* line = NULL;
  int code = ask(&text, "spawn_result", &line);
  char* list = code == PMI_SUCCESS ? field(line, "errcodes") : NULL;
  pthread_mutex_unlock(&lock);
  if (errors != NULL) read_numbers(errors, total, list, code);
  free(list);
  return code;
}
