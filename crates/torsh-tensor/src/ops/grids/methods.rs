//! Methods of the functions of this module, and their records.

use torsh_core::Result;

use super::*;
use crate::autocast::Autocast;
use crate::record::{OpRecord, Sample, sample};
use crate::{IntoDim, IntoShape, Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &CDIST,
    &PDIST,
    &PLAIN_PDIST,
    &AFFINE_GRID,
    &GRID_SAMPLE,
    &GRID_SAMPLER,
    &GRID_SAMPLER_2D,
    &GRID_SAMPLER_3D,
    &CONV_TBC,
    &NATIVE_CHANNEL_SHUFFLE,
];

#[torsh_tensor::functions]
impl Tensor {
    /// The distances of all pairs of rows of two batches of matrices, by the p-norm (`torch.cdist`).
    ///
    /// `[.., P, M]` and `[.., R, M]` give `[.., P, R]`, and batches broadcast. float32 and float64; an
    /// error for other dtypes, for rows of different length, and for a negative `p`.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0.0, 0.0], [3.0, 4.0]];
    /// assert_eq!(x.cdist(&tensor![[0.0, 0.0]], 2.0)?, tensor![[0.0], [5.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn cdist(&self, other: &Tensor, p: f64) -> Result<Tensor> {
        self.named(
            "cdist",
            cdist(self, other, p, Mode::IfNecessary).map_err(|e| e.renamed("cdist")),
        )
    }

    /// The distances of all pairs of different rows of a matrix `[N, M]`, by the p-norm: `N (N - 1) /
    /// 2` of them, those of the first row first (`torch.nn.functional.pdist`). float32 and float64;
    /// an error for other dtypes and ranks, and for a negative `p`.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[0.0, 0.0], [3.0, 4.0], [0.0, 4.0]];
    /// assert_eq!(x.pdist(2.0)?, tensor![5.0, 4.0, 3.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn pdist(&self, p: f64) -> Result<Tensor> {
        self.named("pdist", pdist(self, p).map_err(|e| e.renamed("pdist")))
    }

    /// The grid of an affine map for [`Tensor::grid_sample`]: matrices `[N, 2, 3]` and a size `[N, C,
    /// H, W]` give `[N, H, W, 2]`, matrices `[N, 3, 4]` and `[N, C, D, H, W]` give `[N, D, H, W, 3]`
    /// (`torch.nn.functional.affine_grid`). An error for other shapes, and for integers.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let identity = tensor![[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]];
    /// let grid = identity.affine_grid([1, 1, 1, 3], true)?;
    /// assert_eq!(grid, tensor![[[[-1.0, 0.0], [0.0, 0.0], [1.0, 0.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn affine_grid(&self, size: impl IntoShape, align_corners: bool) -> Result<Tensor> {
        self.named(
            "affine_grid",
            affine_grid(self, &size.sizes(), align_corners).map_err(|e| e.renamed("affine_grid")),
        )
    }

    /// The images read at the places of a grid: images `[N, C, H, W]` and a grid `[N, h, w, 2]` of x
    /// and y from -1 to 1 give `[N, C, h, w]`; volumes `[N, C, D, H, W]` and `[N, d, h, w, 3]` give
    /// `[N, C, d, h, w]` (`torch.nn.functional.grid_sample`). Real floating-point dtypes, the same
    /// for both; an error for others, and for shapes that do not fit.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[[1.0, 2.0], [3.0, 4.0]]]];
    /// let centre = tensor![[[[0.0, 0.0]]]];
    /// assert_eq!(x.grid_sample(&centre)?, tensor![[[[2.5]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn grid_sample(&self, grid: &Tensor) -> Result<Tensor> {
        self.grid_sample_with(grid, GridSampleOptions::new())
    }

    /// [`Tensor::grid_sample`] with PyTorch's keyword arguments: how values between pixels come
    /// about, what lies outside, and whether -1 and 1 are the centres of the outermost pixels
    /// (`torch.nn.functional.grid_sample`).
    ///
    /// ```
    /// # use torsh_tensor::{GridSampleOptions, tensor};
    /// let x = tensor![[[[1.0, 2.0]]]];
    /// let options = GridSampleOptions::new().mode("nearest").padding_mode("border").align_corners(true);
    /// assert_eq!(x.grid_sample_with(&tensor![[[[5.0, 0.0]]]], options)?, tensor![[[[2.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn grid_sample_with(&self, grid: &Tensor, options: GridSampleOptions) -> Result<Tensor> {
        self.named(
            "grid_sample",
            grid_sample(self, grid, &options).map_err(|e| e.renamed("grid_sample")),
        )
    }

    /// A convolution along time of sequences `[T, B, C]` with a weight `[K, C, O]` and a bias `[O]`;
    /// `pad` zeros are put before and behind (`torch.conv_tbc`). The result is `[T + 2 pad - K + 1,
    /// B, O]`. An error for other shapes.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1.0]], [[2.0]], [[3.0]]];
    /// let y = x.conv_tbc(&tensor![[[1.0]], [[1.0]]], &tensor![0.0], 0)?;
    /// assert_eq!(y, tensor![[[3.0]], [[5.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn conv_tbc(&self, weight: &Tensor, bias: &Tensor, pad: i64) -> Result<Tensor> {
        self.named(
            "conv_tbc",
            conv_tbc(self, weight, bias, pad).map_err(|e| e.renamed("conv_tbc")),
        )
    }

    /// [`Tensor::channel_shuffle`] under another name (`torch.native_channel_shuffle`).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[[1], [2], [3], [4]]];
    /// assert_eq!(x.native_channel_shuffle(2)?, tensor![[[1], [3], [2], [4]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn native_channel_shuffle(&self, groups: impl IntoDim) -> Result<Tensor> {
        self.channel_shuffle(groups)
            .map_err(|e| e.renamed("native_channel_shuffle"))
    }
}

