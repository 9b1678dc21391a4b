//! Pruning: setting the least important values of a parameter to 0 while it is trained (`torch.nn.utils.prune`).
//!
//! A pruned layer is a [`Reparametrized`] one. It trains the parameter `NAME_orig`, and before each call it computes the
//! parameter `NAME` as `NAME_orig` times the buffer `NAME_mask`. The names are PyTorch's, so the state dict of a layer that
//! PyTorch pruned loads. The gradient of `NAME_orig` is 0 where the mask is 0.
//!
//! A function takes a layer by value and returns it pruned. To prune more of what is left, it takes a reference: to the
//! pruned layer, or to a model (`&dyn Module`) that contains it. A struct declares the layer as
//! `Reparametrized<Linear>`; [`identity`] makes one of which nothing is pruned yet.
//!
//! ```
//! use torsh_nn::utils::{Reparametrized, prune};
//! use torsh_nn::{Linear, Module, ModuleExt};
//! use torsh_tensor::{Result, Tensor, no_grad, ones, tensor};
//!
//! #[derive(Module)]
//! struct Net {
//!     fc: Reparametrized<Linear>,
//! }
//!
//! impl Module for Net {
//!     fn forward(&self, x: &Tensor) -> Result<Tensor> {
//!         self.fc.forward(x)
//!     }
//! }
//!
//! let layer = Linear::builder(4, 1).bias(false).build()?;
//! no_grad(|| layer.weight.copy_(&tensor![[1.0, -4.0, 2.0, 3.0]]))?;
//! let net = Net { fc: prune::l1_unstructured(layer, "weight", 0.25)? };
//! assert_eq!(net.fc.weight()?, tensor![[0.0, -4.0, 2.0, 3.0]]);
//!
//! // A third of the three values that are left.
//! prune::l1_unstructured(&net.fc, "weight", 1.0 / 3.0)?;
//! assert_eq!(net.state_dict()["fc.weight_mask"], tensor![[0.0, 1.0, 0.0, 1.0]]);
//! assert_eq!(net.state_dict()["fc.weight_orig"], tensor![[1.0, -4.0, 2.0, 3.0]]);
//!
//! net.forward(&ones(&[1, 4]))?.sum()?.backward()?;
//! assert_eq!(net.parameters()[0].grad(), Some(tensor![[0.0, 1.0, 0.0, 1.0]]));
//!
//! let layer: Linear = prune::remove(net.fc, "weight")?;
//! assert_eq!(*layer.weight, tensor![[0.0, -4.0, 0.0, 3.0]]);
//! # Ok::<(), torsh_tensor::TorshError>(())
//! ```

mod method;

use torsh_tensor::{NormOrd, Result, Tensor, TorshError, Value, no_grad, ops};

use crate::Linear;
use crate::module::{Buffer, FieldRef, Module, Parameter, walk};
use crate::utils::reparametrize::{Reparametrized, masked, pruned_as, unpruned};
pub use method::{Amount, PruningMethod};

/// What the functions of [`prune`](crate::utils::prune) take: a layer by value, which they return as a
/// [`Reparametrized`] one, or a reference to a pruned layer or to a model with pruned layers, whose mask they change.
///
/// With a reference to a model the name has the layer's path, as in a state dict:
///
/// ```
/// use torsh_nn::utils::prune;
/// use torsh_nn::{Linear, Module, ModuleExt, Sequential};
/// let net = Sequential::new().add(prune::identity(Linear::new(2, 3), "weight")?);
/// prune::l1_unstructured(&net as &dyn Module, "0.weight", 2)?;
/// assert_eq!(net.state_dict()["0.weight_mask"].sum()?.item::<f32>()?, 4.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be pruned",
    label = "neither a layer nor a reference to a pruned layer",
    note = "pass the layer by value: `let layer = prune::identity(layer, \"weight\")?`",
    note = "a reference is one to a `Reparametrized` layer, or a `&dyn Module` with such layers"
)]
pub trait Prunable {
    /// The pruned layer, or nothing for a reference.
    type Pruned;

