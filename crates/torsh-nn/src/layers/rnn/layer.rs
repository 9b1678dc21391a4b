//! `RNN`, `LSTM` and `GRU`.

use torsh_functional::RnnOptions;
use torsh_tensor::named::Named;
use torsh_tensor::{Result, Tensor, TorshError};

use super::{LSTMState, Mode, RNNNonlinearity, reset};
use crate::Module;
use crate::layers::examples::{shows, tests};
use crate::layers::{Factory, python_float};
use crate::module::{FieldMut, FieldRef, Hooks, ModuleField, ModuleFields, Parameter, Training};
use crate::utils::rnn::PackedSequence;

#[derive(Clone, Debug)]
struct Config {
    mode: Mode,
    input_size: usize,
    hidden_size: usize,
    num_layers: usize,
    bias: bool,
    batch_first: bool,
    dropout: f64,
    bidirectional: bool,
    proj_size: usize,
    factory: Factory,
}

impl Config {
    fn new(mode: Mode, input_size: usize, hidden_size: usize) -> Config {
        Config {
            mode,
            input_size,
            hidden_size,
            num_layers: 1,
            bias: true,
            batch_first: false,
            dropout: 0.0,
            bidirectional: false,
            proj_size: 0,
            factory: Factory::default(),
        }
    }

    fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// The size of what is given on.
    fn real_hidden_size(&self) -> usize {
        match self.proj_size {
            0 => self.hidden_size,
            n => n,
        }
    }

    fn check(&self) -> Result<()> {
        let wrong = if !(0.0..=1.0).contains(&self.dropout) {
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
        } else if self.input_size == 0 {
            "input_size must be greater than zero"
        } else if self.hidden_size == 0 {
            "hidden_size must be greater than zero"
        } else if self.num_layers == 0 {
            "num_layers must be greater than zero"
        } else if self.proj_size >= self.hidden_size {
            "proj_size has to be smaller than hidden_size"
        } else {
            return Ok(());
        };
        Err(TorshError::invalid(self.mode.name(), wrong))
    }

    #[track_caller]
    fn build(self) -> Result<Network> {
        self.check()?;
        if let Mode::Plain(nonlinearity) = self.mode {
            nonlinearity.known().map_err(|e| e.renamed("RNN"))?;
        }
        let width = self.mode.gates() * self.hidden_size;
        let given_on = self.real_hidden_size();
        let mut params = Vec::new();
        for layer in 0..self.num_layers {
            let features = match layer {
                0 => self.input_size,
                _ => given_on * self.directions(),
            };
            for direction in ["", "_reverse"].into_iter().take(self.directions()) {
                let mut add = |name: &str, shape: &[usize]| -> Result<()> {
                    let p = Parameter::with_requires_grad(self.factory.empty(shape)?, true)?;
                    params.push((format!("{name}_l{layer}{direction}"), p));
                    Ok(())
                };
                add("weight_ih", &[width, features])?;
                add("weight_hh", &[width, given_on])?;
                if self.bias {
                    add("bias_ih", &[width])?;
                    add("bias_hh", &[width])?;
                }
                if self.proj_size > 0 {
                    add("weight_hr", &[self.proj_size, self.hidden_size])?;
                }
            }
        }
        let network = Network {
            config: self,
            params,
            training: Training::default(),
            hooks: Hooks::new(),
        };
        network.reset_parameters()?;
        Ok(network)
    }
}

/// What the layers of this file are inside.
struct Network {
    config: Config,
    params: Vec<(String, Parameter)>,
    training: Training,
    hooks: Hooks,
}

impl Network {
    #[torsh_tensor::names_caller]
    fn reset_parameters(&self) -> Result<()> {
        reset(self.params.iter().map(|(_, p)| p), self.config.hidden_size)
    }

    fn error(&self, message: String) -> TorshError {
        TorshError::shape(self.config.mode.name(), message)
    }

