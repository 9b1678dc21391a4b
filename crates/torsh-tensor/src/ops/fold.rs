//! Windows of images as columns of a matrix, and the transpose, which sums them back in place.

use smallvec::SmallVec;
use torsh_core::{Ints, Kernel, Result, TorshError, attrs};

use super::conv::{given, sizes};
use crate::call::{Arg, call1};
use crate::options::options;
use crate::record::{OpRecord, Plan, PlanCx, sample};
use crate::schema::Bound;
use crate::{BackwardCx, Grads, Sizes, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&UNFOLD, &FOLD];

options! {
    /// The optional arguments of [`Tensor::im2col_with`] and [`Tensor::col2im_with`], by PyTorch's
    /// names.
    #[derive(Copy, PartialEq, Eq)]
    UnfoldOptions {
        /// Steps between the window's elements.
        dilation: [i64; 2] = [1; 2], impl Into<Sizes<2>> => |s| s.into().0;
        /// Zeros around the image.
        padding: [i64; 2] = [0; 2], impl Into<Sizes<2>> => |s| s.into().0;
        /// Steps of the window.
        stride: [i64; 2] = [1; 2], impl Into<Sizes<2>> => |s| s.into().0;
    }
}

fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    given(c, &c.attrs::<attrs::Im2Col>()?.output_shape)
}

/// The other kernel with the attributes of the node `c` but for the result's shape.
fn transposed(c: &BackwardCx<'_>, record: &'static OpRecord) -> Result<Grads> {
    let attrs = attrs::Im2Col {
        output_shape: c.input_shape(0).dims().into(),
        ..c.attrs::<attrs::Im2Col>()?.clone()
    };
    Ok(SmallVec::from_iter([Some(call1(
        record,
        &[Arg::T(c.g())],
        &attrs,
    )?)]))
}

fn options(b: &Bound, i: usize) -> Result<UnfoldOptions> {
    Ok(UnfoldOptions {
        dilation: sizes("dilation", &b.ints(i))?,
        padding: sizes("padding", &b.ints(i + 1))?,
        stride: sizes("stride", &b.ints(i + 2))?,
    })
}

pub static UNFOLD: OpRecord = OpRecord::new(
    "nn.functional.unfold",
    "The windows of images [n, c, h, w] (or one of [c, h, w]) as columns: [n, c * kh * kw, windows].",
    "(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1)",
)
.kernel(Kernel::Im2Col, plan)
.grads(0, 0, |c| transposed(c, &FOLD))
.by_name(|b| {
    let kernel = sizes::<2>("kernel_size", &b.ints(1))?;
    b.tensor(0)?.im2col_with(kernel, options(b, 2)?).map(Value::Tensor)
})
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 2, 4, 3])?, 2],
        sample![s.real(&[1, 5, 5])?, [2, 3], dilation = [2, 1], padding = [1, 0], stride = [1, 2]],
    ])
});

pub static FOLD: OpRecord = OpRecord::new(
    "nn.functional.fold",
    "The sums of columns [n, c * kh * kw, windows] (or [c * kh * kw, windows]) in the places of their windows of an image: [n, c, h, w].",
    "(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1)",
)
.kernel(Kernel::Col2Im, plan)
.grads(0, 0, |c| transposed(c, &UNFOLD))
.by_name(|b| {
    let (size, kernel) = (sizes::<2>("output_size", &b.ints(1))?, sizes::<2>("kernel_size", &b.ints(2))?);
    b.tensor(0)?.col2im_with(size, kernel, options(b, 3)?).map(Value::Tensor)
})
.samples(|s| {
    Ok(vec![
        sample![s.real(&[2, 4, 6])?, [4, 3], 2],
        sample![s.real(&[8, 4])?, 4, 2, padding = 1, stride = [3, 3]],
    ])
});

/// How many windows there are down and right of an image.
fn blocks(size: [i64; 2], kernel: [i64; 2], options: &UnfoldOptions) -> Result<[i64; 2]> {
    let UnfoldOptions {
        dilation,
        padding,
        stride,
    } = *options;
    for (what, v) in [
        ("kernel size", kernel),
        ("dilation", dilation),
        ("stride", stride),
    ] {
        if v.iter().any(|&v| v <= 0 || v > i64::from(i32::MAX)) {
            let m = format!("{what} should be greater than zero, but got {v:?}");
            return Err(TorshError::invalid("", m));
        }
    }
    if padding
        .iter()
        .any(|&v| !(0..=i64::from(i32::MAX)).contains(&v))
    {
        let m = format!("padding should be non-negative, but got {padding:?}");
        return Err(TorshError::invalid("", m));
    }
    let mut blocks = [0; 2];
    for d in 0..2 {
        let room = size[d] as i128 + 2 * padding[d] as i128
            - (dilation[d] as i128 * (kernel[d] as i128 - 1) + 1);
        if room < 0 {
            let m = format!(
                "an image of spatial size {size:?} has no window of kernel_size {kernel:?}, dilation {dilation:?} and padding {padding:?}"
            );
            return Err(TorshError::shape("", m));
        }
        blocks[d] = (room / stride[d] as i128 + 1) as i64;
    }
    Ok(blocks)
}

