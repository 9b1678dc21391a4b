//! From tokens to text.

use std::collections::{HashMap, VecDeque};

use torsh_tensor::{Result, TorshError};

use crate::tokenizers::Tokenizer;

/// What makes a text of tokens: a tokenizer.
///
/// ```
/// use torsh_text::generation::TokenText;
/// struct Letters;
/// impl TokenText for Letters {
///     fn decode(&self, ids: &[u32]) -> torsh_tensor::Result<String> {
///         Ok(ids.iter().filter_map(|&id| char::from_digit(id, 36)).collect())
///     }
/// }
/// assert_eq!(Letters.decode(&[10, 11])?, "ab");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub trait TokenText: Sync {
    /// The text of tokens, without special ones. A part of a character becomes U+FFFD.
    ///
    /// # Errors
    /// A token that is not in the vocabulary.
    fn decode(&self, ids: &[u32]) -> Result<String>;

    /// A token as its vocabulary writes it, such as `Ġthe` or `<0x0A>`. It says which bytes a token stands for that is
    /// only a part of a character.
    fn token(&self, id: u32) -> Option<String> {
        let _ = id;
        None
    }
}

impl TokenText for Tokenizer {
    #[torsh_tensor::names_caller]
    fn decode(&self, ids: &[u32]) -> Result<String> {
        Tokenizer::decode(self, ids, true)
    }

    fn token(&self, id: u32) -> Option<String> {
        self.id_to_token(id)
    }
}

/// [`TokenText::decode`] of a row of ids.
pub(super) fn decode_ids(text: &dyn TokenText, ids: &[i64]) -> Result<String> {
    let wrong = |id: &i64| TorshError::index("decode", format!("{id} is no token"));
    let ids = ids
        .iter()
        .map(|id| u32::try_from(*id).map_err(|_| wrong(id)));
    text.decode(&ids.collect::<Result<Vec<_>>>()?)
}

/// So many tokens may belong to one character.
const PENDING: usize = 8;

/// Text out of tokens that come one by one: pieces that never split a character.
///
/// ```
/// use torsh_text::generation::{TextPieces, TokenText};
/// struct Bytes;
/// impl TokenText for Bytes {
///     fn decode(&self, ids: &[u32]) -> torsh_tensor::Result<String> {
///         let bytes: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
///         Ok(String::from_utf8_lossy(&bytes).into_owned())
///     }
/// }
/// let mut pieces = TextPieces::new(&Bytes);
/// assert_eq!(pieces.push(b'a'.into())?, Some("a".to_string()));
/// // The two bytes of one character.
/// assert_eq!(pieces.push(0xc3)?, None);
/// assert_eq!(pieces.push(0xa9)?, Some("é".to_string()));
/// assert_eq!(pieces.finish()?, None);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct TextPieces<'a> {
    text: &'a dyn TokenText,
    /// The tokens of the last piece, which decide about spaces, and those after them.
    ids: Vec<u32>,
    /// How many of `ids` belong to pieces that were given.
    read: usize,
}

