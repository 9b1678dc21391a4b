//! CLIP (Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", 2021).

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use torsh_nn::construct;
use torsh_nn::{Linear, Module, Parameter};
use torsh_tensor::{Result, Tensor, TorshError};

use super::causal::padding_of;
use super::clip_encoder::projection;
use super::clip_text::{CLIPTextConfig, CLIPTextModel};
use super::clip_vision::{CLIPVisionConfig, CLIPVisionModel};
use super::pretrained;
use super::text_model::{ModelInputs, ModelOutputs, TextModel};
use crate::blocks::{Padding, class};
use crate::config::{PretrainedConfig, config};

config! {
    /// The configuration of CLIP, by the names in `config.json`.
    /// The default is CLIP base (`openai/clip-vit-base-patch32`).
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, construct::Construction};
    /// use torsh_tensor::Device;
    /// use torsh_text::models::{CLIPConfig, CLIPModel};
    /// let model = Construction::new().device(Device::Meta).run(|| CLIPModel::new(CLIPConfig::default()))?;
    /// assert_eq!(model.num_parameters(), 151_277_313);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CLIPConfig: "clip" {
        /// The configuration of the model of texts.
        #[serde(deserialize_with = "read_nested", serialize_with = "write_nested")]
        text_config: CLIPTextConfig = CLIPTextConfig::default();
        /// The configuration of the model of images.
        #[serde(deserialize_with = "read_nested", serialize_with = "write_nested")]
        vision_config: CLIPVisionConfig = CLIPVisionConfig::default();
        projection_dim = 512;
        /// The logarithm of the factor of similarities, before training.
        logit_scale_init_value: f64 = 2.6592;
        initializer_factor = 1.0;
    }
    ignores ["initializer_range", "tie_word_embeddings"]
    requires {}
    normalize = newer_parts
}

/// Older files repeat the parts under other names, which go ahead of the others.
fn newer_parts(mut config: Value) -> Result<Value> {
    if let Value::Object(fields) = &mut config {
        for part in ["text_config", "vision_config"] {
            if let Some(given) = fields.remove(&format!("{part}_dict"))
                && !given.is_null()
            {
                fields.insert(part.into(), given);
            }
        }
    }
    Ok(config)
}

/// A configuration inside of another one.
fn read_nested<'de, D: Deserializer<'de>, C: PretrainedConfig>(from: D) -> Result<C, D::Error> {
    match Value::deserialize(from)? {
        Value::Null => Ok(C::default()),
        given => C::from_json(given).map_err(D::Error::custom),
    }
}

fn write_nested<S: Serializer, C: PretrainedConfig>(config: &C, to: S) -> Result<S::Ok, S::Error> {
    let config = config.to_json().map_err(S::Error::custom)?;
    config.serialize(to)
}

/// What [`CLIPModel`] computes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CLIPOutput {
    /// The similarity of each image to each text, `[images, texts]`.
    pub logits_per_image: Tensor,
    /// The similarity of each text to each image, `[texts, images]`.
    pub logits_per_text: Tensor,
    /// A vector of length 1 for each text.
    pub text_embeds: Tensor,
    /// A vector of length 1 for each image.
    pub image_embeds: Tensor,
}

class! {
    /// CLIP: vectors of texts and of images in one space, and their similarities.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_tensor::{rand, tensor};
    /// use torsh_text::config::TokenIds;
    /// use torsh_text::models::{CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig};
    /// let model = CLIPModel::new(CLIPConfig {
    ///     text_config: CLIPTextConfig {
    ///         hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, vocab_size: 11,
    ///         eos_token_id: TokenIds::from(10), ..Default::default()
    ///     },
    ///     vision_config: CLIPVisionConfig {
    ///         hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16, image_size: 8,
    ///         patch_size: 4, ..Default::default()
    ///     },
    ///     projection_dim: 6,
    ///     ..Default::default()
    /// })?;
    /// let output = model.forward_with(&tensor![[1, 2, 10]], None, &rand([2, 3, 8, 8]), false)?;
    /// assert_eq!((output.logits_per_image.dims(), output.text_embeds.dims()), (&[2, 1][..], &[1, 6][..]));
    /// assert!((output.text_embeds.norm()?.item::<f32>()? - 1.0).abs() < 1e-5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CLIPModel(CLIPConfig), errors "A width that the heads do not divide, and images without patches."
    |c| first {
        let (to, factor) = (c.projection_dim, c.initializer_factor);
        let (text, vision) = (&c.text_config, &c.vision_config);
        let (dtype, device) = (construct::dtype(), construct::device());
        let scale = Tensor::full((), c.logit_scale_init_value, dtype, device)?;
    } {
        logit_scale: Parameter = Parameter::with_requires_grad(scale, true)?;
        text_model: CLIPTextModel = CLIPTextModel::new(text.clone())?;
        vision_model: CLIPVisionModel = CLIPVisionModel::new(vision.clone())?;
        visual_projection: Linear = projection(vision.hidden_size, to, factor)?;
        text_projection: Linear = projection(text.hidden_size, to, factor)?;
    }
}

