//! The models in plain loops, with the parameters of the modules in their order.

use torsh_bench::models::Model;

use crate::layers::*;
use crate::tape::{V, dot, mean};

/// Parameters and buffers, taken one after the other.
pub struct Values {
    pub parameters: Vec<T>,
    pub buffers: Vec<T>,
    /// What the buffers are after a step of training.
    pub updated: Vec<Vec<f64>>,
    pub training: bool,
    next: [usize; 2],
}

impl Values {
    pub fn new(parameters: Vec<T>, buffers: Vec<T>, training: bool) -> Values {
        let (updated, next) = (vec![], [0; 2]);
        Values {
            parameters,
            buffers,
            updated,
            training,
            next,
        }
    }

    fn parameter(&mut self, shape: &[usize]) -> T {
        let p = self.parameters[self.next[0]].clone();
        self.next[0] += 1;
        assert_eq!(p.shape, shape, "parameter {}", self.next[0]);
        p
    }

    fn buffer(&mut self) -> T {
        self.next[1] += 1;
        self.buffers[self.next[1] - 1].clone()
    }

    fn linear(&mut self, x: &T, outputs: usize) -> T {
        let w = self.parameter(&[outputs, x.width()]);
        linear(x, &w, &self.parameter(&[outputs]))
    }

    fn layer_norm(&mut self, x: &T) -> T {
        let w = self.parameter(&[x.width()]);
        layer_norm(x, &w, &self.parameter(&[x.width()]))
    }

    fn conv(&mut self, x: &T, outputs: usize, kernel: usize, stride: usize) -> T {
        let w = self.parameter(&[outputs, x.shape[1], kernel, kernel]);
        conv2d(x, &w, stride, [kernel / 2; 2], 1)
    }

    fn batch_norm(&mut self, x: &T) -> T {
        let c = x.shape[1];
        let (w, b) = (self.parameter(&[c]), self.parameter(&[c]));
        let (m, var, count) = (self.buffer(), self.buffer(), self.buffer());
        let given =
            (!self.training).then(|| m.v.iter().copied().zip(var.v.iter().copied()).collect());
        let (y, moments) = batch_norm(x, &w, &b, given);
        let n = (x.v.len() / c) as f64;
        let blend = |old: &T, new: &dyn Fn(&(V, V)) -> f64| -> Vec<f64> {
            let pairs = old.get().into_iter().zip(&moments);
            pairs.map(|(old, m)| 0.9 * old + 0.1 * new(m)).collect()
        };
        if self.training {
            self.updated.push(blend(&m, &|m| m.0.get()));
            self.updated
                .push(blend(&var, &|m| m.1.get() * n / (n - 1.0)));
            self.updated.push(vec![count.get()[0] + 1.0]);
        }
        y
    }

    /// Whether all were taken.
    pub fn spent(&self) -> bool {
        self.next == [self.parameters.len(), self.buffers.len()]
    }
}

fn flat(x: &T) -> T {
    let n = x.shape[0];
    T::new(&[n, x.v.len() / n], x.v.clone())
}

