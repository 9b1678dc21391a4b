//! Averages of a model's weights, as `torch.optim.swa_utils`.

use std::sync::Arc;

use torsh_nn::{Buffer, FieldRef, Module, ModuleExt};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError, no_grad_guard};

/// The next average from the average so far, the model's tensor and the number of models averaged.
pub type AvgFn = Arc<dyn Fn(&Tensor, &Tensor, u64) -> Result<Tensor> + Send + Sync>;

/// The exponential moving average: `decay * average + (1 - decay) * model`
/// (`swa_utils.get_ema_avg_fn`, whose default is 0.999). An error where `decay` is not in `[0, 1]`.
///
/// ```
/// use torsh_tensor::Tensor;
/// let ema = torsh_optim::get_ema_avg_fn(0.75)?;
/// let (average, model) = (Tensor::from_data(&[4.0f32], [1])?, Tensor::from_data(&[8.0f32], [1])?);
/// assert_eq!(ema(&average, &model, 1)?.item::<f32>()?, 5.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn get_ema_avg_fn(decay: f64) -> Result<AvgFn> {
    if !(0.0..=1.0).contains(&decay) {
        return Err(TorshError::invalid(
            "get_ema_avg_fn",
            format!("Invalid decay value {decay} provided. Please provide a value in [0,1] range"),
        ));
    }
    Ok(Arc::new(move |average: &Tensor, model: &Tensor, _| {
        average.mul(decay)?.add(model.mul(1.0 - decay)?)
    }))
}

/// The mean of all models (`swa_utils.get_swa_avg_fn`).
///
/// ```
/// use torsh_tensor::Tensor;
/// let mean = torsh_optim::get_swa_avg_fn();
/// let (average, model) = (Tensor::from_data(&[4.0f32], [1])?, Tensor::from_data(&[8.0f32], [1])?);
/// assert_eq!(mean(&average, &model, 3)?.item::<f32>()?, 5.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn get_swa_avg_fn() -> AvgFn {
    Arc::new(|average: &Tensor, model: &Tensor, count| {
        average.add(model.sub(average)?.div(count as f64 + 1.0)?)
    })
}

/// A model whose weights are the average of another one's at several times
/// (`swa_utils.AveragedModel`; Izmailov and others, 2018).
///
/// The mean is taken unless [`AveragedModel::avg_fn`] is given. The state dict has PyTorch's names
/// (`module.fc.weight`, `n_averaged`).
///
/// ```
/// use torsh_nn::{Linear, Module};
/// use torsh_optim::AveragedModel;
/// use torsh_tensor::{Tensor, no_grad};
///
/// let model = Linear::new(1, 1);
/// let average = AveragedModel::new(Linear::new(1, 1), &model)?;
/// for value in [1.0, 2.0, 6.0] {
///     no_grad(|| model.weight.fill_(value))?;
///     average.update_parameters(&model)?;
/// }
/// assert_eq!(average.module.weight.item::<f32>()?, 3.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Module)]
pub struct AveragedModel<M: Module> {
    /// The model with the averages.
    pub module: M,
    /// How many models were averaged, an int64.
    pub n_averaged: Buffer,
    #[module(skip)]
    avg_fn: Option<AvgFn>,
    #[module(skip)]
    use_buffers: bool,
}

impl<M: Module> Module for AveragedModel<M> {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.module.forward(x)
    }
}

