//! Sparse tensors on the meta device, and on a device that has no kernels of this crate.

use std::sync::{Mutex, MutexGuard, PoisonError};

use torsh_sparse::{self as sparse, SparseExt, SpmmReduce};
use torsh_tensor::call::Arg;
use torsh_tensor::devices::{Fallback, definitions_used, fallbacks, set_fallback};
use torsh_tensor::{
    DType, Device, IscloseOptions, NormOptions, Result, SumOptions, Tensor, TensorLayout, tensor,
};

use crate::common::{Kind, LAYOUTS, batches, dense, hybrids, matrices, options, sampler, tall};

type Function = fn(&[Tensor]) -> Result<Tensor>;

/// What the meta device knows of a result's number of stored elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entries {
    Known,
    /// It is not larger.
    AtMost,
    /// Not even that: the call is refused.
    Unknown,
}

use Entries::{AtMost, Known, Unknown};

/// Compares a call on the meta device with the same call on the CPU.
fn compare(op: &str, kinds: &[Kind], entries: Entries, f: Function) {
    let what = format!("{op} of {kinds:?}");
    if let Err(e) = compared(op, &what, kinds, entries, f) {
        panic!("{what}: {e}");
    }
}

fn compared(op: &str, what: &str, kinds: &[Kind], entries: Entries, f: Function) -> Result<()> {
    let mut s = sampler();
    let here = kinds
        .iter()
        .map(|k| k.tensor(&mut s, false))
        .collect::<Result<Vec<Tensor>>>()?;
    let there = here
        .iter()
        .map(|t| t.to_device(Device::Meta))
        .collect::<Result<Vec<Tensor>>>()?;
    let wanted = f(&here)?;
    let got = f(&there);
    if entries == Unknown {
        let e = got.map(drop).expect_err(what).to_string();
        assert!(e.starts_with(&format!("{op}: ")), "{what}: {e}");
        return Ok(());
    }
    let got = got?;
    assert_eq!(got.device(), Device::Meta, "{what}");
    assert_eq!(got.layout(), wanted.layout(), "{what}");
    assert_eq!(got.shape(), wanted.shape(), "{what}");
    assert_eq!(got.dtype(), wanted.dtype(), "{what}");
    let (Some(p), Some(q)) = (got.pattern(), wanted.pattern()) else {
        return Ok(());
    };
    assert_eq!(p.block(), q.block(), "{what}");
    assert_eq!(
        (p.sparse_dim(), p.dense_dim()),
        (q.sparse_dim(), q.dense_dim()),
        "{what}"
    );
    match entries {
        AtMost => assert!(p.nnz() >= q.nnz(), "{what}: {} and {}", p.nnz(), q.nnz()),
        _ => assert_eq!(p.nnz(), q.nnz(), "{what}"),
    }
    // There are no values.
    let v = torsh_tensor::sparse::values(&got)?;
    assert!(v.to_vec::<f64>().is_err(), "{what}");
    Ok(())
}

/// Matrices, coalesced.
fn coalesced() -> Result<Vec<Kind>> {
    Ok(matrices()?[1..].to_vec())
}

fn layout_of(kind: &Kind) -> TensorLayout {
    kind.pattern().map_or(TensorLayout::Strided, |p| p.layout())
}

