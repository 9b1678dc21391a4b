//! The operations that have several algorithms: their list, and choices seen and replaced by name.
//!
//! ```
//! use torsh_backend_cpu::operations::{Force, operations};
//! let (op, algorithms) = &operations()[0];
//! assert_eq!((*op, algorithms.contains(&"packed")), ("matmul", true));
//! let force = Force::new("matmul", "packed").unwrap();
//! assert_eq!(force.taken(), 0);
//! assert!(Force::new("matmul", "magic").is_err());
//! ```

pub use crate::machine::choice::{Chosen, Force, record};

use crate::machine::choice::{Operation, operation};
use crate::{kernels, memory};

/// All of them.
pub(crate) static OPERATIONS: &[Operation] = &[
    operation::<kernels::matmul::choose::ProductAlgorithm>(),
    operation::<kernels::matmul::choose::Split>(),
    operation::<kernels::conv::choose::ConvAlgorithm>(),
    operation::<kernels::attention::choose::AttentionAlgorithm>(),
    operation::<kernels::reduce::choose::ReduceAlgorithm>(),
    operation::<kernels::reduce::choose::ReduceSplit>(),
    operation::<kernels::fft::choose::LinesAlgorithm>(),
    operation::<kernels::softmax::choose::SoftmaxAlgorithm>(),
    operation::<kernels::resample::choose::ResampleAlgorithm>(),
    operation::<kernels::rnn::choose::RnnAlgorithm>(),
    operation::<kernels::row_norm::choose::RowNormAlgorithm>(),
    operation::<kernels::scan::choose::ScanAlgorithm>(),
    operation::<kernels::sort::choose::SortAlgorithm>(),
    operation::<kernels::sort::choose::SortSplit>(),
    operation::<kernels::copy::choose::CopyAlgorithm>(),
    operation::<kernels::index::choose::GatherAlgorithm>(),
    operation::<kernels::index::choose::ScatterAlgorithm>(),
    operation::<kernels::index::choose::ScatterSumAlgorithm>(),
    operation::<kernels::index::choose::SelectAlgorithm>(),
    operation::<kernels::index::choose::MaskedFillAlgorithm>(),
    operation::<kernels::index::choose::IsinAlgorithm>(),
    operation::<kernels::pooling::choose::PoolAlgorithm>(),
    operation::<kernels::optim::choose::StepAlgorithm>(),
    operation::<memory::transpose::choose::TransposeAlgorithm>(),
];

/// The operations that choose, each with its algorithms.
///
/// ```
/// let all = torsh_backend_cpu::operations::operations();
/// assert!(all.contains(&("sort", vec!["comparison", "radix-8", "radix-11"])));
/// ```
pub fn operations() -> Vec<(&'static str, Vec<&'static str>)> {
    OPERATIONS
        .iter()
        .map(|o| (o.name, (o.algorithms)()))
        .collect()
}

impl Force {
    /// Forces an algorithm of an operation.
    ///
    /// # Errors
    /// Where there is no such operation or algorithm; the message lists what there is.
    ///
    /// ```
    /// use torsh_backend_cpu::operations::Force;
    /// let error = Force::new("sort", "bubble").unwrap_err();
    /// assert_eq!(error, "sort has no algorithm `bubble`, but comparison, radix-8, radix-11");
    /// ```
    pub fn new(op: &str, algorithm: &str) -> Result<Force, String> {
        Force::among(OPERATIONS, op, algorithm)
    }
}
