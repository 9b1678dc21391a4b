//! Vectors of sentences, as the library sentence-transformers makes them (Reimers and Gurevych, "Sentence-BERT:
//! Sentence Embeddings using Siamese BERT-Networks", 2019).

use std::path::Path;

use serde_json::Value;
use torsh_functional as F;
use torsh_hub::{
    FromPretrained, Hub, LoadStateDict, NewHead, PretrainedOptions, complete, with_left_out,
};
use torsh_nn::construct::Construction;
use torsh_nn::{Linear, Module, ModuleExt, StateDict};
use torsh_serialize::LeftOut;
use torsh_serialize::files::is_path;
use torsh_tensor::{Device, Result, Tensor, TorshError, cat, no_grad};

use crate::blocks::Activation;
use crate::models::{
    AlbertModel, BertModel, DistilBertModel, ElectraModel, EncoderOutput, ModernBertModel,
    RobertaModel, TextModel, TokenInputs,
};
use crate::tokenizers::{EncodeOptions, Encoding, Tokenizer};

const OP: &str = "SentenceEmbedder";
/// No configuration is larger than this.
const LARGEST_JSON: u64 = 16 << 20;

/// How the vectors of a text's tokens become one vector.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_text::sentence::Pooling;
/// // Two texts; the second one has one token, and padding behind it.
/// let tokens = tensor![[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [9.0, 9.0]]];
/// let mask = tensor![[1, 1], [1, 0]];
/// assert_eq!(Pooling::Mean.apply(&tokens, &mask)?, tensor![[2.0, 3.0], [5.0, 6.0]]);
/// assert_eq!(Pooling::LastToken.apply(&tokens, &mask)?, tensor![[3.0, 4.0], [5.0, 6.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooling {
    /// The first token's.
    Cls,
    /// The largest number of each dimension.
    Max,
    /// The mean.
    Mean,
    /// The sum over the square root of the number of tokens.
    MeanSqrtLen,
    /// The mean with the weights 1, 2, 3, ..
    WeightedMean,
    /// The last token's.
    LastToken,
}

/// The ways in the order in which sentence-transformers puts their results side by side: the field that older files
/// have for each, and the name that newer ones have.
const POOLINGS: [(&str, &str, Pooling); 6] = [
    ("pooling_mode_cls_token", "cls", Pooling::Cls),
    ("pooling_mode_max_tokens", "max", Pooling::Max),
    ("pooling_mode_mean_tokens", "mean", Pooling::Mean),
    (
        "pooling_mode_mean_sqrt_len_tokens",
        "mean_sqrt_len_tokens",
        Pooling::MeanSqrtLen,
    ),
    (
        "pooling_mode_weightedmean_tokens",
        "weightedmean",
        Pooling::WeightedMean,
    ),
    ("pooling_mode_lasttoken", "lasttoken", Pooling::LastToken),
];

