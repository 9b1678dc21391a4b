use torsh_core::attrs::{self, Attributes, NONE, ScatterReduction};
use torsh_core::{DType, Element, Kernel, Result, Scalar, View, pool};

use super::positions::contiguous;

/// A tensor for a kernel: memory, shape, strides, first element.
struct Buffer<T> {
    data: Vec<T>,
    shape: Vec<usize>,
    strides: Vec<isize>,
    first: usize,
}

impl<T: Element> Buffer<T> {
    fn new(data: Vec<T>, shape: &[usize]) -> Self {
        assert_eq!(data.len(), shape.iter().product::<usize>());
        Buffer {
            data,
            shape: shape.to_vec(),
            strides: contiguous(shape),
            first: 0,
        }
    }

    fn filled(shape: &[usize], value: T) -> Self {
        Buffer::new(vec![value; shape.iter().product()], shape)
    }

    /// The same elements, each followed by `gap`, after two of them.
    fn spread(&self, gap: T) -> Self {
        let mut data = vec![gap; 2 * self.data.len() + 2];
        for (i, &v) in self.data.iter().enumerate() {
            data[2 + 2 * i] = v;
        }
        let strides = self.strides.iter().map(|s| 2 * s).collect();
        Buffer {
            data,
            shape: self.shape.clone(),
            strides,
            first: 2,
        }
    }

    /// The elements of a 1-d buffer, each next to the last.
    fn packed(&self) -> Self {
        let step = self.strides[0] as usize;
        let data = (0..self.shape[0])
            .map(|i| self.data[self.first + i * step])
            .collect();
        Buffer::new(data, &self.shape)
    }

    fn view(&self) -> View<'_> {
        // SAFETY: the buffers of the test outlive the call.
        unsafe {
            View::new(
                self.data[self.first.min(self.data.len())..]
                    .as_ptr()
                    .cast_mut()
                    .cast(),
                T::DTYPE,
                &self.shape,
                &self.strides,
            )
        }
    }
}

fn run(
    kernel: Kernel,
    out: &[View<'_>],
    inputs: &[View<'_>],
    attrs: &dyn Attributes,
) -> Result<()> {
    crate::testing::run(kernel, inputs[0].dtype(), out, inputs, attrs)
}

/// `index_add` along dimension 0.
const ADD: attrs::IndexAdd = attrs::IndexAdd {
    dim: 0,
    alpha: Scalar::Int(1),
};

/// Numbers that look random and repeat.
fn numbers(n: usize, below: u64) -> Vec<i64> {
    let mut state = 7u64;
    (0..n)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((state >> 33) % below) as i64
        })
        .collect()
}

#[torsh_macros::unit_test]
fn index_add_is_the_same_on_any_number_of_threads_and_any_layout() {
    let (rows, width, n) = (50, 96, 3000);
    let index = Buffer::new(numbers(n, rows as u64), &[n]);
    let source: Vec<f32> = numbers(n * width, 1000)
        .iter()
        .map(|&v| v as f32 * 0.37 - 100.0)
        .collect();
    let source = Buffer::new(source, &[n, width]);
    let mut expected = vec![1f32; rows * width];
    for (i, &row) in index.data.iter().enumerate() {
        for j in 0..width {
            expected[row as usize * width + j] += source.data[i * width + j];
        }
    }
    let start = Buffer::filled(&[rows, width], 1f32);
    let before = pool::num_threads();
    for threads in [1, 2, 5] {
        pool::set_num_threads(threads).expect("a count");
        for src in [
            source.spread(f32::NAN),
            Buffer::new(source.data.clone(), &[n, width]),
        ] {
            let out = Buffer::filled(&[rows, width], 0f32);
            run(
                Kernel::IndexAdd,
                &[out.view()],
                &[start.view(), index.view(), src.view()],
                &ADD,
            )
            .expect("runs");
            assert_eq!(out.data, expected);
        }
    }
    pool::set_num_threads(before).expect("a count");
}

#[torsh_macros::unit_test]
fn a_bad_index_leaves_the_target_as_it_was() {
    let target = Buffer::filled(&[3, 2], 5f32);
    let source = Buffer::filled(&[2, 2], 1f32);
    for bad in [3, -1, i64::MAX, i64::MIN] {
        let index = Buffer::new(vec![0, bad], &[2]);
        let e = run(
            Kernel::IndexAdd,
            &[target.view()],
            &[target.view(), index.view(), source.view()],
            &ADD,
        )
        .expect_err("out of range");
        assert!(
            e.to_string().contains(&format!(
                "index {bad} is out of bounds for dimension 0 with size 3"
            )),
            "{e}"
        );
        assert_eq!(target.data, [5.0; 6]);
    }
}

