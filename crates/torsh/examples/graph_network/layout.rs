//! Where the nodes of a graph are drawn.

use torsh::prelude::*;

/// Nodes, drawn in each step, from which the others move away.
const OTHERS: usize = 128;
const LR: f64 = 0.5;

/// A place in the plane for each node, `[n, 2]`: close to the nodes that it has edges to, and away from the others.
///
/// It minimises the loss of t-SNE (van der Maaten and Hinton, 2008) with one probability for all edges and 0 for other
/// pairs. The sum over all pairs of nodes is estimated from some of them.
pub fn layout(pixels: &Tensor, edges: &Tensor, steps: usize) -> Result<Tensor> {
    let n = pixels.dims()[0];
    // The first places are a random projection.
    let places = pixels.matmul(&randn([pixels.dims()[1], 2]))?;
    let places = places.div(places.std()?)?.requires_grad_(true);
    let optimizer = Adam::new([&places], LR)?;
    let (from, to) = (edges.select(0, 0)?, edges.select(0, 1)?);
    for step in 0..steps {
        optimizer.set_lr(LR * (1.0 - step as f64 / steps as f64));
        optimizer.zero_grad();
        let at = |nodes: &Tensor| places.index_select(0, nodes);
        let along = at(&from)?.sub(&at(&to)?)?.square()?.sum_dim(1, false)?;
        let together = along.log1p()?.mean()?;
        let others = at(&randint(0, n as i64, [OTHERS]))?;
        let between = places.unsqueeze(1)?.sub(&others.unsqueeze(0)?)?;
        let between = between.square()?.sum_dim(2, false)?;
        let apart = between.add(1.0)?.reciprocal()?.mean()?.log()?;
        // Groups form first, and then get room.
        let pull = if 2 * step < steps { 4.0 } else { 1.0 };
        together.mul(pull)?.add(&apart)?.backward()?;
        optimizer.step()?;
    }
    Ok(places.detach())
}
