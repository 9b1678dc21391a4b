//! Changes of bytes.

/// xorshift64*
pub struct Random(u64);

impl Random {
    /// Numbers that these decide.
    pub fn new(seed: [u64; 4]) -> Random {
        let mix = |state: u64, n: &u64| {
            (state ^ n)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        };
        let mut random = Random(seed.iter().fold(0x2545_f491, mix) | 1);
        random.next();
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n.max(1)
    }
}

/// What texts in JSON are wrong with.
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

/// Changes bytes, here and there with parts of others or with words.
pub fn change(bytes: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut Random) {
    // Numbers that lengths and offsets are wrong with.
    const EDGES: [u64; 8] = [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];
    for _ in 0..1 + random.below(6) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(10) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => {
                let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
                let n = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                bytes[at..at + n].copy_from_slice(&edge[..n]);
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
            // Digits: sizes in texts.
            7 => {
                if let Some(i) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    bytes[at + i] = b'0' + random.below(10) as u8;
                }
            }
            // A number or a word becomes another one.
            8 if !words.is_empty() => {
                let word = words[random.below(words.len())];
                let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
                let begin = bytes[at..].iter().position(is_part).map_or(at, |i| at + i);
                let end = bytes[begin..].iter().position(|b| !is_part(b));
                let end = end.map_or(bytes.len(), |i| begin + i);
                bytes.splice(begin..end, word.bytes());
            }
            _ if !words.is_empty() => {
                let word = words[random.below(words.len())];
                bytes.splice(at..at, word.bytes());
            }
            _ => bytes[at] = bytes[at].wrapping_add(1),
        }
    }
}
