//! RegNet.

use std::f64::consts::SQRT_2;

use torsh_nn::{
    AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Hooks, Linear, Module, Sequential, Training, init,
};
use torsh_tensor::{Result, TorshError};

use super::blocks::{
    ActivationLayer, Conv2dNormActivation, NormLayer, SqueezeExcitation, make_divisible, sequence,
};
use super::builder::model_builder;
use super::common::{VisionModel, each_module, normal_linear};
use super::constructors;

/// Convolutions of 1 x 1, 3 x 3 in groups and 1 x 1, beside a shortcut.
#[derive(Module)]
struct ResBottleneckBlock {
    proj: Option<Conv2dNormActivation>,
    f: BottleneckTransform,
    activation: Box<dyn Module>,
    training: Training,
    hooks: Hooks,
}

struct BottleneckTransform {
    layers: Sequential,
}

sequence!(BottleneckTransform forwards);

struct AnyStage {
    layers: Sequential,
}

sequence!(AnyStage forwards);

impl ResBottleneckBlock {
    fn new(
        inputs: usize,
        outputs: usize,
        stride: i64,
        group_width: usize,
        c: &RegNetBuilder,
    ) -> Result<ResBottleneckBlock> {
        let conv = |inputs, outputs, kernel: i64, stride: i64, groups, activation| {
            Conv2dNormActivation::builder(inputs, outputs)
                .kernel_size(kernel)
                .stride(stride)
                .groups(groups)
                .norm_layer(c.norm_layer.clone())
                .activation_layer(activation)
                .build()
        };
        let active = || Some(c.activation.clone());
        let proj = match inputs != outputs || stride != 1 {
            true => Some(conv(inputs, outputs, 1, stride, 1, None)?),
            false => None,
        };
        let middle = (outputs as f64 * c.bottleneck_multiplier).round_ties_even() as usize;
        let groups = (middle / group_width).max(1);
        let mut layers = Sequential::new();
        layers.push_named("a", conv(inputs, middle, 1, 1, 1, active())?)?;
        layers.push_named("b", conv(middle, middle, 3, stride, groups, active())?)?;
        if let Some(ratio) = c.se_ratio {
            let squeezed = (ratio * inputs as f64).round_ties_even() as usize;
            let se = SqueezeExcitation::builder(middle, squeezed).activation(c.activation.clone());
            layers.push_named("se", se.build()?)?;
        }
        layers.push_named("c", conv(middle, outputs, 1, 1, 1, None)?)?;
        Ok(ResBottleneckBlock {
            proj,
            f: BottleneckTransform { layers },
            activation: c.activation.make()?,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }
}

forward!(ResBottleneckBlock, self, x, {
    let y = match &self.proj {
        Some(proj) => proj.forward(x)?.add(self.f.forward(x)?)?,
        None => x.add(self.f.forward(x)?)?,
    };
    self.activation.forward(&y)
});

/// A network from a space of networks that was designed as a whole (Radosavovic et al., "Designing Network Design Spaces",
/// <https://arxiv.org/abs/2003.13678>).
///
/// Takes `[N, 3, H, W]` of any size and returns `[N, num_classes]`.
///
/// ```
/// use torsh_nn::{Module, ModuleExt};
/// use torsh_tensor::rand;
/// use torsh_vision::models::RegNet;
/// let model = RegNet::builder().depth(4).num_classes(10).build()?;
/// model.eval();
/// assert_eq!(model.forward(&rand(&[1, 3, 32, 32]))?.dims(), [1, 10]);
/// assert_eq!(model.num_parameters(), 116_586);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct RegNet {
    /// The first convolution.
    pub stem: Conv2dNormActivation,
    /// The stages.
    pub trunk_output: Sequential,
    avgpool: AdaptiveAvgPool2d,
    /// The head.
    pub fc: Linear,
    training: Training,
    hooks: Hooks,
}

model_builder! {
    /// Builds a [`RegNet`] from the paper's parameters. The default is those of RegNetX-400MF.
    ///
    /// ```
    /// use torsh_vision::models::RegNet;
    /// // Where widths do not grow, all blocks are of one stage.
    /// let model = RegNet::builder().depth(3).w_0(24).w_a(0.0).group_width(8).num_classes(10).build()?;
    /// assert_eq!((model.trunk_output.len(), model.fc.in_features()), (1, 24));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RegNetBuilder of RegNet, Classification 5_495_976 parameters, head ["fc."];
    options {
        /// The number of blocks. The default is 22.
        depth: usize = 22;
        /// The width of the first block, a multiple of 8. The default is 24.
        w_0: usize = 24;
        /// How much wider each block is than the one before. The default is 24.48.
        w_a: f64 = 24.48;
        /// The factor between the widths of stages, above 1. The default is 2.54.
        w_m: f64 = 2.54;
        /// Channels of a group of the convolutions of 3 x 3. The default is 16.
        group_width: usize = 16;
        /// How many times as many channels blocks have in the middle. The default is 1.
        bottleneck_multiplier: f64 = 1.0;
        /// The channels in the middle of a squeeze and excitation, as a share of a block's input. The default is none.
        se_ratio: Option<f64> = None;
        /// Channels of the first convolution. The default is 32.
        stem_width: usize = 32;
    }
    parts {
        /// The norm. The default is a batch norm.
        norm_layer: NormLayer = NormLayer::batch_norm_2d();
        /// The activation. The default is a ReLU.
        activation: ActivationLayer = ActivationLayer::relu();
    }
}

impl RegNetBuilder {
    fn x(
        mut self,
        name: &'static str,
        depth: usize,
        w_0: usize,
        w_a: f64,
        w_m: f64,
        group: usize,
    ) -> Self {
        self.name = name;
        self.depth(depth)
            .w_0(w_0)
            .w_a(w_a)
            .w_m(w_m)
            .group_width(group)
    }

