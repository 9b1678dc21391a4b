//! SentencePiece's table of normal forms: a trie of what is replaced, as a double array, and the texts in its place.
//! The library that walks it trusts its numbers; here they are checked.

/// Standard base64, as `tokenizer.json` holds the table.
pub(super) fn encode_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let mut word = [0u8; 3];
        word[..three.len()].copy_from_slice(three);
        let word = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for i in 0..4 {
            match i <= three.len() {
                true => out.push(char::from(ALPHABET[(word >> (18 - 6 * i)) as usize & 63])),
                false => out.push('='),
            }
        }
    }
    out
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for four in text.chunks(4) {
        if four.len() == 1 {
            return None;
        }
        let mut word = 0u32;
        for (i, c) in four.iter().enumerate() {
            let digit = match c {
                b'A'..=b'Z' => c - b'A',
                b'a'..=b'z' => c - b'a' + 26,
                b'0'..=b'9' => c - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word |= u32::from(digit) << (18 - 6 * i);
        }
        out.extend_from_slice(&word.to_be_bytes()[1..four.len()]);
    }
    Some(out)
}

pub(super) fn check_base64(text: &str) -> Result<(), String> {
    let bytes = decode_base64(text).ok_or("it is not base64")?;
    check(&bytes)
}

/// Checks a table: every step that a text can take in the trie stays in the array, and every end is the beginning of a
/// text.
pub(super) fn check(table: &[u8]) -> Result<(), String> {
    let (size, rest) = table.split_first_chunk::<4>().ok_or("it has no size")?;
    let size = u32::from_le_bytes(*size) as usize / 4 * 4;
    let array = rest.get(..size).ok_or_else(|| {
        format!(
            "the trie has {size} bytes by its size, and there are {}",
            rest.len()
        )
    })?;
    let texts = std::str::from_utf8(&rest[size..]).map_err(|_| "its texts are not UTF-8")?;
    let array: Vec<u32> = array
        .chunks_exact(4)
        .map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]))
        .collect();
    let root = array.first().ok_or("the trie is empty")?;
    let outside = || "the trie leaves its array".to_string();
    let mut seen = vec![false; array.len()];
    let mut open = vec![offset(*root)];
    while let Some(node) = open.pop() {
        // Every byte is tried at the node, so a whole block of the array belongs to it.
        if node | 0xff >= array.len() {
            return Err(outside());
        }
        if std::mem::replace(&mut seen[node], true) {
            continue;
        }
        for byte in 1..=0xff {
            let unit = array[node ^ byte];
            if unit & (1 << 31 | 0xff) != byte as u32 {
                continue;
            }
            let next = node ^ byte ^ offset(unit);
            if unit >> 8 & 1 == 1 {
                let value = *array.get(next).ok_or_else(outside)? as usize & 0x7fff_ffff;
                if !texts.is_char_boundary(value) {
                    return Err(format!("no text begins at {value}"));
                }
            }
            open.push(next);
        }
    }
    Ok(())
}

fn offset(unit: u32) -> usize {
    let unit = unit as usize;
    (unit >> 10) << ((unit & 1 << 9) >> 6)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A table that replaces `A` by `aa`.
    pub(in crate::tokenizers) fn table() -> Vec<u8> {
        let mut array = vec![0u32; 768];
        // The root's children are in the second block, the one child's in the third.
        array[0] = 256 << 10;
        let at = 256 ^ usize::from(b'A');
        array[at] = ((at ^ 512) as u32) << 10 | 1 << 8 | u32::from(b'A');
        array[512] = 1 << 31;
        let mut out = (array.len() as u32 * 4).to_le_bytes().to_vec();
        out.extend(array.iter().flat_map(|unit| unit.to_le_bytes()));
        out.extend(b"aa\0");
        out
    }

    #[test]
    fn base64_is_the_standard_one() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"\xff\xee\xdd\xcc", "/+7dzA=="),
        ] {
            assert_eq!(encode_base64(bytes), text);
            assert_eq!(decode_base64(text).as_deref(), Some(bytes));
        }
        assert_eq!(decode_base64("Zg=a"), None);
        assert_eq!(decode_base64("Z"), None);
    }

    #[test]
    fn a_table_is_followed_to_its_ends() {
        let good = table();
        assert_eq!(check(&good), Ok(()));
        for end in 0..good.len() - 3 {
            assert!(check(&good[..end]).is_err(), "{end}");
        }
        // An end in the middle of nowhere.
        let mut wrong = good.clone();
        wrong[4 + 512 * 4] = 77;
        assert!(check(&wrong).is_err_and(|e| e.contains("77")));
        // A node outside.
        let mut wrong = good;
        wrong[4..8].copy_from_slice(&(4096u32 << 10).to_le_bytes());
        assert!(check(&wrong).is_err_and(|e| e.contains("leaves")));
    }
}
