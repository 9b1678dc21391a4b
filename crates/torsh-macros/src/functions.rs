//! `functions`: the free functions of methods.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};

use crate::caller::{Parts, arguments, attributes, end_of_parameter, first_word, is_word, parts};
use crate::example::{as_function, free};

/// The block as it is, or as a trait, and behind it a module with a free function for each method that is marked
/// `#[function]`.
pub(crate) fn functions(argument: TokenStream, block: TokenStream) -> Result<TokenStream, String> {
    let to = To::read(argument)?;
    let mut trees: Vec<TokenTree> = block.into_iter().collect();
    let body = match trees.pop() {
        Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Brace => g,
        _ => return Err("functions belongs to an impl block".into()),
    };
    let of = match trees.last() {
        Some(TokenTree::Ident(name)) => name.clone(),
        _ => return Err("functions belongs to the impl block of a type without parameters".into()),
    };
    let (mut items, mut declared) = (TokenStream::new(), TokenStream::new());
    let (mut methods, mut names) = (Vec::new(), Vec::new());
    for item in split(body.stream()) {
        let (all, rest) = attributes(&item);
        let all = all.into_iter().map(|a| flat(a).into_iter().collect());
        let (marks, kept): (Vec<TokenStream>, Vec<TokenStream>) =
            all.partition(|a| first_word(a) == "function");
        match to.of_trait {
            Some(_) => {
                let (declaration, method) = of_trait(&kept, rest)?;
                declared.extend(declaration);
                items.extend(method);
            }
            None => items.extend(quote!(#(#kept)* #(#rest)*)),
        }
        if let Some(mark) = marks.first() {
            let name = parts(rest).and_then(|parts| Some(rest.get(parts.name)?.to_string()));
            let name = name.ok_or("#[function] belongs to a method with a result")?;
            let mark = Mark::read(mark).map_err(|e| format!("#[function] of `{name}`: {e}"))?;
            if marks.len() > 1 {
                return Err(format!("`{name}` has a second #[function]"));
            }
            names.push((
                name.clone(),
                mark.name.as_ref().map_or(name, Ident::to_string),
            ));
            methods.push((mark, kept, rest.to_vec()));
        }
    }
    let (mut made, mut of_functions) = (TokenStream::new(), TokenStream::new());
    for ((mark, kept, rest), (_, name)) in methods.iter().zip(&names) {
        let conditions = kept.iter().filter(|a| first_word(a) == "cfg");
        of_functions.extend(quote!(#(#conditions)* #name,));
        made.extend(function(&of, mark, kept, rest, &names, &to)?);
    }
    let (about, _) = attributes(&trees);
    let block = match &to.of_trait {
        Some(name) => quote! {
            #(#about)*
            pub trait #name: sealed::Sealed {
                #declared
            }

            mod sealed {
                pub trait Sealed {}
                impl Sealed for super::#of {}
            }

            impl #name for #of {
                #items
            }
        },
        None => quote!(#(#trees)* { #items }),
    };
    let module = to
        .module
        .unwrap_or_else(|| Ident::new("functions", Span::call_site()));
    let module = (to.of_trait.is_none() || !methods.is_empty()).then(|| {
        quote! {
            pub(crate) mod #module {
                #[allow(unused_imports)]
                use super::*;

                /// The functions of this module.
                #[allow(dead_code)]
                pub(crate) const NAMES: &[&str] = &[#of_functions];

                #made
            }
        }
    });
    Ok(quote!(#block #module))
}

/// Where methods and functions go: `functions(module)`, `functions(trait Name in path)`.
struct To {
    /// The module's name, where it is not `functions`.
    module: Option<Ident>,
    /// The trait that declares the methods, in a crate that does not have the type.
    of_trait: Option<Ident>,
    /// Where examples find the functions.
    path: TokenStream,
}

impl To {
    fn read(argument: TokenStream) -> Result<To, String> {
        let mut to = To {
            module: None,
            of_trait: None,
            path: quote!(torsh_tensor::functional),
        };
        let words: Vec<TokenTree> = argument.into_iter().collect();
        match &words[..] {
            [] => {}
            [TokenTree::Ident(module)] => to.module = Some(module.clone()),
            [word, TokenTree::Ident(name), rest @ ..] if is_word(word, "trait") => {
                to.of_trait = Some(name.clone());
                match rest {
                    [] => {}
                    [word, path @ ..] if is_word(word, "in") => {
                        to.path = path.iter().cloned().collect()
                    }
                    _ => return Err("functions takes `trait Name in path`".into()),
                }
            }
            _ => return Err("functions takes a name of a module or `trait Name in path`".into()),
        }
        Ok(to)
    }
}

/// A method as the declaration of a trait and as an item of its implementation.
fn of_trait(
    kept: &[TokenStream],
    rest: &[TokenTree],
) -> Result<(TokenStream, TokenStream), String> {
    let [public, rest @ .., body] = rest else {
        return Err("a method of a trait has a body".into());
    };
    let parts = parts(rest).filter(|_| is_word(public, "pub"));
    let parts = parts.ok_or("a method of a trait is `pub` and has a result")?;
    let plain = arguments(&parts.parameters)
        .ok_or("a parameter is not a plain name")?
        .2;
    let mut declared = rest.to_vec();
    declared[parts.at] = TokenTree::Group(plain);
    let (docs, others): (Vec<_>, Vec<_>) = kept.iter().partition(|a| first_word(a) == "doc");
    let about = others
        .iter()
        .filter(|a| ["cfg", "must_use"].contains(&&*first_word(a)));
    Ok((
        quote!(#(#docs)* #(#about)* #(#declared)*;),
        quote!(#(#others)* #(#rest)* #body),
    ))
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
    names: &[(String, String)],
    to: &To,
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
            quote!(::torsh_tensor::names_caller),
            quote!(::torsh_tensor::operand_as_tensor!(#first); #call),
        ),
        false => (quote!(track_caller), call),
    };
    let plain = match of_self {
        true => behind_self(of, mark, &plain),
        false => plain,
    };
    let docs = documentation(kept, of, [&name, &mark.input], of_self, names, &to.path);
    let docs = docs.map_err(|e| refuse(&e))?;
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
pub(crate) fn flat(tokens: TokenStream) -> Vec<TokenTree> {
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
    [name, first]: [&Ident; 2],
    of_self: bool,
    names: &[(String, String)],
    path: &TokenStream,
) -> Result<TokenStream, String> {
    let (mut docs, mut lines) = (TokenStream::new(), Vec::new());
    for attribute in kept.iter().filter(|a| first_word(a) == "doc") {
        match doc_text(attribute) {
            Some(text) => lines.extend(text.split('\n').map(str::to_string)),
            // What is no text, as `doc(hidden)`, holds for the function too.
            None if is_setting(attribute) => docs.extend(attribute.clone()),
            None => return Err("its documentation is not a plain text".into()),
        }
    }
    let (of, method, first) = (of.to_string(), name.to_string(), first.to_string());
    let own = names.iter().find(|(of, _)| *of == method);
    let function = own.map_or(&method, |(_, function)| function);
    let imported = format!(" # use {} as F;", path.to_string().replace(' ', ""));
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
        let mut code = lines[at + 1..end].join("\n");
        let mut n = 0;
        if is_rust(&lines[at]) {
            docs.extend(doc(&imported));
            (code, n) = as_function(&code, &of, [&method, function], of_self);
        }
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

/// Whether a block of code that begins with this line is a doc test.
fn is_rust(fence: &str) -> bool {
    const WORDS: [&str; 6] = [
        "",
        "rust",
        "no_run",
        "should_panic",
        "compile_fail",
        "ignore",
    ];
    let words = fence.trim_start().trim_start_matches('`');
    words.split(',').all(|word| WORDS.contains(&word.trim()))
}

/// Whether an attribute is as `#[doc(hidden)]`.
fn is_setting(attribute: &TokenStream) -> bool {
    match attribute.clone().into_iter().nth(1) {
        Some(TokenTree::Group(g)) => {
            matches!(g.stream().into_iter().nth(1), Some(TokenTree::Group(_)))
        }
        _ => false,
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

pub(crate) fn text(value: &[TokenTree]) -> Option<String> {
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
    fn links_follow_names_and_other_blocks_stay() {
        let of = made(
            r#"impl Tensor {
                /// As [`Tensor::g`].
                ///
                /// ```text
                /// x.f()
                /// ```
                /// ```
                /// x.f()?;
                /// ```
                #[doc(hidden)]
                #[cfg(unix)]
                #[function]
                pub fn f(&self) -> Result<Tensor> { g() }
                /// ```
                /// x.g()?;
                /// ```
                #[function(name = h)]
                pub fn g(&self) -> Result<Tensor> { g() }
            }"#,
        )
        .expect("functions");
        assert!(of.contains(r#"#[doc(hidden)]#[doc="As[`h`]."]"#), "{of}");
        assert!(
            of.contains(r##"#[doc="```text"]#[doc="x.f()"]#[doc="```"]#[doc="```"]#[doc="#use"##),
            "{of}"
        );
        assert!(
            of.contains(r#"NAMES:&[&str]=&[#[cfg(unix)]"f","h",];"#),
            "{of}"
        );
    }

    #[test]
    fn a_trait_declares_the_methods() {
        let tokens = "/// Methods.
            impl Tensor {
                /// ```
                /// x.f()?;
                /// ```
                #[function]
                #[torsh_tensor::names_caller]
                pub fn f(&self, mut n: i64) -> Result<Tensor> { g() }
            }";
        let argument = "trait Ext in my_ops::f".parse().expect("tokens");
        let of = functions(argument, tokens.parse().expect("tokens")).expect("functions");
        let of = of.to_string().replace(' ', "");
        assert!(of.contains("pubtraitExt:sealed::Sealed{#[doc"), "{of}");
        assert!(of.contains("fnf(&self,n:i64)->Result<Tensor>;}"), "{of}");
        assert!(of.contains("implExtforTensor{#[torsh_tensor::names_caller]fnf(&self,mutn:i64)->Result<Tensor>{g()}}"), "{of}");
        assert!(
            of.contains(r##"#[doc="#usemy_ops::fasF;"]#[doc="F::f(&x)?;"]"##),
            "{of}"
        );
    }

    #[test]
    fn a_second_mark_is_refused() {
        let twice = "impl Tensor { /// ```\n/// x.f()\n/// ```\n #[function] #[function(name = h)] pub fn f(&self) -> Result<Tensor> { g() } }";
        assert!(made(twice).is_err_and(|e| e.contains("`f` has a second #[function]")));
    }

    #[test]
    fn what_has_no_example_is_refused() {
        let without =
            "impl Tensor { /// Text.\n #[function] pub fn f(&self) -> Result<Tensor> { g() } }";
        assert!(made(without).is_err_and(|e| e.contains("no example of it calls it")));
        assert!(made("fn f() {}").is_err());
    }
}