impl<M: Module> AveragedModel<M> {
    /// The average of a model, which is copied into `module`: another instance of its type, since
    /// a model does not copy itself. An error where they have different parameters.
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_optim::AveragedModel;
    /// let model = Linear::new(1, 1);
    /// let average = AveragedModel::new(Linear::new(1, 1), &model)?;
    /// assert!(average.module.weight.equal(&model.weight)?);
    /// // Another shape.
    /// assert!(AveragedModel::new(Linear::new(2, 1), &model).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new(module: M, model: &(impl Module + ?Sized)) -> Result<AveragedModel<M>> {
        let averaged = AveragedModel {
            module,
            n_averaged: Buffer::new(Tensor::zeros((), DType::I64, Device::Cpu)?),
            avg_fn: None,
            use_buffers: false,
        };
        let _no_grad = no_grad_guard();
        averaged.each(model, true, |to, from| to.copy_(from).map(|_| ()))?;
        averaged.each(model, false, |to, from| to.copy_(from).map(|_| ()))?;
        Ok(averaged)
    }

    /// How averages are taken, as [`get_ema_avg_fn`].
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_optim::{AveragedModel, get_ema_avg_fn};
    /// use torsh_tensor::no_grad;
    /// let model = Linear::new(1, 1);
    /// let average = AveragedModel::new(Linear::new(1, 1), &model)?.avg_fn(get_ema_avg_fn(0.75)?);
    /// for value in [0.0, 4.0] {
    ///     no_grad(|| model.weight.fill_(value))?;
    ///     average.update_parameters(&model)?;
    /// }
    /// // A quarter of the way from 0 to 4.
    /// assert_eq!(average.module.weight.item::<f32>()?, 1.0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[must_use]
    pub fn avg_fn(mut self, avg_fn: AvgFn) -> Self {
        self.avg_fn = Some(avg_fn);
        self
    }

    /// Whether buffers are averaged too; else they are those of the last model.
    #[must_use]
    pub fn use_buffers(mut self, use_buffers: bool) -> Self {
        self.use_buffers = use_buffers;
        self
    }

    /// Calls `f` with the tensors of this model and another's: parameters or buffers.
    fn each(
        &self,
        model: &(impl Module + ?Sized),
        parameters: bool,
        f: impl Fn(&Tensor, &Tensor) -> Result<()>,
    ) -> Result<()> {
        fn tensors(m: &(impl Module + ?Sized), parameters: bool) -> Vec<(String, Tensor)> {
            if parameters {
                let all = m.named_parameters().into_iter();
                all.map(|(n, p)| (n, p.tensor().detach())).collect()
            } else {
                let all = m.named_buffers().into_iter();
                all.map(|(n, b)| (n, b.tensor().detach())).collect()
            }
        }
        let own = tensors(&self.module, parameters);
        let other = tensors(model, parameters);
        let fits = own.len() == other.len()
            && own
                .iter()
                .zip(&other)
                .all(|((m, a), (n, b))| m == n && a.shape() == b.shape());
        if !fits {
            return Err(TorshError::invalid(
                "AveragedModel",
                "the averaged model has other parameters or buffers than the model",
            )
            .with_hint(
                "make it as another instance of the model's type, with the same arguments",
            ));
        }
        for ((name, to), (_, from)) in own.iter().zip(&other) {
            if to.shares_storage(from) {
                return Err(TorshError::invalid(
                    "AveragedModel",
                    format!("the averaged model shares {name} with the model"),
                )
                .with_hint("make it as another instance of the model's type"));
            }
            f(to, &from.to_device(to.device())?)?;
        }
        Ok(())
    }

    /// Takes the model's weights into the average; the first are copied.
    ///
    /// ```
    /// use torsh_nn::Linear;
    /// use torsh_optim::AveragedModel;
    /// use torsh_tensor::no_grad;
    /// let model = Linear::new(1, 1);
    /// let average = AveragedModel::new(Linear::new(1, 1), &model)?;
    /// for value in [1.0, 3.0] {
    ///     no_grad(|| model.weight.fill_(value))?;
    ///     average.update_parameters(&model)?;
    /// }
    /// assert_eq!(average.module.weight.item::<f32>()?, 2.0);
    /// assert_eq!(average.n_averaged.item::<i64>()?, 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn update_parameters(&self, model: &(impl Module + ?Sized)) -> Result<()> {
        let _no_grad = no_grad_guard();
        let count = self.n_averaged.item::<i64>()?.unsigned_abs();
        let average = |to: &Tensor, from: &Tensor| -> Result<()> {
            match &self.avg_fn {
                _ if count == 0 => to.copy_(from)?,
                Some(f) => to.copy_(&f(to, from, count)?)?,
                None if to.dtype().is_differentiable() => {
                    to.lerp_(&from.to_dtype(to.dtype())?, 1.0 / (count as f64 + 1.0))?
                }
                None => to.copy_(&get_swa_avg_fn()(to, from, count)?)?,
            };
            Ok(())
        };
        self.each(model, true, average)?;
        if self.use_buffers {
            self.each(model, false, average)?;
        } else {
            self.each(model, false, |to, from| to.copy_(from).map(|_| ()))?;
        }
        self.n_averaged.add_(1)?;
        Ok(())
    }
}

/// Makes the running statistics of the batch norms of a model those of some data, each batch
/// counting the same (`swa_utils.update_bn`). The loader gives inputs.
///
/// ```
/// use torsh_nn::BatchNorm1d;
/// use torsh_tensor::Tensor;
/// let model = BatchNorm1d::new(1)?;
/// let batches = [[0.0f32, 2.0], [4.0, 6.0]].map(|b| Tensor::from_data(&b, [2, 1]));
/// torsh_optim::update_bn(batches, &model)?;
/// let mean = model.running_mean.as_ref().map(|m| m.item::<f32>()).transpose()?;
/// assert_eq!(mean, Some(3.0));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn update_bn(
    loader: impl IntoIterator<Item = Result<Tensor>>,
    model: &(impl Module + ?Sized),
) -> Result<()> {
    let _no_grad = no_grad_guard();
    let mut momenta = Vec::new();
    for module in model.modules() {
        let (mut momentum, mut buffers) = (None, Vec::new());
        module.visit_fields(&mut |name, field| match field {
            FieldRef::Momentum(m) => momentum = Some(m),
            FieldRef::Buffer(b) => buffers.push((name == "running_var", b)),
            _ => {}
        });
        if let Some(momentum) = momentum {
            for (is_var, b) in buffers {
                b.fill_(if is_var { 1.0 } else { 0.0 })?;
            }
            momenta.push((momentum, momentum.get()));
        }
    }
    if momenta.is_empty() {
        return Ok(());
    }
    let modes: Vec<bool> = model.modules().iter().map(|m| m.is_training()).collect();
    model.train();
    momenta.iter().for_each(|(momentum, _)| momentum.set(None));
    let result = loader
        .into_iter()
        .try_for_each(|x| model.forward(&x?).map(|_| ()));
    for (momentum, value) in momenta {
        momentum.set(value);
    }
    for (module, mode) in model.modules().into_iter().zip(modes) {
        set_own_mode(module, mode);
    }
    result
}

/// Sets the mode of a module without its children.
fn set_own_mode(module: &dyn Module, training: bool) {
    module.visit_fields(&mut |_, field| {
        if let FieldRef::Training(t) = field {
            t.set(training);
        }
    });
}
