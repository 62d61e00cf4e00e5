"""Models of the corpus, ready to run: a graph, the values of its parameters and of its inputs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.surroundings import recorded


class Model(NamedTuple):
    """``params`` may be an .npz file; ``feed`` is one, its keys the names of the inputs."""

    graph: Path
    params: Path
    feed: dict[str, np.ndarray[Any, Any]]
    np_shape: bool


def corpus_model(corpus: Path, stem: str, directory: Path) -> Model:
    """A model with its own parameter file, or with the corpus' rule for numbers in one made here."""
    meta = recorded(corpus, stem)
    feed = recorded_feed(corpus, stem, meta)
    if meta["params"] == "file":
        params = corpus / meta["params_file"]
    else:
        params = directory / "seeded.npz"
        np.savez(params, **seeded(corpus, meta))
    return Model(corpus / "graphs" / f"{stem}.json", params, feed, bool(meta["is_np_shape"]))


def recorded_feed(corpus: Path, stem: str, meta: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs of the recorded run, or what the corpus' rule gives where only shapes are on record."""
    path = corpus / "oracle" / f"{stem}.io.npz"
    if not path.exists():
        shapes, types = meta["arg_shapes"], meta["arg_types"]
        rule = number_rule(corpus)
        return {
            name: rule.input_value(name, shapes[name], types.get(name, "float32"))
            for name in meta["input_names"]
        }
    with np.load(path) as io:
        return {key[4:]: io[key] for key in io.files if key.startswith("in__")}


def number_rule(corpus: Path) -> Any:
    """The module of the corpus that gives numbers by name."""
    spec = importlib.util.spec_from_file_location("seeded_params", corpus / "seeded_params.py")
    assert spec is not None
    assert spec.loader is not None
    rule = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rule)
    return rule


def seeded(corpus: Path, meta: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """The numbers that stand for parameters nobody published."""
    rule = number_rule(corpus)
    values = {}
    for kind, shapes in (("arg", meta["arg_shapes"]), ("aux", meta["aux_shapes"])):
        for name, shape in shapes.items():
            if name not in meta["input_names"]:
                dtype = meta["arg_types"].get(name, "float32")
                values[f"{kind}:{name}"] = rule.value(name, shape, dtype, kind == "aux")
    return values


def feed_file(model: Model, prefixes: tuple[str, ...], directory: Path) -> str:
    """A file with every input once for each prefix, the same value under all."""
    path = directory / f"feed{len(prefixes)}.npz"
    np.savez(
        path, **{prefix + name: array for prefix in prefixes for name, array in model.feed.items()}
    )
    return str(path)
