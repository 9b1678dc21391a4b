//! Weights that are recomputed from other tensors before each call.

mod names;

use std::sync::{Mutex, MutexGuard, PoisonError};

use torsh_functional::NormalizeOptions;
use torsh_tensor::{Device, NormOptions, Result, Tensor, TorshError, no_grad};

use crate::init;
use crate::module::{
    Buffer, FieldMut, FieldRef, Hooks, Module, ModuleExt, ModuleField, ModuleFields, Parameter,
    StateDict, Training,
};
use crate::utils::orthogonal::{self, OrthogonalMap, OrthogonalOptions};
pub(super) use names::Form;

enum Rule {
    /// `v * g / |v|`, with a norm for each index of a dimension or one of all.
    Weight { dim: Option<usize> },
    /// The original over its largest singular value.
    Spectral {
        dim: usize,
        options: SpectralNormOptions,
    },
    /// An orthogonal matrix, by a map of what is trained.
    Orthogonal(OrthogonalMap),
    /// The original times a mask.
    Pruned,
}

impl Rule {
    fn describe(&self) -> &'static str {
        match self {
            Rule::Weight { .. } => "a weight norm",
            Rule::Spectral { .. } => "a spectral norm",
            Rule::Orthogonal(_) => "an orthogonal parametrization",
            Rule::Pruned => "a pruned parameter",
        }
    }
}

enum Held {
    Parameter(Parameter),
    Buffer(Buffer),
}

/// A layer one of whose parameters is computed from others: made by [`weight_norm`],
/// [`spectral_norm`] and the functions of [`prune`](crate::utils::prune).
///
/// Its state dict has these tensors and the layer's other ones under PyTorch's names. It is called
/// by [`Module::forward`], or by [`call`](Reparametrized::call) where one tensor is not enough.
pub struct Reparametrized<M: Module> {
    /// The layer; a tensor without data stands in for the parameter between calls.
    layer: Mutex<M>,
    type_name: &'static str,
    repr: String,
    name: String,
    form: Form,
    rule: Rule,
    /// What the parameter is computed from.
    own: Vec<(String, Held)>,
    /// Handles of the layer's other parameters and buffers.
    others: Vec<(String, Held)>,
    training: Training,
    hooks: Hooks,
}

/// A layer with its computed parameter in place.
struct Computed<'a, M: Module> {
    layer: MutexGuard<'a, M>,
    name: &'a str,
    empty: Option<Parameter>,
}

impl<M: Module> Drop for Computed<'_, M> {
    fn drop(&mut self) {
        if let Some(empty) = self.empty.take() {
            exchange(&mut *self.layer, self.name, empty);
        }
    }
}

/// Puts another parameter in a layer's; gives the one that was there.
fn exchange<M: Module>(layer: &mut M, name: &str, with: Parameter) -> Option<Parameter> {
    let mut with = Some(with);
    layer.visit_fields_mut(&mut |n, field| {
        if let FieldMut::Parameter(p) = field
            && n == name
            && let Some(new) = with.take()
        {
            with = Some(std::mem::replace(p, new));
        }
    });
    with
}

/// Handles of a layer's parameters and buffers but one.
fn others<M: Module>(layer: &M, name: &str) -> Vec<(String, Held)> {
    let mut out = Vec::new();
    layer.visit_fields(&mut |n, field| match field {
        FieldRef::Parameter(p) if n != name => {
            out.push((n.to_string(), Held::Parameter(p.clone())));
        }
        FieldRef::Buffer(b) => out.push((n.to_string(), Held::Buffer(b.clone()))),
        _ => {}
    });
    out
}

