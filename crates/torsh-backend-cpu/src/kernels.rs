//! The kernels, a file or folder for each group of operations.

pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod check;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod create;
pub(crate) mod cross;
pub(crate) mod embedding_bag;
pub(crate) mod exp_rows;
pub mod fft;
pub(crate) mod index;
pub(crate) mod loss;
pub(crate) mod matmul;
pub(crate) mod optim;
pub(crate) mod panels;
pub(crate) mod pointwise;
pub(crate) mod pooling;
pub(crate) mod random;
pub(crate) mod reduce;
pub(crate) mod resample;
pub(crate) mod rnn;
pub(crate) mod row_norm;
pub(crate) mod scan;
pub(crate) mod softmax;
pub(crate) mod sort;
pub(crate) mod spatial;

use torsh_core::{Kernel, KernelFn};

/// The kernel for a key; `None` where the CPU has none.
pub(crate) fn kernel(k: Kernel) -> Option<KernelFn> {
    Some(match k {
        Kernel::Assert => check::assert,
        Kernel::Copy => copy::copy,
        Kernel::Fill => copy::fill,
        Kernel::Where => copy::select,
        Kernel::Arange => create::arange,
        Kernel::Linspace => create::linspace,
        Kernel::Eye => create::eye,
        Kernel::Cat => create::cat,
        Kernel::Pad => create::pad,
        Kernel::Cross => cross::cross,
        Kernel::EmbeddingBag | Kernel::EmbeddingBagBackward => embedding_bag::embedding_bag,
        Kernel::Equal => index::compare::equal,
        Kernel::IndexSelect => index::gather::index_select,
        Kernel::Gather => index::gather::gather,
        Kernel::IndexGet => index::gather::index_get,
        Kernel::Take => index::gather::take,
        Kernel::Embedding => index::gather::embedding,
        Kernel::MaskedCount => index::masked::masked_count,
        Kernel::MaskedSelect => index::masked::masked_select,
        Kernel::MaskedFill => index::masked::masked_fill,
        Kernel::MaskedScatter => index::masked::masked_scatter,
        Kernel::MaskedScatterBackward => index::masked::masked_scatter_backward,
        Kernel::Nonzero => index::masked::nonzero,
        Kernel::OneHot => index::misc::one_hot,
        Kernel::Isin => index::misc::isin,
        Kernel::RepeatCount => index::misc::repeat_count,
        Kernel::RepeatInterleave => index::misc::repeat_interleave,
        Kernel::Bincount => index::misc::bincount,
        Kernel::SearchSorted => index::misc::search_sorted,
        Kernel::IndexAdd => index::scatter::index_add,
        Kernel::IndexReduce => index::scatter::index_reduce,
        Kernel::IndexCopy => index::scatter::index_copy,
        Kernel::IndexFill => index::scatter::index_fill,
        Kernel::Scatter => index::scatter::scatter,
        Kernel::ScatterAdd => index::scatter::scatter_add,
        Kernel::ScatterReduce => index::scatter::scatter_reduce,
        Kernel::IndexPut => index::scatter::index_put,
        Kernel::Put => index::scatter::put,
        Kernel::EmbeddingBackward => index::scatter::embedding_backward,
        Kernel::Flip => index::strided::flip,
        Kernel::Roll => index::strided::roll,
        Kernel::Triangle => index::strided::triangle,
        Kernel::DiagEmbed => index::strided::diag_embed,
        Kernel::StridedScatter => index::strided::strided_scatter,
        Kernel::StridedAccumulate => index::strided::strided_accumulate,
        Kernel::Sort => sort::sort,
        Kernel::Topk => sort::topk::topk,
        Kernel::Conv | Kernel::ConvTranspose | Kernel::ConvWeight => conv::conv,
        Kernel::ConvBatchNorm => conv::conv_batch_norm,
        Kernel::Im2Col | Kernel::Col2Im => conv::fold::fold,
        Kernel::Uniform
        | Kernel::Normal
        | Kernel::Exponential
        | Kernel::Cauchy
        | Kernel::LogNormal => random::floating,
        Kernel::Geometric => random::geometric,
        Kernel::Bernoulli => random::bernoulli,
        Kernel::RandInt => random::randint,
        Kernel::RandPerm => random::randperm,
        Kernel::Multinomial => random::multinomial,
        Kernel::Dropout => random::dropout,
        Kernel::NllLoss => loss::nll_loss,
        Kernel::NllLossBackward => loss::nll_loss_backward,
        Kernel::CrossEntropy => loss::cross_entropy::forward,
        Kernel::CrossEntropyBackward => loss::cross_entropy::backward,
        Kernel::CtcLoss => loss::ctc::forward,
        Kernel::CtcLossBackward => loss::ctc::backward,
        Kernel::Attention | Kernel::AttentionBackward => attention::attention,
        Kernel::BatchNorm | Kernel::BatchNormBackward => batch_norm::batch_norm,
        Kernel::RowNorm | Kernel::RowNormBackward => row_norm::row_norm,
        Kernel::Rnn => rnn::forward,
        Kernel::RnnBackward => rnn::backward,
        Kernel::MaxPool | Kernel::AdaptiveMaxPool => pooling::max_pool,
        Kernel::MaxPoolBackward => pooling::max_pool_backward,
        Kernel::AvgPool
        | Kernel::AvgPoolBackward
        | Kernel::AdaptiveAvgPool
        | Kernel::AdaptiveAvgPoolBackward => pooling::avg::avg_pool,
        Kernel::Resample | Kernel::ResampleBackward => resample::resample,
        Kernel::Fft => fft::fft,
        Kernel::MatMul => matmul::matmul,
        Kernel::Sum | Kernel::Prod | Kernel::Mean | Kernel::NanSum => reduce::arithmetic,
        Kernel::Max | Kernel::Min => reduce::extreme,
        Kernel::MaxDim | Kernel::MinDim | Kernel::ArgMax | Kernel::ArgMin => reduce::position,
        Kernel::Any | Kernel::All | Kernel::CountNonzero => reduce::truth,
        Kernel::Var => reduce::variance,
        Kernel::Norm => reduce::norm,
        Kernel::LogSumExp => reduce::logsumexp,
        Kernel::Median | Kernel::KthValue => reduce::order::select,
        Kernel::Mode => reduce::order::mode,
        Kernel::CumSum
        | Kernel::CumProd
        | Kernel::CumMax
        | Kernel::CumMin
        | Kernel::LogCumSumExp => scan::scan,
        Kernel::Softmax
        | Kernel::LogSoftmax
        | Kernel::SoftmaxBackward
        | Kernel::LogSoftmaxBackward => softmax::softmax,
        Kernel::UnscaleGradients => optim::unscale,
        Kernel::AmpUpdateScale => optim::update_scale,
        k if k.is_pointwise() => pointwise::pointwise,
        k if optim::is_step(k) => optim::step,
        _ => return None,
    })
}
