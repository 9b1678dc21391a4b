//! Indices out of range neither read nor write outside of an operand that lies in the middle of a
//! larger buffer.

use torsh_tensor::{DType, Result, Tensor, Value, ops};

/// What the buffer holds around the operands; the operands hold smaller numbers.
const CANARY: i64 = 77;
/// The operand's length in each dimension, and where it starts in the buffer's.
const SIZE: usize = 5;
const START: i64 = 6;
const BUFFER: usize = 16;

const DTYPES: [DType; 8] = [
    DType::F32,
    DType::F64,
    DType::F16,
    DType::U8,
    DType::I32,
    DType::I64,
    DType::C64,
    DType::C128,
];

/// The buffer, and the operand in its middle.
fn guarded(dtype: DType) -> Result<(Tensor, Tensor)> {
    let buffer = Tensor::full((BUFFER, BUFFER), CANARY, dtype, torsh_tensor::Device::Cpu)?;
    let x = buffer.narrow(0, START, SIZE)?.narrow(1, START, SIZE)?;
    x.fill_(1)?;
    Ok((buffer, x))
}

/// How many elements of the buffer around the operand are no canaries.
fn broken(buffer: &Tensor) -> Result<i64> {
    let changed = buffer.ne(CANARY)?.to_dtype(DType::I64)?;
    let inside = changed.narrow(0, START, SIZE)?.narrow(1, START, SIZE)?;
    Ok(changed.sum()?.item::<i64>()? - inside.sum()?.item::<i64>()?)
}

/// Whether a result holds what only lies around the operand.
fn has_canary(t: &Tensor) -> Result<bool> {
    if t.dtype() == DType::Bool {
        return Ok(false);
    }
    t.eq(CANARY)?.any()?.item::<bool>()
}

/// One op: the operand, an index of one dimension, the index as `[SIZE, SIZE]`, and a source.
type Op = fn(&Tensor, &Tensor, &Tensor, &Tensor) -> Result<Tensor>;

fn by_name(name: &str, args: &[Value]) -> Result<Tensor> {
    Ok(ops::call(name, args, &[])?.tensors().remove(0))
}

/// Ops whose index counts along a dimension of [`SIZE`].
const ALONG: &[(&str, Op)] = &[
    ("index_select 0", |x, i, _, _| x.index_select(0, i)),
    ("index_select 1", |x, i, _, _| x.index_select(1, i)),
    ("index_add", |x, i, _, s| x.index_add(0, i, s)),
    ("index_add_", |x, i, _, s| x.index_add_(1, i, s)),
    ("index_copy", |x, i, _, s| x.index_copy(1, i, s)),
    ("index_copy_", |x, i, _, s| x.index_copy_(0, i, s)),
    ("index_fill_", |x, i, _, _| x.index_fill_(0, i, 3)),
    ("index_fill_ 1", |x, i, _, _| x.index_fill_(1, i, 3)),
    ("gather 0", |x, _, i, _| x.gather(0, i)),
    ("gather 1", |x, _, i, _| x.gather(1, i)),
    ("take_along_dim", |x, _, i, _| x.take_along_dim(i, 1)),
    ("scatter_", |x, _, i, s| x.scatter_(0, i, s)),
    ("scatter_ of a number", |x, _, i, _| x.scatter_(1, i, 3)),
    ("scatter_add_", |x, _, i, s| x.scatter_add_(1, i, s)),
    ("scatter_add", |x, _, i, s| x.scatter_add(0, i, s)),
    ("scatter_reduce prod", |x, _, i, s| {
        let args = [x.into(), 1i64.into(), i.into(), s.into(), "prod".into()];
        by_name("scatter_reduce", &args)
    }),
    ("scatter_reduce amax", |x, _, i, s| {
        let args = [x.into(), 0i64.into(), i.into(), s.into(), "amax".into()];
        by_name("scatter_reduce", &args)
    }),
    ("i", |x, i, _, _| x.i(i)),
    ("i of two", |x, i, _, _| x.i((i, i))),
    ("index_put_", |x, i, _, s| {
        x.index_put_(&[Some(i.clone())], s, false)
    }),
    ("index_put_ accumulate", |x, i, _, s| {
        x.index_put_(&[None, Some(i.clone())], s, true)
    }),
    ("i_put", |x, i, _, _| x.i_put((.., i), 3)),
    ("embedding", |x, i, _, _| x.embedding(i)),
    ("embedding_bag", |x, _, i, _| {
        by_name("nn.functional.embedding_bag", &[i.into(), x.into()])
    }),
    ("nll_loss", |x, i, _, _| {
        by_name("nn.functional.nll_loss", &[x.into(), i.into()])
    }),
    ("cross_entropy", |x, i, _, _| {
        by_name("nn.functional.cross_entropy", &[x.into(), i.into()])
    }),
];

