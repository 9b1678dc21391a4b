//! Texts that must match a regular expression or a JSON schema.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use torsh_tensor::{Result, Tensor, TorshError};

use super::options::Settings;
use super::processors::{LogitsProcessor, edit};
use super::schema;
use super::text::Vocabulary;

/// The largest automaton, in bytes.
const LARGEST: usize = 32 << 20;
/// The largest pattern, in bytes: an automaton is made of it.
const LARGEST_PATTERN: usize = 4 << 20;

/// The tokens that may come next.
struct Allowed {
    tokens: Vec<usize>,
    /// Whether the text may end.
    ends: bool,
}

/// What new texts must match as a whole: a regular expression, or a JSON schema.
///
/// Only tokens that keep a match possible are chosen, and the text ends where it is complete. A text that `max_length`
/// cuts is only the beginning of a match.
///
/// ```
/// use torsh_text::generation::{Constraint, Vocabulary};
/// let vocabulary = Vocabulary::new([Some("1"), Some("12"), Some("-"), Some("x"), None]);
/// let constraint = Constraint::regex("-?[0-9]{2}", vocabulary)?;
/// assert_eq!(constraint.allowed(&[])?, (vec![0, 1, 2], false));
/// assert_eq!(constraint.allowed(&[2, 0])?, (vec![0], false));
/// assert_eq!(constraint.allowed(&[1])?, (vec![], true));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Constraint {
    pattern: String,
    automaton: dense::DFA<Vec<u32>>,
    start: StateID,
    /// States from which a match can be reached.
    live: HashSet<StateID>,
    vocabulary: Vocabulary,
    known: Mutex<HashMap<StateID, Arc<Allowed>>>,
}

impl Constraint {
    /// Texts that match a regular expression from beginning to end, in the syntax of the crate `regex`.
    ///
    /// # Errors
    /// A pattern with an error in it, one that needs too large an automaton, and one that matches no text.
    #[torsh_tensor::names_caller(Self)]
    pub fn regex(pattern: &str, vocabulary: Vocabulary) -> Result<Constraint> {
        let wrong =
            |why: String| TorshError::invalid("Constraint", format!("{:?}: {why}", short(pattern)));
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .match_kind(MatchKind::All)
            .dfa_size_limit(Some(LARGEST))
            .determinize_size_limit(Some(LARGEST));
        let automaton = dense::Builder::new()
            .configure(config)
            .syntax(syntax::Config::new())
            .thompson(thompson::Config::new().nfa_size_limit(Some(LARGEST_PATTERN)))
            .build(&format!("(?:{pattern})"))
            .map_err(|e| {
                // The innermost cause shows the place in the pattern.
                let mut why = e.to_string();
                let mut cause = std::error::Error::source(&e);
                while let Some(inner) = cause {
                    why = format!("{why}: {inner}");
                    cause = inner.source();
                }
                wrong(short(&why))
            })?;
        let start = automaton
            .start_state_forward(&Input::new("").anchored(Anchored::Yes))
            .map_err(|e| wrong(e.to_string()))?;
        let live = live_states(&automaton, start);
        if !live.contains(&start) {
            return Err(wrong("it matches no text".into()).with_hint(
                "remove what contradicts itself, such as an intersection of classes without common characters",
            ));
        }
        Ok(Constraint {
            pattern: pattern.to_string(),
            automaton,
            start,
            live,
            vocabulary,
            known: Mutex::new(HashMap::new()),
        })
    }

