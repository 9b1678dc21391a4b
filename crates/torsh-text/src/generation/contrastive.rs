//! Contrastive search: likely tokens that are unlike those before them (Su et al., 2022,
//! <https://arxiv.org/abs/2202.06417>).

use torsh_core::DType;
use torsh_tensor::{Result, Tensor, TorshError, cat};

use super::criteria::{Criteria, StoppingCriteria};
use super::decoding::{Prompt, ids_tensor, last_logits};
use super::inputs::GenerateOutput;
use super::model::Logits;
use super::pipeline::Pipeline;
use super::sampling::Records;

/// Vectors of length 1 along the last dimension.
fn directions(hidden: &Tensor) -> Result<Tensor> {
    let norm = hidden.mul(hidden)?.sum_dim(-1, true)?.sqrt()?;
    hidden.div(&norm)
}

/// How much each of `k` candidates `[batch, k, width]` is like the most similar token of its text
/// `[batch, tokens, width]`, as a cosine: `[batch, k]`.
fn similarity(context: &Tensor, candidates: &Tensor, hidden: Option<&Tensor>) -> Result<Tensor> {
    let cosines = directions(candidates)?.matmul(&directions(context)?.transpose(1, 2)?)?;
    let cosines = match hidden {
        Some(mask) => cosines.masked_fill(mask, f64::from(f32::MIN))?,
        None => cosines,
    };
    Ok(cosines.max_dim(-1, false)?.0)
}

pub(super) fn contrastive_search(
    prompt: Prompt<'_>,
    mut pipeline: Pipeline<'_>,
    mut criteria: Criteria<'_>,
) -> Result<GenerateOutput> {
    let Prompt {
        mut rows,
        settings: s,
        mut decoding,
        ..
    } = prompt;
    let alpha = s.o.penalty_alpha.unwrap_or(0.0);
    let batch = rows.len();
    let k = s.top_k.min(decoding.model.vocab_size());
    let mut records = Records::new(&s);
    let first = decoding.step(&rows, Logits::Last)?;
    let mut context = first.hidden.to_dtype(DType::F32)?;
    if context.dims().get(1) != Some(&s.prompt_len) {
        return Err(TorshError::invalid(
            "generate",
            "contrastive search compares with all tokens of the prompt, and a cache holds some of them",
        )
        .with_hint("leave out the cache"));
    }
    let mut logits = last_logits(&first.logits)?;
    let padding = decoding.padding.clone();
    let mut unfinished = vec![true; batch];
    let mut widened = false;
    while unfinished.contains(&true) {
        let scores = pipeline.process(&rows, logits.clone())?;
        records.keep(&scores, &logits);
        let (probs, ids) = scores.softmax(-1)?.topk(k as i64)?;
        let tokens = ids.to_vec::<i64>()?;
        let candidates: Vec<Vec<i64>> = (0..batch * k)
            .map(|c| {
                let mut row = rows[c / k].clone();
                row.push(tokens[c]);
                row
            })
            .collect();
        if widened {
            if let Some(cache) = &mut decoding.cache {
                cache.repeat(k)?;
            }
        } else {
            decoding.repeat(k, batch)?;
            widened = true;
        }
        let out = decoding.step(&candidates, Logits::Last)?;
        let last = out.hidden.dims().get(1).copied().unwrap_or(1) as i64 - 1;
        let hidden = out.hidden.select(1, last)?.to_dtype(DType::F32)?;
        let width = hidden.dims().get(1).copied().unwrap_or(0);
        let hidden = hidden.reshape([batch, k, width])?;
        let length = context.dims()[1];
        let mask = match &padding {
            Some(p) => {
                let hidden = p
                    .ranges()
                    .iter()
                    .flat_map(|r| (0..length).map(|at| at < r.start));
                let mask = Tensor::from_vec(hidden.collect::<Vec<bool>>(), [batch, 1, length])?;
                Some(mask.to_device(context.device())?)
            }
            None => None,
        };
        let alike = similarity(&context, &hidden, mask.as_ref())?;
        let value = probs.mul(1.0 - alpha)?.sub(&alike.mul(alpha)?)?;
        let chosen = value.argmax_dim(-1, false)?.to_vec::<i64>()?;
        let picked: Vec<usize> = chosen
            .iter()
            .enumerate()
            .map(|(b, &c)| b * k + c as usize)
            .collect();
        let index: Vec<i64> = picked.iter().map(|&c| c as i64).collect();
        let index = Tensor::from_vec(index, [batch])?.to_device(decoding.device)?;
        let all = hidden.reshape([batch * k, 1, width])?;
        context = cat(&[context, all.index_select(0, &index)?], 1)?;
        logits = last_logits(&out.logits)?.index_select(0, &index)?;
        if let Some(cache) = &mut decoding.cache {
            cache.reorder(&picked)?;
        }
        for ((row, &c), open) in rows.iter_mut().zip(&picked).zip(&unfinished) {
            row.push(match (open, s.pad) {
                (false, Some(pad)) => pad,
                _ => tokens[c],
            });
        }
        for (open, end) in unfinished.iter_mut().zip(criteria.stop(&rows)?) {
            *open &= !end;
        }
    }
    Ok(GenerateOutput {
        sequences: ids_tensor(&rows, 0, decoding.device)?,
        sequences_scores: None,
        beam_indices: None,
        scores: records.scores,
        logits: records.logits,
        // It holds all of the last tokens too, which those of the other searches lack.
        cache: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use torsh_tensor::tensor;

    #[test]
    fn the_most_similar_token_counts() -> Result<()> {
        let context = tensor![[[1.0, 0.0], [0.0, 2.0]]];
        let candidates = tensor![[[3.0, 4.0], [-1.0, 0.0]]];
        let all = similarity(&context, &candidates, None)?;
        assert!(all.allclose(&tensor![[0.8, 0.0]])?);
        let padding = tensor![[[false, true]]];
        let all = similarity(&context, &candidates, Some(&padding))?;
        assert!(all.allclose(&tensor![[0.6, -1.0]])?);
        Ok(())
    }
}
