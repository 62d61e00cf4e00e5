"""Signatures of the operators of family ``image``."""

from __future__ import annotations

from graphshare.ops.signature import define

NO_KERNEL = "it reads, decodes or resizes pictures with OpenCV"
NO_KERNEL_2 = "it draws random numbers in MXNet's own order, so its values cannot be compared"

OPERATORS = (
    *define(
        "_cvcopyMakeBorder",
        "src",
        "top:int=!; bot:int=!; left:int=!; right:int=!; type:int=0; value:double=0; values:doubles=[]",
        registers_inputs=False,
        couples_batch="never",
        no_kernel=NO_KERNEL,
    ),
    *define(
        "_cvimdecode(_npi_cvimdecode)",
        "buf",
        "flag:int[0:]=1; to_rgb:bool=True",
        registers_inputs=False,
        couples_batch="never",
        no_kernel=NO_KERNEL,
    ),
    *define(
        "_cvimread(_npi_cvimread)",
        "",
        "filename:string=!; flag:int[0:]=1; to_rgb:bool=True",
        couples_batch="never",
        no_kernel=NO_KERNEL,
    ),
    *define(
        "_cvimresize(_npi_cvimresize)",
        "src",
        "w:int[1:]=!; h:int[1:]=!; interp:int=1",
        registers_inputs=False,
        couples_batch="never",
        no_kernel=NO_KERNEL,
    ),
    *define(
        "_image_adjust_lighting(_npx__image_adjust_lighting)",
        "data",
        "alpha:floats=!",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define(
        "_image_crop(_npx__image_crop)",
        "data",
        "x:int=!; y:int=!; width:int=!; height:int=!",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define(
        "_image_flip_left_right(_npx__image_flip_left_right) _image_flip_top_bottom(_npx__image_flip_top_bottom)",
        "data",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define(
        (
            "_image_random_flip_left_right(_npx__image_random_flip_left_right) "
            "_image_random_flip_top_bottom(_npx__image_random_flip_top_bottom)"
        ),
        "data",
        registers_inputs=False,
        couples_batch="never",
        no_kernel=NO_KERNEL_2,
    ),
    *define(
        "_image_normalize(_npx__image_normalize)", "data", "mean:floats=[0,0,0,0]; std:floats=[1,1,1,1]", couples_batch="never"
    ),
    *define(
        (
            "_image_random_brightness(_npx__image_random_brightness) "
            "_image_random_contrast(_npx__image_random_contrast) _image_random_hue(_npx__image_random_hue) "
            "_image_random_saturation(_npx__image_random_saturation)"
        ),
        "data",
        "min_factor:float[0:]=!; max_factor:float[0:]=!",
        registers_inputs=False,
        couples_batch="never",
        no_kernel=NO_KERNEL_2,
    ),
    *define(
        "_image_random_color_jitter(_npx__image_random_color_jitter)",
        "data",
        "brightness:float=!; contrast:float=!; saturation:float=!; hue:float=!",
        registers_inputs=False,
        couples_batch="never",
        no_kernel=NO_KERNEL_2,
    ),
    *define(
        "_image_random_lighting(_npx__image_random_lighting)",
        "data",
        "alpha_std:float=0.0500000007",
        registers_inputs=False,
        couples_batch="never",
        no_kernel=NO_KERNEL_2,
    ),
    *define(
        "_image_resize(_npx__image_resize)",
        "data",
        "size:tuple32=[]; keep_ratio:bool=False; interp:int=1",
        registers_inputs=False,
        couples_batch="never",
        no_kernel=NO_KERNEL,
    ),
    *define("_image_to_tensor(_npx__image_to_tensor)", "data", couples_batch="never"),
    *define("_imdecode", "mean", registers_inputs=False, couples_batch="never", no_kernel=NO_KERNEL),
)
