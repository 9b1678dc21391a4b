//! The digits, and the graph whose nodes they are.

use std::io::Read;

use torsh::TopkOptions;
use torsh::data::csv::CsvReader;
use torsh::prelude::*;
use torsh::sparse::CooOptions;

/// The handwritten digits that come with ToRSh.
pub struct Digits {
    /// float32 `[n, 64]`: each pixel has the mean 0, and all pixels together have the standard deviation 1.
    pub pixels: Tensor,
    /// int64 `[n]`, from 0 to 9.
    pub labels: Tensor,
}

/// Reads the digits.
pub fn digits() -> Result<Digits> {
    let packed = include_bytes!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../data/digits/digits.csv.gz"
    ));
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut text)?;
    // Columns without a header are named by their numbers.
    let reader = CsvReader::new().has_header(false).target("64");
    let table = reader.target_dtype(DType::I64).read_bytes(&text)?;
    let Some(labels) = table.target else {
        return Err(TorshError::Other("digits.csv has no labels".into()));
    };
    let pixels = table.features.sub(table.features.mean_dim(0, true)?)?;
    let pixels = pixels.div(pixels.std()?)?;
    Ok(Digits { pixels, labels })
}

/// The nodes whose labels are known, and all others.
pub struct Drawn {
    /// int64 `[10 * each]`
    pub known: Tensor,
    /// int64 `[n - 10 * each]`
    pub others: Tensor,
}

/// Draws `each` nodes of every digit.
pub fn draw_labels(labels: &Tensor, each: usize) -> Result<Drawn> {
    let n = labels.numel() as i64;
    let order = Tensor::randperm(n, DType::I64, Device::Cpu)?;
    let shuffled = labels.index_select(0, &order)?;
    let mut known = Vec::new();
    for digit in 0..10i64 {
        let places = shuffled.eq(digit)?.nonzero()?.flatten(0)?;
        known.push(order.index_select(0, &places.narrow(0, 0, each)?)?);
    }
    let known = Tensor::cat(&known, 0)?;
    let others = Tensor::isin(&arange(0, n, 1), &known)?.logical_not()?;
    let others = others.nonzero()?.flatten(0)?;
    Ok(Drawn { known, others })
}

/// The share of the elements that two tensors have in common.
pub fn agreement(a: &Tensor, b: &Tensor) -> Result<f64> {
    a.eq(b)?.to_dtype(DType::F64)?.mean()?.item::<f64>()
}

/// Nodes and edges.
#[derive(Clone)]
pub struct Graph {
    /// float32 `[n, features]`
    pub pixels: Tensor,
    /// CSR `[n, n]`. Each node has an edge to itself. An edge has the weight `1 / sqrt(d e)`, where `d` and `e` are the
    /// numbers of edges at its two ends.
    pub adjacency: Tensor,
}

impl Graph {
    /// Joins each node to its `k` nearest. Edges have no direction.
    pub fn of_nearest(pixels: &Tensor, k: usize) -> Result<Graph> {
        let n = pixels.dims()[0];
        let distances = pixels.cdist(pixels, 2.0)?;
        // A node is not its own neighbour.
        distances.fill_diagonal_(f64::INFINITY, false)?;
        let (_, nearest) = distances.topk_with(k, TopkOptions::new().largest(false))?;
        let nodes = arange(0, n as i64, 1);
        let (from, to) = (nodes.repeat_interleave(k, None)?, nearest.flatten(0)?);
        let rows = Tensor::cat(&[&from, &to, &nodes], 0)?;
        let columns = Tensor::cat(&[&to, &from, &nodes], 0)?;
        let ends = Tensor::stack(&[&rows, &columns], 0)?;
        // Two nodes that are among the nearest of each other are joined once.
        let once = sparse::coo(&ends, &ones(&[rows.numel()]), [n, n])?.coalesce()?;
        let ends = once.indices()?;
        let (rows, columns) = (ends.select(0, 0)?, ends.select(0, 1)?);
        let scale = rows.bincount()?.to_dtype(pixels.dtype())?.rsqrt()?;
        let at = |ends: &Tensor| scale.index_select(0, ends);
        let weights = at(&rows)?.mul(&at(&columns)?)?;
        let options = CooOptions::new().is_coalesced(true);
        let adjacency = sparse::coo_with(&ends, &weights, [n, n], options)?;
        Ok(Graph {
            pixels: pixels.clone(),
            adjacency: adjacency.to_sparse_csr()?,
        })
    }

    /// The same nodes, each of which is joined to itself only.
    pub fn without_edges(&self) -> Result<Graph> {
        let n = self.pixels.dims()[0];
        Ok(Graph {
            pixels: self.pixels.clone(),
            adjacency: eye(n).to_sparse_csr()?,
        })
    }

    /// The two ends of each edge between different nodes, the lower one first: int64 `[2, edges]`.
    pub fn edges(&self) -> Result<Tensor> {
        self.adjacency.to_sparse()?.triu(1)?.coalesce()?.indices()
    }
}

/// The edges into some nodes.
pub struct Hop {
    /// The nodes from which they come, in rising order: int64 `[sources]`.
    pub sources: Tensor,
    /// CSR `[targets, sources]`, with the weights of the graph.
    pub weights: Tensor,
}

impl Hop {
    /// The edges of a graph into the nodes `targets`, int64 `[targets]`.
    pub fn to(adjacency: &Tensor, targets: &Tensor) -> Result<Hop> {
        let rows = adjacency.index_select(0, targets)?;
        let sources = rows.col_indices()?.unique()?;
        let weights = rows.index_select(1, &sources)?;
        Ok(Hop { sources, weights })
    }
}
