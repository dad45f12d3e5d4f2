// SPDX-License-Identifier: Apache-2.0
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kLengthSize = 6, kReadSize = 4096, kMaxBody = 16 << 20 };

static bool text_grow(struct text* text, size_t more) {
  if (text->failed) return false;
  if (text->room - text->size > more) return true;
  size_t room = 2 * text->room + more + 1;
  char* data = realloc(text->data, room);
  if (data == NULL) {
    text->failed = true;
    return false;
  }
  text->data = data;
  text->room = room;
  return true;
}

void text_add(struct text* text, const char* format, ...) {
  va_list args;
  va_start(args, format);
  int size = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (size < 0 || !text_grow(text, (size_t)size)) {
    text->failed = true;
    return;
  }
  va_start(args, format);
  vsnprintf(text->data + text->size, (size_t)size + 1, format, args);
  va_end(args);
  text->size += (size_t)size;
}

void text_free(struct text* text) {
  free(text->data);
  *text = (struct text){NULL, 0, 0, false};
}

int number_of(const char* variable, int otherwise) {
  const char* text = getenv(variable);
  if (text == NULL || *text == '\0') return otherwise;
  char* end = NULL;
  errno = 0;
  long value = strtol(text, &end, 10);
  return *end != '\0' || errno != 0 || value < 0 || value > INT32_MAX ? otherwise : (int)value;
}

void read_numbers(int* out, int count, const char* list, int otherwise) {
  for (int i = 0; i < count; ++i) {
    out[i] = list != NULL && *list != '\0' ? atoi(list) : otherwise;
    list = list != NULL ? strchr(list, ',') : NULL;
    if (list != NULL) ++list;
  }
}

bool copy_to(char* out, size_t size, const char* value) {
  size_t needed = strlen(value) + 1;
  if (needed > size) return false;
  memcpy(out, value, needed);
  return true;
}

void wire_close(struct wire* wire) {
  text_free(&wire->in);
  wire->fd = -1;
}

int wire_send(struct wire* wire, const char* bytes, size_t size) {
  while (size > 0) {
    ssize_t sent = send(wire->fd, bytes, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == ENOTSOCK) sent = write(wire->fd, bytes, size);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return -1;
    bytes += sent;
    size -= (size_t)sent;
  }
  return 0;
}

// Reads more bytes, after dropping those that the caller has got.
static bool read_more(struct wire* wire) {
  struct text* in = &wire->in;
  if (wire->taken > 0) {
    memmove(in->data, in->data + wire->taken, in->size - wire->taken);
    in->size -= wire->taken;
    wire->taken = 0;
  }
  if (in->size > kMaxBody || !text_grow(in, kReadSize)) return false;
  ssize_t got;
  do {
    got = read(wire->fd, in->data + in->size, kReadSize);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  in->size += (size_t)got;
  return true;
}

// Waits for `size` bytes that the caller has not got yet.
static char* await(struct wire* wire, size_t size) {
  while (wire->in.size - wire->taken < size) {
    if (!read_more(wire)) return NULL;
  }
  return wire->in.data + wire->taken;
}

char* wire_line(struct wire* wire) {
  for (size_t seen = 0;;) {
    size_t have = wire->in.size - wire->taken;
    char* start = have > 0 ? wire->in.data + wire->taken : NULL;
    char* end = start != NULL ? memchr(start + seen, '\n', have - seen) : NULL;
    if (end != NULL) {
      *end = '\0';
      wire->taken += (size_t)(end - start) + 1;
      return start;
    }
    seen = have;
    if (!read_more(wire)) return NULL;
  }
}

// PMI_PORT is IPV4:PORT.
static int connect_to_port(void) {
  char host[INET_ADDRSTRLEN];
  const char* text = getenv("PMI_PORT");
  const char* colon = text != NULL ? strchr(text, ':') : NULL;
  struct sockaddr_in address = {.sin_family = AF_INET};
  if (colon == NULL || colon - text >= (long)sizeof host) return -1;
  memcpy(host, text, (size_t)(colon - text));
  host[colon - text] = '\0';
  address.sin_port = htons((uint16_t)atoi(colon + 1));
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) return -1;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (const struct sockaddr*)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

// The answer has a line each for the size, the rank and whether to debug, which are also in the environment.
static int introduce(struct wire* wire) {
  struct text text = {0};
  text_add(&text, "cmd=initack pmiid=%d\n", number_of("PMI_ID", -1));
  int code = text.failed ? -1 : wire_send(wire, text.data, text.size);
  text_free(&text);
  const char* line = code == 0 ? wire_line(wire) : NULL;
  if (line == NULL || strncmp(line, "cmd=initack rc=0", 16) != 0) return -1;
  for (int i = 0; i < 3; ++i) {
    if (wire_line(wire) == NULL) return -1;
  }
  return 0;
}

int wire_open(struct wire* wire) {
  *wire = (struct wire){.fd = number_of("PMI_FD", -1)};
  if (wire->fd >= 0) return 0;
  wire->fd = connect_to_port();
  return wire->fd < 0 ? -1 : introduce(wire);
}

char* wire_body(struct wire* wire) {
  char digits[kLengthSize + 1] = "";
  char* head = await(wire, kLengthSize);
  if (head == NULL) return NULL;
  memcpy(digits, head, kLengthSize);
  long size = strtol(digits, NULL, 10);
  if (size <= 0 || size > kMaxBody) return NULL;
  char* whole = await(wire, kLengthSize + (size_t)size);
  if (whole == NULL) return NULL;
  wire->taken += kLengthSize;
  // The body moves over the last character of its length, so that a NUL fits behind it.
  char* body = whole + kLengthSize;
  memmove(body - 1, body, (size_t)size);
  body[size - 1] = '\0';
  wire->taken += (size_t)size;
  return body - 1;
}
