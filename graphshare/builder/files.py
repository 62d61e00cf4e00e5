"""Writing an authored graph: a symbol file and its parameters, both or neither."""

from __future__ import annotations

from collections.abc import Sequence

from graphshare.analysis.roles import Kind
from graphshare.builder.session import Session, Target
from graphshare.errors import Fault, RefusedError, SelfCheckError, UsageError
from graphshare.formats.atomic import OutputTransaction
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.staging import find_differences
from graphshare.formats.output_paths import is_directory
from graphshare.formats.params.array_files import write_arrays
from graphshare.formats.params.registry import FORMATS
from graphshare.formats.paths import extend, join
from graphshare.text.names import join_key
from graphshare.text.urls import local_path


def save(session: Session, targets: Target | Sequence[Target], stem: str, *, epoch: int = 0) -> tuple[str, str]:
    """Write the minimal graph of ``targets`` to ``STEM-symbol.json`` and its parameters to ``STEM-0000.params``.

    The files are those that MXNet 1.9.1 writes. Returns the two paths. Parameters without a value get their initial one.

    Raises:
        UsageError: ``stem`` is a directory: the graph has no name to go there under.
        RefusedError: a parameter's shape is not known, or the file format has no place for its dtype.
        OutputError: a file could not be written; the earlier files are unchanged.
        SelfCheckError: the written graph does not read back equal.
    """
    stem = local_path(stem)
    if is_directory(stem):
        raise UsageError(Fault("is a directory", where=stem, hint=f"name the model in it: {join(stem, 'NAME')}"))
    if epoch < 0:
        raise RefusedError(Fault(f"there is no epoch {epoch}", hint="epochs count from 0"))
    graph = session.graph(targets)
    text = b"".join(write_symbol(graph))
    faults = list(find_differences(text, graph))
    if faults:
        raise SelfCheckError(faults)
    arrays = {}
    kinds = {Kind.PARAMETER: "arg", Kind.AUXILIARY: "aux"}
    for node in graph.variables():
        variable = session.registry.variables[node.name]
        if variable.kind in kinds:
            arrays[join_key(kinds[variable.kind], node.name)] = session.value(variable.var)
    paths = extend(stem, "-symbol.json"), extend(stem, f"-{epoch:04d}.params")
    with OutputTransaction() as stage:
        stage.open(paths[0], last=True).write(text)
        write_arrays(arrays, stage.open(paths[1]), FORMATS["params"])
        stage.commit()
    return paths
