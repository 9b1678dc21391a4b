//! Which elements of the input each element of the output is made of, along one dimension.

use num_traits::Float;
use torsh_core::DType;
use torsh_core::attrs::ResampleMode as Mode;

use crate::memory::dense::rounded;

/// One dimension's sizes and arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResampleAxis {
    pub mode: Mode,
    pub input: usize,
    pub output: usize,
    pub align_corners: bool,
    pub antialias: bool,
    /// The factor that the caller gave.
    pub scale: Option<f64>,
    /// Whether it is a dimension of images, where PyTorch treats some sizes on their own.
    pub image: bool,
    /// What the weights are rounded to: as in PyTorch a half type's, but for lines in images.
    pub weights: DType,
}

/// For each element of the output a range of `items`: positions in the input and their weights.
#[derive(Debug, PartialEq)]
pub(super) struct ResampleTable<T> {
    pub starts: Vec<usize>,
    pub items: Vec<(usize, T)>,
}

impl<T: Copy> ResampleTable<T> {
    pub fn new() -> ResampleTable<T> {
        ResampleTable {
            starts: vec![0],
            items: Vec::new(),
        }
    }

    /// How many elements the output has.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// What element `i` of the output is made of.
    #[inline(always)]
    pub fn of(&self, i: usize) -> &[(usize, T)] {
        &self.items[self.starts[i]..self.starts[i + 1]]
    }

    fn end(&mut self) {
        self.starts.push(self.items.len());
    }

    /// The number of items of every element, where it is the same.
    pub fn uniform(&self) -> Option<usize> {
        let count = self.items.len() / self.len().max(1);
        let even = self.starts.iter().enumerate().all(|(i, &s)| s == i * count);
        even.then_some(count)
    }

    /// The table of the way back: for each of the `input` elements the outputs it is in.
    pub fn transposed(&self, input: usize) -> ResampleTable<T> {
        let mut starts = vec![0; input + 1];
        self.items.iter().for_each(|&(i, _)| starts[i + 1] += 1);
        for i in 0..input {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut items = self.items.clone();
        for o in 0..self.len() {
            for &(i, w) in self.of(o) {
                items[next[i]] = (o, w);
                next[i] += 1;
            }
        }
        ResampleTable { starts, items }
    }

    /// The weights as another type.
    pub fn map<U: Copy>(&self, f: impl Fn(T) -> U) -> ResampleTable<U> {
        ResampleTable {
            starts: self.starts.clone(),
            items: self.items.iter().map(|&(i, w)| (i, f(w))).collect(),
        }
    }
}

impl<T: Float> ResampleTable<T> {
    /// Whether the output is the input.
    pub fn is_identity(&self, input: usize) -> bool {
        self.len() == input
            && (0..input).all(|o| {
                let on = self.of(o).iter().filter(|(_, w)| !w.is_zero());
                on.eq([(o, T::one())].iter())
            })
    }

    /// The same with one item for each input that an output has.
    pub fn merged(&self) -> ResampleTable<T> {
        let mut out = ResampleTable::new();
        for o in 0..self.len() {
            let first = out.items.len();
            for &(i, w) in self.of(o) {
                match out.items[first..].iter_mut().find(|(j, _)| *j == i) {
                    Some((_, sum)) => *sum = *sum + w,
                    None => out.items.push((i, w)),
                }
            }
            out.end();
        }
        out
    }
}

/// The convolution kernel of cubic interpolation (Keys, 1981) with parameter `a`, for `0 <= x < 2`.
fn cubic<T: Float>(x: T, a: f64) -> T {
    let [a, two, three] = [a, 2.0, 3.0].map(constant::<T>);
    let [four, five, eight] = [4.0, 5.0, 8.0].map(constant::<T>);
    if x < T::one() {
        ((a + two) * x - (a + three)) * x * x + T::one()
    } else if x < two {
        ((a * x - five * a) * x + eight * a) * x - four * a
    } else {
        T::zero()
    }
}

fn sinc<T: Float>(x: T) -> T {
    if x.is_zero() {
        return T::one();
    }
    let x = x * constant(std::f64::consts::PI);
    x.sin() / x
}

/// A number of the type; zero where it has none.
fn constant<T: Float>(v: f64) -> T {
    T::from(v).unwrap_or_else(T::zero)
}

fn size<T: Float>(v: usize) -> T {
    T::from(v).unwrap_or_else(T::zero)
}

impl ResampleAxis {
    /// Steps of the input for one of the output.
    fn ratio<T: Float>(&self) -> T {
        if self.align_corners {
            return match self.output {
                0 | 1 => T::zero(),
                n => size::<T>(self.input - 1) / size(n - 1),
            };
        }
        match self.scale {
            Some(s) if s > 0.0 => constant(1.0 / s),
            _ => size::<T>(self.input) / size(self.output),
        }
    }

