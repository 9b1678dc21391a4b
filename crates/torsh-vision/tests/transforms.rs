//! Boxes, points, samples and errors of transforms. Their values on images are golden cases of the crate
//! `torsh-conformance`.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use torsh_core::random::LocalGenerator;
use torsh_tensor::{DType, InterpolateMode, Result, Tensor, tensor};
use torsh_vision::transforms::functional as f;
use torsh_vision::transforms::functional::{Perspective, ResizeOptions};
use torsh_vision::transforms::*;

fn numbers(v: &Value) -> Vec<f64> {
    v.as_array()
        .expect("a list")
        .iter()
        .map(|v| v.as_f64().expect("a number"))
        .collect()
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| (a - b).abs() <= 1e-4 * b.abs().max(1.0))
}

/// The boxes of `boxes.json`.
fn boxes(format: BoundingBoxFormat) -> Result<BoundingBoxes> {
    use BoundingBoxFormat::{Cxcywh, Cxcywhr, Xywh, Xywhr, Xyxy, Xyxyxyxy};
    let data: Vec<f32> = match format {
        Xyxy => vec![2., 3., 14., 15., 10., 5., 29., 20.],
        Xywh => vec![2., 3., 12., 12., 10., 5., 19., 15.],
        Cxcywh => vec![8., 9., 12., 12., 19.5, 12.5, 19., 15.],
        Cxcywhr => vec![8., 9., 12., 8., 30., 20., 12., 19., 6., -50.],
        Xywhr => vec![4., 9., 12., 8., 30., 14., 16., 15., 6., -20.],
        Xyxyxyxy => vec![
            3., 8., 14., 3., 18., 11., 7., 16., 12., 4., 27., 9., 25., 15., 10., 10.,
        ],
    };
    BoundingBoxes::new(
        Tensor::from_data(&data, [2, format.numbers()])?,
        format,
        (24, 31),
    )
}

/// torchvision moved and converted the boxes.
#[test]
fn boxes_are_torchvisions() -> Result<()> {
    let all: Value = serde_json::from_str(include_str!("data/boxes.json")).expect("json");
    let mut bad = Vec::new();
    for case in all["moves"].as_array().expect("moves") {
        let name = |i: usize| case[i].as_str().expect("a name");
        let mode = match name(1) {
            word @ ("soft" | "hard") => ClampingMode::from(word),
            _ => None.into(),
        };
        let b = boxes(name(0).parse()?)?.clamping_mode(mode);
        let corners = [[0., 0.], [30., 0.], [30., 23.], [0., 23.]];
        let to = [[2., 3.], [27., 1.], [29., 20.], [4., 22.]];
        let got = match name(2) {
            "hflip" => f::horizontal_flip_bounding_boxes(&b)?,
            "vflip" => f::vertical_flip_bounding_boxes(&b)?,
            "resize" => f::resize_bounding_boxes(&b, [30, 20], None)?,
            "crop" => f::crop_bounding_boxes(&b, 4, 5, 14, 15)?,
            "pad" => f::pad_bounding_boxes(&b, [1, 2, 3, 4])?,
            "rotate" => f::rotate_bounding_boxes(&b, 25.0, false, None)?,
            "expand" => f::rotate_bounding_boxes(&b, 25.0, true, None)?,
            "affine" => f::affine_bounding_boxes(&b, 10.0, [2., -1.], 0.8, [5., 3.], None)?,
            "persp" => f::perspective_bounding_boxes(&b, Perspective::Corners(corners, to))?,
            _ => {
                let by: Vec<f32> = match b.format.numbers() {
                    8 => vec![-6.0; 8],
                    n => [-6.0, -4.0].into_iter().chain([0.0; 8]).take(n).collect(),
                };
                let data = b.data.add(&Tensor::from_data(&by, [by.len()])?)?;
                f::clamp_bounding_boxes(&BoundingBoxes { data, ..b.clone() })?
            }
        };
        let canvas = [got.canvas_size.0 as f64, got.canvas_size.1 as f64];
        let values = got.data.to_vec::<f64>()?;
        if !close(&values, &numbers(&case[3])) || canvas[..] != numbers(&case[4])[..] {
            bad.push(format!("{case} gave {values:?} in {canvas:?}"));
        }
    }
    for case in all["conversions"].as_array().expect("conversions") {
        let from = case[0].as_str().expect("a format");
        let to = case[1]
            .as_str()
            .expect("a format")
            .parse::<BoundingBoxFormat>()?;
        let b = match from.strip_suffix(" int") {
            None => boxes(from.parse()?)?,
            Some(format) => {
                let data = tensor![[3, 2, 7, 9], [-5, 1, 4, 6]];
                BoundingBoxes::new(data, format, (24, 31))?
            }
        };
        let got = f::convert_bounding_box_format(&b, to)?;
        let values = got.data.to_vec::<f64>()?;
        if got.data.dtype() != b.data.dtype() || !close(&values, &numbers(&case[2])) {
            bad.push(format!("{case} gave {values:?}"));
        }
    }
    assert!(bad.is_empty(), "{}\n{}", bad.len(), bad.join("\n"));
    Ok(())
}

