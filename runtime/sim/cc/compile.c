// compile.c: CUDA C++ source -> kernel image, by the host's C++ compiler.
//
// In a private temporary folder: the source and its in-memory headers are written out, the compiler
// preprocesses them behind cusim.h, rewrite.c turns the result into C++, and the compiler makes a
// shared object of it. Programs are compiled side by side; nothing here is shared between them.
#include "sim/cc/cc.h"

#include <stdlib.h>
#include <string.h>

typedef struct Asset {
  const char *name, *begin, *end;
} Asset;
extern const Asset sim_assets[]; // runtime/sim/device/*

static bool is_safe(const char *name) {
  return *name && *name != '/' && !strstr(name, "..");
}

// Of the program's headers, or a file of the process's working folder, or of an include path.
static void include_first(const CompileJob *job, const char *name, Text *text) {
  bool given = false;
  for (int i = 0; i < job->header_count; i++) given |= !strcmp(job->header_names[i], name);
  char *whole = given ? NULL : realpath(name, NULL);
  text_print(text, "#include <%s>\n", whole ? whole : name);
  free(whole);
}

static bool is_for_source(const char *option) {
  return !strncmp(option, "-D", 2) || !strncmp(option, "-U", 2) || !strncmp(option, "-include", 8);
}

// -D, -U and, after them, -include as a file: on the command line they would reach cusim.h, too.
static bool write_macros(const CompileJob *job, const char *folder, Text *log) {
  Text text = {0};
  for (const char *const *o = job->options; *o; o++) {
    if (!strncmp(*o, "-U", 2)) text_print(&text, "#undef %s\n", *o + 2);
    if (strncmp(*o, "-D", 2) != 0) continue;
    int name = (int)strcspn(*o + 2, "=");
    const char *value = *o + 2 + name;
    text_print(&text, "#define %.*s %s\n", name, *o + 2, *value ? value + 1 : "1");
  }
  for (const char *const *o = job->options; *o; o++)
    if (!strncmp(*o, "-include", 8)) include_first(job, *o + 8, &text);
  bool ok = !text.failed &&
            folder_write(folder, "device/macros.h", text.data ? text.data : "", text.length, log);
  text_free(&text);
  return ok;
}

static bool write_inputs(const CompileJob *job, const char *folder, Text *log) {
  for (const Asset *a = sim_assets; a->name; a++) {
    char name[256];
    snprintf(name, sizeof name, "%s", strstr(a->name, "device/"));
    if (!folder_write(folder, name, a->begin, (size_t)(a->end - a->begin), log)) return false;
  }
  for (int i = 0; i < job->header_count; i++)
    if (is_safe(job->header_names[i]) &&
        !folder_write(folder, job->header_names[i], job->headers[i], strlen(job->headers[i]), log))
      return false;
  Text source = {0};
  text_print(&source, "#line 1 \"%s\"\n%s\n",
             job->name && *job->name ? job->name : "default_program", job->source);
  bool ok = !source.failed && write_macros(job, folder, log) &&
            folder_write(folder, "source.cu", source.data, source.length, log);
  text_free(&source);
  return ok;
}

// ---- running the compiler -----------------------------------------------------------------------

// Its messages go to the log, as a program is to read them.
static int run_in(const char *folder, Args *args, Text *log) {
  Text said = {0};
  int code = host_run(folder, args, &said, log);
  if (said.data && said.length) messages_log(said.data, log);
  text_free(&said);
  return code;
}

// The folder of the program's named source: headers in quotes are found there, as NVRTC finds them.
static char *source_folder(const CompileJob *job) {
  const char *slash = job->name ? strrchr(job->name, '/') : NULL;
  char *folder = slash ? strndup(job->name, (size_t)(slash - job->name) + 1) : strdup(".");
  char *whole = folder ? realpath(folder, NULL) : NULL, *option = NULL;
  if (whole && asprintf(&option, "-iquote%s", whole) < 0) option = NULL;
  free(folder);
  free(whole);
  return option;
}

