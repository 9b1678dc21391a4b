//! Calls to time, with what goes in and what comes out.

use torsh_tensor::{Result, Tensor};

/// The result of a call, dropped before the next.
#[derive(Debug)]
pub enum Out {
    /// Nothing.
    None,
    /// A tensor.
    One(Tensor),
    /// Two of them.
    Two(Tensor, Tensor),
    /// Gradients.
    Many(Vec<Option<Tensor>>),
}

impl Out {
    /// The tensors of the result.
    pub fn tensors(self) -> Vec<Tensor> {
        match self {
            Out::None => vec![],
            Out::One(t) => vec![t],
            Out::Two(t, u) => vec![t, u],
            Out::Many(all) => all.into_iter().flatten().collect(),
        }
    }
}

impl From<Tensor> for Out {
    fn from(t: Tensor) -> Out {
        Out::One(t)
    }
}
impl From<(Tensor, Tensor)> for Out {
    fn from((t, u): (Tensor, Tensor)) -> Out {
        Out::Two(t, u)
    }
}
impl From<()> for Out {
    fn from((): ()) -> Out {
        Out::None
    }
}
impl From<Vec<Option<Tensor>>> for Out {
    fn from(all: Vec<Option<Tensor>>) -> Out {
        Out::Many(all)
    }
}

/// A workload that is ready to be called.
pub struct Workload {
    /// What goes in.
    pub inputs: Vec<Tensor>,
    /// Parameters and buffers, in their module's order.
    pub state: Vec<Tensor>,
    /// The call to time.
    pub call: Box<dyn FnMut() -> Result<Out>>,
}

impl Workload {
    /// A call on tensors, without parameters.
    pub fn new<const N: usize, R: Into<Out>>(
        inputs: [Tensor; N],
        mut f: impl FnMut(&[Tensor; N]) -> Result<R> + 'static,
    ) -> Workload {
        Workload {
            inputs: inputs.to_vec(),
            state: vec![],
            call: Box::new(move || f(&inputs).map(Into::into)),
        }
    }

    /// With parameters and buffers.
    pub fn with_state(self, state: Vec<Tensor>) -> Workload {
        Workload { state, ..self }
    }
}