impl Pooling {
    /// The vectors `[batch, width]` of texts whose tokens have the vectors `[batch, length, width]`, where `mask`
    /// `[batch, length]` is 1 for tokens and 0 for padding.
    ///
    /// # Errors
    /// Shapes that do not fit together.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_text::sentence::Pooling;
    /// let (tokens, mask) = (tensor![[[1.0, 2.0], [4.0, 0.0], [9.0, 9.0]]], tensor![[1, 1, 0]]);
    /// assert_eq!(Pooling::Max.apply(&tokens, &mask)?, tensor![[4.0, 2.0]]);
    /// // The second token counts twice.
    /// assert!(Pooling::WeightedMean.apply(&tokens, &mask)?.allclose(&tensor![[3.0, 2.0 / 3.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn apply(self, tokens: &Tensor, mask: &Tensor) -> Result<Tensor> {
        let (&[batch, length, width], true) = (tokens.dims(), mask.ndim() == 2) else {
            let why = format!("a mask {} for vectors {}", mask.shape(), tokens.shape());
            return Err(TorshError::shape("Pooling", why));
        };
        let weights = mask.to_dtype(tokens.dtype())?;
        let sum = |weights: &Tensor| tokens.mul(&weights.unsqueeze(-1)?)?.sum_dim(1, false);
        let count = |weights: &Tensor| weights.sum_dim(1, true)?.clamp_min(1e-9);
        match self {
            Pooling::Cls => tokens.select(1, 0),
            Pooling::Max => {
                let padding = mask.eq(0)?.unsqueeze(-1)?;
                tokens.masked_fill(&padding, -1e9)?.amax(1, false)
            }
            Pooling::Mean => sum(&weights)?.div(&count(&weights)?),
            Pooling::MeanSqrtLen => sum(&weights)?.div(&count(&weights)?.sqrt()?),
            Pooling::WeightedMean => {
                let at: Vec<i64> = (1..=length as i64).collect();
                let at = Tensor::from_vec(at, [1, length])?.to_device(tokens.device())?;
                let weights = weights.mul(&at.to_dtype(tokens.dtype())?)?;
                sum(&weights)?.div(&count(&weights)?)
            }
            Pooling::LastToken => {
                let rows = mask.ne(0)?.to_vec2::<bool>()?;
                let last = rows.iter().enumerate().map(|(b, row)| {
                    let at = row.iter().rposition(|&token| token).unwrap_or(0);
                    (b * length + at) as i64
                });
                let last = Tensor::from_vec(last.collect::<Vec<_>>(), [batch])?;
                tokens
                    .mul(&weights.unsqueeze(-1)?)?
                    .reshape([batch * length, width])?
                    .index_select(0, &last.to_device(tokens.device())?)
            }
        }
    }

    /// Those that a pooling's `config.json` asks for.
    fn read(config: &Value, at: &Path) -> Result<Vec<Pooling>> {
        let named = match &config["pooling_mode"] {
            Value::Array(all) => all.iter().collect(),
            Value::Null => Vec::new(),
            one => vec![one],
        };
        for name in &named {
            if !POOLINGS.iter().any(|(_, known, _)| *name == known) {
                return Err(broken(at, &format!("pooling_mode = {name} is not known")));
            }
        }
        let wanted = |(field, name, _): &&(&str, &str, Pooling)| {
            config[*field] == true || named.iter().any(|n| *n == name)
        };
        let all: Vec<Pooling> = POOLINGS.iter().filter(wanted).map(|p| p.2).collect();
        match all.is_empty() {
            true => Err(broken(at, "it asks for no way of pooling")),
            false => Ok(all),
        }
    }
}

/// An encoder of texts under a pooling.
trait Encoder: TextModel {
    fn tokens(&self, inputs: TokenInputs<'_>) -> Result<EncoderOutput>;
}

macro_rules! encoders {
    ($($model:ident),*) => {$(
        impl Encoder for $model {
            fn tokens(&self, inputs: TokenInputs<'_>) -> Result<EncoderOutput> {
                self.forward_with(inputs)
            }
        }
    )*};
}

encoders!(
    AlbertModel,
    BertModel,
    DistilBertModel,
    ElectraModel,
    ModernBertModel,
    RobertaModel
);

/// What happens behind the pooling.
enum Stage {
    Dense(Linear, Activation),
    Normalize,
}

/// Makes vectors of sentences that are near each other where the sentences mean something alike.
///
/// It reads folders of the library sentence-transformers: the encoder, the pooling and what is behind it are what
/// `modules.json` says. A folder with a model and a tokenizer alone means the mean of the tokens and L2 norm.
///
/// ```
/// use torsh_hub::FromPretrained;
/// use torsh_text::models::{BertConfig, BertModel};
/// use torsh_text::sentence::SentenceEmbedder;
/// use torsh_text::tokenizers::{Tokenizer, TokenizerModel, TrainOptions};
///
/// # let dir = std::env::temp_dir().join(format!("torsh-sentence-doc-{}", std::process::id()));
/// // A folder with a model; others come from the Hugging Face Hub.
/// let options = TrainOptions::new(TokenizerModel::WordPiece).vocab_size(60);
/// let tokenizer = Tokenizer::train(["a man is eating", "a man is eating bread"], &options)?;
/// let config = BertConfig {
///     hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, intermediate_size: 16,
///     vocab_size: tokenizer.len(),
///     ..Default::default()
/// };
/// BertModel::new(config)?.save_model(&dir)?;
/// tokenizer.save(dir.join("tokenizer.json"))?;
///
/// let embedder = SentenceEmbedder::from_pretrained(&dir.display().to_string())?;
/// let vectors = embedder.encode(&["a man is eating", "bread", "a man is eating"])?;
/// assert_eq!(vectors.dims(), [3, embedder.dimension()]);
/// // The same sentence has the same vector; the product of two is the cosine of their angle.
/// let cosines = vectors.matmul(&vectors.t()?)?;
/// assert!((cosines.select(0, 0)?.select(0, 2)?.item::<f32>()? - 1.0).abs() < 1e-4);
/// # std::fs::remove_dir_all(&dir)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct SentenceEmbedder {
    tokenizer: Tokenizer,
    encoder: Box<dyn Encoder>,
    poolings: Vec<Pooling>,
    stages: Vec<Stage>,
    max_tokens: usize,
    lowercase: bool,
    prompt: String,
    dimension: usize,
}

