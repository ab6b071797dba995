// math_functions.h: what it declares for kernels is built in, as it is in NVRTC.