impl<'a> TextPieces<'a> {
    /// No tokens yet.
    pub fn new(text: &'a dyn TokenText) -> TextPieces<'a> {
        TextPieces {
            text,
            ids: Vec::new(),
            read: 0,
        }
    }

    /// The text that a further token completes, if any.
    ///
    /// # Errors
    /// As [`TokenText::decode`].
    #[torsh_tensor::names_caller]
    pub fn push(&mut self, id: i64) -> Result<Option<String>> {
        let id = u32::try_from(id)
            .map_err(|_| TorshError::index("decode", format!("{id} is no token")))?;
        self.ids.push(id);
        let text = self.text.decode(&self.ids)?;
        if text.ends_with('\u{fffd}') {
            return match self.ids.len() - self.read > PENDING {
                true => self.broken(&text),
                false => Ok(None),
            };
        }
        self.give(&text, self.ids.len())
    }

    /// The new part of `text`, which the first `end` of the ids make.
    fn give(&mut self, text: &str, end: usize) -> Result<Option<String>> {
        let old = self.text.decode(&self.ids[..self.read])?;
        let piece = new_text(&old, text);
        if piece.is_empty() {
            return Ok(None);
        }
        let piece = piece.to_string();
        self.ids.drain(..self.read);
        self.read = end - self.read;
        Ok(Some(piece))
    }

    /// Bytes that make no character are given too, where a cut among them splits none.
    fn broken(&mut self, text: &str) -> Result<Option<String>> {
        let len = self.ids.len();
        for end in (self.read + 1..len).rev().take(4) {
            let before = self.text.decode(&self.ids[..end])?;
            if format!("{before}{}", self.text.decode(&self.ids[end..])?) == text {
                return self.give(&before, end);
            }
        }
        Ok(None)
    }

    /// What is left: parts of characters that were never completed.
    ///
    /// # Errors
    /// As [`TokenText::decode`].
    #[torsh_tensor::names_caller]
    pub fn finish(&mut self) -> Result<Option<String>> {
        let text = self.text.decode(&self.ids)?;
        let old = self.text.decode(&self.ids[..self.read])?;
        let piece = new_text(&old, &text).to_string();
        self.read = self.ids.len();
        Ok((!piece.is_empty()).then_some(piece))
    }
}

/// What `text` has behind its common beginning with `old`.
fn new_text<'t>(old: &str, text: &'t str) -> &'t str {
    let common = old.chars().zip(text.chars()).take_while(|(a, b)| a == b);
    &text[common.map(|(a, _)| a.len_utf8()).sum()..]
}

/// The bytes that each token of a vocabulary adds to a text.
///
/// ```
/// use torsh_text::generation::Vocabulary;
/// let vocabulary = Vocabulary::new([Some("a"), Some(" b"), None]);
/// assert_eq!(vocabulary.bytes(1), Some(&b" b"[..]));
/// assert_eq!((vocabulary.bytes(2), vocabulary.len()), (None, 3));
/// ```
#[derive(Clone, Debug)]
pub struct Vocabulary {
    tokens: Vec<Option<Vec<u8>>>,
}

impl Vocabulary {
    /// From the bytes of the tokens; special tokens have none.
    pub fn new<T: AsRef<[u8]>>(tokens: impl IntoIterator<Item = Option<T>>) -> Vocabulary {
        let tokens = tokens.into_iter();
        let bytes = tokens.map(|t| t.map(|t| t.as_ref().to_vec()).filter(|t| !t.is_empty()));
        Vocabulary {
            tokens: bytes.collect(),
        }
    }

    /// From a tokenizer, for a model whose vocabulary has `size` tokens.
    ///
    /// # Errors
    /// No token at all has a text.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_text(text: &dyn TokenText, size: usize) -> Result<Vocabulary> {
        // Decoders drop a space at the very beginning, so tokens are decoded behind another one.
        let plain = |id: &u32| {
            text.decode(&[*id])
                .is_ok_and(|t| t.trim() == t && !t.is_empty() && !t.contains('\u{fffd}'))
        };
        let all = 0..u32::try_from(size).unwrap_or(u32::MAX);
        let Some(anchor) = all.clone().find(plain) else {
            return Err(TorshError::invalid(
                "Vocabulary",
                format!("none of {size} tokens has a text"),
            ));
        };
        let before = text.decode(&[anchor])?;
        let bytes = |id: u32| -> Option<Vec<u8>> {
            let token = text.token(id);
            if let Some(byte) = token.as_deref().and_then(byte_token) {
                return Some(vec![byte]);
            }
            let both = text.decode(&[anchor, id]).ok()?;
            let added = both.strip_prefix(&before)?;
            match added.contains('\u{fffd}') {
                true => byte_level(token.as_deref()?),
                false => Some(added.as_bytes().to_vec()),
            }
        };
        Ok(Vocabulary::new(all.map(bytes)))
    }

    /// The bytes of a token; special tokens have none.
    pub fn bytes(&self, id: usize) -> Option<&[u8]> {
        self.tokens.get(id)?.as_deref()
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let all = self.tokens.iter().enumerate();
        all.filter_map(|(id, bytes)| Some((id, bytes.as_deref()?)))
    }
}

/// The byte of a token like `<0x0A>`.
fn byte_token(token: &str) -> Option<u8> {
    let hex = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (hex.len() == 2).then(|| u8::from_str_radix(hex, 16).ok())?
}

