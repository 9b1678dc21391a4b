//! The documentation of models says what a reader needs: the paper, the number of parameters, the size of images, and an
//! example with a value.

use std::path::{Path, PathBuf};

use torsh_vision::models::list_models;

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => files(&path, out),
            false => out.push(path),
        }
    }
}

/// The lines of a file behind the comments of documentation that stand above them.
fn documented(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut doc = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("///") {
            doc.push_str(more);
            doc.push('\n');
        } else if !line.starts_with("#[") {
            out.push((std::mem::take(&mut doc), line.to_string()));
        }
    }
    out
}

#[test]
fn models_are_documented() {
    let mut paths = Vec::new();
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/models");
    files(&models, &mut paths);
    let mut lines = Vec::new();
    for path in &paths {
        lines.extend(documented(&std::fs::read_to_string(path).unwrap()));
    }
    let mut wrong = Vec::new();
    for name in list_models() {
        // `name => builder;`, and rows of tables of sizes: `name Block [..]`, `name as short, ..`, `name, ..`.
        let row = |line: &str| {
            line.strip_prefix(&*name)
                .is_some_and(|rest| rest.starts_with([' ', ',']))
        };
        let found = lines
            .iter()
            .find(|(doc, line)| !doc.is_empty() && row(line));
        let Some((doc, _)) = found else {
            wrong.push(format!("{name} has no documentation"));
            continue;
        };
        let doc = doc.split_whitespace().collect::<Vec<_>>().join(" ");
        let size = doc.contains(" x ") || doc.contains("any size");
        for (what, there) in [
            ("paper", doc.contains("<https://")),
            ("number of parameters", doc.contains("million parameters")),
            (
                "size of images",
                size && (doc.contains("images") || doc.contains("videos")),
            ),
        ] {
            if !there {
                wrong.push(format!("{name}: no {what} in `{}`", doc.trim()));
            }
        }
    }
    // The types, in a file each, and those of a macro of their own.
    let types = [
        "AlexNet",
        "ConvNeXt",
        "DenseNet",
        "EfficientNet",
        "EfficientNetLite",
        "GoogLeNet",
        "Inception3",
        "MNASNet",
        "MaxVit",
        "MobileNetV2",
        "MobileNetV3",
        "RegNet",
        "ResNet",
        "ShuffleNetV2",
        "SqueezeNet",
        "SwinTransformer",
        "VGG",
        "VisionTransformer",
        "DeepLabV3",
        "FCN",
        "LRASPP",
        "FCOS",
        "FasterRCNN",
        "KeypointRCNN",
        "MaskRCNN",
        "RetinaNet",
        "SSD",
        "MViT",
        "S3D",
        "SwinTransformer3d",
        "VideoResNet",
        "RAFT",
    ];
    for name in types {
        let made = [
            format!("pub struct {name} {{"),
            format!("{name} Boxes;"),
            format!("{name} Masks;"),
            format!("{name} Keypoints;"),
        ];
        let found = lines.iter().find(|(_, line)| made.contains(line));
        let doc = found.map_or("", |(doc, _)| doc.as_str());
        // A shape alone is no value.
        let value = doc
            .lines()
            .any(|line| line.trim_start().starts_with("assert") && !line.contains("dims()"));
        for (what, there) in [
            ("paper", doc.contains("<https://")),
            ("what it takes", doc.to_lowercase().contains("takes ")),
            ("example with a value", value),
        ] {
            if !there {
                wrong.push(format!("{name}: no {what}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
