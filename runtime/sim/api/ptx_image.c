// ptx_image.c: images that are PTX: text at an address, read with care, or in a fat binary
// (fatbin.c).
#include "sim/api/api.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The text at a program's address, up to its end, into `text`. False: it cannot be read.
static bool take_text(const char *from, Text *text) {
  int fd = image_file();
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  bool ended = false;
  for (const char *at = from; fd >= 0 && !ended;) {
    size_t piece = page - (uintptr_t)at % page;
    if (lseek(fd, 0, SEEK_SET) < 0 ||
        image_write(fd, at, piece) != (ssize_t)piece)
      break;
    size_t length = strnlen(at, piece);
    text_append(text, at, length);
    ended = length < piece;
    at += piece;
  }
  if (fd >= 0) close(fd);
  return ended && !text->failed;
}

bool image_is_text(const void *image) {
  int fd = image_file();
  char first = 0;
  bool ok = fd >= 0 && image_write(fd, image, 1) == 1 && pread(fd, &first, 1, 0) == 1;
  if (fd >= 0) close(fd);
  return ok && ((first && strchr("./ \t\r\n", first)) || fatbin_is(image));
}

void image_give_log(const Text *log, unsigned count, const CUjit_option *options, void **values) {
  char *buffer = NULL;
  size_t room = 0;
  for (unsigned i = 0; options && values && i < count; i++) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer = values[i];
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) room = (size_t)(uintptr_t)values[i];
  }
  if (buffer && room) snprintf(buffer, room, "%s", log->data ? log->data : "");
}

static PtxJob make_job(void) {
  const Settings *s = sim_settings();
  return (PtxJob){.arch = 10 * sim_device()->major + sim_device()->minor,
                  .checks = (s->trace ? CusimTrace : 0) | (s->count ? CusimCount : 0)};
}

CUresult image_of_text(const char *from, Text *image, Text *log) {
  Text text = {0};
  PtxJob job = make_job();
  CUresult r = CUDA_ERROR_INVALID_IMAGE;
  if (fatbin_is(from)) {
    r = fatbin_ptx(from, job.arch, &text, log);
    if (r == CUDA_SUCCESS) r = ptx_compile(text.data ? text.data : "", &job, image, log);
  } else if (!take_text(from, &text))
    text_print(log, "the kernel image is a text whose end cannot be read");
  else if (!ptx_is_text(text.data))
    text_print(log, "the kernel image was not made by libcusim's NVRTC, and is not PTX");
  else
    r = ptx_compile(text.data, &job, image, log);
  text_free(&text);
  return r;
}

// Checks PTX, as text or in a fat binary, without compiling the translation; for tests. log: its
// first bytes.
__attribute__((visibility("default"))) CUresult cusimTranslatePtx(const char *ptx, char *log,
                                                                  size_t room, size_t *c_bytes);
CUresult cusimTranslatePtx(const char *ptx, char *log, size_t room, size_t *c_bytes) {
  Text c_text = {0}, words = {0}, unpacked = {0};
  PtxJob job = make_job();
  CUresult r = CUDA_SUCCESS;
  if (fatbin_is(ptx)) {
    r = fatbin_ptx(ptx, job.arch, &unpacked, &words);
    ptx = unpacked.data ? unpacked.data : "";
  }
  if (r == CUDA_SUCCESS) r = ptx_translate(ptx, &job, &c_text, &words);
  if (log && room) snprintf(log, room, "%s", words.data ? words.data : "");
  if (c_bytes) *c_bytes = c_text.length;
  text_free(&c_text);
  text_free(&words);
  text_free(&unpacked);
  return r;
}