#[test]
fn samples_change_together() -> Result<()> {
    let image = Image::new(torsh_tensor::arange(0.0, 12.0, 1.0).reshape([1, 3, 4])?);
    let mask = Mask::new(image.to_dtype(DType::I64)?.select(0, 0)?);
    let flip = RandomHorizontalFlip::new(1.0)?;
    // Beside a marked image, a plain tensor is left.
    let (x, (m, labels), n, name) = flip.apply(&(
        image.clone(),
        (mask, tensor![1, 2]),
        7i64,
        "cat".to_string(),
    ))?;
    assert_eq!(x.0, image.flip(-1)?);
    assert_eq!(m.0, x.to_dtype(DType::I64)?.select(0, 0)?);
    assert_eq!((labels, n, name.as_str()), (tensor![1, 2], 7, "cat"));
    // Without one, the first plain tensor is the image.
    let (x, y) = flip.apply(&(tensor![[[1.0, 2.0]]], tensor![[[3.0, 4.0]]]))?;
    assert_eq!((x, y), (tensor![[[2.0, 1.0]]], tensor![[[3.0, 4.0]]]));

    let mut map = BTreeMap::new();
    map.insert("image".to_string(), Item::from(image.clone()));
    map.insert("labels".to_string(), Item::from(tensor![5]));
    let out = Pad::new(1).apply(&map)?;
    assert_eq!(out["image"].tensor().dims(), [1, 5, 6]);
    assert_eq!(out["labels"], map["labels"]);
    let map: HashMap<String, Item> = map.into_iter().collect();
    assert_eq!(Pad::new(1).apply(&map)?["image"].tensor().dims(), [1, 5, 6]);
    assert_eq!(flip.apply(&vec![image.clone(), image.clone()])?.len(), 2);
    assert_eq!(
        flip.apply(&Some(image.clone()))?.map(|i| i.0),
        Some(image.flip(-1)?)
    );

    let video = Video::new(torsh_tensor::rand([5, 3, 6, 8]));
    let some = UniformTemporalSubsample::new(3).apply(&video)?;
    assert_eq!(some.dims(), [3, 3, 6, 8]);
    assert_eq!(some.select(0, 1)?, video.select(0, 2)?);
    let jitter = ColorJitter::new().brightness(0.5)?;
    assert_eq!(jitter.apply(&video)?.dims(), [5, 3, 6, 8]);
    Ok(())
}