#[torsh_macros::unit_test]
fn an_index_that_is_written_over_is_read_first() {
    // Every second element is the index into all of them; the window is not dense, so it is no
    // plain overlap.
    let data = vec![3i64, 7, 2, 7, 1, 7];
    let all = Buffer::new(data, &[6]);
    // SAFETY: the buffers of the test outlive the call.
    let index = unsafe { View::new(all.view().ptr(), all.view().dtype(), &[3], &[2]) };
    let value = attrs::IndexFill {
        dim: 0,
        value: Some(Scalar::Int(1 << 40)),
    };
    run(
        Kernel::IndexFill,
        &[all.view()],
        &[all.view(), index],
        &value,
    )
    .expect("runs");
    assert_eq!(all.data, [3, 1 << 40, 1 << 40, 1 << 40, 1, 7]);
    let dense = run(
        Kernel::IndexFill,
        &[all.view()],
        &[all.view(), all.view()],
        &value,
    );
    assert!(
        dense
            .expect_err("overlaps")
            .to_string()
            .contains("single memory location")
    );
}

#[torsh_macros::unit_test]
fn advanced_indexing_wraps_and_broadcasts() {
    let x = Buffer::new((0..24).collect::<Vec<i32>>(), &[2, 3, 4]);
    let (a, b) = (
        Buffer::new(vec![0i64, -1], &[2]),
        Buffer::new(vec![-4i64, 3], &[2]),
    );
    let out = Buffer::filled(&[2, 3], 0i32);
    let attrs = attrs::IndexGet {
        dims: [0, 2].into(),
        position: 0,
    };
    run(
        Kernel::IndexGet,
        &[out.view()],
        &[x.view(), a.view(), b.view()],
        &attrs,
    )
    .expect("runs");
    assert_eq!(out.data, [0, 4, 8, 15, 19, 23]);
    let values = Buffer::new(vec![100i32], &[]);
    let put = Buffer::filled(&[2, 3, 4], 0i32);
    let attrs = attrs::IndexPut {
        dims: [0, 2].into(),
        position: 0,
        accumulate: true,
    };
    run(
        Kernel::IndexPut,
        &[put.view()],
        &[x.view(), values.view(), a.view(), b.view()],
        &attrs,
    )
    .expect("runs");
    assert_eq!(put.data[..5], [100, 1, 2, 3, 104]);
    assert_eq!(put.data[14..16], [14, 115]);
}

#[torsh_macros::unit_test]
fn masks_select_count_and_scatter_in_parallel() {
    let n = 200_000;
    let x = Buffer::new(numbers(n, 1 << 20), &[n / 100, 100]);
    let mask: Vec<bool> = x.data.iter().map(|v| v % 3 == 0).collect();
    let kept: Vec<i64> = x.data.iter().copied().filter(|v| v % 3 == 0).collect();
    let mask = Buffer::new(mask, &[n / 100, 100]);
    let count = Buffer::filled(&[], 0i64);
    run(Kernel::MaskedCount, &[count.view()], &[mask.view()], NONE).expect("runs");
    assert_eq!(count.data, [kept.len() as i64]);
    let out = Buffer::filled(&[kept.len()], 0i64);
    run(
        Kernel::MaskedSelect,
        &[out.view()],
        &[x.spread(-1).view(), mask.view()],
        &attrs::MaskedSelect { count: kept.len() },
    )
    .expect("runs");
    assert_eq!(out.data, kept);
    let rows = Buffer::filled(&[kept.len(), 2], 0i64);
    run(
        Kernel::Nonzero,
        &[rows.view()],
        &[mask.spread(true).view()],
        &attrs::Nonzero { count: kept.len() },
    )
    .expect("runs");
    for (row, v) in rows.data.chunks(2).zip(&kept) {
        assert_eq!(x.data[(row[0] * 100 + row[1]) as usize], *v);
    }
    let zeros = Buffer::filled(&[n / 100, 100], 0i64);
    let back = Buffer::filled(&[n / 100, 100], 7i64);
    let source = out.spread(-1);
    run(
        Kernel::MaskedScatter,
        &[back.view()],
        &[zeros.view(), mask.view(), source.view()],
        NONE,
    )
    .expect("runs");
    let expected: Vec<i64> = x
        .data
        .iter()
        .map(|v| if v % 3 == 0 { *v } else { 0 })
        .collect();
    assert_eq!(back.data, expected);
    let short = Buffer::filled(&[kept.len() - 1], 0i64);
    let e = run(
        Kernel::MaskedScatter,
        &[back.view()],
        &[zeros.view(), mask.view(), short.view()],
        NONE,
    );
    assert!(e.is_err() && back.data == expected);
}

