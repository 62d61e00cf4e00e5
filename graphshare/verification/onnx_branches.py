"""The branches of an exported model, and the values that show whether they compute the same in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphshare.analysis.branches import HeadPairs, find_prefixes, pair_by_prefix
from graphshare.errors import RefusedError
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Graph, Node
from graphshare.ops.batch_norm.signature import BARRIER_KEYS
from graphshare.ops.kernel import Array
from graphshare.verification.onnx_proof import BranchProof, Runtime


def find_branches(graph: Graph, prefixes: Sequence[str]) -> list[HeadPairs]:
    """Return the branches of a graph by ``prefixes``, or by the names of its outputs; none where there is one only.

    Branches that are not one graph but for names are left out: nothing says that they compute the same.
    """
    try:
        pairs = pair_by_prefix(graph, list(prefixes) or find_prefixes(graph))
    except RefusedError:
        return []
    return [pair for pair in pairs if compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS)]


def prove_branches(
    pairs: Sequence[HeadPairs],
    runtime: Runtime,
    heads: Mapping[tuple[Node, int], int],
    names: Mapping[tuple[Node, int], str],
    values: Mapping[Node, Array],
) -> tuple[BranchProof, ...]:
    """Run each branch and its reference on equal inputs in one session that does not merge equal nodes.

    ``heads`` are the positions of the model's outputs, ``names`` the ONNX names of variables, ``values`` those of inputs.
    Outputs must be equal bit for bit.
    """
    proofs = []
    for pair in pairs:
        feeds = {names[node, 0]: value for node, value in values.items()}
        for a, b in compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS).pairs:
            if a in values and b in values:
                feeds[names[b, 0]] = values[a]
        outputs = runtime.run(feeds)
        differ = []
        for left, right in zip(pair.left, pair.right, strict=True):
            first, second = (outputs[heads[entry.node, entry.index]] for entry in (left, right))
            if not np.array_equal(first, second, equal_nan=first.dtype.kind == "f"):
                differ.append(names[right.node, right.index])
        proofs.append(BranchProof(pair.reference or "(original)", pair.label, len(pair.left), tuple(differ)))
    return tuple(proofs)
