"""Every recorded, deterministic forward of the corpus, computed again: one test per graph, and the counts.

The largest difference, relative to the largest finite output that MXNet computed, is held against a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.analysis.name_lists import internals
from graphshare.api.run import run
from graphshare.checkpoint.model import Checkpoint
from graphshare.execute.plan import UnsupportedError, missing_kernels
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.params.format import read_index
from graphshare.ir.graph import Graph
from graphshare.ir.walk import post_order
from graphshare.ops.inference import infer
from graphshare.ops.registry import canonical
from graphshare.rewrite.upgrade_graph import upgrade_graph
from graphshare.text.names import split_key
from tests.corpus.tails import ORDERING, difference_of_sets
from tests.corpus.values import parameter
from tests.shared_folders import compute_once, shared_folder
from tests.surroundings import NONE, corpus_stems, mark_everyday, recorded

pytestmark = pytest.mark.corpus

LIMIT = 1e-5
# Products that are not fused have other last bits: one has 0.7e-5 as on Haswell, 2.0e-5 on
# Sandybridge, 3.2e-5 on Nehalem.
_DEEP = (
    "a softmax of logits in the hundreds shows the last bits of a deep network; MXNet is further "
    "from float64 than this"
)
#: Graphs that may differ by more, each with the reason; that the reason holds has a test of its own.
LIMITS: dict[str, tuple[float, str]] = {
    "1996scarlet+ArcFace-Multiplex-Recognition__model__R50-symbol": (4e-5, _DEEP),
    "1996scarlet+ArcFace-Multiplex-Recognition__model__R50-symbol.v2": (4e-5, _DEEP),
    "Lohika-Labs+whatsonpizza__whatsonpizza_backend__models__mxnet__resnet-50-symbol": (
        4e-5,
        _DEEP,
    ),
}
# Graphs whose boxes are exp() of what the seeded network says, 1e12 to 1e36: a rounding of the 85
# in exp(85) is 85 times as
#: large behind it. Their outputs are compared as logarithms, which is what went into the exp.
EXPONENTIAL = frozenset(
    {
        "cv_faster_rcnn_resnet50_v1b_voc",
        "cv_yolo3_darknet53_voc",
        "soumyaiitkgp+modelServer__yolo-symbol",
    }
)
#: What differs and is not settled; a test that begins to pass must leave this list.
OPEN: dict[str, str] = {}


def is_recorded(meta: dict[str, Any]) -> bool:
    return bool(meta.get("forward")) and bool(meta.get("deterministic"))


STEMS = corpus_stems(is_recorded)
SHAPED = corpus_stems(lambda meta: bool(meta.get("internal_shapes")))


def graph_of(corpus: Path, stem: str) -> Graph:
    path = corpus / "graphs" / f"{stem}.json"
    return read_symbol(path.read_bytes(), where=path.name)


def difference(got: Any, wanted: Any) -> float:
    """The largest difference relative to the largest finite value; infinite where shapes or infinities differ."""
    got, wanted = np.asarray(got, "float64"), np.asarray(wanted, "float64")
    finite = np.isfinite(wanted)
    if got.shape != wanted.shape or not np.array_equal(np.isfinite(got), finite):
        return float("inf")
    if not finite.any():
        return 0.0
    return float(np.abs(got[finite] - wanted[finite]).max() / (np.abs(wanted[finite]).max() or 1))


def recorded_inputs(corpus: Path, stem: str) -> list[str]:
    """The names of the inputs that were recorded."""
    with np.load(corpus / "oracle" / f"{stem}.io.npz") as arrays:
        return [key.removeprefix("in__") for key in arrays.files if key.startswith("in__")]


def seeded_feeds(corpus: Path, stem: str, held: set[str]) -> dict[str, Any]:
    """The recorded inputs, and the parameters that no file holds."""
    meta = recorded(corpus, stem)
    with np.load(corpus / "oracle" / f"{stem}.io.npz") as arrays:
        feeds = {
            key.removeprefix("in__"): arrays[key] for key in arrays.files if key.startswith("in__")
        }
    types = meta.get("arg_types") or {}
    for name, shape in {**meta["arg_shapes"], **meta["aux_shapes"]}.items():
        if name not in held and name not in feeds:
            feeds[name] = parameter(
                name, shape, types.get(name, "float32"), name in meta["aux_shapes"]
            )
    return feeds


def recorded_outputs(corpus: Path, stem: str) -> list[Any]:
    with np.load(corpus / "oracle" / f"{stem}.io.npz") as arrays:
        return [arrays[f"out__{i}"] for i in range(len(recorded(corpus, stem)["outputs"]))]


def forward(corpus: Path, stem: str) -> dict[str, Any]:
    """How far the outputs of a graph are from MXNet's, and how they were compared; or which operators cannot be run."""
    meta = recorded(corpus, stem)
    params = read_index(corpus / meta["params_file"]) if meta.get("params_file") else None
    held = {split_key(record.key or "")[1] for record in params.records} if params else set()
    graph = graph_of(corpus, stem)
    try:
        done = run(Checkpoint(graph, params), feeds=seeded_feeds(corpus, stem, held))
    except UnsupportedError as error:
        return {"unsupported": sorted({fault.message for fault in error.faults})}
    wanted, got = recorded_outputs(corpus, stem), list(done.outputs.values())
    found, how = distance(stem, graph, got, wanted)
    return {"difference": found, "compared": how}


