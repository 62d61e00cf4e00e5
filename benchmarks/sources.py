"""What the benchmarks work on.

Nothing is downloaded: ResNet-50 comes from MXNet's own model zoo with made-up weights.
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
ARRAYS = 64


def resnet(oracle: str, directory: Path) -> Path:
    """The stem of ResNet-50: ``resnet-symbol.json`` and ``resnet-0000.params`` (102 MB)."""
    stem = directory / "resnet"
    subprocess.run(
        [oracle, str(HERE / "mxnet_side.py"), "export", str(stem)],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return stem


def chain(nodes: int, path: Path) -> Path:
    """A graph file of ``nodes`` nodes, as MXNet writes it: data, then weight, FullyConnected,
    Activation again and again.
    """
    blocks = max(1, (nodes - 1) // 3)
    count = 1 + 3 * blocks
    with path.open("w", encoding="utf-8") as file:
        file.write(
            '{\n  "nodes": [\n    {\n      "op": "null", \n      "name": "data", \n      "inputs": []\n    }'
        )
        for i in range(blocks):
            file.write(_BLOCK.format(i=i, data=3 * i, weight=3 * i + 1, dense=3 * i + 2))
        file.write(f'\n  ], \n  "arg_nodes": {_listed([0, *range(1, count, 3)])}')
        file.write(f', \n  "node_row_ptr": {_listed(range(count + 1))}')
        file.write(
            f', \n  "heads": [[{count - 1}, 0, 0]], \n  "attrs": {{"mxnet_version": ["int", 10901]}}\n}}'
        )
    return path


_BLOCK = """, \n    {{
      "op": "null", \n      "name": "fc{i}_weight", \n      "attrs": {{"num_hidden": "8"}}, \n      "inputs": []
    }}, \n    {{
      "op": "FullyConnected", \n      "name": "fc{i}", \n      "attrs": {{
        "no_bias": "True", \n        "num_hidden": "8"
      }}, \n      "inputs": [[{data}, 0, 0], [{weight}, 0, 0]]
    }}, \n    {{
      "op": "Activation", \n      "name": "act{i}", \n      "attrs": {{"act_type": "relu"}}, \n      "inputs": [[{dense}, 0, 0]]
    }}"""  # noqa: E501


def _listed(numbers: Iterable[int]) -> str:
    found = [str(number) for number in numbers]
    return (
        f"[{', '.join(found)}]"
        if len(found) <= 10
        else "[\n    " + ", \n    ".join(found) + "\n  ]"
    )


def checkpoint(mebibytes: int, directory: Path) -> Path:
    """The stem of a graph with 64 weights and of a parameter file of ``mebibytes`` that holds them."""
    stem = directory / "large"
    chain(3 * ARRAYS + 1, directory / "large-symbol.json")
    count = (mebibytes << 20) // ARRAYS // 4
    names = [f"arg:fc{i}_weight".encode() for i in range(ARRAYS)]
    with open(f"{stem}-0000.params", "wb") as file:
        file.write(struct.pack("<QQQ", 0x112, 0, ARRAYS))
        for _ in range(ARRAYS):
            file.write(struct.pack("<Iiiqiii", 0xF993FAC9, 0, 1, count, 1, 0, 0))
            for start in range(0, count * 4, 1 << 24):
                file.write(os.urandom(min(1 << 24, count * 4 - start)))
        file.write(
            struct.pack("<Q", ARRAYS)
            + b"".join(struct.pack("<Q", len(name)) + name for name in names)
        )
        file.flush()
        os.fsync(file.fileno())
    return stem