    fn check_input(&self, x: &Tensor, rank: usize) -> Result<()> {
        let dtype = self.params[0].1.dtype();
        if x.dtype() != dtype {
            return Err(TorshError::dtype(
                self.config.mode.name(),
                format!(
                    "RNN input dtype ({}) does not match weight dtype ({dtype})",
                    x.dtype()
                ),
            )
            .with_hint(format!(
                "convert the input, x.to_dtype({dtype:?}), or the layer"
            )));
        }
        if x.ndim() != rank {
            return Err(self.error(format!(
                "input must have {rank} dimensions, got {}",
                x.describe()
            )));
        }
        let features = x.dims()[rank - 1];
        if features != self.config.input_size {
            return Err(self.error(format!(
                "input.size(-1) must be equal to input_size. Expected {}, got {features}",
                self.config.input_size
            )));
        }
        Ok(())
    }

    /// First states for a batch: those given, of the sizes they must have, or zeros.
    fn states(&self, x: &Tensor, hx: Vec<Tensor>, batch: usize) -> Result<Vec<Tensor>> {
        let c = &self.config;
        let count = c.num_layers * c.directions();
        let sizes = [c.real_hidden_size(), c.hidden_size];
        let shapes = sizes[..c.mode.states()]
            .iter()
            .map(|&size| [count, batch, size]);
        if hx.is_empty() {
            return shapes
                .map(|s| Tensor::zeros(s, x.dtype(), x.device()))
                .collect();
        }
        for (i, (t, shape)) in hx.iter().zip(shapes).enumerate() {
            if t.dims() != shape {
                let which = match c.mode {
                    Mode::Lstm => format!("hidden[{i}]"),
                    _ => "hidden".into(),
                };
                return Err(self.error(format!(
                    "Expected {which} size {shape:?}, got {:?}",
                    t.dims()
                )));
            }
        }
        Ok(hx)
    }

    fn call(
        &self,
        x: &Tensor,
        hx: &[Tensor],
        batch_sizes: Option<Vec<i64>>,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let c = &self.config;
        let params: Vec<Tensor> = self.params.iter().map(|(_, p)| Tensor::from(p)).collect();
        let mut options = RnnOptions::new()
            .has_biases(c.bias)
            .num_layers(c.num_layers)
            .dropout(c.dropout)
            .train(self.training.get())
            .bidirectional(c.bidirectional)
            .batch_first(c.batch_first && batch_sizes.is_none());
        options.batch_sizes = batch_sizes;
        let one = |(y, h)| (y, vec![h]);
        match (c.mode, hx) {
            (Mode::Lstm, [h, cells]) => x
                .lstm((h, cells), &params, options)
                .map(|(y, h, cells)| (y, vec![h, cells])),
            (Mode::Gru, [h]) => x.gru(h, &params, options).map(one),
            (Mode::Plain(RNNNonlinearity::Tanh | RNNNonlinearity::Unknown(_)), [h]) => {
                x.rnn_tanh(h, &params, options).map(one)
            }
            (Mode::Plain(RNNNonlinearity::ReLU), [h]) => x.rnn_relu(h, &params, options).map(one),
            _ => Err(self.error("a state has another number of tensors".into())),
        }
    }

    /// [`run`](Network::run) between the hooks of `module`, which see a single state as well. They do not see the pair of an
    /// LSTM, as PyTorch's do not.
    #[track_caller]
    fn run_hooked(
        &self,
        module: &dyn Module,
        x: &Tensor,
        hx: Vec<Tensor>,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let mut states = Vec::new();
        let mut run = |x: &Tensor, hx: Vec<Tensor>| {
            let (y, mut last) = self.run(x, hx)?;
            match last.len() {
                1 => Ok(vec![y, last.swap_remove(0)]),
                _ => {
                    states = last;
                    Ok(vec![y])
                }
            }
        };
        let results = match &hx[..] {
            [h] => self
                .hooks
                .run_all(module, [x, h], |[x, h]| run(x, vec![h.clone()]))?,
            _ => self.hooks.run_all(module, [x], |[x]| run(x, hx.clone()))?,
        };
        let mut results = results.into_iter();
        let Some(y) = results.next() else {
            unreachable!("a run gives as many results as it was given")
        };
        states.extend(results);
        Ok((y, states))
    }

