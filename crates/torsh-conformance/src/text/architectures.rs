//! Tiny models: their keys, outputs, losses, norms of gradients, and what they write.
//!
//! Each of these is a case of its own, so that one that fails does not hide the others. A model is built once for all
//! of them: it writes in float32, and is then converted to float64 for its loss.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value as Json;
use torsh_core::random::manual_seed;
use torsh_nn::{ModuleExt, Parameter};
use torsh_serialize::safetensors;
use torsh_tensor::{DType, Tensor, TorshError, no_grad, rand};
use torsh_text::generation::{GenerateInputs, GenerationExt, GenerationModel, GenerationOptions};
use torsh_text::models::{ModelInputs, ModelOutputs, TextModel, from_config};

use super::{Options, Report, tell};
use crate::case::Ordered;
use crate::panics::catch;
use crate::section::{Problems, compare_keys, field, number, sizes, text};
use crate::source::Source;
use crate::torsh::drawing;

/// How many tokens a model writes.
const NEW_TOKENS: u64 = 14;
/// How many it writes after texts of different lengths.
const NEW_TOKENS_LEFT_PADDED: u64 = 8;
/// What fills up sequences.
const PAD: i64 = 0;

#[derive(Deserialize)]
struct Keys {
    keys: Ordered,
}

/// An architecture, with the tensors of all.
struct Case<'a> {
    json: &'a Json,
    /// The state dict, in order.
    keys: &'a [(String, Json)],
    tensors: &'a HashMap<String, Tensor>,
}

/// Runs the cases.
///
/// # Errors
/// If the files cannot be read.
pub fn run(source: &Source, options: &Options) -> Result<Report, String> {
    const FILE: &str = "architectures.json";
    let wrong = |e: serde_json::Error| format!("{FILE}: {e}");
    let bytes = super::read(source, FILE)?;
    let all: Ordered = serde_json::from_slice(&bytes).map_err(wrong)?;
    let keys: BTreeMap<String, Keys> = serde_json::from_slice(&bytes).map_err(wrong)?;
    let tensors = super::read(source, "architectures.safetensors")?;
    let tensors = safetensors::load_bytes(&tensors).map_err(text)?.tensors;
    let tensors = tensors.into_iter().collect();
    let mut report = Report::default();
    for (i, (name, json)) in all.0.iter().enumerate() {
        if !options.takes(i, name) {
            continue;
        }
        let case = Case {
            json,
            keys: keys.get(name).map_or(&[], |k| &k.keys.0),
            tensors: &tensors,
        };
        case.run(&mut |part, result| {
            tell(&mut report, options, format!("{name} {part}"), result);
        });
    }
    Ok(report)
}

/// Takes a part of an architecture and what came of it.
type Tell<'a> = &'a mut dyn FnMut(String, Result<(), String>);