    /// Texts that are JSON of a schema: objects with the listed properties in their order, strings, numbers, integers,
    /// booleans, null, `enum`, `const` and arrays. Behind commas and colons there may be one space.
    ///
    /// # Errors
    /// What is no JSON, and keywords that are not among these; the error names them and their place.
    ///
    /// ```
    /// use torsh_text::generation::{Constraint, Vocabulary};
    /// let bytes = Vocabulary::new((0..=255u8).map(|b| Some([b])));
    /// let schema = r#"{
    ///     "type": "object",
    ///     "properties": { "name": { "enum": ["Ann", "Bob"] }, "age": { "type": "integer" } },
    ///     "required": ["name", "age"]
    /// }"#;
    /// let constraint = Constraint::json_schema(schema, bytes)?;
    /// let ids: Vec<i64> = br#"{"name": "Bob", "age": 4"#.iter().map(|&b| b.into()).collect();
    /// let next: Vec<char> = constraint.allowed(&ids)?.0.iter().map(|&b| b as u8 as char).collect();
    /// assert_eq!(next.iter().collect::<String>(), "0123456789}");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn json_schema(schema: &str, vocabulary: Vocabulary) -> Result<Constraint> {
        Constraint::regex(&schema::to_regex(schema)?, vocabulary)
    }

    /// The regular expression.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The tokens that may follow new tokens, and whether the text may end there.
    ///
    /// # Errors
    /// Tokens that match no longer.
    #[torsh_tensor::names_caller]
    pub fn allowed(&self, ids: &[i64]) -> Result<(Vec<usize>, bool)> {
        let Some(state) = self.state(ids) else {
            return Err(TorshError::invalid(
                "Constraint",
                format!(
                    "{:?} does not begin a match of {:?}",
                    self.text(ids),
                    short(&self.pattern)
                ),
            ));
        };
        let allowed = self.next(state);
        Ok((allowed.tokens.clone(), allowed.ends))
    }

    /// The state after new tokens; none where they do not match.
    fn state(&self, ids: &[i64]) -> Option<StateID> {
        ids.iter().try_fold(self.start, |state, &id| {
            self.walk(state, self.vocabulary.bytes(usize::try_from(id).ok()?)?)
        })
    }

    fn walk(&self, mut state: StateID, bytes: &[u8]) -> Option<StateID> {
        for &byte in bytes {
            state = self.automaton.next_state(state, byte);
            if !self.live.contains(&state) {
                return None;
            }
        }
        Some(state)
    }

    fn next(&self, state: StateID) -> Arc<Allowed> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let compute = || {
            let tokens = self.vocabulary.iter();
            let fits = tokens.filter(|(_, bytes)| self.walk(state, bytes).is_some());
            Arc::new(Allowed {
                tokens: fits.map(|(id, _)| id).collect(),
                ends: accepts(&self.automaton, state),
            })
        };
        known.entry(state).or_insert_with(compute).clone()
    }

    /// The text of tokens, for messages.
    fn text(&self, ids: &[i64]) -> String {
        let bytes = |&id: &i64| self.vocabulary.bytes(usize::try_from(id).ok()?);
        let all: Vec<u8> = ids.iter().filter_map(bytes).flatten().copied().collect();
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// The beginning of a text, for messages: patterns may be long.
fn short(text: &str) -> String {
    const MOST: usize = 600;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}..", &text[..at]),
        None => text.to_string(),
    }
}

fn accepts(automaton: &dense::DFA<Vec<u32>>, state: StateID) -> bool {
    automaton.is_match_state(automaton.next_eoi_state(state))
}

