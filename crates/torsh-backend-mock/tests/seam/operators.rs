//! Ops on a device that is not the CPU: checks of values, indices, and copies between devices.

use torsh_backend_mock::{Injection, mock};
use torsh_core::Device;
use torsh_nn::AdaptiveLogSoftmaxWithLoss;
use torsh_tensor::devices::synchronize;
use torsh_tensor::{
    DType, QuantileOptions, Result, RreluOptions, ScaledDotProductAttentionOptions, Tensor, Value,
    ops, tensor,
};

use crate::alone;

const D: Device = Device::Custom(0);
const PEER: Device = Device::Custom(1);

fn on(x: &Tensor) -> Tensor {
    x.to_device(D).expect("there is room")
}

/// A call that gives a device bad values: it succeeds, and the next wait reports its op and place.
#[track_caller]
fn fails_later<T>(call: impl FnOnce() -> Result<T>, parts: &[&str]) {
    let line = std::panic::Location::caller().line();
    let held = mock(0).expect("registered").held_back();
    call().map(drop).expect("nothing is waited for");
    assert!(mock(0).expect("registered").held_back() > held, "it waited");
    let e = synchronize(D).expect_err("the values are bad").to_string();
    assert!(parts.iter().all(|p| e.contains(p)), "{e}");
    let here = |l: u32| e.contains(&format!("operators.rs:{l}"));
    assert!((line..line + 6).any(here), "{e}");
    synchronize(D).expect("it is told once");
}

#[test]
fn checks_of_values_come_with_the_next_wait() -> Result<()> {
    let (.., _alone) = alone();
    synchronize(D)?;
    let (x, y) = (on(&tensor![0.5, 2.0]), on(&tensor![1.0, 0.0]));
    fails_later(
        || x.binary_cross_entropy(&y),
        &["binary_cross_entropy: ", "between 0 and 1", "hint"],
    );
    let var = on(&tensor![1.0, -1.0]);
    fails_later(
        || x.gaussian_nll_loss(&y, &var),
        &["gaussian_nll_loss: ", "negative entry"],
    );
    let scores = on(&tensor![[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]]);
    let class = on(&tensor![0, 3]);
    fails_later(
        || scores.multi_margin_loss(&class),
        &["multi_margin_loss: ", "from 0 to 2"],
    );
    let classes = on(&tensor![[0, -1, -1], [0, -2, -1]]);
    fails_later(
        || scores.multilabel_margin_loss(&classes),
        &["multilabel_margin_loss: ", "from -1 to 2"],
    );
    fails_later(
        || x.quantile(on(&tensor![0.5, 1.5]).select(0, 1)?),
        &["quantile: ", "[0, 1]"],
    );
    let weights = on(&tensor![-1.0, 2.0]);
    fails_later(|| weights.multinomial(1), &["multinomial: ", "element < 0"]);
    let none = on(&tensor![0.0, 0.0]);
    fails_later(|| none.multinomial(1), &["multinomial: ", "sum of prob"]);
    fails_later(
        || ops::call("normal", &[Value::from(&x), Value::from(&weights)], &[]),
        &["normal: ", "std >= 0.0"],
    );
    Ok(())
}

#[test]
fn checks_that_hold_say_nothing() -> Result<()> {
    let (.., _alone) = alone();
    synchronize(D)?;
    let (x, y) = (tensor![0.5, 0.25], tensor![1.0, 0.0]);
    let want = x.binary_cross_entropy(&y)?;
    let got = on(&x).binary_cross_entropy(&on(&y))?;
    assert!(got.cpu()?.allclose(&want)?);
    let q = on(&x).quantile_with(0.5, QuantileOptions::default())?;
    assert_eq!(q.item::<f32>()?, 0.375);
    let drawn = on(&tensor![0.0, 1.0, 0.0]).multinomial(1)?;
    assert_eq!(drawn.to_vec::<i64>()?, [1]);
    synchronize(D)
}

#[test]
fn classes_of_the_adaptive_softmax_are_checked_later() -> Result<()> {
    let (.., _alone) = alone();
    synchronize(D)?;
    torsh_tensor::set_default_device(D)?;
    let layer = AdaptiveLogSoftmaxWithLoss::new(4, 6, &[2, 4]);
    torsh_tensor::set_default_device(Device::Cpu)?;
    let layer = layer?;
    let x = on(&torsh_tensor::ones(&[2, 4]));
    // Where classes are is waited for, as their number shapes what follows, and the check comes along.
    let e = layer
        .forward_with(&x, &on(&tensor![1, 6]))
        .and_then(|y| y.loss.item::<f32>());
    let e = e.expect_err("there are 6 classes").to_string();
    assert!(
        e.contains("AdaptiveLogSoftmaxWithLoss: ") && e.contains("[0, 5]"),
        "{e}"
    );
    let _ = synchronize(D);
    let e = layer.forward_with(&x.cpu()?, &tensor![1, 6]);
    assert!(e.is_err(), "operands elsewhere than the layer");
    Ok(())
}

