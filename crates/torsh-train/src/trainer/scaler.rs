//! The loss scaler as a part of checkpoints.

use torsh_optim::{GradScaler, named_values, values_by_name};
use torsh_serialize::Value;
use torsh_tensor::Result;

use crate::Stateful;

impl Stateful for GradScaler {
    fn save_state(&self) -> Result<Value> {
        Ok(values_by_name(&self.state_dict()?))
    }

    fn load_state(&self, state: &Value) -> Result<()> {
        self.load_state_dict(&named_values(state)?)
    }
}
