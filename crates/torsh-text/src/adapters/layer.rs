//! The adapter of one linear layer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use torsh_functional as F;
use torsh_nn::construct::Construction;
use torsh_nn::init::{self, KaimingOptions};
use torsh_nn::{
    FieldMut, FieldRef, Linear, Module, ModuleField, ModuleFields, Parameter, Training,
};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::config::{LoraConfig, LoraInit};

/// What an adapter and the hook of its layer share.
struct Shared {
    /// A and B, as the adapter's fields have them.
    weights: RwLock<[Parameter; 2]>,
    scaling: f64,
    dropout: f64,
    training: Training,
    /// Whether the hook adds the change.
    active: AtomicBool,
}

impl Shared {
    fn weights(&self) -> [Parameter; 2] {
        let weights = self.weights.read().unwrap_or_else(PoisonError::into_inner);
        weights.clone()
    }

    /// What is added to the layer's result for this input.
    fn change(&self, x: &Tensor) -> Result<Tensor> {
        let [a, b] = self.weights();
        let mut x = x.to_dtype(a.dtype())?;
        if self.dropout > 0.0 {
            x = F::dropout(&x, self.dropout, self.training.get())?;
        }
        F::linear(&F::linear(&x, a.tensor(), None)?, b.tensor(), None)?.mul(self.scaling)
    }
}

/// The two matrices of a linear layer's adapter: `forward` gives `scaling * B(A(dropout(x)))`, which
/// [`LoraModel`](super::LoraModel) adds to the layer's result.
///
/// `A` is `[r, in_features]`, `B` is `[out_features, r]`; the names are `lora_A.default.weight` and
/// `lora_B.default.weight`.
///
/// ```
/// use torsh_nn::{Linear, Module, Sequential};
/// use torsh_text::adapters::{LoraConfig, LoraInit, LoraModel};
/// let base = Sequential::new().add(Linear::new(3, 3));
/// let config = LoraConfig::new().r(2).lora_alpha(8.0).target_modules(["0"]).init_lora_weights(LoraInit::Random);
/// let model = LoraModel::new(base, config)?;
/// let (name, layer) = model.adapters().next().expect("the layer has an adapter");
/// assert_eq!((name, layer.scaling()), ("0", 4.0));
/// let product = layer.lora_b().matmul(layer.lora_a().tensor())?;
/// assert_eq!(layer.delta_weight()?, product.mul(4.0)?);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct LoraLayer {
    a: Parameter,
    b: Parameter,
    shared: Arc<Shared>,
}

impl LoraLayer {
    /// An adapter of the layer `name`. Beside a layer of half precision it is of float32.
    #[track_caller]
    pub(super) fn new(
        name: &str,
        [inputs, outputs]: [usize; 2],
        dtype: DType,
        device: Device,
        config: &LoraConfig,
    ) -> Result<LoraLayer> {
        if !(0.0..=1.0).contains(&config.lora_dropout) {
            return Err(TorshError::invalid(
                "LoraConfig",
                format!(
                    "lora_dropout = {} is not between 0 and 1",
                    config.lora_dropout
                ),
            ));
        }
        let (rank, scaling) = config.rank_and_scale(name)?;
        // Drawn as peft draws them: two linear layers, and then A again.
        let draw = || -> Result<_> {
            let a = Linear::builder(inputs, rank).bias(false).build()?;
            let b = Linear::builder(rank, outputs).bias(false).build()?;
            match config.init_lora_weights {
                LoraInit::Default => {
                    let options = KaimingOptions::default().a(5f64.sqrt());
                    init::kaiming_uniform_with(&a.weight, options)?;
                    init::zeros_(&b.weight)?;
                }
                LoraInit::Gaussian => {
                    init::normal_(&a.weight, 0.0, 1.0 / rank as f64)?;
                    init::zeros_(&b.weight)?;
                }
                LoraInit::Random | LoraInit::Unknown(_) => {}
            }
            Ok((a.weight, b.weight))
        };
        let construction = Construction::new().dtype(DType::F32).device(Device::Cpu);
        let (a, b) = construction.run(draw)?;
        let dtype = match dtype {
            DType::BF16 | DType::F16 => DType::F32,
            other => other,
        };
        let made = |p: Parameter| -> Result<_> {
            let weight = p.detach().to_dtype(dtype)?.to_device(device)?;
            Parameter::with_requires_grad(weight, true)
        };
        let (a, b) = (made(a)?, made(b)?);
        let shared = Arc::new(Shared {
            weights: RwLock::new([a.clone(), b.clone()]),
            scaling,
            dropout: config.lora_dropout,
            training: Training::default(),
            active: AtomicBool::new(true),
        });
        Ok(LoraLayer { a, b, shared })
    }

    /// `[r, in_features]`
    pub fn lora_a(&self) -> &Parameter {
        &self.a
    }

    /// `[out_features, r]`
    pub fn lora_b(&self) -> &Parameter {
        &self.b
    }

    /// What the change is multiplied by.
    pub fn scaling(&self) -> f64 {
        self.shared.scaling
    }

    /// `scaling * B A`, `[out_features, in_features]`: what merging adds to the layer's weight.
    #[torsh_tensor::names_caller]
    pub fn delta_weight(&self) -> Result<Tensor> {
        self.b.matmul(self.a.tensor())?.mul(self.shared.scaling)
    }

    /// Lets the hook add the change, or not.
    pub(super) fn set_active(&self, active: bool) {
        self.shared.active.store(active, Ordering::Relaxed);
    }

    /// The hook of the layer: adds the change to its result.
    pub(super) fn hook(
        &self,
    ) -> impl Fn(&dyn Module, &Tensor, &Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static
    {
        let shared = self.shared.clone();
        move |_, x, y| match shared.active.load(Ordering::Relaxed) {
            true => Ok(Some(y.add(&shared.change(x)?)?.to_dtype(y.dtype())?)),
            false => Ok(None),
        }
    }
}

impl Module for LoraLayer {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.shared.change(x)
    }

    fn extra_repr(&self) -> String {
        format!(
            "r={}, scaling={}, dropout={}",
            self.a.dims()[0],
            self.shared.scaling,
            self.shared.dropout
        )
    }
}

impl ModuleFields for LoraLayer {
    fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        visitor("lora_A.default.weight", FieldRef::Parameter(&self.a));
        visitor("lora_B.default.weight", FieldRef::Parameter(&self.b));
        visitor("training", FieldRef::Training(&self.shared.training));
    }

    fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        visitor("lora_A.default.weight", FieldMut::Parameter(&mut self.a));
        visitor("lora_B.default.weight", FieldMut::Parameter(&mut self.b));
        // A conversion puts others in their place, with which the hook must compute from now on.
        let mut weights = self
            .shared
            .weights
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *weights = [self.a.clone(), self.b.clone()];
    }

    fn type_name(&self) -> &'static str {
        "LoraLayer"
    }
}

impl ModuleField for LoraLayer {
    fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        visitor(name, FieldRef::Module(self));
    }

    fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        visitor(name, FieldMut::Module(self));
    }
}
