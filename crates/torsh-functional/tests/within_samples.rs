//! Norms, attention and bags: the kernels, at sizes of several blocks, against their formulas in
//! other ops, values and gradients.

use torsh_functional as F;
use torsh_tensor::{DType, Result, Tensor, tensor};

/// Numbers without a pattern that sums could hide.
fn numbers(shape: &[usize], seed: usize) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let value = |i: usize| ((i * 7919 + seed * 104729 + 13) % 10007) as f64 / 2500.0 - 1.9;
    Tensor::from_vec((0..n).map(value).collect::<Vec<f64>>(), shape)
}

fn leaf(shape: &[usize], seed: usize) -> Result<Tensor> {
    Ok(numbers(shape, seed)?.requires_grad_(true))
}

fn close(got: &Tensor, want: &Tensor, tolerance: f64) -> Result<()> {
    assert_eq!(got.dims(), want.dims());
    let apart = got.to_dtype(DType::F64)?.sub(&want.to_dtype(DType::F64)?)?;
    let most = apart.abs()?.max()?.item::<f64>()?;
    assert!(most <= tolerance, "{most} apart");
    Ok(())
}

/// The result of `f` and the gradients of its sum with weights, for copies of the leaves in a dtype.
fn run(
    leaves: &[Tensor],
    dtype: DType,
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<Vec<Tensor>> {
    let x: Vec<Tensor> = leaves
        .iter()
        .map(|t| Ok(t.detach().to_dtype(dtype)?.copy()?.requires_grad_(true)))
        .collect::<Result<_>>()?;
    let y = f(&x)?;
    y.mul(&numbers(y.dims(), 5)?.to_dtype(dtype)?)?
        .sum()?
        .backward()?;
    let mut all = vec![y.detach()];
    for t in &x {
        all.push(t.grad().expect("every leaf is used"));
    }
    Ok(all)
}

fn same(
    leaves: &[Tensor],
    ours: impl Fn(&[Tensor]) -> Result<Tensor>,
    formula: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<()> {
    let want = run(leaves, DType::F64, formula)?;
    for (dtype, tolerance) in [(DType::F64, 1e-11), (DType::F32, 2e-3)] {
        let got = run(leaves, dtype, &ours)?;
        for (g, w) in got.iter().zip(&want) {
            close(g, w, tolerance)?;
        }
    }
    Ok(())
}

fn normal(x: &Tensor, dims: &[i64], eps: f64) -> Result<Tensor> {
    let apart = x.sub(&x.mean_dim(dims, true)?)?;
    apart.mul(&apart.square()?.mean_dim(dims, true)?.add(eps)?.rsqrt()?)
}

#[test]
fn layer_norm_and_its_gradients() -> Result<()> {
    for (rows, n) in [(3, 5), (70, 300), (1, 4000), (2000, 20)] {
        let leaves = [leaf(&[rows, n], 1)?, leaf(&[n], 2)?, leaf(&[n], 3)?];
        let options = |x: &[Tensor]| F::LayerNormOptions::default().weight(&x[1]).bias(&x[2]);
        same(
            &leaves,
            |x| F::layer_norm_with(&x[0], [n], options(x)),
            |x| normal(&x[0], &[1], 1e-5)?.mul(&x[1])?.add(&x[2]),
        )?;
        same(
            &leaves[..1],
            |x| F::layer_norm(&x[0], [n]),
            |x| normal(&x[0], &[1], 1e-5),
        )?;
        // A permuted input is no copy that the caller makes.
        same(
            &leaves[..2],
            |x| {
                F::layer_norm_with(&x[0].t()?, [rows], F::LayerNormOptions::default().eps(0.1))?
                    .mul(&x[1].unsqueeze(1)?)
            },
            |x| normal(&x[0].t()?, &[1], 0.1)?.mul(&x[1].unsqueeze(1)?),
        )?;
    }
    Ok(())
}

#[test]
fn rows_of_one_element_have_no_gradient() -> Result<()> {
    // 1 over the square root of eps, 316, multiplies what rounding leaves of the gradient.
    let x = Tensor::from_data(&[3.7f32, -8.1, 0.2], &[3, 1])?;
    let weight = Tensor::from_data(&[-5.3f32], &[1])?;
    for t in [&x, &weight] {
        t.set_requires_grad(true)?;
    }
    let options = F::LayerNormOptions::default().weight(&weight);
    let y = F::layer_norm_with(&x, [1], options)?;
    let seed = Tensor::from_data(&[0.3f32, -1.9, 0.7], &[3, 1])?;
    y.backward_with(seed, false, false)?;
    // PyTorch 2.15 has 0, -0.0005 and 0, and 0.0002 for the weight.
    for t in [&x, &weight] {
        let grad = t.grad().expect("a gradient").to_vec::<f32>()?;
        assert!(grad.iter().all(|&g| g == 0.0), "{grad:?}");
    }
    Ok(())
}

#[test]
fn rms_norm_and_its_gradients() -> Result<()> {
    let leaves = [leaf(&[40, 3, 200], 1)?, leaf(&[3, 200], 2)?];
    same(
        &leaves,
        |x| {
            F::rms_norm_with(
                &x[0],
                [3, 200],
                F::RmsNormOptions::default().weight(&x[1]).eps(0.01),
            )
        },
        |x| {
            let square = x[0].square()?.mean_dim([1, 2], true)?;
            x[0].mul(&square.add(0.01)?.rsqrt()?)?.mul(&x[1])
        },
    )
}

#[test]
fn group_norm_and_its_gradients() -> Result<()> {
    // One element for each channel, few, and many.
    for spatial in [&[][..], &[3], &[9, 11]] {
        let (n, c, groups) = (50, 12, 4);
        let shape: Vec<usize> = [n, c].iter().chain(spatial).copied().collect();
        let leaves = [leaf(&shape, 1)?, leaf(&[c], 2)?, leaf(&[c], 3)?];
        let each: usize = spatial.iter().product();
        let options = |x: &[Tensor]| F::GroupNormOptions::default().weight(&x[1]).bias(&x[2]);
        same(
            &leaves,
            |x| F::group_norm_with(&x[0], groups as i64, options(x)),
            |x| {
                let split = x[0].reshape([n, groups, c / groups * each])?;
                let along = [1, c, 1];
                normal(&split, &[2], 1e-5)?
                    .reshape([n, c, each])?
                    .mul(&x[1].reshape(along)?)?
                    .add(&x[2].reshape(along)?)?
                    .reshape(&shape[..])
            },
        )?;
    }
    Ok(())
}

#[test]
fn instance_norm_with_and_without_running_statistics() -> Result<()> {
    let leaves = [leaf(&[3, 4, 50], 1)?, leaf(&[4], 2)?];
    let own = |x: &[Tensor]| F::InstanceNormOptions::default().weight(&x[1]);
    let formula = |x: &[Tensor]| normal(&x[0], &[2], 1e-5)?.mul(&x[1].reshape([1, 4, 1])?);
    same(&leaves, |x| F::instance_norm_with(&x[0], own(x)), formula)?;
    // With them the results are the same, and they move.
    let x = numbers(&[3, 4, 50], 1)?;
    let (mean, var) = (
        tensor![1.0, 1.0, 1.0, 1.0].to_dtype(DType::F64)?,
        numbers(&[4], 4)?.abs()?,
    );
    let (moved_mean, moved_var) = (mean.copy()?, var.copy()?);
    let options = F::InstanceNormOptions::default()
        .running_mean(&moved_mean)
        .running_var(&moved_var)
        .momentum(0.25);
    close(
        &F::instance_norm_with(&x, options)?,
        &F::instance_norm(&x)?,
        1e-11,
    )?;
    let new = x.mean_dim(2, false)?.mean_dim(0, false)?;
    close(&moved_mean, &mean.mul(0.75)?.add(&new.mul(0.25)?)?, 1e-12)?;
    let new = x.var_dim(2, false)?.mean_dim(0, false)?;
    close(&moved_var, &var.mul(0.75)?.add(&new.mul(0.25)?)?, 1e-12)
}

#[test]
fn the_half_types_compute_in_float32() -> Result<()> {
    for (dtype, tolerance) in [(DType::BF16, 0.02), (DType::F16, 0.002)] {
        let x = numbers(&[20, 100], 1)?.to_dtype(dtype)?;
        let wide = x.to_dtype(DType::F32)?;
        close(
            &F::layer_norm(&x, [100])?,
            &F::layer_norm(&wide, [100])?,
            tolerance,
        )?;
        close(
            &F::rms_norm(&x, [100])?,
            &F::rms_norm(&wide, [100])?,
            tolerance,
        )?;
        let (q, w) = (x.reshape([2, 10, 100])?, wide.reshape([2, 10, 100])?);
        let (got, want) = (
            F::scaled_dot_product_attention(&q, &q, &q)?,
            F::scaled_dot_product_attention(&w, &w, &w)?,
        );
        assert_eq!(got.dtype(), dtype);
        close(&got, &want, tolerance)?;
    }
    Ok(())
}

#[test]
fn attention_with_masks() -> Result<()> {
    let leaves = [
        leaf(&[2, 3, 4], 1)?,
        leaf(&[2, 5, 4], 2)?,
        leaf(&[2, 5, 6], 3)?,
    ];
    let keys: Vec<bool> = (0..15)
        .map(|i| i % 4 != 1 && !(5..10).contains(&i))
        .collect();
    let mask = Tensor::from_vec(keys, [3, 5])?;
    let options = F::ScaledDotProductAttentionOptions::default().attn_mask(&mask);
    same(
        &leaves,
        |x| F::scaled_dot_product_attention_with(&x[0], &x[1], &x[2], options.clone()),
        |x| {
            let products = x[0].matmul(&x[1].transpose(1, 2)?)?.mul(0.5)?;
            let shares = products.exp()?.mul(&mask.to_dtype(DType::F64)?)?;
            // A query that sees no key has the result 0.
            let sum = shares.sum_dim(2, true)?;
            let sum = sum.add(&sum.eq(0.0)?.to_dtype(DType::F64)?)?;
            shares.div(&sum)?.matmul(&x[2])
        },
    )?;
    // A causal mask is a triangle of trues, and the same as minus infinity added.
    let triangle = Tensor::ones([3, 5], DType::Bool, torsh_tensor::Device::Cpu)?.tril(0)?;
    let added = Tensor::where_(&triangle, 0.0, f64::NEG_INFINITY)?;
    let with = |o: F::ScaledDotProductAttentionOptions| {
        let [q, k, v] = [&leaves[0], &leaves[1], &leaves[2]].map(|t| t.to_dtype(DType::F32));
        F::scaled_dot_product_attention_with(&q?, &k?, &v?, o)
    };
    let plain = F::ScaledDotProductAttentionOptions::default;
    let causal = with(plain().is_causal(true))?;
    assert_eq!(causal, with(plain().attn_mask(&triangle))?);
    assert_eq!(causal, with(plain().attn_mask(&added))?);
    Ok(())
}

#[test]
fn attention_shares_heads() -> Result<()> {
    let (q, k) = (numbers(&[2, 6, 3, 4], 1)?, numbers(&[2, 2, 5, 4], 2)?);
    let options = F::ScaledDotProductAttentionOptions::default().enable_gqa(true);
    let got = F::scaled_dot_product_attention_with(&q, &k, &k, options.clone())?;
    for head in 0..6 {
        let (q, k) = (q.select(1, head)?, k.select(1, head / 3)?);
        close(
            &got.select(1, head)?,
            &F::scaled_dot_product_attention(&q, &k, &k)?,
            1e-12,
        )?;
    }
    let odd = numbers(&[2, 4, 5, 4], 2)?;
    assert!(F::scaled_dot_product_attention_with(&q, &odd, &odd, options).is_err());
    Ok(())
}

#[test]
fn bags_are_reductions_of_gathered_rows() -> Result<()> {
    let n = 300;
    let indices: Vec<i64> = (0..n).map(|i| (i * i + 3 * i) % 41).collect();
    let starts = [0i64, 4, 4, 150, 299];
    let input = Tensor::from_vec(indices, n as usize)?;
    let offsets = Tensor::from_vec(starts.to_vec(), 5)?;
    let ends = [4, 4, 150, 299, n];
    let leaves = [leaf(&[41, 70], 1)?, leaf(&[n as usize], 2)?];
    let base = F::EmbeddingBagOptions::default()
        .offsets(&offsets)
        .padding_idx(4);
    let formula = |x: &[Tensor], mode: F::EmbeddingBagMode| {
        let mut bags = Vec::new();
        for (start, end) in starts.into_iter().zip(ends) {
            let of = input.narrow(0, start, (end - start) as usize)?;
            let kept = of.ne(4)?;
            let mut rows = F::embedding(&of.masked_select(&kept)?, &x[0])?;
            if let Some(factors) = x.get(1) {
                let factors = factors.narrow(0, start, (end - start) as usize)?;
                rows = rows.mul(&factors.masked_select(&kept)?.unsqueeze(1)?)?;
            }
            bags.push(match (mode, rows.dims()[0]) {
                (_, 0) => Tensor::zeros(70, DType::F64, torsh_tensor::Device::Cpu)?,
                (F::EmbeddingBagMode::Sum, _) => rows.sum_dim(0, false)?,
                (F::EmbeddingBagMode::Mean, _) => rows.mean_dim(0, false)?,
                (F::EmbeddingBagMode::Max, _) => rows.max_dim(0, false)?.0,
                (other, _) => panic!("{other:?} has no sample"),
            });
        }
        Tensor::stack(&bags, 0)
    };
    for mode in [
        F::EmbeddingBagMode::Sum,
        F::EmbeddingBagMode::Mean,
        F::EmbeddingBagMode::Max,
    ] {
        let options = || base.clone().mode(mode);
        let bag = |x: &[Tensor]| F::embedding_bag_with(&input, &x[0], options());
        same(&leaves[..1], bag, |x| formula(x, mode))?;
    }
    let sum = || base.clone().mode(F::EmbeddingBagMode::Sum);
    same(
        &leaves,
        |x| F::embedding_bag_with(&input, &x[0], sum().per_sample_weights(&x[1])),
        |x| formula(x, F::EmbeddingBagMode::Sum),
    )?;
    // int32 indices, a transposed weight, and an end behind which indices do not count.
    let weight = numbers(&[70, 41], 1)?.t()?;
    let short = input.to_dtype(DType::I32)?;
    let options = F::EmbeddingBagOptions::default()
        .offsets(&offsets.to_dtype(DType::I32)?)
        .include_last_offset(true);
    let got = F::embedding_bag_with(&short, &weight, options)?;
    assert_eq!(got.dims(), [4, 70]);
    let rows = F::embedding(&input.narrow(0, 150, 149)?, &weight)?;
    close(&got.select(0, 3)?, &rows.mean_dim(0, false)?, 1e-12)
}

#[test]
fn bags_refuse_what_is_outside() -> Result<()> {
    let weight = numbers(&[3, 2], 1)?;
    let with = |input: Tensor, offsets: Tensor| {
        let options = F::EmbeddingBagOptions::default().offsets(&offsets);
        let e = F::embedding_bag_with(&input, &weight, options).expect_err("a refusal");
        e.to_string()
    };
    let text = with(tensor![0, 3], tensor![0]);
    assert!(
        text.contains("index 3 is out of bounds for dimension 0 with size 3"),
        "{text}"
    );
    let text = with(tensor![0, -1], tensor![0]);
    assert!(text.contains("index -1 is out of bounds"), "{text}");
    assert!(with(tensor![0, 1], tensor![1]).contains("offsets[0] has to be 0"));
    assert!(with(tensor![0, 1], tensor![0, 5]).contains("can not be greater than input's length"));
    assert!(with(tensor![0, 1], tensor![0, 2, 1]).contains("must not decrease"));
    Ok(())
}
