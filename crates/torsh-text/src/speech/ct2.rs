//! Models in CTranslate2's container, `model.bin`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use torsh_nn::StateDict;
use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::io_error;
use crate::models::WhisperConfig;

/// The variables of a CTranslate2 model: weights that its converter renamed, joined and possibly quantized.
///
/// ```no_run
/// use torsh_nn::ModuleExt;
/// use torsh_text::models::WhisperForConditionalGeneration;
/// use torsh_text::speech::CTranslate2;
/// let file = CTranslate2::open("whisper-tiny.en/model.bin")?;
/// assert_eq!(file.spec, "WhisperSpec");
/// let (config, weights) = file.whisper()?;
/// let model = WhisperForConditionalGeneration::new(config)?;
/// model.load_state_dict(&weights)?;
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Debug)]
pub struct CTranslate2 {
    /// The name of the architecture, as `WhisperSpec`.
    pub spec: String,
    /// The version of its names.
    pub revision: u32,
    /// The tensors as the file has them.
    pub variables: BTreeMap<String, Tensor>,
    /// Names that stand for those of other variables.
    pub aliases: BTreeMap<String, String>,
}

/// The bytes of a file, of which no more are asked for than it has.
struct Reader<R> {
    from: R,
    name: String,
    left: u64,
}

impl<R: Read> Reader<R> {
    fn refuse(&self, why: impl Into<String>) -> TorshError {
        TorshError::format("CTranslate2", format!("{}: {}", self.name, why.into()))
    }

    fn bytes(&mut self, count: u64, what: &str) -> Result<Vec<u8>> {
        if count > self.left {
            let why = format!(
                "{what} has {count} bytes, and {} are left in the file",
                self.left
            );
            return Err(self.refuse(why));
        }
        let mut bytes = Vec::with_capacity(count as usize);
        let read = self.from.by_ref().take(count).read_to_end(&mut bytes);
        match read {
            Ok(n) if n as u64 == count => {
                self.left -= count;
                Ok(bytes)
            }
            Ok(n) => Err(self.refuse(format!("{what} has {count} bytes, of which {n} are there"))),
            Err(e) => Err(self.refuse(format!("{what}: {e}"))),
        }
    }

    fn number<const N: usize>(&mut self, what: &str) -> Result<u32> {
        let mut number = [0; 4];
        number[..N].copy_from_slice(&self.bytes(N as u64, what)?);
        Ok(u32::from_le_bytes(number))
    }

    /// A text with its length, which counts the 0 behind it.
    fn text(&mut self, what: &str) -> Result<String> {
        let length = self.number::<2>(what)?;
        let mut bytes = self.bytes(u64::from(length), what)?;
        if bytes.pop() != Some(0) {
            return Err(self.refuse(format!("{what} does not end with 0")));
        }
        String::from_utf8(bytes).map_err(|_| self.refuse(format!("{what} is not UTF-8")))
    }

    fn variable(&mut self) -> Result<(String, Tensor)> {
        let name = self.text("the name of a variable")?;
        let rank = self.number::<1>(&name)?;
        let mut dims = Vec::new();
        for _ in 0..rank {
            dims.push(self.number::<4>(&name)? as usize);
        }
        let dtype = match self.number::<1>(&name)? {
            0 => DType::F32,
            1 => DType::I8,
            2 => DType::I16,
            3 => DType::I32,
            4 => DType::F16,
            5 => DType::BF16,
            other => return Err(self.refuse(format!("{name} is of the unknown dtype {other}"))),
        };
        let count = u64::from(self.number::<4>(&name)?);
        let wanted = dims
            .iter()
            .try_fold(dtype.size() as u64, |n, &d| n.checked_mul(d as u64));
        if wanted != Some(count) {
            let why = format!("{name} has {count} bytes, which are not {dims:?} of {dtype}");
            return Err(self.refuse(why));
        }
        let bytes = self.bytes(count, &name)?;
        let tensor = Tensor::from_bytes(&bytes, dtype, &dims[..])?;
        Ok((name, tensor))
    }
}

impl CTranslate2 {
    /// Reads a file, all of whose tensors are copied into memory.
    ///
    /// # Errors
    /// No such file, another format or version, and one that is broken; the error names the file and the variable.
    #[torsh_tensor::names_caller(Self)]
    pub fn open(path: impl AsRef<Path>) -> Result<CTranslate2> {
        let path = path.as_ref();
        let of_io = |e: std::io::Error| io_error("CTranslate2", path, &e);
        let mut file = File::open(path).map_err(of_io)?;
        torsh_core::check_git_lfs_file("CTranslate2", path.display(), &mut file)?;
        let length = file.metadata().map_err(of_io)?.len();
        CTranslate2::read(BufReader::new(file), length, &path.display().to_string())
    }

