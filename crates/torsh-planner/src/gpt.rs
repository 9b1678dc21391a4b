//! Models as plans see them: layers with their parameters and their work.

use serde::{Deserialize, Serialize};
use torsh_tensor::{Result, TorshError};

fn one() -> usize {
    1
}

/// A layer, or `count` equal ones: the unit that `fully_shard` gathers and that a pipeline moves.
///
/// Work and activations are those of one sample (a sequence, an image).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layer {
    /// Its name.
    pub name: String,
    /// How many of it follow one another.
    #[serde(default = "one")]
    pub count: usize,
    /// The shapes of its parameters, in the order of `named_parameters()`.
    pub shapes: Vec<Vec<usize>>,
    /// How many of its parameters' elements tensor parallel splits; the rest is on every rank.
    #[serde(default)]
    pub split: usize,
    /// Floating-point operations of a forward pass.
    #[serde(default)]
    pub flops: f64,
    /// Values that the graph keeps for the backward pass.
    #[serde(default)]
    pub saved: f64,
    /// How many of these tensor parallel splits.
    #[serde(default)]
    pub saved_split: f64,
    /// Elements of its result, which the next layer reads.
    #[serde(default)]
    pub output: f64,
    /// All-reduces of its result that tensor parallel makes in the forward pass.
    #[serde(default)]
    pub reductions: usize,
    /// The same in the backward pass.
    #[serde(default)]
    pub backward_reductions: usize,
    /// Seconds of a forward pass where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forward_seconds: Option<f64>,
    /// Seconds of a backward pass where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backward_seconds: Option<f64>,
}

impl Layer {
    /// Elements of its parameters.
    pub fn elements(&self) -> usize {
        self.shapes
            .iter()
            .map(|s| s.iter().product::<usize>())
            .sum()
    }

    /// Elements of its parameters on one of `tensor` ranks that share its matrices.
    pub(crate) fn elements_of(&self, tensor: usize) -> f64 {
        let all = self.elements();
        (all - self.split) as f64 + self.split as f64 / tensor as f64
    }

    /// Values kept for the backward pass on one of `tensor` ranks.
    pub(crate) fn saved_of(&self, tensor: usize) -> f64 {
        self.saved - self.saved_split + self.saved_split / tensor as f64
    }
}

/// A model: its layers in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPlan {
    /// Its name.
    pub name: String,
    /// Its layers.
    pub layers: Vec<Layer>,
    /// What a number of work is called: tokens of a sequence, 1 for images.
    #[serde(default = "one")]
    pub tokens: usize,
    /// Values that the optimizer keeps for each parameter: 2 for Adam and AdamW, 1 for SGD with momentum.
    #[serde(default)]
    pub states: usize,
    /// The heads of its attention, which tensor parallel deals out; 0 where there are none.
    #[serde(default)]
    pub heads: usize,
    /// Seconds of the optimizer's step over all parameters where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub optimizer_seconds: Option<f64>,
}

