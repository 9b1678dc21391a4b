//! Helpers around layers (`torch.nn.utils`).

pub mod rnn;
