//! Observers of a thread's computation, on which tracing and profiling are built.
//!
//! The dispatcher reports ops, the engine reports backward nodes, and callers report named ranges. Each
//! of these has a begin and an end, and everything between them belongs to it.

use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;
use torsh_core::attrs::NONE;

use torsh_core::{Attributes, CallSite, Result, at_caller};

use crate::Tensor;
use crate::call::{Arg, Outputs};
use crate::mode;
use crate::node::Node;
use crate::record::OpRecord;

/// What is being done.
#[derive(Clone, Copy)]
pub enum Work<'a> {
    /// An op that runs a kernel or makes a view: its results are new tensors.
    Op(&'static OpRecord),
    /// An op that writes into its results, which were there before.
    InPlace(&'static OpRecord),
    /// A function of this name that is written in ops.
    Composite(&'static str),
    /// All that a backward pass does for a node: hooks, its formula, adding up gradients.
    Node(&'a Node),
    /// The formula of a node, or what it does to a leaf's gradient.
    Formula(&'a Node),
    /// A range of a user's program.
    Range(&'a str),
    /// The computation of an op on the CPU, copies included, for a device that has no kernel for it;
    /// within the op.
    Fallback(&'static OpRecord),
    /// The computation of an op by its definition in other ops, on a device that has no kernel for
    /// it; within the op.
    Definition(&'static OpRecord),
}

/// Something that begins and ends.
pub struct Call<'a> {
    /// What it is.
    pub work: Work<'a>,
    /// Its operands; the gradients that come in, for a formula.
    pub args: &'a [Arg<'a>],
    /// The tensors that it writes into, for an op that makes no results of its own.
    pub targets: &'a [Tensor],
    /// Its other arguments.
    pub attrs: &'a dyn Attributes,
    /// Where it was called, where known.
    pub location: Option<&'static Location<'static>>,
    /// Within how many others it is that the thread has told of.
    pub depth: usize,
}

/// Is told what a thread does. It may call ops itself, which are not told.
///
/// An end comes with the call of its begin. What had begun when an observer was added ends without
/// it having seen the begin, which [`Call::depth`] tells.
pub trait Observer {
    /// A call begins.
    fn begin(&self, call: &Call<'_>) {
        let _ = call;
    }

    /// A call has ended, with its results unless it failed.
    fn end(&self, call: &Call<'_>, outputs: Option<&[Tensor]>) {
        let _ = (call, outputs);
    }

    /// A tensor with memory of its own was made, whose elements may not be written yet.
    fn made(&self, tensor: &Tensor) {
        let _ = tensor;
    }
}

/// One op call that has run.
pub struct Event<'a> {
    /// The op.
    pub record: &'static OpRecord,
    /// Its operands.
    pub args: &'a [Arg<'a>],
    /// Its other arguments.
    pub attrs: &'a dyn Attributes,
    /// Its results.
    pub outputs: &'a [Tensor],
    /// Where it was called.
    pub location: &'static Location<'static>,
}

thread_local! {
    static OBSERVERS: RefCell<Vec<(u64, Rc<dyn Observer>)>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Tells the thread's observers.
fn tell(f: impl Fn(&dyn Observer)) {
    let observers = OBSERVERS.with(|o| o.borrow().clone());
    // Observers may call ops themselves; those are not reported.
    let _quiet = mode::guard(0, mode::OBSERVE);
    for (_, o) in observers {
        f(&*o);
    }
}

/// A call between its begin and its end, which is told on drop at the latest.
struct Open<'a> {
    call: Call<'a>,
    ended: bool,
}

impl<'a> Open<'a> {
    fn begin(
        work: Work<'a>,
        args: &'a [Arg<'a>],
        targets: &'a [Tensor],
        attrs: &'a dyn Attributes,
        location: Option<&'static Location<'static>>,
    ) -> Open<'a> {
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        let call = Call {
            work,
            args,
            targets,
            attrs,
            location,
            depth,
        };
        tell(|o| o.begin(&call));
        Open { call, ended: false }
    }

    fn end(&mut self, outputs: Option<&[Tensor]>) {
        self.ended = true;
        DEPTH.set(self.call.depth);
        tell(|o| o.end(&self.call, outputs));
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.end(None);
        }
    }
}

/// Runs `f` as something the observers are told of, whose results are `targets`. Only called where
/// the mode says that there are some: the test is the caller's, and is all that a thread without
/// observers pays.
#[cold]
pub(crate) fn scope<T>(
    work: Work<'_>,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: Option<&'static Location<'static>>,
    targets: &[Tensor],
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let mut open = Open::begin(work, args, targets, attrs, at);
    let r = f();
    open.end(r.is_ok().then_some(targets));
    r
}

/// [`scope`] for an op that makes its results.
#[cold]
pub(crate) fn op(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &dyn Attributes,
    at: &'static Location<'static>,
    f: impl FnOnce() -> Result<Outputs>,
) -> Result<Outputs> {
    let mut open = Open::begin(Work::Op(record), args, &[], attrs, Some(at));
    let r = f();
    open.end(r.as_ref().ok().map(|outputs| &**outputs));
    r
}

