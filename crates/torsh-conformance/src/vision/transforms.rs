//! Cases of transforms: `ops/transforms.json` and its tensors.

mod build;
mod functions;

use std::collections::BTreeMap;

use serde_json::Value;
use torsh_core::random::manual_seed;
use torsh_tensor::{DType, Tensor, rand};
use torsh_vision::transforms::{
    BoundingBoxFormat, BoundingBoxes, Image, Item, KeyPoints, Mask, Transform,
};

use super::{Options, Report};
use crate::source::Source;
use crate::tensors::{Dtype, TensorFile};
use crate::torsh::drawing;

type Outcome<T = ()> = Result<T, String>;

/// A sample by the names of its parts.
type Named = BTreeMap<String, Item>;

/// Runs the cases.
///
/// # Errors
/// If the files cannot be read.
pub fn run(source: &Source, options: &Options) -> Result<Report, String> {
    let read = |name: &str| super::read(source, &format!("ops/{name}"));
    let all: Value = serde_json::from_slice(&read("transforms.json")?)
        .map_err(|e| format!("transforms.json: {e}"))?;
    let tensors = TensorFile::parse(&read("transforms.safetensors")?)?;
    let cases = all["cases"]
        .as_array()
        .ok_or("transforms.json has no cases")?;
    let files = Files {
        tensors: &tensors,
        images: &all["images"],
    };
    let mut report = Report::default();
    for (number, case) in cases.iter().enumerate() {
        let name = case["fn"]
            .as_str()
            .or(case["transform"].as_str())
            .unwrap_or("?");
        let name = format!("{number:03} {name}");
        if options.takes(number, &name) {
            let result = files.case(case).map_err(|e| {
                let text: String = case.to_string().chars().take(400).collect();
                format!("{e}\n{text}")
            });
            report.add(name, result);
        }
    }
    Ok(report)
}

/// What cases refer to.
struct Files<'a> {
    tensors: &'a TensorFile,
    images: &'a Value,
}

impl Files<'_> {
    /// The tensor that a reference names.
    fn tensor(&self, reference: &Value) -> Outcome<Tensor> {
        let name = reference["tensor"]
            .as_str()
            .ok_or("a reference without a tensor")?;
        let t = self.tensors.named(name)?;
        let dtype = match t.dtype {
            Dtype::UInt8 => DType::U8,
            Dtype::Int64 => DType::I64,
            Dtype::Float32 => DType::F32,
            Dtype::Float64 => DType::F64,
            Dtype::Bool => DType::Bool,
            other => return Err(format!("a tensor of {other}")),
        };
        Tensor::from_bytes(&t.bytes, dtype, t.shape).map_err(text)
    }

    fn case(&self, case: &Value) -> Outcome {
        match case["fn"].as_str() {
            Some(name) => self.call(name, case),
            None => self.transform(case),
        }
    }

    fn image(&self, case: &Value) -> Outcome<Tensor> {
        let name = case["image"].as_str().ok_or("a case without an image")?;
        self.tensor(&self.images[name])
    }

    fn call(&self, name: &str, case: &Value) -> Outcome {
        let image = self.image(case)?;
        let args = Arguments {
            args: case["args"].as_array().map_or(&[], |a| a),
            kwargs: &case["kwargs"],
            files: self,
        };
        let got = functions::call(name, &image, &args)?;
        let want = case["expect"].as_array().ok_or("no expected results")?;
        if got.len() != want.len() {
            return Err(format!("{} results, expected {}", got.len(), want.len()));
        }
        let exact = exact(name, &case["kwargs"]);
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            compare(&format!("result {i}"), got, &self.tensor(want)?, exact)?;
        }
        Ok(())
    }

    fn transform(&self, case: &Value) -> Outcome {
        let name = case["transform"]
            .as_str()
            .ok_or("neither fn nor transform")?;
        let args = Arguments {
            args: case["args"].as_array().map_or(&[], |a| a),
            kwargs: &case["kwargs"],
            files: self,
        };
        let seed = case["seed"].as_u64().ok_or("a transform without a seed")?;
        let sample = self.sample(name, case)?;
        let transform = build::transform(name, &args)?;
        // Tests run at the same time, and the generator is the process's.
        let _drawing = drawing();
        manual_seed(seed);
        let out = transform.apply(&sample).map_err(text)?;
        let next = rand(1).item::<f64>().map_err(text)?;
        let want = case["next_rand"].as_f64().ok_or("no next_rand")?;
        let exact = exact(name, &case["kwargs"]);
        let expected = case["expect"].as_object().ok_or("no expected results")?;
        for (key, want) in expected {
            let got = out
                .get(key)
                .ok_or_else(|| format!("no {key} in the result"))?;
            compare(key, got.tensor(), &self.tensor(want)?, exact)?;
        }
        if (next - want).abs() > 1e-7 {
            return Err(format!("the next random number is {next}, expected {want}"));
        }
        Ok(())
    }

    /// What the case's transform is applied to.
    fn sample(&self, transform: &str, case: &Value) -> Outcome<Named> {
        let mut sample = Named::new();
        if case["batch"].is_object() {
            sample.insert("0".into(), Item::Tensor(self.tensor(&case["batch"])?));
            sample.insert("1".into(), Item::Tensor(self.tensor(&case["labels"])?));
            return Ok(sample);
        }
        let image = self.image(case)?;
        if case["target"] != Value::Bool(true) {
            sample.insert("0".into(), Item::Tensor(image));
            return Ok(sample);
        }
        let [.., h, w] = *image.dims() else {
            return Err("an image of fewer than two dimensions".into());
        };
        let floats = |v: &[f32], shape: [usize; 2]| Tensor::from_data(v, shape).map_err(text);
        let boxes = floats(&[2., 3., 14., 15., 10., 5., 29., 20.], [2, 4])?;
        let boxes = BoundingBoxes::new(boxes, BoundingBoxFormat::Xyxy, (h, w)).map_err(text)?;
        let mask = image
            .narrow(0, 0, 1)
            .and_then(|x| x.gt(128)?.to_dtype(DType::U8))
            .map_err(text)?;
        if transform != "RandomIoUCrop" {
            let points = floats(&[4., 5., 20., 11.], [2, 2])?;
            let points = KeyPoints::new(points, (h, w)).map_err(text)?;
            sample.insert("keypoints".into(), Item::KeyPoints(points));
        }
        sample.insert("boxes".into(), Item::BoundingBoxes(boxes));
        sample.insert("image".into(), Item::Image(Image::new(image)));
        sample.insert("mask".into(), Item::Mask(Mask::new(mask)));
        let labels = Tensor::from_data(&[1i64, 2], [2]).map_err(text)?;
        sample.insert("labels".into(), Item::Tensor(labels));
        Ok(sample)
    }
}

