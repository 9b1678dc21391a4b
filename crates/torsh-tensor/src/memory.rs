//! The kinds of memory that a tensor's elements are in. No other file matches on them.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_core::{DType, Result, Shape, Shared, Storage, TensorLayout, TorshError};

use crate::Tensor;
use crate::mode;

/// Where a tensor's elements are.
pub(crate) enum Memory {
    /// In a storage that it has a share of.
    Own(Shared<Storage>),
    /// In the storage of its base.
    View(ViewOf),
    /// In other tensors: those of a sparse tensor's indices and values.
    Parts(Arc<Parts>),
}

impl Memory {
    /// The storage; one without bytes, which no kernel can lock, for elements in parts.
    #[inline]
    pub(crate) fn storage(&self) -> &Shared<Storage> {
        // The most frequent kind is asked for first, by one comparison: a match on all three takes more instructions
        // wherever this is inlined.
        if let Memory::Own(storage) = self {
            return storage;
        }
        self.storage_of_others()
    }

    #[inline]
    fn storage_of_others(&self) -> &Shared<Storage> {
        match self {
            Memory::Own(storage) => storage,
            Memory::View(v) => match &v.base.0.memory {
                Memory::Own(storage) => storage,
                Memory::View(_) | Memory::Parts(_) => {
                    unreachable!("the base of a view owns its storage")
                }
            },
            Memory::Parts(parts) => &parts.nothing,
        }
    }

    #[inline]
    pub(crate) fn view(&self) -> Option<&ViewOf> {
        match self {
            Memory::View(v) => Some(v),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn parts(&self) -> Option<&Arc<Parts>> {
        match self {
            Memory::Parts(parts) => Some(parts),
            _ => None,
        }
    }

    /// The same elements for another tensor, which is no view for automatic differentiation.
    #[inline]
    pub(crate) fn shared(&self) -> Memory {
        match self {
            Memory::Parts(parts) => Memory::Parts(parts.clone()),
            _ => Memory::Own(self.storage().clone()),
        }
    }
}

/// Where a differentiable view comes from.
pub(crate) struct ViewOf {
    /// The tensor at the root, itself no view. Its share of the storage is the view's as well: a
    /// second one would be two more atomic instructions for every view.
    pub(crate) base: Tensor,
    pub(crate) creation: Creation,
    /// The storage's version when the view was made.
    pub(crate) version: u64,
}

/// What in-place ops must know about how a view was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Creation {
    /// With recording on: in-place ops on it are recorded on its base.
    Recorded,
    /// Under `no_grad`: in-place ops on it cannot be recorded.
    NoGrad,
    /// As one of several outputs: in-place ops on it are refused.
    Multiple,
    /// By a user's function, whose derivative an in-place op would go around: refused.
    Function,
}

/// The parts of a sparse tensor. Its handles share them, so an in-place op that changes them is seen by all.
pub(crate) struct Parts {
    /// A storage without bytes, on the device of the parts.
    nothing: Shared<Storage>,
    now: Mutex<Now>,
}

struct Now {
    pattern: Pattern,
    /// Without history.
    values: Tensor,
    /// What the version was before these parts came.
    before: u64,
}

impl Parts {
    /// The parts of a new tensor.
    pub(crate) fn new(pattern: &Pattern, values: &Tensor) -> Result<Parts> {
        let (shape, wanted) = (pattern.shape(), pattern.values_shape());
        if !values.layout().is_strided() || *values.shape() != wanted {
            return Err(wrong(format!(
                "{} elements of a {} tensor of shape {shape} have values of shape {wanted}, but got {}",
                pattern.nnz(),
                pattern.layout(),
                values.describe()
            )));
        }
        if values.device() != pattern.indices().device() {
            return Err(wrong(format!(
                "indices on {} and values on {}: all parts of a sparse tensor are on one device",
                pattern.indices().device(),
                values.device()
            )));
        }
        Ok(Parts {
            nothing: Shared::new(Storage::of_parts(values.device())),
            now: Mutex::new(Now {
                pattern: pattern.clone(),
                values: values.detach(),
                before: 0,
            }),
        })
    }

    pub(crate) fn pattern(&self) -> Pattern {
        self.now.lock().pattern.clone()
    }

