//! The choice of a matrix product's algorithm, and of what its threads share.

use std::fmt;
use std::hash::{Hash, Hasher};

use torsh_core::DType;
use torsh_core::machine::{Level, Machine};

use super::operands::{Matrix, Product};
use crate::machine::choice::Algorithm;
use crate::machine::tuning::matmul as tuning;

/// Where an operand's neighbours are in memory: its steps in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixSteps {
    pub row: isize,
    pub col: isize,
}

impl<T> From<&Matrix<T>> for MatrixSteps {
    #[inline(always)]
    fn from(m: &Matrix<T>) -> MatrixSteps {
        MatrixSteps {
            row: m.row,
            col: m.col,
        }
    }
}

impl MatrixSteps {
    /// BLAS's letters: `N` has adjacent columns (row-major), `T` adjacent rows, `S` neither.
    fn order(self) -> char {
        match (self.row, self.col) {
            (_, 1) => 'N',
            (1, _) => 'T',
            _ => 'S',
        }
    }
}

/// One product of `m` by `k` and `k` by `n`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProductProblem {
    pub dtype: DType,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub out: MatrixSteps,
    pub a: MatrixSteps,
    pub b: MatrixSteps,
    /// Whether the result is added to something.
    pub add: bool,
}

impl ProductProblem {
    #[inline(always)]
    pub fn new<T, O, S>(dtype: DType, x: &Product<T, O, S>) -> ProductProblem {
        ProductProblem {
            dtype,
            m: x.m,
            n: x.n,
            k: x.k,
            out: (&x.out).into(),
            a: (&x.a).into(),
            b: (&x.b).into(),
            add: x.add,
        }
    }

    /// A product of row-major matrices, for the choices of other operations.
    pub fn row_major(dtype: DType, m: usize, n: usize, k: usize) -> ProductProblem {
        let steps = |columns: usize| MatrixSteps {
            row: columns as isize,
            col: 1,
        };
        ProductProblem {
            dtype,
            m,
            n,
            k,
            out: steps(n),
            a: steps(k),
            b: steps(n),
            add: false,
        }
    }

    fn key(&self) -> (DType, [usize; 3], [char; 3], bool) {
        let orders = [self.out, self.a, self.b].map(MatrixSteps::order);
        (self.dtype, [self.m, self.n, self.k], orders, self.add)
    }
}

impl Hash for ProductProblem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Display for ProductProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, [m, n, k], [out, a, b], add) = self.key();
        write!(f, "{dtype} m={m} n={n} k={k} a={a} b={b} out={out}")?;
        f.write_str(if add { " add=1" } else { "" })
    }
}

/// The algorithms of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProductAlgorithm {
    /// A matrix times a vector, in the order in which the matrix lies in memory; half types are converted in registers.
    MatrixVector,
    /// Loops over the operands where they are.
    Unpacked,
    /// Register tiles of inner products: sums of vectors of terms that are adjacent in both operands.
    DotTiles,
    /// Blocks of both operands are packed into panels, and the result is computed in register tiles
    /// (Goto and van de Geijn).
    Packed,
    /// AMX, each float32 as the sum of three bfloat16.
    AmxSplit,
    /// AMX, of bfloat16.
    Amx,
    /// Packed panels with AVX512-BF16's sums of pairs.
    Bf16Dot,
    /// Half types converted to float32, which is multiplied.
    Widened,
    /// Four real products of a complex one's parts.
    FourReal,
    /// Complex sums in double precision, term by term.
    ComplexLoops,
    /// Rows of integers, which wrap around.
    IntegerRows,
}

use ProductAlgorithm::*;

/// Multiply-adds of a problem.
fn work(p: &ProductProblem) -> usize {
    p.m.saturating_mul(p.n).saturating_mul(p.k)
}

