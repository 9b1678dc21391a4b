//! Recurrent networks of several layers and directions, and single steps, built on the kernel of one
//! layer.

use std::iter;

use torsh_core::attrs::{self, RnnMode as Mode};
use torsh_core::{Result, Shape, TorshError};

use super::Layer;
use crate::autocast::{Autocast, lower, off};
use crate::options::options;
use crate::record::{OpRecord, Sample};
use crate::sample::Sampler;
use crate::schema::Bound;
use crate::{Tensor, Value};

options! {
    /// PyTorch's arguments of `lstm`, `gru`, `rnn_tanh` and `rnn_relu` beside tensors.
    ///
    /// ```
    /// use torsh_tensor::RnnOptions;
    /// let options = RnnOptions::new();
    /// assert!(options.has_biases);
    /// assert_eq!(options.num_layers, 1);
    /// assert_eq!(options.dropout, 0.0);
    /// assert!(!options.has_biases(false).has_biases);
    /// ```
    RnnOptions {
        /// Whether each layer has the biases `b_ih` and `b_hh` behind its two weights.
        has_biases: bool = true;
        /// How many layers there are, each with the one before as input.
        num_layers: usize = 1;
        /// The probability with which the elements of each layer's output but the last one's are
        /// set to 0, where `train` is set.
        dropout: f64 = 0.0;
        /// Whether elements are dropped.
        train: bool = false;
        /// Whether each layer also runs from the last step to the first.
        bidirectional: bool = false;
        /// Whether the input is `[batch, steps, features]` rather than `[steps, batch, features]`.
        batch_first: bool = false;
        /// For the rows of packed sequences `[sum, features]`: how many sequences each step has,
        /// which never grows.
        batch_sizes: Option<Vec<i64>> = None, Vec<i64> => Some;
    }
}

fn shape_error(message: String) -> TorshError {
    TorshError::shape("", message)
}

/// An error that says which tensor has which shape, unless it has the one it must have.
fn expect(what: &str, t: &Tensor, shape: &[usize]) -> Result<()> {
    match t.dims() == shape {
        true => Ok(()),
        false => Err(shape_error(format!(
            "{what} must be {}, got {}",
            Shape::new(shape),
            t.describe()
        ))),
    }
}

/// The weights of one layer and direction.
struct Weights<'a> {
    ih: &'a Tensor,
    hh: &'a Tensor,
    biases: Option<[&'a Tensor; 2]>,
    projection: Option<&'a Tensor>,
}

