//! Indexing, scattering, masks and sorting through the methods.

// `1..=-1` counts its end from the back, as Python's slices do.
#![allow(clippy::reversed_empty_ranges)]

use torsh_tensor::{
    BincountOptions, DType, Device, Ellipsis, EmbeddingOptions, GatherOptions, IndexItem, NewAxis,
    SearchsortedOptions, SortOptions, Tensor, TopkOptions, Value, ops, s,
};

fn x() -> Tensor {
    Tensor::from_vec((0..24i64).collect(), [2, 3, 4]).expect("fits")
}

fn ints(v: &[i64]) -> Tensor {
    Tensor::from_data(v, [v.len()]).expect("fits")
}

fn floats(v: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_data(v, shape).expect("fits")
}

fn shape(t: &torsh_tensor::Result<Tensor>) -> Vec<usize> {
    match t {
        Ok(t) => t.dims().to_vec(),
        Err(e) => panic!("{e}"),
    }
}

#[track_caller]
fn refused<T>(r: torsh_tensor::Result<T>, text: &str) {
    match r {
        Ok(_) => panic!("should be refused: {text}"),
        Err(e) => assert!(e.to_string().contains(text), "{e}\ndoes not say: {text}"),
    }
}

#[test]
fn advanced_dimensions_go_where_pytorch_puts_them() {
    let (x, i) = (x(), ints(&[0, 1]));
    let mask = Tensor::from_data(&[true, false, true, false, true, true], [2, 3]).expect("fits");
    let on = Tensor::scalar(true, DType::Bool, Device::Cpu).expect("fits");
    assert_eq!(shape(&x.i((.., &i, NewAxis, &i))), [2, 2, 1]);
    assert_eq!(shape(&x.i((&i, NewAxis, &i))), [2, 1, 4]);
    assert_eq!(shape(&x.i((0, .., &i))), [3, 2]);
    assert_eq!(shape(&x.i((&i, 0))), [2, 4]);
    assert_eq!(shape(&x.i(())), [2, 3, 4]);
    assert_eq!(shape(&x.i((Ellipsis, Ellipsis))), [2, 3, 4]);
    assert_eq!(shape(&x.i(true)), [1, 2, 3, 4]);
    assert_eq!(shape(&x.i(false)), [0, 2, 3, 4]);
    assert_eq!(shape(&x.i((true, &i))), [2, 3, 4]);
    assert_eq!(shape(&x.i((0..1, true))), [1, 1, 3, 4]);
    assert_eq!(shape(&x.i(&on)), [1, 2, 3, 4]);
    assert_eq!(shape(&x.i(&mask)), [4, 4]);
    assert_eq!(shape(&x.i((&mask, 1..2))), [4, 1]);
    assert_eq!(shape(&x.i((&mask, 2))), [4]);
    assert_eq!(shape(&x.i((&mask, NewAxis))), [4, 1, 4]);
    assert_eq!(shape(&x.i((&mask, Ellipsis, 1..3))), [4, 2]);
    assert_eq!(shape(&x.i((&mask, &ints(&[1])))), [4]);
    assert_eq!(shape(&x.i(ints(&[]))), [0, 3, 4]);
    assert_eq!(
        shape(&x.i((0, ints(&[0, 1]).reshape([1, 2]).expect("fits")))),
        [1, 2, 4]
    );
    assert_eq!(
        shape(
            &x.i(ints(&[1])
                .to_dtype(DType::U8)
                .expect("fits")
                .i(0)
                .expect("a mask"))
        ),
        [1, 2, 3, 4]
    );
    let picked = x.i((&mask, 3)).expect("fits");
    assert_eq!(picked.to_vec::<i64>().expect("ints"), [3, 11, 19, 23]);
    let wrapped = x.i((ints(&[0, -1]), .., ints(&[-4, 3]))).expect("fits");
    assert_eq!(
        wrapped.to_vec::<i64>().expect("ints"),
        [0, 4, 8, 15, 19, 23]
    );
    let items = vec![IndexItem::Int(1), IndexItem::Slice(None, None, 2)];
    assert_eq!(
        x.i(items)
            .expect("fits")
            .i((.., 0))
            .expect("fits")
            .to_vec::<i64>()
            .expect("ints"),
        [12, 20]
    );
    assert_eq!(
        x.i((1usize, 1i64, s(-3, None, 2)))
            .expect("fits")
            .to_vec::<i64>()
            .expect("ints"),
        [17, 19]
    );
    assert_eq!(
        x.i((1, 2, ..=-2))
            .expect("fits")
            .to_vec::<i64>()
            .expect("ints"),
        [20, 21, 22]
    );
    assert_eq!(
        x.i((1, 2, 1..=-1))
            .expect("fits")
            .to_vec::<i64>()
            .expect("ints"),
        [21, 22, 23]
    );
}

