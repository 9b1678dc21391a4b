//! Attention against plain sums in float64.

use torsh_core::{Attributes, DType, Kernel, KernelArgs, Result, View, attrs, pool};

use super::scores::ScoreNumber;
use super::scores::{ScoreRows, Scores};
use crate::kernel;
use crate::kernels::panels::{self, CausalBand, PanelProduct, Panels};
use crate::simd::Level;
#[cfg(target_arch = "x86_64")]
use crate::simd::isa::with_and_without;
#[cfg(not(target_arch = "x86_64"))]
use crate::testing::once as with_and_without;

/// Numbers in [-1, 1) that look random.
fn numbers(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
        })
        .collect()
}

trait TestFloat: ScoreNumber {
    const DTYPE: DType;
}
impl TestFloat for f32 {
    const DTYPE: DType = DType::F32;
}
impl TestFloat for f64 {
    const DTYPE: DType = DType::F64;
}

#[derive(Clone)]
struct Call {
    batch: usize,
    heads: usize,
    group: usize,
    l: usize,
    s: usize,
    e: usize,
    d: usize,
    /// `right` is 0 without a `past` or a `left`.
    causal: bool,
    /// `past`, `left` and `right`, instead.
    window: Option<(usize, Option<usize>, Option<usize>)>,
    scale: f64,
    /// 0: none, 1: bool `[l, s]`, 2: added `[batch, 1, l, s]`, 3: bool `[batch, 1, 1, s]`.
    mask: usize,
}

impl Call {
    fn new(l: usize, s: usize, e: usize, d: usize) -> Call {
        Call {
            batch: 2,
            heads: 2,
            group: 1,
            l,
            s,
            e,
            d,
            causal: false,
            window: None,
            scale: 0.3,
            mask: 0,
        }
    }
    fn window(&self) -> (usize, Option<usize>, Option<usize>) {
        self.window.unwrap_or((0, None, self.causal.then_some(0)))
    }
    fn sees(&self, i: usize, j: usize) -> bool {
        let (past, left, right) = self.window();
        left.is_none_or(|n| j + n >= past + i) && right.is_none_or(|n| j <= past + i + n)
    }
    fn mask_shape(&self) -> Vec<usize> {
        match self.mask {
            0 => vec![],
            1 => vec![self.l, self.s],
            2 => vec![self.batch, 1, self.l, self.s],
            _ => vec![self.batch, 1, 1, self.s],
        }
    }
}

struct CallOperands {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    g: Vec<f64>,
    added: Vec<f64>,
    shown: Vec<u8>,
}

impl CallOperands {
    fn new(c: &Call) -> CallOperands {
        let kv = c.batch * c.heads / c.group;
        let n = c.mask_shape().iter().product::<usize>().max(1);
        let shown: Vec<u8> = numbers(n, 5).iter().map(|&v| u8::from(v > -0.3)).collect();
        let mut added = numbers(n, 6);
        if c.mask == 2 {
            // A query that sees nothing.
            added[..c.s].fill(f64::NEG_INFINITY);
            let last = added.len() - 1;
            added[last] = f64::NEG_INFINITY;
        }
        CallOperands {
            q: numbers(c.batch * c.heads * c.l * c.e, 1),
            k: numbers(kv * c.s * c.e, 2),
            v: numbers(kv * c.s * c.d, 3),
            g: numbers(c.batch * c.heads * c.l * c.d, 4),
            added,
            shown,
        }
    }

    /// What is added to the score of a query and a key.
    fn masked(&self, c: &Call, b: usize, i: usize, j: usize) -> f64 {
        let hide = |shown: bool| if shown { 0.0 } else { f64::NEG_INFINITY };
        match c.mask {
            _ if !c.sees(i, j) => f64::NEG_INFINITY,
            0 => 0.0,
            1 => hide(self.shown[i * c.s + j] != 0),
            2 => self.added[(b * c.l + i) * c.s + j],
            _ => hide(self.shown[b * c.s + j] != 0),
        }
    }
}

