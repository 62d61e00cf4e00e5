"""Operators of MXNet's oldest kind, registered as an ``OperatorProperty`` and not as functions (and one that behaves so).

While an older file loads, attributes are parsed a second time; these operators let keys that are not theirs pass then.
"""

from __future__ import annotations

OPERATOR_PROPERTIES = frozenset(
    """
    BatchNorm_v1 BilinearSampler Convolution_v1 Correlation Crop GridGenerator IdentityAttachKLSparseReg InstanceNorm
    L2Normalization LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput MakeLoss Pad Pooling_v1 ROIPooling
    SVMOutput SequenceLast SequenceMask SequenceReverse SliceChannel SpatialTransformer SwapAxis
    _contrib_DeformableConvolution _contrib_DeformablePSROIPooling _contrib_ModulatedDeformableConvolution
    _contrib_MultiBoxDetection _contrib_MultiBoxPrior _contrib_MultiBoxTarget _contrib_MultiProposal _contrib_PSROIPooling
    _contrib_Proposal _contrib_SyncBatchNorm _contrib_count_sketch _contrib_fft _contrib_ifft
    _contrib_quantized_rnn
    """.split()
)
