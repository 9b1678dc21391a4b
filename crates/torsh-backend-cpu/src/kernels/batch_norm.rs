//! Batch normalisation.
//!
//! - `BatchNorm`: input `[n, c, ..]`, optional weight, bias, running mean and running variance
//!   (`[c]` each) and optionally a tensor of the input's shape to add into the normalised input, the
//!   mean and the inverse standard deviation that were used and, in training where wanted, the unbiased
//!   variance. In training the statistics are those of the batch, else the running ones. Results may be
//!   clamped, after the addition.
//! - `BatchNormBackward`: gradient, input, weight, and that mean and inverse standard deviation
//!   into the gradients of input, weight and bias, each where wanted.
//!
//! Real floating-point types; the half types compute in float32. Sums end in float64.

use std::mem::MaybeUninit;

use torsh_core::{DType, Kernel, KernelArgs, Result, View, attrs, pool};

use crate::machine::tuning::batch_norm::{CACHED, GRAIN, LONG, STREAM};
use crate::memory::dense::{Dense, DenseOut, Ptr, Scratch, rounded, wide};
use crate::memory::operands::{missing, operands};
use crate::memory::stream;
use crate::multiversion;
use crate::scalar::Real;
use crate::simd::lanes;

pub(crate) fn batch_norm(args: &KernelArgs<'_>) -> Result<()> {
    let input = args.inputs().first().ok_or_else(missing)?;
    let forward = args.kernel() == Kernel::BatchNorm;
    match (wide(input.dtype()), forward) {
        (DType::F32, true) => run::<f32>(args, DType::F32),
        (DType::F64, true) => run::<f64>(args, DType::F64),
        (DType::F32, false) => backward::<f32>(args, DType::F32),
        (DType::F64, false) => backward::<f64>(args, DType::F64),
        _ => Err(args.unsupported()),
    }
}

/// What is done with a normalised element before it is written.
trait NormEpilogue<T>: Copy + Send + Sync {
    /// The same for elements that are `offset` further.
    fn at(self, offset: isize) -> Self;
    /// The result at `i`, of the normalised element `y`.
    ///
    /// # Safety
    /// `i` is within the operands.
    unsafe fn of(self, i: usize, y: T) -> T;
}

/// Nothing.
#[derive(Clone, Copy)]
struct Unchanged;

impl<T> NormEpilogue<T> for Unchanged {
    #[inline(always)]
    fn at(self, _: isize) -> Self {
        self
    }
    #[inline(always)]
    unsafe fn of(self, _: usize, y: T) -> T {
        y
    }
}

/// The range that results are clamped to. A NaN stays one.
#[derive(Clone, Copy)]
struct Clamp<T> {
    least: T,
    most: T,
}

impl<T: Real> NormEpilogue<T> for Clamp<T> {
    #[inline(always)]
    fn at(self, _: isize) -> Self {
        self
    }
    #[inline(always)]
    unsafe fn of(self, _: usize, y: T) -> T {
        let y = if y < self.least { self.least } else { y };
        if y > self.most { self.most } else { y }
    }
}

/// An element of another tensor is added, and the sum clamped.
#[derive(Clone, Copy)]
struct AddClamp<T> {
    other: Ptr<T>,
    clamp: Clamp<T>,
}

impl<T: Real> NormEpilogue<T> for AddClamp<T> {
    #[inline(always)]
    fn at(self, offset: isize) -> Self {
        let other = Ptr::new(self.other.at(offset));
        AddClamp { other, ..self }
    }
    #[inline(always)]
    unsafe fn of(self, i: usize, y: T) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.clamp.of(i, y + *self.other.get().add(i)) }
    }
}

