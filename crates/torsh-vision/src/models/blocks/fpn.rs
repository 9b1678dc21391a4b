//! Feature pyramids.

use torsh_nn::{Conv2d, Hooks, InterpolateMode, Module, ModuleExt, init};
use torsh_tensor::{InterpolateOptions, MaxPoolOptions, Result, Tensor, TorshError};

use super::{Conv2dNormActivation, NormLayer};

/// Feature maps by name, the largest first.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::models::blocks::{ExtraFPNBlock, FeatureMaps, LastLevelMaxPool};
/// let maps: FeatureMaps = vec![("0".into(), tensor![[[[1.0, 2.0], [3.0, 4.0]]]])];
/// assert_eq!(LastLevelMaxPool::new().extend(maps, &[])?[1].1, tensor![[[[1.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type FeatureMaps = Vec<(String, Tensor)>;

/// Further feature maps behind those of a [`FeaturePyramidNetwork`].
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::blocks::{ExtraFPNBlock, LastLevelMaxPool, LastLevelP6P7};
/// let blocks: [Box<dyn ExtraFPNBlock>; 2] = [Box::new(LastLevelMaxPool::new()), Box::new(LastLevelP6P7::new(8, 8)?)];
/// for (block, names) in blocks.iter().zip([&["0", "pool"][..], &["0", "p6", "p7"]]) {
///     let maps = block.extend(vec![("0".into(), zeros(&[1, 8, 4, 4]))], &[])?;
///     assert_eq!(maps.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), names);
/// }
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait ExtraFPNBlock: Module {
    /// The pyramid's maps with more behind them, given also the maps that the pyramid was made of.
    ///
    /// # Errors
    /// Of the layers.
    fn extend(&self, results: FeatureMaps, inputs: &[(String, Tensor)]) -> Result<FeatureMaps>;
}

/// A map more: every second element of the last one, under the name `pool`.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::blocks::{ExtraFPNBlock, LastLevelMaxPool};
///
/// let maps = LastLevelMaxPool::new().extend(vec![("0".into(), zeros(&[1, 8, 5, 4]))], &[])?;
/// assert_eq!((maps[1].0.as_str(), maps[1].1.dims()), ("pool", &[1, 8, 3, 2][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module, Default)]
pub struct LastLevelMaxPool {
    hooks: Hooks,
}

impl LastLevelMaxPool {
    /// Makes the block, which has no parameters.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::blocks::{ExtraFPNBlock, LastLevelMaxPool};
    /// let map = tensor![[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]]];
    /// let maps = LastLevelMaxPool::new().extend(vec![("0".into(), map)], &[])?;
    /// assert_eq!(maps[1].1, tensor![[[[1.0, 3.0], [7.0, 9.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> LastLevelMaxPool {
        LastLevelMaxPool::default()
    }
}

impl Module for LastLevelMaxPool {
    /// Every second element.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            x.max_pool2d_with(1, MaxPoolOptions::new().stride(2))
        })
    }
}

fn last<'a>(op: &'static str, maps: &'a [(String, Tensor)]) -> Result<&'a Tensor> {
    match maps.last() {
        Some((_, map)) => Ok(map),
        None => Err(TorshError::invalid(op, "no feature maps were given")),
    }
}

impl ExtraFPNBlock for LastLevelMaxPool {
    #[torsh_tensor::names_caller]
    fn extend(
        &self,
        mut results: FeatureMaps,
        _inputs: &[(String, Tensor)],
    ) -> Result<FeatureMaps> {
        let pool = self.forward(last("LastLevelMaxPool", &results)?)?;
        results.push(("pool".into(), pool));
        Ok(results)
    }
}

