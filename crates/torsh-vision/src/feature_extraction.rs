//! Results of layers inside of a model (`torchvision.models.feature_extraction`).

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use torsh_nn::{Module, ModuleExt};
use torsh_tensor::{Result, Tensor, TorshError};

/// Runs a model and returns what some of its layers computed. [`create_feature_extractor`] makes it.
#[derive(Debug)]
pub struct FeatureExtractor<'a, M: ?Sized> {
    model: &'a M,
    /// The layer, and the name of its result.
    nodes: Vec<(String, String)>,
}

/// What is asked for: a layer by its name in `named_modules`, under which its result comes back, or a pair of that and
/// another name for the result.
///
/// ```
/// use torsh_vision::feature_extraction::Node;
/// let node = Node::from(("layer4", "features"));
/// assert_eq!((node.layer.as_str(), node.name.as_str()), ("layer4", "features"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The layer.
    pub layer: String,
    /// The name of its result.
    pub name: String,
}

conversions! {
    &str => Node, |layer| Node::from((layer, layer));
    String => Node, |layer| Node::from(layer.as_str());
}

impl From<(&str, &str)> for Node {
    fn from((layer, name): (&str, &str)) -> Node {
        Node {
            layer: layer.to_string(),
            name: name.to_string(),
        }
    }
}

/// A model of which the results of some layers are returned.
///
/// The layers' forward hooks hold on to their results, so the model runs as it is, on to its end. A layer that runs
/// several times gives its last result.
///
/// ```
/// use torsh_nn::ModuleExt;
/// use torsh_tensor::rand;
/// use torsh_vision::feature_extraction::create_feature_extractor;
/// use torsh_vision::models::ResNet;
///
/// let model = ResNet::builder().layers([1, 1, 1, 1]).num_classes(10).build()?;
/// model.eval();
/// let extractor = create_feature_extractor(&model, ["layer3", "layer4"])?;
/// let features = extractor.forward(&rand(&[1, 3, 64, 64]))?;
/// assert_eq!(features[0].1.dims(), [1, 256, 4, 4]);
/// assert_eq!((features[1].0.as_str(), features[1].1.dims()), ("layer4", &[1, 512, 2, 2][..]));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// A layer that the model does not have; the error names those that begin alike. A layer without hooks.
#[torsh_tensor::names_caller]
pub fn create_feature_extractor<M: Module + ?Sized, N: Into<Node>>(
    model: &M,
    nodes: impl IntoIterator<Item = N>,
) -> Result<FeatureExtractor<'_, M>> {
    let nodes: Vec<(String, String)> = nodes
        .into_iter()
        .map(|node| {
            let node = node.into();
            (node.layer, node.name)
        })
        .collect();
    let names = layers(model);
    for (layer, _) in &nodes {
        if !names.contains(layer) {
            let start = layer.split('.').next().unwrap_or("");
            let like: Vec<&str> = names
                .iter()
                .map(String::as_str)
                .filter(|name| match start {
                    _ if name.is_empty() => false,
                    start if layer.contains('.') => name.starts_with(start),
                    _ => !name.contains('.'),
                })
                .take(30)
                .collect();
            return Err(TorshError::invalid(
                "create_feature_extractor",
                format!("{} has no layer `{layer}`", model.type_name()),
            )
            .with_hint(format!("it has {}", like.join(", "))));
        }
        // Whether it has hooks shows now, not at the first run.
        model
            .get_submodule(layer)?
            .register_forward_hook(|_, _, _| Ok(None))?
            .remove();
    }
    Ok(FeatureExtractor { model, nodes })
}

fn layers<M: Module + ?Sized>(model: &M) -> Vec<String> {
    let modules = model.named_modules();
    modules.into_iter().map(|(name, _)| name).collect()
}

/// The names of a model's layers that [`create_feature_extractor`] takes (`get_graph_node_names`).
///
/// ```
/// use torsh_vision::feature_extraction::get_graph_node_names;
/// use torsh_vision::models::{Weights, squeezenet1_1};
/// let names = get_graph_node_names(&squeezenet1_1(Weights::None)?);
/// assert!(names.iter().any(|name| name == "features.3.expand1x1"));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn get_graph_node_names<M: Module + ?Sized>(model: &M) -> Vec<String> {
    let mut names = layers(model);
    names.retain(|name| !name.is_empty());
    names
}

impl<M: Module + ?Sized> FeatureExtractor<'_, M> {
    /// The results by name, in the order in which they were asked for.
    ///
    /// # Errors
    /// The model's, and a layer that did not run.
    #[torsh_tensor::names_caller]
    pub fn forward(&self, x: &Tensor) -> Result<Vec<(String, Tensor)>> {
        let results: Arc<Mutex<Vec<Option<Tensor>>>> =
            Arc::new(Mutex::new(vec![None; self.nodes.len()]));
        let mut handles = Vec::with_capacity(self.nodes.len());
        // Other threads may run the same model.
        let here = thread::current().id();
        for (i, (layer, _)) in self.nodes.iter().enumerate() {
            let results = results.clone();
            let module = self.model.get_submodule(layer)?;
            handles.push(module.register_forward_hook(move |_, _, y| {
                if thread::current().id() == here {
                    results.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(y.clone());
                }
                Ok(None)
            })?);
        }
        let ran = self.model.forward(x);
        for handle in handles {
            handle.remove();
        }
        ran?;
        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.nodes.iter().zip(results.iter_mut());
        found
            .map(|((layer, name), result)| match result.take() {
                Some(tensor) => Ok((name.clone(), tensor)),
                None => Err(TorshError::invalid(
                    "FeatureExtractor",
                    format!("the layer `{layer}` did not run"),
                )),
            })
            .collect()
    }
}
