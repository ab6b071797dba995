// show.c: `nngen show`: the IR after any pass, the generated CUDA, the plan, a drawing.
#include "cli.h"

#include <string.h>

// Prints the text without #line directives.
static void print_source(const char *text) {
  for (const char *line = text; *line;) {
    const char *end = strchr(line, '\n');
    size_t n = end ? (size_t)(end - line) + 1 : strlen(line);
    if (strncmp(line, "#line", 5)) fwrite(line, 1, n, stdout);
    line += n;
  }
}

static int print_sources(Compiler *c, const char *kernel, Error *err) {
  Group **groups = c->graph->groups;
  int count = c->graph->ngroups;
  int code = kernel ? pick_kernels(c->graph, "kernel", kernel, &groups, &count, err) : ExitOk;
  for (int i = 0; !code && i < count; i++) print_source(groups[i]->source);
  return code;
}

static int print_plan(Compiler *c, Error *err) {
  Plan *plan = plan_build(c);
  int code = plan_write(plan, stdout, err);
  plan_free(plan);
  return code;
}

// show prints one thing: two of these options exclude each other.
static int check_options(const Cli *cli, Error *err) {
  const struct {
    const char *name;
    bool given;
  } all[] = {{"cuda", cli->cuda || cli->kernel},
             {"plan", cli->plan},
             {"costs", cli->costs},
             {"dot", cli->dot}};
  const char *first = NULL;
  for (size_t i = 0; i < LENGTH(all); i++) {
    if (!all[i].given) continue;
    if (first) return err_set(err, ExitUsage, "--%s and --%s: one of the two", first, all[i].name);
    first = all[i].name;
  }
  if (cli->stage && first && !cli->dot)
    return err_set(err, ExitUsage, "--stage prints the IR after a pass: omit --%s", first);
  if (cli->json && !cli->costs && !cli->plan)
    return err_set(err, ExitUsage, "show --json: expected --costs or --plan too; the rest is text");
  return ExitOk;
}

// Why kernels were not fused: as comments, in the format of print_groups.
static void print_reasons(const Graph *g) {
  for (int i = 0; i < g->ngroups; i++) {
    char before[160];
    snprintf(before, sizeof before, "# %s, ", g->groups[i]->name);
    if (!g->groups[i]->fixed) fuse_explain(g->groups[i], before, stdout);
  }
}

int verb_show(const Cli *cli, Error *err) {
  Options options;
  int code = cli_options(cli, &options, err);
  if (!code) code = check_options(cli, err);
  if (code) return code;
  bool whole = cli->cuda || cli->plan || cli->kernel;
  if (whole)
    options.stage = NULL;
  else if (!options.stage)
    options.stage = "order";
  Compiler c;
  Tuning *tuning;
  code = cli_tuning(cli, false, &tuning, err);
  if (code) return code;
  options.tuning = tuning;
  options.device = options.arch->gpu;
  cli_warn_tuning(cli, tuning, options.device);
  code = compile_model(&c, &options, err);
  int entry = -1;
  if (!code && cli->entry) code = run_pick_entry(&c, cli->entry, &entry, err);
  if (!code && (cli->cuda || cli->kernel))
    code = print_sources(&c, cli->kernel, err);
  else if (!code && cli->plan)
    code = print_plan(&c, err);
  else if (!code && cli->costs)
    code = show_costs(&c, cli->json, entry, err);
  else if (!code && cli->dot)
    print_dot(c.graph, stdout);
  else if (!code) {
    text_write(c.graph, stdout);
    prec_explain(c.graph, stdout);
    print_groups(c.graph, stdout);
    print_reasons(c.graph);
  }
  compile_close(&c);
  tuning_free(tuning);
  return code;
}
