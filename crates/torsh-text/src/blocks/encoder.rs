//! What encoders share: their input and output, rows without padding, BERT's layers, and heads.

mod bert;
mod heads;
mod spec;

use torsh_nn::{Linear, Module};
use torsh_tensor::{Result, Tensor, TorshError, cat};

use super::{AttentionMask, AttentionSteps, Padding, attend_with, join_heads, split_heads};
use crate::models::text_model::{ModelInputs, ModelOutputs};

pub(crate) use bert::embed;
pub use bert::{BertEmbeddings, BertEncoder, BertLayer, BertPooler};
pub use heads::ClassificationHead;
pub(crate) use heads::{bias, check_spans, decoder, encoder_model, spans, task_model, task_models};
pub(crate) use spec::{Spec, spec};

/// What an encoder of texts reads.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::models::TokenInputs;
/// let (ids, mask) = (tensor![[5, 6, 7], [8, 9, 0]], tensor![[1, 1, 1], [1, 1, 0]]);
/// let inputs = TokenInputs::new(&ids).attention_mask(&mask).skip_padding(true);
/// assert!(inputs.token_type_ids.is_none() && inputs.skip_padding);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TokenInputs<'a> {
    /// Token ids `[batch, length]` (int64).
    pub input_ids: &'a Tensor,
    /// 1 for tokens and 0 for padding, `[batch, length]`; all are tokens where it is `None`.
    pub attention_mask: Option<&'a Tensor>,
    /// The number of each token's part in a pair of texts, `[batch, length]` (int64); all are 0 where it is `None`.
    pub token_type_ids: Option<&'a Tensor>,
    /// Whether nothing is computed for padding: its rows of the last hidden state are zero. The rows of tokens are the
    /// same either way.
    pub skip_padding: bool,
}

impl<'a> TokenInputs<'a> {
    /// Token ids alone.
    pub fn new(input_ids: &'a Tensor) -> TokenInputs<'a> {
        TokenInputs {
            input_ids,
            attention_mask: None,
            token_type_ids: None,
            skip_padding: false,
        }
    }

    /// Sets where the padding is.
    #[must_use]
    pub fn attention_mask(mut self, mask: impl Into<Option<&'a Tensor>>) -> Self {
        self.attention_mask = mask.into();
        self
    }

    /// Sets the parts of pairs.
    #[must_use]
    pub fn token_type_ids(mut self, ids: impl Into<Option<&'a Tensor>>) -> Self {
        self.token_type_ids = ids.into();
        self
    }

    /// Sets whether padding is left out.
    #[must_use]
    pub fn skip_padding(mut self, skip: bool) -> Self {
        self.skip_padding = skip;
        self
    }

    /// Those of a model that is called by names.
    #[track_caller]
    pub(crate) fn named(inputs: &'a ModelInputs) -> Result<TokenInputs<'a>> {
        Ok(TokenInputs::new(inputs.input_ids()?)
            .attention_mask(inputs.attention_mask.as_ref())
            .token_type_ids(inputs.token_type_ids.as_ref()))
    }
}

/// What an encoder of texts gives.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::models::{DistilBertConfig, DistilBertModel, TokenInputs};
/// let config = DistilBertConfig { dim: 8, n_layers: 1, n_heads: 2, hidden_dim: 8, vocab_size: 9, ..Default::default() };
/// let output = DistilBertModel::new(config)?.forward_with(TokenInputs::new(&tensor![[1, 2, 3]]))?;
/// assert_eq!(output.last_hidden_state.dims(), [1, 3, 8]);
/// assert!(output.pooler_output.is_none());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EncoderOutput {
    /// A vector for each token, `[batch, length, width]`.
    pub last_hidden_state: Tensor,
    /// A vector for each text, `[batch, width]`, where the model has a pooler.
    pub pooler_output: Option<Tensor>,
}

impl EncoderOutput {
    /// What a model without pooler gives.
    pub(crate) fn of(last_hidden_state: Tensor) -> EncoderOutput {
        EncoderOutput {
            last_hidden_state,
            pooler_output: None,
        }
    }

