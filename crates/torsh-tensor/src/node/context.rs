//! What a backward formula reads of its node.

use torsh_core::attrs::Field;
use torsh_core::{Attributes, DType, Device, Result, Scalar, Shape, Shared, TorshError};

use super::{Edge, Kind, Node, SavedArg, SavedSet, Source};
use crate::Tensor;

/// What a backward formula reads.
pub struct BackwardCx<'a> {
    pub(crate) node: &'a Shared<Node>,
    pub(crate) saved: &'a SavedSet,
    pub(crate) grads: &'a [Option<Tensor>],
    /// Zeros of output 0, where it got no gradient.
    pub(crate) first: Option<Tensor>,
    /// Which operands' gradients are wanted; a bit each.
    pub(crate) wanted: u64,
}

impl BackwardCx<'_> {
    /// The gradient of output 0; zeros where only other outputs got one. A formula of several outputs asks
    /// [`grad`](BackwardCx::grad) for what it can leave out.
    pub fn g(&self) -> &Tensor {
        match self.grads[0].as_ref().or(self.first.as_ref()) {
            Some(g) => g,
            None => unreachable!("the engine provides the gradient of output 0"),
        }
    }

    /// The gradient of output `i`, where it got one.
    pub fn grad(&self, i: usize) -> Option<&Tensor> {
        self.grads.get(i).and_then(Option::as_ref)
    }

    /// Whether the gradient of operand `i` is wanted.
    pub fn needs(&self, i: usize) -> bool {
        // The last bit stands for all operands from the 64th on.
        self.wanted & (1 << i.min(63)) != 0
    }

    /// Operand `i`, with its history; a number comes as a 0-d tensor.
    pub fn input(&self, i: usize) -> Result<Tensor> {
        match self.saved.inputs.get(i) {
            Some(SavedArg::Tensor(s)) => s.unpack(
                || self.node.inputs[i].edge.clone(),
                || match &self.node.inputs[i].edge {
                    Some(e) => format!("output {} of {}", e.output_nr, e.node.name()),
                    None => "a tensor that requires no gradient".to_string(),
                },
            ),
            // Formulas compute with it, which a bool would refuse.
            Some(SavedArg::Number(Scalar::Bool(b))) => {
                Tensor::from_number(Scalar::Int(*b as i64), DType::I64)
            }
            // In full precision: a 0-d tensor does not widen those it is computed with, but other 0-d
            // ones, so that it is no wider than their device takes.
            Some(SavedArg::Number(n @ Scalar::Float(_))) => {
                let device = self.node.outputs.first().map_or(Device::Cpu, |o| o.device);
                Tensor::from_number(*n, crate::call::widest(device)?)
            }
            Some(SavedArg::Number(n @ Scalar::Complex(..))) => Tensor::from_number(*n, DType::C128),
            Some(SavedArg::Number(n)) => Tensor::from_number(*n, n.dtype()),
            _ => Err(self.not_saved(i)),
        }
    }

    /// The first operand.
    pub fn x(&self) -> Result<Tensor> {
        self.input(0)
    }
    /// The second operand.
    pub fn y(&self) -> Result<Tensor> {
        self.input(1)
    }
    /// The third operand.
    pub fn z(&self) -> Result<Tensor> {
        self.input(2)
    }

    /// Whether an optional operand was given (and saved).
    pub fn has_input(&self, i: usize) -> bool {
        !matches!(self.saved.inputs.get(i), None | Some(SavedArg::Nothing))
    }

    /// Result `i`, with its history.
    pub fn output(&self, i: usize) -> Result<Tensor> {
        match self.saved.outputs.get(i) {
            Some(Some(s)) => s.unpack(
                || {
                    Some(Edge {
                        node: self.node.clone(),
                        output_nr: i as u32,
                    })
                },
                || format!("output {i} of {}", self.node.name()),
            ),
            _ => Err(self.not_saved(i)),
        }
    }

    /// Tensor `i` that a user's function saved, with its history.
    pub(crate) fn custom_saved(&self, i: usize) -> Result<Tensor> {
        let Kind::Custom { sources, .. } = &self.node.kind else {
            return Err(self.not_saved(i));
        };
        let edge = match sources.get(i) {
            Some(Source::Input(k)) => self.node.inputs[*k].edge.clone(),
            Some(Source::Output(k)) => Some(Edge {
                node: self.node.clone(),
                output_nr: *k as u32,
            }),
            _ => None,
        };
        match self.saved.inputs.get(i) {
            Some(SavedArg::Tensor(s)) => {
                let t = s.unpack(
                    || edge,
                    || format!("saved tensor {i} of {}", self.node.name()),
                )?;
                // What a user's function does to it is not to be seen in the node.
                Ok(if t.is_same(&s.data) {
                    t.without_history()
                } else {
                    t
                })
            }
            _ => Err(self.not_saved(i)),
        }
    }

    /// Result 0.
    pub fn out(&self) -> Result<Tensor> {
        self.output(0)
    }

    #[cold]
    fn not_saved(&self, i: usize) -> TorshError {
        TorshError::autograd(
            self.node.name(),
            format!("the derivative reads value {i}, which its record does not save"),
        )
    }

    /// What the call was given beside its tensors.
    pub fn attributes(&self) -> &dyn Attributes {
        match &self.node.kind {
            Kind::Op { attrs, .. } => attrs.get(),
            _ => torsh_core::attrs::NONE,
        }
    }

    /// The call's attributes, of the op's struct.
    ///
    /// # Errors
    /// Where the call has another struct.
    pub fn attrs<T: Attributes>(&self) -> Result<&T> {
        self.attributes().expect()
    }

    /// A number of a pointwise row's call, by its name in the row.
    ///
    /// # Errors
    /// Where the row has none of that name.
    pub fn number(&self, name: &str) -> Result<Scalar> {
        match self.attributes().field(name) {
            Some(Field::Scalar(s)) => Ok(s),
            _ => Err(TorshError::autograd(
                self.node.name(),
                format!("the derivative reads the number '{name}', which the call does not have"),
            )),
        }
    }

    /// The shape of operand `i`.
    pub fn input_shape(&self, i: usize) -> &Shape {
        self.node.input_spec(i).0
    }

    /// The dtype of operand `i`.
    pub fn input_dtype(&self, i: usize) -> DType {
        self.node.input_spec(i).1
    }

    /// Zeros like operand `i`.
    pub fn zeros(&self, i: usize) -> Result<Tensor> {
        let (shape, dtype) = self.node.input_spec(i);
        Tensor::zeros(shape, dtype, self.g().device())
    }

    /// The gradient of output 0, halved where `tie` is true: there two operands share it.
    pub fn halved(&self, tie: &Tensor) -> Result<Tensor> {
        Tensor::where_(tie, self.g().mul(0.5)?, self.g())
    }

    /// The gradient of output 0, halved where the first two operands are equal, and with zeros where the condition of
    /// them equals `zero`.
    pub fn shared(
        &self,
        zero: bool,
        condition: impl FnOnce(Tensor, Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (x, y) = (self.x()?, self.y()?);
        let g = self.halved(&x.eq(&y)?)?;
        g.where_zero(&condition(x, y)?, zero)
    }

    /// `g * conj(operand i)`; a number costs no tensor.
    pub fn mul_conj(&self, i: usize) -> Result<Tensor> {
        match self.saved.inputs.get(i) {
            Some(&SavedArg::Number(n)) => self.g().mul(match n {
                Scalar::Complex(..) => n.conj(),
                _ => n,
            }),
            _ => {
                let t = self.input(i)?;
                if t.dtype().is_complex() {
                    self.g().mul(&t.conj()?)
                } else {
                    self.g().mul(&t)
                }
            }
        }
    }
}
