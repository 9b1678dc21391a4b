//! Pascal VOC's mean average precision.

use std::collections::BTreeMap;

use torsh_serialize::Value;
use torsh_tensor::{Result, TorshError};

use super::{FoundObjects, Rect, TrueObjects, by_score, count, overlap, rects, rows, unequal};
use crate::metrics::{MetricValue, count_of, named, nothing, other_state};

/// How the area below a curve of precisions over recalls is taken.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{FoundObjects, TrueObjects, VocInterpolation, VocMeanAveragePrecision};
/// let mut map = VocMeanAveragePrecision::new().interpolation(VocInterpolation::ElevenPoints);
/// let there = TrueObjects::new(tensor![[0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]], tensor![1, 1]);
/// let found = FoundObjects::new(tensor![[0.0, 0.0, 10.0, 9.0]], tensor![0.9], tensor![1]);
/// map.update(&[found], &[there])?;
/// assert_eq!(map.compute()?.scalar()?, 6.0 / 11.0); // All precise up to a recall of one half.
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VocInterpolation {
    /// The whole area below the curve made falling; VOC's from 2010 on.
    #[default]
    Area,
    /// The mean of the precisions at the recalls 0, 0.1, .. 1; VOC's of 2007.
    ElevenPoints,
}

/// A class: the score of each detection and whether it is right, and how many objects there are to find.
#[derive(Clone, Debug, Default)]
struct Class {
    hits: Vec<(f64, bool)>,
    objects: u64,
}

/// Pascal VOC's mean average precision of boxes (Everingham and others, 2010).
///
/// A detection is right if the object that it overlaps most is overlapped by more than the threshold, and has no better
/// detection. Detections of difficult objects ([`TrueObjects::crowd`]) do not count.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{FoundObjects, TrueObjects, VocMeanAveragePrecision};
/// let mut map = VocMeanAveragePrecision::new();
/// let there = TrueObjects::new(tensor![[0.0, 0.0, 10.0, 10.0], [20.0, 0.0, 30.0, 10.0]], tensor![1, 1]);
/// let found = FoundObjects::new(tensor![[0.0, 0.0, 10.0, 9.0]], tensor![0.9], tensor![1]);
/// map.update(&[found], &[there])?;
/// assert_eq!(map.compute()?.scalar()?, 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct VocMeanAveragePrecision {
    name: String,
    threshold: f64,
    interpolation: VocInterpolation,
    pixels: bool,
    per_class: bool,
    classes: BTreeMap<i64, Class>,
    images: u64,
}

impl Default for VocMeanAveragePrecision {
    fn default() -> Self {
        VocMeanAveragePrecision::new()
    }
}

impl VocMeanAveragePrecision {
    /// Returns the metric with the threshold 0.5 and the whole area.
    ///
    /// ```
    /// use torsh_train::metrics::VocMeanAveragePrecision;
    /// let map = VocMeanAveragePrecision::new();
    /// assert_eq!(map.name(), "voc_map");
    /// assert!(map.compute().unwrap_err().to_string().contains("no batch was taken in"));
    /// ```
    pub fn new() -> VocMeanAveragePrecision {
        VocMeanAveragePrecision {
            name: "voc_map".into(),
            threshold: 0.5,
            interpolation: VocInterpolation::Area,
            pixels: false,
            per_class: false,
            classes: BTreeMap::new(),
            images: 0,
        }
    }

    /// What the overlap must exceed. The default is 0.5.
    #[must_use]
    pub fn iou_threshold(mut self, threshold: f64) -> Self {
        self.threshold = threshold;
        self
    }

    /// How the area is taken; as from 2010 on unless set.
    #[must_use]
    pub fn interpolation(mut self, interpolation: VocInterpolation) -> Self {
        self.interpolation = interpolation;
        self
    }

    /// Whether corners are pixels that are part of the box, as in VOC's files and its own program, so that a box is by one
    /// wider and higher than the difference of its corners. The default is `false`.
    #[must_use]
    pub fn corners_are_pixels(mut self, yes: bool) -> Self {
        self.pixels = yes;
        self
    }