impl<'a> Weights<'a> {
    fn of(params: &'a [Tensor], biases: bool) -> Weights<'a> {
        Weights {
            ih: &params[0],
            hh: &params[1],
            biases: biases.then(|| [&params[2], &params[3]]),
            projection: params.get(if biases { 4 } else { 2 }),
        }
    }

    fn check(&self, mode: Mode, features: usize, h: usize, p: usize) -> Result<()> {
        let width = mode.gates() * h;
        expect("weight_ih", self.ih, &[width, features])?;
        expect("weight_hh", self.hh, &[width, p])?;
        for (b, name) in self.biases.iter().flatten().zip(["bias_ih", "bias_hh"]) {
            expect(name, b, &[width])?;
        }
        match self.projection {
            Some(w) => expect("weight_hr", w, &[p, h]),
            None => Ok(()),
        }
    }

    /// [`Weights::run`] as an autocast region has it. `whole` says that PyTorch casts this layer as
    /// one op (it does an LSTM's); of the others it casts each step's products, and states keep
    /// their dtype, which only matters where that is another.
    fn cast_and_run(
        &self,
        attrs: &attrs::Rnn,
        x: &Tensor,
        states: [Option<&Tensor>; 2],
        whole: bool,
    ) -> Result<[Tensor; 3]> {
        let Some(dtype) = states[0].and_then(lower) else {
            return self.run(attrs, x, states);
        };
        let wide = states.iter().flatten().any(|s| s.dtype() != dtype);
        if wide && !whole && matches!(attrs.mode, Mode::Gru | Mode::Lstm) {
            return self.steps(attrs, x, states);
        }
        let at = std::panic::Location::caller();
        let cast = |t: &Tensor| crate::autocast::lowered(t, at);
        let (x, ih, hh) = (cast(x)?, cast(self.ih)?, cast(self.hh)?);
        let biases = match self.biases {
            Some([a, b]) => Some([cast(a)?, cast(b)?]),
            None => None,
        };
        let projection = self.projection.map(cast).transpose()?;
        let [h, c] = states.map(|s| s.map(cast).transpose());
        let (h, c) = (h?, c?);
        let _off = off();
        let cast = Weights {
            ih: &ih,
            hh: &hh,
            biases: biases.as_ref().map(|[a, b]| [a, b]),
            projection: projection.as_ref(),
        };
        cast.run(attrs, &x, [h.as_ref(), c.as_ref()])
    }

    /// The steps in plain ops, of which the products are cast.
    fn steps(
        &self,
        attrs: &attrs::Rnn,
        x: &Tensor,
        states: [Option<&Tensor>; 2],
    ) -> Result<[Tensor; 3]> {
        let [Some(h0), c0] = states else {
            return Err(TorshError::invalid("", "a first hidden state is needed"));
        };
        let [input, hidden] = match self.biases {
            Some(biases) => biases.map(Some),
            None => [None, None],
        };
        let layer = Layer {
            attrs,
            h0,
            c0,
            weight: self.hh,
            bias: hidden,
            projection: self.projection,
        };
        let [y, h, c] = layer.by_ops(&x.linear(self.ih, input)?)?;
        let (Some(y), Some(h)) = (y, h) else {
            return Err(TorshError::invalid("", "a layer has an output and a state"));
        };
        let c = c.unwrap_or_else(|| h.clone());
        Ok([y, h, c])
    }

    /// Runs a layer over rows: one product for the whole input, then its steps.
    fn run(
        &self,
        attrs: &attrs::Rnn,
        x: &Tensor,
        states: [Option<&Tensor>; 2],
    ) -> Result<[Tensor; 3]> {
        let [Some(h0), c0] = states else {
            return Err(TorshError::invalid("", "a first hidden state is needed"));
        };
        // A GRU's new gate scales the hidden part, bias included; elsewhere both biases are one.
        let (input, hidden) = match (self.biases, attrs.mode) {
            (None, _) => (None, None),
            (Some([b_ih, b_hh]), Mode::Gru) => (Some(b_ih.clone()), Some(b_hh)),
            (Some([b_ih, b_hh]), _) => (Some(b_ih.add(b_hh)?), None),
        };
        let gx = x.linear(self.ih, input.as_ref())?;
        let layer = Layer {
            attrs,
            h0,
            c0,
            weight: self.hh,
            bias: hidden,
            projection: self.projection,
        };
        match &layer.run(&gx)?[..] {
            [y, h, c, ..] => Ok([y.clone(), h.clone(), c.clone()]),
            _ => Err(TorshError::invalid("", "the kernel has four results")),
        }
    }
}

/// All layers and directions: output, last hidden states and, of an LSTM, last cells.
fn network(
    mode: Mode,
    input: &Tensor,
    hx: [Option<&Tensor>; 2],
    params: &[Tensor],
    o: &RnnOptions,
) -> Result<[Tensor; 3]> {
    let directions = if o.bidirectional { 2 } else { 1 };
    let count = o.num_layers * directions;
    let rank = if o.batch_sizes.is_some() { 2 } else { 3 };
    if input.ndim() != rank {
        return Err(shape_error(format!(
            "the input must have {rank} dimensions, got {}",
            input.describe()
        )));
    }
    if count == 0 {
        return Err(TorshError::invalid(
            "",
            "num_layers must be greater than zero",
        ));
    }
    let input = match o.batch_first && rank == 3 {
        true => input.transpose(0, 1)?,
        false => input.clone(),
    };
    let features = input.dims()[rank - 1];
    let sizes = match &o.batch_sizes {
        Some(sizes) => {
            let falls = sizes.windows(2).all(|w| w[0] >= w[1]) && sizes.iter().all(|&n| n > 0);
            let rows = sizes.iter().fold(0i64, |sum, &n| sum.saturating_add(n));
            if sizes.is_empty() || !falls || rows != input.dims()[0] as i64 {
                return Err(shape_error(format!(
                    "batch_sizes must be positive, must not grow and must add up to the rows of the input, got {sizes:?} and {}",
                    input.describe()
                )));
            }
            sizes.clone()
        }
        None => {
            if input.dims()[0] == 0 {
                return Err(shape_error(
                    "Expected sequence length to be larger than 0 in RNN".into(),
                ));
            }
            // A broadcast input may have more steps than memory can count.
            torsh_core::alloc::check(input.dims()[0], size_of::<i64>())?;
            vec![input.dims()[1] as i64; input.dims()[0]]
        }
    };
    let batch = sizes[0] as usize;
    let state_shape = |t: &Tensor, name: &str| match t.dims() {
        &[n, b, size] if n == count && b == batch => Ok(size),
        _ => Err(shape_error(format!(
            "{name} must be [{count}, {batch}, hidden size], got {}",
            t.describe()
        ))),
    };
    let [Some(h0), c0] = hx else {
        return Err(TorshError::invalid("", "a first hidden state is needed"));
    };
    let p = state_shape(h0, "the first hidden state")?;
    let h = match c0 {
        Some(c0) => state_shape(c0, "the first cell state")?,
        None => p,
    };
    let each = 2 + 2 * usize::from(o.has_biases) + usize::from(p != h);
    if params.len() != count * each {
        return Err(TorshError::invalid(
            "",
            format!(
                "{count} layers and directions have {} parameters, got {}",
                count * each,
                params.len()
            ),
        ));
    }
    let steps = sizes.len();
    let forwards = attrs::Rnn {
        mode,
        reverse: false,
        batch_sizes: sizes.into(),
    };
    let backwards = o.bidirectional.then(|| attrs::Rnn {
        reverse: true,
        ..forwards.clone()
    });
    let mut x = input.reshape([-1, features as i64])?;
    let (mut hidden, mut cells) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for layer in 0..o.num_layers {
        let features = x.dims()[1];
        let mut outputs = Vec::with_capacity(directions);
        for (direction, attrs) in iter::once(&forwards).chain(&backwards).enumerate() {
            let at = layer * directions + direction;
            let weights = Weights::of(&params[at * each..(at + 1) * each], o.has_biases);
            weights.check(mode, features, h, p)?;
            let first = h0.select(0, at)?;
            let cell = c0.map(|c| c.select(0, at)).transpose()?;
            let states = [Some(&first), cell.as_ref()];
            let whole = mode == Mode::Lstm && rank == 3 && p == h;
            let [y, h, c] = weights.cast_and_run(attrs, &x, states, whole)?;
            outputs.push(y);
            hidden.push(h);
            cells.push(c);
        }
        x = joined(outputs, |t| Tensor::cat(t, 1), |t| Ok(t.clone()))?;
        if o.train && layer + 1 < o.num_layers {
            x = x.dropout(o.dropout, true)?;
        }
    }
    if rank == 3 {
        x = x.reshape([steps, batch, directions * p])?;
        if o.batch_first {
            x = x.transpose(0, 1)?;
        }
    }
    let stacked = |t: Vec<Tensor>| joined(t, |t| Tensor::stack(t, 0), |t| t.unsqueeze(0));
    let cells = match mode {
        Mode::Lstm => stacked(cells)?,
        _ => cells.swap_remove(0),
    };
    Ok([x, stacked(hidden)?, cells])
}

/// Several tensors joined, or one alone.
fn joined(
    tensors: Vec<Tensor>,
    several: impl Fn(&[Tensor]) -> Result<Tensor>,
    one: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    match &tensors[..] {
        [t] => one(t),
        many => several(many),
    }
}

/// One step of `[batch, features]`.
fn cell(
    mode: Mode,
    input: &Tensor,
    states: [Option<&Tensor>; 2],
    weights: &Weights<'_>,
) -> Result<[Tensor; 3]> {
    let [batch, features] = input.dims() else {
        return Err(shape_error(format!(
            "the input must be [batch, features], got {}",
            input.describe()
        )));
    };
    let width = weights.hh.dims().first().copied().unwrap_or(0);
    let h = width / mode.gates();
    weights.check(mode, *features, h, h)?;
    for state in states.into_iter().flatten() {
        expect("the hidden state", state, &[*batch, h])?;
    }
    let attrs = attrs::Rnn {
        mode,
        reverse: false,
        batch_sizes: [*batch as i64].into(),
    };
    weights.cast_and_run(&attrs, input, states, false)
}

macro_rules! networks {
    ($($(#[$doc:meta])* $record:ident $packed:ident $name:literal $packed_name:literal $method:ident $mode:ident $text:literal
        $cell_record:ident $cell_name:literal $cell:ident $cell_text:literal $cell_test:literal;)*) => {
        pub(crate) const RECORDS: &[&OpRecord] = &[&LSTM, &LSTM_PACKED, &LSTM_CELL, $(&$record, &$packed, &$cell_record),*];
        $(
            #[doc = $text]
            pub static $record: OpRecord = OpRecord::new(
                $name,
                $text,
                "(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first)",
            )
            .by_name(|b| {
                let o = options(b, 3).batch_first(b.bool(8));
                b.tensor(0)?.$method(b.tensor(1)?, &b.tensors(2), o).map(Value::from)
            })
            .samples(|s| samples(s, Mode::$mode, false));

            #[doc = $text]
            pub static $packed: OpRecord = OpRecord::new(
                $packed_name,
                concat!($text, " The input is packed."),
                "(Tensor data, Tensor batch_sizes, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional)",
            )
            .overload()
            .by_name(|b| {
                let o = options(b, 4).batch_sizes(b.tensor(1)?.to_vec::<i64>()?);
                b.tensor(0)?.$method(b.tensor(2)?, &b.tensors(3), o).map(Value::from)
            })
            .samples(|s| samples(s, Mode::$mode, true));

            #[doc = $cell_text]
            #[torsh_tensor::by_name(Tensor::$cell)]
            pub static $cell_record: OpRecord = OpRecord::new(
                $cell_name,
                $cell_text,
                "(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)",
            )
            .samples(|s| cell_samples(s, Mode::$mode));
        )*
        #[torsh_tensor::functions(networks)]
        impl Tensor {
            $(
                $(#[$doc])*
                #[function]
                #[torsh_tensor::names_caller]
                pub fn $method(&self, hx: &Tensor, params: &[Tensor], options: RnnOptions) -> Result<(Tensor, Tensor)> {
                    let run = || network(Mode::$mode, self, [Some(hx), None], params, &options);
                    crate::observe::composite($name, &[self, hx], run)
                        .map(|[y, h, _]| (y, h))
                        .map_err(|e| e.renamed($name))
                }

                #[doc = concat!("One step of [`Tensor::", stringify!($method), "`]: the hidden state `[batch, hidden]` behind the")]
                #[doc = concat!("input `[batch, features]` (`torch.", $cell_name, "`).")]
                #[doc = crate::options::example!($cell_test)]
                #[function]
                #[torsh_tensor::names_caller]
                pub fn $cell<'b>(
                    &self,
                    hx: &Tensor,
                    w_ih: &Tensor,
                    w_hh: &Tensor,
                    b_ih: impl Into<Option<&'b Tensor>>,
                    b_hh: impl Into<Option<&'b Tensor>>,
                ) -> Result<Tensor> {
                    step(Mode::$mode, self, [Some(hx), None], [w_ih, w_hh], [b_ih.into(), b_hh.into()])
                        .map(|[_, h, _]| h)
                        .map_err(|e| e.renamed($cell_name))
                }
            )*
        }
    };
}

networks! {
    /// A gated recurrent unit over sequences `[steps, batch, features]` (`torch.gru`, Cho et al.,
    /// 2014): the output of the last layer `[steps, batch, directions * hidden]` and the last
    /// hidden state of each layer and direction `[layers * directions, batch, hidden]`.
    ///
    /// `hx` is the first hidden state, of the last one's shape; `params` are for each layer and
    /// direction `w_ih`, `w_hh`, `b_ih`, `b_hh`, with the gates `r`, `z`, `n` one behind the other.
    ///
    /// ```
    /// use torsh_tensor::{RnnOptions, tensor};
    /// let params = [tensor![[0.0], [0.0], [1.0]], tensor![[0.0], [0.0], [0.0]]];
    /// let x = tensor![[[0.5]], [[0.0]]];
    /// let (y, h) = x.gru(&tensor![[[1.0]]], &params, RnnOptions::new().has_biases(false))?;
    /// let first = (1.0 + 0.5f32.tanh()) / 2.0;
    /// assert!((y.to_vec::<f32>()?[0] - first).abs() < 1e-6);
    /// assert!((h.item::<f32>()? - first / 2.0).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    GRU GRU_PACKED "gru" "gru.data" gru Gru "A gated recurrent unit over sequences: output and last hidden states."
        GRU_CELL "gru_cell" gru_cell "One step of a gated recurrent unit."
        "# use torsh_tensor::tensor;\n\
            let (x, h) = (tensor![[0.5]], tensor![[1.0]]);\n\
            let (w_ih, w_hh) = (tensor![[0.0], [0.0], [1.0]], tensor![[0.0], [0.0], [0.0]]);\n\
            // Both gates are 1/2: half of the old state, half of tanh(0.5).\n\
            let h = x.gru_cell(&h, &w_ih, &w_hh, None, None)?;\n\
            assert!(h.allclose(&tensor![[0.731059]])?);";
    /// A recurrent network with `tanh(w_ih x + b_ih + w_hh h + b_hh)` as each hidden state
    /// (`torch.rnn_tanh`): output and last hidden states, of shapes and arguments as
    /// [`Tensor::gru`] has them.
    ///
    /// ```
    /// use torsh_tensor::{RnnOptions, tensor};
    /// let params = [tensor![[1.0]], tensor![[2.0]]];
    /// let (y, _) = tensor![[[0.5]]].rnn_tanh(&tensor![[[1.0]]], &params, RnnOptions::new().has_biases(false))?;
    /// assert!((y.item::<f32>()? - 2.5f32.tanh()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RNN_TANH RNN_TANH_PACKED "rnn_tanh" "rnn_tanh.data" rnn_tanh Tanh "A recurrent network with tanh: output and last hidden states."
        RNN_TANH_CELL "rnn_tanh_cell" rnn_tanh_cell "One step of a recurrent network with tanh."
        "# use torsh_tensor::tensor;\n\
            let (x, h) = (tensor![[0.5]], tensor![[1.0]]);\n\
            let h = x.rnn_tanh_cell(&h, &tensor![[1.0]], &tensor![[2.0]], None, None)?;\n\
            assert!(h.allclose(&tensor![[0.986614]])?);";
    /// A recurrent network with `relu(w_ih x + b_ih + w_hh h + b_hh)` as each hidden state
    /// (`torch.rnn_relu`): output and last hidden states, of shapes and arguments as
    /// [`Tensor::gru`] has them.
    ///
    /// ```
    /// use torsh_tensor::{RnnOptions, tensor};
    /// let params = [tensor![[1.0]], tensor![[2.0]]];
    /// let (y, _) = tensor![[[0.5]]].rnn_relu(&tensor![[[1.0]]], &params, RnnOptions::new().has_biases(false))?;
    /// assert_eq!(y.item::<f32>()?, 2.5);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    RNN_RELU RNN_RELU_PACKED "rnn_relu" "rnn_relu.data" rnn_relu Relu "A recurrent network with ReLU: output and last hidden states."
        RNN_RELU_CELL "rnn_relu_cell" rnn_relu_cell "One step of a recurrent network with ReLU."
        "# use torsh_tensor::tensor;\n\
            let (x, h) = (tensor![[0.5]], tensor![[1.0]]);\n\
            let bias = tensor![-1.0];\n\
            let h = x.rnn_relu_cell(&h, &tensor![[1.0]], &tensor![[2.0]], &bias, None)?;\n\
            assert_eq!(h, tensor![[1.5]]);";
}

/// One step, with the biases that are there.
fn step(
    mode: Mode,
    input: &Tensor,
    states: [Option<&Tensor>; 2],
    [ih, hh]: [&Tensor; 2],
    biases: [Option<&Tensor>; 2],
) -> Result<[Tensor; 3]> {
    let zeros;
    let biases = match biases {
        [None, None] => None,
        [Some(a), Some(b)] => Some([a, b]),
        [Some(a), None] => {
            zeros = a.zeros_like()?;
            Some([a, &zeros])
        }
        [None, Some(b)] => {
            zeros = b.zeros_like()?;
            Some([&zeros, b])
        }
    };
    let weights = Weights {
        ih,
        hh,
        biases,
        projection: None,
    };
    cell(mode, input, states, &weights)
}

pub static LSTM: OpRecord = OpRecord::new(
    "lstm",
    "A long short-term memory over sequences: output, last hidden states and last cells.",
    "(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first)",
)
.autocast(Autocast::Lower)
.by_name(|b| {
    let o = options(b, 3).batch_first(b.bool(8));
    let hx = pair(b, 1)?;
    b.tensor(0)?.lstm((&hx[0], &hx[1]), &b.tensors(2), o).map(Value::from)
})
.samples(|s| samples(s, Mode::Lstm, false));

pub static LSTM_PACKED: OpRecord = OpRecord::new(
    "lstm.data",
    "A long short-term memory over packed sequences: output, last hidden states and last cells.",
    "(Tensor data, Tensor batch_sizes, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional)",
)
.overload()
.by_name(|b| {
    let o = options(b, 4).batch_sizes(b.tensor(1)?.to_vec::<i64>()?);
    let hx = pair(b, 2)?;
    b.tensor(0)?.lstm((&hx[0], &hx[1]), &b.tensors(3), o).map(Value::from)
})
.samples(|s| samples(s, Mode::Lstm, true));

pub static LSTM_CELL: OpRecord = OpRecord::new(
    "lstm_cell",
    "One step of a long short-term memory: hidden state and cells.",
    "(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None)",
)
.by_name(|b| {
    let hx = pair(b, 1)?;
    b.tensor(0)?
        .lstm_cell(
            (&hx[0], &hx[1]),
            b.tensor(2)?,
            b.tensor(3)?,
            b.opt_tensor(4),
            b.opt_tensor(5),
        )
        .map(Value::from)
})
.samples(|s| cell_samples(s, Mode::Lstm));

#[torsh_tensor::functions]
impl Tensor {
    /// A long short-term memory over sequences `[steps, batch, features]` (`torch.lstm`, Hochreiter
    /// and Schmidhuber, 1997): the output of the last layer `[steps, batch, directions * hidden]`,
    /// and the last hidden state and cells of each layer and direction `[layers * directions, batch,
    /// hidden]`.
    ///
    /// `hx` are the first hidden state and cells; `params` are for each layer and direction `w_ih`,
    /// `w_hh`, `b_ih`, `b_hh`, with the gates `i`, `f`, `g`, `o` one behind the other, and behind
    /// them `w_hr` `[projected, hidden]` where hidden states are projected, which is where `hx`'s two
    /// have different sizes.
    ///
    /// ```
    /// use torsh_tensor::{RnnOptions, tensor};
    /// let (zeros, ones) = (tensor![[0.0], [0.0], [0.0], [0.0]], tensor![[0.0], [0.0], [1.0], [0.0]]);
    /// let (h, c) = (tensor![[[0.0]]], tensor![[[1.0]]]);
    /// let x = tensor![[[0.5]]];
    /// let (y, _, c) = x.lstm((&h, &c), &[ones, zeros], RnnOptions::new().has_biases(false))?;
    /// let cell = 0.5 + 0.5 * 0.5f32.tanh();
    /// assert!((c.item::<f32>()? - cell).abs() < 1e-6);
    /// assert!((y.item::<f32>()? - 0.5 * cell.tanh()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn lstm(
        &self,
        hx: (&Tensor, &Tensor),
        params: &[Tensor],
        options: RnnOptions,
    ) -> Result<(Tensor, Tensor, Tensor)> {
        let states = [Some(hx.0), Some(hx.1)];
        let run = || network(Mode::Lstm, self, states, params, &options);
        crate::observe::composite("lstm", &[self, hx.0, hx.1], run)
            .map(|[y, h, c]| (y, h, c))
            .map_err(|e| e.renamed("lstm"))
    }

    /// One step of a long short-term memory (`torch.lstm_cell`): hidden state and cells.
    ///
    /// An input `[batch, features]`, states `[batch, hidden]`, weights `[4 hidden, features]` and `[4
    /// hidden, hidden]`, biases `[4 hidden]` or `None`. An error for other shapes, and for dtypes
    /// that differ.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let (x, h, c) = (tensor![[0.5]], tensor![[0.0]], tensor![[1.0]]);
    /// let w_ih = tensor![[0.0], [0.0], [1.0], [0.0]];
    /// let w_hh = tensor![[0.0], [0.0], [0.0], [0.0]];
    /// let (h, c) = x.lstm_cell((&h, &c), &w_ih, &w_hh, None, None)?;
    /// // All gates are 1/2.
    /// let cell = 0.5 + 0.5 * 0.5f32.tanh();
    /// assert!((c.item::<f32>()? - cell).abs() < 1e-6);
    /// assert!((h.item::<f32>()? - 0.5 * cell.tanh()).abs() < 1e-6);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn lstm_cell<'b>(
        &self,
        hx: (&Tensor, &Tensor),
        w_ih: &Tensor,
        w_hh: &Tensor,
        b_ih: impl Into<Option<&'b Tensor>>,
        b_hh: impl Into<Option<&'b Tensor>>,
    ) -> Result<(Tensor, Tensor)> {
        let states = [Some(hx.0), Some(hx.1)];
        step(
            Mode::Lstm,
            self,
            states,
            [w_ih, w_hh],
            [b_ih.into(), b_hh.into()],
        )
        .map(|[_, h, c]| (h, c))
        .map_err(|e| e.renamed("lstm_cell"))
    }
}

