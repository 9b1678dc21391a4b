//! Operations that move elements: copies, scans, and indexing.

use super::*;

/// Compares exactly with a reference.
fn equal(got: &Array, want: &[f64], what: &str) {
    for (at, (got, want)) in got.to_f64().into_iter().zip(want).enumerate() {
        assert_eq!(got, *want, "{what} at {at}");
    }
}

/// Small numbers that differ from their neighbours.
fn varied(dtype: DType, shape: &[usize]) -> Array {
    let unsigned = matches!(dtype, DType::U8 | DType::Bool);
    Array::new(dtype, shape, |i| {
        let v = (i * 37 % 101) as i64 - if unsigned { 0 } else { 50 };
        match dtype.is_floating_point() {
            true => Scalar::Float(v as f64 * 0.5),
            false => Scalar::Int(v),
        }
    })
}

/// An array in memory of its own whose first element begins a cache line; its strides are those of
/// `rows` elements more than each row has.
fn at_a_line(dtype: DType, shape: &[usize], rows: usize) -> Array {
    let mut wide = shape.to_vec();
    let last = wide.len() - 1;
    wide[last] += rows;
    let mut to = Array::with_layout(dtype, shape, &row_major(&wide), 64);
    let first = to.data.as_ptr().cast::<u8>();
    to.offset = first.align_offset(64) / dtype.size();
    to
}

/// Copies in every layout, and between dtypes.
pub fn copies(taken: &mut Taken) {
    let pairs = [
        (DType::F32, DType::F32),
        (DType::F64, DType::F64),
        (DType::U8, DType::U8),
        (DType::I16, DType::I16),
        (DType::F32, DType::F64),
        (DType::I64, DType::F32),
    ];
    for (from, to) in pairs {
        for shape in [
            vec![1],
            vec![1000],
            vec![2, 33, 40],
            vec![5, 4, 300],
            vec![3, 70, 16],
        ] {
            let x = varied(from, &shape);
            let mut inputs = vec![x.clone()];
            if shape.len() > 1 {
                inputs.push(transposed(&x));
                // The first two dimensions swapped, which leaves the rows in one piece.
                let swapped = [shape[1], shape[0], shape[2]];
                let mut strides = row_major(&swapped);
                strides.swap(0, 1);
                let mut y = Array::with_layout(from, &shape, &strides, 3);
                for index in indices(&shape) {
                    y.set(&index, x.get(&index));
                }
                inputs.push(y);
            }
            let want = x.to_f64();
            for (nth, input) in inputs.iter().enumerate() {
                let mut outputs = vec![
                    Array::empty(to, &shape),
                    at_a_line(to, &shape, 64 - shape[shape.len() - 1] % 64),
                ];
                if shape.len() > 1 {
                    outputs.push(transposed(&Array::empty(to, &shape)));
                }
                for ops in ["copy", "transpose"] {
                    with_each(ops, taken, |what| {
                        for empty in &outputs {
                            let mut out = empty.clone();
                            // A clone lies elsewhere.
                            if empty.offset > 0 {
                                out.offset =
                                    out.data.as_ptr().cast::<u8>().align_offset(64) / to.size();
                            }
                            run(Kernel::Copy, &mut out, &[input], attrs::NONE);
                            let what = format!("{what}: {from} to {to} {shape:?} layout {nth}");
                            equal(&out, &want, &what);
                        }
                    });
                }
            }
        }
    }
}

/// Cumulative sums and maxima along every dimension.
pub fn scans(taken: &mut Taken) {
    for dtype in [DType::F32, DType::I64, DType::F64] {
        for shape in [[3, 5, 16], [2, 40, 70], [1, 2, 9000], [600, 3, 1]] {
            let x = array(dtype, &shape, 5);
            for x in [x.clone(), transposed(&x)] {
                for dim in 0..3 {
                    let (n, inner) = (shape[dim], shape[dim + 1..].iter().product::<usize>());
                    let values = x.to_f64();
                    let mut sums = values.clone();
                    let mut maxima = values.clone();
                    for i in 0..values.len() {
                        if i / inner % n > 0 {
                            sums[i] += sums[i - inner];
                            maxima[i] = maxima[i].max(maxima[i - inner]);
                        }
                    }
                    with_each("scan", taken, |what| {
                        let what = format!("{what}: {dtype} {shape:?} along {dim}");
                        let mut out = Array::empty(dtype, &shape);
                        let plain = attrs::CumSum { dim, dtype: None };
                        run(Kernel::CumSum, &mut out, &[&x], &plain);
                        equal(&out, &sums, &what);
                        let mut places = Array::empty(DType::I64, &shape);
                        let f = kernel(Kernel::CumMax).expect("the kernel");
                        let attrs = attrs::Scan { dim };
                        let outputs = [out.view_mut(), places.view_mut()];
                        let inputs = [x.view()];
                        // SAFETY: the views are of arrays that outlive the call.
                        let args = unsafe {
                            KernelArgs::new(Kernel::CumMax, dtype, &outputs, &inputs, &attrs)
                        };
                        f(&args).expect("a scan");
                        equal(&out, &maxima, &what);
                    });
                }
            }
        }
    }
}

