//! COCO's mean average precision.

use std::collections::BTreeMap;
use std::fmt;

use torsh_serialize::Value;
use torsh_tensor::{Result, Tensor, TorshError};

use super::overlap::{self, Mask};
use super::{FoundObjects, Rect, TrueObjects, by_score, count, rects, rows, unequal};
use crate::metrics::{named, nothing, other_state};

/// What detections are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CocoKind {
    /// The overlap of boxes.
    Boxes,
    /// The overlap of masks.
    Masks,
    /// How near key points are.
    Keypoints,
}

/// The standard deviations of people's 17 key points, a tenth of these, as parts of the root of the area.
const SIGMAS: [f64; 17] = [
    0.26, 0.25, 0.25, 0.35, 0.35, 0.79, 0.79, 0.72, 0.72, 0.62, 0.62, 1.07, 1.07, 0.87, 0.87, 0.89,
    0.89,
];

/// Thresholds of overlaps.
const THRESHOLDS: usize = 10;
/// Recalls at which precisions are read.
const RECALLS: usize = 101;
/// Areas: all, small, medium, large.
const AREAS: [(f64, f64); 4] = [(0.0, 1e10), (0.0, 1024.0), (1024.0, 9216.0), (9216.0, 1e10)];
const ALL: usize = 0;
const SMALL: usize = 1;
const MEDIUM: usize = 2;
const LARGE: usize = 3;

/// Evenly spaced numbers, as NumPy's `linspace` rounds them.
fn spaced(from: f64, to: f64, n: usize, i: usize) -> f64 {
    match i + 1 == n {
        true => to,
        false => i as f64 * ((to - from) / (n - 1) as f64) + from,
    }
}

fn threshold(i: usize) -> f64 {
    spaced(0.5, 0.95, THRESHOLDS, i)
}

/// A detection: for each range of areas, at which thresholds it has an object, and at which it does not count; a bit each.
#[derive(Clone, Copy, Debug)]
struct Hit {
    score: f64,
    matched: [u16; 4],
    ignored: [u16; 4],
}

/// A class of one image: its best detections, best first, and how many objects there are to find in each range of areas.
#[derive(Clone, Debug)]
struct Seen {
    hits: Vec<Hit>,
    objects: [u64; 4],
}

/// COCO's numbers. -1 where there is no object to find, as pycocotools gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CocoSummary {
    /// What was compared.
    pub kind: CocoKind,
    /// The mean over the thresholds 0.5, 0.55, .. 0.95 of the classes' average precisions.
    pub ap: f64,
    /// That at the threshold 0.5.
    pub ap50: f64,
    /// That at the threshold 0.75.
    pub ap75: f64,
    /// The average precision of objects of less than 32 by 32 pixels; not of key points.
    pub ap_small: f64,
    /// That of objects between.
    pub ap_medium: f64,
    /// That of objects of more than 96 by 96 pixels.
    pub ap_large: f64,
    /// The mean recall with one detection in an image; not of key points.
    pub ar1: f64,
    /// That with 10; not of key points.
    pub ar10: f64,
    /// That with as many as count: 100, of key points 20.
    pub ar: f64,
    /// That at the threshold 0.5; of key points alone.
    pub ar50: f64,
    /// That at the threshold 0.75; of key points alone.
    pub ar75: f64,
    /// The recall of small objects; not of key points.
    pub ar_small: f64,
    /// That of objects between.
    pub ar_medium: f64,
    /// That of large objects.
    pub ar_large: f64,
}

