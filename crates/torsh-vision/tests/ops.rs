//! Operators: derivatives, names, the meta device and errors; their values are compared with torchvision's by the
//! conformance runner.

use torsh_autograd::{gradcheck, gradgradcheck};
use torsh_nn::{Module, ModuleExt};
use torsh_tensor::ops::{families, feature_of};
use torsh_tensor::record::{Backward, OpRecord, Samples};
use torsh_tensor::sample::Sampler;
use torsh_tensor::{DType, Device, Result, Signature, Tensor, Value, ones, tensor, zeros};
use torsh_vision::ops::*;

fn records() -> Vec<&'static OpRecord> {
    let family = families().iter().find(|f| f.feature == "vision");
    family.expect("registered").records.to_vec()
}

#[test]
fn every_name_is_known_as_the_features() {
    let mut names: Vec<&str> = records()
        .iter()
        .filter(|r| !r.is_internal())
        .map(|r| r.base_name())
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 23);
    for name in names {
        assert_eq!(feature_of(name), Some("vision"), "{name}");
        assert!(torsh_tensor::ops::find(name).is_some(), "{name}");
    }
}

#[test]
fn every_schema_is_read() {
    for record in records() {
        let read = Signature::parse(record.schema);
        assert!(read.is_ok(), "{}: {:?}", record.name, read.err());
    }
}