/// Whether loops over the operands where they are beat packing: up to [`tuning::UNPACKED`]
/// multiply-adds over whole vectors of adjacent columns, [`tuning::UNPACKED_STRIDED`] otherwise.
#[inline]
fn is_small(p: &ProductProblem) -> bool {
    let whole = p.n.is_multiple_of(8) || p.n > 8 && !p.add;
    let vectors = p.b.col == 1 && p.out.col == 1 && whole && p.k <= tuning::UNPACKED_TERMS;
    let most = if vectors {
        tuning::UNPACKED
    } else {
        tuning::UNPACKED_STRIDED
    };
    p.m * p.n * p.k <= most
}

/// Whether AMX can take the product, and the packing, which takes `(m + n) k` where the product takes
/// `m n k`, is repaid.
#[inline]
fn amx_pays(m: usize, n: usize, k: usize, ratio: usize, steps: usize) -> bool {
    let step = tuning::AMX_STEP;
    // One whole step is enough; a step of which a part is missing takes as long.
    (k >= steps * step || k == step) && m * n >= ratio * (m + n)
}

/// What [`DotTiles`] computes: few rows by few columns of many adjacent terms.
#[inline]
fn dot_tiles_accept(p: &ProductProblem, machine: &Machine) -> bool {
    p.dtype == DType::F32
        && p.a.col == 1
        && p.b.row == 1
        && p.out.col == 1
        && p.m.min(p.n) >= tuning::DOT_TILE_COLUMNS
        && p.k <= tuning::DOT_TILE_TERMS
        && machine.level == Level::Avx512
}

/// Whether the packing that [`DotTiles`] saves is worth more than its sums of vectors cost.
#[inline]
fn dot_tiles_pay(p: &ProductProblem) -> bool {
    5 * p.m.max(p.n) / 2 <= p.k && (p.m + p.n) * p.k * size_of::<f32>() <= tuning::DOT_TILE_BYTES
}

impl Algorithm for ProductAlgorithm {
    type Problem = ProductProblem;
    const OP: &'static str = "matmul";
    const ALL: &'static [Self] = &[
        MatrixVector,
        Unpacked,
        DotTiles,
        Packed,
        AmxSplit,
        Amx,
        Bf16Dot,
        Widened,
        FourReal,
        ComplexLoops,
        IntegerRows,
    ];

    fn name(self) -> &'static str {
        match self {
            MatrixVector => "matrix-vector",
            Unpacked => "unpacked",
            DotTiles => "dot-tiles",
            Packed => "packed",
            AmxSplit => "amx-split",
            Amx => "amx",
            Bf16Dot => "bf16-dot",
            Widened => "widened",
            FourReal => "four-real",
            ComplexLoops => "complex-loops",
            IntegerRows => "integer-rows",
        }
    }

    fn accepts(self, p: &ProductProblem, machine: &Machine) -> bool {
        let real = matches!(p.dtype, DType::F32 | DType::F64);
        let half = matches!(p.dtype, DType::F16 | DType::BF16);
        match self {
            MatrixVector => (real || half) && (p.m == 1 || p.n == 1),
            Unpacked | Packed => real,
            DotTiles => dot_tiles_accept(p, machine),
            AmxSplit => p.dtype == DType::F32 && machine.bf16_tiles && p.k > 0,
            Amx => p.dtype == DType::BF16 && machine.bf16_tiles && p.k > 0,
            Bf16Dot => p.dtype == DType::BF16 && machine.bf16_dot && p.k > 0,
            Widened => half,
            FourReal | ComplexLoops => p.dtype.is_complex(),
            IntegerRows => !p.dtype.is_floating_point() && !p.dtype.is_complex(),
        }
    }

    #[inline]
    fn choose(p: &ProductProblem, machine: &Machine, _: usize) -> (Self, &'static str) {
        let &ProductProblem { m, n, k, .. } = p;
        match p.dtype {
            DType::F32 | DType::F64 => {
                if m == 1 || n == 1 {
                    return (MatrixVector, "one row or column: bound by memory");
                }
                if is_small(p) {
                    return (Unpacked, "too few multiply-adds to repay packing");
                }
                if p.dtype == DType::F32 {
                    if machine.bf16_tiles
                        && amx_pays(m, n, k, tuning::AMX_SPLIT_RATIO, tuning::AMX_SPLIT_STEPS)
                    {
                        return (AmxSplit, "the machine has AMX, and packing is repaid");
                    }
                    if dot_tiles_accept(p, machine) && dot_tiles_pay(p) {
                        return (DotTiles, "few rows and columns of many adjacent terms");
                    }
                }
                (Packed, "enough multiply-adds to repay packing")
            }
            DType::F16 | DType::BF16 if m == 1 || n == 1 => {
                (MatrixVector, "one row or column: bound by memory")
            }
            DType::BF16 => {
                if machine.bf16_tiles && amx_pays(m, n, k, tuning::AMX_RATIO, 1) {
                    return (Amx, "the machine has AMX, and packing is repaid");
                }
                let large = m > 1 && n > 1 && k >= 16 && work(p) > tuning::BF16_DOT;
                if machine.bf16_dot && large {
                    return (
                        Bf16Dot,
                        "the machine has AVX512-BF16, and packing is repaid",
                    );
                }
                (
                    Widened,
                    "too small for bfloat16 instructions, or there are none",
                )
            }
            DType::F16 => (Widened, "no instructions for float16"),
            DType::C64 | DType::C128 if work(p) > tuning::COMPLEX_LOOPS => {
                (FourReal, "enough multiply-adds for four real products")
            }
            DType::C64 | DType::C128 => {
                (ComplexLoops, "too few multiply-adds for four real products")
            }
            _ => (IntegerRows, "integers have one algorithm"),
        }
    }
}

