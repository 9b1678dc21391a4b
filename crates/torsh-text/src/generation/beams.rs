//! Beam search.

use torsh_core::DType;
use torsh_tensor::{Result, Tensor};

use super::criteria::{Criteria, StoppingCriteria};
use super::decoding::{Prompt, ids_tensor};
use super::inputs::GenerateOutput;
use super::options::{EarlyStopping, Settings};
use super::pipeline::Pipeline;
use super::sampling::Records;

/// The score of what must not be chosen.
const NEVER: f32 = -1.0e9;

/// A text and how it came about.
#[derive(Clone)]
struct Beam {
    ids: Vec<i64>,
    score: f32,
    /// From which row each new token's text came.
    from: Vec<i64>,
    finished: bool,
}

/// The positions of the `n` greatest scores, the greatest first; the first of equal ones.
fn best(scores: &[f32], n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order.truncate(n);
    order
}

fn penalty(length: usize, power: f64) -> f32 {
    (length as f64).powf(power) as f32
}

/// The `k` best continuations of each prompt's beams: their scores, and positions among `beams * vocabulary`.
fn continuations(all: &Tensor, k: usize, do_sample: bool) -> Result<(Vec<f32>, Vec<i64>)> {
    let k = k.min(all.dims().get(1).copied().unwrap_or(1)) as i64;
    let (values, indices) = if do_sample {
        let drawn = all.softmax(-1)?.multinomial(k)?;
        let options = torsh_tensor::SortOptions::new().descending(true);
        let (values, order) = all.gather(1, &drawn)?.sort_with(options)?;
        (values, drawn.gather(1, &order)?)
    } else {
        all.topk(k)?
    };
    Ok((values.to_vec()?, indices.to_vec()?))
}

struct Search {
    s: Settings,
    length_penalty: f64,
    early: EarlyStopping,
    /// The open beams of each prompt.
    running: Vec<Vec<Beam>>,
    /// The best finished texts of each prompt, and places for more.
    done: Vec<Vec<Beam>>,
    /// Whether each prompt's open beams may still get better than its finished texts.
    may_improve: Vec<bool>,
    len: usize,
}

impl Search {
    fn new(s: Settings, rows: &[Vec<i64>]) -> Search {
        let beam = |row: &Vec<i64>, score| Beam {
            ids: row.clone(),
            score,
            from: Vec::new(),
            finished: false,
        };
        // All beams begin alike: only the first one's tokens may be chosen.
        let first = |b| if b == 0 { 0.0 } else { NEVER };
        Search {
            running: rows
                .iter()
                .map(|row| (0..s.num_beams).map(|b| beam(row, first(b))).collect())
                .collect(),
            done: rows
                .iter()
                .map(|row| vec![beam(row, NEVER); s.num_beams])
                .collect(),
            may_improve: vec![true; rows.len()],
            len: s.prompt_len,
            length_penalty: s.o.length_penalty.unwrap_or(1.0),
            early: s.o.early_stopping.unwrap_or_default(),
            s,
        }
    }

    fn rows(&self) -> Vec<Vec<i64>> {
        self.running
            .iter()
            .flatten()
            .map(|b| b.ids.clone())
            .collect()
    }

    fn scores(&self, like: &Tensor) -> Result<Tensor> {
        let all: Vec<f32> = self.running.iter().flatten().map(|b| b.score).collect();
        let rows = all.len();
        Tensor::from_vec(all, [rows, 1])?.to_device(like.device())
    }

    /// Goes on with the best of the continuations, and keeps those that have ended. Gives whether there is more to do,
    /// and the rows that the open beams continue.
    fn choose(
        &mut self,
        (values, indices): (Vec<f32>, Vec<i64>),
        vocab: usize,
        criteria: &mut Criteria<'_>,
    ) -> Result<(bool, Vec<usize>)> {
        let (batch, beams) = (self.running.len(), self.s.num_beams);
        let each = values.len() / batch.max(1);
        let mut tokens = Vec::with_capacity(values.len());
        let mut from = Vec::with_capacity(values.len());
        for (at, &index) in indices.iter().enumerate() {
            let (prompt, beam) = (at / each, index as usize / vocab);
            let mut ids = self.running[prompt][beam].ids.clone();
            ids.push(index % vocab as i64);
            tokens.push(ids);
            from.push(beam);
        }
        let ends = criteria.stop(&tokens)?;
        let mut rows = Vec::with_capacity(batch * beams);
        let mut tokens = tokens.into_iter();
        for prompt in 0..batch {
            let part = prompt * each..(prompt + 1) * each;
            let candidates: Vec<Beam> = part
                .clone()
                .zip(&mut tokens)
                .map(|(at, ids)| {
                    let mut origin = self.running[prompt][from[at]].from.clone();
                    origin.push((prompt * beams + from[at]) as i64);
                    Beam {
                        ids,
                        score: values[at],
                        from: origin,
                        finished: ends[at],
                    }
                })
                .collect();
            self.finish(prompt, &candidates);
            let open: Vec<f32> = candidates
                .iter()
                .map(|c| c.score + if c.finished { NEVER } else { 0.0 })
                .collect();
            let next = best(&open, beams);
            rows.extend(next.iter().map(|&c| prompt * beams + from[part.start + c]));
            self.running[prompt] = next
                .iter()
                .map(|&c| Beam {
                    score: open[c],
                    ..candidates[c].clone()
                })
                .collect();
        }
        self.len += 1;
        self.look_ahead();
        let all_done = self.done.iter().flatten().all(|b| b.finished);
        let more = self.may_improve.contains(&true)
            && !(all_done && self.early == EarlyStopping::Yes)
            && ends.contains(&false);
        Ok((more, rows))
    }

