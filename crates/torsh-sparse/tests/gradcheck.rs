//! First and second derivatives of every op, by finite differences, for each layout of each operand, in float64 and
//! complex128: at the stored elements, and at all where the gradient is strided.
//!
//! Each run checks all first derivatives in float64, in one direction. Derivatives by single elements, second derivatives
//! and those of complex numbers are divided into parts, of which a run checks one: that of the day.

use torsh_autograd::{GradcheckOptions, gradcheck_with, gradgradcheck_with};
use torsh_sparse::{self as sparse, SparseExt, SpmmReduce, ToDenseOptions};
use torsh_tensor::call::Arg;
use torsh_tensor::{AddOptions, AddmmOptions, NormOptions, Result, Tensor, TorshError, tensor};

use crate::common::{
    Kind, LAYOUTS, batches, dense, hybrids, is_todays, matrices, options, part, sampler, tall,
};

type Function<'a> = &'a dyn Fn(&[Tensor]) -> Result<Tensor>;
type Unary = fn(&Tensor) -> Result<Tensor>;

/// What the gradient of a sparse operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gradient {
    /// Of its stored elements.
    Pattern,
    /// Of all elements.
    Strided,
}

use Gradient::{Pattern, Strided};

/// The numbers that an operand may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Real,
    Both,
}

/// Checks a function of operands of these kinds.
fn passes_on(numbers: Numbers, what: &str, kinds: &[Kind], gradient: Gradient, f: Function<'_>) {
    for complex in [false, true] {
        let what = format!("{what} of {kinds:?}, complex: {complex}");
        let whole = is_todays(&what);
        let runs = !complex || numbers == Numbers::Both && whole;
        if runs && let Err(e) = check(kinds, complex, whole, gradient, f) {
            panic!("{what}: {e}; TORSH_CI_PART={} repeats it", part());
        }
    }
}

fn passes(what: &str, kinds: &[Kind], gradient: Gradient, f: Function<'_>) {
    passes_on(Numbers::Both, what, kinds, gradient, f);
}

/// Checks first and second derivatives if `whole`, else first ones in one direction.
fn check(
    kinds: &[Kind],
    complex: bool,
    whole: bool,
    gradient: Gradient,
    f: Function<'_>,
) -> Result<()> {
    let mut s = sampler();
    let leaves = kinds
        .iter()
        .map(|k| Ok(k.tensor(&mut s, complex)?.requires_grad_(true)))
        .collect::<Result<Vec<Tensor>>>()?;
    // Where a result is sparse, the gradient that comes in is strided, and of its pattern where it is made dense.
    let plain = |x: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![f(x)?]) };
    let made_dense = |x: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![dense(&f(x)?)?]) };
    let stored = GradcheckOptions::new().masked(true);
    let fast = stored.fast_mode(true);
    match (whole, complex) {
        (false, _) => {
            gradcheck_with(plain, &leaves, fast)?;
        }
        (true, false) => {
            gradcheck_with(plain, &leaves, stored)?;
            gradgradcheck_with(made_dense, &leaves, fast)?;
        }
        (true, true) => {
            gradcheck_with(made_dense, &leaves, fast)?;
            gradgradcheck_with(plain, &leaves, fast)?;
        }
    }
    if gradient == Strided {
        let all = GradcheckOptions::new();
        gradcheck_with(plain, &leaves, all.fast_mode(complex || !whole))?;
        if whole {
            gradgradcheck_with(plain, &leaves, all.fast_mode(true))?;
        }
    }
    Ok(())
}

/// One operand of each kind.
fn each(what: &str, kinds: &[Kind], gradient: Gradient, f: Unary) {
    for kind in kinds {
        passes(what, std::slice::from_ref(kind), gradient, &|x| f(&x[0]));
    }
}

/// [`each`], of real numbers.
fn each_real(what: &str, kinds: &[Kind], f: Unary) {
    for kind in kinds {
        let one = std::slice::from_ref(kind);
        passes_on(Numbers::Real, what, one, Pattern, &|x| f(&x[0]));
    }
}

/// A sparse operand of each kind, and a strided one behind it.
fn beside(
    what: &str,
    kinds: &[Kind],
    shape: &[usize],
    gradient: Gradient,
    f: fn(&Tensor, &Tensor) -> Result<Tensor>,
) {
    for kind in kinds {
        let two = [kind.clone(), Kind::strided(shape)];
        passes(what, &two, gradient, &|x| f(&x[0], &x[1]));
    }
}

