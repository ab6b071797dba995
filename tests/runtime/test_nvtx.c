// test_nvtx.c: the ranges a profiler sees, exactly, and that none are made when they are off.
//
// The test is the profiler: NVTX's loader takes a tool linked into the program through the symbol
// InitializeInjectionNvtx2_fnptr. Skipped where nngen was built without the NVTX headers.
#include "runtime/support.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

// ---- the tool ----------------------------------------------------------------------------------

static char seen[8192]; // a line per range: depth, name, category, colour, payload
static int calls, depth, balance_broken;

typedef struct Text { // a registered string, or a domain
  char text[256];
} Text;

static Text texts[256];
static int ntexts;

static Text *keep(const char *text) {
  Text *kept = &texts[ntexts++ % COUNT(texts)];
  snprintf(kept->text, sizeof kept->text, "%s", text);
  return kept;
}

static nvtxDomainHandle_t NVTX_API create(const char *name) {
  calls++;
  return (nvtxDomainHandle_t)keep(name);
}

static nvtxStringHandle_t NVTX_API intern(nvtxDomainHandle_t domain, const char *text) {
  calls++;
  assert_string_equal(((Text *)domain)->text, "nngen");
  return (nvtxStringHandle_t)keep(text);
}

static int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event) {
  size_t at = strlen(seen);
  calls++;
  assert_string_equal(((Text *)domain)->text, "nngen");
  assert_int_equal(event->version, NVTX_VERSION);
  assert_int_equal(event->size, NVTX_EVENT_ATTRIB_STRUCT_SIZE);
  assert_int_equal(event->messageType, NVTX_MESSAGE_TYPE_REGISTERED);
  snprintf(seen + at, sizeof seen - at, "%d %s %u %08x %llu\n", depth,
           ((Text *)event->message.registered)->text, event->category, event->color,
           (unsigned long long)event->payload.ullValue);
  return depth++;
}

static int NVTX_API pop(nvtxDomainHandle_t domain) {
  (void)domain;
  calls++;
  if (--depth < 0) balance_broken = 1;
  return depth;
}

static int NVTX_API attach(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table;
  unsigned size;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
  *table[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)intern;
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)push;
  *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)pop;
  return 1;
}

NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = attach;

// ---- the tests ---------------------------------------------------------------------------------

static void use(NvtxLevel of_device, NvtxLevel of_run, bool graph) {
  Error err = {0};
  Device *device;
  Loaded *loaded;
  Params *params;
  RunTiming timing;
  Plan *plan = small_plan();
  DeviceOptions options = device_options();
  options.nvtx = of_device;
  seen[0] = 0, calls = depth = balance_broken = 0;
  free(plan->kernels[2].layer);
  plan->kernels[2].layer = strdup("layer1/0[*].relu"); // characters that ncu's filters would read
  if (device_open(&options, &device, &err)) fail_msg("%s", err.message);
  JitOptions jit = {.cache_dir = temp_path("cache")};
  if (load_plan(device, plan, &jit, &loaded, &err)) fail_msg("%s", err.message);
  assert_int_equal(params_open(NULL, 1, &params, &err), ExitOk);
  assert_int_equal(params_fill(params, loaded, NULL, &err), ExitOk);
  RunOptions run = {.repeat = 2, .nvtx = of_run, .graph = graph};
  assert_int_equal(run_time(loaded, "infer", &run, &timing, &err), ExitOk);
  run_timing_free(&timing);
  assert_true(depth == 0 && !balance_broken);
  params_close(params);
  load_close(loaded);
  device_close(device);
  plan_free(plan);
}

#define LOADING                                                                                    \
  "0 allocation 6 ffff00ff 0\n"                                                                    \
  "0 compile 5 ff9e9e9e 0\n"                                                                       \
  "0 weights loading 6 ffff00ff 0\n"                                                               \
  "1 init 6 ffff00ff 0\n"

static void off(void **state) {
  (void)state;
  use(NvtxOff, NvtxOff, false);
  assert_int_equal(calls, 0); // not even a domain
}

static void model(void **state) {
  (void)state;
  use(NvtxModel, NvtxOff, false);
  assert_string_equal(seen, LOADING "0 forward 1 ffffeb3b 1\n"
                                    "0 forward 1 ffffeb3b 2\n");
}

static void layer(void **state) {
  (void)state;
  use(NvtxLayer, NvtxOff, false);
  assert_string_equal(seen, LOADING "2 small__neg:init 6 ff00c853 0\n"
                                    "0 forward 1 ffffeb3b 1\n"
                                    "1 small__add:fwd 1 ff00c853 0\n"
                                    "1 layer1_0___.relu:fwd 1 ff00c853 0\n"
                                    "0 forward 1 ffffeb3b 2\n"
                                    "1 small__add:fwd 1 ff00c853 0\n"
                                    "1 layer1_0___.relu:fwd 1 ff00c853 0\n");
}

// Ranges asked for by the run alone; a graph's capture must not look like a run.
static void of_a_run(void **state) {
  (void)state;
  use(NvtxOff, NvtxLayer, false);
  assert_memory_equal(seen, "0 forward 1 ffffeb3b 0\n1 small__add:fwd", 38);
  use(NvtxOff, NvtxLayer, true);
  assert_string_equal(seen, "0 forward 1 ffffeb3b 0\n"
                            "0 forward 1 ffffeb3b 1\n");
}

#else

static void off(void **state) {
  (void)state, skip();
}
static void model(void **state) {
  (void)state, skip();
}
static void layer(void **state) {
  (void)state, skip();
}
static void of_a_run(void **state) {
  (void)state, skip();
}

#endif

static void levels(void **state) {
  (void)state;
  NvtxLevel level;
  assert_true(nvtx_parse("layer", &level) && level == NvtxLayer);
  assert_true(nvtx_parse("off", &level) && level == NvtxOff);
  assert_false(nvtx_parse("all", &level));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(off), cmocka_unit_test(model),
                                     cmocka_unit_test(layer), cmocka_unit_test(of_a_run),
                                     cmocka_unit_test(levels)};
  return cmocka_run_group_tests(tests, NULL, temp_clean);
}
