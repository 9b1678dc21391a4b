//! Attention over stored blocks against attention under the same mask of the whole size: values and gradients.

use torsh_functional::{self as F, AttentionWindow, BlockMask, SparseAttentionOptions};
use torsh_tensor::{DType, Device, Result, Tensor, grad, no_grad};

/// Numbers without a pattern that sums could hide.
fn numbers(shape: &[usize], seed: usize) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let value = |i: usize| ((i * 7919 + seed * 104729 + 13) % 10007) as f64 / 2500.0 - 1.9;
    Tensor::from_vec((0..n).map(value).collect::<Vec<f64>>(), shape)
}

fn most_apart(got: &Tensor, want: &Tensor) -> Result<f64> {
    assert_eq!(got.dims(), want.dims());
    if want.numel() == 0 {
        return Ok(0.0);
    }
    let apart = got.to_dtype(DType::F64)?.sub(&want.to_dtype(DType::F64)?)?;
    apart.abs()?.max()?.item::<f64>()
}

/// The result and the gradients of its sum with weights.
fn run(
    leaves: &[Tensor; 3],
    dtype: DType,
    f: impl Fn(&[Tensor; 3]) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let mut x = leaves.clone();
    for t in &mut x {
        *t = t.detach().to_dtype(dtype)?.copy()?.requires_grad_(true);
    }
    let y = f(&x)?;
    let g = numbers(y.dims(), 5)?.to_dtype(dtype)?;
    let grads = grad(&[y.clone()], &x, &[Some(g)], false, false, false)?;
    let grads = grads.into_iter().map(|g| g.expect("every leaf is used"));
    Ok(std::iter::once(y.detach()).chain(grads).collect())
}

/// Attention in other ops, of all keys, in float64.
fn by_mask(x: &[Tensor; 3], mask: &BlockMask, o: &SparseAttentionOptions) -> Result<Tensor> {
    let [q, k, v] = x;
    let [batch, heads, queries, keys] = mask.shape();
    let mask = mask.to_mask(Device::Cpu)?;
    let mask = match q.ndim() {
        2 => mask.reshape([queries, keys])?,
        3 => mask.reshape([heads, queries, keys])?,
        _ => mask.reshape([batch, heads, queries, keys])?,
    };
    let (k, v) = match o.enable_gqa {
        true => {
            let times = (q.dims()[q.ndim() - 3] / k.dims()[k.ndim() - 3]) as i64;
            (
                k.repeat_interleave(times, Some(-3))?,
                v.repeat_interleave(times, Some(-3))?,
            )
        }
        false => (k.clone(), v.clone()),
    };
    let scale = o
        .scale
        .unwrap_or(1.0 / (q.dims()[q.ndim() - 1] as f64).sqrt());
    let scores = q.mul(scale)?.matmul(&k.transpose(-2, -1)?)?;
    let scores = scores.masked_fill(&mask.logical_not()?, f64::NEG_INFINITY)?;
    let unseeing = mask.any_dim(-1, true)?.logical_not()?;
    let weights = scores.masked_fill(&unseeing, 0.0)?.softmax(-1)?;
    weights.masked_fill(&unseeing, 0.0)?.matmul(&v)
}

fn check(shapes: [&[usize]; 3], mask: &BlockMask, o: &SparseAttentionOptions) -> Result<()> {
    let leaves = [
        numbers(shapes[0], 1)?,
        numbers(shapes[1], 2)?,
        numbers(shapes[2], 3)?,
    ];
    let want = run(&leaves, DType::F64, |x| by_mask(x, mask, o))?;
    for (dtype, tolerance) in [(DType::F64, 1e-10), (DType::F32, 2e-3), (DType::BF16, 0.6)] {
        let got = run(&leaves, dtype, |[q, k, v]| {
            F::sparse_attention_with(q, k, v, mask, o.clone())
        })?;
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got.dtype(), dtype);
            let most = most_apart(got, want)?;
            let limit = tolerance * (1.0 + want.abs()?.max()?.item::<f64>()? / 4.0);
            assert!(
                most <= limit,
                "{i}: {most} apart, {dtype}, {shapes:?}, {mask:?}"
            );
        }
    }
    Ok(())
}

fn window(past: usize, left: Option<usize>, right: Option<usize>) -> AttentionWindow {
    AttentionWindow { past, left, right }
}