#[torsh_macros::unit_test]
fn sort_orders_every_kind_of_number() {
    let n = 20_000;
    let mut x: Vec<f32> = numbers(n, 5000)
        .iter()
        .map(|&v| (v as f32 - 2500.0) * 0.5)
        .collect();
    for i in (0..n).step_by(701) {
        x[i] = f32::NAN;
    }
    for (i, v) in x.iter_mut().enumerate().filter(|(i, _)| i % 97 == 0) {
        *v = if i % 2 == 0 { -0.0 } else { 0.0 };
    }
    let x = Buffer::new(x, &[n]);
    for descending in [false, true] {
        let (values, indices) = (Buffer::filled(&[n], 0f32), Buffer::filled(&[n], 0i64));
        let attrs = attrs::Sort { dim: 0, descending };
        crate::testing::run(
            Kernel::Sort,
            DType::F32,
            &[values.view(), indices.view()],
            &[x.spread(1e9).view()],
            &attrs,
        )
        .expect("runs");
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| {
            let (p, q) = (x.data[a], x.data[b]);
            let c = p
                .partial_cmp(&q)
                .unwrap_or_else(|| p.is_nan().cmp(&q.is_nan()));
            if descending { c.reverse() } else { c }
        });
        let got: Vec<usize> = indices.data.iter().map(|&i| i as usize).collect();
        assert_eq!(got, order);
        for (v, &i) in values.data.iter().zip(&order) {
            assert_eq!(v.to_bits(), x.data[i].to_bits());
        }
        let k = 37;
        let (top, at) = (Buffer::filled(&[k], 0f32), Buffer::filled(&[k], 0i64));
        let attrs = attrs::Topk {
            dim: 0,
            largest: descending,
            k: k as i64,
        };
        let (out, x) = ([top.view(), at.view()], [x.view()]);
        crate::testing::run(Kernel::Topk, DType::F32, &out, &x, &attrs).expect("runs");
        let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&top.data), bits(&values.data[..k]));
        assert_eq!(at.data, indices.data[..k]);
    }
}

#[torsh_macros::unit_test]
fn sort_runs_along_any_dimension() {
    let x = Buffer::new(numbers(3 * 40 * 5, 50), &[3, 40, 5]);
    let (values, indices) = (
        Buffer::filled(&[3, 40, 5], 0i64),
        Buffer::filled(&[3, 40, 5], 0i64),
    );
    let attrs = attrs::Sort {
        dim: 1,
        descending: false,
    };
    crate::testing::run(
        Kernel::Sort,
        DType::I64,
        &[values.view(), indices.view()],
        &[x.view()],
        &attrs,
    )
    .expect("runs");
    for i in 0..3 {
        for k in 0..5 {
            let at = |j: usize| i * 200 + j * 5 + k;
            for j in 1..40 {
                let (a, b) = (values.data[at(j - 1)], values.data[at(j)]);
                assert!(a < b || a == b && indices.data[at(j - 1)] < indices.data[at(j)]);
                assert_eq!(b, x.data[at(indices.data[at(j)] as usize)]);
            }
        }
    }
    let c = Buffer::new(vec![num_complex::Complex::new(0f32, 0.0)], &[1]);
    let (v, i) = (
        Buffer::filled(&[1], num_complex::Complex::new(0f32, 0.0)),
        Buffer::filled(&[1], 0i64),
    );
    let (out, c) = ([v.view(), i.view()], [c.view()]);
    assert!(crate::testing::run(Kernel::Sort, DType::C64, &out, &c, &attrs).is_err());
}

