"""The readers under attack, by name: each takes bytes, with a corpus of valid files and the words of its language."""

from __future__ import annotations

import io
import json
import os
import re
import struct
import tempfile
import unittest.mock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import unquote

import msgspec
import numpy as np

from graphshare.checkpoint.map_file import names_from_map, parse_map
from graphshare.checks.baseline import read_baseline
from graphshare.checks.config import read_config
from graphshare.errors import GraphshareError, InputError
from graphshare.files.remote import listing
from graphshare.fleet.manifest import Manifest
from graphshare.fleet.records import Result
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.onnx.decode import read_model
from graphshare.formats.onnx.parameters import index_parameters
from graphshare.formats.onnx.write import encode_model, list_as_read
from graphshare.formats.paddle.edit import settle_outputs
from graphshare.formats.paddle.read import read_program
from graphshare.formats.paddle.write import encode_program
from graphshare.formats.params.array_files import read_arrays
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index
from graphshare.rewrite.rules.load import read_rules
from tests import paddle_programs, params_bytes
from tests.surroundings import ROOT
from tests.symbols import mxnet_text, old_batch_norm, siamese, two_layers

MAX_DENSE = 1 << 24
"""Bytes: larger sparse arrays are read as stored, as commands do that need no dense form."""


SPARSE = ("row_sparse", "csr")
COUNTS = struct.Struct("<QQ")
"""Executions and answers, as a guided campaign writes them."""


@dataclass(frozen=True)
class Reader:
    """``read(data)`` returns or raises a GraphshareError; ``seeds`` are valid files, ``words`` what they consist of."""

    read: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    words: Sequence[bytes]
    command: Sequence[str]
    suffix: str

    def read_or_refuse(self, data: bytes) -> bool:
        """Read a file; return whether it was read."""
        try:
            self.read(data)
        except GraphshareError as error:
            str(error)
            return False
        return True


def read_params(data: bytes) -> object:
    """Read the index of a parameter file of any format, and every array."""
    index = read_index(_as_file(data))
    with ArrayReader(index) as reader:
        for record in index.records:
            if record.storage in SPARSE and record.shape is not None:
                reader.read_sparse(record)
            if record.shape is not None and record.dense_size <= MAX_DENSE:
                reader.read(record)
    return index


def read_npy(data: bytes) -> object:
    """Read a file of values for inputs."""
    return read_arrays(_as_file(data))


def read_graph(data: bytes) -> object:
    """Read a symbol file; what was read is written as it was, and reads back."""
    graph = read_symbol(data)
    text = b"".join(write_symbol(graph))
    if b"".join(write_symbol(read_symbol(text))) != text:
        raise AssertionError("what is written does not read back")
    return graph


def read_onnx(data: bytes) -> object:
    """Read an ONNX model, its initializers too; what is encoded anew reads back as the same graph."""
    graph = read_model(_as_file(data))
    with ArrayReader(index := index_parameters(graph)) as reader:
        for record in index.records:
            if record.shape is not None and record.dense_size <= MAX_DENSE:
                reader.read(record)
    again = read_model(_as_file(b"".join(encode_model(graph).pieces())))
    if [(node.op, node.name) for node in list_as_read(graph)] != [
        (node.op, node.name) for node in again.nodes
    ]:
        raise AssertionError("what is written does not read back")
    return graph


def read_paddle(data: bytes) -> object:
    """Read a program of Paddle; what is written of it reads back as the same bytes."""
    graph = read_program(data)
    text = encode_program(settle_outputs(graph))
    if encode_program(settle_outputs(read_program(text))) != text:
        raise AssertionError("what is written does not read back")
    return graph


def read_configuration(data: bytes) -> object:
    """Read a configuration of ``check``."""
    return read_config(_as_file(data))


def read_rule_file(data: bytes) -> object:
    """Read rules, in JSON or TOML."""
    return read_rules(data, where="rules.toml" if data[:1] not in b"{[" else "rules.json")


def read_map_file(data: bytes) -> object:
    """Read a map file and take its names, and those of its inverse."""
    found = parse_map(data, "map.json")
    graph = _siamese()
    refusals = []
    for inverse in (False, True):
        try:
            names_from_map(found, graph, inverse=inverse)
        except InputError as error:
            refusals.append(error)
    return found


def read_baseline_file(data: bytes) -> object:
    """Read a baseline of findings."""
    return read_baseline(_as_file(data))


