//! Factors of sparse matrices, by the crate `faer`, and the ops that solve with them.
//!
//! What depends on the pattern alone, an order that keeps the factors sparse and where their elements are, is kept with
//! the pattern. All runs on one thread, so that results do not depend on the number of threads.

use std::fmt;
use std::sync::Arc;

use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::solvers::LltError::NonPositivePivot;
use faer::sparse::linalg::LuError;
use faer::sparse::linalg::cholesky::{
    LltRef, SymbolicCholesky, SymbolicCholeskyRaw, SymmetricOrdering, factorize_symbolic_cholesky,
};
use faer::sparse::linalg::lu::{LuRef, NumericLu, SymbolicLu, factorize_symbolic_lu};
use faer::sparse::{FaerError, SparseColMatRef, SymbolicSparseColMatRef};
use faer::traits::ComplexField;
use faer::{Conj, MatMut, Par, Side};
use num_complex::Complex;
use smallvec::SmallVec;
use torsh_core::attrs::{Field, Fields};
use torsh_core::kernel::HostCall;
use torsh_core::{Attributes, DType, Device, Element, SavedAttributes};
use torsh_tensor::call::Arg;
use torsh_tensor::record::{OpRecord, Plan};
use torsh_tensor::sparse::Pattern;
use torsh_tensor::{Result, Tensor, TorshError, no_grad};

use crate::csr::{conj, elements, matrix, pattern_of, sampled, strided};
use crate::help::{first, host, of_layout, one};

/// The records of solutions from factors.
pub(crate) static RECORDS: &[&OpRecord] = &[&ANSWER, &FACTORED];

/// Which decomposition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Lu,
    Cholesky,
}

/// A matrix by columns, with each element once, and where each stored value is added.
pub(crate) struct Columns {
    pub(crate) n: usize,
    pointers: Vec<usize>,
    rows: Vec<usize>,
    slots: Vec<usize>,
}

impl Columns {
    /// Those of a pattern, which are kept with it.
    pub(crate) fn of(pattern: &Pattern) -> Result<Arc<Columns>> {
        pattern.cached(|| Columns::make(pattern))
    }

    fn make(pattern: &Pattern) -> Result<Columns> {
        let (_, [n, _]) = matrix(pattern.shape().dims())?;
        let places = elements(pattern)?;
        // This comes before anything of the size n is made.
        if places.rows.numel() < n {
            return Err(singular(format!(
                "{} elements are stored for {n} rows",
                places.rows.numel()
            )));
        }
        let (rows, columns) = (below(n, &places.rows)?, below(n, &places.columns)?);
        let order = sorted(
            n,
            &columns,
            &sorted(n, &rows, &Vec::from_iter(0..rows.len())),
        );
        let mut all = Columns {
            n,
            pointers: Vec::with_capacity(n + 1),
            rows: Vec::with_capacity(rows.len()),
            slots: vec![0; rows.len()],
        };
        let mut before = None;
        for e in order {
            let place = (columns[e], rows[e]);
            if before != Some(place) {
                all.begin(columns[e]);
                all.rows.push(rows[e]);
                before = Some(place);
            }
            all.slots[e] = all.rows.len() - 1;
        }
        all.begin(n);
        Ok(all)
    }

    /// Columns up to this one begin behind what is there.
    fn begin(&mut self, column: usize) {
        if self.pointers.len() <= column {
            self.pointers.resize(column + 1, self.rows.len());
        }
    }