/// The output of a model, a row for each class's scores or as the input.
pub fn forward(model: &Model, x: &T, p: &mut Values) -> T {
    match *model {
        Model::Mlp { ref sizes, tanh } => {
            let mut x = x.clone();
            for (i, &size) in sizes[1..].iter().enumerate() {
                if i > 0 {
                    x = x.map(if tanh { V::tanh } else { V::relu });
                }
                x = p.linear(&x, size);
            }
            x
        }
        Model::Cnn {
            channels, classes, ..
        } => {
            let mut x = x.clone();
            for o in channels {
                let w = p.parameter(&[o, x.shape[1], 3, 3]);
                let (y, b) = (conv2d(&x, &w, 1, [1; 2], 1), p.parameter(&[o]));
                let side = y.shape[2] * y.shape[3];
                let biased = y.v.iter().enumerate().map(|(i, &v)| v + b.v[i / side % o]);
                x = max_pool(&T::new(&y.shape, biased.collect()).map(V::relu), 2, 2, 0);
            }
            p.linear(&flat(&x), classes)
        }
        Model::Gpt {
            symbols,
            width,
            layers,
            heads: n,
            length,
        } => {
            let (table, places) = (
                p.parameter(&[symbols, width]),
                p.parameter(&[length, width]),
            );
            let batch = x.v.len() / length;
            let mut v = Vec::new();
            for (i, symbol) in x.v.iter().enumerate() {
                for d in 0..width {
                    let at = symbol.get() as usize * width + d;
                    v.push(table.v[at] + places.v[i % length * width + d]);
                }
            }
            let mut x = T::new(&[batch, length, width], v);
            for _ in 0..layers {
                let (a, second) = (
                    p.layer_norm(&x),
                    [p.parameter(&[width]), p.parameter(&[width])],
                );
                let y = heads(&p.linear(&a, 3 * width), n, true);
                x = x.add(&p.linear(&y, width));
                let y = layer_norm(&x, &second[0], &second[1]);
                let y = p.linear(&y, 4 * width).map(V::gelu);
                x = x.add(&p.linear(&y, width));
            }
            let y = p.layer_norm(&x);
            let y = p.linear(&y, symbols);
            T::new(&[batch * length, symbols], y.v)
        }
        Model::Lstm {
            inputs,
            hidden,
            length,
            classes,
        } => {
            let (w, u) = (
                p.parameter(&[4 * hidden, inputs]),
                p.parameter(&[4 * hidden, hidden]),
            );
            let (b, c) = (p.parameter(&[4 * hidden]), p.parameter(&[4 * hidden]));
            let mut last = Vec::new();
            for sequence in x.v.chunks(length * inputs) {
                last.extend(lstm(sequence, &w, &u, &b, &c));
            }
            p.linear(&T::new(&[last.len() / hidden, hidden], last), classes)
        }
        Model::Vision { name, .. } => unreachable!("{name} is left out"),
        Model::ResNet18 { width, classes, .. } => {
            let x = p.conv(x, width, 7, 2);
            let mut x = max_pool(&p.batch_norm(&x).map(V::relu), 3, 2, 1);
            for (i, stride) in [1, 1, 2, 1, 2, 1, 2, 1].into_iter().enumerate() {
                let o = width << (i / 2);
                let shortcut = stride != 1 || x.shape[1] != o;
                let y = p.conv(&x, o, 3, stride);
                let y = p.batch_norm(&y).map(V::relu);
                let y = p.conv(&y, o, 3, 1);
                let y = p.batch_norm(&y);
                if shortcut {
                    x = p.conv(&x, o, 1, stride);
                    x = p.batch_norm(&x);
                }
                x = y.add(&x).map(V::relu);
            }
            let [n, c, h, w] = x.shape[..] else { panic!() };
            let means = x.v.chunks(h * w).map(mean).collect();
            p.linear(&T::new(&[n, c], means), classes)
        }
        Model::Encoder {
            layers,
            width,
            heads: n,
            inner,
            ..
        } => {
            let mut x = x.clone();
            for _ in 0..layers {
                let y = heads(&p.linear(&x, 3 * width), n, false);
                let y = x.add(&p.linear(&y, width));
                // The linear layers come before the normalisations, one of which is used first.
                let up = (p.parameter(&[inner, width]), p.parameter(&[inner]));
                let down = (p.parameter(&[width, inner]), p.parameter(&[width]));
                let y = p.layer_norm(&y);
                let z = linear(&linear(&y, &up.0, &up.1).map(V::gelu), &down.0, &down.1);
                x = p.layer_norm(&y.add(&z));
            }
            x
        }
    }
}

/// The last hidden state of a sequence.
fn lstm(x: &[V], w: &T, u: &T, b: &T, c: &T) -> Vec<V> {
    let (inputs, n) = (w.width(), u.width());
    let (mut h, mut cell) = (vec![V::new(0.0); n], vec![V::new(0.0); n]);
    for x in x.chunks(inputs) {
        let gate = |g: usize, j: usize| {
            let i = g * n + j;
            let of = |m: &T, v: &[V]| {
                dot(m.v[i * v.len()..(i + 1) * v.len()]
                    .iter()
                    .copied()
                    .zip(v.iter().copied()))
            };
            of(w, x) + of(u, &h) + b.v[i] + c.v[i]
        };
        let step = |j: usize| {
            let (i, f, o) = (
                gate(0, j).sigmoid(),
                gate(1, j).sigmoid(),
                gate(3, j).sigmoid(),
            );
            let new = f * cell[j] + i * gate(2, j).tanh();
            (o * new.tanh(), new)
        };
        (h, cell) = (0..n).map(step).unzip();
    }
    h
}