    /// Reads the `length` bytes of a file whose name is for errors alone.
    ///
    /// # Errors
    /// As [`CTranslate2::open`].
    #[torsh_tensor::names_caller(Self)]
    pub fn read(from: impl Read, length: u64, name: &str) -> Result<CTranslate2> {
        let mut reader = Reader {
            from,
            name: name.to_string(),
            left: length,
        };
        let version = reader.number::<4>("the version")?;
        if !(4..=6).contains(&version) {
            let why = format!("version {version} of the container; 4 to 6 are read");
            return Err(reader.refuse(why).with_hint(
                "convert the model again with ct2-transformers-converter, or use a folder of Hugging Face's library",
            ));
        }
        let spec = reader.text("the name of the architecture")?;
        let revision = reader.number::<4>("the revision")?;
        let mut variables = BTreeMap::new();
        for _ in 0..reader.number::<4>("the number of variables")? {
            let (name, tensor) = reader.variable()?;
            if variables.insert(name.clone(), tensor).is_some() {
                return Err(reader.refuse(format!("{name} is there twice")));
            }
        }
        let mut aliases = BTreeMap::new();
        for _ in 0..reader.number::<4>("the number of aliases")? {
            let alias = reader.text("an alias")?;
            let name = reader.text(&alias)?;
            if !variables.contains_key(&name) {
                return Err(reader.refuse(format!("{alias} stands for {name}, which is not there")));
            }
            aliases.insert(alias, name);
        }
        if reader.left != 0 {
            return Err(reader.refuse(format!("{} bytes follow the last alias", reader.left)));
        }
        Ok(CTranslate2 {
            spec,
            revision,
            variables,
            aliases,
        })
    }

    fn stored(&self, name: &str) -> Option<&Tensor> {
        let name = self.aliases.get(name).map_or(name, |n| n);
        self.variables.get(name)
    }