#[torsh_macros::unit_test]
fn windows_accumulate_and_stay_inside() {
    let g = Buffer::new(vec![1f32, 2.0, 3.0, 4.0], &[2, 2]);
    let out = Buffer::filled(&[4], 9f32);
    let attrs = |storage_offset| attrs::StridedAccumulate {
        stride: [1, 1].into(),
        storage_offset,
        numel: 4,
    };
    run(
        Kernel::StridedAccumulate,
        &[out.view()],
        &[g.view()],
        &attrs(1),
    )
    .expect("runs");
    assert_eq!(out.data, [0.0, 1.0, 5.0, 4.0]);
    assert!(
        run(
            Kernel::StridedAccumulate,
            &[out.view()],
            &[g.view()],
            &attrs(2)
        )
        .is_err()
    );
    assert!(
        run(
            Kernel::StridedAccumulate,
            &[out.view()],
            &[g.view()],
            &attrs(-1)
        )
        .is_err()
    );
    let base = Buffer::filled(&[4], 7f32);
    run(
        Kernel::StridedScatter,
        &[out.view()],
        &[base.view(), g.view()],
        &attrs::StridedScatter {
            stride: [1, 1].into(),
            storage_offset: 1,
        },
    )
    .expect("runs");
    assert_eq!(out.data, [7.0, 1.0, 3.0, 4.0]);
}

#[torsh_macros::unit_test]
fn half_types_reduce_in_float32() {
    use half::bf16;
    let n = 1000;
    let x = Buffer::filled(&[2], bf16::from_f32(1.0));
    let index = Buffer::filled(&[n], 1i64);
    let ones = Buffer::filled(&[n], bf16::from_f32(1.0));
    let out = Buffer::filled(&[2], bf16::ZERO);
    let attrs = attrs::ScatterReduce {
        dim: 0,
        reduce: ScatterReduction::Sum,
        include_self: true,
    };
    run(
        Kernel::ScatterReduce,
        &[out.view()],
        &[x.view(), index.view(), ones.view()],
        &attrs,
    )
    .expect("runs");
    // Added up in bfloat16 it would stop at 256.
    assert_eq!(out.data, [bf16::from_f32(1.0), bf16::from_f32(1001.0)]);
    let attrs = attrs::ScatterReduce {
        dim: 0,
        reduce: ScatterReduction::Mean,
        include_self: false,
    };
    run(
        Kernel::ScatterReduce,
        &[out.view()],
        &[x.view(), index.view(), ones.view()],
        &attrs,
    )
    .expect("runs");
    assert_eq!(out.data, [bf16::from_f32(1.0), bf16::from_f32(1.0)]);
    assert_eq!(x.view().dtype(), DType::BF16);
}

#[torsh_macros::unit_test]
fn rolls_flips_and_triangles() {
    let x = Buffer::new((0..12).collect::<Vec<i64>>(), &[3, 4]);
    let out = Buffer::filled(&[3, 4], 0i64);
    let attrs = attrs::Roll {
        shifts: [1, -5].into(),
        dims: [0, 1].into(),
    };
    run(Kernel::Roll, &[out.view()], &[x.view()], &attrs).expect("runs");
    assert_eq!(out.data, [9, 10, 11, 8, 1, 2, 3, 0, 5, 6, 7, 4]);
    run(
        Kernel::Flip,
        &[out.view()],
        &[x.view()],
        &attrs::Flip { dims: [1].into() },
    )
    .expect("runs");
    assert_eq!(out.data, [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8]);
    run(
        Kernel::Triangle,
        &[out.view()],
        &[x.view()],
        &attrs::Triangle {
            diagonal: 1,
            upper: true,
        },
    )
    .expect("runs");
    assert_eq!(out.data, [0, 1, 2, 3, 0, 0, 6, 7, 0, 0, 0, 11]);
    run(
        Kernel::Triangle,
        &[x.view()],
        &[x.view()],
        &attrs::Triangle {
            diagonal: i64::MIN,
            upper: false,
        },
    )
    .expect("runs");
    assert_eq!(x.data, [0; 12]);
}

