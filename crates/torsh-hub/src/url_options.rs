//! The arguments of functions that read weights from an address.

use std::path::PathBuf;

use torsh_tensor::Device;

use crate::cancel::Cancel;
use crate::checksum::Checksum;

/// The arguments of [`load_state_dict_from_url`](crate::load_state_dict_from_url), as PyTorch names them.
///
/// ```
/// use torsh_hub::UrlOptions;
/// let options = UrlOptions::new().model_dir("weights").file_name("resnet.pth").progress(false);
/// assert_eq!(options.file_name.as_deref(), Some("resnet.pth"));
/// assert!(options.check_hash);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UrlOptions {
    /// The folder of the file (`$TORCH_HOME/hub/checkpoints`).
    pub model_dir: Option<PathBuf>,
    /// The file's name there (that of the address).
    pub file_name: Option<String>,
    /// Whether a hash in the file's name, `name-<hash>.ext`, is checked after the download (`true`; PyTorch's default is
    /// `false`).
    pub check_hash: bool,
    /// The checksum of the file, in place of the one in its name.
    pub checksum: Option<Checksum>,
    /// The size of the file in bytes.
    pub size: Option<u64>,
    /// Whether the progress is shown; else the environment decides.
    pub progress: Option<bool>,
    /// Where the tensors shall be (the CPU).
    pub map_location: Device,
    /// What cancels the download.
    pub cancel: Option<Cancel>,
}

impl Default for UrlOptions {
    fn default() -> Self {
        UrlOptions {
            model_dir: None,
            file_name: None,
            check_hash: true,
            checksum: None,
            size: None,
            progress: None,
            map_location: Device::Cpu,
            cancel: None,
        }
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $ty:ty => |$v:ident| $e:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $field(mut self, $field: $ty) -> Self {
            let $v = $field;
            self.$field = $e;
            self
        }
    )*};
}

impl UrlOptions {
    /// PyTorch's defaults, but hashes in names are checked.
    pub fn new() -> Self {
        Self::default()
    }

    setters! {
        /// The folder of the file.
        model_dir: impl Into<PathBuf> => |v| Some(v.into());
        /// The file's name there.
        file_name: impl Into<String> => |v| Some(v.into());
        /// Whether a hash in the file's name is checked.
        check_hash: bool => |v| v;
        /// The checksum of the file.
        checksum: impl Into<Option<Checksum>> => |v| v.into();
        /// The size of the file in bytes.
        size: u64 => |v| Some(v);
        /// Whether the progress is shown.
        progress: bool => |v| Some(v);
        /// Where the tensors shall be.
        map_location: impl Into<Device> => |v| v.into();
        /// What cancels the download.
        cancel: Cancel => |v| Some(v);
    }
}
