//! Pictures: classification (EfficientNet-Lite0), reading text (EasyOCR's recogniser), faces (MTCNN's three networks).

use serde_json::Value as Json;
use torsh_functional as F;
use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{
    Conv2dOptions, DType, InterpolateMode, InterpolateOptions, MaxPool2dOptions,
    Result as TensorResult, RnnOptions, Tensor, no_grad, zeros,
};
use torsh_vision::io::ImageReadMode;
use torsh_vision::models::{self, EfficientNetLite};
use torsh_vision::transforms::functional::{ResizeOptions, center_crop, resize_with};

use super::case::{Case, Results, counts, equal, list, number, numbers, object, string, text};
use super::near::{argmax, norm};
use super::state::State;

pub(super) fn efficientnet_lite0(case: &Case<'_>) -> Result<Results, String> {
    let path = case.path("efficientnet_lite0/efficientnet-lite0-57934424.pth");
    let model = models::efficientnet_lite0(path).map_err(text)?;
    model.eval();
    let images = object(case.want, "images")?.iter();
    Ok(images
        .map(|(name, want)| (name.clone(), classified(case, &model, name, want)))
        .collect())
}

fn classified(
    case: &Case<'_>,
    model: &EfficientNetLite,
    name: &str,
    want: &Json,
) -> Result<f64, String> {
    let picture = case.picture(name, ImageReadMode::Rgb)?;
    let options = ResizeOptions::new().interpolation(InterpolateMode::Bicubic);
    let crop = resize_with(&picture, 256usize, options)
        .and_then(|x| center_crop(&x, 224usize))
        .map_err(text)?;
    let pixels = crop.to_vec::<u8>().map_err(text)?;
    let at = |channel: usize, row: usize, column: usize| {
        pixels.get((channel * 224 + row) * 224 + column).copied()
    };
    let sum: f64 = pixels.iter().map(|&p| f64::from(p)).sum();
    let some = [at(0, 100, 100), at(2, 200, 50)].map(|p| p.map_or(-1.0, f64::from));
    let digest = vec![sum, some[0], some[1]];
    equal("crop_digest", digest, numbers(want, "crop_digest")?)?;
    let logits = no_grad(|| {
        let x = crop.to_dtype(DType::F32)?.sub(127)?.div(128)?;
        model.forward(&x.unsqueeze(0)?)?.select(0, 0)
    });
    let logits = logits.map_err(text)?;
    let prob = logits.softmax(0).and_then(|p| p.to_vec::<f64>());
    let (prob, logits) = (prob.map_err(text)?, logits.to_vec::<f64>().map_err(text)?);
    let mut order: Vec<usize> = (0..prob.len()).collect();
    order.sort_by(|&a, &b| prob[b].total_cmp(&prob[a]));
    order.truncate(5);
    let best: Vec<f64> = order.iter().map(|&i| prob[i]).collect();
    equal("top5", order, counts(want, "top5")?)?;
    let mut near = case.near()?;
    near.head("prob", &best, &numbers(want, "prob")?)?;
    near.head("logits", &logits, &numbers(want, "logits_head")?)?;
    near.number("logits_norm", norm(&logits), number(want, "logits_norm")?)?;
    Ok(near.used())
}

pub(super) fn english_g2(case: &Case<'_>) -> Result<Results, String> {
    let state = State::of(&case.load("easyocr/english_g2.pth")?)?;
    let characters: Vec<char> = string(case.want, "characters")?.chars().collect();
    let mut results = Results::new();
    for line in list(case.want, "lines")? {
        let name = string(line, "image")?;
        results.push((name.into(), read(case, &state, &characters, line)));
    }
    Ok(results)
}

