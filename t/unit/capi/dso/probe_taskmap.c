/* SPDX-License-Identifier: Apache-2.0 */
#define FLUX_SHELL_PLUGIN_NAME "probe-taskmap"
#include "probe.h"

PROBE(of_the_job) {
  const struct taskmap* map = flux_shell_get_taskmap(shell);
  EXPECT(taskmap_total_ntasks(map) == 4 && taskmap_nnodes(map) == 1);
  EXPECT(same_text(taskmap_encode(map, 0), "[[0,1,4,1]]"));
  FAILS(flux_shell_get_taskmap(NULL) == NULL, EINVAL);
}

PROBE(forms) {
  struct taskmap* map = taskmap_decode("[[0,2,2,2]]", NULL);
  EXPECT(same_text(taskmap_encode(map, TASKMAP_ENCODE_WRAPPED), "{\"map\":[[0,2,2,2]],\"version\":1}"));
  EXPECT(same_text(taskmap_encode(map, TASKMAP_ENCODE_RAW), "0-1,4-5;2-3,6-7"));
  EXPECT(same_text(taskmap_encode(map, TASKMAP_ENCODE_RAW_DERANGED), "0,1,4,5;2,3,6,7"));
  EXPECT(same_text(taskmap_encode(map, TASKMAP_ENCODE_PMI), "(vector,(0,2,2),(0,2,2))"));
  FAILS(taskmap_encode(map, TASKMAP_ENCODE_RAW | TASKMAP_ENCODE_PMI) == NULL, EINVAL);
  FAILS(taskmap_encode(map, 64) == NULL, EINVAL);
  FAILS(taskmap_encode(NULL, 0) == NULL, EINVAL);
  taskmap_destroy(map);
  taskmap_destroy(NULL);
}

PROBE(queries) {
  struct taskmap* map = taskmap_decode("(vector,(0,2,2))", NULL);
  EXPECT(!taskmap_unknown(map));
  EXPECT(taskmap_nodeid(map, 1) == 0 && taskmap_nodeid(map, 2) == 1);
  EXPECT(taskmap_ntasks(map, 1) == 2 && taskmap_nnodes(map) == 2 && taskmap_total_ntasks(map) == 4);
  EXPECT(idset_first(taskmap_taskids(map, 1)) == 2 && idset_count(taskmap_taskids(map, 1)) == 2);
  FAILS(taskmap_nodeid(map, 4) == -1, ENOENT);
  FAILS(taskmap_nodeid(map, -1) == -1, EINVAL);
  FAILS(taskmap_ntasks(map, 2) == -1, ENOENT);
  FAILS(taskmap_taskids(map, 2) == NULL, ENOENT);
  FAILS(taskmap_taskids(map, -1) == NULL, EINVAL);
  FAILS(taskmap_nnodes(NULL) == -1, EINVAL);
  FAILS(taskmap_total_ntasks(NULL) == -1, EINVAL);
  taskmap_destroy(map);
}

PROBE(building) {
  flux_error_t error;
  struct taskmap *map = taskmap_create(), *other = taskmap_decode("[[0,2,2,1]]", NULL);
  EXPECT(taskmap_unknown(map));
  EXPECT(taskmap_append(map, 1, 1, 2) == 0 && taskmap_append(map, 0, 1, 2) == 0);
  EXPECT(same_text(taskmap_encode(map, TASKMAP_ENCODE_RAW), "2-3;0-1"));
  EXPECT(taskmap_check(map, other, &error) == 0);
  EXPECT(taskmap_append(map, 2, 1, 1) == 0);
  FAILS(taskmap_check(map, other, &error) == -1, EINVAL);
  EXPECT(same(error.text, "expected 5 tasks, got 4"));
  FAILS(taskmap_append(map, -1, 1, 1) == -1, EINVAL);
  FAILS(taskmap_append(map, 0, 0, 1) == -1, EINVAL);
  FAILS(taskmap_append(NULL, 0, 1, 1) == -1, EINVAL);
  FAILS(taskmap_append(map, 0, 1, 0) == -1, EINVAL);
  FAILS(taskmap_check(map, NULL, NULL) == -1, EINVAL);
  FAILS(taskmap_check(NULL, map, &error) == -1, EINVAL);
  EXPECT(same(error.text, "no task map given"));
  taskmap_destroy(map);
  taskmap_destroy(other);
  error.text[0] = '\0';
  FAILS(taskmap_decode("[[0,", &error) == NULL, EINVAL);
  EXPECT(error.text[0] != '\0');
  FAILS(taskmap_decode(NULL, NULL) == NULL, EINVAL);
}