// Sums over and maps of adjacent elements; `one` where all are of one channel and share its numbers,
// else each has its own.
multiversion! {
    /// `acc[i] += x[i]`, or `(x[i] - mean)^2`.
    unsafe fn accumulate<A, T: Real>(n: usize, x: *const T, mean: Option<*const T>, acc: *mut f64) {
        // SAFETY: the caller's promise.
        unsafe {
            match mean {
                None => (0..n).for_each(|i| *acc.add(i) += (*x.add(i)).to_f64()),
                Some(mean) => (0..n).for_each(|i| {
                    let d = (*x.add(i) - *mean.add(i)).to_f64();
                    *acc.add(i) += d * d;
                }),
            }
        }
    }
    /// The sum of `x`, or of `(x - mean)^2`.
    pub(crate) unsafe fn sum<A, T: Real>(n: usize, x: *const T, mean: Option<T>) -> f64 {
        // SAFETY: the caller's promise.
        unsafe {
            match mean {
                None => lanes::sum(n, |i| *x.add(i)),
                Some(mean) => lanes::sum(n, |i| (*x.add(i) - mean) * (*x.add(i) - mean)),
            }
        }
    }
    /// The mean and the sum of squared distances from it, asking for what is at `next` meanwhile.
    unsafe fn moments<A, T: Real>(n: usize, x: *const T, next: *const T) -> [f64; 2] {
        let fetch = |i| stream::prefetch_all::<T, { lanes::LANES }>(next.wrapping_add(i));
        // SAFETY: the caller's promise.
        unsafe {
            let mean = lanes::sum(n, |i| *x.add(i)) / n as f64;
            let near = T::c(mean);
            let squares = lanes::sum_with(n, fetch, |i| (*x.add(i) - near) * (*x.add(i) - near));
            // What rounding the mean added to each.
            let off = mean - near.to_f64();
            [mean, squares - n as f64 * off * off]
        }
    }
    /// `y = a x + b`, and what follows it.
    unsafe fn affine<A, T: Real, E: NormEpilogue<T>>(n: usize, x: *const T, y: *mut T, a: *const T, b: *const T, one: bool, end: E) {
        // SAFETY: the caller's promise.
        unsafe {
            if one {
                let (a, b) = (*a, *b);
                (0..n).for_each(|i| *y.add(i) = end.of(i, a.fma::<A>(*x.add(i), b)));
            } else {
                (0..n).for_each(|i| *y.add(i) = end.of(i, (*a.add(i)).fma::<A>(*x.add(i), *b.add(i))));
            }
        }
    }
    /// [`affine`] of one channel, written past the caches.
    unsafe fn affine_streamed<A, T: Real, E: NormEpilogue<T>>(n: usize, x: *const T, y: *mut T, a: T, b: T, end: E) {
        let mut block = [const { MaybeUninit::<T>::uninit() }; STREAM];
        for at in (0..n).step_by(STREAM) {
            let n = STREAM.min(n - at);
            // SAFETY: the caller's promise.
            unsafe {
                for (i, v) in block[..n].iter_mut().enumerate() {
                    v.write(end.of(at + i, a.fma::<A>(*x.add(at + i), b)));
                }
                stream::copy(block.as_ptr().cast(), y.add(at).cast(), n * size_of::<T>());
            }
        }
    }
    /// The sums of `g` and of `g (x - mean)`: into `acc`, or of each element into `acc` and
    /// `acc + n`.
    pub(crate) unsafe fn dots<A, T: Real>(n: usize, g: *const T, x: *const T, mean: *const T, acc: *mut f64, one: bool) {
        // SAFETY: the caller's promise.
        unsafe {
            if one {
                let mean = *mean;
                *acc += lanes::sum(n, |i| *g.add(i));
                *acc.add(1) += lanes::sum(n, |i| *g.add(i) * (*x.add(i) - mean));
            } else {
                (0..n).for_each(|i| *acc.add(i) += (*g.add(i)).to_f64());
                let acc = acc.add(n);
                (0..n).for_each(|i| *acc.add(i) += (*g.add(i)).to_f64() * (*x.add(i) - *mean.add(i)).to_f64());
            }
        }
    }
    /// `y = a g + b (x - mean) + c` of `[a, b, c, mean]`.
    pub(crate) unsafe fn gradient<A, T: Real>(n: usize, g: *const T, x: *const T, y: *mut T, abcm: [*const T; 4], one: bool) {
        let [a, b, c, mean] = abcm;
        // SAFETY: the caller's promise.
        unsafe {
            if one {
                let (a, b, c, mean) = (*a, *b, *c, *mean);
                (0..n).for_each(|i| {
                    *y.add(i) = a.fma::<A>(*g.add(i), b.fma::<A>(*x.add(i) - mean, c));
                });
            } else {
                (0..n).for_each(|i| {
                    let d = *x.add(i) - *mean.add(i);
                    *y.add(i) = (*a.add(i)).fma::<A>(*g.add(i), (*b.add(i)).fma::<A>(d, *c.add(i)));
                });
            }
        }
    }
}

