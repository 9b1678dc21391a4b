//! Recurrent networks (`torch.lstm` and related functions).

use torsh_tensor::{Result, Tensor};

pub use torsh_tensor::RnnOptions;

/// A long short-term memory over sequences `[steps, batch, features]`: the output
/// `[steps, batch, directions * hidden]`, and last hidden states and cells
/// `[layers * directions, batch, hidden]`. See [`Tensor::lstm`].
#[track_caller]
pub fn lstm(
    input: &Tensor,
    hx: (&Tensor, &Tensor),
    params: &[Tensor],
    options: RnnOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    input.lstm(hx, params, options)
}

/// A gated recurrent unit over sequences: output and last hidden states. See [`Tensor::gru`].
#[track_caller]
pub fn gru(
    input: &Tensor,
    hx: &Tensor,
    params: &[Tensor],
    options: RnnOptions,
) -> Result<(Tensor, Tensor)> {
    input.gru(hx, params, options)
}

/// A recurrent network with tanh: output and last hidden states. See [`Tensor::rnn_tanh`].
#[track_caller]
pub fn rnn_tanh(
    input: &Tensor,
    hx: &Tensor,
    params: &[Tensor],
    options: RnnOptions,
) -> Result<(Tensor, Tensor)> {
    input.rnn_tanh(hx, params, options)
}

/// A recurrent network with ReLU: output and last hidden states. See [`Tensor::rnn_relu`].
#[track_caller]
pub fn rnn_relu(
    input: &Tensor,
    hx: &Tensor,
    params: &[Tensor],
    options: RnnOptions,
) -> Result<(Tensor, Tensor)> {
    input.rnn_relu(hx, params, options)
}

/// One step of a long short-term memory: hidden state and cells.
#[track_caller]
pub fn lstm_cell<'b>(
    input: &Tensor,
    hx: (&Tensor, &Tensor),
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: impl Into<Option<&'b Tensor>>,
    b_hh: impl Into<Option<&'b Tensor>>,
) -> Result<(Tensor, Tensor)> {
    input.lstm_cell(hx, w_ih, w_hh, b_ih, b_hh)
}

/// One step of a gated recurrent unit.
#[track_caller]
pub fn gru_cell<'b>(
    input: &Tensor,
    hx: &Tensor,
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: impl Into<Option<&'b Tensor>>,
    b_hh: impl Into<Option<&'b Tensor>>,
) -> Result<Tensor> {
    input.gru_cell(hx, w_ih, w_hh, b_ih, b_hh)
}

/// One step of a recurrent network with tanh.
#[track_caller]
pub fn rnn_tanh_cell<'b>(
    input: &Tensor,
    hx: &Tensor,
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: impl Into<Option<&'b Tensor>>,
    b_hh: impl Into<Option<&'b Tensor>>,
) -> Result<Tensor> {
    input.rnn_tanh_cell(hx, w_ih, w_hh, b_ih, b_hh)
}

/// One step of a recurrent network with ReLU.
#[track_caller]
pub fn rnn_relu_cell<'b>(
    input: &Tensor,
    hx: &Tensor,
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: impl Into<Option<&'b Tensor>>,
    b_hh: impl Into<Option<&'b Tensor>>,
) -> Result<Tensor> {
    input.rnn_relu_cell(hx, w_ih, w_hh, b_ih, b_hh)
}
