//! Diverse beam search: groups of beams, each of which avoids the tokens of those before it (Vijayakumar et al., 2016,
//! <https://arxiv.org/abs/1610.02424>).

use torsh_tensor::{Result, Tensor};

use super::criteria::{Criteria, StoppingCriteria};
use super::decoding::{Prompt, ids_tensor};
use super::inputs::GenerateOutput;
use super::options::{EarlyStopping, Settings};
use super::pipeline::Pipeline;
use super::processors::edit;
use super::sampling::Records;

/// A text that has ended, with its score by its length.
#[derive(Clone)]
struct Text {
    score: f64,
    ids: Vec<i64>,
    from: Vec<i64>,
}

/// The best finished texts of one group of one prompt.
struct Finished {
    texts: Vec<Text>,
    worst: f64,
    full: usize,
    done: bool,
}

impl Finished {
    /// Keeps a text of `sum` as the logarithm of its probability, if it is among the best.
    fn add(&mut self, ids: Vec<i64>, sum: f32, from: Vec<i64>, s: &Settings) {
        // The token that ended it counts.
        let length = (ids.len() + 1 - s.prompt_len) as f64;
        self.add_of_length(ids, sum, from, length, s);
    }

    fn add_of_length(
        &mut self,
        ids: Vec<i64>,
        sum: f32,
        from: Vec<i64>,
        length: f64,
        s: &Settings,
    ) {
        let score = f64::from(sum) / length.powf(s.o.length_penalty.unwrap_or(1.0));
        if self.texts.len() >= self.full && score <= self.worst {
            return;
        }
        self.texts.push(Text { score, ids, from });
        if self.texts.len() > self.full {
            let lowest = |texts: &[Text]| {
                let all = texts.iter().enumerate();
                all.min_by(|a, b| a.1.score.total_cmp(&b.1.score))
                    .map(|(at, _)| at)
            };
            if let Some(at) = lowest(&self.texts) {
                self.texts.remove(at);
            }
            self.worst = self
                .texts
                .iter()
                .map(|t| t.score)
                .fold(f64::INFINITY, f64::min);
        } else {
            self.worst = self.worst.min(score);
        }
    }

    /// Whether no open text whose logarithm is `best` can get among the finished ones.
    fn is_done(&self, best: f32, length: usize, s: &Settings) -> bool {
        let power = s.o.length_penalty.unwrap_or(1.0);
        if self.texts.len() < self.full {
            return false;
        }
        let length = match s.o.early_stopping.unwrap_or_default() {
            EarlyStopping::Yes => return true,
            EarlyStopping::Never if power > 0.0 => s.max_length,
            _ => length,
        };
        self.worst >= f64::from(best) / ((length - s.prompt_len) as f64).powf(power)
    }
}

/// The next tokens of one group, and the rows (in it) that they continue.
struct Next {
    scores: Vec<f32>,
    tokens: Vec<i64>,
    rows: Vec<usize>,
}