impl CocoSummary {
    /// The numbers in pycocotools' order (12, of key points 10), with names.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{CocoEvaluation, CocoKind, FoundObjects, TrueObjects};
    /// let mut coco = CocoEvaluation::new(CocoKind::Boxes);
    /// let boxes = tensor![[0.0, 0.0, 50.0, 50.0]];
    /// let found = FoundObjects::new(boxes.clone(), tensor![0.9], tensor![1]);
    /// coco.update(&[found], &[TrueObjects::new(boxes, tensor![1])])?;
    /// let numbers = coco.compute()?.numbers();
    /// assert_eq!(numbers.len(), 12);
    /// assert_eq!(numbers[0].0, "AP");
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn numbers(&self) -> Vec<(&'static str, f64)> {
        match self.kind {
            CocoKind::Keypoints => vec![
                ("AP", self.ap),
                ("AP50", self.ap50),
                ("AP75", self.ap75),
                ("AP_medium", self.ap_medium),
                ("AP_large", self.ap_large),
                ("AR", self.ar),
                ("AR50", self.ar50),
                ("AR75", self.ar75),
                ("AR_medium", self.ar_medium),
                ("AR_large", self.ar_large),
            ],
            _ => vec![
                ("AP", self.ap),
                ("AP50", self.ap50),
                ("AP75", self.ap75),
                ("AP_small", self.ap_small),
                ("AP_medium", self.ap_medium),
                ("AP_large", self.ap_large),
                ("AR1", self.ar1),
                ("AR10", self.ar10),
                ("AR100", self.ar),
                ("AR_small", self.ar_small),
                ("AR_medium", self.ar_medium),
                ("AR_large", self.ar_large),
            ],
        }
    }
}

impl fmt::Display for CocoSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.numbers();
        let text: Vec<String> = numbers
            .iter()
            .map(|(name, v)| format!("{name} {v:.4}"))
            .collect();
        f.write_str(&text.join(", "))
    }
}

/// COCO's evaluation of detections: average precisions and recalls of boxes, masks or key points, equal to those of
/// pycocotools (Lin and others, 2014).
///
/// Each update takes what was found in some images and what is there. The best 100 detections of a class in an image
/// count, of key points 20. Objects that are crowds need not be found, and take in any number of detections.
///
/// ```
/// use torsh_tensor::tensor;
/// use torsh_train::metrics::{CocoEvaluation, CocoKind, FoundObjects, TrueObjects};
/// let mut coco = CocoEvaluation::new(CocoKind::Boxes);
/// let there = TrueObjects::new(tensor![[0.0, 0.0, 50.0, 50.0], [60.0, 0.0, 80.0, 20.0]], tensor![1, 1]);
/// let found = FoundObjects::new(tensor![[0.0, 0.0, 50.0, 40.0]], tensor![0.9], tensor![1]);
/// coco.update(&[found], &[there])?;
/// let summary = coco.compute()?;
/// // One of two objects is found, at the thresholds up to 0.8.
/// assert_eq!(summary.ar, 0.35);
/// assert!((summary.ap50 - 51.0 / 101.0).abs() < 1e-12);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CocoEvaluation {
    name: String,
    kind: CocoKind,
    sizes: bool,
    sigmas: Vec<f64>,
    /// By class, in the order of the images.
    classes: BTreeMap<i64, Vec<Seen>>,
    images: u64,
}

/// The objects or detections of one image.
struct Objects {
    rects: Vec<Rect>,
    labels: Vec<i64>,
    masks: Vec<Mask>,
    points: Vec<Vec<[f64; 3]>>,
    areas: Vec<f64>,
    crowd: Vec<bool>,
}

impl CocoEvaluation {
    /// Of boxes, masks or key points.
    pub fn new(kind: CocoKind) -> CocoEvaluation {
        CocoEvaluation {
            name: "coco".into(),
            kind,
            sizes: false,
            sigmas: SIGMAS.map(|s| s / 10.0).to_vec(),
            classes: BTreeMap::new(),
            images: 0,
        }
    }

    /// Whether boxes are a corner and the sizes, as in COCO's files, instead of two corners.
    #[must_use]
    pub fn boxes_are_xywh(mut self, yes: bool) -> Self {
        self.sizes = yes;
        self
    }

    /// The standard deviations of key points, as parts of the root of the area. The default is those of people's 17.
    #[must_use]
    pub fn sigmas(mut self, sigmas: impl Into<Vec<f64>>) -> Self {
        self.sigmas = sigmas.into();
        self
    }

