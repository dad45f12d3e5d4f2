/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-job"
#include "probe.h"

static int is_id(flux_jobid_t id, const char* type, const char* text) {
  char buffer[64];
  int same_id = flux_job_id_encode(id, type, buffer, sizeof buffer) == 0 && strcmp(buffer, text) == 0;
  if (!same_id) shell_log_error("%s", buffer);
  return same_id;
}

PROBE(ids) {
  flux_jobid_t id = 0;
  char small[4];
  EXPECT(is_id(6731191091817518LL, "dec", "6731191091817518"));
  EXPECT(is_id(6731191091817518LL, NULL, "6731191091817518"));
  EXPECT(is_id(6731191091817518LL, "f58",
               "\xc6\x92"
               "uZZybuNNy"));
  EXPECT(is_id(6731191091817518LL, "f58plain", "fuZZybuNNy"));
  EXPECT(is_id(6731191091817518LL, "hex", "0x17e9fb8df16c2e"));
  EXPECT(is_id(6731191091817518LL, "dothex", "0017.e9fb.8df1.6c2e"));
  EXPECT(is_id(6731191091817518LL, "kvs", "job.0017.e9fb.8df1.6c2e"));
  EXPECT(is_id(0, "words", "academy-academy-academy--academy-academy-academy"));
  FAILS(flux_job_id_encode(1, "roman", small, sizeof small) == -1, EINVAL);
  FAILS(flux_job_id_encode(1, "dec", NULL, 4) == -1, EINVAL);
  EXPECT(flux_job_id_encode(123, "dec", small, sizeof small) == 0);
  FAILS(flux_job_id_encode(1234, "dec", small, sizeof small) == -1, EOVERFLOW);
  EXPECT(flux_job_id_parse("fuZZybuNNy", &id) == 0 && id == 6731191091817518ULL);
  FAILS(flux_job_id_parse("no id", &id) == -1, EINVAL);
  FAILS(flux_job_id_parse(NULL, &id) == -1, EINVAL);
}

static char seen[512];
static flux_future_t* watching;

static void on_event(flux_future_t* f, void* arg) {
  const char* event = NULL;
  (void)arg;
  if (flux_job_event_watch_get(f, &event) < 0) {
    strcat(seen, errno == ENODATA ? "end" : "error");
    return;
  }
  strncat(seen, event, sizeof seen - strlen(seen) - 1);
  flux_future_reset(f);
}

PROBE(watch) {
  flux_t* h = flux_shell_get_flux(shell);
  seen[0] = '\0';
  watching = flux_job_event_watch(h, 1, "guest.exec.eventlog", 0);
  EXPECT(flux_future_then(watching, -1., on_event, NULL) == 0);
  flux_future_t* f = flux_job_event_watch(h, 1, "guest.input", 0);
  FAILS(flux_job_event_watch_get(f, NULL) == -1, ENOSYS);
  flux_future_destroy(f);
  /* The manager's log: the job runs. */
  const char* event = NULL;
  f = flux_job_event_watch(h, 1, "eventlog", 0);
  EXPECT(flux_job_event_watch_get(f, &event) == 0 && strstr(event, "\"name\":\"start\"") != NULL);
  flux_future_reset(f);
  FAILS(flux_future_wait_for(f, 0.001) == -1, ETIMEDOUT);
  EXPECT(flux_job_event_watch_cancel(f) == 0);
  FAILS(flux_job_event_watch_get(f, &event) == -1, ENODATA);
  flux_future_destroy(f);
  f = flux_job_event_watch(h, 2, "guest.exec.eventlog", 0);
  FAILS(flux_future_get(f, NULL) == -1, ENOSYS);
  FAILS(flux_job_event_watch_cancel(f) == -1, EINVAL);
  flux_future_destroy(f);
  f = flux_job_event_watch(h, 1, "guest.exec.eventlog", 0);
  EXPECT(flux_job_event_watch_get(f, NULL) == 0); /* what was there before */
  flux_future_reset(f);
  EXPECT(!flux_future_is_ready(f) && flux_job_event_watch_cancel(f) == 0);
  FAILS(flux_job_event_watch_get(f, NULL) == -1, ENODATA);
  flux_future_destroy(f);
  FAILS(flux_job_event_watch(NULL, 1, "x", 0) == NULL, EINVAL);
  FAILS(flux_job_event_watch(h, 1, NULL, 0) == NULL, EINVAL);
  FAILS(flux_job_event_watch(h, 1, "x", 1) == NULL, EINVAL);
  FAILS(flux_job_event_watch_cancel(NULL) == -1, EINVAL);
  FAILS(flux_job_event_watch_get(NULL, NULL) == -1, EINVAL);
}

