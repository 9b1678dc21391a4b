//! COO gradients and sparse parameters: PyTorch's values, rows that stay, what is refused, and what works on gradients.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::Value as Json;
use torsh_core::pool;
use torsh_optim::{
    ASGD, Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, GradScaler, GradScalerOptions, LBFGS,
    Muon, NAdam, Optimizer, OptimizerState, ParamGroup, RAdam, RMSprop, Rprop, SGD, SparseAdam,
    StateValue, clip_grad_norm_, clip_grad_value_,
};
use torsh_serialize::Value;
use torsh_sparse::SparseExt;
use torsh_tensor::observe::{Call, Observer, Work, watch};
use torsh_tensor::sparse::{Pattern, from_values, values};
use torsh_tensor::{DType, Device, Result, Tensor, TensorLayout, TorshError, tensor};

fn numbers(v: &Json) -> Vec<f64> {
    let list = v.as_array().expect("a list").iter();
    list.map(|x| x.as_f64().expect("a number")).collect()
}

fn build(name: &str, params: &[Tensor], config: &Json) -> Result<Box<dyn Optimizer>> {
    let mut group = ParamGroup::new(params);
    for (k, v) in config.as_object().expect("a map") {
        group = group.set(
            k,
            match v {
                Json::Bool(b) => StateValue::Bool(*b),
                Json::Array(_) => StateValue::Floats(numbers(v)),
                v => StateValue::Float(v.as_f64().expect("a number")),
            },
        );
    }
    Ok(match name {
        "SparseAdam" => Box::new(SparseAdam::builder([group]).build()?),
        "SGD" => Box::new(SGD::builder([group]).build()?),
        "Adagrad" => Box::new(Adagrad::builder([group]).build()?),
        other => panic!("{other}"),
    })
}

/// A COO tensor of `shape` with these indices, whose duplicates are not added up.
fn coo(indices: &[i64], v: &Tensor, shape: &[usize]) -> Result<Tensor> {
    let nnz = v.dims()[0];
    let rows = indices.len() / nnz.max(1);
    let rows = if nnz == 0 {
        shape.len() + 1 - v.ndim()
    } else {
        rows
    };
    let indices = Tensor::from_data(indices, [rows, nnz])?;
    from_values(&Pattern::coo(shape, &indices, false)?, v)
}

const SHAPES: [[usize; 2]; 2] = [[6, 3], [3, 4]];

/// The runs of PyTorch; `between` may swap the optimizer after two steps.
fn run_all(
    between: impl Fn(Box<dyn Optimizer>, &[Tensor], &Json) -> Result<Box<dyn Optimizer>>,
) -> Result<()> {
    let runs: Json = serde_json::from_str(include_str!("data/sparse.json")).expect("the fixture");
    let runs = runs.as_array().expect("runs");
    assert_eq!(runs.len(), 8);
    for run in runs {
        let name = run["optimizer"].as_str().expect("a name");
        let dtype = match run["dtype"].as_str() {
            Some("float32") => DType::F32,
            _ => DType::F64,
        };
        let tensor =
            |v: &Json, shape: &[usize]| Tensor::from_data(&numbers(v), shape)?.to_dtype(dtype);
        let params = (0..2)
            .map(|i| Ok(tensor(&run["start"][i], &SHAPES[i])?.requires_grad_(true)))
            .collect::<Result<Vec<_>>>()?;
        let mut optimizer = build(name, &params, &run["config"])?;
        for (k, grads) in run["steps"].as_array().expect("steps").iter().enumerate() {
            if k == 2 {
                optimizer = between(optimizer, &params, run)?;
            }
            for (i, p) in params.iter().enumerate() {
                let indices: Vec<i64> = numbers(&grads[i]["indices"])
                    .iter()
                    .map(|&n| n as i64)
                    .collect();
                let nnz = indices.len() / (i + 1);
                let shape: &[usize] = if i == 0 { &[nnz, 3] } else { &[nnz] };
                let v = tensor(&grads[i]["values"], shape)?;
                p.set_grad(Some(coo(&indices, &v, &SHAPES[i])?))?;
            }
            optimizer.step()?;
        }
        // Additions of scaled values may round once there, and roots are MKL's, which round up or down.
        let tolerance = if dtype == DType::F32 { 3e-7 } else { 1e-15 };
        let near = |got: &Tensor, want: &Json, what: &str| -> Result<()> {
            let (got, want) = (got.detach().to_vec::<f64>()?, numbers(want));
            assert_eq!(got.len(), want.len());
            for (a, b) in got.iter().zip(&want) {
                let ok = (a - b).abs() <= tolerance * b.abs().max(1.0);
                assert!(ok, "{name} {}: {what}: {a:e} for {b:e}", run["config"]);
            }
            Ok(())
        };
        let state = optimizer.state_dict();
        for (i, p) in params.iter().enumerate() {
            near(p, &run["params"][i], "the parameter")?;
            for (key, want) in run["state"][i].as_object().expect("a map") {
                let own = state.state[&i][key].as_tensor().expect("a tensor");
                let own = if own.is_sparse() {
                    own.to_dense()?
                } else {
                    own.clone()
                };
                near(&own, want, key)?;
            }
        }
    }
    Ok(())
}

