//! Recurrent layers: the kernel of one layer and direction, and its derivatives.

pub(crate) mod network;

pub(crate) use network::RECORDS as NETWORKS;
pub use network::RnnOptions;

use smallvec::SmallVec;
use torsh_core::attrs::{self, RnnMode as Mode};
use torsh_core::{Kernel, Result, Shape, TorshError};

use super::batch_norm::wide;
use crate::call::{Arg, Outputs, call};
use crate::record::{Backward, OpRecord, Plan, PlanCx, Spec};
use crate::{BackwardCx, Grads, Tensor};

pub(crate) const RECORDS: &[&OpRecord] = &[&RNN, &RNN_BACKWARD];

/// One layer and direction over all steps, in one kernel. Operands: the gates' sums over the input,
/// first hidden state, first cells, weight, bias of a GRU's hidden part, projection. Results:
/// output, last hidden state, last cells, what backward reads. The CPU's `rnn` explains their sizes.
pub static RNN: OpRecord = OpRecord::new(
    "_rnn",
    "One layer of a recurrent network in one direction: each step's hidden state from the step before and the input.",
    "(Tensor sums, Tensor h0, Tensor? c0, Tensor weight, Tensor? bias, Tensor? projection, *, str mode, bool reverse, int[] batch_sizes)",
)
.internal()
.kernel(Kernel::Rnn, plan)
.backward(Backward::Full { inputs: 0b11_1111, outputs: 0b1001, constant: 0b1000, formula: gradients });

/// The gradients of [`RNN`] in one kernel, for when they are not differentiated again.
pub static RNN_BACKWARD: OpRecord = OpRecord::new(
    "_rnn_backward",
    "The gradients of _rnn.",
    "(Tensor grad_output, Tensor? grad_h, Tensor? grad_c, Tensor h0, Tensor? c0, Tensor weight, Tensor? projection, Tensor output, Tensor saved, *, str mode, bool reverse, int[] batch_sizes, bool weight_grad)",
)
.internal()
    .kernel(Kernel::RnnBackward, |c| {
        let (dy, h0, c0) = (c.tensor(0)?, c.tensor(3)?, c.opt_tensor(4));
        let (w, projection) = (c.tensor(5)?, c.opt_tensor(6));
        let a = c.attrs::<attrs::RnnBackward>()?;
        let (rows, p, width) = (dy.dims()[0], h0.dims()[1], w.dims()[0]);
        let none = Shape::new(&[0]);
        let ahead = match a.weight_grad {
            true => dy.shape().clone(),
            false => none.clone(),
        };
        let hidden = match (a.mode, projection) {
            (Mode::Gru, _) => Shape::new(&[rows, width]),
            (_, Some(_)) => Shape::new(&[rows, p]),
            _ => none.clone(),
        };
        let projected = match projection {
            Some(w) => Shape::new(&[rows, w.dims()[1]]),
            None => none.clone(),
        };
        let shapes = [
            Shape::new(&[rows, width]),
            h0.shape().clone(),
            c0.map_or(none, |c| c.shape().clone()),
            ahead,
            hidden,
            projected,
        ];
        let dtype = dy.dtype();
        Ok(Plan::many(
            dtype,
            shapes.map(|shape| Spec::new(shape, dtype)),
        ))
    });

fn plan(c: &PlanCx<'_>) -> Result<Plan> {
    let (gx, h0, w) = (c.tensor(0)?, c.tensor(1)?, c.tensor(3)?);
    let mode = c.attrs::<attrs::Rnn>()?.mode;
    let dtype = gx.dtype();
    if !dtype.is_floating_point() {
        return Err(TorshError::dtype(
            "",
            format!("not implemented for {dtype}"),
        ));
    }
    for t in (1..c.len()).filter_map(|i| c.opt_tensor(i)) {
        if t.dtype() != dtype {
            return Err(TorshError::dtype(
                "",
                format!(
                    "the input is {dtype}, and a state or parameter is {}",
                    t.describe()
                ),
            ));
        }
    }
    let [batch, p] = h0.dims() else {
        return Err(TorshError::shape(
            "",
            format!("a state has 2 dimensions, got {}", h0.describe()),
        ));
    };
    let (rows, h) = (gx.dims()[0], w.dims()[0] / mode.gates());
    let none = Shape::new(&[0]);
    let lstm = mode == Mode::Lstm;
    Ok(Plan::many(
        dtype,
        [
            Spec::new(Shape::new(&[rows, *p]), dtype),
            Spec::new(h0.shape().clone(), dtype),
            Spec::new(if lstm { Shape::new(&[*batch, h]) } else { none }, dtype),
            Spec::new(Shape::new(&[rows, mode.saved() * h]), wide(dtype)),
        ],
    ))
}

