// cuda_runtime.h: not there; instead of the message that no such file exists.
#error "libcusim: no cuda_runtime.h: leave it out, the device side is built in"
