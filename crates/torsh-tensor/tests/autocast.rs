//! Autocast regions: dtypes as PyTorch has them, gradients, nesting, the cache of casts.

use std::cell::RefCell;
use std::rc::Rc;

use torsh_tensor::observe::observe;
use torsh_tensor::{
    Autocast, AutocastOptions, DType, Device, Result, RnnOptions, Tensor, Value, autocast,
    autocast_guard, autocast_with, checkpoint, clear_autocast_cache, get_autocast_dtype, grad,
    inference_mode, is_autocast_cache_enabled, is_autocast_enabled, no_grad, ops,
    set_autocast_dtype, tensor,
};

const CPU: Device = Device::Cpu;

fn off() -> AutocastOptions {
    AutocastOptions::new().enabled(false)
}

/// What a word of a line of `autocast.txt` stands for; see `make_autocast.py`.
fn value(text: &str) -> Value {
    if let Some(list) = text.strip_prefix('(') {
        let items = list.trim_end_matches(')').split(',');
        return Value::List(items.map(value).collect());
    }
    match text {
        "True" | "False" => return Value::Bool(text == "True"),
        "None" => return Value::None,
        _ => {}
    }
    if let Some(s) = text.strip_prefix('\'') {
        return s.trim_end_matches('\'').into();
    }
    let (kind, rest) = text.split_at(1);
    let dtype = match kind {
        "@" => return Value::DType(value(rest).tensors()[0].dtype()),
        "b" => DType::BF16,
        "h" => DType::F16,
        "f" => DType::F32,
        "d" => DType::F64,
        "c" => DType::C64,
        "i" => DType::I64,
        _ if text.contains('.') => return Value::Float(text.parse().unwrap()),
        _ => return Value::Int(text.parse().unwrap()),
    };
    let (sizes, limit) = rest.split_once('<').unwrap_or((rest, ""));
    let shape: Vec<usize> = match sizes {
        "" => vec![],
        s => s.split('x').map(|n| n.parse().unwrap()).collect(),
    };
    let n: usize = shape.iter().product();
    let tensor = match dtype {
        DType::I64 => {
            let limit: i64 = limit.parse().unwrap();
            Tensor::from_vec((0..n as i64).map(|i| i % limit).collect(), &shape[..])
        }
        _ => Tensor::linspace(0.1, 0.9, n, DType::F64, CPU)
            .and_then(|t| t.reshape(&shape[..])?.to_dtype(dtype)),
    };
    Value::Tensor(tensor.unwrap())
}

