//@ -- head.cu: the first lines of every kernel.
$(k.header)
#include "lib/prim.cuh"
//@ if k.values then
#include "lib/values.cuh"
//@ end
//@ if k.draws then
#include "lib/random.cuh"
//@ end