#[test]
fn nothing_is_asked_of_a_device_in_attention_products_and_rrelu() -> Result<()> {
    let (.., _alone) = alone();
    synchronize(D)?;
    let held = || mock(0).expect("registered").held_back();
    // A query that sees nothing has zeros. A mask with a gradient takes the way in plain ops.
    let hidden = f32::NEG_INFINITY;
    let q = tensor![[1.0, 0.5], [0.25, 2.0]];
    let options = |mask: &Tensor| ScaledDotProductAttentionOptions::default().attn_mask(mask);
    for mask in [
        tensor![[0.0, hidden], [hidden, hidden]],
        tensor![[0.5, 0.0], [hidden, 1.0]],
    ] {
        let mask = mask.requires_grad_(true);
        let want = q.scaled_dot_product_attention_with(&q, &q, options(&mask))?;
        let (x, m) = (on(&q), on(&mask).detach().requires_grad_(true));
        let before = held();
        let y = x.scaled_dot_product_attention_with(&x, &x, options(&m))?;
        assert!(held() > before, "it waited");
        assert!(y.detach().cpu()?.allclose(&want.detach())?);
    }
    for x in [
        tensor![[1.0, 2.0, 3.0]],
        tensor![[1.0, 0.0, 3.0]],
        tensor![[0.0, 0.0, 3.0]],
    ] {
        let grads = |x: Tensor| -> Result<[Tensor; 2]> {
            let x = x.requires_grad_(true);
            let product = x.prod()?;
            let before = held();
            product.backward()?;
            assert!(x.device().is_host() || held() > before, "backward waited");
            let first = x.grad().expect("a gradient");
            x.set_grad(None)?;
            x.cumprod(1)?.sum()?.backward()?;
            Ok([first, x.grad().expect("a gradient")])
        };
        let want = grads(x.clone())?;
        for (got, want) in grads(on(&x).detach())?.iter().zip(&want) {
            assert!(got.cpu()?.allclose(want)?, "{got} {want}");
        }
    }
    let x = on(&tensor![-1.0, 2.0, -3.0, 0.0]);
    let y = x.rrelu_with(RreluOptions::new().lower(0.5).upper(0.75).training(true))?;
    let y = y.to_vec::<f32>()?;
    assert!((0.5..=0.75).contains(&-y[0]) && y[1] == 2.0, "{y:?}");
    assert!((1.5..=2.25).contains(&-y[2]) && y[3] == 0.0, "{y:?}");
    Ok(())
}

#[test]
fn lists_bools_and_index_tensors_of_the_cpu_index_a_devices_tensor() -> Result<()> {
    let (.., _alone) = alone();
    let x = tensor![[0, 1, 2], [3, 4, 5], [6, 7, 8]];
    let (mask, rows) = (x.gt(4)?, tensor![2, 0]);
    let column = tensor![true, false, true];
    fn same(a: Result<Tensor>, b: Result<Tensor>) {
        let (a, b) = (a.expect("indices"), b.expect("indices"));
        assert_eq!(a.device(), D);
        assert_eq!(a.cpu().expect("a copy"), b);
    }
    let y = on(&x);
    same(y.i([0, 2]), x.i([0, 2]));
    same(y.i((.., vec![2, 1])), x.i((.., vec![2, 1])));
    same(y.i(&rows), x.i(&rows));
    same(y.i(&mask), x.i(&mask));
    same(y.i((&column, 1)), x.i((&column, 1)));
    same(y.i(true), x.i(true));
    same(y.i(&on(&mask)), x.i(&mask));
    same(
        y.index(&[None, Some(rows.clone())]),
        x.index(&[None, Some(rows.clone())]),
    );
    let list = Value::List(vec![Value::Int(1), Value::Int(0)]);
    let of = |x: &Tensor| ops::call("__getitem__", &[Value::from(x), list.clone()], &[]);
    same(
        of(&y).map(|v| v.tensors()[0].clone()),
        of(&x).map(|v| v.tensors()[0].clone()),
    );
    let e = x
        .i(&on(&rows))
        .expect_err("the CPU takes none of a device")
        .to_string();
    assert!(e.contains("same device as the indexed tensor (cpu)"), "{e}");
    // Whatever the default device is.
    torsh_tensor::set_default_device(D)?;
    let again = x.i([0, 2]).and_then(|t| t.i_put([1], 9));
    torsh_tensor::set_default_device(Device::Cpu)?;
    assert_eq!(again?.to_vec::<i64>()?, [0, 1, 2, 9, 9, 9]);
    Ok(())
}

