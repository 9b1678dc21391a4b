//! The optional arguments of functions.

pub use torsh_tensor::{
    AddOptions, AddcmulOptions, AddmmOptions, AttentionWindow, AvgPool1dOptions, AvgPool2dOptions,
    AvgPool3dOptions, AvgPoolOptions, BatchNormOptions, BceOptions, BceWithLogitsOptions,
    BincountOptions, BlockMask, Conv1dOptions, Conv2dOptions, Conv3dOptions, ConvOptions,
    ConvTranspose1dOptions, ConvTranspose2dOptions, ConvTranspose3dOptions, ConvTransposeOptions,
    CosineEmbeddingLossOptions, CosineSimilarityOptions, CrossEntropyOptions, CtcLossOptions,
    CumsumOptions, DiagonalOptions, DivOptions, EluOptions, EmbeddingBagMode, EmbeddingBagOptions,
    EmbeddingOptions, FlattenOptions, FractionalMaxPoolOptions, GatherOptions,
    GaussianNllLossOptions, GeluOptions, GroupNormOptions, GumbelSoftmaxOptions, HardtanhOptions,
    HingeEmbeddingLossOptions, HuberLossOptions, InProjection, InstanceNormOptions,
    InterpolateMode, InterpolateOptions, IntoFactors, IntoLengths, IscloseOptions, IsinOptions,
    KlDivOptions, LayerNormOptions, LeakyReluOptions, LocalResponseNormOptions, LogitOptions,
    LossOptions, LpPoolOptions, MarginRankingLossOptions, MaxPool1dOptions, MaxPool2dOptions,
    MaxPool3dOptions, MaxPoolOptions, MaxUnpoolOptions, MultiHeadAttentionForwardOptions,
    MultiLabelSoftMarginLossOptions, MultiMarginLossOptions, MultinomialOptions, NanToNumOptions,
    NllLossOptions, NormalizeOptions, OutputSize, PadOptions, Padding, PairwiseDistanceOptions,
    PoissonNllLossOptions, Reduction, RmsNormOptions, RnnOptions, RreluOptions,
    ScaledDotProductAttentionOptions, ScatterReduceOptions, SearchsortedOptions, ShrinkOptions,
    Sizes, SmoothL1LossOptions, SoftmaxOptions, SoftplusOptions, SortOptions,
    SparseAttentionOptions, TopkOptions, TripletMarginLossOptions, UnfoldOptions, Unique,
    UniqueConsecutiveOptions, UniqueOptions,
};

/// One size for both directions of an image, or one for each.
///
/// Built from an integer, a pair or an array: `3`, `(3, 5)`, `[3, 5]`.
///
/// ```
/// # use torsh_functional as F;
/// assert_eq!(F::Size2::from(3), F::Size2::from((3, 3)));
/// ```
pub type Size2 = Sizes<2>;