/// Runs a function that is written in ops under its own name: observers see it around its ops, and deferred errors of
/// devices name it.
///
/// ```
/// use torsh_tensor::observe::composite;
/// # use torsh_tensor::tensor;
/// let x = tensor![1.0, 2.0];
/// let y = composite("demo.square_sum", &[&x], || x.mul(&x)?.sum())?;
/// assert_eq!(y.item::<f32>()?, 5.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of `f`.
#[inline]
#[torsh_tensor::names_caller]
pub fn composite<T>(
    name: &'static str,
    args: &[&Tensor],
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if args.iter().any(|t| !t.device().is_host()) {
        let site = CallSite::here(name);
        let run = || crate::check::within(site, || observed(name, args, site.location, f));
        return at_caller(run);
    }
    let at = Location::caller();
    at_caller(|| observed(name, args, at, f))
}

#[inline]
fn observed<T>(
    name: &'static str,
    args: &[&Tensor],
    at: &'static Location<'static>,
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if mode::get() & mode::OBSERVE == 0 {
        return f();
    }
    let args: Vec<Arg<'_>> = args.iter().map(|t| Arg::T(t)).collect();
    scope(Work::Composite(name), &args, NONE, Some(at), &[], f)
}

#[cold]
pub(crate) fn made(t: &Tensor) {
    tell(|o| o.made(t));
}

/// Runs `f` as a range of this name, which observers see as a call.
///
/// ```
/// use torsh_tensor::{Tensor, observe::range, tensor};
/// let y = range("double", || tensor![1.0, 2.0].mul(2.0))?;
/// assert_eq!(y, tensor![2.0, 4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn range<T>(name: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    if mode::get() & mode::OBSERVE == 0 {
        return at_caller(f);
    }
    let at = Some(Location::caller());
    at_caller(|| scope(Work::Range(name), &[], NONE, at, &[], f))
}

/// Takes an observer off its thread on drop.
#[must_use = "the observer is removed when the guard is dropped"]
pub struct ObserverGuard {
    id: u64,
    // A guard belongs to the thread that made it.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl Drop for ObserverGuard {
    fn drop(&mut self) {
        // Dropped outside of the borrow: an observer's own drop may be anything.
        let gone = OBSERVERS.with(|o| {
            let mut o = o.borrow_mut();
            let at = o.iter().position(|(id, _)| *id == self.id);
            let gone = at.map(|i| o.remove(i));
            if o.is_empty() {
                mode::set(mode::get() & !mode::OBSERVE);
            }
            gone
        });
        drop(gone);
    }
}

/// Adds an observer to this thread until the guard is dropped.
///
/// ```
/// use std::{cell::Cell, rc::Rc};
/// use torsh_tensor::{Tensor, observe::{Observer, watch}, tensor};
/// #[derive(Default)]
/// struct Bytes(Cell<usize>);
/// impl Observer for Bytes {
///     fn made(&self, t: &Tensor) {
///         self.0.set(self.0.get() + t.numel() * t.dtype().size());
///     }
/// }
/// let x = tensor![1.0, 2.0];
/// let bytes = Rc::new(Bytes::default());
/// let guard = watch(bytes.clone());
/// x.add(1.0)?.sum()?;
/// drop(guard);
/// x.exp()?;
/// assert_eq!(bytes.0.get(), 8 + 4);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn watch(observer: Rc<dyn Observer>) -> ObserverGuard {
    let id = NEXT.get();
    NEXT.set(id + 1);
    OBSERVERS.with(|o| o.borrow_mut().push((id, observer)));
    mode::set(mode::get() | mode::OBSERVE);
    ObserverGuard {
        id,
        _not_send: std::marker::PhantomData,
    }
}

/// Tells a closure of the ops.
struct Ops<F>(F);

impl<F: Fn(&Event<'_>)> Observer for Ops<F> {
    fn end(&self, call: &Call<'_>, outputs: Option<&[Tensor]>) {
        if let (Work::Op(record) | Work::InPlace(record), Some(outputs), Some(location)) =
            (call.work, outputs, call.location)
        {
            (self.0)(&Event {
                record,
                args: call.args,
                attrs: call.attrs,
                outputs,
                location,
            });
        }
    }
}

/// Runs `f` while `observer` is told of every op call this thread makes.
///
/// ```
/// use std::{cell::RefCell, rc::Rc};
/// use torsh_tensor::{Tensor, DType, Device, observe::observe};
/// let names = Rc::new(RefCell::new(Vec::new()));
/// let seen = names.clone();
/// observe(move |e| seen.borrow_mut().push(e.record.name), || {
///     Tensor::ones(&[2], DType::F32, Device::Cpu)?.add(1.0)?.mul(2.0)
/// })?;
/// assert!(names.borrow().ends_with(&["add", "mul"]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn observe<T>(
    observer: impl Fn(&Event<'_>) + 'static,
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let _guard = watch(Rc::new(Ops(observer)));
    f()
}
