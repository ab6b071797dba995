// $(k.name).cu: all kernels of the network $(k.model), in CUDA C++ that needs no other file: first what they
// share, then each kernel in a namespace of its own, under a comment that says what it computes.
//
// $(k.made)
//
//   nvcc -arch=sm_90a -std=c++17 -cubin $(k.name).cu
#ifdef __CUDACC__
#pragma nv_diag_suppress 177 // forms of a function that no kernel here takes
#endif