static bool preprocess(const CompileJob *job, const Args *compiler, const char *folder, Text *log) {
  char arch[64], list[64], *beside = source_folder(job);
  snprintf(arch, sizeof arch, "-D__CUDA_ARCH__=%d", job->arch * 10);
  snprintf(list, sizeof list, "-D__CUDA_ARCH_LIST__=%d", job->arch * 10);
  Args args = *compiler;
  args_add_all(&args, (const char *[]){"-E",
                                  "-x",
                                  "c++",
                                  "-std=c++17",
                                  "-w",
                                  "-D__CUSIM__=1",
                                  "-D__CUDACC__=1",
                                  "-D__CUDACC_RTC__=1",
                                  "-D__CUDACC_VER_MAJOR__=13", // as nvrtcVersion
                                  "-D__CUDACC_VER_MINOR__=0",
                                  arch,
                                  list,
                                  job->checks & CusimTrace ? "-DCUSIM_TRACE=1" : "-DCUSIM_TRACE=0",
                                  job->checks & CusimCount ? "-DCUSIM_COUNT=1" : "-DCUSIM_COUNT=0",
                                  "-march=native",
                                  "-nostdinc",
                                  "-nostdinc++",
                                  "-I.",
                                  "-Idevice",
                                  "-include",
                                  "device/cusim.h",
                                  "-include",
                                  "device/cusim_env.h",
                                  "-include",
                                  "device/macros.h",
                                  NULL});
  for (const char *const *o = job->options; *o; o++)
    if (!is_for_source(*o)) args_add(&args, *o);
  if (beside) args_add(&args, beside);
  args_add_all(&args, (const char *[]){"source.cu", "-o", "source.ii", NULL});
  bool ok = run_in(folder, &args, log) == 0;
  free(beside);
  return ok;
}

static bool rewrite(const CompileJob *job, const char *folder, Text *log) {
  Text before = {0}, after = {0};
  bool ok = folder_read_output(folder, "source.ii", &before, log);
  if (ok) rewrite_source(job, before.data, &after);
  ok = ok && !after.failed && folder_write(folder, "kernels.ii", after.data, after.length, log);
  text_free(&before);
  text_free(&after);
  return ok;
}

// What cusim.h's marks in the preprocessed text tell of the compiler, whatever its name.
typedef struct Marks {
  bool clang, fills_registers;
} Marks;

static Marks read_marks(const char *folder, Text *log) {
  Text text = {0};
  Marks marks = {0};
  if (folder_read_output(folder, "source.ii", &text, log)) {
    marks.clang = strstr(text.data, "cusim_is_clang");
    marks.fills_registers = strstr(text.data, "cusim_fills_registers");
  }
  text_free(&text);
  return marks;
}

// NOTE: Clang (up to 14) announces no bytes that it moves by memcpy and its like, but calls these:
// tsan_abi.c has them.
static const char moved_bytes[] = "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset";

static bool link_image(const Args *compiler, bool clang, const char *folder, Text *log) {
  Args args = *compiler;
  if (clang) args_add(&args, moved_bytes);
  args_add_all(&args, (const char *[]){"-shared", "-fPIC", "-Wl,-Bsymbolic", "-Wl,--emit-relocs",
                                  "counted.s", "device/cusim_guard.s", "-o", "image.so",
                                  "-nostdlib", "-lm", NULL});
  return run_in(folder, &args, log) == 0;
}

// Does a line of preprocessed text enter a file (1), come back to one (-1), or neither (0)?
static int line_enters(const char *line) {
  const char *end = strchr(line, '\n'), *flag = strstr(line, "\" ");
  if (strncmp(line, "# ", 2) != 0 || !end || !flag || flag > end) return 0;
  return flag[2] == '1' ? 1 : flag[2] == '2' ? -1 : 0;
}

// A file that the program includes before it says anything itself, as nngen's kernels do with one
// and the same: from the line that enters it to the one that comes back. False: there is none.
static bool find_first(const char *source, Token *file) {
  int depth = 0;
  *file = (Token){NULL, NULL};
  for (const char *line = source; *line && !file->end; line = strchr(line, '\n') + 1) {
    bool is_mark = !strncmp(line, "# ", 2), entered = depth > 0;
    depth += line_enters(line);
    if (!entered && depth == 1) file->begin = line;
    if (entered && depth == 0) file->end = line;
    if (depth < 0 || (depth == 0 && !is_mark && *line != '\n') || !strchr(line, '\n')) break;
  }
  return file->end;
}

