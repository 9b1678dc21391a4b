//! Activation checkpointing: keep the graph, drop its saved values, and recompute them in backward.
//!
//! The forward pass records its nodes as usual but drops their saved values; each node keeps only a
//! number. When backward first needs a value, the function runs again and the values are collected in
//! the same order (`torch.utils.checkpoint` with `use_reentrant=False`).
//!
//! The second run must read what the first one read. So the versions of the first run's saved values are
//! kept, and those of all tensors from outside that its ops read (`reads.rs`). They are compared at the
//! second run, which is an error where they differ.

mod reads;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use parking_lot::Mutex;
use smallvec::SmallVec;
use torsh_core::{Result, TorshError, random};

use crate::Tensor;
use crate::autocast;
use crate::mode;
use crate::node::{SavedSet, modified};
use crate::observe::watch;
use crate::options::options;

use reads::{Outside, Reads};

type Body = Box<dyn Fn() -> Result<Tensor> + Send + Sync>;

/// One checkpointed call.
pub(crate) struct Checkpoint {
    body: Body,
    /// The random state the call began with, so that dropout repeats; `None` where it need not.
    rng: Option<Vec<u8>>,
    /// What the autocast region around the call said.
    autocast: autocast::State,
    values: Mutex<Values>,
}

/// What a node of the first run would have saved.
struct Print {
    /// A fingerprint of shapes and dtypes.
    shapes: u64,
    versions: SmallVec<[u64; 3]>,
}

impl Print {
    fn of(set: &SavedSet) -> Print {
        Print {
            shapes: set.fingerprint(),
            versions: set.tensors().map(|s| s.version()).collect(),
        }
    }

    /// Refuses what the second run would save in its place.
    fn check(&self, again: &SavedSet) -> Result<()> {
        if self.shapes != again.fingerprint() {
            return Err(different());
        }
        for (s, &expected) in again.tensors().zip(&self.versions) {
            if s.version() != expected {
                return Err(changed(modified(s.spec(), READ, [s.version(), expected])));
            }
        }
        Ok(())
    }
}

/// What a tensor is to an error.
const READ: &str = "a tensor that a checkpointed function reads";

#[cold]
fn changed(e: TorshError) -> TorshError {
    e.with_hint("backward runs the function again, so what it reads must be as it was in its first run: use the op that is not in place, or let the function capture a copy()")
}

#[derive(Default)]
struct Values {
    prints: Vec<Print>,
    /// What the first run read of tensors that it did not make.
    reads: Vec<Outside>,
    computed: bool,
    slots: Vec<Option<SavedSet>>,
}

enum Phase {
    /// The forward pass: count nodes, keep nothing.
    Drop(Arc<Checkpoint>),
    /// Again: keep everything, in order.
    Collect(Vec<SavedSet>),
}

thread_local! {
    static PHASES: RefCell<Vec<Phase>> = const { RefCell::new(Vec::new()) };
    /// Within how many second runs the thread is.
    static AGAIN: Cell<usize> = const { Cell::new(0) };
}

/// Whether the thread runs a checkpointed function again, in a backward pass. What moves its own state in each call,
/// as a weight that is scaled down to a norm, leaves it as the first run left it.
pub(crate) fn runs_again() -> bool {
    AGAIN.get() > 0
}

struct Leave {
    _mode: mode::ModeGuard,
    armed: bool,
}

fn enter(phase: Phase) -> Leave {
    PHASES.with(|p| p.borrow_mut().push(phase));
    Leave {
        _mode: mode::guard(mode::CHECKPOINT, 0),
        armed: true,
    }
}

impl Leave {
    fn finish(mut self) -> Option<Phase> {
        self.armed = false;
        PHASES.with(|p| p.borrow_mut().pop())
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        if self.armed {
            PHASES.with(|p| p.borrow_mut().pop());
        }
    }
}

/// A second run, until it is dropped.
struct Again;

impl Again {
    fn enter() -> Again {
        AGAIN.set(AGAIN.get() + 1);
        Again
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        AGAIN.set(AGAIN.get() - 1);
    }
}

