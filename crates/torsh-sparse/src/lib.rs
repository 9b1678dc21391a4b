//! Sparse tensors, as `torch.sparse`: tensors that hold the elements of a pattern and nothing else, with the gradients of
//! all that is computed with them.
//!
//! ```
//! use torsh_sparse::{self as sparse, SparseExt};
//! use torsh_tensor::tensor;
//!
//! let edges = tensor![[0, 1, 2], [1, 2, 0]];
//! let a = sparse::coo(&edges, &tensor![0.5, 0.25, 1.0], [3, 3])?;
//! let x = tensor![[1.0], [2.0], [4.0]];
//! assert_eq!(a.to_sparse_csr()?.matmul(&x)?, tensor![[1.0], [1.0], [1.0]]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```
//!
//! | layout | what is stored of a pattern | made by |
//! |---|---|---|
//! | COO | all indices of each element | [`coo`], [`SparseExt::to_sparse`] |
//! | CSR | where each row begins, and columns | [`csr`], [`SparseExt::to_sparse_csr`] |
//! | CSC | where each column begins, and rows | [`csc`], [`SparseExt::to_sparse_csc`] |
//! | BSR | as CSR, of blocks | [`bsr`], [`SparseExt::to_sparse_bsr`] |
//! | BSC | as CSC, of blocks | [`bsc`], [`SparseExt::to_sparse_bsc`] |
//!
//! A sparse tensor is a [`Tensor`](torsh_tensor::Tensor): operators and methods take it where PyTorch's do, and where the
//! dense operation says what the result is. Any dtype can be stored. Dimensions at the end may be dense, so that each stored
//! element is a tensor; a compressed layout may have batch dimensions at the front, whose matrices store equally many
//! elements. Indices are checked when a tensor is made, and again before they are read where they were written.
//!
//! Gradients have two meanings, as in PyTorch. Products of a sparse and a strided tensor, their sum, and `sum` give the sparse
//! one a *strided* gradient, with all elements. Products of two sparse tensors, the functions of this module, elementwise ops
//! and conversions give it one of its own pattern; [`SparseExt::to_dense_with`] has both.
//!
//! The methods are those of [`SparseExt`]. The ops are called by name, too:
//!
//! ```
//! use torsh_sparse as _;
//! use torsh_tensor::{ops, tensor};
//! let x = ops::call("to_sparse", &[(&tensor![[0.0, 2.0]]).into()], &[])?;
//! assert!(x.tensors()[0].is_sparse());
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

#![forbid(unsafe_code)]

pub(crate) mod attrs;
mod blocks;
mod coalesce;
mod compress;
mod convert;
mod coords;
mod copies;
mod create;
mod csr;
#[cfg(feature = "linalg")]
mod direct;
mod embedding;
#[cfg(feature = "linalg")]
mod factors;
mod family;
mod functions;
mod grid;
mod help;
mod invariants;
mod join;
mod layouts;
mod lines;
mod mask;
mod methods;
mod places;
mod pointwise;
mod products;
mod reduce;
mod reduced;
mod select;
mod shape;
mod softmax;
mod solve;
mod spgemm;
mod strided;
mod triangular;

pub use convert::{ToDenseOptions, ToSparseOptions};
pub use create::{
    CooOptions, bsc, bsr, compressed, compressed_inferred, coo, coo_inferred, coo_with, csc, csr,
    spdiags, spdiags_with,
};
#[cfg(feature = "linalg")]
pub use direct::{SparseCholesky, SparseLu, cholesky, lu};
pub use functions::{
    addmm, addmm_with, hspmm, linear, mm, sampled_addmm, sampled_addmm_with, smm, sspaddmm,
    sspaddmm_with,
};
pub use mask::{mask, resize, resize_and_clear};
pub use methods::SparseExt;
pub use reduce::{sum, sum_with};
pub use reduced::{SpmmReduce, spmm};
pub use softmax::{log_softmax, log_softmax_with, softmax, softmax_with};
pub use solve::spsolve;
pub use torsh_tensor::sparse::{Pattern, from_values};
