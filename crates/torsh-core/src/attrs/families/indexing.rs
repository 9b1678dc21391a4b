//! Attributes of gathers, scatters, masks, embeddings and rearrangements.
//!
//! A `dim` is counted from the start; that of a 0-d tensor, seen as one of one element, is 0.

use super::super::Ints;
use crate::{Dims, Scalar};

crate::words! {
    in "torsh_core::attrs";

    /// How `ScatterReduce` and `IndexReduce` join the elements that meet at one position.
    ScatterReduction {
        /// Their sum.
        Sum = "sum",
        /// Their product.
        Prod = "prod",
        /// Their mean; integers are rounded down.
        Mean = "mean",
        /// The largest of them.
        Amax = "amax",
        /// The smallest of them.
        Amin = "amin",
    }

    /// What `Scatter` does with the element that is there, where it is not written over.
    ScatterUpdate {
        /// Adds to it.
        Add = "add",
        /// Multiplies it.
        Multiply = "multiply",
    }

    /// What becomes of the rows of a bag of embeddings.
    #[derive(Default)]
    EmbeddingBagMode {
        /// Their sum.
        Sum = "sum",
        /// Their mean; 0 without rows.
        #[default]
        Mean = "mean",
        /// Their largest elements; 0 without rows.
        Max = "max",
    }
}

