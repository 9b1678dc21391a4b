//! Views, splits, joins and padding: values, gradients, and the rules of views that come several
//! at once.

use torsh_tensor::{
    DType, Device, DiagonalOptions, PadOptions, Result, Tensor, Value, arange, no_grad, ops,
    tensor, zeros,
};

fn grid(rows: i64, cols: i64) -> Tensor {
    arange(0, rows * cols, 1).reshape((rows, cols)).unwrap()
}

#[test]
fn splits_are_views() -> Result<()> {
    let x = grid(2, 6);
    for (i, part) in x.chunk(3, 1)?.iter().enumerate() {
        assert!(part.shares_storage(&x));
        let first = 2 * i as i64;
        assert_eq!(part, &tensor![[first, first + 1], [first + 6, first + 7]]);
    }
    let sizes: Vec<usize> = x.tensor_split(4, 1)?.iter().map(|p| p.dims()[1]).collect();
    assert_eq!(sizes, [2, 2, 1, 1]);
    let sizes: Vec<usize> = x.split(4, -1)?.iter().map(|p| p.dims()[1]).collect();
    assert_eq!(sizes, [4, 2]);
    assert_eq!(x.tensor_split_at([1, 5], 1)?[1].dims(), [2, 4]);
    assert!(x.split_with_sizes([1, 2], 1).is_err());
    assert_eq!(x.unbind(0)?[1], arange(6, 12, 1));
    assert_eq!(x.iter()?.count(), 2);
    assert!(tensor![1].select(0, 0)?.iter().is_err());
    Ok(())
}

#[test]
fn parts_have_one_node_whose_gradient_is_put_together() -> Result<()> {
    let x = zeros(5).requires_grad_(true);
    let parts = x.split(2, 0)?;
    let node = |t: &Tensor| t.grad_fn().map(|n| format!("{n:?}"));
    assert_eq!(node(&parts[0]).as_deref(), Some("<SplitBackward0>"));
    // The middle part has no gradient at all.
    (&parts[0] * 2.0)
        .sum()?
        .add((&parts[2] * 3.0).sum()?)?
        .backward()?;
    assert_eq!(x.grad(), Some(tensor![2.0, 2.0, 0.0, 0.0, 3.0]));
    Ok(())
}

#[test]
fn writing_into_one_of_several_views_is_refused_while_recording() -> Result<()> {
    let x = zeros(4).requires_grad_(true);
    let y = &x * 1.0;
    let parts = y.chunk(2, 0)?;
    let e = parts[0].add_(1.0).unwrap_err().to_string();
    assert!(e.contains("one of several outputs"), "{e}");
    // Without gradients there is nothing to get wrong.
    let plain = zeros(4);
    plain.chunk(2, 0)?[1].add_(1.0)?;
    assert_eq!(plain, tensor![0.0, 0.0, 1.0, 1.0]);
    no_grad(|| parts[0].add_(1.0).map(|_| ()))?;
    Ok(())
}