fn all_kinds() -> Result<Vec<Kind>> {
    Ok([matrices()?, batches()?, hybrids()?].concat())
}

fn coo_kinds(kinds: Vec<Kind>) -> Vec<Kind> {
    let is_coo = |k: &Kind| k.pattern().is_some_and(|p| p.layout() == LAYOUTS[0]);
    kinds.into_iter().filter(is_coo).collect()
}

#[test]
fn elementwise() -> Result<()> {
    let kinds = all_kinds()?;
    let of_both: [(&str, Unary); 7] = [
        ("neg", |x| x.neg()),
        ("tanh", |x| x.tanh()),
        ("square", |x| x.square()),
        ("abs", |x| x.abs()),
        ("mul", |x| x.mul(2.5)),
        ("div", |x| x.div(-2.5)),
        ("mul_", |x| {
            let y = x.copy()?;
            y.mul_(2.5)?.sin_()?.tanh_()?;
            Ok(y)
        }),
    ];
    for (what, f) in of_both {
        each(what, &kinds, Pattern, f);
    }
    let matrices = matrices()?;
    let of_real: [(&str, Unary); 4] = [
        ("pow", |x| x.pow(3.0)),
        ("relu", |x| x.relu()),
        ("maximum", |x| x.maximum(0.0)),
        ("remainder", |x| x.remainder(0.7)),
    ];
    for (what, f) in of_real {
        each_real(what, &matrices, f);
    }
    Ok(())
}

#[test]
fn products_with_strided_factors() -> Result<()> {
    let (matrices, batches, hybrids) = (matrices()?, batches()?, hybrids()?);
    for shape in [&[][..], &[3], &[2, 1], &[2, 3]] {
        beside("mul", &matrices, shape, Pattern, |x, t| x.mul(t));
    }
    beside("t * x", &matrices, &[3], Pattern, |x, t| t.mul(x));
    beside("mul", &batches, &[2, 1, 3], Pattern, |x, t| x.mul(t));
    beside("mul", &hybrids, &[3, 1], Pattern, |x, t| x.mul(t));
    beside("div", &matrices, &[], Pattern, |x, t| x.div(t));
    Ok(())
}

#[test]
fn sums_with_strided_tensors() -> Result<()> {
    let matrices = matrices()?;
    beside("x + t", &matrices, &[2, 3], Strided, |x, t| x.add(t));
    beside("t + x", &matrices, &[2, 3], Strided, |x, t| t.add(x));
    beside("x - t", &matrices, &[2, 3], Strided, |x, t| x.sub(t));
    beside("t - 2 x", &matrices, &[2, 3], Strided, |x, t| {
        t.add_with(x, AddOptions::new().alpha(-2.0))
    });
    beside("x + row", &matrices, &[3], Strided, |x, t| x.add(t));
    beside("t + x", &batches()?, &[2, 2, 3], Strided, |x, t| t.add(x));
    beside("t + x", &hybrids()?, &[2, 3, 2], Strided, |x, t| t.add(x));
    Ok(())
}

/// All pairs of layouts; with complex numbers those of one layout.
fn pairs(what: &str, left: &[Kind], right: &[Kind], f: fn(&Tensor, &Tensor) -> Result<Tensor>) {
    for (i, a) in left.iter().enumerate() {
        for (j, b) in right.iter().enumerate() {
            let numbers = if i == j { Numbers::Both } else { Numbers::Real };
            let two = [a.clone(), b.clone()];
            passes_on(numbers, what, &two, Pattern, &|x| f(&x[0], &x[1]));
        }
    }
}

#[test]
fn two_sparse_operands() -> Result<()> {
    let matrices = matrices()?;
    pairs("x - y", &matrices, &matrices, |x, y| x.sub(y));
    pairs("mul", &matrices, &matrices, |x, y| x.mul(y));
    for kinds in [batches()?, hybrids()?] {
        for k in &kinds {
            let two = [k.clone(), k.clone()];
            passes("add", &two, Pattern, &|x| {
                x[0].add_with(&x[1], AddOptions::new().alpha(1.5))
            });
            passes("mul", &two, Pattern, &|x| x[0].mul(&x[1]));
        }
    }
    each("twice", &all_kinds()?, Pattern, |x| x.mul(x)?.add(x));
    // The second factor broadcasts.
    let row = tensor![0i64, 1, 0].to_sparse()?;
    let row = Kind::Sparse(row.pattern().expect("a sparse tensor"));
    for k in coo_kinds(matrices) {
        passes("mul by a row", &[k, row.clone()], Pattern, &|x| {
            x[0].mul(&x[1])
        });
    }
    Ok(())
}