    fn symbolic(&self) -> SymbolicSparseColMatRef<'_, usize> {
        SymbolicSparseColMatRef::new_checked(self.n, self.n, &self.pointers, None, &self.rows)
    }

    /// Whether the elements of another matrix are at the same places.
    pub(crate) fn is_same(&self, other: &Columns) -> bool {
        self.pointers == other.pointers && self.rows == other.rows
    }

    /// Refuses a matrix with a row or a column without elements.
    fn check_full(&self) -> Result<()> {
        let mut has = vec![false; self.n];
        self.rows.iter().for_each(|&i| has[i] = true);
        if let Some(i) = has.iter().position(|&h| !h) {
            return Err(singular(format!("row {i} stores no element")));
        }
        match self.pointers.windows(2).position(|p| p[0] == p[1]) {
            Some(j) => Err(singular(format!("column {j} stores no element"))),
            None => Ok(()),
        }
    }

    /// The elements in order, from the stored values.
    fn elements<T: Element + ComplexField>(&self, values: &[T]) -> Result<Vec<T>> {
        let mut all = vec![T::zero_impl(); self.rows.len()];
        for (&slot, &v) in self.slots.iter().zip(values) {
            all[slot] += v;
        }
        match all.iter().all(T::is_finite_impl) {
            true => Ok(all),
            false => Err(TorshError::invalid(
                "",
                "the matrix has elements that are infinite or nan",
            )),
        }
    }
}

/// Indices on the host, each of which is below `n`: their tensor may have been written.
fn below(n: usize, indices: &Tensor) -> Result<Vec<usize>> {
    let checked = |i: i64| match usize::try_from(i) {
        Ok(place) if place < n => Ok(place),
        _ => Err(TorshError::index(
            "",
            format!("the index {i} is out of range for {n} rows and columns"),
        )),
    };
    host(indices)?.into_iter().map(checked).collect()
}

/// Elements sorted by their keys, which are below `n`; those of one key stay in their order.
fn sorted(n: usize, keys: &[usize], order: &[usize]) -> Vec<usize> {
    let mut next = vec![0; n + 1];
    keys.iter().for_each(|&key| next[key + 1] += 1);
    for key in 0..n {
        next[key + 1] += next[key];
    }
    let mut out = vec![0; keys.len()];
    for &e in order {
        let at = &mut next[keys[e]];
        out[*at] = e;
        *at += 1;
    }
    out
}

fn singular(why: String) -> TorshError {
    TorshError::failed("", format!("the matrix is singular: {why}"))
}

fn no_memory() -> TorshError {
    TorshError::out_of_memory(Device::Cpu, 0)
}

fn refused(e: FaerError) -> TorshError {
    match e {
        FaerError::OutOfMemory => no_memory(),
        _ => TorshError::invalid("", "the factors have more elements than can be counted"),
    }
}

fn workspace(need: StackReq) -> Result<MemBuffer> {
    MemBuffer::try_new(need).map_err(|_| no_memory())
}

/// What is known of factors from the pattern alone.
pub(crate) enum Analysis {
    /// There are no elements.
    Empty,
    Lu(Box<SymbolicLu<usize>>),
    Cholesky(Box<SymbolicCholesky<usize>>),
}

impl Analysis {
    /// The analysis of a pattern, which is kept with it.
    pub(crate) fn of(
        method: Method,
        pattern: &Pattern,
        columns: &Columns,
    ) -> Result<Arc<Analysis>> {
        struct OfLu(Arc<Analysis>);
        struct OfCholesky(Arc<Analysis>);
        let make = || Analysis::make(method, columns).map(Arc::new);
        Ok(match method {
            Method::Lu => pattern.cached(|| make().map(OfLu))?.0.clone(),
            Method::Cholesky => pattern.cached(|| make().map(OfCholesky))?.0.clone(),
        })
    }

    fn make(method: Method, columns: &Columns) -> Result<Analysis> {
        if columns.n == 0 {
            return Ok(Analysis::Empty);
        }
        if method == Method::Lu {
            columns.check_full()?;
            let made = factorize_symbolic_lu(columns.symbolic(), Default::default());
            return made.map(|a| Analysis::Lu(Box::new(a))).map_err(refused);
        }
        let made = factorize_symbolic_cholesky(
            columns.symbolic(),
            Side::Lower,
            SymmetricOrdering::Amd,
            Default::default(),
        );
        made.map(|a| Analysis::Cholesky(Box::new(a)))
            .map_err(refused)
    }
}