/// What a new node inside of a checkpoint keeps: its values, or where to find them again.
pub(crate) fn divert(saved: SavedSet) -> (SavedSet, Option<(Arc<Checkpoint>, usize)>) {
    PHASES.with(|p| match p.borrow_mut().last_mut() {
        Some(Phase::Drop(c)) => {
            let prints = &mut c.values.lock().prints;
            prints.push(Print::of(&saved));
            (SavedSet::default(), Some((c.clone(), prints.len() - 1)))
        }
        Some(Phase::Collect(list)) => {
            list.push(saved.share());
            (saved, None)
        }
        None => (saved, None),
    })
}

#[cold]
fn different() -> TorshError {
    TorshError::autograd(
        "checkpoint",
        "the function did not run the same ops the second time: what they save differs in number, shape or dtype",
    )
    .with_hint("what it computes must depend on its captured tensors and the random state alone")
}

impl Checkpoint {
    /// The values of node `index`, computed again where they are not there yet.
    pub(crate) fn saved(&self, index: usize) -> Result<SavedSet> {
        let mut values = self.values.lock();
        if !values.computed {
            reads::check_now(&values.reads)?;
            let again = self.recompute(&values.reads)?;
            // (A pass inside of the function itself has seen only its first ops so far.)
            if again.len() < values.prints.len() {
                return Err(different());
            }
            for (print, set) in values.prints.iter().zip(&again) {
                print.check(set)?;
            }
            values.slots = again.into_iter().map(Some).collect();
            values.computed = true;
        }
        let set = values
            .slots
            .get_mut(index)
            .and_then(|s| s.as_ref().map(SavedSet::share));
        set.ok_or_else(different)
    }

    fn recompute(&self, before: &[Outside]) -> Result<Vec<SavedSet>> {
        let generator = random::default_generator();
        let mut now = None;
        if let Some(rng) = &self.rng {
            now = Some(generator.get_state());
            generator.set_state(rng).map_err(TorshError::Other)?;
        }
        let _grad = mode::enable_grad_guard();
        let _region = autocast::enter(self.autocast);
        let leave = enter(Phase::Collect(Vec::new()));
        let (reads, again) = self.run_again(before);
        let phase = leave.finish();
        if let Some(now) = now {
            generator.set_state(&now).map_err(TorshError::Other)?;
        }
        again?;
        if let Some(reads) = reads {
            reads.compare(before)?;
        }
        match phase {
            Some(Phase::Collect(list)) => Ok(list),
            _ => Err(TorshError::autograd(
                "checkpoint",
                "nested checkpoints ended out of order",
            )),
        }
    }

    /// The second run, with what it read where the first one wrote into tensors from outside that it read.
    fn run_again(&self, before: &[Outside]) -> (Option<Rc<Reads>>, Result<Tensor>) {
        let reads = before.iter().any(Outside::to_compare).then(Reads::start);
        let _watch = reads.clone().map(|r| watch(r));
        let _again = Again::enter();
        (reads, (self.body)())
    }

    /// Frees what was computed again.
    pub(crate) fn free(&self, index: usize) {
        if let Some(s) = self.values.lock().slots.get_mut(index) {
            *s = None;
        }
    }
}

options! {
    /// PyTorch's keyword arguments of `torch.utils.checkpoint.checkpoint`.
    ///
    /// ```
    /// use torsh_tensor::CheckpointOptions;
    /// let options = CheckpointOptions::new();
    /// assert!(options.preserve_rng_state);
    /// assert!(!options.preserve_rng_state(false).preserve_rng_state);
    /// ```
    CheckpointOptions {
        /// Whether the second run draws the random numbers of the first one, so that dropout drops
        /// the same elements. Not needed, and saved, where the function draws none.
        preserve_rng_state: bool = true;
    }
}

