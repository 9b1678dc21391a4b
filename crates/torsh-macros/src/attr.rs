//! The `#[module(..)]` attributes.

use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, Lit, LitStr, Meta, Path, Token};

const ON_FIELDS: &str = "#[module(skip)] or #[module(rename = \"name\")]";
const ON_TYPES: &str = "#[module(crate = \"path\")]";

/// What a field's attributes say.
#[derive(Default)]
pub(crate) struct FieldAttr {
    /// Plain data: not visited.
    pub(crate) skip: bool,
    /// The name instead of the identifier.
    pub(crate) rename: Option<LitStr>,
}

/// Reads the attributes of a field.
pub(crate) fn field(attrs: &[Attribute]) -> syn::Result<FieldAttr> {
    let mut out = FieldAttr::default();
    for entry in entries(attrs, ON_FIELDS)? {
        match entry.name().as_str() {
            "skip" => {
                if let Some(value) = &entry.value {
                    return Err(syn::Error::new(
                        value.span(),
                        "`skip` takes no value: #[module(skip)]",
                    ));
                }
                if out.skip {
                    return Err(entry.twice());
                }
                out.skip = true;
            }
            "rename" => {
                let name = entry.string("rename = \"name\"")?;
                if out.rename.is_some() {
                    return Err(entry.twice());
                }
                // Dots separate the levels of a state dict's names.
                if name.value().is_empty() || name.value().contains('.') {
                    return Err(syn::Error::new(
                        name.span(),
                        "a field's name is not empty and has no `.`",
                    ));
                }
                out.rename = Some(name);
            }
            "crate" => {
                return Err(syn::Error::new(
                    entry.key.span(),
                    "`crate` belongs on the type, above `struct` or `enum`",
                ));
            }
            _ => return Err(entry.unknown(&["skip", "rename"], ON_FIELDS)),
        }
    }
    if let (true, Some(name)) = (out.skip, &out.rename) {
        return Err(syn::Error::new(
            name.span(),
            "a skipped field has no name: use either `skip` or `rename`",
        ));
    }
    Ok(out)
}

/// Reads the attributes of the type: the path given with `crate`.
pub(crate) fn container(attrs: &[Attribute]) -> syn::Result<Option<Path>> {
    let mut out = None;
    for entry in entries(attrs, ON_TYPES)? {
        match entry.name().as_str() {
            "crate" => {
                let path = entry.string("crate = \"path\"")?;
                if out.is_some() {
                    return Err(entry.twice());
                }
                out = Some(path.parse_with(Path::parse_mod_style).map_err(|_| {
                    syn::Error::new(path.span(), "expected a path such as \"my_crate::nn\"")
                })?);
            }
            key @ ("skip" | "rename") => {
                return Err(syn::Error::new(
                    entry.key.span(),
                    format!("`{key}` belongs on a field"),
                ));
            }
            _ => return Err(entry.unknown(&["crate"], ON_TYPES)),
        }
    }
    Ok(out)
}

/// Rejects attributes where they would have no effect (on an enum's variants).
pub(crate) fn none(attrs: &[Attribute]) -> syn::Result<()> {
    match attrs.iter().find(|a| a.path().is_ident("module")) {
        None => Ok(()),
        Some(attr) => Err(syn::Error::new_spanned(
            attr,
            "#[module(..)] belongs on the fields of a variant",
        )),
    }
}

/// `key` or `key = value`.
struct Entry {
    key: Ident,
    value: Option<Lit>,
}

impl Parse for Entry {
    fn parse(input: ParseStream) -> syn::Result<Self> {
        // `crate` is a keyword, hence `parse_any`.
        let key = Ident::parse_any(input)?;
        let value = match input.parse::<Option<Token![=]>>()? {
            Some(_) => Some(input.parse()?),
            None => None,
        };
        Ok(Entry { key, value })
    }
}

impl Entry {
    fn name(&self) -> String {
        self.key.to_string()
    }

    fn string(&self, form: &str) -> syn::Result<LitStr> {
        match &self.value {
            Some(Lit::Str(value)) => Ok(value.clone()),
            Some(other) => Err(syn::Error::new(
                other.span(),
                format!("expected a string: #[module({form})]"),
            )),
            None => Err(syn::Error::new(
                self.key.span(),
                format!("`{}` needs a value: #[module({form})]", self.key),
            )),
        }
    }

    fn twice(&self) -> syn::Error {
        syn::Error::new(self.key.span(), format!("`{}` is given twice", self.key))
    }

    fn unknown(&self, known: &[&str], forms: &str) -> syn::Error {
        let key = self.name();
        let near = known
            .iter()
            .map(|k| (distance(&key.to_lowercase(), k), *k))
            .filter(|(d, k)| *d <= 2 && *d < k.len())
            .min();
        let hint = match near {
            Some((_, k)) => format!("did you mean `{k}`?"),
            None => format!("expected {forms}"),
        };
        syn::Error::new(
            self.key.span(),
            format!("unknown module attribute `{key}`: {hint}"),
        )
    }
}

/// The entries of all `#[module(..)]` attributes; other attributes are not ours.
fn entries(attrs: &[Attribute], forms: &str) -> syn::Result<Vec<Entry>> {
    let mut out = Vec::new();
    for attr in attrs.iter().filter(|a| a.path().is_ident("module")) {
        let Meta::List(list) = &attr.meta else {
            return Err(syn::Error::new_spanned(attr, format!("expected {forms}")));
        };
        let parsed = list
            .parse_args_with(Punctuated::<Entry, Token![,]>::parse_terminated)
            .map_err(|e| syn::Error::new(e.span(), format!("{e}; expected {forms}")))?;
        if parsed.is_empty() {
            return Err(syn::Error::new_spanned(attr, format!("expected {forms}")));
        }
        out.extend(parsed);
    }
    Ok(out)
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substitution = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitution.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn edit_distances() {
        assert_eq!(distance("skip", "skip"), 0);
        assert_eq!(distance("skipp", "skip"), 1);
        assert_eq!(distance("ksip", "skip"), 2);
        assert_eq!(distance("name", "rename"), 2);
        assert_eq!(distance("", "skip"), 4);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