#[test]
fn boxes_are_sanitized() -> Result<()> {
    let data = tensor![
        [1.0, 1.0, 5.0, 5.0],
        [3.0, 3.0, 3.5, 7.0],
        [2.0, 2.0, 9.0, 4.0]
    ];
    let boxes = BoundingBoxes::new(data, BoundingBoxFormat::Xyxy, (8, 8))?;
    let masks = Mask::new(torsh_tensor::zeros([3, 8, 8]));
    let mut sample = BTreeMap::new();
    sample.insert("boxes".to_string(), Item::from(boxes.clone()));
    sample.insert("my_labels".to_string(), Item::from(tensor![7, 8, 9]));
    sample.insert("masks".to_string(), Item::from(masks));
    let out = SanitizeBoundingBoxes::new().apply(&sample)?;
    assert_eq!(out["boxes"].tensor().dims(), [1, 4]);
    assert_eq!(out["my_labels"].tensor(), &tensor![7]);
    assert_eq!(out["masks"].tensor().dims(), [1, 8, 8]);
    let out = SanitizeBoundingBoxes::new().no_labels().apply(&boxes)?;
    assert_eq!(out.data.dims(), [1, 4]);
    assert!(SanitizeBoundingBoxes::new().apply(&boxes).is_err());
    assert!(SanitizeBoundingBoxes::new().min_size(0.5).is_err());
    let points = KeyPoints::new(tensor![[1.0, 1.0], [8.0, 1.0]], (8, 8))?;
    let out = SanitizeKeyPoints::new().apply(&points)?;
    assert_eq!(out.data, tensor![[1.0, 1.0]]);
    assert_eq!(
        ClampKeyPoints.apply(&points)?.data,
        tensor![[1.0, 1.0], [7.0, 1.0]]
    );
    Ok(())
}

#[test]
fn containers_draw_as_torchvisions() -> Result<()> {
    let named = |v: f64| Lambda::new(move |x: &Tensor| x.mul(10.0)?.add(v));
    let all = || {
        Compose::new()
            .then(named(1.0))
            .then(named(2.0))
            .then(named(3.0))
    };
    let zero = tensor![0.0];
    let drawn = |t: &dyn Transform| -> Result<Vec<f64>> {
        let _own = LocalGenerator::new(3).enter();
        (0..6).map(|_| t.apply(&zero)?.item()).collect()
    };
    let mut order = drawn(&RandomOrder::new(all())?)?;
    order.sort_by(f64::total_cmp);
    order.dedup();
    assert!(
        order.len() > 1
            && order
                .iter()
                .all(|v| [123., 132., 213., 231., 312., 321.].contains(v))
    );
    let choice = drawn(&RandomChoice::weighted(all(), &[0.0, 1.0, 0.0])?)?;
    assert_eq!(choice, [2.0; 6]);
    assert_eq!(drawn(&RandomApply::new(all(), 0.0)?)?, [0.0; 6]);
    assert_eq!(drawn(&RandomApply::new(all(), 1.0)?)?, [123.0; 6]);
    assert!(RandomChoice::weighted(all(), &[1.0]).is_err());
    assert!(RandomOrder::<Tensor>::new(Compose::new()).is_err());
    Ok(())
}

fn seeded<R>(seed: u64, f: impl FnOnce() -> R) -> R {
    LocalGenerator::new(seed).scope(f)
}

#[test]
fn choices_are_torchvisions() -> Result<()> {
    let x = tensor![[[1.0, 2.0]]];
    let flip = RandomHorizontalFlip::default();
    let flipped: Vec<bool> = seeded(0, || {
        (0..8)
            .map(|_| Ok(flip.apply(&x)? != x))
            .collect::<Result<_>>()
    })?;
    assert_eq!(flipped, [true, false, true, true, true, false, true, false]);
    let x = torsh_tensor::arange(0, 12, 1).reshape([1, 4, 3])?;
    let at: Vec<i64> = seeded(0, || {
        let crop = RandomCrop::new(2);
        (0..4)
            .map(|_| crop.apply(&x)?.i((0, 0, 0))?.item())
            .collect::<Result<_>>()
    })?;
    assert_eq!(at, [7, 6, 4, 4]);
    Ok(())
}

