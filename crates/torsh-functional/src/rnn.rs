//! Recurrent networks (`torch.lstm` and related functions).

use torsh_tensor::{Result, Tensor};

pub use torsh_tensor::RnnOptions;

/// A long short-term memory over sequences `[steps, batch, features]` (`torch.lstm`): the output
/// `[steps, batch, directions * hidden]`, and last hidden states and cells `[layers * directions,
/// batch, hidden]`. See [`Tensor::lstm`].
///
/// `params` are the weights and biases of each layer and direction in turn: `w_ih`, `w_hh`, `b_ih`,
/// `b_hh`. An error for other shapes, numbers of tensors or dtypes.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{ones, tensor, zeros};
/// // Without weights the gates are open halfway, and the cell halves at each step.
/// let params = [zeros([4, 1]), zeros([4, 1])];
/// let options = F::RnnOptions::new().has_biases(false);
/// let (h, c) = (zeros([1, 1, 1]), tensor![[[8.0]]]);
/// let (_, _, c) = F::lstm(&ones([3, 1, 1]), (&h, &c), &params, options)?;
/// assert_eq!(c, tensor![[[1.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn lstm(
    input: &Tensor,
    hx: (&Tensor, &Tensor),
    params: &[Tensor],
    options: RnnOptions,
) -> Result<(Tensor, Tensor, Tensor)> {
    input.lstm(hx, params, options)
}

/// A gated recurrent unit over sequences `[steps, batch, features]` (`torch.gru`): output and last
/// hidden states. See [`Tensor::gru`].
///
/// Shapes and errors as in [`lstm`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{ones, tensor, zeros};
/// // Without weights the update gate is open halfway, and the state halves at each step.
/// let params = [zeros([3, 1]), zeros([3, 1])];
/// let options = F::RnnOptions::new().has_biases(false);
/// let (y, _) = F::gru(&ones([3, 1, 1]), &tensor![[[8.0]]], &params, options)?;
/// assert_eq!(y, tensor![[[4.0]], [[2.0]], [[1.0]]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn gru(
    input: &Tensor,
    hx: &Tensor,
    params: &[Tensor],
    options: RnnOptions,
) -> Result<(Tensor, Tensor)> {
    input.gru(hx, params, options)
}

/// A recurrent network with tanh over sequences `[steps, batch, features]` (`torch.rnn_tanh`):
/// output and last hidden states. See [`Tensor::rnn_tanh`].
///
/// Shapes and errors as in [`lstm`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{tensor, zeros};
/// let params = [tensor![[1.0]], tensor![[0.0]]];
/// let options = F::RnnOptions::new().has_biases(false);
/// let (y, _) = F::rnn_tanh(&tensor![[[0.0]], [[1.0]]], &zeros([1, 1, 1]), &params, options)?;
/// assert!(y.allclose(&tensor![[[0.0]], [[0.7615942]]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn rnn_tanh(
    input: &Tensor,
    hx: &Tensor,
    params: &[Tensor],
    options: RnnOptions,
) -> Result<(Tensor, Tensor)> {
    input.rnn_tanh(hx, params, options)
}

/// A recurrent network with ReLU over sequences `[steps, batch, features]` (`torch.rnn_relu`):
/// output and last hidden states. See [`Tensor::rnn_relu`].
///
/// Shapes and errors as in [`lstm`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{tensor, zeros};
/// // Each state is the input and half of the state before.
/// let params = [tensor![[1.0]], tensor![[0.5]]];
/// let options = F::RnnOptions::new().has_biases(false);
/// let (y, h) = F::rnn_relu(&tensor![[[4.0]], [[1.0]]], &zeros([1, 1, 1]), &params, options)?;
/// assert_eq!((y, h), (tensor![[[4.0]], [[3.0]]], tensor![[[3.0]]]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn rnn_relu(
    input: &Tensor,
    hx: &Tensor,
    params: &[Tensor],
    options: RnnOptions,
) -> Result<(Tensor, Tensor)> {
    input.rnn_relu(hx, params, options)
}

/// One step of a long short-term memory (`torch.lstm_cell`): hidden state and cells.
///
/// An input `[batch, features]`, states `[batch, hidden]`, weights `[4 hidden, features]` and `[4
/// hidden, hidden]`, biases `[4 hidden]` or `None`. An error for other shapes, and for dtypes that
/// differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{tensor, zeros};
/// // Without weights the gates are open halfway, and the cell halves.
/// let (h, c) = (zeros([1, 1]), tensor![[2.0]]);
/// let w = zeros([4, 1]);
/// let (h, c) = F::lstm_cell(&tensor![[5.0]], (&h, &c), &w, &w, None, None)?;
/// assert!(c == tensor![[1.0]] && h.allclose(&tensor![[0.3807971]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
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

/// One step of a gated recurrent unit (`torch.gru_cell`): the hidden state.
///
/// An input `[batch, features]`, a state `[batch, hidden]`, weights `[3 hidden, features]` and `[3
/// hidden, hidden]`, biases `[3 hidden]` or `None`. An error for other shapes, and for dtypes that
/// differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::{tensor, zeros};
/// let w = zeros([3, 1]);
/// assert_eq!(F::gru_cell(&tensor![[5.0]], &tensor![[2.0]], &w, &w, None, None)?, tensor![[1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
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

/// One step of a recurrent network with tanh (`torch.rnn_tanh_cell`): the hidden state.
///
/// An input `[batch, features]`, a state `[batch, hidden]`, weights `[hidden, features]` and
/// `[hidden, hidden]`, biases `[hidden]` or `None`. An error for other shapes, and for dtypes that
/// differ.
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let y = F::rnn_tanh_cell(&tensor![[1.0]], &tensor![[2.0]], &tensor![[2.0]], &tensor![[-0.5]], None, None)?;
/// assert!(y.allclose(&tensor![[0.7615942]])?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
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

/// One step of a recurrent network with ReLU (`torch.rnn_relu_cell`): the hidden state.
///
/// Shapes and errors as in [`rnn_tanh_cell`].
///
/// ```
/// # use torsh_functional as F;
/// # use torsh_tensor::tensor;
/// let y = F::rnn_relu_cell(&tensor![[1.0]], &tensor![[2.0]], &tensor![[2.0]], &tensor![[0.5]], &tensor![0.25], None)?;
/// assert_eq!(y, tensor![[3.25]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
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
