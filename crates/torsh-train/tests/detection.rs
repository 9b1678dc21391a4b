//! Metrics of detections against pycocotools and VOC's own program, and of images against torchmetrics.

use serde_json::Value as Json;
use torsh_tensor::{DType, Device, Result, Tensor, tensor};
use torsh_train::metrics::{
    CocoEvaluation, CocoKind, CocoSummary, FoundObjects, Metric, PeakSignalNoiseRatio,
    StructuralSimilarity, TrueObjects, VocInterpolation, VocMeanAveragePrecision,
};

fn data(text: &str) -> Json {
    serde_json::from_str(text).expect("the file is JSON")
}

fn list(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn numbers(json: &Json) -> Vec<f64> {
    list(json)
        .iter()
        .map(|v| v.as_f64().expect("a number"))
        .collect()
}

/// A float64 tensor of rows of `width` numbers.
fn table(rows: &[Vec<f64>], width: &[usize]) -> Result<Tensor> {
    let mut shape = vec![rows.len()];
    shape.extend(width);
    Tensor::from_slice(&rows.concat(), shape, DType::F64, Device::Cpu)
}

fn column(values: &[f64], dtype: DType) -> Result<Tensor> {
    Tensor::from_slice(values, [values.len()], dtype, Device::Cpu)
}

/// The images of the file of boxes.
fn boxes(sizes: bool) -> Result<(Vec<FoundObjects>, Vec<TrueObjects>, Json)> {
    let file = data(include_str!("data/coco_boxes.json"));
    let truth = &file["truth"];
    let rect = |o: &Json| {
        let b = numbers(&o["bbox"]);
        match sizes {
            true => b,
            false => vec![b[0], b[1], b[0] + b[2], b[1] + b[3]],
        }
    };
    let number = |o: &Json, key: &str| o[key].as_f64().expect("a number");
    let (mut found, mut there) = (Vec::new(), Vec::new());
    for image in list(&truth["images"]) {
        let of = |all: &Json| -> Vec<Json> {
            let own = list(all).iter().filter(|o| o["image_id"] == image["id"]);
            own.cloned().collect()
        };
        let (f, t) = (of(&file["detections"]), of(&truth["annotations"]));
        let all = |objects: &[Json], key: &str| -> Vec<f64> {
            objects.iter().map(|o| number(o, key)).collect()
        };
        let rects = |objects: &[Json]| table(&objects.iter().map(rect).collect::<Vec<_>>(), &[4]);
        found.push(FoundObjects::new(
            rects(&f)?,
            column(&all(&f, "score"), DType::F64)?,
            column(&all(&f, "category_id"), DType::I64)?,
        ));
        there.push(
            TrueObjects::new(rects(&t)?, column(&all(&t, "category_id"), DType::I64)?)
                .crowd(column(&all(&t, "iscrowd"), DType::Bool)?)
                .area(column(&all(&t, "area"), DType::F64)?),
        );
    }
    Ok((found, there, file["stats"].clone()))
}

fn same(got: &CocoSummary, want: &[f64]) {
    let got = got.numbers();
    assert_eq!(got.len(), want.len());
    for ((name, g), w) in got.iter().zip(want) {
        assert!((g - w).abs() < 1e-6, "{name}: {g}, pycocotools {w}");
    }
}

#[test]
fn boxes_are_as_pycocotools_evaluates_them() -> Result<()> {
    for sizes in [true, false] {
        let (found, there, stats) = boxes(sizes)?;
        let mut coco = CocoEvaluation::new(CocoKind::Boxes).boxes_are_xywh(sizes);
        // In two parts, the second of which another metric saw.
        let mut other = coco.clone();
        coco.update(&found[..5], &there[..5])?;
        other.update(&found[5..], &there[5..])?;
        coco.merge(&other.state()?)?;
        let summary = coco.compute()?;
        let want: Vec<f64> = summary
            .numbers()
            .iter()
            .map(|(name, _)| stats[*name].as_f64().expect("a number"))
            .collect();
        same(&summary, &want);
        coco.reset();
        assert!(coco.compute().is_err());
    }
    Ok(())
}

#[test]
fn masks_are_as_pycocotools_evaluates_them() -> Result<()> {
    let file = data(include_str!("data/coco_masks.json"));
    let size = |key: &str| file[key].as_u64().expect("a size") as usize;
    let (h, w) = (size("height"), size("width"));
    let mask = |o: &Json| {
        let mut pixels = vec![0.0; h * w];
        for rect in list(&o["rects"]) {
            let r: Vec<usize> = numbers(rect).iter().map(|&v| v as usize).collect();
            for y in r[1]..(r[1] + r[3]).min(h) {
                pixels[y * w + r[0]..][..r[2].min(w - r[0])].fill(1.0);
            }
        }
        pixels
    };
    let mut coco = CocoEvaluation::new(CocoKind::Masks);
    for image in list(&file["images"]) {
        let (f, t) = (list(&image["found"]), list(&image["there"]));
        let all = |o: &[Json], key: &str| -> Vec<f64> {
            o.iter()
                .map(|o| o[key].as_f64().expect("a number"))
                .collect()
        };
        let masks = |o: &[Json]| table(&o.iter().map(mask).collect::<Vec<_>>(), &[h, w]);
        let empty = |n: usize| Tensor::zeros([n, 4], DType::F64, Device::Cpu);
        let found = FoundObjects::new(
            empty(f.len())?,
            column(&all(f, "score"), DType::F64)?,
            column(&all(f, "label"), DType::I64)?,
        )
        .masks(masks(f)?.to_dtype(DType::Bool)?);
        let there = TrueObjects::new(empty(t.len())?, column(&all(t, "label"), DType::I64)?)
            .masks(masks(t)?)
            .crowd(column(&all(t, "crowd"), DType::I64)?);
        coco.update(&[found], &[there])?;
    }
    same(&coco.compute()?, &numbers(&file["stats"]));
    Ok(())
}

#[test]
fn key_points_are_as_pycocotools_evaluates_them() -> Result<()> {
    let file = data(include_str!("data/coco_keypoints.json"));
    let mut coco = CocoEvaluation::new(CocoKind::Keypoints).boxes_are_xywh(true);
    for image in list(&file["images"]) {
        let (f, t) = (list(&image["found"]), list(&image["there"]));
        let points = |o: &[Json], width: usize| {
            let one = |o: &Json| {
                list(&o["points"])
                    .iter()
                    .flat_map(numbers)
                    .collect::<Vec<_>>()
            };
            table(&o.iter().map(one).collect::<Vec<_>>(), &[17, width])
        };
        let all = |key: &str, o: &[Json]| -> Vec<f64> {
            o.iter()
                .map(|o| o[key].as_f64().expect("a number"))
                .collect()
        };
        let boxes: Vec<Vec<f64>> = t.iter().map(|o| numbers(&o["box"])).collect();
        let found = FoundObjects::new(
            Tensor::zeros([f.len(), 4], DType::F64, Device::Cpu)?,
            column(&all("score", f), DType::F64)?,
            column(&vec![1.0; f.len()], DType::I64)?,
        )
        .keypoints(points(f, 2)?);
        let there = TrueObjects::new(
            table(&boxes, &[4])?,
            column(&vec![1.0; t.len()], DType::I64)?,
        )
        .keypoints(points(t, 3)?)
        .area(column(&all("area", t), DType::F64)?)
        .crowd(column(&all("crowd", t), DType::I64)?);
        coco.update(&[found], &[there])?;
    }
    same(&coco.compute()?, &numbers(&file["stats"]));
    Ok(())
}

#[test]
fn voc_is_as_its_program_evaluates() -> Result<()> {
    let (found, there, _) = boxes(false)?;
    for (interpolation, want) in [
        (VocInterpolation::Area, 0.4336507936507936),
        (VocInterpolation::ElevenPoints, 0.4640692640692641),
    ] {
        for pixels in [false, true] {
            let mut map = VocMeanAveragePrecision::new()
                .interpolation(interpolation)
                .corners_are_pixels(pixels);
            let mut other = map.clone();
            map.update(&found[..7], &there[..7])?;
            other.update(&found[7..], &there[7..])?;
            map.merge(&other.state()?)?;
            let got = map.compute()?.scalar()?;
            assert!((got - want).abs() < 1e-12, "{interpolation:?}: {got}");
        }
    }
    Ok(())
}

#[test]
fn images_are_compared_as_torchmetrics_does() -> Result<()> {
    let i =
        Tensor::arange(0, 2 * 3 * 20 * 24, 1, DType::F64, Device::Cpu)?.reshape([2, 3, 20, 24])?;
    let a = i.mul(0.37)?.sin()?.add(1.0)?.div(2.0)?;
    let b = i
        .mul(0.37)?
        .add(i.mul(0.01)?.cos()?.mul(0.3)?)?
        .sin()?
        .add(1.0)?
        .div(2.0)?;
    let mut ssim = StructuralSimilarity::new(1.0);
    // The images one by one.
    for n in 0..2 {
        ssim.update(&a.narrow(0, n, 1)?, &b.narrow(0, n, 1)?)?;
    }
    let got = ssim.compute()?.scalar()?;
    assert!((got - 0.9761323688359047).abs() < 1e-6, "{got}");
    let mut psnr = PeakSignalNoiseRatio::new(1.0);
    psnr.update(&a, &b)?;
    let got = psnr.compute()?.scalar()?;
    assert!((got - 22.45614593929587).abs() < 1e-6, "{got}");
    assert!(
        ssim.update(&a.narrow(2, 0, 8)?, &b.narrow(2, 0, 8)?)
            .is_err()
    );
    Ok(())
}

#[test]
fn what_does_not_go_together_is_refused() -> Result<()> {
    let found = FoundObjects::new(tensor![[0.0, 0.0, 1.0, 1.0]], tensor![0.5, 0.5], tensor![1]);
    let there = TrueObjects::new(tensor![[0.0, 0.0, 1.0, 1.0]], tensor![1]);
    let mut coco = CocoEvaluation::new(CocoKind::Boxes);
    let e = coco
        .update(&[found.clone()], &[there.clone()])
        .expect_err("two scores")
        .to_string();
    assert!(
        e.starts_with("coco: scores (float32[2] cpu) must be [1]"),
        "{e}"
    );
    let e = coco
        .update(&[], &[there.clone()])
        .expect_err("no image")
        .to_string();
    assert!(
        e.contains("0 images with detections, and 1 with objects"),
        "{e}"
    );
    let found = FoundObjects::new(tensor![[0.0, 0.0, 1.0, 1.0]], tensor![f32::NAN], tensor![1]);
    assert!(coco.update(&[found.clone()], &[there.clone()]).is_err());
    let mut masks = CocoEvaluation::new(CocoKind::Masks);
    let e = masks
        .update(&[found], &[there])
        .expect_err("no masks")
        .to_string();
    assert!(e.contains("there are no masks"), "{e}");
    assert!(coco.compute().is_err(), "nothing was taken in");
    Ok(())
}
