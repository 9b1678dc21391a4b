//! Ops of crates above this one.

use std::collections::HashMap;

use parking_lot::RwLock;

use super::{Alias, Entry};
use crate::record::OpRecord;

/// The ops that a crate above this one brings.
///
/// ```
/// use torsh_tensor::ops::{self, Family};
/// use torsh_tensor::record::OpRecord;
/// static TWICE: OpRecord =
///     OpRecord::new("demo.twice", "Each element times 2.", "(Tensor input)").by_name(|b| b.tensor(0)?.mul(2.0).map(Into::into));
/// static DEMO: Family = Family { feature: "demo", records: &[&TWICE], aliases: &[] };
/// ops::register(&DEMO);
/// ops::register(&DEMO); // Changes nothing.
/// let x = torsh_tensor::tensor![1.0, 2.0];
/// let y = ops::call("demo.twice", &[(&x).into()], &[])?;
/// assert_eq!(y.tensors()[0].to_vec::<f32>()?, [2.0, 4.0]);
/// assert!(ops::records().any(|r| r.name == "demo.twice"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct Family {
    /// The feature of the crate `torsh` that brings them, which is also the family's name.
    pub feature: &'static str,
    /// Their records.
    pub records: &'static [&'static OpRecord],
    /// Other names of these ops, and of built-in ones.
    pub aliases: &'static [Alias],
}

struct Upper {
    families: Vec<&'static Family>,
    by_name: HashMap<&'static str, &'static [Entry]>,
}

static UPPER: RwLock<Option<Upper>> = RwLock::new(None);

/// Adds the ops of a family to the table, for the life of the process. The table only grows, and a family is added
/// once: a second call changes nothing. Nothing runs before `main`, so a crate that brings ops has a function
/// `register` that calls this one, and calls it at the start of its own functions. The crate `torsh` does so before a
/// call by name.
///
/// The built-in ops stay what they are: a record of a built-in op's name is found by [`records`](super::records)
/// only.
pub fn register(family: &'static Family) {
    let mut upper = UPPER.write();
    let upper = upper.get_or_insert_with(|| Upper {
        families: Vec::new(),
        by_name: HashMap::new(),
    });
    if upper.families.iter().any(|f| std::ptr::eq(*f, family)) {
        return;
    }
    upper.families.push(family);
    let mut by_name: HashMap<&'static str, Vec<Entry>> = HashMap::new();
    for record in family.records.iter().filter(|r| !r.schema.is_empty()) {
        by_name
            .entry(record.base_name())
            .or_default()
            .push(Entry::new(record));
    }
    // A family stays for ever, and so do its entries.
    for (name, entries) in by_name {
        upper
            .by_name
            .entry(name)
            .or_insert_with(|| Vec::leak(entries));
    }
}

/// The families that were registered, in that order.
///
/// ```
/// assert!(torsh_tensor::ops::families().iter().all(|f| !f.records.is_empty()));
/// ```
pub fn families() -> Vec<&'static Family> {
    let upper = UPPER.read();
    upper.as_ref().map_or_else(Vec::new, |u| u.families.clone())
}

/// The entries of a name.
#[cold]
pub(super) fn entries(name: &str) -> Option<&'static [Entry]> {
    UPPER.read().as_ref()?.by_name.get(name).copied()
}

/// The names of all entries.
pub(super) fn names() -> Vec<&'static str> {
    let upper = UPPER.read();
    upper
        .as_ref()
        .map_or_else(Vec::new, |u| u.by_name.keys().copied().collect())
}

/// The op that a name is another name of.
#[cold]
pub(super) fn alias(name: &str) -> Option<&'static Alias> {
    let upper = UPPER.read();
    let families = upper.as_ref()?.families.iter();
    families
        .flat_map(|f| f.aliases)
        .find(|alias| alias.name == name)
}

/// The names that features of the crate `torsh` bring, for the error of a call without them.
const FEATURES: &[(&str, &[&str])] = &[("linalg", LINALG), ("vision", VISION)];

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