impl<M: Module> Reparametrized<M> {
    #[track_caller]
    fn new(
        op: &'static str,
        form: Form,
        mut layer: M,
        name: &str,
        make: impl FnOnce(&Parameter, &M) -> Result<(Rule, Vec<(String, Held)>)>,
    ) -> Result<Reparametrized<M>> {
        if !layer.children().is_empty() {
            return Err(TorshError::invalid(
                op,
                format!("{} has layers below it", layer.type_name()),
            )
            .with_hint("apply it to the layer that has the parameter"));
        }
        let weight = layer.get_parameter(name).map_err(|e| e.renamed(op))?;
        let (rule, own) = make(&weight, &layer).map_err(|e| e.renamed(op))?;
        let (type_name, repr) = (layer.type_name(), layer.extra_repr());
        let empty = Tensor::empty(weight.shape(), weight.dtype(), Device::Meta)?;
        exchange(&mut layer, name, Parameter::standing_in(empty));
        Ok(Reparametrized {
            others: others(&layer, name),
            type_name,
            repr,
            name: name.to_string(),
            form,
            rule,
            own,
            training: Training::new(layer.is_training()),
            hooks: Hooks::new(),
            layer: Mutex::new(layer),
        })
    }

    fn own(&self, i: usize) -> &Tensor {
        match &self.own[i].1 {
            Held::Parameter(p) => p.tensor(),
            Held::Buffer(b) => b.tensor(),
        }
    }

    /// The parameter as the next call computes it; in training a spectral norm first comes nearer
    /// to the singular vectors.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt, utils};
    /// # use torsh_tensor::tensor;
    /// let layer = utils::weight_norm(Linear::builder(2, 1).bias(false).build()?, "weight", 0)?;
    /// layer.state_dict()["weight_g"].fill_(10.0)?;
    /// layer.state_dict()["weight_v"].copy_(&tensor![[3.0, 4.0]])?;
    /// assert!(layer.weight()?.allclose(&tensor![[6.0, 8.0]])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn weight(&self) -> Result<Tensor> {
        self.compute(self.training.get())
    }

    fn compute(&self, iterate: bool) -> Result<Tensor> {
        match &self.rule {
            Rule::Orthogonal(map) => {
                let base = (self.own.len() > 1).then(|| self.own(1));
                orthogonal::weight(*map, self.own(0), base)
            }
            Rule::Weight { dim } => {
                let (g, v) = (self.own(0), self.own(1));
                v.mul(&g.div(&norm_except(v, *dim)?)?)
            }
            Rule::Pruned => masked(self.own(0), self.own(1)),
            Rule::Spectral { dim, options } => {
                let weight = self.own(0);
                if self.own.len() == 1 {
                    return unit(weight, options.eps);
                }
                let (u, v) = (self.own(1), self.own(2));
                let matrix = as_matrix(weight, *dim)?;
                if iterate {
                    iterate_power(
                        self.form,
                        &matrix,
                        u,
                        v,
                        options.n_power_iterations,
                        options.eps,
                    )?;
                }
                // Copies, so that a later call leaves what this one's backward needs.
                let (u, v) = no_grad(|| Ok((u.copy()?, v.copy()?)))?;
                weight.div(&u.matmul(&matrix.matmul(&v)?)?)
            }
        }
    }

    /// Calls the layer with its computed parameter, as `layer.call(|l| l.forward_with(&a, &b))`. An
    /// error of `f` is one of the call.
    ///
    /// Calls of several threads take turns.
    ///
    /// ```
    /// # use torsh_nn::{Linear, Module, utils};
    /// # use torsh_tensor::tensor;
    /// let layer = utils::weight_norm(Linear::new(2, 1), "weight", 0)?;
    /// let x = tensor![1.0, 2.0];
    /// assert_eq!(layer.call(|l| l.forward(&x))?, layer.forward(&x)?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn call<T>(&self, f: impl FnOnce(&M) -> Result<T>) -> Result<T> {
        let weight = Parameter::standing_in(self.weight()?);
        let mut layer = self.layer.lock().unwrap_or_else(PoisonError::into_inner);
        layer.set_training(self.training.get());
        let empty = exchange(&mut *layer, &self.name, weight);
        let computed = Computed {
            layer,
            name: &self.name,
            empty,
        };
        f(&computed.layer)
    }

    /// The layer with its parameter as it is now, which is trained again.
    #[track_caller]
    pub(super) fn remove(self) -> Result<M> {
        let weight = no_grad(|| self.compute(false))?.detach();
        let training = self.training.get();
        let mut layer = self
            .layer
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        layer.set_training(training);
        exchange(
            &mut layer,
            &self.name,
            Parameter::with_requires_grad(weight, true)?,
        );
        Ok(layer)
    }
}

