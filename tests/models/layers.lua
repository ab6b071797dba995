-- One output per form of convolution, as PyTorch has them: tests/models/torch_layers.py has the
-- same list.
local nn = require "nn"
local x = nn.input("x", {2, 8, 9, 7})

nn.output("plain", x:conv2d("plain", {out = 6, kernel = 3, pad = 1}))
nn.output("strided", x:conv2d("strided", {out = 7, kernel = {5, 3}, stride = {3, 2}, pad = {2, 1}}))
nn.output("dilated",
          x:conv2d("dilated", {out = 5, kernel = 3, dilation = {3, 2}, pad = 2, bias = false}))
nn.output("grouped", x:conv2d("grouped", {out = 12, kernel = 3, pad = 1, groups = 4}))
nn.output("depthwise",
          x:conv2d("depthwise", {out = 8, kernel = 5, stride = 2, pad = 2, groups = 8}))
nn.output("multiplied", x:conv2d("multiplied", {out = 24, kernel = 3, groups = 8}))
nn.output("pointwise", x:conv2d("pointwise", {out = 16, kernel = 1, stride = 2}))
nn.output("wide", x:conv2d("wide", {out = 4, kernel = {11, 9}, pad = 4}))
nn.output("up",
          x:conv_transpose2d("up", {out = 6, kernel = 3, stride = 2, pad = 1, output_pad = 1}))
nn.output("up_even", x:conv_transpose2d("up_even", {out = 16, kernel = 4, stride = 2, pad = 1}))
nn.output("up_tiles", x:conv_transpose2d("up_tiles", {out = 4, kernel = {2, 3}, stride = {2, 3},
                                                      groups = 2, bias = false}))
nn.output("up_dilated",
          x:conv_transpose2d("up_dilated", {out = 4, kernel = 3, dilation = 2, pad = 2}))
nn.output("up_uneven", x:conv_transpose2d("up_uneven", {out = 4, kernel = {5, 3}, stride = {3, 2},
                                                        dilation = {2, 1}, pad = {1, 0},
                                                        groups = 4, output_pad = {2, 1}}))
nn.output("up_sparse", x:conv_transpose2d("up_sparse", {out = 8, kernel = 1, stride = 2}))
nn.output("up_cut", x:conv_transpose2d("up_cut", {out = 3, kernel = 3, stride = 1, pad = 2}))
nn.output("up_norm", x:conv_transpose2d("up_norm", {out = 8, kernel = 4, stride = 2, pad = 1})
                      :batch_norm2d("up_norm_bn"):relu())
nn.output("up_grouped",
          x:conv_transpose2d("up_grouped", {out = 32, kernel = 3, stride = 2, pad = 1, dilation = 2,
                                            groups = 2, output_pad = 1}))
local up = x:conv_transpose2d("up_block", {out = 16, kernel = 2, stride = 2})
nn.output("up_block",
          (up:relu():conv2d("up_block_conv", {out = 16, kernel = 3, pad = 1}) + up):relu())
