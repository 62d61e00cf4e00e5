"""``fingerprint``: digests that tell whether two files are the same model."""

from __future__ import annotations

from graphshare.checkpoint.load import Model, as_checkpoint
from graphshare.errors import Fault, RefusedError
from graphshare.formats.model_format import Operation, require
from graphshare.inspection.digests import Fingerprint, hash_model
from graphshare.ir.terms import Facts, TermTable


def fingerprint(model: Model) -> Fingerprint:
    """Return digests of structure and weights. Names, storage and the order of nodes do not affect
    them.

    Raises:
        RefusedError: the operators of the model's format are unknown.
        InputError: functions call each other in a circle; a file of weights cannot be read.
    """
    from graphshare.analysis.normal_form import make_form  # start-up: its arrays need numpy

    source = as_checkpoint(model)
    graph, parameters = source.graph, source.parameter_file
    require(graph, Operation.FINGERPRINT, where=source.where)
    form = make_form(graph, parameters, TermTable(), Facts())
    if form is None:
        raise RefusedError(
            Fault("has no fingerprint: its operators are not known", where=source.where)
        )
    return hash_model(graph, parameters, form)
