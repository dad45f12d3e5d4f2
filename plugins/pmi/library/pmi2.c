// SPDX-License-Identifier: Apache-2.0
//
// libpmi2.so: the interface PMI-2, as <slurm/pmi2.h> has it, over the socket in PMI_FD. It has a state, as the
// interface has no handle. Calls of several threads come one after the other.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api.h"
#include "wire.h"

enum {
  PMI2_SUCCESS = 0,
  PMI2_FAIL = -1,
  PMI2_ERR_INIT = 1,
  PMI2_ERR_NOMEM = 2,
  PMI2_ERR_INVALID_ARG = 3,
  PMI2_ERR_INVALID_KEY = 4,
  PMI2_ERR_INVALID_LENGTH = 8,
  PMI2_ERR_OTHER = 14,
  kMostBody = 999999  // the largest number of six digits
};

struct MPID_Info {  // as in <slurm/pmi2.h>
  int handle, pobj_mutex, ref_count;
  struct MPID_Info* next;
  char *key, *value;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct wire wire;
static bool is_open;
static int own_rank;

// ---- messages --------------------------------------------------------------------------------

// Adds a field, and doubles each ';' of its value.
static void add(struct text* body, const char* key, const char* value) {
  text_add(body, "%s=", key);
  for (; *value != '\0'; ++value) text_add(body, *value == ';' ? ";;" : "%c", *value);
  text_add(body, ";");
}

static void add_number(struct text* body, const char* key, int number) { text_add(body, "%s=%d;", key, number); }

static void add_numbered(struct text* body, const char* key, int number, const char* value) {
  char name[32];
  snprintf(name, sizeof name, "%s%d", key, number);
  add(body, name, value);
}

// A copy of the field of an answer; NULL: there is none.
static char* field(const char* body, const char* key) {
  size_t length = strlen(key);
  for (const char* at = body; *at != '\0';) {
    bool found = strncmp(at, key, length) == 0 && at[length] == '=';
    const char* from = at + (found ? length + 1 : 0);
    struct text value = {0};
    text_add(&value, "%s", "");
    for (at = from; *at != '\0' && (*at != ';' || at[1] == ';'); ++at) {
      if (*at == ';') ++at;
      if (found) text_add(&value, "%c", *at);
    }
    if (*at == ';') ++at;
    if (found && !value.failed) return value.data;
    text_free(&value);
  }
  return NULL;
}

static int int_field(const char* body, const char* key, int otherwise) {
  char* text = field(body, key);
  int value = text != NULL ? atoi(text) : otherwise;
  free(text);
  return value;
}

static bool is_found(const char* body) {
  char* text = field(body, "found");
  bool found = text != NULL && strcmp(text, "TRUE") == 0;
  free(text);
  return found;
}

// Sends a message whose text is `body`, and frees `body`.
static int send_body(struct text* body) {
  char head[16];
  bool fits = !body->failed && body->size <= kMostBody;
  snprintf(head, sizeof head, "%6d", fits ? (int)body->size : 0);
  int sent = fits && wire_send(&wire, head, 6) == 0 ? wire_send(&wire, body->data, body->size) : -1;
  text_free(body);
  return sent;
}

// Sends a request and waits for its answer, which is valid until the next. Returns its code; the caller has the
// lock.
static int ask(struct text* body, char** answer) {
  if (send_body(body) < 0) return PMI2_FAIL;
  char* read = wire_body(&wire);
  if (read == NULL) return PMI2_FAIL;
  if (answer != NULL) *answer = read;
  return int_field(read, "rc", PMI2_FAIL);
}

static int ask_alone(struct text* body) {
  pthread_mutex_lock(&lock);
  int code = ask(body, NULL);
  pthread_mutex_unlock(&lock);
  return code;
}

// Asks for a value; `*found` is false if there is none, which is no error. If the whole value does not fit,
// `*length` becomes minus its size.
static int ask_value(struct text* body, char* out, int room, int* length, bool* found) {
  char* answer = NULL;
  pthread_mutex_lock(&lock);
  int code = ask(body, &answer);
  *found = code == PMI2_SUCCESS && is_found(answer);
  char* value = *found ? field(answer, "value") : NULL;
  pthread_mutex_unlock(&lock);
  if (code == PMI2_SUCCESS && *found && value == NULL) code = PMI2_FAIL;
  if (value != NULL) {
    bool fits = room > 0 && copy_to(out, (size_t)room, value);
    if (length != NULL) *length = fits ? (int)strlen(value) : -(int)strlen(value);
    if (!fits) code = PMI2_ERR_INVALID_LENGTH;
  }
  free(value);
  return code;
}

static struct text body_of(const char* command) {
  struct text body = {0};
  add(&body, "cmd", command);
  return body;
}

// ---- start and end ---------------------------------------------------------------------------

static int greet(int* size, int* rank, int* appnum) {
  static const char kInit[] = "cmd=init pmi_version=2 pmi_subversion=0\n";
  char* line = wire_send(&wire, kInit, sizeof kInit - 1) == 0 ? wire_line(&wire) : NULL;
  if (line == NULL || strstr(line, "pmi_version=2") == NULL || strstr(line, "rc=-1") != NULL) return PMI2_FAIL;
  struct text body = body_of("fullinit");
  add_number(&body, "pmirank", number_of("PMI_RANK", 0));
  add(&body, "threaded", "FALSE");
  char* answer = NULL;
  int code = ask(&body, &answer);
  if (code != PMI2_SUCCESS) return code;
  *size = int_field(answer, "size", -1);
  *rank = int_field(answer, "rank", -1);
  *appnum = int_field(answer, "appnum", -1);
  own_rank = *rank;
  return *size > 0 && *rank >= 0 ? PMI2_SUCCESS : PMI2_FAIL;
}

API int PMI2_Init(int* spawned, int* size, int* rank, int* appnum) {
  if (spawned == NULL || size == NULL || rank == NULL || appnum == NULL) return PMI2_ERR_INVALID_ARG;
  pthread_mutex_lock(&lock);
  int code = is_open ? PMI2_ERR_INIT : wire_open(&wire) < 0 ? PMI2_FAIL : greet(size, rank, appnum);
  if (code == PMI2_SUCCESS) is_open = true;
  if (!is_open) wire_close(&wire);
  *spawned = number_of("PMI_SPAWNED", 0) != 0;
  pthread_mutex_unlock(&lock);
  return code;
}

API int PMI2_Initialized(void) { return is_open; }

API int PMI2_Finalize(void) {
  if (!is_open) return PMI2_ERR_INIT;
  struct text body = body_of("finalize");
  pthread_mutex_lock(&lock);
  int code = ask(&body, NULL);
  wire_close(&wire);
  is_open = false;
  pthread_mutex_unlock(&lock);
  return code;
}

// Does not return: the whole job ends in any case.
API int PMI2_Abort(int flag, const char msg[]) {
  struct text body = body_of("abort");
  add(&body, "isworld", flag != 0 ? "TRUE" : "FALSE");
  add(&body, "msg", msg != NULL ? msg : "");
  if (msg != NULL) fprintf(stderr, "%s\n", msg);
  if (is_open) send_body(&body);
  exit(EXIT_FAILURE);
}

// ---- jobs ------------------------------------------------------------------------------------

API int PMI2_Job_GetId(char jobid[], int size) {
  if (!is_open) return PMI2_ERR_INIT;
  if (jobid == NULL) return PMI2_ERR_INVALID_ARG;
  struct text body = body_of("job-getid");
  char* answer = NULL;
  pthread_mutex_lock(&lock);
  int code = ask(&body, &answer);
  char* id = code == PMI2_SUCCESS ? field(answer, "jobid") : NULL;
  pthread_mutex_unlock(&lock);
  if (code == PMI2_SUCCESS && id == NULL) code = PMI2_FAIL;
  if (id != NULL && (size <= 0 || !copy_to(jobid, (size_t)size, id))) code = PMI2_ERR_INVALID_LENGTH;
  free(id);
  return code;
}

API int PMI2_Job_GetRank(int* rank) {
  if (!is_open) return PMI2_ERR_INIT;
  if (rank == NULL) return PMI2_ERR_INVALID_ARG;
  *rank = own_rank;
  return PMI2_SUCCESS;
}

// The number of processes on this node.
API int PMI2_Info_GetSize(int* size) {
  if (!is_open) return PMI2_ERR_INIT;
  if (size == NULL) return PMI2_ERR_INVALID_ARG;
  *size = number_of("MPI_LOCALNRANKS", -1);
  return *size > 0 ? PMI2_SUCCESS : PMI2_FAIL;
}

static int ask_about_job(const char* command, const char* jobid) {
  if (!is_open) return PMI2_ERR_INIT;
  if (jobid == NULL) return PMI2_ERR_INVALID_ARG;
  struct text body = body_of(command);
  add(&body, "jobid", jobid);
  return ask_alone(&body);
}

// `conn` is for the caller only: the groups of a job need no connection.
API int PMI2_Job_Connect(const char jobid[], void* conn) {
  (void)conn;
  return ask_about_job("job-connect", jobid);
}
API int PMI2_Job_Disconnect(const char jobid[]) { return ask_about_job("job-disconnect", jobid); }

static void add_program(struct text* body, const char* program, int processes, const char** argv, int arguments,
                        const struct MPID_Info* info, int infos) {
  add(body, "subcmd", program);
  add_number(body, "maxprocs", processes);
  add_number(body, "argc", arguments);
  for (int i = 0; i < arguments; ++i) add_numbered(body, "argv", i, argv[i]);
  add_number(body, "infokeycount", infos);
  for (int i = 0; i < infos; ++i) {
    add_numbered(body, "infokey", i, info[i].key);
    add_numbered(body, "infoval", i, info[i].value);
  }
}

API int PMI2_Job_Spawn(int count, const char* cmds[], int argcs[], const char** argvs[], const int maxprocs[],
                       const int info_keyval_sizes[], const struct MPID_Info* info_keyval_vectors[],
                       int preput_keyval_size, const struct MPID_Info* preput_keyval_vector[], char jobid[],
                       int size, int errors[]) {
  if (!is_open) return PMI2_ERR_INIT;
  if (count < 1 || cmds == NULL || maxprocs == NULL) return PMI2_ERR_INVALID_ARG;
  struct text body = body_of("spawn");
  add_number(&body, "ncmds", count);
  add_number(&body, "preputcount", preput_keyval_size);
  for (int i = 0; i < preput_keyval_size; ++i) {
    add_numbered(&body, "ppkey", i, preput_keyval_vector[i]->key);
    add_numbered(&body, "ppval", i, preput_keyval_vector[i]->value);
  }
  int total = 0;
  for (int i = 0; i < count; ++i) {
    int infos = info_keyval_sizes != NULL ? info_keyval_sizes[i] : 0;
    add_program(&body, cmds[i], maxprocs[i], argvs != NULL ? argvs[i] : NULL, argcs != NULL ? argcs[i] : 0,
                infos > 0 ? info_keyval_vectors[i] : NULL, infos);
    total += maxprocs[i];
  }
  char* answer = NULL;
  pthread_mutex_lock(&lock);
  int code = ask(&body, &answer);
  char* id = code == PMI2_SUCCESS ? field(answer, "jobid") : NULL;
  char* list = code == PMI2_SUCCESS ? field(answer, "errcodes") : NULL;
  pthread_mutex_unlock(&lock);
  if (id != NULL && jobid != NULL && (size <= 0 || !copy_to(jobid, (size_t)size, id)))
    code = PMI2_ERR_INVALID_LENGTH;
  if (errors != NULL) read_numbers(errors, total, list, code);
  free(id);
  free(list);
  return code;
}

// ---- keys and attributes ---------------------------------------------------------------------

static int put(const char* command, const char* key, const char* value) {
  if (!is_open) return PMI2_ERR_INIT;
  if (key == NULL || value == NULL) return PMI2_ERR_INVALID_ARG;
  struct text body = body_of(command);
  add(&body, "key", key);
  add(&body, "value", value);
  return ask_alone(&body);
}

API int PMI2_KVS_Put(const char key[], const char value[]) { return put("kvs-put", key, value); }
API int PMI2_Info_PutNodeAttr(const char name[], const char value[]) {
  return put("info-putnodeattr", name, value);
}

API int PMI2_KVS_Fence(void) {
  if (!is_open) return PMI2_ERR_INIT;
  struct text body = body_of("kvs-fence");
  return ask_alone(&body);
}

// `src_pmi_id` would be a hint where to look; all keys are here after a fence.
API int PMI2_KVS_Get(const char* jobid, int src_pmi_id, const char key[], char value[], int maxvalue, int* vallen) {
  (void)src_pmi_id;
  if (!is_open) return PMI2_ERR_INIT;
  if (key == NULL || value == NULL) return PMI2_ERR_INVALID_ARG;
  struct text body = body_of("kvs-get");
  if (jobid != NULL) add(&body, "jobid", jobid);
  add(&body, "key", key);
  bool found = false;
  int code = ask_value(&body, value, maxvalue, vallen, &found);
  return code == PMI2_SUCCESS && !found ? PMI2_ERR_INVALID_KEY : code;
}

static int attribute(const char* command, const char* name, char* value, int room, int* found, bool waits) {
  if (!is_open) return PMI2_ERR_INIT;
  if (name == NULL || value == NULL || found == NULL) return PMI2_ERR_INVALID_ARG;
  struct text body = body_of(command);
  add(&body, "key", name);
  if (waits) add(&body, "wait", "TRUE");
  bool is_there = false;
  int code = ask_value(&body, value, room, NULL, &is_there);
  *found = is_there;
  return code;
}

API int PMI2_Info_GetNodeAttr(const char name[], char value[], int valuelen, int* found, int waitfor) {
  return attribute("info-getnodeattr", name, value, valuelen, found, waitfor != 0);
}
API int PMI2_Info_GetJobAttr(const char name[], char value[], int valuelen, int* found) {
  return attribute("info-getjobattr", name, value, valuelen, found, false);
}

// The value is numbers joined by commas.
static int numbers(const char* command, const char* name, int array[], int room, int* count, int* found) {
  char text[1024];
  if (array == NULL || count == NULL) return PMI2_ERR_INVALID_ARG;
  *count = 0;
  int code = attribute(command, name, text, sizeof text, found, false);
  if (code != PMI2_SUCCESS || !*found) return code;
  for (const char* at = text; at != NULL && *count < room; at = strchr(at, ',')) {
    if (*at == ',') ++at;
    array[(*count)++] = atoi(at);
  }
  return PMI2_SUCCESS;
}

API int PMI2_Info_GetNodeAttrIntArray(const char name[], int array[], int arraylen, int* outlen, int* found) {
  return numbers("info-getnodeattr", name, array, arraylen, outlen, found);
}
API int PMI2_Info_GetJobAttrIntArray(const char name[], int array[], int arraylen, int* outlen, int* found) {
  return numbers("info-getjobattr", name, array, arraylen, outlen, found);
}

// ---- names -----------------------------------------------------------------------------------

API int PMI2_Nameserv_publish(const char service_name[], const struct MPID_Info* info_ptr, const char port[]) {
  (void)info_ptr;
  if (!is_open) return PMI2_ERR_INIT;
  if (service_name == NULL || port == NULL) return PMI2_ERR_INVALID_ARG;
  struct text body = body_of("name-publish");
  add(&body, "name", service_name);
  add(&body, "port", port);
  return ask_alone(&body);
}

API int PMI2_Nameserv_lookup(const char service_name[], const struct MPID_Info* info_ptr, char port[],
                             int port_len) {
  (void)info_ptr;
  if (!is_open) return PMI2_ERR_INIT;
  if (service_name == NULL || port == NULL) return PMI2_ERR_INVALID_ARG;
  struct text body = body_of("name-lookup");
  add(&body, "name", service_name);
  char* answer = NULL;
  pthread_mutex_lock(&lock);
  int code = ask(&body, &answer);
  char* found = code == PMI2_SUCCESS ? field(answer, "port") : NULL;
  pthread_mutex_unlock(&lock);
  if (code == PMI2_SUCCESS && found == NULL) code = PMI2_FAIL;
  if (found != NULL && (port_len <= 0 || !copy_to(port, (size_t)port_len, found))) code = PMI2_ERR_INVALID_LENGTH;
  free(found);
  return code;
}

API int PMI2_Nameserv_unpublish(const char service_name[], const struct MPID_Info* info_ptr) {
  (void)info_ptr;
  if (!is_open) return PMI2_ERR_INIT;
  if (service_name == NULL) return PMI2_ERR_INVALID_ARG;
  struct text body = body_of("name-unpublish");
  add(&body, "name", service_name);
  return ask_alone(&body);
}
