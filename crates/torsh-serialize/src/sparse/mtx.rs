//! Matrix Market's `.mtx` files, read.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use torsh_tensor::sparse::{Pattern, from_values};
use torsh_tensor::{Result, Tensor, TorshError};

use super::check;
use super::write::MtxSymmetry;
use crate::source::Source;
use crate::{LoadOptions, in_file};

/// Longer than any line of numbers.
const MAX_LINE: u64 = 1 << 16;

/// Reads a Matrix Market file (`scipy.io.mmread`): `coordinate` gives a COO tensor, `array` a strided one.
///
/// `real` becomes float64, `integer` int64, `complex` complex128; the elements of a `pattern` are float64 ones. What the file
/// leaves out because a matrix is `symmetric`, `skew-symmetric` or `hermitian` is there in the tensor. The elements have the
/// order of the file, each followed by its mirror image; `coalesce()` sorts them.
///
/// ```
/// use torsh_serialize::sparse::read_mtx;
/// use torsh_tensor::{sparse::values, tensor};
///
/// let path = std::env::temp_dir().join(format!("torsh-read-{}.mtx", std::process::id()));
/// let text = "%%MatrixMarket matrix coordinate real symmetric\n% a comment\n3 3 2\n1 1 2.5\n3 1 -1\n";
/// std::fs::write(&path, text)?;
/// let matrix = read_mtx(&path)?;
/// let pattern = matrix.pattern().unwrap();
/// assert_eq!(pattern.indices(), &tensor![[0, 2, 0], [0, 0, 2]]);
/// assert_eq!(values(&matrix)?.to_vec::<f64>()?, [2.5, -1.0, -1.0]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A file that cannot be read, or that is not as its header says: the error names the line and the field. A header that
/// speaks of more entries than there are takes no memory for them.
#[torsh_tensor::names_caller]
pub fn read_mtx(path: impl AsRef<Path>) -> Result<Tensor> {
    read(Source::open(path.as_ref(), &LoadOptions::default())?)
}

/// [`read_mtx`] of a file's bytes in memory.
///
/// ```
/// use torsh_serialize::sparse::read_mtx_bytes;
/// use torsh_tensor::{DType, tensor};
///
/// let text = b"%%MatrixMarket matrix array integer general\n2 2\n1\n2\n3\n4\n";
/// // Column by column.
/// assert_eq!(read_mtx_bytes(text)?, tensor![[1, 3], [2, 4]].to_dtype(DType::I64)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn read_mtx_bytes(bytes: &[u8]) -> Result<Tensor> {
    read(Source::bytes(bytes))
}

/// The lines of a file.
struct Lines<R> {
    file: String,
    from: R,
    line: Vec<u8>,
    /// The number of the line, from 1 on.
    number: u64,
}

impl<R: BufRead> Lines<R> {
    #[track_caller]
    fn wrong(&self, why: impl std::fmt::Display) -> TorshError {
        TorshError::format(
            "read_mtx",
            format!("{}: line {}: {why}", self.file, self.number),
        )
    }

    /// Whether there is another line, which is read then.
    #[track_caller]
    fn advance(&mut self) -> Result<bool> {
        self.line.clear();
        let mut some = (&mut self.from).take(MAX_LINE);
        let read = some.read_until(b'\n', &mut self.line);
        let n = read.map_err(|e| {
            TorshError::from(std::io::Error::new(e.kind(), format!("{}: {e}", self.file)))
        })?;
        self.number += 1;
        if n as u64 == MAX_LINE {
            return Err(self.wrong(format!("it is longer than {MAX_LINE} bytes")));
        }
        Ok(n > 0)
    }