/// The arguments from `has_biases` on.
fn options(b: &Bound, at: usize) -> RnnOptions {
    RnnOptions::new()
        .has_biases(b.bool(at))
        .num_layers(b.int(at + 1).max(0) as usize)
        .dropout(b.float(at + 2))
        .train(b.bool(at + 3))
        .bidirectional(b.bool(at + 4))
}

fn pair(b: &Bound, at: usize) -> Result<[Tensor; 2]> {
    let n = b.tensors(at);
    n.try_into().map_err(|n: Vec<Tensor>| {
        TorshError::invalid(
            "",
            format!(
                "hx is a hidden state and a cell state, got {} tensors",
                n.len()
            ),
        )
    })
}

fn samples(s: &mut Sampler, mode: Mode, packed: bool) -> Result<Vec<Sample>> {
    // Layers, directions, biases, projected size.
    let mut cases = vec![(1, 1, true, 2), (2, 2, false, 2)];
    if mode == Mode::Lstm {
        cases.push((1, 2, true, 1));
    }
    let mut calls = Vec::new();
    for (layers, directions, biases, p) in cases {
        let (features, h, width) = (3, 2, 2 * mode.gates());
        let mut params = Vec::new();
        for layer in 0..layers {
            for _ in 0..directions {
                let features = if layer == 0 { features } else { directions * p };
                params.push(s.uniform(&[width, features], -0.9, 0.8)?);
                params.push(s.uniform(&[width, p], -0.9, 0.8)?);
                if biases {
                    params.push(s.uniform(&[width], -0.9, 0.8)?);
                    params.push(s.uniform(&[width], -0.9, 0.8)?);
                }
                if p != h {
                    params.push(s.uniform(&[p, h], -0.9, 0.8)?);
                }
            }
        }
        let first = s.uniform(&[layers * directions, 2, p], -0.9, 0.8)?;
        let hx: Value = match mode {
            Mode::Lstm => {
                let cells = s.uniform(&[layers * directions, 2, h], -0.9, 0.8)?;
                Value::List(vec![first.into(), cells.into()])
            }
            _ => first.into(),
        };
        let mut args: Vec<Value> = match packed {
            true => {
                let sizes = Tensor::from_data(&[2i64, 2, 1], [3])?;
                vec![s.real(&[5, features])?.into(), sizes.into()]
            }
            false => vec![s.real(&[3, 2, features])?.into()],
        };
        args.extend([
            hx,
            params.into(),
            biases.into(),
            (layers as i64).into(),
            0.0.into(),
            false.into(),
            (directions == 2).into(),
        ]);
        if !packed {
            args.push(false.into());
        }
        calls.push(Sample::new(args));
    }
    Ok(calls)
}

fn cell_samples(s: &mut Sampler, mode: Mode) -> Result<Vec<Sample>> {
    let (features, h, width) = (3, 2, 2 * mode.gates());
    let mut hx: Value = s.uniform(&[2, h], -0.9, 0.8)?.into();
    if mode == Mode::Lstm {
        hx = Value::List(vec![hx, s.uniform(&[2, h], -0.9, 0.8)?.into()]);
    }
    let mut args = vec![s.real(&[2, features])?.into(), hx];
    for shape in [&[width, features][..], &[width, h], &[width], &[width]] {
        args.push(s.uniform(shape, -0.9, 0.8)?.into());
    }
    let plain = Sample::new(args[..4].iter().cloned());
    Ok(vec![Sample::new(args), plain])
}
