"""The names of ``save_parameters`` of 20 nets of Gluon's zoo become those of the exported graph, and come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graphshare as gs
from graphshare.formats.params.format import read_index
from graphshare.text.names import split_key
from tests.surroundings import run_oracle

pytestmark = pytest.mark.oracle

PROCESS = Path(__file__).with_name("block_names_process.py")
NETS = """alexnet densenet121 densenet161 densenet169 inceptionv3 mobilenet0.25 mobilenet1.0
    mobilenetv2_0.5 mobilenetv2_1.0 resnet101_v1 resnet152_v2 resnet18_v1 resnet18_v2 resnet34_v1
    resnet50_v1 resnet50_v2 squeezenet1.0 squeezenet1.1 vgg11 vgg13_bn""".split()


@pytest.mark.parametrize("net", NETS)
def test_names_of_a_net_go_to_its_graph_and_back(
    oracle_python: str, tmp_path: Path, net: str
) -> None:
    run_oracle(oracle_python, PROCESS, tmp_path, net)
    graph, blocks = str(tmp_path / f"{net}-symbol.json"), str(tmp_path / f"{net}.params")
    pairs = json.loads((tmp_path / f"{net}.json").read_text())
    gs.convert(blocks, tmp_path / "named.params", graph=graph)
    named = [
        split_key(record.key or "")[1] for record in read_index(tmp_path / "named.params").records
    ]
    assert named == [name for _, name in pairs]
    gs.convert(tmp_path / "named.params", tmp_path / "again.params", graph=graph, blocks=blocks)
    assert (tmp_path / "again.params").read_bytes() == Path(blocks).read_bytes()
