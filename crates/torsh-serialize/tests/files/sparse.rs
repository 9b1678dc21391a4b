//! Sparse tensors: files of PyTorch, SciPy and Matrix Market, and those that are written here.

use std::io::Cursor;
use std::path::Path;

use torsh_serialize::sparse::{
    MtxOptions, MtxSymmetry, NpzOptions, load_npz, load_npz_bytes, read_mtx, read_mtx_bytes,
    save_npz, save_npz_with, write_mtx, write_mtx_with,
};
use torsh_serialize::{LoadOptions, Value, load, load_with, npy, npz, pt, safetensors};
use torsh_tensor::sparse::{Pattern, from_values, values};
use torsh_tensor::{DType, Device, Tensor, TensorLayout, tensor};

use super::live::python;
use super::{data, scratch};

/// The elements of a sparse matrix, row by row, duplicates added up.
fn dense(t: &Tensor) -> Vec<f64> {
    let p = t.pattern().unwrap();
    assert_eq!((p.batch_dim(), p.dense_dim()), (0, 0));
    let list = |t: &Tensor| t.to_dtype(DType::I64).unwrap().to_vec::<i64>().unwrap();
    let (rows, cols) = (p.shape()[0], p.shape()[1]);
    let plain = list(p.indices());
    let [high, wide] = p.block().unwrap_or([1, 1]);
    let places: Vec<(usize, usize)> = match p.compressed_indices() {
        None => (0..p.nnz())
            .map(|i| (plain[i] as usize, plain[p.nnz() + i] as usize))
            .collect(),
        Some(compressed) => {
            let lines = list(compressed);
            let own = |l: usize| lines[l] as usize..lines[l + 1] as usize;
            let of = |l: usize| {
                plain[own(l)]
                    .iter()
                    .map(move |&c| (l, c as usize))
                    .collect::<Vec<_>>()
            };
            let all = (0..lines.len() - 1).flat_map(of);
            match p.layout().by_rows() {
                true => all.collect(),
                false => all.map(|(c, r)| (r, c)).collect(),
            }
        }
    };
    let v = values(t).unwrap().to_vec::<f64>().unwrap();
    let mut out = vec![0.0; rows * cols];
    for (i, (row, col)) in places.into_iter().enumerate() {
        for r in 0..high {
            for c in 0..wide {
                out[(row * high + r) * cols + col * wide + c] += v[(i * high + r) * wide + c];
            }
        }
    }
    out
}

const MATRIX: [f64; 16] = [
    0.0, 1.0, 0.0, 2.0, 3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 5.0, 0.0, 0.0, 0.0, 6.0,
];

/// Parts that are the same, bit for bit.
pub(super) fn same(a: &Tensor, b: &Tensor) {
    let (p, q) = (a.pattern().unwrap(), b.pattern().unwrap());
    assert_eq!(
        (p.layout(), p.shape(), p.block()),
        (q.layout(), q.shape(), q.block())
    );
    assert_eq!((p.is_coalesced(), a.dtype()), (q.is_coalesced(), b.dtype()));
    let equal = |a: &Tensor, b: &Tensor| {
        assert_eq!((a.dims(), a.dtype()), (b.dims(), b.dtype()));
        assert_eq!(a.to_bytes().unwrap(), b.to_bytes().unwrap());
    };
    equal(p.indices(), q.indices());
    if let (Some(c), Some(d)) = (p.compressed_indices(), q.compressed_indices()) {
        equal(c, d);
    }
    equal(&values(a).unwrap(), &values(b).unwrap());
}

