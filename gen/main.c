// main.c: the verbs.
//
// A model goes through the passes of compile.c (front, shape, simp, prec, recompute, layout, fuse,
// sched, order, emit), becomes a Plan (plan.c), and the runtime runs it (runtime/nngen_runtime.h).
#include "gen/cli/cli.h"

#include <signal.h>
#include <stdio.h>

static const char kVersion[] = "0.1.0";

static const Verb verbs[] = {
    {"run", verb_run, true, "compile a model, run it, check it, show its kernels"},
    {"train", verb_train, true, "train a model: data, steps, evaluation, checkpoints"},
    {"show", verb_show, true, "print the IR after a pass, the plan, the CUDA, a drawing"},
    {"tune", verb_tune, true,
     "measure the tiles of a model's contractions on this GPU, keep the best"},
    {"emit", verb_emit, true, "write a network as C and CUDA that build without nngen"},
    {"help", verb_help, false,
     "VERB: its options; nn: the functions of model files; NAME: one of them"},
    {"doctor", verb_doctor, false, "what was searched, what was found, which versions"},
    {"cache", verb_cache, false, "ls, verify or clear the compiled kernels"},
    {NULL, NULL, false, NULL},
};

int main(int argc, char **argv) {
  Cli cli;
  Error err = {0};
  signal(SIGXFSZ, SIG_IGN); // a file beyond the limit of its size: an error of the write, as ENOSPC
  int code = cli_parse(verbs, argc, argv, &cli, &err);
  if (!code && cli.version) {
    printf("nngen %s\n", kVersion);
    return ExitOk;
  }
  if (!code && cli.help) {
    cli_help(stdout, verbs, cli.verb);
    return ExitOk;
  }
  for (const Verb *v = verbs; !code && v->name; v++)
    if (v->name == cli.verb || !__builtin_strcmp(v->name, cli.verb)) code = v->run(&cli, &err);
  progress_end();
  if (!code && (fflush(stdout) || ferror(stdout)))
    code = err_set(&err, ExitBadInput, "stdout: cannot be written");
  if (code && err.message[0]) fprintf(stderr, "nngen: %s\n", err.message);
  return code;
}
