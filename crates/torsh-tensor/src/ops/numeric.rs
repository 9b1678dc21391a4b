//! Derivatives, integrals and statistics of sampled functions, parts of numbers, and other functions written in
//! other ops.

pub(crate) mod methods;
mod records;

use torsh_core::attrs::Assert;
use torsh_core::{CallSite, DType, Result, TorshError};

use crate::options::options;
use crate::schema::Bound;
use crate::{IntoDims, ScatterReduceOptions, Tensor, Value};

pub(crate) use records::RECORDS;

options! {
    /// PyTorch's keyword arguments of `gradient`.
    ///
    /// ```
    /// use torsh_tensor::{GradientOptions, tensor};
    /// let options = GradientOptions::new().spacing(vec![tensor![0.0, 1.0, 3.0]]).dim(0);
    /// assert_eq!(tensor![0.0, 1.0, 9.0].gradient_with(options)?[0], tensor![1.0, 2.0, 4.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GradientOptions {
        /// The distance of elements: 1 unless set, one for all or for each dimension, or their coordinates.
        spacing: GradientSpacing = GradientSpacing::Step(1.0), impl Into<GradientSpacing> => |s| s.into();
        /// The dimensions. The default is all.
        dim: Option<Vec<i64>> = None, impl IntoDims => |d| d.dims().map(|d| d.to_vec());
        /// The order of the estimates at the ends: 1 or 2.
        edge_order: i64 = 1;
    }
}

/// The places of the elements that `gradient` takes differences of.
///
/// ```
/// use torsh_tensor::GradientSpacing;
/// assert!(matches!(GradientSpacing::from(2.0), GradientSpacing::Step(d) if d == 2.0));
/// ```
#[derive(Clone, Debug)]
pub enum GradientSpacing {
    /// Their distance, along all dimensions.
    Step(f64),
    /// Their distance along each dimension.
    Steps(Vec<f64>),
    /// Their coordinates, a vector for each dimension.
    At(Vec<Tensor>),
}

impl From<f64> for GradientSpacing {
    fn from(step: f64) -> GradientSpacing {
        GradientSpacing::Step(step)
    }
}
impl From<Vec<f64>> for GradientSpacing {
    fn from(steps: Vec<f64>) -> GradientSpacing {
        GradientSpacing::Steps(steps)
    }
}
impl From<Vec<Tensor>> for GradientSpacing {
    fn from(at: Vec<Tensor>) -> GradientSpacing {
        GradientSpacing::At(at)
    }
}

options! {
    /// PyTorch's keyword arguments of `cov`.
    ///
    /// ```
    /// use torsh_tensor::CovOptions;
    /// assert_eq!(CovOptions::new().correction, 1);
    /// ```
    CovOptions {
        /// What is taken from the number of observations before dividing by it.
        correction: i64 = 1;
        /// How often each observation is repeated: integers.
        fweights: Option<Tensor> = None, impl AsRef<Tensor> => |t| Some(t.as_ref().clone());
        /// The weight of each observation: floats.
        aweights: Option<Tensor> = None, impl AsRef<Tensor> => |t| Some(t.as_ref().clone());
    }
}

options! {
    /// PyTorch's keyword argument of `index_reduce`.
    ///
    /// ```
    /// use torsh_tensor::IndexReduceOptions;
    /// assert!(IndexReduceOptions::new().include_self);
    /// ```
    IndexReduceOptions {
        /// Whether the elements that are there take part.
        include_self: bool = true;
    }
}

/// The points that `trapezoid` integrates over.
///
/// ```
/// use torsh_tensor::{TrapezoidSpacing, tensor};
/// let y = tensor![1.0, 2.0];
/// assert_eq!(y.trapezoid_with(0, TrapezoidSpacing::Step(2.0))?.item::<f32>()?, 3.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub enum TrapezoidSpacing {
    /// Their distance.
    Step(f64),
    /// Their coordinates: a vector, or a tensor that broadcasts with the function's.
    At(Tensor),
}

impl TrapezoidSpacing {
    #[track_caller]
    fn apply(&self, op: &'static str, y: &Tensor, dim: i64, cumulative: bool) -> Result<Tensor> {
        match self {
            TrapezoidSpacing::Step(dx) => trapezoid(op, y, None, *dx, dim, cumulative),
            TrapezoidSpacing::At(x) => trapezoid(op, y, Some(x), 1.0, dim, cumulative),
        }
    }
}

