//! `MatMul`: products of matrices, in batches.
//!
//! Inputs: `a` of `[..batch, m, k]`, `b` of `[..batch, k, n]` and optionally `c`, which broadcasts
//! to the output `[..batch, m, n]`; all in any layout. Batch dimensions broadcast. A vector `a` is
//! a row, a vector `b` a column, and the output is without that dimension. With the attributes
//! [`MatMul`](attrs::MatMul), `a` and `b` may come with their last two dimensions swapped, and
//! `out = alpha * a b + c`; with [`AddMm`](attrs::AddMm), `out = alpha * a b + beta * c`, where `c` is
//! not read if `beta` is 0.
//!
//! Every dtype but bool. The half types compute in float32 and round once; integers wrap.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
pub(crate) mod choose;
#[cfg(target_arch = "x86_64")]
mod dot_tiles;
mod gemm;
mod half_vector;
mod integer;
mod operands;
pub(crate) mod packed;
#[cfg(target_arch = "x86_64")]
mod pairs;
pub(crate) mod panel;
mod slices;
pub(crate) mod tile;
mod vector;

use num_complex::Complex;
use smallvec::SmallVec;
use torsh_core::{DType, KernelArgs, Result, Scalar, View, attrs, pool};

#[cfg(target_arch = "x86_64")]
pub(crate) use amx::{is_available as amx_is_available, peak as amx_peak};
pub(crate) use gemm::Number;
pub(crate) use integer::{Wrapping, product as wrapping_product};
pub(crate) use operands::{Matrix, Product, Start};
pub use slices::{Factor, Strided, multiply_add, multiply_add_by, multiply_by};

use choose::{Batch, MatrixSteps, ProductAlgorithm, ProductProblem, ProductSplit};

use crate::machine::choice::pick;
use crate::machine::tuning::matmul as tuning;
use crate::memory::dense::{Dense, DenseOut, Ptr, Scratch, wide};
use crate::memory::operands::missing;

pub(crate) fn matmul(args: &KernelArgs<'_>) -> Result<()> {
    let ([out, ..], [a, b, rest @ ..]) = (args.outputs(), args.inputs()) else {
        return Err(missing());
    };
    let (alpha, beta, [transpose_a, transpose_b]) = match args.attributes().downcast() {
        Some(attrs::MatMul {
            alpha,
            transpose_a,
            transpose_b,
        }) => (*alpha, Scalar::Int(1), [*transpose_a, *transpose_b]),
        None => {
            let a = args.attrs::<attrs::AddMm>()?;
            (a.alpha, a.beta, [false; 2])
        }
    };
    let c = rest
        .first()
        .filter(|c| c.is_present() && beta.to_complex() != (0.0, 0.0));
    let (row, column) = (a.shape().len() == 1, b.shape().len() == 1);
    let a = Matrices::new(a, row, false, transpose_a && !row);
    let b = Matrices::new(b, false, column, transpose_b && !column);
    let c = c.map(|c| Matrices::new(c, row, column, false));
    let out = Matrices::new(out, row, column, false);
    let (a, b, c, out) = (
        a.view(),
        b.view(),
        c.as_ref().map(Matrices::view),
        out.view(),
    );
    let call = MatmulCall {
        out: &out,
        a: &a,
        b: &b,
        c: c.as_ref(),
        alpha,
        beta,
    };
    match out.dtype() {
        DType::F32 => call.float::<f32>(alpha.to_f64() as f32, beta.to_f64() as f32),
        DType::F64 => call.float::<f64>(alpha.to_f64(), beta.to_f64()),
        DType::C64 => {
            let narrow = |s: Scalar| {
                let (re, im) = s.to_complex();
                Complex::new(re as f32, im as f32)
            };
            call.float::<Complex<f32>>(narrow(alpha), narrow(beta))
        }
        DType::C128 => {
            let number = |s: Scalar| {
                let (re, im) = s.to_complex();
                Complex::new(re, im)
            };
            call.float::<Complex<f64>>(number(alpha), number(beta))
        }
        DType::F16 | DType::BF16 => call.half(),
        DType::U8 | DType::I8 => call.integer::<u8>(alpha.to_i64() as u8, beta.to_i64() as u8),
        DType::I16 => call.integer::<u16>(alpha.to_i64() as u16, beta.to_i64() as u16),
        DType::I32 => call.integer::<u32>(alpha.to_i64() as u32, beta.to_i64() as u32),
        DType::I64 => call.integer::<u64>(alpha.to_i64() as u64, beta.to_i64() as u64),
        DType::Bool => Err(args.unsupported()),
    }
}

