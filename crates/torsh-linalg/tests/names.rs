//! Calls by name, the meta device, the profiler's view, and calls that are refused.

use std::cell::RefCell;
use std::rc::Rc;

use torsh_linalg as linalg;
use torsh_tensor::observe::{Call, Observer, Work, watch};
use torsh_tensor::ops::{self, families, feature_of};
use torsh_tensor::record::Samples;
use torsh_tensor::sample::Sampler;
use torsh_tensor::{DType, Device, Result, Signature, Tensor, Value, tensor};

#[test]
fn every_name_is_known_as_the_features() {
    let family = families()
        .iter()
        .find(|f| f.feature == "linalg")
        .expect("registered");
    let named = family
        .records
        .iter()
        .filter(|r| !r.is_internal())
        .map(|r| r.base_name());
    for name in named.chain(family.aliases.iter().map(|a| a.name)) {
        assert_eq!(feature_of(name), Some("linalg"), "{name}");
        assert!(ops::find(name).is_some(), "{name}");
    }
}

#[test]
fn every_schema_is_read() {
    for record in families().iter().flat_map(|f| f.records) {
        let read = Signature::parse(record.schema);
        assert!(read.is_ok(), "{}: {:?}", record.name, read.err());
    }
}

fn on_meta(v: &Value) -> Result<Value> {
    Ok(match v {
        Value::Tensor(t) => Value::Tensor(t.to_device(Device::Meta)?),
        Value::List(l) => Value::List(l.iter().map(on_meta).collect::<Result<_>>()?),
        v => v.clone(),
    })
}

#[test]
fn the_meta_device_gives_the_shapes_of_the_cpu() -> Result<()> {
    let mut tried = 0;
    for record in families().iter().flat_map(|f| f.records) {
        let Samples::Calls(samples) = record.samples else {
            continue;
        };
        for sample in samples(&mut Sampler::new(7, DType::F64))? {
            let args = sample
                .args
                .iter()
                .map(on_meta)
                .collect::<Result<Vec<_>>>()?;
            let kwargs: Vec<(&str, Value)> = sample.kwargs.clone();
            let cpu = ops::call(record.base_name(), &sample.args, &kwargs)?.tensors();
            let meta = ops::call(record.base_name(), &args, &kwargs)?.tensors();
            assert_eq!(cpu.len(), meta.len(), "{}", record.name);
            for (a, b) in cpu.iter().zip(&meta) {
                assert_eq!(
                    (a.shape(), a.dtype()),
                    (b.shape(), b.dtype()),
                    "{}",
                    record.name
                );
                assert_eq!(b.device(), Device::Meta, "{}", record.name);
            }
            tried += 1;
        }
    }
    assert!(tried > 80, "{tried}");
    Ok(())
}

/// Operands that no op is for; only `Ok` and `Err` may come of them.
#[test]
fn bad_operands_are_errors() {
    let odd: Vec<Value> = [
        Tensor::zeros(&[] as &[usize], DType::F32, Device::Cpu),
        Tensor::zeros([3], DType::F64, Device::Cpu),
        Tensor::zeros([2, 3], DType::I64, Device::Cpu),
        Tensor::zeros([0, 2, 2], DType::F16, Device::Cpu),
        Tensor::zeros([2, 0, 3], DType::C64, Device::Cpu),
        Tensor::full([3, 3], f64::NAN, DType::F32, Device::Cpu),
        Tensor::full([2, 2], f64::INFINITY, DType::C128, Device::Cpu),
        Tensor::full([30, 30], f64::NAN, DType::F64, Device::Cpu),
        Tensor::ones([40, 40], DType::F32, Device::Cpu),
        Tensor::zeros([2], DType::I32, Device::Cpu),
    ]
    .into_iter()
    .map(|t| t.expect("a tensor").into())
    .chain([
        Value::Int(i64::MIN),
        Value::Int(i64::MAX),
        Value::Float(f64::NAN),
        Value::None,
        Value::Bool(true),
        "nuc".into(),
    ])
    .collect();
    let mut calls = 0;
    for record in families()
        .iter()
        .flat_map(|f| f.records)
        .filter(|r| !r.is_internal())
    {
        for a in &odd {
            let _ = ops::call(record.base_name(), std::slice::from_ref(a), &[]);
            for b in &odd {
                let _ = ops::call(record.base_name(), &[a.clone(), b.clone()], &[]);
                let c = [a.clone(), b.clone(), a.clone()];
                let _ = ops::call(record.base_name(), &c, &[]);
                let list = Value::List(vec![a.clone(), b.clone()]);
                let _ = ops::call(record.base_name(), &[list], &[]);
                calls += 4;
            }
        }
    }
    assert!(calls > 10_000, "{calls}");
}

