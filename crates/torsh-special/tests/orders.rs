//! Float32, which is computed in groups of numbers, against float64, which is not.

use torsh_special as special;
use torsh_tensor::{DType, Result, tensor};

#[test]
fn polygamma_of_every_order_and_few_elements() -> Result<()> {
    for n in 0..7 {
        let x = tensor![0.3, 1.2, -0.7, 2.5, 8.0, 40.0];
        let got = special::polygamma(n, &x)?.to_dtype(DType::F64)?;
        let want = special::polygamma(n, &x.to_dtype(DType::F64)?)?;
        for (g, w) in got.to_vec::<f64>()?.into_iter().zip(want.to_vec::<f64>()?) {
            assert!((g - w).abs() <= 2e-6 * w.abs(), "order {n}: {g}, not {w}");
        }
    }
    Ok(())
}
