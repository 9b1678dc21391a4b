//! Texts that come from other systems.

/// A text in UTF-8 without the mark (BOM, the bytes EF BB BF) that editors and spreadsheets of Windows put ahead of one.
/// Readers of configurations, vocabularies and lists call it: the mark is part of no word, and JSON has no place for it.
///
/// ```
/// use torsh_core::without_bom;
/// assert_eq!(without_bom("\u{feff}{}".as_bytes()), b"{}");
/// assert_eq!(without_bom(b"{}"), b"{}");
/// ```
pub fn without_bom(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_mark_at_the_start_goes() {
        assert_eq!(without_bom(b"\xef\xbb\xbf\xef\xbb\xbfa"), b"\xef\xbb\xbfa");
        assert_eq!(without_bom(b"a\xef\xbb\xbf"), b"a\xef\xbb\xbf");
        assert_eq!(without_bom(b"\xef\xbb"), b"\xef\xbb");
        assert_eq!(without_bom(b""), b"");
    }
}
