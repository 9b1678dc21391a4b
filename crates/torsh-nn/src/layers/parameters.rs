//! Lists and dictionaries of parameters.

use std::ops::Index;

use torsh_tensor::{DType, Result, Tensor, TorshError};

use crate::layers::container::container_fields;
use crate::module::{FieldMut, FieldRef, Hooks, Module, ModuleField, ModuleFields, Parameter};

/// `2x3`, the size of a parameter where it is listed.
fn size(p: &Parameter) -> String {
    let sizes: Vec<String> = p.dims().iter().map(usize::to_string).collect();
    sizes.join("x")
}

/// PyTorch's name of a CPU tensor's type.
fn typename(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "torch.FloatTensor",
        DType::F64 => "torch.DoubleTensor",
        DType::F16 => "torch.HalfTensor",
        DType::BF16 => "torch.BFloat16Tensor",
        DType::C64 => "torch.ComplexFloatTensor",
        DType::C128 => "torch.ComplexDoubleTensor",
        DType::I8 => "torch.CharTensor",
        DType::U8 => "torch.ByteTensor",
        DType::I16 => "torch.ShortTensor",
        DType::I32 => "torch.IntTensor",
        DType::I64 => "torch.LongTensor",
        _ => "torch.BoolTensor",
    }
}

/// A list of parameters (`torch.nn.ParameterList`); their names are `0`, `1`, ..
///
/// A `Vec<Parameter>` does as well as a field; this one is a module itself.
///
/// ```
/// use torsh_nn::{ModuleExt, Parameter, ParameterList};
/// use torsh_tensor::ones;
/// let mut list = ParameterList::new();
/// list.push(Parameter::new(ones(&[2])));
/// list.push(Parameter::new(ones(&[2, 3])));
/// assert_eq!(list.state_dict().keys().collect::<Vec<_>>(), ["0", "1"]);
/// assert_eq!(list[1].dims(), [2, 3]);
/// ```
#[derive(Default)]
pub struct ParameterList {
    parameters: Vec<Parameter>,
    hooks: Hooks,
}

impl ParameterList {
    /// No parameters yet.
    ///
    /// ```
    /// # use torsh_nn::ParameterList;
    /// assert_eq!(ParameterList::new().len(), 0);
    /// ```
    pub fn new() -> ParameterList {
        ParameterList::default()
    }

    fn items(&self) -> impl Iterator<Item = (String, &Parameter)> {
        let numbered = self.parameters.iter().enumerate();
        numbered.map(|(i, p)| (i.to_string(), p))
    }

    fn items_mut(&mut self) -> impl Iterator<Item = (String, &mut Parameter)> {
        let numbered = self.parameters.iter_mut().enumerate();
        numbered.map(|(i, p)| (i.to_string(), p))
    }

    /// Adds a parameter at the end (`append`).
    ///
    /// ```
    /// # use torsh_nn::{Parameter, ParameterList};
    /// # use torsh_tensor::tensor;
    /// let mut list = ParameterList::new();
    /// list.push(Parameter::new(tensor![1.0]));
    /// assert_eq!(list[0].to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn push(&mut self, parameter: Parameter) {
        self.parameters.push(parameter);
    }

    /// Parameter `i`; `None` where there is none.
    ///
    /// ```
    /// # use torsh_nn::{Parameter, ParameterList};
    /// # use torsh_tensor::tensor;
    /// let list: ParameterList = [Parameter::new(tensor![1.0, 2.0])].into_iter().collect();
    /// assert_eq!(list.get(0).map(|p| p.numel()), Some(2));
    /// assert_eq!(list.get(1).map(|p| p.numel()), None);
    /// ```
    pub fn get(&self, i: usize) -> Option<&Parameter> {
        self.parameters.get(i)
    }

    /// How many parameters there are.
    ///
    /// ```
    /// # use torsh_nn::{Parameter, ParameterList};
    /// # use torsh_tensor::tensor;
    /// let list: ParameterList = (0..3).map(|_| Parameter::new(tensor![1.0])).collect();
    /// assert_eq!(list.len(), 3);
    /// ```
    pub fn len(&self) -> usize {
        self.parameters.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// # use torsh_nn::ParameterList;
    /// assert!(ParameterList::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }

    /// The parameters in order.
    ///
    /// ```
    /// # use torsh_nn::{Parameter, ParameterList};
    /// # use torsh_tensor::ones;
    /// let list: ParameterList = (1..4).map(|n| Parameter::new(ones([n]))).collect();
    /// assert_eq!(list.iter().map(|p| p.numel()).collect::<Vec<_>>(), [1, 2, 3]);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter()
    }
}

