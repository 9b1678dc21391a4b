//! Jinja as Hugging Face's library runs chat templates: Python's texts, `tojson`, `raise_exception`, `strftime_now`.

use std::fmt::Write as _;
use std::io;
use std::time::SystemTime;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, escape_formatter};

use super::files::short;
use super::{python, strftime};

/// The longest text that a template may write, or make on the way.
pub(super) const LONGEST: usize = 64 << 20;
/// The longest template. The longest that is published has 20 kB.
const LONGEST_TEMPLATE: usize = 1 << 20;
/// What a template may do: about so many instructions, or 64 times as many bytes.
const FUEL: u64 = 4 << 20;

/// Renders a template.
pub(super) fn render(template: &str, context: Value, now: SystemTime) -> Result<String, String> {
    if template.len() > LONGEST_TEMPLATE {
        let bytes = template.len();
        return Err(format!(
            "it has {bytes} bytes, more than {LONGEST_TEMPLATE}"
        ));
    }
    let template = without_generation(template);
    let run = || {
        let env = environment(now)?;
        let template = env.template_from_named_str("chat_template", &template)?;
        let mut out = Bounded::default();
        template.render_captured_to(context, &mut out)?;
        String::from_utf8(out.0)
            .map_err(|_| Error::new(ErrorKind::WriteFailure, "the text is not UTF-8"))
    };
    run().map_err(|e| message(&e))
}

/// What an error says, with the errors it comes from.
fn message(error: &Error) -> String {
    if error.kind() == ErrorKind::OutOfFuel {
        return format!(
            "it runs for more than {FUEL} instructions, or makes more than {} MiB of text",
            (FUEL * 64) >> 20
        );
    }
    let mut text = short(&error.to_string());
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let _ = write!(text, ": {}", short(&inner.to_string()));
        source = inner.source();
    }
    text
}

/// A text that does not grow without bound.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST {
            return Err(io::Error::other("the text is longer than 64 MiB"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `{% generation %}` marks what the model says, and changes no text.
fn without_generation(template: &str) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(begin) = rest.find("{%") {
        let (before, tag) = rest.split_at(begin);
        out.push_str(before);
        // `{%}` does not end itself.
        let Some(end) = tag[2..].find("%}") else {
            rest = tag;
            break;
        };
        let (tag, after) = tag.split_at(end + 4);
        let inner = &tag[2..tag.len() - 2];
        let name = inner.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
        match name {
            "generation" => out.push_str(&tag.replace(name, "if true")),
            "endgeneration" => out.push_str(&tag.replace(name, "endif")),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn environment<'a>(now: SystemTime) -> Result<Environment<'a>, Error> {
    let mut env = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build()?;
    env.set_syntax(syntax);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_fuel(Some(FUEL));
    env.set_unknown_method_callback(|state, value, name, args| {
        // What the method reads; the library counts what it returns.
        for read in std::iter::once(value).chain(args) {
            let size = read.as_str().map(str::len).or_else(|| read.len());
            state.consume_fuel(size.unwrap_or(0) as u64 / 64)?;
        }
        python::method(value, name, args)
    });
    env.set_formatter(|out, state, value| match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Number => {
            out.write_str(&python::text(value)?).map_err(Error::from)
        }
        _ => escape_formatter(out, state, value),
    });
    env.add_function(
        "raise_exception",
        |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        },
    );
    env.add_function("strftime_now", move |format: String| {
        strftime::format(&format, now)
    });
    env.add_filter("tojson", to_json);
    env.add_filter("string", python::text);
    env.add_test("sequence", is_sequence);
    env.add_test("iterable", is_iterable);
    Ok(env)
}

/// Jinja asks for a length and items by number, which texts and dictionaries have.
fn is_sequence(value: &Value) -> bool {
    value.is_undefined()
        || matches!(
            value.kind(),
            ValueKind::Seq | ValueKind::Map | ValueKind::String
        )
}

fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Python's `json.dumps`.
fn to_json(
    value: &Value,
    ensure_ascii: Option<Value>,
    indent: Option<Value>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let argument = |given: Option<Value>, name: &str| match given {
        Some(value) => Ok(Some(value)),
        None => kwargs.get::<Option<Value>>(name),
    };
    let ascii = argument(ensure_ascii, "ensure_ascii")?.is_some_and(|v| v.is_true());
    let indent = match argument(indent, "indent")?.filter(|v| !v.is_none()) {
        None => None,
        Some(value) => Some(match value.as_str() {
            Some(text) if text.len() <= 100 => text.to_string(),
            _ => {
                let spaces = value.as_usize().filter(|n| *n <= 100).ok_or_else(|| {
                    Error::new(
                        ErrorKind::InvalidOperation,
                        "tojson: indent is not a small number",
                    )
                })?;
                " ".repeat(spaces)
            }
        }),
    };
    let separators = match argument(None, "separators")?.filter(|v| !v.is_none()) {
        None => None,
        Some(pair) => {
            let part = |i: usize| pair.get_item_by_index(i).ok().and_then(|v| v.to_str());
            match (part(0), part(1)) {
                (Some(item), Some(key)) => Some((item.to_string(), key.to_string())),
                _ => {
                    return Err(Error::new(
                        ErrorKind::InvalidOperation,
                        "tojson: separators are not two texts",
                    ));
                }
            }
        }
    };
    let sort_keys = argument(None, "sort_keys")?.is_some_and(|v| v.is_true());
    kwargs.assert_all_used()?;
    let (item, key) = separators.unwrap_or_else(|| {
        let item = if indent.is_some() { "," } else { ", " };
        (item.to_string(), ": ".to_string())
    });
    let style = python::JsonStyle {
        ascii,
        indent,
        item,
        key,
        sort_keys,
    };
    let mut out = String::new();
    python::json(&mut out, value, &style, 0)?;
    Ok(out)
}
