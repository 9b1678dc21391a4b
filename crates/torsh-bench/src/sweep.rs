//! Cliffs: sizes that take more than twice the time of the next larger one.

use std::io::{self, Write};

use torsh_tensor::{DType, Result};

use crate::harness::{measure, selects};
use crate::inputs::Layout;
use crate::spec::{Conv, Op, Spec};

/// A size that takes so much longer than the next larger one is a cliff.
const CLIFF: f64 = 2.0;
/// A layout that takes so much longer than rows one after the other is told too.
const LAYOUT: f64 = 4.0;
/// Times that a suspected cliff is measured again, others disturbing.
const AGAIN: usize = 3;

/// Workloads of growing size.
pub struct Series {
    /// What they compute.
    pub name: String,
    /// How their inputs lie in memory.
    pub layout: Layout,
    /// Sizes as text, and workloads, the smallest first.
    pub points: Vec<(String, Spec)>,
}

/// Small sizes, and sizes around the widths of registers and blocks.
const SIDES: &[usize] = &[
    1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65, 95, 96,
    97, 127, 128, 129, 160, 191, 192, 193, 255, 256, 257, 320, 383, 384, 385, 448, 511, 512, 513,
    640,
];
/// Numbers of elements, from one to beyond the caches of a core.
const COUNTS: &[usize] = &[
    1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 129, 255, 257, 500, 1000, 1023,
    1025, 2047, 2049, 4095, 4097, 8191, 8193, 16383, 16385, 32767, 32769, 65535, 65537, 131071,
    131073, 262143, 262145, 524287, 524289, 1048575, 1048577, 2097151, 2097153,
];
/// Channels and lengths of rows.
const WIDTHS: &[usize] = &[
    1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129,
];

/// Every series.
pub fn series() -> Vec<Series> {
    let mut all = Vec::new();
    products(&mut all);
    convolutions(&mut all);
    elementwise(&mut all);
    rows(&mut all);
    all
}

fn add(
    all: &mut Vec<Series>,
    name: &str,
    layouts: &[Layout],
    sizes: &[usize],
    spec: impl Fn(usize) -> Spec,
) {
    for &layout in layouts {
        let points = sizes.iter().map(|&n| (n.to_string(), spec(n))).collect();
        let name = format!("{name}, {}", layout.name());
        all.push(Series {
            name,
            layout,
            points,
        });
    }
}

fn products(all: &mut Vec<Series>) {
    use DType::{BF16, F32, F64};
    use Layout::{Contiguous, Strided, Transposed};
    let product = |a: [usize; 2], n: usize, dtype| {
        let (a, b) = (a.to_vec(), vec![a[1], n]);
        Spec::MatMul { a, b, dtype }
    };
    let layouts = [Contiguous, Transposed, Strided];
    add(all, "matmul n x n x n", &layouts, SIDES, |n| {
        product([n, n], n, F32)
    });
    add(all, "matmul float64 n x n x n", &[Contiguous], SIDES, |n| {
        product([n, n], n, F64)
    });
    add(
        all,
        "matmul bfloat16 n x n x n",
        &[Contiguous],
        SIDES,
        |n| product([n, n], n, BF16),
    );
    add(all, "matmul 1 x n x n", &layouts, SIDES, |n| {
        product([1, n], n, F32)
    });
    add(all, "matmul n x n x 1", &layouts, SIDES, |n| {
        product([n, n], 1, F32)
    });
    add(all, "matmul n x 64 x 64", &[Contiguous], SIDES, |n| {
        product([n, 64], 64, F32)
    });
    add(all, "matmul 64 x 64 x n", &[Contiguous], SIDES, |n| {
        product([64, 64], n, F32)
    });
    add(all, "matmul 64 x n x 64", &[Contiguous], SIDES, |n| {
        product([64, n], 64, F32)
    });
    let batch = |n| Spec::MatMul {
        a: vec![8, n, n],
        b: vec![8, n, n],
        dtype: F32,
    };
    add(all, "bmm 8 x n x n x n", &layouts, &SIDES[..30], batch);
}

