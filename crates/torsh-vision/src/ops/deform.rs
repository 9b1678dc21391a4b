//! Deformable convolutions.

use smallvec::smallvec;
use torsh_core::Ints;
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan, Spec, sample};
use torsh_tensor::{Autocast, DType, Result, Shape, Sizes, Tensor, TorshError, Value, options};

use super::kernels::keys;
use super::{in_full, within, wrong_shape};
use crate::ops::attrs;

pub(super) const RECORDS: &[&OpRecord] = &[&DEFORM_CONV2D, &DEFORM_CONV2D_BACKWARD];

options! {
    /// The keyword arguments of `deform_conv2d`.
    ///
    /// ```
    /// use torsh_tensor::{ones, tensor, zeros};
    /// use torsh_vision::ops::{DeformConv2dOptions, deform_conv2d_with};
    /// // Of four pixels every second one, plus 10.
    /// let options = DeformConv2dOptions::new().stride((1, 2)).bias(&tensor![10.0]);
    /// let x = tensor![[[[1.0, 2.0, 3.0, 4.0]]]];
    /// let y = deform_conv2d_with(&x, &zeros(&[1, 2, 1, 2]), &ones(&[1, 1, 1, 1]), options)?;
    /// assert_eq!(y, tensor![[[[11.0, 13.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    DeformConv2dOptions {
        /// `[out_channels]`. The default is none.
        bias: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Steps of the window. The default is 1.
        stride: Sizes<2> = Sizes([1; 2]), impl Into<Sizes<2>> => |s| s.into();
        /// Zeros on both sides of the image. The default is 0.
        padding: Sizes<2> = Sizes([0; 2]), impl Into<Sizes<2>> => |s| s.into();
        /// Distance between the elements of the window. The default is 1.
        dilation: Sizes<2> = Sizes([1; 2]), impl Into<Sizes<2>> => |s| s.into();
        /// What each sample is multiplied by, `[n, offset_groups * kernel_h * kernel_w, out_h, out_w]`. The default is
        /// nothing.
        mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
    }
}

/// Operands of a call: images, weight, offsets, mask and bias.
struct Operands<'a> {
    input: &'a Tensor,
    weight: &'a Tensor,
    offset: &'a Tensor,
    mask: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
}

impl Operands<'_> {
    /// The shape of the result, where all goes together.
    fn check(&self, a: &attrs::VisionDeformConv) -> Result<[usize; 4]> {
        let [n, c, h, w] = *self.input.dims() else {
            return Err(wrong_shape("the input", "[n, c, h, w]", self.input));
        };
        let [o, per_group, kh, kw] = *self.weight.dims() else {
            return Err(wrong_shape(
                "the weight",
                "[out_channels, in_channels / groups, kh, kw]",
                self.weight,
            ));
        };
        let others = [Some(self.weight), Some(self.offset), self.mask, self.bias];
        for t in others.into_iter().flatten() {
            if t.dtype() != self.input.dtype() {
                let text = format!(
                    "expected operands of one dtype, got {} and {}",
                    self.input.dtype(),
                    t.dtype()
                );
                return Err(TorshError::dtype("", text));
            }
        }
        if !matches!(self.input.dtype(), DType::F32 | DType::F64) {
            let text = format!(
                "operands must be of a floating-point dtype, got {}",
                self.input.dtype()
            );
            return Err(
                TorshError::dtype("", text).with_hint("convert them with to_dtype(DType::F32)")
            );
        }
        let lists = [&a.stride, &a.padding, &a.dilation];
        if lists.iter().any(|l| l.len() != 2)
            || a.stride.iter().chain(a.dilation.iter()).any(|&s| s <= 0)
            || a.padding.iter().any(|&p| p < 0)
        {
            let text = format!(
                "stride and dilation must be positive, and padding not negative, got {:?}, {:?} and {:?}",
                a.stride, a.dilation, a.padding
            );
            return Err(TorshError::invalid("", text));
        }
        if kh == 0 || kw == 0 || per_group == 0 || a.groups == 0 || a.offset_groups == 0 {
            return Err(wrong_shape(
                "the weight",
                "of no empty dimension",
                self.weight,
            ));
        }
        if c != per_group * a.groups || !o.is_multiple_of(a.groups) {
            let text = format!(
                "a weight of shape {} and {} groups do not go with {c} channels",
                self.weight.shape(),
                a.groups
            );
            return Err(TorshError::shape("", text));
        }
        if !c.is_multiple_of(a.offset_groups) {
            let text = format!(
                "{c} channels do not divide into {} groups of offsets",
                a.offset_groups
            );
            return Err(TorshError::shape("", text));
        }
        let side = |i: usize, size: usize, k: usize| {
            let (size, k) = (size as i64, k as i64);
            let span = a.dilation[i].saturating_mul(k - 1).saturating_add(1);
            let room = a.padding[i].saturating_mul(2).saturating_add(size) - span;
            match room >= 0 {
                true => Ok((room / a.stride[i] + 1) as usize),
                false => Err(TorshError::shape(
                    "",
                    format!(
                        "a window of {span} does not fit into {size} elements with padding {}",
                        a.padding[i]
                    ),
                )),
            }
        };
        let (oh, ow) = (side(0, h, kh)?, side(1, w, kw)?);
        let points = a.offset_groups * kh * kw;
        let shaped = |what: &str, t: &Tensor, wanted: &[usize]| match t.dims() == wanted {
            true => Ok(()),
            false => Err(wrong_shape(what, &format!("{wanted:?}"), t)),
        };
        shaped("the offset", self.offset, &[n, 2 * points, oh, ow])?;
        if let Some(mask) = self.mask {
            shaped("the mask", mask, &[n, points, oh, ow])?;
        }
        if let Some(bias) = self.bias {
            shaped("the bias", bias, &[o])?;
        }
        Ok([n, o, oh, ow])
    }
}