fn invalid(text: impl Into<String>) -> TorshError {
    TorshError::invalid("", text.into())
}

fn gradient_options(b: &Bound) -> Result<GradientOptions> {
    let refused =
        || invalid("gradient: spacing is a number, a list of numbers, or a list of tensors");
    let spacing = match b.value(1) {
        Value::None => GradientSpacing::Step(1.0),
        Value::Tensor(t) => GradientSpacing::At(vec![t.clone()]),
        Value::List(items) | Value::Tuple(items)
            if matches!(items.first(), Some(Value::Tensor(_))) =>
        {
            GradientSpacing::At(items.iter().flat_map(Value::tensors).collect())
        }
        Value::List(items) | Value::Tuple(items) => {
            let numbers = items.iter().map(|v| v.number().map(|n| n.to_f64()));
            GradientSpacing::Steps(numbers.collect::<Option<_>>().ok_or_else(refused)?)
        }
        v => GradientSpacing::Step(v.number().ok_or_else(refused)?.to_f64()),
    };
    Ok(GradientOptions {
        spacing,
        dim: b.opt_ints(2),
        edge_order: b.int(3),
    })
}

#[track_caller]
fn gradient(x: &Tensor, options: &GradientOptions) -> Result<Vec<Tensor>> {
    let refuse = |e: TorshError| x.named("gradient", Err(e));
    let dims: Vec<usize> = match &options.dim {
        Some(dims) => dims
            .iter()
            .map(|&d| x.dim("gradient", d))
            .collect::<Result<_>>()?,
        None => (0..x.ndim()).collect(),
    };
    if let Some(i) = (1..dims.len()).find(|&i| dims[..i].contains(&dims[i])) {
        return refuse(invalid(format!(
            "dim {} appears multiple times in the list of dims",
            dims[i]
        )));
    }
    if matches!(x.dtype(), DType::U8 | DType::Bool) {
        return refuse(TorshError::dtype(
            "",
            format!("torch.gradient does not support {} input.", x.dtype()),
        ));
    }
    if !matches!(options.edge_order, 1 | 2) {
        return refuse(invalid(
            "torch.gradient only supports edge_order=1 and edge_order=2.",
        ));
    }
    let count = match &options.spacing {
        GradientSpacing::Step(_) => dims.len(),
        GradientSpacing::Steps(steps) => steps.len(),
        GradientSpacing::At(at) => at.len(),
    };
    if count != dims.len() {
        return refuse(invalid(format!(
            "torch.gradient expected spacing to be unspecified, a scalar or a list of length equal to 'self.dim() = {}', but got a list of length {count}",
            dims.len()
        )));
    }
    for &d in &dims {
        let n = x.dims().get(d).copied().unwrap_or(1);
        if (n as i64) < options.edge_order + 1 {
            return refuse(TorshError::shape(
                "",
                format!(
                    "torch.gradient expected each dimension size to be at least edge_order+1 = {}, got {n}",
                    options.edge_order + 1
                ),
            ));
        }
    }
    let each = dims.iter().enumerate();
    let all = each.map(|(i, &d)| match &options.spacing {
        GradientSpacing::Step(step) => evenly(x, d, *step, options.edge_order),
        GradientSpacing::Steps(steps) => evenly(x, d, steps[i], options.edge_order),
        GradientSpacing::At(at) => unevenly(x, d, &at[i], options.edge_order),
    });
    x.named("gradient", all.collect())
}

/// The derivative along a dimension whose elements are `step` apart.
fn evenly(x: &Tensor, d: usize, step: f64, order: i64) -> Result<Tensor> {
    let n = x.dims()[d] as i64;
    let at = |k: i64| x.narrow(d, k.rem_euclid(n), 1);
    let sum = |terms: [(i64, f64); 3]| -> Result<Tensor> {
        let [a, b, c] = terms.map(|(k, f)| at(k).and_then(|x| x.mul(f / step)));
        a?.add(b?)?.add(c?)
    };
    let (first, last) = match order {
        1 => (
            at(1)?.sub(at(0)?)?.div(step)?,
            at(-1)?.sub(at(-2)?)?.div(step)?,
        ),
        _ => (
            sum([(0, -1.5), (1, 2.0), (2, -0.5)])?,
            sum([(-3, 0.5), (-2, -2.0), (-1, 1.5)])?,
        ),
    };
    let inner = x
        .narrow(d, 2, n - 2)?
        .sub(x.narrow(d, 0, n - 2)?)?
        .div(2.0 * step)?;
    Tensor::cat(&[first, inner, last], d)
}

