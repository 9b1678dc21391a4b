//! Products of matrices.

use torsh_tensor::DType;

use crate::harness::Suite;
use crate::inputs::randn;

fn product(s: &mut Suite<'_>, name: &str, a: &[usize], b: &[usize], dtype: DType) {
    let flops = 2 * a.iter().product::<usize>() * b[b.len() - 1];
    s.bench(
        name,
        || {
            let (x, y) = (randn(a)?.to_dtype(dtype)?, randn(b)?.to_dtype(dtype)?);
            Ok(move || x.matmul(&y))
        },
        flops,
        0,
    );
}

/// Registers the workloads of matrix products.
pub fn register(s: &mut Suite<'_>) {
    use DType::{BF16, F32, F64};
    for n in [64, 256, 512, 1024, 2048] {
        product(s, &format!("matmul_{n}"), &[n, n], &[n, n], F32);
    }
    product(s, "matmul_32x784x128", &[32, 784], &[784, 128], F32);
    product(s, "matvec_4096", &[1, 4096], &[4096, 4096], F32);
    product(s, "bmm_96x128x64x128", &[96, 128, 64], &[96, 64, 128], F32);
    product(s, "matmul_f64_512", &[512, 512], &[512, 512], F64);
    product(s, "matmul_bf16_1024", &[1024, 1024], &[1024, 1024], BF16);
}
