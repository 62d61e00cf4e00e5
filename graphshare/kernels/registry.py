"""Kernels by operator: the families of this package, and what others add.

A package adds kernels of its own through the entry point group ``graphshare.kernels``: an object that is a tuple of
:class:`~graphshare.kernels.kernel.Kernel`. In Python, :func:`register` does the same.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from graphshare.kernels.kernel import Kernel
from graphshare.operators.registry import canonical

_FAMILIES: tuple[str, ...] = (
    "activation",
    "attention",
    "batch_normalization",
    "binary",
    "boxes",
    "by_value",
    "casts",
    "columns",
    "control",
    "convolution",
    "creation",
    "ctc",
    "deconvolution",
    "deformable_regions",
    "densities",
    "detection",
    "drawing",
    "hawkes",
    "image",
    "index_tables",
    "indexing",
    "joining",
    "leaky",
    "linear",
    "linear_algebra",
    "loss",
    "matching",
    "normalization",
    "numpy_editing",
    "numpy_elementwise",
    "numpy_joining",
    "numpy_linear",
    "numpy_scalars",
    "numpy_shapes",
    "numpy_statistics",
    "onednn",
    "onednn_attention",
    "onednn_dense",
    "ordering",
    "pooling",
    "proposals",
    "quantized",
    "quantized_elementwise",
    "reduction",
    "regions",
    "reordering",
    "reshaping",
    "resizing",
    "rnn",
    "rotated_regions",
    "sampling",
    "scalar",
    "sequence",
    "slicing",
    "softmax",
    "sparse",
    "stretching",
    "unary",
)

_registered: dict[str, Kernel] = {}


def find_kernel(operator: str) -> Kernel | None:
    """The kernel of an operator, by any of its names; None when there is none."""
    name = canonical(operator)
    return _registered.get(name) or known_kernels().get(name)


def register(kernel: Kernel) -> None:
    """Adds a kernel, or puts it in the place of the one for the same operator."""
    _registered[canonical(kernel.operator)] = kernel


@cache
def known_kernels() -> dict[str, Kernel]:
    """All kernels of this package and of installed ones, by canonical name."""
    found: dict[str, Kernel] = {}
    for family in _FAMILIES:
        for kernel in import_module(f"graphshare.kernels.{family}").KERNELS:
            assert kernel.operator not in found, f"two kernels for {kernel.operator}"
            found[kernel.operator] = kernel
    from importlib.metadata import entry_points

    for point in entry_points(group="graphshare.kernels"):
        found.update((canonical(kernel.operator), kernel) for kernel in point.load())
    return found
