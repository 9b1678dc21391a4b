//! The page of operators: every name with its dtypes and derivative, determined by calls.

use std::fmt::Write as _;

use torsh_core::{DType, Device, Kernel};
use torsh_tensor::ops::{self, find};
use torsh_tensor::record::{Backward, OpRecord, Rule, Sample, Samples};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{Autocast, Tensor, Value};

fn converted(v: &Value, dtype: DType) -> Option<Value> {
    Some(match v {
        // Samples are drawn in float32 (or its complex partner); what has another dtype is an
        // index or a mask.
        Value::Tensor(t) if t.dtype() == DType::F32 || t.dtype() == DType::C64 => {
            Value::Tensor(t.to_dtype(dtype).ok()?)
        }
        Value::List(l) => Value::List(
            l.iter()
                .map(|v| converted(v, dtype))
                .collect::<Option<_>>()?,
        ),
        Value::Tuple(l) => Value::Tuple(
            l.iter()
                .map(|v| converted(v, dtype))
                .collect::<Option<_>>()?,
        ),
        v => v.clone(),
    })
}

/// The sample calls of a record.
fn samples(r: &OpRecord) -> Vec<Sample> {
    let mut s = Sampler::new(7, DType::F32);
    match r.samples {
        Samples::Calls(f) => f(&mut s).unwrap_or_default(),
        Samples::Intervals(list) => {
            let tensors: Vec<Tensor> = list
                .iter()
                .filter_map(|&(low, high)| s.uniform(&[2, 3], low, high).ok())
                .collect();
            let mut call = Sample::new(tensors.into_iter().map(Value::Tensor));
            // A number that must be given, as the alpha of an overload, is 1.
            let signature = torsh_tensor::Signature::parse(r.schema);
            let parameters = signature.map(|s| s.params).unwrap_or_default();
            for p in parameters
                .iter()
                .skip(list.len())
                .filter(|p| p.default.is_none())
            {
                call = call.kw(p.name, Value::Int(1));
            }
            vec![call]
        }
        Samples::Nothing => Vec::new(),
    }
}

/// The dtypes in which at least one sample of a name runs; `None` where it has no samples.
fn dtypes(name: &str, records: &[&'static OpRecord]) -> Option<Vec<DType>> {
    let calls: Vec<Sample> = records.iter().flat_map(|r| samples(r)).collect();
    if calls.is_empty() {
        return None;
    }
    let works = |dtype: DType| {
        calls.iter().any(|c| {
            let args: Option<Vec<Value>> = c.args.iter().map(|v| converted(v, dtype)).collect();
            let kwargs: Option<Vec<(&str, Value)>> = c
                .kwargs
                .iter()
                .map(|(n, v)| converted(v, dtype).map(|v| (*n, v)))
                .collect();
            matches!((args, kwargs), (Some(a), Some(k)) if ops::call(name, &a, &k).is_ok())
        })
    };
    Some(DType::ALL.into_iter().filter(|d| works(*d)).collect())
}

fn short(d: DType) -> &'static str {
    match d {
        DType::U8 => "u8",
        DType::I8 => "i8",
        DType::I16 => "i16",
        DType::I32 => "i32",
        DType::I64 => "i64",
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::C64 => "c64",
        DType::C128 => "c128",
        DType::Bool => "bool",
    }
}

fn derivative(records: &[&'static OpRecord]) -> &'static str {
    let has = |f: fn(&Backward) -> bool| records.iter().any(|r| f(&r.backward));
    if has(|b| matches!(b, Backward::PerInput(_) | Backward::Full { .. })) {
        "yes"
    } else if has(|b| matches!(b, Backward::Missing)) {
        "missing"
    } else if has(|b| matches!(b, Backward::Composite)) {
        "through its parts"
    } else {
        "none by nature"
    }
}

/// Whether all records of a name that need a kernel have one on the CPU. On `meta` every op has its shapes and dtypes.
fn on_cpu(records: &[&'static OpRecord]) -> bool {
    let has = |k: Kernel| torsh_backend::kernel(Device::Cpu, k, DType::F32).is_some();
    records.iter().all(|r| match (r.rule(), r.kernel_key()) {
        (Rule::View(_) | Rule::ViewAs(_) | Rule::Composite, _) => true,
        (_, Some(k)) => has(k),
        (_, None) => false,
    })
}

fn autocast(records: &[&'static OpRecord]) -> &'static str {
    let class = records.iter().map(|r| r.autocast);
    match class.max_by_key(|c| *c != Autocast::Keep) {
        None | Some(Autocast::Keep) => "-",
        Some(Autocast::Lower) => "lower",
        Some(Autocast::Fp32) => "float32",
        Some(Autocast::Promote) => "widest",
    }
}

/// The page, as Markdown.
pub fn page() -> String {
    let names = ops::names();
    let mut out = String::from(
        "# Operators\n\nMade by `cargo run -p torsh-conformance -- operators`; do not edit. The table lists \
         every name that `torsh_tensor::ops::call` accepts. Dtypes: those in which a sample call of the op \
         runs; `-` if the op has no samples. Derivative: `yes` if the op has its own formula, `through its \
         parts` if it is written in other ops, `none by nature` if the result is not differentiable. Autocast: \
         the dtype to which a region casts the operands; `lower` is the region's dtype, and `-` means that the op \
         itself is not cast, though its parts may be. As in PyTorch, autocast does not cast `prod` with a dtype, `mse_loss` and `l1_loss` with weights, \
         `max_pool3d` with indices, circular and constant padding and reflections of volumes, and an `lstm` \
         of packed sequences or with projections.\n\n",
    );
    let _ = writeln!(out, "{} names.\n", names.len());
    let lacking = |name: &&&str| find(name).is_some_and(|records| !on_cpu(&records));
    let lacking: Vec<String> = names
        .iter()
        .filter(lacking)
        .map(|n| format!("`{n}`"))
        .collect();
    out.push_str(&match &lacking[..] {
        [] => "All names run on the CPU, and on `meta`, which computes shapes and dtypes.\n\n".to_string(),
        lacking => format!(
            "All names run on `meta`, which computes shapes and dtypes, and on the CPU all but {}.\n\n",
            lacking.join(", ")
        ),
    });
    out.push_str("| name | overloads | dtypes | derivative | autocast |\n|---|---|---|---|---|\n");
    for name in names {
        let Some(records) = find(name) else { continue };
        let types = match dtypes(name, &records) {
            None => "-".to_string(),
            Some(d) if d.len() == DType::ALL.len() => "all".to_string(),
            Some(d) => d.into_iter().map(short).collect::<Vec<_>>().join(" "),
        };
        let _ = writeln!(
            out,
            "| `{name}` | {} | {types} | {} | {} |",
            records.len(),
            derivative(&records),
            autocast(&records)
        );
    }
    out.push_str("\n## Other names\n\n| name | the same as |\n|---|---|\n");
    let mut aliases = ops::aliases().to_vec();
    aliases.sort_by_key(|a| a.name);
    for a in aliases {
        let _ = writeln!(out, "| `{}` | `{}` |", a.name, a.base);
    }
    out
}
