//! Matrix Market's `.mtx` files, written.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use torsh_tensor::sparse::{Pattern, values};
use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::atomic::write_buffered;
use crate::layout::on_host;

/// What a Matrix Market file leaves out of a matrix, because it follows from the rest.
///
/// ```
/// use torsh_serialize::sparse::MtxSymmetry;
/// assert_eq!(MtxSymmetry::SkewSymmetric.name(), "skew-symmetric");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MtxSymmetry {
    /// Nothing.
    #[default]
    General,
    /// The elements above the diagonal, which are those below it.
    Symmetric,
    /// The elements above the diagonal, which are those below it times -1, and the diagonal, which is 0.
    SkewSymmetric,
    /// The elements above the diagonal, which are the conjugates of those below it.
    Hermitian,
}

impl MtxSymmetry {
    pub(super) const ALL: [MtxSymmetry; 4] = [
        MtxSymmetry::General,
        MtxSymmetry::Symmetric,
        MtxSymmetry::SkewSymmetric,
        MtxSymmetry::Hermitian,
    ];

    /// The word in the file's first line.
    pub const fn name(self) -> &'static str {
        match self {
            MtxSymmetry::General => "general",
            MtxSymmetry::Symmetric => "symmetric",
            MtxSymmetry::SkewSymmetric => "skew-symmetric",
            MtxSymmetry::Hermitian => "hermitian",
        }
    }
}

torsh_tensor::options! {
    /// How [`write_mtx_with`] writes.
    MtxOptions {
        /// What is left out. The matrix must be as it says, which is checked.
        symmetry: MtxSymmetry = MtxSymmetry::General;
        /// Whether only the places of the stored elements are written.
        pattern: bool = false;
        /// Lines of text that go before the numbers.
        comment: String = String::new(), &str => |text| text.to_string();
    }
}

/// Writes a matrix as a Matrix Market file (`scipy.io.mmwrite`), whole or not at all: a sparse one as `coordinate` with its
/// stored elements in their order, a strided one as `array`.
///
/// Floating-point numbers become `real`, with as many digits as they need to be read back as they are; integers and bools
/// `integer`, complex numbers `complex`.
///
/// ```
/// use torsh_serialize::sparse::write_mtx;
/// use torsh_tensor::sparse::{Pattern, from_values};
/// use torsh_tensor::tensor;
///
/// let path = std::env::temp_dir().join(format!("torsh-write-{}.mtx", std::process::id()));
/// let pattern = Pattern::coo(&[3, 4], &tensor![[0, 2], [3, 1]], true)?;
/// write_mtx(&from_values(&pattern, &tensor![0.5, 2.0])?, &path)?;
/// let text = std::fs::read_to_string(&path)?;
/// assert_eq!(text, "%%MatrixMarket matrix coordinate real general\n3 4 2\n1 4 0.5\n3 2 2.0\n");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A tensor that is no matrix, as one with batch or dense dimensions; a file that cannot be written.
#[torsh_tensor::names_caller]
pub fn write_mtx(matrix: &Tensor, path: impl AsRef<Path>) -> Result<()> {
    save(matrix, path.as_ref(), &MtxOptions::default())
}

/// [`write_mtx`] with options.
///
/// ```
/// use torsh_serialize::sparse::{MtxOptions, MtxSymmetry, write_mtx_with};
/// use torsh_tensor::sparse::{Pattern, from_values};
/// use torsh_tensor::tensor;
///
/// let path = std::env::temp_dir().join(format!("torsh-symmetric-{}.mtx", std::process::id()));
/// let pattern = Pattern::coo(&[2, 2], &tensor![[0, 1], [1, 0]], true)?;
/// let options = MtxOptions::new().symmetry(MtxSymmetry::Symmetric).comment("two nodes");
/// write_mtx_with(&from_values(&pattern, &tensor![7, 7])?, &path, options)?;
/// let text = std::fs::read_to_string(&path)?;
/// assert_eq!(text, "%%MatrixMarket matrix coordinate integer symmetric\n%two nodes\n2 2 1\n2 1 7\n");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Those of [`write_mtx`], and a matrix that does not have the symmetry: the error names the element.
#[torsh_tensor::names_caller]
pub fn write_mtx_with(matrix: &Tensor, path: impl AsRef<Path>, options: MtxOptions) -> Result<()> {
    save(matrix, path.as_ref(), &options)
}

fn refused(matrix: &Tensor, why: &str) -> TorshError {
    let what = matrix.describe();
    let layout = matrix.layout();
    TorshError::invalid(
        "write_mtx",
        format!("{why}: the tensor is {what} of the layout {layout}"),
    )
}