impl<M: Module> Module for Reparametrized<M> {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks
            .run(self, x, |x| self.call(|layer| layer.forward(x)))
    }

    /// The names of both forms and of PyTorch before 1.0 are read.
    #[torsh_tensor::names_caller]
    fn upgrade_state_dict(&self, state: &mut StateDict, prefix: &str) -> Result<()> {
        match self.rule {
            Rule::Orthogonal(_) | Rule::Pruned => {}
            Rule::Weight { .. } => {
                names::upgrade_weight_norm(state, prefix, self.form, &self.name);
            }
            Rule::Spectral { dim, .. } => {
                let (form, name, weight) = (self.form, &self.name, self.own(0));
                names::upgrade_spectral_norm(state, prefix, form, name, weight, dim)?;
            }
        }
        let layer = self.layer.lock().unwrap_or_else(PoisonError::into_inner);
        layer.upgrade_state_dict(state, prefix)
    }

    fn extra_repr(&self) -> String {
        self.repr.clone()
    }
}

impl<M: Module> ModuleField for Reparametrized<M> {
    fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        visitor(name, FieldRef::Module(self));
    }

    fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        visitor(name, FieldMut::Module(self));
    }
}

impl<M: Module> ModuleFields for Reparametrized<M> {
    fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
        for (name, held) in self.others.iter().chain(&self.own) {
            match held {
                Held::Parameter(p) => visitor(name, FieldRef::Parameter(p)),
                Held::Buffer(b) => visitor(name, FieldRef::Buffer(b)),
            }
        }
        visitor("training", FieldRef::Training(&self.training));
        visitor("hooks", FieldRef::Hooks(&self.hooks));
    }

    fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
        let layer = self.layer.get_mut().unwrap_or_else(PoisonError::into_inner);
        layer.visit_fields_mut(&mut |name, field| match field {
            FieldMut::Parameter(p) if name != self.name => visitor(name, FieldMut::Parameter(p)),
            FieldMut::Buffer(b) => visitor(name, FieldMut::Buffer(b)),
            _ => {}
        });
        self.others = others(layer, &self.name);
        for (name, held) in &mut self.own {
            match held {
                Held::Parameter(p) => visitor(name, FieldMut::Parameter(p)),
                Held::Buffer(b) => visitor(name, FieldMut::Buffer(b)),
            }
        }
        visitor("training", FieldMut::Training(&mut self.training));
        visitor("hooks", FieldMut::Hooks(&mut self.hooks));
    }

    fn type_name(&self) -> &'static str {
        self.type_name
    }
}

/// The values of a parameter that a mask leaves, and 0 for the others.
pub(super) fn masked(original: &Tensor, mask: &Tensor) -> Result<Tensor> {
    mask.to_dtype(original.dtype())?.mul(original)
}

/// The Euclidean norm over all dimensions but one, which stay with size 1; of all elements, 0-d.
fn norm_except(v: &Tensor, dim: Option<usize>) -> Result<Tensor> {
    let Some(dim) = dim else {
        return v.norm();
    };
    let rest: Vec<i64> = (0..v.ndim() as i64).filter(|&d| d != dim as i64).collect();
    match rest.is_empty() {
        true => v.abs(),
        false => v.norm_with(NormOptions::default().dim(rest).keepdim(true)),
    }
}

/// A weight as a matrix with a dimension first.
fn as_matrix(weight: &Tensor, dim: usize) -> Result<Tensor> {
    let weight = weight.movedim(dim as i64, 0)?;
    let height = weight.dims()[0];
    weight.reshape([height as i64, -1])
}

