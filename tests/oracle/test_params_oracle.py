"""MXNet 1.9.1 loads what graphshare writes, with the same names and values, and itself writes the same bytes."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from graphshare.api.params import convert as convert_params
from graphshare.files.atomic import OutputTransaction
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.convert import stage_params
from graphshare.formats.params.format import read_index
from tests import params_bytes as build
from tests.surroundings import run_oracle

pytestmark = pytest.mark.oracle

# Loads every *.params of a directory, says what is in it, and saves it again beside as *.resaved.
SCRIPT = """
import hashlib, json, pathlib, sys
import mxnet as mx
import numpy as np

def dtype(a):
    return np.dtype(a.dtype).name if np.dtype(a.dtype).names is None else "bfloat16"

def value(a):
    return a.asnumpy() if dtype(a) != "bfloat16" else mx.nd.amp_cast(a, dtype="float32").asnumpy()

answers = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.params")):
    with mx.util.np_shape(path.name.startswith("v3")):
        try:
            loaded = mx.nd.load(str(path))
        except Exception as error:
            answers[path.name] = str(error).strip().splitlines()[-1]
            continue
        mx.nd.save(str(path) + ".resaved", loaded)
        items = list(loaded.items()) if isinstance(loaded, dict) else list(enumerate(loaded))
        answers[path.name] = [
            [name, list(a.shape), dtype(a), a.stype, hashlib.sha256(value(a).tobytes()).hexdigest()]
            for name, a in items
        ]
print(json.dumps(answers))
"""


def sources(directory: Path) -> None:
    """The files the oracle is asked about, all written by graphshare."""
    plain = directory / "plain.source"
    dtypes = ["float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool"]
    records = [
        build.dense((2, number + 1), dtype, b"\1\0" * build.count_bytes((number + 1,), dtype))
        for number, dtype in enumerate(dtypes)
    ]
    records.append(build.dense((0, 3)))
    plain.write_bytes(
        build.container(records, [f"arg:{dtype}/层 é" for dtype in [*dtypes, "empty"]])
    )
    sparse = directory / "sparse.source"
    rows = build.row_sparse((6, 2), [1, 4], build.floats(1, 2, 3, 4))
    matrix = build.csr((3, 4), [0, 1, 1, 3], [2, 0, 3], build.floats(5, 6, 7))
    sparse.write_bytes(
        build.container([rows, matrix, build.dense((2,))], ["arg:rows", "arg:csr", "aux:dense"])
    )
    old = directory / "old.source"
    old.write_bytes(
        build.container(
            [build.v0((2, 3)), build.v1((3,), "float64"), build.dense((1,), context=(2, 5))], "abc"
        )
    )

    for source in (plain, sparse, old):
        file = read_index(source)
        with OutputTransaction() as stage:
            twice = [
                (record, f"{prefix}{record.key}")
                for prefix in ("", "sha-")
                for record in file.records
            ]
            stage_params(
                [(file, twice)], stage, directory / f"{source.stem}-twice.params", verify_bytes=True
            )
            stage.commit()
    convert_params(plain, directory / "from.npz")
    convert_params(directory / "from.npz", directory / "from-npz.params")
    convert_params(plain, directory / "from.safetensors")
    convert_params(directory / "from.safetensors", directory / "from-safetensors.params")
    convert_params(sparse, directory / "dense.npz", densify=True)
    convert_params(directory / "dense.npz", directory / "densified.params")
    np.savez(
        directory / "scalars.npz",
        s=np.float32(2.5),
        i=np.int64(-3),
        e=np.zeros((0, 2), "f4"),
        m=np.ones((2, 2), "f4"),
    )
    convert_params(directory / "scalars.npz", directory / "v3-scalars.params", np_shape=True)
    unnamed = directory / "list.source"
    unnamed.write_bytes(build.container(records[:3]))
    convert_params(unnamed, directory / "list.params", to="params")
    convert_params(read_index(unnamed).path, directory / "nothing.params", to="params")
    file = read_index(unnamed)
    with OutputTransaction() as stage:
        stage_params([(file, [])], stage, directory / "nothing.params")
        stage.commit()
    bfloat = directory / "bfloat.source"
    bfloat.write_bytes(
        build.container(
            [build.dense((3,), "bfloat16", struct.pack("<3H", 0x3F80, 0xC000, 0x4049))], ["w"]
        )
    )
    convert_params(bfloat, directory / "bfloat.safetensors")
    convert_params(directory / "bfloat.safetensors", directory / "bfloat16.params")
    broken = directory / "broken.params"
    broken.write_bytes((directory / "list.params").read_bytes()[:-9])


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory, oracle_python: str):
    directory = tmp_path_factory.mktemp("oracle")
    sources(directory)
    done = run_oracle(oracle_python, "-c", SCRIPT, directory, check=False, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return directory, json.loads(done.stdout.splitlines()[-1])


NAMED = [
    "plain-twice",
    "sparse-twice",
    "old-twice",
    "from-npz",
    "from-safetensors",
    "densified",
    "v3-scalars",
    "bfloat16",
]


@pytest.mark.parametrize("name", [*NAMED, "list", "nothing"])
def test_mxnet_loads_the_same_names_and_values(answers, name: str) -> None:
    directory, loaded = answers
    file = read_index(directory / f"{name}.params")
    with ArrayReader(file) as reader:
        ours = [
            [
                record.key if file.named else number,
                list(record.shape),
                record.dtype,
                record.storage,
                hashlib.sha256(reader.read(record).tobytes()).hexdigest(),
            ]
            for number, record in enumerate(file.records)
        ]
    assert loaded[f"{name}.params"] == ours
    assert ours or name == "nothing"


# Old forms and foreign device words are not what 1.9.1 writes; they are kept on purpose.
@pytest.mark.parametrize(
    "name", [*(name for name in NAMED if name != "old-twice"), "list", "nothing"]
)
def test_mxnet_writes_the_same_bytes(answers, name: str) -> None:
    directory, _ = answers
    assert (directory / f"{name}.params.resaved").read_bytes() == (
        directory / f"{name}.params"
    ).read_bytes()


def test_the_oracle_refuses_a_broken_file(answers) -> None:
    _, loaded = answers
    assert "Invalid NDArray file format" in loaded["broken.params"]


# Binds a BatchNorm of float16 data to a parameter file; prints the output's dtype, or the dtype that MXNet expected.
FLOAT16 = """
import re, sys
import mxnet as mx

