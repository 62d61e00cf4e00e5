"""NiN cut at ``conv4_1024_output`` and renamed with ``sha-``: the result that started the project, word for word."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FIXTURES = Path(__file__).parents[2] / "fixtures"
ARGUMENTS = [
    "sha-data", "sha-conv1_weight", "sha-conv1_bias", "sha-cccp1_weight", "sha-cccp1_bias", "sha-cccp2_weight",
    "sha-cccp2_bias", "sha-conv2_weight", "sha-conv2_bias", "sha-cccp3_weight", "sha-cccp3_bias", "sha-cccp4_weight",
    "sha-cccp4_bias", "sha-conv3_weight", "sha-conv3_bias", "sha-cccp5_weight", "sha-cccp5_bias", "sha-cccp6_weight",
    "sha-cccp6_bias", "sha-conv4_1024_weight", "sha-conv4_1024_bias",
]  # fmt: skip
ATTRIBUTES = {
    "sha-cccp3": {
        "no_bias": "False", "kernel": "(1,1)", "num_group": "1", "dilate": "(1,1)", "num_filter": "256", "stride": "(1,1)",
        "cudnn_off": "False", "pad": "(0,0)", "workspace": "1024", "cudnn_tune": "off",
    },
    "sha-cccp2": {
        "no_bias": "False", "kernel": "(1,1)", "num_group": "1", "dilate": "(1,1)", "num_filter": "96", "stride": "(1,1)",
        "cudnn_off": "False", "pad": "(0,0)", "workspace": "1024", "cudnn_tune": "off",
    },
    "sha-drop": {"p": "0.5"},
    "sha-conv2": {"no_bias": "False", "kernel": "(5,5)", "num_group": "1", "dilate": "(1,1)", "num_filter": "256"},
}  # fmt: skip


def graphshare(*arguments: str, given: bytes | None = None) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "graphshare", *arguments],
        input=given,
        capture_output=True,
        check=False,
        cwd=FIXTURES,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_cut_and_renamed_nin_has_the_21_arguments_of_the_experiment() -> None:
    cut = graphshare("extract", "nin-symbol.json", "--target", "conv4_1024_output")
    renamed = graphshare("rename", "-", "--prefix", "sha-", given=cut)
    found = json.loads(graphshare("inspect", "-", "--format", "json", given=renamed))
    assert found["arguments"] == ARGUMENTS
    assert found["auxiliary_states"] == []
    assert found["outputs"] == ["sha-conv4_1024_output"]


def test_its_attributes_are_kept_word_for_word() -> None:
    cut = graphshare("extract", "nin-symbol.json", "--target", "conv4_1024_output")
    nodes = {
        n["name"]: n
        for n in json.loads(graphshare("rename", "-", "--prefix", "sha-", given=cut))["nodes"]
    }
    for name, wanted in ATTRIBUTES.items():
        attributes = nodes[name]["param"]
        assert {key: attributes[key] for key in wanted} == wanted
        assert name == "sha-conv2" or attributes == wanted


def test_duplicated_nin_has_both_branches() -> None:
    cut = graphshare("extract", "nin-symbol.json", "--target", "conv4_1024_output")
    both = graphshare("duplicate", "-", "--prefix", "sha-", given=cut)
    found = json.loads(graphshare("inspect", "-", "--format", "json", given=both))
    assert found["arguments"] == [name.removeprefix("sha-") for name in ARGUMENTS] + ARGUMENTS
    assert found["outputs"] == ["conv4_1024_output", "sha-conv4_1024_output"]
    assert found["inputs"] == ["data", "sha-data"]
