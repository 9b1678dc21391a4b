//! Batches mixed with themselves.

use torsh_tensor::{DType, Result, Tensor, TorshError};

use super::Transform;
use super::apply::{chosen, items, query_size, rebuilt};
use super::draws::{below, beta};
use super::sample::{Item, Sample};

/// Which tensor of a sample has the labels: the one under this name, or the one that torchvision finds, which is called
/// `labels`, or has `label` in its name, or stands second.
pub(super) fn find_labels<S: Sample>(sample: &S, name: Option<&str>) -> Option<usize> {
    let mut names = Vec::new();
    sample.visit("", &mut |name, item| {
        names.push((name.to_lowercase(), matches!(item, Item::Tensor(_))));
    });
    let position =
        |found: &dyn Fn(&str) -> bool| names.iter().position(|(name, plain)| *plain && found(name));
    match name {
        Some(name) => position(&|n| n == name.to_lowercase()),
        None => position(&|n| n == "labels")
            .or_else(|| position(&|n| n.contains("label")))
            .or_else(|| position(&|n| n == "1")),
    }
}

/// What both have.
#[derive(Clone, Debug)]
struct Mixing {
    alpha: f64,
    num_classes: Option<usize>,
    labels: Option<String>,
}

impl Mixing {
    /// The sample with `draw`'s weight and `image`'s images; `draw` gets the images.
    fn apply<S: Sample, P>(
        &self,
        op: &'static str,
        sample: &S,
        draw: impl FnOnce(f64, &[&Item]) -> Result<(f64, P)>,
        image: impl Fn(&Tensor, f64, &P) -> Result<Tensor>,
    ) -> Result<S> {
        let mut all = items(sample);
        let refuse = |why: String| Err(TorshError::invalid(op, why));
        if let Some(bad) = all.iter().find(|i| !i.has_pixels()) {
            return refuse(format!("{} cannot be mixed", bad.kind()));
        }
        let Some(at) = find_labels(sample, self.labels.as_deref()) else {
            return refuse(
                "the sample has no labels: name their field `labels`, or put them second".into(),
            );
        };
        let labels = all[at].tensor().clone();
        let n = match (labels.dims(), self.num_classes) {
            ([n], Some(_)) => *n,
            ([_], None) => {
                return refuse("num_classes is needed for labels that are indices".into());
            }
            ([_, c], Some(classes)) if *c != classes => {
                return refuse(format!(
                    "labels have one number for each of {classes} classes, got {}",
                    labels.describe()
                ));
            }
            ([n, _], _) => *n,
            _ => {
                return refuse(format!(
                    "labels are [n] or [n, classes], got {}",
                    labels.describe()
                ));
            }
        };
        let mut which = chosen(&all, |_| true);
        which[at] = false;
        let images: Vec<&Item> = all
            .iter()
            .zip(&which)
            .filter_map(|(i, &c)| c.then_some(i))
            .collect();
        for item in &images {
            let rank = if matches!(item, Item::Video(_)) { 5 } else { 4 };
            let dims = item.tensor().dims();
            if dims.len() != rank || dims[0] != n {
                return refuse(format!(
                    "expected a batch of {n} with {rank} dimensions, got {}",
                    item.tensor().describe()
                ));
            }
        }
        let (lam, params) = draw(beta(self.alpha), &images)?;
        for (item, c) in all.iter_mut().zip(which) {
            if c {
                *item = item.map(|x| image(x, lam, &params))?;
            }
        }
        all[at] = Item::Tensor(self.mixed_labels(&labels, lam)?);
        rebuilt(sample, all)
    }

    fn mixed_labels(&self, labels: &Tensor, lam: f64) -> Result<Tensor> {
        let labels = match self.num_classes {
            Some(classes) if labels.ndim() == 1 => labels.one_hot(classes as i64)?,
            _ => labels.clone(),
        };
        let labels = match labels.dtype().is_floating_point() {
            true => labels,
            false => labels.to_dtype(DType::F32)?,
        };
        blend(&labels, lam)
    }
}

/// Each with the one before it.
fn blend(x: &Tensor, lam: f64) -> Result<Tensor> {
    x.roll(1, 0)?.mul(1.0 - lam)?.add(&x.mul(lam)?)
}

