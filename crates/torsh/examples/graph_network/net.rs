//! The network, and how it is trained.

use torsh::AddmmOptions;
use torsh::prelude::*;

use super::graph::{Graph, Hop};

/// Numbers that the network computes for a node.
const WIDTH: usize = 32;
/// Labelled nodes in a step.
pub const BATCH: usize = 10;

/// A graph convolution (Kipf and Welling, 2017) and a layer of attention along the edges, for the nodes of one graph.
#[derive(Module)]
pub struct Net {
    /// A vector for each node.
    table: Embedding,
    input: Linear,
    query: Linear,
    key: Linear,
    value: Linear,
    out: Linear,
    #[module(skip)]
    graph: Graph,
}

impl Net {
    /// A network with new weights, drawn from the default generator. The vectors of the nodes are 0: a node that no
    /// step reaches has nothing but its pixels.
    pub fn new(graph: Graph) -> Result<Net> {
        let (n, pixels) = (graph.pixels.dims()[0], graph.pixels.dims()[1]);
        let table = Embedding::from_pretrained(zeros(&[n, WIDTH]));
        Ok(Net {
            table: table.freeze(false).sparse(true).build()?,
            input: Linear::new(pixels, WIDTH),
            query: Linear::new(WIDTH, WIDTH),
            key: Linear::new(WIDTH, WIDTH),
            value: Linear::new(WIDTH, WIDTH),
            out: Linear::new(WIDTH, 10),
            graph,
        })
    }

    /// The parameters of all layers but the table.
    fn dense(&self) -> Vec<Parameter> {
        [&self.input, &self.query, &self.key, &self.value, &self.out]
            .into_iter()
            .flat_map(|layer| layer.parameters())
            .collect()
    }
}

impl Module for Net {
    /// Nodes, int64 `[m]`, in; a score for each digit `[m, 10]` out. Only the nodes within two edges of these are read.
    fn forward(&self, nodes: &Tensor) -> Result<Tensor> {
        let near = Hop::to(&self.graph.adjacency, nodes)?;
        let far = Hop::to(&self.graph.adjacency, &near.sources)?;

        // The convolution: the weighted sum of what is at the other ends of the edges.
        let pixels = self.graph.pixels.index_select(0, &far.sources)?;
        let x = self.input.forward(&pixels)?;
        let x = x.add(&self.table.forward(&far.sources)?)?;
        let x = F::relu(sparse::mm(&far.weights, &x)?)?;

        // Attention: a score for each edge, weights that add up to 1 at each node, and a sum.
        let own = near.sources.searchsorted(nodes)?;
        let query = self.query.forward(&x.index_select(0, &own)?)?;
        let key = self.key.forward(&x)?;
        let scale = (WIDTH as f64).sqrt().recip();
        let options = AddmmOptions::new().beta(0).alpha(scale);
        let scores = sparse::sampled_addmm_with(&near.weights, &query, &key.t()?, options)?;
        let attention = sparse::softmax(&scores, 1)?;
        let x = F::relu(sparse::mm(&attention, &self.value.forward(&x)?)?)?;
        self.out.forward(&x)
    }
}

/// What a step did.
pub struct Step {
    /// The loss before it.
    pub loss: f64,
    /// Rows of the table that have a gradient.
    pub rows: usize,
}

/// Trains on the labels of the nodes `known`: the table with SparseAdam, everything else with AdamW. `on_step` is
/// called after each step.
pub fn train(
    net: &Net,
    labels: &Tensor,
    known: &Tensor,
    epochs: usize,
    lr: f64,
    mut on_step: impl FnMut(Step),
) -> Result<()> {
    let dense = AdamW::builder(net.dense())
        .lr(lr)
        .weight_decay(0.5)
        .build()?;
    let table = optim::SparseAdam::new(net.table.parameters(), lr)?;
    for epoch in 1..=epochs {
        let order = Tensor::randperm(known.numel() as i64, DType::I64, Device::Cpu)?;
        for nodes in known.index_select(0, &order)?.split(BATCH, 0)? {
            dense.zero_grad();
            table.zero_grad();
            let truth = labels.index_select(0, &nodes)?;
            let loss = F::cross_entropy(&net.forward(&nodes)?, &truth)?;
            loss.backward()?;
            let rows = match net.table.weight.grad() {
                Some(gradient) => gradient.nnz()?,
                None => 0,
            };
            dense.step()?;
            table.step()?;
            let loss = loss.item::<f64>()?;
            if !loss.is_finite() {
                return Err(TorshError::Other(format!(
                    "the loss became {loss} in epoch {epoch}: try a smaller --lr"
                )));
            }
            on_step(Step { loss, rows });
        }
    }
    Ok(())
}

/// The digit that each node is taken for, int64 `[n]`.
pub fn predict(net: &Net) -> Result<Tensor> {
    let nodes = arange(0, net.graph.pixels.dims()[0] as i64, 1);
    no_grad(|| net.forward(&nodes)?.argmax_dim(1, false))
}