/// The result and the gradients of query, key and value.
fn plain(c: &Call, o: &CallOperands) -> [Vec<f64>; 4] {
    let mut out = vec![0.0; c.batch * c.heads * c.l * c.d];
    let (mut dq, mut dk, mut dv) = (o.q.clone(), o.k.clone(), o.v.clone());
    [&mut dq, &mut dk, &mut dv]
        .into_iter()
        .for_each(|t| t.fill(0.0));
    for h in 0..c.batch * c.heads {
        let (b, kv) = (h / c.heads, h / c.group);
        for i in 0..c.l {
            let q = &o.q[(h * c.l + i) * c.e..][..c.e];
            let key = |j: usize| (kv * c.s + j) * c.e;
            let value = |j: usize| (kv * c.s + j) * c.d;
            let scores: Vec<f64> = (0..c.s)
                .map(|j| {
                    let dot: f64 = q.iter().zip(&o.k[key(j)..]).map(|(a, b)| a * b).sum();
                    dot * c.scale + o.masked(c, b, i, j)
                })
                .collect();
            let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if most == f64::NEG_INFINITY {
                continue;
            }
            let mut p: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
            let total: f64 = p.iter().sum();
            p.iter_mut().for_each(|p| *p /= total);
            let at = (h * c.l + i) * c.d;
            let g = &o.g[at..at + c.d];
            let mut dp = vec![0.0; c.s];
            for j in 0..c.s {
                for n in 0..c.d {
                    out[at + n] += p[j] * o.v[value(j) + n];
                    dv[value(j) + n] += p[j] * g[n];
                    dp[j] += g[n] * o.v[value(j) + n];
                }
            }
            let delta: f64 = p.iter().zip(&dp).map(|(a, b)| a * b).sum();
            for j in 0..c.s {
                let ds = p[j] * (dp[j] - delta) * c.scale;
                for n in 0..c.e {
                    dq[(h * c.l + i) * c.e + n] += ds * o.k[key(j) + n];
                    dk[key(j) + n] += ds * q[n];
                }
            }
        }
    }
    [out, dq, dk, dv]
}

fn row_major(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d] as isize;
    }
    strides
}

/// The kernels' result and gradients; `apart` lays batch, head, row, column out in another order.
fn fused<T: TestFloat>(c: &Call, o: &CallOperands, apart: bool) -> [Vec<f64>; 4] {
    by::<T>(c, o, apart, |args| kernel(args.kernel()).unwrap()(args))
}

/// The same without AMX.
fn general(c: &Call, o: &CallOperands) -> [Vec<f64>; 4] {
    by::<f32>(c, o, false, |args| match args.kernel() {
        Kernel::Attention => {
            let sizes =
                crate::kernels::attention::AttentionSizes::new(args, args.outputs()[0].shape())?;
            super::forward::run::<f32>(args, &sizes, DType::F32)
        }
        _ => {
            let sizes =
                crate::kernels::attention::AttentionSizes::new(args, args.inputs()[5].shape())?;
            super::backward::run::<f32>(args, &sizes, DType::F32)
        }
    })
}