impl SentenceEmbedder {
    /// The embedder of a folder, or of a repository `org/name` of the Hugging Face Hub, in eval mode.
    ///
    /// # Errors
    /// No such folder, files that are missing or broken, and modules or models that are not known; the error names file
    /// and field.
    #[torsh_tensor::names_caller(Self)]
    pub fn from_pretrained(source: &str) -> Result<SentenceEmbedder> {
        let hub = Hub::shared()?;
        let folder = match Path::new(source) {
            path if path.is_dir() => path.to_path_buf(),
            path if is_path(source) => {
                return Err(broken(path, "there is no such folder"));
            }
            _ => hub.snapshot(source, &["*.json", "*.txt", "*.model", "*.safetensors"])?,
        };
        let list = folder.join("modules.json");
        let modules = match read(&list)? {
            Some(modules) => modules_of(&modules, &list)?,
            None => Vec::new(),
        };
        let named = |kind: &str| modules.iter().find(|(k, _)| k == kind);
        let home = match named("Transformer") {
            Some((_, path)) => folder.join(path),
            None if modules.is_empty() => folder.clone(),
            None => return Err(broken(&list, "there is no module of the type Transformer")),
        };
        let source = home.display().to_string();
        let config = hub.config(&source)?;
        let state = hub.load_readable_state_dict(&source, LoadStateDict::new())?;
        let width = ["hidden_size", "dim"]
            .iter()
            .find_map(|name| config[*name].as_u64())
            .ok_or_else(|| broken(&home.join("config.json"), "it has no hidden_size"))?;
        let tokenizer = Tokenizer::from_pretrained(&source)?;
        let settings = read(&home.join("sentence_bert_config.json"))?.unwrap_or_default();
        let prompts = read(&folder.join("config_sentence_transformers.json"))?.unwrap_or_default();
        let mut embedder = SentenceEmbedder {
            max_tokens: max_tokens(&config, &settings, &tokenizer),
            lowercase: settings["do_lower_case"] == true,
            prompt: default_prompt(&prompts).to_string(),
            tokenizer,
            encoder: encoder(&source, config, state)?,
            poolings: vec![Pooling::Mean],
            stages: Vec::new(),
            dimension: width as usize,
        };
        if modules.is_empty() {
            embedder.stages.push(Stage::Normalize);
            return Ok(embedder);
        }
        let mut pooled = false;
        for (kind, path) in &modules {
            let at = folder.join(path).join("config.json");
            match kind.as_str() {
                "Transformer" => {}
                "Pooling" if !pooled => {
                    let config = read(&at)?.ok_or_else(|| broken(&at, "there is no such file"))?;
                    if config["include_prompt"] == false && !embedder.prompt.is_empty() {
                        let why = "include_prompt = false is not supported with a default prompt";
                        return Err(broken(&at, why));
                    }
                    embedder.poolings = Pooling::read(&config, &at)?;
                    embedder.dimension *= embedder.poolings.len();
                    pooled = true;
                }
                "Dense" if pooled => {
                    let (layer, activation) = dense(&at, embedder.dimension)?;
                    embedder.dimension = layer.out_features();
                    embedder.stages.push(Stage::Dense(layer, activation));
                }
                "Normalize" if pooled => embedder.stages.push(Stage::Normalize),
                _ => {
                    let why = format!("a module of the type {kind} is not supported in its place");
                    return Err(broken(&list, &why));
                }
            }
        }
        match pooled {
            true => Ok(embedder),
            false => Err(broken(&list, "there is no module of the type Pooling")),
        }
    }

