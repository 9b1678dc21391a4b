//! Data sets in files of their own formats: pickles, MATLAB's, records of bytes.

use torsh_data::Dataset;
use torsh_tensor::{DType, Result};
use torsh_vision::datasets::{CIFAR10, CIFAR100, STL10, STL10Split, SVHN, read_mat};

use super::{bytes, refused};
use crate::common::{Folder, array, array_of, mat, names, noise, pickled, small_element};

#[test]
fn cifar() -> Result<()> {
    let root = Folder::new();
    let folder = "cifar-10-batches-py";
    for i in 1..=5 {
        let data = noise(2 * 3072, i);
        let file = pickled(&data, "labels", &[i as u8, 9 - i as u8]);
        root.write(&format!("{folder}/data_batch_{i}"), file);
    }
    root.write(
        &format!("{folder}/test_batch"),
        pickled(&noise(3072, 8), "labels", &[3]),
    );
    root.write(&format!("{folder}/batches.meta"), names("label_names", 10));
    let train = CIFAR10::builder(&root.0).build()?;
    assert_eq!(train.targets(), [1, 8, 2, 7, 3, 6, 4, 5, 5, 4]);
    assert_eq!(
        (train.data().dims(), train.classes()[9].as_str()),
        (&[10, 3, 32, 32][..], "class 9")
    );
    let (image, label) = train.get(5)?;
    assert_eq!(
        (bytes(&image), label),
        (noise(2 * 3072, 3)[3072..].to_vec(), 6)
    );
    assert_eq!(CIFAR10::builder(&root.0).train(false).build()?.len(), 1);

    // The binary version.
    let other = Folder::new();
    let folder = "cifar-100-binary";
    let mut records = Vec::new();
    for i in 0..3u8 {
        records.extend([7, 40 + i]);
        records.extend(noise(3072, i.into()));
    }
    other.write(&format!("{folder}/test.bin"), &records);
    let classes: Vec<String> = (0..100).map(|i| format!("c{i}")).collect();
    other.write(
        &format!("{folder}/fine_label_names.txt"),
        classes.join("\n") + "\n\n",
    );
    let test = CIFAR100::builder(&other.0).train(false).build()?;
    assert_eq!(
        (test.targets(), test.classes()[41].as_str()),
        (&[40, 41, 42][..], "c41")
    );
    assert_eq!(bytes(&test.get(2)?.0), noise(3072, 2));

    // Damage.
    let open = || CIFAR100::builder(&other.0).train(false).build();
    other.write(&format!("{folder}/test.bin"), &records[..3000]);
    refused(open(), &["test.bin", "whole records of 3074"]);
    records[1] = 100;
    other.write(&format!("{folder}/test.bin"), &records);
    refused(open(), &["test.bin", "record 0", "class 100"]);
    let open = || CIFAR10::builder(&root.0).train(false).build();
    let whole = pickled(&noise(3072, 8), "labels", &[3]);
    root.write("cifar-10-batches-py/test_batch", &whole[..2000]);
    refused(open(), &["test_batch", "cut off"]);
    root.write(
        "cifar-10-batches-py/test_batch",
        b"\x80\x02cos\nsystem\nU\x04true\x85R.",
    );
    refused(open(), &["test_batch", "os.system"]);
    root.write(
        "cifar-10-batches-py/test_batch",
        pickled(&noise(3072, 8), "labels", &[3, 4]),
    );
    refused(open(), &["test_batch", "1 images and 2 labels"]);
    root.write("cifar-10-batches-py/test_batch", whole);
    root.write("cifar-10-batches-py/batches.meta", names("other", 10));
    refused(open(), &["batches.meta", "label_names"]);
    refused(
        CIFAR100::builder(&root.0).build(),
        &["cifar-100-python", "cifar-100-binary"],
    );
    Ok(())
}

#[test]
fn small_elements_of_matlab_files_lie_in_their_tags() -> Result<()> {
    let root = Folder::new();
    let name = || small_element(1, 1, b"X");
    let right = array_of(name(), 9, &[1, 3], &small_element(2, 3, &[7, 8, 9]));
    let all = read_mat(&root.write("x.mat", mat(&[right], false)))?;
    assert_eq!(
        (all[0].0.as_str(), all[0].1.to_vec::<u8>()?),
        ("X", vec![7, 8, 9])
    );
    let wrong = array_of(name(), 9, &[1, 3], &small_element(2, 9, &[7, 8, 9]));
    refused(
        read_mat(&root.write("x.mat", mat(&[wrong], false))),
        &["x.mat", "a small element of 9 bytes"],
    );
    Ok(())
}

