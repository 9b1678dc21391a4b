//! Systems: solutions by triangles, LU and Cholesky factors, factors of other values, gradients, and what is refused.

use num_complex::Complex;
use torsh_autograd::{gradcheck, gradgradcheck};
use torsh_sparse::{self as sparse, SparseExt, ToSparseOptions};
use torsh_tensor::sparse::{Pattern, from_values, values};
use torsh_tensor::{DType, Device, Result, Tensor, TensorLayout, grad, no_grad, tensor};

const LAYOUTS: [TensorLayout; 5] = [
    TensorLayout::SparseCoo,
    TensorLayout::SparseCsr,
    TensorLayout::SparseCsc,
    TensorLayout::SparseBsr,
    TensorLayout::SparseBsc,
];

/// A number of magnitude 0.5 at most, without a pattern.
fn number(i: usize, j: usize) -> Complex<f64> {
    let k = (i * i * 31 + j * 17 + i * j * 7) as f64;
    Complex::from_polar(0.5 * k.sin(), 1.3 * k)
}

fn of(
    n: usize,
    m: usize,
    dtype: DType,
    f: impl Fn(usize, usize) -> Complex<f64>,
) -> Result<Tensor> {
    let data: Vec<Complex<f64>> = (0..n * m).map(|e| f(e / m, e % m)).collect();
    let all = Tensor::from_data(&data, [n, m])?;
    match dtype.is_complex() {
        true => all.to_dtype(dtype),
        false => all.real()?.contiguous()?.to_dtype(dtype),
    }
}

/// Right-hand sides.
fn sides(n: usize, k: usize, dtype: DType) -> Result<Tensor> {
    of(n, k, dtype, |i, j| number(j + 3, i + 1) * 4.0)
}

/// A dense matrix of which a quarter is not 0, on both sides of its large diagonal; not symmetric.
fn mixed(n: usize, dtype: DType) -> Result<Tensor> {
    of(n, n, dtype, |i, j| match (2 * i + 4 * j) % 5 {
        _ if i == j => number(i, j) + Complex::new(4.0, 1.0),
        1 => number(i, j),
        _ => Complex::new(0.0, 0.0),
    })
}

/// A Hermitian positive definite one.
fn definite(n: usize, dtype: DType) -> Result<Tensor> {
    let a = mixed(n, dtype)?;
    a.add(&a.adjoint()?)
}

fn stored(dense: &Tensor, layout: TensorLayout) -> Result<Tensor> {
    let options = ToSparseOptions::new().layout(layout);
    dense.to_sparse_with(match layout.is_blocked() {
        true => options.blocksize([2, 2]),
        false => options,
    })
}

/// The pattern of the elements of a dense matrix that are not 0, in CSR, and their values.
fn taken_apart(dense: &Tensor) -> Result<(Pattern, Tensor)> {
    let x = dense.to_sparse_csr()?;
    Ok((x.pattern().expect("a sparse tensor"), values(&x)?))
}

fn solves(what: &str, a: &Tensor, x: &Tensor, b: &Tensor) -> Result<()> {
    assert_eq!((x.shape(), x.dtype()), (b.shape(), b.dtype()), "{what}");
    let far = a.matmul(x)?.sub(b)?.abs()?.sum()?.item::<f64>()?;
    let near = match b.dtype() {
        DType::F32 | DType::C64 => 1e-4,
        _ => 1e-10,
    };
    assert!(
        far < near * b.numel() as f64,
        "{what}: the residual is {far}"
    );
    Ok(())
}

fn close(what: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    assert_eq!(a.shape(), b.shape(), "{what}");
    assert!(a.allclose(b)?, "{what}: {a} is not {b}");
    Ok(())
}

fn said<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.expect_err("an error").to_string()
}