    /// The vectors of sentences, `[sentences, dimension]`, without gradients: 32 are computed at a time.
    ///
    /// # Errors
    /// A tokenizer that does not fit the model.
    #[track_caller]
    pub fn encode<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Result<Tensor> {
        self.encode_with(texts, 32)
    }

    /// [`SentenceEmbedder::encode`] with another number of sentences that are computed at a time. They are sorted by
    /// length first, and nothing is computed for padding, so that the number changes the time alone.
    ///
    /// # Errors
    /// As there, and a batch of no sentences.
    #[torsh_tensor::names_caller]
    pub fn encode_with<S: AsRef<str> + Sync>(
        &self,
        texts: &[S],
        batch_size: usize,
    ) -> Result<Tensor> {
        if batch_size == 0 {
            return Err(TorshError::invalid(OP, "a batch_size of 0"));
        }
        let device = self.device();
        if texts.is_empty() {
            return Tensor::zeros([0, self.dimension], torsh_core::default_dtype(), device);
        }
        let prepared: Vec<String> = texts.iter().map(|t| self.prepare(t.as_ref())).collect();
        let options = EncodeOptions::new()
            .truncation(true)
            .max_length(self.max_tokens);
        let encodings = self.tokenizer.encode_batch(&prepared, &options)?;
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(encodings[i].len()));
        no_grad(|| {
            let mut parts = Vec::with_capacity(texts.len().div_ceil(batch_size));
            for batch in order.chunks(batch_size) {
                let batch: Vec<&Encoding> = batch.iter().map(|&i| &encodings[i]).collect();
                let length = batch.iter().map(|e| e.len()).max().unwrap_or(0).max(1);
                let padding = self.tokenizer.pad_token_id().unwrap_or(0);
                let rows = |part: fn(&Encoding) -> &[u32], fill: u32| {
                    let mut all = Vec::with_capacity(batch.len() * length);
                    for encoding in &batch {
                        let row = part(encoding).iter().copied();
                        let row = row.chain(std::iter::repeat(fill)).take(length);
                        all.extend(row.map(i64::from));
                    }
                    Tensor::from_vec(all, [batch.len(), length])?.to_device(device)
                };
                let ids = rows(|e| &e.ids, padding)?;
                let mask = rows(|e| &e.attention_mask, 0)?;
                let types = match batch.iter().any(|e| e.type_ids.iter().any(|&t| t != 0)) {
                    true => Some(rows(|e| &e.type_ids, 0)?),
                    false => None,
                };
                let inputs = TokenInputs::new(&ids)
                    .attention_mask(&mask)
                    .token_type_ids(types.as_ref());
                parts.push(self.embed(inputs.skip_padding(true))?);
            }
            let mut back = vec![0; order.len()];
            for (row, &text) in order.iter().enumerate() {
                back[text] = row as i64;
            }
            let count = back.len();
            let back = Tensor::from_vec(back, [count])?.to_device(device)?;
            cat(&parts, 0)?.index_select(0, &back)
        })
    }

    /// The vectors of texts that are tokens already, `[batch, dimension]`, with gradients where the model's weights
    /// want them: for training.
    ///
    /// # Errors
    /// As the model's own `forward_with`.
    #[torsh_tensor::names_caller]
    pub fn embed(&self, inputs: TokenInputs<'_>) -> Result<Tensor> {
        let tokens = self.encoder.tokens(inputs)?.last_hidden_state;
        let all = match inputs.attention_mask {
            Some(mask) => mask.clone(),
            None => inputs.input_ids.mul(0)?.add(1)?,
        };
        let pooled = self.poolings.iter().map(|p| p.apply(&tokens, &all));
        let mut x = cat(&pooled.collect::<Result<Vec<_>>>()?, -1)?;
        for stage in &self.stages {
            x = match stage {
                Stage::Dense(layer, activation) => activation.apply(&layer.forward(&x)?)?,
                Stage::Normalize => F::normalize(&x)?,
            };
        }
        Ok(x)
    }

    /// The size of a vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// The most tokens of a sentence; what is behind them is cut off.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// Sets the most tokens of a sentence, special ones included.
    pub fn set_max_tokens(&mut self, tokens: usize) {
        self.max_tokens = tokens;
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The model, which is in eval mode.
    pub fn model(&self) -> &dyn TextModel {
        &*self.encoder
    }

    fn device(&self) -> Device {
        let parameters = self.encoder.parameters();
        parameters.first().map_or(Device::Cpu, |p| p.device())
    }

    fn prepare(&self, text: &str) -> String {
        let text = format!("{}{}", self.prompt, text);
        match self.lowercase {
            true => text.trim().to_lowercase(),
            false => text.trim().to_string(),
        }
    }
}