crate::attributes! {
    /// `IndexSelect`: the positions of a dimension that a 1-d index names.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::IndexSelect { dim: 1 };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=1");
    /// ```
    IndexSelect {
        /// The dimension of the positions.
        dim: usize,
    }

    /// `IndexCopy`: writes at the positions of a dimension that a 1-d index names.
    IndexCopy {
        /// The dimension of the positions.
        dim: usize,
    }

    /// `IndexAdd`: adds to the positions of a dimension that a 1-d index names.
    ///
    /// ```
    /// use torsh_core::{Scalar, attrs};
    /// let call = attrs::IndexAdd { dim: 0, alpha: Scalar::Int(2) };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=0, alpha=2");
    /// ```
    IndexAdd {
        /// The dimension of the positions.
        dim: usize,
        /// The factor of what is added.
        alpha: Scalar,
    }

    /// `IndexFill`: writes one value at the positions of a dimension that a 1-d index names.
    ///
    /// ```
    /// use torsh_core::{Scalar, attrs};
    /// let call = attrs::IndexFill { dim: 1, value: Some(Scalar::Float(-1.0)) };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=1, value=-1.0");
    /// ```
    IndexFill {
        /// The dimension of the positions.
        dim: usize,
        /// The value, where no 0-d tensor has it.
        value: Option<Scalar>,
    }

    /// `Gather` and `ScatterAdd`: reads, or adds to, positions of a dimension, an index per
    /// element.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Gather { dim: 1, negative: false, sparse_grad: false };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=1, negative=false, sparse_grad=false");
    /// ```
    Gather {
        /// The dimension of the positions.
        dim: usize,
        /// Whether negative indices count from the end; else they are out of bounds.
        negative: bool,
        /// Whether the gradient of what `Gather` reads is a COO tensor.
        sparse_grad: bool,
    }

    /// The gradient of what `Gather` reads as a COO tensor.
    GatherBackward {
        /// The dimension of the positions.
        dim: usize,
        /// The sizes of what was read.
        sizes: Dims,
    }

    /// `Scatter`: writes at positions of a dimension, an index per element.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Scatter { dim: 0, reduce: Some(attrs::ScatterUpdate::Add), value: None };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=0, reduce='add', value=None");
    /// ```
    Scatter {
        /// The dimension of the positions.
        dim: usize,
        /// What is done with the elements that are there; `None` where they are written over.
        reduce: Option<ScatterUpdate>,
        /// The number to write, where there is no source.
        value: Option<Scalar>,
    }

    /// `ScatterReduce` (an index per element) and `IndexReduce` (a 1-d index): reduces into
    /// positions of a dimension.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::ScatterReduce { dim: 0, reduce: attrs::ScatterReduction::Mean, include_self: false };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=0, reduce='mean', include_self=false");
    /// ```
    ScatterReduce {
        /// The dimension of the positions.
        dim: usize,
        /// The reduction.
        reduce: ScatterReduction,
        /// Whether the elements that are there take part.
        include_self: bool,
    }

    /// `IndexGet`: reads at index tensors of one shape.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::IndexGet { dims: [0, 2].into(), position: 1 };
    /// assert_eq!(attrs::display(&call).to_string(), "dims=[0, 2], position=1");
    /// ```
    IndexGet {
        /// The dimension that each of them indexes.
        dims: Ints,
        /// How many of the other dimensions come before those of the index tensors in the result.
        position: usize,
    }

    /// `IndexPut`: writes at index tensors of one shape.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::IndexPut { dims: [0].into(), position: 0, accumulate: true };
    /// assert_eq!(attrs::display(&call).to_string(), "dims=[0], position=0, accumulate=true");
    /// ```
    IndexPut {
        /// The dimension that each of them indexes.
        dims: Ints,
        /// How many of the other dimensions come before those of the index tensors in the values.
        position: usize,
        /// Whether values are added to what is there; else the last one written stays.
        accumulate: bool,
    }

    /// `Put`: writes at positions of the flattened tensor.
    Put {
        /// Whether values are added to what is there; else the last one written stays.
        accumulate: bool,
    }

    /// `MaskedFill`: writes one value where a mask is true.
    ///
    /// ```
    /// use torsh_core::{Scalar, attrs};
    /// let call = attrs::MaskedFill { value: Some(Scalar::Int(0)) };
    /// assert_eq!(attrs::display(&call).to_string(), "value=0");
    /// ```
    MaskedFill {
        /// The value, where no 0-d tensor has it.
        value: Option<Scalar>,
    }

    /// `MaskedSelect`: the elements where a mask is true.
    MaskedSelect {
        /// How many there are.
        count: usize,
    }

    /// `MaskedScatterBackward`: the gradient of the source of `MaskedScatter`.
    MaskedScatterBackward {
        /// The source's sizes.
        sizes: Ints,
    }

    /// `Nonzero`: the positions of the elements that are not 0.
    Nonzero {
        /// How many there are.
        count: usize,
    }

    /// `OneHot`: vectors that are 1 at each element's class and 0 elsewhere.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::OneHot { num_classes: 10 };
    /// assert_eq!(attrs::display(&call).to_string(), "num_classes=10");
    /// ```
    OneHot {
        /// The length of the vectors.
        num_classes: usize,
    }

    /// `Embedding`: the rows of a weight that indices name. The kernel reads no field: they
    /// are kept for the gradient.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Embedding { padding_idx: Some(0), scale_grad_by_freq: false, sparse: false };
    /// assert_eq!(attrs::display(&call).to_string(), "padding_idx=0, scale_grad_by_freq=false, sparse=false");
    /// ```
    Embedding {
        /// The row that gets no gradient.
        padding_idx: Option<usize>,
        /// Whether gradients are divided by how often their row is named.
        scale_grad_by_freq: bool,
        /// Whether the gradient stores the named rows alone.
        sparse: bool,
    }

    /// `EmbeddingBackward`: the gradient of the weight of `Embedding`.
    EmbeddingBackward {
        /// The row that gets no gradient.
        padding_idx: Option<usize>,
        /// Whether gradients are divided by how often their row is named.
        scale_grad_by_freq: bool,
        /// The rows of the weight.
        num_weights: usize,
    }

    /// `EmbeddingBag`: sums, means or maxima of the rows of a weight that bags of indices name.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::EmbeddingBag {
    ///     mode: attrs::EmbeddingBagMode::Mean, padding_idx: None,
    ///     include_last_offset: false, scale_grad_by_freq: false, sparse: false,
    /// };
    /// assert_eq!(
    ///     attrs::display(&call).to_string(),
    ///     "mode='mean', padding_idx=None, include_last_offset=false, scale_grad_by_freq=false, sparse=false"
    /// );
    /// ```
    EmbeddingBag {
        /// What becomes of the rows.
        mode: EmbeddingBagMode,
        /// The row that does not count and gets no gradient.
        padding_idx: Option<usize>,
        /// Whether the last offset is the end of the last bag; else it is the start of one more.
        include_last_offset: bool,
        /// Whether gradients are divided by how often their row is named; the kernel does not
        /// read it.
        scale_grad_by_freq: bool,
        /// Whether the gradient of the weight stores the named rows alone; the kernel does not read it.
        sparse: bool,
    }

    /// `EmbeddingBagBackward`: the gradients of the weight of `EmbeddingBag` and of the factors
    /// of its indices.
    EmbeddingBagBackward {
        /// What became of the rows.
        mode: EmbeddingBagMode,
        /// The row that does not count and gets no gradient.
        padding_idx: Option<usize>,
        /// Whether the last offset is the end of the last bag; else it is the start of one more.
        include_last_offset: bool,
        /// Whether gradients are divided by how often their row is named.
        scale_grad_by_freq: bool,
        /// The rows of the weight.
        num_weights: usize,
        /// Their length.
        embedding_dim: usize,
        /// Whether the weight's gradient is computed.
        weight_grad: bool,
        /// Whether the factors' gradient is computed.
        factors_grad: bool,
    }

    /// `RepeatInterleave`: each position as often as a tensor says.
    RepeatInterleave {
        /// How many positions that makes.
        output_size: usize,
    }

    /// `Flip`: a copy in reversed order.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Flip { dims: [0, 2].into() };
    /// assert_eq!(attrs::display(&call).to_string(), "dims=[0, 2]");
    /// ```
    Flip {
        /// The dimensions that are reversed, distinct.
        dims: Ints,
    }

    /// `Roll`: the elements shifted, those pushed out coming in at the other end.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Roll { shifts: [1, -1].into(), dims: [0, 1].into() };
    /// assert_eq!(attrs::display(&call).to_string(), "shifts=[1, -1], dims=[0, 1]");
    /// ```
    Roll {
        /// By how many positions along each of the dimensions, negative ones towards the start.
        shifts: Ints,
        /// The dimensions; one may come twice.
        dims: Ints,
    }

    /// `Triangle`: a triangle of the matrices in the last two dimensions, 0 elsewhere.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Triangle { diagonal: -1, upper: false };
    /// assert_eq!(attrs::display(&call).to_string(), "diagonal=-1, upper=false");
    /// ```
    Triangle {
        /// The diagonal where it ends, which belongs to it: 0 is the main one, larger ones are
        /// above.
        diagonal: i64,
        /// Whether the upper triangle stays; else the lower one.
        upper: bool,
    }

    /// `DiagEmbed`: matrices of zeros whose diagonals are the operand's last dimension.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::DiagEmbed { offset: 1, dim1: 0, dim2: 2 };
    /// assert_eq!(attrs::display(&call).to_string(), "offset=1, dim1=0, dim2=2");
    /// ```
    DiagEmbed {
        /// The diagonal: 0 is the main one, larger ones are above.
        offset: i64,
        /// The dimension of the matrices' rows in the result.
        dim1: usize,
        /// The dimension of the matrices' columns in the result.
        dim2: usize,
    }

    /// `StridedAccumulate`: zeros in one dimension, to which the operand is added through a window
    /// of its shape.
    StridedAccumulate {
        /// The window's strides, in elements.
        stride: Ints,
        /// The window's first element.
        storage_offset: i64,
        /// How many elements the result has.
        numel: usize,
    }

    /// `StridedScatter`: a copy of the first operand in which a window holds the second.
    StridedScatter {
        /// The window's strides, in elements.
        stride: Ints,
        /// The window's first element.
        storage_offset: i64,
    }
}
