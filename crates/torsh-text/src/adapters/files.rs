//! The files of an adapter.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use torsh_hub::{Hub, load_state_dict};
use torsh_nn::module::{walk, walk_mut};
use torsh_nn::{Embedding, FieldMut, FieldRef, Module, ModuleExt, Parameter, StateDict};
use torsh_tensor::{Result, TorshError, no_grad};

use super::config::{LoraConfig, is_or_ends};
use super::model::{HEADS, LoraModel};
use super::tied::PREFIX;
use super::tied::part_by_file;
use crate::blocks::Conv1D;

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
/// The weights as peft wrote them before 0.7.
const OLD_WEIGHTS: &str = "adapter_model.bin";
/// The most bytes of a configuration.
const LARGEST_CONFIG: u64 = 8 << 20;

/// The first of some files that a folder has, or a repository `org/name`.
#[track_caller]
fn file(source: &str, names: &[&str]) -> Result<PathBuf> {
    let folder = Path::new(source);
    if folder.is_dir() {
        let found = names.iter().map(|name| folder.join(name));
        return found
            .into_iter()
            .find(|path| path.is_file())
            .ok_or_else(|| {
                let why = format!("the folder {source} has no {}", names.join(" and no "));
                TorshError::format("LoraModel", why)
            });
    }
    let hub = Hub::shared()?;
    let (last, first) = names.split_last().unwrap_or((&CONFIG, &[]));
    for name in first {
        if let Some(path) = hub.optional_file(source, name)? {
            return Ok(path);
        }
    }
    hub.file(source, last)
}

/// The parameters of a model's tables of tokens and of their heads, by all their names: what `peft` saves with an adapter
/// after tokens were added.
fn tables(base: &dyn Module) -> Vec<(String, Parameter)> {
    let modules = base.named_modules();
    let embeddings: Vec<&str> = modules
        .iter()
        .filter(|(_, module)| (*module as &dyn std::any::Any).is::<Embedding>())
        .map(|(name, _)| name.as_str())
        .collect();
    let mut out = Vec::new();
    walk(base, &mut |name, field| {
        let module = name.rsplit_once('.').map_or("", |(module, _)| module);
        let is_table =
            embeddings.contains(&module) || HEADS.iter().any(|head| is_or_ends(module, head));
        if let FieldRef::Parameter(p) = field
            && is_table
        {
            out.push((name.to_string(), p.clone()));
        }
    });
    out
}

/// Gives tables of tokens as many rows as the adapter's file has for them (`resize_token_embeddings`).
#[track_caller]
fn resized<M: Module>(mut base: M, state: &StateDict) -> Result<M> {
    let mut new = HashMap::new();
    for (name, parameter) in tables(&base) {
        let Some(tensor) = state.get(&format!("{PREFIX}{name}")) else {
            continue;
        };
        let (file, own) = (tensor.dims(), parameter.dims());
        if file.len() == own.len() && file.first() != own.first() && file[1..] == own[1..] {
            eprintln!(
                "torsh: {name} has {} rows in the adapter and {} in the model: the model gets the adapter's",
                file[0], own[0]
            );
            let rows = tensor
                .to_dtype(parameter.dtype())?
                .to_device(parameter.device())?
                .copy()?;
            let rows = Parameter::with_requires_grad(rows, parameter.requires_grad())?;
            new.entry(parameter.id()).or_insert(rows);
        }
    }
    walk_mut(&mut base, &mut |_, field| {
        if let FieldMut::Parameter(p) = field
            && let Some(rows) = new.get(&p.id())
        {
            p.mark_replaced();
            *p = rows.clone();
        }
    });
    Ok(base)
}

impl<M: Module> LoraModel<M> {
    /// A model with the adapters of a folder or a repository `org/name`: of its `adapter_config.json` and
    /// `adapter_model.safetensors`, or `adapter_model.bin`, as `peft` writes them. It is in eval mode.
    ///
    /// If the file has the model's table of tokens and its head too, as `peft` saves them after tokens were added, they
    /// replace the model's. A model with fewer tokens gets as many as the file has, and a line says so.
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
    #[torsh_tensor::names_caller(Self)]
    pub fn from_pretrained(base: M, source: &str) -> Result<LoraModel<M>> {
        let path = file(source, &[CONFIG])?;
        let broken = |why: String| TorshError::format(CONFIG, format!("{}: {why}", path.display()));
        if std::fs::metadata(&path)?.len() > LARGEST_CONFIG {
            return Err(broken("it is larger than any configuration".into()));
        }
        let text = std::fs::read(&path)?;
        torsh_core::check_git_lfs(CONFIG, path.display(), &text)?;
        let config = serde_json::from_slice(torsh_core::without_bom(&text));
        let config = LoraConfig::from_json(config.map_err(|e| broken(e.to_string()))?)?;
        let state = load_state_dict(file(source, &[WEIGHTS, OLD_WEIGHTS])?)?;
        let mut base = resized(base, &state)?;
        part_by_file(&mut base, &state)?;
        let model = torsh_nn::construct::Construction::new()
            .draw_nothing()
            .run(|| LoraModel::new(base, config))?;
        model.load_adapter_state_dict(&state)?;
        model.eval();
        Ok(model)
    }

    /// Writes `adapter_config.json` and `adapter_model.safetensors` into a folder, which is made. `peft` loads them.
    ///
    /// # Errors
    /// A folder that cannot be written.
    #[torsh_tensor::names_caller]
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
        let loaded = self.loaded_tables();
        for (name, parameter) in tables(self.base_model()) {
            if loaded.contains(&name) {
                state.insert(format!("{PREFIX}{name}"), parameter.detach());
            }
        }
        state
    }

    /// Copies tensors with the names of [`adapter_state_dict`](LoraModel::adapter_state_dict) into this model. An error
    /// leaves it as it was.
    ///
    /// # Errors
    /// Names that are missing, unknown, or whose tensors have another shape, all of which it lists; different tensors for
    /// a table of tokens and a head that are one parameter of the model.
    #[torsh_tensor::names_caller]
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
        // Tables of tokens, which a file has where tokens were added.
        let trained: Vec<String> = own.iter().flat_map(|(names, _)| names.clone()).collect();
        let mut loaded: Vec<(String, Parameter)> = Vec::new();
        for (name, parameter) in tables(self.base_model()) {
            let file = format!("{PREFIX}{name}");
            let Some(tensor) = state.get(&file).filter(|_| !trained.contains(&file)) else {
                continue;
            };
            let twin = own.iter().find(|(_, p)| p.is_same(&parameter));
            if let Some((twins, _)) = twin
                && let Some(other) = twins.iter().find_map(|twin| state.get(twin))
                && other != tensor
            {
                problems.push(format!(
                    "tied: {} and {file} are one parameter of the model, and the file has different tensors for them",
                    twins[0]
                ));
            }
            loaded.push((name, parameter.clone()));
            own.push(([file.clone(), file], parameter));
        }
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
            Ok::<(), TorshError>(())
        })?;
        self.add_loaded_tables(loaded.into_iter().map(|(name, _)| name));
        Ok(())
    }
}