/// Masks of so many queries and keys, each with blocks that are stored whole and in part.
fn masks(l: usize, s: usize) -> Result<Vec<BlockMask>> {
    let near = BlockMask::sliding_window(l, s, window(0, Some(70), Some(3)))?;
    let causal = BlockMask::sliding_window(l, s, window(0, None, Some(0)))?;
    let first = BlockMask::global(l, s, 5)?;
    let far = BlockMask::strided(l, s, 2)?;
    // Some queries see nothing, nor are all keys seen.
    let odd = BlockMask::new(1, 1, l, s, |_, _, q, k| {
        q % 3 != 1 && q + k > 40 && (q * 31 + k * 17) % 11 < 3
    })?;
    Ok(vec![
        near.or(&first)?,
        causal.and(&far)?,
        &(&near & &far) | &first,
        far,
        odd.clone(),
        odd.and(&near)?,
        near,
    ])
}

#[test]
fn blocks_are_attention_under_the_mask() -> Result<()> {
    let plain = SparseAttentionOptions::new();
    for mask in masks(130, 200)? {
        check(
            [&[2, 2, 130, 8], &[2, 2, 200, 8], &[2, 2, 200, 12]],
            &mask,
            &plain,
        )?;
    }
    for mask in masks(64, 128)? {
        check([&[64, 16], &[128, 16], &[128, 16]], &mask, &plain)?;
    }
    Ok(())
}

#[test]
fn blocks_of_each_batch_and_head_and_shared_heads() -> Result<()> {
    let scaled = SparseAttentionOptions::new().scale(0.4);
    let grouped = scaled.clone().enable_gqa(true);
    let sees = |b: usize, h: usize, q: usize, k: usize| {
        (q / (5 + h) + k / (3 + b) + h + b).is_multiple_of(4)
    };
    for (batch, heads) in [(1, 1), (2, 1), (1, 4), (2, 4)] {
        let mask = BlockMask::new(batch, heads, 100, 90, sees)?;
        check(
            [&[2, 4, 100, 8], &[2, 4, 90, 8], &[2, 4, 90, 8]],
            &mask,
            &scaled,
        )?;
        check(
            [&[2, 4, 100, 8], &[2, 2, 90, 8], &[2, 2, 90, 4]],
            &mask,
            &grouped,
        )?;
        check(
            [&[2, 4, 100, 8], &[2, 1, 90, 8], &[2, 1, 90, 4]],
            &mask,
            &grouped,
        )?;
    }
    // Keys and values that are broadcast over the batch.
    let mask = BlockMask::new(2, 1, 100, 90, sees)?;
    check([&[2, 4, 100, 8], &[1, 4, 90, 8], &[90, 8]], &mask, &scaled)?;
    let mask = BlockMask::documents(&[30, 1, 69, 0, 40])?;
    check([&[3, 140, 8], &[3, 140, 8], &[3, 140, 40]], &mask, &scaled)
}

#[test]
fn blocks_of_operands_that_are_not_row_major() -> Result<()> {
    let mask = masks(130, 130)?.remove(0);
    let x = numbers(&[2, 130, 3, 8], 4)?;
    let heads = x.permute([0, 2, 1, 3])?;
    let options = SparseAttentionOptions::new();
    let want = by_mask(
        &[heads.clone(), heads.clone(), heads.clone()],
        &mask,
        &options,
    )?;
    let got = F::sparse_attention(&heads, &heads, &heads, &mask)?;
    assert!(most_apart(&got, &want)? < 1e-10);
    let turned = numbers(&[2, 3, 8, 130], 4)?.transpose(-2, -1)?;
    let want = by_mask(
        &[turned.clone(), turned.clone(), turned.clone()],
        &mask,
        &options,
    )?;
    let got = F::sparse_attention(&turned, &turned, &turned, &mask)?;
    assert!(most_apart(&got, &want)? < 1e-10);
    Ok(())
}

#[test]
fn blocks_have_second_derivatives() -> Result<()> {
    let mask = BlockMask::new(1, 2, 7, 9, |_, h, q, k| (q + k + h) % 3 != 0 && q != 2)?;
    let leaves = [
        numbers(&[2, 7, 4], 1)?,
        numbers(&[2, 9, 4], 2)?,
        numbers(&[2, 9, 5], 3)?,
    ];
    let second = |f: &dyn Fn(&[Tensor; 3]) -> Result<Tensor>| -> Result<Vec<Tensor>> {
        let x = leaves.clone().map(|t| t.detach().requires_grad_(true));
        let first = grad(&[f(&x)?.sin()?.sum()?], &x, &[None], true, true, false)?;
        let mut sum = Tensor::zeros([1], DType::F64, Device::Cpu)?;
        for g in first.into_iter().flatten() {
            sum = sum.add(&g.square()?.sum()?)?;
        }
        let second = grad(&[sum.sum()?], &x, &[None], false, false, false)?;
        Ok(second.into_iter().flatten().collect())
    };
    let options = SparseAttentionOptions::new();
    let got = second(&|[q, k, v]| F::sparse_attention(q, k, v, &mask))?;
    let want = second(&|x| by_mask(x, &mask, &options))?;
    assert_eq!((got.len(), want.len()), (3, 3));
    for (got, want) in got.iter().zip(&want) {
        assert!(most_apart(got, want)? < 1e-9);
    }
    Ok(())
}