impl Index<usize> for ParameterList {
    type Output = Parameter;

    fn index(&self, i: usize) -> &Parameter {
        &self.parameters[i]
    }
}

impl Extend<Parameter> for ParameterList {
    fn extend<I: IntoIterator<Item = Parameter>>(&mut self, parameters: I) {
        self.parameters.extend(parameters);
    }
}

impl FromIterator<Parameter> for ParameterList {
    fn from_iter<I: IntoIterator<Item = Parameter>>(parameters: I) -> Self {
        let mut list = ParameterList::new();
        list.extend(parameters);
        list
    }
}

container_fields!(ParameterList);

impl Module for ParameterList {
    /// An error: parameters compute nothing.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(
            TorshError::invalid("ParameterList", "a list of parameters computes nothing")
                .with_hint("compute with its items"),
        )
    }

    fn extra_repr(&self) -> String {
        let line = |(i, p): (String, &Parameter)| {
            let dtype = p.dtype();
            format!(
                "  ({i}): Parameter containing: [torch.{dtype} of size {}]",
                size(p)
            )
        };
        self.items().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Parameters by name, in the order they were inserted (`torch.nn.ParameterDict`).
///
/// ```
/// use torsh_nn::{ModuleExt, Parameter, ParameterDict};
/// use torsh_tensor::ones;
/// let mut dict = ParameterDict::new();
/// dict.insert("scale", Parameter::new(ones(&[2])))?;
/// assert_eq!(dict.state_dict().keys().collect::<Vec<_>>(), ["scale"]);
/// assert_eq!(dict.get("scale").map(|p| p.numel()), Some(2));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Default)]
pub struct ParameterDict {
    parameters: Vec<(String, Parameter)>,
    hooks: Hooks,
}

impl ParameterDict {
    /// No parameters yet.
    ///
    /// ```
    /// # use torsh_nn::ParameterDict;
    /// assert_eq!(ParameterDict::new().len(), 0);
    /// ```
    pub fn new() -> ParameterDict {
        ParameterDict::default()
    }

    fn items(&self) -> impl Iterator<Item = (String, &Parameter)> {
        self.parameters.iter().map(|(key, p)| (key.clone(), p))
    }

    fn items_mut(&mut self) -> impl Iterator<Item = (String, &mut Parameter)> {
        self.parameters.iter_mut().map(|(key, p)| (key.clone(), p))
    }

    /// Puts a parameter under a key; the one that was there comes back. An error where the key is
    /// empty or has a dot, which would tear names of parameters apart.
    ///
    /// ```
    /// # use torsh_nn::{Parameter, ParameterDict};
    /// # use torsh_tensor::tensor;
    /// let mut dict = ParameterDict::new();
    /// dict.insert("a", Parameter::new(tensor![1.0]))?;
    /// let old = dict.insert("a", Parameter::new(tensor![2.0]))?;
    /// assert_eq!(old.map(|p| p.item::<f32>()).transpose()?, Some(1.0));
    /// assert!(dict.insert("a.b", Parameter::new(tensor![1.0])).is_err());
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn insert(
        &mut self,
        key: impl Into<String>,
        parameter: Parameter,
    ) -> Result<Option<Parameter>> {
        let key = key.into();
        if key.is_empty() || key.contains('.') {
            return Err(TorshError::invalid(
                "ParameterDict",
                format!("a key has no dots and is not empty, got `{key}`"),
            ));
        }
        match self.parameters.iter_mut().find(|(k, _)| *k == key) {
            Some((_, p)) => Ok(Some(std::mem::replace(p, parameter))),
            None => {
                self.parameters.push((key, parameter));
                Ok(None)
            }
        }
    }

    /// Takes a parameter out (`pop`).
    ///
    /// ```
    /// # use torsh_nn::{Parameter, ParameterDict};
    /// # use torsh_tensor::tensor;
    /// let mut dict = ParameterDict::new();
    /// dict.insert("a", Parameter::new(tensor![1.0]))?;
    /// assert_eq!(dict.remove("a").map(|p| p.numel()), Some(1));
    /// assert_eq!(dict.len(), 0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn remove(&mut self, key: &str) -> Option<Parameter> {
        let at = self.parameters.iter().position(|(k, _)| k == key)?;
        Some(self.parameters.remove(at).1)
    }

    /// The parameter of a key.
    ///
    /// ```
    /// # use torsh_nn::{Parameter, ParameterDict};
    /// # use torsh_tensor::tensor;
    /// let mut dict = ParameterDict::new();
    /// dict.insert("a", Parameter::new(tensor![1.0]))?;
    /// assert_eq!((dict.get("a").is_some(), dict.get("b").is_some()), (true, false));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn get(&self, key: &str) -> Option<&Parameter> {
        self.iter().find(|(k, _)| *k == key).map(|(_, p)| p)
    }

    /// The keys, in order.
    ///
    /// ```
    /// # use torsh_nn::{Parameter, ParameterDict};
    /// # use torsh_tensor::tensor;
    /// let mut dict = ParameterDict::new();
    /// dict.insert("b", Parameter::new(tensor![1.0]))?;
    /// dict.insert("a", Parameter::new(tensor![1.0]))?;
    /// assert_eq!(dict.keys().collect::<Vec<_>>(), ["b", "a"]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(|(k, _)| k.as_str())
    }

    /// Keys and parameters, in order.
    ///
    /// ```
    /// # use torsh_nn::{Parameter, ParameterDict};
    /// # use torsh_tensor::tensor;
    /// let mut dict = ParameterDict::new();
    /// dict.insert("a", Parameter::new(tensor![1.0, 2.0]))?;
    /// assert_eq!(dict.iter().map(|(key, p)| (key, p.numel())).collect::<Vec<_>>(), [("a", 2)]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Parameter)> {
        self.parameters.iter().map(|(k, p)| (k.as_str(), p))
    }

    /// How many parameters there are.
    ///
    /// ```
    /// # use torsh_nn::{Parameter, ParameterDict};
    /// # use torsh_tensor::tensor;
    /// let mut dict = ParameterDict::new();
    /// dict.insert("a", Parameter::new(tensor![1.0]))?;
    /// assert_eq!(dict.len(), 1);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    pub fn len(&self) -> usize {
        self.parameters.len()
    }

    /// Whether there are none.
    ///
    /// ```
    /// # use torsh_nn::ParameterDict;
    /// assert!(ParameterDict::new().is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }
}

container_fields!(ParameterDict);

impl Module for ParameterDict {
    /// An error: parameters compute nothing.
    #[torsh_tensor::names_caller]
    fn forward(&self, _x: &Tensor) -> Result<Tensor> {
        Err(TorshError::invalid(
            "ParameterDict",
            "a dictionary of parameters computes nothing",
        )
        .with_hint("compute with its items"))
    }

    fn extra_repr(&self) -> String {
        let line = |(key, p): (&str, &Parameter)| {
            let kind = typename(p.dtype());
            format!(
                "  ({key}): Parameter containing: [{kind} of size {}]",
                size(p)
            )
        };
        self.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}