#[test]
fn ops_of_one_operand_on_the_meta_device() -> Result<()> {
    let of_all: [(&str, Function); 15] = [
        ("neg", |x| x[0].neg()),
        ("tanh", |x| x[0].tanh()),
        ("mul", |x| x[0].mul(2.5)),
        ("div", |x| x[0].div(2.5)),
        ("mul", |x| x[0].mul(&x[0])),
        ("add", |x| x[0].add(&x[0])),
        ("sum", |x| x[0].sum()),
        ("mean", |x| x[0].mean()),
        ("norm", |x| x[0].norm_with(NormOptions::new())),
        ("clone", |x| x[0].copy()),
        ("to", |x| x[0].to_dtype(DType::F32)),
        ("unsqueeze", |x| x[0].unsqueeze(0)),
        ("to_dense", |x| x[0].to_dense()),
        ("zeros_like", |x| x[0].zeros_like()),
        ("sparse.softmax", |x| sparse::softmax(&x[0], -1)),
    ];
    let kinds = [coalesced()?, batches()?, hybrids()?[1..].to_vec()].concat();
    for kind in &kinds {
        let one = std::slice::from_ref(kind);
        for (op, f) in of_all {
            compare(op, one, Known, f);
        }
    }
    let of_matrices: [(&str, Entries, Function); 10] = [
        ("t", Known, |x| x[0].t()),
        ("reshape", Known, |x| x[0].reshape([3, 2])),
        ("flatten", Known, |x| x[0].flatten(0)),
        ("unsqueeze", Known, |x| x[0].unsqueeze(1)),
        ("expand", Known, |x| x[0].expand([2, 2, 3])),
        ("sum", AtMost, |x| x[0].sum_dim(0, false)),
        ("sparse.sum", AtMost, |x| {
            sparse::sum_with(&x[0], SumOptions::new().dim(1).keepdim(true))
        }),
        ("select", Unknown, |x| x[0].select(0, 1)),
        ("index_select", Unknown, |x| {
            x[0].index_select(1, &tensor![2i64, 0].to_device(x[0].device())?)
        }),
        ("tril", Unknown, |x| x[0].tril(0)),
    ];
    for kind in &coalesced()? {
        let one = std::slice::from_ref(kind);
        for (op, entries, f) in of_matrices {
            compare(op, one, entries, f);
        }
        compare("slice", one, Unknown, |x| x[0].narrow(1, 0, 2));
    }
    // What is along a dense dimension, or of a whole batch, is known.
    for kind in &hybrids()?[1..] {
        compare("narrow", std::slice::from_ref(kind), Known, |x| {
            x[0].narrow(2, 0, 1)
        });
    }
    for kind in &batches()?[1..] {
        compare("select", std::slice::from_ref(kind), Known, |x| {
            x[0].select(0, 1)
        });
    }
    Ok(())
}

#[test]
fn conversions_on_the_meta_device() -> Result<()> {
    let to: [Function; 5] = [
        |x| x[0].to_sparse_with(options(LAYOUTS[0])),
        |x| x[0].to_sparse_with(options(LAYOUTS[1])),
        |x| x[0].to_sparse_with(options(LAYOUTS[2])),
        |x| x[0].to_sparse_with(options(LAYOUTS[3])),
        |x| x[0].to_sparse_with(options(LAYOUTS[4])),
    ];
    for kind in [coalesced()?, batches()?].concat() {
        for (layout, f) in LAYOUTS.into_iter().zip(to) {
            // Elements that share a block are counted each.
            let entries = match layout.is_blocked() && layout_of(&kind) != layout {
                true => AtMost,
                false => Known,
            };
            compare("to_sparse", std::slice::from_ref(&kind), entries, f);
        }
    }
    compare("to_sparse", &[Kind::strided(&[2, 3])], Unknown, |x| {
        x[0].to_sparse()
    });
    let x = Tensor::zeros([1, 2], DType::I64, Device::Meta)?;
    let v = Tensor::zeros([2], DType::F32, Device::Meta)?;
    let e = sparse::coo_inferred(&x, &v).map(drop).expect_err("sizes");
    assert!(e.to_string().starts_with("sparse_coo_tensor: "), "{e}");
    assert_eq!(sparse::coo(&x, &v, [5])?.nnz()?, 2);
    Ok(())
}

