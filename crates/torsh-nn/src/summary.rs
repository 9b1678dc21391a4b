//! A table of a model's layers.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use torsh_tensor::{DType, Device, IntoShape, Result, Tensor, no_grad};

use crate::module::{FieldRef, Module, ModuleExt, Training, walk};

/// A row of a [`ModelSummary`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerSummary {
    /// The dot-joined name; empty for the model itself.
    pub name: String,
    /// The layer's type, as `Conv2d`.
    pub type_name: String,
    /// How many levels it is below the model.
    pub depth: usize,
    /// Whether it has no layers below it.
    pub is_leaf: bool,
    /// The shape that came in at its first call, where it was called and has hooks.
    pub input_size: Option<Vec<usize>>,
    /// The shape that went out at its first call.
    pub output_size: Option<Vec<usize>>,
    /// How often it was called.
    pub calls: usize,
    /// The elements of its parameters, those below it included; tied ones once.
    pub params: usize,
    /// How many of them are trained.
    pub trainable_params: usize,
    /// The multiply-adds of all its calls and those of the layers below it, by torchinfo's count:
    /// each element of weights and biases once for each sample, of a convolution once for each
    /// place of the window, of a recurrent layer once for each step.
    pub mult_adds: u64,
    /// Whether an earlier row is the same layer (its parameters are those).
    pub repeated: bool,
}

/// The layers of a model as a tree: shapes, parameters, multiply-adds, sizes. Made by [`summary`].
///
/// Printed it is a table like torchinfo's, whose figures these are.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSummary {
    /// The model and the layers below it, each ahead of its own.
    pub layers: Vec<LayerSummary>,
    /// The elements of all parameters, tied ones once.
    pub total_params: usize,
    /// How many of them are trained.
    pub trainable_params: usize,
    /// The multiply-adds of the run.
    pub total_mult_adds: u64,
    /// The bytes of the input.
    pub input_bytes: usize,
    /// The bytes of the outputs of layers with parameters, twice: values and gradients.
    pub forward_backward_bytes: usize,
    /// The bytes of all parameters.
    pub params_bytes: usize,
}

impl ModelSummary {
    /// The layers and parameters of a model that is not run: without shapes and multiply-adds,
    /// which [`summary`] has.
    ///
    /// ```
    /// use torsh_nn::{Linear, ModelSummary, ReLU, sequential};
    /// let model = sequential![Linear::new(4, 8), ReLU::new(), Linear::new(8, 2)];
    /// let summary = ModelSummary::new(&model);
    /// assert_eq!((summary.total_params, summary.layers.len()), (40 + 18, 4));
    /// summary.print_detailed();
    /// ```
    pub fn new(model: &dyn Module) -> ModelSummary {
        let modules = model.named_modules();
        let calls: Vec<Vec<Call>> = modules.iter().map(|_| Vec::new()).collect();
        of(model, &[], &modules, &calls)
    }

    /// Prints the table.
    pub fn print_detailed(&self) {
        println!("{self}");
    }

    /// How many elements of parameters are frozen.
    pub fn non_trainable_params(&self) -> usize {
        self.total_params - self.trainable_params
    }

    /// The bytes of input, outputs and parameters.
    pub fn total_bytes(&self) -> usize {
        self.input_bytes + self.forward_backward_bytes + self.params_bytes
    }

    /// The row of a layer by its dot-joined name.
    pub fn layer(&self, name: &str) -> Option<&LayerSummary> {
        self.layers.iter().find(|l| l.name == name)
    }
}

/// The summary of a model for an input of a size, made of zeros of the dtype and device of the
/// first parameter.
///
/// The run is in evaluation mode and records nothing. For a model made on [`Device::Meta`] nothing
/// is computed or allocated.
///
/// ```
/// use torsh_nn::{Conv2d, Flatten, Linear, sequential, summary};
/// let model = sequential![Conv2d::new(3, 8, 3, 1, 1)?, Flatten::new(), Linear::new(512, 10)];
/// let summary = summary(&model, [2, 3, 8, 8])?;
/// assert_eq!(summary.total_params, 224 + 5130);
/// assert_eq!(summary.total_mult_adds, 224 * 2 * 64 + 5130 * 2);
/// assert_eq!(summary.layer("0").unwrap().output_size, Some(vec![2, 8, 8, 8]));
/// println!("{summary}");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn summary(model: &dyn Module, input_size: impl IntoShape) -> Result<ModelSummary> {
    let (dtype, device) = match model.parameters().first() {
        Some(p) => (p.dtype(), p.device()),
        None => (torsh_core::default_dtype(), Device::Cpu),
    };
    let input = Tensor::zeros(input_size, dtype, device)?;
    summary_with(model, &[&input], |model| model.forward(&input).map(|_| ()))
}