#[test]
fn results_have_pytorchs_dtypes() {
    let (mut calls, mut wrong) = (0, Vec::new());
    let lines = include_str!("data/autocast.txt").lines();
    for line in lines.filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let (call, want) = line.split_once(" => ").unwrap();
        let words: Vec<&str> = call.split(' ').collect();
        let named = |w: &&&str| w.contains('=');
        let args: Vec<Value> = words[1..]
            .iter()
            .filter(|w| !named(w))
            .map(|w| value(w))
            .collect();
        let kwargs: Vec<(&str, Value)> = words[1..]
            .iter()
            .filter(named)
            .map(|w| w.split_once('=').map(|(name, v)| (name, value(v))).unwrap())
            .collect();
        for (region, want) in [DType::BF16, DType::F16].into_iter().zip(want.split(" | ")) {
            let run = || autocast_with(CPU, region, || ops::call(words[0], &args, &kwargs));
            let got = match no_grad(run) {
                Ok(v) => v.tensors().iter().map(|t| t.dtype().to_string()).collect(),
                Err(e) => vec![e.to_string()],
            };
            calls += 1;
            if got.join(" ") != want {
                wrong.push(format!(
                    "{call} in {region}: want {want}, got {}",
                    got.join(" ")
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {calls}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(calls > 280, "{calls}");
}

#[test]
fn records_have_a_class() {
    let class = |name: &str| ops::find(name).unwrap()[0].autocast;
    assert_eq!(class("matmul"), Autocast::Lower);
    assert_eq!(class("nn.functional.mse_loss"), Autocast::Fp32);
    assert_eq!(class("cat"), Autocast::Promote);
    assert_eq!(class("add"), Autocast::Keep);
}

#[test]
fn values_are_those_of_casts_by_hand() -> Result<()> {
    let x = tensor![[1.25, -0.3, 2.0], [0.1, 0.7, -1.5]];
    let w = tensor![[0.2, 0.4, -0.6], [1.1, -0.9, 0.3]];
    let b = tensor![0.05, -0.05];
    let low = |t: &Tensor| t.to_dtype(DType::BF16);
    let got = autocast(|| {
        x.linear(&w, Some(&b))?
            .tanh()?
            .mse_loss(&tensor![[0.5, 0.5], [0.0, 1.0]])
    })?;
    let h = low(&x)?.linear(&low(&w)?, Some(&low(&b)?))?.tanh()?;
    let want = h
        .to_dtype(DType::F32)?
        .mse_loss(&tensor![[0.5, 0.5], [0.0, 1.0]])?;
    assert_eq!(got, want);
    // PyTorch 2.15's number.
    assert!(
        (got.item::<f64>()? - 1.4221458435058594).abs() < 1e-3,
        "{got}"
    );
    Ok(())
}

#[test]
fn gradients_have_the_dtypes_of_what_they_belong_to() -> Result<()> {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]].requires_grad_(true);
    let w = tensor![[0.5, -1.0], [0.25, 1.0]].requires_grad_(true);
    let double = tensor![[1.0]].to_dtype(DType::F64)?.requires_grad_(true);
    let loss = autocast(|| {
        let h = x.mm(&w)?.relu()?;
        assert_eq!(h.dtype(), DType::BF16);
        h.cross_entropy(&tensor![0, 1])?
            .add(double.mm(&double)?.sum()?.to_dtype(DType::F32)?)
    })?;
    assert_eq!(loss.dtype(), DType::F32);
    loss.backward()?;
    for (t, dtype) in [(&x, DType::F32), (&w, DType::F32), (&double, DType::F64)] {
        let g = t.grad().expect("a gradient");
        assert_eq!((g.dtype(), g.shape()), (dtype, t.shape()));
    }
    // By hand.
    let (x2, w2) = (
        x.detach().requires_grad_(true),
        w.detach().requires_grad_(true),
    );
    let h = x2
        .to_dtype(DType::BF16)?
        .mm(&w2.to_dtype(DType::BF16)?)?
        .relu()?;
    h.to_dtype(DType::F32)?
        .cross_entropy(&tensor![0, 1])?
        .backward()?;
    assert_eq!((x.grad(), w.grad()), (x2.grad(), w2.grad()));
    assert_eq!(
        double.grad().map(|g| g.to_vec::<f64>()).transpose()?,
        Some(vec![2.0])
    );
    Ok(())
}

#[test]
fn backward_computes_in_the_recorded_dtypes() -> Result<()> {
    let x = tensor![[1.5, -2.25], [0.3, 1.1]].requires_grad_(true);
    let y = x.mm(&x)?.sum()?;
    let outside = grad(
        std::slice::from_ref(&y),
        std::slice::from_ref(&x),
        &[None],
        true,
        false,
        false,
    )?;
    let inside = autocast(|| {
        grad(
            std::slice::from_ref(&y),
            std::slice::from_ref(&x),
            &[None],
            true,
            false,
            false,
        )
    })?;
    assert_eq!(outside, inside);
    // A hook runs as backward does, and may begin a region of its own.
    let h = x.mm(&x)?;
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let told = seen.clone();
    let _hook = h.register_hook(move |g| {
        let own = autocast(|| g.mm(g))?.dtype();
        told.lock()
            .push((is_autocast_enabled(CPU), g.mm(g)?.dtype(), own));
        Ok(None)
    });
    autocast(|| h.sum()?.backward())?;
    assert_eq!(*seen.lock(), [(false, DType::F32, DType::BF16)]);
    Ok(())
}

#[test]
fn regions_nest() -> Result<()> {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]];
    let dtype = || x.mm(&x).map(|y| y.dtype());
    assert!(!is_autocast_enabled(CPU));
    autocast_with(CPU, DType::F16, || {
        assert_eq!((is_autocast_enabled(CPU), dtype()?), (true, DType::F16));
        // Without a dtype: that of the region around.
        assert_eq!(autocast(dtype)?, DType::F16);
        assert_eq!(autocast_with(CPU, DType::BF16, dtype)?, DType::BF16);
        autocast_with(CPU, off(), || {
            assert_eq!((is_autocast_enabled(CPU), dtype()?), (false, DType::F32));
            assert_eq!(autocast(dtype)?, DType::F16);
            Ok(())
        })?;
        assert_eq!(dtype()?, DType::F16);
        Ok(())
    })?;
    // A region ends with its guard, after an error, and after a panic.
    {
        let _region = autocast_guard(CPU, AutocastOptions::new())?;
        assert_eq!(dtype()?, DType::BF16);
    }
    assert_eq!(dtype()?, DType::F32);
    assert!(autocast(|| x.mm(&tensor![1.0])).is_err());
    assert!(std::panic::catch_unwind(|| autocast(|| -> Result<()> { panic!("within") })).is_err());
    assert_eq!((is_autocast_enabled(CPU), dtype()?), (false, DType::F32));
    Ok(())
}

