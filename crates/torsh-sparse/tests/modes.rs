//! Sparse tensors in the modes of a thread: without recording, in autocast regions, under observers.

use std::cell::RefCell;
use std::rc::Rc;

use torsh_sparse::{self as sparse, SparseExt};
use torsh_tensor::{
    DType, Device, Result, Tensor, TensorLayout, autocast_with, detect_anomaly, inference_mode,
    no_grad, observe, tensor,
};

use crate::common::{Kind, dense, matrices, sampler};

type Function = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// Ops of a sparse matrix of two rows and three columns, and a strided one of three rows.
const OPS: [(&str, Function); 12] = [
    ("neg", |x, _| x.neg()),
    ("mul", |x, _| x.mul(2.5)),
    ("add", |x, _| x.add(x)),
    ("sum", |x, _| x.sum()),
    ("softmax", |x, _| sparse::softmax(x, 1)),
    ("t", |x, _| x.t()),
    ("select", |x, _| x.select(0, 1)),
    ("cat", |x, _| Tensor::cat(&[x, x], 0)),
    ("to_dense", |x, _| x.to_dense()),
    ("clone", |x, _| x.copy()),
    ("matmul", |x, d| x.matmul(d)),
    ("sparse.mm", |x, d| sparse::mm(x, d)),
];

fn operands(kind: &Kind) -> Result<(Tensor, Tensor)> {
    let mut s = sampler();
    Ok((kind.tensor(&mut s, false)?, s.real(&[3, 2])?))
}

#[test]
fn nothing_is_recorded_where_nothing_is_to_be() -> Result<()> {
    for kind in matrices()? {
        let (x, d) = operands(&kind)?;
        let (a, b) = (
            x.detach().requires_grad_(true),
            d.detach().requires_grad_(true),
        );
        for (op, f) in OPS {
            let what = format!("{op} of {kind:?}");
            let y = f(&a, &b)?;
            assert!(y.requires_grad(), "{what}");
            let z = no_grad(|| f(&a, &b))?;
            assert!(!z.requires_grad() && z.is_leaf(), "{what}");
            assert_eq!((z.layout(), z.dtype()), (y.layout(), y.dtype()), "{what}");
            assert!(dense(&z)?.allclose(&dense(&y.detach())?)?, "{what}");
            let z = inference_mode(|| f(&x, &d))?;
            assert!(!z.requires_grad(), "{what}");
            assert!(dense(&z)?.allclose(&dense(&y.detach())?)?, "{what}");
        }
        // What requires a gradient may be written where nothing is recorded.
        let before = dense(&x)?;
        no_grad(|| a.mul_(2.0))?;
        assert!(a.requires_grad() && a.is_leaf());
        assert!(dense(&x)?.allclose(&before.mul(2.0)?)?, "{kind:?}");
        assert!(a.mul_(2.0).is_err(), "a leaf is written while recording");
    }
    Ok(())
}

#[test]
fn what_is_kept_with_a_pattern_serves_all_modes() -> Result<()> {
    for kind in matrices()? {
        let (x, d) = operands(&kind)?;
        // The first use of the indices is in inference mode, the next ones are recorded.
        let (y, z) = inference_mode(|| Ok((x.to_dense()?, sparse::mm(&x, &d)?)))?;
        let leaf = y.copy()?.detach().requires_grad_(true);
        let mask = sparse::mask(&leaf, &x)?;
        mask.to_dense()?.square()?.sum()?.backward()?;
        assert_eq!(leaf.grad(), Some(y.mul(2.0)?), "{kind:?}");
        let a = x.detach().requires_grad_(true);
        let again = sparse::mm(&a, &d)?;
        assert!(again.detach().allclose(&z)?, "{kind:?}");
        again.sum()?.backward()?;
        assert!(a.grad().is_some_and(|g| g.layout() == x.layout()));
    }
    Ok(())
}

