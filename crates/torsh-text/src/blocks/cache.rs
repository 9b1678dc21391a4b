//! The keys and values of the tokens that a decoder has seen.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use torsh_core::DType;
use torsh_serialize::{LoadOptions, safetensors};
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use super::Padding;

/// How the cache of a layer holds its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheKind {
    /// Memory that doubles when it is full.
    Growing,
    /// Memory for a fixed number of tokens; more are an error.
    Static {
        /// The most tokens.
        capacity: usize,
    },
    /// The last tokens alone: those that attention with a window of this size sees.
    Sliding {
        /// How many tokens a query sees, itself among them.
        window: usize,
    },
}

impl CacheKind {
    /// As the metadata of a file has it.
    fn to_text(self) -> String {
        match self {
            CacheKind::Growing => "growing".into(),
            CacheKind::Static { capacity } => format!("static:{capacity}"),
            CacheKind::Sliding { window } => format!("sliding:{window}"),
        }
    }

    fn from_text(text: &str) -> Option<CacheKind> {
        match text.split_once(':') {
            None if text == "growing" => Some(CacheKind::Growing),
            Some(("static", n)) => n
                .parse()
                .ok()
                .map(|capacity| CacheKind::Static { capacity }),
            Some(("sliding", n)) => n.parse().ok().map(|window| CacheKind::Sliding { window }),
            _ => None,
        }
    }
}

/// The keys and values of one layer: `[batch, kv_heads, capacity, size]`, of which `len` are filled.
#[derive(Clone)]
struct Layer {
    kind: CacheKind,
    /// Keys and values, once the first came. Clones of the cache share them until one of them writes.
    buffers: Option<Arc<[Tensor; 2]>>,
    /// Tokens in the buffers. A layer that slides may hold more than it shows.
    len: usize,
    /// Tokens that came in all; more than `len` where old ones were dropped.
    seen: usize,
    /// Keys and values of an encoder's result, which never change.
    cross: Option<[Tensor; 2]>,
    /// The state of a layer without attention (Mamba).
    state: Vec<Tensor>,
}

impl Layer {
    fn new(kind: CacheKind) -> Layer {
        Layer {
            kind,
            buffers: None,
            len: 0,
            seen: 0,
            cross: None,
            state: Vec::new(),
        }
    }

    /// How many of its tokens the next one sees.
    fn past(&self) -> usize {
        match self.kind {
            CacheKind::Sliding { window } => self.len.min(window.saturating_sub(1)),
            _ => self.len,
        }
    }

    fn room(&self) -> usize {
        self.buffers.as_ref().map_or(0, |b| b[0].dims()[2])
    }

    fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        let own = self.buffers.iter().flat_map(|b| b.iter());
        own.chain(self.cross.iter().flatten()).chain(&self.state)
    }

    /// Moves the last `keep` tokens into new memory for `capacity` tokens, of sequences like `like`.
    fn rebuild(&mut self, like: [&Tensor; 2], keep: usize, capacity: usize) -> Result<()> {
        let grown = |new: &Tensor, old: Option<&Tensor>| -> Result<Tensor> {
            let d = new.dims();
            let to = Tensor::empty([d[0], d[1], capacity, d[3]], new.dtype(), new.device())?;
            if let Some(old) = old
                && keep > 0
            {
                let last = old.narrow(2, (self.len - keep) as i64, keep as i64)?;
                to.narrow(2, 0, keep as i64)?.copy_(&last)?;
            }
            Ok(to)
        };
        let old = self.buffers.as_ref();
        let pair = [
            grown(like[0], old.map(|b| &b[0]))?,
            grown(like[1], old.map(|b| &b[1]))?,
        ];
        self.buffers = Some(Arc::new(pair));
        self.len = keep;
        Ok(())
    }

    /// Makes room for `tokens` more, in memory of this cache alone.
    fn make_room(&mut self, like: [&Tensor; 2], tokens: usize, hints: &Hints) -> Result<()> {
        let (needed, room) = (self.len + tokens, self.room());
        if needed <= room {
            let shared = self
                .buffers
                .as_mut()
                .is_some_and(|b| Arc::get_mut(b).is_none());
            return match shared {
                true => self.rebuild(like, self.len, room),
                false => Ok(()),
            };
        }
        match self.kind {
            CacheKind::Static { capacity } if needed > capacity => Err(TorshError::invalid(
                "KvCache",
                format!("{needed} tokens for a static cache of {capacity}"),
            )
            .with_hint("make a larger one, or a growing one")),
            CacheKind::Static { capacity } => self.rebuild(like, self.len, capacity),
            CacheKind::Sliding { window } => {
                let keep = self.len.min(window.saturating_sub(1) + hints.rewind);
                let most = (2 * window + hints.rewind).max(keep + tokens);
                if needed <= most {
                    self.rebuild(like, self.len, needed.max(2 * room).min(most))
                } else {
                    self.rebuild(like, keep, most)
                }
            }
            CacheKind::Growing => {
                let most = hints.expected.unwrap_or(usize::MAX);
                let wanted = match room {
                    0 => needed.saturating_add(FIRST),
                    _ => 2 * room,
                };
                let capacity = match hints.expected {
                    None if room == 0 => needed,
                    _ => wanted.min(most).max(needed),
                };
                self.rebuild(like, self.len, capacity)
            }
        }
    }
}

