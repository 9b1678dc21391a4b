//! `TransformerEncoderLayer` and `TransformerDecoderLayer`.

use torsh_functional as F;
use torsh_tensor::named::Named;
use torsh_tensor::{Result, Tensor, options};

use super::{MultiheadAttention, MultiheadAttentionOptions, TransformerActivation};
use crate::Module;
use crate::layers::examples::tests;
use crate::layers::{Dropout, Factory, LayerNorm, Linear, needs_more};
use crate::module::{Hooks, Training};

/// What both kinds of layers are built from.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub d_model: usize,
    pub nhead: usize,
    pub dim_feedforward: usize,
    pub dropout: f64,
    pub activation: TransformerActivation,
    pub layer_norm_eps: f64,
    pub batch_first: bool,
    pub norm_first: bool,
    pub bias: bool,
    pub factory: Factory,
}

impl Config {
    pub fn new(d_model: usize, nhead: usize) -> Config {
        Config {
            d_model,
            nhead,
            dim_feedforward: 2048,
            dropout: 0.1,
            activation: TransformerActivation::ReLU,
            layer_norm_eps: 1e-5,
            batch_first: false,
            norm_first: false,
            bias: true,
            factory: Factory::default(),
        }
    }

    fn attention(&self) -> Result<MultiheadAttention> {
        let mut b = MultiheadAttention::builder(self.d_model, self.nhead)
            .dropout(self.dropout)
            .bias(self.bias)
            .batch_first(self.batch_first);
        b.factory = self.factory;
        b.build()
    }

    fn linear(&self, from: usize, to: usize) -> Result<Linear> {
        let b = Linear::builder(from, to).bias(self.bias);
        b.device(self.factory.device)
            .dtype(self.factory.dtype())
            .build()
    }

    #[torsh_tensor::names_caller]
    pub fn norm(&self) -> Result<LayerNorm> {
        LayerNorm::builder([self.d_model])
            .eps(self.layer_norm_eps)
            .bias(self.bias)
            .device(self.factory.device)
            .dtype(self.factory.dtype())
            .build()
    }

    /// The two linear layers, with what is between and behind them.
    fn feed_forward(
        &self,
        x: &Tensor,
        [first, second]: [&Linear; 2],
        [between, behind]: [&Dropout; 2],
    ) -> Result<Tensor> {
        let x = first.forward(x)?;
        let hidden = match self.activation.known()? {
            TransformerActivation::ReLU => F::relu(&x)?,
            TransformerActivation::GELU | TransformerActivation::Unknown(_) => F::gelu(&x)?,
        };
        behind.forward(&second.forward(&between.forward(&hidden)?)?)
    }

    /// `x` and what `part` makes of it, normalised ahead of the part or behind the sum.
    fn add(
        &self,
        x: &Tensor,
        norm: &LayerNorm,
        part: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        match self.norm_first {
            true => x.add(&part(&norm.forward(x)?)?),
            false => norm.forward(&x.add(&part(x)?)?),
        }
    }
}

