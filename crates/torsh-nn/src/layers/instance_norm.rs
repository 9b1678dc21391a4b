//! Instance normalisation.

use torsh_functional::{self as F, InstanceNormOptions};
use torsh_tensor::{Result, Tensor, TorshError};

use crate::layers::batchnorm::{channel_norm, upgrade_count};
use crate::layers::builder::builder;
use crate::layers::{factory_setters, python, python_float};
use crate::module::{Buffer, Hooks, Parameter, StateDict, Training};
use crate::{Module, init};

macro_rules! instance_norm {
    ($($(#[$doc:meta])* $name:ident $builder:ident $lazy:ident $single:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            /// `[num_features]`, with `affine(true)`
            pub weight: Option<Parameter>,
            /// `[num_features]`, with `affine(true)`
            pub bias: Option<Parameter>,
            /// `[num_features]`, with `track_running_stats(true)`
            pub running_mean: Option<Buffer>,
            /// `[num_features]`, with `track_running_stats(true)`
            pub running_var: Option<Buffer>,
            /// An int64 that stays 0, as in PyTorch.
            pub num_batches_tracked: Option<Buffer>,
            #[module(skip)]
            options: $builder,
            training: Training,
            hooks: Hooks,
        }

        channel_norm! {
            $name $builder $lazy,
            /// A layer with PyTorch's defaults: `eps` 1e-5, nothing learned, nothing tracked.
            affine false "False", track false "False",
            /// How much a batch moves the running statistics; 0.1 unless set, `None` for not
            /// at all.
            affine sets ".affine(true)" "True", bias ".affine(true).bias(false)",
            tracking ".track_running_stats(true)" "True", tests "(3).affine(true)",
            |_made| {}
        }

        impl $name {
            /// A lazy layer's options say 0.
            fn num_features(&self) -> usize {
                let known = self.weight.as_deref().or(self.running_mean.as_deref());
                known.map_or(self.options.num_features, Tensor::numel)
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| {
                    let o = &self.options;
                    let refuse = |why: String| Err(TorshError::shape(stringify!($name), why));
                    if x.ndim() != $single && x.ndim() != $single + 1 {
                        return refuse(format!(
                            "expected {}D or {}D input, got {}",
                            $single,
                            $single + 1,
                            x.describe()
                        ));
                    }
                    let dim = x.ndim() - $single;
                    if self.weight.is_some() && x.dims()[dim] != self.num_features() {
                        return refuse(format!(
                            "expected input's size at dim={dim} to match num_features ({}), but got: {}",
                            self.num_features(),
                            x.dims()[dim]
                        ));
                    }
                    let options = InstanceNormOptions {
                        running_mean: self.running_mean.as_ref().map(Tensor::from),
                        running_var: self.running_var.as_ref().map(Tensor::from),
                        weight: self.weight.as_ref().map(Tensor::from),
                        bias: self.bias.as_ref().map(Tensor::from),
                        use_input_stats: self.training.get() || !o.track_running_stats,
                        momentum: o.momentum.unwrap_or(0.0),
                        eps: o.eps,
                    };
                    match dim {
                        0 => F::instance_norm_with(&x.unsqueeze(0)?, options)?.squeeze(0),
                        _ => F::instance_norm_with(x, options),
                    }
                })
            }

            #[torsh_tensor::names_caller]
            fn upgrade_state_dict(&self, state: &mut StateDict, prefix: &str) -> Result<()> {
                upgrade_count(self.num_batches_tracked.as_ref(), state, prefix);
                Ok(())
            }

            fn extra_repr(&self) -> String {
                let o = &self.options;
                format!(
                    "{}, eps={}, momentum={}, affine={}, bias={}, track_running_stats={}",
                    self.num_features(),
                    python_float(o.eps),
                    o.momentum.map_or("None".into(), python_float),
                    python(o.affine),
                    python(self.bias.is_some()),
                    python(o.track_running_stats)
                )
            }
        }
    )*};
}

instance_norm! {
    /// Normalises each channel of each signal (`torch.nn.InstanceNorm1d`; Ulyanov et al., 2016).
    ///
    /// Takes `[N, C, L]` or `[C, L]`.
    ///
    /// ```
    /// use torsh_nn::{InstanceNorm1d, Module};
    /// use torsh_tensor::tensor;
    /// let norm = InstanceNorm1d::builder(1).eps(0.0).build()?;
    /// assert_eq!(norm.forward(&tensor![[1.0, 3.0]])?, tensor![[-1.0, 1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    InstanceNorm1d InstanceNorm1dBuilder LazyInstanceNorm1dBuilder 2;
    /// Normalises each channel of each image (`torch.nn.InstanceNorm2d`; Ulyanov et al., 2016).
    ///
    /// Takes `[N, C, H, W]` or `[C, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{InstanceNorm2d, Module};
    /// use torsh_tensor::tensor;
    /// let norm = InstanceNorm2d::builder(1).eps(0.0).build()?;
    /// assert_eq!(norm.forward(&tensor![[[1.0], [3.0]]])?, tensor![[[-1.0], [1.0]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    InstanceNorm2d InstanceNorm2dBuilder LazyInstanceNorm2dBuilder 3;
    /// Normalises each channel of each volume (`torch.nn.InstanceNorm3d`; Ulyanov et al., 2016).
    ///
    /// Takes `[N, C, D, H, W]` or `[C, D, H, W]`.
    ///
    /// ```
    /// use torsh_nn::{InstanceNorm3d, Module};
    /// use torsh_tensor::tensor;
    /// let norm = InstanceNorm3d::builder(1).eps(0.0).build()?;
    /// assert_eq!(norm.forward(&tensor![[[[1.0]], [[3.0]]]])?, tensor![[[[-1.0]], [[1.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    InstanceNorm3d InstanceNorm3dBuilder LazyInstanceNorm3dBuilder 4;
}
