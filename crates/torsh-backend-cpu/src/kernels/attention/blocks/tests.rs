//! The kernels on their own: values against the definition, any number of threads, and calls that do not fit.
//! `torsh-functional` compares them with attention under masks of the whole size.

use torsh_core::{DType, DeviceType, Kernel, KernelArgs, Result, View, attrs, pool};

use super::{BLOCK, BLOCKS, BLOCKS_BACKWARD, StoredBlock, passes, runs, shares};
use crate::simd::Level;

/// Numbers in [-1, 1) that look random.
fn numbers(n: usize, seed: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 7919 + seed * 104_729 + 13) % 10_007) as f32 / 5003.5 - 1.0;
    (0..n).map(value).collect()
}

/// A call with a mask that all heads share.
struct Call {
    /// Heads, rows and columns of query, key, value and result.
    shapes: [[usize; 3]; 4],
    /// Query, key, value and gradient.
    operands: [Vec<f32>; 4],
    /// Whether heads of the query share those of key and value.
    grouped: bool,
    blocks: Vec<i64>,
    parts: Vec<i64>,
}

const SCALE: f64 = 0.3;
const HEADS: usize = 3;
const COLUMNS: usize = 24;

impl Call {
    /// Operands of three heads, of one of key and value each, with 200 queries, 150 keys and 24 columns.
    fn new() -> Call {
        let mut blocks = Vec::new();
        for row in 0..4i64 {
            for column in (0..3i64).filter(|column| (row + column) % 3 > 0) {
                blocks.extend([row, column, if column == row { 0 } else { -1 }]);
            }
        }
        let queries = [HEADS, 200, COLUMNS];
        Call::of([queries, [HEADS, 150, COLUMNS]], COLUMNS, blocks)
    }

    /// Of so many columns of the result, with blocks that are all seen, or of which query `n` sees the first `n` keys.
    fn of([query, key]: [[usize; 3]; 2], columns: usize, blocks: Vec<i64>) -> Call {
        let [value, out] = [key, query].map(|[heads, rows, _]| [heads, rows, columns]);
        let shapes = [query, key, value, out];
        let n = |t: usize| shapes[t].iter().product();
        Call {
            operands: [0, 1, 2, 3].map(|t| numbers(n(t), t + 1)),
            shapes,
            grouped: key[0] < query[0],
            blocks,
            parts: (0..64).map(|q| ((1u64 << q) - 1) as i64).collect(),
        }
    }

    fn sees(&self, i: usize, j: usize) -> bool {
        let place = [i / BLOCK, j / BLOCK].map(|n| n as i64);
        let stored = self.blocks.chunks(3).find(|b| b[..2] == place);
        stored.is_some_and(|b| {
            let bits = |part: usize| self.parts[part * BLOCK + i % BLOCK];
            b[2] == -1 || bits(b[2] as usize) >> (j % BLOCK) & 1 == 1
        })
    }

    /// Results, logarithms and gradients by their definition, in float64.
    fn plain(&self) -> Vec<Vec<f64>> {
        let [[heads, l, e], [heads_kv, s, _], [_, _, d], _] = self.shapes;
        let wide = |x: &Vec<f32>| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let [q, k, v, g] = self.operands.each_ref().map(wide);
        let zeros = |t: usize| vec![0.0; self.shapes[t].iter().product()];
        let (mut out, mut lse) = (zeros(3), vec![f64::INFINITY; heads * l]);
        let (mut dq, mut dk, mut dv) = (zeros(0), zeros(1), zeros(2));
        let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
        for (row, lse) in lse.iter_mut().enumerate() {
            let (i, kv) = (row % l, row / l / (heads / heads_kv));
            let (query, grad) = (&q[row * e..][..e], &g[row * d..][..d]);
            let seen: Vec<usize> = (0..s).filter(|&j| self.sees(i, j)).collect();
            let [key, value] = [e, d].map(|n| move |j: usize| (kv * s + j) * n);
            let score = |j: usize| SCALE * dot(query, &k[key(j)..][..e]);
            let most = seen
                .iter()
                .map(|&j| score(j))
                .fold(f64::NEG_INFINITY, f64::max);
            if seen.is_empty() {
                continue;
            }
            *lse = most
                + seen
                    .iter()
                    .map(|&j| (score(j) - most).exp())
                    .sum::<f64>()
                    .ln();
            for &j in &seen {
                for n in 0..d {
                    out[row * d + n] += (score(j) - *lse).exp() * v[value(j) + n];
                }
            }
            let delta = dot(grad, &out[row * d..][..d]);
            for &j in &seen {
                let weight = (score(j) - *lse).exp();
                let change = weight * (dot(grad, &v[value(j)..][..d]) - delta) * SCALE;
                (0..d).for_each(|n| dv[value(j) + n] += weight * grad[n]);
                for n in 0..e {
                    dq[row * e + n] += change * k[key(j) + n];
                    dk[key(j) + n] += change * query[n];
                }
            }
        }
        vec![out, lse, dq, dk, dv]
    }