#[test]
fn every_layout_and_dtype_is_solved() -> Result<()> {
    let n = 12;
    for dtype in [DType::F32, DType::F64, DType::C64, DType::C128] {
        let (a, h) = (mixed(n, dtype)?, definite(n, dtype)?);
        let whole = sides(n, 5, dtype)?;
        for layout in LAYOUTS {
            let what = format!("{layout} of {dtype}");
            let lu = sparse::lu(&stored(&a, layout)?)?;
            let cholesky = sparse::cholesky(&stored(&h, layout)?)?;
            let lower = sparse::cholesky(&stored(&h.tril(0)?, layout)?)?;
            assert_eq!((lu.n(), cholesky.n()), (n, n));
            for b in [whole.select(1, 0)?, whole.clone(), whole.narrow(1, 1, 1)?] {
                let x = lu.solve(&b)?;
                solves(&what, &a, &x, &b)?;
                assert_eq!(sparse::spsolve(&stored(&a, layout)?, &b)?, x, "{what}");
                solves(&what, &a.adjoint()?, &lu.solve_adjoint(&b)?, &b)?;
                let x = cholesky.solve(&b)?;
                solves(&what, &h, &x, &b)?;
                solves(&what, &h, &lower.solve(&b)?, &b)?;
            }
        }
    }
    Ok(())
}

#[test]
fn triangles_are_solved() -> Result<()> {
    let a = mixed(12, DType::F64)?;
    let b = sides(12, 2, DType::F64)?;
    for layout in LAYOUTS {
        for part in [a.tril(0)?, a.triu(0)?, a.tril(0)?.triu(0)?] {
            let x = sparse::spsolve(&stored(&part, layout)?, &b)?;
            solves(&format!("a triangle in {layout}"), &part, &x, &b)?;
        }
    }
    Ok(())
}

#[test]
fn a_zero_on_the_diagonal_is_no_pivot() -> Result<()> {
    let a = tensor![[0.0, 2.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 4.0]];
    let b = tensor![4.0, 4.0, 12.0];
    assert_eq!(
        sparse::spsolve(&a.to_sparse()?, &b)?,
        tensor![1.0, 2.0, 3.0]
    );
    // The transposed system: [1, 4, 7] is [0, 1, 0], [2, 0, 0], [0, 1, 4] times [2, 1, 1.5].
    let x = sparse::lu(&a.to_sparse_csc()?)?.solve_adjoint(&tensor![1.0, 4.0, 7.0])?;
    assert_eq!(x, tensor![2.0, 1.0, 1.5]);
    Ok(())
}

#[test]
fn large_and_full_matrices_are_solved_in_blocks() -> Result<()> {
    for (n, dtype) in [(125, DType::F64), (160, DType::F64), (130, DType::C128)] {
        let a = of(n, n, dtype, |i, j| match i == j {
            true => number(i, j) + Complex::new(20.0, 0.0),
            false => number(i, j),
        })?;
        let h = a.add(&a.adjoint()?)?;
        let b = sides(n, 3, dtype)?;
        let what = format!("{n} rows of {dtype}");
        let lu = sparse::lu(&a.to_sparse_csc()?)?;
        solves(&what, &a, &lu.solve(&b)?, &b)?;
        solves(&what, &a.adjoint()?, &lu.solve_adjoint(&b)?, &b)?;
        let cholesky = sparse::cholesky(&h.to_sparse_csr()?)?;
        solves(&what, &h, &cholesky.solve(&b)?, &b)?;
        let indefinite = h.sub(&Tensor::eye(n, dtype, Device::Cpu)?.mul(60.0)?)?;
        let text = said(sparse::cholesky(&indefinite.to_sparse_csr()?));
        assert!(text.contains("is not positive definite"), "{text}");
        // The elements of the last row are stored, and 0.
        let zeros = Tensor::zeros([1, n], dtype, Device::Cpu)?;
        let singular = Tensor::cat(&[a.narrow(0, 0, n - 1)?, zeros], 0)?;
        let text = said(sparse::lu(&stored_whole(&singular)?));
        assert!(text.contains("the matrix is singular"), "{text}");
    }
    // The differences of a point of a square grid and its four neighbours.
    let side = 30i64;
    let (mut rows, mut columns, mut data) = (Vec::new(), Vec::new(), Vec::new());
    for at in 0..side * side {
        let (i, j) = (at / side, at % side);
        for (di, dj, v) in [
            (0, 0, 4.0),
            (-1, 0, -1.0),
            (1, 0, -1.0),
            (0, -1, -1.0),
            (0, 1, -1.0),
        ] {
            if (0..side).contains(&(i + di)) && (0..side).contains(&(j + dj)) {
                rows.push(at);
                columns.push((i + di) * side + j + dj);
                data.push(v);
            }
        }
    }
    let count = data.len();
    rows.append(&mut columns);
    let indices = Tensor::from_vec(rows, [2, count])?;
    let n = (side * side) as usize;
    let a = sparse::coo(&indices, &Tensor::from_data::<f64>(&data, count)?, [n, n])?;
    let a = a.to_sparse_csr()?;
    let b = sides(n, 2, DType::F64)?;
    solves("a grid by LU", &a, &sparse::lu(&a)?.solve(&b)?, &b)?;
    solves(
        "a grid by Cholesky",
        &a,
        &sparse::cholesky(&a)?.solve(&b)?,
        &b,
    )
}