#[torsh_tensor::functions]
impl Tensor {
    /// The windows of images `[n, c, h, w]` (or one of `[c, h, w]`) as columns
    /// `[n, c * kh * kw, windows]` (`torch.nn.functional.unfold`).
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let x = tensor![[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]];
    /// let windows = tensor![[1.0, 2.0], [2.0, 3.0], [4.0, 5.0], [5.0, 6.0]];
    /// assert_eq!(x.im2col(2)?, windows);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(name = unfold)]
    #[track_caller]
    pub fn im2col(&self, kernel_size: impl Into<Sizes<2>>) -> Result<Tensor> {
        self.im2col_with(kernel_size, UnfoldOptions::default())
    }

    /// [`im2col`](Tensor::im2col) with dilation, padding and stride.
    ///
    /// ```
    /// use torsh_tensor::{UnfoldOptions, tensor};
    /// let image = tensor![[[1.0, 2.0, 3.0, 4.0]]];
    /// let columns = image.im2col_with((1, 2), UnfoldOptions::new().stride((1, 2)))?;
    /// assert_eq!(columns, tensor![[1.0, 3.0], [2.0, 4.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(name = unfold_with)]
    #[torsh_tensor::names_caller]
    pub fn im2col_with(
        &self,
        kernel_size: impl Into<Sizes<2>>,
        options: UnfoldOptions,
    ) -> Result<Tensor> {
        let kernel = kernel_size.into().0;
        let run = || {
            super::pool::check_input(self, 2)?;
            let d = Ints::from(self.dims());
            let at = d.len() - 3;
            let [h, w] = blocks([d[at + 1], d[at + 2]], kernel, &options)?;
            let rows = d[at].saturating_mul(kernel[0]).saturating_mul(kernel[1]);
            let columns = [rows, h.saturating_mul(w)];
            let shape = d[..at].iter().copied().chain(columns).collect();
            self.folded(&UNFOLD, kernel, &options, shape)
        };
        self.named(UNFOLD.name, run())
    }

    /// The sums of columns `[n, c * kh * kw, windows]` (or `[c * kh * kw, windows]`) in the places
    /// of their windows of images of `output_size` (`torch.nn.functional.fold`).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let columns = tensor![[1.0, 3.0], [2.0, 4.0]];
    /// // The middle element is in both windows.
    /// assert_eq!(columns.col2im((1, 3), (1, 2))?, tensor![[[1.0, 5.0, 4.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(name = fold)]
    #[track_caller]
    pub fn col2im(
        &self,
        output_size: impl Into<Sizes<2>>,
        kernel_size: impl Into<Sizes<2>>,
    ) -> Result<Tensor> {
        self.col2im_with(output_size, kernel_size, UnfoldOptions::default())
    }

    /// [`col2im`](Tensor::col2im) with dilation, padding and stride.
    ///
    /// ```
    /// use torsh_tensor::{UnfoldOptions, tensor};
    /// let columns = tensor![[1.0, 3.0], [2.0, 4.0]];
    /// let image = columns.col2im_with((1, 4), (1, 2), UnfoldOptions::new().stride((1, 2)))?;
    /// assert_eq!(image, tensor![[[1.0, 2.0, 3.0, 4.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(name = fold_with)]
    #[torsh_tensor::names_caller]
    pub fn col2im_with(
        &self,
        output_size: impl Into<Sizes<2>>,
        kernel_size: impl Into<Sizes<2>>,
        options: UnfoldOptions,
    ) -> Result<Tensor> {
        let (size, kernel) = (output_size.into().0, kernel_size.into().0);
        let run = || {
            let d = Ints::from(self.dims());
            if !matches!(d.len(), 2 | 3) || d[d.len() - 2..].contains(&0) {
                let m = format!(
                    "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: {}",
                    self.shape()
                );
                return Err(TorshError::shape("", m));
            }
            if size.iter().any(|&v| v <= 0) {
                return Err(TorshError::invalid(
                    "",
                    format!("output_size must be positive, but got {size:?}"),
                ));
            }
            let [h, w] = blocks(size, kernel, &options)?;
            let (at, taps) = (d.len() - 2, kernel[0].saturating_mul(kernel[1]));
            if d[at] % taps != 0 || d[at + 1] != h.saturating_mul(w) {
                let m = format!(
                    "Given output_size={size:?}, kernel_size={kernel:?}, dilation={:?}, padding={:?}, stride={:?}, expected {taps} rows for each channel and {h} * {w} windows, but got input of size {}",
                    options.dilation,
                    options.padding,
                    options.stride,
                    self.shape()
                );
                return Err(TorshError::shape("", m));
            }
            let image = [d[at] / taps, size[0], size[1]];
            let shape = d[..at].iter().copied().chain(image).collect();
            self.folded(&FOLD, kernel, &options, shape)
        };
        self.named(FOLD.name, run())
    }

    fn folded(
        &self,
        record: &'static OpRecord,
        kernel: [i64; 2],
        options: &UnfoldOptions,
        output_shape: Ints,
    ) -> Result<Tensor> {
        super::conv::check_shape(&output_shape, self.dtype())?;
        let attrs = attrs::Im2Col {
            kernel_size: kernel.into(),
            dilation: options.dilation.into(),
            padding: options.padding.into(),
            stride: options.stride.into(),
            output_shape,
        };
        call1(record, &[Arg::T(self)], &attrs)
    }
}
