// SPDX-License-Identifier: Apache-2.0
#ifndef NACRE_PMI_MAPPING_H
#define NACRE_PMI_MAPPING_H

// The node of each of `size` ranks, by the value of PMI_process_mapping: (vector,(first node,nodes,ranks on
// each),...), used again from its start until all ranks have a node. The caller frees it with free(3). NULL: the
// value is something else, or there is no memory.
int* mapped_nodes(const char* map, int size);

#endif
