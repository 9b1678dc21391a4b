//! `names_caller`: an error that comes out of a function names the function's caller as its place.

use proc_macro2::{Delimiter, Group, Punct, Spacing, TokenStream, TokenTree};
use quote::quote;

/// The function with its body run by `at_caller`, and `#[track_caller]`.
///
/// The tokens are walked, not parsed: hundreds of functions have the attribute.
pub(crate) fn names_caller(function: TokenStream) -> Result<TokenStream, &'static str> {
    let mut trees: Vec<TokenTree> = function.into_iter().collect();
    let body = match trees.pop() {
        Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Brace => g,
        _ => return Err("names_caller belongs to a function with a body"),
    };
    let returned = returned(&trees).ok_or("names_caller belongs to a function with a result")?;
    // A closure cannot say that it returns some type that has a trait.
    let says = |t: &TokenTree| matches!(t, TokenTree::Ident(i) if i == "impl");
    let returned = match returned.iter().any(contains(&says)) {
        true => TokenStream::new(),
        false => {
            let returned = returned.iter().cloned().collect::<TokenStream>();
            quote!(-> #returned)
        }
    };
    let run = quote!(::torsh_tensor::at_caller(move || #returned #body));
    let mut whole = quote!(#[track_caller]);
    whole.extend(trees);
    let mut run = Group::new(Delimiter::Brace, run);
    run.set_span(body.span());
    whole.extend([TokenTree::Group(run)]);
    Ok(whole)
}

fn contains(is: &dyn Fn(&TokenTree) -> bool) -> impl Fn(&TokenTree) -> bool + '_ {
    move |tree| match tree {
        TokenTree::Group(g) => g.stream().into_iter().any(|t| contains(is)(&t)),
        t => is(t),
    }
}

/// The type behind the arrow of a signature, without its `where`.
fn returned(signature: &[TokenTree]) -> Option<&[TokenTree]> {
    let is_fn = |t: &TokenTree| matches!(t, TokenTree::Ident(i) if i == "fn");
    let mut at = signature.iter().position(is_fn)? + 1;
    // The parameters are the first parentheses outside of the generics.
    let mut depth = 0_usize;
    let mut arrow = false;
    loop {
        match signature.get(at)? {
            TokenTree::Group(g) if depth == 0 && g.delimiter() == Delimiter::Parenthesis => break,
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
    }
    let behind = signature.get(at + 1..)?;
    let is_where = |t: &TokenTree| matches!(t, TokenTree::Ident(i) if i == "where");
    let end = behind.iter().position(is_where).unwrap_or(behind.len());
    match behind {
        [TokenTree::Punct(p), TokenTree::Punct(_), ..] if is_dash(p) => behind.get(2..end),
        _ => None,
    }
}

/// Whether this begins an arrow.
fn is_dash(p: &Punct) -> bool {
    p.as_char() == '-' && p.spacing() == Spacing::Joint
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(function: &str) -> Result<String, &'static str> {
        let tokens = function.parse().expect("tokens");
        names_caller(tokens).map(|t| t.to_string().replace(' ', ""))
    }

    #[test]
    fn the_body_runs_inside_of_a_closure() {
        let of = made("pub fn f<F: Fn(i32) -> Vec<u8>>(&self, f: F) -> Result<Self> where F: Send { g()?; h() }");
        let want = "#[track_caller]pubfnf<F:Fn(i32)->Vec<u8>>(&self,f:F)->Result<Self>whereF:Send\
                    {::torsh_tensor::at_caller(move||->Result<Self>{g()?;h()})}";
        assert_eq!(of.as_deref(), Ok(want));
        let of = made("fn f() -> Result<impl Iterator> { g() }");
        let want = "#[track_caller]fnf()->Result<implIterator>\
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
