//! What detection models compute.

use serde_json::Value as Json;
use torsh_core::random::manual_seed;
use torsh_nn::ModuleExt;
use torsh_tensor::{DType, Tensor, TorshError, linspace, ones, stack, zeros};
use torsh_vision::models::VisionModel;
use torsh_vision::models::detection::{Detection, Detector, Target};

use super::models::{
    Case, Problems, compare_output, drop_nothing, exact_weights, field, input, number, stepped,
    text,
};

/// Compares results, losses, gradients and a step.
pub(super) fn check(
    case: &Case,
    model: &mut Box<dyn VisionModel>,
    problems: &mut Problems,
) -> Result<(), String> {
    let x = input(case)?;
    model.eval();
    if let Some(expected) = case.json.get("eval_f32") {
        let images = x.unbind(0).map_err(text)?;
        compare(
            case,
            detector(&**model)?,
            &images,
            expected,
            ("eval_f32", 1e-4),
            problems,
        )?;
    }

    model.to_dtype(DType::F64).map_err(text)?;
    exact_weights(case, &**model)?;
    drop_nothing(&**model)?;
    let images = x
        .to_dtype(DType::F64)
        .and_then(|x| x.unbind(0))
        .map_err(text)?;
    let expected = field(&case.json, "eval_f64")?;
    compare(
        case,
        detector(&**model)?,
        &images,
        expected,
        ("eval_f64", 1e-6),
        problems,
    )?;

    let train = field(&case.json, "train")?;
    model.train();
    let targets = targets().map_err(text)?;
    manual_seed(number(train, "seed")? as u64);
    let losses = detector(&**model)?
        .losses(&images, &targets)
        .map_err(text)?;
    let expected = field(train, "losses")?
        .as_object()
        .ok_or("losses are no object")?;
    let names: Vec<&str> = losses.iter().map(|(name, _)| name).collect();
    let theirs: Vec<&str> = expected.keys().map(String::as_str).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    if sorted != theirs {
        problems.add(format!("the losses are {names:?}, not {theirs:?}"));
    }
    for (name, loss) in losses.iter() {
        let ours = loss.item::<f64>().map_err(text)?;
        if let Some(theirs) = expected.get(name).and_then(Json::as_f64)
            && (ours - theirs).abs() > 1e-6 * theirs.abs()
        {
            problems.add(format!("{name} is {ours}, not {theirs}"));
        }
    }
    losses
        .total()
        .and_then(|loss| loss.backward())
        .map_err(text)?;
    drop(losses);
    let expected = stepped(case, &**model, train, problems)?;
    compare(
        case,
        detector(&**model)?,
        &images,
        expected,
        ("after_step", 1e-6),
        problems,
    )
}

fn detector(model: &dyn VisionModel) -> Result<&dyn Detector, String> {
    model
        .as_detector()
        .ok_or_else(|| "the model is no detector".into())
}

/// Compares what is found in each image.
fn compare(
    case: &Case,
    model: &dyn Detector,
    images: &[Tensor],
    expected: &Json,
    (part, tolerance): (&str, f64),
    problems: &mut Problems,
) -> Result<(), String> {
    let found = model.detect(images).map_err(text)?;
    let expected = expected.as_array().ok_or("detections are no list")?;
    if found.len() != expected.len() {
        problems.add(format!(
            "{part}: detections of {} images, not {}",
            found.len(),
            expected.len()
        ));
    }
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let expected = expected
            .as_object()
            .ok_or("an image's detections are no object")?;
        let named = Detection::named(found);
        if named.len() != expected.len() {
            let names: Vec<&str> = named.iter().map(|(name, _)| *name).collect();
            problems.add(format!(
                "{part}: {} finds {}",
                case.name(),
                names.join(", ")
            ));
        }
        for (name, tensor) in named {
            match expected.get(name) {
                Some(expected) => {
                    compare_output(
                        &format!("{part}[{i}].{name}"),
                        tensor,
                        expected,
                        tolerance,
                        problems,
                    )?;
                }
                None => problems.add(format!("{part}[{i}]: {name} is not expected")),
            }
        }
    }
    Ok(())
}

/// The two targets of all files, of images of 96 by 128 pixels.
fn targets() -> Result<Vec<Target>, TorshError> {
    let boxes: [&[[i64; 4]]; 2] = [&[[8, 10, 60, 70], [50, 20, 120, 90]], &[[30, 5, 90, 50]]];
    let of_image = |boxes: &[[i64; 4]]| {
        let n = boxes.len();
        let (mut masks, mut points) = (Vec::new(), Vec::new());
        for &[x1, y1, x2, y2] in boxes {
            let mask = zeros(&[96, 128]).to_dtype(DType::U8)?;
            mask.narrow(0, y1, y2 - y1)?
                .narrow(1, x1, x2 - x1)?
                .fill_(1)?;
            masks.push(mask);
            let (x, y) = (linspace(x1, x2, 17), linspace(y1, y2, 17));
            points.push(stack(&[x, y, ones(&[17])], 1)?);
        }
        let corners: Vec<f32> = boxes.iter().flatten().map(|&v| v as f32).collect();
        let target = Target::new(
            Tensor::from_vec(corners, [n, 4])?,
            Tensor::from_vec(vec![1i64; n], [n])?,
        );
        Ok(target
            .masks(stack(&masks, 0)?)
            .keypoints(stack(&points, 0)?))
    };
    boxes.iter().map(|b| of_image(b)).collect()
}
