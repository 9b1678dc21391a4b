//! What a plan says about a module.

/// How a module is divided over the ranks: an entry of a [`plan!`](crate::plan!).
///
/// ```
/// use torsh_distributed::tensor_parallel::{ColumnParallel, ParallelStyle};
///
/// let style = ParallelStyle::from(ColumnParallel);
/// assert_eq!(style, ParallelStyle::Column { sequence: None, gather_output: false });
/// assert_eq!(ColumnParallel.gather_output(), ParallelStyle::Column { sequence: None, gather_output: true });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParallelStyle {
    /// See [`ColumnParallel`].
    Column {
        /// The dimension along which the input is a part of a sequence.
        sequence: Option<i64>,
        /// Whether all ranks get the whole result.
        gather_output: bool,
    },
    /// See [`RowParallel`].
    Row {
        /// The dimension along which the result is a part of a sequence.
        sequence: Option<i64>,
        /// Whether the input is whole on all ranks.
        whole_input: bool,
    },
    /// See [`VocabParallel`].
    Vocab {
        /// The dimension along which the result is a part of a sequence.
        sequence: Option<i64>,
    },
    /// See [`SequenceParallel`].
    Sequence,
    /// See [`PrepareModuleInput`].
    ScatterInput(i64),
    /// See [`PrepareModuleInput`].
    GatherInput(i64),
    /// See [`PrepareModuleOutput`].
    ScatterOutput(i64),
    /// See [`PrepareModuleOutput`].
    GatherOutput(i64),
}

macro_rules! into_style {
    ($($name:ident => $style:expr;)*) => {$(
        impl From<$name> for ParallelStyle {
            fn from(_: $name) -> ParallelStyle {
                $style
            }
        }
    )*};
}

into_style! {
    ColumnParallel => ParallelStyle::Column { sequence: None, gather_output: false };
    RowParallel => ParallelStyle::Row { sequence: None, whole_input: false };
    VocabParallel => ParallelStyle::Vocab { sequence: None };
    SequenceParallel => ParallelStyle::Sequence;
}

/// A linear layer of which each rank has a part of the outputs (PyTorch's `ColwiseParallel`): `weight` is cut along
/// dimension 0, `bias` too. The input is the same on all ranks, the result this rank's part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnParallel;

impl ColumnParallel {
    /// All ranks get the whole result.
    ///
    /// ```
    /// use torsh_distributed::tensor_parallel::parallelize_module;
    /// use torsh_distributed::{plan, spawn};
    /// use torsh_nn::{Linear, Module, init, sequential};
    /// use torsh_tensor::ones;
    ///
    /// let sizes = spawn(2, |g| {
    ///     let mut net = sequential![Linear::new(2, 4)];
    ///     parallelize_module(&mut net, &g, &plan![("0", ColumnParallel.gather_output())])?;
    ///     Ok(net.forward(&ones([1, 2]))?.dims().to_vec())
    /// })?;
    /// assert_eq!(sizes, [[1, 4], [1, 4]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn gather_output(self) -> ParallelStyle {
        ParallelStyle::Column {
            sequence: None,
            gather_output: true,
        }
    }

    /// The input is this rank's part of a sequence along `dim`, which is gathered first.
    pub fn sequence_input(self, dim: i64) -> ParallelStyle {
        ParallelStyle::Column {
            sequence: Some(dim),
            gather_output: false,
        }
    }
}

/// A linear layer of which each rank has a part of the inputs (PyTorch's `RowwiseParallel`): `weight` is cut along
/// dimension 1. The input is this rank's part, as a [`ColumnParallel`] layer gives it; the result is summed over the ranks. `bias`
/// stays whole on all ranks and is added once: the layer's own addition is taken back ahead of the sum, which costs one
/// rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowParallel;

impl RowParallel {
    /// The input is whole on all ranks, and the layer takes this rank's part.
    pub fn whole_input(self) -> ParallelStyle {
        ParallelStyle::Row {
            sequence: None,
            whole_input: true,
        }
    }

    /// The result is this rank's part of a sequence along `dim`.
    pub fn sequence_output(self, dim: i64) -> ParallelStyle {
        ParallelStyle::Row {
            sequence: Some(dim),
            whole_input: false,
        }
    }
}

/// An embedding of which each rank has a part of the rows (PyTorch's `RowwiseParallel` of an embedding): indices and result
/// are the same on all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VocabParallel;

impl VocabParallel {
    /// The result is this rank's part of a sequence along `dim`.
    pub fn sequence_output(self, dim: i64) -> ParallelStyle {
        ParallelStyle::Vocab {
            sequence: Some(dim),
        }
    }
}

/// A norm or a [`Dropout`](torsh_nn::Dropout) whose input is this rank's part of a sequence (PyTorch's `SequenceParallel`).
/// Parameters stay whole, and their gradients are summed over the ranks; a dropout draws other numbers on each rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SequenceParallel;

/// Changes what goes into a module, between a tensor that all ranks have and parts of a sequence (PyTorch's
/// `PrepareModuleInput`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrepareModuleInput;

impl PrepareModuleInput {
    /// The module gets this rank's part along `dim`.
    pub fn scatter(self, dim: i64) -> ParallelStyle {
        ParallelStyle::ScatterInput(dim)
    }

    /// The module gets the ranks' parts joined along `dim`, and computes the same on all ranks.
    pub fn gather(self, dim: i64) -> ParallelStyle {
        ParallelStyle::GatherInput(dim)
    }
}

/// Changes what comes out of a module, between a tensor that all ranks have and parts of a sequence (PyTorch's
/// `PrepareModuleOutput`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrepareModuleOutput;

impl PrepareModuleOutput {
    /// The result is this rank's part along `dim`.
    pub fn scatter(self, dim: i64) -> ParallelStyle {
        ParallelStyle::ScatterOutput(dim)
    }

    /// The result is the ranks' parts joined along `dim`; what follows computes the same on all ranks.
    pub fn gather(self, dim: i64) -> ParallelStyle {
        ParallelStyle::GatherOutput(dim)
    }
}

/// A plan for [`parallelize_module`](crate::tensor_parallel::parallelize_module): names of modules, in which `*` stands for
/// any text between two dots, and how each is divided. The styles need no `use`.
///
/// ```
/// use torsh_distributed::plan;
///
/// let plan = plan![("blocks.*.fc1", ColumnParallel), ("blocks.*.fc2", RowParallel.sequence_output(1))];
/// assert_eq!(plan[0].0, "blocks.*.fc1");
/// ```
#[macro_export]
macro_rules! plan {
    ($(($name:expr, $style:expr)),* $(,)?) => {{
        #[allow(unused_imports)]
        use $crate::tensor_parallel::{
            ColumnParallel, PrepareModuleInput, PrepareModuleOutput, RowParallel,
            SequenceParallel, VocabParallel,
        };
        let plan: ::std::vec::Vec<(::std::string::String, $crate::tensor_parallel::ParallelStyle)> =
            ::std::vec![$((
                ::std::string::String::from($name),
                $crate::tensor_parallel::ParallelStyle::from($style),
            )),*];
        plan
    }};
}
