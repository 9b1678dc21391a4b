//! PyTorch's methods of tensors.

use torsh_core::TensorLayout;
use torsh_tensor::record::OpRecord;
use torsh_tensor::sparse::{self, Pattern};
use torsh_tensor::{Result, Tensor, TorshError, Value};

use crate::coalesce::{coalesce, coo_pattern};
use crate::convert::{ToDenseOptions, ToSparseOptions, to_dense_of, to_sparse_of};
use crate::help::within;

pub(crate) static RECORDS: &[&OpRecord] = &[
    &IS_COALESCED,
    &INDICES,
    &VALUES,
    &INDICES_AS_THEY_ARE,
    &VALUES_AS_THEY_ARE,
    &NNZ,
    &CROW_INDICES,
    &COL_INDICES,
    &CCOL_INDICES,
    &ROW_INDICES,
    &SPARSE_DIM,
    &DENSE_DIM,
    &IS_SPARSE,
];

/// The methods that PyTorch's tensors have for sparse layouts; the prelude of the crate `torsh` brings it into scope.
///
/// ```
/// use torsh_sparse::SparseExt;
/// use torsh_tensor::tensor;
/// let x = tensor![[0.0, 3.0], [4.0, 0.0]].to_sparse()?;
/// assert_eq!(x.nnz()?, 2);
/// assert_eq!(x.values()?, tensor![3.0, 4.0]);
/// assert_eq!(x.to_sparse_csr()?.crow_indices()?, tensor![0, 1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::functions(trait SparseExt)]
impl Tensor {
    /// The COO tensor of the same elements. A strided tensor's elements that are not 0 are stored, a sparse one's stored
    /// elements stay stored. The gradient of a strided tensor is strided, that of a sparse one has its layout.
    #[torsh_tensor::names_caller]
    pub fn to_sparse(&self) -> Result<Tensor> {
        to_sparse_of("to_sparse", self, &ToSparseOptions::new())
    }
    /// [`SparseExt::to_sparse`] with options: another layout, or some dense dimensions.
    #[torsh_tensor::names_caller]
    pub fn to_sparse_with(&self, options: ToSparseOptions) -> Result<Tensor> {
        to_sparse_of("to_sparse", self, &options)
    }
    /// [`SparseExt::to_sparse`].
    #[torsh_tensor::names_caller]
    pub fn to_sparse_coo(&self) -> Result<Tensor> {
        to_sparse_of("to_sparse_coo", self, &ToSparseOptions::new())
    }
    /// The CSR tensor of the same elements, as [`SparseExt::to_sparse`]. Dimensions before the last two are a batch, whose
    /// matrices have to store equally many elements.
    #[torsh_tensor::names_caller]
    pub fn to_sparse_csr(&self) -> Result<Tensor> {
        let options = ToSparseOptions::new().layout(TensorLayout::SparseCsr);
        to_sparse_of("to_sparse_csr", self, &options)
    }
    /// The CSC tensor of the same elements, as [`SparseExt::to_sparse_csr`].
    #[torsh_tensor::names_caller]
    pub fn to_sparse_csc(&self) -> Result<Tensor> {
        let options = ToSparseOptions::new().layout(TensorLayout::SparseCsc);
        to_sparse_of("to_sparse_csc", self, &options)
    }
    /// The BSR tensor of the same elements in blocks of this many rows and columns, as [`SparseExt::to_sparse_csr`].
    #[torsh_tensor::names_caller]
    pub fn to_sparse_bsr(&self, blocksize: [usize; 2]) -> Result<Tensor> {
        let options = ToSparseOptions::new().layout(TensorLayout::SparseBsr);
        to_sparse_of("to_sparse_bsr", self, &options.blocksize(blocksize))
    }
    /// The BSC tensor of the same elements in blocks of this many rows and columns, as [`SparseExt::to_sparse_csr`].
    #[torsh_tensor::names_caller]
    pub fn to_sparse_bsc(&self, blocksize: [usize; 2]) -> Result<Tensor> {
        let options = ToSparseOptions::new().layout(TensorLayout::SparseBsc);
        to_sparse_of("to_sparse_bsc", self, &options.blocksize(blocksize))
    }
    /// The strided tensor of the same elements; itself, where it is strided. The gradient of a sparse tensor has its
    /// pattern.
    #[torsh_tensor::names_caller]
    pub fn to_dense(&self) -> Result<Tensor> {
        to_dense_of(self, &ToDenseOptions::new())
    }
    /// [`SparseExt::to_dense`] with options.
    #[torsh_tensor::names_caller]
    pub fn to_dense_with(&self, options: ToDenseOptions) -> Result<Tensor> {
        to_dense_of(self, &options)
    }
    /// A COO tensor with its indices in order, each once: values of equal indices are added up. The tensor itself, where it
    /// is so.
    #[torsh_tensor::names_caller]
    pub fn coalesce(&self) -> Result<Tensor> {
        within("coalesce", &[self], || coalesce(self))
    }
    /// Whether the indices of a COO tensor are known to be in order, each once.
    #[torsh_tensor::names_caller]
    pub fn is_coalesced(&self) -> Result<bool> {
        is_coalesced(self).map_err(|e| e.renamed("is_coalesced"))
    }
    /// The indices of a coalesced COO tensor: int64 `[sparse_dim, nnz]`.
    #[torsh_tensor::names_caller]
    pub fn indices(&self) -> Result<Tensor> {
        indices(self).map_err(|e| e.renamed("indices"))
    }
    /// The stored values of a sparse tensor, whose gradient has the tensor's pattern. Of COO tensors only coalesced ones have
    /// them. What is written into the result is written into the sparse tensor.
    #[torsh_tensor::names_caller]
    pub fn values(&self) -> Result<Tensor> {
        within("values", &[self], || values(self))
    }
    /// The indices of a COO tensor as they are stored, coalesced or not.
    #[torsh_tensor::names_caller]
    pub fn _indices(&self) -> Result<Tensor> {
        let pattern = coo_pattern(self, "_indices").map_err(|e| e.renamed("_indices"))?;
        Ok(pattern.indices().clone())
    }
    /// The values of a COO tensor as they are stored, coalesced or not, without its gradient.
    #[torsh_tensor::names_caller]
    pub fn _values(&self) -> Result<Tensor> {
        coo_pattern(self, "_values").map_err(|e| e.renamed("_values"))?;
        sparse::values(&self.detach())
    }
    /// The compressed indices of a CSR or BSR tensor.
    #[torsh_tensor::names_caller]
    pub fn crow_indices(&self) -> Result<Tensor> {
        part(self, "crow_indices", true, Pattern::compressed_indices)
    }
    /// The column indices of a CSR or BSR tensor.
    #[torsh_tensor::names_caller]
    pub fn col_indices(&self) -> Result<Tensor> {
        part(self, "col_indices", true, Pattern::plain_indices)
    }
    /// The compressed indices of a CSC or BSC tensor.
    #[torsh_tensor::names_caller]
    pub fn ccol_indices(&self) -> Result<Tensor> {
        part(self, "ccol_indices", false, Pattern::compressed_indices)
    }
    /// The row indices of a CSC or BSC tensor.
    #[torsh_tensor::names_caller]
    pub fn row_indices(&self) -> Result<Tensor> {
        part(self, "row_indices", false, Pattern::plain_indices)
    }
    /// How many elements (or blocks) a sparse tensor stores, in each entry of a batch (`Tensor._nnz`).
    #[torsh_tensor::names_caller]
    pub fn nnz(&self) -> Result<usize> {
        match self.pattern() {
            Some(pattern) => Ok(pattern.nnz()),
            None => Err(expected(self, "_nnz", "sparse")),
        }
    }
    /// How many dimensions the indices have: 0 for a strided tensor, 2 for compressed layouts.
    pub fn sparse_dim(&self) -> usize {
        self.pattern().map_or(0, |p| p.sparse_dim())
    }
    /// How many dimensions at the end are dense: all of a strided tensor.
    pub fn dense_dim(&self) -> usize {
        self.pattern().map_or(self.ndim(), |p| p.dense_dim())
    }
}

