//! `TransformerEncoder` and `TransformerDecoder`.

use torsh_tensor::{DType, Device, Result, Tensor, TorshError, options};

use super::layer::Config;
use super::whole::square_subsequent_mask;
use super::{
    TransformerDecoderLayer, TransformerDecoderLayerOptions, TransformerEncoderLayer,
    TransformerEncoderLayerOptions,
};
use crate::layers::needs_more;
use crate::module::{FieldMut, FieldRef, Hooks, Parameter, Training, walk, walk_mut};
use crate::{Module, ModuleExt};

/// The same layer with parameters of its own. Nothing is drawn: the new one is made on the meta
/// device.
fn copied<M: Module>(layer: &M, config: &Config, of: fn(Config) -> Result<M>) -> Result<M> {
    let mut config = config.clone();
    config.factory.device = Device::Meta;
    let mut new = of(config)?;
    let mut copies = Vec::new();
    walk(layer, &mut |_, field| {
        if let FieldRef::Parameter(p) = field {
            let copy = p.detach().copy();
            copies.push(copy.and_then(|t| Parameter::with_requires_grad(t, p.requires_grad())));
        }
    });
    let mut copies = copies.into_iter().collect::<Result<Vec<_>>>()?.into_iter();
    walk_mut(&mut new, &mut |_, field| {
        if let FieldMut::Parameter(p) = field
            && let Some(copy) = copies.next()
        {
            *p = copy;
        }
    });
    new.set_training(layer.is_training());
    Ok(new)
}

