//! The head of SSD and SSDlite.

use torsh_nn::{Conv2d, Module, ModuleList, Parameter};
use torsh_tensor::{Result, Tensor, TorshError};

use super::dense::join;
use super::heads::{forward_is_with, init_convs, xavier_uniform};

/// A convolution for each feature map.
///
/// ```
/// use torsh_nn::{Identity, ModuleList};
/// use torsh_tensor::tensor;
/// use torsh_vision::models::detection::SSDScoringHead;
/// // Three numbers for each of two elements, from a layer that gives back the map.
/// let head = SSDScoringHead::new(ModuleList::new().add(Identity::new()), 3);
/// let map = tensor![[[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]]];
/// assert_eq!(head.forward_with(&[map])?, tensor![[[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct SSDScoringHead {
    /// The layers on each feature map.
    pub module_list: ModuleList,
    #[module(skip)]
    pub(super) num_columns: usize,
}

impl SSDScoringHead {
    /// Makes a head of the layers on each feature map, which give so many numbers for each box.
    ///
    /// ```
    /// use torsh_nn::{Conv2d, ModuleExt, ModuleList};
    /// use torsh_vision::models::detection::SSDScoringHead;
    /// // Four boxes for each element of a map of 8 channels, and three numbers for each box.
    /// let layers = ModuleList::new().add(Conv2d::new(8, 4 * 3, 3, 1, 1)?);
    /// let head = SSDScoringHead::new(layers, 3);
    /// assert_eq!(head.get_parameter("module_list.0.weight")?.dims(), [12, 8, 3, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new(module_list: ModuleList, num_columns: usize) -> SSDScoringHead {
        SSDScoringHead {
            module_list,
            num_columns,
        }
    }

    /// Computes the numbers `[n, boxes, columns]` of all feature maps.
    ///
    /// ```
    /// use torsh_nn::{Identity, ModuleList};
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::detection::SSDScoringHead;
    /// // Of two maps of two elements and of one.
    /// let head = SSDScoringHead::new(ModuleList::new().add(Identity::new()).add(Identity::new()), 1);
    /// let maps = [tensor![[[[1.0, 2.0]]]], tensor![[[[3.0]]]]];
    /// assert_eq!(head.forward_with(&maps)?, tensor![[[1.0], [2.0], [3.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
    /// Makes convolutions of 3 by 3 on feature maps of these numbers of channels, with so many boxes for each element.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_vision::models::detection::SSDHead;
    /// // On a map of 8 channels with 4 boxes, scores of 5 classes and 4 offsets.
    /// let head = SSDHead::new(&[8], &[4], 5)?;
    /// assert_eq!(head.num_parameters(), (8 * 20 * 9 + 20) + (8 * 16 * 9 + 16));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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

    /// Computes the logits `[n, boxes, classes]` and offsets `[n, boxes, 4]` of feature maps.
    ///
    /// ```
    /// use torsh_tensor::zeros;
    /// use torsh_vision::models::detection::SSDHead;
    /// // The biases are 0 at first.
    /// let (logits, offsets) = SSDHead::new(&[8], &[4], 5)?.forward_with(&[zeros(&[1, 8, 2, 2])])?;
    /// assert_eq!((logits, offsets), (zeros(&[1, 4 * 4, 5]), zeros(&[1, 4 * 4, 4])));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