/// Two maps more, each half as large as the one before, by convolutions: `p6` and `p7` of RetinaNet and FCOS.
///
/// The first is made of the pyramid's last map where `in_channels` is `out_channels`, otherwise of the last map that the
/// pyramid was made of.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::blocks::{ExtraFPNBlock, LastLevelP6P7};
///
/// let maps = LastLevelP6P7::new(8, 8)?.extend(vec![("0".into(), zeros(&[1, 8, 6, 4]))], &[])?;
/// assert_eq!((maps[2].0.as_str(), maps[2].1.dims()), ("p7", &[1, 8, 2, 1][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct LastLevelP6P7 {
    /// Makes the first map.
    pub p6: Conv2d,
    /// Makes the second map of the first.
    pub p7: Conv2d,
    #[module(skip)]
    of_pyramid: bool,
}

/// Kaiming's uniform weights as for a linear activation, and biases of 0.
fn reset(conv: &Conv2d) -> Result<()> {
    init::kaiming_uniform_with(&conv.weight, init::KaimingOptions::default().a(1.0))?;
    if let Some(bias) = &conv.bias {
        init::zeros_(bias)?;
    }
    Ok(())
}

impl LastLevelP6P7 {
    /// Makes the block of maps of `in_channels` channels.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::LastLevelP6P7;
    /// let block = LastLevelP6P7::new(16, 8)?;
    /// assert_eq!(block.num_parameters(), (16 * 8 * 9 + 8) + (8 * 8 * 9 + 8));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(in_channels: usize, out_channels: usize) -> Result<LastLevelP6P7> {
        let block = LastLevelP6P7 {
            p6: Conv2d::new(in_channels, out_channels, 3, 2, 1)?,
            p7: Conv2d::new(out_channels, out_channels, 3, 2, 1)?,
            of_pyramid: in_channels == out_channels,
        };
        reset(&block.p6)?;
        reset(&block.p7)?;
        Ok(block)
    }
}

impl Module for LastLevelP6P7 {
    /// The second of the maps.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.p7.forward(&self.p6.forward(x)?.relu()?)
    }
}

impl ExtraFPNBlock for LastLevelP6P7 {
    #[torsh_tensor::names_caller]
    fn extend(&self, mut results: FeatureMaps, inputs: &[(String, Tensor)]) -> Result<FeatureMaps> {
        let of = if self.of_pyramid {
            &results[..]
        } else {
            inputs
        };
        let p6 = self.p6.forward(last("LastLevelP6P7", of)?)?;
        let p7 = self.p7.forward(&p6.relu()?)?;
        results.extend([("p6".into(), p6), ("p7".into(), p7)]);
        Ok(results)
    }
}

/// A feature pyramid (Lin et al. 2016, <https://arxiv.org/abs/1612.03144>): feature maps of one number of channels, into
/// which what the smaller ones hold was added.
///
/// Takes the maps of a backbone, the largest first, each half as large as the one before.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::blocks::FeaturePyramidNetwork;
///
/// let fpn = FeaturePyramidNetwork::new(&[10, 20], 5)?;
/// let maps = fpn.forward_with(&[
///     ("low".into(), zeros(&[1, 10, 8, 8])),
///     ("high".into(), zeros(&[1, 20, 4, 4])),
/// ])?;
/// assert_eq!((maps[0].0.as_str(), maps[0].1.dims()), ("low", &[1, 5, 8, 8][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct FeaturePyramidNetwork {
    /// Convolutions of 1 by 1, of each map.
    pub inner_blocks: Vec<Conv2dNormActivation>,
    /// Convolutions of 3 by 3, which make the results.
    pub layer_blocks: Vec<Conv2dNormActivation>,
    /// Makes further maps.
    pub extra_blocks: Option<Box<dyn ExtraFPNBlock>>,
}

impl FeaturePyramidNetwork {
    /// Makes a pyramid of maps of these numbers of channels, to maps of `out_channels`.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::blocks::FeaturePyramidNetwork;
    /// let fpn = FeaturePyramidNetwork::new(&[10, 20], 5)?;
    /// // Of each map a convolution of 1 by 1 and one of 3 by 3, with biases.
    /// assert_eq!(fpn.num_parameters(), (10 * 5 + 5) + (20 * 5 + 5) + 2 * (5 * 5 * 9 + 5));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[track_caller]
    pub fn new(in_channels_list: &[usize], out_channels: usize) -> Result<FeaturePyramidNetwork> {
        FeaturePyramidNetwork::new_with(in_channels_list, out_channels, None, None)
    }