/// The elements.
enum Numbers {
    Integer(Vec<i64>),
    /// And whether they are of fewer bits than 64.
    Real(Vec<f64>, bool),
    /// Pairs.
    Complex(Vec<f64>, bool),
}

fn number(v: f64, single: bool, to: &mut String) {
    let _ = match (v.is_nan(), v.is_infinite(), single) {
        (true, ..) => write!(to, " nan"),
        (_, true, _) => write!(to, " {v}"),
        (.., true) => write!(to, " {:?}", v as f32),
        (.., false) => write!(to, " {v:?}"),
    };
}

impl Numbers {
    /// Those of a tensor of one dimension.
    fn of(t: &Tensor) -> Result<Numbers> {
        let dtype = t.dtype();
        let wide = |t: &Tensor| t.to_dtype(DType::F64)?.to_vec();
        Ok(match dtype {
            _ if dtype.is_complex() => {
                Numbers::Complex(wide(&t.view_as_real()?)?, dtype == DType::C64)
            }
            _ if dtype.is_floating_point() => Numbers::Real(wide(t)?, dtype != DType::F64),
            _ => Numbers::Integer(t.to_dtype(DType::I64)?.to_vec()?),
        })
    }

    fn field(&self) -> &'static str {
        match self {
            Numbers::Integer(_) => "integer",
            Numbers::Real(..) => "real",
            Numbers::Complex(..) => "complex",
        }
    }

    /// Adds element `i` to a line, with a space before it.
    fn write(&self, i: usize, to: &mut String) {
        match self {
            Numbers::Integer(v) => {
                let _ = write!(to, " {}", v[i]);
            }
            Numbers::Real(v, single) => number(v[i], *single, to),
            Numbers::Complex(v, single) => {
                number(v[2 * i], *single, to);
                number(v[2 * i + 1], *single, to);
            }
        }
    }

    /// Whether element `j` is what a symmetry makes of element `i`.
    fn mirrored(&self, i: usize, j: usize, symmetry: MtxSymmetry) -> bool {
        let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
        let minus = symmetry == MtxSymmetry::SkewSymmetric;
        let sign = |v: f64| if minus { -v } else { v };
        match self {
            Numbers::Integer(v) if minus => v[i].checked_neg() == Some(v[j]),
            Numbers::Integer(v) => v[i] == v[j],
            Numbers::Real(v, _) => same(sign(v[i]), v[j]),
            Numbers::Complex(v, _) => {
                let im = match symmetry {
                    MtxSymmetry::Hermitian => -v[2 * i + 1],
                    _ => sign(v[2 * i + 1]),
                };
                same(sign(v[2 * i]), v[2 * j]) && same(im, v[2 * j + 1])
            }
        }
    }
}

fn save(matrix: &Tensor, path: &Path, options: &MtxOptions) -> Result<()> {
    let symmetry = options.symmetry;
    let &[rows, cols] = matrix.dims() else {
        return Err(refused(matrix, "a Matrix Market file holds one matrix"));
    };
    if symmetry != MtxSymmetry::General && rows != cols {
        let why = format!("a {} matrix is square", symmetry.name());
        return Err(refused(matrix, &why));
    }
    let matrix = &matrix.detach();
    let (numbers, places) = match matrix.pattern() {
        None if options.pattern => {
            return Err(refused(
                matrix,
                "a strided tensor stores all elements, so it has no pattern",
            ));
        }
        None => (Numbers::of(&on_host(matrix)?.t()?.reshape([-1])?)?, None),
        Some(pattern) if pattern.batch_dim() > 0 || pattern.dense_dim() > 0 => {
            return Err(refused(
                matrix,
                "a Matrix Market file has no batch or dense dimensions",
            ));
        }
        Some(pattern) => {
            let values = on_host(&values(matrix)?)?.reshape([-1])?;
            (Numbers::of(&values)?, Some(places(&pattern)?))
        }
    };
    let impossible = match symmetry {
        MtxSymmetry::Hermitian => options.pattern || !matrix.dtype().is_complex(),
        MtxSymmetry::SkewSymmetric => options.pattern,
        MtxSymmetry::General | MtxSymmetry::Symmetric => false,
    };
    if impossible {
        let what = if options.pattern {
            "pattern"
        } else {
            numbers.field()
        };
        let why = format!(
            "the format has no {what} matrices that are {}",
            symmetry.name()
        );
        return Err(refused(matrix, &why));
    }
    let kept = match &places {
        Some(places) => kept(matrix, &numbers, places, options)?,
        None => kept_of_all(matrix, &numbers, rows, cols, symmetry)?,
    };
    write_buffered(path, |to| {
        let format = if places.is_some() {
            "coordinate"
        } else {
            "array"
        };
        let field = if options.pattern {
            "pattern"
        } else {
            numbers.field()
        };
        writeln!(
            to,
            "%%MatrixMarket matrix {format} {field} {}",
            symmetry.name()
        )?;
        for line in options.comment.lines() {
            writeln!(to, "%{line}")?;
        }
        match &places {
            Some(_) => writeln!(to, "{rows} {cols} {}", kept.len())?,
            None => writeln!(to, "{rows} {cols}")?,
        }
        let mut line = String::new();
        for i in kept {
            line.clear();
            if let Some(places) = &places {
                let (row, col) = places[i];
                let _ = write!(line, "{} {}", row + 1, col + 1);
            }
            if !options.pattern {
                numbers.write(i, &mut line);
            }
            writeln!(to, "{}", line.trim_start())?;
        }
        Ok(())
    })
}