#[test]
fn products_in_an_autocast_region_have_its_dtype() -> Result<()> {
    type Products = [(&'static str, DType, Function); 7];
    // As PyTorch's: products with a strided operand in the region's dtype, all else as outside.
    let products: Products = [
        ("matmul", DType::BF16, |x, d| x.matmul(d)),
        ("d.T @ x.T", DType::BF16, |x, d| d.t()?.matmul(&x.t()?)),
        ("sparse.mm", DType::BF16, |x, d| sparse::mm(x, d)),
        ("sparse.addmm", DType::BF16, |x, d| {
            sparse::addmm(&d.narrow(0, 0, 2)?, x, d)
        }),
        ("softmax", DType::F32, |x, _| sparse::softmax(x, 1)),
        ("sparse.sum", DType::F32, |x, _| sparse::sum(x, 1)),
        ("sampled_addmm", DType::F32, |x, d| {
            sparse::sampled_addmm(x, &d.narrow(0, 0, 2)?, &d.t()?)
        }),
    ];
    for kind in &matrices()?[1..3] {
        let (x, d) = operands(kind)?;
        for (op, dtype, f) in products {
            let what = format!("{op} of {kind:?}");
            let leaves = |dtype: DType| -> Result<(Tensor, Tensor)> {
                Ok((
                    x.to_dtype(dtype)?.detach().requires_grad_(true),
                    d.to_dtype(dtype)?.detach().requires_grad_(true),
                ))
            };
            let (a, b) = leaves(DType::F32)?;
            let y = autocast_with(Device::Cpu, DType::BF16, || f(&a, &b))?;
            assert_eq!(y.dtype(), dtype, "{what}");
            let whole = f(&a.detach(), &b.detach())?;
            let off = dense(&y.detach())?
                .to_dtype(DType::F32)?
                .sub(&dense(&whole)?)?;
            let off = off.abs()?.max()?.item::<f64>()?;
            assert!(off < 0.1, "{what}: {off}");
            // Gradients have the dtypes of what they belong to.
            dense(&y)?
                .to_dtype(DType::F32)?
                .square()?
                .sum()?
                .backward()?;
            let g = a.grad().expect("a gradient");
            assert_eq!(g.dtype(), DType::F32, "{what}");
            if let Some(g) = b.grad() {
                assert_eq!(g.dtype(), DType::F32, "{what}");
            }
            // float64 is never cast.
            let (a, b) = leaves(DType::F64)?;
            let y = autocast_with(Device::Cpu, DType::BF16, || f(&a, &b))?;
            assert_eq!(y.dtype(), DType::F64, "{what}");
        }
        // Operands of two dtypes, as come of other products of the region.
        let (x, d) = (x.to_dtype(DType::F32)?, d.to_dtype(DType::BF16)?);
        assert!(sparse::mm(&x, &d).is_err());
        let y = autocast_with(Device::Cpu, DType::BF16, || sparse::mm(&x, &d))?;
        assert_eq!(y.dtype(), DType::BF16);
    }
    Ok(())
}

#[test]
fn observers_see_functions_and_what_they_are_made_of() -> Result<()> {
    let a = tensor![[0.0, 2.0], [3.0, 0.0]].to_sparse_csr()?;
    let d = tensor![[1.0], [10.0]];
    let seen = Rc::new(RefCell::new(Vec::new()));
    let list = seen.clone();
    let watch = move |e: &observe::Event<'_>| {
        let sparse = e.outputs.iter().any(|t| !t.layout().is_strided());
        list.borrow_mut().push((e.record.base_name(), sparse));
    };
    observe::observe(watch, || {
        let y = a.mul(2.0)?;
        sparse::mm(&y, &d)
    })?;
    let seen = seen.borrow();
    // The op on the sparse tensor, the one on its values, and the kernel.
    for wanted in [("mul", true), ("mul", false), ("_sparse_product", false)] {
        assert!(seen.contains(&wanted), "{wanted:?}: {seen:?}");
    }
    Ok(())
}

#[test]
fn anomalies_of_stored_values_are_found() -> Result<()> {
    let x = tensor![[0.0, 1.0], [4.0, 0.0]].to_sparse_csr()?;
    let leaf = || x.detach().requires_grad_(true);
    detect_anomaly(|| {
        sparse::mm(&leaf(), &tensor![[1.0], [2.0]])?
            .sum()?
            .backward()
    })?;
    let bad = x.detach().copy()?;
    bad.values()?.narrow(0, 0, 1)?.fill_(0.0)?;
    // The root's slope at 0 is infinite; times 0 it is nan.
    let e = detect_anomaly(|| {
        let bad = bad.requires_grad_(true);
        bad.sqrt()?.to_dense()?.mul(0.0)?.sum()?.backward()
    });
    let e = e.expect_err("nan").to_string();
    assert!(e.contains("nan"), "{e}");
    Ok(())
}

#[test]
fn a_checkpoint_recomputes_sparse_products() -> Result<()> {
    for layout in [TensorLayout::SparseCoo, TensorLayout::SparseCsr] {
        let how = sparse::ToSparseOptions::new().layout(layout);
        let x = tensor![[0.0, 2.0], [3.0, 0.0]].to_sparse_with(how)?;
        let run = |kept: bool| -> Result<Tensor> {
            let a = x.detach().requires_grad_(true);
            let f = {
                let a = a.clone();
                move || {
                    let y = sparse::mm(&a.mul(2.0)?, &tensor![[1.0], [10.0]])?;
                    y.square()
                }
            };
            let y = match kept {
                true => f()?,
                false => torsh_tensor::checkpoint(f)?,
            };
            y.sum()?.backward()?;
            Ok(a.grad().expect("a gradient"))
        };
        let (kept, again) = (run(true)?, run(false)?);
        assert_eq!(again.layout(), kept.layout());
        assert_eq!(again.to_dense()?, kept.to_dense()?);
    }
    Ok(())
}