#[test]
fn coo_gradients_give_pytorchs_values() -> Result<()> {
    run_all(|o, _, _| Ok(o))
}

/// Numbers of texts of their bits.
fn of_bits(v: &Json) -> Vec<f32> {
    let list = v.as_array().expect("a list").iter();
    let bits = list.map(|x| u32::from_str_radix(x.as_str().expect("a text"), 16));
    bits.map(|b| f32::from_bits(b.expect("bits"))).collect()
}

/// Five steps of PyTorch with roots that are correctly rounded, made by data/make_sparse_adam.py.
#[test]
fn sparse_adam_has_pytorchs_bits() -> Result<()> {
    let runs: Json =
        serde_json::from_str(include_str!("data/sparse_adam.json")).expect("the fixture");
    let runs = runs.as_array().expect("runs");
    assert_eq!(runs.len(), 2);
    for run in runs {
        let w = Tensor::from_data(&of_bits(&run["start"]), [7, 3])?.requires_grad_(true);
        let optimizer = build("SparseAdam", &[w.clone()], &run["config"])?;
        let steps = run["steps"].as_array().expect("steps");
        assert_eq!(steps.len(), 5);
        for step in steps {
            let rows: Vec<i64> = numbers(&step["rows"]).iter().map(|&n| n as i64).collect();
            let v = Tensor::from_data(&of_bits(&step["values"]), [rows.len(), 3])?;
            w.set_grad(Some(coo(&rows, &v, &[7, 3])?))?;
            optimizer.step()?;
        }
        let same = |got: &Tensor, what: &str| -> Result<()> {
            let bits = |v: Vec<f32>| -> Vec<u32> { v.into_iter().map(f32::to_bits).collect() };
            let want = bits(of_bits(&run["end"][what]));
            let got = bits(got.detach().to_vec::<f32>()?);
            assert_eq!(got, want, "{what} with {}", run["config"]);
            Ok(())
        };
        same(&w, "param")?;
        let state = optimizer.state_dict();
        for key in ["exp_avg", "exp_avg_sq"] {
            same(state.state[&0][key].as_tensor().expect("a tensor"), key)?;
        }
    }
    Ok(())
}

#[test]
fn a_loaded_state_goes_on_with_coo_gradients() -> Result<()> {
    run_all(|o, params, run| {
        // As a file has it.
        let saved = Value::from(&o.state_dict());
        let fresh = build(
            run["optimizer"].as_str().expect("a name"),
            params,
            &serde_json::json!({}),
        )?;
        fresh.load_state_dict(&OptimizerState::try_from(&saved)?)?;
        Ok(fresh)
    })
}

/// A parameter of 5 rows, and a gradient of the rows 3, 1 and 3.
fn table() -> Result<(Tensor, Tensor)> {
    let start: Vec<f32> = (0..10).map(|i| i as f32 / 4.0).collect();
    let w = Tensor::from_data(&start, [5, 2])?.requires_grad_(true);
    let v = tensor![[1.0f32, -2.0], [0.5, 0.25], [3.0, 1.0]];
    let grad = coo(&[3, 1, 3], &v, &[5, 2])?;
    Ok((w, grad))
}