#[test]
fn blocks_that_are_not_there() -> Result<()> {
    // No query sees a key: zeros, and gradients of zeros.
    let none = BlockMask::new(1, 1, 70, 80, |_, _, _, _| false)?;
    assert_eq!((none.num_blocks(), none.sparsity()), (0, 100.0));
    let leaves = [
        numbers(&[70, 8], 1)?,
        numbers(&[80, 8], 2)?,
        numbers(&[80, 8], 3)?,
    ];
    for t in run(&leaves, DType::F32, |[q, k, v]| {
        F::sparse_attention(q, k, v, &none)
    })? {
        assert_eq!(t.abs()?.max()?.item::<f32>()?, 0.0);
    }
    // No keys, no queries, no columns.
    let empty = BlockMask::new(1, 1, 3, 0, |_, _, _, _| true)?;
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, Device::Cpu);
    let y = F::sparse_attention(
        &zeros(&[2, 3, 4])?,
        &zeros(&[2, 0, 4])?,
        &zeros(&[2, 0, 5])?,
        &empty,
    )?;
    assert_eq!(y, zeros(&[2, 3, 5])?);
    let empty = BlockMask::new(1, 1, 0, 3, |_, _, _, _| true)?;
    let y = F::sparse_attention(
        &zeros(&[2, 0, 4])?,
        &zeros(&[2, 3, 4])?,
        &zeros(&[2, 3, 5])?,
        &empty,
    )?;
    assert_eq!(y.dims(), [2, 0, 5]);
    let all = BlockMask::new(1, 1, 3, 3, |_, _, _, _| true)?;
    let y = F::sparse_attention(
        &zeros(&[3, 0])?,
        &zeros(&[3, 0])?,
        &Tensor::ones([3, 2], DType::F32, Device::Cpu)?,
        &all,
    )?;
    assert!(y.allclose(&Tensor::ones([3, 2], DType::F32, Device::Cpu)?)?);
    let y = F::sparse_attention(
        &zeros(&[0, 2, 3, 4])?,
        &zeros(&[0, 2, 3, 4])?,
        &zeros(&[0, 2, 3, 4])?,
        &all,
    )?;
    assert_eq!(y.dims(), [0, 2, 3, 4]);
    Ok(())
}

#[test]
fn blocks_of_masks_are_the_masks() -> Result<()> {
    let sees = |mask: &BlockMask, f: &dyn Fn(usize, usize) -> bool| -> Result<()> {
        let [_, _, l, s] = mask.shape();
        let want: Vec<bool> = (0..l * s).map(|i| f(i / s, i % s)).collect();
        assert_eq!(
            mask.to_mask(Device::Cpu)?.to_vec::<bool>()?,
            want,
            "{mask:?}"
        );
        // The same by each query and key, and from the tensor: no block too many.
        let again = BlockMask::new(1, 1, l, s, |_, _, q, k| f(q, k))?;
        assert_eq!(again.num_blocks(), mask.num_blocks());
        let from = BlockMask::from_mask(&Tensor::from_vec(want, [l, s])?)?;
        assert_eq!(from.num_blocks(), mask.num_blocks());
        Ok(())
    };
    for (l, s) in [(200, 200), (130, 70), (64, 300), (1, 1)] {
        for past in [0, 3, 90] {
            for left in [None, Some(0), Some(10), Some(100)] {
                for right in [None, Some(0), Some(75)] {
                    let mask = BlockMask::sliding_window(l, s, window(past, left, right))?;
                    sees(&mask, &|q, k| {
                        left.is_none_or(|n| k + n >= past + q)
                            && right.is_none_or(|n| k <= past + q + n)
                    })?;
                }
            }
        }
        for n in [0, 1, 64, 65, 1000] {
            sees(&BlockMask::global(l, s, n)?, &|q, k| q < n || k < n)?;
        }
        for n in [1, 2, 3] {
            let stride = BlockMask::strided(l, s, n)?;
            sees(&stride, &|q, k| (q / 64).abs_diff(k / 64).is_multiple_of(n))?;
        }
    }
    let lengths = [64, 0, 10, 54, 1, 99];
    let document = |t: usize| {
        let ends = lengths.iter().scan(0, |end, n| {
            *end += n;
            Some(*end)
        });
        ends.filter(|&end| end <= t).count()
    };
    sees(&BlockMask::documents(&lengths)?, &|q, k| {
        document(q) == document(k)
    })?;
    let (x, y) = (
        BlockMask::documents(&lengths)?,
        BlockMask::global(228, 228, 20)?,
    );
    sees(&(&x & &y), &|q, k| {
        document(q) == document(k) && (q < 20 || k < 20)
    })?;
    sees(&(x | y), &|q, k| {
        document(q) == document(k) || q < 20 || k < 20
    })
}