fn by<T: TestFloat>(
    c: &Call,
    o: &CallOperands,
    apart: bool,
    run_it: impl Fn(&KernelArgs<'_>) -> Result<()>,
) -> [Vec<f64>; 4] {
    let kv_heads = c.heads / c.group;
    let shapes = [
        [c.batch, c.heads, c.l, c.e],
        [c.batch, kv_heads, c.s, c.e],
        [c.batch, kv_heads, c.s, c.d],
        [c.batch, c.heads, c.l, c.d],
    ];
    let strides = shapes.map(|s| {
        let major = row_major(&s);
        match apart {
            // Rows, batch, heads, columns.
            true => {
                let n = row_major(&[s[2], s[0], s[1], s[3]]);
                vec![n[1], n[2], n[0], n[3]]
            }
            false => major,
        }
    });
    let offset = |t: usize, index: usize| -> usize {
        let (mut rest, mut at) = (index, 0);
        for d in (0..4).rev() {
            at += (rest % shapes[t][d]) * strides[t][d] as usize;
            rest /= shapes[t][d];
        }
        at
    };
    let laid = |t: usize, from: &[f64]| {
        let mut to = vec![T::ZERO; from.len()];
        from.iter()
            .enumerate()
            .for_each(|(i, &v)| to[offset(t, i)] = T::c(v));
        to
    };
    let read = |t: usize, from: &[T]| -> Vec<f64> {
        (0..from.len())
            .map(|i| from[offset(t, i)].to_f64())
            .collect()
    };
    let [mut q, mut k, mut v, mut g] = [laid(0, &o.q), laid(1, &o.k), laid(2, &o.v), laid(3, &o.g)];
    // SAFETY: the buffers of the test outlive the call.
    let view = |t: usize, data: &mut [T]| unsafe {
        View::new(
            data.as_mut_ptr().cast(),
            T::DTYPE,
            &shapes[t][..],
            &strides[t][..],
        )
    };
    let mask_shape = c.mask_shape();
    let mask_strides = row_major(&mask_shape);
    let mut added: Vec<T> = o.added.iter().map(|&v| T::c(v)).collect();
    let mut shown = o.shown.clone();
    let mask = match c.mask {
        0 => View::ABSENT,
        // SAFETY: the buffers of the test outlive the call.
        n => unsafe {
            View::new(
                if n == 2 {
                    added.as_mut_ptr().cast()
                } else {
                    shown.as_mut_ptr()
                },
                if n == 2 { T::DTYPE } else { DType::Bool },
                &mask_shape,
                &mask_strides,
            )
        },
    };
    let nan = |like: &[T]| vec![T::NAN; like.len()];
    let (mut out, mut dq, mut dk, mut dv) = (nan(&g), nan(&q), nan(&k), nan(&v));
    let lse_shape = [c.batch, c.heads, c.l];
    let lse_strides = row_major(&lse_shape);
    let mut lse = vec![T::NAN; lse_shape.iter().product()];
    // SAFETY: the buffers of the test outlive the call.
    let lse = unsafe { View::new(lse.as_mut_ptr().cast(), T::DTYPE, &lse_shape, &lse_strides) };
    let (past, left, right) = c.window();
    let attrs = attrs::AttentionBackward {
        past,
        left,
        right,
        scale: c.scale,
        enable_gqa: c.group > 1,
        query_grad: true,
        key_grad: true,
        value_grad: true,
    };
    let run = |key, outputs: &[View<'_>], inputs: &[View<'_>], attrs: &dyn Attributes| {
        // SAFETY: the views are of the test's buffers, as the kernel asks.
        let args = unsafe { KernelArgs::new(key, T::DTYPE, outputs, inputs, attrs) };
        run_it(&args).unwrap();
    };
    let (qv, kv, vv) = (view(0, &mut q), view(1, &mut k), view(2, &mut v));
    let ov = view(3, &mut out);
    let (outputs, inputs) = ([ov, lse], [qv, kv, vv, mask]);
    let forward = attrs.forward();
    run(Kernel::Attention, &outputs, &inputs, &forward);
    let grads = [view(0, &mut dq), view(1, &mut dk), view(2, &mut dv)];
    let gv = view(3, &mut g);
    let inputs = [qv, kv, vv, mask, gv, ov, lse];
    run(Kernel::AttentionBackward, &grads, &inputs, &attrs);
    [read(3, &out), read(0, &dq), read(1, &dk), read(2, &dv)]
}

fn check<T: TestFloat>(c: &Call, tolerance: f64) {
    let o = CallOperands::new(c);
    let expected = plain(c, &o);
    for apart in [false, true] {
        let got = fused::<T>(c, &o, apart);
        for (which, (got, expected)) in got.iter().zip(&expected).enumerate() {
            for (i, (a, b)) in got.iter().zip(expected).enumerate() {
                assert!(
                    (a - b).abs() <= tolerance * (1.0 + b.abs()),
                    "{which} at {i}: {a}, expected {b}; l {} s {} e {} d {} window {:?} mask {} group {} apart {apart}",
                    c.l,
                    c.s,
                    c.e,
                    c.d,
                    c.window(),
                    c.mask,
                    c.group
                );
            }
        }
    }
}

/// A decoder's cache, sliding windows, windows on both sides, and queries whose window has no key.
#[torsh_macros::unit_test]
fn windows() {
    for (l, s) in [
        (1usize, 7usize),
        (5, 9),
        (70, 130),
        (130, 300),
        (300, 170),
        (260, 1100),
    ] {
        for window in [
            (3, None, Some(0)),
            (s.saturating_sub(l), None, Some(0)),
            (s.saturating_sub(l), Some(4), Some(0)),
            (0, Some(40), Some(0)),
            (0, Some(3), Some(5)),
            (2, Some(100), Some(90)),
            (9, Some(2), None),
        ] {
            for mask in [0, 3] {
                let call = Call {
                    mask,
                    group: 2,
                    window: Some(window),
                    ..Call::new(l, s, 17, 16)
                };
                check::<f32>(&call, 3e-4);
                if l < 100 {
                    check::<f64>(&call, 1e-11);
                }
            }
        }
    }
}

#[torsh_macros::unit_test]
fn odd_sizes_masks_and_groups() {
    for (l, s, e, d) in [
        (1, 1, 1, 1),
        (1, 300, 5, 3),
        (5, 7, 3, 2),
        (7, 5, 17, 33),
        (49, 33, 8, 16),
        (100, 270, 9, 20),
        (270, 100, 4, 4),
        (97, 129, 64, 64),
        (60, 1100, 4, 5),
        (530, 520, 3, 9),
    ] {
        let call = Call::new(l, s, e, d);
        let causal = Call {
            causal: true,
            ..call.clone()
        };
        let shared = Call {
            heads: 4,
            group: 2,
            ..call.clone()
        };
        let mut calls = vec![call.clone(), causal, shared];
        calls.push(Call {
            group: 2,
            causal: true,
            ..call.clone()
        });
        calls.extend([1, 2, 3].map(|mask| Call {
            mask,
            ..call.clone()
        }));
        calls.push(Call {
            scale: -1.5,
            batch: 1,
            heads: 1,
            ..call
        });
        for c in &calls {
            check::<f32>(c, 2e-5);
            check::<f64>(c, 1e-11);
        }
    }
}

/// The sizes from which on the matrix unit takes part.
#[torsh_macros::unit_test]
fn long_sequences_to_the_same_precision() {
    with_and_without(|| {
        for (l, s, e, d) in [
            (128, 128, 32, 32),
            (150, 197, 40, 72),
            (300, 560, 64, 33),
            (289, 131, 96, 64),
        ] {
            let call = Call {
                scale: 1.0 / (e as f64).sqrt(),
                ..Call::new(l, s, e, d)
            };
            let causal = Call {
                causal: true,
                ..call.clone()
            };
            let mut calls = vec![call.clone(), causal.clone()];
            calls.push(Call { group: 2, ..causal });
            calls.extend([1, 2, 3].map(|mask| Call {
                mask,
                ..call.clone()
            }));
            for c in &calls {
                check::<f32>(c, 1e-5);
                let o = CallOperands::new(c);
                // What AMX reads is of float32.
                let round = |v: &[f64]| v.iter().map(|&x| f64::from(x as f32)).collect();
                let o = CallOperands {
                    q: round(&o.q),
                    k: round(&o.k),
                    v: round(&o.v),
                    g: round(&o.g),
                    added: round(&o.added),
                    shown: o.shown,
                };
                let expected = plain(c, &o);
                let (ours, theirs) = (fused::<f32>(c, &o, false), general(c, &o));
                for (which, expected) in expected.iter().enumerate() {
                    let error = |got: &[f64]| {
                        let pairs = got.iter().zip(expected);
                        let sum: f64 = pairs.map(|(a, b)| (a - b) * (a - b)).sum();
                        (sum / expected.len() as f64).sqrt()
                    };
                    let (ours, theirs) = (error(&ours[which]), error(&theirs[which]));
                    assert!(
                        ours <= 1.5 * theirs,
                        "{which}: {ours} is more than {theirs}; l {l} s {s} e {e} d {d}"
                    );
                }
            }
        }
    });
}

#[torsh_macros::unit_test]
fn long_sequences_of_what_is_not_finite() {
    with_and_without(|| {
        let c = Call {
            batch: 1,
            heads: 1,
            ..Call::new(130, 140, 32, 32)
        };
        let bits =
            |got: [Vec<f64>; 4]| got.map(|t| t.into_iter().map(f64::to_bits).collect::<Vec<_>>());
        for (value, which) in [
            (f64::NAN, 0),
            (f64::INFINITY, 1),
            (1e35, 1),
            (f64::NEG_INFINITY, 2),
            (1e30, 2),
        ] {
            let mut o = CallOperands::new(&c);
            [&mut o.q, &mut o.k, &mut o.v][which][3 * 32 + 5] = value;
            assert_eq!(bits(fused::<f32>(&c, &o, false)), bits(general(&c, &o)));
        }
        // Of the gradient alone.
        let mut o = CallOperands::new(&c);
        o.g[7] = f64::NAN;
        let ([ours, ..], [theirs, ..]) = (fused::<f32>(&c, &o, false), general(&c, &o));
        assert!(ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-5));
        let [_, dq, ..] = fused::<f32>(&c, &o, false);
        assert!(dq[..32].iter().all(|v| v.is_nan()) && dq[32..].iter().all(|v| !v.is_nan()));
        // A mask that hides all keys of a query.
        let masked = Call { mask: 2, ..c };
        let [out, ..] = fused::<f32>(&masked, &CallOperands::new(&masked), false);
        assert_eq!(out[..32], [0.0; 32]);
    });
}

