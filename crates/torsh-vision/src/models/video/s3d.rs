//! S3D.

use torsh_nn::{AvgPool3d, Conv3d, Dropout, Hooks, MaxPool3d, Module, Sequential, Training};
use torsh_tensor::{Result, Tensor, TorshError, cat};

use crate::models::blocks::{Conv3dNormActivation, NormLayer, sequence};
use crate::models::builder::model_builder;
use crate::models::checks::check_videos;
use crate::models::common::VisionModel;
use crate::models::constructors;

/// A separable Inception network of videos: every convolution over space is followed by one over time (Xie et al.,
/// "Rethinking Spatiotemporal Feature Learning", <https://arxiv.org/abs/1712.04851>). 8,320,048 parameters.
///
/// Takes videos `[N, 3, T, H, W]` of at least 13 pictures of 209 x 209, trained with 128 of 224 x 224.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::zeros;
/// use torsh_vision::models::video::S3D;
/// let model = S3D::builder().num_classes(10).build()?;
/// model.eval();
/// assert_eq!(model.num_parameters(), 7_920_298);
/// let error = model.forward(&zeros(&[1, 3, 8, 224, 224])).err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.contains("at least 13 pictures")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct S3D {
    features: Sequential,
    avgpool: AvgPool3d,
    classifier: Sequential,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds an [`S3D`].
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::{blocks::NormLayer, video::S3D};
    /// let model = S3D::builder().norm_layer(NormLayer::batch_norm_3d_with(0.5, 0.25)).device(Device::Meta).build()?;
    /// assert!(model.repr().contains("BatchNorm3d(64, eps=0.5, momentum=0.25"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    S3DBuilder of S3D, Video 8_320_048 parameters, head ["classifier.1."];
    options {
        /// With which probability features are dropped while training. The default is 0.2.
        dropout: f64 = 0.2;
    }
    parts {
        /// The norm of the convolutions. The default is a batch norm with eps and momentum 1e-3.
        norm_layer: NormLayer = NormLayer::batch_norm_3d_with(1e-3, 1e-3);
    }
}

constructors! {
    Video, S3D;
    /// S3D: 8.3 million parameters, videos of 128 pictures of 224 x 224 (<https://arxiv.org/abs/1712.04851>).
    s3d, 8_320_048 parameters => S3DBuilder { name: "s3d", ..Default::default() };
}

/// A convolution in space and one in time.
struct TemporalSeparableConv {
    layers: Sequential,
}

sequence!(TemporalSeparableConv forwards);

impl TemporalSeparableConv {
    fn new(from: usize, to: usize, kernel: i64, stride: i64, norm: &NormLayer) -> Result<Self> {
        let half = kernel / 2;
        let space = Conv3dNormActivation::builder(from, to)
            .kernel_size((1, kernel, kernel))
            .stride((1, stride, stride))
            .padding((0, half, half))
            .bias(false)
            .norm_layer(norm.clone())
            .build()?;
        let time = Conv3dNormActivation::builder(to, to)
            .kernel_size((kernel, 1, 1))
            .stride((stride, 1, 1))
            .padding((half, 0, 0))
            .bias(false)
            .norm_layer(norm.clone())
            .build()?;
        Ok(TemporalSeparableConv {
            layers: Sequential::new().add(space).add(time),
        })
    }
}

/// Four branches side by side.
#[derive(Module)]
struct SepInceptionBlock3D {
    branch0: Conv3dNormActivation,
    branch1: Sequential,
    branch2: Sequential,
    branch3: Sequential,
    hooks: Hooks,
}

fn pointwise(from: usize, to: usize, norm: &NormLayer) -> Result<Conv3dNormActivation> {
    Conv3dNormActivation::builder(from, to)
        .kernel_size(1)
        .norm_layer(norm.clone())
        .build()
}