/// Row and column of each stored element, in the order of the values.
fn places(pattern: &Pattern) -> Result<Vec<(i64, i64)>> {
    let list = |t: &Tensor| on_host(t)?.to_dtype(DType::I64)?.to_vec::<i64>();
    let plain = list(pattern.indices())?;
    let Some(compressed) = pattern.compressed_indices() else {
        let (rows, cols) = plain.split_at(pattern.nnz());
        return Ok(rows.iter().copied().zip(cols.iter().copied()).collect());
    };
    let [high, wide] = pattern.block().unwrap_or([1, 1]);
    let mut out = Vec::with_capacity(plain.len() * high * wide);
    for (line, pair) in (0i64..).zip(list(compressed)?.windows(2)) {
        let own = plain.get(pair[0] as usize..pair[1] as usize).unwrap_or(&[]);
        for &across in own {
            let (row, col) = match pattern.layout().by_rows() {
                true => (line, across),
                false => (across, line),
            };
            for i in 0..high as i64 {
                for j in 0..wide as i64 {
                    out.push((row * high as i64 + i, col * wide as i64 + j));
                }
            }
        }
    }
    Ok(out)
}

fn asymmetric(matrix: &Tensor, row: i64, col: i64, symmetry: MtxSymmetry) -> TorshError {
    let name = symmetry.name();
    refused(
        matrix,
        &format!("the element [{row}, {col}] is not as in a {name} matrix"),
    )
}

/// Which of the stored elements are written.
fn kept(
    matrix: &Tensor,
    numbers: &Numbers,
    places: &[(i64, i64)],
    options: &MtxOptions,
) -> Result<Vec<usize>> {
    let symmetry = options.symmetry;
    if symmetry == MtxSymmetry::General {
        return Ok((0..places.len()).collect());
    }
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|&i| places[i]);
    if let Some(pair) = order.windows(2).find(|w| places[w[0]] == places[w[1]]) {
        let (row, col) = places[pair[0]];
        let why = format!("the element [{row}, {col}] is stored twice");
        return Err(refused(matrix, &why).with_hint("call coalesce() first"));
    }
    let mut out = Vec::with_capacity(places.len() / 2 + 1);
    for (i, &(row, col)) in places.iter().enumerate() {
        let other = order.binary_search_by_key(&(col, row), |&j| places[j]);
        let fits = match other {
            Ok(at) => options.pattern || numbers.mirrored(i, order[at], symmetry),
            Err(_) => false,
        };
        if !fits {
            return Err(asymmetric(matrix, row, col, symmetry));
        }
        if row > col || (row == col && symmetry != MtxSymmetry::SkewSymmetric) {
            out.push(i);
        }
    }
    Ok(out)
}

/// Which of all elements, column by column, are written.
fn kept_of_all(
    matrix: &Tensor,
    numbers: &Numbers,
    rows: usize,
    cols: usize,
    symmetry: MtxSymmetry,
) -> Result<Vec<usize>> {
    if symmetry == MtxSymmetry::General {
        return Ok((0..rows * cols).collect());
    }
    let below = usize::from(symmetry == MtxSymmetry::SkewSymmetric);
    let mut out = Vec::with_capacity(rows * cols / 2 + rows);
    for col in 0..cols {
        for row in col..rows {
            let (i, j) = (col * rows + row, row * rows + col);
            if !numbers.mirrored(i, j, symmetry) {
                return Err(asymmetric(matrix, row as i64, col as i64, symmetry));
            }
            if row >= col + below {
                out.push(i);
            }
        }
    }
    Ok(out)
}
