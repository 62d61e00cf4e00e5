"""Buffers that are used again."""

from __future__ import annotations

import numpy as np

from graphshare.execute.interpreter import Pool

LARGE = (64, 1024)


def address(array: np.ndarray) -> int:  # type: ignore[type-arg]
    return int(array.__array_interface__["data"][0])


def test_a_buffer_is_used_again_once_no_array_of_it_is_left() -> None:
    pool = Pool()
    first = pool.empty(LARGE, np.float32)
    view, where = first[3:].T, address(first)
    del first
    other = pool.empty(LARGE, np.float32)
    assert address(other) != where  # a view still stands for it
    del view
    assert address(pool.empty((1024, 32), np.float64)) == where


def test_an_array_has_the_shape_and_type_asked_for_and_may_be_written_to() -> None:
    pool = Pool()
    for shape, dtype in (
        ((3, 5), "float16"),
        (LARGE, "float16"),
        ((0, 4), "int8"),
        ((), "int64"),
        ((100_000,), "bool"),
    ):
        array = pool.empty(shape, dtype)
        array[...] = 1
        assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
        assert array.flags.c_contiguous


def test_a_small_array_does_not_hold_a_large_buffer() -> None:
    pool = Pool()
    where = address(pool.empty((1 << 20,), np.float32))
    assert address(pool.empty((1 << 14,), np.float32)) != where


def test_idle_buffers_are_given_back() -> None:
    pool = Pool()
    sizes = [20 << 20, 30 << 20, 45 << 20, 70 << 20]
    for size in sizes:
        pool.empty((size,), np.uint8)
    held = sum(buffer.nbytes for buffer in pool._buffers)
    assert held < sum(sizes)
    assert held <= 2 * sizes[-1]