impl SepInceptionBlock3D {
    /// The widths are those of the first branch, inside and behind the second and the third, and of the fourth.
    fn new(from: usize, widths: [usize; 6], norm: &NormLayer) -> Result<Self> {
        let [b0, b1_mid, b1, b2_mid, b2, b3] = widths;
        let separable = |mid, to| -> Result<Sequential> {
            Ok(Sequential::new()
                .add(pointwise(from, mid, norm)?)
                .add(TemporalSeparableConv::new(mid, to, 3, 1, norm)?))
        };
        Ok(SepInceptionBlock3D {
            branch0: pointwise(from, b0, norm)?,
            branch1: separable(b1_mid, b1)?,
            branch2: separable(b2_mid, b2)?,
            branch3: Sequential::new()
                .add(MaxPool3d::builder(3).stride(1).padding(1).build()?)
                .add(pointwise(from, b3, norm)?),
            hooks: Hooks::new(),
        })
    }
}

forward!(SepInceptionBlock3D, self, x, {
    let branches = [
        self.branch0.forward(x)?,
        self.branch1.forward(x)?,
        self.branch2.forward(x)?,
        self.branch3.forward(x)?,
    ];
    cat(&branches, 1)
});

impl S3D {
    fn construct(o: &S3DBuilder) -> Result<S3D> {
        let norm = &o.norm_layer;
        let pool = |kernel: (i64, i64, i64), stride: (i64, i64, i64), padding: (i64, i64, i64)| {
            MaxPool3d::builder(kernel)
                .stride(stride)
                .padding(padding)
                .build()
        };
        let inception = |from, widths| SepInceptionBlock3D::new(from, widths, norm);
        let features = Sequential::new()
            .add(TemporalSeparableConv::new(3, 64, 7, 2, norm)?)
            .add(pool((1, 3, 3), (1, 2, 2), (0, 1, 1))?)
            .add(pointwise(64, 64, norm)?)
            .add(TemporalSeparableConv::new(64, 192, 3, 1, norm)?)
            .add(pool((1, 3, 3), (1, 2, 2), (0, 1, 1))?)
            .add(inception(192, [64, 96, 128, 16, 32, 32])?)
            .add(inception(256, [128, 128, 192, 32, 96, 64])?)
            .add(pool((3, 3, 3), (2, 2, 2), (1, 1, 1))?)
            .add(inception(480, [192, 96, 208, 16, 48, 64])?)
            .add(inception(512, [160, 112, 224, 24, 64, 64])?)
            .add(inception(512, [128, 128, 256, 24, 64, 64])?)
            .add(inception(512, [112, 144, 288, 32, 64, 64])?)
            .add(inception(528, [256, 160, 320, 32, 128, 128])?)
            .add(pool((2, 2, 2), (2, 2, 2), (0, 0, 0))?)
            .add(inception(832, [256, 160, 320, 32, 128, 128])?)
            .add(inception(832, [384, 192, 384, 48, 128, 128])?);
        Ok(S3D {
            features,
            avgpool: AvgPool3d::builder((2, 7, 7)).stride(1).build()?,
            classifier: Sequential::new()
                .add(Dropout::new(o.dropout)?)
                .add(Conv3d::new(
                    1024,
                    o.common.num_classes.unwrap_or(400),
                    1,
                    1,
                    0,
                )?),
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

impl Module for S3D {
    /// Scores `[N, num_classes]` of videos `[N, 3, T, H, W]` of at least 13 pictures of 209 x 209.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            check_videos("S3D", x)?;
            let &[_, _, t, h, w] = x.dims() else {
                return Err(TorshError::shape("S3D", "videos are [N, 3, T, H, W]"));
            };
            if t < 13 || h < 209 || w < 209 {
                return Err(TorshError::shape(
                    "S3D",
                    format!("videos have at least 13 pictures of 209 x 209, got {t} of {h} x {w}"),
                )
                .with_hint("resize the pictures to 224 x 224"));
            }
            let x = self.features.forward(x)?;
            let x = self.avgpool.forward(&x)?;
            self.classifier.forward(&x)?.mean_dim([2, 3, 4], false)
        })
    }
}

impl VisionModel for S3D {}
