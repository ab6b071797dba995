// cuda_runtime.h: not there; instead of the message that no such file exists.
#error "libcusim: no cuda_runtime.h: leave it out: what NVRTC has built in is built in here, the host API is not there"