    /// A variable in float32: whole numbers are divided by their scale.
    ///
    /// # Errors
    /// No such variable, and whole numbers without a scale that fits.
    #[torsh_tensor::names_caller]
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let refuse = |why: String| TorshError::format("CTranslate2", format!("{name}: {why}"));
        let Some(stored) = self.stored(name) else {
            return Err(refuse("the file has no such variable".into()));
        };
        let tensor = stored.to_dtype(DType::F32)?;
        if stored.dtype().is_floating_point() {
            return Ok(tensor);
        }
        let own = self.aliases.get(name).map_or(name, |n| n);
        let Some(scale) = self.stored(&format!("{own}_scale")) else {
            return Err(refuse(format!("{} has no scale", stored.describe())));
        };
        // One for all, or one for each row.
        let mut shape = scale.dims().to_vec();
        shape.resize(stored.ndim().max(shape.len()), 1);
        let scale = scale.to_dtype(DType::F32)?.reshape(&shape[..])?;
        if !scale.shape().can_broadcast_to(stored.shape()) {
            let why = format!(
                "the scale {} does not fit {}",
                scale.shape(),
                stored.shape()
            );
            return Err(refuse(why));
        }
        tensor.div(&scale)
    }

    /// A whole number.
    fn whole(&self, name: &str) -> Result<i64> {
        let missing = || TorshError::format("CTranslate2", format!("the file has no {name}"));
        self.stored(name).ok_or_else(missing)?.item::<i64>()
    }

    /// The layers `prefix_0`, `prefix_1`, ..
    fn layers(&self, prefix: &str) -> usize {
        let there = |i: usize| {
            let layer = format!("{prefix}_{i}/");
            let next = self.variables.range(layer.clone()..).next();
            next.is_some_and(|(name, _)| name.starts_with(&layer))
        };
        (0..).take_while(|&i| there(i)).count()
    }

    /// The configuration and the weights of a Whisper, by the names of Hugging Face's library.
    ///
    /// # Errors
    /// Another architecture, a variable that is missing, or one of another shape than the others say.
    #[torsh_tensor::names_caller]
    pub fn whisper(&self) -> Result<(WhisperConfig, StateDict)> {
        let refuse = |why: String| TorshError::format("CTranslate2", why);
        if self.spec != "WhisperSpec" {
            return Err(refuse(format!(
                "the model is a {}, not a WhisperSpec",
                self.spec
            )));
        }
        const GELU: i64 = 3;
        if self.stored("decoder/activation").is_some() && self.whole("decoder/activation")? != GELU
        {
            return Err(refuse("decoder/activation is not that of Whisper".into()));
        }
        let sizes = |name: &str| -> Result<Vec<usize>> {
            let missing = || refuse(format!("the file has no {name}"));
            let dims = self.stored(name).ok_or_else(missing)?.dims().to_vec();
            match dims.len() {
                2 | 3 => Ok(dims),
                _ => Err(refuse(format!("{name} has the shape {dims:?}"))),
            }
        };
        let heads = |name: &str| -> Result<usize> {
            usize::try_from(self.whole(name)?).map_err(|_| refuse(format!("{name} is negative")))
        };
        let [vocab_size, d_model] = sizes("decoder/embeddings/weight")?[..] else {
            return Err(refuse("decoder/embeddings/weight is no table".into()));
        };
        let default = WhisperConfig::default();
        let config = WhisperConfig {
            vocab_size,
            d_model,
            num_mel_bins: sizes("encoder/conv1/weight")?[1],
            encoder_layers: self.layers("encoder/layer"),
            decoder_layers: self.layers("decoder/layer"),
            encoder_attention_heads: heads("encoder/num_heads")?,
            decoder_attention_heads: heads("decoder/num_heads")?,
            encoder_ffn_dim: sizes("encoder/layer_0/ffn/linear_0/weight")?[0],
            decoder_ffn_dim: sizes("decoder/layer_0/ffn/linear_0/weight")?[0],
            max_source_positions: sizes("encoder/position_encodings/encodings")?[0],
            max_target_positions: sizes("decoder/position_encodings/encodings")?[0],
            pad_token_id: default.pad_token_id.filter(|&id| id < vocab_size as i64),
            ..default
        };
        let mut names = Names {
            file: self,
            out: StateDict::new(),
            width: d_model,
        };
        for conv in ["conv1", "conv2"] {
            names.layer(&format!("encoder/{conv}"), &format!("model.encoder.{conv}"))?;
        }
        names.tensor(
            "decoder/embeddings/weight",
            "model.decoder.embed_tokens.weight",
        )?;
        for (part, layers) in [
            ("encoder", config.encoder_layers),
            ("decoder", config.decoder_layers),
        ] {
            let positions = format!("{part}/position_encodings/encodings");
            names.tensor(&positions, &format!("model.{part}.embed_positions.weight"))?;
            for i in 0..layers {
                names.block(
                    &format!("{part}/layer_{i}"),
                    &format!("model.{part}.layers.{i}"),
                )?;
            }
            names.norm(
                &format!("{part}/layer_norm"),
                &format!("model.{part}.layer_norm"),
            )?;
        }
        match self.stored("decoder/projection/weight") {
            Some(_) => names.tensor("decoder/projection/weight", "proj_out.weight")?,
            None => names.tensor("decoder/embeddings/weight", "proj_out.weight")?,
        }
        Ok((config, names.out))
    }
}

/// Weights on their way from the names of one library to those of the other.
struct Names<'a> {
    file: &'a CTranslate2,
    out: StateDict,
    width: usize,
}

