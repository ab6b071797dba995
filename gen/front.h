// front.h: what front.c (the calls of a model) and model.c (its running) share.
#ifndef NNGEN_FRONT_H
#define NNGEN_FRONT_H

#include "nngen.h"

#define kTensorType "nngen.tensor" // the Lua type of a node

void front_begin(void);            // a model file starts: no scope, no call
void front_push_core(Compiler *c); // pushes the table `core` that nn.lua is given

#endif
