#include "nngen.h"
#include <string.h>
int main(int argc, char **argv) {
  Compiler c; Error err = {0};
  Options o = {.model = argv[1], .lowering = argc > 3 ? argv[3] : "fused", .dtype = argc > 4 ? argv[4] : "fp32", .arch = arch_default(), .stage = argc > 2 ? argv[2] : NULL};
  if (compile_model(&c, &o, &err)) { fprintf(stderr, "%s\n", err.message); return err.code; }
  if (!strcmp(o.stage, "emit")) for (int i = 0; i < c.graph->ngroups; i++) puts(c.graph->groups[i]->source);
  else text_write(c.graph, stdout);
  compile_close(&c);
}