/// What a call or a constructor is given.
struct Arguments<'a> {
    args: &'a [Value],
    kwargs: &'a Value,
    files: &'a Files<'a>,
}

impl Arguments<'_> {
    /// The argument at this position or of this name.
    fn get(&self, at: usize, name: &str) -> Option<&Value> {
        self.args
            .get(at)
            .or_else(|| self.kwargs.get(name))
            .filter(|v| !v.is_null())
    }

    fn need(&self, at: usize, name: &str) -> Outcome<&Value> {
        self.get(at, name)
            .ok_or_else(|| format!("no argument {name}"))
    }

    fn number(&self, at: usize, name: &str) -> Outcome<f64> {
        number(self.need(at, name)?)
    }

    fn number_or(&self, at: usize, name: &str, otherwise: f64) -> Outcome<f64> {
        self.get(at, name).map_or(Ok(otherwise), number)
    }

    fn flag(&self, at: usize, name: &str) -> bool {
        self.get(at, name) == Some(&Value::Bool(true))
    }

    fn tensor(&self, at: usize, name: &str) -> Outcome<Tensor> {
        self.files.tensor(self.need(at, name)?)
    }
}

fn number(v: &Value) -> Outcome<f64> {
    v.as_f64()
        .or_else(|| v["float"].as_f64())
        .ok_or_else(|| format!("{v} is no number"))
}

/// A list or tuple, or a number as a list of one.
fn numbers(v: &Value) -> Outcome<Vec<f64>> {
    let list = v.as_array().or_else(|| v["tuple"].as_array());
    match list {
        Some(list) => list.iter().map(number).collect(),
        None => Ok(vec![number(v)?]),
    }
}

fn pair(v: &Value) -> Outcome<(f64, f64)> {
    match numbers(v)?[..] {
        [a, b] => Ok((a, b)),
        _ => Err(format!("{v} is no pair")),
    }
}

fn text(e: torsh_tensor::TorshError) -> String {
    e.to_string()
}

/// Whether no pixel may differ.
fn exact(name: &str, kwargs: &Value) -> bool {
    matches!(name, "horizontal_flip" | "vertical_flip")
        || matches!(
            kwargs["interpolation"].as_str(),
            Some("nearest" | "nearest-exact")
        )
}

/// Bytes may differ by one level in 0.5 % of the pixels, floating-point numbers by 1e-5.
fn compare(what: &str, got: &Tensor, want: &Tensor, exact: bool) -> Outcome {
    if got.dims() != want.dims() || got.dtype() != want.dtype() {
        return Err(format!(
            "{what}: {}, expected {}",
            got.describe(),
            want.describe()
        ));
    }
    let values = |t: &Tensor| t.to_vec::<f64>().map_err(text);
    let (a, b) = (values(got)?, values(want)?);
    if want.dtype() == DType::U8 {
        let off = a.iter().zip(&b).filter(|(a, b)| a != b).count();
        let most = a
            .iter()
            .zip(&b)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        let allowed = if exact { 0.0 } else { 0.005 * a.len() as f64 };
        if off as f64 > allowed || most > 1.0 {
            return Err(format!(
                "{what}: {off} of {} pixels differ, by up to {most}",
                a.len()
            ));
        }
        return Ok(());
    }
    let scale = if want.dtype().is_floating_point() {
        1e-5
    } else {
        0.0
    };
    let bad = a.iter().zip(&b).position(|(a, b)| {
        !((a - b).abs() <= scale * b.abs().max(1.0) || a.is_nan() && b.is_nan())
    });
    match bad {
        None => Ok(()),
        Some(i) => Err(format!(
            "{what}: element {i} is {}, expected {}",
            a[i], b[i]
        )),
    }
}