/// Positions in a dimension, some of them twice.
fn positions(shape: &[usize], size: usize) -> Array {
    Array::new(DType::I64, shape, |i| {
        Scalar::Int(((i * 5 + i / 7) % size) as i64)
    })
}

/// Reads and writes through an index of a whole dimension, and of one per element.
pub fn indexing(taken: &mut Taken) {
    for dtype in [DType::F32, DType::I64, DType::U8] {
        for shape in [[7, 5, 16], [40, 3, 33], [3, 1, 1], [1, 1, 200]] {
            let plain = varied(dtype, &shape);
            for x in [plain.clone(), transposed(&plain)] {
                for dim in 0..3 {
                    whole(&x, dim, taken);
                    each(&x, dim, taken);
                }
            }
        }
    }
    few_places(taken);
    masks(taken);
    membership(taken);
}

/// `index_select`, `index_copy` and `index_add`.
fn whole(x: &Array, dim: usize, taken: &mut Taken) {
    let (dtype, shape) = (x.dtype, x.shape.clone());
    let index = positions(&[6], shape[dim]);
    let at: Vec<usize> = index.to_i64().into_iter().map(|v| v as usize).collect();
    let mut small = shape.clone();
    small[dim] = at.len();
    let in_place = |i: &[usize]| {
        let mut to = i.to_vec();
        to[dim] = at[i[dim]];
        to
    };
    let source = varied(dtype, &small);
    let (mut copied, mut added) = (x.clone(), x.clone());
    let mut selected = Vec::new();
    for i in indices(&small) {
        let to = in_place(&i);
        selected.push(x.get(&to).to_f64());
        copied.set(&to, source.get(&i));
        let sum = added.get(&to).to_i64() as f64 + source.get(&i).to_i64() as f64;
        let sum = match dtype.is_floating_point() {
            true => Scalar::Float(added.get(&to).to_f64() + source.get(&i).to_f64()),
            false => Scalar::Int(sum as i64),
        };
        added.set(&to, sum);
    }
    let of = |what: &str| format!("{what}: {dtype} {shape:?} along {dim}");
    with_each("gather", taken, |what| {
        let mut out = Array::empty(dtype, &small);
        let attrs = attrs::IndexSelect { dim };
        run(Kernel::IndexSelect, &mut out, &[x, &index], &attrs);
        equal(&out, &selected, &of(what));
    });
    with_each("scatter", taken, |what| {
        let mut out = Array::empty(dtype, &shape);
        let attrs = attrs::IndexCopy { dim };
        run(Kernel::IndexCopy, &mut out, &[x, &index, &source], &attrs);
        equal(&out, &copied.to_f64(), &of(what));
        let alpha = Scalar::Int(1);
        let attrs = attrs::IndexAdd { dim, alpha };
        run(Kernel::IndexAdd, &mut out, &[x, &index, &source], &attrs);
        equal(&out, &added.to_f64(), &of(what));
    });
}

/// `gather`, `scatter` and `scatter_add`.
fn each(x: &Array, dim: usize, taken: &mut Taken) {
    let (dtype, shape) = (x.dtype, x.shape.clone());
    let index = positions(&shape, shape[dim]);
    let source = varied(dtype, &shape);
    let (mut written, mut added) = (x.clone(), x.clone());
    let mut gathered = Vec::new();
    for i in indices(&shape) {
        let mut to = i.clone();
        to[dim] = index.get(&i).to_i64() as usize;
        gathered.push(x.get(&to).to_f64());
        written.set(&to, source.get(&i));
        let sum = match dtype.is_floating_point() {
            true => Scalar::Float(added.get(&to).to_f64() + source.get(&i).to_f64()),
            false => Scalar::Int(added.get(&to).to_i64() + source.get(&i).to_i64()),
        };
        added.set(&to, sum);
    }
    let of = |what: &str| format!("{what}: {dtype} {shape:?} along {dim}, each");
    let (negative, sparse_grad) = (false, false);
    with_each("gather", taken, |what| {
        let mut out = Array::empty(dtype, &shape);
        let attrs = attrs::Gather {
            dim,
            negative,
            sparse_grad,
        };
        run(Kernel::Gather, &mut out, &[x, &index], &attrs);
        equal(&out, &gathered, &of(what));
    });
    with_each("scatter", taken, |what| {
        let mut out = Array::empty(dtype, &shape);
        let (reduce, value) = (None, None);
        let attrs = attrs::Scatter { dim, reduce, value };
        run(Kernel::Scatter, &mut out, &[x, &index, &source], &attrs);
        equal(&out, &written.to_f64(), &of(what));
        let attrs = attrs::Gather {
            dim,
            negative,
            sparse_grad,
        };
        run(Kernel::ScatterAdd, &mut out, &[x, &index, &source], &attrs);
        equal(&out, &added.to_f64(), &of(what));
    });
}