macro_rules! mixes {
    ($($(#[doc = $doc:literal])+ $name:ident;)*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Debug)]
        pub struct $name(Mixing);

        impl $name {
            /// With weights of the distribution Beta(`alpha`, `alpha`).
            #[doc = concat!(
                "\n```\n",
                "use torsh_vision::transforms::", stringify!($name), ";\n",
                "let error = ", stringify!($name), "::new(0.0).unwrap_err().to_string();\n",
                "assert!(error.contains(\"alpha must be positive, got 0\"));\n",
                "```",
            )]
            ///
            /// # Errors
            /// Not positive.
            #[torsh_tensor::names_caller(Self)]
            pub fn new(alpha: f64) -> Result<Self> {
                if !(alpha > 0.0) {
                    return Err(TorshError::invalid(
                        stringify!($name),
                        format!("alpha must be positive, got {alpha}"),
                    ));
                }
                Ok($name(Mixing { alpha, num_classes: None, labels: None }))
            }

            /// How many classes there are: for labels that are their numbers, `[n]`.
            #[must_use]
            pub fn num_classes(mut self, num_classes: usize) -> Self {
                self.0.num_classes = Some(num_classes);
                self
            }

            /// The field or key of the labels. Without, it is `labels`, or has `label` in its name, or is the second
            /// of a tuple.
            #[must_use]
            pub fn labels(mut self, name: impl Into<String>) -> Self {
                self.0.labels = Some(name.into());
                self
            }
        }
    )*};
}
mixes! {
    /// Each image of a batch mixed with the one before it, and their labels (`torchvision.transforms.v2.MixUp`; H.
    /// Zhang et al., "mixup: Beyond empirical risk minimization", 2018).
    ///
    /// ```
    /// use torsh_tensor::{rand, tensor};
    /// use torsh_vision::transforms::{MixUp, Transform};
    /// let mix = MixUp::new(1.0)?.num_classes(3);
    /// let (images, labels) = mix.apply(&(rand([2, 3, 4, 4]), tensor![0, 2]))?;
    /// assert_eq!((images.dims(), labels.dims()), (&[2, 3, 4, 4][..], &[2, 3][..]));
    /// assert!(labels.sum_dim(1, false)?.allclose(&tensor![1.0, 1.0])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    MixUp;
    /// Each image of a batch with a rectangle of the one before it, and their labels mixed by its area
    /// (`torchvision.transforms.v2.CutMix`; S. Yun et al., "CutMix: Regularization strategy to train strong classifiers
    /// with localizable features", 2019).
    ///
    /// ```
    /// use torsh_tensor::{ones, stack, tensor, zeros};
    /// use torsh_vision::transforms::{CutMix, Transform};
    /// // A black image and a white one.
    /// let images = stack(&[zeros([1, 4, 4]), ones([1, 4, 4])], 0)?;
    /// let (images, labels) = CutMix::new(1.0)?.num_classes(2).apply(&(images, tensor![0, 1]))?;
    /// // As much of each is white as its label says.
    /// assert!(images.mean_dim([1, 2, 3], false)?.allclose(&labels.select(1, 1)?)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    CutMix;
}

impl<S: Sample> Transform<S> for MixUp {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        self.0
            .apply(
                "MixUp",
                x,
                |lam, _| Ok((lam, ())),
                |x, lam, (): &()| blend(x, lam),
            )
            .map_err(|e| e.renamed("MixUp"))
    }
}

impl<S: Sample> Transform<S> for CutMix {
    #[torsh_tensor::names_caller]
    fn apply(&self, x: &S) -> Result<S> {
        let draw = |lam: f64, images: &[&Item]| {
            let (h, w) = query_size("CutMix", images)?;
            let x = below(w) as i64;
            let y = below(h) as i64;
            let r = 0.5 * (1.0 - lam).sqrt();
            let reach = |at: i64, n: usize| {
                let half = (r * n as f64) as i64;
                (
                    (at - half).max(0) as usize,
                    (at + half).min(n as i64) as usize,
                )
            };
            let ((x1, x2), (y1, y2)) = (reach(x, w), reach(y, h));
            let lam = 1.0 - ((x2 - x1) * (y2 - y1)) as f64 / (w * h) as f64;
            Ok((lam, (x1, x2, y1, y2)))
        };
        let cut = |x: &Tensor, _: f64, &(x1, x2, y1, y2): &(usize, usize, usize, usize)| {
            let part = |x: &Tensor| x.narrow(-2, y1, y2 - y1)?.narrow(-1, x1, x2 - x1);
            let out = x.copy()?;
            part(&out)?.copy_(&part(&x.roll(1, 0)?)?)?;
            Ok(out)
        };
        self.0
            .apply("CutMix", x, draw, cut)
            .map_err(|e| e.renamed("CutMix"))
    }
}
