//! Layers and their functions, without training.

use torsh_nn::functional::{self as F, Conv2dOptions, MaxPool2dOptions};
use torsh_nn::{BatchNorm2d, Linear, Module, ModuleExt, Padding};
use torsh_tensor::{Result, Tensor, grad};

use crate::harness::Suite;
use crate::inputs::{randint, randn};

/// Elements of a 1024 x 1024 tensor.
const M: usize = 1024 * 1024;

/// Registers the workloads of layers.
pub fn register(s: &mut Suite<'_>) {
    s.bench(
        "linear_bias_gelu_256x768x3072",
        || {
            let (x, l) = (randn(&[256, 768])?, Linear::new(768, 3072));
            l.requires_grad_(false);
            Ok(move || F::gelu(l.forward(&x)?))
        },
        2 * 256 * 768 * 3072,
        0,
    );
    s.bench(
        "softmax_4096x1024",
        || {
            let x = randn(&[4096, 1024])?;
            Ok(move || F::softmax(&x, -1))
        },
        0,
        32 * M,
    );
    s.bench(
        "cross_entropy_4096x1024",
        || {
            let (x, t) = (randn(&[4096, 1024])?, randint(1024, &[4096])?);
            Ok(move || F::cross_entropy(&x, &t))
        },
        0,
        16 * M,
    );
    convolutions(s);
    s.bench(
        "maxpool2d_8x64x112",
        || {
            let x = randn(&[8, 64, 112, 112])?;
            let options = MaxPool2dOptions {
                stride: Some([2, 2]),
                padding: [1, 1],
                ..Default::default()
            };
            Ok(move || F::max_pool2d_with(&x, 3, options))
        },
        0,
        0,
    );
    s.bench(
        "batchnorm2d_train_8x64x56",
        || {
            let (b, x) = (BatchNorm2d::new(64)?, randn(&[8, 64, 56, 56])?);
            Ok(move || b.forward(&x))
        },
        0,
        0,
    );
}

/// The sizes of a convolution of `[n, c, h, w]`.
struct Conv {
    input: [usize; 4],
    out: usize,
    kernel: usize,
    stride: usize,
    padding: usize,
    groups: usize,
}

impl Conv {
    fn flops(&self) -> usize {
        let [n, c, h, w] = self.input;
        let size = |x| (x + 2 * self.padding - self.kernel) / self.stride + 1;
        2 * n * self.out * size(h) * size(w) * (c / self.groups) * self.kernel * self.kernel
    }

    fn tensors(&self) -> Result<(Tensor, Tensor)> {
        let (c, k) = (self.input[1] / self.groups, self.kernel);
        Ok((randn(&self.input)?, randn(&[self.out, c, k, k])?))
    }

    fn options(&self) -> Conv2dOptions {
        Conv2dOptions {
            stride: [self.stride as i64; 2],
            padding: Padding::from(self.padding),
            groups: self.groups as i64,
            ..Default::default()
        }
    }
}

/// A convolution of an input with: channels out, kernel, stride, padding, groups.
fn conv(input: [usize; 4], [out, kernel, stride, padding, groups]: [usize; 5]) -> Conv {
    Conv {
        input,
        out,
        kernel,
        stride,
        padding,
        groups,
    }
}

fn convolutions(s: &mut Suite<'_>) {
    let all = [
        ("7x7_stem_224_n8", [8, 3, 224, 224], [64, 7, 2, 3, 1]),
        ("3x3_64_56_n8", [8, 64, 56, 56], [64, 3, 1, 1, 1]),
        ("3x3_128_28_n8", [8, 128, 28, 28], [128, 3, 1, 1, 1]),
        ("3x3_512_7_n8", [8, 512, 7, 7], [512, 3, 1, 1, 1]),
        ("1x1_256_28_n8", [8, 256, 28, 28], [512, 1, 1, 0, 1]),
        ("dw3x3_128_56_n8", [8, 128, 56, 56], [128, 3, 1, 1, 128]),
        ("3x3_1_28_n64", [64, 1, 28, 28], [16, 3, 1, 1, 1]),
        ("3x3_64_56_n1", [1, 64, 56, 56], [64, 3, 1, 1, 1]),
    ];
    for (name, input, sizes) in all {
        let c = conv(input, sizes);
        s.bench(
            &format!("conv2d_{name}"),
            || {
                let ((x, w), options) = (c.tensors()?, c.options());
                Ok(move || F::conv2d_with(&x, &w, None, options))
            },
            c.flops(),
            0,
        );
    }
    let c = conv([8, 64, 56, 56], [64, 3, 1, 1, 1]);
    s.bench(
        "conv2d_fwd_bwd_3x3_64_56_n8",
        || {
            let (x, w) = c.tensors()?;
            let inputs = [x.requires_grad_(true), w.requires_grad_(true)];
            let (g, options) = ([Some(randn(&[8, 64, 56, 56])?)], c.options());
            Ok(move || {
                let y = F::conv2d_with(&inputs[0], &inputs[1], None, options)?;
                grad(&[y], &inputs, &g, false, false, false)
            })
        },
        3 * c.flops(),
        0,
    );
}
