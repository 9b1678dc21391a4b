//! Recurrent layers.

mod cell;
mod layer;

pub use cell::{GRUCell, GRUCellBuilder, LSTMCell, LSTMCellBuilder, RNNCell, RNNCellBuilder};
pub use layer::{GRU, GRUBuilder, LSTM, LSTMBuilder, RNN, RNNBuilder};

use torsh_tensor::{Result, Tensor};

use crate::init;
use crate::module::Parameter;

/// What follows the sums of a plain recurrent layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RNNNonlinearity {
    /// The hyperbolic tangent.
    #[default]
    Tanh,
    /// The positive part.
    ReLU,
    /// A string that is none of the words; the function that gets it refuses it.
    #[doc(hidden)]
    Unknown(torsh_tensor::named::Unknown),
}

torsh_tensor::named! {
    RNNNonlinearity, "nonlinearity",
    "tanh" => RNNNonlinearity::Tanh,
    "relu" => RNNNonlinearity::ReLU,
}

/// Hidden state and cells of an LSTM, borrowed.
pub type LSTMState<'a> = (&'a Tensor, &'a Tensor);

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain(RNNNonlinearity),
    Lstm,
    Gru,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Plain(_) => "RNN",
            Mode::Lstm => "LSTM",
            Mode::Gru => "GRU",
        }
    }

    fn gates(self) -> usize {
        match self {
            Mode::Plain(_) => 1,
            Mode::Lstm => 4,
            Mode::Gru => 3,
        }
    }

    /// How many tensors a state is.
    fn states(self) -> usize {
        match self {
            Mode::Lstm => 2,
            _ => 1,
        }
    }
}

/// Draws uniformly over `1 / sqrt(hidden_size)` to either side.
#[track_caller]
fn reset<'a>(params: impl IntoIterator<Item = &'a Parameter>, hidden_size: usize) -> Result<()> {
    let bound = match hidden_size {
        0 => 0.0,
        n => 1.0 / (n as f64).sqrt(),
    };
    for p in params {
        init::uniform_(p, -bound, bound)?;
    }
    Ok(())
}
