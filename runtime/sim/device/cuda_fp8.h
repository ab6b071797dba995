// cuda_fp8.h: not there; instead of the message that no such file exists.
#error "libcusim: no cuda_fp8.h: fp8 types are not there"
