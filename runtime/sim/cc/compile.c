// compile.c: CUDA C++ source -> kernel image, by the host's C++ compiler.
//
// In a private temporary folder: the source and its in-memory headers are written out, the compiler
// preprocesses them after cusim.h (preprocess.c), rewrite.c turns the result into C++, and the
// compiler builds a shared object. A program that begins with the same includes as others skips
// the preprocessor (prefix.c). Programs are compiled concurrently, and share nothing here.
#include "sim/cc/cc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- running the compiler -----------------------------------------------------------------------

// Its messages go to the log, edited for the program.
bool compiler_run(const char *folder, Args *args, Text *log) {
  Text said = {0};
  int code = host_run(folder, args, &said, log);
  if (said.data && said.length) messages_log(said.data, log);
  text_free(&said);
  return code == 0;
}

// The build of kernels.ii. Marks of cusim.h in it identify the compiler, whatever its name.
typedef struct Build {
  const CompileJob *job;
  const Args *compiler;
  const char *folder;
  bool prefixed; // from prefix.c: compiled with precompiled headers, or not at all
  bool clang, fills_registers;
  Text *log;
} Build;

static void read_marks(Build *build) {
  Text text = {0};
  if (folder_read_output(build->folder, "kernels.ii", &text, build->log)) {
    build->clang = strstr(text.data, "cusim_is_clang");
    build->fills_registers = strstr(text.data, "cusim_fills_registers");
  }
  text_free(&text);
}

// NOTE: Clang (up to 14) does not instrument memcpy and its like, but calls these: see tsan_abi.c.
static const char moved_bytes[] = "-Wl,--wrap=memcpy,--wrap=memmove,--wrap=memset";

static bool link_image(const Build *build) {
  Args args = *build->compiler;
  if (build->clang && build->job->checks & CusimTrace) args_add(&args, moved_bytes);
  args_add_all(&args, (const char *[]){"-shared", "-fPIC", "-Wl,-Bsymbolic", "-Wl,--emit-relocs",
                                  "counted.s", "device/cusim_guard.o", "-o", "image.so",
                                  "-nostdlib", "-lm", NULL});
  return compiler_run(build->folder, &args, build->log);
}

// 1 if a line of preprocessed text enters a file, -1 if it returns to one, else 0.
static int line_enters(const char *line) {
  const char *end = strchr(line, '\n'), *flag = strstr(line, "\" ");
  if (strncmp(line, "# ", 2) != 0 || !end || !flag || flag > end) return 0;
  return flag[2] == '1' ? 1 : flag[2] == '2' ? -1 : 0;
}

// Finds a file that the program includes before any other text, like the common header of nngen's
// kernels: from the line that enters it to the one that returns. False if there is none.
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

// Splits off the beginning of kernels.ii that other programs share: libcusim's headers, which end
// where the program's source begins, and the first file that it includes. The rest is appended to
// *rest.
static bool split_headers(const Text *kernels, Text *headers, Text *rest) {
  const char *source = strstr(kernels->data, "\n# 1 \"source.cu\"\n");
  Token first;
  if (!source) return false;
  source++;
  text_append(headers, kernels->data, (size_t)(source - kernels->data));
  if (find_first(source, &first)) {
    text_append(headers, first.begin, (size_t)(first.end - first.begin));
    const char *flag = strstr(first.end, "\" ") + 1; // a return to a file that was never left
    text_append(rest, first.end, (size_t)(flag - first.end));
    source = strchr(flag, '\n');
  }
  text_append(rest, source, strlen(source));
  return !headers->failed && !rest->failed;
}

// Compiles kernels.ii with a precompiled beginning. False: the caller compiles it.
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

// Compiles kernels.ii with these options; `last` selects the output.
static bool compile_kernels(const Build *build, const Args *options, const char *const *last) {
  if (!build->clang && compile_precompiled(build->folder, options, last)) return true;
  if (build->prefixed) return false;
  Args args = *options;
  args_add_all(&args, last);
  return compiler_run(build->folder, &args, build->log);
}

// For a counted kernel: the assembly with a call per basic block, and its table (assembly.c).
// NOTE: without sibling calls each announcement returns to the block it announces.
static bool make_assembly(const Build *build, const Args *common) {
  const char *const last[] = {"-S", "-x", "c++-cpp-output", "kernels.ii", "-o", "kernels.s", NULL};
  Args args = *common;
  args_add_all(&args, (const char *[]){build->clang ? "-fsanitize-coverage=bb,no-prune,trace-pc"
                                        : "-fsanitize-coverage=trace-pc",
                                  "-fno-tree-vectorize", "-fno-tree-slp-vectorize",
                                  "-fno-unroll-loops", "-fno-optimize-sibling-calls", NULL});
  if (!build->clang)
    args_add(&args, "-fno-thread-jumps"); // so that accesses of a warp stay at one place
  Text before = {0}, after = {0};
  bool ok = compile_kernels(build, &args, last) &&
            folder_read_output(build->folder, "kernels.s", &before, build->log);
  if (ok) assembly_count(before.data, &after);
  ok = ok && !after.failed && folder_write(build->folder, "counted.s", after.data, after.length,
                                         build->log);
  text_free(&before);
  text_free(&after);
  return ok;
}

