//! `names_caller`: an error that comes out of a function names the function's caller as its place.

use proc_macro2::{Delimiter, Group, Ident, Punct, Spacing, TokenStream, TokenTree};
use quote::{format_ident, quote};

/// The function as one that calls another with its body, and puts the caller's place into its error.
///
/// Both are `#[track_caller]`, so that the body sees the caller too. The second function is a method, with `Self` as
/// `argument` an associated function, and otherwise within the first. That of a trait's implementation is a closure, which
/// sees no caller, because the trait has no other methods.
///
/// The tokens are walked, not parsed: thousands of functions have the attribute.
pub(crate) fn names_caller(
    argument: TokenStream,
    function: TokenStream,
) -> Result<TokenStream, &'static str> {
    let mut trees: Vec<TokenTree> = function.into_iter().collect();
    let body = match trees.pop() {
        Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Brace => g,
        _ => return Err("names_caller belongs to a function with a body"),
    };
    let (attributes, rest) = attributes(&trees);
    let parts = parts(rest).ok_or("names_caller belongs to a function with a result")?;
    let public = rest.iter().take(parts.name).any(|t| is_word(t, "pub"));
    let Some((of_self, names, plain)) = arguments(&parts.parameters).filter(|_| public) else {
        // A closure cannot say that it returns some type that has a trait.
        let returned = match parts.returned.iter().any(|t| mentions(t, "impl")) {
            true => TokenStream::new(),
            false => {
                let returned = parts.returned.iter().cloned().collect::<TokenStream>();
                quote!(-> #returned)
            }
        };
        let run = quote!(::torsh_tensor::at_caller(move || #returned #body));
        let rest = rest.iter();
        return Ok(quote!(#(#attributes)* #[track_caller] #(#rest)* { #run }));
    };
    let name = inner_name(&rest[parts.name]);
    let associated = of_self || !argument.is_empty();
    // The word of the parameter itself: one of another macro's rule is another word.
    let own = parts
        .parameters
        .stream()
        .into_iter()
        .find(|t| is_word(t, "self"));
    let call = match (of_self, associated) {
        (true, _) => quote!(#own.#name(#(#names),*)),
        (false, true) => quote!(Self::#name(#(#names),*)),
        (false, false) => quote!(#name(#(#names),*)),
    };
    let inner = rest.iter().enumerate().map(|(i, t)| match i == parts.name {
        true => TokenTree::Ident(name.clone()),
        false => t.clone(),
    });
    let inner = inner.skip(parts.visibility);
    let kept = attributes.iter().filter(|a| matters_within(a));
    let inner = quote!(#(#kept)* #[track_caller] #(#inner)* #body);
    let (within, beside) = match associated {
        true => (None, Some(inner)),
        false => (Some(inner), None),
    };
    let outer = rest.iter().enumerate().map(|(i, t)| match i == parts.at {
        true => TokenTree::Group(plain.clone()),
        false => t.clone(),
    });
    Ok(quote! {
        #(#attributes)* #[track_caller] #(#outer)* {
            #within
            let caller = ::core::panic::Location::caller();
            #call.map_err(|e| e.at(caller))
        }
        #beside
    })
}

/// The attributes ahead of an item, and the item.
pub(crate) fn attributes(trees: &[TokenTree]) -> (Vec<TokenStream>, &[TokenTree]) {
    let (mut all, mut rest) = (Vec::new(), trees);
    while let [TokenTree::Punct(p), group @ TokenTree::Group(_), more @ ..] = rest {
        if p.as_char() != '#' {
            break;
        }
        all.push(quote!(#p #group));
        rest = more;
    }
    (all, rest)
}

pub(crate) fn first_word(attribute: &TokenStream) -> String {
    match attribute.clone().into_iter().nth(1) {
        Some(TokenTree::Group(g)) => match g.stream().into_iter().next() {
            Some(TokenTree::Ident(i)) => i.to_string(),
            _ => String::new(),
        },
        _ => String::new(),
    }
}

/// Whether an attribute is about the body too.
fn matters_within(attribute: &TokenStream) -> bool {
    ["allow", "expect", "cfg"].contains(&first_word(attribute).as_str())
}

fn inner_name(name: &TokenTree) -> Ident {
    let text = name.to_string();
    format_ident!("__{}", text.trim_start_matches("r#"), span = name.span())
}

pub(crate) fn is_word(t: &TokenTree, word: &str) -> bool {
    matches!(t, TokenTree::Ident(i) if i == word)
}

fn mentions(t: &TokenTree, word: &str) -> bool {
    match t {
        TokenTree::Group(g) => g.stream().into_iter().any(|t| mentions(&t, word)),
        t => is_word(t, word),
    }
}

/// Where the parts of a signature are.
pub(crate) struct Parts<'a> {
    /// How many tokens say who sees the function.
    visibility: usize,
    pub(crate) name: usize,
    /// Where the parameters are.
    pub(crate) at: usize,
    pub(crate) parameters: Group,
    /// The type behind the arrow, without `where`.
    returned: &'a [TokenTree],
}

pub(crate) fn parts(signature: &[TokenTree]) -> Option<Parts<'_>> {
    let name = signature.iter().position(|t| is_word(t, "fn"))? + 1;
    let visibility = match signature {
        [public, TokenTree::Group(g), ..]
            if is_word(public, "pub") && g.delimiter() == Delimiter::Parenthesis =>
        {
            2
        }
        [public, ..] if is_word(public, "pub") => 1,
        _ => 0,
    };
    // The parameters are the first parentheses outside of the generics.
    let mut at = name + 1;
    let mut depth = 0_usize;
    let mut arrow = false;
    let parameters = loop {
        match signature.get(at)? {
            TokenTree::Group(g) if depth == 0 && g.delimiter() == Delimiter::Parenthesis => {
                break g.clone();
            }
            TokenTree::Punct(p) => {
                match p.as_char() {
                    '<' => depth += 1,
                    '>' if !arrow => depth = depth.checked_sub(1)?,
                    _ => {}
                }
                arrow = is_dash(p);
            }
            _ => arrow = false,
        }
        at += 1;
    };
    let behind = signature.get(at + 1..)?;
    let end = behind.iter().position(|t| is_word(t, "where"));
    let returned = match behind {
        [TokenTree::Punct(p), TokenTree::Punct(_), ..] if is_dash(p) => {
            behind.get(2..end.unwrap_or(behind.len()))?
        }
        _ => return None,
    };
    Some(Parts {
        visibility,
        name,
        at,
        parameters,
        returned,
    })
}

/// Whether this begins an arrow.
fn is_dash(p: &Punct) -> bool {
    p.as_char() == '-' && p.spacing() == Spacing::Joint
}

/// Whether the first parameter is `self`; the names of the others; and the parameters without `mut`. `None` where one is
/// not a plain name.
pub(crate) fn arguments(parameters: &Group) -> Option<(bool, Vec<Ident>, Group)> {
    let trees: Vec<TokenTree> = parameters.stream().into_iter().collect();
    let (mut of_self, mut names, mut plain) = (false, Vec::new(), Vec::new());
    let mut start = 0;
    while start < trees.len() {
        let end = end_of_parameter(&trees, start);
        let parameter = &trees[start..end];
        let colon = parameter
            .iter()
            .position(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ':'));
        let pattern = &parameter[..colon.unwrap_or(parameter.len())];
        let is_self = pattern.last().is_some_and(|t| is_word(t, "self"));
        let kept = match pattern {
            _ if is_self && start == 0 => {
                of_self = true;
                // `mut self`, but not `&mut self`.
                usize::from(is_word(&pattern[0], "mut"))
            }
            [TokenTree::Ident(name)] => {
                names.push(name.clone());
                0
            }
            [word, TokenTree::Ident(name)] if is_word(word, "mut") => {
                names.push(name.clone());
                1
            }
            _ => return None,
        };
        plain.extend_from_slice(&parameter[kept..]);
        plain.extend(trees.get(end).cloned());
        start = end + 1;
    }
    let plain = Group::new(Delimiter::Parenthesis, plain.into_iter().collect());
    Some((of_self, names, plain))
}

/// Where the comma behind a parameter is.
pub(crate) fn end_of_parameter(trees: &[TokenTree], start: usize) -> usize {
    let (mut depth, mut arrow, mut at) = (0_usize, false, start);
    while let Some(t) = trees.get(at) {
        if let TokenTree::Punct(p) = t {
            match p.as_char() {
                ',' if depth == 0 => break,
                '<' => depth += 1,
                '>' if !arrow => depth = depth.saturating_sub(1),
                _ => {}
            }
            arrow = is_dash(p);
        } else {
            arrow = false;
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_with(argument: &str, function: &str) -> Result<String, &'static str> {
        let tokens = |text: &str| text.parse::<TokenStream>().expect("tokens");
        let made = names_caller(tokens(argument), tokens(function))?;
        Ok(made.to_string().replace(' ', ""))
    }

    fn made(function: &str) -> Result<String, &'static str> {
        made_with("", function)
    }

    const PLACE: &str = "letcaller=::core::panic::Location::caller();";

    #[test]
    fn a_method_calls_another() {
        let of = made(
            "#[must_use] #[allow(x)] pub fn f<F: Fn(i32) -> Vec<u8>>(&self, mut g: F) -> Result<Self> where F: Send { g()?; h() }",
        );
        let want = format!(
            "#[must_use]#[allow(x)]#[track_caller]pubfnf<F:Fn(i32)->Vec<u8>>(&self,g:F)->Result<Self>whereF:Send\
             {{{PLACE}self.__f(g).map_err(|e|e.at(caller))}}\
             #[allow(x)]#[track_caller]fn__f<F:Fn(i32)->Vec<u8>>(&self,mutg:F)->Result<Self>whereF:Send{{g()?;h()}}"
        );
        assert_eq!(of, Ok(want));
    }

    #[test]
    fn a_function_has_another_within() {
        let of = made("pub fn f(a: i32, (b): i32) -> Result<i32> { g(a) }");
        let closure = "#[track_caller]pubfnf(a:i32,(b):i32)->Result<i32>\
                       {::torsh_tensor::at_caller(move||->Result<i32>{g(a)})}";
        assert_eq!(of.as_deref(), Ok(closure), "b is no plain name");
        let of = made("pub fn f(a: &[i32],) -> Result<i32> { g(a) }");
        let want = format!(
            "#[track_caller]pubfnf(a:&[i32],)->Result<i32>{{#[track_caller]fn__f(a:&[i32],)->Result<i32>{{g(a)}}\
             {PLACE}__f(a).map_err(|e|e.at(caller))}}"
        );
        assert_eq!(of, Ok(want));
        let of = made_with("Self", "pub fn new(mut a: i32) -> Result<Self> { g(a) }");
        let want = format!(
            "#[track_caller]pubfnnew(a:i32)->Result<Self>{{{PLACE}Self::__new(a).map_err(|e|e.at(caller))}}\
             #[track_caller]fn__new(muta:i32)->Result<Self>{{g(a)}}"
        );
        assert_eq!(of, Ok(want));
    }

    #[test]
    fn a_method_of_a_trait_runs_a_closure() {
        let of = made("fn f(&self) -> Result<impl Iterator> { g() }");
        let want = "#[track_caller]fnf(&self)->Result<implIterator>\
                    {::torsh_tensor::at_caller(move||{g()})}";
        assert_eq!(of.as_deref(), Ok(want));
    }

    #[test]
    fn others_are_refused() {
        assert!(made("fn f() { g() }").is_err());
        assert!(made("fn f() -> Result<()>;").is_err());
        assert!(made("struct S { a: i32 }").is_err());
    }
}
