//! Masks of attention that store blocks of 64 queries by 64 keys.

use std::collections::HashMap;
use std::fmt;
use std::ops::{BitAnd, BitOr, Range};
use std::sync::Arc;

use parking_lot::Mutex;
use torsh_core::{DType, Device, Result, TorshError};

use super::attention::AttentionWindow;
use crate::Tensor;

/// Queries, and keys, of a block.
pub(crate) const BLOCK: usize = 64;

/// The most blocks of a mask, stored or not: building one looks at each.
const MOST: usize = 1 << 32;

/// The part of a block that is stored whole.
const WHOLE: u32 = u32::MAX;

/// A word for each query of a block, with a bit for each key, 1 where the query sees it.
type Bits = [u64; BLOCK];

/// Which keys each query sees, as the blocks of 64 queries by 64 keys in which some query sees some key
/// (`torch.nn.attention.flex_attention.BlockMask`). [`sparse_attention`](Tensor::sparse_attention) computes only these.
///
/// A block in which all is seen costs a few bytes, another one half a kilobyte unless it equals one that is there already.
/// Copies share the memory.
///
/// ```
/// use torsh_tensor::{AttentionWindow, BlockMask};
/// // Each token sees the 128 before it, and all see the first one.
/// let window = AttentionWindow { past: 0, left: Some(128), right: Some(0) };
/// let window = BlockMask::sliding_window(4096, 4096, window)?;
/// let causal = AttentionWindow { past: 0, left: None, right: Some(0) };
/// let first = BlockMask::global(4096, 4096, 1)?.and(&BlockMask::sliding_window(4096, 4096, causal)?)?;
/// let mask = window.or(&first)?;
/// assert_eq!(mask.shape(), [1, 1, 4096, 4096]);
/// // 64 blocks on the diagonal, 63 and 62 below, and a first column of those that are left.
/// assert_eq!(mask.num_blocks(), 64 + 63 + 62 + 61);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone)]
pub struct BlockMask {
    pattern: Arc<Pattern>,
}

struct Pattern {
    shape: [usize; 4],
    /// The window that the mask is, if it is one.
    window: Option<AttentionWindow>,
    /// Where the blocks of each block of queries start, batch by batch and head by head.
    starts: Vec<usize>,
    /// The block of keys of each, and its place among the parts or [`WHOLE`].
    stored: Vec<[u32; 2]>,
    parts: Vec<Bits>,
    /// The same as tensors, for each device where the mask was used.
    tensors: Mutex<Vec<(Device, [Tensor; 2])>>,
}

impl fmt::Debug for BlockMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockMask")
            .field("shape", &self.shape())
            .field("num_blocks", &self.num_blocks())
            .finish_non_exhaustive()
    }
}

/// Puts a mask together, row by row of blocks.
struct Builder {
    shape: [usize; 4],
    starts: Vec<usize>,
    stored: Vec<[u32; 2]>,
    parts: Vec<Bits>,
    known: HashMap<Bits, u32>,
}

fn memory() -> TorshError {
    TorshError::out_of_memory(Device::Cpu, usize::MAX)
}

impl Builder {
    fn new(shape: [usize; 4]) -> Result<Builder> {
        let [batch, heads, queries, keys] = shape;
        let sides = [queries, keys].map(|n| n.div_ceil(BLOCK));
        let all = [batch, heads, sides[0], sides[1]]
            .into_iter()
            .try_fold(1usize, usize::checked_mul);
        let rows = batch
            .checked_mul(heads)
            .and_then(|n| n.checked_mul(sides[0]));
        let (Some(0..=MOST), Some(rows @ 0..=MOST)) = (all, rows) else {
            return Err(TorshError::invalid(
                "BlockMask",
                format!(
                    "a mask of {batch} batches, {heads} heads, {queries} queries and {keys} keys has more than {MOST} blocks"
                ),
            )
            .with_hint("a batch or head of 1 is shared by all; masks of windows need no BlockMask: AttentionWindow"));
        };
        let mut starts = Vec::new();
        starts.try_reserve_exact(rows + 1).map_err(|_| memory())?;
        starts.push(0);
        Ok(Builder {
            shape,
            starts,
            stored: Vec::new(),
            parts: Vec::new(),
            known: HashMap::new(),
        })
    }

    /// Blocks of queries and of keys.
    fn sides(&self) -> [usize; 2] {
        [self.shape[2], self.shape[3]].map(|n| n.div_ceil(BLOCK))
    }