#[test]
fn bad_indices_are_refused_with_pytorchs_text() {
    let x = x();
    let scalar = Tensor::scalar(1.0, DType::F32, Device::Cpu).expect("fits");
    refused(
        x.i(5),
        "index 5 is out of bounds for dimension 0 with size 2",
    );
    refused(
        x.i((.., -4)),
        "index -4 is out of bounds for dimension 1 with size 3",
    );
    refused(
        x.i((0, -4)),
        "index -4 is out of bounds for dimension 1 with size 3",
    );
    let nine = Tensor::scalar(9, DType::I64, Device::Cpu).expect("fits");
    refused(
        x.i((NewAxis, 0, Ellipsis, nine)),
        "index 9 is out of bounds for dimension 2 with size 4",
    );
    refused(
        x.i((0, 0, 0, 0)),
        "too many indices for tensor of dimension 3",
    );
    refused(
        x.i(ints(&[5])),
        "index 5 is out of bounds for dimension 0 with size 2",
    );
    refused(
        x.i(ints(&[0, i64::MIN])),
        "is out of bounds for dimension 0 with size 2",
    );
    refused(
        x.i((ints(&[0, 1]), ints(&[0, 1, 2]))),
        "could not be broadcast together with shapes [2], [3]",
    );
    refused(x.i(s(None, None, -1)), "step must be greater than zero");
    refused(
        x.i(floats(&[0.0], &[1])),
        "tensors used as indices must be long, int, byte or bool tensors",
    );
    let mask = Tensor::from_data(&[true; 4], [2, 2]).expect("fits");
    refused(
        x.i(&mask),
        "The shape of the mask [2, 2] at index 0 does not match",
    );
    refused(scalar.i(0), "invalid index of a 0-dim tensor");
    refused(
        scalar.i(ints(&[0])),
        "too many indices for tensor of dimension 0",
    );
    assert_eq!(shape(&scalar.i(NewAxis)), [1]);
    let e = x.i((0, 7)).expect_err("out of range").to_string();
    assert!(e.starts_with("__getitem__: "), "{e}");
    let by_name = |v: Value| ops::call("__getitem__", &[Value::from(&x), v], &[]);
    refused(by_name(Value::Float(1.0)), "only integers, slices");
    let list = |v: &[i64]| Value::List(v.iter().map(|&i| Value::Int(i)).collect());
    let nested = Value::List(vec![list(&[0, 1]), list(&[1, 0])]);
    assert_eq!(
        by_name(nested).expect("a tuple, as in PyTorch").tensors()[0].dims(),
        [2, 4]
    );
    let tuple = Value::Tuple(vec![Value::List(vec![list(&[0, 1]), list(&[1, 0])])]);
    assert_eq!(
        by_name(tuple).expect("a tensor").tensors()[0].dims(),
        [2, 2, 3, 4]
    );
}