type List = SmallVec<[isize; 6]>;

/// An operand as matrices: a vector with a dimension of 1 put in, or the last two swapped.
struct Matrices<'a> {
    of: View<'a>,
    shape: SmallVec<[usize; 6]>,
    strides: List,
}

impl<'a> Matrices<'a> {
    fn new(of: &View<'a>, row: bool, column: bool, swapped: bool) -> Matrices<'a> {
        let mut m = Matrices {
            of: *of,
            shape: of.shape().into(),
            strides: of.strides().into(),
        };
        if column {
            m.shape.push(1);
            m.strides.push(0);
        }
        if row {
            let at = m.shape.len().saturating_sub(1);
            m.shape.insert(at, 1);
            m.strides.insert(at, 0);
        }
        let nd = m.shape.len();
        if swapped && nd >= 2 {
            m.shape.swap(nd - 2, nd - 1);
            m.strides.swap(nd - 2, nd - 1);
        }
        m
    }

    fn view(&self) -> View<'_> {
        // SAFETY: the operand's own elements: broadcast dimensions have strides of 0, two may change places.
        unsafe { View::new(self.of.ptr(), self.of.dtype(), &self.shape, &self.strides) }
    }
}

/// The strides with which `v` walks `shape`, aligned at the right as broadcasting is. The last
/// `own` dimensions keep theirs.
fn aligned(v: &View<'_>, shape: &[usize], own: usize) -> List {
    let nd = shape.len();
    (0..nd)
        .map(|d| match (d + v.shape().len()).checked_sub(nd) {
            Some(e) if d + own >= nd || v.shape()[e] == shape[d] => v.strides()[e],
            _ => 0,
        })
        .collect()
}

/// The operands with what the shapes say: batch sizes, and the steps of each operand.
struct Problem {
    m: usize,
    n: usize,
    k: usize,
    /// Batch sizes, outermost first.
    batch: SmallVec<[usize; 6]>,
    /// Batch strides of out, a, b and c.
    steps: [List; 4],
    /// Row and column strides of out, a, b and c.
    rows: [isize; 4],
    cols: [isize; 4],
}

impl Problem {
    fn new(out: &View<'_>, a: &View<'_>, b: &View<'_>, c: Option<&View<'_>>) -> Problem {
        let nd = out.shape().len();
        let (m, n, k) = (
            out.shape()[nd - 2],
            out.shape()[nd - 1],
            a.shape()[a.shape().len() - 1],
        );
        let (of_a, of_b) = (aligned(a, out.shape(), 2), aligned(b, out.shape(), 2));
        let of_c = match c {
            Some(c) => aligned(c, out.shape(), 0),
            None => SmallVec::from_elem(0, nd),
        };
        let strides: [&[isize]; 4] = [out.strides(), &of_a, &of_b, &of_c];
        let mut p = Problem {
            m,
            n,
            k,
            batch: SmallVec::new(),
            steps: Default::default(),
            rows: strides.map(|s| s[nd - 2]),
            cols: strides.map(|s| s[nd - 1]),
        };
        // A row step of a matrix with one row says nothing; what follows reads it.
        for d in 0..nd - 2 {
            if out.shape()[d] != 1 {
                p.push(out.shape()[d], strides.map(|s| s[d]));
            }
        }
        p.fold();
        p
    }