/// A CSR matrix that stores its zeros too.
fn stored_whole(dense: &Tensor) -> Result<Tensor> {
    let (n, m) = (dense.dims()[0] as i64, dense.dims()[1] as i64);
    let pointers: Vec<i64> = (0..=n).map(|i| i * m).collect();
    let columns: Vec<i64> = (0..n * m).map(|e| e % m).collect();
    let (pointers, columns) = (
        Tensor::from_data(&pointers, pointers.len())?,
        Tensor::from_data(&columns, columns.len())?,
    );
    sparse::csr(&pointers, &columns, &dense.reshape([-1i64])?, dense.dims())
}

#[test]
fn elements_that_are_stored_twice_are_added() -> Result<()> {
    // [[3, 1], [2, 5]]
    let indices = tensor![[0, 0, 1, 0, 1], [0, 1, 0, 0, 1]];
    let pattern = Pattern::coo(&[2, 2], &indices, false)?;
    let v = Tensor::from_data(&[1.0, 1.0, 2.0, 2.0, 5.0], 5)?.requires_grad_(true);
    let b = Tensor::from_data(&[5.0, 12.0], 2)?;
    let x = sparse::spsolve(&from_values(&pattern, &v)?, &b)?;
    close("the solution", &x, &Tensor::from_data(&[1.0, 2.0], 2)?)?;
    // A^-T [1, 1] is [3, 2] / 13, and the gradient -[[3, 6], [2, 4]] / 13.
    let g = grad(&[x.sum()?], &[v.clone()], &[None], false, false, false)?;
    let expected = Tensor::from_data(&[3.0, 6.0, 2.0, 3.0, 4.0], 5)?.div(-13.0)?;
    close("the gradient", g[0].as_ref().expect("used"), &expected)?;
    let a = from_values(&pattern, &v.detach())?.requires_grad_(true);
    sparse::lu(&a)?.solve(&b)?.sum()?.backward()?;
    let g = a.grad().expect("a gradient").to_dense()?;
    let expected = Tensor::from_data(&[3.0, 6.0, 2.0, 4.0], [2, 2])?.div(-13.0)?;
    close("the gradient of the tensor", &g, &expected)
}

#[test]
fn factors_are_renewed_for_values_of_the_same_pattern() -> Result<()> {
    let first = mixed(12, DType::F64)?;
    let second = first.mul(&first)?.mul(-0.5)?;
    let b = sides(12, 2, DType::F64)?;
    let mut lu = sparse::lu(&first.to_sparse_csr()?)?;
    let before = lu.clone();
    for layout in [
        TensorLayout::SparseCsr,
        TensorLayout::SparseCoo,
        TensorLayout::SparseCsc,
    ] {
        lu.refactor(&stored(&second, layout)?)?;
        let anew = sparse::lu(&second.to_sparse_csr()?)?;
        assert_eq!(lu.solve(&b)?, anew.solve(&b)?);
        solves("renewed", &second, &lu.solve(&b)?, &b)?;
        solves("from before", &first, &before.solve(&b)?, &b)?;
    }
    let h = definite(12, DType::F64)?;
    let mut cholesky = sparse::cholesky(&h.to_sparse_csr()?)?;
    cholesky.refactor(&h.mul(3.0)?.to_sparse_csc()?)?;
    solves("renewed", &h.mul(3.0)?, &cholesky.solve(&b)?, &b)?;

    let of = "the factors are of another pattern";
    let text = said(lu.refactor(&first.tril(0)?.to_sparse_csr()?));
    assert!(
        text.contains("SparseLu.refactor") && text.contains(of),
        "{text}"
    );
    let text = said(lu.refactor(&mixed(10, DType::F64)?.to_sparse_csr()?));
    assert!(
        text.contains("the shape [10, 10], theirs has [12, 12]"),
        "{text}"
    );
    let text = said(lu.refactor(&first.to_dtype(DType::F32)?.to_sparse_csr()?));
    assert!(text.contains("the same dtype"), "{text}");
    let zeros = first.to_sparse_csr()?.mul(0.0)?;
    assert!(said(lu.refactor(&zeros)).contains("the matrix is singular"));
    let text = said(cholesky.refactor(&h.neg()?.to_sparse_csr()?));
    assert!(text.contains("is not positive definite"), "{text}");
    // They are what they were.
    solves("after errors", &second, &lu.solve(&b)?, &b)?;
    solves("after errors", &h.mul(3.0)?, &cholesky.solve(&b)?, &b)
}

