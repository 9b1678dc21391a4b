//! Integer, Bernoulli and multinomial draws, and permutations.

use super::engine::Mt19937;
use super::generator::Generator;
use super::parts::{Cut, in_parts};
use super::uniform::{unit_f32, unit_f64};

/// Ranges from here on take 64 bits a draw; below, the bias of `% range` is under 7 %.
const WIDE_RANGE: u64 = 1 << 28;

/// Permutations from this length on take 64 bits a draw.
const WIDE_PERMUTATION: i64 = (u32::MAX / 20) as i64;

/// Fills `out` uniformly over `[low, high)`, as `torch.randint` and `Tensor.random_(low, high)`.
/// Other types are casts of these draws. The caller checks that `low < high`.
///
/// ```
/// use torsh_core::random::{Generator, fill_random_range_i64};
/// let mut out = [0; 5];
/// fill_random_range_i64(&Generator::new(0), &mut out, 0, 10);
/// assert_eq!(out, [4, 9, 3, 0, 3]); // torch.randint(0, 10, (5,)) after torch.manual_seed(0)
/// ```
pub fn fill_random_range_i64(generator: &Generator, out: &mut [i64], low: i64, high: i64) {
    let range = (high as u64).wrapping_sub(low as u64);
    generator.with(|state| {
        if range >= WIDE_RANGE {
            let draw = |bits: u64| ((bits % range) as i64).wrapping_add(low);
            state.engine.map_u64(out, draw);
        } else {
            let range = range as u32;
            let draw = |bits: u32| i64::from(bits % range).wrapping_add(low);
            state.engine.map_u32(out, draw);
        }
    });
}

/// Fills `out` uniformly over `[0, i64::MAX]`, as `random_()` of an int64 tensor.
///
/// ```
/// use torsh_core::random::{Generator, fill_random_i64};
/// let mut out = [0; 2];
/// fill_random_i64(&Generator::new(0), &mut out);
/// assert_eq!(out, [900450186894289455, 3969543146641149120]);
/// ```
pub fn fill_random_i64(generator: &Generator, out: &mut [i64]) {
    generator.with(|state| {
        let draw = |bits: u64| (bits & i64::MAX as u64) as i64;
        state.engine.map_u64(out, draw);
    });
}

/// Fills `out` uniformly over all of int64, as `random_(i64::MIN, None)`.
///
/// ```
/// use torsh_core::random::{Generator, fill_random_i64_full_range};
/// let mut out = [0; 1];
/// fill_random_i64_full_range(&Generator::new(0), &mut out);
/// assert_eq!(out[0], Generator::new(0).random64() as i64);
/// ```
pub fn fill_random_i64_full_range(generator: &Generator, out: &mut [i64]) {
    generator.with(|state| state.engine.map_u64(out, |bits| bits as i64));
}

/// Fills `out` with draws modulo `modulus`, of 64 bits each where `wide` and of 32 else: what
/// `random_()` without bounds gives in the type that the caller casts to.
///
/// | type | `modulus` | `wide` |
/// | --- | --- | --- |
/// | bool | 2 | no |
/// | u8, i8, i16, i32 | 2^8, 2^7, 2^15, 2^31 | no |
/// | f16, bf16, f32 | 2^11 + 1, 2^8 + 1, 2^24 + 1 | no |
/// | f64 | 2^53 + 1 | yes |
/// | i64 | 2^63 | yes |
///
/// ```
/// use torsh_core::random::{Generator, fill_random_modulus_i64};
/// let mut out = [0; 4];
/// fill_random_modulus_i64(&Generator::new(0), &mut out, 2, false); // For bool.
/// assert_eq!(out, [0, 1, 1, 0]);
/// ```
pub fn fill_random_modulus_i64(generator: &Generator, out: &mut [i64], modulus: u64, wide: bool) {
    generator.with(|state| {
        if wide {
            state.engine.map_u64(out, |bits| (bits % modulus) as i64);
        } else {
            let draw = |bits: u32| (u64::from(bits) % modulus) as i64;
            state.engine.map_u32(out, draw);
        }
    });
}

/// Returns a uniform permutation of `0..n`, as `torch.randperm`; empty where `n <= 0`.
///
/// ```
/// use torsh_core::random::{Generator, randperm};
/// assert_eq!(randperm(&Generator::new(0), 5), [4, 0, 1, 3, 2]);
/// assert!(randperm(&Generator::new(0), -1).is_empty());
/// ```
pub fn randperm(generator: &Generator, n: i64) -> Vec<i64> {
    generator.with(|state| {
        if n < WIDE_PERMUTATION {
            let mut out: Vec<i64> = (0..n).collect();
            for i in 0..out.len().saturating_sub(1) {
                let left = (out.len() - i) as u32;
                out.swap(i, i + (state.engine.next_u32() % left) as usize);
            }
            out
        } else {
            // The inside-out shuffle of Fisher and Yates.
            let mut out: Vec<i64> = Vec::with_capacity(n as usize);
            for i in 0..n {
                let z = (state.engine.next_u64() % (i as u64 + 1)) as usize;
                out.push(i);
                out.swap(i as usize, z);
            }
            out
        }
    })
}

