//! Dropout of whole channels, and dropout that keeps mean and variance. The draws are PyTorch's.

use torsh_core::{Result, TorshError};

use crate::record::OpRecord;
use crate::{Tensor, Value};

pub(crate) const RECORDS: &[&OpRecord] = &[
    &DROPOUT1D,
    &DROPOUT2D,
    &DROPOUT3D,
    &ALPHA_DROPOUT,
    &FEATURE_ALPHA_DROPOUT,
];

type Method = fn(&Tensor, f64, bool) -> Result<Tensor>;

fn by_name(b: &crate::Bound, method: Method) -> Result<Value> {
    let (x, dropped) = (b.tensor(0)?, method(b.tensor(0)?, b.float(1), b.bool(2))?);
    if b.bool(3) && !dropped.is_same(x) {
        crate::inplace::assign(x, &dropped)?;
        return Ok(Value::Tensor(x.clone()));
    }
    Ok(Value::Tensor(dropped))
}

pub static DROPOUT1D: OpRecord = OpRecord::new(
    "nn.functional.dropout1d",
    "In training zeroes each channel of signals [n, c, l] (or one of [c, l]) with probability p and scales the others by 1 / (1 - p).",
    "(Tensor input, float p=0.5, bool training=True, bool inplace=False)",
)
.by_name(|b| by_name(b, Tensor::dropout1d));

pub static DROPOUT2D: OpRecord = OpRecord::new(
    "nn.functional.dropout2d",
    "In training zeroes each channel of images [n, c, h, w] with probability p and scales the others by 1 / (1 - p).",
    "(Tensor input, float p=0.5, bool training=True, bool inplace=False)",
)
.by_name(|b| by_name(b, Tensor::dropout2d));

pub static DROPOUT3D: OpRecord = OpRecord::new(
    "nn.functional.dropout3d",
    "In training zeroes each channel of volumes [n, c, d, h, w] (or one of [c, d, h, w]) with probability p and scales the others by 1 / (1 - p).",
    "(Tensor input, float p=0.5, bool training=True, bool inplace=False)",
)
.by_name(|b| by_name(b, Tensor::dropout3d));

pub static ALPHA_DROPOUT: OpRecord = OpRecord::new(
    "nn.functional.alpha_dropout",
    "In training sets each element with probability p to SELU's lower limit, and scales and shifts all so that mean and variance stay.",
    "(Tensor input, float p=0.5, bool training=False, bool inplace=False)",
)
.by_name(|b| by_name(b, Tensor::alpha_dropout));

pub static FEATURE_ALPHA_DROPOUT: OpRecord = OpRecord::new(
    "nn.functional.feature_alpha_dropout",
    "alpha_dropout of whole channels (dimension 1).",
    "(Tensor input, float p=0.5, bool training=False, bool inplace=False)",
)
.by_name(|b| by_name(b, Tensor::feature_alpha_dropout));

/// SELU's lower limit, negated.
const ALPHA: f64 = 1.758_099_340_847_376_6;

fn drop(x: &Tensor, p: f64, training: bool, features: bool, alpha: bool) -> Result<Tensor> {
    if !(0.0..=1.0).contains(&p) {
        let m = format!("dropout probability has to be between 0 and 1, but got {p}");
        return Err(TorshError::invalid("", m));
    }
    if p == 0.0 || !training || x.numel() == 0 {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return x.mul(&Tensor::zeros((), x.dtype(), x.device())?);
    }
    let noise = if features {
        if x.ndim() < 2 {
            let m = format!(
                "feature dropout requires at least 2 dimensions in the input, got {}",
                x.shape()
            );
            return Err(TorshError::shape("", m));
        }
        let mut shape = vec![1; x.ndim()];
        shape[..2].copy_from_slice(&x.dims()[..2]);
        Tensor::empty(&shape[..], x.dtype(), x.device())?
    } else {
        x.empty_like()?
    };
    noise.bernoulli_(1.0 - p)?;
    if !alpha {
        return x.mul(&noise.div_(1.0 - p)?);
    }
    let a = 1.0 / ((ALPHA * ALPHA * p + 1.0) * (1.0 - p)).sqrt();
    let shift = noise.add(-1)?.mul_(ALPHA * a)?.add_(ALPHA * a * p)?;
    x.mul(&noise.mul_(a)?)?.add(&shift)
}

/// Dropout of channels, the second dimension.
pub(super) fn features(x: &Tensor, p: f64, training: bool) -> Result<Tensor> {
    drop(x, p, training, true, false)
}

