//! The files of an adapter.

use std::path::{Path, PathBuf};

use torsh_hub::{Hub, load_state_dict};
use torsh_nn::{Module, ModuleExt, StateDict};
use torsh_tensor::{Result, TorshError, no_grad};

use super::config::LoraConfig;
use super::model::{LoraModel, PREFIX};
use crate::blocks::Conv1D;

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
/// The most bytes of a configuration.
const LARGEST_CONFIG: u64 = 8 << 20;

/// A file of a folder, or of a repository `org/name`.
#[track_caller]
fn file(source: &str, name: &str) -> Result<PathBuf> {
    let folder = Path::new(source);
    if !folder.is_dir() {
        return Hub::shared()?.file(source, name);
    }
    let path = folder.join(name);
    match path.is_file() {
        true => Ok(path),
        false => Err(TorshError::format(
            "LoraModel",
            format!("the folder {source} has no {name}"),
        )),
    }
}

impl<M: Module> LoraModel<M> {
    /// A model with the adapters of a folder or a repository `org/name`: of its `adapter_config.json` and
    /// `adapter_model.safetensors`, as `peft` writes them. It is in eval mode.
    ///
    /// # Errors
    /// No such folder or file, a configuration of something else, adapters that do not fit the model. The error names
    /// what.
    ///
    /// ```
    /// use torsh_nn::{Linear, Module, ModuleExt, Sequential};
    /// use torsh_tensor::ones;
    /// use torsh_text::adapters::{LoraConfig, LoraInit, LoraModel};
    ///
    /// let base = Sequential::new().add(Linear::new(3, 3));
    /// let copy = Sequential::new().add(Linear::new(3, 3));
    /// copy.load_state_dict(&base.state_dict())?;
    /// let config = LoraConfig::new().r(2).target_modules(["0"]).init_lora_weights(LoraInit::Random);
    /// let model = LoraModel::new(base, config)?;
    /// let folder = std::env::temp_dir().join(format!("torsh-lora-{}", std::process::id()));
    /// model.save_pretrained(&folder)?;
    ///
    /// let again = LoraModel::from_pretrained(copy, &folder.display().to_string())?;
    /// assert_eq!(again.forward(&ones([1, 3]))?, model.forward(&ones([1, 3]))?);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[track_caller]
    pub fn from_pretrained(base: M, source: &str) -> Result<LoraModel<M>> {
        let path = file(source, CONFIG)?;
        let broken = |why: String| TorshError::format(CONFIG, format!("{}: {why}", path.display()));
        if std::fs::metadata(&path)?.len() > LARGEST_CONFIG {
            return Err(broken("it is larger than any configuration".into()));
        }
        let config = serde_json::from_slice(&std::fs::read(&path)?);
        let config = LoraConfig::from_json(config.map_err(|e| broken(e.to_string()))?)?;
        let model = torsh_nn::construct::Construction::new()
            .draw_nothing()
            .run(|| LoraModel::new(base, config))?;
        model.load_adapter_state_dict(&load_state_dict(file(source, WEIGHTS)?)?)?;
        model.eval();
        Ok(model)
    }

    /// Writes `adapter_config.json` and `adapter_model.safetensors` into a folder, which is made. `peft` loads them.
    ///
    /// # Errors
    /// A folder that cannot be written.
    #[track_caller]
    pub fn save_pretrained(&self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder)?;
        let mut config = self.config().to_json();
        let modules = self.base_model().named_modules();
        let transposed = self.adapters().any(|(name, _)| {
            let layer = modules.iter().find(|(module, _)| module == name);
            layer.is_some_and(|(_, m)| (*m as &dyn std::any::Any).is::<Conv1D>())
        });
        config["fan_in_fan_out"] = transposed.into();
        let text = serde_json::to_string_pretty(&config)
            .map_err(|e| TorshError::format(CONFIG, e.to_string()))?;
        torsh_serialize::write_bytes(folder.join(CONFIG), text.as_bytes())?;
        self.adapter_state_dict().save(folder.join(WEIGHTS))
    }

    /// What is trained by the names that `peft` has in its files: `base_model.model.NAME.lora_A.weight`, ..
    ///
    /// ```
    /// use torsh_nn::{Linear, Sequential};
    /// use torsh_text::adapters::{LoraBias, LoraConfig, LoraModel};
    /// let config = LoraConfig::new().target_modules(["0"]).bias(LoraBias::LoraOnly);
    /// let model = LoraModel::new(Sequential::new().add(Linear::new(3, 3)), config)?;
    /// let state = model.adapter_state_dict();
    /// let names: Vec<&str> = state.keys().collect();
    /// assert_eq!(names[0], "base_model.model.0.lora_A.weight");
    /// assert_eq!(names[2], "base_model.model.0.base_layer.bias");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn adapter_state_dict(&self) -> StateDict {
        let mut state = StateDict::new();
        for (name, layer) in self.adapters() {
            state.insert(
                format!("{PREFIX}{name}.lora_A.weight"),
                layer.lora_a().detach(),
            );
            state.insert(
                format!("{PREFIX}{name}.lora_B.weight"),
                layer.lora_b().detach(),
            );
        }
        for (_, file, parameter) in self.trained_besides() {
            state.insert(file, parameter.detach());
        }
        state
    }

    /// Copies tensors with the names of [`adapter_state_dict`](LoraModel::adapter_state_dict) into this model. An error
    /// leaves it as it was.
    ///
    /// # Errors
    /// Names that are missing, unknown, or whose tensors have another shape, all of which it lists.
    #[track_caller]
    pub fn load_adapter_state_dict(&self, state: &StateDict) -> Result<()> {
        let mut own = Vec::new();
        for (name, layer) in self.adapters() {
            for (matrix, parameter) in [("lora_A", layer.lora_a()), ("lora_B", layer.lora_b())] {
                let file = format!("{PREFIX}{name}.{matrix}.weight");
                let also = format!("{PREFIX}{name}.{matrix}.default.weight");
                own.push(([file, also], parameter.clone()));
            }
        }
        for (name, file, parameter) in self.trained_besides() {
            own.push(([file, format!("{PREFIX}{name}")], parameter));
        }
        let mut problems = Vec::new();
        let mut pairs = Vec::new();
        for (names, parameter) in &own {
            match names.iter().find_map(|name| state.get(name)) {
                None => problems.push(format!("missing: {}", names[0])),
                Some(tensor) if tensor.dims() != parameter.dims() => problems.push(format!(
                    "does not fit: {} is {} here and {} in the file",
                    names[0],
                    parameter.shape(),
                    tensor.shape()
                )),
                Some(tensor) => pairs.push((parameter, tensor)),
            }
        }
        let known = |name: &&str| own.iter().any(|(names, _)| names.iter().any(|n| n == name));
        let unknown = state.keys().filter(|name| !known(name));
        problems.extend(unknown.map(|name| format!("unexpected: {name}")));
        if !problems.is_empty() {
            const SHOWN: usize = 10;
            let more = problems.len().saturating_sub(SHOWN);
            problems.truncate(SHOWN);
            if more > 0 {
                problems.push(format!("and {more} more"));
            }
            return Err(TorshError::invalid(
                "load_adapter_state_dict",
                format!(
                    "the adapters do not fit the model\n  {}",
                    problems.join("\n  ")
                ),
            ));
        }
        no_grad(|| {
            for (parameter, tensor) in pairs {
                parameter.copy_(tensor)?;
            }
            Ok(())
        })
    }
}