    /// Prunes the parameter of this name, by importance scores or by its values.
    #[doc(hidden)]
    fn prune_with(
        self,
        op: &'static str,
        name: &str,
        method: &PruningMethod,
        scores: Option<&Tensor>,
    ) -> Result<Self::Pruned>;
}

impl<M: Module> Prunable for M {
    type Pruned = Reparametrized<M>;

    #[torsh_tensor::names_caller]
    fn prune_with(
        self,
        op: &'static str,
        name: &str,
        method: &PruningMethod,
        scores: Option<&Tensor>,
    ) -> Result<Reparametrized<M>> {
        if parts(&self, name).is_some() {
            return Err(TorshError::invalid(
                op,
                format!("`{name}` of {} is pruned already", self.type_name()),
            )
            .with_hint("pass a reference to the layer to prune more of what is left"));
        }
        pruned_as(op, self, name, |weight| {
            if weight.is_uninitialized() {
                return Err(TorshError::invalid(
                    "",
                    format!("the parameter `{name}` is not initialised"),
                )
                .with_hint("call the layer once with an input as it will be"));
            }
            let scores = checked(scores, name, weight)?;
            method.mask(scores, &weight.detach().ones_like()?)
        })
    }
}

/// References, whose mask is changed.
macro_rules! by_reference {
    ([$($generics:tt)*] $($reference:tt)+) => {
        impl<$($generics)*> Prunable for $($reference)+ {
            type Pruned = ();

            #[torsh_tensor::names_caller]
            fn prune_with(
                self,
                op: &'static str,
                name: &str,
                method: &PruningMethod,
                scores: Option<&Tensor>,
            ) -> Result<()> {
                prune_more(self, op, name, method, scores)
            }
        }
    };
}
by_reference!([M: Module] &Reparametrized<M>);
by_reference!([] &dyn Module);

/// The original and the mask of a pruned parameter.
fn parts<M: Module + ?Sized>(module: &M, name: &str) -> Option<(Parameter, Buffer)> {
    let (mut original, mut mask, mut plain) = (None, None, false);
    walk(module, &mut |n, field| match field {
        FieldRef::Parameter(p) => match n.strip_prefix(name) {
            Some("_orig") => original = Some(p.clone()),
            Some("") => plain = true,
            _ => {}
        },
        FieldRef::Buffer(b) if n.strip_prefix(name) == Some("_mask") => mask = Some(b.clone()),
        _ => {}
    });
    let (original, mask) = (original?, mask?);
    // A layer of a program's own may have fields of such names that are something else.
    (!plain && original.shape() == mask.shape()).then_some((original, mask))
}

#[track_caller]
fn pruned_parts<M: Module + ?Sized>(
    module: &M,
    op: &'static str,
    name: &str,
) -> Result<(Parameter, Buffer)> {
    parts(module, name).ok_or_else(|| {
        TorshError::invalid(
            op,
            format!("{} has no pruned parameter `{name}`", module.type_name()),
        )
        .with_hint("make it prunable first: `prune::identity(layer, name)?` takes a layer by value")
    })
}

/// The importance scores, or the values where there are none.
fn checked<'a>(scores: Option<&'a Tensor>, name: &str, values: &'a Tensor) -> Result<&'a Tensor> {
    match scores {
        Some(scores) if scores.shape() != values.shape() => Err(TorshError::shape(
            "",
            format!(
                "importance_scores has shape {:?}, the parameter `{name}` has {:?}",
                scores.dims(),
                values.dims()
            ),
        )),
        Some(scores) => Ok(scores),
        None => Ok(values),
    }
}

