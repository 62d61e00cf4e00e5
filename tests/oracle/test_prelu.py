"""Why the slopes of PReLU are not trained as MXNet trains them: it has two answers for one gradient, and one is wrong.

Its backward pass writes the gradient of the data first, and then reads the output's again for that
of the slopes. Where its memory plan has put one over the other, what it reads was multiplied by the
slope already.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape
from tests.gradients.one_operator import graph_of
from tests.surroundings import run_oracle

pytestmark = pytest.mark.oracle

PROCESS = Path(__file__).with_name("prelu_process.py")


def test_mxnet_multiplies_the_gradient_of_slopes_by_them_where_it_works_in_place(
    oracle_python: str, tmp_path: Path
) -> None:
    run_oracle(oracle_python, PROCESS, tmp_path / "out.npz")
    answers = dict(np.load(tmp_path / "out.npz"))
    variables, heads = graph_of({"op": "LeakyReLU", "attrs": {"act_type": "prelu"}}, 2, 1)
    x, slopes = answers["x"], answers["slopes"]
    tape = Tape(make_plan(heads), dict(zip(variables, (x, slopes), strict=True)), variables)
    ours = tape.backward([np.ones_like(x)]).gradients[variables[1]]
    assert ours == pytest.approx(answers["of_variable"], rel=1e-5)
    assert ours == pytest.approx(answers["by_others"], rel=1e-5)
    assert ours * slopes == pytest.approx(answers["of_operator"], rel=1e-5)