impl Case<'_> {
    fn run(&self, tell: Tell) {
        // Tests run at the same time, and the generator is the process's.
        let _drawing = drawing();
        let mut model = match catch(|| self.build()).flatten() {
            Ok(model) => model,
            Err(e) => return tell("built".into(), Err(e)),
        };
        tell("keys".into(), catch(|| self.keys(&*model)).flatten());
        if let Err(e) = self.fill(&*model) {
            return tell("weights".into(), Err(e));
        }
        model.eval();
        tell("outputs".into(), catch(|| self.outputs(&*model)).flatten());
        for (i, json) in list(self.json, "generate").iter().enumerate() {
            let name = format!("generate {i} {}", json["options"]);
            tell(name, catch(|| self.generated(&*model, json)).flatten());
        }
        if let Some(json) = self.json.get("generate_left_padded") {
            let result = catch(|| self.left_padded(&*model, json)).flatten();
            tell("generate left padded".into(), result);
        }
        let result = catch(|| self.gradients(&mut *model)).flatten();
        tell("loss and gradients".into(), result);
    }

    fn build(&self) -> Result<Box<dyn TextModel>, String> {
        let class = field(self.json, "model_class")?.as_str();
        let class = class.ok_or("model_class is no text")?;
        from_config(class, field(self.json, "config")?.clone()).map_err(text)
    }

    fn keys(&self, model: &dyn TextModel) -> Result<(), String> {
        let ours = model.state_dict();
        let mut problems = Problems::default();
        let names: Vec<&str> = ours.keys().collect();
        let expected: Vec<&str> = self.keys.iter().map(|(name, _)| name.as_str()).collect();
        compare_keys(&names, &expected, &mut problems);
        for (name, shape) in self.keys {
            if let Some(tensor) = ours.get(name)
                && tensor.dims() != sizes(shape)?
            {
                problems.add(format!("{name} is {:?}, not {shape}", tensor.dims()));
            }
        }
        problems.result()
    }

    /// Puts the weights that all computers draw alike in the place of the model's.
    fn fill(&self, model: &dyn TextModel) -> Result<(), String> {
        let names = list(self.json, "parameters").iter().map(Json::as_str);
        let names: Option<Vec<&str>> = names.collect();
        let mut names = names.ok_or("parameters are no texts")?;
        names.sort_unstable();
        let mut problems = Problems::default();
        let own: BTreeMap<String, Parameter> = model.named_parameters().into_iter().collect();
        for name in own.keys().filter(|name| !names.contains(&name.as_str())) {
            problems.add(format!("{name} is a parameter of ours alone"));
        }
        let shapes: HashMap<&str, &Json> = self.keys.iter().map(|(k, s)| (k.as_str(), s)).collect();
        manual_seed(number(self.json, "fill_seed")? as u64);
        for name in names {
            let shape = shapes
                .get(name)
                .ok_or_else(|| format!("{name} is no key"))?;
            let drawn = rand(&sizes(shape)?[..]);
            let Some(parameter) = own.get(name) else {
                problems.add(format!("{name} is no parameter of ours"));
                continue;
            };
            if let Err(e) = no_grad(|| parameter.copy_(&weights(name, &drawn)?)) {
                problems.add(format!("{name}: {e}"));
            }
        }
        problems.result()
    }

    /// Inputs by name, whose floats have this dtype.
    fn inputs(&self, json: &Json, dtype: DType) -> Result<ModelInputs, String> {
        let mut inputs = ModelInputs::default();
        for (name, value) in json.as_object().ok_or("inputs are no object")? {
            // "as above" stands for what the model itself was given.
            let value = match value.as_str() {
                Some("as above") => field(field(self.json, "inputs")?, name)?,
                _ => value,
            };
            let tensor = Some(match value.as_str() {
                Some(file) => self.tensor(file)?.to_dtype(dtype).map_err(text)?,
                None => integers(value)?,
            });
            match name.as_str() {
                "input_ids" => inputs.input_ids = tensor,
                "attention_mask" => inputs.attention_mask = tensor,
                "token_type_ids" => inputs.token_type_ids = tensor,
                "decoder_input_ids" => inputs.decoder_input_ids = tensor,
                "pixel_values" => inputs.pixel_values = tensor,
                "input_features" => inputs.input_features = tensor,
                "input_values" => inputs.input_values = tensor,
                other => return Err(format!("this program knows no input {other}")),
            }
        }
        Ok(inputs)
    }

    fn tensor(&self, name: &str) -> Result<&Tensor, String> {
        let tensor = self.tensors.get(name);
        tensor.ok_or_else(|| format!("the file of tensors has no {name}"))
    }

    fn forward(&self, model: &dyn TextModel, dtype: DType) -> Result<ModelOutputs, String> {
        let inputs = self.inputs(field(self.json, "inputs")?, dtype)?;
        model.forward_named(&inputs).map_err(text)
    }

    fn outputs(&self, model: &dyn TextModel) -> Result<(), String> {
        let ours = no_grad(|| Ok(self.forward(model, DType::F32))).map_err(text)??;
        let expected = field(self.json, "outputs")?;
        let mut problems = Problems::default();
        for (name, row) in expected.as_object().ok_or("outputs are no object")? {
            let file = row[0].as_str().ok_or("an output has no tensor")?;
            let Some((_, tensor)) = ours.iter().find(|(n, _)| n == name) else {
                problems.add(format!("there is no output {name}"));
                continue;
            };
            compare(name, tensor, self.tensor(file)?, &mut problems)?;
        }
        problems.result()
    }

    /// The loss in float64 and the norms of its gradients.
    fn gradients(&self, model: &mut dyn TextModel) -> Result<(), String> {
        const TOLERANCE: f64 = 1e-6;
        // The reference computes norms and softmax in float32 in float64 models too. What that rounds reaches its
        // gradients: 3e-6 of Gemma's embedding, 6e-6 of Mamba's mixers.
        const OF_GRADIENTS: f64 = 1e-5;
        model.to_dtype(DType::F64).map_err(text)?;
        model.zero_grad();
        let outputs = self.forward(model, DType::F64)?;
        let loss = self.loss(&outputs)?;
        loss.backward().map_err(text)?;
        let mut problems = Problems::default();
        let (ours, expected) = (
            loss.item::<f64>().map_err(text)?,
            number(self.json, "loss_f64")?,
        );
        if !((ours - expected).abs() <= TOLERANCE * expected.abs()) {
            problems.add(format!("the loss is {ours}, not {expected}"));
        }
        let norms = field(self.json, "grad_norms_f64")?;
        let norms = norms.as_object().ok_or("grad_norms_f64 is no object")?;
        let largest = norms.values().filter_map(Json::as_f64).fold(0.0, f64::max);
        // Below this a gradient is 0 but for rounding, as that of a key's bias is, which softmax cancels.
        let zero = 1e-7 * largest;
        for (name, p) in model.named_parameters() {
            let norm = match p.grad() {
                Some(grad) => grad.norm().and_then(|n| n.item::<f64>()).map_err(text)?,
                None => 0.0,
            };
            let expected = norms.get(&name).and_then(Json::as_f64).unwrap_or(0.0);
            let near = match expected < zero {
                true => norm < zero,
                false => (norm - expected).abs() <= OF_GRADIENTS * expected,
            };
            if !near {
                problems.add(format!(
                    "the gradient of {name} has norm {norm}, not {expected}"
                ));
            }
        }
        problems.result()
    }

    /// `mean of squares of NAME`, of which positions that are padding may be left out.
    fn loss(&self, outputs: &ModelOutputs) -> Result<Tensor, String> {
        let is = field(self.json, "loss_is")?.as_str().unwrap_or("");
        let unknown = || format!("this program knows no loss {is:?}");
        let of = is.strip_prefix("mean of squares of ").ok_or_else(unknown)?;
        let (name, mask) = match of.split_once(" times ") {
            Some((name, mask)) => (name, Some(mask)),
            None => (of, None),
        };
        let output = outputs.iter().find(|(n, _)| *n == name);
        let (_, output) = output.ok_or_else(unknown)?;
        let mask = match mask {
            Some(mask) => Some(integers(field(field(self.json, "inputs")?, mask)?)?),
            None => None,
        };
        let loss = || {
            let output = match mask {
                Some(mask) => output.mul(&mask.unsqueeze(-1)?.to_dtype(output.dtype())?)?,
                None => output.clone(),
            };
            output.mul(&output)?.mean()
        };
        loss().map_err(text)
    }

    /// Sequences that the model writes, token by token, and the scores of beams.
    fn generated(&self, model: &dyn TextModel, json: &Json) -> Result<(), String> {
        let inputs = self.inputs(field(json, "inputs")?, DType::F32)?;
        let mut options = field(json, "options")?.clone();
        options["max_new_tokens"] = NEW_TOKENS.into();
        options["pad_token_id"] = PAD.into();
        manual_seed(number(json, "seed")? as u64);
        self.sequences(model, &inputs, options, json)
    }

    /// Greedy sequences after texts of different lengths.
    fn left_padded(&self, model: &dyn TextModel, json: &Json) -> Result<(), String> {
        let mut inputs = ModelInputs::ids(integers(field(json, "input_ids")?)?);
        inputs.attention_mask = Some(integers(field(json, "attention_mask")?)?);
        let options = serde_json::json!({
            "do_sample": false, "max_new_tokens": NEW_TOKENS_LEFT_PADDED, "pad_token_id": PAD
        });
        self.sequences(model, &inputs, options, json)
    }

    fn sequences(
        &self,
        model: &dyn TextModel,
        inputs: &ModelInputs,
        options: Json,
        json: &Json,
    ) -> Result<(), String> {
        let model = model.as_generation().ok_or("the model writes no texts")?;
        let options = GenerationOptions::from_json(options).map_err(text)?;
        let output = generate(model, inputs, &options).map_err(text)?;
        let mut problems = Problems::default();
        let expected: Vec<Vec<i64>> =
            serde_json::from_value(field(json, "sequences")?.clone()).map_err(|e| e.to_string())?;
        for (i, expected) in expected.iter().enumerate() {
            match output.sequences.get(i) {
                Some(ours) if ours == expected => {}
                Some(ours) => problems.add(format!("sequence {i} is {ours:?}, not {expected:?}")),
                None => problems.add(format!("there is no sequence {i}")),
            }
        }
        if output.sequences.len() > expected.len() {
            let (ours, expected) = (output.sequences.len(), expected.len());
            problems.add(format!("there are {ours} sequences, not {expected}"));
        }
        for (i, expected) in list(json, "sequences_scores").iter().enumerate() {
            let expected = expected.as_f64().ok_or("a score is no number")?;
            match output.scores.get(i) {
                Some(ours) if (ours - expected).abs() <= 1e-5 * expected.abs().max(1.0) => {}
                ours => problems.add(format!("the score of {i} is {ours:?}, not {expected}")),
            }
        }
        problems.result()
    }
}