#[test]
fn reductions() -> Result<()> {
    let kinds = all_kinds()?;
    each("sum", &kinds, Strided, |x| x.sum());
    each("mean", &kinds, Strided, |x| x.mean());
    each("sum 0", &kinds, Pattern, |x| x.sum_dim(0, false));
    each("sum -1", &kinds, Pattern, |x| x.sum_dim(-1, true));
    each("mean 1", &kinds, Pattern, |x| x.mean_dim(1, false));
    each("sparse.sum", &kinds, Pattern, |x| sparse::sum(x, None));
    each("sparse.sum 1", &kinds, Pattern, |x| sparse::sum(x, 1));
    each("norm", &kinds, Pattern, |x| {
        x.norm_with(NormOptions::new().p(2.0))
    });
    each("norm 0", &matrices()?, Pattern, |x| {
        x.norm_with(NormOptions::new().p(2.0).dim(0))
    });
    Ok(())
}

#[test]
fn softmax() -> Result<()> {
    let kinds = all_kinds()?;
    each_real("softmax 0", &kinds, |x| sparse::softmax(x, 0));
    each_real("softmax -1", &kinds, |x| sparse::softmax(x, -1));
    each_real("log_softmax 1", &kinds, |x| sparse::log_softmax(x, 1));
    Ok(())
}

#[test]
fn shapes() -> Result<()> {
    let (kinds, matrices) = (all_kinds()?, matrices()?);
    each("unsqueeze 0", &kinds, Pattern, |x| x.unsqueeze(0));
    each("unsqueeze -1", &kinds, Pattern, |x| x.unsqueeze(-1));
    each("squeeze", &kinds, Pattern, |x| x.unsqueeze(1)?.squeeze(1));
    each("t", &matrices, Pattern, |x| x.t());
    each("reshape", &matrices, Pattern, |x| x.reshape([3, 2]));
    each("flatten", &matrices, Pattern, |x| x.flatten(0));
    each("expand", &matrices, Pattern, |x| x.expand([2, 2, 3]));
    each("transpose", &batches()?, Pattern, |x| x.transpose(1, 2));
    each("transpose", &hybrids()?, Pattern, |x| x.transpose(0, 1));
    each("permute", &coo_kinds(batches()?), Pattern, |x| {
        x.permute([2, 0, 1])
    });
    each("reshape", &coo_kinds(hybrids()?), Pattern, |x| {
        x.reshape([6, 2])
    });
    Ok(())
}

#[test]
fn parts_and_joins() -> Result<()> {
    let (kinds, matrices) = (all_kinds()?, matrices()?);
    each("select", &kinds, Pattern, |x| x.select(0, 1));
    each("narrow", &kinds, Pattern, |x| x.narrow(-1, 0, 2));
    each("slice", &kinds, Pattern, |x| {
        x.slice_step(1, Some(0), None, 2)
    });
    each("index_select", &matrices, Pattern, |x| {
        x.index_select(1, &tensor![2i64, 0, 2])
    });
    each("index_select", &hybrids()?, Pattern, |x| {
        x.index_select(0, &tensor![1i64, 0, 1])
    });
    each("i", &matrices, Pattern, |x| x.i((1, 0..2)));
    each("tril", &matrices, Pattern, |x| x.tril(0));
    each("triu", &matrices, Pattern, |x| x.triu(1));
    for k in &kinds {
        let two = [k.clone(), k.clone()];
        passes("cat", &two, Pattern, &|x| Tensor::cat(x, 0));
        passes("stack", &two, Pattern, &|x| Tensor::stack(x, 0));
    }
    pairs("cat", &matrices, &matrices, |x, y| Tensor::cat(&[x, y], 1));
    Ok(())
}

