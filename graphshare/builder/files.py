"""Writing what was authored: a symbol file and its parameters, both or neither."""

from __future__ import annotations

from collections.abc import Sequence

from graphshare.analysis.roles import Kind
from graphshare.builder.session import Session, Target
from graphshare.errors import Fault, RefusedError, SelfCheckError
from graphshare.formats.atomic import staged_outputs
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.written import differences
from graphshare.formats.params.array_files import write_array_params
from graphshare.text.names import join_key


def save(session: Session, targets: Target | Sequence[Target], stem: str, *, epoch: int = 0) -> tuple[str, str]:
    """Writes the minimal graph of ``targets`` to ``STEM-symbol.json`` and the values of its parameters to ``STEM-0000.params``.

    They are files as MXNet 1.9.1 writes them. Returns the two paths. Parameters without a value get their first one.

    Raises:
        RefusedError: a parameter's shape is not known, or its type has no place in the file.
        OutputError: something could not be written; what stood there before still stands.
        SelfCheckError: the graph does not read back as it is.
    """
    if epoch < 0:
        raise RefusedError(Fault(f"there is no epoch {epoch}", hint="epochs count from 0"))
    graph = session.graph(targets)
    text = b"".join(write_symbol(graph))
    faults = list(differences(text, graph))
    if faults:
        raise SelfCheckError(faults)
    arrays = {}
    kinds = {Kind.PARAMETER: "arg", Kind.AUXILIARY: "aux"}
    for node in graph.variables():
        known = session.registry.variables[node.name]
        if known.kind in kinds:
            arrays[join_key(kinds[known.kind], node.name)] = session.value(known.var)
    paths = f"{stem}-symbol.json", f"{stem}-{epoch:04d}.params"
    with staged_outputs() as stage:
        stage.open(paths[0]).write(text)
        write_array_params(arrays, stage.open(paths[1]))
        stage.commit()
    return paths