#[test]
fn assignment_writes_through_views_and_records() {
    let x = Tensor::zeros([2, 3], DType::F32, Device::Cpu).expect("fits");
    x.i_put((.., 1), floats(&[1.0, 2.0], &[2])).expect("fits");
    x.i_put(ints(&[-1]), floats(&[7.0, 8.0, 9.0], &[1, 1, 3]))
        .expect("leading ones go");
    x.i_put((0, ints(&[0, 2])), 5).expect("fits");
    assert_eq!(
        x.to_vec::<f32>().expect("floats"),
        [5.0, 1.0, 5.0, 7.0, 8.0, 9.0]
    );
    let rows = Tensor::from_data(&[true, false], [2]).expect("fits");
    x.i_put(&rows, ints(&[3])).expect("one number converts");
    assert_eq!(
        x.to_vec::<f32>().expect("floats"),
        [3.0, 3.0, 3.0, 7.0, 8.0, 9.0]
    );
    refused(
        x.i_put(ints(&[0]), ints(&[1])),
        "Index put requires the source and destination dtypes match",
    );
    refused(
        x.i_put(ints(&[0]), floats(&[1.0; 4], &[4])),
        "cannot be broadcast to indexing result of shape [1, 3]",
    );
    refused(x.i_put(ints(&[2]), 0), "index 2 is out of bounds");
    assert_eq!(
        x.to_vec::<f32>().expect("floats"),
        [3.0, 3.0, 3.0, 7.0, 8.0, 9.0]
    );

    // y = x * 2; y[0, [2, 0]] = v; y[:, 1] = 0: what was written over has no gradient.
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]).requires_grad_(true);
    let v = floats(&[10.0, 20.0], &[2]).requires_grad_(true);
    let y = x.mul(2.0).expect("fits");
    y.i_put((0, ints(&[2, 0])), &v).expect("fits");
    y.i_put((.., 1), 0.0).expect("fits");
    assert_eq!(
        y.to_vec::<f32>().expect("floats"),
        [20.0, 0.0, 10.0, 8.0, 0.0, 12.0]
    );
    y.mul(floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]))
        .expect("fits")
        .sum()
        .expect("sums")
        .backward()
        .expect("runs");
    assert_eq!(
        x.grad()
            .expect("a gradient")
            .to_vec::<f32>()
            .expect("floats"),
        [0.0, 0.0, 0.0, 8.0, 0.0, 12.0]
    );
    assert_eq!(
        v.grad()
            .expect("a gradient")
            .to_vec::<f32>()
            .expect("floats"),
        [3.0, 1.0]
    );
    refused(x.i_put(0, 1.0), "leaf");
}

#[test]
fn in_place_forms_equal_their_copies_and_their_gradients() {
    let base = floats(&[1.0, -2.0, 3.0, -4.0, 5.0, -6.0], &[2, 3]);
    let src = floats(&[0.5, 1.5, 2.5, 3.5], &[2, 2]);
    let (cols, each) = (
        ints(&[2, 0]),
        ints(&[1, 1, 0, 2]).reshape([2, 2]).expect("fits"),
    );
    let mask = base.lt(0.0).expect("fits");
    type Op<'a> = Box<dyn Fn(&Tensor, &Tensor) -> torsh_tensor::Result<Tensor> + 'a>;
    let pairs: Vec<(&str, Op<'_>, Op<'_>)> = vec![
        (
            "index_add",
            Box::new(|x, s| x.index_add(1, &cols, s)),
            Box::new(|x, s| x.index_add_(1, &cols, s)),
        ),
        (
            "index_copy",
            Box::new(|x, s| x.index_copy(1, &cols, s)),
            Box::new(|x, s| x.index_copy_(1, &cols, s)),
        ),
        (
            "index_fill",
            Box::new(|x, _| x.index_fill(1, &cols, 9)),
            Box::new(|x, _| x.index_fill_(1, &cols, 9)),
        ),
        (
            "scatter",
            Box::new(|x, s| x.scatter(1, &each, s)),
            Box::new(|x, s| x.scatter_(1, &each, s)),
        ),
        (
            "scatter_add",
            Box::new(|x, s| x.scatter_add(1, &each, s)),
            Box::new(|x, s| x.scatter_add_(1, &each, s)),
        ),
        (
            "masked_fill",
            Box::new(|x, _| x.masked_fill(&mask, 9)),
            Box::new(|x, _| x.masked_fill_(&mask, 9)),
        ),
        (
            "masked_scatter",
            Box::new(|x, s| x.masked_scatter(&mask, s)),
            Box::new(|x, s| x.masked_scatter_(&mask, s)),
        ),
        (
            "put",
            Box::new(|x, s| x.put(&each, s, true)),
            Box::new(|x, s| x.put_(&each, s, true)),
        ),
        (
            "tril",
            Box::new(|x, _| x.tril(0)),
            Box::new(|x, _| x.tril_(0)),
        ),
        (
            "triu",
            Box::new(|x, _| x.triu(1)),
            Box::new(|x, _| x.triu_(1)),
        ),
    ];
    let weight = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    for (name, copy, write) in &pairs {
        let run = |f: &Op<'_>| {
            let (x, s) = (
                base.copy().expect("fits").requires_grad_(true),
                src.copy().expect("fits").requires_grad_(true),
            );
            let y = x.mul(1.0).expect("fits");
            let out = f(&y, &s).expect("runs");
            out.mul(&weight)
                .expect("fits")
                .sum()
                .expect("sums")
                .backward()
                .expect("runs");
            let grads = [x.grad(), s.grad()].map(|g| g.map(|g| g.to_vec::<f32>().expect("floats")));
            (out.to_vec::<f32>().expect("floats"), grads)
        };
        assert_eq!(run(copy), run(write), "{name}");
        // A strided target: every second column of a wider tensor.
        let wide = Tensor::full([2, 6], 100.0, DType::F32, Device::Cpu).expect("fits");
        let window = wide.i((.., s(None, None, 2))).expect("fits");
        window.copy_(&base).expect("fits");
        write(&window, &src).expect("runs");
        assert_eq!(
            window.to_vec::<f32>().expect("floats"),
            copy(&base, &src)
                .expect("runs")
                .to_vec::<f32>()
                .expect("floats"),
            "{name}"
        );
        assert!(
            wide.i((.., s(1, None, 2)))
                .expect("fits")
                .to_vec::<f32>()
                .expect("floats")
                .iter()
                .all(|&v| v == 100.0)
        );
        let leaf = base.copy().expect("fits").requires_grad_(true);
        refused(write(&leaf, &src), "leaf");
    }
    let x = ints(&[0, 1, 2]);
    refused(x.index_add_(0, &x, &x), "single memory location");
    let shown = x.expand([2, 3]).expect("fits");
    refused(
        shown.index_fill_(0, &ints(&[0]), 1),
        "single memory location",
    );
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let u = Tensor::zeros([2, 3], DType::U8, Device::Cpu).expect("fits");
    let mask = Tensor::from_data(&[true, false, true], [3]).expect("fits");
    refused(
        u.masked_fill(&mask, 300),
        "value cannot be converted to type uint8 without overflow",
    );
    assert_eq!(
        u.masked_fill(&mask, -1)
            .expect("wraps")
            .to_vec::<u8>()
            .expect("u8"),
        [255, 0, 255, 255, 0, 255]
    );
    refused(
        x().masked_fill(&x().lt(0).expect("fits"), 1e30),
        "without overflow",
    );
    assert_eq!(
        ints(&[0])
            .index_fill(0, &ints(&[0]), 1.7)
            .expect("cut")
            .item::<i64>()
            .expect("int"),
        1
    );
    refused(u.masked_fill(&u, 1), "only supports boolean masks");
    refused(u.index_fill(0, &ints(&[0]), 300), "without overflow");
    refused(
        u.scatter(0, &ints(&[0, 0, 0]).reshape([1, 3]).expect("fits"), 256),
        "without overflow",
    );
}

