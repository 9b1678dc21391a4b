//! The allocation that was last refused to the calling thread. [`TorshError::OutOfMemory`] has no
//! fields, so its message is stored here.
//!
//! [`TorshError::OutOfMemory`]: super::TorshError::OutOfMemory

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;

use crate::Device;

/// A request that a device refused, and the operation that made it.
struct Refusal {
    device: Device,
    bytes: usize,
    op: Option<Op>,
    location: Option<&'static Location<'static>>,
}

struct Op {
    name: Cow<'static, str>,
    operands: Vec<String>,
}

thread_local! {
    static LAST: RefCell<Option<Refusal>> = const { RefCell::new(None) };
}

/// Calls `f` with the last refusal; not while the thread ends, when nobody will ask.
fn with(f: impl FnOnce(&mut Option<Refusal>)) {
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            f(&mut last);
        }
    });
}

/// Notes a refusal.
pub(crate) fn refuse(device: Device, bytes: usize) {
    with(|last| {
        *last = Some(Refusal {
            device,
            bytes,
            op: None,
            location: None,
        });
    });
}

/// The bytes of the last refusal.
pub(crate) fn bytes() -> usize {
    let mut bytes = 0;
    with(|last| bytes = last.as_ref().map_or(0, |r| r.bytes));
    bytes
}

/// Names the operation of the last refusal, where none is named yet.
pub(super) fn name_op(
    name: &'static str,
    operands: &mut dyn FnMut() -> Vec<String>,
    location: &'static Location<'static>,
) {
    with(|last| {
        if let Some(r) = last
            && r.op.is_none()
            && !name.is_empty()
        {
            r.op = Some(Op {
                name: Cow::Borrowed(name),
                operands: operands(),
            });
            r.location = Some(location);
        }
    });
}

/// Names the in-place form of the operation where it is `name`.
pub(super) fn in_place(name: &str) {
    with(|last| {
        if let Some(op) = last.as_mut().and_then(|r| r.op.as_mut())
            && op.name == name
            && !name.ends_with('_')
        {
            op.name = Cow::Owned(format!("{name}_"));
        }
    });
}

/// The place of the call that the last refusal ended.
pub(super) fn location() -> Option<&'static Location<'static>> {
    let mut location = None;
    with(|last| location = last.as_ref().and_then(|r| r.location));
    location
}

/// Names `caller` as that place.
pub(super) fn at(caller: &'static Location<'static>) {
    with(|last| {
        if let Some(r) = last {
            r.location = Some(caller);
        }
    });
}

/// Writes the text of the error.
pub(super) fn show(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const HINT: &str = "free tensors, or use smaller batches";
    let mut result = Ok(());
    with(|last| {
        result = match last {
            None => write!(f, "out of memory\n  hint: {HINT}"),
            Some(r) => r.show(f, HINT),
        }
    });
    result
}

impl Refusal {
    fn show(&self, f: &mut fmt::Formatter<'_>, hint: &str) -> fmt::Result {
        if let Some(op) = &self.op {
            write!(f, "{}: ", op.name)?;
        }
        write!(f, "out of memory: {} cannot give ", self.device)?;
        match self.bytes {
            0 => f.write_str("the memory to work in")?,
            usize::MAX => f.write_str("more bytes than can be counted")?,
            n => write!(f, "the {n} bytes asked for")?,
        }
        if let Some(op) = &self.op
            && !op.operands.is_empty()
        {
            write!(f, "\n  operands: {}", op.operands.join(", "))?;
        }
        write!(f, "\n  hint: {hint}")?;
        match self.location {
            Some(location) => write!(f, "\n  at {location}"),
            None => Ok(()),
        }
    }
}