/// [`CLIPModel`], by its short name.
pub type CLIP = CLIPModel;

impl CLIPModel {
    /// The vectors `[batch, projection_dim]` of texts `[batch, length]` (int64), of any length.
    ///
    /// # Errors
    /// As [`CLIPTextModel::forward_with`].
    #[torsh_tensor::names_caller]
    pub fn get_text_features(
        &self,
        input_ids: &Tensor,
        padding: Option<&Padding>,
    ) -> Result<Tensor> {
        let output = self.text_model.forward_with(input_ids, padding)?;
        self.text_projection.forward(&output.pooler_output)
    }

    /// The vectors `[batch, projection_dim]` of images `[batch, channels, height, width]`, of any length.
    ///
    /// # Errors
    /// As [`CLIPVisionModel::forward_with`].
    #[torsh_tensor::names_caller]
    pub fn get_image_features(
        &self,
        pixel_values: &Tensor,
        interpolate_pos_encoding: bool,
    ) -> Result<Tensor> {
        let output = self
            .vision_model
            .forward_with(pixel_values, interpolate_pos_encoding)?;
        self.visual_projection.forward(&output.pooler_output)
    }

    /// The similarities of texts and images.
    ///
    /// # Errors
    /// As [`CLIPModel::get_text_features`] and [`CLIPModel::get_image_features`].
    #[torsh_tensor::names_caller]
    pub fn forward_with(
        &self,
        input_ids: &Tensor,
        padding: Option<&Padding>,
        pixel_values: &Tensor,
        interpolate_pos_encoding: bool,
    ) -> Result<CLIPOutput> {
        let unit = |x: Tensor| x.div(x.square()?.sum_dim(-1, true)?.sqrt()?);
        let image_embeds = unit(self.get_image_features(pixel_values, interpolate_pos_encoding)?)?;
        let text_embeds = unit(self.get_text_features(input_ids, padding)?)?;
        let logits_per_text = text_embeds
            .matmul(&image_embeds.t()?)?
            .mul(self.logit_scale.exp()?)?;
        Ok(CLIPOutput {
            logits_per_image: logits_per_text.t()?,
            logits_per_text,
            text_embeds,
            image_embeds,
        })
    }
}

impl Module for CLIPModel {
    #[torsh_tensor::names_caller]
    fn forward(&self, _: &Tensor) -> Result<Tensor> {
        Err(TorshError::invalid(
            "CLIPModel",
            "the model needs texts and images; call forward_with, get_text_features or get_image_features",
        ))
    }
}

impl TextModel for CLIPModel {
    #[torsh_tensor::names_caller]
    fn forward_named(&self, inputs: &ModelInputs) -> Result<ModelOutputs> {
        let padding = padding_of(inputs)?;
        let (ids, pixels) = (inputs.input_ids()?, inputs.pixel_values()?);
        let output = self.forward_with(ids, padding.as_ref(), pixels, false)?;
        Ok(vec![
            ("logits_per_image", output.logits_per_image),
            ("logits_per_text", output.logits_per_text),
            ("text_embeds", output.text_embeds),
            ("image_embeds", output.image_embeds),
        ])
    }
}

pretrained! {
    base "clip", ignores ["position_ids"];
    CLIPModel(CLIPConfig),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_and_written() -> Result<()> {
        let part = serde_json::json!({ "hidden_size": 8, "num_attention_heads": 2, "model_type": "clip_text_model" });
        let config = CLIPConfig::from_json(
            serde_json::json!({ "text_config": part, "vision_config": null }),
        )?;
        assert_eq!(config.text_config.hidden_size, 8);
        assert_eq!(config.vision_config, CLIPVisionConfig::default());
        assert_eq!(CLIPConfig::from_json(config.to_json()?)?, config);
        // The models of the parts read the whole file.
        assert_eq!(
            CLIPTextConfig::from_json(config.to_json()?)?,
            config.text_config
        );
        let older =
            serde_json::json!({ "text_config": {}, "text_config_dict": { "hidden_size": 6 } });
        assert_eq!(CLIPConfig::from_json(older)?.text_config.hidden_size, 6);
        let wrong =
            CLIPConfig::from_json(serde_json::json!({ "text_config": { "hiden_size": 8 } }));
        let error = wrong.err().map(|e| e.to_string());
        assert!(
            error.as_ref().is_some_and(|e| e.contains("hiden_size")),
            "{error:?}"
        );
        Ok(())
    }
}
