// $(k.name).cu: all kernels of the network $(k.model), in self-contained CUDA C++: first shared code,
// then each kernel in its own namespace, under a comment that says what it computes.
//
// $(k.made)
//
//   nvcc -arch=sm_90a -std=c++17 -cubin $(k.name).cu
#ifdef __CUDACC__
#pragma nv_diag_suppress 177 // unused overloads of device functions
#endif
