//! Elementwise ops, reductions, softmax, ops that change the shape or take a part, and copies: each on patterns drawn
//! at random against the same op on the dense tensor, values, gradients and, in one direction, second derivatives. Pairs
//! of two layouts are divided into parts, of which a run checks one: that of the day.

use torsh_autograd::{GradcheckOptions, gradgradcheck_with};
use torsh_sparse::{self as sparse, SparseExt};
use torsh_tensor::sparse::{Pattern, from_values};
use torsh_tensor::{
    AddOptions, DType, NormOptions, Result, SumOptions, Tensor, TensorLayout, grad, tensor,
};

use crate::common::{LAYOUTS, dense, is_todays, part};

/// Numbers that are the same in every run.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }
    /// A number of magnitude 0.3 to 1.5.
    fn number(&mut self) -> f64 {
        let size = 0.3 + (self.next() >> 40) as f64 / (1u64 << 24) as f64 * 1.2;
        if self.next() & (1 << 40) == 0 {
            size
        } else {
            -size
        }
    }
    fn numbers(&mut self, shape: &[usize]) -> Result<Tensor> {
        let n: usize = shape.iter().product();
        let data: Vec<f64> = (0..n).map(|_| self.number()).collect();
        Tensor::from_data(&data, shape)
    }
}

/// A COO pattern of `n` elements at places drawn at random: unsorted, some of them twice.
fn drawn(draws: &mut Draws, shape: &[usize], dense_dim: usize, n: usize) -> Result<Pattern> {
    let sparse = &shape[..shape.len() - dense_dim];
    let mut data = Vec::new();
    for &size in sparse {
        data.extend((0..n).map(|_| draws.below(size) as i64));
    }
    Pattern::coo(shape, &Tensor::from_vec(data, [sparse.len(), n])?, false)
}

/// The pattern in order, each element once.
fn ordered(pattern: &Pattern) -> Result<Pattern> {
    let ones = Tensor::ones(
        pattern.values_shape(),
        DType::F64,
        torsh_tensor::Device::Cpu,
    )?;
    let x = from_values(pattern, &ones)?.coalesce()?;
    Ok(x.pattern().expect("a sparse tensor"))
}

/// The pattern of the elements that are not 0 of a matrix.
fn of_matrix(mask: &Tensor, layout: TensorLayout) -> Result<Pattern> {
    let block = layout.is_blocked().then_some([2usize, 2]);
    let mut options = sparse::ToSparseOptions::new().layout(layout);
    if let Some(block) = block {
        options = options.blocksize(block);
    }
    let x = mask.to_sparse_with(options)?;
    Ok(x.pattern().expect("a sparse tensor"))
}

/// COO patterns: with duplicates, in order, without elements, with all.
fn coo_patterns(draws: &mut Draws, shape: &[usize], dense_dim: usize) -> Result<Vec<Pattern>> {
    let places: usize = shape[..shape.len() - dense_dim].iter().product();
    let some = drawn(draws, shape, dense_dim, places / 2)?;
    let full = drawn(draws, shape, dense_dim, 4 * places)?;
    Ok(vec![
        ordered(&some)?,
        some,
        drawn(draws, shape, dense_dim, 0)?.with_coalesced(true),
        ordered(&full)?,
        drawn(draws, shape, dense_dim, 1)?,
    ])
}

/// Patterns of a matrix in all layouts: with empty rows and columns, and with a full row.
fn matrices(draws: &mut Draws) -> Result<Vec<Pattern>> {
    let mut all = coo_patterns(draws, &[4, 6], 0)?;
    for layout in LAYOUTS {
        for kind in 0..3 {
            let keep = |i: usize, draws: &mut Draws| match kind {
                0 => draws.below(3) == 0 && i / 6 != 1,
                1 => i / 6 == 2 || draws.below(4) == 0,
                _ => false,
            };
            let data: Vec<f64> = (0..24)
                .map(|i| if keep(i, draws) { 1.0 } else { 0.0 })
                .collect();
            all.push(of_matrix(&Tensor::from_data(&data, [4, 6])?, layout)?);
        }
    }
    Ok(all)
}

