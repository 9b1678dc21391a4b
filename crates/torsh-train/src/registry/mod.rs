//! Models, optimizers, schedulers and metrics by name.

mod metrics;
mod models;
mod optimizers;
mod schedulers;

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::RwLock;
use torsh_tensor::{Result, TorshError};

pub use metrics::create_metric;
pub use models::{
    ModelBuilder, ModelFactory, create_model, model_defaults, models, register_model,
    set_model_defaults,
};
pub use optimizers::{OptimizerFactory, create_optimizer, optimizers, register_optimizer};
pub use schedulers::{SchedulerFactory, create_scheduler, register_scheduler, schedulers};

/// Things by name, of which programs may add their own.
///
/// Names are compared without case and without `_` and `-`: `CosineAnnealingLR`,
/// `cosine_annealing_lr` and `cosine-annealing` (the end `lr` may be left out) are one. Between two digits they count:
/// `regnet_x_3_2gf` is not `regnet_x_32gf`.
///
/// ```
/// use torsh_train::registry::optimizers;
/// assert!(optimizers().contains("adam_w") && optimizers().contains("AdamW"));
/// let error = optimizers().get("adamx").err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.starts_with("there is no optimizer `adamx`")));
/// ```
pub struct Registry<F> {
    kind: &'static str,
    elsewhere: Option<Elsewhere>,
    entries: RwLock<BTreeMap<String, (String, F)>>,
    /// What there is to know of some of them.
    about: RwLock<BTreeMap<String, String>>,
}

/// What a crate above this one adds to a registry when it is asked to.
#[derive(Clone, Copy)]
struct Elsewhere {
    /// One of the names that it adds.
    example: &'static str,
    /// How it is asked.
    hint: &'static str,
}

impl<F> fmt::Debug for Registry<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.names()).finish()
    }
}

fn plain(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let digit = |i: Option<usize>| {
        i.and_then(|i| chars.get(i))
            .is_some_and(char::is_ascii_digit)
    };
    let name = chars.iter().enumerate().filter(|&(i, c)| {
        let between_digits = digit(i.checked_sub(1)) && digit(Some(i + 1));
        !matches!(c, '_' | '-' | ' ') || between_digits
    });
    let name: String = name.flat_map(|(_, c)| c.to_lowercase()).collect();
    name.strip_suffix("lr").map(str::to_string).unwrap_or(name)
}

impl<F> Registry<F> {
    fn new(kind: &'static str, entries: impl IntoIterator<Item = (&'static str, F)>) -> Self {
        let registry = Registry {
            kind,
            elsewhere: None,
            entries: RwLock::default(),
            about: RwLock::default(),
        };
        for (name, f) in entries {
            registry.register(name, f);
        }
        registry
    }

    /// Adds a thing; one that had the name comes back.
    ///
    /// ```
    /// use torsh_train::registry::models;
    /// let linear = models().get("linear")?;
    /// assert!(models().register("probe", linear.clone()).is_none());
    /// assert!(models().register("PROBE", linear).is_some()); // The one before.
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn register(&self, name: &str, thing: F) -> Option<F> {
        let entry = (name.to_string(), thing);
        let before = self.entries.write().insert(plain(name), entry);
        before.map(|(_, thing)| thing)
    }

    /// Says what there is to know of the thing of a name, for people.
    ///
    /// ```
    /// use torsh_train::registry::models;
    /// models().describe("linear", "A single layer.");
    /// assert_eq!(models().about("linear").as_deref(), Some("A single layer."));
    /// ```
    pub fn describe(&self, name: &str, about: impl Into<String>) {
        self.about.write().insert(plain(name), about.into());
    }

    /// Returns what there is to know of the thing of a name, where somebody said it.
    ///
    /// ```
    /// use torsh_train::registry::models;
    /// assert!(models().about("mlp").is_some_and(|text| text.starts_with("mlp: hidden layers of one width")));
    /// assert_eq!(models().about("resnet-9000"), None);
    /// ```
    pub fn about(&self, name: &str) -> Option<String> {
        self.about.read().get(&plain(name)).cloned()
    }

    /// Whether there is a thing of the name.
    ///
    /// ```
    /// use torsh_train::registry::schedulers;
    /// assert!(schedulers().contains("CosineAnnealingLR") && schedulers().contains("cosine_annealing"));
    /// assert!(!schedulers().contains("cosine"));
    /// ```
    pub fn contains(&self, name: &str) -> bool {
        self.entries.read().contains_key(&plain(name))
    }

    /// Returns the names there are, in alphabetical order.
    ///
    /// ```
    /// use torsh_train::registry::models;
    /// assert_eq!(models().names(), ["linear", "mlp"]);
    /// ```
    pub fn names(&self) -> Vec<String> {
        let entries = self.entries.read();
        entries.values().map(|(name, _)| name.clone()).collect()
    }
}

impl<F: Clone> Registry<F> {
    /// Returns the thing of a name; an error that lists the names there are, of many those that are alike, where there
    /// is none.
    ///
    /// ```
    /// use torsh_nn::ModuleExt;
    /// use torsh_train::{config::ModelConfig, registry::models};
    /// let make = models().get("linear")?;
    /// let config = ModelConfig { input_size: 4, num_classes: 2, ..ModelConfig::new("linear") };
    /// assert_eq!(make(&config)?.num_parameters(), 4 * 2 + 2);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn get(&self, name: &str) -> Result<F> {
        let found = self
            .entries
            .read()
            .get(&plain(name))
            .map(|(_, f)| f.clone());
        found.ok_or_else(|| {
            let mut hint = format!("there are {}", self.some_names(name));
            if let Some(more) = self.elsewhere.filter(|e| !self.contains(e.example)) {
                hint.push_str("; ");
                hint.push_str(more.hint);
            }
            TorshError::invalid("", format!("there is no {} `{name}`", self.kind)).with_hint(hint)
        })
    }

    /// The names for an error about another one: all, or of many those that begin with the same letters.
    fn some_names(&self, wanted: &str) -> String {
        let names = self.names();
        if names.len() <= MANY {
            return names.join(", ");
        }
        let wanted = plain(wanted);
        let alike = |n: usize| -> Vec<&str> {
            let start = wanted.get(..n).unwrap_or(&wanted);
            let alike = names.iter().filter(|name| plain(name).starts_with(start));
            alike.map(String::as_str).collect()
        };
        let alike = (1..=4).rev().map(alike).find(|found| !found.is_empty());
        let mut shown = alike.unwrap_or_else(|| names.iter().map(String::as_str).collect());
        shown.truncate(MANY);
        format!("{}, of {} names in all", shown.join(", "), names.len())
    }
}

/// More names than this are not all listed in an error.
const MANY: usize = 24;