/// The numbers of factors.
enum Numbers<T> {
    Empty,
    Lu(Box<NumericLu<usize, T>>),
    Cholesky(Vec<T>),
}

struct Factors<T> {
    n: usize,
    analysis: Arc<Analysis>,
    numbers: Numbers<T>,
}

impl<T: Element + ComplexField> Factors<T> {
    fn new(analysis: &Arc<Analysis>, columns: &Columns, values: &Tensor) -> Result<Factors<T>> {
        let elements = columns.elements::<T>(&values.to_vec::<T>()?)?;
        let a = SparseColMatRef::new(columns.symbolic(), &elements);
        let numbers = match &**analysis {
            Analysis::Empty => Numbers::Empty,
            Analysis::Lu(symbolic) => {
                let mut numbers = NumericLu::new();
                let need = symbolic.factorize_numeric_lu_scratch::<T>(Par::Seq, Default::default());
                let factored = symbolic.factorize_numeric_lu(
                    &mut numbers,
                    a,
                    Par::Seq,
                    MemStack::new(&mut workspace(need)?),
                    Default::default(),
                );
                factored.map_err(|e| match e {
                    LuError::SymbolicSingular { index } => singular(format!(
                        "there is no pivot for column {}",
                        symbolic.col_perm().arrays().0[index]
                    )),
                    LuError::Generic(e) => refused(e),
                })?;
                Numbers::Lu(Box::new(numbers))
            }
            Analysis::Cholesky(symbolic) => {
                let mut numbers = Vec::new();
                numbers
                    .try_reserve_exact(symbolic.len_val())
                    .map_err(|_| no_memory())?;
                numbers.resize(symbolic.len_val(), T::zero_impl());
                let need =
                    symbolic.factorize_numeric_llt_scratch::<T>(Par::Seq, Default::default());
                let factored = symbolic.factorize_numeric_llt(
                    &mut numbers,
                    a,
                    Side::Lower,
                    Default::default(),
                    Par::Seq,
                    MemStack::new(&mut workspace(need)?),
                    Default::default(),
                );
                factored.map_err(|NonPositivePivot { index }| indefinite(symbolic, index))?;
                Numbers::Cholesky(numbers)
            }
        };
        let factors = Factors {
            n: columns.n,
            analysis: analysis.clone(),
            numbers,
        };
        factors.check_pivots(&elements)?;
        Ok(factors)
    }

    /// Refuses factors that divide by 0, which makes the solution of every system infinite or nan. `faer` does not say
    /// where a pivot is 0.
    fn check_pivots(&self, elements: &[T]) -> Result<()> {
        // A pivot of 0 leaves no solution finite. As large as the matrix, or as small, one at least does not overflow.
        let sizes = || elements.iter().map(T::abs_impl);
        let zero = T::Real::zero_impl();
        let largest = sizes().fold(zero.clone(), |a, b| if b > a { b } else { a });
        let smallest = sizes().fold(
            largest.clone(),
            |a, b| if b > zero && b < a { b } else { a },
        );
        for size in [largest, smallest] {
            let size = T::from_real_impl(&size);
            let size = match T::is_finite_impl(&size) {
                true => size,
                false => T::one_impl(),
            };
            let mut x = vec![size; self.n];
            self.in_place(&mut x, 1, false)?;
            if x.iter().all(T::is_finite_impl) {
                return Ok(());
            }
        }
        Err(singular("a pivot is 0".to_string()))
    }