fn prune_more(
    module: &dyn Module,
    op: &'static str,
    name: &str,
    method: &PruningMethod,
    scores: Option<&Tensor>,
) -> Result<()> {
    let (original, mask) = pruned_parts(module, op, name)?;
    no_grad(|| {
        let values = masked(&original.detach(), &mask)?;
        let new = checked(scores, name, &values).and_then(|scores| method.mask(scores, &mask));
        mask.copy_(&new.map_err(|e| e.renamed(op))?)
    })?;
    Ok(())
}

torsh_tensor::options! {
    /// PyTorch's further arguments of [`l1_unstructured_with`] and [`ln_structured_with`].
    ///
    /// ```
    /// use torsh_nn::utils::prune::PruneOptions;
    /// assert!(PruneOptions::new().importance_scores.is_none());
    /// ```
    PruneOptions {
        /// What decides in the place of the parameter's values; of its shape.
        importance_scores: Option<Tensor> = None, &Tensor => |t| Some(t.clone());
    }
}

torsh_tensor::options! {
    /// PyTorch's further arguments of [`global_unstructured_with`].
    ///
    /// ```
    /// use torsh_nn::utils::prune::GlobalPruneOptions;
    /// assert!(GlobalPruneOptions::new().importance_scores.is_empty());
    /// ```
    GlobalPruneOptions {
        /// What decides in the place of the parameters' values: a tensor for each parameter, in their order and of its
        /// shape. None at all for the values.
        importance_scores: Vec<Tensor> = Vec::new();
    }
}

/// Makes a parameter prunable without pruning it: its mask is all ones (`torch.nn.utils.prune.identity`).
///
/// ```
/// use torsh_nn::utils::prune;
/// use torsh_nn::{Linear, ModuleExt};
/// let layer = prune::identity(Linear::new(2, 1), "weight")?;
/// let state = layer.state_dict();
/// assert_eq!(state.keys().collect::<Vec<_>>(), ["bias", "weight_orig", "weight_mask"]);
/// assert_eq!(state["weight_mask"].to_vec::<f32>()?, [1.0, 1.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No parameter of this name, a layer with layers below it, a parameter that is pruned already, one without values.
#[torsh_tensor::names_caller]
pub fn identity<P: Prunable>(layer: P, name: &str) -> Result<P::Pruned> {
    layer.prune_with("identity", name, &PruningMethod::Identity, None)
}

/// Prunes values at random (`torch.nn.utils.prune.random_unstructured`). The draws are those of PyTorch from the same seed, and
/// so is the mask unless two of the draws at its edge are equal, which is likely in bfloat16 and float16 alone.
///
/// ```
/// use torsh_nn::utils::prune;
/// use torsh_nn::{Linear, ModuleExt};
/// let layer = prune::random_unstructured(Linear::new(4, 5), "weight", 0.3)?;
/// assert_eq!(layer.state_dict()["weight_mask"].sum()?.item::<f32>()?, 14.0);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// An amount that is out of range or more than is left, a parameter that is no float, and those of [`identity`].
#[torsh_tensor::names_caller]
pub fn random_unstructured<P: Prunable>(
    layer: P,
    name: &str,
    amount: impl Into<Amount>,
) -> Result<P::Pruned> {
    let method = PruningMethod::RandomUnstructured(amount.into());
    layer.prune_with("random_unstructured", name, &method, None)
}

/// Prunes the values of the least magnitude (`torch.nn.utils.prune.l1_unstructured`). Which of several equal magnitudes go is
/// not specified, as in PyTorch.
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_nn::utils::prune;
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(4, 1).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[1.0, -4.0, 2.0, 3.0]]))?;
/// let layer = prune::l1_unstructured(layer, "weight", 0.5)?;
/// assert_eq!(layer.weight()?, tensor![[0.0, -4.0, 0.0, 3.0]]);
/// // An integer is a count.
/// prune::l1_unstructured(&layer, "weight", 1)?;
/// assert_eq!(layer.weight()?, tensor![[0.0, -4.0, 0.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// An amount that is out of range or more than is left, and those of [`identity`].
#[track_caller]
pub fn l1_unstructured<P: Prunable>(
    layer: P,
    name: &str,
    amount: impl Into<Amount>,
) -> Result<P::Pruned> {
    l1_unstructured_with(layer, name, amount, PruneOptions::new())
}

