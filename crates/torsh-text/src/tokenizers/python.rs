//! What templates expect of Python: the methods of texts, dictionaries and lists, how values are written, `json.dumps`.

use std::fmt::Write as _;

use minijinja::value::{Kwargs, Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind};

use super::jinja::LONGEST;

/// The deepest value that is written.
const DEEPEST: usize = 100;
/// The widest text that `ljust`, `rjust`, `center` and `zfill` make.
const WIDEST: usize = 1 << 16;
/// The most parts that a text is split into.
const MOST_PARTS: usize = 1 << 20;

type Outcome<T = Value> = Result<T, Error>;

fn error(why: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, why.into())
}

/// A method that minijinja's values do not have.
pub(super) fn method(value: &Value, name: &str, args: &[Value]) -> Outcome {
    let args = Arguments::new(name, args)?;
    let result = match (value.kind(), value.as_str()) {
        (_, Some(text)) => text_method(text, name, &args)?,
        (ValueKind::Map, _) => map_method(value, name, &args)?,
        (ValueKind::Seq | ValueKind::Iterable, _) => list_method(value, name, &args)?,
        _ => None,
    };
    match result {
        Some(result) => {
            args.kwargs.assert_all_used()?;
            Ok(result)
        }
        None => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

/// The arguments of a call, by position or by name.
struct Arguments<'a> {
    method: &'a str,
    positional: &'a [Value],
    kwargs: Kwargs,
}

impl<'a> Arguments<'a> {
    fn new(method: &'a str, args: &'a [Value]) -> Outcome<Self> {
        let (positional, kwargs): (&[Value], Kwargs) = from_args(args)?;
        Ok(Arguments {
            method,
            positional,
            kwargs,
        })
    }

    fn at_most(&self, count: usize) -> Outcome<()> {
        match self.positional.len() <= count {
            true => Ok(()),
            false => Err(error(format!(
                "{}() takes at most {count} arguments, and there are {}",
                self.method,
                self.positional.len()
            ))),
        }
    }

    /// An argument; `None` where it is absent or Python's `None`.
    fn get(&self, at: usize, name: &str) -> Outcome<Option<Value>> {
        let value = match self.positional.get(at) {
            Some(value) => Some(value.clone()),
            None => self.kwargs.get::<Option<Value>>(name)?,
        };
        Ok(value.filter(|v| !v.is_none()))
    }

    fn required(&self, at: usize, name: &str) -> Outcome {
        let value = self.get(at, name)?;
        value.ok_or_else(|| error(format!("{}() needs the argument {name}", self.method)))
    }

    fn text(&self, at: usize, name: &str) -> Outcome<String> {
        let value = self.required(at, name)?;
        let text = value.as_str().map(str::to_string);
        text.ok_or_else(|| error(format!("{}(): {name} is not a text", self.method)))
    }

    fn optional_text(&self, at: usize, name: &str) -> Outcome<Option<String>> {
        match self.get(at, name)? {
            Some(_) => self.text(at, name).map(Some),
            None => Ok(None),
        }
    }

    fn int(&self, at: usize, name: &str) -> Outcome<Option<i64>> {
        match self.get(at, name)? {
            None => Ok(None),
            Some(value) => match value.as_i64() {
                Some(value) => Ok(Some(value)),
                None => Err(error(format!(
                    "{}(): {name} is not a whole number",
                    self.method
                ))),
            },
        }
    }

    /// A text or several of them, of which one is to fit.
    fn any(&self, fits: impl Fn(&str) -> bool) -> Outcome<Value> {
        let value = self.required(0, "prefix")?;
        if let Some(text) = value.as_str() {
            return Ok(fits(text).into());
        }
        for one in value.try_iter()?.checked() {
            let one = one?;
            let text = one
                .as_str()
                .ok_or_else(|| error(format!("{}() takes texts", self.method)))?;
            if fits(text) {
                return Ok(true.into());
            }
        }
        Ok(false.into())
    }

    fn width(&self) -> Outcome<usize> {
        let width = self.int(0, "width")?.unwrap_or(0).max(0);
        let width = usize::try_from(width).ok().filter(|w| *w <= WIDEST);
        width.ok_or_else(|| error(format!("{}(): the width is too large", self.method)))
    }

    fn fill(&self) -> Outcome<char> {
        let fill = self
            .optional_text(1, "fillchar")?
            .unwrap_or_else(|| " ".into());
        let mut chars = fill.chars();
        match (chars.next(), chars.next()) {
            (Some(fill), None) => Ok(fill),
            _ => Err(error(format!(
                "{}(): the fill is not one character",
                self.method
            ))),
        }
    }
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// A list of the parts of a text.
fn list<'t>(parts: impl IntoIterator<Item = &'t str>) -> Outcome {
    let mut parts = parts.into_iter();
    let all: Vec<_> = parts.by_ref().take(MOST_PARTS).map(Value::from).collect();
    match parts.next() {
        None => Ok(Value::from(all)),
        Some(_) => Err(error(format!("a text has more than {MOST_PARTS} parts"))),
    }
}

/// An error where a text has become too long.
fn bounded(length: usize) -> Outcome<()> {
    match length > LONGEST {
        true => Err(error("a text is longer than 64 MiB")),
        false => Ok(()),
    }
}

fn tuple<const N: usize>(values: [Value; N]) -> Value {
    Value::from_object(Tuple::from(values))
}

fn text_method(text: &str, name: &str, args: &Arguments<'_>) -> Outcome<Option<Value>> {
    let all = |test: fn(char) -> bool| Value::from(!text.is_empty() && text.chars().all(test));
    let value = match name {
        "strip" | "lstrip" | "rstrip" => {
            args.at_most(1)?;
            let chars = args.optional_text(0, "chars")?;
            let strip = |c: char| match &chars {
                Some(chars) => chars.contains(c),
                None => is_space(c),
            };
            Value::from(match name {
                "strip" => text.trim_matches(strip),
                "lstrip" => text.trim_start_matches(strip),
                _ => text.trim_end_matches(strip),
            })
        }
        "split" | "rsplit" => {
            args.at_most(2)?;
            let separator = args.optional_text(0, "sep")?;
            let most = args
                .int(1, "maxsplit")?
                .and_then(|n| usize::try_from(n).ok());
            if separator.as_deref() == Some("") {
                return Err(error("split(): the separator is empty"));
            }
            let most = most.unwrap_or(usize::MAX);
            match (separator, name) {
                (Some(separator), "split") => {
                    list(text.splitn(most.saturating_add(1), &*separator))?
                }
                (Some(separator), _) => {
                    let parts = text.rsplitn(most.saturating_add(1), &*separator);
                    let mut parts: Vec<_> = parts.take(MOST_PARTS + 1).collect();
                    parts.reverse();
                    list(parts)?
                }
                (None, "split") => list(words(text, most))?,
                (None, _) => list(last_words(text, most))?,
            }
        }
        "splitlines" => {
            args.at_most(1)?;
            let keep = args.get(0, "keepends")?.is_some_and(|v| v.is_true());
            list(lines(text, keep))?
        }
        "startswith" => {
            args.at_most(3)?;
            let (begin, end) = range(text, args)?;
            args.any(|prefix| begin <= end && text[begin..end].starts_with(prefix))?
        }
        "endswith" => {
            args.at_most(3)?;
            let (begin, end) = range(text, args)?;
            args.any(|suffix| begin <= end && text[begin..end].ends_with(suffix))?
        }
        "removeprefix" => {
            let prefix = args.text(0, "prefix")?;
            Value::from(text.strip_prefix(&*prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let suffix = args.text(0, "suffix")?;
            Value::from(text.strip_suffix(&*suffix).unwrap_or(text))
        }
        "replace" => {
            args.at_most(3)?;
            let (old, new) = (args.text(0, "old")?, args.text(1, "new")?);
            let count = args.int(2, "count")?.and_then(|n| usize::try_from(n).ok());
            if new.len() > old.len() {
                let found = text.matches(&*old).count().min(count.unwrap_or(usize::MAX));
                bounded(text.len().saturating_add(found.saturating_mul(new.len())))?;
            }
            Value::from(match count {
                Some(count) => text.replacen(&*old, &new, count),
                None => text.replace(&*old, &new),
            })
        }
        "find" | "rfind" | "index" | "rindex" => {
            args.at_most(3)?;
            let wanted = args.text(0, "sub")?;
            let (begin, end) = range(text, args)?;
            let part = text.get(begin..end);
            let at = part.and_then(|part| match name {
                "find" | "index" => part.find(&*wanted),
                _ => part.rfind(&*wanted),
            });
            match at {
                Some(at) => Value::from(text[..begin + at].chars().count()),
                None if name.ends_with("find") => Value::from(-1),
                None => return Err(error(format!("{name}(): {wanted:?} is not in the text"))),
            }
        }
        "count" => {
            args.at_most(3)?;
            let wanted = args.text(0, "sub")?;
            let (begin, end) = range(text, args)?;
            let part = text.get(begin..end).unwrap_or("");
            Value::from(match wanted.is_empty() {
                true => part.chars().count() + 1,
                false => part.matches(&*wanted).count(),
            })
        }
        "join" => {
            let mut out = String::new();
            for (i, part) in args
                .required(0, "iterable")?
                .try_iter()?
                .checked()
                .enumerate()
            {
                let part = part?;
                let part = part.as_str().ok_or_else(|| error("join() takes texts"))?;
                if i > 0 {
                    out.push_str(text);
                }
                out.push_str(part);
                bounded(out.len())?;
            }
            Value::from(out)
        }
        "partition" | "rpartition" => {
            let separator = args.text(0, "sep")?;
            let (parts, none) = match name {
                "partition" => (text.split_once(&*separator), [text, "", ""]),
                _ => (text.rsplit_once(&*separator), ["", "", text]),
            };
            tuple(match parts {
                Some((before, after)) => [before, &separator, after].map(Value::from),
                None => none.map(Value::from),
            })
        }
        "lower" | "casefold" => Value::from(text.to_lowercase()),
        "upper" => Value::from(text.to_uppercase()),
        "capitalize" => Value::from(titled(text, false)),
        "title" => Value::from(titled(text, true)),
        "swapcase" => Value::from(text.chars().map(swapped).collect::<String>()),
        "isdigit" | "isdecimal" | "isnumeric" => all(char::is_numeric),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isspace" => all(is_space),
        "isascii" => Value::from(text.is_ascii()),
        "isupper" => cased(text, char::is_uppercase, char::is_lowercase),
        "islower" => cased(text, char::is_lowercase, char::is_uppercase),
        "ljust" | "rjust" | "center" => {
            let fill = args.fill()?;
            let length = text.chars().count();
            let more = args.width()?.saturating_sub(length);
            let left = match name {
                "ljust" => 0,
                "rjust" => more,
                // As Python's, which rounds by the parity of both.
                _ => more / 2 + (more & (length + more) & 1),
            };
            let pad = |n: usize| std::iter::repeat_n(fill, n).collect::<String>();
            Value::from(format!("{}{text}{}", pad(left), pad(more - left)))
        }
        "zfill" => {
            let more = args.width()?.saturating_sub(text.chars().count());
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['+', '-'])));
            Value::from(format!("{sign}{}{digits}", "0".repeat(more)))
        }
        "format" => Value::from(formatted(text, args)?),
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// The bytes between the characters that the second and third argument name.
fn range(text: &str, args: &Arguments<'_>) -> Outcome<(usize, usize)> {
    let (begin, end) = (args.int(1, "start")?, args.int(2, "end")?);
    if begin.is_none() && end.is_none() {
        return Ok((0, text.len()));
    }
    let length = text.chars().count() as i64;
    let place = |at: i64| {
        let at = if at < 0 {
            at.saturating_add(length)
        } else {
            at
        };
        let at = at.clamp(0, length) as usize;
        text.char_indices()
            .nth(at)
            .map_or(text.len(), |(byte, _)| byte)
    };
    Ok((begin.map_or(0, place), end.map_or(text.len(), place)))
}

/// The words of a text; after `most` of them the rest is one. Of more than [`MOST_PARTS`], which nobody reads, one more.
fn words(text: &str, most: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start_matches(is_space);
    while !rest.is_empty() && words.len() <= MOST_PARTS {
        let end = match words.len() < most {
            true => rest.find(is_space).unwrap_or(rest.len()),
            false => rest.len(),
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    words
}

/// The words of a text from its end; before `most` of them the rest is one.
fn last_words(text: &str, most: usize) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_end_matches(is_space);
    while !rest.is_empty() && words.len() <= MOST_PARTS {
        let begin = match words.len() < most {
            true => rest
                .char_indices()
                .rev()
                .find(|(_, c)| is_space(*c))
                .map_or(0, |(at, c)| at + c.len_utf8()),
            false => 0,
        };
        words.push(&rest[begin..]);
        rest = rest[..begin].trim_end_matches(is_space);
    }
    words.reverse();
    words
}

fn lines(text: &str, keep: bool) -> Vec<&str> {
    let ends = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'
                ..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() && lines.len() <= MOST_PARTS {
        let Some(at) = rest.find(ends) else {
            lines.push(rest);
            break;
        };
        let mark = match rest[at..].starts_with("\r\n") {
            true => 2,
            false => rest[at..].chars().next().map_or(1, char::len_utf8),
        };
        lines.push(&rest[..if keep { at + mark } else { at }]);
        rest = &rest[at + mark..];
    }
    lines
}

/// The first letter large and the others small, of the text or of each word.
fn titled(text: &str, each: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut first = true;
    for c in text.chars() {
        match first {
            true => out.extend(c.to_uppercase()),
            false => out.extend(c.to_lowercase()),
        }
        first = each && !c.is_alphabetic();
    }
    out
}

fn swapped(c: char) -> char {
    let other = match c.is_uppercase() {
        true => c.to_lowercase().next(),
        false => c.to_uppercase().next(),
    };
    other.unwrap_or(c)
}

fn cased(text: &str, wanted: fn(char) -> bool, other: fn(char) -> bool) -> Value {
    Value::from(text.chars().any(wanted) && !text.chars().any(other))
}

/// `str.format` with fields by number and by name, without formats.
fn formatted(format: &str, args: &Arguments<'_>) -> Outcome<String> {
    let mut out = String::new();
    let mut rest = format;
    let mut next = 0;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..at + 1];
        rest = &rest[at + 1..];
        if rest.starts_with(brace) {
            out.push_str(brace);
            rest = &rest[1..];
            continue;
        }
        let end = rest.find('}').filter(|_| brace == "{");
        let end = end.ok_or_else(|| error("format(): a brace has no partner"))?;
        let field = &rest[..end];
        rest = &rest[end + 1..];
        if field.contains(['{', ':', '!', '.', '[']) {
            return Err(error(format!(
                "format(): the field {{{field}}} is not supported"
            )));
        }
        let value = match (field.is_empty(), field.parse::<usize>()) {
            (true, _) => {
                next += 1;
                args.positional.get(next - 1).cloned()
            }
            (false, Ok(at)) => args.positional.get(at).cloned(),
            (false, Err(_)) => args.kwargs.get::<Option<Value>>(field)?,
        };
        let value = value.ok_or_else(|| error(format!("format(): no value for {{{field}}}")))?;
        out.push_str(&text(&value)?);
        bounded(out.len())?;
    }
    out.push_str(rest);
    Ok(out)
}

fn map_method(map: &Value, name: &str, args: &Arguments<'_>) -> Outcome<Option<Value>> {
    let items = || -> Outcome<Vec<(Value, Value)>> {
        let mut all = Vec::new();
        for key in map.try_iter()?.checked() {
            let key = key?;
            let value = map.get_item(&key)?;
            all.push((key, value));
        }
        Ok(all)
    };
    let value = match name {
        "items" => {
            let items = items()?.into_iter();
            Value::from(items.map(|(k, v)| tuple([k, v])).collect::<Vec<_>>())
        }
        "keys" => Value::from(items()?.into_iter().map(|(k, _)| k).collect::<Vec<_>>()),
        "values" => Value::from(items()?.into_iter().map(|(_, v)| v).collect::<Vec<_>>()),
        "get" => {
            args.at_most(2)?;
            let value = map.get_item(&args.required(0, "key")?)?;
            match value.is_undefined() {
                false => value,
                true => args.get(1, "default")?.unwrap_or_else(|| Value::from(())),
            }
        }
        "copy" => map.clone(),
        "pop" | "update" | "setdefault" | "clear" | "popitem" => return Err(read_only(name)),
        _ => return Ok(None),
    };
    Ok(Some(value))
}

fn list_method(list: &Value, name: &str, args: &Arguments<'_>) -> Outcome<Option<Value>> {
    let value = match name {
        "index" | "count" => {
            args.at_most(1)?;
            let wanted = args.required(0, "value")?;
            let mut count = 0usize;
            for (i, value) in list.try_iter()?.checked().enumerate() {
                if value? == wanted {
                    if name == "index" {
                        return Ok(Some(Value::from(i)));
                    }
                    count += 1;
                }
            }
            match name {
                "index" => return Err(error("index(): the value is not in the list")),
                _ => Value::from(count),
            }
        }
        "copy" => list.clone(),
        "append" | "extend" | "insert" | "remove" | "pop" | "clear" | "sort" | "reverse" => {
            return Err(read_only(name));
        }
        _ => return Ok(None),
    };
    Ok(Some(value))
}

fn read_only(name: &str) -> Error {
    error(format!(
        "{name}() would change a value, which chat templates may not"
    ))
}

/// Python's `str(value)`.
pub(super) fn text(value: &Value) -> Outcome<String> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_string());
    }
    let mut out = String::new();
    repr(&mut out, value, 0)?;
    Ok(out)
}

