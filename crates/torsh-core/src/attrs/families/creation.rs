//! Attributes of fills, sequences, joins, copies and random numbers.
//!
//! Kernels that draw take a `generator`; without one they draw from the default generator.

use crate::{DType, Dims, Generator, Scalar};

crate::words! {
    in "torsh_core::attrs";

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
    ///
    /// ```
    /// use torsh_core::{DType, attrs};
    /// let call = attrs::CopyTo { dtype: DType::F16, memory_format: attrs::MemoryFormat::Preserve };
    /// assert_eq!(attrs::display(&call).to_string(), "dtype=float16, memory_format='preserve_format'");
    /// ```
    CopyTo {
        /// The result's dtype.
        dtype: DType,
        /// The result's layout.
        memory_format: MemoryFormat,
    }
    /// `Fill`: one number everywhere.
    ///
    /// ```
    /// use torsh_core::{Scalar, attrs};
    /// let call = attrs::Fill { value: Scalar::Float(0.5) };
    /// assert_eq!(attrs::display(&call).to_string(), "value=0.5");
    /// ```
    Fill {
        /// The number.
        value: Scalar,
    }
    /// `Arange`: `start + i * step` at index `i`.
    ///
    /// ```
    /// use torsh_core::{Scalar, attrs};
    /// let call = attrs::Arange { start: Scalar::Int(2), step: Scalar::Int(3) };
    /// assert_eq!(attrs::display(&call).to_string(), "start=2, step=3");
    /// ```
    Arange {
        /// The first number.
        start: Scalar,
        /// The distance of two numbers.
        step: Scalar,
    }
    /// `Linspace`: as many equally spaced numbers as the output has elements.
    ///
    /// ```
    /// use torsh_core::{Scalar, attrs};
    /// let call = attrs::Linspace { start: Scalar::Int(0), end: Scalar::Int(1), base: None };
    /// assert_eq!(attrs::display(&call).to_string(), "start=0, end=1, base=None");
    /// ```
    Linspace {
        /// The first number.
        start: Scalar,
        /// The last number.
        end: Scalar,
        /// Where given, the numbers are exponents, and the results its powers (`logspace`).
        base: Option<Scalar>,
    }
    /// `Cat`: the operands one after the other.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Cat { dim: 1 };
    /// assert_eq!(attrs::display(&call).to_string(), "dim=1");
    /// ```
    Cat {
        /// The dimension along which they lie, counted from the start.
        dim: usize,
    }
    /// `Pad`: a number around the operand.
    ///
    /// ```
    /// use torsh_core::{Scalar, attrs};
    /// let call = attrs::Pad {
    ///     before: [0, 1].into_iter().collect(),
    ///     after: [0, 2].into_iter().collect(),
    ///     value: Scalar::Int(0),
    /// };
    /// assert_eq!(
    ///     attrs::display(&call).to_string(),
    ///     "before=[0, 1], after=[0, 2], value=0"
    /// );
    /// ```
    Pad {
        /// How many elements come before the operand's, for each dimension.
        before: Dims,
        /// How many elements come behind them, for each dimension.
        after: Dims,
        /// The number.
        value: Scalar,
    }
    /// `Uniform`: numbers from `from` to below `to`.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Uniform { from: -1.0, to: 1.0, generator: None };
    /// assert_eq!(attrs::display(&call).to_string(), "from=-1.0, to=1.0, generator=None");
    /// ```
    Uniform {
        /// The lower bound, which can be drawn.
        from: f64,
        /// The upper bound, which cannot.
        to: f64,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `Normal`: normal numbers.
    ///
    /// ```
    /// use torsh_core::{Generator, attrs};
    /// let call = attrs::Normal { mean: 0.0, std: 0.5, generator: Some(Generator::new(0)) };
    /// assert_eq!(attrs::display(&call).to_string(), "mean=0.0, std=0.5, generator=generator");
    /// ```
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
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Exponential { lambd: 1.5, generator: None };
    /// assert_eq!(attrs::display(&call).to_string(), "lambd=1.5, generator=None");
    /// ```
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
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Bernoulli { p: Some(0.5), generator: None };
    /// assert_eq!(attrs::display(&call).to_string(), "p=0.5, generator=None");
    /// ```
    Bernoulli {
        /// The probability of a one; without it the operand has the probability of each.
        p: Option<f64>,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `RandInt`: whole numbers from `from` to below `to`.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::RandInt { from: Some(0), to: Some(10), generator: None };
    /// assert_eq!(attrs::display(&call).to_string(), "from=0, to=10, generator=None");
    /// ```
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
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Multinomial { num_samples: 4, generator: None };
    /// assert_eq!(attrs::display(&call).to_string(), "num_samples=4, generator=None");
    /// ```
    Multinomial {
        /// How many are drawn for each row of weights.
        num_samples: usize,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
    /// `Dropout`: zeroes elements and scales the others by `1 / (1 - p)`.
    ///
    /// ```
    /// use torsh_core::attrs;
    /// let call = attrs::Dropout { p: 0.1, generator: None };
    /// assert_eq!(attrs::display(&call).to_string(), "p=0.1, generator=None");
    /// ```
    Dropout {
        /// The probability of a zero.
        p: f64,
        /// Where the numbers come from.
        generator: Option<Generator>,
    }
}