    /// The vectors of the first tokens, `[batch, width]`.
    #[track_caller]
    pub(crate) fn first(&self) -> Result<Tensor> {
        self.last_hidden_state.select(1, 0)
    }

    /// The pooler's vectors.
    #[track_caller]
    pub(crate) fn pooled(&self) -> Result<&Tensor> {
        self.pooler_output
            .as_ref()
            .ok_or_else(|| TorshError::invalid("forward", "the model was made without a pooler"))
    }

    /// All outputs by name.
    pub(crate) fn named(self) -> ModelOutputs {
        let mut all = vec![("last_hidden_state", self.last_hidden_state)];
        all.extend(self.pooler_output.map(|p| ("pooler_output", p)));
        all
    }
}

/// The rows of a batch that are computed: all of `[batch, length]`, or the tokens of all texts one behind the other as
/// one text `[1, tokens]`, so that no work goes into padding.
#[derive(Clone)]
pub(crate) struct Layout {
    batch: usize,
    length: usize,
    padding: Option<Padding>,
    packed: Option<Packed>,
}

/// Texts one behind the other, by length, so that those of one length are a batch for attention.
#[derive(Clone)]
struct Packed {
    /// First row, texts and tokens of each text.
    groups: Vec<[usize; 3]>,
    /// The row of the batch that each row comes from.
    take: Tensor,
    /// The row that each row of the batch comes from; padding has the one behind the last.
    back: Tensor,
}

impl Layout {
    /// That of inputs, of which `positions` are the most tokens, where there is a limit.
    #[track_caller]
    pub(crate) fn new(
        model: &'static str,
        inputs: &TokenInputs<'_>,
        positions: Option<usize>,
    ) -> Result<Layout> {
        let ids = inputs.input_ids;
        let &[batch, length] = ids.dims() else {
            let why = format!("expected input_ids [batch, length], got {}", ids.shape());
            return Err(TorshError::shape(model, why));
        };
        let more = [
            ("attention_mask", inputs.attention_mask),
            ("token_type_ids", inputs.token_type_ids),
        ];
        for (name, tensor) in more {
            if let Some(t) = tensor
                && t.dims() != ids.dims()
            {
                let why = format!("{name} {} for input_ids {}", t.shape(), ids.shape());
                return Err(TorshError::shape(model, why));
            }
        }
        if let Some(most) = positions
            && length > most
        {
            let why = format!("{length} tokens for a model of {most} positions");
            return Err(TorshError::invalid(model, why)
                .with_hint("truncate the text, or encode parts of it one by one"));
        }
        let padding = match inputs.attention_mask {
            Some(mask) => Padding::from_attention_mask(mask)?,
            None => None,
        };
        let packed = match &padding {
            Some(padding) if inputs.skip_padding => Packed::new(padding, length, ids)?,
            _ => None,
        };
        Ok(Layout {
            batch,
            length,
            padding,
            packed,
        })
    }

    /// That of vectors `[batch, length, width]` without padding.
    #[track_caller]
    pub(crate) fn whole(x: &Tensor) -> Result<Layout> {
        let &[batch, length, _] = x.dims() else {
            let why = format!("expected [batch, length, width], got {}", x.shape());
            return Err(TorshError::shape("encoder", why));
        };
        Ok(Layout {
            batch,
            length,
            padding: None,
            packed: None,
        })
    }

    /// The positions of a text's tokens, from 0, `[1, length]`.
    #[track_caller]
    pub(crate) fn positions(&self, like: &Tensor) -> Result<Tensor> {
        let all: Vec<i64> = (0..self.length as i64).collect();
        Tensor::from_vec(all, [1, self.length])?.to_device(like.device())
    }

    /// The computed rows of numbers `[batch, length]` or `[1, length]`.
    #[track_caller]
    pub(crate) fn pack(&self, numbers: &Tensor) -> Result<Tensor> {
        let Some(packed) = &self.packed else {
            return Ok(numbers.clone());
        };
        numbers
            .expand([self.batch, self.length])?
            .reshape([self.batch * self.length])?
            .index_select(0, &packed.take)?
            .unsqueeze(0)
    }

