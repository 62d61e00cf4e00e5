"""Images: decoding, augmentation, resizing."""

from __future__ import annotations

from graphshare.operators.table import define

OPERATORS = (
    *define(
        "_cvcopyMakeBorder",
        "src",
        "top:int=!; bot:int=!; left:int=!; right:int=!; type:int=0; value:double=0; values:doubles=[]",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define("_cvimdecode", "buf", "flag:int[0:]=1; to_rgb:bool=True", registers_inputs=False, couples_batch="never"),
    *define("_cvimread", "", "filename:string=!; flag:int[0:]=1; to_rgb:bool=True", couples_batch="never"),
    *define("_cvimresize", "src", "w:int[1:]=!; h:int[1:]=!; interp:int=1", registers_inputs=False, couples_batch="never"),
    *define("_image_adjust_lighting", "data", "alpha:floats=!", registers_inputs=False, couples_batch="never"),
    *define(
        "_image_crop",
        "data",
        "x:int=!; y:int=!; width:int=!; height:int=!",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define(
        "_image_flip_left_right _image_flip_top_bottom _image_random_flip_left_right _image_random_flip_top_bottom",
        "data",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define("_image_normalize", "data", "mean:floats=[0,0,0,0]; std:floats=[1,1,1,1]", couples_batch="never"),
    *define(
        "_image_random_brightness _image_random_contrast _image_random_hue _image_random_saturation",
        "data",
        "min_factor:float[0:]=!; max_factor:float[0:]=!",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define(
        "_image_random_color_jitter",
        "data",
        "brightness:float=!; contrast:float=!; saturation:float=!; hue:float=!",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define("_image_random_lighting", "data", "alpha_std:float=0.0500000007", registers_inputs=False, couples_batch="never"),
    *define(
        "_image_resize",
        "data",
        "size:tuple32=[]; keep_ratio:bool=False; interp:int=1",
        registers_inputs=False,
        couples_batch="never",
    ),
    *define("_image_to_tensor", "data", couples_batch="never"),
    *define("_imdecode", "mean", registers_inputs=False, couples_batch="never"),
)
