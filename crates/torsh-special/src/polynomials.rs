//! Orthogonal polynomials at `input`, x, of the order `n`.

crate::binary! {
    /// Hermite's polynomial H, the physicists': `H(n + 1) = 2 x H(n) - 2 n H(n - 1)`, with `H(0) = 1` and `H(1) = 2 x`.
    /// Nan above order 512, of float32 above 128, as in PyTorch.
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    hermite_polynomial_h hermite_polynomial_h (input, n) [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 40.0], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// Hermite's polynomial He, the probabilists': `He(n + 1) = x He(n) - n He(n - 1)`, with `He(0) = 1` and `He(1) = x`.
    /// Nan above order 512, of float32 above 128, as in PyTorch.
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    hermite_polynomial_he hermite_polynomial_he (input, n) [0.5, 2.0], [2.0, 3.0] ~ [-0.75, 2.0], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// Laguerre's polynomial: `(n + 1) L(n + 1) = (2 n + 1 - x) L(n) - n L(n - 1)`, with `L(0) = 1` and `L(1) = 1 - x`. Nan
    /// above order 1,048,576: each order is a step of the recurrence.
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    laguerre_polynomial_l laguerre_polynomial_l (input, n) [0.5, 2.0], [2.0, 3.0] ~ [0.125, -0.333333], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// Legendre's polynomial: `(n + 1) P(n + 1) = (2 n + 1) x P(n) - n P(n - 1)`, with `P(0) = 1` and `P(1) = x`. Nan above
    /// order 1,048,576: each order is a step of the recurrence.
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    legendre_polynomial_p legendre_polynomial_p (input, n) [0.5, 2.0], [2.0, 3.0] ~ [-0.125, 17.0], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// Chebyshev's polynomial of the first kind: `T(n + 1) = 2 x T(n) - T(n - 1)`, with `T(0) = 1` and
    /// `T(1) = x`.
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    chebyshev_polynomial_t chebyshev_polynomial_t (input, n) [0.5, 2.0], [2.0, 3.0] ~ [-0.5, 26.0], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// Chebyshev's polynomial of the second kind: `U(n + 1) = 2 x U(n) - U(n - 1)`, with `U(0) = 1` and
    /// `U(1) = 2 x`.
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    chebyshev_polynomial_u chebyshev_polynomial_u (input, n) [0.5, 2.0], [2.0, 3.0] ~ [0.0, 56.0], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// Chebyshev's polynomial of the third kind: `V(n + 1) = 2 x V(n) - V(n - 1)`, with `V(0) = 1` and
    /// `V(1) = 2 x - 1`.
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    chebyshev_polynomial_v chebyshev_polynomial_v (input, n) [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 41.0], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// Chebyshev's polynomial of the fourth kind: `W(n + 1) = 2 x W(n) - W(n - 1)`, with `W(0) = 1` and
    /// `W(1) = 2 x + 1`.
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    chebyshev_polynomial_w chebyshev_polynomial_w (input, n) [0.5, 2.0], [2.0, 3.0] ~ [1.0, 71.0], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// [`chebyshev_polynomial_t`] at `2 x - 1`, which maps [0, 1] to [-1, 1].
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_t (input, n) [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 99.0], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// [`chebyshev_polynomial_u`] at `2 x - 1`, which maps [0, 1] to [-1, 1].
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_u (input, n) [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 204.0], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// [`chebyshev_polynomial_v`] at `2 x - 1`, which maps [0, 1] to [-1, 1].
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_v (input, n) [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 169.0], "PyTorch has no gradient of this function, so asking for one is an error.";
    /// [`chebyshev_polynomial_w`] at `2 x - 1`, which maps [0, 1] to [-1, 1].
    ///
    /// An order is truncated to a whole number; polynomials of negative order are 0.
    shifted_chebyshev_polynomial_w shifted_chebyshev_polynomial_w (input, n) [0.5, 2.0], [2.0, 3.0] ~ [-1.0, 239.0], "PyTorch has no gradient of this function, so asking for one is an error.";
}
