"""The paths that programs outside the package import: each is listed here literally, so that moving code keeps them."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator

import pytest

import graphshare
from tests.surroundings import ROOT

LIBRARY = """Bound Checkpoint DisprovedError Entry Fault Graph GraphshareError GraphvizError
InputError Inputs Node OutputError RefusedError Resources Rewrite Rule Ruleset SchedulerError
SelfCheckError Sgd Tolerance UnsupportedError UsageError bind check check_rules compare convert
detect diff diff_params downgrade draw draw_difference draw_proof duplicate explain export extract
fingerprint fold foreach format group infer_shapes inspect inspect_checkpoint inspect_folder
inspect_shared list_params load load_rules measure_params open_images overwriting pool rank_classes
rename rename_params reshape run save share show_params split tie_params train upgrade verify""".split()

BUILDER = """AUTO_REUSE BREW CAFFE2 MXNET PADDLE PADDLE_NUMBERED PADDLE_PER_KIND TENSORFLOW Layer
Model Naming Reuse Scope Session Sgd Var constant current_scope current_session default_session
fully_connected initializers model name_scope operators parameter_sharing placeholder
reset_default_session save unique_names variable variable_scope""".split()

MODULES = {
    "graphshare": LIBRARY,
    "graphshare.builder": BUILDER,
    "graphshare.builder.parameter_values": ["groups", "operators"],
    "graphshare.errors": [
        "DisprovedError",
        "InputError",
        "OutputError",
        "RefusedError",
        "SelfCheckError",
        "UsageError",
    ],
    "graphshare.progress": ["progress_listener"],
    # what the objects behind the entry points graphshare.kernels, .gradients, .to_onnx and .engines are made of
    "graphshare.ops.kernel": ["Context", "Kernel", "KernelError"],
    "graphshare.ops.gradient": ["Gradient", "GradientError", "NoGradient", "TapeEntry"],
    "graphshare.ops.translation": [
        "NoTranslation",
        "Translation",
        "TranslationError",
        "Translator",
        "Value",
    ],
    "graphshare.execute.engines.engine": [
        "Compiled",
        "Engine",
        "GraphPart",
        "NodesRefusedError",
        "Selective",
    ],
    "graphshare.execute.engines.registry": ["register_engine"],
    # what examples of the documentation use
    "graphshare.analysis.name_lists": ["NameLists"],
    "graphshare.execute.interpreter": ["run_graph"],
    "graphshare.ir.graph": ["Entry", "Graph", "Node", "Rewrite"],
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in MODULES.items() for name in names]
)
def test_public_path_is_importable(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


def test_every_name_of_the_library_is_listed() -> None:
    assert sorted(graphshare.__all__) == sorted([*LIBRARY, "__version__"])


LOWER = {
    "load": "graphshare.checkpoint.load",
    "save": "graphshare.checkpoint.save",
    "overwriting": "graphshare.files.staged_file",
}
"""The functions that lower layers use, each with its home; every other function is in ``api``."""
OF_COMMANDS = {
    "check_rules": "rules",
    "convert": "params",
    "detect": "share",
    "explain": "rules",
    "infer_shapes": "inspect",
    "inspect_checkpoint": "inspect",
    "inspect_folder": "inspect",
    "inspect_shared": "inspect",
    "list_params": "params",
    "measure_params": "params",
    "show_params": "params",
}
"""The functions in a module that is named after their command."""
COMMANDS = {path.stem for path in (ROOT / "graphshare" / "cli" / "commands").glob("[!_]*.py")}


def is_home(module: str, name: str) -> bool:
    """Return whether a public function is where the rule of ``graphshare/api`` puts it."""
    return module == LOWER.get(name, f"graphshare.api.{OF_COMMANDS.get(name, name)}")


def test_modules_of_several_functions_are_named_after_commands() -> None:
    assert set(OF_COMMANDS.values()) <= COMMANDS


def test_every_function_has_its_home_in_api() -> None:
    functions = {name: getattr(graphshare, name) for name in LIBRARY if name[0].islower()}
    homes = {name: inspect.unwrap(function).__module__ for name, function in functions.items()}
    assert {name: home for name, home in homes.items() if not is_home(home, name)} == {}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("graphshare.verification.verify", "verify"),
        ("graphshare.api.pictures", "draw_proof"),
        ("graphshare.api.load", "load"),
        ("graphshare.api.check", "run"),
        ("graphshare.api.diff", "convert"),
    ],
)
def test_a_wrong_home_is_found(module: str, name: str) -> None:
    assert not is_home(module, name)


def list_raised(owner: object, *, name: str) -> Iterator[tuple[str, str]]:
    """Yield the exceptions that the docstrings of a public object and its methods name, each with its place."""
    text = inspect.getdoc(owner) or ""
    section = text.partition("Raises:\n")[2].partition("\n\n")[0]
    yield from ((name, error) for error in re.findall(r"^    (\w+):", section, re.M))
    for part, method in vars(owner).items() if inspect.isclass(owner) else ():
        if not part.startswith("_") and inspect.isfunction(method):
            yield from list_raised(method, name=f"{name}.{part}")


def test_exceptions_that_docstrings_name_are_public() -> None:
    raised = [
        each
        for name in graphshare.__all__
        for each in list_raised(getattr(graphshare, name), name=name)
    ]
    assert len(raised) > 50
    assert [each for each in raised if each[1] not in graphshare.__all__] == []


def test_every_name_of_the_builder_is_listed() -> None:
    assert sorted(importlib.import_module("graphshare.builder").__all__) == sorted(BUILDER)
