//! Rotary position embeddings (Su et al., "RoFormer", 2021) and their scalings.

use std::borrow::Cow;
use std::f32::consts::TAU;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use torsh_core::DType;
use torsh_tensor::{Result, Tensor, TorshError, cat};

/// How the frequencies of [`RotaryEmbedding`] are scaled for texts that are longer than those trained on.
///
/// ```
/// use torsh_text::blocks::RopeType;
/// assert_eq!(serde_json::from_str::<RopeType>("\"llama3\"")?, RopeType::Llama3);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RopeType {
    /// As they are.
    #[default]
    Default,
    /// Divided by the factor.
    Linear,
    /// A larger base, for texts that are longer than the model's positions.
    Dynamic,
    /// Low frequencies divided by the factor, high ones kept (Llama 3.1).
    Llama3,
    /// Between the two by wavelength, with a temperature (Peng et al., "YaRN", 2023).
    Yarn,
    /// A factor for each frequency (Ding et al., "LongRoPE", 2024).
    LongRope,
}

impl RopeType {
    fn name(self) -> &'static str {
        match self {
            RopeType::Default => "default",
            RopeType::Linear => "linear",
            RopeType::Dynamic => "dynamic",
            RopeType::Llama3 => "llama3",
            RopeType::Yarn => "yarn",
            RopeType::LongRope => "longrope",
        }
    }
}

/// The fields of `rope_parameters` (`rope_scaling` in older files).
///
/// ```
/// use torsh_text::blocks::{RopeParameters, RopeType};
/// let rope: RopeParameters = serde_json::from_str(r#"{ "type": "linear", "factor": 2.0 }"#)?;
/// assert_eq!((rope.rope_type, rope.factor, rope.rope_theta), (RopeType::Linear, Some(2.0), 10_000.0));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RopeParameters {
    /// The scaling.
    #[serde(alias = "type")]
    pub rope_type: RopeType,
    /// The base of the frequencies.
    pub rope_theta: f64,
    /// How much longer the texts may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<f64>,
    /// The share of each head that turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partial_rotary_factor: Option<f64>,
    /// Positions that the model was trained on before it was scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_max_position_embeddings: Option<usize>,
    /// Of Llama 3: wavelengths above the positions over this are scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low_freq_factor: Option<f64>,
    /// Of Llama 3: wavelengths below the positions over this are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_freq_factor: Option<f64>,
    /// Of YaRN and LongRoPE: what the tables are multiplied by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention_factor: Option<f64>,
    /// Of YaRN: turns above which frequencies are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta_fast: Option<f64>,
    /// Of YaRN: turns below which frequencies are divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beta_slow: Option<f64>,
    /// Of YaRN: a part of the temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mscale: Option<f64>,
    /// Of YaRN: a part of the temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mscale_all_dim: Option<f64>,
    /// Of YaRN: whether the bounds of the ramp are whole numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncate: Option<bool>,
    /// Of LongRoPE: the factors for texts up to the original positions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_factor: Option<Vec<f64>>,
    /// Of LongRoPE: the factors for longer ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_factor: Option<Vec<f64>>,
}

impl Default for RopeParameters {
    fn default() -> Self {
        RopeParameters {
            rope_type: RopeType::Default,
            rope_theta: 10_000.0,
            factor: None,
            partial_rotary_factor: None,
            original_max_position_embeddings: None,
            low_freq_factor: None,
            high_freq_factor: None,
            attention_factor: None,
            beta_fast: None,
            beta_slow: None,
            mscale: None,
            mscale_all_dim: None,
            truncate: None,
            short_factor: None,
            long_factor: None,
        }
    }
}

impl RopeParameters {
    /// Parameters without scaling.
    pub(crate) fn theta(rope_theta: f64) -> RopeParameters {
        RopeParameters {
            rope_theta,
            ..RopeParameters::default()
        }
    }

