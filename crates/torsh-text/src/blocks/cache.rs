//! The keys and values of the tokens that a decoder has seen.

mod files;
mod layer;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use torsh_core::DType;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use super::Padding;
pub use layer::CacheKind;
use layer::{Hints, Layer};

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
    /// Makes an empty cache of layers of these kinds.
    ///
    /// ```
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let cache = KvCache::new([CacheKind::Growing, CacheKind::Sliding { window: 4 }]);
    /// assert_eq!((cache.num_layers(), cache.len(), cache.batch()), (2, 0, 0));
    /// ```
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
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Sliding { window: 2 }]);
    /// cache.keep_for_crop(3);
    /// for _ in 0..9 {
    ///     cache.update(0, &ones([1, 1, 1, 2]), &ones([1, 1, 1, 2]))?;
    /// }
    /// cache.crop(6)?;
    /// assert_eq!(cache.len(), 6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn keep_for_crop(&mut self, tokens: usize) {
        self.hints.rewind = tokens;
    }

    /// Counts the tokens that it has seen, which is the position of the next one.
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Sliding { window: 2 }]);
    /// cache.update(0, &ones([1, 1, 5, 2]), &ones([1, 1, 5, 2]))?;
    /// // Tokens that a window has left behind count too.
    /// assert_eq!(cache.len(), 5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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

    /// Counts the sequences that it holds: 0 before the first token.
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Growing]);
    /// assert_eq!(cache.batch(), 0);
    /// cache.update(0, &ones([3, 1, 1, 2]), &ones([3, 1, 1, 2]))?;
    /// assert_eq!(cache.batch(), 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn batch(&self) -> usize {
        let first = self.layers.iter().find_map(|l| l.tensors().next());
        first.map_or(0, |t| t.dims().first().copied().unwrap_or(0))
    }

    /// Counts the keys of a layer that lie ahead of the next token's: fewer than [`KvCache::len`] in a layer that slides.
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Growing, CacheKind::Sliding { window: 3 }]);
    /// for layer in 0..2 {
    ///     cache.update(layer, &ones([1, 1, 5, 2]), &ones([1, 1, 5, 2]))?;
    /// }
    /// assert_eq!((cache.past(0), cache.past(1)), (5, 2));
    /// assert_eq!((cache.dropped(0), cache.dropped(1)), (0, 3));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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

    /// Counts the bytes of all tensors.
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Static { capacity: 8 }]);
    /// cache.update(0, &ones([1, 1, 1, 2]), &ones([1, 1, 1, 2]))?;
    /// // Keys and values of 8 tokens, two float32 numbers each.
    /// assert_eq!(cache.bytes(), 2 * 8 * 2 * 4);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
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
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Static { capacity: 2 }]);
    /// cache.update(0, &tensor![[[[1.0]]]], &tensor![[[[2.0]]]])?;
    /// let (keys, values) = cache.update(0, &tensor![[[[3.0]]]], &tensor![[[[4.0]]]])?;
    /// assert_eq!((keys, values), (tensor![[[[1.0], [3.0]]]], tensor![[[[2.0], [4.0]]]]));
    /// let more = cache.update(0, &tensor![[[[5.0]]]], &tensor![[[[6.0]]]]);
    /// assert!(more.is_err_and(|e| e.to_string().contains("3 tokens for a static cache of 2")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
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

    /// Gives the keys and values of an encoder's result that a layer keeps.
    ///
    /// ```
    /// use torsh_tensor::{ones, zeros};
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Growing]);
    /// assert!(cache.cross(0).is_none());
    /// cache.set_cross(0, ones([1, 1, 3, 2]), zeros([1, 1, 3, 2]))?;
    /// assert_eq!(cache.cross(0), Some((ones([1, 1, 3, 2]), zeros([1, 1, 3, 2]))));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn cross(&self, layer: usize) -> Option<(Tensor, Tensor)> {
        let [k, v] = self.layers.get(layer)?.cross.as_ref()?;
        Some((k.clone(), v.clone()))
    }

    /// Keeps the keys and values of an encoder's result.
    ///
    /// # Errors
    /// No such layer.
    #[torsh_tensor::names_caller]
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
    ///
    /// ```
    /// use torsh_tensor::ones;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Growing]);
    /// cache.set_state(0, vec![ones([1, 4])], 3)?;
    /// assert_eq!((cache.state(0), cache.len()), (&[ones([1, 4])][..], 3));
    /// // A state has no past.
    /// assert!(cache.crop(2).is_err_and(|e| e.to_string().contains("cannot go back from 3 tokens to 2")));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
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
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Growing]);
    /// let k = tensor![[[[1.0]]], [[[2.0]]]];
    /// cache.update(0, &k, &k)?;
    /// cache.reorder(&[1, 1])?;
    /// let (keys, _) = cache.update(0, &k, &k)?;
    /// assert_eq!(keys, tensor![[[[2.0], [1.0]]], [[[2.0], [2.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
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
    #[torsh_tensor::names_caller]
    pub fn repeat(&mut self, n: usize) -> Result<()> {
        let rows: Vec<usize> = (0..self.batch() * n).map(|b| b / n.max(1)).collect();
        self.reorder(&rows)?;
        self.group = n.max(1);
        Ok(())
    }

    /// Makes a cache of some sequences of this one, which stays as it is.
    ///
    /// # Errors
    /// As [`KvCache::reorder`].
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Growing]);
    /// let k = tensor![[[[1.0]]], [[[2.0]]]];
    /// cache.update(0, &k, &k)?;
    /// let mut second = cache.select(&[1])?;
    /// let (keys, _) = second.update(0, &tensor![[[[3.0]]]], &tensor![[[[3.0]]]])?;
    /// assert_eq!((keys, cache.batch()), (tensor![[[[2.0], [3.0]]]], 2));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn select(&self, rows: &[usize]) -> Result<KvCache> {
        let mut out = self.clone();
        out.reorder(rows)?;
        Ok(out)
    }

    /// Forgets all tokens but the first `len`.
    ///
    /// # Errors
    /// A layer that has dropped tokens which would be needed, and one without attention, whose state has no past.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_text::blocks::{CacheKind, KvCache};
    /// let mut cache = KvCache::new([CacheKind::Growing]);
    /// let k = tensor![[[[1.0], [2.0], [3.0]]]];
    /// cache.update(0, &k, &k)?;
    /// cache.crop(1)?;
    /// let (keys, _) = cache.update(0, &tensor![[[[9.0]]]], &tensor![[[[9.0]]]])?;
    /// assert_eq!(keys, tensor![[[[1.0], [9.0]]]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
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
}

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