type Function<'a> = &'a dyn Fn(&[Tensor]) -> Result<Tensor>;

fn close(what: &str, a: &Tensor, b: &Tensor) -> Result<()> {
    assert_eq!(a.shape(), b.shape(), "{what}");
    let nan = torsh_tensor::IscloseOptions::new().equal_nan(true);
    assert!(a.allclose_with(b, nan)?, "{what}: {a} is not {b}");
    Ok(())
}

/// Compares a function of sparse tensors with one of the same tensors made dense: results, gradients of the stored values, and
/// the second derivatives with finite differences in one direction.
fn compare(
    what: &str,
    draws: &mut Draws,
    patterns: &[Pattern],
    of_sparse: Function<'_>,
    of_dense: Function<'_>,
) -> Result<()> {
    let what = format!("{what} of {patterns:?} (TORSH_CI_PART={})", part());
    let leaves = |draws: &mut Draws| {
        let each = patterns.iter();
        each.map(|p| Ok(draws.numbers(p.values_shape().dims())?.requires_grad_(true)))
            .collect::<Result<Vec<Tensor>>>()
    };
    let build = |leaves: &[Tensor]| {
        let each = patterns.iter().zip(leaves);
        each.map(|(p, v)| from_values(p, v))
            .collect::<Result<Vec<Tensor>>>()
    };
    let all_dense = |list: &[Tensor]| list.iter().map(dense).collect::<Result<Vec<Tensor>>>();
    let values = leaves(draws);
    let values = values?;
    let run_sparse = |v: &[Tensor]| dense(&of_sparse(&build(v)?)?);
    let run_dense = |v: &[Tensor]| of_dense(&all_dense(&build(v)?)?);
    let (a, b) = (
        run_sparse(&values).map_err(|e| panic_with(&what, e))?,
        run_dense(&values)?,
    );
    assert_eq!(a.dtype(), b.dtype(), "{what}");
    close(&what, &a, &b)?;
    // Zeros that are stored, which some functions have no derivative at.
    let zeros: Vec<Tensor> = values
        .iter()
        .map(|v| v.detach().mul(0.0))
        .collect::<Result<_>>()?;
    close(
        &what,
        &run_sparse(&zeros)?.detach(),
        &run_dense(&zeros)?.detach(),
    )?;
    if !a.requires_grad() {
        assert!(
            !b.requires_grad() || !b.dtype().is_differentiable(),
            "{what}"
        );
        return Ok(());
    }
    let weights = draws.numbers(a.dims())?;
    let (ga, gb) = (
        grad(&[a], &values, &[Some(weights.clone())], false, false, true),
        grad(&[b], &values, &[Some(weights)], false, false, true),
    );
    let (ga, gb) = (ga.map_err(|e| panic_with(&what, e))?, gb?);
    for ((a, b), v) in ga.iter().zip(&gb).zip(&values) {
        let zeros = v.detach().mul(0.0)?;
        let a = a.as_ref().unwrap_or(&zeros);
        let b = b.as_ref().unwrap_or(&zeros);
        close(&format!("gradient of {what}"), a, b)?;
    }
    let small = values.iter().map(Tensor::numel).sum::<usize>() <= 24;
    if small && values.iter().any(|v| v.numel() > 0) {
        // Element by element, this would take most of the time of all tests.
        let fast = GradcheckOptions::new().fast_mode(true);
        let second = gradgradcheck_with(|v| Ok(vec![run_sparse(v)?]), &values, fast);
        let second = second.map_err(|e| panic_with(&what, e))?;
        assert!(second, "second derivative of {what}");
    }
    Ok(())
}

fn panic_with(what: &str, e: torsh_tensor::TorshError) -> torsh_tensor::TorshError {
    panic!("{what}: {e}")
}

/// Whether an op is checked today on two patterns, which have these numbers: each day where they have the same layout.
fn is_checked(op: &str, [(i, p), (j, q)]: [(usize, &Pattern); 2]) -> bool {
    p.layout() == q.layout() || is_todays(&format!("{op} of {i} and {j}"))
}