/// The derivative along a dimension whose elements are at `at`.
fn unevenly(x: &Tensor, d: usize, at: &Tensor, order: i64) -> Result<Tensor> {
    let n = x.dims()[d] as i64;
    if at.ndim() != 1 || at.numel() as i64 != n {
        return Err(TorshError::shape(
            "",
            format!(
                "torch.gradient expected the coordinates of dimension {d} to be a vector of {n}, got {:?}",
                at.dims()
            ),
        ));
    }
    let mut sizes = vec![1i64; x.ndim()];
    sizes[d] = -1;
    let steps = at.diff()?.reshape(&sizes[..])?;
    let take = |t: &Tensor, k: i64, count: i64| t.narrow(d, k, count);
    // Weights of three neighbours, for the derivative at each of them.
    let weights = |h1: &Tensor, h2: &Tensor, which: i64| -> Result<[Tensor; 3]> {
        let both = h1.add(h2)?;
        let (first, product, last) = (h1.mul(&both)?, h1.mul(h2)?, h2.mul(&both)?);
        let (a, b, c) = match which {
            0 => (h1.mul(-2.0)?.sub(h2)?, both, h1.neg()?),
            1 => (h2.neg()?, h2.sub(h1)?, h1.clone()),
            _ => (h2.clone(), both.neg()?, h2.mul(2.0)?.add(h1)?),
        };
        Ok([a.div(&first)?, b.div(&product)?, c.div(&last)?])
    };
    let joined = |[a, b, c]: [Tensor; 3], from: i64, count: i64| -> Result<Tensor> {
        let parts = [
            a.mul(take(x, from, count)?)?,
            b.mul(take(x, from + 1, count)?)?,
            c.mul(take(x, from + 2, count)?)?,
        ];
        parts[0].add(&parts[1])?.add(&parts[2])
    };
    let (first, last) = match order {
        1 => {
            let ends = |k: i64, j: i64| {
                take(x, k + 1, 1)?
                    .sub(take(x, k, 1)?)?
                    .div(take(&steps, j, 1)?)
            };
            (ends(0, 0)?, ends(n - 2, n - 2)?)
        }
        _ => {
            let (a, b) = (take(&steps, 0, 1)?, take(&steps, 1, 1)?);
            let (y, z) = (take(&steps, n - 3, 1)?, take(&steps, n - 2, 1)?);
            (
                joined(weights(&a, &b, 0)?, 0, 1)?,
                joined(weights(&y, &z, 2)?, n - 3, 1)?,
            )
        }
    };
    let (h1, h2) = (take(&steps, 0, n - 2)?, take(&steps, 1, n - 2)?);
    let inner = joined(weights(&h1, &h2, 1)?, 0, n - 2)?;
    Tensor::cat(&[first, inner, last], d)
}

