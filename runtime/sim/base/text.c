// text.c: growing text.
#include "sim/base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void text_append(Text *text, const char *bytes, size_t length) {
  if (text->failed) return;
  if (text->length + length + 1 > text->room) {
    size_t room = 2 * (text->length + length) + 256;
    char *grown = realloc(text->data, room);
    if (!grown) {
      text->failed = true;
      return;
    }
    text->data = grown, text->room = room;
  }
  memcpy(text->data + text->length, bytes, length);
  text->length += length;
  text->data[text->length] = 0;
}

void text_print(Text *text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *line = NULL;
  int length = vasprintf(&line, format, args);
  va_end(args);
  if (length < 0) {
    text->failed = true;
    return;
  }
  text_append(text, line, (size_t)length);
  free(line);
}

void text_free(Text *text) {
  free(text->data);
  *text = (Text){0};
}

// A word at a time, after FNV-1a: for file names; not cryptographic.
uint64_t hash_bytes(uint64_t state, const void *bytes, size_t length) {
  const unsigned char *p = bytes;
  for (uint64_t word; length; p += sizeof word) {
    size_t n = length < sizeof word ? length : sizeof word;
    word = n;
    memcpy(&word, p, n);
    state = (state ^ word) * 1099511628211u;
    state ^= state >> 29;
    length -= n;
  }
  return state;
}
