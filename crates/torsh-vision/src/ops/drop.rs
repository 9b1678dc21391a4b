//! What drops parts of feature maps while training.

use torsh_tensor::named::Named;
use torsh_tensor::record::OpRecord;
use torsh_tensor::{DType, Result, Tensor, TorshError, Value, options};

use super::within;

pub(super) const RECORDS: &[&OpRecord] = &[&DROP_BLOCK2D, &DROP_BLOCK3D, &STOCHASTIC_DEPTH];

options! {
    /// The keyword arguments of `drop_block2d` and `drop_block3d`.
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_vision::ops::{DropBlockOptions, drop_block2d_with};
    /// let x = ones(&[1, 1, 4, 4]);
    /// drop_block2d_with(&x, 0.5, 3, DropBlockOptions::new().inplace(true))?;
    /// // What stays is scaled, up to eps, to the sum there was; all may be dropped.
    /// let sum = x.sum()?.item::<f32>()?;
    /// assert!(sum == 0.0 || (sum - 16.0).abs() < 1e-3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    DropBlockOptions {
        /// Whether the input is written to. The default is `false`.
        inplace: bool = false;
        /// What is added to the number of elements that stay, by which the others are scaled. The default is 1e-6.
        eps: f64 = 1e-6;
        /// Whether anything is dropped. The default is `true`.
        training: bool = true;
    }
}

macro_rules! records {
    ($($record:ident $name:literal $what:literal $with:ident;)*) => {$(
        static $record: OpRecord = OpRecord::new(
            $name,
            $what,
            "(Tensor input, float p, int block_size, bool inplace=False, float eps=1e-06, bool training=True)",
        )
        .by_name(|b| {
            let size = usize::try_from(b.int(2)).map_err(|_| {
                TorshError::invalid($name, format!("block_size must not be negative, got {}", b.int(2)))
            })?;
            let options = DropBlockOptions { inplace: b.bool(3), eps: b.float(4), training: b.bool(5) };
            $with(b.tensor(0)?, b.float(1), size, options).map(Value::Tensor)
        });
    )*};
}
records! {
    DROP_BLOCK2D "torchvision::drop_block2d" "Images with square blocks of zeros." drop_block2d_with;
    DROP_BLOCK3D "torchvision::drop_block3d" "Volumes with cubic blocks of zeros." drop_block3d_with;
}

#[torsh_tensor::by_name(stochastic_depth)]
static STOCHASTIC_DEPTH: OpRecord = OpRecord::new(
    "torchvision::stochastic_depth",
    "The input, of which all or whole rows are zeroed with a probability.",
    "(Tensor input, float p, str mode, bool training=True)",
);

/// What [`stochastic_depth`] zeroes at once.
///
/// ```
/// use torsh_tensor::{ones, tensor};
/// use torsh_vision::ops::{StochasticDepthMode, stochastic_depth};
/// assert_eq!(StochasticDepthMode::from("batch"), StochasticDepthMode::Batch);
/// // The rows stay or go together.
/// let y = stochastic_depth(&ones(&[3]), 0.5, "batch", true)?;
/// assert!(y == tensor![0.0, 0.0, 0.0] || y == tensor![2.0, 2.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StochasticDepthMode {
    /// The whole batch.
    Batch,
    /// Each row of the batch by itself.
    Row,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    StochasticDepthMode, "mode",
    "batch" => StochasticDepthMode::Batch,
    "row" => StochasticDepthMode::Row,
}

impl StochasticDepthMode {
    /// torchvision's name.
    ///
    /// ```
    /// use torsh_vision::ops::StochasticDepthMode;
    /// assert_eq!(StochasticDepthMode::Row.name(), "row");
    /// ```
    pub fn name(self) -> &'static str {
        self.word()
    }
}

fn check_p(p: f64) -> Result<()> {
    match (0.0..=1.0).contains(&p) {
        true => Ok(()),
        false => Err(TorshError::invalid(
            "",
            format!("drop probability has to be between 0 and 1, but got {p}"),
        )),
    }
}

/// Drops blocks from the last `spatial` dimensions.
fn drop_block(
    input: &Tensor,
    spatial: usize,
    p: f64,
    block_size: usize,
    options: DropBlockOptions,
) -> Result<Tensor> {
    check_p(p)?;
    if input.ndim() != spatial + 2 {
        let text = format!(
            "input should be {} dimensional, got {}",
            spatial + 2,
            input.shape()
        );
        return Err(TorshError::shape("", text));
    }
    if !options.training || p == 0.0 {
        return Ok(input.clone());
    }
    let sides = &input.dims()[2..];
    let block = sides.iter().fold(block_size, |b, &n| b.min(n));
    if block % 2 == 0 {
        let text = format!(
            "block size should be odd, got {block_size} for {}, which makes {block}",
            input.shape()
        );
        return Err(TorshError::invalid("", text)
            .with_hint("blocks are no larger than the smallest side; take an odd size"));
    }
    // A block's centre is drawn where the whole block lies inside.
    let product = |it: &mut dyn Iterator<Item = usize>| it.map(|n| n as f64).product::<f64>();
    let all = product(&mut sides.iter().copied());
    let centres = product(&mut sides.iter().map(|n| n - block + 1));
    let gamma = p * all / ((block as f64).powi(spatial as i32) * centres);
    let mut shape = input.dims().to_vec();
    for n in &mut shape[2..] {
        *n -= block - 1;
    }
    let noise = Tensor::empty(shape, input.dtype(), input.device())?.bernoulli_(gamma)?;
    let half = (block / 2) as i64;
    let noise = noise.pad(vec![half; 2 * spatial])?;
    // max_pool pads with what never wins, so each window is cut off at the edge.
    let window = |n: usize| vec![n as i64; spatial];
    let noise = pooled(&noise, spatial, &window(block), half)?;
    let stay = noise.neg()?.add(1)?;
    let scale = stay
        .sum()?
        .add(options.eps)?
        .reciprocal()?
        .mul(stay.numel() as f64)?;
    match options.inplace {
        true => input.mul_(&stay)?.mul_(&scale),
        false => input.mul(&stay)?.mul(&scale),
    }
}

