// SPDX-License-Identifier: Apache-2.0
//
// romio FILE: all ranks write one file together, interleaved, through a strided view; then each reads what its
// neighbour wrote, and rank 0 the whole file without MPI. The file is deleted; rank 0 prints "file ok, 4 ranks".
#include <mpi.h>
#include <stdlib.h>

#include "check.h"

enum { kBlock = 32, kBlocks = 50 };  // integers in a block, blocks of each rank

static int rank;
static int size;

static int value_of(int writer, int place) { return writer * 1000000 + place; }

static void must(int code, const char* what) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length;
  if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
  CHECK(rank, code == MPI_SUCCESS, "%s: %s", what, text);
}

// Makes `file` show only the blocks of `owner`: every size-th one.
static void view(MPI_File file, int owner) {
  MPI_Datatype blocks;
  MPI_Type_vector(kBlocks, kBlock, kBlock * size, MPI_INT, &blocks);
  MPI_Type_commit(&blocks);
  MPI_Offset start = (MPI_Offset)owner * kBlock * (MPI_Offset)sizeof(int);
  must(MPI_File_set_view(file, start, MPI_INT, blocks, "native", MPI_INFO_NULL), "MPI_File_set_view");
  MPI_Type_free(&blocks);
}

static void write_and_read(const char* path) {
  int values[kBlock * kBlocks];
  MPI_File file;
  MPI_Status status;
  must(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), path);
  must(MPI_File_set_size(file, 0), "MPI_File_set_size");
  view(file, rank);
  for (int i = 0; i < kBlock * kBlocks; ++i) values[i] = value_of(rank, i);
  must(MPI_File_write_all(file, values, kBlock * kBlocks, MPI_INT, &status), "MPI_File_write_all");
  must(MPI_File_sync(file), "MPI_File_sync");
  MPI_Barrier(MPI_COMM_WORLD);
  must(MPI_File_sync(file), "MPI_File_sync");

  int other = (rank + 1) % size, count = 0;
  view(file, other);
  for (int i = 0; i < kBlock * kBlocks; ++i) values[i] = -1;
  must(MPI_File_read_all(file, values, kBlock * kBlocks, MPI_INT, &status), "MPI_File_read_all");
  MPI_Get_count(&status, MPI_INT, &count);
  CHECK(rank, count == kBlock * kBlocks, "read %d integers, expected %d", count, kBlock * kBlocks);
  for (int i = 0; i < kBlock * kBlocks; ++i)
    CHECK(rank, values[i] == value_of(other, i), "integer %d of rank %d: %d, expected %d", i, other, values[i],
          value_of(other, i));
  must(MPI_File_close(&file), "MPI_File_close");
}

static void read_plainly(const char* path) {
  FILE* file = fopen(path, "rb");
  CHECK(rank, file, "%s is not there", path);
  int value;
  for (int i = 0; i < kBlock * kBlocks * size; ++i) {
    int block = i / kBlock;
    int expected = value_of(block % size, block / size * kBlock + i % kBlock);
    CHECK(rank, fread(&value, sizeof value, 1, file) == 1, "%s ends after %d integers", path, i);
    CHECK(rank, value == expected, "integer %d of %s: %d, expected %d", i, path, value, expected);
  }
  CHECK(rank, fgetc(file) == EOF, "%s is too long", path);
  fclose(file);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(rank, argc == 2, "usage: romio FILE");
  write_and_read(argv[1]);
  if (rank == 0) {
    read_plainly(argv[1]);
    must(MPI_File_delete(argv[1], MPI_INFO_NULL), "MPI_File_delete");
    printf("file ok, %d ranks\n", size);
  }
  MPI_Finalize();
  return 0;
}