/// Tokens for which a growing cache that expects them takes memory ahead.
const FIRST: usize = 1024;

/// What is known of the tokens to come.
#[derive(Clone, Copy, Default)]
struct Hints {
    /// The most tokens that will come.
    expected: Option<usize>,
    /// How many tokens may be taken back.
    rewind: usize,
}

/// The keys and values of a decoder's layers, so that each token is computed once.
///
/// Tokens are written into memory that is there; no step copies what came before. [`KvCache::reorder`] follows beams,
/// [`KvCache::crop`] takes back tokens, [`KvCache::select`] and [`KvCache::save`] keep a prompt's beginning. A clone is
/// a cache of its own: both share memory until one of them gets a token.
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_text::blocks::{CacheKind, KvCache};
/// let mut cache = KvCache::new([CacheKind::Growing]);
/// let (k, v) = (ones([1, 2, 3, 4]), ones([1, 2, 3, 4]));
/// let (keys, values) = cache.update(0, &k, &v)?;
/// assert_eq!((keys.dims(), values.dims()), (&[1, 2, 3, 4][..], &[1, 2, 3, 4][..]));
/// let (keys, _) = cache.update(0, &k.narrow(2, 0, 1)?, &v.narrow(2, 0, 1)?)?;
/// assert_eq!((keys.dims()[2], cache.len()), (4, 4));
/// cache.crop(2)?;
/// assert_eq!(cache.len(), 2);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct KvCache {
    layers: Vec<Layer>,
    hints: Hints,
    /// Neighbouring sequences that have one text and one encoder's result in common, as beams have.
    group: usize,
}

impl KvCache {
    /// An empty cache of layers of these kinds.
    pub fn new(layers: impl IntoIterator<Item = CacheKind>) -> KvCache {
        KvCache {
            layers: layers.into_iter().map(Layer::new).collect(),
            hints: Hints::default(),
            group: 1,
        }
    }