    /// The queries or keys of a block.
    fn range(&self, dim: usize, block: usize) -> Range<usize> {
        let first = block * BLOCK;
        first..self.shape[dim].min(first + BLOCK)
    }

    /// Adds a block of which all is seen.
    fn whole(&mut self, column: usize) -> Result<()> {
        self.stored.try_reserve(1).map_err(|_| memory())?;
        self.stored.push([column as u32, WHOLE]);
        Ok(())
    }

    /// Adds a block of so many queries and keys by its bits, unless nothing is seen.
    fn add(&mut self, column: usize, bits: &Bits, [rows, keys]: [usize; 2]) -> Result<()> {
        let all = u64::MAX >> (BLOCK - keys);
        let mut own = [0; BLOCK];
        for (own, bits) in own.iter_mut().zip(bits).take(rows) {
            *own = bits & all;
        }
        if own == [0; BLOCK] {
            return Ok(());
        }
        if own[..rows].iter().all(|&bits| bits == all) {
            return self.whole(column);
        }
        let next = self.parts.len() as u32;
        let part = *self.known.entry(own).or_insert(next);
        if part == next {
            self.parts.try_reserve(1).map_err(|_| memory())?;
            self.parts.push(own);
        }
        self.stored.try_reserve(1).map_err(|_| memory())?;
        self.stored.push([column as u32, part]);
        Ok(())
    }

    /// Ends a row of blocks.
    fn row(&mut self) {
        self.starts.push(self.stored.len());
    }

    /// All rows of blocks: `kind` says whether all or nothing of the queries and keys of a block is seen, and where it does
    /// not, `sees` is asked of each query and key.
    fn all(
        mut self,
        kind: impl Fn(&Range<usize>, &Range<usize>) -> Option<bool>,
        mut sees: impl FnMut([usize; 4]) -> bool,
    ) -> Result<Builder> {
        let [rows, columns] = self.sides();
        for batch in 0..self.shape[0] {
            for head in 0..self.shape[1] {
                for row in 0..rows {
                    let queries = self.range(2, row);
                    for column in 0..columns {
                        let keys = self.range(3, column);
                        match kind(&queries, &keys) {
                            Some(false) => {}
                            Some(true) => self.whole(column)?,
                            None => {
                                let mut bits = [0; BLOCK];
                                for (bits, q) in bits.iter_mut().zip(queries.clone()) {
                                    for (n, k) in keys.clone().enumerate() {
                                        *bits |= u64::from(sees([batch, head, q, k])) << n;
                                    }
                                }
                                self.add(column, &bits, [queries.len(), keys.len()])?;
                            }
                        }
                    }
                    self.row();
                }
            }
        }
        Ok(self)
    }

    fn build(self, window: Option<AttentionWindow>) -> BlockMask {
        let pattern = Pattern {
            shape: self.shape,
            window,
            starts: self.starts,
            stored: self.stored,
            parts: self.parts,
            tensors: Mutex::new(Vec::new()),
        };
        BlockMask {
            pattern: Arc::new(pattern),
        }
    }
}

impl BlockMask {
    /// The mask under which query `q` of head `h` in batch `b` sees key `k` where `sees(b, h, q, k)` is true
    /// (`create_block_mask`). A mask of one batch, or of one head, serves all.
    ///
    /// `sees` is asked for each query and key, block by block: no mask of the whole size is ever in memory.
    ///
    /// ```
    /// use torsh_tensor::BlockMask;
    /// let causal = BlockMask::new(1, 1, 256, 256, |_, _, q, k| k <= q)?;
    /// assert_eq!(causal.num_blocks(), 10);
    /// assert!((causal.sparsity() - 37.5).abs() < 1e-9);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A mask of more than 2^32 blocks, or no memory.
    #[torsh_tensor::names_caller(Self)]
    pub fn new(
        batch: usize,
        heads: usize,
        queries: usize,
        keys: usize,
        sees: impl FnMut(usize, usize, usize, usize) -> bool,
    ) -> Result<BlockMask> {
        let mut sees = sees;
        let builder = Builder::new([batch, heads, queries, keys])?;
        let built = builder.all(|_, _| None, |[b, h, q, k]| sees(b, h, q, k))?;
        Ok(built.build(None))
    }