#[test]
fn conversions() -> Result<()> {
    for kind in all_kinds()? {
        for layout in LAYOUTS {
            let what = format!("to {layout}");
            let one = [kind.clone()];
            passes(&what, &one, Pattern, &|x| {
                x[0].to_sparse_with(options(layout))
            });
        }
    }
    for layout in LAYOUTS {
        for shape in [&[2, 3][..], &[2, 2, 3]] {
            let what = format!("to {layout}");
            passes(&what, &[Kind::strided(shape)], Pattern, &|x| {
                x[0].to_sparse_with(options(layout))
            });
        }
    }
    let kinds = all_kinds()?;
    each("to_dense", &kinds, Pattern, |x| x.to_dense());
    each("to_dense without a mask", &kinds, Strided, |x| {
        x.to_dense_with(ToDenseOptions::new().masked_grad(false))
    });
    each("coalesce", &coo_kinds(kinds.clone()), Pattern, |x| {
        x.coalesce()
    });
    each("values", &kinds, Pattern, |x| match x.is_sparse() {
        true => x.coalesce()?.values(),
        false => x.values(),
    });
    each("clone", &kinds, Pattern, |x| x.copy());
    each_real("to complex numbers", &kinds, |x| {
        x.to_dtype(torsh_tensor::DType::C128)
    });
    Ok(())
}

#[test]
fn constructors() -> Result<()> {
    passes("coo", &[Kind::strided(&[3, 2])], Pattern, &|x| {
        sparse::coo(&tensor![[1i64, 0, 1], [2, 1, 2]], &x[0], [2, 3, 2])
    });
    let (crow, col) = (tensor![0i64, 1, 3], tensor![1i64, 0, 2]);
    passes("csr", &[Kind::strided(&[3])], Pattern, &|x| {
        sparse::csr(&crow, &col, &x[0], [2, 3])
    });
    passes("csc", &[Kind::strided(&[3])], Pattern, &|x| {
        sparse::csc(&crow, &col, &x[0], [3, 2])
    });
    passes("bsr", &[Kind::strided(&[3, 1, 2])], Pattern, &|x| {
        sparse::bsr(&crow, &col, &x[0], [2, 6])
    });
    passes("bsc", &[Kind::strided(&[3, 1, 2])], Pattern, &|x| {
        sparse::bsc(&crow, &col, &x[0], [3, 4])
    });
    passes("spdiags", &[Kind::strided(&[2, 3])], Pattern, &|x| {
        sparse::spdiags(&x[0], &tensor![0i64, 1], [2, 3])
    });
    Ok(())
}

#[test]
fn masks() -> Result<()> {
    let matrices = matrices()?;
    let mut s = sampler();
    for mask in [1, 2, 4] {
        let mask = matrices[mask].tensor(&mut s, false)?;
        for k in matrices.iter().cloned().chain([Kind::strided(&[2, 3])]) {
            passes("sparse_mask", &[k], Pattern, &|x| {
                sparse::mask(&x[0], &mask)
            });
        }
    }
    Ok(())
}

#[test]
fn products_with_strided_operands() -> Result<()> {
    let matrices = matrices()?;
    beside("x @ d", &matrices, &[3, 2], Strided, |x, d| x.matmul(d));
    beside("d @ x", &matrices, &[1, 2], Strided, |x, d| d.matmul(x));
    beside("mm", &matrices, &[3, 1], Strided, |x, d| x.mm(d));
    beside("mv", &matrices, &[3], Strided, |x, d| x.mv(d));
    beside("v @ x", &matrices, &[2], Strided, |x, d| d.matmul(x));
    beside("linear", &matrices, &[1, 3], Strided, |x, d| {
        d.linear(x, None)
    });
    beside("linear of x", &matrices, &[1, 3], Strided, |x, d| {
        x.linear(d, None)
    });
    for k in &matrices {
        let three = |a: &[usize], b: &[usize]| [k.clone(), Kind::strided(a), Kind::strided(b)];
        let options = || AddmmOptions::new().beta(0.5).alpha(2.0);
        passes("addmm", &three(&[2, 1], &[3, 1]), Strided, &|x| {
            x[1].addmm_with(&x[0], &x[2], options())
        });
        passes("addmm", &three(&[3], &[1, 2]), Strided, &|x| {
            x[1].addmm_with(&x[2], &x[0], options())
        });
        passes("addmv", &three(&[2], &[3]), Strided, &|x| {
            x[1].addmv(&x[0], &x[2])
        });
        passes("linear", &three(&[1, 3], &[2]), Strided, &|x| {
            x[1].linear(&x[0], &x[2])
        });
    }
    Ok(())
}

