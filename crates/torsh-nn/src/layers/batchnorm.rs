//! Batch normalisation.

use std::sync::Arc;

use torsh_functional::{self as F, BatchNormOptions};
use torsh_tensor::{DType, Result, Tensor, TorshError, is_grad_enabled, no_grad};

use crate::layers::builder::builder;
use crate::layers::fuse::Fused;
use crate::layers::statistics::{StatisticsSync, Synced};
use crate::layers::{Factory, factory_setters, python, python_float};
use crate::module::{Buffer, Hooks, Momentum, Parameter, StateDict, Training};
use crate::{Module, init};

/// What layers of normalisation by channel learn and remember.
pub(super) struct State {
    pub(super) weight: Option<Parameter>,
    pub(super) bias: Option<Parameter>,
    pub(super) running_mean: Option<Buffer>,
    pub(super) running_var: Option<Buffer>,
    pub(super) num_batches_tracked: Option<Buffer>,
}

/// The state for `n` channels; `affine` says whether there are a weight and a bias.
#[track_caller]
pub(super) fn state(f: Factory, n: usize, affine: [bool; 2], track: bool) -> Result<State> {
    let parameter = |value, wanted: bool| -> Result<_> {
        if !wanted {
            return Ok(None);
        }
        Parameter::with_requires_grad(f.full(&[n], value)?, true).map(Some)
    };
    let statistic = |value| -> Result<_> {
        if !track {
            return Ok(None);
        }
        Ok(Some(Buffer::new(f.full(&[n], value)?)))
    };
    let count = if track {
        Some(Buffer::new(Tensor::zeros((), DType::I64, f.device)?))
    } else {
        None
    };
    Ok(State {
        weight: parameter(1.0, affine[0])?,
        bias: parameter(0.0, affine[1])?,
        running_mean: statistic(0.0)?,
        running_var: statistic(1.0)?,
        num_batches_tracked: count,
    })
}

/// The methods that forget.
macro_rules! resets {
    ($name:ident) => {
        /// Forgets what was seen: means 0, variances 1.
        #[doc = $crate::layers::examples::tests!(
            "let norm = ", stringify!($name), "::builder(2).track_running_stats(true).build()?;\n",
            "if let Some(mean) = &norm.running_mean {\n    init::ones_(mean)?;\n}\n",
            "norm.reset_running_stats()?;\n",
            "assert_eq!(norm.running_mean.as_deref(), Some(&tensor![0.0, 0.0]));"
        )]
        #[torsh_tensor::names_caller]
        pub fn reset_running_stats(&self) -> Result<()> {
            if let (Some(mean), Some(var), Some(n)) = (
                &self.running_mean,
                &self.running_var,
                &self.num_batches_tracked,
            ) {
                init::zeros_(mean)?;
                init::ones_(var)?;
                init::zeros_(n)?;
            }
            Ok(())
        }

        /// Forgets what was seen and learned.
        #[doc = $crate::layers::examples::tests!(
            "let norm = ", stringify!($name), "::builder(2).affine(true).build()?;\n",
            "if let Some(weight) = &norm.weight {\n    init::zeros_(weight)?;\n}\n",
            "norm.reset_parameters()?;\n",
            "assert_eq!(norm.weight.as_deref(), Some(&tensor![1.0, 1.0]));"
        )]
        #[torsh_tensor::names_caller]
        pub fn reset_parameters(&self) -> Result<()> {
            self.reset_running_stats()?;
            if let Some(weight) = &self.weight {
                init::ones_(weight)?;
            }
            if let Some(bias) = &self.bias {
                init::zeros_(bias)?;
            }
            Ok(())
        }
    };
}
pub(super) use resets;

/// The ways to make a lazy layer of normalisation by channel.
macro_rules! lazy_norm {
    ($name:ident $lazy:ident $builder:ident) => {
        impl $crate::layers::Lazy<$name> {
            /// A layer with PyTorch's defaults, of the channels of its first input.
            #[doc = $crate::layers::examples::tests!(
                "let norm = Lazy", stringify!($name), "::new()?;\n",
                "assert!(norm.layer().is_none());\n",
                "assert!(norm.repr().starts_with(\"Lazy", stringify!($name), "(0, eps=1e-05\"));"
            )]
            #[torsh_tensor::names_caller(Self)]
            pub fn new() -> Result<Self> {
                Self::builder().build()
            }

            /// A layer of the channels of its first input, with PyTorch's other arguments.
            #[doc = $crate::layers::examples::tests!(
                "let norm = Lazy", stringify!($name), "::builder().eps(0.5).build()?;\n",
                "assert!(norm.repr().starts_with(\"Lazy", stringify!($name), "(0, eps=0.5\"));"
            )]
            pub fn builder() -> $lazy {
                $lazy($builder::with(0))
            }
        }
    };
}
pub(super) use lazy_norm;