#[torsh_macros::unit_test]
fn the_same_bits_for_any_number_of_threads() {
    with_and_without(|| {
        let before = pool::num_threads();
        let all = [(1, 1, false), (1, 1, true), (1, 3, false), (2, 2, true)];
        for ((batch, heads, causal), e) in all.into_iter().flat_map(|c| [16, 40].map(|e| (c, e))) {
            let c = Call {
                batch,
                heads,
                causal,
                ..Call::new(300, 310, e, e + 8)
            };
            let o = CallOperands::new(&c);
            let mut first = None;
            for threads in [1, 2, 3, 5] {
                pool::set_num_threads(threads).unwrap();
                let got = fused::<f32>(&c, &o, false)
                    .map(|t| t.into_iter().map(f64::to_bits).collect::<Vec<_>>());
                assert!(
                    first.get_or_insert_with(|| got.clone()) == &got,
                    "{threads} threads"
                );
            }
        }
        pool::set_num_threads(before).unwrap();
    });
}

#[torsh_macros::unit_test]
fn nan_and_infinities() {
    let c = Call {
        batch: 1,
        heads: 1,
        ..Call::new(60, 40, 4, 4)
    };
    let nan_rows = |o: &CallOperands, c: &Call| -> Vec<usize> {
        let [out, ..] = fused::<f32>(c, o, false);
        (0..c.l)
            .filter(|i| out[i * c.d..(i + 1) * c.d].iter().any(|v| v.is_nan()))
            .collect()
    };
    let mut o = CallOperands::new(&c);
    o.q[3 * c.e] = f64::NAN;
    assert_eq!(nan_rows(&o, &c), [3], "a query");
    let mut o = CallOperands::new(&c);
    o.k[39 * c.e] = f64::NAN;
    assert_eq!(nan_rows(&o, &c), (0..60).collect::<Vec<_>>(), "a key");
    let causal = Call {
        causal: true,
        ..c.clone()
    };
    assert_eq!(
        nan_rows(&o, &causal),
        (39..60).collect::<Vec<_>>(),
        "a key that few see"
    );
    let hidden = Call {
        mask: 3,
        ..c.clone()
    };
    o.shown = vec![1; 40];
    o.shown[39] = 0;
    assert_eq!(nan_rows(&o, &hidden), [], "a key that nobody sees");
    // Scores of negative infinity alone: no key counts, and nothing has a gradient.
    let mut o = CallOperands::new(&c);
    o.k.fill(-1.0);
    o.q[..c.e].fill(f64::INFINITY);
    let [out, ..] = fused::<f32>(&c, &o, false);
    assert_eq!(out[..c.d], [0.0; 4]);
    // Scores far from 0.
    let mut o = CallOperands::new(&c);
    o.q.iter_mut().for_each(|v| *v *= 1e4);
    let (got, expected) = (fused::<f64>(&c, &o, false), plain(&c, &o));
    assert!(
        got[0]
            .iter()
            .zip(&expected[0])
            .all(|(a, b)| (a - b).abs() < 1e-9)
    );
}