pub static CDIST: OpRecord = OpRecord::new(
    "cdist",
    "The distances of all pairs of rows.",
    "(Tensor x1, Tensor x2, float p=2.0, str? compute_mode=None)",
)
.autocast(Autocast::Fp32)
.by_name(|b| {
    {
        let x = b.tensor(0)?;
        let mode = Mode::parse(b)?;
        x.named(
            "cdist",
            cdist(x, b.tensor(1)?, b.float(2), mode).map_err(|e| e.renamed("cdist")),
        )
    }
    .map(Value::Tensor)
})
.samples(|s| {
    let (x, y) = (s.real(&[3, 2])?, s.real(&[4, 2])?);
    Ok(vec![
        sample![&x, &y],
        sample![&x, &y, 1.5],
        sample![&x, &y, compute_mode = "use_mm_for_euclid_dist"],
    ])
});

#[torsh_tensor::by_name(Tensor::pdist)]
pub static PDIST: OpRecord = OpRecord::new(
    "nn.functional.pdist",
    "The distances of all pairs of different rows.",
    "(Tensor input, float p=2.0)",
)
.samples(|s| Ok(vec![sample![s.real(&[4, 3])?]]));

#[torsh_tensor::by_name(Tensor::pdist)]
pub static PLAIN_PDIST: OpRecord = OpRecord::new(
    "pdist",
    "The distances of all pairs of different rows.",
    "(Tensor input, float p=2.0)",
)
.samples(|s| Ok(vec![sample![s.real(&[4, 3])?]]));

#[torsh_tensor::by_name(Tensor::affine_grid)]
pub static AFFINE_GRID: OpRecord = OpRecord::new(
    "nn.functional.affine_grid",
    "The grid of an affine map.",
    "(Tensor theta, int[] size, bool? align_corners=None)",
)
.samples(|s| {
    let x = s.real(&[1, 2, 3])?;
    Ok(vec![sample![x, [1, 1, 2, 3]]])
});

#[torsh_tensor::by_name(Tensor::grid_sample_with(.., GridSampleOptions))]
pub static GRID_SAMPLE: OpRecord = OpRecord::new("nn.functional.grid_sample", "The images read at the places of a grid.", "(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', bool? align_corners=None)")
.samples(|s| { let (x, g) = (s.real(&[1, 2, 3, 4])?, s.uniform(&[1, 2, 2, 2], -0.83, 0.91)?); Ok(vec![sample![&x, &g], sample![&x, &g, padding_mode = "border"], sample![&x, &g, mode = "bicubic", padding_mode = "reflection"], sample![&x, &g, mode = "nearest"]]) });

macro_rules! samplers {
    ($($record:ident $name:literal $image:tt $grid:tt $padding:literal $aligned:literal;)*) => {$(
        pub static $record: OpRecord = OpRecord::new(
            $name,
            "grid_sample with numbers for its modes.",
            "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)",
        )
        .autocast(Autocast::Promote)
        .by_name(|b| grid_sampler(b, $name).map(Value::Tensor))
        .samples(|s| {
            let (x, g) = (s.real(&$image)?, s.uniform(&$grid, -0.83, 0.91)?);
            let modes = [Value::Int(0), Value::Int($padding), Value::Bool($aligned)];
            Ok(vec![Sample::new([x.into(), g.into()].into_iter().chain(modes))])
        });
    )*};
}
samplers! {
    GRID_SAMPLER "grid_sampler" [1, 2, 3, 4] [1, 2, 2, 2] 2 false;
    GRID_SAMPLER_2D "grid_sampler_2d" [1, 2, 3, 4] [1, 2, 2, 2] 2 false;
    GRID_SAMPLER_3D "grid_sampler_3d" [1, 1, 2, 3, 2] [1, 1, 2, 1, 3] 0 true;
}

#[torsh_tensor::by_name(Tensor::conv_tbc)]
pub static CONV_TBC: OpRecord = OpRecord::new(
    "conv_tbc",
    "A convolution along time.",
    "(Tensor input, Tensor weight, Tensor bias, int pad=0)",
)
.autocast(Autocast::Lower)
.samples(|s| {
    let (x, w, c) = (s.real(&[4, 2, 2])?, s.real(&[2, 2, 3])?, s.real(&[3])?);
    Ok(vec![sample![x, w, c, 1]])
});

#[torsh_tensor::by_name(Tensor::native_channel_shuffle)]
pub static NATIVE_CHANNEL_SHUFFLE: OpRecord = OpRecord::new(
    "native_channel_shuffle",
    "channel_shuffle under another name.",
    "(Tensor input, int groups)",
)
.samples(|s| Ok(vec![sample![s.real(&[1, 4, 2])?, 2]]));
