//@ local has_weights = #k.given > 0
// ---- create and destroy -----------------------------------------------------------------------

$(k.name)_options $(k.name)_default_options(void) {
  $(k.name)_options options;
  memset(&options, 0, sizeof options);
  options.device = $(k.NAME)_CURRENT_DEVICE;
  return options;
}

size_t $(k.name)_workspace_bytes(void) {
  return kWorkspaceBytes;
}

size_t $(k.name)_memory_bytes(void) {
  return kMemoryBytes;
}

//@ if k.runtime then
static Status open_device($(k.name) *net, const $(k.name)_options *options) {
  int count = 0;
  cudaError_t result = cudaGetDeviceCount(&count);
  if (result != cudaSuccess)
    return fail(net, $(k.NAME)_ERROR_DEVICE, "there is no CUDA driver (cudaGetDeviceCount: %d)",
                (int)result);
  net->device = options->device;
  if (options->device == $(k.NAME)_CURRENT_DEVICE)
    TRY(check(net, cudaGetDevice(&net->device), "cudaGetDevice"));
  if (net->device < 0 || net->device >= count)
    return fail(net, $(k.NAME)_ERROR_DEVICE, "there is no device %d", net->device);
  net->opened = 1;
  return $(k.NAME)_OK;
}
//@ else
static Status open_device($(k.name) *net, const $(k.name)_options *options) {
  CUresult result = cuInit(0);
  if (result != CUDA_SUCCESS)
    return fail(net, $(k.NAME)_ERROR_DEVICE, "there is no CUDA driver (cuInit: %d)", (int)result);
  net->context = options->context;
  if (!net->context && options->device == $(k.NAME)_CURRENT_DEVICE) cuCtxGetCurrent(&net->context);
  if (net->context) return $(k.NAME)_OK;
  int ordinal = options->device == $(k.NAME)_CURRENT_DEVICE ? 0 : options->device;
  if (cuDeviceGet(&net->device, ordinal) != CUDA_SUCCESS)
    return fail(net, $(k.NAME)_ERROR_DEVICE, "there is no device %d", ordinal);
  TRY(check(net, cuDevicePrimaryCtxRetain(&net->context, net->device), "cuDevicePrimaryCtxRetain"));
  net->retained = 1;
  return $(k.NAME)_OK;
}
//@ end

static Status load_module($(k.name) *net) {
//@ if k.runtime then
  cudaError_t result = cudaLibraryLoadData(&net->module, $(k.name)_fatbin, NULL, NULL, 0, NULL,
                                           NULL, 0);
//@ else
  CUresult result = cuModuleLoadData(&net->module, $(k.name)_fatbin);
//@ end
  if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_PTX ||
      result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
    return fail(net, $(k.NAME)_ERROR_ARCHITECTURE, "there is code for $(k.arch_text) and PTX "
                "for $(k.ptx), none that this GPU and its driver take (%d)", (int)result);
  return check(net, result, "$(k.runtime and "cudaLibraryLoadData" or "cuModuleLoadData")");
}

// Bytes of shared memory of an SM.
static Status find_shared($(k.name) *net, int *bytes) {
//@ if k.runtime then
  cudaError_t result = cudaDeviceGetAttribute(bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor,
                                              net->device);
//@ else
  CUdevice device;
  TRY(check(net, cuCtxGetDevice(&device), "cuCtxGetDevice"));
  CUresult result =
      cuDeviceGetAttribute(bytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device);
//@ end
  return check(net, result, "cuDeviceGetAttribute");
}

// Sets the kernel's shared-memory carveout to what `blocks` blocks per SM need, each with 1 KiB
// that the system reserves.
static Status ask_carveout($(k.name) *net, CUfunction function, int64_t shared_bytes, int blocks) {
  int all = 0;
  TRY(find_shared(net, &all));
  int64_t percent = all > 0 ? (blocks * (shared_bytes + 1024) * 100 + all - 1) / all : 100;
  if (percent > 100) percent = 100;
  CUresult result = cuFuncSetAttribute(
      $(k.as_function)function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, (int)percent);
  return check(net, result, "cuFuncSetAttribute");
}