/// One operand of each pattern, the same function on both sides.
fn alike(
    what: &str,
    draws: &mut Draws,
    patterns: &[Pattern],
    f: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<()> {
    let f = |x: &[Tensor]| f(&x[0]);
    for p in patterns {
        compare(what, draws, std::slice::from_ref(p), &f, &f)?;
    }
    Ok(())
}

#[test]
fn elementwise_with_numbers_and_strided_tensors() -> Result<()> {
    let draws = &mut Draws(11);
    let all = matrices(draws)?;
    let row = draws.numbers(&[6])?;
    let column = draws.numbers(&[4, 1])?;
    let whole = draws.numbers(&[4, 6])?;
    let one = tensor![1.5].to_dtype(DType::F64)?.reshape(())?;
    alike("mul 2.5", draws, &all, |x| x.mul(2.5))?;
    alike("mul 0-d", draws, &all, |x| x.mul(&one))?;
    alike("mul row", draws, &all, |x| x.mul(&row))?;
    alike("mul column", draws, &all, |x| column.mul(x))?;
    alike("mul whole", draws, &all, |x| x.mul(&whole))?;
    alike("div 2.5", draws, &all, |x| x.div(2.5))?;
    alike("div 0-d", draws, &all, |x| x.div(&one))?;
    alike("pow 2", draws, &all, |x| x.pow(2))?;
    alike("pow 3.0", draws, &all, |x| x.pow(3.0))?;
    alike("floor_divide 0.4", draws, &all, |x| x.floor_divide(0.4))?;
    alike("gt 0", draws, &all, |x| x.gt(0))?;
    alike("ne 0", draws, &all, |x| x.ne(0))?;
    alike("maximum 0", draws, &all, |x| x.maximum(0.0))?;
    alike("neg", draws, &all, |x| x.neg())?;
    alike("tanh", draws, &all, |x| x.tanh())?;
    alike("strided + x", draws, &all, |x| whole.add(x))?;
    alike("x + strided", draws, &all, |x| x.add(&whole))?;
    alike("strided - x", draws, &all, |x| whole.sub(x))?;
    alike("x - strided", draws, &all, |x| x.sub(&whole))?;
    alike("strided + 2 x", draws, &all, |x| {
        whole.add_with(x, AddOptions::new().alpha(2))
    })?;
    Ok(())
}

#[test]
fn a_strided_factor_has_a_gradient() -> Result<()> {
    let draws = &mut Draws(12);
    for shape in [&[][..], &[6], &[4, 1], &[4, 6]] {
        for p in matrices(draws)? {
            let v = draws.numbers(p.values_shape().dims())?;
            let t = draws.numbers(shape)?.requires_grad_(true);
            let x = from_values(&p, &v)?;
            let y = x.mul(&t)?.to_dense()?;
            let w = draws.numbers(&[4, 6])?;
            let a = grad(&[y], &[t.clone()], &[Some(w.clone())], false, false, false)?;
            let y = x.to_dense()?.mul(&t)?;
            let b = grad(&[y], &[t], &[Some(w)], false, false, false)?;
            let (a, b) = (a[0].clone().expect("used"), b[0].clone().expect("used"));
            close(&format!("gradient of a factor of {p:?}"), &a, &b)?;
        }
    }
    Ok(())
}

#[test]
fn two_sparse_operands() -> Result<()> {
    let draws = &mut Draws(13);
    let (all, others) = (matrices(draws)?, matrices(draws)?);
    let add: Function<'_> = &|x| x[0].add(&x[1]);
    let sub: Function<'_> = &|x| x[0].sub(&x[1]);
    let more: Function<'_> = &|x| x[0].add_with(&x[1], AddOptions::new().alpha(-1.5));
    let mul: Function<'_> = &|x| x[0].mul(&x[1]);
    for (i, p) in all.iter().enumerate() {
        for (j, q) in others.iter().enumerate() {
            let two = [p.clone(), q.clone()];
            for (name, f) in [("add", add), ("sub", sub), ("alpha", more), ("mul", mul)] {
                if is_checked(name, [(i, p), (j, q)]) {
                    compare(name, draws, &two, f, f)?;
                }
            }
        }
    }
    for p in coo_patterns(draws, &[3, 4, 2], 1)? {
        for q in coo_patterns(draws, &[3, 4, 2], 1)? {
            let two = [p.clone(), q];
            compare("add", draws, &two, add, add)?;
            compare("mul", draws, &two, mul, mul)?;
        }
    }
    Ok(())
}

#[test]
fn products_of_broadcast_sparse_operands() -> Result<()> {
    let draws = &mut Draws(14);
    let mul: Function<'_> = &|x| x[0].mul(&x[1]);
    for p in coo_patterns(draws, &[3, 4], 0)? {
        for q in coo_patterns(draws, &[4], 0)? {
            compare("mul", draws, &[p.clone(), q.clone()], mul, mul)?;
            compare("mul", draws, &[q, p.clone()], mul, mul)?;
        }
        for q in coo_patterns(draws, &[2, 3, 1], 0)? {
            compare("mul", draws, &[p.clone(), q], mul, mul)?;
        }
    }
    Ok(())
}

#[test]
fn positions_beyond_64_bits() -> Result<()> {
    let side = 1usize << 40;
    let indices = Tensor::from_data(&[5i64, 1 << 39, 5, 7, 1 << 38, 7], [2, 3])?;
    let x = sparse::coo(&indices, &tensor![1.0, 2.0, 3.0], [side, side])?;
    let y = x.add(&x.mul(2.0)?)?.coalesce()?;
    assert_eq!(y.values()?, tensor![12.0, 6.0]);
    assert_eq!(x.coalesce()?.mul(&y)?.values()?, tensor![48.0, 12.0]);
    assert_eq!(sparse::sum(&x, 1)?.values()?, tensor![4.0, 2.0]);
    let soft = sparse::softmax(&x, 0)?;
    assert_eq!(soft.values()?, tensor![1.0, 1.0]);
    Ok(())
}

#[test]
fn reductions() -> Result<()> {
    let draws = &mut Draws(15);
    let mut all = matrices(draws)?;
    let flat = all.clone();
    all.extend(coo_patterns(draws, &[2, 3, 2], 1)?);
    all.extend(coo_patterns(draws, &[2, 2, 3], 0)?);
    let whole = |x: &Tensor, dims: &[i64], keepdim: bool| -> Result<Tensor> {
        let options = SumOptions::new().keepdim(keepdim);
        match dims {
            [] => x.sum_with(options),
            dims => x.sum_with(options.dim(dims)),
        }
    };
    let lists: [&[i64]; 5] = [&[], &[0], &[-1], &[0, 1], &[1]];
    for dims in lists {
        for keepdim in [false, true] {
            let name = format!("sum {dims:?} {keepdim}");
            alike(&name, draws, &all, |x| whole(x, dims, keepdim))?;
            let own: Function<'_> = &|x| {
                let options = SumOptions::new().keepdim(keepdim);
                match dims {
                    [] => sparse::sum_with(&x[0], options),
                    dims => sparse::sum_with(&x[0], options.dim(dims)),
                }
            };
            for p in &all {
                let one = std::slice::from_ref(p);
                compare("sparse.sum", draws, one, own, &|x| {
                    whole(&x[0], dims, keepdim)
                })?;
            }
        }
    }
    alike("mean", draws, &all, Tensor::mean)?;
    alike("mean 0", draws, &all, |x| x.mean_dim(0, false))?;
    alike("any", draws, &all, Tensor::any)?;
    alike("any 1", draws, &all, |x| x.any_dim(1, true))?;
    alike("count_nonzero", draws, &all, Tensor::count_nonzero)?;
    alike("count_nonzero 0", draws, &all, |x| x.count_nonzero_dim(0))?;
    let filled: Vec<Pattern> = flat.into_iter().filter(|p| p.nnz() > 0).collect();
    for p in [1.0, 2.0, 3.0, f64::INFINITY] {
        let f: Function<'_> = &|x| x[0].norm_with(NormOptions::new().p(p));
        for pattern in &filled {
            // At 0 a norm has no derivative.
            let v = draws
                .numbers(pattern.values_shape().dims())?
                .requires_grad_(true);
            let x = from_values(pattern, &v)?;
            let (a, b) = (f(&[x.clone()])?, f(&[x.to_dense()?])?);
            close("norm", &a, &b)?;
            let a = grad(&[a], &[v.clone()], &[None], true, false, false)?;
            let b = grad(&[b], &[v], &[None], false, false, false)?;
            close(
                "gradient of norm",
                &a[0].clone().expect("used"),
                &b[0].clone().expect("used"),
            )?;
        }
    }
    Ok(())
}

