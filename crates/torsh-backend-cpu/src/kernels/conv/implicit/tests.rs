use super::*;

/// Sums of images in groups, products that all threads share, and groups of the convolution.
#[torsh_macros::unit_test]
fn bits_of_weights_do_not_depend_on_the_number_of_threads() {
    let before = pool::num_threads();
    for ([images, groups, in_channels, out_channels], side) in [
        ([9, 1, 16, 32], 14),
        ([6, 1, 24, 70], 20),
        ([5, 3, 20, 24], 15),
    ] {
        let size = [1, side, side];
        let g = Geometry {
            images,
            groups,
            in_channels,
            out_channels,
            input: size,
            output: size,
            kernel: [1, 3, 3],
            stride: [1; 3],
            padding: [0, 1, 1],
            dilation: [1; 3],
        };
        let numbers = |n: usize| {
            let number = |i: usize| (i * 37 % 101) as f32 * 0.013 - 0.6;
            (0..n).map(number).collect::<Vec<f32>>()
        };
        let mut x = numbers(images * groups * in_channels * g.in_pixels());
        let mut dy = numbers(images * groups * out_channels * g.out_pixels());
        let mut bits = |threads| {
            pool::set_num_threads(threads).unwrap();
            let mut dw = vec![0.0f32; groups * out_channels * g.window()];
            let ptr = |v: &mut Vec<f32>| Ptr::new(v.as_mut_ptr());
            weight_grad(&g, ptr(&mut dy), ptr(&mut x), ptr(&mut dw)).unwrap();
            dw.into_iter().map(f32::to_bits).collect::<Vec<_>>()
        };
        let one = bits(1);
        assert_eq!(one, bits(2));
        assert_eq!(one, bits(3));
    }
    pool::set_num_threads(before).unwrap();
}