/// Comes nearer to the singular vectors of the largest singular value.
fn iterate_power(
    form: Form,
    matrix: &Tensor,
    u: &Tensor,
    v: &Tensor,
    times: usize,
    eps: f64,
) -> Result<()> {
    no_grad(|| {
        for _ in 0..times {
            let next_u = || u.copy_(&unit(&matrix.matmul(v)?, eps)?).map(drop);
            let next_v = || v.copy_(&unit(&matrix.t()?.matmul(u)?, eps)?).map(drop);
            match form {
                Form::Hook => next_v().and_then(|()| next_u())?,
                Form::Parametrization => next_u().and_then(|()| next_v())?,
            }
        }
        Ok(())
    })
}

fn unit(x: &Tensor, eps: f64) -> Result<Tensor> {
    x.normalize_with(NormalizeOptions::default().dim(0).eps(eps))
}

/// Dimension `dim` of a parameter; negative ones count from the end.
fn dimension(weight: &Tensor, dim: i64) -> Result<usize> {
    let n = weight.ndim() as i64;
    match dim {
        d if (-n..n).contains(&d) => Ok(d.rem_euclid(n) as usize),
        d => Err(TorshError::index(
            "",
            format!("dimension {d} is out of range for {}", weight.describe()),
        )),
    }
}

/// A layer whose parameter `name` is `NAME_v` scaled to the length `NAME_g`: for each index of
/// `dim` (0 in PyTorch unless given), or as a whole where `dim` is `None`
/// (`torch.nn.utils.weight_norm`; Salimans and Kingma, 2016).
///
/// ```
/// use torsh_nn::utils::{remove_weight_norm, weight_norm};
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_tensor::tensor;
/// let layer = Linear::builder(2, 1).bias(false).build()?;
/// torsh_tensor::no_grad(|| layer.weight.copy_(&tensor![[3.0, 4.0]]))?;
/// let layer = weight_norm(layer, "weight", 0)?;
/// assert_eq!(layer.state_dict().keys().collect::<Vec<_>>(), ["weight_g", "weight_v"]);
/// assert_eq!(layer.state_dict()["weight_g"].to_vec::<f32>()?, [5.0]);
/// assert_eq!(layer.forward(&tensor![1.0, 1.0])?.to_vec::<f32>()?, [7.0]);
/// let layer = remove_weight_norm(layer)?;
/// assert_eq!(layer.weight.to_vec::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn weight_norm<M: Module>(
    layer: M,
    name: &str,
    dim: impl Into<Option<i64>>,
) -> Result<Reparametrized<M>> {
    weight_norm_as(Form::Hook, layer, name, dim.into())
}

#[torsh_tensor::names_caller]
pub(super) fn weight_norm_as<M: Module>(
    form: Form,
    layer: M,
    name: &str,
    dim: Option<i64>,
) -> Result<Reparametrized<M>> {
    Reparametrized::new("weight_norm", form, layer, name, |weight, _| {
        let dim = dim.map(|d| dimension(weight, d)).transpose()?;
        let v = weight.detach();
        let g = no_grad(|| norm_except(&v, dim))?;
        let parameter = |t: Tensor| Parameter::with_requires_grad(t, true).map(Held::Parameter);
        let [name_g, name_v] = form.weight_norm(name);
        let own = vec![(name_g, parameter(g)?), (name_v, parameter(v)?)];
        Ok((Rule::Weight { dim }, own))
    })
}

/// The layer of a [`weight_norm`] with a parameter of its own again
/// (`torch.nn.utils.remove_weight_norm`). An error for the layer of another rule.
///
/// ```
/// # use torsh_nn::{Linear, init, utils};
/// let layer = Linear::builder(2, 1).bias(false).build()?;
/// init::ones_(&layer.weight)?;
/// let layer = utils::remove_weight_norm(utils::weight_norm(layer, "weight", 0)?)?;
/// assert_eq!(layer.weight.to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn remove_weight_norm<M: Module>(layer: Reparametrized<M>) -> Result<M> {
    match layer.rule {
        Rule::Weight { .. } => layer.remove(),
        other => Err(TorshError::invalid(
            "remove_weight_norm",
            format!("the layer has {}", other.describe()),
        )),
    }
}

