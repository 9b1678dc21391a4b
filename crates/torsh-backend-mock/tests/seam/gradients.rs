//! Every op on its record's samples, on the mock device as on the CPU: results, gradients, and the
//! gradients against finite differences in float32, which is the widest that the device has.

use torsh_autograd::{GradcheckOptions, gradcheck_with};
use torsh_core::random::manual_seed;
use torsh_tensor::call::Arg;
use torsh_tensor::devices::{definitions_used, synchronize};
use torsh_tensor::ops::{self, records};
use torsh_tensor::record::{Backward, OpRecord, Sample, Samples};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{
    BatchNormOptions, Conv2dOptions, DType, Device, NormActivation, Result, Scalar, Tensor, Value,
    grad, no_grad,
};

use crate::alone;

const D: Device = Device::Custom(0);

/// Ops whose samples are not compared, and why.
const EXEMPT: &[(&str, &str)] = &[
    (
        "nn.functional.rrelu",
        "draws for every element on a device, on the CPU for those below 0",
    ),
    ("float_power", "computes in float64, by definition"),
    ("empty", "has no values"),
    ("empty_like", "has no values"),
    ("new_empty", "has no values"),
];

/// Ops that are not checked against finite differences in float32, and why.
const STEEP: &[(&str, &str)] = &[
    ("erfinv", "its second derivative is large in the samples"),
    ("logit", "its second derivative is large in the samples"),
    ("remainder", "a step of the sample reaches over a jump"),
    ("fmod", "a step of the sample reaches over a jump"),
    ("rnn_relu", "a step of the sample reaches over a bend"),
    (
        "nn.functional.grid_sample",
        "a step of the sample reaches over a bend",
    ),
    ("grid_sampler", "a step of the sample reaches over a bend"),
    (
        "grid_sampler_2d",
        "a step of the sample reaches over a bend",
    ),
    (
        "nn.functional.ctc_loss",
        "its gradient is that of the scores under a log-softmax, as PyTorch's",
    ),
    (
        "nn.functional.gumbel_softmax",
        "its hard samples have the gradient of the soft ones",
    ),
];

/// Whether a sample has or asks for what the device has not.
fn too_wide(v: &Value) -> bool {
    let wide = |d: DType| matches!(d, DType::F64 | DType::C64 | DType::C128);
    match v {
        Value::Tensor(t) => wide(t.dtype()),
        Value::DType(d) => wide(*d),
        Value::List(l) | Value::Tuple(l) => l.iter().any(too_wide),
        _ => false,
    }
}

fn floats(v: &Value, out: &mut Vec<Tensor>) {
    match v {
        Value::Tensor(t) if t.dtype() == DType::F32 => out.push(t.clone()),
        Value::List(l) | Value::Tuple(l) => l.iter().for_each(|v| floats(v, out)),
        _ => {}
    }
}

/// The value on a device, with other float tensors in their places.
fn replaced(v: &Value, device: Device, from: &mut std::slice::Iter<'_, Tensor>) -> Result<Value> {
    let list = |l: &[Value], from: &mut std::slice::Iter<'_, Tensor>| {
        l.iter()
            .map(|v| replaced(v, device, from))
            .collect::<Result<Vec<_>>>()
    };
    Ok(match v {
        Value::Tensor(t) if t.dtype() == DType::F32 => {
            Value::Tensor(from.next().expect("as many as there were").clone())
        }
        Value::Tensor(t) => Value::Tensor(t.to_device(device)?),
        Value::Device(_) => Value::Device(device),
        Value::List(l) => Value::List(list(l, from)?),
        Value::Tuple(l) => Value::Tuple(list(l, from)?),
        v => v.clone(),
    })
}

/// A call of an op on float operands that are given, on their device.
struct Run {
    record: &'static OpRecord,
    operands: Vec<Tensor>,
    sample: Option<Sample>,
}

impl Run {
    fn on(&self, device: Device, x: &[Tensor]) -> Result<Vec<Tensor>> {
        manual_seed(3);
        let Some(sample) = &self.sample else {
            let args: Vec<Arg<'_>> = x.iter().map(Arg::T).collect();
            let numbers = self
                .record
                .with_numbers(&[0.31, 1.47, 0.8, 0.6].map(Scalar::Float));
            return Ok(self.record.call(&args, numbers.get())?.into_vec());
        };
        let mut from = x.iter();
        let args = sample.args.iter().map(|v| replaced(v, device, &mut from));
        let args = args.collect::<Result<Vec<_>>>()?;
        let kwargs = sample
            .kwargs
            .iter()
            .map(|(n, v)| Ok((*n, replaced(v, device, &mut from)?)));
        let kwargs = kwargs.collect::<Result<Vec<_>>>()?;
        Ok(ops::call(self.record.base_name(), &args, &kwargs)?.tensors())
    }

