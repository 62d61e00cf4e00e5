"""The models of a bucket: fixtures, or the graphs of the corpus, each with its parameters and inputs."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index
from graphshare.text.names import split_key
from tests import params_bytes
from tests.corpus.values import repeated_parameter
from tests.processes import ROOT
from tests.surroundings import recorded

Model = dict[str, bytes]
"""The content of each file of a model by the end of its name; inputs are in ``.npz``."""
GRAPH, PARAMS, INPUTS = "-symbol.json", "-0000.params", ".npz"

_IMAGE = (1, 3, 64, 64)  # of a graph whose inputs were not recorded


def fixture_models() -> dict[str, Model]:
    """Return two models of the fixtures by name."""
    inputs = _archive({"data": np.zeros((1, 1, 28, 28), "float32")})
    folder = ROOT / "fixtures"
    return {
        name: {
            INPUTS: inputs,
            **{end: (folder / f"{name}{end}").read_bytes() for end in (GRAPH, PARAMS)},
        }
        for name in ("lenet", "blog")
    }


def corpus_models(corpus: Path, largest: int) -> dict[str, Model]:
    """Return the models of the corpus whose parameters have at most ``largest`` bytes, by name.

    Parameters that no file holds are drawn. Graphs that MXNet does not load or run are among them.
    """
    models = {}
    for stem in sorted(
        path.name.removesuffix(".json") for path in (corpus / "graphs").glob("*.json")
    ):
        meta = recorded(corpus, stem)
        shapes = _parameter_shapes(meta)
        if sum(4 * math.prod(shape) for shape in shapes.values()) > largest:
            continue
        path = corpus / "oracle" / f"{stem}.io.npz"
        models[stem.replace(GRAPH.removesuffix(".json"), "")] = {
            GRAPH: (corpus / "graphs" / f"{stem}.json").read_bytes(),
            INPUTS: _archive(
                _recorded_inputs(path) if path.exists() else {"data": np.zeros(_IMAGE, "float32")}
            ),
            **_parameters(corpus, meta, shapes),
        }
    return models


def _parameter_shapes(meta: Mapping[str, Any]) -> dict[str, list[int]]:
    shapes = {**(meta.get("arg_shapes") or {}), **(meta.get("aux_shapes") or {})}
    return {
        name: shape
        for name, shape in shapes.items()
        if name not in meta["input_names"] and None not in (shape or [None])
    }


def _recorded_inputs(path: Path) -> dict[str, Any]:
    with np.load(path) as arrays:
        return {
            key.removeprefix("in__"): arrays[key] for key in arrays.files if key.startswith("in__")
        }


def _parameters(corpus: Path, meta: Mapping[str, Any], shapes: Mapping[str, list[int]]) -> Model:
    """Return the parameter file of a graph as it is where it holds all of ``shapes``, else one with
    the missing ones drawn.
    """
    values: dict[str, Any] = {}
    if meta.get("params_file"):
        file = read_index(corpus / meta["params_file"])
        with ArrayReader(file) as reader:
            values = {record.key or "": np.array(reader.read(record)) for record in file.records}
    held = {split_key(key)[1] for key in values}
    if values and held.issuperset(shapes):
        return {PARAMS: (corpus / meta["params_file"]).read_bytes()}
    types, states = meta.get("arg_types") or {}, meta.get("aux_shapes") or {}
    for name, shape in shapes.items():
        if name not in held:
            key = f"{'aux' if name in states else 'arg'}:{name}"
            values[key] = repeated_parameter(name, shape, name in states).astype(
                types.get(name, "float32")
            )
    records = [
        params_bytes.dense(value.shape, str(value.dtype), value.tobytes())
        for value in values.values()
    ]
    return {PARAMS: params_bytes.container(records, values)} if values else {}


def _archive(arrays: Mapping[str, Any]) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()
