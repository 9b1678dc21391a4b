//! Layers in plain loops over numbers of the tape.

use crate::tape::{V, dot, greatest, mean, sum};

/// A tensor in plain rows.
#[derive(Clone, Debug)]
pub struct T {
    pub shape: Vec<usize>,
    pub v: Vec<V>,
}

impl T {
    pub fn new(shape: &[usize], v: Vec<V>) -> T {
        assert_eq!(shape.iter().product::<usize>(), v.len());
        let shape = shape.to_vec();
        T { shape, v }
    }
    pub fn numbers(shape: &[usize], x: &[f64]) -> T {
        T::new(shape, x.iter().map(|&x| V::new(x)).collect())
    }
    pub fn get(&self) -> Vec<f64> {
        self.v.iter().map(|v| v.get()).collect()
    }
    /// As matrix of rows: the size of the last dimension.
    pub fn width(&self) -> usize {
        *self.shape.last().unwrap()
    }
    pub fn rows(&self) -> impl Iterator<Item = &[V]> {
        self.v.chunks(self.width())
    }
    pub fn map(&self, f: impl Fn(V) -> V) -> T {
        T::new(&self.shape, self.v.iter().map(|&v| f(v)).collect())
    }
    pub fn add(&self, o: &T) -> T {
        assert_eq!(self.shape, o.shape);
        let v = self.v.iter().zip(&o.v).map(|(&a, &b)| a + b).collect();
        T::new(&self.shape, v)
    }
    /// Each row by a function.
    pub fn by_row(&self, f: impl Fn(&[V]) -> Vec<V>) -> T {
        T::new(&self.shape, self.rows().flat_map(f).collect())
    }
}

/// `x w^T + b` for every row.
pub fn linear(x: &T, w: &T, b: &T) -> T {
    let outputs = w.shape[0];
    let mut v = Vec::new();
    for row in x.rows() {
        for (o, weights) in w.rows().enumerate() {
            v.push(dot(row.iter().copied().zip(weights.iter().copied())) + b.v[o]);
        }
    }
    let mut shape = x.shape.clone();
    *shape.last_mut().unwrap() = outputs;
    T::new(&shape, v)
}

/// A convolution of `[n, c, h, w]` with `[o, c / groups, k, l]`.
pub fn conv2d(x: &T, w: &T, stride: usize, padding: [usize; 2], groups: usize) -> T {
    let [n, c, h, wd] = x.shape[..] else { panic!() };
    let [o, each, k, l] = w.shape[..] else {
        panic!()
    };
    assert_eq!(each * groups, c);
    let (oh, ow) = (
        (h + 2 * padding[0] - k) / stride + 1,
        (wd + 2 * padding[1] - l) / stride + 1,
    );
    let mut v = Vec::new();
    for (b, f, y, z) in quads(n, o, oh, ow) {
        let group = f / (o / groups);
        let mut pairs = Vec::new();
        for (i, p, q) in triples(each, k, l) {
            let (r, s) = (y * stride + p, z * stride + q);
            if r < padding[0] || s < padding[1] || r >= h + padding[0] || s >= wd + padding[1] {
                continue;
            }
            let at = ((b * c + group * each + i) * h + r - padding[0]) * wd + s - padding[1];
            pairs.push((x.v[at], w.v[((f * each + i) * k + p) * l + q]));
        }
        v.push(dot(pairs));
    }
    T::new(&[n, o, oh, ow], v)
}

fn triples(a: usize, b: usize, c: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..a * b * c).map(move |i| (i / (b * c), i / c % b, i % c))
}

pub fn quads(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
) -> impl Iterator<Item = (usize, usize, usize, usize)> {
    (0..a * b * c * d).map(move |i| (i / (b * c * d), i / (c * d) % b, i / d % c, i % d))
}

/// What `f` makes of each window's elements, those outside of the image left out.
pub fn pool(x: &T, kernel: usize, stride: usize, padding: usize, f: impl Fn(Vec<V>) -> V) -> T {
    let [n, c, h, w] = x.shape[..] else { panic!() };
    let size = |n: usize| (n + 2 * padding - kernel) / stride + 1;
    let mut v = Vec::new();
    for (b, i, y, z) in quads(n, c, size(h), size(w)) {
        let mut window = Vec::new();
        for (_, p, q) in triples(1, kernel, kernel) {
            let (r, s) = (y * stride + p, z * stride + q);
            if r >= padding && s >= padding && r < h + padding && s < w + padding {
                window.push(x.v[((b * c + i) * h + r - padding) * w + s - padding]);
            }
        }
        v.push(f(window));
    }
    T::new(&[n, c, size(h), size(w)], v)
}

