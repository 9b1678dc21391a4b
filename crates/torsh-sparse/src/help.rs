//! What the functions share: names in errors, and index tensors on the host.

use smallvec::SmallVec;
use torsh_core::{DType, Device, Shape, TensorLayout};
use torsh_tensor::call::Outputs;
use torsh_tensor::observe;
use torsh_tensor::{Result, Tensor, TorshError};

/// Calls a kernel for the dtype of the call: `any` number, which is the default, a `real` one, or a `float`, which is
/// float32 or float64. An `indexed` kernel is called for the dtype of the indices as well, of which operand 1 has some.
macro_rules! by_dtype {
    ($c:ident, $f:ident $(, any $($indexed:ident)?)?) => {
        $crate::help::by_dtype!(
            $c, $f, real $($($indexed)?)?,
            C64 ::num_complex::Complex<f32>, C128 ::num_complex::Complex<f64>
        )
    };
    ($c:ident, $f:ident, real $($indexed:ident)? $(, $dtype:ident $t:ty)*) => {
        $crate::help::by_dtype!(
            $c, $f, float $($indexed)?,
            BF16 ::half::bf16, F16 ::half::f16, U8 u8, I8 i8, I16 i16, I32 i32, I64 i64
            $(, $dtype $t)*
        )
    };
    ($c:ident, $f:ident, float $(, $dtype:ident $t:ty)*) => {
        match $c.compute() {
            ::torsh_core::DType::F32 => $f::<f32>($c),
            ::torsh_core::DType::F64 => $f::<f64>($c),
            $(::torsh_core::DType::$dtype => $f::<$t>($c),)*
            _ => Err($c.unsupported()),
        }
    };
    ($c:ident, $f:ident, float indexed $(, $dtype:ident $t:ty)*) => {
        match ($c.compute(), $c.input::<i64>(1).is_ok()) {
            (::torsh_core::DType::F32, true) => $f::<f32, i64>($c),
            (::torsh_core::DType::F32, false) => $f::<f32, i32>($c),
            (::torsh_core::DType::F64, true) => $f::<f64, i64>($c),
            (::torsh_core::DType::F64, false) => $f::<f64, i32>($c),
            $(
                (::torsh_core::DType::$dtype, true) => $f::<$t, i64>($c),
                (::torsh_core::DType::$dtype, false) => $f::<$t, i32>($c),
            )*
            _ => Err($c.unsupported()),
        }
    };
}
pub(crate) use by_dtype;

/// Runs a function that is written in ops: observers see it, and errors name it.
#[track_caller]
pub(crate) fn within<T>(
    op: &'static str,
    args: &[&Tensor],
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    observe::composite(op, args, f).map_err(|e| e.renamed(op))
}

/// An error of a kernel, with the layout of the matrix whose parts it reads where a device lacks the kernel.
pub(crate) fn of_layout(e: TorshError, layout: TensorLayout) -> TorshError {
    match e {
        TorshError::DeviceMismatch(mut info) => {
            info.message = format!("{}, of a matrix of the layout {layout}", info.message);
            TorshError::DeviceMismatch(info)
        }
        e => e,
    }
}

/// The dtype that results of a dtype are computed in: float32 for the half types.
fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// What a function makes of tensors of one dtype. Those of a half type are widened to float32 and the result is rounded:
/// once, whatever the function does.
pub(crate) fn rounded_once<const N: usize>(
    dtype: DType,
    tensors: [&Tensor; N],
    f: impl FnOnce([&Tensor; N]) -> Result<Tensor>,
) -> Result<Tensor> {
    let wide = wide(dtype);
    if wide == dtype {
        return f(tensors);
    }
    let each = tensors.iter().map(|t| t.to_dtype(wide));
    let all = each.collect::<Result<Vec<Tensor>>>()?;
    f(std::array::from_fn(|i| &all[i]))?.to_dtype(dtype)
}

/// The error of a strided gradient of a sparse operand that does not fit the memory; `instead` says what keeps its pattern.
pub(crate) fn no_room(shape: &Shape, instead: &str) -> TorshError {
    TorshError::failed(
        "",
        format!(
            "the gradient of a sparse operand of shape {shape} is strided, and does not fit the memory"
        ),
    )
    .with_hint(instead)
}

/// One result.
pub(crate) fn one(t: Tensor) -> Outputs {
    SmallVec::from_iter([t])
}

/// The first result.
pub(crate) fn first(outs: Outputs) -> Result<Tensor> {
    outs.into_iter()
        .next()
        .ok_or_else(|| TorshError::failed("", "the op gave no result"))
}

/// The elements of an index tensor, int32 or int64.
pub(crate) fn host(index: &Tensor) -> Result<Vec<i64>> {
    match index.dtype() {
        DType::I32 => Ok(index.to_vec::<i32>()?.into_iter().map(i64::from).collect()),
        _ => index.to_vec::<i64>(),
    }
}

/// An index tensor of these elements.
pub(crate) fn index_tensor(
    data: Vec<i64>,
    shape: &[usize],
    dtype: DType,
    device: Device,
) -> Result<Tensor> {
    Tensor::from_vec(data, shape)?
        .to_dtype(dtype)?
        .to_device(device)
}

/// A list of positions as an int64 tensor.
pub(crate) fn positions(list: &[usize], device: Device) -> Result<Tensor> {
    let data: Vec<i64> = list.iter().map(|&i| i as i64).collect();
    let n = data.len();
    index_tensor(data, &[n], DType::I64, device)
}

/// The sizes `a`, then `b`.
pub(crate) fn sizes(a: &[usize], b: &[usize]) -> Vec<usize> {
    [a, b].concat()
}

/// The product of sizes.
///
/// # Errors
/// Where it is more than 64 bits hold.
pub(crate) fn product(sizes: &[usize]) -> Result<usize> {
    match sizes.contains(&0) {
        true => Ok(0),
        false => sizes
            .iter()
            .try_fold(1usize, |n, &s| n.checked_mul(s))
            .filter(|&n| n <= isize::MAX as usize)
            .ok_or_else(|| {
                TorshError::invalid(
                    "",
                    format!("the sizes {sizes:?} have more elements than memory can address"),
                )
            }),
    }
}

/// `to` plus the rows of `values` at the positions of `index`; where a bool is added twice it is true.
pub(crate) fn added(to: &Tensor, index: &Tensor, values: &Tensor) -> Result<Tensor> {
    match values.dtype() {
        DType::Bool => to
            .to_dtype(DType::I64)?
            .index_add(0, index, &values.to_dtype(DType::I64)?)?
            .ne(0),
        _ => to.index_add(0, index, values),
    }
}