#[test]
fn dtypes_are_set_for_a_thread_or_a_region() -> Result<()> {
    assert_eq!(get_autocast_dtype(CPU)?, DType::BF16);
    assert_eq!(get_autocast_dtype(Device::Cuda(0))?, DType::F16);
    set_autocast_dtype(CPU, DType::F16)?;
    let x = tensor![[1.0]];
    assert_eq!(autocast(|| x.mm(&x))?.dtype(), DType::F16);
    autocast(|| set_autocast_dtype(CPU, DType::BF16))?;
    assert_eq!(get_autocast_dtype(CPU)?, DType::F16);
    set_autocast_dtype(CPU, DType::BF16)?;
    for refused in [
        set_autocast_dtype(CPU, DType::F32).unwrap_err(),
        get_autocast_dtype(Device::Meta).unwrap_err(),
        autocast_with(CPU, DType::I64, || Ok(())).unwrap_err(),
        autocast_with(Device::Meta, DType::BF16, || Ok(())).unwrap_err(),
        autocast_with(Device::Cuda(0), DType::F16, || Ok(())).unwrap_err(),
    ] {
        let text = refused.to_string();
        assert!(
            text.contains("autocast") || text.contains("cuda:0"),
            "{text}"
        );
    }
    // Switched off, a region says nothing of its dtype.
    autocast_with(
        CPU,
        AutocastOptions::from(DType::F32).enabled(false),
        || Ok(()),
    )?;
    Ok(())
}

#[test]
fn other_threads_and_meta_tensors_are_not_cast() -> Result<()> {
    autocast(|| {
        let elsewhere = std::thread::spawn(|| {
            let x = tensor![[1.0]];
            let outside = x.mm(&x).unwrap().dtype();
            (outside, autocast(|| x.mm(&x)).unwrap().dtype())
        });
        assert_eq!(elsewhere.join().unwrap(), (DType::F32, DType::BF16));
        let meta = Tensor::ones(&[2, 2], DType::F32, Device::Meta)?;
        assert_eq!(meta.mm(&meta)?.dtype(), DType::F32);
        Ok(())
    })
}

/// The names of the ops that `f` calls.
fn called<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, Vec<&'static str>)> {
    let names = Rc::new(RefCell::new(Vec::new()));
    let seen = names.clone();
    let out = observe(move |e| seen.borrow_mut().push(e.record.name), f)?;
    let names = names.borrow().clone();
    Ok((out, names))
}

fn casts(names: &[&str]) -> usize {
    names.iter().filter(|n| **n == "to").count()
}

