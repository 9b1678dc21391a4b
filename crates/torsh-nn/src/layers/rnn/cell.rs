//! `RNNCell`, `LSTMCell` and `GRUCell`.

use torsh_tensor::named::Named;
use torsh_tensor::{Result, Tensor, TorshError};

use super::{LSTMState, RNNNonlinearity, reset};
use crate::Module;
use crate::layers::examples::{shows, tests};
use crate::layers::{Factory, factory_setters};
use crate::module::{Hooks, Parameter, Training};

/// A step between the hooks of `module`, which see the state that is given too.
#[track_caller]
fn hooked(
    hooks: &Hooks,
    module: &dyn Module,
    x: &Tensor,
    hx: Option<&Tensor>,
    step: impl FnOnce(&Tensor, Option<&Tensor>) -> Result<Tensor>,
) -> Result<Tensor> {
    match hx {
        Some(h) => hooks.run_many(module, [x, h], |[x, h]| step(x, Some(h))),
        None => hooks.run(module, x, |x| step(x, None)),
    }
}

/// A step's input with a batch, and whether it had one; and its states, zeros where none are given.
#[track_caller]
fn prepare<const N: usize>(
    name: &'static str,
    x: &Tensor,
    hx: [Option<&Tensor>; N],
    sizes: [usize; 2],
) -> Result<(Tensor, [Tensor; N], bool)> {
    for (what, t) in std::iter::once(("input", x)).chain(hx.iter().flatten().map(|t| ("hx", *t))) {
        if !matches!(t.ndim(), 1 | 2) || t.ndim() != x.ndim() {
            return Err(TorshError::shape(
                name,
                format!(
                    "Expected {what} to be 1D or 2D, as the input is, got {}D instead: {}",
                    t.ndim(),
                    t.describe()
                ),
            ));
        }
    }
    let [input_size, hidden_size] = sizes;
    let batched = x.ndim() == 2;
    let rows = |t: &Tensor| match batched {
        true => Ok(t.clone()),
        false => t.unsqueeze(0),
    };
    let x = rows(x)?;
    if x.dims()[1] != input_size {
        return Err(TorshError::shape(
            name,
            format!(
                "input has inconsistent input_size: got {} expected {input_size}",
                x.dims()[1]
            ),
        ));
    }
    let zeros = match hx.iter().any(Option::is_none) {
        true => Some(Tensor::zeros(
            [x.dims()[0], hidden_size],
            x.dtype(),
            x.device(),
        )?),
        false => None,
    };
    let mut states = [const { None }; N];
    for (state, given) in states.iter_mut().zip(hx) {
        *state = match given {
            Some(h) => Some(rows(h)?),
            None => zeros.clone(),
        };
    }
    let states = states.map(|s| s.unwrap_or_else(|| x.clone()));
    Ok((x, states, batched))
}

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident $builder:ident $gates:literal { $($field:ident: $ty:ty = $default:expr;)* }
        { $($forward:tt)* } { $($setter:tt)* })*) => {$(
        $(#[$doc])*
        #[derive(Module)]
        pub struct $name {
            /// `[gates * hidden_size, input_size]`
            pub weight_ih: Parameter,
            /// `[gates * hidden_size, hidden_size]`
            pub weight_hh: Parameter,
            /// `[gates * hidden_size]`, unless `bias(false)`
            pub bias_ih: Option<Parameter>,
            /// `[gates * hidden_size]`, unless `bias(false)`
            pub bias_hh: Option<Parameter>,
            $(#[module(skip)] $field: $ty,)*
            training: Training,
            hooks: Hooks,
        }

        impl $name {
            /// A step with PyTorch's defaults.
            #[doc = shows!(stringify!($name), "::new(3, 5)?"; stringify!($name), "(3, 5)")]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(input_size: usize, hidden_size: usize) -> Result<$name> {
                $name::builder(input_size, hidden_size).build()
            }

            /// A step with PyTorch's other arguments.
            #[doc = shows!(stringify!($name), "::builder(3, 5).bias(false).build()?"; stringify!($name), "(3, 5, bias=False)")]
            pub fn builder(input_size: usize, hidden_size: usize) -> $builder {
                $builder {
                    input_size,
                    hidden_size,
                    bias: true,
                    $($field: $default,)*
                    factory: Factory::default(),
                }
            }

            /// The size of the input's last dimension.
            #[doc = tests!("assert_eq!(", stringify!($name), "::new(3, 5)?.input_size(), 3);")]
            pub fn input_size(&self) -> usize {
                self.weight_ih.dims()[1]
            }

            /// The size of a hidden state.
            #[doc = tests!("assert_eq!(", stringify!($name), "::new(3, 5)?.hidden_size(), 5);")]
            pub fn hidden_size(&self) -> usize {
                self.weight_hh.dims()[1]
            }

            /// Draws the weights anew, uniformly over `1 / sqrt(hidden_size)` to either side.
            #[doc = tests!(
                "let cell = ", stringify!($name), "::new(3, 4)?;\n",
                "init::ones_(&cell.weight_ih)?;\ncell.reset_parameters()?;\n",
                "assert!(cell.weight_ih.abs()?.max()?.item::<f32>()? <= 0.5);"
            )]
            #[torsh_tensor::names_caller]
            pub fn reset_parameters(&self) -> Result<()> {
                let biases = self.bias_ih.iter().chain(&self.bias_hh);
                reset([&self.weight_ih, &self.weight_hh].into_iter().chain(biases), self.hidden_size())
            }

            $($forward)*
        }

        #[doc = concat!("Builds a [`", stringify!($name), "`].")]
        #[doc = shows!(stringify!($name), "::builder(3, 5).bias(false).build()?"; stringify!($name), "(3, 5, bias=False)")]
        #[derive(Clone, Debug)]
        pub struct $builder {
            input_size: usize,
            hidden_size: usize,
            bias: bool,
            $($field: $ty,)*
            factory: Factory,
        }

        impl $builder {
            /// Whether there are biases. The default is `true`.
            #[doc = shows!(stringify!($name), "::builder(3, 5).bias(false).build()?"; stringify!($name), "(3, 5, bias=False)")]
            #[must_use]
            pub fn bias(mut self, bias: bool) -> Self {
                self.bias = bias;
                self
            }

            factory_setters!($name "(3, 5)");

            $($setter)*

            /// Makes the cell and draws its weights.
            #[doc = tests!(
                "let cell = ", stringify!($name), "::builder(3, 5).bias(false).build()?;\n",
                "assert_eq!(cell.weight_hh.dims(), [", stringify!($gates), " * 5, 5]);"
            )]
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$name> {
                let width = $gates * self.hidden_size;
                let parameter = |shape: &[usize]| {
                    Parameter::with_requires_grad(self.factory.empty(shape)?, true)
                };
                let bias = || self.bias.then(|| parameter(&[width])).transpose();
                let cell = $name {
                    weight_ih: parameter(&[width, self.input_size])?,
                    weight_hh: parameter(&[width, self.hidden_size])?,
                    bias_ih: bias()?,
                    bias_hh: bias()?,
                    $($field: self.$field,)*
                    training: Training::default(),
                    hooks: Hooks::new(),
                };
                cell.reset_parameters()?;
                Ok(cell)
            }
        }
    )*};
}