#[test]
fn batches_of_products() -> Result<()> {
    let batches = batches()?;
    beside("x @ d", &batches, &[3, 1], Strided, |x, d| x.matmul(d));
    beside("x @ d", &batches, &[2, 3, 1], Strided, |x, d| x.matmul(d));
    beside("bmm", &batches, &[2, 3, 1], Strided, |x, d| x.bmm(d));
    beside("d @ x", &batches, &[2, 1, 2], Strided, |x, d| d.matmul(x));
    beside("x @ v", &batches, &[3], Strided, |x, d| x.matmul(d));
    beside("baddbmm", &batches, &[2, 3, 1], Strided, |x, d| {
        tensor![[[1.0f64]]]
            .to_dtype(x.dtype())?
            .expand([2, 2, 1])?
            .baddbmm(x, d)
    });
    // Matrices that are the same for a whole batch.
    beside("x @ d", &matrices()?[1..3], &[2, 3, 1], Strided, |x, d| {
        x.matmul(d)
    });
    Ok(())
}

#[test]
fn products_by_pattern() -> Result<()> {
    let matrices = matrices()?;
    beside("sparse.mm", &matrices, &[3, 2], Pattern, |x, d| {
        sparse::mm(x, d)
    });
    beside("sparse.mm", &matrices, &[1, 2], Pattern, |x, d| {
        sparse::mm(d, x)
    });
    beside("mean", &matrices, &[3, 2], Pattern, |x, d| {
        sparse::spmm(x, d, SpmmReduce::Mean)
    });
    for k in &matrices {
        let two = [k.clone(), Kind::strided(&[3, 2])];
        for reduce in [SpmmReduce::Amax, SpmmReduce::Amin] {
            passes_on(Numbers::Real, reduce.as_str(), &two, Pattern, &|x| {
                sparse::spmm(&x[0], &x[1], reduce)
            });
        }
        let three = [k.clone(), Kind::strided(&[2, 1]), Kind::strided(&[3, 1])];
        passes("sparse.addmm", &three, Pattern, &|x| {
            let options = AddmmOptions::new().beta(0.5).alpha(2.0);
            sparse::addmm_with(&x[1], &x[0], &x[2], options)
        });
    }
    for (kinds, a, b) in [
        (&matrices, &[2, 1][..], &[1, 3][..]),
        (&batches()?, &[2, 2, 1][..], &[2, 1, 3][..]),
    ] {
        for k in kinds {
            let three = [k.clone(), Kind::strided(a), Kind::strided(b)];
            passes("sampled_addmm", &three, Pattern, &|x| {
                let options = AddmmOptions::new().beta(0.5).alpha(2.0);
                sparse::sampled_addmm_with(&x[0], &x[1], &x[2], options)
            });
        }
    }
    let coo = coo_kinds(matrices);
    beside("hspmm", &coo, &[3, 2], Pattern, sparse::hspmm);
    beside("smm", &coo, &[3, 2], Pattern, sparse::smm);
    for a in &coo {
        for b in &coo {
            let three = [a.clone(), b.clone(), Kind::strided(&[3, 3])];
            passes("sspaddmm", &three, Pattern, &|x| {
                let options = AddmmOptions::new().beta(0.5).alpha(2.0);
                sparse::sspaddmm_with(&x[0], &x[1], &x[2], options)
            });
        }
    }
    Ok(())
}

#[test]
fn products_of_sparse_matrices() -> Result<()> {
    let (matrices, tall) = (matrices()?, tall()?);
    pairs("sparse.mm", &matrices, &tall, sparse::mm);
    for (a, b) in matrices.iter().zip(&tall) {
        let two = [a.clone(), b.clone()];
        let layout = a.pattern().map(|p| p.layout());
        // COO and CSR: the product that the gradient is, with all its elements.
        let whole = layout == Some(LAYOUTS[0]) || layout == Some(LAYOUTS[1]);
        let gradient = if whole { Strided } else { Pattern };
        passes("matmul", &two, gradient, &|x| x[0].matmul(&x[1]));
    }
    for k in batches()? {
        let two = [k.clone(), k];
        passes("bmm", &two, Pattern, &|x| {
            x[0].matmul(&x[1].transpose(1, 2)?)
        });
    }
    Ok(())
}

mod arguments {
    #![allow(dead_code)]

    torsh_core::attributes! {
        /// The arguments of `triangular_solve`.
        Triangular {
            /// Whether the upper triangle is read.
            upper: bool,
            /// Whether the matrix is transposed.
            transpose: bool,
            /// Whether the diagonal is taken as ones.
            unitriangular: bool,
        }
    }
}

