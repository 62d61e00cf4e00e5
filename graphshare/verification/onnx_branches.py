"""The branches of an exported model, and the values that show whether they compute the same in onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphshare.analysis.branches import HeadPairs, find_prefixes, pair_by_prefix
from graphshare.analysis.roles import Kind, Role
from graphshare.errors import RefusedError
from graphshare.execute.engines.onnx_session import Session
from graphshare.formats.params.lookup import RecordsByName, compare_parameters
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Graph, Node
from graphshare.ops.batch_norm.signature import BARRIER_KEYS
from graphshare.ops.kernel import Array
from graphshare.verification.onnx_proof import BranchProof


def find_branches(graph: Graph, roles: Mapping[Node, Role], params: ParameterFile | None) -> list[HeadPairs]:
    """Return the branches of a graph that must compute the same, by the names of its outputs; none where there is one only.

    They are one graph but for names, on parameters that are tied or equal byte for byte.
    """
    try:
        pairs = pair_by_prefix(graph, find_prefixes(graph))
    except RefusedError:
        return []
    records = RecordsByName(params) if params is not None else None
    return [pair for pair in pairs if _is_twin(pair, roles, records)]


def _is_twin(pair: HeadPairs, roles: Mapping[Node, Role], records: RecordsByName | None) -> bool:
    pairing = compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS)
    owned = [(a, b) for a, b in pairing.pairs if a.is_variable and roles[a].is_parameter]
    compared = compare_parameters(owned, lambda node: roles[node].kind is Kind.AUXILIARY, records, records)
    return bool(pairing) and all(parameter.how in ("tied", "equal") for parameter in compared)


def prove_branches(
    pairs: Sequence[HeadPairs],
    runtime: Session,
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