PROBE(watched) {
  const char* expected =
      "{\"context\":{\"size\":1},\"name\":\"shell.init\",\"timestamp\":1.5}\n"
      "{\"name\":\"shell.exit\",\"timestamp\":2.5}\nend";
  EXPECT(same(seen, expected));
  if (failures > 0) shell_log_error("%s", seen);
  flux_future_destroy(watching);
}

PROBE(absent) {
  flux_t* h = flux_shell_get_flux(shell);
  const char* value = NULL;
  flux_future_t* f = flux_future_create(NULL, NULL);
  flux_kvs_txn_t* none = (flux_kvs_txn_t*)f;
  FAILS(flux_kvs_lookup(h, NULL, 0, "key") == NULL, ENOSYS);
  FAILS(flux_kvs_lookup(h, NULL, 0, NULL) == NULL, EINVAL);
  FAILS(flux_kvs_lookup_get(f, &value) == -1, ENOSYS);
  FAILS(flux_kvs_lookup_get(NULL, &value) == -1, EINVAL);
  FAILS(flux_kvs_lookup_get_unpack(f, "{}") == -1, ENOSYS);
  FAILS(flux_kvs_lookup_get_unpack(f, NULL) == -1, EINVAL);
  FAILS(flux_kvs_commit(h, NULL, 0, none) == NULL, ENOSYS);
  FAILS(flux_kvs_commit(h, NULL, 0, NULL) == NULL, EINVAL);
  FAILS(flux_kvs_namespace_create(h, "ns", 0, 0) == NULL, ENOSYS);
  FAILS(flux_kvs_namespace_create(h, NULL, 0, 0) == NULL, EINVAL);
  FAILS(flux_kvs_namespace_remove(h, "ns") == NULL, ENOSYS);
  FAILS(flux_kvs_namespace_remove(NULL, "ns") == NULL, EINVAL);
  FAILS(flux_kvs_txn_create() == NULL, ENOSYS);
  FAILS(flux_kvs_txn_put(none, 0, "a", "1") == -1, ENOSYS);
  FAILS(flux_kvs_txn_put(NULL, 0, "a", "1") == -1, EINVAL);
  FAILS(flux_kvs_txn_pack(none, 0, "a", "i", 1) == -1, ENOSYS);
  FAILS(flux_kvs_txn_pack(none, 0, NULL, "i", 1) == -1, EINVAL);
  flux_kvs_txn_destroy(NULL);
  FAILS(flux_service_register(h, "name") == NULL, ENOSYS);
  FAILS(flux_service_register(h, NULL) == NULL, EINVAL);
  FAILS(flux_service_unregister(h, "name") == NULL, ENOSYS);
  FAILS(flux_service_unregister(NULL, "name") == NULL, EINVAL);
  FAILS(flux_conf_builtin_get("rundir", FLUX_CONF_AUTO) == NULL, EINVAL);
  flux_future_destroy(f);
}

static const struct flux_plugin_handler table[] = {
    {"probe.ids", ids, NULL},       {"probe.watch", watch, NULL}, {"probe.watched", watched, NULL},
    {"probe.absent", absent, NULL}, {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
