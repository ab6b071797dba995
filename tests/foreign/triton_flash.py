"""triton_flash.py FOLDER CAPABILITY DEPTH...: flash attention by Triton, which needs no GPU, for
one of this capability, as 80: for each head size the tiles and warps that its tutorial tries, as
FOLDER/flash_DEPTH_ROWSxKEYS_WARPS.cubin."""
import sys

from triton_kernels import F, H, I, compiled, flash

TYPES = {"q": H, "k": H, "v": H, "o": F, "scale": "fp32", "N": I}

folder, capability, *depths = sys.argv[1:]
for depth in map(int, depths):
    for rows in (64, 128):
        for keys in (32, 64, 128):
            for warps in (4, 8):
                made = compiled(flash, TYPES, {"D": depth, "BM": rows, "BN": keys},
                                int(capability), num_warps=warps)
                with open(f"{folder}/flash_{depth}_{rows}x{keys}_{warps}.cubin", "wb") as f:
                    f.write(made.asm["cubin"])
