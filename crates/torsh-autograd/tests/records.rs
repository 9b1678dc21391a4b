//! gradcheck and gradgradcheck, in float64, of every differentiable op on its record's samples.

use torsh_autograd::{gradcheck, gradgradcheck};
use torsh_tensor::call::Arg;
use torsh_tensor::ops::{self, records};
use torsh_tensor::record::{Backward, OpRecord, Rule, Sample, Samples};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{DType, Result, Scalar, Tensor, Value};

/// Ops whose samples are not checked, and why.
const EXEMPT: &[(&str, &str)] = &[
    (
        "copy_",
        "writes in place; its derivative is checked in the tests of in-place rules",
    ),
    (
        "fill_",
        "writes in place; its derivative is checked in the tests of in-place rules",
    ),
    (
        "zero_",
        "writes in place; its derivative is checked in the tests of in-place rules",
    ),
    (
        "_strided_accumulate",
        "internal; the derivative of as_strided, whose gradgradcheck runs it",
    ),
    (
        "_strided_scatter",
        "internal; the derivative of in-place ops on views, checked there",
    ),
    (
        "softmax_backward",
        "internal: the derivative of softmax, whose gradgradcheck runs it",
    ),
    (
        "log_softmax_backward",
        "internal: the derivative of log_softmax, whose gradgradcheck runs it",
    ),
    (
        "convolution",
        "internal; what conv1d, conv2d and conv3d call",
    ),
    (
        "convolution_transpose",
        "internal; what conv_transpose1d and its like call",
    ),
    (
        "convolution_weight",
        "internal; the gradient of convolutions, whose gradgradcheck runs its derivative",
    ),
    ("resample", "internal; what interpolate calls"),
    (
        "resample_backward",
        "internal; the gradient of interpolate, whose gradgradcheck runs its derivative",
    ),
    (
        "max_pool_with_indices",
        "internal; what max_pool1d, max_pool2d and max_pool3d call",
    ),
    (
        "adaptive_max_pool",
        "internal; what adaptive_max_pool1d and its like call",
    ),
    (
        "max_pool_backward",
        "internal; the gradient of max_pool2d, whose gradgradcheck runs its derivative",
    ),
    (
        "avg_pool",
        "internal; what avg_pool1d, avg_pool2d and avg_pool3d call",
    ),
    (
        "avg_pool_backward",
        "internal; the gradient of avg_pool2d, whose gradgradcheck runs its derivative",
    ),
    (
        "adaptive_avg_pool",
        "internal; what adaptive_avg_pool1d and its like call",
    ),
    (
        "adaptive_avg_pool_backward",
        "internal; the gradient of adaptive_avg_pool2d, whose gradgradcheck runs its derivative",
    ),
    (
        "_nll_loss_backward",
        "internal; the gradient of nll_loss, whose gradgradcheck runs its derivative",
    ),
    (
        "nn.functional.ctc_loss",
        "its gradient is that of the scores under a log-softmax, as PyTorch's; checked in tests/ctc_loss.rs",
    ),
    ("_ctc_loss", "internal; what ctc_loss calls"),
    (
        "_row_norm",
        "internal; the kernel of layer_norm, rms_norm, group_norm and instance_norm, whose checks run it",
    ),
    (
        "_scaled_dot_product_flash_attention_for_cpu",
        "scaled_dot_product_attention calls it, and is checked on its samples",
    ),
    (
        "_attention_blocks",
        "sparse_attention calls it, and is checked on its samples",
    ),
    (
        "_rnn",
        "internal; the kernel of lstm, gru, rnn_tanh and rnn_relu, whose checks run it",
    ),
    (
        "_embedding_bag",
        "internal; the kernel of embedding_bag, whose checks run it",
    ),
    (
        "uniform_",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "normal_",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "exponential_",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "geometric_",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "cauchy_",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "log_normal_",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "random_",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "random_.to",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "random_.from",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "special.zeta",
        "PyTorch has no derivative by the first operand; that by the second is checked in torsh-special",
    ),
    (
        "igamma",
        "PyTorch has no derivative by the first operand; that by the second is checked in torsh-special",
    ),
    (
        "igammac",
        "PyTorch has no derivative by the first operand; that by the second is checked in torsh-special",
    ),
    (
        "bernoulli_",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "bernoulli",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "nn.functional.dropout",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "nn.functional.gumbel_softmax",
        "draws random numbers; its derivative is checked in the tests of random ops",
    ),
    (
        "_sparse_values",
        "takes or gives sparse tensors; its derivative is checked in the tests of torsh-sparse",
    ),
    (
        "_sparse_from_values",
        "takes or gives sparse tensors; its derivative is checked in the tests of torsh-sparse",
    ),
    (
        "_sparse_flat",
        "takes or gives sparse tensors; its derivative is checked in the tests of torsh-sparse",
    ),
    (
        "_sparse_replaced",
        "takes or gives sparse tensors; its derivative is checked in the tests of torsh-sparse",
    ),
];

