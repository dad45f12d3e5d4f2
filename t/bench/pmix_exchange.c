// SPDX-License-Identifier: Apache-2.0
//
// A task that exchanges data by PMIx with libpmix, for t/bench/scale:
//   pmix_exchange full BYTES      a put, a fence that collects all data, and a get of every rank's value
//   pmix_exchange direct BYTES    a put, a fence without data, and a get of kPeers ranks' values
// Each rank prints a line: start and end of the fence, end of the gets (CLOCK_MONOTONIC, ns), and the peak KiB of
// its parent, which is the shell or daemon of its node.
#include <pmix.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { kPeers = 4 };

static pmix_proc_t me;

static void must(pmix_status_t status, const char* what) {
  if (status == PMIX_SUCCESS) return;
  fprintf(stderr, "rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
  exit(9);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static uint32_t job_size(void) {
  pmix_proc_t job;
  pmix_value_t* value = NULL;
  PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
  must(PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value), "the job's size");
  const uint32_t size = value->data.uint32;
  PMIX_VALUE_RELEASE(value);
  return size;
}

static void fence(bool collects) {
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collects, PMIX_BOOL);
  must(PMIx_Fence(NULL, 0, &info, 1), "PMIx_Fence");
}

static char first_byte_of(pmix_rank_t rank) { return (char)('a' + rank % 26); }

static void put(size_t bytes) {
  pmix_value_t value;
  PMIX_VALUE_CONSTRUCT(&value);
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = malloc(bytes);
  value.data.bo.size = bytes;
  memset(value.data.bo.bytes, first_byte_of(me.rank), bytes);
  must(PMIx_Put(PMIX_GLOBAL, "card", &value), "PMIx_Put");
  must(PMIx_Commit(), "PMIx_Commit");
  PMIX_VALUE_DESTRUCT(&value);
}

static void get(pmix_rank_t rank, size_t bytes) {
  pmix_proc_t peer;
  pmix_value_t* value = NULL;
  PMIX_LOAD_PROCID(&peer, me.nspace, rank);
  must(PMIx_Get(&peer, "card", NULL, 0, &value), "PMIx_Get");
  if (value->data.bo.size != bytes || value->data.bo.bytes[bytes - 1] != first_byte_of(rank)) exit(8);
  PMIX_VALUE_RELEASE(value);
}

static long parent_peak_kib(void) {
  char text[64];
  long kib = 0;
  snprintf(text, sizeof text, "/proc/%d/status", (int)getppid());
  FILE* file = fopen(text, "r");
  if (file == NULL) return 0;
  while (fgets(text, sizeof text, file) != NULL && sscanf(text, "VmHWM: %ld", &kib) != 1) continue;
  fclose(file);
  return kib;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool is_full = strcmp(argv[1], "full") == 0;
  const size_t bytes = (size_t)atol(argv[2]);
  must(PMIx_Init(&me, NULL, 0), "PMIx_Init");
  const uint32_t size = job_size();
  fence(false);
  put(bytes);
  const int64_t begun = now();
  fence(is_full);
  const int64_t fenced = now();
  const uint32_t peers = is_full ? size - 1 : kPeers;
  for (uint32_t each = 1; each <= peers; ++each) get((me.rank + (is_full ? each : each * each)) % size, bytes);
  const int64_t got = now();
  fence(false);  // the peak of a node is that after all gets
  printf("%lld %lld %lld %ld\n", (long long)begun, (long long)fenced, (long long)got, parent_peak_kib());
  fflush(stdout);
  must(PMIx_Finalize(NULL, 0), "PMIx_Finalize");
  return 0;
}