def read_manifest(data: bytes) -> object:
    """Open a manifest and append to it; nothing is lost of the file but a last line without its end."""
    path = _as_file(data)
    try:
        manifest = Manifest(path)
    except InputError:
        if _read_back(path) != data:
            raise AssertionError("a file that was refused is another one now") from None
        raise
    try:
        result = Result(source="last", command=("inspect", "{}"), result="done")
        manifest.append(result)
        last = manifest.find("last")  # of an earlier run: what is appended is read by the next one
    finally:
        manifest.close()
    written, line = _read_back(path), msgspec.json.encode(result) + b"\n"
    whole = data[: data.rfind(b"\n") + 1]
    if written not in (data + line, data + b"\n" + line, whole + line) or (
        written == whole + line != data + line and not whole
    ):
        raise AssertionError(f"{data!r} became {written!r}")
    return last


def read_page(data: bytes) -> object:
    """Take the links of a folder's page, in plain text and percent-encoded: each stays in the
    folder for every client.
    """
    folder = "http://127.0.0.1/models/"
    with unittest.mock.patch.object(listing, "read_url", return_value=data):
        urls = listing._list_links(folder)
    for url in urls:
        name = url.removeprefix(folder)
        for _ in range(4):
            plain = re.sub(r"[\0-\x20\x7f]", "", name).replace("\\", "/")
            if not url.startswith(folder) or plain.startswith("/") or ".." in plain.split("/"):
                raise AssertionError(f"{url!r} is not in its folder")
            name = unquote(name)
    return urls


def _read_back(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


@cache
def _siamese() -> Any:
    return read_symbol(json.dumps(siamese()).encode())


@cache
def _descriptor() -> tuple[int, str]:
    file, path = tempfile.mkstemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.unlink(path)
    return file, f"/proc/self/fd/{file}"


def _as_file(data: bytes) -> str:
    """Return the path of a file with these bytes, in memory where there is a place for it."""
    descriptor, path = _descriptor()
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, data, 0)
    return path


def _params_seeds() -> list[bytes]:
    records, names = params_bytes.every_form()
    pairs = zip(records, names, strict=True)
    return [params_bytes.container(records, names), *(params_bytes.container([record], [name]) for record, name in pairs),
            params_bytes.container(records[:3]), params_bytes.container([])]  # fmt: skip


def _pdiparams_seeds() -> list[bytes]:
    kinds = [paddle_programs.record((2, 3), dtype) for dtype in paddle_programs.PDIPARAMS_CODES]
    return [*kinds, b"".join(kinds), paddle_programs.record((), levels=[bytes(8), bytes(16)])]


def _paddle_seeds() -> list[bytes]:
    return [
        built()[0].encode()
        for built in (paddle_programs.dense, paddle_programs.bodies, paddle_programs.odd)
    ]


def _npz_seeds() -> list[bytes]:
    arrays = {
        "arg:a": np.arange(6, dtype="f4").reshape(2, 3),
        "aux:b": np.ones((1, 2), ">i8"),
        "c": np.zeros((), "f2"),
    }
    seeds = []
    for write in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        write(out, **arrays)
        seeds.append(out.getvalue())
    return [
        *seeds,
        params_bytes.archive([("arg:a.npy", params_bytes.npy("<f4", (2,), bytes(8)))]),
        params_bytes.archive([]),
    ]


def _npy_seeds() -> list[bytes]:
    return [params_bytes.npy(descr, (2, 3), bytes(6 * int(descr[2:])), version=version, fortran=version == 2)
            for descr in ("<f4", ">f8", "|b1", "<i8", "<u2") for version in (1, 2, 3)]  # fmt: skip