fn broken(at: &Path, why: &str) -> TorshError {
    TorshError::format(OP, format!("{}: {why}", at.display()))
}

/// The JSON of a file, where there is one.
fn read(path: &Path) -> Result<Option<Value>> {
    let size = match path.metadata() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other?.len(),
    };
    if size > LARGEST_JSON {
        return Err(broken(path, "it is larger than any configuration"));
    }
    let text = std::fs::read(path)?;
    torsh_core::check_git_lfs(OP, path.display(), &text)?;
    let value = serde_json::from_slice(torsh_core::without_bom(&text));
    value.map(Some).map_err(|e| broken(path, &e.to_string()))
}

/// The last name of each module's type, and its folder.
fn modules_of(list: &Value, at: &Path) -> Result<Vec<(String, String)>> {
    let Value::Array(all) = list else {
        return Err(broken(at, "it holds no list"));
    };
    if all.is_empty() {
        return Err(broken(at, "it lists no module"));
    }
    let one = |module: &Value| {
        let (Some(kind), Some(path)) = (module["type"].as_str(), module["path"].as_str()) else {
            return Err(broken(at, "a module has no type or no path"));
        };
        let outside = Path::new(path)
            .components()
            .any(|c| !matches!(c, std::path::Component::Normal(_)));
        if outside {
            return Err(broken(
                at,
                &format!("path {path:?} leads out of the folder"),
            ));
        }
        let kind = kind.rsplit('.').next().unwrap_or(kind);
        Ok((kind.to_string(), path.to_string()))
    };
    all.iter().map(one).collect()
}

/// What the folder says, else what the model and the tokenizer can read.
fn max_tokens(config: &Value, settings: &Value, tokenizer: &Tokenizer) -> usize {
    let number = |v: &Value| v.as_u64().map(|n| n as usize);
    let mut most = number(&config["max_position_embeddings"]).unwrap_or(usize::MAX);
    if matches!(
        config["model_type"].as_str(),
        Some("roberta" | "xlm-roberta")
    ) {
        most = most.saturating_sub(number(&config["pad_token_id"]).unwrap_or(1) + 1);
    }
    let wanted = number(&settings["max_seq_length"]).or(tokenizer.model_max_length());
    wanted.unwrap_or(most).min(most)
}

/// What is put ahead of each text unless something else is said.
fn default_prompt(config: &Value) -> &str {
    let name = config["default_prompt_name"].as_str();
    name.and_then(|name| config["prompts"][name].as_str())
        .unwrap_or_default()
}

