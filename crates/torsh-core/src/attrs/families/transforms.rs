//! Attributes of Fourier transforms.

use crate::attrs::Ints;

crate::words! {
    in "torsh_core::attrs";

    /// What a Fourier transform takes and gives.
    FftKind {
        /// Complex numbers in, complex numbers out.
        Complex = "c2c",
        /// Real numbers in, their spectrum out.
        FromReal = "r2c",
        /// One half of the spectrum of real numbers in, the real numbers out.
        ToReal = "c2r",
    }
}

crate::attributes! {
    /// `Fft`: the discrete Fourier transform along dimensions. It multiplies every result with `scale`.
    Fft {
        /// What it takes and gives.
        kind: FftKind,
        /// The dimensions, counted from the start, each once. Of `r2c` and `c2r` the last one is that whose
        /// spectrum has one half; the others are complex transforms.
        dims: Ints,
        /// Whether the exponents are negative, as in `fft`.
        forward: bool,
        /// A factor of every result.
        scale: f64,
        /// A factor of the terms of the half spectrum (the results of `r2c`, the operands of `c2r`) that stand
        /// for two: all but the first, and but the last of an even `length`.
        interior: f64,
        /// The number of points of the last dimension: of the real numbers of `r2c` and `c2r`.
        length: usize,
        /// Whether the result of `r2c` is one half of the spectrum; the whole one has one dimension only.
        onesided: bool,
    }
}