/// [`l1_unstructured`] with PyTorch's further arguments.
///
/// ```
/// use torsh_nn::utils::prune::{PruneOptions, l1_unstructured_with};
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_tensor::tensor;
/// let options = PruneOptions::new().importance_scores(&tensor![[3.0, 1.0, 2.0]]);
/// let layer = l1_unstructured_with(Linear::new(3, 1), "weight", 1, options)?;
/// assert_eq!(layer.state_dict()["weight_mask"], tensor![[1.0, 0.0, 1.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Scores of another shape than the parameter's, and those of [`l1_unstructured`].
#[torsh_tensor::names_caller]
pub fn l1_unstructured_with<P: Prunable>(
    layer: P,
    name: &str,
    amount: impl Into<Amount>,
    options: PruneOptions,
) -> Result<P::Pruned> {
    let method = PruningMethod::L1Unstructured(amount.into());
    let scores = options.importance_scores.as_ref();
    layer.prune_with("l1_unstructured", name, &method, scores)
}

/// Prunes whole channels at random, the indices of dimension `dim` (`torch.nn.utils.prune.random_structured`). The draws
/// are those of PyTorch from the same seed.
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_nn::utils::prune;
/// use torsh_tensor::SumOptions;
/// let layer = prune::random_structured(Linear::new(4, 6), "weight", 0.5, 0)?;
/// let rows = layer.weight()?.abs()?.sum_with(SumOptions::new().dim(1))?;
/// assert_eq!(rows.to_vec::<f32>()?.iter().filter(|&&sum| sum == 0.0).count(), 3);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A parameter with fewer than two dimensions, a dimension out of range, an amount that is out of range or more than is
/// left, and those of [`identity`].
#[torsh_tensor::names_caller]
pub fn random_structured<P: Prunable>(
    layer: P,
    name: &str,
    amount: impl Into<Amount>,
    dim: i64,
) -> Result<P::Pruned> {
    let amount = amount.into();
    let method = PruningMethod::RandomStructured { amount, dim };
    layer.prune_with("random_structured", name, &method, None)
}

/// Prunes the channels with the least norms of order `n`; a channel is an index of dimension `dim`
/// (`torch.nn.utils.prune.ln_structured`). `n` is a number, an infinity, `"fro"`, or `"nuc"` for channels that are matrices.
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_nn::utils::prune;
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(2, 3).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[1.0, 2.0], [0.0, 3.0], [-1.0, 1.0]]))?;
/// let layer = prune::ln_structured(layer, "weight", 1, 2, 0)?;
/// assert_eq!(layer.weight()?, tensor![[1.0, 2.0], [0.0, 3.0], [0.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// As [`random_structured`], and an order that is none.
#[track_caller]
pub fn ln_structured<P: Prunable>(
    layer: P,
    name: &str,
    amount: impl Into<Amount>,
    n: impl Into<NormOrd>,
    dim: i64,
) -> Result<P::Pruned> {
    ln_structured_with(layer, name, amount, n, dim, PruneOptions::new())
}

/// [`ln_structured`] with PyTorch's further arguments.
///
/// ```
/// use torsh_nn::utils::prune::{PruneOptions, ln_structured_with};
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_tensor::tensor;
/// let options = PruneOptions::new().importance_scores(&tensor![[1.0, 2.0], [3.0, 0.0]]);
/// let layer = ln_structured_with(Linear::new(2, 2), "weight", 1, 1, 1, options)?;
/// assert_eq!(layer.state_dict()["weight_mask"], tensor![[1.0, 0.0], [1.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Scores of another shape than the parameter's, and those of [`ln_structured`].
#[torsh_tensor::names_caller]
pub fn ln_structured_with<P: Prunable>(
    layer: P,
    name: &str,
    amount: impl Into<Amount>,
    n: impl Into<NormOrd>,
    dim: i64,
    options: PruneOptions,
) -> Result<P::Pruned> {
    let (amount, n) = (amount.into(), n.into());
    let method = PruningMethod::LnStructured { amount, n, dim };
    let scores = options.importance_scores.as_ref();
    layer.prune_with("ln_structured", name, &method, scores)
}