    /// The mask under which each query sees the keys of its window. Attention under it takes the kernel for windows.
    ///
    /// ```
    /// use torsh_tensor::{AttentionWindow, BlockMask};
    /// let window = AttentionWindow { past: 0, left: Some(63), right: Some(0) };
    /// let mask = BlockMask::sliding_window(640, 640, window)?;
    /// // On the diagonal and below it.
    /// assert_eq!(mask.num_blocks(), 10 + 9);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`BlockMask::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn sliding_window(
        queries: usize,
        keys: usize,
        window: AttentionWindow,
    ) -> Result<BlockMask> {
        let AttentionWindow { past, left, right } = window;
        // The keys that a query sees.
        let first = |q: usize| left.map_or(0, |left| past.saturating_add(q).saturating_sub(left));
        let end = |q: usize| match right {
            Some(right) => past
                .saturating_add(q)
                .saturating_add(right)
                .saturating_add(1),
            None => usize::MAX,
        };
        let builder = Builder::new([1, 1, queries, keys])?;
        let built = builder.all(
            |q, k| {
                let last = q.end - 1;
                if k.end <= first(q.start) || k.start >= end(last) {
                    return Some(false);
                }
                (first(last) <= k.start && k.end <= end(q.start)).then_some(true)
            },
            |[_, _, q, k]| first(q) <= k && k < end(q),
        )?;
        Ok(built.build(Some(window)))
    }

    /// The mask under which a block of 64 queries sees the blocks of keys that lie a multiple of `stride` blocks from its
    /// own: every `stride`-th block of 64 keys. Joined with a window, the strided pattern of R. Child et al., "Generating long
    /// sequences with sparse transformers", 2019.
    ///
    /// ```
    /// use torsh_tensor::BlockMask;
    /// let mask = BlockMask::strided(512, 512, 4)?;
    /// assert_eq!(mask.num_blocks(), 8 * 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// A stride of 0, and as for [`BlockMask::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn strided(queries: usize, keys: usize, stride: usize) -> Result<BlockMask> {
        if stride == 0 {
            return Err(TorshError::invalid(
                "BlockMask::strided",
                "a stride of 0 blocks",
            ));
        }
        let builder = Builder::new([1, 1, queries, keys])?;
        let apart = |q: usize, k: usize| (q / BLOCK).abs_diff(k / BLOCK);
        let seen = |q: &Range<usize>, k: &Range<usize>| {
            Some(apart(q.start, k.start).is_multiple_of(stride))
        };
        Ok(builder.all(seen, |_| false)?.build(None))
    }

    /// The mask under which the first `tokens` queries see all keys, and all queries the first `tokens` keys.
    ///
    /// ```
    /// use torsh_tensor::BlockMask;
    /// assert_eq!(BlockMask::global(512, 512, 1)?.num_blocks(), 8 + 7);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`BlockMask::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn global(queries: usize, keys: usize, tokens: usize) -> Result<BlockMask> {
        let builder = Builder::new([1, 1, queries, keys])?;
        let built = builder.all(
            |q, k| match (q.start >= tokens, k.start >= tokens) {
                (true, true) => Some(false),
                _ => (q.end <= tokens || k.end <= tokens).then_some(true),
            },
            |[_, _, q, k]| q < tokens || k < tokens,
        )?;
        Ok(built.build(None))
    }

    /// The mask of documents of these lengths that lie one after the other in a sequence: each token sees those of its own
    /// document.
    ///
    /// ```
    /// use torsh_tensor::{AttentionWindow, BlockMask};
    /// let mask = BlockMask::documents(&[64, 128, 64])?;
    /// assert_eq!((mask.shape(), mask.num_blocks()), ([1, 1, 256, 256], 1 + 4 + 1));
    /// // Tokens of a decoder see those before them.
    /// let causal = AttentionWindow { past: 0, left: None, right: Some(0) };
    /// let mask = mask.and(&BlockMask::sliding_window(256, 256, causal)?)?;
    /// assert_eq!(mask.num_blocks(), 1 + 3 + 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`BlockMask::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn documents(lengths: &[usize]) -> Result<BlockMask> {
        let mut ends = Vec::with_capacity(lengths.len());
        let mut length = 0usize;
        for n in lengths {
            length = length.checked_add(*n).ok_or_else(|| {
                TorshError::invalid("BlockMask::documents", "the lengths have no sum")
            })?;
            ends.push(length);
        }
        let builder = Builder::new([1, 1, length, length])?;
        let document = |token: usize| ends.partition_point(|&end| end <= token);
        let built = builder.all(
            |q, k| {
                let [q, k] = [q, k].map(|r| (document(r.start), document(r.end - 1)));
                if q.1 < k.0 || k.1 < q.0 {
                    return Some(false);
                }
                (q.0 == q.1 && k == q).then_some(true)
            },
            |[_, _, q, k]| document(q) == document(k),
        )?;
        Ok(built.build(None))
    }

    /// The blocks of a bool mask `[queries, keys]`, `[heads, queries, keys]` or `[batch, heads, queries, keys]`, true where a
    /// query sees a key. The values of a mask on the meta device are not known: all is stored.
    ///
    /// ```
    /// use torsh_tensor::{BlockMask, DType, Device, Tensor};
    /// let causal = Tensor::ones([128, 128], DType::Bool, Device::Cpu)?.tril(0)?;
    /// let mask = BlockMask::from_mask(&causal)?;
    /// assert_eq!(mask.num_blocks(), 3);
    /// assert_eq!(mask.to_mask(Device::Cpu)?.reshape([128, 128])?, causal);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Another dtype or number of dimensions, and as for [`BlockMask::new`].
    #[torsh_tensor::names_caller(Self)]
    pub fn from_mask(mask: &Tensor) -> Result<BlockMask> {
        let shape = match *mask.dims() {
            [queries, keys] => [1, 1, queries, keys],
            [heads, queries, keys] => [1, heads, queries, keys],
            [batch, heads, queries, keys] => [batch, heads, queries, keys],
            _ => {
                return Err(TorshError::shape(
                    "BlockMask::from_mask",
                    format!(
                        "expected a mask [queries, keys] with at most a batch and heads ahead, got {}",
                        mask.describe()
                    ),
                ));
            }
        };
        if mask.dtype() != DType::Bool {
            return Err(TorshError::dtype(
                "BlockMask::from_mask",
                format!("expected a mask of bool, got {}", mask.dtype()),
            )
            .with_hint(
                "numbers that are added to the scores: scaled_dot_product_attention with attn_mask",
            ));
        }
        let builder = Builder::new(shape)?;
        if !mask.device().has_data() {
            return Ok(builder.all(|_, _| Some(true), |_| true)?.build(None));
        }
        let seen = mask.detach().to_device(Device::Cpu)?.to_vec::<bool>()?;
        let [_, heads, queries, keys] = shape;
        let at = |[b, h, q, k]: [usize; 4]| ((b * heads + h) * queries + q) * keys + k;
        let built = builder.all(|_, _| None, |place| seen.get(at(place)) == Some(&true))?;
        Ok(built.build(None))
    }

    /// `[batch, heads, queries, keys]`; a batch or heads of 1 serve all.
    pub fn shape(&self) -> [usize; 4] {
        self.pattern.shape
    }

    /// How many blocks are stored.
    pub fn num_blocks(&self) -> usize {
        self.pattern.stored.len()
    }

    /// The percentage of blocks that are not stored, as `BlockMask.sparsity` of PyTorch.
    ///
    /// ```
    /// use torsh_tensor::BlockMask;
    /// assert_eq!(BlockMask::strided(640, 640, 10)?.sparsity(), 90.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn sparsity(&self) -> f64 {
        let [batch, heads, queries, keys] = self.shape();
        let all = batch * heads * queries.div_ceil(BLOCK) * keys.div_ceil(BLOCK);
        match all {
            0 => 0.0,
            _ => 100.0 * (1.0 - self.num_blocks() as f64 / all as f64),
        }
    }

    /// The mask as a bool tensor of its [`shape`](BlockMask::shape), true where a query sees a key: for attention in other
    /// ops.
    ///
    /// ```
    /// use torsh_tensor::{BlockMask, Device, tensor};
    /// let mask = BlockMask::documents(&[1, 2])?.to_mask(Device::Cpu)?;
    /// let want = tensor![[true, false, false], [false, true, true], [false, true, true]];
    /// assert_eq!(mask.reshape([3, 3])?, want);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// No memory for the mask.
    #[torsh_tensor::names_caller]
    pub fn to_mask(&self, device: Device) -> Result<Tensor> {
        let [blocks, parts] = self.tensors(device)?;
        dense(&blocks, &parts, self.shape())
    }

    /// The window that the mask is, if it is one.
    pub(crate) fn window(&self) -> Option<AttentionWindow> {
        self.pattern.window
    }

    /// The stored blocks and their parts as the kernels take them, on a device.
    pub(crate) fn tensors(&self, device: Device) -> Result<[Tensor; 2]> {
        let p = &*self.pattern;
        let there = |list: &[(Device, [Tensor; 2])]| {
            let known = list.iter().find(|(d, _)| *d == device);
            known.map(|(_, tensors)| tensors.clone())
        };
        if let Some(tensors) = there(&p.tensors.lock()) {
            return Ok(tensors);
        }
        let (n, m) = (p.stored.len(), p.parts.len());
        let (blocks, parts) = if device.has_data() {
            let mut blocks = Vec::new();
            blocks.try_reserve_exact(3 * n).map_err(|_| memory())?;
            for (row, ends) in p.starts.windows(2).enumerate() {
                for &[column, part] in &p.stored[ends[0]..ends[1]] {
                    let part = if part == WHOLE { -1 } else { i64::from(part) };
                    blocks.extend([row as i64, i64::from(column), part]);
                }
            }
            let words = p.parts.iter().flatten().map(|&bits| bits as i64);
            let words: Vec<i64> = words.collect();
            (
                Tensor::from_data_on(&blocks, [n, 3], device)?,
                Tensor::from_data_on(&words, [m, BLOCK], device)?,
            )
        } else {
            (
                Tensor::zeros([n, 3], DType::I64, device)?,
                Tensor::zeros([m, BLOCK], DType::I64, device)?,
            )
        };
        let mut list = p.tensors.lock();
        if let Some(tensors) = there(&list) {
            return Ok(tensors);
        }
        list.push((device, [blocks.clone(), parts.clone()]));
        Ok([blocks, parts])
    }

    /// The bits of a stored block.
    fn bits(&self, part: u32) -> Bits {
        match part {
            WHOLE => [u64::MAX; BLOCK],
            part => self.pattern.parts[part as usize],
        }
    }

    /// Two masks of one size, block by block. `outer` says whether a block is kept that only one of them stores.
    fn joined(
        &self,
        other: &BlockMask,
        name: &'static str,
        outer: bool,
        join: fn(u64, u64) -> u64,
        window: Option<AttentionWindow>,
    ) -> Result<BlockMask> {
        let (a, b) = (self.shape(), other.shape());
        let fits = |d: usize| a[d] == b[d] || d < 2 && (a[d] == 1 || b[d] == 1);
        if !(0..4).all(fits) {
            return Err(TorshError::shape(
                name,
                format!("masks of shapes {a:?} and {b:?} do not go together"),
            )
            .with_hint("queries and keys must be as many; a batch or heads of 1 serve all"));
        }
        // One batch or head goes with all of the other mask.
        let wide = |d: usize| if a[d] == 1 { b[d] } else { a[d] };
        let mut builder = Builder::new([wide(0), wide(1), a[2], a[3]])?;
        let [rows, _] = builder.sides();
        let of = |mask: &BlockMask, batch: usize, head: usize, row: usize| {
            let [batches, heads, ..] = mask.shape();
            let batch = if batches == 1 { 0 } else { batch };
            let head = if heads == 1 { 0 } else { head };
            let row = (batch * heads + head) * rows + row;
            mask.pattern.starts[row]..mask.pattern.starts[row + 1]
        };
        for batch in 0..wide(0) {
            for head in 0..wide(1) {
                for row in 0..rows {
                    let queries = builder.range(2, row).len();
                    let mut x = self.pattern.stored[of(self, batch, head, row)]
                        .iter()
                        .peekable();
                    let mut y = other.pattern.stored[of(other, batch, head, row)]
                        .iter()
                        .peekable();
                    while let Some(column) = match (x.peek(), y.peek()) {
                        (Some(x), Some(y)) => Some(x[0].min(y[0])),
                        (Some(one), None) | (None, Some(one)) => Some(one[0]),
                        (None, None) => None,
                    } {
                        let own = x.next_if(|b| b[0] == column).map(|b| b[1]);
                        let others = y.next_if(|b| b[0] == column).map(|b| b[1]);
                        let bits = match (own, others) {
                            (Some(own), Some(others)) => {
                                let (own, others) = (self.bits(own), other.bits(others));
                                std::array::from_fn(|q| join(own[q], others[q]))
                            }
                            (Some(own), None) if outer => self.bits(own),
                            (None, Some(others)) if outer => other.bits(others),
                            _ => continue,
                        };
                        let column = column as usize;
                        let keys = builder.range(3, column).len();
                        builder.add(column, &bits, [queries, keys])?;
                    }
                    builder.row();
                }
            }
        }
        Ok(builder.build(window))
    }

    /// The mask under which a query sees a key that it sees under both (`and_masks`).
    ///
    /// ```
    /// use torsh_tensor::BlockMask;
    /// let near = BlockMask::new(1, 1, 256, 256, |_, _, q, k| q.abs_diff(k) < 64)?;
    /// let causal = BlockMask::new(1, 1, 256, 256, |_, _, q, k| k <= q)?;
    /// assert_eq!(near.and(&causal)?.num_blocks(), 4 + 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// Masks of other queries or keys, or of batches or heads that do not broadcast.
    #[torsh_tensor::names_caller]
    pub fn and(&self, other: &BlockMask) -> Result<BlockMask> {
        let window = match (self.window(), other.window()) {
            (Some(a), Some(b)) if a.past == b.past => {
                let less = |a: Option<usize>, b: Option<usize>| match (a, b) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
                Some(AttentionWindow {
                    past: a.past,
                    left: less(a.left, b.left),
                    right: less(a.right, b.right),
                })
            }
            _ => None,
        };
        self.joined(other, "BlockMask::and", false, |a, b| a & b, window)
    }

    /// The mask under which a query sees a key that it sees under either (`or_masks`).
    ///
    /// ```
    /// use torsh_tensor::BlockMask;
    /// let mask = BlockMask::strided(512, 512, 8)?.or(&BlockMask::global(512, 512, 64)?)?;
    /// assert_eq!(mask.num_blocks(), 8 + 8 + 6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`BlockMask::and`].
    #[torsh_tensor::names_caller]
    pub fn or(&self, other: &BlockMask) -> Result<BlockMask> {
        self.joined(other, "BlockMask::or", true, |a, b| a | b, None)
    }
}

