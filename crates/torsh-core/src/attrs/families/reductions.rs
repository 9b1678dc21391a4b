//! Attributes of reductions, scans, sorting and softmax.

use crate::DType;
use crate::attrs::Ints;

crate::attributes! {
    /// Reductions that are given nothing but dimensions: `Mean`, `NanSum`, `Max`, `Min`, `MaxDim`,
    /// `MinDim`, `ArgMax`, `ArgMin`, `Any`, `All`, `CountNonzero`, `LogSumExp` and `Mode`.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Reduce { dims: [0, 2].into(), keepdim: false };
    /// assert_eq!(attrs::display(&call).to_string(), "dims=[0, 2], keepdim=false");
    /// ```
    Reduce {
        /// The dimensions that are reduced, counted from the start, ascending; one where the
        /// results are values with their positions.
        dims: Ints,
        /// Whether they stay, at size 1.
        keepdim: bool,
    }

    /// `Sum` and `Prod`.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Sum { dims: [1].into(), keepdim: true, dtype: None };
    /// assert_eq!(attrs::display(&call).to_string(), "dims=[1], keepdim=true, dtype=None");
    /// ```
    Sum {
        /// The dimensions that are reduced, counted from the start, ascending.
        dims: Ints,
        /// Whether they stay, at size 1.
        keepdim: bool,
        /// The result's dtype; without one it is the operand's, and int64 for integers and bools.
        dtype: Option<DType>,
    }

    /// `Var`: variance or standard deviation, and the mean where a second result is asked for.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Var { dims: [1].into(), keepdim: false, correction: 1.0, root: true };
    /// assert_eq!(attrs::display(&call).to_string(), "dims=[1], keepdim=false, correction=1.0, root=true");
    /// ```
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
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Norm { dims: [0].into(), keepdim: false, p: 2.0 };
    /// assert_eq!(attrs::display(&call).to_string(), "dims=[0], keepdim=false, p=2.0");
    /// ```
    Norm {
        /// The dimensions that are reduced, counted from the start, ascending.
        dims: Ints,
        /// Whether they stay, at size 1.
        keepdim: bool,
        /// The order: 0 counts what is not 0; infinities are possible too.
        p: f64,
    }

    /// `Median`: the median, the lower of two.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Median { dims: [0].into(), keepdim: false, ignore_nan: true };
    /// assert_eq!(attrs::display(&call).to_string(), "dims=[0], keepdim=false, ignore_nan=true");
    /// ```
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
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::KthValue { dims: [1].into(), keepdim: false, k: 3 };
    /// assert_eq!(attrs::display(&call).to_string(), "dims=[1], keepdim=false, k=3");
    /// ```
    KthValue {
        /// The dimension that is reduced, counted from the start.
        dims: Ints,
        /// Whether it stays, at size 1.
        keepdim: bool,
        /// Which, from 1.
        k: usize,
    }

    /// `CumSum` and `CumProd`: sums and products of all elements up to each.
    ///
    /// ```
    /// use torsh_core::{DType, attrs};
    /// let call = attrs::CumSum { dim: 0, dtype: Some(DType::F64) };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=0, dtype=float64");
    /// ```
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
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Softmax { dim: 1 };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=1");
    /// ```
    Softmax {
        /// The dimension, counted from the start.
        dim: usize,
    }

    /// `Sort`: sorted elements and the positions they had.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Sort { dim: 0, descending: true };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=0, descending=true");
    /// ```
    Sort {
        /// The dimension, counted from the start.
        dim: usize,
        /// Whether the greatest come first.
        descending: bool,
    }

    /// `Topk`: the largest or smallest elements and their positions.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Topk { dim: 1, largest: true, k: 5 };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=1, largest=true, k=5");
    /// ```
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
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::SearchSorted { right: true, out_int32: false };
    /// assert_eq!(attrs::display(&call).to_string(), "right=true, out_int32=false");
    /// ```
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
