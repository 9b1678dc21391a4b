//! The order of a pipeline stage's work.

use serde::{Deserialize, Serialize};
use torsh_tensor::{Result, TorshError};

/// A pipeline's schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Schedule {
    /// All forward passes, then all backward passes (Y. Huang et al., "GPipe", 2019).
    GPipe,
    /// One forward, one backward (D. Narayanan et al., "PipeDream", 2019).
    #[default]
    OneFOneB,
    /// One forward, one backward, with several parts of the model on each rank (D. Narayanan et al., "Efficient large-scale
    /// language model training on GPU clusters", 2021).
    Interleaved,
    /// The weights' gradients fill the bubbles (P. Qi et al., "Zero bubble pipeline parallelism", 2023: ZB-H1).
    ZeroBubble,
}

/// One piece of a stage's work on one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The forward pass of a part of the model on this rank.
    Forward {
        /// Which micro-batch.
        micro: usize,
        /// Which of the rank's parts.
        part: usize,
    },
    /// The backward pass; with [`Schedule::ZeroBubble`] for the inputs alone.
    Backward {
        /// Which micro-batch.
        micro: usize,
        /// Which of the rank's parts.
        part: usize,
    },
    /// The gradients of the weights, with [`Schedule::ZeroBubble`].
    Weights {
        /// Which micro-batch.
        micro: usize,
        /// Which of the rank's parts.
        part: usize,
    },
}

impl Schedule {
    /// What the rank `stage` of `stages` does in one step, in order.
    ///
    /// # Errors
    /// Several parts with a schedule other than [`Schedule::Interleaved`]; with it, micro-batches that are no multiple of the
    /// stages.
    ///
    /// ```
    /// use torsh_planner::{Action::*, Schedule};
    ///
    /// # fn main() -> torsh_tensor::Result<()> {
    /// let last = Schedule::OneFOneB.order(1, 2, 2, 1)?;
    /// let part = 0;
    /// assert_eq!(last[..2], [Forward { micro: 0, part }, Backward { micro: 0, part }]);
    /// # Ok(()) }
    /// ```
    #[torsh_tensor::names_caller]
    pub fn order(
        self,
        stage: usize,
        stages: usize,
        micros: usize,
        parts: usize,
    ) -> Result<Vec<Action>> {
        let fail = |text: String| Err(TorshError::invalid("plan::Schedule::order", text));
        if stage >= stages || micros == 0 || parts == 0 {
            return fail(format!(
                "stage {stage} of {stages} with {micros} micro-batches and {parts} parts"
            ));
        }
        if parts > 1 && self != Schedule::Interleaved {
            return fail(format!("{self:?} has one part on each rank, not {parts}"));
        }
        let forward = |micro| Action::Forward { micro, part: 0 };
        let backward = |micro| Action::Backward { micro, part: 0 };
        let mut order = Vec::with_capacity(3 * micros * parts);
        match self {
            Schedule::GPipe => {
                order.extend((0..micros).map(forward));
                order.extend((0..micros).map(backward));
            }
            Schedule::OneFOneB | Schedule::ZeroBubble => {
                let ahead = (stages - stage - 1).min(micros);
                let lazy = self == Schedule::ZeroBubble;
                order.extend((0..ahead).map(forward));
                // A weight's gradient waits for as many backward passes as there are stages before this one.
                let delay = stage;
                for micro in 0..micros {
                    if ahead + micro < micros {
                        order.push(forward(ahead + micro));
                    }
                    order.push(backward(micro));
                    if lazy && micro >= delay {
                        let micro = micro - delay;
                        order.push(Action::Weights { micro, part: 0 });
                    }
                }
                if lazy {
                    let rest = micros.saturating_sub(delay)..micros;
                    order.extend(rest.map(|micro| Action::Weights { micro, part: 0 }));
                }
            }
            Schedule::Interleaved => {
                if !micros.is_multiple_of(stages) {
                    return fail(format!(
                        "{micros} micro-batches are no multiple of {stages} stages, as interleaving needs"
                    ));
                }
                let all = micros * parts;
                // Micro-batches go through a part in lots of as many as there are stages.
                let place = |k: usize| {
                    let lot = k / (stages * parts);
                    (lot * stages + k % stages, k / stages % parts)
                };
                let forward = |k| {
                    let (micro, part) = place(k);
                    Action::Forward { micro, part }
                };
                let backward = |k| {
                    let (micro, part) = place(k);
                    let part = parts - 1 - part;
                    Action::Backward { micro, part }
                };
                let ahead = ((stages - stage - 1) * 2 + (parts - 1) * stages).min(all);
                order.extend((0..ahead).map(forward));
                for k in 0..all {
                    if ahead + k < all {
                        order.push(forward(ahead + k));
                    }
                    order.push(backward(k));
                }
            }
        }
        Ok(order)
    }

    /// How many micro-batches' activations a rank holds at once at most, counted in parts of its model.
    ///
    /// # Errors
    /// As [`Schedule::order`].
    ///
    /// ```
    /// use torsh_planner::Schedule;
    ///
    /// # fn main() -> torsh_tensor::Result<()> {
    /// assert_eq!(Schedule::GPipe.most_held(0, 4, 16, 1)?, 16);
    /// assert_eq!(Schedule::OneFOneB.most_held(0, 4, 16, 1)?, 4);
    /// # Ok(()) }
    /// ```
    #[torsh_tensor::names_caller]
    pub fn most_held(
        self,
        stage: usize,
        stages: usize,
        micros: usize,
        parts: usize,
    ) -> Result<usize> {
        let (mut now, mut most) = (0usize, 0);
        for action in self.order(stage, stages, micros, parts)? {
            match (action, self) {
                (Action::Forward { .. }, _) => now += 1,
                // The weights' gradients need what the forward pass kept.
                (Action::Backward { .. }, Schedule::ZeroBubble) => {}
                (Action::Backward { .. } | Action::Weights { .. }, _) => {
                    now = now.saturating_sub(1);
                }
            }
            most = most.max(now);
        }
        Ok(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_every_micro_batch_comes_once() -> Result<()> {
        for (schedule, parts) in [
            (Schedule::GPipe, 1),
            (Schedule::OneFOneB, 1),
            (Schedule::Interleaved, 3),
            (Schedule::ZeroBubble, 1),
        ] {
            for stages in 1..5 {
                for stage in 0..stages {
                    let micros = 2 * stages;
                    let order = schedule.order(stage, stages, micros, parts)?;
                    for micro in 0..micros {
                        for part in 0..parts {
                            let at = |a| order.iter().filter(|&&b| b == a).count();
                            assert_eq!(at(Action::Forward { micro, part }), 1);
                            assert_eq!(at(Action::Backward { micro, part }), 1);
                            let lazy = usize::from(schedule == Schedule::ZeroBubble);
                            assert_eq!(at(Action::Weights { micro, part }), lazy);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn one_f_one_b_holds_as_many_as_stages_are_left() -> Result<()> {
        for stage in 0..4 {
            let held = Schedule::OneFOneB.most_held(stage, 4, 32, 1)?;
            assert_eq!(held, 4 - stage);
        }
        assert_eq!(Schedule::GPipe.most_held(3, 4, 32, 1)?, 32);
        assert!(Schedule::Interleaved.order(0, 4, 6, 2).is_err());
        assert!(Schedule::GPipe.order(0, 4, 8, 2).is_err());
        Ok(())
    }
}