#[test]
fn diagonals_and_windows_are_views_with_gradients() -> Result<()> {
    let x = zeros((3, 3));
    x.diagonal_with(DiagonalOptions::new().offset(1))?
        .fill_(5)?;
    assert_eq!(
        x,
        tensor![[0.0, 5.0, 0.0], [0.0, 0.0, 5.0], [0.0, 0.0, 0.0]]
    );
    let x = tensor![1.0, 2.0, 3.0, 4.0].requires_grad_(true);
    let windows = x.unfold(0, 3, 1)?;
    assert_eq!(windows.detach(), tensor![[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]);
    (&windows * &tensor![[1.0, 10.0, 100.0]])
        .sum()?
        .backward()?;
    assert_eq!(x.grad(), Some(tensor![1.0, 11.0, 110.0, 100.0]));
    Ok(())
}

#[test]
fn joins_promote_and_leave_out_empty_vectors() -> Result<()> {
    let (a, b) = (tensor![[1, 2]], tensor![[0.5, 1.5]]);
    let both = Tensor::cat(&[&a, &b], 0)?;
    assert_eq!(both, tensor![[1.0, 2.0], [0.5, 1.5]]);
    assert_eq!(Tensor::cat(&[&tensor![], &b], 1)?, b);
    assert_eq!(Tensor::hstack(&[tensor![1], tensor![2]])?, tensor![1, 2]);
    assert_eq!(
        Tensor::vstack(&[tensor![1], tensor![2]])?,
        tensor![[1], [2]]
    );
    assert_eq!(
        Tensor::dstack(&[tensor![1], tensor![2]])?,
        tensor![[[1, 2]]]
    );
    assert_eq!(
        Tensor::column_stack(&[tensor![1, 2], tensor![3, 4]])?,
        tensor![[1, 3], [2, 4]]
    );
    let e = Tensor::cat(&[grid(2, 2), grid(3, 3)], 0)
        .unwrap_err()
        .to_string();
    assert!(
        e.starts_with("cat: Sizes of tensors must match except in dimension 0"),
        "{e}"
    );
    Ok(())
}

#[test]
fn more_operands_than_bits_of_a_mask() -> Result<()> {
    let leaves: Vec<Tensor> = (0..100)
        .map(|i| tensor![f64::from(i)].requires_grad_(true))
        .collect();
    let all = Tensor::cat(&leaves, 0)?;
    (&all * &all).sum()?.backward()?;
    for (i, leaf) in leaves.iter().enumerate() {
        assert_eq!(leaf.grad(), Some(tensor![2.0 * i as f64]), "{i}");
    }
    let x = zeros(80).requires_grad_(true);
    let parts = x.unbind(0)?;
    (&parts[79] * 3.0 + &parts[64] * 2.0).backward()?;
    let g = x.grad().unwrap();
    assert_eq!(
        (
            g.select(0, 79)?.item::<f32>()?,
            g.select(0, 64)?.item::<f32>()?,
            g.sum()?.item::<f32>()?
        ),
        (3.0, 2.0, 5.0)
    );
    Ok(())
}

#[test]
fn grids_and_repeats() -> Result<()> {
    let xy = Tensor::meshgrid(&[tensor![1, 2, 3], tensor![4, 5]], "xy")?;
    assert_eq!(
        xy,
        [tensor![[1, 2, 3], [1, 2, 3]], tensor![[4, 4, 4], [5, 5, 5]]]
    );
    assert_eq!(
        Tensor::cartesian_prod(&[tensor![1, 2], tensor![3, 4]])?,
        tensor![[1, 3], [1, 4], [2, 3], [2, 4]]
    );
    assert_eq!(
        tensor![[1, 2]].repeat((2, 1, 2))?,
        tensor![[[1, 2, 1, 2]], [[1, 2, 1, 2]]]
    );
    assert_eq!(tensor![[1], [2]].tile(2)?, tensor![[1, 1], [2, 2]]);
    assert_eq!(tensor![1, 2].repeat((0, 2))?.dims(), [0, 4]);
    assert!(tensor![[1]].repeat(2).is_err());
    Ok(())
}

#[test]
fn padding_in_every_mode() -> Result<()> {
    let x = tensor![[1, 2, 3]];
    assert_eq!(
        x.pad([1, 1, 0, 1])?,
        tensor![[0, 1, 2, 3, 0], [0, 0, 0, 0, 0]]
    );
    assert_eq!(x.pad([-1, 2])?, tensor![[2, 3, 0, 0]]);
    assert_eq!(
        x.pad_with([2, 1], PadOptions::new().mode("reflect"))?,
        tensor![[3, 2, 1, 2, 3, 2]]
    );
    assert_eq!(
        x.pad_with([2, 1], PadOptions::new().mode("replicate"))?,
        tensor![[1, 1, 1, 2, 3, 3]]
    );
    assert_eq!(
        x.pad_with([2, 1], PadOptions::new().mode("circular"))?,
        tensor![[2, 3, 1, 2, 3, 1]]
    );
    assert_eq!(
        x.pad_with([-1, 1], PadOptions::new().mode("circular"))?,
        tensor![[2, 3, 2]]
    );
    assert!(
        x.pad_with([3, 0], PadOptions::new().mode("reflect"))
            .is_err()
    );
    assert!(x.pad([1]).is_err());
    Ok(())
}

#[test]
fn numbers_and_tensors_as_limits() -> Result<()> {
    let x = tensor![-2, 0, 3];
    assert_eq!(x.clamp(-1, 1)?, tensor![-1, 0, 1]);
    assert_eq!(x.clamp(0.5, None)?, tensor![0.5, 0.5, 3.0]);
    assert_eq!(x.clamp(None, tensor![-3, 1, 1])?, tensor![-3, 0, 1]);
    assert!(x.clamp(None, None).is_err());
    x.clamp_(0, 2)?;
    assert_eq!(x, tensor![0, 0, 2]);
    assert!(x.clamp_(0.5, None).is_err());
    Ok(())
}

#[test]
fn views_of_other_dtypes() -> Result<()> {
    let x = tensor![1.0, -2.0];
    let bits = x.view_dtype(DType::I32)?;
    assert_eq!(bits.to_vec::<i32>()?, [0x3f80_0000, 0xc000_0000_u32 as i32]);
    assert_eq!(x.view_dtype(DType::F64)?.dims(), [1]);
    assert_eq!(x.view_dtype(DType::U8)?.dims(), [8]);
    assert!(tensor![1.0].view_dtype(DType::F64).is_err());
    Ok(())
}

#[test]
fn calls_by_name_read_python_arguments() -> Result<()> {
    let x = Value::from(grid(2, 3).to_dtype(DType::F32)?);
    let one = |name: &str, args: &[Value], kwargs: &[(&str, Value)]| {
        ops::call(name, args, kwargs).map(|v| v.tensors().remove(0))
    };
    assert_eq!(
        one("permute", &[x.clone(), 1i64.into(), 0i64.into()], &[])?.dims(),
        [3, 2]
    );
    assert_eq!(
        ops::call(
            "split",
            &[x.clone(), vec![1i64, 2].into()],
            &[("dim", 1i64.into())]
        )?
        .tensors()
        .len(),
        2
    );
    assert_eq!(
        ops::call(
            "meshgrid",
            &[tensor![1, 2].into(), tensor![3].into()],
            &[("indexing", "ij".into())]
        )?
        .tensors()
        .len(),
        2
    );
    assert_eq!(
        one("clip", &[x.clone()], &[("max", 1i64.into())])?.to_vec::<f32>()?,
        [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    );
    assert_eq!(
        one("add", &[2i64.into(), 3i64.into()], &[])?.item::<i64>()?,
        5
    );
    assert!(one("pow", &[2i64.into(), 3i64.into()], &[]).is_err());
    assert!(one("exp", &[2i64.into()], &[]).is_err());
    let y = Tensor::zeros(3, DType::F32, Device::Cpu)?.sub(1.0)?;
    let out = one(
        "nn.functional.relu",
        &[(&y).into()],
        &[("inplace", true.into())],
    )?;
    assert!(out.is_same(&y) && y == zeros(3));
    Ok(())
}

#[test]
fn none_stands_for_all_dimensions() -> Result<()> {
    let x = zeros((1, 2, 1));
    assert_eq!(x.squeeze(None)?.dims(), [2]);
    assert_eq!(x.squeeze(0)?.dims(), [2, 1]);
    assert_eq!(x.squeeze(Some(-1))?.dims(), [1, 2]);
    Ok(())
}

#[test]
fn a_tensor_without_elements_may_start_past_its_storage() -> Result<()> {
    let x = zeros((0, 3));
    for t in [x.select(1, 2)?, x.narrow(1, 2, 1)?] {
        assert_eq!(t.storage_offset(), 2);
        assert_eq!(t.to_vec::<f32>()?, Vec::<f32>::new());
        assert_eq!(t.to_bytes()?, Vec::<u8>::new());
        assert!(t.to_string().starts_with("tensor([]"), "{t}");
        assert!(t.copy()?.equal(&t)?);
        assert_eq!(t.sum()?.item::<f32>()?, 0.0);
        assert_eq!(Tensor::stack(&[&t, &t], 0)?.to_bytes()?, Vec::<u8>::new());
    }
    let positions = zeros((2, 3)).nonzero_as_tuple()?;
    assert_eq!(positions[1].to_vec::<i64>()?, Vec::<i64>::new());
    Ok(())
}

#[test]
fn tensordot_refuses_dimensions_of_a_number() {
    let e = zeros((3, 0))
        .tensordot(&zeros(()), &[1], &[0])
        .expect_err("a number has no dimensions")
        .to_string();
    assert!(
        e.contains("dimension specified as 0, but the tensor has no dimensions"),
        "{e}"
    );
}
