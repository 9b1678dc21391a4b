//! Distances of rows, images read at the places of a grid, and a convolution along time.

pub(crate) mod methods;
mod sampling;

use torsh_core::{DType, Result, TorshError};

use crate::named::refused;
use crate::options::options;
use crate::schema::Bound;
use crate::{Conv1dOptions, Tensor};

pub(crate) use methods::RECORDS;
use sampling::{affine_grid, grid_sample};

options! {
    /// PyTorch's keyword arguments of `grid_sample`.
    ///
    /// ```
    /// use torsh_tensor::GridSampleOptions;
    /// let options = GridSampleOptions::new().mode("bicubic");
    /// assert_eq!((&options.mode[..], &options.padding_mode[..]), ("bicubic", "zeros"));
    /// ```
    GridSampleOptions {
        /// How values between pixels come about: `bilinear`, `nearest` or `bicubic`.
        mode: String = "bilinear".to_string(), &str => |m| m.to_string();
        /// What lies outside: `zeros`, the `border` or a `reflection`.
        padding_mode: String = "zeros".to_string(), &str => |m| m.to_string();
        /// Whether -1 and 1 are the centres of the outermost pixels; else their outer edges.
        align_corners: bool = false;
    }
}

impl GridSampleOptions {
    /// The options of numbers: 0, 1 and 2 are bilinear, nearest and bicubic, and zeros, border and reflection.
    ///
    /// ```
    /// use torsh_tensor::GridSampleOptions;
    /// assert_eq!(GridSampleOptions::numbered("grid_sampler", 1, 0, false)?.mode, "nearest");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Another number.
    pub fn numbered(
        op: &str,
        interpolation_mode: i64,
        padding_mode: i64,
        align_corners: bool,
    ) -> Result<GridSampleOptions> {
        let of = |names: [&str; 3], i: i64, what: &str| {
            let name = usize::try_from(i).ok().and_then(|i| names.get(i).copied());
            name.map(str::to_string).ok_or_else(|| {
                TorshError::invalid(op.to_string(), format!("{what} is 0, 1 or 2, got {i}"))
            })
        };
        Ok(GridSampleOptions {
            mode: of(
                ["bilinear", "nearest", "bicubic"],
                interpolation_mode,
                "interpolation_mode",
            )?,
            padding_mode: of(
                ["zeros", "border", "reflection"],
                padding_mode,
                "padding_mode",
            )?,
            align_corners,
        })
    }
}

fn grid_sampler(b: &Bound, op: &'static str) -> Result<Tensor> {
    let options = GridSampleOptions::numbered(op, b.int(2), b.int(3), b.bool(4))?;
    let y = b.tensor(0)?.grid_sample_with(b.tensor(1)?, options);
    y.map_err(|e| e.renamed(op))
}

/// Whether Euclidean distances come from a product of matrices.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    IfNecessary,
    Always,
    Never,
}

impl Mode {
    fn parse(b: &Bound) -> Result<Mode> {
        if b.is_none(3) {
            return Ok(Mode::IfNecessary);
        }
        match b.str(3) {
            "use_mm_for_euclid_dist_if_necessary" => Ok(Mode::IfNecessary),
            "use_mm_for_euclid_dist" => Ok(Mode::Always),
            "donot_use_mm_for_euclid_dist" => Ok(Mode::Never),
            other => {
                let words = [
                    "use_mm_for_euclid_dist_if_necessary",
                    "use_mm_for_euclid_dist",
                    "donot_use_mm_for_euclid_dist",
                ];
                Err(refused(other, "compute_mode", words).renamed("cdist"))
            }
        }
    }
}

fn p_fits(p: f64) -> Result<()> {
    // Written so that nan is refused.
    if p >= 0.0 {
        return Ok(());
    }
    Err(TorshError::invalid(
        "",
        format!("only supports non-negative p values, got {p}"),
    ))
}

fn floating(x: &Tensor, name: &str) -> Result<()> {
    if matches!(x.dtype(), DType::F32 | DType::F64) {
        return Ok(());
    }
    let text = format!(
        "only supports float32 and float64, {name} got: {}",
        x.dtype()
    );
    Err(TorshError::dtype("", text).with_hint("convert it with to_dtype(DType::F32)"))
}