#[test]
fn pytorchs_files_are_read_and_written() {
    let file = load(data("sparse.pt")).unwrap();
    let get = |name: &str| file.get(name).unwrap().as_tensor().unwrap();
    for (name, layout) in [
        ("coo", TensorLayout::SparseCoo),
        ("csr", TensorLayout::SparseCsr),
        ("csc", TensorLayout::SparseCsc),
        ("bsr", TensorLayout::SparseBsr),
        ("bsc", TensorLayout::SparseBsc),
    ] {
        assert_eq!(
            (get(name).layout(), get(name).dims()),
            (layout, &[4, 4][..]),
            "{name}"
        );
        assert_eq!(dense(get(name)), MATRIX, "{name}");
    }
    let uncoalesced = get("uncoalesced").pattern().unwrap();
    assert!(!uncoalesced.is_coalesced() && get("coo").pattern().unwrap().is_coalesced());
    assert_eq!(
        dense(get("uncoalesced")),
        [0.0, 0.0, 0.0, 2.0, 4.0, 0.0, 0.0, 0.0]
    );
    assert_eq!(
        values(get("hybrid")).unwrap(),
        tensor![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    );
    let int32 = get("int32").pattern().unwrap();
    assert_eq!(int32.indices().dtype(), DType::I32);
    assert_eq!(values(get("int32")).unwrap().dtype(), DType::C64);
    assert_eq!(get("batched").pattern().unwrap().batch_dim(), 1);
    assert_eq!(get("empty").pattern().unwrap().nnz(), 0);
    assert!(matches!(file.get("parameter").unwrap(), Value::Parameter(p) if p.requires_grad()));

    let old = load(data("sparse_old.pt")).unwrap();
    same(old.get("csr").unwrap().as_tensor().unwrap(), get("csr"));

    let dir = scratch("sparse-pt");
    pt::save(&file, dir.join("ours_sparse.pt")).unwrap();
    for options in [LoadOptions::new(), LoadOptions::new().mmap(false)] {
        let back = load_with(dir.join("ours_sparse.pt"), options).unwrap();
        for (key, value) in file.as_dict().unwrap().iter() {
            let other = back.get(key.as_str().unwrap()).unwrap();
            same(value.as_tensor().unwrap(), other.as_tensor().unwrap());
        }
        assert!(matches!(back.get("parameter").unwrap(), Value::Parameter(p) if p.requires_grad()));
    }
    let meta = load_with(
        dir.join("ours_sparse.pt"),
        LoadOptions::new().device(Device::Meta),
    )
    .unwrap();
    assert_eq!(
        meta.get("csr").unwrap().as_tensor().unwrap().device(),
        Device::Meta
    );

    let csr = load_npz(data("csr.npz")).unwrap();
    for name in ["csr", "csc", "bsr", "coo"] {
        let x = load_npz(data(&format!("{name}.npz"))).unwrap();
        save_npz(&x, dir.join(format!("ours_{name}.npz"))).unwrap();
    }
    write_mtx(&csr, dir.join("ours_coordinate.mtx")).unwrap();
    write_mtx(
        &Tensor::from_data(&MATRIX, [4, 4]).unwrap(),
        dir.join("ours_array.mtx"),
    )
    .unwrap();
    let symmetric = MtxOptions::new().symmetry(MtxSymmetry::Symmetric);
    write_mtx_with(
        &read_mtx(data("scipy.mtx")).unwrap(),
        dir.join("ours_symmetric.mtx"),
        symmetric,
    )
    .unwrap();
    if let Some(said) = python("sparse.py", &dir) {
        assert!(
            said.contains("ok") || said.contains("SciPy is not there"),
            "{said}"
        );
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A `.pt` of one CSR tensor with these parts.
fn file_of(
    layout: TensorLayout,
    parts: &[&Tensor],
    shape: &[usize],
    flag: Option<bool>,
) -> Vec<u8> {
    // Written as a list of strided tensors, whose pickle is then put into the call that makes a sparse one.
    let dir = scratch("sparse-parts");
    let list = parts.iter().map(|&t| Value::from(t)).collect();
    let path = dir.join("parts.pt");
    pt::save(&Value::List(list), &path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for i in 0..zip.len() {
        let mut entry = zip.by_index(i).unwrap();
        let name = entry.name().to_string();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        if name.ends_with("data.pkl") {
            // PROTO 2, then `](`, the parts, `e.`.
            let inner = &content[4..content.len() - 2];
            let mut new = b"\x80\x02ctorch._utils\n_rebuild_sparse_tensor\n(ctorch.serialization\n_get_layout\n".to_vec();
            let text = layout.to_string();
            new.extend([b'X', text.len() as u8, 0, 0, 0]);
            new.extend(text.bytes());
            new.extend(b"\x85R(");
            new.extend(inner);
            new.push(b'(');
            for &n in shape {
                new.extend([b'K', n as u8]);
            }
            new.push(b't');
            new.extend(flag.map(|f| if f { 0x88u8 } else { 0x89 }));
            new.extend(b"ttR.");
            content = new;
        }
        out.start_file(name, stored).unwrap();
        std::io::Write::write_all(&mut out, &content).unwrap();
    }
    out.finish().unwrap().into_inner()
}

#[test]
fn every_invariant_of_a_file_is_checked() {
    let (crow, col) = (
        tensor![0, 2, 3].to_dtype(DType::I64).unwrap(),
        tensor![0, 2, 1].to_dtype(DType::I64).unwrap(),
    );
    let v = tensor![1.0, 2.0, 3.0];
    let csr = |crow: &Tensor, col: &Tensor, v: &Tensor, shape: &[usize]| {
        pt::load_bytes(&file_of(
            TensorLayout::SparseCsr,
            &[crow, col, v],
            shape,
            None,
        ))
    };
    assert_eq!(
        dense(csr(&crow, &col, &v, &[2, 3]).unwrap().as_tensor().unwrap()),
        [1.0, 0.0, 2.0, 0.0, 3.0, 0.0]
    );
    let long = |v: &[i64]| Tensor::from_data(v, [v.len()]).unwrap();
    let refused = |r: torsh_tensor::Result<Value>, part: &str| {
        let e = r.map(drop).unwrap_err().to_string();
        assert!(e.contains(part), "{e} for {part}");
        assert!(e.contains("the bytes in memory"), "{e}");
    };
    refused(
        csr(&long(&[1, 2, 3]), &col, &v, &[2, 3]),
        "crow_indices[0] is 1, and must be 0",
    );
    refused(
        csr(&long(&[0, 2, 2]), &col, &v, &[2, 3]),
        "crow_indices[2] is 2, and there are 3",
    );
    refused(
        csr(&long(&[0, 4, 3]), &col, &v, &[2, 3]),
        "crow_indices does not rise",
    );
    refused(
        csr(&long(&[0, -1, 3]), &col, &v, &[2, 3]),
        "crow_indices does not rise",
    );
    refused(
        csr(&crow, &long(&[0, 3, 1]), &v, &[2, 3]),
        "col_indices[1] is 3, and must be below 3",
    );
    refused(
        csr(&crow, &long(&[0, -1, 1]), &v, &[2, 3]),
        "col_indices[1] is -1",
    );
    refused(
        csr(&crow, &long(&[2, 0, 1]), &v, &[2, 3]),
        "must rise between the positions 0 and 2",
    );
    refused(csr(&crow, &long(&[0, 0, 1]), &v, &[2, 3]), "must rise");
    refused(
        csr(&crow, &col, &v, &[3, 3]),
        "torch.sparse_csr tensor of [3, 3]",
    );
    refused(csr(&crow, &col, &v, &[2, 3, 4, 5]), "torch.sparse_csr");
    refused(
        csr(&crow, &col, &tensor![1.0, 2.0], &[2, 3]),
        "torch.sparse_csr",
    );
    refused(
        csr(&crow.to_dtype(DType::I32).unwrap(), &col, &v, &[2, 3]),
        "int32",
    );
    let repeated = long(&[0]).expand([3]).unwrap();
    refused(
        csr(&crow, &repeated, &v, &[2, 3]),
        "more elements than its storage",
    );

    let coo = |indices: &[i64], v: &Tensor, shape: &[usize], flag: bool| {
        let indices = Tensor::from_data(indices, [2, indices.len() / 2]).unwrap();
        pt::load_bytes(&file_of(
            TensorLayout::SparseCoo,
            &[&indices, v],
            shape,
            Some(flag),
        ))
    };
    assert!(coo(&[1, 0, 0, 2], &tensor![1.0, 2.0], &[2, 3], false).is_ok());
    refused(
        coo(&[1, 0, 0, 2], &tensor![1.0, 2.0], &[2, 3], true),
        "says that it is coalesced",
    );
    refused(
        coo(&[0, 2, 0, 2], &tensor![1.0, 2.0], &[2, 3], false),
        "indices[0][1] is 2",
    );
    refused(
        coo(&[0, -1, 0, 2], &tensor![1.0, 2.0], &[2, 3], false),
        "indices[0][1] is -1",
    );
    refused(
        coo(&[0, 1], &tensor![1.0, 2.0], &[2, 3], false),
        "torch.sparse_coo tensor of [2, 3]",
    );
    refused(
        coo(&[0, 1], &tensor![1.0], &[2], false),
        "torch.sparse_coo tensor of [2]",
    );
}

#[test]
fn formats_without_sparse_tensors_say_so() {
    let x = load_npz(data("csr.npz")).unwrap();
    let dir = scratch("sparse-refused");
    let said = |r: torsh_tensor::Result<()>, part: &str| {
        let e = r.unwrap_err().to_string();
        assert!(
            e.contains(part) && e.contains("torch.sparse_csr") && e.contains(".pt"),
            "{e}"
        );
    };
    said(
        safetensors::save([("w", &x)], dir.join("a.safetensors")),
        "safetensors files have no sparse tensors; w is",
    );
    said(
        npz::save([("w", &x)], dir.join("a.npz")),
        "npz files have no sparse tensors; w is",
    );
    said(
        npy::save(&x, dir.join("a.npy")),
        "npy files have no sparse tensors",
    );
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn scipys_matrices_are_read_and_written() {
    let dir = scratch("sparse-npz");
    for (name, layout) in [
        ("csr", TensorLayout::SparseCsr),
        ("csc", TensorLayout::SparseCsc),
        ("bsr", TensorLayout::SparseBsr),
        ("coo", TensorLayout::SparseCoo),
    ] {
        let x = load_npz(data(&format!("{name}.npz"))).unwrap();
        assert_eq!((x.layout(), x.dtype()), (layout, DType::F64), "{name}");
        assert_eq!(dense(&x), MATRIX, "{name}");
        for compressed in [true, false] {
            let path = dir.join(format!("{name}-{compressed}.npz"));
            save_npz_with(&x, &path, NpzOptions::new().compressed(compressed)).unwrap();
            same(&load_npz(&path).unwrap(), &x);
        }
    }
    // Sorted, and the duplicates added up.
    let x = load_npz(data("unsorted.npz")).unwrap();
    assert_eq!(dense(&x), [0.0, 1.0, 0.0, 2.0, 7.0, 0.0, 0.0, 0.0]);
    assert_eq!(x.pattern().unwrap().nnz(), 3);

    let said = |r: torsh_tensor::Result<Tensor>, part: &str| {
        let e = r.unwrap_err().to_string();
        assert!(e.contains(part), "{e} for {part}");
    };
    said(
        load_npz(data("dia.npz")),
        "the format \"dia\" is not csr, csc, bsr or coo",
    );
    said(load_npz(data("arrays.npz")), "no sparse matrix of SciPy");
    said(load_npz(dir.join("nowhere.npz")), "nowhere.npz");
    let three = load(data("sparse.pt")).unwrap();
    for (name, part) in [
        ("batched", "no batch"),
        ("hybrid", "no batch or dense"),
        ("bsc", "no format"),
    ] {
        let t = three.get(name).unwrap().as_tensor().unwrap();
        let e = save_npz(t, dir.join("no.npz")).unwrap_err().to_string();
        assert!(e.contains(part), "{e}");
    }
    assert!(save_npz(&tensor![1.0], dir.join("no.npz")).is_err());
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The arrays of a matrix of SciPy, with one in the place of another.
fn matrix_of(change: &str, to: &Tensor) -> String {
    let dir = scratch(&format!("sparse-lies-{change}"));
    let path = dir.join("m.npz");
    let x = load_npz(data("csr.npz")).unwrap();
    save_npz_with(&x, &path, NpzOptions::new().compressed(false)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let changed = dir.join("array.npy");
    npy::save(to, &changed).unwrap();
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for i in 0..zip.len() {
        let mut entry = zip.by_index(i).unwrap();
        let name = entry.name().to_string();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        if name == format!("{change}.npy") {
            content = std::fs::read(&changed).unwrap();
        }
        out.start_file(name, zip::write::SimpleFileOptions::default())
            .unwrap();
        std::io::Write::write_all(&mut out, &content).unwrap();
    }
    let bytes = out.finish().unwrap().into_inner();
    std::fs::remove_dir_all(&dir).unwrap();
    load_npz_bytes(&bytes).map(drop).unwrap_err().to_string()
}

#[test]
fn matrices_of_scipy_that_lie_are_refused() {
    let long = |v: &[i64]| Tensor::from_data(v, [v.len()]).unwrap();
    for (array, to, part) in [
        ("indptr", long(&[0, 2, 3, 5, 7]), "indptr ends with 7"),
        (
            "indptr",
            long(&[0, 2, 1, 5, 6]),
            "crow_indices does not rise",
        ),
        ("indptr", long(&[0, 2, 6]), "a csr matrix of [4, 4]"),
        ("indptr", tensor![0.5], "indptr is"),
        ("indices", long(&[1, 3, 0, 2, 3, 4]), "must be below 4"),
        (
            "indices",
            long(&[1, 3, 0, -2, 3, 3]),
            "col_indices[3] is -2",
        ),
        ("shape", long(&[4]), "a csr matrix of [4]"),
        ("shape", long(&[4, -4]), "the shape is [4, -4]"),
        ("data", tensor![1.0, 2.0], "indptr ends with 6"),
        (
            "format",
            tensor![1.0],
            "its array format is missing or no text",
        ),
    ] {
        let e = matrix_of(array, &to);
        assert!(e.contains(part), "{array}: {e} for {part}");
    }
}

fn mtx(text: &str) -> torsh_tensor::Result<Tensor> {
    read_mtx_bytes(text.as_bytes())
}

#[test]
fn matrix_market_files_are_read() {
    let x = read_mtx(data("scipy.mtx")).unwrap();
    let sum: Vec<f64> = (0..16)
        .map(|i| MATRIX[i] + MATRIX[i % 4 * 4 + i / 4])
        .collect();
    assert_eq!(dense(&x), sum);

    let text = "%%matrixmarket MATRIX Coordinate Pattern General\r\n\r\n 2 3 2 \r\n1 3\r\n2 1\r\n";
    let x = mtx(text).unwrap();
    assert_eq!(
        (x.dtype(), dense(&x)),
        (DType::F64, vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.0])
    );
    assert!(x.pattern().unwrap().is_coalesced());

    let text = "%%MatrixMarket matrix coordinate integer skew-symmetric\n3 3 1\n% c\n3 1 -4";
    let x = mtx(text).unwrap();
    assert_eq!(
        (x.dtype(), dense(&x)[2], dense(&x)[6]),
        (DType::I64, 4.0, -4.0)
    );

    let text =
        "%%MatrixMarket matrix coordinate complex hermitian\n2 2 2\n1 1 1.5 0\n2 1 0.5D0 -1e-1\n";
    let v = values(&mtx(text).unwrap()).unwrap().view_as_real().unwrap();
    assert_eq!(v.to_vec::<f64>().unwrap(), [1.5, 0.0, 0.5, -0.1, 0.5, 0.1]);

    let text = "%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\nnan\n";
    let x = mtx(text).unwrap();
    assert_eq!(x.dims(), [2, 3]);
    assert_eq!(x.to_vec::<f64>().unwrap()[..5], [1.0, 3.0, 5.0, 2.0, 4.0]);
    let text = "%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n";
    let want = [0.0, -1.0, -2.0, 1.0, 0.0, -3.0, 2.0, 3.0, 0.0];
    assert_eq!(mtx(text).unwrap().to_vec::<f64>().unwrap(), want);
    let text = "%%MatrixMarket matrix array complex hermitian\n2 2\n1 0\n2 3\n4 0\n";
    let x = mtx(text).unwrap().view_as_real().unwrap();
    assert_eq!(
        x.to_vec::<f64>().unwrap(),
        [1.0, 0.0, 2.0, -3.0, 2.0, 3.0, 4.0, 0.0]
    );
    let x = mtx("%%MatrixMarket matrix coordinate real general\n0 0 0\n").unwrap();
    assert_eq!(x.dims(), [0, 0]);
    let x = mtx("%%MatrixMarket matrix array real general\n0 5\n").unwrap();
    assert_eq!(x.dims(), [0, 5]);
}

#[test]
fn matrix_market_files_that_lie_are_refused_by_line() {
    let head = "%%MatrixMarket matrix coordinate real general\n";
    for (text, part) in [
        (String::new(), "line 1: this is no Matrix Market file"),
        ("1 1\n".into(), "line 1: this is no Matrix Market file"),
        (
            "%%MatrixMarket vector coordinate real general\n".into(),
            "the object is \"vector\"",
        ),
        (
            "%%MatrixMarket matrix list real general\n".into(),
            "the format is \"list\"",
        ),
        (
            "%%MatrixMarket matrix array half general\n".into(),
            "the field is \"half\"",
        ),
        (
            "%%MatrixMarket matrix array real odd\n".into(),
            "the symmetry is \"odd\"",
        ),
        (
            "%%MatrixMarket matrix array real\n".into(),
            "the symmetry is missing",
        ),
        (
            "%%MatrixMarket matrix array pattern general\n".into(),
            "there is no matrix array pattern",
        ),
        (
            "%%MatrixMarket matrix coordinate real hermitian\n".into(),
            "there is no matrix",
        ),
        (head.into(), "the file ends before the sizes"),
        (
            format!("{head}2 2\n"),
            "line 2: the number of entries is missing",
        ),
        (
            format!("{head}2 2 x\n"),
            "line 2: the number of entries is \"x\"",
        ),
        (format!("{head}2 2 99999999999999999999\n"), "no size"),
        (
            format!("{head}2 2 1 1\n"),
            "line 2: there is \"1\" after the number of entries",
        ),
        (
            format!("{head}2 2 1000000000000\n1 1 1\n"),
            "the file ends after 1 of 1000000000000 entries",
        ),
        (
            format!("{head}2 2 1\n1 1 1\n%\n2 2 2\n"),
            "line 5: there are more entries than the 1",
        ),
        (
            format!("{head}2 2 1\n3 1 1\n"),
            "line 3: the row is \"3\", not one of 1 to 2",
        ),
        (
            format!("{head}2 2 1\n1 0 1\n"),
            "line 3: the column is \"0\"",
        ),
        (
            format!("{head}2 2 1\n1 1\n"),
            "line 3: the value is missing",
        ),
        (
            format!("{head}2 2 1\n1 1 one\n"),
            "line 3: the value is \"one\", no number",
        ),
        (
            format!("{head}2 2 1\n1 1 1 1\n"),
            "line 3: there is \"1\" after the value",
        ),
        (
            format!("{head}2 2 1\n1 1 {}\n", "1".repeat(1 << 17)),
            "longer than",
        ),
        (
            "%%MatrixMarket matrix array real general\n100000000000 100000000000\n1\n".into(),
            "too large",
        ),
        (
            "%%MatrixMarket matrix array real general\n1000000 1000000\n1\n".into(),
            "ends after 1 of 1000000000000 values",
        ),
        (
            "%%MatrixMarket matrix array real general\n1 1\n1\n2\n".into(),
            "line 4: there are more values than 1",
        ),
        (
            "%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n".into(),
            "line 2: a symmetric matrix cannot be 2 x 3",
        ),
        (
            "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 2\n".into(),
            "line 3: a skew-symmetric matrix cannot have this value",
        ),
        (
            "%%MatrixMarket matrix coordinate complex hermitian\n2 2 1\n1 1 2 1\n".into(),
            "line 3: a hermitian matrix cannot have",
        ),
        (
            "%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 1.5\n".into(),
            "no integer of 64 bits",
        ),
        (
            "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1\n".into(),
            "the imaginary part is missing",
        ),
    ] {
        let e = mtx(&text).map(drop).unwrap_err().to_string();
        assert!(e.contains(part), "{e} for {part}");
    }
    let e = read_mtx_bytes(b"\x1f\x8b\x08\0")
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(e.contains("gunzip"), "{e}");
    let e = read_mtx(Path::new("nowhere.mtx"))
        .map(drop)
        .unwrap_err()
        .to_string();
    assert!(e.contains("nowhere.mtx"), "{e}");
}

#[test]
fn matrix_market_files_are_written() {
    let dir = scratch("sparse-mtx");
    let path = dir.join("m.mtx");
    let text = |x: &Tensor, options: MtxOptions| {
        write_mtx_with(x, &path, options).unwrap();
        std::fs::read_to_string(&path).unwrap()
    };
    for name in ["csr", "csc", "bsr", "coo"] {
        let x = load_npz(data(&format!("{name}.npz"))).unwrap();
        write_mtx(&x, &path).unwrap();
        assert_eq!(dense(&read_mtx(&path).unwrap()), MATRIX, "{name}");
    }
    let square = |indices: Tensor, v: &Tensor| {
        let pattern = Pattern::coo(&[2, 2], &indices, true).unwrap();
        from_values(&pattern, v).unwrap()
    };
    // What numbers need to be read back as they are.
    for v in [
        tensor![0.1f32, f32::MIN_POSITIVE, 3e38],
        tensor![0.1f64, 5e-324, f64::INFINITY],
        tensor![i64::MIN, 0, 1],
        tensor![true, false, true],
    ] {
        let x = square(tensor![[0, 0, 1], [0, 1, 1]], &v);
        write_mtx(&x, &path).unwrap();
        let back = values(&read_mtx(&path).unwrap())
            .unwrap()
            .to_dtype(v.dtype())
            .unwrap();
        assert_eq!(back, v);
    }
    let off = tensor![[0, 1], [1, 0]];
    let options = MtxOptions::new()
        .symmetry(MtxSymmetry::SkewSymmetric)
        .comment("a\nb");
    assert_eq!(
        text(&square(off.clone(), &tensor![-2.0, 2.0]), options.clone()),
        "%%MatrixMarket matrix coordinate real skew-symmetric\n%a\n%b\n2 2 1\n2 1 2.0\n"
    );
    let pattern = MtxOptions::new()
        .symmetry(MtxSymmetry::Symmetric)
        .pattern(true);
    assert_eq!(
        text(&square(off.clone(), &tensor![-2.0, 2.0]), pattern),
        "%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n"
    );
    assert_eq!(
        text(
            &tensor![[0.0, -3.0], [3.0, 0.0]],
            MtxOptions::new().symmetry(MtxSymmetry::SkewSymmetric)
        ),
        "%%MatrixMarket matrix array real skew-symmetric\n2 2\n3.0\n"
    );
    let said = |x: &Tensor, options: &MtxOptions, part: &str| {
        let e = write_mtx_with(x, &path, options.clone())
            .unwrap_err()
            .to_string();
        assert!(e.contains(part), "{e} for {part}");
    };
    said(
        &square(off, &tensor![2.0, 2.0]),
        &options,
        "the element [0, 1] is not as in a skew-symmetric matrix",
    );
    let twice = Pattern::coo(&[2, 2], &tensor![[0, 0], [0, 0]], false).unwrap();
    said(
        &from_values(&twice, &tensor![0.0, 0.0]).unwrap(),
        &options,
        "is stored twice",
    );
    said(&tensor![[1.0, 2.0]], &options, "is square");
    said(&tensor![1.0], &MtxOptions::new(), "one matrix");
    said(
        &tensor![[1.0]],
        &MtxOptions::new().pattern(true),
        "no pattern",
    );
    said(
        &tensor![[1.0]],
        &MtxOptions::new().symmetry(MtxSymmetry::Hermitian),
        "real matrices that are hermitian",
    );
    std::fs::remove_dir_all(&dir).unwrap();
}