impl Names<'_> {
    fn tensor(&mut self, from: &str, to: &str) -> Result<()> {
        self.out.insert(to, self.file.tensor(from)?);
        Ok(())
    }

    fn layer(&mut self, from: &str, to: &str) -> Result<()> {
        self.tensor(&format!("{from}/weight"), &format!("{to}.weight"))?;
        self.tensor(&format!("{from}/bias"), &format!("{to}.bias"))
    }

    fn norm(&mut self, from: &str, to: &str) -> Result<()> {
        self.tensor(&format!("{from}/gamma"), &format!("{to}.weight"))?;
        self.tensor(&format!("{from}/beta"), &format!("{to}.bias"))
    }

    /// Several projections that were joined; that to keys has no bias.
    fn joined(&mut self, from: &str, to: &str, projections: &[&str]) -> Result<()> {
        let weight = self.file.tensor(&format!("{from}/weight"))?;
        let bias = self.file.tensor(&format!("{from}/bias"))?;
        let rows = projections.len() * self.width;
        if weight.dims() != [rows, self.width] || bias.dims() != [rows] {
            let why = format!(
                "{from} has the shapes {} and {}, expected {rows} rows of {}",
                weight.shape(),
                bias.shape(),
                self.width
            );
            return Err(TorshError::format("CTranslate2", why));
        }
        for (i, name) in projections.iter().enumerate() {
            let part = |t: &Tensor| t.narrow(0, i * self.width, self.width)?.contiguous();
            self.out
                .insert(format!("{to}.{name}.weight"), part(&weight)?);
            if *name != "k_proj" {
                self.out.insert(format!("{to}.{name}.bias"), part(&bias)?);
            } else if part(&bias)?.ne(0.0)?.any()?.item::<bool>()? {
                let why =
                    format!("{from}/bias adds to the keys, which Whisper's has nothing added to");
                return Err(TorshError::format("CTranslate2", why));
            }
        }
        Ok(())
    }

    fn block(&mut self, from: &str, to: &str) -> Result<()> {
        let own = format!("{from}/self_attention");
        self.norm(
            &format!("{own}/layer_norm"),
            &format!("{to}.self_attn_layer_norm"),
        )?;
        let attention = format!("{to}.self_attn");
        self.joined(
            &format!("{own}/linear_0"),
            &attention,
            &["q_proj", "k_proj", "v_proj"],
        )?;
        self.layer(&format!("{own}/linear_1"), &format!("{attention}.out_proj"))?;
        let cross = format!("{from}/attention");
        if self
            .file
            .stored(&format!("{cross}/linear_0/weight"))
            .is_some()
        {
            self.norm(
                &format!("{cross}/layer_norm"),
                &format!("{to}.encoder_attn_layer_norm"),
            )?;
            let attention = format!("{to}.encoder_attn");
            self.layer(&format!("{cross}/linear_0"), &format!("{attention}.q_proj"))?;
            self.joined(
                &format!("{cross}/linear_1"),
                &attention,
                &["k_proj", "v_proj"],
            )?;
            self.layer(
                &format!("{cross}/linear_2"),
                &format!("{attention}.out_proj"),
            )?;
        }
        self.norm(
            &format!("{from}/ffn/layer_norm"),
            &format!("{to}.final_layer_norm"),
        )?;
        self.layer(&format!("{from}/ffn/linear_0"), &format!("{to}.fc1"))?;
        self.layer(&format!("{from}/ffn/linear_1"), &format!("{to}.fc2"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(to: &mut Vec<u8>, text: &str) {
        to.extend((text.len() as u16 + 1).to_le_bytes());
        to.extend(text.bytes().chain([0]));
    }

    fn variable(to: &mut Vec<u8>, name: &str, dims: &[u32], dtype: u8, bytes: &[u8]) {
        text(to, name);
        to.push(dims.len() as u8);
        dims.iter().for_each(|d| to.extend(d.to_le_bytes()));
        to.push(dtype);
        to.extend((bytes.len() as u32).to_le_bytes());
        to.extend(bytes);
    }

    fn sample() -> Vec<u8> {
        let mut to = 6u32.to_le_bytes().to_vec();
        text(&mut to, "TestSpec");
        to.extend(1u32.to_le_bytes());
        to.extend(4u32.to_le_bytes());
        let floats = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>();
        variable(&mut to, "a/weight", &[2, 2], 1, &[127, 0, 129, 64]);
        variable(&mut to, "a/weight_scale", &[2], 0, &floats(&[127.0, 64.0]));
        variable(&mut to, "half", &[1], 4, &0x3c00u16.to_le_bytes());
        variable(&mut to, "heads", &[], 2, &6i16.to_le_bytes());
        to.extend(1u32.to_le_bytes());
        text(&mut to, "b/weight");
        text(&mut to, "a/weight");
        to
    }

    fn read(bytes: &[u8]) -> Result<CTranslate2> {
        CTranslate2::read(bytes, bytes.len() as u64, "model.bin")
    }

    #[test]
    fn variables_are_scaled_and_aliased() -> Result<()> {
        let file = read(&sample())?;
        assert_eq!((&*file.spec, file.revision), ("TestSpec", 1));
        for name in ["a/weight", "b/weight"] {
            let rows = file.tensor(name)?.to_vec2::<f32>()?;
            assert_eq!(rows, [[1.0, 0.0], [-127.0 / 64.0, 1.0]]);
        }
        assert_eq!(file.tensor("half")?.to_vec::<f32>()?, [1.0]);
        assert_eq!(file.whole("heads")?, 6);
        let error = file.whisper().err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("TestSpec")));
        Ok(())
    }

    #[test]
    fn broken_files_are_errors() {
        let bytes = sample();
        for cut in 0..bytes.len() {
            let error = read(&bytes[..cut]).err().map(|e| e.to_string());
            assert!(error.is_some_and(|e| e.contains("model.bin")), "{cut}");
        }
        // Whatever byte is another: an error or other values, and no more memory than the file has.
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                if let Ok(file) = read(&other) {
                    let _ = (file.tensor("a/weight"), file.whisper());
                }
            }
        }
    }
}