#[test]
fn parts_of_a_devices_tensor_are_assigned_from_the_cpu() -> Result<()> {
    let (.., _alone) = alone();
    let x = tensor![[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]];
    let assign = |x: &Tensor| -> Result<Vec<f32>> {
        let (rows, mask) = (
            tensor![1],
            tensor![[true, false, false], [false, true, false]],
        );
        x.i_put([0], 7.0)?;
        x.i_put((.., 1), &tensor![8.0, 9.0])?;
        x.i((1, 2..)).and_then(|v| v.copy_(&tensor![6.0]))?;
        x.i_put(&mask, -1.0)?;
        let half = tensor![0.5].select(0, 0)?;
        x.index_put_(&[Some(mask.logical_not()?)], &half, true)?;
        x.index_put_(&[Some(rows.clone())], &half, false)?;
        x.index_fill_(1, &rows.to_device(x.device())?, &half)?;
        x.to_vec()
    };
    assert_eq!(assign(&on(&x))?, assign(&x)?);
    let y = on(&tensor![1.0, 2.0]);
    let e = y.index_put_(
        &[Some(tensor![0])],
        &tensor![5.0, 5.0].narrow(0, 0, 1)?,
        false,
    );
    let e = e
        .expect_err("a 1-d tensor of the CPU is no number")
        .to_string();
    assert!(
        e.contains("found mock:0 and cpu") && e.contains("to_device"),
        "{e}"
    );
    Ok(())
}

#[test]
fn copies_convert_where_the_dtype_is() -> Result<()> {
    let (.., _alone) = alone();
    let y = on(&tensor![0.5, 1.5]);
    let wide = Tensor::zeros([2], DType::F64, Device::Cpu)?;
    wide.copy_(&y)?;
    assert_eq!(wide.to_vec::<f64>()?, [0.5, 1.5]);
    y.copy_(&wide.mul(2.0)?)?;
    assert_eq!(y.to_vec::<f32>()?, [1.0, 3.0]);
    // Gradients go back the same way.
    let leaf = on(&tensor![1.0, 2.0]).detach().requires_grad_(true);
    let sink = Tensor::zeros([2], DType::F64, Device::Cpu)?;
    sink.copy_(&leaf)?;
    sink.mul(3.0)?.sum()?.backward()?;
    let g = leaf.grad().expect("a gradient");
    assert_eq!((g.device(), g.to_vec::<f32>()?), (D, vec![3.0, 3.0]));
    Ok(())
}

#[test]
fn peers_copy_in_the_order_of_their_queues() -> Result<()> {
    let (.., _alone) = alone();
    let (x, far) = (tensor![[1.0, 2.0], [3.0, 4.0]], |t: &Tensor| {
        t.to_device(PEER)
    });
    let y = on(&x);
    y.add_(1.0)?;
    let z = far(&y.t()?)?;
    // What comes later on either side does not reach into the copy.
    y.fill_(9.0)?;
    let sum = z.add(&far(&x)?.t()?)?;
    drop(y);
    assert_eq!(z.device().to_string(), "mock:1");
    assert_eq!(sum.to_vec::<f32>()?, [3.0, 7.0, 5.0, 9.0]);
    assert_eq!(z.stride(), [1, 2]);
    for round in 0..50 {
        let there = far(&on(&x).mul(round as f64)?)?;
        let back = there.add(1.0)?.to_device(D)?.to_vec::<f32>()?;
        assert_eq!(back[3], 4.0 * round as f32 + 1.0);
    }
    // Nothing goes through the host: a copy that failed there would be this one.
    let (a, b) = (on(&x), far(&x)?);
    a.copy_(&b)?;
    mock(0)
        .expect("registered")
        .inject(Injection::FailingCopies(1));
    let e = a.copy_(&b).expect_err("injected").to_string();
    assert!(e.contains("mock:0 failed"), "{e}");
    mock(0).expect("registered").restore();
    assert_eq!(a.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
    Ok(())
}

#[test]
fn tensors_are_filled_with_bytes_or_numbers() -> Result<()> {
    let (.., _alone) = alone();
    let x = on(&tensor![[1.0, 2.0], [3.0, 4.0]]);
    x.select(1, 0)?.zero_()?;
    assert_eq!(x.to_vec::<f32>()?, [0.0, 2.0, 0.0, 4.0]);
    x.select(0, 1)?.zero_()?;
    assert_eq!(x.to_vec::<f32>()?, [0.0, 2.0, 0.0, 0.0]);
    x.t()?.fill_(0.5)?;
    assert_eq!(x.to_vec::<f32>()?, [0.5; 4]);
    let version = x.version();
    x.zero_()?;
    assert_eq!(
        (x.to_vec::<f32>()?, x.version()),
        (vec![0.0; 4], version + 1)
    );
    let ints = Tensor::full([3], -1, DType::I64, D)?;
    assert_eq!(ints.to_vec::<i64>()?, [-1; 3]);
    assert_eq!(
        Tensor::full([3], true, DType::Bool, D)?.to_vec::<bool>()?,
        [true; 3]
    );
    assert_eq!(
        Tensor::full([2], -0.0, DType::F32, D)?.to_vec::<f32>()?[0].to_bits(),
        1 << 31
    );
    Ok(())
}
