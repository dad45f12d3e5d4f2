// SPDX-License-Identifier: Apache-2.0
//
// silent_fs FOLDER: mounts a file system there, as root, whose only file, `file`, can be opened, and whose reads
// are taken and never answered: who reads waits in the kernel, in state D once it was sent SIGKILL, until this
// program is ended. The mount stays then (umount -l).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { kFile = 2, kRequest = 1 << 20 };

static int device;

static void answer(const struct fuse_in_header* in, int error, const void* body, size_t size) {
  struct fuse_out_header out = {.len = (uint32_t)(sizeof out + size), .error = -error, .unique = in->unique};
  struct iovec parts[] = {{&out, sizeof out}, {(void*)body, size}};
  if (writev(device, parts, size == 0 ? 1 : 2) < 0 && errno != ENOENT) perror("silent_fs: answer");
}

static struct fuse_attr about(uint64_t node) {
  int is_file = node == kFile;
  return (struct fuse_attr){.ino = node,
                            .size = is_file ? 4096 : 0,
                            .mode = is_file ? S_IFREG | 0666 : S_IFDIR | 0777,
                            .nlink = 1,
                            .blksize = 4096};
}

static void serve(const struct fuse_in_header* in, const void* body) {
  switch (in->opcode) {
    case FUSE_INIT: {
      struct fuse_init_out out = {
          .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_write = 4096};
      return answer(in, 0, &out, sizeof out);
    }
    case FUSE_LOOKUP: {
      struct fuse_entry_out out = {.nodeid = kFile, .attr = about(kFile)};
      return strcmp(body, "file") == 0 ? answer(in, 0, &out, sizeof out) : answer(in, ENOENT, NULL, 0);
    }
    case FUSE_GETATTR: {
      struct fuse_attr_out out = {.attr = about(in->nodeid)};
      return answer(in, 0, &out, sizeof out);
    }
    case FUSE_OPEN: {
      struct fuse_open_out out = {.open_flags = FOPEN_DIRECT_IO};
      return answer(in, 0, &out, sizeof out);
    }
    case FUSE_READ:
    case FUSE_INTERRUPT:
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET: return;
    case FUSE_RELEASE:
    case FUSE_FLUSH: return answer(in, 0, NULL, 0);
    default: return answer(in, ENOSYS, NULL, 0);
  }
}

int main(int argc, char** argv) {
  static char request[kRequest];
  char options[128];
  device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device);
  if (argc != 2 || device < 0 || mount("silent", argv[1], "fuse.silent", MS_NOSUID | MS_NODEV, options) != 0) {
    perror("silent_fs");
    return 1;
  }
  for (;;) {
    ssize_t got = read(device, request, sizeof request);
    if (got < 0 && (errno == EINTR || errno == ENOENT)) continue;
    if (got < (ssize_t)sizeof(struct fuse_in_header)) return 0;  // it has been unmounted
    serve((const struct fuse_in_header*)request, request + sizeof(struct fuse_in_header));
  }
}