/// The setters of builders around a [`Config`].
macro_rules! config_setters {
    ($layer:ident) => {
        $crate::layers::transformer::layer::config_setters! {
            $layer
            /// The size between the two linear layers. The default is 2048.
            @ ".dim_feedforward(8)" "out_features=8"
            dim_feedforward: usize;
            /// The probability with which elements are set to 0 while training. The default is 0.1.
            @ ".dim_feedforward(8).dropout(0.25)" "Dropout(p=0.25"
            dropout: f64;
            /// Added to the variance in normalisations. The default is 1e-5.
            @ ".dim_feedforward(8).layer_norm_eps(0.5)" "LayerNorm((4,), eps=0.5"
            layer_norm_eps: f64;
            /// Whether inputs and outputs are `[batch, length, d_model]`.
            batch_first: bool;
            /// Whether normalisation comes ahead of attention and linear layers rather than behind.
            norm_first: bool;
            /// Whether linear layers and normalisations have biases. The default is `true`.
            @ ".dim_feedforward(8).bias(false)" "bias=False"
            bias: bool;
        }

        /// What is between the two linear layers. The default is ReLU.
        #[doc = $crate::layers::examples::tests!(
            "let builder = ", stringify!($layer), "::builder(4, 2).dim_feedforward(8);\n",
            "assert!(builder.activation(\"gelu\").build().is_ok());"
        )]
        #[must_use]
        pub fn activation(mut self, activation: impl Into<$crate::TransformerActivation>) -> Self {
            self.config.activation = activation.into();
            self
        }

        /// Where the tensors are made.
        #[doc = $crate::layers::examples::tests!(
            "let model = ", stringify!($layer), "::builder(4, 2).dim_feedforward(8).device(Device::Cpu).build()?;\n",
            "assert!(model.parameters().iter().all(|p| p.device() == Device::Cpu));"
        )]
        #[must_use]
        pub fn device(mut self, device: impl Into<torsh_tensor::Device>) -> Self {
            self.config.factory.device = device.into();
            self
        }

        /// The dtype of the tensors. The default is the default dtype.
        #[doc = $crate::layers::examples::tests!(
            "let model = ", stringify!($layer), "::builder(4, 2).dim_feedforward(8).dtype(DType::F64).build()?;\n",
            "assert!(model.parameters().iter().all(|p| p.dtype() == DType::F64));"
        )]
        #[must_use]
        pub fn dtype(mut self, dtype: torsh_tensor::DType) -> Self {
            self.config.factory.dtype = Some(dtype);
            self
        }
    };
    ($layer:ident $($(#[$doc:meta])* $(@ $set:literal $shows:literal)? $field:ident: $ty:ty;)*) => {
        $(
            $(#[$doc])*
            $(#[doc = $crate::layers::examples::tests!(
                "let model = ", stringify!($layer), "::builder(4, 2)", $set, ".build()?;\n",
                "assert!(model.repr().contains(\"", $shows, "\"));"
            )])?
            #[must_use]
            pub fn $field(mut self, $field: $ty) -> Self {
                self.config.$field = $field;
                self
            }
        )*
    };
}
pub(super) use config_setters;

options! {
    /// PyTorch's keyword arguments of [`TransformerEncoderLayer::forward_with`].
    TransformerEncoderLayerOptions {
        /// `[length, length]` or `[batch * heads, length, length]`: true where an element does not
        /// see another, or numbers added to their products.
        src_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[batch, length]`: true where an element is not seen, or numbers added to its products.
        src_key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// A hint that `src_mask`, which must be given, is causal.
        is_causal: bool = false;
    }
}

options! {
    /// PyTorch's keyword arguments of [`TransformerDecoderLayer::forward_with`].
    TransformerDecoderLayerOptions {
        /// `[length, length]`: true where an element does not see another, or numbers added to
        /// their products.
        tgt_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[length, memory length]`: true where an element does not see one of the memory.
        memory_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[batch, length]`: true where an element is not seen.
        tgt_key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[batch, memory length]`: true where an element of the memory is not seen.
        memory_key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// A hint that `tgt_mask`, which must be given, is causal.
        tgt_is_causal: bool = false;
        /// A hint that `memory_mask`, which must be given, is causal.
        memory_is_causal: bool = false;
    }
}

/// Self-attention and two linear layers, each added to what came in and normalised
/// (`torch.nn.TransformerEncoderLayer`; Vaswani et al., 2017).
///
/// Takes and gives `[length, batch, d_model]`, with `batch_first` `[batch, length, d_model]`, or
/// `[length, d_model]`.
///
/// ```
/// use torsh_nn::{Module, ModuleExt, TransformerEncoderLayer, init};
/// use torsh_tensor::tensor;
/// let layer = TransformerEncoderLayer::builder(2, 1).dim_feedforward(4).build()?;
/// layer.eval();
/// for p in layer.parameters().iter().filter(|p| p.ndim() > 1) {
///     init::zeros_(p)?;
/// }
/// init::zeros_(layer.linear2.bias.as_ref().unwrap())?;
/// // Nothing is added, so that only the normalisations are left.
/// let y = layer.forward(&tensor![[1.0, 3.0]])?;
/// assert!(y.sub(&tensor![[-1.0, 1.0]])?.abs()?.max()?.item::<f32>()? < 1e-4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct TransformerEncoderLayer {
    /// Attention of the elements over themselves.
    pub self_attn: MultiheadAttention,
    /// `[d_model]` to `[dim_feedforward]`.
    pub linear1: Linear,
    dropout: Dropout,
    /// `[dim_feedforward]` to `[d_model]`.
    pub linear2: Linear,
    /// With attention.
    pub norm1: LayerNorm,
    /// With the linear layers.
    pub norm2: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    #[module(skip)]
    pub(super) config: Config,
    pub(super) training: Training,
    hooks: Hooks,
}

