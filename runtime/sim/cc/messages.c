// messages.c: the host compiler's messages for a program's log. Repeated consequences of libcusim's
// implementation become one line: an asm statement, which is reported wherever it was inlined, and
// a name expression without a match, which the table of kernels uses several times.
#include "sim/cc/cc.h"

#include <ctype.h>
#include <string.h>

static bool begins(const char *line, const char *with) {
  return !strncmp(line, with, strlen(with));
}

// Length of the position in an error line, "a.cu:3:17"; 0 if none.
static size_t place_length(const char *line, size_t length) {
  const char *marks[] = {": error: ", ": fatal error: "};
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
    const char *mark = memmem(line, length, marks[i], strlen(marks[i]));
    if (mark) return (size_t)(mark - line);
  }
  return 0;
}

static bool contains(const char *line, size_t length, const char *word) {
  return memmem(line, length, word, strlen(word));
}

// A name expression is in line 1 of a file of that name: its line and column are dropped.
static size_t without_numbers(const char *line, size_t place) {
  for (int i = 0; i < 2; i++) {
    while (place && isdigit((unsigned char)line[place - 1])) place--;
    if (place && line[place - 1] == ':') place--;
  }
  return place;
}

// Adds the line that replaces many, unless the log has it.
static void say_once(const char *line, size_t place, size_t length, Text *log) {
  bool expression = begins(line, NAME_EXPRESSION);
  Text text = {0};
  text_append(&text, line, expression ? without_numbers(line, place) : place);
  text_append(&text, ": ", 2);
  if (!expression) text_print(&text, "error: libcusim: inline PTX (asm) is not there\n");
  bool known = text.failed || (log->data && strstr(log->data, text.data));
  if (!known) text_append(log, text.data, text.length);
  if (!known && expression) text_append(log, line + place + 2, length - place - 2);
  text_free(&text);
}

void messages_log(const char *messages, Text *log) {
  Text before = {0}; // "In function ..", "inlined from ..": context of the next error
  bool dropped = false;
  for (const char *line = messages, *next; *line; line = next) {
    size_t length = strcspn(line, "\n");
    next = line + length + (line[length] == '\n');
    length = (size_t)(next - line);
    size_t place = place_length(line, length);
    bool leads = begins(line, "In ") || contains(line, length, "    inlined from") ||
                 contains(line, length, "        from ");
    if (leads) {
      text_append(&before, line, length);
      continue;
    }
    bool own = begins(line, NAME_EXPRESSION) || contains(line, length, "cusim_inline_ptx");
    if (place && own) {
      say_once(line, place, length, log);
    } else if (place || !dropped) {
      if (before.length) text_append(log, before.data, before.length);
      text_append(log, line, length);
    }
    if (place) dropped = own || contains(line, length, "libcusim: ");
    before.length = 0;
  }
  text_free(&before);
}