type Arguments = (Vec<Value>, Vec<(&'static str, Value)>);

/// The sample calls of a record.
fn calls(record: &OpRecord) -> Result<Vec<Arguments>> {
    let Samples::Calls(samples) = record.samples else {
        return Ok(Vec::new());
    };
    let all = samples(&mut Sampler::new(7, DType::F64))?;
    Ok(all.into_iter().map(|s| (s.args, s.kwargs)).collect())
}

#[test]
fn derivatives_are_those_of_finite_differences() -> Result<()> {
    let mut tried = 0;
    for record in records() {
        let constant = matches!(record.backward, Backward::NonDifferentiable);
        for (args, kwargs) in calls(record)? {
            // The weight of the term for shapes counts as a constant, which finite differences do not know.
            if constant || record.name.contains("complete") {
                continue;
            }
            let rois = record.name.contains("roi_");
            let targets = record.name.contains("focal");
            // Boxes of regions and targets have no gradient.
            let leaf = |i: usize, v: &Value| match v {
                Value::Tensor(t) => t.dtype() == DType::F64 && !(i == 1 && (rois || targets)),
                _ => false,
            };
            let positions: Vec<usize> = (0..args.len()).filter(|&i| leaf(i, &args[i])).collect();
            let inputs: Vec<Tensor> = positions
                .iter()
                .filter_map(|&i| match &args[i] {
                    Value::Tensor(t) => Some(t.detach().requires_grad_(true)),
                    _ => None,
                })
                .collect();
            let f = |x: &[Tensor]| {
                let mut args = args.clone();
                for (t, &i) in x.iter().zip(&positions) {
                    args[i] = Value::Tensor(t.clone());
                }
                torsh_tensor::ops::call(record.base_name(), &args, &kwargs).map(|v| v.tensors())
            };
            gradcheck(&f, &inputs).map_err(|e| e.renamed(record.name))?;
            // Deformable convolutions have no second derivative, as in torchvision.
            if !record.name.contains("deform") {
                gradgradcheck(&f, &inputs).map_err(|e| e.renamed(record.name))?;
            }
            tried += 1;
        }
    }
    assert!(tried > 25, "{tried}");
    Ok(())
}

#[test]
fn the_meta_device_gives_the_shapes_of_the_cpu() -> Result<()> {
    let mut tried = 0;
    for record in records() {
        for (args, kwargs) in calls(record)? {
            let there = |v: &Value| match v {
                Value::Tensor(t) => t.to_device(Device::Meta).map(Value::Tensor),
                v => Ok(v.clone()),
            };
            let meta = args.iter().map(there).collect::<Result<Vec<_>>>()?;
            let kw = kwargs.iter().map(|(n, v)| Ok((*n, there(v)?)));
            let kw = kw.collect::<Result<Vec<_>>>()?;
            let cpu = torsh_tensor::ops::call(record.base_name(), &args, &kwargs)?.tensors();
            let meta = torsh_tensor::ops::call(record.base_name(), &meta, &kw)?.tensors();
            for (a, b) in cpu.iter().zip(&meta) {
                assert_eq!(
                    (a.shape(), a.dtype()),
                    (b.shape(), b.dtype()),
                    "{}",
                    record.name
                );
                assert_eq!(b.device(), Device::Meta, "{}", record.name);
            }
            tried += 1;
        }
    }
    assert!(tried > 25, "{tried}");
    let e = nms(
        &zeros(&[2, 4]).to_device(Device::Meta)?,
        &zeros(&[2]).to_device(Device::Meta)?,
        0.5,
    );
    let e = e.expect_err("no elements").to_string();
    assert!(
        e.contains("torchvision::nms: the shape of the result depends on the elements"),
        "{e}"
    );
    Ok(())
}

/// Operands that no op is for; only `Ok` and `Err` may come of them.
#[test]
fn bad_operands_are_errors() {
    let odd: Vec<Value> = [
        Tensor::zeros(&[] as &[usize], DType::F32, Device::Cpu),
        Tensor::zeros([3], DType::F64, Device::Cpu),
        Tensor::zeros([2, 4], DType::I64, Device::Cpu),
        Tensor::full([3, 4], f64::NAN, DType::F32, Device::Cpu),
        Tensor::full([2, 5], f64::INFINITY, DType::F32, Device::Cpu),
        Tensor::zeros([0, 4], DType::F16, Device::Cpu),
        Tensor::zeros([0, 2, 3, 3], DType::F32, Device::Cpu),
        Tensor::zeros([2, 0, 3, 3], DType::F32, Device::Cpu),
        Tensor::ones([1, 4, 3, 3], DType::F32, Device::Cpu),
        Tensor::zeros([1, 4], DType::C64, Device::Cpu),
    ]
    .into_iter()
    .map(|t| t.expect("a tensor").into())
    .chain([
        Value::Int(i64::MIN),
        Value::Int(3),
        Value::Float(f64::NAN),
        Value::None,
        Value::Tuple(vec![Value::Int(2), Value::Int(-1)]),
        "xyxy".into(),
    ])
    .collect();
    let mut calls = 0;
    for record in records().iter().filter(|r| !r.is_internal()) {
        let name = record.base_name();
        for a in &odd {
            let _ = torsh_tensor::ops::call(name, std::slice::from_ref(a), &[]);
            for b in &odd {
                for c in &odd {
                    let _ = torsh_tensor::ops::call(name, &[a.clone(), b.clone(), c.clone()], &[]);
                    calls += 1;
                }
                let _ = torsh_tensor::ops::call(name, &[a.clone(), b.clone()], &[]);
            }
        }
    }
    assert!(calls > 80_000, "{calls}");
}

#[test]
fn errors_name_the_op_and_the_remedy() -> Result<()> {
    let x = ones(&[1, 1, 4, 4]);
    let text = |r: Result<Tensor>| r.expect_err("refused").to_string();
    let e = text(roi_align(&x, &tensor![[3.0, 0.0, 0.0, 1.0, 1.0]], 2));
    assert!(
        e.starts_with("torchvision::roi_align: box 0 is of image 3, and there are 1"),
        "{e}"
    );
    let e = text(roi_align(&x, &tensor![[0.0, f32::NAN, 0.0, 1.0, 1.0]], 2));
    assert!(e.contains("box 0 has the coordinate NaN"), "{e}");
    let e = text(roi_align(&x, &tensor![[0.0, 0.0, 0.0, 1e9, 1.0]], 2));
    assert!(e.contains("samples along a side"), "{e}");
    let e = text(roi_align(&x, &tensor![[0.0, 1.0, 1.0]], 2));
    assert!(e.contains("boxes must be [k, 5], got [1, 3]"), "{e}");
    let e = text(roi_align(&x.to_dtype(DType::F64)?, &zeros(&[1, 5]), 2));
    assert!(e.contains("one dtype, got float64 and float32"), "{e}");
    let e = text(ps_roi_pool(&ones(&[1, 3, 4, 4]), &zeros(&[1, 5]), 2));
    assert!(e.contains("must be a multiple of the 4 bins, got 3"), "{e}");
    let e = text(deform_conv2d(
        &x,
        &zeros(&[1, 3, 4, 4]),
        &ones(&[1, 1, 1, 1]),
    ));
    assert!(e.contains("multiple of 2 * kh * kw = 2"), "{e}");
    let e = text(box_convert(&zeros(&[1, 4]), "xyxy", "xyz"));
    assert!(e.contains("xyz is no format of boxes"), "{e}");
    let e = text(box_convert(&zeros(&[1, 4]), "xyxy", "cxcywhr"));
    assert!(
        e.contains("boxes of the format xyxy have no cxcywhr form"),
        "{e}"
    );
    let e = text(nms(&zeros(&[2, 4]), &zeros(&[3]), 0.5));
    assert!(
        e.contains("scores must be [2], one for each box, got [3]"),
        "{e}"
    );
    let e = text(drop_block2d(&x, 0.5, 2));
    assert!(e.contains("block size should be odd"), "{e}");
    let pool = RoIAlign::new(2, 0.5, 2).aligned(true);
    assert_eq!(
        pool.repr(),
        "RoIAlign(output_size=(2, 2), spatial_scale=0.5, sampling_ratio=2, aligned=True)"
    );
    let e = text(Module::forward(&pool, &x));
    assert!(e.contains("forward_with(&input, &boxes)"), "{e}");
    Ok(())
}

/// Non-maximum suppression of one box after the other.
fn plain_nms(boxes: &[[f32; 4]], scores: &[f32], classes: &[i64], threshold: f32) -> Vec<i64> {
    let mut order: Vec<usize> = (0..boxes.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    let mut kept: Vec<usize> = Vec::new();
    let area = |b: &[f32; 4]| (b[2] - b[0]) * (b[3] - b[1]);
    for i in order {
        let b = &boxes[i];
        let dropped = kept.iter().any(|&k| {
            let a = &boxes[k];
            let w = (a[2].min(b[2]) - a[0].max(b[0])).max(0.0);
            let h = (a[3].min(b[3]) - a[1].max(b[1])).max(0.0);
            classes[k] == classes[i] && w * h / (area(a) + area(b) - w * h) > threshold
        });
        if !dropped {
            kept.push(i);
        }
    }
    kept.into_iter().map(|i| i as i64).collect()
}

#[test]
fn many_boxes_are_suppressed_as_one_by_one() -> Result<()> {
    for (n, spread) in [(3000, 400.0), (3000, 40.0), (1100, 4000.0), (90, 30.0)] {
        let mut s = Sampler::new(n as u64, DType::F32);
        let corner = s.uniform(&[n, 2], 0.0, spread)?;
        let size = s.uniform(&[n, 2], 5.0, 30.0)?;
        let boxes = Tensor::cat(&[corner.clone(), corner.add(&size)?], 1)?;
        // Many scores are equal.
        let scores = s.ints(&[n], 0, 200)?.to_dtype(DType::F32)?;
        let classes = s.ints(&[n], 0, 5)?;
        let rows = boxes.to_vec::<f32>()?;
        let rows: Vec<[f32; 4]> = rows.chunks(4).map(|b| [b[0], b[1], b[2], b[3]]).collect();
        let scored = scores.to_vec::<f32>()?;
        let want = plain_nms(&rows, &scored, &vec![0; n], 0.4);
        assert_eq!(
            nms(&boxes, &scores, 0.4)?.to_vec::<i64>()?,
            want,
            "{n} {spread}"
        );
        if n > 1000 {
            let want = plain_nms(&rows, &scored, &classes.to_vec::<i64>()?, 0.4);
            let got = batched_nms(&boxes, &scores, &classes, 0.4)?.to_vec::<i64>()?;
            assert_eq!(got, want, "{n} {spread}");
        }
    }
    Ok(())
}

#[test]
fn deformable_convolutions_of_several_blocks_are_convolutions() -> Result<()> {
    let mut s = Sampler::new(3, DType::F64);
    let (x, w) = (s.real(&[2, 12, 23, 19])?, s.real(&[6, 4, 3, 3])?);
    let (x, w) = (x.requires_grad_(true), w.requires_grad_(true));
    let offset = Tensor::zeros([2, 2 * 2 * 9, 23, 19], DType::F64, Device::Cpu)?;
    let y = deform_conv2d_with(&x, &offset, &w, DeformConv2dOptions::new().padding(1))?;
    let plain = torsh_functional::conv2d_with(
        &x,
        &w,
        None,
        torsh_functional::ConvOptions {
            padding: 1.into(),
            groups: 3,
            ..Default::default()
        },
    )?;
    assert!(y.allclose(&plain)?);
    let g = s.real(y.dims())?;
    let of = |y: &Tensor| {
        let (x, w) = (x.clone(), w.clone());
        torsh_tensor::grad(
            &[y.clone()],
            &[x, w],
            &[Some(g.clone())],
            false,
            false,
            false,
        )
    };
    for (a, b) in of(&y)?.iter().zip(&of(&plain)?) {
        let (a, b) = (a.as_ref().expect("used"), b.as_ref().expect("used"));
        assert!(a.allclose(b)?);
    }
    Ok(())
}

#[test]
fn half_types_compute_in_float32() -> Result<()> {
    let x = Sampler::new(1, DType::F32).real(&[1, 2, 6, 6])?;
    let boxes = tensor![[0.0, 0.0, 0.0, 4.0, 3.0]];
    for dtype in [DType::F16, DType::BF16] {
        let half = roi_align(&x.to_dtype(dtype)?, &boxes.to_dtype(dtype)?, 2)?;
        assert_eq!(half.dtype(), dtype);
        let full = roi_align(&x.to_dtype(dtype)?.to_dtype(DType::F32)?, &boxes, 2)?;
        assert_eq!(half, full.to_dtype(dtype)?);
    }
    Ok(())
}

#[test]
fn layers_have_their_parameters() -> Result<()> {
    let _own = torsh_core::random::LocalGenerator::new(0).enter();
    let layer = DeformConv2d::builder(4, 6, 3)
        .padding(1)
        .groups(2)
        .build()?;
    torsh_core::random::manual_seed(0);
    let conv = torsh_nn::Conv2d::builder(4, 6, 3)
        .padding(1)
        .groups(2)
        .build()?;
    assert_eq!(*layer.weight, *conv.weight);
    assert_eq!(layer.state_dict().len(), 2);
    let x = ones(&[1, 4, 5, 5]);
    let y = layer.forward_with(&x, &zeros(&[1, 18, 5, 5]), None)?;
    assert!(y.allclose(&conv.forward(&x)?)?);
    assert_eq!(
        layer.repr(),
        "DeformConv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), groups=2)"
    );
    Ok(())
}