cells! {
    /// A step of a recurrent network: `tanh(W_ih x + b_ih + W_hh h + b_hh)`
    /// (`torch.nn.RNNCell`).
    ///
    /// ```
    /// use torsh_nn::{ModuleExt, RNNCell, RNNNonlinearity, init};
    /// use torsh_tensor::tensor;
    /// let cell = RNNCell::builder(1, 1).bias(false).nonlinearity(RNNNonlinearity::ReLU).build()?;
    /// for p in cell.parameters() {
    ///     init::ones_(&p)?;
    /// }
    /// assert_eq!(cell.forward_with(&tensor![[0.5]], Some(&tensor![[2.0]]))?, tensor![[2.5]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RNNCell RNNCellBuilder 1 { nonlinearity: RNNNonlinearity = RNNNonlinearity::Tanh; } {
    /// The hidden state behind `[batch, input_size]` or `[input_size]`, from one before it or, for
    /// `None`, from zeros.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, x: &Tensor, hx: Option<&Tensor>) -> Result<Tensor> {
        hooked(&self.hooks, self, x, hx, |x, hx| {
            let sizes = [self.input_size(), self.hidden_size()];
            let (x, [h], batched) = prepare("RNNCell", x, [hx], sizes)?;
            let (w_ih, w_hh) = (&*self.weight_ih, &*self.weight_hh);
            let (b_ih, b_hh) = (self.bias_ih.as_deref(), self.bias_hh.as_deref());
            let h = match self.nonlinearity.known()? {
                RNNNonlinearity::Tanh | RNNNonlinearity::Unknown(_) => x.rnn_tanh_cell(&h, w_ih, w_hh, b_ih, b_hh)?,
                RNNNonlinearity::ReLU => x.rnn_relu_cell(&h, w_ih, w_hh, b_ih, b_hh)?,
            };
            if batched { Ok(h) } else { h.squeeze(0) }
        })
    }
    } {
    /// What follows the sums. The default is tanh.
    #[must_use]
    pub fn nonlinearity(mut self, nonlinearity: impl Into<RNNNonlinearity>) -> Self {
        self.nonlinearity = nonlinearity.into();
        self
    }
    }

    /// A step of a long short-term memory (`torch.nn.LSTMCell`).
    ///
    /// ```
    /// use torsh_nn::{LSTMCell, ModuleExt, init};
    /// use torsh_tensor::tensor;
    /// let cell = LSTMCell::new(1, 1)?;
    /// for p in cell.parameters() {
    ///     init::zeros_(&p)?;
    /// }
    /// let (h, c) = (tensor![[0.0]], tensor![[1.0]]);
    /// let (_, c) = cell.forward_with(&tensor![[3.0]], Some((&h, &c)))?;
    /// assert_eq!(c, tensor![[0.5]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LSTMCell LSTMCellBuilder 4 {} {
    /// Hidden state and cells behind `[batch, input_size]` or `[input_size]`, from those before or,
    /// for `None`, from zeros.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, x: &Tensor, hx: Option<LSTMState<'_>>) -> Result<(Tensor, Tensor)> {
        let results = self.hooks.run_all(self, [x], |[x]| {
            let sizes = [self.input_size(), self.hidden_size()];
            let hx = [hx.map(|(h, _)| h), hx.map(|(_, c)| c)];
            let (x, [h, c], batched) = prepare("LSTMCell", x, hx, sizes)?;
            let (b_ih, b_hh) = (self.bias_ih.as_deref(), self.bias_hh.as_deref());
            let (h, c) = x.lstm_cell((&h, &c), &self.weight_ih, &self.weight_hh, b_ih, b_hh)?;
            match batched {
                true => Ok(vec![h, c]),
                false => Ok(vec![h.squeeze(0)?, c.squeeze(0)?]),
            }
        })?;
        let [h, c] = <[Tensor; 2]>::try_from(results)
            .unwrap_or_else(|_| unreachable!("a run gives as many results as it was given"));
        Ok((h, c))
    }
    } {}

    /// A step of a gated recurrent unit (`torch.nn.GRUCell`).
    ///
    /// ```
    /// use torsh_nn::{GRUCell, ModuleExt, init};
    /// use torsh_tensor::tensor;
    /// let cell = GRUCell::new(1, 1)?;
    /// for p in cell.parameters() {
    ///     init::zeros_(&p)?;
    /// }
    /// assert_eq!(cell.forward_with(&tensor![[3.0]], Some(&tensor![[1.0]]))?, tensor![[0.5]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GRUCell GRUCellBuilder 3 {} {
    /// The hidden state behind `[batch, input_size]` or `[input_size]`, from one before it or, for
    /// `None`, from zeros.
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, x: &Tensor, hx: Option<&Tensor>) -> Result<Tensor> {
        hooked(&self.hooks, self, x, hx, |x, hx| {
            let sizes = [self.input_size(), self.hidden_size()];
            let (x, [h], batched) = prepare("GRUCell", x, [hx], sizes)?;
            let (b_ih, b_hh) = (self.bias_ih.as_deref(), self.bias_hh.as_deref());
            let h = x.gru_cell(&h, &self.weight_ih, &self.weight_hh, b_ih, b_hh)?;
            if batched { Ok(h) } else { h.squeeze(0) }
        })
    }
    } {}
}

macro_rules! modules {
    ($($name:ident $nonlinearity:expr, |$y:ident| $hidden:expr;)*) => {$(
        impl Module for $name {
            /// The hidden state behind the input, from zeros.
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.forward_with(x, None).map(|$y| $hidden)
            }

            fn extra_repr(&self) -> String {
                let bias = if self.bias_ih.is_some() { "" } else { ", bias=False" };
                let nonlinearity: fn(&$name) -> &'static str = $nonlinearity;
                format!("{}, {}{bias}{}", self.input_size(), self.hidden_size(), nonlinearity(self))
            }
        }
    )*};
}

modules! {
    RNNCell |c| match c.nonlinearity {
        RNNNonlinearity::Tanh | RNNNonlinearity::Unknown(_) => "",
        RNNNonlinearity::ReLU => ", nonlinearity=relu",
    }, |h| h;
    LSTMCell |_| "", |state| state.0;
    GRUCell |_| "", |h| h;
}
