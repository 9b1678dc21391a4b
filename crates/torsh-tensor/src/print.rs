//! What a tensor looks like as text: PyTorch's `repr` (`torch/_tensor_str.py`), to the character.
//!
//! Pure functions of a shape and its values, so that any storage, device or layout can print
//! itself. A tensor of more than [`PrintOptions::threshold`] elements shows its edges alone;
//! [`displayed_indices`] says which elements those are, and only they need to be read.
//!
//! ```
//! use torsh_tensor::print::{Described, PrintOptions, Values, format};
//!
//! let d = Described::new(&[2, 2], "float32", Values::Float(vec![1.0, 2.5, -3.0, 4.0]));
//! assert_eq!(
//!     format(&d, &PrintOptions::default()),
//!     "tensor([[ 1.0000,  2.5000],\n        [-3.0000,  4.0000]])"
//! );
//! ```

mod element;
mod layout;
mod sparse;

use std::borrow::Cow;

use parking_lot::RwLock;

pub use layout::{contents, displayed_indices};
pub(crate) use sparse::{Part, format_sparse};

/// Elements of a tensor in row-major order: either all of them or, for a tensor that is
/// summarised, those that [`displayed_indices`] names.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Any floating dtype, widened to f64 (exact for float32, float16, bfloat16 and float8).
    Float(Vec<f64>),
    /// Any integer dtype.
    Int(Vec<i64>),
    /// `bool`.
    Bool(Vec<bool>),
    /// Any complex dtype as (real, imaginary), widened to f64.
    Complex(Vec<(f64, f64)>),
}

impl Values {
    /// Number of elements held.
    ///
    /// ```
    /// use torsh_tensor::print::Values;
    /// assert_eq!(Values::Int(vec![1, 2]).len(), 2);
    /// ```
    pub fn len(&self) -> usize {
        match self {
            Values::Float(v) => v.len(),
            Values::Int(v) => v.len(),
            Values::Bool(v) => v.len(),
            Values::Complex(v) => v.len(),
        }
    }

    /// Whether no element is held.
    ///
    /// ```
    /// use torsh_tensor::print::Values;
    /// assert!(Values::Float(vec![]).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn select(&self, indices: &[usize]) -> Values {
        fn pick<T: Copy>(v: &[T], indices: &[usize]) -> Vec<T> {
            indices.iter().map(|&i| v[i]).collect()
        }
        match self {
            Values::Float(v) => Values::Float(pick(v, indices)),
            Values::Int(v) => Values::Int(pick(v, indices)),
            Values::Bool(v) => Values::Bool(pick(v, indices)),
            Values::Complex(v) => Values::Complex(pick(v, indices)),
        }
    }
}

/// The options of `torch.set_printoptions`, with PyTorch's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrintOptions {
    /// Digits after the decimal point of floating values (4).
    pub precision: usize,
    /// A tensor of more elements than this is summarised (1000). `usize::MAX` never summarises.
    pub threshold: usize,
    /// Elements shown at each end of each dimension of a summary (3).
    pub edgeitems: usize,
    /// Columns of a line (80). A summarised row keeps to it too.
    pub linewidth: usize,
    /// Scientific notation: always, never, or where the values call for it (`None`).
    pub sci_mode: Option<bool>,
}

impl Default for PrintOptions {
    fn default() -> Self {
        PrintOptions::DEFAULT
    }
}

impl PrintOptions {
    const DEFAULT: PrintOptions = PrintOptions {
        precision: 4,
        threshold: 1000,
        edgeitems: 3,
        linewidth: 80,
        sci_mode: None,
    };

    /// PyTorch's defaults.
    ///
    /// ```
    /// assert_eq!(torsh_tensor::print::PrintOptions::new().precision, 4);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// The options of PyTorch's profile `"default"`, `"short"` (2 digits, 2 edge items) or
    /// `"full"` (never summarises); `None` for any other name.
    ///
    /// ```
    /// use torsh_tensor::print::PrintOptions;
    /// assert_eq!(PrintOptions::profile("short").map(|o| o.precision), Some(2));
    /// assert!(PrintOptions::profile("long").is_none());
    /// ```
    pub fn profile(name: &str) -> Option<PrintOptions> {
        match name {
            "default" => Some(PrintOptions::DEFAULT),
            "short" => Some(PrintOptions::DEFAULT.precision(2).edgeitems(2)),
            "full" => Some(PrintOptions::DEFAULT.threshold(usize::MAX)),
            _ => None,
        }
    }