    /// Output and last states for `[steps, batch, features]` or `[steps, features]`.
    #[track_caller]
    fn run(&self, x: &Tensor, hx: Vec<Tensor>) -> Result<(Tensor, Vec<Tensor>)> {
        if !matches!(x.ndim(), 2 | 3) {
            return Err(self.error(format!(
                "Expected input to be 2D or 3D, got {}D instead: {}",
                x.ndim(),
                x.describe()
            )));
        }
        let batched = x.ndim() == 3;
        let batch_dim = usize::from(!self.config.batch_first);
        let x = match batched {
            true => x.clone(),
            false => x.unsqueeze(batch_dim)?,
        };
        self.check_input(&x, 3)?;
        let rank = if batched { 3 } else { 2 };
        if let Some(t) = hx.iter().find(|t| t.ndim() != rank) {
            let kind = if batched { "batched" } else { "unbatched" };
            return Err(self.error(format!(
                "For {kind} {rank}-D input, hx should also be {rank}-D but got {}",
                t.describe()
            )));
        }
        let hx = match batched {
            true => hx,
            false => hx.iter().map(|t| t.unsqueeze(1)).collect::<Result<_>>()?,
        };
        let hx = self.states(&x, hx, x.dims()[batch_dim])?;
        let (y, states) = self.call(&x, &hx, None)?;
        if batched {
            return Ok((y, states));
        }
        let states = states.iter().map(|t| t.squeeze(1)).collect::<Result<_>>()?;
        Ok((y.squeeze(batch_dim)?, states))
    }

    /// Output and last states for packed sequences, states in the order the sequences had.
    #[track_caller]
    fn run_packed(
        &self,
        x: &PackedSequence,
        hx: Vec<Tensor>,
    ) -> Result<(PackedSequence, Vec<Tensor>)> {
        self.check_input(&x.data, 2)?;
        let sizes = x.sizes()?;
        let batch = sizes.first().copied().unwrap_or(0) as usize;
        let permuted = |t: Vec<Tensor>, order: &Option<Tensor>| -> Result<Vec<Tensor>> {
            match order {
                Some(order) => t.iter().map(|t| t.index_select(1, order)).collect(),
                None => Ok(t),
            }
        };
        let hx = self.states(&x.data, hx, batch)?;
        let hx = permuted(hx, &x.sorted_indices)?;
        let (y, states) = self.call(&x.data, &hx, Some(sizes))?;
        Ok((x.with_data(y)?, permuted(states, &x.unsorted_indices)?))
    }

    fn extra_repr(&self) -> String {
        let c = &self.config;
        let mut s = format!("{}, {}", c.input_size, c.hidden_size);
        if c.proj_size != 0 {
            s += &format!(", proj_size={}", c.proj_size);
        }
        if c.num_layers != 1 {
            s += &format!(", num_layers={}", c.num_layers);
        }
        if !c.bias {
            s += ", bias=False";
        }
        if c.batch_first {
            s += ", batch_first=True";
        }
        if c.dropout != 0.0 {
            s += &format!(", dropout={}", python_float(c.dropout));
        }
        if c.bidirectional {
            s += ", bidirectional=True";
        }
        s
    }
}

