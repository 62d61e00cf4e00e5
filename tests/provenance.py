"""With what MXNet's answers are recorded. Runs under a Python that has MXNet."""

import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

import mxnet as mx
import numpy as np

FOR_INT8 = ("avx2", "avx512bw", "avx512_vnni", "avx_vnni")
"""Instruction sets that oneDNN's sums of int8 depend on."""


def provenance():
    """Return the versions of MXNet, oneDNN and numpy, how MXNet was built, the instruction sets, and the date.

    ``instructions`` is the set that oneDNN used, ``instructions_limit`` the limit set for it.
    """
    flags = next(
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")
    ).split()
    script = (
        "import mxnet as mx; mx.nd.Activation(mx.nd.ones((1, 4)), act_type='relu').wait_to_read()"
    )
    verbose = dict(os.environ, DNNL_VERBOSE="1")
    lines = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=verbose, check=True
    ).stdout.decode()
    reported = dict(re.findall(r"^dnnl_verbose,info,(oneDNN|cpu,isa:)(.*)$", lines, re.MULTILINE))
    features = mx.runtime.Features()
    return {
        "mxnet": mx.__version__,
        "features": sorted(name for name in features if features.is_enabled(name)),
        "onednn": reported["oneDNN"].split()[0] if features.is_enabled("MKLDNN") else None,
        "instructions": reported.get("cpu,isa:"),
        "instructions_limit": os.environ.get("DNNL_MAX_CPU_ISA"),
        "instructions_of_processor": [name for name in FOR_INT8 if name in flags],
        "numpy": np.__version__,
        "date": datetime.date.today().isoformat(),
    }
