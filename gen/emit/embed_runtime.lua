-- embed_runtime.lua: translates C text from the CUDA driver API to the runtime API.
--
-- The templates in templates/embed/ use the driver API. Most names have an equivalent in the
-- runtime API with the same arguments; where the APIs differ more (contexts, loading kernels,
-- launches) the templates contain both variants. A driver name without an equivalent here is an
-- error.
local words = {
  CUDA_SUCCESS = "cudaSuccess",
  CUDA_ERROR_INVALID_PTX = "cudaErrorInvalidPtx",
  CUDA_ERROR_NO_BINARY_FOR_GPU = "cudaErrorNoKernelImageForDevice",
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = "cudaErrorUnsupportedPtxVersion",
  CU_EVENT_DEFAULT = "cudaEventDefault",
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = "cudaFuncAttributeMaxDynamicSharedMemorySize",
  CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT =
    "cudaFuncAttributePreferredSharedMemoryCarveout",
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = "cudaStreamCaptureModeThreadLocal",
  CU_STREAM_NON_BLOCKING = "cudaStreamNonBlocking",
  CUevent = "cudaEvent_t",
  CUfunction = "cudaKernel_t",
  CUgraph = "cudaGraph_t",
  CUgraphExec = "cudaGraphExec_t",
  CUmodule = "cudaLibrary_t",
  CUresult = "cudaError_t",
  CUstream = "cudaStream_t",
  cuDeviceGetAttribute = "cudaDeviceGetAttribute",
  cuEventCreate = "cudaEventCreateWithFlags",
  cuEventDestroy = "cudaEventDestroy",
  cuEventElapsedTime = "cudaEventElapsedTime",
  cuEventRecord = "cudaEventRecord",
  cuEventSynchronize = "cudaEventSynchronize",
  cuFuncSetAttribute = "cudaFuncSetAttribute",
  cuGraphDestroy = "cudaGraphDestroy",
  cuGraphExecDestroy = "cudaGraphExecDestroy",
  cuGraphInstantiate = "cudaGraphInstantiate",
  cuGraphLaunch = "cudaGraphLaunch",
  cuMemAlloc = "cudaMalloc",
  cuMemFree = "cudaFree",
  cuMemsetD8Async = "cudaMemsetAsync",
  cuModuleGetFunction = "cudaLibraryGetKernel",
  cuModuleUnload = "cudaLibraryUnload",
  cuStreamBeginCapture = "cudaStreamBeginCapture",
  cuStreamCreate = "cudaStreamCreateWithFlags",
  cuStreamDestroy = "cudaStreamDestroy",
  cuStreamEndCapture = "cudaStreamEndCapture",
  cuStreamSynchronize = "cudaStreamSynchronize",
}

-- cudaMemcpyAsync takes the direction before the stream.
local directions = {
  cuMemcpyHtoDAsync = "cudaMemcpyHostToDevice",
  cuMemcpyDtoHAsync = "cudaMemcpyDeviceToHost",
  cuMemcpyDtoDAsync = "cudaMemcpyDeviceToDevice",
}

local function copy(name, arguments)
  local direction = directions[name]
  if not direction then return end
  return "cudaMemcpyAsync" ..
         string.gsub(arguments, ", ([%w_>%-]+)%)$", ", " .. direction .. ", %1)")
end

-- Tensor maps exist only in the driver API; both variants use it.
local function is_of_maps(text)
  return string.find(text, "^CUtensorMap") or string.find(text, "^CU_TENSOR_MAP_") or
         text == "cuTensorMapEncodeTiled"
end

local function word(text)
  if words[text] then return words[text] end
  if is_of_maps(text) then return end
  if string.find(text, "^cu%u") or string.find(text, "^CU_") or string.find(text, "^CU%l") then
    error("no equivalent in the runtime API for " .. text)
  end
end

return function(text)
  text = string.gsub(text, "(cuMemcpy%w+)(%b())", copy)
  text = string.gsub(text, "CUdeviceptr %*", "void **")
  text = string.gsub(text, "CUdeviceptr ", "void *")
  text = string.gsub(text, "<cuda%.h>", "<cuda_runtime_api.h>")
  return (string.gsub(text, "%f[%w_][%a_][%w_]*", word))
end
