"""Names of Gluon's ``save_parameters`` and of an exported graph: matched by shapes and order, or refused by name."""

from __future__ import annotations

import json
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import RefusedError, UsageError
from graphshare.formats.params.format import read_index
from tests.symbols import Record, document, operator, variable

Blocks = dict[str, tuple[int, ...]]


class Net:
    """A graph of dense layers of 4 units, as Gluon names them."""

    def __init__(self) -> None:
        self.nodes: list[Record] = [variable("data")]

    def dense(self, name: str, source: int) -> int:
        self.nodes.append(variable(f"{name}_weight"))
        attrs = {"num_hidden": "4", "no_bias": "True"}
        self.nodes.append(
            operator("FullyConnected", f"{name}_fwd", [source, len(self.nodes) - 1], attrs=attrs)
        )
        return len(self.nodes) - 1

    def add(self, one: int, other: int) -> int:
        self.nodes.append(operator("elemwise_add", f"add{len(self.nodes)}", [one, other]))
        return len(self.nodes) - 1

    def write(self, folder: Path) -> str:
        (folder / "net-symbol.json").write_text(
            json.dumps(document(self.nodes, [len(self.nodes) - 1]))
        )
        return str(folder / "net-symbol.json")


def write_blocks(folder: Path, *keys: str, first: int = 3) -> str:
    """Weights of (4, 4), the first of (4, 3); each is filled with its number."""
    arrays = {key: np.full((4, 4 if i else first), i, np.float32) for i, key in enumerate(keys)}
    np.savez(folder / "blocks.npz", **arrays)
    gs.convert(folder / "blocks.npz", folder / "blocks.params")
    return str(folder / "blocks.params")


def convert(folder: Path, graph: str, blocks: str) -> dict[str, float]:
    gs.convert(blocks, folder / "named.params", graph=graph)
    named = gs.load(graph, params=str(folder / "named.params")).params
    return {key: float(named[key].flat[0]) for key in named}


def residual(*, shortcut_first: bool) -> Net:
    """A stem, and a body of two layers with a shortcut of one; Gluon made the shortcut last."""
    net = Net()
    stem = net.dense("net0_dense0", 0)
    if shortcut_first:
        shortcut = net.dense("net0_dense3", stem)
        net.add(shortcut, net.dense("net0_dense2", net.dense("net0_dense1", stem)))
    else:
        body = net.dense("net0_dense2", net.dense("net0_dense1", stem))
        net.add(body, net.dense("net0_dense3", stem))
    return net


@pytest.mark.parametrize("shortcut_first", [False, True])
def test_blocks_are_layers_also_where_data_goes_through_a_shortcut(
    tmp_path: Path, *, shortcut_first: bool
) -> None:
    graph = residual(shortcut_first=shortcut_first).write(tmp_path)
    blocks = write_blocks(
        tmp_path, "stem.weight", "body.0.weight", "body.1.weight", "down.0.weight"
    )
    assert convert(tmp_path, graph, blocks) == {f"net0_dense{i}_weight": i for i in range(4)}
    assert read_index(tmp_path / "named.params").records[0].key == "arg:net0_dense0_weight"
    gs.convert(tmp_path / "named.params", tmp_path / "again.params", graph=graph, blocks=blocks)
    assert (tmp_path / "again.params").read_bytes() == Path(blocks).read_bytes()


def test_layers_that_order_does_not_tell_apart_are_refused_by_name(tmp_path: Path) -> None:
    net = Net()
    # Made in another order than used
    net.dense("net0_dense1", net.dense("net0_dense0", net.dense("net0_dense2", 0)))
    graph, blocks = (
        net.write(tmp_path),
        write_blocks(tmp_path, "c.weight", "b.weight", "a.weight", first=4),
    )
    with pytest.raises(RefusedError, match=r"cannot be told apart: c, b, a"):
        convert(tmp_path, graph, blocks)


