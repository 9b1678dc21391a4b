//! When each action of a schedule ran, and how long ranks were idle.

use std::time::Duration;

use torsh_tensor::{Result, TorshError};

use crate::plan::{Action, Schedule as Order};

/// What a rank did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceAction {
    /// A forward pass, and on the last stage the loss.
    Forward,
    /// A backward pass; with the zero-bubble schedule for the input alone.
    Backward,
    /// The gradients of the weights, with the zero-bubble schedule.
    Weights,
}

/// An action of the last step, without the time that the rank waited for its input.
#[derive(Clone, Debug)]
pub struct TraceEvent {
    /// What was done.
    pub action: TraceAction,
    /// The stage's number in the whole pipeline.
    pub stage: usize,
    /// The micro-batch.
    pub micro_batch: usize,
    /// When it began, from the beginning of the step.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
}

/// The idle part of a step of [`gpipe`](super::Schedule::gpipe) and [`one_f_one_b`](super::Schedule::one_f_one_b) on `ranks`
/// ranks, where all stages take the same time and sending takes none: `(p - 1) / (m + p - 1)`.
///
/// ```
/// use torsh_distributed::pipeline::ideal_bubble;
/// assert_eq!(ideal_bubble(4, 9), 0.25);
/// ```
pub fn ideal_bubble(ranks: usize, micro_batches: usize) -> f64 {
    (ranks as f64 - 1.0) / (micro_batches + ranks - 1) as f64
}

/// The idle part of a step on `ranks` ranks with `parts` stages each, from the order of the schedule's actions and how long
/// a stage's forward pass, backward pass for the input and backward pass for the weights take. Sending takes no time; but for
/// [`Order::ZeroBubble`] a backward pass is both.
///
/// ```
/// use torsh_distributed::pipeline::{ideal_bubble, simulated_bubble};
/// use torsh_distributed::plan::Schedule;
///
/// let one = simulated_bubble(Schedule::OneFOneB, 4, 8, 1, [1.0, 1.0, 1.0])?;
/// assert!((one - ideal_bubble(4, 8)).abs() < 1e-12);
/// assert!(simulated_bubble(Schedule::ZeroBubble, 4, 8, 1, [1.0, 1.0, 1.0])? < 0.5 * one);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Numbers that the schedule cannot have.
#[torsh_tensor::names_caller]
pub fn simulated_bubble(
    order: Order,
    ranks: usize,
    micro_batches: usize,
    parts: usize,
    times: [f64; 3],
) -> Result<f64> {
    let lists = (0..ranks)
        .map(|r| order.order(r, ranks, micro_batches, parts))
        .collect::<Result<Vec<_>>>()?;
    let stages = ranks * parts;
    let [forward, input, weights] = times;
    let backward = match order {
        Order::ZeroBubble => input,
        _ => input + weights,
    };
    // When a stage's pass of a micro-batch ended.
    let mut ends = [
        vec![None; stages * micro_batches],
        vec![None; stages * micro_batches],
    ];
    let (mut at, mut clock, mut busy) = (vec![0; ranks], vec![0.0f64; ranks], 0.0);
    loop {
        let mut moved = false;
        for r in 0..ranks {
            while let Some(&action) = lists[r].get(at[r]) {
                let slot = |stage: usize, micro: usize| stage * micro_batches + micro;
                let (ready, time, end) = match action {
                    Action::Forward { micro, part } => {
                        let s = part * ranks + r;
                        let ready = match s {
                            0 => Some(0.0),
                            _ => ends[0][slot(s - 1, micro)],
                        };
                        (ready, forward, Some((0, slot(s, micro))))
                    }
                    Action::Backward { micro, part } => {
                        let s = part * ranks + r;
                        let ready = match s + 1 == stages {
                            true => ends[0][slot(s, micro)],
                            false => ends[1][slot(s + 1, micro)],
                        };
                        (ready, backward, Some((1, slot(s, micro))))
                    }
                    Action::Weights { .. } => (Some(0.0), weights, None),
                };
                let Some(ready) = ready else { break };
                clock[r] = clock[r].max(ready) + time;
                busy += time;
                if let Some((kind, slot)) = end {
                    ends[kind][slot] = Some(clock[r]);
                }
                at[r] += 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    if (0..ranks).any(|r| at[r] < lists[r].len()) {
        let text = format!("{order:?} on {ranks} ranks waits for itself");
        return Err(TorshError::invalid("simulated_bubble", text));
    }
    let whole = clock.iter().fold(0.0f64, |a, &b| a.max(b)) * ranks as f64;
    Ok(1.0 - busy / whole)
}