static DEFORM_CONV2D: OpRecord = OpRecord::new(
    "torchvision::deform_conv2d",
    "A convolution whose windows read the image at positions that are moved by offsets.",
    "(Tensor input, Tensor offset, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, int[2] dilation=1, \
     Tensor? mask=None)",
)
.with_key(&keys::DEFORM_CONV, |c| {
    let operands = Operands {
        input: c.tensor(0)?,
        weight: c.tensor(1)?,
        offset: c.tensor(2)?,
        mask: c.opt_tensor(3),
        bias: c.opt_tensor(4),
    };
    let shape = operands.check(c.attrs::<attrs::VisionDeformConv>()?)?;
    let dtype = operands.input.dtype();
    Ok(Plan::one(dtype, Shape::from(shape), dtype))
})
.grads(0b1111, 0, |c| {
    let wanted = (0..4).filter(|&i| c.needs(i)).fold(0, |bits, i| bits | 1 << i);
    let mut attrs = c.attrs::<attrs::VisionDeformConv>()?.clone();
    attrs.wanted = wanted;
    let (input, weight, offset) = (c.input(0)?, c.input(1)?, c.input(2)?);
    let mask = if c.has_input(3) { Some(c.input(3)?) } else { None };
    let mut found = match wanted {
        0 => Default::default(),
        _ => DEFORM_CONV2D_BACKWARD.call(
            &[Arg::T(c.g()), Arg::T(&input), Arg::T(&weight), Arg::T(&offset), Arg::opt(mask.as_ref())],
            &attrs,
        )?,
    }
    .into_iter();
    let mut grads = smallvec![];
    for i in 0..4 {
        grads.push(if wanted >> i & 1 == 1 { found.next() } else { None });
    }
    grads.push(match c.needs(4) {
        true => Some(c.g().sum_dim([0, 2, 3], false)?),
        false => None,
    });
    Ok(grads)
})
.autocast(Autocast::Fp32)
.by_name(|b| {
    let pair = |i: usize| match b.ints(i)[..] {
        [n] => Ok(Sizes::from(n)),
        [y, x] => Ok(Sizes::from((y, x))),
        _ => Err(TorshError::invalid("torchvision::deform_conv2d", "stride, padding and dilation are one number or two")),
    };
    let options = DeformConv2dOptions {
        bias: b.opt_tensor(3).cloned(),
        stride: pair(4)?,
        padding: pair(5)?,
        dilation: pair(6)?,
        mask: b.opt_tensor(7).cloned(),
    };
    deform_conv2d_with(b.tensor(0)?, b.tensor(1)?, b.tensor(2)?, options).map(Value::Tensor)
})
.samples(|s| {
    // Offsets keep away from whole numbers, where the samples have kinks.
    let mut offsets = |shape: &[usize]| s.uniform(shape, 0.1, 0.4);
    let (a, b) = (offsets(&[2, 8, 2, 2])?, offsets(&[1, 16, 4, 4])?);
    let plain = sample![s.real(&[2, 2, 3, 3])?, a, s.real(&[2, 2, 2, 2])?];
    let whole = sample![s.real(&[1, 2, 3, 3])?, b, s.real(&[4, 1, 2, 2])?, s.real(&[4])?, padding = 1, mask = s.uniform(&[1, 8, 4, 4], 0.2, 1.0)?];
    Ok(vec![plain, whole])
});

