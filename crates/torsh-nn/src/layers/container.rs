//! Containers: modules that consist of modules.

use std::collections::BTreeMap;
use std::ops::Index;

use torsh_tensor::{Result, Tensor, TorshError};

use crate::layers::examples::tests;
use crate::layers::fuse::{Convolution, Fused, range};
use crate::module::{FieldMut, FieldRef, Hooks, Module, ModuleField, ModuleFields};

/// The walk of a container: its items under their keys, and its hooks.
macro_rules! container_fields {
    ($name:ident) => {
        impl ModuleField for $name {
            fn visit_field<'a>(&'a self, name: &str, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
                visitor(name, FieldRef::Module(self));
            }

            fn visit_field_mut(&mut self, name: &str, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
                visitor(name, FieldMut::Module(self));
            }
        }

        impl ModuleFields for $name {
            fn visit_fields<'a>(&'a self, visitor: &mut dyn FnMut(&str, FieldRef<'a>)) {
                for (key, item) in self.items() {
                    item.visit_field(&key, visitor);
                }
                self.hooks.visit_field("hooks", visitor);
            }

            fn visit_fields_mut(&mut self, visitor: &mut dyn FnMut(&str, FieldMut<'_>)) {
                for (key, item) in self.items_mut() {
                    item.visit_field_mut(&key, visitor);
                }
                self.hooks.visit_field_mut("hooks", visitor);
            }

            fn type_name(&self) -> &'static str {
                stringify!($name)
            }
        }
    };
}
pub(super) use container_fields;

macro_rules! vec_items {
    ($name:ident) => {
        /// Adds a module at the end.
        #[doc = tests!(
            "let mut list = ", stringify!($name), "::new();\nlist.push(ReLU::new());\n",
            "assert_eq!(list.repr(), \"", stringify!($name), "(\\n  (0): ReLU()\\n)\");"
        )]
        pub fn push(&mut self, module: impl Module) {
            self.modules.push(Box::new(module));
        }

        /// Adds a module at the end, and gives the whole back.
        #[doc = tests!(
            "let list = ", stringify!($name), "::new().add(ReLU::new()).add(Tanh::new());\n",
            "assert_eq!(list.iter().map(|m| m.type_name()).collect::<Vec<_>>(), [\"ReLU\", \"Tanh\"]);"
        )]
        #[must_use]
        #[allow(clippy::should_implement_trait)]
        pub fn add(mut self, module: impl Module) -> Self {
            self.push(module);
            self
        }

        /// Module `i`; `None` where there is none.
        #[doc = tests!(
            "let list = ", stringify!($name), "::new().add(ReLU::new());\n",
            "assert_eq!(list.get(0).map(|m| m.type_name()), Some(\"ReLU\"));\n",
            "assert!(list.get(1).is_none());"
        )]
        pub fn get(&self, i: usize) -> Option<&dyn Module> {
            self.modules.get(i).map(|m| &**m)
        }

        /// How many modules there are.
        #[doc = tests!("assert_eq!(", stringify!($name), "::new().add(ReLU::new()).len(), 1);")]
        pub fn len(&self) -> usize {
            self.modules.len()
        }

        /// Whether there are none.
        #[doc = tests!("assert!(", stringify!($name), "::new().is_empty());")]
        pub fn is_empty(&self) -> bool {
            self.modules.is_empty()
        }

        /// The modules in order.
        #[doc = tests!(
            "let list = ", stringify!($name), "::new().add(ReLU::new()).add(Tanh::new());\n",
            "let mut x = tensor![-1.0, 1.0];\n",
            "for module in list.iter() {\n    x = module.forward(&x)?;\n}\n",
            "assert!(x.allclose(&tensor![0.0, 0.7615942])?);"
        )]
        pub fn iter(&self) -> impl Iterator<Item = &dyn Module> {
            self.modules.iter().map(|m| &**m)
        }
    };
}

