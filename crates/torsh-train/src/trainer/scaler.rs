//! The loss scaler as a part of checkpoints.

use torsh_optim::{GradScaler, named_values, values_by_name};
use torsh_serialize::Value;
use torsh_tensor::Result;

use crate::Stateful;

impl Stateful for GradScaler {
    #[torsh_tensor::names_caller]
    fn save_state(&self) -> Result<Value> {
        Ok(values_by_name(&self.state_dict()?))
    }

    #[torsh_tensor::names_caller]
    fn load_state(&self, state: &Value) -> Result<()> {
        self.load_state_dict(&named_values(state)?)
    }
}