/// Sums of many elements into few places.
fn few_places(taken: &mut Taken) {
    for (n, places) in [(7, 3), (1000, 10), (5000, 300), (40_000, 20)] {
        let (x, source) = (array(DType::F32, &[places], 1), array(DType::F32, &[n], 2));
        let index = positions(&[n], places);
        let mut want = x.to_f64();
        for (at, v) in index.to_i64().into_iter().zip(source.to_f64()) {
            want[at as usize] += v;
        }
        with_each("scatter", taken, |what| {
            let mut out = Array::empty(DType::F32, &[places]);
            let attrs = attrs::Gather {
                dim: 0,
                negative: false,
                sparse_grad: false,
            };
            run(Kernel::ScatterAdd, &mut out, &[&x, &index, &source], &attrs);
            equal(&out, &want, &format!("{what}: {n} into {places}"));
        });
    }
}

/// Selecting and writing under masks, which may be broadcast.
fn masks(taken: &mut Taken) {
    for dtype in [DType::F32, DType::I64, DType::U8] {
        for shape in [[1, 1], [3, 7], [40, 33], [2, 1000]] {
            let plain = varied(dtype, &shape);
            for x in [plain.clone(), transposed(&plain)] {
                for lead in [shape[0], 1] {
                    let mask = Array::new(DType::U8, &[lead, shape[1]], |i| {
                        Scalar::Int((i * 7 % 5 % 2) as i64)
                    });
                    mask_of(&x, &mask, taken);
                }
            }
        }
    }
}

fn mask_of(x: &Array, mask: &Array, taken: &mut Taken) {
    let (dtype, shape) = (x.dtype, x.shape.clone());
    let of = |what: &str| format!("{what}: {dtype} {shape:?} mask {:?}", mask.shape);
    let is = |i: &Vec<usize>| mask.get_broadcast(i).to_i64() != 0;
    let all = indices(&shape);
    let filled: Vec<f64> = all
        .iter()
        .map(|i| if is(i) { 9.0 } else { x.get(i).to_f64() })
        .collect();
    with_each("masked_fill", taken, |what| {
        let value = Some(Scalar::Int(9));
        let attrs = attrs::MaskedFill { value };
        let mut out = Array::empty(dtype, &shape);
        run(Kernel::MaskedFill, &mut out, &[x, mask], &attrs);
        equal(&out, &filled, &of(what));
        let mut own = x.clone();
        let view = own.view_mut();
        let (outputs, inputs) = ([view], [view, mask.view()]);
        let f = kernel(Kernel::MaskedFill).expect("the kernel");
        // SAFETY: the views are of arrays that outlive the call.
        let args = unsafe { KernelArgs::new(Kernel::MaskedFill, dtype, &outputs, &inputs, &attrs) };
        f(&args).expect("a fill");
        equal(&own, &filled, &of(what));
    });
    if mask.shape != shape {
        return;
    }
    let chosen: Vec<f64> = all
        .iter()
        .filter(|i| is(i))
        .map(|i| x.get(i).to_f64())
        .collect();
    with_each("masked_select", taken, |what| {
        let count = chosen.len();
        let mut out = Array::empty(dtype, &[count]);
        let attrs = attrs::MaskedSelect { count };
        run(Kernel::MaskedSelect, &mut out, &[x, mask], &attrs);
        equal(&out, &chosen, &of(what));
    });
}

/// `isin` of few keys and of many.
fn membership(taken: &mut Taken) {
    let x = varied(DType::I64, &[300]);
    for keys in [1, 16, 17, 40] {
        let test = Array::new(DType::I64, &[keys], |i| Scalar::Int(i as i64 * 3 - 20));
        let want: Vec<f64> = x
            .to_i64()
            .into_iter()
            .map(|v| f64::from(u8::from(test.to_i64().contains(&v))))
            .collect();
        with_each("isin", taken, |what| {
            let mut out = Array::empty(DType::Bool, &[300]);
            let attrs = attrs::Isin { invert: false };
            run(Kernel::Isin, &mut out, &[&x, &test], &attrs);
            equal(&out, &want, &format!("{what}: {keys} keys"));
        });
    }
}