    /// How many numbers of a head of this size turn.
    ///
    /// ```
    /// use torsh_text::blocks::RopeParameters;
    /// let quarter = RopeParameters { partial_rotary_factor: Some(0.25), ..Default::default() };
    /// assert_eq!((quarter.rotary_dim(64), RopeParameters::default().rotary_dim(64)), (16, 64));
    /// ```
    pub fn rotary_dim(&self, head_dim: usize) -> usize {
        (head_dim as f64 * self.partial_rotary_factor.unwrap_or(1.0)) as usize
    }

    /// A field that the scaling needs.
    #[track_caller]
    fn needed<T>(&self, name: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| {
            TorshError::invalid(
                "rope_parameters",
                format!("rope_type \"{}\" needs {name}", self.rope_type.name()),
            )
        })
    }
}

/// The fields of `rope_parameters` of models whose layers with a window have their own.
///
/// ```
/// use torsh_text::models::Gemma3TextConfig;
/// let rope = Gemma3TextConfig::default().rope_parameters;
/// assert_eq!((rope.full_attention.rope_theta, rope.sliding_attention.rope_theta), (1e6, 1e4));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LayerRopeParameters {
    /// Those of layers that see all tokens.
    pub full_attention: RopeParameters,
    /// Those of layers that see a window.
    pub sliding_attention: RopeParameters,
}

/// Folds the fields of older files (`rope_theta`, `rope_scaling`, `partial_rotary_factor`) into `rope_parameters`.
///
/// # Errors
/// `rope_parameters` that are no object.
pub(crate) fn normalize(config: Value) -> Result<Value> {
    normalize_theta(config, RopeParameters::default().rope_theta)
}

/// [`normalize`] for models with another base of the frequencies.
pub(crate) fn normalize_theta(config: Value, theta: f64) -> Result<Value> {
    let Value::Object(mut all) = config else {
        return Ok(config);
    };
    let scaling = object("rope_scaling", all.remove("rope_scaling"))?;
    let given = object("rope_parameters", all.remove("rope_parameters"))?;
    let mut parameters = if scaling.is_empty() { given } else { scaling };
    plain(&mut parameters);
    let theta = taken(&mut all, "rope_theta").unwrap_or_else(|| theta.into());
    parameters.entry("rope_theta").or_insert(theta);
    if let Some(part) = taken(&mut all, "partial_rotary_factor") {
        parameters.entry("partial_rotary_factor").or_insert(part);
    }
    all.insert("rope_parameters".into(), parameters.into());
    Ok(all.into())
}

/// Where [`normalize_layers`] finds the parameters of a kind of layers.
pub(crate) struct LayerRope {
    /// `full_attention` or `sliding_attention`.
    pub(crate) layer: &'static str,
    /// The name that older files have for its base.
    pub(crate) old_theta: &'static str,
    /// The base where there is none.
    pub(crate) theta: f64,
    /// Whether `rope_scaling` of older files holds for it.
    pub(crate) scaled: bool,
}

/// [`normalize`] for models with [`LayerRopeParameters`].
///
/// # Errors
/// `rope_parameters` that are no object of objects.
pub(crate) fn normalize_layers(config: Value, layers: &[LayerRope]) -> Result<Value> {
    let Value::Object(mut all) = config else {
        return Ok(config);
    };
    let mut scaling = object("rope_scaling", all.remove("rope_scaling"))?;
    plain(&mut scaling);
    let mut given = object("rope_parameters", all.remove("rope_parameters"))?;
    for l in layers {
        let mut parameters = object(l.layer, given.remove(l.layer))?;
        plain(&mut parameters);
        if l.scaled {
            parameters.extend(scaling.clone());
        }
        let theta = taken(&mut all, l.old_theta).unwrap_or_else(|| l.theta.into());
        parameters.entry("rope_theta").or_insert(theta);
        given.insert(l.layer.into(), parameters.into());
    }
    all.insert("rope_parameters".into(), given.into());
    Ok(all.into())
}

