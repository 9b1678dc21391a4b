//! Sparse tensors of every layout and dtype in `.pt` files.

use torsh_serialize::{LoadOptions, Value, load_with, pt};
use torsh_tensor::sparse::{Pattern, from_values};
use torsh_tensor::{DType, Tensor, TensorLayout};

use super::scratch;
use super::sparse::same;

/// Patterns of each layout: with dense and batch dimensions, with duplicates, without elements.
fn patterns() -> Vec<(&'static str, Pattern)> {
    let coo = |shape: &[usize], indices: &[i64], rows: usize, once: bool| {
        let indices = Tensor::from_data(indices, [rows, indices.len() / rows]).unwrap();
        Pattern::coo(shape, &indices, once).unwrap()
    };
    // Two lines, and three positions in each; the same for both entries of a batch.
    let compressed = |layout: TensorLayout, shape: &[usize], dense: usize| {
        let block = layout.is_blocked().then_some([1, 2]);
        let batch = &shape[..shape.len() - 2 - dense];
        let of = |v: &[i64]| {
            let whole = [batch, &[v.len()]].concat();
            let one = Tensor::from_data(v, [v.len()]).unwrap();
            one.expand(&whole[..]).unwrap().copy().unwrap()
        };
        let (lines, others) = (of(&[0, 1, 3]), of(&[1, 0, 2]));
        Pattern::compressed(layout, shape, &lines, &others, block, dense).unwrap()
    };
    let int32 = |p: &Pattern| {
        let narrow = |t: Option<&Tensor>| t.unwrap().to_dtype(DType::I32).unwrap();
        let (lines, others) = (narrow(p.compressed_indices()), narrow(p.plain_indices()));
        Pattern::compressed(
            p.layout(),
            p.shape().dims(),
            &lines,
            &others,
            p.block(),
            p.dense_dim(),
        )
        .unwrap()
    };
    use TensorLayout::{SparseBsc, SparseBsr, SparseCsc, SparseCsr};
    let mut all = vec![
        ("coo", coo(&[3, 4], &[0, 1, 2, 3, 0, 1], 2, true)),
        ("repeated", coo(&[3, 4], &[2, 0, 2, 1, 3, 1], 2, false)),
        ("hybrid coo", coo(&[3, 2], &[0, 2], 1, true)),
        ("empty coo", coo(&[3, 4], &[], 2, true)),
        ("csr", compressed(SparseCsr, &[2, 3], 0)),
        ("hybrid csr", compressed(SparseCsr, &[2, 3, 2], 1)),
        ("batched csr", compressed(SparseCsr, &[2, 2, 3], 0)),
        ("csc", compressed(SparseCsc, &[3, 2], 0)),
        (
            "batched hybrid csc",
            compressed(SparseCsc, &[2, 3, 2, 2], 1),
        ),
        ("bsr", compressed(SparseBsr, &[2, 6], 0)),
        ("hybrid bsr", compressed(SparseBsr, &[2, 6, 2], 1)),
        ("batched bsr", compressed(SparseBsr, &[2, 2, 6], 0)),
        ("bsc", compressed(SparseBsc, &[3, 4], 0)),
        ("batched bsc", compressed(SparseBsc, &[2, 3, 4], 0)),
    ];
    for i in [4, 7, 9, 12] {
        all.push(("int32", int32(&all[i].1)));
    }
    all
}

/// Numbers of any dtype, complex ones with imaginary parts.
fn numbers(shape: &[usize], dtype: DType) -> Tensor {
    let parts: &[usize] = if dtype.is_complex() { &[2] } else { &[] };
    let shape = [shape, parts].concat();
    let n: usize = shape.iter().product();
    let v: Vec<f64> = (0..n).map(|i| (i * 7 % 5) as f64).collect();
    let t = Tensor::from_data(&v, &shape[..]).unwrap();
    match dtype.is_complex() {
        true => {
            let t = t.to_dtype(dtype.to_real()).unwrap();
            t.view_as_complex().unwrap().copy().unwrap()
        }
        false => t.to_dtype(dtype).unwrap(),
    }
}

#[test]
fn every_layout_and_dtype_comes_back() {
    let dir = scratch("sparse-dtypes");
    let path = dir.join("all.pt");
    for dtype in DType::ALL {
        let patterns = patterns();
        let all: Vec<Tensor> = patterns
            .iter()
            .map(|(_, p)| from_values(p, &numbers(p.values_shape().dims(), dtype)).unwrap())
            .collect();
        let list = all.iter().map(Value::from).collect();
        pt::save(&Value::List(list), &path).unwrap();
        for options in [LoadOptions::new(), LoadOptions::new().mmap(false)] {
            let Value::List(back) = load_with(&path, options).unwrap() else {
                panic!("a list was saved");
            };
            assert_eq!(back.len(), all.len());
            for ((back, wanted), (name, _)) in back.iter().zip(&all).zip(&patterns) {
                let back = back.as_tensor().unwrap();
                assert_eq!(back.layout(), wanted.layout(), "{name} of {dtype}");
                same(back, wanted);
            }
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