    pub(crate) fn values(&self) -> Tensor {
        self.now.lock().values.clone()
    }

    pub(crate) fn both(&self) -> (Pattern, Tensor) {
        let now = self.now.lock();
        (now.pattern.clone(), now.values.clone())
    }

    /// How often any part was written, or replaced.
    pub(crate) fn version(&self) -> u64 {
        self.now.lock().version()
    }

    /// Puts other parts of the same layout and shape in place.
    pub(crate) fn replace(&self, pattern: Pattern, values: Tensor) {
        let mut now = self.now.lock();
        let before = now.version() + 1;
        *now = Now {
            pattern,
            values,
            before,
        };
    }
}

impl Now {
    fn version(&self) -> u64 {
        self.before + self.pattern.version() + self.values.version()
    }
}

/// Where the stored elements of a sparse tensor are: its layout, shape and indices.
///
/// A clone is another handle of the same indices.
///
/// ```
/// use torsh_tensor::{TensorLayout, sparse::Pattern, tensor};
/// let diagonal = Pattern::coo(&[3, 3], &tensor![[0, 1, 2], [0, 1, 2]], true)?;
/// assert_eq!((diagonal.layout(), diagonal.nnz()), (TensorLayout::SparseCoo, 3));
/// assert_eq!(diagonal.values_shape(), [3]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct Pattern(Arc<PatternOf>);

struct PatternOf {
    layout: TensorLayout,
    shape: Shape,
    sparse_dim: usize,
    dense_dim: usize,
    block: Option<[usize; 2]>,
    coalesced: bool,
    /// COO: all indices; else the plain ones.
    indices: Tensor,
    compressed: Option<Tensor>,
    derived: Arc<Mutex<HashMap<TypeId, Derived>>>,
}

/// What was made of the indices, with their version then and that of the pattern in it.
type Derived = ([u64; 2], Arc<dyn Any + Send + Sync>);

fn wrong(why: String) -> TorshError {
    TorshError::invalid("sparse", why)
}

impl Pattern {
    /// The pattern of a COO tensor: `indices` is int64 of shape `[sparse_dim, nnz]`, and the dimensions after the first
    /// `sparse_dim` are dense. Shapes and dtypes are checked, the indices are not.
    ///
    /// ```
    /// use torsh_tensor::{sparse::Pattern, tensor};
    /// let rows = Pattern::coo(&[4, 2], &tensor![[3, 0]], false)?;
    /// assert_eq!((rows.sparse_dim(), rows.dense_dim()), (1, 1));
    /// assert_eq!(rows.values_shape(), [2, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Indices of another dtype, or of another number of dimensions than 2; more sparse dimensions than `shape` has.
    #[torsh_tensor::names_caller(Self)]
    pub fn coo(shape: &[usize], indices: &Tensor, coalesced: bool) -> Result<Pattern> {
        let &[sparse_dim, nnz] = indices.dims() else {
            return Err(wrong(format!(
                "indices must be sparse_dim x nnz, but got {}",
                indices.describe()
            )));
        };
        if indices.dtype() != DType::I64 {
            return Err(wrong(format!(
                "indices must be an int64 tensor, but got {}",
                indices.describe()
            )));
        }
        let Some(dense_dim) = shape.len().checked_sub(sparse_dim) else {
            return Err(wrong(format!(
                "{sparse_dim} rows of indices for a tensor of {} dimensions",
                shape.len()
            )));
        };
        Ok(Pattern(Arc::new(PatternOf {
            layout: TensorLayout::SparseCoo,
            shape: Shape::new(shape),
            sparse_dim,
            dense_dim,
            block: None,
            coalesced: coalesced || nnz < 2 && sparse_dim > 0,
            indices: indices.detach(),
            compressed: None,
            derived: Arc::default(),
        })))
    }

