//! Hooks of optimizers, in PyTorch's order.

use std::sync::{Arc, Mutex};

use torsh_optim::{Adam, GradScaler, LBFGS, Optimizer, SGD, StateValue};
use torsh_tensor::{Result, Tensor, tensor};

type Log = Arc<Mutex<Vec<String>>>;

fn put(log: &Log, text: impl Into<String>) {
    log.lock().unwrap().push(text.into());
}

fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

fn note_steps(optimizer: &impl Optimizer, log: &Log) {
    let seen = log.clone();
    optimizer.register_step_pre_hook(move |_| {
        put(&seen, "before");
        Ok(())
    });
    let seen = log.clone();
    optimizer.register_step_post_hook(move |_| {
        put(&seen, "after");
        Ok(())
    });
}

fn parameter() -> Tensor {
    tensor![4.0].requires_grad_(true)
}

#[test]
fn step_hooks_see_the_optimizer_before_and_after() -> Result<()> {
    let w = parameter();
    let optimizer = SGD::new([&w], 0.25)?;
    let log = Log::default();
    let seen = log.clone();
    let value = w.clone();
    let pre = optimizer.register_step_pre_hook(move |o| {
        put(&seen, format!("{} {}", value.item::<f32>()?, o.get_lr()));
        // A hook may use the optimizer.
        o.set_lr(0.5);
        Ok(())
    });
    let (seen, value) = (log.clone(), w.clone());
    optimizer.register_step_post_hook(move |o| {
        put(&seen, format!("{} {}", value.item::<f32>()?, o.get_lr()));
        Ok(())
    });
    w.square()?.sum()?.backward()?;
    optimizer.step()?;
    assert_eq!(taken(&log), ["4 0.25", "0 0.5"]);
    pre.remove();
    optimizer.step()?;
    assert_eq!(taken(&log), ["-4 0.5"]);
    // Handles share their hooks.
    optimizer.clone().step()?;
    optimizer.handle().step()?;
    assert_eq!(taken(&log).len(), 2);
    // An error of a hook leaves the step out.
    let before = w.item::<f32>()?;
    optimizer.register_step_pre_hook(|_| Err("no step".to_string().into()));
    assert_eq!(optimizer.step().unwrap_err().to_string(), "no step");
    assert_eq!(w.item::<f32>()?, before);
    Ok(())
}

#[test]
fn step_hooks_are_around_the_closure() -> Result<()> {
    let log = Log::default();
    let w = parameter();
    let loss = || -> Result<Tensor> {
        put(&log, "closure");
        w.zero_grad();
        let loss = w.square()?.sum()?;
        loss.backward()?;
        Ok(loss)
    };
    let optimizer = Adam::new([&w], 0.1)?;
    note_steps(&optimizer, &log);
    optimizer.step_closure(loss)?;
    assert_eq!(taken(&log), ["before", "closure", "after"]);
    let optimizer = LBFGS::builder([&w]).max_iter(1).build()?;
    note_steps(&optimizer, &log);
    optimizer.step_closure(loss)?;
    let calls = taken(&log);
    assert_eq!(
        (calls[0].as_str(), calls[1].as_str()),
        ("before", "closure")
    );
    assert_eq!(calls.iter().filter(|c| *c == "after").count(), 1);
    assert_eq!(calls.last().map(String::as_str), Some("after"));
    // Boxed optimizers have them too.
    let boxed: Box<dyn Optimizer> = Box::new(SGD::new([&w], 0.1)?);
    note_steps(&boxed, &log);
    boxed.step()?;
    assert_eq!(taken(&log), ["before", "after"]);
    Ok(())
}

#[test]
fn step_hooks_are_not_called_for_steps_that_a_scaler_leaves_out() -> Result<()> {
    let w = parameter();
    let optimizer = SGD::new([&w], 0.25)?;
    let log = Log::default();
    note_steps(&optimizer, &log);
    let scaler = GradScaler::new();
    for (factor, calls) in [(1.0, 2), (f64::INFINITY, 0), (1.0, 2)] {
        optimizer.zero_grad();
        scaler.scale(&w.mul(factor)?.sum()?)?.backward()?;
        scaler.step(&optimizer)?;
        scaler.update()?;
        assert_eq!(taken(&log).len(), calls, "{factor}");
    }
    assert_eq!(w.item::<f32>()?, 3.5);
    Ok(())
}

#[test]
fn hooks_of_state_dicts() -> Result<()> {
    let w = parameter();
    let optimizer = SGD::new([&w], 0.5)?;
    let log = Log::default();
    let seen = log.clone();
    optimizer.register_state_dict_pre_hook(move |o| {
        put(&seen, "pre");
        o.set_lr(0.25);
    });
    let seen = log.clone();
    optimizer.register_state_dict_post_hook(move |o, state| {
        let lr = state.param_groups[0].options["lr"].as_f64();
        put(&seen, format!("post {lr:?} {}", o.get_lr()));
        let options = &mut state.param_groups[0].options;
        options.insert("momentum".to_string(), StateValue::from(0.5));
    });
    let state = optimizer.state_dict();
    assert_eq!(taken(&log), ["pre", "post Some(0.25) 0.25"]);
    let momentum = |o: &SGD| o.get_option(0, "momentum").and_then(|m| m.as_f64());
    assert_eq!(momentum(&optimizer), Some(0.0));
    assert_eq!(
        state.param_groups[0].options["momentum"].as_f64(),
        Some(0.5)
    );
    let other = SGD::new([&w], 1.0)?;
    let seen = log.clone();
    other.register_load_state_dict_pre_hook(move |o, state| {
        put(&seen, format!("load pre {}", o.get_lr()));
        let options = &mut state.param_groups[0].options;
        options.insert("lr".to_string(), StateValue::from(0.125));
        Ok(())
    });
    let seen = log.clone();
    other.register_load_state_dict_post_hook(move |o| {
        put(&seen, format!("load post {}", o.get_lr()));
        Ok(())
    });
    other.load_state_dict(&state)?;
    assert_eq!(taken(&log), ["load pre 1", "load post 0.125"]);
    assert_eq!((other.get_lr(), momentum(&other)), (0.125, Some(0.5)));
    // The caller's state stays, and an error of a hook leaves the optimizer as it was.
    assert_eq!(state.param_groups[0].options["lr"].as_f64(), Some(0.25));
    other.set_lr(3.0);
    let refuse = other.register_load_state_dict_pre_hook(|_, _| Err("no".to_string().into()));
    assert_eq!(other.load_state_dict(&state).unwrap_err().to_string(), "no");
    assert_eq!(other.get_lr(), 3.0);
    refuse.remove();
    other.load_state_dict(&state)?;
    assert_eq!(other.get_lr(), 0.125);
    Ok(())
}