    /// The results, the logarithms and the gradients.
    fn run(&self) -> Result<Vec<Vec<f32>>> {
        let mut operands = self.operands.clone();
        let (mut blocks, mut parts) = (self.blocks.clone(), self.parts.clone());
        let of = |t: usize| vec![f32::NAN; self.shapes[t].iter().product()];
        let [heads, queries, _] = self.shapes[0];
        let (mut out, mut lse) = (of(3), vec![f32::NAN; heads * queries]);
        let mut grads = [of(0), of(1), of(2)];
        let strides = |s: &[usize; 3]| [(s[1] * s[2]) as isize, s[2] as isize, 1];
        let (steps, lse_shape) = (self.shapes.map(|s| strides(&s)), [heads, queries]);
        let (block_shape, part_shape) = ([blocks.len() / 3, 3], [parts.len() / 64, 64]);
        let lse_steps = [lse_shape[1] as isize, 1];
        // SAFETY: the buffers of the test outlive the call, and have these elements.
        let view = |t: usize, data: &mut [f32]| unsafe {
            View::new(
                data.as_mut_ptr().cast(),
                DType::F32,
                &self.shapes[t],
                &steps[t],
            )
        };
        let [q, k, v, g] = operands.each_mut();
        let [q, k, v, g] = [view(0, q), view(1, k), view(2, v), view(3, g)];
        // SAFETY: as above.
        let (blocks, parts, lse_view) = unsafe {
            (
                View::new(
                    blocks.as_mut_ptr().cast(),
                    DType::I64,
                    &block_shape,
                    &[3, 1],
                ),
                View::new(parts.as_mut_ptr().cast(), DType::I64, &part_shape, &[64, 1]),
                View::new(lse.as_mut_ptr().cast(), DType::F32, &lse_shape, &lse_steps),
            )
        };
        let attrs = attrs::AttentionBlocksBackward {
            mask_batch: 1,
            mask_heads: 1,
            scale: SCALE,
            enable_gqa: self.grouped,
            query_grad: true,
            key_grad: true,
            value_grad: true,
        };
        let forward = attrs.forward();
        let out_view = view(3, &mut out);
        let outputs = [out_view, lse_view];
        let inputs = [q, k, v, blocks, parts];
        let kernel =
            |key: &torsh_core::kernel::KernelKey| key.kernel(DeviceType::Cpu).expect("a kernel");
        let key = Kernel::Extension(&BLOCKS);
        // SAFETY: the kernels check what they are called with; the views are of the test's buffers.
        let args = unsafe { KernelArgs::new(key, DType::F32, &outputs, &inputs, &forward) };
        kernel(&BLOCKS)(&args)?;
        let [dq, dk, dv] = grads.each_mut();
        let outputs = [view(0, dq), view(1, dk), view(2, dv)];
        let inputs = [q, k, v, blocks, parts, g, out_view, lse_view];
        let key = Kernel::Extension(&BLOCKS_BACKWARD);
        // SAFETY: as above.
        let args = unsafe { KernelArgs::new(key, DType::F32, &outputs, &inputs, &attrs) };
        kernel(&BLOCKS_BACKWARD)(&args)?;
        let [dq, dk, dv] = grads;
        Ok(vec![out, lse, dq, dk, dv])
    }
}

/// Values that lie in panels and those that are packed; heads of their own and shared ones, whole and split among
/// threads; rows and columns of blocks that are full, empty, and stored in part.
#[torsh_macros::unit_test]
fn results_are_those_of_the_definition() {
    // All blocks of the first row, one of the third, and each second one of the fourth.
    let wide = (0..11).flat_map(|column| [0, column, if column % 4 == 1 { 0 } else { -1 }]);
    let narrow = (1..10).step_by(2).flat_map(|column| [3, column, -1]);
    let wide: Vec<i64> = wide.chain([2, 2, 0]).chain(narrow).collect();
    let before = pool::num_threads();
    for call in [
        Call::new(),
        Call::of([[2, 230, 64], [2, 650, 64]], 64, wide.clone()),
        Call::of([[4, 230, 16], [2, 650, 16]], 40, wide),
        Call::of([[1, 70, 5], [1, 70, 5]], 3, vec![1, 0, -1, 1, 1, 0]),
    ] {
        let expected = call.plain();
        for threads in [1, 2, 5] {
            pool::set_num_threads(threads).expect("not 0");
            let got = call.run().expect("a call that fits");
            for (which, (got, expected)) in got.iter().zip(&expected).enumerate() {
                assert_eq!(got.len(), expected.len());
                for (i, (&got, &expected)) in got.iter().zip(expected).enumerate() {
                    let got = f64::from(got);
                    assert!(
                        got == expected || (got - expected).abs() <= 2e-5 * (1.0 + expected.abs()),
                        "{which} at {i}: {got}, expected {expected}; {threads} threads, {:?}",
                        call.shapes
                    );
                }
            }
        }
    }
    pool::set_num_threads(before).expect("not 0");
}

