//! What a checkpointed function reads of tensors that it did not make.
//!
//! An observer of the first run notes the version of each such storage at its reads. Storages that the run did not write
//! must have that version when the second run begins. Those that it wrote as well are compared at each read of the second
//! run, but only for reads in ops that could be recorded: statistics that a layer moves under `no_grad`, such as those of
//! a batch norm, may go on, as in PyTorch.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use smallvec::SmallVec;
use torsh_core::{DType, Result, Shape, Shared, Storage, WeakShared, attrs};

use super::{READ, changed};
use crate::Tensor;
use crate::call::Arg;
use crate::mode::is_grad_enabled;
use crate::node::modified;
use crate::observe::{Call, Observer, Work};
use crate::ops::batch_norm::BATCH_NORM;
use crate::record::Rule;

/// A storage from outside of a run.
pub(super) struct Outside {
    /// Weak, so that what the run made itself, unseen, is not kept.
    storage: WeakShared<Storage>,
    dtype: DType,
    shape: Shape,
    /// Its versions at reads of ops that could be recorded, without repetitions.
    versions: SmallVec<[u64; 1]>,
    /// That at its last read.
    last: u64,
    written: bool,
}

impl Outside {
    /// Whether its reads in the second run are to be compared, for it changes in each run.
    pub(super) fn to_compare(&self) -> bool {
        self.written && !self.versions.is_empty()
    }

    fn refuse(&self, now: u64, expected: u64) -> Result<()> {
        match now == expected {
            true => Ok(()),
            false => Err(changed(modified(
                (self.dtype, &self.shape),
                READ,
                [now, expected],
            ))),
        }
    }
}

/// Refuses a second run if a storage that the first one only read has changed.
pub(super) fn check_now(reads: &[Outside]) -> Result<()> {
    for o in reads.iter().filter(|o| !o.written) {
        if let Some(s) = o.storage.upgrade() {
            o.refuse(s.version(), o.last)?;
        }
    }
    Ok(())
}

#[derive(Default)]
struct Seen {
    /// The addresses of storages that the run made.
    own: HashSet<usize>,
    outside: HashMap<usize, Outside>,
}

/// Notes what a run reads.
#[derive(Default)]
pub(super) struct Reads(RefCell<Seen>);

fn address(t: &Tensor) -> usize {
    Shared::as_ptr(t.storage()) as usize
}

impl Reads {
    pub(super) fn start() -> Rc<Reads> {
        Rc::default()
    }

    /// What was read.
    pub(super) fn finish(&self) -> Vec<Outside> {
        self.0.take().outside.into_values().collect()
    }

    /// Refuses a second run that read other versions of a storage than the first one, which wrote into it.
    pub(super) fn compare(&self, before: &[Outside]) -> Result<()> {
        let seen = self.0.borrow();
        for o in before.iter().filter(|o| o.to_compare()) {
            let at = o.storage.as_ptr() as usize;
            let Some(now) = seen.outside.get(&at) else {
                continue;
            };
            for (&now, &expected) in now.versions.iter().zip(&o.versions) {
                o.refuse(now, expected)?;
            }
        }
        Ok(())
    }
}

impl Seen {
    /// The note on a storage from outside.
    fn outside(&mut self, t: &Tensor) -> Option<&mut Outside> {
        let at = address(t);
        if self.own.contains(&at) {
            return None;
        }
        Some(self.outside.entry(at).or_insert_with(|| Outside {
            storage: Shared::downgrade(t.storage()),
            dtype: t.dtype(),
            shape: t.shape().clone(),
            versions: SmallVec::new(),
            last: t.version(),
            written: false,
        }))
    }
}

impl Observer for Reads {
    fn begin(&self, call: &Call<'_>) {
        let record = match call.work {
            // A view reads no elements.
            Work::Op(r) if matches!(r.rule, Rule::View(_) | Rule::ViewAs(_)) => return,
            Work::Op(r) | Work::InPlace(r) => r,
            _ => return,
        };
        // In training the running statistics are only moved.
        let read = match call.attrs.downcast::<attrs::BatchNorm>() {
            Some(a) if a.training && std::ptr::eq(record, &BATCH_NORM) => 3,
            _ => call.args.len(),
        };
        let mut seen = self.0.borrow_mut();
        for arg in call.args.iter().take(read) {
            let Arg::T(t) = arg else { continue };
            if call.targets.iter().any(|w| address(w) == address(t)) {
                continue;
            }
            let version = t.version();
            if let Some(o) = seen.outside(t) {
                o.last = version;
                if is_grad_enabled() && o.versions.last() != Some(&version) {
                    o.versions.push(version);
                }
            }
        }
        for t in call.targets {
            if let Some(o) = seen.outside(t) {
                o.written = true;
            }
        }
    }

    fn made(&self, tensor: &Tensor) {
        self.0.borrow_mut().own.insert(address(tensor));
    }
}