pub fn max_pool(x: &T, kernel: usize, stride: usize, padding: usize) -> T {
    pool(x, kernel, stride, padding, greatest)
}

pub fn avg_pool(x: &T, kernel: usize) -> T {
    pool(x, kernel, kernel, 0, |w| mean(&w))
}

/// Mean and variance (over all, not all but one).
pub fn moments(of: &[V]) -> (V, V) {
    let m = mean(of);
    let squares: Vec<V> = of.iter().map(|&v| (v - m) * (v - m)).collect();
    (m, mean(&squares))
}

fn normal(of: V, (m, var): (V, V), w: V, b: V) -> V {
    (of - m) * (var + V::new(1e-5)).rsqrt() * w + b
}

pub fn layer_norm(x: &T, w: &T, b: &T) -> T {
    x.by_row(|row| {
        let m = moments(row);
        let each = row.iter().zip(w.v.iter().zip(&b.v));
        each.map(|(&v, (&w, &b))| normal(v, m, w, b)).collect()
    })
}

/// Batch normalisation with the moments of each channel, which it also gives: those given, or the
/// batch's own.
pub fn batch_norm(x: &T, w: &T, b: &T, given: Option<Vec<(V, V)>>) -> (T, Vec<(V, V)>) {
    let [n, c, h, wd] = x.shape[..] else { panic!() };
    let moments = given.unwrap_or_else(|| {
        let channel = |i: usize| -> Vec<V> {
            let of = quads(n, c, h, wd)
                .zip(&x.v)
                .filter(|((_, j, _, _), _)| *j == i);
            of.map(|(_, &v)| v).collect()
        };
        (0..c).map(|i| moments(&channel(i))).collect()
    });
    let each = quads(n, c, h, wd).zip(&x.v);
    let v = each.map(|((_, i, _, _), &v)| normal(v, moments[i], w.v[i], b.v[i]));
    (T::new(&x.shape, v.collect()), moments)
}

pub fn softmax(row: &[V]) -> Vec<V> {
    let most = V::new(row.iter().map(|v| v.get()).fold(f64::MIN, f64::max));
    let e: Vec<V> = row.iter().map(|&v| (v - most).exp()).collect();
    let total = sum(&e);
    e.iter().map(|&e| e / total).collect()
}

/// The mean of the rows' cross-entropies with their classes.
pub fn cross_entropy(x: &T, classes: &[f64]) -> V {
    let each: Vec<V> = x
        .rows()
        .zip(classes)
        .map(|(row, &class)| softmax(row)[class as usize].ln().scale(-1.0))
        .collect();
    mean(&each)
}

/// Attention of `[batch, heads, length, width]`.
pub fn attention(q: &T, k: &T, v: &T, causal: bool) -> T {
    attention_where(q, k, v, |i, j| !causal || j <= i)
}

/// The same, of keys that a query sees.
pub fn attention_where(q: &T, k: &T, v: &T, sees: impl Fn(usize, usize) -> bool) -> T {
    let [b, h, l, w] = q.shape[..] else { panic!() };
    let row = |t: &T, i: usize| t.v[i * w..(i + 1) * w].to_vec();
    let mut out = Vec::new();
    for (_, head, i) in triples(1, b * h, l) {
        let seen: Vec<usize> = (0..l).filter(|&j| sees(i, j)).collect();
        let query = row(q, head * l + i);
        let score = |j: usize| {
            let key = row(k, head * l + j);
            dot(query.iter().copied().zip(key)).scale(1.0 / (w as f64).sqrt())
        };
        let p = softmax(&seen.iter().map(|&j| score(j)).collect::<Vec<_>>());
        for d in 0..w {
            let values = seen.iter().map(|&j| v.v[(head * l + j) * w + d]);
            out.push(dot(p.iter().copied().zip(values)));
        }
    }
    T::new(&q.shape, out)
}

/// Attention of several heads of a part of the width each, from queries, keys and values side by
/// side: `[batch, length, 3 width]` to `[batch, length, width]`.
pub fn heads(qkv: &T, heads: usize, causal: bool) -> T {
    let [b, l, three] = qkv.shape[..] else {
        panic!()
    };
    let (width, each) = (three / 3, three / 3 / heads);
    let part = |p: usize| {
        let at = quads(b, heads, l, each)
            .map(|(b, h, i, d)| qkv.v[(b * l + i) * three + p * width + h * each + d]);
        T::new(&[b, heads, l, each], at.collect())
    };
    let y = attention(&part(0), &part(1), &part(2), causal);
    let v = quads(b, l, heads, each).map(|(b, i, h, d)| y.v[((b * heads + h) * l + i) * each + d]);
    T::new(&[b, l, width], v.collect())
}