/// The states from which some text leads to a match.
fn live_states(automaton: &dense::DFA<Vec<u32>>, start: StateID) -> HashSet<StateID> {
    let bytes: Vec<u8> = automaton
        .byte_classes()
        .representatives(0..=255)
        .filter_map(|unit| unit.as_u8())
        .collect();
    let mut before: HashMap<StateID, Vec<StateID>> = HashMap::new();
    let mut seen = HashSet::from([start]);
    let mut open = vec![start];
    let mut live = HashSet::new();
    let mut ends = Vec::new();
    while let Some(state) = open.pop() {
        if automaton.is_dead_state(state) || automaton.is_quit_state(state) {
            continue;
        }
        if accepts(automaton, state) {
            ends.push(state);
        }
        let mut next: Vec<StateID> = bytes
            .iter()
            .map(|&byte| automaton.next_state(state, byte))
            .collect();
        next.sort_unstable();
        next.dedup();
        for next in next {
            before.entry(next).or_default().push(state);
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    while let Some(state) = ends.pop() {
        if live.insert(state) {
            ends.extend(before.get(&state).into_iter().flatten());
        }
    }
    live
}

/// A constraint at work on the new tokens of rows.
pub(super) struct ConstraintProcessor<'a> {
    constraint: &'a Constraint,
    prompt_len: usize,
    eos: Vec<i64>,
}

impl<'a> ConstraintProcessor<'a> {
    pub(super) fn new(constraint: &'a Constraint, s: &Settings, vocab: usize) -> Result<Self> {
        if s.eos.is_empty() {
            return Err(TorshError::invalid(
                "generate",
                format!(
                    "a text that matches {:?} needs a token to end with",
                    short(&constraint.pattern)
                ),
            )
            .with_hint("set eos_token_id"));
        }
        if constraint.vocabulary.len() > vocab {
            return Err(TorshError::invalid(
                "generate",
                format!(
                    "a constraint of {} tokens for a model with a vocabulary of {vocab}",
                    constraint.vocabulary.len()
                ),
            ));
        }
        Ok(ConstraintProcessor {
            constraint,
            prompt_len: s.prompt_len,
            eos: s.eos.clone(),
        })
    }
}

impl LogitsProcessor for ConstraintProcessor<'_> {
    #[torsh_tensor::names_caller]
    fn process(&mut self, input_ids: &[Vec<i64>], scores: Tensor) -> Result<Tensor> {
        let c = self.constraint;
        edit(&scores, |r, row| {
            let new = input_ids[r].get(self.prompt_len..).unwrap_or(&[]);
            if new.iter().any(|id| self.eos.contains(id)) {
                // It has ended before.
                return Ok(());
            }
            let old = row.to_vec();
            row.fill(f32::NEG_INFINITY);
            let Some(state) = c.state(new) else {
                // A beam without hope.
                return Ok(());
            };
            let allowed = c.next(state);
            if allowed.tokens.is_empty() && !allowed.ends {
                return Err(TorshError::invalid(
                    "generate",
                    format!(
                        "no token of the vocabulary continues {:?} to a match of {:?}",
                        c.text(new),
                        short(&c.pattern)
                    ),
                )
                .with_hint(
                    "allow a text that the vocabulary can write, or make the Vocabulary of the model's tokenizer",
                ));
            }
            let ends = self
                .eos
                .iter()
                .filter(|_| allowed.ends)
                .map(|&id| id as usize);
            let mut any = false;
            for id in allowed.tokens.iter().copied().chain(ends.clone()) {
                if let Some((to, from)) = row.get_mut(id).zip(old.get(id)) {
                    *to = *from;
                    any |= *from > f32::NEG_INFINITY;
                }
            }
            if !any {
                // Other processors forbid them all: the match goes first.
                for id in allowed.tokens.iter().copied().chain(ends) {
                    if let Some(to) = row.get_mut(id) {
                        *to = 0.0;
                    }
                }
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes() -> Vocabulary {
        Vocabulary::new((0..=255u8).map(|b| Some([b])))
    }

    fn ids(text: &str) -> Vec<i64> {
        text.bytes().map(i64::from).collect()
    }

    fn matches(c: &Constraint, text: &str) -> bool {
        c.allowed(&ids(text)).is_ok_and(|(_, ends)| ends)
    }

    #[test]
    fn whole_texts_match() -> Result<()> {
        let c = Constraint::regex("a|ab|[é€]+", bytes())?;
        for (text, wanted) in [
            ("a", true),
            ("ab", true),
            ("é€", true),
            ("", false),
            ("b", false),
        ] {
            assert_eq!(matches(&c, text), wanted, "{text:?}");
        }
        // Behind a whole match nothing is allowed.
        assert_eq!(c.allowed(&ids("ab"))?, (vec![], true));
        assert!(c.allowed(&ids("abx")).is_err());
        // Only the rest of a character.
        assert_eq!(c.allowed(&[0xc3])?, (vec![0xa9], false));
        Ok(())
    }

    #[test]
    fn tokens_must_not_overshoot() -> Result<()> {
        let vocabulary = Vocabulary::new([Some("a"), Some("ax"), Some("aa"), None]);
        let c = Constraint::regex("a{1,2}", vocabulary)?;
        assert_eq!(c.allowed(&[])?, (vec![0, 2], false));
        assert_eq!(c.allowed(&[0])?, (vec![0], true));
        Ok(())
    }

    #[test]
    fn patterns_without_match_are_refused() {
        let text = |p: &str| Constraint::regex(p, bytes()).err().map(|e| e.to_string());
        assert!(text("a(").is_some_and(|e| e.contains("a(")));
        assert!(text("[a&&b]").is_some_and(|e| e.contains("no text")));
        assert!(text(r"(?:\w{1000}){1000}").is_some_and(|e| e.contains("exceeded")));
    }
}