/// The states and weights of one layer and direction.
struct Layer<'a> {
    attrs: &'a attrs::Rnn,
    h0: &'a Tensor,
    c0: Option<&'a Tensor>,
    weight: &'a Tensor,
    bias: Option<&'a Tensor>,
    projection: Option<&'a Tensor>,
}

impl Layer<'_> {
    /// Output, last hidden state and last cells for the gates' sums over the input.
    fn run(&self, gx: &Tensor) -> Result<Outputs> {
        call(
            &RNN,
            &[
                Arg::T(gx),
                Arg::T(self.h0),
                Arg::opt(self.c0),
                Arg::T(self.weight),
                Arg::opt(self.bias),
                Arg::opt(self.projection),
            ],
            self.attrs,
        )
    }

    /// The same in plain ops.
    fn by_ops(&self, gx: &Tensor) -> Result<[Option<Tensor>; 3]> {
        let attrs::Rnn {
            reverse,
            batch_sizes,
            ..
        } = self.attrs;
        let mut starts = Vec::with_capacity(batch_sizes.len());
        let mut at = 0;
        for &n in &batch_sizes[..] {
            starts.push((at, n));
            at += n;
        }
        if *reverse {
            starts.reverse();
        }
        let mut states = [Some(self.h0.clone()), self.c0.cloned()];
        let mut outputs = Vec::with_capacity(starts.len());
        for (at, rows) in starts {
            let part = |t: &Option<Tensor>| t.as_ref().map(|t| t.narrow(0, 0, rows)).transpose();
            let (h, c) = (part(&states[0])?, part(&states[1])?);
            let Some(h) = h else { continue };
            let step = self.step(&gx.narrow(0, at, rows)?, &h, c.as_ref())?;
            outputs.push(step[0].clone());
            for (state, new) in states.iter_mut().zip(step) {
                if let (Some(old), Some(new)) = (&*state, new) {
                    let rest = old.dims()[0] as i64 - rows;
                    *state = Some(match rest {
                        0 => new,
                        _ => Tensor::cat(&[new, old.narrow(0, rows, rest)?], 0)?,
                    });
                }
            }
        }
        if *reverse {
            outputs.reverse();
        }
        let outputs: Vec<Tensor> = outputs.into_iter().flatten().collect();
        let [h, c] = states;
        Ok([Some(Tensor::cat(&outputs, 0)?), h, c])
    }

    /// Hidden state and cells of one step in plain ops.
    fn step(&self, x: &Tensor, h: &Tensor, c: Option<&Tensor>) -> Result<[Option<Tensor>; 2]> {
        let sums = h.linear(self.weight, self.bias)?;
        match (self.attrs.mode, c) {
            (Mode::Tanh, _) => Ok([Some(x.add(&sums)?.tanh()?), None]),
            (Mode::Relu, _) => Ok([Some(x.add(&sums)?.relu()?), None]),
            (Mode::Lstm, Some(c)) => {
                let gates = x.add(&sums)?.chunk(4, 1)?;
                let [i, f, g, o] = &gates[..] else {
                    return Err(TorshError::shape("", "an LSTM has four gates"));
                };
                let c = f.sigmoid()?.mul(c)?.add(&i.sigmoid()?.mul(&g.tanh()?)?)?;
                let mut h = o.sigmoid()?.mul(&c.tanh()?)?;
                if let Some(projection) = self.projection {
                    h = h.linear(projection, None)?;
                }
                Ok([Some(h), Some(c)])
            }
            (Mode::Lstm, None) => Err(TorshError::invalid("", "an LSTM needs first cells")),
            (Mode::Gru, _) => {
                let (x, sums) = (x.chunk(3, 1)?, sums.chunk(3, 1)?);
                let ([xr, xz, xn], [hr, hz, hn]) = (&x[..], &sums[..]) else {
                    return Err(TorshError::shape("", "a GRU has three gates"));
                };
                let r = xr.add(hr)?.sigmoid()?;
                let z = xz.add(hz)?.sigmoid()?;
                let n = xn.add(&r.mul(hn)?)?.tanh()?;
                Ok([Some(h.sub(&n)?.mul(&z)?.add(&n)?), None])
            }
        }
    }
}

