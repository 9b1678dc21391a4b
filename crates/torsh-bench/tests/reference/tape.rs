//! Numbers in float64 that know their derivatives: each is noted with the numbers it was made from
//! and its derivative by each of them.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Sub};

#[derive(Default)]
struct Tape {
    values: Vec<f64>,
    /// Where the edges of each number end.
    ends: Vec<usize>,
    edges: Vec<(u32, f64)>,
}

thread_local! {
    static TAPE: RefCell<Tape> = RefCell::default();
}

/// A number on the tape.
#[derive(Clone, Copy, Debug)]
pub struct V(u32);

/// Notes a number and its derivatives by others.
fn note(value: f64, edges: impl IntoIterator<Item = (V, f64)>) -> V {
    TAPE.with_borrow_mut(|t| {
        let id = t.values.len() as u32;
        t.values.push(value);
        t.edges.extend(edges.into_iter().map(|(v, d)| (v.0, d)));
        t.ends.push(t.edges.len());
        V(id)
    })
}

/// Forgets all numbers.
pub fn clear() {
    TAPE.take();
}

/// The derivatives of a number by every one before it.
pub fn gradients(of: V) -> Vec<f64> {
    TAPE.with_borrow(|t| {
        let mut g = vec![0.0; of.0 as usize + 1];
        g[of.0 as usize] = 1.0;
        for i in (0..g.len()).rev() {
            let start = if i == 0 { 0 } else { t.ends[i - 1] };
            for &(from, d) in &t.edges[start..t.ends[i]] {
                g[from as usize] += g[i] * d;
            }
        }
        g
    })
}

impl V {
    /// A number that depends on nothing.
    pub fn new(x: f64) -> V {
        note(x, [])
    }
    pub fn get(self) -> f64 {
        TAPE.with_borrow(|t| t.values[self.0 as usize])
    }
    /// Its derivative among those of [`gradients`].
    pub fn of(self, gradients: &[f64]) -> f64 {
        gradients.get(self.0 as usize).copied().unwrap_or(0.0)
    }
    pub fn scale(self, by: f64) -> V {
        note(self.get() * by, [(self, by)])
    }
    pub fn exp(self) -> V {
        let y = self.get().exp();
        note(y, [(self, y)])
    }
    pub fn ln(self) -> V {
        note(self.get().ln(), [(self, 1.0 / self.get())])
    }
    pub fn tanh(self) -> V {
        let y = self.get().tanh();
        note(y, [(self, 1.0 - y * y)])
    }
    pub fn sigmoid(self) -> V {
        let y = 1.0 / (1.0 + (-self.get()).exp());
        note(y, [(self, y * (1.0 - y))])
    }
    pub fn relu(self) -> V {
        let x = self.get();
        note(x.max(0.0), [(self, f64::from(x > 0.0))])
    }
    pub fn gelu(self) -> V {
        let x = self.get();
        let cdf = 0.5 * (1.0 + libm::erf(x / 2f64.sqrt()));
        let pdf = (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
        note(x * cdf, [(self, cdf + x * pdf)])
    }
    /// `1 / sqrt(x)`.
    pub fn rsqrt(self) -> V {
        let y = self.get().sqrt().recip();
        note(y, [(self, -0.5 * y * y * y)])
    }
}

/// The sum of the products of pairs.
pub fn dot(pairs: impl IntoIterator<Item = (V, V)>) -> V {
    let pairs: Vec<(V, V)> = pairs.into_iter().collect();
    let value = pairs.iter().map(|(a, b)| a.get() * b.get()).sum();
    let edges: Vec<(V, f64)> = pairs
        .iter()
        .flat_map(|&(a, b)| [(a, b.get()), (b, a.get())])
        .collect();
    note(value, edges)
}

pub fn sum(of: &[V]) -> V {
    let value = of.iter().map(|v| v.get()).sum();
    note(value, of.iter().map(|&v| (v, 1.0)))
}

pub fn mean(of: &[V]) -> V {
    sum(of).scale(1.0 / of.len() as f64)
}

/// The greatest of some.
pub fn greatest(of: impl IntoIterator<Item = V>) -> V {
    let first = of
        .into_iter()
        .reduce(|a, b| if b.get() > a.get() { b } else { a });
    first.unwrap()
}

impl Add for V {
    type Output = V;
    fn add(self, o: V) -> V {
        note(self.get() + o.get(), [(self, 1.0), (o, 1.0)])
    }
}
impl Sub for V {
    type Output = V;
    fn sub(self, o: V) -> V {
        note(self.get() - o.get(), [(self, 1.0), (o, -1.0)])
    }
}
impl Mul for V {
    type Output = V;
    fn mul(self, o: V) -> V {
        let (a, b) = (self.get(), o.get());
        note(a * b, [(self, b), (o, a)])
    }
}
impl Div for V {
    type Output = V;
    fn div(self, o: V) -> V {
        let (a, b) = (self.get(), o.get());
        note(a / b, [(self, 1.0 / b), (o, -a / (b * b))])
    }
}

/// The tape's derivatives are differences' limits.
#[test]
fn derivatives_are_those_of_differences() {
    let f = |x: [f64; 3]| {
        clear();
        let [a, b, c] = x.map(V::new);
        let y = dot([(a, b), (b.gelu(), c.tanh()), (a.exp(), c)]) / (b * b).exp().rsqrt();
        let z = y.sigmoid() - greatest([a, b, c]).relu() + mean(&[a, y]).scale(0.3);
        let out = z * (c * c).ln() + sum(&[a, a]);
        (out.get(), [a, b, c].map(|v| v.of(&gradients(out))))
    };
    let x = [0.3, -0.7, 1.1];
    let (_, g) = f(x);
    for i in 0..3 {
        let at = |d: f64| {
            let mut y = x;
            y[i] += d;
            f(y).0
        };
        let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
        assert!(
            (g[i] - difference).abs() < 1e-8,
            "{i}: {} {difference}",
            g[i]
        );
    }
}