#[test]
fn sorting_and_searching() {
    let x = floats(&[1.0, f32::NAN, 2.0, -0.0, 0.0], &[5]);
    let (values, at) = x
        .sort_with(SortOptions::default().descending(true))
        .expect("sorts");
    assert!(values.to_vec::<f32>().expect("floats")[0].is_nan());
    assert_eq!(at.to_vec::<i64>().expect("ints"), [1, 2, 0, 3, 4]);
    let (smallest, at) = x
        .topk_with(2, TopkOptions::default().dim(0).largest(false))
        .expect("picks");
    assert_eq!(smallest.to_vec::<f32>().expect("floats"), [0.0, 0.0]);
    assert_eq!(at.to_vec::<i64>().expect("ints"), [3, 4]);
    refused(x.topk(6), "selected index k out of range");
    refused(
        x.to_dtype(DType::C64).expect("fits").sort(),
        "not implemented for complex64",
    );
    let zero_d = Tensor::scalar(3.0, DType::F32, Device::Cpu).expect("fits");
    let (v, i) = zero_d.sort().expect("sorts");
    assert_eq!((v.ndim(), i.item::<i64>().expect("int")), (0, 0));
    assert_eq!(
        zero_d
            .topk(0)
            .expect("picks")
            .0
            .item::<f32>()
            .expect("float"),
        3.0
    );
    let bins = floats(&[1.0, 3.0, 5.0], &[3]);
    assert_eq!(
        bins.searchsorted(3.0)
            .expect("finds")
            .item::<i64>()
            .expect("int"),
        1
    );
    assert_eq!(
        floats(&[0.0, 3.0, 9.0], &[3])
            .bucketize_with(&bins, SearchsortedOptions::default().right(true))
            .expect("finds")
            .to_vec::<i64>()
            .expect("ints"),
        [0, 2, 3]
    );
    let nan = floats(&[f32::NAN], &[1]);
    assert!(
        !Tensor::isin(&nan, &nan)
            .expect("runs")
            .item::<bool>()
            .expect("bool")
    );
    assert_eq!(
        ints(&[1, 2, 2])
            .bincount_with(BincountOptions::default().minlength(5))
            .expect("counts")
            .to_vec::<i64>()
            .expect("ints"),
        [0, 1, 2, 0, 0]
    );
    refused(ints(&[-1]).bincount(), "non-negative");
    assert!(
        ints(&[1, 2])
            .equal(&floats(&[1.0, 2.0], &[2]))
            .expect("compares")
    );
    refused(ints(&[1]).allclose(&floats(&[1.0], &[1])), "did not match");
    let large = Tensor::from_vec(
        (0..100_000i64).map(|i| (i * 7919) % 100_003).collect(),
        [100_000],
    )
    .expect("fits");
    let sorted = large
        .sort_with(SortOptions::default().dim(0))
        .expect("sorts")
        .0
        .to_vec::<i64>()
        .expect("ints");
    assert!(sorted.windows(2).all(|w| w[0] < w[1]));
}