#[test]
fn gradients_flow_through() -> Result<()> {
    let x = torsh_tensor::rand([3, 8, 9]).requires_grad_(true);
    let steps: Vec<Box<dyn Transform>> = vec![
        Box::new(Resize::new([6, 7])?),
        Box::new(RandomRotation::new((30.0, 30.0))?.interpolation(InterpolateMode::Bilinear)),
        Box::new(ColorJitter::new().hue((0.1, 0.1))?.contrast((0.7, 0.7))?),
        Box::new(GaussianBlur::new(3)?),
        Box::new(Normalize::new([0.5], [0.5])?),
    ];
    for t in steps {
        x.zero_grad();
        t.apply(&x)?.sum()?.backward()?;
        let grad = x.grad().expect("a gradient");
        assert!(grad.is_finite()? && grad.abs()?.sum()?.item::<f64>()? > 0.0);
    }
    Ok(())
}

#[test]
fn errors_say_what_is_wrong() -> Result<()> {
    let image = torsh_tensor::zeros([3, 8, 9]);
    let text = |r: Result<Tensor>| r.expect_err("bad").to_string();
    let has = |r: Result<Tensor>, part: &str| {
        let e = text(r);
        assert!(e.contains(part), "{e}");
    };
    has(
        RandomCrop::new(20).apply(&image),
        "RandomCrop: the crop size (20, 20)",
    );
    has(
        Resize::new(4)?.apply(&tensor![1.0, 2.0]),
        "expected an image [.., channels, height, width]",
    );
    has(
        f::resize_with(&image, 4, ResizeOptions::new().max_size(4)),
        "max_size = 4",
    );
    let area = ResizeOptions::new().interpolation(InterpolateMode::Area);
    has(f::resize_with(&image, 4, area), "not area");
    has(
        f::adjust_hue(&image, 0.7),
        "hue_factor must be from -0.5 to 0.5",
    );
    has(f::adjust_brightness(&image, -1.0), "must not be negative");
    has(
        f::adjust_contrast(&torsh_tensor::zeros([2, 4, 4]), 1.0),
        "expected 1 or 3 channels",
    );
    has(f::gaussian_blur(&image, 4, 1.0), "must be odd");
    has(f::gaussian_blur(&image, 19, 1.0), "needs more pixels");
    has(
        f::normalize(&image.to_dtype(DType::U8)?, &[0.0], &[1.0]),
        "expected a float tensor",
    );
    has(
        f::normalize(&image, &[0.0; 2], &[1.0; 2]),
        "2 means for the 3 channels",
    );
    has(
        f::five_crop(&image, 10).map(|_| image.clone()),
        "a crop of 10 x 10 is larger",
    );
    let flat = [[0.0, 0.0]; 4];
    has(f::perspective(&image, flat, flat), "do not span an area");
    has(
        f::elastic(&image, &image),
        "displacement must be [1, 8, 9, 2]",
    );
    let reflect = f::PadOptions::new().padding_mode(PaddingMode::Reflect);
    has(f::pad_with(&image, 20, reflect), "wider than");
    has(f::jpeg(&image, 50), "expected uint8");
    has(MixUp::new(1.0)?.apply(&image), "no labels");
    has(
        RandomIoUCrop::new().apply(&image),
        "needs an image and bounding boxes",
    );
    assert!(RandomHorizontalFlip::new(1.5).is_err());
    assert!(ColorJitter::new().hue(0.6).is_err());
    assert!(RandomRotation::new(-5.0).is_err());
    assert!(GaussianBlur::new(4).is_err());
    assert!(RandomResize::new(5, 5).is_err());
    assert!(RandomIoUCrop::new().sampler_options([0.5]).is_err());
    let boxes = tensor![[1.0, 2.0, 3.0]];
    assert!(BoundingBoxes::new(boxes, BoundingBoxFormat::Xyxy, (8, 8)).is_err());
    // Sizes of nothing.
    let empty = torsh_tensor::zeros([0, 3, 8, 9]).to_dtype(DType::U8)?;
    for t in [
        Box::new(Resize::new(4)?) as Box<dyn Transform>,
        Box::new(RandomRotation::new(30.0)?),
        Box::new(ColorJitter::new().hue(0.1)?.contrast(0.1)?),
        Box::new(GaussianBlur::new(3)?),
        Box::new(RandomEqualize::new(1.0)?),
        Box::new(JPEG::new(50, 60)?),
    ] {
        assert_eq!(t.apply(&empty)?.dims()[0], 0);
    }
    Ok(())
}