    /// Makes a pyramid with further maps, and norms.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::models::blocks::{FeaturePyramidNetwork, LastLevelMaxPool, NormLayer};
    /// let norm = NormLayer::batch_norm_2d();
    /// let fpn = FeaturePyramidNetwork::new_with(&[10], 5, Some(Box::new(LastLevelMaxPool::new())), Some(norm))?;
    /// let maps = fpn.forward_with(&[("0".into(), zeros(&[1, 10, 8, 8]))])?;
    /// let names: Vec<&str> = maps.iter().map(|(name, _)| name.as_str()).collect();
    /// assert_eq!(names, ["0", "pool"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new_with(
        in_channels_list: &[usize],
        out_channels: usize,
        extra_blocks: Option<Box<dyn ExtraFPNBlock>>,
        norm_layer: Option<NormLayer>,
    ) -> Result<FeaturePyramidNetwork> {
        let block = |channels: usize, window: i64| {
            let block = Conv2dNormActivation::builder(channels, out_channels).kernel_size(window);
            block
                .norm_layer(norm_layer.clone())
                .activation_layer(None)
                .build()
        };
        let (mut inner_blocks, mut layer_blocks) = (Vec::new(), Vec::new());
        for &channels in in_channels_list {
            if channels == 0 {
                return Err(TorshError::invalid(
                    "FeaturePyramidNetwork",
                    "a map has no channels",
                ));
            }
            inner_blocks.push(block(channels, 1)?);
            layer_blocks.push(block(out_channels, 3)?);
        }
        for block in inner_blocks.iter().chain(&layer_blocks) {
            let weight = block.get_parameter("0.weight")?;
            init::kaiming_uniform_with(&weight, init::KaimingOptions::default().a(1.0))?;
            if let Ok(bias) = block.get_parameter("0.bias") {
                init::zeros_(&bias)?;
            }
        }
        Ok(FeaturePyramidNetwork {
            inner_blocks,
            layer_blocks,
            extra_blocks,
        })
    }

    /// Computes the pyramid's maps, under the names of those it is made of, and the further ones.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::models::blocks::FeaturePyramidNetwork;
    /// let fpn = FeaturePyramidNetwork::new(&[10, 20], 5)?;
    /// let one = [("low".to_string(), zeros(&[1, 10, 8, 8]))];
    /// let error = fpn.forward_with(&one).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("the pyramid is of 2 maps, got 1")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As many maps as the pyramid was made for is what it takes.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, maps: &[(String, Tensor)]) -> Result<FeatureMaps> {
        if maps.len() != self.inner_blocks.len() || maps.is_empty() {
            return Err(TorshError::invalid(
                "FeaturePyramidNetwork",
                format!(
                    "the pyramid is of {} maps, got {}",
                    self.inner_blocks.len(),
                    maps.len()
                ),
            ));
        }
        let mut results = Vec::with_capacity(maps.len());
        let mut above: Option<Tensor> = None;
        for (i, (name, map)) in maps.iter().enumerate().rev() {
            let mut inner = self.inner_blocks[i].forward(map)?;
            if let Some(above) = &above {
                let size = [inner.size(-2)?, inner.size(-1)?];
                let options = InterpolateOptions::new()
                    .size(size)
                    .mode(InterpolateMode::Nearest);
                inner = inner.add(above.interpolate_with(options)?)?;
            }
            results.push((name.clone(), self.layer_blocks[i].forward(&inner)?));
            above = Some(inner);
        }
        results.reverse();
        match &self.extra_blocks {
            Some(extra) => extra.extend(results, maps),
            None => Ok(results),
        }
    }
}

impl Module for FeaturePyramidNetwork {
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(TorshError::invalid(
            "FeaturePyramidNetwork",
            "a pyramid is of several feature maps",
        )
        .with_hint("call forward_with(&maps)"))
    }
}