/// What layers of normalisation by channel have in common: the ways to make one, its builder, and the state dicts of old.
/// `$affine` and `$track` are PyTorch's defaults and how they print; `$more` are the fields that only one kind has.
macro_rules! channel_norm {
    ($name:ident $builder:ident $($lazy:ident)?, $(#[$new:meta])+ affine $affine:literal $learns:literal,
     track $track:literal $tracks:literal, $(#[$momentum:meta])+ affine sets $set:literal $learned:literal,
     bias $without_bias:literal, tracking $tracking:literal $tracked:literal, tests $tests:literal,
     |$made:ident| { $($field:ident: $value:expr,)* }) => {
        impl $name {
            $(#[$new])+
            #[doc = $crate::layers::examples::shows!(
                stringify!($name), "::new(3)?";
                stringify!($name), "(3, eps=1e-05, momentum=0.1, affine=", $learns, ", bias=", $learns,
                ", track_running_stats=", $tracks, ")"
            )]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(num_features: usize) -> Result<$name> {
                $name::builder(num_features).build()
            }

            /// A layer with PyTorch's other arguments.
            #[doc = $crate::layers::examples::shows!(
                stringify!($name), "::builder(3).eps(0.5).build()?";
                stringify!($name), "(3, eps=0.5, momentum=0.1, affine=", $learns, ", bias=", $learns,
                ", track_running_stats=", $tracks, ")"
            )]
            pub fn builder(num_features: usize) -> $builder {
                $builder::with(num_features)
            }

            $crate::layers::batchnorm::resets!($name);
        }

        $($crate::layers::batchnorm::lazy_norm!($name $lazy $builder);)?

        builder! {
            $builder of $name $(infers num_features: $lazy lazily "()")? { num_features: usize }
                calls "(3)" before "" 3 shows [", eps=1e-05, momentum=0.1, affine=", $learns, ", bias=", $learns,
                    ", track_running_stats=", $tracks] {
                /// Added to the variance. The default is 1e-5.
                @ ".eps(0.5)" [", eps=0.5, momentum=0.1, affine=", $learns, ", bias=", $learns,
                    ", track_running_stats=", $tracks]
                eps: f64 = 1e-5;
                $(#[$momentum])+
                @ ".momentum(None)" [", eps=1e-05, momentum=None, affine=", $learns, ", bias=", $learns,
                    ", track_running_stats=", $tracks]
                momentum: Option<f64> = Some(0.1), impl Into<Option<f64>> => |m| m.into();
                #[doc = concat!("Whether there are a weight and a bias. The default is `", stringify!($affine), "`.")]
                @ $set [", eps=1e-05, momentum=0.1, affine=", $learned, ", bias=", $learned,
                    ", track_running_stats=", $tracks]
                affine: bool = $affine;
                /// Whether there is a bias beside the weight. The default is `true`.
                @ $without_bias [", eps=1e-05, momentum=0.1, affine=True, bias=False, track_running_stats=", $tracks]
                bias: bool = true;
                #[doc = concat!(
                    "Whether there are running statistics, which evaluation uses. The default is `", stringify!($track), "`."
                )]
                @ $tracking [", eps=1e-05, momentum=0.1, affine=", $learns, ", bias=", $learns,
                    ", track_running_stats=", $tracked]
                track_running_stats: bool = $track;
            }
        }

        impl $builder {
            factory_setters!($name $tests);

            /// Makes the layer.
            #[doc = $crate::layers::examples::shows!(
                stringify!($name), "::builder(3).build()?";
                stringify!($name), "(3, eps=1e-05, momentum=0.1, affine=", $learns, ", bias=", $learns,
                ", track_running_stats=", $tracks, ")"
            )]
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$name> {
                let affine = [self.affine, self.affine && self.bias];
                let state = $crate::layers::batchnorm::state(
                    self.factory,
                    self.num_features,
                    affine,
                    self.track_running_stats,
                )?;
                let $made = &self;
                Ok($name {
                    weight: state.weight,
                    bias: state.bias,
                    running_mean: state.running_mean,
                    running_var: state.running_var,
                    num_batches_tracked: state.num_batches_tracked,
                    training: Training::default(),
                    hooks: Hooks::new(),
                    $($field: $value,)*
                    options: self,
                })
            }
        }
    };
}
pub(super) use channel_norm;