/// Groups of beams.
pub(super) fn group_beam_search(
    prompt: Prompt<'_>,
    mut pipeline: Pipeline<'_>,
    mut criteria: Criteria<'_>,
) -> Result<GenerateOutput> {
    let Prompt {
        rows: prompts,
        settings: s,
        mut decoding,
        ..
    } = prompt;
    let (batch, beams, groups) = (prompts.len(), s.num_beams, s.groups);
    let size = beams / groups;
    let diversity = s.o.diversity_penalty.unwrap_or(0.0) as f32;
    let mut finished: Vec<Finished> = (0..batch * groups)
        .map(|_| Finished {
            texts: Vec::new(),
            worst: 1e9,
            full: size,
            done: false,
        })
        .collect();
    let mut rows: Vec<Vec<i64>> = prompts
        .iter()
        .flat_map(|row| std::iter::repeat_n(row.clone(), beams))
        .collect();
    let mut from: Vec<Vec<i64>> = vec![Vec::new(); rows.len()];
    let mut sums: Vec<f32> = (0..rows.len())
        .map(|r| if r % size == 0 { 0.0 } else { -1e9 })
        .collect();
    let mut records = Records::new(&s);
    let mut logits = {
        let logits = decoding.prefill(&prompts, &s)?;
        decoding.repeat(beams, batch)?;
        logits.repeat_interleave(beams as i64, 0)?
    };
    loop {
        let mut current = vec![0i64; rows.len()];
        let mut origins = vec![0usize; rows.len()];
        let mut processed = Vec::with_capacity(groups);
        for group in 0..groups {
            let members: Vec<usize> = (0..batch)
                .flat_map(|b| (0..size).map(move |i| b * beams + group * size + i))
                .collect();
            let ids: Vec<Vec<i64>> = members.iter().map(|&r| rows[r].clone()).collect();
            let index: Vec<i64> = members.iter().map(|&r| r as i64).collect();
            let index = Tensor::from_vec(index, [members.len()])?.to_device(logits.device())?;
            let own = logits.index_select(0, &index)?.log_softmax(-1)?;
            let scores = pipeline.process_group(&ids, own, |scores| {
                if group == 0 {
                    return Ok(scores);
                }
                edit(&scores, |r, row| {
                    let first = r / size * beams;
                    let taken = &current[first..first + group * size];
                    for (at, token) in taken.iter().enumerate() {
                        let again = taken[..at].contains(token);
                        if let Some(v) = row.get_mut(*token as usize).filter(|_| !again) {
                            let times = taken.iter().filter(|t| *t == token).count();
                            *v -= diversity * times as f32;
                        }
                    }
                    Ok(())
                })
            })?;
            let vocab = scores.dims().get(1).copied().unwrap_or(1).max(1);
            processed.push(scores.clone());
            let add: Vec<f32> = members.iter().map(|&r| sums[r]).collect();
            let add = Tensor::from_vec(add, [members.len(), 1])?.to_device(scores.device())?;
            let all = scores.add(&add)?.reshape([batch, size * vocab])?;
            let k = ((s.eos.len().max(1) + 1) * size).min(size * vocab);
            let (values, indices) = all.topk(k as i64)?;
            let (values, indices) = (values.to_vec::<f32>()?, indices.to_vec::<i64>()?);
            for b in 0..batch {
                let part = b * k..(b + 1) * k;
                let state = &mut finished[b * groups + group];
                let own_rows = &members[b * size..(b + 1) * size];
                let next = advance(
                    state,
                    (&values[part.clone()], &indices[part]),
                    vocab,
                    (&rows, &from, own_rows),
                    &s,
                );
                for (i, &row) in own_rows.iter().enumerate() {
                    sums[row] = next.scores[i];
                    current[row] = next.tokens[i];
                    origins[row] = own_rows[next.rows[i]];
                }
            }
        }
        records.keep(&in_rows(&processed, batch, size)?, &logits);
        rows = origins.iter().map(|&r| rows[r].clone()).collect();
        from = origins.iter().map(|&r| from[r].clone()).collect();
        for (r, token) in current.iter().enumerate() {
            rows[r].push(*token);
            from[r].push(origins[r] as i64);
        }
        let ends = criteria.stop(&rows)?;
        if finished.iter().all(|f| f.done) || !ends.contains(&false) {
            break;
        }
        decoding.reorder(&origins)?;
        logits = decoding.next_logits(&rows)?;
    }
    // What is open counts too.
    for (at, state) in finished.iter_mut().enumerate().filter(|(_, f)| !f.done) {
        for r in at * size..(at + 1) * size {
            let length = (rows[r].len() - s.prompt_len) as f64;
            state.add_of_length(rows[r].clone(), sums[r], from[r].clone(), length, &s);
        }
    }
    output(&finished, batch, &s, records, decoding.device)
}