/// A field that is not null, taken out.
fn taken(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    fields.remove(name).filter(|v| !v.is_null())
}

/// The fields of an object; none where it is absent or null.
fn object(name: &str, value: Option<Value>) -> Result<Map<String, Value>> {
    match value {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(fields)) => Ok(fields),
        Some(other) => Err(crate::config::error(&format!(
            "{name} is no JSON object but {other}"
        ))),
    }
}

/// Leaves out nulls, and gives the scaling its newer name.
fn plain(parameters: &mut Map<String, Value>) {
    parameters.retain(|_, value| !value.is_null());
    // It says that the model was trained with the scaling.
    parameters.remove("finetuned");
    if let Some(old) = parameters.remove("type") {
        parameters.entry("rope_type").or_insert(old);
    }
    if let Some(kind) = parameters.get_mut("rope_type")
        && kind == "su"
    {
        *kind = "longrope".into();
    }
}

/// The tables of rotary embeddings: cosine and sine of each position times each frequency.
///
/// ```
/// use torsh_tensor::{DType, ones};
/// use torsh_text::blocks::{RopeParameters, RotaryEmbedding};
/// let rotary = RotaryEmbedding::new(4, 16, &RopeParameters::default())?;
/// let positions = torsh_tensor::tensor![[0, 1]];
/// let (cos, sin) = rotary.tables(&positions, DType::F32)?;
/// assert_eq!(cos.dims(), [1, 1, 2, 4]);
/// let x = ones([1, 3, 2, 4]); // [batch, heads, length, size]
/// let turned = RotaryEmbedding::apply(&x, &cos, &sin)?;
/// // Position 0 stays as it is.
/// assert_eq!(turned.select(2, 0)?, x.select(2, 0)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RotaryEmbedding {
    dim: usize,
    max_positions: usize,
    parameters: RopeParameters,
    inv_freq: Vec<f32>,
    /// What both tables are multiplied by.
    scaling: f64,
}