#[torsh_macros::unit_test]
fn diagonals_fill_matrices() {
    let x = Buffer::new(vec![1f32, 2.0, 3.0, 4.0], &[2, 2]).spread(9.0);
    let at = |offset, dim1, dim2| attrs::DiagEmbed { offset, dim1, dim2 };
    let out = Buffer::filled(&[2, 3, 3], 7f32);
    run(Kernel::DiagEmbed, &[out.view()], &[x.view()], &at(1, 1, 2)).expect("runs");
    let upper = [0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0];
    assert_eq!(out.data[..9], upper);
    assert_eq!(
        out.data[9..],
        upper.map(|v| if v == 0.0 { 0.0 } else { v + 2.0 })
    );
    // Rows and columns around the matrices, below the main diagonal.
    let out = Buffer::filled(&[3, 2, 3], 7f32);
    run(Kernel::DiagEmbed, &[out.view()], &[x.view()], &at(-1, 0, 2)).expect("runs");
    let rows: Vec<&[f32]> = out.data.chunks(3).collect();
    let zero = &[0.0; 3][..];
    assert_eq!(rows[..2], [zero; 2]);
    assert_eq!(rows[2..4], [&[1.0, 0.0, 0.0][..], &[3.0, 0.0, 0.0]]);
    assert_eq!(rows[4..], [&[0.0, 2.0, 0.0][..], &[0.0, 4.0, 0.0]]);
    // Outputs that are not square, or of other sizes than the diagonals make.
    for (shape, attrs) in [
        (&[2usize, 3, 4][..], at(1, 1, 2)),
        (&[2, 3, 3], at(0, 1, 2)),
        (&[2, 3, 3], at(4, 1, 2)),
        (&[2, 3, 3], at(1, 2, 2)),
        (&[3, 3], at(1, 0, 1)),
    ] {
        let out = Buffer::filled(shape, 7f32);
        assert!(run(Kernel::DiagEmbed, &[out.view()], &[x.view()], &attrs).is_err());
        assert!(out.data.iter().all(|&v| v == 7.0));
    }
}

/// Many elements into few places: as the sum in order, whatever the layout and the threads.
#[torsh_macros::unit_test]
fn scatter_add_of_many_into_few() {
    let before = pool::num_threads();
    let n = 40_003;
    for places in [1usize, 7, 300, 1200] {
        let at = numbers(n, places as u64);
        let index = Buffer::new(at.clone(), &[n]);
        let floats = Buffer::new((0..n).map(|i| (i % 1013) as f32 * 0.25).collect(), &[n]);
        let ints = Buffer::new((0..n as i64).map(|i| i << 40).collect(), &[n]);
        let start = Buffer::new((0..places).map(|i| i as f32).collect(), &[places]);
        let mut expected: Vec<f64> = (0..places).map(|i| i as f64).collect();
        let mut whole = vec![0i64; places];
        for (i, &p) in at.iter().enumerate() {
            expected[p as usize] += floats.data[i] as f64;
            whole[p as usize] = whole[p as usize].wrapping_add(ints.data[i]);
        }
        let mut first: Option<Vec<f32>> = None;
        for threads in [1, 2, 3] {
            pool::set_num_threads(threads).expect("not 0");
            for spread in [false, true] {
                let pick = |b: &Buffer<f32>| {
                    if spread {
                        b.spread(9.0)
                    } else {
                        b.spread(9.0).packed()
                    }
                };
                let (src, index) = (
                    pick(&floats),
                    if spread {
                        index.spread(-1)
                    } else {
                        index.spread(-1).packed()
                    },
                );
                let out = Buffer::filled(&[places], 0f32).spread(5.0);
                run(
                    Kernel::ScatterAdd,
                    &[out.view()],
                    &[start.view(), index.view(), src.view()],
                    &attrs::Gather {
                        dim: 0,
                        negative: spread,
                        sparse_grad: false,
                    },
                )
                .expect("in bounds");
                let got = out.packed().data;
                for (g, e) in got.iter().zip(&expected) {
                    assert!((*g as f64 - e).abs() <= 1e-5 * e.abs(), "{g} {e}");
                }
                assert_eq!(&got, first.get_or_insert_with(|| got.clone()));
            }
            let out = Buffer::filled(&[places], 0i64);
            let zeros = Buffer::filled(&[places], 0i64);
            run(
                Kernel::ScatterAdd,
                &[out.view()],
                &[zeros.view(), index.view(), ints.view()],
                &attrs::Gather {
                    dim: 0,
                    negative: false,
                    sparse_grad: false,
                },
            )
            .expect("in bounds");
            assert_eq!(out.data, whole);
        }
    }
    // Nothing makes +0 of -0, and a value out of bounds is refused before anything is written.
    let out = Buffer::filled(&[3], -0.0f32);
    let src = Buffer::filled(&[n], 1.0f32);
    let mut index = Buffer::filled(&[n], 1i64);
    let call = |index: &Buffer<i64>| {
        run(
            Kernel::ScatterAdd,
            &[out.view()],
            &[out.view(), index.view(), src.view()],
            &attrs::Gather {
                dim: 0,
                negative: false,
                sparse_grad: false,
            },
        )
    };
    call(&index).expect("in bounds");
    assert_eq!(out.data[1], n as f32);
    assert!(out.data[0].is_sign_negative() && out.data[2].is_sign_negative());
    index.data[n - 2] = 3;
    let error = call(&index).expect_err("out of bounds").to_string();
    assert!(
        error.contains("index 3 is out of bounds for dimension 0 with size 3"),
        "{error}"
    );
    assert_eq!(out.data[1], n as f32);
    pool::set_num_threads(before).expect("not 0");
}