/// The factor and the summand of a channel, from its mean, its inverse standard deviation, weight and bias.
#[inline(always)]
fn factors(mean: f64, invstd: f64, [weight, bias]: [f64; 2]) -> [f64; 2] {
    let scale = invstd * weight;
    [scale, bias - mean * scale]
}

multiversion! {
    /// The factor and the summand of each channel by its running statistics, where weights and biases are as many as
    /// the channels or none at all, then 1 and 0.
    pub(crate) fn by_running<A>(statistics: [&[f32]; 2], parameters: [Option<&[f32]>; 2], eps: f64) -> [Vec<f32>; 2] {
        let [mean, var] = statistics;
        let of = |list: Option<&[f32]>, absent: f32| match list {
            Some(list) => list.to_vec(),
            None => vec![absent; mean.len()],
        };
        let mut both = [of(parameters[0], 1.0), of(parameters[1], 0.0)];
        let [a, b] = &mut both;
        for (((a, b), &mean), &var) in a.iter_mut().zip(b).zip(mean).zip(var) {
            let invstd = 1.0 / (f64::from(var) + eps).sqrt();
            let [scale, shift] = factors(mean.into(), invstd, [(*a).into(), (*b).into()]);
            (*a, *b) = (scale as f32, shift as f32);
        }
        both
    }
}

/// The input as `n` images of `c` channels of `s` adjacent elements.
#[derive(Clone, Copy)]
struct BatchNormSizes {
    n: usize,
    c: usize,
    s: usize,
}

impl BatchNormSizes {
    fn new(v: &View<'_>) -> Result<BatchNormSizes> {
        match v.shape() {
            [n, c, rest @ ..] => Ok(BatchNormSizes {
                n: *n,
                c: *c,
                s: rest.iter().product(),
            }),
            _ => Err(missing()),
        }
    }

    /// Whether loops run along channels, else along images.
    fn long(&self) -> bool {
        self.s >= LONG
    }

    /// Calls `f` for ranges of channels, in parallel; where they are long, for so few that they
    /// are still in a cache when they are read again.
    fn channels(&self, f: &(dyn Fn(std::ops::Range<usize>) + Sync)) {
        let each = (self.n * self.s).max(1);
        let few = if self.long() {
            (CACHED / each).max(1)
        } else {
            self.c.max(1)
        };
        let f = |range: std::ops::Range<usize>| {
            for at in range.clone().step_by(few) {
                f(at..range.end.min(at + few));
            }
        };
        // Where channels are short, a cache line of them at least.
        let least = if self.long() { 1 } else { 64 };
        pool::parallel_for(self.c, (GRAIN / each).max(least).min(self.c.max(1)), &f);
    }

    /// The first element of channel `c` of image `n`.
    fn at(&self, n: usize, c: usize) -> isize {
        ((n * self.c + c) * self.s) as isize
    }

    /// One number of each channel for each of its elements in an image.
    fn expand<T: Copy>(
        &self,
        range: &std::ops::Range<usize>,
        values: impl Fn(usize) -> T,
    ) -> Vec<T> {
        range
            .clone()
            .flat_map(|c| std::iter::repeat_n(values(c), self.s))
            .collect()
    }

    /// Where the elements of channel `c` of the image after `n` start, or those of the first image of
    /// the next channel.
    fn after(&self, n: usize, c: usize) -> isize {
        if n + 1 < self.n {
            self.at(n + 1, c)
        } else {
            self.at(0, c + 1)
        }
    }

