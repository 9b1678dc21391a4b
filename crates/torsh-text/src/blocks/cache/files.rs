//! Caches as files.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use torsh_serialize::{LoadOptions, safetensors};
use torsh_tensor::{Result, Tensor, TorshError};

use super::layer::Layer;
use super::{CacheKind, KvCache};

/// The name of the description in a file's metadata.
pub(super) const METADATA: &str = "torsh.kv_cache";

impl KvCache {
    /// Writes the tokens that it holds to a safetensors file, so that a prompt's beginning need not be computed again.
    ///
    /// The tensors are `layers.0.key`, `layers.0.value` and so on, `[batch, kv_heads, tokens, size]`; the metadata has
    /// the kinds of the layers and the numbers of their tokens.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let path = std::env::temp_dir().join(format!("torsh-cache-{}.safetensors", std::process::id()));
    /// let mut cache = KvCache::new([CacheKind::Growing]);
    /// cache.update(0, &tensor![[[[1.0], [2.0]]]], &tensor![[[[3.0], [4.0]]]])?;
    /// cache.save(&path)?;
    /// let mut again = KvCache::load(&path)?;
    /// assert_eq!(again.len(), 2);
    /// let (keys, _) = again.update(0, &tensor![[[[5.0]]]], &tensor![[[[6.0]]]])?;
    /// assert_eq!(keys, tensor![[[[1.0], [2.0], [5.0]]]]);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A file that cannot be written.
    #[torsh_tensor::names_caller]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let mut tensors: Vec<(String, Tensor)> = Vec::new();
        let mut about = Vec::new();
        for (at, l) in self.layers.iter().enumerate() {
            about.push(format!("{} {} {}", l.kind.to_text(), l.len, l.seen));
            if let Some(buffers) = &l.buffers {
                for (name, t) in ["key", "value"].iter().zip(buffers.iter()) {
                    let filled = t.narrow(2, 0, l.len as i64)?;
                    tensors.push((format!("layers.{at}.{name}"), filled.contiguous()?));
                }
            }
            for (name, t) in ["cross_key", "cross_value"]
                .iter()
                .zip(l.cross.iter().flatten())
            {
                tensors.push((format!("layers.{at}.{name}"), t.contiguous()?));
            }
            for (i, t) in l.state.iter().enumerate() {
                tensors.push((format!("layers.{at}.state.{i}"), t.contiguous()?));
            }
        }
        let metadata = HashMap::from([
            ("format".to_string(), "pt".to_string()),
            (METADATA.to_string(), about.join(",")),
        ]);
        safetensors::save_with(tensors.iter().map(|(n, t)| (n, t)), &metadata, path)
    }

    /// Reads what [`KvCache::save`] wrote.
    ///
    /// # Errors
    /// A file that is not there or holds something else.
    #[torsh_tensor::names_caller(Self)]
    pub fn load(path: impl AsRef<Path>) -> Result<KvCache> {
        let path = path.as_ref();
        let file = safetensors::load_with(path, LoadOptions::new().mmap(false))?;
        let wrong = |why: String| {
            TorshError::format("KvCache", format!("{}: {why}", path.display()))
                .with_hint("the file must be one that KvCache::save wrote")
        };
        let Some(about) = file.metadata.get(METADATA) else {
            return Err(wrong(format!("the metadata has no {METADATA}")));
        };
        let mut all: HashMap<String, Tensor> = file.tensors.into_iter().collect();
        let mut cache = KvCache::new([]);
        for (at, text) in about.split(',').filter(|t| !t.is_empty()).enumerate() {
            let mut parts = text.split(' ');
            let kind = parts.next().and_then(CacheKind::from_text);
            let mut number = || parts.next().and_then(|n| n.parse::<usize>().ok());
            let (Some(kind), Some(len), Some(seen)) = (kind, number(), number()) else {
                return Err(wrong(format!("layer {at} is described as {text:?}")));
            };
            let mut take = |name: &str| all.remove(&format!("layers.{at}.{name}"));
            let mut l = Layer::new(kind);
            if let (Some(key), Some(value)) = (take("key"), take("value")) {
                let fits = key.ndim() == 4
                    && value.ndim() == 4
                    && key.dims()[..3] == value.dims()[..3]
                    && key.dims()[2] == len
                    && key.dtype() == value.dtype();
                let holds = match kind {
                    CacheKind::Static { capacity } => len == seen && len <= capacity,
                    CacheKind::Sliding { window } => {
                        len <= seen && len >= seen.min(window.saturating_sub(1))
                    }
                    CacheKind::Growing => len == seen,
                };
                if !fits || !holds {
                    return Err(wrong(format!(
                        "layer {at} is {text:?} with keys {} and values {}",
                        key.shape(),
                        value.shape()
                    )));
                }
                l.buffers = Some(Arc::new([key, value]));
            } else if len != 0 {
                return Err(wrong(format!("layer {at} has no keys and values")));
            }
            (l.len, l.seen) = (len, seen);
            if let (Some(key), Some(value)) = (take("cross_key"), take("cross_value")) {
                l.cross = Some([key, value]);
            }
            while let Some(t) = take(&format!("state.{}", l.state.len())) {
                l.state.push(t);
            }
            cache.layers.push(l);
        }
        let batch = cache.batch();
        let mut tensors = cache.layers.iter().flat_map(Layer::tensors);
        if let Some(t) = tensors.find(|t| t.dims().first() != Some(&batch)) {
            return Err(wrong(format!(
                "{} in a cache of {batch} sequences",
                t.shape()
            )));
        }
        if let Some(name) = all.keys().min() {
            return Err(wrong(format!("it has an unknown tensor {name}")));
        }
        drop(tensors);
        Ok(cache)
    }
}