/// The layer of a module of the type Dense.
fn dense(at: &Path, width: usize) -> Result<(Linear, Activation)> {
    let config = read(at)?.ok_or_else(|| broken(at, "there is no such file"))?;
    let number = |name: &str| {
        let value = config[name].as_u64();
        value.ok_or_else(|| broken(at, &format!("it has no {name}")))
    };
    let (from, to) = (
        number("in_features")? as usize,
        number("out_features")? as usize,
    );
    if from != width {
        let why = format!("in_features = {from} behind vectors of the size {width}");
        return Err(broken(at, &why));
    }
    let named = config["activation_function"].as_str();
    let activation = match named.and_then(|name| name.rsplit('.').next()) {
        None | Some("Tanh") => Activation::Tanh,
        Some("Identity") => Activation::Linear,
        Some("ReLU") => Activation::Relu,
        Some("GELU") => Activation::Gelu,
        Some("SiLU") => Activation::Silu,
        Some(other) => {
            return Err(broken(
                at,
                &format!("activation_function {other} is not supported"),
            ));
        }
    };
    let bias = config["bias"] != false;
    let make = || Linear::builder(from, to).bias(bias).build();
    let layer = Construction::new().draw_nothing().run(make)?;
    let folder = at.parent().unwrap_or(at).display().to_string();
    let state = Hub::shared()?.load_state_dict(&folder, LoadStateDict::new())?;
    let state: StateDict = state
        .into_iter()
        .map(|(name, t)| (name.trim_start_matches("linear.").to_string(), t))
        .collect();
    layer
        .load_state_dict(&state)
        .map_err(|e| e.with_hint(OTHER_MODEL))?;
    Ok((layer, activation))
}

/// What is said of weights that do not fit the module that was made for them.
const OTHER_MODEL: &str =
    "the weights are of another model, or of other settings, than the config.json beside them says";

/// The tensors of a file, and what of it cannot be read.
type Tensors = (StateDict, Vec<LeftOut>);

