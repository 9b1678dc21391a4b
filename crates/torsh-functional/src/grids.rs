//! Images read at the places of a grid, with numbers for the modes.

use torsh_tensor::{GridSampleOptions, Result, Tensor};

macro_rules! samplers {
    ($($name:ident $of:literal, $example:literal;)*) => {$(
        #[doc = concat!("[`grid_sample`](crate::grid_sample) of ", $of, " with numbers for its modes (`torch.", stringify!($name), "`): 0, 1 and 2 are bilinear, nearest and bicubic, and zeros, border and reflection.")]
        ///
        /// Real floating-point dtypes. An error for other numbers, and for shapes that do not fit.
        ///
        /// ```
        /// # use torsh_functional as F;
        /// # use torsh_tensor::tensor;
        #[doc = $example]
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        #[torsh_tensor::names_caller]
        pub fn $name(
            input: &Tensor,
            grid: &Tensor,
            interpolation_mode: i64,
            padding_mode: i64,
            align_corners: bool,
        ) -> Result<Tensor> {
            let options = GridSampleOptions::numbered(
                stringify!($name),
                interpolation_mode,
                padding_mode,
                align_corners,
            )?;
            input.grid_sample_with(grid, options)
        }
    )*};
}
samplers! {
    grid_sampler "images or volumes",
        "let y = F::grid_sampler(&tensor![[[[1.0, 3.0]]]], &tensor![[[[0.0, 0.0]]]], 0, 0, false)?;\n\
         assert_eq!(y, tensor![[[[2.0]]]]);";
    grid_sampler_2d "images `[N, C, H, W]`",
        "let y = F::grid_sampler_2d(&tensor![[[[1.0, 3.0]]]], &tensor![[[[0.0, 0.0]]]], 0, 0, false)?;\n\
         assert_eq!(y, tensor![[[[2.0]]]]);";
    grid_sampler_3d "volumes `[N, C, D, H, W]`",
        "let y = F::grid_sampler_3d(&tensor![[[[[1.0, 3.0]]]]], &tensor![[[[[0.0, 0.0, 0.0]]]]], 0, 0, false)?;\n\
         assert_eq!(y, tensor![[[[[2.0]]]]]);";
}