def distance(
    stem: str, graph: Graph, got: Sequence[Any], wanted: Sequence[Any]
) -> tuple[float, str]:
    """Return how far outputs are from others, relative to the largest, and how they were compared."""
    assert len(got) == len(wanted)
    if stem in EXPONENTIAL:
        got, wanted = ([as_logarithm(x) for x in side] for side in (got, wanted))
    found = max(map(difference, got, wanted))
    if found > LIMIT and any(canonical(node.op) in ORDERING for node in graph.nodes):
        return difference_of_sets(got, wanted), "as sets"
    return found, "as logarithms" if stem in EXPONENTIAL else "in place"


def as_logarithm(x: Any) -> Any:
    """log(1 + abs(x)) with the sign of ``x``."""
    return np.sign(x) * np.log1p(np.abs(np.asarray(x, "float64")))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all processes of this test run, so that no graph is computed twice."""
    return shared_folder(tmp_path_factory, "forward")


def outcome(corpus: Path, shared: Path, stem: str) -> dict[str, Any]:
    """What :func:`forward` says, computed once."""
    return compute_once(shared, stem, lambda: forward(corpus, stem))


UNSUPPORTED: dict[str, tuple[str, ...]] = {}


@pytest.mark.parametrize("stem", mark_everyday(STEMS, 16))
def test_forward(stem: str, corpus: Path, shared: Path) -> None:
    assert stem != NONE
    found = outcome(corpus, shared, stem)
    operators = sorted({f"operator {op} cannot be run" for op in UNSUPPORTED.get(stem, ())})
    assert found.get("unsupported", []) == operators
    if stem in OPEN:
        assert found["difference"] > LIMIT, f"{stem} is settled: take it off the list"
    elif not operators:
        assert found["difference"] <= LIMITS.get(stem, (LIMIT, ""))[0]


@pytest.mark.large
def test_counts(corpus: Path, shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    blocking: Counter[str] = Counter()
    for stem in STEMS:
        found = outcome(corpus, shared, stem)
        if "unsupported" in found:
            counts["unsupported"] += 1
            blocking.update(found["unsupported"])
        else:
            counts["run"] += 1
            limit = LIMITS.get(stem, (LIMIT, ""))[0]
            counts[f"equal within {limit:g}"] += found["difference"] <= limit
            counts[f"compared {found['compared']}"] += 1
    print_counts(counts, blocking, capsys)
    assert counts[f"equal within {LIMIT:g}"] == len(STEMS) - len(LIMITS) - len(UNSUPPORTED)
    for limit, stems in Counter(limit for limit, _ in LIMITS.values()).items():
        assert counts[f"equal within {limit:g}"] == stems
    assert counts["unsupported"] == len(UNSUPPORTED)


def print_counts(
    counts: Counter[str], blocking: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Print how many graphs there are of each kind, and what blocks how many."""
    lines = [f"{len(STEMS):5} graphs with a recorded, deterministic forward"]
    lines += [f"{count:5} {what}" for what, count in counts.items()]
    lines += [f"{count:5} blocked: {what}" for what, count in blocking.most_common()]
    with capsys.disabled():
        print("\n" + "\n".join(lines))


@pytest.mark.large
@pytest.mark.parametrize("stem", LIMITS)
def test_exception_is_nearer_to_float64_than_mxnet(stem: str, corpus: Path) -> None:
    """Why a graph may differ by more: computed in float64, its outputs are nearer to ours in
    float32 than to MXNet's.
    """
    graph, feeds = graph_of(corpus, stem), seeded_feeds(corpus, stem, set())
    ours = run(graph, feeds=feeds).outputs.values()
    wide = {name: x.astype("float64") if x.dtype == np.float32 else x for name, x in feeds.items()}
    exact = [np.asarray(x) for x in run(graph, feeds=wide).outputs.values()]
    assert {x.dtype for x in exact} == {np.dtype("float64")}
    mine = max(map(difference, ours, exact))
    others = max(map(difference, recorded_outputs(corpus, stem), exact))
    assert mine < others


@pytest.mark.parametrize("stem", SHAPED)
def test_inferred_shapes(stem: str, corpus: Path) -> None:
    """From the shapes of the inputs alone every shape that follows is the one that MXNet inferred,
    and all follow that can.
    """
    meta = recorded(corpus, stem)
    graph = upgrade_graph(graph_of(corpus, stem)).graph
    nodes = post_order(entry.node for entry in graph.heads)
    given = {
        n: meta["arg_shapes"][n.name]
        for n in nodes
        if n.is_variable and n.name in meta["input_names"]
    }
    types = {
        n: meta["arg_types"][n.name]
        for n in nodes
        if n.is_variable and n.name in (meta.get("arg_types") or {})
    }
    found = infer(graph, given, types, nodes=nodes)
    wrong, unknown = [], []
    repeated = Counter(name for name, _ in internals(nodes))
    for name, entry in internals(nodes):
        shape = found.shapes[entry.node][entry.index]
        wanted = meta["internal_shapes"].get(name)
        if wanted is None or repeated[name] > 1:
            continue
        if shape is None or None in shape:
            unknown.append(f"{entry.node.op} {name}: {shape}, where MXNet says {wanted}")
        elif list(shape) != list(wanted):
            wrong.append(f"{entry.node.op} {name}: {shape}, not {wanted}")
    assert wrong == []
    assert unknown == [] or missing_kernels(nodes)
