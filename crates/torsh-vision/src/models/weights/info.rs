//! The table of torchvision's pretrained weights.

use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::{Value, json};
use torsh_nn::StateDict;
use torsh_tensor::{InterpolateMode, Result, TorshError};

use super::Weights;
use crate::fetch;
use crate::transforms::{
    ImageClassification, ObjectDetection, OpticalFlow, Preset, SemanticSegmentation, Size,
    VideoClassification,
};

/// A row for each set of weights, written by `tests/data/weights.py`.
static TABLE: LazyLock<Vec<WeightsInfo>> = LazyLock::new(|| {
    let rows = include_str!("table.tsv").lines().skip(1);
    rows.map(WeightsInfo::parse).collect()
});

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident, $file:literal;)*) => {$(
        $(#[$doc])*
        static $name: LazyLock<Vec<&'static str>> =
            LazyLock::new(|| include_str!($file).lines().collect());
    )*};
}

names! {
    IMAGENET, "imagenet.txt";
    COCO, "coco.txt";
    VOC, "voc.txt";
    KINETICS, "kinetics400.txt";
    /// The key points of a person, by number.
    KEYPOINTS, "keypoints.txt";
}

/// The 21 classes of Pascal VOC, of which the first is the background.
pub(crate) fn voc_classes() -> &'static [&'static str] {
    &VOC
}

/// A number that says how good weights are.
///
/// ```
/// use torsh_vision::models::ResNet50Weights;
/// let metric = ResNet50Weights::Imagenet1kV1.metrics()[1];
/// assert_eq!((metric.dataset, metric.name, metric.value), ("ImageNet-1K", "acc@5", 92.862));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// What it was measured on, as `ImageNet-1K`.
    pub dataset: &'static str,
    /// Its name, as `acc@1`.
    pub name: &'static str,
    /// The number.
    pub value: f64,
}

/// What is known of pretrained weights (`torchvision.models.Weights`).
///
/// The enums of the models, as [`ResNet50Weights`](crate::models::ResNet50Weights), and [`get_weight`] give it. Its numbers are
/// torchvision's.
///
/// ```
/// use torsh_vision::models::ResNet50Weights;
/// let weights = ResNet50Weights::DEFAULT;
/// assert_eq!(weights.name(), "ResNet50_Weights.IMAGENET1K_V2");
/// assert_eq!(weights.sha256_prefix(), Some("11ad3fa6"));
/// assert_eq!((weights.num_params(), weights.categories()[207]), (25_557_032, "golden retriever"));
/// ```
#[derive(Debug)]
pub struct WeightsInfo {
    class: &'static str,
    variant: &'static str,
    model: &'static str,
    is_default: bool,
    url: &'static str,
    num_params: usize,
    min_size: Option<(usize, usize)>,
    min_temporal_size: Option<usize>,
    categories: &'static str,
    transforms: &'static str,
    metrics: Vec<Metric>,
    gflops: f64,
    file_size: f64,
    recipe: &'static str,
    license: &'static str,
}

/// The numbers between commas.
fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
    text.split(',').filter_map(|n| n.parse().ok()).collect()
}

/// One number, or height and width.
fn size(text: &str) -> Size {
    match numbers(text)[..] {
        [h, w] => Size::Both(h, w),
        [n] => Size::One(n),
        _ => Size::One(0),
    }
}

impl WeightsInfo {
    /// A line of the table.
    fn parse(line: &'static str) -> WeightsInfo {
        let mut columns = line.split('\t');
        let mut next = || columns.next().unwrap_or("");
        let (class, variant, model) = (next(), next(), next());
        let is_default = next() == "default";
        let url = next();
        let num_params = next().parse().unwrap_or(0);
        let min_size = match numbers(next())[..] {
            [h, w] => Some((h, w)),
            _ => None,
        };
        let min_temporal_size = next().parse().ok();
        let (categories, transforms) = (next(), next());
        // `ImageNet-1K acc@1=76.13 acc@5=92.862;..`
        let mut metrics = Vec::new();
        for part in next().split(';').filter(|part| !part.is_empty()) {
            let mut words = part.split(' ');
            let dataset = words.next().unwrap_or("");
            metrics.extend(words.filter_map(|word| {
                let (name, value) = word.split_once('=')?;
                let value = value.parse().ok()?;
                Some(Metric {
                    dataset,
                    name,
                    value,
                })
            }));
        }
        WeightsInfo {
            class,
            variant,
            model,
            is_default,
            url,
            num_params,
            min_size,
            min_temporal_size,
            categories,
            transforms,
            metrics,
            gflops: next().parse().unwrap_or(0.0),
            file_size: next().parse().unwrap_or(0.0),
            recipe: next(),
            license: next(),
        }
    }

