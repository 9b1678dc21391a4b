//! The keys and values of one layer.

use std::sync::Arc;

use torsh_tensor::{Result, Tensor, TorshError};

/// How the cache of a layer holds its tokens.
///
/// ```
/// use torsh_tensor::ones;
/// use torsh_text::blocks::{CacheKind, KvCache};
/// let mut cache = KvCache::new([CacheKind::Growing, CacheKind::Sliding { window: 3 }]);
/// for layer in 0..2 {
///     cache.update(layer, &ones([1, 1, 5, 2]), &ones([1, 1, 5, 2]))?;
/// }
/// // The next token sees all of them in the first layer, and the last two in the second one.
/// assert_eq!((cache.past(0), cache.past(1)), (5, 2));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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
    pub(super) fn to_text(self) -> String {
        match self {
            CacheKind::Growing => "growing".into(),
            CacheKind::Static { capacity } => format!("static:{capacity}"),
            CacheKind::Sliding { window } => format!("sliding:{window}"),
        }
    }

    pub(super) fn from_text(text: &str) -> Option<CacheKind> {
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
pub(super) struct Layer {
    pub(super) kind: CacheKind,
    /// Keys and values, once the first came. Clones of the cache share them until one of them writes.
    pub(super) buffers: Option<Arc<[Tensor; 2]>>,
    /// Tokens in the buffers. A layer that slides may hold more than it shows.
    pub(super) len: usize,
    /// Tokens that came in all; more than `len` where old ones were dropped.
    pub(super) seen: usize,
    /// Keys and values of an encoder's result, which never change.
    pub(super) cross: Option<[Tensor; 2]>,
    /// The state of a layer without attention (Mamba).
    pub(super) state: Vec<Tensor>,
}

impl Layer {
    pub(super) fn new(kind: CacheKind) -> Layer {
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
    pub(super) fn past(&self) -> usize {
        match self.kind {
            CacheKind::Sliding { window } => self.len.min(window.saturating_sub(1)),
            _ => self.len,
        }
    }

    pub(super) fn room(&self) -> usize {
        self.buffers.as_ref().map_or(0, |b| b[0].dims()[2])
    }

    pub(super) fn tensors(&self) -> impl Iterator<Item = &Tensor> {
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
    pub(super) fn make_room(
        &mut self,
        like: [&Tensor; 2],
        tokens: usize,
        hints: &Hints,
    ) -> Result<()> {
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
                let keep = self
                    .len
                    .min(window.saturating_sub(1).saturating_add(hints.rewind));
                let most = window.saturating_mul(2).saturating_add(hints.rewind);
                let most = most.max(keep + tokens);
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
pub(super) struct Hints {
    /// The most tokens that will come.
    pub(super) expected: Option<usize>,
    /// How many tokens may be taken back.
    pub(super) rewind: usize,
}
