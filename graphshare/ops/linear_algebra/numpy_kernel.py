"""The numpy interface's products and linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dim,
    Dims,
    Kernel,
    KernelError,
    Shape,
    Shapes,
    TypeRule,
    Types,
)
from graphshare.ops.limits import LAPACK, Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.linear_algebra.kernel import (
    check_finite,
    infer_matrix_shapes,
    require_lapack,
    square,
)
from graphshare.ops.unification import (
    broadcast_shapes,
    contradict,
    count_elements,
    exceeds,
    is_known,
    normalize_axis,
    output_rule,
    same_dtypes,
    unify,
    without_axes,
)
from graphshare.ops.windows import unify_dims
from graphshare.text.format import format_count, format_shape


def _forward(function: Callable[..., Any], types: TypeRule = same_dtypes) -> Callable[..., Array]:
    """Return the kernel of a numpy function; MXNet keeps the dtype of ``types``."""

    def forward(context: Context, attrs: Attrs, *arrays: Array) -> Array:
        (name,) = types(attrs, [str(x.dtype) for x in arrays], [None])[1]
        try:
            return np.asarray(function(attrs, *arrays)).astype(np.dtype(name), copy=False)
        except np.linalg.LinAlgError as error:
            raise KernelError(str(error)) from None

    return forward


def find_summed_axes(attrs: Attrs, a: int, b: int) -> tuple[Sequence[int], Sequence[int]]:
    """Return the axes over which a product of arrays with ``a`` and ``b`` axes sums.

    Attributes name them, or ``axes`` counts the first's last and the second's first, or they are
    dot's.
    """
    if "a_axes_summed" in attrs:
        return attrs["a_axes_summed"], attrs["b_axes_summed"]
    if "axes" in attrs:
        return range(a - attrs["axes"], a), range(attrs["axes"])
    return [-1], [-1 if b == 1 else -2]


def multiplies_by_scalar(attrs: Attrs, a: int, b: int) -> bool:
    """Whether a side without axes is a factor; a product over named axes sums even then."""
    return not (a and b) and "a_axes_summed" not in attrs


def _contraction_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    a, b = inputs
    if a is not None and b is not None and multiplies_by_scalar(attrs, len(a), len(b)):
        return inputs, [unify((*a, *b), outputs[0])]
    if a is not None and attrs.get("axes", 0) > len(a):
        rank = format_count(len(a), "axis")
        raise KernelError(f"axes is {attrs['axes']}, of an array with {rank}")
    if a is None or b is None:
        return inputs, outputs
    left, right = find_summed_axes(attrs, len(a), len(b))
    require(len(left) == len(right), f"axes {tuple(left)} and {tuple(right)} differ in number")
    first = [normalize_axis(axis, len(a)) for axis in left]
    second = [normalize_axis(axis, len(b)) for axis in right]
    if len(set(first)) < len(first) or len(set(second)) < len(second):
        raise KernelError(f"axes {tuple(left)} and {tuple(right)} name an axis twice")
    for i, j in zip(first, second, strict=True):
        unify_dims(a[i], b[j], "axes that are summed over")
    return inputs, [unify((*without_axes(a, first), *without_axes(b, second)), outputs[0])]


def _matmul_shape(attrs: Attrs, a: Dims, b: Dims) -> Shape:
    if not a or not b:
        raise KernelError("matmul does not take arrays without axes")
    # A side with one axis is a row or a column, whose other axis the result lacks.
    inner = a[-1], b[-2] if len(b) > 1 else b[0]
    unify_dims(*inner, "columns of the first against rows of the second")
    lead = broadcast_shapes(attrs, [a[:-2], b[:-2]], [None])[1][0] or ()
    columns = b[-1:] if len(b) > 1 else ()
    return (*lead, *a[-2:-1], *columns)


def _tensordot_by_count(attrs: Attrs, a: Array, b: Array) -> Any:
    """A side without axes is a factor."""
    if not a.ndim or not b.ndim:
        return np.multiply(a, b)
    with refuse_invalid_call():
        return np.tensordot(a, b, attrs["axes"])


def _einsum(attrs: Attrs, *arrays: Array) -> Any:
    with refuse_invalid_call():
        return np.einsum(attrs["subscripts"], *arrays, optimize=bool(attrs["optimize"]))


def _einsum_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if not all(is_known(shape) for shape in inputs):
        return inputs, outputs
    left, _, result = attrs["subscripts"].replace(" ", "").partition("->")
    terms = left.split(",")
    # Without a result, or with an ellipsis, only the run determines the shape.
    if "." in left or not result or len(terms) != len(inputs):
        return inputs, outputs
    sizes: dict[str, Dim] = {}
    for term, shape in zip(terms, inputs, strict=True):
        dims = shape or ()
        if len(term) != len(dims):
            raise KernelError(
                f"{term} of {attrs['subscripts']} does not name the "
                f"{format_count(len(dims), 'axis')} of {format_shape(shape)}"
            )
        for letter, size in zip(term, dims, strict=True):
            axis = f"axis {letter} of {attrs['subscripts']}"
            sizes[letter] = unify_dims(sizes.get(letter), size, axis)
    if not sizes.keys() >= set(result):
        raise KernelError(f"{attrs['subscripts']} names axes that no array has")
    return inputs, [unify(tuple(sizes[letter] for letter in result), outputs[0])]


def _cholesky(attrs: Attrs, a: Array) -> Any:
    """Return L of L L^T from the lower triangle, or U of U^T U from the upper."""
    require_lapack(a)
    if attrs["lower"]:
        return np.linalg.cholesky(a)
    return np.linalg.cholesky(a.swapaxes(-1, -2)).swapaxes(-1, -2)


def _solve(attrs: Attrs, a: Array, b: Array) -> Any:
    with refuse_invalid_call():
        if b.ndim == a.ndim - 1:  # one right side for each matrix
            return np.linalg.solve(a, b[..., None])[..., 0]
        return np.linalg.solve(a, b)


def _pinv(attrs: Attrs, a: Array, rcond: Array | None = None) -> Any:
    if str(a.dtype) not in LAPACK:
        raise KernelError(f"{a.dtype} is not supported, expected {' or '.join(LAPACK)}")
    limit: Any = rcond
    if rcond is None:
        limit = attrs["rcond"]
    elif not _broadcasts_to(rcond.shape, a.shape[:-2]):
        raise KernelError(
            f"rcond {format_shape(rcond.shape)} does not broadcast to one number for each matrix"
        )
    with refuse_invalid_call():
        return np.linalg.pinv(check_finite(a), limit, attrs["hermitian"])


def _broadcasts_to(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    if len(shape) > len(wanted):
        return False
    pairs = zip(reversed(shape), reversed(wanted), strict=False)
    return all(size in (1, other) for size, other in pairs)


def _tensorinv(attrs: Attrs, a: Array) -> Any:
    require_lapack(a)
    with refuse_invalid_call():
        return np.linalg.tensorinv(a, attrs["ind"])


def _tensorsolve(attrs: Attrs, a: Array, b: Array) -> Any:
    axes = tuple(normalize_axis(axis, a.ndim) for axis in attrs["a_axes"] or ())
    with refuse_invalid_call():
        return np.linalg.tensorsolve(a, b, axes or None)


def eigh(context: Context, attrs: Attrs, a: Array) -> tuple[Array, Array]:
    """Return ascending eigenvalues and eigenvectors (columns, largest element positive)."""
    values, vectors = np.linalg.eigh(a, _triangle(attrs))
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=-2)[..., None, :], axis=-2)
    return values, np.ascontiguousarray(vectors * np.sign(largest))


def _triangle(attrs: Attrs) -> Any:
    require(attrs["UPLO"] in ("L", "U"), f"UPLO is {attrs['UPLO']!r}, expected L or U")
    return attrs["UPLO"]


def _eigvalsh(attrs: Attrs, a: Array) -> Any:
    return np.linalg.eigvalsh(a, _triangle(attrs))


def _real(values: Array) -> Array:
    if np.iscomplexobj(values) and np.any(values.imag != 0):
        raise KernelError("the eigenvalues are complex, which MXNet does not support")
    return np.asarray(values.real)


def eig(context: Context, attrs: Attrs, a: Array) -> tuple[Array, Array]:
    """Return eigenvalues (they must be real) and eigenvectors (columns), in LAPACK's order."""
    values, vectors = np.linalg.eig(a)
    dtype = a.dtype if a.dtype.kind == "f" else np.float64
    return _real(values).astype(dtype), np.asarray(vectors.real).astype(dtype)


