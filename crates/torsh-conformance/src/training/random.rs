//! Draws from a seed.

use std::collections::BTreeMap;

use serde::Deserialize;
use torsh_nn::{Conv2d, Embedding, LSTM, Linear, ModuleExt};
use torsh_tensor::{DType, Device, MultinomialOptions, Result, Tensor};

use super::{Checked, count, load};
use crate::case::TensorRef;
use crate::compare::{Tolerance, compare};
use crate::executor::Executor;
use crate::panics;
use crate::report::{Group, Report};
use crate::runner::Options;
use crate::source::Source;
use crate::tensors::{Dtype, Element, TensorData, TensorFile};
use crate::torsh::{data, drawing, dtype, text};

/// One draw after `manual_seed(seed)`.
#[derive(Clone, Debug, Deserialize)]
pub struct Draw {
    /// What is drawn: a function of PyTorch, or a layer's weight.
    pub op: String,
    /// The seed.
    pub seed: u64,
    /// How many elements.
    #[serde(default)]
    pub n: usize,
    tensor: String,
    shape: Vec<usize>,
    dtype: String,
    /// The distribution's numbers by PyTorch's names.
    #[serde(flatten)]
    pub settings: BTreeMap<String, f64>,
}

/// Draws that pass through a logarithm or a cosine, whose last bits no standard fixes.
const WITHIN_2_ULP: &[&str] = &[
    "randn",
    "normal_",
    "exponential_",
    "cat(rand 3, randn 3, randn 20, rand 2, randn 1)",
    "Embedding(10,4).weight",
];

pub(super) fn run(
    source: &Source,
    executor: &dyn Executor,
    options: &Options,
    report: &mut Report,
) -> std::result::Result<(), String> {
    let (draws, tensors) = load::<Draw>(source, "random")?;
    for draw in &draws {
        let name = format!("random.{}", draw.op);
        if options.wants("random", &name) {
            let case = format!("seed {}, {} elements, {}", draw.seed, draw.n, draw.dtype);
            let checked = check(draw, &tensors, executor);
            count(report, Group::Random, &name, &case, checked);
        }
    }
    Ok(())
}

fn check(draw: &Draw, tensors: &TensorFile, executor: &dyn Executor) -> Checked {
    let got = match panics::catch(|| executor.draw(draw)) {
        Ok(got) => got?,
        Err(e) => Err(e),
    };
    Some(got.and_then(|got| {
        let want = tensors.get(&TensorRef {
            name: draw.tensor.clone(),
            shape: draw.shape.clone(),
            dtype: Dtype::from_name(&draw.dtype).ok_or("unknown dtype")?,
            requires_grad: false,
        })?;
        let exact = Tolerance {
            rtol: 0.0,
            atol: 0.0,
        };
        let differs = compare(&got, &want, exact);
        if WITHIN_2_ULP.contains(&draw.op.as_str())
            && got.shape == want.shape
            && got.dtype == want.dtype
        {
            return within(&got, &want, 2);
        }
        differs
    }))
}

/// Whether each element is at most `most` representable numbers away.
fn within(got: &TensorData, want: &TensorData, most: u64) -> std::result::Result<(), String> {
    for (i, (g, w)) in got.elements().zip(want.elements()).enumerate() {
        let (Element::Float(g), Element::Float(w)) = (g, w) else {
            return Err(format!("at [{i}]: no floating-point numbers"));
        };
        let off = match want.dtype {
            Dtype::Float32 => steps((g as f32).to_bits().into(), (w as f32).to_bits().into(), 31),
            _ => steps(g.to_bits(), w.to_bits(), 63),
        };
        if off > most {
            return Err(format!(
                "at [{i}]: expected {w:?}, got {g:?}, off by {off} ulp"
            ));
        }
    }
    Ok(())
}

/// How many representable numbers lie between two, given by their bits.
fn steps(a: u64, b: u64, sign: u32) -> u64 {
    let place = |bits: u64| {
        let magnitude = (bits & ((1 << sign) - 1)) as i128;
        if bits >> sign == 1 {
            -magnitude
        } else {
            magnitude
        }
    };
    u64::try_from((place(a) - place(b)).unsigned_abs()).unwrap_or(u64::MAX)
}

/// The draw of ToRSh.
pub(crate) fn draw(draw: &Draw) -> Option<std::result::Result<TensorData, String>> {
    let _drawing = drawing();
    torsh_core::random::manual_seed(draw.seed);
    let tensor =
        dtype(Dtype::from_name(&draw.dtype)?).and_then(|dtype| drawn(draw, dtype).map_err(text));
    Some(tensor.transpose()?.and_then(|t| data(&t)))
}

fn drawn(draw: &Draw, dtype: DType) -> Result<Option<Tensor>> {
    let (n, cpu) = (draw.n, Device::Cpu);
    let setting = |name: &str| draw.settings.get(name).copied().unwrap_or(f64::NAN);
    let empty = || Tensor::empty([n], dtype, cpu);
    let (rand, randn) = (
        |n: usize| Tensor::rand([n], dtype, cpu),
        |n: usize| Tensor::randn([n], dtype, cpu),
    );
    let weights = || Tensor::arange(1.0, 9.0, 1.0, DType::F32, cpu);
    Ok(Some(match draw.op.as_str() {
        "rand" => rand(n)?,
        "randn" => randn(n)?,
        "randint" => Tensor::randint(
            setting("low") as i64,
            setting("high") as i64,
            [n],
            dtype,
            cpu,
        )?,
        "randperm" => Tensor::randperm(n as i64, dtype, cpu)?,
        "uniform_" => empty()?.uniform_(setting("low"), setting("high"))?,
        "normal_" => empty()?.normal_(setting("mean"), setting("std"))?,
        "exponential_" => empty()?.exponential_(setting("lambd"))?,
        "bernoulli(probs)" => Tensor::full([n], setting("p"), dtype, cpu)?.bernoulli()?,
        "bernoulli_" => empty()?.bernoulli_(setting("p"))?,
        "F.dropout(ones(n), p, training=True)" => {
            torsh_functional::dropout(&Tensor::ones([n], dtype, cpu)?, setting("p"), true)?
        }
        "multinomial(arange(1., 9.), n, replacement=True)" => {
            weights()?.multinomial_with(n as i64, MultinomialOptions::new().replacement(true))?
        }
        "cat(rand 3, randn 3, randn 20, rand 2, randn 1)" => {
            Tensor::cat(&[rand(3)?, randn(3)?, randn(20)?, rand(2)?, randn(1)?], 0)?
        }
        "Linear(7,5).weight" => Linear::builder(7, 5).build()?.weight.tensor().detach(),
        "Linear(7,5).bias (same seed, drawn after weight)" => {
            match Linear::builder(7, 5).build()?.bias {
                Some(bias) => bias.tensor().detach(),
                None => return Ok(None),
            }
        }
        "Conv2d(3,8,3).weight" => Conv2d::new(3, 8, 3, 1, 0)?.weight.tensor().detach(),
        "Embedding(10,4).weight" => Embedding::new(10, 4)?.weight.tensor().detach(),
        "LSTM(4,6).weight_ih_l0" => LSTM::new(4, 6)?.get_parameter("weight_ih_l0")?.detach(),
        _ => return Ok(None),
    }))
}
