//! Distances of rows, and images read at the places of a grid.

use torsh_tensor::{GridSampleOptions, IntoDim, IntoShape, Result, Tensor};

/// The distances of all pairs of rows of two batches of matrices, by the p-norm: `[ (`torch.cdist`).., P, M]`
/// and `[.., R, M]` give `[.., P, R]`, and batches broadcast. float32 and float64; an error for other dtypes,
/// for rows of different length, and for a negative `p`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[0.0, 0.0], [3.0, 4.0]];
/// assert_eq!(F::cdist(&x, &tensor![[0.0, 0.0]], 2.0)?, tensor![[0.0], [5.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn cdist(input: &Tensor, other: &Tensor, p: f64) -> Result<Tensor> {
    input.cdist(other, p)
}

/// The distances of all pairs of different rows of a matrix `[N, M]`, by the p-norm: `N (N - 1) / 2` of them,
/// those of the first row first (`torch.nn.functional.pdist`). float32 and float64; an error for other dtypes
/// and ranks, and for a negative `p`.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]];
/// assert_eq!(F::pdist(&x, 2.0)?, tensor![5.0, 4.0, 3.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn pdist(input: &Tensor, p: f64) -> Result<Tensor> {
    input.pdist(p)
}

/// The grid of an affine map for [`Tensor::grid_sample`]: matrices `[N, 2, 3]` and a size `[N, C, H, W]` give
/// `[N, H, W, 2]`, matrices `[N, 3, 4]` and `[N, C, D, H, W]` give `[N, D, H, W, 3]`
/// (`torch.nn.functional.affine_grid`). An error for other shapes, and for integers.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let identity = tensor![[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]];
/// let grid = F::affine_grid(&identity, [1, 1, 1, 3], true)?;
/// assert_eq!(grid, tensor![[[[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn affine_grid(input: &Tensor, size: impl IntoShape, align_corners: bool) -> Result<Tensor> {
    input.affine_grid(size, align_corners)
}

/// The images read at the places of a grid: images `[N, C, H, W]` and a grid `[N, h, w, 2]` of x and y from -1
/// to 1 give `[N, C, h, w]`; volumes `[N, C, D, H, W]` and `[N, d, h, w, 3]` give `[N, C, d, h, w]`
/// (`torch.nn.functional.grid_sample`). Real floating-point dtypes, the same for both; an error for others, and
/// for shapes that do not fit.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[[[1.0, 2.0], [3.0, 4.0]]]];
/// let centre = tensor![[[[0.0, 0.0]]]];
/// assert_eq!(F::grid_sample(&x, &centre)?, tensor![[[[2.5]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn grid_sample(input: &Tensor, grid: &Tensor) -> Result<Tensor> {
    input.grid_sample(grid)
}

/// [`Tensor::grid_sample`] with PyTorch's keyword arguments: how values between pixels come about, what lies
/// outside, and whether -1 and 1 are the centres of the outermost pixels (`torch.nn.functional.grid_sample`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{GridSampleOptions, tensor};
/// let x = tensor![[[[1.0, 2.0]]]];
/// let options = GridSampleOptions::new().mode("nearest").padding_mode("border").align_corners(true);
/// assert_eq!(F::grid_sample_with(&x, &tensor![[[[5.0, 0.0]]]], options)?, tensor![[[[2.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn grid_sample_with(
    input: &Tensor,
    grid: &Tensor,
    options: GridSampleOptions,
) -> Result<Tensor> {
    input.grid_sample_with(grid, options)
}

/// A convolution along time of sequences `[T, B, C]` with a weight `[K, C, O]` and a bias `[O]`; `pad` zeros
/// are put before and behind (`torch.conv_tbc`). The result is `[T + 2 pad - K + 1, B, O]`. An error for other
/// shapes.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[[1.0]], [[2.0]], [[3.0]]];
/// let y = F::conv_tbc(&x, &tensor![[[1.0]], [[1.0]]], &tensor![0.0], 0)?;
/// assert_eq!(y, tensor![[[3.0]], [[5.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn conv_tbc(input: &Tensor, weight: &Tensor, bias: &Tensor, pad: i64) -> Result<Tensor> {
    input.conv_tbc(weight, bias, pad)
}

/// [`Tensor::channel_shuffle`] under another name (`torch.native_channel_shuffle`).
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let x = tensor![[[1], [2], [3], [4]]];
/// assert_eq!(F::native_channel_shuffle(&x, 2)?, tensor![[[1], [3], [2], [4]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn native_channel_shuffle(input: &Tensor, groups: impl IntoDim) -> Result<Tensor> {
    input.native_channel_shuffle(groups)
}

/// [`grid_sample`] of images or volumes with numbers for its modes (`torch.grid_sampler`): 0, 1 and 2 are bilinear, nearest and bicubic, and
/// zeros, border and reflection.
///
/// Real floating-point dtypes. An error for other numbers, and for shapes that do not fit.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let y = F::grid_sampler(&tensor![[[[1.0, 3.0]]]], &tensor![[[[0.0, 0.0]]]], 0, 0, false)?;
/// assert_eq!(y, tensor![[[[2.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn grid_sampler(
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    let options = GridSampleOptions::numbered(
        "grid_sampler",
        interpolation_mode,
        padding_mode,
        align_corners,
    )?;
    input.grid_sample_with(grid, options)
}

/// [`grid_sample`] of images `[N, C, H, W]` with numbers for its modes (`torch.grid_sampler_2d`): 0, 1 and 2 are bilinear, nearest and bicubic, and
/// zeros, border and reflection.
///
/// Real floating-point dtypes. An error for other numbers, and for shapes that do not fit.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let y = F::grid_sampler_2d(&tensor![[[[1.0, 3.0]]]], &tensor![[[[0.0, 0.0]]]], 0, 0, false)?;
/// assert_eq!(y, tensor![[[[2.0]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn grid_sampler_2d(
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    let options = GridSampleOptions::numbered(
        "grid_sampler_2d",
        interpolation_mode,
        padding_mode,
        align_corners,
    )?;
    input.grid_sample_with(grid, options)
}

/// [`grid_sample`] of volumes `[N, C, D, H, W]` with numbers for its modes (`torch.grid_sampler_3d`): 0, 1 and 2 are bilinear, nearest and bicubic, and
/// zeros, border and reflection.
///
/// Real floating-point dtypes. An error for other numbers, and for shapes that do not fit.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let y = F::grid_sampler_3d(&tensor![[[[[1.0, 3.0]]]]], &tensor![[[[[0.0, 0.0, 0.0]]]]], 0, 0, false)?;
/// assert_eq!(y, tensor![[[[[2.0]]]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn grid_sampler_3d(
    input: &Tensor,
    grid: &Tensor,
    interpolation_mode: i64,
    padding_mode: i64,
    align_corners: bool,
) -> Result<Tensor> {
    let options = GridSampleOptions::numbered(
        "grid_sampler_3d",
        interpolation_mode,
        padding_mode,
        align_corners,
    )?;
    input.grid_sample_with(grid, options)
}
