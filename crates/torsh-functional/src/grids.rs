//! Images read at the places of a grid, with numbers for the modes.

use torsh_tensor::{GridSampleOptions, Result, Tensor};

/// [`grid_sample`](crate::grid_sample) of images or volumes with numbers for its modes (`torch.grid_sampler`): 0, 1 and 2 are bilinear, nearest and bicubic, and
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

/// [`grid_sample`](crate::grid_sample) of images `[N, C, H, W]` with numbers for its modes (`torch.grid_sampler_2d`): 0, 1 and 2 are bilinear, nearest and bicubic, and
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

/// [`grid_sample`](crate::grid_sample) of volumes `[N, C, D, H, W]` with numbers for its modes (`torch.grid_sampler_3d`): 0, 1 and 2 are bilinear, nearest and bicubic, and
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