/// Modules one after the other (`torch.nn.Sequential`); their names are `0`, `1`, ..
///
/// ```
/// use torsh_nn::{Linear, ModuleExt, ReLU, Sequential, sequential};
/// let net = Sequential::new().add(Linear::new(4, 8)).add(ReLU::new()).add(Linear::new(8, 2));
/// assert_eq!(net.state_dict().keys().last(), Some("2.bias"));
/// let same = sequential![Linear::new(4, 8), ReLU::new(), Linear::new(8, 2)];
/// assert_eq!(same.len(), 3);
/// ```
#[derive(Default)]
pub struct Sequential {
    modules: Vec<Box<dyn Module>>,
    /// The names of those that have one, by position.
    names: BTreeMap<usize, String>,
    hooks: Hooks,
}

fn key(names: &BTreeMap<usize, String>, i: usize) -> String {
    names.get(&i).cloned().unwrap_or_else(|| i.to_string())
}

impl Sequential {
    /// No modules yet; they are added by [`add`](Sequential::add) or [`push`](Sequential::push).
    /// Without modules it gives back what it gets.
    ///
    /// ```
    /// # use torsh_nn::{Module, Sequential};
    /// # use torsh_tensor::tensor;
    /// assert_eq!(Sequential::new().forward(&tensor![1.0])?, tensor![1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn new() -> Sequential {
        Sequential::default()
    }

    fn items(&self) -> impl Iterator<Item = (String, &Box<dyn Module>)> {
        let items = self.modules.iter().enumerate();
        items.map(|(i, m)| (key(&self.names, i), m))
    }

    fn items_mut(&mut self) -> impl Iterator<Item = (String, &mut Box<dyn Module>)> {
        let names = &self.names;
        let items = self.modules.iter_mut().enumerate();
        items.map(|(i, m)| (key(names, i), m))
    }

    /// Adds a module at the end under a name instead of a number, as PyTorch's `Sequential` of an `OrderedDict` and
    /// `add_module` do. An error where the name is empty, has dots or is there already.
    ///
    /// ```
    /// # use torsh_nn::{Linear, ModuleExt, ReLU, Sequential};
    /// let mut net = Sequential::new();
    /// net.push_named("fc", Linear::new(2, 3))?;
    /// net.push(ReLU::new());
    /// let names: Vec<String> = net.named_children().into_iter().map(|(name, _)| name).collect();
    /// assert_eq!(names, ["fc", "1"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn push_named(&mut self, name: impl Into<String>, module: impl Module) -> Result<()> {
        let name = name.into();
        if name.is_empty() || name.contains('.') || self.items().any(|(key, _)| key == name) {
            return Err(TorshError::invalid(
                "Sequential",
                format!("a name has no dots, is not empty and not there already, got `{name}`"),
            ));
        }
        self.names.insert(self.modules.len(), name);
        self.push(module);
        Ok(())
    }

    /// The modules with their names, for a model that takes them over.
    ///
    /// ```
    /// # use torsh_nn::{ReLU, sequential};
    /// let items = sequential![ReLU::new()].into_items();
    /// assert_eq!((items.len(), items[0].0.as_str()), (1, "0"));
    /// ```
    pub fn into_items(self) -> Vec<(String, Box<dyn Module>)> {
        let names = self.names;
        let items = self.modules.into_iter().enumerate();
        items.map(|(i, m)| (key(&names, i), m)).collect()
    }

    vec_items!(Sequential);
}

container_fields!(Sequential);

/// How many of the first modules are computed together, and their result: a convolution, a batch norm and an activation
/// that clamps, the norm and one of the others at least; `None` where there is no such group.
#[track_caller]
fn together(modules: &[Box<dyn Module>], x: &Tensor) -> Option<(usize, Result<Tensor>)> {
    let conv = Convolution::of(&**modules.first()?);
    let layers = &modules[usize::from(conv.is_some())..];
    let norm = &**layers.first()?;
    let activation = layers.get(1).map(|m| &**m).filter(|m| range(*m).is_some());
    let n = modules.len() - layers.len() + 1 + usize::from(activation.is_some());
    if n == 1 {
        return None;
    }
    let fused = Fused::new(norm, activation, x)?;
    let result = match conv {
        Some(conv) => fused.run_after(conv, x, None),
        None => fused.run(x, None),
    };
    Some((n, result))
}