/// A state dict of before PyTorch 0.4.1 does not count batches: the count stays as it is.
pub(super) fn upgrade_count(count: Option<&Buffer>, state: &mut StateDict, prefix: &str) {
    let name = format!("{prefix}num_batches_tracked");
    if let Some(count) = count
        && !state.contains_key(&name)
    {
        state.insert(name, count.detach());
    }
}

macro_rules! batch_norm {
    ($(#[$doc:meta])* $name:ident $builder:ident $($lazy:ident)? $title:literal $dims:pat, $expected:literal $(, $alone:ident)?) => {
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            /// `[num_features]`, unless `affine(false)`
            pub weight: Option<Parameter>,
            /// `[num_features]`, unless `affine(false)`
            pub bias: Option<Parameter>,
            /// `[num_features]`, unless `track_running_stats(false)`
            pub running_mean: Option<Buffer>,
            /// `[num_features]`, unless `track_running_stats(false)`
            pub running_var: Option<Buffer>,
            /// How many batches the running statistics have seen, an int64.
            pub num_batches_tracked: Option<Buffer>,
            /// How much a batch moves the running statistics.
            pub momentum: Momentum,
            #[module(skip)]
            options: $builder,
            #[module(skip)]
            sync: Synced,
            training: Training,
            hooks: Hooks,
        }

        channel_norm! {
            $name $builder $($lazy)?,
            /// A layer with PyTorch's defaults: `eps` 1e-5, `momentum` 0.1.
            affine true "True", track true "True",
            /// How much a batch moves the running statistics; 0.1 unless set, `None` for a
            /// plain average over all batches.
            affine sets ".affine(false)" "False", bias ".bias(false)",
            tracking ".track_running_stats(false)" "False", tests "(3)",
            |made| { momentum: Momentum::new(made.momentum), sync: Synced::default(), }
        }

        impl $name {
            /// `eps`: what is added to the variance.
            pub(crate) fn added_to_variance(&self) -> f64 {
                self.options.eps
            }

            /// What normalises `x` and clamps it in one pass; `None` where the layer has hooks, is in training mode or
            /// records gradients, or its input is of another rank.
            pub(super) fn fused(&self, x: &Tensor, clamp: [f64; 2]) -> Option<Fused> {
                let mean = self.running_mean.as_deref()?.clone();
                let var = self.running_var.as_deref()?.clone();
                let plain = !self.training.get() && self.hooks.is_empty() && !is_grad_enabled();
                (plain && matches!(x.ndim(), $dims)).then(|| {
                    let options = BatchNormOptions {
                        weight: self.weight.as_ref().map(Tensor::from),
                        bias: self.bias.as_ref().map(Tensor::from),
                        eps: self.options.eps,
                        ..BatchNormOptions::default()
                    };
                    Fused { mean, var, options, clamp }
                })
            }

            /// Lets `sync` normalise training batches, by the statistics of several processes; `None` for this batch's
            /// own.
            #[doc = $crate::layers::examples::tests!(
                "let norm = ", stringify!($name), "::new(2)?;\n",
                "norm.set_statistics_sync(None);\n",
                "assert!(norm.statistics_sync().is_none());"
            )]
            pub fn set_statistics_sync(&self, sync: Option<Arc<dyn StatisticsSync>>) {
                self.sync.set(sync);
            }

            /// What [`set_statistics_sync`](Self::set_statistics_sync) was given.
            pub fn statistics_sync(&self) -> Option<Arc<dyn StatisticsSync>> {
                self.sync.get()
            }
        }

        impl Module for $name {
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.hooks.run(self, x, |x| {
                    if !matches!(x.ndim(), $dims) {
                        return Err(TorshError::shape(
                            $title,
                            format!(concat!("expected ", $expected, " input, got {}"), x.describe()),
                        ));
                    }
                    let training = self.training.get();
                    let sync = if training { self.sync.get() } else { None };
                    $(if training && sync.is_none() {
                        return Err($alone());
                    })?
                    let mut momentum = self.momentum.get();
                    if training && let Some(n) = &self.num_batches_tracked {
                        no_grad(|| n.add_(1))?;
                        if momentum.is_none() {
                            // A plain average over all batches.
                            momentum = Some(1.0 / n.item::<f64>()?);
                        }
                    }
                    let options = BatchNormOptions {
                        weight: self.weight.as_ref().map(Tensor::from),
                        bias: self.bias.as_ref().map(Tensor::from),
                        training: training || self.running_mean.is_none(),
                        momentum: momentum.unwrap_or(0.0),
                        eps: self.options.eps,
                    };
                    let (mean, var) = (self.running_mean.as_deref(), self.running_var.as_deref());
                    match sync {
                        Some(sync) => sync.batch_norm(x, mean, var, options),
                        None => F::batch_norm_with(x, mean, var, options),
                    }
                })
            }

            #[torsh_tensor::names_caller]
            fn upgrade_state_dict(&self, state: &mut StateDict, prefix: &str) -> Result<()> {
                upgrade_count(self.num_batches_tracked.as_ref(), state, prefix);
                Ok(())
            }

            fn extra_repr(&self) -> String {
                let known = self.running_mean.as_deref().or(self.weight.as_deref());
                format!(
                    "{}, eps={}, momentum={}, affine={}, bias={}, track_running_stats={}",
                    known.map_or(self.options.num_features, Tensor::numel),
                    python_float(self.options.eps),
                    self.momentum.get().map_or("None".into(), python_float),
                    python(self.weight.is_some()),
                    python(self.bias.is_some()),
                    python(self.running_mean.is_some())
                )
            }
        }
    };
}