#[test]
fn ops_of_two_operands_on_the_meta_device() -> Result<()> {
    let (matrices, tall) = (coalesced()?, tall()?[1..].to_vec());
    let beside: [(&str, &[usize], Function); 14] = [
        ("mul", &[2, 3], |x| x[0].mul(&x[1])),
        ("mul", &[3], |x| x[1].mul(&x[0])),
        ("add", &[2, 3], |x| x[1].add(&x[0])),
        ("matmul", &[3, 4], |x| x[0].matmul(&x[1])),
        ("matmul", &[4, 2], |x| x[1].matmul(&x[0])),
        ("mm", &[3, 4], |x| x[0].mm(&x[1])),
        ("mv", &[3], |x| x[0].mv(&x[1])),
        ("nn.functional.linear", &[4, 3], |x| {
            x[1].linear(&x[0], None)
        }),
        ("sparse.mm", &[3, 4], |x| sparse::mm(&x[0], &x[1])),
        ("sparse.mm", &[4, 2], |x| sparse::mm(&x[1], &x[0])),
        ("sparse.mm", &[3, 4], |x| {
            sparse::spmm(&x[0], &x[1], SpmmReduce::Mean)
        }),
        ("sparse.mm", &[3, 4], |x| {
            sparse::spmm(&x[0], &x[1], SpmmReduce::Amax)
        }),
        ("sparse.sampled_addmm", &[2, 3], |x| {
            sparse::sampled_addmm(&x[0], &x[1].narrow(1, 0, 1)?, &x[1].narrow(0, 0, 1)?)
        }),
        ("sparse_mask", &[2, 3], |x| sparse::mask(&x[1], &x[0])),
    ];
    for kind in &matrices {
        for (op, shape, f) in beside {
            compare(op, &[kind.clone(), Kind::strided(shape)], Known, f);
        }
        let same = [kind.clone(), kind.clone()];
        let joined = if layout_of(kind).is_blocked() {
            AtMost
        } else {
            Known
        };
        compare("cat", &same, joined, |x| Tensor::cat(x, 0));
        compare("sparse_mask", &same, Known, |x| sparse::mask(&x[0], &x[1]));
    }
    for (a, b) in matrices.iter().zip(&tall) {
        let two = [a.clone(), b.clone()];
        compare("sparse.mm", &two, Unknown, |x| sparse::mm(&x[0], &x[1]));
        compare("matmul", &two, Unknown, |x| x[0].matmul(&x[1]));
    }
    let coo = matrices[0].clone();
    compare(
        "hspmm",
        &[coo.clone(), Kind::strided(&[3, 4])],
        Unknown,
        |x| sparse::hspmm(&x[0], &x[1]),
    );
    compare("add", &[coo.clone(), matrices[1].clone()], AtMost, |x| {
        x[0].add(&x[1])
    });
    compare("mul", &[coo.clone(), matrices[2].clone()], Known, |x| {
        x[0].mul(&x[1])
    });
    let other = Kind::Sparse(sparse::Pattern::coo(
        &[2, 3],
        &tensor![[0i64, 1], [0, 2]],
        true,
    )?);
    compare("add", &[coo.clone(), other.clone()], AtMost, |x| {
        x[0].add(&x[1])
    });
    compare("mul", &[coo, other], Unknown, |x| x[0].mul(&x[1]));
    Ok(())
}

#[test]
fn gradients_on_the_meta_device() -> Result<()> {
    for kind in coalesced()? {
        let mut s = sampler();
        let leaf = |t: Tensor| -> Result<Tensor> {
            Ok(t.to_device(Device::Meta)?.detach().requires_grad_(true))
        };
        let x = leaf(kind.tensor(&mut s, false)?)?;
        let d = leaf(s.real(&[3, 4])?)?;
        sparse::mm(&x, &d)?.sum()?.backward()?;
        let (gx, gd) = (x.grad().expect("a gradient"), d.grad().expect("a gradient"));
        assert_eq!((gx.layout(), gx.nnz()?), (x.layout(), x.nnz()?));
        assert_eq!((gd.dims(), gd.device()), (&[3, 4][..], Device::Meta));
        let x = leaf(kind.tensor(&mut s, false)?)?;
        x.matmul(&d.detach())?.sum()?.backward()?;
        let g = x.grad().expect("a gradient");
        assert!(g.layout().is_strided() && g.dims() == [2, 3]);
    }
    Ok(())
}

const D: Device = Device::Custom(0);

/// The mock device, for one test at a time: an error of a call comes with the next wait.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    torsh_backend_mock::register().expect("the only custom devices");
    guard
}

/// A tensor of a dtype that the device has.
fn single(kind: &Kind, s: &mut torsh_tensor::sample::Sampler) -> Result<Tensor> {
    kind.tensor(s, false)?.to_dtype(DType::F32)
}

