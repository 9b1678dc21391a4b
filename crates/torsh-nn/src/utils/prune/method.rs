//! The ways to choose which values of a parameter are pruned.

use torsh_core::default_dtype;
use torsh_tensor::{
    Device, NormOptions, NormOrd, Result, SumOptions, Tensor, TopkOptions, TorshError, no_grad,
};

/// How much is pruned: a fraction of what is left, or a number of values, channels or blocks. A float converts to a
/// fraction, an integer to a count, as in PyTorch.
///
/// ```
/// use torsh_nn::utils::prune::Amount;
/// assert_eq!((Amount::from(0.25), Amount::from(3)), (Amount::Fraction(0.25), Amount::Count(3)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// From 0 to 1. The number is rounded as Python's `round` does: a half goes to the even number.
    Fraction(f64),
    /// 0 or more, and at most as many as are left.
    Count(i64),
}

macro_rules! amounts {
    ($($number:ty)* => $variant:ident) => {$(
        impl From<$number> for Amount {
            fn from(amount: $number) -> Amount {
                Amount::$variant(amount.into())
            }
        }
    )*};
}
amounts! { f32 f64 => Fraction }
amounts! { i8 i16 i32 i64 u8 u16 u32 => Count }

impl From<usize> for Amount {
    fn from(amount: usize) -> Amount {
        // More than any tensor has is refused as such.
        Amount::Count(i64::try_from(amount).unwrap_or(i64::MAX))
    }
}

impl Amount {
    /// How many of `size` values, channels or blocks are pruned.
    fn of(self, size: usize, what: &str) -> Result<usize> {
        match self {
            Amount::Fraction(f) if (0.0..=1.0).contains(&f) => {
                Ok((f * size as f64).round_ties_even() as usize)
            }
            Amount::Count(n) if n >= 0 => match usize::try_from(n) {
                Ok(n) if n <= size => Ok(n),
                _ => Err(TorshError::invalid(
                    "",
                    format!("amount={n} is more than the {size} {what} that are left to prune"),
                )
                .with_hint("give a smaller count, or a fraction")),
            },
            Amount::Fraction(f) => Err(refused(f)),
            Amount::Count(n) => Err(refused(n)),
        }
    }
}

fn refused(amount: impl std::fmt::Display) -> TorshError {
    TorshError::invalid(
        "",
        format!("amount={amount} is neither a fraction from 0 to 1 nor a count of 0 or more"),
    )
}

/// A way to choose what is pruned: PyTorch's classes of `torch.nn.utils.prune`, and [`BlockL1`](PruningMethod::BlockL1).
/// The functions of [`prune`](crate::utils::prune) use them; a program calls their methods to prune a tensor that is no
/// parameter, or for good.
///
/// ```
/// use torsh_nn::utils::prune::PruningMethod;
/// use torsh_nn::{Linear, Module};
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(4, 1).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[1.0, -4.0, 2.0, 3.0]]))?;
/// // Pruned once, without a mask that stays: later training may fill the zeros again.
/// let pruned = PruningMethod::L1Unstructured(0.5.into()).prune(&layer.weight)?;
/// no_grad(|| layer.weight.copy_(&pruned))?;
/// assert_eq!(*layer.weight, tensor![[0.0, -4.0, 0.0, 3.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PruningMethod {
    /// Prunes nothing.
    Identity,
    /// Values at random.
    RandomUnstructured(Amount),
    /// The values of the least magnitude.
    L1Unstructured(Amount),
    /// Channels at random.
    RandomStructured {
        /// How many channels.
        amount: Amount,
        /// The dimension that counts the channels; negative ones count from the end.
        dim: i64,
    },
    /// The channels of the least norm.
    LnStructured {
        /// How many channels.
        amount: Amount,
        /// The order of the norm.
        n: NormOrd,
        /// The dimension that counts the channels; negative ones count from the end.
        dim: i64,
    },
    /// The blocks of a matrix whose magnitudes have the least sum.
    BlockL1 {
        /// How many blocks.
        amount: Amount,
        /// The rows and columns of a block.
        block: [usize; 2],
    },
    /// What a mask says.
    CustomFromMask(Tensor),
}

