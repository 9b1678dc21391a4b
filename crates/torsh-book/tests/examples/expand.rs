//! Macros by example, expanded from their source: what `macro_rules!` does, as far as the workspace's macros use it.
//!
//! Fragments are put in as the tokens they are, an expression in parentheses. That changes no item and no documentation.

use std::collections::HashMap;

use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream, Parser};

/// A part of a rule's pattern.
enum Pattern {
    Token(String),
    Group(Delimiter, Vec<Pattern>),
    Fragment(String, String),
    Repeat(Vec<Pattern>, Option<String>, char),
}

/// One `macro_rules!`.
pub struct Macro {
    /// The crate that defines it, which its `$crate` names.
    home: String,
    rules: Vec<(Vec<Pattern>, Vec<TokenTree>)>,
}

/// What a rule bound to a name: tokens, or one binding for each repetition.
#[derive(Clone)]
enum Bound {
    Tokens(Vec<TokenTree>),
    Repeated(Vec<Bound>),
}

type Bindings = HashMap<String, Bound>;

fn trees(tokens: TokenStream) -> Vec<TokenTree> {
    tokens.into_iter().collect()
}

fn is_punct(tree: Option<&TokenTree>, c: char) -> bool {
    matches!(tree, Some(TokenTree::Punct(p)) if p.as_char() == c)
}

impl Macro {
    /// Reads the body of a `macro_rules!`.
    pub fn new(home: &str, body: TokenStream) -> Macro {
        let tokens = trees(body);
        let rules = tokens
            .split(|t| is_punct(Some(t), ';'))
            .filter(|rule| !rule.is_empty())
            .map(|rule| match rule {
                [TokenTree::Group(pattern), _, _, TokenTree::Group(made)] => {
                    (patterns(&trees(pattern.stream())), trees(made.stream()))
                }
                _ => panic!("a rule of a macro of {home} is no `pattern => result`"),
            })
            .collect();
        let home = home.replace('-', "_");
        Macro { home, rules }
    }

    /// What the macro makes of `input`; `None` where no rule fits.
    pub fn expand(&self, input: TokenStream) -> Option<TokenStream> {
        let input = trees(input);
        self.rules.iter().find_map(|(pattern, made)| {
            let mut bindings = Bindings::new();
            let end = matches(pattern, &input, 0, &mut bindings)?;
            (end == input.len()).then(|| transcribe(made, &bindings, &self.home))
        })
    }
}

fn patterns(tokens: &[TokenTree]) -> Vec<Pattern> {
    let mut all = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        if !is_punct(tokens.get(i), '$') {
            all.push(match &tokens[i] {
                TokenTree::Group(g) => Pattern::Group(g.delimiter(), patterns(&trees(g.stream()))),
                t => Pattern::Token(t.to_string()),
            });
            i += 1;
            continue;
        }
        match &tokens[i + 1] {
            TokenTree::Group(g) => {
                let (separator, operator, end) = repetition(tokens, i + 2);
                all.push(Pattern::Repeat(
                    patterns(&trees(g.stream())),
                    separator,
                    operator,
                ));
                i = end;
            }
            name => {
                all.push(Pattern::Fragment(
                    name.to_string(),
                    tokens[i + 3].to_string(),
                ));
                i += 4;
            }
        }
    }
    all
}

/// Separator and operator of a repetition, and the position behind them.
fn repetition(tokens: &[TokenTree], at: usize) -> (Option<String>, char, usize) {
    let operator = |i: usize| match tokens.get(i) {
        Some(TokenTree::Punct(p)) if "*+?".contains(p.as_char()) => Some(p.as_char()),
        _ => None,
    };
    match operator(at) {
        Some(c) => (None, c, at + 1),
        None => {
            let c = operator(at + 1).expect("a repetition ends with *, + or ?");
            (Some(tokens[at].to_string()), c, at + 2)
        }
    }
}

