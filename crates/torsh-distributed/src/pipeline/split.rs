//! Cutting a list of modules into stages.

use torsh_nn::{Module, Sequential};
use torsh_tensor::{Result, TorshError};

/// Modules one after the other, with their names.
pub trait IntoModules {
    /// The modules and their names.
    fn into_modules(self) -> Vec<(String, Box<dyn Module>)>;
}

impl IntoModules for Vec<Box<dyn Module>> {
    fn into_modules(self) -> Vec<(String, Box<dyn Module>)> {
        let numbered = self.into_iter().enumerate();
        numbered.map(|(i, m)| (i.to_string(), m)).collect()
    }
}

impl IntoModules for Sequential {
    fn into_modules(self) -> Vec<(String, Box<dyn Module>)> {
        self.into_items()
    }
}

/// Cuts modules that run one after the other (a [`Sequential`], or a `Vec` of boxes) into `n` stages of as equal a number
/// of modules as can be, the longer ones first. Modules keep the names that they have in the whole, so the stages' state
/// dicts together are that of the whole model.
///
/// ```
/// use torsh_distributed::pipeline::split_into_stages;
/// use torsh_nn::{Linear, ModuleExt, ReLU, sequential};
///
/// let net = sequential![Linear::new(2, 2), ReLU::new(), Linear::new(2, 1)];
/// let stages = split_into_stages(net, 2)?;
/// assert_eq!([stages[0].len(), stages[1].len()], [2, 1]);
/// assert_eq!(stages[1].state_dict().keys().collect::<Vec<_>>(), ["2.weight", "2.bias"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// There are fewer modules than stages, or no stage.
#[torsh_tensor::names_caller]
pub fn split_into_stages(modules: impl IntoModules, n: usize) -> Result<Vec<Sequential>> {
    let modules = modules.into_modules();
    if n == 0 || modules.len() < n {
        return Err(TorshError::invalid(
            "split_into_stages",
            format!("{} modules cannot make {n} stages", modules.len()),
        ));
    }
    let (each, longer) = (modules.len() / n, modules.len() % n);
    let cuts: Vec<usize> = (1..n).map(|i| i * each + i.min(longer)).collect();
    cut(modules, &cuts)
}

/// Cuts modules that run one after the other ahead of the given ones: `&[2, 5]` makes three stages, the modules 0 and 1,
/// 2 to 4, and the rest.
///
/// ```
/// use torsh_distributed::pipeline::split_at;
/// use torsh_nn::{Linear, ReLU, sequential};
///
/// let stages = split_at(sequential![Linear::new(2, 2), ReLU::new(), Linear::new(2, 1)], &[1])?;
/// assert_eq!([stages[0].len(), stages[1].len()], [1, 2]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
///
/// # Errors
/// The numbers do not ascend, or one leaves a stage without modules.
#[torsh_tensor::names_caller]
pub fn split_at(modules: impl IntoModules, cuts: &[usize]) -> Result<Vec<Sequential>> {
    let modules = modules.into_modules();
    let mut before = 0;
    for &c in cuts {
        if c <= before || c >= modules.len() {
            return Err(TorshError::invalid(
                "split_at",
                format!(
                    "{cuts:?} does not cut {} modules into stages",
                    modules.len()
                ),
            )
            .with_hint(
                "each number is larger than the one before and below the number of modules",
            ));
        }
        before = c;
    }
    cut(modules, cuts)
}

fn cut(modules: Vec<(String, Box<dyn Module>)>, cuts: &[usize]) -> Result<Vec<Sequential>> {
    let mut stages = vec![Sequential::new()];
    for (i, (name, module)) in modules.into_iter().enumerate() {
        if cuts.contains(&i) {
            stages.push(Sequential::new());
        }
        if let Some(stage) = stages.last_mut() {
            stage.push_named(name, module)?;
        }
    }
    Ok(stages)
}