/// The options of [`spectral_norm_with`].
///
/// ```
/// # use torsh_nn::utils;
/// let options = utils::SpectralNormOptions::default();
/// assert_eq!((options.n_power_iterations, options.dim), (1, None));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SpectralNormOptions {
    /// How often a call in training comes nearer to the singular vectors.
    pub n_power_iterations: usize,
    /// What norms are at least taken to be.
    pub eps: f64,
    /// The dimension that counts the outputs; 0, or 1 for transposed convolutions, where `None`.
    pub dim: Option<i64>,
}

impl Default for SpectralNormOptions {
    fn default() -> Self {
        SpectralNormOptions {
            n_power_iterations: 1,
            eps: 1e-12,
            dim: None,
        }
    }
}

impl SpectralNormOptions {
    /// PyTorch's defaults.
    ///
    /// ```
    /// # use torsh_nn::utils;
    /// assert_eq!(utils::SpectralNormOptions::new().eps, 1e-12);
    /// ```
    pub fn new() -> Self {
        SpectralNormOptions::default()
    }

    /// How often a call in training comes nearer to the singular vectors.
    ///
    /// ```
    /// # use torsh_nn::utils;
    /// assert_eq!(utils::SpectralNormOptions::default().n_power_iterations(3).n_power_iterations, 3);
    /// ```
    #[must_use]
    pub fn n_power_iterations(mut self, n_power_iterations: usize) -> Self {
        self.n_power_iterations = n_power_iterations;
        self
    }

    /// What norms are at least taken to be.
    ///
    /// ```
    /// # use torsh_nn::utils;
    /// assert_eq!(utils::SpectralNormOptions::default().eps(1e-6).eps, 1e-6);
    /// ```
    #[must_use]
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// The dimension that counts the outputs.
    ///
    /// ```
    /// # use torsh_nn::utils;
    /// assert_eq!(utils::SpectralNormOptions::default().dim(1).dim, Some(1));
    /// ```
    #[must_use]
    pub fn dim(mut self, dim: impl Into<Option<i64>>) -> Self {
        self.dim = dim.into();
        self
    }
}

/// A layer whose parameter `name` is `NAME_orig` over its largest singular value, as the buffers
/// `NAME_u` and `NAME_v` estimate it (`torch.nn.utils.spectral_norm`; Miyato et al., 2018).
///
/// ```
/// use torsh_nn::utils::spectral_norm;
/// use torsh_nn::{Linear, Module, ModuleExt};
/// use torsh_tensor::{ones, tensor};
/// let layer = Linear::builder(2, 2).bias(false).build()?;
/// torsh_tensor::no_grad(|| layer.weight.copy_(&tensor![[8.0, 0.0], [0.0, 1.0]]))?;
/// let layer = spectral_norm(layer, "weight")?;
/// for _ in 0..20 {
///     layer.forward(&ones(&[1, 2]))?;
/// }
/// layer.eval();
/// assert!(layer.weight()?.sub(&tensor![[1.0, 0.0], [0.0, 0.125]])?.abs()?.max()?.item::<f32>()? < 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[track_caller]
pub fn spectral_norm<M: Module>(layer: M, name: &str) -> Result<Reparametrized<M>> {
    spectral_norm_with(layer, name, SpectralNormOptions::default())
}

/// [`spectral_norm`] with options. An error for no power iterations.
#[torsh_tensor::names_caller]
pub fn spectral_norm_with<M: Module>(
    layer: M,
    name: &str,
    options: SpectralNormOptions,
) -> Result<Reparametrized<M>> {
    spectral_norm_as(Form::Hook, layer, name, options)
}

