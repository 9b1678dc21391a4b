//! Optimizers of ToRSh, as torch.optim
