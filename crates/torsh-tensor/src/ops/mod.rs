//! The op records, by family, and calls by name.

pub(crate) mod activation;
mod aliases;
pub(crate) mod arguments;
pub(crate) mod attention;
pub(crate) mod avg_pool;
pub(crate) mod batch_norm;
pub(crate) mod bilinear;
pub(crate) mod block_attention;
pub(crate) mod block_mask;
pub(crate) mod clamp;
pub(crate) mod class_loss;
pub(crate) mod complex;
pub(crate) mod compound;
pub(crate) mod conv;
pub(crate) mod copy;
pub(crate) mod counting;
pub(crate) mod create;
mod definitions;
pub(crate) mod einsum;
pub(crate) mod embedding;
pub(crate) mod embedding_bag;
pub(crate) mod factory;
mod families;
pub(crate) mod feature_dropout;
pub(crate) mod fft;
pub(crate) mod fold;
mod fused_attention;
pub(crate) mod getitem;
pub(crate) mod grids;
pub(crate) mod gumbel;
pub(crate) mod index;
pub(crate) mod inplace_forms;
pub(crate) mod interpolate;
pub(crate) mod into_index;
pub(crate) mod join;
pub(crate) mod loss;
pub(crate) mod masked;
pub(crate) mod matmul;
pub(crate) mod multi_head;
pub(crate) mod numeric;
pub mod optim;
pub(crate) mod pad;
pub(crate) mod pointwise;
pub(crate) mod pointwise_extra;
pub(crate) mod pointwise_names;
pub(crate) mod pool;
pub(crate) mod properties;
pub(crate) mod random;
pub(crate) mod rearrange;
pub(crate) mod reduce;
pub(crate) mod rnn;
pub(crate) mod row_norm;
pub(crate) mod rrelu;
pub(crate) mod sample_norm;
pub(crate) mod scan;
pub(crate) mod scatter;
pub(crate) mod select;
pub(crate) mod shape;
pub(crate) mod shuffle;
pub(crate) mod signal;
pub(crate) mod similarity;
pub(crate) mod softmax;
pub(crate) mod sort;
pub(crate) mod sparse;
pub(crate) mod special;
pub(crate) mod split;
pub(crate) mod strided;
pub(crate) mod unique;
pub(crate) mod unpool;
pub(crate) mod view_copies;
pub(crate) mod views;
pub(crate) mod windows;

use std::collections::HashMap;
use std::sync::OnceLock;

use torsh_core::{CallSite, Result, TorshError};

use crate::Value;
use crate::record::{OpRecord, Rule};
use crate::schema::{Bound, Signature};

pub use aliases::{Alias, aliases};
pub(crate) use families::sparse_rule;
pub use families::{Family, families, feature_of};
#[doc(hidden)]
pub use families::{Linked, joined, total};
#[doc(hidden)]
pub use inventory;
pub(crate) use sparse::on_values;

/// Every family's records. A new file of records is named here.
const FAMILIES: &[&[&OpRecord]] = &[
    pointwise_extra::RECORDS,
    special::RECORDS,
    clamp::RECORDS,
    activation::RECORDS,
    pointwise::RECORDS,
    reduce::RECORDS,
    reduce::extreme::RECORDS,
    reduce::moments::RECORDS,
    reduce::norm::RECORDS,
    reduce::product::RECORDS,
    reduce::quantile::RECORDS,
    scan::RECORDS,
    softmax::RECORDS,
    shape::RECORDS,
    strided::RECORDS,
    copy::RECORDS,
    sparse::RECORDS,
    crate::transfer::RECORDS,
    create::RECORDS,
    complex::RECORDS,
    select::RECORDS,
    views::RECORDS,
    windows::RECORDS,
    split::RECORDS,
    join::RECORDS,
    factory::RECORDS,
    pad::RECORDS,
    index::RECORDS,
    scatter::RECORDS,
    masked::RECORDS,
    loss::FAMILIES[0],
    loss::FAMILIES[1],
    loss::FAMILIES[2],
    loss::FAMILIES[3],
    loss::FAMILIES[4],
    sort::RECORDS,
    unique::RECORDS,
    rearrange::RECORDS,
    shuffle::RECORDS,
    similarity::RECORDS,
    bilinear::RECORDS,
    gumbel::RECORDS,
    rrelu::RECORDS,
    embedding::RECORDS,
    embedding_bag::RECORDS,
    attention::RECORDS,
    fused_attention::RECORDS,
    block_attention::RECORDS,
    multi_head::RECORDS,
    getitem::RECORDS,
    matmul::RECORDS,
    conv::RECORDS,
    pool::RECORDS,
    interpolate::RECORDS,
    fold::RECORDS,
    avg_pool::RECORDS,
    batch_norm::RECORDS,
    row_norm::RECORDS,
    rnn::RECORDS,
    rnn::NETWORKS,
    sample_norm::RECORDS,
    class_loss::RECORDS,
    einsum::RECORDS,
    random::RECORDS,
    unpool::RECORDS,
    feature_dropout::RECORDS,
    fft::RECORDS,
    fft::functions::RECORDS,
    fft::helpers::RECORDS,
    signal::stft::RECORDS,
    signal::windows::RECORDS,
    view_copies::RECORDS,
    inplace_forms::RECORDS,
    numeric::RECORDS,
    counting::RECORDS,
    compound::RECORDS,
    grids::RECORDS,
    properties::RECORDS,
    crate::masked::RECORDS,
];

struct Entry {
    record: &'static OpRecord,
    /// As the schema says it; or why that is none.
    signature: std::result::Result<Signature, String>,
}

