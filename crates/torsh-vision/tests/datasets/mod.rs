//! Data sets on disk, in folders that the tests write, and pretrained weights by name; what comes of hostile files.

mod archives;
mod formats;
mod weights;

use std::fs;
use std::path::PathBuf;

use crate::common::{Folder, array, gz, idx, mat, noise, palette};
use serde_json::Value;
use torsh_data::{DataLoader, Dataset};
use torsh_tensor::{DType, Device, Result, Tensor};
use torsh_vision::datasets::*;
use torsh_vision::io::write_png;
use torsh_vision::transforms::{Lambda, RandomHorizontalFlip, Transform};

/// What every data set here says of a damaged file: its name and these words.
fn refused<T>(result: Result<T>, words: &[&str]) {
    let text = match result {
        Ok(_) => panic!("there is no error with {words:?}"),
        Err(e) => e.to_string(),
    };
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
}

fn bytes(t: &Tensor) -> Vec<u8> {
    t.contiguous().unwrap().to_vec::<u8>().unwrap()
}

fn golden() -> Value {
    serde_json::from_str(include_str!("../data/datasets.json")).unwrap()
}

#[test]
fn mnist_and_its_relatives() -> Result<()> {
    let root = Folder::new();
    let pixels = noise(3 * 28 * 28, 1);
    root.write(
        "MNIST/raw/train-images-idx3-ubyte",
        idx(&[3, 28, 28], &pixels),
    );
    root.write(
        "MNIST/raw/train-labels-idx1-ubyte.gz",
        gz(&idx(&[3], &[5, 0, 9])),
    );
    let data = MNIST::builder(&root.0).build()?;
    assert_eq!(
        (data.len(), data.targets().to_vec::<u8>()?),
        (3, vec![5, 0, 9])
    );
    let (image, label) = data.get(2)?;
    assert_eq!(
        (image.dims(), image.dtype(), label),
        (&[1, 28, 28][..], DType::U8, 9)
    );
    assert_eq!(bytes(&image), pixels[2 * 784..]);
    assert!(data.get(3).is_err());

    let changed = MNIST::builder(&root.0)
        .transform(Lambda::new(|x: &Tensor| x.to_dtype(DType::F32)?.div(255.0)))
        .target_transform(|label| Ok(label + 10))
        .build()?;
    let (image, label) = changed.get(0)?;
    assert_eq!((image.dtype(), label), (DType::F32, 15));
    let loader = DataLoader::builder(changed).batch_size(2).build()?;
    let sizes: Vec<usize> = loader.iter().map(|(x, _)| x.dims()[0]).collect();
    assert_eq!(sizes, [2, 1]);

    // Files right in the folder, as they are in this repository.
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion-mnist");
    let clothes = FashionMNIST::builder(here).train(false).build()?;
    assert_eq!((clothes.len(), clothes.get(0)?.1), (10_000, 9));
    assert_eq!(FashionMNIST::CLASSES[9], "Ankle boot");

    refused(
        KMNIST::builder(&root.0).build(),
        &["KMNIST", "train-images-idx3-ubyte", "download"],
    );
    // With the feature it would be downloaded.
    if !cfg!(feature = "hub") {
        let missing = MNIST::builder(&root.0).train(false).download(true).build();
        let words = ["t10k-images-idx3-ubyte.gz", "`hub`", "ossci-datasets"];
        refused(missing, &words);
    }

    for split in [EMNISTSplit::Letters, EMNISTSplit::Balanced] {
        let images = format!("EMNIST/raw/emnist-{split}-test-images-idx3-ubyte");
        root.write(&images, idx(&[2, 28, 28], &pixels[..2 * 784]));
        let labels = format!("EMNIST/raw/emnist-{split}-test-labels-idx1-ubyte");
        root.write(&labels, idx(&[2], &[1, 26]));
    }
    let open = || {
        EMNIST::builder(&root.0)
            .split(EMNISTSplit::Letters)
            .train(false)
    };
    let letters = open().build()?;
    assert_eq!(letters.classes()[letters.get(1)?.1 as usize], "z");
    let turned = open().upright(true).build()?;
    assert_eq!(turned.get(1)?.0, letters.get(1)?.0.transpose(1, 2)?);
    for (name, classes) in golden()["emnist"].as_object().unwrap() {
        let split: EMNISTSplit = name.parse()?;
        let classes: Vec<&str> = classes
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_str)
            .collect();
        assert_eq!(split.classes(), classes, "{name}");
    }
    Ok(())
}

