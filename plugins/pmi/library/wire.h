// SPDX-License-Identifier: Apache-2.0
//
// The client's side of the socket in PMI_FD, or of the connection to PMI_PORT, for libpmi.so and libpmi2.so: text
// that grows, and messages in both forms. Plain C, without a shell: programs load it.
#ifndef NACRE_PMI_WIRE_H
#define NACRE_PMI_WIRE_H

#include <stdbool.h>
#include <stddef.h>

struct text {
  char* data;  // ends with NUL, or NULL: nothing was added
  size_t size, room;
  bool failed;  // there was no memory, or the caller has found that it cannot be sent
};

__attribute__((format(printf, 2, 3))) void text_add(struct text* text, const char* format, ...);
void text_free(struct text* text);

struct wire {
  int fd;
  struct text in;  // what has come
  size_t taken;    // bytes of it that were given to the caller
};

// Connects by PMI_FD or, if that is no number, by PMI_PORT and PMI_ID. -1: neither is set, or the port is not
// there.
int wire_open(struct wire* wire);
void wire_close(struct wire* wire);  // leaves the descriptor to the process, whose end closes it
// -1: errno says why.
int wire_send(struct wire* wire, const char* bytes, size_t size);
// wire_line: the next line, without its end, or the next message of PMI-2: a length of six characters and that many
// bytes. Valid until the next call, and may be written to. NULL: the other end has closed, or sent something else.
char* wire_line(struct wire* wire);
char* wire_body(struct wire* wire);

// The value of the environment's variable as a number, or `otherwise`.
int number_of(const char* variable, int otherwise);
// The first `count` of the numbers in `list`, which are joined by commas; `otherwise` for all missing ones, and if
// there is no list.
void read_numbers(int* out, int count, const char* list, int otherwise);
// Copies `value` into `out` of `size` bytes; false: it does not fit.
bool copy_to(char* out, size_t size, const char* value);

#endif