#[torsh_tensor::names_caller]
pub(super) fn spectral_norm_as<M: Module>(
    form: Form,
    layer: M,
    name: &str,
    options: SpectralNormOptions,
) -> Result<Reparametrized<M>> {
    Reparametrized::new("spectral_norm", form, layer, name, |weight, layer| {
        if options.n_power_iterations == 0 {
            return Err(TorshError::invalid(
                "",
                "expected n_power_iterations to be positive, but got n_power_iterations=0",
            ));
        }
        let transposed = layer.type_name().starts_with("ConvTranspose");
        let dim = dimension(weight, options.dim.unwrap_or(transposed as i64))?;
        let [original, name_u, name_v] = form.spectral_norm(name);
        let mut own = vec![(original, Held::Parameter(weight.clone()))];
        if form == Form::Hook || weight.ndim() > 1 {
            let direction = |n: usize| -> Result<Tensor> {
                let draws = Tensor::empty([n], weight.dtype(), weight.device())?;
                no_grad(|| unit(&init::normal_(&draws, 0.0, 1.0)?, options.eps))
            };
            let height = weight.dims()[dim];
            let width = weight.numel() / height.max(1);
            let (u, v) = (direction(height)?, direction(width)?);
            if form == Form::Parametrization {
                iterate_power(form, &as_matrix(weight, dim)?, &u, &v, 15, options.eps)?;
            }
            own.push((name_u, Held::Buffer(Buffer::new(u))));
            own.push((name_v, Held::Buffer(Buffer::new(v))));
        }
        Ok((Rule::Spectral { dim, options }, own))
    })
}

/// The layer of a [`spectral_norm`] with a parameter of its own again
/// (`torch.nn.utils.remove_spectral_norm`).
#[torsh_tensor::names_caller]
pub fn remove_spectral_norm<M: Module>(layer: Reparametrized<M>) -> Result<M> {
    match layer.rule {
        Rule::Spectral { .. } => layer.remove(),
        other => Err(TorshError::invalid(
            "remove_spectral_norm",
            format!("the layer has {}", other.describe()),
        )),
    }
}

/// A layer whose parameter is an orthogonal matrix.
#[torsh_tensor::names_caller]
pub(super) fn orthogonal_as<M: Module>(
    layer: M,
    name: &str,
    options: OrthogonalOptions,
) -> Result<Reparametrized<M>> {
    Reparametrized::new(
        "orthogonal",
        Form::Parametrization,
        layer,
        name,
        |weight, _| {
            let (map, original, base) = orthogonal::parts(weight, options)?;
            let original = Parameter::with_requires_grad(original, true)?;
            let mut own = vec![(
                format!("parametrizations.{name}.original"),
                Held::Parameter(original),
            )];
            own.extend(base.map(|base| {
                let name = format!("parametrizations.{name}.0.base");
                (name, Held::Buffer(Buffer::new(base)))
            }));
            Ok((Rule::Orthogonal(map), own))
        },
    )
}

/// A layer whose parameter is the original times a mask, which `mask` makes of the parameter.
#[track_caller]
pub(super) fn pruned_as<M: Module>(
    op: &'static str,
    layer: M,
    name: &str,
    mask: impl FnOnce(&Parameter) -> Result<Tensor>,
) -> Result<Reparametrized<M>> {
    Reparametrized::new(op, Form::Hook, layer, name, |weight, _| {
        let mask = Held::Buffer(Buffer::new(mask(weight)?));
        let own = vec![
            (format!("{name}_orig"), Held::Parameter(weight.clone())),
            (format!("{name}_mask"), mask),
        ];
        Ok((Rule::Pruned, own))
    })
}

/// The layer with the parameter `name` of its own again, whose pruned values are 0. It is the same parameter, so an
/// optimizer goes on with it.
#[torsh_tensor::names_caller]
pub(super) fn unpruned<M: Module>(layer: Reparametrized<M>, name: &str) -> Result<M> {
    let original = match (&layer.rule, layer.own.first()) {
        (Rule::Pruned, Some((_, Held::Parameter(p)))) if layer.name == name => p.clone(),
        (rule, _) => {
            let (layer, own) = (layer.type_name, &layer.name);
            let what = rule.describe();
            return Err(TorshError::invalid(
                "remove",
                format!("`{name}` of {layer} was not pruned last: the layer has {what}, `{own}`"),
            )
            .with_hint("remove what was pruned last first, by its name"));
        }
    };
    no_grad(|| original.copy_(&layer.compute(false)?))?;
    let training = layer.training.get();
    let mut own = layer
        .layer
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    own.set_training(training);
    exchange(&mut own, name, original);
    Ok(own)
}
