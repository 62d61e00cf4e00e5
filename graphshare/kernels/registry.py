"""Kernels by operator: the families of this package, and what others add.

A package adds kernels of its own through the entry point group ``graphshare.kernels``: an object that is a tuple of
:class:`~graphshare.kernels.kernel.Kernel`. In Python, :func:`register` does the same.
"""

from __future__ import annotations

from graphshare.kernels.kernel import Kernel
from graphshare.operators.contributed import Contributed

_FAMILIES = """
    activation attention batch_normalization binary boxes by_value casts columns control convolution creation ctc
    deconvolution deformable_regions densities detection drawing hawkes image index_tables indexing joining leaky
    linear linear_algebra loss matching normalization numpy_editing numpy_elementwise numpy_joining numpy_linear
    numpy_scalars numpy_shapes numpy_statistics onednn onednn_attention onednn_dense ordering pooling proposals
    quantized quantized_elementwise quantized_rnn reduction regions reordering reshaping resizing rnn rotated_regions
    sampling scalar sequence slicing softmax sparse stretching unary
""".split()

KERNELS: Contributed[Kernel] = Contributed("graphshare.kernels", "KERNELS", _FAMILIES)


def find_kernel(operator: str) -> Kernel | None:
    """The kernel of an operator, by any of its names; None when there is none."""
    return KERNELS.find(operator)


def register(kernel: Kernel) -> None:
    """Adds a kernel, or puts it in the place of the one for the same operator."""
    KERNELS.register(kernel)


def known_kernels() -> dict[str, Kernel]:
    """All kernels of this package and of installed ones, by canonical name."""
    return KERNELS.known()