    /// Solves for `k` right-hand sides, one behind the other.
    fn in_place(&self, sides: &mut [T], k: usize, adjoint: bool) -> Result<()> {
        match (&*self.analysis, &self.numbers) {
            (Analysis::Lu(symbolic), Numbers::Lu(numbers)) => {
                let mut memory = workspace(symbolic.solve_in_place_scratch::<T>(k, Par::Seq))?;
                let stack = MemStack::new(&mut memory);
                let sides = MatMut::from_column_major_slice_mut(sides, self.n, k);
                let factors = LuRef::new_unchecked(symbolic, numbers);
                match adjoint {
                    false => factors.solve_in_place_with_conj(Conj::No, sides, Par::Seq, stack),
                    true => factors.solve_transpose_in_place_with_conj(
                        Conj::Yes,
                        sides,
                        Par::Seq,
                        stack,
                    ),
                }
            }
            (Analysis::Cholesky(symbolic), Numbers::Cholesky(numbers)) => {
                let mut memory = workspace(symbolic.solve_in_place_scratch::<T>(k, Par::Seq))?;
                let stack = MemStack::new(&mut memory);
                let sides = MatMut::from_column_major_slice_mut(sides, self.n, k);
                LltRef::new(symbolic, numbers).solve_in_place_with_conj(
                    Conj::No,
                    sides,
                    Par::Seq,
                    stack,
                );
            }
            // Of no elements.
            _ => {}
        }
        Ok(())
    }
}

/// The error of a pivot that is not positive; `faer` counts it from 1 where it does not work in blocks.
fn indefinite(symbolic: &SymbolicCholesky<usize>, index: usize) -> TorshError {
    let at = match symbolic.raw() {
        SymbolicCholeskyRaw::Simplicial(_) => index.saturating_sub(1),
        SymbolicCholeskyRaw::Supernodal(_) => index,
    };
    let row = symbolic
        .perm()
        .and_then(|p| p.arrays().0.get(at).copied())
        .unwrap_or(at);
    TorshError::failed(
        "",
        format!("the matrix is not positive definite: the pivot of row {row} is not positive"),
    )
    .with_hint("sparse::lu factors matrices that are not Hermitian and positive definite")
}

/// Factors of any dtype.
pub(crate) trait Factored: Send + Sync {
    /// Writes the solutions for the operand of a call, `[n, k]`, into its result.
    fn answer(&self, call: &mut HostCall<'_>, adjoint: bool) -> Result<()>;
}

impl<T: Element + ComplexField> Factored for Factors<T> {
    fn answer(&self, call: &mut HostCall<'_>, adjoint: bool) -> Result<()> {
        let k = match call.input_shape(0)? {
            &[n, k] if n == self.n => k,
            _ => {
                return Err(TorshError::shape(
                    "",
                    format!("the right-hand side must have {} rows", self.n),
                ));
            }
        };
        let b = call.input::<T>(0)?;
        let out = call.output::<T>(0)?;
        if b.is_empty() {
            return Ok(());
        }
        let mut x: Vec<T> = Vec::new();
        x.try_reserve_exact(b.len()).map_err(|_| no_memory())?;
        for j in 0..k {
            x.extend(b[j..].iter().step_by(k));
        }
        self.in_place(&mut x, k, adjoint)?;
        for (j, column) in x.chunks_exact(self.n).enumerate() {
            for (to, x) in out[j..].iter_mut().step_by(k).zip(column) {
                *to = *x;
            }
        }
        Ok(())
    }
}

/// The factors of the matrix of some values, in their dtype.
pub(crate) fn factors(
    analysis: &Arc<Analysis>,
    columns: &Columns,
    values: &Tensor,
) -> Result<Arc<dyn Factored>> {
    Ok(match values.dtype() {
        DType::F32 => Arc::new(Factors::<f32>::new(analysis, columns, values)?),
        DType::F64 => Arc::new(Factors::<f64>::new(analysis, columns, values)?),
        DType::C64 => Arc::new(Factors::<Complex<f32>>::new(analysis, columns, values)?),
        DType::C128 => Arc::new(Factors::<Complex<f64>>::new(analysis, columns, values)?),
        dtype => {
            return Err(
                TorshError::dtype("", format!("not implemented for {dtype}"))
                    .with_hint("convert the operands with to_dtype(DType::F32)"),
            );
        }
    })
}

/// What a call of the kernel solves with.
#[derive(Clone)]
pub(crate) struct With {
    pub(crate) factors: Arc<dyn Factored>,
    pub(crate) method: Method,
    /// Whether with the conjugate transpose of the matrix.
    pub(crate) adjoint: bool,
}

impl fmt::Debug for With {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SparseFactors {{ adjoint: {} }}", self.adjoint)
    }
}