/// What a model wrote.
struct Written {
    sequences: Vec<Vec<i64>>,
    /// Of beams.
    scores: Vec<f64>,
}

/// Lets a model write.
fn generate(
    model: &dyn GenerationModel,
    inputs: &ModelInputs,
    options: &GenerationOptions,
) -> Result<Written, TorshError> {
    let mut given = match &inputs.input_features {
        Some(features) => GenerateInputs::features(features),
        None => GenerateInputs::ids(inputs.input_ids()?),
    };
    if let Some(mask) = &inputs.attention_mask {
        given = given.attention_mask(mask.clone());
    }
    if let Some(ids) = &inputs.decoder_input_ids {
        given = given.decoder_input_ids(ids.clone());
    }
    let output = model.generate_with(given, options)?;
    let length = output.sequences.size(1)?.max(1);
    let ids = output.sequences.to_vec::<i64>()?;
    let scores = output.sequences_scores.map(|s| s.to_vec::<f64>());
    Ok(Written {
        sequences: ids.chunks(length).map(<[i64]>::to_vec).collect(),
        scores: scores.transpose()?.unwrap_or_default(),
    })
}

/// A list of a field; empty where there is none.
fn list<'a>(json: &'a Json, name: &str) -> &'a [Json] {
    let list = json.get(name).and_then(Json::as_array);
    list.map_or(&[], |l| &l[..])
}