// The text that kernels.ii begins with and other programs, too: libcusim's own headers, which end
// where the preprocessor comes to the program's source, and the first file that this includes. The
// rest is put behind *rest's text.
static bool split_headers(const Text *kernels, Text *headers, Text *rest) {
  const char *source = strstr(kernels->data, "\n# 1 \"source.cu\"\n");
  Token first;
  if (!source) return false;
  source++;
  text_append(headers, kernels->data, (size_t)(source - kernels->data));
  if (find_first(source, &first)) {
    text_append(headers, first.begin, (size_t)(first.end - first.begin));
    const char *flag = strstr(first.end, "\" ") + 1; // of coming back to what was never left
    text_append(rest, first.end, (size_t)(flag - first.end));
    source = strchr(flag, '\n');
  }
  text_append(rest, source, strlen(source));
  return !headers->failed && !rest->failed;
}

// kernels.ii, what it begins with precompiled. False: it is for the caller to compile.
static bool compile_precompiled(const char *folder, const Args *options, const char *const *last) {
  char path[kPath];
  Text kernels = {0}, headers = {0}, behind = {0}, rest = {0}, log = {0};
  Args args = *options;
  args_add(&args, "-fpreprocessed");
  bool ok = sim_settings()->precompiled && folder_read(folder, "kernels.ii", &kernels) &&
            split_headers(&kernels, &headers, &behind) &&
            folder_write(folder, "headers.ii", headers.data, headers.length, &log) &&
            precompiled_find(folder, "headers.ii", &headers, &args, path);
  if (ok) {
    text_print(&rest, "#pragma GCC pch_preprocess \"%s\"\n", path);
    text_append(&rest, behind.data, behind.length);
    args_add_all(&args, last);
    ok = !rest.failed && folder_write(folder, "kernels.ii", rest.data, rest.length, &log) &&
         precompiled_run(folder, &args, path);
    if (!ok) folder_write(folder, "kernels.ii", kernels.data, kernels.length, &log);
  }
  text_free(&kernels);
  text_free(&headers);
  text_free(&behind);
  text_free(&rest);
  text_free(&log);
  return ok;
}

// kernels.ii by these options, and by `last`, which say what becomes of it.
static bool compile_kernels(const char *folder, const Args *options, bool clang,
                            const char *const *last, Text *log) {
  if (!clang && compile_precompiled(folder, options, last)) return true;
  Args args = *options;
  args_add_all(&args, last);
  return run_in(folder, &args, log) == 0;
}

// For a counted kernel: the assembly with a call per basic block, and its table (assembly.c).
// NOTE: without sibling calls each announcement returns to the block it announces.
static bool make_assembly(const Args *common, bool clang, const char *folder, Text *log) {
  const char *const last[] = {"-S", "-x", "c++-cpp-output", "kernels.ii", "-o", "kernels.s", NULL};
  Args args = *common;
  args_add_all(&args, (const char *[]){clang ? "-fsanitize-coverage=bb,no-prune,trace-pc"
                                        : "-fsanitize-coverage=trace-pc",
                                  "-fno-tree-vectorize", "-fno-tree-slp-vectorize",
                                  "-fno-unroll-loops", "-fno-optimize-sibling-calls", NULL});
  if (!clang)
    args_add(&args, "-fno-thread-jumps"); // what a warp accesses at once stays at one place
  Text before = {0}, after = {0};
  bool ok = compile_kernels(folder, &args, clang, last, log) &&
            folder_read_output(folder, "kernels.s", &before, log);
  if (ok) assembly_count(before.data, &after);
  ok = ok && !after.failed && folder_write(folder, "counted.s", after.data, after.length, log);
  text_free(&before);
  text_free(&after);
  return ok;
}

