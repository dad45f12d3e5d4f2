// SPDX-License-Identifier: Apache-2.0
//
// container-keeper SOCKET: the first process of a container that tasks enter. It keeps the container until the
// shell closes its end of the socket, in whatever way it ends. It is linked statically: an image may hold nothing.
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char** argv) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (argc != 2 || strlen(argv[1]) >= sizeof address.sun_path) return 2;
  memcpy(address.sun_path, argv[1], strlen(argv[1]) + 1);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (const struct sockaddr*)&address, sizeof address) < 0) return 1;
  char byte = 0;
  ssize_t got = 0;
  do {
    got = read(fd, &byte, 1);
  } while (got > 0 || (got < 0 && errno == EINTR));
  return 0;
}
