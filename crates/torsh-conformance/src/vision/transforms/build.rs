//! Transforms from constructors' arguments.

use serde_json::Value;
use torsh_tensor::{InterpolateMode, Result};
use torsh_vision::transforms as t;
use torsh_vision::transforms::{PaddingMode, Pair, Span, Transform};

use super::functions::{fill, maybe, mode, padding, size};
use super::{Arguments, Named, Outcome, number, numbers, pair, text};

type Boxed = Box<dyn Transform<Named>>;

fn span(v: &Value) -> Outcome<Span> {
    match numbers(v)?[..] {
        [n] => Ok(Span::Around(n)),
        [a, b] => Ok(Span::Between(a, b)),
        _ => Err(format!("{v} is no range")),
    }
}

fn both(v: &Value) -> Outcome<Pair> {
    match numbers(v)?[..] {
        [n] => Ok(Pair(n, n)),
        [a, b] => Ok(Pair(a, b)),
        _ => Err(format!("{v} is neither a number nor a pair")),
    }
}

fn boxed(t: Result<impl Transform<Named> + 'static>) -> Outcome<Boxed> {
    Ok(Box::new(t.map_err(text)?))
}

pub(super) fn transform(name: &str, a: &Arguments<'_>) -> Outcome<Boxed> {
    let p = |at: usize, otherwise: f64| a.number_or(at, "p", otherwise);
    let interpolation = |otherwise| mode(a.kwargs.get("interpolation"), otherwise);
    match name {
        "RandomCrop" => {
            let mut t = t::RandomCrop::new(size(a.need(0, "size")?)?)
                .pad_if_needed(a.flag(2, "pad_if_needed"));
            if let Some(v) = a.get(1, "padding") {
                t = t.padding(padding(v)?);
            }
            if let Some(v) = a.get(4, "padding_mode").and_then(Value::as_str) {
                t = t.padding_mode(v.parse::<PaddingMode>().map_err(text)?);
            }
            Ok(Box::new(t))
        }
        "RandomResizedCrop" => {
            let mut t = t::RandomResizedCrop::new(size(a.need(0, "size")?)?)
                .interpolation(interpolation(InterpolateMode::Bilinear)?);
            if let Some(v) = a.get(1, "scale") {
                let (from, to) = pair(v)?;
                t = t.scale(from, to);
            }
            Ok(Box::new(t))
        }
        "RandomHorizontalFlip" => boxed(t::RandomHorizontalFlip::new(p(0, 0.5)?)),
        "RandomVerticalFlip" => boxed(t::RandomVerticalFlip::new(p(0, 0.5)?)),
        "RandomRotation" => {
            let t = t::RandomRotation::new(span(a.need(0, "degrees")?)?).map_err(text)?;
            Ok(Box::new(
                t.expand(a.flag(2, "expand"))
                    .interpolation(interpolation(InterpolateMode::Nearest)?),
            ))
        }
        "RandomAffine" => {
            let mut t = t::RandomAffine::new(span(a.need(0, "degrees")?)?)
                .map_err(text)?
                .interpolation(interpolation(InterpolateMode::Nearest)?);
            if let Some(v) = a.get(1, "translate") {
                let (x, y) = pair(v)?;
                t = t.translate(x, y).map_err(text)?;
            }
            if let Some(v) = a.get(2, "scale") {
                let (from, to) = pair(v)?;
                t = t.scale(from, to).map_err(text)?;
            }
            if let Some(v) = a.get(3, "shear") {
                let all = numbers(v)?;
                t = match all[..] {
                    [x] => t.shear(x).map_err(text)?,
                    [a, b] => t.shear((a, b)).map_err(text)?,
                    [a, b, c, d] => {
                        let t = t.shear((a, b)).map_err(text)?;
                        t.shear_y((c, d)).map_err(text)?
                    }
                    _ => return Err(format!("{v} is no shear")),
                };
            }
            Ok(Box::new(t))
        }
        "RandomPerspective" => boxed(
            t::RandomPerspective::new(a.number_or(0, "distortion_scale", 0.5)?, p(1, 0.5)?).map(
                |t| {
                    t.fill(
                        fill(a.kwargs.get("fill"))
                            .ok()
                            .filter(|f| f.values().is_some())
                            .unwrap_or(0.0.into()),
                    )
                },
            ),
        ),
        "RandomZoomOut" => boxed(t::RandomZoomOut::new().p(p(2, 0.5)?)),
        "ElasticTransform" => {
            let mut t = t::ElasticTransform::new();
            if let Some(v) = a.get(0, "alpha") {
                t = t.alpha(both(v)?);
            }
            if let Some(v) = a.get(1, "sigma") {
                t = t.sigma(both(v)?);
            }
            Ok(Box::new(t))
        }
        "RandomShortestSize" => {
            let sizes: Vec<usize> = numbers(a.need(0, "min_size")?)?
                .into_iter()
                .map(|v| v as usize)
                .collect();
            let max = maybe(a.get(1, "max_size"))?.map(|v| v as usize);
            boxed(t::RandomShortestSize::new(sizes).map(|t| t.max_size(max)))
        }
        "RandomResize" => boxed(t::RandomResize::new(
            a.number(0, "min_size")? as usize,
            a.number(1, "max_size")? as usize,
        )),
        "ScaleJitter" => {
            let mut t = t::ScaleJitter::new(size(a.need(0, "target_size")?)?);
            if let Some(v) = a.get(1, "scale_range") {
                let (from, to) = pair(v)?;
                t = t.scale_range(from, to);
            }
            Ok(Box::new(t))
        }
        "RandomIoUCrop" => Ok(Box::new(t::RandomIoUCrop::new())),
        "ColorJitter" => {
            let mut t = t::ColorJitter::new();
            if let Some(v) = a.get(0, "brightness") {
                t = t.brightness(span(v)?).map_err(text)?;
            }
            if let Some(v) = a.get(1, "contrast") {
                t = t.contrast(span(v)?).map_err(text)?;
            }
            if let Some(v) = a.get(2, "saturation") {
                t = t.saturation(span(v)?).map_err(text)?;
            }
            if let Some(v) = a.get(3, "hue") {
                t = t.hue(span(v)?).map_err(text)?;
            }
            Ok(Box::new(t))
        }
        "RandomGrayscale" => boxed(t::RandomGrayscale::new(p(0, 0.1)?)),
        "GaussianBlur" => {
            let mut t = t::GaussianBlur::new(size(a.need(0, "kernel_size")?)?).map_err(text)?;
            if let Some(v) = a.get(1, "sigma") {
                t = t.sigma(span(v)?).map_err(text)?;
            }
            Ok(Box::new(t))
        }
        "GaussianNoise" => boxed(t::GaussianNoise::new(
            a.number_or(0, "mean", 0.0)?,
            a.number_or(1, "sigma", 0.1)?,
        )),
        "RandomErasing" => {
            let mut t = t::RandomErasing::new(p(0, 0.5)?).map_err(text)?;
            match a.get(3, "value") {
                Some(Value::String(s)) if s == "random" => t = t.value(None),
                Some(v) => t = t.value(numbers(v)?),
                None => {}
            }
            Ok(Box::new(t))
        }
        "RandomInvert" => boxed(t::RandomInvert::new(p(0, 0.5)?)),
        "RandomPosterize" => boxed(t::RandomPosterize::new(
            a.number(0, "bits")? as u32,
            p(1, 0.5)?,
        )),
        "RandomSolarize" => boxed(t::RandomSolarize::new(
            a.number(0, "threshold")?,
            p(1, 0.5)?,
        )),
        "RandomAdjustSharpness" => boxed(t::RandomAdjustSharpness::new(
            a.number(0, "sharpness_factor")?,
            p(1, 0.5)?,
        )),
        "RandomAutocontrast" => boxed(t::RandomAutocontrast::new(p(0, 0.5)?)),
        "RandomEqualize" => boxed(t::RandomEqualize::new(p(0, 0.5)?)),
        "RandomPhotometricDistort" => {
            Ok(Box::new(t::RandomPhotometricDistort::new().p(p(4, 0.5)?)))
        }
        "RandomChannelPermutation" => Ok(Box::new(t::RandomChannelPermutation)),
        "AutoAugment" => {
            let policy = match a.get(0, "policy").and_then(Value::as_str) {
                None | Some("imagenet") => t::AutoAugmentPolicy::ImageNet,
                Some("cifar10") => t::AutoAugmentPolicy::Cifar10,
                Some("svhn") => t::AutoAugmentPolicy::Svhn,
                Some(other) => return Err(format!("no policy {other}")),
            };
            Ok(Box::new(t::AutoAugment::new(policy)))
        }
        "RandAugment" => Ok(Box::new(
            t::RandAugment::new()
                .num_ops(a.number_or(0, "num_ops", 2.0)? as usize)
                .magnitude(a.number_or(1, "magnitude", 9.0)? as usize)
                .num_magnitude_bins(a.number_or(2, "num_magnitude_bins", 31.0)? as usize),
        )),
        "TrivialAugmentWide" => {
            Ok(Box::new(t::TrivialAugmentWide::new().num_magnitude_bins(
                a.number_or(0, "num_magnitude_bins", 31.0)? as usize,
            )))
        }
        "AugMix" => boxed(t::AugMix::new().severity(a.number_or(0, "severity", 3.0)? as usize)),
        "MixUp" | "CutMix" => {
            let alpha = a.number_or(9, "alpha", 1.0)?;
            let classes = number(a.need(9, "num_classes")?)? as usize;
            match name {
                "MixUp" => boxed(t::MixUp::new(alpha).map(|t| t.num_classes(classes))),
                _ => boxed(t::CutMix::new(alpha).map(|t| t.num_classes(classes))),
            }
        }
        other => Err(format!("no transform {other}")),
    }
}