    /// These options with another [`PrintOptions::precision`].
    ///
    /// ```
    /// use torsh_tensor::print::{Described, PrintOptions, Values, format};
    /// let x = Described::new(&[1], "float32", Values::Float(vec![0.125]));
    /// assert_eq!(format(&x, &PrintOptions::default().precision(3)), "tensor([0.125])");
    /// ```
    pub const fn precision(mut self, precision: usize) -> Self {
        self.precision = precision;
        self
    }

    /// These options with another [`PrintOptions::threshold`].
    ///
    /// ```
    /// use torsh_tensor::print::{Described, PrintOptions, Values, format};
    /// let x = Described::new(&[8], "int64", Values::Int((0..8).collect()));
    /// let options = PrintOptions::default().threshold(5);
    /// assert_eq!(format(&x, &options), "tensor([0, 1, 2,  ..., 5, 6, 7])");
    /// ```
    pub const fn threshold(mut self, threshold: usize) -> Self {
        self.threshold = threshold;
        self
    }

    /// These options with another [`PrintOptions::edgeitems`].
    ///
    /// ```
    /// use torsh_tensor::print::{Described, PrintOptions, Values, format};
    /// let x = Described::new(&[8], "int64", Values::Int((0..8).collect()));
    /// let options = PrintOptions::default().threshold(5).edgeitems(1);
    /// assert_eq!(format(&x, &options), "tensor([0,  ..., 7])");
    /// ```
    pub const fn edgeitems(mut self, edgeitems: usize) -> Self {
        self.edgeitems = edgeitems;
        self
    }

    /// These options with another [`PrintOptions::linewidth`].
    ///
    /// ```
    /// use torsh_tensor::print::{Described, PrintOptions, Values, format};
    /// let x = Described::new(&[4], "int64", Values::Int(vec![1, 2, 3, 4]));
    /// let options = PrintOptions::default().linewidth(14);
    /// assert_eq!(format(&x, &options), "tensor([1, 2,\n        3, 4])");
    /// ```
    pub const fn linewidth(mut self, linewidth: usize) -> Self {
        self.linewidth = linewidth;
        self
    }

    /// These options with another [`PrintOptions::sci_mode`].
    ///
    /// ```
    /// use torsh_tensor::print::{Described, PrintOptions, Values, format};
    /// let x = Described::new(&[1], "float32", Values::Float(vec![1500.0]));
    /// let options = PrintOptions::default().sci_mode(Some(true));
    /// assert_eq!(format(&x, &options), "tensor([1.5000e+03])");
    /// ```
    pub const fn sci_mode(mut self, sci_mode: Option<bool>) -> Self {
        self.sci_mode = sci_mode;
        self
    }
}

static OPTIONS: RwLock<PrintOptions> = RwLock::new(PrintOptions::DEFAULT);

/// The process-wide print options.
///
/// ```
/// use torsh_tensor::print::print_options;
/// assert_eq!(print_options().precision, 4);
/// ```
pub fn print_options() -> PrintOptions {
    *OPTIONS.read()
}

/// Replaces the process-wide print options.
///
/// ```
/// use torsh_tensor::print::{PrintOptions, set_print_options};
/// # use torsh_tensor::tensor;
/// set_print_options(PrintOptions::default().precision(2));
/// assert_eq!(tensor![0.125].to_string(), "tensor([0.12])");
/// # set_print_options(PrintOptions::default());
/// ```
pub fn set_print_options(options: PrintOptions) {
    *OPTIONS.write() = options;
}

/// Sets the process-wide print options to a profile of [`PrintOptions::profile`]; an unknown
/// name changes nothing and gives `false`.
///
/// ```
/// use torsh_tensor::print::set_profile;
/// assert!(set_profile("default"));
/// assert!(!set_profile("long"));
/// ```
#[must_use = "false means that no profile has this name"]
pub fn set_profile(name: &str) -> bool {
    match PrintOptions::profile(name) {
        Some(options) => {
            set_print_options(options);
            true
        }
        None => false,
    }
}

/// A tensor as its text needs it.
#[derive(Clone, Debug)]
pub struct Described<'a> {
    /// Sizes of the dimensions; empty for a scalar.
    pub shape: &'a [usize],
    /// The dtype as PyTorch prints it after `torch.`: `"float32"`.
    pub dtype_name: &'a str,
    /// The default floating dtype, which decides whether the dtype is printed: `"float32"`.
    pub default_dtype_name: &'a str,
    /// The elements: all of the shape, or those of [`displayed_indices`] alone.
    pub values: Values,
    /// Printed as `device='…'`: `Some("cuda:0")`, `Some("meta")`; `None` on the CPU.
    pub device: Option<&'a str>,
    /// Printed as `requires_grad=True` where there is no `grad_fn`.
    pub requires_grad: bool,
    /// Name of the node that made the tensor: `"AddBackward0"` prints `grad_fn=<AddBackward0>`.
    pub grad_fn: Option<&'a str>,
    /// A tensor without data, which prints `...` and its size; `values` is not read.
    pub meta: bool,
}

