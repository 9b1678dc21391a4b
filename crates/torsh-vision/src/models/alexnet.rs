//! AlexNet.

use torsh_nn::{
    AdaptiveAvgPool2d, Conv2d, Dropout, Hooks, Linear, MaxPool2d, Module, ReLU, Sequential,
    Training,
};
use torsh_tensor::Result;

use super::builder::model_builder;
use super::common::VisionModel;
use super::constructors;

/// AlexNet in the form with one stream (Krizhevsky, "One weird trick for parallelizing convolutional neural networks",
/// <https://arxiv.org/abs/1404.5997>).
///
/// Takes `[N, 3, H, W]` of at least 63 x 63 and returns `[N, num_classes]`.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::Device;
/// use torsh_vision::models::AlexNet;
/// let model = AlexNet::builder().num_classes(10).device(Device::Meta).build()?;
/// assert_eq!(model.num_parameters(), 57_044_810);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct AlexNet {
    /// The convolutions.
    pub features: Sequential,
    avgpool: AdaptiveAvgPool2d,
    /// The linear layers.
    pub classifier: Sequential,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds an [`AlexNet`].
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::Device;
    /// use torsh_vision::models::AlexNet;
    /// let model = AlexNet::builder().dropout(0.1).device(Device::Meta).build()?;
    /// let first = model.classifier.get(0).map(|layer| layer.repr());
    /// assert_eq!(first.as_deref(), Some("Dropout(p=0.1, inplace=False)"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    AlexNetBuilder of AlexNet, Classification 61_100_840 parameters, head ["classifier.6."];
    options {
        /// The probability of dropout. The default is 0.5.
        dropout: f64 = 0.5;
    }
}

impl AlexNet {
    fn construct(config: &AlexNetBuilder) -> Result<AlexNet> {
        let pool = || MaxPool2d::builder(3).stride(2).build();
        let features = Sequential::new()
            .add(Conv2d::new(3, 64, 11, 4, 2)?)
            .add(ReLU::new())
            .add(pool()?)
            .add(Conv2d::new(64, 192, 5, 1, 2)?)
            .add(ReLU::new())
            .add(pool()?)
            .add(Conv2d::new(192, 384, 3, 1, 1)?)
            .add(ReLU::new())
            .add(Conv2d::new(384, 256, 3, 1, 1)?)
            .add(ReLU::new())
            .add(Conv2d::new(256, 256, 3, 1, 1)?)
            .add(ReLU::new())
            .add(pool()?);
        let classifier = Sequential::new()
            .add(Dropout::new(config.dropout)?)
            .add(Linear::builder(256 * 6 * 6, 4096).build()?)
            .add(ReLU::new())
            .add(Dropout::new(config.dropout)?)
            .add(Linear::builder(4096, 4096).build()?)
            .add(ReLU::new())
            .add(Linear::builder(4096, config.common.classes()).build()?);
        Ok(AlexNet {
            features,
            avgpool: AdaptiveAvgPool2d::new(6)?,
            classifier,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(AlexNet, self, x, {
    let x = self.avgpool.forward(&self.features.forward(x)?)?;
    self.classifier.forward(&x.flatten(1)?)
});

impl VisionModel for AlexNet {}

constructors! {
    Classification, AlexNet;
    /// AlexNet: 61.1 million parameters, images of 224 x 224 (<https://arxiv.org/abs/1404.5997>).
    alexnet, 61_100_840 parameters => AlexNet::builder();
}
