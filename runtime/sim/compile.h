// compile.h: from CUDA C++ to a kernel image: text, tokens, and what the files of the compiler give
// each other, in the order a program passes through them: nvrtc.c -> host_compiler.c -> rewrite.c.
#ifndef CUSIM_COMPILE_H
#define CUSIM_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_api.h"
#include "sim/device/cusim_abi.h"

#pragma GCC visibility push(hidden)

// ---- text (text.c), tokens (tokens.c) -----------------------------------------------------------

typedef struct Text { // growing bytes, always NUL-terminated
  char *data;
  size_t length, room;
  bool failed; // out of memory; later appends do nothing
} Text;

void text_append(Text *text, const char *bytes, size_t length);
void text_print(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(Text *text);

typedef struct Token {
  const char *begin, *end; // of the source; empty where it ends
} Token;

Token token_at(const char *p); // begins there: a name, number, quoted text, or one character
bool token_is(Token token, const char *word);
bool token_is_name(Token token);
// Past blanks, comments and the preprocessor's line markers; start: where the text begins.
const char *token_skip_blank(const char *p, const char *start);
const char *token_skip_brackets(const char *p); // past the one that closes ( [ { at p

// ---- the passes ---------------------------------------------------------------------------------

typedef struct CompileJob {
  const char *source, *name;
  int header_count;
  const char *const *headers, *const *header_names;
  const char *const *expressions; // name expressions of template kernels, ended by null
  const char *const *options;     // for the preprocessor and compiler, ended by null
  int arch;                       // 90
  int checks;                     // CusimCheck bits
} CompileJob;

// Fills image (an ELF shared object) and log. NVRTC_SUCCESS, COMPILATION or INTERNAL_ERROR.
nvrtcResult host_compile(const CompileJob *job, Text *image, Text *log);
const char *host_cpu(void); // names the instruction sets that images are compiled for

// Rewrites preprocessed CUDA C++ into C++: shared memory, and the list of kernels at the end.
void rewrite_source(const CompileJob *job, const char *source, Text *out);

// Counts the operations of each basic block of compiler output; out: the same with the table.
void assembly_count(const char *source, Text *out);

#pragma GCC visibility pop
#endif