/// The greatest element of windows with stride 1.
fn pooled(x: &Tensor, spatial: usize, window: &[i64], padding: i64) -> Result<Tensor> {
    let k = window[0];
    match spatial {
        2 => x.max_pool2d_with(
            k,
            torsh_tensor::MaxPool2dOptions::new()
                .stride(1)
                .padding(padding),
        ),
        _ => x.max_pool3d_with(
            k,
            torsh_tensor::MaxPool3dOptions::new()
                .stride(1)
                .padding(padding),
        ),
    }
}

/// Images `[n, c, h, w]` with square blocks of zeros, the rest scaled up to the same sum (`torchvision.ops.drop_block2d`;
/// Ghiasi and others, 2018). An element is dropped with probability `p`, roughly.
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::ops::drop_block2d;
/// let y = drop_block2d(&ones(&[1, 2, 8, 8]), 0.5, 3)?;
/// // What stays is scaled to the sum of the input.
/// assert!(y.eq(0.0)?.any()?.item::<bool>()?);
/// assert!((y.sum()?.item::<f64>()? - 128.0).abs() < 1e-3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `p` is not from 0 to 1, the input has not four dimensions, or the block size is even.
#[track_caller]
pub fn drop_block2d(input: &Tensor, p: f64, block_size: usize) -> Result<Tensor> {
    drop_block2d_with(input, p, block_size, DropBlockOptions::new())
}

/// [`drop_block2d`] with options.
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::ops::{DropBlockOptions, drop_block2d_with};
/// let x = ones(&[1, 2, 8, 8]);
/// assert_eq!(drop_block2d_with(&x, 0.5, 3, DropBlockOptions::new().training(false))?, x);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`drop_block2d`].
#[torsh_tensor::names_caller]
pub fn drop_block2d_with(
    input: &Tensor,
    p: f64,
    block_size: usize,
    options: DropBlockOptions,
) -> Result<Tensor> {
    within("torchvision::drop_block2d", &[input], || {
        drop_block(input, 2, p, block_size, options)
    })
}

/// [`drop_block2d`] of volumes `[n, c, d, h, w]` and cubic blocks (`torchvision.ops.drop_block3d`).
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::ops::drop_block3d;
/// let y = drop_block3d(&ones(&[1, 2, 6, 6, 6]), 0.5, 3)?;
/// assert!((y.sum()?.item::<f64>()? - 432.0).abs() < 1e-2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`drop_block2d`], for five dimensions.
#[track_caller]
pub fn drop_block3d(input: &Tensor, p: f64, block_size: usize) -> Result<Tensor> {
    drop_block3d_with(input, p, block_size, DropBlockOptions::new())
}

/// [`drop_block3d`] with options.
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_vision::ops::{DropBlockOptions, drop_block3d_with};
/// let x = ones(&[1, 2, 4, 4, 4]);
/// assert_eq!(drop_block3d_with(&x, 0.5, 3, DropBlockOptions::new().training(false))?, x);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`drop_block3d`].
#[torsh_tensor::names_caller]
pub fn drop_block3d_with(
    input: &Tensor,
    p: f64,
    block_size: usize,
    options: DropBlockOptions,
) -> Result<Tensor> {
    within("torchvision::drop_block3d", &[input], || {
        drop_block(input, 3, p, block_size, options)
    })
}

/// The input `[n, ..]`, zeroed with probability `p` as a whole or row by row, the rest scaled by `1 / (1 - p)`; the input
/// itself if not training (`torchvision.ops.stochastic_depth`; Huang and others, 2016).
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_vision::ops::{StochasticDepthMode, stochastic_depth};
/// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
/// assert_eq!(stochastic_depth(&x, 1.0, StochasticDepthMode::Row, true)?, x.zeros_like()?);
/// assert_eq!(stochastic_depth(&x, 1.0, StochasticDepthMode::Row, false)?, x);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If `p` is not from 0 to 1.
#[torsh_tensor::names_caller]
pub fn stochastic_depth(
    input: &Tensor,
    p: f64,
    mode: impl Into<StochasticDepthMode>,
    training: bool,
) -> Result<Tensor> {
    within("torchvision::stochastic_depth", &[input], || {
        check_p(p)?;
        let mode = mode.into().known()?;
        if !training || p == 0.0 {
            return Ok(input.clone());
        }
        let mut shape = vec![1; input.ndim()];
        if let (StochasticDepthMode::Row, Some(n)) = (mode, shape.first_mut()) {
            *n = input.dims()[0];
        }
        let survival = 1.0 - p;
        let dtype = match input.dtype() {
            d if d.is_floating_point() => d,
            _ => DType::F32,
        };
        let noise = Tensor::empty(shape, dtype, input.device())?.bernoulli_(survival)?;
        if survival > 0.0 {
            noise.div_(survival)?;
        }
        input.mul(&noise)
    })
}
