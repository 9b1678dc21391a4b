//! Optimizer states that travel.

use serde::{Deserialize, Serialize};
use torsh_optim::{OptimizerState, ParamState, StateValue};
use torsh_tensor::{DType, Device, Result, Tensor, TorshError};

use super::Part;
use crate::ProcessGroup;

/// A value of a state, without the elements of tensors.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Form {
    None,
    Bool(bool),
    Int(i64),
    /// As bits, which keep what is no number.
    Float(u64),
    Floats(Vec<u64>),
    Str(String),
    Tensor(Vec<usize>, String),
    List(Vec<Form>),
}

/// The form of a value; its tensors go to `tensors`, in order.
fn form(value: &StateValue, tensors: &mut Vec<Tensor>) -> Result<Form> {
    Ok(match value {
        StateValue::None => Form::None,
        StateValue::Bool(b) => Form::Bool(*b),
        StateValue::Int(i) => Form::Int(*i),
        StateValue::Float(f) => Form::Float(f.to_bits()),
        StateValue::Floats(v) => Form::Floats(v.iter().map(|f| f.to_bits()).collect()),
        StateValue::Str(s) => Form::Str(s.clone()),
        StateValue::Tensor(t) => {
            tensors.push(t.detach().contiguous()?);
            Form::Tensor(t.dims().to_vec(), t.dtype().name().to_string())
        }
        StateValue::List(v) => {
            Form::List(v.iter().map(|v| form(v, tensors)).collect::<Result<_>>()?)
        }
        other => {
            return Err(TorshError::invalid(
                "consolidate_state_dict",
                format!("a state's {other:?} cannot be sent"),
            ));
        }
    })
}

/// The value of a form, with fresh tensors, which go to `tensors` too.
fn value(form: &Form, tensors: &mut Vec<Tensor>) -> Result<StateValue> {
    Ok(match form {
        Form::None => StateValue::None,
        Form::Bool(b) => StateValue::Bool(*b),
        Form::Int(i) => StateValue::Int(*i),
        Form::Float(f) => StateValue::Float(f64::from_bits(*f)),
        Form::Floats(v) => StateValue::Floats(v.iter().map(|f| f64::from_bits(*f)).collect()),
        Form::Str(s) => StateValue::Str(s.clone()),
        Form::Tensor(shape, dtype) => {
            let t = Tensor::zeros(shape.clone(), dtype.parse::<DType>()?, Device::Cpu)?;
            tensors.push(t.clone());
            StateValue::Tensor(t)
        }
        Form::List(v) => {
            StateValue::List(v.iter().map(|f| value(f, tensors)).collect::<Result<_>>()?)
        }
    })
}

/// A value that later steps do not change.
fn copied(value: &StateValue) -> Result<StateValue> {
    Ok(match value {
        StateValue::Tensor(t) => StateValue::Tensor(t.detach().copy()?),
        StateValue::List(v) => StateValue::List(v.iter().map(copied).collect::<Result<_>>()?),
        other => other.clone(),
    })
}

/// The state of all parameters, of each rank's own; on all ranks. Groups are the same everywhere. Its tensors are copies.
pub(crate) fn consolidate(
    group: &ProcessGroup,
    part: &Part,
    own: OptimizerState,
) -> Result<OptimizerState> {
    let mut whole = OptimizerState::default();
    for (number, state) in &own.state {
        let copies = state.iter().map(|(name, v)| Ok((name.clone(), copied(v)?)));
        whole
            .state
            .insert(*number, copies.collect::<Result<ParamState>>()?);
    }
    whole.param_groups = own.param_groups.clone();
    for number in 0..part.params().count() {
        let owner = part.owner(number);
        let here = owner == group.rank();
        let mut tensors = Vec::new();
        let mut forms: Option<Vec<(String, Form)>> = None;
        if here {
            let state = own.state.get(&number).into_iter().flatten();
            let all = state.map(|(name, v)| Ok((name.clone(), form(v, &mut tensors)?)));
            forms = Some(all.collect::<Result<_>>()?);
        }
        let forms = group.broadcast_object(forms.as_ref(), owner)?;
        let mut state = ParamState::new();
        if !here {
            for (name, form) in &forms {
                state.insert(name.clone(), value(form, &mut tensors)?);
            }
        }
        tensors.retain(|t| t.numel() > 0);
        if !tensors.is_empty() {
            group.broadcast_coalesced_(&tensors, owner)?;
        }
        if !here && !forms.is_empty() {
            whole.state.insert(number, state);
        }
    }
    Ok(whole)
}