/// Runs `f` without keeping what its backward needs; backward runs `f` again to get it
/// (`torch.utils.checkpoint.checkpoint`). `f` must compute the same thing both times; the random
/// state and an autocast region around it are restored for the second run. Backward fails if what `f`
/// reads was changed in place since its first run, by `f` itself or by others. (PyTorch does not notice
/// that of captured tensors.)
///
/// ```
/// use torsh_tensor::{checkpoint, Tensor};
/// let x = Tensor::from_data(&[0.5f32, 1.0], &[2])?.requires_grad_(true);
/// let inner = x.clone();
/// let y = checkpoint(move || inner.exp()?.sin())?;
/// y.sum()?.backward()?;
/// let g = x.grad().expect("x took part").to_vec::<f32>()?;
/// assert!((g[0] - 0.5f32.exp() * 0.5f32.exp().cos()).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn checkpoint(f: impl Fn() -> Result<Tensor> + Send + Sync + 'static) -> Result<Tensor> {
    checkpoint_with(f, CheckpointOptions::default())
}

/// [`checkpoint`] with PyTorch's keyword arguments.
///
/// ```
/// use torsh_tensor::{CheckpointOptions, checkpoint_with, tensor};
/// let x = tensor![2.0].requires_grad_(true);
/// let inner = x.clone();
/// let plain = CheckpointOptions::new().preserve_rng_state(false);
/// checkpoint_with(move || inner.pow(3.0), plain)?.backward()?;
/// assert_eq!(x.grad().expect("x took part"), tensor![12.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn checkpoint_with(
    f: impl Fn() -> Result<Tensor> + Send + Sync + 'static,
    options: CheckpointOptions,
) -> Result<Tensor> {
    if !mode::is_grad_enabled() {
        return f();
    }
    let c = Arc::new(Checkpoint {
        body: Box::new(f),
        rng: options
            .preserve_rng_state
            .then(|| random::default_generator().get_state()),
        autocast: autocast::state(),
        values: Mutex::new(Values::default()),
    });
    let reads = Reads::start();
    let out = {
        let leave = enter(Phase::Drop(c.clone()));
        let _watch = watch(reads.clone());
        let out = (c.body)();
        leave.finish();
        out
    };
    c.values.lock().reads = reads.finish();
    out
}

/// Runs functions one after the other, each on the result of the one before, as `segments`
/// checkpoints of about as many functions each (`torch.utils.checkpoint.checkpoint_sequential`).
/// The last segment is not one, as backward begins with it.
///
/// ```
/// use torsh_tensor::{Tensor, checkpoint_sequential, tensor};
/// let x = tensor![0.5].requires_grad_(true);
/// let layers = [Tensor::sin, Tensor::exp, Tensor::square, Tensor::sqrt];
/// let y = checkpoint_sequential(layers, 2, &x)?;
/// assert_eq!(y, x.sin()?.exp()?.square()?.sqrt()?);
/// y.backward()?;
/// let g = x.grad().expect("x took part").item::<f32>()?;
/// assert!((g - 0.5f32.sin().exp() * 0.5f32.cos()).abs() < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No segments, more segments than functions, or what a function returns.
#[torsh_tensor::names_caller]
pub fn checkpoint_sequential<F>(
    functions: impl IntoIterator<Item = F>,
    segments: usize,
    input: &Tensor,
) -> Result<Tensor>
where
    F: Fn(&Tensor) -> Result<Tensor> + Send + Sync + 'static,
{
    let functions: Vec<F> = functions.into_iter().collect();
    if segments == 0 || segments > functions.len() {
        return Err(TorshError::invalid(
            "checkpoint_sequential",
            format!(
                "{} functions cannot be split into {segments} segments",
                functions.len()
            ),
        )
        .with_hint("pass from 1 segment to as many as there are functions"));
    }
    let each = functions.len() / segments;
    let mut rest = functions.into_iter();
    let mut x = input.clone();
    for _ in 1..segments {
        let segment: Vec<F> = rest.by_ref().take(each).collect();
        x = checkpoint(move || chain(&segment, &x))?;
    }
    chain(&rest.collect::<Vec<F>>(), &x)
}

fn chain<F: Fn(&Tensor) -> Result<Tensor>>(functions: &[F], x: &Tensor) -> Result<Tensor> {
    functions.iter().try_fold(x.clone(), |x, f| f(&x))
}