fn gradients(c: &BackwardCx<'_>) -> Result<Grads> {
    if crate::is_grad_enabled() {
        return by_ops(c);
    }
    let optional = |i: usize| c.has_input(i).then(|| c.input(i)).transpose();
    let (h0, c0, w, projection) = (c.input(1)?, optional(2)?, c.input(3)?, optional(5)?);
    let (out, saved) = (c.output(0)?, c.output(3)?);
    let attrs::Rnn {
        mode,
        reverse,
        batch_sizes,
    } = c.attrs()?;
    let grads = call(
        &RNN_BACKWARD,
        &[
            Arg::T(c.g()),
            Arg::opt(c.grad(1)),
            Arg::opt(c.grad(2)),
            Arg::T(&h0),
            Arg::opt(c0.as_ref()),
            Arg::T(&w),
            Arg::opt(projection.as_ref()),
            Arg::T(&out),
            Arg::T(&saved),
        ],
        &attrs::RnnBackward {
            mode: *mode,
            reverse: *reverse,
            batch_sizes: batch_sizes.clone(),
            weight_grad: c.needs(3),
        },
    )?;
    let [gx, h0, c0, ahead, hidden, projected] = &grads[..] else {
        return Err(TorshError::autograd(
            "_rnn",
            "its backward kernel has six results",
        ));
    };
    let sums = match mode {
        Mode::Gru => hidden,
        _ => gx,
    };
    let when = |i: usize, g: &dyn Fn() -> Result<Tensor>| c.needs(i).then(g).transpose();
    Ok(SmallVec::from_iter([
        when(0, &|| Ok(gx.clone()))?,
        when(1, &|| Ok(h0.clone()))?,
        when(2, &|| Ok(c0.clone()))?,
        when(3, &|| sums.t()?.matmul(ahead))?,
        when(4, &|| sums.sum_dim(0, false))?,
        when(5, &|| hidden.t()?.matmul(projected))?,
    ]))
}

/// The gradients in ops that have derivatives: those of the same computation in plain ops.
fn by_ops(c: &BackwardCx<'_>) -> Result<Grads> {
    let mut inputs: [Option<Tensor>; 6] = Default::default();
    let mut wanted = Vec::new();
    for (i, slot) in inputs.iter_mut().enumerate() {
        if c.has_input(i) {
            let mut t = c.input(i)?;
            if c.needs(i) {
                // A view: one operand's history may contain another, and only what this layer
                // makes of each is asked for.
                t = t.view_as(&t)?;
                wanted.push((i, t.clone()));
            }
            *slot = Some(t);
        }
    }
    let [Some(gx), Some(h0), c0, Some(weight), bias, projection] = &inputs else {
        return Err(TorshError::autograd("_rnn", "its operands were not kept"));
    };
    let layer = Layer {
        attrs: c.attrs()?,
        h0,
        c0: c0.as_ref(),
        weight,
        bias: bias.as_ref(),
        projection: projection.as_ref(),
    };
    let (mut outputs, mut weights) = (Vec::new(), Vec::new());
    for (i, out) in layer.by_ops(gx)?.into_iter().enumerate() {
        if let (Some(out), Some(g)) = (out.filter(Tensor::requires_grad), c.grad(i)) {
            outputs.push(out);
            weights.push(Some(g.clone()));
        }
    }
    let (places, tensors): (Vec<usize>, Vec<Tensor>) = wanted.into_iter().unzip();
    let found = crate::grad(&outputs, &tensors, &weights, true, true, true)?;
    let mut grads: Grads = SmallVec::from_elem(None, 6);
    for (i, g) in places.into_iter().zip(found) {
        grads[i] = g;
    }
    Ok(grads)
}
