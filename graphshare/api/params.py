"""``convert`` and ``diff_params``: parameter files, which the stems of checkpoints name too."""

from __future__ import annotations

from graphshare.api.models import Names, as_names
from graphshare.arguments import Natural, NotNegative
from graphshare.checkpoint.load import StrPath, find_both_params, find_params
from graphshare.formats.params import convert as conversion
from graphshare.formats.params import diff as difference


def convert(
    source: StrPath,
    target: StrPath,
    *,
    epoch: Natural | None = None,
    to: str | None = None,
    densify: bool = False,
    np_shape: bool = False,
    select: Names = (),
    tie: bool = False,
    dtype: str | None = None,
    keep: Names | None = None,
    in_place: bool = False,
) -> conversion.Conversion:
    """Convert the parameter file ``source`` (format by content) to ``target`` (format ``to``, or by its suffix).

    ``source`` is a file, ``-`` for stdin, or the stem of a checkpoint, with its ``epoch`` if it has several. In a directory the
    target gets the source's name. With ``in_place`` it may be the source itself.

    ``.params`` from another format is what ``mx.nd.save`` writes: V3 records when ``np_shape``, else V2; a scalar needs V3.
    Within ``.params`` records are copied as they are, sparse ones too, unless ``densify`` makes those dense; the other formats
    have no sparse form, so that they need ``densify``. ``select`` limits the conversion to what these patterns match. With
    ``tie`` equal arrays become one where the format has ties, under the first of their names. With ``dtype`` (``float16``,
    ``float32`` or ``float64``) floating-point arrays get that dtype; integers, booleans and what the patterns ``keep`` match
    keep theirs. Without ``keep`` float16 leaves out the statistics, gamma and beta of BatchNorm, which MXNet takes in float32
    only; an empty ``keep`` keeps nothing. Streams one array at a time.

    Raises:
        InputError: the source cannot be read.
        UsageError: a stem has several parameter files.
        RefusedError: records that the target cannot hold; all are named.
        OutputError: the target cannot be written; it is then as it was.
    """
    return conversion.convert_params(
        find_params(source, epoch=epoch),
        target,
        to=to,
        densify=densify,
        np_shape=np_shape,
        select=as_names(select),
        tie=tie,
        dtype=dtype,
        keep=None if keep is None else as_names(keep),
        in_place=in_place,
    )


def diff_params(
    left: StrPath,
    right: StrPath,
    *,
    epoch: Natural | None = None,
    prefix: str = "",
    select: Names = (),
    atol: NotNegative = 0.0,
    rtol: NotNegative = 0.0,
    across_dtypes: bool = False,
) -> difference.ParameterDiff:
    """Return what differs between two parameter files, or those of two stems; ``prefix`` is what names in ``right`` have more.

    ``epoch`` chooses the file of a stem that has several, on both sides. With ``across_dtypes`` floating-point arrays of unlike
    dtypes are compared by value, and are equal up to the rounding of the less precise one: ``across`` of the result counts
    them. Without it unlike dtypes are a difference.

    Raises:
        InputError: a file cannot be read.
        UsageError: a stem has several parameter files, or neither is a stem and ``epoch`` is given.
        RefusedError: a pattern of ``select`` matches nothing.
    """
    one, other = find_both_params(left, right, epoch=epoch)
    return difference.diff_params(
        one, other, prefix=prefix, select=as_names(select), atol=atol, rtol=rtol, across_dtypes=across_dtypes
    )
