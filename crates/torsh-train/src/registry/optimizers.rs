//! Optimizers by name.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use torsh_optim::{
    ASGD, Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, Algorithm, LBFGS, Muon, NAdam, Optim,
    Optimizer, Param, ParamGroup, RAdam, RMSprop, Rprop, SGD, SparseAdam, StateValue,
};
use torsh_tensor::{Result, TorshError};

use super::Registry;
use crate::config::{OptimizerConfig, Options};

/// Makes an optimizer of parameters with settings.
///
/// ```
/// use std::sync::Arc;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_train::registry::OptimizerFactory;
/// let make: OptimizerFactory = Arc::new(|params, _| Ok(Arc::new(SGD::new(params, 0.5)?)));
/// let params = Linear::new(2, 1).parameters().into_iter().map(Into::into).collect();
/// assert_eq!(make(params, &Default::default())?.get_lr(), 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub type OptimizerFactory =
    Arc<dyn Fn(Vec<Param>, &Options) -> Result<Arc<dyn Optimizer>> + Send + Sync>;

/// A setting of a file as one of an optimizer.
fn setting(name: &str, value: &Value) -> Result<StateValue> {
    Ok(match value {
        Value::Null => StateValue::None,
        Value::Bool(b) => StateValue::Bool(*b),
        Value::Number(n) => match n.as_i64() {
            Some(i) => StateValue::Int(i),
            None => StateValue::Float(n.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(s) => StateValue::Str(s.clone()),
        Value::Array(items) => {
            let items = items.iter().map(|v| setting(name, v));
            StateValue::List(items.collect::<Result<_>>()?)
        }
        Value::Object(_) => {
            return Err(TorshError::invalid(
                "",
                format!("`{name}` cannot be a section"),
            ));
        }
    })
}

fn make<A: Algorithm>(params: Vec<Param>, options: &Options) -> Result<Arc<dyn Optimizer>> {
    let mut group = ParamGroup::new(params);
    for (name, value) in options {
        group = group.set(name, setting(name, value)?);
    }
    let optimizer = Optim::<A>::builder([group]).build()?;
    Ok(Arc::new(optimizer))
}

/// The algorithm of an optimizer.
trait Of {
    type Algorithm: Algorithm;
}

impl<A: Algorithm> Of for Optim<A> {
    type Algorithm = A;
}

macro_rules! entries {
    ($($name:ident)*) => {
        [$((
            stringify!($name),
            Arc::new(make::<<$name as Of>::Algorithm>) as OptimizerFactory,
        )),*]
    };
}

/// Returns the optimizers by name: those of `torsh_optim`, and what was registered.
///
/// ```
/// use torsh_train::registry::optimizers;
/// assert_eq!(optimizers().names().len(), 15);
/// assert!(optimizers().contains("lbfgs"));
/// ```
pub fn optimizers() -> &'static Registry<OptimizerFactory> {
    static ALL: LazyLock<Registry<OptimizerFactory>> = LazyLock::new(|| {
        let entries = entries!(
            ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam RAdam RMSprop Rprop SGD
            SparseAdam
        );
        Registry::new("optimizer", entries)
    });
    &ALL
}

/// Adds an optimizer of one's own to [`optimizers`].
///
/// ```
/// use std::sync::Arc;
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::{Optimizer, SGD};
/// use torsh_train::config::OptimizerConfig;
/// use torsh_train::registry::{create_optimizer, register_optimizer};
///
/// register_optimizer("slow", |params, _| Ok(Arc::new(SGD::new(params, 1e-6)?)));
/// let slow = create_optimizer(&OptimizerConfig::new("slow"), Linear::new(2, 1).parameters())?;
/// assert_eq!(slow.get_lr(), 1e-6);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
pub fn register_optimizer(
    name: &str,
    make: impl Fn(Vec<Param>, &Options) -> Result<Arc<dyn Optimizer>> + Send + Sync + 'static,
) {
    optimizers().register(name, Arc::new(make));
}

/// The optimizer of a configuration.
///
/// ```
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::Optimizer;
/// use torsh_train::config::OptimizerConfig;
/// use torsh_train::registry::create_optimizer;
///
/// let net = Linear::new(2, 1);
/// let config = OptimizerConfig::sgd(0.1).option("momentum", 0.9);
/// let sgd = create_optimizer(&config, net.parameters())?;
/// assert_eq!(sgd.get_lr(), 0.1);
/// assert_eq!(sgd.get_option(0, "momentum").and_then(|v| v.as_f64()), Some(0.9));
///
/// let error = create_optimizer(&OptimizerConfig::new("adm"), net.parameters()).err();
/// assert!(error.is_some_and(|e| e.to_string().contains("Adam, Adamax, AdamW")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn create_optimizer<P: Into<Param>>(
    config: &OptimizerConfig,
    params: impl IntoIterator<Item = P>,
) -> Result<Arc<dyn Optimizer>> {
    let make = optimizers().get(&config.name)?;
    make(
        params.into_iter().map(Into::into).collect(),
        &config.options,
    )
}
