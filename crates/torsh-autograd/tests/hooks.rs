//! Hooks on tensors and nodes, and `retain_grad`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{fails, g, leaf, recorded_grad, t, v};
use torsh_tensor::{DType, Result, Shared, Tensor, TorshError, backward, grad};

/// Gradients that a hook saw.
type Seen = Arc<Mutex<Vec<Vec<f64>>>>;

fn record(on: &Tensor, seen: &Seen) -> Result<torsh_tensor::HookHandle> {
    let seen = seen.clone();
    on.register_hook(move |g| {
        seen.lock().expect("unpoisoned").push(v(g));
        Ok(None)
    })
}

fn taken(seen: &Seen) -> Vec<Vec<f64>> {
    std::mem::take(&mut seen.lock().expect("unpoisoned"))
}

#[test]
fn a_hook_replaces_the_gradient() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(2.0)?;
    y.register_hook(|g| Ok(Some(g.mul(10.0)?)))?;
    y.mul(3.0)?.sum()?.backward()?;
    assert_eq!(g(&x), [60., 60.]);
    // On a leaf, before it is added up; on the root of a pass.
    let x = leaf(&[1.]);
    x.register_hook(|g| Ok(Some(g.add(1.0)?)))?;
    let y = x.mul(2.0)?;
    y.register_hook(|g| Ok(Some(g.mul(5.0)?)))?;
    y.backward()?;
    assert_eq!(g(&x), [11.]);
    y.backward_with(None, false, false)
        .expect_err("mul by a number saves it");
    Ok(())
}

#[test]
fn hooks_run_once_in_order_on_the_sum() -> Result<()> {
    let x = leaf(&[1.]);
    let seen = Seen::default();
    record(&x, &seen)?;
    x.register_hook(|g| Ok(Some(g.add(1.0)?)))?;
    record(&x, &seen)?;
    x.register_hook(|g| Ok(Some(g.mul(10.0)?)))?;
    record(&x, &seen)?;
    x.mul(2.0)?.add(&x.mul(3.0)?)?.backward()?;
    assert_eq!(taken(&seen), [[5.], [6.], [60.]]);
    assert_eq!(g(&x), [60.]);
    // The same on a result used several times.
    let y = x.mul(1.0)?;
    record(&y, &seen)?;
    y.register_hook(|g| Ok(Some(g.mul(2.0)?)))?;
    record(&y, &seen)?;
    y.mul(2.0)?.add(&y)?.add(&y.mul(4.0)?)?.backward()?;
    assert_eq!(taken(&seen)[..2], [[7.], [14.]]);
    Ok(())
}

#[test]
fn removed_hooks_are_gone() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let seen = Seen::default();
    let on_leaf = record(&x, &seen)?;
    let y = x.mul(2.0)?;
    let on_result = record(&y, &seen)?;
    y.sum()?.backward_with(None, true, false)?;
    assert_eq!(taken(&seen), [[1., 1.], [2., 2.]]);
    on_result.remove();
    y.sum()?.backward_with(None, true, false)?;
    assert_eq!(taken(&seen), [[2., 2.]]);
    on_leaf.remove();
    y.sum()?.backward()?;
    assert!(taken(&seen).is_empty());
    assert_eq!(g(&x), [6., 6.]);
    // Also where the tensor got another node since.
    let y = x.mul(2.0)?;
    let handle = record(&y, &seen)?;
    y.mul_(3.0)?;
    handle.remove();
    y.sum()?.backward()?;
    assert!(taken(&seen).is_empty());
    Ok(())
}

