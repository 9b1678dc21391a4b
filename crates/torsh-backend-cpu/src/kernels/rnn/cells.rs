//! The pointwise part of one step of a recurrent layer, in blocks that stay in registers and the
//! first-level cache.

use std::mem::MaybeUninit;

use crate::multiversion;
use crate::scalar::Real;
use crate::vmath::VMath;

/// The elements from `at` on of a block of `L`, zeros behind the end and for null. What is not a whole
/// block is put together elsewhere, and only where to load from depends on it: a value of which one
/// part is in registers and another in memory would be in memory in both cases.
#[inline(always)]
unsafe fn load<T: Real, const L: usize>(p: *const T, at: usize, len: usize) -> [T; L] {
    let mut some = MaybeUninit::uninit();
    let from = match len == L && !p.is_null() {
        true => p.wrapping_add(at).cast::<[T; L]>(),
        false => {
            // SAFETY: the caller's promise.
            unsafe { some_of(p, at, len, &mut some) };
            some.as_ptr()
        }
    };
    // SAFETY: the caller's promise.
    unsafe { from.read() }
}

#[inline(never)]
unsafe fn some_of<T: Real, const L: usize>(
    p: *const T,
    at: usize,
    len: usize,
    to: &mut MaybeUninit<[T; L]>,
) {
    let v = to.write([T::ZERO; L]);
    if !p.is_null() {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(p.add(at), v.as_mut_ptr(), len) };
    }
}

/// The sums of two blocks' elements. No closure: those of two gates would be calls.
#[inline(always)]
unsafe fn sum<T: Real, const L: usize>(p: *const T, q: *const T, at: usize, len: usize) -> [T; L] {
    // SAFETY: the caller's promise.
    let (mut v, x) = unsafe { (load::<T, L>(p, at, len), load::<T, L>(q, at, len)) };
    for k in 0..L {
        v[k] = v[k] + x[k];
    }
    v
}

#[inline(always)]
unsafe fn store<T: Real, const L: usize>(v: &[T; L], p: *mut T, at: usize, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match len == L {
            true => p.add(at).cast::<[T; L]>().write(*v),
            // Of a copy, for the reason above.
            false => some_to(&{ *v }, p.add(at), len),
        }
    }
}

#[inline(never)]
unsafe fn some_to<T: Real, const L: usize>(v: &[T; L], p: *mut T, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(v.as_ptr(), p, len) };
}

/// Each block of `n` elements: where it begins and how long it is.
#[inline(always)]
fn blocks<const L: usize>(n: usize, mut f: impl FnMut(usize, usize)) {
    let mut at = 0;
    while at < n {
        f(at, L.min(n - at));
        at += L;
    }
}

