//! Tutorial 2: derivatives.
//!
//! ```text
//! cargo run -p torsh --example 02_autograd_basics
//! ```

use torsh::prelude::*;

fn main() -> Result<()> {
    first_derivatives()?;
    gradients_add_up()?;
    without_recording()?;
    of_a_function()?;
    higher_orders()?;
    less_memory()?;
    a_line_through_points()
}

fn first_derivatives() -> Result<()> {
    println!("== y = x^2 + 3x at 2");
    let x = tensor![2.0].requires_grad_(true);
    let y = x.pow(2.0)?.add(x.mul(3.0)?)?;
    println!("{y}");
    y.backward()?;
    let gradient = x.grad().ok_or(TorshError::Other("no gradient".into()))?;
    println!("dy/dx = {gradient}");
    assert_eq!(gradient.item::<f32>()?, 7.0);
    Ok(())
}

/// Gradients add up until they are cleared: that is how several batches make one step.
fn gradients_add_up() -> Result<()> {
    let w = tensor![1.0, 2.0].requires_grad_(true);
    for _ in 0..3 {
        w.mul(tensor![2.0, 5.0])?.sum()?.backward()?;
    }
    let gradient = w.grad().map(|g| g.to_vec::<f32>()).transpose()?;
    assert_eq!(gradient, Some(vec![6.0, 15.0]));
    w.zero_grad();
    assert!(w.grad().is_none());
    Ok(())
}

fn without_recording() -> Result<()> {
    let w = tensor![1.0].requires_grad_(true);
    let y = no_grad(|| w.mul(2.0))?;
    assert!(!y.requires_grad());
    // A detached tensor shares the numbers, not the history.
    assert!(!w.mul(2.0)?.detach().requires_grad());
    Ok(())
}

/// Gradients of chosen tensors, and whole Jacobians, without `backward`.
fn of_a_function() -> Result<()> {
    println!("== The Jacobian of x -> (x0 x1, x0 + x1)");
    let f = |x: &[Tensor]| {
        let (a, b) = (x[0].i(0)?, x[0].i(1)?);
        stack(&[a.mul(&b)?, a.add(&b)?], 0)
    };
    let jacobian = autograd::jacobian(f, &[tensor![2.0, 3.0]], false)?;
    println!("{}", jacobian[0]);
    assert_eq!(jacobian[0].to_vec2::<f32>()?, [[3.0, 2.0], [1.0, 1.0]]);
    Ok(())
}

fn higher_orders() -> Result<()> {
    println!("== The second derivative of x^3 at 2");
    let hessian = autograd::hessian(|x| x[0].pow(3.0)?.sum(), &[tensor![2.0]])?;
    println!("{}", hessian[0][0]);
    assert_eq!(hessian[0][0].to_vec2::<f32>()?, [[12.0]]);

    // The same by hand: the gradient is itself recorded.
    let x = tensor![2.0].requires_grad_(true);
    let y = x.pow(3.0)?;
    y.backward_with(None, true, true)?;
    let first = x.grad().ok_or(TorshError::Other("no gradient".into()))?;
    x.zero_grad();
    first.backward()?;
    let second = x.grad().ok_or(TorshError::Other("no gradient".into()))?;
    assert_eq!(second.item::<f32>()?, 12.0);
    Ok(())
}

/// A checkpointed part is computed again in backward, instead of being kept until then.
fn less_memory() -> Result<()> {
    let x = tensor![0.5].requires_grad_(true);
    // It runs again later, so it owns what it needs; a clone is the same tensor.
    let kept = x.clone();
    let y = checkpoint(move || kept.sin()?.exp())?;
    y.backward()?;
    let expected = 0.5f32.cos() * 0.5f32.sin().exp();
    let gradient = x.grad().ok_or(TorshError::Other("no gradient".into()))?;
    assert!((gradient.item::<f32>()? - expected).abs() < 1e-6);
    Ok(())
}

/// Gradient descent by hand.
fn a_line_through_points() -> Result<()> {
    println!("== A line through points of y = 3 x - 1");
    manual_seed(0);
    let x = rand(&[64]);
    let y = &x * 3.0 - 1.0;
    let (slope, shift) = (
        tensor![0.0].requires_grad_(true),
        tensor![0.0].requires_grad_(true),
    );
    for step in 0..400 {
        let loss = x.mul(&slope)?.add(&shift)?.sub(&y)?.square()?.mean()?;
        loss.backward()?;
        no_grad(|| {
            for p in [&slope, &shift] {
                if let Some(g) = p.grad() {
                    p.sub_(g.mul(0.5)?)?;
                }
                p.zero_grad();
            }
            Ok(())
        })?;
        if step % 100 == 0 {
            println!("step {step:3}: loss {:.6}", loss.item::<f32>()?);
        }
    }
    let (slope, shift) = (slope.item::<f32>()?, shift.item::<f32>()?);
    println!("slope {slope:.3}, shift {shift:.3}");
    assert!((slope - 3.0).abs() < 1e-2 && (shift + 1.0).abs() < 1e-2);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
