//! One token after another: the likeliest, or a drawn one.

use torsh_tensor::{Result, Tensor};

use super::criteria::{Criteria, StoppingCriteria};
use super::decoding::{Decoding, Prompt, ids_tensor};
use super::inputs::GenerateOutput;
use super::options::Settings;
use super::pipeline::Pipeline;

/// The next token of each row: the likeliest, or one drawn as PyTorch draws.
pub(super) fn choose(scores: &Tensor, do_sample: bool) -> Result<Vec<i64>> {
    let ids = match do_sample {
        true => scores.softmax(-1)?.multinomial(1)?,
        false => scores.argmax_dim(-1, false)?,
    };
    ids.to_vec()
}

/// Scores and logits of all steps, where they are wanted.
pub(super) struct Records {
    pub(super) scores: Vec<Tensor>,
    pub(super) logits: Vec<Tensor>,
    wants: (bool, bool),
}

impl Records {
    pub(super) fn new(s: &Settings) -> Records {
        Records {
            scores: Vec::new(),
            logits: Vec::new(),
            wants: (
                s.o.output_scores.unwrap_or(false),
                s.o.output_logits.unwrap_or(false),
            ),
        }
    }

    pub(super) fn keep(&mut self, scores: &Tensor, logits: &Tensor) {
        if self.wants.0 {
            self.scores.push(scores.clone());
        }
        if self.wants.1 {
            self.logits.push(logits.clone());
        }
    }
}

/// Rows that grow by one token at a time.
pub(super) struct Sampler<'a> {
    pub(super) rows: Vec<Vec<i64>>,
    pub(super) settings: Settings,
    decoding: Decoding<'a>,
    pipeline: Pipeline<'a>,
    criteria: Criteria<'a>,
    unfinished: Vec<bool>,
    started: bool,
    records: Records,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(prompt: Prompt<'a>, pipeline: Pipeline<'a>, criteria: Criteria<'a>) -> Self {
        Sampler {
            unfinished: vec![true; prompt.rows.len() * prompt.settings.num_return],
            records: Records::new(&prompt.settings),
            rows: prompt.rows,
            settings: prompt.settings,
            decoding: prompt.decoding,
            pipeline,
            criteria,
            started: false,
        }
    }

    /// Whether all rows have ended.
    pub(super) fn finished(&self) -> bool {
        !self.unfinished.contains(&true)
    }

    /// Adds a token to each row.
    pub(super) fn advance(&mut self) -> Result<()> {
        let logits = if self.started {
            self.decoding.next_logits(&self.rows)?
        } else {
            let logits = self.decoding.prefill(&self.rows, &self.settings)?;
            self.started = true;
            match self.settings.num_return {
                1 => logits,
                n => {
                    self.decoding.repeat(n, self.rows.len())?;
                    let each = self.rows.iter().flat_map(|row| std::iter::repeat_n(row, n));
                    self.rows = each.cloned().collect();
                    logits.repeat_interleave(n as i64, 0)?
                }
            }
        };
        let scores = self.pipeline.process(&self.rows, logits.clone())?;
        self.records.keep(&scores, &logits);
        let ids = choose(&scores, self.settings.do_sample)?;
        for ((row, id), open) in self.rows.iter_mut().zip(ids).zip(&self.unfinished) {
            row.push(match (open, self.settings.pad) {
                (false, Some(pad)) => pad,
                _ => id,
            });
        }
        let ends = self.criteria.stop(&self.rows)?;
        for (open, end) in self.unfinished.iter_mut().zip(ends) {
            *open &= !end;
        }
        Ok(())
    }

    pub(super) fn run(mut self) -> Result<GenerateOutput> {
        while !self.finished() {
            self.advance()?;
        }
        Ok(GenerateOutput {
            sequences: ids_tensor(&self.rows, 0, self.decoding.device)?,
            sequences_scores: None,
            beam_indices: None,
            scores: self.records.scores,
            logits: self.records.logits,
            cache: self.decoding.cache,
        })
    }
}