// In blocks of `L` elements: few enough that a cell's values stay in registers.
multiversion! {
    /// `y = act(gx + y)`.
    pub(super) unsafe fn plain<A, T: Real; const L: usize>(n: usize, gx: *const T, y: *mut T, relu: bool) {
        // SAFETY: the caller's promise.
        blocks::<L>(n, |at, len| unsafe {
            let (x, mut v) = (load::<T, L>(gx, at, len), load::<T, L>(y, at, len));
            for k in 0..L {
                v[k] = v[k] + x[k];
            }
            match relu {
                // A nan stays one.
                true => (0..L).for_each(|k| v[k] = if v[k] < T::ZERO { T::ZERO } else { v[k] }),
                false => (0..L).for_each(|k| v[k] = VMath::tanh::<A>(v[k])),
            }
            store(&v, y, at, len);
        });
    }

    /// `s` holds four gates' products, then the cells: gates and cells are put there, and
    /// `h = o * tanh(c)`.
    pub(super) unsafe fn lstm<A, T: Real; const L: usize>(n: usize, gx: *const T, s: *mut T, c: *const T, h: *mut T) {
        // SAFETY: the caller's promise.
        blocks::<L>(n, |at, len| unsafe {
            let [mut i, mut f, mut g, mut o] = [
                sum::<T, L>(s, gx, at, len),
                sum::<T, L>(s, gx, n + at, len),
                sum::<T, L>(s, gx, 2 * n + at, len),
                sum::<T, L>(s, gx, 3 * n + at, len),
            ];
            let mut c = load::<T, L>(c, at, len);
            let mut h_new = [T::ZERO; L];
            for k in 0..L {
                i[k] = VMath::sigmoid::<A>(i[k]);
            }
            for k in 0..L {
                f[k] = VMath::sigmoid::<A>(f[k]);
            }
            for k in 0..L {
                g[k] = VMath::tanh::<A>(g[k]);
            }
            for k in 0..L {
                o[k] = VMath::sigmoid::<A>(o[k]);
            }
            for k in 0..L {
                c[k] = f[k] * c[k] + i[k] * g[k];
            }
            for k in 0..L {
                h_new[k] = o[k] * VMath::tanh::<A>(c[k]);
            }
            store(&i, s, at, len);
            store(&f, s, n + at, len);
            store(&g, s, 2 * n + at, len);
            store(&o, s, 3 * n + at, len);
            store(&c, s, 4 * n + at, len);
            store(&h_new, h, at, len);
        });
    }

    /// `s` holds three gates' products: gates are put there, and behind them the new gate's part
    /// of the hidden state.
    pub(super) unsafe fn gru<A, T: Real; const L: usize>(n: usize, gx: *const T, s: *mut T, bias: *const T, h: *const T, y: *mut T) {
        // SAFETY: the caller's promise.
        blocks::<L>(n, |at, len| unsafe {
            let [mut r, mut z, q] = [
                sum::<T, L>(s, bias, at, len),
                sum::<T, L>(s, bias, n + at, len),
                sum::<T, L>(s, bias, 2 * n + at, len),
            ];
            let (xr, xz, mut new) = (
                load::<T, L>(gx, at, len),
                load::<T, L>(gx, n + at, len),
                load::<T, L>(gx, 2 * n + at, len),
            );
            let mut h = load::<T, L>(h, at, len);
            for k in 0..L {
                r[k] = VMath::sigmoid::<A>(r[k] + xr[k]);
            }
            for k in 0..L {
                z[k] = VMath::sigmoid::<A>(z[k] + xz[k]);
            }
            for k in 0..L {
                new[k] = VMath::tanh::<A>(new[k] + r[k] * q[k]);
            }
            for k in 0..L {
                h[k] = (h[k] - new[k]) * z[k] + new[k];
            }
            store(&r, s, at, len);
            store(&z, s, n + at, len);
            store(&new, s, 2 * n + at, len);
            store(&q, s, 3 * n + at, len);
            store(&h, y, at, len);
        });
    }

    /// `dx = (dh + dy) act'`.
    pub(super) unsafe fn plain_backward<A, T: Real; const L: usize>(n: usize, y: *const T, dh: *const T, dy: *const T, dx: *mut T, relu: bool) {
        // SAFETY: the caller's promise.
        blocks::<L>(n, |at, len| unsafe {
            let (y, dy, mut d) = (
                load::<T, L>(y, at, len),
                load::<T, L>(dy, at, len),
                load::<T, L>(dh, at, len),
            );
            for k in 0..L {
                d[k] = d[k] + dy[k];
            }
            match relu {
                true => (0..L).for_each(|k| d[k] = if y[k] > T::ZERO { d[k] } else { T::ZERO }),
                false => (0..L).for_each(|k| d[k] = d[k] * (T::ONE - y[k] * y[k])),
            }
            store(&d, dx, at, len);
        });
    }

    /// The gates' gradients of `dh + dy`, where `dy` may be null; `dc` goes on to the step before,
    /// and `m`, where not null, gets `o * tanh(c)`.
    pub(super) unsafe fn lstm_backward<A, T: Real; const L: usize>(n: usize, s: *const T, c: *const T, dh: *const T, dy: *const T, dc: *mut T, dx: *mut T, m: *mut T) {
        // SAFETY: the caller's promise.
        blocks::<L>(n, |at, len| unsafe {
            let saved = |q: usize| load::<T, L>(s, q * n + at, len);
            let (mut i, mut f, mut g, mut o, mut t) =
                (saved(0), saved(1), saved(2), saved(3), saved(4));
            let (c, mut d, dy, mut dcell) = (
                load::<T, L>(c, at, len),
                load::<T, L>(dh, at, len),
                load::<T, L>(dy, at, len),
                load::<T, L>(dc, at, len),
            );
            for k in 0..L {
                t[k] = VMath::tanh::<A>(t[k]);
            }
            if !m.is_null() {
                let mut hidden = [T::ZERO; L];
                for k in 0..L {
                    hidden[k] = o[k] * t[k];
                }
                store(&hidden, m, at, len);
            }
            for k in 0..L {
                d[k] = d[k] + dy[k];
            }
            for k in 0..L {
                dcell[k] = dcell[k] + d[k] * o[k] * (T::ONE - t[k] * t[k]);
                o[k] = d[k] * t[k] * o[k] * (T::ONE - o[k]);
            }
            for k in 0..L {
                let of_i = dcell[k] * g[k] * i[k] * (T::ONE - i[k]);
                g[k] = dcell[k] * i[k] * (T::ONE - g[k] * g[k]);
                i[k] = of_i;
                let of_f = dcell[k] * c[k] * f[k] * (T::ONE - f[k]);
                dcell[k] = dcell[k] * f[k];
                f[k] = of_f;
            }
            store(&i, dx, at, len);
            store(&f, dx, n + at, len);
            store(&g, dx, 2 * n + at, len);
            store(&o, dx, 3 * n + at, len);
            store(&dcell, dc, at, len);
        });
    }

    /// The gates' gradients of `dh + dy`, on the side of the input and of the hidden state;
    /// `carry` gets what goes straight to the step before.
    pub(super) unsafe fn gru_backward<A, T: Real; const L: usize>(n: usize, s: *const T, h: *const T, dh: *const T, dy: *const T, dx: *mut T, dg: *mut T, carry: *mut T) {
        // SAFETY: the caller's promise.
        blocks::<L>(n, |at, len| unsafe {
            let saved = |q: usize| load::<T, L>(s, q * n + at, len);
            let (mut r, mut z, mut new, mut q) = (saved(0), saved(1), saved(2), saved(3));
            let (h, dy, mut d) = (
                load::<T, L>(h, at, len),
                load::<T, L>(dy, at, len),
                load::<T, L>(dh, at, len),
            );
            for k in 0..L {
                d[k] = d[k] + dy[k];
            }
            for k in 0..L {
                let of_new = d[k] * (T::ONE - z[k]) * (T::ONE - new[k] * new[k]);
                let of_z = d[k] * (h[k] - new[k]) * z[k] * (T::ONE - z[k]);
                d[k] = d[k] * z[k];
                z[k] = of_z;
                let of_r = of_new * q[k] * r[k] * (T::ONE - r[k]);
                q[k] = of_new * r[k];
                r[k] = of_r;
                new[k] = of_new;
            }
            for to in [dx, dg] {
                store(&r, to, at, len);
                store(&z, to, n + at, len);
            }
            store(&new, dx, 2 * n + at, len);
            store(&q, dg, 2 * n + at, len);
            store(&d, carry, at, len);
        });
    }
}
