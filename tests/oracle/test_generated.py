"""Generated models agree with MXNet but for what the tables of known differences list; an unlisted
difference is found.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.generate import blame, judge
from tests.generate.__main__ import BATCH, Campaign
from tests.generate.grow import Grower
from tests.oracle.known_differences import CRASHES, KNOWN, WIDER
from tests.oracle.known_in_graphs import IN_GRAPHS
from tests.oracle.known_inputs import WHERE

pytestmark = [pytest.mark.oracle, pytest.mark.slow]

GRAPHS = 150


def test_generated_graphs_agree_with_mxnet(
    oracle_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = Campaign(oracle_python, every=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for first in range(0, GRAPHS, BATCH):
            campaign.run(range(first, min(first + BATCH, GRAPHS)))
    with capsys.disabled():
        print(f"\n{campaign.summarize(0)}")
    assert campaign.disagreements == []
    assert campaign.counts["graphs that agree"] > 0.6 * GRAPHS
    assert campaign.counts["gradients compared"] > 0.6 * GRAPHS
    assert len(campaign.coverage.operators) > 0.95 * len(campaign.grower.pool)


CASE = {"op": "_npi_flip", "attrs": {"axis": "(-1,)"}, "family": "", "np_shape": False}
ZEROS = np.zeros((2, 3), np.float32)


@pytest.mark.parametrize(
    ("changes", "how", "listed"),
    [
        ({}, "MXNet refuses (index = -1 must be in range [0, 2))", True),
        ({}, "MXNet refuses (another reason)", False),
        ({"op": "sin"}, "MXNet refuses (index = -1 must be in range [0, 2))", False),
        ({}, "output 0: values: 1 of 6 elements differ", False),
        ({"op": "elemwise_div"}, "MXNet ends with status 8", False),
        ({"op": "_npi_lcm_scalar"}, "MXNet ends with status 8", True),
        ({"op": "sin"}, "MXNet ends with status 8", False),
        ({"op": "sin"}, "output 0: shape (2,), MXNet (2, 3)", False),
        ({"op": "_linalg_inverse"}, "output 0: values: 1 of 4 elements differ", True),
    ],
)
def test_an_entry_excuses_one_operator_and_one_kind_of_difference(
    changes: dict[str, Any], how: str, listed: bool
) -> None:
    assert blame.is_listed({**CASE, **changes}, [ZEROS], how) is listed


def test_a_regular_matrix_excuses_nothing() -> None:
    regular = np.eye(3, dtype=np.float32)
    assert not blame.is_listed(
        {**CASE, "op": "_linalg_inverse"}, [regular], "output 0: values: 1 of 4 elements differ"
    )


def test_the_tables_name_operators_that_there_are() -> None:
    pool = Grower().pool
    patterns = [entry[0] for entry in (*WIDER, *CRASHES, *KNOWN, *IN_GRAPHS, *WHERE)]
    assert [p for p in patterns if not any(re.fullmatch(p, op) for op in pool)] == []


def test_a_difference_that_is_not_listed_is_reported(
    oracle_python: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = next(m for m in map(Grower().grow, range(50)) if m.refused is None)
    (number, index), value = next(
        (entry, x)
        for entry, x in model.values.items()
        if entry[0] in model.cases and x.dtype == np.float32 and x.size
    )
    spoiled = model._replace(values={**model.values, (number, index): value + 1})
    (answer,) = judge.ask_mxnet(oracle_python, [spoiled], tmp_path)
    monkeypatch.setattr(
        judge, "compared_forward", lambda case, arrays, answer: "output 0: values: all differ"
    )
    monkeypatch.setattr(judge, "is_listed", lambda case, arrays, how: False)
    assert f"n{number}" in {found.node for found in judge.judge(spoiled, answer).disagreements}
