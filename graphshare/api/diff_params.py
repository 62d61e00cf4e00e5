"""``diff_params``: the differences of two parameter files, named by path or by the stem of a
checkpoint.
"""

from __future__ import annotations

from graphshare.arguments import Natural, NotNegative
from graphshare.checkpoint.load import Names, StrPath, as_names, find_both_params, name_by_stem
from graphshare.formats.params.diff import ParameterDiff, diff_parameters, pair_records
from graphshare.formats.params.format import read_index
from graphshare.formats.params.records import select_keys
from graphshare.text.names import split_key


def diff_params(
    left: StrPath,
    right: StrPath,
    *,
    epoch: Natural | None = None,
    extra_prefix: str = "",
    select: Names = (),
    leave_out: Names = (),
    atol: NotNegative = 0.0,
    rtol: NotNegative = 0.0,
    across_dtypes: bool = False,
) -> ParameterDiff:
    """Compare two parameter files, given by path or stem, and return their differences.

    Names of the second file begin with ``extra_prefix``, names of the first do not. ``epoch`` chooses the file of a
    stem that has several, on both sides. ``select`` limits the comparison to names that these patterns match in one of
    the files, ``leave_out`` to names that its patterns match in neither. With ``across_dtypes`` floating-point arrays
    of different dtypes are compared by value, and count as equal up to the rounding of the less precise dtype;
    ``across`` of the result counts them. Otherwise different dtypes are a difference.

    Raises:
        InputError: a file cannot be read.
        UsageError: a stem has several parameter files, or neither is a stem and ``epoch`` is given.
        RefusedError: a pattern matches nothing in either file.
    """
    paths = zip(find_both_params(left, right, epoch=epoch), (left, right), strict=True)
    one, other = (name_by_stem(read_index(path), source) for path, source in paths)
    keys, keys_there = (
        [record.key for record in file.records if record.key is not None] for file in (one, other)
    )

    def match(patterns: Names, option: str) -> set[str]:
        there = [*keys, *keys_there]
        return {
            k
            for file in (one, other)
            for k in select_keys(file, as_names(patterns), option=option, others=there)
        }

    chosen = match(select, "`select`") if select else None
    left_out = match(leave_out, "`leave_out`") if leave_out else ()
    names = {split_key(key)[1]: (extra_prefix + split_key(key)[1],) for key in keys}
    pairs = pair_records(one, other, names, chosen=chosen, left_out=left_out)
    return diff_parameters(one, other, pairs, atol=atol, rtol=rtol, across_dtypes=across_dtypes)