    /// The whole batch `[batch, length, width]` of the computed rows.
    #[track_caller]
    pub(crate) fn unpack(&self, x: Tensor) -> Result<Tensor> {
        let Some(packed) = &self.packed else {
            return Ok(x);
        };
        let width = x.size(-1)?;
        let none = Tensor::zeros([1, width], x.dtype(), x.device())?;
        cat(&[x.squeeze(0)?, none], 0)?
            .index_select(0, &packed.back)?
            .reshape([self.batch, self.length, width])
    }

    /// Attention of the computed rows, all tensors `[batch, heads, rows, size]`; to at most `window` tokens on each
    /// side where it is given. Gives `[batch, rows, heads * size]`.
    #[track_caller]
    pub(crate) fn attend(
        &self,
        [query, key, value]: [&Tensor; 3],
        window: Option<usize>,
        dropout: f64,
        training: bool,
    ) -> Result<Tensor> {
        let mask = match window {
            Some(side) => AttentionMask::local(side, side),
            None => AttentionMask::full(),
        };
        let steps = AttentionSteps {
            dropout: if training { dropout } else { 0.0 },
            ..AttentionSteps::default()
        };
        let Some(packed) = &self.packed else {
            let mask = mask.padding(self.padding.clone());
            return join_heads(&attend_with([query, key, value], &mask, steps)?);
        };
        let mut parts = Vec::with_capacity(packed.groups.len());
        for &[start, texts, tokens] in &packed.groups {
            let group = |x: &Tensor| {
                let [heads, size] = [x.dims()[1], x.dims()[3]];
                x.narrow(2, start, texts * tokens)?
                    .view([heads, texts, tokens, size])?
                    .transpose(0, 1)
            };
            let of_group = [&group(query)?, &group(key)?, &group(value)?];
            let y = attend_with(of_group, &mask, steps)?;
            let y = join_heads(&y)?;
            parts.push(y.reshape([1, texts * tokens, y.dims()[2]])?);
        }
        cat(&parts, 1)
    }
}

impl Packed {
    /// `None` where there are no tokens at all.
    fn new(padding: &Padding, length: usize, ids: &Tensor) -> Result<Option<Packed>> {
        let ranges = padding.ranges();
        let mut texts: Vec<usize> = (0..ranges.len())
            .filter(|&b| !ranges[b].is_empty())
            .collect();
        texts.sort_by_key(|&b| ranges[b].len());
        let tokens = texts.iter().map(|&b| ranges[b].len()).sum::<usize>();
        if tokens == 0 {
            return Ok(None);
        }
        let mut groups: Vec<[usize; 3]> = Vec::new();
        let mut take = Vec::with_capacity(tokens);
        let mut back = vec![tokens as i64; ranges.len() * length];
        for &b in &texts {
            let size = ranges[b].len();
            match groups.last_mut() {
                Some([_, texts, tokens]) if *tokens == size => *texts += 1,
                _ => groups.push([take.len(), 1, size]),
            }
            for at in ranges[b].clone() {
                let row = b * length + at;
                back[row] = take.len() as i64;
                take.push(row as i64);
            }
        }
        let to = |rows: Vec<i64>| {
            let count = rows.len();
            Tensor::from_vec(rows, [count])?.to_device(ids.device())
        };
        Ok(Some(Packed {
            groups,
            take: to(take)?,
            back: to(back)?,
        }))
    }
}

/// An error where the heads do not divide the width.
#[track_caller]
pub(crate) fn check_heads(model: &'static str, width: usize, heads: usize) -> Result<()> {
    if heads == 0 || !width.is_multiple_of(heads) {
        let why = format!("{heads} attention heads do not divide a hidden size of {width}");
        return Err(TorshError::invalid(model, why));
    }
    Ok(())
}

/// Attention of `x` to itself by the layers of queries, keys and values.
#[track_caller]
pub(crate) fn self_attention(
    x: &Tensor,
    [query, key, value]: [&Linear; 3],
    heads: usize,
    layout: &Layout,
    dropout: f64,
    training: bool,
) -> Result<Tensor> {
    let project = |layer: &Linear| split_heads(&layer.forward(x)?, heads);
    let [q, k, v] = [project(query)?, project(key)?, project(value)?];
    layout.attend([&q, &k, &v], None, dropout, training)
}