/// Where the pattern ends that begins at `at`. Repetitions take what they can: `macro_rules!` accepts no pattern
/// that would have to give back.
fn matches(
    pattern: &[Pattern],
    input: &[TokenTree],
    mut at: usize,
    bindings: &mut Bindings,
) -> Option<usize> {
    for part in pattern {
        match part {
            Pattern::Token(t) => {
                let found = input.get(at)?;
                if matches!(found, TokenTree::Group(_)) || found.to_string() != *t {
                    return None;
                }
                at += 1;
            }
            Pattern::Group(delimiter, inner) => match input.get(at)? {
                TokenTree::Group(g) if g.delimiter() == *delimiter => {
                    let within = trees(g.stream());
                    if matches(inner, &within, 0, bindings)? != within.len() {
                        return None;
                    }
                    at += 1;
                }
                _ => return None,
            },
            Pattern::Fragment(name, kind) => {
                let end = at + fragment(kind, &input[at..])?;
                let tokens = &input[at..end];
                let bound = match kind.as_str() {
                    // One operand, as the compiler has it: `$e as u8` of a sum is a cast of the sum.
                    "expr" if tokens.len() > 1 => {
                        let tokens = tokens.iter().cloned().collect();
                        vec![TokenTree::Group(Group::new(Delimiter::Parenthesis, tokens))]
                    }
                    _ => tokens.to_vec(),
                };
                bindings.insert(name.clone(), Bound::Tokens(bound));
                at = end;
            }
            Pattern::Repeat(inner, separator, operator) => {
                let mut rounds: Vec<Bindings> = Vec::new();
                loop {
                    let mut start = at;
                    if let (Some(s), false) = (separator, rounds.is_empty()) {
                        if input.get(at).is_none_or(|t| t.to_string() != *s) {
                            break;
                        }
                        start += 1;
                    }
                    let mut round = Bindings::new();
                    match matches(inner, input, start, &mut round) {
                        Some(end) if end > at => at = end,
                        _ => break,
                    }
                    rounds.push(round);
                    if *operator == '?' {
                        break;
                    }
                }
                if *operator == '+' && rounds.is_empty() {
                    return None;
                }
                for name in names(inner) {
                    let each = rounds.iter().map(|r| r[&name].clone()).collect();
                    bindings.insert(name, Bound::Repeated(each));
                }
            }
        }
    }
    Some(at)
}

/// The names that a pattern binds.
fn names(pattern: &[Pattern]) -> Vec<String> {
    let mut all = Vec::new();
    for part in pattern {
        match part {
            Pattern::Token(_) => {}
            Pattern::Fragment(name, _) => all.push(name.clone()),
            Pattern::Group(_, inner) | Pattern::Repeat(inner, ..) => all.extend(names(inner)),
        }
    }
    all
}

/// How many tokens a fragment of this kind takes.
fn fragment(kind: &str, input: &[TokenTree]) -> Option<usize> {
    let Some(first) = input.first() else {
        return (kind == "vis").then_some(0);
    };
    match kind {
        "ident" => matches!(first, TokenTree::Ident(_)).then_some(1),
        "tt" => Some(token_tree(input)),
        "lifetime" => is_punct(Some(first), '\'').then_some(2),
        "block" => {
            matches!(first, TokenTree::Group(g) if g.delimiter() == Delimiter::Brace).then_some(1)
        }
        "literal" => match first {
            TokenTree::Literal(_) => Some(1),
            TokenTree::Ident(i) => (i == "true" || i == "false").then_some(1),
            t if is_punct(Some(t), '-') => {
                matches!(input.get(1), Some(TokenTree::Literal(_))).then_some(2)
            }
            _ => None,
        },
        "expr" => parsed::<syn::Expr>(input),
        "ty" => parsed::<syn::Type>(input),
        "pat" => parsed_by(syn::Pat::parse_multi, input),
        "pat_param" => parsed_by(syn::Pat::parse_single, input),
        "path" => parsed::<syn::Path>(input),
        "meta" => parsed::<syn::Meta>(input),
        "vis" => parsed::<syn::Visibility>(input),
        "item" => parsed::<syn::Item>(input),
        other => panic!("no macro had a fragment of the kind {other} yet"),
    }
}

