// driver_types.h: its declarations for kernels are built in, as in NVRTC.