fn read(case: &Case<'_>, state: &State, characters: &[char], want: &Json) -> Result<f64, String> {
    let picture = case.picture(string(want, "image")?, ImageReadMode::Gray)?;
    let logits = recognised(state, &picture).map_err(text)?;
    equal(
        "the shape",
        logits.dims(),
        counts(want, "shape")?.as_slice(),
    )?;
    let classes = logits.dims()[1];
    let logits = logits.to_vec::<f64>().map_err(text)?;
    let best: Vec<usize> = logits.chunks_exact(classes.max(1)).map(argmax).collect();
    let (mut decoded, mut last) = (String::new(), 0);
    for &class in &best {
        // Class 0 is the blank, and a class that stays is one character.
        if class != 0 && class != last {
            decoded.push(characters.get(class - 1).copied().unwrap_or('?'));
        }
        last = class;
    }
    equal("argmax", best, counts(want, "argmax")?)?;
    equal("the text", decoded.as_str(), string(want, "decoded")?)?;
    let mut near = case.near()?;
    near.head("logits", &logits, &numbers(want, "logits_head")?)?;
    near.number("logits_norm", norm(&logits), number(want, "logits_norm")?)?;
    Ok(near.used())
}

/// The scores `[steps, classes]` of a grey picture: a VGG, the mean over the height, two bidirectional LSTMs.
fn recognised(state: &State, picture: &Tensor) -> TensorResult<Tensor> {
    let (height, width) = (picture.dims()[1], picture.dims()[2]);
    let options = InterpolateOptions::new()
        .size([64, (64 * width).div_ceil(height)])
        .mode(InterpolateMode::Bicubic)
        .antialias(true);
    let x = picture.to_dtype(DType::F32)?.unsqueeze(0)?;
    let x = F::interpolate_with(&x, options)?.clamp(0.0, 255.0)?;
    let x = x.div(127.5)?.sub(1)?;

    let conv = |layer: usize, padding: i64, x: &Tensor| {
        let options = Conv2dOptions::new().padding(padding);
        state.conv2d(&format!("FeatureExtraction.ConvNet.{layer}"), x, options)
    };
    let norm = |layer: usize, x: &Tensor| {
        state.batch_norm(&format!("FeatureExtraction.ConvNet.{layer}"), x, 1e-5)
    };
    let x = F::max_pool2d(&conv(0, 1, &x)?.relu()?, 2)?;
    let x = F::max_pool2d(&conv(3, 1, &x)?.relu()?, 2)?;
    let x = conv(6, 1, &x)?.relu()?;
    let x = F::max_pool2d(&conv(8, 1, &x)?.relu()?, (2, 1))?;
    let x = norm(12, &conv(11, 1, &x)?)?.relu()?;
    let x = F::max_pool2d(&norm(15, &conv(14, 1, &x)?)?.relu()?, (2, 1))?;
    let x = conv(18, 0, &x)?.relu()?;
    // [1, channels, height, width] to [1, width, channels].
    let mut x = x.mean_dim(2, false)?.permute([0, 2, 1])?;

    for layer in 0..2 {
        let name = format!("SequenceModeling.{layer}");
        let mut params = Vec::new();
        for direction in ["", "_reverse"] {
            for part in ["weight_ih", "weight_hh", "bias_ih", "bias_hh"] {
                let param = state.get(&format!("{name}.rnn.{part}_l0{direction}"))?;
                params.push(param.clone());
            }
        }
        let units = params[1].dims().last().copied().unwrap_or(0);
        let zero = zeros([2, 1, units]);
        let options = RnnOptions::new().bidirectional(true).batch_first(true);
        let (y, _, _) = F::lstm(&x, (&zero, &zero), &params, options)?;
        x = state.linear(&format!("{name}.linear"), &y)?;
    }
    state.linear("Prediction", &x)?.select(0, 0)
}

pub(super) fn mtcnn(case: &Case<'_>) -> Result<Results, String> {
    let picture = case.picture("astronaut.png", ImageReadMode::Rgb)?;
    let face = picture
        .narrow(1, 10, 120)
        .and_then(|x| x.narrow(2, 80, 120))
        .and_then(|x| x.to_dtype(DType::F32)?.unsqueeze(0))
        .map_err(text)?;
    let nets: [(&str, i64, fn(&State, &Tensor) -> TensorResult<Vec<Tensor>>); 3] =
        [("pnet", 64, pnet), ("rnet", 24, rnet), ("onet", 48, onet)];
    let all = object(case.want, "nets")?;
    let mut results = Results::new();
    for (name, want) in all {
        let result = match nets.iter().find(|(net, ..)| net == name) {
            None => Err(format!("there is no net {name}")),
            Some(&(_, size, net)) => {
                let want = want.as_array().map_or(&[][..], Vec::as_slice);
                outputs(case, &format!("mtcnn/{name}.pt"), &face, size, net, want)
            }
        };
        results.push((name.clone(), result));
    }
    Ok(results)
}

