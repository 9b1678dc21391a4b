//! The first children of a model, with the results of some of them.

use torsh_nn::{Module, Sequential};
use torsh_tensor::{Result, Tensor, TorshError};

use super::sequence;

/// Runs the children of a model one after the other and returns the results of some of them
/// (`torchvision.models._utils.IntermediateLayerGetter`). Children behind the last one that is asked for are dropped.
///
/// It takes over the children of a model, whose `into_children` gives them, or those of a [`Sequential`], through
/// [`Sequential::into_items`]. The children's names stay the names in the state dict.
///
/// ```
/// use torsh_nn::{ModuleExt, ReLU, Tanh, sequential};
/// use torsh_tensor::tensor;
/// use torsh_vision::models::blocks::IntermediateLayerGetter;
///
/// let net = sequential![ReLU::new(), Tanh::new(), ReLU::new()];
/// let getter = IntermediateLayerGetter::new(net.into_items(), [("0", "low"), ("1", "high")])?;
/// assert_eq!(getter.children().len(), 2);
/// let maps = getter.forward_with(&tensor![-1.0, 0.0])?;
/// assert_eq!(maps[0].0, "low");
/// assert_eq!(maps[1].1, tensor![0.0, 0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub struct IntermediateLayerGetter {
    layers: Sequential,
    /// The child's position, and the name of its result.
    returned: Vec<(usize, String)>,
}

sequence!(IntermediateLayerGetter);

impl IntermediateLayerGetter {
    /// Takes the children by name, in the order in which they run, and pairs of a child's name and the name of its
    /// result. An error where there is no such child.
    ///
    /// ```
    /// use torsh_nn::{ReLU, sequential};
    /// use torsh_vision::models::blocks::IntermediateLayerGetter;
    /// let children = sequential![ReLU::new()].into_items();
    /// let error = IntermediateLayerGetter::new(children, [("1", "out")]).err().map(|e| e.to_string());
    /// assert!(error.is_some_and(|e| e.contains("the model has no child 1") && e.contains("its children are 0")));
    /// ```
    #[torsh_tensor::names_caller(Self)]
    pub fn new<N: Into<String>, R: Into<String>>(
        children: impl IntoIterator<Item = (String, Box<dyn Module>)>,
        return_layers: impl IntoIterator<Item = (N, R)>,
    ) -> Result<IntermediateLayerGetter> {
        let mut wanted: Vec<(String, String)> = return_layers
            .into_iter()
            .map(|(name, result)| (name.into(), result.into()))
            .collect();
        let (mut layers, mut returned) = (Sequential::new(), Vec::new());
        let mut names = Vec::new();
        for (i, (name, module)) in children.into_iter().enumerate() {
            names.push(name.clone());
            if wanted.is_empty() {
                continue;
            }
            layers.push_named(name.clone(), module)?;
            if let Some(at) = wanted.iter().position(|(n, _)| *n == name) {
                returned.push((i, wanted.remove(at).1));
            }
        }
        match wanted.is_empty() {
            true => Ok(IntermediateLayerGetter { layers, returned }),
            false => {
                let missing: Vec<&str> = wanted.iter().map(|(name, _)| name.as_str()).collect();
                Err(TorshError::invalid(
                    "IntermediateLayerGetter",
                    format!("the model has no child {}", missing.join(", ")),
                )
                .with_hint(format!("its children are {}", names.join(", "))))
            }
        }
    }

    /// Computes the results by name, in the order of the children.
    ///
    /// ```
    /// use torsh_nn::{ReLU, Sigmoid, sequential};
    /// use torsh_tensor::tensor;
    /// use torsh_vision::models::blocks::IntermediateLayerGetter;
    /// let net = sequential![ReLU::new(), Sigmoid::new()];
    /// let getter = IntermediateLayerGetter::new(net.into_items(), [("1", "high"), ("0", "low")])?;
    /// let results = getter.forward_with(&tensor![-1.0])?;
    /// assert_eq!(results, [("low".to_string(), tensor![0.0]), ("high".to_string(), tensor![0.5])]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn forward_with(&self, x: &Tensor) -> Result<Vec<(String, Tensor)>> {
        let mut out = Vec::with_capacity(self.returned.len());
        let mut returned = self.returned.iter().peekable();
        let mut x = x.clone();
        for (i, layer) in self.layers.iter().enumerate() {
            x = layer.forward(&x)?;
            if let Some((_, name)) = returned.next_if(|(at, _)| *at == i) {
                out.push((name.clone(), x.clone()));
            }
        }
        Ok(out)
    }

    /// The names of the results, in order.
    ///
    /// ```
    /// use torsh_nn::{ReLU, Tanh, sequential};
    /// use torsh_vision::models::blocks::IntermediateLayerGetter;
    /// let net = sequential![ReLU::new(), Tanh::new()];
    /// let getter = IntermediateLayerGetter::new(net.into_items(), [("1", "high"), ("0", "low")])?;
    /// assert_eq!(getter.names().collect::<Vec<_>>(), ["low", "high"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.returned.iter().map(|(_, name)| name.as_str())
    }
}

impl Module for IntermediateLayerGetter {
    /// The last of the results.
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.layers.forward(x)
    }
}
