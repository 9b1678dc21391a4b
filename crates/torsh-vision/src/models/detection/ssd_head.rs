//! The head of SSD and SSDlite.

use torsh_nn::{Conv2d, Module, ModuleList, Parameter};
use torsh_tensor::{Result, Tensor, TorshError};

use super::dense::join;
use super::heads::{forward_is_with, init_convs, xavier_uniform};

/// A convolution for each feature map.
#[derive(Module)]
pub struct SSDScoringHead {
    /// The layers on each feature map.
    pub module_list: ModuleList,
    #[module(skip)]
    pub(super) num_columns: usize,
}

impl SSDScoringHead {
    /// A head of the layers on each feature map, which give so many numbers for each box.
    pub fn new(module_list: ModuleList, num_columns: usize) -> SSDScoringHead {
        SSDScoringHead {
            module_list,
            num_columns,
        }
    }

    /// The numbers `[n, boxes, columns]` of all feature maps.
    ///
    /// # Errors
    /// Feature maps of another number of channels.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, features: &[Tensor]) -> Result<Tensor> {
        let maps = self.module_list.iter().zip(features);
        join(maps.map(|(layers, x)| layers.forward(x)), self.num_columns)
    }
}

forward_is_with!(SSDScoringHead, "forward_with(&features)");

/// Classes and offsets of each box.
///
/// ```
/// use torsh_tensor::zeros;
/// use torsh_vision::models::detection::SSDHead;
///
/// let head = SSDHead::new(&[8, 4], &[4, 6], 5)?;
/// let (logits, offsets) = head.forward_with(&[zeros(&[1, 8, 4, 4]), zeros(&[1, 4, 2, 2])])?;
/// assert_eq!((logits.dims(), offsets.dims()), (&[1, 88, 5][..], &[1, 88, 4][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct SSDHead {
    /// Logits of the classes.
    pub classification_head: SSDScoringHead,
    /// Offsets.
    pub regression_head: SSDScoringHead,
}

impl SSDHead {
    /// Convolutions of 3 by 3 on feature maps of these numbers of channels, with so many boxes for each element.
    ///
    /// # Errors
    /// Sizes of 0.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        in_channels: &[usize],
        num_anchors: &[usize],
        num_classes: usize,
    ) -> Result<SSDHead> {
        let sizes = in_channels.iter().copied().zip(num_anchors.iter().copied());
        let layer = |c, n| Conv2d::new(c, n, 3, 1, 1);
        SSDHead::of(sizes, num_classes, layer, xavier_uniform)
    }

    /// Heads of feature maps with so many channels and boxes for each element. `layer` makes what a head has on a map of
    /// its channels and of how many numbers it gives, and `draw` the weights of its convolutions.
    pub(super) fn of<M: Module>(
        sizes: impl Iterator<Item = (usize, usize)> + Clone,
        num_classes: usize,
        layer: impl Fn(usize, usize) -> Result<M>,
        draw: impl Fn(&Parameter) -> Result<()>,
    ) -> Result<SSDHead> {
        let scoring = |columns: usize| {
            let layers: Result<Vec<M>> =
                sizes.clone().map(|(c, n)| layer(c, n * columns)).collect();
            let head = SSDScoringHead::new(layers?.into(), columns);
            init_convs(&head, &draw)?;
            Ok::<_, TorshError>(head)
        };
        Ok(SSDHead {
            classification_head: scoring(num_classes)?,
            regression_head: scoring(4)?,
        })
    }

    /// Logits `[n, boxes, classes]` and offsets `[n, boxes, 4]` of feature maps.
    ///
    /// # Errors
    /// Feature maps of another number of channels.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, features: &[Tensor]) -> Result<(Tensor, Tensor)> {
        let offsets = self.regression_head.forward_with(features)?;
        Ok((self.classification_head.forward_with(features)?, offsets))
    }
}

forward_is_with!(SSDHead, "forward_with(&features)");