#[test]
fn a_handle_keeps_nothing_alive() -> Result<()> {
    struct Counts(Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = Counts(dropped.clone());
    let y = leaf(&[1.]).mul(2.0)?;
    let handle = y.register_hook(move |_| {
        let _held = &count;
        Ok(None)
    })?;
    drop(y);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    handle.remove();
    Ok(())
}

#[test]
fn hooks_and_in_place_ops() -> Result<()> {
    // A hook belongs to the values it was registered on.
    let seen = Seen::default();
    let x = leaf(&[1., 2.]);
    let y = x.mul(2.0)?;
    record(&y, &seen)?;
    y.mul_(3.0)?;
    y.mul(5.0)?.sum()?.backward()?;
    assert_eq!(taken(&seen), [[15., 15.]]);
    let y = x.mul(2.0)?;
    record(&y, &seen)?;
    y.narrow(0, 0, 1)?.mul_(3.0)?;
    y.mul(5.0)?.sum()?.backward()?;
    assert_eq!(taken(&seen), [[15., 5.]]);
    // The history of a view whose base was written does not pass the view's old node.
    let y = x.mul(2.0)?;
    let view = y.narrow(0, 0, 1)?;
    record(&view, &seen)?;
    y.mul_(3.0)?;
    x.zero_grad();
    view.mul(5.0)?.sum()?.backward()?;
    assert!(taken(&seen).is_empty());
    assert_eq!(g(&x), [30., 0.]);
    Ok(())
}

#[test]
fn hooks_in_grad() -> Result<()> {
    let x = leaf(&[1.]);
    x.register_hook(|g| Ok(Some(g.mul(10.0)?)))?;
    let y = x.mul(2.0)?;
    y.register_hook(|g| Ok(Some(g.mul(100.0)?)))?;
    let found = grad(
        &[y.mul(3.0)?],
        &[x.clone(), y.clone()],
        &[],
        true,
        false,
        false,
    )?;
    let found: Vec<_> = found.iter().flatten().map(v).collect();
    assert_eq!(found, [[6000.], [300.]]);
    assert!(!x.has_grad());
    Ok(())
}

#[test]
fn hooks_are_differentiated() -> Result<()> {
    let x = leaf(&[2.]);
    let y = x.pow(3.0)?;
    y.register_hook(|g| Ok(Some(g.mul(g)?.mul(2.0)?)))?;
    // The gradient of y is x, and becomes 2 x^2: y + 2 x^2 * 3 x^2.
    let first = recorded_grad(&y.mul(&x)?, &x)?;
    assert_eq!(v(&first), [104.]);
    // The second pass meets y, too, whose gradient of 1 becomes 2: 2 * 3 x^2 + 24 x^3.
    assert_eq!(v(&recorded_grad(&first, &x)?), [216.]);
    Ok(())
}

#[test]
fn bad_hooks_are_errors() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(2.0)?;
    y.register_hook(|g| g.sum().map(Some))?;
    fails(y.sum()?.backward(), &["hook", "float64[2]", "float64[]"]);
    let y = x.mul(2.0)?;
    y.register_hook(|g| g.to_dtype(DType::F32).map(Some))?;
    fails(y.sum()?.backward(), &["hook", "float64[2]", "float32[2]"]);
    let y = x.mul(2.0)?;
    y.register_hook(|_| Err(TorshError::Other("boom".into())))?;
    fails(y.sum()?.backward(), &["boom"]);
    assert!(!x.has_grad());
    fails(
        t(&[1.]).register_hook(|_| Ok(None)),
        &["cannot register a hook on a tensor that doesn't require gradient"],
    );
    Ok(())
}

#[test]
fn retained_gradients() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(2.0)?;
    y.retain_grad()?;
    y.register_hook(|g| Ok(Some(g.mul(10.0)?)))?;
    y.sum()?.backward()?;
    assert_eq!((g(&y), g(&x)), (vec![10., 10.], vec![20., 20.]));
    // A leaf keeps it anyway; a constant cannot.
    x.retain_grad()?;
    fails(
        t(&[1.]).retain_grad(),
        &["can't retain_grad", "requires_grad=false"],
    );
    // Without being asked, a result keeps nothing.
    let y = x.mul(2.0)?;
    y.sum()?.backward()?;
    assert!(y.grad().is_none());
    Ok(())
}

#[test]
fn retained_gradients_are_those_of_the_last_values() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(2.0)?;
    y.retain_grad()?;
    y.mul_(3.0)?;
    y.mul(5.0)?.sum()?.backward()?;
    assert_eq!((g(&y), g(&x)), (vec![5., 5.], vec![30., 30.]));
    let y = x.mul(2.0)?;
    y.retain_grad()?;
    y.narrow(0, 0, 1)?.mul_(3.0)?;
    y.mul(5.0)?.sum()?.backward()?;
    assert_eq!(g(&y), [5., 5.]);
    // Of a view: where it is used after it was written, only.
    for used in [false, true] {
        let y = x.mul(2.0)?;
        let view = y.narrow(0, 0, 1)?;
        view.retain_grad()?;
        view.mul_(3.0)?;
        let mut loss = y.mul(5.0)?.sum()?;
        if used {
            loss = loss.add(&view.mul(7.0)?.sum()?)?;
        }
        x.zero_grad();
        loss.backward()?;
        assert_eq!(view.grad().map(|g| v(&g)), used.then(|| vec![7.]));
        assert_eq!(g(&x), if used { [72., 10.] } else { [30., 10.] });
    }
    Ok(())
}

#[test]
fn hooks_on_nodes() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(2.0)?;
    let node = y.grad_fn().expect("recorded");
    let pre = node.register_prehook(Arc::new(|grads| {
        grads[0] = Some(grads[0].as_ref().expect("a gradient").add(1.0)?);
        Ok(())
    }));
    let post = node.register_hook(Arc::new(|grads| {
        grads[0] = Some(grads[0].as_ref().expect("a gradient").mul(10.0)?);
        Ok(())
    }));
    let loss = y.sum()?;
    loss.backward_with(None, true, false)?;
    assert_eq!(g(&x), [40., 40.]);
    // Those on the tensor run before those on its node, whatever the order they came in.
    let on_tensor = y.register_hook(|g| Ok(Some(g.mul(10.0)?)))?;
    x.zero_grad();
    loss.backward_with(None, true, false)?;
    assert_eq!(g(&x), [220., 220.]);
    on_tensor.remove();
    assert!(node.remove_hook(pre) && !node.remove_hook(pre));
    x.zero_grad();
    loss.backward_with(None, true, false)?;
    assert_eq!(g(&x), [20., 20.]);
    assert!(node.remove_hook(post));
    x.zero_grad();
    loss.backward()?;
    assert_eq!(g(&x), [2., 2.]);
    // An error of a hook ends the pass.
    let y = x.mul(2.0)?;
    let node = y.grad_fn().expect("recorded");
    node.register_prehook(Arc::new(|_| Err(TorshError::Other("boom".into()))));
    fails(y.sum()?.backward(), &["boom"]);
    Ok(())
}