macro_rules! layers {
    ($($(#[$doc:meta])* $name:ident $builder:ident $mode:expr, $hx:ty => |$given:ident| $tensors:expr,
        $state:ty => |$last:ident| $states:expr; { $($setter:tt)* })*) => {$(
        $(#[$doc])*
        pub struct $name(Network);

        impl $name {
            /// A layer with PyTorch's defaults. An error for sizes of 0.
            #[doc = shows!(stringify!($name), "::new(3, 5)?"; stringify!($name), "(3, 5)")]
            #[torsh_tensor::names_caller(Self)]
            pub fn new(input_size: usize, hidden_size: usize) -> Result<$name> {
                $name::builder(input_size, hidden_size).build()
            }

            /// A layer with PyTorch's other arguments.
            #[doc = shows!(stringify!($name), "::builder(3, 5).num_layers(2).build()?"; stringify!($name), "(3, 5, num_layers=2)")]
            pub fn builder(input_size: usize, hidden_size: usize) -> $builder {
                $builder(Config::new($mode, input_size, hidden_size))
            }

            /// The output and the last state, from a first state or, for `None`, from zeros.
            ///
            /// States are `[layers * directions, batch, size]`, without `batch` for an input
            /// without it. An error for other shapes, and for another dtype than the weights'.
            #[doc = tests!(
                "let layer = ", stringify!($name), "::new(3, 5)?;\n",
                "let (y, _) = layer.forward_with(&ones([7, 2, 3]), None)?;\n",
                "assert_eq!(y.dims(), [7, 2, 5]);\n",
                "assert_eq!(y, layer.forward(&ones([7, 2, 3]))?);"
            )]
            #[torsh_tensor::names_caller]
            pub fn forward_with(&self, x: &Tensor, hx: Option<$hx>) -> Result<(Tensor, $state)> {
                let $given = hx;
                let (y, states) = self.0.run_hooked(self, x, $tensors)?;
                self.last(states).map(|state| (y, state))
            }

            /// [`forward_with`](Self::forward_with) of packed sequences. Hooks are not called.
            #[doc = tests!(
                "let layer = ", stringify!($name), "::new(3, 5)?;\n",
                "let packed = utils::rnn::pack_sequence(&[ones([4, 3]), ones([2, 3])])?;\n",
                "let (y, _) = layer.forward_packed(&packed, None)?;\n",
                "let (_, lengths) = utils::rnn::pad_packed_sequence(&y)?;\n",
                "assert_eq!(lengths, tensor![4, 2]);"
            )]
            #[torsh_tensor::names_caller]
            pub fn forward_packed(
                &self,
                x: &PackedSequence,
                hx: Option<$hx>,
            ) -> Result<(PackedSequence, $state)> {
                let $given = hx;
                let (y, states) = self.0.run_packed(x, $tensors)?;
                self.last(states).map(|state| (y, state))
            }

            fn last(&self, $last: Vec<Tensor>) -> Result<$state> {
                let mut $last = $last.into_iter();
                $states.ok_or_else(|| self.0.error("a state has another number of tensors".into()))
            }

            /// Draws the weights anew, uniformly over `1 / sqrt(hidden_size)` to either side.
            #[doc = tests!(
                "let layer = ", stringify!($name), "::new(3, 4)?;\n",
                "init::ones_(&layer.parameters()[0])?;\nlayer.reset_parameters()?;\n",
                "assert!(layer.parameters()[0].abs()?.max()?.item::<f32>()? <= 0.5);"
            )]
            #[torsh_tensor::names_caller]
            pub fn reset_parameters(&self) -> Result<()> {
                self.0.reset_parameters()
            }

            /// The size of the input's last dimension.
            #[doc = tests!("assert_eq!(", stringify!($name), "::new(3, 5)?.input_size(), 3);")]
            pub fn input_size(&self) -> usize {
                self.0.config.input_size
            }

            /// The size of a hidden state.
            #[doc = tests!("assert_eq!(", stringify!($name), "::new(3, 5)?.hidden_size(), 5);")]
            pub fn hidden_size(&self) -> usize {
                self.0.config.hidden_size
            }

            /// How many layers there are.
            #[doc = tests!("assert_eq!(", stringify!($name), "::new(3, 5)?.num_layers(), 1);")]
            pub fn num_layers(&self) -> usize {
                self.0.config.num_layers
            }
        }

        impl Module for $name {
            /// The output from a first state of zeros: `[steps, batch, directions * size]`.
            #[torsh_tensor::names_caller]
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                self.forward_with(x, None).map(|(y, _)| y)
            }

            fn extra_repr(&self) -> String {
                self.0.extra_repr()
            }
        }

        impl ModuleField for $name {
            fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
                visitor(name, FieldRef::Module(self));
            }

            fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
                visitor(name, FieldMut::Module(self));
            }
        }

        impl ModuleFields for $name {
            fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
                for (name, p) in &self.0.params {
                    p.visit_field(name, visitor);
                }
                self.0.training.visit_field("training", visitor);
                self.0.hooks.visit_field("hooks", visitor);
            }

            fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
                for (name, p) in &mut self.0.params {
                    p.visit_field_mut(name, visitor);
                }
                self.0.training.visit_field_mut("training", visitor);
                self.0.hooks.visit_field_mut("hooks", visitor);
            }

            fn type_name(&self) -> &'static str {
                stringify!($name)
            }
        }

        #[doc = concat!("Builds a [`", stringify!($name), "`].")]
        #[doc = shows!(stringify!($name), "::builder(3, 5).bidirectional(true).build()?"; stringify!($name), "(3, 5, bidirectional=True)")]
        #[derive(Clone, Debug)]
        pub struct $builder(Config);

        impl $builder {
            /// How many layers there are, each with the output of the one before as input. The
            /// default is 1.
            #[doc = shows!(stringify!($name), "::builder(3, 5).num_layers(2).build()?"; stringify!($name), "(3, 5, num_layers=2)")]
            #[must_use]
            pub fn num_layers(mut self, num_layers: usize) -> Self {
                self.0.num_layers = num_layers;
                self
            }

            /// Whether there are biases. The default is `true`.
            #[doc = shows!(stringify!($name), "::builder(3, 5).bias(false).build()?"; stringify!($name), "(3, 5, bias=False)")]
            #[must_use]
            pub fn bias(mut self, bias: bool) -> Self {
                self.0.bias = bias;
                self
            }

            /// Whether input and output are `[batch, steps, features]`; states never are.
            #[doc = shows!(stringify!($name), "::builder(3, 5).batch_first(true).build()?"; stringify!($name), "(3, 5, batch_first=True)")]
            #[must_use]
            pub fn batch_first(mut self, batch_first: bool) -> Self {
                self.0.batch_first = batch_first;
                self
            }

            /// The probability with which elements of every layer's output but the last one's are
            /// set to 0 while training.
            #[doc = shows!(stringify!($name), "::builder(3, 5).num_layers(2).dropout(0.5).build()?"; stringify!($name), "(3, 5, num_layers=2, dropout=0.5)")]
            #[must_use]
            pub fn dropout(mut self, dropout: f64) -> Self {
                self.0.dropout = dropout;
                self
            }

            /// Whether each layer also runs from the last step to the first.
            #[doc = shows!(stringify!($name), "::builder(3, 5).bidirectional(true).build()?"; stringify!($name), "(3, 5, bidirectional=True)")]
            #[must_use]
            pub fn bidirectional(mut self, bidirectional: bool) -> Self {
                self.0.bidirectional = bidirectional;
                self
            }

            /// Where the layer's tensors are made.
            #[doc = tests!(
                "let layer = ", stringify!($name), "::builder(3, 5).device(Device::Cpu).build()?;\n",
                "assert_eq!(layer.parameters()[0].device(), Device::Cpu);"
            )]
            #[must_use]
            pub fn device(mut self, device: impl Into<torsh_tensor::Device>) -> Self {
                self.0.factory.device = device.into();
                self
            }

            /// The dtype of the layer's tensors. The default is the default dtype.
            #[doc = tests!(
                "let layer = ", stringify!($name), "::builder(3, 5).dtype(DType::F64).build()?;\n",
                "assert_eq!(layer.parameters()[0].dtype(), DType::F64);"
            )]
            #[must_use]
            pub fn dtype(mut self, dtype: torsh_tensor::DType) -> Self {
                self.0.factory.dtype = Some(dtype);
                self
            }

            $($setter)*

            /// Makes the layer and draws its weights. An error for sizes of 0, a dropout that is no
            /// probability, or a projection that is not smaller than the hidden state.
            #[doc = tests!(
                "let layer = ", stringify!($name), "::builder(3, 5).bidirectional(true).build()?;\n",
                "assert_eq!(layer.forward(&ones([7, 2, 3]))?.dims(), [7, 2, 10]);\n",
                "assert!(", stringify!($name), "::builder(3, 0).build().is_err());"
            )]
            #[torsh_tensor::names_caller]
            pub fn build(self) -> Result<$name> {
                self.0.build().map($name)
            }
        }
    )*};
}