    /// torchvision's full name, as `ResNet50_Weights.IMAGENET1K_V2`.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// assert_eq!(ResNet50Weights::Imagenet1kV2.name(), "ResNet50_Weights.IMAGENET1K_V2");
    /// ```
    pub fn name(&self) -> String {
        format!("{}.{}", self.class, self.variant)
    }

    /// The name of torchvision's enum, as `ResNet50_Weights`.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// assert_eq!(ResNet50Weights::Imagenet1kV2.enum_name(), "ResNet50_Weights");
    /// ```
    pub fn enum_name(&self) -> &'static str {
        self.class
    }

    /// The name within the enum, as `IMAGENET1K_V2`.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// assert_eq!(ResNet50Weights::Imagenet1kV2.variant(), "IMAGENET1K_V2");
    /// ```
    pub fn variant(&self) -> &'static str {
        self.variant
    }

    /// The constructor that they are for, as `resnet50`.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// assert_eq!(ResNet50Weights::DEFAULT.model(), "resnet50");
    /// ```
    pub fn model(&self) -> &'static str {
        self.model
    }

    /// Whether they are those that `DEFAULT` means.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// assert!(ResNet50Weights::Imagenet1kV2.is_default());
    /// assert!(!ResNet50Weights::Imagenet1kV1.is_default());
    /// ```
    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// Where they can be downloaded.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// let url = "https://download.pytorch.org/models/resnet50-11ad3fa6.pth";
    /// assert_eq!(ResNet50Weights::DEFAULT.url(), url);
    /// ```
    pub fn url(&self) -> &'static str {
        self.url
    }

    /// The file's name, as `resnet50-11ad3fa6.pth`.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// assert_eq!(ResNet50Weights::DEFAULT.file_name(), "resnet50-11ad3fa6.pth");
    /// ```
    pub fn file_name(&self) -> &'static str {
        fetch::file_name(self.url)
    }

    /// What the SHA-256 of the file begins with, in hexadecimal digits, as the file's name says.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// assert_eq!(ResNet50Weights::DEFAULT.sha256_prefix(), Some("11ad3fa6"));
    /// ```
    pub fn sha256_prefix(&self) -> Option<&'static str> {
        torsh_serialize::torch_cache::hash_in_file_name(self.file_name())
    }

    /// How many parameters the model has with these weights.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// assert_eq!(ResNet50Weights::DEFAULT.num_params(), 25_557_032);
    /// ```
    pub fn num_params(&self) -> usize {
        self.num_params
    }

    /// The smallest height and width of an image, where the model has such.
    ///
    /// ```
    /// use torsh_vision::models::ViTB16Weights;
    /// assert_eq!(ViTB16Weights::Imagenet1kV1.min_size(), Some((224, 224)));
    /// assert_eq!(ViTB16Weights::Imagenet1kSwagE2eV1.min_size(), Some((384, 384)));
    /// ```
    pub fn min_size(&self) -> Option<(usize, usize)> {
        self.min_size
    }

    /// The smallest number of frames of a video, where the model has such.
    ///
    /// ```
    /// use torsh_vision::models::video::{MViTV1BWeights, R3D18Weights};
    /// assert_eq!(MViTV1BWeights::DEFAULT.min_temporal_size(), Some(16));
    /// assert_eq!(R3D18Weights::DEFAULT.min_temporal_size(), None);
    /// ```
    pub fn min_temporal_size(&self) -> Option<usize> {
        self.min_temporal_size
    }

    /// The names of the classes by number; none of models without classes.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// let names = ResNet50Weights::DEFAULT.categories();
    /// assert_eq!((names.len(), names[207]), (1000, "golden retriever"));
    /// ```
    pub fn categories(&self) -> &'static [&'static str] {
        match self.categories {
            "imagenet" => &IMAGENET,
            "coco" => &COCO,
            "voc" => &VOC,
            "kinetics400" => &KINETICS,
            "person" => &["no person", "person"],
            _ => &[],
        }
    }

    /// The names of the key points by number; none of models that find none.
    ///
    /// ```
    /// use torsh_vision::models::detection::KeypointRCNNResNet50FPNWeights;
    /// let names = KeypointRCNNResNet50FPNWeights::DEFAULT.keypoint_names();
    /// assert_eq!((names.len(), names[0]), (17, "nose"));
    /// ```
    pub fn keypoint_names(&self) -> &'static [&'static str] {
        match self.categories {
            "person" => &KEYPOINTS,
            _ => &[],
        }
    }

    /// How good they are, in torchvision's measurements.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// let names: Vec<&str> = ResNet50Weights::DEFAULT.metrics().iter().map(|metric| metric.name).collect();
    /// assert_eq!(names, ["acc@1", "acc@5"]);
    /// ```
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// The first metric of a name.
    ///
    /// ```
    /// use torsh_vision::models::ResNet18Weights;
    /// assert_eq!(ResNet18Weights::DEFAULT.metric("acc@1"), Some(69.758));
    /// ```
    pub fn metric(&self, name: &str) -> Option<f64> {
        let found = self.metrics.iter().find(|metric| metric.name == name);
        found.map(|metric| metric.value)
    }

    /// How many thousand millions of multiplications with an addition a forward pass has.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// assert_eq!(ResNet50Weights::DEFAULT.gflops(), 4.089);
    /// ```
    pub fn gflops(&self) -> f64 {
        self.gflops
    }

    /// The size of the file in megabytes of 2^20 bytes.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// assert_eq!(ResNet50Weights::DEFAULT.file_size(), 97.79);
    /// ```
    pub fn file_size(&self) -> f64 {
        self.file_size
    }

    /// Where it is described how they were trained.
    ///
    /// ```
    /// use torsh_vision::models::ResNet50Weights;
    /// let recipe = "https://github.com/pytorch/vision/tree/main/references/classification#resnet";
    /// assert_eq!(ResNet50Weights::Imagenet1kV1.recipe(), Some(recipe));
    /// ```
    pub fn recipe(&self) -> Option<&'static str> {
        (!self.recipe.is_empty()).then_some(self.recipe)
    }

    /// Where their licence is, if it is another than torchvision's.
    ///
    /// ```
    /// use torsh_vision::models::ViTB16Weights;
    /// let license = "https://github.com/facebookresearch/SWAG/blob/main/LICENSE";
    /// assert_eq!(ViTB16Weights::Imagenet1kSwagE2eV1.license(), Some(license));
    /// assert_eq!(ViTB16Weights::Imagenet1kV1.license(), None);
    /// ```
    pub fn license(&self) -> Option<&'static str> {
        (!self.license.is_empty()).then_some(self.license)
    }

    /// The preparation of images that belongs to these weights.
    ///
    /// ```
    /// use torsh_tensor::{DType, zeros};
    /// use torsh_vision::models::ViTB16Weights;
    /// use torsh_vision::transforms::Transform;
    ///
    /// let image = zeros([3, 400, 500]).to_dtype(DType::U8)?;
    /// let prepare = ViTB16Weights::Imagenet1kSwagE2eV1.transforms();
    /// assert_eq!(prepare.apply(&image)?.dims(), [3, 384, 384]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn transforms(&self) -> Preset {
        let mut words = self.transforms.split(' ');
        let kind = words.next().unwrap_or("");
        let values: Vec<(&str, &str)> = words.filter_map(|word| word.split_once('=')).collect();
        let value = |name: &str| values.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        let crop = || size(value("crop_size").unwrap_or(""));
        let statistics = |name| value(name).map(numbers::<f64>);
        match kind {
            "ImageClassification" => {
                let mut preset = ImageClassification::new(crop());
                if let Some(resize) = value("resize_size") {
                    preset = preset.resize_size(size(resize));
                }
                if value("interpolation") == Some("bicubic") {
                    preset = preset.interpolation(InterpolateMode::Bicubic);
                }
                if let Some(mean) = statistics("mean") {
                    preset = preset.mean(mean);
                }
                if let Some(std) = statistics("std") {
                    preset = preset.std(std);
                }
                preset.into()
            }
            "VideoClassification" => {
                let resize = size(value("resize_size").unwrap_or(""));
                let mut preset = VideoClassification::new(crop(), resize);
                if let (Some(mean), Some(std)) = (statistics("mean"), statistics("std"))
                    && let ([m0, m1, m2], [s0, s1, s2]) = (&mean[..], &std[..])
                {
                    preset = preset.statistics([*m0, *m1, *m2], [*s0, *s1, *s2]);
                }
                preset.into()
            }
            "SemanticSegmentation" => {
                SemanticSegmentation::new(size(value("resize_size").unwrap_or(""))).into()
            }
            "OpticalFlow" => OpticalFlow.into(),
            _ => ObjectDetection.into(),
        }
    }

    /// The file on this machine: from PyTorch's cache, into which the feature `hub` downloads what is not there.
    ///
    /// The cache is `$TORCH_HOME/hub/checkpoints`, otherwise `~/.cache/torch/hub/checkpoints`.
    ///
    /// # Errors
    /// The file is not there and cannot be downloaded. The error says which file was looked for, and where.
    #[torsh_tensor::names_caller]
    pub fn path(&self) -> Result<PathBuf> {
        fetch::fetch(self.url, self.sha256_prefix())
    }

    /// The tensors by name (`WeightsEnum.get_state_dict`).
    ///
    /// # Errors
    /// As [`WeightsInfo::path`], and a damaged file.
    #[torsh_tensor::names_caller]
    pub fn get_state_dict(&'static self) -> Result<StateDict> {
        Ok(Weights::from(self).read()?.unwrap_or_default())
    }

    /// What torchvision's constructors set where they are given these weights.
    pub(crate) fn arguments(&self) -> Vec<(&'static str, Value)> {
        let size = self.min_size.map(|(h, w)| [h, w]);
        match (self.model, size) {
            (model, Some([side, _])) if model.starts_with("vit_") => {
                vec![("image_size", json!(side))]
            }
            ("maxvit_t", Some(size)) => vec![("input_size", json!(size))],
            (model, Some(size)) if model.starts_with("mvit_") => {
                let mut all = vec![("spatial_size", json!(size))];
                let frames = self.min_temporal_size;
                all.extend(frames.map(|frames| ("temporal_size", json!(frames))));
                all
            }
            _ => Vec::new(),
        }
    }

    /// What is added to the variance in norms that do not learn: nothing in those weights of detectors that were trained
    /// before torchvision added it.
    pub(crate) fn frozen_eps(&self) -> f64 {
        const WITHOUT: [&str; 4] = [
            "FasterRCNN_ResNet50_FPN_Weights",
            "MaskRCNN_ResNet50_FPN_Weights",
            "KeypointRCNN_ResNet50_FPN_Weights",
            "RetinaNet_ResNet50_FPN_Weights",
        ];
        match self.variant == "COCO_V1" && WITHOUT.contains(&self.class) {
            true => 0.0,
            false => 1e-5,
        }
    }
}

