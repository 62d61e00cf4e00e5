"""Counts of outputs that no operator has are not believed, so that copies of a node do not count beyond 32 bits."""

from __future__ import annotations

import json
from pathlib import Path

from tests.processes import done, graphshare
from tests.symbols import siamese


def test_a_row_pointer_near_the_limit_can_be_duplicated(tmp_path: Path) -> None:
    graph = siamese()
    graph["node_row_ptr"] = [0, 1, 2, 4294967294, 4294967295]
    (tmp_path / "a.json").write_text(json.dumps(graph))
    done(graphshare("duplicate", "a.json", "--prefix", "b-", "-o", "out.json", cwd=tmp_path))
    written = json.loads((tmp_path / "out.json").read_text())
    assert len(written["nodes"]) == 8
    assert max(written.get("node_row_ptr", [0])) <= 8
