//! Watching op calls from the choke point: what tracing and profiling build on.

use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

use torsh_core::{Attr, Result};

use crate::Tensor;
use crate::call::Arg;
use crate::mode;
use crate::record::OpRecord;

/// One op call that has run.
pub struct Event<'a> {
    /// The op.
    pub record: &'static OpRecord,
    /// Its operands.
    pub args: &'a [Arg<'a>],
    /// Its other arguments.
    pub attrs: &'a [Attr<'a>],
    /// Its results.
    pub outputs: &'a [Tensor],
    /// Where it was called.
    pub location: &'static Location<'static>,
}

type Observer = Rc<dyn Fn(&Event<'_>)>;

thread_local! {
    static OBSERVERS: RefCell<Vec<Observer>> = const { RefCell::new(Vec::new()) };
}

#[cold]
pub(crate) fn report(
    record: &'static OpRecord,
    args: &[Arg<'_>],
    attrs: &[Attr<'_>],
    outputs: &[Tensor],
    location: &'static Location<'static>,
) {
    // Observers may call ops themselves; those are not reported.
    let observers = OBSERVERS.with(|o| o.borrow().clone());
    let _quiet = mode::guard(0, mode::OBSERVE);
    let event = Event {
        record,
        args,
        attrs,
        outputs,
        location,
    };
    for o in observers {
        o(&event);
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
pub fn observe<T>(
    observer: impl Fn(&Event<'_>) + 'static,
    f: impl FnOnce() -> Result<T>,
) -> Result<T> {
    struct Pop;
    impl Drop for Pop {
        fn drop(&mut self) {
            OBSERVERS.with(|o| {
                o.borrow_mut().pop();
            });
        }
    }
    OBSERVERS.with(|o| o.borrow_mut().push(Rc::new(observer)));
    let _pop = Pop;
    let _on = mode::guard(mode::OBSERVE, 0);
    f()
}