    fn y(
        self,
        name: &'static str,
        depth: usize,
        w_0: usize,
        w_a: f64,
        w_m: f64,
        group: usize,
    ) -> Self {
        self.x(name, depth, w_0, w_a, w_m, group)
            .se_ratio(Some(0.25))
    }

    /// Width, number of blocks and group width of each stage.
    fn stages(&self) -> Result<Vec<(usize, usize, usize)>> {
        let fits = self.w_a >= 0.0
            && self.w_0 > 0
            && self.w_0.is_multiple_of(8)
            && self.w_m > 1.0
            && self.bottleneck_multiplier > 0.0
            && self.depth > 0
            && self.group_width > 0;
        if !fits {
            return Err(TorshError::invalid(
                self.name,
                "a RegNet has depth > 0, group_width > 0, bottleneck_multiplier > 0, w_a >= 0, w_m > 1, and w_0 is a \
                 positive multiple of 8",
            ));
        }
        let mut stages: Vec<(usize, usize, usize)> = Vec::new();
        for i in 0..self.depth {
            // In float32, as PyTorch computes it.
            let (w_0, w_m) = (self.w_0 as f32, self.w_m);
            let width = i as f32 * self.w_a as f32 + w_0;
            let capacity = ((width / w_0).ln() / w_m.ln() as f32).round_ties_even();
            let width = w_0 * (w_m as f32).powf(capacity);
            let width = (width / 8.0).round_ties_even() as usize * 8;
            match stages.last_mut() {
                Some((last, count, _)) if *last == width => *count += 1,
                _ => stages.push((width, 1, 0)),
            }
        }
        let multiplier = self.bottleneck_multiplier;
        for (width, _, group) in &mut stages {
            let middle = (*width as f64 * multiplier) as usize;
            *group = self.group_width.min(middle).max(1);
            *width = (make_divisible(middle as f64, *group, None) as f64 / multiplier) as usize;
        }
        Ok(stages)
    }
}

impl RegNet {
    fn construct(config: &RegNetBuilder) -> Result<RegNet> {
        let stem = Conv2dNormActivation::builder(3, config.stem_width)
            .stride(2)
            .norm_layer(config.norm_layer.clone())
            .activation_layer(config.activation.clone())
            .build()?;
        let mut inputs = config.stem_width;
        let mut trunk_output = Sequential::new();
        for (i, (width, count, group)) in config.stages()?.into_iter().enumerate() {
            let mut layers = Sequential::new();
            for block in 0..count {
                let stride = if block == 0 { 2 } else { 1 };
                layers.push_named(
                    format!("block{}-{block}", i + 1),
                    ResBottleneckBlock::new(inputs, width, stride, group, config)?,
                )?;
                inputs = width;
            }
            trunk_output.push_named(format!("block{}", i + 1), AnyStage { layers })?;
        }
        let model = RegNet {
            stem,
            trunk_output,
            avgpool: AdaptiveAvgPool2d::new(1)?,
            fc: Linear::builder(inputs, config.common.classes()).build()?,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        each_module(&model, |module| {
            if let Some(conv) = module.downcast_ref::<Conv2d>() {
                let [outputs, _, height, width] = *conv.weight.dims() else {
                    return Ok(());
                };
                // Whatever the groups.
                let std = SQRT_2 / ((height * width * outputs) as f64).sqrt();
                init::normal_(&conv.weight, 0.0, std)?;
            } else if let Some(norm) = module.downcast_ref::<BatchNorm2d>() {
                norm.reset_parameters()?;
            } else if let Some(linear) = module.downcast_ref::<Linear>() {
                normal_linear(linear, 0.01)?;
            }
            Ok(())
        })?;
        Ok(model)
    }
}

forward!(RegNet, self, x, {
    let x = self.trunk_output.forward(&self.stem.forward(x)?)?;
    self.fc.forward(&self.avgpool.forward(&x)?.flatten(1)?)
});

impl VisionModel for RegNet {}

constructors! {
    Classification, RegNet;
    /// RegNetY-400MF: 4.3 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_y_400mf, 4_344_144 parameters => RegNet::builder().y("regnet_y_400mf", 16, 48, 27.89, 2.09, 8);
    /// RegNetY-800MF: 6.4 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_y_800mf, 6_432_512 parameters => RegNet::builder().y("regnet_y_800mf", 14, 56, 38.84, 2.4, 16);
    /// RegNetY-1.6GF: 11.2 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_y_1_6gf, 11_202_430 parameters => RegNet::builder().y("regnet_y_1_6gf", 27, 48, 20.71, 2.65, 24);
    /// RegNetY-3.2GF: 19.4 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_y_3_2gf, 19_436_338 parameters => RegNet::builder().y("regnet_y_3_2gf", 21, 80, 42.63, 2.66, 24);
    /// RegNetY-8GF: 39.4 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_y_8gf, 39_381_472 parameters => RegNet::builder().y("regnet_y_8gf", 17, 192, 76.82, 2.19, 56);
    /// RegNetY-16GF: 83.6 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_y_16gf, 83_590_140 parameters => RegNet::builder().y("regnet_y_16gf", 18, 200, 106.23, 2.48, 112);
    /// RegNetY-32GF: 145.0 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_y_32gf, 145_046_770 parameters => RegNet::builder().y("regnet_y_32gf", 20, 232, 115.89, 2.53, 232);
    /// RegNetY-128GF: 644.8 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_y_128gf, 644_812_894 parameters => RegNet::builder().y("regnet_y_128gf", 27, 456, 160.83, 2.52, 264);
    /// RegNetX-400MF: 5.5 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_x_400mf, 5_495_976 parameters => RegNet::builder().x("regnet_x_400mf", 22, 24, 24.48, 2.54, 16);
    /// RegNetX-800MF: 7.3 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_x_800mf, 7_259_656 parameters => RegNet::builder().x("regnet_x_800mf", 16, 56, 35.73, 2.28, 16);
    /// RegNetX-1.6GF: 9.2 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_x_1_6gf, 9_190_136 parameters => RegNet::builder().x("regnet_x_1_6gf", 18, 80, 34.01, 2.25, 24);
    /// RegNetX-3.2GF: 15.3 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_x_3_2gf, 15_296_552 parameters => RegNet::builder().x("regnet_x_3_2gf", 25, 88, 26.31, 2.25, 48);
    /// RegNetX-8GF: 39.6 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_x_8gf, 39_572_648 parameters => RegNet::builder().x("regnet_x_8gf", 23, 80, 49.56, 2.88, 120);
    /// RegNetX-16GF: 54.3 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_x_16gf, 54_278_536 parameters => RegNet::builder().x("regnet_x_16gf", 22, 216, 55.59, 2.1, 128);
    /// RegNetX-32GF: 107.8 million parameters, images of 224 x 224 (<https://arxiv.org/abs/2003.13678>).
    regnet_x_32gf, 107_811_560 parameters => RegNet::builder().x("regnet_x_32gf", 23, 320, 69.86, 2.0, 168);
}