/// Prunes whole blocks of a matrix, those whose magnitudes have the least sum. A block has `[rows, columns]`, as in a weight
/// in block sparse row format (BSR), and `amount` is a fraction or a number of the blocks that are left. PyTorch has no such
/// function.
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_nn::utils::prune;
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(4, 2).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[1.0, -1.0, 0.0, 3.0], [1.0, 2.0, 0.0, 1.0]]))?;
/// // The sums of the two blocks are 5 and 4.
/// let layer = prune::block_l1(layer, "weight", 0.5, [2, 2])?;
/// assert_eq!(layer.weight()?, tensor![[1.0, -1.0, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A parameter that is no matrix or is not made of whole blocks, an amount that is out of range or more than is left, and
/// those of [`identity`].
#[torsh_tensor::names_caller]
pub fn block_l1<P: Prunable>(
    layer: P,
    name: &str,
    amount: impl Into<Amount>,
    block: [usize; 2],
) -> Result<P::Pruned> {
    let amount = amount.into();
    let method = PruningMethod::BlockL1 { amount, block };
    layer.prune_with("block_l1", name, &method, None)
}

/// Prunes where a mask is 0 (`torch.nn.utils.prune.custom_from_mask`). The mask has the parameter's shape and any dtype. What
/// was pruned before stays so.
///
/// ```
/// use torsh_nn::utils::prune;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_tensor::tensor;
/// let layer = prune::custom_from_mask(Linear::new(5, 3), "bias", &tensor![false, true, false])?;
/// assert_eq!(layer.state_dict()["bias_mask"], tensor![0.0, 1.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A mask of another shape, and those of [`identity`].
#[torsh_tensor::names_caller]
pub fn custom_from_mask<P: Prunable>(layer: P, name: &str, mask: &Tensor) -> Result<P::Pruned> {
    let method = PruningMethod::CustomFromMask(mask.clone());
    layer.prune_with("custom_from_mask", name, &method, None)
}

/// Prunes several parameters as if they were one vector (`torch.nn.utils.prune.global_unstructured`): a parameter with
/// smaller values loses more of them. The parameters have to be prunable already, see [`identity`]. `method` is
/// [`PruningMethod::L1Unstructured`] or [`PruningMethod::RandomUnstructured`].
///
/// ```
/// use torsh_nn::Linear;
/// use torsh_nn::utils::prune::{self, PruningMethod};
/// use torsh_tensor::{no_grad, tensor};
/// let (a, b) = (Linear::new(3, 1), Linear::new(3, 1));
/// no_grad(|| a.weight.copy_(&tensor![[1.0, 5.0, 6.0]]))?;
/// no_grad(|| b.weight.copy_(&tensor![[2.0, -3.0, 4.0]]))?;
/// let (a, b) = (prune::identity(a, "weight")?, prune::identity(b, "weight")?);
/// prune::global_unstructured(&[(&a, "weight"), (&b, "weight")], PruningMethod::L1Unstructured, 0.5)?;
/// assert_eq!(a.weight()?, tensor![[0.0, 5.0, 6.0]]);
/// assert_eq!(b.weight()?, tensor![[0.0, 0.0, 4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// No parameters, one that is not prunable, a method that prunes channels or blocks, an amount that is out of range or more
/// than is left in all. On an error all masks are as they were.
#[track_caller]
pub fn global_unstructured(
    parameters: &[(&dyn Module, &str)],
    method: impl FnOnce(Amount) -> PruningMethod,
    amount: impl Into<Amount>,
) -> Result<()> {
    global_unstructured_with(parameters, method, amount, GlobalPruneOptions::new())
}

