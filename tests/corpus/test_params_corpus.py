"""Every parameter file of the corpus reads as MXNet's own ``mx.nd.load`` was recorded to read it."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import pytest

from graphshare.api.params import convert as convert_params
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index
from graphshare.formats.params.mxnet_params import FORMAT
from tests.surroundings import corpus_names

pytestmark = pytest.mark.corpus

FILES = corpus_names("params_oracle/*.json", ".json")


@pytest.mark.parametrize("name", FILES)
def test_a_file_reads_as_recorded(corpus: Path, name: str) -> None:
    recorded = json.loads((corpus / "params_oracle" / f"{name}.json").read_text())
    path = corpus / "params" / name
    file = read_index(path)
    assert file.size == recorded["bytes"]
    assert file.named == (recorded["named"] and bool(recorded["arrays"]))
    assert len(file.records) == len(recorded["arrays"])
    with ArrayReader(file) as reader:
        for number, (record, wanted) in enumerate(
            zip(file.records, recorded["arrays"], strict=True)
        ):
            assert (record.key if file.named else number) == wanted["name"]
            assert (list(record.shape or ()), record.dtype, record.storage) == (
                wanted["shape"],
                wanted["dtype"],
                wanted["stype"],
            )
            array = reader.read(record)
            assert hashlib.sha256(array.tobytes()).hexdigest() == wanted["sha256"]
            digest = hashlib.sha256()
            for chunk in reader.chunks(record):
                digest.update(chunk)
            assert digest.hexdigest() == wanted["sha256"]
            if record.storage != "default":
                sparse = reader.read_sparse(record)
                assert sparse.indices.tolist() == wanted["aux"]["indices"]
                assert sparse.indptr is None or sparse.indptr.tolist() == wanted["aux"]["indptr"]


@pytest.mark.parametrize("name", FILES)
def test_a_file_written_back_is_the_same_bytes(corpus: Path, name: str, tmp_path: Path) -> None:
    path = corpus / "params" / name
    file = read_index(path)
    out = io.BytesIO()
    FORMAT.copy([(file, [(record, record.key) for record in file.records])], out)
    assert out.getvalue() == path.read_bytes()
    # By way of another format the old forms become V2; what was V2 or V3 and dense comes back byte for byte.
    if file.named and {(record.layout, record.storage) for record in file.records} in (
        {("V2", "default")},
        {("V3", "default")},
    ):
        np_shape = file.records[0].layout == "V3"
        convert_params(path, tmp_path / "x.safetensors")
        convert_params(tmp_path / "x.safetensors", tmp_path / "x.npz")
        convert_params(tmp_path / "x.npz", tmp_path / "x.params", np_shape=np_shape)
        assert (tmp_path / "x.params").read_bytes() == path.read_bytes()


def test_the_corpus_has_every_form(corpus: Path) -> None:
    layouts, storages = set(), set()
    for name in FILES:
        for record in read_index(corpus / "params" / name).records:
            layouts.add(record.layout)
            storages.add(record.storage)
    assert layouts == {"V0", "V1", "V2", "V3"}
    assert storages == {"default", "row_sparse", "csr"}
