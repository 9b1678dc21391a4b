//! Documentation of a method rewritten for its free function.

/// Calls of the method in an example as calls of the function: `x.sum()?` becomes `F::sum(&x)?`. The names are the method's
/// and the function's. Counts the calls.
///
/// Lines that are hidden from the reader stay as they are.
pub(crate) fn as_function(
    code: &str,
    of: &str,
    [method, function]: [&str; 2],
    of_self: bool,
) -> (String, usize) {
    let mut count = 0;
    let mut code = code.to_string();
    let from = match of_self {
        true => format!(".{method}("),
        false => format!("{of}::{method}("),
    };
    let mut at = 0;
    while let Some(found) = code[at..].find(&from) {
        let found = at + found;
        let open = found + from.len();
        let start = match of_self {
            true => receiver(&code, found),
            false => found,
        };
        let line = code[..found].rfind('\n').map_or(0, |i| i + 1);
        if start == found && of_self || code[line..].trim_start().starts_with("# ") {
            at = open;
            continue;
        }
        count += 1;
        let call = if of_self {
            let behind = match code[open..].trim_start().starts_with(')') {
                true => "",
                false => ", ",
            };
            let of = code[start..found].trim_end();
            format!("F::{function}(&{of}{behind}")
        } else {
            format!("F::{function}(")
        };
        code.replace_range(start..open, &call);
        at = start + call.len();
    }
    (code, count)
}

/// Where the expression begins whose method is called at `end`; `end` where there is none.
fn receiver(code: &str, end: usize) -> usize {
    let text = code.as_bytes();
    let is_word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let blank = |mut at: usize| {
        while at > 0 && text[at - 1].is_ascii_whitespace() {
            at -= 1;
        }
        at
    };
    let mut start = end;
    loop {
        // What ends here: a question mark, brackets, a name.
        let mut at = blank(start);
        while at > 0 && text[at - 1] == b'?' {
            at -= 1;
        }
        let before = at;
        while at > 0 && matches!(text[at - 1], b')' | b']' | b'>') {
            let Some(open) = opening(text, at) else {
                return end;
            };
            at = open;
            if at > 0 && text[at - 1] == b'!' {
                at -= 1;
            }
            if at > 1 && &text[at - 2..at] == b"::" {
                at -= 2;
            }
        }
        while at > 0 && is_word(text[at - 1]) {
            at -= 1;
        }
        if at == before && text.get(at) != Some(&b'?') {
            return start;
        }
        start = at;
        // What it is a part of: a path or another method's result.
        if start > 1 && &text[start - 2..start] == b"::" {
            start -= 2;
        } else if blank(start) > 0 && text[blank(start) - 1] == b'.' {
            start = blank(start) - 1;
        } else {
            return start;
        }
    }
}

/// Where the bracket opens that closes before `end`.
fn opening(text: &[u8], end: usize) -> Option<usize> {
    let mut depth = 0usize;
    for at in (0..end).rev() {
        match text[at] {
            b')' | b']' | b'>' => depth += 1,
            b'(' | b'[' | b'<' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// A line of text about a method as one about the function: `input` is this tensor, and functions of this block are meant
/// without their type.
pub(crate) fn free(line: &str, of: &str, first: &str, names: &[(String, String)]) -> String {
    let mut line = line.to_string();
    for (method, function) in names {
        line = line.replace(&format!("[`{of}::{method}`]"), &format!("[`{function}`]"));
    }
    line.replace("This tensor", &format!("`{first}`"))
        .replace("this tensor", &format!("`{first}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(code: &str) -> String {
        as_function(code, "Tensor", ["f"; 2], true).0
    }

    #[test]
    fn receivers() {
        assert_eq!(made("let y = x.f()?;"), "let y = F::f(&x)?;");
        assert_eq!(
            made("assert_eq!(tensor![[1, 2]].f(2, a.b())?, y);"),
            "assert_eq!(F::f(&tensor![[1, 2]], 2, a.b())?, y);"
        );
        assert_eq!(made("x.f()?.f(1)?"), "F::f(&F::f(&x)?, 1)?");
        assert_eq!(
            made("let y = Tensor::from_data::<i32>(&[1], [1])?.g(x)\n    .f(1)?;"),
            "let y = F::f(&Tensor::from_data::<i32>(&[1], [1])?.g(x), 1)?;"
        );
        assert_eq!(made("assert!(!x.f()?);"), "assert!(!F::f(&x)?);");
        assert_eq!(made("let y = &a.b[0].f()?;"), "let y = &F::f(&a.b[0])?;");
        assert_eq!(made("(a + b)?.f()"), "F::f(&(a + b)?)");
        assert_eq!(
            made(" # let y = x.f()?;\n x.f()"),
            " # let y = x.f()?;\n F::f(&x)"
        );
        assert_eq!(made("x.ff()"), "x.ff()");
    }

    #[test]
    fn texts() {
        let names = ["sum", "total"].map(String::from);
        let names = [names.into()];
        assert_eq!(
            free(
                "[`Tensor::sum`] and [`Tensor::g`] of this tensor.",
                "Tensor",
                "input",
                &names
            ),
            "[`total`] and [`Tensor::g`] of `input`."
        );
    }
}