/// The tensor with each element once.
fn once(x: &Tensor) -> Result<Tensor> {
    match x.is_sparse() {
        true => x.coalesce(),
        false => Ok(x.clone()),
    }
}

fn near(what: &str, got: &Tensor, wanted: &Tensor) -> Result<()> {
    assert_eq!(got.layout(), wanted.layout(), "{what}");
    let (got, wanted) = (dense(&got.cpu()?)?, dense(wanted)?);
    let single = IscloseOptions::new().rtol(1e-4).atol(1e-6);
    let close = got.allclose_with(&wanted, single)?;
    assert!(close, "{what}: {got} is not {wanted}");
    Ok(())
}

#[test]
fn parts_move_to_a_device_and_back() -> Result<()> {
    let _alone = alone();
    let mut s = sampler();
    for kind in [matrices()?, batches()?, hybrids()?].concat() {
        let x = single(&kind, &mut s)?;
        let y = x.to_device(D)?;
        let (p, q) = (
            y.pattern().expect("a sparse tensor"),
            x.pattern().expect("a sparse tensor"),
        );
        assert_eq!((y.device(), p.indices().device()), (D, D));
        assert_eq!(
            (p.layout(), p.shape(), p.nnz(), p.is_coalesced()),
            (q.layout(), q.shape(), q.nnz(), q.is_coalesced())
        );
        assert_eq!(p.indices().cpu()?, *q.indices());
        let values = torsh_tensor::sparse::values;
        assert_eq!(values(&y)?.cpu()?, values(&x)?);
        assert_eq!(values(&y.cpu()?)?, values(&x)?);
        // The gradient comes back to where the tensor is.
        let leaf = x.detach().requires_grad_(true);
        let there = leaf.to_device(D)?;
        assert!(there.requires_grad());
        there.to_dense()?.square()?.sum()?.backward()?;
        let g = leaf.grad().expect("a gradient");
        assert_eq!((g.device(), g.layout()), (Device::Cpu, x.layout()));
        near("the gradient", &g, &once(&x)?.mul(2.0)?)?;
    }
    Ok(())
}

#[test]
fn ops_run_on_a_device_without_kernels_for_them() -> Result<()> {
    let _alone = alone();
    let of_one: [(&str, Function); 14] = [
        ("neg", |x| x[0].neg()),
        ("tanh", |x| x[0].tanh()),
        ("mul", |x| x[0].mul(2.5)),
        ("x * x", |x| x[0].mul(&x[0])),
        ("x + x", |x| x[0].add(&x[0])),
        ("sum", |x| x[0].sum()),
        ("sum 0", |x| x[0].sum_dim(0, false)),
        ("norm", |x| x[0].norm_with(NormOptions::new())),
        ("to_dense", |x| x[0].to_dense()),
        ("select", |x| x[0].select(0, 1)),
        ("narrow", |x| x[0].narrow(1, 0, 2)),
        ("cat", |x| Tensor::cat(&[&x[0], &x[0]], 0)),
        ("softmax", |x| sparse::softmax(&x[0], 1)),
        ("clone", |x| x[0].copy()),
    ];
    let of_two: [(&str, &[usize], Function); 10] = [
        ("mul", &[2, 3], |x| x[0].mul(&x[1])),
        ("add", &[2, 3], |x| x[1].add(&x[0])),
        ("matmul", &[3, 4], |x| x[0].matmul(&x[1])),
        ("d @ x", &[4, 2], |x| x[1].matmul(&x[0])),
        ("mv", &[3], |x| x[0].mv(&x[1])),
        ("sparse.mm", &[3, 4], |x| sparse::mm(&x[0], &x[1])),
        ("mean", &[3, 4], |x| {
            sparse::spmm(&x[0], &x[1], SpmmReduce::Mean)
        }),
        ("amax", &[3, 4], |x| {
            sparse::spmm(&x[0], &x[1], SpmmReduce::Amax)
        }),
        ("sampled_addmm", &[2, 3], |x| {
            sparse::sampled_addmm(&x[0], &x[1].narrow(1, 0, 1)?, &x[1].narrow(0, 0, 1)?)
        }),
        ("sparse_mask", &[2, 3], |x| sparse::mask(&x[1], &x[0])),
    ];
    let mut s = sampler();
    for kind in matrices()? {
        let x = single(&kind, &mut s)?;
        for (op, f) in of_one {
            let what = format!("{op} of {kind:?}");
            let here = std::slice::from_ref(&x);
            near(&what, &f(&[x.to_device(D)?])?, &f(here)?)?;
        }
        for (op, shape, f) in of_two {
            let what = format!("{op} of {kind:?}");
            let t = s.real(shape)?.to_dtype(DType::F32)?;
            let leaves = |d: Device| -> Result<Vec<Tensor>> {
                let each = [&x, &t].into_iter();
                each.map(|t| Ok(t.to_device(d)?.detach().requires_grad_(true)))
                    .collect()
            };
            let (here, there) = (leaves(Device::Cpu)?, leaves(D)?);
            let (a, b) = (f(&there)?, f(&here)?);
            near(&what, &a, &b)?;
            dense(&a)?.square()?.sum()?.backward()?;
            dense(&b)?.square()?.sum()?.backward()?;
            for (a, b) in there.iter().zip(&here) {
                // A mask has none.
                assert_eq!(a.has_grad(), b.has_grad(), "{what}");
                if let (Some(a), Some(b)) = (a.grad(), b.grad()) {
                    assert_eq!(a.device(), D, "{what}");
                    near(&what, &a, &b)?;
                }
            }
        }
    }
    for (a, b) in matrices()?.iter().zip(&tall()?) {
        let (a, b) = (single(a, &mut s)?, single(b, &mut s)?);
        let there = sparse::mm(&a.to_device(D)?, &b.to_device(D)?)?;
        near("sparse.mm", &there, &sparse::mm(&a, &b)?)?;
    }
    // By the definitions of the kernels' records, not on the CPU.
    let used = definitions_used();
    for op in ["_sparse_product", "_sparse_inner_products", "_sparse_group"] {
        assert!(used.iter().any(|(name, _)| *name == op), "{op}: {used:?}");
    }
    torsh_tensor::devices::synchronize(D)
}