    /// The mean of each channel of `range`, and the sum of squared distances from it.
    ///
    /// # Safety
    /// `x` must hold the input.
    unsafe fn moments<T: Real>(&self, range: &std::ops::Range<usize>, x: Ptr<T>) -> Vec<[f64; 2]> {
        let count = (self.n * self.s) as f64;
        // SAFETY: the caller's promise.
        unsafe {
            if self.long() {
                // Image by image, each of which is in the first-level cache for its second pass.
                let of = |c| {
                    let none = if self.n == 0 { f64::NAN } else { 0.0 };
                    let (mut mean, mut squares) = (none, 0.0);
                    for n in 0..self.n {
                        let next = x.at(self.after(n, c));
                        let [m, s] = moments(self.s, x.at(self.at(n, c)), next);
                        // As Chan, Golub and LeVeque join them.
                        let (d, share) = (m - mean, 1.0 / (n + 1) as f64);
                        mean += d * share;
                        squares += s + d * d * share * (n * self.s) as f64;
                    }
                    [mean, squares]
                };
                return range.clone().map(of).collect();
            }
            let len = range.len() * self.s;
            let pass = |mean: Option<Vec<T>>| {
                let mut acc = vec![0.0; len];
                let mean = mean.as_ref().map(|m| m.as_ptr());
                for n in 0..self.n {
                    accumulate(len, x.at(self.at(n, range.start)), mean, acc.as_mut_ptr());
                }
                let sums = acc.chunks(self.s.max(1)).map(|c| c.iter().sum());
                sums.collect::<Vec<f64>>()
            };
            let means: Vec<f64> = pass(None).iter().map(|s| s / count).collect();
            let near = self.expand(range, |c| T::c(means[c - range.start]));
            let squares = pass(Some(near));
            let both = means.into_iter().zip(squares);
            both.map(|(m, s)| {
                // What rounding the mean added to each squared distance.
                let off = m - T::c(m).to_f64();
                [m, s - count * off * off]
            })
            .collect()
        }
    }

    /// `y = a x + b` of each channel of `range`, and what follows it; written past the caches where
    /// `streams`.
    ///
    /// # Safety
    /// `x` and `y` must hold the input and the result, and `factors` two numbers for each channel.
    unsafe fn scale<T: Real, E: NormEpilogue<T>>(
        &self,
        range: &std::ops::Range<usize>,
        [x, y]: [Ptr<T>; 2],
        [a, b]: [&[T]; 2],
        streams: bool,
        end: E,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if !self.long() {
                let [a, b] = [a, b].map(|list| self.expand(range, |c| list[c - range.start]));
                for n in 0..self.n {
                    let at = self.at(n, range.start);
                    let (x, y, end) = (x.at(at), y.at(at), end.at(at));
                    affine(a.len(), x, y, a.as_ptr(), b.as_ptr(), false, end);
                }
                return;
            }
            for n in 0..self.n {
                for (i, c) in range.clone().enumerate() {
                    let at = self.at(n, c);
                    let (x, y, end) = (x.at(at), y.at(at), end.at(at));
                    match streams {
                        true => affine_streamed(self.s, x, y, a[i], b[i], end),
                        false => affine(self.s, x, y, &a[i], &b[i], true, end),
                    }
                }
            }
        }
    }

    /// The sums of the gradient, and of it times the distance from the mean, of each channel.
    ///
    /// # Safety
    /// `g` and `x` must hold the gradient and the input.
    unsafe fn dots<T: Real>(
        &self,
        range: &std::ops::Range<usize>,
        g: Ptr<T>,
        x: Ptr<T>,
        mean: &[T],
    ) -> Vec<[f64; 2]> {
        // SAFETY: the caller's promise.
        unsafe {
            if self.long() {
                let dots = |(i, c)| {
                    let mut acc = [0.0; 2];
                    for n in 0..self.n {
                        let at = self.at(n, c);
                        dots(self.s, g.at(at), x.at(at), &mean[i], acc.as_mut_ptr(), true);
                    }
                    acc
                };
                return range.clone().enumerate().map(dots).collect();
            }
            let len = range.len() * self.s;
            let mut acc = vec![0.0; 2 * len];
            let mean = self.expand(range, |c| mean[c - range.start]);
            for n in 0..self.n {
                let at = self.at(n, range.start);
                dots(
                    len,
                    g.at(at),
                    x.at(at),
                    mean.as_ptr(),
                    acc.as_mut_ptr(),
                    false,
                );
            }
            let sum = |from: usize| acc[from..from + self.s].iter().sum();
            (0..range.len())
                .map(|i| [sum(i * self.s), sum(len + i * self.s)])
                .collect()
        }
    }
}

