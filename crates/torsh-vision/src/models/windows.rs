//! Attention within windows of images and videos, as the Swin transformers use it.

use torsh_functional::{self as F, ScaledDotProductAttentionOptions};
use torsh_tensor::{Result, Tensor};

/// For each pair of positions of a window, row by row, where the bias of their distance stands in a table of
/// `product(2 * w - 1)` rows.
pub(super) fn relative_position_index(window: &[usize]) -> Vec<i64> {
    let positions = positions(window);
    let mut index = Vec::with_capacity(positions.len() * positions.len());
    for a in &positions {
        for b in &positions {
            let row = (0..window.len()).fold(0, |row, d| {
                row * (2 * window[d] - 1) + (a[d] + window[d] - 1 - b[d])
            });
            index.push(row as i64);
        }
    }
    index
}

/// All positions of a box, the last dimension fastest.
fn positions(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for &n in sizes {
        all = all
            .iter()
            .flat_map(|p| (0..n).map(move |i| [p.as_slice(), &[i]].concat()))
            .collect();
    }
    all
}

/// The rows of a table of biases for a window of `length` positions, as `[1, heads, length, length]`.
pub(super) fn relative_position_bias(
    table: &Tensor,
    index: &Tensor,
    length: usize,
) -> Result<Tensor> {
    let bias = table.index_select(0, &index.flatten(0)?)?;
    bias.reshape([length as i64, length as i64, -1])?
        .permute([2, 0, 1])?
        .contiguous()?
        .unsqueeze(0)
}

/// A grid of positions that is cut into windows, after it was shifted.
pub(super) struct Windows {
    /// The sizes of the grid.
    sizes: Vec<usize>,
    /// Those sizes, padded to multiples of the window's.
    padded: Vec<usize>,
    window: Vec<usize>,
    shift: Vec<usize>,
}

impl Windows {
    /// Windows of `[N, ..sizes, C]`.
    pub(super) fn new(sizes: &[usize], window: &[usize], shift: &[usize]) -> Windows {
        let padded = sizes.iter().zip(window);
        Windows {
            sizes: sizes.to_vec(),
            padded: padded.map(|(&n, &w)| n.next_multiple_of(w)).collect(),
            window: window.to_vec(),
            shift: shift.to_vec(),
        }
    }

    /// How many positions a window has.
    pub(super) fn length(&self) -> usize {
        self.window.iter().product()
    }

    /// How many windows there are.
    fn count(&self) -> usize {
        let along = self.padded.iter().zip(&self.window);
        along.map(|(n, w)| n / w).product()
    }

    fn is_shifted(&self) -> bool {
        self.shift.iter().any(|&s| s > 0)
    }

    fn roll(&self, x: &Tensor, back: bool) -> Result<Tensor> {
        if !self.is_shifted() {
            return Ok(x.clone());
        }
        let sign = if back { 1 } else { -1 };
        let shifts: Vec<i64> = self.shift.iter().map(|&s| sign * s as i64).collect();
        let dims: Vec<i64> = (1..=self.shift.len() as i64).collect();
        x.roll(shifts, dims)
    }

    /// `[N, ..sizes, C]` as `[N, windows, length, C]`.
    pub(super) fn split(&self, x: &Tensor) -> Result<Tensor> {
        let n = self.sizes.len();
        let (batch, channels) = (x.dims()[0], x.dims()[n + 1]);
        let mut x = x.clone();
        if self.padded != self.sizes {
            let mut pad = vec![0, 0];
            for d in (0..n).rev() {
                pad.extend([0, (self.padded[d] - self.sizes[d]) as i64]);
            }
            x = F::pad(&x, pad)?;
        }
        let mut shape = vec![batch];
        for d in 0..n {
            shape.extend([self.padded[d] / self.window[d], self.window[d]]);
        }
        shape.push(channels);
        let mut order = vec![0];
        order.extend((0..n).map(|d| 2 * d as i64 + 1));
        order.extend((0..n).map(|d| 2 * d as i64 + 2));
        order.push(2 * n as i64 + 1);
        self.roll(&x, false)?
            .reshape(shape)?
            .permute(order)?
            .reshape([batch, self.count(), self.length(), channels])
    }

