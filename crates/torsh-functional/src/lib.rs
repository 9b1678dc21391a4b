//! The functional interface of ToRSh, as torch.nn.functional
