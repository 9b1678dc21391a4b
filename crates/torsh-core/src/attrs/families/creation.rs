//! Attributes of fills, sequences, joins, copies and random numbers.
//!
//! Kernels that draw take a `generator`; without one they draw from the default generator.

use crate::{DType, Dims, Generator, Scalar};

crate::words! {
    /// How the elements of a copy lie in memory.
    MemoryFormat {
        /// Row-major.
        Contiguous = "contiguous_format",
        /// The dimensions in the order that they have in the operand's memory.
        Preserve = "preserve_format",
    }
}

crate::attributes! {
    /// The copies that make a tensor (`to`, `clone`, `contiguous`). The kernel `Copy` reads nothing
    /// of it: dtypes and layouts are those of its operands.
    CopyTo {
        /// The result's dtype.
        dtype: DType,
        /// The result's layout.
        memory_format: MemoryFormat,
    }
    /// `Fill`: one number everywhere.
    Fill {
        /// The number.
        value: Scalar,
    }
    /// `Arange`: `start + i * step` at index `i`.
    Arange {
        /// The first number.
        start: Scalar,
        /// The distance of two numbers.
        step: Scalar,
    }
    /// `Linspace`: as many equally spaced numbers as the output has elements.
    Linspace {
        /// The first number.
        start: Scalar,
        /// The last number.
        end: Scalar,
        /// Where given, the numbers are exponents, and the results its powers (`logspace`).
        base: Option<Scalar>,
    }
    /// `Cat`: the operands one after the other.
    Cat {
        /// The dimension along which they lie, counted from the start.
        dim: usize,
    }
    /// `Pad`: a number around the operand.
    Pad {
        /// How many elements come before the operand's, for each dimension.
        before: Dims,
        /// How many elements come behind them, for each dimension.
        after: Dims,
        /// The number.
        value: Scalar,
    }
    /// `Uniform`: numbers from `from` to below `to`.
    Uniform {
        /// The lower bound, which can be drawn.
        from: f64,
        /// The upper bound, which cannot.
        to: f64,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `Normal`: normal numbers.
    Normal {
        /// Their mean.
        mean: f64,
        /// Their standard deviation.
        std: f64,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `LogNormal`: exponentials of normal numbers.
    LogNormal {
        /// The mean of the normal numbers.
        mean: f64,
        /// The standard deviation of the normal numbers.
        std: f64,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `Exponential`: exponential numbers.
    Exponential {
        /// Their rate.
        lambd: f64,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `Cauchy`: Cauchy numbers.
    Cauchy {
        /// Their median.
        median: f64,
        /// Half of their interquartile range.
        sigma: f64,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `Geometric`: numbers of trials up to the first success.
    Geometric {
        /// The probability of success.
        p: f64,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `Bernoulli`: ones and zeros.
    Bernoulli {
        /// The probability of a one; without it the operand has the probability of each.
        p: Option<f64>,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `RandInt`: whole numbers from `from` to below `to`.
    RandInt {
        /// The lower bound, which can be drawn; without it, draws are from 0 to the largest whole
        /// number up to which the dtype has every one, and `to` is not read.
        from: Option<i64>,
        /// The upper bound, which cannot be drawn; without it, draws are all 64 bits.
        to: Option<i64>,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `RandPerm`: a permutation of the indices of the output.
    RandPerm {
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `Multinomial`: indices of categories, drawn with replacement.
    Multinomial {
        /// How many are drawn for each row of weights.
        num_samples: usize,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `Dropout`: zeroes elements and scales the others by `1 / (1 - p)`.
    Dropout {
        /// The probability of a zero.
        p: f64,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
}