    /// Results and gradients, both on the CPU.
    fn all(&self, device: Device) -> Result<(Vec<Tensor>, Vec<Option<Tensor>>)> {
        let leaf = |t: &Tensor| Ok(t.to_device(device)?.detach().copy()?.requires_grad_(true));
        let x = self.operands.iter().map(leaf).collect::<Result<Vec<_>>>()?;
        let results = self.on(device, &x)?;
        let smooth: Vec<Tensor> = results
            .iter()
            .filter(|t| t.requires_grad())
            .cloned()
            .collect();
        let gradients = match smooth.is_empty() || x.is_empty() {
            true => Vec::new(),
            false => {
                let seed = |t: &Tensor| Ok(Some(t.detach().full_like(0.75)?));
                let seeds = smooth.iter().map(seed).collect::<Result<Vec<_>>>()?;
                match grad(&smooth, &x, &seeds, false, false, true) {
                    // The results are compared all the same.
                    Err(e) if e.to_string().contains("is not implemented") => Vec::new(),
                    all => all?,
                }
            }
        };
        let here = |t: Tensor| t.detach().cpu();
        let gradients = gradients.into_iter().map(|g| g.map(here).transpose());
        Ok((
            results.into_iter().map(here).collect::<Result<_>>()?,
            gradients.collect::<Result<_>>()?,
        ))
    }
}

fn runs(record: &'static OpRecord) -> Result<Vec<Run>> {
    let mut s = Sampler::new(7, DType::F32);
    let run = |operands, sample| Run {
        record,
        operands,
        sample,
    };
    match record.samples {
        Samples::Nothing => Ok(Vec::new()),
        Samples::Intervals(list) => {
            let shapes: [[&[usize]; 4]; 2] = [[&[2, 3]; 4], [&[2, 1], &[3], &[2, 3], &[1]]];
            let mut all = Vec::new();
            for shapes in shapes {
                let mut drawn = Vec::new();
                for (&(low, high), shape) in list.iter().zip(shapes) {
                    drawn.push(s.uniform(shape, low, high)?);
                }
                all.push(run(drawn, None));
            }
            Ok(all)
        }
        Samples::Calls(f) => {
            let of = |sample: Sample| {
                let mut operands = Vec::new();
                let kwargs = sample.kwargs.iter().map(|(_, v)| v);
                sample
                    .args
                    .iter()
                    .chain(kwargs)
                    .for_each(|v| floats(v, &mut operands));
                run(operands, Some(sample))
            };
            let fits = |s: &Sample| {
                !s.args.iter().any(too_wide) && !s.kwargs.iter().any(|(_, v)| too_wide(v))
            };
            Ok(f(&mut s)?.into_iter().filter(fits).map(of).collect())
        }
    }
}

fn close(a: &Tensor, b: &Tensor) -> Result<bool> {
    if a.shape() != b.shape() || a.dtype() != b.dtype() {
        return Ok(false);
    }
    let (a, b) = (a.to_vec::<f64>()?, b.to_vec::<f64>()?);
    let near = |(a, b): (&f64, &f64)| {
        a == b || (a - b).abs() <= 2e-5 + 2e-4 * b.abs() || a.is_nan() && b.is_nan()
    };
    Ok(a.iter().zip(&b).all(near))
}

/// Compares a sample's call on both devices, and its gradient with differences.
fn check(run: &Run) -> std::result::Result<bool, String> {
    // What the CPU does not take (an op that writes into a leaf) is no sample of this.
    let Ok((want, want_grads)) = run.all(Device::Cpu) else {
        return Ok(false);
    };
    if want.iter().any(Tensor::is_complex) {
        return Ok(false);
    }
    let (got, got_grads) = match run.all(D) {
        Ok(got) => got,
        // An op of real operands and results may compute in complex numbers.
        Err(e) if e.to_string().contains("has no complex64") => return Ok(false),
        Err(e) => return Err(e.to_string()),
    };
    let same = |a: &[Tensor], b: &[Tensor]| -> Result<bool> {
        let mut all = a.len() == b.len();
        for (a, b) in a.iter().zip(b) {
            all &= close(a, b)?;
        }
        Ok(all)
    };
    if !same(&got, &want).map_err(|e| e.to_string())? {
        return Err(format!("{got:?} instead of {want:?}"));
    }
    let flat = |all: &[Option<Tensor>]| all.iter().flatten().cloned().collect::<Vec<_>>();
    if !same(&flat(&got_grads), &flat(&want_grads)).map_err(|e| e.to_string())? {
        return Err(format!("gradients {got_grads:?} instead of {want_grads:?}"));
    }
    if want_grads.iter().all(Option::is_none) || STEEP.iter().any(|(n, _)| *n == run.record.name) {
        return Ok(true);
    }
    let there = |t: &Tensor| Ok(t.to_device(D)?.detach().requires_grad_(true));
    let leaves = run.operands.iter().map(there).collect::<Result<Vec<_>>>();
    let options = GradcheckOptions::default().eps(1e-2).atol(4e-2).rtol(4e-2);
    gradcheck_with(
        |x| run.on(D, x),
        &leaves.map_err(|e| e.to_string())?,
        options,
    )
    .map_err(|e| e.to_string())
}

