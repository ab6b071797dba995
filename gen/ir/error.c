// error.c: user errors, reported with file, line and the source line.
#include "ir.h"

#include <lauxlib.h>
#include <stdarg.h>
#include <string.h>

// Appends line `line` of `path` to *err, as "\n  12 | text".
static void quote_line(Error *err, const char *path, int line) {
  FILE *file = fopen(path, "r");
  if (!file) return;
  char text[256];
  for (int i = 1; fgets(text, sizeof text, file); i += strchr(text, '\n') != NULL) {
    if (i != line) continue;
    text[strcspn(text, "\r\n")] = 0;
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, "\n  %d | %s", line, text);
    break;
  }
  fclose(file);
}

// Returns to the innermost handler: the running Lua call, or the driver's setjmp.
static void leave(Compiler *) __attribute__((noreturn));
static void leave(Compiler *c) {
  if (c->in_lua) {
    lua_pushliteral(c->lua, "nngen error"); // the text is in Compiler.error
    lua_error(c->lua);
  }
  longjmp(c->recover, 1);
}

void err_at(Compiler *c, Loc loc, const char *format, ...) {
  Error *err = c->error;
  err->code = ExitUsage;
  int used = 0;
  if (loc.file) used = snprintf(err->message, sizeof err->message, "%s:%d: ", loc.file, loc.line);
  va_list ap;
  va_start(ap, format);
  vsnprintf(err->message + used, sizeof err->message - (size_t)used, format, ap);
  va_end(ap);
  if (loc.file) quote_line(err, loc.file, loc.line);
  leave(c);
}

void err_code(Compiler *c, int code, const char *format, ...) {
  Error *err = c->error;
  err->code = code;
  va_list ap;
  va_start(ap, format);
  vsnprintf(err->message, sizeof err->message, format, ap);
  va_end(ap);
  leave(c);
}