impl ModelPlan {
    /// The models that have names.
    pub const NAMES: [&'static str; 4] = ["gpt-125m", "gpt-1.3b", "gpt-7b", "gpt-70b"];

    /// A model by its name.
    ///
    /// # Errors
    /// Where no model is called so.
    ///
    /// ```
    /// use torsh_planner::ModelPlan;
    ///
    /// # fn main() -> torsh_tensor::Result<()> {
    /// let parameters = ModelPlan::named("gpt-7b")?.parameters();
    /// assert_eq!(parameters, 6_864_642_048);
    /// # Ok(()) }
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn named(name: &str) -> Result<ModelPlan> {
        let (width, layers, heads) = match name {
            "gpt-125m" => (768, 12, 12),
            "gpt-1.3b" => (2048, 24, 16),
            "gpt-7b" => (4096, 32, 32),
            "gpt-70b" => (8192, 88, 64),
            _ => {
                let text = format!("no model is called {name}");
                let hint = format!(
                    "the names are {}; --model-file reads layers from JSON",
                    Self::NAMES.join(", ")
                );
                return Err(TorshError::invalid("plan::ModelPlan::named", text).with_hint(hint));
            }
        };
        Ok(ModelPlan::gpt(name, 50_304, width, layers, heads, 2048))
    }

    /// A GPT: embeddings of symbols and places, blocks of attention and a network four times as wide with biases, a norm
    /// and a head without bias. AdamW trains it.
    ///
    /// ```
    /// use torsh_planner::ModelPlan;
    ///
    /// let model = ModelPlan::gpt("tiny", 512, 128, 4, 4, 64);
    /// assert_eq!(model.layers.len(), 6);
    /// assert_eq!(model.layers[1].elements(), 12 * 128 * 128 + 13 * 128);
    /// ```
    pub fn gpt(
        name: &str,
        symbols: usize,
        width: usize,
        layers: usize,
        heads: usize,
        length: usize,
    ) -> ModelPlan {
        let (d, t) = (width as f64, length as f64);
        let embed = Layer {
            name: "embed".into(),
            count: 1,
            shapes: vec![vec![symbols, width], vec![length, width]],
            split: symbols * width,
            output: t * d,
            saved: t,
            reductions: 1,
            ..Layer::default()
        };
        let shapes = vec![
            vec![width],
            vec![width],
            vec![width],
            vec![width],
            vec![3 * width, width],
            vec![3 * width],
            vec![width, width],
            vec![width],
            vec![4 * width, width],
            vec![4 * width],
            vec![width, 4 * width],
            vec![width],
        ];
        let block = Layer {
            name: "block".into(),
            count: 1,
            shapes,
            // Matrices and the biases of the layers that are split by columns.
            split: 12 * width * width + 7 * width,
            // Two operations for each weight and token; scores and their use, two more for each pair of tokens each.
            flops: t * 24.0 * d * d + 4.0 * t * t * d,
            // Both norms' inputs and results; queries, keys, values, the attention's result as two layers see it, the
            // network's two hidden values.
            saved: 17.0 * t * d,
            saved_split: 13.0 * t * d,
            output: t * d,
            reductions: 2,
            backward_reductions: 2,
            ..Layer::default()
        };
        let v = symbols as f64;
        let head = Layer {
            name: "head".into(),
            count: 1,
            shapes: vec![vec![width], vec![width], vec![symbols, width]],
            split: symbols * width,
            flops: 2.0 * t * d * v,
            saved: t * (2.0 * d + 2.0 * v),
            saved_split: t * 2.0 * v,
            output: t * v,
            reductions: 0,
            backward_reductions: 0,
            ..Layer::default()
        };
        let mut all = vec![embed];
        all.extend((0..layers).map(|i| Layer {
            name: format!("block {i}"),
            ..block.clone()
        }));
        all.push(head);
        ModelPlan {
            name: name.into(),
            layers: all,
            tokens: length,
            states: 2,
            heads,
            optimizer_seconds: None,
        }
    }

    /// Reads a model from JSON: `{"name": .., "layers": [{"name": "fc1", "shapes": [[1024, 784], [1024]], "flops": 1.6e6}]}`.
    ///
    /// # Errors
    /// Where the text is no such description, a layer splits more than it has, or there are no layers.
    ///
    /// ```
    /// use torsh_planner::ModelPlan;
    ///
    /// # fn main() -> torsh_tensor::Result<()> {
    /// let text = r#"{"name": "mlp", "layers": [{"name": "fc", "count": 3, "shapes": [[10, 10], [10]], "flops": 200}]}"#;
    /// let model = ModelPlan::from_json(text)?;
    /// assert_eq!((model.layers.len(), model.parameters()), (3, 330));
    /// # Ok(()) }
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn from_json(text: &str) -> Result<ModelPlan> {
        const OP: &str = "plan::ModelPlan::from_json";
        let mut model: ModelPlan =
            serde_json::from_str(text).map_err(|e| TorshError::invalid(OP, e.to_string()))?;
        let mut layers = Vec::new();
        for l in &model.layers {
            let impossible = l.split > l.elements()
                || l.saved_split > l.saved
                || !(l.flops >= 0.0 && l.saved >= 0.0 && l.output >= 0.0)
                || [l.forward_seconds, l.backward_seconds]
                    .iter()
                    .flatten()
                    .any(|s| !(*s >= 0.0));
            if impossible {
                let text = format!(
                    "layer {} has negative work, or splits more than its {} parameters or {} saved values",
                    l.name,
                    l.elements(),
                    l.saved
                );
                return Err(TorshError::invalid(OP, text));
            }
            for i in 0..l.count {
                let mut each = l.clone();
                each.count = 1;
                if l.count > 1 {
                    each.name = format!("{} {i}", l.name);
                }
                layers.push(each);
            }
        }
        if layers.is_empty() {
            let text = format!("model {} has no layers", model.name);
            return Err(TorshError::invalid(OP, text));
        }
        model.layers = layers;
        Ok(model)
    }

    /// Elements of its parameters.
    pub fn parameters(&self) -> usize {
        self.layers.iter().map(Layer::elements).sum()
    }

    /// Floating-point operations of a forward pass of one sample.
    pub fn flops(&self) -> f64 {
        self.layers.iter().map(|l| l.flops).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_by_hand() -> Result<()> {
        for (name, d, l) in [("gpt-125m", 768, 12), ("gpt-70b", 8192, 88)] {
            let expected = l * (12 * d * d + 13 * d) + 2 * 50_304 * d + 2048 * d + 2 * d;
            assert_eq!(ModelPlan::named(name)?.parameters(), expected);
        }
        // About six operations for each parameter and token, as the usual estimate says, attention aside.
        let m = ModelPlan::named("gpt-7b")?;
        let matrices = (m.parameters() - 50_304 * 4096) as f64 * 2048.0 * 2.0;
        let attention = 32.0 * 4.0 * 2048.0 * 2048.0 * 4096.0;
        assert!((m.flops() / (matrices + attention) - 1.0).abs() < 2e-3);
        Ok(())
    }

    #[test]
    fn bad_models_are_refused() {
        let error = ModelPlan::named("gpt-8").unwrap_err().to_string();
        assert!(
            error.contains("gpt-8") && error.contains("gpt-7b"),
            "{error}"
        );
        for bad in [
            r#"{"name": "x", "layers": []}"#,
            r#"{"name": "x", "layers": [{"name": "a", "shapes": [[2]], "split": 3}]}"#,
            r#"{"name": "x", "layers": [{"name": "a", "shapes": [[2]], "flops": -1}]}"#,
            r#"{"name": "x", "layers": [{"name": "a", "shape": [[2]]}]}"#,
        ] {
            assert!(ModelPlan::from_json(bad).is_err(), "{bad}");
        }
    }
}
