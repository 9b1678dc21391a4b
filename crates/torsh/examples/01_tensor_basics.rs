//! Tutorial 1: tensors.
//!
//! ```text
//! cargo run -p torsh --example 01_tensor_basics
//! ```

use torsh::prelude::*;

fn main() -> Result<()> {
    creation()?;
    shapes_and_indices()?;
    arithmetic()?;
    reductions()?;
    views_and_copies()?;
    dtypes()?;
    mistakes()
}

/// From values, from a rule, from random numbers.
fn creation() -> Result<()> {
    println!("== Creation");
    let a = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
    println!("{a}");
    assert_eq!(a.dims(), [2, 3]);
    assert_eq!(a.dtype(), DType::F32);

    // Integers give int64, as in PyTorch.
    assert_eq!(tensor![1, 2].dtype(), DType::I64);
    assert_eq!(zeros(&[2, 2]).to_vec::<f32>()?, [0.0; 4]);
    assert_eq!(arange(0, 10, 3).to_vec::<i64>()?, [0, 3, 6, 9]);
    assert_eq!(linspace(0.0, 1.0, 3).to_vec::<f32>()?, [0.0, 0.5, 1.0]);
    assert_eq!(eye(2).to_vec2::<f32>()?, [[1.0, 0.0], [0.0, 1.0]]);

    // The same seed gives the numbers that PyTorch draws.
    manual_seed(0);
    println!("{}", randn(&[3]));
    manual_seed(0);
    let first = rand(&[1]).item::<f32>()?;
    assert_eq!(first, 0.496_256_6);
    Ok(())
}

fn shapes_and_indices() -> Result<()> {
    println!("== Shapes and indices");
    let a = arange(0, 12, 1).reshape([3, 4])?;
    println!("{a}");
    assert_eq!(a.i((1, 2))?.item::<i64>()?, 6);
    assert_eq!(a.i(-1)?.to_vec::<i64>()?, [8, 9, 10, 11]);
    assert_eq!(
        a.i((.., 1..3))?.to_vec2::<i64>()?,
        [[1, 2], [5, 6], [9, 10]]
    );
    assert_eq!(a.i((s(0, 3, 2), 0))?.to_vec::<i64>()?, [0, 8]);
    let mask = a.gt(8)?;
    assert_eq!(a.i(&mask)?.to_vec::<i64>()?, [9, 10, 11]);

    assert_eq!(a.t()?.dims(), [4, 3]);
    assert_eq!(a.reshape([2, -1])?.dims(), [2, 6]);
    assert_eq!(a.unsqueeze(0)?.dims(), [1, 3, 4]);
    assert_eq!(a.flatten(0)?.dims(), [12]);
    assert_eq!(cat(&[&a, &a], 1)?.dims(), [3, 8]);
    assert_eq!(stack(&[&a, &a], 0)?.dims(), [2, 3, 4]);
    Ok(())
}

fn arithmetic() -> Result<()> {
    println!("== Arithmetic");
    let a = tensor![1.0, 2.0, 3.0];
    let b = tensor![10.0, 20.0, 30.0];
    // A method says what went wrong in a Result; an operator panics with the same text.
    assert_eq!(a.add(&b)?, &a + &b);
    assert_eq!((&b / &a).to_vec::<f32>()?, [10.0, 10.0, 10.0]);
    assert_eq!((&a * 2.0 - 1.0).to_vec::<f32>()?, [1.0, 3.0, 5.0]);
    assert_eq!(a.pow(2.0)?.to_vec::<f32>()?, [1.0, 4.0, 9.0]);

    // Sizes of 1 are repeated: a column and a row make a table.
    let table = a.unsqueeze(1)?.mul(&b)?;
    println!("{table}");
    assert_eq!(table.i((2, 1))?.item::<f32>()?, 60.0);

    let m = tensor![[1.0, 2.0], [3.0, 4.0]];
    assert_eq!(m.matmul(&m)?.to_vec2::<f32>()?, [[7.0, 10.0], [15.0, 22.0]]);
    Ok(())
}

fn reductions() -> Result<()> {
    println!("== Reductions");
    let a = tensor![[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]];
    assert_eq!(a.sum()?.item::<f32>()?, 21.0);
    assert_eq!(a.mean_dim(1, false)?.to_vec::<f32>()?, [3.0, 4.0]);
    let (values, places) = a.max_dim(1, false)?;
    assert_eq!(values.to_vec::<f32>()?, [5.0, 6.0]);
    assert_eq!(places.to_vec::<i64>()?, [1, 2]);
    println!("mean {}, std {}", a.mean()?, a.std()?);
    Ok(())
}

fn views_and_copies() -> Result<()> {
    println!("== Views and copies");
    let a = zeros(&[2, 3]);
    // A row is a view: what is written to it is in the tensor.
    a.i(0)?.add_(7.0)?;
    assert_eq!(a.to_vec2::<f32>()?, [[7.0, 7.0, 7.0], [0.0, 0.0, 0.0]]);
    // A clone is the same tensor under another name; a copy is another tensor.
    let (same, other) = (a.clone(), a.copy()?);
    a.fill_(1.0)?;
    assert_eq!(same.sum()?.item::<f32>()?, 6.0);
    assert_eq!(other.sum()?.item::<f32>()?, 21.0);
    Ok(())
}

fn dtypes() -> Result<()> {
    println!("== Dtypes");
    let (ints, floats) = (tensor![1, 2, 3], tensor![0.5, 0.5, 0.5]);
    assert_eq!((&ints + &floats).dtype(), DType::F32);
    assert_eq!((&ints / 2).to_vec::<f32>()?, [0.5, 1.0, 1.5]);
    assert_eq!(ints.to_dtype(DType::F64)?.dtype(), DType::F64);
    assert_eq!(format!("{}", ints.dtype()), "int64");
    Ok(())
}

/// What goes wrong says what and why.
fn mistakes() -> Result<()> {
    println!("== Mistakes");
    let Err(e) = zeros(&[2, 3]).add(zeros(&[3, 4])) else {
        return Err(TorshError::Other("these shapes do not fit".into()));
    };
    println!("{e}");
    assert!(e.to_string().contains("[2, 3]") && e.to_string().contains("[3, 4]"));
    let e = zeros(&[2]).i(5).map(|_| ()).unwrap_err();
    println!("{e}");
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