#[test]
fn damaged_files_of_mnist() -> Result<()> {
    let root = Folder::new();
    let write = |images: Vec<u8>, labels: Vec<u8>| {
        root.write("MNIST/raw/train-images-idx3-ubyte", images);
        root.write("MNIST/raw/train-labels-idx1-ubyte", labels);
        MNIST::builder(&root.0).build()
    };
    let labels = || idx(&[2], &[1, 2]);
    let whole = idx(&[2, 28, 28], &noise(2 * 784, 0));
    assert_eq!(write(whole.clone(), labels())?.len(), 2);
    let name = "train-images-idx3-ubyte";
    refused(
        write(whole[..900].to_vec(), labels()),
        &[name, "more than the file can hold"],
    );
    refused(write(whole[..3].to_vec(), labels()), &[name, "cut short"]);
    // 2^96 bytes, and 2^32 - 1 images.
    refused(
        write(idx(&[u32::MAX; 3], &[0; 64]), labels()),
        &[name, "more than"],
    );
    refused(
        write(idx(&[u32::MAX, 28, 28], &[0; 64]), labels()),
        &[name, "more than"],
    );
    refused(
        write(b"hello, this is text".to_vec(), labels()),
        &[name, "not an IDX file"],
    );
    refused(
        write(whole, idx(&[3], &[1, 2, 3])),
        &[name, "expected images"],
    );
    Ok(())
}

#[test]
fn folders_of_classes() -> Result<()> {
    let root = Folder::new();
    root.picture("data/cat/2.png", 20);
    root.picture("data/cat/more/1.PNG", 10);
    root.picture("data/dog/x.jpeg", 30);
    root.write("data/dog/notes.txt", "not a picture");
    let open = || DatasetFolder::images(root.0.join("data"));
    let data = open()
        .transform(Lambda::new(|x: &Tensor| x.add(1)))
        .target_transform(|class| Ok(class * 2))
        .build()?;
    assert_eq!(
        (data.len(), data.classes()),
        (3, &["cat".to_string(), "dog".to_string()][..])
    );
    let (image, class) = data.get(2)?;
    assert_eq!((image.i((0, 0, 0))?.item::<i64>()?, class), (31, 2));
    let plain = ImageFolder::new(root.0.join("data"))?;
    assert_eq!(plain.samples(), data.samples());
    let texts = DatasetFolder::builder(root.0.join("data"), |path| Ok(fs::read_to_string(path)?));
    refused(texts.clone().build(), &["extensions"]);
    refused(
        texts.clone().extensions([".txt"]).build(),
        &["DatasetFolder", "cat"],
    );
    let texts = texts
        .is_valid_file(|path| path.ends_with("notes.txt"))
        .allow_empty(true)
        .build()?;
    assert_eq!(
        (texts.classes().len(), texts.get(0)?),
        (2, ("not a picture".to_string(), 1))
    );
    refused(open().build()?.get(3), &["index 3"]);
    refused(
        DatasetFolder::images(root.0.join("data/dog")).build(),
        &["class folder"],
    );
    root.write("data/dog/y.png", b"\x89PNG but damaged");
    refused(open().build()?.get(3), &["y.png"]);
    Ok(())
}

