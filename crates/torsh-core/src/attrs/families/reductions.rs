//! Attributes of reductions, scans, sorting and softmax.

use crate::DType;
use crate::attrs::Ints;

crate::attributes! {
    /// Reductions that are given nothing but dimensions: `Mean`, `NanSum`, `Max`, `Min`, `MaxDim`,
    /// `MinDim`, `ArgMax`, `ArgMin`, `Any`, `All`, `CountNonzero`, `LogSumExp` and `Mode`.
    Reduce {
        /// The dimensions that are reduced, counted from the start, ascending; one where the
        /// results are values with their positions.
        dims: Ints,
        /// Whether they stay, at size 1.
        keepdim: bool,
    }

    /// `Sum` and `Prod`.
    Sum {
        /// The dimensions that are reduced, counted from the start, ascending.
        dims: Ints,
        /// Whether they stay, at size 1.
        keepdim: bool,
        /// The result's dtype; without one it is the operand's, and int64 for integers and bools.
        dtype: Option<DType>,
    }

    /// `Var`: variance or standard deviation, and the mean where a second result is asked for.
    Var {
        /// The dimensions that are reduced, counted from the start, ascending.
        dims: Ints,
        /// Whether they stay, at size 1.
        keepdim: bool,
        /// What is taken from the number of elements before dividing by it.
        correction: f64,
        /// Whether the result is the root of the variance, the standard deviation.
        root: bool,
    }

    /// `Norm`: the vector norm.
    Norm {
        /// The dimensions that are reduced, counted from the start, ascending.
        dims: Ints,
        /// Whether they stay, at size 1.
        keepdim: bool,
        /// The order: 0 counts what is not 0; infinities are possible too.
        p: f64,
    }

    /// `Median`: the median, the lower of two.
    Median {
        /// The dimensions that are reduced, counted from the start, ascending; one where
        /// positions are a result too.
        dims: Ints,
        /// Whether they stay, at size 1.
        keepdim: bool,
        /// Whether NaN is skipped; else the result is NaN where there is one.
        ignore_nan: bool,
    }

    /// `KthValue`: the k-th smallest element.
    KthValue {
        /// The dimension that is reduced, counted from the start.
        dims: Ints,
        /// Whether it stays, at size 1.
        keepdim: bool,
        /// Which, from 1.
        k: usize,
    }

    /// `CumSum` and `CumProd`: sums and products of all elements up to each.
    CumSum {
        /// The dimension, counted from the start.
        dim: usize,
        /// The result's dtype for integers and bools; int64 without one.
        dtype: Option<DType>,
    }

    /// Scans that are given nothing but a dimension: `CumMax`, `CumMin` and `LogCumSumExp`.
    Scan {
        /// The dimension, counted from the start.
        dim: usize,
    }

    /// `Softmax`, `LogSoftmax` and their backwards.
    Softmax {
        /// The dimension, counted from the start.
        dim: usize,
    }

    /// `Sort`: sorted elements and the positions they had.
    Sort {
        /// The dimension, counted from the start.
        dim: usize,
        /// Whether the greatest come first.
        descending: bool,
    }

    /// `Topk`: the largest or smallest elements and their positions.
    Topk {
        /// The dimension, counted from the start.
        dim: usize,
        /// Whether the largest are wanted, not the smallest.
        largest: bool,
        /// How many.
        k: i64,
    }

    /// `Isin`: whether each element is among others.
    Isin {
        /// Whether the elements that are not among them are wanted.
        invert: bool,
    }

    /// `SearchSorted`: where values go in a sorted sequence.
    SearchSorted {
        /// Whether positions behind equal elements are wanted.
        right: bool,
        /// Whether positions come as int32, not int64.
        out_int32: bool,
    }

    /// `Bincount`: how often each integer from 0 on occurs.
    Bincount {
        /// The length of the result, which every element is below.
        bins: usize,
    }
}

// Sums and softmax are recorded often: their attributes are kept without memory of their own.
const _: () = assert!(size_of::<Reduce>() <= 48 && size_of::<Sum>() <= 48);
