"""Asks MXNet 1.9.1 for the gradients of all recorded cases, and keeps them in ``recorded.npz``.

    ORACLE_PYTHON tests/gradients/record.py

A family is one of ``tests/kernels/recorded``; ``more`` are the cases of ``more_cases.py``, ``numpy`` those of
``numpy_cases.py``. ``agreement.py`` reads the file. Beside the answers it has their ``provenance`` (see
``tests/provenance.py``).
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.gradients.more_cases import CASES, drawn  # noqa: E402 (the script finds the tests by sys.path alone)
from tests.gradients.numpy_cases import NUMPY  # noqa: E402
from tests.oracle import gradient_process  # noqa: E402 (it imports MXNet, as it must be imported)
from tests.provenance import provenance  # noqa: E402

RECORDED = HERE.parent / "kernels" / "recorded"


def main():
    """Write the answers."""
    index, data = {}, []
    with tempfile.TemporaryDirectory() as folder:
        sources = {
            path.stem: path for path in sorted(RECORDED.glob("*.npz")) if path.stem != "joined"
        }
        for name, cases in (("more", CASES), ("numpy", NUMPY)):
            sources[name] = Path(folder, name + ".npz")
            np.savez(sources[name], cases=np.array(json.dumps(cases)), **drawn(cases))
        for name, source in sources.items():
            out = Path(folder, "answers")
            gradient_process.main(source, out)
            with np.load(out.with_suffix(".npz")) as answers:
                found = {key: answers[key] for key in answers if "_grad" in key}
            index[name] = {key: [str(x.dtype), x.shape] for key, x in found.items()}
            data += [np.ascontiguousarray(x).tobytes() for x in found.values()]
    texts = {"index": np.array(json.dumps(index)), "provenance": np.array(json.dumps(provenance()))}
    np.savez_compressed(
        HERE / "recorded.npz", data=np.frombuffer(b"".join(data), np.uint8), **texts
    )


if __name__ == "__main__":
    main()