/// The row of weights that an enum of this crate has, by the name of its value in Rust.
pub(super) fn entry(class: &str, variant: &str) -> &'static WeightsInfo {
    let same = |name: &str| name.replace('_', "").eq_ignore_ascii_case(variant);
    let mut rows = TABLE.iter();
    let found = rows.find(|row| row.class == class && same(row.variant));
    found.expect("the table has a row for every value of the enums")
}

/// The row of a URL.
pub(super) fn of_url(url: &str) -> Option<&'static WeightsInfo> {
    TABLE.iter().find(|row| row.url == url)
}

/// The weights of an enum, the default or by name.
fn in_class(class: &str, variant: &str) -> Option<&'static WeightsInfo> {
    TABLE.iter().find(|row| {
        row.class == class
            && match variant {
                "DEFAULT" => row.is_default,
                _ => row.variant == variant,
            }
    })
}

/// Whether a text has the form of the name of weights, as `DEFAULT` or `IMAGENET1K_V2`.
pub(super) fn is_variant(text: &str) -> bool {
    text == "DEFAULT" || TABLE.iter().any(|row| row.variant == text)
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    names.join(", ")
}

/// The weights of a name (`torchvision.models.get_weight`).
///
/// ```
/// use torsh_vision::models::{ResNet50Weights, get_weight};
/// let weights = get_weight("ResNet50_Weights.DEFAULT")?;
/// assert_eq!(weights.url(), ResNet50Weights::Imagenet1kV2.url());
/// assert!(get_weight("ResNet50_Weights.IMAGENET1K_V3").is_err());
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No weights of the name, in which case the error lists those that there are.
#[torsh_tensor::names_caller]
pub fn get_weight(name: &str) -> Result<&'static WeightsInfo> {
    const OP: &str = "get_weight";
    let Some((class, variant)) = name.split_once('.') else {
        return Err(
            TorshError::invalid(OP, format!("`{name}` is no name of weights"))
                .with_hint("a name is as ResNet50_Weights.DEFAULT"),
        );
    };
    if let Some(found) = in_class(class, variant) {
        return Ok(found);
    }
    let own = listed(
        TABLE
            .iter()
            .filter(|row| row.class == class)
            .map(|row| row.variant),
    );
    let error = TorshError::invalid(OP, format!("there are no weights `{name}`"));
    Err(match own.is_empty() {
        false => error.with_hint(format!("{class} has DEFAULT, {own}")),
        true => {
            let start: String = class.chars().take(3).collect::<String>().to_lowercase();
            let like = |row: &&WeightsInfo| row.class.to_lowercase().starts_with(&start);
            let like = listed(TABLE.iter().filter(like).map(|row| row.class));
            match like.is_empty() {
                true => error.with_hint(
                    "list_models() names the models, get_model_weights(model) their weights",
                ),
                false => error.with_hint(format!("there are {like}")),
            }
        }
    })
}

