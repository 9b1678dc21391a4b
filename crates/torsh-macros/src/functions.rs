//! `functions`: the free functions of methods.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

use crate::caller::{Parts, arguments, attributes, end_of_parameter, first_word, is_word, parts};
use crate::example::{as_function, free};

/// The block as it is, and behind it a module, `functions` where it has no name, with a free function for each method that
/// is marked `#[function]`.
pub(crate) fn functions(module: TokenStream, block: TokenStream) -> Result<TokenStream, String> {
    let module = match module.is_empty() {
        true => quote!(functions),
        false => module,
    };
    let mut trees: Vec<TokenTree> = block.into_iter().collect();
    let body = match trees.pop() {
        Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Brace => g,
        _ => return Err("functions belongs to an impl block".into()),
    };
    let of = match trees.last() {
        Some(TokenTree::Ident(name)) => name.clone(),
        _ => return Err("functions belongs to the impl block of a type without parameters".into()),
    };
    let (mut items, mut made) = (TokenStream::new(), TokenStream::new());
    let mut methods = Vec::new();
    for item in split(body.stream()) {
        let (all, rest) = attributes(&item);
        let all = all.into_iter().map(|a| flat(a).into_iter().collect());
        let (marks, kept): (Vec<TokenStream>, Vec<TokenStream>) =
            all.partition(|a| first_word(a) == "function");
        items.extend(quote!(#(#kept)* #(#rest)*));
        if let Some(mark) = marks.into_iter().next() {
            methods.push((mark, kept, rest.to_vec()));
        }
    }
    let names: Vec<String> = methods
        .iter()
        .filter_map(|(_, _, rest)| Some(rest.get(parts(rest)?.name)?.to_string()))
        .collect();
    let mut of_functions = Vec::new();
    for ((mark, kept, rest), name) in methods.iter().zip(&names) {
        let mark = Mark::read(mark).map_err(|e| format!("#[function] of `{name}`: {e}"))?;
        of_functions.push(mark.name.as_ref().map_or(name.clone(), Ident::to_string));
        made.extend(function(&of, &mark, kept, rest, &names)?);
    }
    let body = Group::new(Delimiter::Brace, items);
    Ok(quote! {
        #(#trees)* #body

        pub(crate) mod #module {
            #[allow(unused_imports)]
            use super::*;

            /// The functions of this module.
            pub(crate) const NAMES: &[&str] = &[#(#of_functions),*];

            #made
        }
    })
}

/// The items of a block: each ends with its body or with a semicolon.
fn split(body: TokenStream) -> Vec<Vec<TokenTree>> {
    let (mut items, mut item) = (Vec::new(), Vec::new());
    for t in body {
        let ends = match &t {
            TokenTree::Group(g) => g.delimiter() == Delimiter::Brace,
            TokenTree::Punct(p) => p.as_char() == ';',
            _ => false,
        };
        item.push(t);
        if ends {
            items.push(std::mem::take(&mut item));
        }
    }
    items.extend((!item.is_empty()).then_some(item));
    items
}

/// What a mark says: `#[function(name = other, input = query, operand)]`.
struct Mark {
    /// The function's name, where it is not the method's.
    name: Option<Ident>,
    /// The name of the first argument, in the place of `self`.
    input: Ident,
    /// Whether the first argument may be a number.
    operand: bool,
}

impl Mark {
    fn read(attribute: &TokenStream) -> Result<Mark, String> {
        let mut mark = Mark {
            name: None,
            input: Ident::new("input", Span::call_site()),
            operand: false,
        };
        let Some(TokenTree::Group(brackets)) = attribute.clone().into_iter().nth(1) else {
            return Ok(mark);
        };
        let Some(TokenTree::Group(inner)) = brackets.stream().into_iter().nth(1) else {
            return Ok(mark);
        };
        let words: Vec<TokenTree> = inner.stream().into_iter().collect();
        for word in words.split(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ',')) {
            match word {
                [] => {}
                [key, TokenTree::Punct(_), TokenTree::Ident(value)] if is_word(key, "name") => {
                    mark.name = Some(value.clone());
                }
                [key, TokenTree::Punct(_), TokenTree::Ident(value)] if is_word(key, "input") => {
                    mark.input = value.clone();
                }
                [key] if is_word(key, "operand") => mark.operand = true,
                _ => return Err("it takes `name = f`, `input = x` and `operand`".into()),
            }
        }
        Ok(mark)
    }
}

/// The free function of a method, whose tensor is its first argument: `input`, or what the mark says.
fn function(
    of: &Ident,
    mark: &Mark,
    kept: &[TokenStream],
    method: &[TokenTree],
    names: &[String],
) -> Result<TokenStream, String> {
    let refuse = |why: &str| {
        let end = method.len().min(8);
        let start: TokenStream = method[..end].iter().cloned().collect();
        format!("#[function] of `{start}`: {why}")
    };
    let body = method.len().saturating_sub(1);
    let sig = flat(method[..body].iter().cloned().collect());
    let parts = parts(&sig).ok_or_else(|| refuse("it has no result"))?;
    let name = match &sig[parts.name] {
        TokenTree::Ident(i) => i.clone(),
        _ => return Err(refuse("it has no name")),
    };
    let (of_self, passed, plain) =
        arguments(&parts.parameters).ok_or_else(|| refuse("a parameter is not a plain name"))?;
    let first = &mark.input;
    let call = match of_self {
        true => quote!(#first.#name(#(#passed),*)),
        false => quote!(#of::#name(#(#passed),*)),
    };
    let (caller, call) = match mark.operand {
        true => (
            quote!(torsh_tensor::names_caller),
            quote! {
                let operand: ::torsh_tensor::Operand<'_> = #first.into();
                let held;
                let #first = match &operand {
                    ::torsh_tensor::Operand::Ref(t) => *t,
                    ::torsh_tensor::Operand::Owned(t) => t,
                    ::torsh_tensor::Operand::Number(_) => {
                        held = operand.to_tensor()?;
                        &held
                    }
                };
                #call
            },
        ),
        false => (quote!(track_caller), call),
    };
    let plain = match of_self {
        true => behind_self(of, mark, &plain),
        false => plain,
    };
    let docs = documentation(kept, of, &name, mark, of_self, names).map_err(|e| refuse(&e))?;
    let signature = signature(sig.clone(), &parts, mark, plain);
    let signature = signature.into_iter().map(|t| named(t, of));
    let others = kept
        .iter()
        .filter(|a| ["allow", "expect", "cfg", "must_use"].contains(&first_word(a).as_str()));
    Ok(quote_spanned! {name.span()=>
        #docs
        #(#others)*
        #[#caller]
        #(#signature)* {
            #call
        }
    })
}

/// The tokens without the invisible brackets that a `macro_rules` puts around what it was given.
fn flat(tokens: TokenStream) -> Vec<TokenTree> {
    let mut trees = Vec::new();
    for t in tokens {
        match t {
            TokenTree::Group(g) if g.delimiter() == Delimiter::None => {
                trees.extend(flat(g.stream()));
            }
            TokenTree::Group(g) => {
                let inner = flat(g.stream()).into_iter().collect();
                trees.push(TokenTree::Group(Group::new(g.delimiter(), inner)));
            }
            t => trees.push(t),
        }
    }
    trees
}

/// The parameters with a tensor in the place of `&self`.
fn behind_self(of: &Ident, mark: &Mark, plain: &Group) -> Group {
    let first = &mark.input;
    let first = match mark.operand {
        true => quote!(#first: impl Into<::torsh_tensor::Operand<'operand>>),
        false => quote!(#first: &#of),
    };
    let trees: Vec<TokenTree> = plain.stream().into_iter().collect();
    let rest = trees.get(end_of_parameter(&trees, 0) + 1..).unwrap_or(&[]);
    let parameters = match rest {
        [] => first,
        rest => quote!(#first, #(#rest)*),
    };
    Group::new(Delimiter::Parenthesis, parameters)
}

/// The method's signature with the function's name, parameters and lifetime.
fn signature(
    mut sig: Vec<TokenTree>,
    parts: &Parts<'_>,
    mark: &Mark,
    plain: Group,
) -> Vec<TokenTree> {
    sig[parts.at] = TokenTree::Group(plain);
    if let Some(name) = &mark.name {
        sig[parts.name] = TokenTree::Ident(Ident::new(&name.to_string(), sig[parts.name].span()));
    }
    if mark.operand {
        let generics = parts.name + 1;
        match parts.at == generics {
            true => drop(sig.splice(generics..generics, quote!(<'operand>))),
            false => drop(sig.splice(generics + 1..generics + 1, quote!('operand,))),
        }
    }
    sig
}

/// The type's name in the place of `Self`.
fn named(t: TokenTree, of: &Ident) -> TokenTree {
    match t {
        TokenTree::Group(g) => {
            let inner = g.stream().into_iter().map(|t| named(t, of)).collect();
            TokenTree::Group(Group::new(g.delimiter(), inner))
        }
        t if is_word(&t, "Self") => TokenTree::Ident(of.clone()),
        t => t,
    }
}

/// The documentation of the method as that of the function: its example calls the function.
fn documentation(
    kept: &[TokenStream],
    of: &Ident,
    name: &Ident,
    mark: &Mark,
    of_self: bool,
    names: &[String],
) -> Result<TokenStream, String> {
    let (mut docs, mut lines) = (TokenStream::new(), Vec::new());
    for attribute in kept.iter().filter(|a| first_word(a) == "doc") {
        let text = doc_text(attribute).ok_or("its documentation is not a plain text")?;
        lines.extend(text.split('\n').map(str::to_string));
    }
    let (of, method, first) = (of.to_string(), name.to_string(), mark.input.to_string());
    let function = mark.name.as_ref().map_or(method.clone(), Ident::to_string);
    let (mut at, mut calls) = (0, 0);
    while at < lines.len() {
        if !lines[at].trim_start().starts_with("```") {
            let text = free(&lines[at], &of, &first, names);
            docs.extend(doc(&text));
            at += 1;
            continue;
        }
        let end = (at + 1..lines.len())
            .find(|&i| lines[i].trim_start().starts_with("```"))
            .ok_or("its example has no end")?;
        docs.extend(doc(&lines[at]));
        docs.extend(doc(" # use torsh_tensor::functional as F;"));
        let code = lines[at + 1..end].join("\n");
        let (code, n) = as_function(&code, &of, [&method, &function], of_self);
        calls += n;
        docs.extend(code.split('\n').map(doc).collect::<TokenStream>());
        docs.extend(doc(&lines[end]));
        at = end + 1;
    }
    match calls {
        0 => Err("no example of it calls it".into()),
        _ => Ok(docs),
    }
}

fn doc(line: &str) -> TokenStream {
    let line = Literal::string(line);
    quote!(#[doc = #line])
}

/// The text of an attribute `#[doc = ".."]`, also of `concat!`, `stringify!` and `example!`, the code of a doc test.
fn doc_text(attribute: &TokenStream) -> Option<String> {
    let TokenTree::Group(g) = attribute.clone().into_iter().nth(1)? else {
        return None;
    };
    text(&flat(g.stream())[2..])
}

fn text(value: &[TokenTree]) -> Option<String> {
    match value {
        [TokenTree::Literal(_)] => {
            let value = value.iter().cloned().collect();
            Some(syn::parse2::<syn::LitStr>(value).ok()?.value())
        }
        [
            ..,
            TokenTree::Ident(name),
            TokenTree::Punct(_),
            TokenTree::Group(g),
        ] => {
            let inner: Vec<TokenTree> = g.stream().into_iter().collect();
            let is_comma = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ',');
            match name.to_string().as_str() {
                "concat" => inner
                    .split(is_comma)
                    .filter(|part| !part.is_empty())
                    .map(text)
                    .collect(),
                "stringify" => Some(g.stream().to_string()),
                "example" => Some(format!(
                    "\n```\n{}\n# Ok::<(), torsh_tensor::TorshError>(())\n```",
                    text(&inner)?
                )),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(block: &str) -> Result<String, String> {
        let tokens = block.parse::<TokenStream>().expect("tokens");
        Ok(functions(TokenStream::new(), tokens)?
            .to_string()
            .replace(' ', ""))
    }

    #[test]
    fn a_marked_method_has_a_function() {
        let of = made(
            "impl Tensor {
                /// A text of this tensor.
                ///
                /// ```
                /// x.f([1])?;
                /// ```
                #[function]
                #[torsh_tensor::names_caller]
                pub fn f<T: Fn() -> u8>(&self, sizes: impl Into<Shape<T>>, other: &Self) -> Result<Self> { g(self) }
                fn private(&self) {}
            }",
        )
        .expect("a function");
        assert!(of.contains("#[torsh_tensor::names_caller]pubfnf<T:Fn()->u8>(&self,"));
        assert!(of.contains(
            "#[track_caller]pubfnf<T:Fn()->u8>(input:&Tensor,sizes:implInto<Shape<T>>,other:&Tensor)->Result<Tensor>\
             {input.f(sizes,other)}"
        ));
        assert!(of.contains(r#"#[doc="Atextof`input`."]"#), "{of}");
        assert!(of.contains(r#"#[doc="F::f(&x,[1])?;"]"#), "{of}");
        assert!(!of.contains("#[function]"));
    }

    #[test]
    fn an_associated_function_and_another_first_name() {
        let of = made(
            "impl Tensor {
                /// ```
                /// Tensor::cat(&[a], 0)?;
                /// ```
                #[function]
                pub fn cat<T>(list: &[T], mut dim: i64) -> Result<Tensor> { g() }
                /// ```
                /// x.g()?;
                /// ```
                #[function(input = query, name = h)]
                pub fn g(&self) -> Result<Tensor> { g() }
            }",
        )
        .expect("functions");
        assert!(
            of.contains("pubfncat<T>(list:&[T],dim:i64)->Result<Tensor>{Tensor::cat(list,dim)}")
        );
        assert!(of.contains(r#"#[doc="F::cat(&[a],0)?;"]"#));
        assert!(of.contains("pubfnh(query:&Tensor)->Result<Tensor>{query.g()}"));
        assert!(of.contains(r#"#[doc="F::h(&x)?;"]"#));
    }

    #[test]
    fn an_operand_and_texts_of_macros() {
        let of = made(
            r#"impl Tensor {
                #[doc = concat!("Text of ", stringify!(f), ".",)]
                #[doc = crate::options::example!("x.f()?;\n\
                    y")]
                #[function(operand)]
                pub fn f(&self) -> Result<Tensor> { g() }
            }"#,
        )
        .expect("a function");
        assert!(of.contains(r#"#[doc="Textoff."]"#));
        assert!(of.contains(r#"#[doc="F::f(&x)?;"]#[doc="y"]"#), "{of}");
        assert!(of.contains(
            "pubfnf<'operand>(input:implInto<::torsh_tensor::Operand<'operand>>)->Result<Tensor>"
        ));
    }

    #[test]
    fn what_has_no_example_is_refused() {
        let without =
            "impl Tensor { /// Text.\n #[function] pub fn f(&self) -> Result<Tensor> { g() } }";
        assert!(made(without).is_err_and(|e| e.contains("no example of it calls it")));
        assert!(made("fn f() {}").is_err());
    }
}