/// The p-norm along the last dimension.
fn length(x: &Tensor, p: f64) -> Result<Tensor> {
    let size = x.dims()[x.ndim() - 1];
    if size == 0 {
        return x.sum_dim(-1, false);
    }
    if p == 0.0 {
        // Each difference other than 0 counts 1. As in PyTorch nan stays, and the gradients are 0.
        return x.abs()?.ceil()?.minimum(1.0)?.sum_dim(-1, false);
    }
    x.norm_with(crate::NormOptions::new().p(p).dim(-1))
}

fn cdist(a: &Tensor, b: &Tensor, p: f64, mode: Mode) -> Result<Tensor> {
    floating(a, "X1")?;
    floating(b, "X2")?;
    p_fits(p)?;
    if a.ndim() < 2 || b.ndim() < 2 {
        let text = format!(
            "only supports at least 2D tensors, got: {}D and {}D",
            a.ndim(),
            b.ndim()
        );
        return Err(TorshError::shape("", text));
    }
    let (rows, columns) = (a.dims()[a.ndim() - 2], a.dims()[a.ndim() - 1]);
    let (others, same) = (b.dims()[b.ndim() - 2], b.dims()[b.ndim() - 1]);
    if columns != same {
        let text =
            format!("X1 and X2 must have the same number of columns. X1: {columns} X2: {same}");
        return Err(TorshError::shape("", text));
    }
    let many = rows > 25 || others > 25;
    if p == 2.0 && columns > 0 && (mode == Mode::Always || mode == Mode::IfNecessary && many) {
        // |a|^2 - 2 a b + |b|^2, as one product of matrices that are two columns wider.
        let square = |x: &Tensor| x.square()?.sum_dim(-1, true);
        let (x, y) = (square(a)?, square(b)?);
        let left = Tensor::cat(&[a.mul(-2.0)?, x.clone(), x.ones_like()?], -1)?;
        let right = Tensor::cat(&[b.clone(), y.ones_like()?, y.clone()], -1)?;
        let squares = left.matmul(&right.transpose(-2, -1)?)?.clamp_min(0)?;
        // The root has no derivative at 0, where PyTorch's is 0.
        let zero = squares.detach().le(0)?;
        return squares.masked_fill(&zero, 1)?.sqrt()?.masked_fill(&zero, 0);
    }
    length(&a.unsqueeze(-2)?.sub(&b.unsqueeze(-3)?)?, p)
}

fn pdist(x: &Tensor, p: f64) -> Result<Tensor> {
    if x.ndim() != 2 {
        return Err(TorshError::shape(
            "",
            format!("pdist only supports 2D tensors, got: {}D", x.ndim()),
        ));
    }
    floating(x, "the input")?;
    p_fits(p)?;
    let n = x.dims()[0];
    let pairs = n
        .checked_mul(n.saturating_sub(1))
        .map_or(usize::MAX, |v| v / 2);
    torsh_core::alloc::check(pairs, 16)?;
    let each = |f: fn((i64, i64)) -> i64| -> Result<Tensor> {
        let all = (0..n as i64).flat_map(|i| (i + 1..n as i64).map(move |j| (i, j)));
        let index: Vec<i64> = all.map(f).collect();
        x.index_select(0, &Tensor::from_data_on(&index, [index.len()], x.device())?)
    };
    length(&each(|p| p.0)?.sub(&each(|p| p.1)?)?, p)
}

fn conv_tbc(x: &Tensor, weight: &Tensor, bias: &Tensor, pad: i64) -> Result<Tensor> {
    if x.ndim() != 3 || weight.ndim() != 3 || bias.ndim() != 1 {
        let text = "expects an input [time, batch, channels], a weight [kernel, channels, outputs] and a bias [outputs]";
        return Err(TorshError::shape("", text));
    }
    let y = x.permute([1, 2, 0])?.conv1d_with(
        &weight.permute([2, 1, 0])?,
        Some(bias),
        Conv1dOptions::new().padding(pad),
    )?;
    y.permute([2, 0, 1])
}