/* RFC 34's test vectors: the raw form, and the task map. */
PROBE(vectors) {
  static const struct {
    const char *raw, *map;
  } rows[] = {
      {"0", "[[0,1,1,1]]"},
      {"0;1", "[[0,2,1,1]]"},
      {"0-1", "[[0,1,2,1]]"},
      {"0-1;2-3", "[[0,2,2,1]]"},
      {"0,2;1,3", "[[0,2,1,2]]"},
      {"1;0", "[[1,1,1,1],[0,1,1,1]]"},
      {"0-3;4-7;8-11;12-15", "[[0,4,4,1]]"},
      {"0,4,8,12;1,5,9,13;2,6,10,14;3,7,11,15", "[[0,4,1,4]]"},
      {"0-1,8-9;2-3,10-11;4-5,12-13;6-7,14-15", "[[0,4,2,2]]"},
      {"0-1;2-3;4-5;6-7;8-11;12-15", "[[0,4,2,1],[4,2,4,1]]"},
      {"0,6;1,7;2,8;3,9;4,10,12,14;5,11,13,15", "[[0,6,1,2],[4,2,1,2]]"},
      {"14-15;12-13;10-11;8-9;4-7;0-3", "[[5,1,4,1],[4,1,4,1],[3,1,2,1],[2,1,2,1],[1,1,2,1],[0,1,2,1]]"},
      {"0-1;2-3;4-5;6-7;8-9;12-13;10-11;14-15", "[[0,5,2,1],[6,1,2,1],[5,1,2,1],[7,1,2,1]]"},
      {"12-15;8-11;4-7;0-3", "[[3,1,4,1],[2,1,4,1],[1,1,4,1],[0,1,4,1]]"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    struct taskmap *raw = taskmap_decode(rows[i].raw, NULL), *map = taskmap_decode(rows[i].map, NULL);
    EXPECT(same_text(taskmap_encode(raw, 0), rows[i].map));
    EXPECT(same_text(taskmap_encode(map, TASKMAP_ENCODE_RAW), rows[i].raw));
    EXPECT(taskmap_check(raw, map, NULL) == 0);
    taskmap_destroy(raw);
    taskmap_destroy(map);
  }
  struct taskmap* unknown = taskmap_decode("[]", NULL);
  EXPECT(taskmap_unknown(unknown) && taskmap_unknown(NULL));
  EXPECT(same_text(taskmap_encode(unknown, 0), "[]") && same_text(taskmap_encode(unknown, TASKMAP_ENCODE_RAW), ""));
  FAILS(taskmap_nnodes(unknown) == -1, EINVAL);
  FAILS(taskmap_total_ntasks(unknown) == -1, EINVAL);
  FAILS(taskmap_nodeid(unknown, 0) == -1, EINVAL);
  FAILS(taskmap_ntasks(unknown, 0) == -1, EINVAL);
  FAILS(taskmap_taskids(unknown, 0) == NULL, EINVAL);
  taskmap_destroy(unknown);
}

PROBE(limits) {
  struct taskmap* map = taskmap_create();
  EXPECT(taskmap_append(map, 0, 1048576, 16) == 0 && taskmap_total_ntasks(map) == 16777216);
  FAILS(taskmap_append(map, 0, 1, 1) == -1, EINVAL);
  EXPECT(taskmap_total_ntasks(map) == 16777216 && taskmap_nnodes(map) == 1048576);
  taskmap_destroy(map);
  map = taskmap_create();
  FAILS(taskmap_append(map, 1048576, 1, 1) == -1, EINVAL);
  FAILS(taskmap_append(map, 1, 1048576, 1) == -1, EINVAL);
  FAILS(taskmap_append(map, 0, INT_MAX, INT_MAX) == -1, EINVAL);
  EXPECT(taskmap_unknown(map));
  taskmap_destroy(map);
}

/* They last until the next are asked for, and a copy longer; it is a set like others. */
PROBE(taskids) {
  struct taskmap* map = taskmap_decode("[[0,2,2000,1]]", NULL);
  const struct idset* ids = taskmap_taskids(map, 1);
  EXPECT(same_text(idset_encode(ids, IDSET_FLAG_RANGE), "2000-3999") && idset_universe_size(ids) == 4000);
  struct idset* copy = idset_copy(ids);
  EXPECT(idset_first(taskmap_taskids(map, 0)) == 0);
  EXPECT(idset_set(copy, 4000) == 0 && idset_count(copy) == 2001);
  idset_destroy(copy);
  taskmap_destroy(map);
  map = taskmap_decode("[[1,1,2,1]]", NULL); /* no task on node 0 */
  EXPECT(idset_empty(taskmap_taskids(map, 0)) && taskmap_ntasks(map, 0) == 0);
  FAILS(taskmap_taskids(NULL, 0) == NULL, EINVAL);
  FAILS(taskmap_ntasks(NULL, 0) == -1, EINVAL);
  FAILS(taskmap_ntasks(map, -1) == -1, EINVAL);
  FAILS(taskmap_nodeid(NULL, 0) == -1, EINVAL);
  taskmap_destroy(map);
}

static const struct flux_plugin_handler table[] = {
    {"probe.of-the-job", of_the_job, NULL}, {"probe.forms", forms, NULL},
    {"probe.queries", queries, NULL},       {"probe.building", building, NULL},
    {"probe.vectors", vectors, NULL},       {"probe.limits", limits, NULL},
    {"probe.taskids", taskids, NULL},       {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