/// The scores of all groups, in the order of the rows.
fn in_rows(groups: &[Tensor], batch: usize, size: usize) -> Result<Tensor> {
    let all = Tensor::cat(groups, 0)?;
    let count = groups.len();
    let order: Vec<i64> = (0..batch)
        .flat_map(|b| {
            (0..count * size).map(move |i| (i / size * batch * size + b * size + i % size) as i64)
        })
        .collect();
    let rows = order.len();
    all.index_select(
        0,
        &Tensor::from_vec(order, [rows])?.to_device(all.device())?,
    )
}

/// Keeps the candidates of one group of one prompt that have ended, and goes on with the best of the others.
fn advance(
    state: &mut Finished,
    (values, indices): (&[f32], &[i64]),
    vocab: usize,
    (rows, from, own): (&[Vec<i64>], &[Vec<i64>], &[usize]),
    s: &Settings,
) -> Next {
    let size = own.len();
    let mut next = Next {
        scores: Vec::with_capacity(size),
        tokens: Vec::with_capacity(size),
        rows: Vec::with_capacity(size),
    };
    if state.done {
        next.scores.resize(size, 0.0);
        next.tokens.resize(size, s.pad.unwrap_or(0));
        next.rows.resize(size, 0);
        return next;
    }
    let length = rows.first().map_or(0, Vec::len) + 1;
    for (rank, (&score, &index)) in values.iter().zip(indices).enumerate() {
        let (beam, token) = (index as usize / vocab, index % vocab as i64);
        if s.eos.contains(&token) {
            if rank < size {
                let row = own[beam];
                let mut origin = from[row].clone();
                origin.push(row as i64);
                state.add(rows[row].clone(), score, origin, s);
            }
        } else {
            next.scores.push(score);
            next.tokens.push(token);
            next.rows.push(beam);
        }
        if next.scores.len() == size {
            break;
        }
    }
    // A vocabulary with hardly a token that ends no text.
    while next.scores.len() < size {
        next.scores.push(-1e9);
        next.tokens.push(s.pad.unwrap_or(0));
        next.rows.push(0);
    }
    let best = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    state.done = state.is_done(best, length, s);
    next
}

/// The best texts of all groups of each prompt.
fn output(
    finished: &[Finished],
    batch: usize,
    s: &Settings,
    records: Records,
    device: torsh_core::Device,
) -> Result<GenerateOutput> {
    let mut texts: Vec<Text> = Vec::new();
    for b in 0..batch {
        let groups = &finished[b * s.groups..(b + 1) * s.groups];
        let mut all: Vec<Text> = groups.iter().flat_map(|f| f.texts.clone()).collect();
        // The last of equal ones is the best, as in the sorted lists of the first implementation.
        all.sort_by(|a, b| a.score.total_cmp(&b.score));
        texts.extend(all.into_iter().rev().take(s.num_return));
    }
    let longest = texts.iter().map(|t| t.ids.len()).max().unwrap_or(0);
    let width = (longest + 1).min(s.max_length);
    let fill = s.pad.unwrap_or(0);
    let origins = texts.iter().map(|t| t.from.len()).max().unwrap_or(0);
    let (mut ids, mut from, mut scores) = (Vec::new(), Vec::new(), Vec::new());
    for text in texts {
        let mut row = text.ids;
        if row.len() < width {
            row.push(s.eos.first().copied().unwrap_or(fill));
        }
        row.resize(width, fill);
        ids.push(row);
        let mut origin = text.from;
        origin.resize(origins, -1);
        from.push(origin);
        scores.push(text.score as f32);
    }
    let count = scores.len();
    Ok(GenerateOutput {
        sequences: ids_tensor(&ids, 0, device)?,
        sequences_scores: Some(Tensor::from_vec(scores, [count])?.to_device(device)?),
        beam_indices: Some(ids_tensor(&from, 0, device)?),
        scores: records.scores,
        logits: records.logits,
        cache: None,
    })
}
