// math_functions.h: its declarations for kernels are built in, as in NVRTC.
