// link.c: cuLink*: joins modules of PTX, which may use each other's functions and variables. The
// result is one PTX text, the inputs concatenated: the parser accepts a header for each, and a
// function that one declares and another defines.
#include "sim/api/api.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { InputPtx = 1, InputObject = 3, InputLibrary = 4 };

typedef struct Input { // a piece of the text
  struct Input *next; // the one before it
  int line;           // of the text, its first
  char name[];
} Input;

struct CUlinkState_st {
  Text text;
  int lines, given; // of the text; inputs, wrong ones too
  Input *inputs;  // the newest first
  unsigned count; // of options, which live until the end
  CUjit_option *options;
  void **values;
};

static bool is_link(CUlinkState link) {
  return handle_is(HandleLink, link);
}

CUresult cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values, CUlinkState *out) {
  CUresult r = sim_context_check();
  if (r != CUDA_SUCCESS) return r;
  if (!out || (count && (!options || !values))) return CUDA_ERROR_INVALID_VALUE;
  CUlinkState link = calloc(1, sizeof *link);
  if (!link || !handle_add(HandleLink, link)) return free(link), CUDA_ERROR_OUT_OF_MEMORY;
  link->count = count;
  link->options = options;
  link->values = values;
  *out = link;
  return CUDA_SUCCESS;
}

// ---- error messages -----------------------------------------------------------------------------

// Writes "NAME: words" to the program's log and the first line to stderr.
static CUresult say(CUlinkState link, CUresult r, const char *name, const char *words) {
  Text log = {0};
  text_print(&log, "%s: %s", name, words);
  image_give_log(&log, link->count, link->options, link->values);
  if (log.data) sim_refuse(r, "%.*s", (int)strcspn(log.data, "\n"), log.data);
  text_free(&log);
  return r;
}

// For an error in the linked text: with the line in its input.
static CUresult say_linked(CUlinkState link, CUresult r, const char *words) {
  int line = 0, length = 0;
  Input *in = link->inputs;
  if (sscanf(words, "ptx, line %d:%n", &line, &length) != 1 || !length || !in)
    return say(link, r, "cuLinkComplete", words);
  while (in->next && in->line > line) in = in->next;
  Text moved = {0};
  text_print(&moved, "ptx, line %d:%s", line - in->line + 1, words + length);
  say(link, r, in->name, moved.data ? moved.data : words);
  text_free(&moved);
  return r;
}

// ---- inputs -------------------------------------------------------------------------------------

static CUresult add_input(CUlinkState link, const char *name, const char *text) {
  Input *in = malloc(sizeof *in + strlen(name) + 1);
  if (!in) return CUDA_ERROR_OUT_OF_MEMORY;
  strcpy(in->name, name);
  in->line = link->lines + 1;
  in->next = link->inputs;
  link->inputs = in;
  text_print(&link->text, "%s\n", text);
  for (link->lines++; (text = strchr(text, '\n')); text++) link->lines++;
  return link->text.failed ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

// Checks a piece alone first, for errors with its line numbers.
static CUresult add_text(CUlinkState link, const char *name, const char *text) {
  Text log = {0};
  CUresult r = ptx_check(text, &log);
  if (r == CUDA_SUCCESS) r = add_input(link, name, text);
  else
    say(link, r, name, log.data ? log.data : "");
  text_free(&log);
  return r;
}

typedef struct Given { // an input on its way into a link
  CUlinkState link;
  const char *name;
  bool library; // a library: members without PTX are skipped, as libcudadevrt.a
} Given;

static CUresult add_fatbin(void *user, const void *fatbin) {
  const Given *given = user;
  Text text = {0}, log = {0};
  CUresult r = fatbin_ptx(fatbin, 10 * sim_device()->major + sim_device()->minor, &text, &log);
  if (r == CUDA_ERROR_NO_BINARY_FOR_GPU && given->library) r = CUDA_SUCCESS;
  else if (r != CUDA_SUCCESS) say(given->link, r, given->name, log.data ? log.data : "");
  else r = add_text(given->link, given->name, text.data ? text.data : "");
  text_free(&text);
  text_free(&log);
  return r;
}

static CUresult add_host_object(Given *given, const void *data, size_t bytes) {
  int found;
  CUresult r = host_object_fatbins(data, bytes, add_fatbin, given, &found);
  if (r == CUDA_SUCCESS && !found)
    r = say(given->link, CUDA_ERROR_INVALID_IMAGE, given->name,
            "there is no fat binary in it: PTX, fat binaries, and objects or archives of the "
            "host with such are accepted");
  return r;
}

CUresult cuLinkAddData_v2(CUlinkState link, int type, void *data, size_t bytes, const char *name,
                          unsigned count, CUjit_option *options, void **values) {
  (void)count, (void)options, (void)values;
  if (!is_link(link) || !data) return CUDA_ERROR_INVALID_VALUE;
  Given given = {link, name, type == InputLibrary};
  char number[32];
  snprintf(number, sizeof number, "input %d", ++link->given);
  if (!name || !*name) given.name = number;
  if (fatbin_is(data)) return add_fatbin(&given, data);
  if (type == InputObject || type == InputLibrary) return add_host_object(&given, data, bytes);
  if (type != InputPtx)
    return say(link, CUDA_ERROR_NOT_SUPPORTED, given.name,
               "cuLinkAddData: expected PTX, or a fat binary with PTX");
  Text text = {0};
  text_append(&text, data, strnlen(data, bytes));
  CUresult r = add_text(link, given.name, text.data ? text.data : "");
  text_free(&text);
  return r;
}

CUresult cuLinkAddFile_v2(CUlinkState link, int type, const char *path, unsigned count,
                          CUjit_option *options, void **values) {
  if (!is_link(link) || !path) return CUDA_ERROR_INVALID_VALUE;
  FILE *file = fopen(path, "rb");
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  Text text = {0};
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) text_append(&text, part, n);
  fclose(file);
  CUresult r = cuLinkAddData_v2(link, type, text.data ? text.data : "", text.length + 1, path,
                                count, options, values);
  text_free(&text);
  return r;
}

CUresult cuLinkComplete(CUlinkState link, void **image, size_t *bytes) {
  if (!is_link(link) || !image) return CUDA_ERROR_INVALID_VALUE;
  Text log = {0}, made = {0};
  CUresult r = image_of_text(link->text.data ? link->text.data : "", &made, &log);
  if (r != CUDA_SUCCESS) say_linked(link, r, log.data ? log.data : "");
  text_free(&log);
  text_free(&link->text);
  link->text = made;
  if (r != CUDA_SUCCESS) return r;
  *image = made.data;
  if (bytes) *bytes = made.length;
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState link) {
  if (!is_link(link)) return CUDA_ERROR_INVALID_VALUE;
  handle_drop(link);
  text_free(&link->text);
  for (Input *in = link->inputs, *next; in; in = next) {
    next = in->next;
    free(in);
  }
  free(link);
  return CUDA_SUCCESS;
}