#[test]
fn blocks_by_name_on_the_meta_device_and_without_gradients() -> Result<()> {
    let x = numbers(&[2, 5, 4], 1)?;
    let mask = Tensor::ones([5, 5], DType::Bool, Device::Cpu)?.tril(0)?;
    let blocks = BlockMask::from_mask(&mask)?;
    let want = no_grad(|| F::sparse_attention(&x, &x, &x, &blocks))?;
    let args = [(&x).into(), (&x).into(), (&x).into(), (&mask).into()];
    let called = torsh_tensor::ops::call("sparse_attention", &args, &[])?;
    assert_eq!(called.tensors()[0], want);
    let there = x.to_device(Device::Meta)?;
    assert_eq!(
        F::sparse_attention(&there, &there, &there, &blocks)?.dims(),
        [2, 5, 4]
    );
    Ok(())
}

#[test]
fn blocks_that_do_not_fit_are_refused() -> Result<()> {
    let zeros = |shape: &[usize]| Tensor::zeros(shape, DType::F32, Device::Cpu);
    let mask = BlockMask::documents(&[3, 4])?;
    let x = zeros(&[2, 7, 4])?;
    let refused = |r: Result<Tensor>, why: &str| {
        let message = r.expect_err(why).to_string();
        assert!(
            message.contains("sparse_attention") && message.contains(why),
            "{message}"
        );
    };
    let y = zeros(&[2, 8, 4])?;
    refused(
        F::sparse_attention(&y, &x, &x, &mask),
        "BlockMask of shape [1, 1, 7, 7]",
    );
    refused(F::sparse_attention(&x, &y, &y, &mask), "8 keys");
    refused(
        F::sparse_attention(&x, &x, &y, &mask),
        "key and value as many",
    );
    refused(
        F::sparse_attention(&x, &zeros(&[2, 7, 5])?, &x, &mask),
        "rows of one length",
    );
    refused(
        F::sparse_attention(&x, &x.to_dtype(DType::F64)?, &x, &mask),
        "same dtype",
    );
    let ints = x.to_dtype(DType::I64)?;
    refused(
        F::sparse_attention(&ints, &ints, &ints, &mask),
        "not implemented for",
    );
    refused(
        F::sparse_attention(&zeros(&[7])?, &x, &x, &mask),
        "at least 2 dimensional",
    );
    let heads = BlockMask::new(1, 3, 7, 7, |_, _, _, _| true)?;
    refused(F::sparse_attention(&x, &x, &x, &heads), "2 heads");
    let one = zeros(&[3, 7, 4])?;
    let grouped = SparseAttentionOptions::new().enable_gqa(true);
    refused(
        F::sparse_attention_with(&x, &one, &one, &mask, grouped.clone()),
        "divide the number of heads",
    );
    let flat = zeros(&[7, 4])?;
    refused(
        F::sparse_attention_with(&flat, &flat, &flat, &mask, grouped),
        "dimension of heads",
    );
    refused(F::sparse_attention(&x, &one, &one, &mask), "");
    let mistake = |r: Result<BlockMask>, why: &str| {
        let message = r.expect_err(why).to_string();
        assert!(
            message.contains("BlockMask") && message.contains(why),
            "{message}"
        );
    };
    mistake(BlockMask::strided(9, 9, 0), "a stride of 0");
    mistake(BlockMask::from_mask(&flat), "a mask of bool");
    mistake(
        BlockMask::from_mask(&zeros(&[7])?.gt(0)?),
        "[queries, keys]",
    );
    mistake(BlockMask::documents(&[usize::MAX, 2]), "no sum");
    mistake(
        BlockMask::strided(usize::MAX, usize::MAX, 1),
        "more than 4294967296 blocks",
    );
    mistake(
        mask.and(&BlockMask::documents(&[3, 5])?),
        "do not go together",
    );
    mistake(
        heads.or(&BlockMask::new(1, 2, 7, 7, |_, _, _, _| true)?),
        "do not go together",
    );
    Ok(())
}