    /// The place in the input of element `i` of the output; not cut at the first for `cubic`.
    fn source<T: Float>(&self, ratio: T, i: usize, cubic: bool) -> T {
        if self.align_corners {
            return ratio * size(i);
        }
        let half = constant(0.5);
        let at = ratio * (size::<T>(i) + half) - half;
        match !cubic && at < T::zero() {
            true => T::zero(),
            false => at,
        }
    }

    /// The element at or before a place, and how far beyond it the place is.
    fn split<T: Float>(&self, at: T) -> (i64, T) {
        let index = at.floor().to_i64().unwrap_or(0).min(self.input as i64 - 1);
        let part = at - T::from(index).unwrap_or_else(T::zero);
        (index, part.max(T::zero()).min(T::one()))
    }

    fn round<T: Float>(&self, weight: T) -> T {
        match weight.to_f64() {
            Some(w) if matches!(self.weights, DType::F16 | DType::BF16) => {
                constant(rounded(w, self.weights))
            }
            _ => weight,
        }
    }

    /// The table of this dimension. The input must not be empty.
    pub fn table<T: Float>(&self) -> ResampleTable<T> {
        let mut t = ResampleTable::new();
        let (ratio, last) = (self.ratio::<T>(), self.input as i64 - 1);
        let inside = |i: i64| i.clamp(0, last) as usize;
        for o in 0..self.output {
            match self.mode {
                _ if self.antialias => self.filtered(ratio, o, &mut t.items),
                Mode::Nearest | Mode::NearestExact => {
                    let at = match self.mode {
                        Mode::Nearest if self.image && self.output == self.input => size(o),
                        Mode::Nearest if self.image && self.output == 2 * self.input => size(o / 2),
                        Mode::Nearest => ratio * size(o),
                        _ => ratio * (size::<T>(o) + constant(0.5)),
                    };
                    let at = at.floor().to_i64().unwrap_or(0);
                    t.items.push((inside(at), T::one()));
                }
                Mode::Linear if self.input == self.output => {
                    t.items.extend([(o, T::one()), (o, T::zero())]);
                }
                Mode::Linear => {
                    let (i, part) = self.split(self.source(ratio, o, false));
                    let part = self.round(part);
                    t.items.push((inside(i), self.round(T::one() - part)));
                    t.items.push((inside(i + 1), part));
                }
                Mode::Cubic | Mode::Lanczos => {
                    let (i, part) = self.split(self.source(ratio, o, true));
                    let one = T::one();
                    let away = [part + one, part, one - part, one - part + one];
                    for (k, x) in (-1i64..).zip(away) {
                        t.items.push((inside(i + k), self.round(cubic(x, -0.75))));
                    }
                }
            }
            t.end();
        }
        t
    }

    /// The elements under the filter around element `o` of the output, stretched by the ratio
    /// where the output is smaller.
    fn filtered<T: Float>(&self, ratio: T, o: usize, items: &mut Vec<(usize, T)>) {
        let (half, one) = (constant::<T>(0.5), T::one());
        let reach = constant::<T>(match self.mode {
            Mode::Cubic => 2.0,
            Mode::Lanczos => 3.0,
            _ => 1.0,
        });
        let chain = ratio.max(one);
        let (support, center) = (reach * chain, ratio * (size::<T>(o) + half));
        let whole = |v: T| v.to_i64().unwrap_or(0);
        let start = whole(center - support + half).max(0);
        let end = whole(center + support + half).min(self.input as i64);
        let most = 2 * whole(support.ceil()) + 1;
        let count = (end - start).clamp(0, most);
        let (first, mut total) = (items.len(), T::zero());
        for j in start..start + count {
            let x = (T::from(j).unwrap_or_else(T::zero) - center + half) * (one / chain);
            let x = x.abs();
            let w = match self.mode {
                Mode::Cubic => cubic(x, -0.5),
                Mode::Lanczos if x < reach => sinc(x) * sinc(x / reach),
                Mode::Lanczos => T::zero(),
                _ => (one - x).max(T::zero()),
            };
            total = total + w;
            items.push((j as usize, w));
        }
        if !total.is_zero() {
            items[first..].iter_mut().for_each(|(_, w)| *w = *w / total);
        }
    }
}