    /// The pattern of a CSR, CSC, BSR or BSC tensor: `compressed` is `[*batch, n + 1]` for `n` rows (or columns) of elements
    /// (or blocks), `plain` is `[*batch, nnz]`, both int64 or both int32; `block` is the size of the blocks. Shapes and
    /// dtypes are checked, the indices are not.
    ///
    /// ```
    /// use torsh_tensor::{TensorLayout, sparse::Pattern, tensor};
    /// let (crow, col) = (tensor![0, 1, 3], tensor![2, 0, 1]);
    /// let csr = Pattern::compressed(TensorLayout::SparseCsr, &[2, 3], &crow, &col, None, 0)?;
    /// assert_eq!((csr.nnz(), csr.batch_dim()), (3, 0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Parts whose shapes or dtypes do not belong to a tensor of `shape`.
    #[torsh_tensor::names_caller(Self)]
    pub fn compressed(
        layout: TensorLayout,
        shape: &[usize],
        compressed: &Tensor,
        plain: &Tensor,
        block: Option<[usize; 2]>,
        dense_dim: usize,
    ) -> Result<Pattern> {
        let batch = plain.ndim().checked_sub(1);
        let fits = layout.is_compressed()
            && layout.is_blocked() == block.is_some()
            && batch.is_some_and(|b| b + 2 + dense_dim == shape.len());
        let (true, Some(batch)) = (fits, batch) else {
            return Err(wrong(format!(
                "a {layout} tensor of shape {shape:?} with {dense_dim} dense dimensions cannot have the plain indices {}",
                plain.describe()
            )));
        };
        let index = matches!(plain.dtype(), DType::I32 | DType::I64);
        if !index || compressed.dtype() != plain.dtype() {
            return Err(wrong(format!(
                "compressed and plain indices must both be int32 or both int64, but got {} and {}",
                compressed.describe(),
                plain.describe()
            )));
        }
        let along = if layout.by_rows() { 0 } else { 1 };
        let size = block.map_or(1, |b| b[along]);
        let divides = block.is_none_or(|[r, c]| {
            r > 0 && c > 0 && shape[batch].is_multiple_of(r) && shape[batch + 1].is_multiple_of(c)
        });
        let n = shape[batch + along] / size.max(1);
        let rows = compressed.dims();
        let lines =
            rows.len() == batch + 1 && rows[batch] == n + 1 && rows[..batch] == shape[..batch];
        if !divides || !lines || plain.dims()[..batch] != shape[..batch] {
            return Err(wrong(format!(
                "a {layout} tensor of shape {shape:?}{} cannot have the compressed indices {} and the plain indices {}",
                block.map_or(String::new(), |[r, c]| format!(" and blocks of {r} x {c}")),
                compressed.describe(),
                plain.describe()
            )));
        }
        Ok(Pattern(Arc::new(PatternOf {
            layout,
            shape: Shape::new(shape),
            sparse_dim: 2,
            dense_dim,
            block,
            coalesced: true,
            indices: plain.detach(),
            compressed: Some(compressed.detach()),
            derived: Arc::default(),
        })))
    }

    /// The layout of tensors of the pattern.
    pub fn layout(&self) -> TensorLayout {
        self.0.layout
    }

    /// The shape of tensors of the pattern.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// How many dimensions the indices have: 2 for compressed layouts.
    pub fn sparse_dim(&self) -> usize {
        self.0.sparse_dim
    }

    /// How many dimensions at the end are dense.
    pub fn dense_dim(&self) -> usize {
        self.0.dense_dim
    }

    /// How many dimensions at the front count patterns of the same number of elements: 0 for COO.
    pub fn batch_dim(&self) -> usize {
        self.0.shape.ndim() - self.0.sparse_dim - self.0.dense_dim
    }

    /// How many elements (or blocks) are stored, in each entry of a batch.
    pub fn nnz(&self) -> usize {
        self.0.indices.dims().last().copied().unwrap_or(0)
    }

    /// Whether the indices are sorted and each stands once; compressed ones always are.
    pub fn is_coalesced(&self) -> bool {
        self.0.coalesced
    }

    /// The rows and columns of a block, for BSR and BSC.
    pub fn block(&self) -> Option<[usize; 2]> {
        self.0.block
    }

    /// The indices of a COO pattern, `[sparse_dim, nnz]`; the plain ones of a compressed one.
    pub fn indices(&self) -> &Tensor {
        &self.0.indices
    }

    /// The compressed indices, for compressed layouts.
    pub fn compressed_indices(&self) -> Option<&Tensor> {
        self.0.compressed.as_ref()
    }