def _eigvals(attrs: Attrs, a: Array) -> Any:
    return _real(np.linalg.eigvals(a))


def svd(context: Context, attrs: Attrs, a: Array) -> tuple[Array, Array, Array]:
    """Return left vectors, singular values and right vectors, whose largest elements are positive.

    The matrix has no more rows than columns.
    """
    left, values, right = np.linalg.svd(check_finite(a), full_matrices=False)
    largest = np.take_along_axis(right, np.abs(right).argmax(axis=-1)[..., None], axis=-1)
    sign = np.where(largest < 0, -1, 1).astype(a.dtype)
    return left * sign.swapaxes(-1, -2), values, right * sign


def _solve_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    a, b = None if inputs[0] is None else square(inputs[0]), unify(inputs[1], outputs[0])
    if a is None or b is None:
        return [a, b], [b]
    require(
        len(b) in (len(a), len(a) - 1),
        f"{format_shape(b)} is neither one right side nor several for each matrix of {format_shape(a)}",
    )
    unify(a[:-1], b[: len(a) - 1])
    return [a, b], [b]


def _transpose_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    a = inputs[0]
    if a is None:
        return inputs, outputs
    require(len(a) >= 2, f"{format_shape(a)} has {format_count(len(a), 'axis')}, expected matrices")
    return inputs, [unify((*a[:-2], a[-1], a[-2]), outputs[0])]