/// Feature dropout of what may lack its batch dimension.
fn drop_features(x: &Tensor, batched: usize, p: f64, training: bool) -> Result<Tensor> {
    match x.ndim() == batched {
        true => drop(x, p, training, true, false),
        false => drop(&x.unsqueeze(0)?, p, training, true, false)?.squeeze(0),
    }
}

#[torsh_tensor::functions]
impl Tensor {
    /// Sets each channel of signals `[N, C, L]` or `[C, L]` to 0 with probability `p` and scales the
    /// others by `1 / (1 - p)` (`torch.nn.functional.dropout1d`).
    ///
    /// Gives the values unchanged unless `training`. An error for other dimensions, and for `p`
    /// outside [0, 1].
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// let x = tensor![[1.0, 2.0], [3.0, 4.0]];
    /// assert_eq!(x.dropout1d(1.0, true)?, tensor![[0.0, 0.0], [0.0, 0.0]]);
    /// assert_eq!(x.dropout1d(0.5, false)?, x);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn dropout1d(&self, p: f64, training: bool) -> Result<Tensor> {
        let run = || match self.ndim() {
            2 | 3 => drop_features(self, 3, p, training),
            n => Err(TorshError::shape(
                "",
                format!("expected 2D or 3D input, but received a {n}D input"),
            )),
        };
        self.named("dropout1d", run())
    }

    /// Sets each channel of images `[N, C, H, W]` to 0 with probability `p` and scales the others by
    /// `1 / (1 - p)` (`torch.nn.functional.dropout2d`).
    ///
    /// Gives the values unchanged unless `training`. As in PyTorch, three dimensions are `[N, C, L]`.
    /// An error for `p` outside [0, 1].
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// let images = Tensor::ones([1, 8, 2, 2], DType::F32, Device::Cpu)?;
    /// let y = images.dropout2d(0.5, true)?;
    /// // Each channel is dropped whole, or doubled.
    /// for channel in y.view([8, 4])?.to_vec2::<f32>()? {
    ///     assert!(channel == [0.0; 4] || channel == [2.0; 4]);
    /// }
    /// assert_eq!(images.dropout2d(0.5, false)?, images);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn dropout2d(&self, p: f64, training: bool) -> Result<Tensor> {
        self.named("dropout2d", drop(self, p, training, true, false))
    }

    /// Sets each channel of volumes `[N, C, D, H, W]` or `[C, D, H, W]` to 0 with probability `p` and
    /// scales the others by `1 / (1 - p)` (`torch.nn.functional.dropout3d`).
    ///
    /// Gives the values unchanged unless `training`. An error for `p` outside [0, 1].
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// let volumes = Tensor::ones([1, 8, 1, 2, 2], DType::F32, Device::Cpu)?;
    /// for channel in volumes.dropout3d(0.5, true)?.view([8, 4])?.to_vec2::<f32>()? {
    ///     assert!(channel == [0.0; 4] || channel == [2.0; 4]);
    /// }
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn dropout3d(&self, p: f64, training: bool) -> Result<Tensor> {
        self.named("dropout3d", drop_features(self, 5, p, training))
    }

    /// Sets each element with probability `p` to SELU's lower limit, and scales and shifts all so
    /// that mean and variance stay; the tensor itself unless `training`
    /// (`torch.nn.functional.alpha_dropout`; Klambauer et al., 2017).
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, -1.0];
    /// assert_eq!(x.alpha_dropout(0.5, false)?, x);
    /// // Nothing is left of a tensor that is dropped whole.
    /// assert!(x.alpha_dropout(1.0, true)?.allclose(&tensor![0.0, 0.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn alpha_dropout(&self, p: f64, training: bool) -> Result<Tensor> {
        self.named("alpha_dropout", drop(self, p, training, false, true))
    }

    /// [`Tensor::alpha_dropout`] of whole channels, `[N, C, ..]`
    /// (`torch.nn.functional.feature_alpha_dropout`).
    ///
    /// Shape and dtype stay, and the values unless `training`. An error for fewer than two
    /// dimensions, and for `p` outside [0, 1].
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::ones([1, 4, 3], DType::F32, Device::Cpu)?;
    /// for channel in x.feature_alpha_dropout(0.5, true)?.view([4, 3])?.to_vec2::<f32>()? {
    ///     assert!(channel.iter().all(|v| *v == channel[0]));
    /// }
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn feature_alpha_dropout(&self, p: f64, training: bool) -> Result<Tensor> {
        self.named("feature_alpha_dropout", drop(self, p, training, true, true))
    }
}
