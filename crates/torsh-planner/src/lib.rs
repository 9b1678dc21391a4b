//! Plans for sizes that are not here: what a step takes on thousands of ranks, and which mesh is best.
//!
//! Everything here is a function of plain numbers. `torsh_distributed::plan` has all of it, with what measures the ranks that
//! are here; the program `torsh-plan` is its face.
//!
//! # What is modelled
//!
//! * **Messages** cost a latency, a gap between two messages of one rank, and their bytes over the bandwidth: the LogGP model
//!   (A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman, "LogGP: incorporating long messages into the LogP model", 1995).
//!   With a gap equal to the latency it is the alpha-beta model. Links have levels: within a node, between nodes, and as many
//!   more as a [`Cluster`] describes. A rank of a group talks to some of its peers on each level.
//! * **Collectives** are sums of such messages. `ReduceMode::Ordered` sends a piece to every rank directly, adds in rank
//!   order and gathers. An all-reduce with `ReduceMode::Engine` and every all-gather take the best of the algorithms that MPI
//!   libraries choose from (R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in
//!   MPICH", 2005): recursive doubling, reduce-scatter with all-gather, rings, and these level by level. Where `torsh-plan
//!   measure` has timed a collective on as many ranks, its times are taken instead.
//! * **Compute** of a layer is its floating-point operations over the device's speed, or the time that was measured. A
//!   backward pass costs two forward passes, three where activations are computed again. The optimizer's step costs the
//!   bytes that it reads and writes.
//! * **A step** is simulated by discrete events. Each rank has one lane for compute and one for each level of links; a
//!   collective starts when all its ranks have come to it and their lanes are free. The layers' backward passes, the
//!   buckets of `DistributedDataParallel`, the gathers (the next one ahead) and
//!   reduce-scatters of `fully_shard`, and the actions of the pipeline's schedules are tasks with the
//!   dependencies that the code has. Ranks that share a layer's matrices (tensor parallel) work in lockstep.
//! * **Stragglers**: each rank of each step is slower by a factor drawn from a seed: half of a normal distribution, and with
//!   a small chance a whole factor.
//! * **Memory** is exact for parameters, gradients and optimizer states (pieces along dimension 0, as `fully_shard` makes
//!   them); activations are the values that a block's graph keeps.
//!
//! Not modelled: traffic of other jobs, congestion inside a network's switches, input pipelines, allocator overhead.

mod build;
mod gpt;
mod memory;
mod model;
mod options;
mod schedule;
mod search;
mod simulate;
mod step;
mod trace;
mod traffic;

pub use gpt::{Layer, ModelPlan};
pub use memory::{Memory, fully_shard_bytes, memory};
#[doc(hidden)]
pub use model::MOST_SHARED;
pub use model::{Cluster, Collective, Group, Level, Link, Measured, Reduction, Stragglers};
pub use options::{Parallelism, StepOptions};
pub use schedule::{Action, Schedule};
pub use search::{Candidate, Search, search};
pub use step::{Outcome, simulate};
pub use trace::chrome_trace;
#[doc(hidden)]
pub use traffic::reduced;
pub use traffic::{StepTraffic, Traffic, traffic};