/// A token tree as the compiler sees it: `=>` and `'a` are one.
fn token_tree(input: &[TokenTree]) -> usize {
    let punct = |i: usize| match input.get(i) {
        Some(TokenTree::Punct(p)) => Some((p.as_char(), p.spacing())),
        _ => None,
    };
    let Some((first, Spacing::Joint)) = punct(0) else {
        return 1;
    };
    if first == '\'' {
        return 2;
    }
    let text: String = [Some(first), punct(1).map(|p| p.0), punct(2).map(|p| p.0)]
        .iter()
        .flatten()
        .collect();
    const LONG: [&str; 25] = [
        "..=", "...", "<<=", ">>=", "=>", "->", "::", "..", "&&", "||", "==", "!=", "<=", ">=",
        "<<", ">>", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<-",
    ];
    LONG.iter()
        .find(|o| text.starts_with(**o))
        .map_or(1, |o| o.len())
}

fn parsed<T: Parse>(input: &[TokenTree]) -> Option<usize> {
    parsed_by(T::parse, input)
}

fn parsed_by<T>(
    parse: fn(ParseStream<'_>) -> syn::Result<T>,
    input: &[TokenTree],
) -> Option<usize> {
    let rest = |stream: ParseStream<'_>| {
        parse(stream)?;
        Ok(stream.parse::<TokenStream>()?.into_iter().count())
    };
    let tokens: TokenStream = input.iter().cloned().collect();
    rest.parse2(tokens).ok().map(|left| input.len() - left)
}

fn transcribe(made: &[TokenTree], bindings: &Bindings, home: &str) -> TokenStream {
    let mut out = TokenStream::new();
    let mut i = 0;
    while i < made.len() {
        let next = made.get(i + 1);
        match (&made[i], next) {
            (TokenTree::Group(g), _) => {
                let inner = transcribe(&trees(g.stream()), bindings, home);
                out.extend([TokenTree::Group(Group::new(g.delimiter(), inner))]);
                i += 1;
            }
            (t, Some(TokenTree::Ident(name))) if is_punct(Some(t), '$') => {
                match bindings.get(&name.to_string()) {
                    Some(Bound::Tokens(tokens)) => out.extend(tokens.iter().cloned()),
                    Some(Bound::Repeated(_)) => panic!("${name} is repeated, but used once"),
                    None if name == "crate" => {
                        out.extend([TokenTree::Ident(Ident::new(home, Span::call_site()))]);
                    }
                    None => out.extend([made[i].clone(), made[i + 1].clone()]),
                }
                i += 2;
            }
            (t, Some(TokenTree::Group(g))) if is_punct(Some(t), '$') => {
                let inner = trees(g.stream());
                let (separator, _, end) = repetition(made, i + 2);
                let used = used_names(&inner, bindings);
                let count = used.iter().find_map(|n| match &bindings[n] {
                    Bound::Repeated(each) => Some(each.len()),
                    Bound::Tokens(_) => None,
                });
                for round in 0..count.expect("a repetition uses a repeated name") {
                    let own = used.iter().map(|name| match &bindings[name] {
                        Bound::Repeated(each) => (name.clone(), each[round].clone()),
                        tokens => (name.clone(), tokens.clone()),
                    });
                    let own = own.collect();
                    if let (Some(s), true) = (&separator, round > 0) {
                        out.extend(s.parse::<TokenStream>().expect("a separator is a token"));
                    }
                    out.extend(transcribe(&inner, &own, home));
                }
                i = end;
            }
            (t, _) => {
                t.to_tokens(&mut out);
                i += 1;
            }
        }
    }
    out
}

/// The bound names that these tokens use.
fn used_names(tokens: &[TokenTree], bindings: &Bindings) -> Vec<String> {
    let mut all = Vec::new();
    for (i, t) in tokens.iter().enumerate() {
        match t {
            TokenTree::Group(g) => all.extend(used_names(&trees(g.stream()), bindings)),
            TokenTree::Ident(name) if i > 0 && is_punct(tokens.get(i - 1), '$') => {
                let name = name.to_string();
                if bindings.contains_key(&name) {
                    all.push(name);
                }
            }
            _ => {}
        }
    }
    all
}
