//! Random numbers and changes of bytes.

/// Random numbers that a seed decides (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: &[u64]) -> Random {
        let mix = |state: u64, n: &u64| {
            (state ^ n)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        let mut random = Random(seed.iter().fold(0x2545_f491, mix) | 1);
        random.number();
        random
    }

    /// The numbers of a file.
    pub fn of(bytes: &[u8]) -> Random {
        Random::new(&[hash(bytes)])
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number from 0 to `n - 1`, and 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.number() >> 16) as usize % n.max(1)
    }

    /// True in half of the cases.
    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// One of several.
    ///
    /// # Panics
    /// There are none.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// FNV-1a.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Words for files of JSON.
pub const JSON: &[&str] = &[
    "null",
    "true",
    "-1",
    "0",
    "1e400",
    "-0.5",
    "{}",
    "[]",
    "[[[[[[[[",
    "\"\"",
    "4294967296",
    "9223372036854775808",
    "99999999999999999999",
    "\\ud800",
    "\\u0000",
    "1e-320",
    "4096",
    "2147483648",
    ",",
    ":",
    "\"type\"",
];

/// Numbers that lengths and offsets are wrong with.
const EDGES: [u64; 9] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 60,
    u64::MAX,
];

/// What counts as the header of a file.
const HEADER: usize = 64;

/// Changes bytes in one to six places: bits, bytes, numbers, lengths, digits, parts of another file, words. With `header`
/// half of the places are in the first 64 bytes.
pub fn change(
    bytes: &mut Vec<u8>,
    other: &[u8],
    words: &[&str],
    header: bool,
    random: &mut Random,
) {
    for _ in 0..1 + random.below(6) {
        if bytes.is_empty() {
            return;
        }
        let reach = match header && random.coin() {
            true => bytes.len().min(HEADER),
            false => bytes.len(),
        };
        let at = random.below(reach);
        match random.below(10) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.number() as u8,
            2 => {
                let edge = *random.one(&EDGES);
                let n = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                match random.coin() {
                    true => bytes[at..at + n].copy_from_slice(&edge.to_le_bytes()[..n]),
                    false => bytes[at..at + n].copy_from_slice(&edge.to_be_bytes()[8 - n..]),
                }
            }
            3 => bytes.truncate(at),
            4 => {
                let n = random.below(64).min(bytes.len() - at);
                bytes.drain(at..at + n);
            }
            5 => {
                let n = random.below(64).min(bytes.len() - at);
                let part = bytes[at..at + n].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, part);
            }
            6 => {
                let from = random.below(other.len());
                let n = random.below(256).min(other.len() - from);
                bytes.splice(at..at, other[from..from + n].iter().copied());
            }
            // Sizes in texts.
            7 => {
                if let Some(i) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    bytes[at + i] = b'0' + random.below(10) as u8;
                }
            }
            // A number or a word becomes another one.
            8 if !words.is_empty() => {
                let word = random.one(words);
                let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
                let begin = bytes[at..].iter().position(is_part).map_or(at, |i| at + i);
                let end = bytes[begin..].iter().position(|b| !is_part(b));
                let end = end.map_or(bytes.len(), |i| begin + i);
                bytes.splice(begin..end, word.bytes());
            }
            _ if !words.is_empty() => {
                let word = random.one(words);
                bytes.splice(at..at, word.bytes());
            }
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(seed: u64, words: &[&str], header: bool) -> Vec<u8> {
        let mut bytes = vec![b'.'; 1000];
        let mut random = Random::new(&[seed]);
        change(&mut bytes, &[b'o'; 300], words, header, &mut random);
        bytes
    }

    #[test]
    fn a_seed_decides_the_numbers() {
        let numbers = |seed: &[u64]| {
            let mut random = Random::new(seed);
            [random.number(), random.number()]
        };
        assert_eq!(numbers(&[1, 2]), numbers(&[1, 2]));
        assert_ne!(numbers(&[1, 2]), numbers(&[2, 1]));
        assert_eq!(Random::of(b"ab").number(), Random::of(b"ab").number());
        assert_ne!(Random::of(b"ab").number(), Random::of(b"ba").number());
        let mut random = Random::new(&[3]);
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[random.below(5)] += 1);
        assert!(seen.iter().all(|n| (150..250).contains(n)), "{seen:?}");
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn changes_have_all_kinds() {
        let all: Vec<Vec<u8>> = (0..4000)
            .map(|seed| changed(seed, &["WORD"], false))
            .collect();
        assert_eq!(all[7], changed(7, &["WORD"], false));
        let some = |f: &dyn Fn(&Vec<u8>) -> bool| all.iter().any(f);
        assert!(some(&|b| b.windows(4).any(|w| w == b"WORD")));
        assert!(some(&|b| b.windows(9).any(|w| w == b"ooooooooo")));
        assert!(some(&|b| b.len() < 900));
        // 1 << 60 in both orders of bytes.
        assert!(some(&|b| b
            .windows(8)
            .any(|w| w == [0, 0, 0, 0, 0, 0, 0, 16])));
        assert!(some(&|b| b
            .windows(8)
            .any(|w| w == [16, 0, 0, 0, 0, 0, 0, 0])));
        change(&mut Vec::new(), b"x", &[], false, &mut Random::new(&[1]));
    }

    #[test]
    fn half_of_the_changes_are_in_the_header() {
        let early = |header: bool| {
            (0..1000)
                .filter(|seed| {
                    let bytes = changed(*seed, &[], header);
                    bytes.iter().take(64).any(|b| *b != b'.') || bytes.len() < 64
                })
                .count()
        };
        let (with, without) = (early(true), early(false));
        assert!(with > 500 && without < 400, "{with}, {without}");
    }
}
