//! Ops of crates above this one.

use std::collections::HashMap;
use std::sync::OnceLock;

use torsh_core::attrs::Reader;

use super::{Alias, Entry};
use crate::record::OpRecord;
use crate::sparse::SparseRule;

/// The ops of a crate above this one. [`family!`](crate::family) adds them to the table of ops.
///
/// ```
/// use torsh_tensor::ops::{self, Family};
/// use torsh_tensor::record::OpRecord;
/// static TWICE: OpRecord =
///     OpRecord::new("demo.twice", "Each element times 2.", "(Tensor input)").by_name(|b| b.tensor(0)?.mul(2.0).map(Into::into));
/// static DEMO: Family = Family { feature: "demo", records: &[&TWICE], aliases: &[], attributes: &[], sparse: &[] };
/// torsh_tensor::family!(DEMO);
///
/// let x = torsh_tensor::tensor![1.0, 2.0];
/// let y = ops::call("demo.twice", &[(&x).into()], &[])?;
/// assert_eq!(y.tensors()[0].to_vec::<f32>()?, [2.0, 4.0]);
/// assert!(ops::records().any(|r| r.name == "demo.twice"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct Family {
    /// The feature of the crate `torsh` that has them, which is also the family's name.
    pub feature: &'static str,
    /// Their records.
    pub records: &'static [&'static OpRecord],
    /// Other names of these ops, and of built-in ones.
    pub aliases: &'static [Alias],
    /// How the attributes of their calls are made of named fields: the `READERS` of
    /// [`attributes!`](torsh_core::attributes).
    pub attributes: &'static [Reader],
    /// What ops, built-in ones included, do with sparse operands.
    pub sparse: &'static [SparseRule],
}

/// A family that is linked into the program.
#[doc(hidden)]
pub struct Linked(pub &'static Family);

inventory::collect!(Linked);

/// Adds a static [`Family`](crate::ops::Family) to the table of ops of every program that the crate is linked into. No call
/// is needed: the lookup finds the families of all crates.
///
/// The built-in ops stay what they are: a record of a built-in op's name is found by [`records`](crate::ops::records) only.
#[macro_export]
macro_rules! family {
    ($family:path) => {
        $crate::ops::inventory::submit! { $crate::ops::Linked(&$family) }
    };
}

/// How many items lists have together.
#[doc(hidden)]
pub const fn total<T>(lists: &[&[T]]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < lists.len() {
        n += lists[i].len();
        i += 1;
    }
    n
}

/// The items of lists in one, of which [`total`] is the length.
#[doc(hidden)]
pub const fn joined<T: Copy, const N: usize>(lists: &[&[T]]) -> [T; N] {
    let mut all = [lists[0][0]; N];
    let (mut n, mut i) = (0, 0);
    while i < lists.len() {
        let mut k = 0;
        while k < lists[i].len() {
            all[n] = lists[i][k];
            (n, k) = (n + 1, k + 1);
        }
        i += 1;
    }
    all
}

struct Families {
    families: Vec<&'static Family>,
    by_name: HashMap<&'static str, Vec<Entry>>,
    sparse: HashMap<&'static str, &'static SparseRule>,
}

/// The families of the program, by name of their features: the linker's order means nothing.
fn linked() -> &'static Families {
    static LINKED: OnceLock<Families> = OnceLock::new();
    LINKED.get_or_init(|| {
        let mut families: Vec<_> = inventory::iter::<Linked>.into_iter().map(|l| l.0).collect();
        families.sort_by_key(|f| f.feature);
        let mut by_name: HashMap<&'static str, Vec<Entry>> = HashMap::new();
        for record in families.iter().flat_map(|f| f.records) {
            if !record.is_internal() {
                by_name
                    .entry(record.base_name())
                    .or_default()
                    .push(Entry::new(record));
            }
        }
        let rules = families.iter().flat_map(|f| f.sparse);
        let sparse = rules.map(|rule| (rule.op, rule)).collect();
        Families {
            families,
            by_name,
            sparse,
        }
    })
}

/// The families of the crates above this one that are linked into the program, by name.
///
/// ```
/// assert!(torsh_tensor::ops::families().iter().all(|f| !f.records.is_empty()));
/// ```
pub fn families() -> &'static [&'static Family] {
    &linked().families
}

/// What an op does with sparse operands.
pub(crate) fn sparse_rule(op: &str) -> Option<&'static SparseRule> {
    linked().sparse.get(op).copied()
}

/// The entries of a name.
#[cold]
pub(super) fn entries(name: &str) -> Option<&'static [Entry]> {
    linked().by_name.get(name).map(Vec::as_slice)
}

