//! ModernBERT (Warner et al., "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, Memory
//! Efficient, and Long Context Finetuning and Inference", 2024).

mod config;
mod heads;

use torsh_nn::construct::Construction;
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Training};
use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::blocks::encoder::{EncoderOutput, Layout, TokenInputs, check_heads, encoder_model};
use crate::blocks::{Activation, Layers, RotaryEmbedding, init, split_heads, tokens};
use crate::models::LayerType;

pub use config::{ClassifierPooling, ModernBertConfig};
pub(crate) use heads::CLASSES;
pub use heads::{
    ModernBertForMaskedLM, ModernBertForQuestionAnswering, ModernBertForSequenceClassification,
    ModernBertForTokenClassification, ModernBertPredictionHead,
};

#[derive(Module)]
struct ModernBertEmbeddings {
    tok_embeddings: Embedding,
    norm: LayerNorm,
    drop: Dropout,
}

impl Module for ModernBertEmbeddings {
    #[torsh_tensor::names_caller]
    fn forward(&self, ids: &Tensor) -> Result<Tensor> {
        let x = self
            .norm
            .forward(&tokens::vectors(&self.tok_embeddings, ids)?)?;
        self.drop.forward(&x)
    }
}

#[derive(Module)]
struct ModernBertAttention {
    #[module(rename = "Wqkv")]
    qkv: Linear,
    #[module(rename = "Wo")]
    out: Linear,
    out_drop: Dropout,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    window: Option<usize>,
    training: Training,
}

impl ModernBertAttention {
    fn run(&self, x: &Tensor, tables: &[Tensor; 2], layout: &Layout) -> Result<Tensor> {
        let qkv = self.qkv.forward(x)?;
        let width = qkv.size(-1)? / 3;
        let part = |i| split_heads(&qkv.narrow(-1, i * width, width)?, self.heads);
        let (q, k) = (turn(&part(0)?, tables)?, turn(&part(1)?, tables)?);
        let (dropout, training) = (self.out_drop.p(), self.training.get());
        let y = layout.attend([&q, &k, &part(2)?], self.window, dropout, training)?;
        self.out_drop.forward(&self.out.forward(&y)?)
    }
}

impl Module for ModernBertAttention {
    #[torsh_tensor::names_caller]
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(needs_positions("ModernBertAttention"))
    }
}

fn needs_positions(layer: &'static str) -> TorshError {
    TorshError::invalid(layer, "a layer needs the positions of its tokens")
        .with_hint("call the forward of the whole model")
}

/// Rotary embeddings of queries or keys, which are rounded to float32 first.
fn turn(x: &Tensor, [cos, sin]: &[Tensor; 2]) -> Result<Tensor> {
    let dtype = x.dtype();
    let wide = match dtype {
        DType::F64 => DType::F64,
        _ => DType::F32,
    };
    let x = x.to_dtype(DType::F32)?.to_dtype(wide)?;
    RotaryEmbedding::apply(&x, &cos.to_dtype(wide)?, &sin.to_dtype(wide)?)?.to_dtype(dtype)
}

#[derive(Module)]
struct ModernBertMlp {
    #[module(rename = "Wi")]
    inner: Linear,
    drop: Dropout,
    #[module(rename = "Wo")]
    out: Linear,
    #[module(skip)]
    activation: Activation,
}

impl Module for ModernBertMlp {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = self.inner.forward(x)?;
        let width = x.size(-1)? / 2;
        let y = self.activation.apply(&x.narrow(-1, 0, width)?)?;
        let y = y.mul(&x.narrow(-1, width, width)?)?;
        self.out.forward(&self.drop.forward(&y)?)
    }
}

/// A layer of [`ModernBertModel`]: attention and a gated feed-forward layer, each behind a norm and with a shortcut.
#[derive(Module)]
pub struct ModernBertLayer {
    attn_norm: Option<LayerNorm>,
    attn: ModernBertAttention,
    mlp_norm: LayerNorm,
    mlp: ModernBertMlp,
    #[module(skip)]
    sees: LayerType,
    hooks: Hooks,
}

impl ModernBertLayer {
    fn new(c: &ModernBertConfig, layer: usize, sees: LayerType) -> Result<ModernBertLayer> {
        let (width, inner, std) = (c.hidden_size, c.intermediate_size, c.initializer_range);
        let attn_norm = if layer == 0 { None } else { Some(c.norm()?) };
        Ok(ModernBertLayer {
            attn_norm,
            attn: ModernBertAttention {
                qkv: c.linear(width, 3 * width, c.attention_bias, std)?,
                out: c.linear(width, width, c.attention_bias, c.out_std())?,
                out_drop: Dropout::new(c.attention_dropout)?,
                heads: c.num_attention_heads,
                window: match sees {
                    LayerType::FullAttention => None,
                    LayerType::SlidingAttention => Some(c.local_attention / 2),
                },
                training: Training::default(),
            },
            mlp_norm: c.norm()?,
            mlp: ModernBertMlp {
                inner: c.linear(width, 2 * inner, c.mlp_bias, std)?,
                drop: Dropout::new(c.mlp_dropout)?,
                out: c.linear(inner, width, c.mlp_bias, c.out_std())?,
                activation: c.hidden_activation,
            },
            sees,
            hooks: Hooks::new(),
        })
    }

