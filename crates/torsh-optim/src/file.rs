//! State dicts as values of files, in PyTorch's form.

use std::collections::BTreeMap;

use torsh_serialize::{Dict, Value};
use torsh_tensor::{Result, TorshError};

use crate::{GroupState, OptimizerState, StateValue};

#[cold]
fn wrong(what: String) -> TorshError {
    TorshError::invalid("OptimizerState", what)
}

fn index(value: &Value) -> Result<usize> {
    usize::try_from(value.as_int()?).map_err(|_| wrong("a parameter's number is negative".into()))
}

/// A value of a file; an error for what no state holds.
impl TryFrom<&Value> for StateValue {
    type Error = TorshError;

    fn try_from(value: &Value) -> Result<StateValue> {
        Ok(match value {
            Value::None => StateValue::None,
            Value::Bool(b) => StateValue::Bool(*b),
            Value::Int(i) => StateValue::Int(*i),
            Value::Float(f) => StateValue::Float(*f),
            Value::Str(s) => StateValue::Str(s.clone()),
            Value::Tensor(t) | Value::Parameter(t) => StateValue::Tensor(t.clone()),
            Value::List(items) | Value::Tuple(items) => {
                let items: Vec<_> = items.iter().map(Self::try_from).collect::<Result<_>>()?;
                let numbers =
                    |v: &StateValue| matches!(v, StateValue::Int(_) | StateValue::Float(_));
                let any_float = items.iter().any(|v| matches!(v, StateValue::Float(_)));
                match any_float && items.iter().all(numbers) {
                    true => StateValue::Floats(items.iter().filter_map(Self::as_f64).collect()),
                    false => StateValue::List(items),
                }
            }
            // A Counter, as MultiStepLR keeps its milestones in.
            Value::Dict(counts) => {
                let mut items = Vec::new();
                for (item, count) in counts.iter() {
                    let count = index(count)?;
                    if count > 1 << 20 {
                        return Err(wrong(format!("{count} times {item:?} is no count")));
                    }
                    items.extend(std::iter::repeat_n(StateValue::Int(item.as_int()?), count));
                }
                StateValue::List(items)
            }
            other => return Err(wrong(format!("{other:?} is no part of a state"))),
        })
    }
}

impl From<&StateValue> for Value {
    fn from(value: &StateValue) -> Value {
        match value {
            StateValue::None => Value::None,
            StateValue::Bool(b) => Value::Bool(*b),
            StateValue::Int(i) => Value::Int(*i),
            StateValue::Float(f) => Value::Float(*f),
            StateValue::Floats(v) => Value::Tuple(v.iter().map(|&f| f.into()).collect()),
            StateValue::Str(s) => Value::Str(s.clone()),
            StateValue::Tensor(t) => Value::Tensor(t.clone()),
            StateValue::List(v) => Value::List(v.iter().map(Value::from).collect()),
        }
    }
}

/// The entries of a dict of a file by name: what a scheduler's `load_state_dict` takes. A list of
/// dicts, as the `_schedulers` of a `SequentialLR`, comes as entries `_schedulers.0.gamma`. An error for
/// a key that is no text or a value that no state holds.
///
/// ```
/// use torsh_optim::{named_values, values_by_name};
/// use torsh_serialize::Value;
/// let saved = Value::from([("last_epoch", Value::from(3)), ("gamma", Value::from(0.1))]);
/// let state = named_values(&saved)?;
/// assert_eq!(state["gamma"].as_f64(), Some(0.1));
/// assert_eq!(values_by_name(&state), saved);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn named_values(value: &Value) -> Result<BTreeMap<String, StateValue>> {
    let mut out = BTreeMap::new();
    flatten("", value, &mut out)?;
    Ok(out)
}

/// The dicts of a list, where it is one of dicts alone whose keys are text.
fn dicts(value: &Value) -> Option<&[Value]> {
    let items = value.as_list().ok()?;
    let named = |item: &Value| {
        let dict = item.as_dict();
        dict.is_ok_and(|d| !d.is_empty() && d.iter().all(|(key, _)| key.as_str().is_ok()))
    };
    (!items.is_empty() && items.iter().all(named)).then_some(items)
}

