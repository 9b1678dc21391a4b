//! Calls of `transforms.v2.functional`.

use serde_json::Value;
use torsh_tensor::{InterpolateMode, Tensor};
use torsh_vision::transforms::functional::{
    self as f, AffineOptions, PadOptions, Perspective, ResizeOptions, RotateOptions, WarpOptions,
};
use torsh_vision::transforms::{Fill, Padding, Pair, Size};

use super::{Arguments, Outcome, number, numbers, pair, text};

pub(super) fn size(v: &Value) -> Outcome<Size> {
    match numbers(v)?[..] {
        [n] => Ok(Size::One(n as usize)),
        [h, w] => Ok(Size::Both(h as usize, w as usize)),
        _ => Err(format!("{v} is no size")),
    }
}

pub(super) fn padding(v: &Value) -> Outcome<Padding> {
    match numbers(v)?[..] {
        [n] => Ok((n as i64).into()),
        [x, y] => Ok([x as i64, y as i64].into()),
        [l, t, r, b] => Ok([l, t, r, b].map(|v| v as i64).into()),
        _ => Err(format!("{v} is no padding")),
    }
}

pub(super) fn mode(v: Option<&Value>, otherwise: InterpolateMode) -> Outcome<InterpolateMode> {
    Ok(match v.and_then(Value::as_str) {
        None => otherwise,
        Some("nearest") => InterpolateMode::Nearest,
        Some("nearest-exact") => InterpolateMode::NearestExact,
        Some("bilinear") => InterpolateMode::Bilinear,
        Some("bicubic") => InterpolateMode::Bicubic,
        Some("lanczos") => InterpolateMode::Lanczos,
        Some(other) => return Err(format!("no interpolation {other}")),
    })
}

pub(super) fn fill(v: Option<&Value>) -> Outcome<Fill> {
    v.map_or(Ok(Fill::default()), |v| Ok(Fill::from(numbers(v)?)))
}

fn center(v: Option<&Value>) -> Outcome<Option<[f64; 2]>> {
    v.map(|v| pair(v).map(|(x, y)| [x, y])).transpose()
}

fn corners(v: &Value) -> Outcome<[[f64; 2]; 4]> {
    let all = v.as_array().ok_or("no corners")?;
    let mut out = [[0.0; 2]; 4];
    if all.len() != 4 {
        return Err(format!("{v} are not four corners"));
    }
    for (out, v) in out.iter_mut().zip(all) {
        let (x, y) = pair(v)?;
        *out = [x, y];
    }
    Ok(out)
}

