//! The loop nest of a reduction: kept and reduced dimensions, merged and in memory order.

use smallvec::SmallVec;
use torsh_core::View;

/// One dimension of the nest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dim {
    pub n: usize,
    /// The input's stride, in elements.
    pub i: isize,
    /// The outputs' strides, in elements (zero for reduced dimensions).
    pub o: [isize; 2],
}

impl Dim {
    pub(crate) const ONE: Dim = Dim {
        n: 1,
        i: 0,
        o: [0, 0],
    };
}

pub(crate) type DimList = SmallVec<[Dim; 6]>;

/// Kept and reduced dimensions; the innermost of each apart, [`Dim::ONE`] where there is none.
#[derive(Debug)]
pub(crate) struct ReducePlan {
    pub kept: DimList,
    pub kept_in: Dim,
    pub red: DimList,
    pub red_in: Dim,
}

/// Sorts outermost first by the input's stride; broadcast dimensions go outermost.
pub(crate) fn order(dims: &mut DimList) {
    dims.sort_by_key(|d| match d.i {
        0 => 0,
        i => usize::MAX - i.unsigned_abs(),
    });
}

pub(crate) fn merge(dims: &mut DimList) {
    let mut count = 0;
    for at in 0..dims.len() {
        let d = dims[at];
        if let Some(last) = dims[..count].last_mut() {
            let n = d.n as isize;
            if last.i == d.i * n && last.o[0] == d.o[0] * n && last.o[1] == d.o[1] * n {
                *last = Dim {
                    n: last.n * d.n,
                    ..d
                };
                continue;
            }
        }
        dims[count] = d;
        count += 1;
    }
    dims.truncate(count);
}

impl ReducePlan {
    /// The nest for an input and its outputs, whose reduced dimensions have size 1.
    ///
    /// With `ordered` the reduced dimensions stay in row-major order, as results that are
    /// positions need.
    pub(crate) fn new(input: &View<'_>, outs: &[View<'_>], ordered: bool) -> ReducePlan {
        let mut kept = DimList::new();
        let mut red = DimList::new();
        if outs.len() == 1 && outs[0].numel() == 1 && input.is_contiguous() {
            return ReducePlan {
                kept,
                kept_in: Dim::ONE,
                red,
                red_in: Dim {
                    n: input.numel(),
                    i: 1,
                    o: [0, 0],
                },
            };
        }
        for d in 0..input.shape().len() {
            let (n, i) = (input.shape()[d], input.strides()[d]);
            if n == 1 {
                continue;
            }
            if outs[0].shape()[d] == n {
                let stride = |k: usize| outs.get(k).map_or(0, |v: &View<'_>| v.strides()[d]);
                kept.push(Dim {
                    n,
                    i,
                    o: [stride(0), stride(1)],
                });
            } else {
                red.push(Dim { n, i, o: [0, 0] });
            }
        }
        order(&mut kept);
        merge(&mut kept);
        if !ordered {
            order(&mut red);
        }
        merge(&mut red);
        let kept_in = kept.pop().unwrap_or(Dim::ONE);
        let red_in = red.pop().unwrap_or(Dim::ONE);
        ReducePlan {
            kept,
            kept_in,
            red,
            red_in,
        }
    }

    /// How many elements go into one result.
    pub(crate) fn count(&self) -> usize {
        self.red.iter().map(|d| d.n).product::<usize>() * self.red_in.n
    }

    /// How many results there are.
    pub(crate) fn results(&self) -> usize {
        self.kept.iter().map(|d| d.n).product::<usize>() * self.kept_in.n
    }
}

/// A walk over dimensions in row-major order, from any position.
pub(crate) struct ReduceWalk<'a> {
    dims: &'a [Dim],
    at: SmallVec<[usize; 6]>,
    /// The input's offset, in elements.
    pub i: isize,
    /// The outputs' offsets, in elements.
    pub o: [isize; 2],
}

impl<'a> ReduceWalk<'a> {
    pub(crate) fn new(dims: &'a [Dim], mut position: usize) -> ReduceWalk<'a> {
        let mut at = SmallVec::from_elem(0, dims.len());
        let (mut i, mut o) = (0, [0, 0]);
        for (k, d) in dims.iter().enumerate().rev() {
            let c = position % d.n.max(1);
            position /= d.n.max(1);
            at[k] = c;
            i += c as isize * d.i;
            o[0] += c as isize * d.o[0];
            o[1] += c as isize * d.o[1];
        }
        ReduceWalk { dims, at, i, o }
    }

    /// Goes one on; after the last position comes the first.
    #[inline]
    pub(crate) fn step(&mut self) {
        for (d, c) in self.dims.iter().zip(self.at.iter_mut()).rev() {
            *c += 1;
            self.i += d.i;
            self.o[0] += d.o[0];
            self.o[1] += d.o[1];
            if *c < d.n {
                return;
            }
            let n = d.n as isize;
            *c = 0;
            self.i -= n * d.i;
            self.o[0] -= n * d.o[0];
            self.o[1] -= n * d.o[1];
        }
    }
}