fn run<T: Real>(args: &KernelArgs<'_>, dtype: DType) -> Result<()> {
    let ([out, mean_out, invstd_out], [input]) = operands(args)?;
    let sizes = BatchNormSizes::new(input)?;
    let &attrs::BatchNorm {
        training,
        eps,
        min,
        max,
        ..
    } = args.attrs()?;
    let clamp = Clamp {
        least: T::c(min.unwrap_or(f64::NEG_INFINITY)),
        most: T::c(max.unwrap_or(f64::INFINITY)),
    };
    let clamps = min.is_some() || max.is_some();
    let x = Dense::new(input, dtype)?;
    let of = |i: usize| Dense::optional(args.inputs().get(i), dtype);
    let (weight, bias, running_mean, running_var) = (of(1)?, of(2)?, of(3)?, of(4)?);
    let other = of(5)?;
    let other = other.as_ref().map(Dense::ptr::<T>);
    let result = DenseOut::new(out, dtype)?;
    let (mean, invstd) = (
        DenseOut::new(mean_out, dtype)?,
        DenseOut::new(invstd_out, dtype)?,
    );
    let var = Scratch::<f64>::new(sizes.c)?;
    let (x, y) = (x.ptr::<T>(), result.ptr::<T>());
    let count = (sizes.n * sizes.s) as f64;
    let (mean_p, invstd_p, var_p) = (mean.ptr::<T>(), invstd.ptr::<T>(), Ptr::new(var.ptr()));
    let number = |d: &Option<Dense>, c: usize, absent: f64| match d {
        // SAFETY: the operand has a number for each channel.
        Some(d) => unsafe { (*d.ptr::<T>().at(c as isize)).to_f64() },
        None => absent,
    };
    if !training && (running_mean.is_none() || running_var.is_none()) {
        return Err(missing());
    }
    // Statistics in a half type are rounded to it wherever PyTorch stores them; in float16 it stores
    // no sum of squares, which could overflow, and no variance.
    let statistics = mean_out.dtype();
    let kept = |v: f64| rounded(v, statistics);
    let squared = |v: f64| match statistics {
        DType::F16 => v,
        _ => rounded(v, statistics),
    };
    let half = wide(statistics) != statistics;
    let large = stream::pays(out.numel() * size_of::<T>());
    let streams = large && out.dtype() == dtype && sizes.s >= STREAM / 2;
    sizes.channels(&|range| {
        let (means, vars): (Vec<f64>, Vec<f64>) = match training {
            true => {
                // SAFETY: the operands have the sizes that were read from them.
                let moments = unsafe { sizes.moments(&range, x) };
                let one = |&[mean, squares]: &[f64; 2]| {
                    let stored = kept(mean);
                    // In a half type, distances are those from the mean that it stores.
                    let off = if half { stored - mean } else { 0.0 };
                    let var = squares / count + off * off;
                    // `max` would turn a nan into 0.
                    let var = if var < 0.0 { 0.0 } else { var };
                    (stored, squared(var * count) / count)
                };
                moments.iter().map(one).unzip()
            }
            false => (
                range
                    .clone()
                    .map(|c| number(&running_mean, c, 0.0))
                    .collect(),
                range
                    .clone()
                    .map(|c| number(&running_var, c, 1.0))
                    .collect(),
            ),
        };
        let mut a = Vec::with_capacity(range.len());
        let mut b = Vec::with_capacity(range.len());
        for (i, c) in range.clone().enumerate() {
            let invstd = match training {
                // PyTorch divides a rounded sum, and rounds again.
                // Without an eps, equal elements are 0 and not nan.
                true if vars[i] == 0.0 && eps == 0.0 => 0.0,
                true => kept(1.0 / (squared(vars[i]) + eps).sqrt()),
                false => 1.0 / (vars[i] + eps).sqrt(),
            };
            // SAFETY: the channel is this thread's.
            unsafe {
                *mean_p.at(c as isize) = T::c(means[i]);
                *invstd_p.at(c as isize) = T::c(invstd);
                *var_p.at(c as isize) = vars[i];
            }
            let parameters = [number(&weight, c, 1.0), number(&bias, c, 0.0)];
            let [scale, shift] = factors(means[i], invstd, parameters);
            a.push(T::c(scale));
            b.push(T::c(shift));
        }
        let factors = [&a[..], &b[..]];
        // SAFETY: as above.
        unsafe {
            match other {
                Some(other) => {
                    let end = AddClamp { other, clamp };
                    sizes.scale(&range, [x, y], factors, streams, end);
                }
                None if clamps => sizes.scale(&range, [x, y], factors, streams, clamp),
                None => sizes.scale(&range, [x, y], factors, streams, Unchanged),
            }
        }
        if streams {
            stream::fence();
        }
    });
    if training && let Some(variance) = DenseOut::optional(args.outputs().get(3), dtype)? {
        for c in 0..sizes.c {
            // SAFETY: both have a number for each channel, and the threads are done.
            unsafe {
                *variance.ptr::<T>().at(c as isize) =
                    T::c(*var_p.at(c as isize) * count / (count - 1.0));
            }
        }
        variance.finish()?;
    }
    mean.finish()?;
    invstd.finish()?;
    result.finish()
}

