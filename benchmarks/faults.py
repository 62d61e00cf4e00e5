"""Faults planted in rewritten models, one at a time: whether ``compare`` finds each, and names the region that has it.

    python -m benchmarks.faults rewrites [--count 2000] [--seed S]
    python -m benchmarks.faults masked [--count 200]
    python -m benchmarks.faults layers [--count 300]
    python -m benchmarks.faults moved [--count 100]
    python -m benchmarks.faults models --cache DIR [--count 150] [--largest MB]

"rewrites" are small networks as onnxruntime rewrites them, with any fault that moves an output on
the drawn inputs. "masked" are faults that a Relu, Clip, Where or MaxPool hides on these: none may
be EQUAL. "layers" are folds of one layer, with a weight (the median or the largest) moved by 1e-5
and by 1e-3, a bias by 1e-5 of the largest, padding, a stride or a group changed, and two channels
exchanged; "models" are the rewrites that ``benchmarks.rewrites`` keeps in DIR, with such faults in
layers that weights decide. "moved" are regions that only move values, with an exchange or a Slice
that is one off. Rewrites without a fault are judged too: one that is not EQUAL is a false alarm.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

import graphshare as gs
from graphshare.verification.report import Report
from tests.onnx_files.faults import Fault
from tests.onnx_files.test_faults import is_named, judge
from tests.onnx_files.test_masks import make_hidden
from tests.onnx_files.test_weights import build, make_fold

Array = np.ndarray[Any, Any]
_OF_EACH = 6
"""Faults of one rewrite of a model."""
_LINEAR = ("Conv", "FusedConv", "Gemm", "FusedGemm", "MatMul", "FusedMatMul")


class Planted(NamedTuple):
    """A model, and its rewrite with a fault; ``node`` has the fault, where it is known.

    ``kind`` is empty without a fault.
    """

    kind: str
    original: onnx.ModelProto
    faulty: onnx.ModelProto
    node: str


def change_weights(
    weight: Array, bias: Array | None, rng: Random
) -> Iterator[tuple[str, Array, Array | None]]:
    """Yield a kind of fault with the weight of output channels `(M, ...)` and the bias `(M,)` that have it."""
    order = np.argsort(np.abs(weight), axis=None)
    order = order[np.count_nonzero(weight == 0) :]
    for name, place in (
        (("median", order[len(order) // 2]), ("largest", order[-1])) if len(order) else ()
    ):
        for share in (1e-5, 1e-3):
            moved = weight.copy()
            moved.flat[place] *= weight.dtype.type(1 + share)
            yield f"{name} weight by {share:g}", moved, bias
    if bias is not None and np.any(bias):
        moved = bias.copy()
        moved[rng.randrange(len(bias))] += bias.dtype.type(1e-5) * np.abs(bias).max()
        yield "bias by 1e-05 of the largest", weight, moved
    if len(weight) > 1:
        order = np.arange(len(weight))
        a, b = rng.sample(range(len(weight)), 2)
        order[[a, b]] = order[[b, a]]
        if np.abs(weight[order] - weight).max() > 1e-3 * np.abs(weight).max():
            yield "channels exchanged", weight[order], None if bias is None else bias[order]


def make_layers(seed: int) -> Iterator[Planted]:
    """Yield faults in the fold of one layer; a mean over each picture gives outputs of other windows one shape."""
    fold, rng = make_fold(seed), Random(seed)
    tail = ("GlobalAveragePool", "y", "z", {})
    is_picture = len(fold.shape) == 4

    def make(nodes: Any, weights: Mapping[str, Array]) -> onnx.ModelProto:
        model = build([*nodes, *[tail] * is_picture], weights, fold.shape)
        model.graph.output[0].name = "z" if is_picture else "y"
        return model

    original = make(fold.nodes, fold.weights)
    yield Planted("", original, make(fold.folded, fold.joined), "")
    for kind, weight, bias in change_weights(fold.joined["w"], fold.joined["f"], rng):
        yield Planted(kind, original, make(fold.folded, {"w": weight, "f": bias}), "n")
    if not is_picture:
        return
    (op, names, end, window), *others = fold.folded
    changes = {
        "padding": {"pads": [0, 1, 2, 1]},
        "stride": {"strides": [3 - window["strides"][0], window["strides"][1]]},
    }
    if window["group"] == 1 and not any(n % 2 for n in fold.joined["w"].shape[:2]):
        changes["group"] = {"group": 2}
    for kind, change in changes.items():
        joined = dict(fold.joined)
        if kind == "group":
            joined["w"] = joined["w"][:, : joined["w"].shape[1] // 2].copy()
        yield Planted(
            kind, original, make([(op, names, end, {**window, **change}), *others], joined), "n"
        )


def make_moved(seed: int) -> Iterator[Planted]:
    """Yield faults in a region that moves values, which the rewrite writes with other operators."""
    rng = Random(seed)
    groups, per_group = rng.randint(2, 4), rng.randint(2, 4)
    channels, size = groups * per_group, rng.randint(3, 5)
    shape, dtype = [1, channels, size, size], rng.choice(("FLOAT", "DOUBLE", "FLOAT16"))
    shuffled = np.arange(channels).reshape(groups, per_group).T.reshape(-1)
    cut = rng.randrange(1, channels - 1)
    numbers = {
        "five": [1, groups, per_group, size, size],
        "four": shape,
        "i": shuffled,
        "zero": [0],
        "cut": [cut],
        "end": [channels],
        "axis": [1],
        "r": np.roll(np.arange(channels), -cut),
        "less": [cut - 1],
        "one": [1],
        "past": [channels - 1],
    }
    arrays = {name: np.array(values, np.int64) for name, values in numbers.items()}
    last = ("Neg", "n", "y", {})

    def make(nodes: Any, **changed: Array) -> onnx.ModelProto:
        model = build([*nodes, last], {**arrays, **changed}, shape)
        model.graph.input[0].type.tensor_type.elem_type = getattr(onnx.TensorProto, dtype)
        model.graph.output[0].type.tensor_type.elem_type = getattr(onnx.TensorProto, dtype)
        return model

    def shuffle(*perm: int) -> Any:
        return [
            ("Reshape", "x five", "a", {}),
            ("Transpose", "a", "b", {"perm": perm}),
            ("Reshape", "b four", "n", {}),
        ]

    def roll(*order: str, start: str = "cut", end: str = "end") -> Any:
        parts = [
            ("Slice", f"x {start} {end} axis", "late", {}),
            ("Slice", "x zero cut axis", "early", {}),
        ]
        return [*parts, ("Concat", " ".join(order), "n", {"axis": 1})]

    gather = ("Gather", "x i", "n", {"axis": 1})
    swapped = shuffled.copy()
    a, b = rng.sample(range(channels), 2)
    swapped[[a, b]] = swapped[[b, a]]
    yield Planted("", make(shuffle(0, 2, 1, 3, 4)), make([gather]), "")
    yield Planted("places exchanged", make(shuffle(0, 2, 1, 3, 4)), make([gather], i=swapped), "n")
    yield Planted("axes exchanged", make([gather]), make(shuffle(0, 2, 1, 4, 3)), "b")
    whole = make([("Gather", "x r", "n", {"axis": 1})])
    yield Planted("", whole, make(roll("late", "early")), "")
    if cut * 2 != channels:
        yield Planted("operands exchanged", whole, make(roll("early", "late")), "n")
    yield Planted(
        "a Slice one off", whole, make(roll("late", "early", start="less", end="past")), "late"
    )


def make_masked(seed: int) -> Iterator[Planted]:
    """Yield a fault that a mask hides on inputs of a usual size."""
    hidden = make_hidden(seed)
    yield Planted("", hidden.model, hidden.rewrite, "")
    yield Planted("masked", hidden.model, hidden.faulty, "")


def plant_in_model(original: Path, rewrite: Path, seed: int) -> Iterator[Planted]:
    """Yield faults in layers of a rewrite that weights decide, as many as ``_OF_EACH``, of
    different kinds where it can be.
    """
    report = gs.compare(original, rewrite)
    if not report:
        return
    weighed = {
        node.name
        for regions in report.branches[0].regions[:1]
        for region in regions.regions
        if region.is_weighed and region.steps
        for node in region.other_nodes
        if node.op in _LINEAR
    }
    rng, model = Random(seed), onnx.load(rewrite)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    readers = Counter(name for node in model.graph.node for name in node.input)
    faults = []
    for place, node in enumerate(model.graph.node):
        own = [name for name in node.input[1:3] if name in tensors and readers[name] == 1]
        if not weighed & {node.name, *node.output} or not own or own[0] != node.input[1]:
            continue
        arrays = [numpy_helper.to_array(tensors[name]) for name in own]
        is_by_rows = "Conv" in node.op_type or any(
            each.name == "transB" and each.i for each in node.attribute
        )
        weight = arrays[0] if is_by_rows else np.moveaxis(arrays[0], -1, 0)
        if weight.dtype != np.float32:
            continue
        for kind, *changed in change_weights(
            np.ascontiguousarray(weight), arrays[1] if len(arrays) > 1 else None, rng
        ):
            changed[0] = changed[0] if is_by_rows else np.moveaxis(changed[0], 0, -1)
            faults.append((kind, place, dict(zip(own, changed, strict=False))))
    rng.shuffle(faults)
    kinds = Counter[str]()
    for kind, place, arrays in faults:
        if kinds[kind] >= max(1, _OF_EACH // 6):
            continue
        kinds[kind] += 1
        faulty = onnx.ModelProto()
        faulty.CopyFrom(model)
        for tensor in faulty.graph.initializer:
            if tensor.name in arrays:
                tensor.CopyFrom(numpy_helper.from_array(arrays[tensor.name], tensor.name))
        node = faulty.graph.node[place]
        node.name = node.name or f"planted {place}"
        yield Planted(kind, onnx.load(original), faulty, node.name)


def make_models(cache: Path, largest: float) -> Iterator[Planted]:
    """Yield faults in the rewrites that ``benchmarks.rewrites`` keeps, of the smallest models first."""
    originals = sorted(cache.glob("models/*/original.onnx"), key=lambda path: path.stat().st_size)
    for seed, original in enumerate(
        path for path in originals if path.stat().st_size <= largest * 1e6
    ):
        for rewrite in sorted(original.parent.glob("*.onnx")):
            is_other = (
                rewrite != original
                and "float16" not in rewrite.name
                and "exchanged" not in rewrite.name
            )
            if is_other and rewrite.stat().st_size <= largest * 1e6:
                yield from plant_in_model(original, rewrite, seed)


def judge_planted(
    planted: Iterator[Planted], count: int, folder: Path
) -> tuple[Counter[str], list[str]]:
    """Return how many faults of each kind were planted, found and named in both orders, and what is wrong in words."""
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for each in planted:
        paths = [folder / name for name in ("original.onnx", "faulty.onnx")]
        for path, model in zip(paths, (each.original, each.faulty), strict=True):
            onnx.save(model, path)
        reports = gs.compare(*paths), gs.compare(*reversed(paths))
        if not each.kind:
            seen.update({"rewrites": 1, "false alarms": not all(reports)})
            wrong += [f"without a fault: {report.verdict}" for report in reports if not report]
            continue
        is_found = all(report.outcome in ("not equal", "not proved") for report in reports)
        are_named = is_found and has_region(reports[0], each)
        seen.update(
            {
                each.kind: 1,
                "faults": 1,
                "found": is_found,
                "named": are_named,
                f"{each.kind}, found": is_found,
            }
        )
        if not is_found or not are_named:
            wrong.append(
                f"{each.kind} in {each.node or 'a layer'}: {', '.join(report.verdict for report in reports)}"
            )
        if seen["faults"] >= count:
            break
    return seen, wrong


def has_region(report: Report, planted: Planted) -> bool:
    """Whether the first region that departs has the node with the fault, or the fault is in no node in particular."""
    return not planted.node or is_named(report, Fault(planted.kind, planted.node, planted.faulty))


def main() -> None:
    """Plant, judge and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    counts = {"rewrites": 2000, "masked": 200, "layers": 300, "moved": 100, "models": 150}
    parser.add_argument("where", choices=counts)
    parser.add_argument("--count", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=2_000_000, metavar="S")
    parser.add_argument("--cache", type=Path, default=Path("rewrites"), metavar="DIR")
    parser.add_argument(
        "--largest", type=float, default=8, metavar="MB", help="models up to this size alone"
    )
    options = parser.parse_args()
    count = options.count or counts[options.where]
    makers = {"masked": make_masked, "layers": make_layers, "moved": make_moved}
    with tempfile.TemporaryDirectory() as name:
        if options.where == "rewrites":
            seen, wrong = judge(count, Path(name), first=options.seed)
        elif options.where == "models":
            seen, wrong = judge_planted(
                make_models(options.cache, options.largest), count, Path(name)
            )
        else:
            make = makers[options.where]
            planted = (
                each for seed in range(options.seed, options.seed + count) for each in make(seed)
            )
            seen, wrong = judge_planted(planted, count, Path(name))
    for kind, number in sorted(seen.items()):
        print(f"{number:6} {kind}")
    print(*wrong, sep="\n")


if __name__ == "__main__":
    main()
