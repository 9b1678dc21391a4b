//! The wire format of protocol buffers, as far as a SentencePiece model needs it. Nothing is allocated for a length that
//! a file claims: fields are slices of the file.

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed32([u8; 4]),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
}

/// The fields of a message, in the order of the file.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes, at: 0 }
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], String> {
        let rest = &self.bytes[self.at..];
        let taken = usize::try_from(count).ok().and_then(|n| rest.get(..n));
        let taken = taken.ok_or_else(|| {
            format!(
                "a field at byte {} has {count} bytes by its length, and {} are left",
                self.at,
                rest.len()
            )
        })?;
        self.at += taken.len();
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, String> {
        let begin = self.at;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self
                .bytes
                .get(self.at)
                .ok_or_else(|| format!("a number at byte {begin} is cut off"))?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(format!("a number at byte {begin} has more than 10 bytes"))
    }

    fn field(&mut self) -> Result<(u64, Wire<'a>), String> {
        let begin = self.at;
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => {
                let mut eight = [0; 8];
                eight.copy_from_slice(self.take(8)?);
                Wire::Fixed64(eight)
            }
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                let mut four = [0; 4];
                four.copy_from_slice(self.take(4)?);
                Wire::Fixed32(four)
            }
            kind => {
                return Err(format!(
                    "the field at byte {begin} has the wire type {kind}, which is none"
                ));
            }
        };
        match key >> 3 {
            0 => Err(format!("the field at byte {begin} has the number 0")),
            number => Ok((number, wire)),
        }
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Wire<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

impl<'a> Wire<'a> {
    fn name(&self) -> &'static str {
        match self {
            Wire::Varint(_) => "a number",
            Wire::Fixed32(_) => "four bytes",
            Wire::Fixed64(_) => "eight bytes",
            Wire::Bytes(_) => "bytes",
        }
    }

    fn wrong(&self, wanted: &str) -> String {
        format!("it is {}, not {wanted}", self.name())
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], String> {
        match self {
            Wire::Bytes(bytes) => Ok(bytes),
            other => Err(other.wrong("bytes")),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes()?).map_err(|_| "it is not UTF-8".into())
    }

    /// A number; negative ones of 32 bits are written with 64.
    pub(super) fn int(self) -> Result<i64, String> {
        match self {
            Wire::Varint(value) => Ok(value as i64),
            other => Err(other.wrong("a number")),
        }
    }

    pub(super) fn bool(self) -> Result<bool, String> {
        Ok(self.int()? != 0)
    }

    pub(super) fn float(self) -> Result<f32, String> {
        match self {
            Wire::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
            other => Err(other.wrong("a float")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u64, Wire<'_>)>, String> {
        Fields::new(bytes).collect()
    }

    #[test]
    fn fields_are_read_in_order() {
        let bytes = [
            0x08, 0x96, 0x01, 0x12, 2, b'h', b'i', 0x1d, 0, 0, 0x80, 0x3f, 0x21, 1, 2, 3, 4, 5, 6,
            7, 8,
        ];
        let fields = all(&bytes);
        assert_eq!(
            fields,
            Ok(vec![
                (1, Wire::Varint(150)),
                (2, Wire::Bytes(b"hi")),
                (3, Wire::Fixed32([0, 0, 0x80, 0x3f])),
                (4, Wire::Fixed64([1, 2, 3, 4, 5, 6, 7, 8])),
            ])
        );
        assert_eq!(Wire::Fixed32([0, 0, 0x80, 0x3f]).float(), Ok(1.0));
        assert_eq!(Wire::Varint(u64::MAX).int(), Ok(-1));
        assert_eq!(Wire::Bytes(b"hi").text(), Ok("hi"));
    }

    #[test]
    fn lengths_that_lie_are_errors() {
        for wrong in [
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..],
            &[0x12, 5, 1],
            &[0x08],
            &[0x08, 0x80],
            &[
                0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1,
            ],
            &[0x1d, 1],
            &[0x0b],
            &[0x00, 0x00],
        ] {
            assert!(all(wrong).is_err(), "{wrong:?}");
        }
    }
}