    /// Whether there is a number for each class, in the order of [`VocMeanAveragePrecision::classes`], instead of their mean.
    #[must_use]
    pub fn per_class(mut self, yes: bool) -> Self {
        self.per_class = yes;
        self
    }

    named!();

    /// The name under which it is logged.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the classes that have objects to find.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{FoundObjects, TrueObjects, VocMeanAveragePrecision};
    /// let mut map = VocMeanAveragePrecision::new();
    /// let there = TrueObjects::new(tensor![[0.0, 0.0, 9.0, 9.0]], tensor![5]);
    /// let found = FoundObjects::new(tensor![[0.0, 0.0, 9.0, 9.0]], tensor![0.9], tensor![2]); // No object of class 2.
    /// map.update(&[found], &[there])?;
    /// assert_eq!(map.classes(), [5]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn classes(&self) -> Vec<i64> {
        let all = self.classes.iter().filter(|(_, c)| c.objects > 0);
        all.map(|(&class, _)| class).collect()
    }

    /// Takes in some images: what was found in each, and what is there.
    ///
    /// # Errors
    /// If the lists have not one length, or shapes do not go together.
    #[torsh_tensor::names_caller]
    pub fn update(&mut self, found: &[FoundObjects], there: &[TrueObjects]) -> Result<()> {
        if found.len() != there.len() {
            return Err(unequal(&self.name, found.len(), there.len()));
        }
        // Nothing is taken in where one image is wrong.
        let mut all = Vec::new();
        for (f, t) in found.iter().zip(there) {
            all.push(self.image(f, t)?);
        }
        self.images += all.len() as u64;
        for (label, class) in all.into_iter().flatten() {
            let own = self.classes.entry(label).or_default();
            own.hits.extend(class.hits);
            own.objects += class.objects;
        }
        Ok(())
    }

    fn image(&self, found: &FoundObjects, there: &TrueObjects) -> Result<BTreeMap<i64, Class>> {
        let op = &self.name;
        let wider = f64::from(u8::from(self.pixels));
        let boxes = |t: &torsh_tensor::Tensor,
                     labels: &torsh_tensor::Tensor|
         -> Result<(Vec<Rect>, Vec<i64>)> {
            let boxes = rects(op, t, false)?;
            if boxes.len() != count(labels) {
                let text = format!("{} boxes for {} labels", boxes.len(), count(labels));
                return Err(TorshError::shape(op.clone(), text));
            }
            let labels = rows(op, "labels", labels, boxes.len(), 1)?;
            let boxes = boxes
                .into_iter()
                .map(|[x, y, w, h]| [x, y, w + wider, h + wider]);
            Ok((
                boxes.collect(),
                labels.into_iter().map(|l| l as i64).collect(),
            ))
        };
        let (found_boxes, found_labels) = boxes(&found.boxes, &found.labels)?;
        let (there_boxes, there_labels) = boxes(&there.boxes, &there.labels)?;
        let scores = rows(op, "scores", &found.scores, found_boxes.len(), 1)?;
        if scores.iter().any(|s| s.is_nan()) {
            return Err(TorshError::invalid(
                op.clone(),
                "a score is NaN, which has no rank",
            ));
        }
        let difficult = match &there.crowd {
            Some(t) => rows(op, "crowd", t, there_boxes.len(), 1)?
                .iter()
                .map(|&c| c != 0.0)
                .collect(),
            None => vec![false; there_boxes.len()],
        };
        let mut classes: BTreeMap<i64, Class> = BTreeMap::new();
        for (label, difficult) in there_labels.iter().zip(&difficult) {
            classes.entry(*label).or_default().objects += u64::from(!difficult);
        }
        let mut taken = vec![false; there_boxes.len()];
        for i in by_score(&scores) {
            let mut best: Option<(f64, usize)> = None;
            for (j, object) in there_boxes.iter().enumerate() {
                if there_labels[j] != found_labels[i] {
                    continue;
                }
                let area = |r: &Rect| r[2] * r[3];
                let inter = overlap::shared(&found_boxes[i], object);
                let iou = overlap::of_areas(inter, (area(&found_boxes[i]), area(object)), false);
                if best.is_none_or(|(most, _)| iou > most) {
                    best = Some((iou, j));
                }
            }
            let right = match best.filter(|&(iou, _)| iou > self.threshold) {
                Some((_, j)) if difficult[j] => continue,
                Some((_, j)) => !std::mem::replace(&mut taken[j], true),
                None => false,
            };
            classes
                .entry(found_labels[i])
                .or_default()
                .hits
                .push((scores[i], right));
        }
        Ok(classes)
    }

    /// The average precision of a class that has objects.
    fn average(&self, class: &Class) -> f64 {
        let scores: Vec<f64> = class.hits.iter().map(|h| h.0).collect();
        let (mut right, mut all) = (0.0, 0.0);
        let mut curve: Vec<(f64, f64)> = Vec::with_capacity(scores.len());
        for i in by_score(&scores) {
            all += 1.0;
            right += f64::from(u8::from(class.hits[i].1));
            curve.push((right / class.objects as f64, right / all));
        }
        match self.interpolation {
            VocInterpolation::ElevenPoints => {
                let at = |i: usize| {
                    let recall = i as f64 * 0.1;
                    let beyond = curve.iter().filter(|(r, _)| *r >= recall);
                    beyond.map(|(_, p)| *p).fold(0.0, f64::max)
                };
                (0..=10).map(at).sum::<f64>() / 11.0
            }
            VocInterpolation::Area => {
                let (mut most, mut area) = (0.0, 0.0);
                for i in (0..curve.len()).rev() {
                    most = f64::max(most, curve[i].1);
                    let before = if i > 0 { curve[i - 1].0 } else { 0.0 };
                    area += (curve[i].0 - before) * most;
                }
                area
            }
        }
    }

    /// The mean over the classes that have objects, or the number of each.
    ///
    /// # Errors
    /// If no image with an object was taken in.
    #[torsh_tensor::names_caller]
    pub fn compute(&self) -> Result<MetricValue> {
        let with = self.classes.values().filter(|c| c.objects > 0);
        let all: Vec<f64> = with.map(|c| self.average(c)).collect();
        if all.is_empty() {
            return Err(nothing(&self.name));
        }
        Ok(match self.per_class {
            true => MetricValue::PerClass(all),
            false => MetricValue::Scalar(all.iter().sum::<f64>() / all.len() as f64),
        })
    }

    /// Forgets all images.
    pub fn reset(&mut self) {
        self.classes.clear();
        self.images = 0;
    }

    /// What the images left, for [`VocMeanAveragePrecision::merge`] and for checkpoints.
    ///
    /// # Errors
    /// None so far.
    #[torsh_tensor::names_caller]
    pub fn state(&self) -> Result<Value> {
        let hit =
            |&(score, right): &(f64, bool)| Value::List(vec![score.into(), Value::Bool(right)]);
        let class = |(&label, class): (&i64, &Class)| {
            Value::from([
                ("class", Value::Int(label)),
                ("objects", class.objects.into()),
                ("hits", Value::List(class.hits.iter().map(hit).collect())),
            ])
        };
        Ok(Value::from([
            ("images", self.images.into()),
            (
                "classes",
                Value::List(self.classes.iter().map(class).collect()),
            ),
        ]))
    }

    /// Takes in the images of another metric of the same settings.
    ///
    /// # Errors
    /// If the state is not that of such a metric.
    #[torsh_tensor::names_caller]
    pub fn merge(&mut self, state: &Value) -> Result<()> {
        let mut all = Vec::new();
        for class in state.get("classes")?.as_list()? {
            let mut hits = Vec::new();
            for hit in class.get("hits")?.as_list()? {
                let [score, Value::Bool(right)] = hit.as_list()? else {
                    return Err(other_state(&self.name, "a detection has no score and flag"));
                };
                hits.push((score.as_float()?, *right));
            }
            let objects = count_of(&self.name, class.get("objects")?)?;
            all.push((class.get("class")?.as_int()?, Class { hits, objects }));
        }
        self.images += count_of(&self.name, state.get("images")?)?;
        for (label, class) in all {
            let own = self.classes.entry(label).or_default();
            own.hits.extend(class.hits);
            own.objects += class.objects;
        }
        Ok(())
    }
}
