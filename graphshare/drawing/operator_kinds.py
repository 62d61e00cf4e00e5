"""Kinds of operators, one colour each in a picture: one table for the names of every format.

An operator of MXNet whose name contains no known word has the kind of its family.
"""

from __future__ import annotations

import re
from functools import cache

from graphshare.ir.graph import MXNET_DOMAIN, Node
from graphshare.ops.index import FAMILY_OF
from graphshare.ops.registry import canonical

KINDS = {
    "layer": "convolution, linear",
    "normalization": "normalization, dropout",
    "activation": "activation",
    "pooling": "pooling, reduction",
    "movement": "shape, movement",
    "arithmetic": "arithmetic",
    "flow": "control flow",
    "loss": "loss",
}
"""The kinds with their texts in a legend."""

# In this order: softmax_cross_entropy is a loss, conv2d_transpose a layer. Names are lower-case
# here, without _ at the end.
_PATTERNS = {
    "loss": r"loss|cross_?entropy|(softmax|regression|svm)output",
    "flow": r"^_?(if|loop|scan|cond|while|while_loop|foreach|sequencemap)$",
    "layer": r"conv|matmul|gemm|fully_?connected|(?<!rotary)embedding|attention|einsum|^onednn$"
    r"|^(fused_)?(rnn|lstm|gru|linear|fc|bmm|addmm|dot|batch_dot)$",
    "normalization": r"(batch|layer|group|instance|rms)_?norm|normalization|^lrn$|dropout",
    "activation": r"activation|sigmoid|soft(max|min|plus|sign)|hardmax|(^|_)tanh$|swi(sh|glu)|silu|mish"
    r"|shrink|_act$|relu|elu$",
    "pooling": r"pool|^reduc|^arg(max|min)|^topk$|^(roi|statistics)$",
    "movement": r"reshape|transpose|permute|squeeze|flatten|concat|split|stack|slice|gather|scatter|expand"
    r"|^tile|space_?to"
    r"|to_?space|roi_?align|resize|upsample|interp|crop|flip|roll|^(pad\d?d?|where|compress|reversesequence|trilu|one_?hot"
    r"|gridsample|affinegrid|broadcast|indexing|spatial_transform|sorting)$",
    "arithmetic": r"^(binary|unary|numpy_elementwise|ele(mentwise|mwise)_\w+|(bitwise|logical)_?\w+"
    r"|(greater|less)(_?\w+)?"
    r"|is(inf|nan|finite)|a?(sin|cos|tan)h?|log(2|10|1p)?|r?sqrt|cum(sum|prod)|(floor_)?div(ide)?|(not_)?equal|max(imum)?"
    r"|min(imum)?|mul(tiply)?|sub(tract)?|abs|add|and|bitshift|ceil|clip|erf|exp|floor|mean|mod|neg|not|or|pow|reciprocal"
    r"|remainder|round|scale|sign|square|sum|xor)$",
}
# ONNX's Sum adds arrays; sum, and all of its like, reduces one.
_REDUCTIONS = frozenset({"sum", "mean", "max", "min", "prod"})


def find_kind(node: Node) -> str:
    """Return the kind (:data:`KINDS`) of an operator; ``""`` for any other."""
    if node.details.domain != MXNET_DOMAIN:
        return _find_kind(node.op)
    op = canonical(node.op)
    return _find_kind(op) or _find_kind(FAMILY_OF.get(op, ""))


@cache
def _find_kind(name: str) -> str:
    lower = name.lower().rstrip("_")
    if name in _REDUCTIONS:
        return "pooling"
    return next((kind for kind, pattern in _PATTERNS.items() if re.search(pattern, lower)), "")