def _safetensors_seeds() -> list[bytes]:
    entries: dict[str, object] = {"a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}}
    more = {
        "__metadata__": {"x": "y"},
        **entries,
        "b": {"dtype": "BF16", "shape": [], "data_offsets": [8, 10]},
    }
    return [
        params_bytes.safetensors(entries, bytes(8)),
        params_bytes.safetensors(more, bytes(10)),
        params_bytes.safetensors({}),
    ]


def _onnx_seeds() -> list[bytes]:
    from tests.onnx_files.made import write_made  # onnx is slow to import

    return [data for name, data in write_made().items() if name != "external"]


def _symbol_seeds() -> list[bytes]:
    documents = [siamese(), two_layers(), old_batch_norm()]
    nested = siamese()
    nested["nodes"][2]["subgraphs"] = [siamese()]
    nested["nodes"][2]["control_deps"] = [0]
    texts = [write(found) for found in (*documents, nested) for write in (mxnet_text, json.dumps)]
    return [
        *(text.encode() for text in texts),
        json.dumps(siamese(), indent="\t").replace("\n", "\r\n").encode(),
    ]


def _rule_seeds() -> list[bytes]:
    files = [
        path.read_bytes()
        for path in sorted(ROOT.glob("fixtures/cases/**/rules*.*"))
        if path.stat().st_size < 4096
    ]
    return [
        *files,
        b'version = 1\n[[rules]]\nscope = "b"\nto = "a"\n[[rules]]\nscope = "c"\nto = ""\n',
    ]


def _config_seeds() -> list[bytes]:
    return [b'[check]\nselect = ["GS1", "GS2"]\nignore = ["GS104"]\nstrict = true\n[check.per-path-ignore]\n"a/*" = ["GS1"]\n',
            b'[check]\nselect = ["GS4"]\nbaseline = "b.json"\n', b"[check]\nstrict = false\n"]  # fmt: skip


def _map_seeds() -> list[bytes]:
    entries = [{"from": {"id": i, "name": name}, "to": {"id": i, "name": "x-" + name}, "branch": ""}
               for i, name in enumerate(("data", "conv_weight", "conv", "loss"))]  # fmt: skip
    full = {"version": 1, "sources": [{"sha256": "0" * 64}], "entries": entries}
    return [json.dumps(full).encode(), b'{"conv": "x-conv", "loss": "conv"}', b"{}"]


def _baseline_seeds() -> list[bytes]:
    return [b'{"version": 1, "findings": [{"code": "GS104", "file": "a.json", "node": "x", "message": "m", "count": 2}]}',
            b'{"version": 1, "findings": []}']  # fmt: skip


def _manifest_seeds() -> list[bytes]:
    lines = [
        msgspec.json.encode(
            Result(
                source=source,
                size=9,
                sha256="0" * 64,
                command=("check", "{}"),
                result=answer,
                code=0,
            )
        )
        + b"\n"
        for source, answer in (
            ("a.json", "done"),
            ("s3://m/b.json", "no"),
            ("a.json", "failed"),
            ("last", "done"),
        )
    ]
    return [
        b"",
        lines[0],
        b"".join(lines),
        b"".join(lines)[:-1],
        b"".join(lines)[:-9],
        lines[1] + lines[0][:12],
    ]


def _page_seeds() -> list[bytes]:
    links = [
        "../",
        "?C=N",
        "a-symbol.json",
        "a-0000.params",
        "b/",
        "%2e%2e/",
        ".%2e/",
        "..%2fx",
        ".&#9;./x",
        "//h/x",
        "http://h/x",
        "/models/c.onnx",
        "/models/d/../../x",
        "%252e%252e%252fx",
        "a;..",
        "a%3b/../x",
        "\\..\\x",
    ]
    return [
        b"<html>" + b"".join(f'<a href="{link}">x</a>\n'.encode() for link in part) + b"</html>"
        for part in (links[:5], links)
    ]


_JSON = tuple(
    b'{ } [ ] : , " \\u0000 \\ud800 null true false -1 0 1e400 18446744073709551616 4294967295 \xff \xef\xbb\xbf'.split()
)
_SYMBOL = tuple(f'"{word}"'.encode() for word in "nodes op null name attrs attr param inputs arg_nodes node_row_ptr heads "
                "control_deps subgraphs mxnet_version is_np_shape int backward_source_id".split())  # fmt: skip
_PROGRAM = tuple(f'"{word}"'.encode() for word in "# % A AT D DA I N O OA QA TT p args kwargs blocks ops regions "
                 "program base_code version 1.data 1.fetch 1.if 1.while 2.yield 0.t_vec 0.a_array name".split())  # fmt: skip
_TOML = tuple(
    b'[ ] [[ ]] = . # """ \'\'\' true 1e9 1979-05-27 inf nan 0x7f \\u0000 { } , "'.split()
)
_NUMBERS = (bytes(4), bytes(8), b"\xff" * 4, b"\xff" * 8, b"\0\0\0\x80", b"\xff\xff\xff\x7f", b"\x01" + bytes(7),
            b"\xff" * 7 + b"\x7f",
            *(magic.to_bytes(4, "little") for magic in (params_bytes.V1, params_bytes.V2, params_bytes.V3)),
            )  # fmt: skip
_NPY = (b"\x93NUMPY", b"'descr'", b"'fortran_order'", b"'shape'", b"(2**", b"|O", b"<f4", b"<M8[ns]", b"(-1,)", b"PK\x01\x02",
        b"PK\x03\x04", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"\x01\x00")  # fmt: skip
_LENGTHS = ((2, 0), (2, 9), (0, 1))  # wire types of texts and numbers, with a length or a value
_ONNX = (*(bytes((number << 3 | kind, length)) for number in (1, 5, 6, 7, 8, 11, 12, 13, 15) for kind, length in _LENGTHS),
         *(word.encode() for word in "data w If Loop then_branch location offset length ../x".split()),
         b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01")  # fmt: skip
_MANIFEST = (
    b'{"source":',
    b'"command":[',
    b'"result":"done"',
    b"\n",
    b"\r\n",
    b"\\n",
    b'{"source":"a","command":[],"result":"no"}',
)
_PAGE = tuple(
    b"<a href= \" ' > .. / %2e %2E %2f %5c %25 %09 &#9; &#46; &Tab; &period; &sol; ; ? # : @ // http: \\ [ ]".split()
)
_SAFE = (
    b'"dtype"',
    b'"shape"',
    b'"data_offsets"',
    b'"__metadata__"',
    b'"F32"',
    b'"BF16"',
    b'"F8_E4M3"',
    b'"I64"',
)
_LISTING = ("graphshare", "params", "stats")

READERS = {
    "params": Reader(read_params, _params_seeds, _NUMBERS, (*_LISTING, "input.params"), ".params"),
    "npz": Reader(read_params, _npz_seeds, (*_NUMBERS, *_NPY), (*_LISTING, "input.npz"), ".npz"),
    "npy": Reader(read_npy, _npy_seeds, (*_NUMBERS, *_NPY), ("graphshare", "run", "nin", "--feed", "data=input.npy"), ".npy"),
    "safetensors": Reader(read_params, _safetensors_seeds, (*_NUMBERS, *_SAFE, *_JSON),
                          (*_LISTING, "input.safetensors"), ".safetensors"),
    "onnx": Reader(read_onnx, _onnx_seeds, (*_NUMBERS, *_ONNX), ("graphshare", "inspect", "input.onnx"), ".onnx"),
    "symbol": Reader(read_graph, _symbol_seeds, (*_JSON, *_SYMBOL), ("graphshare", "inspect", "input.json"), ".json"),
    "pdiparams": Reader(read_params, _pdiparams_seeds, _NUMBERS, (*_LISTING, "input.pdiparams"), ".pdiparams"),
    "paddle": Reader(read_paddle, _paddle_seeds, (*_JSON, *_PROGRAM), ("graphshare", "inspect", "input.json"), ".json"),
    "rules": Reader(read_rule_file, _rule_seeds, (*_TOML, *_JSON, b"version", b"rules", b"override"),
                    ("graphshare", "rules", "check", "input.rules"), ".rules"),
    "config": Reader(read_configuration, _config_seeds, (*_TOML, b"[check]", b"[check.per-path-ignore]", b"select"),
                     ("graphshare", "check", "nin", "--config", "input.toml"), ".toml"),
    "map": Reader(read_map_file, _map_seeds, (*_JSON, b'"version"', b'"entries"', b'"from"', b'"to"', b'"id"', b'"name"'),
                  ("graphshare", "rename", "nin", "--map", "input.map", "-o", "-"), ".map"),
    "baseline": Reader(read_baseline_file, _baseline_seeds, (*_JSON, b'"version"', b'"findings"', b'"code"'),
                       ("graphshare", "check", "nin", "--baseline", "input.json"), ".json"),
    "manifest": Reader(read_manifest, _manifest_seeds, (*_JSON, *_MANIFEST),
                       ("graphshare", "foreach", "*-symbol.json", "--manifest", "input.jsonl", "--", "check", "{}"), ".jsonl"),
    "page": Reader(read_page, _page_seeds, (*_PAGE, b"\t", b"a-symbol.json"),
                   ("graphshare", "foreach", "http://HOST/models/", "--", "check", "{}"), ".html"),
}  # fmt: skip
