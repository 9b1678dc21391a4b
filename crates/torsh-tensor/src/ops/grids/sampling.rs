//! `grid_sample` and `affine_grid`, written in other ops.
//!
//! Along each dimension a place lies between one (nearest), two (bilinear) or four (bicubic) pixels, each with a
//! weight. The result is the sum over all their combinations.

use torsh_core::{DType, Result, TorshError};

use super::GridSampleOptions;
use crate::{NanToNumOptions, Tensor};

#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

/// A pixel along a dimension: its index, whether it is there, and its weight (none is 1).
struct Tap {
    index: Tensor,
    there: Tensor,
    weight: Option<Tensor>,
}

/// A dimension of the images.
struct Axis {
    size: f64,
    align: bool,
    padding: Padding,
    /// Whether the images are volumes, for which PyTorch rounds in another order.
    volume: bool,
}

impl Axis {
    /// A coordinate from -1 to 1 in pixels.
    fn in_pixels(&self, x: &Tensor) -> Result<Tensor> {
        let from_edge = x.add(1.0)?;
        match (self.align, self.volume) {
            (true, false) => from_edge.mul((self.size - 1.0) / 2.0),
            (false, false) => from_edge.mul(self.size / 2.0)?.sub(0.5),
            (true, true) => from_edge.div(2.0)?.mul(self.size - 1.0),
            (false, true) => from_edge.mul(self.size)?.sub(1.0)?.div(2.0),
        }
    }

    fn reflected(&self, x: &Tensor) -> Result<Tensor> {
        let (shift, twice) = match self.align {
            true => (0.0, 2.0 * (self.size - 1.0)),
            false => (0.5, 2.0 * self.size),
        };
        if twice == 0.0 {
            return x.mul(0.0);
        }
        let away = x.add(shift)?.abs()?;
        let turns = away.detach().div(twice)?.trunc()?;
        let rest = away.sub(&turns.mul(twice)?)?;
        let other = rest.mul(-1.0)?.add(twice)?;
        Tensor::where_(&rest.le(&other)?, &rest, &other)?.sub(shift)
    }

    /// A coordinate in pixels, where the padding puts it.
    fn padded(&self, x: &Tensor) -> Result<Tensor> {
        let last = self.size - 1.0;
        let inside = match self.padding {
            // Outside of a volume, whose result is 0 there.
            Padding::Zeros if self.volume => {
                let beside = NanToNumOptions::new().nan(-2.0).posinf(-2.0).neginf(-2.0);
                return x.nan_to_num_with(beside);
            }
            // Of an image, nan stays.
            Padding::Zeros => return Ok(x.clone()),
            Padding::Border => x.clone(),
            Padding::Reflection => self.reflected(x)?,
        };
        // PyTorch's comparisons take nan to the first pixel of images and to the last one of volumes.
        let nan = if self.volume { last } else { 0.0 };
        inside
            .nan_to_num_with(NanToNumOptions::new().nan(nan))?
            .clamp(0.0, last)
    }

    /// The pixel at a whole coordinate.
    fn tap(&self, at: &Tensor, weight: Option<Tensor>) -> Result<Tap> {
        let at = at.detach();
        // False for nan, too.
        let there = at.ge(0.0)?.logical_and(&at.le(self.size - 1.0)?)?;
        let index = at.where_zero(&there, false)?.to_dtype(DType::I64)?;
        Ok(Tap {
            index,
            there,
            weight,
        })
    }

    fn taps(&self, grid: &Tensor, mode: &str) -> Result<Vec<Tap>> {
        let x = self.in_pixels(grid)?;
        if mode == "bicubic" {
            let floor = x.detach().floor()?;
            let t = x.sub(&floor)?;
            let weights = cubic(&t)?;
            let each = weights.into_iter().zip([-1.0, 0.0, 1.0, 2.0]);
            return each
                .map(|(w, by)| self.tap(&self.padded(&floor.add(by)?)?, Some(w)))
                .collect();
        }
        let x = self.padded(&x)?;
        if mode == "nearest" {
            return Ok(vec![self.tap(&x.round()?, None)?]);
        }
        let floor = x.detach().floor()?;
        let above = x.sub(&floor)?;
        let below = above.mul(-1.0)?.add(1.0)?;
        Ok(vec![
            self.tap(&floor, Some(below))?,
            self.tap(&floor.add(1.0)?, Some(above))?,
        ])
    }
}