#[test]
fn an_op_without_kernel_and_definition_follows_the_fallback() -> Result<()> {
    let _alone = alone();
    let a = tensor![[2.0f32, 0.0], [1.0, 4.0]].to_sparse_csr()?;
    let b = tensor![2.0f32, 9.0];
    let (there, side) = (a.to_device(D)?, b.to_device(D)?);
    let e = sparse::spsolve(&there, &side)
        .map(drop)
        .expect_err("no kernel")
        .to_string();
    for part in [
        "sparse.spsolve: ",
        "mock:0 has no kernel",
        "torch.sparse_csr",
        "set_fallback",
    ] {
        assert!(e.contains(part), "{part}: {e}");
    }
    let count = || {
        let all = fallbacks();
        let own = all.iter().find(|(n, _)| *n == "_sparse_solve");
        own.map_or(0, |(_, n)| *n)
    };
    let before = count();
    set_fallback(Fallback::Cpu);
    let x = sparse::spsolve(&there, &side);
    set_fallback(Fallback::Refuse);
    let x = x?;
    assert_eq!(x.device(), D);
    assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);
    assert_eq!(count(), before + 1);
    Ok(())
}

/// Solves a system in some way.
type Solve = fn(&Tensor, &Tensor) -> Result<Tensor>;

/// The solution that a matrix on a device gives, and the gradients of matrix and right-hand sides.
fn solved(solve: Solve, a: &Tensor, b: &Tensor, d: Device) -> Result<[Tensor; 3]> {
    let leaf = |t: &Tensor| -> Result<Tensor> { Ok(t.to_device(d)?.detach().requires_grad_(true)) };
    let (a, b) = (leaf(a)?, leaf(b)?);
    let x = solve(&a, &b)?;
    x.square()?.sum()?.backward()?;
    let grad = |t: &Tensor| t.grad().expect("a gradient");
    Ok([x.detach(), grad(&a), grad(&b)])
}

