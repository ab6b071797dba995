//@ -- part.cu: constants of a part of a launch over several tensors, and which of those that share
//@ -- its text (alike.lua) a block has. k: a class.
    constexpr int kLanes = $(k.lanes);
//@ if k.elements == "kCount" then
    constexpr $(counter(k.count)) kCount = $(k.count);
//@ end
//@ if k.fields then
    const auto of = $(k.tensors)(part_of(kBegins, $(k.first), $(k.final), blockIdx.x));
//@ end