    /// Adds a batch dimension, merged with the one before where one stride walks both.
    fn push(&mut self, size: usize, steps: [isize; 4]) {
        if let Some(last) = self.batch.last_mut() {
            let merges = self.steps.iter().zip(steps).all(|(list, step)| {
                list.last()
                    .is_some_and(|&outer| outer == step * size as isize)
            });
            if merges {
                *last *= size;
                for (list, step) in self.steps.iter_mut().zip(steps) {
                    if let Some(outer) = list.last_mut() {
                        *outer = step;
                    }
                }
                return;
            }
        }
        self.batch.push(size);
        for (list, step) in self.steps.iter_mut().zip(steps) {
            list.push(step);
        }
    }

    /// Makes one tall product of a batch that shares its right operand.
    fn fold(&mut self) {
        while let Some(&size) = self.batch.last() {
            let last = self.batch.len() - 1;
            let step = |which: usize| self.steps[which][last];
            let tall =
                |which: usize| self.m == 1 || step(which) == self.rows[which] * self.m as isize;
            if step(2) != 0 || !(tall(0) && tall(1) && tall(3)) {
                return;
            }
            if self.m == 1 {
                self.rows[0] = step(0);
                self.rows[1] = step(1);
                self.rows[3] = step(3);
            }
            self.m *= size;
            self.batch.pop();
            for list in &mut self.steps {
                list.pop();
            }
        }
    }

    /// The offset of an operand's matrix number `index`.
    fn offset(&self, which: usize, mut index: usize) -> isize {
        let mut offset = 0;
        for (&size, &step) in self.batch.iter().zip(&self.steps[which]).rev() {
            offset += (index % size) as isize * step;
            index /= size;
        }
        offset
    }

    fn matrix<T>(&self, which: usize, ptr: Ptr<T>, index: usize) -> Matrix<T> {
        let ptr = ptr.at(self.offset(which, index));
        Matrix::new(ptr, self.rows[which], self.cols[which])
    }

    /// What the choice of an algorithm depends on.
    fn of(&self, dtype: DType, add: bool) -> ProductProblem {
        let of = |which: usize| MatrixSteps {
            row: self.rows[which],
            col: self.cols[which],
        };
        ProductProblem {
            dtype,
            m: self.m,
            n: self.n,
            k: self.k,
            out: of(0),
            a: of(1),
            b: of(2),
            add,
        }
    }

    /// The product number `index`, of the matrices at `out`, `a` and `b`.
    fn product<T>(
        &self,
        [out, a, b]: [Ptr<T>; 3],
        index: usize,
        alpha: T,
        add: bool,
    ) -> Product<T> {
        Product {
            m: self.m,
            n: self.n,
            k: self.k,
            out: self.matrix(0, out, index),
            a: self.matrix(1, a, index),
            b: self.matrix(2, b, index),
            alpha,
            add,
        }
    }
}

/// How many parts to cut the rows and columns of a product into: the pair with `parts` as its
/// product that reads least twice.
fn grid(m: usize, n: usize, parts: usize) -> (usize, usize) {
    let pairs = (1..=parts)
        .filter(|p| parts.is_multiple_of(*p))
        .map(|p| (p, parts / p));
    pairs
        .filter(|&(pm, pn)| pm <= m && pn <= n)
        .min_by_key(|&(pm, pn)| (pn * m + pm * n, pn))
        .unwrap_or((1, 1))
}

/// Where part `index` of `parts` of `n` begins, on a multiple of `align` where parts are large.
fn cut(n: usize, parts: usize, index: usize, align: usize) -> usize {
    if index == parts {
        return n;
    }
    let start = n * index / parts;
    if n / parts >= 4 * align {
        (start + align / 2) / align * align
    } else {
        start
    }
}

