#!/usr/bin/env python3
"""How much of PyTorch the model language has: the table of models/README.md, by comparing names that
`nngen help --markdown` gives with those of torch itself.

usage: torch_coverage.py [--missing]

Left out are functions whose shapes depend on values, and what is no computation of a network:
complex, quantised, sparse and named tensors, matrix factorisations, storage, devices, gradients'
own bookkeeping, hooks, and forms of in-place work."""
import inspect
import re
import subprocess
import sys

import torch
import torch.nn as tnn
import torch.nn.functional as F

OTHER_MATTERS = {  # of torch.Tensor
    "values": "argwhere nonzero masked_select unique unique_consecutive item tolist numpy "
              "is_nonzero resize resize_as",
    "kinds": "adjoint align_as align_to angle as_subclass ccol_indices cdouble cfloat chalf "
             "coalesce col_indices conj conj_physical crow_indices dense_dim dequantize has_names "
             "indices int_repr is_coalesced is_complex is_conj "
             "is_neg q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale "
             "q_zero_point qscheme refine_names rename resolve_conj resolve_neg row_indices smm "
             "sparse_dim sparse_mask sspaddmm to_dense to_mkldnn to_padded_tensor to_sparse "
             "to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr "
             "values isreal double short char byte",
    "factorisations": "cholesky cholesky_inverse cholesky_solve det eig geqrf inverse logdet lstsq "
                      "lu lu_solve orgqr ormqr pinverse qr slogdet solve svd symeig "
                      "triangular_solve",
    "storage": "as_strided as_strided_scatter backward cpu cuda data_ptr element_size get_device "
               "ipu is_contiguous is_distributed is_floating_point is_inference is_pinned "
               "is_same_size is_set_to is_shared is_signed new "
               "new_empty new_empty_strided new_full new_ones new_tensor new_zeros pin_memory "
               "record_stream register_hook reinforce retain_grad storage storage_offset "
               "storage_type stride unsafe_chunk unsafe_split "
               "unsafe_split_with_sizes xpu narrow_copy",
}
OTHER_FUNCTIONS = "Callable List Optional Tuple Union assert_int_or_pair boolean_dispatch " \
                  "handle_torch_function has_torch_function has_torch_function_unary " \
                  "has_torch_function_variadic native_channel_shuffle " \
                  "multi_head_attention_forward"
OTHER_MODULES = "Container DataParallel Module ModuleDict ModuleList ParameterDict " \
                "ParameterList RNNBase RNNCellBase SyncBatchNorm"


def ours():
    text = subprocess.run(["build/nngen", "help", "--markdown"], capture_output=True, text=True,
                          check=True).stdout
    names, torch_names = set(), set()
    for line in text.splitlines():
        if not line.startswith("- `"):
            continue
        names.add(re.match(r"- `([\w.]+)[({]", line).group(1).split(".")[-1])
        also = re.search(r"`, also ((?:`[\w.]+`(?:, )?)+)", line)
        if also:
            names |= {name.split(".")[-1] for name in re.findall(r"`([\w.]+)`", also.group(1))}
        known = re.search(r"\(([^()]*)\)$", line)
        if known:
            torch_names |= {name.strip() for name in known.group(1).split(",")}
    return names, torch_names


def main():
    names, torch_names = ours()
    methods = [n for n in dir(torch.Tensor) if n[0] != "_" and n[-1] != "_"
               and callable(getattr(torch.Tensor, n))]
    functions = [n for n in dir(F) if n[0] != "_" and n[-1] != "_" and callable(getattr(F, n))
                 and not inspect.isclass(getattr(F, n))]
    modules = [n for n in dir(tnn) if inspect.isclass(getattr(tnn, n))
               and issubclass(getattr(tnn, n), tnn.Module)]
    left_out = (set(" ".join(OTHER_MATTERS.values()).split()) | set(OTHER_FUNCTIONS.split())
                | set(OTHER_MODULES.split()))
    print("| of PyTorch %s | static in shape | here |\n|---|---|---|"
          % torch.__version__.split("+")[0])
    for title, list_of, has in (
            ("`torch.nn`", modules, lambda n: "nn." + n in torch_names),
            ("`torch.nn.functional`", functions, lambda n: n in names or "F." + n in torch_names),
            ("methods of `torch.Tensor`", methods,
             lambda n: n in names or {"torch." + n, "Tensor." + n} & torch_names)):
        all_of = [n for n in list_of if n not in left_out and not n.startswith("Lazy")
                  and not n.endswith("_with_indices")]
        found = [n for n in all_of if has(n)]
        print("| %s | %d | %d |" % (title, len(all_of), len(found)))
        if "--missing" in sys.argv:
            print("    " + " ".join(n for n in all_of if not has(n)))


if __name__ == "__main__":
    main()
