//! The network of the example `char_gpt` looks back only, and learns.

#[path = "../examples/char_gpt/model.rs"]
#[allow(dead_code)]
mod model;

use model::{Gpt, Size};
use torsh::prelude::*;
use torsh_core::random::LocalGenerator;

const SIZE: Size = Size {
    symbols: 5,
    context: 12,
    width: 16,
    heads: 2,
    layers: 2,
};

#[test]
fn it_sees_nothing_ahead_and_learns_a_cycle() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    let net = Gpt::new(SIZE)?;
    let text = |start: i64| -> Vec<i64> { (start..start + 13).map(|i| i % 5).collect() };
    let rows: Vec<i64> = (0..5).flat_map(text).collect();
    let batch = Tensor::from_vec(rows, [5, 13])?;

    let x = batch.narrow(1, 0, 12)?;
    let other = x.copy()?;
    other.i((.., 8..))?.fill_(3)?;
    let (a, b) = (net.forward(&x)?, net.forward(&other)?);
    let before = |t: &Tensor| t.narrow(1, 0, 8)?.to_vec::<f32>();
    assert_eq!(before(&a)?, before(&b)?);
    assert_ne!(a.to_vec::<f32>()?, b.to_vec::<f32>()?);

    // Knows nothing of five symbols, then all but the first of each row.
    let first = net.loss(&batch)?.item::<f64>()?;
    assert!((first - 5f64.ln()).abs() < 0.6, "{first}");
    let optimizer = AdamW::new(net.parameters(), 1e-2)?;
    for _ in 0..60 {
        optimizer.zero_grad();
        net.loss(&batch)?.backward()?;
        optimizer.step()?;
    }
    let last = net.loss(&batch)?.item::<f64>()?;
    assert!(last < 0.05, "{last}");
    assert_eq!(net.write(&[3, 4], 6, 0.5)?, [0, 1, 2, 3, 4, 0]);
    Ok(())
}
