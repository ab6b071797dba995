//@ -- tensors.cu: the tensors of parts that share text (alike.lua). k: a class.
  auto $(k.tensors) = [&](int part) {  // of $(k.layer)$(k.more)
    struct Tensors {
$(k.fields)
    };
    switch (part) {
$(k.cases)
    }
  };
