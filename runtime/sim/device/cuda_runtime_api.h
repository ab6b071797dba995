// cuda_runtime_api.h: its declarations for kernels are built in, as in NVRTC.
