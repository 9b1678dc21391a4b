//! Golden cases that do not belong to one operator: result dtypes of mixed arguments, and printing.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::case::{Value, tensor_ref};
use crate::executor::{Call, Executor};
use crate::layouts::{Layout, Memory};
use crate::panics;
use crate::report::{Group, OpReport, Report};
use crate::runner::Options;
use crate::source::Source;
use crate::tensors::{Dtype, Element, TensorData, TensorFile};

#[derive(Deserialize)]
struct Rows {
    /// Operator, kind and dtype of the left and the right argument, the result's dtype or `error`.
    rows: Vec<[String; 6]>,
}

/// Runs `promotion.json`: dtypes and refusals, on arguments that are all ones.
///
/// # Errors
/// A file that cannot be read or is not of the format.
pub(crate) fn promotion(
    source: &Source,
    executor: &dyn Executor,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    let Some(bytes) = source.read("promotion.json")? else {
        return Ok(());
    };
    let Rows { rows } =
        serde_json::from_slice(&bytes).map_err(|e| format!("promotion.json: {e}"))?;
    let mut by_op: BTreeMap<&str, Vec<&[String; 6]>> = BTreeMap::new();
    for row in &rows {
        by_op.entry(&row[0]).or_default().push(row);
    }
    for (op, rows) in by_op {
        let name = format!("promotion.{op}");
        if !options.wants(op, &name) {
            continue;
        }
        let mut op_report = OpReport::new(&name, op, Group::Promotion);
        if !executor.has(op) {
            report.skip(name, "operator absent");
            continue;
        }
        let mut unknown = 0;
        for row in rows {
            let [_, left_kind, left, right_kind, right, want] = row;
            if want != "error" && Dtype::from_name(want).is_none() {
                unknown += 1;
                continue;
            }
            if let Some(reason) = lacking([left_kind, right_kind], [left, right, want], executor) {
                op_report.leave_out(reason);
                continue;
            }
            op_report.layouts[0] += 1;
            match promote(op, left_kind, left, right_kind, right, want, executor) {
                Ok(()) => op_report.passed += 1,
                Err(e) => op_report.fail(format!(
                    "{op}({left_kind} {left}, {right_kind} {right}): {e}"
                )),
            }
        }
        if unknown > 0 {
            let reason = "the result is a complex number of two half-precision ones, no dtype here";
            report.skip(format!("{unknown} rows of {name}"), reason);
        }
        report.ops.push(op_report);
    }
    Ok(())
}

/// Why a row cannot be run where a dtype that it needs is lacking.
fn lacking(kinds: [&str; 2], dtypes: [&str; 3], executor: &dyn Executor) -> Option<String> {
    let number = kinds.contains(&"number") && dtypes.contains(&"complex");
    let named = dtypes.into_iter().filter_map(Dtype::from_name);
    named
        .chain(number.then_some(Dtype::Complex64))
        .find_map(|d| executor.lacks(d))
}

fn promote(
    op: &str,
    left_kind: &str,
    left: &str,
    right_kind: &str,
    right: &str,
    want: &str,
    executor: &dyn Executor,
) -> Result<(), String> {
    let (left, right) = (ones(left_kind, left)?, ones(right_kind, right)?);
    let args = match op {
        "where" => vec![left, ones("tensor", "bool")?, right],
        "cat" => vec![Value::List(vec![left, right])],
        _ => vec![left, right],
    };
    let call = Call {
        op: op.to_string(),
        args,
        kwargs: Vec::new(),
        writes: false,
        cotangents: None,
        after: Vec::new(),
        eigenvalues: None,
    };
    match panics::catch(|| executor.call(&call))? {
        Err(_) if want == "error" => Ok(()),
        Err(e) => Err(format!("expected {want}, got an error: {e}")),
        Ok(outcome) => match &outcome.outputs[..] {
            [one] if one.dtype.name() == want => Ok(()),
            [one] => Err(format!("expected {want}, got {}", one.dtype)),
            many => Err(format!("expected one output, got {}", many.len())),
        },
    }
}

