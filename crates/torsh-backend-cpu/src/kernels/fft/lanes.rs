//! Lines in lanes: how they come into vectors, and how the results leave them.
//!
//! Columns that are side by side are read and written where they are. Lines of adjacent numbers are transposed in
//! squares; others are copied number by number.

use std::sync::Arc;

use torsh_core::attrs::FftKind;

use super::half_spectrum::{completed, pairs, rescaled, spectrum};
use super::line::Spec;
use super::plans::{FftReal, LanesPlan, lanes_plan};
use super::stages::{FftPrefetch, TransformSide};
use super::transposition::{lanes, transpose_in, transpose_out};

/// The transform of as many lines at once as a vector has lanes.
pub(super) struct LaneTransform<T> {
    spec: Spec,
    plan: Arc<LanesPlan<T>>,
    /// The lines.
    width: usize,
}

impl<T: FftReal> LaneTransform<T> {
    /// For a length that has radices.
    pub(super) fn new(spec: Spec) -> LaneTransform<T> {
        LaneTransform {
            spec,
            plan: lanes_plan(spec.points(), spec.halved()),
            width: lanes::<T>(),
        }
    }

    /// How many lines are transformed at once.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// The numbers of a buffer. Some more than the points are, so that one buffer's addresses are no power of two
    /// from the other's.
    fn buffer(&self) -> usize {
        (self.spec.room().max(self.spec.points()) + 3) * 2 * self.width
    }

    /// The real numbers of memory that [`LaneTransform::run`] needs.
    pub(super) fn memory(&self) -> usize {
        3 * self.buffer()
    }

    /// Transforms lines. Element `i` of a line of `I` is `i * stride` elements from the line's address, and so for the
    /// results, which are `O`; both are complex, or real as the kind of transform asks. `next` is the address of the
    /// line that is read after these.
    ///
    /// # Safety
    /// The elements are there, and [`LaneTransform::memory`] numbers. There are at most [`LaneTransform::width`] lines and at least
    /// one. A line of results is apart from the operands of others.
    pub(super) unsafe fn run<I: Copy, O: Copy>(
        &self,
        from: (&[*const I], isize),
        to: (&[*mut O], isize),
        memory: *mut T,
        next: Option<*const I>,
    ) {
        let (s, width, size) = (&self.spec, self.width, self.buffer());
        let plan = &self.plan;
        let (points, inverse) = (s.points(), s.inverse);
        let g = s.halves(&plan.twiddles);
        let scale = T::c(s.scale);
        let ahead = [
            self.ahead(to.0[0].cast_const(), to),
            next.map_or(FftPrefetch::NONE, |next| self.ahead(next, from)),
        ];
        // SAFETY: the caller's promise; the buffers are apart.
        unsafe {
            // The third one has a vector of zeros, or of what is not wanted, before a result.
            let (buffers, third) = ([memory, memory.add(size)], memory.add(2 * size));
            let one = TransformSide::buffer(buffers[0], width);
            match s.kind {
                FftKind::Complex => {
                    let source = self.source(from, buffers[0], third);
                    let direct = self.columns(to, third);
                    // A transform of one stage needs a buffer on one side.
                    let direct = direct.filter(|_| {
                        plan.stages.count() > 1 || matches!(source, TransformSide::Split(..))
                    });
                    let result = plan
                        .stages
                        .run(source, direct, buffers, inverse, scale, None, ahead);
                    if direct.is_none() {
                        self.leave(result, s.given() * 2, to);
                    }
                }
                FftKind::FromReal => {
                    let source = self.source(from, buffers[0], third);
                    let result =
                        plan.stages
                            .run(source, None, buffers, inverse, T::ONE, None, ahead);
                    let result_side = TransformSide::buffer(result, width);
                    let direct = self.columns(to, third);
                    let target = direct.unwrap_or(result_side);
                    match s.halved() {
                        true => spectrum(&g, result_side, target),
                        false => rescaled(&g, result_side, target, s.given()),
                    }
                    if direct.is_none() {
                        self.leave(result, s.given() * 2, to);
                    }
                }
                FftKind::ToReal => {
                    let source = self.source(from, buffers[0], third);
                    match s.halved() {
                        true => pairs(&g, source, one),
                        false => completed(&g, source, one, points),
                    }
                    match self.columns(to, third) {
                        Some(direct) => {
                            plan.stages.run(
                                one,
                                Some(direct),
                                buffers,
                                inverse,
                                T::ONE,
                                None,
                                ahead,
                            );
                        }
                        None if s.halved() => {
                            let result =
                                plan.stages
                                    .run(one, None, buffers, inverse, T::ONE, None, ahead);
                            self.leave(result, s.n, to);
                        }
                        None => {
                            let real = third.add(width);
                            let steps = [width as isize, 0];
                            let target = TransformSide::Split([real, third], steps);
                            plan.stages.run(
                                one,
                                Some(target),
                                buffers,
                                inverse,
                                T::ONE,
                                None,
                                ahead,
                            );
                            self.leave(real, s.n, to);
                        }
                    }
                }
            }
        }
    }