impl PruningMethod {
    /// The mask of 0 and 1 for a tensor of importance scores: the least important of what `default_mask` leaves becomes 0,
    /// as PyTorch's `PruningContainer.compute_mask` does. Without `default_mask` nothing is pruned yet. The mask has the
    /// shape of the scores, and the dtype of `default_mask` or else of the scores.
    ///
    /// ```
    /// use torsh_nn::utils::prune::PruningMethod;
    /// use torsh_tensor::tensor;
    /// let scores = tensor![[1.0, -4.0], [2.0, 3.0]];
    /// let method = PruningMethod::L1Unstructured(1.into());
    /// let mask = method.compute_mask(&scores, None)?;
    /// assert_eq!(mask, tensor![[0.0, 1.0], [1.0, 1.0]]);
    /// assert_eq!(method.compute_mask(&scores, &mask)?, tensor![[0.0, 1.0], [0.0, 1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// An amount that is out of range or more than is left, a dimension out of range, a tensor with fewer than two
    /// dimensions for a structured method, a matrix that is not made of whole blocks, a mask of another shape, a tensor on
    /// the meta device.
    #[torsh_tensor::names_caller]
    pub fn compute_mask<'m>(
        &self,
        scores: &Tensor,
        default_mask: impl Into<Option<&'m Tensor>>,
    ) -> Result<Tensor> {
        let mask = match default_mask.into() {
            Some(mask) => mask.detach(),
            None => scores.detach().ones_like()?,
        };
        self.mask(scores, &mask)
            .map_err(|e| e.renamed("compute_mask"))
    }

    /// The tensor with 0 where [`compute_mask`](PruningMethod::compute_mask) has 0. Gradients flow to the rest.
    ///
    /// ```
    /// use torsh_nn::utils::prune::PruningMethod;
    /// use torsh_tensor::tensor;
    /// let t = tensor![[1.0, -4.0], [2.0, 3.0]];
    /// let method = PruningMethod::LnStructured { amount: 1.into(), n: 2.into(), dim: 0 };
    /// assert_eq!(method.prune(&t)?, tensor![[1.0, -4.0], [0.0, 0.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`compute_mask`](PruningMethod::compute_mask).
    #[torsh_tensor::names_caller]
    pub fn prune(&self, t: &Tensor) -> Result<Tensor> {
        let mask = t.detach().ones_like()?;
        t.mul(&self.mask(t, &mask).map_err(|e| e.renamed("prune"))?)
    }

    /// Whether single values are chosen, so that it makes sense for several parameters as one vector.
    pub(super) fn is_unstructured(&self) -> bool {
        matches!(
            self,
            PruningMethod::Identity
                | PruningMethod::RandomUnstructured(_)
                | PruningMethod::L1Unstructured(_)
        )
    }

    /// What of `old` is left after this. Errors have no operation.
    pub(in crate::utils) fn mask(&self, scores: &Tensor, old: &Tensor) -> Result<Tensor> {
        if scores.shape() != old.shape() {
            return Err(TorshError::shape(
                "",
                format!(
                    "the importance scores {} and the mask {} differ in shape",
                    scores.describe(),
                    old.describe()
                ),
            ));
        }
        if [scores, old].iter().any(|t| t.device() == Device::Meta) {
            return Err(TorshError::invalid(
                "",
                format!("there are no values to choose from: {}", scores.describe()),
            )
            .with_hint("give the parameter its values before it is pruned"));
        }
        let scores = scores.detach();
        no_grad(|| match self {
            PruningMethod::Identity => old.copy(),
            PruningMethod::RandomUnstructured(amount) => {
                unstructured(*amount, &scores, old, true, Tensor::rand_like)
            }
            PruningMethod::L1Unstructured(amount) => {
                unstructured(*amount, &scores, old, false, Tensor::abs)
            }
            PruningMethod::RandomStructured { amount, dim } => {
                structured(*amount, &scores, old, *dim, |_, [count, pruned], _| {
                    random_channels(count, pruned, scores.device())
                })
            }
            PruningMethod::LnStructured { amount, n, dim } => structured(
                *amount,
                &scores,
                old,
                *dim,
                |part, [count, pruned], rest| largest_channels(part, *n, rest, count - pruned),
            ),
            PruningMethod::BlockL1 { amount, block } => blocks(*amount, &scores, old, *block),
            PruningMethod::CustomFromMask(mask) => custom(mask, old),
        })
    }
}

/// `old` without the values of the largest or least keys.
fn unstructured(
    amount: Amount,
    scores: &Tensor,
    old: &Tensor,
    largest: bool,
    keys: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let left = old.eq(1)?;
    let values = scores.masked_select(&left)?;
    let count = values.numel();
    let pruned = amount.of(count, "values")?;
    if pruned == 0 {
        return old.copy();
    }
    let options = TopkOptions::new().largest(largest);
    let (_, at) = keys(&values)?.topk_with(pruned, options)?;
    let kept = Tensor::ones([count], old.dtype(), old.device())?.index_fill(0, &at, 0)?;
    old.masked_scatter(&left, &kept)
}