/// Nested lists of whole numbers as an int64 tensor.
fn integers(json: &Json) -> Result<Tensor, String> {
    let rows: Vec<Vec<i64>> = serde_json::from_value(json.clone())
        .map_err(|e| format!("lists of whole numbers were expected: {e}"))?;
    let shape = [rows.len(), rows.first().map_or(0, Vec::len)];
    Tensor::from_vec(rows.concat(), &shape).map_err(text)
}

/// The weights of a parameter, from numbers between 0 and 1.
fn weights(name: &str, drawn: &Tensor) -> Result<Tensor, TorshError> {
    let lower = name.to_lowercase();
    let norm = ["norm", "ln_", ".ln"]
        .iter()
        .any(|part| lower.contains(part));
    let r = drawn.mul(2.0)?.sub(1.0)?;
    match drawn.ndim() {
        2.. => r.mul(0.5),
        _ if !name.ends_with("bias") && norm && name.ends_with("weight") => r.mul(0.1)?.add(1.0),
        _ => r.mul(0.1),
    }
}

/// Compares a tensor with the expected one, to 1e-4 of the size of its elements.
fn compare(
    name: &str,
    ours: &Tensor,
    expected: &Tensor,
    problems: &mut Problems,
) -> Result<(), String> {
    const TOLERANCE: f64 = 1e-4;
    if ours.dims() != expected.dims() {
        problems.add(format!(
            "{name} is {:?}, not {:?}",
            ours.dims(),
            expected.dims()
        ));
        return Ok(());
    }
    let numbers = |t: &Tensor| -> Result<Vec<f64>, TorshError> {
        t.detach()
            .to_dtype(DType::F64)?
            .reshape([-1])?
            .to_vec::<f64>()
    };
    let (ours, expected) = (
        numbers(ours).map_err(text)?,
        numbers(expected).map_err(text)?,
    );
    let squares: f64 = expected.iter().map(|x| x * x).sum();
    let size = (squares / expected.len().max(1) as f64).sqrt();
    let off = |(a, b): (&f64, &f64)| !((a - b).abs() <= TOLERANCE * size.max(b.abs()));
    let wrong: Vec<usize> = (0..ours.len())
        .filter(|&i| off((&ours[i], &expected[i])))
        .collect();
    if let Some(&i) = wrong.first() {
        problems.add(format!(
            "{name}: element {i} is {}, not {}; {} of {} are wrong",
            ours[i],
            expected[i],
            wrong.len(),
            ours.len()
        ));
    }
    Ok(())
}
