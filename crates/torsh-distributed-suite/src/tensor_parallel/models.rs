//! The models that are divided, and how.

use torsh_distributed::plan;
use torsh_distributed::tensor_parallel::ParallelStyle;
use torsh_functional as F;
use torsh_nn::construct::Construction;
use torsh_nn::{Dropout, Embedding, Hooks, LayerNorm, Linear, Module};
use torsh_tensor::{DType, Result, Tensor};

/// All sizes are multiples of 1 to 4 ranks.
pub(super) const WIDTH: usize = 24;
pub(super) const HEADS: usize = 12;
pub(super) const VOCABULARY: usize = 36;
pub(super) const LENGTH: usize = 12;

/// Attention and an MLP, with residual connections, as an ordinary model.
#[derive(Module)]
pub(super) struct Block {
    norm1: LayerNorm,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    norm2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
    drop: Dropout,
    hooks: Hooks,
}

impl Block {
    pub(super) fn new() -> Result<Block> {
        Ok(Block {
            norm1: LayerNorm::new([WIDTH])?,
            q: Linear::new(WIDTH, WIDTH),
            k: Linear::new(WIDTH, WIDTH),
            v: Linear::new(WIDTH, WIDTH),
            o: Linear::new(WIDTH, WIDTH),
            norm2: LayerNorm::new([WIDTH])?,
            fc1: Linear::new(WIDTH, 4 * WIDTH),
            fc2: Linear::new(4 * WIDTH, WIDTH),
            drop: Dropout::new(0.0)?,
            hooks: Hooks::new(),
        })
    }
}

/// Causal attention with as many heads as the projections have here.
pub(super) fn attend(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    let heads = |t: &Tensor| {
        let (b, t_) = (t.dims()[0], t.dims()[1]);
        t.reshape([b as i64, t_ as i64, -1, (WIDTH / HEADS) as i64])?
            .transpose(1, 2)
    };
    let options = F::ScaledDotProductAttentionOptions::new().is_causal(true);
    let y = F::scaled_dot_product_attention_with(&heads(q)?, &heads(k)?, &heads(v)?, options)?;
    y.transpose(1, 2)?.reshape(q.shape())
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let h = self.norm1.forward(x)?;
            let y = attend(
                &self.q.forward(&h)?,
                &self.k.forward(&h)?,
                &self.v.forward(&h)?,
            )?;
            let x = x.add(&self.drop.forward(&self.o.forward(&y)?)?)?;
            let h = self.norm2.forward(&x)?;
            x.add(&self.fc2.forward(&self.fc1.forward(&h)?.gelu()?)?)
        })
    }
}

#[derive(Module)]
pub(super) struct Gpt {
    pub(super) emb: Embedding,
    pub(super) blocks: Vec<Block>,
    norm: LayerNorm,
    pub(super) head: Linear,
}

impl Gpt {
    pub(super) fn new(dtype: DType) -> Result<Gpt> {
        Construction::new().dtype(dtype).run(|| {
            Ok(Gpt {
                emb: Embedding::new(VOCABULARY, WIDTH)?,
                blocks: (0..2).map(|_| Block::new()).collect::<Result<_>>()?,
                norm: LayerNorm::new([WIDTH])?,
                head: Linear::new(WIDTH, VOCABULARY),
            })
        })
    }
}

impl Module for Gpt {
    /// Scores of the next token, a row for each.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut x = self.emb.forward(x)?;
        for block in &self.blocks {
            x = block.forward(&x)?;
        }
        let y = self.head.forward(&self.norm.forward(&x)?)?;
        let classes = y.dims()[2];
        y.reshape([-1, classes as i64])
    }
}

pub(super) fn plain_plan() -> Vec<(String, ParallelStyle)> {
    plan![
        ("emb", VocabParallel),
        ("blocks.*.q", ColumnParallel),
        ("blocks.*.k", ColumnParallel),
        ("blocks.*.v", ColumnParallel),
        ("blocks.*.o", RowParallel),
        ("blocks.*.fc1", ColumnParallel),
        ("blocks.*.fc2", RowParallel),
        ("head", ColumnParallel),
    ]
}

/// Norms and dropouts on parts of the sequence (dimension 1).
pub(super) fn sequence_plan() -> Vec<(String, ParallelStyle)> {
    plan![
        ("emb", VocabParallel.sequence_output(1)),
        ("blocks.*.norm?", SequenceParallel),
        ("blocks.*.q", ColumnParallel.sequence_input(1)),
        ("blocks.*.k", ColumnParallel.sequence_input(1)),
        ("blocks.*.v", ColumnParallel.sequence_input(1)),
        ("blocks.*.o", RowParallel.sequence_output(1)),
        ("blocks.*.drop", SequenceParallel),
        ("blocks.*.fc1", ColumnParallel.sequence_input(1)),
        ("blocks.*.fc2", RowParallel.sequence_output(1)),
        ("norm", SequenceParallel),
        ("head", ColumnParallel.sequence_input(1)),
    ]
}