#[test]
fn lists_of_files() -> Result<()> {
    let root = Folder::new();
    // Flowers.
    root.picture("flowers-102/jpg/image_00001.jpg", 11);
    root.picture("flowers-102/jpg/image_00003.jpg", 13);
    root.write(
        "flowers-102/imagelabels.mat",
        mat(&[array("labels", 9, &[1, 3], 2, &[77, 2, 102])], true),
    );
    root.write(
        "flowers-102/setid.mat",
        mat(
            &[
                array("trnid", 11, &[1, 2], 4, &[3, 0, 1, 0]),
                array("valid", 11, &[1, 1], 4, &[9, 0]),
            ],
            true,
        ),
    );
    let flowers = Flowers102::builder(&root.0).build()?;
    let (image, class) = flowers.get(0)?;
    assert_eq!(
        (image.i((0, 0, 0))?.item::<i64>()?, class, flowers.get(1)?.1),
        (13, 101, 76)
    );
    assert_eq!(
        (Flowers102::classes().len(), Flowers102::classes()[76]),
        (102, "passion flower")
    );
    let outside = Flowers102::builder(&root.0)
        .split(Flowers102Split::Val)
        .build();
    refused(outside, &["setid.mat", "9 is none of 3 images"]);

    // Dishes: classes by name, items in the order of the file.
    root.write(
        "food-101/meta/train.json",
        r#"{"soup": ["soup/7"], "cake": ["cake/1", "cake/2"]}"#,
    );
    for (name, value) in [("soup/7", 1), ("cake/1", 2), ("cake/2", 3)] {
        root.picture(&format!("food-101/images/{name}.jpg"), value);
    }
    let food = Food101::builder(&root.0).build()?;
    let labels: Vec<i64> = food.samples().iter().map(|(_, label)| *label).collect();
    assert_eq!(
        (labels, food.classes()[0].as_str()),
        (vec![1, 0, 0], "cake")
    );
    assert_eq!(food.get(2)?.0.i((0, 0, 0))?.item::<i64>()?, 3);
    root.write("food-101/meta/train.json", r#"{"soup": ["../../secret"]}"#);
    refused(Food101::builder(&root.0).build(), &["../../secret"]);
    root.write("food-101/meta/train.json", "{\"soup\": [\n\"a\",}");
    refused(Food101::builder(&root.0).build(), &["train.json", "line 2"]);

    // Pets.
    for name in ["Abyssinian_1", "saint_bernard_20"] {
        root.picture(&format!("oxford-iiit-pet/images/{name}.jpg"), 5);
        let trimap = root.write(
            &format!("oxford-iiit-pet/annotations/trimaps/{name}.png"),
            "",
        );
        let values = Tensor::from_slice(&[1, 2, 3, 2, 1, 1], [1, 2, 3], DType::U8, Device::Cpu)?;
        write_png(&values, trimap)?;
    }
    let list = "oxford-iiit-pet/annotations/trainval.txt";
    root.write(list, "saint_bernard_20 30 2 20\nAbyssinian_1 1 1 1\n");
    let pets = OxfordIIITPet::builder(&root.0).build()?;
    assert_eq!(
        (pets.get(0)?.1, pets.classes()),
        (
            29,
            &["Abyssinian".to_string(), "Saint Bernard".to_string()][..]
        )
    );
    let species = OxfordIIITPet::builder(&root.0)
        .target_types(OxfordIIITPetTarget::BinaryCategory)
        .build()?;
    assert_eq!(
        OxfordIIITPet::BIN_CLASSES[species.get(0)?.1 as usize],
        "Dog"
    );
    let (image, trimap) = pets.segmentation().get(1)?;
    assert_eq!(
        (image.dims(), bytes(&trimap)),
        (&[3, 4, 6][..], vec![1, 2, 3, 2, 1, 1])
    );
    root.write(list, "saint_bernard_20 30 2 20\nAbyssinian_1 38 1 1\n");
    refused(
        OxfordIIITPet::builder(&root.0).build(),
        &["trainval.txt", "line 2", "38"],
    );
    root.write(list, "saint_bernard_20 30\n");
    refused(
        OxfordIIITPet::builder(&root.0).build(),
        &["trainval.txt", "line 1"],
    );

    // Objects.
    root.picture(
        "caltech101/101_ObjectCategories/BACKGROUND_Google/image_0001.jpg",
        1,
    );
    root.picture("caltech101/101_ObjectCategories/Faces/image_0001.jpg", 2);
    root.picture(
        "caltech101/101_ObjectCategories/airplanes/image_0001.jpg",
        3,
    );
    let contour: Vec<u8> = [1.0f64, 2.0, 3.0, 4.0]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    root.write(
        "caltech101/Annotations/Airplanes_Side_2/annotation_0001.mat",
        mat(
            &[
                array("box_coord", 11, &[1, 1], 4, &[1, 0]),
                array("obj_contour", 6, &[2, 2], 9, &contour),
            ],
            false,
        ),
    );
    let objects = Caltech101::builder(&root.0).build()?;
    assert_eq!(objects.categories(), ["Faces", "airplanes"]);
    assert_eq!(objects.get(1)?.1, 1);
    assert_eq!(
        objects.annotation(1)?.contiguous()?.to_vec::<f64>()?,
        [1.0, 3.0, 2.0, 4.0]
    );
    refused(objects.annotation(0), &["Faces_2", "annotation_0001.mat"]);

    // Ten classes of ImageNet.
    root.picture("imagenette2-160/val/n03888257/a.JPEG", 4);
    root.picture("imagenette2-160/val/n01440764/b.JPEG", 4);
    let open = || {
        Imagenette::builder(&root.0)
            .split(ImagenetteSplit::Val)
            .size(ImagenetteSize::Px160)
            .build()
    };
    let ten = open()?;
    assert_eq!(
        (ten.classes()[1], ten.get(1)?.1),
        (&["parachute", "chute"][..], 1)
    );
    fs::create_dir(root.0.join("imagenette2-160/val/n00000000")).unwrap();
    refused(open(), &["n00000000"]);
    Ok(())
}

#[test]
fn voc() -> Result<()> {
    let root = Folder::new();
    let base = "VOCdevkit/VOC2012";
    root.write(&format!("{base}/ImageSets/Main/train.txt"), "a\n");
    root.write(
        &format!("{base}/ImageSets/Segmentation/train.txt"),
        "a \n\n",
    );
    root.picture(&format!("{base}/JPEGImages/a.jpg"), 9);
    let golden = golden();
    let xml = golden["xml"].as_str().unwrap();
    root.write(&format!("{base}/Annotations/a.xml"), xml);
    assert_eq!(parse_voc_xml(xml)?, golden["tree"]);
    let (_, found) = VOCDetection::builder(&root.0).build()?.get(0)?;
    let dog = &found.objects[0];
    assert_eq!(
        (found.size, found.segmented, found.objects.len()),
        ([8, 6, 3], true, 1)
    );
    assert_eq!(
        (dog.name.as_str(), dog.truncated, dog.difficult),
        ("dog", true, false)
    );
    assert_eq!(
        (dog.bndbox, dog.parts[1].0.as_str()),
        ([2.0, 1.0, 7.0, 5.5], "foot")
    );
    let target = found.target()?;
    assert_eq!(
        (target.labels.to_vec::<i64>()?, target.boxes.dims()),
        (vec![12], &[1, 4][..])
    );

    let mask = root.write(&format!("{base}/SegmentationClass/a.png"), "");
    palette(&mask, &[[0, 1, 15], [15, 2, 0], [3, 3, 3], [1, 1, 0]]);
    let flip = RandomHorizontalFlip::new(1.0)?;
    let data = VOCSegmentation::builder(&root.0)
        .transforms(move |image, mask| Ok((flip.apply(&image)?, flip.apply(&mask)?)))
        .build()?;
    let (image, mask) = data.get(0)?;
    assert_eq!(
        (image.dims(), mask.dims()),
        (&[3, 4, 6][..], &[1, 4, 3][..])
    );
    assert_eq!(bytes(&mask)[..6], [15, 1, 0, 0, 2, 15]);

    // Damage.
    let open = |xml: &str| {
        root.write(&format!("{base}/Annotations/a.xml"), xml);
        VOCDetection::builder(&root.0).build()?.get(0)
    };
    refused(open("<annotation><object>"), &["a.xml"]);
    refused(
        open("<annotation><object></object></annotation>"),
        &["a.xml", "object 0", "bndbox"],
    );
    refused(
        open(&xml.replace("5.5", "five")),
        &["a.xml", "ymax", "five"],
    );
    refused(open("<other/>"), &["a.xml", "<other>"]);
    let bomb =
        "<!DOCTYPE a [<!ENTITY b \"&c;&c;\"><!ENTITY c \"&b;&b;\">]><annotation>&b;</annotation>";
    refused(open(bomb), &["a.xml"]);
    refused(
        open(&format!("{}{}", "<a>".repeat(3000), "</a>".repeat(3000))),
        &["a.xml", "deep"],
    );
    root.write(
        &format!("{base}/ImageSets/Main/val.txt"),
        "../../../../etc/passwd\n",
    );
    let out = VOCDetection::builder(&root.0)
        .image_set(VOCImageSet::Val)
        .build();
    refused(out, &["VOCDetection", "etc/passwd"]);
    let test = VOCDetection::builder(&root.0)
        .image_set(VOCImageSet::Test)
        .build();
    refused(test, &["2012", "2007"]);
    refused(
        VOCDetection::builder(&root.0).year(VOCYear::Y2008).build(),
        &["VOC2008", "train.txt"],
    );
    Ok(())
}

/// What other writers make of the format, as pycocotools and torchvision read it.
#[test]
fn coco_of_other_writers() -> Result<()> {
    let root = Folder::new();
    root.picture("images/a.png", 1);
    let json = r#"{
      "images": [{"id": 1.0, "file_name": "a.png", "height": 8, "width": 8}],
      "categories": null,
      "annotations": [
        {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 2, 2], "area": 4, "iscrowd": false},
        {"id": 2.0, "image_id": 1.0, "category_id": 2.0, "bbox": [], "area": null, "iscrowd": true,
         "segmentation": {"counts": [3.0, 61], "size": [8.0, 8]}},
        {"id": 3, "image_id": 1, "category_id": 3, "bbox": null, "iscrowd": null, "segmentation": null,
         "keypoints": null, "num_keypoints": null, "caption": null, "attributes": {"occluded": false}},
        {"id": 4, "image_id": 1, "category_id": 4, "bbox": [1, 1, 3, 3], "segmentation": [1, 1, 3, 1, 3, 3.5]},
        {"id": 5, "image_id": 77, "category_id": 1, "bbox": [0, 0, 2, 2]}
      ]
    }"#;
    let file = root.write("instances.json", json);
    let data = CocoDetection::builder(root.0.join("images"), &file).build()?;
    assert_eq!((data.ids(), data.categories().len()), (&[1][..], 0));
    let (_, found) = data.get(0)?;
    let crowds: Vec<u8> = found.iter().map(|a| a.iscrowd).collect();
    assert_eq!(crowds, [0, 1, 0, 0]);
    assert_eq!(
        (found[1].id, found[1].category_id, found[1].bbox),
        (2, 2, [0.0; 4])
    );
    assert_eq!(
        (found[1].area, found[2].bbox, found[2].caption.as_str()),
        (0.0, [0.0; 4], "")
    );
    assert!(
        matches!(&found[1].segmentation, Some(CocoSegmentation::Rle { counts, size }) if *counts == [3, 61] && *size == [8, 8])
    );
    assert!(
        matches!(&found[3].segmentation, Some(CocoSegmentation::Polygons(p)) if p[0][5] == 3.5)
    );
    // Crowds and boxes without a size are left out.
    let target = CocoAnnotation::target(&found)?;
    assert_eq!(target.labels.to_vec::<i64>()?, [1, 4]);
    Ok(())
}