    /// Says how many tokens will come at most. Growing layers then take memory for the first 1,024 new tokens at once
    /// and never for more than these.
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Growing]);
    /// cache.expect_tokens(10);
    /// cache.update(0, &ones([1, 1, 3, 2]), &ones([1, 1, 3, 2]))?;
    /// // Keys and values of 10 tokens, two float32 numbers each.
    /// assert_eq!(cache.bytes(), 2 * 10 * 2 * 4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn expect_tokens(&mut self, tokens: usize) {
        self.hints.expected = Some(tokens);
    }

    /// Lets layers that slide keep `tokens` more than attention needs, so that [`KvCache::crop`] can take so many back.
    pub fn keep_for_crop(&mut self, tokens: usize) {
        self.hints.rewind = tokens;
    }

    /// How many tokens it has seen: the position of the next one.
    pub fn len(&self) -> usize {
        self.layers.iter().map(|l| l.seen).max().unwrap_or(0)
    }

    /// Whether it has seen none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many layers it has.
    pub fn num_layers(&self) -> usize {
        self.layers.len()
    }

    /// How many sequences it holds; 0 before the first token.
    pub fn batch(&self) -> usize {
        let first = self.layers.iter().find_map(|l| l.tensors().next());
        first.map_or(0, |t| t.dims().first().copied().unwrap_or(0))
    }

    /// How many keys of a layer lie ahead of the next token's: fewer than [`KvCache::len`] in a layer that slides.
    pub fn past(&self, layer: usize) -> usize {
        self.layers.get(layer).map_or(0, Layer::past)
    }

    /// How many of the first tokens a layer's keys no longer have: 0 but in a layer that slides.
    pub fn dropped(&self, layer: usize) -> usize {
        self.layers.get(layer).map_or(0, |l| l.seen - l.past())
    }

    /// The padding among the keys that [`KvCache::update`] will give for the next tokens in a layer, from the padding
    /// of all tokens. Ask before `update`, as with [`KvCache::past`].
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_text::blocks::{CacheKind, KvCache, Padding};
    /// let mut cache = KvCache::new([CacheKind::Sliding { window: 3 }]);
    /// cache.update(0, &ones([1, 1, 5, 2]), &ones([1, 1, 5, 2]))?;
    /// // Of the five tokens the next one sees the last two; four of the six are padding.
    /// assert_eq!((cache.past(0), cache.dropped(0)), (2, 3));
    /// let padding = Padding::new([4..6]);
    /// assert_eq!(cache.key_padding(0, &padding).ranges(), [1..3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn key_padding(&self, layer: usize, padding: &Padding) -> Padding {
        match self.dropped(layer) {
            0 => padding.clone(),
            n => Padding::new(
                padding
                    .ranges()
                    .iter()
                    .map(|r| r.start.saturating_sub(n)..r.end.saturating_sub(n)),
            ),
        }
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> usize {
        let tensors = self.layers.iter().flat_map(Layer::tensors);
        tensors.map(|t| t.numel() * t.dtype().size()).sum()
    }

    fn layer(&mut self, layer: usize) -> Result<&mut Layer> {
        let layers = self.layers.len();
        self.layers.get_mut(layer).ok_or_else(|| {
            TorshError::invalid(
                "KvCache",
                format!("layer {layer} of a cache of {layers} layers"),
            )
            .with_hint("make the cache with the model's new_cache()")
        })
    }

    /// Adds the keys and values `[batch, kv_heads, tokens, size]` of new tokens to a layer, and gives those of all
    /// tokens that the new ones see, as views: [`KvCache::past`] and the new ones.
    ///
    /// # Errors
    /// No such layer, keys of another batch, size, dtype or device than those before, and more tokens than a static
    /// cache has room for.
    #[track_caller]
    pub fn update(
        &mut self,
        layer: usize,
        key: &Tensor,
        value: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let hints = self.hints;
        let l = self.layer(layer)?;
        let (&[batch, heads, tokens, _], &[v_batch, v_heads, v_tokens, _]) =
            (key.dims(), value.dims())
        else {
            return Err(TorshError::shape(
                "KvCache",
                format!(
                    "expected keys and values [batch, kv_heads, tokens, size], got {} and {}",
                    key.shape(),
                    value.shape()
                ),
            ));
        };
        if (batch, heads, tokens) != (v_batch, v_heads, v_tokens) {
            return Err(TorshError::shape(
                "KvCache",
                format!("keys {} with values {}", key.shape(), value.shape()),
            ));
        }
        if let Some(buffers) = &l.buffers {
            for (old, new) in buffers.iter().zip([key, value]) {
                let fits = old.dims()[..2] == new.dims()[..2]
                    && old.dims()[3] == new.dims()[3]
                    && old.dtype() == new.dtype()
                    && old.device() == new.device();
                if !fits {
                    return Err(TorshError::shape(
                        "KvCache",
                        format!(
                            "the cache of layer {layer} holds {} {} {}, and {} {} {} came",
                            old.dtype(),
                            old.shape(),
                            old.device(),
                            new.dtype(),
                            new.shape(),
                            new.device()
                        ),
                    )
                    .with_hint("a cache belongs to one batch of one model"));
                }
            }
        }
        let past = l.past();
        l.make_room([key, value], tokens, &hints)?;
        let Some(buffers) = &l.buffers else {
            return Err(TorshError::invalid("KvCache", "no memory for keys"));
        };
        let at = l.len as i64;
        for (to, new) in buffers.iter().zip([key, value]) {
            to.narrow(2, at, tokens as i64)?.copy_(new)?;
        }
        let (start, shown) = ((l.len - past) as i64, (past + tokens) as i64);
        l.len += tokens;
        l.seen += tokens;
        Ok((
            buffers[0].narrow(2, start, shown)?,
            buffers[1].narrow(2, start, shown)?,
        ))
    }

    /// The keys and values of an encoder's result in a layer.
    pub fn cross(&self, layer: usize) -> Option<(Tensor, Tensor)> {
        let [k, v] = self.layers.get(layer)?.cross.as_ref()?;
        Some((k.clone(), v.clone()))
    }

    /// Keeps the keys and values of an encoder's result.
    ///
    /// # Errors
    /// No such layer.
    #[track_caller]
    pub fn set_cross(&mut self, layer: usize, key: Tensor, value: Tensor) -> Result<()> {
        self.layer(layer)?.cross = Some([key, value]);
        self.group = 1;
        Ok(())
    }

    /// The state of a layer without attention; empty before its first token.
    pub fn state(&self, layer: usize) -> &[Tensor] {
        self.layers.get(layer).map_or(&[], |l| &l.state)
    }

    /// Keeps the state of a layer without attention, after `tokens` further tokens. A step makes new tensors: clones of
    /// the cache have the old ones.
    ///
    /// # Errors
    /// No such layer.
    #[track_caller]
    pub fn set_state(&mut self, layer: usize, state: Vec<Tensor>, tokens: usize) -> Result<()> {
        let l = self.layer(layer)?;
        l.state = state;
        l.seen += tokens;
        Ok(())
    }

    /// Takes sequences in another order: sequence `b` becomes what `rows[b]` was, as beams and repeated prompts need.
    ///
    /// Sequences that stay where they are are not copied.
    ///
    /// # Errors
    /// A row that is not there.
    #[track_caller]
    pub fn reorder(&mut self, rows: &[usize]) -> Result<()> {
        let batch = self.batch();
        if batch == 0 {
            return Ok(());
        }
        if let Some(bad) = rows.iter().find(|&&r| r >= batch) {
            return Err(TorshError::index(
                "KvCache",
                format!("row {bad} of a cache of {batch} sequences"),
            ));
        }
        let same_size = rows.len() == batch;
        if same_size && rows.iter().enumerate().all(|(i, &r)| i == r) {
            return Ok(());
        }
        let group = self.group;
        let in_groups = same_size
            && rows
                .iter()
                .enumerate()
                .all(|(i, &r)| i / group == r / group);
        let ids: Vec<i64> = rows.iter().map(|&r| r as i64).collect();
        let index = Tensor::from_vec(ids, [rows.len()])?;
        no_grad(|| {
            for l in &mut self.layers {
                let pick = |t: &Tensor| t.index_select(0, &index.to_device(t.device())?);
                if let Some(buffers) = &mut l.buffers {
                    let len = l.len as i64;
                    match Arc::get_mut(buffers) {
                        Some(own) if same_size => {
                            for t in own.iter() {
                                permute(&t.narrow(2, 0, len)?, rows)?;
                            }
                        }
                        _ => {
                            let moved = |t: &Tensor| -> Result<Tensor> {
                                let d = t.dims();
                                let shape = [rows.len(), d[1], d[2], d[3]];
                                let to = Tensor::empty(shape, t.dtype(), t.device())?;
                                to.narrow(2, 0, len)?.copy_(&pick(&t.narrow(2, 0, len)?)?)?;
                                Ok(to)
                            };
                            *buffers = Arc::new([moved(&buffers[0])?, moved(&buffers[1])?]);
                        }
                    }
                }
                if let Some([k, v]) = &l.cross
                    && !in_groups
                {
                    l.cross = Some([pick(k)?, pick(v)?]);
                }
                l.state = l.state.iter().map(pick).collect::<Result<_>>()?;
            }
            Ok(())
        })?;
        if !in_groups {
            self.group = 1;
        }
        Ok(())
    }

    /// Has each sequence `n` times, neighbouring, as beams and several returned sequences need.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Growing]);
    /// let k = tensor![[[[1.0]]], [[[2.0]]]];
    /// cache.update(0, &k, &k)?;
    /// cache.repeat(2)?;
    /// let k = tensor![[[[3.0]]], [[[4.0]]], [[[5.0]]], [[[6.0]]]];
    /// let (keys, _) = cache.update(0, &k, &k)?;
    /// assert_eq!(keys.flatten(0)?.to_vec::<f32>()?, [1.0, 3.0, 1.0, 4.0, 2.0, 5.0, 2.0, 6.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Memory that is not there.
    #[track_caller]
    pub fn repeat(&mut self, n: usize) -> Result<()> {
        let rows: Vec<usize> = (0..self.batch() * n).map(|b| b / n.max(1)).collect();
        self.reorder(&rows)?;
        self.group = n.max(1);
        Ok(())
    }

    /// A cache of some sequences of this one, which stays as it is.
    ///
    /// # Errors
    /// As [`KvCache::reorder`].
    #[track_caller]
    pub fn select(&self, rows: &[usize]) -> Result<KvCache> {
        let mut out = self.clone();
        out.reorder(rows)?;
        Ok(out)
    }

    /// Forgets all tokens but the first `len`.
    ///
    /// # Errors
    /// A layer that has dropped tokens which would be needed, and one without attention, whose state has no past.
    #[track_caller]
    pub fn crop(&mut self, len: usize) -> Result<()> {
        for (at, l) in self.layers.iter().enumerate() {
            let back = l.seen.saturating_sub(len);
            let needed = match l.kind {
                CacheKind::Sliding { window } => len.min(window.saturating_sub(1)),
                _ => len,
            };
            let holds = l.state.is_empty() && back <= l.len && l.len - back >= needed;
            if back > 0 && len > 0 && !holds {
                return Err(TorshError::invalid(
                    "KvCache",
                    format!(
                        "layer {at} cannot go back from {} tokens to {len}: it does not hold them all",
                        l.seen
                    ),
                )
                .with_hint("make a new cache and run the tokens again"));
            }
        }
        for l in &mut self.layers {
            let back = l.seen.saturating_sub(len);
            if back > 0 {
                l.len = l.len.saturating_sub(back);
                l.seen = len;
            }
            if len == 0 {
                l.state.clear();
            }
        }
        Ok(())
    }

    /// The dtype of the keys, once there are some.
    pub fn dtype(&self) -> Option<DType> {
        let buffers = self.layers.iter().find_map(|l| l.buffers.as_ref())?;
        Some(buffers[0].dtype())
    }

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
    #[track_caller]
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
    #[track_caller]
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