#[test]
fn a_parameter_is_cast_once() -> Result<()> {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]];
    let w = tensor![[0.5, 1.0], [1.5, 2.0]].requires_grad_(true);
    let twice = || x.mm(&w)?.mm(&w);
    // x once, w once; the result between them is bfloat16 already.
    let (_, names) = called(|| autocast(twice))?;
    assert_eq!(casts(&names), 2, "{names:?}");
    // Across nested regions, until the outermost ends.
    let (_, names) = called(|| autocast(|| autocast(twice).and_then(|_| autocast(twice))))?;
    assert_eq!(casts(&names), 3, "{names:?}");
    let (_, names) = called(|| autocast(twice).and_then(|_| autocast(twice)))?;
    assert_eq!(casts(&names), 4, "{names:?}");
    // Not where that is switched off, nor after the cache is cleared.
    let plain = AutocastOptions::new().cache_enabled(false);
    let (_, names) = called(|| {
        autocast_with(CPU, plain, || {
            assert!(!is_autocast_cache_enabled());
            twice()
        })
    })?;
    assert_eq!(casts(&names), 3, "{names:?}");
    let (_, names) = called(|| {
        autocast(|| {
            let y = x.mm(&w)?;
            clear_autocast_cache();
            y.mm(&w)
        })
    })?;
    assert_eq!(casts(&names), 3, "{names:?}");
    // Each dtype has its own.
    autocast_with(CPU, DType::F16, || {
        assert_eq!(w.mm(&w)?.dtype(), DType::F16);
        assert_eq!(
            autocast_with(CPU, DType::BF16, || w.mm(&w))?.dtype(),
            DType::BF16
        );
        Ok(())
    })
}

#[test]
fn casts_of_one_parameter_add_up_their_gradients() -> Result<()> {
    let w = tensor![[0.5, 1.0], [1.5, 2.0]].requires_grad_(true);
    autocast(|| w.mm(&w)?.sum())?.backward()?;
    // The sums of rows and columns, all exact in bfloat16.
    let g = w.grad().expect("a gradient");
    assert_eq!(
        (g.dtype(), g.to_vec::<f32>()?),
        (DType::F32, vec![3.5, 5.5, 4.5, 6.5])
    );
    Ok(())
}

#[test]
fn a_cast_is_made_anew_where_the_parameter_or_recording_changed() -> Result<()> {
    let w = tensor![[2.0]].requires_grad_(true);
    autocast(|| {
        // Without a history, which a recorded call must not get.
        assert!(!no_grad(|| w.mm(&w))?.requires_grad());
        assert!(!inference_mode(|| w.mm(&w))?.requires_grad());
        let y = w.mm(&w)?;
        assert!(y.requires_grad());
        y.sum()?.backward()?;
        assert_eq!(w.grad().expect("a gradient").item::<f32>()?, 4.0);
        // With one it serves both.
        assert_eq!(no_grad(|| w.mm(&w))?.item::<f32>()?, 4.0);
        no_grad(|| w.mul_(3.0))?;
        assert_eq!(w.mm(&w)?.item::<f32>()?, 36.0);
        Ok(())
    })
}

#[test]
fn in_place_ops_are_not_cast() -> Result<()> {
    let x = tensor![[1.0, 2.0], [3.0, 4.0]];
    autocast(|| {
        let y = x.copy()?;
        y.index_copy_(0, &tensor![1], &tensor![[7.0, 8.0]])?;
        assert_eq!(
            (y.dtype(), y.to_vec::<f32>()?),
            (DType::F32, vec![1.0, 2.0, 7.0, 8.0])
        );
        Ok(())
    })
}

#[test]
fn half_types_of_another_kind_promote() -> Result<()> {
    let (h, b) = (
        tensor![1.0].to_dtype(DType::F16)?,
        tensor![2.0].to_dtype(DType::BF16)?,
    );
    autocast(|| {
        assert_eq!(Tensor::cat(&[&h, &h], 0)?.dtype(), DType::F16);
        let both = Tensor::stack(&[&h, &b], 0)?;
        assert_eq!(
            (both.dtype(), both.to_vec::<f32>()?),
            (DType::F32, vec![1.0, 2.0])
        );
        let index = tensor![0];
        assert_eq!(h.index_copy(0, &index, &b)?.dtype(), DType::F32);
        Ok(())
    })
}

#[test]
fn a_checkpoint_computes_again_in_its_region() -> Result<()> {
    let x = tensor![[1.5, -2.25], [0.3, 1.1]];
    let w = tensor![[0.5, 1.0], [1.5, 2.0]].requires_grad_(true);
    let f = |x: &Tensor, w: &Tensor| x.mm(w)?.tanh()?.mm(w)?.tanh();
    let plain = autocast_with(CPU, DType::F16, || f(&x, &w)?.mse_loss(&tensor![[0.0]]))?;
    plain.backward()?;
    let want = w.grad();
    w.zero_grad();
    let again = autocast_with(CPU, DType::F16, || {
        let (x, w) = (x.clone(), w.clone());
        let y = checkpoint(move || f(&x, &w))?;
        assert_eq!(y.dtype(), DType::F16);
        y.mse_loss(&tensor![[0.0]])
    })?;
    assert_eq!(again, plain);
    // Neither where there is no region, nor in another one.
    let again = autocast(|| again.backward());
    again?;
    assert_eq!(w.grad(), want);
    Ok(())
}

