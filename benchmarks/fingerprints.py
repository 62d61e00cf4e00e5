"""Fingerprints of models that are written anew in six ways, and of models with one fault.

    python -m benchmarks.fingerprints [--models DIR] [--count 300] [--faults 2000] [--seed S]

DIR is ``onnx/backend/test/data`` of onnx 1.22; without it the wheel of the installed onnx is read.
Each of ``--count`` models, among them those of the tests, is renamed, saved anew by onnx, with
external data, in a pool, with initializers for Constants, and with its nodes in another order that
is possible: all have one fingerprint. Each of ``--faults`` single changes of what is computed
(``tests/onnx_files/mutants.py``) has another one.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import onnx

import graphshare as gs
from graphshare.errors import GraphshareError
from tests.onnx_files.made import MADE
from tests.onnx_files.mutants import Effect, list_mutants, read_source
from tests.onnx_files.sources import WHEEL, list_wheel
from tests.onnx_files.test_fingerprint import _counts
from tests.onnx_files.test_mutants import write


def rename(path: Path, out: Path, _: random.Random) -> None:
    gs.save(gs.rename(path, prefix="p_"), out)


def save_anew(path: Path, out: Path, _: random.Random) -> None:
    out.write_bytes(onnx.load(path).SerializeToString())


def save_external(path: Path, out: Path, _: random.Random) -> None:
    onnx.save(
        onnx.load(path),
        out,
        save_as_external_data=True,
        location=f"{out.stem}.bin",
        size_threshold=0,
    )


def pool(path: Path, out: Path, _: random.Random) -> None:
    gs.pool([path], out.parent, data=f"{out.stem}.weights", verify=False)
    (out.parent / path.name).rename(out)


def make_initializers(path: Path, out: Path, _: random.Random) -> None:
    """Write a model with an initializer in place of each Constant of a tensor, but for those that are outputs."""
    model = onnx.load(path)
    graph = model.graph
    heads = {value.name for value in graph.output}
    for node in [*graph.node]:
        is_tensor = (
            node.op_type == "Constant" and node.domain == "" and node.attribute[0].name == "value"
        )
        if is_tensor and len(node.output) == 1 and node.output[0] not in heads:
            tensor = graph.initializer.add()
            tensor.CopyFrom(node.attribute[0].t)
            tensor.name = node.output[0]
            graph.node.remove(node)
    out.write_bytes(model.SerializeToString())


def reorder(path: Path, out: Path, chance: random.Random) -> None:
    """Write a model with its nodes in another order in which each value is computed before it is read."""
    model = onnx.load(path)
    known = {
        "",
        *(value.name for value in model.graph.input),
        *(tensor.name for tensor in model.graph.initializer),
    }
    known.update(tensor.values.name for tensor in model.graph.sparse_initializer)
    left, order = [*model.graph.node], list[onnx.NodeProto]()
    while left:
        ready = [node for node in left if known.issuperset(_list_read(node))]
        order.append(node := chance.choice(ready))
        left.remove(node)
        known.update(node.output)
    del model.graph.node[:]
    model.graph.node.extend(order)
    out.write_bytes(model.SerializeToString())


def _list_read(node: onnx.NodeProto) -> set[str]:
    """Return the values that a node reads, also from its bodies."""
    read = set(node.input)
    for graph in (graph for each in node.attribute for graph in (each.g, *each.graphs)):
        own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        own |= {name for inner in graph.node for name in inner.output}
        read |= {name for inner in graph.node for name in _list_read(inner)} - own
        read |= {value.name for value in graph.output} - own
    return read


CHANGES: Mapping[str, Callable[[Path, Path, random.Random], None]] = {
    "rename": rename,
    "saved by onnx": save_anew,
    "external": save_external,
    "pool": pool,
    "initializers": make_initializers,
    "order": reorder,
}


def choose_models(data: Path, count: int, chance: random.Random) -> Iterator[bytes]:
    """Yield the tests' own models, and of the wheel those on which most of the changes have an effect."""
    for make in MADE.values():
        yield make().SerializeToString()
    paths = list_wheel(data)
    chance.shuffle(paths)
    paths.sort(key=lambda path: -_count_effects(onnx.load(path)))
    for path in paths[: max(0, count - len(MADE))]:
        yield path.read_bytes()


def _count_effects(model: onnx.ModelProto) -> int:
    """Return how much of a model there is to change: several nodes, Constants, initializers."""
    graph = model.graph
    return (
        (len(graph.node) > 1)
        + any(node.op_type == "Constant" for node in graph.node)
        + (len(graph.initializer) > 0)
    )


def compare_changes(data: Path, count: int, chance: random.Random) -> Counter[str]:
    """Return how many models keep their fingerprint under each change, change it, or are not written."""
    kinds: Counter[str] = Counter()
    for number, content in enumerate(choose_models(data, count, chance)):
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "m.onnx"
            path.write_bytes(content)
            # The external data of one of the tests' own
            (Path(name) / "w.bin").write_bytes(bytes(range(32)))
            try:
                before = gs.fingerprint(path)
            except GraphshareError as error:
                print(f"model {number}: no fingerprint: {error}")
                kinds["no fingerprint"] += 1
                continue
            kinds["models"] += 1
            for change, apply in CHANGES.items():
                folder = Path(name) / change.replace(" ", "_")
                folder.mkdir()
                (folder / "w.bin").write_bytes(bytes(range(32)))
                try:
                    apply(path, folder / "out.onnx", chance)
                except Exception as error:  # of any of the tools
                    print(
                        f"model {number}: {change}: not written: {type(error).__name__}: {str(error).splitlines()[:1]}"
                    )
                    kinds[f"{change}: not written"] += 1
                    continue
                is_kept = gs.fingerprint(folder / "out.onnx") == before
                kinds[f"{change}: {'one fingerprint' if is_kept else 'ANOTHER'}"] += 1
                if not is_kept:
                    print(
                        f"model {number}: {change}: another fingerprint; a {before.structure[:12]}"
                    )
    return kinds


def compare_faults(count: int, chance: random.Random) -> Counter[str]:
    """Return how many single faults have another fingerprint than the model."""
    mutants = [each for each in list_mutants() if each.effect is Effect.COMPUTED and _counts(each)]
    chance.shuffle(mutants)
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        for mutant in mutants[:count]:
            before = gs.fingerprint(write(read_source(mutant.source), Path(name) / "before"))
            try:
                after = gs.fingerprint(write(mutant.build(), Path(name) / "after"))
            except GraphshareError:
                kinds["refused"] += 1
                continue
            kinds["another" if after != before else "THE SAME"] += 1
            if after == before:
                print(f"the same fingerprint: {mutant.name}")
    return kinds


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path, default=WHEEL, metavar="DIR")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--faults", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    changes = compare_changes(options.models, options.count, random.Random(options.seed))
    faults = compare_faults(options.faults, random.Random(options.seed))
    print("\n".join(f"{kind}: {number}" for kind, number in sorted((changes + faults).items())))
    raise SystemExit("THE SAME" in faults or any("ANOTHER" in kind for kind in changes))


if __name__ == "__main__":
    main()
