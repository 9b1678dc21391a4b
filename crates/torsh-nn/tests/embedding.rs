//! Tables that are given, against what PyTorch computes of them.

use torsh_nn::{Embedding, EmbeddingBag, EmbeddingBagMode, Module, ModuleExt};
use torsh_tensor::{Result, Tensor, tensor};

fn table() -> Tensor {
    tensor![[1.0, 2.0], [3.0, 4.0], [6.0, 8.0]]
}

#[track_caller]
fn close(t: &Tensor, expected: &[f32]) {
    let ours = t.detach().to_vec::<f32>().unwrap();
    assert_eq!(ours.len(), expected.len());
    for (a, b) in ours.iter().zip(expected) {
        assert!((a - b).abs() < 1e-6, "{ours:?}");
    }
}

#[test]
fn embeddings_from_pretrained() -> Result<()> {
    let frozen = Embedding::from_pretrained(table()).build()?;
    assert_eq!(
        frozen.forward(&tensor![2, 0])?,
        tensor![[6.0, 8.0], [1.0, 2.0]]
    );
    assert!(!frozen.weight.requires_grad());
    assert_eq!(frozen.repr(), "Embedding(3, 2)");

    let layer = Embedding::from_pretrained(table())
        .freeze(false)
        .padding_idx(-1)
        .max_norm(2.0)
        .norm_type(1.0)
        .scale_grad_by_freq(true)
        .build()?;
    let text =
        "Embedding(3, 2, padding_idx=2, max_norm=2.0, norm_type=1.0, scale_grad_by_freq=True)";
    assert_eq!(layer.repr(), text);
    let y = layer.forward(&tensor![0, 2, 0, 1])?;
    let (first, rest) = ([2.0 / 3.0, 4.0 / 3.0], [6.0 / 7.0, 8.0 / 7.0]);
    close(&y, &[first, rest, first, rest].concat());
    y.mul(&tensor![[1.0], [2.0], [4.0], [8.0]])?
        .sum()?
        .backward()?;
    let grad = layer.weight.grad().expect("a gradient");
    close(&grad, &[2.5, 2.5, 8.0, 8.0, 0.0, 0.0]);
    close(&layer.weight, &[first, rest, rest].concat());
    Ok(())
}

#[test]
fn bags_from_pretrained() -> Result<()> {
    let bags = EmbeddingBag::from_pretrained(table())
        .freeze(false)
        .mode(EmbeddingBagMode::Sum)
        .padding_idx(0)
        .max_norm(5.0)
        .include_last_offset(true)
        .build()?;
    let y = bags.forward_with(&tensor![0, 1, 2], &tensor![0, 2, 3], None)?;
    close(&y, &[3.0, 4.0, 3.0, 4.0]);
    close(&bags.weight, &[1.0, 2.0, 3.0, 4.0, 3.0, 4.0]);
    assert!(bags.weight.requires_grad());
    Ok(())
}

#[test]
fn what_there_is_not() {
    let check = |e: Option<torsh_tensor::TorshError>, expected: &str| {
        let e = e.expect("an error").to_string();
        assert!(e.contains(expected), "{e}");
    };
    let flat = || tensor![1.0, 2.0];
    // The crate with the rules of sparse tensors is not part of this program.
    let sparse = Embedding::from_pretrained(table()).sparse(true).build();
    let rows = sparse.and_then(|layer| layer.forward(&tensor![0])).err();
    check(rows, "sparse gradients come with the feature `sparse`");
    let sparse = EmbeddingBag::from_pretrained(table()).sparse(true).build();
    let bags = sparse.and_then(|layer| layer.forward(&tensor![[0]])).err();
    check(bags, "leave sparse at false");
    let bad = Embedding::from_pretrained(flat()).build().err();
    check(bad, "expected to be 2-dimensional, got float32[2]");
    check(
        EmbeddingBag::from_pretrained(flat()).build().err(),
        "2-dimensional",
    );
    let other = Embedding::builder(2, 3).weight(&table()).build().err();
    check(other, "does not match");
    let row = Embedding::from_pretrained(table()).padding_idx(3).build();
    check(row.err(), "padding_idx 3 is not one of 3 rows");
}