/// The error of a tensor that has not the layout for a question.
fn expected(x: &Tensor, op: &'static str, what: &str) -> TorshError {
    TorshError::invalid(
        op,
        format!(
            "{op} expected {what} tensor layout but got {}",
            x.layout().enum_name()
        ),
    )
}

fn is_coalesced(x: &Tensor) -> Result<bool> {
    coo_pattern(x, "is_coalesced").map(|p| p.is_coalesced())
}

fn indices(x: &Tensor) -> Result<Tensor> {
    let pattern = coo_pattern(x, "indices")?;
    match pattern.is_coalesced() {
        true => Ok(pattern.indices().clone()),
        false => Err(uncoalesced("indices")),
    }
}

fn values(x: &Tensor) -> Result<Tensor> {
    match x.pattern() {
        None => Err(expected(x, "values", "sparse")),
        Some(p) if !p.is_coalesced() => Err(uncoalesced("values")),
        Some(_) => sparse::values(x),
    }
}

fn uncoalesced(what: &str) -> TorshError {
    TorshError::invalid(
        "",
        format!("Cannot get {what} on an uncoalesced tensor, please call .coalesce() first"),
    )
}

/// Indices of a compressed tensor, by rows or by columns.
fn part(
    x: &Tensor,
    op: &'static str,
    by_rows: bool,
    of: fn(&Pattern) -> Option<&Tensor>,
) -> Result<Tensor> {
    let pattern = x.pattern();
    let pattern = pattern.filter(|p| p.layout().by_rows() == by_rows);
    let what = match by_rows {
        true => "sparse row compressed",
        false => "sparse column compressed",
    };
    let indices = pattern.as_ref().and_then(of).cloned();
    indices.ok_or_else(|| expected(x, op, what))
}