/// Runs a net on the face at a size, and compares its outputs.
fn outputs(
    case: &Case<'_>,
    file: &str,
    face: &Tensor,
    size: i64,
    net: fn(&State, &Tensor) -> TensorResult<Vec<Tensor>>,
    want: &[Json],
) -> Result<f64, String> {
    let state = State::of(&case.load(file)?)?;
    let options = InterpolateOptions::new()
        .size([size, size])
        .mode(InterpolateMode::Area);
    let got = F::interpolate_with(face, options)
        .and_then(|x| net(&state, &x.sub(127.5)?.mul(0.0078125)?))
        .map_err(text)?;
    equal("the number of outputs", got.len(), want.len())?;
    let mut near = case.near()?;
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let of = |what: &str| format!("{what} of output {i}");
        equal(
            &of("the shape"),
            got.dims(),
            counts(want, "shape")?.as_slice(),
        )?;
        let values = got.to_vec::<f64>().map_err(text)?;
        near.head(&of("head"), &values, &numbers(want, "head")?)?;
        near.number(&of("norm"), norm(&values), number(want, "norm")?)?;
        let max = values.get(argmax(&values)).copied().unwrap_or(f64::NAN);
        near.number(&of("max"), max, number(want, "max")?)?;
    }
    Ok(near.used())
}

/// A convolution and its PReLU.
fn conv(state: &State, layer: usize, x: &Tensor) -> TensorResult<Tensor> {
    let x = state.conv2d(&format!("conv{layer}"), x, Conv2dOptions::new())?;
    state.prelu(&format!("prelu{layer}"), &x)
}

/// The greatest elements of windows in steps of 2.
fn pool(kernel_size: i64, x: &Tensor) -> TensorResult<Tensor> {
    let options = MaxPool2dOptions::new().stride(2).ceil_mode(true);
    F::max_pool2d_with(x, kernel_size, options)
}

/// A linear layer and its PReLU, of channels that come last, as the weights were trained.
fn dense(state: &State, layer: usize, x: &Tensor) -> TensorResult<Tensor> {
    let x = x.permute([0, 3, 2, 1])?.flatten(1)?;
    let x = state.linear(&format!("dense{layer}"), &x)?;
    state.prelu(&format!("prelu{layer}"), &x)
}

fn pnet(state: &State, x: &Tensor) -> TensorResult<Vec<Tensor>> {
    let x = pool(2, &conv(state, 1, x)?)?;
    let x = conv(state, 3, &conv(state, 2, &x)?)?;
    let faces = state.conv2d("conv4_1", &x, Conv2dOptions::new())?;
    let boxes = state.conv2d("conv4_2", &x, Conv2dOptions::new())?;
    Ok(vec![boxes, faces.softmax(1)?])
}

fn rnet(state: &State, x: &Tensor) -> TensorResult<Vec<Tensor>> {
    let x = pool(3, &conv(state, 1, x)?)?;
    let x = pool(3, &conv(state, 2, &x)?)?;
    let x = dense(state, 4, &conv(state, 3, &x)?)?;
    let faces = state.linear("dense5_1", &x)?.softmax(1)?;
    Ok(vec![state.linear("dense5_2", &x)?, faces])
}

fn onet(state: &State, x: &Tensor) -> TensorResult<Vec<Tensor>> {
    let x = pool(3, &conv(state, 1, x)?)?;
    let x = pool(3, &conv(state, 2, &x)?)?;
    let x = pool(2, &conv(state, 3, &x)?)?;
    let x = dense(state, 5, &conv(state, 4, &x)?)?;
    let faces = state.linear("dense6_1", &x)?.softmax(1)?;
    let (boxes, points) = (state.linear("dense6_2", &x)?, state.linear("dense6_3", &x)?);
    Ok(vec![boxes, points, faces])
}