#[test]
fn embeddings_count_and_pad() {
    let w = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2]).requires_grad_(true);
    let at = Tensor::from_data(&[2i64, 0, 2, 1], [2, 2]).expect("fits");
    let options = torsh_tensor::EmbeddingOptions {
        padding_idx: Some(-2),
        scale_grad_by_freq: true,
        ..Default::default()
    };
    let y = w.embedding_with(&at, options).expect("looks up");
    assert_eq!(
        y.to_vec::<f32>().expect("floats"),
        [5.0, 6.0, 1.0, 2.0, 5.0, 6.0, 3.0, 4.0]
    );
    let g = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &[2, 2, 2]);
    y.backward_with(g, false, false).expect("runs");
    assert_eq!(
        w.grad()
            .expect("a gradient")
            .to_vec::<f32>()
            .expect("floats"),
        [3.0, 4.0, 0.0, 0.0, 3.0, 4.0]
    );
    refused(
        w.embedding(&ints(&[3])),
        "index 3 is out of bounds for dimension 0 with size 3",
    );
    refused(w.embedding(&floats(&[0.0], &[1])), "int64 or int32");
    assert_eq!(
        ints(&[1, 0])
            .one_hot(-1)
            .expect("makes")
            .to_vec::<i64>()
            .expect("ints"),
        [0, 1, 1, 0]
    );
    refused(
        ints(&[0, 3]).one_hot(2),
        "Class values must be smaller than num_classes.",
    );
    refused(
        ints(&[-1]).one_hot(-1),
        "Class values must be non-negative.",
    );
    refused(ints(&[]).one_hot(-1), "Can not infer");
}

#[test]
fn repeats_and_diagonals() {
    let x = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[2, 3]);
    let y = x.repeat_interleave(ints(&[2, 1, 0]), 1).expect("repeats");
    assert_eq!(
        y.to_vec::<f32>().expect("floats"),
        [0.0, 0.0, 1.0, 3.0, 3.0, 4.0]
    );
    refused(x.repeat_interleave(-1, None), "non-negative");
    refused(
        x.repeat_interleave(ints(&[2, 1]), 1),
        "same size as input along dim",
    );
    assert_eq!(x.repeat_interleave(0, None).expect("repeats").numel(), 0);
    assert_eq!(x.diag(5).expect("empty").numel(), 0);
    assert_eq!(
        x.diag(1).expect("takes").to_vec::<f32>().expect("floats"),
        [1.0, 5.0]
    );
    assert_eq!(
        x.i(0).expect("fits").diag(-1).expect("makes").dims(),
        [4, 4]
    );
    assert_eq!(x.diagflat(1).expect("makes").dims(), [7, 7]);
    assert_eq!(
        x.roll(1, ())
            .expect("rolls")
            .to_vec::<f32>()
            .expect("floats"),
        [5.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    );
    refused(x.roll([0i64; 0], ()), "`shifts` required");
    assert_eq!(
        Tensor::tril_indices(2, 3, -1)
            .expect("makes")
            .to_vec::<i64>()
            .expect("ints"),
        [1, 0]
    );
    refused(Tensor::tril_indices(-2, 3, 0), "row must be non-negative");
}

#[test]
fn sparse_gradients_need_their_crate() {
    let weight = floats(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[3, 2]);
    refused(
        weight.embedding_with(&ints(&[0]), EmbeddingOptions::new().sparse(true)),
        "sparse gradients come with the feature `sparse`",
    );
    let read = weight.gather_with(
        1,
        &ints(&[0]).reshape([1, 1]).expect("one"),
        GatherOptions::new().sparse_grad(true),
    );
    refused(read, "leave sparse_grad at false");
}