impl Module for Sequential {
    #[torsh_tensor::names_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let mut modules = &self.modules[..];
            let mut y: Option<Tensor> = None;
            while let [module, rest @ ..] = modules {
                let x = y.as_ref().unwrap_or(x);
                let (done, result) = match together(modules, x) {
                    Some((n, result)) => (n, result),
                    None => (1, module.forward(x)),
                };
                y = Some(result?);
                modules = &rest[done - 1..];
            }
            Ok(y.unwrap_or_else(|| x.clone()))
        })
    }
}

/// A list of modules (`torch.nn.ModuleList`); their names are `0`, `1`, ..
///
/// A `Vec` of modules of one type does as well as a field; this one holds modules of any types, and
/// is a module itself.
///
/// ```
/// # use torsh_nn::{Linear, Module, ModuleExt, ModuleList, ReLU};
/// # use torsh_tensor::tensor;
/// let list = ModuleList::new().add(Linear::new(2, 3)).add(ReLU::new());
/// assert_eq!(list.state_dict().keys().collect::<Vec<_>>(), ["0.weight", "0.bias"]);
/// assert_eq!(list[1].forward(&tensor![-1.0])?, tensor![0.0]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Default)]
pub struct ModuleList {
    modules: Vec<Box<dyn Module>>,
    hooks: Hooks,
}

impl ModuleList {
    /// No modules yet.
    ///
    /// ```
    /// # use torsh_nn::ModuleList;
    /// assert_eq!(ModuleList::new().len(), 0);
    /// ```
    pub fn new() -> ModuleList {
        ModuleList::default()
    }

    fn items(&self) -> impl Iterator<Item = (String, &Box<dyn Module>)> {
        self.modules
            .iter()
            .enumerate()
            .map(|(i, m)| (i.to_string(), m))
    }

    fn items_mut(&mut self) -> impl Iterator<Item = (String, &mut Box<dyn Module>)> {
        self.modules
            .iter_mut()
            .enumerate()
            .map(|(i, m)| (i.to_string(), m))
    }

    vec_items!(ModuleList);
}

container_fields!(ModuleList);

impl Module for ModuleList {
    /// An error: a list has no order of computation.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(
            TorshError::invalid("ModuleList", "a list of modules computes nothing itself")
                .with_hint("call forward of its items, or use Sequential"),
        )
    }
}

macro_rules! list_conversions {
    ($($name:ident),*) => {$(
        impl<M: Module> From<Vec<M>> for $name {
            fn from(modules: Vec<M>) -> Self {
                modules.into_iter().collect()
            }
        }

        impl<M: Module> FromIterator<M> for $name {
            fn from_iter<I: IntoIterator<Item = M>>(modules: I) -> Self {
                let mut out = $name::new();
                out.extend(modules);
                out
            }
        }

        impl<M: Module> Extend<M> for $name {
            fn extend<I: IntoIterator<Item = M>>(&mut self, modules: I) {
                for m in modules {
                    self.push(m);
                }
            }
        }

        impl Index<usize> for $name {
            type Output = dyn Module;

            fn index(&self, i: usize) -> &Self::Output {
                &*self.modules[i]
            }
        }
    )*};
}

list_conversions!(Sequential, ModuleList);

macro_rules! from_tuple {
    ($($t:ident $i:tt),+) => {
        impl<$($t: Module),+> From<($($t,)+)> for Sequential {
            fn from(modules: ($($t,)+)) -> Self {
                let mut out = Sequential::new();
                $(out.push(modules.$i);)+
                out
            }
        }
    };
}

from_tuple!(A 0);
from_tuple!(A 0, B 1);
from_tuple!(A 0, B 1, C 2);
from_tuple!(A 0, B 1, C 2, D 3);
from_tuple!(A 0, B 1, C 2, D 3, E 4);
from_tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
from_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
from_tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// A [`Sequential`] of the modules in brackets.
#[macro_export]
macro_rules! sequential {
    ($($module:expr),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut modules = $crate::Sequential::new();
        $(modules.push($module);)*
        modules
    }};
}

/// Modules by name, in the order they were inserted (`torch.nn.ModuleDict`).
///
/// ```
/// # use torsh_nn::{Linear, ModuleDict, ModuleExt};
/// let mut dict = ModuleDict::new();
/// dict.insert("head", Linear::new(2, 3))?;
/// assert_eq!(dict.state_dict().keys().collect::<Vec<_>>(), ["head.weight", "head.bias"]);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Default)]
pub struct ModuleDict {
    modules: Vec<(String, Box<dyn Module>)>,
    hooks: Hooks,
}