/// The summary of a model from a run of one's own, for models that take more than one tensor or
/// none of floating point. `inputs` only count for the size of the input.
///
/// ```
/// use torsh_nn::{Embedding, Module, summary_with};
/// use torsh_tensor::tensor;
/// let model = Embedding::new(100, 4)?;
/// let words = tensor![[1, 2, 3]];
/// let summary = summary_with(&model, &[&words], |m| m.forward(&words).map(|_| ()))?;
/// assert_eq!(summary.input_bytes, 3 * 8);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn summary_with(
    model: &dyn Module,
    inputs: &[&Tensor],
    run: impl FnOnce(&dyn Module) -> Result<()>,
) -> Result<ModelSummary> {
    let modules = model.named_modules();
    let calls = watch(model, &modules, run)?;
    Ok(of(model, inputs, &modules, &calls))
}

/// The summary of a model whose modules were called so.
fn of(
    model: &dyn Module,
    inputs: &[&Tensor],
    modules: &[(String, &dyn Module)],
    calls: &[Vec<Call>],
) -> ModelSummary {
    let mut out = ModelSummary {
        layers: Vec::new(),
        total_params: 0,
        trainable_params: 0,
        total_mult_adds: 0,
        input_bytes: inputs.iter().map(|t| bytes(t.dims(), t.dtype())).sum(),
        forward_backward_bytes: 0,
        params_bytes: 0,
    };
    for p in model.parameters() {
        out.total_params += p.numel();
        out.params_bytes += bytes(p.dims(), p.dtype());
        if p.requires_grad() {
            out.trainable_params += p.numel();
        }
    }
    let mut seen = HashSet::new();
    for ((name, module), calls) in modules.iter().zip(calls) {
        let parameters = module.parameters();
        let is_leaf = module.children().is_empty();
        let mult_adds = match is_leaf {
            true => calls.iter().map(|c| mult_adds(*module, &c.output)).sum(),
            false => 0,
        };
        if is_leaf && !parameters.is_empty() {
            out.forward_backward_bytes += calls
                .iter()
                .map(|c| 2 * bytes(&c.output, c.dtype))
                .sum::<usize>();
        }
        out.total_mult_adds += mult_adds;
        let trainable = parameters.iter().filter(|p| p.requires_grad());
        let ids: Vec<usize> = parameters.iter().map(|p| p.id()).collect();
        out.layers.push(LayerSummary {
            type_name: module.type_name().to_string(),
            depth: if name.is_empty() {
                0
            } else {
                depth(name, modules)
            },
            is_leaf,
            input_size: calls.first().map(|c| c.input.clone()),
            output_size: calls.first().map(|c| c.output.clone()),
            calls: calls.len(),
            params: parameters.iter().map(|p| p.numel()).sum(),
            trainable_params: trainable.map(|p| p.numel()).sum(),
            mult_adds,
            repeated: is_leaf && !ids.is_empty() && !seen.insert(ids),
            name: name.clone(),
        });
    }
    // A module's multiply-adds are those of the leaves below it.
    for i in 0..out.layers.len() {
        if !out.layers[i].is_leaf {
            let depth = out.layers[i].depth;
            let below = out.layers[i + 1..].iter().take_while(|l| l.depth > depth);
            out.layers[i].mult_adds = below.filter(|l| l.is_leaf).map(|l| l.mult_adds).sum();
        }
    }
    out
}

struct Call {
    input: Vec<usize>,
    output: Vec<usize>,
    dtype: DType,
}

/// Runs a model in evaluation mode, and tells the calls of each module.
#[track_caller]
fn watch(
    model: &dyn Module,
    modules: &[(String, &dyn Module)],
    run: impl FnOnce(&dyn Module) -> Result<()>,
) -> Result<Vec<Vec<Call>>> {
    let mut flags: Vec<(&Training, bool)> = Vec::new();
    walk(model, &mut |_, field| {
        if let FieldRef::Training(t) = field {
            flags.push((t, t.get()));
        }
    });
    let calls: Vec<Arc<Mutex<Vec<Call>>>> = modules.iter().map(|_| Arc::default()).collect();
    let mut handles = Vec::new();
    for ((_, module), calls) in modules.iter().zip(&calls) {
        let calls = Arc::clone(calls);
        // A module without hooks has a row without shapes.
        let handle = module.register_forward_hook(move |_, x, y| {
            let call = Call {
                input: x.dims().to_vec(),
                output: y.dims().to_vec(),
                dtype: y.dtype(),
            };
            let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls.push(call);
            Ok(None)
        });
        handles.extend(handle);
    }
    model.eval();
    let result = no_grad(|| run(model));
    for (flag, training) in flags {
        flag.set(training);
    }
    for handle in handles {
        handle.remove();
    }
    result?;
    let take = |calls: &Arc<Mutex<Vec<Call>>>| {
        std::mem::take(&mut *calls.lock().unwrap_or_else(PoisonError::into_inner))
    };
    Ok(calls.iter().map(take).collect())
}

