//! What a kernel is called with.

use crate::random::Generator;
use crate::{DType, Device, Result, Scalar};

pub use crate::pointwise::Kernel;

/// One operand as a kernel sees it: memory, dtype and layout.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The first element (the layout's offset is already added).
    pub ptr: *mut u8,
    /// The element type.
    pub dtype: DType,
    /// The sizes.
    pub shape: &'a [usize],
    /// The strides, in elements.
    pub strides: &'a [isize],
}

impl<'a> View<'a> {
    /// The operand that an optional input has when it is not given.
    pub const ABSENT: View<'static> = View {
        ptr: std::ptr::null_mut(),
        dtype: DType::U8,
        shape: &[],
        strides: &[],
    };

    /// Whether the optional input was given.
    #[inline]
    pub fn is_present(&self) -> bool {
        !self.ptr.is_null()
    }

    /// The number of elements.
    #[inline]
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the elements lie row-major without gaps.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        crate::shape::is_contiguous(self.shape, self.strides)
    }
}

/// An argument that is not a tensor, as a kernel or shape rule reads it.
#[derive(Clone, Copy, Debug)]
pub enum Attr<'a> {
    /// Not given.
    None,
    /// A flag.
    Bool(bool),
    /// An integer, as a dimension.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A number of any kind.
    Scalar(Scalar),
    /// A list of integers, as dimensions or sizes.
    Ints(&'a [i64]),
    /// An element type.
    DType(DType),
    /// A device.
    Device(Device),
    /// A word, as a reduction's name.
    Str(&'static str),
    /// Where random numbers come from.
    Generator(&'a Generator),
}

impl<'a> Attr<'a> {
    /// Whether the argument was not given.
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self, Attr::None)
    }
    /// The flag; `false` where it is not one.
    #[inline]
    pub fn bool(&self) -> bool {
        matches!(self, Attr::Bool(true))
    }
    /// The integer; 0 where it is not one.
    #[inline]
    pub fn int(&self) -> i64 {
        match self {
            Attr::Int(i) => *i,
            Attr::Scalar(s) => s.to_i64(),
            _ => 0,
        }
    }
    /// The real number; 0 where it is not one.
    #[inline]
    pub fn float(&self) -> f64 {
        match self {
            Attr::Float(f) => *f,
            Attr::Int(i) => *i as f64,
            Attr::Scalar(s) => s.to_f64(),
            _ => 0.0,
        }
    }
    /// The number.
    #[inline]
    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Attr::Scalar(s) => Some(*s),
            Attr::Float(f) => Some(Scalar::Float(*f)),
            Attr::Int(i) => Some(Scalar::Int(*i)),
            Attr::Bool(b) => Some(Scalar::Bool(*b)),
            _ => None,
        }
    }
    /// The integers; empty where it is no list.
    #[inline]
    pub fn ints(&self) -> &'a [i64] {
        match self {
            Attr::Ints(v) => v,
            _ => &[],
        }
    }
    /// The element type, where given.
    #[inline]
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Attr::DType(d) => Some(*d),
            _ => None,
        }
    }
    /// The word; empty where it is none.
    #[inline]
    pub fn str(&self) -> &'static str {
        match self {
            Attr::Str(s) => s,
            _ => "",
        }
    }
}

/// Everything one kernel call gets. Outputs are allocated, never zeroed, and locked; inputs are
/// locked for reading; shapes and dtypes were checked by the op's rules.
pub struct KernelArgs<'a> {
    /// The kernel's key, for one function that serves several.
    pub kernel: Kernel,
    /// The dtype to compute in (the promoted one for pointwise ops).
    pub compute: DType,
    /// What to write.
    pub outputs: &'a [View<'a>],
    /// What to read.
    pub inputs: &'a [View<'a>],
    /// The arguments that are no tensors.
    pub attrs: &'a [Attr<'a>],
}

/// A kernel. Dtypes it does not have are an error that says so, made with
/// [`KernelArgs::unsupported`].
pub type KernelFn = fn(&KernelArgs<'_>) -> Result<()>;

impl<'a> KernelArgs<'a> {
    /// The error for a dtype that the kernel does not have.
    #[cold]
    pub fn unsupported(&self) -> crate::TorshError {
        crate::TorshError::dtype("", format!("not implemented for {}", self.compute))
            .with_hint("convert the operands to a dtype the operation has, as to_dtype(DType::F32)")
    }

    /// The attribute at `i`; [`Attr::None`] past the end.
    #[inline]
    pub fn attr(&self, i: usize) -> Attr<'a> {
        self.attrs.get(i).copied().unwrap_or(Attr::None)
    }
}
