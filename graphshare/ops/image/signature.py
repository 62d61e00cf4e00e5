"""Signatures of ``image``."""

from __future__ import annotations

from functools import partial

from graphshare.ops.signature import define

_image = partial(define, registers_inputs=False, couples_batch="never")
_opencv = partial(_image, no_kernel="it reads, decodes or resizes pictures with OpenCV")
_random = partial(
    _image,
    no_kernel="it draws random numbers in MXNet's own order, so its values cannot be compared",
)

OPERATORS = (
    *_opencv(
        "_cvcopyMakeBorder",
        "src",
        "top:int=!; bot:int=!; left:int=!; right:int=!; type:int=0; value:double=0; values:doubles=[]",
    ),
    *_opencv("_cvimdecode(_npi_cvimdecode)", "buf", "flag:int[0:]=1; to_rgb:bool=True"),
    *_opencv(
        "_cvimread(_npi_cvimread)",
        "",
        "filename:string=!; flag:int[0:]=1; to_rgb:bool=True",
        registers_inputs=True,
    ),
    *_opencv("_cvimresize(_npi_cvimresize)", "src", "w:int[1:]=!; h:int[1:]=!; interp:int=1"),
    *_image("_image_adjust_lighting(_npx__image_adjust_lighting)", "data", "alpha:floats=!"),
    *_image("_image_crop(_npx__image_crop)", "data", "x:int=!; y:int=!; width:int=!; height:int=!"),
    *_image(
        "_image_flip_left_right(_npx__image_flip_left_right) _image_flip_top_bottom(_npx__image_flip_top_bottom)",
        "data",
    ),
    *_random(
        "_image_random_flip_left_right(_npx__image_random_flip_left_right) "
        "_image_random_flip_top_bottom(_npx__image_random_flip_top_bottom)",
        "data",
    ),
    *define(
        "_image_normalize(_npx__image_normalize)",
        "data",
        "mean:floats=[0,0,0,0]; std:floats=[1,1,1,1]",
        couples_batch="never",
    ),
    *_random(
        "_image_random_brightness(_npx__image_random_brightness) "
        "_image_random_contrast(_npx__image_random_contrast) _image_random_hue(_npx__image_random_hue) "
        "_image_random_saturation(_npx__image_random_saturation)",
        "data",
        "min_factor:float[0:]=!; max_factor:float[0:]=!",
    ),
    *_random(
        "_image_random_color_jitter(_npx__image_random_color_jitter)",
        "data",
        "brightness:float=!; contrast:float=!; saturation:float=!; hue:float=!",
    ),
    *_random(
        "_image_random_lighting(_npx__image_random_lighting)",
        "data",
        "alpha_std:float=0.0500000007",
    ),
    *_opencv(
        "_image_resize(_npx__image_resize)",
        "data",
        "size:tuple32=[]; keep_ratio:bool=False; interp:int=1",
    ),
    *define("_image_to_tensor(_npx__image_to_tensor)", "data", couples_batch="never"),
    *_opencv("_imdecode", "mean"),
)
