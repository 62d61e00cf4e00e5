"""ONNX files that protocol buffers read otherwise than their bytes look: no path of external data passes unseen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest

import graphshare as gs

Fields = Sequence[tuple[int, Any]]
INT64 = 7


def encode(fields: Fields) -> bytes:
    """Return a message: numbers are varints, bytes are bytes, and lists messages."""
    data = b""
    for number, value in fields:
        if isinstance(value, int):
            data += _varint(number << 3) + _varint(value)
        else:
            inner = value if isinstance(value, bytes) else encode(value)
            data += _varint(number << 3 | 2) + _varint(len(inner)) + inner
    return data


def _varint(value: int) -> bytes:
    data = b""
    while value > 127:
        data, value = data + bytes((value & 127 | 128,)), value >> 7
    return data + bytes((value,))


def tensor(*, location: bytes = b"../secret.bin", where: int = 1, name: bytes = b"w") -> Fields:
    """Four floats in another file; ``where`` is data_location."""
    return [(1, 4), (2, 1), (8, name), (13, [(1, b"location"), (2, location)]), (14, where)]


def inside(*more: tuple[int, Any]) -> Fields:
    """Four floats in the model."""
    return [(1, 4), (2, 1), (8, b"w"), (9, bytes(16)), *more]


def sparse(values: Fields, indices: Fields = ((1, 4), (2, INT64), (9, bytes(32)))) -> Fields:
    return [(1, values), (2, indices), (3, 9)]


def node(
    op: bytes, inputs: Sequence[bytes] = (), attributes: Sequence[Fields] = (), more: Fields = ()
) -> tuple[int, Fields]:
    return 1, [
        *((1, name) for name in inputs),
        (2, b"y"),
        (4, op),
        *((5, each) for each in attributes),
        *more,
    ]


def constant(*attributes: Fields) -> Fields:
    return [node(b"Constant", attributes=attributes), (2, b"g"), (12, [(1, b"y")])]


def identity(*fields: tuple[int, Any]) -> Fields:
    """A graph that returns the initializer ``w``."""
    return [node(b"Identity", [b"w"]), (2, b"g"), *fields, (12, [(1, b"y")])]


def function(attribute: Fields) -> Fields:
    return [
        (1, b"f"),
        (5, b"y"),
        (7, node(b"Constant", attributes=[attribute])[1]),
        (9, [(2, 17)]),
        (10, b"own"),
    ]


CALL = [node(b"f", more=[(7, b"own")]), (2, b"g"), (12, [(1, b"y")])]
VALUE = (1, b"value")
BODY = [(1, b"then_branch"), (6, constant([VALUE, (5, tensor()), (20, 4)])), (20, 5)]


def model(graph: Fields, *more: tuple[int, Any]) -> bytes:
    return encode([(1, 8), (7, graph), (8, [(2, 17)]), (8, [(1, b"own"), (2, 1)]), *more])


OUTSIDE: Mapping[str, bytes] = {
    "initializer": model(identity((5, tensor()))),
    "location beyond 32 bits": model(identity((5, tensor(where=(1 << 32) + 1)))),
    "location beyond 32 bits, in a Constant": model(constant([VALUE, (5, tensor(where=(5 << 32) + 1)), (20, 4)])),
    "Constant": model(constant([VALUE, (5, tensor()), (20, 4)])),
    "list of tensors, after the 17th": model(constant([(1, b"values"), *[(10, inside())] * 20, (10, tensor()), (20, 9)])),
    "sparse initializer": model(identity((15, sparse(tensor())))),
    "indices of a sparse initializer": model(identity((15, sparse(inside(), tensor(name=b""))))),
    "sparse Constant": model(constant([(1, b"sparse_value"), (22, sparse(tensor())), (20, 11)])),
    "list of sparse tensors, after the 17th": model(
        constant([(1, b"values"), *[(23, sparse(inside()))] * 20, (23, sparse(tensor())), (20, 12)])
    ),
    "body": model([node(b"If", [b"w"], [BODY]), (2, b"g"), (5, [(1, 1), (2, 9), (8, b"w"), (9, b"\1")]), (12, [(1, b"y")])]),
    "function": model(CALL, (25, function([VALUE, (5, tensor()), (20, 4)]))),
    "location beyond 32 bits, in a function": model(CALL, (25, function([VALUE, (5, tensor(where=(1 << 32) + 1)), (20, 4)]))),
    "sparse tensor of a function": model(CALL, (25, function([(1, b"sparse_value"), (22, sparse(tensor())), (20, 11)]))),
    "default of a function's attribute": model(
        CALL, (25, [*function([VALUE, (5, inside()), (20, 4)]), (11, [(1, b"a"), (5, tensor()), (20, 4)])])
    ),
    "training information": model(identity((5, inside())), (20, [(1, identity((5, tensor())))])),
    "several fields of one tensor": model(constant([VALUE, (5, [(1, 4), (2, 1)]), (5, tensor()), (20, 4)])),
    "location that is given twice": model(
        identity((5, [(1, 4), (2, 1), (8, b"w"), (13, [(1, b"location"), (2, b"w.bin"), (2, b"../secret.bin")]), (14, 1)]))
    ),
    "key that is given twice": model(
        identity((5, [*tensor(location=b"w.bin"), (13, [(1, b"location"), (2, b"../secret.bin")])]))
    ),
    "location that is taken back": model(identity((5, [*tensor(), (9, bytes(16)), (14, 0)]))),
}  # fmt: skip


@pytest.mark.parametrize("place", OUTSIDE)
def test_no_path_out_of_the_directory_passes(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"secret!!" * 2)
    (folder / "w.bin").write_bytes(bytes(16))
    (folder / "model.onnx").write_bytes(OUTSIDE[place])
    assert (
        b"secret.bin"
        in onnx.load(folder / "model.onnx", load_external_data=False).SerializeToString()
    )
    with pytest.raises(gs.InputError, match=r"not in the model's directory|in another file|twice"):
        gs.load(folder / "model.onnx")


TWICE: Mapping[str, bytes] = {
    "ir_version": model(identity((5, inside())), (1, 9)),
    "graph name": model(identity((5, inside()), (2, b"other"))),
    "operator": model([node(b"Identity", [b"w"], more=[(4, b"Neg")]), (2, b"g"), (5, inside()), (12, [(1, b"y")])]),
    "domain": model([node(b"Identity", [b"w"], more=[(7, b"own"), (7, b"")]), (2, b"g"), (5, inside()), (12, [(1, b"y")])]),
    "operator set": encode([(1, 8), (7, identity((5, inside()))), (8, [(2, 17), (2, 9)])]),
    "attribute": model(constant([VALUE, (5, inside()), (1, b"value"), (20, 4)])),
    "number": model([node(b"Flatten", [b"w"], [[(1, b"axis"), (3, 0), (3, 1), (20, 2)]]), (5, inside()), (12, [(1, b"y")])]),
    "dtype": model(identity((5, inside((2, INT64))))),
    "name of a tensor": model(identity((5, inside((8, b"w"))))),
    "data of a tensor": model(identity((5, inside((9, bytes(16)))))),
    "values of a sparse tensor": model(identity((15, [(1, inside()), *sparse(inside())]))),
    "type of an output": model([*identity((5, inside()))[:-1], (12, [(1, b"y"), (2, [(1, [(1, 1)])]), (2, [(1, [])])])]),
}  # fmt: skip


@pytest.mark.parametrize("what", TWICE)
def test_what_a_message_has_once_is_refused_twice(what: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(TWICE[what])
    onnx.load(path)  # protocol buffers read it
    with pytest.raises(gs.InputError, match="occurs twice"):
        gs.load(path)


SIZE = [(1, 2)]
FLOATS = [(1, 1), (2, [(1, SIZE), (1, [(2, b"n")])])]
TYPES: Mapping[str, Fields] = {
    "tensor": [(1, FLOATS)],
    "tensor of any rank": [(1, [(1, 1)])],
    "scalar": [(1, [(1, 1), (2, [])])],
    "sequence": [(4, [(1, [(1, FLOATS)])])],
    "map": [(5, [(1, INT64), (2, [(1, FLOATS)])])],
    "opaque": [(7, [(1, b"own"), (2, b"thing")])],
    "sparse": [(8, FLOATS)],
    "optional": [(9, [(1, [(4, [(1, [(1, FLOATS)])])])])],
    "with denotations": [(1, [(1, 1), (2, [(1, [*SIZE, (3, b"DATA_BATCH")])])]), (6, b"TENSOR")],
}
TWICE_IN_A_TYPE: Mapping[str, Fields] = {
    "element type": [(1, [(1, 1), (1, INT64)])],
    "shape": [(1, [(1, 1), (2, [(1, SIZE)]), (2, [])])],
    "size": [(1, [(1, 1), (2, [(1, [(1, 2), (1, 3)])])])],
    "name of a size": [(1, [(1, 1), (2, [(1, [(2, b"n"), (2, b"m")])])])],
    "size and its name": [(1, [(1, 1), (2, [(1, [(1, 2), (2, b"n")])])])],
    "size after another": [(1, [(1, 1), (2, [(1, SIZE), (1, SIZE), (1, [(2, b"n"), (1, 2)])])])],
    "denotation of a size": [(1, [(1, 1), (2, [(1, [(1, 2), (3, b"a"), (3, b"b")])])])],
    "kind": [(1, FLOATS), (1, [])],
    "kind and another": [(1, FLOATS), (8, FLOATS)],
    "kind that is taken back": [(4, [(1, [(1, FLOATS)])]), (1, FLOATS)],
    "denotation": [(1, FLOATS), (6, b"a"), (6, b"b")],
    "element type of a sparse tensor": [(8, [(1, 1), (1, 1)])],
    "type in a sequence": [(4, [(1, [(1, FLOATS)]), (1, [(1, FLOATS)])])],
    "kind in a sequence": [(4, [(1, [(1, FLOATS), (8, FLOATS)])])],
    "kind in an optional": [(9, [(1, [(1, FLOATS), (8, FLOATS)])])],
    "size in a map": [(5, [(1, INT64), (2, [(1, [(1, 1), (2, [(1, [(1, 2), (1, 2)])])])])])],
    "key of a map": [(5, [(1, INT64), (1, 8), (2, [(1, FLOATS)])])],
    "domain of an opaque": [(7, [(1, b"own"), (1, b"a")])],
    "size in a long type": [(1, [(1, 1), (2, [*[(1, SIZE)] * 200, (1, [(1, 2), (1, 2)])])])],
}


def value(
    number: int, type_: Fields, name: bytes = b"y", *more: tuple[int, Any]
) -> tuple[int, Fields]:
    return number, [(1, name), (2, type_), *more]


def with_type(place: str, type_: Fields) -> bytes:
    graph = identity((5, inside()))
    if place == "attribute":
        return model(constant([VALUE, (5, inside()), (20, 4)], [(1, b"t"), (14, type_), (20, 13)]))
    if place == "attribute, after the 17th":
        return model(
            constant(
                [VALUE, (5, inside()), (20, 4)],
                [(1, b"t"), *[(15, TYPES["tensor"])] * 20, (15, type_), (20, 14)],
            )
        )
    if place == "output":
        return model([*graph[:-1], value(12, type_)])
    if place == "input":
        return model([*graph, value(11, type_, b"x")])
    if place == "value_info, like another":
        return model([*graph, value(13, TYPES["tensor"], b"w"), value(13, type_)])
    if place == "body":
        body = [
            (1, b"then_branch"),
            (6, [*constant([VALUE, (5, inside()), (20, 4)])[:-1], value(12, type_)]),
            (20, 5),
        ]
        flag = (5, [(1, 1), (2, 9), (8, b"w"), (9, b"\1")])
        return model([node(b"If", [b"w"], [body]), (2, b"g"), flag, (12, [(1, b"y")])])
    return model([*graph, value(13, type_, b"w" if place == "value_info" else b"n" * 300)])


PLACES = [
    "input", "output", "value_info", "value_info of a long name", "value_info, like another", "body", "attribute",
    "attribute, after the 17th",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", TWICE_IN_A_TYPE)
def test_what_a_type_has_once_is_refused_twice(what: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(with_type(place, TWICE_IN_A_TYPE[what]))
    onnx.load(path)  # protocol buffers read it
    with pytest.raises(
        gs.InputError, match=r"occurs twice|occur in a message that has one of them"
    ) as caught:
        gs.load(path)
    assert int(caught.value.faults[0].path.removeprefix("byte ")) < path.stat().st_size


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", TYPES)
def test_types_that_state_each_thing_once_are_kept(what: str, place: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(with_type(place, TYPES[what]))
    gs.save(gs.load(path), tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


PAIR = [(1, b"key"), (2, b"value")]
PAIRS: Mapping[str, Fields] = {
    "key": [(1, b"a"), (1, b"key"), (2, b"value")],
    "value": [*PAIR, (2, b"")],
    "long value": [*PAIR, (2, b"v" * 300)],
}
WITH_PAIRS: Mapping[str, Callable[[Fields], bytes]] = {
    "model": lambda pair: model(identity((5, inside())), (14, pair)),
    "graph": lambda pair: model(identity((5, inside()), (16, pair))),
    "node": lambda pair: model(
        [node(b"Identity", [b"w"], more=[(9, pair)]), (5, inside()), (12, [(1, b"y")])]
    ),
    "tensor": lambda pair: model(identity((5, inside((16, pair))))),
    "tensor of a Constant": lambda pair: model(constant([VALUE, (5, inside((16, pair))), (20, 4)])),
    "value": lambda pair: model(
        [*identity((5, inside())), value(13, TYPES["tensor"], b"w", (4, pair))]
    ),
    "annotation": lambda pair: model([*identity((5, inside())), (14, [(1, b"w"), (2, pair)])]),
    "training information": lambda pair: model(
        identity((5, inside())), (20, [(1, identity((5, inside()))), (4, pair)])
    ),
}


@pytest.mark.parametrize("place", WITH_PAIRS)
@pytest.mark.parametrize("what", PAIRS)
def test_what_a_pair_of_texts_has_once_is_refused_twice(
    what: str, place: str, tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(WITH_PAIRS[place](PAIRS[what]))
    onnx.load(path)
    with pytest.raises(gs.InputError, match="occurs twice"):
        gs.load(path)
    assert "GS601" in {finding.code for finding in gs.check(path).findings}
    path.write_bytes(WITH_PAIRS[place](PAIR))
    gs.save(gs.load(path), tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("key", [0, 1, 127, 128])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 16383, 16384])
def test_pairs_of_every_size_are_read(key: int, size: int, tmp_path: Path) -> None:
    """Sizes at which the length of a text takes another byte."""
    path, pair = tmp_path / "model.onnx", [(1, b"k" * key), (2, b"v" * size)]
    path.write_bytes(WITH_PAIRS["node"](pair))
    gs.save(gs.load(path), tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()
    for again in ((1, b""), (2, b"x")):
        path.write_bytes(WITH_PAIRS["node"]([*pair, again]))
        with pytest.raises(gs.InputError, match="occurs twice"):
            gs.load(path)


def test_two_pairs_with_one_key_are_kept_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    pairs = [(1, b"key"), (2, b"other")], PAIR
    graph = identity((5, inside()), *[(16, pair) for pair in pairs])
    path.write_bytes(model(graph, *[(14, pair) for pair in pairs]))
    found = [
        (finding.path, finding.message)
        for finding in gs.check(path).findings
        if finding.code == "GS613"
    ]
    assert found == [
        ("$.metadata_props[0]", "metadata_props has another entry of 'key'"),
        ("$.graph.metadata_props[0]", "metadata_props has another entry of 'key'"),
    ]
    gs.save(gs.load(path), tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("metadata", [b"\x0a\x7fcut", b"\x0a", b"\xff\xff", b"\x08\x01"])
def test_broken_metadata_is_refused(metadata: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model(identity((5, inside())), (14, metadata)))
    with pytest.raises(gs.GraphshareError, match=r"byte \d+"):
        gs.load(path)
    assert [finding.code for finding in gs.check(path).findings] == ["GS601"]


def test_models_that_have_each_field_once_are_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for data in (
        model(identity((5, inside()))),
        model(identity((15, sparse(inside())))),
        model(constant([(1, b"sparse_value"), (22, sparse(inside())), (20, 11)])),
        model(constant([(1, b"values"), *[(10, inside())] * 20, (20, 9)])),
        model(CALL, (25, function([VALUE, (5, inside()), (20, 4)]))),
        model(identity((5, inside())), (20, [(1, identity((5, inside())))])),
    ):
        path.write_bytes(data)
        assert gs.load(path).graph.heads