/// Ops whose index counts all elements.
const FLAT: &[(&str, Op)] = &[
    ("take", |x, _, i, _| x.take(i)),
    ("put_", |x, _, i, s| x.put_(i, s, false)),
    ("put_ accumulate", |x, _, i, s| x.put_(i, s, true)),
    ("put", |x, _, i, s| x.put(i, s, false)),
];

/// Runs an op with `bad` at each place of an otherwise valid index in turn, with a valid index
/// too, and counts the results.
fn check(name: &str, op: Op, dtype: DType, bad: &[i64], valid: i64) -> Result<(usize, usize)> {
    let (mut refused, mut done) = (0, 0);
    for &bad in bad {
        for at in [0, 2, SIZE - 1] {
            let (buffer, x) = guarded(dtype)?;
            let (source_buffer, source) = guarded(dtype)?;
            source.fill_(2)?;
            let mut line: Vec<i64> = (0..SIZE as i64).map(|v| v.min(valid)).collect();
            let mut square: Vec<i64> = line.iter().cycle().take(SIZE * SIZE).copied().collect();
            line[at] = bad;
            square[at * SIZE + at] = bad;
            // The index lies in a buffer of canaries too.
            let (index_buffer, index) = guarded(DType::I64)?;
            index.copy_(&Tensor::from_data(&square, (SIZE, SIZE))?)?;
            let row = index.select(0, at as i64)?;
            row.copy_(&Tensor::from_data(&line, SIZE)?)?;
            match op(&x, &row, &index, &source) {
                Ok(y) => {
                    done += 1;
                    assert!(
                        !has_canary(&y)?,
                        "{name} of {dtype} read around its operand, index {bad}"
                    );
                }
                Err(e) => {
                    refused += 1;
                    assert!(!e.to_string().is_empty());
                }
            }
            for (what, b) in [
                ("operand", &buffer),
                ("source", &source_buffer),
                ("index", &index_buffer),
            ] {
                let n = broken(b)?;
                assert_eq!(
                    n, 0,
                    "{name} of {dtype} wrote around its {what}, index {bad}"
                );
            }
        }
    }
    Ok((refused, done))
}

#[test]
fn indices_out_of_range_touch_nothing_outside() -> Result<()> {
    let n = SIZE as i64;
    let far = [
        1 << 33,
        i64::MIN,
        i64::MAX,
        i32::MAX as i64 + 1,
        4097,
        -4097,
    ];
    for dtype in DTYPES {
        for (ops, size) in [(ALONG, n), (FLAT, n * n)] {
            let bad: Vec<i64> = [size, -size - 1, size + 4].into_iter().chain(far).collect();
            for (name, op) in ops {
                let (refused, done) = check(name, *op, dtype, &bad, n - 1)?;
                // -100 would be skipped by the losses; none of these is.
                assert_eq!((refused, done), (3 * bad.len(), 0), "{name} of {dtype}");
                // In range nothing is read around the operand either.
                check(name, *op, dtype, &[0, n - 1], n - 1)?;
            }
        }
    }
    Ok(())
}
