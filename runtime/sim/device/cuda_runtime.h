// cuda_runtime.h: the device side is built in, as it is in NVRTC.