impl ModuleDict {
    /// No modules yet.
    ///
    /// ```
    /// # use torsh_nn::ModuleDict;
    /// assert_eq!(ModuleDict::new().len(), 0);
    /// ```
    pub fn new() -> ModuleDict {
        ModuleDict::default()
    }

    fn items(&self) -> impl Iterator<Item = (String, &Box<dyn Module>)> {
        self.modules.iter().map(|(key, m)| (key.clone(), m))
    }

    fn items_mut(&mut self) -> impl Iterator<Item = (String, &mut Box<dyn Module>)> {
        self.modules.iter_mut().map(|(key, m)| (key.clone(), m))
    }

    /// Puts a module under a key; the one that was there comes back. An error where the key is
    /// empty or has a dot, which would tear names of parameters apart.
    ///
    /// ```
    /// # use torsh_nn::{ModuleDict, ModuleExt, ReLU, Tanh};
    /// let mut dict = ModuleDict::new();
    /// dict.insert("act", ReLU::new())?;
    /// assert_eq!(dict.insert("act", Tanh::new())?.map(|old| old.repr()), Some("ReLU()".to_string()));
    /// assert!(dict.insert("", ReLU::new()).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn insert(
        &mut self,
        key: impl Into<String>,
        module: impl Module,
    ) -> Result<Option<Box<dyn Module>>> {
        let key = key.into();
        if key.is_empty() || key.contains('.') {
            return Err(TorshError::invalid(
                "ModuleDict",
                format!("a key has no dots and is not empty, got `{key}`"),
            ));
        }
        let module: Box<dyn Module> = Box::new(module);
        match self.modules.iter_mut().find(|(k, _)| *k == key) {
            Some((_, m)) => Ok(Some(std::mem::replace(m, module))),
            None => {
                self.modules.push((key, module));
                Ok(None)
            }
        }
    }

    /// The module of a key.
    ///
    /// ```
    /// # use torsh_nn::{ModuleDict, ModuleFields, ReLU};
    /// let mut dict = ModuleDict::new();
    /// dict.insert("act", ReLU::new())?;
    /// assert_eq!(dict.get("act").map(|m| m.type_name()), Some("ReLU"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn get(&self, key: &str) -> Option<&dyn Module> {
        self.modules
            .iter()
            .find(|(k, _)| k == key)
            .map(|(_, m)| &**m)
    }

    /// The keys, in order.
    ///
    /// ```
    /// # use torsh_nn::{ModuleDict, ReLU, Tanh};
    /// let mut dict = ModuleDict::new();
    /// dict.insert("b", ReLU::new())?;
    /// dict.insert("a", Tanh::new())?;
    /// assert_eq!(dict.keys().collect::<Vec<_>>(), ["b", "a"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.modules.iter().map(|(k, _)| k.as_str())
    }

    /// Keys and modules, in order.
    ///
    /// ```
    /// # use torsh_nn::{ModuleDict, ModuleFields, ReLU};
    /// let mut dict = ModuleDict::new();
    /// dict.insert("act", ReLU::new())?;
    /// assert_eq!(dict.iter().map(|(key, m)| (key, m.type_name())).collect::<Vec<_>>(), [("act", "ReLU")]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, &dyn Module)> {
        self.modules.iter().map(|(k, m)| (k.as_str(), &**m))
    }

    /// How many modules there are.
    ///
    /// ```
    /// # use torsh_nn::{ModuleDict, ReLU};
    /// let mut dict = ModuleDict::new();
    /// dict.insert("act", ReLU::new())?;
    /// assert_eq!(dict.len(), 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// # use torsh_nn::ModuleDict;
    /// assert!(ModuleDict::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }
}

container_fields!(ModuleDict);

impl Module for ModuleDict {
    /// An error: a dictionary has no order of computation.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(TorshError::invalid(
            "ModuleDict",
            "a dictionary of modules computes nothing itself",
        )
        .with_hint("call forward of its items"))
    }
}
