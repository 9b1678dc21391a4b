//! What is printed.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use serde_json::{Value, json};
use torsh_tensor::{Result, TorshError};

/// Prints a text, or an object in its place. A reader that has seen enough is no error.
pub(crate) fn print(text: &str, object: &Value, as_json: bool) -> Result<ExitCode> {
    let out = match as_json {
        true => format!("{object:#}\n"),
        false => text.to_string(),
    };
    let mut to = std::io::stdout().lock();
    match to.write_all(out.as_bytes()).and_then(|()| to.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// What happened, and what to do about it, without the place in the library.
fn parts(e: &TorshError) -> (String, Option<String>) {
    match (e, e.info()) {
        (TorshError::Io(e), _) => {
            let text = e.to_string();
            match text.split_once("\n  hint: ") {
                Some((what, hint)) => (what.to_string(), Some(hint.to_string())),
                None => (text, None),
            }
        }
        (_, Some(info)) => {
            let text = match info.op.is_empty() {
                true => info.message.clone(),
                false => format!("{}: {}", info.op, info.message),
            };
            (text, info.hint.clone())
        }
        (e, None) => (e.to_string(), None),
    }
}

/// Prints an error, to standard output where that is JSON.
pub(crate) fn error(e: &TorshError, as_json: bool) {
    let (what, hint) = parts(e);
    if as_json {
        // Nobody is left to tell where this fails.
        let _ = print("", &json!({ "error": what, "hint": hint }), true);
        return;
    }
    eprintln!("error: {what}");
    if let Some(hint) = hint {
        eprintln!("hint: {hint}");
    }
}

/// A number of bytes for people.
pub(crate) fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            return match unit {
                "B" => format!("{n} B"),
                _ if value < 9.95 => format!("{value:.1} {unit}"),
                _ => format!("{value:.0} {unit}"),
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// Columns that are as wide as their longest text; the last column is not filled up.
pub(crate) fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        for (i, cell) in row.iter().enumerate() {
            let width = cell.chars().count();
            match widths.get_mut(i) {
                Some(w) => *w = (*w).max(width),
                None => widths.push(width),
            }
        }
    }
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(i, cell)| {
            let width = widths[i];
            match right.contains(&i) {
                true => format!("{cell:>width$}"),
                false => format!("{cell:width$}"),
            }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