struct MatmulCall<'a> {
    out: &'a View<'a>,
    a: &'a View<'a>,
    b: &'a View<'a>,
    c: Option<&'a View<'a>>,
    alpha: Scalar,
    beta: Scalar,
}

impl MatmulCall<'_> {
    fn float<T: Number>(&self, alpha: T, beta: T) -> Result<()> {
        let p = Problem::new(self.out, self.a, self.b, self.c);
        let all: usize = p.batch.iter().product();
        if all * p.m * p.n == 0 {
            return Ok(());
        }
        // Rows that only the left operand's layout keeps from being those of one tall product.
        let apart = !p.batch.is_empty()
            && p.m < tuning::TALL_ROWS
            && p.n >= tuning::TALL_COLUMNS
            && !self.a.is_contiguous();
        if apart && self.out.is_contiguous() && p.steps[2].iter().all(|&step| step == 0) {
            let dense = Dense::new(self.a, self.a.dtype())?;
            let strides = torsh_core::Shape::new(self.a.shape()).contiguous_strides();
            // SAFETY: the copy is row-major, of the operand's shape, and outlives the call.
            let a = unsafe {
                View::new(
                    dense.ptr::<u8>().get(),
                    self.a.dtype(),
                    self.a.shape(),
                    &strides,
                )
            };
            return MatmulCall { a: &a, ..*self }.float(alpha, beta);
        }
        let [out, a, b] = [self.out, self.a, self.b].map(|v| Ptr::new(v.ptr().cast::<T>()));
        let c = self.c.map(|v| Ptr::new(v.ptr().cast::<T>()));
        let each = p.m * p.n * p.k.max(1);
        let parts = pool::chunk_count(all.saturating_mul(each), tuning::GRAIN);
        let batch = Batch {
            count: all,
            m: p.m,
            n: p.n,
            k: p.k,
        };
        let even = all.is_multiple_of(parts) || all >= 4 * parts;
        match pick::<ProductSplit>(&batch, parts) {
            ProductSplit::Terms => return split_terms(&p, parts, [out, a, b], c, alpha, beta),
            ProductSplit::Together => {
                for index in 0..all {
                    let x = p.product([out, a, b], index, alpha, c.is_some());
                    let start = c.map(|c| Start {
                        of: p.matrix(3, c, index),
                        factor: beta,
                    });
                    // SAFETY: the matrices are the operands', and nothing else writes the output.
                    unsafe {
                        match p.k {
                            0 => without_terms(&x, start.as_ref()),
                            _ => T::product(&x, parts, start.as_ref()),
                        }
                    }
                }
                return Ok(());
            }
            ProductSplit::Results => {}
        }
        let inside = if even { 1 } else { parts };
        let (pm, pn) = grid(p.m, p.n, inside);
        let wide_rows = p.cols[0].unsigned_abs() > p.rows[0].unsigned_abs();
        let (am, an) = if wide_rows { (64, 8) } else { (8, 64) };
        let tiles = pm * pn;
        pool::parallel_parts(all * tiles, parts, &|_, range| {
            for task in range {
                let (index, tile) = (task / tiles, task % tiles);
                let (i, j) = (tile / pn, tile % pn);
                let (i0, i1) = (cut(p.m, pm, i, am), cut(p.m, pm, i + 1, am));
                let (j0, j1) = (cut(p.n, pn, j, an), cut(p.n, pn, j + 1, an));
                let (m, n) = (i1 - i0, j1 - j0);
                if m * n == 0 {
                    continue;
                }
                let whole = p.product([out, a, b], index, alpha, c.is_some());
                let x = Product {
                    m,
                    n,
                    out: whole.out.at(i0, j0),
                    a: whole.a.at(i0, 0),
                    b: whole.b.at(0, j0),
                    ..whole
                };
                let start = c.map(|c| Start {
                    of: p.matrix(3, c, index).at(i0, j0),
                    factor: beta,
                });
                // SAFETY: the tile is within the operands, and no other task writes it.
                unsafe {
                    match p.k {
                        0 => without_terms(&x, start.as_ref()),
                        _ => T::product(&x, 1, start.as_ref()),
                    }
                }
            }
        });
        Ok(())
    }

    fn half(&self) -> Result<()> {
        let algorithm = self.half_algorithm();
        #[cfg(not(target_arch = "x86_64"))]
        debug_assert!(matches!(
            algorithm,
            ProductAlgorithm::Widened | ProductAlgorithm::MatrixVector
        ));
        #[cfg(target_arch = "x86_64")]
        if self.c.is_none()
            && (algorithm == ProductAlgorithm::Amx
                || algorithm == ProductAlgorithm::Bf16Dot
                    && self.a.shape()[self.a.shape().len() - 1] <= pairs::AT_ONCE)
        {
            return self.paired::<half::bf16>(algorithm, self.out, None);
        }
        let out = DenseOut::new(self.out, DType::F32)?;
        let strides = torsh_core::Shape::new(self.out.shape()).contiguous_strides();
        // SAFETY: the scratch output is row-major float32 of the output's shape.
        let widened = unsafe {
            View::new(
                out.ptr::<u8>().get(),
                DType::F32,
                self.out.shape(),
                &strides,
            )
        };
        let c = self.c.map(Widened::new).transpose()?;
        let c = c.as_ref().map(Widened::view);
        if algorithm == ProductAlgorithm::MatrixVector {
            half_vector::run(self, &widened, c.as_ref())?;
            return out.finish();
        }
        #[cfg(target_arch = "x86_64")]
        if algorithm != ProductAlgorithm::Widened {
            self.paired::<pairs::Pair>(algorithm, &widened, c.as_ref())?;
            return out.finish();
        }
        let a = Widened::new(self.a)?;
        let b = Widened::new(self.b)?;
        let (a, b) = (a.view(), b.view());
        let call = MatmulCall {
            out: &widened,
            a: &a,
            b: &b,
            c: c.as_ref(),
            ..*self
        };
        call.float::<f32>(self.alpha.to_f64() as f32, self.beta.to_f64() as f32)?;
        out.finish()
    }

    /// The algorithm for half types.
    fn half_algorithm(&self) -> ProductAlgorithm {
        let dtype = self.a.dtype();
        if dtype != self.b.dtype() {
            return ProductAlgorithm::Widened;
        }
        let p = Problem::new(self.out, self.a, self.b, self.c);
        pick(&p.of(dtype, self.c.is_some()), pool::num_threads())
    }

    /// The products of bfloat16, into `out` of float32 with `c` of float32, or of bfloat16 without.
    #[cfg(target_arch = "x86_64")]
    fn paired<O: Send + Sync + 'static>(
        &self,
        algorithm: ProductAlgorithm,
        out: &View<'_>,
        c: Option<&View<'_>>,
    ) -> Result<()>
    where
        pairs::Pair: tile::Tiled<O>,
    {
        let p = Problem::new(out, self.a, self.b, c);
        let all: usize = p.batch.iter().product();
        let [a, b] = [self.a, self.b].map(|v| Ptr::new(v.ptr().cast::<half::bf16>()));
        let o = Ptr::new(out.ptr().cast::<O>());
        let c = c.map(|c| Ptr::new(c.ptr().cast::<f32>()));
        let (alpha, beta) = (self.alpha.to_f64() as f32, self.beta.to_f64() as f32);
        let each = |index: usize, threads: usize| {
            if let Some(c) = c {
                pool::parallel_parts(p.m, threads, &|_, rows| {
                    let o = Ptr::new(o.get().cast::<f32>());
                    let start = Start {
                        of: p.matrix(3, c, index),
                        factor: beta,
                    };
                    // SAFETY: the rows are within the operands, and no other thread writes them.
                    unsafe { start.put(p.matrix(0, o, index), rows, 0..p.n) };
                });
            }
            let x = Product {
                m: p.m,
                n: p.n,
                k: p.k,
                out: p.matrix(0, o, index),
                a: p.matrix(1, a, index),
                b: p.matrix(2, b, index),
                alpha,
                add: c.is_some(),
            };
            // SAFETY: the matrices are the operands', nothing else writes this one's output, and the
            // processor has the instructions.
            unsafe {
                match algorithm {
                    ProductAlgorithm::Amx if amx::product(&x, threads) => Ok(()),
                    ProductAlgorithm::Amx => Err(torsh_core::TorshError::out_of_memory(
                        torsh_core::Device::Cpu,
                        0,
                    )),
                    _ => pairs::product(&x, threads),
                }
            }
        };
        let parts = pool::chunk_count(all.saturating_mul(p.m * p.n * p.k), tuning::GRAIN);
        if parts > 1 && (all.is_multiple_of(parts) || all >= 4 * parts) {
            let failed = std::sync::OnceLock::new();
            pool::parallel_parts(all, parts, &|_, some| {
                for index in some {
                    if let Err(e) = each(index, 1) {
                        let _ = failed.set(e);
                    }
                }
            });
            return failed.into_inner().map_or(Ok(()), Err);
        }
        (0..all).try_for_each(|index| each(index, parts))
    }

    fn integer<T: Wrapping>(&self, alpha: T, beta: T) -> Result<()> {
        let nd = self.b.shape().len();
        let mut strides: List = self.b.strides().into();
        // Columns that lie apart are gathered once, not once for each row.
        let dense = match self.b.strides()[nd - 1] != 1 && self.out.shape()[nd - 2] > 4 {
            true => {
                strides = torsh_core::Shape::new(self.b.shape()).contiguous_strides()[..].into();
                Some(Dense::new(self.b, self.b.dtype())?)
            }
            false => None,
        };
        let ptr = dense.as_ref().map_or(self.b.ptr(), |d| d.ptr::<u8>().get());
        // SAFETY: the operand's own elements, or its row-major copy.
        let view = unsafe { View::new(ptr, self.b.dtype(), self.b.shape(), &strides) };
        let p = Problem::new(self.out, self.a, &view, self.c);
        let all: usize = p.batch.iter().product();
        if all * p.m * p.n == 0 {
            return Ok(());
        }
        let [out, a, b] = [self.out, self.a, &view].map(|v| Ptr::new(v.ptr().cast::<T>()));
        let c = self.c.map(|v| Ptr::new(v.ptr().cast::<T>()));
        // The only one; asked for where the choices are printed.
        let problem = p.of(self.out.dtype(), self.c.is_some());
        let _: ProductAlgorithm = pick(&problem, 1);
        let grain = (tuning::GRAIN / (p.n * p.k.max(1))).max(1);
        pool::parallel_for(all * p.m, grain, &|range| {
            let mut row = range.start;
            while row < range.end {
                let (index, i) = (row / p.m, row % p.m);
                let rows = (p.m - i).min(range.end - row);
                let o = p.matrix(0, out, index).at(i, 0);
                let a = p.matrix(1, a, index).at(i, 0);
                let b = p.matrix(2, b, index);
                // SAFETY: the rows are within the operands, and no other thread writes them.
                unsafe {
                    if let Some(c) = c {
                        let c = p.matrix(3, c, index).at(i, 0);
                        for i in 0..rows {
                            for j in 0..p.n {
                                *o.at(i, j).ptr = beta.wrapping_mul(&*c.at(i, j).ptr);
                            }
                        }
                    }
                    wrapping_product(rows, p.n, p.k, o, a, b, alpha, c.is_some());
                }
                row += rows;
            }
        });
        Ok(())
    }
}

