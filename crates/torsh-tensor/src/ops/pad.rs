//! Padding: a number, the edge, a reflection or the other end around a tensor.

use torsh_core::{Dims, Kernel, Result, Scalar, TorshError, attrs};

use crate::autocast::{Autocast, body};
use crate::call::{Arg, call1};
use crate::named::refused;
use crate::record::{OpRecord, Plan, sample};
use crate::schema::Bound;
use crate::{Grads, IntoShape, PadOptions, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[&CONSTANT_PAD_ND, &PAD];

fn pad_value(b: &Bound, i: usize) -> Scalar {
    b.opt_scalar(i).unwrap_or(Scalar::Int(0))
}

pub static CONSTANT_PAD_ND: OpRecord = OpRecord::new(
    "constant_pad_nd",
    "The tensor with a number before and behind it: pairs for the last dimension, the one before it, and so on; negative counts cut off.",
    "(Tensor input, int[] pad, Scalar value=0)",
)
.kernel(Kernel::Pad, |c| {
    let x = c.tensor(0)?;
    let attrs::Pad { before, after, .. } = c.attrs()?;
    let mut dims = Dims::new();
    for (d, &n) in x.dims().iter().enumerate() {
        let n = n.checked_add(before[d]).and_then(|n| n.checked_add(after[d]));
        dims.push(n.ok_or_else(|| TorshError::invalid("", "the sizes overflow"))?);
    }
    Ok(Plan::one(x.dtype(), dims.into(), x.dtype()))
})
.grads(0, 0, |c| {
    let mut g = c.g().clone();
    for (d, &before) in c.attrs::<attrs::Pad>()?.before.iter().enumerate() {
        let n = c.input_shape(0)[d];
        if g.dims()[d] != n {
            g = g.narrow(d, before, n)?;
        }
    }
    Ok(Grads::from_iter([Some(g)]))
})
.by_name(|b| b.tensor(0)?.constant_pad_nd(b.ints(1), pad_value(b, 2)).map(Value::Tensor))
.samples(|s| {
    let x = s.real(&[2, 3])?;
    Ok(vec![
        sample![x.clone(), [1, 2], 1.5],
        sample![x, [-1, 2, 1, 0]],
    ])
});

#[torsh_tensor::by_name(Tensor::pad_with(.., PadOptions))]
pub static PAD: OpRecord = OpRecord::new(
    "nn.functional.pad",
    "The tensor with a number (constant), its edge (replicate), its mirror image (reflect) or its other end (circular) around it.",
    "(Tensor input, int[] pad, str mode='constant', Scalar? value=None)",
)
.autocast(Autocast::Fp32)
.samples(|s| {
    let x = s.real(&[2, 2, 3])?;
    Ok(vec![
        sample![x.clone(), [1, 2]],
        sample![x.clone(), [1, 2], "reflect"],
        sample![x.clone(), [2, -1], "replicate"],
        sample![x, [1, 3], "circular"],
    ])
});

#[torsh_tensor::functions]
impl Tensor {
    /// The tensor with a number around it (`torch.constant_pad_nd`): `pad` holds pairs (before,
    /// behind) for the last dimension, the one before it, and so on; negative counts cut off.
    ///
    /// Keeps the dtype. An error where `pad` has an odd length, more pairs than the tensor has
    /// dimensions, or cuts off more than a dimension holds.
    ///
    /// ```
    /// use torsh_tensor::Tensor;
    /// let x = Tensor::from_data(&[1, 2], &[2])?;
    /// assert_eq!(x.constant_pad_nd([1, 2], 9)?.to_vec::<i32>()?, [9, 1, 2, 9, 9]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn constant_pad_nd(&self, pad: impl IntoShape, value: impl Into<Scalar>) -> Result<Tensor> {
        let pad = pad.sizes();
        let refuse = |why: String| self.named("constant_pad_nd", Err(TorshError::invalid("", why)));
        if !pad.len().is_multiple_of(2) {
            return refuse(format!(
                "Length of pad must be even but instead it equals {}",
                pad.len()
            ));
        }
        if pad.len() > 2 * self.ndim() {
            return refuse(format!(
                "Length of pad should be no more than twice the number of dimensions of the input. Pad length is {} while the input has {} dimensions.",
                pad.len(),
                self.ndim()
            ));
        }
        let n = self.ndim();
        let (mut before, mut after) = (Dims::from_elem(0, n), Dims::from_elem(0, n));
        let mut x = self.clone();
        for (i, pair) in pad.chunks(2).enumerate() {
            let (d, a, b) = (n - 1 - i, pair[0], pair[1]);
            let size = self.dims()[d] as i64;
            let sum = size.saturating_add(a).saturating_add(b);
            if sum < 0 {
                return refuse(format!(
                    "The input size {size}, plus negative padding {a} and {b} resulted in a negative output size, which is invalid. Check dimension {d} of your input."
                ));
            }
            (before[d], after[d]) = (a.max(0) as usize, b.max(0) as usize);
            if a < 0 || b < 0 {
                let cut = |v: i64| v.saturating_neg().max(0);
                let (cut_a, cut_b) = (cut(a), cut(b));
                if cut_a.saturating_add(cut_b) > size {
                    return refuse(format!(
                        "cannot cut {cut_a} and {cut_b} off dimension {d} of size {size}"
                    ));
                }
                x = x.narrow(d, cut_a, size - cut_a - cut_b)?;
            }
        }
        if before.iter().chain(&after).all(|&v| v == 0) {
            return x.copy();
        }
        let value = value.into();
        if value.is_complex() && !self.is_complex() {
            return refuse(format!(
                "the complex number {value} does not fit {}",
                self.dtype()
            ));
        }
        call1(
            &CONSTANT_PAD_ND,
            &[Arg::T(&x)],
            &attrs::Pad {
                before,
                after,
                value,
            },
        )
    }

    /// The tensor with zeros around it (`torch.nn.functional.pad`): pairs (before, behind) for the last
    /// dimension, the one before it, and so on; negative counts cut off. Every dtype. An
    /// odd number of counts, more pairs than dimensions, or a negative size is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1, 2].pad([1, 2])?, tensor![0, 1, 2, 0, 0]);
    /// assert_eq!(tensor![1, 2, 3].pad([-1, 0])?, tensor![2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn pad(&self, pad: impl IntoShape) -> Result<Tensor> {
        self.constant_pad_nd(pad, 0)
    }

    /// [`Tensor::pad`] by a mode (`constant`, `reflect`, `replicate`, `circular`), with a value for
    /// `constant`.
    ///
    /// An error for another word, for a value with another mode, and for paddings larger than a mode
    /// allows.
    ///
    /// ```
    /// use torsh_tensor::{PadOptions, tensor};
    /// let x = tensor![[1, 2, 3]];
    /// let padded = x.pad_with([1, 2], PadOptions::new().mode("reflect"))?;
    /// assert_eq!(padded, tensor![[2, 1, 2, 3, 2, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn pad_with(&self, pad: impl IntoShape, options: PadOptions) -> Result<Tensor> {
        let (pad, value) = (pad.sizes(), options.value);
        let refuse = |why: String| self.named("pad", Err(TorshError::invalid("", why)));
        let mode = match options.mode.as_str() {
            "constant" => {
                return self
                    .constant_pad_nd(&pad[..], value.unwrap_or(Scalar::Int(0)))
                    .map_err(|e| e.renamed("pad"));
            }
            "replicate" => Mode::Replicate,
            "reflect" => Mode::Reflect,
            "circular" => Mode::Circular,
            other => {
                let words = ["constant", "reflect", "replicate", "circular"];
                return self.named("pad", Err(refused(other, "mode", words)));
            }
        };
        if value.is_some_and(|v| v.to_bool()) {
            return refuse("only the mode constant takes a value".into());
        }
        let rank = pad.len() / 2;
        if !pad.len().is_multiple_of(2)
            || !(1..=3).contains(&rank)
            || self.ndim() != rank + 1 && self.ndim() != rank + 2
        {
            return refuse(format!(
                "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: {} counts for {} dimensions",
                pad.len(),
                self.ndim()
            ));
        }
        let class = match mode {
            Mode::Circular => Autocast::Keep,
            Mode::Reflect if rank == 3 => Autocast::Keep,
            _ => PAD.autocast,
        };
        body(class, [self], |[x]| x.pad_from(&pad, mode))
    }

    #[track_caller]
    fn pad_from(&self, pad: &[i64], mode: Mode) -> Result<Tensor> {
        let mut x = self.clone();
        for (i, pair) in pad.chunks(2).enumerate() {
            let d = self.ndim() - 1 - i;
            if pair != [0, 0] {
                let index =
                    self.named("pad", mode.sources(self.dims()[d] as i64, pair[0], pair[1]))?;
                let count = index.len();
                let index = Tensor::from_data_on(&index, count, self.device());
                x = x.index_select(d, &index?)?;
            }
        }
        if x.is_same(self) { x.copy() } else { Ok(x) }
    }
}