    named!();

    /// The name under which it is logged.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many detections of a class count in an image.
    fn most(&self) -> usize {
        if self.kind == CocoKind::Keypoints {
            20
        } else {
            100
        }
    }

    /// Boxes, classes, masks and points of an image; the masks' size.
    fn objects(
        &self,
        (boxes, labels): (&Tensor, &Tensor),
        (masks, points): (Option<&Tensor>, Option<&Tensor>),
    ) -> Result<(Objects, [usize; 2])> {
        let (op, n) = (&self.name, count(labels));
        let rects = match self.kind {
            // Only those of unlabelled objects matter.
            CocoKind::Keypoints | CocoKind::Masks if count(boxes) != n => vec![[0.0; 4]; n],
            _ => rects(op, boxes, self.sizes)?,
        };
        if rects.len() != n {
            let text = format!("{} boxes for {n} labels", rects.len());
            return Err(TorshError::shape(op.clone(), text));
        }
        let labels = rows(op, "labels", labels, n, 1)?
            .into_iter()
            .map(|l| l as i64)
            .collect();
        let (masks, size) = match self.kind {
            CocoKind::Masks => overlap::masks(op, masks, n)?,
            _ => Default::default(),
        };
        let points = match self.kind {
            CocoKind::Keypoints => overlap::points(op, points, n, self.sigmas.len())?,
            _ => Vec::new(),
        };
        let areas = match self.kind {
            CocoKind::Masks => masks.iter().map(|m| m.area).collect(),
            _ => rects.iter().map(|r| r[2] * r[3]).collect(),
        };
        let objects = Objects {
            rects,
            labels,
            masks,
            points,
            areas,
            crowd: vec![false; n],
        };
        Ok((objects, size))
    }