fn convolutions(all: &mut Vec<Series>) {
    let layouts = [Layout::Contiguous, Layout::ChannelsLast];
    let conv = |input, sizes| Spec::Conv2d(Conv::new(input, sizes));
    add(
        all,
        "conv2d 3x3 c -> c of 1 x c x 28 x 28",
        &layouts,
        WIDTHS,
        |c| conv([1, c, 28, 28], [c, 3, 1, 1, 1]),
    );
    add(
        all,
        "conv2d 3x3 c -> 16 of 1 x c x 28 x 28",
        &layouts,
        WIDTHS,
        |c| conv([1, c, 28, 28], [16, 3, 1, 1, 1]),
    );
    add(
        all,
        "conv2d 1x1 c -> c of 2 x c x 28 x 28",
        &layouts,
        WIDTHS,
        |c| conv([2, c, 28, 28], [c, 1, 1, 0, 1]),
    );
    add(
        all,
        "conv2d 3x3 depthwise of 2 x c x 28 x 28",
        &layouts,
        WIDTHS,
        |c| conv([2, c, 28, 28], [c, 3, 1, 1, c]),
    );
    add(
        all,
        "conv2d 3x3 16 -> 16 of 1 x 16 x n x n",
        &layouts,
        &SIDES[2..30],
        |n| conv([1, 16, n, n], [16, 3, 1, 1, 1]),
    );
    add(
        all,
        "conv2d 3x3 16 -> 16 of n x 16 x 14 x 14",
        &layouts,
        &WIDTHS[..16],
        |n| conv([n, 16, 14, 14], [16, 3, 1, 1, 1]),
    );
    let kernels = [1, 2, 3, 4, 5, 6, 7, 9, 11];
    add(
        all,
        "conv2d n x n 16 -> 16 of 1 x 16 x 32 x 32",
        &layouts,
        &kernels,
        |k| conv([1, 16, 32, 32], [16, k, 1, k / 2, 1]),
    );
    let sides = &SIDES[3..30];
    let (kernel, stride, padding) = (3, 2, 1);
    add(
        all,
        "max_pool2d 3x3 of 4 x 16 x n x n",
        &layouts,
        sides,
        |n| Spec::MaxPool {
            input: [4, 16, n, n],
            kernel,
            stride,
            padding,
        },
    );
    add(
        all,
        "avg_pool2d 2x2 of 4 x 16 x n x n",
        &layouts,
        sides,
        |n| Spec::AvgPool {
            input: [4, 16, n, n],
            kernel: 2,
        },
    );
    add(
        all,
        "batch_norm of 4 x c x 28 x 28",
        &layouts,
        WIDTHS,
        |c| Spec::BatchNorm {
            input: [4, c, 28, 28],
        },
    );
}

fn elementwise(all: &mut Vec<Series>) {
    let layouts = [Layout::Contiguous, Layout::Strided];
    for (name, op) in [
        ("add", Op::Add),
        ("exp", Op::Exp),
        ("gelu", Op::Gelu),
        ("tanh", Op::Tanh),
    ] {
        add(all, &format!("{name} of n"), &layouts, COUNTS, |n| {
            Spec::Pointwise { op, n }
        });
    }
    add(all, "add_ of n", &layouts, COUNTS, |n| Spec::AddInplace {
        n,
    });
    add(all, "copy of n", &layouts, COUNTS, |n| Spec::Copy { n });
    add(all, "sum of n", &layouts, COUNTS, |n| Spec::Sum { n });
    add(all, "cumsum of n", &layouts, COUNTS, |n| Spec::Cumsum { n });
    add(
        all,
        "scatter_add of n to 1000",
        &[Layout::Contiguous],
        COUNTS,
        |n| Spec::ScatterAdd { n, bins: 1000 },
    );
    add(
        all,
        "masked_select of n",
        &[Layout::Contiguous],
        COUNTS,
        |n| Spec::MaskedSelect { n },
    );
    add(all, "sort of n", &layouts, &COUNTS[..39], |n| Spec::Sort {
        n,
    });
}

fn rows(all: &mut Vec<Series>) {
    let layouts = [Layout::Contiguous, Layout::Transposed, Layout::Strided];
    let many = 256;
    for dim in [0, 1] {
        add(
            all,
            &format!("sum over {dim} of 256 x n"),
            &layouts,
            SIDES,
            |n| Spec::SumDim {
                rows: many,
                cols: n,
                dim,
            },
        );
    }
    add(all, "add of 256 x n and n", &layouts, SIDES, |n| {
        Spec::AddBroadcast {
            rows: many,
            cols: n,
        }
    });
    add(all, "softmax of 256 x n", &layouts, SIDES, |n| {
        Spec::Softmax {
            rows: many,
            cols: n,
        }
    });
    add(all, "softmax of n x 256", &layouts, SIDES, |n| {
        Spec::Softmax {
            rows: n,
            cols: many,
        }
    });
    add(all, "layer_norm of 256 x n", &layouts, SIDES, |n| {
        Spec::LayerNorm {
            rows: many,
            cols: n,
        }
    });
    add(all, "cross_entropy of 256 x n", &layouts, SIDES, |n| {
        Spec::CrossEntropy {
            rows: many,
            cols: n,
        }
    });
    // The variance of one element is not a number.
    add(all, "var of 256 x n", &layouts, &SIDES[1..], |n| {
        Spec::Var {
            rows: many,
            cols: n,
        }
    });
    add(
        all,
        "index_select of 1000 x n",
        &[Layout::Contiguous],
        SIDES,
        |n| Spec::IndexSelect {
            count: 1000,
            rows: 1000,
            width: n,
        },
    );
    add(
        all,
        "transpose of n x n",
        &[Layout::Contiguous],
        SIDES,
        |n| Spec::Transpose { rows: n, cols: n },
    );
}

