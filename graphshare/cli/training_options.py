"""The options of ``run`` that train, and its report of the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click
import msgspec

from graphshare.cli.console import is_quiet, say
from graphshare.cli.options import gather
from graphshare.cli.progress import is_shown
from graphshare.errors import Fault, UsageError
from graphshare.execute.prepare.feeds import load_feeds, parse_feeds
from graphshare.execute.run import summarize
from graphshare.execute.train.sgd import Sgd
from graphshare.execute.train.train import LossHistory, StepListener, Trained
from graphshare.files.paths import is_directory
from graphshare.formats.params.registry import choose_format
from graphshare.text.format import escape_control, format_count, format_number

_LISTED = 8  # outputs whose means before and after are printed

_OPTIONS = (
    click.option("--sgd-steps", type=click.IntRange(min=1), metavar="N", help="Train the parameters for N steps first."),
    click.option("--learning-rate", type=float, metavar="R", help="The learning rate [0.01]."),
    click.option("--momentum", type=float, metavar="M", help="The momentum [0]."),
    click.option("--wd", type=float, metavar="W", help="Decay of *_weight and *_gamma [0]."),
    click.option("--clip-gradient", type=click.FloatRange(min=0), metavar="C", help="Bound of a gradient."),
    click.option("--rescale-grad", type=float, metavar="S", help="Factor of gradients [1 / batch]."),
    click.option(
        "--head-gradient",
        "head_gradients",
        multiple=True,
        metavar="NAME=FILE",
        help="Gradient of an output that is not a loss [ones].",
    ),
    click.option("--params-out", metavar="FILE", help="With --sgd-steps: where the trained parameters go."),
    click.option("--in-place", is_flag=True, help="With --sgd-steps: replace the parameter file by the trained parameters."),
)
_KEYS = (*("sgd_steps", "learning_rate", "momentum", "wd", "clip_gradient", "rescale_grad", "head_gradients"),
         *("params_out", "in_place"))  # fmt: skip
_NAMES = {"learning_rate": "learning_rate", "momentum": "momentum", "wd": "wd", "clip_gradient": "clip"}


class TrainingOptions(msgspec.Struct, frozen=True):
    """What the options say: keyword arguments of :func:`graphshare.train`, and where the trained parameters go."""

    arguments: Mapping[str, Any]
    params_out: str
    in_place: bool
    gradient_files: tuple[str, ...]


options = gather("given_training", _KEYS, _OPTIONS)
"""Adds the options to a command, which gets what they say as ``given_training``."""


def parse_training(given: Mapping[str, Any], *, profile: bool) -> TrainingOptions | None:
    """Return what the options say; None without ``--sgd-steps``.

    Raises:
        UsageError: options that need ``--sgd-steps``, or do not go with it; all are listed.
        RefusedError: the suffix of ``--params-out`` is of no format.
    """
    if given["sgd_steps"] is None:
        idle = [name for name, value in given.items() if value not in (None, (), False)]
        if idle:
            names = {"head_gradients": "head-gradient"}
            raise UsageError(
                [Fault(f"--{names.get(n, n.replace('_', '-'))} needs --sgd-steps", hint="add --sgd-steps 1") for n in idle]
            )
        return None
    if profile:
        raise UsageError(Fault("--profile measures a forward pass and does not go with --sgd-steps"))
    target = given["params_out"] or ""
    if target == "-":
        raise UsageError(Fault("parameters cannot go to stdout", hint="name a file with --params-out"))
    if target and not is_directory(target):
        choose_format(target)
    gradients = parse_feeds(given["head_gradients"])
    arguments = {
        "steps": given["sgd_steps"],
        "settings": Sgd(**{field: given[name] for name, field in _NAMES.items() if given[name] is not None}),
        "rescale": given["rescale_grad"],
        "head_gradients": load_feeds(gradients),
    }
    return TrainingOptions(arguments, target, given["in_place"], tuple(path for _, path in gradients))


def describe_training(trained: Trained) -> dict[str, Any]:
    """Return the part on training of the report that ``schemas/run.schema.json`` describes."""
    return {
        "steps": trained.steps,
        "settings": trained.settings,
        "updated": list(trained.updated),
        "losses": trained.losses,
        "before": [summarize(name, array) for name, array in trained.before.items()],
    }


def step_reporter(steps: int) -> StepListener | None:
    """Return what prints the losses of a step, on a terminal; of many steps each tenth, hundredth, and so on, and the last."""
    if is_quiet() or not is_shown():
        return None
    every = 10 ** max(0, len(str(steps - 1)) - 2)

    def say_step(number: int, losses: Sequence[LossHistory]) -> None:
        if number == 1 or number == steps or number % every == 0:
            texts = [f"{escape_control(of.name)} {of.measure} {format_number(of.values[-1], 6)}" for of in losses[:_LISTED]]
            say(f"step {number}: {', '.join(texts)}")

    return say_step


def say_result(trained: Trained) -> None:
    """Print the outputs' means before and after."""
    for name, array in list(trained.before.items())[:_LISTED]:
        first, last = summarize(name, array).mean, summarize(name, trained.outputs[name]).mean
        say(f"{escape_control(name)}: mean {format_number(first, 9)} before, {format_number(last, 9)} after")
    say(f"{format_count(trained.steps, 'step')} on {format_count(len(trained.updated), 'variable')} in {trained.seconds:.3f} s")
