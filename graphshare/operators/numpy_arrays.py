"""The rest of the numpy interface (``_np_*``, ``_npi_*``, ``_npx_*``)."""

from __future__ import annotations

from graphshare.operators.creation import ARANGE
from graphshare.operators.rules import asked_for, averaged, counted, split, unique
from graphshare.operators.shape import SPLIT
from graphshare.operators.table import define

OPERATORS = (
    *define("_np_all _np_any", "data", "axis:tuple32?=None; keepdims:bool=False"),
    *define(
        "_np_atleast_1d _np_atleast_2d _np_atleast_3d",
        "ary*num_args",
        "num_args:int[1:]=!",
        results=counted("num_args"),
    ),
    *define("_np_copy", "a"),
    *define("_np_cumsum", "a", "axis:int?=None; dtype:{None/float16/float32/float64/int32/int64/int8}=None"),
    *define("_np_diag _np_diagflat _npi_tril", "data", "k:int=0"),
    *define("_np_diagonal _np_trace", "data", "offset:int=0; axis1:int=0; axis2:int=1"),
    *define("_np_dot _npi_share_memory", "a b"),
    *define("_np_max _np_min", "a", "axis:tuple32?=None; keepdims:bool=False; initial:double?=None"),
    *define("_np_moveaxis", "a", "source:shape=!; destination:shape=!"),
    *define(
        "_np_prod _np_sum _npi_mean",
        "a",
        "axis:tuple32?=None; dtype:{None/bool/float16/float32/float64/int32/int64/int8}=None; keepdims:bool=False; "
        "initial:double?=None",
    ),
    *define("_np_reshape", "a", "newshape:shape=!; order:string=C"),
    *define("_np_roll", "data", "shift:shape?=None; axis:shape?=None"),
    *define("_np_squeeze", "a", "axis:tuple32?=None"),
    *define("_np_transpose", "a", "axes:shape=None"),
    *define("_npi_arange", "", ARANGE),
    *define("_npi_argmax _npi_argmin", "data", "axis:int?=None; keepdims:bool=False", registers_inputs=False),
    *define(
        "_npi_average",
        "a weights[weighted]",
        "axis:tuple32?=None; returned:bool=False; weighted:bool=True",
        results=averaged,
    ),
    *define("_npi_bincount", "data weights[has_weights]", "minlength:int=0; has_weights:bool=False"),
    *define(
        "_npi_blackman _npi_hamming _npi_hanning",
        "",
        "M:int64?=None; ctx:string=; dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32",
    ),
    *define("_npi_boolean_mask_assign_scalar", "data mask"),
    *define("_npi_boolean_mask_assign_tensor", "data mask value"),
    *define("_npi_broadcast_to", "array", "shape:shape=[]"),
    *define("_npi_cholesky", "A", "lower:bool=True"),
    *define("_npi_column_stack _npi_vstack", "arg*num_args", "num_args:int[1:]=!"),
    *define("_npi_concatenate", "data*num_args", "num_args:int[1:]=!; axis:int?=0", results="out"),
    *define(
        "_npi_delete",
        "arr obj[step=None&int_ind=None]",
        "start:int?=None; stop:int?=None; step:int?=None; int_ind:int?=None; axis:int?=None",
    ),
    *define("_npi_diag_indices_from", "data"),
    *define("_npi_diff", "a", "n:int=1; axis:int=-1"),
    *define("_npi_dsplit _npi_hsplit", "data", SPLIT, results=split),
    *define("_npi_dstack _npi_hstack", "data*num_args", "num_args:int[1:]=!; dim:int=1", results="out"),
    *define(
        "_npi_ediff1d",
        asked_for("", "to_begin_arr_given", "to_end_arr_given"),
        "to_begin_arr_given:bool=False; to_end_arr_given:bool=False; to_begin_scalar:double?=None; to_end_scalar:double?=None",
    ),
    *define("_npi_eig", "A", results="output0 output1"),
    *define("_npi_eigh", "A", "UPLO:char=L", results="output0 output1"),
    *define("_npi_eigvals", "A"),
    *define("_npi_eigvalsh", "A", "UPLO:char=L"),
    *define("_npi_einsum", "arg*num_args", "num_args:int[1:]=!; subscripts:string=; optimize:int=0"),
    *define(
        "_npi_eye",
        "",
        "N:int64=!; M:int64?=None; k:int64=0; ctx:string=; "
        "dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=float32",
    ),
    *define("_npi_flip", "data", "axis:tuple32=!"),
    *define(
        "_npi_full_like",
        "a",
        "fill_value:double=!; ctx:string=; dtype:{None/bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=None",
    ),
    *define(
        "_npi_identity _npi_ones _npi_zeros",
        "",
        "shape:shape=[]; ctx:string=; dtype:{bfloat16/bool/float16/float32/float64/int32/int64/int8/uint8}=float32",
    ),
    *define(
        "_npi_indices",
        "",
        "dimensions:shape=!; dtype:{bfloat16/float16/float32/float64/int32/int64/int8/uint8}=int32; ctx:string=",
    ),
    *define(
        "_npi_insert_scalar _npi_insert_slice",
        "arr values[val=None]",
        "val:double?=None; start:int?=None; stop:int?=None; step:int?=None; int_ind:int?=None; axis:int?=None",
    ),
    *define(
        "_npi_insert_tensor",
        "arr values[val=None] obj",
        "val:double?=None; start:int?=None; stop:int?=None; step:int?=None; int_ind:int?=None; axis:int?=None",
    ),
    *define("_npi_matmul", "a b", results="out"),
    *define(
        "_npi_norm",
        "data",
        "ord:double=2; axis:shape?=None; keepdims:bool=False; flag:int=-1",
        results="output0 output1 output2 output3",
        visible=1,
        registers_inputs=False,
    ),
    *define(
        "_npi_pad",
        "data",
        "pad_width:shapes=!; mode:{constant/edge/maximum/minimum/reflect/symmetric}=constant; constant_value:double=0; "
        "reflect_type:string=even",
    ),
    *define(
        "_npi_percentile",
        "a q[q_scalar=None]",
        "axis:tuple32?=None; interpolation:{higher/linear/lower/midpoint/nearest}=linear; keepdims:bool=False; "
        "q_scalar:double?=None",
    ),
    *define("_npi_pinv", "A rcond", "hermitian:bool=False"),
    *define("_npi_pinv_scalar_rcond", "A", "rcond:double=1.0000000000000001e-15; hermitian:bool=False"),
    *define("_npi_rot90", "data", "k:int=1; axes:shape?=None"),
    *define("_npi_solve", "A B"),
    *define("_npi_stack", "arg*num_args", "axis:int=0; num_args:int[1:]=!"),
    *define(
        "_npi_std",
        "a",
        "axis:tuple32?=None; dtype:{None/float16/float32/float64/int32/int64/int8}=None; ddof:int=0; keepdims:bool=False",
        results="std mean",
        visible=1,
    ),
    *define("_npi_svd", "A", results="output0 output1 output2"),
    *define("_npi_tensordot", "a b", "a_axes_summed:tuple32=!; b_axes_summed:tuple32=!"),
    *define("_npi_tensordot_int_axes", "a b", "axes:int=!"),
    *define("_npi_tensorinv", "a", "ind:int=2"),
    *define("_npi_tensorsolve", "a b", "a_axes:tuple32=[]"),
    *define(
        "_npi_unique",
        "data",
        "return_index:bool=False; return_inverse:bool=False; return_counts:bool=False; axis:int?=None",
        results=unique,
    ),
    *define(
        "_npi_var",
        "a",
        "axis:tuple32?=None; dtype:{None/float16/float32/float64/int32/int64/int8}=None; ddof:int=0; keepdims:bool=False",
        results="var mean",
        visible=1,
    ),
    *define("_npx_constraint_check", "input", "msg:string=Constraint violated."),
    *define("_npx_nonzero", "x"),
    *define("_npx_reshape", "a", "newshape:shape=!; reverse:bool=False; order:string=C"),
)
