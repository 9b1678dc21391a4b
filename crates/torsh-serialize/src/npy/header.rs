//! The header of a `.npy` file: a dict as Python writes it.
//!
//! `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`. Read by hand, as a general
//! parser of Python's literals follows the file's nesting with its own stack.

use crate::stored::Stored;

/// What an array holds.
#[derive(Debug, PartialEq)]
pub(super) enum Descr {
    Numbers(Stored),
    /// A text of so many bytes, or of so many characters of four bytes.
    Text {
        wide: bool,
        length: usize,
    },
    /// Anything else, in words.
    Foreign(String),
}

#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub(super) descr: Descr,
    pub(super) big_endian: bool,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

/// The codes that are written.
const CODES: [&str; 11] = [
    "f4", "f8", "f2", "i1", "u1", "i2", "i4", "i8", "b1", "c8", "c16",
];

impl Header {
    pub(super) fn parse(text: &[u8]) -> Result<Header, String> {
        let text = std::str::from_utf8(text).map_err(|_| "the header is no text".to_string())?;
        let mut scan = Scan(text);
        scan.expect('{')?;
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        while !scan.eat('}') {
            let key = scan.string()?;
            scan.expect(':')?;
            match key {
                "descr" => descr = Some(scan.descr()?),
                "fortran_order" => fortran_order = Some(scan.bool()?),
                "shape" => shape = Some(scan.shape()?),
                other => return Err(format!("the header has an unknown key '{other}'")),
            }
            if !scan.eat(',') {
                scan.expect('}')?;
                break;
            }
        }
        if !scan.0.trim().is_empty() {
            return Err("the header goes on after its end".into());
        }
        match (descr, fortran_order, shape) {
            (Some((descr, big_endian)), Some(fortran_order), Some(shape)) => Ok(Header {
                descr,
                big_endian,
                fortran_order,
                shape,
            }),
            _ => Err("the header lacks one of descr, fortran_order and shape".into()),
        }
    }

    /// Magic, version, length and the padded dict.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let own = |code: &&&str| {
            Stored::of_numpy(code).is_some_and(|stored| self.descr == Descr::Numbers(stored))
        };
        let number = || CODES.iter().find(own).map_or("", |code| code).to_string();
        let (code, size) = match self.descr {
            Descr::Numbers(stored) => (number(), stored.size()),
            Descr::Text {
                wide: false,
                length,
            } => (format!("S{length}"), 1),
            Descr::Text { wide: true, length } => (format!("U{length}"), 4),
            Descr::Foreign(_) => (String::new(), 1),
        };
        let order = match (size, self.big_endian) {
            (1, _) => '|',
            (_, true) => '>',
            (_, false) => '<',
        };
        let fortran = if self.fortran_order { "True" } else { "False" };
        let shape: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        let comma = if shape.len() == 1 { "," } else { "" };
        let mut dict = format!(
            "{{'descr': '{order}{code}', 'fortran_order': {fortran}, 'shape': ({}{comma}), }}",
            shape.join(", ")
        );
        // Version 1 holds 64 KiB, more than the 64 dimensions of any array need.
        let ahead = super::MAGIC.len() + 4;
        while !(ahead + dict.len() + 1).is_multiple_of(64) {
            dict.push(' ');
        }
        dict.push('\n');
        let mut out = super::MAGIC.to_vec();
        out.extend([1, 0]);
        out.extend((dict.len() as u16).to_le_bytes());
        out.extend(dict.into_bytes());
        out
    }
}

/// What a code says of an array, and whether it is big-endian.
fn of_code(descr: &str) -> Result<(Descr, bool), String> {
    let big = match descr.as_bytes().first() {
        Some(b'<') => false,
        Some(b'>') => true,
        Some(b'|') => false,
        Some(b'=') => cfg!(target_endian = "big"),
        _ => return Err(format!("'{descr}' is no dtype")),
    };
    let code = &descr[1..];
    if let Some(stored) = Stored::of_numpy(code) {
        return Ok((Descr::Numbers(stored), big));
    }
    let wide = code.starts_with('U');
    if let Some(Ok(length)) = code.strip_prefix(['S', 'a', 'U']).map(str::parse) {
        return Ok((Descr::Text { wide, length }, big));
    }
    let what = match code.as_bytes().first() {
        Some(b'O') => "Python objects, which only code of the file could make".into(),
        Some(b'U' | b'S' | b'a') => "texts".into(),
        Some(b'M' | b'm') => "dates".into(),
        Some(b'V') => "structures".into(),
        _ => format!("dtype '{descr}'"),
    };
    Ok((Descr::Foreign(what), big))
}

/// What is left of the text.
struct Scan<'a>(&'a str);

impl<'a> Scan<'a> {
    fn eat(&mut self, c: char) -> bool {
        match self.0.trim_start().strip_prefix(c) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, c: char) -> Result<(), String> {
        if self.eat(c) {
            return Ok(());
        }
        let there: String = self.0.trim_start().chars().take(12).collect();
        Err(format!("the header has {there:?} where {c:?} should be"))
    }