/// Matrices of two rows whose elements are on the diagonal and below.
fn triangles() -> Result<Vec<Kind>> {
    let x = tensor![[1i64, 0], [1, 1]];
    let mut all = Vec::new();
    for layout in LAYOUTS {
        let how = sparse::ToSparseOptions::new().layout(layout);
        let x = x.to_sparse_with(match layout.is_blocked() {
            true => how.blocksize([1, 1]),
            false => how,
        })?;
        all.push(Kind::Sparse(x.pattern().expect("a sparse tensor")));
    }
    let twice = tensor![[1i64, 1, 0, 1], [1, 0, 0, 1]];
    let twice = sparse::Pattern::coo(&[2, 2], &twice, false)?;
    all.push(Kind::Sparse(twice));
    Ok(all)
}

#[test]
fn triangular_systems() -> Result<()> {
    let triangles = triangles()?;
    beside("spsolve", &triangles, &[2], Pattern, sparse::spsolve);
    beside("spsolve", &triangles, &[2, 2], Pattern, sparse::spsolve);
    for i in 0..8 {
        let how = arguments::Triangular {
            upper: i & 1 != 0,
            transpose: i & 2 != 0,
            unitriangular: i & 4 != 0,
        };
        for k in &triangles {
            let two = [k.clone(), Kind::strided(&[2, 1])];
            passes(&format!("{how:?}"), &two, Pattern, &|x| {
                let args = [Arg::T(&x[1]), Arg::T(&x[0])];
                torsh_tensor::sparse::call1("triangular_solve", &args, &how)
            });
        }
    }
    Ok(())
}

#[test]
fn both_meanings_are_told_apart() -> Result<()> {
    let (stored, all) = (
        GradcheckOptions::new().masked(true),
        GradcheckOptions::new(),
    );
    let refusal = |r: Result<bool>| r.map(drop).expect_err("a difference").to_string();
    for kind in matrices()? {
        let x = kind.tensor(&mut sampler(), false)?.requires_grad_(true);
        let x = std::slice::from_ref(&x);
        // The gradient stores nothing where the tensor does not, though the result depends on all elements.
        let f = |x: &[Tensor]| -> Result<Vec<Tensor>> { Ok(vec![x[0].to_dense()?.sin()?]) };
        assert!(gradcheck_with(f, x, stored)?);
        let e = refusal(gradcheck_with(f, x, all));
        assert!(
            e.contains("gradcheck: the gradient of input 0")
                && e.contains("with all elements stored"),
            "{e}"
        );
        // What depends on the pattern has no derivative at elements that are not stored.
        let f = |x: &[Tensor]| -> Result<Vec<Tensor>> {
            let x = if x[0].is_sparse() {
                x[0].coalesce()?
            } else {
                x[0].clone()
            };
            Ok(vec![x.values()?.sin()?])
        };
        assert!(gradcheck_with(f, x, stored)?);
        assert!(gradgradcheck_with(f, x, stored)?);
        let e = refusal(gradcheck_with(f, x, all));
        assert!(
            e.contains("other shapes") && e.contains("masked(true)"),
            "{e}"
        );
    }
    Ok(())
}

#[test]
fn a_wrong_derivative_of_a_sparse_operand_is_found() -> Result<()> {
    use torsh_autograd::{Context, Function, apply};
    struct Wrong;
    impl Function for Wrong {
        fn forward(&self, cx: &mut Context, x: &[Tensor]) -> Result<Vec<Tensor>> {
            cx.save_for_backward(&[&x[0]]);
            Ok(vec![x[0].square()?.to_dense()?])
        }
        fn backward(&self, g: &[Option<Tensor>], s: &[Tensor]) -> Result<Vec<Option<Tensor>>> {
            // 2.01 x in place of 2 x.
            let g = g[0].clone().expect("zeros are filled in");
            Ok(vec![Some(s[0].mul(&g)?.mul(2.01)?)])
        }
    }
    for kind in &matrices()?[1..] {
        let x = kind.tensor(&mut sampler(), false)?.requires_grad_(true);
        for masked in [true, false] {
            let options = GradcheckOptions::new().masked(masked);
            let found = gradcheck_with(|x| apply(Wrong, &[&x[0]]), &[x.clone()], options);
            let e: TorshError = found.map(drop).expect_err("2.01 is not 2");
            let at = if masked {
                "of its stored values"
            } else {
                "with all elements stored"
            };
            assert!(e.to_string().contains(at), "{e}");
        }
    }
    Ok(())
}