/// The name of the description in a file's metadata.
const METADATA: &str = "torsh.kv_cache";

/// Row `b` of `t` becomes what row `rows[b]` was, without touching rows that stay.
fn permute(t: &Tensor, rows: &[usize]) -> Result<()> {
    let row = |b: usize| t.narrow(0, b as i64, 1);
    // Rows that are overwritten and needed elsewhere.
    let mut saved: HashMap<usize, Tensor> = HashMap::new();
    for (_, &r) in rows.iter().enumerate().filter(|(b, r)| b != *r) {
        if rows[r] != r && !saved.contains_key(&r) {
            saved.insert(r, row(r)?.contiguous()?.copy()?);
        }
    }
    for (b, &r) in rows.iter().enumerate().filter(|(b, r)| b != *r) {
        match saved.get(&r) {
            Some(old) => row(b)?.copy_(old)?,
            None => row(b)?.copy_(&row(r)?)?,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys `[batch, 1, tokens, 1]` whose numbers count from `first`, in row `b` from `first + 100 b`.
    fn keys(batch: usize, first: usize, tokens: usize) -> Result<Tensor> {
        let all =
            (0..batch).flat_map(|b| (first..first + tokens).map(move |t| (100 * b + t) as f32));
        Tensor::from_vec(all.collect(), [batch, 1, tokens, 1])
    }

    /// Adds tokens whose values are the negative of their keys, and gives the keys that are seen.
    fn add(cache: &mut KvCache, batch: usize, tokens: usize) -> Result<Vec<f32>> {
        let k = keys(batch, cache.len(), tokens)?;
        let past = cache.past(0);
        let (keys, values) = cache.update(0, &k, &k.mul(-1.0)?)?;
        assert_eq!(keys.dims(), [batch, 1, past + tokens, 1]);
        assert_eq!(values.mul(-1.0)?, keys);
        keys.to_vec()
    }

    #[test]
    fn growing_and_static_caches_hold_all_tokens() -> Result<()> {
        let all = |n: usize| (0..n).map(|t| t as f32).collect::<Vec<_>>();
        for kind in [CacheKind::Growing, CacheKind::Static { capacity: 9 }] {
            let mut cache = KvCache::new([kind]);
            assert!(cache.is_empty());
            assert_eq!(cache.batch(), 0);
            assert_eq!(add(&mut cache, 1, 3)?, all(3));
            for n in 4..=9 {
                assert_eq!(add(&mut cache, 1, 1)?, all(n));
            }
            assert_eq!((cache.len(), cache.past(0), cache.dropped(0)), (9, 9, 0));
            assert_eq!((cache.batch(), cache.dtype()), (1, Some(DType::F32)));
            let more = add(&mut cache, 1, 1);
            assert_eq!(more.is_err(), kind != CacheKind::Growing);
        }
        let mut cache = KvCache::new([CacheKind::Static { capacity: 9 }]);
        let error = add(&mut cache, 1, 10).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("10") && e.contains('9')));
        Ok(())
    }

    #[test]
    fn a_growing_cache_takes_no_more_than_it_expects() -> Result<()> {
        let mut cache = KvCache::new([CacheKind::Growing]);
        cache.expect_tokens(3000);
        add(&mut cache, 1, 10)?;
        assert_eq!(cache.bytes(), 2 * 4 * 1034);
        for _ in 10..3000 {
            let k = keys(1, 0, 1)?;
            cache.update(0, &k, &k)?;
        }
        assert_eq!(cache.bytes(), 2 * 4 * 3000);
        Ok(())
    }

    #[test]
    fn a_sliding_cache_shows_the_window_alone() -> Result<()> {
        // Steps of many sizes, those larger than the window among them.
        for window in [1, 2, 4, 7] {
            let mut cache = KvCache::new([CacheKind::Sliding { window }]);
            let mut total: usize = 0;
            for tokens in [3, 1, 1, 9, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 20, 1, 1] {
                let seen = total.min(window - 1);
                let wanted: Vec<f32> = (total - seen..total + tokens).map(|t| t as f32).collect();
                assert_eq!(cache.past(0), seen);
                assert_eq!(cache.dropped(0), total - seen);
                assert_eq!(add(&mut cache, 1, tokens)?, wanted, "window {window}");
                total += tokens;
            }
            assert_eq!(cache.len(), total);
            assert!(cache.bytes() <= 2 * 4 * (2 * window).max(window + 20));
        }
        let mut long = KvCache::new([CacheKind::Sliding { window: 4 }]);
        for _ in 0..1000 {
            add(&mut long, 1, 1)?;
        }
        assert_eq!(long.bytes(), 2 * 4 * 8);
        Ok(())
    }

    #[test]
    fn sequences_change_places() -> Result<()> {
        for kind in [CacheKind::Growing, CacheKind::Sliding { window: 3 }] {
            let mut cache = KvCache::new([kind]);
            add(&mut cache, 4, 2)?;
            cache.set_cross(0, keys(4, 7, 1)?, keys(4, 8, 1)?)?;
            cache.reorder(&[1, 0, 3, 3])?;
            let k = Tensor::full([4, 1, 1, 1], -1.0, DType::F32, torsh_core::Device::Cpu)?;
            let (all, values) = cache.update(0, &k, &k)?;
            let wanted = [
                100., 101., -1., 0., 1., -1., 300., 301., -1., 300., 301., -1.,
            ];
            assert_eq!(all.to_vec::<f32>()?, wanted);
            assert_eq!(values.to_vec::<f32>()?[..2], [-100., -101.]);
            let cross = cache.cross(0).map(|(k, _)| k.to_vec::<f32>());
            assert_eq!(cross.transpose()?, Some(vec![107., 7., 307., 307.]));
            assert!(cache.reorder(&[4]).is_err());
            // Another number of sequences.
            let part = cache.select(&[2])?;
            assert_eq!((part.batch(), cache.batch()), (1, 4));
        }
        Ok(())
    }

    #[test]
    fn beams_share_an_encoders_result() -> Result<()> {
        let mut cache = KvCache::new([CacheKind::Growing]);
        add(&mut cache, 2, 1)?;
        cache.set_cross(0, keys(2, 0, 1)?, keys(2, 0, 1)?)?;
        cache.repeat(2)?;
        let before = cache.cross(0).map(|(k, _)| k.to_vec::<f32>()).transpose()?;
        assert_eq!(before, Some(vec![0., 0., 100., 100.]));
        let storage = cache.cross(0).map(|(k, _)| k);
        cache.reorder(&[1, 1, 2, 2])?;
        let after = cache.cross(0).map(|(k, _)| k);
        assert!(
            storage
                .zip(after)
                .is_some_and(|(a, b)| a.shares_storage(&b))
        );
        cache.reorder(&[2, 2, 0, 0])?;
        let after = cache.cross(0).map(|(k, _)| k.to_vec::<f32>()).transpose()?;
        assert_eq!(after, Some(vec![100., 100., 0., 0.]));
        Ok(())
    }

    #[test]
    fn tokens_are_taken_back() -> Result<()> {
        let mut cache = KvCache::new([CacheKind::Growing]);
        add(&mut cache, 1, 5)?;
        cache.crop(2)?;
        assert_eq!(cache.len(), 2);
        assert_eq!(add(&mut cache, 1, 1)?, [0., 1., 2.]);
        cache.crop(9)?;
        assert_eq!(cache.len(), 3);

        let mut cache = KvCache::new([CacheKind::Sliding { window: 3 }]);
        add(&mut cache, 1, 12)?;
        add(&mut cache, 1, 4)?;
        // What one step brought can always be taken back.
        cache.crop(13)?;
        assert_eq!(add(&mut cache, 1, 1)?, [11., 12., 13.]);
        assert!(cache.crop(3).is_err());
        assert_eq!(cache.len(), 14);
        cache.crop(0)?;
        assert_eq!(add(&mut cache, 1, 1)?, [0.]);

        // Single steps can be taken back where the cache was told so.
        let mut cache = KvCache::new([CacheKind::Sliding { window: 3 }]);
        cache.keep_for_crop(5);
        for n in 0..40 {
            add(&mut cache, 1, 1)?;
            if n > 10 {
                let mut other = cache.clone();
                other.crop(n + 1 - 5)?;
                let at = (n - 4) as f32;
                assert_eq!(add(&mut other, 1, 1)?, [at - 2., at - 1., at]);
            }
        }
        Ok(())
    }

    #[test]
    fn clones_are_independent() -> Result<()> {
        let mut cache = KvCache::new([CacheKind::Static { capacity: 5 }]);
        add(&mut cache, 1, 2)?;
        let mut other = cache.clone();
        let k = Tensor::full([1, 1, 1, 1], 77.0, DType::F32, torsh_core::Device::Cpu)?;
        other.update(0, &k, &k)?;
        assert_eq!(add(&mut cache, 1, 1)?, [0., 1., 2.]);
        other.crop(1)?;
        assert_eq!(other.update(0, &k, &k)?.0.to_vec::<f32>()?, [0., 77.]);
        assert_eq!(add(&mut cache, 1, 1)?, [0., 1., 2., 3.]);
        Ok(())
    }

    #[test]
    fn a_state_counts_tokens_and_has_no_past() -> Result<()> {
        let mut cache = KvCache::new([CacheKind::Growing]);
        assert!(cache.state(0).is_empty());
        cache.set_state(0, vec![keys(2, 0, 1)?], 3)?;
        assert_eq!(
            (cache.len(), cache.batch(), cache.state(0).len()),
            (3, 2, 1)
        );
        cache.reorder(&[1, 1])?;
        assert_eq!(cache.state(0)[0].to_vec::<f32>()?, [100., 100.]);
        assert!(cache.crop(2).is_err());
        cache.crop(0)?;
        assert!(cache.state(0).is_empty() && cache.is_empty());
        assert!(cache.set_state(1, Vec::new(), 1).is_err());
        Ok(())
    }

    #[test]
    fn keys_of_another_batch_are_refused() -> Result<()> {
        let mut cache = KvCache::new([CacheKind::Growing]);
        add(&mut cache, 1, 2)?;
        let k = keys(2, 0, 1)?;
        let error = cache.update(0, &k, &k).err().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("[1, 1, 2, 1]") && e.contains("[2, 1, 1, 1]")));
        let k = keys(1, 0, 1)?.to_dtype(DType::F64)?;
        assert!(cache.update(0, &k, &k).is_err());
        assert!(cache.update(0, &keys(1, 0, 1)?, &keys(1, 0, 2)?).is_err());
        assert!(cache.update(3, &k, &k).is_err());
        Ok(())
    }

    #[test]
    fn files_keep_a_prefix() -> Result<()> {
        let path =
            std::env::temp_dir().join(format!("torsh-kv-{}.safetensors", std::process::id()));
        let kinds = [
            CacheKind::Growing,
            CacheKind::Static { capacity: 8 },
            CacheKind::Sliding { window: 3 },
            CacheKind::Growing,
        ];
        let mut cache = KvCache::new(kinds);
        for layer in 0..3 {
            let k = keys(2, 0, 5)?;
            cache.update(layer, &k, &k)?;
        }
        cache.set_cross(1, keys(2, 7, 1)?, keys(2, 8, 1)?)?;
        cache.set_state(3, vec![keys(2, 3, 1)?, keys(2, 4, 2)?], 5)?;
        cache.save(&path)?;
        let mut again = KvCache::load(&path)?;
        assert_eq!((again.len(), again.num_layers(), again.batch()), (5, 4, 2));
        assert_eq!(again.state(3)[1], keys(2, 4, 2)?);
        assert_eq!(again.cross(1).map(|(k, _)| k), Some(keys(2, 7, 1)?));
        for layer in 0..3 {
            let k = keys(2, 5, 1)?;
            assert_eq!(again.past(layer), cache.past(layer));
            assert_eq!(
                again.update(layer, &k, &k)?.0,
                cache.update(layer, &k, &k)?.0
            );
        }
        // Other files are refused.
        safetensors::save([("x", &keys(1, 0, 1)?)], &path)?;
        assert!(KvCache::load(&path).is_err());
        for about in [
            "growing 7 7",
            "growing x 5",
            "sliding:3 1 5",
            "none 5 5",
            "growing 5 5,growing 1 1",
        ] {
            let about = HashMap::from([(METADATA.to_string(), about.to_string())]);
            let k = keys(1, 0, 5)?;
            let tensors = [("layers.0.key", &k), ("layers.0.value", &k)];
            safetensors::save_with(tensors, &about, &path)?;
            assert!(KvCache::load(&path).is_err(), "{about:?}");
        }
        std::fs::remove_file(&path)?;
        Ok(())
    }
}