impl<'a> Described<'a> {
    /// A CPU tensor outside any graph, where float32 is the default dtype.
    ///
    /// ```
    /// use torsh_tensor::print::{Described, PrintOptions, Values, format};
    /// let x = Described::new(&[2], "int32", Values::Int(vec![1, 2]));
    /// assert_eq!(format(&x, &PrintOptions::default()), "tensor([1, 2], dtype=torch.int32)");
    /// ```
    pub fn new(shape: &'a [usize], dtype_name: &'a str, values: Values) -> Self {
        Described {
            shape,
            dtype_name,
            default_dtype_name: "float32",
            values,
            device: None,
            requires_grad: false,
            grad_fn: None,
            meta: false,
        }
    }

    /// Whether a reader infers the dtype from the printed elements.
    fn dtype_is_implied(&self) -> bool {
        let default_complex = match self.default_dtype_name {
            "float64" => "complex128",
            _ => "complex64",
        };
        let implied = [self.default_dtype_name, default_complex, "int64", "bool"];
        implied.contains(&self.dtype_name)
    }
}

/// The tensor as PyTorch prints it: `tensor([1., 2.], requires_grad=True)`.
///
/// # Panics
///
/// If the number of values is neither that of the shape nor that of [`displayed_indices`].
///
/// ```
/// use torsh_tensor::print::{Described, PrintOptions, Values, format};
/// let mut x = Described::new(&[2], "float32", Values::Float(vec![1.0, 2.5]));
/// x.requires_grad = true;
/// assert_eq!(format(&x, &PrintOptions::default()), "tensor([1.0000, 2.5000], requires_grad=True)");
/// ```
pub fn format(d: &Described<'_>, options: &PrintOptions) -> String {
    const PREFIX: &str = "tensor(";
    let mut suffixes: Vec<Cow<'_, str>> = Vec::new();
    if let Some(device) = d.device {
        suffixes.push(format!("device='{device}'").into());
    }

    let empty = d.shape.contains(&0);
    let shows_size = if d.meta {
        true
    } else if empty {
        // `[]` already says (0,).
        d.shape.len() != 1
    } else {
        options.edgeitems == 0
    };
    if shows_size {
        suffixes.push(format!("size={}", size_text(d.shape)).into());
    }
    // Without elements nothing implies int64 or bool, so only the default dtype is left out.
    let shows_dtype = if d.meta || empty {
        d.dtype_name != d.default_dtype_name
    } else {
        !d.dtype_is_implied()
    };
    if shows_dtype {
        suffixes.push(format!("dtype=torch.{}", d.dtype_name).into());
    }

    let body = if d.meta {
        "...".to_owned()
    } else {
        contents(d.shape, &d.values, PREFIX.len(), options)
    };

    if let Some(grad_fn) = d.grad_fn {
        suffixes.push(format!("grad_fn=<{grad_fn}>").into());
    } else if d.requires_grad {
        suffixes.push("requires_grad=True".into());
    }
    let mut text = format!("{PREFIX}{body}");
    add_suffixes(&mut text, &suffixes, PREFIX.len(), false, options);
    text.push(')');
    text
}

/// A shape as Python writes a tuple: `(2, 3)`, `(3,)`, `()`.
///
/// ```
/// use torsh_tensor::print::size_text;
/// assert_eq!((size_text(&[2, 3]), size_text(&[3])), ("(2, 3)".into(), "(3,)".into()));
/// ```
pub fn size_text(shape: &[usize]) -> String {
    match shape {
        [only] => format!("({only},)"),
        _ => {
            let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
            format!("({})", sizes.join(", "))
        }
    }
}

/// Appends `, suffix` for each, on a new line of `indent` spaces where it would not fit; the first one also where
/// `new_line` says so.
fn add_suffixes(
    text: &mut String,
    suffixes: &[Cow<'_, str>],
    indent: usize,
    mut new_line: bool,
    options: &PrintOptions,
) {
    // PyTorch counts the last line of the elements two longer than it is, so a suffix may
    // break that much early.
    let mut last_line = match text.rfind('\n') {
        Some(newline) => text.len() - newline + 1,
        None => text.len() + 2,
    };
    for suffix in suffixes {
        let length = suffix.chars().count();
        if std::mem::take(&mut new_line) || last_line + length + 2 > options.linewidth {
            text.push_str(",\n");
            text.extend(std::iter::repeat_n(' ', indent));
            last_line = indent + length;
        } else {
            text.push_str(", ");
            last_line += length + 2;
        }
        text.push_str(suffix);
    }
}