/// The weights of four pixels for a place `t` behind the second one: Keys' cubic convolution with -0.75.
fn cubic(t: &Tensor) -> Result<[Tensor; 4]> {
    const A: f64 = -0.75;
    let near = |x: &Tensor| x.mul(A + 2.0)?.sub(A + 3.0)?.mul(x)?.mul(x)?.add(1.0);
    let far = |x: &Tensor| {
        x.mul(A)?
            .sub(5.0 * A)?
            .mul(x)?
            .add(8.0 * A)?
            .mul(x)?
            .sub(4.0 * A)
    };
    let rest = t.mul(-1.0)?.add(1.0)?;
    Ok([
        far(&t.add(1.0)?)?,
        near(t)?,
        near(&rest)?,
        far(&rest.add(1.0)?)?,
    ])
}

pub(super) fn grid_sample(
    x: &Tensor,
    grid: &Tensor,
    options: &GridSampleOptions,
) -> Result<Tensor> {
    let invalid = |text: String| Err(TorshError::invalid("", text));
    let shape = |text: String| Err(TorshError::shape("", text));
    let mode = options.mode.as_str();
    if !matches!(mode, "bilinear" | "nearest" | "bicubic") {
        return invalid(format!(
            "expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        ));
    }
    let padding = match options.padding_mode.as_str() {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        other => {
            return invalid(format!(
                "expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{other}'"
            ));
        }
    };
    let rank = x.ndim().wrapping_sub(2);
    if !matches!(rank, 2 | 3) || grid.ndim() != x.ndim() {
        return shape(format!(
            "expected 4D or 5D input and grid with same number of dimensions, but got input with sizes {:?} and grid with sizes {:?}",
            x.dims(),
            grid.dims()
        ));
    }
    if x.dims()[0] != grid.dims()[0] {
        return shape(format!(
            "expected grid and input to have same batch size, but got {:?} and {:?}",
            x.dims(),
            grid.dims()
        ));
    }
    if grid.dims()[rank + 1] != rank {
        return shape(format!(
            "expected grid to have size {rank} in last dimension, but got grid with sizes {:?}",
            grid.dims()
        ));
    }
    if x.dims()[2..].contains(&0) {
        return shape(format!(
            "expected input to have non-empty spatial dimensions, but input has sizes {:?}",
            x.dims()
        ));
    }
    if x.dtype() != grid.dtype() {
        return Err(TorshError::dtype(
            "",
            format!(
                "expected input and grid to have same dtype, but input has {} and grid has {}",
                x.dtype(),
                grid.dtype()
            ),
        ));
    }
    match x.dtype() {
        // The half types round each step, as PyTorch's do.
        d if d.is_floating_point() => sampled(x, grid, mode, padding, options.align_corners),
        d => Err(TorshError::dtype("", format!("not implemented for {d}"))
            .with_hint("convert it with to_dtype(DType::F32)")),
    }
}

fn sampled(x: &Tensor, grid: &Tensor, mode: &str, padding: Padding, align: bool) -> Result<Tensor> {
    let rank = x.ndim() - 2;
    let (batch, channels) = (x.dims()[0], x.dims()[1]);
    let sizes = &x.dims()[2..];
    let places: usize = grid.dims()[1..=rank].iter().product();
    let places_by = grid.reshape([batch, places, rank])?;
    // The grid has the last dimension of the images first.
    let axes = (0..rank).map(|d| {
        let axis = Axis {
            size: sizes[d] as f64,
            align,
            padding,
            volume: rank == 3,
        };
        axis.taps(&places_by.select(2, rank - 1 - d)?, mode)
    });
    let axes = axes.collect::<Result<Vec<_>>>()?;
    let pixels = x.reshape([batch, channels, sizes.iter().product()])?;
    let mut sum: Option<Tensor> = None;
    let combinations: usize = axes.iter().map(Vec::len).product();
    for which in 0..combinations {
        // The last dimension of the images changes first.
        let mut rest = which;
        let mut chosen = Vec::with_capacity(rank);
        let mut weight: Option<Tensor> = None;
        for taps in axes.iter().rev() {
            let tap = &taps[rest % taps.len()];
            rest /= taps.len();
            weight = match (weight, &tap.weight) {
                (Some(a), Some(b)) => Some(a.mul(b)?),
                (a, b) => a.or_else(|| b.clone()),
            };
            chosen.push(tap);
        }
        let mut index: Option<Tensor> = None;
        let mut there: Option<Tensor> = None;
        for (d, tap) in chosen.into_iter().rev().enumerate() {
            index = Some(match index {
                Some(i) => i.mul(sizes[d] as i64)?.add(&tap.index)?,
                None => tap.index.clone(),
            });
            there = Some(match there {
                Some(t) => t.logical_and(&tap.there)?,
                None => tap.there.clone(),
            });
        }
        let (Some(index), Some(there)) = (index, there) else {
            return Err(TorshError::shape("", "the grid has no dimension"));
        };
        let index = index.unsqueeze(1)?.expand([batch, channels, places])?;
        let mut value = pixels
            .gather(2, &index)?
            .where_zero(&there.unsqueeze(1)?, false)?;
        if let Some(w) = weight {
            // A weight that is nan stays in the product, although the pixel counts as 0.
            value = value.mul(&w.unsqueeze(1)?)?;
        }
        sum = Some(match sum {
            Some(s) => s.add(&value)?,
            None => value,
        });
    }
    let Some(mut sum) = sum else {
        return Err(TorshError::shape("", "the grid has no dimension"));
    };
    if mode == "nearest" && grid.requires_grad() {
        // The place counts for nothing, but it has a gradient: zeros.
        let all = Tensor::ones(places_by.shape(), DType::Bool, grid.device())?;
        let zero = places_by.where_zero(&all, true)?;
        sum = sum.add(&zero.sum_dim(2, false)?.unsqueeze(1)?)?;
    }
    let mut shape = vec![batch, channels];
    shape.extend(&grid.dims()[1..=rank]);
    sum.reshape(&shape[..])
}

pub(super) fn affine_grid(theta: &Tensor, size: &[i64], align: bool) -> Result<Tensor> {
    if !theta.dtype().is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!(
                "Expected theta to have floating point type, but got {}",
                theta.dtype()
            ),
        ));
    }
    let rank = size.len().wrapping_sub(2);
    if !matches!(rank, 2 | 3) {
        return Err(TorshError::shape(
            "",
            format!(
                "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size {size:?}"
            ),
        ));
    }
    if size.iter().any(|&n| n <= 0) {
        return Err(TorshError::shape(
            "",
            format!("Expected non-zero, positive output size. Got {size:?}"),
        ));
    }
    if theta.dims() != [size[0] as usize, rank, rank + 1] {
        return Err(TorshError::shape(
            "",
            format!(
                "Expected a batch of {rank}D affine matrices of shape {}x{rank}x{} for size {size:?}. Got {:?}",
                size[0],
                rank + 1,
                theta.dims()
            ),
        ));
    }
    let (dtype, device) = (theta.dtype(), theta.device());
    let spatial = &size[2..];
    let mut columns = Vec::with_capacity(rank + 1);
    for d in (0..rank).rev() {
        let n = spatial[d];
        let line = match n {
            1 => Tensor::zeros([1], dtype, device)?,
            _ => Tensor::linspace(-1.0, 1.0, n, dtype, device)?,
        };
        let line = match align {
            true => line,
            false => line.mul((n - 1) as f64 / n as f64)?,
        };
        let mut shape = vec![1i64; rank];
        shape[d] = -1;
        columns.push(line.reshape(&shape[..])?.expand(spatial)?);
    }
    columns.push(Tensor::ones(spatial, dtype, device)?);
    let count: i64 = spatial.iter().product();
    let base = Tensor::stack(&columns, -1)?.reshape([1, count, rank as i64 + 1])?;
    let grid = base
        .expand([size[0], count, rank as i64 + 1])?
        .bmm(&theta.transpose(1, 2)?)?;
    let mut shape = vec![size[0]];
    shape.extend(spatial);
    shape.push(rank as i64);
    grid.reshape(&shape[..])
}