/// Python's `repr(value)`.
fn repr(out: &mut String, value: &Value, depth: usize) -> Outcome<()> {
    if depth > DEEPEST {
        return Err(error("the value is nested too deeply to be written"));
    }
    // A value may hold another one many times.
    bounded(out.len())?;
    match value.kind() {
        ValueKind::String => quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Number => number(out, value),
        ValueKind::Map => {
            out.push('{');
            for (i, key) in value.try_iter()?.checked().enumerate() {
                let key = key?;
                if i > 0 {
                    out.push_str(", ");
                }
                repr(out, &key, depth + 1)?;
                out.push_str(": ");
                repr(out, &value.get_item(&key)?, depth + 1)?;
            }
            out.push('}');
        }
        ValueKind::Seq => {
            let tuple = value.is_tuple();
            out.push(if tuple { '(' } else { '[' });
            for (i, item) in value.try_iter()?.checked().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                repr(out, &item?, depth + 1)?;
            }
            if tuple && value.len() == Some(1) {
                out.push(',');
            }
            out.push(if tuple { ')' } else { ']' });
        }
        _ => {
            let _ = write!(out, "{value}");
        }
    }
    Ok(())
}

/// A text as Python writes it in a list.
fn quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if c < ' ' || ('\u{7f}'..='\u{a0}').contains(&c) || c == '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