#[test]
fn errors_name_the_op_the_matrix_and_the_remedy() -> Result<()> {
    let text = |r: Result<Tensor>| r.expect_err("refused").to_string();
    let singular = Tensor::from_data(&[1f32, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0], [2, 2, 2])?;
    let e = text(linalg::inv(&singular));
    assert!(
        e.starts_with("linalg.inv: matrix 1 of the batch is singular: U[1, 1] is zero (LU)"),
        "{e}"
    );
    let e = text(linalg::cholesky(&tensor![[1.0, 2.0], [2.0, 1.0]]));
    assert!(
        e.starts_with(
            "linalg.cholesky: the matrix: the leading minor of order 2 is not positive definite"
        ),
        "{e}"
    );
    let e = text(linalg::inv(&tensor![[1.0, 2.0]]));
    assert!(
        e.starts_with("linalg.inv: expected batches of square matrices, got 1 by 2 matrices"),
        "{e}"
    );
    let half = tensor![[1.0]].to_dtype(DType::F16)?;
    let e = text(linalg::svdvals(&half));
    assert!(
        e.starts_with("linalg.svdvals: low precision dtypes are not supported, got float16"),
        "{e}"
    );
    let e = text(linalg::svdvals(&tensor![[f32::NAN]]));
    assert!(
        e.starts_with("linalg.svdvals: the matrix has an infinity or a nan"),
        "{e}"
    );
    // They spread where a result is defined.
    assert!(
        linalg::det(&tensor![[f32::NAN, 1.0], [1.0, 1.0]])?
            .item::<f32>()?
            .is_nan()
    );
    assert!(
        linalg::qr(&tensor![[f32::NAN, 1.0], [1.0, 1.0]])?
            .1
            .i((0, 0))?
            .item::<f32>()?
            .is_nan()
    );
    Ok(())
}

#[test]
fn observers_see_the_names() -> Result<()> {
    struct Names(Rc<RefCell<Vec<&'static str>>>);
    impl Observer for Names {
        fn begin(&self, call: &Call<'_>) {
            match call.work {
                Work::Op(record) => self.0.borrow_mut().push(record.name),
                Work::Composite(name) => self.0.borrow_mut().push(name),
                _ => {}
            }
        }
    }
    let seen = Rc::new(RefCell::new(Vec::new()));
    let guard = watch(Rc::new(Names(seen.clone())));
    linalg::inv(&tensor![[2.0]])?;
    linalg::matrix_exp(&tensor![[2.0]])?;
    drop(guard);
    for name in ["linalg.inv", "linalg.inv_ex", "linalg.matrix_exp"] {
        assert!(seen.borrow().contains(&name), "{name}: {:?}", seen.borrow());
    }
    Ok(())
}

/// The nuclear norm by the old name, in the dtype that is asked for.
#[test]
fn the_old_name_of_the_nuclear_norm_takes_a_dtype() -> Result<()> {
    let x = tensor![[3.0, 0.0], [0.0, 4.0]];
    let args = [(&x).into(), Value::Str("nuc".into())];
    let y = ops::call("norm", &args, &[("dtype", Value::DType(DType::F64))])?;
    assert_eq!(y.tensors()[0].dtype(), DType::F64);
    assert!((y.tensors()[0].item::<f64>()? - 7.0).abs() < 1e-14);
    Ok(())
}

/// PyTorch's `torch.norm(x, p="nuc")`: over all dimensions of a matrix, or over two that are named.
#[test]
fn the_norm_of_tensors_may_be_the_nuclear_one() -> Result<()> {
    let x = tensor![[3.0, 0.0], [0.0, -4.0]];
    let nuc = || torsh_tensor::NormOptions::new().p("nuc");
    assert!((x.norm_with(nuc())?.item::<f32>()? - 7.0).abs() < 1e-5);
    let both = torsh_tensor::stack(&[x.clone(), x.mul(2.0)?], 0)?;
    let y = both.norm_with(nuc().dim([1, 2]).keepdim(true).dtype(DType::F64))?;
    assert_eq!((y.dims(), y.dtype()), (&[2, 1, 1][..], DType::F64));
    let y = y.to_vec::<f64>()?;
    assert!(
        (y[0] - 7.0).abs() < 1e-12 && (y[1] - 14.0).abs() < 1e-12,
        "{y:?}"
    );
    let e = both.norm_with(nuc()).unwrap_err().to_string();
    assert!(
        e.starts_with("norm: the nuclear norm is that of matrices, over two dimensions, not 3"),
        "{e}"
    );
    Ok(())
}

#[test]
fn a_dot_product_of_halves_rounds_once() -> Result<()> {
    // The first product is 1 + 30 u + 225 u^2, where u is a unit in the last place, which float16 cannot hold.
    let u = 1.0 / 1024.0;
    let x = tensor![1.0 + 15.0 * u, -1.0].to_dtype(DType::F16)?;
    let y = tensor![1.0 + 15.0 * u, 1.0].to_dtype(DType::F16)?;
    assert_eq!(linalg::vecdot(&x, &y)?.item::<f64>()?, 0.029510498046875);
    Ok(())
}