#[track_caller]
fn cov(x: &Tensor, options: &CovOptions) -> Result<Tensor> {
    let site = CallSite::here("cov");
    if x.ndim() > 2 {
        let text = format!(
            "expected input to have two or fewer dimensions but got an input with {} dimensions",
            x.ndim()
        );
        return Err(TorshError::shape("", text));
    }
    if x.dtype() == DType::Bool {
        return Err(TorshError::dtype(
            "",
            "bool dtype is not supported for inputs",
        ));
    }
    let x = match x.ndim() {
        2 => x.clone(),
        _ => x.reshape([1, x.numel() as i64])?,
    };
    let n = x.dims()[1];
    let checked = |w: &Tensor, name: &str, integral: bool| -> Result<()> {
        if w.ndim() > 1 {
            let text = format!(
                "expected {name} to have one or fewer dimensions but got {name} with {} dimensions",
                w.ndim()
            );
            return Err(TorshError::shape("", text));
        }
        let (fine, kind) = match integral {
            true => (w.dtype().is_integer(), "integral"),
            false => (w.dtype().is_floating_point(), "floating point"),
        };
        if !fine {
            return Err(TorshError::dtype(
                "",
                format!(
                    "expected {name} to have {kind} dtype but got {name} with {} dtype",
                    w.dtype()
                ),
            ));
        }
        if w.numel() != n {
            let text = format!(
                "expected {name} to have the same numel as there are observations in the input but got {} != {n}",
                w.numel()
            );
            return Err(TorshError::shape("", text));
        }
        let why = format!("{name} cannot be negative");
        crate::check::check(&w.detach().ge(0)?, site, || Assert::value(why.clone()))
    };
    let mut weights: Option<Tensor> = None;
    if let Some(w) = &options.fweights {
        checked(w, "fweights", true)?;
        weights = Some(w.clone());
    }
    if let Some(w) = &options.aweights {
        checked(w, "aweights", false)?;
        weights = Some(match weights {
            Some(f) => f.mul(w)?,
            None => w.clone(),
        });
    }
    let (total, mean) = match &weights {
        Some(w) => {
            let total = w.sum()?;
            crate::check::check(&total.detach().ne(0)?, site, || {
                Assert::value("weights sum to zero, can't be normalized")
            })?;
            let mean = x.mul(w)?.sum_dim(1, true)?.div(&total)?;
            (Some(total), mean)
        }
        None => (None, x.sum_dim(1, true)?.div(n as f64)?),
    };
    let apart = x.sub(&mean)?;
    let right = match &weights {
        Some(w) => apart.mul(w)?,
        None => apart.clone(),
    };
    let product = apart.matmul(&right.t()?.conj()?)?;
    let c = options.correction as f64;
    let result = match (total, &weights, &options.aweights) {
        (Some(total), Some(w), Some(a)) if options.correction != 0 => {
            let taken = w.mul(a)?.sum()?.mul(c)?.div(&total)?;
            product.div(&total.sub(&taken)?.clamp_min(0)?)?
        }
        (Some(total), ..) => product.div(&total.sub(c)?.clamp_min(0)?)?,
        _ => product.div((n as f64 - c).max(0.0))?,
    };
    result.squeeze(())
}

#[track_caller]
fn corrcoef(x: &Tensor) -> Result<Tensor> {
    let c = x.cov()?;
    if c.ndim() == 0 {
        return c.div(&c);
    }
    let d = c.diagonal()?.real()?.sqrt()?;
    let c = c.div(&d.unsqueeze(1)?)?.div(&d.unsqueeze(0)?)?;
    match c.is_complex() {
        true => complex(&c.real()?.clamp(-1, 1)?, &c.imag()?.clamp(-1, 1)?),
        false => c.clamp(-1, 1),
    }
}

fn combinations(x: &Tensor, r: i64, with_replacement: bool) -> Result<Tensor> {
    if x.ndim() != 1 {
        return Err(TorshError::shape(
            "",
            format!("Expect a 1D vector, but got shape {:?}", x.dims()),
        ));
    }
    if r < 0 {
        return Err(invalid(format!(
            "Expect a non-negative number, but got {r}"
        )));
    }
    if r == 0 {
        return Tensor::empty([0], x.dtype(), x.device());
    }
    let (n, r) = (x.numel(), r as usize);
    // How many there are: n over r, or n + r - 1 over r.
    let from = match with_replacement {
        true => n.saturating_add(r - 1),
        false => n,
    };
    let mut count: u128 = if n == 0 || r > from { 0 } else { 1 };
    for k in 0..r.min(from.saturating_sub(r)) as u128 {
        count = count.saturating_mul(from as u128 - k) / (k + 1);
        if count > 1 << 60 {
            break;
        }
    }
    let cells = usize::try_from(count.saturating_mul(r as u128)).unwrap_or(usize::MAX);
    torsh_core::alloc::check(cells, size_of::<i64>())?;
    let mut rows: Vec<i64> = Vec::with_capacity(cells);
    let mut row: Vec<usize> = match with_replacement {
        true => vec![0; r.min(cells.max(1))],
        false => (0..r.min(cells.max(1))).collect(),
    };
    for _ in 0..count {
        rows.extend(row.iter().map(|&v| v as i64));
        // The next one: the last element that can go up does, and those behind it begin above it.
        let most = |i: usize| if with_replacement { n - 1 } else { n - r + i };
        let Some(i) = (0..r).rev().find(|&i| row[i] < most(i)) else {
            break;
        };
        row[i] += 1;
        for j in i + 1..r {
            row[j] = row[j - 1] + usize::from(!with_replacement);
        }
    }
    let index = Tensor::from_data_on(&rows, [rows.len()], x.device())?;
    x.index_select(0, &index)?.reshape([count as usize, r])
}