layers! {
    /// A recurrent network, `tanh(W_ih x + b_ih + W_hh h + b_hh)` in each step (`torch.nn.RNN`).
    ///
    /// Takes `[steps, batch, input_size]` or `[steps, input_size]` and gives
    /// `[steps, batch, directions * hidden_size]`. Its parameters are `weight_ih_l0`,
    /// `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, then those of the other direction
    /// (`weight_ih_l0_reverse`) and layers (`weight_ih_l1`).
    ///
    /// ```
    /// use torsh_nn::{Module, ModuleExt, RNN, init};
    /// use torsh_tensor::tensor;
    /// let layer = RNN::builder(1, 1).bias(false).build()?;
    /// for p in layer.parameters() {
    ///     init::ones_(&p)?;
    /// }
    /// let y = layer.forward(&tensor![[0.5], [0.0]])?;
    /// let first = 0.5f32.tanh();
    /// assert!(y.allclose(&tensor![[first], [first.tanh()]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RNN RNNBuilder Mode::Plain(RNNNonlinearity::Tanh),
        &Tensor => |h| h.cloned().into_iter().collect(), Tensor => |states| states.next(); {
    /// What follows the sums. The default is tanh.
    #[must_use]
    pub fn nonlinearity(mut self, nonlinearity: impl Into<RNNNonlinearity>) -> Self {
        self.0.mode = Mode::Plain(nonlinearity.into());
        self
    }
    }

    /// A long short-term memory (`torch.nn.LSTM`; Hochreiter and Schmidhuber, 1997).
    ///
    /// Takes `[steps, batch, input_size]` or `[steps, input_size]` and gives
    /// `[steps, batch, directions * size]`, where `size` is `proj_size` or, without, `hidden_size`.
    /// Its parameters are `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, with
    /// `proj_size` `weight_hr_l0`, then those of the other direction (`weight_ih_l0_reverse`) and
    /// layers (`weight_ih_l1`).
    ///
    /// ```
    /// use torsh_nn::{LSTM, ModuleExt, init};
    /// use torsh_tensor::tensor;
    /// let layer = LSTM::builder(1, 1).bias(false).build()?;
    /// for p in layer.parameters() {
    ///     init::zeros_(&p)?;
    /// }
    /// // Every gate is half open.
    /// let (h, c) = (tensor![[0.0]], tensor![[1.0]]);
    /// let (y, (_, c)) = layer.forward_with(&tensor![[3.0]], Some((&h, &c)))?;
    /// assert_eq!(c, tensor![[0.5]]);
    /// assert!(y.allclose(&tensor![[0.5 * 0.5f32.tanh()]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    LSTM LSTMBuilder Mode::Lstm,
        LSTMState<'_> => |hx| hx.map_or(Vec::new(), |(h, c)| vec![h.clone(), c.clone()]),
        (Tensor, Tensor) => |states| states.next().zip(states.next()); {
    /// To which size hidden states are projected (Sak et al., 2014); they are not unless set.
    #[must_use]
    pub fn proj_size(mut self, proj_size: usize) -> Self {
        self.0.proj_size = proj_size;
        self
    }
    }

    /// A gated recurrent unit (`torch.nn.GRU`; Cho et al., 2014).
    ///
    /// Takes `[steps, batch, input_size]` or `[steps, input_size]` and gives
    /// `[steps, batch, directions * hidden_size]`. Its parameters are `weight_ih_l0`,
    /// `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, then those of the other direction
    /// (`weight_ih_l0_reverse`) and layers (`weight_ih_l1`).
    ///
    /// ```
    /// use torsh_nn::{GRU, ModuleExt, init};
    /// use torsh_tensor::tensor;
    /// let layer = GRU::new(1, 1)?;
    /// for p in layer.parameters() {
    ///     init::zeros_(&p)?;
    /// }
    /// // Every gate is half open, and what is new is 0.
    /// let (y, h) = layer.forward_with(&tensor![[3.0], [4.0]], Some(&tensor![[1.0]]))?;
    /// assert_eq!(y, tensor![[0.5], [0.25]]);
    /// assert_eq!(h, tensor![[0.25]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GRU GRUBuilder Mode::Gru,
        &Tensor => |h| h.cloned().into_iter().collect(), Tensor => |states| states.next(); {}
}