fn ones(kind: &str, dtype: &str) -> Result<Value<Memory>, String> {
    let tensor = |shape: &[usize]| {
        let dtype = Dtype::from_name(dtype).ok_or_else(|| format!("unknown dtype {dtype}"))?;
        let data =
            TensorData::from_elements(dtype, shape, &[Element::Int(1); 2][..shape.len() + 1]);
        Ok(Value::Tensor(Memory::arrange(
            &data,
            Layout::Contiguous,
            false,
        )))
    };
    match (kind, dtype) {
        ("tensor", _) => tensor(&[2]),
        ("0-d tensor", _) => tensor(&[]),
        ("number", "bool") => Ok(Value::Bool(true)),
        ("number", "int") => Ok(Value::Int(1)),
        ("number", "float") => Ok(Value::Float(1.0)),
        ("number", "complex") => Ok(Value::Complex(1.0, 0.0)),
        _ => Err(format!("unknown argument {kind} {dtype}")),
    }
}

/// A tensor and what is printed for it.
#[derive(Deserialize)]
pub(crate) struct Print {
    /// The tensor.
    pub(crate) value: serde_json::Value,
    /// The text.
    pub(crate) printed: String,
    /// Whether it is a leaf.
    #[serde(default)]
    pub(crate) requires_grad: bool,
    #[serde(default)]
    expression: Option<String>,
}

impl Print {
    /// Whether what is printed is the tensor times 2.
    ///
    /// # Errors
    /// Another expression.
    pub(crate) fn doubled(&self) -> Result<bool, String> {
        match &self.expression {
            None => Ok(false),
            Some(text) if text.contains("times 2") => Ok(true),
            Some(text) => Err(format!("no expression \"{text}\"")),
        }
    }
}

/// Runs `printing.json`: the text of each tensor, in every layout.
///
/// # Errors
/// Files that cannot be read or are not of the format.
pub(crate) fn printing(
    source: &Source,
    executor: &dyn Executor,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    let Some(bytes) = source.read("printing.json")? else {
        return Ok(());
    };
    if !options.wants("printing", "printing") {
        return Ok(());
    }
    if let Some(reason) = executor.only_calls() {
        report.skip("printing".to_string(), &reason);
        return Ok(());
    }
    let fail = |e: &dyn std::fmt::Display| format!("printing: {e}");
    let prints: Vec<Print> = serde_json::from_slice(&bytes).map_err(|e| fail(&e))?;
    let stored = source
        .read("printing.safetensors")?
        .ok_or_else(|| fail(&"no tensors"))?;
    let tensors = TensorFile::parse(&stored).map_err(|e| fail(&e))?;
    let mut op_report = OpReport::new("printing", "printing", Group::Printing);
    for (i, print) in prints.iter().enumerate() {
        let doubled = match print.doubled() {
            Ok(doubled) => doubled,
            Err(reason) => {
                report.skip(format!("printing case {i}"), &reason);
                continue;
            }
        };
        let reference = tensor_ref(&print.value).map_err(|e| fail(&e))?;
        let data = tensors.get(&reference).map_err(|e| fail(&e))?;
        let requires_grad = print.requires_grad || doubled;
        let mut result = Ok(());
        for (at, layout) in Layout::ALL.into_iter().enumerate() {
            if layout != Layout::Contiguous && !layout.changes(&data.shape) {
                continue;
            }
            op_report.layouts[at] += 1;
            let memory = Memory::arrange(&data, layout, requires_grad);
            let got = panics::catch(|| executor.print(&memory, doubled)).and_then(|r| r);
            result = match got {
                Ok(text) if text == print.printed => continue,
                Ok(text) => Err(format!(
                    "{layout}: expected {:?}, got {text:?}",
                    print.printed
                )),
                Err(e) => Err(format!("{layout}: {e}")),
            };
            break;
        }
        match result {
            Ok(()) => op_report.passed += 1,
            Err(e) => op_report.fail(format!(
                "case {i} ({}, {:?}) {e}",
                reference.dtype, reference.shape
            )),
        }
    }
    report.ops.push(op_report);
    Ok(())
}
