//! What a file holds and this framework has no value for.

use std::fmt;

use torsh_tensor::TorshError;

use crate::Value;

/// The hint of errors that one entry of a file causes.
pub(crate) const OTHERS: &str = "torsh_serialize::load_readable(path) gives the file's other tensors and says what it leaves out";

/// Stands for what a file holds and this framework has no value for: a tensor of float8, an object of a class of Python.
/// [`LoadOptions::keep_foreign`](crate::LoadOptions::keep_foreign) puts it where the thing is in the file. It is data;
/// no class of the file is looked up, and none of its code is run.
#[derive(Clone, PartialEq)]
pub struct Foreign {
    pub(crate) what: String,
    pub(crate) why: String,
    pub(crate) contents: Option<Box<Value>>,
}

impl Foreign {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Foreign {
        Foreign {
            what: what.into(),
            why: why.into(),
            contents: None,
        }
    }

    /// What it is: `float8_e4m3fn [2, 3]`, `an object of argparse.Namespace`.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Why there is no value for it.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The attributes, items or arguments of an object, as data. Tensors can be among them.
    pub fn contents(&self) -> Option<&Value> {
        self.contents.as_deref()
    }

    /// The error of a reader that needs its value, with the place in the file.
    #[track_caller]
    pub(crate) fn error(&self, name: &str) -> TorshError {
        TorshError::dtype("load", format!("{name} is {}: {}", self.what, self.why))
            .with_hint(OTHERS)
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Foreign({}: {})", self.what, self.why)
    }
}

/// An entry of a file that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Its name, keys of containers joined by dots.
    pub name: String,
    /// What it is: `float8_e4m3fn [2, 3]`, `an object of argparse.Namespace`.
    pub what: String,
    /// Why it is not read.
    pub why: String,
}

impl LeftOut {
    pub(crate) fn new(name: impl Into<String>, foreign: &Foreign) -> LeftOut {
        LeftOut {
            name: name.into(),
            what: foreign.what.clone(),
            why: foreign.why.clone(),
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.name, self.what, self.why)
    }
}