#[test]
fn coco() -> Result<()> {
    let root = Folder::new();
    root.picture("images/b.jpg", 1);
    root.picture("images/a.jpg", 2);
    let json = r#"{
      "info": {}, "licenses": [],
      "images": [{"id": 9, "file_name": "b.jpg", "width": 6, "height": 4}, {"id": 3, "file_name": "a.jpg"}],
      "annotations": [
        {"id": 1, "image_id": 9, "category_id": 18, "bbox": [1, 1, 2, 2.5], "area": 5, "iscrowd": 0,
         "segmentation": [[1, 1, 3, 1, 3, 3.5]]},
        {"id": 2, "image_id": 9, "category_id": 1, "bbox": [0, 0, 3, 3], "area": 9, "iscrowd": 1,
         "segmentation": {"counts": [3, 9], "size": [4, 6]}},
        {"id": 4, "image_id": 9, "caption": "A dog."}
      ],
      "categories": [{"id": 18, "name": "dog", "supercategory": "animal"}]
    }"#;
    // As an editor of Windows writes it.
    let file = root.write("instances.json", format!("\u{feff}{json}"));
    let open = || CocoDetection::builder(root.0.join("images"), &file).build();
    let data = open()?;
    assert_eq!(
        (data.ids(), data.categories()[0].name.as_str()),
        (&[3, 9][..], "dog")
    );
    assert!(data.get(0)?.1.is_empty());
    let (image, found) = data.get(1)?;
    assert_eq!((image.i((0, 0, 0))?.item::<i64>()?, found.len()), (1, 3));
    assert!(
        matches!(&found[0].segmentation, Some(CocoSegmentation::Polygons(p)) if p[0][5] == 3.5)
    );
    assert!(
        matches!(&found[1].segmentation, Some(CocoSegmentation::Rle { counts, .. }) if *counts == [3, 9])
    );
    let target = CocoAnnotation::target(&found)?;
    assert_eq!(
        (
            target.boxes.to_vec::<f32>()?,
            target.labels.to_vec::<i64>()?
        ),
        (vec![1.0, 1.0, 3.0, 3.5], vec![18])
    );
    let sentences = CocoCaptions::builder(root.0.join("images"), &file).build()?;
    assert_eq!(sentences.get(1)?.1[2], "A dog.");

    // Damage.
    let with = |from: &str, to: &str| {
        root.write("instances.json", json.replace(from, to));
        open()
    };
    refused(
        with("\"a.jpg\"", "\"../a.jpg\""),
        &["instances.json", "image 3", "../a.jpg"],
    );
    refused(
        with("[1, 1, 2, 2.5]", "[1, 1]"),
        &[
            "instances.json",
            "annotations[0].bbox",
            "2 numbers",
            "line 5",
        ],
    );
    refused(
        with("\"area\": 9", "\"area\": \"9\""),
        &["annotations[1].area", "no number"],
    );
    refused(
        with("\"id\": 3", "\"id\": 3.5"),
        &["images[1].id", "3.5 is no whole number"],
    );
    refused(
        with("\"size\": [4, 6]", "\"sides\": 4"),
        &["annotations[1].segmentation", "counts"],
    );
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 9\n";
    root.write("instances.json", pointer);
    refused(open(), &["instances.json", "git-lfs", "9 bytes"]);
    refused(with("}", ""), &["instances.json", "line"]);
    refused(with("{}", &"[".repeat(100_000)), &["instances.json"]);
    refused(
        CocoDetection::builder("x", &file).download(true).build(),
        &["cocodataset.org"],
    );
    refused(
        CocoDetection::builder("x", root.0.join("none.json")).build(),
        &["none.json"],
    );
    Ok(())
}

#[test]
fn fake_data_are_torchvisions() -> Result<()> {
    let golden = golden();
    for case in golden["fake"].as_array().unwrap() {
        let number = |i: usize| case[i].as_u64().unwrap() as usize;
        let size: Vec<usize> = serde_json::from_value(case[0].clone()).unwrap();
        let pixels: Vec<u8> = serde_json::from_value(case[4].clone()).unwrap();
        let data = FakeData::new(20)
            .image_size([size[0], size[1], size[2]])
            .num_classes(number(1))
            .random_offset(number(2) as u64);
        let (image, class) = data.get(number(3))?;
        let own = bytes(&image);
        assert_eq!(
            (&own[..pixels.len()], class as usize),
            (&pixels[..], number(6))
        );
        let sum: usize = own.iter().map(|v| usize::from(*v)).sum();
        assert_eq!(sum, number(5));
    }
    Ok(())
}