/// The softmax of the elements that a mask marks, 0 elsewhere.
fn masked_softmax(x: &Tensor, mask: &Tensor, dim: i64, log: bool) -> Result<Tensor> {
    let hidden = mask.logical_not()?;
    let x = x.masked_fill(&hidden, f64::NEG_INFINITY)?;
    // Lines without an element have no softmax.
    let none = mask.any_dim(dim, true)?.logical_not()?.expand(x.shape())?;
    let x = x.masked_fill(&none, 0.0)?;
    let y = if log {
        x.log_softmax(dim)?
    } else {
        x.softmax(dim)?
    };
    y.masked_fill(&hidden, 0.0)
}

#[test]
fn softmax_of_stored_elements() -> Result<()> {
    let draws = &mut Draws(16);
    let mut all = matrices(draws)?;
    all.extend(coo_patterns(draws, &[2, 3, 2], 0)?);
    all.extend(coo_patterns(draws, &[2, 3, 2], 1)?);
    for p in &all {
        let ones = Tensor::ones(p.values_shape(), DType::F64, torsh_tensor::Device::Cpu)?;
        let mask = from_values(p, &ones)?.to_dense()?.ne(0)?;
        for dim in 0..p.shape().ndim() as i64 {
            let one = std::slice::from_ref(p);
            compare(
                "softmax",
                draws,
                one,
                &|x| sparse::softmax(&x[0], dim),
                &|x| masked_softmax(&x[0], &mask, dim, false),
            )?;
            compare(
                "log_softmax",
                draws,
                one,
                &|x| sparse::log_softmax(&x[0], dim),
                &|x| masked_softmax(&x[0], &mask, dim, true),
            )?;
        }
    }
    Ok(())
}

