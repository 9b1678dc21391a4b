//! The 32-bit Mersenne Twister of Matsumoto and Nishimura (1998), with PyTorch's seeding.

pub(super) const N: usize = 624;
const M: usize = 397;
/// Blocks kept; the last is moved to the front when all are used up.
const BLOCKS: usize = 4;
/// A third of a block, less than `N - M`.
const BLOCK: usize = N / 3;
const MATRIX_A: u32 = 0x9908_b0df;
const UPPER_MASK: u32 = 0x8000_0000;
const LOWER_MASK: u32 = 0x7fff_ffff;

/// PyTorch's CPU engine: MT19937 seeded by the 2002 initialisation from the seed's low 32 bits.
///
/// The state advances lazily, a block of 624 words when the first word of it is asked for, which
/// is what `torch.get_rng_state()` shows.
///
/// ```
/// use torsh_core::random::Mt19937;
/// let mut engine = Mt19937::new(0);
/// assert_eq!([engine.next_u32(), engine.next_u32(), engine.next_u32()], [2357136044, 2546248239, 3071714933]);
/// ```
#[derive(Clone)]
pub struct Mt19937 {
    seed: u64,
    /// Words left of the block, plus one (PyTorch's count; 1 asks for a new block).
    left: u32,
    /// Index of the next word in the block.
    next: u32,
    words: Words,
}

/// The block and some of those before it, so that each word is made of others at the same distances.
/// On whole cache lines: vectors that were just written are read as they were written, which need
/// not wait for the cache.
#[derive(Clone)]
#[repr(C, align(64))]
struct Words {
    blocks: [u32; BLOCKS * N],
    /// Where the block begins.
    at: usize,
}

impl Words {
    fn new(block: &[u32; N]) -> Words {
        let mut blocks = [0; BLOCKS * N];
        blocks[..N].copy_from_slice(block);
        Words { blocks, at: 0 }
    }

    #[inline(always)]
    fn block(&self) -> &[u32] {
        &self.blocks[self.at..self.at + N]
    }
}

impl PartialEq for Mt19937 {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Mt19937 {}

impl std::fmt::Debug for Mt19937 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mt19937")
            .field("seed", &self.seed)
            .field("left", &self.left)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Mt19937 {
    /// Returns an engine seeded with `seed`, of which all 64 bits are remembered and 32 are used.
    ///
    /// ```
    /// use torsh_core::random::Mt19937;
    /// assert_eq!(Mt19937::new(1 << 32).next_u32(), Mt19937::new(0).next_u32()); // The low 32 bits count.
    /// ```
    pub fn new(seed: u64) -> Self {
        let mut words = [0u32; N];
        words[0] = seed as u32;
        for j in 1..N {
            let previous = words[j - 1];
            words[j] = (previous ^ (previous >> 30))
                .wrapping_mul(1_812_433_253)
                .wrapping_add(j as u32);
        }
        Self {
            seed,
            left: 1,
            next: 0,
            words: Words::new(&words),
        }
    }

    /// Returns the seed that the engine was made with.
    ///
    /// ```
    /// use torsh_core::random::Mt19937;
    /// assert_eq!(Mt19937::new(1 << 32).seed(), 1 << 32);
    /// ```
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The raw state: seed, words left plus one, index of the next word, and the 624 words.
    pub(super) fn parts(&self) -> (u64, u32, u32, &[u32]) {
        (self.seed, self.left, self.next, self.words.block())
    }

    /// An engine from its raw state; `None` where the counters are out of range.
    pub(super) fn from_parts(seed: u64, left: u32, next: u32, words: [u32; N]) -> Option<Self> {
        let in_range = (1..=N as u32).contains(&left) && next <= N as u32;
        // A state that would read past its block is refused too; PyTorch never writes one.
        (in_range && next + left - 1 <= N as u32).then_some(Self {
            seed,
            left,
            next,
            words: Words::new(&words),
        })
    }

    /// Draws the next 32 bits.
    ///
    /// ```
    /// use torsh_core::random::Mt19937;
    /// assert_eq!(Mt19937::new(5489).next_u32(), 3499211612);
    /// ```
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.left == 1 {
            self.regenerate();
        }
        let word = self.words.block()[self.next as usize];
        self.next += 1;
        self.left -= 1;
        temper(word)
    }

