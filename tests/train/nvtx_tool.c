// nvtx_tool.c: a tool that NVTX loads (NVTX_INJECTION64_PATH): writes the ranges of the process to
// the file that NVTX_RANGES names, a line each, two blanks deeper inside, with their colours.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *file;
static int depth;

static nvtxDomainHandle_t NVTX_API create(const char *name) {
  return (nvtxDomainHandle_t)strdup(name);
}
static nvtxStringHandle_t NVTX_API intern(nvtxDomainHandle_t domain, const char *text) {
  (void)domain;
  return (nvtxStringHandle_t)strdup(text);
}
static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
  (void)domain;
  fprintf(file, "%*s%s %06x\n", 2 * depth, "", (const char *)event->message.registered,
          event->color & 0xffffff);
  fflush(file);
  return depth++;
}
static int NVTX_API pop(nvtxDomainHandle_t domain) {
  (void)domain;
  return --depth;
}

int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table;
  unsigned size;
  file = fopen(getenv("NVTX_RANGES"), "w");
  if (!file || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
  *table[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)intern;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
  return 1;
}
