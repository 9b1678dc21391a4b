//! The recorded graph in DOT format.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Node, Result, Shared, Tensor, TorshError};

/// What a node of a [`ComputationGraph`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GraphNodeKind {
    /// The result the graph was made from.
    Output,
    /// A recorded op.
    Op,
    /// A leaf that asks for a gradient: a parameter or an input.
    Leaf,
}

/// A node of a [`ComputationGraph`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphNode {
    /// What it is.
    pub kind: GraphNodeKind,
    /// The op, as `AddmmBackward0`, or the name of a parameter; empty for other leaves and the
    /// output.
    pub name: String,
    /// The shapes of its results.
    pub shapes: Vec<Vec<usize>>,
}

/// The ops that a tensor was computed by, as autograd recorded them, and the leaves they end in.
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_profiler::create_computation_graph;
/// use torsh_tensor::ones;
/// let graph = create_computation_graph(&Linear::new(3, 2), &ones(&[1, 3]))?;
/// let names: Vec<_> = graph.nodes.iter().map(|n| n.name.as_str()).collect();
/// assert_eq!(names, ["", "LinearBackward0", "weight", "bias"]);
/// assert_eq!(graph.edges, [(1, 0), (2, 1), (3, 1)]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComputationGraph {
    /// The nodes, the output first, then in the order of a walk from it.
    pub nodes: Vec<GraphNode>,
    /// Who goes into whom, as positions of nodes; values flow along the edges.
    pub edges: Vec<(usize, usize)>,
}

/// The graph of a model's output for an input; leaves that are parameters have their names.
///
/// # Errors
/// Those of `forward`; `Autograd` where nothing was recorded, because no parameter asks for a
/// gradient or recording is off.
#[torsh_tensor::names_caller]
pub fn create_computation_graph<M: Module + ?Sized>(
    model: &M,
    input: &Tensor,
) -> Result<ComputationGraph> {
    let output = model.forward(input)?;
    let parameters = model.named_parameters();
    let named = parameters.iter().map(|(n, p)| (n.as_str(), p.tensor()));
    ComputationGraph::of(&output, named)
}

fn dims<'a>(shapes: impl Iterator<Item = &'a [usize]>) -> Vec<Vec<usize>> {
    shapes.map(<[usize]>::to_vec).collect()
}

impl ComputationGraph {
    /// The graph behind a tensor (`torchviz.make_dot`); leaves that are among `named` have their
    /// names.
    ///
    /// ```
    /// use torsh_profiler::ComputationGraph;
    /// use torsh_tensor::tensor;
    /// let x = tensor![2.0].requires_grad_(true);
    /// let graph = ComputationGraph::of(&x.mul(&x)?, [("x", &x)])?;
    /// assert_eq!(graph.nodes.len(), 3);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// # Errors
    /// `Autograd` for a tensor that was not recorded.
    #[torsh_tensor::names_caller(Self)]
    pub fn of<'a>(
        output: &Tensor,
        named: impl IntoIterator<Item = (&'a str, &'a Tensor)>,
    ) -> Result<ComputationGraph> {
        let Some(root) = output.grad_fn() else {
            return Err(TorshError::autograd(
                "create_computation_graph",
                format!("{} has no recorded graph", output.describe()),
            )
            .with_hint("compute it from a tensor that requires a gradient, outside of no_grad"));
        };
        let named: Vec<(&str, &Tensor)> = named.into_iter().collect();
        let mut graph = ComputationGraph::default();
        graph.nodes.push(GraphNode {
            kind: GraphNodeKind::Output,
            name: String::new(),
            shapes: vec![output.dims().to_vec()],
        });
        let mut places: HashMap<*const Node, usize> = HashMap::new();
        // Depth first in the order of operands, without recursion.
        let mut stack = vec![(root, 0)];
        while let Some((node, to)) = stack.pop() {
            let key = Shared::as_ptr(&node);
            if let Some(&place) = places.get(&key) {
                graph.edges.push((place, to));
                continue;
            }
            let place = graph.nodes.len();
            places.insert(key, place);
            graph.edges.push((place, to));
            graph.nodes.push(match node.variable() {
                Some(leaf) => GraphNode {
                    kind: GraphNodeKind::Leaf,
                    name: named
                        .iter()
                        .find(|(_, t)| t.is_same(leaf))
                        .map_or(String::new(), |(n, _)| n.to_string()),
                    shapes: vec![leaf.dims().to_vec()],
                },
                None => GraphNode {
                    kind: GraphNodeKind::Op,
                    name: node.name(),
                    shapes: dims(node.outputs().map(|(s, _)| s.dims())),
                },
            });
            let next = node.next_functions();
            stack.extend(next.into_iter().rev().flatten().map(|(n, _)| (n, place)));
        }
        Ok(graph)
    }

    /// The graph in Graphviz's language, in torchviz's colours: leaves are light blue, the output
    /// is green.
    pub fn to_dot(&self) -> String {
        let mut out = String::from(
            "digraph {\n\tgraph [rankdir=TB]\n\tnode [align=left fontname=monospace fontsize=10 height=0.2 shape=box style=filled fillcolor=lightgrey]\n",
        );
        for (i, n) in self.nodes.iter().enumerate() {
            let mut label = n.name.replace('\\', "\\\\").replace('"', "\\\"");
            for s in &n.shapes {
                label += &format!("\\n{s:?}");
            }
            let label = label.trim_start_matches("\\n");
            let colour = match n.kind {
                GraphNodeKind::Output => " fillcolor=darkolivegreen1",
                GraphNodeKind::Op => "",
                GraphNodeKind::Leaf => " fillcolor=lightblue",
            };
            // Writing to a string does not fail.
            let _ = writeln!(out, "\tn{i} [label=\"{label}\"{colour}]");
        }
        for (from, to) in &self.edges {
            let _ = writeln!(out, "\tn{from} -> n{to}");
        }
        out + "}\n"
    }

    /// Writes [`ComputationGraph::to_dot`] to a file; `dot -Tsvg` draws it.
    ///
    /// # Errors
    /// `Io` where the file cannot be written.
    #[torsh_tensor::names_caller]
    pub fn save_as_dot(&self, path: impl AsRef<Path>) -> Result<()> {
        Ok(std::fs::write(path, self.to_dot())?)
    }
}