fn number(out: &mut String, value: &Value) {
    let float = (!value.is_integer()).then(|| f64::try_from(value.clone()).ok());
    match float.flatten() {
        Some(value) => float_text(out, value),
        None => {
            let _ = write!(out, "{value}");
        }
    }
}

/// A float as Python writes it: the shortest digits that read the same, with an exponent where it is small or large.
fn float_text(out: &mut String, value: f64) {
    if !value.is_finite() {
        let text = match (value.is_nan(), value > 0.0) {
            (true, _) => "nan",
            (_, true) => "inf",
            (_, false) => "-inf",
        };
        out.push_str(text);
        return;
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let _ = match (-4..16).contains(&exponent) {
        true => write!(out, "{value:?}"),
        false => {
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(out, "{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
    };
}

/// How `json.dumps` writes.
pub(super) struct JsonStyle {
    pub ascii: bool,
    pub indent: Option<String>,
    pub item: String,
    pub key: String,
    pub sort_keys: bool,
}

/// Python's `json.dumps`.
pub(super) fn json(
    out: &mut String,
    value: &Value,
    style: &JsonStyle,
    depth: usize,
) -> Outcome<()> {
    if depth > DEEPEST {
        return Err(error("tojson: the value is nested too deeply"));
    }
    bounded(out.len())?;
    let line = |out: &mut String, depth: usize| {
        if let Some(indent) = &style.indent {
            out.push('\n');
            for _ in 0..depth {
                out.push_str(indent);
            }
        }
    };
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => json_number(out, value),
        ValueKind::String => json_text(out, value.as_str().unwrap_or_default(), style.ascii),
        ValueKind::Map => {
            let mut keys = value.try_iter()?.checked().collect::<Outcome<Vec<_>>>()?;
            if style.sort_keys {
                keys.sort();
            }
            out.push('{');
            let empty = keys.is_empty();
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push_str(&style.item);
                }
                line(out, depth + 1);
                let mut name = String::new();
                match key.kind() {
                    ValueKind::String => name.push_str(key.as_str().unwrap_or_default()),
                    _ => json(&mut name, &key, style, depth + 1)?,
                }
                json_text(out, &name, style.ascii);
                out.push_str(&style.key);
                json(out, &value.get_item(&key)?, style, depth + 1)?;
            }
            if !empty {
                line(out, depth);
            }
            out.push('}');
        }
        ValueKind::Seq | ValueKind::Iterable => {
            out.push('[');
            let mut empty = true;
            for item in value.try_iter()?.checked() {
                if !empty {
                    out.push_str(&style.item);
                }
                empty = false;
                line(out, depth + 1);
                json(out, &item?, style, depth + 1)?;
            }
            if !empty {
                line(out, depth);
            }
            out.push(']');
        }
        kind => {
            return Err(error(format!(
                "tojson: a value of the kind {kind} is not JSON"
            )));
        }
    }
    Ok(())
}

fn json_number(out: &mut String, value: &Value) {
    let before = out.len();
    number(out, value);
    let other = match &out[before..] {
        "nan" => "NaN",
        "inf" => "Infinity",
        "-inf" => "-Infinity",
        _ => return,
    };
    out.truncate(before);
    out.push_str(other);
}

fn json_text(out: &mut String, text: &str, ascii: bool) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (ascii && !(' '..='~').contains(&c)) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
