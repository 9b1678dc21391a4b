//! The kernels on their own: any number of threads, and calls that do not fit. `torsh-functional` compares them with attention
//! under masks of the whole size.

use torsh_core::{DType, DeviceType, Kernel, KernelArgs, Result, View, attrs, pool};

use super::{BLOCKS, BLOCKS_BACKWARD, runs, shares};
use crate::kernels::attention::blocks::StoredBlock;

/// Numbers in [-1, 1) that look random.
fn numbers(n: usize, seed: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 7919 + seed * 104_729 + 13) % 10_007) as f32 / 5003.5 - 1.0;
    (0..n).map(value).collect()
}

/// Operands of three heads, of one of key and value each, with 200 queries, 150 keys and 24 columns.
struct Call {
    shapes: [[usize; 3]; 2],
    operands: [Vec<f32>; 4],
    blocks: Vec<i64>,
    parts: Vec<i64>,
}

const HEADS: usize = 3;
const COLUMNS: usize = 24;

impl Call {
    fn new() -> Call {
        let shapes = [[HEADS, 200, COLUMNS], [HEADS, 150, COLUMNS]];
        let n = |t: usize| shapes[t].iter().product();
        let mut blocks = Vec::new();
        for row in 0..4i64 {
            for column in (0..3i64).filter(|column| (row + column) % 3 > 0) {
                blocks.extend([row, column, if column == row { 0 } else { -1 }]);
            }
        }
        Call {
            operands: [
                numbers(n(0), 1),
                numbers(n(1), 2),
                numbers(n(1), 3),
                numbers(n(0), 4),
            ],
            shapes,
            blocks,
            parts: (0..64).map(|q| ((1u64 << q) - 1) as i64).collect(),
        }
    }

    /// The results and the gradients.
    fn run(&self) -> Result<Vec<Vec<f32>>> {
        let mut operands = self.operands.clone();
        let (mut blocks, mut parts) = (self.blocks.clone(), self.parts.clone());
        let of = |t: usize| vec![f32::NAN; self.shapes[t].iter().product()];
        let (mut out, mut lse) = (of(0), vec![f32::NAN; HEADS * self.shapes[0][1]]);
        let mut grads = [of(0), of(1), of(1)];
        let strides = |s: &[usize; 3]| [(s[1] * s[2]) as isize, s[2] as isize, 1];
        let (steps, lse_shape) = (self.shapes.map(|s| strides(&s)), [HEADS, self.shapes[0][1]]);
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
        let [q, k, v, g] = [view(0, q), view(1, k), view(1, v), view(0, g)];
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
            scale: 0.3,
            enable_gqa: false,
            query_grad: true,
            key_grad: true,
            value_grad: true,
        };
        let forward = attrs.forward();
        let out_view = view(0, &mut out);
        let outputs = [out_view, lse_view];
        let inputs = [q, k, v, blocks, parts];
        let kernel =
            |key: &torsh_core::kernel::KernelKey| key.kernel(DeviceType::Cpu).expect("a kernel");
        let key = Kernel::Extension(&BLOCKS);
        // SAFETY: the kernels check what they are called with; the views are of the test's buffers.
        let args = unsafe { KernelArgs::new(key, DType::F32, &outputs, &inputs, &forward) };
        kernel(&BLOCKS)(&args)?;
        let [dq, dk, dv] = grads.each_mut();
        let outputs = [view(0, dq), view(1, dk), view(1, dv)];
        let inputs = [q, k, v, blocks, parts, g, out_view, lse_view];
        let key = Kernel::Extension(&BLOCKS_BACKWARD);
        // SAFETY: as above.
        let args = unsafe { KernelArgs::new(key, DType::F32, &outputs, &inputs, &attrs) };
        kernel(&BLOCKS_BACKWARD)(&args)?;
        let [dq, dk, dv] = grads;
        Ok(vec![out, lse, dq, dk, dv])
    }
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
    let found: Vec<_> = runs(&blocks, 420).collect();
    assert_eq!(found, [(0, 0, 128), (2, 192, 64), (3, 320, 100)]);
}