impl RotaryEmbedding {
    /// Tables for `dim` numbers of a head, by a model of `max_positions` positions.
    ///
    /// # Errors
    /// An odd `dim`, and a scaling that lacks one of its fields; the error names it.
    ///
    /// ```
    /// use torsh_text::blocks::{RopeParameters, RopeType, RotaryEmbedding};
    /// let linear = RopeParameters { rope_type: RopeType::Linear, ..Default::default() };
    /// let error = RotaryEmbedding::new(4, 16, &linear).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("rope_type \"linear\" needs factor")));
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        dim: usize,
        max_positions: usize,
        parameters: &RopeParameters,
    ) -> Result<RotaryEmbedding> {
        let invalid = |why: String| Err(TorshError::invalid("rope_parameters", why));
        if dim == 0 || !dim.is_multiple_of(2) {
            return invalid(format!(
                "{dim} numbers of each head turn; it must be an even number above 0"
            ));
        }
        let p = parameters;
        if !(p.rope_theta > 0.0 && p.rope_theta.is_finite()) {
            return invalid(format!("rope_theta = {} is not above 0", p.rope_theta));
        }
        let original = p.original_max_position_embeddings.unwrap_or(max_positions);
        let (inv_freq, scaling) = match p.rope_type {
            RopeType::Default => (inverse(dim, p.rope_theta as f32), 1.0),
            RopeType::Linear => {
                let factor = p.needed("factor", p.factor)? as f32;
                let plain = inverse(dim, p.rope_theta as f32);
                (plain.into_iter().map(|f| f / factor).collect(), 1.0)
            }
            RopeType::Dynamic => {
                p.needed("factor", p.factor)?;
                if dim == 2 {
                    return invalid("rope_type \"dynamic\" needs more than one frequency".into());
                }
                (inverse(dim, p.rope_theta as f32), 1.0)
            }
            RopeType::Llama3 => (llama3(dim, original, p)?, 1.0),
            RopeType::Yarn => yarn(dim, max_positions, original, p)?,
            RopeType::LongRope => {
                let short = p.needed("short_factor", p.short_factor.as_ref())?;
                let long = p.needed("long_factor", p.long_factor.as_ref())?;
                for (name, list) in [("short_factor", short), ("long_factor", long)] {
                    if list.len() != dim / 2 {
                        return invalid(format!(
                            "{name} has {} numbers for {} frequencies",
                            list.len(),
                            dim / 2
                        ));
                    }
                }
                let scaling = p.attention_factor.unwrap_or_else(|| {
                    let factor = (p.factor).unwrap_or(max_positions as f64 / original as f64);
                    match factor <= 1.0 {
                        true => 1.0,
                        false => (1.0 + factor.ln() / (original as f64).ln()).sqrt(),
                    }
                });
                (longrope(dim, p.rope_theta as f32, short), scaling)
            }
        };
        Ok(RotaryEmbedding {
            dim,
            max_positions,
            parameters: p.clone(),
            inv_freq,
            scaling,
        })
    }

    /// The frequencies for texts of this length.
    fn frequencies(&self, length: usize) -> Cow<'_, [f32]> {
        let p = &self.parameters;
        match p.rope_type {
            RopeType::Dynamic if length > self.max_positions => {
                let factor = p.factor.unwrap_or(1.0) as f32;
                let times = factor * length as f32 / self.max_positions as f32 - (factor - 1.0);
                let power = self.dim as f64 / (self.dim as f64 - 2.0);
                let base = p.rope_theta as f32 * times.powf(power as f32);
                Cow::Owned(inverse(self.dim, base))
            }
            RopeType::LongRope => {
                let original = p.original_max_position_embeddings;
                match &p.long_factor {
                    Some(long) if length > original.unwrap_or(self.max_positions) => {
                        Cow::Owned(longrope(self.dim, p.rope_theta as f32, long))
                    }
                    _ => Cow::Borrowed(&self.inv_freq),
                }
            }
            _ => Cow::Borrowed(&self.inv_freq),
        }
    }

    /// Whether the frequencies depend on the length of the text.
    fn by_length(&self) -> bool {
        matches!(
            self.parameters.rope_type,
            RopeType::Dynamic | RopeType::LongRope
        )
    }

    /// Cosines and sines for positions `[batch, length]` (int64): two tensors `[batch, 1, length, dim]`, of which the
    /// second half of `dim` repeats the first, computed in float32.
    ///
    /// # Errors
    /// Positions of other dimensions.
    ///
    /// ```
    /// use torsh_tensor::{DType, tensor};
    /// use torsh_text::blocks::{RopeParameters, RotaryEmbedding};
    /// // Two frequencies: 1 and 1 / sqrt(10,000).
    /// let rotary = RotaryEmbedding::new(4, 16, &RopeParameters::default())?;
    /// let (cos, sin) = rotary.tables(&tensor![[3]], DType::F32)?;
    /// assert!(cos.allclose(&tensor![[[[3f32.cos(), 0.03f32.cos(), 3f32.cos(), 0.03f32.cos()]]]])?);
    /// assert!(sin.allclose(&tensor![[[[3f32.sin(), 0.03f32.sin(), 3f32.sin(), 0.03f32.sin()]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn tables(&self, positions: &Tensor, dtype: DType) -> Result<(Tensor, Tensor)> {
        if positions.ndim() != 2 {
            return Err(TorshError::shape(
                "RotaryEmbedding",
                format!(
                    "expected positions [batch, length], got {}",
                    positions.shape()
                ),
            ));
        }
        let length = if self.by_length() && positions.numel() > 0 {
            positions.max()?.item::<i64>()?.max(0) as usize + 1
        } else {
            0
        };
        let inv_freq = self.frequencies(length);
        let inv_freq =
            Tensor::from_data(&inv_freq, [inv_freq.len()])?.to_device(positions.device())?;
        let angles = positions
            .to_dtype(DType::F32)?
            .view([positions.dims()[0], 1, positions.dims()[1], 1])?
            .mul(&inv_freq)?;
        let table = |half: Tensor| -> Result<Tensor> {
            let half = match self.scaling == 1.0 {
                true => half,
                false => half.mul(self.scaling)?,
            };
            let half = half.to_dtype(dtype)?;
            cat(&[half.clone(), half], -1)
        };
        Ok((table(angles.cos()?)?, table(angles.sin()?)?))
    }

    /// Turns queries or keys `[batch, heads, length, size]`: the first `dim` numbers of each head, whose halves are
    /// the two parts of a plane.
    ///
    /// # Errors
    /// Tables of another length.
    ///
    /// ```
    /// use torsh_tensor::{DType, tensor};
    /// use torsh_text::blocks::{RopeParameters, RotaryEmbedding};
    /// let rotary = RotaryEmbedding::new(2, 16, &RopeParameters::default())?;
    /// let (cos, sin) = rotary.tables(&tensor![[2]], DType::F32)?;
    /// // Position 2 turns by an angle of 2. What is behind the first two numbers stays.
    /// let turned = RotaryEmbedding::apply(&tensor![[[[1.0, 0.0, 5.0]]]], &cos, &sin)?;
    /// assert!(turned.allclose(&tensor![[[[2f32.cos(), 2f32.sin(), 5.0]]]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn apply(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let (size, dim) = (x.size(-1)?, cos.size(-1)?);
        if dim > size || x.ndim() != 4 || x.dims()[2] != cos.size(-2)? {
            return Err(TorshError::shape(
                "RotaryEmbedding",
                format!(
                    "tables {} do not fit queries or keys {}",
                    cos.shape(),
                    x.shape()
                ),
            ));
        }
        let turn = |x: &Tensor| x.mul(cos)?.add(rotate_half(x)?.mul(sin)?);
        if dim == size {
            return turn(x);
        }
        let rest = x.narrow(-1, dim as i64, (size - dim) as i64)?;
        cat(&[turn(&x.narrow(-1, 0, dim as i64)?)?, rest], -1)
    }
}

