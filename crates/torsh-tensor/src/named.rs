//! Arguments that are strings in PyTorch: enums that are made of their words too.
//!
//! A setter takes `impl Into<Enum>`, and cannot fail. A string that is no word becomes the enum's hidden variant
//! `Unknown`, which the function that gets it refuses ([`Named::known`]).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::{Result, TorshError};

/// A string that is no word of an enum.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unknown(&'static str);

impl Unknown {
    /// Keeps the string as long as the process runs, as an enum that is [`Copy`] needs it: its first 64 characters, and of
    /// the first 1024 strings.
    pub fn new(word: &str) -> Unknown {
        static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let end = word.char_indices().nth(64).map_or(word.len(), |(at, _)| at);
        let word = &word[..end];
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(word) = kept.get(word) {
            return Unknown(word);
        }
        if kept.len() >= 1024 {
            return Unknown("(another word)");
        }
        let word: &'static str = Box::leak(word.into());
        kept.insert(word);
        Unknown(word)
    }

    /// The string.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

/// An enum of words; the macro `named!` implements it.
pub trait Named: Copy + PartialEq + 'static {
    /// The argument that the enum is, as an error names it.
    const WHAT: &'static str;
    /// PyTorch's words and what they stand for.
    const WORDS: &'static [(&'static str, Self)];
    /// Whether upper and lower case are the same.
    const ANY_CASE: bool = false;

    /// The string that is no word.
    fn unknown(self) -> Option<Unknown>;

    /// What a string that is no word becomes.
    fn of_unknown(unknown: Unknown) -> Self;

    /// What a string stands for.
    fn of(word: &str) -> Self {
        let mut words = Self::WORDS.iter();
        let is = |w: &str| w == word || Self::ANY_CASE && w.eq_ignore_ascii_case(word);
        match words.find(|(w, _)| is(w)) {
            Some((_, value)) => *value,
            None => Self::of_unknown(Unknown::new(word)),
        }
    }

    /// The first word for it, or the string that is none.
    fn word(self) -> &'static str {
        let mut words = Self::WORDS.iter();
        match (words.find(|(_, value)| *value == self), self.unknown()) {
            (Some((word, _)), _) => word,
            (None, unknown) => unknown.map_or("", Unknown::as_str),
        }
    }

    /// Itself.
    ///
    /// # Errors
    /// If it was made of a string that is no word; the error lists the words.
    #[track_caller]
    fn known(self) -> Result<Self> {
        match self.unknown() {
            None => Ok(self),
            Some(unknown) => {
                let words = Self::WORDS.iter().map(|(word, _)| *word);
                Err(refused(unknown.as_str(), Self::WHAT, words))
            }
        }
    }
}

/// The error of a string that is no word for an argument.
#[track_caller]
#[cold]
pub fn refused<'w>(word: &str, what: &str, words: impl IntoIterator<Item = &'w str>) -> TorshError {
    let words: Vec<String> = words.into_iter().map(|w| format!("\"{w}\"")).collect();
    let listed = match words.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    };
    TorshError::invalid("", format!("{word} is not a valid value for {what}"))
        .with_hint(format!("{what} is {listed}"))
}

/// Lets strings stand for the variants of an enum with a variant `Unknown(torsh_tensor::named::Unknown)`; with `any case`
/// before the words, in upper and lower case.
#[doc(hidden)]
#[macro_export]
macro_rules! named {
    ($name:ty, $what:literal, any case, $($words:tt)+) => {
        $crate::named! { @ true, $name, $what, $($words)+ }
    };
    (@ $any_case:literal, $name:ty, $what:literal, $($word:literal => $value:expr),+ $(,)?) => {
        impl $crate::named::Named for $name {
            const WHAT: &'static str = $what;
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, $value)),+];
            const ANY_CASE: bool = $any_case;

            fn unknown(self) -> Option<$crate::named::Unknown> {
                match self {
                    Self::Unknown(unknown) => Some(unknown),
                    _ => None,
                }
            }

            fn of_unknown(unknown: $crate::named::Unknown) -> Self {
                Self::Unknown(unknown)
            }
        }

        /// PyTorch's word. The function that gets another string refuses it.
        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                $crate::named::Named::of(word)
            }
        }

        /// As of a `&str`.
        impl From<String> for $name {
            fn from(word: String) -> Self {
                $crate::named::Named::of(&word)
            }
        }

        /// As of a `&str`.
        impl From<&String> for $name {
            fn from(word: &String) -> Self {
                $crate::named::Named::of(word)
            }
        }
    };
    ($name:ty, $what:literal, $($words:tt)+) => {
        $crate::named! { @ false, $name, $what, $($words)+ }
    };
}