// A kernel must opt in to more than 48 KiB of shared memory.
static Status load_kernel($(k.name) *net, const char *name, int shared_bytes, int blocks,
                          Kernel *kernel) {
  kernel->name = name;
  TRY(check(net, cuModuleGetFunction(&kernel->function, net->module, name), name));
  if (shared_bytes > 48 * 1024 &&
      cuFuncSetAttribute($(k.as_function)kernel->function,
                         CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                         shared_bytes) != CUDA_SUCCESS)
    return fail(net, $(k.NAME)_ERROR_ARCHITECTURE,
                "%s wants %d bytes of shared memory, more than this GPU has",
                name, shared_bytes);
  if (!blocks || !shared_bytes) return $(k.NAME)_OK;
  return ask_carveout(net, kernel->function, shared_bytes, blocks);
}

static Status load_kernels($(k.name) *net) {
  Kernels *kernels = &net->kernels;
//@ for _, kernel in ipairs(k.distinct) do
  TRY(load_kernel(net, "$(kernel.name)", $(kernel.shared), $(kernel.resident),
                  &kernels->$(kernel.ident)));
//@ end
  return $(k.NAME)_OK;
}

//@ if #k.memory > 0 then
static void place_tensors($(k.name) *net) {
  Tensors *at = &net->tensors;
//@   for _, t in ipairs(k.memory) do
  at->$(t.ident) = net->memory + $(t.offset);
//@   end
}

//@ end
// Rejects a size without a pointer, for example after a failed mmap.
static Status check_pointers($(k.name) *net, const $(k.name)_options *options) {
//@ if #k.given > 0 then
  if (!options->weights != !options->weights_bytes)
    return fail(net, $(k.NAME)_ERROR_ARGUMENT, "weights and weights_bytes: one of the two is 0");
//@ end
  if (options->workspace || !options->workspace_bytes) return $(k.NAME)_OK;
  return fail(net, $(k.NAME)_ERROR_ARGUMENT, "workspace is 0, workspace_bytes is %zu",
              options->workspace_bytes);
}

static Status check_workspace($(k.name) *net, const $(k.name)_options *options) {
  if (!options->workspace) return $(k.NAME)_OK;
  if (options->workspace_bytes < $(k.name)_workspace_bytes())
    return fail(net, $(k.NAME)_ERROR_WORKSPACE,
                "the workspace has %zu bytes, the network needs %zu",
                options->workspace_bytes, kWorkspaceBytes);
  if ($(k.as_number)options->workspace % 256)
    return fail(net, $(k.NAME)_ERROR_WORKSPACE, "the workspace is not aligned to 256 bytes");
  net->workspace = $(k.as_address)options->workspace;
  return $(k.NAME)_OK;
}

static Status take_memory($(k.name) *net) {
  TRY(allocate(net, kMemoryBytes, "parameters", &net->memory));
//@ if #k.memory > 0 then
  place_tensors(net);
//@ end
  if (net->workspace) return $(k.NAME)_OK; // the caller's
  TRY(allocate(net, kWorkspaceBytes, "the workspace", &net->own_workspace));
  net->workspace = net->own_workspace;
  return $(k.NAME)_OK;
}

