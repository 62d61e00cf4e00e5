"""What a model format is: one object per format, with what its files are and what can be done with its graphs.

A graph knows its format by ``graph.source``; :func:`find_format` returns the object. Nothing outside ``formats`` and
``checkpoint`` asks which format a graph has: it asks for a capability, or calls a method of the format.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import ClassVar

from graphshare.errors import Fault, RefusedError
from graphshare.ir.compare import Change
from graphshare.ir.graph import Graph, Node


class Capability(Enum):
    """Something that a format may not support; the value is its name in a refusal."""

    SHAPES = "the inference of shapes"
    RUN = "a run"
    TRAINING = "training"
    LAYERS = "the comparison of inner outputs"
    RECORDED = "the comparison with recorded outputs"
    BATCH = "a batch of branches"
    FOLD = "a fold"
    UPGRADE = "an upgrade"
    LAYOUT = "a choice of layout"
    EXPORT = "an export"
    PARAMETER_FILE = "a parameter file"
    EXTERNAL_DATA = "a choice for external data"


class ModelFormat(ABC):
    """One model format. Instances have no state.

    ``name`` is what :attr:`graphshare.ir.graph.Source.format` has, ``title`` what messages call a model of it, with its
    article, and ``plural`` several. ``suffix`` is what file names end in. ``missing`` maps each capability that the format
    lacks to what can be done instead.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    plural: ClassVar[str]
    suffix: ClassVar[str]
    missing: ClassVar[Mapping[Capability, str]] = {}

    def supports(self, capability: Capability) -> bool:
        """Return whether models of this format have a capability."""
        return capability not in self.missing

    def find_changes(
        self, left: Graph, right: Graph, pairs: Iterable[tuple[Node, Node]], *, computed: bool = False
    ) -> Iterator[Change]:
        """Yield what differs between two graphs of this format in what their files state beyond nodes and parameters.

        ``pairs`` are the nodes that belong together. With ``computed`` only what changes values that are computed.
        """
        return iter(())


class MxnetFormat(ModelFormat):
    """Symbol JSON, with parameters in a file of their own. Its operators are known."""

    name = "mxnet"
    title = "an MXNet graph"
    plural = "MXNet graphs"
    suffix = "-symbol.json"
    missing: ClassVar[Mapping[Capability, str]] = {
        Capability.EXTERNAL_DATA: "its parameters are in a file of their own: see --params-out",
    }


_COMPUTED = "`graphshare verify` computes an ONNX model in onnxruntime and compares it with another model or between branches"


class OnnxFormat(ModelFormat):
    """ONNX models, which hold their parameters; onnxruntime computes them."""

    name = "onnx"
    title = "an ONNX model"
    plural = "ONNX models"
    suffix = ".onnx"
    missing: ClassVar[Mapping[Capability, str]] = {
        Capability.SHAPES: "`graphshare inspect` shows the shapes that the file states",
        Capability.RUN: _COMPUTED,
        Capability.TRAINING: "train the MXNet model that it was exported from",
        Capability.LAYERS: "verify names the first inner value that differs without it",
        Capability.RECORDED: "compare it with another model: --against",
        Capability.BATCH: "--mode tie runs every branch by itself, on the same weights",
        Capability.FOLD: "fold the MXNet model, and export it with `graphshare export --fold`",
        Capability.UPGRADE: "onnx.version_converter changes the operator set of an ONNX model",
        Capability.LAYOUT: "an ONNX model is not a text",
        Capability.EXPORT: "it is an ONNX model already",
        Capability.PARAMETER_FILE: "an ONNX model holds its parameters itself",
    }

    def find_changes(
        self, left: Graph, right: Graph, pairs: Iterable[tuple[Node, Node]], *, computed: bool = False
    ) -> Iterator[Change]:
        """Yield what differs in operator sets, functions, types of inputs and outputs, and quantization annotations."""
        from graphshare.formats.onnx.statements import find_changes  # start-up: only comparisons of ONNX models need it

        return find_changes(left, right, pairs, computed=computed)


FORMATS: dict[str, ModelFormat] = {format_.name: format_ for format_ in (MxnetFormat(), OnnxFormat())}


def find_format(graph: Graph) -> ModelFormat:
    """Return the format of a graph."""
    return FORMATS[graph.source.format]


def find_statement_changes(
    left: Graph, right: Graph, pairs: Iterable[tuple[Node, Node]], *, computed: bool = False
) -> Iterator[Change]:
    """Yield what :meth:`ModelFormat.find_changes` finds; graphs of two formats state nothing that can be compared."""
    format_ = find_format(left)
    return format_.find_changes(left, right, pairs, computed=computed) if format_ is find_format(right) else iter(())


def require(graph: Graph, capability: Capability, *, what: str = "", where: str = "") -> None:
    """Refuse a graph whose format lacks a capability. ``what`` is an option's name where one asked for it.

    Raises:
        RefusedError: the format lacks it; the formats that have it are named, and what can be done instead.
    """
    format_ = find_format(graph)
    if not format_.supports(capability):
        able = " and ".join(other.plural for other in FORMATS.values() if other.supports(capability))
        message = f"{what or capability.value} is for {able}, and this is {format_.title}"
        raise RefusedError(Fault(message, where=where, hint=format_.missing[capability]))