fn exempt(name: &str) -> bool {
    EXEMPT.iter().any(|(n, _)| *n == name)
}

/// What calls a sample: the op by name, or the record itself.
type Run = Box<dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>>;

fn leaves_of(v: &Value, out: &mut Vec<Tensor>) {
    match v {
        Value::Tensor(t) if matches!(t.dtype(), DType::F64 | DType::C128) => {
            out.push(t.detach().requires_grad_(true));
        }
        Value::List(l) | Value::Tuple(l) => l.iter().for_each(|v| leaves_of(v, out)),
        _ => {}
    }
}

fn replace(v: &Value, from: &mut std::slice::Iter<'_, Tensor>) -> Value {
    match v {
        Value::Tensor(t) if matches!(t.dtype(), DType::F64 | DType::C128) => {
            Value::Tensor(from.next().cloned().unwrap_or_else(|| t.clone()))
        }
        Value::List(l) => Value::List(l.iter().map(|v| replace(v, from)).collect()),
        Value::Tuple(l) => Value::Tuple(l.iter().map(|v| replace(v, from)).collect()),
        v => v.clone(),
    }
}

fn by_name(record: &'static OpRecord, sample: Sample) -> (Run, Vec<Tensor>) {
    let mut leaves = Vec::new();
    sample
        .args
        .iter()
        .chain(sample.kwargs.iter().map(|(_, v)| v))
        .for_each(|v| leaves_of(v, &mut leaves));
    let run = move |x: &[Tensor]| {
        let mut from = x.iter();
        let args: Vec<Value> = sample.args.iter().map(|v| replace(v, &mut from)).collect();
        let kwargs: Vec<(&str, Value)> = sample
            .kwargs
            .iter()
            .map(|(n, v)| (*n, replace(v, &mut from)))
            .collect();
        Ok(ops::call(record.base_name(), &args, &kwargs)?.tensors())
    };
    (Box::new(run), leaves)
}

/// Calls of a record whose samples are intervals: equal shapes, broadcast ones, 0-d.
fn from_intervals(
    record: &'static OpRecord,
    intervals: &'static [(f64, f64)],
    s: &mut Sampler,
) -> Vec<(Run, Vec<Tensor>)> {
    let shapes: [[&[usize]; 4]; 3] = [[&[2, 3]; 4], [&[2, 1], &[3], &[2, 3], &[1]], [&[]; 4]];
    shapes
        .iter()
        .map(|shapes| {
            let x: Vec<Tensor> = intervals
                .iter()
                .zip(shapes)
                .map(|(&(low, high), shape)| {
                    s.uniform(shape, low, high)
                        .expect("a sample")
                        .requires_grad_(true)
                })
                .collect();
            // Numbers that no row needs at a special value.
            let attrs = record.with_numbers(&[0.31, 1.47, 0.8, 0.6].map(Scalar::Float));
            let run: Run = Box::new(move |x: &[Tensor]| {
                let args: Vec<Arg<'_>> = x.iter().map(Arg::T).collect();
                Ok(record.call(&args, attrs.get())?.into_vec())
            });
            (run, x)
        })
        .collect()
}

fn check(record: &'static OpRecord) -> std::result::Result<usize, String> {
    let fail = |what: &str, e: &dyn std::fmt::Display| format!("{}: {what}: {e}", record.name);
    let mut s = Sampler::new(7, DType::F64);
    let runs = match record.samples {
        Samples::Intervals(i) => from_intervals(record, i, &mut s),
        Samples::Calls(f) => f(&mut s)
            .map_err(|e| fail("samples", &e))?
            .into_iter()
            .map(|c| by_name(record, c))
            .collect(),
        Samples::Nothing => {
            return Err(format!(
                "{}: differentiable, but without samples",
                record.name
            ));
        }
    };
    let mut checked = 0;
    for (i, (run, leaves)) in runs.iter().enumerate() {
        if leaves.is_empty() {
            continue;
        }
        gradcheck(run, leaves).map_err(|e| fail(&format!("sample {i}, gradcheck"), &e))?;
        gradgradcheck(run, leaves).map_err(|e| fail(&format!("sample {i}, gradgradcheck"), &e))?;
        checked += 1;
    }
    if checked == 0 {
        return Err(format!(
            "{}: no sample has a float64 or complex128 operand",
            record.name
        ));
    }
    Ok(checked)
}