/// A record of a fact, or a part, of a sparse tensor.
macro_rules! fact {
    ($record:ident $name:literal $doc:literal |$x:ident| $of:expr) => {
        static $record: OpRecord = OpRecord::new($name, $doc, "(Tensor input)")
            .constant()
            .by_name(|b| {
                let $x = b.tensor(0)?;
                $of
            });
    };
}

fact! { IS_COALESCED "is_coalesced" "Whether the indices of a COO tensor are known to be in order, each once."
|x| is_coalesced(x).map(Value::Bool) }
fact! { INDICES "indices" "The indices of a coalesced COO tensor." |x| indices(x).map(Value::Tensor) }
fact! { INDICES_AS_THEY_ARE "_indices" "The indices of a COO tensor as they are stored."
|x| x._indices().map(Value::Tensor) }
fact! { VALUES_AS_THEY_ARE "_values" "The values of a COO tensor as they are stored."
|x| x._values().map(Value::Tensor) }
fact! { NNZ "_nnz" "How many elements (or blocks) are stored." |x| x.nnz().map(Value::from) }
fact! { CROW_INDICES "crow_indices" "The compressed indices of a CSR or BSR tensor."
|x| x.crow_indices().map(Value::Tensor) }
fact! { COL_INDICES "col_indices" "The column indices of a CSR or BSR tensor."
|x| x.col_indices().map(Value::Tensor) }
fact! { CCOL_INDICES "ccol_indices" "The compressed indices of a CSC or BSC tensor."
|x| x.ccol_indices().map(Value::Tensor) }
fact! { ROW_INDICES "row_indices" "The row indices of a CSC or BSC tensor."
|x| x.row_indices().map(Value::Tensor) }
fact! { SPARSE_DIM "sparse_dim" "How many dimensions the indices have." |x| Ok(x.sparse_dim().into()) }
fact! { DENSE_DIM "dense_dim" "How many dimensions at the end are dense." |x| Ok(x.dense_dim().into()) }
fact! { IS_SPARSE "is_sparse" "Whether the layout is COO." |x| Ok(x.is_sparse().into()) }

static VALUES: OpRecord = OpRecord::new(
    "values",
    "The stored values of a sparse tensor.",
    "(Tensor input)",
)
.by_name(|b| values(b.tensor(0)?).map(Value::Tensor))
.samples(|s| {
    let indices = Tensor::from_data(&[0i64, 1, 2, 0], [2, 2])?;
    let x = crate::coo_with(
        &indices,
        &s.real(&[2])?,
        [2, 3],
        crate::CooOptions::new().is_coalesced(true),
    )?;
    Ok(vec![torsh_tensor::record::sample![x]])
});