#[test]
fn shapes() -> Result<()> {
    let draws = &mut Draws(17);
    let mut all = matrices(draws)?;
    alike("t", draws, &all, Tensor::t)?;
    alike("reshape", draws, &all, |x| x.reshape([3, 8]))?;
    alike("flatten", draws, &all, |x| x.flatten(0))?;
    alike("expand", draws, &all, |x| x.expand([2, 4, 6]))?;
    alike("tril", draws, &all, |x| x.tril(0))?;
    alike("tril -2", draws, &all, |x| x.tril(-2))?;
    alike("triu 1", draws, &all, |x| x.triu(1))?;
    let cubes = coo_patterns(draws, &[2, 3, 2], 0)?;
    alike("permute", draws, &cubes, |x| x.permute([2, 0, 1]))?;
    alike("tril of a cube", draws, &cubes, |x| x.tril(0))?;
    let thin = coo_patterns(draws, &[3, 1, 4], 0)?;
    alike("squeeze", draws, &thin, |x| x.squeeze(None))?;
    alike("squeeze 1", draws, &thin, |x| x.squeeze(1))?;
    let deep = coo_patterns(draws, &[3, 2, 2, 2], 2)?;
    alike("permute", draws, &deep, |x| x.permute([1, 0, 3, 2]))?;
    alike("reshape", draws, &deep, |x| x.reshape([6, 4]))?;
    alike("triu of dense dimensions", draws, &deep, |x| x.triu(0))?;
    let rows = coo_patterns(draws, &[3, 4], 1)?;
    alike("tril of dense rows", draws, &rows, |x| x.tril(0))?;
    all.extend(cubes);
    all.extend(deep);
    for dim in [0, 1, 2, -1] {
        alike("unsqueeze", draws, &all, |x| x.unsqueeze(dim))?;
    }
    Ok(())
}

