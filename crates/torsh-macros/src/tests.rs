//! The expansion, read back with syn, and the errors.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::visit::{self, Visit};
use syn::{DeriveInput, Expr, ExprCall, File, ImplItem, ItemImpl, Lit, parse_quote};

use crate::expand::derive_module;

fn expand(input: TokenStream) -> TokenStream {
    let input: DeriveInput = syn::parse2(input).unwrap();
    derive_module(&input, || Ok(parse_quote!(::torsh::nn)))
}

/// Source text without the spaces between tokens.
fn text(tokens: impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "")
}

fn impls(input: TokenStream) -> Vec<ItemImpl> {
    let file: File = syn::parse2(expand(input)).unwrap();
    file.items
        .into_iter()
        .map(|item| match item {
            syn::Item::Impl(item) => item,
            other => panic!("expected an impl, got {}", text(other)),
        })
        .collect()
}

/// The calls `<Type as ModuleField>::method(value, "name", __visitor)` of one function.
#[derive(Default)]
struct Calls(Vec<[String; 4]>);

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        let Expr::Path(function) = &*call.func else {
            panic!("not a path: {}", text(call));
        };
        let Some(qself) = &function.qself else {
            panic!("not a trait method: {}", text(call));
        };
        let args: Vec<&Expr> = call.args.iter().collect();
        let [value, Expr::Lit(name), visitor] = args[..] else {
            panic!("unexpected arguments: {}", text(call));
        };
        assert_eq!(text(visitor), "__visitor");
        let Lit::Str(name) = &name.lit else {
            panic!("the name is no string: {}", text(call));
        };
        let segments: Vec<String> = function
            .path
            .segments
            .iter()
            .map(|s| s.ident.to_string())
            .collect();
        assert_eq!(segments[..3], ["torsh", "nn", "ModuleField"]);
        self.0.push([
            text(&qself.ty),
            segments[3].clone(),
            text(value),
            name.value(),
        ]);
        visit::visit_expr_call(self, call);
    }
}

fn calls(item: &ItemImpl, method: &str) -> Vec<[String; 4]> {
    let mut calls = Calls::default();
    for item in &item.items {
        if let ImplItem::Fn(function) = item
            && function.sig.ident == method
        {
            calls.visit_impl_item_fn(function);
        }
    }
    calls.0
}

/// (type, value, name) of every visited field.
fn walked(input: TokenStream) -> Vec<(String, String, String)> {
    let impls = impls(input);
    let shared = calls(&impls[0], "visit_fields");
    let exclusive = calls(&impls[0], "visit_fields_mut");
    // The two walks differ in the borrow and the method alone.
    assert_eq!(shared.len(), exclusive.len());
    for (s, e) in shared.iter().zip(&exclusive) {
        assert_eq!((&s[0], &s[3]), (&e[0], &e[3]));
        assert_eq!(s[1], "visit_field");
        assert_eq!(e[1], "visit_field_mut");
        assert_eq!(s[2].replace('&', "&mut"), e[2]);
    }
    shared
        .into_iter()
        .map(|[ty, _, value, name]| (ty, value, name))
        .collect()
}

fn triple(ty: &str, value: &str, name: &str) -> (String, String, String) {
    (ty.to_string(), value.to_string(), name.to_string())
}

/// The messages of the `compile_error!`s.
fn errors(input: TokenStream) -> Vec<String> {
    let file: File = syn::parse2(expand(input)).unwrap();
    let mut out = Vec::new();
    for item in file.items {
        if let syn::Item::Macro(item) = item {
            assert!(text(&item.mac.path).ends_with("compile_error"));
            out.push(item.mac.parse_body::<syn::LitStr>().unwrap().value());
        }
    }
    out
}

#[track_caller]
fn assert_error(input: TokenStream, parts: &[&str]) {
    let errors = errors(input);
    assert_eq!(errors.len(), 1, "{errors:?}");
    for part in parts {
        assert!(errors[0].contains(part), "{:?} lacks {part:?}", errors[0]);
    }
}

#[test]
fn struct_fields_in_declaration_order() {
    assert_eq!(
        walked(quote! {
            struct Net {
                fc: Linear,
                blocks: Vec<Block>,
                scale: Parameter,
                #[module(skip)]
                n: usize,
                #[module(rename = "weight_ih_l0")]
                w: Option<Parameter>,
                r#type: Buffer,
            }
        }),
        [
            triple("Linear", "&self.fc", "fc"),
            triple("Vec<Block>", "&self.blocks", "blocks"),
            triple("Parameter", "&self.scale", "scale"),
            triple("Option<Parameter>", "&self.w", "weight_ih_l0"),
            triple("Buffer", "&self.r#type", "type"),
        ]
    );
}