/// The product of no terms: what it starts from, or zeros.
///
/// # Safety
/// The output, and what it starts from, are valid for its size.
unsafe fn without_terms<T: Number>(x: &Product<T>, start: Option<&Start<T>>) {
    // SAFETY: every index is below its size.
    unsafe {
        match start {
            Some(start) => start.put_all(x, 1),
            None => {
                (0..x.m).for_each(|i| (0..x.n).for_each(|j| *x.out.at(i, j).ptr = T::zero()));
            }
        }
    }
}

/// A product with few results and many terms: each thread sums a part of the terms.
fn split_terms<T: Number>(
    p: &Problem,
    parts: usize,
    [out, a, b]: [Ptr<T>; 3],
    c: Option<Ptr<T>>,
    alpha: T,
    beta: T,
) -> Result<()> {
    let (m, n) = (p.m, p.n);
    let parts = parts.clamp(1, p.k);
    let partial = Scratch::<T>::new(parts * m * n)?;
    let sums = Ptr::new(partial.ptr());
    pool::parallel_parts(p.k, parts, &|part, terms| {
        let sum = Matrix::new(sums.at((part * m * n) as isize), n as isize, 1);
        let x = Product {
            m,
            n,
            k: terms.len(),
            out: sum,
            a: p.matrix(1, a, 0).at(0, terms.start),
            b: p.matrix(2, b, 0).at(terms.start, 0),
            alpha,
            add: false,
        };
        // SAFETY: the terms are within the operands (there are more of them than parts), and each
        // part writes its own sums.
        unsafe { T::product(&x, 1, None) };
    });
    let o = p.matrix(0, out, 0);
    let start = c.map(|c| Start {
        of: p.matrix(3, c, 0),
        factor: beta,
    });
    // SAFETY: all sums are written, and the threads are done.
    unsafe {
        without_terms(&p.product([out, a, b], 0, alpha, false), start.as_ref());
        for part in 0..parts {
            for i in 0..m {
                for j in 0..n {
                    let o = o.at(i, j).ptr;
                    *o = *o + *sums.at(((part * m + i) * n + j) as isize);
                }
            }
        }
    }
    Ok(())
}

