//! ModernBERT (Warner et al., "Smarter, Better, Faster, Longer: A Modern Bidirectional Encoder for Fast, Memory
//! Efficient, and Long Context Finetuning and Inference", 2024).

mod config;
mod heads;

use torsh_nn::construct::Construction;
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module, Training};
use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::blocks::encoder::{Layout, check_heads, encoder_model};
use crate::blocks::{Activation, Layers, RotaryEmbedding, init, part, split_heads, tokens};
use crate::models::LayerType;

pub use config::{ClassifierPooling, ModernBertConfig};
pub(crate) use heads::CLASSES;
pub use heads::{
    ModernBertForMaskedLM, ModernBertForQuestionAnswering, ModernBertForSequenceClassification,
    ModernBertForTokenClassification, ModernBertPredictionHead,
};

/// The configuration, if heads divide the width.
fn checked(c: &ModernBertConfig) -> Result<ModernBertConfig> {
    check_heads("ModernBertModel", c.hidden_size, c.num_attention_heads)?;
    Ok(c.clone())
}

part! {
    ModernBertEmbeddings(c: &ModernBertConfig) first {
        let (rows, width) = (c.vocab_size, c.hidden_size);
        let table = || init::embedding(rows, width, c.pad_token_id, 1.0);
        let table = Construction::new().draw_nothing().run(table)?;
        c.draw(&table.weight, c.initializer_range)?;
    } {
        tok_embeddings: Embedding = table;
        norm: LayerNorm = c.norm()?;
        drop: Dropout = Dropout::new(c.embedding_dropout)?;
    }
    forward |m, ids| m.drop.forward(&m.norm.forward(&tokens::vectors(&m.tok_embeddings, ids)?)?)
}

part! {
    ModernBertAttention(c: &ModernBertConfig, layer_type: LayerType) {
        #[module(rename = "Wqkv")]
        qkv: Linear = c.linear(c.hidden_size, 3 * c.hidden_size, c.attention_bias, c.initializer_range)?;
        #[module(rename = "Wo")]
        out: Linear = c.linear(c.hidden_size, c.hidden_size, c.attention_bias, c.out_std())?;
        out_drop: Dropout = Dropout::new(c.attention_dropout)?;
        #[module(skip)]
        heads: usize = c.num_attention_heads;
        #[module(skip)]
        window: Option<usize> = (layer_type == LayerType::SlidingAttention).then_some(c.local_attention / 2);
        training: Training = Training::default();
    }
    forward |_m, _x| Err(needs_positions("ModernBertAttention"))
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

part! {
    ModernBertMlp(c: &ModernBertConfig) {
        #[module(rename = "Wi")]
        inner: Linear = c.linear(c.hidden_size, 2 * c.intermediate_size, c.mlp_bias, c.initializer_range)?;
        drop: Dropout = Dropout::new(c.mlp_dropout)?;
        #[module(rename = "Wo")]
        out: Linear = c.linear(c.intermediate_size, c.hidden_size, c.mlp_bias, c.out_std())?;
        #[module(skip)]
        activation: Activation = c.hidden_activation;
    }
    forward |m, x| {
        let x = m.inner.forward(x)?;
        let width = x.size(-1)? / 2;
        let y = m.activation.apply(&x.narrow(-1, 0, width)?)?;
        let y = y.mul(&x.narrow(-1, width, width)?)?;
        m.out.forward(&m.drop.forward(&y)?)
    }
}

part! {
    /// A layer of [`ModernBertModel`]: attention and a gated feed-forward layer, each behind a norm and with a shortcut.
    pub ModernBertLayer(c: &ModernBertConfig, layer: usize, layer_type: LayerType) {
        attn_norm: Option<LayerNorm> = (layer > 0).then(|| c.norm()).transpose()?;
        attn: ModernBertAttention = ModernBertAttention::new(c, layer_type)?;
        mlp_norm: LayerNorm = c.norm()?;
        mlp: ModernBertMlp = ModernBertMlp::new(c)?;
        #[module(skip)]
        sees: LayerType = layer_type;
        hooks: Hooks = Hooks::new();
    }
    forward |_m, _x| Err(needs_positions("ModernBertLayer"))
}

impl ModernBertLayer {
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

encoder_model! {
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
    ModernBertModel(ModernBertConfig), spec checked,
    errors "Heads that do not divide the width, another number of layer types than layers, a padding token outside of the \
            vocabulary."
    |c| first {
        let size = c.hidden_size / c.num_attention_heads;
        let rope = |p| RotaryEmbedding::new(size, c.max_position_embeddings, p);
        let types = c.types()?;
    } {
        embeddings: ModernBertEmbeddings = ModernBertEmbeddings::new(c)?;
        /// One after the other.
        pub layers: Layers<ModernBertLayer> = {
            let layers = types.iter().enumerate();
            layers.map(|(layer, &sees)| ModernBertLayer::new(c, layer, sees)).collect::<Result<_>>()?
        };
        /// The norm behind the last layer.
        pub final_norm: LayerNorm = c.norm()?;
        #[module(skip)]
        rotary: [RotaryEmbedding; 2] = [
            rope(&c.rope_parameters.full_attention)?,
            rope(&c.rope_parameters.sliding_attention)?,
        ];
    }
    positions |_m| None;
    /// The vectors of tokens; parts of pairs are not read.
    run |m, inputs, layout| {
        let x = m.embeddings.forward(&layout.pack(inputs.input_ids)?)?;
        let positions = layout.pack(&layout.positions(inputs.input_ids)?)?;
        let table = |rotary: &RotaryEmbedding| -> Result<[Tensor; 2]> {
            let (cos, sin) = rotary.tables(&positions, x.dtype())?;
            Ok([cos, sin])
        };
        let [full, sliding] = &m.rotary;
        let tables = [table(full)?, table(sliding)?];
        let of_layers = layout.clone();
        let x = m.layers.run(x, move |layer, _, x| {
            let tables = &tables[usize::from(layer.sees == LayerType::SlidingAttention)];
            layer.run(x, tables, &of_layers)
        })?;
        m.final_norm.forward(&x)
    }
}