/// The weights that there are for a model (`torchvision.models.get_model_weights`), the default first.
///
/// ```
/// use torsh_vision::models::get_model_weights;
/// let all = get_model_weights("resnet50")?;
/// let names: Vec<&str> = all.iter().map(|weights| weights.variant()).collect();
/// assert_eq!(names, ["IMAGENET1K_V2", "IMAGENET1K_V1"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No weights for a model of the name.
#[torsh_tensor::names_caller]
pub fn get_model_weights(model: &str) -> Result<Vec<&'static WeightsInfo>> {
    let mut all: Vec<&'static WeightsInfo> = TABLE
        .iter()
        .filter(|row| row.model.eq_ignore_ascii_case(model))
        .collect();
    if all.is_empty() {
        let why = format!("there are no pretrained weights for a model `{model}`");
        return Err(TorshError::invalid("get_model_weights", why)
            .with_hint("list_models() names the models"));
    }
    all.sort_by_key(|row| !row.is_default);
    Ok(all)
}

/// The weights of a name for a model: `DEFAULT` or the name within the enum.
#[track_caller]
pub(super) fn named(model: &'static str, variant: &str) -> Result<&'static WeightsInfo> {
    let all = get_model_weights(model).map_err(|e| e.renamed(model))?;
    let found = all.iter().find(|row| match variant {
        "DEFAULT" => row.is_default,
        _ => row.variant == variant,
    });
    found.copied().ok_or_else(|| {
        let own = listed(all.iter().map(|row| row.variant));
        TorshError::invalid(model, format!("there are no weights `{variant}`"))
            .with_hint(format!("there are DEFAULT, {own}"))
    })
}