// NOTE: the C library is not linked: the process has it, and reading its symbols takes a third of
// the linking time. For libm, also in the process, a plain name would bind to its oldest version.
// NOTE: without -fno-strict-aliasing GCC breaks kernels that reinterpret memory, as CUDA allows. A
// module's variables are private: without -Bsymbolic the process's variables of the same name would
// be used, without -fno-gnu-unique those of the first module that instantiated the same template.
static bool make_image(Build *build) {
  const CompileJob *job = build->job;
  Args args = *build->compiler;
  read_marks(build);
  args_add_all(&args, (const char *[]){"-std=c++17",
                                  job->optimize,
                                  "-fexpensive-optimizations", // or multiply-adds do not contract
                                  "-gdwarf-4", // implies -g2, so it must precede -g1
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
  if (!build->clang) args_add(&args, "-fno-gnu-unique"); // Clang has no such variables
  if (build->fills_registers)                       // with NaN, or huge values
    args_add(&args, "-ftrivial-auto-var-init=pattern");
#if defined(__x86_64__)
  args_add(&args, "-mprefer-vector-width=512"); // without effect if the host lacks it
  // NOTE: for AMD's processors GCC leaves sums of products uncontracted, which are faster so.
  if (!build->clang) args_add(&args, "--param=avoid-fma-max-bits=0");
#endif
#if defined(__aarch64__)
  args_add(&args, "-mno-outline-atomics"); // whose functions are in a library that is not linked
#endif
  if (job->checks & CusimTrace) args_add(&args, "-fsanitize=thread");
  if (job->checks & CusimTrace && build->clang)
    args_add_all(&args,
                 (const char *[]){moved_bytes, "-mllvm", "-tsan-distinguish-volatile=1", NULL});
  else if (job->checks & CusimTrace && build->fills_registers) // supported by GCC 11 and newer
    args_add(&args, "--param=tsan-distinguish-volatile=1");
  if (job->checks == CusimTrace)
    args_add(&args, "-fsanitize=alignment"); // branches, not to be counted
  for (const char *const *o = job->options; *o; o++)
    if (!preprocess_takes(*o)) args_add(&args, *o);
  if (job->checks & CusimCount)
    return make_assembly(build, &args) && link_image(build);
  const char *const last[] = {
      "-shared",    "-Wl,-Bsymbolic", "-Wl,--emit-relocs",    "-x", "c++-cpp-output",
      "kernels.ii", "-x",             "none",                 "device/cusim_guard.o",
      "-o",         "image.so",       "-nostdlib",            "-lm", NULL};
  return compile_kernels(build, &args, last);
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

// Errors are ignored here; the full compilation that follows reports them.
static bool make_prefixed(const CompileJob *job, const Args *compiler, const char *folder) {
  Text text = {0}, log = {0};
  char path[kPath];
  Build build = {.job = job, .compiler = compiler, .folder = folder, .prefixed = true, .log = &log};
  bool found = prefix_find(job, compiler, folder, path, &text);
  bool ok = found && preprocess_header(folder, "device/cusim_guard.o", &log) &&
            folder_write(folder, "kernels.ii", text.data, text.length, &log) &&
            make_image(&build);
  if (found && !ok) unlink(path);
  text_free(&text);
  text_free(&log);
  return ok;
}

static nvrtcResult make_whole(const CompileJob *job, const Args *compiler, const char *folder,
                              Text *log) {
  Build build = {.job = job, .compiler = compiler, .folder = folder, .log = log};
  if (!preprocess_inputs(job, folder, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  if (!preprocess(job, compiler, folder, NULL, log)) return NVRTC_ERROR_COMPILATION;
  if (!rewrite(job, folder, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  return make_image(&build) ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}

static nvrtcResult compile_in(const CompileJob *job, const char *folder, Text *image, Text *log) {
  Args compiler = {.count = 0};
  char words[1024];
  if (!host_find_compiler(&compiler, words, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  bool made = make_prefixed(job, &compiler, folder);
  nvrtcResult r = made ? NVRTC_SUCCESS : make_whole(job, &compiler, folder, log);
  if (r != NVRTC_SUCCESS) return r;
  if (!folder_read_output(folder, "image.so", image, log)) return NVRTC_ERROR_INTERNAL_ERROR;
  if (!host_seal_image(image)) {
    text_print(log, "libcusim: the output of %s is not a shared object\n", compiler.list[0]);
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