/// [`global_unstructured`] with PyTorch's further arguments.
///
/// ```
/// use torsh_nn::utils::prune::{self, GlobalPruneOptions, PruningMethod};
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_tensor::tensor;
/// let layer = prune::identity(prune::identity(Linear::new(2, 1), "weight")?, "bias")?;
/// let scores = vec![tensor![[3.0, 1.0]], tensor![2.0]];
/// let options = GlobalPruneOptions::new().importance_scores(scores);
/// let parameters: [(&dyn torsh_nn::Module, &str); 2] = [(&layer, "weight"), (&layer, "bias")];
/// prune::global_unstructured_with(&parameters, PruningMethod::L1Unstructured, 2, options)?;
/// assert_eq!(layer.state_dict()["weight_mask"], tensor![[1.0, 0.0]]);
/// assert_eq!(layer.state_dict()["bias_mask"], tensor![0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// Scores of another number than the parameters' or of other shapes, and those of [`global_unstructured`].
#[torsh_tensor::names_caller]
pub fn global_unstructured_with(
    parameters: &[(&dyn Module, &str)],
    method: impl FnOnce(Amount) -> PruningMethod,
    amount: impl Into<Amount>,
    options: GlobalPruneOptions,
) -> Result<()> {
    const OP: &str = "global_unstructured";
    let method = method(amount.into());
    if !method.is_unstructured() {
        return Err(
            TorshError::invalid(OP, format!("{method:?} does not choose single values")).with_hint(
                "give PruningMethod::L1Unstructured or PruningMethod::RandomUnstructured",
            ),
        );
    }
    let given = options.importance_scores.len();
    if parameters.is_empty() || given != 0 && given != parameters.len() {
        let count = parameters.len();
        return Err(TorshError::invalid(
            OP,
            format!("got {count} parameters and {given} tensors of importance scores"),
        )
        .with_hint("give at least one parameter, and scores for all or for none"));
    }
    let mut masks: Vec<Buffer> = Vec::new();
    let (mut scores, mut old) = (Vec::new(), Vec::new());
    for (i, (module, name)) in parameters.iter().enumerate() {
        let (original, mask) = pruned_parts(*module, OP, name)?;
        if masks.iter().any(|m| m.is_same(&mask)) {
            return Err(TorshError::invalid(
                OP,
                format!("the parameter `{name}` is given twice"),
            ));
        }
        let values = no_grad(|| masked(&original.detach(), &mask))?;
        let own = checked(options.importance_scores.get(i), name, &values);
        scores.push(own.map_err(|e| e.renamed(OP))?.detach().reshape([-1])?);
        old.push(mask.detach().reshape([-1])?);
        masks.push(mask);
    }
    no_grad(|| {
        let (scores, old) = (Tensor::cat(&scores, 0)?, Tensor::cat(&old, 0)?);
        let all = method.mask(&scores, &old).map_err(|e| e.renamed(OP))?;
        let mut at = 0;
        for mask in masks {
            let new = all.narrow(0, at, mask.numel() as i64)?;
            mask.copy_(&new.reshape(mask.dims())?)?;
            at += mask.numel() as i64;
        }
        Ok(())
    })
}

/// The layer with a parameter of its own again, whose pruned values stay 0 (`torch.nn.utils.prune.remove`). Training may
/// change them from then on. The parameter is the one that was trained, so an optimizer goes on with it.
///
/// ```
/// use torsh_nn::utils::prune;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(2, 1).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[3.0, 4.0]]))?;
/// let layer = prune::remove(prune::l1_unstructured(layer, "weight", 1)?, "weight")?;
/// assert_eq!(layer.state_dict().keys().collect::<Vec<_>>(), ["weight"]);
/// assert_eq!(*layer.weight, tensor![[0.0, 4.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A parameter that is not pruned, or that is not the last of several that were.
#[torsh_tensor::names_caller]
pub fn remove<M: Module>(layer: Reparametrized<M>, name: &str) -> Result<M> {
    unpruned(layer, name)
}

