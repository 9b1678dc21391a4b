use super::*;
use crate::matmul::tests::Host;
use torsh_core::{Attr, Element};

fn call<T: Element>(input: &Host<T>, out: [usize; 2], attrs: [[i64; 2]; 4]) -> (Vec<T>, Vec<i64>) {
    let shape = [input.shape[0], input.shape[1], out[0], out[1]];
    let values = Host::<T>::new(&shape, |_| T::default());
    let indices = Host::<i64>::new(&shape, |_| -1);
    let attrs: Vec<Attr<'_>> = attrs.iter().map(|a| Attr::Ints(a)).collect();
    let args = KernelArgs {
        kernel: Kernel::MaxPool,
        compute: T::DTYPE,
        outputs: &[values.view(), indices.view()],
        inputs: &[input.view()],
        attrs: &attrs,
    };
    max_pool(&args).expect("a pooling");
    (values.data, indices.data)
}

#[test]
fn windows_follow_stride_padding_and_dilation() {
    let input = Host::<i32>::new(&[1, 1, 4, 5], |i| (i as i32 * 7) % 20);
    // 0 7 14 1 8 / 15 2 9 16 3 / 10 17 4 11 18 / 5 12 19 6 13
    let (v, i) = call(&input, [2, 2], [[2, 2], [2, 2], [0, 0], [1, 1]]);
    assert_eq!((v, i), (vec![15, 16, 17, 19], vec![5, 8, 11, 17]));
    let (v, i) = call(&input, [2, 3], [[3, 2], [2, 2], [1, 1], [1, 2]]);
    // Columns of the windows: {-1, 1}, {1, 3}, {3, 5}.
    assert_eq!(
        (v, i),
        (vec![7, 16, 16, 17, 17, 16], vec![1, 8, 8, 11, 11, 8])
    );
}

#[test]
fn the_last_nan_wins_and_infinities_keep_the_first_place() {
    let (nan, inf) = (f32::NAN, f32::NEG_INFINITY);
    let data = [nan, 1.0, inf, inf, 2.0, nan, inf, inf];
    let input = Host::<f32>::new(&[1, 1, 2, 4], |i| data[i]);
    for stride in [[2, 2], [1, 2]] {
        let (v, i) = call(&input, [1, 2], [[2, 2], stride, [0, 0], [1, 1]]);
        assert!(v[0].is_nan() && v[1] == inf);
        assert_eq!(i, [5, 2]);
    }
}

#[test]
fn the_gradient_goes_to_the_maxima() {
    let grad = Host::<f64>::new(&[2, 1, 1, 3], |i| i as f64 + 1.0);
    let indices = Host::<i64>::new(&[2, 1, 1, 3], |i| [3, 0, 3, 1, 1, 1][i]);
    let out = Host::<f64>::new(&[2, 1, 2, 2], |_| 9.0);
    let (outputs, inputs) = ([out.view()], [grad.view(), indices.view()]);
    let mut args = KernelArgs {
        kernel: Kernel::MaxPoolBackward,
        compute: DType::F64,
        outputs: &outputs,
        inputs: &inputs,
        attrs: &[Attr::Ints(&[2, 2])],
    };
    max_pool_backward(&args).expect("a gradient");
    assert_eq!(out.data, [2.0, 0.0, 0.0, 4.0, 0.0, 15.0, 0.0, 0.0]);
    let far = Host::<i64>::new(&[2, 1, 1, 3], |_| 4);
    let inputs = [grad.view(), far.view()];
    args.inputs = &inputs;
    assert!(max_pool_backward(&args).is_err());
}