/// The gradients of images, weight, offsets and mask. There is no second derivative.
static DEFORM_CONV2D_BACKWARD: OpRecord = OpRecord::new(
    "torchvision::deform_conv2d_backward",
    "The gradients of the operands of deform_conv2d.",
    "(Tensor grad_output, Tensor input, Tensor weight, Tensor offset, Tensor? mask, *, int[] stride, int[] padding, int[] dilation, int groups, int offset_groups, int wanted)",
)
.internal()
.with_key(&keys::DEFORM_CONV_BACKWARD, |c| {
    let a = c.attrs::<attrs::VisionDeformConv>()?;
    let grad = c.tensor(0)?;
    let operands = Operands {
        input: c.tensor(1)?,
        weight: c.tensor(2)?,
        offset: c.tensor(3)?,
        mask: c.opt_tensor(4),
        bias: None,
    };
    let shape = operands.check(a)?;
    if grad.dims() != shape || grad.dtype() != operands.input.dtype() {
        return Err(wrong_shape(
            "the gradient",
            &format!("{shape:?} of the input's dtype"),
            grad,
        ));
    }
    let all = [
        Some(operands.input),
        Some(operands.weight),
        Some(operands.offset),
        operands.mask,
    ];
    let specs = all
        .into_iter()
        .enumerate()
        .filter(|(i, _)| a.wanted >> i & 1 == 1);
    let specs = specs.filter_map(|(_, t)| t.map(|t| Spec::new(t.shape().clone(), t.dtype())));
    Ok(Plan::many(grad.dtype(), specs))
});

/// A convolution of images `[n, c, h, w]` whose windows read the image between its pixels, at positions that are moved
/// by offsets `[n, 2 * groups * kh * kw, out_h, out_w]`: of each element of the window first down, then to the right
/// (`torchvision.ops.deform_conv2d`; Dai and others, 2017). The weight is `[out_channels, c / weight_groups, kh, kw]`.
///
/// ```
/// use torsh_tensor::{ones, tensor, zeros};
/// use torsh_vision::ops::deform_conv2d;
/// let x = tensor![[[[1.0, 3.0]]]];
/// // Half a pixel to the right, and outside of the image half of the last one.
/// let offset = tensor![[[[0.0, 0.0]], [[0.5, 0.5]]]];
/// assert_eq!(deform_conv2d(&x, &offset, &ones(&[1, 1, 1, 1]))?, tensor![[[[2.0, 1.5]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// If shapes or dtypes do not go together.
#[track_caller]
pub fn deform_conv2d(input: &Tensor, offset: &Tensor, weight: &Tensor) -> Result<Tensor> {
    deform_conv2d_with(input, offset, weight, DeformConv2dOptions::new())
}

/// [`deform_conv2d`] with options; with a mask, its second form (Zhu and others, 2018).
///
/// ```
/// use torsh_tensor::{ones, tensor, zeros};
/// use torsh_vision::ops::{DeformConv2dOptions, deform_conv2d_with};
/// let x = tensor![[[[1.0, 3.0]]]];
/// let options = DeformConv2dOptions::new().mask(&tensor![[[[1.0, 0.5]]]]).bias(&tensor![10.0]);
/// let y = deform_conv2d_with(&x, &zeros(&[1, 2, 1, 2]), &ones(&[1, 1, 1, 1]), options)?;
/// assert_eq!(y, tensor![[[[11.0, 11.5]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`deform_conv2d`].
#[torsh_tensor::names_caller]
pub fn deform_conv2d_with(
    input: &Tensor,
    offset: &Tensor,
    weight: &Tensor,
    options: DeformConv2dOptions,
) -> Result<Tensor> {
    within(
        "torchvision::deform_conv2d",
        &[input, offset, weight],
        || {
            let ([_, per_group, kh, kw], [_, c, _, _], [_, offsets, _, _]) = (
                four(weight, "the weight")?,
                four(input, "the input")?,
                four(offset, "the offset")?,
            );
            let points = 2 * kh * kw;
            if points == 0 || offsets / points == 0 || offsets % points != 0 {
                let text = format!(
                    "the offset's second dimension must be a multiple of 2 * kh * kw = {points}, got {}",
                    offset.shape()
                );
                return Err(TorshError::shape("", text));
            }
            let attrs = attrs::VisionDeformConv {
                stride: Ints::from(options.stride.0),
                padding: Ints::from(options.padding.0),
                dilation: Ints::from(options.dilation.0),
                groups: c.checked_div(per_group).unwrap_or(0),
                offset_groups: offsets / points,
                wanted: 0,
            };
            let mut others = vec![weight, offset];
            others.extend(options.mask.as_ref());
            others.extend(options.bias.as_ref());
            in_full(input, &others, |input, others| {
                let mut rest = others[2..].iter();
                let mask = options.mask.as_ref().and_then(|_| rest.next());
                let bias = options.bias.as_ref().and_then(|_| rest.next());
                DEFORM_CONV2D.call1(
                    &[
                        Arg::T(input),
                        Arg::T(&others[0]),
                        Arg::T(&others[1]),
                        Arg::opt(mask),
                        Arg::opt(bias),
                    ],
                    &attrs,
                )
            })
        },
    )
}

fn four(t: &Tensor, what: &str) -> Result<[usize; 4]> {
    <[usize; 4]>::try_from(t.dims()).map_err(|_| wrong_shape(what, "of four dimensions", t))
}