#[test]
fn factors_of_a_matrix_on_a_device_follow_the_fallback() -> Result<()> {
    let _alone = alone();
    let n = 6usize;
    // Symmetric and positive definite, with elements on both sides of the diagonal.
    let elements: Vec<f32> = (0..n * n)
        .map(|e| match (e / n).abs_diff(e % n) {
            0 => 4.0 + e as f32 / 50.0,
            1 => -1.0,
            3 => 0.5,
            _ => 0.0,
        })
        .collect();
    let whole = Tensor::from_vec(elements, [n, n])?;
    let b = sampler().real(&[n, 2])?.to_dtype(DType::F32)?;
    let all: [(&str, Solve); 5] = [
        ("sparse.lu", |a, b| sparse::lu(a)?.solve(b)),
        ("sparse.lu", |a, b| sparse::lu(a)?.solve_adjoint(b)),
        ("sparse.lu", |a, b| {
            let mut lu = sparse::lu(a)?;
            lu.refactor(&a.mul(2.0)?)?;
            lu.solve(b)
        }),
        ("sparse.cholesky", |a, b| sparse::cholesky(a)?.solve(b)),
        ("sparse.spsolve", sparse::spsolve),
    ];
    let count = || {
        let all = fallbacks();
        let own = all.iter().find(|(n, _)| *n == "_sparse_factor_solve");
        own.map_or(0, |(_, n)| *n)
    };
    for layout in LAYOUTS {
        let a = whole.to_sparse_with(options(layout))?;
        let (there, side) = (a.to_device(D)?, b.to_device(D)?);
        for (nth, (op, solve)) in all.into_iter().enumerate() {
            let what = format!("{op} {nth} of {layout}");
            let e = solve(&there, &side).map(drop).expect_err(&what).to_string();
            for part in [
                &format!("{op}: ")[..],
                "mock:0 has no kernel",
                &layout.to_string(),
                "set_fallback",
            ] {
                assert!(e.contains(part), "{what}: {part}: {e}");
            }
            let (here, before) = (solved(solve, &a, &b, Device::Cpu)?, count());
            set_fallback(Fallback::Cpu);
            let got = solved(solve, &a, &b, D);
            set_fallback(Fallback::Refuse);
            for (got, wanted) in got?.iter().zip(&here) {
                assert_eq!(got.device(), D, "{what}");
                near(&what, got, wanted)?;
            }
            // The solution and its gradient.
            assert_eq!(count(), before + 2, "{what}");
        }
    }
    // Factors that were computed before it was refused.
    set_fallback(Fallback::Cpu);
    let lu = whole
        .to_sparse_csr()
        .and_then(|a| sparse::lu(&a.to_device(D)?));
    set_fallback(Fallback::Refuse);
    let e = lu?
        .solve(&b.to_device(D)?)
        .map(drop)
        .expect_err("no kernel")
        .to_string();
    assert!(e.starts_with("SparseLu.solve: mock:0 has no kernel"), "{e}");
    torsh_tensor::devices::synchronize(D)
}

#[test]
fn parts_on_several_devices_are_refused() -> Result<()> {
    let _alone = alone();
    let x = tensor![[0.0f32, 2.0], [3.0, 0.0]].to_sparse_csr()?;
    let there = x.to_device(D)?;
    let refused = |r: Result<Tensor>, op: &str| {
        let e = r.map(drop).expect_err(op).to_string();
        assert!(e.starts_with(op) && e.contains("device"), "{op}: {e}");
    };
    let (crow, col) = (x.crow_indices()?, x.col_indices()?);
    let v = there.values()?;
    refused(sparse::csr(&crow, &col, &v, [2, 2]), "sparse_csr_tensor");
    let d = tensor![[1.0f32], [2.0]];
    refused(sparse::mm(&there, &d), "sparse.mm");
    refused(there.matmul(&d), "matmul");
    refused(there.add(&x), "add");
    refused(there.mul(&x), "mul");
    refused(Tensor::cat(&[&there, &x], 0), "cat");
    refused(sparse::mask(&x, &there), "sparse_mask");
    let args = [Arg::T(&d), Arg::T(&there)];
    let solved = torsh_tensor::sparse::call1("triangular_solve", &args, torsh_core::attrs::NONE);
    refused(solved, "triangular_solve");
    Ok(())
}
