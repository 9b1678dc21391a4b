//! Attributes of views: the structs of ops that change the layout and therefore have no kernel. The
//! attributes of kernels are in [`torsh_core::attrs`].
//!
//! Dimensions count from the start, and sizes are not negative: negative dimensions and inferred sizes
//! are resolved before the call.

use torsh_core::attrs::{Field, Reader};
use torsh_core::{DType, Dims, Result, SavedAttributes, Shape};

/// Makes the attributes of any call of named fields, by the name of their struct: of those of kernels
/// ([`torsh_core::attrs`]), of pointwise rows, of steps of optimizers, of this crate's ops without
/// kernels, and of the ops of other crates ([`Family`](crate::ops::Family)). It is how a call that was written down ([`Node::attributes`](crate::Node::attributes)) is
/// made again.
///
/// ```
/// use torsh_core::attrs::{Field, display};
/// let attrs = torsh_tensor::attrs::read("Transpose", &[("dim0", Field::Int(0)), ("dim1", Field::Int(1))])?;
/// assert_eq!(display(attrs.get()).to_string(), "dim0=0, dim1=1");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Where there is no such struct, or the fields are not its own.
pub fn read(name: &str, fields: &[(&str, Field<'_>)]) -> Result<SavedAttributes> {
    let own: [&[Reader]; 3] = [
        READERS,
        crate::transfer::READERS,
        crate::ops::strided::READERS,
    ];
    let above = crate::ops::families().iter().map(|f| f.attributes);
    let all: Vec<&[Reader]> = own.into_iter().chain(above).collect();
    match all.iter().any(|l| l.iter().any(|r| r.name == name)) {
        true => torsh_core::attrs::read_from(&all, name, fields),
        false => torsh_core::attrs::read(name, fields),
    }
}

torsh_core::attributes! {
    /// `expand`: dimensions of size 1 repeated.
    Expand {
        /// The result's sizes.
        size: Shape,
    }
    /// `view`: the elements in another shape.
    View {
        /// The result's sizes.
        size: Shape,
    }
    /// `view.dtype`: the memory read as elements of another dtype.
    ViewDtype {
        /// The result's dtype.
        dtype: DType,
    }
    /// `permute`: the dimensions in another order.
    Permute {
        /// The operand's dimension that each of the result's is.
        dims: Dims,
    }
    /// `transpose`: two dimensions swapped.
    Transpose {
        /// One of them.
        dim0: usize,
        /// The other.
        dim1: usize,
    }
    /// `squeeze`: dimensions of size 1 removed.
    Squeeze {
        /// The dimensions that are removed where their size is 1.
        dim: Dims,
    }
    /// `unsqueeze`: a dimension of size 1 put in.
    Unsqueeze {
        /// Its place in the result.
        dim: usize,
    }
    /// `select`: one index of a dimension, which is removed.
    Select {
        /// The dimension.
        dim: usize,
        /// The index.
        index: usize,
    }
    /// `slice` and `narrow`: every `step`-th index of a range of a dimension.
    Slice {
        /// The dimension.
        dim: usize,
        /// The first index.
        start: usize,
        /// How many indices there are.
        length: usize,
        /// The distance of two indices, at least 1.
        step: usize,
    }
    /// `diagonal`: a diagonal of two dimensions, as the last dimension.
    Diagonal {
        /// How far it is above the main diagonal; below it where negative.
        offset: i64,
        /// The dimension of the rows.
        dim1: usize,
        /// The dimension of the columns.
        dim2: usize,
    }
    /// `unfold`: all windows of a dimension, as the last dimension.
    Unfold {
        /// The dimension.
        dimension: usize,
        /// How many indices a window has.
        size: usize,
        /// The distance of two windows.
        step: usize,
    }
    /// `split` and its like: parts of a dimension, whose sizes are those of the results.
    Split {
        /// The dimension.
        dim: usize,
    }
    /// `unbind`: every index of a dimension, which is removed.
    Unbind {
        /// The dimension.
        dim: usize,
    }
}
