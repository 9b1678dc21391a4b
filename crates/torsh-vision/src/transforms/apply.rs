//! How a change of items becomes a change of samples.

use torsh_tensor::{Result, TorshError};

use super::draws::uniform32;
use super::sample::{Item, Sample};

/// A change that is drawn once for all items of a sample.
pub(crate) trait ItemTransform {
    /// What is drawn.
    type Params;
    const NAME: &'static str;

    /// With which probability anything changes; `None` draws nothing for it.
    fn probability(&self) -> Option<f64> {
        None
    }

    /// An error where it does not fit the sample.
    fn check(&self, _items: &[Item]) -> Result<()> {
        Ok(())
    }

    /// Whether items of this kind change.
    fn takes(&self, _item: &Item) -> bool {
        true
    }

    /// Draws, with the items that change at hand.
    fn params(&self, items: &[&Item]) -> Result<Self::Params>;

    /// One item changed.
    fn item(&self, item: &Item, params: &Self::Params) -> Result<Item>;
}

/// Which items change: not plain tensors beside images and videos, and of several plain tensors the first.
pub(crate) fn chosen(items: &[Item], takes: impl Fn(&Item) -> bool) -> Vec<bool> {
    let mut plain = !items
        .iter()
        .any(|i| matches!(i, Item::Image(_) | Item::Video(_)));
    items
        .iter()
        .map(|item| {
            takes(item)
                && match item {
                    Item::Tensor(_) => std::mem::take(&mut plain),
                    _ => true,
                }
        })
        .collect()
}

/// All items.
pub(crate) fn items<S: Sample>(sample: &S) -> Vec<Item> {
    let mut items = Vec::new();
    sample.visit("", &mut |_, item| items.push(item.clone()));
    items
}

/// The sample with other items, in the same order.
pub(crate) fn rebuilt<S: Sample>(sample: &S, items: Vec<Item>) -> Result<S> {
    let mut items = items.into_iter();
    sample.map(&mut |item| Ok(items.next().unwrap_or_else(|| item.clone())))
}

pub(crate) fn run<T: ItemTransform, S: Sample>(t: &T, sample: &S) -> Result<S> {
    let inner = || {
        let items = items(sample);
        t.check(&items)?;
        if let Some(p) = t.probability()
            && uniform32(0.0, 1.0) >= p as f32
        {
            return Ok(sample.clone());
        }
        let chosen = chosen(&items, |i| t.takes(i));
        let changing: Vec<&Item> = items
            .iter()
            .zip(&chosen)
            .filter_map(|(i, &c)| c.then_some(i))
            .collect();
        let params = t.params(&changing)?;
        let changed = items
            .iter()
            .zip(chosen)
            .map(|(item, c)| {
                if c {
                    t.item(item, &params)
                } else {
                    Ok(item.clone())
                }
            })
            .collect::<Result<Vec<_>>>()?;
        rebuilt(sample, changed)
    };
    inner().map_err(|e: TorshError| e.renamed(T::NAME))
}

/// Makes types transforms of samples.
macro_rules! transforms {
    ($($name:ident),* $(,)?) => {$(
        impl<S: $crate::transforms::Sample> $crate::transforms::Transform<S> for $name {
            #[torsh_tensor::names_caller]
            fn apply(&self, x: &S) -> ::torsh_tensor::Result<S> {
                $crate::transforms::apply::run(self, x)
            }
        }
    )*};
}
pub(crate) use transforms;

/// `fixed!(TYPE, self, item, result)`: the [`ItemTransform`] of a type that draws nothing.
macro_rules! fixed {
    ($name:ident, $self:ident, $item:ident, $result:expr) => {
        impl $crate::transforms::apply::ItemTransform for $name {
            type Params = ();
            const NAME: &'static str = stringify!($name);
            fn params(&self, _: &[&Item]) -> torsh_tensor::Result<()> {
                Ok(())
            }
            fn item(&$self, $item: &Item, (): &()) -> torsh_tensor::Result<Item> {
                $result
            }
        }
    };
}
pub(crate) use fixed;

/// The last three dimensions of an image.
pub(crate) fn dimensions(
    op: &'static str,
    x: &torsh_tensor::Tensor,
) -> Result<(usize, usize, usize)> {
    match x.dims() {
        [.., c, h, w] => Ok((*c, *h, *w)),
        _ => Err(TorshError::shape(
            op,
            format!(
                "expected an image [.., channels, height, width], got {}",
                x.describe()
            ),
        )),
    }
}

/// The last two dimensions of an image or a mask.
pub(crate) fn size_of(op: &'static str, x: &torsh_tensor::Tensor) -> Result<(usize, usize)> {
    match x.dims() {
        [.., h, w] => Ok((*h, *w)),
        _ => Err(TorshError::shape(
            op,
            format!(
                "expected an image [.., height, width], got {}",
                x.describe()
            ),
        )),
    }
}

/// Height and width of a sample.
pub(crate) fn query_size(op: &'static str, items: &[&Item]) -> Result<(usize, usize)> {
    let mut found: Option<(usize, usize)> = None;
    for item in items {
        let size = match item {
            Item::BoundingBoxes(b) => b.canvas_size,
            Item::KeyPoints(k) => k.canvas_size,
            other => size_of(op, other.tensor())?,
        };
        if found.is_some_and(|f| f != size) {
            return Err(TorshError::shape(
                op,
                format!(
                    "the items of a sample have one height and width, got {found:?} and {size:?}"
                ),
            ));
        }
        found = Some(size);
    }
    found.ok_or_else(|| {
        TorshError::invalid(
            op,
            "the sample has no image, video, mask, bounding boxes or key points",
        )
    })
}

/// Channels, height and width of the sample's image.
pub(crate) fn query_chw(op: &'static str, items: &[&Item]) -> Result<(usize, usize, usize)> {
    let mut found: Option<(usize, usize, usize)> = None;
    for item in items.iter().filter(|i| i.has_pixels()) {
        let size = dimensions(op, item.tensor())?;
        if found.is_some_and(|f| f != size) {
            return Err(TorshError::shape(
                op,
                format!("the images of a sample have one size, got {found:?} and {size:?}"),
            ));
        }
        found = Some(size);
    }
    found.ok_or_else(|| TorshError::invalid(op, "the sample has no image or video"))
}

pub(crate) fn probability(op: &'static str, p: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&p) {
        Ok(p)
    } else {
        Err(TorshError::invalid(
            op,
            format!("a probability is from 0 to 1, got {p}"),
        ))
    }
}
