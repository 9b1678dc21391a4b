//! Operators, literals and free functions.

use torsh_tensor::{
    DType, Device, NanToNumOptions, Result, Tensor, arange, cat, device, eye, full, has_inf,
    has_nan, linspace, logspace, ones, stack, tensor, tensor_2d, tensor_stats, zeros, zeros_like,
};

fn values(t: &Tensor) -> Vec<f64> {
    t.to_vec::<f64>().unwrap()
}

#[test]
fn operators_take_tensors_and_numbers_on_either_side() {
    let (a, b) = (tensor![1.0, 2.0], tensor![3.0, 5.0]);
    assert_eq!(&a + &b, tensor![4.0, 7.0]);
    assert_eq!(a.clone() + &b, tensor![4.0, 7.0]);
    assert_eq!(&a - b.clone(), tensor![-2.0, -3.0]);
    assert_eq!(a.clone() * b.clone(), tensor![3.0, 10.0]);
    assert_eq!(2.0 * &a, tensor![2.0, 4.0]);
    assert_eq!(&a / 2, tensor![0.5, 1.0]);
    assert_eq!(1 - &a, tensor![0.0, -1.0]);
    assert_eq!(1.0f32 / &b * 15.0, tensor![5.0, 3.0]);
    assert_eq!(-&a, tensor![-1.0, -2.0]);
    // Floored, as Python's.
    assert_eq!(tensor![-7, 7] % 3, tensor![2, 1]);
    assert_eq!(&tensor![6, 5] & &tensor![3, 3], tensor![2, 1]);
    assert_eq!(tensor![6, 5] | 1, tensor![7, 5]);
    assert_eq!(tensor![true, false] ^ true, tensor![false, true]);
    assert_eq!(!tensor![true, false], tensor![false, true]);
    assert_eq!(!tensor![0, 5], tensor![-1, -6]);
    // A number raises no dtype within its category; another category does.
    assert_eq!((tensor![1, 2] + 1).dtype(), DType::I64);
    assert_eq!((tensor![1, 2] + 0.5).dtype(), DType::F32);
}

#[test]
fn an_operand_given_away_changes_nobody_else() -> Result<()> {
    let a = tensor![1.0, 2.0];
    let view = a.narrow(0, 0, 1)?;
    let same = a.clone();
    let sum = a + 1.0;
    assert_eq!(sum, tensor![2.0, 3.0]);
    assert_eq!((same, view), (tensor![1.0, 2.0], tensor![1.0]));
    // The chain's temporaries lend their buffers, and the gradient is right all the same.
    let x = tensor![3.0].requires_grad_(true);
    let y = (&x * 2.0 + 1.0) * (&x * 1.0);
    y.sum()?.backward()?;
    assert_eq!(x.grad().map(|g| values(&g)), Some(vec![13.0]));
    Ok(())
}

#[test]
fn assigning_operators_write_in_place() -> Result<()> {
    let mut x = tensor![[1.0, 2.0], [3.0, 4.0]];
    let row = x.select(0, 0)?;
    x += 1.0;
    x *= &tensor![1.0, 10.0];
    assert_eq!(values(&row), [2.0, 30.0]);
    x -= tensor![[2.0], [0.0]];
    x /= 2;
    x %= 7.0;
    assert_eq!(values(&x), [0.0, 0.0, 2.0, 4.0]);
    let mut bits = tensor![5, 6];
    bits &= 4;
    bits |= 1;
    bits ^= 3;
    assert_eq!(bits, tensor![6, 6]);
    Ok(())
}

#[test]
fn equality_is_of_dtype_shape_and_values() {
    assert_eq!(tensor![1, 2], tensor![1, 2]);
    assert_ne!(tensor![1, 2], tensor![1, 3]);
    assert_ne!(tensor![1, 2], tensor![1.0, 2.0]);
    assert_ne!(tensor![1, 2], tensor![[1, 2]]);
    assert_ne!(tensor![f64::NAN], tensor![f64::NAN]);
    assert_eq!(tensor![0.0], tensor![-0.0]);
}

