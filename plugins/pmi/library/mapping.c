// SPDX-License-Identifier: Apache-2.0
#include "mapping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int* mapped_nodes(const char* map, int size) {
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