/// `base` to the powers `0, 2 / dim, 4 / dim, ..` as float32 has them.
fn powers(dim: usize, base: f32) -> impl Iterator<Item = f32> {
    (0..dim / 2).map(move |i| {
        let exponent = (2 * i) as f32 / dim as f32;
        // The nearest float32.
        f64::from(base).powf(f64::from(exponent)) as f32
    })
}

fn inverse(dim: usize, base: f32) -> Vec<f32> {
    powers(dim, base).map(|p| 1.0 / p).collect()
}

fn longrope(dim: usize, base: f32, factors: &[f64]) -> Vec<f32> {
    let scaled = powers(dim, base).zip(factors);
    scaled.map(|(p, &f)| 1.0 / (f as f32 * p)).collect()
}

fn llama3(dim: usize, original: usize, p: &RopeParameters) -> Result<Vec<f32>> {
    let factor = p.needed("factor", p.factor)? as f32;
    let low = p.needed("low_freq_factor", p.low_freq_factor)?;
    let high = p.needed("high_freq_factor", p.high_freq_factor)?;
    let original = original as f64;
    let (longest, shortest) = ((original / low) as f32, (original / high) as f32);
    let scaled = |f: f32| {
        let wavelength = TAU / f;
        if wavelength > longest {
            f / factor
        } else if wavelength < shortest {
            f
        } else {
            let smooth = (original as f32 / wavelength - low as f32) / (high - low) as f32;
            (1.0 - smooth) * f / factor + smooth * f
        }
    };
    let plain = inverse(dim, p.rope_theta as f32);
    Ok(plain.into_iter().map(scaled).collect())
}