/// The places whose time is over twice that of the next.
fn cliffs(times: &[f64]) -> Vec<usize> {
    (1..times.len())
        .filter(|&i| times[i - 1] > CLIFF * times[i])
        .map(|i| i - 1)
        .collect()
}

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sizes measured.
    pub points: usize,
    /// Cliffs among them.
    pub cliffs: usize,
    /// Layouts much slower than rows one after the other.
    pub layouts: usize,
}

/// Measures the series whose names contain one of `only`, prints their cliffs, and says how many
/// there were. With `all`, every time is printed.
///
/// # Errors
/// Of writing, or a workload's.
pub fn run(only: &[String], budget: f64, all: bool, out: &mut dyn Write) -> io::Result<Found> {
    let mut found = Found::default();
    // The times of the contiguous series, which others of the same computation are set against.
    let mut base: Vec<f64> = Vec::new();
    for s in series().iter().filter(|s| selects(only, &s.name)) {
        let fastest =
            |i: usize| fastest(&s.points[i].1, s.layout, budget).map_err(io::Error::other);
        let mut times = (0..s.points.len())
            .map(fastest)
            .collect::<io::Result<Vec<_>>>()?;
        for _ in 0..AGAIN {
            for i in cliffs(&times) {
                times[i] = times[i].min(fastest(i)?);
            }
        }
        found.points += times.len();
        if all {
            writeln!(out, "{}", s.name)?;
            for ((size, _), us) in s.points.iter().zip(&times) {
                writeln!(out, "  {size:>8} {us:12.3} us")?;
            }
        }
        for i in cliffs(&times) {
            found.cliffs += 1;
            let ((size, _), (next, _)) = (&s.points[i], &s.points[i + 1]);
            let (t, u) = (times[i], times[i + 1]);
            let ratio = t / u;
            writeln!(
                out,
                "{}: {size} takes {t:.3} us, {ratio:.1} times as long as {next} ({u:.3} us)",
                s.name
            )?;
        }
        if s.layout == Layout::Contiguous {
            base = times;
        } else if base.len() == times.len() {
            let slow = |i: &usize| times[*i] / base[*i];
            let worst = (0..times.len()).max_by(|a, b| slow(a).total_cmp(&slow(b)));
            if let Some(i) = worst.filter(|i| slow(i) > LAYOUT) {
                found.layouts += 1;
                let (size, ratio) = (&s.points[i].0, slow(&i));
                writeln!(
                    out,
                    "{}: up to {ratio:.1} times as long as contiguous ({size}: {:.3} us, {:.3} us)",
                    s.name, times[i], base[i]
                )?;
            }
        }
        out.flush()?;
    }
    let Found {
        points,
        cliffs,
        layouts,
    } = found;
    writeln!(
        out,
        "{points} sizes, {cliffs} cliffs, {layouts} slow layouts"
    )?;
    Ok(found)
}

fn fastest(spec: &Spec, layout: Layout, budget: f64) -> Result<f64> {
    let mut call = spec.make(layout)?.call;
    Ok(measure(&mut call, budget)?[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cliff_is_over_twice_the_next_larger() {
        assert_eq!(cliffs(&[1.0, 2.0, 5.0, 2.4, 4.8, 2.4, 3.0]), [2]);
        assert_eq!(cliffs(&[9.0, 3.0, 1.0]), [0, 1]);
        assert!(cliffs(&[1.0]).is_empty() && cliffs(&[]).is_empty());
    }

    #[test]
    fn series_grow_and_run() {
        for s in series() {
            let spec = |i: usize| &s.points[i].1;
            let work = |spec: &Spec| spec.flops().max(spec.traffic());
            for i in 1..s.points.len() {
                assert!(
                    work(spec(i - 1)) <= work(spec(i)),
                    "{} {}",
                    s.name,
                    s.points[i].0
                );
            }
            for i in [0, s.points.len() / 2] {
                let made = spec(i).make(s.layout).and_then(|mut w| (w.call)());
                assert!(made.is_ok(), "{} {:?}", s.name, spec(i));
            }
        }
    }

    #[test]
    fn a_sweep_prints_what_it_found() {
        let mut out = Vec::new();
        let only = ["sum over 1 of 256 x n, contiguous".to_string()];
        let found = run(&only, 1e-9, true, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(found.points, SIDES.len());
        assert!(
            text.lines()
                .last()
                .unwrap()
                .starts_with(&format!("{} sizes", SIDES.len()))
        );
        assert!(text.contains("     640 "), "{text}");
    }
}
