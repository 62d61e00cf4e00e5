"""The dtypes of ONNX that numpy lacks: ml_dtypes has arrays of them, one number per element.

Files and onnxruntime pack numbers of less than a byte, the first in the lowest bits.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from graphshare.errors import Fault, UsageError
from graphshare.formats.params.records import element_count

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

_OWN = {
    "bfloat16": ("bfloat16", 16),
    "float8e4m3fn": ("float8_e4m3fn", 8),
    "float8e4m3fnuz": ("float8_e4m3fnuz", 8),
    "float8e5m2": ("float8_e5m2", 8),
    "float8e5m2fnuz": ("float8_e5m2fnuz", 8),
    "float8e8m0": ("float8_e8m0fnu", 8),
    "float4e2m1": ("float4_e2m1fn", 4),
    "int4": ("int4", 4),
    "uint4": ("uint4", 4),
    "int2": ("int2", 2),
    "uint2": ("uint2", 2),
}
"""By ONNX's name the name in ml_dtypes, and the bits of a number."""
_NAMES = {own: name for name, (own, _) in _OWN.items()}
NARROW = frozenset(_OWN)
"""The dtypes that only ml_dtypes has arrays of."""
INSTALL = "pip install ml_dtypes"


def is_installed() -> bool:
    """Whether ml_dtypes is installed, without importing it."""
    return find_spec("ml_dtypes") is not None


def find_numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of arrays for one of :data:`NARROW`. Raises UsageError without ml_dtypes."""
    if not is_installed():
        raise UsageError(
            Fault(f"arrays of {name} need ml_dtypes, which is not installed", hint=INSTALL)
        )
    import ml_dtypes  # optional, like onnx; onnx needs it, too
    import numpy as np  # start-up: the process of onnxruntime is started before this one needs numpy

    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, _OWN[name][0]))
    return dtype


def name_dtype(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype in ONNX, mostly numpy's."""
    return _NAMES.get(str(dtype), str(dtype))


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of :data:`NARROW`."""
    return str(dtype) in _NAMES


def has_bytes_of(array: Array, name: str) -> bool:
    """Whether numpy read an array of one of :data:`NARROW` from a file: bytes without a dtype."""
    is_plain = array.dtype.kind == "V" and array.dtype.names is None and not is_narrow(array.dtype)
    return is_plain and name in _OWN and array.dtype.itemsize == (2 if _OWN[name][1] == 16 else 1)


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a dtype are numbers or truth values."""
    return is_narrow(dtype) or dtype.kind in "fiub"


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of a dtype are floats."""
    return (
        _NAMES[str(dtype)].startswith(("float", "bfloat"))
        if is_narrow(dtype)
        else dtype.kind == "f"
    )


def name_wide(name: str) -> str:
    """Return numpy's dtype that holds every number of one of :data:`NARROW`."""
    return "float32" if "float" in name else "uint8" if name.startswith("u") else "int8"


def widen(array: Array) -> Array:
    """Return an array of one of :data:`NARROW` in a numpy dtype with the same numbers; others
    unchanged.
    """
    return array.astype(name_wide(name_dtype(array.dtype))) if is_narrow(array.dtype) else array


def narrow(array: Array, dtype: np.dtype[Any]) -> Array:
    """Undo :func:`widen` for ``dtype``; other arrays unchanged."""
    if not is_narrow(dtype) or str(array.dtype) != name_wide(name_dtype(dtype)):
        return array
    result = array.astype(dtype)
    again = result.astype(array.dtype)
    return (
        result if bool(((again == array) | ((again != again) & (array != array))).all()) else array
    )


def to_raw(array: Array) -> Array:
    """Return the bits of an array of one of :data:`NARROW` as unsigned integers; others unchanged.

    Packed numbers are in the first bytes; the rest is zero.
    """
    if not is_narrow(array.dtype):
        return array
    bits = _OWN[name_dtype(array.dtype)][1]
    flat = array.reshape(-1).view("uint16" if bits == 16 else "uint8")
    if bits < 8:
        flat = _pack(flat, bits)
    return flat.reshape(array.shape)


def from_raw(raw: Array, name: str) -> Array:
    """Invert :func:`to_raw`; ``name`` is one of :data:`NARROW`."""
    dtype, bits = find_numpy_dtype(name), _OWN[name][1]
    flat = raw.reshape(-1)
    if bits < 8:
        flat = _unpack(flat, bits)
    return flat.view(dtype).reshape(raw.shape)


def read_raw(data: bytes | memoryview, name: str, shape: tuple[int, ...]) -> Array:
    """Return the bits in little-endian ``data`` as :func:`to_raw` does for ``shape``."""
    import numpy as np  # start-up: as above

    bits = _OWN[name][1]
    raw = np.zeros(element_count(shape), "uint16" if bits == 16 else "uint8")
    filled = np.frombuffer(data, "<u2" if bits == 16 else "u1")
    raw[: filled.size] = filled
    return raw.reshape(shape)


def _pack(numbers: Array, bits: int) -> Array:
    """Pack numbers of less than a byte into the first bytes, followed by zeros."""
    import numpy as np  # start-up: as above

    each = 8 // bits
    padded = np.zeros(-(-numbers.size // each) * each, "uint8")
    padded[: numbers.size] = numbers & (1 << bits) - 1
    packed = np.zeros(numbers.size, "uint8")
    columns = padded.reshape(-1, each)
    packed[: len(columns)] = sum(columns[:, place] << bits * place for place in range(each))
    return packed


def _unpack(packed: Array, bits: int) -> Array:
    """Unpack as many numbers as there are bytes from the first bytes."""
    import numpy as np  # start-up: as above

    used = packed[: -(-packed.size * bits // 8), None]
    numbers = used >> np.arange(0, 8, bits, dtype="uint8") & np.uint8((1 << bits) - 1)
    return np.ascontiguousarray(numbers.reshape(-1)[: packed.size])