#[torsh_macros::unit_test]
fn products_at_every_level() {
    for level in Level::ALL {
        if !level.is_available() {
            continue;
        }
        let width = f32::width(level);
        // One panel, two, and three, of a left operand whose rows or columns are adjacent.
        for (m, panels, rows) in (1..20).flat_map(|m| {
            [1, 2, 3]
                .map(|p| [true, false].map(|rows| (m, p, rows)))
                .concat()
        }) {
            let (k, n) = (19, width * panels - 5);
            let a: Vec<f32> = numbers(m * k, 7).iter().map(|&v| v as f32).collect();
            let b: Vec<f32> = numbers(panels * width * k, 8)
                .iter()
                .map(|&v| v as f32)
                .collect();
            let mut c = vec![1.0f32; m * panels * width];
            let steps = if rows { [k, 1] } else { [1, m] };
            let p = PanelProduct {
                m,
                n,
                k,
                a: a.as_ptr(),
                steps: steps.map(|s| s as isize),
                b: b.as_ptr(),
                right: [width * k, width],
                c: c.as_mut_ptr(),
                ld: panels * width,
                add: true,
                band: CausalBand::Terms(-3),
            };
            // SAFETY: the buffers have the sizes that the product says.
            unsafe { panels::product_f32::at(level)(&p, &mut []) };
            for r in 0..m {
                for j in 0..n {
                    // Rows are limited some at a time.
                    let two = panels::pairs(level) && (j / width) / 2 * 2 + 1 < panels;
                    let height = panels::rows(level, two);
                    let end = (r / height * height + height).min(m);
                    let terms = (end as isize - 3).clamp(0, k as isize) as usize;
                    let left = |t: usize| a[r * steps[0] + t * steps[1]];
                    let right = |t: usize| b[(j / width * k + t) * width + j % width];
                    let sum: f32 = (0..terms).map(|t| left(t) * right(t)).sum();
                    let got = c[r * panels * width + j];
                    assert!((got - 1.0 - sum).abs() < 1e-5, "{level:?} {m} {r} {j}");
                }
            }
        }
    }
}