fn rot90(x: &Tensor, k: i64, dims: &[i64]) -> Result<Tensor> {
    let &[a, b] = dims else {
        return Err(invalid(format!(
            "expected total rotation dims == 2, but got dims = {}",
            dims.len()
        )));
    };
    if x.ndim() < 2 {
        return Err(TorshError::shape(
            "",
            format!(
                "expected total dims >= 2, but got total dims = {}",
                x.ndim()
            ),
        ));
    }
    let (a, b) = (x.dim("rot90", a)?, x.dim("rot90", b)?);
    if a == b {
        return Err(invalid(format!(
            "expected rotation dims to be different, but got dim0 = {a} and dim1 = {b}"
        )));
    }
    match k.rem_euclid(4) {
        1 => x.flip(b)?.transpose(a, b)?.copy(),
        2 => x.flip([a, b]),
        3 => x.flip(a)?.transpose(a, b)?.copy(),
        _ => x.copy(),
    }
}

#[track_caller]
fn trapezoid(
    op: &'static str,
    y: &Tensor,
    x: Option<&Tensor>,
    dx: f64,
    dim: i64,
    cumulative: bool,
) -> Result<Tensor> {
    let integral = || {
        if y.dtype() == DType::Bool || x.is_some_and(|x| x.dtype() == DType::Bool) {
            return Err(TorshError::dtype(
                "",
                "received a bool input, but bool is not supported",
            ));
        }
        if y.ndim() == 0 {
            return Err(TorshError::shape(
                "",
                "the function has no dimension to integrate along",
            ));
        }
        let d = y.dim(op, dim)?;
        let n = y.dims()[d];
        if n == 0 && !cumulative {
            // The integral over no points.
            let zero = y.sum_dim(d, false)?;
            return if zero.dtype().is_differentiable() {
                Ok(zero)
            } else {
                zero.to_dtype(torsh_core::default_dtype())
            };
        }
        let count = n.saturating_sub(1);
        let steps = match x {
            None => None,
            Some(x) => {
                let (mut x, d) = match x.ndim() {
                    1 => {
                        if x.numel() != n {
                            let text = "There must be one `x` value for each sample point";
                            return Err(TorshError::shape("", text));
                        }
                        let mut sizes = vec![1i64; y.ndim()];
                        sizes[d] = -1;
                        (x.reshape(&sizes[..])?, d)
                    }
                    _ => (x.clone(), d),
                };
                while x.ndim() < y.ndim() {
                    x = x.unsqueeze(0)?;
                }
                let m = x.dims()[d + x.ndim() - y.ndim()].saturating_sub(1);
                let at = d + x.ndim() - y.ndim();
                Some(x.narrow(at, 1.min(m), m)?.sub(x.narrow(at, 0, m)?)?)
            }
        };
        let (low, high) = (y.narrow(d, 0, count)?, y.narrow(d, 1.min(n), count)?);
        let pairs = low.add(&high)?;
        let along = d as i64 - y.ndim() as i64;
        let (areas, half) = match &steps {
            Some(steps) => (pairs.mul(steps)?, 0.5),
            None => (pairs, 0.5 * dx),
        };
        match cumulative {
            true => areas.cumsum(along)?.mul(half),
            false => areas.sum_dim(along, false)?.mul(half),
        }
    };
    y.named(op, integral().map_err(|e| e.renamed(op)))
}

fn isreal(x: &Tensor) -> Result<Tensor> {
    match x.is_complex() {
        true => x.imag()?.eq(0),
        false => Tensor::ones(x.shape(), DType::Bool, x.device()),
    }
}