/// The ways to make a stack of layers.
macro_rules! stacks {
    ($($stack:ident $builder:ident of $layer:ident { $argument:ident $($(#[$doc:meta])* $field:ident: $ty:ty = $default:expr;)* } $what:literal)*) => {$(
        impl $stack {
            /// `num_layers` such layers, without a normalisation behind them.
            #[torsh_tensor::names_caller(Self)]
            pub fn new($argument: $layer, num_layers: usize) -> Result<$stack> {
                $stack::builder($argument, num_layers).build()
            }

            #[doc = concat!($what, " with PyTorch's other arguments.")]
            pub fn builder($argument: $layer, num_layers: usize) -> $builder {
                $builder {
                    layer: $argument,
                    num_layers,
                    norm: None,
                    $($field: $default,)*
                }
            }
        }

        #[doc = concat!("Builds a [`", stringify!($stack), "`].")]
        pub struct $builder {
            layer: $layer,
            num_layers: usize,
            norm: Option<Box<dyn Module>>,
            $($field: $ty,)*
        }

        impl $builder {
            /// What comes behind the layers.
            #[must_use]
            pub fn norm(mut self, norm: impl Module) -> Self {
                self.norm = Some(Box::new(norm));
                self
            }

            $($(#[$doc])*
            #[must_use]
            pub fn $field(mut self, $field: $ty) -> Self {
                self.$field = $field;
                self
            })*

            /// Makes the stack, the given layer first. An error without layers.
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$stack> {
                if self.num_layers == 0 {
                    let why = "num_layers must be greater than zero";
                    return Err(TorshError::invalid(stringify!($stack), why));
                }
                let config = self.layer.config.clone();
                let copies = (1..self.num_layers).map(|_| copied(&self.layer, &config, $layer::of));
                let mut layers = copies.collect::<Result<Vec<_>>>()?;
                layers.insert(0, self.layer);
                Ok($stack {
                    layers,
                    norm: self.norm,
                    $($field: self.$field,)*
                    training: Training::default(),
                    hooks: Hooks::new(),
                })
            }
        }
    )*};
}

stacks! {
    TransformerEncoder TransformerEncoderBuilder of TransformerEncoderLayer {
        encoder_layer
        /// Whether padding at the end of sequences gives zeros in evaluation. The default is `true`.
        enable_nested_tensor: bool = true;
    } "An encoder"
    TransformerDecoder TransformerDecoderBuilder of TransformerDecoderLayer { decoder_layer } "A decoder"
}

/// What comes behind the layers.
fn normalised(norm: &Option<Box<dyn Module>>, x: Tensor) -> Result<Tensor> {
    match norm {
        Some(norm) => norm.forward(&x),
        None => Ok(x),
    }
}

/// Whether a mask is the causal one, where it is not said.
fn is_causal(
    mask: Option<&Tensor>,
    said: Option<bool>,
    x: &Tensor,
    batch_first: bool,
) -> Result<bool> {
    let (None, Some(mask)) = (said, mask) else {
        return Ok(said.unwrap_or(false));
    };
    let length = match x.ndim() {
        3 => x.dims()[usize::from(batch_first)],
        _ => x.dims().first().copied().unwrap_or(0),
    };
    if mask.dims() != [length, length] || mask.device() == Device::Meta {
        return Ok(false);
    }
    let causal = match mask.dtype() {
        DType::Bool => Tensor::ones([length, length], DType::Bool, mask.device())?.triu(1)?,
        dtype => square_subsequent_mask(length, dtype, mask.device())?,
    };
    Ok(*mask == causal)
}

options! {
    /// PyTorch's keyword arguments of [`TransformerEncoder::forward_with`].
    TransformerEncoderOptions {
        /// `[length, length]` or `[batch * heads, length, length]`: true where an element does not
        /// see another, or numbers added to their products.
        mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[batch, length]`: true where an element is not seen, or numbers added to its products.
        src_key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether `mask` is causal; found out unless set.
        is_causal: Option<bool> = None, bool => Some;
    }
}

options! {
    /// PyTorch's keyword arguments of [`TransformerDecoder::forward_with`].
    TransformerDecoderOptions {
        /// `[length, length]`: true where an element does not see another, or numbers added to
        /// their products.
        tgt_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[length, memory length]`: true where an element does not see one of the memory.
        memory_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[batch, length]`: true where an element is not seen.
        tgt_key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[batch, memory length]`: true where an element of the memory is not seen.
        memory_key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether `tgt_mask` is causal; found out unless set.
        tgt_is_causal: Option<bool> = None, bool => Some;
        /// A hint that `memory_mask`, which must be given, is causal.
        memory_is_causal: bool = false;
    }
}

/// Encoder layers one after the other (`torch.nn.TransformerEncoder`).
///
/// The layers start with the same parameters, those of the layer that is given, as PyTorch's do.
///
/// ```
/// use torsh_nn::{Module, ModuleExt, TransformerEncoder, TransformerEncoderLayer};
/// use torsh_tensor::randn;
/// let layer = TransformerEncoderLayer::builder(4, 2).dim_feedforward(8).dropout(0.0).build()?;
/// let x = randn(&[3, 1, 4]);
/// let twice = layer.forward(&layer.forward(&x)?)?;
/// let encoder = TransformerEncoder::new(layer, 2)?;
/// assert!(encoder.forward(&x)?.allclose(&twice)?);
/// assert_eq!(encoder.state_dict().keys().next(), Some("layers.0.self_attn.in_proj_weight"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct TransformerEncoder {
    /// The layers.
    pub layers: Vec<TransformerEncoderLayer>,
    /// What comes behind them.
    pub norm: Option<Box<dyn Module>>,
    #[module(skip)]
    enable_nested_tensor: bool,
    training: Training,
    hooks: Hooks,
}

impl TransformerEncoder {
    /// The padded positions, where PyTorch leaves padding out and so gives zeros there: in
    /// evaluation without gradients, for padding behind the end of sequences.
    fn left_out(&self, src: &Tensor, o: &TransformerEncoderOptions) -> Result<Option<Tensor>> {
        let (Some(padding), Some(first)) = (&o.src_key_padding_mask, self.layers.first()) else {
            return Ok(None);
        };
        let c = &first.config;
        let suits = self.enable_nested_tensor
            && o.mask.is_none()
            && src.ndim() == 3
            && src.device() != Device::Meta
            && c.batch_first
            && c.bias
            && !c.norm_first
            && c.nhead.is_multiple_of(2)
            && !first.training.get();
        let records = torsh_tensor::is_grad_enabled()
            && (src.requires_grad() || first.parameters().iter().any(|p| p.requires_grad()));
        if !suits || records || padding.ndim() != 2 {
            return Ok(None);
        }
        let padded = padding.to_dtype(DType::Bool)?;
        let rows = padded.to_vec2::<bool>()?;
        let behind = rows.iter().all(|row| row.windows(2).all(|w| w[0] <= w[1]));
        Ok(behind.then_some(padded))
    }

    /// The output under masks.
    ///
    /// In evaluation, without gradients and with `batch_first`, positions that
    /// `src_key_padding_mask` hides at the end of sequences are zeros ahead of `norm`, unless
    /// `enable_nested_tensor(false)`.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, src: &Tensor, options: TransformerEncoderOptions) -> Result<Tensor> {
        self.hooks.run(self, src, |src| {
            let batch_first = self.layers.first().is_some_and(|l| l.config.batch_first);
            let left_out = self.left_out(src, &options)?;
            let is_causal = is_causal(options.mask.as_ref(), options.is_causal, src, batch_first)?;
            let layer_options = TransformerEncoderLayerOptions {
                src_mask: options.mask.clone(),
                src_key_padding_mask: options.src_key_padding_mask.clone(),
                is_causal,
            };
            let mut x = src.clone();
            for layer in &self.layers {
                x = layer.forward_with(&x, layer_options.clone())?;
            }
            if let Some(padded) = left_out {
                x = x.masked_fill(&padded.unsqueeze(2)?, 0.0)?;
            }
            normalised(&self.norm, x)
        })
    }
}

impl Module for TransformerEncoder {
    /// The output without masks.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.forward_with(x, TransformerEncoderOptions::default())
    }
}

/// Decoder layers one after the other (`torch.nn.TransformerDecoder`).
///
/// The layers start with the same parameters, those of the layer that is given, as PyTorch's do.
#[derive(Module)]
pub struct TransformerDecoder {
    /// The layers.
    pub layers: Vec<TransformerDecoderLayer>,
    /// What comes behind them.
    pub norm: Option<Box<dyn Module>>,
    training: Training,
    hooks: Hooks,
}

impl TransformerDecoder {
    /// The output over a memory.
    #[torsh_tensor::names_caller]
    pub fn forward(&self, tgt: &Tensor, memory: &Tensor) -> Result<Tensor> {
        self.forward_with(tgt, memory, TransformerDecoderOptions::new())
    }

    /// The output over a memory, under masks.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        tgt: &Tensor,
        memory: &Tensor,
        options: TransformerDecoderOptions,
    ) -> Result<Tensor> {
        self.hooks.run_many(self, [tgt, memory], |[tgt, memory]| {
            let batch_first = self.layers.first().is_some_and(|l| l.config.batch_first);
            let layer_options = TransformerDecoderLayerOptions {
                tgt_is_causal: is_causal(
                    options.tgt_mask.as_ref(),
                    options.tgt_is_causal,
                    tgt,
                    batch_first,
                )?,
                tgt_mask: options.tgt_mask,
                memory_mask: options.memory_mask,
                tgt_key_padding_mask: options.tgt_key_padding_mask,
                memory_key_padding_mask: options.memory_key_padding_mask,
                memory_is_causal: options.memory_is_causal,
            };
            let mut x = tgt.clone();
            for layer in &self.layers {
                x = layer.forward_with(&x, memory, layer_options.clone())?;
            }
            normalised(&self.norm, x)
        })
    }
}

impl Module for TransformerDecoder {
    /// An error: a decoder needs a memory.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_more(
            "TransformerDecoder",
            "forward_with(&tgt, &memory, TransformerDecoderOptions::new())",
        ))
    }
}