    /// The next line that is neither empty nor a comment.
    #[track_caller]
    fn next(&mut self) -> Result<bool> {
        while self.advance()? {
            let text = self.line.trim_ascii();
            if !text.is_empty() && text[0] != b'%' {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The fields of the line; those that are no text are empty.
    fn fields(&self) -> impl Iterator<Item = &str> {
        let words = self.line.split(u8::is_ascii_whitespace);
        let words = words.filter(|w| !w.is_empty());
        words.map(|w| std::str::from_utf8(w).unwrap_or(""))
    }

    /// The line's fields, which must be so many.
    #[track_caller]
    fn exactly<const N: usize>(&self, names: [&str; N]) -> Result<[&str; N]> {
        let mut fields = self.fields();
        let mut out = [""; N];
        for (name, place) in names.iter().zip(&mut out) {
            let field = fields.next();
            *place = field.ok_or_else(|| self.wrong(format!("the {name} is missing")))?;
        }
        match fields.next() {
            None => Ok(out),
            Some(more) => Err(self.wrong(format!(
                "there is {:?} after the {}",
                short(more),
                names.last().copied().unwrap_or("end")
            ))),
        }
    }

    #[track_caller]
    fn size(&self, name: &str, field: &str) -> Result<usize> {
        let size = field.parse::<usize>().ok();
        let size = size.filter(|&n| i64::try_from(n).is_ok());
        size.ok_or_else(|| self.wrong(format!("the {name} is {:?}, no size", short(field))))
    }

    #[track_caller]
    fn index(&self, name: &str, field: &str, size: usize) -> Result<i64> {
        match field.parse::<usize>() {
            Ok(i) if (1..=size).contains(&i) => Ok(i as i64 - 1),
            _ => Err(self.wrong(format!(
                "the {name} is {:?}, not one of 1 to {size}",
                short(field)
            ))),
        }
    }

    #[track_caller]
    fn real(&self, name: &str, field: &str) -> Result<f64> {
        // Fortran writes the exponents of doubles with a D.
        let parsed = field.parse().ok();
        let parsed = parsed.or_else(|| field.replace(['d', 'D'], "e").parse().ok());
        parsed.ok_or_else(|| self.wrong(format!("the {name} is {:?}, no number", short(field))))
    }

    #[track_caller]
    fn whole(&self, name: &str, field: &str) -> Result<i64> {
        let parsed = field.parse();
        parsed.map_err(|_| {
            self.wrong(format!(
                "the {name} is {:?}, no integer of 64 bits",
                short(field)
            ))
        })
    }
}

/// A field as errors show it.
fn short(field: &str) -> String {
    field.chars().take(40).collect()
}

/// What the elements are.
#[derive(Clone, Copy, PartialEq)]
enum Field {
    Real,
    Integer,
    Complex,
    Pattern,
}

/// The elements.
enum Numbers {
    Real(Vec<f64>),
    Integer(Vec<i64>),
    /// Pairs.
    Complex(Vec<f64>),
}

impl Numbers {
    fn new(field: Field) -> Numbers {
        match field {
            Field::Real | Field::Pattern => Numbers::Real(Vec::new()),
            Field::Integer => Numbers::Integer(Vec::new()),
            Field::Complex => Numbers::Complex(Vec::new()),
        }
    }

    /// Adds element `i` again, as it is at the mirrored place; `None` where the number is not there.
    fn mirror(&mut self, i: usize, symmetry: MtxSymmetry) -> Option<()> {
        let minus = symmetry == MtxSymmetry::SkewSymmetric;
        let sign = |v: f64| if minus { -v } else { v };
        match self {
            Numbers::Real(v) => v.push(sign(v[i])),
            Numbers::Integer(v) => v.push(match minus {
                true => v[i].checked_neg()?,
                false => v[i],
            }),
            Numbers::Complex(v) => {
                let (re, im) = (v[2 * i], v[2 * i + 1]);
                let im = if symmetry == MtxSymmetry::Hermitian {
                    -im
                } else {
                    im
                };
                v.extend([sign(re), sign(im)]);
            }
        }
        Some(())
    }

    /// Whether element `i` may be on the diagonal.
    fn on_diagonal(&self, i: usize, symmetry: MtxSymmetry) -> bool {
        match (symmetry, self) {
            (MtxSymmetry::SkewSymmetric, Numbers::Real(v)) => v[i] == 0.0,
            (MtxSymmetry::SkewSymmetric, Numbers::Integer(v)) => v[i] == 0,
            (MtxSymmetry::SkewSymmetric, Numbers::Complex(v)) => {
                v[2 * i] == 0.0 && v[2 * i + 1] == 0.0
            }
            (MtxSymmetry::Hermitian, Numbers::Complex(v)) => v[2 * i + 1] == 0.0,
            _ => true,
        }
    }

    /// The elements as a tensor of one dimension.
    fn tensor(&self) -> Result<Tensor> {
        match self {
            Numbers::Real(v) => Tensor::from_data(v, [v.len()]),
            Numbers::Integer(v) => Tensor::from_data(v, [v.len()]),
            Numbers::Complex(v) => Tensor::from_data(v, [v.len() / 2, 2])?.view_as_complex(),
        }
    }
}

/// What the first line says.
struct Header {
    coordinate: bool,
    field: Field,
    symmetry: MtxSymmetry,
}

impl Header {
    #[track_caller]
    fn read<R: BufRead>(lines: &mut Lines<R>) -> Result<Header> {
        lines.advance()?;
        if lines.line.starts_with(b"\x1f\x8b") {
            return Err(lines
                .wrong("the file is compressed with gzip")
                .with_hint("unpack it first: gunzip FILE"));
        }
        let start = lines.fields().next().unwrap_or("");
        if !start.eq_ignore_ascii_case("%%MatrixMarket") {
            return Err(lines.wrong(
                "this is no Matrix Market file, whose first line begins with %%MatrixMarket",
            ));
        }
        let [_, object, format, field, symmetry] =
            lines.exactly(["banner", "object", "format", "field", "symmetry"])?;
        let is = |text: &str, name: &str| text.eq_ignore_ascii_case(name);
        let no = |what: &str, text: &str, names: &str| {
            Err(lines.wrong(format!("the {what} is {:?}, not {names}", short(text))))
        };
        if !is(object, "matrix") {
            return no("object", object, "matrix");
        }
        let coordinate = match () {
            () if is(format, "coordinate") => true,
            () if is(format, "array") => false,
            () => return no("format", format, "coordinate or array"),
        };
        let kind = match () {
            () if is(field, "real") || is(field, "double") => Field::Real,
            () if is(field, "integer") => Field::Integer,
            () if is(field, "complex") => Field::Complex,
            () if is(field, "pattern") => Field::Pattern,
            () => return no("field", field, "real, integer, complex or pattern"),
        };
        let all = MtxSymmetry::ALL.into_iter();
        let Some(own) = all.into_iter().find(|s| is(symmetry, s.name())) else {
            let names = "general, symmetric, skew-symmetric or hermitian";
            return no("symmetry", symmetry, names);
        };
        let impossible = match (kind, own) {
            (Field::Pattern, _) if !coordinate => true,
            (Field::Pattern, MtxSymmetry::SkewSymmetric | MtxSymmetry::Hermitian) => true,
            (kind, MtxSymmetry::Hermitian) => kind != Field::Complex,
            _ => false,
        };
        match impossible {
            true => Err(lines.wrong(format!(
                "there is no matrix {} {} {}",
                short(format),
                short(field),
                own.name()
            ))),
            false => Ok(Header {
                coordinate,
                field: kind,
                symmetry: own,
            }),
        }
    }
}

#[track_caller]
fn read(mut source: Source) -> Result<Tensor> {
    let start = source.start()?;
    source.check_git_lfs(&start)?;
    std::io::Seek::rewind(&mut source)?;
    let mut lines = Lines {
        file: source.name.clone(),
        from: BufReader::new(source),
        line: Vec::new(),
        number: 0,
    };
    let header = Header::read(&mut lines)?;
    if !lines.next()? {
        return Err(lines.wrong("the file ends before the sizes of the matrix"));
    }
    let (rows, cols, nnz) = match header.coordinate {
        true => {
            let [r, c, n] =
                lines.exactly(["number of rows", "number of columns", "number of entries"])?;
            (
                lines.size("number of rows", r)?,
                lines.size("number of columns", c)?,
                lines.size("number of entries", n)?,
            )
        }
        false => {
            let [r, c] = lines.exactly(["number of rows", "number of columns"])?;
            (
                lines.size("number of rows", r)?,
                lines.size("number of columns", c)?,
                0,
            )
        }
    };
    if header.symmetry != MtxSymmetry::General && rows != cols {
        return Err(lines.wrong(format!(
            "a {} matrix cannot be {rows} x {cols}",
            header.symmetry.name()
        )));
    }
    match header.coordinate {
        true => coordinate(&mut lines, &header, rows, cols, nnz),
        false => array(&mut lines, &header, rows, cols),
    }
}

/// Reads the numbers of one element from what is left of a line's fields.
#[track_caller]
fn element<'a, R: BufRead>(
    lines: &'a Lines<R>,
    mut fields: impl Iterator<Item = &'a str>,
    field: Field,
    to: &mut Numbers,
) -> Result<()> {
    let mut next = |name: &str| {
        let field = fields.next();
        field.ok_or_else(|| lines.wrong(format!("the {name} is missing")))
    };
    match (to, field) {
        (Numbers::Real(v), Field::Pattern) => v.push(1.0),
        (Numbers::Real(v), _) => v.push(lines.real("value", next("value")?)?),
        (Numbers::Integer(v), _) => v.push(lines.whole("value", next("value")?)?),
        (Numbers::Complex(v), _) => {
            let re = lines.real("real part", next("real part")?)?;
            let im = lines.real("imaginary part", next("imaginary part")?)?;
            v.extend([re, im]);
        }
    }
    match fields.next() {
        None => Ok(()),
        Some(more) => Err(lines.wrong(format!("there is {:?} after the value", short(more)))),
    }
}

#[track_caller]
fn coordinate<R: BufRead>(
    lines: &mut Lines<R>,
    header: &Header,
    rows: usize,
    cols: usize,
    nnz: usize,
) -> Result<Tensor> {
    let (mut row, mut col, mut numbers) = (Vec::new(), Vec::new(), Numbers::new(header.field));
    let mut count = 0;
    while lines.next()? {
        if count == nnz {
            return Err(lines.wrong(format!(
                "there are more entries than the {nnz} of the sizes"
            )));
        }
        count += 1;
        let mut fields = lines.fields();
        let (i, j) = (fields.next().unwrap_or(""), fields.next().unwrap_or(""));
        let (i, j) = (
            lines.index("row", i, rows)?,
            lines.index("column", j, cols)?,
        );
        element(lines, fields, header.field, &mut numbers)?;
        let at = row.len();
        row.push(i);
        col.push(j);
        if header.symmetry == MtxSymmetry::General {
            continue;
        }
        if i == j {
            if !numbers.on_diagonal(at, header.symmetry) {
                let name = header.symmetry.name();
                return Err(lines.wrong(format!(
                    "a {name} matrix cannot have this value on its diagonal"
                )));
            }
            continue;
        }
        let mirrored = numbers.mirror(at, header.symmetry);
        mirrored.ok_or_else(|| lines.wrong("the value has no negative of 64 bits"))?;
        row.push(j);
        col.push(i);
    }
    if count < nnz {
        return Err(lines.wrong(format!("the file ends after {count} of {nnz} entries")));
    }
    let n = row.len();
    row.append(&mut col);
    let pattern = Tensor::from_data(&row, [2, n])
        .and_then(|indices| Pattern::coo(&[rows, cols], &indices, check::rises(&row, n)));
    let made = pattern.and_then(|pattern| from_values(&pattern, &numbers.tensor()?));
    made.map_err(|e| in_file(&lines.file, "the matrix", e))
}

#[track_caller]
fn array<R: BufRead>(
    lines: &mut Lines<R>,
    header: &Header,
    rows: usize,
    cols: usize,
) -> Result<Tensor> {
    let all = rows
        .checked_mul(cols)
        .filter(|&n| n <= isize::MAX as usize / 16);
    let all =
        all.ok_or_else(|| lines.wrong(format!("a matrix of {rows} x {cols} is too large")))?;
    // Column by column; of a symmetric matrix from the diagonal on, or from below it.
    let wanted = match header.symmetry {
        MtxSymmetry::General => all,
        MtxSymmetry::SkewSymmetric => (all - rows) / 2,
        MtxSymmetry::Symmetric | MtxSymmetry::Hermitian => (all - rows) / 2 + rows,
    };
    let mut numbers = Numbers::new(header.field);
    let mut count = 0;
    while lines.next()? {
        if count == wanted {
            return Err(lines.wrong(format!("there are more values than {wanted}")));
        }
        count += 1;
        element(lines, lines.fields(), header.field, &mut numbers)?;
    }
    if count < wanted {
        return Err(lines.wrong(format!("the file ends after {count} of {wanted} values")));
    }
    let made = numbers.tensor().and_then(|listed| match header.symmetry {
        MtxSymmetry::General => listed
            .reshape([cols as i64, rows as i64])?
            .t()?
            .contiguous(),
        symmetry => whole(&listed, rows, symmetry),
    });
    made.map_err(|e| in_file(&lines.file, "the matrix", e))
}

/// The matrix of the columns of its lower triangle.
fn whole(listed: &Tensor, n: usize, symmetry: MtxSymmetry) -> Result<Tensor> {
    let below = usize::from(symmetry == MtxSymmetry::SkewSymmetric);
    let (mut at, mut mirrored) = (Vec::new(), Vec::new());
    for col in 0..n {
        for row in col + below..n {
            at.push((row * n + col) as i64);
            mirrored.push((col * n + row) as i64);
        }
    }
    let index = |v: &[i64]| Tensor::from_data(v, [v.len()]);
    let other = match symmetry {
        MtxSymmetry::SkewSymmetric => listed.neg()?,
        MtxSymmetry::Hermitian => listed.conj_physical()?,
        _ => listed.clone(),
    };
    // The lower triangle last: a diagonal stays as it was written.
    Tensor::zeros([n * n], listed.dtype(), listed.device())?
        .index_copy(0, &index(&mirrored)?, &other)?
        .index_copy(0, &index(&at)?, listed)?
        .reshape([n as i64, n as i64])
}