#[test]
fn hooks_on_accumulators() -> Result<()> {
    let x = leaf(&[1., 2.]);
    let y = x.mul(2.0)?;
    let (node, _) = y.grad_fn().expect("recorded").next_functions()[0]
        .clone()
        .expect("an edge to the leaf");
    assert_eq!(node.name(), "AccumulateGrad");
    assert!(node.variable().is_some_and(|leaf| leaf.is_same(&x)));
    node.register_prehook(Arc::new(|grads| {
        grads[0] = Some(grads[0].as_ref().expect("a gradient").mul(10.0)?);
        Ok(())
    }));
    let after = Seen::default();
    let (seen, leaf) = (after.clone(), Shared::downgrade(&node));
    node.register_hook(Arc::new(move |grads| {
        assert!(grads.is_empty());
        if let Some(node) = leaf.upgrade() {
            let grad = node
                .variable()
                .and_then(Tensor::grad)
                .expect("added by now");
            seen.lock().expect("unpoisoned").push(v(&grad));
        }
        Ok(())
    }));
    y.sum()?.backward()?;
    assert_eq!(taken(&after), [[20., 20.]]);
    assert_eq!(g(&x), [20., 20.]);
    Ok(())
}

#[test]
fn a_hook_may_return_the_leaf_itself() -> Result<()> {
    let x = leaf(&[3.]);
    let same = Arc::new(Mutex::new(None::<Tensor>));
    let inner = same.clone();
    x.register_hook(move |_| Ok(inner.lock().expect("unpoisoned").clone()))?;
    *same.lock().expect("unpoisoned") = Some(x.clone());
    let y = x.mul(2.0)?;
    for _ in 0..2 {
        backward(&[y.clone()], &[], true, true)?;
    }
    assert_eq!(g(&x), [6.]);
    // Recorded: d(x + x)/dx.
    *same.lock().expect("unpoisoned") = None;
    let sum = x.grad().expect("a gradient");
    x.zero_grad();
    sum.backward()?;
    assert_eq!(g(&x), [2.]);
    Ok(())
}

/// Hooks that follow a leaf's gradient are called while the pass goes on: as soon as the leaf has all of its gradient.
#[test]
fn hooks_after_gradients_come_early() -> Result<()> {
    use std::sync::{Arc, Mutex};
    let order: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = |what: &str, t: &Tensor| {
        let (order, what) = (order.clone(), what.to_string());
        t.register_post_accumulate_grad_hook(move |leaf| {
            let g = leaf.grad().expect("a gradient").to_vec::<f32>()?;
            order.lock().unwrap().push(format!("{what} {g:?}"));
            Ok(())
        })
    };
    let leaf = |v: f32| Tensor::from_data(&[v, v + 1.0], [2]).map(|t| t.requires_grad_(true));
    let (first, twice, last, part) = (leaf(1.0)?, leaf(2.0)?, leaf(3.0)?, leaf(4.0)?);
    for (what, t) in [
        ("first", &first),
        ("twice", &twice),
        ("last", &last),
        ("part", &part),
    ] {
        note(what, t)?;
    }
    // `twice` is used at both ends, `part` by views of its halves.
    let x = first.mul(&twice)?;
    let inner = order.clone();
    x.register_hook(move |_| {
        inner.lock().unwrap().push("inner".into());
        Ok(None)
    })?;
    let halves = part.narrow(0, 0, 1)?.mul(part.narrow(0, 1, 1)?)?;
    let y = x.mul(&last)?.mul(&halves)?.add(&twice)?;
    y.sum()?.backward()?;
    let order = order.lock().unwrap().clone();
    let at = |what: &str| order.iter().position(|o| o.starts_with(what)).expect(what);
    assert_eq!(order.len(), 5, "{order:?}");
    assert!(
        at("last") < at("inner") && at("inner") < at("first"),
        "{order:?}"
    );
    assert!(at("inner") < at("twice"), "{order:?}");
    let grads = [&first, &twice, &last, &part].map(|t| t.grad().expect("a gradient"));
    assert_eq!(grads[0], Tensor::from_data(&[120.0f32, 240.0], [2])?);
    assert_eq!(grads[1], Tensor::from_data(&[61.0f32, 161.0], [2])?);
    assert_eq!(grads[2], Tensor::from_data(&[40.0f32, 120.0], [2])?);
    assert_eq!(grads[3], Tensor::from_data(&[150.0f32, 120.0], [2])?);
    Ok(())
}