#[test]
#[should_panic(expected = "add: cannot broadcast shapes [2] and [3]")]
fn operators_panic_with_the_error() {
    let _ = zeros(2) + zeros(3);
}

#[test]
#[should_panic(expected = "arange: upper bound and lower bound inconsistent with step sign")]
fn creation_panics_with_the_error() {
    arange(0, 5, -1);
}

#[test]
fn literals_have_the_dtypes_of_python_lists() {
    assert_eq!(tensor![1.0, 2.0].dtype(), DType::F32);
    assert_eq!(tensor![1u8, 2].dtype(), DType::I64);
    assert_eq!(tensor![true].dtype(), DType::Bool);
    assert_eq!(values(&tensor![2.5; 3]), [2.5; 3]);
    let deep = tensor![[[[1.0, 2.0]], [[3.0, 4.0]]]];
    assert_eq!(
        (deep.dims(), values(&deep)),
        (&[1, 2, 1, 2][..], vec![1.0, 2.0, 3.0, 4.0])
    );
    assert_eq!(tensor_2d![[1, 2], [3, 4]].dims(), [2, 2]);
    assert_eq!(device!("cpu"), Device::Cpu);
}

#[test]
fn creation() -> Result<()> {
    assert_eq!(zeros([2, 2]), tensor![[0.0, 0.0], [0.0, 0.0]]);
    assert_eq!(ones((1, 2)), tensor![[1.0, 1.0]]);
    assert_eq!(full([2], 7), tensor![7, 7]);
    assert_eq!(arange(0, 6, 2), tensor![0, 2, 4]);
    assert_eq!(arange(1.0, -1.0, -0.5), tensor![1.0, 0.5, 0.0, -0.5]);
    assert_eq!(linspace(-1.0, 1.0, 3), tensor![-1.0, 0.0, 1.0]);
    assert_eq!(linspace(5, 9, 1), tensor![5.0]);
    assert_eq!(logspace(0, 2, 3, 10.0), tensor![1.0, 10.0, 100.0]);
    assert_eq!(eye(2), tensor![[1.0, 0.0], [0.0, 1.0]]);
    assert_eq!(
        Tensor::eye_nm(1, 3, DType::I64, Device::Cpu)?,
        tensor![[1, 0, 0]]
    );
    let like = zeros_like(&tensor![[1, 2]].transpose(0, 1)?);
    assert_eq!((like.dims(), like.dtype()), (&[2, 1][..], DType::I64));
    assert_eq!(cat(&[tensor![1], tensor![2, 3]], 0)?, tensor![1, 2, 3]);
    assert_eq!(
        stack(&[&tensor![1, 2], &tensor![3, 4]], -1)?,
        tensor![[1, 3], [2, 4]]
    );
    Ok(())
}

#[test]
fn checks() -> Result<()> {
    let x = tensor![1.0, f64::NAN, f64::NEG_INFINITY, 0.0];
    assert!(has_nan(&x) && has_inf(&x) && x.has_nan()? && !x.is_finite()?);
    assert!(!has_nan(&tensor![1, 2]) && tensor![1.0].is_finite()?);
    assert_eq!(
        values(&x.nan_to_num_with(NanToNumOptions::new().nan(7.0).neginf(-1.0))?),
        [1.0, 7.0, -1.0, 0.0]
    );
    let s = tensor_stats(&tensor![1.0, 2.0, 3.0, 0.0, f64::NAN])?;
    assert_eq!(
        (s.numel, s.nan, s.inf, s.zeros, s.min, s.max, s.mean),
        (5, 1, 0, 1, 0.0, 3.0, 1.5)
    );
    assert!((s.std - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
    assert!(tensor![1.0].requires_grad_(true).map(|v| v).is_err());
    assert_eq!(tensor![[1, 2], [3, 4]].to_vec2::<i64>()?, [[1, 2], [3, 4]]);
    assert_eq!(tensor![[[1], [2]]].to_vec3::<u8>()?, [[[1], [2]]]);
    Ok(())
}
