//! `unique` and `unique_consecutive` against PyTorch's results.

use torsh_tensor::{
    DType, Device, Result, Tensor, TorshError, Unique, UniqueConsecutiveOptions, UniqueOptions,
};

fn all() -> UniqueOptions {
    UniqueOptions::default()
        .return_inverse(true)
        .return_counts(true)
}

fn ints(t: &Option<Tensor>) -> Result<Vec<i64>> {
    t.as_ref().expect("asked for").to_vec::<i64>()
}

fn check(u: &Unique, values: &[f32], inverse: &[i64], counts: &[i64]) -> Result<()> {
    assert_eq!(u.values.to_vec::<f32>()?, values);
    assert_eq!(ints(&u.inverse)?, inverse);
    assert_eq!(ints(&u.counts)?, counts);
    Ok(())
}

#[test]
fn elements_are_sorted_and_placed() -> Result<()> {
    let x = Tensor::from_data(&[3.0f32, 1.0, 3.0, 0.0, -0.0, 1.0], &[2, 3])?;
    let u = x.unique_with(all())?;
    check(&u, &[0.0, 1.0, 3.0], &[2, 1, 2, 0, 0, 1], &[2, 2, 2])?;
    assert_eq!(u.inverse.expect("asked for").dims(), [2, 3]);
    let only = x.unique_with(UniqueOptions::default())?;
    assert!(only.inverse.is_none() && only.counts.is_none());
    check(
        &x.t()?.unique_with(all())?,
        &[0.0, 1.0, 3.0],
        &[2, 0, 1, 0, 2, 1],
        &[2, 2, 2],
    )
}

#[test]
fn a_tensor_without_data_is_refused() -> Result<()> {
    let x = Tensor::zeros([2i64, 1i64 << 40], DType::U8, Device::Meta)?;
    for e in [
        x.unique_with(all().dim(0)).err(),
        x.unique_consecutive().err(),
    ] {
        let e = e.expect("nobody knows how many there are").to_string();
        assert!(
            e.starts_with("unique") && e.contains("a meta tensor"),
            "{e}"
        );
    }
    Ok(())
}

#[test]
fn every_nan_is_distinct() -> Result<()> {
    let x = Tensor::from_data(&[f32::NAN, 1.0, f32::NAN], &[3])?;
    let u = x.unique_with(all())?;
    assert_eq!(u.values.dims(), [3]);
    assert_eq!(u.values.to_vec::<f32>()?[0], 1.0);
    assert_eq!(ints(&u.inverse)?, [1, 0, 2]);
    assert_eq!(ints(&u.counts)?, [1, 1, 1]);
    assert_eq!(x.unique_consecutive()?.dims(), [3]);
    Ok(())
}

#[test]
fn slices_are_in_lexicographic_order() -> Result<()> {
    let x = Tensor::from_data(&[2.0f32, 1.0, 0.0, 9.0, 2.0, 1.0, 0.0, 7.0], &[4, 2])?;
    let rows = x.unique_with(all().dim(0))?;
    assert_eq!(rows.values.dims(), [3, 2]);
    check(
        &rows,
        &[0.0, 7.0, 0.0, 9.0, 2.0, 1.0],
        &[2, 1, 2, 0],
        &[1, 1, 2],
    )?;
    let columns = x.t()?.unique_with(all().dim(-1))?;
    assert_eq!(columns.values.dims(), [2, 3]);
    check(
        &columns,
        &[0.0, 0.0, 2.0, 7.0, 9.0, 1.0],
        &[2, 1, 2, 0],
        &[1, 1, 2],
    )
}

#[test]
fn runs_keep_their_order() -> Result<()> {
    let x = Tensor::from_data(&[1.0f32, 1.0, 2.0, 2.0, 1.0, 1.0], &[6])?;
    let options = UniqueConsecutiveOptions::default()
        .return_inverse(true)
        .return_counts(true);
    let u = x.unique_consecutive_with(options)?;
    check(&u, &[1.0, 2.0, 1.0], &[0, 0, 1, 1, 2, 2], &[2, 2, 2])?;
    let pairs = x.reshape([3, 2])?;
    let u = pairs.unique_consecutive_with(options.dim(0))?;
    check(&u, &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0], &[0, 1, 2], &[1, 1, 1])?;
    let u = pairs.unique_consecutive_with(options.dim(1))?;
    check(&u, &[1.0, 2.0, 1.0], &[0, 0], &[2])
}

#[test]
fn nothing_and_single_elements() -> Result<()> {
    let none = Tensor::zeros([0], DType::F32, Device::Cpu)?;
    check(&none.unique_with(all())?, &[], &[], &[])?;
    let one = Tensor::full([0usize; 0], 5.0, DType::F32, Device::Cpu)?;
    let u = one.unique_with(all())?;
    assert_eq!(u.inverse.as_ref().expect("asked for").ndim(), 0);
    check(&u, &[5.0], &[0], &[1])?;
    let empty = Tensor::zeros([5, 0, 5], DType::F32, Device::Cpu)?;
    let u = empty.unique_with(all().dim(1))?;
    assert_eq!(u.values.dims(), [5, 0, 5]);
    check(&u, &[], &[], &[])
}

#[test]
fn refused() -> Result<()> {
    let refuse = |r: Result<Unique>, text: &str| {
        let e: TorshError = r.expect_err("refused");
        let e = e.to_string();
        assert!(e.contains(text), "{e}");
    };
    let empty = Tensor::zeros([2, 0, 3], DType::F32, Device::Cpu)?;
    refuse(empty.unique_with(all().dim(0)), "must not be empty");
    let one = Tensor::full([0usize; 0], 5.0, DType::F32, Device::Cpu)?;
    refuse(one.unique_with(all().dim(0)), "no dimensions");
    let complex = Tensor::zeros([2], DType::C64, Device::Cpu)?;
    refuse(complex.unique_with(all()), "unique");
    Ok(())
}

/// Against a count by a map of many numbers, which several threads sort.
#[test]
fn many() -> Result<()> {
    let data: Vec<i64> = (0..100_000).map(|i: i64| i * 7919 % 1009 - 500).collect();
    let mut counts = std::collections::BTreeMap::new();
    for v in &data {
        *counts.entry(*v).or_insert(0i64) += 1;
    }
    let x = Tensor::from_data(&data, &[data.len()])?;
    let u = x.unique_with(all())?;
    assert_eq!(
        u.values.to_vec::<i64>()?,
        counts.keys().copied().collect::<Vec<_>>()
    );
    assert_eq!(
        ints(&u.counts)?,
        counts.values().copied().collect::<Vec<_>>()
    );
    let back = u
        .values
        .index_select(0, u.inverse.as_ref().expect("asked for"))?;
    assert!(back.equal(&x)?);
    Ok(())
}
