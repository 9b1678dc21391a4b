//! How much shorter a text gets when it is compressed.

use std::io::{Error, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The bytes of a text divided by those that zlib makes of it: texts that repeat themselves get much shorter.
pub(super) fn compression_ratio(text: &str) -> Result<f64, Error> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes())?;
    Ok(text.len() as f64 / encoder.finish()?.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_texts_get_shorter() -> Result<(), Error> {
        let plain = compression_ratio("The quick brown fox jumps over the lazy dog.")?;
        assert!(plain < 1.1, "{plain}");
        let repeated = compression_ratio(&" and so on".repeat(40))?;
        assert!(repeated > 15.0, "{repeated}");
        Ok(())
    }
}
