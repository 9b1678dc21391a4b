//! Operations under way.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use torsh_tensor::{Result, TorshError};

use crate::failure::{self, Ticket};

/// How long a waiting thread watches before it sleeps; at first without yielding.
const WATCH: Duration = Duration::from_micros(30);
const SPIN: Duration = Duration::from_micros(1);

type Outcome = std::result::Result<(), Arc<TorshError>>;

/// What follows an operation.
type Next = Box<dyn FnOnce() -> Result<()> + Send>;

/// An operation under way (`torch.distributed.Work`). Clones are the same operation.
///
/// The tensors of an operation are locked until it is done: whoever uses one waits. It goes on when this is dropped.
///
/// ```
/// use torsh_distributed::{ReduceOp, spawn};
/// use torsh_tensor::tensor;
///
/// let sums = spawn(2, |g| {
///     let t = tensor![1.0, 2.0].add(g.rank() as f64)?;
///     let work = g.all_reduce_async(&t, ReduceOp::Sum)?;
///     // Something else is computed meanwhile.
///     work.wait()?;
///     Ok(t)
/// })?;
/// assert_eq!(sums[1], tensor![3.0, 5.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct Work(Arc<State>);

/// What the handles of an operation share.
pub(crate) struct State {
    done: AtomicBool,
    inner: Mutex<WorkProgress>,
    wake: Condvar,
    ticket: Option<Arc<Ticket>>,
    /// The operation that must be done first, and what follows it.
    after: Option<(Work, Mutex<Option<Next>>)>,
}

#[derive(Default)]
struct WorkProgress {
    outcome: Option<Outcome>,
    waiting: usize,
    /// Operations that follow this one.
    followers: Vec<Arc<State>>,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.0.is_done() {
            "done"
        } else {
            "under way"
        };
        match &self.0.ticket {
            Some(t) => write!(f, "Work({}: {state})", t.text),
            None => write!(f, "Work({state})"),
        }
    }
}

impl State {
    pub(crate) fn new(ticket: Option<Arc<Ticket>>) -> Arc<State> {
        Arc::new(State {
            done: AtomicBool::new(false),
            inner: Mutex::default(),
            wake: Condvar::new(),
            ticket,
            after: None,
        })
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Ends the operation. Only the first outcome counts.
    pub(crate) fn complete(&self, outcome: Outcome) {
        let mut inner = self.inner.lock();
        if inner.outcome.is_some() {
            return;
        }
        inner.outcome = Some(outcome);
        self.done.store(true, Ordering::Release);
        if inner.waiting > 0 {
            self.wake.notify_all();
        }
        let followers = std::mem::take(&mut inner.followers);
        drop(inner);
        for f in followers {
            // Nobody else has it, so nobody will ask: it runs here.
            if Arc::strong_count(&f) == 1 {
                f.run_next();
            }
        }
    }

    /// Runs what follows the operation before, once that is done.
    fn run_next(&self) {
        let Some((before, next)) = &self.after else {
            return;
        };
        let Some(f) = next.lock().take() else {
            return;
        };
        let outcome = match before.0.outcome() {
            Some(Err(e)) => Err(e),
            _ => f().map_err(Arc::new),
        };
        self.complete(outcome);
    }

    fn outcome(&self) -> Option<Outcome> {
        self.inner.lock().outcome.clone()
    }

    /// Waits until it is done; whether it was in time.
    fn sleep(&self, until: Option<Instant>) -> bool {
        let began = Instant::now();
        while !self.is_done() {
            let quiet = began.elapsed();
            if quiet < SPIN {
                std::hint::spin_loop();
            } else if quiet < WATCH {
                std::thread::yield_now();
            } else {
                let mut inner = self.inner.lock();
                if inner.outcome.is_some() {
                    break;
                }
                inner.waiting += 1;
                let late = match until {
                    Some(until) => self.wake.wait_until(&mut inner, until).timed_out(),
                    None => {
                        self.wake.wait(&mut inner);
                        false
                    }
                };
                inner.waiting -= 1;
                if late && inner.outcome.is_none() {
                    return false;
                }
            }
        }
        true
    }
}

impl Work {
    pub(crate) fn of(state: &Arc<State>) -> Work {
        Work(state.clone())
    }

    /// An operation that was done at once.
    pub(crate) fn ready() -> Work {
        let state = State::new(None);
        state.complete(Ok(()));
        Work(state)
    }

