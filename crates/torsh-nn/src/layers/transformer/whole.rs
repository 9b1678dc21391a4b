//! `Transformer`.

use torsh_tensor::{DType, Device, Result, Tensor, TorshError, options};

use super::layer::{Config, config_setters};
use super::{
    TransformerDecoder, TransformerDecoderLayer, TransformerDecoderOptions, TransformerEncoder,
    TransformerEncoderLayer, TransformerEncoderOptions,
};
use crate::layers::needs_more;
use crate::module::{Hooks, Training};
use crate::{Module, ModuleExt, init};

/// Negative infinity above the diagonal and 0 elsewhere.
pub(super) fn square_subsequent_mask(sz: usize, dtype: DType, device: Device) -> Result<Tensor> {
    Tensor::full([sz, sz], f64::NEG_INFINITY, dtype, device)?.triu(1)
}

options! {
    /// PyTorch's keyword arguments of [`Transformer::forward_with`]. Masks are true where something
    /// is not seen, or numbers to add.
    TransformerOptions {
        /// `[source, source]`
        src_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[target, target]`
        tgt_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[target, source]`
        memory_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[batch, source]`
        src_key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[batch, target]`
        tgt_key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// `[batch, source]`
        memory_key_padding_mask: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
        /// Whether `src_mask` is causal; found out unless set.
        src_is_causal: Option<bool> = None, bool => Some;
        /// Whether `tgt_mask` is causal; found out unless set.
        tgt_is_causal: Option<bool> = None, bool => Some;
        /// A hint that `memory_mask`, which must be given, is causal.
        memory_is_causal: bool = false;
    }
}

/// An encoder, and a decoder over what it gives (`torch.nn.Transformer`; Vaswani et al., 2017).
///
/// [`forward_with`](Transformer::forward_with) takes a source `[source, batch, d_model]` and a
/// target `[target, batch, d_model]`, and gives the target's shape; with `batch_first` `batch`
/// comes first, and both may be without it.
#[derive(Module)]
pub struct Transformer {
    /// Encodes the source.
    pub encoder: TransformerEncoder,
    /// Decodes the target.
    pub decoder: TransformerDecoder,
    #[module(skip)]
    d_model: usize,
    #[module(skip)]
    batch_first: bool,
    training: Training,
    hooks: Hooks,
}

impl Transformer {
    /// A transformer with PyTorch's defaults: 6 layers in encoder and decoder. PyTorch's `d_model`
    /// is 512 and its `nhead` 8 by default.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(d_model: usize, nhead: usize) -> Result<Transformer> {
        Transformer::builder(d_model, nhead).build()
    }

    /// A transformer with PyTorch's other arguments.
    pub fn builder(d_model: usize, nhead: usize) -> TransformerBuilder {
        TransformerBuilder {
            config: Config::new(d_model, nhead),
            num_encoder_layers: 6,
            num_decoder_layers: 6,
        }
    }

    /// The mask under which nothing sees what follows it: negative infinity above the diagonal and
    /// 0 elsewhere, of the default dtype.
    ///
    /// ```
    /// use torsh_nn::Transformer;
    /// use torsh_tensor::tensor;
    /// let mask = Transformer::generate_square_subsequent_mask(2)?;
    /// assert_eq!(mask, tensor![[0.0, f32::NEG_INFINITY], [0.0, 0.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn generate_square_subsequent_mask(sz: usize) -> Result<Tensor> {
        square_subsequent_mask(
            sz,
            torsh_core::default_dtype(),
            torsh_tensor::default_device(),
        )
    }

    /// Draws all matrices anew (`xavier_uniform_`).
    #[torsh_tensor::names_caller]
    pub fn reset_parameters(&self) -> Result<()> {
        for p in self.parameters().iter().filter(|p| p.ndim() > 1) {
            init::xavier_uniform_(p, 1.0)?;
        }
        Ok(())
    }

    /// What the decoder makes of the target over the encoded source, without masks.
    #[torsh_tensor::names_caller]
    pub fn forward(&self, src: &Tensor, tgt: &Tensor) -> Result<Tensor> {
        self.forward_with(src, tgt, TransformerOptions::new())
    }

    /// What the decoder makes of the target over the encoded source.
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        src: &Tensor,
        tgt: &Tensor,
        options: TransformerOptions,
    ) -> Result<Tensor> {
        let o = options;
        self.hooks.run_many(self, [src, tgt], |[src, tgt]| {
            let rank = src.ndim();
            let batch = usize::from(!self.batch_first);
            let fits = matches!(rank, 2 | 3)
                && tgt.ndim() == rank
                && [src, tgt].iter().all(|t| t.dims()[rank - 1] == self.d_model)
                && (rank == 2 || src.dims()[batch] == tgt.dims()[batch]);
            if !fits {
                return Err(TorshError::shape(
                    "Transformer",
                    format!(
                        "the batch number of src and tgt must be equal, and their feature number d_model, {}, got {} and {}",
                        self.d_model,
                        src.describe(),
                        tgt.describe()
                    ),
                ));
            }
            let memory = self.encoder.forward_with(
                src,
                TransformerEncoderOptions {
                    mask: o.src_mask,
                    src_key_padding_mask: o.src_key_padding_mask,
                    is_causal: o.src_is_causal,
                },
            )?;
            self.decoder.forward_with(
                tgt,
                &memory,
                TransformerDecoderOptions {
                    tgt_mask: o.tgt_mask,
                    memory_mask: o.memory_mask,
                    tgt_key_padding_mask: o.tgt_key_padding_mask,
                    memory_key_padding_mask: o.memory_key_padding_mask,
                    tgt_is_causal: o.tgt_is_causal,
                    memory_is_causal: o.memory_is_causal,
                },
            )
        })
    }
}

impl Module for Transformer {
    /// An error: a transformer takes a source and a target.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(needs_more(
            "Transformer",
            "forward_with(&src, &tgt, TransformerOptions::new())",
        ))
    }
}

/// Builds a [`Transformer`].
#[derive(Clone, Debug)]
pub struct TransformerBuilder {
    config: Config,
    num_encoder_layers: usize,
    num_decoder_layers: usize,
}

impl TransformerBuilder {
    /// How many layers the encoder has. The default is 6.
    #[must_use]
    pub fn num_encoder_layers(mut self, num_encoder_layers: usize) -> Self {
        self.num_encoder_layers = num_encoder_layers;
        self
    }

    /// How many layers the decoder has. The default is 6.
    #[must_use]
    pub fn num_decoder_layers(mut self, num_decoder_layers: usize) -> Self {
        self.num_decoder_layers = num_decoder_layers;
        self
    }

    config_setters!(Transformer);

    /// Makes the transformer and draws its weights. An error where the heads do not divide
    /// `d_model`, encoder or decoder have no layers, or `dropout` is no probability.
    #[torsh_tensor::names_caller]
    pub fn build(self) -> Result<Transformer> {
        let c = self.config;
        let encoder_layer = TransformerEncoderLayer::of(c.clone())?;
        let encoder = TransformerEncoder::builder(encoder_layer, self.num_encoder_layers)
            .norm(c.norm()?)
            .build()?;
        let decoder_layer = TransformerDecoderLayer::of(c.clone())?;
        let decoder = TransformerDecoder::builder(decoder_layer, self.num_decoder_layers)
            .norm(c.norm()?)
            .build()?;
        let transformer = Transformer {
            encoder,
            decoder,
            d_model: c.d_model,
            batch_first: c.batch_first,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        transformer.reset_parameters()?;
        Ok(transformer)
    }
}
