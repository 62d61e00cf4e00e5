"""A plug-in for pytest: the commands that tests start live under the rules of another system.

    GRAPHSHARE_TEST_SYSTEM=windows python -m pytest -p tests.systems.plugin tests/golden tests/cli

Tests of what the system does not have are skipped; ``NOT_THERE`` lists them with the reason.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import processes
from tests.systems.rules import SYSTEMS, VARIABLE

NOT_THERE = {
    "test_limits.py": "no limit of memory can be set or measured there",
    "test_folders_and_globs": "paths in reports have the separator of the system",
    "test_a_folder_is_a_batch_in_the_order_of_names": "paths in reports have the separator of the system",
    "test_a_folder_has_a_line_for_each_model": "paths in reports have the separator of the system",
    "test_a_folder_as_json": "paths in reports have the separator of the system",
    "test_what_an_older_epoch_lacks_names_its_file": "paths in reports have the separator of the system",
    "test_the_hook_finds_them": "paths in reports have the separator of the system",
    "test_the_command_finds_them": "paths in reports have the separator of the system",
    "test_the_outputs_are_those_of_the_command_one_by_one": "paths in maps have the separator that the user typed",
    "test_weights_in_three_places_compute_the_same": "onnxruntime opens the paths by itself",
    "test_examples_run[export]": "onnxruntime opens the paths by itself",
    "test_fixes[GS004]": "text on stdout is cp1252",
    "test_a_second_file_that_cannot_be_fixed_leaves_the_first": "it breaks os.replace in its own way, by path",
    "test_only_descriptors_open_at_the_start_are_outputs": "no /dev/fd",
    "test_the_last_message_says_what_was_written[2]": "no SIGHUP",
    "test_a_signal_in_the_middle_leaves_nothing": "no SIGHUP, and the test starts Python by itself",
    "test_names_send_nothing_to_the_terminal": "backslashes in messages are read as separators",
    "test_output_may_equal_input_in_place": "no modes of files",
    "test_a_line_is_completed": "no bash",
}
"""Tests by a part of their id, with what they need and Windows (as it is simulated) does not have."""


def variables(system: str) -> dict[str, str]:
    """Return the variables that put a Python under the rules of ``system``."""
    folders = [str(Path(__file__).parent / "site"), os.environ.get("PYTHONPATH", "")]
    return {VARIABLE: system, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


def pytest_configure(config: pytest.Config) -> None:
    system = os.environ.get(VARIABLE, "windows")
    if system not in SYSTEMS:
        raise pytest.UsageError(f"{VARIABLE} should be one of {', '.join(SYSTEMS)}")
    processes.SYSTEM.update(variables(system))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    everywhere = {part: NOT_THERE[part] for part in ("test_limits.py",)}
    absent = NOT_THERE if processes.SYSTEM.get(VARIABLE) == "windows" else everywhere
    for item in items:
        for part, reason in absent.items():
            if part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"not simulated: {reason}"))
