//! Sets of places that are taken in order.

use std::mem::take;

/// A set of places below a bound: a bit for each, a bit for each word of these, and so on.
pub(super) struct Marks {
    words: Vec<u64>,
    /// A bit for each word of the level below that is not 0; the last level is one word.
    upper: Vec<Vec<u64>>,
}

impl Marks {
    pub(super) fn new(bound: usize) -> Marks {
        let mut n = bound.div_ceil(64);
        let (words, mut upper) = (vec![0; n], Vec::new());
        while n > 1 {
            n = n.div_ceil(64);
            upper.push(vec![0; n]);
        }
        Marks { words, upper }
    }

    /// Adds a place below the bound.
    #[inline(always)]
    pub(super) fn set(&mut self, at: usize) {
        // No branch on whether the lowest word is empty: in a row of few places half of them are.
        self.words[at / 64] |= 1 << (at % 64);
        let mut at = at / 64;
        for level in &mut self.upper {
            let word = &mut level[at / 64];
            let before = *word;
            *word |= 1 << (at % 64);
            if before != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// Calls `f` with each place in order, and leaves none.
    #[inline(always)]
    pub(super) fn take(&mut self, mut f: impl FnMut(usize)) {
        match self.upper.len().checked_sub(1) {
            Some(top) => take_below(&mut self.upper, &mut self.words, top, 0, &mut f),
            None => self.words.iter_mut().for_each(|w| take_of(w, 0, &mut f)),
        }
    }
}

/// The places of word `at` of the lowest level.
#[inline(always)]
fn take_of(word: &mut u64, at: usize, f: &mut impl FnMut(usize)) {
    let mut left = take(word);
    while left != 0 {
        f(at * 64 + left.trailing_zeros() as usize);
        left &= left - 1;
    }
}

/// The places below word `at` of a level.
fn take_below(
    upper: &mut [Vec<u64>],
    words: &mut [u64],
    level: usize,
    at: usize,
    f: &mut impl FnMut(usize),
) {
    let mut left = take(&mut upper[level][at]);
    while left != 0 {
        let place = at * 64 + left.trailing_zeros() as usize;
        left &= left - 1;
        match level {
            0 => take_of(&mut words[place], place, f),
            _ => take_below(upper, words, level - 1, place, f),
        }
    }
}
