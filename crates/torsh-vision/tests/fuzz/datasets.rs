//! Files of data sets, each in the folder of its data set.

use std::path::Path;

use torsh_data::Dataset;
use torsh_fuzz::{JSON, Target};
use torsh_tensor::{DType, Result, Tensor};
use torsh_vision::datasets::*;

use crate::common::{Folder, array, gz, idx, mat, names, noise, palette, pickled};
use crate::images::mend_png;

/// An error must name a file of the data set.
fn named(root: &Folder, result: Result<()>) -> std::result::Result<(), String> {
    result.map_err(|e| {
        let text = e.to_string();
        let named = text.contains(&*root.0.to_string_lossy());
        assert!(named || text.contains("out of memory"), "{text}");
        text
    })
}

/// Writes a file of a data set, packed, and opens it.
fn packed(
    name: &'static str,
    (root, file): (Folder, &'static str),
    good: Vec<Vec<u8>>,
    pack: fn(&[u8]) -> Vec<u8>,
    open: impl Fn(&Path) -> Result<()> + 'static,
) -> Target {
    Target::new(name, good, move |bytes, _| {
        root.write(file, pack(bytes));
        named(&root, open(&root.0))
    })
}

/// The same of a file as it is.
fn target(
    name: &'static str,
    place: (Folder, &'static str),
    good: Vec<Vec<u8>>,
    open: impl Fn(&Path) -> Result<()> + 'static,
) -> Target {
    packed(name, place, good, <[u8]>::to_vec, open)
}

/// Gets all items.
fn items<D: Dataset>(data: &D, check: impl Fn(D::Item)) -> Result<()> {
    (0..data.len()).try_for_each(|i| data.get(i).map(&check))
}

/// Gets images of these dimensions with classes from `from` to `below - 1`.
fn classified<D: Dataset<Item = (Tensor, i64)>>(
    data: &D,
    dims: [usize; 3],
    [from, below]: [i64; 2],
) -> Result<()> {
    items(data, |(image, class)| {
        assert_eq!(image.dims(), dims);
        assert!((from..below).contains(&class), "{class}");
    })
}

fn mnist() -> Vec<Target> {
    fn open(root: &Path) -> Result<()> {
        let data = MNIST::builder(root).build()?;
        assert_eq!(data.data().dims()[0], data.targets().numel());
        items(&data, |(image, class)| {
            assert_eq!((image.ndim(), image.dims()[0]), (3, 1));
            assert!((0..256).contains(&class), "{class}");
        })
    }
    const IMAGES: &str = "MNIST/raw/train-images-idx3-ubyte";
    const PACKED: &str = "MNIST/raw/train-images-idx3-ubyte.gz";
    const LABELS: &str = "MNIST/raw/train-labels-idx1-ubyte";
    let images = idx(&[2, 28, 28], &noise(2 * 784, 0));
    let labels = idx(&[2], &[1, 2]);
    let beside = |name: &str, bytes: &[u8]| {
        let root = Folder::new();
        root.write(name, bytes);
        root
    };
    let with_labels = || beside(LABELS, &labels);
    let good = || vec![images.clone()];
    vec![
        target("idx", (with_labels(), IMAGES), good(), open).header(),
        packed("idx-in-gz", (with_labels(), PACKED), good(), gz, open).header(),
        target("idx.gz", (with_labels(), PACKED), vec![gz(&images)], open).header(),
        target(
            "idx-labels",
            (beside(IMAGES, &images), LABELS),
            vec![labels.clone()],
            open,
        ),
    ]
}

fn cifar() -> Vec<Target> {
    fn ten(root: &Path) -> Result<()> {
        let data = CIFAR10::builder(root).train(false).build()?;
        assert_eq!(data.classes().len(), 10);
        classified(&data, [3, 32, 32], [0, 10])
    }
    fn hundred(root: &Path) -> Result<()> {
        let data = CIFAR100::builder(root).train(false).build()?;
        assert_eq!(data.classes().len(), 100);
        classified(&data, [3, 32, 32], [0, 100])
    }
    let classes = |n: usize| {
        let names: Vec<String> = (0..n).map(|i| format!("class {i}")).collect();
        names.join("\n").into_bytes()
    };
    // Labels, then pixels.
    let records = |labels: [&[u8]; 2]| {
        let record = |i: usize| [labels[i], &noise(3072, i)].concat();
        [record(0), record(1)].concat()
    };
    let binary = |place: &str, n: usize| {
        let root = Folder::new();
        root.write(place, classes(n));
        root
    };
    let pickles = || {
        let root = Folder::new();
        let batch = pickled(&noise(3072, 8), "labels", &[3]);
        root.write("cifar-10-batches-py/test_batch", batch);
        root.write("cifar-10-batches-py/batches.meta", names("label_names", 10));
        root
    };
    vec![
        target(
            "cifar10.bin",
            (
                binary("cifar-10-batches-bin/batches.meta.txt", 10),
                "cifar-10-batches-bin/test_batch.bin",
            ),
            vec![records([&[3], &[9]])],
            ten,
        )
        .header(),
        target(
            "cifar100.bin",
            (
                binary("cifar-100-binary/fine_label_names.txt", 100),
                "cifar-100-binary/test.bin",
            ),
            vec![records([&[7, 40], &[0, 99]])],
            hundred,
        )
        .header(),
        target(
            "cifar10-batch",
            (pickles(), "cifar-10-batches-py/test_batch"),
            vec![pickled(&noise(3072, 8), "labels", &[3])],
            ten,
        )
        .header(),
        target(
            "cifar10-meta",
            (pickles(), "cifar-10-batches-py/batches.meta"),
            vec![names("label_names", 10)],
            ten,
        ),
    ]
}

fn stl10() -> Vec<Target> {
    fn open(root: &Path) -> Result<()> {
        let data = STL10::builder(root).build()?;
        classified(&data, [3, 96, 96], [0, 10])?;
        let fold = STL10::builder(root).folds(1).build()?;
        classified(&fold, [3, 96, 96], [0, 10])
    }
    let images = noise(2 * 3 * 96 * 96, 1);
    let files: [(&str, &[u8]); 3] = [
        ("stl10_binary/train_X.bin", &images),
        ("stl10_binary/train_y.bin", &[1, 10]),
        ("stl10_binary/fold_indices.txt", b"0 1 \n1 0 1 \n"),
    ];
    let root = || {
        let root = Folder::new();
        for (name, bytes) in files {
            root.write(name, bytes);
        }
        root
    };
    let of = |name: &'static str, at: usize| {
        let (file, bytes) = files[at];
        target(name, (root(), file), vec![bytes.to_vec()], open)
    };
    vec![
        of("stl10-images", 0),
        of("stl10-labels", 1),
        of("stl10-folds", 2),
    ]
}

fn matlab() -> Vec<Target> {
    const FILE: &str = "changed.mat";
    fn read(root: &Path) -> Result<()> {
        for (_, array) in read_mat(root.join(FILE))? {
            if array.numel() < 1 << 20 {
                array.contiguous().unwrap().to_bytes().unwrap();
            }
        }
        Ok(())
    }
    fn digits(root: &Path) -> Result<()> {
        classified(&SVHN::builder(root).build()?, [3, 32, 32], [0, 10])
    }
    let doubles: Vec<u8> = [1.0f64, 4.0, 2.0, 5.0, 3.0, 6.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let arrays = || {
        [
            array("m", 6, &[2, 3], 9, &doubles),
            array("small", 6, &[1, 3], 2, &[7, 8, 200]),
            array("u", 11, &[2, 1], 4, &[255, 255, 1, 0]),
            array("long", 14, &[1, 2, 1], 12, &doubles[..16]),
            // Text is passed over.
            array("text", 4, &[1, 2], 4, &[65, 0, 66, 0]),
        ]
    };
    let svhn = |compressed: bool| {
        let x = array("X", 9, &[32, 32, 3, 2], 2, &noise(2 * 3072, 2));
        let y = array("y", 6, &[2, 1], 2, &[10, 1]);
        mat(&[x, y], compressed)
    };
    let place = || (Folder::new(), FILE);
    vec![
        target(
            "mat",
            place(),
            vec![mat(&arrays(), false), mat(&arrays(), true)],
            read,
        ),
        // One element.
        packed(
            "mat-in-zlib",
            place(),
            arrays().to_vec(),
            |element| mat(&[element.to_vec()], true),
            read,
        )
        .header(),
        target(
            "svhn",
            (Folder::new(), "train_32x32.mat"),
            vec![svhn(false), svhn(true)],
            digits,
        ),
    ]
}

fn coco() -> Target {
    fn open(root: &Path) -> Result<()> {
        let (images, file) = (root.join("images"), root.join("instances.json"));
        let data = CocoDetection::builder(&images, &file).build()?;
        assert!(data.ids().is_sorted(), "{:?}", data.ids());
        items(&data, |(image, found)| {
            assert_eq!(image.dims()[0], 3);
            let used = CocoAnnotation::target(&found).unwrap();
            assert_eq!(used.boxes.dims(), [used.labels.numel(), 4]);
        })?;
        let sentences = CocoCaptions::builder(&images, &file).build()?;
        items(&sentences, |(image, _)| assert_eq!(image.dims()[0], 3))
    }
    let root = Folder::new();
    root.picture("images/a.jpg", 2);
    root.picture("images/b.jpg", 1);
    let json = r#"{
      "info": {}, "licenses": [],
      "images": [{"id": 9, "file_name": "b.jpg", "width": 6, "height": 4}, {"id": 3, "file_name": "a.jpg"}],
      "annotations": [
        {"id": 1, "image_id": 9, "category_id": 18, "bbox": [1, 1, 2, 2.5], "area": 5, "iscrowd": 0,
         "segmentation": [[1, 1, 3, 1, 3, 3.5]]},
        {"id": 2, "image_id": 9, "category_id": 1, "bbox": [0, 0, 3, 3], "area": 9, "iscrowd": 1,
         "segmentation": {"counts": [3, 9], "size": [4, 6]}},
        {"id": 3, "image_id": 3, "segmentation": {"counts": "06", "size": [4, 6]}, "keypoints": [1, 2, 2]},
        {"id": 4, "image_id": 9, "caption": "A dog."}
      ],
      "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}]
    }"#;
    let good = vec![json.as_bytes().to_vec()];
    target("coco", (root, "instances.json"), good, open).words(JSON)
}

fn voc() -> Vec<Target> {
    const LIST: &str = "VOCdevkit/VOC2012/ImageSets/Main/train.txt";
    const XML: &str = "VOCdevkit/VOC2012/Annotations/a.xml";
    const MASK: &str = "VOCdevkit/VOC2012/SegmentationClass/a.png";
    const NAMES: &[&str] = &["..", "../", "/", "a", "b", "\u{e9}"];
    const TAGS: &[&str] = &[
        "<object>",
        "</object>",
        "<bndbox>",
        "<part>",
        "</part>",
        "<annotation>",
        "</annotation>",
        "<name/>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<!DOCTYPE a [<!ENTITY b \"b\">]>",
        "&b;",
        "&amp;",
        "&#0;",
        "&#x10ffff;",
        "nan",
        "inf",
        "1e999",
        "-1",
        "99999999999999999999",
        " xmlns=\"x\"",
        "<?xml version=\"1.0\"?>",
    ];
    fn found(root: &Path) -> Result<()> {
        let data = VOCDetection::builder(root).build()?;
        items(&data, |(image, annotation)| {
            assert_eq!(image.dims()[0], 3);
            let xml = std::fs::read_to_string(root.join(XML)).unwrap();
            assert_eq!(VOCAnnotation::from_xml(&xml).unwrap(), annotation);
            assert!(parse_voc_xml(&xml).unwrap().is_object());
            let boxes = annotation.boxes().unwrap();
            assert_eq!(boxes.dims(), [annotation.objects.len(), 4]);
            if let Ok(target) = annotation.target() {
                assert_eq!(target.labels.numel(), annotation.objects.len());
            }
        })
    }
    fn masks(root: &Path) -> Result<()> {
        let data = VOCSegmentation::builder(root).build()?;
        items(&data, |(_, mask)| {
            assert_eq!(
                (mask.ndim(), mask.dims()[0], mask.dtype()),
                (3, 1, DType::U8)
            );
        })
    }
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../data/datasets.json")).unwrap();
    let xml = golden["xml"].as_str().unwrap().as_bytes();
    let root = || {
        let root = Folder::new();
        root.picture("VOCdevkit/VOC2012/JPEGImages/a.jpg", 9);
        root.write("VOCdevkit/VOC2012/ImageSets/Segmentation/train.txt", "a\n");
        root.write(LIST, "a\na\n");
        root.write(XML, xml);
        root
    };
    let scratch = Folder::new();
    let mask = scratch.write("mask.png", "");
    palette(&mask, &[[0, 1, 15], [15, 2, 0], [3, 3, 3], [1, 1, 0]]);
    let mask = std::fs::read(mask).unwrap();
    let mend = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        mend_png(&mut bytes);
        bytes
    };
    vec![
        target("voc-list", (root(), LIST), vec![b"a\na\n".to_vec()], found).words(NAMES),
        target("voc-xml", (root(), XML), vec![xml.to_vec()], found).words(TAGS),
        packed("voc-mask", (root(), MASK), vec![mask], mend, masks).header(),
    ]
}

pub fn targets() -> Vec<Target> {
    let mut all = mnist();
    all.extend(cifar());
    all.extend(stl10());
    all.extend(matlab());
    all.push(coco());
    all.extend(voc());
    all
}