impl Entry {
    fn new(record: &'static OpRecord) -> Entry {
        let mut signature = Signature::parse(record.schema).map_err(|e| e.to_string());
        if let (Rule::Pointwise(_), Ok(s)) = (record.rule, &mut signature) {
            pointwise_names::accept_numbers(record.base_name(), s);
        }
        Entry { record, signature }
    }
}

struct Table {
    by_name: HashMap<&'static str, Vec<Entry>>,
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut by_name: HashMap<&'static str, Vec<Entry>> = HashMap::new();
        for record in built_in().filter(|r| !r.is_internal()) {
            by_name
                .entry(record.base_name())
                .or_default()
                .push(Entry::new(record));
        }
        Table { by_name }
    })
}

fn built_in() -> impl Iterator<Item = &'static OpRecord> {
    FAMILIES.iter().flat_map(|f| f.iter().copied())
}

/// Every record of the table, those of other crates last.
///
/// ```
/// assert!(torsh_tensor::ops::records().any(|r| r.base_name() == "add"));
/// ```
pub fn records() -> impl Iterator<Item = &'static OpRecord> {
    let above = families().iter();
    built_in().chain(above.flat_map(|f| f.records.iter().copied()))
}

/// The names ops are called by, sorted.
///
/// ```
/// let names = torsh_tensor::ops::names();
/// assert!(names.binary_search(&"softmax").is_ok());
/// ```
pub fn names() -> Vec<&'static str> {
    let mut v: Vec<_> = table().by_name.keys().copied().collect();
    v.extend(families::names());
    v.sort_unstable();
    v.dedup();
    v
}

/// The records (overloads) of a name.
///
/// ```
/// let adds = torsh_tensor::ops::find("add").expect("an op");
/// assert!(adds.iter().all(|r| r.base_name() == "add"));
/// assert!(torsh_tensor::ops::find("no_such_op").is_none());
/// ```
pub fn find(name: &str) -> Option<Vec<&'static OpRecord>> {
    entries(name).map(|(e, _)| e.iter().map(|e| e.record).collect())
}

/// The records of a name, and the alias that it is.
fn entries(name: &str) -> Option<(&'static [Entry], Option<&'static Alias>)> {
    let t = table();
    let plain = name.strip_prefix("torch.").unwrap_or(name);
    let own = t.by_name.get(plain).or_else(|| {
        let function = plain.strip_prefix("F.").unwrap_or(plain);
        t.by_name.get(format!("nn.functional.{function}").as_str())
    });
    if let Some(entries) = own {
        return Some((entries, None));
    }
    if let Some(entries) = families::entries(plain) {
        return Some((entries, None));
    }
    let known = aliases().iter().find(|a| a.name == plain);
    let alias = known.or_else(|| families::alias(plain))?;
    let base = t.by_name.get(alias.base).map(Vec::as_slice);
    Some((base.or_else(|| families::entries(alias.base))?, Some(alias)))
}

#[cold]
fn unknown(name: &str) -> TorshError {
    match families::feature_of(name) {
        Some(feature) => {
            let why = format!("built without the feature `{feature}`");
            TorshError::invalid(name.to_string(), why).with_hint(format!(
                "enable the feature `{feature}` of the crate torsh, or link the crate: use torsh_{feature} as _;"
            ))
        }
        None => TorshError::invalid(name.to_string(), "there is no op of this name")
            .with_hint("ops::names() lists what is there"),
    }
}

/// Calls an op by PyTorch's name with PyTorch's arguments.
///
/// The overload is the first whose signature the arguments fit. Names as in `torch.NAME`
/// (`"add"`, `"nn.functional.relu"`).
///
/// ```
/// use torsh_tensor::{Tensor, Value, ops};
/// let x = Tensor::from_data(&[1.0f32, 2.0], &[2])?;
/// let y = ops::call("mul", &[Value::from(&x), Value::Float(3.0)], &[])?;
/// assert_eq!(y.tensors()[0].to_vec::<f32>()?, [3.0, 6.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn call(name: &str, args: &[Value], kwargs: &[(&str, Value)]) -> Result<Value> {
    let Some((list, alias)) = entries(name) else {
        return Err(unknown(name));
    };
    let renamed: Vec<(&str, Value)>;
    let bound_by = match alias.map_or(&[][..], |a| a.parameters) {
        [] => kwargs,
        parameters => {
            let own = |n| parameters.iter().find(|(alias, _)| *alias == n);
            let each = kwargs.iter();
            renamed = each
                .map(|(n, v)| (own(*n).map_or(*n, |(_, own)| own), v.clone()))
                .collect();
            &renamed
        }
    };
    let mut reasons = Vec::new();
    for e in list {
        let signature = e.signature.as_ref().map_err(String::clone);
        match signature.and_then(|s| s.bind(args, bound_by)) {
            Ok(bound) => {
                let site = CallSite::here(e.record.base_name());
                return crate::check::within(site, || run(e.record, &bound))
                    .map_err(|err| err.renamed(name));
            }
            Err(why) => reasons.push(format!(
                "{}{}: {why}",
                e.record.base_name(),
                e.record.schema
            )),
        }
    }
    let given: Vec<String> = args
        .iter()
        .map(Value::kind)
        .chain(kwargs.iter().map(|(n, v)| format!("{n}={}", v.kind())))
        .collect();
    Err(TorshError::invalid(
        name.to_string(),
        format!(
            "no signature takes ({})\n  {}",
            given.join(", "),
            reasons.join("\n  ")
        ),
    ))
}

fn run(record: &'static OpRecord, bound: &Bound) -> Result<Value> {
    match record.by_name {
        Some(f) => f(bound),
        None => pointwise::by_name(record, bound),
    }
}
