//! Pipeline parallel: a model cut into stages, through which micro-batches flow.
//!
//! Each rank of a group has one stage, or several with the interleaved schedule. A [`Schedule`] runs a step: forward and
//! backward passes of all micro-batches in the schedule's order, activations and gradients sent from stage to stage while
//! the ranks compute. Gradients add up in the order of micro-batches, so they are bit-equal to those of one process that
//! makes `(loss_fn(model(x_i), y_i) / micro_batches).backward()` for each micro-batch in turn.
//!
//! | schedule | idle part of a step with `p` ranks and `m` micro-batches | micro-batches held by rank `r` |
//! |---|---|---|
//! | [`Schedule::gpipe`] | `(p - 1) / (m + p - 1)` | `m` |
//! | [`Schedule::one_f_one_b`] | the same | `p - r` |
//! | [`Schedule::interleaved`], `v` stages on a rank | `(p - 1) / (v m + p - 1)` | up to `p v + p - 1 - 2 r` stages' |
//! | [`Schedule::zero_bubble`] (ZB-H1) | about a third of the first | `p` |
//!
//! [`Schedule::trace`] says when each action ran, and [`Schedule::bubble`] what part of the step the ranks were idle.

mod exchange;
mod schedule;
mod split;
mod stage;
mod trace;
mod weights;

pub use schedule::Schedule;
pub use split::{IntoModules, split_at, split_into_stages};
pub use stage::PipelineStage;
pub use trace::{TraceAction, TraceEvent, ideal_bubble, simulated_bubble};
