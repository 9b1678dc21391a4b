//! gradcheck and gradgradcheck, in float64, of every differentiable op of the crate on its record's samples.

use torsh_autograd::{GradcheckOptions, gradcheck_with, gradgradcheck_with};
use torsh_sparse as _;
use torsh_tensor::ops::{self, families};
use torsh_tensor::record::{Backward, OpRecord, Sample, Samples};
use torsh_tensor::{DType, Result, Tensor, Value};

use crate::common::sampler;

/// Ops without samples that could be checked, and why.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "sparse_resize_",
        "refuses tensors that require a gradient, as PyTorch does",
    ),
    (
        "sparse_resize_and_clear_",
        "refuses tensors that require a gradient, as PyTorch does",
    ),
];

fn leaves_of(v: &Value, out: &mut Vec<Tensor>) {
    match v {
        Value::Tensor(t) if t.dtype() == DType::F64 => {
            out.push(t.detach().requires_grad_(true));
        }
        Value::List(l) | Value::Tuple(l) => l.iter().for_each(|v| leaves_of(v, out)),
        _ => {}
    }
}

fn replace(v: &Value, from: &mut std::slice::Iter<'_, Tensor>) -> Value {
    match v {
        Value::Tensor(t) if t.dtype() == DType::F64 => {
            Value::Tensor(from.next().cloned().unwrap_or_else(|| t.clone()))
        }
        Value::List(l) => Value::List(l.iter().map(|v| replace(v, from)).collect()),
        Value::Tuple(l) => Value::Tuple(l.iter().map(|v| replace(v, from)).collect()),
        v => v.clone(),
    }
}

fn check(record: &'static OpRecord, sample: &Sample) -> Result<()> {
    let mut leaves = Vec::new();
    let named = sample.kwargs.iter().map(|(_, v)| v);
    sample
        .args
        .iter()
        .chain(named)
        .for_each(|v| leaves_of(v, &mut leaves));
    let run = |x: &[Tensor]| -> Result<Vec<Tensor>> {
        let mut from = x.iter();
        let args: Vec<Value> = sample.args.iter().map(|v| replace(v, &mut from)).collect();
        let named = sample.kwargs.iter();
        let kwargs: Vec<(&str, Value)> = named.map(|(n, v)| (*n, replace(v, &mut from))).collect();
        Ok(ops::call(record.base_name(), &args, &kwargs)?.tensors())
    };
    assert!(!leaves.is_empty(), "{}: no operand of float64", record.name);
    let stored = GradcheckOptions::new().masked(true);
    gradcheck_with(run, &leaves, stored)?;
    gradgradcheck_with(run, &leaves, stored)?;
    Ok(())
}

fn own() -> impl Iterator<Item = &'static OpRecord> {
    let families = families().iter().filter(|f| f.feature == "sparse");
    families.flat_map(|f| f.records.iter().copied())
}

#[test]
fn every_differentiable_op_passes_on_its_samples() {
    let (mut wrong, mut checked) = (Vec::new(), 0);
    // Those that only rules call run in the checks of the rules' ops.
    let records = own().filter(|r| !r.is_internal());
    for record in records.filter(|r| !ELSEWHERE.iter().any(|(n, _)| *n == r.name)) {
        match record.backward {
            Backward::NonDifferentiable => continue,
            Backward::Missing => {
                wrong.push(format!("{}: no derivative, and no reason", record.name));
                continue;
            }
            Backward::Composite | Backward::PerInput(_) | Backward::Full { .. } => {}
        }
        let Samples::Calls(samples) = record.samples else {
            wrong.push(format!("{}: without samples", record.name));
            continue;
        };
        let samples = samples(&mut sampler()).expect("samples");
        for (i, sample) in samples.iter().enumerate() {
            match check(record, sample) {
                Ok(()) => checked += 1,
                Err(e) => wrong.push(format!("{}: sample {i}: {e}", record.name)),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{checked} checked, wrong:\n{}",
        wrong.join("\n")
    );
    assert!(checked > 35, "{checked}");
}

#[test]
fn reasons_are_of_ops_that_exist() {
    for (name, reason) in ELSEWHERE {
        assert!(own().any(|r| r.name == *name), "{name} is not there");
        assert!(reason.len() > 20);
    }
}