    /// Takes in some images: what was found in each, and what is there.
    ///
    /// # Errors
    /// If the lists have not one length, shapes do not go together, or masks or key points are missing.
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
        for (class, seen) in all.into_iter().flatten() {
            self.classes.entry(class).or_default().push(seen);
        }
        Ok(())
    }

    /// The classes of one image.
    fn image(&self, found: &FoundObjects, there: &TrueObjects) -> Result<Vec<(i64, Seen)>> {
        let op = &self.name;
        let (mut f, found_size) = self.objects(
            (&found.boxes, &found.labels),
            (found.masks.as_ref(), found.keypoints.as_ref()),
        )?;
        let (mut t, there_size) = self.objects(
            (&there.boxes, &there.labels),
            (there.masks.as_ref(), there.keypoints.as_ref()),
        )?;
        if !f.masks.is_empty() && !t.masks.is_empty() && found_size != there_size {
            let text = format!(
                "masks of {found_size:?} pixels are found, and those of {there_size:?} are there"
            );
            return Err(TorshError::shape(op.clone(), text));
        }
        let scores = rows(op, "scores", &found.scores, f.labels.len(), 1)?;
        if scores.iter().any(|s| s.is_nan()) {
            return Err(TorshError::invalid(
                op.clone(),
                "a score is NaN, which has no rank",
            ));
        }
        let m = t.labels.len();
        if let Some(crowd) = &there.crowd {
            t.crowd = rows(op, "crowd", crowd, m, 1)?
                .iter()
                .map(|&c| c != 0.0)
                .collect();
        }
        if let Some(area) = &there.area {
            t.areas = rows(op, "area", area, m, 1)?;
        }
        if self.kind == CocoKind::Keypoints {
            // A detection's area is that of the box around its points.
            for (area, points) in f.areas.iter_mut().zip(&f.points) {
                let side = |k: usize| {
                    let all = points.iter().map(|p| p[k]);
                    let low = all.clone().fold(f64::INFINITY, f64::min);
                    all.fold(f64::NEG_INFINITY, f64::max) - low
                };
                *area = side(0) * side(1);
            }
        }
        let mut classes: Vec<i64> = f.labels.iter().chain(&t.labels).copied().collect();
        classes.sort_unstable();
        classes.dedup();
        let of = |labels: &[i64], class: i64| -> Vec<usize> {
            (0..labels.len()).filter(|&i| labels[i] == class).collect()
        };
        let one = |&class: &i64| {
            let own = of(&f.labels, class);
            let own_scores: Vec<f64> = own.iter().map(|&i| scores[i]).collect();
            let best = by_score(&own_scores).into_iter().take(self.most());
            let found: Vec<usize> = best.map(|i| own[i]).collect();
            (
                class,
                self.class((&f, &found, &scores), (&t, &of(&t.labels, class))),
            )
        };
        Ok(classes.iter().map(one).collect())
    }

    /// How far a detection and an object overlap.
    fn overlap(&self, (f, i): (&Objects, usize), (t, j): (&Objects, usize)) -> f64 {
        let areas = (f.areas[i], t.areas[j]);
        match self.kind {
            CocoKind::Boxes => {
                let (a, b) = (&f.rects[i], &t.rects[j]);
                overlap::of_areas(
                    overlap::shared(a, b),
                    (a[2] * a[3], b[2] * b[3]),
                    t.crowd[j],
                )
            }
            CocoKind::Masks => {
                let (a, b) = (&f.masks[i], &t.masks[j]);
                overlap::of_areas(a.shared(b), (a.area, b.area), t.crowd[j])
            }
            CocoKind::Keypoints => {
                let of = (&t.rects[j], areas.1);
                overlap::of_points(&f.points[i], &t.points[j], of, &self.sigmas)
            }
        }
    }

    /// Which detections of a class, best first, have which objects.
    fn class(
        &self,
        (f, found, scores): (&Objects, &[usize], &[f64]),
        (t, there): (&Objects, &[usize]),
    ) -> Seen {
        let mut seen = Seen {
            hits: found
                .iter()
                .map(|&i| Hit {
                    score: scores[i],
                    matched: [0; 4],
                    ignored: [0; 4],
                })
                .collect(),
            objects: [0; 4],
        };
        let overlaps: Vec<Vec<f64>> = found
            .iter()
            .map(|&i| {
                there
                    .iter()
                    .map(|&j| self.overlap((f, i), (t, j)))
                    .collect()
            })
            .collect();
        let unlabelled =
            |j: usize| self.kind == CocoKind::Keypoints && t.points[j].iter().all(|p| p[2] <= 0.0);
        for (range, &(low, high)) in AREAS.iter().enumerate() {
            let beyond = |area: f64| area < low || area > high;
            let ignored: Vec<bool> = there
                .iter()
                .map(|&j| t.crowd[j] || unlabelled(j) || beyond(t.areas[j]))
                .collect();
            seen.objects[range] = ignored.iter().filter(|i| !**i).count() as u64;
            // Objects that count come first.
            let mut order: Vec<usize> = (0..there.len()).collect();
            order.sort_by_key(|&j| ignored[j]);
            for level in 0..THRESHOLDS {
                let bit = 1u16 << level;
                let mut taken = vec![false; there.len()];
                for (i, hit) in seen.hits.iter_mut().enumerate() {
                    let mut best = threshold(level).min(1.0 - 1e-10);
                    let mut with: Option<usize> = None;
                    for &j in &order {
                        if taken[j] && !t.crowd[there[j]] {
                            continue;
                        }
                        // An object that counts is not given up for one that does not.
                        if with.is_some_and(|w| !ignored[w]) && ignored[j] {
                            break;
                        }
                        if overlaps[i][j] < best {
                            continue;
                        }
                        (best, with) = (overlaps[i][j], Some(j));
                    }
                    let off = match with {
                        Some(j) => {
                            taken[j] = true;
                            hit.matched[range] |= bit;
                            ignored[j]
                        }
                        None => beyond(f.areas[found[i]]),
                    };
                    if off {
                        hit.ignored[range] |= bit;
                    }
                }
            }
        }
        seen
    }

    /// The precisions at the recalls, and the recall, of a class at a threshold; `None` where there is nothing to find.
    fn curve(images: &[Seen], level: usize, range: usize, most: usize) -> Option<(f64, f64)> {
        let objects: u64 = images.iter().map(|s| s.objects[range]).sum();
        if objects == 0 {
            return None;
        }
        let hits: Vec<&Hit> = images
            .iter()
            .flat_map(|s| s.hits.iter().take(most))
            .collect();
        let scores: Vec<f64> = hits.iter().map(|h| h.score).collect();
        let (mut right, mut wrong) = (0.0, 0.0);
        let (mut recalls, mut precisions) = (Vec::new(), Vec::new());
        for i in by_score(&scores) {
            let is = |bits: &[u16; 4]| bits[range] >> level & 1 == 1;
            if !is(&hits[i].ignored) {
                *if is(&hits[i].matched) {
                    &mut right
                } else {
                    &mut wrong
                } += 1.0;
            }
            recalls.push(right / objects as f64);
            precisions.push(right / (wrong + right + f64::EPSILON));
        }
        for i in (1..precisions.len()).rev() {
            precisions[i - 1] = f64::max(precisions[i - 1], precisions[i]);
        }
        let at = |r: usize| {
            let recall = spaced(0.0, 1.0, RECALLS, r);
            let first = recalls.partition_point(|&v| v < recall);
            precisions.get(first).copied().unwrap_or(0.0)
        };
        let precision = (0..RECALLS).map(at).sum::<f64>() / RECALLS as f64;
        Some((precision, recalls.last().copied().unwrap_or(0.0)))
    }

    /// The means over thresholds and classes of the precision and the recall.
    fn mean(&self, levels: std::ops::Range<usize>, range: usize, most: usize) -> (f64, f64) {
        let (mut sums, mut n) = ((0.0, 0.0), 0.0);
        for images in self.classes.values() {
            for level in levels.clone() {
                if let Some((precision, recall)) = CocoEvaluation::curve(images, level, range, most)
                {
                    sums = (sums.0 + precision, sums.1 + recall);
                    n += 1.0;
                }
            }
        }
        match n > 0.0 {
            true => (sums.0 / n, sums.1 / n),
            false => (-1.0, -1.0),
        }
    }

    /// The numbers over all images.
    ///
    /// # Errors
    /// If no image was taken in.
    #[torsh_tensor::names_caller]
    pub fn compute(&self) -> Result<CocoSummary> {
        if self.images == 0 {
            return Err(nothing(&self.name));
        }
        let most = self.most();
        let all = |range: usize| self.mean(0..THRESHOLDS, range, most);
        let (ap, ar) = all(ALL);
        let (ap50, ar50) = self.mean(0..1, ALL, most);
        let (ap75, ar75) = self.mean(5..6, ALL, most);
        let ((ap_small, ar_small), (ap_medium, ar_medium), (ap_large, ar_large)) =
            (all(SMALL), all(MEDIUM), all(LARGE));
        Ok(CocoSummary {
            kind: self.kind,
            ap,
            ap50,
            ap75,
            ap_small,
            ap_medium,
            ap_large,
            ar1: self.mean(0..THRESHOLDS, ALL, 1).1,
            ar10: self.mean(0..THRESHOLDS, ALL, 10).1,
            ar,
            ar50,
            ar75,
            ar_small,
            ar_medium,
            ar_large,
        })
    }

    /// The average precision of each class that has objects, over all thresholds.
    ///
    /// ```
    /// use torsh_tensor::tensor;
    /// use torsh_train::metrics::{CocoEvaluation, CocoKind, FoundObjects, TrueObjects};
    /// let mut coco = CocoEvaluation::new(CocoKind::Boxes);
    /// let boxes = tensor![[0.0, 0.0, 50.0, 50.0]];
    /// let found = FoundObjects::new(boxes.clone(), tensor![0.9], tensor![3]);
    /// coco.update(&[found], &[TrueObjects::new(boxes, tensor![3])])?;
    /// let (class, precision) = coco.per_class()[0];
    /// assert!(class == 3 && (precision - 1.0).abs() < 1e-12);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn per_class(&self) -> Vec<(i64, f64)> {
        let of = |(&class, images): (&i64, &Vec<Seen>)| {
            let all =
                (0..THRESHOLDS).map(|level| CocoEvaluation::curve(images, level, ALL, self.most()));
            let all: Vec<f64> = all.flatten().map(|(precision, _)| precision).collect();
            match all.is_empty() {
                true => None,
                false => Some((class, all.iter().sum::<f64>() / all.len() as f64)),
            }
        };
        self.classes.iter().filter_map(of).collect()
    }

    /// Forgets all images.
    pub fn reset(&mut self) {
        self.classes.clear();
        self.images = 0;
    }

    /// What the images left, for [`CocoEvaluation::merge`] and for checkpoints.
    ///
    /// # Errors
    /// None so far.
    #[torsh_tensor::names_caller]
    pub fn state(&self) -> Result<Value> {
        let bits = |b: &[u16; 4]| b.iter().fold(0i64, |all, &b| all << 16 | i64::from(b));
        let hit = |h: &Hit| {
            Value::List(vec![
                h.score.into(),
                Value::Int(bits(&h.matched)),
                Value::Int(bits(&h.ignored)),
            ])
        };
        let seen = |s: &Seen| {
            Value::from([
                (
                    "objects",
                    Value::List(s.objects.iter().map(|&n| n.into()).collect()),
                ),
                ("hits", Value::List(s.hits.iter().map(hit).collect())),
            ])
        };
        let class = |(&class, images): (&i64, &Vec<Seen>)| {
            let images = Value::List(images.iter().map(seen).collect());
            Value::from([("class", Value::Int(class)), ("images", images)])
        };
        Ok(Value::from([
            ("images", self.images.into()),
            (
                "classes",
                Value::List(self.classes.iter().map(class).collect()),
            ),
        ]))
    }

    /// Takes in the images of another metric of the same settings, after its own.
    ///
    /// # Errors
    /// If the state is not that of such a metric.
    #[torsh_tensor::names_caller]
    pub fn merge(&mut self, state: &Value) -> Result<()> {
        let bits = |v: &Value| -> Result<[u16; 4]> {
            let all = v.as_int()?;
            Ok(std::array::from_fn(|i| (all >> (16 * (3 - i))) as u16))
        };
        let mut classes: Vec<(i64, Vec<Seen>)> = Vec::new();
        for class in state.get("classes")?.as_list()? {
            let mut images = Vec::new();
            for seen in class.get("images")?.as_list()? {
                let counts = seen.get("objects")?.as_list()?;
                let counts = counts
                    .iter()
                    .map(|n| crate::metrics::count_of(&self.name, n));
                let counts = counts.collect::<Result<Vec<_>>>()?;
                let Ok(objects) = <[u64; 4]>::try_from(counts) else {
                    return Err(other_state(
                        &self.name,
                        "there are not four ranges of areas",
                    ));
                };
                let mut hits = Vec::new();
                for hit in seen.get("hits")?.as_list()? {
                    let [score, matched, ignored] = hit.as_list()? else {
                        return Err(other_state(&self.name, "a detection has not three numbers"));
                    };
                    hits.push(Hit {
                        score: score.as_float()?,
                        matched: bits(matched)?,
                        ignored: bits(ignored)?,
                    });
                }
                images.push(Seen { hits, objects });
            }
            classes.push((class.get("class")?.as_int()?, images));
        }
        self.images += crate::metrics::count_of(&self.name, state.get("images")?)?;
        for (class, images) in classes {
            self.classes.entry(class).or_default().extend(images);
        }
        Ok(())
    }
}