fn flatten(prefix: &str, value: &Value, out: &mut BTreeMap<String, StateValue>) -> Result<()> {
    for (key, value) in value.as_dict()?.iter() {
        let key = format!("{prefix}{}", key.as_str()?);
        match dicts(value) {
            Some(items) => {
                for (i, item) in items.iter().enumerate() {
                    flatten(&format!("{key}.{i}."), item, out)?;
                }
            }
            None => {
                out.insert(key, value.try_into()?);
            }
        }
    }
    Ok(())
}

/// The dict that [`named_values`] reads, in the form that PyTorch reads.
pub fn values_by_name(state: &BTreeMap<String, StateValue>) -> Value {
    let mut lists: BTreeMap<&str, BTreeMap<usize, BTreeMap<String, StateValue>>> = BTreeMap::new();
    let mut out = Dict::new();
    for (name, value) in state {
        if let Some((list, rest)) = name.split_once('.')
            && let Some((i, key)) = rest.split_once('.')
            && let Ok(i) = i.parse()
        {
            let item = lists.entry(list).or_default().entry(i).or_default();
            item.insert(key.to_string(), value.clone());
            continue;
        }
        let value = match value {
            StateValue::List(items) if name == "milestones" => counter(items),
            value => value.into(),
        };
        // A name is always a key.
        let _ = out.insert(name.clone(), value);
    }
    for (name, items) in lists {
        let items = items.values().map(values_by_name).collect();
        let _ = out.insert(name, Value::List(items));
    }
    Value::Dict(out)
}

/// How often each item is there.
fn counter(items: &[StateValue]) -> Value {
    let mut counts = BTreeMap::new();
    for item in items.iter().filter_map(StateValue::as_i64) {
        *counts.entry(item).or_insert(0i64) += 1;
    }
    let mut dict = Dict::new();
    for (item, count) in counts {
        // A number is always a key.
        let _ = dict.insert(item, count);
    }
    Value::Dict(dict)
}

/// What `torch.optim.Optimizer.state_dict` gives, from a file.
///
/// ```
/// use torsh_nn::{Linear, ModuleExt};
/// use torsh_optim::{Adam, Optimizer, OptimizerState};
/// use torsh_serialize::Value;
/// let net = Linear::new(2, 1);
/// let adam = Adam::new(net.parameters(), 0.5)?;
/// let saved = Value::from(&adam.state_dict());
/// adam.set_lr(0.1);
/// adam.load_state_dict(&OptimizerState::try_from(&saved)?)?;
/// assert_eq!(adam.get_lr(), 0.5);
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
impl TryFrom<&Value> for OptimizerState {
    type Error = TorshError;

    fn try_from(value: &Value) -> Result<OptimizerState> {
        let mut state = BTreeMap::new();
        for (number, remembered) in value.get("state")?.as_dict()?.iter() {
            state.insert(index(number)?, named_values(remembered)?);
        }
        let mut param_groups = Vec::new();
        for group in value.get("param_groups")?.as_list()? {
            let params = group.get("params")?.as_list()?;
            let mut options = BTreeMap::new();
            for (key, setting) in group.as_dict()?.iter() {
                let key = key.as_str()?;
                if key != "params" {
                    options.insert(key.to_string(), setting.try_into()?);
                }
            }
            param_groups.push(GroupState {
                options,
                params: params.iter().map(index).collect::<Result<_>>()?,
            });
        }
        Ok(OptimizerState {
            state,
            param_groups,
        })
    }
}

/// In the form that `torch.optim.Optimizer.load_state_dict` takes.
impl From<&OptimizerState> for Value {
    fn from(from: &OptimizerState) -> Value {
        let mut state = Dict::new();
        for (&number, remembered) in &from.state {
            // A number is always a key.
            let _ = state.insert(number, values_by_name(remembered));
        }
        let group = |group: &GroupState| {
            let params = group.params.iter().map(|&p| p.into()).collect();
            let options = group.options.iter();
            let options = options.map(|(name, value)| (name.clone(), value.into()));
            options
                .chain([("params".to_string(), Value::List(params))])
                .collect()
        };
        let groups = from.param_groups.iter().map(group).collect();
        Value::from([
            ("state", Value::Dict(state)),
            ("param_groups", Value::List(groups)),
        ])
    }
}
