// SPDX-License-Identifier: Apache-2.0
//
// A task that writes or reads, for t/bench/output:
//   stream write BYTES    lines of 80 bytes to stdout, through a buffer of 4,096 bytes as stdio's for a pipe
//   stream lines BYTES    the same, each with a write of its own
//   stream read BYTES     reads stdin to its end; exit code 1 if it was not BYTES
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kLine = 80, kBuffer = 128 << 10 };

static char buffer[kBuffer];

static int write_lines(long bytes, int how) {
  char line[kLine + 1];
  memset(line, 'x', kLine - 1);
  line[kLine - 1] = '\n';
  static char stdio[BUFSIZ > 4096 ? 4096 : BUFSIZ];
  setvbuf(stdout, stdio, how, sizeof stdio);
  for (long done = 0; done < bytes; done += kLine) {
    if (fwrite(line, 1, kLine, stdout) != kLine) return 1;
  }
  return fflush(stdout) == 0 ? 0 : 1;
}

static int read_all(long bytes) {
  long total = 0;
  for (ssize_t got; (got = read(0, buffer, sizeof buffer)) > 0;) total += got;
  return total == bytes ? 0 : 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: stream write|lines|read BYTES\n");
    return 2;
  }
  long bytes = atol(argv[2]);
  if (strcmp(argv[1], "read") == 0) return read_all(bytes);
  return write_lines(bytes, strcmp(argv[1], "lines") == 0 ? _IOLBF : _IOFBF);
}