    fn string(&mut self) -> Result<&'a str, String> {
        let rest = self.0.trim_start();
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let quote = quote.ok_or("the header has no text where one should be")?;
        let (text, rest) = rest[1..]
            .split_once(quote)
            .ok_or("a text of the header does not end")?;
        self.0 = rest;
        Ok(text)
    }

    fn descr(&mut self) -> Result<(Descr, bool), String> {
        if !self.0.trim_start().starts_with(['[', '(']) {
            return of_code(self.string()?);
        }
        // The fields of a structured array, in brackets; names of fields may hold brackets themselves.
        let mut depth = 0usize;
        loop {
            if self.eat('[') || self.eat('(') {
                depth += 1;
            } else if self.eat(']') || self.eat(')') {
                depth -= 1;
                if depth == 0 {
                    let what = "structures (it is a structured array)";
                    return Ok((Descr::Foreign(what.into()), false));
                }
            } else if self.0.trim_start().starts_with(['\'', '"']) {
                self.string()?;
            } else {
                let mut rest = self.0.trim_start().chars();
                rest.next().ok_or("the fields of the header do not end")?;
                self.0 = rest.as_str();
            }
        }
    }

    fn word(&mut self) -> &'a str {
        let rest = self.0.trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.0 = rest;
        word
    }

    fn bool(&mut self) -> Result<bool, String> {
        match self.word() {
            "True" => Ok(true),
            "False" => Ok(false),
            other => Err(format!("fortran_order is '{other}', not True or False")),
        }
    }

    fn shape(&mut self) -> Result<Vec<usize>, String> {
        self.expect('(')?;
        let mut out = Vec::new();
        while !self.eat(')') {
            let word = self.word();
            // Python 2 wrote `3L`.
            let size = word
                .strip_suffix('L')
                .unwrap_or(word)
                .parse()
                .map_err(|_| format!("'{word}' is no size"))?;
            out.push(size);
            if out.len() > 64 {
                return Err("the array has more than 64 dimensions".into());
            }
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        for (shape, text) in [
            (vec![], "()"),
            (vec![3], "(3,)"),
            (vec![2, 0, 4], "(2, 0, 4)"),
        ] {
            for code in CODES {
                let stored = Stored::of_numpy(code).expect("a dtype");
                let header = Header {
                    descr: Descr::Numbers(stored),
                    big_endian: stored.size() > 1,
                    fortran_order: true,
                    shape: shape.clone(),
                };
                let bytes = header.to_bytes();
                assert!(bytes.len().is_multiple_of(64));
                assert!(String::from_utf8_lossy(&bytes[10..]).contains(text));
                assert_eq!(Header::parse(&bytes[10..]), Ok(header));
            }
        }
    }

    #[test]
    fn what_is_no_array_of_numbers_is_named() {
        let text = |descr: &str, shape: &str| {
            format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}")
        };
        for (descr, what) in [
            ("'|O'", "Python objects"),
            ("'<M8[ns]'", "dates"),
            ("'<f16'", "<f16"),
            ("[('a)]', '<f4'), ('b', '>i4', (2, 2))]", "structured"),
        ] {
            let header = Header::parse(text(descr, "(2, 3)").as_bytes()).expect(descr);
            assert_eq!(header.shape, [2, 3]);
            match header.descr {
                Descr::Foreign(found) => assert!(found.contains(what), "{descr}: {found}"),
                numbers => panic!("{descr}: {numbers:?}"),
            }
        }
        let header = Header::parse(text("'<U5'", "()").as_bytes()).expect("a text");
        let read = Descr::Text {
            wide: true,
            length: 5,
        };
        assert_eq!(header.descr, read);
        for (code, name) in [("u2", "uint16"), ("u4", "uint32"), ("u8", "uint64")] {
            let descr = format!("'>{code}'");
            let header = Header::parse(text(&descr, "(2,)").as_bytes()).expect(code);
            let stored = Stored::of_torch(name).expect(name);
            assert_eq!(
                (header.descr, header.big_endian),
                (Descr::Numbers(stored), true)
            );
        }
        for (descr, shape, why) in [
            ("[('a', '<f4')", "(2,)", "do not end"),
            ("'é4'", "(2,)", "no dtype"),
            ("'<f4'", "(-2,)", "where"),
            ("'<f4'", "(99999999999999999999999,)", "no size"),
            ("'<f4'", "((((((", "where"),
            ("'<f4'", "(2,", "no size"),
        ] {
            let error = Header::parse(text(descr, shape).as_bytes()).unwrap_err();
            let fits = error.contains(why) || (why == "where" && error.contains("no size"));
            assert!(fits, "{descr} {shape}: {error}");
        }
        assert!(Header::parse(b"{}").unwrap_err().contains("lacks"));
        assert!(Header::parse(b"\xff").is_err());
        let python2 = text("'<i8'", "(3L, 2L)");
        assert_eq!(Header::parse(python2.as_bytes()).unwrap().shape, [3, 2]);
    }
}