/// Rows far apart, of lengths around those that are copied and fetched in pieces; many are gathered from
/// the last to the first every other time.
#[torsh_macros::unit_test]
fn rows_of_every_length() {
    for width in [1usize, 3, 8, 16, 24, 64, 100, 300, 300, 300] {
        let (rows, n) = (50, 2000);
        let src = Buffer::new((0..(rows * width) as i64).collect(), &[rows, width]);
        let at = numbers(n, rows as u64);
        let index = Buffer::new(at.clone(), &[n]);
        let out = Buffer::filled(&[n, width], 0i64);
        let inputs = [src.view(), index.view()];
        let by_rows = attrs::IndexSelect { dim: 0 };
        run(Kernel::IndexSelect, &[out.view()], &inputs, &by_rows).expect("in bounds");
        let mut sums = vec![0i64; rows * width];
        for (i, &row) in at.iter().enumerate() {
            for c in 0..width {
                let x = row * width as i64 + c as i64;
                assert_eq!(out.data[i * width + c], x);
                sums[row as usize * width + c] += x;
            }
        }
        let total = Buffer::filled(&[rows, width], 0i64);
        let zeros = Buffer::filled(&[rows, width], 0i64);
        run(
            Kernel::IndexAdd,
            &[total.view()],
            &[zeros.view(), index.view(), out.view()],
            &ADD,
        )
        .expect("in bounds");
        assert_eq!(total.data, sums);
    }
}

/// Masks longer than the blocks in which they are read, next to one another or not.
#[torsh_macros::unit_test]
fn long_masks_select_in_order() {
    let shape = [70usize, 901];
    let n = shape[0] * shape[1];
    let src = Buffer::new((0..n as i64).collect(), &shape);
    for one_in in [1, 2, 50, 100_000] {
        let on: Vec<bool> = numbers(n, one_in).iter().map(|&v| v == 0).collect();
        let mask = Buffer::new(on.clone(), &shape);
        let expected: Vec<i64> = (0..n).filter(|&i| on[i]).map(|i| i as i64).collect();
        let count = expected.len();
        let (select, nonzero) = (attrs::MaskedSelect { count }, attrs::Nonzero { count });
        for (src, mask) in [
            (src.spread(-1), mask.spread(true)),
            (src.spread(-1), Buffer::new(on.clone(), &shape)),
            (Buffer::new(src.data.clone(), &shape), mask.spread(true)),
            (
                Buffer::new(src.data.clone(), &shape),
                Buffer::new(on.clone(), &shape),
            ),
        ] {
            let count = Buffer::filled(&[1], 0i64);
            run(Kernel::MaskedCount, &[count.view()], &[mask.view()], NONE).expect("counts");
            assert_eq!(count.data[0], expected.len() as i64);
            let out = Buffer::filled(&[expected.len()], 0i64);
            let inputs = [src.view(), mask.view()];
            run(Kernel::MaskedSelect, &[out.view()], &inputs, &select).expect("selects");
            assert_eq!(out.data, expected);
            let at = Buffer::filled(&[expected.len(), 2], 0i64);
            run(Kernel::Nonzero, &[at.view()], &[mask.view()], &nonzero).expect("finds");
            let flat = at.data.chunks(2).map(|p| p[0] * 901 + p[1]);
            assert!(flat.eq(expected.iter().copied()));
        }
        // Elements of four bytes, of which twice as many are in a vector.
        let src = Buffer::new((0..n as i32).collect(), &shape);
        let out = Buffer::filled(&[expected.len()], 0i32);
        let inputs = [src.view(), mask.view()];
        run(Kernel::MaskedSelect, &[out.view()], &inputs, &select).expect("selects");
        assert!(out.data.iter().map(|&v| i64::from(v)).eq(expected));
    }
}