    /// The opposite of [`split`](Windows::split).
    pub(super) fn join(&self, x: &Tensor) -> Result<Tensor> {
        let n = self.sizes.len();
        let (batch, channels) = (x.dims()[0], x.dims()[3]);
        let mut shape = vec![batch];
        shape.extend((0..n).map(|d| self.padded[d] / self.window[d]));
        shape.extend(&self.window);
        shape.push(channels);
        let mut order = vec![0];
        for d in 0..n {
            order.extend([1 + d as i64, (1 + n + d) as i64]);
        }
        order.push(2 * n as i64 + 1);
        let mut whole = vec![batch];
        whole.extend(&self.padded);
        whole.push(channels);
        let x = x.reshape(shape)?.permute(order)?.reshape(whole)?;
        let mut x = self.roll(&x, true)?;
        for d in 0..n {
            if self.padded[d] != self.sizes[d] {
                x = x.narrow(d as i64 + 1, 0, self.sizes[d] as i64)?;
            }
        }
        x.contiguous()
    }

    /// What is added to the products of positions of a window that were no neighbours before the shift: -100, else
    /// 0, as `[windows, 1, length, length]` in the dtype and on the device of `like`. Nothing without a shift.
    pub(super) fn mask(&self, like: &Tensor) -> Result<Option<Tensor>> {
        if !self.is_shifted() {
            return Ok(None);
        }
        // Along each dimension are three regions: whole windows, and the two parts that a shift brings together.
        let region = |d: usize, at: usize| match self.padded[d] {
            _ if self.shift[d] == 0 => 0,
            n if at < n - self.window[d] => 0,
            n if at < n - self.shift[d] => 1,
            _ => 2,
        };
        let counts: Vec<usize> = self
            .padded
            .iter()
            .zip(&self.window)
            .map(|(n, w)| n / w)
            .collect();
        let within = positions(&self.window);
        let mut values = Vec::with_capacity(self.count() * within.len() * within.len());
        for window in positions(&counts) {
            let regions: Vec<usize> = within
                .iter()
                .map(|p| {
                    (0..p.len()).fold(0, |r, d| {
                        r * 3 + region(d, window[d] * self.window[d] + p[d])
                    })
                })
                .collect();
            for a in &regions {
                values.extend(regions.iter().map(|b| if a == b { 0f32 } else { -100.0 }));
            }
        }
        let length = self.length();
        let mask = Tensor::from_slice(
            &values,
            [self.count(), 1, length, length],
            like.dtype(),
            like.device(),
        )?;
        Ok(Some(mask))
    }
}

/// Queries, keys and values `[.., heads, length, channels / heads]` of `qkv: [.., length, 3 * channels]`.
pub(super) fn heads(qkv: &Tensor, heads: usize) -> Result<[Tensor; 3]> {
    let n = qkv.ndim();
    let [lead @ .., last] = qkv.dims() else {
        return Ok([qkv.clone(), qkv.clone(), qkv.clone()]);
    };
    let mut shape = lead.to_vec();
    shape.extend([3, heads, last / 3 / heads]);
    // [lead.., length, 3, heads, c] -> [3, lead.., heads, length, c]
    let mut order = vec![n as i64 - 1];
    order.extend(0..n as i64 - 2);
    order.extend([n as i64, n as i64 - 2, n as i64 + 1]);
    let qkv = qkv.reshape(shape)?.permute(order)?;
    Ok([qkv.select(0, 0)?, qkv.select(0, 1)?, qkv.select(0, 2)?])
}

/// Attention with a bias, whose heads come back joined: `[.., length, channels]`.
pub(super) fn attend(
    [q, k, v]: &[Tensor; 3],
    bias: Option<&Tensor>,
    scale: Option<f64>,
    dropout_p: f64,
) -> Result<Tensor> {
    let options = ScaledDotProductAttentionOptions {
        attn_mask: bias.cloned(),
        dropout_p,
        scale,
        ..Default::default()
    };
    let x = F::scaled_dot_product_attention_with(q, k, v, options)?;
    let n = x.ndim() as i64;
    x.transpose(n - 3, n - 2)?.flatten(n - 2)
}