/// `old` without some of the channels that are not pruned as a whole. `choose` gets the scores of these channels, how many
/// there are and how many go, and the dimensions of a channel. It returns 1 or true for each channel that stays.
fn structured(
    amount: Amount,
    scores: &Tensor,
    old: &Tensor,
    dim: i64,
    choose: impl FnOnce(&Tensor, [usize; 2], Vec<i64>) -> Result<Tensor>,
) -> Result<Tensor> {
    let n = scores.ndim() as i64;
    if n <= 1 {
        return Err(TorshError::shape(
            "",
            format!(
                "structured pruning needs a tensor of at least 2 dimensions, got {}",
                scores.describe()
            ),
        )
        .with_hint("use l1_unstructured or random_unstructured"));
    }
    if !(-n..n).contains(&dim) {
        return Err(TorshError::index(
            "",
            format!("dimension {dim} is out of range for {}", scores.describe()),
        ));
    }
    let dim = dim.rem_euclid(n);
    let rest: Vec<i64> = (0..n).filter(|&d| d != dim).collect();
    let left = indices(&old.sum_with(SumOptions::new().dim(rest.clone()))?)?;
    let count = left.numel();
    let pruned = amount.of(count, "channels")?;
    if pruned == 0 {
        return old.copy();
    }
    let part = scores.index_select(dim, &left)?;
    let kept = choose(&part, [count, pruned], rest)?.to_dtype(old.dtype())?;
    let mut shape = vec![1; n as usize];
    shape[dim as usize] = count;
    let part = old
        .index_select(dim, &left)?
        .mul(&kept.reshape(&shape[..])?)?;
    old.index_copy(dim, &left, &part)
}

/// Where the elements of a vector are not 0.
fn indices(sums: &Tensor) -> Result<Tensor> {
    sums.ne(0)?.nonzero()?.flatten(0)
}

/// PyTorch draws for channels on the CPU in the default dtype, whatever the parameter is.
fn random_channels(count: usize, pruned: usize, device: Device) -> Result<Tensor> {
    let draws = Tensor::rand([count], default_dtype(), Device::Cpu)?;
    let (threshold, _) = draws.kthvalue(pruned as i64, 0, false)?;
    draws.gt(&threshold)?.to_device(device)
}

fn largest_channels(part: &Tensor, n: NormOrd, rest: Vec<i64>, kept: usize) -> Result<Tensor> {
    let norms = part.norm_with(NormOptions::new().p(n).dim(rest))?;
    let (_, at) = norms.topk(kept)?;
    norms.zeros_like()?.index_fill(0, &at, 1)
}

/// `old` without the least of the blocks that it does not have pruned as a whole.
fn blocks(
    amount: Amount,
    scores: &Tensor,
    old: &Tensor,
    [rows, columns]: [usize; 2],
) -> Result<Tensor> {
    let &[height, width] = scores.dims() else {
        return Err(
            TorshError::shape("", format!("expected a matrix, got {}", scores.describe()))
                .with_hint("blocks are rows and columns of a matrix, as of the weight of a Linear"),
        );
    };
    if rows == 0 || columns == 0 || height % rows != 0 || width % columns != 0 {
        return Err(TorshError::shape(
            "",
            format!(
                "{} is not made of whole blocks of {rows} x {columns}",
                scores.describe()
            ),
        )
        .with_hint("give a number of rows and one of columns that divide the matrix's"));
    }
    let (down, across) = (height / rows, width / columns);
    let sums = |t: &Tensor| {
        t.reshape([down, rows, across, columns])?
            .sum_with(SumOptions::new().dim([1, 3]))?
            .reshape([down * across])
    };
    let left = indices(&sums(old)?)?;
    let pruned = amount.of(left.numel(), "blocks")?;
    if pruned == 0 {
        return old.copy();
    }
    let norms = sums(&scores.abs()?)?.index_select(0, &left)?;
    let (_, at) = norms.topk_with(pruned, TopkOptions::new().largest(false))?;
    let kept = Tensor::ones([down * across], old.dtype(), old.device())?
        .index_fill(0, &left.index_select(0, &at)?, 0)?
        .reshape([down, 1, across, 1])?;
    old.reshape([down, rows, across, columns])?
        .mul(&kept)?
        .reshape([height, width])
}

fn custom(mask: &Tensor, old: &Tensor) -> Result<Tensor> {
    if mask.shape() != old.shape() {
        return Err(TorshError::shape(
            "",
            format!(
                "the mask has shape {:?}, the parameter {:?}",
                mask.dims(),
                old.dims()
            ),
        ));
    }
    let mask = mask
        .detach()
        .to_dtype(old.dtype())?
        .to_device(old.device())?;
    old.mul(&mask)
}
