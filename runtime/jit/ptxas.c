// ptxas.c: parses the assembler's report on a kernel in the log of `--ptxas-options=-v`.
//
// The log has, for each kernel:
//   ptxas info    : Compiling entry function 'k' for 'sm_90a'
//       0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//   ptxas info    : Used 10 registers, used 1 barriers, 16 bytes smem, 380 bytes cmem[0]
// and before them, for some kernels:
//   ptxas info    : (C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized
//                   due to ... in the function 'k'
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "jit/jit.h"

// The number before the text `words` in [begin, end), or -1.
static int number_before(const char *begin, const char *end, const char *words) {
  const char *at = strstr(begin, words);
  if (!at || at >= end) return -1;
  while (at > begin && isdigit((unsigned char)at[-1])) at--;
  return isdigit((unsigned char)*at) ? atoi(at) : -1;
}

static bool says_serialized(const char *log, const char *kernel) {
  char name[320];
  snprintf(name, sizeof name, "function '%s'", kernel);
  for (const char *at = log; (at = strstr(at, "instructions are serialized")); at++) {
    const char *found = strstr(at, name), *end = strchr(at, '\n');
    if (found && (!end || found < end)) return true;
  }
  return false;
}

void ptxas_parse(const char *log, const char *kernel, KernelReport *report) {
  char opening[320];
  snprintf(opening, sizeof opening, "Compiling entry function '%s'", kernel);
  report->registers = report->spill_bytes = report->stack_bytes = report->smem_static = -1;
  report->serialized = says_serialized(log, kernel);
  const char *begin = strstr(log, opening);
  if (!begin) return;
  begin += strlen(opening);
  const char *end = strstr(begin, "Compiling entry function");
  if (!end) end = begin + strlen(begin);
  int stores = number_before(begin, end, " bytes spill stores");
  int loads = number_before(begin, end, " bytes spill loads");
  report->registers = number_before(begin, end, " registers");
  report->stack_bytes = number_before(begin, end, " bytes stack frame");
  report->spill_bytes = stores < 0 || loads < 0 ? -1 : stores + loads;
  report->smem_static = number_before(begin, end, " bytes smem");
  if (report->registers >= 0 && report->smem_static < 0) report->smem_static = 0; // not mentioned
}