#[track_caller]
fn unwrap(mask: Result<BlockMask>) -> BlockMask {
    match mask {
        Ok(mask) => mask,
        Err(e) => panic!("{e}"),
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $form:ident $example:literal;)*) => { $(
        /// The operator of
        #[doc = concat!("[`BlockMask::", stringify!($form), "`]. It panics with the error's message if the masks do not go together.")]
        ///
        /// ```
        /// use torsh_tensor::BlockMask;
        /// let (x, y) = (BlockMask::documents(&[64, 192])?, BlockMask::strided(256, 256, 2)?);
        #[doc = $example]
        /// # Ok::<(), torsh_tensor::TorshError>(())
        /// ```
        impl $trait<&BlockMask> for &BlockMask {
            type Output = BlockMask;
            #[track_caller]
            fn $method(self, other: &BlockMask) -> BlockMask {
                unwrap(self.$form(other))
            }
        }
        impl $trait for BlockMask {
            type Output = BlockMask;
            #[track_caller]
            fn $method(self, other: BlockMask) -> BlockMask {
                unwrap(self.$form(&other))
            }
        }
    )* };
}
operators! {
    BitAnd bitand and "assert_eq!((&x & &y).num_blocks(), x.and(&y)?.num_blocks());";
    BitOr bitor or "assert_eq!((&x | &y).num_blocks(), x.or(&y)?.num_blocks());";
}