#[test]
fn every_differentiable_op_passes_gradcheck_and_gradgradcheck() {
    let wanted: Vec<&'static OpRecord> = records()
        .filter(|r| match r.backward {
            Backward::NonDifferentiable => false,
            Backward::Missing => false,
            Backward::Composite => !r.is_internal() && !matches!(r.samples, Samples::Nothing),
            Backward::PerInput(_) | Backward::Full { .. } => true,
        })
        .filter(|r| !exempt(r.name))
        .collect();
    assert!(wanted.len() > 100, "{} records", wanted.len());
    let results: Vec<_> = std::thread::scope(|scope| {
        let halves: Vec<_> = wanted
            .chunks(wanted.len().div_ceil(2))
            .map(|c| scope.spawn(move || c.iter().map(|r| check(r)).collect::<Vec<_>>()))
            .collect();
        halves
            .into_iter()
            .flat_map(|h| h.join().expect("no op panics"))
            .collect()
    });
    let samples: usize = results.iter().filter_map(|r| r.as_ref().ok()).sum();
    let wrong: Vec<String> = results
        .into_iter()
        .filter_map(std::result::Result::err)
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} ops are wrong:\n{}",
        wrong.len(),
        wanted.len(),
        wrong.join("\n")
    );
    println!("{} ops, {samples} samples", wanted.len());
}

#[test]
fn exemptions_are_of_ops_that_exist() {
    for (name, reason) in EXEMPT {
        assert!(
            records().any(|r| r.name == *name),
            "{name} is exempt but not there"
        );
        assert!(reason.len() > 20);
    }
}

/// A float op without any derivative would cut the graph; only these have none, each for a reason.
#[test]
fn missing_derivatives_are_named() {
    const MISSING: &[(&str, &str)] = &[
        ("special.airy_ai", "PyTorch has none"),
        ("special.spherical_bessel_j0", "PyTorch has none"),
        ("special.scaled_modified_bessel_k0", "PyTorch has none"),
        ("special.scaled_modified_bessel_k1", "PyTorch has none"),
        ("special.hermite_polynomial_h", "PyTorch has none"),
        ("special.hermite_polynomial_he", "PyTorch has none"),
        ("special.laguerre_polynomial_l", "PyTorch has none"),
        ("special.legendre_polynomial_p", "PyTorch has none"),
        ("special.chebyshev_polynomial_t", "PyTorch has none"),
        ("special.chebyshev_polynomial_u", "PyTorch has none"),
        ("special.chebyshev_polynomial_v", "PyTorch has none"),
        ("special.chebyshev_polynomial_w", "PyTorch has none"),
        ("special.shifted_chebyshev_polynomial_t", "PyTorch has none"),
        ("special.shifted_chebyshev_polynomial_u", "PyTorch has none"),
        ("special.shifted_chebyshev_polynomial_v", "PyTorch has none"),
        ("special.shifted_chebyshev_polynomial_w", "PyTorch has none"),
        ("heaviside", "PyTorch has none"),
        ("scatter.reduce", "PyTorch has none"),
        (
            "_batch_norm_activation",
            "runs only where nothing is recorded; else its operations run one after the other",
        ),
        (
            "_convolution_batch_norm",
            "runs only where nothing is recorded; else its operations run one after the other",
        ),
        (
            "_batch_norm_backward",
            "runs only where nothing is recorded; else batch_norm's gradient is written in ops",
        ),
        (
            "_scaled_dot_product_flash_attention_for_cpu_backward",
            "runs only where nothing is recorded; else the gradient is written in ops",
        ),
        (
            "_attention_blocks_backward",
            "runs only where nothing is recorded; else the gradient is written in ops",
        ),
        (
            "_cross_entropy_backward",
            "runs only where nothing is recorded; else cross_entropy's gradient is written in ops",
        ),
        (
            "_row_norm_backward",
            "runs only where nothing is recorded; else the gradient is written in ops",
        ),
        (
            "_rnn_backward",
            "runs only where nothing is recorded; else the gradient is written in ops",
        ),
        ("_ctc_loss_backward", "PyTorch has none"),
        (
            "_embedding_bag_backward",
            "runs only where nothing is recorded; else the gradient is written in ops",
        ),
    ];
    let found: Vec<&str> = records()
        .filter(|r| matches!(r.backward, Backward::Missing) && !matches!(r.rule(), Rule::Composite))
        .map(|r| r.name)
        .filter(|n| !MISSING.iter().any(|(m, _)| m == n))
        .collect();
    assert!(found.is_empty(), "no derivative, and no reason: {found:?}");
}
