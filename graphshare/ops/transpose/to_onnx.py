"""Transposes, reversals and blocks of pixels in ONNX."""

from __future__ import annotations

from graphshare.ops.translation import FAR, Translate, Translation, Translator
from graphshare.ops.transpose.kernel import Order, np_transpose_axes, swap_axes, transpose_axes
from graphshare.ops.unification import axis_of


def _translate_transpose(order: Order) -> Translate:
    """Return the translation to ``Transpose`` by the axes that the kernel takes."""
    return lambda t: t.transpose(t.inputs[0], list(order(t.attrs, t.inputs[0].rank)))


def translate_reverse(t: Translation) -> str:
    """Emit ``Slice`` with the step -1."""
    x = t.inputs[0]
    axes = [axis_of(axis, x.rank) for axis in t.attrs["axis"]]
    return t.slice(x, axes, [-1] * len(axes), [-FAR] * len(axes), [-1] * len(axes))


def translate_depth_to_space(t: Translation) -> str:
    """Emit ``DepthToSpace``, or what it stands for with integers, which onnxruntime does not take there."""
    x, b = t.inputs[0], t.attrs["block_size"]
    if x.dtype.startswith("float"):
        return t.emit("DepthToSpace", x, blocksize=b, mode="DCR")
    n, c, h, w = x.shape
    blocks = t.transpose(t.reshape(x, (n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    return t.reshape(blocks, t.outputs[0].shape)


def translate_space_to_depth(t: Translation) -> str:
    """Emit ``SpaceToDepth``, or what it stands for with integers, which onnxruntime does not take there."""
    x, b = t.inputs[0], t.attrs["block_size"]
    if x.dtype.startswith("float"):
        return t.emit("SpaceToDepth", x, blocksize=b)
    n, c, h, w = x.shape
    blocks = t.transpose(t.reshape(x, (n, c, h // b, b, w // b, b)), (0, 3, 5, 1, 2, 4))
    return t.reshape(blocks, t.outputs[0].shape)


TRANSLATIONS = (
    Translator("transpose", _translate_transpose(transpose_axes)),
    Translator("_np_transpose", _translate_transpose(np_transpose_axes)),
    Translator("SwapAxis", _translate_transpose(swap_axes)),
    Translator("reverse", translate_reverse),
    Translator("depth_to_space", translate_depth_to_space),
    Translator("space_to_depth", translate_space_to_depth),
)
