"""Symbol JSON as a model format: parameters are in a separate file, operators are known."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from graphshare.errors import Fault, UsageError
from graphshare.files.atomic import OutputTransaction
from graphshare.formats.facets import Description, TextLayout
from graphshare.formats.model_file import ModelFile
from graphshare.formats.model_format import (
    ModelFormat,
    NamedModel,
    Operation,
    Origins,
    RemovedMessage,
    SaveOptions,
)
from graphshare.formats.model_names import PACKED, PARAMETER_ENDINGS, split_params
from graphshare.formats.mxnet.document import begins_like_graph, begins_like_json
from graphshare.formats.mxnet.source import ATTRIBUTE_KEYS, get_source, restyle
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import reachable

_INDENT = re.compile(r"indent:(\d{1,2})")
_UPGRADED = "an upgrade keeps what MXNet reads"
_UPGRADE = "add `gs.upgrade(model)`: it brings them to one version"


class MxnetDescription(Description):
    """Texts about MXNet's operators in pictures."""

    def describe_operator(self, node: Node) -> list[str]:
        attrs = node.attrs
        parts = []
        if "kernel" in attrs and attrs.get("global_pool") not in ("True", "1"):
            # Python 2 wrote sizes as (3L, 3L).
            sizes = attrs["kernel"].strip("()[] ").replace("L", "").rstrip(",")
            parts.append("×".join(map(str.strip, sizes.split(","))))
        parts += [
            attrs[key]
            for key in ("num_filter", "num_hidden", "act_type", "pool_type", "mode")
            if key in attrs
        ]
        strides = {
            part.strip().rstrip("L")
            for part in attrs.get("stride", "").strip("()[] ").split(",")
            if part.strip()
        }
        if len(strides) == 1 and strides != {"1"}:
            parts.append(f"/{strides.pop()}")
        return [part for part in parts if part and len(part) <= 20]


class MxnetLayout(TextLayout):
    """The layouts of symbol files."""

    def relayout(self, graph: Graph, layout: str | None) -> Graph:
        """Return ``graph`` to be written as ``mxnet``, ``compact`` or ``indent:N``; None keeps its
        layout.

        A requested layout has plain line ends, a final newline for ``indent:N`` only, and strings
        that MXNet can read.

        Raises:
            UsageError: there is no such layout.
        """
        if layout is None:
            return restyle(graph)
        if indent := _INDENT.fullmatch(layout):
            return restyle(
                graph,
                layout="indent",
                indent=int(indent[1]),
                newline="\n",
                tail="\n",
                escapes="mxnet",
            )
        if layout not in ("mxnet", "compact"):
            hint = "layouts are mxnet, compact and indent:N, as in indent:2"
            raise UsageError(Fault(f"there is no layout {layout!r}", hint=hint))
        return restyle(graph, layout=layout, newline="\n", tail="", escapes="mxnet")


class MxnetFormat(ModelFormat):
    """MXNet graphs."""

    name = "mxnet"
    title = "an MXNet graph"
    plural = "MXNet graphs"
    file = "a symbol file"
    backends = ("graphshare.execute.backends.numpy_backend",)
    is_text = True
    knows_operators = True
    description = MxnetDescription()
    layout = MxnetLayout()
    alternatives: ClassVar[Mapping[Operation, str]] = {
        Operation.FOLD_VALUES: "weights prove it for every input, and `gs.compare(FOLDED, MODEL)` compares values",
        Operation.STATED_TYPES: "leave it out: MXNet infers the types of a graph",
        Operation.SWITCH: "`gs.export` writes it as ONNX",
        Operation.EXTERNAL_DATA: "its parameters are in a file of their own: see `save(params=...)`",
        Operation.RESHAPE: (
            "its file fixes none; `gs.export(GRAPH, shapes={'data': ('n', 3, 'h', 'w')})` leaves those with names open"
        ),
        Operation.POOL: "`gs.export` writes it as ONNX; `gs.group` puts models on one parameter file",
    }

    def fits(self, start: bytes) -> bool:
        return begins_like_graph(start)

    def may_fit(self, start: bytes) -> bool:
        return begins_like_json(start)

    def read(self, file: ModelFile, *, complete: bool = True) -> Graph:
        return read_symbol(self.read_text(file), where=file.where)

    def list_models(self, names: Collection[str]) -> Iterator[NamedModel]:
        params: dict[str, dict[int, str]] = {}
        # MXNet's own file comes first: of several files with one epoch, the first is listed.
        for name in sorted(names, key=lambda name: (not name.endswith(".params"), name)):
            root, suffix = os.path.splitext(name)
            if suffix not in PARAMETER_ENDINGS:
                continue
            parts = split_params(f"{root}.params")
            if parts is not None:
                stem, epoch = parts
                params.setdefault(stem, {}).setdefault(epoch, name)
        for model in super().list_models(names):
            stem = model.name.removesuffix(PACKED).removesuffix(self.names.suffix)
            yield NamedModel(model.name, dict(sorted(params.get(stem, {}).items())))

    def encode(self, graph: Graph) -> Iterable[bytes]:
        # Start-up: what only reads needs no writer
        from graphshare.formats.mxnet.layout import write_symbol

        return write_symbol(graph)

    def stage(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        target: str,
        stage: OutputTransaction,
        options: SaveOptions,
    ) -> list[bytes]:
        # Start-up: what only reads needs no writer
        from graphshare.formats.mxnet.staging import stage_graph

        return stage_graph(graph, target, stage)

    def list_spellings(self, graph: Graph) -> Iterator[Graph]:
        """A rename always writes strings as MXNet does, so every way to escape them counts."""
        yield graph
        yield from (restyle(graph, escapes=escapes) for escapes in ("mxnet", "json", "ascii"))

    def list_nodes(self, graph: Graph) -> Sequence[Node]:
        return reachable(graph)

    def describe(self, graph: Graph) -> str:
        return recognize_generation(graph)

    def account(self, graph: Graph, origins: Origins) -> Iterator[RemovedMessage | Fault | str]:
        """Yield keys that ``graph`` lacks; attributes are compared node by node."""
        yield from _account_graph_keys(graph, dict.fromkeys(source for source, _ in origins))
        yield from _account_node_keys(
            [pair for _, images in origins for pair in images.items() if pair[0].extra]
        )

    def describe_version(self, graph: Graph) -> str:
        version = graph.version
        stated = f"mxnet_version {version}"
        if version is None:
            stated = "no mxnet_version (MXNet takes it for 0.8.0)"
        return f"{self.describe(graph)}, {stated}"

    def mismatches(self, first: str, graph: Graph, second: str, other: Graph) -> Iterator[Fault]:
        """Yield the differences between the graphs' attributes and between their generations.

        A file has one ``mxnet_version`` (it decides how MXNet reads all of its nodes), one set of
        graph attributes (such as np-shape) and one generation of keys.
        """
        for key, ours, theirs in _list_differences(graph.attrs, other.attrs):
            hint = _UPGRADE if key == "mxnet_version" else "all graphs in a file share this value"
            yield Fault(
                f"{key} is {_format_value(ours)} in {first} and {_format_value(theirs)} in {second}",
                hint=hint,
            )
        generation, another = recognize_generation(graph), recognize_generation(other)
        if generation != another and shows_generation(graph) and shows_generation(other):
            yield Fault(f"{first} is of {generation} and {second} of {another}", hint=_UPGRADE)