#[test]
fn gradients_are_those_of_the_inverse() -> Result<()> {
    for dtype in [DType::F64, DType::C128] {
        let dense = mixed(6, dtype)?;
        let b = sides(6, 2, dtype)?.requires_grad_(true);
        let w = sides(2, 6, dtype)?.transpose(0, 1)?.contiguous()?;
        let mask = dense.ne(0)?.to_dtype(dtype)?;
        for layout in LAYOUTS {
            let a = stored(&dense, layout)?.requires_grad_(true);
            let lu = sparse::lu(&a)?;
            let x = lu.solve(&b)?;
            let g = grad(
                &[x.clone()],
                &[a.clone(), b.clone()],
                &[Some(w.clone())],
                true,
                false,
                false,
            )?;
            let (ga, gb) = (g[0].clone().expect("used"), g[1].clone().expect("used"));
            solves(
                "the gradient of the right-hand side",
                &dense.adjoint()?,
                &gb,
                &w,
            )?;
            assert_eq!(ga.layout(), layout);
            let whole = gb.matmul(&x.detach().adjoint()?)?.neg()?;
            close(
                "the gradient of the matrix",
                &ga.to_dense()?.mul(&mask)?,
                &whole.mul(&mask)?,
            )?;
            // A second system with the same factors.
            let y = lu.solve(&b.detach().mul(2.0)?)?;
            let g = grad(&[y], &[a.clone()], &[Some(w.clone())], false, false, false)?;
            close(
                "twice",
                &g[0].clone().expect("used").to_dense()?,
                &ga.to_dense()?.mul(2.0)?,
            )?;
            // With the adjoint: X is A^-H B, and the gradient -X (A^-1 G)^H.
            let x = lu.solve_adjoint(&b)?;
            let g = grad(
                &[x.clone()],
                &[a.clone(), b.clone()],
                &[Some(w.clone())],
                false,
                false,
                false,
            )?;
            let (ga, gb) = (g[0].clone().expect("used"), g[1].clone().expect("used"));
            solves("the gradient of the right-hand side", &dense, &gb, &w)?;
            let whole = x.detach().matmul(&gb.adjoint()?)?.neg()?;
            close(
                "the gradient of the matrix",
                &ga.to_dense()?.mul(&mask)?,
                &whole.mul(&mask)?,
            )?;
        }
    }
    Ok(())
}

#[test]
fn derivatives_are_those_of_finite_differences() -> Result<()> {
    type Function = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let general: [(&str, Function); 3] = [
        ("spsolve", sparse::spsolve),
        ("LU", |a, b| sparse::lu(a)?.solve(b)),
        ("LU of the adjoint", |a, b| sparse::lu(a)?.solve_adjoint(b)),
    ];
    let cholesky: (&str, Function) = ("Cholesky", |a, b| sparse::cholesky(a)?.solve(b));
    for dtype in [DType::F64, DType::C128] {
        let (a, h) = (mixed(4, dtype)?, definite(4, dtype)?);
        let calls = general.map(|f| (f, a.clone()));
        let definite = [h.clone(), h.tril(0)?].map(|h| (cholesky, h));
        for ((what, f), dense) in calls.into_iter().chain(definite) {
            let (pattern, v) = taken_apart(&dense)?;
            let inputs = [
                v.copy()?.requires_grad_(true),
                sides(4, 2, dtype)?.requires_grad_(true),
            ];
            let run = |x: &[Tensor]| -> Result<Vec<Tensor>> {
                Ok(vec![f(&from_values(&pattern, &x[0])?, &x[1])?])
            };
            let what = format!("{what} of {dtype}");
            assert!(gradcheck(run, &inputs)?, "{what}");
            assert!(gradgradcheck(run, &inputs)?, "{what}");
        }
    }
    Ok(())
}