    /// What to fetch of lines like these from another address on.
    fn ahead<P: Address>(
        &self,
        first: *const P::Of,
        (lines, stride): (&[P], isize),
    ) -> FftPrefetch<T> {
        let parts = (size_of::<P::Of>() / size_of::<T>()) as isize;
        let first = first.cast::<T>();
        match lines {
            _ if lines.len() < self.width => FftPrefetch::NONE,
            _ if side_by_side(lines) => match parts {
                2 => FftPrefetch::columns(first, 2 * stride),
                _ => FftPrefetch::columns(
                    first,
                    stride * (self.spec.n / self.spec.points()) as isize,
                ),
            },
            [one, two, ..] if stride == 1 => {
                let step = two.at().wrapping_sub(one.at()) as isize / size_of::<T>() as isize;
                FftPrefetch::lines(first, step, self.width)
            }
            _ => FftPrefetch::NONE,
        }
    }

    /// The lines as a side: where they are, if they are side by side, else copied to a buffer.
    ///
    /// # Safety
    /// As for [`LaneTransform::run`]; `zeros` has room for a vector.
    unsafe fn source<I: Copy>(
        &self,
        (lines, stride): (&[*const I], isize),
        buffer: *mut T,
        zeros: *mut T,
    ) -> TransformSide<T> {
        let (width, parts) = (self.width, size_of::<I>() / size_of::<T>());
        let whole = parts == 2 || self.spec.halved();
        // SAFETY: the caller's promise.
        unsafe {
            if !whole {
                for lane in 0..width {
                    *zeros.add(lane) = T::ZERO;
                }
            }
            if lines.len() == width && side_by_side(lines) {
                let first = lines[0].cast::<T>().cast_mut();
                return match (parts, whole) {
                    (2, _) => TransformSide::columns(first, stride),
                    (_, true) => TransformSide::Split(
                        [first, first.wrapping_offset(stride)],
                        [2 * stride; 2],
                    ),
                    (_, false) => TransformSide::Split([first, zeros], [stride, 0]),
                };
            }
            let mut all = [lines[0].cast::<T>(); super::split::MOST];
            for (to, line) in all.iter_mut().zip(lines) {
                *to = line.cast();
            }
            let all = &all[..width];
            let count = self.spec.taken() * parts;
            match stride {
                1 => transpose_in(all, count, buffer),
                _ => {
                    // Lanes without a line compute with zeros.
                    std::ptr::write_bytes(buffer, 0, count * width);
                    for i in 0..count {
                        let at =
                            (i / parts) as isize * stride * parts as isize + (i % parts) as isize;
                        for (lane, line) in all[..lines.len()].iter().enumerate() {
                            *buffer.add(i * width + lane) = *line.offset(at);
                        }
                    }
                }
            }
            match whole {
                true => TransformSide::buffer(buffer, width),
                false => TransformSide::Split([buffer, zeros], [width as isize, 0]),
            }
        }
    }

    /// The results' lines as a side, if they are side by side.
    fn columns<O>(
        &self,
        (lines, stride): (&[*mut O], isize),
        unwanted: *mut T,
    ) -> Option<TransformSide<T>> {
        if lines.len() != self.width || !side_by_side(lines) {
            return None;
        }
        let (first, parts) = (lines[0].cast::<T>(), size_of::<O>() / size_of::<T>());
        Some(match (parts, self.spec.halved()) {
            (2, _) => TransformSide::columns(first, stride),
            (_, true) => {
                TransformSide::Split([first, first.wrapping_offset(stride)], [2 * stride; 2])
            }
            (_, false) => TransformSide::Split([first, unwanted], [stride, 0]),
        })
    }

    /// Copies `count` vectors to lines.
    ///
    /// # Safety
    /// As for [`LaneTransform::run`].
    unsafe fn leave<O: Copy>(
        &self,
        from: *const T,
        count: usize,
        (lines, stride): (&[*mut O], isize),
    ) {
        let (width, parts) = (self.width, size_of::<O>() / size_of::<T>());
        let mut all = [lines[0].cast::<T>(); super::split::MOST];
        for (to, line) in all.iter_mut().zip(lines) {
            *to = line.cast();
        }
        let all = &all[..lines.len()];
        // SAFETY: the caller's promise.
        unsafe {
            if stride == 1 {
                return transpose_out(from, count, all);
            }
            for i in 0..count {
                let at = (i / parts) as isize * stride * parts as isize + (i % parts) as isize;
                for (lane, line) in all.iter().enumerate() {
                    *line.offset(at) = *from.add(i * width + lane);
                }
            }
        }
    }
}

/// Whether each address is the next element's of the one before.
fn side_by_side<P: Address>(lines: &[P]) -> bool {
    lines.windows(2).all(|w| w[0].next() == w[1].at())
}

/// An address of an element.
trait Address: Copy {
    type Of;
    fn at(self) -> usize;
    fn next(self) -> usize;
}
impl<T> Address for *const T {
    type Of = T;
    fn at(self) -> usize {
        self.addr()
    }
    fn next(self) -> usize {
        self.addr() + size_of::<T>()
    }
}
impl<T> Address for *mut T {
    type Of = T;
    fn at(self) -> usize {
        self.addr()
    }
    fn next(self) -> usize {
        self.addr() + size_of::<T>()
    }
}