#[track_caller]
fn is_nonzero(x: &Tensor) -> Result<bool> {
    if x.numel() != 1 {
        let text = match x.numel() {
            0 => "Boolean value of Tensor with no values is ambiguous",
            _ => "Boolean value of Tensor with more than one value is ambiguous",
        };
        return x.named("is_nonzero", Err(TorshError::shape("", text)));
    }
    x.ne(0)?.item::<bool>()
}

fn dim_order(x: &Tensor) -> Vec<usize> {
    let mut dims: Vec<usize> = (0..x.ndim()).collect();
    dims.sort_by_key(|&d| std::cmp::Reverse(x.stride()[d]));
    dims
}

/// `2^k` for integers `k` from -126 to 127 (float32), by its bits.
fn power_of_two(k: &Tensor, dtype: DType) -> Result<Tensor> {
    let (bias, shift, bits) = match dtype {
        DType::F64 => (1023, 1i64 << 52, DType::I64),
        _ => (127, 1i64 << 23, DType::I32),
    };
    k.to_dtype(bits)?.add(bias)?.mul(shift)?.view_dtype(dtype)
}

/// Mantissa and exponent of float32 or float64.
fn parts_of(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let (bias, shift, mask, bits, up) = match x.dtype() {
        DType::F64 => (1022i64, 52i64, 0x7ffi64, DType::I64, 54i64),
        _ => (126, 23, 0xff, DType::I32, 25),
    };
    let values = x.detach();
    let field = |t: &Tensor| {
        t.contiguous()?
            .view_dtype(bits)?
            .bitwise_right_shift(shift)?
            .bitwise_and(mask)
    };
    let usual = field(&values)?;
    // Subnormal numbers are made normal first.
    let small = usual.eq(0)?;
    let scaled = field(&values.mul(f64::powi(2.0, up as i32))?)?.sub(up)?;
    let exponent = Tensor::where_(&small, &scaled, &usual)?.sub(bias)?;
    let plain = values
        .eq(0)?
        .logical_or(&values.isfinite()?.logical_not()?)?;
    let exponent = exponent.masked_fill(&plain, 0)?;
    // In two steps, because the inverse of one power may be out of range.
    let half = exponent.neg()?.to_dtype(bits)?.bitwise_right_shift(1)?;
    let rest = exponent.neg()?.sub(&half)?;
    let dtype = x.dtype();
    let mantissa = x
        .mul(&power_of_two(&half, dtype)?)?
        .mul(&power_of_two(&rest, dtype)?)?;
    Ok((mantissa, exponent.to_dtype(DType::I32)?))
}

fn frexp(x: &Tensor) -> Result<(Tensor, Tensor)> {
    match x.dtype() {
        DType::F32 | DType::F64 => parts_of(x),
        DType::F16 | DType::BF16 => {
            let (mantissa, exponent) = parts_of(&x.to_dtype(DType::F32)?)?;
            Ok((mantissa.to_dtype(x.dtype())?, exponent))
        }
        d => Err(TorshError::dtype(
            "",
            format!("torch.frexp() only supports floating-point dtypes, got {d}"),
        )),
    }
}

fn unravel_index(x: &Tensor, shape: &[i64]) -> Result<Vec<Tensor>> {
    if !x.dtype().is_integer() {
        let text = format!(
            "expected 'indices' to be integer dtype, but got {}",
            x.dtype()
        );
        return Err(TorshError::dtype("", text).with_hint("convert it with to_dtype(DType::I64)"));
    }
    if shape.iter().any(|&n| n < 0) {
        return Err(invalid(format!(
            "'shape' cannot have negative values, but got {shape:?}"
        )));
    }
    let mut parts = Vec::with_capacity(shape.len());
    let mut step = 1i64;
    let x = x.to_dtype(DType::I64)?;
    for &n in shape.iter().rev() {
        let part = x.floor_divide(step)?;
        parts.push(if n == 0 {
            part.zeros_like()?
        } else {
            part.remainder(n)?
        });
        step = step.saturating_mul(n.max(1));
    }
    parts.reverse();
    Ok(parts)
}

