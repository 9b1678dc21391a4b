//! The graph of the example `graph_network` joins what is near, its network learns along the edges, and nodes with
//! edges are drawn close together.

#[path = "../examples/graph_network/graph.rs"]
mod graph;
#[path = "../examples/graph_network/layout.rs"]
mod layout;
#[path = "../examples/graph_network/net.rs"]
mod net;

use graph::{Graph, Hop, agreement};
use net::Net;
use torsh::prelude::*;
use torsh_core::random::LocalGenerator;

#[test]
fn the_digits_are_read() -> Result<()> {
    let digits = graph::digits()?;
    assert_eq!(digits.pixels.dims(), [1797, 64]);
    let first = digits.labels.narrow(0, 0, 12)?;
    assert_eq!(first.to_vec::<i64>()?, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]);
    let means = digits.pixels.mean_dim(0, false)?.abs()?.max()?;
    let deviation = digits.pixels.std()?.item::<f64>()?;
    assert!(means.item::<f64>()? < 1e-5 && (deviation - 1.0).abs() < 1e-4);
    Ok(())
}

#[test]
fn nearest_nodes_are_joined_from_either_side() -> Result<()> {
    // On a line: node 3 is the nearest of none, and is joined to its own nearest.
    let places = tensor![[0.0], [1.0], [3.0], [7.0]];
    let graph = Graph::of_nearest(&places, 1)?;
    assert_eq!(graph.edges()?, tensor![[0, 1, 2], [1, 2, 3]]);
    let (third, sixth) = (1.0 / 3.0, 1.0 / 6f64.sqrt());
    let weights = tensor![
        [0.5, sixth, 0.0, 0.0],
        [sixth, third, third, 0.0],
        [0.0, third, third, sixth],
        [0.0, 0.0, sixth, 0.5]
    ];
    assert!(graph.adjacency.to_dense()?.allclose(&weights)?);
    let alone = graph.without_edges()?;
    assert_eq!(alone.adjacency.to_dense()?, eye(4));
    assert_eq!(alone.edges()?.dims(), [2, 0]);

    let hop = Hop::to(&graph.adjacency, &tensor![3, 0])?;
    assert_eq!(hop.sources, tensor![0, 1, 2, 3]);
    let rows = weights.index_select(0, &tensor![3, 0])?;
    assert!(hop.weights.to_dense()?.allclose(&rows)?);
    let hop = Hop::to(&graph.adjacency, &tensor![3])?;
    assert_eq!(hop.sources, tensor![2, 3]);
    let row = hop.weights.to_dense()?;
    assert!(row.allclose(&tensor![[sixth, 0.5]])?);
    Ok(())
}

/// A fifth of the digits.
fn some() -> Result<(Graph, Tensor)> {
    let digits = graph::digits()?;
    let (pixels, labels) = (
        digits.pixels.narrow(0, 0, 400)?,
        digits.labels.narrow(0, 0, 400)?,
    );
    Ok((Graph::of_nearest(&pixels, 6)?, labels))
}

#[test]
fn edges_help_the_network() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    let (joined, labels) = some()?;
    let alone = joined.without_edges()?;
    let mut recognised = [0.0; 2];
    for seed in 0..2 {
        manual_seed(seed);
        let drawn = graph::draw_labels(&labels, 3)?;
        let (known, others) = (&drawn.known, &drawn.others);
        let counts = labels.index_select(0, known)?.bincount()?;
        assert_eq!(counts, full([10], 3));
        let both = Tensor::cat(&[known, others], 0)?.sort()?.0;
        assert_eq!(both, arange(0, 400, 1));
        for (sum, graph) in recognised.iter_mut().zip([&joined, &alone]) {
            manual_seed(seed);
            let net = Net::new(graph.clone())?;
            let mut losses = Vec::new();
            net::train(&net, &labels, known, 10, 1e-2, |step| {
                losses.push(step.loss);
                // Only the nodes within two edges of the batch have a gradient.
                assert!((net::BATCH..400).contains(&step.rows), "{}", step.rows);
            })?;
            // Ten digits and no knowledge: about ln 10.
            assert!((losses[0] - 10f64.ln()).abs() < 0.5, "{losses:?}");
            assert!(losses[losses.len() - 1] < 0.3, "{losses:?}");
            let predicted = net::predict(&net)?.index_select(0, others)?;
            *sum += agreement(&predicted, &labels.index_select(0, others)?)? / 2.0;
        }
    }
    let [with, without] = recognised;
    assert!(with > 0.8 && with > without + 0.02, "{with} {without}");
    Ok(())
}

#[test]
fn scores_of_some_nodes_are_those_of_the_whole_graph() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    let (graph, labels) = some()?;
    let net = Net::new(graph.clone())?;
    let known = tensor![7, 3, 11];
    net::train(&net, &labels, &known, 2, 1e-2, |_| ())?;
    let all = no_grad(|| net.forward(&arange(0, 400, 1)))?;
    let nodes = tensor![250, 3, 3, 17];
    let some = no_grad(|| net.forward(&nodes))?;
    torsh::testing::assert_close(&some, &all.index_select(0, &nodes)?);

    // SparseAdam left the vectors of all nodes at 0 that are more than two edges away.
    let near = Hop::to(&graph.adjacency, &known)?.sources;
    let near = Hop::to(&graph.adjacency, &near)?.sources;
    let parameters = net.named_parameters();
    let table = parameters.iter().find(|(name, _)| name == "table.weight");
    let (_, table) = table.ok_or_else(|| TorshError::Other("no table".into()))?;
    let changed = table.detach().ne(0)?.any_dim(1, false)?;
    assert_eq!(changed.nonzero()?.flatten(0)?, near);
    Ok(())
}

#[test]
fn nodes_with_edges_are_drawn_close_together() -> Result<()> {
    let _own = LocalGenerator::new(0).enter();
    let (graph, _) = some()?;
    let edges = graph.edges()?;
    let places = layout::layout(&graph.pixels, &edges, 100)?;
    let at = |end: i64| places.index_select(0, &edges.select(0, end)?);
    let along = at(0)?.sub(&at(1)?)?.square()?.sum_dim(1, false)?;
    let along = along.sqrt()?.median()?.item::<f64>()?;
    let all = places.cdist(&places, 2.0)?.median()?.item::<f64>()?;
    assert!(4.0 * along < all, "{along} {all}");
    Ok(())
}