/// Stores the weight of a layer in block sparse row format (BSR), in blocks of this many rows and columns. Blocks that are 0, as
/// [`block_l1`] makes them, are neither stored nor multiplied from then on. PyTorch has no such function.
///
/// The layer computes the same as before. Its weight gets a gradient of its own pattern, and optimizers change the stored values
/// alone, so training keeps the pattern. The parameter is a new one; an optimizer that has the old one refuses to step. The state
/// dict has a sparse tensor, which `.pt` files hold; [`assign_state_dict`](crate::ModuleExt::assign_state_dict) also puts it
/// into a layer whose weight is strided. Blocks of at least 8 rows and 8 columns are multiplied as wholes, and 32 by 32 is a good
/// size; smaller ones are multiplied element by element.
///
/// ```
/// use torsh_nn::utils::prune;
/// use torsh_nn::{Linear, Module};
/// use torsh_sparse::SparseExt;
/// use torsh_tensor::{no_grad, tensor};
/// let layer = Linear::builder(4, 2).bias(false).build()?;
/// no_grad(|| layer.weight.copy_(&tensor![[1.0, -1.0, 0.0, 3.0], [1.0, 2.0, 0.0, 1.0]]))?;
/// let layer = prune::block_l1(layer, "weight", 0.5, [2, 2])?;
/// let mut layer = prune::remove(layer, "weight")?;
/// prune::to_bsr(&mut layer, [2, 2])?;
/// assert_eq!(layer.weight.values()?, tensor![[[1.0, -1.0], [1.0, 2.0]]]);
/// assert_eq!(layer.forward(&tensor![[10.0, 1.0, 5.0, 5.0]])?, tensor![[9.0, 12.0]]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A weight that is not made of whole blocks, or without values; a program without the feature `sparse` of the crate `torsh`.
#[torsh_tensor::names_caller]
pub fn to_bsr(layer: &mut Linear, blocksize: [usize; 2]) -> Result<()> {
    const OP: &str = "to_bsr";
    let weight = &layer.weight;
    if weight.is_uninitialized() || !weight.device().has_data() {
        return Err(TorshError::invalid(
            OP,
            format!("there are no blocks to choose from: {}", weight.describe()),
        )
        .with_hint("give the layer its weight before"));
    }
    let args = [Value::from(&weight.detach()), Value::from(blocksize)];
    let blocks = no_grad(|| ops::call("to_sparse_bsr", &args, &[])).map_err(|e| e.renamed(OP))?;
    let [blocks] = &blocks.tensors()[..] else {
        return Err(TorshError::failed(OP, "the conversion gave no tensor"));
    };
    let new = Parameter::with_requires_grad(blocks.clone(), weight.requires_grad())?;
    weight.mark_replaced();
    layer.weight = new;
    Ok(())
}

/// Whether a module or one below it has a pruned parameter (`torch.nn.utils.prune.is_pruned`): a parameter `NAME_orig` and a
/// buffer `NAME_mask` of its shape in the place of `NAME`.
///
/// ```
/// use torsh_nn::utils::prune;
/// use torsh_nn::{Linear, Sequential};
/// let layer = Linear::new(5, 7);
/// assert!(!prune::is_pruned(&layer));
/// let layer = prune::random_unstructured(layer, "weight", 0.2)?;
/// assert!(prune::is_pruned(&layer) && prune::is_pruned(&Sequential::new().add(layer)));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn is_pruned<M: Module + ?Sized>(module: &M) -> bool {
    let mut names = Vec::new();
    walk(module, &mut |name, field| {
        if let (FieldRef::Buffer(_), Some(name)) = (field, name.strip_suffix("_mask")) {
            names.push(name.to_string());
        }
    });
    names.iter().any(|name| parts(module, name).is_some())
}
