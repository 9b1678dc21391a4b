//! Reductions of bytes, element by element.

use torsh_core::DType;

use super::super::EngineOp;

/// `into = into op from` for all elements of both, which have the same bytes. Integers wrap around.
pub(super) fn fold(dtype: DType, op: EngineOp, into: &mut [u8], from: &[u8]) {
    macro_rules! of {
        ($t:ty, $sum:expr, $product:expr) => {{
            let f: fn($t, $t) -> $t = match op {
                EngineOp::Sum => $sum,
                EngineOp::Product => $product,
                EngineOp::Min => |a, b| a.min(b),
                EngineOp::Max => |a, b| a.max(b),
            };
            each(into, from, |a, b| {
                f(<$t>::from_ne_bytes(a), <$t>::from_ne_bytes(b)).to_ne_bytes()
            });
        }};
        ($t:ty) => {
            of!($t, <$t>::wrapping_add, <$t>::wrapping_mul)
        };
    }
    match dtype {
        DType::U8 => of!(u8),
        DType::I8 => of!(i8),
        DType::I16 => of!(i16),
        DType::I32 => of!(i32),
        DType::I64 => of!(i64),
        DType::F32 => of!(f32, |a, b| a + b, |a, b| a * b),
        DType::F64 => of!(f64, |a, b| a + b, |a, b| a * b),
        // `check_reduction` refused the others.
        _ => {}
    }
}

fn each<const N: usize>(into: &mut [u8], from: &[u8], f: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (into, _) = into.as_chunks_mut::<N>();
    let (from, _) = from.as_chunks::<N>();
    for (a, b) in into.iter_mut().zip(from) {
        *a = f(*a, *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_by_element() {
        let mut a: Vec<u8> = [1.5f32, -2.0]
            .iter()
            .flat_map(|x| x.to_ne_bytes())
            .collect();
        let b: Vec<u8> = [0.25f32, 8.0]
            .iter()
            .flat_map(|x| x.to_ne_bytes())
            .collect();
        let want = |x: [f32; 2]| x.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
        fold(DType::F32, EngineOp::Sum, &mut a, &b);
        assert_eq!(a, want([1.75, 6.0]));
        fold(DType::F32, EngineOp::Product, &mut a, &b);
        assert_eq!(a, want([0.4375, 48.0]));
        fold(DType::F32, EngineOp::Min, &mut a, &b);
        assert_eq!(a, want([0.25, 8.0]));
        let mut c = [250u8, 3];
        fold(DType::U8, EngineOp::Sum, &mut c, &[10, 1]);
        assert_eq!(c, [4, 4]);
        let mut d = (-5i64).to_ne_bytes();
        fold(DType::I64, EngineOp::Max, &mut d, &(-7i64).to_ne_bytes());
        assert_eq!(i64::from_ne_bytes(d), -5);
    }
}
