"""``unfix``: sizes that an ONNX file fixes become the caller's choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from graphshare.analysis.free_sizes import DynamicShapes
from graphshare.arguments import NotNegative, Seconds
from graphshare.checkpoint.load import Model, as_checkpoint
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import notes_on
from graphshare.errors import locate_refusals
from graphshare.formats.model_format import Capability, require
from graphshare.ir.graph import Entry, Node
from graphshare.resources import resource_limits
from graphshare.rewrite.unfix import list_shapes
from graphshare.rewrite.unfix import unfix as free_sizes
from graphshare.text.summary import ShortRepr

if TYPE_CHECKING:
    from graphshare.verification.free_sizes import SizesProof

Sizes = Mapping[str, tuple[int | str | None, ...] | None]


class Unfixing(ShortRepr, msgspec.Struct, frozen=True):
    """The result of ``unfix``: the shapes of ``inputs`` and ``outputs`` by name, and the operators that it ``changed``.

    A size is a number, the name of a free size, or None where it follows from others; a shape is None where its rank does.
    ``proof`` is None where none was wanted.
    """

    inputs: Sizes
    outputs: Sizes
    changed: tuple[str, ...]
    proof: SizesProof | None = None


def unfix(
    model: Model,
    *,
    dynamic_batch: bool = False,
    dynamic: DynamicShapes | None = None,
    verify: bool = True,
    tolerance: NotNegative | None = None,
    max_memory: int | str | None = None,
    time_limit: Seconds | None = None,
) -> Checkpoint:
    """Leave sizes that an ONNX model fixes to its caller, and prove in onnxruntime that it computes the same.

    With ``dynamic_batch`` the caller chooses the batch; ``dynamic`` names sizes that the caller chooses
    (``{"data": ("n", 3, "h", "w")}``), those of a batch first. The targets of reshapes, initial states, constants that are
    joined and the like follow; ``report`` of the result is an :class:`Unfixing`.

    With ``verify`` outputs at the sizes of the file are equal bit for bit, each sample of a batch has the values that the
    original gives for it up to ``tolerance`` of the output's largest number (by default 1e-4, of float16 1e-2, of float64
    1e-9) and bit for bit the same when other samples change, and the model is computed at other sizes too.

    Raises:
        UsageError: no size would be free, a name is not that of an input, or a size contradicts its shape; onnxruntime is
            wanted and not installed.
        RefusedError: the format has no fixed sizes; operators mix samples or take a fixed size; all are listed.
        DisprovedError: onnxruntime computes something else.
    """
    source = as_checkpoint(model)
    require(source.graph, Capability.UNFIX, where=source.where)
    with resource_limits(max_memory, time_limit):
        with locate_refusals(source):
            rewrite = free_sizes(source.graph, dynamic or {}, dynamic_batch, partial(_measure, source))
        unfixed = follow_rewrite(source, rewrite)
        proof = None
        if verify:
            from graphshare.verification.free_sizes import prove_sizes  # start-up: --help must not import numpy

            proof = prove_sizes(unfixed, rewrite, source, tolerance)
    notes = [*notes_on(source.parameter_file, source.graph), *unfixed.notes]
    if proof is not None and not proof.tells_apart:
        notes.append("all drawn samples have the same outputs, so only the operators show that no sample depends on others")
    inputs, outputs = list_shapes(unfixed.graph)
    report = Unfixing(inputs, outputs, tuple(node.details.label or node.name for node in rewrite.changed), proof)
    return msgspec.structs.replace(unfixed, report=report, notes=tuple(notes))


def _measure(
    model: Checkpoint, entries: Sequence[Entry], shapes: Mapping[str, Sequence[int]]
) -> Mapping[tuple[Node, int], Sequence[int]]:
    from graphshare.verification.free_sizes import measure_shapes  # start-up: --help must not import numpy

    return measure_shapes(model, entries, shapes)