    /// Keeps those of the best candidates that have ended, where they are better than those before.
    fn finish(&mut self, prompt: usize, candidates: &[Beam]) {
        let beams = self.s.num_beams;
        let divisor = penalty(self.len + 1 - self.s.prompt_len, self.length_penalty);
        let done = &self.done[prompt];
        let full = done.iter().all(|b| b.finished) && self.early == EarlyStopping::Yes;
        let merged: Vec<Beam> = done
            .iter()
            .cloned()
            .chain(candidates.iter().enumerate().map(|(rank, c)| {
                let ended = c.finished && rank < beams;
                let mut score = c.score / divisor;
                for out in [full, !self.may_improve[prompt], !ended] {
                    score += if out { NEVER } else { 0.0 };
                }
                Beam {
                    score,
                    finished: ended,
                    ..c.clone()
                }
            }))
            .collect();
        let scores: Vec<f32> = merged.iter().map(|b| b.score).collect();
        let keep = best(&scores, beams);
        self.done[prompt] = keep.into_iter().map(|at| merged[at].clone()).collect();
    }

    /// Finds out which prompts' beams may still get better.
    fn look_ahead(&mut self) {
        let longest = match self.early {
            EarlyStopping::Never if self.length_penalty > 0.0 => self.s.max_length,
            _ => self.len,
        };
        let divisor = penalty(longest - self.s.prompt_len, self.length_penalty);
        for (prompt, may) in self.may_improve.iter_mut().enumerate() {
            let possible = self.running[prompt].first().map_or(NEVER, |b| b.score) / divisor;
            let done = &self.done[prompt];
            let worst = done.iter().map(|b| b.score).fold(f32::INFINITY, f32::min);
            *may &= done
                .iter()
                .any(|b| possible > if b.finished { worst } else { NEVER });
        }
    }

    /// The best texts of each prompt, filled up to one length.
    fn output(self, records: Records, device: torsh_core::Device) -> Result<GenerateOutput> {
        let fill = match (self.s.eos.first(), self.s.pad) {
            // As transformers: a pad token 0 counts as none.
            (Some(&eos), Some(0)) => eos,
            (_, Some(pad)) => pad,
            _ => -1,
        };
        let keep = self.s.num_return;
        let texts: Vec<&Beam> = self.done.iter().flat_map(|d| d.iter().take(keep)).collect();
        let longest = texts.iter().map(|b| b.from.len()).max().unwrap_or(0);
        let padded = |from: &[i64], with: i64, len: usize| {
            let missing = len.saturating_sub(from.len());
            let all = from
                .iter()
                .copied()
                .chain(std::iter::repeat_n(with, missing));
            all.collect::<Vec<i64>>()
        };
        let rows: Vec<Vec<i64>> = texts
            .iter()
            .map(|b| padded(&b.ids, fill, self.s.prompt_len + longest))
            .collect();
        let origins: Vec<Vec<i64>> = texts.iter().map(|b| padded(&b.from, -1, longest)).collect();
        let scores: Vec<f32> = texts.iter().map(|b| b.score).collect();
        let count = scores.len();
        Ok(GenerateOutput {
            sequences: ids_tensor(&rows, 0, device)?,
            sequences_scores: Some(Tensor::from_vec(scores, [count])?.to_device(device)?),
            beam_indices: Some(ids_tensor(&origins, 0, device)?),
            scores: records.scores,
            logits: records.logits,
            cache: None,
        })
    }
}

/// Beam search, or with `do_sample` beams whose continuations are drawn.
pub(super) fn beam_search(
    prompt: Prompt<'_>,
    mut pipeline: Pipeline<'_>,
    mut criteria: Criteria<'_>,
) -> Result<GenerateOutput> {
    let Prompt {
        rows,
        settings,
        mut decoding,
        ..
    } = prompt;
    let (batch, beams) = (rows.len(), settings.num_beams);
    // One of them at least does not end, whatever the others do.
    let kept = settings.eos.len().max(1) + 1;
    let do_sample = settings.do_sample;
    let mut records = Records::new(&settings);
    let logits = decoding.prefill(&rows, &settings)?;
    decoding.repeat(beams, batch)?;
    let mut logits = logits.repeat_interleave(beams as i64, 0)?;
    let mut search = Search::new(settings, &rows);
    let mut rows = search.rows();
    loop {
        let vocab = logits.dims().get(1).copied().unwrap_or(1).max(1);
        let scores = pipeline.process(&rows, logits.log_softmax(-1)?)?;
        records.keep(&scores, &logits);
        let all = scores.to_dtype(DType::F32)?.add(&search.scores(&scores)?)?;
        let all = all.reshape([batch, beams * vocab])?;
        let chosen = continuations(&all, kept * beams, do_sample)?;
        let (more, from) = search.choose(chosen, vocab, &mut criteria)?;
        if !more {
            return search.output(records, decoding.device);
        }
        decoding.reorder(&from)?;
        rows = search.rows();
        logits = decoding.next_logits(&rows)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_equal_scores_is_better() {
        assert_eq!(best(&[1.0, 3.0, NEVER, 3.0, 2.0], 3), [1, 3, 4]);
        assert_eq!(best(&[f32::NEG_INFINITY, 0.0], 5), [1, 0]);
        assert_eq!(penalty(4, 0.5), 2.0);
        assert_eq!(penalty(4, 0.0), 1.0);
    }
}
