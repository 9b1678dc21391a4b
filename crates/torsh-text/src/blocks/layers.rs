//! The layers of a model, which run one after the other.

use std::ops::Deref;
use std::sync::Arc;

use torsh_nn::{FieldMut, FieldRef, GradientCheckpointing, ModuleField, ModuleFields, Training};
use torsh_tensor::{Result, Tensor, TorshError, checkpoint, rand};

use super::KvCache;

/// The layers of a model, one behind the other, with the switch of gradient checkpointing.
///
/// As a field of a module it is a list: the layers of a field `layers` are named `layers.0`, `layers.1`, ..
/// [`ModuleExt::gradient_checkpointing`](torsh_nn::ModuleExt::gradient_checkpointing) of the model, or of whatever
/// holds it, turns the switch. It is a slice of [`Arc`]s, since a checkpoint keeps its layer until the backward pass.
///
/// ```
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_tensor::{Result, Tensor, ones};
/// use torsh_text::blocks::Layers;
///
/// #[derive(Module)]
/// struct Deep {
///     layers: Layers<Linear>,
/// }
///
/// impl Module for Deep {
///     fn forward(&self, x: &Tensor) -> Result<Tensor> {
///         self.layers.run(x.clone(), |layer, _, x| layer.forward(x)?.tanh())
///     }
/// }
///
/// let net = Deep { layers: (0..3).map(|_| Linear::new(2, 2)).collect() };
/// assert_eq!(net.state_dict().keys().last(), Some("layers.2.bias"));
/// let gradient = || -> Result<_> {
///     net.zero_grad();
///     net.forward(&ones([1, 2]))?.sum()?.backward()?;
///     Ok(net.layers[0].weight.grad())
/// };
/// let kept = gradient()?;
/// net.gradient_checkpointing(true)?;
/// assert_eq!(gradient()?, kept);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct Layers<L> {
    layers: Vec<Arc<L>>,
    checkpointing: GradientCheckpointing,
}

/// What a run through layers has besides.
#[derive(Default)]
pub(crate) struct LayerRun<'a> {
    /// The tokens before those of the run.
    cache: Option<&'a mut KvCache>,
    /// With which probability a layer is left out.
    layer_drop: f64,
}

impl<'a> LayerRun<'a> {
    /// Behind the tokens of a cache, where there is one.
    pub(crate) fn behind(cache: Option<&'a mut KvCache>) -> LayerRun<'a> {
        LayerRun {
            cache,
            layer_drop: 0.0,
        }
    }

    /// In training, each layer is left out with this probability (LayerDrop, Fan et al., "Reducing Transformer Depth on
    /// Demand with Structured Dropout", 2019).
    pub(crate) fn dropping(mut self, training: &Training, probability: f64) -> LayerRun<'a> {
        self.layer_drop = if training.get() { probability } else { 0.0 };
        self
    }
}

impl<L: Send + Sync + 'static> Layers<L> {
    /// Runs all layers: `call(layer, number, x)` gives what the next one reads, the first one reads `x`.
    ///
    /// Where the switch is on and gradients are recorded, each call is a checkpoint: what the layer computes on the way
    /// is computed again in the backward pass, with the same random numbers. `call` then keeps what it captures until
    /// the graph is gone.
    ///
    /// # Errors
    /// Those of `call`.
    #[torsh_tensor::names_caller]
    pub fn run(
        &self,
        x: Tensor,
        call: impl Fn(&L, usize, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        let call =
            move |layer: &L, at: usize, x: &Tensor, _: Option<&mut KvCache>| call(layer, at, x);
        self.run_with(x, LayerRun::default(), call)
    }

    /// [`Layers::run`] with a cache, or layers that are left out. Steps with a cache are not checkpointed: their keys
    /// and values are kept anyway.
    #[track_caller]
    pub(crate) fn run_with(
        &self,
        x: Tensor,
        run: LayerRun<'_>,
        call: impl Fn(&L, usize, &Tensor, Option<&mut KvCache>) -> Result<Tensor>
        + Send
        + Sync
        + 'static,
    ) -> Result<Tensor> {
        self.run_in_order(0..self.layers.len(), x, run, call)
    }

    /// [`Layers::run_with`] of the layers with these numbers, some of which may run several times.
    #[track_caller]
    pub(crate) fn run_in_order(
        &self,
        order: impl IntoIterator<Item = usize>,
        mut x: Tensor,
        mut run: LayerRun<'_>,
        call: impl Fn(&L, usize, &Tensor, Option<&mut KvCache>) -> Result<Tensor>
        + Send
        + Sync
        + 'static,
    ) -> Result<Tensor> {
        let checkpoints = run.cache.is_none() && self.checkpointing.applies();
        let call = Arc::new(call);
        for at in order {
            if run.layer_drop > 0.0 && rand(()).item::<f64>()? < run.layer_drop {
                continue;
            }
            let layer = &self.layers[at];
            x = match checkpoints {
                false => call(layer, at, &x, run.cache.as_deref_mut())?,
                true => {
                    let (layer, call) = (layer.clone(), call.clone());
                    checkpoint(move || call(&layer, at, &x, None))?
                }
            };
        }
        Ok(x)
    }
}

impl<L> Layers<L> {
    /// The layers, to be changed: for [`fully_shard`] of each, say.
    ///
    /// ```
    /// use torsh_nn::{Linear, Parameter};
    /// use torsh_tensor::ones;
    /// use torsh_text::blocks::Layers;
    /// let mut layers: Layers<Linear> = (0..2).map(|_| Linear::new(1, 1)).collect();
    /// for layer in layers.iter_mut()? {
    ///     layer.weight = Parameter::new(ones([1, 1]));
    /// }
    /// assert_eq!(layers[1].weight.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    ///
    /// [`fully_shard`]: https://docs.rs/torsh-distributed/latest/torsh_distributed/fn.fully_shard.html
    ///
    /// # Errors
    /// A layer that somebody else holds too, as the graph of a checkpointed call does until its backward pass.
    #[torsh_tensor::names_caller]
    pub fn iter_mut(&mut self) -> Result<impl Iterator<Item = &mut L>> {
        let count = self.layers.len();
        let own: Vec<&mut L> = self.layers.iter_mut().filter_map(Arc::get_mut).collect();
        match own.len() == count {
            true => Ok(own.into_iter()),
            false => Err(TorshError::invalid(
                "Layers",
                "a layer cannot be changed: somebody else holds it too",
            )
            .with_hint("drop the other handles first; the graph of a checkpointed call is one until its backward or its end")),
        }
    }
}

impl<L> FromIterator<L> for Layers<L> {
    fn from_iter<I: IntoIterator<Item = L>>(layers: I) -> Layers<L> {
        Layers {
            layers: layers.into_iter().map(Arc::new).collect(),
            checkpointing: GradientCheckpointing::default(),
        }
    }
}

impl<L> Deref for Layers<L> {
    type Target = [Arc<L>];

    fn deref(&self) -> &[Arc<L>] {
        &self.layers
    }
}

impl<L: ModuleFields> ModuleField for Layers<L> {
    fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        self.layers.visit_field(name, visitor);
        self.checkpointing.visit_field(name, visitor);
    }

    fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        self.layers.visit_field_mut(name, visitor);
        self.checkpointing.visit_field_mut(name, visitor);
    }
}
