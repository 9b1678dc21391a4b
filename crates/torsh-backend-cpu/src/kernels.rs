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