fn backward<T: Real>(args: &KernelArgs<'_>, dtype: DType) -> Result<()> {
    let (outs, [grad, input, weight, mean, invstd, ..]) = (args.outputs(), args.inputs()) else {
        return Err(missing());
    };
    let sizes = BatchNormSizes::new(input)?;
    let training = args.attrs::<attrs::BatchNormBackward>()?.training;
    let (g, x) = (Dense::new(grad, dtype)?, Dense::new(input, dtype)?);
    let weight = Dense::optional(Some(weight), dtype)?;
    let (mean, invstd) = (Dense::new(mean, dtype)?, Dense::new(invstd, dtype)?);
    let out = |i: usize| DenseOut::optional(outs.get(i), dtype);
    let (gx, gw, gb) = (out(0)?, out(1)?, out(2)?);
    let (gp, xp, mp, ip) = (
        g.ptr::<T>(),
        x.ptr::<T>(),
        mean.ptr::<T>(),
        invstd.ptr::<T>(),
    );
    let [y, gw_p, gb_p] = [&gx, &gw, &gb].map(|o| o.as_ref().map(DenseOut::ptr::<T>));
    let wp = weight.as_ref().map(Dense::ptr::<T>);
    let count = (sizes.n * sizes.s) as f64;
    sizes.channels(&|range| {
        // SAFETY: the operands have the sizes that were read from them, and the channels are this
        // thread's.
        unsafe {
            let means = std::slice::from_raw_parts(mp.at(range.start as isize), range.len());
            let dots = match training || gw_p.is_some() || gb_p.is_some() {
                true => sizes.dots(&range, gp, xp, means),
                false => vec![[0.0; 2]; range.len()],
            };
            let mut factors = [const { Vec::new() }; 3];
            for (i, c) in range.clone().enumerate() {
                let [sum, dot] = dots[i];
                let invstd = (*ip.at(c as isize)).to_f64();
                if let Some(gw) = gw_p {
                    *gw.at(c as isize) = T::c(dot * invstd);
                }
                if let Some(gb) = gb_p {
                    *gb.at(c as isize) = T::c(sum);
                }
                let a = invstd * wp.map_or(1.0, |w| (*w.at(c as isize)).to_f64());
                let (b, constant) = match training {
                    true => (-a * invstd * invstd * dot / count, -a * sum / count),
                    false => (0.0, 0.0),
                };
                for (list, value) in factors.iter_mut().zip([a, b, constant]) {
                    list.push(T::c(value));
                }
            }
            let Some(y) = y else { return };
            let [a, b, c] = &factors;
            if sizes.long() {
                for n in 0..sizes.n {
                    for (i, channel) in range.clone().enumerate() {
                        let at = sizes.at(n, channel);
                        let numbers = [&a[i], &b[i], &c[i], &means[i]].map(std::ptr::from_ref);
                        gradient(sizes.s, gp.at(at), xp.at(at), y.at(at), numbers, true);
                    }
                }
            } else {
                let lists =
                    [&a[..], b, c, means].map(|l| sizes.expand(&range, |c| l[c - range.start]));
                let numbers = [0, 1, 2, 3].map(|i| lists[i].as_ptr());
                for n in 0..sizes.n {
                    let at = sizes.at(n, range.start);
                    gradient(
                        lists[0].len(),
                        gp.at(at),
                        xp.at(at),
                        y.at(at),
                        numbers,
                        false,
                    );
                }
            }
        }
    });
    [gx, gw, gb]
        .into_iter()
        .flatten()
        .try_for_each(DenseOut::finish)
}

#[cfg(feature = "unit-tests")]
mod tests;