/// The names of all entries.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    linked().by_name.keys().copied()
}

/// The op that a name is another name of.
#[cold]
pub(super) fn alias(name: &str) -> Option<&'static Alias> {
    families()
        .iter()
        .flat_map(|f| f.aliases)
        .find(|alias| alias.name == name)
}

/// The names that features of the crate `torsh` bring, for the error of a call without them.
const FEATURES: &[(&str, &[&str])] = &[("linalg", LINALG), ("sparse", SPARSE), ("vision", VISION)];

/// The feature that brings an op.
///
/// ```
/// assert_eq!(torsh_tensor::ops::feature_of("linalg.svd"), Some("linalg"));
/// assert_eq!(torsh_tensor::ops::feature_of("add"), None);
/// ```
pub fn feature_of(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix("torch.").unwrap_or(name);
    FEATURES
        .iter()
        .find(|(_, names)| names.contains(&name))
        .map(|(feature, _)| *feature)
}

/// The names of `torsh-linalg`, whose tests compare this list with its records.
const LINALG: &[&str] = &[
    "chain_matmul",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "geqrf",
    "inverse",
    "linalg.cholesky",
    "linalg.cholesky_ex",
    "linalg.cond",
    "linalg.det",
    "linalg.diagonal",
    "linalg.eig",
    "linalg.eigh",
    "linalg.eigvals",
    "linalg.eigvalsh",
    "linalg.householder_product",
    "linalg.inv",
    "linalg.inv_ex",
    "linalg.ldl_factor",
    "linalg.ldl_factor_ex",
    "linalg.ldl_solve",
    "linalg.lstsq",
    "linalg.lu",
    "linalg.lu_factor",
    "linalg.lu_factor_ex",
    "linalg.lu_solve",
    "linalg.matrix_exp",
    "linalg.matrix_norm",
    "linalg.matrix_power",
    "linalg.matrix_rank",
    "linalg.matrix_sqrth",
    "linalg.multi_dot",
    "linalg.norm",
    "linalg.pinv",
    "linalg.polar",
    "linalg.qr",
    "linalg.slogdet",
    "linalg.solve",
    "linalg.solve_ex",
    "linalg.solve_triangular",
    "linalg.svd",
    "linalg.svdvals",
    "linalg.tensorinv",
    "linalg.tensorsolve",
    "linalg.vander",
    "linalg.vecdot",
    "lobpcg",
    "logdet",
    "lu",
    "lu_solve",
    "lu_unpack",
    "matrix_exp",
    "matrix_power",
    "orgqr",
    "ormqr",
    "pca_lowrank",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
    "svd_lowrank",
    "triangular_solve",
    "vander",
];

/// The names of `torsh-sparse`, whose tests compare this list with its records.
const SPARSE: &[&str] = &[
    "_indices",
    "_nnz",
    "_values",
    "ccol_indices",
    "coalesce",
    "col_indices",
    "crow_indices",
    "dense_dim",
    "hspmm",
    "indices",
    "is_coalesced",
    "is_sparse",
    "row_indices",
    "smm",
    "sparse.addmm",
    "sparse.log_softmax",
    "sparse.mm",
    "sparse.sampled_addmm",
    "sparse.softmax",
    "sparse.spdiags",
    "sparse.spsolve",
    "sparse.sum",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "sparse_dim",
    "sparse_mask",
    "sparse_resize_",
    "sparse_resize_and_clear_",
    "sspaddmm",
    "to_dense",
    "to_sparse",
    "to_sparse_bsc",
    "to_sparse_bsr",
    "to_sparse_coo",
    "to_sparse_csc",
    "to_sparse_csr",
    "values",
];

/// The names of `torsh-vision`, whose tests compare this list with its records.
const VISION: &[&str] = &[
    "torchvision::batched_nms",
    "torchvision::box_area",
    "torchvision::box_convert",
    "torchvision::box_iou",
    "torchvision::clip_boxes_to_image",
    "torchvision::complete_box_iou",
    "torchvision::complete_box_iou_loss",
    "torchvision::deform_conv2d",
    "torchvision::distance_box_iou",
    "torchvision::distance_box_iou_loss",
    "torchvision::drop_block2d",
    "torchvision::drop_block3d",
    "torchvision::generalized_box_iou",
    "torchvision::generalized_box_iou_loss",
    "torchvision::masks_to_boxes",
    "torchvision::nms",
    "torchvision::ps_roi_align",
    "torchvision::ps_roi_pool",
    "torchvision::remove_small_boxes",
    "torchvision::roi_align",
    "torchvision::roi_pool",
    "torchvision::sigmoid_focal_loss",
    "torchvision::stochastic_depth",
];