#[test]
fn a_solution_keeps_the_factors_that_made_it() -> Result<()> {
    let (first, second) = (mixed(6, DType::F64)?, mixed(6, DType::F64)?.mul(-2.0)?);
    let b = sides(6, 1, DType::F64)?;
    let a = first.to_sparse_csr()?.requires_grad_(true);
    let expected = {
        let y = sparse::spsolve(&a, &b)?.sum()?;
        grad(&[y], &[a.clone()], &[None], false, false, false)?
    };
    let mut lu = sparse::lu(&a)?;
    let x = lu.solve(&b)?;
    lu.refactor(&second.to_sparse_csr()?)?;
    x.sum()?.backward()?;
    let (g, expected) = (
        a.grad().expect("a gradient"),
        expected[0].clone().expect("used"),
    );
    assert_eq!(g.to_dense()?, expected.to_dense()?);

    // Factors of a matrix that was written have no gradient of it.
    let mut lu = sparse::lu(&a)?;
    no_grad(|| values(&a)?.mul_(2.0))?;
    let text = said(lu.solve(&b));
    assert!(
        text.contains("the matrix was written after it was factored"),
        "{text}"
    );
    solves("without a gradient", &first, &no_grad(|| lu.solve(&b))?, &b)?;
    lu.refactor(&a)?;
    solves("renewed", &first.mul(2.0)?, &lu.solve(&b)?, &b)?;
    // Nor have factors that were made without recording.
    let lu = no_grad(|| sparse::lu(&a))?;
    assert!(!lu.solve(&b)?.requires_grad());
    Ok(())
}

#[test]
fn singular_systems_are_named() -> Result<()> {
    let b = tensor![1.0, 2.0];
    let text = said(sparse::spsolve(
        &tensor![[1.0, 2.0], [2.0, 4.0]].to_sparse()?,
        &b,
    ));
    assert!(
        text.contains("sparse.spsolve") && text.contains("the matrix is singular"),
        "{text}"
    );
    // A triangle divides by its diagonal.
    for a in [
        tensor![[1.0, 1.0], [0.0, 0.0]],
        tensor![[1.0, 0.0], [1.0, 0.0]],
    ] {
        let text = said(sparse::spsolve(&a.to_sparse_csr()?, &b));
        assert!(
            text.contains("element [1, 1] of its diagonal is 0"),
            "{text}"
        );
    }
    let one = tensor![[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]].to_sparse()?;
    let text = said(sparse::lu(&one));
    assert!(
        text.contains("sparse.lu") && text.contains("1 elements are stored for 3 rows"),
        "{text}"
    );
    let row = tensor![[1.0, 1.0], [0.0, 0.0]].to_sparse()?;
    assert!(said(sparse::lu(&row)).contains("row 1 stores no element"));
    let column = tensor![[1.0, 0.0], [1.0, 0.0]].to_sparse()?;
    assert!(said(sparse::lu(&column)).contains("column 1 stores no element"));
    // Two columns have one row.
    let shape = tensor![[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]].to_sparse()?;
    let text = said(sparse::lu(&shape));
    assert!(text.contains("the matrix is singular"), "{text}");
    let zeros = tensor![[1.0, 2.0], [2.0, 4.0]].to_sparse()?.mul(0.0)?;
    assert!(said(sparse::lu(&zeros)).contains("the matrix is singular"));
    // Small and large numbers are not singular.
    for scale in [1e-30, 1e30] {
        let a = tensor![[4.0, 2.0], [2.0, -4.0]].mul(scale)?;
        let x = sparse::spsolve(&a.to_sparse()?, &tensor![10.0, 0.0].mul(scale)?)?;
        close("scaled", &x, &tensor![2.0, 1.0])?;
    }

    let text = said(sparse::cholesky(
        &tensor![[1.0, 2.0], [2.0, 1.0]].to_sparse()?,
    ));
    assert!(
        text.contains("sparse.cholesky") && text.contains("not positive definite"),
        "{text}"
    );
    assert!(text.contains("sparse::lu"), "{text}");
    let hole = tensor![[0.0, 2.0], [2.0, 1.0]].to_sparse()?;
    assert!(said(sparse::cholesky(&hole)).contains("the pivot of row"));
    // What is above the diagonal is not read.
    let upper = tensor![[4.0, 9.0], [0.0, 16.0]].to_sparse()?;
    let x = sparse::cholesky(&upper)?.solve(&tensor![8.0, 16.0])?;
    assert_eq!(x, tensor![2.0, 1.0]);
    Ok(())
}

