//! The functions of `torch` and `torch.nn.functional` that are methods of a tensor too. Each is made from the declaration
//! of its method, [`functions`](macro@crate::functions); `torsh_functional` has them beside those that are no methods.
//!
//! ```
//! use torsh_tensor::{functional as F, tensor};
//! assert_eq!(F::sum(&tensor![1, 2, 3])?.item::<i64>()?, 6);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

macro_rules! modules {
    ($($first:ident $(:: $rest:ident)*,)*) => {
        $(pub use crate::$first$(::$rest)*::*;)*

        /// The functions of each module by name.
        #[doc(hidden)]
        pub const NAMES: &[&[&str]] = &[$(crate::$first$(::$rest)*::NAMES),*];
    };
}
modules! {
    ops::activation::functions,
    ops::activation::plain,
    ops::attention::functions,
    ops::avg_pool::functions,
    ops::batch_norm::functions,
    ops::bilinear::functions,
    ops::block_attention::functions,
    ops::clamp::functions,
    ops::class_loss::functions,
    ops::complex::functions,
    ops::compound::functions,
    ops::conv::methods::functions,
    ops::copy::functions,
    ops::counting::methods::draws,
    ops::counting::methods::functions,
    ops::einsum::functions,
    ops::embedding::functions,
    ops::factory::functions,
    ops::feature_dropout::functions,
    ops::fold::functions,
    ops::getitem::functions,
    ops::grids::methods::functions,
    ops::gumbel::functions,
    ops::index::functions,
    ops::interpolate::functions,
    ops::join::functions,
    ops::loss::ctc::functions,
    ops::loss::entropy::functions,
    ops::loss::entropy::pairs,
    ops::loss::functions,
    ops::loss::label::functions,
    ops::loss::label::pairs,
    ops::loss::margin::functions,
    ops::loss::margin::pairs,
    ops::loss::pairs,
    ops::masked::functions,
    ops::matmul::methods::functions,
    ops::multi_head::functions,
    ops::numeric::methods::functions,
    ops::pad::functions,
    ops::pointwise::functions,
    ops::pointwise_extra::methods::functions,
    ops::pointwise_extra::methods::fused,
    ops::pool::functions,
    ops::random::methods::functions,
    ops::rearrange::methods::functions,
    ops::reduce::extreme::extremes,
    ops::reduce::extreme::functions,
    ops::reduce::methods::functions,
    ops::reduce::moments::functions,
    ops::reduce::norm::functions,
    ops::reduce::product::functions,
    ops::reduce::quantile::functions,
    ops::rnn::network::functions,
    ops::rnn::network::networks,
    ops::rrelu::functions,
    ops::sample_norm::functions,
    ops::scan::functions,
    ops::scatter::methods::functions,
    ops::select::functions,
    ops::shape::methods::functions,
    ops::shuffle::functions,
    ops::signal::stft::functions,
    ops::similarity::functions,
    ops::softmax::functions,
    ops::sort::methods::functions,
    ops::special::functions,
    ops::split::functions,
    ops::split::nsplit,
    ops::strided::functions,
    ops::unique::functions,
    ops::unpool::fractional,
    ops::unpool::functions,
    ops::view_copies::copies,
    ops::view_copies::functions,
    ops::view_copies::lists,
    ops::view_copies::parts,
    ops::views::functions,
    ops::windows::functions,
}