#[test]
fn what_composite_ops_are_made_of_is_not_cast_again() -> Result<()> {
    // A float32 op made of sums and products stays float32 inside.
    let (a, b) = (
        tensor![[0.1, 0.2]].to_dtype(DType::BF16)?,
        tensor![[0.3, -0.2]].to_dtype(DType::BF16)?,
    );
    let y = tensor![1];
    let got = autocast(|| a.cosine_embedding_loss(&b, &y))?;
    let whole = |t: &Tensor| t.to_dtype(DType::F32);
    assert_eq!(got, whole(&a)?.cosine_embedding_loss(&whole(&b)?, &y)?);
    // Attention's two products are one op with bfloat16 operands, which computes in float32.
    let q = tensor![[0.1, 0.2], [0.3, 0.4]];
    let got = autocast(|| q.scaled_dot_product_attention(&q, &q))?;
    let low = q.to_dtype(DType::BF16)?;
    assert_eq!(got, low.scaled_dot_product_attention(&low, &low)?);
    Ok(())
}

#[test]
fn packed_sequences_keep_the_dtype_of_their_states() -> Result<()> {
    let wave = |shape: &[usize], k: f64| -> Result<Tensor> {
        let n = shape.iter().product::<usize>();
        let steps = Tensor::arange(0, n as i64, 1, DType::F32, CPU)?;
        steps.mul(k)?.sin()?.mul(0.8)?.reshape(shape)
    };
    let x = wave(&[5, 3], 0.7)?;
    let options = || {
        RnnOptions::new()
            .bidirectional(true)
            .batch_sizes(vec![2, 2, 1])
    };
    let params = |gates: usize| -> Result<Vec<Tensor>> {
        let mut all = Vec::new();
        for k in [0.9, 1.7] {
            let rows = 2 * gates;
            all.extend([wave(&[rows, 3], k)?, wave(&[rows, 2], k + 0.3)?]);
            all.extend([wave(&[rows], k + 0.5)?, wave(&[rows], k + 0.6)?]);
        }
        Ok(all)
    };
    let (h, c) = (wave(&[2, 2, 2], 1.1)?, wave(&[2, 2, 2], 1.3)?);
    let lstm = |x: &Tensor, h: &Tensor, c: &Tensor| {
        x.lstm((h, c), &params(4)?, options())
            .map(|(y, h, c)| vec![y, h, c])
    };
    let gru = |x: &Tensor, h: &Tensor, _: &Tensor| {
        x.gru(h, &params(3)?, options()).map(|(y, h)| vec![y, h])
    };
    let rnn = |x: &Tensor, h: &Tensor, _: &Tensor| {
        x.rnn_tanh(h, &params(1)?, options())
            .map(|(y, h)| vec![y, h])
    };
    type Layer<'a> = &'a dyn Fn(&Tensor, &Tensor, &Tensor) -> Result<Vec<Tensor>>;
    let layers: [(Layer<'_>, DType); 3] =
        [(&lstm, DType::F32), (&gru, DType::F32), (&rnn, DType::BF16)];
    for (layer, dtype) in layers {
        let whole = layer(&x, &h, &c)?;
        for (got, want) in autocast(|| layer(&x, &h, &c))?.iter().zip(&whole) {
            assert_eq!(got.dtype(), dtype);
            let apart = got.sub(want)?.abs()?.max()?.item::<f64>()?;
            assert!(apart < 0.02, "{apart}");
        }
        let low = |t: &Tensor| t.to_dtype(DType::BF16);
        for got in autocast(|| layer(&low(&x)?, &low(&h)?, &low(&c)?))? {
            assert_eq!(got.dtype(), DType::BF16);
        }
    }
    Ok(())
}