    /// The plain indices, for compressed layouts.
    pub fn plain_indices(&self) -> Option<&Tensor> {
        self.0.compressed.as_ref().map(|_| &self.0.indices)
    }

    /// The shape of the values: `[*batch, nnz, *block, *dense]`.
    pub fn values_shape(&self) -> Shape {
        let p = &*self.0;
        let batch = self.batch_dim();
        let mut dims: Vec<usize> = p.shape[..batch].to_vec();
        dims.push(self.nnz());
        dims.extend(p.block.iter().flatten());
        dims.extend(&p.shape[batch + p.sparse_dim..]);
        Shape::new(&dims)
    }

    /// Whether the other pattern is this one, with the very same indices.
    pub fn is_same(&self, other: &Pattern) -> bool {
        let (a, b) = (&*self.0, &*other.0);
        let compressed = match (&a.compressed, &b.compressed) {
            (Some(a), Some(b)) => same_elements(a, b),
            (None, None) => true,
            _ => false,
        };
        Arc::ptr_eq(&self.0, &other.0)
            || a.layout == b.layout
                && a.shape == b.shape
                && a.block == b.block
                && a.dense_dim == b.dense_dim
                && compressed
                && same_elements(&a.indices, &b.indices)
    }

    /// The same indices with the word that they are coalesced, or are not.
    #[must_use]
    pub fn with_coalesced(&self, coalesced: bool) -> Pattern {
        let p = &*self.0;
        Pattern(Arc::new(PatternOf {
            layout: p.layout,
            shape: p.shape.clone(),
            sparse_dim: p.sparse_dim,
            dense_dim: p.dense_dim,
            block: p.block,
            coalesced: coalesced || p.compressed.is_some(),
            indices: p.indices.clone(),
            compressed: p.compressed.clone(),
            derived: p.derived.clone(),
        }))
    }

    /// The same pattern with index tensors of its own: what is written into these is not seen in this one's.
    ///
    /// ```
    /// use torsh_tensor::{sparse::Pattern, tensor};
    /// let x = Pattern::coo(&[3], &tensor![[0, 2]], true)?;
    /// x.copy()?.indices().zero_()?;
    /// assert_eq!(x.indices(), &tensor![[0, 2]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// If there is no memory for the indices.
    #[torsh_tensor::names_caller]
    pub fn copy(&self) -> Result<Pattern> {
        self.map_indices(Tensor::copy)
    }

    /// The pattern with other index tensors of the same shapes and dtypes.
    pub(crate) fn map_indices(
        &self,
        change: impl Fn(&Tensor) -> Result<Tensor>,
    ) -> Result<Pattern> {
        let p = &*self.0;
        let indices = change(&p.indices)?;
        match &p.compressed {
            None => Pattern::coo(&p.shape, &indices, p.coalesced),
            Some(c) => Pattern::compressed(
                p.layout,
                &p.shape,
                &change(c)?,
                &indices,
                p.block,
                p.dense_dim,
            ),
        }
    }

    /// What `make` makes of the indices, kept with them: a second call for the same type gives the first one's result,
    /// unless the indices were written in between. Its tensors must not become parts of results, into which users can write:
    /// [`cached_pattern`](Self::cached_pattern) is for those.
    ///
    /// ```
    /// use torsh_tensor::{sparse::Pattern, tensor};
    /// struct Sum(i64);
    /// let x = Pattern::coo(&[3], &tensor![[0, 2]], true)?;
    /// let sum = || x.cached(|| x.indices().sum()?.item::<i64>().map(Sum));
    /// assert_eq!(sum()?.0, 2);
    /// x.indices().add_(1)?;
    /// assert_eq!(sum()?.0, 4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of `make`.
    #[torsh_tensor::names_caller]
    pub fn cached<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        self.kept(make, |_| 0)
    }

