//! AugMix.

use torsh_tensor::{DType, Device, InterpolateMode, Result, Tensor, TorshError};

use super::Transform;
use super::auto::{Base, Strengths, magnitude, settings, signed};
use super::draws::{below, between, dirichlet};
use super::policies::Op;
use super::sample::{Item, Sample};

/// The ops, in torchvision's order; without the last four unless all are wanted.
const OPS: [Op; 13] = [
    Op::ShearX,
    Op::ShearY,
    Op::TranslateX,
    Op::TranslateY,
    Op::Rotate,
    Op::Posterize,
    Op::Solarize,
    Op::AutoContrast,
    Op::Equalize,
    Op::Brightness,
    Op::Color,
    Op::Contrast,
    Op::Sharpness,
];

/// How many strengths there are.
const BINS: usize = 10;

/// The image mixed with several chains of ops on it (`torchvision.transforms.v2.AugMix`; D. Hendrycks et al., "AugMix:
/// A simple data processing method to improve robustness and uncertainty", 2020).
///
/// ```
/// use torsh_tensor::{DType, zeros};
/// use torsh_vision::transforms::{AugMix, Transform};
/// let image = zeros([3, 32, 32]).to_dtype(DType::U8)?;
/// assert_eq!(AugMix::new().apply(&image)?.dims(), [3, 32, 32]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct AugMix {
    severity: usize,
    mixture_width: usize,
    chain_depth: Option<usize>,
    alpha: f64,
    all_ops: bool,
    base: Base,
}

settings!(AugMix "Bilinear");

impl Default for AugMix {
    fn default() -> Self {
        AugMix {
            severity: 3,
            mixture_width: 3,
            chain_depth: None,
            alpha: 1.0,
            all_ops: true,
            base: Base::new(InterpolateMode::Bilinear),
        }
    }
}

impl AugMix {
    /// Three chains of one to three ops, of a strength of at most 3.
    pub fn new() -> Self {
        AugMix::default()
    }

    /// How strong the ops are at most, from 1 to 10 (3).
    ///
    /// ```
    /// use torsh_vision::transforms::AugMix;
    /// let error = AugMix::new().severity(11).unwrap_err().to_string();
    /// assert!(error.contains("the severity must be from 1 to 10, got 11"));
    /// ```
    ///
    /// # Errors
    /// Another number.
    #[torsh_tensor::names_caller]
    pub fn severity(mut self, severity: usize) -> Result<Self> {
        if !(1..=BINS).contains(&severity) {
            return Err(TorshError::invalid(
                "AugMix",
                format!("the severity must be from 1 to {BINS}, got {severity}"),
            ));
        }
        self.severity = severity;
        Ok(self)
    }

    setters! {
        /// How many chains are mixed (3).
        mixture_width: usize;
        /// How many ops a chain has (from 1 to 3 at random).
        chain_depth: Option<usize>, impl Into<Option<usize>> => Into::into;
        /// The parameter of the distributions of the weights (1).
        alpha: f64;
        /// Whether brightness, colour, contrast and sharpness are among the ops (true).
        all_ops: bool;
    }
}

impl<S: Sample> Transform<S> for AugMix {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        self.base.apply("AugMix", x, |item, fill, (h, w)| {
            let image = item.tensor();
            let rank = if matches!(item, Item::Video(_)) { 5 } else { 4 };
            let mut shape = image.dims().to_vec();
            while shape.len() < rank {
                shape.insert(0, 1);
            }
            let batch = image.reshape(shape.clone())?;
            let n = shape[0];
            let weights = |v: Vec<f32>| {
                let mut each = vec![1; shape.len()];
                each[0] = n;
                Tensor::from_slice(&v, each, DType::F32, Device::Cpu)?.to_device(image.device())
            };
            let alpha = self.alpha as f32;
            let own = dirichlet(&[alpha; 2], n);
            let width = self.mixture_width;
            let chains = dirichlet(&vec![alpha; width], n);
            let strengths = Strengths {
                shear: 0.3,
                translate: (w as f64 / 3.0, h as f64 / 3.0),
                rotate: 30.0,
                color: 0.9,
                bits: (4.0, 4.0),
            };
            let ops = if self.all_ops { &OPS[..] } else { &OPS[..9] };
            let mut mix = weights(own.iter().step_by(2).copied().collect())?.mul(&batch)?;
            for chain in 0..width {
                let mut augmented = batch.clone();
                let depth = match self.chain_depth {
                    Some(depth) if depth > 0 => depth,
                    _ => between(1, 4) as usize,
                };
                for _ in 0..depth {
                    let op = ops[below(ops.len())];
                    let m = match magnitude(op, strengths, 0, BINS)? {
                        None => None,
                        Some(_) => magnitude(op, strengths, below(self.severity), BINS)?,
                    };
                    augmented = self.base.done(&augmented, op, signed(m), fill)?;
                }
                let weight = (0..n)
                    .map(|i| chains[i * width + chain] * own[2 * i + 1])
                    .collect();
                mix = mix.add(&weights(weight)?.mul(&augmented)?)?;
            }
            mix.reshape(image.dims())?.to_dtype(image.dtype())
        })
    }
}
