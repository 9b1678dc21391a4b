//! The code that `derive(Module)` generates.

use std::collections::HashSet;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Fields, GenericParam, Ident, Member, Path, Type};

use crate::attr;

/// A field that is visited.
struct Field<'a> {
    member: Member,
    name: String,
    ty: &'a Type,
}

/// The visited fields of a struct, or of each variant of an enum.
enum Shape<'a> {
    Struct(Vec<Field<'a>>),
    Enum(Vec<(&'a Ident, Vec<Field<'a>>)>),
}

/// Expands `derive(Module)`; `default_path` says where `torsh-nn` is unless an attribute does.
pub(crate) fn derive_module(
    input: &DeriveInput,
    default_path: impl FnOnce() -> syn::Result<Path>,
) -> TokenStream {
    let mut errors = Errors::default();
    let path = match attr::container(&input.attrs) {
        Ok(Some(path)) => Ok(path),
        Ok(None) => default_path(),
        Err(e) => {
            errors.push(e);
            default_path()
        }
    };
    let shape = shape(input, &mut errors);
    let path = match path {
        Ok(path) => path,
        Err(e) => {
            errors.push(e);
            return errors.into_tokens();
        }
    };
    if errors.is_empty() {
        return impls(input, &path, &shape);
    }
    // The implementations come along, without fields, so that the errors above are not buried
    // under one for every place that needs the type to be a module.
    let mut out = errors.into_tokens();
    if !matches!(input.data, Data::Union(_)) {
        out.extend(impls(input, &path, &Shape::Struct(Vec::new())));
    }
    out
}

/// Reads the type's definition, collecting everything that is wrong with it.
fn shape<'a>(input: &'a DeriveInput, errors: &mut Errors) -> Shape<'a> {
    for param in &input.generics.params {
        if let GenericParam::Lifetime(lifetime) = param {
            errors.push(syn::Error::new_spanned(
                lifetime,
                "a module owns its parameters and cannot have lifetime parameters; \
                 store a clone (tensors and parameters share their storage when cloned)",
            ));
        }
    }
    match &input.data {
        Data::Struct(data) => Shape::Struct(fields(&data.fields, errors)),
        Data::Enum(data) => {
            if data.variants.is_empty() {
                errors.push(syn::Error::new_spanned(
                    &input.ident,
                    "derive(Module): an enum without variants has no values",
                ));
            }
            let variants = data.variants.iter().map(|variant| {
                if let Err(e) = attr::none(&variant.attrs) {
                    errors.push(e);
                }
                (&variant.ident, fields(&variant.fields, errors))
            });
            Shape::Enum(variants.collect())
        }
        Data::Union(data) => {
            errors.push(syn::Error::new_spanned(
                data.union_token,
                "derive(Module) works on structs and enums; the fields of a union cannot be walked",
            ));
            Shape::Struct(Vec::new())
        }
    }
}

fn fields<'a>(fields: &'a Fields, errors: &mut Errors) -> Vec<Field<'a>> {
    let mut out = Vec::new();
    let mut seen = HashSet::new();
    for (field, member) in fields.iter().zip(fields.members()) {
        let attr = match attr::field(&field.attrs) {
            Ok(attr) => attr,
            Err(e) => {
                errors.push(e);
                continue;
            }
        };
        if attr.skip {
            continue;
        }
        let (name, span) = match (&attr.rename, &member) {
            (Some(name), _) => (name.value(), name.span()),
            (None, Member::Named(ident)) => (ident.unraw().to_string(), ident.span()),
            (None, Member::Unnamed(index)) => (index.index.to_string(), field.ty.span()),
        };
        if !seen.insert(name.clone()) {
            errors.push(syn::Error::new(
                span,
                format!("two fields are named `{name}`: a state dict could not tell them apart"),
            ));
        }
        out.push(Field {
            member,
            name,
            ty: &field.ty,
        });
    }
    out
}