pub(super) fn call(name: &str, x: &Tensor, a: &Arguments<'_>) -> Outcome<Vec<Tensor>> {
    let resize = || -> Outcome<ResizeOptions> {
        let antialias = a.kwargs["antialias"] != Value::Bool(false);
        let max = a.kwargs["max_size"].as_u64().map(|n| n as usize);
        let mode = mode(a.kwargs.get("interpolation"), InterpolateMode::Bilinear)?;
        Ok(ResizeOptions::new()
            .interpolation(mode)
            .antialias(antialias)
            .max_size(max))
    };
    let warp = |otherwise| -> Outcome<(InterpolateMode, Fill)> {
        Ok((
            mode(a.kwargs.get("interpolation"), otherwise)?,
            fill(a.kwargs.get("fill"))?,
        ))
    };
    let one = match name {
        "resize" => f::resize_with(x, size(a.need(0, "size")?)?, resize()?),
        "center_crop" => f::center_crop(x, size(a.need(0, "output_size")?)?),
        "crop" => {
            let at = |i: usize, name: &str| a.number(i, name).map(|v| v as i64);
            let (h, w) = (at(2, "height")? as usize, at(3, "width")? as usize);
            f::crop(x, at(0, "top")?, at(1, "left")?, h, w)
        }
        "resized_crop" => {
            let at = |i: usize, name: &str| a.number(i, name).map(|v| v as i64);
            let (h, w) = (at(2, "height")? as usize, at(3, "width")? as usize);
            let to = size(a.need(4, "size")?)?;
            f::resized_crop_with(x, at(0, "top")?, at(1, "left")?, h, w, to, resize()?)
        }
        "horizontal_flip" => f::horizontal_flip(x),
        "vertical_flip" => f::vertical_flip(x),
        "invert" => f::invert(x),
        "autocontrast" => f::autocontrast(x),
        "equalize" => f::equalize(x),
        "rgb_to_grayscale" | "to_grayscale" => {
            f::rgb_to_grayscale(x, a.number_or(0, "num_output_channels", 1.0)? as usize)
        }
        "grayscale_to_rgb" => f::grayscale_to_rgb(x),
        "pad" => {
            let mode = a
                .get(2, "padding_mode")
                .and_then(Value::as_str)
                .unwrap_or("constant");
            let options = PadOptions {
                fill: fill(a.get(1, "fill"))?,
                padding_mode: mode.parse().map_err(text)?,
            };
            f::pad_with(x, padding(a.need(0, "padding")?)?, options)
        }
        "posterize" => f::posterize(x, a.number(0, "bits")? as u32),
        "solarize" => f::solarize(x, a.number(0, "threshold")?),
        "adjust_brightness" => f::adjust_brightness(x, a.number(0, "brightness_factor")?),
        "adjust_contrast" => f::adjust_contrast(x, a.number(0, "contrast_factor")?),
        "adjust_saturation" => f::adjust_saturation(x, a.number(0, "saturation_factor")?),
        "adjust_sharpness" => f::adjust_sharpness(x, a.number(0, "sharpness_factor")?),
        "adjust_hue" => f::adjust_hue(x, a.number(0, "hue_factor")?),
        "adjust_gamma" => {
            f::adjust_gamma_with(x, a.number(0, "gamma")?, a.number_or(1, "gain", 1.0)?)
        }
        "gaussian_blur" => {
            let sigma = match a.get(1, "sigma").map(numbers).transpose()?.as_deref() {
                None => None,
                Some([s]) => Some(Pair(*s, *s)),
                Some([x, y]) => Some(Pair(*x, *y)),
                Some(other) => return Err(format!("{other:?} is no sigma")),
            };
            f::gaussian_blur(x, size(a.need(0, "kernel_size")?)?, sigma)
        }
        "erase" => {
            let at = |i: usize, name: &str| a.number(i, name).map(|v| v as usize);
            let (i, j, h, w) = (at(0, "i")?, at(1, "j")?, at(2, "h")?, at(3, "w")?);
            f::erase(x, i, j, h, w, &a.tensor(4, "v")?)
        }
        "rotate" => {
            let (interpolation, fill) = warp(InterpolateMode::Nearest)?;
            let options = RotateOptions {
                interpolation,
                expand: a.flag(9, "expand"),
                center: center(a.kwargs.get("center"))?,
                fill,
            };
            f::rotate_with(x, a.number(0, "angle")?, options)
        }
        "affine" => {
            let (interpolation, fill) = warp(InterpolateMode::Nearest)?;
            let options = AffineOptions {
                interpolation,
                fill,
                center: center(a.kwargs.get("center"))?,
            };
            let (tx, ty) = pair(a.need(1, "translate")?)?;
            let (sx, sy) = pair(a.need(3, "shear")?)?;
            let (angle, scale) = (a.number(0, "angle")?, a.number(2, "scale")?);
            f::affine_with(x, angle, [tx, ty], scale, [sx, sy], options)
        }
        "perspective" => {
            let (interpolation, fill) = warp(InterpolateMode::Bilinear)?;
            let map = Perspective::Corners(
                corners(a.need(0, "startpoints")?)?,
                corners(a.need(1, "endpoints")?)?,
            );
            f::perspective_with(
                x,
                map,
                WarpOptions {
                    interpolation,
                    fill,
                },
            )
        }
        "elastic" => {
            let (interpolation, fill) = warp(InterpolateMode::Bilinear)?;
            let options = WarpOptions {
                interpolation,
                fill,
            };
            f::elastic_with(x, &a.tensor(0, "displacement")?, options)
        }
        "five_crop" => return f::five_crop(x, size(a.need(0, "size")?)?).map_err(text),
        "ten_crop" => {
            let vertical = a.flag(1, "vertical_flip");
            return f::ten_crop(x, size(a.need(0, "size")?)?, vertical).map_err(text);
        }
        "normalize" => f::normalize(
            x,
            &numbers(a.need(0, "mean")?)?,
            &numbers(a.need(1, "std")?)?,
        ),
        "permute_channels" => {
            let order: Vec<usize> = numbers(a.need(0, "permutation")?)?
                .into_iter()
                .map(|v| v as usize)
                .collect();
            f::permute_channels(x, &order)
        }
        other => return Err(format!("no function {other}")),
    };
    Ok(vec![one.map_err(text)?])
}

/// A number that may be missing.
pub(super) fn maybe(v: Option<&Value>) -> Outcome<Option<f64>> {
    v.map(number).transpose()
}
