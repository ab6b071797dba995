// device_launch_parameters.h: its declarations for kernels are built in, as in NVRTC.