    /// Draws the next 64 bits: two words, the high one first.
    ///
    /// ```
    /// use torsh_core::random::Mt19937;
    /// assert_eq!(Mt19937::new(0).next_u64(), 2357136044 << 32 | 2546248239);
    /// ```
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let high = self.next_u32();
        join(high, self.next_u32())
    }

    /// Maps one word to each element of `out`.
    #[inline(always)]
    pub(super) fn map_u32<T>(&mut self, out: &mut [T], f: impl Fn(u32) -> T) {
        let mut rest = out;
        while !rest.is_empty() {
            let count = self.available().min(rest.len());
            let (now, later) = rest.split_at_mut(count);
            for (o, &word) in now.iter_mut().zip(self.take(count)) {
                *o = f(temper(word));
            }
            rest = later;
        }
    }

    /// Maps two words, joined high first, to each element of `out`.
    #[inline(always)]
    pub(super) fn map_u64<T>(&mut self, out: &mut [T], f: impl Fn(u64) -> T) {
        let mut rest = out;
        while !rest.is_empty() {
            let count = (self.available() / 2).min(rest.len());
            if count == 0 {
                // The pair straddles two blocks.
                rest[0] = f(self.next_u64());
                rest = &mut rest[1..];
                continue;
            }
            let (now, later) = rest.split_at_mut(count);
            for (o, pair) in now.iter_mut().zip(self.take(2 * count).chunks_exact(2)) {
                *o = f(join(temper(pair[0]), temper(pair[1])));
            }
            rest = later;
        }
    }

    /// How many words are ready, after making a new block if none is.
    #[inline(always)]
    fn available(&mut self) -> usize {
        if self.left == 1 {
            self.regenerate();
        }
        self.left as usize - 1
    }

    /// The next `count` untempered words, at most `available()`.
    #[inline(always)]
    fn take(&mut self, count: usize) -> &[u32] {
        let start = self.next as usize;
        self.next += count as u32;
        self.left -= count as u32;
        &self.words.block()[start..start + count]
    }

    /// Passes over `count` words.
    pub(super) fn skip(&mut self, mut count: usize) {
        while count > 0 {
            let ready = self.available().min(count);
            self.take(ready);
            count -= ready;
        }
    }

    /// Advances the whole state by 624 words.
    fn regenerate(&mut self) {
        new_block(&mut self.words);
        self.left = N as u32 + 1;
        self.next = 0;
    }
}

/// Goes on to the next block.
fn new_block(words: &mut Words) {
    if words.at + N == BLOCKS * N {
        words.blocks.copy_within((BLOCKS - 1) * N.., 0);
        words.at = 0;
    }
    #[cfg(target_arch = "x86_64")]
    if crate::machine::level() == crate::machine::Level::Avx512 {
        // SAFETY: the processor has the instructions, and two blocks begin where this one does.
        unsafe { append_avx512(words.blocks.as_mut_ptr().add(words.at)) };
        words.at += N;
        return;
    }
    append(words);
    words.at += N;
}

crate::multiversion! {
    [crate::machine::InstructionSet]
    /// Writes the next block behind the block.
    fn append<A>(words: &mut Words) {
        // In stretches whose words do not depend on one another.
        for start in (0..N).step_by(BLOCK) {
            let start = words.at + start;
            let (old, new) = words.blocks.split_at_mut(start + N);
            let (old, new) = (&old[start..], &mut new[..BLOCK]);
            for i in 0..BLOCK {
                new[i] = old[i + M] ^ twist(old[i], old[i + 1]);
            }
        }
    }
}

/// [`append`] by whole vectors that are shifted in registers, since what was just written is read
/// at once only as it was written, and waits for the cache otherwise.
///
/// # Safety
/// `block` must be valid for `2 * N` words.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn append_avx512(block: *mut u32) {
    use std::arch::x86_64::*;
    /// Words of a vector.
    const W: usize = 16;
    let upper = _mm512_set1_epi32(UPPER_MASK as i32);
    let (one, matrix) = (_mm512_set1_epi32(1), _mm512_set1_epi32(MATRIX_A as i32));
    // SAFETY: reads end at word `N - W + M / W * W + 2 * W`, writes at `2 * N`.
    unsafe {
        let load = |i: usize| _mm512_loadu_si512(block.add(i).cast());
        let (mut u, mut far) = (load(0), load(M / W * W));
        for i in (0..N).step_by(W) {
            let (next, next_far) = (load(i + W), load(i + M / W * W + W));
            let v = _mm512_alignr_epi32::<1>(next, u);
            let m = _mm512_alignr_epi32::<{ (M % W) as i32 }>(next_far, far);
            // The bits of `u` where `upper` has ones, those of `v` elsewhere.
            let mixed = _mm512_ternarylogic_epi32::<0xca>(upper, u, v);
            let odd = _mm512_maskz_mov_epi32(_mm512_test_epi32_mask(v, one), matrix);
            // All three added modulo 2.
            let new = _mm512_ternarylogic_epi32::<0x96>(_mm512_srli_epi32::<1>(mixed), odd, m);
            _mm512_storeu_si512(block.add(N + i).cast(), new);
            (u, far) = (next, next_far);
        }
    }
}

#[inline(always)]
fn twist(u: u32, v: u32) -> u32 {
    let mixed = (u & UPPER_MASK) | (v & LOWER_MASK);
    (mixed >> 1) ^ ((v & 1).wrapping_neg() & MATRIX_A)
}

#[inline(always)]
fn temper(mut y: u32) -> u32 {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c_5680;
    y ^= (y << 15) & 0xefc6_0000;
    y ^ (y >> 18)
}

#[inline(always)]
fn join(high: u32, low: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}