#[test]
fn parts() -> Result<()> {
    let draws = &mut Draws(18);
    let mut all = matrices(draws)?;
    all.extend(coo_patterns(draws, &[4, 3, 3], 1)?);
    all.extend(coo_patterns(draws, &[5], 0)?);
    all.extend(coo_patterns(draws, &[4, 2], 1)?);
    let index = tensor![2i64, 0, 2];
    for dim in [0i64, -1] {
        alike("select", draws, &all, |x| x.select(dim, 1))?;
        alike("select -1", draws, &all, |x| x.select(dim, -1))?;
        alike("narrow", draws, &all, |x| x.narrow(dim, 1, 1))?;
        alike("narrow none", draws, &all, |x| x.narrow(dim, 1, 0))?;
        alike("slice", draws, &all, |x| {
            x.slice_step(dim, Some(0), None, 2)
        })?;
    }
    alike("index_select 0", draws, &all, |x| x.index_select(0, &index))?;
    let matrices = matrices(draws)?;
    alike("index_select 1", draws, &matrices, |x| {
        x.index_select(1, &index)
    })?;
    alike("split", draws, &matrices, |x| {
        Tensor::cat(&x.split(2, 0)?, 1)
    })?;
    alike("chunk", draws, &matrices, |x| Ok(x.chunk(2, 1)?[1].clone()))?;
    alike("unbind", draws, &matrices, |x| Ok(x.unbind(0)?[3].clone()))?;
    alike("i", draws, &matrices, |x| x.i((1, 2)))?;
    alike("i", draws, &matrices, |x| x.i((.., 0..2)))?;
    alike("i", draws, &matrices, |x| x.i(&index))?;
    alike("i", draws, &matrices, |x| {
        x.i(&tensor![true, false, false, true])
    })?;
    Ok(())
}

#[test]
fn joins() -> Result<()> {
    let draws = &mut Draws(19);
    let (all, others) = (matrices(draws)?, matrices(draws)?);
    for (p, q) in all.iter().zip(&others) {
        for dim in [0, 1] {
            let two = [p.clone(), q.clone()];
            let cat: Function<'_> = &|x| Tensor::cat(x, dim);
            let stack: Function<'_> = &|x| Tensor::stack(x, dim);
            compare("cat", draws, &two, cat, cat)?;
            compare("stack", draws, &two, stack, stack)?;
        }
    }
    let cat: Function<'_> = &|x| Tensor::cat(x, 2);
    for p in coo_patterns(draws, &[2, 3, 2], 1)? {
        for q in coo_patterns(draws, &[2, 3, 2], 1)? {
            compare("cat", draws, &[p.clone(), q], cat, cat)?;
        }
    }
    Ok(())
}

#[test]
fn masks() -> Result<()> {
    let draws = &mut Draws(20);
    let (all, others) = (matrices(draws)?, matrices(draws)?);
    let of = |p: &Pattern| -> Result<(Tensor, Tensor)> {
        let ones = Tensor::ones(p.values_shape(), DType::F64, torsh_tensor::Device::Cpu)?;
        let mask = from_values(p, &ones)?;
        let places = mask.to_dense()?.ne(0)?.logical_not()?;
        Ok((mask, places))
    };
    for (j, q) in others.iter().enumerate() {
        let (mask, hidden) = of(q)?;
        for (i, p) in all.iter().enumerate() {
            if !is_checked("sparse_mask", [(i, p), (j, q)]) {
                continue;
            }
            let one = std::slice::from_ref(p);
            compare(
                "sparse_mask",
                draws,
                one,
                &|x| sparse::mask(&x[0], &mask),
                &|x| x[0].masked_fill(&hidden, 0.0),
            )?;
            compare(
                "sparse_mask of a strided tensor",
                draws,
                one,
                &|x| sparse::mask(&x[0].to_dense()?, &mask),
                &|x| x[0].masked_fill(&hidden, 0.0),
            )?;
        }
    }
    Ok(())
}