def test_numbers_that_go_against_the_data_are_refused(tmp_path: Path) -> None:
    net = Net()
    net.dense("net0_dense1", net.dense("net0_dense0", 0))
    graph, blocks = net.write(tmp_path), write_blocks(tmp_path, "1.weight", "0.weight", first=4)
    with pytest.raises(RefusedError, match="cannot be told apart: 1, 0"):
        convert(tmp_path, graph, blocks)


@pytest.mark.parametrize(
    ("keys", "first", "named"),
    [
        (["0.weight"], 3, "'net0_dense1' of the graph"),
        (["0.weight", "1.weight", "2.weight"], 3, "'1' of the blocks"),
        (["0.weight", "1.bias"], 3, "'1' of the blocks"),
        (["0.weight", "1.weight"], 4, None),
    ],
)
def test_a_layer_without_a_counterpart_is_refused_by_name(
    tmp_path: Path, keys: list[str], first: int, named: str | None
) -> None:
    net = Net()
    net.dense("net0_dense1", net.dense("net0_dense0", 0))
    graph, blocks = net.write(tmp_path), write_blocks(tmp_path, *keys, first=first)
    if named is None:
        assert len(convert(tmp_path, graph, blocks)) == 2
        return
    with pytest.raises(RefusedError, match="has no counterpart") as refused:
        convert(tmp_path, graph, blocks)
    assert named in str(refused.value)


def test_a_file_of_the_graphs_own_names_gets_their_kinds(tmp_path: Path) -> None:
    net = Net()
    net.dense("net0_dense0", 0)
    graph, names = net.write(tmp_path), write_blocks(tmp_path, "net0_dense0_weight")
    assert convert(tmp_path, graph, names) == {"net0_dense0_weight": 0}
    assert [record.key for record in read_index(tmp_path / "named.params").records] == [
        "arg:net0_dense0_weight"
    ]


def test_options_without_their_meaning_are_refused(tmp_path: Path) -> None:
    net = Net()
    net.dense("net0_dense0", 0)
    graph, blocks = net.write(tmp_path), write_blocks(tmp_path, "0.weight")
    with pytest.raises(UsageError, match="needs `graph`"):
        gs.convert(blocks, tmp_path / "out.params", blocks=blocks)
    gs.convert(blocks, tmp_path / "named.params", graph=graph)
    with pytest.raises(RefusedError, match="has no array for 'net0_dense0_weight'"):
        gs.convert(blocks, tmp_path / "out.params", graph=graph, blocks=blocks)
    assert not (tmp_path / "out.params").exists()


class RandomNet(Net):
    """Blocks in blocks, of layers of one shape: in turn, side by side, or a body with a shortcut;
    ``keys`` are their names.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.keys: list[str] = []
        self._random = np.random.default_rng(seed)
        self._block("", self.dense_of("stem", 0), depth=3)

    def dense_of(self, key: str, source: int) -> int:
        self.keys.append(f"{key}.weight")
        return self.dense(f"net0_dense{len(self.keys) - 1}", source)

    def _block(self, path: str, source: int, depth: int) -> int:
        kind = self._random.choice(["layer", "in turn", "beside", "shortcut"]) if depth else "layer"
        if kind == "layer":
            return self.dense_of(f"{path}layer", source)
        if kind == "shortcut":
            ends = [self._block(f"{path}{name}.", source, depth - 1) for name in ("body", "down")]
            return self.add(*(ends if self._random.random() < 0.5 else reversed(ends)))
        ends = []
        for i in range(self._random.integers(2, 4)):
            ends.append(
                self._block(
                    f"{path}{i}.", ends[-1] if ends and kind == "in turn" else source, depth - 1
                )
            )
        return ends[-1] if kind == "in turn" else reduce(self.add, ends)


def test_blocks_of_random_nets_are_right_or_refused(tmp_path: Path) -> None:
    right = 0
    for seed in range(50):
        net = RandomNet(seed)
        graph, blocks = net.write(tmp_path), write_blocks(tmp_path, *net.keys)
        try:
            answer = convert(tmp_path, graph, blocks)
        except RefusedError:
            continue
        assert answer == {f"net0_dense{i}_weight": i for i in range(len(net.keys))}, seed
        right += 1
    assert right > 20