    /// [`cached`](Self::cached) for what holds a pattern that results are made of. Users can write into the indices of such
    /// a result, which are the kept ones, so that it is made again where these were written, too. `pattern` gives the pattern
    /// that it holds.
    ///
    /// ```
    /// use torsh_tensor::{Result, sparse::Pattern, tensor};
    /// struct Backwards(Pattern);
    /// let x = Pattern::coo(&[3], &tensor![[0, 1]], true)?;
    /// let backwards = || -> Result<Pattern> {
    ///     let make = || Pattern::coo(&[3], &x.indices().neg()?.add(2)?, false).map(Backwards);
    ///     Ok(x.cached_pattern(make, |b| &b.0)?.0.clone())
    /// };
    /// backwards()?.indices().zero_()?;
    /// assert_eq!(backwards()?.indices(), &tensor![[2, 1]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Those of `make`.
    #[torsh_tensor::names_caller]
    pub fn cached_pattern<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> Result<T>,
        pattern: fn(&T) -> &Pattern,
    ) -> Result<Arc<T>> {
        self.kept(make, |made| pattern(made).version())
    }

    /// What is kept for a type, made again where the indices were written or `version` says something else of it.
    fn kept<T: Send + Sync + 'static>(
        &self,
        make: impl FnOnce() -> Result<T>,
        version: impl Fn(&T) -> u64,
    ) -> Result<Arc<T>> {
        let (key, of_indices) = (TypeId::of::<T>(), self.version());
        let have = self.0.derived.lock().get(&key).cloned();
        if let Some((at, have)) = have
            && let Ok(have) = have.downcast::<T>()
            && at == [of_indices, version(&have)]
        {
            return Ok(have);
        }
        // Not under the lock: `make` may ask for another thing of these indices. What is kept is of use in all modes.
        let made = {
            let _mode = mode::guard(mode::NO_GRAD, mode::INFERENCE);
            Arc::new(make()?)
        };
        let at = [of_indices, version(&made)];
        self.0.derived.lock().insert(key, (at, made.clone()));
        Ok(made)
    }

    /// How often the indices were written.
    fn version(&self) -> u64 {
        let compressed = self.0.compressed.as_ref().map_or(0, Tensor::version);
        self.0.indices.version() + compressed
    }
}

impl std::fmt::Debug for Pattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}{} of {} elements",
            self.layout(),
            self.shape(),
            self.nnz()
        )
    }
}

/// Whether two strided tensors are the same elements in memory.
fn same_elements(a: &Tensor, b: &Tensor) -> bool {
    a.is_same(b)
        || a.shares_storage(b) && a.dtype() == b.dtype() && a.memory_layout() == b.memory_layout()
}

impl Tensor {
    /// How the elements are stored (`Tensor.layout`).
    ///
    /// ```
    /// use torsh_tensor::{TensorLayout, tensor};
    /// assert_eq!(tensor![1.0].layout(), TensorLayout::Strided);
    /// ```
    #[inline]
    pub fn layout(&self) -> TensorLayout {
        match &self.0.memory {
            Memory::Parts(parts) => parts.now.lock().pattern.layout(),
            _ => TensorLayout::Strided,
        }
    }

    /// Whether the elements are stored at the positions of sizes and strides.
    #[inline]
    pub(crate) fn is_strided(&self) -> bool {
        !matches!(self.0.memory, Memory::Parts(_))
    }

    /// Whether the layout is COO (`Tensor.is_sparse`); false for the compressed layouts, as in PyTorch.
    ///
    /// ```
    /// assert!(!torsh_tensor::tensor![1.0].is_sparse());
    /// ```
    pub fn is_sparse(&self) -> bool {
        self.layout() == TensorLayout::SparseCoo
    }

    /// The pattern of a sparse tensor, which shares its indices; `None` for a strided one.
    ///
    /// ```
    /// assert!(torsh_tensor::tensor![1.0].pattern().is_none());
    /// ```
    pub fn pattern(&self) -> Option<Pattern> {
        self.0.memory.parts().map(|p| p.pattern())
    }

    /// The elements that are stored, as a strided tensor without history.
    pub(crate) fn stored(&self) -> Tensor {
        match self.0.memory.parts() {
            Some(parts) => parts.values().detach(),
            None => self.detach(),
        }
    }

    /// A copy for the core's own use, not recorded: that of a sparse tensor has the same indices, so that it is found to
    /// be of one pattern with it.
    pub(crate) fn copy_stored(&self) -> Result<Tensor> {
        match self.0.memory.parts() {
            Some(parts) => {
                let (pattern, values) = parts.both();
                Tensor::of_parts(&pattern, &values.copy()?)
            }
            None => mode::no_grad(|| self.copy()),
        }
    }
}