loaded = mx.nd.load(sys.argv[1])
args = {key[4:]: array for key, array in loaded.items() if key.startswith("arg:")}
aux = {key[4:]: array for key, array in loaded.items() if key.startswith("aux:")}
args["data"] = mx.nd.ones((1, 2), dtype="float16")
layer = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
try:
    print(mx.sym.BatchNorm(layer, name="bn").bind(mx.cpu(), args, aux_states=aux).forward()[0].dtype.__name__)
except mx.MXNetError as error:
    print(re.search("Expected '(.*?)' v.s. given '.*?' at '.*?'", str(error))[0])
"""
LAYERS = {"arg:fc_weight": (2, 2), "arg:fc_bias": (2,), "arg:bn_gamma": (2,), "arg:bn_beta": (2,), "aux:bn_moving_mean": (2,),
          "aux:bn_moving_var": (2,)}  # fmt: skip


@pytest.mark.parametrize(
    ("keep", "answer"),
    [
        (None, "float16"),
        ((), "Expected 'float32' v.s. given 'float16' at 'gamma'"),
        (("bn_moving*", "bn_gamma"), "Expected 'float32' v.s. given 'float16' at 'beta'"),
        (
            ("bn_gamma", "bn_beta", "bn_moving_var"),
            "Expected 'float32' v.s. given 'float16' at 'mean'",
        ),
        (
            ("bn_gamma", "bn_beta", "bn_moving_mean"),
            "Expected 'float32' v.s. given 'float16' at 'var'",
        ),
    ],
)
def test_mxnet_computes_float16_with_what_is_kept_and_refuses_less(
    tmp_path: Path, oracle_python: str, keep, answer: str
) -> None:
    np.savez(tmp_path / "x.npz", **{key: np.ones(shape, "f4") for key, shape in LAYERS.items()})
    convert_params(tmp_path / "x.npz", tmp_path / "half.params", dtype="float16", keep=keep)
    done = run_oracle(
        oracle_python, "-c", FLOAT16, tmp_path / "half.params", check=False, text=True
    )
    assert done.stdout.strip() == answer, done.stderr[-2000:]