fn yarn(
    dim: usize,
    max_positions: usize,
    original: usize,
    p: &RopeParameters,
) -> Result<(Vec<f32>, f64)> {
    let factor = p.factor.unwrap_or(max_positions as f64 / original as f64);
    let temperature = |mscale: f64| match factor <= 1.0 {
        true => 1.0,
        false => 0.1 * mscale * factor.ln() + 1.0,
    };
    let set = |n: Option<f64>| n.filter(|&n| n != 0.0);
    let scaling =
        p.attention_factor
            .unwrap_or_else(|| match (set(p.mscale), set(p.mscale_all_dim)) {
                (Some(mscale), Some(all)) => temperature(mscale) / temperature(all),
                _ => temperature(1.0),
            });
    // The frequency that turns so many times within the original positions, as a number of the head.
    let number = |turns: f64| {
        let turns = original as f64 / (turns * 2.0 * std::f64::consts::PI);
        dim as f64 * turns.ln() / (2.0 * p.rope_theta.ln())
    };
    let mut from = number(set(p.beta_fast).unwrap_or(32.0));
    let mut to = number(set(p.beta_slow).unwrap_or(1.0));
    if p.truncate.unwrap_or(true) {
        (from, to) = (from.floor(), to.ceil());
    }
    let (from, mut to) = (from.max(0.0), to.min(dim as f64 - 1.0));
    if from == to {
        to += 0.001;
    }
    let ramp = |i: usize| ((i as f32 - from as f32) / (to - from) as f32).clamp(0.0, 1.0);
    let scaled = powers(dim, p.rope_theta as f32)
        .enumerate()
        .map(|(i, power)| {
            let kept = 1.0 - ramp(i);
            1.0 / (factor as f32 * power) * (1.0 - kept) + 1.0 / power * kept
        });
    Ok((scaled.collect(), scaling))
}