/// Attention as a part of a layer: no weights.
fn attend(
    attention: &MultiheadAttention,
    x: &Tensor,
    seen: &Tensor,
    mask: &Option<Tensor>,
    padding: &Option<Tensor>,
    is_causal: bool,
) -> Result<Tensor> {
    let mut options = MultiheadAttentionOptions::new()
        .need_weights(false)
        .is_causal(is_causal);
    options.attn_mask = mask.clone();
    options.key_padding_mask = padding.clone();
    attention
        .forward_with(x, seen, seen, options)
        .map(|(y, _)| y)
}

impl TransformerEncoderLayer {
    #[track_caller]
    pub(super) fn of(config: Config) -> Result<TransformerEncoderLayer> {
        let dropout = || Dropout::new(config.dropout);
        Ok(TransformerEncoderLayer {
            self_attn: config.attention()?,
            linear1: config.linear(config.d_model, config.dim_feedforward)?,
            dropout: dropout()?,
            linear2: config.linear(config.dim_feedforward, config.d_model)?,
            norm1: config.norm()?,
            norm2: config.norm()?,
            dropout1: dropout()?,
            dropout2: dropout()?,
            config,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// The output under masks.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        src: &Tensor,
        options: TransformerEncoderLayerOptions,
    ) -> Result<Tensor> {
        self.hooks.run(self, src, |x| {
            let attend = |x: &Tensor| {
                let (mask, padding) = (&options.src_mask, &options.src_key_padding_mask);
                let y = attend(&self.self_attn, x, x, mask, padding, options.is_causal)?;
                self.dropout1.forward(&y)
            };
            let c = &self.config;
            let (linear, dropout) = (
                [&self.linear1, &self.linear2],
                [&self.dropout, &self.dropout2],
            );
            let x = c.add(x, &self.norm1, attend)?;
            c.add(&x, &self.norm2, |x| c.feed_forward(x, linear, dropout))
        })
    }
}

impl Module for TransformerEncoderLayer {
    /// The output without masks.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, TransformerEncoderLayerOptions::default())
    }
}

/// Self-attention, attention over a memory and two linear layers, each added to what came in and
/// normalised (`torch.nn.TransformerDecoderLayer`; Vaswani et al., 2017).
///
/// [`forward_with`](TransformerDecoderLayer::forward_with) takes `[length, batch, d_model]` and a
/// memory `[memory length, batch, d_model]`, and gives the shape of the first; with `batch_first`
/// `batch` comes first.
#[derive(Module)]
pub struct TransformerDecoderLayer {
    /// Attention of the elements over themselves.
    pub self_attn: MultiheadAttention,
    /// Attention of the elements over the memory.
    pub multihead_attn: MultiheadAttention,
    /// `[d_model]` to `[dim_feedforward]`.
    pub linear1: Linear,
    dropout: Dropout,
    /// `[dim_feedforward]` to `[d_model]`.
    pub linear2: Linear,
    /// With self-attention.
    pub norm1: LayerNorm,
    /// With attention over the memory.
    pub norm2: LayerNorm,
    /// With the linear layers.
    pub norm3: LayerNorm,
    dropout1: Dropout,
    dropout2: Dropout,
    dropout3: Dropout,
    #[module(skip)]
    pub(super) config: Config,
    pub(super) training: Training,
    hooks: Hooks,
}

impl TransformerDecoderLayer {
    #[track_caller]
    pub(super) fn of(config: Config) -> Result<TransformerDecoderLayer> {
        let dropout = || Dropout::new(config.dropout);
        Ok(TransformerDecoderLayer {
            self_attn: config.attention()?,
            multihead_attn: config.attention()?,
            linear1: config.linear(config.d_model, config.dim_feedforward)?,
            dropout: dropout()?,
            linear2: config.linear(config.dim_feedforward, config.d_model)?,
            norm1: config.norm()?,
            norm2: config.norm()?,
            norm3: config.norm()?,
            dropout1: dropout()?,
            dropout2: dropout()?,
            dropout3: dropout()?,
            config,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// The output over a memory.
    #[torsh_tensor::names_caller]
    pub fn forward(&self, tgt: &Tensor, memory: &Tensor) -> Result<Tensor> {
        self.forward_with(tgt, memory, TransformerDecoderLayerOptions::new())
    }

    /// The output over a memory, under masks.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        tgt: &Tensor,
        memory: &Tensor,
        options: TransformerDecoderLayerOptions,
    ) -> Result<Tensor> {
        let o = &options;
        self.hooks.run_many(self, [tgt, memory], |[x, memory]| {
            let own = |x: &Tensor| {
                let (mask, padding) = (&o.tgt_mask, &o.tgt_key_padding_mask);
                let y = attend(&self.self_attn, x, x, mask, padding, o.tgt_is_causal)?;
                self.dropout1.forward(&y)
            };
            let other = |x: &Tensor| {
                let (mask, padding) = (&o.memory_mask, &o.memory_key_padding_mask);
                let y = attend(
                    &self.multihead_attn,
                    x,
                    memory,
                    mask,
                    padding,
                    o.memory_is_causal,
                )?;
                self.dropout2.forward(&y)
            };
            let c = &self.config;
            let (linear, dropout) = (
                [&self.linear1, &self.linear2],
                [&self.dropout, &self.dropout3],
            );
            let x = c.add(x, &self.norm1, own)?;
            let x = c.add(&x, &self.norm2, other)?;
            c.add(&x, &self.norm3, |x| c.feed_forward(x, linear, dropout))
        })
    }
}

impl Module for TransformerDecoderLayer {
    /// An error: a decoder needs a memory.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_more(
            "TransformerDecoderLayer",
            "forward_with(&tgt, &memory, TransformerDecoderLayerOptions::new())",
        ))
    }
}

