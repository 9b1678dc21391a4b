//! `by_name`: the call by name of an op, from its schema and the function that computes it.

use proc_macro2::{Delimiter, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};

use crate::functions::{flat, text};

/// The record with a call by name: `call` is the function that it calls.
pub(crate) fn by_name(call: TokenStream, record: TokenStream) -> Result<TokenStream, String> {
    let mut trees: Vec<TokenTree> = record.into_iter().collect();
    let is_equals = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == '=');
    let value = trees.iter().position(is_equals);
    let value = trees.split_off(value.ok_or("by_name belongs to a static")?);
    let value = inserted(value, &flat(call))?.ok_or(
        "the value of the static begins with OpRecord::new(name, doc, schema), whose schema is a text",
    )?;
    Ok(quote!(#(#trees)* #value))
}

/// The tokens with the call by name behind the first parentheses that hold three arguments of which the third is a text.
fn inserted(tokens: Vec<TokenTree>, call: &[TokenTree]) -> Result<Option<TokenStream>, String> {
    let is_parameters =
        |t: &TokenTree| matches!(t, TokenTree::Group(g) if g.delimiter() == Delimiter::Parenthesis);
    let Some(at) = tokens.iter().position(is_parameters) else {
        return Ok(None);
    };
    let (before, behind) = (&tokens[..at], &tokens[at + 1..]);
    let TokenTree::Group(new) = &tokens[at] else {
        return Ok(None);
    };
    if let Some(schema) = list(new.stream()).get(2).and_then(|part| text(part)) {
        let closure = closure(&parameters(&schema)?, call)?;
        return Ok(Some(quote!(#(#before)* #new.by_name(#closure) #(#behind)*)));
    }
    let within = inserted(new.stream().into_iter().collect(), call)?;
    Ok(within.map(|within| quote!(#(#before)* (#within) #(#behind)*)))
}

/// A parameter of a schema.
struct Parameter {
    ty: String,
    name: String,
    /// Whether a call must give it.
    required: bool,
}

fn parameters(schema: &str) -> Result<Vec<Parameter>, String> {
    let unreadable = || format!("`{schema}` is no schema");
    let inner = schema.strip_prefix('(').and_then(|s| s.split_once(')'));
    let (inner, _) = inner.ok_or_else(unreadable)?;
    let (mut depth, mut parts) = (0_i32, vec![String::new()]);
    for c in inner.chars() {
        depth += i32::from(c == '[') - i32::from(c == ']');
        match parts.last_mut() {
            Some(last) if c != ',' || depth > 0 => last.push(c),
            _ => parts.push(String::new()),
        }
    }
    let declared = parts.iter().map(|p| p.trim());
    let each = declared.filter(|p| !p.is_empty() && *p != "*").map(|p| {
        let (declared, default) = match p.split_once('=') {
            Some((declared, default)) => (declared, Some(default)),
            None => (p, None),
        };
        let (ty, name) = declared.trim().rsplit_once(' ').ok_or_else(unreadable)?;
        Ok(Parameter {
            ty: ty.trim().to_string(),
            name: name.to_string(),
            required: default.is_none(),
        })
    });
    each.collect()
}

/// What stands between the commas.
fn list(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let trees = flat(tokens);
    let parts = trees.split(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == ','));
    let parts = parts.filter(|part| !part.is_empty());
    parts.map(<[TokenTree]>::to_vec).collect()
}

/// The closure that reads the arguments and calls the function: all of them in order, or those in the parentheses behind it,
/// of which `..` is all without a default that are not among them.
fn closure(parameters: &[Parameter], call: &[TokenTree]) -> Result<TokenStream, String> {
    let bound = Ident::new("b", Span::mixed_site());
    let (function, arguments) = match call {
        [] => return Err("which function does it call?".into()),
        [path @ .., TokenTree::Group(g)] if g.delimiter() == Delimiter::Parenthesis => {
            let written = list(g.stream());
            let mut direct: Vec<String> = written.iter().filter_map(|a| last_name(a)).collect();
            let others = parameters
                .iter()
                .filter(|p| p.required && !direct.contains(&p.name));
            let others: Vec<TokenTree> = others
                .map(|p| Ident::new(&p.name, Span::call_site()).into())
                .collect();
            let is_rest = |a: &[TokenTree]| {
                a.iter()
                    .all(|t| matches!(t, TokenTree::Punct(p) if p.as_char() == '.'))
            };
            let each = written.into_iter().flat_map(|a| match is_rest(&a) {
                true => others.iter().map(|t| vec![t.clone()]).collect(),
                false => vec![a],
            });
            let each: Vec<Vec<TokenTree>> = each.collect();
            direct.extend(each.iter().filter_map(|a| last_name(a)));
            let each = each
                .iter()
                .map(|a| argument(&bound, parameters, a, &direct));
            (path, each.collect::<Result<Vec<_>, _>>()?)
        }
        path => {
            let all = (0..parameters.len()).map(|i| read(&bound, parameters, i));
            (path, all.collect::<Result<Vec<_>, _>>()?)
        }
    };
    Ok(quote! {
        |#bound: &::torsh_tensor::Bound| {
            #(#function)*(#(#arguments),*).map(::torsh_tensor::Returned::returned)
        }
    })
}

/// The parameter that an argument names, as `dim` and `&dim` do.
fn last_name(argument: &[TokenTree]) -> Option<String> {
    match argument {
        [TokenTree::Ident(name)] | [TokenTree::Punct(_), TokenTree::Ident(name)] => {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// An argument: a parameter of the schema, options that have the others or those in the braces as fields, or an expression.
fn argument(
    bound: &Ident,
    parameters: &[Parameter],
    argument: &[TokenTree],
    direct: &[String],
) -> Result<TokenStream, String> {
    let position = |name: &str| parameters.iter().position(|p| p.name == name);
    let (and, value) = match argument {
        [and @ TokenTree::Punct(p), value @ ..] if p.as_char() == '&' => (Some(and), value),
        value => (None, value),
    };
    let value = match value {
        [TokenTree::Ident(name)]
            if and.is_some()
                && position(&name.to_string())
                    .is_some_and(|i| parameters[i].ty.ends_with("]?")) =>
        {
            let value = read(bound, parameters, position(&name.to_string()).unwrap_or(0))?;
            return Ok(quote!(#value.as_deref()));
        }
        [TokenTree::Ident(name)] if position(&name.to_string()).is_some() => {
            read(bound, parameters, position(&name.to_string()).unwrap_or(0))?
        }
        [name] if is_options(name) => {
            let reduced = position("size_average").is_some();
            let older = |p: &Parameter| reduced && ["size_average", "reduce"].contains(&&*p.name);
            let others = parameters
                .iter()
                .filter(|p| !direct.contains(&p.name) && !older(p));
            let fields = others.map(|p| (p.name.clone(), p.name.clone())).collect();
            options(bound, parameters, name, fields)?
        }
        [name, TokenTree::Group(g)] if is_options(name) && g.delimiter() == Delimiter::Brace => {
            let fields = list(g.stream()).into_iter().map(|field| {
                let last = field.last().map(ToString::to_string).unwrap_or_default();
                (field[0].to_string(), last)
            });
            options(bound, parameters, name, fields.collect())?
        }
        expression => quote!(#(#expression)*),
    };
    Ok(quote!(#and #value))
}

/// Whether this is the name of a struct, not `None` or that of a static.
fn is_options(name: &TokenTree) -> bool {
    let name = match name {
        TokenTree::Ident(name) => name.to_string(),
        _ => return false,
    };
    let lower = name.contains(|c: char| c.is_ascii_lowercase());
    name.starts_with(|c: char| c.is_ascii_uppercase()) && lower && name != "None"
}

fn none(name: &str) -> String {
    format!("the schema has no parameter `{name}`")
}

/// Options whose fields are these parameters, and which have the defaults else.
fn options(
    bound: &Ident,
    parameters: &[Parameter],
    ty: &TokenTree,
    fields: Vec<(String, String)>,
) -> Result<TokenStream, String> {
    let position = |name: &str| parameters.iter().position(|p| p.name == name);
    let mut made = TokenStream::new();
    for (field, name) in fields {
        let at = position(&name).ok_or_else(|| none(&name))?;
        let of = format_ident!("{field}");
        made.extend(match (&*name, position("size_average"), position("reduce")) {
            // Two older arguments that win over it.
            ("reduction", Some(average), Some(reduce)) => {
                quote!(options.#of = ::torsh_tensor::Reduction::bound(#bound, #average, #reduce, #at)?;)
            }
            _ => quote!(options.#of = #bound.get(#at)?;),
        });
    }
    Ok(quote!({
        let mut options = #ty::default();
        #made
        options
    }))
}

/// Parameter `i`, as functions of the library take what the schema says.
fn read(bound: &Ident, parameters: &[Parameter], i: usize) -> Result<TokenStream, String> {
    let Parameter { ty, name, .. } = &parameters[i];
    let (plain, optional) = match ty.strip_suffix('?') {
        Some(plain) => (plain, true),
        None => (&**ty, false),
    };
    let (base, list) = match plain.split_once('[') {
        Some((base, _)) => (base, true),
        None => (plain, false),
    };
    let (of, fails) = match (base, list, optional) {
        ("Tensor", false, false) => ("tensor", true),
        ("Operand", false, false) => ("operand", true),
        ("Tensor", false, true) => ("opt_tensor", false),
        ("Tensor", true, false) => ("tensors", false),
        ("Scalar", false, false) => ("scalar", false),
        ("Scalar", false, true) => ("opt_scalar", false),
        ("int", false, false) => ("int", false),
        ("int", false, true) => ("opt_int", false),
        ("int", true, false) => ("ints", false),
        ("int", true, true) => ("opt_ints", false),
        ("float", false, false) => ("float", false),
        ("float", false, true) => ("opt_float", false),
        ("float", true, true) => ("opt_floats", false),
        ("bool", false, _) => ("bool", false),
        ("str", false, _) => ("str", false),
        ("ScalarType", false, true) => ("dtype", false),
        ("Device", false, true) => ("device", false),
        ("Generator", false, true) => ("generator", false),
        _ => return Err(format!("`{name}` of the type {ty} cannot be passed on")),
    };
    let of = format_ident!("{of}");
    let i = Literal::usize_unsuffixed(i);
    let question = fails.then(|| quote!(?));
    // Functions take lists of tensors as slices.
    let and = (base == "Tensor" && list).then(|| quote!(&));
    Ok(quote!(#and #bound.#of(#i) #question))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(call: &str, schema: &str) -> Result<String, String> {
        let record = format!(
            "/// Doc.\npub static F: OpRecord = OpRecord::new(\"f\", \"Text.\", \"{schema}\").samples(|s| x(s));"
        );
        let tokens = |text: &str| text.parse::<TokenStream>().expect("tokens");
        let made = by_name(tokens(call), tokens(&record))?
            .to_string()
            .replace(' ', "");
        let (before, behind) = made
            .split_once(".by_name(|b:&::torsh_tensor::Bound|{")
            .expect("a call");
        assert!(before.ends_with(&format!("\"{}\")", schema.replace(' ', ""))));
        let call =
            behind.strip_suffix(".map(::torsh_tensor::Returned::returned)}).samples(|s|x(s));");
        Ok(call.expect("the rest").to_string())
    }

    #[test]
    fn all_arguments_in_order() {
        let all = "(Tensor input, Tensor? w=None, int[1] size, *, int[]? dims=[0, 1], Operand x, bool keep=False)";
        assert_eq!(
            made("Tensor::f", all).as_deref(),
            Ok(
                "Tensor::f(b.tensor(0)?,b.opt_tensor(1),b.ints(2),b.opt_ints(3),b.operand(4)?,b.bool(5))"
            )
        );
        assert_eq!(
            made("g", "(Tensor[] xs)").as_deref(),
            Ok("g(&b.tensors(0))")
        );
        assert_eq!(made("g", "()").as_deref(), Ok("g()"));
        assert!(made("g", "(Tensor x, Any layout=None)").is_err_and(|e| e.contains("`layout`")));
        assert!(made("g", "Tensor x").is_err());
    }

    #[test]
    fn some_arguments_and_options() {
        let schema = "(Tensor input, Tensor weight, int[] size, float p=0.5, Any out=None)";
        assert_eq!(
            made("f(weight, &size, &F, FOptions { q: p })", schema).as_deref(),
            Ok(
                "f(b.tensor(1)?,&b.ints(2),&F,{letmutoptions=FOptions::default();options.q=b.get(3usize)?;options})"
            )
        );
        let loss = "(Tensor input, bool? size_average=None, bool? reduce=None, str reduction='mean', float beta=1.0)";
        assert_eq!(
            made("Tensor::f(.., FOptions)", loss).as_deref(),
            Ok("Tensor::f(b.tensor(0)?,{letmutoptions=FOptions::default();\
                options.reduction=::torsh_tensor::Reduction::bound(b,1usize,2usize,3usize)?;options.beta=b.get(4usize)?;options})")
        );
        let missing = made("f(FOptions { q })", schema);
        assert!(missing.is_err_and(|e| e.contains("no parameter `q`")));
    }
}