/// The mask of stored blocks, in other ops.
pub(crate) fn dense(blocks: &Tensor, parts: &Tensor, shape: [usize; 4]) -> Result<Tensor> {
    let [batch, heads, queries, keys] = shape;
    let device = blocks.device();
    let [rows, columns] = [queries, keys].map(|n| n.div_ceil(BLOCK));
    // Parts, and behind them one of which all is seen.
    let all = Tensor::full([1, BLOCK], -1i64, DType::I64, device)?;
    let parts = Tensor::cat(&[parts.clone(), all], 0)?;
    let part = blocks.select(1, 2)?;
    let last = parts.dims()[0] as i64 - 1;
    let part = part.masked_fill(&part.lt(0)?, last)?;
    let words = Tensor::zeros([batch * heads * rows * columns, BLOCK], DType::I64, device)?;
    let place = blocks
        .select(1, 0)?
        .mul(columns as i64)?
        .add(&blocks.select(1, 1)?)?;
    let words = words.index_copy(0, &place, &parts.index_select(0, &part)?)?;
    let shifts: Vec<i64> = (0..BLOCK as i64).collect();
    let shifts = Tensor::from_data_on(&shifts, [BLOCK], device)?;
    words
        .unsqueeze(-1)?
        .bitwise_right_shift(&shifts)?
        .bitwise_and(1)?
        .ne(0)?
        .reshape([batch, heads, rows, columns, BLOCK, BLOCK])?
        .permute([0, 1, 2, 4, 3, 5])?
        .reshape([batch, heads, rows * BLOCK, columns * BLOCK])?
        .narrow(2, 0, queries)?
        .narrow(3, 0, keys)?
        .contiguous()
}