#[test]
fn tuple_structs_count_skipped_fields() {
    assert_eq!(
        walked(quote! { struct Net(Linear, #[module(skip)] usize, ReLU); }),
        [
            triple("Linear", "&self.0", "0"),
            triple("ReLU", "&self.2", "2"),
        ]
    );
}

#[test]
fn unit_structs_have_no_fields() {
    assert_eq!(walked(quote! { struct ReLU; }), []);
}

#[test]
fn enums_walk_the_variant_they_hold() {
    let input = quote! {
        enum Act {
            Identity,
            Relu(ReLU),
            Prelu { weight: Parameter, #[module(skip)] n: usize, #[module(rename = "b")] bias: Buffer },
        }
    };
    assert_eq!(
        walked(input.clone()),
        [
            triple("ReLU", "__field0", "0"),
            triple("Parameter", "__field0", "weight"),
            triple("Buffer", "__field1", "b"),
        ]
    );
    let body = text(&impls(input)[0]);
    assert!(body.contains("Self::Identity{..}=>{}"), "{body}");
    assert!(body.contains("Self::Relu{0:__field0,..}=>{"), "{body}");
    assert!(
        body.contains("Self::Prelu{weight:__field0,bias:__field1,..}=>{"),
        "{body}"
    );
}

#[test]
fn both_traits_and_the_type_name() {
    let impls = impls(quote! { struct Net { fc: Linear } });
    let traits: Vec<String> = impls
        .iter()
        .map(|i| text(&i.trait_.as_ref().unwrap().1))
        .collect();
    assert_eq!(
        traits,
        ["::torsh::nn::ModuleFields", "::torsh::nn::ModuleField"]
    );
    assert!(impls.iter().all(|i| text(&i.self_ty) == "Net"));
    assert!(impls.iter().all(|i| i.generics.where_clause.is_none()));
    assert!(text(&impls[0]).contains("fntype_name(&self)->&'staticstr{\"Net\"}"));
    assert!(text(&impls[1]).contains("__visitor(__name,::torsh::nn::FieldRef::Module(self));"));
    assert!(text(&impls[1]).contains("__visitor(__name,::torsh::nn::FieldMut::Module(self));"));
}

#[test]
fn generics_are_bounded_by_the_fields() {
    let impls = impls(quote! {
        struct Net<M, C: Config = Small, const N: usize = 2> where M: Clone {
            inner: M,
            blocks: [Block<C>; N],
            head: Linear,
            #[module(skip)]
            marker: PhantomData<C>,
            next: Option<Box<Net<M, C, N>>>,
        }
    });
    for item in &impls {
        let (generics, _, clause) = item.generics.split_for_impl();
        assert_eq!(text(generics), "<M,C:Config,constN:usize>");
        assert_eq!(text(&item.self_ty), "Net<M,C,N>");
        assert_eq!(
            text(clause),
            "whereM:Clone,M:::torsh::nn::ModuleField,[Block<C>;N]:::torsh::nn::ModuleField,\
             Net<M,C,N>:::torsh::nn::Module"
        );
    }
}

#[test]
fn the_crate_path_can_be_given() {
    let input: DeriveInput = parse_quote! {
        #[module(crate = "crate::module")]
        struct Net { fc: Linear }
    };
    let out = derive_module(&input, || panic!("the default path is not needed"));
    let out = text(out);
    assert!(
        out.contains("implcrate::module::ModuleFieldsforNet"),
        "{out}"
    );
    assert!(!out.contains("torsh"), "{out}");
}

#[test]
fn other_attributes_are_left_alone() {
    assert_eq!(
        walked(quote! {
            #[derive(Debug)]
            struct Net { /** doc */ #[serde(skip)] fc: Linear }
        }),
        [triple("Linear", "&self.fc", "fc")]
    );
}

#[test]
fn unions_are_rejected() {
    assert_error(
        quote! { union U { a: u32, b: f32 } },
        &["structs and enums", "union"],
    );
}

#[test]
fn lifetimes_are_rejected() {
    assert_error(
        quote! { struct Net<'a> { w: &'a Parameter } },
        &["cannot have lifetime parameters", "store a clone"],
    );
}

#[test]
fn empty_enums_are_rejected() {
    assert_error(quote! { enum Never {} }, &["without variants"]);
}

#[test]
fn misspelled_keys_get_a_suggestion() {
    for key in ["skipp", "skp", "Skip", "skips", "ship"] {
        let key = syn::Ident::new(key, proc_macro2::Span::call_site());
        assert_error(
            quote! { struct Net { #[module(#key)] n: usize } },
            &[
                &format!("unknown module attribute `{key}`"),
                "did you mean `skip`?",
            ],
        );
    }
    assert_error(
        quote! { struct Net { #[module(name = "x")] w: Parameter } },
        &["`name`", "did you mean `rename`?"],
    );
    assert_error(
        quote! { #[module(crat = "x")] struct Net; },
        &["`crat`", "did you mean `crate`?"],
    );
}

#[test]
fn unknown_keys_list_what_there_is() {
    assert_error(
        quote! { struct Net { #[module(trainable)] w: Parameter } },
        &[
            "`trainable`",
            "#[module(skip)] or #[module(rename = \"name\")]",
        ],
    );
    assert_error(
        quote! { #[module(frozen)] struct Net; },
        &["`frozen`", "#[module(crate = \"path\")]"],
    );
}

#[test]
fn wrong_attribute_syntax() {
    let forms = "expected #[module(skip)] or";
    for attr in [
        quote!(#[module]),
        quote!(#[module()]),
        quote!(#[module = "skip"]),
        quote!(#[module("skip")]),
        quote!(#[module(rename("x"))]),
    ] {
        assert_error(quote! { struct Net { #attr n: usize } }, &[forms]);
    }
    assert_error(
        quote! { struct Net { #[module(skip = true)] n: usize } },
        &["`skip` takes no value"],
    );
    assert_error(
        quote! { struct Net { #[module(rename)] w: Parameter } },
        &["`rename` needs a value", "#[module(rename = \"name\")]"],
    );
    assert_error(
        quote! { struct Net { #[module(rename = 3)] w: Parameter } },
        &["expected a string"],
    );
    assert_error(
        quote! { #[module(crate = "1 +")] struct Net; },
        &["expected a path"],
    );
}

#[test]
fn contradicting_and_repeated_attributes() {
    assert_error(
        quote! { struct Net { #[module(skip, rename = "x")] n: usize } },
        &["either `skip` or `rename`"],
    );
    assert_error(
        quote! { struct Net { #[module(skip)] #[module(skip)] n: usize } },
        &["`skip` is given twice"],
    );
    assert_error(
        quote! { struct Net { #[module(crate = "x")] w: Parameter } },
        &["belongs on the type"],
    );
    assert_error(
        quote! { #[module(skip)] struct Net; },
        &["`skip` belongs on a field"],
    );
    assert_error(
        quote! { enum Act { #[module(skip)] Relu(ReLU) } },
        &["fields of a variant"],
    );
}

#[test]
fn names_must_be_distinct_and_undotted() {
    assert_error(
        quote! { struct Net { a: Parameter, #[module(rename = "a")] b: Parameter } },
        &["two fields are named `a`"],
    );
    for name in ["", "a.b"] {
        assert_error(
            quote! { struct Net { #[module(rename = #name)] b: Parameter } },
            &["not empty and has no `.`"],
        );
    }
    // Variants are never seen together.
    assert_eq!(
        walked(quote! { enum E { A { w: Parameter }, B { w: Parameter } } }).len(),
        2
    );
}

#[test]
fn all_errors_are_reported_at_once() {
    let errors = errors(quote! {
        struct Net<'a> {
            #[module(skipp)]
            a: &'a str,
            #[module]
            b: usize,
        }
    });
    assert_eq!(errors.len(), 3, "{errors:?}");
}

#[test]
fn errors_come_with_the_implementations() {
    // So that rustc does not add "does not derive `Module`" to the real error.
    let out = text(expand(quote! { struct Net { #[module(skipp)] n: usize } }));
    assert!(out.contains("impl::torsh::nn::ModuleFieldsforNet"), "{out}");
    assert!(out.contains("impl::torsh::nn::ModuleFieldforNet"), "{out}");
}

#[test]
fn an_unknown_crate_path_is_reported() {
    let input: DeriveInput = parse_quote! { struct Net; };
    let out = derive_module(&input, || {
        Err(syn::Error::new(
            proc_macro2::Span::call_site(),
            "no such crate",
        ))
    });
    let out = text(out);
    assert!(out.contains("compile_error!{\"nosuchcrate\"}"), "{out}");
    assert!(!out.contains("impl"), "{out}");
}
