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
  FAILS(taskmap_check(map, NULL, NULL) == -1, EINVAL);
  taskmap_destroy(map);
  taskmap_destroy(other);
  error.text[0] = '\0';
  FAILS(taskmap_decode("[[0,", &error) == NULL, EINVAL);
  EXPECT(error.text[0] != '\0');
  FAILS(taskmap_decode(NULL, NULL) == NULL, EINVAL);
}

PROBE(idsets) {
  struct idset *ids = idset_decode("0-3,7"), *copy = idset_copy(ids), *empty = idset_decode("");
  EXPECT(idset_count(ids) == 5 && !idset_empty(ids) && idset_empty(empty) && idset_empty(NULL));
  EXPECT(idset_first(ids) == 0 && idset_next(ids, 3) == 7 && idset_last(ids) == 7);
  EXPECT(idset_next(ids, 7) == IDSET_INVALID_ID && idset_first(empty) == IDSET_INVALID_ID);
  EXPECT(idset_test(ids, 2) && !idset_test(ids, 4) && !idset_test(NULL, 0));
  EXPECT(same_text(idset_encode(copy, 0), "0,1,2,3,7"));
  EXPECT(same_text(idset_encode(copy, IDSET_FLAG_RANGE), "0-3,7"));
  EXPECT(same_text(idset_encode(copy, IDSET_FLAG_RANGE | IDSET_FLAG_BRACKETS), "[0-3,7]"));
  EXPECT(same_text(idset_encode(copy, IDSET_FLAG_BRACKETS), "[0,1,2,3,7]"));
  FAILS(idset_encode(NULL, 0) == NULL, EINVAL);
  FAILS(idset_decode("0-") == NULL, EINVAL);
  FAILS(idset_decode(NULL) == NULL, EINVAL);
  FAILS(idset_copy(NULL) == NULL, EINVAL);
  idset_destroy(ids);
  idset_destroy(copy);
  idset_destroy(empty);
}

static const struct flux_plugin_handler table[] = {
    {"probe.of-the-job", of_the_job, NULL}, {"probe.forms", forms, NULL},   {"probe.queries", queries, NULL},
    {"probe.building", building, NULL},     {"probe.idsets", idsets, NULL}, {NULL, NULL, NULL},
};

int flux_plugin_init(flux_plugin_t* p) { return flux_plugin_register(p, FLUX_SHELL_PLUGIN_NAME, table); }
