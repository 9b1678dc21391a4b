//! The records and rules of all files in one list each, and the family that has them.

use torsh_tensor::ops::Family;
use torsh_tensor::record::OpRecord;
use torsh_tensor::sparse::SparseRule;

use crate::{
    attrs, coalesce, convert, copies, create, join, mask, methods, pointwise, products, reduce,
    select, shape, softmax,
};

const RECORD_LISTS: &[&[&OpRecord]] = &[
    create::RECORDS,
    convert::RECORDS,
    coalesce::RECORDS,
    methods::RECORDS,
    pointwise::RECORDS,
    reduce::RECORDS,
    softmax::RECORDS,
    shape::RECORDS,
    copies::RECORDS,
    join::RECORDS,
    mask::RECORDS,
    products::RECORDS,
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

const fn total<T>(lists: &[&[T]]) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < lists.len() {
        n += lists[i].len();
        i += 1;
    }
    n
}

/// The lists as one.
const fn joined<T: Copy, const N: usize>(lists: &[&[T]]) -> [T; N] {
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
