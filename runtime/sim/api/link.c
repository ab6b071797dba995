// link.c: cuLink*: modules of PTX joined into one, which names each other's functions and
// variables. What is linked is one PTX text behind the others': the parser takes a head for each,
// and a function that one declares and another defines. The image that is given out is that text.
#include "sim/api/api.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { InputPtx = 1, InputFatbin = 2 };

struct CUlinkState_st {
  Text text;
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

// Says what is wrong with a piece before others stand in front of it.
static CUresult add_text(CUlinkState link, const char *text) {
  Text log = {0};
  CUresult r = ptx_check(text, &log);
  if (r == CUDA_SUCCESS) text_print(&link->text, "%s\n", text);
  if (link->text.failed) r = CUDA_ERROR_OUT_OF_MEMORY;
  image_give_log(&log, link->count, link->options, link->values);
  if (r != CUDA_SUCCESS && log.data) sim_refuse(r, "%.*s", (int)strcspn(log.data, "\n"), log.data);
  text_free(&log);
  return r;
}

CUresult cuLinkAddData_v2(CUlinkState link, int type, void *data, size_t bytes, const char *name,
                          unsigned count, CUjit_option *options, void **values) {
  (void)name, (void)count, (void)options, (void)values;
  if (!is_link(link) || !data) return CUDA_ERROR_INVALID_VALUE;
  Text text = {0}, log = {0};
  CUresult r = CUDA_SUCCESS;
  if (fatbin_is(data))
    r = fatbin_ptx(data, 10 * sim_device()->major + sim_device()->minor, &text, &log);
  else if (type == InputPtx)
    text_append(&text, data, strnlen(data, bytes));
  else
    r = sim_refuse(CUDA_ERROR_NOT_SUPPORTED,
                   "cuLinkAddData: PTX and fat binaries with PTX are taken");
  if (r == CUDA_SUCCESS) r = add_text(link, text.data ? text.data : "");
  text_free(&text);
  text_free(&log);
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
  image_give_log(&log, link->count, link->options, link->values);
  if (r != CUDA_SUCCESS && log.data) sim_refuse(r, "%.*s", (int)strcspn(log.data, "\n"), log.data);
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
  free(link);
  return CUDA_SUCCESS;
}
