//! Gradients that arrive part by part, from views of parts of a tensor.
//!
//! By definition, the derivatives of `select` and `slice` are gradients of the whole tensor that are
//! zero outside the part, and these are added. This module writes parts that do not overlap directly
//! into one gradient, and writes zeros only where no part arrived.

use std::ops::Range;

use smallvec::SmallVec;
use torsh_core::{DType, Result, Shape};

use super::{Edge, Queue};
use crate::Tensor;
use crate::ops::shape::{self, Part};

/// A gradient of which some indices of a dimension are written.
pub(super) struct Parts {
    whole: Tensor,
    dim: usize,
    /// Ascending, with something between any two of them.
    written: SmallVec<[Range<usize>; 2]>,
}

impl Parts {
    /// Writes a part unless some of it is written already. Says whether it did.
    fn write(&mut self, part: &Part) -> Result<bool> {
        let (start, end) = (part.start, part.start + part.len());
        let at = self.written.partition_point(|r| r.start < start);
        let (before, after) = self.written.split_at(at);
        let (before, after) = (before.last(), after.first());
        let apart = before.is_none_or(|r| r.end <= start) && after.is_none_or(|r| r.start >= end);
        if part.dim != self.dim || part.step != 1 || !apart {
            return Ok(false);
        }
        let Some(there) = part.of(&self.whole)? else {
            return Ok(false);
        };
        there.copy_(&part.g)?;
        let joins = (
            before.is_some_and(|r| r.end == start),
            after.is_some_and(|r| r.start == end),
        );
        match joins {
            (true, true) => self.written[at - 1].end = self.written.remove(at).end,
            (true, false) => self.written[at - 1].end = end,
            (false, true) => self.written[at].start = start,
            (false, false) => self.written.insert(at, start..end),
        }
        Ok(true)
    }

    /// The whole gradient.
    fn complete(self) -> Result<Tensor> {
        let n = self.whole.dims()[self.dim];
        let mut from = 0;
        for r in self.written.iter().chain([&(n..n)]) {
            if from < r.start {
                self.whole.clear_range(self.dim, from..r.start)?;
            }
            from = r.end;
        }
        Ok(self.whole)
    }
}

impl<'a> Queue<'a> {
    /// Writes a part of the gradient of a tensor of which nothing else came than parts. Says whether
    /// it did; if not, what came so far is with what the edge's node has received.
    pub(super) fn write(
        &mut self,
        e: &'a Edge,
        (shape, dtype): (&Shape, DType),
        part: &Part,
    ) -> Result<bool> {
        if let Some((_, parts)) = self.parts.iter_mut().find(|(to, _)| to.is(e)) {
            if parts.write(part)? {
                return Ok(true);
            }
            self.complete(|to| to.is(e))?;
            return Ok(false);
        }
        if part.step != 1 {
            return Ok(false);
        }
        let mut parts = Parts {
            whole: shape::uninit_for(&e.node, shape, dtype, part.g.device())?,
            dim: part.dim,
            written: SmallVec::new(),
        };
        let wrote = parts.write(part)?;
        if wrote {
            self.entry(&e.node);
            self.parts.push((e, parts));
        }
        Ok(wrote)
    }

    /// Hands over the gradients at some edges that came in parts.
    #[cold]
    pub(super) fn complete(&mut self, at: impl Fn(&Edge) -> bool) -> Result<()> {
        while let Some(i) = self.parts.iter().position(|(e, _)| at(e)) {
            let (e, parts) = self.parts.swap_remove(i);
            let g = parts.complete()?;
            self.entry(&e.node).grads[e.output_nr as usize] = Some(g);
        }
        Ok(())
    }
}
