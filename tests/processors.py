"""Run the tests that compute with the kernels that OpenBLAS has for other processors.

    python -m tests.processors

Kernels differ in the last bits of products and factorizations. For each processor of
:data:`PROCESSORS` a tenth of the tests of :data:`FOLDERS` runs. The number of commits selects the
tenth (``GRAPHSHARE_TENTH``), so ten commits in a row run all tests.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.surroundings import ROOT, TENTHS

PROCESSORS = {
    "SkylakeX": "avx512f avx512cd avx512bw avx512dq avx512vl",
    "Haswell": "avx2 fma",
    "Zen": "avx2 fma",
    "Sandybridge": "avx",
    "Nehalem": "sse4_2",
}
"""OpenBLAS's names of processors, and Linux's names of the instructions that their kernels use."""
SAME_KERNELS = {"Zen": "Haswell"}
"""Processors that have no kernels of their own in some builds of OpenBLAS, and whose kernels they get."""
FOLDERS = [
    f"tests/{name}" for name in ("corpus", "export", "generate", "gradients", "kernels", "training")
]
FOLDERS += [
    f"tests/unit/{name}"
    for name in (
        "analysis",
        "api",
        "builder",
        "differences",
        "execute",
        "export_onnx",
        "formats",
        "ops",
        "rewrite",
        "verification",
    )
]
"""The tests that compute; the other folders of ``tests/unit`` read, write and print."""


def main() -> int:
    """Run the tests as on each processor of :func:`choose_processors`, side by side; return 1 if any failed."""
    processors = choose_processors()
    if not processors:
        return 0
    tenth = str(count_commits() % TENTHS)
    print(f"{', '.join(processors)}: GRAPHSHARE_TENTH={tenth}", flush=True)
    workers = [
        f"--tx=popen//id={processor}//env:OPENBLAS_CORETYPE={processor}" for processor in processors
    ]
    command = [sys.executable, "-m", "pytest", "-q", "--dist", "each", *workers, *FOLDERS]
    return int(
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "GRAPHSHARE_TENTH": tenth}, check=False
        ).returncode
        != 0
    )


def choose_processors() -> list[str]:
    """Return the processors whose kernels this machine can run and does not use anyway; print why
    the others are skipped.
    """
    instructions = read_instructions()
    used = {find_kernels()}
    chosen = []
    for processor, needed in PROCESSORS.items():
        lacking = [name for name in needed.split() if name not in instructions]
        if lacking:
            print(f"{processor}: skipped, this machine lacks {', '.join(lacking)}", flush=True)
            continue
        kernels = find_kernels(processor)
        if kernels not in (processor, SAME_KERNELS.get(processor)):
            sys.exit(
                f"{processor}: numpy computes with the kernels for {kernels}, so OPENBLAS_CORETYPE is not obeyed"
            )
        if kernels in used:
            print(f"{processor}: skipped, the kernels for {kernels} are used anyway", flush=True)
        else:
            chosen.append(processor)
        used.add(kernels)
    return chosen


def read_instructions() -> set[str]:
    """Return the names of this machine's instructions; none where Linux does not list them."""
    flags = re.search(
        r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE
    )
    return set(flags[1].split()) if flags else set()


def find_kernels(processor: str | None = None) -> str:
    """Return the processor whose kernels numpy computes with where ``OPENBLAS_CORETYPE`` names ``processor``."""
    variables = {**os.environ, "OPENBLAS_CORETYPE": processor} if processor else None
    command = [sys.executable, "-m", "threadpoolctl", "-i", "numpy"]
    libraries = json.loads(
        subprocess.run(command, env=variables, stdout=subprocess.PIPE, check=True).stdout
    )
    return next(
        (each["architecture"] for each in libraries if each["internal_api"] == "openblas"),
        "no OpenBLAS",
    )


def count_commits() -> int:
    """Return the number of commits of this branch, of a merge without those that it brings."""
    command = ["git", "rev-list", "--count", "--first-parent", "HEAD"]
    return int(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)


if __name__ == "__main__":
    sys.exit(main())