#[test]
fn wrong_operands_are_named() -> Result<()> {
    let dense = tensor![[4.0, 2.0], [2.0, -4.0]];
    let (a, b) = (dense.to_sparse_csr()?, tensor![1.0, 2.0]);
    let lu = sparse::lu(&a)?;
    let same = |text: String, part: &str| assert!(text.contains(part), "{text}");
    same(said(sparse::lu(&dense)), "expected a sparse tensor");
    same(
        said(sparse::spsolve(&dense, &b)),
        "expected a sparse tensor",
    );
    let wide = tensor![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]].to_sparse()?;
    same(said(sparse::lu(&wide)), "expected a square matrix");
    same(said(sparse::spsolve(&wide, &b)), "expected a square matrix");
    let batch = Tensor::stack(&[&dense, &dense], 0)?.to_sparse_csr()?;
    same(said(sparse::cholesky(&batch)), "select(0, i)");
    same(said(sparse::spsolve(&batch, &b)), "select(0, i)");
    let long = tensor![1.0, 2.0, 3.0];
    same(
        said(lu.solve(&long)),
        "does not belong to a matrix of shape [2, 2]",
    );
    same(
        said(sparse::spsolve(&a, &long)),
        "does not belong to a matrix of shape [2, 2]",
    );
    same(said(lu.solve(&dense.unsqueeze(0)?)), "pass a vector [2]");
    same(said(lu.solve(&b.to_dtype(DType::F64)?)), "the same dtype");
    same(
        said(sparse::spsolve(&a, &b.to_dtype(DType::F64)?)),
        "the same dtype",
    );
    same(said(lu.solve(&dense.to_sparse()?)), "must be strided");
    same(
        said(sparse::spsolve(&a, &dense.to_sparse()?)),
        "must be strided",
    );
    for dtype in [DType::F16, DType::I64] {
        let (a, b) = (dense.to_dtype(dtype)?.to_sparse()?, b.to_dtype(dtype)?);
        same(
            said(sparse::lu(&a)),
            &format!("not implemented for {dtype}"),
        );
        same(
            said(sparse::spsolve(&a, &b)),
            &format!("not implemented for {dtype}"),
        );
    }
    let nan = Tensor::from_data(&[4.0, f64::NAN, 2.0, -4.0], [2, 2])?.to_sparse()?;
    same(said(sparse::lu(&nan)), "infinite or nan");
    // A shape without memory for its rows.
    let far = sparse::coo(&tensor![[0], [0]], &tensor![1.0], [1usize << 40, 1 << 40])?;
    same(said(sparse::lu(&far)), "the matrix is singular");
    let meta = a.to_device(Device::Meta)?;
    same(said(sparse::lu(&meta)), "meta device");
    Ok(())
}

#[test]
fn empty_systems_have_empty_solutions() -> Result<()> {
    let none = Tensor::zeros([2, 0], DType::I64, Device::Cpu)?;
    let a = sparse::coo(&none, &Tensor::zeros(0, DType::F32, Device::Cpu)?, [0, 0])?;
    for shape in [vec![0usize], vec![0, 3], vec![0, 0]] {
        let b = Tensor::zeros(&shape, DType::F32, Device::Cpu)?;
        assert_eq!(sparse::lu(&a)?.solve(&b)?.dims(), shape);
        assert_eq!(sparse::cholesky(&a)?.solve(&b)?.dims(), shape);
        assert_eq!(sparse::spsolve(&a, &b)?.dims(), shape);
    }
    let a = tensor![[4.0, 2.0], [2.0, -4.0]].to_sparse_csr()?;
    let b = Tensor::zeros([2, 0], DType::F32, Device::Cpu)?;
    assert_eq!(sparse::lu(&a)?.solve(&b)?.dims(), [2, 0]);
    assert_eq!(sparse::spsolve(&a, &b)?.dims(), [2, 0]);
    Ok(())
}

#[test]
fn the_shape_of_a_solution_is_known_without_data() -> Result<()> {
    let a = mixed(6, DType::F64)?
        .to_sparse_csr()?
        .to_device(Device::Meta)?;
    let b = sides(6, 2, DType::F64)?.to_device(Device::Meta)?;
    let x = sparse::spsolve(&a, &b)?;
    assert_eq!((x.dims(), x.device()), (&[6, 2][..], Device::Meta));
    Ok(())
}