def _account_graph_keys(graph: Graph, sources: Iterable[Graph]) -> Iterator[RemovedMessage | Fault]:
    for position, source in enumerate(sources):
        for key, value in source.extra.items():
            if key not in get_source(graph).keys:
                yield RemovedMessage("key", key, _UPGRADED, "")
            elif key not in graph.extra:
                yield Fault(f"the key {key!r} of the graph is lost")
            elif position and graph.extra[key] != value:
                yield RemovedMessage("key", key, "an earlier graph has another value", "")


def _account_node_keys(pairs: Collection[tuple[Node, Node]]) -> Iterator[RemovedMessage | Fault]:
    """An image of several nodes has the keys of one, so it does not count."""
    origin_counts = Counter(image for _, image in dict.fromkeys(pairs))
    for node, image in pairs:
        if origin_counts[image] > 1:
            continue
        for key in node.extra:
            if key in image.extra:
                continue
            if image.form is None and node.form is not None:
                yield RemovedMessage("key", key, _UPGRADED, "")
            elif image.op != node.op:
                reason = f"{node.op} {node.name!r} was folded into {image.op}"
                yield RemovedMessage("key", key, reason, "")
            else:
                yield Fault(f"the key {key!r} is lost", node=node.name)


def _list_differences(
    ours: Mapping[str, Any], theirs: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    for key in {**ours, **theirs}:
        a, b = _plain(ours.get(key)), _plain(theirs.get(key))
        # Without the attribute np-shape is off, as with 0.
        is_off = all(value in (None, ("int", 0)) for value in (a, b))
        if a != b and not (key == "is_np_shape" and is_off):
            yield key, a, b


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _format_value(value: Any) -> str:
    if value is None:
        return "not given"
    return str(value[1]) if isinstance(value, tuple) and len(value) == 2 else repr(value)


FORMAT = MxnetFormat()


# Oldest last: a file may mix keys, and the oldest shows the program that wrote it.
_BY_KEY = (
    ("param", "2015 (StaticGraph, up to 0.8)"),
    ("attr", "0.9 (NNVM, 0.9 to 0.12)"),
    ("attrs", "1.0 (1.0 and later)"),
)


def recognize_generation(graph: Graph) -> str:
    """Return which generation of MXNet wrote a file like this one.

    NNVM (0.9) replaced ``param`` by ``attr``, renamed ``attrs`` in 1.0. A file without attributes
    is dated by its version.
    """
    keys = _list_node_keys(graph)
    for key, name in _BY_KEY:
        if key in keys:
            return name
    (_, first), (_, second), (_, third) = _BY_KEY
    version = graph.version
    if version is None:
        return first
    return second if version < 10000 else third


def shows_generation(graph: Graph) -> bool:
    """Whether the nodes show the generation: a few variables without attributes do not."""
    return not _list_node_keys(graph).isdisjoint(ATTRIBUTE_KEYS)


def _list_node_keys(graph: Graph) -> set[str]:
    return {key for node in graph.nodes if node.form is not None for key in node.form.keys}