/// A batch of products, for what threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Batch {
    /// Products.
    pub count: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Batch { count, m, n, k } = self;
        write!(f, "batch={count} m={m} n={n} k={k}")
    }
}

/// What the threads of a batch share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProductSplit {
    /// Each thread sums a part of the terms of one product, and the sums are added.
    Terms,
    /// The threads work on one product together, one product after the other.
    Together,
    /// Each thread computes whole products, or rectangles of the results.
    Results,
}

impl Algorithm for ProductSplit {
    type Problem = Batch;
    const OP: &'static str = "matmul.split";
    const ALL: &'static [Self] = &[
        ProductSplit::Terms,
        ProductSplit::Together,
        ProductSplit::Results,
    ];

    fn name(self) -> &'static str {
        match self {
            ProductSplit::Terms => "terms",
            ProductSplit::Together => "together",
            ProductSplit::Results => "results",
        }
    }

    fn accepts(self, p: &Batch, _: &Machine) -> bool {
        match self {
            ProductSplit::Terms => p.count == 1 && p.k > 0,
            ProductSplit::Together => p.m > 1 && p.n > 1,
            ProductSplit::Results => true,
        }
    }

    #[inline]
    fn choose(p: &Batch, _: &Machine, threads: usize) -> (Self, &'static str) {
        let &Batch { count, m, n, k } = p;
        let few = m * n <= tuning::SPLIT_TERMS_RESULTS;
        if threads > 1 && count == 1 && few && k >= tuning::SPLIT_TERMS_RATIO * m.max(n) {
            return (ProductSplit::Terms, "few results of many terms");
        }
        let even = count.is_multiple_of(threads) || count >= 4 * threads;
        // A matrix times a vector is bound by memory, which threads read best apart.
        if !even && m > 1 && n > 1 {
            return (
                ProductSplit::Together,
                "products cannot be dealt out evenly",
            );
        }
        match even {
            true => (ProductSplit::Results, "products are dealt out evenly"),
            false => (
                ProductSplit::Results,
                "one row or column: threads read parts of the matrix",
            ),
        }
    }
}