#[test]
fn a_step_is_that_of_the_strided_gradient_on_the_named_rows() -> Result<()> {
    for name in ["SparseAdam", "SGD", "Adagrad"] {
        let ((a, grad), (b, _)) = (table()?, table()?);
        let config = serde_json::json!({"lr": 0.5});
        a.set_grad(Some(grad.clone()))?;
        b.set_grad(Some(grad.to_dense()?))?;
        build(name, &[a.clone()], &config)?.step()?;
        build(name, &[b.clone()], &config)?.step()?;
        let off = a.detach().sub(&b.detach())?.abs()?.max()?.item::<f64>()?;
        assert!(off < 1e-6, "{name}: {a:?} for {b:?}");
    }
    // Bit for bit.
    let ((a, grad), (b, _)) = (table()?, table()?);
    a.set_grad(Some(grad.clone()))?;
    b.set_grad(Some(grad.to_dense()?))?;
    SGD::new([&a], 0.3)?.step()?;
    SGD::new([&b], 0.3)?.step()?;
    assert_eq!(a.detach(), b.detach());
    Ok(())
}

/// Numbers from -1 to 1 that need rounding, the same for each seed.
fn drawn(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(next).collect()
}

/// A tensor of drawn numbers.
fn random(shape: &[usize], dtype: DType, seed: u64) -> Result<Tensor> {
    let n = shape.iter().product::<usize>();
    if !dtype.is_complex() {
        return Tensor::from_vec(drawn(n, seed), shape)?.to_dtype(dtype);
    }
    let pairs = [shape, &[2]].concat();
    Tensor::from_vec(drawn(2 * n, seed), pairs.as_slice())?
        .view_as_complex()?
        .to_dtype(dtype)
}

