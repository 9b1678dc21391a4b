//! Workloads of vision: boxes, regions and deformable convolutions. `benches/torchvision_ops.py` times the same in torchvision.

use torsh_tensor::{Result, Tensor};
use torsh_vision::ops::{
    DeformConv2dOptions, RoiAlignOptions, batched_nms, deform_conv2d_with, nms, roi_align_with,
};

use crate::inputs::{rand, randn};
use crate::science::{Input, Row, add, gradient, one};

use Input::Made;

/// Boxes in an image of 1,000 by 1,000 pixels, with sides of up to 100.
fn boxes(n: usize) -> Result<Tensor> {
    let corner = rand(&[n, 2])?.mul(900.0)?;
    let side = rand(&[n, 2])?.mul(95.0)?.add(5.0)?;
    Tensor::cat(&[corner.clone(), corner.add(&side)?], 1)
}

/// Boxes of 512 regions of one image.
fn regions(small: bool) -> Result<Tensor> {
    let n = if small { 4 } else { 512 };
    let image = Tensor::zeros([n, 1], torsh_tensor::DType::F32, torsh_tensor::Device::Cpu)?;
    Tensor::cat(&[image, boxes(n)?], 1)
}

/// A feature map of an eighth of the image's sides.
fn features(small: bool) -> Result<Tensor> {
    randn(&[1, if small { 2 } else { 256 }, 125, 125])
}

fn pooled(x: &[Tensor]) -> Result<Tensor> {
    let options = RoiAlignOptions::new()
        .spatial_scale(0.125)
        .sampling_ratio(2);
    roi_align_with(&x[0], &x[1], 7, options)
}

fn images(small: bool) -> Result<Tensor> {
    randn(&if small { [1, 2, 5, 6] } else { [2, 64, 56, 56] })
}

fn weight(small: bool) -> Result<Tensor> {
    let n = if small { 2 } else { 64 };
    randn(&[n, n, 3, 3])?.mul(0.1)
}

fn offsets(small: bool) -> Result<Tensor> {
    randn(&if small {
        [1, 18, 5, 6]
    } else {
        [2, 18, 56, 56]
    })
}

fn mask(small: bool) -> Result<Tensor> {
    rand(&if small { [1, 9, 5, 6] } else { [2, 9, 56, 56] })
}

fn leaf(t: Result<Tensor>) -> Result<Tensor> {
    Ok(t?.requires_grad_(true))
}

fn deformed(x: &[Tensor]) -> Result<Tensor> {
    let options = DeformConv2dOptions::new().padding(1).mask(&x[3]);
    deform_conv2d_with(&x[0], &x[2], &x[1], options)
}

/// The rows.
pub(crate) fn rows(all: &mut Vec<Row>) {
    let many = |small: bool| boxes(if small { 10 } else { 10_000 });
    let scores = |small: bool| rand(&[if small { 10 } else { 10_000 }]);
    let classes = |small: bool| rand(&[if small { 10 } else { 10_000 }])?.mul(80.0)?.floor();
    let two = [Made(many, false), Made(scores, false)];
    add(all, "nms_10000", two.clone(), 0, |x| {
        one(nms(&x[0], &x[1], 0.5))
    });
    let three = [two[0].clone(), two[1].clone(), Made(classes, false)];
    add(all, "batched_nms_10000x80", three, 0, |x| {
        one(batched_nms(&x[0], &x[1], &x[2], 0.5))
    });
    let of = [Made(features, false), Made(regions, false)];
    add(all, "roi_align_512x256x7x7", of, 0, |x| one(pooled(x)));
    let of = [
        Made(|small| leaf(features(small)), false),
        Made(regions, false),
    ];
    add(all, "roi_align_grad_512x256x7x7", of, 0, |x| {
        gradient(pooled(x)?.sum()?, &x[..1])
    });
    let of = [
        Made(images, false),
        Made(weight, false),
        Made(offsets, false),
        Made(mask, false),
    ];
    add(all, "deform_conv2d_2x64x56x56", of, 0, |x| one(deformed(x)));
    let of = [
        Made(|small| leaf(images(small)), false),
        Made(|small| leaf(weight(small)), false),
        Made(|small| leaf(offsets(small)), false),
        Made(|small| leaf(mask(small)), false),
    ];
    add(all, "deform_conv2d_grad_2x64x56x56", of, 0, |x| {
        gradient(deformed(x)?.sum()?, x)
    });
}