/// All bits, with heads left over and without.
#[torsh_macros::unit_test]
fn results_do_not_depend_on_the_number_of_threads() {
    let call = Call::new();
    let before = pool::num_threads();
    let bits = |threads: usize| {
        pool::set_num_threads(threads).expect("not 0");
        let results = call.run().expect("a call that fits");
        let bits = results.iter().flatten().map(|x| x.to_bits());
        bits.collect::<Vec<_>>()
    };
    let one = bits(1);
    assert!(one.iter().all(|&x| !f32::from_bits(x).is_nan()));
    for threads in [2, 3, 5] {
        assert_eq!(bits(threads), one, "{threads} threads");
    }
    pool::set_num_threads(before).expect("not 0");
}

#[torsh_macros::unit_test]
fn calls_that_do_not_fit_are_refused() {
    let refused = |change: &dyn Fn(&mut Call), why: &str| {
        let mut call = Call::new();
        change(&mut call);
        let message = call.run().expect_err(why).to_string();
        assert!(message.contains(why), "{message}");
    };
    refused(&|c| c.blocks[0] = -1, "a block outside of the mask");
    refused(&|c| c.blocks[1] = 3, "a block outside of the mask");
    let last = |c: &mut Call| c.blocks.len() - 3;
    refused(
        &|c| {
            let n = last(c);
            c.blocks[n] = 4
        },
        "a block outside of the mask",
    );
    refused(
        &|c| {
            let n = last(c);
            c.blocks[n] = 0
        },
        "not in order",
    );
    refused(&|c| c.blocks[2] = 1, "a block whose part is not there");
    refused(&|c| c.blocks[2] = -2, "a block whose part is not there");
    refused(
        &|c| c.shapes[1] = [HEADS - 1, 150, COLUMNS],
        "do not broadcast",
    );
    refused(&|c| c.shapes[1] = [HEADS, 150, COLUMNS - 1], "do not agree");
}

#[torsh_macros::unit_test]
fn work_is_shared_by_weight() {
    let weights = [1, 1, 8, 1, 1, 4];
    for n in [1, 2, 3, 8, 20] {
        let ranges = shares(weights.into_iter(), n);
        assert!(ranges.len() <= n.max(1) + 1);
        let items: Vec<usize> = ranges.into_iter().flatten().collect();
        assert_eq!(items, (0..weights.len()).collect::<Vec<_>>());
    }
    assert_eq!(shares(weights.into_iter(), 2), [0..3, 3..6]);
    let block = |at: usize| StoredBlock { at, part: None };
    let blocks = [0, 1, 3, 5, 6].map(block);
    let found: Vec<_> = runs(&blocks, 420)
        .map(|run| (run.column, run.first, run.keys))
        .collect();
    assert_eq!(found, [(0, 0, 128), (128, 192, 64), (192, 320, 100)]);
}

#[torsh_macros::unit_test]
fn bits_hide_scores_at_every_level() {
    const LD: usize = 80;
    let bits = [u64::MAX, 0, 0x8000_0000_0001_0001, 0xf0f0_1234_5678_9abc];
    let scores = numbers(bits.len() * LD, 9);
    for level in Level::ALL.into_iter().filter(|level| level.is_available()) {
        for keys in [1, 15, 16, 50, 64] {
            let mut got = scores.clone();
            let of = (got.as_mut_ptr(), LD);
            // SAFETY: there are so many rows of scores and words.
            unsafe { passes::hide::at(level)(of, bits.as_ptr(), [bits.len(), keys]) };
            for (i, (&got, &score)) in got.iter().zip(&scores).enumerate() {
                let (row, j) = (i / LD, i % LD);
                let hidden = j < keys && bits[row] >> j & 1 == 0;
                let expected = if hidden { f32::NEG_INFINITY } else { score };
                assert_eq!(got, expected, "{level:?}: row {row}, key {j} of {keys}");
            }
        }
    }
}