/// The names of the ops that are called.
#[derive(Default)]
struct Called(RefCell<Vec<&'static str>>);

impl Observer for Called {
    fn begin(&self, call: &Call<'_>) {
        if let Work::Op(r) | Work::InPlace(r) = call.work {
            self.0.borrow_mut().push(r.name);
        }
    }
}

/// Steps with gradients of some rows, duplicates among them: the bits of the parameter and of its state, and whether rows
/// were taken out and put back. With `apart` there are gaps between the rows of the parameter.
fn stepped(
    name: &str,
    dtype: DType,
    (shape, sparse_dim, nnz): (&[usize], usize, usize),
    maximize: bool,
    apart: bool,
) -> Result<(Vec<Vec<u64>>, bool)> {
    let last = shape.len() - 1;
    let mut room = shape.to_vec();
    room[last] += usize::from(apart);
    let room = Tensor::zeros(room.as_slice(), dtype, Device::Cpu)?;
    let w = room.narrow(last as i64, 0, shape[last] as i64)?;
    w.copy_(&random(shape, dtype, 1)?)?;
    let w = w.requires_grad_(true);
    let config = serde_json::json!({"lr": 0.1, "maximize": maximize});
    let optimizer = build(name, &[w.clone()], &config)?;
    let called = Rc::new(Called::default());
    let guard = watch(called.clone());
    for step in 1..5 {
        let mut indices: Vec<i64> = Vec::new();
        for (d, &size) in shape[..sparse_dim].iter().enumerate() {
            let place = |v: f64| ((v + 1.0) / 2.0 * size as f64) as i64;
            indices.extend(drawn(nnz, 100 * step + d as u64).into_iter().map(place));
        }
        let mut of_values = vec![nnz];
        of_values.extend(&shape[sparse_dim..]);
        let v = random(&of_values, dtype, 1000 * step)?;
        w.set_grad(Some(coo(&indices, &v, shape)?))?;
        let version = w.version();
        optimizer.step()?;
        assert!(w.version() > version, "{name} {dtype} {shape:?}");
    }
    drop(guard);
    let mut all = vec![w.detach()];
    let state = optimizer.state_dict();
    for key in ["exp_avg", "exp_avg_sq"] {
        let of_first = state.state.get(&0).and_then(|s| s.get(key));
        all.extend(of_first.and_then(StateValue::as_tensor).cloned());
    }
    let bits = |t: &Tensor| -> Result<Vec<u64>> {
        let t = match t.dtype().is_complex() {
            true => t.view_as_real()?,
            false => t.clone(),
        };
        Ok(t.to_vec::<f64>()?.into_iter().map(f64::to_bits).collect())
    };
    let gathered = called.0.borrow().contains(&"index_copy");
    Ok((all.iter().map(bits).collect::<Result<_>>()?, gathered))
}

#[test]
fn a_step_in_place_has_the_bits_of_its_operations_one_by_one() -> Result<()> {
    let set = |n: usize| {
        pool::set_num_threads(n).map_err(|e| TorshError::invalid("set_num_threads", e.to_string()))
    };
    // Shapes, sparse dimensions, indices. Most are enough for several threads.
    let shapes: [(&[usize], usize, usize); 6] = [
        (&[2000, 1], 1, 1500),
        (&[2000, 7], 1, 1500),
        (&[2000, 64], 1, 1500),
        (&[200, 1000], 1, 150),
        (&[40, 30, 5], 2, 1000),
        (&[30, 50], 2, 1000),
    ];
    let before = pool::num_threads();
    for (i, shape) in shapes.into_iter().enumerate() {
        for name in ["SparseAdam", "SGD"] {
            for dtype in [DType::F32, DType::F64, DType::C64] {
                let maximize = i % 2 == 1;
                let (want, gathered) = stepped(name, dtype, shape, maximize, true)?;
                assert!(gathered, "{name} {dtype} {shape:?}");
                assert_eq!(want.len(), if name == "SGD" { 1 } else { 3 });
                for threads in [1, 3] {
                    set(threads)?;
                    let (got, gathered) = stepped(name, dtype, shape, maximize, false)?;
                    assert!(!gathered, "{name} {dtype} {shape:?}");
                    let what = format!("{name} {dtype} {shape:?} with {threads} threads");
                    assert!(got == want, "{what}");
                }
                set(before)?;
            }
        }
    }
    Ok(())
}

/// A pattern may say that it is coalesced where it is not.
#[test]
fn rows_out_of_order_or_range_are_refused_before_anything_is_written() -> Result<()> {
    for (rows, text) in [
        (tensor![[3, 1]], "row 1 of a gradient follows its row 3"),
        (tensor![[1, 1]], "row 1 of a gradient follows its row 1"),
        (tensor![[1, 5]], "index 5 is out of bounds for the 5 rows"),
    ] {
        for name in ["SparseAdam", "SGD"] {
            let (w, _) = table()?;
            let v = tensor![[1.0f32, 2.0], [3.0, 4.0]];
            w.set_grad(Some(from_values(&Pattern::coo(&[5, 2], &rows, true)?, &v)?))?;
            let optimizer = build(name, &[w.clone()], &serde_json::json!({"lr": 0.5}))?;
            let e = optimizer.step().expect_err(name).to_string();
            assert!(e.starts_with(name) && e.contains(text), "{name}: {e}");
            assert_eq!(w.detach(), table()?.0.detach(), "{name}");
        }
    }
    Ok(())
}

#[test]
fn strided_and_coo_gradients_mix() -> Result<()> {
    for name in ["SparseAdam", "SGD", "Adagrad"] {
        let (w, grad) = table()?;
        let dense = tensor![1.0f32, 2.0].requires_grad_(true);
        let config = match name {
            "SGD" => serde_json::json!({"lr": 0.5, "momentum": 0.5}),
            _ => serde_json::json!({"lr": 0.5}),
        };
        let optimizer = build(name, &[w.clone(), dense.clone()], &config)?;
        for coo in [true, false, true, true] {
            optimizer.zero_grad();
            assert!(w.grad().is_none());
            let own = if coo { grad.clone() } else { grad.to_dense()? };
            w.set_grad(Some(own))?;
            dense.set_grad(Some(tensor![1.0f32, -1.0]))?;
            let before = (w.detach().copy()?, dense.detach().copy()?);
            optimizer.step()?;
            assert_ne!(dense.detach(), before.1, "{name}");
            assert_ne!(w.detach(), before.0, "{name}");
            if coo {
                assert_eq!(w.detach().select(0, 0)?, before.0.select(0, 0)?, "{name}");
            }
        }
    }
    Ok(())
}

/// Each parameter of a mixture has the steps that it has alone: strided gradients those of Adam.
#[test]
fn a_mixture_in_sparse_adam_is_adam_beside_sparse_adam() -> Result<()> {
    let start = || Tensor::from_data(&[0.5f32, -3.0, 2.0, 7.0], [2, 2]);
    let gradients = [
        tensor![[1.0f32, -2.0], [0.0, 0.25]],
        tensor![[-0.5f32, 3.0], [1.5, 0.0]],
        tensor![[2.0f32, 0.125], [-1.0, 4.0]],
    ];
    let (w, grad) = table()?;
    let (alone, _) = table()?;
    let (dense, twin) = (start()?.requires_grad_(true), start()?.requires_grad_(true));
    let mixed = SparseAdam::new([&dense, &w], 0.125)?;
    let (adam, sparse_adam) = (
        Adam::new([&twin], 0.125)?,
        SparseAdam::new([&alone], 0.125)?,
    );
    for g in &gradients {
        for p in [&dense, &twin] {
            p.set_grad(Some(g.copy()?))?;
        }
        for p in [&w, &alone] {
            p.set_grad(Some(grad.clone()))?;
        }
        mixed.step()?;
        adam.step()?;
        sparse_adam.step()?;
        assert_eq!(dense.detach(), twin.detach());
        assert_eq!(w.detach(), alone.detach());
    }
    assert_ne!(dense.detach(), start()?);
    let rows = |p: &Tensor| p.detach().index_select(0, &tensor![0, 2, 4]);
    assert_eq!(rows(&w)?, rows(&table()?.0)?);
    assert_ne!(w.detach(), table()?.0.detach());
    Ok(())
}

#[test]
fn momentum_moves_the_rows_that_had_a_gradient() -> Result<()> {
    let w = Tensor::zeros([4, 1], DType::F32, Device::Cpu)?.requires_grad_(true);
    let sgd = SGD::builder([&w]).lr(1.0).momentum(0.5).build()?;
    for row in [0i64, 2] {
        w.set_grad(Some(coo(&[row], &tensor![[8.0f32]], &[4, 1])?))?;
        sgd.step()?;
    }
    assert_eq!(w.to_vec::<f32>()?, [-12.0, 0.0, -8.0, 0.0]);
    let state = sgd.state_dict();
    let buffer = state.state[&0]["momentum_buffer"]
        .as_tensor()
        .expect("a tensor");
    assert!(buffer.is_sparse());
    assert_eq!(buffer.to_dense()?.to_vec::<f32>()?, [4.0, 0.0, 8.0, 0.0]);
    Ok(())
}

#[test]
fn other_optimizers_refuse_coo_gradients_by_name() -> Result<()> {
    type Build = fn(&Tensor) -> Result<Box<dyn Optimizer>>;
    macro_rules! optimizers {
        ($($name:ident)*) => {
            [$((stringify!($name), (|p| Ok(Box::new($name::new([p], 0.0625)?))) as Build),)*]
        };
    }
    let all = optimizers!(
        ASGD Adadelta Adafactor Adam AdamW Adamax Muon NAdam RAdam RMSprop Rprop
    );
    for (name, build) in all {
        let (w, grad) = table()?;
        let before = w.detach().copy()?;
        w.set_grad(Some(grad))?;
        let e = build(&w)?.step().expect_err(name).to_string();
        assert!(
            e.contains(name) && e.contains("torch.sparse_coo"),
            "{name}: {e}"
        );
        assert!(
            e.contains("SparseAdam") && e.contains("to_dense()"),
            "{name}: {e}"
        );
        assert_eq!(w.detach(), before, "{name}");
    }
    let (w, grad) = table()?;
    let lbfgs = LBFGS::new([&w], 0.1)?;
    let e = lbfgs.step_closure(|| {
        w.set_grad(Some(grad.clone()))?;
        Ok(tensor![1.0])
    });
    let e = e.expect_err("LBFGS").to_string();
    assert!(e.contains("LBFGS") && e.contains("SparseAdam"), "{e}");
    Ok(())
}

#[test]
fn weight_decay_of_coo_gradients_is_refused_before_anything_is_written() -> Result<()> {
    for name in ["SGD", "Adagrad"] {
        let (w, grad) = table()?;
        let dense = tensor![1.0f32].requires_grad_(true);
        w.set_grad(Some(grad))?;
        dense.set_grad(Some(tensor![1.0f32]))?;
        let config = serde_json::json!({"lr": 0.5, "weight_decay": 0.25});
        let optimizer = build(name, &[dense.clone(), w.clone()], &config)?;
        let e = optimizer.step().expect_err(name).to_string();
        assert!(
            e.contains(name) && e.contains("weight_decay of 0.25"),
            "{e}"
        );
        assert_eq!(dense.detach(), tensor![1.0f32]);
    }
    let (w, grad) = table()?;
    w.set_grad(Some(grad.to_dense()?.to_sparse_csr()?))?;
    let e = SparseAdam::new([&w], 0.1)?
        .step()
        .expect_err("CSR")
        .to_string();
    assert!(
        e.contains("SparseAdam") && e.contains("torch.sparse_csr"),
        "{e}"
    );
    Ok(())
}

#[test]
fn a_group_without_weight_decay_takes_coo_gradients_beside_one_with_it() -> Result<()> {
    let (w, grad) = table()?;
    let dense = tensor![1.0f32].requires_grad_(true);
    w.set_grad(Some(grad))?;
    dense.set_grad(Some(tensor![1.0f32]))?;
    let decayed = ParamGroup::new([&dense]).set("weight_decay", StateValue::Float(0.25));
    let sgd = SGD::builder([decayed, ParamGroup::new([&w])])
        .lr(0.5)
        .build()?;
    sgd.step()?;
    assert_eq!(dense.to_vec::<f32>()?, [0.375]);
    assert_eq!(
        w.to_vec::<f32>()?,
        [0.0, 0.25, 0.25, 0.625, 1.0, 1.25, -0.5, 2.25, 2.0, 2.25]
    );
    Ok(())
}

#[test]
fn a_scaler_unscales_the_values_and_finds_their_infinities() -> Result<()> {
    let (w, grad) = table()?;
    let optimizer = SparseAdam::new([&w], 0.5)?;
    let scaler = GradScaler::new_with(GradScalerOptions::new().init_scale(4.0))?;
    let before = w.detach().copy()?;
    for bad in [false, true] {
        scaler.scale(&tensor![1.0])?;
        let v = values(&grad)?.mul(4.0)?;
        if bad {
            v.narrow(0, 1, 1)?.fill_(f32::INFINITY)?;
        }
        w.set_grad(Some(coo(&[3, 1, 3], &v, &[5, 2])?))?;
        scaler.unscale_(&optimizer)?;
        if !bad {
            let unscaled = values(&w.grad().expect("a gradient"))?;
            assert_eq!(unscaled, values(&grad)?);
        }
        let now = w.detach().copy()?;
        assert_eq!(scaler.step(&optimizer)?.made()?, !bad);
        assert_eq!(now == w.detach(), bad);
        scaler.update()?;
    }
    assert_ne!(w.detach(), before);
    assert_eq!(scaler.get_scale()?, 2.0);
    Ok(())
}

#[test]
fn coo_gradients_are_clipped_as_their_sums() -> Result<()> {
    let (w, grad) = table()?;
    let dense = grad.to_dense()?;
    let (a, b) = (w.clone(), w.detach().copy()?.requires_grad_(true));
    let set = || {
        a.set_grad(Some(from_values(
            &grad.pattern().expect("COO"),
            &values(&grad)?.copy()?,
        )?))?;
        b.set_grad(Some(dense.copy()?))
    };
    let same = || -> Result<()> {
        let (x, y) = (a.grad().expect("a gradient"), b.grad().expect("a gradient"));
        assert!(x.is_sparse());
        assert!(x.to_dense()?.allclose(&y)?, "{x:?} for {y:?}");
        Ok(())
    };
    set()?;
    let norm = clip_grad_norm_([&a], 1.0)?;
    assert!(norm.allclose(&clip_grad_norm_([&b], 1.0)?)?);
    same()?;
    set()?;
    clip_grad_value_([&a], 0.75)?;
    clip_grad_value_([&b], 0.75)?;
    same()
}

#[test]
fn gradients_of_batches_are_added_up() -> Result<()> {
    let w = Tensor::ones([4, 2], DType::F32, Device::Cpu)?.requires_grad_(true);
    let rows = [tensor![0, 1], tensor![1, 3]];
    for rows in &rows {
        let g = coo(
            &rows.to_vec::<i64>()?,
            &tensor![[1.0f32, 1.0], [2.0, 2.0]],
            &[4, 2],
        )?;
        let sum = match w.grad() {
            Some(old) => old.add(&g)?,
            None => g,
        };
        w.set_grad(Some(sum))?;
    }
    let grad = w.grad().expect("a gradient");
    assert!(grad.is_sparse());
    assert_eq!(
        grad.to_dense()?.to_vec::<f32>()?,
        [1.0, 1.0, 3.0, 3.0, 0.0, 0.0, 2.0, 2.0]
    );
    SparseAdam::new([&w], 0.5)?.step()?;
    assert_eq!(w.detach().select(0, 2)?, tensor![1.0f32, 1.0]);
    Ok(())
}

#[test]
fn the_stored_values_of_a_sparse_parameter_are_trained() -> Result<()> {
    let dense = tensor![[0.0f32, 2.0], [3.0, 0.0]];
    for layout in [TensorLayout::SparseCoo, TensorLayout::SparseCsr] {
        let make = || -> Result<Tensor> {
            let w = match layout {
                TensorLayout::SparseCoo => dense.to_sparse()?,
                _ => dense.to_sparse_csr()?,
            };
            Ok(w.detach().requires_grad_(true))
        };
        let (w, other) = (make()?, make()?);
        let pattern = w.pattern().expect("sparse");
        let adam = Adam::new([&w], 0.5)?;
        w.set_grad(Some(from_values(&pattern, &tensor![1.0f32, -4.0])?))?;
        adam.step()?;
        assert!(values(&w.detach())?.allclose(&tensor![1.5f32, 3.5])?);
        assert!(w.pattern().expect("sparse").is_same(&pattern));
        // The same from a strided gradient, at the stored elements.
        let twin = Adam::new([&other], 0.5)?;
        other.set_grad(Some(tensor![[9.0f32, 1.0], [-4.0, 9.0]]))?;
        twin.step()?;
        assert_eq!(values(&other.detach())?, values(&w.detach())?);
        // Its state is of the values.
        let state = adam.state_dict();
        assert_eq!(
            state.state[&0]["exp_avg"]
                .as_tensor()
                .expect("a tensor")
                .dims(),
            [2]
        );
        twin.load_state_dict(&state)?;
        twin.step()?;
    }
    let w = dense.to_sparse()?.detach().requires_grad_(true);
    let e = LBFGS::new([&w], 0.1)
        .map(drop)
        .expect_err("sparse")
        .to_string();
    assert!(e.contains("LBFGS") && e.contains("torch.sparse_coo"), "{e}");
    Ok(())
}

#[test]
fn half_precision_and_transposed_parameters_have_coo_gradients() -> Result<()> {
    for name in ["SparseAdam", "SGD", "Adagrad"] {
        for dtype in [DType::F16, DType::BF16] {
            let (w, grad) = table()?;
            let w = w.detach().to_dtype(dtype)?.requires_grad_(true);
            let grad = from_values(
                &grad.pattern().expect("COO"),
                &values(&grad)?.to_dtype(dtype)?,
            )?;
            let before = w.detach().copy()?;
            w.set_grad(Some(grad))?;
            build(name, &[w.clone()], &serde_json::json!({"lr": 0.5}))?.step()?;
            assert_ne!(
                w.detach().select(0, 3)?,
                before.select(0, 3)?,
                "{name} {dtype}"
            );
            assert_eq!(
                w.detach().select(0, 4)?,
                before.select(0, 4)?,
                "{name} {dtype}"
            );
        }
        // All dimensions sparse, column-major memory.
        let base = tensor![[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]];
        let w = base.t()?.requires_grad_(true);
        let grad = coo(&[1, 0, 2, 1], &tensor![1.0f32, -1.0], &[2, 3])?;
        w.set_grad(Some(grad))?;
        build(name, &[w.clone()], &serde_json::json!({"lr": 0.5}))?.step()?;
        let got = w.to_vec::<f32>()?;
        assert!(
            (got[5] - 5.5).abs() < 0.01 && (got[1] - 3.5).abs() < 0.01,
            "{name}: {got:?}"
        );
        assert_eq!(
            [got[0], got[2], got[3], got[4]],
            [1.0, 5.0, 2.0, 4.0],
            "{name}"
        );
    }
    Ok(())
}