/// Fills `out` with 1 of probability `p` and 0 else, as `Tensor.bernoulli_(p)`; the masks of
/// dropout are these with `1 - p`. Every type draws in double precision. The caller checks that
/// `0 <= p <= 1`.
///
/// ```
/// use torsh_core::random::{Generator, fill_bernoulli};
/// let mut out = [9; 8];
/// fill_bernoulli(&Generator::new(0), &mut out, 0.5);
/// assert_eq!(out, [0, 0, 1, 0, 0, 0, 1, 1]);
/// ```
pub fn fill_bernoulli(generator: &Generator, out: &mut [u8], p: f64) {
    let cut = Cut {
        words: 2,
        unit: 1,
        cost: 3,
    };
    generator.with(|state| {
        in_parts(&mut state.engine, out, cut, |engine, out| {
            bernoulli(engine, out, p);
        });
    });
}

crate::multiversion! {
    [crate::machine::InstructionSet]
    fn bernoulli<A>(engine: &mut Mt19937, out: &mut [u8], p: f64) {
        engine.map_u64(out, |bits| u8::from(unit_f64(bits) < p));
    }
}

/// Fills `out` with 1 of the probability at the same place and 0 else, as `torch.bernoulli` of a
/// `float32` tensor; `float16` and `bfloat16` ones are widened to it.
///
/// ```
/// use torsh_core::random::{Generator, fill_bernoulli_probs_f32};
/// let mut out = [9; 3];
/// fill_bernoulli_probs_f32(&Generator::new(0), &mut out, &[0.0, 1.0, 0.05]);
/// assert_eq!(out, [0, 1, 0]); // The third draw is 0.088.
/// ```
///
/// # Panics
/// Where the lengths differ. The caller checks the probabilities.
pub fn fill_bernoulli_probs_f32(generator: &Generator, out: &mut [u8], probs: &[f32]) {
    assert_eq!(out.len(), probs.len(), "a probability for each element");
    generator.with(|state| {
        for (o, &p) in out.iter_mut().zip(probs) {
            *o = u8::from(unit_f32(state.engine.next_u32()) < p);
        }
    });
}

/// [`fill_bernoulli_probs_f32`] of a `float64` tensor, which draws in double precision.
///
/// ```
/// use torsh_core::random::{Generator, fill_bernoulli_probs_f64};
/// let mut out = [9; 3];
/// fill_bernoulli_probs_f64(&Generator::new(0), &mut out, &[0.0, 1.0, 0.5]);
/// assert_eq!(out, [0, 1, 1]); // The third draw is 0.459.
/// ```
///
/// # Panics
/// Where the lengths differ. The caller checks the probabilities.
pub fn fill_bernoulli_probs_f64(generator: &Generator, out: &mut [u8], probs: &[f64]) {
    assert_eq!(out.len(), probs.len(), "a probability for each element");
    generator.with(|state| {
        for (o, &p) in out.iter_mut().zip(probs) {
            *o = u8::from(unit_f64(state.engine.next_u64()) < p);
        }
    });
}

macro_rules! multinomial {
    ($(#[$example:meta])+ $name:ident, $type:ty) => {
        /// Draws category indices with replacement, as `torch.multinomial(weights, samples,
        /// replacement=True)` with more than one sample.
        ///
        /// `weights` is rows of `categories` weights, `out` as many rows of samples. The caller
        /// checks that the weights are finite, none negative and no row all zero. (One sample, or
        /// any number without replacement, is the largest of `weight / exponential draw` instead.)
        ///
        $(#[$example])+
        ///
        /// # Panics
        /// Where `categories` is 0, or does not divide the weights into rows that divide `out`.
        pub fn $name(generator: &Generator, weights: &[$type], categories: usize, out: &mut [i64]) {
            let rows = weights.len() / categories;
            assert!(
                rows * categories == weights.len() && (rows == 0 || out.len() % rows == 0),
                "whole rows of weights and of samples"
            );
            if out.is_empty() || rows == 0 {
                return;
            }
            let samples = out.len() / rows;
            let mut cumulative = vec![0.0; categories];
            generator.with(|state| {
                for (row, out) in weights
                    .chunks_exact(categories)
                    .zip(out.chunks_exact_mut(samples))
                {
                    let mut sum: $type = 0.0;
                    for (c, &weight) in cumulative.iter_mut().zip(row) {
                        sum += weight;
                        *c = sum;
                    }
                    cumulative.iter_mut().for_each(|c| *c /= sum);
                    cumulative[categories - 1] = 1.0;
                    state.engine.map_u64(out, |bits| {
                        let u = unit_f64(bits);
                        cumulative.partition_point(|&c| f64::from(c) < u) as i64
                    });
                }
            });
        }
    };
}
multinomial!(
    /// ```
    /// use torsh_core::random::{Generator, fill_multinomial_with_replacement_f32};
    /// let weights = [0.0, 3.0, 1.0, 0.0]; // Two rows of two categories: one category has all the weight.
    /// let mut out = [9; 4];
    /// fill_multinomial_with_replacement_f32(&Generator::new(0), &weights, 2, &mut out);
    /// assert_eq!(out, [1, 1, 0, 0]);
    /// ```
    fill_multinomial_with_replacement_f32, f32
);
multinomial!(
    /// ```
    /// use torsh_core::random::{Generator, fill_multinomial_with_replacement_f64};
    /// let weights = [0.0, 3.0, 1.0, 0.0]; // Two rows of two categories: one category has all the weight.
    /// let mut out = [9; 4];
    /// fill_multinomial_with_replacement_f64(&Generator::new(0), &weights, 2, &mut out);
    /// assert_eq!(out, [1, 1, 0, 0]);
    /// ```
    fill_multinomial_with_replacement_f64, f64
);