/// The bytes of a token in the alphabet of GPT-2, in which every byte is a printable character.
fn byte_level(token: &str) -> Option<Vec<u8>> {
    let printable = |b: &u8| matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut others: VecDeque<u8> = (0..=255u8).filter(|b| !printable(b)).collect();
    let mut alphabet: HashMap<char, u8> = (0..=255u8)
        .filter(printable)
        .map(|b| (char::from(b), b))
        .collect();
    for code in 256u32.. {
        let Some(byte) = others.pop_front() else {
            break;
        };
        alphabet.insert(char::from_u32(code)?, byte);
    }
    token.chars().map(|c| alphabet.get(&c).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes as tokens, as a byte-level tokenizer has them.
    struct Bytes;

    impl TokenText for Bytes {
        fn decode(&self, ids: &[u32]) -> Result<String> {
            let bytes: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }

        fn token(&self, id: u32) -> Option<String> {
            match id {
                0x0a => Some("<0x0A>".into()),
                0x20 => Some("Ġ".into()),
                0xc3 => Some("Ã".into()),
                _ => None,
            }
        }
    }

    /// Words with spaces between them, none at the beginning.
    struct Words;

    impl TokenText for Words {
        fn decode(&self, ids: &[u32]) -> Result<String> {
            let words = ids.iter().map(|&id| ["one", "two", ""][id as usize]);
            Ok(words
                .filter(|w| !w.is_empty())
                .collect::<Vec<_>>()
                .join(" "))
        }
    }

    #[test]
    fn pieces_add_up_to_the_text() -> Result<()> {
        for text in ["aé€😀z", "\u{fffd}x", "é\u{301}"] {
            let mut pieces = TextPieces::new(&Bytes);
            let mut all = String::new();
            for byte in text.bytes() {
                all.extend(pieces.push(byte.into())?);
            }
            all.extend(pieces.finish()?);
            assert_eq!(all, text);
        }
        // What never becomes a character comes at the end.
        let mut pieces = TextPieces::new(&Bytes);
        assert_eq!(pieces.push(0xc3)?, None);
        assert_eq!(pieces.finish()?, Some("\u{fffd}".into()));
        assert_eq!(pieces.finish()?, None);
        assert!(pieces.push(-1).is_err());
        Ok(())
    }

    #[test]
    fn bytes_without_characters_are_not_kept_for_ever() -> Result<()> {
        let mut pieces = TextPieces::new(&Bytes);
        let mut all = String::new();
        for _ in 0..1000 {
            all.extend(pieces.push(0x80)?);
            assert!(pieces.ids.len() < 3 * PENDING);
        }
        all.extend(pieces.push(b'x'.into())?);
        assert_eq!(all.chars().count(), 1001);
        Ok(())
    }

    #[test]
    fn spaces_belong_to_the_next_piece() -> Result<()> {
        let mut pieces = TextPieces::new(&Words);
        let all: Result<Vec<_>> = [0, 1, 2, 1].iter().map(|&id| pieces.push(id)).collect();
        let wanted = [Some("one"), Some(" two"), None, Some(" two")];
        assert_eq!(all?, wanted.map(|p| p.map(String::from)));
        Ok(())
    }

    #[test]
    fn tokens_have_the_bytes_that_they_add() -> Result<()> {
        let words = Vocabulary::from_text(&Words, 3)?;
        assert_eq!(
            (words.bytes(0), words.bytes(1)),
            (Some(&b" one"[..]), Some(&b" two"[..]))
        );
        assert_eq!((words.bytes(2), words.bytes(3)), (None, None));
        let bytes = Vocabulary::from_text(&Bytes, 256)?;
        for id in [b'a', 0x0a, 0x20, 0xc3] {
            assert_eq!(bytes.bytes(id.into()), Some(&[id][..]));
        }
        // Part of a character, and its token is not known.
        assert_eq!(bytes.bytes(0xa9), None);
        assert_eq!(byte_level("Ġthe"), Some(b" the".to_vec()));
        assert_eq!(byte_token("<0xFG>"), None);
        Ok(())
    }
}