    fn run(&self, x: &Tensor, tables: &[Tensor; 2], layout: &Layout) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let y = match &self.attn_norm {
                Some(norm) => self.attn.run(&norm.forward(x)?, tables, layout)?,
                None => self.attn.run(x, tables, layout)?,
            };
            let x = x.add(&y)?;
            let y = self.mlp.forward(&self.mlp_norm.forward(&x)?)?;
            x.add(&y)
        })
    }
}

impl Module for ModernBertLayer {
    #[torsh_tensor::names_caller]
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(needs_positions("ModernBertLayer"))
    }
}

/// ModernBERT without head: an encoder with rotary embeddings, of whose layers most see a window.
///
/// ```
/// use torsh_nn::Module;
/// use torsh_tensor::tensor;
/// use torsh_text::models::{ModernBertConfig, ModernBertModel, TokenInputs};
/// let config = ModernBertConfig {
///     hidden_size: 8,
///     num_hidden_layers: 2,
///     num_attention_heads: 2,
///     intermediate_size: 12,
///     vocab_size: 20,
///     pad_token_id: Some(0),
///     local_attention: 4,
///     ..Default::default()
/// };
/// let model = ModernBertModel::new(config)?;
/// assert_eq!(model.forward(&tensor![[2, 5, 6, 3]])?.dims(), [1, 4, 8]);
/// // Nothing is computed for padding, and the other vectors are the same.
/// let (ids, mask) = (tensor![[2, 5, 3, 0], [2, 5, 6, 3]], tensor![[1, 1, 1, 0], [1, 1, 1, 1]]);
/// let inputs = TokenInputs::new(&ids).attention_mask(&mask).skip_padding(true);
/// let packed = model.forward_with(inputs)?.last_hidden_state.narrow(0, 0, 1)?.narrow(1, 0, 3)?;
/// let alone = model.forward(&tensor![[2, 5, 3]])?;
/// assert!(alone.sub(&packed)?.abs()?.max()?.item::<f32>()? < 1e-5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct ModernBertModel {
    embeddings: ModernBertEmbeddings,
    /// One after the other.
    pub layers: Layers<ModernBertLayer>,
    /// The norm behind the last layer.
    pub final_norm: LayerNorm,
    #[module(skip)]
    rotary: [RotaryEmbedding; 2],
    #[module(skip)]
    config: ModernBertConfig,
    training: Training,
    hooks: Hooks,
}

impl ModernBertModel {
    /// A model with drawn weights.
    ///
    /// # Errors
    /// Heads that do not divide the width, another number of layer types than layers, a padding token outside of the
    /// vocabulary.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(config: ModernBertConfig) -> Result<ModernBertModel> {
        let c = &config;
        check_heads("ModernBertModel", c.hidden_size, c.num_attention_heads)?;
        let size = c.hidden_size / c.num_attention_heads;
        let rope = |p| RotaryEmbedding::new(size, c.max_position_embeddings, p);
        let types = c.types()?;
        let layers = types.iter().enumerate();
        let words = (c.vocab_size, c.hidden_size);
        let table = || init::embedding(words.0, words.1, c.pad_token_id, 1.0);
        let tok_embeddings = Construction::new().draw_nothing().run(table)?;
        c.draw(&tok_embeddings.weight, c.initializer_range)?;
        Ok(ModernBertModel {
            embeddings: ModernBertEmbeddings {
                tok_embeddings,
                norm: c.norm()?,
                drop: Dropout::new(c.embedding_dropout)?,
            },
            layers: layers
                .map(|(layer, &sees)| ModernBertLayer::new(c, layer, sees))
                .collect::<Result<_>>()?,
            final_norm: c.norm()?,
            rotary: [
                rope(&c.rope_parameters.full_attention)?,
                rope(&c.rope_parameters.sliding_attention)?,
            ],
            config,
            training: Training::default(),
            hooks: Hooks::new(),
        })
    }

    /// The vectors of tokens; parts of pairs are not read.
    ///
    /// # Errors
    /// Ids outside of the vocabulary, shapes that differ.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, inputs: TokenInputs<'_>) -> Result<EncoderOutput> {
        let layout = Layout::new("ModernBertModel", &inputs, None)?;
        let x = self.embeddings.forward(&layout.pack(inputs.input_ids)?)?;
        let positions = layout.pack(&layout.positions(inputs.input_ids)?)?;
        let table = |rotary: &RotaryEmbedding| -> Result<[Tensor; 2]> {
            let (cos, sin) = rotary.tables(&positions, x.dtype())?;
            Ok([cos, sin])
        };
        let [full, sliding] = &self.rotary;
        let tables = [table(full)?, table(sliding)?];
        let of_layers = layout.clone();
        let x = self.layers.run(x, move |layer, _, x| {
            let tables = &tables[usize::from(layer.sees == LayerType::SlidingAttention)];
            layer.run(x, tables, &of_layers)
        })?;
        Ok(EncoderOutput::of(
            layout.unpack(self.final_norm.forward(&x)?)?,
        ))
    }
}

encoder_model!(ModernBertModel);