def _values_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    values, vectors = outputs[0], outputs[1] if len(outputs) > 1 else None
    a = inputs[0] if inputs[0] is not None else vectors
    if a is None and values:
        a = (*values, values[-1])
    if a is None:
        return inputs, outputs
    a = square(a)
    return [a], [unify(x, y) for x, y in zip((a[:-1], a), outputs, strict=False)]


def _values_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Eigenvalues of integers are float64."""
    dtype = inputs[0]
    if dtype is not None and not dtype.startswith("float"):
        dtype = "float64"
    return inputs, [dtype] * len(outputs)


def _svd_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    a = inputs[0]
    if a is None:
        return inputs, outputs
    wanted = "expected matrices with at most as many rows as columns"
    require(len(a) >= 2, wanted)
    rows, columns = a[-2:]
    require(not exceeds(rows, columns), wanted)
    results = ((*a[:-2], a[-2], a[-2]), a[:-1], a)
    return inputs, [unify(x, y) for x, y in zip(results, outputs, strict=True)]


def _tensorinv_shape(attrs: Attrs, a: Dims) -> Shape:
    ind = attrs["ind"]
    if count_elements(a[:ind]) != count_elements(a[ind:]) and is_known(a):
        raise KernelError(f"{format_shape(a)} is not square when split before axis {ind}")
    return (*a[ind:], *a[:ind])


def _solution_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """The solution is float32 if both sides are, else float64.

    Raises:
        KernelError: a side is float16; LAPACK lacks that.
    """
    require("float16" not in inputs, "LAPACK does not solve equations in float16")
    known = [dtype for dtype in inputs if dtype is not None]
    if not known:
        return list(inputs), [None]
    solution = "float32" if set(known) == {"float32"} else "float64"
    return [dtype or known[0] for dtype in inputs], [solution]


def _tensorsolve_shape(attrs: Attrs, a: Dims, b: Dims) -> Shape:
    last = [normalize_axis(axis, len(a)) for axis in attrs["a_axes"] or ()]
    require(len(set(last)) == len(last), f"a_axes is {attrs['a_axes']}, which names an axis twice")
    order = (*without_axes(a, last), *(a[axis] for axis in last))
    left, right = order[: len(b)], order[len(b) :]
    rows, columns = count_elements(left), count_elements(right)
    if contradict(rows, columns):
        raise KernelError(
            f"{format_shape(a)} has {rows} equations for {columns} unknowns, expected the same number"
        )
    # With as many axes as the right side, all of one element, numpy considers all axes unknowns.
    return right or left


KERNELS = with_limits(
    Limits(dtypes=LAPACK, rank=2, elements=True, finite=True),
    Kernel("_np_dot", _forward(lambda attrs, a, b: np.dot(a, b)), _contraction_shapes, same_dtypes),
    Kernel(
        "_npi_matmul",
        _forward(lambda attrs, a, b: np.matmul(a, b)),
        output_rule(_matmul_shape),
        same_dtypes,
    ),
    Kernel(
        "_npi_tensordot",
        _forward(
            lambda attrs, a, b: np.tensordot(a, b, (attrs["a_axes_summed"], attrs["b_axes_summed"]))
        ),
        _contraction_shapes,
        same_dtypes,
    ),
    Kernel(
        "_npi_tensordot_int_axes", _forward(_tensordot_by_count), _contraction_shapes, same_dtypes
    ),
    Kernel("_npi_einsum", _forward(_einsum), _einsum_shapes, same_dtypes),
    Kernel("_npi_cholesky", _forward(_cholesky), infer_matrix_shapes, same_dtypes),
    Kernel("_npi_solve", _forward(_solve, _solution_types), _solve_shapes, _solution_types),
    Kernel("_npi_pinv", _forward(_pinv), _transpose_shapes, same_dtypes),
    Kernel("_npi_pinv_scalar_rcond", _forward(_pinv), _transpose_shapes, same_dtypes),
    Kernel("_npi_tensorinv", _forward(_tensorinv), output_rule(_tensorinv_shape), same_dtypes),
    Kernel(
        "_npi_tensorsolve",
        _forward(_tensorsolve, _solution_types),
        output_rule(_tensorsolve_shape),
        _solution_types,
    ),
    Kernel("_npi_eigh", eigh, _values_shapes, _values_types),
    Kernel("_npi_eigvalsh", _forward(_eigvalsh, _values_types), _values_shapes, _values_types),
    Kernel("_npi_eig", eig, _values_shapes, _values_types),
    Kernel("_npi_eigvals", _forward(_eigvals, _values_types), _values_shapes, _values_types),
    Kernel("_npi_svd", svd, _svd_shapes, same_dtypes),
)