batch_norm!(
    /// Normalises each feature over the batch (`torch.nn.BatchNorm1d`).
    ///
    /// Takes `[N, num_features]` or `[N, num_features, L]`. In training mode the batch's own mean
    /// and variance are used, and the running statistics follow them; in evaluation mode the
    /// running statistics are used.
    ///
    /// ```
    /// use torsh_nn::{BatchNorm1d, Module};
    /// use torsh_tensor::tensor;
    /// let norm = BatchNorm1d::builder(1).eps(0.0).build()?;
    /// assert_eq!(norm.forward(&tensor![[1.0], [3.0]])?, tensor![[-1.0], [1.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BatchNorm1d BatchNorm1dBuilder LazyBatchNorm1dBuilder "BatchNorm1d" 2 | 3, "2D or 3D"
);
batch_norm!(
    /// Normalises each channel over the batch and the image (`torch.nn.BatchNorm2d`).
    ///
    /// Takes `[N, num_features, H, W]`. In training mode the batch's own mean and variance are
    /// used, and the running statistics follow them; in evaluation mode the running statistics are
    /// used.
    ///
    /// ```
    /// use torsh_nn::{BatchNorm2d, Module};
    /// use torsh_tensor::tensor;
    /// let norm = BatchNorm2d::builder(1).eps(0.0).build()?;
    /// assert_eq!(norm.forward(&tensor![[[[1.0, 3.0]]]])?, tensor![[[[-1.0, 1.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BatchNorm2d BatchNorm2dBuilder LazyBatchNorm2dBuilder "BatchNorm2d" 4, "4D"
);
batch_norm!(
    /// Normalises each channel over the batch and the volume (`torch.nn.BatchNorm3d`).
    ///
    /// Takes `[N, num_features, D, H, W]`. In training mode the batch's own mean and variance are
    /// used, and the running statistics follow them; in evaluation mode the running statistics are
    /// used.
    ///
    /// ```
    /// use torsh_nn::{BatchNorm3d, Module};
    /// use torsh_tensor::tensor;
    /// let norm = BatchNorm3d::builder(1).eps(0.0).build()?;
    /// assert_eq!(norm.forward(&tensor![[[[[1.0, 3.0]]]]])?, tensor![[[[[-1.0, 1.0]]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    BatchNorm3d BatchNorm3dBuilder LazyBatchNorm3dBuilder "BatchNorm3d" 5, "5D"
);
batch_norm!(
    /// Normalises each channel over the batches of all processes (`torch.nn.SyncBatchNorm`).
    ///
    /// Takes `[N, num_features, ..]`. In evaluation mode the running statistics are used, as
    /// [`BatchNorm2d`] does; in training mode it needs a process group: `torsh::distributed::SyncBatchNorm` is this
    /// layer with one. Without, `forward` is an error.
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt, SyncBatchNorm};
    /// use torsh_tensor::tensor;
    /// let norm = SyncBatchNorm::builder(1).eps(0.0).build()?;
    /// assert!(norm.forward(&tensor![[1.0], [3.0]]).is_err());
    /// norm.eval();
    /// assert_eq!(norm.forward(&tensor![[1.0], [3.0]])?, tensor![[1.0], [3.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    SyncBatchNorm SyncBatchNormBuilder "SyncBatchNorm" 2.., "at least 2D", without_group
);

/// PyTorch falls back to the process's own batch; statistics that differ from one process to the
/// next without a word are worse than an error.
#[track_caller]
#[cold]
fn without_group() -> TorshError {
    TorshError::invalid(
        "SyncBatchNorm",
        "there is no process group to share the statistics of a training batch with",
    )
    .with_hint("make it by torsh::distributed::SyncBatchNorm, or train with BatchNorm1d, BatchNorm2d or BatchNorm3d, whose state dict is the same")
}