//@ if has_weights or #k.init.steps > 0 then
// `scratch`: device memory that only create needs.
static Status prepare($(k.name) *net, const $(k.name)_options *options, $(k.address)scratch) {
//@   if has_weights then
  TRY(fill_memory(net, options, scratch));
//@   else
  (void)scratch;
//@   end
  TRY(load_module(net));
  TRY(load_kernels(net));
//@   if #k.init.steps > 0 then
  Run run = {net, options->stream, NULL, NULL, 0};
  TRY(make_ready(&run$(#k.init.values > 0 and ", scratch" or "")));
//@   end
  return check(net, cuStreamSynchronize(options->stream), "cuStreamSynchronize");
}

//@ end
// Checks options before loading the kernels, which is slow.
static Status open_network($(k.name) *net, const $(k.name)_options *options) {
  TRY(check_workspace(net, options));
  TRY(take_memory(net));
//@ if has_weights or #k.init.steps > 0 then
  $(k.address)scratch;
  TRY(allocate(net, kScratchBytes, "parameters, while they are prepared", &scratch));
  Status status = prepare(net, options, scratch);
  release(net, scratch);
  return status;
//@ else
  TRY(load_module(net));
  return load_kernels(net);
//@ end
}

Status $(k.name)_create($(k.name) **out, const $(k.name)_options *options) {
  $(k.name)_options defaults = $(k.name)_default_options();
  if (!out) return $(k.NAME)_ERROR_ARGUMENT;
  $(k.name) *net = *out = ($(k.name) *)calloc(1, sizeof *net);
  if (!net) return $(k.NAME)_ERROR_HOST_MEMORY;
  if (!options) options = &defaults;
  net->allocator = options->allocator;
  Status status = check_pointers(net, options);
  if (status == $(k.NAME)_OK) status = open_device(net, options);
  if (status == $(k.NAME)_OK) status = enter(net);
  if (status == $(k.NAME)_OK) status = leave(net, open_network(net, options));
  if (status == $(k.NAME)_OK) return status;
  if (options->message && options->message_bytes)
    snprintf(options->message, options->message_bytes, "%s", net->message);
  $(k.name)_destroy(net);
  *out = NULL;
  return status;
}

void $(k.name)_destroy($(k.name) *net) {
  if (!net) return;
  if (net->$(k.runtime and "opened" or "context") && enter(net) == $(k.NAME)_OK) {
    if (net->module) cuModuleUnload(net->module);
    release(net, net->borders);
    release(net, net->own_workspace);
    release(net, net->memory);
    leave(net, $(k.NAME)_OK);
  }
//@ if not k.runtime then
  if (net->retained) cuDevicePrimaryCtxRelease(net->device);
//@ end
  free(net);
}

// ---- runs -------------------------------------------------------------------------------------

static Status check_pointer($(k.name) *net, const char *name, CUdeviceptr pointer) {
  if (pointer && $(k.as_number)pointer % 16 == 0) return $(k.NAME)_OK;
  return fail(net, $(k.NAME)_ERROR_ARGUMENT, "the device pointer '%s' is %s", name,
              pointer ? "not aligned to 16 bytes" : "null");
}

//@ if k.host then
// Device memory for the inputs and outputs of runs from host memory.
static Status take_borders($(k.name) *net) {
  return net->borders ? $(k.NAME)_OK
      : allocate(net, kBorderBytes, "inputs and outputs", &net->borders);
}

//@ end
// The times of a run, from the events between its launches.
static Status measure($(k.name) *net, CUevent *events, int count, LaunchTime *times) {
  TRY(check(net, cuEventSynchronize(events[count]), "cuEventSynchronize"));
  for (int i = 0; i < count; i++)
    TRY(check(net, cuEventElapsedTime(&times[i].ms, events[i], events[i + 1]),
              "cuEventElapsedTime"));
  return $(k.NAME)_OK;
}

static Status create_events($(k.name) *net, CUevent *events, int count) {
  memset(events, 0, sizeof *events * (size_t)count);
  for (int i = 0; i < count; i++)
    TRY(check(net, cuEventCreate(&events[i], CU_EVENT_DEFAULT), "cuEventCreate"));
  return $(k.NAME)_OK;
}

static void destroy_events(CUevent *events, int count) {
  for (int i = 0; i < count; i++)
    if (events[i]) cuEventDestroy(events[i]);
}

struct $(k.name)_graph {
  $(k.name) *net;
  CUgraphExec exec;
};

// Captures a run on a separate stream.
typedef struct Capture {
  CUstream stream;
  CUgraph graph;
} Capture;

static Status begin_capture($(k.name) *net, Capture *capture) {
  capture->graph = NULL;
  TRY(check(net, cuStreamCreate(&capture->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  Status status = check(net, cuStreamBeginCapture(capture->stream,
                                                  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                        "cuStreamBeginCapture");
  if (status != $(k.NAME)_OK) cuStreamDestroy(capture->stream);
  return status;
}

static Status end_capture($(k.name) *net, Capture *capture, Status status, $(k.name)_graph **out) {
  CUresult ended = cuStreamEndCapture(capture->stream, &capture->graph);
  $(k.name)_graph *graph = ($(k.name)_graph *)calloc(1, sizeof *graph);
  if (status == $(k.NAME)_OK) status = check(net, ended, "cuStreamEndCapture");
  if (status == $(k.NAME)_OK && !graph)
    status = fail(net, $(k.NAME)_ERROR_HOST_MEMORY, "no memory for a graph");
  if (status == $(k.NAME)_OK)
    status = check(net, cuGraphInstantiate(&graph->exec, capture->graph, 0), "cuGraphInstantiate");
  if (status == $(k.NAME)_OK) graph->net = net;
  if (capture->graph) cuGraphDestroy(capture->graph);
  cuStreamDestroy(capture->stream);
  if (status != $(k.NAME)_OK) free(graph), graph = NULL;
  *out = graph;
  return status;
}

Status $(k.name)_replay($(k.name)_graph *graph, CUstream stream) {
  if (!graph) return $(k.NAME)_ERROR_ARGUMENT;
  TRY(enter(graph->net));
  return leave(graph->net, check(graph->net, cuGraphLaunch(graph->exec, stream), "cuGraphLaunch"));
}

void $(k.name)_graph_destroy($(k.name)_graph *graph) {
  if (!graph) return;
  if (enter(graph->net) == $(k.NAME)_OK) {
    cuGraphExecDestroy(graph->exec);
    leave(graph->net, $(k.NAME)_OK);
  }
  free(graph);
}
//@ for _, entry in ipairs(k.entries) do
//@   local ins, outs = #entry.inputs > 0, #entry.outputs > 0
//@   local pass = (ins and ", *inputs" or "") .. (outs and ", *outputs" or "")
//@   local null = "!net" .. (ins and " || !inputs" or "") .. (outs and " || !outputs" or "")

// ---- $(k.name)_$(entry.ident) ----

//@   local in_ = ins and ", const " .. k.struct(entry, "inputs") .. " *in" or ""
//@   local out_ = outs and ", const " .. k.struct(entry, "outputs") .. " *out" or ""
static Status check_$(entry.ident)($(k.name) *net$(in_)$(out_)) {
//@   for _, t in ipairs(entry.inputs) do
  TRY(check_pointer(net, "$(t.ident)", in->$(t.ident)));
//@   end
//@   for _, t in ipairs(entry.outputs) do
  TRY(check_pointer(net, "$(t.ident)", out->$(t.ident)));
//@   end
//@   if not ins and not outs then
  (void)net;
//@   end
  return $(k.NAME)_OK;
}

Status $(k.name)_$(entry.ident)($(k.name) *net, $(k.params(entry, false))CUstream stream) {
  if ($(null)) return refuse(net);
  TRY(check_$(entry.ident)(net$(ins and ", inputs" or "")$(outs and ", outputs" or "")));
  TRY(enter(net));
  Run run = {net, stream, NULL, NULL, 0};
  return leave(net, enqueue_$(entry.ident)(&run$(pass)));
}

static Status through_host_$(entry.ident)($(k.name) *net, $(k.params(entry, true))CUstream stream) {
//@   if ins or outs then
  TRY(take_borders(net));
//@   end
  Run run = {net, stream, NULL, NULL, 0};
//@   for _, kind in ipairs{"inputs", "outputs"} do
//@     if #entry[kind] > 0 then
  $(k.struct(entry, kind)) $(kind == "inputs" and "in" or "out");
//@       for _, t in ipairs(entry[kind]) do
  $(kind == "inputs" and "in" or "out").$(t.ident) = net->borders + $(t.border);
//@       end
//@     end
//@   end
//@   for _, t in ipairs(entry.inputs) do
  TRY(check(net, cuMemcpyHtoDAsync(in.$(t.ident), inputs->$(t.ident), $(t.bytes), stream),
            "$(t.ident)"));
//@   end
  TRY(enqueue_$(entry.ident)(&run$(ins and ", in" or "")$(outs and ", out" or "")));
//@   for _, t in ipairs(entry.outputs) do
  TRY(check(net, cuMemcpyDtoHAsync(outputs->$(t.ident), out.$(t.ident), $(t.bytes), stream),
            "$(t.ident)"));
//@   end
  return check(net, cuStreamSynchronize(stream), "cuStreamSynchronize");
}

Status $(k.name)_$(entry.ident)_host($(k.name) *net, $(k.params(entry, true))CUstream stream) {
  if ($(null)) return refuse(net);
//@   for _, kind in ipairs{"inputs", "outputs"} do
//@     for _, t in ipairs(entry[kind]) do
  if (!$(kind)->$(t.ident))
    return fail(net, $(k.NAME)_ERROR_ARGUMENT, "the pointer '$(t.ident)' is null");
//@     end
//@   end
  TRY(enter(net));
//@   local both = (ins and ", inputs" or "") .. (outs and ", outputs" or "")
  return leave(net, through_host_$(entry.ident)(net$(both), stream));
}

Status $(k.name)_$(entry.stem)capture($(k.name) *net, $(k.params(entry, false))$(k.name)_graph **graph) {
  Capture capture;
  if ($(null) || !graph) return refuse(net);
  *graph = NULL;
  TRY(check_$(entry.ident)(net$(ins and ", inputs" or "")$(outs and ", outputs" or "")));
  TRY(enter(net));
  Status status = begin_capture(net, &capture);
  if (status != $(k.NAME)_OK) return leave(net, status);
  Run run = {net, capture.stream, NULL, NULL, 0};
  return leave(net, end_capture(net, &capture, enqueue_$(entry.ident)(&run$(pass)), graph));
}

Status $(k.name)_$(entry.stem)profile($(k.name) *net, $(k.params(entry, false))CUstream stream, LaunchTime *times) {
  CUevent events[$(k.NAME)_$(entry.NAME)_LAUNCHES + 1];
  if ($(null) || !times) return refuse(net);
  TRY(check_$(entry.ident)(net$(ins and ", inputs" or "")$(outs and ", outputs" or "")));
  TRY(enter(net));
  Run run = {net, stream, times, events, 0};
  Status status = create_events(net, events, $(k.NAME)_$(entry.NAME)_LAUNCHES + 1);
  if (status == $(k.NAME)_OK) status = enqueue_$(entry.ident)(&run$(pass));
  if (status == $(k.NAME)_OK)
    status = check(net, cuEventRecord(events[run.count], stream), "cuEventRecord");
  if (status == $(k.NAME)_OK) status = measure(net, events, run.count, times);
  destroy_events(events, $(k.NAME)_$(entry.NAME)_LAUNCHES + 1);
  return leave(net, status);
}
//@ end
//@ if #k.states > 0 then

// ---- states -----------------------------------------------------------------------------------

size_t $(k.name)_state_bytes($(k.name)_state state) {
  return (unsigned)state < kStates ? states[state].bytes : 0;
}

static int is_state(const $(k.name) *net, $(k.name)_state state) {
  return net && (unsigned)state < kStates;
}

CUdeviceptr $(k.name)_state_pointer(const $(k.name) *net, $(k.name)_state state) {
  return is_state(net, state) ? net->memory + states[state].offset : 0;
}

Status $(k.name)_state_read($(k.name) *net, $(k.name)_state state, void *host, CUstream stream) {
  CUdeviceptr from = $(k.name)_state_pointer(net, state);
  if (!is_state(net, state) || !host) return refuse(net);
  if (!states[state].bytes) return $(k.NAME)_OK;
  TRY(enter(net));
  return leave(net, check(net, cuMemcpyDtoHAsync(host, from, states[state].bytes, stream),
                          states[state].name));
}

Status $(k.name)_state_write($(k.name) *net, $(k.name)_state state, const void *host,
    CUstream stream) {
  CUdeviceptr to = $(k.name)_state_pointer(net, state);
  if (!is_state(net, state) || !host) return refuse(net);
  if (!states[state].bytes) return $(k.NAME)_OK;
  TRY(enter(net));
  return leave(net, check(net, cuMemcpyHtoDAsync(to, host, states[state].bytes, stream),
                          states[state].name));
}

Status $(k.name)_synchronize($(k.name) *net, CUstream stream) {
  if (!net) return $(k.NAME)_ERROR_ARGUMENT;
  TRY(enter(net));
  return leave(net, check(net, cuStreamSynchronize(stream), "cuStreamSynchronize"));
}

Status $(k.name)_state_reset($(k.name) *net, $(k.name)_state state, CUstream stream) {
  CUdeviceptr to = $(k.name)_state_pointer(net, state);
  if (!is_state(net, state)) return refuse(net);
  if (!states[state].constant)
    return fail(net, $(k.NAME)_ERROR_ARGUMENT, "state '%s' begins with learned values",
                states[state].name);
  TRY(enter(net));
  return leave(net, fill(net, &states[state], to, stream));
}
//@ end