#[test]
fn matlab_files_and_svhn() -> Result<()> {
    let root = Folder::new();
    // Column by column: a 2 x 3 matrix with 1 2 3 in its first row.
    let doubles: Vec<u8> = [1.0f64, 4.0, 2.0, 5.0, 3.0, 6.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let elements = [
        array("m", 6, &[2, 3], 9, &doubles),
        // Doubles that are stored as bytes, and uint16.
        array("small", 6, &[1, 3], 2, &[7, 8, 200]),
        array("u", 11, &[2, 1], 4, &[255, 255, 1, 0]),
        // Text is passed over.
        array("text", 4, &[1, 2], 4, &[65, 0, 66, 0]),
    ];
    for compressed in [false, true] {
        let path = root.write("a.mat", mat(&elements, compressed));
        let all = read_mat(&path)?;
        let named: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(named, ["m", "small", "u"]);
        assert_eq!(
            (all[0].1.dims(), all[0].1.dtype()),
            (&[2, 3][..], DType::F64)
        );
        assert_eq!(
            all[0].1.contiguous()?.to_vec::<f64>()?,
            [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        );
        assert_eq!(all[1].1.to_vec::<f64>()?, [7.0, 8.0, 200.0]);
        assert_eq!(all[2].1.to_dtype(DType::I64)?.to_vec::<i64>()?, [65535, 1]);
    }

    let n = 4;
    let pixels = noise(n * 3072, 2);
    let x = array("X", 9, &[32, 32, 3, n as i32], 2, &pixels);
    let whole = mat(
        &[x.clone(), array("y", 6, &[n as i32, 1], 2, &[10, 1, 2, 10])],
        true,
    );
    root.write("train_32x32.mat", &whole);
    let digits = SVHN::builder(&root.0).build()?;
    assert_eq!(
        (digits.labels(), digits.data().dims()),
        (&[0, 1, 2, 0][..], &[4, 3, 32, 32][..])
    );
    let (image, _) = digits.get(3)?;
    // Row 5, column 9 of the green channel.
    let at = 3 * 3072 + 1024 + 9 * 32 + 5;
    assert_eq!(image.i((1, 5, 9))?.item::<i64>()?, i64::from(pixels[at]));

    // Damage.
    let open = |bytes: &[u8]| {
        root.write("train_32x32.mat", bytes);
        SVHN::builder(&root.0).build()
    };
    let name = "train_32x32.mat";
    refused(open(&whole[..100]), &[name, "cut short"]);
    refused(open(&whole[..300]), &[name, "byte 128", "claims"]);
    refused(open(&noise(5000, 3)), &[name, "no file of MATLAB"]);
    let wrong = mat(
        &[x.clone(), array("y", 6, &[n as i32, 1], 2, &[10, 1, 2, 11])],
        true,
    );
    refused(open(&wrong), &[name, "image 3", "digit 11"]);
    refused(open(&mat(&[x], true)), &[name, "\"y\""]);
    let huge = array("X", 9, &[i32::MAX, i32::MAX, 3, 4], 2, &[0; 64]);
    refused(open(&mat(&[huge], true)), &[name, "claims"]);
    let mut lies = array("X", 9, &[2, 2], 2, &[0; 4]);
    lies[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    refused(
        open(&mat(&[lies.clone()], false)),
        &[name, "claims 4294967295 bytes"],
    );
    refused(open(&mat(&[lies], true)), &[name, "claims"]);
    // No numbers, but dimensions whose product is too large.
    let empty = array("X", 9, &[0, i32::MAX, i32::MAX, i32::MAX], 2, &[]);
    refused(open(&mat(&[empty], false)), &[name, "byte 128", "\"X\""]);
    let mut torn = whole.clone();
    torn[200] ^= 0x55;
    assert!(open(&torn).is_err());
    Ok(())
}

#[test]
fn stl10() -> Result<()> {
    let root = Folder::new();
    let size = 3 * 96 * 96;
    root.write("stl10_binary/train_X.bin", noise(3 * size, 1));
    root.write("stl10_binary/train_y.bin", [1, 10, 4]);
    root.write("stl10_binary/unlabeled_X.bin", noise(2 * size, 2));
    root.write("stl10_binary/fold_indices.txt", "2 0 \n1 \n");
    root.write("stl10_binary/class_names.txt", "airplane\nbird\n");
    let train = STL10::builder(&root.0).build()?;
    assert_eq!(
        (train.labels(), train.classes()[1].as_str()),
        (&[0, 9, 3][..], "bird")
    );
    let (image, _) = train.get(1)?;
    let at = size + 96 * 96 * 2 + 7 * 96 + 5;
    assert_eq!(
        image.i((2, 5, 7))?.item::<i64>()?,
        i64::from(noise(3 * size, 1)[at])
    );
    let fold = STL10::builder(&root.0).folds(0).build()?;
    assert_eq!(
        (fold.labels(), fold.get(0)?.0),
        (&[3, 0][..], train.get(2)?.0)
    );
    let all = STL10::builder(&root.0)
        .split(STL10Split::TrainUnlabeled)
        .build()?;
    assert_eq!(all.labels(), [0, 9, 3, -1, -1]);
    assert_eq!(
        "train+unlabeled".parse::<STL10Split>()?,
        STL10Split::TrainUnlabeled
    );

    refused(STL10::builder(&root.0).folds(10).build(), &["folds", "10"]);
    refused(
        STL10::builder(&root.0).folds(5).build(),
        &["fold_indices.txt", "line 6"],
    );
    root.write("stl10_binary/fold_indices.txt", "2 3");
    refused(
        STL10::builder(&root.0).folds(0).build(),
        &["fold_indices.txt", "line 1", "\"3\""],
    );
    root.write("stl10_binary/train_y.bin", [1, 0, 4]);
    refused(
        STL10::builder(&root.0).build(),
        &["train_y.bin", "image 1", "class 0"],
    );
    root.write("stl10_binary/train_X.bin", noise(size + 1, 1));
    refused(
        STL10::builder(&root.0).build(),
        &["train_X.bin", "whole records"],
    );
    Ok(())
}