#[test]
fn jpeg_loses_little() -> Result<()> {
    let x = torsh_tensor::linspace(0.0, 255.0, 16)
        .expand([2, 3, 16, 16])?
        .to_dtype(DType::U8)?;
    let out = JPEG::new(90, 95)?.apply(&x)?;
    assert_eq!((out.dims(), out.dtype()), (x.dims(), DType::U8));
    let apart = out
        .to_dtype(DType::I64)?
        .sub(&x.to_dtype(DType::I64)?)?
        .abs()?
        .max()?;
    assert!(apart.item::<i64>()? < 16, "{apart}");
    Ok(())
}

/// torchvision's words for formats and clamping modes.
#[test]
fn words_stand_for_formats_and_modes() -> Result<()> {
    let data = tensor![[-2.0, 3.0, 40.0, 15.0]];
    let boxes = BoundingBoxes::new(data.clone(), "XYXY", (24, 31))?;
    let inside = tensor![[0.0, 3.0, 31.0, 15.0]];
    assert_eq!(
        f::clamp_bounding_boxes(&boxes.clone().clamping_mode("hard"))?.data,
        inside
    );
    assert_eq!(
        f::clamp_bounding_boxes(&boxes.clone().clamping_mode(None))?.data,
        data
    );
    let off = boxes.clone().clamping_mode(ClampingMode::Off);
    assert_eq!(
        ClampBoundingBoxes::new()
            .clamping_mode("soft")
            .apply(&off)?
            .data,
        inside
    );
    assert_eq!(
        ClampBoundingBoxes::new()
            .clamping_mode("auto")
            .apply(&off)?
            .data,
        data
    );
    assert_eq!(
        ClampBoundingBoxes::new()
            .clamping_mode(None)
            .apply(&boxes)?
            .data,
        data
    );
    let hard = SetClampingMode::new("hard").apply(&boxes)?;
    assert_eq!(hard.clamping_mode, ClampingMode::Hard);
    let refused = |e: torsh_tensor::TorshError| {
        let e = e.to_string();
        assert!(
            e.contains("medium is not a valid value for clamping_mode"),
            "{e}"
        );
        assert!(e.contains("clamping_mode is \"soft\" or \"hard\""), "{e}");
    };
    refused(SetClampingMode::new("medium").apply(&boxes).unwrap_err());
    refused(f::clamp_bounding_boxes(&boxes.clone().clamping_mode("medium")).unwrap_err());
    refused(
        ClampBoundingBoxes::new()
            .clamping_mode("medium")
            .apply(&boxes)
            .unwrap_err(),
    );

    let sizes = ConvertBoundingBoxFormat::new("xywh")?.apply(&boxes)?;
    assert_eq!(sizes.data, tensor![[-2.0, 3.0, 42.0, 12.0]]);
    assert_eq!(f::convert_bounding_box_format(&sizes, "XYXY")?.data, data);
    for e in [
        BoundingBoxes::new(data.clone(), "yxyx", (24, 31)).unwrap_err(),
        ConvertBoundingBoxFormat::new("yxyx").unwrap_err(),
        f::convert_bounding_box_format(&boxes, "yxyx").unwrap_err(),
    ] {
        let e = e.to_string();
        assert!(
            e.contains("yxyx is no format of boxes") && e.contains("cxcywhr"),
            "{e}"
        );
    }
    Ok(())
}
