//! Normalisation over neighbouring channels as Lua Torch computed it.

use torsh_tensor::{Result, Scalar, Tensor, TorshError};

use crate::layers::builder::{builder, number, stateless};

stateless! {
    /// Divides each element by a power of the mean of squares over neighbouring channels (`torch.nn.CrossMapLRN2d`), for
    /// models that were made with Lua Torch. New models take [`LocalResponseNorm`](crate::LocalResponseNorm).
    ///
    /// Takes `[N, C, H, W]`. The window has `(size - 1) / 2` channels to either side, so it is one channel shorter for an
    /// even `size`, and the sum is divided by `size` all the same. As in PyTorch, the square of the first channel stays in
    /// the sums of all channels. Gradients are those of this function; PyTorch's are those of another window, and none for a
    /// `size` of 1.
    ///
    /// ```
    /// use torsh_nn::{CrossMapLRN2d, Module};
    /// use torsh_tensor::tensor;
    /// let norm = CrossMapLRN2d::builder(1).alpha(1.0).beta(1.0).k(0.0).build()?;
    /// assert_eq!(norm.forward(&tensor![[[[2.0]], [[4.0]]]])?, tensor![[[[0.5]], [[0.2]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CrossMapLRN2d CrossMapLRN2dBuilder |self, x| self.normalise(x),
    {
        let o = &self.options;
        let [alpha, beta, k] = [o.alpha.into(), o.beta.into(), o.k].map(number);
        format!("{}, alpha={alpha}, beta={beta}, k={k}", o.size)
    }
}

impl CrossMapLRN2d {
    /// Normalises over `size` neighbouring channels. An error for 0.
    ///
    /// ```
    /// # use torsh_nn::{CrossMapLRN2d, Module};
    /// # use torsh_tensor::tensor;
    /// // 100 / (1 + 1e-4 * 100^2 / 1)^0.75
    /// assert!(CrossMapLRN2d::new(1)?.forward(&tensor![[[[100.0]]]])?.allclose(&tensor![[[[59.460356]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(size: usize) -> Result<CrossMapLRN2d> {
        CrossMapLRN2d::builder(size).build()
    }

    /// A layer with PyTorch's other arguments.
    ///
    /// ```
    /// # use torsh_nn::{CrossMapLRN2d, ModuleExt};
    /// assert_eq!(CrossMapLRN2d::builder(2).k(2.0).build()?.repr(), "CrossMapLRN2d(2, alpha=0.0001, beta=0.75, k=2.0)");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn builder(size: usize) -> CrossMapLRN2dBuilder {
        CrossMapLRN2dBuilder::with(size)
    }

    fn normalise(&self, x: &Tensor) -> Result<Tensor> {
        if x.ndim() != 4 {
            return Err(TorshError::shape(
                "CrossMapLRN2d",
                format!("the input is [N, C, H, W], got {}", x.describe()),
            ));
        }
        let o = &self.options;
        let half = (o.size - 1) / 2;
        let channels = x.dims()[1];
        let squares = x.square()?;
        let mut sums = squares.clone();
        for d in 1..=half.min(channels.saturating_sub(1)) {
            // Each channel's neighbours at this distance, and zeros where there are none.
            let (n, d) = ((channels - d) as i64, d as i64);
            let below = squares.narrow(1, 0, n)?.pad([0, 0, 0, 0, d, 0])?;
            let above = squares.narrow(1, d, n)?.pad([0, 0, 0, 0, 0, d])?;
            sums = sums.add(&below)?.add(&above)?;
        }
        if half + 1 < channels {
            // Channels whose window begins behind the first channel keep its square.
            let (near, rest) = ((half + 1) as i64, (channels - half - 1) as i64);
            let first = squares.narrow(1, 0, 1)?;
            let far = sums.narrow(1, near, rest)?.add(&first)?;
            sums = Tensor::cat(&[&sums.narrow(1, 0, near)?, &far], 1)?;
        }
        let scale = sums.mul(o.alpha / o.size as f64)?.add(o.k)?;
        x.mul(&scale.pow(-o.beta)?)
    }
}

builder! {
    CrossMapLRN2dBuilder of CrossMapLRN2d { size: usize }
        calls "(2)" shows ["2, alpha=0.0001, beta=0.75, k=1"] {
        /// A factor of the mean of squares. The default is 1e-4.
        @ ".alpha(0.5)" ["2, alpha=0.5, beta=0.75, k=1"]
        alpha: f64 = 1e-4;
        /// The power. The default is 0.75.
        @ ".beta(0.5)" ["2, alpha=0.0001, beta=0.5, k=1"]
        beta: f64 = 0.75;
        /// What is added before the power. The default is 1.
        @ ".k(2.0)" ["2, alpha=0.0001, beta=0.75, k=2.0"]
        k: Scalar = Scalar::Int(1), impl Into<Scalar> => |k| k.into();
    }
}

impl CrossMapLRN2dBuilder {
    /// Makes the layer. An error for a size of 0.
    ///
    /// ```
    /// # use torsh_nn::{CrossMapLRN2d, ModuleExt};
    /// assert_eq!(CrossMapLRN2d::builder(2).build()?.num_parameters(), 0);
    /// assert!(CrossMapLRN2d::builder(0).build().is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<CrossMapLRN2d> {
        if self.size == 0 {
            return Err(TorshError::invalid(
                "CrossMapLRN2d",
                "size must be positive, got 0",
            ));
        }
        Ok(CrossMapLRN2d::of(self))
    }
}