fn nonzero_static(x: &Tensor, size: i64, fill_value: i64) -> Result<Tensor> {
    let Ok(size) = usize::try_from(size) else {
        return Err(invalid("'size' must be an non-negative integer"));
    };
    let shape = [size, x.ndim()];
    if !x.device().has_data() {
        return Tensor::empty(shape, DType::I64, x.device());
    }
    let out = Tensor::full(shape, fill_value, DType::I64, x.device())?;
    let found = x.nonzero()?;
    let count = found.dims()[0].min(size);
    out.narrow(0, 0, count)?
        .copy_(&found.narrow(0, 0, count)?)?;
    Ok(out)
}

fn index_reduce(
    x: &Tensor,
    dim: i64,
    index: &Tensor,
    source: &Tensor,
    reduce: &str,
    include_self: bool,
) -> Result<Tensor> {
    if !matches!(reduce, "prod" | "mean" | "amax" | "amin") {
        let text =
            format!("reduce argument must be either prod, mean, amax or amin, got {reduce}.");
        return Err(invalid(text));
    }
    let d = x.dim("index_reduce", dim)?;
    if index.ndim() > 1 {
        return Err(TorshError::index(
            "",
            format!("Index should have dimension 1 or 0 (got {})", index.ndim()),
        ));
    }
    if !matches!(index.dtype(), DType::I64 | DType::I32) {
        return Err(TorshError::dtype(
            "",
            format!(
                "Expected dtype int32/int64 for index, got {}",
                index.dtype()
            ),
        ));
    }
    if source.dtype() != x.dtype() {
        let text = format!(
            "self and source expected to have the same dtype, but got self {} and source {}",
            x.dtype(),
            source.dtype()
        );
        return Err(TorshError::dtype("", text));
    }
    let line = |t: &Tensor| {
        if t.ndim() == 0 {
            t.reshape([1])
        } else {
            Ok(t.clone())
        }
    };
    let (this, from, index) = (line(x)?, line(source)?, line(index)?);
    let fits = this.ndim() == from.ndim()
        && from.dims()[d] == index.numel()
        && (0..this.ndim()).all(|k| k == d || this.dims()[k] == from.dims()[k]);
    if !fits {
        let text = format!(
            "source must have {} slices of self's shape along dimension {d}: self {:?}, source {:?}",
            index.numel(),
            x.dims(),
            source.dims()
        );
        return Err(TorshError::shape("", text));
    }
    let mut sizes = vec![1i64; this.ndim()];
    sizes[d] = -1;
    let index = index
        .to_dtype(DType::I64)?
        .reshape(&sizes[..])?
        .expand(from.shape())?;
    let options = ScatterReduceOptions::new().include_self(include_self);
    this.scatter_reduce_with(d, &index, &from, reduce, options)?
        .reshape(x.shape())
}

#[track_caller]
fn parts(op: &'static str, a: &Tensor, b: &Tensor) -> Result<()> {
    let fine = |t: &Tensor| matches!(t.dtype(), DType::F32 | DType::F64);
    if !fine(a) || !fine(b) {
        let text = format!(
            "Expected both inputs to be Float or Double tensors but got {} and {}",
            a.dtype(),
            b.dtype()
        );
        return a.named(op, Err(TorshError::dtype("", text)));
    }
    if a.dtype() != b.dtype() {
        let text = format!(
            "Expected object of scalar type {} but got scalar type {} for second argument",
            a.dtype(),
            b.dtype()
        );
        return a.named(op, Err(TorshError::dtype("", text)));
    }
    Ok(())
}

#[track_caller]
fn complex(real: &Tensor, imag: &Tensor) -> Result<Tensor> {
    parts("complex", real, imag)?;
    let both = Tensor::broadcast_tensors(&[real, imag]).map_err(|e| e.renamed("complex"))?;
    Tensor::stack(&both, -1)?.view_as_complex()
}

#[track_caller]
fn polar(abs: &Tensor, angle: &Tensor) -> Result<Tensor> {
    parts("polar", abs, angle)?;
    let (x, y) = (abs.mul(&angle.cos()?), abs.mul(&angle.sin()?));
    let rename = |e: TorshError| e.renamed("polar");
    complex(&x.map_err(rename)?, &y.map_err(rename)?).map_err(rename)
}