#[derive(Clone, Copy)]
enum Mode {
    Replicate,
    Reflect,
    Circular,
}

impl Mode {
    /// Which of the `n` indices each index of the padded dimension comes from.
    fn sources(self, n: i64, before: i64, behind: i64) -> Result<Vec<i64>> {
        let size = n.saturating_add(before).saturating_add(behind);
        let most = i64::MAX / 8;
        if n == 0
            || size < 0
            || [size, before, behind]
                .iter()
                .any(|v| !(-most..=most).contains(v))
        {
            return Err(TorshError::invalid(
                "",
                format!("a dimension of size {n} cannot be padded by ({before}, {behind})"),
            ));
        }
        torsh_core::alloc::check(size as usize, size_of::<i64>())?;
        let most = before.max(behind);
        match self {
            Mode::Replicate => Ok((0..size).map(|i| (i - before).clamp(0, n - 1)).collect()),
            Mode::Reflect if most >= n => Err(TorshError::invalid(
                "",
                format!(
                    "Padding size should be less than the corresponding input dimension, but got: padding ({before}, {behind}) of a dimension of size {n}"
                ),
            )),
            Mode::Reflect => Ok((0..size)
                .map(|i| {
                    let i = (i - before).abs();
                    if i < n { i } else { 2 * (n - 1) - i }
                })
                .collect()),
            Mode::Circular if most > n => Err(TorshError::invalid(
                "",
                format!(
                    "Padding value causes wrapping around more than once: ({before}, {behind}) of a dimension of size {n}"
                ),
            )),
            Mode::Circular => {
                // What is cut off is gone before the rest goes around.
                let (start, kept) = ((-before).max(0), n + before.min(0) + behind.min(0));
                if kept <= 0 {
                    return Err(TorshError::invalid(
                        "",
                        format!(
                            "nothing is left of a dimension of size {n} padded by ({before}, {behind})"
                        ),
                    ));
                }
                Ok((0..size)
                    .map(|i| start + (i - before.max(0)).rem_euclid(kept))
                    .collect())
            }
        }
    }
}
