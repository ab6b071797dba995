//@ -- begins.cu: the blocks of each part (lib/tensors.cuh).
static __constant__ const int kBegins[] = {
$(k.begins)
};
