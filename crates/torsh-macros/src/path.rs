//! The path of `torsh-nn` in the generated code.

use proc_macro2::Span;
use syn::{Ident, Path, parse_quote};

use crate::manifest::{Found, Missing, find};

/// The path of `torsh-nn` as seen from the crate being compiled.
///
/// A direct dependency on `torsh-nn` wins over `torsh`, because the crates of the workspace
/// have the former as a dependency and the latter, if at all, for tests.
pub(crate) fn nn_path() -> syn::Result<Path> {
    resolve(find)
}

fn resolve(find: impl Fn(&str) -> Result<Found, Missing>) -> syn::Result<Path> {
    // Both crates name themselves with `extern crate self as ..`, so one absolute path serves
    // their library, tests, examples and doctests alike; `crate` would be wrong in most.
    match find("torsh-nn") {
        Ok(Found::Itself) => return Ok(parse_quote!(::torsh_nn)),
        Ok(Found::Name(name)) => {
            let name = ident(&name);
            return Ok(parse_quote!(::#name));
        }
        Err(_) => {}
    }
    match find("torsh") {
        Ok(Found::Name(name)) => {
            let name = ident(&name);
            Ok(parse_quote!(::#name::nn))
        }
        Err(Missing::NotNamed) => Err(syn::Error::new(
            Span::call_site(),
            "derive(Module): Cargo.toml names neither `torsh` nor `torsh-nn` as a dependency; \
             add one, or say where its items are re-exported: \
             #[module(crate = \"my_crate::nn\")]",
        )),
        // Itself, or built without Cargo: nothing to look the name up in.
        Ok(Found::Itself) | Err(_) => Ok(parse_quote!(::torsh::nn)),
    }
}

fn ident(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quote::ToTokens;

    fn path(found: &[(&str, &str)]) -> Result<String, String> {
        resolve(
            |name| match found.iter().find(|(krate, _)| *krate == name) {
                Some((_, "self")) => Ok(Found::Itself),
                Some((_, local)) => Ok(Found::Name((*local).to_string())),
                None => Err(Missing::NotNamed),
            },
        )
        .map(|path| path.to_token_stream().to_string().replace(' ', ""))
        .map_err(|e| e.to_string())
    }

    #[test]
    fn follows_the_dependency() {
        assert_eq!(path(&[("torsh", "torsh")]).unwrap(), "::torsh::nn");
        assert_eq!(path(&[("torsh", "tr")]).unwrap(), "::tr::nn");
        assert_eq!(path(&[("torsh-nn", "torsh_nn")]).unwrap(), "::torsh_nn");
        assert_eq!(
            path(&[("torsh-nn", "layers"), ("torsh", "torsh")]).unwrap(),
            "::layers"
        );
    }

    #[test]
    fn inside_the_crates_themselves() {
        assert_eq!(path(&[("torsh-nn", "self")]).unwrap(), "::torsh_nn");
        assert_eq!(path(&[("torsh", "self")]).unwrap(), "::torsh::nn");
    }

    #[test]
    fn no_dependency_is_an_error_with_a_hint() {
        let error = path(&[]).unwrap_err();
        assert!(
            error.contains("neither `torsh` nor `torsh-nn`"),
            "got: {error}"
        );
        assert!(error.contains("#[module(crate = "), "got: {error}");
    }

    #[test]
    fn without_cargo_the_face_crate_is_assumed() {
        let path = resolve(|_| Err(Missing::NoManifest)).unwrap();
        assert_eq!(path.to_token_stream().to_string(), ":: torsh :: nn");
    }
}