    /// Whether it is done, well or not. Never waits for other ranks; what [`Work::then`] added runs within this call if
    /// its turn has come.
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let done = spawn(2, |g| {
    ///     let work = g.all_reduce_async(&tensor![1.0], ReduceOp::Sum)?;
    ///     while !work.is_completed() {
    ///         std::thread::yield_now(); // Something else is computed meanwhile.
    ///     }
    ///     Ok(work.is_completed())
    /// })?;
    /// assert_eq!(done, [true, true]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn is_completed(&self) -> bool {
        if let Some((before, _)) = &self.0.after
            && before.is_completed()
        {
            self.0.run_next();
        }
        self.0.is_done()
    }

    /// Waits until it is done.
    ///
    /// ```
    /// use torsh_distributed::spawn;
    /// let error = spawn(2, |g| match g.rank() {
    ///     0 => g.all_reduce_async(&torsh_tensor::tensor![1.0], Default::default())?.wait(),
    ///     _ => Err("no disk".to_string().into()), // Rank 1 does not come.
    /// });
    /// assert_eq!(error.unwrap_err().to_string(), "no disk (rank 1)");
    /// ```
    ///
    /// # Errors
    /// What went wrong, also on other ranks; after the group's timeout, which ranks did not come and where they are.
    #[torsh_tensor::names_caller]
    pub fn wait(&self) -> Result<()> {
        self.wait_until(None).map(|_| ())
    }

    /// Waits until it is done, but not longer than this. The operation goes on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// spawn(2, |g| {
    ///     let t = tensor![1];
    ///     if g.rank() == 0 {
    ///         let work = g.all_reduce_async(&t, ReduceOp::Sum)?;
    ///         assert!(work.wait_timeout(Duration::from_millis(20)).is_err());
    ///         g.send(&tensor![0], 1)?; // Rank 1 waits for this.
    ///         work.wait()?;
    ///     } else {
    ///         g.recv_(&tensor![0], 0)?;
    ///         g.all_reduce_(&t, ReduceOp::Sum)?;
    ///     }
    ///     assert_eq!(t, tensor![2]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Work::wait`], and if the time is over.
    #[torsh_tensor::names_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Result<()> {
        match self.wait_until(Some(Instant::now() + timeout))? {
            true => Ok(()),
            false => {
                let what = self.0.ticket.as_ref().map_or("", |t| t.text.as_str());
                Err(TorshError::failed(
                    "wait_timeout",
                    format!("{what} is not done after {timeout:?}"),
                )
                .with_hint("it goes on: wait again, or do something else meanwhile"))
            }
        }
    }

    #[track_caller]
    fn wait_until(&self, until: Option<Instant>) -> Result<bool> {
        if let Some((before, _)) = &self.0.after {
            if !before.0.after_or_self(until) {
                return Ok(false);
            }
            self.0.run_next();
        }
        if !self.0.sleep(until) {
            return Ok(false);
        }
        match self.0.outcome() {
            Some(Err(e)) => Err(failure::copy(&e)),
            _ => Ok(true),
        }
    }

    /// Runs a function when the operation is done and went well; the result is done after the function. It runs on the
    /// thread that waits for the result or asks whether it is done, and on the communication thread if the result was
    /// dropped (where it must not use tensors of operations under way).
    ///
    /// ```
    /// use torsh_distributed::{ReduceOp, spawn};
    /// use torsh_tensor::tensor;
    ///
    /// let halves = spawn(2, |g| {
    ///     let t = tensor![1.0, 2.0];
    ///     let same = t.clone();
    ///     let sum = g.all_reduce_async(&t, ReduceOp::Sum)?;
    ///     sum.then(move || same.mul_(0.25).map(|_| ()))?.wait()?;
    ///     Ok(t)
    /// })?;
    /// assert_eq!(halves[0], tensor![0.5, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// None now; the result has those of the operation and of the function.
    #[torsh_tensor::names_caller]
    pub fn then(&self, f: impl FnOnce() -> Result<()> + Send + 'static) -> Result<Work> {
        let state = Arc::new(State {
            done: AtomicBool::new(false),
            inner: Mutex::default(),
            wake: Condvar::new(),
            ticket: self.0.ticket.clone(),
            after: Some((self.clone(), Mutex::new(Some(Box::new(f))))),
        });
        let mut inner = self.0.inner.lock();
        if inner.outcome.is_none() {
            inner.followers.push(state.clone());
        } else {
            drop(inner);
            state.run_next();
        }
        Ok(Work(state))
    }
}

impl State {
    /// Waits for an operation and what it follows; whether it was in time.
    fn after_or_self(&self, until: Option<Instant>) -> bool {
        if let Some((before, _)) = &self.after {
            if !before.0.after_or_self(until) {
                return false;
            }
            self.run_next();
        }
        self.sleep(until)
    }
}