/// An operand in float32, each element converted once even where it is broadcast, and in its own
/// order where it is transposed.
struct Widened<'a> {
    view: View<'a>,
    strides: List,
    dense: Dense,
}

impl<'a> Widened<'a> {
    fn new(v: &View<'a>) -> Result<Widened<'a>> {
        let nd = v.shape().len();
        let mut shape: SmallVec<[usize; 6]> = v.shape().into();
        let mut strides: List = v.strides().into();
        for (size, &stride) in shape.iter_mut().zip(&strides) {
            if stride == 0 {
                *size = 1.min(*size);
            }
        }
        let transposed = nd >= 2 && strides[nd - 2] == 1 && strides[nd - 1] != 1;
        if transposed {
            shape.swap(nd - 2, nd - 1);
            strides.swap(nd - 2, nd - 1);
        }
        let dense = Dense::new(
            // SAFETY: the operand's own elements, two of whose dimensions may change places.
            &unsafe { View::new(v.ptr(), v.dtype(), &shape, &strides) },
            wide(v.dtype()),
        )?;
        let own = torsh_core::Shape::new(&shape).contiguous_strides();
        let mut walk: List = (0..nd)
            .map(|d| if shape[d] == 1 { 0 } else { own[d] })
            .collect();
        if transposed {
            walk.swap(nd - 2, nd - 1);
        }
        Ok(Widened {
            view: *v,
            strides: walk,
            dense,
        })
    }

    fn view(&self) -> View<'_> {
        // SAFETY: the copy has the operand's elements, which these strides walk, and lives in `self`.
        unsafe {
            View::new(
                self.dense.ptr::<u8>().get(),
                DType::F32,
                self.view.shape(),
                &self.strides,
            )
        }
    }
}

#[cfg(feature = "unit-tests")]
pub(crate) mod tests;