#[test]
fn every_op_computes_what_the_cpu_does() -> Result<()> {
    let (.., _alone) = alone();
    let mut wrong = Vec::new();
    let (mut samples, mut compared) = (0, 0);
    for record in records().filter(|r| !EXEMPT.iter().any(|(n, _)| *n == r.name)) {
        for (i, run) in runs(record)?.iter().enumerate() {
            samples += 1;
            let outcome = check(run);
            // What failed later belongs to this sample.
            match outcome.and_then(|c| synchronize(D).map(|()| c).map_err(|e| e.to_string())) {
                Ok(c) => compared += usize::from(c),
                Err(e) => wrong.push(format!("{} sample {i}: {e}", record.name)),
            }
        }
    }
    println!("{compared} of {samples} samples are compared");
    assert!(
        wrong.is_empty(),
        "{} samples:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
    assert!(
        compared > 600 && samples - compared < 60,
        "{compared} of {samples}"
    );
    for (name, why) in EXEMPT.iter().chain(STEEP) {
        assert!(
            records().any(|r| r.name == *name),
            "{name} is no op ({why})"
        );
    }
    Ok(())
}

/// The definitions of ops that are not pointwise: each is what the device computes them by.
#[test]
fn structural_ops_without_kernels_are_defined_in_others() -> Result<()> {
    let (.., _alone) = alone();
    let structural: Vec<&OpRecord> = records()
        // The keys of single crates have samples, which other tests run.
        .filter(|r| {
            r.definition.is_some()
                && r.kernel_key().is_some_and(|k| {
                    !k.is_pointwise() && !matches!(k, torsh_core::Kernel::Extension(_))
                })
        })
        .collect();
    assert!(structural.len() >= 18, "{}", structural.len());
    for r in &structural {
        let kernel = r.kernel_key().expect("asked above");
        assert!(
            torsh_backend_mock::MISSING.contains(&kernel),
            "{} has its kernel",
            r.name
        );
    }
    // It has no samples.
    let x = Tensor::from_data(&[1.0f32, 0.0, f32::NAN, 0.0, 0.0, -2.0], [2, 3])?;
    assert_eq!(x.to_device(D)?.count_nonzero()?.item::<i64>()?, 3);
    let each = x.to_device(D)?.count_nonzero_dim(0)?.cpu()?;
    assert_eq!(each, x.count_nonzero_dim(0)?);
    // Only where nothing is recorded.
    let images = Tensor::from_data(&[-3.0f32, 1.0, 2.0, 9.0], [2, 2])?;
    let (mean, var) = (
        Tensor::from_data(&[1.0f32, 2.0], [2])?,
        Tensor::full([2], 4.0, DType::F32, D)?,
    );
    let fused = |x: &Tensor, mean: &Tensor, var: &Tensor| {
        no_grad(|| x.batch_norm_activation(mean, var, BatchNormOptions::new(), x, [0.0, 6.0]))
    };
    let there = fused(&images.to_device(D)?, &mean.to_device(D)?, &var)?.cpu()?;
    assert!(there.allclose(&fused(&images, &mean, &var.cpu()?)?)?);
    assert_eq!(there.to_vec::<f32>()?[0], 0.0);
    let x = Tensor::from_data(&[1.0f32, -2.0, 3.0, 0.5], [1, 2, 1, 2])?;
    let weight = Tensor::from_data(&[1.0f32, 2.0, -1.0, 0.5], [2, 2, 1, 1])?;
    let fused = |x: &Tensor, weight: &Tensor, mean: &Tensor, var: &Tensor| {
        let then = NormActivation {
            running_mean: mean,
            running_var: var,
            options: BatchNormOptions::new(),
            residual: Some(x),
            clamp: [0.0, 6.0],
        };
        no_grad(|| x.conv_batch_norm_activation(weight, None, Conv2dOptions::new(), then))
    };
    let there = fused(
        &x.to_device(D)?,
        &weight.to_device(D)?,
        &mean.to_device(D)?,
        &var,
    )?;
    assert!(
        there
            .cpu()?
            .allclose(&fused(&x, &weight, &mean, &var.cpu()?)?)?
    );
    // The inner ops are run by the gradients of others.
    for record in records().filter(|r| !matches!(r.backward, Backward::Missing)) {
        if structural.iter().any(|s| s.name == record.name) || record.name.contains("_norm") {
            for run in runs(record)? {
                run.all(D)?;
            }
        }
    }
    let used = definitions_used();
    for r in structural {
        assert!(
            used.iter().any(|(n, _)| *n == r.name),
            "{} was not defined",
            r.name
        );
    }
    let lacks = torsh_backend_mock::MISSING.len() * 4;
    assert!(
        lacks >= torsh_core::Kernel::COUNT,
        "it has more than three quarters of the kernels"
    );
    Ok(())
}
