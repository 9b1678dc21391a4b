//! How well a model expects a text.

use torsh_core::DType;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use super::model::{DecoderStep, GenerationModel, Logits};

/// The perplexity of a text `[1, tokens]` (int64): the exponential of the mean negative logarithm of the probabilities
/// of its tokens, the first one left out.
///
/// A text longer than `max_length` is read in windows of so many tokens, each of which begins `stride` tokens behind the
/// one before. A token is predicted once, in the first window that has it; so it sees at least `max_length - stride`
/// tokens before it, where there are so many.
///
/// # Errors
/// Several texts, a text of fewer than two tokens, a `stride` that is 0 or greater than `max_length`.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::generation::perplexity;
/// use torsh_text::models::{GPT2Config, GPT2LMHeadModel};
/// use torsh_nn::ModuleExt;
/// let config = GPT2Config { n_embd: 8, n_layer: 1, n_head: 2, vocab_size: 11, n_positions: 4, ..Default::default() };
/// let model = GPT2LMHeadModel::new(config)?;
/// model.eval();
/// for p in model.parameters() {
///     torsh_tensor::no_grad(|| p.zero_())?;
/// }
/// // A model that expects nothing: all 11 tokens are as likely.
/// let value = perplexity(&model, &tensor![[1, 2, 3, 4, 5, 6, 7]], 4, 2)?;
/// assert!((value - 11.0).abs() < 1e-4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn perplexity<M: GenerationModel + ?Sized>(
    model: &M,
    ids: &Tensor,
    max_length: usize,
    stride: usize,
) -> Result<f64> {
    let &[1, length] = ids.dims() else {
        return Err(TorshError::shape(
            "perplexity",
            format!("expected one text [1, tokens], got {}", ids.shape()),
        ));
    };
    if length < 2 {
        return Err(TorshError::invalid(
            "perplexity",
            format!("a text of {length} tokens: it needs two at least"),
        ));
    }
    if stride == 0 || stride > max_length || max_length < 2 {
        return Err(TorshError::invalid(
            "perplexity",
            format!("windows of {max_length} tokens with stride = {stride}"),
        )
        .with_hint("the stride is at least 1 and at most max_length"));
    }
    no_grad(|| {
        let (mut sum, mut predicted) = (0.0, 1);
        let mut begin = 0;
        while predicted < length {
            let end = (begin + max_length).min(length);
            // A window whose tokens have all been predicted, but for one that has nothing before it.
            let first = predicted.max(begin + 1);
            if first < end {
                let window = ids.narrow(1, begin as i64, (end - begin) as i64)?;
                let step = DecoderStep {
                    logits: Logits::All,
                    ..DecoderStep::new(&window)
                };
                let out = step.run(model)?;
                let (from, count) = ((first - begin) as i64, (end - first) as i64);
                let logits = out.logits.narrow(1, from - 1, count)?.select(0, 0)?;
                let targets = window.narrow(1, from, count)?.reshape([count, 1])?;
                let logs = logits
                    .to_dtype(DType::F32)?
                    .log_softmax(-1)?
                    .gather(1, &targets)?;
                sum -= logs.to_dtype(DType::F64)?.sum()?.item::<f64>()?;
            }
            predicted = end;
            begin += stride;
        }
        Ok((sum / (length - 1) as f64).exp())
    })
}