impl Attributes for With {
    fn name(&self) -> &'static str {
        "SparseFactors"
    }
    fn fields(&self) -> Fields<'_> {
        Fields::from_iter([("adjoint", Field::Bool(self.adjoint))])
    }
    fn save(&self) -> SavedAttributes {
        SavedAttributes::new(self.clone())
    }
}

torsh_core::kernel_keys! {
    ANSWER_KEY "SparseFactorSolve" |c| {
        let with = c.attrs::<With>()?;
        with.factors.answer(c, with.adjoint)
    };
}

static ANSWER: OpRecord = OpRecord::new(
    "_sparse_factor_solve",
    "The solutions of a system from factors of its matrix.",
    "(Tensor b, *, bool adjoint)",
)
.internal()
.with_key(&ANSWER_KEY, |c| {
    let b = c.tensor(0)?;
    Ok(Plan::one(b.dtype(), b.shape().clone(), b.dtype()))
})
.constant();

/// Operands are the matrix's values, for the gradient alone, its pattern, and the right-hand sides.
static FACTORED: OpRecord = OpRecord::new(
    "_sparse_factored",
    "The solutions of a system with the matrix of some values, from its factors.",
    "(Tensor values, Tensor pattern, Tensor b, *, bool adjoint)",
)
.internal()
.grads(0b11, 1, |c| {
    let with = c.attrs::<With>()?;
    let (values, pattern) = (c.x()?, c.y()?);
    let back = With {
        adjoint: !with.adjoint,
        ..with.clone()
    };
    let to_b = answered(&values, &pattern, &strided(c.g())?, &back)?;
    let to_values = match c.needs(0) {
        true => {
            let x = c.out()?;
            let products = match (with.method, with.adjoint) {
                (Method::Lu, false) => sampled(&pattern, &to_b, &conj(&x)?)?,
                (Method::Lu, true) => sampled(&pattern, &x, &conj(&to_b)?)?,
                (Method::Cholesky, _) => of_lower(&pattern, &to_b, &x)?,
            };
            Some(products.neg()?)
        }
        false => None,
    };
    let to_b = c.needs(2).then_some(to_b);
    Ok(SmallVec::from_iter([to_values, None, to_b]))
});

/// `u x^H`, where an element below the diagonal stands for its conjugate above it too, and those above it are not read.
fn of_lower(pattern: &Tensor, u: &Tensor, x: &Tensor) -> Result<Tensor> {
    let places = elements(&pattern_of(pattern)?)?;
    let share = |mask: Tensor| mask.to_dtype(x.dtype());
    let below = share(places.rows.gt(&places.columns)?)?;
    let on = share(places.rows.eq(&places.columns)?)?;
    let (left, right) = (Tensor::cat(&[u, x], 1)?, Tensor::cat(&[x, u], 1)?);
    // u x^H + x u^H, which has the diagonal twice.
    sampled(pattern, &left, &conj(&right)?)?.mul(&below.add(&on.mul(0.5)?)?)
}

/// The solutions for right-hand sides `[n, k]`, recorded. `values` are those of the matrix where they need a gradient.
#[track_caller]
pub(crate) fn answered(
    values: &Tensor,
    pattern: &Tensor,
    b: &Tensor,
    with: &With,
) -> Result<Tensor> {
    let x = no_grad(|| ANSWER.call1(&[Arg::T(&b.contiguous()?)], with))
        .map_err(|e| of_layout(e, pattern.layout()))?;
    let args = [Arg::T(values), Arg::T(pattern), Arg::T(b)];
    first(FACTORED.recorded(&args, with, one(x))?)
}