macro_rules! builders {
    ($($builder:ident $layer:ident;)*) => {$(
        impl $layer {
            /// A layer with PyTorch's defaults. An error where the heads do not divide `d_model`.
            #[torsh_tensor::names_caller(Self)]
            pub fn new(d_model: usize, nhead: usize) -> Result<$layer> {
                $layer::builder(d_model, nhead).build()
            }

            /// A layer with PyTorch's other arguments.
            pub fn builder(d_model: usize, nhead: usize) -> $builder {
                $builder {
                    config: Config::new(d_model, nhead),
                }
            }
        }

        #[doc = concat!("Builds a [`", stringify!($layer), "`].")]
        #[doc = tests!(
            "let layer = ", stringify!($layer), "::builder(4, 2).dim_feedforward(8).bias(false).build()?;\n",
            "assert_eq!(layer.linear1.num_parameters(), 4 * 8);"
        )]
        #[derive(Clone, Debug)]
        pub struct $builder {
            config: Config,
        }

        impl $builder {
            config_setters!($layer);

            /// Makes the layer and draws its weights. An error where the heads do not divide
            /// `d_model`, or `dropout` is no probability.
            #[doc = tests!(
                "let layer = ", stringify!($layer), "::builder(4, 2).dim_feedforward(8).build()?;\n",
                "assert_eq!(layer.linear1.weight.dims(), [8, 4]);\n",
                "assert!(", stringify!($layer), "::builder(4, 3).build().is_err());"
            )]
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$layer> {
                $layer::of(self.config)
            }
        }
    )*};
}

builders! {
    TransformerEncoderLayerBuilder TransformerEncoderLayer;
    TransformerDecoderLayerBuilder TransformerDecoderLayer;
}