/// How many of a name's prefixes are modules, the model itself included.
fn depth(name: &str, modules: &[(String, &dyn Module)]) -> usize {
    let is_module = |prefix: &str| modules.iter().any(|(n, _)| n == prefix);
    1 + name
        .match_indices('.')
        .filter(|(at, _)| is_module(&name[..*at]))
        .count()
}

fn bytes(shape: &[usize], dtype: DType) -> usize {
    shape.iter().product::<usize>() * dtype.size()
}

/// The multiply-adds of one call of a layer, as torchinfo counts them.
fn mult_adds(module: &dyn Module, output: &[usize]) -> u64 {
    let places: usize = if module.type_name().contains("Conv") {
        let window = output.get(2..).unwrap_or(&[]);
        output.iter().take(1).chain(window).product()
    } else {
        output.first().copied().unwrap_or(1)
    };
    let steps: usize = output.iter().take(2).product();
    let each = |(name, p): (String, crate::Parameter)| {
        let times = match name.as_str() {
            "weight" | "bias" => places,
            n if n.contains("weight") || n.contains("bias") => steps,
            _ => 0,
        };
        (p.numel() * times) as u64
    };
    module.named_parameters().into_iter().map(each).sum()
}

/// `1234567` as `1,234,567`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

fn shown(size: Option<&Vec<usize>>) -> String {
    size.map_or("--".to_string(), |s| format!("{s:?}"))
}

fn count(n: u64) -> String {
    if n == 0 { "--".to_string() } else { grouped(n) }
}

impl fmt::Display for ModelSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "Layer (type (name))",
            "Input Shape",
            "Output Shape",
            "Param #",
            "Mult-Adds",
        ];
        let mut rows = vec![head.map(String::from)];
        for layer in &self.layers {
            let last = layer.name.rsplit('.').next().unwrap_or("");
            let (indent, name) = match layer.depth {
                0 => (String::new(), layer.type_name.clone()),
                1 => ("├─".to_string(), format!("{} ({last})", layer.type_name)),
                d => (
                    format!("{}└─", "│    ".repeat(d - 1)),
                    format!("{} ({last})", layer.type_name),
                ),
            };
            rows.push([
                indent + &name,
                shown(layer.input_size.as_ref()),
                shown(layer.output_size.as_ref()),
                match (layer.is_leaf, layer.repeated) {
                    (true, true) => "(recursive)".to_string(),
                    (true, false) => count(layer.params as u64),
                    (false, _) => "--".to_string(),
                },
                match layer.is_leaf {
                    true => count(layer.mult_adds),
                    false => "--".to_string(),
                },
            ]);
        }
        let width = |i: usize| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let total = widths.iter().map(|w| w + 2).sum();
        let rule = "=".repeat(total);
        writeln!(f, "{rule}")?;
        for (i, row) in rows.iter().enumerate() {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, &w)| format!("{cell:<w$}"))
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
            if i == 0 {
                writeln!(f, "{rule}")?;
            }
        }
        let megabytes = |bytes: usize| bytes as f64 / 1e6;
        writeln!(f, "{rule}")?;
        writeln!(f, "Total params: {}", grouped(self.total_params as u64))?;
        writeln!(
            f,
            "Trainable params: {}",
            grouped(self.trainable_params as u64)
        )?;
        writeln!(
            f,
            "Non-trainable params: {}",
            grouped(self.non_trainable_params() as u64)
        )?;
        writeln!(
            f,
            "Total mult-adds (M): {:.2}",
            self.total_mult_adds as f64 / 1e6
        )?;
        writeln!(f, "{rule}")?;
        writeln!(f, "Input size (MB): {:.2}", megabytes(self.input_bytes))?;
        writeln!(
            f,
            "Forward/backward pass size (MB): {:.2}",
            megabytes(self.forward_backward_bytes)
        )?;
        writeln!(f, "Params size (MB): {:.2}", megabytes(self.params_bytes))?;
        writeln!(
            f,
            "Estimated Total Size (MB): {:.2}",
            megabytes(self.total_bytes())
        )?;
        write!(f, "{rule}")
    }
}