#[test]
fn copies() -> Result<()> {
    let draws = &mut Draws(21);
    let all = matrices(draws)?;
    alike("clone", draws, &all, Tensor::copy)?;
    alike("to", draws, &all, |x| {
        x.to_dtype(DType::C128)?.to_dtype(DType::F64)
    })?;
    for p in &all {
        let x = from_values(p, &draws.numbers(p.values_shape().dims())?)?;
        let y = x.copy()?;
        y.mul_(2.0)?;
        close("a copy", &y.to_dense()?, &x.to_dense()?.mul(2.0)?)?;
        let zeros = x.zeros_like()?;
        assert_eq!((zeros.layout(), zeros.shape()), (x.layout(), x.shape()));
        assert_eq!(zeros.to_dense()?, x.to_dense()?.zeros_like()?);
        y.copy_(&x)?;
        assert_eq!(y.to_dense()?, x.to_dense()?);
        y.zero_()?;
        assert_eq!(y.to_dense()?, x.to_dense()?.zeros_like()?);
    }
    Ok(())
}

#[test]
fn integers_bools_and_complex_numbers() -> Result<()> {
    let draws = &mut Draws(22);
    for p in matrices(draws)? {
        let v = draws.numbers(p.values_shape().dims())?.mul(4.0)?;
        for dtype in [DType::I64, DType::I32, DType::C128, DType::F32] {
            let x = from_values(&p, &v.to_dtype(dtype)?)?;
            let d = x.to_dense()?;
            close("add", &x.add(&x)?.to_dense()?, &d.add(&d)?)?;
            close("mul", &x.mul(&x)?.to_dense()?, &d.mul(&d)?)?;
            close("mul 3", &x.mul(3)?.to_dense()?, &d.mul(3)?)?;
            close("sum", &x.sum()?, &d.sum()?)?;
            let (a, b) = (x.sum_dim(0, true)?, d.sum_dim(0, true)?);
            assert_eq!(a.dtype(), b.dtype());
            close("sum 0", &a.to_dense()?, &b)?;
            close("t", &x.t()?.to_dense()?, &d.t()?)?;
        }
        let x = from_values(&p, &v.gt(0)?)?;
        let d = x.to_dense()?;
        assert_eq!(x.add(&x)?.to_dense()?, d);
        assert_eq!(x.mul(&x)?.to_dense()?, d);
        assert_eq!(x.any()?.item::<bool>()?, d.any()?.item::<bool>()?);
    }
    Ok(())
}

#[test]
fn what_is_refused_says_why() -> Result<()> {
    let x = tensor![[0.0, 1.0], [2.0, 0.0]].to_sparse()?;
    let refused = |r: Result<Tensor>, op: &str, why: &str| {
        let e = r.expect_err(op).to_string();
        assert!(e.contains(op) && e.contains(why), "{op}: {e}");
    };
    refused(x.add(1.0), "add", "number");
    refused(x.sub(1.0), "sub", "number");
    refused(x.pow(0), "pow", "power 0");
    refused(x.eq(0), "eq", "dense");
    refused(x.div(&x), "div", "second operand");
    refused(x.add(&tensor![[1.0]].to_sparse()?), "add", "match");
    refused(
        x.mul(&tensor![[1.0, 0.0, 1.0]].to_sparse()?),
        "mul",
        "broadcast",
    );
    refused(x.view([4]), "view", "sparse");
    refused(x.cos(), "cos", "sparse");
    refused(
        x.index_select(0, &tensor![2i64]),
        "index_select",
        "out of range",
    );
    refused(
        Tensor::cat(&[x.clone(), tensor![[0.0, 1.0, 2.0]].to_sparse()?], 0),
        "cat",
        "match",
    );
    refused(sparse::mask(&tensor![[1.0]], &x), "sparse_mask", "sizes");
    refused(sparse::softmax(&x, 2), "sparse.softmax", "range");
    refused(sparse::sum(&x, 2), "sparse.sum", "range");
    refused(
        sparse::resize(&x, [1, 2], 2, 0),
        "sparse_resize_",
        "shrinking",
    );
    Ok(())
}
