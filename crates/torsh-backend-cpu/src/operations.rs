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

use std::sync::LazyLock;

pub use crate::machine::choice::{Algorithm, Chosen, Force, Operation, operation, pick, record};
#[doc(hidden)]
pub use inventory;

use crate::{kernels, memory};

/// Makes the operations of another crate known, each given by the enum of its [`Algorithm`]s: they are printed, forced and
/// tuned like this crate's.
#[macro_export]
macro_rules! operations {
    ($($algorithm:ty),* $(,)?) => { $(
        $crate::operations::inventory::submit! {
            $crate::operations::Linked($crate::operations::operation::<$algorithm>())
        }
    )* };
}

/// An operation of another crate that is linked into the program.
#[doc(hidden)]
pub struct Linked(pub Operation);

inventory::collect!(Linked);

/// All of them: those of other crates come last, by name.
pub(crate) fn all() -> &'static [Operation] {
    static ALL: LazyLock<Vec<Operation>> = LazyLock::new(|| {
        let mut linked: Vec<_> = inventory::iter::<Linked>.into_iter().map(|l| l.0).collect();
        linked.sort_by_key(|o| o.name);
        OPERATIONS.iter().copied().chain(linked).collect()
    });
    &ALL
}

/// Those of this crate.
static OPERATIONS: &[Operation] = &[
    operation::<kernels::matmul::choose::ProductAlgorithm>(),
    operation::<kernels::matmul::choose::ProductSplit>(),
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
    all().iter().map(|o| (o.name, (o.algorithms)())).collect()
}

/// The choices of an operation of another crate for the problems of its [`Algorithm::examples`], on the described
/// processors: the crate's tests compare them with a file, whose diff shows the effect of a changed threshold.
///
/// # Errors
/// Where there is no such operation.
///
/// ```
/// let error = torsh_backend_cpu::operations::choices("magic").unwrap_err();
/// assert!(error.starts_with("no operation `magic` has algorithms"), "{error}");
/// ```
pub fn choices(op: &str) -> Result<String, String> {
    Ok((crate::machine::choice::find(all(), op)?.choices)())
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
        Force::among(all(), op, algorithm)
    }
}
