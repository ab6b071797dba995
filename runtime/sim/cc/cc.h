// cc.h: from CUDA C++ to a kernel image, by the host's C++ compiler. Interfaces of the files, in
// the order a program passes through them: compile.c -> preprocess.c or prefix.c -> rewrite.c ->
// kernels.c -> assembly.c.
#ifndef CUSIM_CC_H
#define CUSIM_CC_H

#include "sim/base/base.h"
#include "sim/device/cusim_abi.h"

#pragma GCC visibility push(hidden)

// ---- tokens (tokens.c) --------------------------------------------------------------------------

typedef struct Token {
  const char *begin, *end; // of the source; empty at its end
} Token;

Token token_at(const char *p); // begins there: a name, number, quoted text, or one character
bool token_is(Token token, const char *word);
bool token_is_name(Token token);
// Skips blanks, comments and the preprocessor's line markers; start: beginning of the text.
const char *token_skip_blank(const char *p, const char *start);
const char *token_skip_brackets(const char *p); // past the one that closes ( [ { at p

// ---- kernels (declaration.c, kernels.c) ---------------------------------------------------------

typedef struct Declaration { // of a kernel; parts that it lacks are empty
  Token header;              // `template <class T>`
  Token path, last;          // `ns::k`, `k`
  Token arguments;           // `<float>`
  Token params;              // `(float *x, int n)`
  Token bounds, registers;   // `(128, 2)` of __launch_bounds__, `(64)` of __maxnreg__
  Token cluster;             // `(2, 1, 1)` of __cluster_dims__
  Token limits[3];           // launch limits, from their markers on, in the order of the source
  bool instantiates;         // `template` without a header
  bool defined;              // a body follows
  const char *end;           // of the part before the parameters
} Declaration;

// p: after `__global__`; template: that word before it, or NULL.
void declaration_parse(const char *p, const char *template, Declaration *declaration);
bool declaration_is_attribute(Token t);
void declaration_copy(Text *out, Token part); // in one line
void declaration_copy_params(Text *out, Token params);

typedef struct Kernels Kernels; // kernels of a program found so far

Kernels *kernels_make(void);
void kernels_free(Kernels *kernels);
bool kernels_any(const Kernels *kernels); // true if there are any
// Notes a declaration inside namespaces, scope: "a::b::" or "". out: text to insert after it.
void kernels_note(Kernels *kernels, const char *scope, const Declaration *declaration, Text *out);

// ---- the passes ---------------------------------------------------------------------------------

typedef struct CompileJob {
  const char *source, *name;
  int header_count;
  const char *const *headers, *const *header_names;
  const char *const *expressions; // name expressions of template kernels, ended by null
  const char *const *options;     // for the preprocessor and compiler, ended by NULL
  int arch;                       // 90
  int registers;                  // of -maxrregcount; 0: not given
  int checks;                     // CusimCheck bits
  const char *optimize;           // -O2: an option of the compiler
} CompileJob;

// Fills image (an ELF shared object) and log. NVRTC_SUCCESS, COMPILATION or INTERNAL_ERROR.
nvrtcResult host_compile(const CompileJob *job, Text *image, Text *log);

// Runs the compiler in the folder; its messages, edited for the program, go to the log.
bool compiler_run(const char *folder, Args *args, Text *log);

// Writes the program's files to the folder, and source.ii: the preprocessor's output
// (preprocess.c).
bool preprocess_inputs(const CompileJob *job, const char *folder, Text *log);
bool preprocess_header(const char *folder, const char *only, // of libcusim; null: all
                       Text *log);
bool preprocess(const CompileJob *job, const Args *compiler, const char *folder,
                const char *more, // an option; or null
                Text *log);
bool preprocess_takes(const char *option); // an option only for the preprocessor

// The rewritten text, without running the preprocessor (prefix.c, macros.c). False: the
// preprocessor is needed. path: of the file that the text begins with.
bool prefix_find(const CompileJob *job, const Args *compiler, const char *folder, char path[kPath],
                 Text *out);

typedef struct Macros Macros;
Macros *macros_read(const char *text); // "#define NAME body" in lines; which must outlive them
void macros_free(Macros *macros);
// The preprocessed source, without the includes before `own`. False: only the preprocessor can do
// it.
bool macros_expand(const Macros *macros, const char *source, const char *own, Text *out);

// Prints the table of kernels and name expressions, which the image exports as cusim_image.
void kernels_table(Kernels *kernels, const CompileJob *job, Text *out);

// Rewrites preprocessed CUDA C++ into C++: shared memory, and the list of kernels at the end.
void rewrite_source(const CompileJob *job, const char *source, Text *out);
// Rewrites a part, without the list. barriers: their number so far. True: the part ends outside of
// all braces.
bool rewrite_part(Kernels *kernels, const char *source, int *barriers, Text *out);

// Converts the compiler's messages for the program's log (messages.c).
void messages_log(const char *messages, Text *log);
#define NAME_EXPRESSION "name expression " // + the expression: file name of its row

// Counts the operations of each basic block of compiler output; out: the text with the table.
void assembly_count(const char *source, Text *out);

#pragma GCC visibility pop
#endif
