//! The records and rules of all files in one list each, and the family that has them.

use torsh_tensor::ops::{Family, joined, total};
use torsh_tensor::record::OpRecord;
use torsh_tensor::sparse::SparseRule;

use crate::{
    attrs, coalesce, convert, coords, copies, create, functions, join, mask, methods, pointwise,
    products, reduce, select, shape, softmax, strided,
};

const RECORD_LISTS: &[&[&OpRecord]] = &[
    create::RECORDS,
    convert::RECORDS,
    coalesce::RECORDS,
    coords::RECORDS,
    strided::RECORDS,
    methods::RECORDS,
    pointwise::RECORDS,
    reduce::RECORDS,
    softmax::RECORDS,
    shape::RECORDS,
    copies::RECORDS,
    join::RECORDS,
    mask::RECORDS,
    products::RECORDS,
    functions::RECORDS,
    #[cfg(feature = "linalg")]
    crate::factors::RECORDS,
];

const RULE_LISTS: &[&[SparseRule]] = &[
    convert::CONVERT,
    pointwise::POINTWISE,
    reduce::REDUCE,
    softmax::SOFTMAX,
    shape::SHAPE,
    copies::COPIES,
    join::JOINS,
    mask::MASKS,
    select::SELECT,
    products::PRODUCTS,
];

static RECORDS: [&OpRecord; total(RECORD_LISTS)] = joined(RECORD_LISTS);

static RULES: [SparseRule; total(RULE_LISTS)] = joined(RULE_LISTS);

static FAMILY: Family = Family {
    feature: "sparse",
    records: &RECORDS,
    aliases: &[],
    attributes: attrs::READERS,
    sparse: &RULES,
};

torsh_tensor::family!(FAMILY);
