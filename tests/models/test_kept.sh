#!/usr/bin/env bash
# Outputs that lanes keep (lib/epilogue.cuh): products of warp groups, cut as a tuning file says, and
# blocks that go on from tile to tile, under thread orders and all checks of libcusim.
. "$(dirname "$0")/../tap.sh"

. tests/models/kept.sh
try() { few 4/3 && ok "$@"; } # in the short run one of four, in the long run one of three

try "rows and columns end within a tile; b runs along k" \
  product "64x64 warps 16x64 stages 3 parts 1" 6 "bf16 matmul 70x96 by 96x136 transposed" bf16 \
  "matmul 1 70 136 96 0 2"
try "the same in tf32" \
  product "64x64 warps 16x64 stages 3 parts 1" 6 "tf32 matmul 70x96 by 96x136 transposed" tf32 \
  "matmul 1 70 136 96 0 2"
try "b runs across k: lanes exchange halves" \
  product "64x64 warps 16x64 stages 3 parts 1" 6 "bf16 matmul 70x96 by 96x136" bf16 \
  "matmul 1 70 136 96 0 0"
try "192 columns, 32 rows a warp across k" \
  product "128x192 warps 16x192 stages 3 parts 1" 4 "bf16 matmul 200x96 by 96x264" bf16 \
  "matmul 1 200 264 96 0 0"
try "an image's gradient, in phases" \
  product "64x64 warps 16x64 stages 3 parts 1" 8 \
  "bf16 conv data 2x72x8x8 by 72x64x3x3 stride 2x2 pad 1,1,1,1" bf16 \
  "data 2 64 15 15 72 3 3 2 2 1 1 1 1 1"
try "sums of columns" \
  model "128x128 warps 16x128 stages 5 parts 1" 8 \
  "bf16 conv 4x64x15x15 by 72x64x3x3 stride 1x1 pad 1,1,1,1" bf16 sums
try "sums of columns, 32 rows a warp" \
  model "128x64 warps 32x64 stages 5 parts 1" 16 \
  "bf16 conv 4x64x15x15 by 72x64x3x3 stride 1x1 pad 1,1,1,1" bf16 sums
try "halves of a gated unit" \
  model "64x128 warps 16x128 stages 3 parts 1" 2 "bf16 matmul 70x72 by 72x128 transposed" bf16 gated
try "statistics of rows, of tiles along n" \
  model "64x128 warps 16x128 stages 3 parts 1" 6 "bf16 matmul 70x96 by 96x264 transposed" bf16 rows
try "statistics of rows that a tile has" \
  model "64x64 warps 16x64 stages 3 parts 1" 2 "bf16 matmul 70x96 by 96x64 transposed" bf16 rows \
  width=64
try "a state changed in place" \
  model "64x64 warps 16x64 stages 3 parts 1" 6 "bf16 matmul 70x96 by 96x136" bf16 state
try "blocks go on from tile to tile" \
  product "128x256 warps 16x256 stages 4 parts 1" 132 "bf16 matmul 2200x100 by 100x2100 transposed" \
  bf16 "matmul 1 2200 2100 100 0 2"
long && try "the same in tf32, several products" \
  product "256x128 warps 32x128 stages 3 parts 1" 132 "tf32 matmul 3x1000x72 by 3x72x1500 transposed" \
  tf32 "matmul 3 1000 1500 72 0 2"
long && try "the same of an image, whose taps are in a table" \
  model "128x128 warps 16x128 stages 5 parts 1" 132 \
  "bf16 conv 20x64x33x31 by 200x64x1x3 stride 1x1 pad 0,1,0,1" bf16 image images=20 out=200
long && try "the same of an image with one block of k, so that tiles follow before the first product" \
  model "128x128 warps 16x128 stages 5 parts 1" 132 \
  "bf16 conv 10x16x33x31 by 200x16x2x2 stride 1x1 pad 1,1,1,1" bf16 image \
  images=10 channels=16 out=200 r=2 s=2
# sums OF DTYPE [SETTING...]: of all tiles of a block, the last of which is not whole.
sums() {
  model "256x64 warps 32x64 stages 4 parts 1" 132 \
    "$2 conv 152x8x15x15 by 24x8x3x3 stride 1x1 pad 1,1,1,1" $2 sums images=152 channels=8 out=24 of=$1
}
few 1/3 sums && ok "blocks with sums of columns go on from tile to tile" sums norm bf16
long && few 1/3 sums && ok "the same of one column" sums one bf16
long && few 1/3 sums && ok "the same of three columns, in tf32" sums three tf32
tap_done