// NOTE: the C library is not linked: the process has it, and to read its thousands of names takes the
// linker a third of its time. Of libm, also in the process, a name alone would mean its oldest version.
// NOTE: without -fno-strict-aliasing GCC breaks kernels that reinterpret memory, as CUDA allows. A
// module's variables are its own: without -Bsymbolic the process's of the same name would be taken,
// without -fno-gnu-unique those of the first module that instantiated the same template.
static bool make_image(const CompileJob *job, const Args *compiler, const char *folder, Text *log) {
  Args args = *compiler;
  Marks marks = read_marks(folder, log);
  args_add_all(&args, (const char *[]){"-std=c++17",
                                  job->optimize,
                                  "-fexpensive-optimizations", // or multiply-adds do not contract
                                  "-gdwarf-4", // which alone, or last, means -g2
                                  "-g1",
                                  "-march=native",
                                  "-fPIC",
                                  "-ffunction-sections", // for shared.c, as --emit-relocs below
                                  "-fstack-clash-protection",
                                  "-w",
                                  "-fno-exceptions",
                                  "-fno-rtti",
                                  "-fno-math-errno",
                                  "-fno-trapping-math",
                                  "-ffp-contract=fast",
                                  "-fno-strict-aliasing",
                                  "-fno-delete-null-pointer-checks",
                                  "-fvisibility=hidden",
                                  "-fno-stack-protector",
                                  "-fno-semantic-interposition",
                                  "-fmax-errors=20",
                                  NULL});
  host_add_frames(&args);
  if (!marks.clang) args_add(&args, "-fno-gnu-unique"); // Clang has no such variables
  if (marks.fills_registers)                       // with what is NaN, or huge
    args_add(&args, "-ftrivial-auto-var-init=pattern");
#if defined(__x86_64__)
  args_add(&args, "-mprefer-vector-width=512"); // where the host has it; else it changes nothing
  // NOTE: for AMD's processors GCC leaves sums of products uncontracted, which are faster so.
  if (!marks.clang) args_add(&args, "--param=avoid-fma-max-bits=0");
#endif
#if defined(__aarch64__)
  args_add(&args, "-mno-outline-atomics"); // whose functions are in a library that is not linked
#endif
  if (job->checks & CusimTrace) args_add(&args, "-fsanitize=thread");
  if (job->checks & CusimTrace && marks.clang)
    args_add_all(&args,
                 (const char *[]){moved_bytes, "-mllvm", "-tsan-distinguish-volatile=1", NULL});
  else if (job->checks & CusimTrace && marks.fills_registers) // GCC 11 and newer know it
    args_add(&args, "--param=tsan-distinguish-volatile=1");
  if (job->checks == CusimTrace)
    args_add(&args, "-fsanitize=alignment"); // branches, not to be counted
  for (const char *const *o = job->options; *o; o++)
    if (!is_for_source(*o)) args_add(&args, *o);
  if (job->checks & CusimCount)
    return make_assembly(&args, marks.clang, folder, log) &&
           link_image(compiler, marks.clang && job->checks & CusimTrace, folder, log);
  const char *const last[] = {
      "-shared",    "-Wl,-Bsymbolic", "-Wl,--emit-relocs",    "-x",   "c++-cpp-output",
      "kernels.ii", "-x",             "assembler",            "device/cusim_guard.s",
      "-x",         "none",           "-o",                   "image.so",
      "-nostdlib",  "-lm",            NULL};
  return compile_kernels(folder, &args, marks.clang, last, log);
}

static nvrtcResult compile_in(const CompileJob *job, const char *folder, Text *image, Text *log) {
  Args compiler = {.count = 0};
  char words[1024];
  if (!host_find_compiler(&compiler, words, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  if (!write_inputs(job, folder, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  if (!preprocess(job, &compiler, folder, log)) return NVRTC_ERROR_COMPILATION;
  if (!rewrite(job, folder, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  if (!make_image(job, &compiler, folder, log)) return NVRTC_ERROR_COMPILATION;
  if (!folder_read_output(folder, "image.so", image, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  if (!host_seal_image(image)) {
    text_print(log, "libcusim: what %s made is no shared object\n", compiler.list[0]);
    return NVRTC_ERROR_INTERNAL_ERROR;
  }
  return NVRTC_SUCCESS;
}

nvrtcResult host_compile(const CompileJob *job, Text *image, Text *log) {
  char folder[512];
  if (!folder_make(folder, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  nvrtcResult r = compile_in(job, folder, image, log);
  folder_remove(folder);
  return r;
}