/// The second half of the last dimension, negated, ahead of the first.
///
/// # Errors
/// A tensor without dimensions.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::blocks::rotate_half;
/// assert_eq!(rotate_half(&tensor![1.0, 2.0, 3.0, 4.0])?, tensor![-3.0, -4.0, 1.0, 2.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn rotate_half(x: &Tensor) -> Result<Tensor> {
    let half = x.size(-1)? / 2;
    let (a, b) = (
        x.narrow(-1, 0, half as i64)?,
        x.narrow(-1, half as i64, half as i64)?,
    );
    cat(&[b.neg()?, a], -1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rotary(dim: usize, positions: usize, parameters: Value) -> Result<RotaryEmbedding> {
        let config = normalize(json!({ "rope_parameters": parameters }))?;
        let parameters = serde_json::from_value(config["rope_parameters"].clone())
            .map_err(|e| TorshError::format("rope_parameters", e.to_string()))?;
        RotaryEmbedding::new(dim, positions, &parameters)
    }

    fn near(found: &[f32], wanted: &[f32]) {
        let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs();
        assert!(
            found.len() == wanted.len() && found.iter().zip(wanted).all(close),
            "{found:?} {wanted:?}"
        );
    }

    #[test]
    fn frequencies_of_each_scaling() -> Result<()> {
        near(&rotary(4, 16, json!({}))?.inv_freq, &[1.0, 0.01]);
        let linear = json!({ "rope_type": "linear", "factor": 2.0 });
        near(&rotary(4, 16, linear)?.inv_freq, &[0.5, 0.005]);
        // The base is 10,000 times (2 * 16 / 8 - 1) squared: 90,000.
        let dynamic = json!({ "rope_type": "dynamic", "factor": 2.0 });
        let dynamic = rotary(4, 8, dynamic)?;
        near(&dynamic.frequencies(8), &[1.0, 0.01]);
        near(&dynamic.frequencies(16), &[1.0, 1.0 / 300.0]);
        // Wavelengths of 6.28 (kept), 628 (between 256 and 1,024) and 62,832 (divided).
        let llama3 = json!({
            "rope_type": "llama3", "rope_theta": 1e6, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 1024
        });
        near(
            &rotary(6, 8192, llama3)?.inv_freq,
            &[1.0, 0.003_086_76, 1.25e-5],
        );
        // The ramp goes from frequency 1 to 3, so that number 2 is halfway.
        let yarn =
            json!({ "type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096 });
        let yarn = rotary(8, 16_384, yarn)?;
        near(&yarn.inv_freq, &[1.0, 0.1, 0.00625, 0.00025]);
        assert!((yarn.scaling - 1.138_629_436).abs() < 1e-9);
        let longrope = json!({
            "type": "su", "short_factor": [1.0, 2.0], "long_factor": [4, 5],
            "original_max_position_embeddings": 8
        });
        let longrope = rotary(4, 32, longrope)?;
        near(&longrope.frequencies(8), &[1.0, 0.005]);
        near(&longrope.frequencies(9), &[0.25, 0.002]);
        assert!((longrope.scaling - 1.290_994_449).abs() < 1e-9);
        Ok(())
    }

    #[test]
    fn tables_turn_the_first_numbers_of_a_head() -> Result<()> {
        let rotary = rotary(2, 16, json!({}))?;
        let (cos, sin) = rotary.tables(&torsh_tensor::tensor![[0, 2]], DType::F64)?;
        let (c, s) = (2f64.cos(), 2f64.sin());
        let found = cos.to_vec::<f64>()?;
        assert!(found[..2] == [1.0; 2] && found[2] == found[3] && (found[2] - c).abs() < 1e-6);
        assert_eq!(f64::from(found[2] as f32), found[2]);
        let x = torsh_tensor::tensor![[[[3.0, 4.0, 5.0], [3.0, 4.0, 5.0]]]];
        let turned = RotaryEmbedding::apply(&x.to_dtype(DType::F64)?, &cos, &sin)?;
        let wanted = [3.0, 4.0, 5.0, 3.0 * c - 4.0 * s, 4.0 * c + 3.0 * s, 5.0];
        let found = turned.to_vec::<f64>()?;
        assert!(
            found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-5),
            "{found:?}"
        );
        Ok(())
    }

    #[test]
    fn what_is_missing_is_named() {
        for (wrong, names) in [
            (json!({ "rope_type": "linear" }), "factor"),
            (
                json!({ "rope_type": "llama3", "factor": 8.0 }),
                "low_freq_factor",
            ),
            (
                json!({ "rope_type": "longrope", "short_factor": [1.0] }),
                "long_factor",
            ),
            (json!({ "rope_theta": -1.0 }), "rope_theta"),
            (json!(3), "no JSON object"),
        ] {
            let error = rotary(4, 16, wrong).err().map(|e| e.to_string());
            assert!(
                error.as_ref().is_some_and(|e| e.contains(names)),
                "{error:?}"
            );
        }
        assert!(rotary(3, 16, json!({})).is_err());
    }

    #[test]
    fn older_files_are_folded() -> Result<()> {
        let old = json!({
            "rope_theta": 5e5, "rope_scaling": { "type": "linear", "factor": 2.0 },
            "partial_rotary_factor": 0.5, "hidden_size": 8
        });
        let new = json!({
            "rope_parameters": {
                "rope_type": "linear", "factor": 2.0, "rope_theta": 5e5, "partial_rotary_factor": 0.5
            },
            "hidden_size": 8
        });
        assert_eq!(normalize(old)?, new);
        let layers = [
            LayerRope {
                layer: "full_attention",
                old_theta: "rope_theta",
                theta: 1e6,
                scaled: true,
            },
            LayerRope {
                layer: "sliding_attention",
                old_theta: "rope_local_base_freq",
                theta: 1e4,
                scaled: false,
            },
        ];
        let old = json!({
            "rope_theta": 3.0, "rope_scaling": { "rope_type": "linear", "factor": 8.0 }
        });
        let new = json!({ "rope_parameters": {
            "full_attention": { "rope_type": "linear", "factor": 8.0, "rope_theta": 3.0 },
            "sliding_attention": { "rope_theta": 1e4 }
        } });
        assert_eq!(normalize_layers(old, &layers)?, new);
        Ok(())
    }
}