fn impls(input: &DeriveInput, nn: &Path, shape: &Shape<'_>) -> TokenStream {
    let ident = &input.ident;
    let type_name = ident.unraw().to_string();
    let generics = bounded(input, nn, shape);
    let (impl_generics, _, where_clause) = generics.split_for_impl();
    let (_, ty_generics, _) = input.generics.split_for_impl();
    let shared = walk(nn, shape, &Access::shared());
    let exclusive = walk(nn, shape, &Access::exclusive());
    quote! {
        #[automatically_derived]
        impl #impl_generics #nn::ModuleFields for #ident #ty_generics #where_clause {
            fn visit_fields<'__a>(
                &'__a self,
                __visitor: &mut dyn ::core::ops::FnMut(&str, #nn::FieldRef<'__a>),
            ) {
                #shared
            }

            fn visit_fields_mut(
                &mut self,
                __visitor: &mut dyn ::core::ops::FnMut(&str, #nn::FieldMut<'_>),
            ) {
                #exclusive
            }

            fn type_name(&self) -> &'static str {
                #type_name
            }
        }

        #[automatically_derived]
        impl #impl_generics #nn::ModuleField for #ident #ty_generics #where_clause {
            fn visit_field<'__a>(
                &'__a self,
                __name: &str,
                __visitor: &mut dyn ::core::ops::FnMut(&str, #nn::FieldRef<'__a>),
            ) {
                __visitor(__name, #nn::FieldRef::Module(self));
            }

            fn visit_field_mut(
                &mut self,
                __name: &str,
                __visitor: &mut dyn ::core::ops::FnMut(&str, #nn::FieldMut<'_>),
            ) {
                __visitor(__name, #nn::FieldMut::Module(self));
            }
        }
    }
}

/// How the fields are reached: `&self.f` and `visit_field`, or the `mut` forms.
struct Access {
    method: Ident,
    borrow: TokenStream,
}

impl Access {
    fn shared() -> Self {
        Access {
            method: format_ident!("visit_field"),
            borrow: quote!(&),
        }
    }

    fn exclusive() -> Self {
        Access {
            method: format_ident!("visit_field_mut"),
            borrow: quote!(&mut),
        }
    }
}

fn walk(nn: &Path, shape: &Shape<'_>, access: &Access) -> TokenStream {
    match shape {
        Shape::Struct(fields) => {
            let borrow = &access.borrow;
            let calls = fields.iter().map(|field| {
                let member = &field.member;
                visit(nn, field, access, quote!(#borrow self.#member))
            });
            quote!(#(#calls)*)
        }
        Shape::Enum(variants) => {
            let arms = variants.iter().map(|(variant, fields)| {
                let members = fields.iter().map(|field| &field.member);
                let bindings = (0..fields.len()).map(|i| format_ident!("__field{i}"));
                let calls = fields.iter().enumerate().map(|(i, field)| {
                    let binding = format_ident!("__field{i}");
                    visit(nn, field, access, quote!(#binding))
                });
                quote! {
                    Self::#variant { #(#members: #bindings,)* .. } => { #(#calls)* }
                }
            });
            quote! {
                match self {
                    #(#arms)*
                }
            }
        }
    }
}

fn visit(nn: &Path, field: &Field<'_>, access: &Access, value: TokenStream) -> TokenStream {
    let Field { name, ty, .. } = field;
    let method = &access.method;
    // A field that is no `ModuleField` is reported where its type is written.
    let span = ty.span().resolved_at(Span::call_site());
    quote_spanned! {span=>
        <#ty as #nn::ModuleField>::#method(#value, #name, __visitor);
    }
}

/// The type's generics with the bounds that the generated code relies on.
///
/// Bounds are put on the fields' types rather than on the parameters: in
/// `struct Net<C: Config> { block: Block<C> }`, `C` itself need not be a module.
fn bounded(input: &DeriveInput, nn: &Path, shape: &Shape<'_>) -> syn::Generics {
    let mut generics = input.generics.clone();
    if generics.params.is_empty() {
        return generics;
    }
    let params: Vec<&Ident> = input.generics.type_params().map(|p| &p.ident).collect();
    let own = [input.ident.clone(), format_ident!("Self")];
    let all: Vec<&Field<'_>> = match shape {
        Shape::Struct(fields) => fields.iter().collect(),
        Shape::Enum(variants) => variants.iter().flat_map(|(_, f)| f).collect(),
    };
    let clause = generics.make_where_clause();
    for field in all {
        let ty = field.ty;
        let tokens = quote!(#ty);
        // A recursive type's bound on itself would never be settled; the one below covers it.
        if mentions(tokens.clone(), &|i| params.contains(&i))
            && !mentions(tokens, &|i| own.contains(i))
        {
            clause
                .predicates
                .push(syn::parse_quote!(#ty: #nn::ModuleField));
        }
    }
    let ident = &input.ident;
    let (_, ty_generics, _) = input.generics.split_for_impl();
    clause
        .predicates
        .push(syn::parse_quote!(#ident #ty_generics: #nn::Module));
    generics
}

fn mentions(tokens: TokenStream, test: &dyn Fn(&Ident) -> bool) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => test(&ident),
        TokenTree::Group(group) => mentions(group.stream(), test),
        TokenTree::Punct(_) | TokenTree::Literal(_) => false,
    })
}

/// Everything wrong with one input, reported together.
#[derive(Default)]
struct Errors(Option<syn::Error>);

impl Errors {
    fn push(&mut self, error: syn::Error) {
        match &mut self.0 {
            Some(all) => all.combine(error),
            None => self.0 = Some(error),
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn into_tokens(self) -> TokenStream {
        self.0
            .map_or_else(TokenStream::new, |e| e.into_compile_error())
    }
}