fn encoder(source: &str, config: Value, state: Tensors) -> Result<Box<dyn Encoder>> {
    fn load<M: Encoder + FromPretrained>(
        make: fn(M::Config) -> Result<M>,
        source: &str,
        config: Value,
        (state, left_out): Tensors,
    ) -> Result<Box<dyn Encoder>> {
        let config = M::read_config(config)?;
        let model = Construction::new().draw_nothing().run(|| make(config))?;
        let state = model.adapt_state_dict(state)?;
        let head = NewHead {
            is_head: &|_| false,
            draw: &|| Ok(StateDict::new()),
        };
        let state = complete(&model, source, state, &PretrainedOptions::new(), &head);
        model
            .load_state_dict(&with_left_out(source, &left_out, state)?)
            .map_err(|e| e.with_hint(OTHER_MODEL))?;
        model.eval();
        Ok(Box::new(model))
    }
    match config["model_type"].as_str() {
        Some("albert") => load(AlbertModel::without_pooler, source, config, state),
        Some("bert") => load(BertModel::without_pooler, source, config, state),
        Some("distilbert") => load(DistilBertModel::new, source, config, state),
        Some("electra") => load(ElectraModel::new, source, config, state),
        Some("modernbert") => load(ModernBertModel::new, source, config, state),
        Some("roberta" | "xlm-roberta") => {
            load(RobertaModel::without_pooler, source, config, state)
        }
        other => {
            let why = format!(
                "config.json: the model_type {} has no encoder here; there are albert, bert, distilbert, electra, modernbert, roberta and xlm-roberta",
                other.unwrap_or("(none)")
            );
            Err(TorshError::format(OP, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;
    use torsh_tensor::tensor;

    use super::*;
    use crate::models::{BertConfig, BertModel};
    use crate::tokenizers::{TokenizerModel, TrainOptions};

    const TEXTS: [&str; 4] = [
        "a man is eating bread",
        "bread",
        "A man",
        "a man is eating a man is eating",
    ];

    /// A folder with a small model, removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Result<Folder> {
            let dir =
                std::env::temp_dir().join(format!("torsh-sentence-{name}-{}", std::process::id()));
            let options = TrainOptions::new(TokenizerModel::WordPiece).vocab_size(60);
            let tokenizer = Tokenizer::train(TEXTS, &options)?;
            let config = BertConfig {
                hidden_size: 8,
                num_hidden_layers: 2,
                num_attention_heads: 2,
                intermediate_size: 16,
                vocab_size: tokenizer.len(),
                initializer_range: 0.5,
                ..Default::default()
            };
            BertModel::new(config)?.save_model(&dir)?;
            tokenizer.save(dir.join("tokenizer.json"))?;
            Ok(Folder(dir))
        }

        fn write(&self, path: &str, value: Value) -> Result<()> {
            let path = self.0.join(path);
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            Ok(std::fs::write(path, value.to_string())?)
        }

        fn modules(&self, kinds: &[(&str, &str)]) -> Result<()> {
            let all = kinds.iter().enumerate().map(|(i, (kind, path))| {
                json!({ "idx": i, "name": i.to_string(), "path": path, "type": format!("sentence_transformers.models.{kind}") })
            });
            self.write("modules.json", all.collect())
        }

        fn open(&self) -> Result<SentenceEmbedder> {
            SentenceEmbedder::from_pretrained(&self.0.display().to_string())
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn near(a: &Tensor, b: &Tensor) -> Result<bool> {
        Ok(a.dims() == b.dims() && a.sub(b)?.abs()?.max()?.item::<f64>()? < 1e-5)
    }

    #[test]
    fn any_batch_size_gives_the_same_in_the_same_order() -> Result<()> {
        let folder = Folder::new("batches")?;
        let embedder = folder.open()?;
        let all = embedder.encode(&TEXTS)?;
        assert_eq!(all.dims(), [4, 8]);
        assert!(!all.requires_grad());
        for (i, text) in TEXTS.iter().enumerate() {
            assert!(near(&embedder.encode(&[text])?, &all.narrow(0, i, 1)?)?);
        }
        assert!(near(&embedder.encode_with(&TEXTS, 3)?, &all)?);
        assert!(near(
            &all.square()?.sum_dim(1, false)?,
            &torsh_tensor::ones([4])
        )?);
        assert_eq!(embedder.encode::<&str>(&[])?.dims(), [0, 8]);
        assert!(embedder.encode_with(&TEXTS, 0).is_err());
        Ok(())
    }

    #[test]
    fn modules_pool_as_the_folder_says() -> Result<()> {
        let folder = Folder::new("modules")?;
        folder.modules(&[("Transformer", ""), ("Pooling", "1_Pooling")])?;
        folder.write(
            "1_Pooling/config.json",
            json!({ "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true }),
        )?;
        folder.write(
            "sentence_bert_config.json",
            json!({ "max_seq_length": 4, "do_lower_case": true }),
        )?;
        let embedder = folder.open()?;
        assert_eq!((embedder.dimension(), embedder.max_tokens()), (16, 4));
        let vectors = embedder.encode(&["A MAN is eating", "a man"])?;
        assert_eq!(vectors.dims(), [2, 16]);
        // Both are cut to two tokens between the special ones.
        assert!(near(&vectors.narrow(0, 0, 1)?, &vectors.narrow(0, 1, 1)?)?);
        Ok(())
    }

    #[test]
    fn ways_of_pooling() -> Result<()> {
        let tokens = tensor![[[1.0, -2.0], [3.0, -4.0]], [[5.0, -6.0], [9.0, 9.0]]];
        let mask = tensor![[1, 1], [1, 0]];
        for (pooling, wanted) in [
            (Pooling::Cls, tensor![[1.0, -2.0], [5.0, -6.0]]),
            (Pooling::Max, tensor![[3.0, -2.0], [5.0, -6.0]]),
            (
                Pooling::MeanSqrtLen,
                tensor![[2.828427, -4.242641], [5.0, -6.0]],
            ),
            (
                Pooling::WeightedMean,
                tensor![[2.333333, -3.333333], [5.0, -6.0]],
            ),
        ] {
            assert!(
                near(&pooling.apply(&tokens, &mask)?, &wanted)?,
                "{pooling:?}"
            );
        }
        Ok(())
    }

    #[test]
    fn what_is_not_known_is_named() -> Result<()> {
        let folder = Folder::new("errors")?;
        let error = |folder: &Folder| {
            folder
                .open()
                .err()
                .map(|e| e.to_string())
                .unwrap_or_default()
        };
        folder.modules(&[
            ("Transformer", ""),
            ("Pooling", "1_Pooling"),
            ("CNN", "2_CNN"),
        ])?;
        assert!(error(&folder).contains("1_Pooling"));
        folder.write("1_Pooling/config.json", json!({ "pooling_mode": "median" }))?;
        assert!(error(&folder).contains("median"));
        folder.write("1_Pooling/config.json", json!({ "pooling_mode": "cls" }))?;
        assert!(error(&folder).contains("CNN"));
        folder.modules(&[("Transformer", "../other")])?;
        assert!(error(&folder).contains("leads out"));
        Ok(())
    }
}