#[torsh_macros::unit_test]
fn weights_at_every_level() {
    // Keys that make an incomplete vector, and results below the normal numbers.
    let keys = 150usize;
    let scores: Vec<f32> = (0..keys)
        .map(|i| match i {
            3 => f32::NEG_INFINITY,
            9 => f32::MIN,
            _ => 7.0 - 0.77 * ((i * 37) % keys) as f32,
        })
        .collect();
    let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponential = |(i, &x): (usize, &f32), reach: isize| match (i as isize) < reach {
        true => (f64::from(x) - f64::from(most)).exp(),
        false => 0.0,
    };
    let at_level = |level: Level, reach: isize| {
        // What is read afterwards may be one row of a tile further than the row's reach.
        let read = keys.min(reach.saturating_add(8) as usize);
        let expected: Vec<f64> = (scores.iter().enumerate().take(read))
            .map(|score| exponential(score, reach))
            .collect();
        for before in [None, Some(most), Some(most - 2.0), Some(most + 1.0)] {
            let mut row = scores.clone();
            row.resize(keys.next_multiple_of(16) + 16, f32::NAN);
            let block = Scores {
                rows: 1,
                keys,
                reach,
                from: isize::MIN,
                at: row.as_mut_ptr(),
                ld: row.len(),
            };
            let mut each = [[f32::NAN; 16]; 4];
            (each[0][0], each[1][0]) = (before.unwrap_or(f32::NAN), 3.0);
            let [maxima, sums, shrunk, added] = each.each_mut().map(|v| v.as_mut_ptr());
            let rows = ScoreRows {
                most: maxima,
                sum: sums,
                before: shrunk,
                added,
            };
            let mut out = [2.0f32; 5];
            let results = match before {
                Some(_) => out.as_mut_ptr(),
                None => std::ptr::null_mut(),
            };
            // SAFETY: the buffers have the sizes that the block says.
            unsafe { super::passes::weigh::at(level)(&block, &rows, results, 5) };
            let greatest = before.map_or(most, |b| b.max(most));
            let factor = (f64::from(most) - f64::from(greatest)).exp();
            let shrink = before.map_or(1.0, |b| (f64::from(b) - f64::from(greatest)).exp());
            let near = |got: f32, want: f64| {
                // An exponent's rounding weighs as much as the exponent.
                let unit = f64::from(f32::EPSILON) * (2.0 - want.max(1e-45).ln());
                (f64::from(got) - want).abs() <= unit * want + 1e-45
            };
            for (&got, want) in row.iter().zip(&expected) {
                assert!(near(got, want * factor), "{level:?} {got} {want}");
            }
            assert_eq!(each[0][0], greatest, "{level:?}");
            let old = if before.is_some() { 3.0 } else { 0.0 };
            let sum = expected.iter().sum::<f64>() * factor + old * shrink;
            assert!(
                (f64::from(each[1][0]) - sum).abs() < 1e-6 * sum,
                "{level:?}"
            );
            let result = if before.is_some() { 2.0 * shrink } else { 2.0 };
            assert!(near(out[0], result) && out == [out[0]; 5], "{level:?}");
        }
    };
    for level in Level::ALL {
        if level.is_available() {
            // The greatest score is the first one.
            for reach in [isize::MAX, 1, 63, 64, 77, 145] {
                at_level(level, reach);
            }
        }
    }
}
