//! The 32-bit Mersenne Twister of Matsumoto and Nishimura (1998), with PyTorch's seeding.

pub(super) const N: usize = 624;
const M: usize = 397;
const MATRIX_A: u32 = 0x9908_b0df;
const UPPER_MASK: u32 = 0x8000_0000;
const LOWER_MASK: u32 = 0x7fff_ffff;

/// PyTorch's CPU engine: MT19937 seeded by the 2002 initialisation from the seed's low 32 bits.
///
/// The state advances lazily, a block of 624 words when the first word of it is asked for, which
/// is what `torch.get_rng_state()` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Mt19937 {
    seed: u64,
    /// Words left of the block, plus one (PyTorch's count; 1 asks for a new block).
    left: u32,
    /// Index of the next word in `words`.
    next: u32,
    words: [u32; N],
}

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
    /// An engine seeded with `seed`, of which all 64 bits are remembered and 32 are used.
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
            words,
        }
    }

    /// The seed the engine was made with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The raw state: seed, words left plus one, index of the next word, and the 624 words.
    pub(super) fn parts(&self) -> (u64, u32, u32, &[u32; N]) {
        (self.seed, self.left, self.next, &self.words)
    }

    /// An engine from its raw state; `None` where the counters are out of range.
    pub(super) fn from_parts(seed: u64, left: u32, next: u32, words: [u32; N]) -> Option<Self> {
        let in_range = (1..=N as u32).contains(&left) && next <= N as u32;
        // A state that would read past its block is refused too; PyTorch never writes one.
        (in_range && next + left - 1 <= N as u32).then_some(Self {
            seed,
            left,
            next,
            words,
        })
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.left == 1 {
            self.regenerate();
        }
        let word = self.words[self.next as usize];
        self.next += 1;
        self.left -= 1;
        temper(word)
    }

    /// The next 64 bits: two words, the high one first.
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
        &self.words[start..start + count]
    }

    /// Advances the whole state by 624 words.
    fn regenerate(&mut self) {
        let w = &mut self.words;
        for i in 0..N - M {
            w[i] = w[i + M] ^ twist(w[i], w[i + 1]);
        }
        for i in N - M..N - 1 {
            w[i] = w[i + M - N] ^ twist(w[i], w[i + 1]);
        }
        w[N - 1] = w[M - 1] ^ twist(w[N - 1], w[0]);
        self.left = N as u32 + 1;
        self.next = 0;
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
